//! The settings as a table for people, the cheapest first, under the answer and all that must be known of it.

use std::fmt::Write;

use super::{Found, KneeRow, Knees, Priced, answer};
use crate::analysis::Estimate;
use crate::report::figures::{count, percent, significant, significant_down};
use crate::report::page::table_on;
use crate::report::sought::Sought;
use crate::report::tables::{Column, markdown};
use crate::report::text_knee::{asked, holds_until_a_burst};
use crate::report::text_sizing::dollars;
use crate::report::trust::trust_word;
use crate::report::views::Counted;
use crate::report::wrapped;

/// The first line, what it rests on, and a table.
#[must_use]
pub fn text(knees: &Knees, width: Option<usize>) -> String {
    const PLAIN: usize = 120;
    let mut text = wrapped("", "  ", &answer::answer(knees), width.unwrap_or(usize::MAX));
    for (name, sentence) in lines(knees) {
        text += &wrapped(
            &format!("{name:<10}"),
            "          ",
            &sentence,
            width.unwrap_or(PLAIN),
        );
    }
    text.push('\n');
    let (columns, cells) = cells(knees);
    let axes = knees.rows.first().map_or(0, |row| row.labels.len());
    text += &table_on(&columns, &cells, axes, width);
    text.push('\n');
    for sentence in assumed(knees) {
        text += &wrapped("assumed   ", "          ", &sentence, width.unwrap_or(PLAIN));
    }
    text
}

/// The same in Markdown.
#[must_use]
pub fn md(knees: &Knees) -> String {
    let (columns, cells) = cells(knees);
    let mut text = format!("{}\n\n{}\n", answer::answer(knees), markdown(&columns, &cells));
    let assumed = assumed(knees).into_iter().map(|sentence| ("assumed", sentence));
    for (name, sentence) in lines(knees).into_iter().chain(assumed) {
        let _ = writeln!(text, "* {name}: {sentence}");
    }
    text
}

/// What the answer rests on: a word for each sentence's kind, and the sentence.
fn lines(knees: &Knees) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let alike = answer::all_alike(knees).into_iter();
    lines.extend(alike.map(|names| ("alike", names)));
    lines.extend(answer::serves_more(knees).map(|most| ("most", most)));
    if !knees.subject.is_empty() {
        lines.push(("simulated", knees.subject.clone()));
    }
    lines.extend(promises(knees).into_iter().map(|sentence| ("SLO", sentence)));
    if !knees.price_source.is_empty() {
        lines.push(("prices", knees.price_source.clone()));
    }
    lines.extend(
        answer::qualified(knees)
            .into_iter()
            .map(|sentence| ("but", sentence)),
    );
    let full = said_of(knees, |priced| {
        let sentence = "less than the knee is served, so that the knee holds until the first burst that fills the server";
        let is_told = holds_until_a_burst(&priced.view);
        is_told.then(|| sentence.to_owned()).into_iter().collect()
    });
    lines.extend(full.into_iter().map(|sentence| (ONCE_FULL, sentence)));
    let counted = said_of(knees, |priced| how_counted(priced).into_iter().collect());
    lines.extend(counted.into_iter().map(|sentence| ("counted", sentence)));
    lines.extend(notes(knees).into_iter().map(|sentence| ("note", sentence)));
    lines
}

/// What is promised.
pub(in crate::report) fn promises(knees: &Knees) -> Vec<String> {
    said_of(knees, |priced| vec![asked(&priced.view).join(", ")])
}

/// What else must be known.
pub(in crate::report) fn notes(knees: &Knees) -> Vec<String> {
    said_of(knees, |priced| {
        let unknown = priced.view.model_unknown.as_ref();
        let unknown = unknown.map(|why| format!("the model's doubt is not known: {why}"));
        priced.view.notes.iter().cloned().chain(unknown).collect()
    })
}

/// Defaults and substitutions.
pub(in crate::report) fn assumed(knees: &Knees) -> Vec<String> {
    said_of(knees, |priced| priced.view.assumptions.clone())
}

