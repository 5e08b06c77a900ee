//! A prediction for every measured row: the table's scenario with the row's settings, simulated.

use rayon::prelude::*;

use super::measured::{FigureName, Measured, MeasuredRow, MeasuredTable, Use};
use crate::analysis::{Experiment, simulate};
use crate::config::{Diagnostic, Diagnostics, Document, Files, axes, files, resolve};
use crate::metrics::{Records, Summary};
use crate::report::compared::{Compared, Comparison, Figure};

/// Simulates every row of every table.
///
/// # Errors
/// A scenario or profile on disk that took the place of a shipped one and does not resolve.
pub fn predict(measured: &Measured, files: &(dyn Files + Sync)) -> Result<Vec<Comparison>, Diagnostics> {
    let tables = measured.tables.iter();
    tables.map(|table| predict_table(table, files)).collect()
}

fn predict_table(table: &MeasuredTable, files: &(dyn Files + Sync)) -> Result<Comparison, Diagnostics> {
    let Some(scenario) = files::find(&table.scenario, files) else {
        return Err(Diagnostic::new(format!("there is no scenario `{}`", table.scenario)).into());
    };
    let document = Document::parse(&scenario.name, &scenario.text)?;
    let rows = table.rows.par_iter();
    Ok(Comparison {
        title: table.title.clone(),
        scenario: table.scenario.clone(),
        is_calibration: table.use_ == Use::Calibrate,
        axes: table.axes.clone(),
        notes: table.notes.clone(),
        rows: rows
            .map(|row| predict_row(table, row, document.clone(), files))
            .collect::<Result<_, _>>()?,
    })
}

fn predict_row(
    table: &MeasuredTable,
    row: &MeasuredRow,
    mut document: Document,
    files: &dyn Files,
) -> Result<Compared, Diagnostics> {
    let set = |(name, value): &(String, String)| axes::apply(&mut document, name, value);
    let problems: Vec<Diagnostic> = row.set.iter().flat_map(set).collect();
    if !problems.is_empty() {
        return Err(Diagnostics(problems));
    }
    let resolved = resolve(document, files)?;
    let experiment = Experiment::of_whole_run(Records::None);
    // The tables are of whole finite runs, ramp and drain included, and so is the prediction.
    let summary = simulate(&resolved.scenario, &experiment, |_| true).result.whole;
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
