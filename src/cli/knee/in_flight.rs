//! The knee of a closed loop: how many may be in flight within the SLO.

use std::io::Write;
use std::process::ExitCode;

use super::super::outputs::{Format, Outputs};
use super::super::progress::Progress;
use super::super::{files, fronts, in_step, interrupt, present, why};
use super::one::{Asked, GoesOn, context};
use super::rate::{judged, precision, run_under};
use super::{Args, Terminal, classes, ending, lengths_of_its_own, model};
use crate::analysis::knee::{InFlight, InFlightEnding, InFlightOptions, Objective, in_flight as search};
use crate::analysis::{Outcome, Precision};
use crate::config::axes::Axis;
use crate::config::{Diagnostic, Diagnostics, Place, Resolved};
use crate::report::figures::count;
use crate::report::in_flight::{self, InFlightView};
use crate::report::{KneeContext, KneeView, Sought, chart, counted, folded, json};
use crate::workload::{self, Arrivals, WorkloadSpec, with_in_flight};

/// No more in flight than so many are tried: a run of a hundred answers each takes a minute.
const MOST: u64 = 100_000;
/// Runs of a search at most: the number, and both ends of its interval.
const RUNS: usize = 60;
/// Answers for each place in the loop that a run has at least, and at most.
const EACH: u64 = 20;
const EACH_AT_MOST: u64 = 100;

/// Whether the traffic is a closed loop of one client, whose places can be counted.
pub(super) fn is_loop(resolved: &Resolved) -> bool {
    workload::in_flight(&resolved.scenario.workload).is_some()
}

/// What is looked for in its traffic.
pub(super) fn sought(resolved: &Resolved) -> Sought {
    match resolved.scenario.workload.arrivals {
        _ if !is_loop(resolved) => Sought::Rate,
        Arrivals::Users { .. } => Sought::Users,
        _ => Sought::InFlight,
    }
}

/// What the search cannot do.
///
/// # Errors
/// Bounds on a rate, replicas for one, an axis of what is looked for, and a client that lets in fewer than its users.
pub(super) fn check(args: &Args, resolved: &Resolved) -> Result<(), Diagnostics> {
    let rates = [
        (args.min_rate.is_some(), "--min-rate"),
        (args.max_rate.is_some(), "--max-rate"),
    ];
    let given = rates.into_iter().filter(|(is_given, _)| *is_given);
    let mut problems: Vec<Diagnostic> = given
        .map(|(_, flag)| {
            Diagnostic::new(format!(
                "{flag} has no effect on a closed loop, which sends as fast as answers come: how many may be in flight is looked for"
            ))
            .at(Place::Flag(flag.to_owned()))
            .help("leave it out, or give --request-rate for traffic that has a rate")
        })
        .collect();
    problems.extend(
        args.sizing
            .for_rate
            .map(|rate| no_rate_to_carry(rate, sought(resolved))),
    );
    problems.extend(args.axes.given()?.iter().find_map(contradicts));
    if sought(resolved) == Sought::Users && resolved.scenario.workload.client.max_concurrency.is_some() {
        let problem = Diagnostic::new(
            "max_concurrency holds users back at their client, where their wait is in no latency: the most users would be the client's affair",
        );
        problems.push(
            problem
                .help("leave it out: how many users the server itself serves within the SLO is found then"),
        );
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Diagnostics(problems)),
    }
}

/// Replicas are counted for a rate, which a loop makes itself: what can be asked of one in its place.
fn no_rate_to_carry(rate: f64, of: Sought) -> Diagnostic {
    let who = match of {
        Sought::Users => "users",
        Sought::Rate | Sought::InFlight => "requests in flight",
    };
    Diagnostic::new(format!(
        "--for-rate {rate} counts replicas for a rate, and a closed loop has none but what its answers let in: more replicas would only let more in"
    ))
    .at(Place::Flag("--for-rate".to_owned()))
    .help(format!(
        "leave it out for the most {who} of one server; `plimsoll size` counts the replicas that as many {who} as you have need, on every card; or give \
         --request-rate {rate} in place of the loop"
    ))
}

/// What a closed loop has in flight, by the names of its flags and keys.
const NUMBERS: [&str; 2] = ["max-concurrency", "users"];

/// That an axis sets what the search looks for.
pub(super) fn contradicts(axis: &Axis) -> Option<Diagnostic> {
    let name = axis.name.trim_start_matches('-').replace('_', "-");
    let last = name.rsplit('.').next().unwrap_or(&name);
    let is_of_all = !name.contains(".classes.") && NUMBERS.contains(&last);
    is_of_all.then(|| {
        let first = axis.values.first().map_or("", String::as_str);
        Diagnostic::new("knee looks for how many a closed loop may have in flight, and an axis sets it")
            .at(Place::of_axis(&axis.name))
            .help(format!(
                "give one number for the search to replace (--{last} {first}), or `plimsoll sweep` runs with given numbers"
            ))
    })
}

/// What was given and has no effect beside it.
pub(super) fn without_effect(resolved: &Resolved) -> Vec<String> {
    let key = match sought(resolved) {
        Sought::Users => "users",
        Sought::Rate | Sought::InFlight => "max_concurrency",
    };
    let is_key = |path: &str| path.rsplit('.').next() == Some(key);
    let given = resolved.provenance.iter();
    let given = given.filter(|value| is_key(&value.key) && !value.is_assumed());
    let own = given.map(|value| {
        format!(
            "{key} = {} has no effect on knee, which looks for the most that a closed loop may have in flight",
            value.value
        )
    });
    own.chain(lengths_of_its_own(resolved)).collect()
}

