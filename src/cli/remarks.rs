//! What must be said beside a run's result: who was turned away and why, what came too late, and where what is not
//! modelled may decide.

use super::failures;
use super::fronts;
use super::in_step::in_step;
use super::theory;
use super::what_if::{WhatIf, answered_per_s};
use crate::analysis::{IN_FLIGHT_MAX, Outcome, RefusedAgain};
use crate::config::Resolved;
use crate::engine::EngineSpec;
use crate::engine::scheduled::SchedulerChoice;
use crate::report::figures::{percent, significant, time};
use crate::report::{self, EngineWords, counted};
use crate::sim::{Counts, Refusals};
use crate::workload::{Arrivals, mean_rate};

/// Everything, in the order in which it matters.
pub(super) fn of_run(resolved: &Resolved, outcome: &Outcome) -> Vec<String> {
    let words = EngineWords::of(&resolved.scenario.first_pool().engine);
    let mut remarks = of_counts(outcome, words, &resolved.scenario.first_pool().engine);
    remarks.extend(without_effect(resolved, outcome));
    remarks.extend(failures::of_run(resolved, outcome));
    remarks.extend(held_back(resolved, outcome));
    remarks.extend(in_step(resolved, outcome));
    remarks.extend(few_gaps(resolved, outcome));
    remarks.extend(half_batch(resolved, outcome));
    remarks.extend(fronts::of_run(resolved, outcome));
    remarks.extend(no_latency(outcome));
    remarks.extend(theory::of_run(resolved, outcome));
    remarks
}

/// Requests that pile up at their client, which holds them back: the rate that was meant is not that of the run, and the wait is in
/// no latency.
fn held_back(resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    /// Of the rate that was meant, as chance in a short run leaves it.
    const MOST: f64 = 0.8;
    /// Of what is pushed, from which on it is the limit that costs it, and not the server.
    const MORE: f64 = 1.1;
    /// Of a stay, from which on the wait at the client is worth a word.
    const WAITS: f64 = 0.25;
    let workload = &resolved.scenario.workload;
    let most = workload.client.max_concurrency?;
    let meant = mean_rate(workload)?;
    let whole = &outcome.result.whole;
    let (wait_s, stay_s) = (whole.client_queue_time.mean_s()?, whole.e2el.mean_s()?);
    let pushed = answered_per_s(whole);
    if wait_s < WAITS * stay_s || pushed >= MOST * meant {
        return None;
    }
    let WhatIf { as_is, changed } = WhatIf::of(&resolved.scenario, whole.sent, |workload| {
        workload.client.max_concurrency = None;
    })?;
    let (limited, free) = (answered_per_s(&as_is), answered_per_s(&changed));
    let waits = format!(
        "of the {} req/s that were meant, and a request waits {} there on average, in no latency",
        significant(meant),
        time(wait_s)
    );
    Some(match free > MORE * limited {
        true => format!(
            "the client is the limit: with {most} in flight it pushes {} {waits}; without --max-concurrency the server answers {} req/s",
            significant(pushed),
            significant(free)
        ),
        false => format!(
            "the client hides that the server is full: with {most} in flight it pushes {} {waits}; without --max-concurrency the server \
             answers no more ({} req/s), and they would wait in it",
            significant(pushed),
            significant(free)
        ),
    })
}

/// Keys of vLLM's that are 0 and no time.
fn no_latency(outcome: &Outcome) -> Option<String> {
    let is_nobody = outcome.result.whole.completed == 0 && !outcome.is_interrupted;
    is_nobody.then(|| {
        "no request was answered: in JSON and CSV vLLM's keys of latencies are 0, as its client writes them, and are no times"
            .to_owned()
    })
}

/// What ended a run before its traffic did.
pub(super) fn ended_by(outcome: &Outcome) -> Option<&'static str> {
    let ends = [
        ("livelock", outcome.is_livelocked),
        ("overfull", outcome.is_overfull),
        ("clock", outcome.clock_ended),
    ];
    ends.into_iter().find(|(_, is_so)| *is_so).map(|(end, _)| end)
}

/// Gaps that a run must have for its rate to be near the one asked for: n gaps of shape k last n/λ within 1/√(n·k).
const GAPS_ENOUGH: f64 = 16.0;

/// Arrivals so bursty that the run saw a few bursts: what came is not the rate that was asked for.
fn few_gaps(resolved: &Resolved, outcome: &Outcome) -> Option<String> {
    let (Arrivals::Gamma { burstiness, .. } | Arrivals::Profile { burstiness, .. }) =
        &resolved.scenario.workload.arrivals
    else {
        return None;
    };
    let sent = outcome.result.whole.sent;
    let gaps = sent as f64 * burstiness;
    (*burstiness < 1.0 && sent > 0 && gaps < GAPS_ENOUGH).then(|| {
        format!(
            "{} whose gaps have shape {burstiness} are as uneven as {} at random: the rate that came may be far from the one \
             asked for; {} would do",
            counted(sent, "request"),
            report::figures::significant(gaps),
            counted((GAPS_ENOUGH / burstiness).ceil() as u64, "request")
        )
    })
}

