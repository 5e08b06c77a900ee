//! What goes in comes out: requests, time, tokens, blocks.

use std::cell::Cell;

use plimsoll::engine::lmcache::{LmcacheConfig, TierConfig};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::kv::CachePolicy;
use plimsoll::metrics::{Recorder, Records};
use plimsoll::sim::{Fact, Observer, Outcome, Until};
use plimsoll::units::{Bytes, BytesPerSec, PICOS_PER_SECOND, Picos};
use plimsoll::workload::{Generator, Request, Traffic};
use proptest::prelude::*;

use crate::common::{recorder, request};
use crate::ledger::Ledger;
use crate::scenario::{Experiment, Nobody};

/// Traffic, and when all of it has left one more request of one token.
struct AndOneMore<'a> {
    traffic: Generator,
    inside: u64,
    sent: u64,
    last_end: Picos,
    /// When the last one is sent.
    last_sent: &'a Cell<Option<Picos>>,
}

impl Traffic for AndOneMore<'_> {
    fn next_arrival(&mut self) -> Option<Picos> {
        let is_last = self.inside == 0 && self.last_sent.get().is_none();
        let last = is_last.then_some(self.last_end + Picos(PICOS_PER_SECOND));
        self.traffic.next_arrival().or(last)
    }

    fn take(&mut self) -> Request {
        self.inside += 1;
        self.sent += 1;
        if self.traffic.next_arrival().is_some() {
            return self.traffic.take();
        }
        let arrival = self.last_end + Picos(PICOS_PER_SECOND);
        self.last_sent.set(Some(arrival));
        Request {
            output_segment: SegmentId(u64::MAX),
            class: 0,
            ignore_eos: true,
            ..request(self.sent - 1, arrival, 1, 1)
        }
    }

    fn ended(&mut self, id: RequestId, now: Picos) {
        self.inside -= 1;
        self.last_end = now;
        if self.last_sent.get().is_none() {
            self.traffic.ended(id, now);
        }
    }

    fn failed(&mut self, id: RequestId, now: Picos) {
        self.inside -= 1;
        self.last_end = now;
        if self.last_sent.get().is_none() {
            self.traffic.failed(id, now);
        }
    }
}

/// A little host memory and a disk beside the GPU.
fn small_tiers(seed: u64) -> LmcacheConfig {
    let rate = BytesPerSec(1e6);
    LmcacheConfig {
        chunk_size: 4 + (seed / 3 % 13) as u32,
        save_unfull_chunk: seed.is_multiple_of(2),
        save_decode_cache: false,
        min_retrieve_tokens: 0,
        cache_policy: CachePolicy::Lru,
        enable_async_loading: false,
        layers: None,
        bytes_per_token: Bytes(100),
        ranks: 1,
        lookup_latency: Picos(400_000_000),
        load_bandwidth: rate,
        store_bandwidth: rate,
        host: Some(Bytes(10_000)),
        disk: Some(TierConfig {
            capacity: Bytes(30_000),
            read_bandwidth: rate,
            write_bandwidth: rate,
            latency: Picos(100_000_000),
        }),
        remote: None,
    }
}

/// Tells two observers.
struct Both<'a>(&'a mut Ledger, &'a mut Recorder);

impl Observer for Both<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.0.observe(fact);
        self.1.observe(fact);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_books_of_any_run_balance(seed in any::<u64>()) {
        let experiment = Experiment::draw(seed);
        let mut ledger = Ledger::new(&experiment.engine);
        let mut recorder = recorder(&experiment.engine, Records::WithItls);
        let last_sent = Cell::new(None);
        let traffic = AndOneMore {
            traffic: Generator::new(&experiment.spec, experiment.seed),
            inside: 0,
            sent: 0,
            last_end: Picos::ZERO,
            last_sent: &last_sent,
        };
        let mut simulation = experiment.simulation_of(traffic);
        let speculates = experiment.engine.speculation.is_some();
        if seed % 3 == 0 && !speculates && experiment.engine.stages == 1 {
            simulation = simulation.with_tiers(&small_tiers(seed));
        }
        simulation.advance(Until::DRAINED, &mut Both(&mut ledger, &mut recorder));
        ledger.balance();
        prop_assert!(last_sent.get().is_some_and(|at| ledger.alone_at() >= at), "the last one was seen alone");
        let counts = simulation.counts();
        prop_assert_eq!(counts.sent, counts.ended);
        prop_assert_eq!(counts.sent, ledger.arrived());
        let seen = recorder.finish(simulation.now());
        prop_assert_eq!(seen.violations, Vec::<String>::new());
        let whole = &seen.whole;
        prop_assert_eq!(whole.sent, whole.completed + whole.rejected + whole.timed_out);
        prop_assert!(whole.occupancy.kv_usage >= 0.0 && whole.occupancy.kv_usage_max <= 1.0);
        prop_assert!(whole.occupancy.busy <= 1.0 + 1e-9);
        for record in seen.records.expect("asked for") {
            let story = &record.completion;
            let gaps = story.output_tokens.saturating_sub(1);
            let waits = record.itls_s.len() as u32;
            match &experiment.engine.speculation {
                None => prop_assert_eq!(waits, gaps),
                // Tokens of one verification come together, and in 0.11 the last chunk of a prompt may carry drafts, too.
                Some(speculation) => {
                    prop_assert!(waits <= gaps);
                    let most = (waits + 1) * (1 + speculation.drafts);
                    prop_assert!(story.outcome != Outcome::Completed || story.output_tokens <= most);
                }
            }
            if let Some(first) = story.first_token {
                let decoding: f64 = record.itls_s.iter().sum();
                if story.outcome == Outcome::Completed {
                    prop_assert!((decoding - (story.end - first).seconds()).abs() < 1e-9, "gaps add up");
                }
            }
        }
    }

    #[test]
    fn who_listens_changes_nothing(seed in any::<u64>()) {
        let experiment = Experiment::draw(seed);
        let alone = experiment.drain(&mut Nobody);
        let mut recorder = recorder(&experiment.engine, Records::WithItls);
        let observed = experiment.drain(&mut recorder);
        prop_assert_eq!((alone.now(), alone.counts()), (observed.now(), observed.counts()));
    }

    #[test]
    fn a_run_that_is_stopped_and_resumed_is_the_same_run(seed in any::<u64>()) {
        let experiment = Experiment::draw(seed);
        let mut whole = Ledger::new(&experiment.engine);
        let drained = experiment.drain(&mut whole);
        let mut parts = Ledger::new(&experiment.engine);
        let mut simulation = experiment.simulation();
        for stop in 1..40_u64 {
            let until = Until { ended: u64::MAX, time: Picos(stop * 37_000_000_000) };
            simulation.advance(until, &mut parts);
            prop_assert!(simulation.now() <= until.time);
        }
        simulation.advance(Until::DRAINED, &mut parts);
        parts.balance();
        prop_assert_eq!((drained.now(), drained.counts()), (simulation.now(), simulation.counts()));
        prop_assert_eq!(whole.now(), parts.now());
    }
}