/// The loop with so many in flight.
fn put(resolved: &Resolved, number: u64) -> WorkloadSpec {
    let number = u32::try_from(number).expect("no more than MOST are tried");
    with_in_flight(&resolved.scenario.workload, number)
}

/// A run of so many in flight.
fn run_with(resolved: &Resolved, number: u64, precision: Precision) -> Outcome {
    let told = |ended| format!("{} in flight {}", count(number), counted(ended, "request"));
    run_under(resolved, put(resolved, number), precision, told)
}

/// A run of so many in flight that is long enough to tell whether the SLO is met, of each class, too.
pub(super) fn long_enough_loop(
    resolved: &Resolved,
    number: u64,
    objective: &Objective,
    precision: Precision,
) -> Outcome {
    let precision = Precision {
        min_requests: precision.min_requests.max(EACH * number),
        max_requests: precision.max_requests.max(EACH_AT_MOST * number),
        ..precision
    };
    let first = run_with(resolved, number, precision);
    // A class that sends seldom beside others needs a longer run.
    match classes::longer(resolved, objective, &first.result, precision) {
        Some(longer) => run_with(resolved, number, longer),
        None => first,
    }
}

/// Sentences on runs by their numbers in flight.
type Caveats = Vec<(u64, String)>;

/// Tries number after number.
fn find(
    resolved: &Resolved,
    objective: &Objective,
    precision: Precision,
    goes_on: GoesOn<'_>,
) -> (InFlight, Caveats) {
    let (mut tried, mut caveats) = (0, Caveats::new());
    let evaluate = |number: u64| {
        let outcome = long_enough_loop(resolved, number, objective, precision);
        tried += 1;
        if !goes_on(tried) {
            return None;
        }
        let mut scenario = resolved.scenario.clone();
        scenario.workload = put(resolved, number);
        let of_run = in_step::of_run(&scenario, &outcome);
        let said = fronts::of_run(resolved, &outcome).into_iter().chain(of_run);
        caveats.extend(said.map(|said| (number, said)));
        let mut point = judged(resolved, number as f64, objective, &outcome);
        point.rate = point.throughput.map_or(0.0, |served| served.value);
        point.pressure = present::pressure(resolved, &outcome.result);
        Some(point)
    };
    let options = InFlightOptions {
        most: MOST,
        runs_max: RUNS,
        is_of_pace: objective.is_of_pace(),
    };
    let found = search(evaluate, &options);
    (found, caveats)
}

/// Searches, and finds out how far the answer may be off.
pub(super) fn search_one(asked: &Asked<'_>, goes_on: GoesOn<'_>) -> InFlightView {
    let resolved = asked.resolved;
    let (objective, precision) = (present::objective(resolved), precision(resolved));
    let (found, caveats) = find(resolved, &objective, precision, goes_on);
    // What follows says how sure the answer is, and makes it no other.
    let is_interrupted = interrupt::is_asked();
    let model = match found.ending {
        InFlightEnding::Found { most, .. } if !is_interrupted && !asked.is_bare => {
            let known = model::of_loop(resolved, &objective, most);
            match interrupt::is_asked() {
                true => Err(Some("interrupted before it was".to_owned())),
                false => known.map_err(Some),
            }
        }
        _ => Err(None),
    };
    let best = found.best().map(|(number, _)| *number);
    let of_best = caveats.into_iter().filter(|(number, _)| best == Some(*number));
    let of_best = of_best.map(|(number, said)| format!("with {} in flight {said}", count(number)));
    let context = KneeContext {
        is_interrupted,
        is_cut_after: interrupt::is_asked() && !is_interrupted,
        model_unknown: model.as_ref().err().cloned().flatten(),
        model: model.ok(),
        notes: resolved.other_notes().into_iter().chain(of_best).collect(),
        // All that is sent is the loop.
        beside: Vec::new(),
        ..context(asked, &precision)
    };
    InFlightView {
        knee: KneeView::of_loop(&found, sought(resolved), context),
        found,
    }
}

/// Searches and prints.
///
/// # Errors
/// Files that cannot be written.
pub(super) fn execute(
    asked: &Asked<'_>,
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::new(terminal, None, "numbers in flight");
    let view = search_one(asked, &mut |tried| progress.at(tried));
    drop(progress);
    let file = outputs.file.as_deref();
    let style = terminal.style(file);
    let mut text = match outputs.format {
        Format::Table => in_flight::text(&view, style),
        Format::Csv => in_flight::csv(&view),
        Format::Md => in_flight::md(&view),
        Format::Json | Format::Jsonl => json::in_flight(&view) + "\n",
    };
    let explained = (outputs.why && !interrupt::is_asked()).then(|| explain(asked.resolved, &view));
    text += &folded(&explained.unwrap_or_default(), style.width);
    files::put(&text, file, out)?;
    if let Some(folder) = &outputs.charts {
        files::save_pictures(folder, &[("knee", chart::knee(&view.knee))], terminal)?;
    }
    Ok(ending(view.best().is_some()))
}

/// Where the time of a step goes at the knee, or with the fewest that were tried where none meet the SLO.
fn explain(resolved: &Resolved, view: &InFlightView) -> String {
    let Some((number, _)) = view.best().or(view.found.tried.first()) else {
        return String::new();
    };
    let outcome = run_with(resolved, *number, precision(resolved));
    let told = Sought::InFlight.told(*number as f64);
    format!("\nwith {told}:\n{}", why::explain(resolved, &outcome))
}
