//! Ranks that step together equal their naive twin, to the picosecond, in random scenarios.

use std::collections::BTreeMap;

use plimsoll::cluster::router::{DataParallelScore, Policy};
use plimsoll::cluster::{ClusterSpec, LockStepAccount, LockStepSpec};
use plimsoll::cost::{Breakdown, DecodeCost, Moved, SharedCost, StepCost, StepLoad};
use plimsoll::sim::{Frontend, Pause, Simulation, Until};
use plimsoll::units::Picos;

use crate::draws::Draw;
use crate::equality::{Fixed, MILLISECOND, Seen, draw_config, draw_requests, engine_config};
use crate::twin::ranks::{TwinRanks, TwinRanksRun, TwinShare, simulate_ranks};
use crate::twin::{Scheduled, TwinConfig, TwinRequest};

/// A step's price, by coefficient, in picoseconds.
#[derive(Clone, Copy, Debug)]
struct Price {
    per_step: u64,
    per_token: u64,
    per_pair: u64,
    per_longest: u64,
    /// Tokens of a context that decodes read at most.
    reads_at_most: Option<u32>,
    /// What reading the contexts of decodes takes at least.
    kv_floor: u64,
    floor: u64,
    shared: u64,
    per_shared_token: u64,
    /// Batches whose graphs were captured, ascending.
    captured: &'static [u64],
}

/// No graphs, a fine grid that ends early, a coarse one, and one that holds every batch.
const GRIDS: [&[u64]; 4] = [&[], &[1, 2, 3, 4], &[4, 16], &[1, 2, 4, 8, 16, 32, 64]];

impl Price {
    fn draw(draw: &mut Draw) -> Price {
        Price {
            per_step: u64::from(1 + draw.below(9)) * MILLISECOND,
            per_token: u64::from(draw.below(3)) * 20_000_000,
            per_pair: u64::from(draw.below(4)) * 13_000_001,
            per_longest: u64::from(draw.below(2)) * 7_000_003,
            reads_at_most: None,
            kv_floor: u64::from(draw.below(4)) * 1_100_000_011,
            floor: u64::from(draw.below(14)) * MILLISECOND,
            shared: u64::from(draw.below(3)) * MILLISECOND,
            per_shared_token: u64::from(draw.below(3)) * 90_000_007,
            captured: GRIDS[draw.below(4) as usize],
        }
    }

    fn twin(&self, share: &TwinShare<'_>) -> u64 {
        let one: u32 = u32::from(share.scheduled.is_empty());
        let own: u64 = share.scheduled.iter().map(|share| u64::from(share.2)).sum();
        let tokens = share.padded.unwrap_or(own.max(1));
        let (decodes, chunks): (Vec<Scheduled>, Vec<Scheduled>) =
            share.scheduled.iter().copied().partition(|share| share.2 == 1);
        let pairs = |shares: &[Scheduled]| -> u64 {
            let of = |&(_, computed, n): &Scheduled| u64::from(n) * u64::from(computed + n);
            shares.iter().map(of).sum()
        };
        let longest = decodes.iter().map(|share| share.1 + 1).max().unwrap_or(one);
        let unread = |share: &Scheduled| {
            let most = self.reads_at_most.unwrap_or(u32::MAX);
            u64::from((share.1 + 1).saturating_sub(most))
        };
        let read = pairs(&decodes) + u64::from(one) - decodes.iter().map(unread).sum::<u64>();
        let contexts = self.per_pair * read + self.per_longest * u64::from(longest);
        let gpu = self.per_step
            + self.per_token * tokens
            + self.per_pair * pairs(&chunks)
            + contexts.max(self.kv_floor)
            + self.shared
            + self.per_shared_token * share.all_tokens;
        gpu.max(self.floor)
    }
}

