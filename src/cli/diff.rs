//! `plimsoll diff`: what moved between two results, and why.

use std::io::Write;
use std::process::ExitCode;

use super::Exit;
use super::audit::{Format, read};
use super::files;
use super::interrupt;
use super::terminal::Terminal;
use super::validate::not_read;
use crate::audit::compare;
use crate::report::diffed;
use crate::report::figures::significant;
use crate::results::strange_columns;
use crate::validate::impossible;

/// What moved between a prediction and a measurement, or any two results, and the likely cause.
///
/// Each file may be the result of any tool that `plimsoll audit` reads. Figures are compared by one definition; a move
/// is set against what chance alone would do where the files give counts and deviations, all figures of a pair
/// together: where nothing but the seed differs, a move is told of 5 % of pairs at most, as far as those intervals hold. A
/// prediction is refuted where a measurement lies beyond its model interval and chance together. What
/// the files say differs is the first cause, and of two simulations by one version the only one: a model, a load, a setting. Else causes are named by
/// their pattern: a constant time in every step (host), a factor on every step (bandwidth), a time that steps with prompts
/// hide (launches without CUDA graphs), the tail of ttft (queueing), a client's limit, other lengths, another definition.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll run Qwen/Qwen3-8B --gpu h100 --request-rate 10 --input-len 512 --output-len 128 --format json -o predicted.json
  plimsoll diff predicted.json measured.json
  plimsoll diff predicted.json measured.json --tolerance 10    # fails where a figure moved by more than 10 %
  plimsoll diff monday.json tuesday.json --format json

Files with several runs are paired by load, lengths and GPU, of several alike by name or equal figures; rows without a
partner are named, and so are those that could be paired otherwise.

Exit codes: 0 compared, 1 a figure moved by more than --tolerance, 2 a file cannot be read, no rows pair, or there is no figure to compare.")]
pub struct Args {
    /// The prediction, or the result to compare with.
    pub predicted: String,
    /// The measurement.
    pub measured: String,
    /// Largest move allowed, in per cent, beyond chance.
    #[arg(long, value_name = "PERCENT", value_parser = per_cent, allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// What to print.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Write it into this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
}

/// A share of what was measured, in per cent.
fn per_cent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches(['%', ' ']).parse::<f64>() {
        Ok(share) if share.is_finite() && share >= 0.0 => Ok(share),
        _ => Err("must be a finite number of per cent, 0 or more".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// A file that is no result, or a result that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // All is said at the end.
    let nothing_yet = interrupt::at_once();
    let (predicted, measured) = match (read(&args.predicted), read(&args.measured)) {
        (Ok(predicted), Ok(measured)) => (predicted, measured),
        (predicted, measured) => {
            [predicted.err(), measured.err()]
                .iter()
                .flatten()
                .for_each(|error| terminal.error(error));
            return Ok(Exit::BadInput.into());
        }
    };
    let wrong: Vec<String> = [&predicted, &measured]
        .iter()
        .flat_map(|file| {
            impossible(&file.rows)
                .into_iter()
                .map(|what| format!("{}, {what}", file.name))
        })
        .collect();
    if !wrong.is_empty() {
        terminal.error(&anyhow::anyhow!("{}", wrong.join("\n  ")));
        return Ok(Exit::BadInput.into());
    }
    for file in [&predicted, &measured] {
        let strange = not_read(&strange_columns(&file.rows)).into_iter();
        let told: Vec<String> = strange.map(|told| format!("{}: {told}", file.name)).collect();
        terminal.notes(&told);
    }
    let (pairs, alone) = compare::pairs(&predicted, &measured);
    if pairs.is_empty() {
        let what = "no run of one file is like a run of the other (load, lengths, GPU)";
        terminal.error(&anyhow::anyhow!("{what}: {}", diffed::some(&alone)));
        return Ok(Exit::BadInput.into());
    }
    let compared: Vec<compare::Comparison> = pairs
        .into_iter()
        .map(|pair| {
            let mut compared = compare::compare(pair.predicted, pair.measured);
            compared.remarks.splice(0..0, pair.doubt);
            compared
        })
        .collect();
    let text = match args.format {
        Format::Text => diffed::text(&compared, &alone),
        Format::Json => diffed::json(&compared, &alone),
    };
    drop(nothing_yet);
    files::put(&text, args.output.as_deref(), out)?;
    if compared.iter().all(|one| one.nothing.is_some()) {
        return Ok(Exit::BadInput.into());
    }
    let Some(tolerance) = args.tolerance else {
        return Ok(Exit::Ok.into());
    };
    let figures = compared.iter().flat_map(|one| &one.figures);
    let beyond: Vec<String> = figures
        .filter(|figure| figure.is_real() && 100.0 * figure.change().abs() > tolerance)
        .map(|figure| format!("{} {} %", figure.name, significant(100.0 * figure.change())))
        .collect();
    if beyond.is_empty() {
        return Ok(Exit::Ok.into());
    }
    terminal.notes(&[format!(
        "moved by more than --tolerance {tolerance}: {}",
        beyond.join(", ")
    )]);
    Ok(Exit::Failure.into())
}

#[cfg(test)]
mod tests;
