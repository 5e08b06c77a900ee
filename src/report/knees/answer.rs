//! Which setting is cheapest, or serves the most where prices are not known, and which cannot be told from it.

use super::{Doubt, Found, KneeRow, Knees, Priced};
use crate::analysis::Estimate;
use crate::analysis::costs::UNKNOWN;
use crate::report::figures::{count, counted, percent, significant};
use crate::report::text_knee::asked;
use crate::report::text_sizing::dollars;
use crate::report::undone::Undone;

/// The first line.
pub(super) fn answer(knees: &Knees) -> String {
    let before = knees
        .cut()
        .map(|(searched, searchable)| interrupted(searched, searchable));
    before.unwrap_or_default() + &found(knees)
}

/// What stands before an answer that is only among the settings that were searched to their end.
pub(in crate::report) fn interrupted(searched: u64, searchable: u64) -> String {
    let were = if searched == 1 { "was" } else { "were" };
    let of = counted(searchable, "setting");
    format!("INTERRUPTED: {searched} of {of} {were} searched; ")
}

fn found(knees: &Knees) -> String {
    let sizing = |priced: &Priced| Some(priced.view.sizing.as_ref()?.demand.rate);
    let asked = knees.priced().find_map(sizing);
    let asked = asked.map(|rate| format!(" for {} req/s", significant(rate)));
    let within = asked.clone().unwrap_or_else(|| " within the SLO".to_owned());
    // Of settings that were not searched nothing is known.
    let unit = knees.of().unit();
    let (most, least) = match knees.cut() {
        None => (format!("most {unit}"), "cheapest"),
        Some((1, _)) => (format!("{unit} of it"), "cost of it"),
        Some(_) => (format!("most {unit} of these"), "cheapest of these"),
    };
    match (cheapest(knees), strongest(knees)) {
        (Some((best, priced)), _) => {
            format!("{least}{within}: {}{}", bought(best, priced), beside(knees, "be as cheap"))
        }
        (None, Some((row, knee))) if asked.is_none() => {
            let knee = knees.of().figure(knee.value);
            format!("{most}{within}: {}, {knee}{}", row.name(), beside(knees, "serve as much"))
        }
        _ if knees.cut().is_some() && !knees.searched().any(|priced| priced.view.is_kept()) => {
            seen_before_the_end(knees)
        }
        _ if knees.is_any_client() => {
            "THE CLIENT IS THE LIMIT of every setting that meets the SLO: a larger --max-concurrency, or none, shows what they carry"
                .to_owned()
        }
        _ if knees.is_any_kept() && knees.rows.iter().all(|row| knees.comparable(row).is_none()) => {
            let kept = knees.searched().filter(|priced| priced.view.is_kept());
            let mut whys: Vec<&str> = kept.filter_map(|priced| knees.undone(priced)).map(Undone::why).collect();
            whys.sort_unstable();
            whys.dedup();
            format!("NO SETTING does what is asked for: {}", whys.join("; "))
        }
        _ if knees.is_any_kept() => format!("no price is known of what meets the SLO{within}"),
        _ if knees.rows.iter().all(|row| matches!(row.found, Found::DoesNotFit(_))) => "NO SETTING fits".to_owned(),
        _ if knees.priced().next().is_none() => "NO SETTING could be searched".to_owned(),
        _ => format!("NO SETTING meets the SLO{}", asked.unwrap_or_default()),
    }
}

/// What is known where no search that came to its end met the SLO: the highest rate that another was seen to meet it at.
fn seen_before_the_end(knees: &Knees) -> String {
    let seen = knees.rows.iter().filter_map(|row| {
        let priced = row.priced().filter(|priced| priced.is_cut)?;
        Some((row, priced.view.knee?.value, priced.view.sizing.is_some()))
    });
    let most = seen.max_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
    let most = most.map(|(row, rate, is_sized)| {
        let of_one = if is_sized { " of one replica" } else { "" };
        let (rate, name) = (knees.of().told(rate), row.name());
        format!("at least {rate}{of_one} within the SLO until then: {name}")
    });
    let missed = (knees.searched().next().is_some()).then(|| match knees.cut() {
        Some((1, _)) => "it does not meet the SLO".to_owned(),
        _ => "they do not meet the SLO".to_owned(),
    });
    let known: Vec<String> = missed.into_iter().chain(most).collect();
    match known.is_empty() {
        true => "nothing is known yet of what meets the SLO".to_owned(),
        false => known.join("; "),
    }
}

