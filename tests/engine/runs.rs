//! Requests on an engine, with all that it tells of them; leaps against steps.

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::{EngineSpec, ScheduleRecord};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::sim::{Frontend, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Prompt, Request};
use proptest::prelude::*;

use crate::given::Given;
use crate::sglang_leaps::Told;

/// What steps take where scenarios are drawn.
pub(crate) fn cost() -> LinearCost {
    LinearCost::new(0.006, 2e-5, 1.5e-9)
}

pub(crate) fn micros(micros: u64) -> Picos {
    Picos(micros * 1_000_000)
}

/// A request named by a letter: sent so many tenths of a second after the start, prompt, outputs.
pub(crate) fn request(name: char, at: u64, prompt: u32, outputs: u32) -> Request {
    let id = u64::from(name) - u64::from('A');
    Request {
        id: RequestId(id),
        arrival: Picos::from_seconds(at as f64 / 10.0),
        client_queue_time: Picos::ZERO,
        prompt_tokens: prompt,
        output_tokens: outputs,
        max_tokens: outputs,
        class: 0,
        priority: 0,
        prompt: Prompt::Unique,
        output_segment: SegmentId(100 + id),
        session: None,
        ignore_eos: false,
        deadline: None,
    }
}

/// Serves the requests; `cost` prices steps.
pub(crate) fn run(
    engine: impl Into<EngineSpec>,
    requests: &[Request],
    cost: LinearCost,
    stepwise: bool,
    logs: bool,
) -> (Vec<ScheduleRecord>, Told) {
    let traffic = Given(Vec::from(requests).into_iter());
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let mut simulation = make(engine, Box::new(cost), Frontend::default(), traffic);
    if logs {
        simulation = simulation.logging();
    }
    let mut told = Told::default();
    told.drained = simulation.advance(Until::DRAINED, &mut told) == Pause::Drained;
    (simulation.take_log(), told)
}

/// Equal steps, told one by one.
pub(crate) fn same_steps(got: &[ScheduleRecord], expected: &[ScheduleRecord]) -> Result<(), TestCaseError> {
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        prop_assert_eq!(got, expected, "step {}", at);
    }
    prop_assert_eq!(got.len(), expected.len());
    Ok(())
}

/// Leaps and steps agree, with a log and without; what was told.
pub(crate) fn leaps(
    engine: impl Into<EngineSpec> + Clone,
    requests: &[Request],
) -> Result<Told, TestCaseError> {
    let (log, told) = run(engine.clone(), requests, cost(), false, true);
    let (expected_log, expected) = run(engine.clone(), requests, cost(), true, true);
    same_steps(&log, &expected_log)?;
    prop_assert_eq!(&told, &expected);
    let (_, unlogged) = run(engine, requests, cost(), false, false);
    prop_assert_eq!(&unlogged, &expected);
    Ok(told)
}
