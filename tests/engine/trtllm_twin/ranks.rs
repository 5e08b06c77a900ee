//! Ranks of TensorRT-LLM with attention of their own equal a naive twin, to the picosecond, in random scenarios.
//!
//! The twin goes round all ranks' loops once an iteration, as `_executor_loop` and `_executor_loop_overlap` do: `fetch_new_requests`,
//! `_pad_attention_dp_dummy_request`, `_schedule` with `_balance_adp_requests`, `_can_queue`, the padding of `CUDAGraphRunner`, one forward pass,
//! and the results of the step before. Where it departs: where nobody launches, ranks process the step in flight before they decide anew, also
//! those that have decided; and whose loop is blocked takes all that have come by then, not the first alone.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{AttentionDp, Balance, ClusterSpec, LockStepAccount, LockStepSpec};
use plimsoll::cost::{Breakdown, DecodeCost, Moved, SharedCost, StepCost, StepLoad};
use plimsoll::engine::EngineSpec;
use plimsoll::engine::trtllm::{CapacityPolicy, TrtllmConfig};
use plimsoll::sim::{Frontend, Outcome, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::random::{engines, requests, wishes};
use super::{Share, World};
use crate::draws::draws;
use crate::equality::Seen;
use crate::given::Given;

/// A step's price, by coefficient, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Price {
    /// Of a graph, and of kernels that are launched one by one.
    per_step: u64,
    per_launches: u64,
    per_token: u64,
    per_pair: u64,
    per_shared_token: u64,
    captured: &'static [u32],
    pads: bool,
}

const GRIDS: [&[u32]; 4] = [&[], &[1, 2, 3, 4], &[2, 4, 8], &[1, 2, 4, 8]];

impl Price {
    fn law(&self, base: u64, tokens: u64) -> DecodeCost {
        DecodeCost {
            base: Picos(base + self.per_token * tokens),
            per_kv_token: Picos(self.per_pair),
            ..DecodeCost::default()
        }
    }

    fn holding(&self, batch: u32) -> Option<u32> {
        self.captured.iter().copied().find(|&size| size >= batch)
    }
}

impl StepCost for Price {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        self.law(self.per_step, batch.into())
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.eager_law(load).of(load)
    }

    fn eager_law(&mut self, load: &StepLoad) -> DecodeCost {
        let mut law = self.law(self.per_launches, load.tokens());
        for chunk in &load.chunks {
            law.base += Picos(self.per_pair * u64::from(chunk.new) * u64::from(chunk.computed + chunk.new));
        }
        law
    }

    fn replayed(&self, batch: u32) -> Option<u32> {
        self.holding(batch).filter(|&size| self.pads || size == batch)
    }

    fn breakdown(&self, _: &StepLoad) -> Breakdown {
        Breakdown::default()
    }
}

impl SharedCost for Price {
    fn all_tokens(&mut self, tokens: u64, _: Moved) -> Picos {
        Picos(self.per_shared_token * tokens)
    }

    fn all_rows(&mut self, _: u64) -> Picos {
        Picos::ZERO
    }
}

/// What the executors of all ranks share.
struct Ranks<'a> {
    config: &'a TrtllmConfig,
    how: AttentionDp,
    price: Price,
    worlds: Vec<World<'a>>,
    /// `waiting_queue`.
    waiting: Vec<usize>,
    /// What each rank computes, how long it takes, and when it ends.
    in_flight: VecDeque<(Vec<Vec<Share>>, u64, u64)>,
    now: u64,
    gpu_free: u64,
    waiting_iters: u32,
    batching_iters: u32,
    account: LockStepAccount,
    /// Iterations in which nobody launched beside a step in flight, and in which prompts were put off.
    stalls: u32,
    put_off: u32,
    /// Each rank's own share of the steps in flight.
    shares: VecDeque<Vec<Option<u64>>>,
}

