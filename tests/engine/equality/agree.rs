//! A scenario on the twin and on the engine, held against each other.

use std::collections::BTreeMap;

use plimsoll::cost::linear::{LinearCost, LinearStages};
use plimsoll::cost::{Breakdown, DecodeCost, StepCost, StepLoad};
use plimsoll::engine::lmcache::{LmcacheConfig, TierConfig};
use plimsoll::engine::{
    EngineConfig, KvGroups, Policy, ScheduleRecord, Speculation, VersionSwitches, WindowGroups,
};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::kv::CachePolicy;
use plimsoll::sim::{Completion, Fact, Frontend, Observer, Outcome, Pause, Simulation, Until};
use plimsoll::units::{Bytes, BytesPerSec, Picos};
use plimsoll::workload::{Piece, Prompt, Request, Traffic};

use crate::twin::tiers::{TwinMoved, TwinPolicy, TwinTier, TwinTiers};
use crate::twin::{self, Scheduled, TwinConfig, TwinLaw, TwinRequest, TwinRun};

pub(crate) const MILLISECOND: u64 = 1_000_000_000;

/// Step time in picoseconds: linear in tokens and in attended pairs.
#[derive(Clone, Copy)]
pub(crate) struct Law {
    pub(crate) per_step: u64,
    pub(crate) per_token: u64,
    pub(crate) per_pair: u64,
    /// Tokens of its context that a token by itself attends to at most, as in sparse attention.
    pub(crate) reads_at_most: Option<u32>,
}

impl Law {
    fn price(&self, shares: &[Scheduled]) -> u64 {
        let tokens: u64 = shares.iter().map(|share| u64::from(share.2)).sum();
        let pairs: u64 = shares
            .iter()
            .map(|&(_, computed, n)| u64::from(n) * (2 * u64::from(computed) + u64::from(n) + 1))
            .sum();
        let unread = |share: &Scheduled| match (share.2, self.reads_at_most) {
            (1, Some(most)) => u64::from((share.1 + 1).saturating_sub(most)),
            _ => 0,
        };
        let unread: u64 = shares.iter().map(unread).sum();
        self.per_step + self.per_token * tokens + self.per_pair * pairs / 2 - self.per_pair * unread
    }
}

/// The same as a step cost.
struct Priced {
    dense: LinearCost,
    law: Law,
}

impl StepCost for Priced {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        let unread = self.law.reads_at_most.map_or(0, |_| self.law.per_pair);
        DecodeCost {
            per_token_beyond: Picos(unread),
            ..self.dense.decode(batch)
        }
    }
    fn step(&mut self, load: &StepLoad) -> Picos {
        self.dense.step(load) - Picos(self.law.per_pair) * load.decode_beyond
    }
    fn reads_at_most(&self) -> Option<u32> {
        self.law.reads_at_most
    }
    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        self.dense.breakdown(load)
    }
}

fn lmcache_config(tiers: &TwinTiers) -> LmcacheConfig {
    let tier = |tier: TwinTier| TierConfig {
        capacity: Bytes(tier.capacity),
        read_bandwidth: BytesPerSec(tier.read_rate),
        write_bandwidth: BytesPerSec(tier.write_rate),
        latency: Picos(tier.latency_ps),
    };
    LmcacheConfig {
        chunk_size: tiers.chunk,
        save_unfull_chunk: tiers.save_unfull_chunk,
        save_decode_cache: tiers.save_decode_cache,
        min_retrieve_tokens: tiers.min_retrieve,
        cache_policy: match tiers.policy {
            TwinPolicy::Lru => CachePolicy::Lru,
            TwinPolicy::Fifo => CachePolicy::Fifo,
            TwinPolicy::Lfu => CachePolicy::Lfu,
            TwinPolicy::Mru => CachePolicy::Mru,
        },
        enable_async_loading: tiers.aside,
        layers: tiers.layers,
        bytes_per_token: Bytes(tiers.bytes_per_token),
        ranks: tiers.ranks as u32,
        lookup_latency: Picos(tiers.lookup_ps),
        load_bandwidth: BytesPerSec(tiers.load_rate),
        store_bandwidth: BytesPerSec(tiers.store_rate),
        host: tiers.host.map(Bytes),
        disk: tiers.disk.map(tier),
        remote: tiers.remote.map(tier),
    }
}

