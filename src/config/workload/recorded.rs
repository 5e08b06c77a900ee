//! A trace whose turns wait for answers: its conversations, and when they begin.
//!
//! The file says who waits for whom, not when conversations begin. Either they begin at random at a given rate, or so many are under
//! way at all times: as one ends, the next begins.

use std::sync::Arc;

use super::arrivals::Senders;
use crate::config::judge::Judge;
use crate::config::raw::RawTrace;
use crate::units::Picos;
use crate::workload::trace::Trace;
use crate::workload::{Arrivals, Recording};

/// Key of a trace's setting.
fn key(name: &str) -> String {
    format!("workload.arrivals.trace.{name}")
}

/// What belongs to conversations and means nothing beside instants.
pub(super) fn refuse_beside_instants(judge: &mut Judge, raw: &RawTrace, trace: &Trace) {
    let given = [
        ("users", raw.users.is_some()),
        ("max_think_time", raw.max_think_time.is_some()),
    ];
    for (name, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let label = format!("requests of a {} come at their own instants", trace.format);
        let help = "leave it out; a trace of conversations whose turns wait for answers, as kv-cache-tester's, has it";
        judge.wrong_help(&key(name), "has no meaning for this trace", label, help);
    }
}

/// Its conversations, and what begins them; `None` was reported.
pub(super) fn conversations(judge: &mut Judge, raw: &RawTrace, trace: Trace) -> Option<Senders> {
    let before = judge.problems.len();
    let given = [
        ("time_scale", raw.time_scale.is_some()),
        ("spread_ticks", raw.spread_ticks.is_some()),
        ("hash_space", raw.hash_space.is_some()),
    ];
    for (name, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let label = format!(
            "turns of {} follow answers, and their texts are their own",
            trace.format
        );
        judge.wrong_help(&key(name), "has no meaning for this trace", label, "leave it out");
    }
    let arrivals = begin(judge, raw, &trace);
    let mut plan = trace.conversations?;
    if let Some(text) = &raw.max_think_time {
        let most = judge.duration(&key("max_think_time"), text, true)?;
        let mut cut = 0_u64;
        for turn in plan.turns.iter_mut().filter(|turn| turn.think_time > most) {
            turn.think_time = most;
            cut += 1;
        }
        let turns = plan.turns.len();
        judge.notes.push(format!(
            "{cut} of {turns} turns were sent later than {} s after the answers they wait for, and are now sent then (max_think_time)",
            most.seconds()
        ));
    }
    let arrivals = arrivals.filter(|_| judge.problems.len() == before)?;
    Some(Senders {
        recording: Some(Arc::new(Recording::new(trace.requests, &plan))),
        ..Senders::from(arrivals)
    })
}

/// When conversations begin; `None` was reported.
fn begin(judge: &mut Judge, raw: &RawTrace, trace: &Trace) -> Option<Arrivals> {
    match (raw.users, raw.request_rate) {
        (Some(users), None) => Some(Arrivals::Users {
            users: judge.required(&key("users"), users, (1, 1 << 24)),
            think_time: Picos::ZERO,
        }),
        (None, Some(rate)) => Some(Arrivals::Poisson {
            request_rate: judge.rate(&key("request_rate"), rate)?,
        }),
        (Some(_), Some(_)) => {
            let help = "keep one: users are so many conversations under way at all times, request_rate is how many begin per second";
            judge.wrong_help(
                &key("request_rate"),
                "contradicts users",
                "both say when conversations begin",
                help,
            );
            None
        }
        (None, None) => {
            let label = format!("in {} turns wait for answers", trace.format);
            let help = "--users 8 has 8 conversations under way, each of which is followed by the next of the file; --request-rate 0.1 begins one \
                        every 10 s on average, at random";
            judge.wrong_help(&key("path"), "does not say when conversations begin", label, help);
            None
        }
    }
}
