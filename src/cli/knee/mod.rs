//! `plimsoll knee`: the highest rate that keeps the promise.

mod classes;
mod model;
mod rate;
mod sizing;
mod splits;
mod streamed;

pub use sizing::SizingFlags;
pub use splits::SplitFlags;

use std::io::Write;
use std::process::ExitCode;

use self::rate::{LONGEST, POINT, judged, long_enough, met, precision, run_at};
use self::streamed::Streamed;
use super::Exit;
use super::disk::Disk;
use super::outputs::{Format, OutputFlags, Outputs, Writer};
use super::progress::Progress;
use super::reported::unread;
use super::run::read;
use super::terminal::Terminal;
use super::{failures, files, interrupt, mix, present, remarks, subject, why};
use crate::analysis::knee::{Knee, Objective, SearchOptions, search};
use crate::analysis::{LoadKind, Precision, silent_classes};
use crate::calibrate::interval::FigureInterval;
use crate::config::{Diagnostic, Diagnostics, Document, Place, Resolved, resolve, resolved_toml};
use crate::report::figures::{percent, significant};
use crate::report::{self, EngineWords, KneeContext, KneeView, Sizing, chart};
use crate::units::Picos;
use crate::workload::{Prefix, WorkloadSpec, mean_rate};

/// What to search.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll knee
  plimsoll knee meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 1024 --output-len 128 --goodput ttft:500 tpot:50
  plimsoll knee matrix-f --gpu l40s --slo 'p99_ttft_ms<=1000'
  plimsoll knee quickstart --for-rate 100 --price 2.49   # how many GPUs, and what they cost
  plimsoll knee pd-input-length --disaggregated --gpus 4   # which share of prefill and decode, or neither

Without arguments: the quickstart scenario. --precision is the half-width asked of each rate's mean latencies; the bracket on the rate gets narrower with it. Exit code 3 where no rate (with --for-rate, no number of replicas) keeps the promise, or the model does not fit.")]
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
    /// What to count replicas for.
    #[command(flatten)]
    pub sizing: SizingFlags,
    /// How to share GPUs out.
    #[command(flatten)]
    pub splits: SplitFlags,
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
    // Nothing is lost if reading ends here.
    let nothing_yet = interrupt::at_once();
    let wrong = args.wrong_search();
    if !wrong.is_empty() {
        return Err(with_the_scenario_s(wrong, args).into());
    }
    let mut flags = args.scenario.clone();
    // The search sets the rate; one is needed for the input to be whole.
    let needs_rate = flags.target.is_some() || flags.model.is_some() || flags.serve_cmd.is_some();
    let mut input = read(&flags, &args.output)?;
    if needs_rate
        && input.document.get("workload.arrivals").is_none()
        && input.document.get("workload.base").is_none()
        && !input.document.has_several_clients()
    {
        flags.traffic.request_rate = Some(crate::config::scalar::Rate(1.0));
        input = read(&flags, &args.output)?;
    }
    let splits = args.splits.check()?;
    let mut resolved = match splits {
        Some(_) => splits::one_of_each(&input.document)?,
        None => resolve(input.document.clone(), &Disk)?,
    };
    drop(nothing_yet);
    if resolved.slo.is_empty() {
        return Err(Diagnostics::from(no_promise()).into());
    }
    let bracket = Bracket {
        min_rate: args.min_rate,
        max_rate: args.max_rate,
    };
    let sizing = args.sizing.of(&resolved, &input.document)?;
    let outputs = args.output.resolve(&input.results, Writer::Knee)?;
    terminal.notes(&input.notes);
    terminal.notes(&resolved.notes);
    terminal.notes(&outputs.notes);
    let unread = unread(&input.document, &outputs, Writer::Knee);
    let ignored = [unread, lengths_of_its_own(&resolved)].concat();
    terminal.notes(&ignored);
    terminal.notes(&mix::scaling_note(&resolved).into_iter().collect::<Vec<_>>());
    resolved.said_before(&[], &outputs.notes);
    resolved.said_before(&input.notes, &input.ignored);
    if args.output.dry_run {
        outputs.put_scenario(&resolved_toml(&resolved), out)?;
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    if let Some(gpus) = splits {
        return splits::execute(&input.document, gpus, bracket, &outputs, out, terminal);
    }
    let asked = Asked {
        resolved: &resolved,
        document: &input.document,
        bracket,
        sizing,
        ignored: [resolved.ignored.clone(), ignored].concat(),
    };
    execute(&asked, &outputs, out, terminal)
}