impl Ranks<'_> {
    /// `_fetch_new_requests_attention_dp`.
    fn fetch(&mut self) {
        let mut counts: Vec<usize> = self.worlds.iter().map(|world| world.active.len()).collect();
        let prompt = |world: &World<'_>, at: usize| u64::from(world.seqs[at].request.prompt_tokens);
        let tokens = |world: &World<'_>| world.active.iter().map(|&at| prompt(world, at)).sum();
        let mut tokens: Vec<u64> = self.worlds.iter().map(tokens).collect();
        let ranks = counts.len();
        let seats = ranks * self.config.max_batch_size as usize - counts.iter().sum::<usize>();
        let mut new: Vec<usize> = self.waiting.drain(..seats.min(self.waiting.len())).collect();
        let all = counts.iter().sum::<usize>() + new.len();
        let expected = all
            .div_ceil(ranks)
            .max(*counts.iter().max().expect("there are ranks"));
        new.sort_by_key(|&at| std::cmp::Reverse(prompt(&self.worlds[0], at)));
        for at in new {
            let open = (0..ranks).filter(|&rank| counts[rank] < expected);
            let rank = open.min_by_key(|&rank| (tokens[rank], counts[rank], rank));
            let rank = rank.expect("there is a seat");
            counts[rank] += 1;
            tokens[rank] += prompt(&self.worlds[0], at);
            self.worlds[rank].active.push(at);
        }
    }

    /// Contexts and generations that each rank would schedule, its dummy among them.
    fn at_hand(&self) -> Vec<(usize, usize)> {
        let of = |world: &World<'_>| {
            if world.active.is_empty() {
                return (0, 1);
            }
            let is_static = self.config.capacity_scheduler_policy == CapacityPolicy::StaticBatch;
            let (contexts, decodes) = world.micro_batch(&world.whole_sequences_fit(is_static));
            (contexts.len(), decodes.len())
        };
        self.worlds.iter().map(of).collect()
    }

    /// `_balance_adp_requests`.
    fn puts_off(&mut self, at_hand: &[(usize, usize)]) -> bool {
        let Some(balance) = self.how.balance else {
            return false;
        };
        let have_seats = at_hand
            .iter()
            .all(|rank| rank.1 < self.config.max_batch_size as usize);
        let have_contexts = at_hand.iter().all(|rank| rank.0 > 0);
        let have_generations = at_hand.iter().all(|rank| rank.1 > 0);
        if have_seats && have_contexts {
            self.waiting_iters = 0;
            if !have_generations {
                return false;
            }
            if self.batching_iters < balance.batching_wait_iters {
                self.batching_iters += 1;
                return true;
            }
            self.batching_iters = 0;
            return false;
        }
        self.waiting_iters += 1;
        if self.waiting_iters >= balance.timeout_iters || !have_generations {
            self.waiting_iters = 0;
            return false;
        }
        true
    }

    /// One forward pass of all.
    fn launch(&mut self, put_off: bool) {
        let mut shares = Vec::new();
        let mut loads = Vec::new();
        for world in &mut self.worlds {
            (world.now, world.are_put_off) = (Picos(self.now), put_off);
            let own = match world.active.is_empty() {
                true => Vec::new(),
                false => world.schedule(),
            };
            loads.push(world.compute(&own));
            shares.push(own);
        }
        let is_gen = |load: &StepLoad| load.chunks.is_empty() && load.sampled_rows == load.decode_seqs;
        let batch = |load: &StepLoad| load.decode_seqs.max(1);
        let all_gen = loads.iter().all(is_gen);
        let largest = loads.iter().map(batch).max().expect("there are ranks");
        let price = self.price;
        // `_get_padded_batch`, then `maybe_get_cuda_graph`.
        let padded = |load: &StepLoad| {
            let own = batch(load);
            let wanted = if all_gen { largest } else { own };
            match price.holding(wanted) {
                Some(size) if price.pads && is_gen(load) => size,
                _ => own,
            }
        };
        let rows: Vec<u64> = loads
            .iter()
            .map(|load| {
                if is_gen(load) {
                    padded(load).into()
                } else {
                    load.tokens()
                }
            })
            .collect();
        let replays = all_gen
            && rows.iter().all(|&own| own == rows[0])
            && price.captured.iter().any(|&size| u64::from(size) == rows[0]);
        let common = price.per_shared_token * rows.iter().sum::<u64>();
        let own = |(load, &rows): (&StepLoad, &u64)| {
            let chunks: u64 = load
                .chunks
                .iter()
                .map(|chunk| u64::from(chunk.new) * u64::from(chunk.computed + chunk.new))
                .sum();
            let dummy = u64::from(load.tokens() == 0);
            // A graph of the largest batch is priced as that here, whatever it was captured for.
            let (base, rows) = match replays {
                true => (price.per_step, u64::from(largest)),
                false => (price.per_launches, rows),
            };
            let pairs = chunks + load.decode_kv_tokens + dummy;
            base + price.per_token * rows + price.per_pair * pairs + common
        };
        let own: Vec<u64> = loads.iter().zip(&rows).map(own).collect();
        let duration = *own.iter().max().expect("there are ranks");
        let works = |(own, load): (&u64, &StepLoad)| (load.tokens() > 0).then_some(*own);
        self.shares.push_back(own.iter().zip(&loads).map(works).collect());
        self.gpu_free = self.gpu_free.max(self.now) + duration;
        self.in_flight.push_back((shares, duration, self.gpu_free));
    }

    /// What the oldest step cost, which took so long.
    fn count(&mut self, duration: u64) {
        self.account.steps += 1;
        self.account.stepping += Picos(duration);
        for own in self.shares.pop_front().expect("a step has shares") {
            match own {
                Some(own) => self.account.waited += u128::from(duration - own),
                None => {
                    self.account.dummies += 1;
                    self.account.idle += u128::from(duration);
                }
            }
        }
    }

    /// Whoever waits has given up by `now`.
    fn abort_waiting(&mut self) {
        let now = Picos(self.now);
        let (seqs, waiting) = (&mut self.worlds[0].seqs, &mut self.waiting);
        waiting.retain(|&at| {
            let deadline = seqs[at].request.deadline.filter(|&when| when <= now);
            if let Some(when) = deadline {
                seqs[at].end = Some((Outcome::TimedOut, when));
            }
            deadline.is_none()
        });
    }

    fn serve(&mut self, requests: &[Request]) {
        let depth = if self.config.overlap_scheduler { 2 } else { 1 };
        let mut arrived = 0;
        loop {
            while arrived < requests.len() && requests[arrived].arrival.0 <= self.now {
                if self.worlds[0].seqs[arrived].end.is_none() {
                    self.waiting.push(arrived);
                }
                arrived += 1;
            }
            self.abort_waiting();
            for world in &mut self.worlds {
                world.abort(Picos(self.now + 1));
            }
            self.fetch();
            if self.worlds.iter().any(|world| !world.active.is_empty()) {
                let at_hand = self.at_hand();
                let put_off = self.puts_off(&at_hand);
                // `_can_queue`.
                if at_hand.iter().all(|rank| rank.0 + rank.1 > 0) {
                    self.put_off += u32::from(put_off && at_hand.iter().any(|rank| rank.0 > 0));
                    self.launch(put_off);
                    if self.in_flight.len() < depth {
                        continue;
                    }
                } else {
                    self.stalls += 1;
                }
            }
            let Some((shares, duration, end)) = self.in_flight.pop_front() else {
                let Some(next) = requests.get(arrived) else {
                    break;
                };
                self.now = next.arrival.0;
                continue;
            };
            self.count(duration);
            self.now = end;
            for (world, shares) in self.worlds.iter_mut().zip(shares) {
                world.now = Picos(end);
                world.abort(Picos(end));
                world.process(&super::Launched {
                    shares,
                    end: Picos(end),
                });
            }
        }
        assert!(self.worlds.iter().all(|world| world.active.is_empty()));
    }
}