impl StepCost for Price {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        DecodeCost {
            base: Picos(self.per_step + self.per_token * u64::from(batch)),
            per_kv_token: Picos(self.per_pair),
            per_token_beyond: Picos(self.reads_at_most.map_or(0, |_| self.per_pair)),
            per_longest_token: Picos(self.per_longest),
            kv_floor: Picos(self.kv_floor),
            floor: Picos(self.floor),
        }
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        self.step_law(load).of(load)
    }

    fn step_law(&mut self, load: &StepLoad) -> DecodeCost {
        let mut law = self.decode(load.tokens() as u32);
        for chunk in &load.chunks {
            let pairs = u64::from(chunk.new) * u64::from(chunk.computed + chunk.new);
            law.base += Picos(self.per_pair * pairs);
        }
        law
    }

    fn reads_at_most(&self) -> Option<u32> {
        self.reads_at_most
    }

    fn replayed(&self, batch: u32) -> Option<u32> {
        let mut graphs = self.captured.iter().map(|&captured| captured as u32);
        graphs.find(|&captured| captured >= batch)
    }

    fn breakdown(&self, _: &StepLoad) -> Breakdown {
        Breakdown::default()
    }
}

impl SharedCost for Price {
    fn all_tokens(&mut self, tokens: u64, _: Moved) -> Picos {
        Picos(self.shared + self.per_shared_token * tokens)
    }

    fn all_rows(&mut self, _: u64) -> Picos {
        Picos::ZERO
    }
}

struct Case {
    config: TwinConfig,
    requests: Vec<TwinRequest>,
    ranks: u32,
    how: TwinRanks,
    price: Price,
}

impl Case {
    fn draw(seed: u64) -> Case {
        let mut draw = Draw::of(seed);
        let config = draw_config(&mut draw);
        let mut requests = draw_requests(&mut draw, false, false);
        requests.retain(|request| {
            let prompt: u32 = request.prompt.iter().map(|piece| piece.2).sum();
            prompt < config.max_model_len
        });
        let mut price = Price::draw(&mut draw);
        // Of every other case, in which a seed draws all else as before.
        price.reads_at_most = (seed.is_multiple_of(2)).then_some(1 + (seed / 2 % 40) as u32);
        Case {
            config,
            requests,
            ranks: 2 + draw.below(3),
            how: TwinRanks {
                sync_interval: u64::from(1 + draw.below(20)),
                captured: price.captured,
            },
            price,
        }
    }

    fn simulate(&self) -> (Seen, LockStepAccount) {
        let costs = (0..self.ranks).map(|_| Box::new(self.price) as Box<dyn StepCost>);
        let policy = Policy::VllmDataParallel(DataParallelScore::InFlight);
        let spec = LockStepSpec::Agreed {
            sync_interval: self.how.sync_interval,
        };
        let mut simulation = Simulation::of_cluster(
            &engine_config(&self.config).into(),
            costs.collect(),
            &ClusterSpec::of(self.ranks, policy),
            0,
            Frontend::default(),
            Fixed::new(&self.requests),
        )
        .in_lock_step(spec, Box::new(self.price));
        let mut seen = Seen::default();
        let pause = simulation.advance(Until::DRAINED, &mut seen);
        assert_eq!(pause, Pause::Drained);
        let account = simulation.lock_step().expect("ranks step together").clone();
        (seen, account)
    }

    /// The twin, with the ranks that the balancer chose.
    fn twin(&self, seen: &Seen) -> TwinRanksRun {
        let of_rank = |rank: u32| {
            let own = self.requests.iter();
            own.filter(|request| seen.completions[&request.id].replica.0 == rank)
                .cloned()
                .collect()
        };
        let ranks: Vec<Vec<TwinRequest>> = (0..self.ranks).map(of_rank).collect();
        simulate_ranks(&self.config, &ranks, self.how, &mut |share| {
            self.price.twin(share)
        })
    }
}

