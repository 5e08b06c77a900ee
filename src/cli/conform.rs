//! `plimsoll conform`: are the schedules the engine's own?

use std::io::Write;
use std::process::ExitCode;

use super::{Exit, interrupt};
use crate::config::visible;
use crate::conform::{AnyRecording, replay};
use crate::report::counted;

/// Which recordings to replay.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll conform tests/data/recordings/async/*.json.gz

Each file holds one run of vLLM's own V1 scheduler or of SGLang's on a virtual clock. Every step must be equal: requests, computed and scheduled tokens, their order, preemptions, free blocks, running, waiting, and of SGLang what its radix cache holds, the new-token ratio and the flag that closes admission; times within 1 µs. Exit code 1 where a schedule differs, 2 where a file is no recording.")]
pub struct Args {
    /// Recorded schedules (JSON).
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let (mut equal, mut different, mut unreadable) = (0u32, 0u32, 0u32);
    for file in &args.files {
        if interrupt::is_asked() {
            writeln!(out, "INTERRUPTED before {}", visible(file))?;
            return Ok(Exit::Interrupted.into());
        }
        let recording = std::fs::read(file).map_err(|error| error.to_string());
        let recording =
            recording.and_then(|bytes| AnyRecording::read(&bytes).map_err(|error| error.to_string()));
        match recording.map(|recording| replay(&recording)) {
            Ok(Ok(agreement)) => {
                equal += 1;
                writeln!(
                    out,
                    "equal      {file}: {}, {}, times within {:.1e} s",
                    counted(agreement.steps as u64, "step"),
                    counted(agreement.requests as u64, "request"),
                    agreement.largest_time_difference_s
                )?;
            }
            Ok(Err(difference)) => {
                different += 1;
                writeln!(out, "DIFFERENT  {file}: {difference}")?;
            }
            Err(error) => {
                unreadable += 1;
                writeln!(out, "unreadable {file}: {}", visible(&error))?;
            }
        }
    }
    writeln!(
        out,
        "{equal} of {} recordings are repeated step by step",
        args.files.len()
    )?;
    let exit = if unreadable > 0 {
        Exit::BadInput
    } else if different > 0 {
        Exit::Failure
    } else {
        Exit::Ok
    };
    Ok(exit.into())
}
