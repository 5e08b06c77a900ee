//! The core as one function: a scenario and its seed in, a judged result out.
//!
//! No input or output, no clock: the caller may be asked now and then whether to go on, and is told how far the run is.

use super::{Decision, Load, LoadKind, Precision, RunResult, decide, judge};
use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use crate::sim::{Counts, Fact, Observer, Pause, Scenario, Simulation, Until};
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
    /// Tokens whose cached KV was evicted, over the whole run.
    pub evicted_tokens: u64,
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
pub fn simulate(scenario: &Scenario, experiment: &Experiment, go_on: impl FnMut(u64) -> bool) -> Outcome {
    simulate_watched(scenario, experiment, &mut Nobody, go_on)
}

/// Simulates a scenario while somebody else looks on, too.
pub fn simulate_watched(
    scenario: &Scenario,
    experiment: &Experiment,
    watcher: &mut impl Observer,
    go_on: impl FnMut(u64) -> bool,
) -> Outcome {
    let traffic = Generator::new(&scenario.workload, scenario.seed);
    let cluster = &scenario.cluster;
    let costs = (0..cluster.replicas).map(|_| (scenario.cost)()).collect();
    let (engine, frontend) = (&scenario.engine, scenario.frontend);
    let mut simulation = Simulation::of_cluster(engine, costs, cluster, scenario.seed, frontend, traffic);
    if let Some(law) = scenario.jitter {
        simulation = simulation.disturbed(law, scenario.seed);
    }
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet {
            replicas: cluster.replicas,
            kv_blocks: simulation.total_blocks(),
            block_size: scenario.engine.block_size(),
        },
        slo: experiment.slo,
        records: experiment.records,
    });
    let kind = LoadKind::of_scenario(scenario);
    let mut seen = Both {
        recorder: &mut recorder,
        watcher,
    };
    let end = advance(&mut simulation, &mut seen, experiment, kind, go_on);
    let load = load(kind, &simulation);
    let seen = recorder.finish(simulation.now());
    let mut result = judge(seen, load, &experiment.precision);
    result.reasons.extend(gave_up(&result, experiment));
    Outcome {
        result,
        counts: simulation.counts(),
        evicted_tokens: simulation.evicted_tokens(),
        is_interrupted: end == End::Interrupted,
        is_livelocked: end == End::Livelocked,
        clock_ended: simulation.traffic().clock_exhausted(),
    }
}

/// Sees nothing.
struct Nobody;

impl Observer for Nobody {
    #[inline(always)]
    fn observe(&mut self, _fact: &Fact<'_>) {}
}

/// Two who see the same.
struct Both<'a, O> {
    recorder: &'a mut Recorder,
    watcher: &'a mut O,
}

impl<O: Observer> Observer for Both<'_, O> {
    #[inline(always)]
    fn observe(&mut self, fact: &Fact<'_>) {
        self.recorder.observe(fact);
        self.watcher.observe(fact);
    }
}

/// Why a run came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The traffic ended, or the precision was reached.
    Regular,
    /// The caller had enough.
    Interrupted,
    /// Sequences preempt each other for ever.
    Livelocked,
}

/// Simulates until the traffic ends, the caller stops it or the precision is reached.
fn advance(
    simulation: &mut Simulation<Generator>,
    seen: &mut Both<'_, impl Observer>,
    experiment: &Experiment,
    kind: LoadKind,
    mut go_on: impl FnMut(u64) -> bool,
) -> End {
    let mut target = match experiment.stops_when_precise {
        true => experiment.precision.min_requests,
        false => u64::MAX,
    };
    loop {
        let until = Until {
            ended: target.min(simulation.counts().ended + STRIDE),
            time: Picos::MAX,
        };
        match simulation.advance(until, seen) {
            Pause::Drained => return End::Regular,
            Pause::Livelock => return End::Livelocked,
            _ => {}
        }
        let ended = simulation.counts().ended;
        if !go_on(ended) {
            return End::Interrupted;
        }
        if ended >= target {
            match decide(seen.recorder, load(kind, simulation), &experiment.precision) {
                Decision::Continue(more) => target = ended + more,
                Decision::Stop(_) => return End::Regular,
            }
        }
    }
}

fn load(kind: LoadKind, simulation: &Simulation<Generator>) -> Load {
    Load {
        kind,
        output_tokens: simulation.traffic().mean_output_tokens(),
    }
}

/// What to say of a run that reached its longest length before its precision.
fn gave_up(result: &RunResult, experiment: &Experiment) -> Option<String> {
    let Precision {
        relative,
        max_requests,
        ..
    } = experiment.precision;
    let is_longest = result.whole.sent >= max_requests && result.steady.is_some();
    (experiment.stops_when_precise && is_longest).then(|| {
        format!(
            "{max_requests} requests did not bring every mean latency within {} %; give --num-prompts for more",
            relative * 100.0
        )
    })
}
