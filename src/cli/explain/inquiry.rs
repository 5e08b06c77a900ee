//! From a scenario to what was found out about it: its own run and knee, and each change alone.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::own::Own;
use super::questions::{AtTheKnee, Question, Questions, by_default};
use super::tried::{self, Common, Planned, plan, reason};
use super::view::{Told, view};
use crate::analysis::{Outcome, simulate_watched};
use crate::cli::present;
use crate::cli::progress::Progress;
use crate::cli::terminal::Terminal;
use crate::config::variant::Said;
use crate::config::{Assembled, Diagnostics, Resolved};
use crate::metrics::{Anatomy, Records};
use crate::report::KneeView;
use crate::report::explained::{Explained, Found, Missing, Tried};
use crate::workload::{in_flight, mean_rate};

/// A question, ready to be tried.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) planned: Planned,
}

/// Where it is told how far it is, and whether anybody waits for it.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Waiting<'a> {
    pub(in crate::cli) terminal: &'a Terminal,
    pub(in crate::cli) goes_on: &'a (dyn Fn() -> bool + Sync),
}

/// What is asked of a scenario.
pub(super) struct Inquiry<'a> {
    /// What all changes have in common.
    pub(super) common: Common<'a>,
    /// The scenario as it is assembled, before it was resolved.
    pub(super) input: &'a Assembled,
    /// Whether the questions are asked that are asked by default.
    pub(super) by_default: bool,
    /// The user's own.
    pub(super) own: Own,
    /// Whether the user wants no knees.
    pub(super) is_bare: bool,
}

/// Finds out; `None` where nobody waited for the scenario's own run. What else nobody waited for is missing.
pub(super) fn inquire(
    resolved: Resolved,
    inquiry: Inquiry,
    waiting: Waiting,
) -> Option<(Planned, Outcome, Explained)> {
    let (outcome, anatomy) = simulate_as_it_is(&resolved, waiting)?;
    let no_knee = why_no_knee(inquiry.is_bare, &resolved);
    let questions = all_questions(
        inquiry.by_default,
        inquiry.common,
        inquiry.own,
        (&resolved, &outcome),
    );
    let document = inquiry.input.document.clone();
    let base = Planned { document, resolved };
    let asked = (inquiry.common, &outcome, no_knee.is_none());
    let (found, left_out) = try_all(&base, questions, asked, waiting);
    let told = Told {
        anatomy,
        found,
        left_out,
        no_knee,
        is_whole: (waiting.goes_on)(),
    };
    let view = view(&base, inquiry.input, &outcome, told);
    Some((base, outcome, view))
}

/// The scenario's own run, and what its requests' times are made of; `None` where nobody waits.
fn simulate_as_it_is(resolved: &Resolved, waiting: Waiting) -> Option<(Outcome, Anatomy)> {
    let mut progress = Progress::new(
        waiting.terminal,
        resolved.scenario.workload.num_prompts,
        "requests",
    );
    let mut anatomy = Anatomy::of(&resolved.scenario);
    let experiment = present::experiment(resolved, Records::None);
    let outcome = simulate_watched(&resolved.scenario, &experiment, &mut anatomy, |ended| {
        progress.at(ended) && (waiting.goes_on)()
    });
    (!outcome.is_interrupted).then_some((outcome, anatomy))
}

/// What is tried, what may be once the knee is known, and what is not, with the reason.
struct All {
    asked: Vec<Asked>,
    at_the_knee: Vec<AtTheKnee>,
    left_out: Vec<(String, String)>,
}

impl All {
    /// A default question: one that is refused is left out.
    fn ask(&mut self, common: Common, question: Question) {
        let planned = Said::parse(&question.flags)
            .map_err(Diagnostics::from)
            .and_then(|said| plan(common, &said));
        match planned {
            Ok(planned) => self.asked.push(Asked { question, planned }),
            Err(wrong) => self.left_out.push((question.name, reason(&wrong))),
        }
    }
}

fn all_questions(
    asks_by_default: bool,
    common: Common,
    own: Own,
    (resolved, outcome): (&Resolved, &Outcome),
) -> All {
    let by_default = match asks_by_default {
        true => by_default(resolved, outcome),
        false => Questions::default(),
    };
    let mut all = All {
        asked: Vec::new(),
        at_the_knee: by_default.at_the_knee,
        left_out: by_default.left_out,
    };
    for question in by_default.asked {
        all.ask(common, question);
    }
    all.asked.extend(own.asked);
    all.left_out.extend(own.left_out);
    all
}

