//! From what was found out to what the printers take.

use super::inquiry::{Asked, Findings};
use super::tried::{self, Planned};

use crate::analysis::knee::{Limiter, Point};
use crate::analysis::{Outcome, RunResult, Verdict};
use crate::cli::run::quotable;
use crate::cli::{knee, present, remarks, subject, theory};
use crate::config::{Assembled, Resolved};
use crate::metrics::{Anatomies, Anatomy, TtftPart};
use crate::report::explained::{self, Explained, Found, Tried, WhatIf};
use crate::report::figures::{count, significant};
use crate::report::{self, EngineWords, Sought};
use crate::workload::{in_flight, mean_rate};

/// What was found out, beside the run.
pub(super) struct Told {
    pub(super) anatomy: Anatomy,
    pub(super) found: Findings,
    pub(super) left_out: Vec<(String, String)>,
    pub(super) no_knee: Option<String>,
    /// Whether somebody waited to the end.
    pub(super) is_whole: bool,
}

/// All of it, ready to be told.
pub(super) fn view(base: &Planned, input: &Assembled, outcome: &Outcome, told: Told) -> Explained {
    let resolved = &base.resolved;
    let workload = &resolved.scenario.workload;
    let result = &outcome.result;
    let words = EngineWords::of(&resolved.scenario.first_pool().engine);
    let of = knee::sought(resolved);
    let load_value = match of {
        Sought::Rate => mean_rate(workload),
        Sought::InFlight | Sought::Users => in_flight(workload).map(f64::from),
    };
    let load = match (load_value, of) {
        (Some(rate), Sought::Rate) => match workload.client.max_concurrency {
            Some(limit) => format!("{} req/s, ≤ {limit} in flight", significant(rate)),
            None => format!("{} req/s", significant(rate)),
        },
        (Some(number), _) => format!("{} {}", count(number as u64), of.unit()),
        (None, _) => "all requests at once".to_owned(),
    };
    let missing = told.found.missing(told.no_knee.is_none());
    let (knee, search) = told.found.base.unwrap_or((Found::Nothing, None));
    let is_same = |asked: &Asked| asked.planned.resolved.scenario.workload == *workload;
    let shown = tried::quotable(result);
    let anatomies = match shown {
        Some(_) => quotable(told.anatomy, result),
        None => Anatomies::default(),
    };
    let (standing, slo) = explained::standing(result, &present::meta_of(resolved, outcome));
    // Where nobody is answered there is no time that anything could bind.
    let bound = match standing.instead {
        None => bound(resolved, result, (&anatomies, words)),
        Some(_) => None,
    };
    Explained {
        subject: subject::subject(resolved),
        scenario: resolved.scenario_name(),
        seed: resolved.scenario.seed,
        client: held_back(resolved, result, load_value),
        load,
        load_value,
        of,
        standing,
        slo,
        base: Tried {
            knee,
            ..tried::of_run(resolved, outcome)
        },
        p50_ttft_s: shown.and_then(|shown| shown.ttft.quantile_s(0.5)),
        bound,
        anatomies,
        at_knee: search.and_then(|search| search.limited_by),
        are_same_requests: told.found.changes.iter().all(|(asked, _)| is_same(asked)),
        what_ifs: (told.found.changes.into_iter())
            .map(|(asked, tried)| WhatIf {
                name: asked.question.name,
                flags: asked.question.flags,
                kind: asked.question.kind,
                tried,
            })
            .collect(),
        left_out: told.left_out,
        no_knee: told.no_knee,
        words,
        audits: audits(resolved, outcome),
        trust: present::trust(resolved),
        assumptions: present::assumptions(resolved),
        notes: notes(resolved, input, outcome),
        interrupted: (!told.is_whole).then_some(missing),
    }
}

