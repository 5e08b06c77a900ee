//! What stands before any latency: requests without an answer, whether the SLO is met, and what was not waited for.

use super::super::standing::{collapsed_s, has_no_answers};
use super::super::text_answer;
use super::super::views::ResultMeta;
use super::counted;
use crate::analysis::{RunResult, Verdict};

/// What a run says before its latencies, in the words of `run`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// `REFUSED 92.0 % of requests; those served: `; empty where hardly any went without an answer.
    pub lost: String,
    /// The first line of a run in which nobody was answered, or nobody from some time on: there is nothing to take apart.
    pub instead: Option<String>,
}

/// Whether the SLO is met at the load of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slo {
    /// It is.
    Met,
    /// It is not.
    Missed,
    /// The run leaves it open.
    NotDecided,
}

impl Slo {
    /// In the first line.
    pub(super) fn words(self) -> &'static str {
        match self {
            Slo::Met => "SLO met",
            Slo::Missed => "SLO MISSED at this load",
            Slo::NotDecided => "SLO NOT DECIDED at this load",
        }
    }

    /// As files spell it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Slo::Met => "met",
            Slo::Missed => "missed",
            Slo::NotDecided => "not_decided",
        }
    }
}

/// What stands before the latencies of a run, and whether its SLO is met.
#[must_use]
pub fn standing(result: &RunResult, meta: &ResultMeta) -> (Standing, Option<Slo>) {
    let is_collapse = collapsed_s(result).is_some();
    let has_nothing = has_no_answers(result) || is_collapse;
    let standing = match has_nothing {
        true => Standing {
            lost: String::new(),
            instead: Some(text_answer::answer(result, meta)),
        },
        false => Standing {
            lost: text_answer::lost(&result.whole, is_collapse),
            instead: None,
        },
    };
    let slo = match (meta.slo_kept, meta.slo_decided) {
        _ if result.verdict == Verdict::Unstable || has_nothing => None,
        (None, _) => None,
        (Some(_), Some(false)) => Some(Slo::NotDecided),
        (Some(true), _) => Some(Slo::Met),
        (Some(false), _) => Some(Slo::Missed),
    };
    (standing, slo)
}

/// What the user did not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Changes that were not tried.
    pub changes: usize,
    /// Knees that were not found, that of the scenario as it is among them.
    pub knees: usize,
}

impl Missing {
    /// `INTERRUPTED, 1 change and 4 knees are missing`.
    pub(super) fn words(self) -> String {
        let kinds = [(self.changes, "change"), (self.knees, "knee")];
        let there = kinds.into_iter().filter(|(number, _)| *number > 0);
        let told: Vec<String> = there.map(|(number, what)| counted(number as u64, what)).collect();
        match (told.is_empty(), self.changes + self.knees) {
            (true, _) => "INTERRUPTED, nothing is missing".to_owned(),
            (false, 1) => format!("INTERRUPTED, {} is missing", told.concat()),
            (false, _) => format!("INTERRUPTED, {} are missing", told.join(" and ")),
        }
    }
}
