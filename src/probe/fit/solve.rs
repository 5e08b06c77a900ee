//! Two small solvers: linear equations, and Levenberg-Marquardt with a numeric Jacobian.
//!
//! A probe fits at most five parameters to at most a hundred points, for which normal equations suffice; the parameters are
//! logarithms, so that nothing turns negative.

/// Solves `a·x = b` by elimination with pivots; `None` where the equations do not decide `x`.
pub(super) fn linear<const N: usize>(mut a: [[f64; N]; N], mut b: [f64; N]) -> Option<[f64; N]> {
    for column in 0..N {
        let pivot = (column..N).max_by(|i, j| a[*i][column].abs().total_cmp(&a[*j][column].abs()))?;
        if a[pivot][column].is_nan() || a[pivot][column].abs() <= 1e-300 {
            return None;
        }
        a.swap(column, pivot);
        b.swap(column, pivot);
        for row in column + 1..N {
            let factor = a[row][column] / a[column][column];
            let above = a[column];
            for (entry, above) in a[row].iter_mut().zip(above).skip(column) {
                *entry -= factor * above;
            }
            b[row] -= factor * b[column];
        }
    }
    for column in (0..N).rev() {
        let known: f64 = (column + 1..N).map(|i| a[column][i] * b[i]).sum();
        b[column] = (b[column] - known) / a[column][column];
    }
    b.iter().all(|x| x.is_finite()).then_some(b)
}

/// Minimises the sum of squares of `residuals` from `start` (Marquardt 1963, damping scaled by the diagonal).
pub(super) fn levenberg_marquardt<const N: usize>(
    start: [f64; N],
    residuals: impl Fn(&[f64; N]) -> Vec<f64>,
) -> [f64; N] {
    const STEP: f64 = 1e-6;
    let squares = |r: &[f64]| r.iter().map(|x| x * x).sum::<f64>();
    let (mut x, mut damping) = (start, 1e-3);
    let mut r = residuals(&x);
    for _ in 0..200 {
        let columns: [Vec<f64>; N] = std::array::from_fn(|i| {
            let mut moved = x;
            moved[i] += STEP;
            let shifted = residuals(&moved);
            shifted.iter().zip(&r).map(|(a, b)| (a - b) / STEP).collect()
        });
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let gradient: [f64; N] = std::array::from_fn(|i| -dot(&columns[i], &r));
        let mut normal: [[f64; N]; N] =
            std::array::from_fn(|i| std::array::from_fn(|j| dot(&columns[i], &columns[j])));
        for (i, row) in normal.iter_mut().enumerate() {
            // A parameter that nothing depends on stays where it is.
            row[i] += damping * row[i] + 1e-12;
        }
        let Some(step) = linear(normal, gradient) else {
            break;
        };
        let tried: [f64; N] = std::array::from_fn(|i| x[i] + step[i].clamp(-1.0, 1.0));
        let after = residuals(&tried);
        let (old, new) = (squares(&r), squares(&after));
        if new < old {
            let is_done = old - new <= 1e-12 * old;
            (x, r, damping) = (tried, after, damping * 0.3);
            if is_done {
                break;
            }
        } else {
            damping *= 4.0;
            if damping > 1e12 {
                break;
            }
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_solved_and_undecided_ones_refused() {
        assert_eq!(linear([[0.0, 2.0], [4.0, 0.0]], [6.0, 4.0]), Some([1.0, 3.0]));
        assert_eq!(linear([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]), None);
    }

    #[test]
    fn rosenbrocks_valley_is_followed_to_its_end() {
        let found = levenberg_marquardt([-1.2, 1.0], |[x, y]| vec![10.0 * (y - x * x), 1.0 - x]);
        assert!(
            (found[0] - 1.0).abs() < 1e-4 && (found[1] - 1.0).abs() < 1e-4,
            "{found:?}"
        );
    }
}
