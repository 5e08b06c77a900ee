//! Every column of every row, in parallel: variants under seeds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What `evaluate` says of each row and column, row by row, for any number of threads in the same order. `tell` learns how
/// many are done. Column after column is taken in hand, and the first `None` ends it: then the columns of which every row is
/// there are what is left, in their order.
pub fn matrix<T: Send>(
    rows: usize,
    columns: usize,
    evaluate: impl Fn(usize, usize) -> Option<T> + Sync,
    tell: impl Fn(usize) + Sync,
) -> Vec<Vec<T>> {
    let (next, done, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let found: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    // Not a parallel iterator: that would begin in the middle of the work, and leave no column whole if it is stopped.
    rayon::broadcast(|_| {
        while !is_over.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= rows * columns {
                return;
            }
            match evaluate(index % rows, index / rows) {
                Some(value) => {
                    let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    found.push((index, value));
                    drop(found);
                    tell(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
                None => is_over.store(true, Ordering::Relaxed),
            }
        }
    });
    let mut found = found
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    found.sort_by_key(|(index, _)| *index);
    let mut of_column = vec![0; columns];
    for (index, _) in &found {
        of_column[index / rows] += 1;
    }
    let mut matrix: Vec<Vec<T>> = (0..rows).map(|_| Vec::new()).collect();
    for (index, value) in found {
        if of_column[index / rows] == rows {
            matrix[index % rows].push(value);
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_is_in_its_place() {
        let cells = matrix(3, 2, |row, column| Some(10 * row + column), |_| {});
        assert_eq!(cells, [[0, 1], [10, 11], [20, 21]]);
        assert!(matrix(0, 2, |_, _| Some(0), |_| {}).is_empty());
    }

    #[test]
    fn what_is_stopped_leaves_whole_columns_the_first_ones() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let evaluate = |row: usize, column: usize| (10 * column + row < 31).then_some(10 * column + row);
        let cells = pool.install(|| matrix(2, 500, evaluate, |_| {}));
        assert_eq!(cells, [[0, 10, 20], [1, 11, 21]]);
    }
}
