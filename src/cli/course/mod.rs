//! `plimsoll course`: predictions beside the measurements that a course's labs published, by one command.
//!
//! The measured rows ship with the program; each is predicted by a shipped scenario, whose comments say what was assumed.
//! Left out: rows of engines other than vLLM.

pub mod measured;
pub mod predict;

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;

use super::Exit;
use super::disk::Disk;
use super::terminal::Terminal;
use super::{files, interrupt};
use crate::report::{compared, folded};

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
    if interrupt::is_asked() {
        return Ok(Exit::Interrupted.into());
    }
    let width = terminal.width().filter(|_| args.output.is_none());
    let text = match args.format {
        Format::Table => {
            let source = folded(&format!("measured: {}\n", measured.source), width);
            format!("{}\n{source}", compared::text(&compared, width))
        }
        Format::Json => compared::json(&compared),
        Format::Csv => compared::csv(&compared),
        Format::Md => compared::md(&compared),
    };
    files::put(&text, args.output.as_deref(), out)?;
    Ok(Exit::Ok.into())
}
