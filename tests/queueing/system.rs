//! Puts an engine, a step time and traffic together, and compares what comes out.

use plimsoll::analysis::{LoadKind, Precision, RunResult, judge};
use plimsoll::cluster::ClusterSpec;
use plimsoll::cost::constant::ConstantCost;
use plimsoll::cost::{Breakdown, DecodeCost, StepCost, StepLoad};
use plimsoll::engine::EngineConfig;
use plimsoll::metrics::{Distribution, Fleet, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::sim::{Frontend, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Endings, Generator, Lengths, WorkloadSpec};

use crate::common;

/// Steps in a mean service time of one second. A service begins and ends with a step, so that a system with several
/// places rounds by about half a step, 0.05 %; with one place nothing is rounded.
pub(crate) const STEPS_PER_SERVICE: u32 = 1000;
/// How far a mean may be from its closed form: half of the error that a test must tell.
pub(crate) const TOLERANCE: f64 = 0.015;

/// A synchronous engine with room for `places` sequences and for all their tokens: nothing but the places is scarce.
pub(crate) fn engine(places: u32) -> EngineConfig {
    EngineConfig {
        max_model_len: 1 << 26,
        max_num_seqs: places,
        max_num_batched_tokens: 1 << 26,
        num_gpu_blocks: 1 << 28,
        ..common::ample_engine()
    }
}

/// A step of a thousandth of a mean service, whatever the batch: every place serves at a rate of its own.
pub(crate) fn private_servers() -> Box<dyn StepCost> {
    let step = Picos::from_seconds(1.0 / f64::from(STEPS_PER_SERVICE));
    Box::new(ConstantCost {
        per_step: step,
        per_decode_seq: Picos::ZERO,
    })
}

/// A step that takes `a`, `c` for each decoding sequence and `p` for each token of a chunk.
#[derive(Clone, Copy)]
pub(crate) struct AffineCost {
    pub(crate) a: Picos,
    pub(crate) c: Picos,
    pub(crate) p: Picos,
}

impl StepCost for AffineCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        DecodeCost {
            base: self.a + self.c * u64::from(batch),
            per_kv_token: Picos::ZERO,
            per_token_beyond: Picos::ZERO,
            per_longest_token: Picos::ZERO,
            kv_floor: Picos::ZERO,
            floor: Picos::ZERO,
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        let prompt: u64 = load.chunks.iter().map(|chunk| u64::from(chunk.new)).sum();
        self.a + self.c * u64::from(load.decode_seqs) + self.p * prompt
    }

    fn breakdown(&self, _: &StepLoad) -> Breakdown {
        Breakdown::default()
    }
}

/// Traffic of one-token prompts: an output of `n` tokens takes `n` steps.
pub(crate) fn traffic(arrivals: Arrivals, services: Services, requests: u64) -> WorkloadSpec {
    let (lengths, endings) = services.law();
    WorkloadSpec {
        lengths,
        endings,
        ..common::plain(arrivals, 1, 1, requests)
    }
}

/// The law of service times, of mean one second.
#[derive(Clone, Copy)]
pub(crate) enum Services {
    /// Geometric in steps, the exponential law's discrete twin: c² = 1 − 1/[`STEPS_PER_SERVICE`].
    Exponential,
    /// Always the same.
    Constant,
    /// One of two, by halves: `1 − spread` or `1 + spread`, c² = spread².
    TwoPoints { spread: f64 },
    /// `5` with probability 1/9, else `1/2`: c² = 4²·(1/9) + (1/2)²·(8/9) = 2.
    Skewed,
}

