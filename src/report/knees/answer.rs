//! Which setting is cheapest, or serves the most where prices are not known, and which cannot be told from it.

use super::{Found, KneeRow, Knees, Priced};
use crate::analysis::Estimate;
use crate::report::figures::{count, counted, significant, significant_down};
use crate::report::text_knee::asked;
use crate::report::text_sizing::dollars;

/// The first line.
pub(super) fn answer(knees: &Knees) -> String {
    let whole = knees.rows.iter().filter(|row| row.is_whole()).count();
    let is_cut = whole < knees.rows.len();
    let before = match is_cut {
        true => format!(
            "INTERRUPTED after {whole} of {}: ",
            counted(knees.rows.len() as u64, "setting")
        ),
        false => String::new(),
    };
    before + &found(knees, is_cut)
}

fn found(knees: &Knees, is_cut: bool) -> String {
    let sizing = |priced: &Priced| Some(priced.view.sizing.as_ref()?.demand.rate);
    let asked = knees.priced().find_map(sizing);
    let asked = asked.map(|rate| format!(" for {} req/s", significant(rate)));
    let within = asked.clone().unwrap_or_else(|| " within the SLO".to_owned());
    match (cheapest(knees), strongest(knees)) {
        (Some((best, priced)), strongest) => {
            let others = alike(knees, best, priced);
            // Beyond chance.
            let own = priced.view.knee.map_or(0.0, |knee| knee.high);
            let more = strongest
                .filter(|(row, knee)| asked.is_none() && row.labels != best.labels && knee.low > own)
                .map_or(String::new(), |(row, knee)| {
                    format!("; most req/s: {}, {}", row.name(), significant_down(knee.value))
                });
            format!("cheapest{within}: {}{others}{more}", bought(best, priced))
        }
        (None, Some((row, knee))) if asked.is_none() => {
            format!("most req/s{within}: {}, {}", row.name(), significant_down(knee.value))
        }
        _ if knees.priced().any(|priced| priced.view.only_client().is_some()) => {
            "THE CLIENT IS THE LIMIT of every setting that keeps the promise: a larger --max-concurrency, or none, shows what they carry"
                .to_owned()
        }
        _ if knees.is_any_kept() => format!("no price is known of what keeps the promise{within}"),
        _ if is_cut => "nothing is known yet of what keeps the promise".to_owned(),
        _ if knees.rows.iter().all(|row| matches!(row.found, Found::DoesNotFit(_))) => "NO SETTING fits".to_owned(),
        _ if knees.priced().next().is_none() => "NO SETTING could be searched".to_owned(),
        _ => format!("NO SETTING keeps the promise{}", asked.unwrap_or_default()),
    }
}

/// What else must be known of the answer: settings without a price, a knee or a search, each with its reason.
pub(super) fn qualified(knees: &Knees) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&KneeRow>)> = Vec::new();
    for row in &knees.rows {
        let reason = match &row.found {
            Found::DoesNotFit(why) => Some(format!("does not fit: {why}")),
            Found::Refused { why, .. } => Some(format!("is refused: {why}")),
            Found::Failed(why) => Some(format!("was not searched: {why}")),
            Found::NotRun => None,
            Found::Knee(priced) => not_ranked(priced),
        };
        let Some(reason) = reason else {
            continue;
        };
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, rows)) => rows.push(row),
            None => reasons.push((reason, vec![row])),
        }
    }
    let more = reasons.len().saturating_sub(REASONS_MAX);
    let told = |(reason, rows): (String, Vec<&KneeRow>)| format!("{}: {reason}", names(&rows));
    let mut told: Vec<String> = reasons.into_iter().take(REASONS_MAX).map(told).collect();
    if more > 0 {
        told.push(format!(
            "{} more, each with its own reason: CSV and JSON have them all",
            count(more as u64)
        ));
    }
    told.extend(by_chance_alone(knees));
    told.extend(unlike_promises(knees));
    told
}

/// Reasons that are told one by one: settings along an axis of memory have each its own.
const REASONS_MAX: usize = 6;

/// Of which settings the model's doubt is not known, so that it is no part of what tells them apart.
fn by_chance_alone(knees: &Knees) -> Option<String> {
    if knees.priced().filter(|priced| priced.cost().is_some()).count() < 2 {
        return None;
    }
    let is_unknown = |priced: &Priced| priced.cost().is_some_and(|cost| cost.model.is_none());
    let rows = knees
        .rows
        .iter()
        .filter(|row| row.priced().is_some_and(is_unknown));
    let rows: Vec<&KneeRow> = rows.collect();
    let of = match rows.len() == knees.priced().count() {
        true => "settings".to_owned(),
        false => names(&rows),
    };
    (!rows.is_empty())
        .then(|| format!("chance alone tells {of} from others: the model's doubt of that cost is not known"))
}

