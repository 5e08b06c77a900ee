//! `plimsoll lab check`: grades what was handed in.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;

use super::super::progress::Progress;
use super::super::terminal::Terminal;
use super::super::{Exit, files, interrupt, ledger};
use super::experiments::{self, Ran, Runner};
use super::named;
use crate::lab::{Lab, Notebook, Sheet, grade, shipped};
use crate::report::lab::class::{self, Graded, HandedIn};

/// What to grade.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit code 1: a file cannot be graded, or was changed after it was locked. Wrong predictions are no failure."
)]
pub(super) struct Args {
    /// Files of `plimsoll lab predict`.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// A lab of one's own that they are of.
    #[arg(long, value_name = "FILE")]
    lab: Option<String>,
    /// A text with the receipts that were handed in before the lab was run: whose stands in none of it is told.
    #[arg(long, value_name = "FILE")]
    receipts: Option<String>,
    /// Form of the grades.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Write them into this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

/// Form of the grades.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[value(alias = "text")]
    Table,
    /// Everything, as an array of objects.
    Json,
    /// One row a file.
    Csv,
    /// For documents.
    Md,
}

/// Runs the command.
///
/// # Errors
/// A lab that is wrong, or grades that cannot be written.
pub(super) fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    for file in &args.files {
        ledger::reads(Path::new(file));
    }
    if let Some(file) = args.output.as_deref().filter(|file| *file != "-") {
        files::check_file(Path::new(file), "--output")?;
    }
    let receipts = args.receipts.as_deref().map(text_of).transpose()?;
    let own = args.lab.as_deref().map(named).transpose()?.map(|(lab, _)| lab);
    let mut progress = Progress::new(terminal, Some(args.files.len() as u64), "files");
    let mut all = Vec::new();
    let mut runner = Runner::default();
    for (done, file) in args.files.iter().enumerate() {
        if !progress.at(done as u64) {
            break;
        }
        let graded = graded(file, own.as_ref(), &mut runner);
        if interrupt::is_asked() {
            break;
        }
        all.push(HandedIn {
            file: file.clone(),
            graded: graded.map_err(|error| experiments::sentence(&error)),
        });
    }
    drop(progress);
    if let Some(receipts) = &receipts {
        all.iter_mut().for_each(|one| one.hold_against(receipts));
    }
    terminal.notes(&class::remarks(&all));
    let is_cut = all.len() < args.files.len();
    if is_cut {
        terminal.notes(&[format!(
            "interrupted after {} of {} files",
            all.len(),
            args.files.len()
        )]);
    }
    let text = match args.format {
        Format::Table => class::text(&all, terminal.width().filter(|_| args.output.is_none())),
        Format::Json => class::json(&all),
        Format::Csv => class::csv(&all),
        Format::Md => class::md(&all),
    };
    files::put(&text, args.output.as_deref(), out)?;
    Ok(match (is_cut, all.iter().all(HandedIn::is_sound)) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::Failure,
    }
    .into())
}

fn text_of(file: &str) -> anyhow::Result<String> {
    ledger::read_to_string(Path::new(file)).map_err(|error| anyhow::anyhow!("cannot read {file}: {error}"))
}

/// One file, its variant simulated again.
fn graded(file: &str, own: Option<&Lab>, runner: &mut Runner) -> anyhow::Result<Graded> {
    let text = ledger::read_to_string(Path::new(file))
        .map_err(|error| anyhow::anyhow!("cannot be read: {error}"))?;
    let notebook = Notebook::read(&text).map_err(anyhow::Error::msg)?;
    let found;
    let lab = match own {
        Some(own) if own.name == notebook.lab => own,
        _ => {
            found = shipped::find(&notebook.lab)
                .ok_or_else(|| {
                    anyhow::anyhow!("there is no lab `{}`: name its file with --lab", notebook.lab)
                })?
                .0;
            &found
        }
    };
    anyhow::ensure!(
        notebook.is_of(lab),
        "this lab asks for other figures now than when they were predicted"
    );
    let mut sheet = Sheet::new(lab, &notebook.student);
    if let Ran::Cut = runner.run(&mut sheet, false)? {
        anyhow::bail!("interrupted");
    }
    let outcomes = grade(&sheet, Some(&notebook.predictions), None).map_err(super::of_the_lab(lab))?;
    Ok(Graded {
        is_intact: notebook.is_intact(),
        notebook,
        outcomes,
        was_handed_in: None,
    })
}
