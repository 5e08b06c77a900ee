//! How much each run counts: what repeats another tells nothing more of the terms, and a family has one vote.

use std::collections::BTreeMap;

use super::Known;
use crate::calibrate::runs::Run;

pub(super) const OWN_WEIGHT: f64 = 3.0;
const FAMILY_WEIGHT: f64 = 4.0;

/// Which runs repeat which: at one load of one server they miss by the same, however often they were measured.
#[derive(Clone)]
pub(super) struct Loads {
    /// The load of each run, numbered as they come up.
    pub(super) of: Vec<usize>,
    /// Different ones.
    pub(super) count: usize,
}

pub(super) fn loads(runs: &[&Run]) -> Loads {
    let mut known: Vec<(&str, &str)> = Vec::new();
    let mut of = Vec::with_capacity(runs.len());
    for run in runs {
        let load = (run.family.as_str(), run.load.as_str());
        let place = known.iter().position(|other| *other == load);
        of.push(place.unwrap_or(known.len()));
        if place.is_none() {
            known.push(load);
        }
    }
    Loads {
        of,
        count: known.len(),
    }
}

/// Runs of one load count as one. Figures of one family count as four at most: they share their set-up, and one with many
/// rows must not outvote the rest. Runs on the card itself count more: its server's CPU is theirs.
pub(super) fn weights(runs: &[&Run], rows: &[usize], known: &Known) -> Vec<f64> {
    let loads = loads(runs);
    let mut times = vec![0.0; loads.count];
    loads.of.iter().for_each(|load| times[*load] += 1.0);
    let share = |run: usize| 1.0 / times[loads.of[run]];
    let mut of_families: BTreeMap<&str, f64> = BTreeMap::new();
    for run in rows {
        *of_families.entry(runs[*run].family.as_str()).or_default() += share(*run);
    }
    let weight = |run: &usize| {
        let Run { family, resolved, .. } = runs[*run];
        let shared = share(*run) * (FAMILY_WEIGHT / of_families[family.as_str()]).min(1.0);
        if resolved.device.id == known.device.id {
            OWN_WEIGHT * shared
        } else {
            shared
        }
    };
    rows.iter().map(weight).collect()
}