/// What else must be known of the answer: settings without a price, a knee or a search, each with its reason.
pub(in crate::report) fn qualified(knees: &Knees) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&KneeRow>)> = Vec::new();
    for row in &knees.rows {
        let reason = match &row.found {
            Found::DoesNotFit(why) => Some(format!("does not fit: {why}")),
            Found::Refused { why, .. } => Some(format!("is refused: {why}")),
            Found::Failed(why) | Found::Pruned(why) => Some(format!("was not searched: {why}")),
            Found::NotRun => None,
            Found::Knee(priced) => not_ranked(knees, priced),
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
    told.extend(unknown_doubts(knees));
    told.extend(unlike_promises(knees));
    told
}

/// Reasons that are told one by one: settings along an axis of memory have each its own.
const REASONS_MAX: usize = 6;

/// Of which settings the model's doubt is not known, and what is taken in its place to tell them apart.
fn unknown_doubts(knees: &Knees) -> Option<String> {
    if knees.searched().filter(|priced| priced.cost().is_some()).count() < 2 {
        return None;
    }
    let is_unknown = |priced: &Priced| priced.cost().is_some_and(|cost| cost.model.is_none());
    let rows = knees
        .rows
        .iter()
        .filter(|row| row.searched().is_some_and(is_unknown));
    let rows: Vec<&KneeRow> = rows.collect();
    let of = match rows.len() == knees.searched().count() {
        true => "settings".to_owned(),
        false => names(&rows),
    };
    (!rows.is_empty()).then(|| {
        format!(
            "the model's doubt of that cost is not known of {of}: taken as that of a server of which nothing was measured, {} (90 %)",
            percent(UNKNOWN.exp_m1())
        )
    })
}

/// The laxest promise is kept at the highest rate.
fn unlike_promises(knees: &Knees) -> Option<String> {
    let mut promises = knees.priced().map(|priced| asked(&priced.view));
    let first = promises.next()?;
    promises
        .any(|other| other != first)
        .then(|| "the settings have unlike SLOs: the laxest is the cheapest to meet".to_owned())
}

/// Why a setting that meets the SLO is not ranked by its cost.
fn not_ranked(knees: &Knees, priced: &Priced) -> Option<String> {
    if let Some(undone) = knees.undone(priced) {
        let why = undone.why();
        return Some(format!(
            "{why}, so that it does less work than is asked for and has no rank"
        ));
    }
    if priced.view.sizing.is_none() && priced.view.only_client().is_some() {
        return Some("the client is its limit, and its knee was not seen".to_owned());
    }
    let why = priced.rent.as_ref().err()?;
    (priced.view.is_kept() && priced.cost().is_none()).then(|| format!("no price is told: {why}"))
}

fn cheapest(knees: &Knees) -> Option<(&KneeRow, &Priced)> {
    let cost = |row: &'_ KneeRow| knees.comparable(row).and_then(Priced::cost);
    let row = knees.ranked().into_iter().find(|row| cost(row).is_some())?;
    Some((row, row.priced()?))
}

/// What serves most, and how many requests per second.
fn strongest(knees: &Knees) -> Option<(&KneeRow, Estimate)> {
    let rate = |row: &KneeRow| knees.comparable(row)?.view.knee;
    // Of several that are equal the first.
    let known = knees.rows.iter().rev().filter_map(|row| Some((row, rate(row)?)));
    known.max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// How many settings cannot be told from the best; which, and why, is told below.
fn beside(knees: &Knees, may: &str) -> String {
    let alike = [Doubt::Chance, Doubt::Model].map(|doubt| knees.alike(doubt).len());
    match alike.iter().sum::<usize>() {
        0 => String::new(),
        others => format!("; {} may {may}", counted(others as u64, "other")),
    }
}

/// Why some cannot be told from the best.
pub(in crate::report) const BY_CHANCE: &str = "by chance, another run may rank them otherwise";
/// The same where chance alone would not hide it.
pub(in crate::report) const BY_MODEL: &str = "by the model's doubt, chance alone would tell them apart";

/// The settings that cannot be told from the best, a sentence for each reason.
pub(in crate::report) fn all_alike(knees: &Knees) -> Vec<String> {
    const LISTED: usize = 16;
    let told = |doubt: Doubt| {
        let alike = knees.alike(doubt);
        let names = names_of(&alike, LISTED);
        let names = match alike.len() > LISTED {
            true => format!("{names} (`standing` of CSV and JSON has them all)"),
            false => names,
        };
        let why = match doubt {
            Doubt::Chance => BY_CHANCE,
            Doubt::Model => BY_MODEL,
        };
        (!alike.is_empty()).then(|| format!("{why}: {names}"))
    };
    [Doubt::Chance, Doubt::Model]
        .into_iter()
        .filter_map(told)
        .collect()
}

/// What serves more than the cheapest, beyond chance.
pub(super) fn serves_more(knees: &Knees) -> Option<String> {
    let (best, priced) = cheapest(knees)?;
    let own = priced.view.knee.map_or(0.0, |knee| knee.high);
    let (row, knee) = strongest(knees)?;
    let is_told = priced.view.sizing.is_none() && row.labels != best.labels && knee.low > own;
    is_told.then(|| format!("{}: {}", knees.of().told(knee.value), row.name()))
}

/// `gpu = l40s, 0.21 $/M output tokens (2.91 req/s on 1 GPU, 0.86 $/h)`, of users `gpu = l40s, 0.00472 $/h a user (182 users on 1 GPU, 0.86 $/h,
/// 0.21 $/M output tokens)`, or what carries the rate that was asked for: `gpu = l40s, 30.96 $/h (36 replicas, 36 GPUs, 0.22 $/M output tokens)`.
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
    let knee = priced.view.knee.zip(gpus.clone());
    let on = knee.map(|(knee, gpus)| format!("{} on {gpus}", priced.view.of.told(knee.value)));
    let user = priced.usd_per_user_hour();
    let user = user.map(|usd| format!("{} $/h a user", dollars(usd)));
    let (ranked, beside) = match (sizing.and_then(|sizing| sizing.fleet.as_ref()), user) {
        (Some(fleet), _) => (hour, [Some(counted(fleet.replicas, "replica")), gpus, million]),
        (None, Some(user)) => (Some(user), [on, hour, million]),
        (None, None) => (million, [on, hour, None]),
    };
    let beside: Vec<String> = beside.into_iter().flatten().collect();
    let ranked = ranked.unwrap_or_default();
    format!("{}, {ranked} ({})", row.name(), beside.join(", "))
}

/// `gpu = h100 and gpu = l40s, tensor-parallel-size = 2`; of many only how many.
pub(super) fn names(rows: &[&KneeRow]) -> String {
    const NAMED: usize = 8;
    match rows.len() > NAMED {
        true => format!("{} of the settings", count(rows.len() as u64)),
        false => names_of(rows, NAMED),
    }
}

/// The names of so many, and how many more there are.
fn names_of(rows: &[&KneeRow], named: usize) -> String {
    let mut names: Vec<String> = rows.iter().take(named).map(|row| row.name()).collect();
    let more = rows.len().saturating_sub(named);
    if more > 0 {
        names.push(format!("{} more", count(more as u64)));
    }
    match names.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join("; ")),
        _ => names.concat(),
    }
}
