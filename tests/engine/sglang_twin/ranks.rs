//! Several servers whose attention is data parallel and whose steps are common (SG-50): the naive twin, and the engine
//! against it to the picosecond in random scenarios.
//!
//! Every rank decides by itself in each pass. If any has a batch all launch, those without an idle one; the step lasts as long
//! as the slowest needs. If none has, whatever is in flight is waited for, and else the next request.

use std::collections::{BTreeMap, VecDeque};

use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{ClusterSpec, Coordination, Gathering, LockStepAccount, LockStepSpec};
use plimsoll::cost::{Breakdown, DecodeCost, Moved, SharedCost, StepCost, StepLoad};
use plimsoll::engine::sglang::{BatchMode, SglangConfig};
use plimsoll::ids::ReplicaId;
use plimsoll::sim::{Frontend, Outcome, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::{Batch, Entry, Twin};
use crate::draws::{Verdict, draws, judge};
use crate::equality::Seen;
use crate::given::Given;
use crate::sglang_leaps::{configs, requests, wishes};

/// A step's price, by coefficient, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Price {
    per_step: u64,
    per_token: u64,
    per_pair: u64,
    floor: u64,
    /// What launching kernel by kernel adds, and the least that launches of nothing take.
    eager: u64,
    idle_floor: u64,
    shared: u64,
    per_shared_token: u64,
    per_summed_token: u64,
    per_row: u64,
    /// Batches whose graphs were captured, ascending; and steps with prompts whose pieces were.
    captured: &'static [u32],
    pieces: &'static [u32],
    /// What pieces add to a step.
    piecewise: u64,
    gathering: Gathering,
}

impl StepCost for Price {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        DecodeCost {
            base: Picos(self.per_step + self.per_token * u64::from(batch)),
            per_kv_token: Picos(self.per_pair),
            per_token_beyond: Picos::ZERO,
            per_longest_token: Picos::ZERO,
            kv_floor: Picos::ZERO,
            floor: Picos(self.floor),
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.step_law(load).at(load.decode_kv_tokens, load.decode_longest)
    }

    fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        let mut law = self.decode(load.tokens() as u32);
        for chunk in &load.chunks {
            law.base += Picos(self.per_pair * u64::from(chunk.new) * u64::from(chunk.computed + chunk.new));
        }
        law
    }

    fn eager_law(&mut self, load: &StepLoad) -> DecodeCost {
        if load.tokens() == 0 {
            return DecodeCost {
                floor: Picos(self.idle_floor),
                ..DecodeCost::default()
            };
        }
        let law = self.step_law(load);
        DecodeCost {
            base: law.base + Picos(self.eager),
            ..law
        }
    }

    fn replayed(&self, batch: u32) -> Option<u32> {
        self.captured.iter().copied().find(|&captured| captured >= batch)
    }

    fn replayed_pieces(&self, tokens: u64) -> Option<u64> {
        let sizes = self.pieces.iter().map(|&size| u64::from(size));
        sizes.into_iter().find(|&size| size >= tokens)
    }

    fn pieces_law(&mut self, load: &StepLoad, tokens: u64) -> DecodeCost {
        let law = self.step_law(load);
        let padding = self.per_token * (tokens - load.tokens());
        DecodeCost {
            base: law.base + Picos(self.piecewise + padding),
            ..law
        }
    }

    fn breakdown(&self, _: &StepLoad) -> Breakdown {
        Breakdown::default()
    }
}

impl SharedCost for Price {
    fn all_tokens(&mut self, tokens: u64, moved: Moved) -> Picos {
        let summed = match moved {
            Moved::Scattered => 0,
            Moved::Summed => self.per_summed_token,
        };
        Picos(self.shared + (self.per_shared_token + summed) * tokens)
    }

    fn all_rows(&mut self, rows: u64) -> Picos {
        Picos(self.per_row * rows)
    }
}

/// What a rank computes in a step, as its price goes: tokens, (query, key) pairs, whether any are prompts.
#[derive(Clone, Copy, Default)]
struct Work {
    tokens: u64,
    pairs: u64,
    rows: u64,
    has_prompts: bool,
}

