//! The traffic: arrivals, lengths, sharing and the client, checked against the engine's context and the clock.

use std::sync::Arc;

use super::document::Source;
use super::files::Files;
use super::judge::Judge;
use super::raw::{RawArrivals, RawProfile, RawRampStrategy, RawTimeUnit, RawTrace, RawWorkload};
use super::scalar::{Count, Rate};
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::trace::{self, ReadOptions, TimeUnit, Trace};
use crate::workload::{Arrivals, Client, Lengths, LognormalLength, MmppState, Prefix, Request, WorkloadSpec};

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
}

/// Half-width at which an automatic run stops when nobody says.
const PRECISION: f64 = 0.02;
/// Memory that a request takes while it waits, measured: 1.56 GB for three million.
const WAITING_BYTES: u64 = 520;
/// Requests that may wait in the server at once before this machine's memory, not physics, decides: 10 GB.
const QUEUE_MAX: u64 = 20_000_000;
/// Requests at once whose memory is worth a note: 1 GB.
const QUEUE_LARGE: u64 = 2_000_000;
/// Longest prompt or output that is taken seriously.
pub(super) const LEN_MAX: u64 = 1 << 30;

/// Resolves the traffic; `None` where something that is needed is missing or wrong, which was reported.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawWorkload,
    files: &dyn Files,
) -> Option<(WorkloadSpec, RunLength)> {
    let before = judge.problems.len();
    let num_prompts = raw.num_prompts.map(|count| given_prompts(judge, count));
    let duration = raw
        .duration
        .as_ref()
        .and_then(|text| judge.duration("workload.duration", text, false));
    let client = client(judge, raw);
    let (arrivals, in_flight) = match &raw.arrivals {
        Some(arrivals) => self::arrivals(judge, arrivals, files)?,
        None => {
            let help = "give --request-rate 4, --users 100 --think-time 30s, --max-concurrency 32, --trace FILE, or [workload.arrivals.poisson] request_rate = 4.0";
            judge.missing("no traffic is given: how many requests arrive?", help);
            return None;
        }
    };
    let client = Client {
        max_concurrency: in_flight.or(client.max_concurrency),
        ..client
    };
    let duration = duration.or_else(|| one_pass(judge, raw, &arrivals));
    let is_replay = matches!(arrivals, Arrivals::Replay { .. });
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
        (Some(lengths), false) => super::lengths::lengths(judge, lengths, files)?,
        // Not read for a replay; any valid value does.
        (None, true) => Lengths::Fixed {
            input_len: 1,
            output_len: 1,
        },
        (None, false) => {
            judge.missing(
                "no lengths are given: how long are prompts and outputs?",
                "give --input-len 1024 --output-len 128, or [workload.lengths.random]",
            );
            return None;
        }
    };
    let prefix = super::lengths::prefix(judge, raw.prefix.as_ref(), is_replay);
    let endings = raw
        .endings
        .as_ref()
        .map(|endings| super::lengths::endings(judge, endings));
    let spec = WorkloadSpec {
        arrivals,
        lengths,
        prefix,
        client,
        num_prompts,
        duration,
        endings,
    };
    let length = run_length(judge, raw, &spec);
    check_combinations(judge, &spec);
    check_clock(judge, &spec);
    (judge.problems.len() == before).then_some((spec, length))
}

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
    let mut priorities = Vec::new();
    for (at, class) in raw.priorities.iter().flatten().enumerate() {
        let key = format!("workload.client.priorities.{at}.share");
        judge.number(&key, class.share, |share| share > 0.0, "must be above 0");
        priorities.push((class.priority, class.share));
    }
    Client {
        max_concurrency,
        rescale_arrivals,
        timeout,
        priorities,
    }
}

