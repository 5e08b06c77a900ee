//! `plimsoll knee`: the highest rate that keeps the promise.

use std::io::Write;
use std::process::ExitCode;

use super::Exit;
use super::disk::Disk;
use super::run::{OutputFlags, Outputs, read};
use super::terminal::Terminal;
use crate::config::{Diagnostic, Resolved, resolve, resolved_toml};

/// What to search.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll knee
  plimsoll knee meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 1024 --output-len 128 --goodput ttft:500 tpot:50
  plimsoll knee matrix-f --gpu l40s --slo 'p99_ttft_ms<=1000'

Without arguments: the quickstart scenario. Exit code 3 where no rate keeps the promise.")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: crate::config::flags::ScenarioFlags,
    /// Lowest rate to look at, requests per second.
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    pub min_rate: Option<f64>,
    /// Highest rate to look at.
    #[arg(long, value_name = "RATE", help_heading = "Search")]
    pub max_rate: Option<f64>,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Where to look, in requests per second; `None` is found by doubling and halving.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bracket {
    /// Lowest rate.
    pub min_rate: Option<f64>,
    /// Highest rate.
    pub max_rate: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// Flags of the search or the output that are wrong, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let mut flags = args.scenario.clone();
    // The search sets the rate; one is needed for the input to be whole.
    let needs_rate = flags.target.is_some() || flags.model.is_some() || flags.serve_cmd.is_some();
    let input = read(&flags, true).and_then(|mut input| {
        if needs_rate
            && input.document.get("workload.arrivals").is_none()
            && input.document.get("workload.base").is_none()
        {
            flags.traffic.request_rate = Some(crate::config::scalar::Rate(1.0));
            input = read(&flags, true)?;
        }
        let resolved = resolve(input.document.clone(), &Disk)?;
        Ok((input, resolved))
    });
    let input = input.and_then(|(input, resolved)| {
        if resolved.slo.is_empty() {
            Err(no_promise().into())
        } else {
            Ok((input, resolved))
        }
    });
    let (input, resolved) = match input {
        Ok(input) => input,
        Err(problems) => {
            terminal.problems(&problems);
            return Ok(Exit::BadInput.into());
        }
    };
    let bracket = Bracket {
        min_rate: rate("--min-rate", args.min_rate)?,
        max_rate: rate("--max-rate", args.max_rate)?,
    };
    if let Bracket {
        min_rate: Some(min),
        max_rate: Some(max),
    } = bracket
        && min >= max
    {
        anyhow::bail!("--min-rate {min} is not below --max-rate {max}");
    }
    let outputs = args
        .output
        .resolve(&input.results, args.scenario.bench_cmd.is_some())?;
    terminal.notes(&input.notes);
    terminal.notes(&resolved.notes);
    if args.output.dry_run {
        out.write_all(resolved_toml(&resolved).as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    execute(&resolved, bracket, &outputs, out)
}

fn no_promise() -> Diagnostic {
    Diagnostic::new("no promise is given: the knee is the highest rate that keeps one")
        .help("give --goodput ttft:500 tpot:50 (ms per request), --slo 'p99_ttft_ms<=500', or [slo.goodput]")
}

fn rate(flag: &str, rate: Option<f64>) -> anyhow::Result<Option<f64>> {
    match rate {
        Some(rate) if !(rate.is_finite() && rate > 0.0 && rate <= 1e9) => {
            anyhow::bail!("{flag} {rate} is not a rate above 0")
        }
        rate => Ok(rate),
    }
}

/// Searches, judges and prints.
fn execute(
    resolved: &Resolved,
    _bracket: Bracket,
    _outputs: &Outputs,
    _out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "{} on {} is a valid search, and this build has no simulation connected",
        resolved.model.name,
        resolved.device.id
    )
}
