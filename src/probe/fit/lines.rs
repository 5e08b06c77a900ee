//! Forms that are linear in their parameters: bytes curves, links, decode attention.
//!
//! Relative errors are squared, and no parameter may be negative: of the subsets of terms that stay positive, the one
//! with the least error is taken, which for four terms is exact and sixteen small systems.

use nalgebra::{DMatrix, DVector};

use super::bootstrap;
use crate::probe::sample::Estimate;

/// `y = Σ xᵢ·cᵢ` with `cᵢ ≥ 0`, by weighted least squares on relative errors; `None` where nothing is decided.
fn not_negative<const N: usize>(rows: &[([f64; N], f64)], weights: &[f64]) -> Option<[f64; N]> {
    let mut best: Option<(f64, [f64; N])> = None;
    for subset in 1..1_u32 << N {
        let is_in = |i: usize| subset >> i & 1 == 1;
        let mut a = [[0.0; N]; N];
        let mut b = [0.0; N];
        for ((x, y), weight) in rows.iter().zip(weights) {
            for i in (0..N).filter(|i| is_in(*i)) {
                for j in (0..N).filter(|j| is_in(*j)) {
                    a[i][j] += weight * x[i] * x[j] / (y * y);
                }
                b[i] += weight * x[i] / y;
            }
        }
        for i in (0..N).filter(|i| !is_in(*i)) {
            a[i][i] = 1.0;
        }
        let Some(c) = linear(a, b).filter(|c| c.iter().all(|c| *c >= 0.0)) else {
            continue;
        };
        let error: f64 = rows
            .iter()
            .zip(weights)
            .map(|((x, y), weight)| {
                let model: f64 = x.iter().zip(c).map(|(x, c)| x * c).sum();
                weight * (model / y - 1.0).powi(2)
            })
            .sum();
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, c));
        }
    }
    best.map(|(_, c)| c)
}

/// Solves `a·x = b`; `None` where the equations do not decide `x`.
fn linear<const N: usize>(a: [[f64; N]; N], b: [f64; N]) -> Option<[f64; N]> {
    let a = DMatrix::from_fn(N, N, |i, j| a[i][j]);
    let x = a.lu().solve(&DVector::from_column_slice(&b))?;
    let x: [f64; N] = std::array::from_fn(|i| x[i]);
    x.iter().all(|x| x.is_finite()).then_some(x)
}

/// Standard deviation of ln(model/measured).
fn sigma_ln<const N: usize>(rows: &[([f64; N], f64)], c: &[f64; N]) -> f64 {
    let off = rows.iter().map(|(x, y)| {
        let model: f64 = x.iter().zip(c).map(|(x, c)| x * c).sum();
        (model / y).ln()
    });
    off.collect::<crate::stats::Running>().variance().sqrt()
}

/// `t = α + bytes/β`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// `α`, seconds.
    pub alpha: Estimate,
    /// `β`, bytes/s.
    pub bytes_per_s: Estimate,
}

/// Fits a line through (bytes, seconds); `None` for fewer than two sizes or a time that does not grow.
#[must_use]
pub fn line(points: &[(f64, f64)]) -> Option<Line> {
    // Bytes in gigabytes and seconds keep the equations near one.
    let rows: Vec<([f64; 2], f64)> = points
        .iter()
        .map(|(bytes, seconds)| ([1.0, bytes / 1e9], *seconds))
        .collect();
    if rows.len() < 2 {
        return None;
    }
    let values = not_negative(&rows, &vec![1.0; rows.len()]).filter(|c| c[1] > 0.0)?;
    let refit = |weights: &[f64]| not_negative(&rows, weights).filter(|c| c[1] > 0.0);
    let [alpha, per_gb] = bootstrap(values, rows.len(), refit);
    Some(Line {
        alpha,
        bytes_per_s: per_gb.map(|seconds| 1e9 / seconds),
    })
}

/// One decode step's attention in one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeRow {
    /// Sequences times KV heads.
    pub seq_heads: f64,
    /// KV tokens of the longest.
    pub longest: f64,
    /// Bytes of KV read.
    pub kv_bytes: f64,
    /// Measured.
    pub seconds: f64,
}

