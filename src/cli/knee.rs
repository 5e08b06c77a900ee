//! `plimsoll knee`: the highest rate that keeps the promise.

use std::io::Write;
use std::process::ExitCode;

use super::Exit;
use super::disk::Disk;
use super::progress::Progress;
use super::run::{Format, OutputFlags, Outputs, read};
use super::terminal::Terminal;
use super::{files, interrupt, present};
use crate::analysis::knee::{Point, SearchOptions, search};
use crate::analysis::{Precision, simulate};
use crate::calibrate::interval::knee_interval;
use crate::config::{Diagnostic, Resolved, resolve, resolved_toml};
use crate::metrics::Records;
use crate::report::{self, KneeContext, KneeView, Style, chart};
use crate::workload::{mean_rate, with_rate};

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
    execute(&resolved, bracket, &outputs, out, terminal)
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

/// Half-width that one point of the search asks for, and the requests that it may cost: a search looks at some twenty
/// rates, and the bracket on the rate, not the latency at one rate, is its answer.
const POINT: Precision = Precision {
    relative: 0.03,
    min_requests: 2_000,
    max_requests: 60_000,
};

/// Searches, judges and prints.
fn execute(
    resolved: &Resolved,
    bracket: Bracket,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let workload = &resolved.scenario.workload;
    let Some(own_rate) = mean_rate(workload) else {
        anyhow::bail!(
            "the traffic has no rate that could be raised: it is a closed loop or all at once; give --request-rate"
        );
    };
    let objective = present::objective(&resolved.slo);
    let mut progress = Progress::new(terminal, None, "rates");
    let mut tried = 0;
    let mut is_interrupted = false;
    let mut evaluate = |rate: f64| {
        let mut scenario = resolved.scenario.clone();
        scenario.workload = with_rate(workload, rate);
        scenario.workload.num_prompts = None;
        scenario.workload.duration = None;
        let mut experiment = present::experiment(resolved, Records::None);
        experiment.precision = POINT;
        experiment.stops_when_precise = true;
        let outcome = simulate(&scenario, &experiment, |_| !interrupt::is_asked());
        is_interrupted |= !progress.at(tried);
        tried += 1;
        let mut point = Point::of(rate, &outcome.result, &objective);
        point.pressure = present::pressure(resolved, &outcome.result);
        point
    };
    let start_rate = match bracket {
        Bracket {
            min_rate: Some(min),
            max_rate: Some(max),
        } => (min * max).sqrt(),
        Bracket {
            min_rate: Some(rate), ..
        }
        | Bracket {
            max_rate: Some(rate), ..
        } => rate,
        Bracket {
            min_rate: None,
            max_rate: None,
        } => own_rate,
    };
    let options = SearchOptions {
        start_rate,
        rate_min: bracket.min_rate.unwrap_or(0.0),
        rate_max: bracket.max_rate.unwrap_or(f64::INFINITY),
        ..SearchOptions::default()
    };
    let knee = search(&mut evaluate, &options);
    drop(progress);
    if is_interrupted {
        return Ok(Exit::Interrupted.into());
    }
    let model = knee.within_slo.as_ref().map(|found| {
        knee_interval(resolved, found.value, &|scenario, rate| {
            let mut scenario = scenario.clone();
            scenario.workload = with_rate(workload, rate);
            scenario.workload.num_prompts = Some(POINT.min_requests);
            scenario.workload.duration = None;
            let mut experiment = present::experiment(resolved, Records::None);
            experiment.precision = POINT;
            experiment.stops_when_precise = false;
            let outcome = simulate(&scenario, &experiment, |_| !interrupt::is_asked());
            Point::of(rate, &outcome.result, &objective).is_within()
        })
    });
    let view = KneeView::new(
        &knee,
        KneeContext {
            subject: present::subject(resolved),
            limits: present::printed_limits(&resolved.slo),
            attainment: resolved.slo.attainment,
            trust: present::trust(resolved),
            assumptions: present::assumptions(resolved),
            model,
        },
    );
    let text = match outputs.format {
        Format::Table => report::knee_text(&view, Style { color: false }),
        Format::Json | Format::Jsonl => report::json::knee(&view) + "\n",
        Format::Csv => report::csv::knee(&view),
        Format::Md => report::md::knee(&view),
    };
    files::put(&text, outputs.file.as_deref(), out)?;
    if let Some(folder) = &outputs.charts {
        files::save_pictures(folder, &[("knee", chart::knee(&view))], terminal)?;
    }
    Ok(if knee.within_slo.is_some() {
        Exit::Ok
    } else {
        Exit::NotMet
    }
    .into())
}
