//! The runs of a sweep side by side: a table for people, a row a run for spreadsheets.
//!
//! The table shows what `run` shows, the steady stretch where there is one, or whole runs where some are too short to have one
//! ([`alike`]); the rows of a spreadsheet are vLLM's keys, which describe whole runs.
//!
//! A run is its JSON object ([`super::json::run`]), so that one read back from a sweep's file prints the same as one
//! just simulated.

pub mod columns;
mod row;

use serde_json::Value;

use self::columns::{Columns, TOKENS_COST, cells};
use super::page::{panels, wrapped};
use super::sweep_answer::answer;
pub use super::sweep_answer::none_keeps;
use super::tables::{Column, markdown, table};
use super::text_caveats::trust_lines;
use super::trust::trust_of;
use crate::cost::Trust;

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct SweepRow<'a> {
    /// (axis, value).
    pub settings: &'a [(String, String)],
    /// The run's object; `null` where the sweep was stopped before it, the verdict and its reason where it cannot be run.
    pub run: &'a Value,
    /// Share of requests that must be good, where limits on them were given.
    pub attainment: Option<f64>,
    /// Its figures are of the whole run, though it may have a steady stretch.
    pub of_whole: bool,
}

/// The runs with figures that compare: where one is too short to have a steady stretch those of all are of whole runs. What a
/// stretch serves may be more than is offered to all of it, and less of another.
#[must_use]
pub fn alike<'a>(mut rows: Vec<SweepRow<'a>>) -> Vec<SweepRow<'a>> {
    let of_whole = rows.iter().any(|row| row.verdict() == "too_short");
    for row in &mut rows {
        row.of_whole = of_whole;
    }
    rows
}

/// What is said of rows that are told as whole runs.
pub(super) const OF_WHOLE: &str =
    "figures are of whole runs, start and end included: some are too short to have a steady stretch";

