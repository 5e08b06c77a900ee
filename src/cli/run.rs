//! `plimsoll run`: one scenario, simulated once.

use std::io::Write;
use std::process::ExitCode;

use super::Exit;
use super::disk::Disk;
use super::outputs::{Format, OutputFlags, Outputs, Writer};
use super::progress::Progress;
use super::reported::unread;
use super::terminal::Terminal;
use super::{files, present, why};
use crate::analysis::{Outcome, RunResult, Verdict, simulate, simulate_watched};
use crate::calibrate::interval::model_interval;
use crate::config::flags::ScenarioFlags;
use crate::config::{
    Assembled, Diagnostics, QUICKSTART, Resolved, RunLength, apply_report, assemble, resolve, resolved_toml,
};
use crate::cost::bounds::work_rates;
use crate::metrics::{LoadOverTime, LoadPoint, Records, Room, Summary, Waits};
use crate::model::Quantization;
use crate::report::chart::{self, InService, Picture, PoolOverTime, RooflineView};
use crate::report::json::Arrays;
use crate::report::{self, EngineWords, Interrupted, ResultMeta, Style, counted};
use crate::sim::{Counts, Fact, Frontend, Observer, Scenario};
use crate::units::Picos;
use crate::workload::{Arrivals, Prefix, Prompt, Request};

/// What to run and what to write.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 10 --input-len 1024 --output-len 128
  plimsoll run matrix-e --gpu h200 --why
  plimsoll run Qwen/Qwen3-8B --gpu l40s --trace conversation_trace.jsonl --goodput ttft:500 tpot:50
  plimsoll run Qwen/Qwen3-8B --gpu l40s --users 200 --think-time 30s --input-len 800 --output-len 200
  plimsoll run --serve-cmd \"vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1\" \\
      --bench-cmd \"vllm bench serve --dataset-name random --request-rate 20 --num-prompts 2000\" --gpu h100 --save-result

Exit code 3 where the promise is not kept or the model does not fit, 4 where no steady state was reached in a run without --num-prompts or --duration; what was simulated is printed all the same.")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Layers the input; without any it is the quickstart scenario where that is `or_quickstart`. What the flags of the
/// output say about a result becomes part of the scenario.
pub(super) fn read(
    flags: &ScenarioFlags,
    output: &OutputFlags,
    or_quickstart: bool,
) -> Result<Assembled, Diagnostics> {
    let names_nothing = flags.target.is_none()
        && flags.scenario.is_none()
        && flags.model.is_none()
        && flags.serve_cmd.is_none();
    let mut input = if names_nothing && or_quickstart {
        let scenario = Some(QUICKSTART.to_string());
        assemble(
            &ScenarioFlags {
                scenario,
                ..flags.clone()
            },
            &Disk,
        )?
    } else {
        assemble(flags, &Disk)?
    };
    let problems = apply_report(&mut input.document, &output.results, "");
    if problems.is_empty() {
        Ok(input)
    } else {
        Err(Diagnostics(problems))
    }
}

/// Runs the command.
///
/// # Errors
/// Everything that is wrong with the input, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let input = read(&args.scenario, &args.output, false)?;
    let resolved = resolve(input.document.clone(), &Disk)?;
    let outputs = args.output.resolve(&input.results, Writer::Run)?;
    terminal.notes(&input.notes);
    terminal.notes(&resolved.notes);
    terminal.notes(&outputs.notes);
    terminal.notes(&unread(&input.document, &outputs, Writer::Run));
    if input.document.get("sweep").is_some() {
        terminal.notes(&[
            "the scenario has a [sweep]: `plimsoll sweep` runs all of it, this runs what stands outside"
                .to_string(),
        ]);
    }
    if args.output.dry_run {
        outputs.put_scenario(&resolved_toml(&resolved), out)?;
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    execute(&resolved, &outputs, out, terminal)
}

/// Which records of requests the outputs need.
pub(super) fn records(outputs: &Outputs, lists_requests: bool) -> Records {
    match (outputs.save_detailed, outputs.save_result || lists_requests) {
        (true, _) => Records::WithItls,
        (false, true) => Records::Requests,
        (false, false) => Records::None,
    }
}

