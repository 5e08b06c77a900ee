//! Is a benchmark's result physically and statistically possible? Arithmetic on the numbers alone.
//!
//! Four kinds of law. *Counting*: tokens, requests, seconds and their ratios. *Queueing*: Little's law and what it makes
//! of a limit on requests in flight. *Statistics*: order of percentiles, Markov's and Cantelli's inequalities, samples.
//! *Physics*: weights over bandwidth, operations over the dense peak. What breaks a law is [`Severity::Impossible`];
//! what needs an unlikely story is [`Severity::Doubtful`]; what a reader must know and breaks nothing is a note.
//! Left out: whether a possible number is right. Law: a sound result has no finding above a note.

mod bounds;
mod case;
pub mod compare;
mod counts;
mod extremes;
mod finding;
mod identities;
mod length;
mod lists;
mod little;
mod outlasts;
mod percentiles;
mod records;
mod requests;
mod sending;
mod table;
mod unit;
mod zeros;

pub use case::Machine;
pub use finding::{Check, Finding, Severity};

use crate::results::Measured;
use case::Case;

/// What is known beside the file.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Overrides GPU, model and their number.
    pub machine: Option<Machine>,
}

/// A result and what was found in it.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditedRow {
    /// Where it stands, see [`Measured::place`].
    pub place: String,
    /// Mean requests in flight by Little's law, where throughput and latency are known.
    pub in_flight: Option<f64>,
    /// What was found, worst first.
    pub findings: Vec<Finding>,
    /// Its time to first token was held against no prompt, since nothing says how long prompts are.
    pub lacks_prompt: bool,
    /// What nobody named of the machine, GPU and model, without which no physical bound is known.
    pub lacks_machine: (bool, bool),
    /// No latency has two of mean, median, percentiles, least and largest, which could contradict each other.
    pub lacks_percentiles: bool,
    /// What keeps it from being held against Little's law: a throughput beside a latency, and a rate or a limit in flight.
    pub lacks_little: (bool, bool),
}

impl AuditedRow {
    /// The worst that was found.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Audits the rows of one file, each by itself and all against each other.
#[must_use]
pub fn audit(rows: &[Measured], known: &Known) -> Vec<AuditedRow> {
    let corrected: Vec<Option<(Measured, Finding)>> =
        rows.iter().map(|row| unit::in_milliseconds(row, known)).collect();
    let mut cases: Vec<Case<'_>> = rows
        .iter()
        .zip(&corrected)
        .map(|(row, corrected)| {
            let row = corrected.as_ref().map_or(row, |(corrected, _)| corrected);
            Case::new(row, known.machine.as_ref())
        })
        .collect();
    // A time to first token that is the whole answer changes what every other column means, so it is looked for first.
    let mut found = table::first_token_is_the_answer(&mut cases);
    for ((case, found), corrected) in cases.iter().zip(&mut found).zip(&corrected) {
        found.extend(corrected.as_ref().map(|(_, finding)| finding.clone()));
        laws(case, found);
    }
    table::check(&cases, &mut found);
    let audited = |(case, mut findings): (&Case<'_>, Vec<Finding>)| {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let in_flight = case.in_flight().map(|known| known.value);
        AuditedRow {
            place: case.row.place.clone(),
            in_flight,
            findings,
            lacks_prompt: case.lacks_prompt(),
            lacks_machine: (case.device.is_none(), case.model.is_none()),
            lacks_percentiles: percentiles::lacks(case.row),
            lacks_little: little::lacks(case),
        }
    };
    cases.iter().zip(found).map(audited).collect()
}

/// The laws that one row must obey by itself.
fn laws(case: &Case<'_>, found: &mut Vec<Finding>) {
    interrupted(case.row, found);
    counts::check(case, found);
    sending::check(case, found);
    zeros::check(case, found);
    outlasts::check(case, found);
    extremes::check(case, found);
    identities::check(case, found);
    percentiles::check(case.row, found);
    bounds::check(case, found);
    little::check(case, found);
    length::check(case, found);
    requests::check(case.row, found);
    records::check(case.row, found);
}

/// A run that was ended before its end says so itself.
fn interrupted(row: &Measured, found: &mut Vec<Finding>) {
    let Some(ended) = row.own.as_ref().and_then(|own| own.interrupted_after) else {
        return;
    };
    let claim = "the run was interrupted: it is the beginning of what was asked for, and what was in flight is in no figure";
    let shown = format!("{ended} requests had ended");
    let finding = Finding::new(Severity::Note, Check::TooShort, claim);
    found.push(finding.shown(shown).rerun("run it to its end"));
}

#[cfg(test)]
mod published;
#[cfg(test)]
mod tests;