impl Price {
    /// Tokens of the pieces that all replay: 0.5.23, where every rank with a batch would by itself.
    fn common_pieces(&self, works: &[Work]) -> Option<u64> {
        let new = self.gathering.coordination?;
        for work in works.iter().filter(|work| work.tokens > 0) {
            if !work.has_prompts && !new.converts_decodes {
                return None;
            }
            if self.replayed_pieces(work.tokens)? > 2 * work.tokens {
                return None;
            }
        }
        let aligned = works.iter().map(|work| self.aligned(work.tokens)).max()?;
        self.replayed_pieces(aligned)
    }

    fn aligned(&self, tokens: u64) -> u64 {
        let gpus = u64::from(self.gathering.gpus_a_rank);
        tokens.div_ceil(gpus) * gpus
    }

    /// What each rank needs by itself, the experts included.
    fn shares(&self, works: &[Work]) -> Vec<u64> {
        let ranks = works.len() as u64;
        let largest = works.iter().map(|work| work.tokens).max().unwrap();
        let has_prompts = works.iter().any(|work| work.has_prompts);
        let graph = self
            .captured
            .iter()
            .find(|&&captured| u64::from(captured) >= largest);
        let rows: u64 = works.iter().map(|work| work.rows).sum();
        let new = self.gathering.coordination;
        let fits_sum = |tokens: u64| new.is_some_and(|new| tokens <= new.sums_up_to);
        let summed = self.per_shared_token + self.per_summed_token;
        if let Some(tokens) = self.common_pieces(works).filter(|_| has_prompts) {
            let common = self.shared + self.per_shared_token * tokens * ranks + self.per_row * rows;
            let own = |work: &Work| {
                let pairs = if work.tokens == 0 {
                    tokens * tokens
                } else {
                    work.pairs
                };
                let gpu = self.per_step + self.piecewise + self.per_token * tokens + self.per_pair * pairs;
                (gpu + common).max(self.floor)
            };
            return works.iter().map(own).collect();
        }
        let (aligned_sum, aligned) = (
            works.iter().map(|work| self.aligned(work.tokens)).sum::<u64>(),
            self.aligned(largest),
        );
        let is_padded = match new {
            None => aligned_sum * 2 > aligned * ranks,
            Some(_) if works.iter().all(|work| work.tokens > 0) && fits_sum(aligned_sum) => false,
            Some(_) => aligned_sum * 2 >= aligned * ranks,
        };
        let (padded, experts) = match graph {
            Some(&graph) if !has_prompts => {
                let tokens = u64::from(graph) * ranks;
                let each = if fits_sum(tokens) {
                    summed
                } else {
                    self.per_shared_token
                };
                (Some(largest), (each + self.per_row) * tokens)
            }
            _ if !has_prompts && is_padded => {
                let tokens = aligned * ranks;
                (
                    Some(aligned),
                    self.per_shared_token * tokens + self.per_row * rows,
                )
            }
            _ => (None, summed * aligned_sum + self.per_row * rows),
        };
        let experts = experts + self.shared;
        let own = |work: &Work| match (padded, work.tokens) {
            (Some(batch), tokens) => {
                let pairs = if tokens == 0 { 1 } else { work.pairs };
                (self.per_step + self.per_token * batch + self.per_pair * pairs + experts).max(self.floor)
            }
            (None, 0) => experts.max(self.idle_floor),
            (None, tokens) => {
                let gpu = self.per_step + self.eager + self.per_token * tokens + self.per_pair * work.pairs;
                (gpu + experts).max(self.floor)
            }
        };
        works.iter().map(own).collect()
    }
}

/// A step in flight: of each rank its batch, and what it needs by itself.
struct Step {
    batches: Vec<Option<Batch>>,
    own: Vec<u64>,
    duration: u64,
    end: Picos,
}

