//! The fast engine equals its naive twin: equal schedules, equal clocks, equal token times, in random scenarios.
//!
//! Scenarios are drawn from a seed, which a failure prints. `leaps` scenarios have outputs that no running request
//! shares, so the engine packs and leaps; `stepwise` ones share generated tokens too.

use std::collections::BTreeMap;

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{Breakdown, DecodeCost, StepCost, StepLoad};
use plimsoll::engine::lmcache::{LmcacheConfig, TierConfig};
use plimsoll::engine::{EngineConfig, KvGroups, Policy, ScheduleRecord, VersionSwitches, WindowGroups};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::kv::CachePolicy;
use plimsoll::sim::{Completion, Fact, Frontend, Observer, Outcome, Pause, Simulation, Until};
use plimsoll::units::{Bytes, BytesPerSec, Picos};
use plimsoll::workload::{Piece, Prompt, Request, Traffic};
use proptest::prelude::*;

use crate::twin::tiers::{TwinMoved, TwinPolicy, TwinTier, TwinTiers};
use crate::twin::{self, Scheduled, TwinConfig, TwinRequest, TwinRun};

pub(crate) const MILLISECOND: u64 = 1_000_000_000;

/// xorshift64: the seed replays a scenario.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
    }

    pub(crate) fn chance(&mut self) -> bool {
        self.below(2) == 0
    }
}

pub(crate) fn draw_config(draw: &mut Draw) -> TwinConfig {
    let enable_chunked_prefill = draw.chance();
    let small = draw.chance();
    TwinConfig {
        max_model_len: 40 + draw.below(60),
        max_num_seqs: 1 + draw.below(if small { 4 } else { 12 }) as usize,
        max_num_batched_tokens: if enable_chunked_prefill {
            4 + draw.below(30)
        } else {
            100
        },
        max_num_scheduled_tokens: None,
        enable_chunked_prefill,
        block_size: 1 + draw.below(6),
        num_gpu_blocks: 102 + draw.below(if small { 10 } else { 300 }) as usize,
        groups: vec![None],
        states: 0,
        windows_settle: true,
        enable_prefix_caching: draw.chance(),
        priority_policy: draw.chance(),
        long_prefill_token_threshold: draw.below(3) * 5,
        queue_depth: 1 + draw.below(2) as usize,
        watermark_blocks: draw.below(4) as usize,
        prefill_schedule_interval: if draw.chance() { 1 } else { 1 + draw.below(4) },
        reserve_full_isl: draw.chance(),
        unhashed_freed_blocks_to_head: draw.chance(),
        no_threshold_when_alone: draw.chance(),
        oversize_prompt_stops_admission: draw.chance(),
        priority_eviction_restores: draw.chance(),
        async_overrun_guard: draw.chance(),
        tiers: None,
        drafts: None,
    }
}

