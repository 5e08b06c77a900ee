//! `plimsoll run`: one scenario, simulated once.

mod told;
mod watchers;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use self::told::told;
use self::watchers::watches_waits;
use self::watchers::{Watchers, over_time};
pub(super) use self::watchers::{caches_prefixes, shares_prefixes};
use super::Exit;
use super::disk::Disk;
use super::metrics::MetricsFlags;
use super::outputs::{Format, OutputFlags, Outputs, Writer};
use super::progress::Progress;
use super::reported::unread;
use super::terminal::Terminal;
use super::timeline::TimelineFlags;
use super::{files, interrupt, memory, pools, present, remarks, subject, why};
use crate::analysis::{Outcome, RunResult, Verdict, simulate, simulate_in_threads, simulate_watched};
use crate::calibrate::interval::model_interval_while;
use crate::config::flags::ScenarioFlags;
use crate::config::{
    Assembled, Diagnostics, QUICKSTART, Resolved, RunLength, Server, apply_report, assemble_run, resolve,
    resolved_toml,
};
use crate::cost::StepLoad;
use crate::cost::bounds::work_rates;
use crate::metrics::{Anatomies, Anatomy, LoadPoint, Records, Waits};
use crate::model::{ModelShape, Quantization};
use crate::report::chart::{self, InService, Picture, PoolOverTime, RooflineView};
use crate::report::json::Arrays;
use crate::report::{self, EngineWords, Interrupted, ResultMeta, Style};
use crate::sim::Pool;
use crate::units::Picos;

/// What to run and what to write.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 10 --input-len 1024 --output-len 128
  plimsoll run matrix-e --gpu h200 --why
  plimsoll run meta-llama/Llama-3.1-8B-Instruct --gpu h200 --trace conversation_trace.jsonl --goodput ttft:500 tpot:50
  plimsoll run Qwen/Qwen3-8B --gpu l40s --users 200 --think-time 30s --input-len 800 --output-len 200
  plimsoll run --serve-cmd \"vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1\" \\
      --bench-cmd \"vllm bench serve --dataset-name random --request-rate 20 --num-prompts 2000\" --gpu h100 --save-result
  plimsoll run chunked-prefill --timeline steps.json --timeline-window 60s..70s   (open it in ui.perfetto.dev)

Without arguments: the quickstart scenario. Exit code 3 where the SLO is not met or the model does not fit, 4 where no steady state was reached in a run without --num-prompts or --duration; what was simulated is printed all the same.")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: ScenarioFlags,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
    /// Whether to write a timeline, too.
    #[command(flatten)]
    pub timeline: TimelineFlags,
    /// Whether to write what Prometheus would scrape.
    #[command(flatten)]
    pub metrics: MetricsFlags,
}

/// The flags, of the quickstart scenario where they name neither a scenario nor a model, and what is to be said of that.
pub(super) fn or_quickstart(flags: ScenarioFlags) -> (ScenarioFlags, Option<String>) {
    let names_something = flags.target.is_some()
        || flags.scenario.is_some()
        || flags.server.machines.model.is_some()
        || flags.serve_cmd.is_some()
        || flags.bench_cmd.is_some();
    if names_something {
        return (flags, None);
    }
    let note =
        format!("neither a scenario nor a model is named: this is the shipped scenario `{QUICKSTART}`");
    let scenario = Some(QUICKSTART.to_owned());
    (ScenarioFlags { scenario, ..flags }, Some(note))
}

/// Layers the input; without a scenario and a model it is the quickstart scenario, under the other flags. What the flags
/// of the output say about a result becomes part of the scenario.
pub(super) fn read(flags: &ScenarioFlags, output: &OutputFlags) -> Result<Assembled, Diagnostics> {
    let (flags, note) = or_quickstart(flags.clone());
    let mut input = assemble_run(&flags, &Disk)?;
    input.notes.extend(note);
    with_results(input, output)
}