#[test]
fn ranks_in_lock_step_are_their_twin() {
    let (mut leapt, mut waited, mut idled, mut padded) = (0, 0, 0, 0);
    for seed in 1..=300 {
        let case = Case::draw(seed);
        let (seen, account) = case.simulate();
        let expected = case.twin(&seen);
        let name = format!("seed {seed}");
        let mut gaps: BTreeMap<u64, u64> = BTreeMap::new();
        for outcome in expected.outcomes.iter().flatten() {
            let got = &seen.completions[&outcome.id];
            let times: Vec<Picos> = outcome.token_times_ps.iter().map(|&at| Picos(at)).collect();
            let twin = (
                times.first().copied(),
                times.last().copied(),
                times.len(),
                outcome.preemptions,
                outcome.cached_tokens.unwrap_or(0),
            );
            let engine = (
                got.first_token,
                Some(got.end),
                got.output_tokens as usize,
                got.preemptions,
                got.cached_tokens,
            );
            assert_eq!(
                engine, twin,
                "{name}, request {}: engine against twin",
                outcome.id
            );
            for pair in outcome.token_times_ps.windows(2) {
                *gaps.entry(pair[1] - pair[0]).or_default() += 1;
            }
        }
        let mut seen_gaps = seen.gaps.clone();
        seen_gaps.retain(|_, count| *count > 0);
        assert_eq!(seen_gaps, gaps, "{name}: gaps between tokens");
        let twin = LockStepAccount {
            ranks: case.ranks,
            steps: expected.steps,
            stepping: Picos(expected.stepping_ps),
            dummies: expected.dummies,
            idle: expected.idle_ps,
            waited: expected.waited_ps,
            // What stood beside prompts is told to people, and decides nothing.
            ..account.clone()
        };
        assert_eq!(account, twin, "{name}: what lock-step cost");
        leapt += u64::from(seen.steps_told < account.steps);
        waited += u64::from(account.waited > 0);
        idled += u64::from(account.dummies > 0);
        padded += u64::from(!case.how.captured.is_empty());
    }
    let reached = [leapt, waited, idled, padded];
    assert!(reached.iter().all(|&cases| cases > 60), "{reached:?}");
}

/// One rank prefills, the other decodes: its tokens wait for the prefill (DP-2).
#[test]
fn a_prefill_on_one_rank_delays_tokens_on_the_other() {
    let mut config = TwinConfig::v33();
    config.queue_depth = 1;
    let request = |id: u64, arrival_ms: u64, prompt: u32, output_tokens: u32| TwinRequest {
        id,
        arrival_ps: arrival_ms * MILLISECOND,
        prompt: vec![(id, 0, prompt)],
        output_tokens,
        output_segment: 500 + id,
        ends_by_eos: false,
        priority: 0,
        abort_at: None,
        accepted: Vec::new(),
        proposed: None,
    };
    let case = Case {
        config,
        requests: vec![request(0, 0, 8, 40), request(1, 100, 4000, 1)],
        ranks: 2,
        how: TwinRanks {
            sync_interval: 16,
            captured: GRIDS[3],
        },
        price: Price {
            per_step: 10 * MILLISECOND,
            per_token: MILLISECOND / 10,
            per_pair: 0,
            per_longest: 0,
            reads_at_most: None,
            kv_floor: 0,
            floor: 0,
            shared: 0,
            per_shared_token: 0,
            captured: GRIDS[3],
        },
    };
    let (seen, account) = case.simulate();
    assert_eq!(
        seen.completions[&1].replica.0, 1,
        "the balancer sends it to the idle rank"
    );
    // 10 ms and 0.1 ms for each of 4,000 tokens: the decoding rank's token comes after 410 ms instead of 10.1.
    assert!(seen.gaps.contains_key(&(410 * MILLISECOND)), "{:?}", seen.gaps);
    assert_eq!(
        account.waited,
        u128::from(410 * MILLISECOND - 101 * MILLISECOND / 10)
    );
    // The other rank had nothing to do in every other step, and the two agreed after a multiple of 16 of them.
    assert!(account.steps.is_multiple_of(16), "{account:?}");
    assert_eq!(account.dummies, 2 * account.steps - 41);
}
