//! The traffic: arrivals, lengths, sharing and the client, checked against the engine's context and the clock.

mod arrivals;
mod checks;
mod classes;
mod context;
mod lengths;
mod recorded;
mod replay;
mod sizes;
mod spaces;
mod superposed;
mod too_long;

use arrivals::Senders;
use spaces::Among;

use super::document::Source;
use super::files::Files;
use super::judge::Judge;
use super::raw::{RawArrivals, RawDraws, RawWorkload};
use super::scalar::Count;
use crate::units::Picos;
use crate::workload::{Arrivals, Client, Draws, Lengths, Prefix, WorkloadSpec, drawn_by_us};

pub(super) use checks::{check_closed_clock, note_refused};
pub(super) use context::{Context, check_context, refuses_too_long};
pub(super) use sizes::{by_class, longest, mean_request, smallest, typical_context};

/// How long a run lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLength {
    /// Until the 95 % intervals are so narrow.
    Auto {
        /// Relative half-width.
        precision: f64,
    },
    /// So many requests.
    Requests(u64),
    /// Sending lasts so long.
    Duration(Picos),
    /// Until the classes that have an end of their own have come to it.
    Classes,
}

/// Half-width at which an automatic run stops when nobody says.
const PRECISION: f64 = 0.02;

/// Resolves the traffic; `None` where something that is needed is missing or wrong, which was reported.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawWorkload,
    files: &dyn Files,
) -> Option<(WorkloadSpec, RunLength)> {
    let before = judge.problems.len();
    let spec = if raw.classes.iter().any(|class| class.arrivals.is_some()) {
        superposed::resolve(judge, raw, files)?
    } else {
        superposed::refuse_rate(judge, raw);
        let spec = one(judge, raw, &mut Among::default(), files);
        // What is wrong with the classes does not follow from what is wrong with the whole.
        let classes = classes::classes(judge, raw, files);
        let Some(mut spec) = spec else {
            check_precision(judge, raw);
            return None;
        };
        spec.classes = classes;
        classes::check(judge, raw, &spec);
        spec
    };
    let length = run_length(judge, raw, &spec);
    if judge.problems.len() == before && !matches!(spec.arrivals, Arrivals::Superposed { .. }) {
        checks::check_combinations(judge, &spec, NEED_COUNT);
        checks::check_clock(judge, &spec);
    }
    (judge.problems.len() == before).then_some((spec, length))
}

/// How one says how many requests are sent.
const NEED_COUNT: &str = "add --num-prompts, or num_prompts in [workload]";

/// The traffic of one client, without its classes.
fn one(
    judge: &mut Judge,
    raw: &RawWorkload,
    among: &mut Among<'_>,
    files: &dyn Files,
) -> Option<WorkloadSpec> {
    let num_prompts = raw.num_prompts.map(|count| given_prompts(judge, count));
    let duration = raw
        .duration
        .as_ref()
        .and_then(|text| judge.span("workload.duration", text, false));
    let client = client(judge, raw);
    let arrivals = match &raw.arrivals {
        Some(arrivals) => arrivals::arrivals(judge, arrivals, among, files),
        None => {
            let help = "give --request-rate 4, --users 100 --think-time 30s, --max-concurrency 32, --trace FILE, or [workload.arrivals.poisson] request_rate = 4.0";
            judge.missing("no traffic is given: how many requests arrive?", help);
            None
        }
    };
    let Some(Senders {
        arrivals,
        in_flight,
        recording,
    }) = arrivals
    else {
        judge_rest(judge, raw, files);
        return None;
    };
    let client = Client {
        max_concurrency: in_flight.or(client.max_concurrency),
        ..client
    };
    let duration = match among.ends_with_all {
        true => duration,
        false => duration.or_else(|| arrivals::one_pass(judge, raw, &arrivals)),
    };
    let is_replay = matches!(arrivals, Arrivals::Replay { .. }) || recording.is_some();
    let lengths = match (&raw.lengths, is_replay) {
        (Some(_), true) => {
            judge.wrong_help(
                "workload.lengths",
                "has no meaning beside a trace",
                "the trace brings its own lengths",
                "leave one of the two out",
            );
            return None;
        }
        (Some(lengths), false) => lengths::lengths(judge, lengths, files)?,
        // Not read for a replay; any valid value does.
        (None, true) => UNREAD,
        // Every class has its own, or was reported.
        (None, false) if !raw.classes.is_empty() => UNREAD,
        (None, false) => {
            lengths_are_missing(judge, client.draws);
            return None;
        }
    };
    let prefix = lengths::prefix(judge, raw.prefix.as_ref(), is_replay);
    let prefix = recording.map_or(prefix, Prefix::Recorded);
    let endings = raw
        .endings
        .as_ref()
        .map(|endings| lengths::endings(judge, endings));
    if endings.is_some() && matches!(prefix, Prefix::Recorded(_)) {
        judge.wrong_help(
            "workload.endings",
            "has no meaning beside recorded conversations",
            "their answers are as long as they were",
            "leave it out",
        );
    }
    Some(WorkloadSpec {
        arrivals,
        lengths,
        prefix,
        client,
        num_prompts,
        duration,
        endings,
        classes: Vec::new(),
    })
}

