//! What a scheduler tells of its load: to whoever asks (0.5.4, `Scheduler.get_load`), or by itself (0.5.23,
//! `Scheduler.publish_load_snapshot`, `SchedulerLoadInquirer.get_loads`; SG-49).
//!
//! Both count the running batch and the queue. Whoever is in the prefill batch that was launched last, or waits for the
//! next chunk of its prompt, stands in neither, so the engine counts nobody of them; nor do we.
//!
//! Version 0.5.23 writes a snapshot before it processes a result: always of a batch with prompts, of decodes each
//! [`PUBLISH_INTERVAL`]th; and again and again while it idles. In a leap the last snapshot of the run is solved for. With the
//! tokens that wait a snapshot costs O(queue), as in the engine; only a server whose balancer reads it writes any.

use super::batch::BatchMode;
use super::replica::SglangReplica;
use crate::engine::leap::progression;
use crate::units::Picos;

/// Results of decodes from one snapshot to the next (0.5.23, `load_snapshot_publish_interval`).
pub const PUBLISH_INTERVAL: u32 = 15;

/// What a scheduler says of its load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadSnapshot {
    /// When it said so.
    pub at: Picos,
    /// Requests in the running batch and in the queue.
    pub requests: u32,
    /// Tokens of KV that requests hold, and known tokens of those in the queue.
    pub tokens: u64,
}

/// Snapshots, as they were written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publisher {
    interval: u32,
    /// Results of decodes since the last snapshot.
    results: u32,
    last: LoadSnapshot,
}

impl SglangReplica {
    /// Writes snapshots from now on, of decodes with each `interval`th result.
    pub(crate) fn publish_loads(&mut self, interval: u32) {
        self.publisher = Some(Publisher {
            interval,
            results: 0,
            last: LoadSnapshot::default(),
        });
    }

    /// What a balancer that looks at `now` reads: the last snapshot, or the answer of one that writes none.
    pub(crate) fn load_snapshot(&self, now: Picos) -> LoadSnapshot {
        match &self.publisher {
            Some(publisher) if !self.idles() => publisher.last,
            _ => {
                // A question is answered behind the requests that were sent before it.
                let due = self.inbox.iter().take_while(|&&(at, _)| at <= now).count() as u32;
                let snapshot = self.count_load(now);
                match self.publisher {
                    Some(_) => snapshot,
                    None => LoadSnapshot {
                        requests: snapshot.requests + due,
                        ..snapshot
                    },
                }
            }
        }
    }

    /// Writes down what a loop that idled until `now` has told; it then drains its inputs.
    pub(super) fn publish_idle(&mut self, now: Picos) {
        if self.publisher.is_some() && self.idles() && now > self.last_end {
            self.write_snapshot(self.count_load(now));
        }
    }

    /// Before the result of a batch is processed, at `now`.
    pub(super) fn publish_result(&mut self, mode: BatchMode, now: Picos) {
        let Some(publisher) = &mut self.publisher else {
            return;
        };
        if mode == BatchMode::Decode {
            publisher.results += 1;
            if publisher.results < publisher.interval {
                return;
            }
        }
        self.write_snapshot(self.count_load(now));
    }

    /// The same for the next `steps` results of a run of decode steps, before any of them.
    pub(super) fn publish_run(&mut self, steps: u64, increment: Picos) {
        let Some(publisher) = self.publisher else {
            return;
        };
        let (results, interval) = (
            u64::from(publisher.results) + steps,
            u64::from(publisher.interval),
        );
        let (rest, page) = (results % interval, u64::from(self.config.page_size));
        if results >= interval {
            let step = steps - rest;
            let front = self.in_flight.front().expect("a plain run has a batch in flight");
            let at = front.begin + progression(front.duration, increment, step);
            let mut snapshot = self.count_load(at);
            // By then the loop has decided all but the last of these steps anew.
            snapshot.tokens += self.packed.pages_for(step - 1) * page;
            self.write_snapshot(snapshot);
        }
        let publisher = self.publisher.as_mut().expect("it was just looked at");
        publisher.results = rest as u32;
    }

    /// Nobody is here whom the loop knows.
    fn idles(&self) -> bool {
        self.in_flight.is_empty()
            && self.running.is_empty()
            && self.waiting.is_empty()
            && self.chunked.is_none()
    }

    fn count_load(&self, at: Picos) -> LoadSnapshot {
        let used = u64::from(self.total_blocks() - self.reported_free()) * u64::from(self.config.page_size);
        let waiting = self.waiting.iter();
        let queued: u64 = waiting.map(|&slot| u64::from(self.sequences[slot].known())).sum();
        LoadSnapshot {
            at,
            requests: (self.running.len() + self.waiting.len()) as u32,
            tokens: used + queued,
        }
    }