/// The same input, with what the flags of the output say about a result.
pub(super) fn with_results(mut input: Assembled, output: &OutputFlags) -> Result<Assembled, Diagnostics> {
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
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let input = read(&args.scenario, &args.output)?;
    let mut resolved = resolve(input.document.clone(), &Disk).inspect_err(|problems| {
        // What does not fit may be another model than the user thinks.
        if problems.is_misfit() {
            terminal.notes(&input.notes);
        }
    })?;
    drop(nothing_yet);
    let outputs = args.output.resolve(&input.results, Writer::Run)?;
    let unread = unread(&input.document, &outputs, Writer::Run);
    let tells_all = outputs.format == Format::Table && outputs.file.is_none() && !args.output.dry_run;
    let are_told_twice = tells_all && terminal.is_one_screen();
    if !are_told_twice {
        let before = &args.scenario.ignored;
        for notes in [before, &input.notes, &resolved.notes, &outputs.notes, &unread] {
            terminal.notes(notes);
        }
    }
    resolved.said_before(&[], &outputs.notes);
    resolved.said_before(&input.notes, &input.ignored);
    if input.document.get("sweep").is_some() {
        terminal.notes(&[
            "the scenario has a [sweep]: `plimsoll sweep` runs all of it, this runs what stands outside"
                .to_string(),
        ]);
    }
    if args.output.dry_run {
        outputs.put_scenario(&resolved_toml(&resolved), out)?;
        terminal.notes(&unwritten(args).into_iter().collect::<Vec<_>>());
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    args.timeline.check()?;
    args.metrics.check()?;
    terminal.notes(&outputs.told);
    if let Some(name) = outputs.result_filename.as_ref().filter(|_| outputs.save_result) {
        outputs.claim_saved(name)?;
    }
    memory::check_records(&resolved, records(&outputs, outputs.format == Format::Csv))?;
    execute(
        &resolved,
        &outputs,
        (&args.timeline, &args.metrics),
        unread,
        out,
        terminal,
    )
}

/// What a dry run, which simulates nothing, does not write.
fn unwritten(args: &Args) -> Option<String> {
    let output = &args.output;
    let asked = [
        ("--timeline", args.timeline.timeline.is_some()),
        ("--metrics", args.metrics.metrics.is_some()),
        ("--charts", output.charts.is_some()),
        ("--save-result", output.results.save_result),
        ("--why", output.why),
    ];
    let asked = asked.into_iter().filter(|(_, is_given)| *is_given);
    let flags: Vec<&str> = asked.map(|(flag, _)| flag).collect();
    (!flags.is_empty()).then(|| format!("--dry-run simulates nothing: {} had no effect", flags.join(", ")))
}

/// Which records of requests the outputs need.
pub(super) fn records(outputs: &Outputs, lists_requests: bool) -> Records {
    match (outputs.save_detailed, outputs.save_result || lists_requests) {
        (true, _) => Records::WithItls,
        (false, true) => Records::Requests,
        (false, false) => Records::None,
    }
}

/// Simulates, judges and prints; `unread` is what the form of output does not show.
fn execute(
    resolved: &Resolved,
    outputs: &Outputs,
    (timeline, metrics): (&TimelineFlags, &MetricsFlags),
    unread: Vec<String>,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let records = records(outputs, outputs.format == Format::Csv);
    let experiment = present::experiment(resolved, records);
    let mut progress = Progress::new(terminal, resolved.scenario.workload.num_prompts, "requests");
    let mut watchers = Watchers {
        timeline: timeline.begin(resolved)?,
        scraped: metrics.begin(resolved),
        anatomy: outputs.why.then(|| Anatomy::of(&resolved.scenario)),
        waits: (outputs.why || watches_waits(&resolved.scenario))
            .then(|| Waits::new(caches_prefixes(&resolved.scenario))),
        over_time: outputs.charts.as_ref().and_then(|_| over_time(resolved)),
        filming: None,
    };
    // Of a run that was stopped or stuck no interval is told.
    let is_lost = AtomicBool::new(false);
    // The short runs under other calibrations wait for nothing, so a second core does them meanwhile.
    let run = || {
        let is_watched = watchers.any();
        let outcome = if !is_watched && rayon::current_num_threads() > 1 {
            simulate_in_threads(&resolved.scenario, &experiment, |ended| progress.at(ended))
        } else if !is_watched {
            simulate(&resolved.scenario, &experiment, |ended| progress.at(ended))
        } else {
            simulate_watched(&resolved.scenario, &experiment, &mut watchers, |ended| {
                progress.at(ended)
            })
        };
        is_lost.store(outcome.is_interrupted || outcome.is_livelocked, Ordering::Relaxed);
        outcome
    };
    let goes_on = || !is_lost.load(Ordering::Relaxed) && !interrupt::is_asked();
    let (outcome, model_interval) = rayon::join(run, || model_interval_while(resolved, &goes_on));
    // The run was done, and its interval was not.
    let is_cut_short = !outcome.is_interrupted && model_interval.is_none() && interrupt::is_asked();
    if is_cut_short {
        terminal.notes(&["interrupted: the run is whole, its model interval is left out".to_owned()]);
    }
    let end = Picos::try_from_seconds(outcome.result.whole.duration_s).unwrap_or_default();
    let waits = watchers.waits.map(|waits| waits.finish(end));
    let anatomy = watchers.anatomy.map(|anatomy| quotable(anatomy, &outcome.result));
    let loads = watchers.over_time.map(|seen| seen.finish(end));
    drop(progress);
    let is_told = outputs.format == Format::Table && outputs.file.is_none() && terminal.is_one_screen();
    if !is_told {
        terminal.notes(&remarks::of_run(resolved, &outcome));
    }
    let result = &outcome.result;
    let meta = ResultMeta {
        interrupted: outcome.is_interrupted.then_some(Interrupted {
            ended: outcome.counts.ended,
            asked: resolved.scenario.workload.num_prompts,
        }),
        model_interval: model_interval.filter(|_| !is_lost.into_inner()),
        anatomy,
        waits,
        evicted_tokens: caches_prefixes(&resolved.scenario).then_some(outcome.evicted_tokens),
        ignored: [resolved.ignored.clone(), unread].concat(),
        ..present::meta_of(resolved, &outcome)
    };
    let style = terminal.style(outputs.file.as_deref());
    let mut text = print(result, &meta, outputs.format, style);
    if outputs.why && outputs.format == Format::Table {
        text += &explained(resolved, &outcome, &meta, meta.anatomy.as_ref(), style);
    }
    files::put(&text, outputs.file.as_deref(), out)?;
    if outputs.save_result {
        let name = match &outputs.result_filename {
            Some(name) => Name::Chosen(name.clone()),
            None => Name::Own(report::json::file_name(&meta)),
        };
        terminal.notes(&save(resolved, result, &meta, outputs, &name)?);
    }
    if let Some(folder) = &outputs.charts {
        let mut pictures = charts(resolved, &outcome);
        pictures.extend(loads.map(|loads| ("pools".to_owned(), pools_chart(resolved, &outcome, loads))));
        files::save_pictures(folder, &pictures, terminal)?;
    }
    if let Some(timeline) = watchers.timeline {
        terminal.notes(&timeline.end()?);
    }
    if let Some(scraped) = watchers.scraped {
        terminal.notes(&metrics.write(&scraped, end, outcome.is_interrupted)?);
    }
    Ok(match is_cut_short {
        true => Exit::Interrupted,
        false => exit(resolved, &outcome),
    }
    .into())
}

/// What `--why` adds: kernels, what times are made of, classes, and who waited for whom.
fn explained(
    resolved: &Resolved,
    outcome: &Outcome,
    meta: &ResultMeta,
    anatomy: Option<&Anatomies>,
    style: Style,
) -> String {
    let words = EngineWords::of(&resolved.scenario.first_pool().engine);
    let anatomy = anatomy.map(|anatomy| report::anatomy::tables(anatomy, words));
    let waits = meta.waits.as_ref().map(report::text_waits::waits);
    let told = why::explain(resolved, outcome)
        + &anatomy.unwrap_or_default()
        + &report::text_parts::class_means(&outcome.result, meta)
        + &waits.unwrap_or_default();
    report::folded(&told, style.width)
}

/// What was seen of the stretch whose latencies may be quoted; of nobody where none may.
pub(super) fn quotable(anatomy: Anatomy, result: &RunResult) -> Anatomies {
    match (result.steady_window_s, result.quotable()) {
        (_, None) => Anatomies::default(),
        (Some(window), Some(_)) => anatomy.finish().within(window),
        (None, Some(_)) => anatomy.finish(),
    }
}

/// Batch, queue and KV of each pool, or of each replica of one pool.
fn pools_chart(resolved: &Resolved, outcome: &Outcome, loads: Vec<Vec<LoadPoint>>) -> Picture {
    let pools = &resolved.scenario.pools;
    let result = &outcome.result;
    let running: Vec<f64> = match pools.len() {
        1 => result
            .by_replica
            .iter()
            .map(|replica| replica.running.l)
            .collect(),
        _ => (pools::by_pool(resolved, result).into_iter())
            .map(|done| done.map_or(0.0, |done| done.running.l))
            .collect(),
    };
    let named = |(index, points): (usize, Vec<LoadPoint>)| PoolOverTime {
        running: running.get(index).copied().unwrap_or_default(),
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
    chart::pools(&named, &steps, &subject::of_run(resolved, outcome))
}

fn print(result: &RunResult, meta: &ResultMeta, format: Format, style: Style) -> String {
    match format {
        Format::Table => report::text::run(result, meta, style),
        Format::Json => report::json::run(result, meta, Arrays::None) + "\n",
        Format::Jsonl => report::json::run(result, meta, Arrays::None) + "\n",
        Format::Csv => report::csv::requests(result, meta),
        Format::Md => report::md::run(result, meta),
    }
}

/// The name of a saved result.
pub(super) enum Name {
    /// The user's, who means that file.
    Chosen(String),
    /// That of vLLM's client, which runs of one second share.
    Own(String),
}

/// Writes vLLM's JSON where `--result-dir` says, and beside it the scenario that reproduces it; what is to be said of both. A
/// file that is there is replaced only where the user named it.
pub(super) fn save(
    resolved: &Resolved,
    result: &RunResult,
    meta: &ResultMeta,
    outputs: &Outputs,
    name: &Name,
) -> anyhow::Result<Vec<String>> {
    let arrays = if outputs.save_detailed {
        Arrays::Detailed
    } else {
        Arrays::Saved
    };
    let (path, scenario) = match name {
        Name::Chosen(name) => outputs.claim_saved(name)?,
        Name::Own(name) => outputs.free_to_save(name)?,
    };
    let is_replaced = matches!(name, Name::Chosen(_)) && !outputs.append_result && path.exists();
    let text = report::json::run(result, meta, arrays);
    let written = match outputs.append_result {
        true => files::append(&path, &text),
        false => files::write(&path, text.as_bytes()),
    };
    if written.is_err() && matches!(name, Name::Own(_)) {
        // The place that was kept for it. Why it could not be written is told.
        drop(std::fs::remove_file(&path));
    }
    written?;
    files::write(&scenario, resolved_toml(resolved).as_bytes())?;
    let replaced = is_replaced.then(|| format!("{} was there and is replaced", path.display()));
    let saved = format!("saved {} and {}", path.display(), scenario.display());
    Ok(replaced.into_iter().chain([saved]).collect())
}

/// The pictures of a run: (name, picture). Each pool has a roofline of its own.
fn charts(resolved: &Resolved, outcome: &Outcome) -> Vec<(String, Picture)> {
    let (subject, warning) = (
        subject::of_run(resolved, outcome),
        subject::warning(resolved, outcome),
    );
    let result = &outcome.result;
    let summary = result.steady.as_ref().unwrap_or(&result.whole);
    let mut pictures = vec![
        (
            "latency".to_owned(),
            chart::latency_distribution(summary, &subject),
        ),
        (
            "timeline".to_owned(),
            chart::timeline(result, &subject, outcome.scaling.is_some()),
        ),
        (
            "itl".to_owned(),
            chart::itl(&[(String::new(), result.series.as_slice())], &subject),
        ),
        ("little".to_owned(), chart::little(result, &subject)),
    ];
    let pools = resolved.scenario.pools.iter().zip(&resolved.servers);
    let is_alone = resolved.servers.len() == 1;
    // An ideal server has no roof.
    let pools = pools.zip(&result.sampled_steps).enumerate();
    for (index, ((pool, server), sampled)) in pools.filter(|(_, ((_, server), _))| server.step_time.is_none())
    {
        let (name, subject) = match is_alone {
            true => ("roofline".to_owned(), subject.clone()),
            false => (
                format!("roofline-{}", file_part(&pool.name, index)),
                format!(
                    "{}: {} on {} × {}{warning}",
                    pool.name, pool.model, pool.gpus, pool.device
                ),
            ),
        };
        pictures.push((name, chart::roofline(&roofline(pool, server, sampled, subject))));
    }
    pictures
}

/// A pool's name in the name of a file; its number where a path could not hold the name.
fn file_part(name: &str, index: usize) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("pool{}", index + 1),
    }
}

