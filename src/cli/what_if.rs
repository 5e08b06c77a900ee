//! The same traffic with one thing changed, beside a run as short of it unchanged: whether what a remark supposes is so.

use crate::analysis::simulate_whole;
use crate::metrics::Summary;
use crate::sim::Scenario;
use crate::workload::{Arrivals, WorkloadSpec};

/// Requests of either run at most: a tenth of a second. A fleet takes a minute or two to fall into step.
const REQUESTS_MAX: u64 = 30_000;

/// Whole runs, ramp and drain included.
pub(super) struct WhatIf {
    /// Of the traffic as it is.
    pub as_is: Summary,
    /// Of the traffic as it would be.
    pub changed: Summary,
}

impl WhatIf {
    /// Simulates as many requests as were sent, or the first of them; `None` of traffic that is no law, which has the end it has.
    pub(super) fn of(
        scenario: &Scenario,
        sent: u64,
        change: impl FnOnce(&mut WorkloadSpec),
    ) -> Option<WhatIf> {
        let mut scenario = scenario.clone();
        let workload = &mut scenario.workload;
        if workload.listed().is_some() || matches!(workload.arrivals, Arrivals::Superposed { .. }) {
            return None;
        }
        workload.num_prompts = Some(sent.min(REQUESTS_MAX));
        workload.duration = None;
        let as_is = simulate_whole(&scenario, None);
        change(&mut scenario.workload);
        Some(WhatIf {
            as_is,
            changed: simulate_whole(&scenario, None),
        })
    }
}

/// Requests that a whole run answered in a second.
pub(super) fn answered_per_s(run: &Summary) -> f64 {
    run.completed as f64 / run.duration_s.max(f64::MIN_POSITIVE)
}