fn no_promise() -> Diagnostic {
    Diagnostic::new("no promise is given: the knee is the highest rate that keeps one")
        .help("give --goodput ttft:500 tpot:50 (ms per request), --slo 'p99_ttft_ms<=500', or [slo.goodput]")
}

/// What is wrong with a flag that is a rate.
fn no_rate(flag: &str, rate: Option<f64>) -> Option<Diagnostic> {
    let rate = rate.filter(|rate| !(rate.is_finite() && *rate > 0.0 && *rate <= 1e9))?;
    let problem = Diagnostic::new(format!("{flag} {rate} is not a rate above 0 and at most 1e9"));
    Some(problem.at(Place::Flag(flag.to_owned())))
}

impl Args {
    /// What is wrong with the flags of the search by themselves.
    fn wrong_search(&self) -> Vec<Diagnostic> {
        let (min, max) = (self.min_rate, self.max_rate);
        let ends = [no_rate("--min-rate", min), no_rate("--max-rate", max)];
        let mut problems: Vec<Diagnostic> = ends.into_iter().flatten().collect();
        if let (Some(min), Some(max), true) = (min, max, problems.is_empty())
            && min >= max
        {
            problems.push(Diagnostic::new(format!(
                "--min-rate {min} is not below --max-rate {max}"
            )));
        }
        problems.extend(self.sizing.problems());
        problems
    }
}

/// The same, and what is wrong with the scenario beside it.
fn with_the_scenario_s(mut problems: Vec<Diagnostic>, args: &Args) -> Diagnostics {
    let more = match read(&args.scenario, &args.output) {
        Ok(input) => resolve(input.document, &Disk).err(),
        Err(more) => Some(more),
    };
    // What has no place may be missing because the search would bring it.
    let is_given = |problem: &Diagnostic| problem.misfit.is_none() && problem.place != Place::Nowhere;
    problems.extend(more.into_iter().flat_map(|more| more.0).filter(is_given));
    Diagnostics(problems)
}

/// Lengths of a run that were given and that the search replaces by its own.
fn lengths_of_its_own(resolved: &Resolved) -> Vec<String> {
    if LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying {
        return Vec::new();
    }
    let is_length = |key: &str| {
        let of_class = key.strip_prefix("workload.classes.");
        let of_class = of_class.and_then(|rest| rest.split_once('.')).map(|(_, own)| own);
        let own = of_class.or(key.strip_prefix("workload."));
        // Of a class that begins with the others there is nothing to say.
        let begins_later = || {
            let index = key.split('.').nth(2).and_then(|index| index.parse().ok());
            let stream = index.and_then(|index| resolved.scenario.workload.stream_of(index));
            stream.is_some_and(|stream| stream.start > Picos::ZERO)
        };
        matches!(own, Some("num_prompts" | "duration")) || (own == Some("start") && begins_later())
    };
    let given = resolved.provenance.iter();
    let given = given.filter(|value| is_length(&value.key) && !value.is_assumed());
    let deals = |part: &&WorkloadSpec| {
        matches!(
            part.prefix,
            Prefix::Groups {
                exact_shares: true,
                ..
            }
        )
    };
    let are_exact = resolved.scenario.workload.parts().iter().any(deals);
    let drawn = "exact_shares has no effect on knee: prefixes are drawn with their shares, because no number of requests is set \
                 that could be divided"
        .to_owned();
    let is_rescaled = resolved.scenario.workload.client.rescale_arrivals;
    let unscaled = "rescale_arrivals has no effect on knee: arrivals are as they are drawn, because no number of requests is set \
                    whose last one could be moved to its instant"
        .to_owned();
    given
        .map(|value| {
            let key = value.key.rsplit('.').next().unwrap_or(&value.key);
            let why = match key {
                "start" => "where all classes send from the first instant",
                _ => "which sends as many requests at each rate as its precision needs",
            };
            format!("{key} = {} has no effect on knee, {why}", value.value)
        })
        .chain(are_exact.then_some(drawn))
        .chain(is_rescaled.then_some(unscaled))
        .collect()
}

/// What nobody gave, with the search's own precision in place of a run's length.
fn assumptions(resolved: &Resolved, precision: &Precision) -> Vec<String> {
    let varies = LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying;
    let mut told: Vec<String> = present::assumptions(resolved)
        .into_iter()
        .filter(|told| !told.starts_with("precision = ") && (varies || !told.starts_with("duration = ")))
        .collect();
    if *precision == POINT && !varies {
        told.push(format!("precision = {}", POINT.relative));
    }
    told
}

