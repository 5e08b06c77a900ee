//! How far predictions are from measurements: by family and overall, as text, JSON, CSV and a chart.

use serde_json::{Value, json};

use super::chart::{Picture, Scatter, validation};
use super::figures::{counted, percent, signed_percent};
use super::page::{folded, table_on};
use super::tables::{Column, markdown, table};
use crate::validate::{Figure, FigureScore, Outcome, Reason, Row, Score, Side};

/// Version of the JSON; grows when a key changes its meaning.
pub const FORMAT_VERSION: u64 = 1;
/// Assumptions and flags without effect that the text shows.
const SENTENCES_SHOWN: usize = 12;
/// Reasons that text shows for a family.
const REASONS_SHOWN: usize = 4;

/// What marks and columns mean.
const LEGEND: &str = "families marked [calibrate] may be fitted to (column `suggested_use`): they do not test a calibration that was
inside 90 %: measured values within the interval that the calibration's uncertainty and chance (where the number of
requests is known) leave around the prediction; near 90 % if that uncertainty is told rightly
saturation: by the verdict on the row's own simulation; above it a ttft grows with the length of the run\n";

/// The answer in one line.
#[must_use]
pub fn answer(overall: &Score) -> String {
    let medians = medians(overall);
    if medians.is_empty() {
        return format!("none of {} rows can be modelled", overall.rows);
    }
    format!(
        "median error over {} of {} rows, families weighing alike whatever their size: {medians}; every row alike: {}",
        overall.modelled,
        overall.rows,
        medians_by(overall, |one| one.rows_median_error)
    )
}

fn medians(score: &Score) -> String {
    medians_by(score, |one| one.median_error)
}

fn medians_by(score: &Score, median: impl Fn(&FigureScore) -> f64) -> String {
    let of = |one: &FigureScore| format!("{} {}", one.figure.name(), percent(told(median(one))));
    score.figures.iter().map(of).collect::<Vec<String>>().join(", ")
}

/// An error as it is told: one that no measurement has the digits for is none.
fn told(error: f64) -> f64 {
    const LEAST: f64 = 1e-6;
    if error.abs() < LEAST { 0.0 } else { error }
}

/// A table of scores whose first column goes by a name.
fn laid_out<'a>(first: &str, scores: impl Iterator<Item = &'a Score>) -> (Vec<Column>, Vec<Vec<String>>) {
    let mut columns = vec![Column::left(first), Column::right("rows")];
    columns.extend(
        Figure::ALL
            .iter()
            .map(|figure| Column::right(&format!("{} median / p90 / bias", figure.name()))),
    );
    columns.push(Column::right("inside 90 %"));
    let cells = |score: &Score| {
        let mark = if score.is_calibration { " [calibrate]" } else { "" };
        let mut cells = vec![
            format!("{}{mark}", score.name),
            format!("{}/{}", score.modelled, score.rows),
        ];
        cells.extend(Figure::ALL.iter().map(|figure| {
            let found = score.figures.iter().find(|one| one.figure == *figure);
            found.map_or("-".to_owned(), |one| {
                format!(
                    "{} / {} / {}",
                    percent(told(one.median_error)),
                    percent(told(one.p90_error)),
                    signed_percent(told(one.bias))
                )
            })
        }));
        cells.push(score.inside_90.map_or("-".to_owned(), percent));
        cells
    };
    (columns, scores.map(cells).collect())
}

/// The scores as Markdown tables, by family and by engine, with the reasons under them.
#[must_use]
pub fn md(families: &[Score], engines: &[Score], overall: &Score) -> String {
    let (columns, rows) = laid_out("family", families.iter().chain([overall]));
    let mut text = format!("{}.\n\n{}", answer(overall), markdown(&columns, &rows));
    if engines.len() > 1 {
        let (columns, rows) = laid_out("engine", engines.iter());
        text.push_str(&format!("\n{}", markdown(&columns, &rows)));
    }
    for Reason { why: reason, places } in &overall.reasons {
        let rows = counted(places.len() as u64, "row");
        text.push_str(&format!("\n* {rows} not modelled: {reason}"));
    }
    text.trim_end().to_owned() + "\n"
}

