//! Small scenarios in short lines: requests are letters, every step takes one second.

use std::fmt::Write as _;

use crate::equality::{Law, agree};
use crate::twin::{TwinConfig, TwinRequest, TwinRun};

/// Duration of every step.
pub(crate) const SECOND: u64 = 1_000_000_000_000;

/// A request named by a letter, arriving at time 0, whose prompt nobody shares.
pub(crate) fn request(name: char, prompt: u32, outputs: u32) -> TwinRequest {
    let id = u64::from(name) - u64::from('A');
    TwinRequest {
        id,
        arrival_ps: 0,
        prompt: vec![(id, 0, prompt)],
        output_tokens: outputs,
        output_segment: id,
        ends_by_eos: false,
        priority: 0,
        abort_at: None,
        accepted: Vec::new(),
        proposed: None,
    }
}

/// Serves the requests with steps of one second, on the twin and on the engine, which must agree. Every sequence is visited in
/// every step.
pub(crate) fn serve(config: &TwinConfig, requests: &[TwinRequest]) -> TwinRun {
    serve_on(config, requests, true)
}

/// The same where the engine packs those who decode, and leaps.
pub(crate) fn serve_packed(config: &TwinConfig, requests: &[TwinRequest]) -> TwinRun {
    serve_on(config, requests, false)
}

fn serve_on(config: &TwinConfig, requests: &[TwinRequest], stepwise: bool) -> TwinRun {
    let law = Law {
        per_step: SECOND,
        per_token: 0,
        per_pair: 0,
        reads_at_most: None,
    };
    agree("trace", config, requests, law, stepwise)
}

/// One line per step, `A1 B9 !C -> A2. B1`: A gets 1 token and B 9, C is preempted; when the step ends A emits
/// its second token, which is its last, and B its first.
pub(crate) fn trace(run: &TwinRun) -> Vec<String> {
    run.steps.iter().map(|step| line(run, step)).collect()
}

/// Runs a scenario and compares its trace.
pub(crate) fn check(config: &TwinConfig, requests: &[TwinRequest], expected: &[&str]) -> TwinRun {
    let run = serve(config, requests);
    assert_eq!(trace(&run), expected);
    run
}

fn line(run: &TwinRun, step: &crate::twin::TwinStep) -> String {
    let mut line = String::new();
    for &(id, _, n) in &step.scheduled {
        write!(line, "{}{n} ", letter(id)).unwrap();
    }
    for &id in &step.preempted {
        write!(line, "!{} ", letter(id)).unwrap();
    }
    line.push_str("->");
    let end_ps = step.gpu_start_ps + step.duration_ps;
    for &(id, _, _) in &step.scheduled {
        let outcome = run.outcomes.iter().find(|outcome| outcome.id == id).unwrap();
        let times = &outcome.token_times_ps;
        if let Some(token) = times.iter().position(|&time_ps| time_ps == end_ps) {
            let last = if token + 1 == times.len() { "." } else { "" };
            write!(line, " {}{}{last}", letter(id), token + 1).unwrap();
        }
    }
    line
}

fn letter(id: u64) -> char {
    char::from(b'A' + u8::try_from(id).unwrap())
}
