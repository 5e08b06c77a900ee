//! How much of what the engine can do is asked of it, where nobody waits.
//!
//! An engine without an effective cap on its batch takes everybody in: overload makes the number *running* grow, and the
//! steps with it. Filling up looks the same at first, and close to saturation for a long time: the number in a
//! processor-sharing queue relaxes over `1/(1 − ρ)` stays. Neither growth nor its bend tells the two apart in time.
//! The utilisation law does (Denning and Buzen 1978, "The operational analysis of queueing network models"): every
//! second of a busy engine goes into steps, into their tokens and into prompts,
//!
//! ```text
//! 1 = a·(steps/s) + c·(output tokens/s) + p·(arrivals/s)
//! ```
//!
//! which holds in every interval of a run, filling up or not, and is solved for `a`, `c` and `p` by least squares. Steps
//! per second are output tokens per second over sequences running. The load is what arrivals will ask for:
//! `ρ = λ·(c·output tokens per request + p)`. Steps are left out of it, since a larger batch spreads them over more
//! tokens; above 1 no batch is large enough. What it ignores: costs that bend with the batch (they bend upwards, so
//! that ρ is too low rather than too high), and contexts that still grow in a run shorter than a stay.

use crate::metrics::SeriesPoint;

/// Intervals that the identity is fitted to: long enough that a step across an edge matters little.
const INTERVALS: usize = 12;
/// Fewest intervals, for three unknowns.
const INTERVALS_MIN: usize = 8;
/// Share of the sending at its start that is left out, while the first steps carry hardly anybody.
const START: f64 = 0.1;
/// Quantile 0.99 of F with 2 and 9 degrees of freedom: less, and steps of one length explain the run as well. Then
/// nothing is shared, and nothing can be said of a load.
const F_SIGNIFICANT: f64 = 8.02;
/// Determinant, of columns scaled to a mean of one, below which steps, tokens and prompts cannot be told apart.
const SINGULAR: f64 = 1e-12;

/// Standard error of the load above which it is no figure to tell.
const ERROR_MAX: f64 = 0.1;

/// What is asked of the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offered {
    /// As a share of what it can do, ρ; right on average, which is enough to tell overload by.
    pub(super) load: f64,
    /// Known well enough to be told: within [`ERROR_MAX`], from costs that an engine can have, none below nothing.
    pub(super) is_known: bool,
}