/// How replicas were counted.
fn how_counted(priced: &Priced) -> Option<String> {
    let sizing = priced.view.sizing.as_ref()?;
    let load = sizing.fleet.as_ref().and_then(|fleet| fleet.load);
    let more = match load.is_some_and(|load| load > 1.0) {
        true => {
            ": together they carry more than each by itself (`each` is above 100 %), and behind another router it may be less"
        }
        false => "",
    };
    Some(match sizing.counted.as_ref()? {
        Counted::ByKnee(why) => format!("by the knee of one replica, not simulated: {why}"),
        Counted::BySimulation {
            router: Some(router), ..
        } => format!("by simulating so many behind {router}, which share the rate{more}"),
        Counted::BySimulation { router: None, .. } => "by simulating so many".to_owned(),
    })
}

/// What is said of the settings that were searched: of all of them first, and then with the names of those of whom it is said.
/// Sentences of the same settings stand in one.
fn said_of(knees: &Knees, said: impl Fn(&Priced) -> Vec<String>) -> Vec<String> {
    let mut sentences: Vec<(String, Vec<&KneeRow>)> = Vec::new();
    for row in &knees.rows {
        for sentence in row.priced().map(&said).unwrap_or_default() {
            match sentences.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, rows)) => rows.push(row),
                None => sentences.push((sentence, vec![row])),
            }
        }
    }
    let mut grouped: Vec<(Vec<&KneeRow>, Vec<String>)> = Vec::new();
    for (sentence, rows) in sentences {
        match grouped.iter_mut().find(|(known, _)| *known == rows) {
            Some((_, sentences)) => sentences.push(sentence),
            None => grouped.push((rows, vec![sentence])),
        }
    }
    let searched = knees.priced().count();
    grouped.sort_by_key(|(rows, _)| rows.len() < searched);
    let written = |(rows, sentences): (Vec<&KneeRow>, Vec<String>)| {
        let sentences = sentences.join(" · ");
        match rows.len() == searched {
            true => sentences,
            false => format!("{}: {sentences}", answer::names(&rows)),
        }
    };
    grouped.into_iter().map(written).collect()
}

/// What a server serves whose queue grows, where that is surely less than what saturates it: a column where any setting has it.
const ONCE_FULL: &str = "once full";

fn is_any_less_when_full(knees: &Knees) -> bool {
    knees.priced().any(|priced| priced.view.when_full.is_some())
}

/// Columns and rows. The interval of the cost stands behind the cost that settings are ranked by; `each` is the load of one
/// replica as a share of its own knee.
fn cells(knees: &Knees) -> (Vec<Column>, Vec<Vec<String>>) {
    let is_sized = knees.is_sized();
    let axes = knees.rows.first().into_iter().flat_map(|row| &row.labels);
    let mut columns: Vec<Column> = axes.map(|(axis, _)| Column::left(axis)).collect();
    let certainty = knees
        .priced()
        .next()
        .map_or("95 %", |priced| priced.view.certainty());
    let of = knees.of();
    let middle = match (is_sized, of.is_loop()) {
        (true, _) => ["replicas", "each"],
        (false, false) => ["model 90 %", "saturates"],
        (false, true) => ["model 90 %", "req/s"],
    };
    columns.extend([of.unit(), certainty].map(Column::right));
    columns.extend(middle.map(Column::right));
    columns.extend(is_any_less_when_full(knees).then(|| Column::right(ONCE_FULL)));
    columns.extend(["GPUs", "$/h"].map(Column::right));
    let costs: &[&str] = match (is_sized, of) {
        (true, _) => &["90 %", "$/M out", "$/M in+out"],
        (false, Sought::Users) => &["$/h a user", "90 %", "$/M out", "$/M in+out"],
        (false, Sought::Rate | Sought::InFlight) => &["$/M out", "90 %", "$/M in+out"],
    };
    columns.extend(costs.iter().copied().map(Column::right));
    columns.extend(["kernels", "limited by"].map(Column::left));
    let of_row = |row: &KneeRow| {
        let mut cells: Vec<String> = row.labels.iter().map(|(_, value)| value.clone()).collect();
        match &row.found {
            Found::Knee(priced) => cells.extend(figures(knees, priced, is_sized)),
            Found::DoesNotFit(_)
            | Found::Refused { .. }
            | Found::Failed(_)
            | Found::Pruned(_)
            | Found::NotRun => {
                cells.resize(columns.len() - 2, "–".to_owned());
                cells.extend([String::new(), row.fate()]);
            }
        }
        cells
    };
    let rows = knees.ranked().into_iter().map(of_row).collect();
    (columns, rows)
}