    fn write_snapshot(&mut self, snapshot: LoadSnapshot) {
        if let Some(publisher) = &mut self.publisher {
            (publisher.last, publisher.results) = (snapshot, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::linear::LinearCost;
    use crate::engine::sglang::{QueuePolicy, SglangConfig, SglangSwitches};
    use crate::facts::{Fact, Observer};
    use crate::ids::{ReplicaId, RequestId, SegmentId};
    use crate::workload::{Prompt, Request};
    use proptest::prelude::*;

    struct Nobody;

    impl Observer for Nobody {
        fn observe(&mut self, _: &Fact<'_>) {}
    }

    fn engine(overlap: bool, page_size: u32, pool: u32, stepwise: bool) -> SglangReplica {
        let config = SglangConfig {
            profile: "sglang@0.5.23".into(),
            context_length: 400,
            max_running_requests: 6,
            chunked_prefill_size: Some(64),
            max_prefill_tokens: 16384,
            prefill_decode_interval: 0,
            prefill_max_requests: None,
            policy: QueuePolicy::Fcfs,
            priority: None,
            page_size,
            max_total_tokens: pool * page_size,
            radix_cache: true,
            enable_mixed_chunk: false,
            overlap_schedule: overlap,
            init_new_token_ratio: 0.0,
            min_new_token_ratio: 0.0,
            new_token_ratio_decay: 0.0,
            max_queued_requests: None,
            drafts: None,
            switches: SglangSwitches::V0_5_23,
            seed: 0,
            eos_segment: None,
        };
        let cost = Box::new(LinearCost::new(1.0, 0.0, 1e-3));
        SglangReplica::new(ReplicaId(0), config.with_conservativeness(1.0), cost, stepwise)
    }

    fn request(id: u64, prompt_tokens: u32, output_tokens: u32) -> Request {
        Request {
            id: RequestId(id),
            arrival: Picos::ZERO,
            client_queue_time: Picos::ZERO,
            prompt_tokens,
            output_tokens,
            max_tokens: output_tokens,
            priority: 0,
            prompt: Prompt::Unique,
            output_segment: SegmentId(1000 + id),
            session: None,
            class: 0,
            ignore_eos: true,
            deadline: None,
        }
    }

    fn seconds(seconds: u64) -> Picos {
        Picos(seconds * 1_000_000_000_000)
    }

    fn go_on(engine: &mut SglangReplica, until: Picos) {
        let mut ended = Vec::new();
        loop {
            let before = ended.len();
            engine.run(until, &mut Nobody, &mut ended);
            if ended.len() == before {
                return;
            }
        }
    }

    /// A prompt of 10 tokens at 0 s, steps of 1 s, every fourth result of a decode. Without overlap the batch that has
    /// just ended is in nobody's count; with it the next one is decided before the result is processed.
    #[test]
    fn snapshots_come_with_prompts_and_with_some_decodes() {
        for (overlap, expected) in [
            (false, [(1, 0, 10), (5, 1, 14), (9, 1, 18)]),
            (true, [(1, 1, 11), (5, 1, 15), (9, 1, 19)]),
        ] {
            let mut engine = engine(overlap, 1, 400, false);
            engine.cost = crate::engine::priced::Priced::new(Box::new(LinearCost::new(1.0, 0.0, 0.0)));
            engine.publish_loads(4);
            engine
                .offer(Picos::ZERO, &mut request(0, 10, 40))
                .expect("it fits");
            for (now, (at, requests, tokens)) in [1, 8, 9].into_iter().zip(expected) {
                go_on(&mut engine, seconds(now));
                let at = seconds(at);
                let told = LoadSnapshot { at, requests, tokens };
                assert_eq!(
                    engine.load_snapshot(seconds(now)),
                    told,
                    "overlap {overlap} at {now} s"
                );
            }
            go_on(&mut engine, seconds(100));
            let idle = LoadSnapshot {
                at: seconds(100),
                ..LoadSnapshot::default()
            };
            assert_eq!(engine.load_snapshot(seconds(100)), idle);
        }
    }

    proptest! {
        /// A leap writes what its steps would have written.
        #[test]
        fn leaping_writes_the_same_snapshots(
            overlap in any::<bool>(), page in 1u32..5, pool in 100u32..200, interval in 1u32..9,
            wishes in prop::collection::vec((0u64..9, 1u32..90, 1u32..70), 1..14),
            looks in prop::collection::vec(1u64..40_000_000_000_000, 1..40),
        ) {
            let mut engines = [true, false].map(|stepwise| engine(overlap, page, pool, stepwise));
            engines.iter_mut().for_each(|engine| engine.publish_loads(interval));
            let mut at = 0;
            for (id, (gap, prompt, output)) in (0..).zip(wishes) {
                at += gap;
                for engine in &mut engines {
                    go_on(engine, seconds(at));
                    let _ = engine.offer(seconds(at), &mut request(id, prompt, output));
                }
                prop_assert_eq!(engines[0].load_snapshot(seconds(at)), engines[1].load_snapshot(seconds(at)));
            }
            let mut now = seconds(at);
            for look in looks {
                now += Picos(look);
                engines.iter_mut().for_each(|engine| go_on(engine, now));
                prop_assert_eq!(engines[0].load_snapshot(now), engines[1].load_snapshot(now));
            }
        }
    }
}
