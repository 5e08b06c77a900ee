//! Which setting is cheapest, or serves the most where prices are not known, and which cannot be told from it.

use super::{Found, KneeRow, Knees, Priced};
use crate::report::figures::{count, counted, significant, significant_down};
use crate::report::text_sizing::dollars;

/// The first line.
pub(super) fn answer(knees: &Knees) -> String {
    let missing = knees.rows.iter().filter(|row| row.found == Found::NotRun).count();
    let cut = knees.priced().any(|priced| priced.view.is_interrupted);
    let before = match (missing, cut) {
        (0, false) => String::new(),
        _ => {
            let done = knees.priced().filter(|priced| !priced.view.is_interrupted);
            let all = counted(knees.rows.len() as u64, "setting");
            format!("INTERRUPTED after {} of {all}: ", done.count())
        }
    };
    let rate = knees
        .priced()
        .find_map(|priced| priced.view.sizing.as_ref())
        .map(|sizing| format!(" for {} req/s", significant(sizing.demand.rate)));
    let rate = rate.unwrap_or_else(|| " within the SLO".to_owned());
    let found = match (cheapest(knees), strongest(knees)) {
        (Some(best), strongest) => {
            let priced = best.priced().expect("it has a price");
            let others = told_apart(knees, best, priced);
            let more = strongest
                .filter(|row| !knees.is_sized() && row.labels != best.labels)
                .map_or(String::new(), |row| format!("; most req/s: {}", served(row)));
            format!("cheapest{rate}: {}{others}{more}", bought(best))
        }
        // A count that found no number is told by its row.
        (None, Some(row)) if !knees.is_sized() => format!("most req/s{rate}: {}", served(row)),
        (None, _) if knees.is_any_kept() => format!("no price is known of what keeps the promise{rate}"),
        (None, _)
            if knees
                .rows
                .iter()
                .all(|row| matches!(row.found, Found::DoesNotFit(_))) =>
        {
            "NO SETTING fits".to_owned()
        }
        (None, _) => format!(
            "NO SETTING keeps the promise{}",
            rate.replace(" within the SLO", "")
        ),
    };
    before + &found
}

/// What else must be known of the answer: settings whose cost is not known, and those that do not fit, with their reasons.
pub(super) fn qualified(knees: &Knees) -> Vec<String> {
    let mut told = Vec::new();
    let unpriced = |row: &&KneeRow| {
        let is_unpriced =
            |priced: &Priced| priced.is_kept() && priced.usd_per_million_output_tokens().is_none();
        row.priced().is_some_and(is_unpriced)
    };
    let unpriced: Vec<String> = knees.rows.iter().filter(unpriced).map(name).collect();
    if !unpriced.is_empty() {
        told.push(format!(
            "no price is known of {}: give --price, or `[price]` in a profile of your own",
            unpriced.join("; ")
        ));
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in &knees.rows {
        if let Found::DoesNotFit(why) = &row.found {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, names)) => names.push(name(row)),
                None => reasons.push((why, vec![name(row)])),
            }
        }
    }
    told.extend(reasons.into_iter().map(|(why, names)| {
        let all = names.join("; ");
        format!(
            "{all} {} not fit: {why}",
            if names.len() == 1 { "does" } else { "do" }
        )
    }));
    told
}

fn cheapest(knees: &Knees) -> Option<&KneeRow> {
    let cost = |row: &&KneeRow| row.priced()?.cost();
    let known = knees.rows.iter().filter_map(|row| Some((row, cost(&row)?)));
    known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
}

fn strongest(knees: &Knees) -> Option<&KneeRow> {
    let rate = |row: &KneeRow| Some(row.priced()?.view.knee?.value);
    let known = knees.rows.iter().filter_map(|row| Some((row, rate(row)?)));
    known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
}

/// Settings whose cost may as well be as low: both are known within their ranges only.
fn told_apart(knees: &Knees, best: &KneeRow, priced: &Priced) -> String {
    let ends = |priced: &Priced| {
        let cost = priced.cost()?;
        let (low, high) = priced.cost_range();
        Some((cost * low, cost * high))
    };
    let Some((_, highest)) = ends(priced) else {
        return String::new();
    };
    let reaches = |row: &&KneeRow| {
        let low = row.priced().and_then(ends).map(|(low, _)| low);
        row.labels != best.labels && low.is_some_and(|low| low <= highest)
    };
    let alike: Vec<String> = knees.rows.iter().filter(reaches).map(name).collect();
    match alike.len() {
        0 => String::new(),
        1..=3 => format!("; {} cannot be told from it", alike.join(" and ")),
        more => format!("; {} others cannot be told from it", count(more as u64)),
    }
}

/// `gpu = l40s, 0.21 $/M output tokens (2.91 req/s on 1 GPU, 0.86 $/h)`, or what carries the rate that was asked for:
/// `gpu = l40s, 30.96 $/h (36 replicas, 36 GPUs, 0.22 $/M output tokens)`.
fn bought(row: &KneeRow) -> String {
    let Some(priced) = row.priced() else {
        return name(row);
    };
    let tokens = priced.usd_per_million_output_tokens();
    let tokens = tokens.map_or(String::new(), |usd| format!("{} $/M output tokens", dollars(usd)));
    let hour = priced.usd_per_hour_paid();
    let hour = hour.map_or(String::new(), |usd| format!("{} $/h", dollars(usd)));
    let gpus = counted(priced.gpus_paid().unwrap_or_default(), "GPU");
    let fleet = priced
        .view
        .sizing
        .as_ref()
        .and_then(|sizing| sizing.fleet.as_ref());
    match (fleet, priced.view.knee) {
        (Some(fleet), _) => {
            let replicas = counted(fleet.replicas, "replica");
            format!("{}, {hour} ({replicas}, {gpus}, {tokens})", name(row))
        }
        (None, Some(knee)) => {
            let rate = significant_down(knee.value);
            format!("{}, {tokens} ({rate} req/s on {gpus}, {hour})", name(row))
        }
        (None, None) => name(row),
    }
}

/// `gpu = h200, 24.1`.
fn served(row: &KneeRow) -> String {
    let knee = row.priced().and_then(|priced| priced.view.knee);
    let rate = knee.map_or(String::new(), |knee| significant_down(knee.value));
    format!("{}, {rate}", name(row))
}

fn name(row: &KneeRow) -> String {
    let parts = row.labels.iter().map(|(axis, value)| format!("{axis} = {value}"));
    parts.collect::<Vec<_>>().join(", ")
}
