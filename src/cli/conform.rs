//! `plimsoll conform`: are the schedules the engine's own?

use std::io::Write;
use std::process::ExitCode;

use super::audit::Format;
use super::{Exit, interrupt};
use crate::config::visible;
use crate::conform::{AnyRecording, replay};
use crate::report::conformed::{self, Replayed};

/// Which recordings to replay.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll conform tests/data/recordings
  plimsoll conform tests/data/recordings/async/*.json.gz
  plimsoll conform recording.json --format json

Each file holds one run of vLLM's own V1 scheduler (0.33, or 0.11 where it says so), of SGLang's (0.5.23 or 0.5.4) or of TensorRT-LLM's in Python on a virtual clock. Every step must be equal: requests, computed and scheduled tokens, their order, preemptions, free blocks, running, waiting, and of SGLang what its radix cache holds, the new-token ratio and the flag that closes admission; times within 1 µs. Exit code 1 where a schedule differs, 2 where a file is no recording.")]
pub struct Args {
    /// Recorded schedules (JSON, gzipped or not), or folders of them.
    #[arg(value_name = "FILE|FOLDER", required = true)]
    pub files: Vec<String>,
    /// What to print.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// Runs the command.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let is_text = args.format == Format::Text;
    let mut files: Vec<(String, Replayed)> = Vec::new();
    let asked: Vec<String> = args.files.iter().flat_map(|path| recordings(path)).collect();
    for file in &asked {
        if interrupt::is_asked() {
            if is_text {
                writeln!(out, "INTERRUPTED before {}", visible(file))?;
            } else {
                out.write_all(conformed::json(&files, asked.len()).as_bytes())?;
            }
            return Ok(Exit::Interrupted.into());
        }
        // Before the first is told there is nothing to keep.
        let nothing_yet = files.is_empty().then(interrupt::at_once);
        let replayed = one(file);
        drop(nothing_yet);
        if is_text {
            // As it comes: a folder of recordings takes seconds.
            out.write_all(conformed::line(&visible(file), &replayed).as_bytes())?;
        }
        files.push((file.clone(), replayed));
    }
    let text = match args.format {
        Format::Text => conformed::answer(&files, asked.len()) + "\n",
        Format::Json => conformed::json(&files, asked.len()),
    };
    out.write_all(text.as_bytes())?;
    let any = |is: fn(&Replayed) -> bool| files.iter().any(|(_, replayed)| is(replayed));
    let exit = if any(|replayed| matches!(replayed, Replayed::Unreadable(_))) {
        Exit::BadInput
    } else if any(|replayed| matches!(replayed, Replayed::Different(_))) {
        Exit::Failure
    } else {
        Exit::Ok
    };
    Ok(exit.into())
}

/// A file, or those of a folder and of the folders in it whose names are those of recordings, in order of name. A folder without
/// any stands for itself, and cannot be read.
fn recordings(path: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let inside = entries.filter_map(|entry| entry.ok()?.path().to_str().map(str::to_owned));
    let mut inside: Vec<String> = inside.collect();
    inside.sort_unstable();
    let is_recording = |name: &str| name.ends_with(".json") || name.ends_with(".json.gz");
    let found: Vec<String> = inside
        .iter()
        .flat_map(|inner| match std::path::Path::new(inner).is_dir() {
            true => recordings(inner),
            false if is_recording(inner) => vec![inner.clone()],
            false => Vec::new(),
        })
        .filter(|found| !std::path::Path::new(found).is_dir())
        .collect();
    if found.is_empty() {
        vec![path.to_owned()]
    } else {
        found
    }
}

/// Replays one file.
fn one(file: &str) -> Replayed {
    if std::path::Path::new(file).is_dir() {
        let why = "a folder that holds no recording: their names end in .json or .json.gz";
        return Replayed::Unreadable(why.to_owned());
    }
    let recording = super::ledger::read(file.as_ref())
        .map(super::files::without_mark)
        .map_err(|error| error.to_string());
    let recording = recording.and_then(|bytes| AnyRecording::read(&bytes).map_err(|error| error.to_string()));
    match recording.map(|recording| replay(&recording)) {
        Ok(Ok(agreement)) => Replayed::Equal(agreement),
        Ok(Err(difference)) => Replayed::Different(*difference),
        Err(error) => Replayed::Unreadable(visible(&error)),
    }
}