pub(crate) fn engine_config(config: &TwinConfig) -> EngineConfig {
    EngineConfig {
        profile: "twin".into(),
        max_model_len: config.max_model_len,
        max_num_seqs: config.max_num_seqs as u32,
        max_num_batched_tokens: config
            .max_num_scheduled_tokens
            .unwrap_or(config.max_num_batched_tokens),
        enable_chunked_prefill: config.enable_chunked_prefill,
        long_prefill_token_threshold: config.long_prefill_token_threshold,
        policy: if config.priority_policy {
            Policy::Priority
        } else {
            Policy::Fcfs
        },
        block_size: config.block_size,
        num_gpu_blocks: config.num_gpu_blocks as u32,
        kv_groups: KvGroups {
            states: config.states as u32,
            ..kv_groups(&config.groups)
        },
        enable_prefix_caching: config.enable_prefix_caching,
        watermark_blocks: config.watermark_blocks as u32,
        prefill_schedule_interval: config.prefill_schedule_interval,
        stages: config
            .stages
            .as_ref()
            .map_or(1, |stages| stages.laws.len() as u32),
        queue_depth: config.queue_depth as u32,
        max_num_queued_reqs: None,
        idle_pass_sleep: Picos::ZERO,
        speculation: None,
        switches: VersionSwitches {
            reserve_full_isl: config.reserve_full_isl,
            unhashed_to_head: config.unhashed_freed_blocks_to_head,
            threshold_not_when_alone: config.no_threshold_when_alone,
            oversize_prompt_stops: config.oversize_prompt_stops_admission,
            eviction_restores_budget: config.priority_eviction_restores,
            overrun_guard: config.async_overrun_guard,
            windows_settle: config.windows_settle,
            stale_output_drains: config
                .stages
                .as_ref()
                .is_none_or(|stages| stages.stale_output_drains),
            fills_queue_first: config
                .stages
                .as_ref()
                .is_none_or(|stages| stages.fills_queue_first),
        },
    }
}

fn kv_groups(groups: &[Option<u32>]) -> KvGroups {
    let mut kinds: BTreeMap<u32, u32> = BTreeMap::new();
    for window in groups.iter().flatten() {
        *kinds.entry(*window).or_default() += 1;
    }
    let kinds = kinds.into_iter();
    KvGroups {
        full: groups.iter().filter(|window| window.is_none()).count() as u32,
        windows: kinds
            .map(|(window, groups)| WindowGroups { window, groups })
            .collect(),
        states: 0,
    }
}

pub(crate) struct Fixed(std::vec::IntoIter<Request>);

impl Fixed {
    pub(crate) fn new(requests: &[TwinRequest]) -> Fixed {
        let mut requests: Vec<Request> = requests
            .iter()
            .map(|request| Request {
                id: RequestId(request.id),
                arrival: Picos(request.arrival_ps),
                client_queue_time: Picos::ZERO,
                prompt_tokens: request.prompt.iter().map(|piece| piece.2).sum(),
                output_tokens: request.output_tokens,
                max_tokens: request.output_tokens + u32::from(request.ends_by_eos),
                priority: request.priority,
                prompt: Prompt::Pieces(
                    request
                        .prompt
                        .iter()
                        .map(|&(segment, start, tokens)| Piece {
                            segment: SegmentId(segment),
                            start,
                            tokens,
                        })
                        .collect(),
                ),
                output_segment: SegmentId(request.output_segment),
                session: None,
                class: 0,
                ignore_eos: true,
                deadline: request.abort_at.map(Picos),
            })
            .collect();
        requests.sort_by_key(|request| (request.arrival, request.id));
        Fixed(requests.into_iter())
    }
}

impl Traffic for Fixed {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.0.as_slice().first().map(|request| request.arrival)
    }
    fn take(&mut self) -> Request {
        self.0.next().expect("announced before")
    }
    fn ended(&mut self, _: RequestId, _: Picos) {}
}

