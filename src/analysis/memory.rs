//! Stretches that are short against the memory of the number inside: their batches are all alike, and look more certain than
//! they are. What such a stretch knows follows from how latencies vary ([`Crowd`]).

use super::Estimate;
use super::steady::{CONFIDENCE, GROUPS, mean_in_system};
use crate::metrics::{Distribution, Metric, Stretch};
use crate::stats::crowd::Crowd;
use crate::stats::student_t;

/// How many times a group of batches must outlast the memory of the number inside for its mean to be independent of the next
/// one's.
const MEMORIES_A_GROUP: f64 = 5.0;

/// Share of requests that are lost from which the number inside is what those who turn away leave of it: it does not wander far,
/// and how latencies vary says nothing of how far.
const LOST: f64 = 0.01;

/// What the requests of a steady stretch have in common; `None` of a system that turns requests away.
pub(super) fn crowd(batches: &[Stretch], replicas: u32) -> Option<Crowd> {
    let sum = |of: fn(&Stretch) -> u64| batches.iter().map(of).sum::<u64>() as f64;
    let lost = 1.0 - sum(Stretch::completed) / sum(Stretch::ended).max(1.0);
    if lost >= LOST {
        return None;
    }
    let duration_s: f64 = batches.iter().map(Stretch::duration_s).sum();
    let (mean_s, deviation_s) = Stretch::mean_and_deviation_s(batches, Metric::Tpot)?;
    let (stay_s, _) = Stretch::mean_and_deviation_s(batches, Metric::E2el)?;
    let servers = f64::from(replicas.max(1));
    let inside = mean_in_system(batches)?.value / servers;
    Crowd::new(
        stay_s,
        duration_s,
        inside,
        servers,
        (deviation_s / mean_s).powi(2),
    )
}

/// The same of a stretch that is too short for its batches to tell; `None` of a longer one.
pub(super) fn short(batches: &[Stretch], replicas: u32) -> Option<Crowd> {
    crowd(batches, replicas).filter(|crowd| crowd.values < MEMORIES_A_GROUP * GROUPS as f64)
}

/// The relative half-width of the mean number inside that its memory leaves over a stretch.
pub(super) fn width_of_number(crowd: &Crowd) -> f64 {
    student_t(CONFIDENCE, (crowd.values - 1.0).max(1.0)) * crowd.number_error()
}

/// An interval, or the one that the deviation of the latency implies where that is wider.
pub(super) fn at_least_as_wide(
    estimate: Estimate,
    crowd: &Crowd,
    latency: &Distribution,
    quantile: Option<f64>,
) -> Estimate {
    let deviation = latency.std_s().zip(latency.mean_s());
    let Some((std_s, mean_s)) = deviation.filter(|(_, mean_s)| *mean_s > 0.0) else {
        return estimate;
    };
    let error = crowd.standard_error((std_s / mean_s).powi(2), latency.count() as f64, quantile);
    let half = student_t(CONFIDENCE, (crowd.values - 1.0).max(1.0)) * error * estimate.value;
    Estimate {
        low: estimate.low.min(estimate.value - half).max(0.0),
        high: estimate.high.max(estimate.value + half),
        ..estimate
    }
}