/// Writes the table with the columns that are asked for; where it is wider than `width` columns it is told in several, each with the axes.
#[must_use]
pub fn text(rows: &[SweepRow<'_>], shown: &Columns, width: Option<usize>) -> String {
    let (columns, cells) = cells(rows, shown);
    let remarks = remarks(rows, &columns);
    let Some(width) = width else {
        return format!("{}\n{}{}", answer(rows), table(&columns, &cells), lines(&remarks));
    };
    let axes = rows.first().map_or(0, |row| row.settings.len());
    let remarks: String = remarks
        .iter()
        .map(|line| wrapped("", "  ", line, width))
        .collect();
    wrapped("", "  ", &answer(rows), width) + &panels(&columns, &cells, axes, width) + &remarks
}

/// What is said below the table: what the figures rest on, and what they are of.
pub(super) fn remarks(rows: &[SweepRow<'_>], columns: &[Column]) -> Vec<String> {
    let mut remarks = trust(rows);
    let tells_tokens_cost = columns.iter().any(|column| column.head() == TOKENS_COST);
    if tells_tokens_cost && rows.iter().any(SweepRow::is_unstable) {
        remarks.push(format!(
            "{TOKENS_COST} of an unstable run is of what is served in overload, late: `plimsoll knee -L` ranks what tokens cost within an SLO"
        ));
    }
    if rows.iter().any(|row| row.of_whole) {
        // A cost is told as the run has it.
        let has_steady = rows.iter().any(SweepRow::has_steady);
        remarks.push(match tells_tokens_cost && has_steady {
            true => format!("{OF_WHOLE}; {TOKENS_COST} is of the steady stretch of a run that has one"),
            false => OF_WHOLE.to_owned(),
        });
    }
    remarks
}

/// What the parts of the steps are known from, each as little as in any of the runs: a line, or one for each group of pools.
fn trust(rows: &[SweepRow<'_>]) -> Vec<String> {
    let mut parts: Vec<(String, Trust)> = Vec::new();
    for row in rows {
        let told = row.run.pointer("/plimsoll/trust").and_then(Value::as_object);
        for (part, word) in told.into_iter().flatten() {
            let Some(trust) = word.as_str().and_then(trust_of) else {
                continue;
            };
            match parts.iter_mut().find(|(known, _)| known == part) {
                Some((_, least)) => *least = trust.max(*least),
                None => parts.push((part.clone(), trust)),
            }
        }
    }
    let whose = match rows.iter().filter(|row| row.is_simulated()).count() {
        1 => "trust",
        _ => "trust, of all runs the least",
    };
    let told = trust_lines(&parts).into_iter();
    told.map(|line| format!("{whose}: {line}")).collect()
}

fn lines(all: &[String]) -> String {
    all.iter().map(|line| format!("{line}\n")).collect()
}

/// Writes the table in Markdown.
#[must_use]
pub fn md(rows: &[SweepRow<'_>], shown: &Columns) -> String {
    let (columns, cells) = cells(rows, shown);
    let text = format!("{}\n\n{}", answer(rows), markdown(&columns, &cells));
    match lines(&remarks(rows, &columns)) {
        remarks if remarks.is_empty() => text,
        remarks => format!("{text}\n{remarks}"),
    }
}

/// Whether any run found a prompt's beginning in its prefix cache.
fn shares_prefixes(rows: &[SweepRow<'_>]) -> bool {
    rows.iter()
        .any(|row| row.hit_rate().is_some_and(|share| share > 0.0))
}

/// Whether any run loaded KV from elsewhere than its own cache.
fn finds_elsewhere(rows: &[SweepRow<'_>]) -> bool {
    rows.iter().any(|row| row.found_anywhere().is_some())
}

/// Whether an hour of one run costs more than one of another, by more than rounding.
fn costs_differ(rows: &[SweepRow<'_>]) -> bool {
    let costs = || rows.iter().filter_map(|row| row.named("usd_per_hour"));
    let (least, most) = (
        costs().fold(f64::INFINITY, f64::min),
        costs().fold(f64::NEG_INFINITY, f64::max),
    );
    most > least * (1.0 + 1e-9)
}

/// Between what a run's figures lie with 90 % confidence by the model alone, under `FIGURE_model_low` and `FIGURE_model_high`: in
/// the figure's own unit and of the same stretch, as a knee's are in [`super::knees::csv`]. The factors themselves are in JSON.
fn model_ends(row: &SweepRow<'_>) -> Vec<(String, Option<f64>)> {
    let figures = row.run.pointer("/plimsoll/model_interval");
    let figures = figures.and_then(Value::as_object).into_iter().flatten();
    let ends = figures.flat_map(|(figure, interval)| {
        let value = row.named_of_whole(figure);
        let end = |at: usize, name: &str| {
            let factor = interval.get("factors_90")?.get(at)?.as_f64()?;
            let end = value.map(|value| value * factor);
            Some((format!("{figure}_model_{name}"), end))
        };
        [end(0, "low"), end(1, "high")]
    });
    ends.flatten().collect()
}

/// Columns of a promise.
const PROMISE: [&str; 4] = ["slo", "good_share", "good_share_low", "good_share_high"];

/// What became of the promise; of one that is to percentiles alone there is no share.
fn promise(row: &SweepRow<'_>) -> [String; 4] {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let is_known = row.is_simulated() && row.is_promised();
    let fate = match (row.is_open(), row.keeps()) {
        _ if !is_known => "",
        (true, _) => "not_decided",
        (false, true) => "kept",
        (false, false) => "broken",
    };
    let good = row.good().filter(|_| is_known);
    let ends = row.interval("attainment").filter(|_| good.is_some());
    [
        fate.to_owned(),
        number(good),
        number(ends.map(|(low, _)| low)),
        number(ends.map(|(_, high)| high)),
    ]
}

/// Writes one line a run: the axes, then every plain key of its object, which is of the whole run, then what else is known of the
/// whole run (`columns::OWN_OF_CSV`: the KV cache, preemptions, hours and what they cost; MFU and the cost of tokens are of what
/// `shares_of` says), then
/// `prefix_cache_hit_rate` where anything was found there, and `found_anywhere` where tiers of KV were asked, then both ends of the model's
/// intervals where they were asked for, in their figures' units, then what became of the promise
/// where there is one (`slo`: `kept`, `broken` or `not_decided`; `good_share` with its 95 % interval), then `shares_of`, which says of
/// what these shares are (`steady` stretch or `whole` run, as in the table), then the verdict; a run that was not made
/// has its axes and the verdict `not_run`, one whose model does not fit `does_not_fit`, and one that cannot be run for another reason
/// `refused`. Where figures are asked for there are these alone, under the same names and of the same stretches.
///
/// # Panics
/// Never: what is written stays in memory.
#[must_use]
pub fn csv(rows: &[SweepRow<'_>], shown: &Columns) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    if let Some(keys) = shown.keys(rows) {
        return chosen(rows, &keys);
    }
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let finished = rows.iter().find(|row| row.is_simulated());
    let keys: Vec<&String> = finished
        .and_then(|row| row.run.as_object())
        .map(|object| {
            object
                .iter()
                .filter(|(_, value)| is_plain(value))
                .map(|(key, _)| key)
                .collect()
        })
        .unwrap_or_default();
    let model: Vec<String> = finished
        .map(model_ends)
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .collect();
    let has = |key: &&str| rows.iter().any(|row| row.named_of_whole(key).is_some());
    let own: Vec<&str> = columns::OWN_OF_CSV.into_iter().filter(has).collect();
    let shares_prefixes = shares_prefixes(rows);
    let finds_elsewhere = finds_elsewhere(rows);
    let has_shares = shares_prefixes || own.contains(&"mfu");
    let is_promised = rows.iter().any(SweepRow::is_promised);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let axes = first.settings.iter().map(|(axis, _)| axis.as_str());
    let header = axes
        .chain(keys.iter().map(|key| key.as_str()))
        .chain(own.iter().copied())
        .chain(shares_prefixes.then_some("prefix_cache_hit_rate"))
        .chain(finds_elsewhere.then_some("found_anywhere"))
        .chain(model.iter().map(String::as_str))
        .chain(is_promised.then_some(PROMISE).into_iter().flatten())
        .chain((is_promised || has_shares).then_some("shares_of"))
        .chain(["verdict"]);
    writer.write_record(header).expect("writing to memory succeeds");
    for row in rows {
        let plain = |key: &&String| match row.run.get(key.as_str()) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let settings = row.settings.iter().map(|(_, value)| value.clone());
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let own_ends = model_ends(row);
        let end = |name: &String| {
            let found = own_ends.iter().find(|(own, _)| own == name);
            number(found.and_then(|(_, end)| *end))
        };
        let record = settings
            .chain(keys.iter().map(plain))
            .chain(own.iter().map(|key| number(row.named_of_whole(key))))
            .chain(shares_prefixes.then(|| number(row.hit_rate())))
            .chain(finds_elsewhere.then(|| number(row.found_anywhere())))
            .chain(model.iter().map(end))
            .chain(is_promised.then(|| promise(row)).into_iter().flatten())
            .chain((is_promised || has_shares).then(|| row.shares_of().to_owned()))
            .chain([row.verdict().to_owned()]);
        writer.write_record(record).expect("writing to memory succeeds");
    }
    String::from_utf8(writer.into_inner().expect("memory needs no flush")).expect("the writer copies UTF-8")
}

/// The same with these figures: the axes before them, `shares_of` and the verdict after them.
fn chosen(rows: &[SweepRow<'_>], keys: &[String]) -> String {
    let axes = rows.first().into_iter().flat_map(|row| row.settings);
    let axes = axes.map(|(axis, _)| axis.as_str());
    let head: Vec<&str> = axes
        .chain(keys.iter().map(String::as_str))
        .chain(["shares_of", "verdict"])
        .collect();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let lines = rows.iter().map(|row| {
        let axes = row.settings.iter().map(|(_, value)| value.clone());
        let cells = axes.chain(keys.iter().map(|key| number(row.in_file(key))));
        cells
            .chain([row.shares_of().to_owned(), row.verdict().to_owned()])
            .collect()
    });
    super::csv::write(&head, lines)
}

#[cfg(test)]
mod tests;