/// Completions, and every gap between tokens as (gap → how many).
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) completions: BTreeMap<u64, Completion>,
    pub(crate) gaps: BTreeMap<u64, u64>,
    /// Facts about steps, each of one step or of a run.
    pub(crate) steps_told: u64,
    moved: TwinMoved,
    /// All that was told, in words, if somebody asks.
    told: Option<Vec<String>>,
    /// Of facts about steps: when the first of them began, who ran and who waited.
    crowds: Vec<(Picos, u32, u32)>,
}

impl Observer for Seen {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Some(told) = &mut self.told {
            told.push(format!("{fact:?}"));
        }
        match fact {
            Fact::Ended(completion) => {
                self.completions.insert(completion.id.0, (*completion).clone());
            }
            Fact::Gap { gap, .. } => *self.gaps.entry(gap.0).or_default() += 1,
            Fact::Burst { tokens, .. } => *self.gaps.entry(0).or_default() += u64::from(*tokens),
            Fact::Tiers { account, .. } => {
                self.moved = TwinMoved {
                    served_tokens: account.tiers.map(|tier| tier.served_tokens),
                    loaded_bytes: account.tiers.map(|tier| tier.loaded_bytes),
                    stored_chunks: account.tiers.map(|tier| tier.stored_chunks),
                    evicted_chunks: account.tiers.map(|tier| tier.evicted_chunks),
                    given_up_chunks: account.given_up_chunks,
                };
            }
            Fact::Steps(steps) => {
                self.steps_told += 1;
                self.crowds.push((steps.begin, steps.running, steps.waiting));
                for index in 0..steps.count {
                    let gap = if index == 0 {
                        steps.gap
                    } else {
                        steps.duration + steps.duration_increment * index
                    };
                    *self.gaps.entry(gap.0).or_default() += u64::from(steps.gap_seqs);
                }
            }
            _ => {}
        }
    }
}

/// Runs a scenario on the twin and on the engine and demands that they agree.
pub(crate) fn agree(
    name: &str,
    config: &TwinConfig,
    requests: &[TwinRequest],
    law: Law,
    stepwise: bool,
) -> TwinRun {
    agree_with(name, config, None, requests, law, stepwise)
}

/// The same where the engine may speculate, and draws how many drafts stand from this seed.
pub(super) fn agree_with(
    name: &str,
    config: &TwinConfig,
    speculation: Option<(Speculation, u64)>,
    requests: &[TwinRequest],
    law: Law,
    stepwise: bool,
) -> TwinRun {
    let expected = twin::simulate(config, requests, &mut |shares| law.price(shares));
    let dense = LinearCost::new(
        seconds(law.per_step),
        seconds(law.per_token),
        seconds(law.per_pair),
    );
    let cost = || -> Box<dyn StepCost> {
        match &config.stages {
            None => Box::new(Priced { dense, law }),
            Some(stages) => Box::new(LinearStages {
                preparation: linear(&stages.preparation),
                stages: stages.laws.iter().map(linear).collect(),
                transfer: linear(&stages.transfer),
            }),
        }
    };
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let mut engine = engine_config(config);
    let (speculation, seed) = speculation.unzip();
    engine.speculation = speculation;
    let build = || {
        let traffic = Fixed::new(requests);
        let mut simulation = make(engine.clone(), cost(), Frontend::default(), traffic);
        if let Some(seed) = seed {
            simulation = simulation.drafting(seed);
        }
        if let Some(tiers) = &config.tiers {
            simulation = simulation.with_tiers(&lmcache_config(tiers));
        }
        simulation
    };
    // With a log no pass of the loop is part of a leap; with these it never is.
    let is_plain = config.stages.is_none() && config.drafts.is_none() && config.tiers.is_none();
    let may_join = !stepwise && config.queue_depth > 1 && is_plain;
    let all = || Seen {
        told: may_join.then(Vec::new),
        ..Seen::default()
    };
    let mut simulation = build().logging();
    let mut seen = all();
    let pause = simulation.advance(Until::DRAINED, &mut seen);
    let mut log = simulation.take_log();
    if expected.is_stuck {
        // The twin gives up earlier on those who preempt each other for ever.
        log.truncate(expected.steps.len());
    }
    compare_steps(name, config, &expected, &log);
    if expected.is_stuck {
        assert_eq!(pause, Pause::Livelock, "{name}: nobody can go on");
        return expected;
    }
    assert_eq!(pause, Pause::Drained, "{name}: all are served");
    assert_eq!(seen.moved, expected.moved, "{name}: what LMCache moved");
    compare_requests(name, requests, &expected, &seen);
    if is_plain {
        let mut records = log.iter();
        for crowd in &seen.crowds {
            let record = records.find(|record| record.begin == crowd.0);
            let record = record.map(|record| (record.begin, record.running, record.waiting));
            assert_eq!(Some(*crowd), record, "{name}: who runs and waits, {config:?}");
        }
    }
    if let Some(expected) = &seen.told {
        let mut seen = all();
        build().advance(Until::DRAINED, &mut seen);
        let told = seen.told.unwrap_or_default();
        for (got, expected) in told.iter().zip(expected) {
            assert_eq!(got, expected, "{name}: told without a log, {config:?}");
        }
        assert_eq!(told.len(), expected.len(), "{name}: facts");
    }
    expected
}

