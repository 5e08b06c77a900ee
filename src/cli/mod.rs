//! The shell: arguments in, bytes out, exit codes. The only place that opens files, prints and reads the clock.

pub mod figures;
pub mod fit;
pub mod inputs;

use std::process::ExitCode;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