/// Arrivals, and the concurrency that a closed loop implies.
fn arrivals(judge: &mut Judge, raw: &RawArrivals, files: &dyn Files) -> Option<(Arrivals, Option<u32>)> {
    let key = |name: &str| format!("workload.arrivals.{name}");
    let open = |arrivals| Some((arrivals, None));
    match raw {
        // `"inf"` is how the field writes "all at once", also in a sweep over rates.
        RawArrivals::Poisson(raw) if raw.request_rate == Rate(f64::INFINITY) => {
            judge.given(&key("poisson.request_rate"), "inf");
            open(Arrivals::AllAtOnce)
        }
        RawArrivals::Poisson(raw) => open(Arrivals::Poisson {
            request_rate: judge.rate(&key("poisson.request_rate"), raw.request_rate)?,
        }),
        RawArrivals::Constant(raw) => open(Arrivals::Constant {
            request_rate: judge.rate(&key("constant.request_rate"), raw.request_rate)?,
        }),
        RawArrivals::Gamma(raw) => {
            judge.given(&key("gamma.burstiness"), raw.burstiness);
            judge.number(
                &key("gamma.burstiness"),
                raw.burstiness,
                |shape| shape > 0.0,
                "must be above 0",
            );
            if raw.request_rate == Rate(f64::INFINITY) {
                return open(Arrivals::AllAtOnce);
            }
            let request_rate = judge.rate(&key("gamma.request_rate"), raw.request_rate)?;
            open(Arrivals::Gamma {
                request_rate,
                burstiness: raw.burstiness,
            })
        }
        RawArrivals::AllAtOnce(_) => open(Arrivals::AllAtOnce),
        RawArrivals::Closed(raw) => {
            let limit = judge.required(&key("closed.max_concurrency"), raw.max_concurrency, (1, 1 << 24));
            Some((Arrivals::AllAtOnce, Some(limit)))
        }
        RawArrivals::Users(raw) => {
            let users = judge.required(&key("users.users"), raw.users, (1, 1 << 24));
            let think_time = judge.duration(&key("users.think_time"), &raw.think_time, true)?;
            open(Arrivals::Users { users, think_time })
        }
        RawArrivals::Ramp(raw) => {
            let start_rate = judge.rate(&key("ramp.start_rate"), raw.start_rate);
            let end_rate = judge.rate(&key("ramp.end_rate"), raw.end_rate);
            open(Arrivals::Ramp {
                start_rate: start_rate?,
                end_rate: end_rate?,
                exponential: raw.strategy == RawRampStrategy::Exponential,
            })
        }
        RawArrivals::Mmpp(raw) => open(mmpp(judge, &raw.states)?),
        RawArrivals::Profile(raw) => open(profile(judge, raw)?),
        RawArrivals::Trace(raw) => open(replay(judge, raw, files)?),
    }
}

/// A rate curve whose run has no length of its own is run once over its span: it has no steady state to wait for.
fn one_pass(judge: &mut Judge, raw: &RawWorkload, arrivals: &Arrivals) -> Option<Picos> {
    let Arrivals::Profile { piece, rates, .. } = arrivals else {
        return None;
    };
    if raw.num_prompts.is_some() || raw.duration.is_some() {
        return None;
    }
    let seconds = piece.seconds() * rates.len() as f64;
    let span = Picos::try_from_seconds(seconds)?;
    let why = "one pass over the rate curve".to_string();
    judge.assume(
        "workload.duration",
        format!("{seconds} s"),
        Source::Assumption(why),
    );
    Some(span)
}

fn mmpp(judge: &mut Judge, raw: &[super::raw::RawMmppState]) -> Option<Arrivals> {
    let key = "workload.arrivals.mmpp.states";
    let mut states = Vec::new();
    for (at, state) in raw.iter().enumerate() {
        let rate = match state.request_rate {
            Rate(0.0) => Some(0.0),
            rate => judge.rate(&format!("{key}.{at}.request_rate"), rate),
        };
        let mean_sojourn = judge.duration(&format!("{key}.{at}.mean_sojourn"), &state.mean_sojourn, false);
        if let (Some(request_rate), Some(mean_sojourn)) = (rate, mean_sojourn) {
            states.push(MmppState {
                request_rate,
                mean_sojourn,
            });
        }
    }
    if raw.iter().all(|state| state.request_rate == Rate(0.0)) {
        judge.wrong(key, "must have a state in which requests arrive", "none does");
        return None;
    }
    (states.len() == raw.len()).then_some(Arrivals::Mmpp { states })
}

