//! `plimsoll course`: predictions beside the measurements that a course's labs published, by one command.
//!
//! The measured rows ship with the program; each is predicted by a shipped scenario, whose comments say what was assumed.
//! Left out: the course's closed loop on "an A100-class server", of which neither the card nor the engine's version is told.

pub mod measured;
pub mod predict;

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use super::Exit;
use super::disk::Disk;
use super::files;
use super::terminal::Terminal;
use crate::report::compared::{self, Comparison};
use crate::report::folded;

/// What to write.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll course
  plimsoll course --format md -o course.md

Figures in brackets are shown and not held. [calibrate] tables fitted the calibration, [validate] tables fitted nothing.")]
pub struct Args {
    /// Form of the comparison.
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Write it into this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
}

/// Form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[value(alias = "text")]
    Table,
    /// Everything, as one object.
    Json,
    /// One row a figure.
    Csv,
    /// For documents.
    Md,
}

/// Runs the command.
///
/// # Errors
/// A file that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    if let Some(file) = args.output.as_deref().filter(|file| *file != "-") {
        files::check_file(std::path::Path::new(file), "--output")?;
    }
    let measured = measured::shipped();
    let compared = match predict::predict(&measured, &Disk) {
        Ok(compared) => compared,
        Err(problems) => {
            terminal.problems(&problems);
            return Ok(Exit::BadInput.into());
        }
    };
    let total = measured.tables.len();
    let is_cut = compared.len() < total;
    if is_cut {
        terminal.notes(&[format!("interrupted {}", cut(compared.len(), total))]);
    }
    let width = terminal.width().filter(|_| args.output.is_none());
    let source = folded(&format!("measured: {}\n", measured.source), width);
    let text = text(args.format, &compared, total, &source, width);
    files::put(&text, args.output.as_deref(), out)?;
    Ok(if is_cut { Exit::Interrupted } else { Exit::Ok }.into())
}

/// How far a comparison came that was stopped.
fn cut(done: usize, total: usize) -> String {
    format!("after {done} of {total} tables")
}

/// The tables that were done, in a form; of fewer than all that is said first, where a form has words.
fn text(format: Format, done: &[Comparison], total: usize, source: &str, width: Option<usize>) -> String {
    let first = match format {
        Format::Table | Format::Md if done.len() < total => {
            format!("INTERRUPTED {}\n", cut(done.len(), total))
        }
        _ => String::new(),
    };
    if done.is_empty() {
        return first;
    }
    first
        + &match format {
            Format::Table => format!("{}\n{source}", compared::text(done, width)),
            Format::Json => compared::json(done),
            Format::Csv => compared::csv(done),
            Format::Md => compared::md(done),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_printed_and_marked() {
        let one = Comparison {
            title: "a table".into(),
            scenario: "quickstart".into(),
            is_calibration: false,
            axes: Vec::new(),
            notes: Vec::new(),
            rows: Vec::new(),
        };
        let told = text(Format::Table, &[one], 3, "", None);
        assert!(
            told.starts_with("INTERRUPTED after 1 of 3 tables\n") && told.contains("a table"),
            "{told}"
        );
        assert_eq!(
            text(Format::Table, &[], 3, "", None),
            "INTERRUPTED after 0 of 3 tables\n"
        );
        assert_eq!(text(Format::Csv, &[], 3, "", None), "");
    }
}
