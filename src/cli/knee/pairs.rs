//! `--for-rate` of prefill and decode pools: the cheapest numbers of both that carry a rate, by simulating them.

use std::io::Write;
use std::process::ExitCode;

use super::super::outputs::{Format, Outputs};
use super::super::progress::Progress;
use super::super::{Exit, balance, files, interrupt, mix, present, rent, subject};
use super::one::assumptions;
use super::rate::{judged, long_enough, precision, run_at};
use super::splits::{busy, split};
use super::{Args, Terminal};
use crate::analysis::Precision;
use crate::analysis::knee::{Pair, PairEnding, PairOptions, cheapest_pair};
use crate::config::{Diagnostic, Diagnostics, Document, Place, Resolved};
use crate::report::pairs::{self, PairRow, PairSizing};
use crate::report::{self, json};
use crate::workload::mean_rate;

/// No more of either pool are simulated.
const REPLICAS_MAX: u64 = 1024;
/// Runs of a search at most.
const RUNS: usize = 60;
/// How often everybody inside is replaced in the longest run that a search is ready to make.
const GENERATIONS: f64 = 16.0;
/// Requests of that run at most, some seconds of work.
const REQUESTS_MAX: u64 = 2_000_000;
/// Requests of the run that tells what one costs each pool.
const PROBE: u64 = 2_000;

/// Whether a scenario has one pool that prefills and one that decodes, whose numbers can be looked for.
pub(super) fn has_pair(resolved: &Resolved, document: &Document) -> bool {
    let has = |pool: &str| document.get(&format!("cluster.{pool}")).is_some();
    resolved.scenario.cluster.disaggregation.is_some()
        && resolved.scenario.pools.len() == 2
        && has("prefill")
        && has("decode")
}

/// What the search cannot count, or draw.
///
/// # Errors
/// Replicas that fail, traffic without a rate, and charts.
pub(super) fn check(resolved: &Resolved, outputs: &Outputs) -> anyhow::Result<()> {
    let cluster = &resolved.scenario.cluster;
    if cluster.outages.is_some() || !cluster.changes.is_empty() {
        let problem = Diagnostic::new("--for-rate counts replicas that do not fail");
        let help = "leave the failures out, count, and see by `run` with so many and the failures whether they are enough";
        return Err(Diagnostics::from(problem.help(help)).into());
    }
    if outputs.charts.is_some() {
        let problem = Diagnostic::new(
            "--charts has no picture of numbers of prefill and decode replicas: the answer is a table",
        );
        let problem = problem.at(Place::Flag("--charts".to_owned()));
        let help = "leave it out; `knee --charts DIR` draws the search of the pair that is found";
        return Err(Diagnostics::from(problem.help(help)).into());
    }
    if mean_rate(&resolved.scenario.workload).is_none() {
        anyhow::bail!(
            "the traffic has no rate that could be raised: it is a closed loop or all at once; give --request-rate"
        );
    }
    Ok(())
}

/// What was given and has no effect beside it.
pub(super) fn without_effect(args: &Args) -> Vec<String> {
    let bounds = [
        (args.min_rate.is_some(), "--min-rate"),
        (args.max_rate.is_some(), "--max-rate"),
        (args.output.why, "--why"),
    ];
    let given = bounds.into_iter().filter(|(is_given, _)| *is_given);
    given
        .map(|(_, flag)| {
            format!("{flag} has no effect where --for-rate counts prefill and decode replicas: all runs have that rate")
        })
        .collect()
}

/// The first pair that is tried, by what the balance of the pools (PD-6) allows each of their replicas at most, and the requests
/// inside by Little's law.
struct Guess {
    start: (u64, u64),
    each_per_s: Option<(f64, f64)>,
    inside: f64,
}

impl Guess {
    /// From a run of one of each, at so low a rate that its answers take no longer than they must.
    fn of(one: &Resolved, rate: f64, precision: Precision) -> Guess {
        let probe = Precision {
            min_requests: PROBE.min(precision.min_requests),
            max_requests: PROBE,
            ..precision
        };
        let own_rate = mean_rate(&one.scenario.workload).unwrap_or(rate);
        let outcome = run_at(one, own_rate.min(rate), probe);
        let balance = balance::demand(one, &outcome.result).map(|demand| demand.balance());
        let each_per_s = balance.map(|balance| (balance.prefill, balance.decode));
        let needed = |each: f64| (rate / each).ceil().clamp(1.0, REPLICAS_MAX as f64) as u64;
        let stay_s = outcome.result.whole.e2el.mean_s().unwrap_or_default();
        Guess {
            start: each_per_s.map_or((1, 1), |(prefill, decode)| (needed(prefill), needed(decode))),
            each_per_s,
            inside: rate * stay_s,
        }
    }
}