fn profile(judge: &mut Judge, raw: &RawProfile) -> Option<Arrivals> {
    let key = |name: &str| format!("workload.arrivals.profile.{name}");
    let piece = judge.duration(&key("piece"), &raw.piece, false);
    let burstiness = raw.burstiness.unwrap_or(1.0);
    judge.number(
        &key("burstiness"),
        burstiness,
        |shape| shape > 0.0,
        "must be above 0",
    );
    let before = judge.problems.len();
    for (at, &rate) in raw.rates.iter().enumerate() {
        judge.number(
            &format!("{}.{at}", key("rates")),
            rate,
            |rate| (0.0..=1e9).contains(&rate),
            "must be at least 0 and at most 1e9 requests per second",
        );
    }
    if !raw.rates.iter().any(|&rate| rate > 0.0) {
        judge.wrong(
            &key("rates"),
            "must have a piece in which requests arrive",
            "none does",
        );
    }
    if judge.problems.len() > before {
        return None;
    }
    let mean = raw.rates.iter().sum::<f64>() / raw.rates.len() as f64;
    let scale = match raw.request_rate {
        Some(rate) => judge.rate(&key("request_rate"), rate)? / mean,
        None => 1.0,
    };
    let rates: Arc<[f64]> = raw.rates.iter().map(|rate| rate * scale).collect();
    Some(Arrivals::Profile {
        piece: piece?,
        rates,
        burstiness,
    })
}

fn replay(judge: &mut Judge, raw: &RawTrace, files: &dyn Files) -> Option<Arrivals> {
    let key = |name: &str| format!("workload.arrivals.trace.{name}");
    let options = ReadOptions {
        time_unit: raw.time_unit.map(time_unit),
        ..ReadOptions::default()
    };
    let trace = read_trace(judge, &key("path"), &raw.path, &options, files)?;
    if !trace.has_arrivals {
        let help =
            "draw lengths from it instead: --dataset-path FILE --request-rate 4, or [workload.lengths.file]";
        judge.wrong_help(
            &key("path"),
            "has no arrival times",
            format!("a {} has lengths only", trace.format),
            help,
        );
        return None;
    }
    let time_scale = match (raw.time_scale, raw.request_rate) {
        (Some(_), Some(_)) => {
            judge.wrong_help(
                &key("request_rate"),
                "contradicts time_scale",
                "both set the rate",
                "keep one",
            );
            return None;
        }
        (Some(scale), None) => {
            judge.given(&key("time_scale"), scale);
            judge.number(&key("time_scale"), scale, |scale| scale > 0.0, "must be above 0");
            scale
        }
        (None, Some(rate)) => {
            let asked = judge.rate(&key("request_rate"), rate)?;
            let last = trace.requests.last().map_or(0.0, |last| last.arrival.seconds());
            let scale = trace.requests.len() as f64 / asked / last;
            if !scale.is_finite() {
                judge.wrong(
                    &key("request_rate"),
                    "cannot be reached by scaling",
                    "all requests of the trace arrive at once",
                );
                return None;
            }
            judge.notes.push(format!(
                "arrival times of the trace are multiplied by {scale:.4} to reach {asked} requests/s"
            ));
            scale
        }
        (None, None) => 1.0,
    };
    let last = trace.requests.last().map_or(0.0, |last| last.arrival.seconds());
    if Picos::try_from_seconds(last * time_scale).is_none() {
        judge.wrong(
            &key("time_scale"),
            "stretches the trace past the end of the clock",
            "a run can last 213 days",
        );
        return None;
    }
    Some(Arrivals::Replay {
        requests: trace.requests.into(),
        time_scale,
    })
}

fn time_unit(raw: RawTimeUnit) -> TimeUnit {
    match raw {
        RawTimeUnit::S => TimeUnit::S,
        RawTimeUnit::Ms => TimeUnit::Ms,
        RawTimeUnit::Us => TimeUnit::Us,
        RawTimeUnit::Ns => TimeUnit::Ns,
    }
}

/// Reads a trace file; its assumptions become notes.
pub(super) fn read_trace(
    judge: &mut Judge,
    key: &str,
    path: &str,
    options: &ReadOptions,
    files: &dyn Files,
) -> Option<Trace> {
    judge.given(key, path);
    let bytes = match files.read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            judge.wrong(key, "cannot be read", error);
            return None;
        }
    };
    match trace::read(&bytes, path, options) {
        Ok(trace) => {
            judge
                .notes
                .extend(trace.notes.iter().map(|note| format!("{path}: {note}")));
            judge.notes.extend(
                trace
                    .warnings
                    .iter()
                    .map(|warning| format!("warning: {path}: {warning}")),
            );
            Some(trace)
        }
        Err(error) => {
            judge.wrong(key, "is not a readable trace", error.to_string());
            None
        }
    }
}