/// Simulates, judges and prints.
fn execute(
    resolved: &Resolved,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let records = records(outputs, outputs.format == Format::Csv);
    let experiment = present::experiment(resolved, records);
    let mut progress = Progress::new(terminal, resolved.scenario.workload.num_prompts, "requests");
    let mut watchers = Watchers {
        waits: (outputs.why || watches_waits(&resolved.scenario)).then(Waits::default),
        over_time: outputs.charts.as_ref().and_then(|_| over_time(resolved)),
    };
    let outcome = if watchers.waits.is_none() && watchers.over_time.is_none() {
        simulate(&resolved.scenario, &experiment, |ended| progress.at(ended))
    } else {
        simulate_watched(&resolved.scenario, &experiment, &mut watchers, |ended| {
            progress.at(ended)
        })
    };
    let end = Picos::try_from_seconds(outcome.result.whole.duration_s).unwrap_or_default();
    let waits = watchers.waits.map(|waits| waits.finish(end));
    let loads = watchers.over_time.map(|seen| seen.finish(end));
    drop(progress);
    terminal.notes(&remarks(
        &outcome,
        EngineWords::of(&resolved.scenario.first_pool().engine),
    ));
    terminal.notes(&too_late(resolved, &outcome));
    let caveat = streaming(&resolved.scenario.first_pool().frontend, &outcome.result.whole);
    terminal.notes(caveat.as_slice());
    let result = &outcome.result;
    let is_whole = !outcome.is_interrupted && !outcome.is_livelocked;
    let meta = ResultMeta {
        interrupted: outcome.is_interrupted.then_some(Interrupted {
            ended: outcome.counts.ended,
            asked: resolved.scenario.workload.num_prompts,
        }),
        model_interval: is_whole.then(|| model_interval(resolved)),
        waits,
        evicted_tokens: caches_prefixes(&resolved.scenario).then_some(outcome.evicted_tokens),
        ..present::meta_of(resolved, &outcome)
    };
    let style = terminal.style(outputs.file.as_deref());
    let mut text = print(result, &meta, outputs.format, style);
    if outputs.why {
        text += &why::explain(resolved, result);
        text += &meta
            .waits
            .as_ref()
            .map_or(String::new(), report::text_waits::waits);
    }
    files::put(&text, outputs.file.as_deref(), out)?;
    if outputs.save_result {
        let name = outputs.result_filename.clone();
        let name = name.unwrap_or_else(|| report::json::file_name(&meta));
        let saved = save(resolved, result, &meta, outputs, &name)?;
        terminal.notes(&[saved]);
    }
    if let Some(folder) = &outputs.charts {
        let mut pictures = charts(resolved, result);
        pictures.extend(loads.map(|loads| ("pools", pools(resolved, &outcome, loads))));
        files::save_pictures(folder, &pictures, terminal)?;
    }
    Ok(exit(resolved, &outcome).into())
}

/// Events that were to come after the run's end.
fn too_late(resolved: &Resolved, outcome: &Outcome) -> Vec<String> {
    let end_s = outcome.result.whole.duration_s;
    let changes = resolved.scenario.cluster.changes.iter();
    let late = changes.filter(|change| change.at.seconds() > end_s).count() as u64;
    if late == 0 || outcome.is_interrupted {
        return Vec::new();
    }
    vec![format!(
        "{} without effect: the run had ended by then, after {}",
        counted(late, "cluster event"),
        report::figures::time(end_s)
    )]
}

/// Whether it is worth a look who waited for whom: prompts share prefixes, or the queue is not served in order of arrival.
pub(super) fn watches_waits(scenario: &Scenario) -> bool {
    let shares = match &scenario.workload.arrivals {
        Arrivals::Replay { requests, .. } => {
            let is_shared = |request: &Request| matches!(request.prompt, Prompt::Pieces(_));
            requests.iter().any(is_shared)
        }
        _ => scenario.workload.prefix != Prefix::None,
    };
    let serves_in_order = scenario.pools.iter().all(|pool| pool.engine.serves_in_order());
    (shares && caches_prefixes(scenario)) || !serves_in_order
}

/// Who looks on beside the recorder.
struct Watchers {
    waits: Option<Waits>,
    over_time: Option<LoadOverTime>,
}

impl Observer for Watchers {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Some(waits) = &mut self.waits {
            waits.observe(fact);
        }
        if let Some(over_time) = &mut self.over_time {
            over_time.observe(fact);
        }
    }
}

