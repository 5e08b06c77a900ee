//! The five numbers of a matrix product.
//!
//! `t = t0 + κK + ((F/P)^p + (B/W)^p)^(1/p)` with `F = 2MNK` and `B = b_in(NK + MK) + b_out·MN`, by least squares on
//! `ln t` over the logarithms of the parameters with a soft-L1 loss of scale 0.1: on published tables of H200 it is 5 %
//! (median) off points that it has not seen, about what the library scatters from shape to shape.

use super::bootstrap;
use crate::calibrate::solve::{Loss, Parameter, Task};
use crate::cost::kernel::pnorm;
use crate::probe::plan::{Format, Shape};
use crate::probe::sample::Estimate;

/// One product and its time in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Which product.
    pub shape: Shape,
    /// Measured time.
    pub seconds: Estimate,
}

/// The fitted form.
#[derive(Clone, Debug, PartialEq)]
pub struct C5Fit {
    /// `P`, FLOP/s.
    pub flops_per_s: Estimate,
    /// `W`, bytes/s.
    pub bytes_per_s: Estimate,
    /// `t0`, seconds.
    pub t0: Estimate,
    /// `p`.
    pub pnorm: Estimate,
    /// `κ`, seconds an input channel.
    pub kappa: Estimate,
    /// Standard deviation of ln(model/measured) on shapes of weights that were left out of the fit.
    pub sigma_ln: f64,
    /// Mean of the same.
    pub bias_ln: f64,
}

/// Fewest points that decide five parameters and leave something to judge them by.
pub const FEWEST: usize = 16;

/// `P`, `W`, `t0`, `p`, `κ` in SI units.
type Five = [f64; 5];

fn flops(shape: Shape) -> f64 {
    2.0 * shape.m as f64 * shape.n as f64 * shape.k as f64
}

fn bytes(format: Format, Shape { m, n, k }: Shape) -> f64 {
    (format.input_bytes() * (n * k + m * k) + format.output_bytes() * m * n) as f64
}

fn seconds([p_rate, w_rate, t0, p, kappa]: Five, format: Format, shape: Shape) -> f64 {
    t0 + kappa * shape.k as f64 + pnorm(flops(shape) / p_rate, bytes(format, shape) / w_rate, p)
}

/// Bounds of `p`: outside, the form is a plain sum or a plain maximum already.
const PNORM: (f64, f64) = (0.67, 20.0);
/// Bounds of `t0` and `κ`, s: below them a term is zero for every purpose, and its derivative would vanish.
const T0: (f64, f64) = (1e-12, 1e-2);
const KAPPA: (f64, f64) = (1e-15, 1e-6);
/// Expected error of a point, of the logarithm.
const ROW_SIGMA: f64 = 0.06;
/// A probe believes nothing beforehand: its start is worth less than one point.
const UNKNOWN: f64 = 10.0;

fn solve(format: Format, rows: &[Row], weights: &[f64]) -> Five {
    let used: Vec<(&Row, f64)> = rows
        .iter()
        .zip(weights.iter().copied())
        .filter(|(_, w)| *w > 0.0)
        .collect();
    let most = |f: &dyn Fn(&Row) -> f64| {
        used.iter()
            .map(|(row, _)| f(row))
            .fold(f64::MIN_POSITIVE, f64::max)
    };
    let rate = most(&|row| flops(row.shape) / row.seconds.value);
    let bandwidth = most(&|row| bytes(format, row.shape) / row.seconds.value);
    let least = used
        .iter()
        .map(|(row, _)| row.seconds.value)
        .fold(f64::INFINITY, f64::min);
    let around = |rate: f64| (rate / 10.0, rate * 100.0);
    let parameters = [
        Parameter::factor("p_tflops", around(rate), rate, UNKNOWN),
        Parameter::factor("w_gbs", around(bandwidth), bandwidth, UNKNOWN),
        Parameter::factor("t0_us", T0, least, UNKNOWN),
        Parameter::factor("pnorm", PNORM, 3.0, UNKNOWN),
        Parameter::factor("kappa_ns", KAPPA, 1e-10, UNKNOWN),
    ];
    let five = |values: &[f64]| -> Five { std::array::from_fn(|i| values[i]) };
    let weights: Vec<f64> = used.iter().map(|(_, weight)| *weight).collect();
    let task = Task {
        parameters: &parameters,
        errors: &|values| {
            let error = |row: &Row| (seconds(five(values), format, row.shape) / row.seconds.value).ln();
            used.iter().map(|(row, _)| error(row)).collect()
        },
        weights: &weights,
        shifts: &[0.0; 5],
        sigma: ROW_SIGMA,
        loss: Loss::SoftL1,
    };
    let start = parameters.iter().map(|parameter| parameter.prior).collect();
    five(&task.solve(&[start]))
}