/// Searches and prints.
///
/// # Errors
/// What is wrong with pools of so many replicas, and files that cannot be written.
pub(super) fn execute(
    (resolved, document): (&Resolved, &Document),
    (rate, price): (f64, Option<f64>),
    ignored: &[String],
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let objective = present::objective(resolved);
    let precision = precision(resolved);
    let pair = |prefill: u64, decode: u64| split(document, (prefill as u32, decode as u32), "--for-rate");
    let one = pair(1, 1)?;
    let pools = &one.scenario.pools;
    let rent = rent::of(&one, price).ok();
    let prices = [0, 1].map(|pool: usize| rent.as_ref().map(|rent| rent.pools[pool].2));
    let gpus = [0, 1].map(|pool: usize| u64::from(pools[pool].gpus));
    // Where a card has no price GPUs are what is saved.
    let costs = match prices {
        [Some(prefill), Some(decode)] if prefill > 0.0 && decode > 0.0 => (prefill, decode),
        _ => (gpus[0] as f64, gpus[1] as f64),
    };
    let Guess {
        start,
        each_per_s,
        mut inside,
    } = Guess::of(&one, rate, precision);
    let mut progress = Progress::new(terminal, None, "pairs of prefill and decode replicas");
    let (mut wrong, mut used) = (None, Vec::new());
    let evaluate = |prefill: u64, decode: u64| {
        let many = match pair(prefill, decode) {
            Ok(many) => many,
            Err(error) => {
                wrong = Some(error);
                return None;
            }
        };
        let wanted = ((GENERATIONS * inside) as u64).min(REQUESTS_MAX);
        let precision = Precision {
            max_requests: precision.max_requests.max(wanted),
            ..precision
        };
        let outcome = long_enough(&many, rate, &objective, precision);
        if !progress.at(used.len() as u64 + 1) {
            return None;
        }
        let point = judged(&many, rate, &objective, &outcome);
        let both = (prefill as u32, decode as u32);
        used.push(((prefill, decode), busy(&outcome, Some(both))));
        if point.keeps_up() {
            inside = point.in_system.unwrap_or(inside);
        }
        Some(point)
    };
    let options = PairOptions {
        start,
        costs,
        replicas_max: REPLICAS_MAX,
        runs_max: RUNS,
    };
    let found = cheapest_pair(evaluate, &options);
    drop(progress);
    if let Some(error) = wrong {
        return Err(error);
    }
    let row = |tried: &Pair| {
        let both = (tried.prefill, tried.decode);
        PairRow {
            busy: used.iter().find(|(pair, _)| *pair == both).map(|(_, busy)| *busy),
            gpus: tried.prefill * gpus[0] + tried.decode * gpus[1],
            usd_per_hour: prices[0]
                .zip(prices[1])
                .map(|(prefill, decode)| tried.prefill as f64 * prefill + tried.decode as f64 * decode),
            pair: tried.clone(),
        }
    };
    let answer = match found.ending {
        PairEnding::Found { prefill, decode, .. } => Some(pair(prefill, decode)?),
        _ => None,
    };
    let slo = &resolved.slo;
    let (limits, classes) = (present::printed_limits(slo), present::class_promises(resolved));
    let view = PairSizing {
        rate,
        ending: found.ending,
        rows: found.tried.iter().map(row).collect(),
        start,
        each_per_s,
        gpu: [0, 1].map(|pool: usize| resolved.servers[pool].device.id.clone()),
        gpus_each: gpus,
        router: present::router(&pair(2, 2)?),
        price_source: rent::prices(pools.iter(), price),
        promises: report::promised(&limits, &classes, &present::promises(slo), slo.attainment),
        beside: mix::beside(&resolved.scenario.workload),
        subject: subject::subject(answer.as_ref().unwrap_or(&one)),
        trust: present::trust(resolved),
        assumptions: assumptions(resolved, &precision),
        notes: resolved.other_notes(),
        ignored: [&resolved.ignored, ignored].concat(),
        is_interrupted: interrupt::is_asked(),
    };
    let file = outputs.file.as_deref();
    let text = match outputs.format {
        Format::Table => pairs::text(&view, terminal.style(file)),
        Format::Csv => pairs::csv(&view),
        Format::Md => pairs::md(&view),
        Format::Json | Format::Jsonl => json::pairs(&view) + "\n",
    };
    files::put(&text, file, out)?;
    let code = match (interrupt::is_asked(), view.best().is_some()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::NotMet,
    };
    Ok(code.into())
}