/// What a chart of pools, or of the replicas of one pool, is drawn from; one replica has the chart of the whole.
fn over_time(resolved: &Resolved) -> Option<LoadOverTime> {
    let pools = &resolved.scenario.pools;
    if resolved.scenario.replicas() < 2 {
        return None;
    }
    let (mut rooms, mut groups) = (Vec::new(), Vec::new());
    for (index, pool) in (0..).zip(pools) {
        for _ in 0..pool.replicas {
            rooms.push(Room {
                kv_blocks: pool.engine.usable_blocks(),
                block_size: pool.engine.block_size(),
            });
            groups.push(if pools.len() > 1 {
                index
            } else {
                groups.len() as u32
            });
        }
    }
    Some(LoadOverTime::new(rooms, groups))
}

/// Batch, queue and KV of each pool, or of each replica of one pool.
fn pools(resolved: &Resolved, outcome: &Outcome, loads: Vec<Vec<LoadPoint>>) -> Picture {
    let pools = &resolved.scenario.pools;
    let named = |(index, points): (usize, Vec<LoadPoint>)| PoolOverTime {
        name: match pools.len() {
            1 => format!("replica {index}"),
            _ => pools[index].name.clone(),
        },
        points,
    };
    let named: Vec<PoolOverTime> = loads.into_iter().enumerate().map(named).collect();
    let steps = outcome.scaling.iter().flat_map(|scaling| &scaling.in_service);
    let steps: Vec<InService> = steps
        .map(|&(t_s, replicas)| InService { t_s, replicas })
        .collect();
    chart::pools(&named, &steps, &present::subject(resolved))
}

/// Whether any pool keeps prefixes.
pub(super) fn caches_prefixes(scenario: &Scenario) -> bool {
    scenario.pools.iter().any(|pool| pool.engine.caches_prefixes())
}