#[derive(Default)]
struct Served {
    /// Times of the tokens of each request.
    tokens: BTreeMap<u64, Vec<Picos>>,
    account: LockStepAccount,
}

fn work(twin: &Twin<'_>, entries: Option<&Vec<Entry>>) -> Work {
    if entries.is_none() {
        return Work::default();
    }
    let load = &twin.load;
    let chunk = |chunk: &plimsoll::cost::Chunk| u64::from(chunk.new) * u64::from(chunk.computed + chunk.new);
    Work {
        tokens: load.tokens(),
        pairs: load.decode_kv_tokens + load.chunks.iter().map(chunk).sum::<u64>(),
        rows: u64::from(load.decode_seqs) + load.chunks.len() as u64,
        has_prompts: twin.record.mode != BatchMode::Decode,
    }
}

/// Serves each rank's requests to the end; `None` if a server dies.
fn serve(config: &SglangConfig, ranks: &[Vec<Request>], price: &Price) -> Option<Served> {
    let numbered = (0..).zip(ranks);
    let mut twins: Vec<Twin<'_>> = numbered
        .map(|(rank, sent)| Twin::new(config, sent, rank))
        .collect();
    let mut served = Served::default();
    served.account.ranks = ranks.len() as u32;
    let (mut now, mut gpu_free) = (Picos::ZERO, Picos::ZERO);
    let mut flying: VecDeque<Step> = VecDeque::new();
    let mut idle = 0;
    loop {
        let decided: Vec<Option<Vec<Entry>>> = twins.iter_mut().map(|twin| twin.pass(now)).collect();
        if idle > 2 || twins.iter().any(|twin| twin.died) {
            return None;
        }
        let launched = decided.iter().any(Option::is_some);
        if launched {
            let both = twins.iter().zip(&decided);
            let works: Vec<Work> = both.map(|(twin, entries)| work(twin, entries.as_ref())).collect();
            let own = price.shares(&works);
            let duration = *own.iter().max().unwrap();
            gpu_free = now.max(gpu_free) + Picos(duration);
            let end = gpu_free;
            let batch = |entries| Batch {
                entries,
                wasted: 0,
                end,
            };
            note_wasted(&mut twins, flying.back_mut());
            flying.push_back(Step {
                batches: decided.into_iter().map(|entries| entries.map(batch)).collect(),
                own,
                duration,
                end,
            });
        }
        if flying.len() > usize::from(config.overlap_schedule && launched) {
            let mut step = flying.pop_front().unwrap();
            twins
                .iter_mut()
                .for_each(|twin| twin.give_up_until(Picos(step.end.0 - 1)));
            note_wasted(&mut twins, flying.back_mut().into_iter().chain([&mut step]));
            now = step.end;
            end(&mut twins, &step, &mut served);
            twins.iter_mut().for_each(|twin| twin.give_up_until(now));
            note_wasted(&mut twins, flying.back_mut());
        } else if !launched {
            for twin in &mut twins {
                twin.rest();
                twin.hold = 0;
            }
            let is_empty = |twin: &Twin<'_>| twin.waiting.is_empty() && twin.running.is_empty();
            if !twins.iter().all(is_empty) {
                let left = twins.iter().any(|twin| twin.left);
                idle = if left { 0 } else { idle + 1 };
                continue;
            }
            let next = twins.iter().filter_map(|twin| twin.reqs.get(twin.arrived));
            let Some(next) = next.map(|req| req.arrival).min() else {
                return Some(served);
            };
            now = now.max(next);
        }
        idle = 0;
    }
}

/// Pages that are free with the result of the newest step of those in flight in which a rank computes.
fn note_wasted<'a>(twins: &mut [Twin<'_>], newest_first: impl IntoIterator<Item = &'a mut Step>) {
    for step in newest_first {
        for (twin, batch) in twins.iter_mut().zip(&mut step.batches) {
            if let Some(batch) = batch {
                batch.wasted += std::mem::take(&mut twin.wasted);
            }
        }
    }
    assert!(twins.iter().all(|twin| twin.wasted == 0));
}

