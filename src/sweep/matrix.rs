//! Every column of every row, in parallel: variants under seeds.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// What `evaluate` says of each row and column, row by row, for any number of threads in the same order. `tell` learns how
/// many are done.
pub fn matrix<T: Send>(
    rows: usize,
    columns: usize,
    evaluate: impl Fn(usize, usize) -> T + Sync,
    tell: impl Fn(usize) + Sync,
) -> Vec<Vec<T>> {
    let done = AtomicUsize::new(0);
    let mut all: Vec<T> = (0..rows * columns)
        .into_par_iter()
        .map(|index| {
            let value = evaluate(index / columns, index % columns);
            tell(done.fetch_add(1, Ordering::Relaxed) + 1);
            value
        })
        .collect();
    let mut matrix = Vec::with_capacity(rows);
    for _ in 0..rows {
        let rest = all.split_off(columns);
        matrix.push(std::mem::replace(&mut all, rest));
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_is_in_its_place() {
        let cells = matrix(3, 2, |row, column| 10 * row + column, |_| {});
        assert_eq!(cells, [[0, 1], [10, 11], [20, 21]]);
        assert!(matrix(0, 2, |_, _| 0, |_| {}).is_empty());
    }
}
