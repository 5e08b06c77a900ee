//! A way of serving, tried: a run of the scenario's own traffic, and its knee.

use crate::analysis::{Estimate, Experiment, LoadKind, Outcome, simulate};
use crate::cli::disk::Disk;
use crate::cli::{interrupt, knee, present, progress};
use crate::config::flags::ScenarioFlags;
use crate::config::variant::{Said, variant};
use crate::config::{Diagnostic, Diagnostics, Document, Resolved, RunLength, resolve};
use crate::metrics::Records;
use crate::report::explained::{Found, Tried};
use crate::report::{KneeView, counted};

/// A change over what all have in common.
pub(super) struct Planned {
    pub(super) resolved: Resolved,
    pub(super) document: Document,
}

/// Reads a change.
///
/// # Errors
/// Everything that is wrong with it, what does not fit among it.
pub(super) fn plan(common: &ScenarioFlags, said: &Said) -> Result<Planned, Diagnostics> {
    let input = variant(common, said, &Disk)?;
    let document = input.document.clone();
    let resolved = resolve(input.document, &Disk)?;
    Ok(Planned { resolved, document })
}

/// Why a change cannot be tried, in a line.
pub(super) fn reason(wrong: &Diagnostics) -> String {
    let first = wrong
        .0
        .first()
        .map(|problem: &Diagnostic| problem.message.clone());
    first.unwrap_or_else(|| "it is refused".to_owned())
}

/// The same traffic, as long as the scenario's own run was; `None` where the user asked to stop.
pub(super) fn run(resolved: &Resolved, requests: u64) -> Option<Tried> {
    let mut scenario = resolved.scenario.clone();
    let is_law = LoadKind::of_scenario(&scenario) != LoadKind::Varying;
    if matches!(resolved.length, RunLength::Auto { .. }) && is_law {
        scenario.workload.num_prompts = Some(requests);
    }
    let experiment = Experiment {
        stops_when_precise: false,
        ..present::experiment(resolved, Records::None)
    };
    let outcome = simulate(&scenario, &experiment, |ended| {
        progress::goes_on(|| format!("{} of one that runs", counted(ended, "request")))
    });
    (!outcome.is_interrupted).then(|| of_run(resolved, &outcome))
}

/// Of a figure whose interval nobody knows, that of one traffic to its end: what differs by twice as much is called another.
const WITHIN: f64 = 0.01;

/// What a run shows, its knee not looked for.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Tried {
    let result = &outcome.result;
    let shown = result.quotable().filter(|shown| shown.completed > 0);
    let known = result.intervals.iter().find(|(name, _)| name == "p99_ttft");
    let p99_ttft = shown
        .and_then(|shown| shown.ttft.quantile_s(0.99))
        .map(|value| match known {
            Some((_, interval)) => Estimate { value, ..*interval },
            None => Estimate {
                value,
                low: value * (1.0 - WITHIN),
                high: value * (1.0 + WITHIN),
            },
        });
    let pools = resolved.scenario.pools.iter();
    Tried {
        gpus: pools
            .map(|pool| u64::from(pool.gpus) * u64::from(pool.replicas))
            .sum(),
        verdict: result.verdict,
        requests: result.whole.sent,
        p99_ttft,
        p99_itl_s: shown
            .and_then(|shown| shown.itl.quantile_s(0.99))
            .filter(|gap| *gap > 0.0),
        p99_tpot_s: shown
            .and_then(|shown| shown.tpot.quantile_s(0.99))
            .filter(|gap| *gap > 0.0),
        knee: Found::Nothing,
    }
}

/// Its knee, and all that its search says; `None` where the user asked to stop.
pub(super) fn search(planned: &Planned) -> Option<(Found, Option<KneeView>)> {
    let mut goes_on = |_| !interrupt::is_asked();
    match knee::knee_of(&planned.resolved, &planned.document, &mut goes_on) {
        Ok(view) if view.is_interrupted || interrupt::is_asked() => None,
        Ok(view) => Some((view.knee.map_or(Found::None, Found::Knee), Some(view))),
        Err(error) => Some((Found::Failed(format!("{error:#}")), None)),
    }
}