/// What to search, and to size.
struct Asked<'a> {
    resolved: &'a Resolved,
    /// What it was read from, of which another number of replicas is made.
    document: &'a Document,
    bracket: Bracket,
    sizing: Option<Sizing>,
    /// What was given and has no effect.
    ignored: Vec<String>,
}

/// Searches, judges and prints.
fn execute(
    asked: &Asked<'_>,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let resolved = asked.resolved;
    let Some(own_rate) = mean_rate(&resolved.scenario.workload) else {
        anyhow::bail!(
            "the traffic has no rate that could be raised: it is a closed loop or all at once; give --request-rate"
        );
    };
    let objective = present::objective(resolved);
    let precision = precision(resolved);
    let options = options(asked.bracket, own_rate, &precision);
    let (knee, is_interrupted, streamed) = find(resolved, &objective, precision, &options, terminal)?;
    let model = (!is_interrupted)
        .then(|| model::uncertainty(resolved, &objective, &knee))
        .flatten();
    // Runs that were cut short tell nothing of the model.
    let model = model.filter(|_| !interrupt::is_asked()).transpose();
    let sizing = match &asked.sizing {
        Some(sizing) if !is_interrupted => Some(Sizing {
            counted: sizing::counted(asked, sizing.demand.rate, &knee, &objective, precision, terminal),
            ..sizing.clone()
        }),
        sizing => sizing.clone(),
    };
    let mut view = view(asked, sizing, &knee, &precision, is_interrupted, model);
    view.notes.extend(streamed::below(&knee, streamed));
    view.notes.extend(wide(&view, options.width));
    let mut text = match outputs.format {
        Format::Table => report::knee_text(&view, terminal.style(outputs.file.as_deref())),
        Format::Json | Format::Jsonl => report::json::knee(&view) + "\n",
        Format::Csv => report::csv::knee(&view),
        Format::Md => report::md::knee(&view),
    };
    let explained = (outputs.why && !interrupt::is_asked()).then(|| explain(resolved, &knee, precision));
    text += &explained.filter(|_| !interrupt::is_asked()).unwrap_or_default();
    if interrupt::is_asked() && !is_interrupted {
        terminal.notes(&[
            "interrupted after the search: the knee is whole, what follows from it may be missing".to_owned(),
        ]);
    }
    files::put(&text, outputs.file.as_deref(), out)?;
    if let Some(folder) = &outputs.charts {
        files::save_pictures(folder, &[("knee", chart::knee(&view))], terminal)?;
    }
    Ok(if interrupt::is_asked() {
        Exit::Interrupted
    } else if is_kept(&view) {
        Exit::Ok
    } else {
        Exit::NotMet
    }
    .into())
}

/// What there is to say of an interval that no more rates and runs of a search made as narrow as it should be.
fn wide(view: &KneeView, width: Option<f64>) -> Option<String> {
    /// As wide as it looks in three figures.
    const ROUNDING: f64 = 1.05;
    let (knee, width) = view.knee.zip(width)?;
    let is_chance = !view.is_of_one_traffic && !view.is_interrupted && knee.low > 0.0;
    let wide = (knee.high - knee.low) / knee.value;
    (is_chance && wide.is_finite() && wide > width * ROUNDING).then(|| {
        format!(
            "the knee's interval is {} of it wide, which is chance: about the knee the share of good requests changes little with the \
             rate, or much from run to run. A smaller --precision takes longer runs",
            percent(wide)
        )
    })
}

/// Whether the promise is kept by what was asked for: at some rate, or by some number of replicas.
fn is_kept(view: &KneeView) -> bool {
    match &view.sizing {
        Some(sizing) => sizing.fleet.is_some(),
        None => view.knee.is_some() || view.only_client().is_some(),
    }
}

/// Where the search starts, between what bounds, and how narrow its answer must be.
fn options(bracket: Bracket, own_rate: f64, precision: &Precision) -> SearchOptions {
    let coarser = precision.relative / POINT.relative;
    SearchOptions {
        // The bounds say where not to look, and no more: a rate that was meant to be run is the better guess.
        start_rate: own_rate,
        rate_min: bracket.min_rate.unwrap_or(0.0),
        rate_max: bracket.max_rate.unwrap_or(f64::INFINITY),
        // The bracket is as much narrower than a point's interval as it always was.
        tolerance: SearchOptions::default().tolerance * coarser,
        width: SearchOptions::default().width.map(|width| width * coarser),
        requests_max: LONGEST * precision.max_requests,
        ..SearchOptions::default()
    }
}