/// The scores for people, within the columns of a screen if there is one.
#[must_use]
pub fn text(families: &[Score], engines: &[Score], overall: &Score, width: Option<usize>) -> String {
    let (columns, rows) = laid_out("family", families.iter().chain([overall]));
    let mut text = format!("{}\n\n{}", answer(overall), table_on(&columns, &rows, 1, width));
    if engines.len() > 1 {
        let (columns, rows) = laid_out("engine", engines.iter());
        text.push_str(&format!("\n{}", table_on(&columns, &rows, 1, width)));
    }
    text.push_str(&by_side(families, overall));
    let reasons: Vec<(String, usize)> = overall.reasons.iter().map(with_places).collect();
    let rows: usize = reasons.iter().map(|(_, number)| number).sum();
    text.push_str(&listed(
        &format!("not modelled, {}", counted(rows as u64, "row")),
        &reasons,
        usize::MAX,
    ));
    text.push_str(&listed("assumed of rows", &overall.assumptions, SENTENCES_SHOWN));
    text.push_str(&listed(
        "without effect in flags of rows",
        &overall.ignored,
        SENTENCES_SHOWN,
    ));
    text.push('\n');
    text.push_str(LEGEND);
    for score in families.iter().filter(|score| score.modelled == 0) {
        let why: Vec<&str> = score
            .reasons
            .iter()
            .take(REASONS_SHOWN)
            .map(|reason| reason.why.as_str())
            .collect();
        let family = match score.name.as_str() {
            "" => "rows without a family",
            name => name,
        };
        text.push_str(&format!("{family}: {}\n", why.join("; ")));
    }
    folded(&text, width)
}

/// A reason with the rows that it holds for, by name as far as they can be looked up one by one, and their number.
fn with_places(reason: &Reason) -> (String, usize) {
    const NAMED: usize = 8;
    let rows = reason.places.len();
    let lines: Option<Vec<&str>> = reason
        .places
        .iter()
        .map(|place| place.strip_prefix("line "))
        .collect();
    let (head, names) = match lines {
        Some(lines) if lines.len() > 1 => ("lines ", lines),
        _ => ("", reason.places.iter().map(String::as_str).collect()),
    };
    let named: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let more = match named.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", … {more} more"),
    };
    let told = match named.is_empty() {
        true => reason.why.clone(),
        false => format!(
            "{} ({head}{}{more})",
            reason.why,
            named[..named.len().min(NAMED)].join(", ")
        ),
    };
    (told, rows)
}

/// Sentences under a heading with the number of rows of each; of more than `most` only how many are left.
fn listed(heading: &str, sentences: &[(String, usize)], most: usize) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{heading}\n");
    for (sentence, number) in sentences.iter().take(most) {
        text.push_str(&format!("  {number:>4}  {sentence}\n"));
    }
    if let Some(left) = sentences.len().checked_sub(most).filter(|left| *left > 0) {
        text.push_str(&format!("     …  {left} more (--format json)\n"));
    }
    text
}

/// TTFT on either side of saturation, where a family has rows above it or without a rate; empty where none has.
fn by_side(families: &[Score], overall: &Score) -> String {
    if overall.ttft_by_side.iter().all(|(side, _)| *side == Side::Below) {
        return String::new();
    }
    let mut columns = vec![Column::left("ttft, median error (rows)")];
    columns.extend(["below saturation", "above it", "without a rate"].map(Column::right));
    let cells = |score: &Score| {
        let of = |side: &Side| {
            let found = score.ttft_by_side.iter().find(|(own, _)| own == side);
            found.map_or("-".to_owned(), |(_, one)| {
                format!("{} ({})", percent(told(one.median_error)), one.rows)
            })
        };
        let mut cells = vec![score.name.clone()];
        cells.extend(Side::ALL.iter().map(of));
        cells
    };
    let scores = families.iter().chain([overall]);
    let rows: Vec<Vec<String>> = scores
        .filter(|score| !score.ttft_by_side.is_empty())
        .map(cells)
        .collect();
    format!("\n{}", table(&columns, &rows))
}

/// The objects of runs and of kernels as one, whichever there are.
#[must_use]
pub fn json(runs: Option<Value>, kernels: Option<Value>) -> String {
    let mut object = runs.unwrap_or_else(|| json!({"format_version": FORMAT_VERSION}));
    if let Some(kernels) = kernels {
        object["kernels"] = kernels;
    }
    format!("{object:#}\n")
}

/// The scores and every row as one object.
#[must_use]
pub fn object(families: &[Score], engines: &[Score], overall: &Score, rows: &[Row]) -> Value {
    let by_name = |scores: &[Score]| -> serde_json::Map<String, Value> {
        let named = scores.iter().map(|score| (score.name.clone(), score_json(score)));
        named.collect()
    };
    let rows: Vec<Value> = rows.iter().map(row_json).collect();
    json!({
        "format_version": FORMAT_VERSION,
        "answer": answer(overall),
        "overall": score_json(overall),
        "families": by_name(families),
        "engines": by_name(engines),
        "rows": rows,
    })
}

