//! Replicas that fail at random: how long a run must be to have seen enough of it.
//!
//! A run of some minutes into which no failure falls is one of replicas that never fail, and one into which a failure falls is
//! one of replicas that fail far more often than they do. Failures are a renewal process: over a span in which `n` are
//! expected, their share of all that happens is known within about `1/√n`. What costs most is seldom a failure but two at
//! once: of three replicas that are down a tenth of the time, one failure in six comes while another is down.

use crate::sim::Scenario;

/// Failures that should be expected in a run before its figures are taken for those of replicas that fail.
pub const FAILURES_ENOUGH: f64 = 30.0;
/// Failures that should be expected before a queue that grows counts as overload, and no longer as that of an outage.
pub(super) const FAILURES_MIN: f64 = 10.0;

/// Seconds in which [`FAILURES_ENOUGH`] failures are expected, of all replicas together; 0 where none fails at random.
#[must_use]
pub fn failures_span_s(scenario: &Scenario) -> f64 {
    let replicas = f64::from(scenario.replicas().max(1));
    let outages = scenario.cluster.outages;
    outages.map_or(0.0, |outages| {
        FAILURES_ENOUGH * (outages.mean_up_s + outages.mean_down_s) / replicas
    })
}
