//! The next best run: the closed loop after which times per token would be known best.
//!
//! The targets are decode steps with one to a few hundred requests in flight, each judged by its relative error: a user may
//! serve any of these loads. What a run would tell is computed beforehand: around the fit the logarithm of a step is linear in
//! the terms, so their Gauss-Newton covariance (of all runs and priors) says how well each load is known, and one more figure
//! reduces every variance by a known amount (Lindley 1956). A figure is as uncertain as repeated runs are, or as the fit leaves
//! the given ones, whichever is more. Measured loads are not asked for again; loads beyond the server's `max_num_seqs` are
//! neither predicted nor asked for. Left out: the time to first token, and what a run costs.

use nalgebra::{DMatrix, DVector};

use super::belief;
use super::{Linear, NUDGE, OWN_WEIGHT, RUN_SIGMA, Trial};
use crate::calibrate::runs::Run;

/// In flight: the loads that are predicted, and those that may be measured.
const LOADS: [u32; 6] = [1, 4, 16, 64, 128, 256];
/// Tokens of each sequence.
const CONTEXT: u32 = 1024;
/// Fall of the error below which no run is worth it, of the logarithm.
const WORTH: f64 = 0.001;

/// How near two loads are to count as one, in the logarithm: runs of one server share their errors at one load.
const SAME_LN: f64 = 0.35;

/// In words; `None` where no run would tell more.
pub(super) fn next_run(trial: &Trial, linear: &Linear) -> Option<String> {
    let values = &linear.at;
    let sigma = sigma(trial, linear);
    let covariance = covariance(trial, linear, sigma)?;
    let kinds = [(false, "without"), (true, "with")];
    let mut loads = Vec::new();
    for (is_asynchronous, words) in kinds {
        // The device's own runs first: their steps are what is asked about.
        let of_kind =
            (0..trial.runs.len()).filter(|run| trial.runs[*run].is_asynchronous() == is_asynchronous);
        let Some(run) = of_kind.clone().min_by_key(|run| !trial.cards[*run].1) else {
            continue;
        };
        let own = of_kind.filter(|run| trial.cards[*run].1);
        let given: Vec<f64> = own.filter_map(|run| clients_of(trial.runs[run])).collect();
        let seats = trial.runs[run]
            .resolved
            .scenario
            .first_pool()
            .engine
            .max_num_seqs();
        for clients in LOADS.into_iter().filter(|clients| *clients <= seats) {
            let is_given = given
                .iter()
                .any(|other| (f64::from(clients) / other).ln().abs() < SAME_LN);
            loads.push((clients, words, is_given, slopes(trial, run, values, clients)?));
        }
    }
    let most = loads.iter().map(|(clients, ..)| *clients).max()?;
    let shared = |one: &DVector<f64>, other: &DVector<f64>| one.dot(&(&covariance * other));
    let error = |variances: Vec<f64>| {
        let mean = variances.iter().sum::<f64>() / loads.len() as f64;
        mean.max(0.0).sqrt()
    };
    let before = error(loads.iter().map(|(.., of)| shared(of, of)).collect());
    let after = |measured: &DVector<f64>| {
        let noise = shared(measured, measured) + sigma * sigma / OWN_WEIGHT;
        let left = |of: &DVector<f64>| shared(of, of) - shared(of, measured).powi(2) / noise;
        error(loads.iter().map(|(.., of)| left(of)).collect())
    };
    let open = loads.iter().filter(|(_, _, is_given, _)| !is_given);
    let judged = open.map(|(clients, words, _, of)| (after(of), clients, words));
    let (after, clients, words) = judged.min_by(|one, other| one.0.total_cmp(&other.0))?;
    (before - after >= WORTH).then(|| {
        format!(
            "for the host, a closed loop at --max-concurrency {clients} {words} asynchronous scheduling: the host's terms leave \
             the time per token of {} to {} in flight ±{:.1} % in the mean, and ±{:.1} % after it",
            LOADS[0],
            most,
            100.0 * before,
            100.0 * after
        )
    })
}

/// The clients of a closed loop.
fn clients_of(run: &Run) -> Option<f64> {
    run.resolved
        .scenario
        .workload
        .client
        .max_concurrency
        .map(f64::from)
}

/// Error of one figure, of the logarithm: the root of the mean square of what the fit leaves, and no less than runs repeat.
fn sigma(trial: &Trial, linear: &Linear) -> f64 {
    let squares = linear.errors.iter().zip(&trial.weights);
    let sum: f64 = squares.map(|(error, weight)| weight * error * error).sum();
    let mean = sum / trial.weights.iter().sum::<f64>();
    RUN_SIGMA.max(mean.sqrt())
}

/// Of the terms on the scale of their priors; `None` where it does not exist.
fn covariance(trial: &Trial, linear: &Linear, sigma: f64) -> Option<DMatrix<f64>> {
    let count = linear.at.len();
    let believed = belief::surprised(&trial.parameters, &linear.at);
    let information = |one: usize, other: usize| {
        let pairs = linear.slopes[one].iter().zip(&linear.slopes[other]);
        let all = pairs.zip(&trial.weights);
        let data: f64 = all.map(|((one, other), weight)| weight * one * other).sum();
        let before = match one == other {
            true => believed[one].sd.powi(-2),
            false => 0.0,
        };
        data / (sigma * sigma) + before
    };
    DMatrix::from_fn(count, count, information).try_inverse()
}

/// How ln(step) of a run's server moves with each term.
fn slopes(trial: &Trial, run: usize, values: &[f64], clients: u32) -> Option<DVector<f64>> {
    let step = |values: &[f64]| {
        let card = trial.card(run, &trial.host(values), trial.bandwidth(values));
        let seconds = trial.runs[run].step_seconds(&card, clients, CONTEXT)?;
        seconds.ln().is_finite().then(|| seconds.ln())
    };
    let here = step(values)?;
    let slope = |index: usize| {
        let mut moved = values.to_vec();
        moved[index] *= NUDGE.exp();
        Some((step(&moved)? - here) / NUDGE)
    };
    let slopes: Option<Vec<f64>> = (0..values.len()).map(slope).collect();
    slopes.map(DVector::from_vec)
}
