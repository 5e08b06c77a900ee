//! The settings as a table for people, the cheapest first, under the answer and all that must be known of it.

use std::fmt::Write;

use super::{Found, KneeRow, Knees, Priced, answer};
use crate::analysis::Estimate;
use crate::report::figures::{interval_outwards, significant, significant_down};
use crate::report::tables::{Column, markdown, table_within};
use crate::report::text_knee::asked;
use crate::report::text_sizing::dollars;
use crate::report::views::trust_word;
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
    text + &table_within(&columns, &cells, width)
}

/// The same in Markdown.
#[must_use]
pub fn md(knees: &Knees) -> String {
    let (columns, cells) = cells(knees);
    let mut text = format!("{}\n\n{}\n", answer::answer(knees), markdown(&columns, &cells));
    for (name, sentence) in lines(knees) {
        let _ = writeln!(text, "* {name}: {sentence}");
    }
    text
}

/// What the answer rests on: a word for each sentence's kind, and the sentence.
fn lines(knees: &Knees) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if !knees.subject.is_empty() {
        lines.push(("simulated", knees.subject.clone()));
    }
    let promises = said_of(knees, |priced| vec![asked(&priced.view).join(", ")]);
    lines.extend(promises.into_iter().map(|sentence| ("promised", sentence)));
    if !knees.price_source.is_empty() {
        lines.push(("prices", knees.price_source.clone()));
    }
    lines.extend(
        answer::qualified(knees)
            .into_iter()
            .map(|sentence| ("but", sentence)),
    );
    let notes = said_of(knees, |priced| {
        let unknown = priced.view.model_unknown.as_ref();
        let unknown = unknown.map(|why| format!("the model's doubt is not known: {why}"));
        priced.view.notes.iter().cloned().chain(unknown).collect()
    });
    lines.extend(notes.into_iter().map(|sentence| ("note", sentence)));
    let assumed = said_of(knees, |priced| priced.view.assumptions.clone());
    lines.extend(assumed.into_iter().map(|sentence| ("assumed", sentence)));
    lines
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

/// Columns and rows. The interval of the cost stands behind the cost that settings are ranked by.
fn cells(knees: &Knees) -> (Vec<Column>, Vec<Vec<String>>) {
    let is_sized = knees.is_sized();
    let axes = knees.rows.first().into_iter().flat_map(|row| &row.labels);
    let mut columns: Vec<Column> = axes.map(|(axis, _)| Column::left(axis)).collect();
    let certainty = knees
        .priced()
        .next()
        .map_or("95 %", |priced| priced.view.certainty());
    columns.extend(["req/s", certainty, "model 90 %", "saturates"].map(Column::right));
    columns.extend(is_sized.then(|| Column::right("replicas")));
    columns.extend(["GPUs", "$/h"].map(Column::right));
    let costs = match is_sized {
        true => ["90 %", "$/M out"],
        false => ["$/M out", "90 %"],
    };
    columns.extend(costs.map(Column::right));
    columns.extend(["kernels", "limited by"].map(Column::left));
    let of_row = |row: &KneeRow| {
        let mut cells: Vec<String> = row.labels.iter().map(|(_, value)| value.clone()).collect();
        match &row.found {
            Found::Knee(priced) => cells.extend(figures(priced, is_sized)),
            Found::DoesNotFit(_) | Found::Failed(_) | Found::NotRun => {
                cells.resize(columns.len() - 2, "–".to_owned());
                cells.extend([String::new(), row.state().replace('_', " ")]);
            }
        }
        cells
    };
    let rows = knees.ranked().into_iter().map(of_row).collect();
    (columns, rows)
}

/// The cells of a setting that was searched, behind those that name it.
fn figures(priced: &Priced, is_sized: bool) -> Vec<String> {
    let dash = || "–".to_owned();
    let view = &priced.view;
    let saturation = match (view.saturates_below(), view.saturation) {
        (Some(high), _) => format!("< {}", significant(high)),
        (None, at) => at.map_or_else(dash, |at| significant(at.value)),
    };
    let interval = |knee: Estimate| interval_outwards(knee.low, knee.high);
    let model = priced.knee_model_90();
    let knee = match (view.knee, view.only_client()) {
        (Some(knee), _) => significant_down(knee.value),
        (None, Some(client)) => format!("≥ {}", significant_down(client.value)),
        (None, None) => "none".to_owned(),
    };
    let mut cells = vec![
        knee,
        view.knee.map_or_else(dash, interval),
        model.map_or_else(dash, |(low, high)| interval_outwards(low, high)),
        saturation,
    ];
    let fleet = view.sizing.as_ref().and_then(|sizing| sizing.fleet.as_ref());
    cells.extend(is_sized.then(|| fleet.map_or_else(dash, |fleet| fleet.replicas.to_string())));
    let gpus = priced.gpus_paid().map_or_else(dash, |gpus| gpus.to_string());
    let hour = priced.usd_per_hour_paid().map_or_else(dash, dollars);
    let million = priced.usd_per_million_output_tokens().map_or_else(dash, dollars);
    let cost = priced
        .cost_90()
        .map_or_else(dash, |(low, high)| match high.is_finite() {
            true => format!("[{}, {}]", dollars(low), dollars(high)),
            false => format!("from {}", dollars(low)),
        });
    match is_sized {
        true => cells.extend([gpus, hour, cost, million]),
        false => cells.extend([gpus, hour, million, cost]),
    }
    let kernels = priced.kernels();
    cells.extend([
        kernels.map_or_else(String::new, |trust| trust_word(trust).to_owned()),
        match priced.is_cut {
            true => "interrupted".to_owned(),
            false => view.breaks_first.clone(),
        },
    ]);
    cells
}
