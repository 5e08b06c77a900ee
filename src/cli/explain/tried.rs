//! A way of serving, tried: a run of the scenario's own traffic, and its knee.

use crate::analysis::{Estimate, Experiment, LoadKind, Outcome, RunResult, Verdict, simulate};
use crate::cli::disk::Disk;
use crate::cli::{knee, present, progress};
use crate::config::flags::ScenarioFlags;
use crate::config::variant::{Said, variant};
use crate::config::{Assembled, Diagnostic, Diagnostics, Document, Resolved, RunLength, resolve};
use crate::metrics::{Distribution, Records, Summary};
use crate::report::explained::{Found, Tried};
use crate::report::{KneeView, counted};

/// A change over what all have in common.
pub(super) struct Planned {
    pub(super) resolved: Resolved,
    pub(super) document: Document,
}

/// What all changes have in common: flags, and words of more upon them.
#[derive(Clone, Copy)]
pub(super) struct Common<'a> {
    pub(super) flags: &'a ScenarioFlags,
    pub(super) words: &'a [String],
}

impl Common<'_> {
    /// The scenario as it is.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(super) fn assembled(self) -> Result<Assembled, Diagnostics> {
        self.with(&[])
    }

    fn with(self, words: &[String]) -> Result<Assembled, Diagnostics> {
        let said = Said {
            name: None,
            words: [self.words, words].concat(),
        };
        variant(self.flags, &said, &Disk)
    }
}

/// Reads a change.
///
/// # Errors
/// Flags that nobody knows.
pub(super) fn read(common: Common, said: &Said) -> Result<Document, Diagnostics> {
    common.with(&said.words).map(|input| input.document)
}

/// Judges a change that was read.
///
/// # Errors
/// What is refused, and what does not fit.
pub(super) fn judge(document: Document) -> Result<Planned, Diagnostics> {
    let resolved = resolve(document.clone(), &Disk)?;
    Ok(Planned { resolved, document })
}

/// Reads and judges a change.
///
/// # Errors
/// Everything that is wrong with it, what does not fit among it.
pub(super) fn plan(common: Common, said: &Said) -> Result<Planned, Diagnostics> {
    judge(read(common, said)?)
}

/// In words for a change: whoever reads its flags knows variants of a comparison.
pub(super) fn reworded(text: &str) -> String {
    text.replace("the variant `", "the change `")
        .replace("`variant -", "`-")
}

/// Why a change cannot be tried, in a line.
pub(super) fn reason(wrong: &Diagnostics) -> String {
    let first = wrong
        .0
        .first()
        .map(|problem: &Diagnostic| reworded(&problem.message));
    first.unwrap_or_else(|| "it is refused".to_owned())
}

/// The same traffic, as long as the scenario's own run was; `None` where nobody waits.
pub(super) fn run(resolved: &Resolved, requests: u64, goes_on: &dyn Fn() -> bool) -> Option<Tried> {
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
        progress::goes_on(|| format!("{} of one that runs", counted(ended, "request"))) && goes_on()
    });
    (!outcome.is_interrupted).then(|| of_run(resolved, &outcome))
}

/// The stretch whose latencies are told: none of a run that is too short.
pub(super) fn quotable(result: &RunResult) -> Option<&Summary> {
    let shown = result.quotable();
    shown.filter(|_| result.verdict != Verdict::TooShort)
}

/// Of a figure whose interval nobody knows, that of one traffic to its end: what differs by twice as much is called another.
const WITHIN: f64 = 0.01;

/// What a run shows, its knee not looked for.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Tried {
    let result = &outcome.result;
    let shown = quotable(result).filter(|shown| shown.completed > 0);
    let p99 = |name: &str, of: fn(&Summary) -> &Distribution| {
        let value = of(shown?).quantile_s(0.99).filter(|p99| *p99 > 0.0)?;
        let known = result.intervals.iter().find(|(known, _)| known == name);
        Some(match (known, result.verdict) {
            (Some((_, interval)), _) => Estimate { value, ..*interval },
            (None, Verdict::Finite) => Estimate {
                value,
                low: value * (1.0 - WITHIN),
                high: value * (1.0 + WITHIN),
            },
            // What chance makes of it is not known.
            (None, _) => Estimate {
                value,
                low: 0.0,
                high: f64::INFINITY,
            },
        })
    };
    let whole = &result.whole;
    let pools = resolved.scenario.pools.iter();
    Tried {
        gpus: pools
            .map(|pool| u64::from(pool.gpus) * u64::from(pool.replicas))
            .sum(),
        verdict: result.verdict,
        requests: whole.sent,
        p99_ttft: p99("p99_ttft", |shown| &shown.ttft),
        p99_itl: p99("p99_itl", |shown| &shown.itl),
        p99_tpot: p99("p99_tpot", |shown| &shown.tpot),
        unanswered: whole.lost() as f64 / whole.sent.max(1) as f64,
        knee: Found::Nothing,
    }
}

/// Its knee, and all that its search says; `None` where nobody waits.
pub(super) fn search(planned: &Planned, goes_on: &dyn Fn() -> bool) -> Option<(Found, Option<KneeView>)> {
    match knee::knee_of(&planned.resolved, &planned.document, &mut |_| goes_on()) {
        Ok(view) if view.is_interrupted || !goes_on() => None,
        Ok(view) => {
            let of_client = view.only_client().map_or(Found::None, Found::Client);
            Some((view.knee.map_or(of_client, Found::Knee), Some(view)))
        }
        Err(error) => Some((Found::Failed(format!("{error:#}")), None)),
    }
}