/// The cells of a setting that was searched, behind those that name it.
fn figures(knees: &Knees, priced: &Priced, is_sized: bool) -> Vec<String> {
    let dash = || "–".to_owned();
    let view = &priced.view;
    // Of a search that was cut short nothing is known but what it had found until then. A closed loop saturates nothing: there stands what it serves.
    let saturation = match (view.saturates_below(), view.saturation) {
        _ if view.of.is_loop() => view.served_per_s().map_or_else(dash, significant),
        _ if priced.is_cut && !view.is_cut_after => dash(),
        (Some(high), _) => format!("< {}", significant(high)),
        (None, at) => at.map_or_else(dash, |at| significant(at.value)),
    };
    let interval = |knee: Estimate| view.of.interval(knee);
    let model = priced.knee_model_90();
    let model = model.map(|(low, high)| Estimate {
        value: low,
        low,
        high,
    });
    let knee = match (view.knee, view.only_client()) {
        // Nothing broke up to the highest rate that was looked at.
        (Some(knee), _) if knee.high.is_infinite() => format!("≥ {}", view.of.figure(knee.value)),
        (Some(knee), _) => view.of.figure(knee.value),
        (None, Some(client)) => format!("≥ {}", significant_down(client.value)),
        (None, None) if priced.is_cut => dash(),
        (None, None) => "none".to_owned(),
    };
    let mut cells = vec![knee, view.knee.map_or_else(dash, interval)];
    let fleet = view.sizing.as_ref().and_then(|sizing| sizing.fleet.as_ref());
    cells.extend(match is_sized {
        true => [
            fleet.map_or_else(dash, |fleet| count(fleet.replicas)),
            fleet.and_then(|fleet| fleet.load).map_or_else(dash, percent),
        ],
        false => [model.map_or_else(dash, interval), saturation],
    });
    if is_any_less_when_full(knees) {
        let full = view.when_full.map(|full| significant_down(full.served.value));
        cells.push(full.unwrap_or_else(dash));
    }
    let gpus = priced.gpus_paid().map_or_else(dash, count);
    let hour = priced.usd_per_hour_paid().map_or_else(dash, dollars);
    let million = priced.usd_per_million_output_tokens().map_or_else(dash, dollars);
    let all = priced.usd_per_million_tokens().map_or_else(dash, dollars);
    let cost = priced
        .cost()
        .and_then(|cost| cost.interval_90())
        .map_or_else(dash, |(low, high)| match high.is_finite() {
            true => format!("[{}, {}]", dollars(low), dollars(high)),
            false => format!("from {}", dollars(low)),
        });
    let user = || priced.usd_per_user_hour().map_or_else(dash, dollars);
    match (is_sized, knees.of()) {
        (true, _) => cells.extend([gpus, hour, cost, million, all]),
        (false, Sought::Users) => cells.extend([gpus, hour, user(), cost, million, all]),
        (false, Sought::Rate | Sought::InFlight) => cells.extend([gpus, hour, million, cost, all]),
    }
    let kernels = priced.kernels();
    cells.extend([
        kernels.map_or_else(String::new, |trust| trust_word(trust).to_owned()),
        match knees.undone(priced) {
            _ if priced.is_cut => "interrupted".to_owned(),
            Some(undone) => undone.in_short(),
            None => view.breaks_first.words(),
        },
    ]);
    cells
}