/// The laxest promise is kept at the highest rate.
fn unlike_promises(knees: &Knees) -> Option<String> {
    let mut promises = knees.priced().map(|priced| asked(&priced.view));
    let first = promises.next()?;
    promises
        .any(|other| other != first)
        .then(|| "the settings promise unlike things: the laxest promise is the cheapest to keep".to_owned())
}

/// Why a setting that keeps the promise is not ranked by its cost.
fn not_ranked(priced: &Priced) -> Option<String> {
    if priced.view.sizing.is_none() && priced.view.only_client().is_some() {
        return Some("the client is its limit, and its knee was not seen".to_owned());
    }
    let why = priced.usd_per_hour.as_ref().err()?;
    (priced.view.is_kept() && priced.cost().is_none()).then(|| format!("no price is told: {why}"))
}

fn cheapest(knees: &Knees) -> Option<(&KneeRow, &Priced)> {
    let of_row = |row: &'_ KneeRow| row.priced().and_then(Priced::cost);
    let row = knees.ranked().into_iter().find(|row| of_row(row).is_some())?;
    Some((row, row.priced()?))
}

/// What serves most, and how many requests per second.
fn strongest(knees: &Knees) -> Option<(&KneeRow, Estimate)> {
    let rate = |row: &KneeRow| row.priced()?.view.knee;
    let known = knees.rows.iter().filter_map(|row| Some((row, rate(row)?)));
    known.max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// Settings that may cost as little as the cheapest, in words.
fn alike(knees: &Knees, best: &KneeRow, priced: &Priced) -> String {
    let Some(least) = priced.cost() else {
        return String::new();
    };
    let is_alike = |row: &&KneeRow| {
        let other = row.priced().and_then(Priced::cost);
        row.labels != best.labels && other.is_some_and(|other| !other.is_dearer_than(&least))
    };
    let alike: Vec<&KneeRow> = knees.rows.iter().filter(is_alike).collect();
    match alike.len() {
        0 => String::new(),
        1..=3 => format!("; {} cannot be told from it", names(&alike)),
        more => format!("; {} others cannot be told from it", count(more as u64)),
    }
}

/// `gpu = l40s, 0.21 $/M output tokens (2.91 req/s on 1 GPU, 0.86 $/h)`, or what carries the rate that was asked for:
/// `gpu = l40s, 30.96 $/h (36 replicas, 36 GPUs, 0.22 $/M output tokens)`.
fn bought(row: &KneeRow, priced: &Priced) -> String {
    let million = priced.usd_per_million_output_tokens();
    let million = million.map(|usd| format!("{} $/M output tokens", dollars(usd)));
    // Of a search that ended at its highest rate no more is known than that.
    let is_open =
        priced.view.sizing.is_none() && priced.view.knee.is_some_and(|knee| knee.high.is_infinite());
    let million = million.map(|told| match is_open {
        true => format!("at most {told}"),
        false => told,
    });
    let hour = priced.usd_per_hour_paid();
    let hour = hour.map(|usd| format!("{} $/h", dollars(usd)));
    let gpus = priced.gpus_paid().map(|gpus| counted(gpus, "GPU"));
    let sizing = priced.view.sizing.as_ref();
    let (ranked, beside) = match sizing.and_then(|sizing| sizing.fleet.as_ref()) {
        Some(fleet) => (hour, [Some(counted(fleet.replicas, "replica")), gpus, million]),
        None => {
            let knee = priced.view.knee.zip(gpus);
            let on = knee.map(|(knee, gpus)| format!("{} req/s on {gpus}", significant_down(knee.value)));
            (million, [on, hour, None])
        }
    };
    let beside: Vec<String> = beside.into_iter().flatten().collect();
    let ranked = ranked.unwrap_or_default();
    format!("{}, {ranked} ({})", row.name(), beside.join(", "))
}

/// `gpu = h100 and gpu = l40s, tensor-parallel-size = 2`; of many only how many.
pub(super) fn names(rows: &[&KneeRow]) -> String {
    const NAMED: usize = 8;
    if rows.len() > NAMED {
        return format!("{} of the settings", count(rows.len() as u64));
    }
    let names: Vec<String> = rows.iter().map(|row| row.name()).collect();
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join("; ")),
        _ => names.concat(),
    }
}
