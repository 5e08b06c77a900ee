//! `plimsoll knee`: the highest rate that meets the SLO, or the most that a closed loop may have in flight.

mod caveats;
mod classes;
mod in_flight;
mod model;
mod one;
mod pairs;
mod rate;
mod roles;
mod searches;
mod settings;
mod sizing;
mod splits;
mod told;

pub(super) use one::Asked;
pub(super) use pairs::counted as pairs_for;
pub(super) use searches::{Pruned, Setting, Told, Turns, objects, search_all};
pub(super) use settings::{combinations, draw, interrupted, prices, said_of_all};
pub use sizing::SizingFlags;
pub(super) use sizing::Wanted;
pub use splits::SplitFlags;
pub(super) use splits::do_both;
pub(super) use told::told;

use std::cell::RefCell;
use std::io::Write;
use std::process::ExitCode;

use self::one::search_one;
use self::rate::{precision, run_at};
use super::Exit;
use super::disk::Disk;
use super::outputs::{Format, OutputFlags, Outputs, Writer};
use super::plan::{AxisFlags, Common};
use super::progress::Progress;
use super::reported::unread;
use super::terminal::Terminal;
use super::{files, interrupt, mix, rent, why};
use crate::analysis::LoadKind;
use crate::analysis::knee::Knee;
use crate::config::{
    Assembled, Diagnostic, Diagnostics, Document, Place, Resolved, Source, resolve, resolved_toml,
};
use crate::report::figures::significant_down;
use crate::report::{self, KneeView, Sought, chart};
use crate::units::Picos;
use crate::workload::{Prefix, WorkloadSpec};

/// What to search.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll knee
  plimsoll knee meta-llama/Llama-3.1-8B-Instruct --gpu h100 --input-len 1024 --output-len 128 --goodput ttft:500 tpot:50
  plimsoll knee matrix-f --gpu l40s --slo 'p99_ttft_ms<=1000'
  plimsoll knee quickstart --for-rate 100 --price 2.49   # how many GPUs, and what they cost
  plimsoll knee quickstart -L gpu h100,h200,l40s   # which is the cheapest within the SLO
  plimsoll knee quickstart -L gpu h100,l40s -L tensor-parallel-size 1,2 --for-rate 100
  plimsoll knee pd-input-length --disaggregated --gpus 4   # which share of prefill and decode, or neither
  plimsoll knee pd-input-length --for-rate 40   # how many that prefill and how many that decode are the cheapest
  plimsoll knee quickstart --request-rate inf --max-concurrency 32   # a closed loop: how many may be in flight
  plimsoll knee quickstart --users 8 --think-time 20s -L gpu h100,l40s   # where a user is the cheapest within the SLO

Without arguments: the quickstart scenario. Traffic without a rate, a closed loop, has the most in flight as its knee. With -L and -S there is a knee for each combination of values, and they are ranked by cost (of users who think: of one an hour); --charts draws all of them as one picture, and the search of each. With -o FILE.jsonl finished settings are kept as they come: after an interruption the same command goes on from there. A setting that does not fit, or whose values do not go together, is a row that says so; a value that is wrong by itself is an error. --precision is the half-width asked of each rate's mean latencies; the bracket on the rate gets narrower with it. Exit code 3 where no rate (with --for-rate, no number of replicas) meets the SLO, or the model does not fit: with -L and -S, in no setting.")]
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
    /// Which settings to search side by side.
    #[command(flatten)]
    pub axes: AxisFlags,
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