/// Events that changed nothing: they were to come after the run's end, or found the replica as they would have it.
fn without_effect(resolved: &Resolved, outcome: &Outcome) -> Vec<String> {
    let end_s = outcome.result.whole.duration_s;
    let changes = resolved.scenario.cluster.changes.iter();
    let late = changes.filter(|change| change.at.seconds() > end_s).count() as u64;
    let mut notes = Vec::new();
    if late > 0 && !outcome.is_interrupted {
        notes.push(format!(
            "{} without effect: the run had ended by then, after {}",
            counted(late, "cluster event"),
            time(end_s)
        ));
    }
    if outcome.changes_without_effect > 0 {
        notes.push(format!(
            "{} without effect: the replica was already so, or was off",
            counted(outcome.changes_without_effect, "cluster event")
        ));
    }
    notes
}

/// The last requests of a static server that fill no batch: nobody comes to fill it, and they wait for its time to run out.
/// Told where all batches before were full, so that their number tells how many were left.
fn half_batch(resolved: &Resolved, outcome: &Outcome) -> Vec<String> {
    let [pool] = resolved.scenario.pools.as_slice() else {
        return Vec::new();
    };
    let EngineSpec::Scheduled(engine) = &pool.engine else {
        return Vec::new();
    };
    let SchedulerChoice::Static(rows) = &engine.scheduler else {
        return Vec::new();
    };
    let whole = &outcome.result.whole;
    let waited_s = rows.batch_timeout.seconds();
    // The prompts of a batch are one step.
    let batches = whole.work.steps - whole.work.decode_only_steps;
    let rows_max = u64::from(rows.batch_size);
    let before = rows_max * batches.saturating_sub(1);
    let last = whole.completed.saturating_sub(before);
    let fills_none = last > 0 && last < rows_max && whole.lost() == 0;
    if outcome.is_interrupted || pool.replicas > 1 || !fills_none || waited_s < LONG_WAIT * whole.duration_s {
        return Vec::new();
    }
    let steady = match &outcome.result.steady {
        Some(_) => "; the steady state leaves them out",
        None => "",
    };
    vec![format!(
        "the last {} filled no batch and waited {} for others that never came (batch_timeout), which is {} of the run{steady}",
        counted(last, "request"),
        time(waited_s),
        percent((waited_s / whole.duration_s).min(1.0))
    )]
}

/// Share of a run from which a wait for nobody is worth a word.
const LONG_WAIT: f64 = 0.1;

/// Who was turned away and why, and what ended the run.
fn of_counts(outcome: &Outcome, words: EngineWords, engine: &EngineSpec) -> Vec<String> {
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
    remarks.extend(outcome.refused_again.map(refused_again));
    if outcome.is_livelocked && !outcome.refused_again.is_some_and(|again| again.ended_the_run) {
        remarks.push(
            "livelock: no running request can make progress, as in the real engine, so the run was stopped. Use a larger KV pool \
             or fewer concurrent sequences."
                .to_owned()
                + stuck(engine),
        );
    }
    if outcome.is_overfull {
        remarks.push(format!(
            "ended early, at {IN_FLIGHT_MAX} requests inside at once: what is asked for by the traffic's rate is far more than \
             is served. A lower --request-rate (`plimsoll knee` finds the highest), --max-concurrency, or at most \
             {IN_FLIGHT_MAX} requests by --num-prompts or a shorter --duration needs less memory"
        ));
    }
    if outcome.clock_ended {
        remarks.push("the clock of 213 days ended before the traffic did".to_owned());
    }
    remarks
}

/// What keeps an engine of this kind from going on.
fn stuck(engine: &EngineSpec) -> &'static str {
    match engine {
        EngineSpec::Vllm(_) => {
            " Sequences of equal priority and arrival preempt each other, or requests whose KV was loaded hold the blocks that the one \
             before them lacks."
        }
        EngineSpec::Sglang(_) => " A lone request cannot grow, of which SGLang 0.5.4 dies.",
        EngineSpec::Trtllm(_) => "",
        EngineSpec::Scheduled(config) => match config.scheduler {
            SchedulerChoice::VllmV0(_) => {
                " There is no room in the host's memory to swap out to, or by priority somebody is preempted who has just ended, of \
                 which vLLM 0.6.6 dies."
            }
            SchedulerChoice::HfContinuous(_) => " The KV cache is full, and Transformers never frees it.",
            SchedulerChoice::Static(_) | SchedulerChoice::Own(_) => "",
        },
    }
}

/// A closed loop that was refused and sent again, at one instant.
fn refused_again(again: RefusedAgain) -> String {
    let Refusals { at, count } = again.refusals;
    let refused = format!(
        "{} at one instant, {}: a closed loop sends its next as soon as one is refused, as `vllm bench serve` does",
        counted(count, "refused request"),
        time(at.seconds())
    );
    let instead =
        "[cluster.retries] (with on_refusal and a backoff), a think_time, or fewer clients than are let in";
    match again.ended_the_run {
        true => format!(
            "livelock: {refused}, and no time passes in which anybody could be let in; the run was ended there. What lets it go on: \
             {instead}"
        ),
        false => format!(
            "{refused}. They say how many it had left to send, and not which share of requests the server turns away; other clients \
             wait: {instead}"
        ),
    }
}
