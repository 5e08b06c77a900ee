//! The shell: arguments in, bytes out, exit codes. The only place that opens files, prints and reads the clock.

pub mod figures;
pub mod fit;
pub mod hw;
pub mod inputs;
pub mod models;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(name = "plimsoll", version, about = "How hard may an LLM server be loaded?")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Fit(fit::Args),
    Hw(hw::Args),
    Models(models::Args),
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = &mut std::io::stdout().lock();
    let result = match &cli.command {
        Command::Fit(args) => fit::run(args, out),
        Command::Hw(args) => hw::run(args, out),
        Command::Models(args) => models::run(args, out),
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(std::io::stderr(), "error: {error:#}");
        ExitCode::from(2)
    })
}