/// Simulates rate after rate; whether the user stopped it before its end, and what there is to say of what is streamed at
/// which rate.
///
/// # Errors
/// At one of them a class never began, so that the rate is not that of all.
fn find(
    resolved: &Resolved,
    objective: &Objective,
    precision: Precision,
    options: &SearchOptions,
    terminal: &Terminal,
) -> anyhow::Result<(Knee, bool, Streamed)> {
    let mut progress = Progress::new(terminal, None, "rates");
    let mut tried = 0;
    let mut is_interrupted = false;
    let mut stopped_at = None;
    let (mut never_began, mut never_began_at) = (None, 0.0);
    let mut streamed = Streamed::new();
    let mut evaluate = |rate: f64, requests: u64| {
        let precision = Precision {
            min_requests: precision.min_requests.max(requests),
            max_requests: precision.max_requests.max(requests),
            ..precision
        };
        let outcome = long_enough(resolved, rate, objective, precision);
        tried += 1;
        is_interrupted |= !progress.at(tried);
        if is_interrupted {
            stopped_at = Some((rate, outcome.counts.ended));
            return None;
        }
        let silent = silent_classes(&outcome.result, &resolved.scenario.workload);
        never_began = silent.into_iter().find(|class| !class.has_begun());
        if never_began.is_some() {
            never_began_at = rate;
            return None;
        }
        streamed.extend(
            remarks::streamed(resolved, &outcome)
                .into_iter()
                .map(|said| (rate, said)),
        );
        let mut point = judged(resolved, rate, objective, &outcome);
        point.pressure = present::pressure(resolved, &outcome.result);
        if let Some(met) = met(resolved, rate, &outcome.result) {
            point.with_met(met, objective);
        }
        Some(point)
    };
    let knee = search(&mut evaluate, options);
    if let Some((rate, ended)) = stopped_at {
        terminal.notes(&[format!(
            "interrupted at {} req/s after {}: too short to be judged, so that rate is none of those in the table",
            significant(rate),
            crate::report::counted(ended, "request")
        )]);
    }
    if let Some(class) = never_began {
        anyhow::bail!(
            "no knee can be found: at {} req/s class {} never begins ({}); give an earlier start, or `duration` of [workload] beyond it \
             in place of a number of requests",
            significant(never_began_at),
            class.name,
            class.why()
        );
    }
    Ok((knee, is_interrupted, streamed))
}

/// What is printed.
fn view(
    asked: &Asked<'_>,
    sizing: Option<Sizing>,
    knee: &Knee,
    precision: &Precision,
    is_interrupted: bool,
    model: Result<Option<FigureInterval>, String>,
) -> KneeView {
    let resolved = asked.resolved;
    let (model, model_unknown) = match model {
        Ok(model) => (model, None),
        Err(why) => (None, Some(why)),
    };
    let context = KneeContext {
        subject: subject::subject(resolved),
        limits: present::printed_limits(&resolved.slo),
        promises: present::promises(&resolved.slo),
        classes: present::class_promises(resolved),
        attainment: resolved.slo.attainment,
        trust: present::trust(resolved),
        assumptions: assumptions(resolved, precision),
        is_interrupted,
        model,
        model_unknown,
        max_concurrency: resolved.scenario.workload.client.max_concurrency,
        min_rate: asked.bracket.min_rate,
        notes: (resolved.other_notes().into_iter())
            .chain(failures::of_search(resolved, knee))
            .chain(classes::note(knee, &present::objective(resolved)))
            .collect(),
        ignored: asked.ignored.clone(),
        label: resolved.report.label.clone(),
        metadata: resolved.report.metadata.clone(),
        sizing,
        load_varies: LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying,
        words: EngineWords::of(&resolved.scenario.first_pool().engine),
        pools: pools(resolved),
        beside: mix::beside(&resolved.scenario.workload),
    };
    KneeView::new(knee, context)
}

/// The pools and what their engines call their limits, where there are several.
fn pools(resolved: &Resolved) -> Vec<(String, EngineWords)> {
    let pools = resolved.scenario.pools.iter();
    let named = pools.filter(|_| resolved.servers.len() > 1);
    let words = named.map(|pool| (pool.name.clone(), EngineWords::of(&pool.engine)));
    words.collect()
}

/// Where the time of a step goes at the knee, or at the lowest rate tried where no rate keeps the promise.
fn explain(resolved: &Resolved, knee: &Knee, precision: Precision) -> String {
    let lowest = knee.points.first().map(|point| point.rate);
    let Some(rate) = knee.within_slo.map(|within| within.value).or(lowest) else {
        return String::new();
    };
    let outcome = run_at(resolved, rate, precision);
    format!(
        "\nat {} req/s:\n{}",
        significant(rate),
        why::explain(resolved, &outcome.result)
    )
}
