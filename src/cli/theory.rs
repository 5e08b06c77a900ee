//! What a closed form says of a run that has one, beside what was simulated.

use crate::analysis::closed_form::SingleServer;
use crate::analysis::{Estimate, Outcome};
use crate::config::Resolved;
use crate::report::figures::{significant, time};

/// The wait that Pollaczek and Khinchine foretell, and the simulated one.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    let result = &outcome.result;
    let served = SingleServer::of_run(&resolved.scenario, result)?;
    let seen_s = result.steady.as_ref()?.queue_time.mean_s()?;
    let interval = result.intervals.iter().find(|(name, _)| name == "queue_time");
    let known = interval.map_or(String::new(), |(_, Estimate { low, high, .. })| {
        format!(" (95 % {} to {})", time(*low), time(*high))
    });
    Some(format!(
        "one sequence at a time and Poisson arrivals are M/G/1: at ρ = {} and a service time of {} (cv {}) the mean wait is \
         λ·E[S²]/(2·(1 − ρ)) = {} by Pollaczek and Khinchine; simulated {}{known}",
        significant(served.utilisation),
        time(served.service_s),
        significant(served.service_cv()),
        time(served.wait_s()),
        time(seen_s),
    ))
}