/// Why no knee is looked for.
fn why_no_knee(is_bare: bool, resolved: &Resolved) -> Option<String> {
    if is_bare {
        return Some("--no-knee leaves them out".to_owned());
    }
    if resolved.slo.is_empty() {
        return Some(
            "there is no SLO to meet: give --goodput ttft:500 tpot:50 (ms per request), or --slo 'p99_ttft_ms<=500'".to_owned(),
        );
    }
    let is_loop = in_flight(&resolved.scenario.workload).is_some();
    let has_rate = mean_rate(&resolved.scenario.workload).is_some();
    (!is_loop && !has_rate)
        .then(|| "the traffic has no rate that could be raised: all requests are sent at once".to_owned())
}

/// What came of the scenario's own search and of each change; `None` of what nobody waited for.
pub(super) struct Findings {
    pub(super) base: Option<(Found, Option<KneeView>)>,
    pub(super) changes: Vec<(Asked, Option<Tried>)>,
}

impl Findings {
    /// What nobody waited for.
    pub(super) fn missing(&self, with_knees: bool) -> Missing {
        let has_no_knee =
            |tried: &Option<Tried>| tried.as_ref().is_none_or(|tried| tried.knee == Found::Nothing);
        let changes = || self.changes.iter().map(|(_, tried)| tried);
        let knees = changes().filter(|tried| has_no_knee(tried)).count() + usize::from(self.base.is_none());
        Missing {
            changes: changes().filter(|tried| tried.is_none()).count(),
            knees: if with_knees { knees } else { 0 },
        }
    }
}

/// Tries all, as many at once as there are cores: the run of each and the scenario's own knee first, so that whoever stops the searches has
/// those. What is pressed at that knee decides what else is asked.
fn try_all(
    base: &Planned,
    mut questions: All,
    (common, outcome, with_knees): (Common, &Outcome, bool),
    waiting: Waiting,
) -> (Findings, Vec<(String, String)>) {
    let run_each = |asked: &[Asked]| {
        let requests = outcome.result.whole.sent;
        let run = |at: usize| tried::run(&asked[at].planned.resolved, requests, waiting.goes_on);
        each(asked.len(), "runs of changes", waiting, run)
    };
    let search_own = || {
        if with_knees {
            tried::search(base, waiting.goes_on)
        } else {
            None
        }
    };
    let (mut runs, own) = rayon::join(|| run_each(&questions.asked), search_own);
    let of_own = own.as_ref().and_then(|(_, view)| view.as_ref());
    let pressed = of_own.and_then(|view| view.hardest_pressed);
    for may_matter in std::mem::take(&mut questions.at_the_knee) {
        match pressed == Some(may_matter.pressed) {
            true => questions.ask(common, may_matter.question),
            false => questions
                .left_out
                .push((may_matter.question.name, may_matter.why_not)),
        }
    }
    runs.extend(run_each(&questions.asked[runs.len()..]));
    let searches = if with_knees { questions.asked.len() } else { 0 };
    let search = |at: usize| tried::search(&questions.asked[at].planned, waiting.goes_on);
    let mut knees = each(searches, "searches", waiting, search).into_iter();
    let with_knee = |run: Option<Tried>| {
        let found = knees.next().flatten();
        let knee = found.map_or(Found::Nothing, |(knee, _)| knee);
        run.map(|run| Tried { knee, ..run })
    };
    let tried: Vec<Option<Tried>> = runs.into_iter().map(with_knee).collect();
    let found = Findings {
        base: own,
        changes: questions.asked.into_iter().zip(tried).collect(),
    };
    (found, questions.left_out)
}

/// What `one` says of each number, on as many cores as there are, one at a time and the first ones first; `None` of what was not begun, or
/// not finished, when nobody waited any more.
fn each<T: Send + Sync>(
    count: usize,
    what: &'static str,
    waiting: Waiting,
    one: impl Fn(usize) -> Option<T> + Sync,
) -> Vec<Option<T>> {
    let progress = Mutex::new((Progress::new(waiting.terminal, Some(count as u64), what), 0));
    let done = || {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.1 += 1;
        let done = progress.1;
        progress.0.at(done);
    };
    let found: Vec<OnceLock<T>> = (0..count).map(|_| OnceLock::new()).collect();
    let try_one = |at: usize| {
        let value = if (waiting.goes_on)() { one(at) } else { None };
        let is_there = value.is_some_and(|value| found[at].set(value).is_ok());
        if is_there {
            done();
        }
    };
    (0..count).into_par_iter().with_max_len(1).for_each(try_one);
    found.into_iter().map(OnceLock::into_inner).collect()
}