fn score_json(score: &Score) -> Value {
    let figures: serde_json::Map<String, Value> = score
        .figures
        .iter()
        .map(|one| (one.figure.name().to_owned(), figure_json(one)))
        .collect();
    let by_side: serde_json::Map<String, Value> = score
        .ttft_by_side
        .iter()
        .map(|(side, one)| (side.name().to_owned(), figure_json(one)))
        .collect();
    let reasons: serde_json::Map<String, Value> = score
        .reasons
        .iter()
        .map(|reason| (reason.why.clone(), json!(reason.places.len())))
        .collect();
    json!({
        "rows": score.rows,
        "modelled": score.modelled,
        "is_calibration": score.is_calibration,
        "figures": figures,
        "ttft_by_load": by_side,
        "inside_90": score.inside_90,
        "not_modelled": reasons,
    })
}

fn figure_json(score: &FigureScore) -> Value {
    json!({
        "rows": score.rows,
        "median_error": score.median_error,
        "rows_median_error": score.rows_median_error,
        "p90_error": score.p90_error,
        "bias": score.bias,
        "inside_90": score.inside_90,
    })
}

fn row_json(row: &Row) -> Value {
    match &row.outcome {
        Outcome::NotModelled(reason) => {
            json!({"place": row.place, "family": row.family, "use": row.suggested_use, "not_modelled": reason})
        }
        Outcome::Predicted {
            figures,
            assumptions,
            ignored,
        } => {
            let figures: Vec<Value> = figures
                .iter()
                .map(|one| {
                    let uncertainty = one.uncertainty;
                    json!({
                        "name": one.name, "measured": one.measured, "predicted": one.predicted, "error": one.error(),
                        "model_sigma_ln": uncertainty.map(|both| both.model_sigma_ln),
                        "reading_reach_ln": uncertainty.map(|all| [all.reading_reach_ln.0, all.reading_reach_ln.1]),
                        "sampling_sigma_ln": uncertainty.and_then(|both| both.sampling_sigma_ln),
                        "inside_90": one.is_inside_90(),
                    })
                })
                .collect();
            json!({"place": row.place, "family": row.family, "use": row.suggested_use, "load": row.side.name(),
                "figures": figures, "assumptions": assumptions, "ignored": ignored})
        }
    }
}

/// A cell of a CSV.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A line for every figure of every row, and one for each row that was not modelled.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut lines = vec![
        "row,family,use,figure,measured,predicted,error,low_90,high_90,inside_90,not_modelled".to_owned(),
    ];
    for row in rows {
        let start = format!(
            "{},{},{}",
            quoted(&row.place),
            quoted(&row.family),
            quoted(&row.suggested_use)
        );
        match &row.outcome {
            Outcome::NotModelled(reason) => lines.push(format!("{start},,,,,,,,{}", quoted(reason))),
            Outcome::Predicted { figures, .. } => lines.extend(figures.iter().map(|one| {
                let range = one
                    .range_90()
                    .map_or(",".to_owned(), |(low, high)| format!("{low},{high}"));
                let is_inside = one
                    .is_inside_90()
                    .map_or(String::new(), |inside| inside.to_string());
                format!(
                    "{start},{},{},{},{},{range},{is_inside},",
                    one.name,
                    one.measured,
                    one.predicted,
                    one.error()
                )
            })),
        }
    }
    lines.join("\n") + "\n"
}

/// Predicted against measured, a panel a figure.
#[must_use]
pub fn chart(overall: &Score, rows: &[Row]) -> Picture {
    let scatter = |figure: &Figure| {
        let is_time = *figure != Figure::Throughput;
        let of = |row: &Row| -> Vec<(f64, f64, bool)> {
            let Outcome::Predicted { figures, .. } = &row.outcome else {
                return Vec::new();
            };
            let unit = if is_time { 1e-3 } else { 1.0 };
            let of_it = figures
                .iter()
                .filter(|one| one.figure == *figure && one.measured > 0.0 && one.predicted > 0.0);
            of_it
                .map(|one| {
                    (
                        one.measured * unit,
                        one.predicted * unit,
                        row.suggested_use == "calibrate",
                    )
                })
                .collect()
        };
        Scatter {
            name: figure.name().to_owned(),
            is_time,
            points: rows.iter().flat_map(of).collect(),
            spread: None,
        }
    };
    let scatters: Vec<Scatter> = Figure::ALL.iter().map(scatter).collect();
    let subject = format!(
        "{} of {} published rows; the diagonal is right. Median errors, families weighted equally: {}",
        overall.modelled,
        overall.rows,
        medians(overall)
    );
    let best = overall
        .figures
        .iter()
        .find(|score| score.figure == Figure::Tpot)
        .or(overall.figures.first());
    let title = best.map_or("No row can be modelled".to_owned(), |score| {
        format!(
            "{} is off by {} in the median of families",
            score.figure.name().to_uppercase(),
            percent(score.median_error)
        )
    });
    validation(&title, &subject, &scatters)
}