/// `t = t0 + c·(batch·n_kv) + k·S_max + KV_bytes/W`.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeFit {
    /// `t0`, seconds.
    pub t0: Estimate,
    /// `c`, seconds.
    pub per_seq_head: Estimate,
    /// `k`, seconds.
    pub per_token: Estimate,
    /// `W`, bytes/s.
    pub bytes_per_s: Estimate,
    /// Standard deviation of ln(model/measured) over the fitted points.
    pub sigma_ln: f64,
}

/// Fits decode attention; `None` for fewer than eight points or where time does not grow with the KV.
#[must_use]
pub fn decode(points: &[DecodeRow]) -> Option<DecodeFit> {
    // Microseconds, thousands and gigabytes keep the equations near one.
    let rows: Vec<([f64; 4], f64)> = points
        .iter()
        .map(|row| {
            let x = [1.0, row.seq_heads / 1e3, row.longest / 1e4, row.kv_bytes / 1e9];
            (x, row.seconds * 1e6)
        })
        .collect();
    if rows.len() < 8 {
        return None;
    }
    let values = not_negative(&rows, &vec![1.0; rows.len()]).filter(|c| c[3] > 0.0)?;
    let refit = |weights: &[f64]| not_negative(&rows, weights).filter(|c| c[3] > 0.0);
    let [t0, per_seq_head, per_token, per_gb] = bootstrap(values, rows.len(), refit);
    Some(DecodeFit {
        t0: t0.map(|us| us * 1e-6),
        per_seq_head: per_seq_head.map(|us| us * 1e-9),
        per_token: per_token.map(|us| us * 1e-10),
        bytes_per_s: per_gb.map(|us| 1e15 / us),
        sigma_ln: sigma_ln(&rows, &values),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Estimate, expected: f64) {
        assert!(
            (found.value / expected - 1.0).abs() < 1e-6,
            "{found:?}, not {expected}"
        );
    }

    #[test]
    fn equations_are_solved_and_undecided_ones_refused() {
        assert_eq!(linear([[0.0, 2.0], [4.0, 0.0]], [6.0, 4.0]), Some([1.0, 3.0]));
        assert_eq!(linear([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0]), None);
    }

    #[test]
    fn a_line_and_a_decode_step_give_their_parameters_back() {
        let link = |bytes: f64| (bytes, 7e-6 + bytes / 55e9);
        let fitted = line(&[4096.0, 65536.0, 1e6, 1.6e7, 2.5e8].map(link)).unwrap();
        near(fitted.alpha, 7e-6);
        near(fitted.bytes_per_s, 55e9);
        let rows: Vec<DecodeRow> = [
            (1.0, 2048.0),
            (1.0, 32768.0),
            (8.0, 512.0),
            (8.0, 8192.0),
            (32.0, 2048.0),
            (32.0, 512.0),
            (128.0, 512.0),
            (128.0, 8192.0),
            (256.0, 1024.0),
        ]
        .into_iter()
        .map(|(batch, context)| {
            let (seq_heads, kv_bytes) = (batch * 8.0, batch * context * 4096.0);
            let seconds = 5e-6 + 16e-9 * seq_heads + 0.13e-9 * context + kv_bytes / 4370e9;
            DecodeRow {
                seq_heads,
                longest: context,
                kv_bytes,
                seconds,
            }
        })
        .collect();
        let fitted = decode(&rows).unwrap();
        near(fitted.t0, 5e-6);
        near(fitted.per_seq_head, 16e-9);
        near(fitted.per_token, 0.13e-9);
        near(fitted.bytes_per_s, 4370e9);
        assert!(fitted.sigma_ln < 1e-9);
        assert_eq!(decode(&rows[..7]), None);
    }

    #[test]
    fn no_term_turns_negative_where_the_data_would_like_it() {
        // A curve that bends downwards asks for a negative offset.
        let fitted = line(&[(1e6, 1e-6), (1e7, 2e-5), (1e8, 3e-4)]).unwrap();
        assert_eq!(fitted.alpha.value, 0.0);
        assert!(fitted.bytes_per_s.value > 0.0);
        assert_eq!(line(&[(1.0, 1.0)]), None);
    }
}