fn end(twins: &mut [Twin<'_>], step: &Step, served: &mut Served) {
    let account = &mut served.account;
    account.steps += 1;
    account.stepping += Picos(step.duration);
    for ((twin, batch), own) in twins.iter_mut().zip(&step.batches).zip(&step.own) {
        let Some(batch) = batch else {
            account.dummies += 1;
            account.idle += u128::from(step.duration);
            continue;
        };
        account.waited += u128::from(step.duration - own);
        let before: Vec<u32> = twin.reqs.iter().map(|req| req.out).collect();
        twin.process(batch);
        for (req, before) in twin.reqs.iter().zip(before) {
            if req.out > before {
                served.tokens.entry(req.id.0).or_default().push(step.end);
            }
        }
    }
}

fn simulate(
    config: &SglangConfig,
    requests: &[Request],
    ranks: u32,
    policy: Policy,
    (price, logs): (Price, bool),
) -> (Seen, LockStepAccount, bool) {
    let costs = (0..ranks).map(|_| Box::new(price) as Box<dyn StepCost>);
    let mut simulation = Simulation::of_cluster(
        &config.clone().into(),
        costs.collect(),
        &ClusterSpec::of(ranks, policy),
        0,
        Frontend::default(),
        Given(Vec::from(requests).into_iter()),
    )
    .in_lock_step(LockStepSpec::Gathered(price.gathering), Box::new(price));
    if logs {
        simulation = simulation.logging();
    }
    let mut seen = Seen::default();
    let is_drained = simulation.advance(Until::DRAINED, &mut seen) == Pause::Drained;
    let account = simulation.lock_step().expect("ranks step together").clone();
    (seen, account, is_drained)
}

/// No graphs, a fine grid that ends early, a coarse one, and one that holds every batch.
const GRIDS: [&[u32]; 4] = [&[], &[1, 2, 3, 4], &[4, 16], &[1, 2, 4, 8, 16, 32, 64]];
/// The same of pieces.
const PIECES: [&[u32]; 3] = [
    &[],
    &[4, 8, 16, 32],
    &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096],
];

fn gatherings() -> impl Strategy<Value = Gathering> {
    let new = (0u64..40, any::<bool>()).prop_map(|(sums_up_to, converts_decodes)| Coordination {
        sums_up_to,
        converts_decodes,
    });
    (1u32..4, prop::option::of(new)).prop_map(|(gpus_a_rank, coordination)| Gathering {
        gpus_a_rank,
        coordination,
    })
}

prop_compose! {
    fn prices()(
        (per_step, per_token, per_pair) in (1u64..9, 0u64..3, 0u64..4),
        (floor, eager, idle_floor) in (0u64..14, 0u64..3, 0u64..12),
        (shared, per_shared_token, per_summed_token) in (0u64..3, 0u64..3, 0u64..3),
        (grid, pieces, per_row, piecewise) in (0usize..4, 0usize..3, 0u64..3, 0u64..3),
        gathering in gatherings(),
    ) -> Price {
        let ms = 1_000_000_000;
        Price {
            per_step: per_step * ms,
            per_token: per_token * 20_000_000,
            per_pair: per_pair * 13_000_001,
            floor: floor * ms,
            eager: eager * ms,
            idle_floor: idle_floor * ms,
            shared: shared * ms,
            per_shared_token: per_shared_token * 90_000_007,
            per_summed_token: per_summed_token * 50_000_003,
            per_row: per_row * 30_000_001,
            captured: GRIDS[grid],
            pieces: PIECES[pieces],
            piecewise: piecewise * ms,
            gathering,
        }
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::RoundRobin),
        (5u64..400).prop_map(|ms| Policy::ShortestQueue {
            watch_interval: Picos(ms * 1_000_000_000)
        }),
    ]
}

