//! Small random experiments: any engine flags, arrivals, lengths, sharing and clients.

use std::num::NonZeroU32;

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{Breakdown, DecodeCost, StageCosts, StepCost, StepLoad};
use plimsoll::engine::{BlockHashes, EngineConfig, Policy, Speculation, VersionSwitches};
use plimsoll::ids::RequestId;
use plimsoll::rng::{Purpose, stream};
use plimsoll::sim::{Fact, Frontend, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{
    Arrivals, Client, Draws, Endings, Generator, Lengths, LognormalLength, MmppState, Prefix, Request,
    Traffic, WorkloadSpec,
};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::common::{ample_engine, plain};

pub(crate) struct Nobody;

impl Observer for Nobody {
    fn observe(&mut self, _: &Fact<'_>) {}
}

/// A linear law whose contexts, and whose whole steps, take a least time that growing contexts come to exceed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floored {
    linear: LinearCost,
    kv_floor: Picos,
    floor: Picos,
    /// Stages that share a step, all alike but for a little.
    stages: u32,
}

impl StageCosts for Floored {
    fn count(&self) -> usize {
        self.stages as usize
    }

    fn preparation(&mut self, load: &StepLoad) -> Picos {
        Picos(load.tokens() * 1_000_000)
    }

    fn stage(&mut self, at: usize, load: &StepLoad) -> Picos {
        Picos(self.step(load).0 / u64::from(self.stages) + at as u64 * 10_000_000)
    }

    fn transfer(&mut self, _: usize, _: &StepLoad) -> Picos {
        Picos(30_000_000)
    }
}

impl StepCost for Floored {
    fn stages(&mut self) -> Option<&mut dyn StageCosts> {
        if self.stages > 1 { Some(self) } else { None }
    }

    fn decode(&mut self, batch: u32) -> DecodeCost {
        DecodeCost {
            kv_floor: self.kv_floor,
            floor: self.floor,
            ..self.linear.decode(batch)
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        if load.only_decodes() {
            return self
                .decode(load.decode_seqs)
                .at(load.decode_kv_tokens, load.decode_longest);
        }
        self.linear.step(load).max(self.floor)
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        self.linear.breakdown(load)
    }
}

/// Everything that a run is a function of.
#[derive(Clone, Debug)]
pub(crate) struct Experiment {
    pub(crate) engine: EngineConfig,
    pub(crate) cost: Floored,
    pub(crate) frontend: Frontend,
    pub(crate) spec: WorkloadSpec,
    pub(crate) seed: u64,
}

impl Experiment {
    /// Draws one.
    pub(crate) fn draw(seed: u64) -> Experiment {
        let mut dice = Dice(stream(seed, Purpose::Jitter, 0));
        let mut engine = dice.engine();
        let linear = LinearCost::new(
            dice.one_of(&[0.001, 0.006, 0.02]),
            dice.one_of(&[0.0, 2e-5]),
            dice.one_of(&[0.0, 1e-9, 1e-6]),
        );
        let delays = dice.chance();
        // From dice of their own, so that all else is drawn as without. A step's tokens take less than it, or more.
        let mut dice_of_pieces = Dice(stream(seed, Purpose::Jitter, 2));
        let per_output_token = Picos(dice_of_pieces.one_of(&[0, 0, 60_000_000, 3_000_000_000]));
        let frontend = Frontend {
            is_shared: false,
            servers: dice.one_of(&[NonZeroU32::MIN, NonZeroU32::MIN.saturating_add(2)]),
            request_service: Picos(if dice.chance() { 2_000_000_000 } else { 0 }),
            request_delay: Picos(if delays { 1_500_000_000 } else { 0 }),
            per_prompt_token: Picos(if delays { 1_000_000 } else { 0 }),
            per_output_token,
            outputs_at_once: dice_of_pieces.one_of(&[0, 3, 128]),
            stream_interval: dice_of_pieces.one_of(&[NonZeroU32::MIN, NonZeroU32::MIN.saturating_add(3)]),
            // Shorter than a step, and longer than several.
            response_delay: Picos(dice.one_of(&[0, 700_000_000, 45_000_000_000])),
        };
        let spec = dice.spec();
        if may_tie(&spec) {
            engine.policy = Policy::Fcfs;
        }
        engine.speculation = dice.speculation(&engine);
        // From dice of their own, so that all else is drawn as without.
        Dice(stream(seed, Purpose::Jitter, 1)).spread(&mut engine);
        let cost = Floored {
            linear,
            kv_floor: Picos(dice.one_of(&[0, 300_000, 200_000_000])),
            floor: Picos(dice.one_of(&[0, 0, 6_100_000_000])),
            stages: engine.stages,
        };
        Experiment {
            engine,
            cost,
            frontend,
            spec,
            seed,
        }
    }

    pub(crate) fn simulation(&self) -> Simulation<Generator> {
        self.simulation_of(Generator::new(&self.spec, self.seed))
    }

    pub(crate) fn simulation_of<T: Traffic>(&self, traffic: T) -> Simulation<T> {
        Simulation::new(self.engine.clone(), Box::new(self.cost), self.frontend, traffic).drafting(self.seed)
    }

    /// Runs to the end.
    pub(crate) fn drain<O: Observer>(&self, observer: &mut O) -> Simulation<Generator> {
        let mut simulation = self.simulation();
        simulation.advance(Until::DRAINED, observer);
        simulation
    }
}

/// Whether two requests may be sent at one instant. Among equals of `(priority, arrival)` the engine preempts the first in
/// `running` (V1-22), the one that has come furthest: four that do not fit together can evict each other in turn for ever.
fn may_tie(spec: &WorkloadSpec) -> bool {
    let at_once = matches!(spec.arrivals, Arrivals::AllAtOnce | Arrivals::Users { .. });
    at_once || spec.client.max_concurrency.is_some() || matches!(spec.prefix, Prefix::Sessions { .. })
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.random_range(0..bound)
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    fn engine(&mut self) -> EngineConfig {
        let enable_chunked_prefill = self.chance();
        let max_num_batched_tokens = if enable_chunked_prefill {
            8 + self.below(60)
        } else {
            150
        };
        let is_small = self.chance();
        EngineConfig {
            max_model_len: 60 + self.below(90),
            max_num_seqs: 1 + self.below(if is_small { 4 } else { 20 }),
            max_num_batched_tokens,
            enable_chunked_prefill,
            long_prefill_token_threshold: self.below(3) * 10,
            policy: self.one_of(&[Policy::Fcfs, Policy::Priority]),
            block_size: self.one_of(&[1, 3, 16]),
            num_gpu_blocks: 151 + self.below(if is_small { 20 } else { 2000 }),
            enable_prefix_caching: self.chance(),
            watermark_blocks: self.below(3),
            prefill_schedule_interval: self.one_of(&[1, 1, 3]),
            queue_depth: 1 + self.below(2),
            max_num_queued_reqs: self.one_of(&[None, None, Some(6)]),
            idle_pass_sleep: Picos(self.one_of(&[0, 1_000_000_000])),
            speculation: None,
            switches: VersionSwitches {
                reserve_full_isl: self.chance(),
                unhashed_to_head: self.chance(),
                threshold_not_when_alone: self.chance(),
                oversize_prompt_stops: self.chance(),
                eviction_restores_budget: self.chance(),
                overrun_guard: self.chance(),
                windows_settle: true,
                stale_output_drains: true,
                fills_queue_first: true,
            },
            ..ample_engine()
        }
    }

    /// One in four has its layers spread over stages, and speculates not.
    fn spread(&mut self, engine: &mut EngineConfig) {
        if self.below(4) > 0 {
            return;
        }
        let ahead = engine.queue_depth - 1;
        engine.stages = 2 + self.below(4);
        engine.queue_depth = engine.stages + ahead;
        engine.speculation = None;
        engine.switches.fills_queue_first = self.chance();
    }

    /// One in four speculates, by the rules of some version.
    fn speculation(&mut self, engine: &EngineConfig) -> Option<Speculation> {
        let is_refused = engine.policy == Policy::Priority && !engine.switches.eviction_restores_budget;
        let asked = self.below(4) == 0;
        let drafts = 1 + self.below(5);
        let has_kv = self.chance();
        let slots = u32::from(has_kv && self.chance());
        let rate = self.one_of(&[0.0, 0.5, 0.9, 1.0]);
        let speculation = Speculation {
            drafts,
            runner_tokens: engine.max_num_batched_tokens,
            slots,
            lookahead: u32::from(has_kv) * drafts,
            looks_ahead_at_admission: self.chance(),
            pads_admissions: self.chance(),
            registers_output: self.chance(),
            keeps_drafts: self.chance(),
            drafts_for_chunks: engine.queue_depth == 1 && self.chance(),
            drafts_near_longest: self.chance(),
            hashes: self.one_of(&[BlockHashes::Own, BlockHashes::Ahead, BlockHashes::LastDropped]),
            acceptance: (1..=drafts as i32)
                .map(|position| f64::powi(rate, position))
                .collect(),
        };
        (asked && !is_refused).then_some(speculation)
    }

    fn spec(&mut self) -> WorkloadSpec {
        let num_prompts = u64::from(5 + self.below(60));
        let arrivals = self.arrivals();
        let prefix = match arrivals {
            Arrivals::Replay { .. } => Prefix::None,
            _ => self.prefix(),
        };
        let max_concurrency = match arrivals {
            Arrivals::Users { .. } => None,
            _ => self.one_of(&[None, Some(1), Some(5)]),
        };
        let timeout = self.one_of(&[None, None, Some(200)]).map(milliseconds);
        let priorities = if self.chance() {
            vec![(0, 0.5), (3, 0.25), (-2, 0.25)]
        } else {
            Vec::new()
        };
        WorkloadSpec {
            lengths: self.lengths(),
            prefix,
            client: Client {
                max_concurrency,
                rescale_arrivals: self.chance(),
                draws: self.one_of(&[Draws::Own, Draws::Vllm, Draws::Sglang]),
                timeout,
                priorities,
            },
            num_prompts: Some(match &arrivals {
                Arrivals::Replay { requests, .. } => requests.len() as u64,
                _ => num_prompts,
            }),
            duration: self.one_of(&[None, None, Some(1500)]).map(milliseconds),
            endings: self.one_of(&[
                None,
                None,
                Some(Endings::Hazard { per_token: 0.1 }),
                Some(Endings::Share { early: 0.5 }),
            ]),
            arrivals,
            classes: Vec::new(),
        }
    }

    fn arrivals(&mut self) -> Arrivals {
        let request_rate = self.one_of(&[2.0, 20.0, 300.0]);
        match self.below(9) {
            0 => Arrivals::Poisson { request_rate },
            1 => Arrivals::Gamma {
                request_rate,
                burstiness: 0.3,
            },
            2 => Arrivals::Constant { request_rate },
            3 => Arrivals::AllAtOnce,
            4 => Arrivals::Users {
                users: 1 + self.below(6),
                think_time: Picos(u64::from(self.below(2)) * 50_000_000_000),
            },
            5 => Arrivals::Ramp {
                start_rate: request_rate,
                end_rate: 2.0 * request_rate,
                exponential: self.chance(),
            },
            6 => {
                let state = |request_rate, ms| MmppState {
                    request_rate,
                    mean_sojourn: milliseconds(ms),
                };
                Arrivals::Mmpp {
                    states: vec![state(0.3 * request_rate, 400), state(3.0 * request_rate, 100)],
                }
            }
            7 => Arrivals::Profile {
                piece: milliseconds(150),
                rates: [0.0, request_rate, 3.0 * request_rate].into(),
                burstiness: self.one_of(&[1.0, 0.4]),
            },
            _ => self.replay(),
        }
    }

    /// A trace whose requests repeat parts of each other.
    fn replay(&mut self) -> Arrivals {
        let mut source = plain(Arrivals::Poisson { request_rate: 30.0 }, 1, 1, 30);
        source.lengths = self.lengths();
        source.prefix = Prefix::Groups {
            count: 3,
            prefix_len: 20,
            zipf: 1.0,
            exact_shares: false,
        };
        let mut generator = Generator::new(&source, u64::from(self.below(1000)));
        let mut requests: Vec<Request> = Vec::new();
        while let Some(now) = generator.next_arrival() {
            requests.push(generator.take());
            generator.ended(RequestId(requests.len() as u64 - 1), now);
        }
        Arrivals::Replay {
            requests: requests.into(),
            time_scale: self.one_of(&[0.5, 1.0, 2.0]),
        }
    }

    fn lengths(&mut self) -> Lengths {
        let (input_len, output_len) = (1 + self.below(40), 1 + self.below(40));
        let lognormal = |median, max| LognormalLength {
            median,
            sigma: 0.8,
            max,
        };
        match self.below(6) {
            0 => Lengths::Fixed {
                input_len,
                output_len,
            },
            1 => Lengths::RandomVllm {
                input_len,
                output_len,
                range_ratio: 0.5,
                output_range_ratio: 0.8,
            },
            2 => Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio: 0.2,
            },
            3 => Lengths::Lognormal {
                input: lognormal(12.0, 80),
                output: lognormal(8.0, 60),
                correlation: 0.3,
            },
            4 => Lengths::Quantiles {
                input: [1.0, 10.0, 70.0].into(),
                output: [1.0, 5.0, 50.0].into(),
                correlation: -0.4,
            },
            _ => Lengths::Empirical {
                pairs: [(1, 1), (30, 2), (2, 30), (45, 14)].into(),
            },
        }
    }

    fn prefix(&mut self) -> Prefix {
        match self.below(4) {
            0 => Prefix::Groups {
                count: 3,
                prefix_len: 18,
                zipf: 0.7,
                exact_shares: self.chance(),
            },
            1 => Prefix::Sessions {
                turns: 3.0,
                fixed_turns: self.chance(),
                think_time: milliseconds(u64::from(self.below(2)) * 30),
                shared_system_len: 10 * self.below(2),
            },
            _ => Prefix::None,
        }
    }
}

fn milliseconds(ms: u64) -> Picos {
    Picos(ms * 1_000_000_000)
}

/// Ties rule priorities out (see [`may_tie`]); enough draws have them all the same.
#[test]
fn priorities_are_drawn_often_enough() {
    let has_them = |seed: &u64| Experiment::draw(*seed).engine.policy == Policy::Priority;
    let drawn = (0..1000).filter(has_them).count();
    assert!(drawn >= 50, "{drawn} of 1000 draws serve by priority");
}