/// Says how lengths are given. SGLang's client has a data set of its own by default, which is not shipped here.
fn lengths_are_missing(judge: &mut Judge, draws: Draws) {
    const MISSING: &str = "no lengths are given: how long are prompts and outputs?";
    match draws {
        Draws::Sglang => judge.missing(
            &format!("{MISSING} sglang.bench_serving takes those of ShareGPT unless it is told otherwise, and downloads it"),
            "download it and add --dataset-name sharegpt --dataset-path ShareGPT_V3_unfiltered_cleaned_split.json, or give lengths: \
             --dataset-name random --random-input-len 1024 --random-output-len 128",
        ),
        Draws::Own | Draws::Vllm => judge.missing(
            MISSING,
            "give --input-len 1024 --output-len 128, or [workload.lengths.random]",
        ),
    }
}

/// What is not drawn as the client does whose draws are asked for.
pub(super) fn draws_note(spec: &WorkloadSpec, seed: u64) -> Option<String> {
    let client = match spec.client.draws {
        Draws::Own => return None,
        Draws::Vllm => "vllm bench serve",
        Draws::Sglang => "sglang.bench_serving",
    };
    let ours = drawn_by_us(spec, seed);
    (!ours.is_empty()).then(|| {
        let what = ours.join(" and ");
        format!(
            "{what} are drawn by the simulator: which ones {client} draws with this seed is not known here"
        )
    })
}

/// Judges what does not follow from how requests arrive, where that is wrong: all is told at once.
fn judge_rest(judge: &mut Judge, raw: &RawWorkload, files: &dyn Files) {
    let is_replay = matches!(raw.arrivals, Some(RawArrivals::Trace(_)));
    if let Some(given) = raw.lengths.as_ref().filter(|_| !is_replay) {
        lengths::lengths(judge, given, files);
    }
    lengths::prefix(judge, raw.prefix.as_ref(), is_replay);
    if let Some(endings) = &raw.endings {
        lengths::endings(judge, endings);
    }
}

/// With sessions, a rate is of conversations.
pub(super) fn sessions_notes(spec: &WorkloadSpec) -> Vec<String> {
    let note = |(class, of): (Option<usize>, WorkloadSpec)| {
        let class = class.map_or(String::new(), |class| {
            format!("class {}: ", spec.classes[class].name)
        });
        let (turns, each) = match &of.prefix {
            Prefix::Sessions {
                turns, fixed_turns, ..
            } => (
                turns.to_string(),
                if *fixed_turns { "each" } else { "each on average" },
            ),
            Prefix::Recorded(recording) => {
                if let Arrivals::Users { users, .. } = of.arrivals {
                    return Some(format!(
                        "{class}{users} conversations are under way at a time; as one ends the next begins, until all {} of the trace have \
                         been led once",
                        recording.conversations()
                    ));
                }
                (format!("{:.1}", recording.mean_turns()), "each on average")
            }
            Prefix::None | Prefix::Groups { .. } | Prefix::Reuse(_) => return None,
        };
        Some(format!(
            "{class}the arrival rate that is given (--request-rate) is of conversations, which send {turns} requests {each}; the rates of \
             results, and --for-rate, are of requests"
        ))
    };
    by_class(spec).into_iter().filter_map(note).collect()
}