#[test]
fn ranks_in_lock_step_are_their_twin() {
    let strategy = (
        configs(),
        prop::collection::vec(wishes(), 1..60),
        2u32..5,
        policies(),
        prices(),
    );
    // Which rank a request was sent to is told when it ends, which it does not where a server dies.
    judge(
        draws(300),
        &strategy,
        0.03,
        |(config, wishes, ranks, policy, price)| {
            let config = SglangConfig {
                prefill_decode_interval: 0,
                ..config
            };
            agree(&config, &requests(wishes), ranks, policy, price)
        },
    );
}

fn agree(
    config: &SglangConfig,
    requests: &[Request],
    ranks: u32,
    policy: Policy,
    price: Price,
) -> Result<Verdict, TestCaseError> {
    let (seen, account, is_drained) = simulate(config, requests, ranks, policy, (price, false));
    if !is_drained {
        return Ok(Verdict::Excused);
    }
    prop_assert_eq!(seen.completions.len(), requests.len());
    let of_rank = |rank: u32| -> Vec<Request> {
        let is_mine = |request: &&Request| seen.completions[&request.id.0].replica == ReplicaId(rank);
        requests.iter().filter(is_mine).cloned().collect()
    };
    let by_rank: Vec<Vec<Request>> = (0..ranks).map(of_rank).collect();
    let Some(expected) = serve(config, &by_rank, &price) else {
        return Err(TestCaseError::fail("the twin dies, the engine does not"));
    };
    let mut gaps: BTreeMap<u64, u64> = BTreeMap::new();
    for request in requests {
        let got = &seen.completions[&request.id.0];
        let times = expected.tokens.get(&request.id.0).cloned().unwrap_or_default();
        prop_assert_eq!(got.output_tokens as usize, times.len(), "{:?}", request.id);
        prop_assert_eq!(got.first_token, times.first().copied(), "{:?}", request.id);
        let end = match got.outcome {
            Outcome::Completed => times.last().copied(),
            Outcome::TimedOut => request.deadline,
            _ => Some(got.end),
        };
        prop_assert_eq!(Some(got.end), end, "{:?}", request.id);
        for pair in times.windows(2) {
            *gaps.entry((pair[1] - pair[0]).0).or_default() += 1;
        }
    }
    let mut seen_gaps = seen.gaps.clone();
    seen_gaps.retain(|_, count| *count > 0);
    prop_assert_eq!(seen_gaps, gaps);
    // What stood beside prompts is told to people, and decides nothing.
    let told = LockStepAccount {
        with_prompts: account.with_prompts,
        beside_prompts: account.beside_prompts,
        ..expected.account
    };
    prop_assert_eq!(account, told);
    Ok(Verdict::Agree)
}

proptest! {
    #![proptest_config(draws(150))]
    /// A log keeps the first rank from leaping, and with it all: nothing else changes, whoever gives up and whatever version.
    #[test]
    fn leaping_in_lock_step_is_stepping(
        config in configs(), wishes in prop::collection::vec(wishes(), 1..60), ranks in 2u32..5,
        policy in policies(), price in prices(),
    ) {
        let config = SglangConfig { prefill_decode_interval: 0, ..config };
        let requests = requests(wishes);
        let (seen, account, is_drained) = simulate(&config, &requests, ranks, policy, (price, false));
        let (stepped, expected, was_drained) = simulate(&config, &requests, ranks, policy, (price, true));
        prop_assert_eq!(is_drained, was_drained);
        if is_drained {
            prop_assert_eq!(seen.completions.len(), requests.len());
            prop_assert_eq!(&seen.completions, &stepped.completions);
            let told = |seen: &Seen| -> BTreeMap<u64, u64> {
                seen.gaps.iter().filter(|gap| *gap.1 > 0).map(|(&gap, &count)| (gap, count)).collect()
            };
            prop_assert_eq!(told(&seen), told(&stepped));
            prop_assert_eq!(account, expected);
        }
    }
}