#[derive(Debug)]
struct Case {
    config: TrtllmConfig,
    ranks: u32,
    how: AttentionDp,
    price: Price,
    requests: Vec<Request>,
}

prop_compose! {
    fn cases()(
        (engine, wishes) in (engines(), prop::collection::vec(wishes(), 1..30)),
        ranks in 2u32..5,
        balance in prop_oneof![
            2 => Just(None),
            1 => (0u32..9, 0u32..5).prop_map(Some),
        ],
        (grid, pads) in (0usize..4, any::<bool>()),
        (per_step, per_launches, per_token) in (1u64..9, 1u64..9, 0u64..3),
        (per_pair, per_shared_token) in (0u64..4, 0u64..3),
    ) -> Case {
        let config = TrtllmConfig {
            capacity_scheduler_policy: match engine.capacity_scheduler_policy {
                CapacityPolicy::MaxUtilization => CapacityPolicy::GuaranteedNoEvict,
                other => other,
            },
            batch_wait_iters: 0,
            batch_wait_tokens: 0,
            ..engine
        };
        let how = AttentionDp {
            max_batch_size: config.max_batch_size,
            pads,
            balance: balance.map(|(timeout_iters, batching_wait_iters)| Balance { timeout_iters, batching_wait_iters }),
        };
        let price = Price {
            per_step: per_step * 1_000_000_000,
            per_launches: (per_step + per_launches) * 1_000_000_000,
            per_token: per_token * 20_000_000,
            per_pair: per_pair * 13_000_001,
            per_shared_token: per_shared_token * 90_000_007,
            captured: GRIDS[grid],
            pads,
        };
        Case { config, ranks, how, price, requests: requests(wishes) }
    }
}

