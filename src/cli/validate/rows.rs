//! Which rows of a table are simulated: those that are wanted, once each, and sound. The others are told and counted.

use super::Args;
use crate::cli::audit::read_rows;
use crate::cli::terminal::Terminal;
use crate::results::{Measured, PROBLEMS_SHOWN, Problem, Tool, UnreadRow};
use crate::validate::{Row, impossible_figure, once};

/// The rows that are wanted, each once, and those that cannot be read or have a figure which no run has.
///
/// # Errors
/// A file that is no result, that is a prediction, or in which no row is sound.
pub(super) fn read(
    args: &Args,
    name: &str,
    terminal: &Terminal,
) -> anyhow::Result<(Vec<Measured>, Vec<Row>)> {
    let (mut file, unread) = read_rows(name)?;
    let mut left: Vec<Row> = Vec::new();
    for UnreadRow { row, problems } in unread.iter().filter(|unread| may_be_wanted(args, &unread.row)) {
        let of_cell = |problem: &Problem| match problem.place.split_once(": ") {
            Some((_, cell)) => format!("{cell}: {}", problem.what),
            None => problem.what.clone(),
        };
        let what: Vec<String> = problems.iter().map(of_cell).collect();
        left.push(Row::not_modelled(
            row,
            format!("cannot be read: {}", what.join("; ")),
        ));
    }
    let is_prediction = file.rows.iter().any(|row| row.tool == Tool::Plimsoll);
    if is_prediction && !args.allow_predictions {
        anyhow::bail!(
            "{name} is a prediction of Plimsoll itself and no measurement: its error would be that of a program against itself\n  \
             help: give the result of a run on the GPU, or --allow-predictions to score it all the same"
        );
    }
    file.rows.retain(|row| is_wanted(args, row));
    let (rows, twice) = once(file.rows);
    terminal.notes(&twice);
    let mut sound = Vec::new();
    for row in rows {
        match impossible_figure(&row) {
            Some(what) => left.push(Row::not_modelled(&row, what)),
            None => sound.push(row),
        }
    }
    let told = |row: &Row| Some(format!("{}: {}", row.place, row.outcome.reason()?));
    let told = left.iter().filter_map(told).collect();
    if sound.is_empty() && !left.is_empty() {
        anyhow::bail!("{}", few(told, "").join("\n  "));
    }
    terminal.notes(&few(told, "; the row is counted as not modelled"));
    Ok((sound, left))
}

/// The first [`PROBLEMS_SHOWN`] sentences with an end, and how many more there are.
pub(super) fn few(mut sentences: Vec<String>, end: &str) -> Vec<String> {
    let more = sentences.len().saturating_sub(PROBLEMS_SHOWN);
    sentences.truncate(PROBLEMS_SHOWN);
    let mut told: Vec<String> = sentences.into_iter().map(|told| told + end).collect();
    if more > 0 {
        told.push(format!("… and {more} more rows"));
    }
    told
}

/// The same of a row that cannot be read: one that is cut has neither a use nor a family, and is none to pass over in silence.
fn may_be_wanted(args: &Args, row: &Measured) -> bool {
    let is_cut = row.setup.suggested_use.is_empty() && row.setup.family.is_empty();
    is_cut || is_wanted(args, row)
}

/// What `--only` and `--family` leave.
fn is_wanted(args: &Args, row: &Measured) -> bool {
    let setup = &row.setup;
    args.only.as_ref().is_none_or(|only| setup.suggested_use == *only)
        && args
            .family
            .as_ref()
            .is_none_or(|family| setup.family.contains(family))
}