/// One rank prefills while the other decodes: its step is as long as the prefill and replays no graph, and the experts see
/// no padding.
#[test]
fn a_prompt_on_one_rank_holds_up_the_tokens_of_all() {
    let ms = 1_000_000_000;
    let price = Price {
        per_step: 10 * ms,
        per_token: ms / 10,
        per_pair: 0,
        floor: 0,
        eager: 5 * ms,
        idle_floor: 0,
        shared: 0,
        per_shared_token: ms / 100,
        per_summed_token: ms / 100,
        per_row: 0,
        captured: GRIDS[3],
        pieces: &[],
        piecewise: 0,
        gathering: Gathering {
            gpus_a_rank: 1,
            coordination: None,
        },
    };
    let config = SglangConfig {
        chunked_prefill_size: None,
        max_total_tokens: 8000,
        ..crate::sglang::server(8000, 1)
    };
    let wishes = vec![
        (0, 0, 0, 8, 40, 0, true, 0, None),
        (100_000, 0, 0, 4000, 1, 0, true, 0, None),
    ];
    let (seen, account, is_drained) =
        simulate(&config, &requests(wishes), 2, Policy::RoundRobin, (price, false));
    assert!(is_drained);
    // 10 ms and 5 without graphs, 0.1 ms for each of 4,000 tokens, 0.02 ms in the experts for these and one more.
    let held_up = 15 * ms + 400 * ms + 4001 * (ms / 50);
    assert!(seen.gaps.contains_key(&held_up), "{:?}", seen.gaps);
    // Otherwise a graph of one on both ranks: 10.1 ms, and 0.01 for each of the two.
    let alone = 10 * ms + ms / 10 + 2 * (ms / 100);
    assert_eq!(seen.gaps.get(&alone), Some(&38), "{:?}", seen.gaps);
    assert!(seen.steps_told < account.steps, "runs of steps are leapt over");
    // The other rank idled in all steps but one, and nobody stepped on after the last token.
    assert_eq!((account.steps, account.dummies), (40, 39), "{account:?}");
}

/// In 0.5.23 both replay the pieces of the largest, if the one that decodes could replay pieces of no more than twice its token.
#[test]
fn a_prompt_on_one_rank_makes_prompts_of_all_that_can_be() {
    let ms = 1_000_000_000;
    let longest_gap = |pieces: &'static [u32], converts_decodes: bool| {
        let price = Price {
            per_step: 10 * ms,
            per_token: ms / 10,
            per_pair: 0,
            floor: 0,
            eager: 5 * ms,
            idle_floor: 0,
            shared: 0,
            per_shared_token: ms / 100,
            per_summed_token: ms / 100,
            per_row: ms,
            captured: GRIDS[3],
            pieces,
            piecewise: 2 * ms,
            gathering: Gathering {
                gpus_a_rank: 1,
                coordination: Some(Coordination {
                    sums_up_to: 0,
                    converts_decodes,
                }),
            },
        };
        let config = SglangConfig {
            chunked_prefill_size: None,
            max_total_tokens: 8000,
            ..crate::sglang::server(8000, 1)
        };
        let wishes = vec![
            (0, 0, 0, 8, 40, 0, true, 0, None),
            (100_000, 0, 0, 4000, 1, 0, true, 0, None),
        ];
        let (seen, ..) = simulate(&config, &requests(wishes), 2, Policy::RoundRobin, (price, false));
        let gaps = seen.gaps.iter().filter(|gap| *gap.1 > 0);
        gaps.map(|(&gap, _)| gap)
            .max()
            .expect("tokens follow one another")
    };
    // 10 ms and 2, 0.1 ms for each of 4,096 tokens, 0.01 for those of both ranks, and two rows of logits.
    let together = 12 * ms + 4096 * (ms / 10) + 8192 * (ms / 100) + 2 * ms;
    assert_eq!(longest_gap(PIECES[2], true), together);
    // Kernel by kernel, as 0.5.4 does.
    let apart = 15 * ms + 400 * ms + 4001 * (ms / 50) + 2 * ms;
    assert_eq!(longest_gap(PIECES[2], false), apart);
    // The smallest pieces are four tokens, and 32 the largest.
    assert_eq!(longest_gap(PIECES[1], true), apart);
}
