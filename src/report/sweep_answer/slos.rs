//! Sweeps over the SLO itself, of which the laxest is met the most easily.
//!
//! Law: settings are held against each other under one and the same SLO. Where nothing else differs it is told which SLOs are met.

use super::setting::{self, Labels, Setting, apart_from_seeds, named};
use super::{best, so_far};
use crate::config::axes::sets_slo;
use crate::report::figures::{count, percent};
use crate::report::sweep::SweepRow;

/// Most SLOs of which each is told by itself.
const TOLD_MAX: usize = 4;

/// What there is to say of each SLO; `None` where there is but one.
pub(super) fn told(rows: &[SweepRow<'_>]) -> Option<String> {
    let parts = setting::parted(rows.first().map(|row| row.settings), |axis| sets_slo(axis));
    let parts: Vec<(Labels, Labels)> = rows.iter().map(|row| parts(row.settings)).collect();
    let mut slos: Vec<&Labels> = Vec::new();
    for (slo, _) in &parts {
        if !slos.contains(&slo) {
            slos.push(slo);
        }
    }
    if slos.len() < 2 {
        return None;
    }
    let rows_under = |slo: &Labels| -> Vec<SweepRow<'_>> {
        let all = rows
            .iter()
            .zip(&parts)
            .filter(|(row, (own, _))| own == slo && row.is_simulated());
        let own = all.map(|(row, (_, settings))| SweepRow {
            settings,
            ..row.clone()
        });
        own.collect()
    };
    let under: Vec<(&Labels, Vec<SweepRow<'_>>)> =
        slos.into_iter().map(|slo| (slo, rows_under(slo))).collect();
    let is_alone = |rows: &Vec<SweepRow<'_>>| apart_from_seeds(rows).len() < 2;
    Some(if under.iter().all(|(_, rows)| is_alone(rows)) {
        which_are_met(&under)
    } else if under.len() <= TOLD_MAX {
        let each = under.iter().map(|(slo, rows)| {
            let [sure, open] = best(rows, " within it").map(|told| told.text);
            let told = match sure + &open {
                none if none.is_empty() => "; none meets it".to_owned(),
                told => told,
            };
            format!("; under {}: {}", named(slo), told.trim_start_matches("; "))
        });
        each.collect()
    } else {
        let met = under
            .iter()
            .filter(|(_, rows)| rows.iter().any(|row| row.keeps() && !row.is_open()));
        format!(
            "; {} of {} SLOs are met by some of the runs",
            count(met.count() as u64),
            count(under.len() as u64)
        )
    })
}

/// `; the SLO is met at ttft = 500 ms; not decided at ttft = 200 ms (99.2 % good so far); missed at ttft = 100 ms`.
fn which_are_met(under: &[(&Labels, Vec<SweepRow<'_>>)]) -> String {
    let mut fates = [Vec::new(), Vec::new(), Vec::new()];
    for (slo, rows) in under {
        for setting in apart_from_seeds(rows) {
            let name = match slo.len() {
                1 => named(slo),
                _ => format!("({})", named(slo)),
            };
            let runs: Vec<&SweepRow<'_>> = setting.simulated().collect();
            let seen = || format!("{name} ({} so far)", so_far(&runs));
            match (setting.surely_meets(), setting.may_meet()) {
                (true, _) => fates[0].push(name),
                (false, true) => fates[1].push(seen()),
                (false, false) => fates[2].push(missed(&name, &setting)),
            }
        }
    }
    let told = ["met", "not decided", "missed"].iter().zip(fates);
    let told = told.filter(|(_, names)| !names.is_empty());
    let told: Vec<String> = told
        .map(|(fate, names)| format!("{fate} at {}", names.join(", ")))
        .collect();
    match told.is_empty() {
        true => String::new(),
        false => format!("; the SLO is {}", told.join("; ")),
    }
}

/// With the share of good requests, where that is one run's.
fn missed(name: &str, setting: &Setting<'_, '_>) -> String {
    match (&setting.runs[..], setting.is_served()) {
        ([run], true) => run
            .good()
            .map_or(name.to_owned(), |good| format!("{name} ({} good)", percent(good))),
        _ => name.to_owned(),
    }
}