/// Lengths that nobody reads.
const UNREAD: Lengths = Lengths::Fixed {
    input_len: 1,
    output_len: 1,
};

fn given_prompts(judge: &mut Judge, Count(count): Count) -> u64 {
    judge.given("workload.num_prompts", count);
    if count == 0 {
        judge.wrong(
            "workload.num_prompts",
            "must be at least 1",
            "nothing would be sent",
        );
    }
    count.max(1)
}

fn client(judge: &mut Judge, raw: &RawWorkload) -> Client {
    let raw = &raw.client;
    let max_concurrency = raw
        .max_concurrency
        .map(|limit| judge.required("workload.client.max_concurrency", limit, (1, 1 << 24)));
    let timeout = raw
        .timeout
        .as_ref()
        .and_then(|text| judge.duration("workload.client.timeout", text, false));
    let rescale_arrivals = raw.rescale_arrivals.unwrap_or(false);
    let draws = match raw.draws {
        None | Some(RawDraws::Own) => Draws::Own,
        Some(RawDraws::Vllm) => Draws::Vllm,
        Some(RawDraws::Sglang) => Draws::Sglang,
    };
    let mut priorities = Vec::new();
    for (at, class) in raw.priorities.iter().flatten().enumerate() {
        let key = format!("workload.client.priorities.{at}.share");
        judge.number(&key, class.share, |share| share > 0.0, "must be above 0");
        priorities.push((class.priority, class.share));
    }
    Client {
        max_concurrency,
        rescale_arrivals,
        draws,
        timeout,
        priorities,
    }
}

/// What is said of a precision beside a length.
pub(super) const PRECISION_IDLE: &str = "precision has no effect: the run's length is given";

fn check_precision(judge: &mut Judge, raw: &RawWorkload) {
    if let Some(precision) = raw.precision {
        let key = "workload.precision";
        judge.given(key, precision);
        judge.number(
            key,
            precision,
            |half| (0.0005..=0.5).contains(&half),
            "must lie between 0.0005 and 0.5",
        );
    }
}

fn run_length(judge: &mut Judge, raw: &RawWorkload, spec: &WorkloadSpec) -> RunLength {
    let key = "workload.precision";
    let listed = spec.listed().map(|requests| requests.len() as u64);
    let fixed = match (spec.num_prompts, spec.duration, &spec.arrivals) {
        (Some(count), ..) if listed.is_some_and(|has| count > has) => {
            let has = listed.unwrap_or(count);
            judge.ignore(format!(
                "num_prompts = {count} has no effect: the trace has {has} requests, and all of them are sent"
            ));
            Some(RunLength::Requests(has))
        }
        (Some(count), _, _) => Some(RunLength::Requests(count)),
        (None, Some(duration), _) => Some(RunLength::Duration(duration)),
        (None, None, _) if listed.is_some() => listed.map(RunLength::Requests),
        (None, None, Arrivals::Superposed { streams }) => {
            let mut parts = streams.iter().map(|stream| &stream.spec);
            parts.any(WorkloadSpec::has_end).then_some(RunLength::Classes)
        }
        (None, None, _) => None,
    };
    check_precision(judge, raw);
    match fixed {
        Some(length) => {
            if raw.precision.is_some() {
                judge.ignore(PRECISION_IDLE.to_string());
            }
            length
        }
        None => {
            let precision = raw.precision.unwrap_or_else(|| {
                let why = "the run goes on until its 95 % intervals are so narrow";
                judge.assume(key, PRECISION, Source::Assumption(why.to_string()));
                PRECISION
            });
            RunLength::Auto { precision }
        }
    }
}

#[cfg(test)]
mod tests;
