//! `plimsoll schema`: the JSON Schema of the scenario file, for editors that complete and check keys.

use std::io::Write;
use std::process::ExitCode;

use super::Exit;
use crate::config::scenario_schema;

/// Nothing to choose.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Runs the command.
///
/// # Errors
/// If stdout cannot be written.
pub fn run(_: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    out.write_all(scenario_schema().as_bytes())?;
    Ok(Exit::Ok.into())
}