/// Refuses conversations of a trace.
///
/// # Errors
/// There are some.
pub(super) fn refuse_recorded(resolved: &Resolved) -> Result<(), Diagnostics> {
    let parts = resolved.scenario.workload.parts();
    let is_recorded = |part: &&WorkloadSpec| matches!(part.prefix, Prefix::Recorded(_));
    match parts.iter().any(is_recorded) {
        false => Ok(()),
        true => Err(Diagnostic::new(
            "a trace of conversations has no knee: it ends, and each of its conversations is led once, while a search asks of each load that \
             it goes on",
        )
        .help("`plimsoll sweep … --trace FILE -L users 4,8,16` simulates them with so many under way")
        .into()),
    }
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
    let (common, input) = input_of(args)?;
    if args.axes.is_given() {
        drop(nothing_yet);
        return settings::execute(args, (&common, &input), out, terminal);
    }
    let splits = args.splits.check()?;
    let mut resolved = match splits {
        Some(_) => splits::one_of_each(&input.document)?,
        None => resolve(input.document.clone(), &Disk)?,
    };
    resolved.precision_acts();
    drop(nothing_yet);
    if resolved.slo.is_empty() {
        return Err(Diagnostics::from(no_promise()).into());
    }
    let bracket = Bracket {
        min_rate: args.min_rate,
        max_rate: args.max_rate,
    };
    rent::check_for_knee(&resolved)?;
    refuse_recorded(&resolved)?;
    if splits.is_some() {
        splits::rate_of(&resolved)?;
        splits::refuse_limit(&resolved)?;
    }
    let outputs = args.output.resolve(&input.results, Writer::Knee)?;
    let is_loop = splits.is_none() && in_flight::is_loop(&resolved);
    if is_loop {
        in_flight::check(args, &resolved)?;
    }
    let pair_for = args
        .sizing
        .for_rate
        .filter(|_| pairs::has_pair(&resolved, &input.document));
    let sizing = match pair_for {
        Some(_) => pairs::check(&resolved, &input.document, &outputs).map(|()| None)?,
        None => args.sizing.of(&resolved, &input.document)?,
    };
    if args.sizing.for_rate.is_some() {
        resolved.router_acts();
    }
    terminal.notes(&input.notes);
    terminal.notes(&resolved.notes);
    terminal.notes(&outputs.notes);
    let unread = unread(&input.document, &outputs, Writer::Knee);
    let ignored = match pair_for {
        Some(_) => pairs::without_effect(args, &resolved, &input.document),
        None => set_by_the_search(&resolved),
    };
    let ignored = [unread, ignored].concat();
    terminal.notes(&ignored);
    if input.document.get("sweep").is_some() {
        terminal.notes(&[
            "the scenario has a [sweep]: give its axes with -L to rank their settings, this searches what stands outside".to_owned(),
        ]);
    }
    terminal.notes(&mix::scaling_note(&resolved).into_iter().collect::<Vec<_>>());
    resolved.said_before(&[], &outputs.notes);
    resolved.said_before(&input.notes, &input.ignored);
    if args.output.dry_run {
        outputs.put_scenario(&resolved_toml(&resolved), out)?;
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    terminal.notes(&outputs.told);
    if let Some(gpus) = splits {
        return splits::execute(&input.document, gpus, bracket, &outputs, out, terminal);
    }
    if let Some(rate) = pair_for {
        let asked = (&resolved, &input.document);
        return pairs::execute(asked, rate, &ignored, &outputs, out, terminal);
    }
    let asked = Asked {
        resolved: &resolved,
        document: &input.document,
        bracket,
        sizing,
        rent: rent::beside_knee(&resolved),
        ignored: [resolved.ignored.clone(), ignored].concat(),
        is_bare: false,
    };
    match is_loop {
        true => in_flight::execute(&asked, &outputs, out, terminal),
        false => execute(&asked, &outputs, out, terminal),
    }
}

/// The input, with a rate where none is given: the search sets it, and flags beside it may need one.
///
/// # Errors
/// What is wrong with it.
pub(super) fn input_of(args: &Args) -> Result<(Common<'_>, Assembled), Diagnostics> {
    let flags = &args.scenario;
    let names_model =
        flags.target.is_some() || flags.server.machines.model.is_some() || flags.serve_cmd.is_some();
    let may_lack_rate = names_model && flags.traffic.request_rate.is_none();
    let common = Common::read(&args.axes, flags, &args.output)?;
    let axes = args.axes.given()?;
    // A limit in flight that is swept makes a closed loop only where nobody sends at a rate, as the search does.
    let is_loop_of_axis = |document: &Document| {
        let source = document.source("workload.arrivals.all_at_once");
        source.is_some_and(|source| source.is_axis())
    };
    let has_rate = |input: &Assembled| {
        (input.document.get("workload.arrivals").is_some() && !is_loop_of_axis(&input.document))
            || input.document.get("workload.base").is_some()
            || input.document.has_several_clients()
    };
    let without = match common.first(&axes) {
        Ok(input) if !may_lack_rate || has_rate(&input) => return Ok((common, input)),
        Err(wrong) if !may_lack_rate => return Err(wrong),
        without => without,
    };
    let common = common.with_rate();
    match (common.first(&axes), without) {
        (Ok(input), _) => Ok((common, input)),
        (_, Err(wrong)) | (Err(wrong), _) => Err(wrong),
    }
}

fn no_promise() -> Diagnostic {
    Diagnostic::new("no SLO is given: the knee is the highest rate, or the most in flight, that meets one")
        .help("give --goodput ttft:500 tpot:50 (ms per request), --slo 'p99_ttft_ms<=500', or [slo.goodput]")
}

/// The knee alone of traffic with a promise, for whoever sets knees side by side: of a closed loop the most in flight.
///
/// # Errors
/// Why it has none that could be looked for.
pub(super) fn knee_of(
    resolved: &Resolved,
    document: &Document,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> anyhow::Result<KneeView> {
    refuse_no_knee(resolved)?;
    let asked = Asked::bare(resolved, document);
    match in_flight::is_loop(resolved) {
        true => Ok(in_flight::search_one(&asked, goes_on).knee),
        false => Ok(search_one(&asked, goes_on, &mut |_| true)?.view),
    }
}

/// Refuses what has no knee: nothing is promised, or the traffic ends.
///
/// # Errors
/// Why it has none.
fn refuse_no_knee(resolved: &Resolved) -> Result<(), Diagnostics> {
    match resolved.slo.is_empty() {
        true => Err(no_promise().into()),
        false => refuse_recorded(resolved),
    }
}

/// What the knee of a traffic is a number of.
pub(super) fn sought(resolved: &Resolved) -> Sought {
    in_flight::sought(resolved)
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
        problems.extend(self.splits.contradicted(self));
        if self.axes.link && !self.axes.is_given() {
            let useless = Diagnostic::new("--link has no effect without axes: it advances several together");
            let help = "give them: -L gpu l40s,h100 -L tensor-parallel-size 4,1";
            problems.push(useless.at(Place::Flag("--link".to_owned())).help(help));
        }
        // What is no axis is told where axes are read.
        let axes = self.axes.given().unwrap_or_default();
        problems.extend(settings::contradicted(&axes));
        if self.names_loop() {
            problems.extend(axes.iter().find_map(in_flight::contradicts));
        }
        problems
    }

    /// Whether flags alone say that the traffic is a closed loop.
    fn names_loop(&self) -> bool {
        let traffic = &self.scenario.traffic;
        traffic.users.is_some() || traffic.request_rate.is_some_and(|rate| rate.0.is_infinite())
    }
}

/// The same, and what is wrong with the scenario beside it.
fn with_the_scenario_s(mut problems: Vec<Diagnostic>, args: &Args) -> Diagnostics {
    let more = match args.axes.first(&args.scenario, &args.output) {
        Ok(input) => resolve(input.document, &Disk).err(),
        Err(more) => Some(more),
    };
    // What has no place may be missing because the search would bring it, and an axis that is to go needs no other change.
    let goes = problems.iter().any(|problem| problem.place.is_of_axis());
    let is_of_axis = |problem: &Diagnostic| goes && problem.message.contains("swept over");
    let is_given = |problem: &Diagnostic| {
        problem.misfit.is_none() && problem.place != Place::Nowhere && !is_of_axis(problem)
    };
    problems.extend(more.into_iter().flat_map(|more| more.0).filter(is_given));
    Diagnostics(problems)
}

/// What was given of one run and the search sets itself.
fn set_by_the_search(resolved: &Resolved) -> Vec<String> {
    if in_flight::is_loop(resolved) {
        return in_flight::without_effect(resolved);
    }
    let rate = rate_of_a_run(resolved).map(|rate| {
        format!(
            "request_rate = {rate} has no effect on knee but as the first rate that is tried: from another one it finds the same within \
             its interval"
        )
    });
    rate.into_iter().chain(lengths_of_its_own(resolved)).collect()
}

/// The rate of a run, given by a flag: a scenario has one for `run`, and nobody asked for it here.
fn rate_of_a_run(resolved: &Resolved) -> Option<&str> {
    let is_rate = |key: &str| {
        key == "workload.request_rate"
            || key
                .strip_prefix("workload.arrivals.")
                .is_some_and(|law| law.ends_with(".request_rate"))
    };
    let mut given = resolved.provenance.iter();
    let given = given.find(|value| is_rate(&value.key) && matches!(value.source, Source::Flag(_)))?;
    Some(&given.value)
}

/// Lengths of a run that were given and that the search replaces by its own.
pub(super) fn lengths_of_its_own(resolved: &Resolved) -> Vec<String> {
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

/// How a search over whole numbers ends.
fn ending(is_found: bool) -> ExitCode {
    let exit = match (interrupt::is_asked(), is_found) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::NotMet,
    };
    exit.into()
}

/// Searches, judges and prints.
fn execute(
    asked: &Asked<'_>,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let resolved = asked.resolved;
    let progress = RefCell::new(Progress::new(terminal, None, "rates"));
    let mut counting = |tried| {
        let mut progress = progress.borrow_mut();
        if tried == 1 {
            *progress = Progress::new(terminal, None, "numbers of replicas");
        }
        progress.at(tried)
    };
    let searched = search_one(asked, &mut |tried| progress.borrow_mut().at(tried), &mut counting)?;
    drop(progress);
    terminal.notes(&searched.stopped.into_iter().collect::<Vec<_>>());
    let (view, knee) = (searched.view, searched.knee);
    let style = terminal.style(outputs.file.as_deref());
    let mut text = match outputs.format {
        Format::Table => report::knee_text(&view, style),
        Format::Json | Format::Jsonl => report::json::knee(&view) + "\n",
        Format::Csv => report::csv::knee(&view),
        Format::Md => report::md::knee(&view),
    };
    let explained = (outputs.why && !interrupt::is_asked()).then(|| explain(resolved, &knee));
    let explained = explained.filter(|_| !interrupt::is_asked()).unwrap_or_default();
    text += &report::folded(&explained, style.width);
    if interrupt::is_asked() && !view.is_interrupted {
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
    } else if view.is_kept() {
        Exit::Ok
    } else {
        Exit::NotMet
    }
    .into())
}

/// Where the time of a step goes at the knee, or at the lowest rate tried where no rate meets the SLO.
fn explain(resolved: &Resolved, knee: &Knee) -> String {
    let lowest = knee.points.first().map(|point| point.rate);
    let Some(rate) = knee.within_slo.map(|within| within.value).or(lowest) else {
        return String::new();
    };
    let outcome = run_at(resolved, rate, precision(resolved));
    format!(
        "\nat {} req/s:\n{}",
        significant_down(rate),
        why::explain(resolved, &outcome)
    )
}
