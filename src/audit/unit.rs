//! Times of a thousandth: columns of milliseconds that hold seconds.
//!
//! Everything that follows from such a row is wrong by a thousand, and each law names another culprit. So a row that breaks a
//! law is looked at once more with its times a thousand times as long. Law: it is told as a matter of the unit only where
//! nothing speaks against it then, and something speaks for it: the clients in flight, the length of the run, or the time of a
//! token's weights.

use super::case::Case;
use super::finding::{Check, Finding, Severity, time};
use super::{Known, laws};
use crate::results::{Load, Measured, Stats};

const THOUSAND: f64 = 1000.0;
/// Clients that are in flight on average, as a share of those that there are.
const OF_CLIENTS: std::ops::RangeInclusive<f64> = 0.5..=1.05;
/// The longest answer of a burst, as a share of the run.
const OF_RUN: std::ops::RangeInclusive<f64> = 0.2..=1.05;
/// A token's time as so many times that of reading its weights: a full batch's at most.
const OF_FLOOR: std::ops::RangeInclusive<f64> = 1.0..=60.0;

/// The row with its times in the unit that its columns name, and what is to be said of it; `None` where they are.
pub(super) fn in_milliseconds(row: &Measured, known: &Known) -> Option<(Measured, Finding)> {
    let machine = known.machine.as_ref();
    // Lists of requests have a unit of their own.
    if row.latencies().iter().all(|(_, stats)| stats.is_empty()) || !row.requests.is_empty() {
        return None;
    }
    let is_bad = |row: &Measured| {
        let mut found = Vec::new();
        laws(&Case::new(row, machine), &mut found);
        found.iter().any(|finding| finding.severity > Severity::Note)
    };
    if !is_bad(row) {
        return None;
    }
    let mut longer = row.clone();
    for stats in [
        &mut longer.ttft,
        &mut longer.tpot,
        &mut longer.itl,
        &mut longer.e2el,
    ] {
        lengthen(stats);
    }
    if is_bad(&longer) {
        return None;
    }
    let evidence = evidence(&Case::new(&longer, machine))?;
    let (name, of) = row.latencies().into_iter().find_map(|(name, stats)| {
        let of = stats.centre()?;
        Some((name, of))
    })?;
    let claim = "the latencies look like seconds in columns of milliseconds";
    let shown = format!(
        "{name} {} × 1000 = {}; then nothing speaks against the row, and {evidence}",
        time(of),
        time(of * THOUSAND)
    );
    let finding = Finding::new(Severity::Impossible, Check::Unit, claim)
        .shown(shown)
        .rerun("write the latencies in milliseconds, as the columns say; the row is audited as if they were");
    Some((longer, finding))
}

fn lengthen(stats: &mut Stats) {
    let named = [
        &mut stats.mean,
        &mut stats.median,
        &mut stats.p50,
        &mut stats.std,
        &mut stats.min,
        &mut stats.max,
    ];
    for value in named.into_iter().flatten() {
        *value *= THOUSAND;
    }
    for (_, value) in &mut stats.percentiles {
        *value *= THOUSAND;
    }
}

/// What speaks for the longer times.
fn evidence(case: &Case<'_>) -> Option<String> {
    if let (Load::Closed { clients }, Some(in_flight)) = (case.load(), case.in_flight())
        && clients > 0
        && OF_CLIENTS.contains(&(in_flight.value / clients as f64))
    {
        return Some(format!("{} of {clients} clients", in_flight.little()));
    }
    let step = case.row.tpot.centre().or(case.row.itl.centre());
    if let (Some(step), Some(floor)) = (step, case.decode_floor_s())
        && OF_FLOOR.contains(&(step / floor))
    {
        return Some(format!(
            "a token takes {}, where {} reads its weights in {}",
            time(step),
            case.machine_name(),
            time(floor)
        ));
    }
    let stats = case.e2el_stats();
    let longest = stats.max.or(stats.percentile(99.0));
    match (case.load(), longest, case.duration()) {
        (Load::Burst, Some(longest), Some(run)) if OF_RUN.contains(&(longest / run)) => Some(format!(
            "the longest answer takes {} of the {} that the run took",
            time(longest),
            time(run)
        )),
        _ => None,
    }
}
