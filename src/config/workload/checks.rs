//! What each of two parts of the traffic allows by itself and both together do not, or the clock or the engine does not.

use super::sizes::{by_class, longest, slowest_start_rate};
use crate::analysis::IN_FLIGHT_BYTES;
use crate::config::judge::Judge;
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::{Arrivals, Prefix, WorkloadSpec};

/// Requests that may wait in the server at once before this machine's memory, not physics, decides: 10 GB.
const QUEUE_MAX: u64 = 20_000_000;
/// Requests at once whose memory is worth a note: 1 GB.
const QUEUE_LARGE: u64 = 2_000_000;

/// What each of two things allows by itself and both together do not.
/// `need` says how one gives the number of requests.
pub(super) fn check_combinations(judge: &mut Judge, spec: &WorkloadSpec, need: &str) {
    check_all_at_once(judge, spec, need);
    check_count(judge, spec, need);
    if let (Arrivals::Users { .. }, Prefix::Sessions { .. }) = (&spec.arrivals, &spec.prefix) {
        judge.wrong_help(
            "workload.prefix.sessions",
            "contradicts users",
            "both decide when the next request follows an answer",
            "give a rate at which conversations start, or leave the sessions out",
        );
    }
}

/// What is sent all at once waits in memory, unless a limit lets it in one by one.
fn check_all_at_once(judge: &mut Judge, spec: &WorkloadSpec, need: &str) {
    if !matches!(spec.arrivals, Arrivals::AllAtOnce) {
        return;
    }
    if spec.client.max_concurrency.is_some() {
        judge.notes.push(
            "all at once under a concurrency limit is a closed loop: each answer lets the next request in"
                .to_string(),
        );
        return;
    }
    match spec.num_prompts {
        None => need_count(
            judge,
            "workload.arrivals",
            "the number of requests when all are sent at once (or a --max-concurrency)",
            need,
        ),
        Some(count) if count > QUEUE_MAX => judge.wrong_help(
            "workload.num_prompts",
            "must be at most 20 million when all are sent at once",
            queue_memory(count),
            "give --max-concurrency 4096 (no engine runs more), a --request-rate, or fewer requests",
        ),
        Some(count) if count > QUEUE_LARGE => judge.notes.push(format!(
            "{}; a --max-concurrency needs none of it",
            queue_memory(count)
        )),
        Some(_) => {}
    }
}

/// What divides or places requests by their number needs it.
fn check_count(judge: &mut Judge, spec: &WorkloadSpec, need: &str) {
    if spec.num_prompts.is_some() {
        return;
    }
    if matches!(spec.arrivals, Arrivals::Ramp { .. }) {
        need_count(
            judge,
            "workload.arrivals.ramp",
            "the number of requests: it ramps over them",
            need,
        );
    }
    let has_rate = matches!(
        spec.arrivals,
        Arrivals::Poisson { .. } | Arrivals::Gamma { .. } | Arrivals::Constant { .. }
    );
    if spec.client.rescale_arrivals && has_rate {
        need_count(
            judge,
            "workload.client.rescale_arrivals",
            "the number of requests: it places the last of them",
            need,
        );
    }
    if matches!(
        spec.prefix,
        Prefix::Groups {
            exact_shares: true,
            ..
        }
    ) {
        need_count(
            judge,
            "workload.prefix.groups.exact_shares",
            "the number of requests: it divides them",
            need,
        );
    }
}

fn need_count(judge: &mut Judge, key: &str, needs: &str, help: &str) {
    judge.wrong_help(key, &format!("needs {needs}"), "it is not given", help);
}

/// The memory of this machine, not of the simulated one.
fn queue_memory(count: u64) -> String {
    let gigabytes = count as f64 * IN_FLIGHT_BYTES as f64 / 1e9;
    format!(
        "{count} requests wait at once × {IN_FLIGHT_BYTES} B = {gigabytes:.1} GB of this machine's memory"
    )
}

/// The clock shows 213 days: what must last longer is refused before it starts.
pub(super) fn check_clock(judge: &mut Judge, spec: &WorkloadSpec) {
    let Some(count) = spec.num_prompts else { return };
    let Some(rate) = slowest_start_rate(&spec.arrivals) else {
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
        let help = match (0.95 * limit * rate) as u64 {
            0 => "a run can last 213 days, in which no request would come: give a higher rate".to_owned(),
            most => format!("a run can last 213 days: at most {most} requests, or a higher rate"),
        };
        judge.wrong_help(
            "workload.num_prompts",
            "does not fit the simulated clock",
            label,
            help,
        );
    }
}

/// A closed loop paces itself: each request takes a step at least, and its user's think time.
pub(in crate::config) fn check_closed_clock(judge: &mut Judge, spec: &WorkloadSpec, shortest_step: Picos) {
    if !matches!(spec.arrivals, Arrivals::Superposed { .. }) {
        return check_closed_client(judge, spec, "workload.num_prompts", shortest_step);
    }
    for (class, alone) in by_class(spec) {
        let key = class.map_or(String::new(), |class| {
            format!("workload.classes.{class}.num_prompts")
        });
        check_closed_client(judge, &alone, &key, shortest_step);
    }
}

fn check_closed_client(judge: &mut Judge, spec: &WorkloadSpec, key: &str, shortest_step: Picos) {
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
        judge.wrong_help(key, "does not fit the simulated clock", label, help);
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

/// Prompts that the server refuses one by one, where there may be any.
pub(in crate::config) fn note_refused(
    judge: &mut Judge,
    spec: &WorkloadSpec,
    (key, limit): (&str, u32),
    most_prompt: u32,
) {
    let prompt = longest(spec).0.min(u64::from(most_prompt));
    if prompt <= u64::from(limit) || judge.is_wrong(&[key]) {
        return;
    }
    let name = key.rsplit('.').next().unwrap_or(key);
    judge.notes.push(format!(
        "prompts of more than {name} = {limit} tokens are refused, as the server does without chunked prefill (up to {prompt} are \
         asked for): --enable-chunked-prefill takes them, or a larger {name}"
    ));
}