impl Case {
    fn simulate(&self) -> (Seen, LockStepAccount) {
        let costs = (0..self.ranks).map(|_| Box::new(self.price) as Box<dyn StepCost>);
        let mut simulation = Simulation::of_cluster(
            &EngineSpec::Trtllm(self.config.clone()),
            costs.collect(),
            &ClusterSpec::of(self.ranks, Policy::RoundRobin),
            0,
            Frontend::default(),
            Given(self.requests.clone().into_iter()),
        )
        .in_lock_step(LockStepSpec::Attending(self.how), Box::new(self.price));
        let mut seen = Seen::default();
        assert_eq!(simulation.advance(Until::DRAINED, &mut seen), Pause::Drained);
        let account = simulation.lock_step().expect("ranks step together").clone();
        (seen, account)
    }

    fn twin(&self) -> Ranks<'_> {
        let mut twin = Ranks {
            config: &self.config,
            how: self.how,
            price: self.price,
            worlds: (0..self.ranks)
                .map(|_| World::of(&self.config, &self.requests))
                .collect(),
            waiting: Vec::new(),
            in_flight: VecDeque::new(),
            now: 0,
            gpu_free: 0,
            waiting_iters: 0,
            batching_iters: 0,
            account: LockStepAccount {
                ranks: self.ranks,
                ..LockStepAccount::default()
            },
            stalls: 0,
            put_off: 0,
            shares: VecDeque::new(),
        };
        twin.serve(&self.requests);
        twin
    }
}

#[test]
fn ranks_of_tensorrt_llm_are_their_twin() {
    let reached = [const { Cell::new(0u32) }; 5];
    let judged = TestRunner::new(draws(1500)).run(&cases(), |case| {
        let twin = case.twin();
        let (seen, account) = case.simulate();
        let mut gaps: BTreeMap<u64, u64> = BTreeMap::new();
        for id in 0..case.requests.len() {
            let ended = twin.worlds.iter().find(|world| world.seqs[id].end.is_some());
            let seq = &ended.expect("everybody ends").seqs[id];
            for pair in seq.had.windows(2) {
                *gaps.entry((pair[1] - pair[0]).0).or_default() += 1;
            }
            let got = &seen.completions[&(id as u64)];
            prop_assert_eq!(Some((got.outcome, got.end)), seq.end, "request {}", id);
            prop_assert_eq!(got.first_token, seq.had.first().copied(), "request {}", id);
            prop_assert_eq!(got.output_tokens as usize, seq.had.len());
        }
        let mut seen_gaps = seen.gaps.clone();
        seen_gaps.retain(|_, count| *count > 0);
        prop_assert_eq!(seen_gaps, gaps);
        let expected = LockStepAccount {
            // What stood beside prompts is told to people, and decides nothing.
            with_prompts: account.with_prompts,
            beside_prompts: account.beside_prompts,
            ..twin.account.clone()
        };
        prop_assert_eq!(&account, &expected);
        let has = [
            twin.stalls > 0,
            twin.put_off > 0,
            seen.steps_told < account.steps,
            account.dummies > 0,
            account.waited > 0,
        ];
        for (reached, has) in reached.iter().zip(has) {
            reached.set(reached.get() + u32::from(has));
        }
        Ok(())
    });
    if let Err(error) = judged {
        panic!("{error}");
    }
    let reached: Vec<u32> = reached.iter().map(Cell::get).collect();
    assert!(reached.iter().all(|&cases| cases > 20), "{reached:?}");
}