fn run_length(judge: &mut Judge, raw: &RawWorkload, spec: &WorkloadSpec) -> RunLength {
    let key = "workload.precision";
    let fixed = match (spec.num_prompts, spec.duration, &spec.arrivals) {
        (Some(count), _, _) => Some(RunLength::Requests(count)),
        (None, Some(duration), _) => Some(RunLength::Duration(duration)),
        (None, None, Arrivals::Replay { requests, .. }) => Some(RunLength::Requests(requests.len() as u64)),
        (None, None, _) => None,
    };
    if let Some(precision) = raw.precision {
        judge.given(key, precision);
        judge.number(
            key,
            precision,
            |half| (0.0005..=0.5).contains(&half),
            "must lie between 0.0005 and 0.5",
        );
    }
    match fixed {
        Some(length) => {
            if raw.precision.is_some() {
                judge
                    .notes
                    .push("precision has no effect: the run's length is given".to_string());
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

/// What each of two things allows by itself and both together do not.
fn check_combinations(judge: &mut Judge, spec: &WorkloadSpec) {
    let say = |judge: &mut Judge, key: &str, needs: &str| {
        judge.wrong_help(
            key,
            &format!("needs {needs}"),
            "it is not given",
            "add --num-prompts, or num_prompts in [workload]",
        );
    };
    let is_unlimited = spec.client.max_concurrency.is_none();
    match (&spec.arrivals, spec.num_prompts) {
        (Arrivals::AllAtOnce, None) if is_unlimited => {
            say(
                judge,
                "workload.arrivals",
                "the number of requests when all are sent at once (or a --max-concurrency)",
            );
        }
        (Arrivals::AllAtOnce, Some(count)) if is_unlimited && count > QUEUE_MAX => {
            judge.wrong_help(
                "workload.num_prompts",
                "must be at most 20 million when all are sent at once",
                queue_memory(count),
                "give --max-concurrency 4096 (no engine runs more), a --request-rate, or fewer requests",
            );
        }
        (Arrivals::AllAtOnce, Some(count)) if is_unlimited && count > QUEUE_LARGE => {
            judge.notes.push(format!(
                "{}; a --max-concurrency needs none of it",
                queue_memory(count)
            ));
        }
        (Arrivals::Ramp { .. }, None) => say(
            judge,
            "workload.arrivals.ramp",
            "the number of requests: it ramps over them",
        ),
        (Arrivals::AllAtOnce, _) if !is_unlimited => {
            judge.notes.push("all at once under a concurrency limit is a closed loop: each answer lets the next request in".to_string());
        }
        _ => {}
    }
    let has_rate = matches!(
        spec.arrivals,
        Arrivals::Poisson { .. } | Arrivals::Gamma { .. } | Arrivals::Constant { .. }
    );
    if spec.client.rescale_arrivals && has_rate && spec.num_prompts.is_none() {
        say(
            judge,
            "workload.client.rescale_arrivals",
            "the number of requests: it places the last of them",
        );
    }
    if matches!(
        spec.prefix,
        Prefix::Groups {
            exact_shares: true,
            ..
        }
    ) && spec.num_prompts.is_none()
    {
        say(
            judge,
            "workload.prefix.groups.exact_shares",
            "the number of requests: it divides them",
        );
    }
    if let (Arrivals::Users { .. }, Prefix::Sessions { .. }) = (&spec.arrivals, &spec.prefix) {
        let help = "give a rate at which conversations start, or leave the sessions out";
        judge.wrong_help(
            "workload.prefix.sessions",
            "contradicts users",
            "both decide when the next request follows an answer",
            help,
        );
    }
}

/// The memory of this machine, not of the simulated one.
fn queue_memory(count: u64) -> String {
    let gigabytes = count as f64 * WAITING_BYTES as f64 / 1e9;
    format!("{count} requests wait at once × {WAITING_BYTES} B = {gigabytes:.1} GB of this machine's memory")
}

/// The clock shows 213 days: what must last longer is refused before it starts.
fn check_clock(judge: &mut Judge, spec: &WorkloadSpec) {
    let Some(count) = spec.num_prompts else { return };
    let Some(rate) = mean_rate(&spec.arrivals) else {
        return;
    };
    let seconds = count as f64 / rate;
    let limit = u64::MAX as f64 / PICOS_PER_SECOND as f64;
    // Random gaps and the drain need room, too.
    if seconds > 0.95 * limit {
        let label = format!(
            "{count} requests at {rate} per second take {}",
            long_time(seconds)
        );
        let help = format!(
            "a run can last 213 days: at most {} requests, or a higher rate",
            (0.95 * limit * rate) as u64
        );
        judge.wrong_help(
            "workload.num_prompts",
            "does not fit the simulated clock",
            label,
            help,
        );
    }
}

/// A closed loop paces itself: each request takes a step at least, and its user's think time.
pub(super) fn check_closed_clock(judge: &mut Judge, spec: &WorkloadSpec, shortest_step: Picos) {
    let at_once = match (&spec.arrivals, spec.client.max_concurrency) {
        (Arrivals::Users { users, .. }, _) => *users,
        (Arrivals::AllAtOnce, Some(limit)) => limit,
        _ => return,
    };
    let think = match spec.arrivals {
        Arrivals::Users { think_time, .. } => think_time.seconds(),
        _ => 0.0,
    };
    let Some(count) = spec.num_prompts else { return };
    let each = (shortest_step.seconds() + think) / f64::from(at_once);
    let limit = 0.95 * u64::MAX as f64 / PICOS_PER_SECOND as f64;
    if count as f64 * each > limit {
        let label = format!(
            "{count} requests, {at_once} at a time, take {} or more",
            long_time(count as f64 * each)
        );
        let help = format!(
            "a run can last 213 days: at most {} requests",
            (limit / each) as u64
        );
        judge.wrong_help(
            "workload.num_prompts",
            "does not fit the simulated clock",
            label,
            help,
        );
    }
}

fn long_time(seconds: f64) -> String {
    let days = seconds / 86_400.0;
    if days < 1000.0 {
        format!("{days:.0} days")
    } else {
        format!("{:.0} years", days / 365.25)
    }
}

/// Requests per second in the long run, where traffic alone decides it.
#[must_use]
pub(super) fn mean_rate(arrivals: &Arrivals) -> Option<f64> {
    match arrivals {
        Arrivals::Poisson { request_rate }
        | Arrivals::Gamma { request_rate, .. }
        | Arrivals::Constant { request_rate } => Some(*request_rate),
        Arrivals::Ramp {
            start_rate, end_rate, ..
        } => Some(start_rate.min(*end_rate)),
        Arrivals::Mmpp { states } => {
            let time: f64 = states.iter().map(|state| state.mean_sojourn.seconds()).sum();
            Some(
                states
                    .iter()
                    .map(|state| state.request_rate * state.mean_sojourn.seconds())
                    .sum::<f64>()
                    / time,
            )
        }
        Arrivals::Profile { rates, .. } => Some(rates.iter().sum::<f64>() / rates.len() as f64),
        Arrivals::AllAtOnce | Arrivals::Users { .. } | Arrivals::Replay { .. } => None,
    }
}

/// The longest prompt and the longest output that can occur, shared prefixes included, and the key to blame.
fn longest(spec: &WorkloadSpec) -> (u64, u64, &'static str) {
    let up = |len: u32, ratio: f64| (f64::from(len) * (1.0 + ratio)).ceil() as u64;
    let last = |values: &[f64]| values.last().copied().unwrap_or(1.0).ceil() as u64;
    if let Arrivals::Replay { requests, .. } = &spec.arrivals {
        let most = |len: fn(&Request) -> u32| requests.iter().map(len).max().map_or(1, u64::from);
        return (
            most(|request| request.prompt_tokens),
            most(|request| request.output_tokens),
            "workload.arrivals.trace.path",
        );
    }
    let (input, output, key) = match &spec.lengths {
        Lengths::Fixed {
            input_len,
            output_len,
        } => (
            u64::from(*input_len),
            u64::from(*output_len),
            "workload.lengths.fixed.input_len",
        ),
        Lengths::RandomVllm {
            input_len,
            output_len,
            range_ratio,
        } => (
            up(*input_len, *range_ratio),
            up(*output_len, *range_ratio),
            "workload.lengths.random.input_len",
        ),
        Lengths::RandomSglang {
            input_len,
            output_len,
            ..
        } => (
            u64::from(*input_len),
            u64::from(*output_len),
            "workload.lengths.random_sglang.input_len",
        ),
        Lengths::Lognormal { input, output, .. } => (
            u64::from(input.max),
            u64::from(output.max),
            "workload.lengths.lognormal.input.max",
        ),
        Lengths::Quantiles { input, output, .. } => {
            (last(input), last(output), "workload.lengths.quantiles.input")
        }
        Lengths::Empirical { pairs } => {
            let most = |part: fn(&(u32, u32)) -> u32| pairs.iter().map(part).max().map_or(1, u64::from);
            (
                most(|pair| pair.0),
                most(|pair| pair.1),
                "workload.lengths.file.path",
            )
        }
    };
    let shared = match spec.prefix {
        Prefix::Groups { prefix_len, .. } => u64::from(prefix_len),
        Prefix::Sessions {
            shared_system_len, ..
        } => u64::from(shared_system_len),
        Prefix::None | Prefix::Reuse(_) => 0,
    };
    (input + shared, output, key)
}

/// Prompts must leave room for at least one output token in the engine's context.
pub(super) fn check_context(
    judge: &mut Judge,
    spec: &WorkloadSpec,
    max_model_len: u32,
    model_len: Option<u32>,
) {
    let (prompt, output, key) = longest(spec);
    let context = u64::from(max_model_len);
    if prompt >= context {
        let label = format!("prompts of up to {prompt} tokens, and max_model_len is {context}");
        let needed = prompt + output;
        let help = match model_len {
            Some(most) if u64::from(most) > prompt => format!(
                "write max_model_len = {} or more, or shorter prompts",
                needed.min(u64::from(most))
            ),
            Some(most) => format!(
                "the model allows {most} tokens: at most {} for the prompt",
                most.saturating_sub(1)
            ),
            None => format!("write max_model_len = {needed} or more"),
        };
        judge.wrong_help(key, "does not fit the engine's context", label, help);
    } else if prompt + output > context {
        judge.notes.push(format!(
            "answers are cut where prompt plus output reach max_model_len = {context} (up to {prompt} + {output} tokens are asked for)"
        ));
    }
}

/// The context that a sequence has on average over its decode steps, for kernels that depend on it.
#[must_use]
pub(super) fn typical_context(spec: &WorkloadSpec) -> u32 {
    let mean = |values: &mut dyn Iterator<Item = u32>| {
        let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| {
            (sum + f64::from(value), count + 1)
        });
        sum / count.max(1) as f64
    };
    let trapezoid = |values: &[f64]| {
        values
            .windows(2)
            .map(|pair| (pair[0] + pair[1]) / 2.0)
            .sum::<f64>()
            / (values.len() - 1) as f64
    };
    let lognormal = |length: &LognormalLength| {
        (length.median * (length.sigma * length.sigma / 2.0).exp()).min(f64::from(length.max))
    };
    let (prompt, output) = match (&spec.arrivals, &spec.lengths) {
        (Arrivals::Replay { requests, .. }, _) => (
            mean(&mut requests.iter().map(|request| request.prompt_tokens)),
            mean(&mut requests.iter().map(|request| request.output_tokens)),
        ),
        (
            _,
            Lengths::Fixed {
                input_len,
                output_len,
            }
            | Lengths::RandomVllm {
                input_len,
                output_len,
                ..
            },
        ) => (f64::from(*input_len), f64::from(*output_len)),
        (
            _,
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio,
            },
        ) => {
            let middle = (1.0 + range_ratio) / 2.0;
            (f64::from(*input_len) * middle, f64::from(*output_len) * middle)
        }
        (_, Lengths::Lognormal { input, output, .. }) => (lognormal(input), lognormal(output)),
        (_, Lengths::Quantiles { input, output, .. }) => (trapezoid(input), trapezoid(output)),
        (_, Lengths::Empirical { pairs }) => (
            mean(&mut pairs.iter().map(|pair| pair.0)),
            mean(&mut pairs.iter().map(|pair| pair.1)),
        ),
    };
    let shared = match spec.prefix {
        Prefix::Groups { prefix_len, .. } => f64::from(prefix_len),
        Prefix::Sessions {
            shared_system_len,
            turns,
            ..
        } => f64::from(shared_system_len) + (turns - 1.0) / 2.0 * (prompt + output),
        Prefix::None | Prefix::Reuse(_) => 0.0,
    };
    (prompt + shared + output / 2.0).round().clamp(1.0, 1e9) as u32
}