/// Fits the form; `None` for fewer than [`FEWEST`] rows.
#[must_use]
pub fn fit(format: Format, rows: &[Row]) -> Option<C5Fit> {
    if rows.len() < FEWEST {
        return None;
    }
    let values = solve(format, rows, &vec![1.0; rows.len()]);
    let refit = |weights: &[f64]| Some(solve(format, rows, weights));
    let [flops_per_s, bytes_per_s, t0, pnorm, kappa] = bootstrap(values, rows.len(), refit);
    let (sigma_ln, bias_ln) = leave_one_out(format, rows);
    Some(C5Fit {
        flops_per_s,
        bytes_per_s,
        t0,
        pnorm,
        kappa,
        sigma_ln,
        bias_ln,
    })
}

/// Standard deviation and mean of ln(model/measured), each shape of weights judged by a fit to the others.
fn leave_one_out(format: Format, rows: &[Row]) -> (f64, f64) {
    let mut shapes: Vec<(u64, u64)> = rows.iter().map(|row| (row.shape.n, row.shape.k)).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let mut off = Vec::with_capacity(rows.len());
    for out in shapes {
        let is_out = |row: &Row| (row.shape.n, row.shape.k) == out;
        let weights: Vec<f64> = rows.iter().map(|row| f64::from(u8::from(!is_out(row)))).collect();
        if weights.iter().sum::<f64>() < 6.0 {
            continue;
        }
        let values = solve(format, rows, &weights);
        let judged = rows.iter().filter(|row| is_out(row));
        off.extend(judged.map(|row| (seconds(values, format, row.shape) / row.seconds.value).ln()));
    }
    let running: crate::stats::Running = off.into_iter().collect();
    (running.variance().sqrt(), running.mean())
}

#[cfg(test)]
pub(in crate::probe) mod testing {
    use super::{Format, Shape, seconds};

    /// Numbers of H200 in bf16.
    pub(in crate::probe) const H200: [f64; 5] = [776e12, 4250e9, 3.3e-6, 3.9, 0.38e-9];

    pub(in crate::probe) fn true_seconds(format: Format, shape: Shape) -> f64 {
        seconds(H200, format, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{H200, true_seconds};
    use super::*;
    use crate::probe::plan::{ROWS, WEIGHTS};

    fn rows(noise: f64) -> Vec<Row> {
        let shapes = WEIGHTS
            .into_iter()
            .flat_map(|(n, k)| ROWS.map(|m| Shape { m, n, k }));
        shapes
            .enumerate()
            .map(|(i, shape)| {
                // A deterministic scatter without a trend in any size.
                let off = noise * ((i * 37 % 64) as f64 / 31.5 - 1.0);
                let value = true_seconds(Format::Bf16, shape) * off.exp();
                Row {
                    shape,
                    seconds: Estimate {
                        value,
                        low: value,
                        high: value,
                        n: 9,
                    },
                }
            })
            .collect()
    }

    fn check(fit: &C5Fit, tolerance: [f64; 5]) {
        let found = [
            &fit.flops_per_s,
            &fit.bytes_per_s,
            &fit.t0,
            &fit.pnorm,
            &fit.kappa,
        ];
        for (i, (found, tolerance)) in found.into_iter().zip(tolerance).enumerate() {
            let off = (found.value / H200[i] - 1.0).abs();
            assert!(
                off < tolerance,
                "parameter {i}: {} instead of {}",
                found.value,
                H200[i]
            );
        }
    }

    #[test]
    fn exact_times_give_the_parameters_back() {
        let fit = fit(Format::Bf16, &rows(0.0)).unwrap();
        check(&fit, [1e-3; 5]);
        assert!(fit.sigma_ln < 1e-3);
    }

    #[test]
    fn noise_of_ten_percent_moves_the_rates_little_and_is_reported() {
        let fit = fit(Format::Bf16, &rows(0.17)).unwrap();
        check(&fit, [0.06, 0.06, 0.3, 0.6, 0.8]);
        assert!((0.07..0.14).contains(&fit.sigma_ln), "{}", fit.sigma_ln);
        assert!(fit.flops_per_s.low < 776e12 && 776e12 < fit.flops_per_s.high);
    }

    #[test]
    fn a_wild_point_hardly_counts_and_too_few_do_not_fit() {
        let mut wild = rows(0.0);
        wild[20].seconds.value *= 5.0;
        check(&fit(Format::Bf16, &wild).unwrap(), [0.02, 0.02, 0.1, 0.1, 0.2]);
        assert!(fit(Format::Bf16, &wild[..FEWEST - 1]).is_none());
    }
}