fn draw_tiers(draw: &mut Draw) -> TwinTiers {
    let chunk = 1 + draw.below(8);
    let bytes_per_token = 1000;
    let ranks = 1 + u64::from(draw.below(2));
    let chunks = |draw: &mut Draw| u64::from(1 + draw.below(12)) * u64::from(chunk) * bytes_per_token;
    let rate = |draw: &mut Draw| f64::from(1 + draw.below(40)) * 25_000.0;
    let tier = |draw: &mut Draw| TwinTier {
        capacity: chunks(draw) * 2,
        read_rate: rate(draw),
        write_rate: rate(draw),
        latency_ps: u64::from(draw.below(3)) * MILLISECOND,
    };
    let disk = draw.chance().then(|| tier(draw));
    let remote = draw.chance().then(|| tier(draw));
    let aside = draw.chance();
    TwinTiers {
        chunk,
        save_unfull_chunk: draw.chance(),
        save_decode_cache: draw.below(4) == 0,
        min_retrieve: draw.below(3) * 3,
        policy: [
            TwinPolicy::Lru,
            TwinPolicy::Fifo,
            TwinPolicy::Lfu,
            TwinPolicy::Mru,
        ][draw.below(4) as usize],
        aside,
        layers: (!aside && draw.chance()).then_some(4),
        bytes_per_token,
        ranks,
        lookup_ps: u64::from(draw.below(3)) * MILLISECOND,
        load_rate: rate(draw),
        store_rate: rate(draw),
        host: (draw.below(4) > 0).then(|| chunks(draw)),
        disk,
        remote,
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

/// Two waves: the second comes when the first has surely ended and may repeat its prompts and answers.
pub(crate) fn draw_requests(draw: &mut Draw, shared_outputs: bool, aborts: bool) -> Vec<TwinRequest> {
    let mut requests: Vec<TwinRequest> = Vec::new();
    let first_wave = 4 + draw.below(10);
    for id in 0..u64::from(first_wave + draw.below(8)) {
        let late = id >= u64::from(first_wave);
        let base = if late { 1_000_000 * MILLISECOND } else { 0 };
        let arrival_ps = base + u64::from(draw.below(300)) * MILLISECOND;
        let mut prompt = vec![
            (u64::from(draw.below(3)), 0, 1 + draw.below(14)),
            (10 + id, 0, 1 + draw.below(10)),
        ];
        if draw.chance() {
            prompt.pop();
        }
        if late && draw.chance() {
            // The next turn of a conversation of the first wave.
            let earlier = &requests[draw.below(first_wave) as usize];
            let length: u32 = earlier.prompt.iter().map(|&(_, _, tokens)| tokens).sum();
            prompt = earlier.prompt.clone();
            prompt.push((
                earlier.output_segment,
                length,
                1 + draw.below(earlier.output_tokens.min(15)),
            ));
            prompt.retain(|&(_, _, tokens)| tokens > 0);
        }
        requests.push(TwinRequest {
            id,
            arrival_ps,
            prompt,
            output_tokens: 1 + draw.below(45),
            output_segment: if shared_outputs { 500 } else { 500 + id },
            ends_by_eos: draw.below(3) == 0,
            priority: i64::from(draw.below(3)),
            abort_at: (aborts && draw.below(5) == 0)
                .then(|| arrival_ps + u64::from(draw.below(400)) * MILLISECOND + 7),
            accepted: Vec::new(),
            proposed: None,
        });
    }
    requests
}

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

pub(crate) fn engine_config(config: &TwinConfig) -> EngineConfig {
    EngineConfig {
        profile: "twin".into(),
        max_model_len: config.max_model_len,
        max_num_seqs: config.max_num_seqs as u32,
        max_num_batched_tokens: config.max_num_batched_tokens,
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
        queue_depth: config.queue_depth as u32,
        max_num_queued_reqs: None,
        idle_pass_sleep: Picos::ZERO,
        speculation: None,
        switches: VersionSwitches {
            reserve_full_isl: config.reserve_full_isl,
            unhashed_to_head: config.unhashed_freed_blocks_to_head,
            stats_per_admission: true,
            threshold_not_when_alone: config.no_threshold_when_alone,
            oversize_prompt_stops: config.oversize_prompt_stops_admission,
            eviction_restores_budget: config.priority_eviction_restores,
            overrun_guard: config.async_overrun_guard,
            windows_settle: config.windows_settle,
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
}

impl Observer for Seen {
    fn observe(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Ended(completion) => {
                self.completions.insert(completion.id.0, (*completion).clone());
            }
            Fact::Gap { gap, .. } => *self.gaps.entry(gap.0).or_default() += 1,
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

/// Groups of layers with windows, some beside groups without. A pool that would do for all layers as one is as many times
/// as large.
pub(crate) fn draw_groups(draw: &mut Draw, config: &mut TwinConfig) {
    let window = |draw: &mut Draw| {
        let longest = if draw.chance() { 12 } else { 60 };
        Some(1 + draw.below(longest))
    };
    let one = window(draw);
    let mut groups = vec![one; 1 + draw.below(3) as usize];
    if draw.below(4) == 0 {
        groups.push(window(draw));
    }
    let full = match config.enable_prefix_caching {
        true => 1,
        false => draw.below(3) as usize,
    };
    groups.splice(0..0, vec![None; full]);
    config.num_gpu_blocks = (config.num_gpu_blocks - 1) * groups.len() + 1;
    config.groups = groups;
    config.windows_settle = draw.chance();
}

/// The same with groups of layers.
fn check_groups(seed: u64, stepwise: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut config = draw_config(&mut draw);
    draw_groups(&mut draw, &mut config);
    // Windows leave room: as little as one sequence may need.
    if draw.chance() {
        let longest = config.max_model_len.div_ceil(config.block_size) as usize;
        config.num_gpu_blocks = config
            .num_gpu_blocks
            .min(longest * config.groups.len() + 1 + draw.below(9) as usize);
    }
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

/// The same with groups of recurrent layers, some beside windows: a pool with room for the states of few sequences or of many.
fn check_states(seed: u64, stepwise: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut config = draw_config(&mut draw);
    config.enable_prefix_caching = false;
    if draw.below(3) == 0 {
        draw_groups(&mut draw, &mut config);
    }
    config.states = 1 + draw.below(6) as usize;
    config.num_gpu_blocks += config.states * (1 + draw.below(8) as usize);
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

/// The same where attention is sparse: its bound lies within most contexts, so that sequences cross it as they decode.
fn check_sparse(seed: u64, stepwise: bool, aborts: bool) -> TwinRun {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut config = draw_config(&mut draw);
    if draw.below(3) == 0 {
        draw_groups(&mut draw, &mut config);
    }
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    let law = Law {
        per_pair: u64::from(1 + draw.below(3)) * 1_000_001,
        reads_at_most: Some(1 + draw.below(50)),
        ..law
    };
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

fn check(seed: u64, stepwise: bool, aborts: bool, tiers: bool) -> TwinRun {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut config = draw_config(&mut draw);
    let (requests, law) = draw_traffic(&mut draw, &config, stepwise, aborts);
    config.tiers = tiers.then(|| draw_tiers(&mut draw));
    agree(&format!("seed {seed}"), &config, &requests, law, stepwise)
}

fn draw_traffic(
    draw: &mut Draw,
    config: &TwinConfig,
    stepwise: bool,
    aborts: bool,
) -> (Vec<TwinRequest>, Law) {
    let requests = draw_requests(draw, stepwise, aborts);
    let fits = |request: &TwinRequest| {
        let prompt: u32 = request.prompt.iter().map(|piece| piece.2).sum();
        prompt < config.max_model_len
    };
    let requests: Vec<TwinRequest> = requests.into_iter().filter(fits).collect();
    let law = Law {
        per_step: u64::from(1 + draw.below(9)) * MILLISECOND,
        per_token: u64::from(draw.below(3)) * 20_000_000,
        per_pair: u64::from(draw.below(3)) * 1_000_001,
        reads_at_most: None,
    };
    (requests, law)
}

#[test]
fn the_scenarios_reach_every_tier() {
    let mut reached = [[0_u64; 3]; 2];
    let mut given_up = 0_u64;
    for seed in 1..300 {
        let moved = check(seed, false, true, true).moved;
        for (reached, moved) in reached
            .iter_mut()
            .zip([moved.served_tokens, moved.evicted_chunks])
        {
            for (runs, moved) in reached.iter_mut().zip(moved) {
                *runs += u64::from(moved > 0);
            }
        }
        given_up += u64::from(moved.given_up_chunks > 0);
    }
    let most = reached.as_flattened().iter().all(|&runs| runs > 20);
    assert!(most && given_up > 20, "{reached:?}, {given_up}");
}

/// Who waits for KV holds blocks, and may stand behind somebody more urgent who lacks them. One draw in some hundred thousand.
#[test]
fn loads_behind_somebody_more_urgent_are_a_livelock_for_both() {
    assert!(check(7_072_540_872_777_398_671, true, true, true).is_stuck);
}

/// Loads hold the blocks that two others lack, who preempt each other and themselves. One draw in some thousands.
#[test]
fn preemptions_around_loads_are_a_livelock_for_both() {
    assert!(check(13_653_193_260_981_197_131, false, true, true).is_stuck);
}

/// Runs a scenario on the twin and on the engine and demands that they agree.
pub(crate) fn agree(
    name: &str,
    config: &TwinConfig,
    requests: &[TwinRequest],
    law: Law,
    stepwise: bool,
) -> TwinRun {
    let expected = twin::simulate(config, requests, &mut |shares| law.price(shares));
    let seconds = |picos: u64| picos as f64 * 1e-12;
    let dense = LinearCost::new(
        seconds(law.per_step),
        seconds(law.per_token),
        seconds(law.per_pair),
    );
    let cost: Box<dyn StepCost> = Box::new(Priced { dense, law });
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let mut simulation = make(
        engine_config(config),
        cost,
        Frontend::default(),
        Fixed::new(requests),
    )
    .logging();
    if let Some(tiers) = &config.tiers {
        simulation = simulation.with_tiers(&lmcache_config(tiers));
    }
    let mut seen = Seen::default();
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
    expected
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
                preempted,
                got.free_blocks as usize,
                got.running as usize,
                got.waiting as usize,
            ),
        );
        let expected = (
            (
                expected.scheduled_at_ps,
                expected.gpu_start_ps,
                expected.duration_ps,
            ),
            (
                expected.scheduled.clone(),
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(800))]

    #[test]
    fn packing_and_leaping_change_nothing(seed in any::<u64>()) {
        check(seed, false, false, false);
    }

    #[test]
    fn sparse_attention_reads_the_same_tokens(seed in any::<u64>()) {
        check_sparse(seed, false, false);
    }

    #[test]
    fn sparse_attention_reads_the_same_tokens_under_aborts_and_step_by_step(seed in any::<u64>()) {
        check_sparse(seed, false, true);
        check_sparse(seed, true, true);
    }

    #[test]
    fn windows_pass_the_same_blocks(seed in any::<u64>()) {
        check_groups(seed, false, false);
    }

    #[test]
    fn windows_pass_the_same_blocks_under_aborts(seed in any::<u64>()) {
        check_groups(seed, false, true);
    }

    #[test]
    fn windows_pass_the_same_blocks_step_by_step(seed in any::<u64>()) {
        check_groups(seed, true, true);
    }

    #[test]
    fn states_take_the_same_blocks(seed in any::<u64>()) {
        check_states(seed, false, false);
    }

    #[test]
    fn states_take_the_same_blocks_under_aborts(seed in any::<u64>()) {
        check_states(seed, true, true);
    }

    #[test]
    fn aborts_are_the_same(seed in any::<u64>()) {
        check(seed, false, true, false);
    }

    #[test]
    fn shared_answers_are_the_same(seed in any::<u64>()) {
        check(seed, true, true, false);
    }

    #[test]
    fn tiers_of_kv_are_the_same(seed in any::<u64>()) {
        check(seed, false, true, true);
    }

    #[test]
    fn tiers_of_kv_are_the_same_step_by_step(seed in any::<u64>()) {
        check(seed, true, true, true);
    }
}