fn seconds(picos: u64) -> f64 {
    picos as f64 * 1e-12
}

fn linear(law: &TwinLaw) -> LinearCost {
    LinearCost::new(
        seconds(law.per_step),
        seconds(law.per_token),
        seconds(law.per_pair),
    )
}

fn compare_steps(name: &str, config: &TwinConfig, expected: &TwinRun, log: &[ScheduleRecord]) {
    for (index, (expected, got)) in expected.steps.iter().zip(log).enumerate() {
        let shares: Vec<Scheduled> = got
            .shares
            .iter()
            .map(|&(id, computed, n)| (id.0, computed, n))
            .collect();
        let preempted: Vec<u64> = got.preempted.iter().map(|id| id.0).collect();
        let got = (
            (got.scheduled.0, got.begin.0, got.duration.0),
            (
                shares,
                got.drafts.clone(),
                preempted,
                got.free_blocks as usize,
                got.running as usize,
                got.waiting as usize,
            ),
        );
        let drafts = config.drafts.as_ref().map(|_| expected.drafts.clone());
        let expected = (
            (
                expected.scheduled_at_ps,
                expected.gpu_start_ps,
                expected.duration_ps,
            ),
            (
                expected.scheduled.clone(),
                drafts.unwrap_or_default(),
                expected.preempted.clone(),
                expected.free_blocks,
                expected.running,
                expected.waiting,
            ),
        );
        assert_eq!(
            got, expected,
            "{name}, step {index}: engine against twin with {config:?}"
        );
    }
    assert_eq!(log.len(), expected.steps.len(), "{name}: number of steps");
}

fn compare_requests(name: &str, requests: &[TwinRequest], expected: &TwinRun, seen: &Seen) {
    let mut gaps: BTreeMap<u64, u64> = BTreeMap::new();
    for (request, outcome) in requests.iter().zip(&expected.outcomes) {
        let id = request.id;
        let got = &seen.completions[&id];
        assert_eq!(
            got.preemptions, outcome.preemptions,
            "{name}, request {id}: preemptions"
        );
        assert_eq!(
            got.cached_tokens,
            outcome.cached_tokens.unwrap_or(0),
            "{name}, request {id}: cached"
        );
        assert_eq!(
            got.output_tokens as usize,
            outcome.token_times_ps.len(),
            "{name}, request {id}: tokens"
        );
        assert_eq!(
            got.outcome == Outcome::TimedOut,
            outcome.is_aborted,
            "{name}, request {id}: outcome"
        );
        let first = outcome.token_times_ps.first().copied();
        assert_eq!(
            got.first_token.map(|at| at.0),
            first,
            "{name}, request {id}: first token"
        );
        if !outcome.is_aborted {
            assert_eq!(
                Some(got.end.0),
                outcome.token_times_ps.last().copied(),
                "{name}, request {id}: end"
            );
        }
        for pair in outcome.token_times_ps.windows(2) {
            *gaps.entry(pair[1] - pair[0]).or_default() += 1;
        }
    }
    let mut seen_gaps = seen.gaps.clone();
    seen_gaps.retain(|_, count| *count > 0);
    assert_eq!(seen_gaps, gaps, "{name}: gaps between tokens");
}