/// The offered load, from what happened between the first arrival and the last, in seconds. `None` where too little
/// happened, or always the same.
pub(super) fn offered_load(
    series: &[SeriesPoint],
    first_arrival_s: f64,
    last_arrival_s: f64,
    arrivals_per_s: f64,
    output_tokens: f64,
) -> Option<Offered> {
    let from_s = first_arrival_s + START * (last_arrival_s - first_arrival_s);
    let seen: Vec<&SeriesPoint> = series
        .iter()
        .filter(|point| point.t_s >= from_s && point.t_s <= last_arrival_s)
        .collect();
    let size = seen.len().div_ceil(INTERVALS).max(1);
    let mean = |points: &[&SeriesPoint], of: fn(&SeriesPoint) -> f64| {
        points.iter().map(|point| of(point)).sum::<f64>() / points.len() as f64
    };
    let rows: Vec<[f64; 3]> = seen
        .chunks_exact(size)
        .map(|points| {
            let tokens = mean(points, |point| point.output_tokens_per_s);
            let running = mean(points, |point| point.running);
            [
                tokens / running,
                tokens,
                mean(points, |point| point.arrivals_per_s),
            ]
        })
        .filter(|row| row.iter().all(|rate| rate.is_finite()) && row[1] > 0.0)
        .collect();
    if rows.len() < INTERVALS_MIN {
        return None;
    }
    let scale = [0, 1, 2].map(|column| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64);
    let scaled: Vec<[f64; 3]> = rows
        .iter()
        .map(|row| [0, 1, 2].map(|column| row[column] / scale[column]))
        .collect();
    let sum = |of: &dyn Fn(&[f64; 3]) -> f64| scaled.iter().map(of).sum::<f64>();
    let products = [0, 1, 2].map(|i| [0, 1, 2].map(|j| sum(&|row| row[i] * row[j])));
    // The shares with which the columns best add up to 1 in every row: the normal equations.
    let shares = solved(&products, [0, 1, 2].map(|i| sum(&|row| row[i])))?;
    if explained(&scaled, &shares) < F_SIGNIFICANT {
        return None;
    }
    let weights = [
        0.0,
        arrivals_per_s * output_tokens / scale[1],
        arrivals_per_s / scale[2],
    ];
    let left = sum(&|row| (1.0 - dot(row, &shares)).powi(2)) / (scaled.len() as f64 - 3.0);
    let error = (left * dot(&weights, &solved(&products, weights)?)).sqrt();
    Some(Offered {
        load: dot(&weights, &shares),
        is_known: error <= ERROR_MAX && shares.iter().all(|&share| share >= 0.0),
    })
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The solution of three linear equations by Cramer's rule; `None` where they say too little.
fn solved(equations: &[[f64; 3]; 3], right: [f64; 3]) -> Option<[f64; 3]> {
    let whole = determinant(equations);
    let size = equations[0][0] * equations[1][1] * equations[2][2];
    if whole.is_nan() || whole.abs() < SINGULAR * size {
        return None;
    }
    Some([0, 1, 2].map(|column| {
        let mut replaced = *equations;
        for (row, right) in replaced.iter_mut().zip(right) {
            row[column] = right;
        }
        determinant(&replaced) / whole
    }))
}

/// F statistic of what tokens and prompts explain beyond steps of one length.
fn explained(rows: &[[f64; 3]], shares: &[f64; 3]) -> f64 {
    let left = |of: &dyn Fn(&[f64; 3]) -> f64| rows.iter().map(|row| (1.0 - of(row)).powi(2)).sum::<f64>();
    let (steps, squares) = rows
        .iter()
        .fold((0.0, 0.0), |sum, row| (sum.0 + row[0], sum.1 + row[0] * row[0]));
    let by_steps = left(&|row| row[0] * steps / squares);
    let by_all = left(&|row| dot(row, shares));
    let freedom = rows.len() as f64 - 3.0;
    // A perfect fit leaves rounding errors only.
    (by_steps - by_all) / 2.0 / (by_all / freedom).max(f64::EPSILON)
}

fn determinant([a, b, c]: &[[f64; 3]; 3]) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fluid engine of 6 ms a step, 30 µs a token and 16 ms a prompt, filling up at a rate that wavers.
    fn filling(rate: f64) -> Vec<SeriesPoint> {
        let mut running = 1.0;
        let point = |i| {
            let t_s = f64::from(i);
            let arrivals_per_s = rate * (1.0 + 0.2 * (t_s * 0.7).sin());
            let steps_per_s = (1.0 - 0.016 * arrivals_per_s) / (0.006 + 0.000_030 * running);
            let output_tokens_per_s = steps_per_s * running;
            let point = SeriesPoint {
                t_s,
                running,
                in_system: running,
                output_tokens_per_s,
                arrivals_per_s,
                ..SeriesPoint::default()
            };
            running += arrivals_per_s - output_tokens_per_s / 200.0;
            point
        };
        (0..200).map(point).collect()
    }

    #[test]
    fn the_load_is_seen_from_any_part_of_the_filling_up() {
        for rate in [20.0, 40.0, 50.0] {
            for until_s in [30.0, 200.0] {
                let offered = offered_load(&filling(rate), 0.0, until_s, rate, 200.0).expect("it varies");
                let load = offered.load;
                // n·c + prompt = 6 ms + 16 ms. A ratio of means is not the mean of ratios: a few per cent.
                assert!((load / (rate * 0.022) - 1.0).abs() < 0.05, "{rate}: {load}");
            }
        }
    }

    /// Levels that have nothing to do with each other: no load comes out of them that an engine could not have.
    #[test]
    fn noise_is_no_load() {
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        let mut told = 0;
        for _ in 0..1_000 {
            let series: Vec<_> = (0..48)
                .map(|i| SeriesPoint {
                    t_s: f64::from(i),
                    running: 1.0 + 30.0 * draw(),
                    output_tokens_per_s: 500.0 + 3_000.0 * draw(),
                    arrivals_per_s: 60.0 * draw(),
                    ..SeriesPoint::default()
                })
                .collect();
            let offered = offered_load(&series, 0.0, 48.0, 30.0, 60.0);
            if let Some(Offered { load, .. }) = offered.filter(|offered| offered.is_known) {
                assert!((0.0..3.0).contains(&load), "{load}");
                told += 1;
            }
        }
        assert!(told <= 50, "{told} of 1,000");
    }

    #[test]
    fn what_never_changes_says_nothing() {
        let still = SeriesPoint {
            running: 3.0,
            output_tokens_per_s: 90.0,
            arrivals_per_s: 1.0,
            ..SeriesPoint::default()
        };
        let series: Vec<_> = (0..100)
            .map(|i| SeriesPoint {
                t_s: f64::from(i),
                ..still
            })
            .collect();
        assert_eq!(offered_load(&series, 0.0, 100.0, 1.0, 90.0), None);
        assert_eq!(offered_load(&series[..4], 0.0, 100.0, 1.0, 90.0), None);
    }
}
