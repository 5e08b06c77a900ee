//! The core as one function: a scenario and its seed in, a judged result out.
//!
//! No input or output, no clock: the caller may be asked now and then whether to go on, and is told how far the run is.

use super::{Decision, Load, LoadKind, Precision, RunResult, decide, judge};
use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use crate::sim::{Counts, Pause, Scenario, Simulation, Until};
use crate::units::Picos;
use crate::workload::Generator;

/// How to observe a run, and how long to let it go on.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Goodput limits.
    pub slo: SloLimits,
    /// Per-request records.
    pub records: Records,
    /// What the judgement asks for.
    pub precision: Precision,
    /// Stop as soon as the precision is reached; else the traffic ends the run.
    pub stops_when_precise: bool,
}

/// A run and what became of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The judged result.
    pub result: RunResult,
    /// Requests by how far they got, refused ones by reason.
    pub counts: Counts,
    /// The caller asked to stop: the result covers only what was simulated until then.
    pub is_interrupted: bool,
    /// Sequences preempted each other for ever, and the run was ended there.
    pub is_livelocked: bool,
    /// The 213 days of the clock ended before the traffic did.
    pub clock_ended: bool,
}

/// Requests between two questions to the caller.
const STRIDE: u64 = 1 << 16;

/// Simulates a scenario. `go_on` is told the number of requests that have ended and may stop the run.
pub fn simulate(scenario: &Scenario, experiment: &Experiment, mut go_on: impl FnMut(u64) -> bool) -> Outcome {
    let traffic = Generator::new(&scenario.workload, scenario.seed);
    let cost = (scenario.cost)();
    let mut simulation = Simulation::new(scenario.engine.clone(), cost, scenario.frontend, traffic);
    let fleet = Fleet {
        replicas: scenario.replicas,
        kv_blocks: simulation.total_blocks(),
        block_size: scenario.engine.block_size,
    };
    let options = RecorderOptions {
        fleet,
        slo: experiment.slo,
        records: experiment.records,
    };
    let mut recorder = Recorder::new(options);
    let kind = LoadKind::of(&scenario.workload);
    let mut target = if experiment.stops_when_precise {
        experiment.precision.min_requests
    } else {
        u64::MAX
    };
    let load = |simulation: &Simulation<Generator>| Load {
        kind,
        output_tokens: simulation.traffic().mean_output_tokens(),
    };
    let (mut is_interrupted, mut is_livelocked) = (false, false);
    loop {
        let ended = simulation.counts().ended;
        let until = Until {
            ended: target.min(ended + STRIDE),
            time: Picos::MAX,
        };
        let pause = simulation.advance(until, &mut recorder);
        let ended = simulation.counts().ended;
        if matches!(pause, Pause::Drained | Pause::Livelock) {
            is_livelocked = pause == Pause::Livelock;
            break;
        }
        if !go_on(ended) {
            is_interrupted = true;
            break;
        }
        if ended >= target {
            match decide(&recorder, load(&simulation), &experiment.precision) {
                Decision::Continue(more) => target = ended + more,
                Decision::Stop(_) => break,
            }
        }
    }
    let load = load(&simulation);
    let seen = recorder.finish(simulation.now());
    let mut result = judge(seen, load, &experiment.precision);
    let Precision {
        relative,
        max_requests,
        ..
    } = experiment.precision;
    if experiment.stops_when_precise && result.whole.sent >= max_requests && result.steady.is_some() {
        result.reasons.push(format!(
            "{max_requests} requests did not bring every mean latency within {} %; give --num-prompts for more",
            relative * 100.0
        ));
    }
    Outcome {
        result,
        counts: simulation.counts(),
        is_interrupted,
        is_livelocked,
        clock_ended: simulation.traffic().clock_exhausted(),
    }
}
