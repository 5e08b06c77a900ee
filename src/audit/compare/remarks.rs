//! What a reader must know of two results before the figures: what they say against themselves, and where chance comes from.

use super::super::case::Case;
use super::super::little::FULL;
use super::chance::Chance;
use crate::results::Measured;

/// The client's limit, where it is full: no queue but the client's own grows behind it.
fn full_limit(row: &Measured) -> Option<u64> {
    let in_flight = Case::new(row, None).in_flight()?.value;
    let limit = row.setup.max_concurrency?;
    (in_flight >= FULL * limit as f64).then_some(limit)
}

/// What a reader must know of the two before the figures.
pub(super) fn remarks(rows: [&Measured; 2], chances: &[Chance<'_>; 2], is_same_traffic: bool) -> Vec<String> {
    let which = ["first", "second"];
    let not_measured = rows.iter().zip(which).filter_map(|(row, which)| {
        let names: Vec<&str> = row.not_measured().collect();
        let is_plural = names.len() > 1;
        (!names.is_empty()).then(|| {
            format!(
                "{} of the {which} result {} NaN, which is no measurement, and {} left out",
                names.join(", "),
                if is_plural { "are" } else { "is" },
                if is_plural { "are" } else { "is" }
            )
        })
    });
    let verdicts = rows.iter().zip(which).filter_map(|(row, which)| {
        let why = match row.own.as_ref()?.verdict.as_str() {
            "too_short" => "is too short to judge: its figures are its own, not the system's",
            "critical" => "is so near to saturation that its figures are hardly known",
            "unstable" => match full_limit(row) {
                Some(limit) => {
                    return Some(format!(
                        "the {which} result is a closed loop of {limit}: its rate is above what that many in flight are \
                         answered at, and waiting for the limit is in no latency"
                    ));
                }
                None => "is overloaded: its latencies measure how long it ran",
            },
            _ => return None,
        };
        Some(format!("the {which} result {why}"))
    });
    let cut = rows.iter().zip(which).filter_map(|(row, which)| {
        let ended = row.own.as_ref()?.interrupted_after?;
        Some(format!(
            "the {which} result was interrupted after {ended} requests: it is the beginning of its run, and what was in flight is \
             in no figure"
        ))
    });
    let mut remarks: Vec<String> = not_measured.chain(cut).chain(verdicts).collect();
    if is_same_traffic {
        let what = "both saw the requests of one seed, so what moved is no chance of arrivals; another seed may show it larger \
                    or smaller, which `plimsoll compare` bounds";
        remarks.push(what.to_owned());
        return remarks;
    }
    let [one, other] = [chances[0].how(), chances[1].how()];
    remarks.push(if one == other {
        format!("chance of each result: {one}")
    } else {
        format!("chance of the first result {one}; of the second {other}")
    });
    remarks
}