/// The roof of one GPU, as the cost model's parts are one GPU's.
fn roofline(pool: &Pool, server: &Server, sampled: &[(StepLoad, f64, u64)], subject: String) -> RooflineView {
    let rates = work_rates(&server.device, &server.model, &server.placement);
    let gpus = server.placement.gpus();
    RooflineView {
        subject,
        gpus,
        peak_flops_per_s: rates.peak().0 / f64::from(gpus),
        format: number_format(&server.model),
        memory_bytes_per_s: rates.bandwidth.0 / f64::from(gpus),
        steps: chart::roofline_steps(sampled, (pool.cost)().as_ref()),
    }
}

/// The number format that the linear layers multiply in.
fn number_format(model: &ModelShape) -> String {
    match model.quantization {
        Quantization::None
        | Quantization::WeightOnly8 { .. }
        | Quantization::Int4 { .. }
        | Quantization::Mxfp4 => "bf16".to_owned(),
        Quantization::Fp8Block => "fp8".to_owned(),
        quantized => quantized.name().to_owned(),
    }
}

/// How a run ended.
pub(super) fn exit(resolved: &Resolved, outcome: &Outcome) -> Exit {
    let verdict = outcome.result.verdict;
    if outcome.is_interrupted {
        return Exit::Interrupted;
    }
    let whole = &outcome.result.whole;
    // Overload that was cut short before the first answer is no such case.
    let is_cut = verdict == Verdict::Unstable && whole.lost() == 0;
    let nobody_was_answered = whole.completed == 0 && !is_cut;
    if !outcome.result.violations.is_empty() || outcome.is_livelocked || nobody_was_answered {
        return Exit::Failure;
    }
    if outcome.is_overfull && !matches!(resolved.length, RunLength::Auto { .. }) {
        return Exit::Failure;
    }
    // Before the promise: without a steady state there is no share of requests that could keep it.
    let asked_for_steady_state = matches!(resolved.length, RunLength::Auto { .. });
    if asked_for_steady_state && matches!(verdict, Verdict::Unstable | Verdict::Critical | Verdict::TooShort)
    {
        return Exit::NoSteadyState;
    }
    if present::objective(resolved).is_kept(&outcome.result) == Some(false) {
        return Exit::NotMet;
    }
    Exit::Ok
}

#[cfg(test)]
mod tests;