impl Services {
    fn law(self) -> (Lengths, Option<Endings>) {
        let steps = |seconds: f64| (1, (seconds * f64::from(STEPS_PER_SERVICE)).round() as u32);
        let pairs = |pairs: Vec<(u32, u32)>| Lengths::Empirical { pairs: pairs.into() };
        match self {
            Services::Exponential => {
                let lengths = Lengths::Fixed {
                    input_len: 1,
                    output_len: 1 << 20,
                };
                let per_token = 1.0 / f64::from(STEPS_PER_SERVICE);
                (lengths, Some(Endings::Hazard { per_token }))
            }
            Services::Constant => (pairs(vec![steps(1.0)]), None),
            Services::TwoPoints { spread } => (pairs(vec![steps(1.0 - spread), steps(1.0 + spread)]), None),
            Services::Skewed => {
                let mut nine = vec![steps(0.5); 8];
                nine.push(steps(5.0));
                (pairs(nine), None)
            }
        }
    }

    /// Squared coefficient of variation.
    pub(crate) fn scv(self) -> f64 {
        match self {
            Services::Exponential => 1.0 - 1.0 / f64::from(STEPS_PER_SERVICE),
            Services::Constant => 0.0,
            Services::TwoPoints { spread } => spread * spread,
            Services::Skewed => 4.0 * 4.0 / 9.0 + 0.25 * 8.0 / 9.0,
        }
    }
}

pub(crate) fn recorder(engine: &EngineConfig) -> Recorder {
    common::recorder(engine, Records::None)
}

/// Runs to the end of the traffic and judges.
pub(crate) fn run(
    engine: EngineConfig,
    cost: Box<dyn StepCost>,
    spec: &WorkloadSpec,
    seed: u64,
) -> RunResult {
    let mut recorder = recorder(&engine);
    let mut simulation = Simulation::new(engine, cost, Frontend::default(), Generator::new(spec, seed));
    simulation.advance(Until::DRAINED, &mut recorder);
    let result = judge(
        recorder.finish(simulation.now()),
        LoadKind::of(spec),
        &Precision::default(),
    );
    assert_eq!(result.violations, Vec::<String>::new());
    result
}

/// The same on several alike replicas behind a router.
pub(crate) fn run_cluster(
    engine: &EngineConfig,
    cluster: &ClusterSpec,
    cost: impl Fn() -> Box<dyn StepCost>,
    spec: &WorkloadSpec,
    seed: u64,
) -> RunResult {
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet::alike(cluster.replicas, engine.num_gpu_blocks - 1, engine.block_size),
        slo: SloLimits::default(),
        records: Records::None,
    });
    let costs = (0..cluster.replicas).map(|_| cost()).collect();
    let (frontend, traffic) = (Frontend::default(), Generator::new(spec, seed));
    let mut simulation =
        Simulation::of_cluster(&engine.clone().into(), costs, cluster, seed, frontend, traffic);
    simulation.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(simulation.now());
    let result = judge(seen, LoadKind::of(spec), &Precision::default());
    assert_eq!(result.violations, Vec::<String>::new());
    result
}

/// The named interval: its value and half its width.
pub(crate) fn interval(run: &RunResult, name: &str) -> (f64, f64) {
    let (_, estimate) = run
        .intervals
        .iter()
        .find(|(other, _)| other == name)
        .unwrap_or_else(|| panic!("no interval for {name}: {:?}", run.reasons));
    (estimate.value, (estimate.high - estimate.low) / 2.0)
}

/// The mean of `name` is `expected`, by the tolerance and by the judge's own interval.
pub(crate) fn check(run: &RunResult, name: &str, expected: f64) {
    let (value, half) = interval(run, name);
    let error = (value - expected).abs();
    assert!(
        error <= TOLERANCE * expected && error <= 1.5 * half.max(1e-9 * expected),
        "{name}: {value} ± {half} instead of {expected}"
    );
}

/// Share of durations of at most so many seconds.
pub(crate) fn share_at_most(durations: &Distribution, seconds: f64) -> f64 {
    let steps = durations.steps().into_iter();
    let short: u64 = steps
        .filter(|(upper, _)| *upper <= seconds)
        .map(|(_, count)| count)
        .sum();
    short as f64 / durations.count() as f64
}

/// `got` is within `relative` of `expected`.
pub(crate) fn near(what: &str, got: f64, expected: f64, relative: f64) {
    assert!(
        (got - expected).abs() <= relative * expected.abs(),
        "{what}: {got} instead of {expected}"
    );
}
