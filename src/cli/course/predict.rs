//! A prediction for every measured row: the table's scenario with the row's settings, simulated.
//!
//! Where a length decides that nobody published, the length that each measured figure implies is told beside: arithmetic
//! that the reader can judge by, as one list of lengths was served by all cards.

use rayon::prelude::*;

use super::measured::{FigureName, Measured, MeasuredRow, MeasuredTable, Use};
use crate::analysis::{Experiment, simulate};
use crate::cli::interrupt;
use crate::config::{Diagnostic, Diagnostics, Document, Files, axes, files, resolve};
use crate::metrics::{Records, Summary};
use crate::report::compared::{Compared, Comparison, Figure};

/// Simulates every row of every table; those tables that were done when the user asked to stop.
///
/// # Errors
/// A scenario or profile on disk that took the place of a shipped one and does not resolve.
pub fn predict(measured: &Measured, files: &(dyn Files + Sync)) -> Result<Vec<Comparison>, Diagnostics> {
    let mut done = Vec::new();
    for table in &measured.tables {
        let predicted = predict_table(table, files)?;
        // Rows that were cut short are no prediction, and with them the table is none.
        if interrupt::is_asked() {
            break;
        }
        done.push(predicted);
    }
    Ok(done)
}

fn predict_table(table: &MeasuredTable, files: &(dyn Files + Sync)) -> Result<Comparison, Diagnostics> {
    let Some(scenario) = files::find(&table.scenario, files) else {
        return Err(Diagnostic::new(format!("there is no scenario `{}`", table.scenario)).into());
    };
    let document = Document::parse(&scenario.name, &scenario.text)?;
    let rows = table.rows.par_iter();
    let mut notes = table.notes.clone();
    if let Some(implied) = &table.implied {
        notes.insert(0, implied_lengths(table, &implied.key, &document, files)?);
    }
    Ok(Comparison {
        title: table.title.clone(),
        scenario: table.scenario.clone(),
        is_calibration: table.use_ == Use::Calibrate,
        axes: table.axes.clone(),
        notes,
        rows: rows
            .map(|row| predict_row(table, row, document.clone(), files))
            .collect::<Result<_, _>>()?,
    })
}

/// The mean answer that each row's first figure implies, as a sentence.
fn implied_lengths(
    table: &MeasuredTable,
    key: &str,
    document: &Document,
    files: &(dyn Files + Sync),
) -> Result<String, Diagnostics> {
    let one = |row: &MeasuredRow| -> Result<String, Diagnostics> {
        let gpu = row.set.first().map_or("", |(_, value)| value.as_str());
        let mean = implied_mean(table, row, key, document, files)?;
        Ok(mean.map_or(format!("none ({gpu})"), |mean| format!("{mean:.0} ({gpu})")))
    };
    let found: Result<Vec<String>, Diagnostics> = table.rows.par_iter().map(one).collect();
    Ok(format!(
        "Not decidable: the answers' lengths were not published. The mean answer that each figure implies, in tokens, with \
         all else as assumed: {}. All rows served one list.",
        found?.join(", ")
    ))
}

/// Factors on the lengths of all answers among which the one sought is looked for, and halvings of that range.
const FACTORS: (f64, f64) = (0.1, 2.9);
const HALVINGS: u32 = 12;

/// The mean answer with which the prediction is what was measured, every answer longer or shorter by one factor; `None`
/// beyond the range. More output lowers the rate of all tokens, as prompts are computed faster than answers.
fn implied_mean(
    table: &MeasuredTable,
    row: &MeasuredRow,
    key: &str,
    document: &Document,
    files: &dyn Files,
) -> Result<Option<f64>, Diagnostics> {
    let part = |name: &str| {
        let key = format!("{key}.{name}");
        let assumed = document.get(&key).and_then(toml::Value::as_integer)?;
        Some((key, assumed as f64))
    };
    let (Some(median), Some(cut)) = (part("median"), part("max")) else {
        return Ok(None);
    };
    let at = |factor: f64| -> Result<(f64, f64), Diagnostics> {
        let mut document = document.clone();
        document.set(&median.0, toml::Value::Float(median.1 * factor), "implied");
        document.set(
            &cut.0,
            toml::Value::Integer((cut.1 * factor).ceil() as i64),
            "implied",
        );
        let summary = run_row(row, document, files)?;
        let mean = summary.output_tokens as f64 / summary.completed as f64;
        Ok((figure(table.figures[0], &summary), mean))
    };
    let (mut short, mut long) = FACTORS;
    if !(at(long)?.0..=at(short)?.0).contains(&row.measured[0]) {
        return Ok(None);
    }
    for _ in 0..HALVINGS {
        if interrupt::is_asked() {
            return Ok(None);
        }
        let middle = f64::midpoint(short, long);
        if at(middle)?.0 > row.measured[0] {
            short = middle;
        } else {
            long = middle;
        }
    }
    Ok(Some(at(f64::midpoint(short, long))?.1))
}

fn predict_row(
    table: &MeasuredTable,
    row: &MeasuredRow,
    document: Document,
    files: &dyn Files,
) -> Result<Compared, Diagnostics> {
    let summary = run_row(row, document, files)?;
    let figures = table.figures.iter().zip(&row.measured);
    let label = |axis: &String| row.set.iter().find(|(name, _)| name == axis);
    Ok(Compared {
        labels: table
            .axes
            .iter()
            .filter_map(label)
            .map(|(_, value)| value.clone())
            .collect(),
        figures: figures
            .map(|(&name, &measured)| Figure {
                name: name.name().to_owned(),
                measured,
                predicted: figure(name, &summary),
                is_held: table.held.contains(&name),
            })
            .collect(),
    })
}

/// The tables are of whole finite runs, ramp and drain included, and so is what is predicted.
fn run_row(row: &MeasuredRow, mut document: Document, files: &dyn Files) -> Result<Summary, Diagnostics> {
    let set = |(name, value): &(String, String)| axes::apply(&mut document, name, value);
    let problems: Vec<Diagnostic> = row.set.iter().flat_map(set).collect();
    if !problems.is_empty() {
        return Err(Diagnostics(problems));
    }
    let resolved = resolve(document, files)?;
    let experiment = Experiment::of_whole_run(Records::None);
    let outcome = simulate(&resolved.scenario, &experiment, |_| !interrupt::is_asked());
    Ok(outcome.result.whole)
}

/// A figure of a run; not a number where no request was completed.
fn figure(name: FigureName, summary: &Summary) -> f64 {
    let ms = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| 1e3 * seconds);
    let per_second = |tokens: u64| tokens as f64 / summary.duration_s;
    match name {
        FigureName::E2elP50Ms => ms(summary.e2el.quantile_s(0.5)),
        FigureName::E2elP99Ms => ms(summary.e2el.quantile_s(0.99)),
        FigureName::ItlP50Ms => ms(summary.itl.quantile_s(0.5)),
        FigureName::OutputTokS => per_second(summary.output_tokens),
        FigureName::TotalTokS => per_second(summary.input_tokens + summary.output_tokens),
    }
}