/// What must be said beside a result.
fn remarks(outcome: &Outcome, words: EngineWords) -> Vec<String> {
    let Counts {
        prompt_too_long,
        never_fit,
        queue_full,
        no_replica,
        rate_limited,
        gate_full,
        gate_timeout,
        sent_again,
        ..
    } = outcome.counts;
    let refused =
        |count: u64, why: &str| (count > 0).then(|| format!("{}: {why}", counted(count, "refused request")));
    let mut remarks: Vec<String> = [
        refused(
            prompt_too_long,
            &format!(
                "their prompt leaves no room for an answer below {}",
                words.context
            ),
        ),
        refused(
            never_fit,
            &format!(
                "alone they would need more room in {}, or a larger token budget, than there is",
                words.pool
            ),
        ),
        refused(queue_full, "the server was full (503)"),
        refused(no_replica, "no replica was up (503)"),
        refused(rate_limited, "above a rate limit (429)"),
        refused(
            gate_full,
            "as many in flight and waiting before them as the gateway allows (503)",
        ),
        refused(gate_timeout, "no place came free at the gateway in time (503)"),
        (sent_again > 0).then(|| format!("sent again: {}", counted(sent_again, "time"))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if outcome.is_interrupted {
        remarks.push("interrupted: the result covers what was simulated until then".to_owned());
    }
    if outcome.is_livelocked {
        remarks.push(
            "livelock: nobody inside will ever get another token (vLLM: sequences of equal priority and arrival preempt \
             each other; V0: no room in the host's memory to swap out to; Transformers: a full KV cache, which it never frees; SGLang: \
             a lone request cannot grow, of which 0.5.4 dies), as in the engine; the run was ended \
             there (a larger KV pool or a smaller running batch avoids it)"
                .to_owned(),
        );
    }
    if outcome.clock_ended {
        remarks.push("the clock of 213 days ended before the traffic did".to_owned());
    }
    remarks
}

/// What one API server process was seen to stream at most, tokens a second: 14,300 and 16,000 of a small model on an A100
/// (vllm-project/vllm#12287). Its time for each token is not modelled, so a run above that has a caveat.
const STREAMED_BY_ONE: f64 = 14_000.0;

/// Says where more is streamed than an API server was seen to keep up with.
fn streaming(frontend: &Frontend, whole: &Summary) -> Option<String> {
    let servers = f64::from(frontend.servers.get());
    let each = whole.output_tokens as f64 / whole.duration_s / servers;
    (each > STREAMED_BY_ONE).then(|| {
        format!(
            "each API server process streams {each:.0} tokens/s; one was seen to reach 14,000 to 16,000 (vllm#12287), and its \
             time for a token is not modelled: clients may see tokens later than here (--api-server-count {:.0} would do)",
            (servers * each / STREAMED_BY_ONE).ceil()
        )
    })
}

fn print(result: &RunResult, meta: &ResultMeta, format: Format, style: Style) -> String {
    match format {
        Format::Table => report::text::run(result, meta, style),
        Format::Json => report::json::run(result, meta, Arrays::None) + "\n",
        Format::Jsonl => report::json::run(result, meta, Arrays::None) + "\n",
        Format::Csv => report::csv::requests(result, meta.interrupted.is_some()),
        Format::Md => report::md::run(result, meta),
    }
}

/// Writes vLLM's JSON under `name` where `--result-dir` says, and beside it the scenario that reproduces it; a
/// sentence about both.
pub(super) fn save(
    resolved: &Resolved,
    result: &RunResult,
    meta: &ResultMeta,
    outputs: &Outputs,
    name: &str,
) -> anyhow::Result<String> {
    let arrays = if outputs.save_detailed {
        Arrays::Detailed
    } else {
        Arrays::Saved
    };
    let path = std::path::Path::new(&outputs.result_dir).join(name);
    files::write(&path, report::json::run(result, meta, arrays).as_bytes())?;
    let scenario = path.with_extension("resolved.toml");
    files::write(&scenario, resolved_toml(resolved).as_bytes())?;
    Ok(format!("saved {} and {}", path.display(), scenario.display()))
}

/// The pictures of a run: (name, picture).
fn charts(resolved: &Resolved, result: &RunResult) -> Vec<(&'static str, Picture)> {
    let subject = present::subject(resolved);
    let summary = result.steady.as_ref().unwrap_or(&result.whole);
    let mut pictures = vec![
        ("latency", chart::latency_distribution(summary, &subject)),
        ("timeline", chart::timeline(result, &subject)),
        (
            "itl",
            chart::itl(&[(String::new(), result.series.as_slice())], &subject),
        ),
        ("little", chart::little(result, &subject)),
    ];
    // The steps of unlike servers have no roofline in common.
    if resolved.servers.len() == 1 {
        pictures.push(("roofline", roofline(resolved, result, subject)));
    }
    pictures
}

fn roofline(resolved: &Resolved, result: &RunResult, subject: String) -> Picture {
    let cost = (resolved.scenario.first_pool().cost)();
    let rates = work_rates(&resolved.device, &resolved.model, &resolved.placement);
    let view = RooflineView {
        subject,
        peak_flops_per_s: rates.peak.0,
        format: number_format(resolved),
        memory_bytes_per_s: rates.bandwidth.0,
        steps: chart::roofline_steps(&result.sampled_steps, cost.as_ref()),
    };
    chart::roofline(&view)
}

/// The number format that the linear layers multiply in.
fn number_format(resolved: &Resolved) -> String {
    match resolved.model.quantization {
        Quantization::None | Quantization::Int4 { .. } | Quantization::Mxfp4 => "bf16".to_owned(),
        Quantization::Fp8Block => "fp8".to_owned(),
        quantized => quantized.name().to_owned(),
    }
}

fn exit(resolved: &Resolved, outcome: &Outcome) -> Exit {
    let verdict = outcome.result.verdict;
    if outcome.is_interrupted {
        return Exit::Interrupted;
    }
    let whole = &outcome.result.whole;
    let nobody_was_answered = whole.sent > 0 && whole.completed == 0;
    if !outcome.result.violations.is_empty() || outcome.is_livelocked || nobody_was_answered {
        return Exit::Failure;
    }
    // Before the promise: without a steady state there is no share of requests that could keep it.
    let asked_for_steady_state = matches!(resolved.length, RunLength::Auto { .. });
    if asked_for_steady_state && matches!(verdict, Verdict::Unstable | Verdict::Critical | Verdict::TooShort)
    {
        return Exit::NoSteadyState;
    }
    if present::objective(&resolved.slo).is_kept(&outcome.result) == Some(false) {
        return Exit::NotMet;
    }
    Exit::Ok
}
