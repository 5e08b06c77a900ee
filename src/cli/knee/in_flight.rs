//! The knee of a closed loop: how many may be in flight within the SLO.

use std::io::Write;
use std::process::ExitCode;

use super::super::outputs::{Format, Outputs};
use super::super::progress::Progress;
use super::super::{files, fronts, in_step, interrupt, present, rent, subject};
use super::one::assumptions;
use super::rate::{judged, precision, run_under};
use super::{Args, Terminal, classes, ending, lengths_of_its_own, model};
use crate::analysis::Precision;
use crate::analysis::knee::{InFlight, InFlightEnding, InFlightOptions, Objective, in_flight as search};
use crate::calibrate::interval::FigureInterval;
use crate::config::{Diagnostic, Diagnostics, Place, Resolved};
use crate::report::figures::count;
use crate::report::in_flight::{self, InFlightView, limited_by};
use crate::report::{self, EngineWords, counted, json};
use crate::workload::{self, Arrivals, with_in_flight};

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

fn are_users(resolved: &Resolved) -> bool {
    matches!(resolved.scenario.workload.arrivals, Arrivals::Users { .. })
}

/// What the search cannot do.
///
/// # Errors
/// Bounds on a rate, replicas for one, charts, and a client that lets in fewer than its users.
pub(super) fn check(args: &Args, resolved: &Resolved, outputs: &Outputs) -> Result<(), Diagnostics> {
    let rates = [
        (args.min_rate.is_some(), "--min-rate"),
        (args.max_rate.is_some(), "--max-rate"),
        (args.sizing.for_rate.is_some(), "--for-rate"),
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
    if outputs.charts.is_some() {
        let problem =
            Diagnostic::new("--charts has no picture of how many may be in flight: the answer is a table");
        let help =
            "leave it out; `sweep -L max_concurrency 8,16,32 --charts DIR` draws latencies against them";
        problems.push(problem.at(Place::Flag("--charts".to_owned())).help(help));
    }
    if are_users(resolved) && resolved.scenario.workload.client.max_concurrency.is_some() {
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

/// What was given and has no effect beside it.
pub(super) fn without_effect(resolved: &Resolved) -> Vec<String> {
    let key = if are_users(resolved) {
        "users"
    } else {
        "max_concurrency"
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

/// Sentences on runs by their numbers in flight.
type Caveats = Vec<(u64, String)>;

/// Tries number after number.
fn find(
    resolved: &Resolved,
    objective: &Objective,
    precision: Precision,
    terminal: &Terminal,
) -> (InFlight, Caveats) {
    let mut progress = Progress::new(terminal, None, "numbers in flight");
    let (mut tried, mut caveats) = (0, Caveats::new());
    let evaluate = |number: u64| {
        let workload = with_in_flight(&resolved.scenario.workload, u32::try_from(number).ok()?);
        let told = |ended| format!("{} in flight {}", count(number), counted(ended, "request"));
        let run = |precision| run_under(resolved, workload.clone(), precision, told);
        let precision = Precision {
            min_requests: precision.min_requests.max(EACH * number),
            max_requests: precision.max_requests.max(EACH_AT_MOST * number),
            ..precision
        };
        let first = run(precision);
        // A class that sends seldom beside others needs a longer run.
        let outcome = match classes::longer(resolved, objective, &first.result, precision) {
            Some(longer) => run(longer),
            None => first,
        };
        tried += 1;
        if !progress.at(tried) {
            return None;
        }
        let mut scenario = resolved.scenario.clone();
        scenario.workload = workload.clone();
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

/// Searches and prints.
///
/// # Errors
/// Files that cannot be written.
pub(super) fn execute(
    resolved: &Resolved,
    ignored: &[String],
    outputs: &Outputs,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let (objective, precision) = (present::objective(resolved), precision(resolved));
    let (found, caveats) = find(resolved, &objective, precision, terminal);
    // What follows says how sure the answer is, and makes it no other.
    let is_interrupted = interrupt::is_asked();
    let model = match found.ending {
        InFlightEnding::Found { most, .. } if !is_interrupted => {
            let known = model::of_loop(resolved, &objective, most);
            Some(match interrupt::is_asked() {
                true => Err("interrupted before it was".to_owned()),
                false => known,
            })
        }
        _ => None,
    };
    let view = view(
        resolved,
        (found, caveats, model),
        (&precision, ignored),
        is_interrupted,
    );
    let file = outputs.file.as_deref();
    let text = match outputs.format {
        Format::Table => in_flight::text(&view, terminal.style(file)),
        Format::Csv => in_flight::csv(&view),
        Format::Md => in_flight::md(&view),
        Format::Json | Format::Jsonl => json::in_flight(&view) + "\n",
    };
    files::put(&text, file, out)?;
    Ok(ending(view.best().is_some()))
}

fn view(
    resolved: &Resolved,
    (found, caveats, model): (InFlight, Caveats, Option<Result<FigureInterval, String>>),
    (precision, ignored): (&Precision, &[String]),
    is_interrupted: bool,
) -> InFlightView {
    let slo = &resolved.slo;
    let (limits, classes) = (present::printed_limits(slo), present::class_promises(resolved));
    let best = found.best().map(|(number, _)| *number);
    let of_best = caveats.into_iter().filter(|(number, _)| best == Some(*number));
    let of_best = of_best.map(|(number, said)| format!("with {} in flight {said}", count(number)));
    let words = EngineWords::of(&resolved.scenario.first_pool().engine);
    let pools = resolved.scenario.pools.iter();
    let pools: Vec<_> = pools
        .filter(|_| resolved.servers.len() > 1)
        .map(|pool| (pool.name.clone(), EngineWords::of(&pool.engine)))
        .collect();
    InFlightView {
        limited_by: limited_by(&found, are_users(resolved), &classes, words, &pools),
        found,
        are_users: are_users(resolved),
        model,
        rent: rent::beside_knee(resolved),
        promises: report::promised(&limits, &classes, &present::promises(slo), slo.attainment),
        subject: subject::subject(resolved),
        scenario: resolved.scenario_name(),
        seed: resolved.scenario.seed,
        trust: present::trust(resolved),
        assumptions: assumptions(resolved, precision),
        notes: resolved.other_notes().into_iter().chain(of_best).collect(),
        ignored: [&resolved.ignored, ignored].concat(),
        is_interrupted,
    }
}
