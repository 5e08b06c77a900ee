//! The shell: arguments in, bytes out, exit codes. The only place that opens files, prints and reads the clock.

pub mod trace;

use std::process::ExitCode;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
