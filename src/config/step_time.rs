//! `--step-time "6ms + 20us/token + 1.5ns/pair"`: an ideal server, whose steps last what is said.
//!
//! Laws of queueing know a service time and no GPU. With a constant step and one sequence at a time a server is M/D/1 or M/G/1, with a
//! time for each token alone it shares its processor. GPU and model decide the memory, and nothing else; front ends take no time.
//!
//! Law: that of recorded schedules, [`LinearCost`].

use std::sync::Arc;

use super::judge::Judge;
use super::raw::RawScenario;
use crate::cost::linear::LinearCost;
use crate::quantity::parse_duration;
use crate::sim::CostFactory;
use crate::units::Picos;

const KEY: &str = "cluster.step_time";
/// Steps that take no time would never end; a longer one is none.
const STEP_MAX: Picos = Picos(86_400 * crate::units::PICOS_PER_SECOND);

/// How long the steps of an ideal server last.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    /// As it was written.
    pub law: String,
    cost: LinearCost,
}

/// What an ideal server cannot have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beside {
    pub(super) pipeline: bool,
    pub(super) lock_step: bool,
    pub(super) drafts: bool,
}

/// The law that is asked for; `None` where none is, or it was reported.
pub(super) fn step_time(judge: &mut Judge, raw: &RawScenario, beside: Beside) -> Option<StepTime> {
    let text = raw.cluster.step_time.as_ref()?;
    judge.given(KEY, text);
    let clashes = [
        (raw.cluster.calibration.is_some(), "--calibration says so, too"),
        (beside.pipeline, "stages of a pipeline have a time each"),
        (beside.lock_step, "ranks that share experts have a time together"),
        (beside.drafts, "what drafts take is not in it"),
    ];
    for (_, why) in clashes.iter().filter(|(is_so, _)| *is_so) {
        let help = "leave out the one or the other";
        judge.wrong_help(KEY, "says how long a step of an ideal server lasts", *why, help);
    }
    match parse(text) {
        Ok(cost) if clashes.iter().all(|(is_so, _)| !is_so) => {
            judge.notes.push(format!(
                "an ideal server: a step lasts {text}, and front ends take no time; GPU and model decide the memory, and nothing else"
            ));
            Some(StepTime {
                law: text.clone(),
                cost,
            })
        }
        Ok(_) => None,
        Err(problem) => {
            let help = "write it like \"100ms\" for a constant step, or \"6ms + 20us/token + 1.5ns/pair\": for each step, for each \
                        token in it, for each pair of a token and one that it attends to";
            judge.wrong_help(KEY, "is no law of step times", problem, help);
            None
        }
    }
}

impl StepTime {
    /// How long steps last.
    #[must_use]
    pub fn cost(&self) -> LinearCost {
        self.cost
    }

    /// Makes the cost of one replica.
    pub(super) fn factory(&self) -> CostFactory {
        let cost = self.cost;
        Arc::new(move || Box::new(cost))
    }
}

fn parse(text: &str) -> Result<LinearCost, String> {
    let mut terms: [Option<Picos>; 3] = [None; 3];
    for part in text.split('+').map(str::trim) {
        let (time, unit) = part.split_once('/').unwrap_or((part, "step"));
        let index = match unit.trim() {
            "step" => 0,
            "token" => 1,
            "pair" => 2,
            other => return Err(format!("there is no `/{other}`: /step, /token and /pair are")),
        };
        let time = parse_duration(time.trim()).map_err(|error| error.to_string())?;
        if time > STEP_MAX {
            return Err(format!("`{part}` must be at most a day"));
        }
        if terms[index].replace(time).is_some() {
            return Err(format!("two terms are for each {unit}"));
        }
    }
    let [step, token, pair] = terms.map(Option::unwrap_or_default);
    if step + token == Picos::ZERO {
        return Err("a step takes no time without a term for each step or for each token".to_owned());
    }
    Ok(LinearCost::new(step.seconds(), token.seconds(), pair.seconds()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{StepCost, StepLoad};

    #[test]
    fn terms_are_for_a_step_a_token_and_a_pair() {
        let mut cost = parse("1.5ns/pair + 6 ms+20us/token").unwrap();
        let load = StepLoad {
            decode_seqs: 2,
            decode_kv_tokens: 100,
            ..StepLoad::default()
        };
        assert_eq!(cost.step(&load), LinearCost::new(6e-3, 2e-5, 1.5e-9).step(&load));
        assert_eq!(parse("100ms").unwrap().step(&load), Picos::from_seconds(0.1));
        for wrong in [
            "",
            "6",
            "6ms + 7ms",
            "6ms/batch",
            "1ns/pair",
            "0ms",
            "-1ms",
            "2d",
            "6ms 20us/token",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