/// What is said where what grows is held back in the client while hardly any wait in the server, as `knee` says it.
fn held_back(resolved: &Resolved, result: &RunResult, load: Option<f64>) -> Option<String> {
    let limit = resolved.scenario.workload.client.max_concurrency;
    let of_run = Point::of(load?, result, &present::objective(resolved));
    let is_clients = result.verdict == Verdict::Unstable && result.is_held_back && of_run.is_held_by_client;
    is_clients.then(|| {
        let limit = limit.map_or("clients with limits of their own".to_owned(), |limit| {
            format!("{limit} in flight")
        });
        format!(
            "THE CLIENT IS THE LIMIT: {limit} do not get through {} req/s, which pile up at the client, in no latency; a larger \
             --max-concurrency, or none, shows what the server does",
            significant(load.unwrap_or_default())
        )
    })
}

/// What binds at the load of the run, as a sentence and as files spell it.
fn bound(
    resolved: &Resolved,
    result: &RunResult,
    (anatomies, words): (&Anatomies, EngineWords),
) -> Option<(String, &'static str)> {
    tried::quotable(result)?;
    let groups = anatomies.by_ttft();
    let around = groups.iter().find(|group| group.name == "p99");
    let waits = |part: TtftPart| around.map_or(0.0, |group| group.part_s(part));
    let requests = |by: &str| format!("requests at this load are bound by {by}");
    let seats = waits(TtftPart::Seats);
    let others = TtftPart::QUEUE.iter().map(|part| waits(*part)).sum::<f64>() - seats;
    let Some(pressure) = present::pressure(resolved, result) else {
        // Nothing presses an ideal server but those who are in it.
        let one = resolved.scenario.first_pool().engine.max_num_seqs() == 1;
        let by = if one { "the one seat" } else { words.running };
        let code = report::limiter_code(Limiter::MaxNumSeqs);
        return (resolved.is_ideal() && seats > others).then(|| (requests(by), code));
    };
    let limiter = pressure.limiter();
    if limiter == Limiter::MaxNumSeqs && waits(TtftPart::OtherWait) > seats {
        return Some((requests("a rule of the scheduler"), "scheduler_rule"));
    }
    let by = report::resource(limiter, words);
    let sentence = match limiter {
        Limiter::PrefillCompute
        | Limiter::HbmBandwidth
        | Limiter::TokenBudget
        | Limiter::Host
        | Limiter::Loads => format!("steps at this load are bound by {by}"),
        Limiter::KvBlocks | Limiter::MaxNumSeqs | Limiter::FrontEnd | Limiter::KvLinks => requests(by),
    };
    Some((sentence, report::limiter_code(limiter)))
}

/// Little's law, and what the books say of a queue that they have.
fn audits(resolved: &Resolved, outcome: &Outcome) -> Vec<(&'static str, String)> {
    let little = ("L = λW", report::little_law(&outcome.result));
    let theory = match outcome.result.verdict {
        Verdict::Unstable | Verdict::TooShort => None,
        _ => theory::of_run(resolved, outcome),
    };
    let theory = theory.unwrap_or_else(|| format!("no closed form: {}", theory::why_none(resolved)));
    vec![little, ("vs theory", theory)]
}

/// What else must be said of the run.
fn notes(resolved: &Resolved, input: &Assembled, outcome: &Outcome) -> Vec<String> {
    let mut notes: Vec<String> = outcome.result.violations.clone();
    let why = outcome.result.reasons.first().cloned();
    notes.extend(why.filter(|_| tried::quotable(&outcome.result).is_none()));
    if resolved
        .scenario
        .pools
        .iter()
        .any(|pool| pool.engine.answers_whole())
    {
        notes.push(
            "answers leave whole: a first token comes with the last of its batch, and what the batch takes beyond the own prompt is \
             interference"
                .to_owned(),
        );
    }
    let theory = theory::of_run(resolved, outcome);
    let remarks = remarks::of_run(resolved, outcome);
    notes.extend(
        remarks
            .into_iter()
            .filter(|remark| theory.as_ref() != Some(remark)),
    );
    notes.extend(input.ignored.iter().cloned());
    notes
}
