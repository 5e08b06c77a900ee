//! From samples to parameters: least squares on the logarithm for products, on relative errors for what is linear.
//!
//! Only the forms of [`crate::cost`] are fitted, so that a file says nothing the cost model would not read.

pub mod gemm;
pub mod lines;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::sample::Estimate;

/// Resamplings behind an interval.
const RESAMPLINGS: usize = 100;

/// 95 % intervals of parameters by the bootstrap over points (Efron 1979): `refit` gets how often each point counts.
pub(super) fn bootstrap<const N: usize>(
    values: [f64; N],
    points: usize,
    refit: impl Fn(&[f64]) -> Option<[f64; N]>,
) -> [Estimate; N] {
    let mut rng = ChaCha8Rng::seed_from_u64(points as u64);
    let mut drawn: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(RESAMPLINGS));
    for _ in 0..RESAMPLINGS {
        let mut weights = vec![0.0; points];
        for _ in 0..points {
            weights[rng.random_range(0..points)] += 1.0;
        }
        if let Some(again) = refit(&weights) {
            drawn
                .iter_mut()
                .zip(again)
                .for_each(|(list, value)| list.push(value));
        }
    }
    std::array::from_fn(|i| {
        let end = |p: f64| crate::stats::quantile(&drawn[i], p).unwrap_or(values[i]);
        Estimate {
            value: values[i],
            low: end(0.025).min(values[i]),
            high: end(0.975).max(values[i]),
            n: points,
        }
    })
}
