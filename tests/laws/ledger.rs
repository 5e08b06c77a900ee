//! An observer that keeps books of its own, by nothing but what it is told, and balances them.

use std::collections::BTreeMap;

use plimsoll::engine::EngineConfig;
use plimsoll::sim::{Completion, Fact, Observer, Outcome, Steps};
use plimsoll::units::Picos;

/// One request as far as it was told.
struct Account {
    arrival: Picos,
    /// Waiting or running since then.
    since: Picos,
    is_running: bool,
    /// Sum of ended waits.
    waited: u64,
    ends_by_eos: bool,
}

/// The books of a run.
pub(crate) struct Ledger {
    engine: EngineConfig,
    total_blocks: u32,
    now: Picos,
    steps_end: Picos,
    open: BTreeMap<u64, Account>,
    arrived: u64,
    /// Requests in the system, waiting and running, and the areas under them in request-picoseconds.
    level: [u64; 3],
    area: [u128; 3],
    /// Σ of what the completions say of themselves.
    told: [u128; 3],
    rows: u64,
    tokens: u64,
    /// Drafts that did not stand.
    rejected: u64,
    tokens_ended: u64,
    computed: u64,
    lost: u64,
    cached: u64,
    owed: u64,
    unforeseen: u64,
    aborted: u64,
    /// Completed while they waited to be resumed.
    ended_waiting: u64,
    alone_at: Picos,
}

impl Ledger {
    pub(crate) fn new(engine: &EngineConfig) -> Ledger {
        Ledger {
            engine: engine.clone(),
            total_blocks: engine.num_gpu_blocks - 1,
            now: Picos::ZERO,
            steps_end: Picos::ZERO,
            open: BTreeMap::new(),
            arrived: 0,
            level: [0; 3],
            area: [0; 3],
            told: [0; 3],
            rows: 0,
            tokens: 0,
            rejected: 0,
            tokens_ended: 0,
            computed: 0,
            lost: 0,
            cached: 0,
            owed: 0,
            unforeseen: 0,
            aborted: 0,
            ended_waiting: 0,
            alone_at: Picos::ZERO,
        }
    }

    fn pass_time(&mut self, now: Picos) {
        assert!(now >= self.now, "time runs back from {} to {now}", self.now);
        for (area, level) in self.area.iter_mut().zip(self.level) {
            *area += u128::from((now - self.now).0) * u128::from(level);
        }
        self.now = now;
    }

    fn steps(&mut self, steps: &Steps<'_>) {
        let (load, count) = (steps.load, steps.count);
        assert!(
            steps.begin <= steps.end && count > 0,
            "a step takes time that passes"
        );
        assert!(steps.begin >= self.steps_end, "one step after the other");
        self.steps_end = steps.end;
        assert!(load.tokens() > 0 && load.tokens() <= u64::from(self.engine.max_num_batched_tokens));
        assert!(steps.running <= self.engine.max_num_seqs, "too many run");
        assert!(
            steps.free_blocks <= self.total_blocks,
            "more blocks are free than there are"
        );
        let triangle = count * (count - 1) / 2;
        let duration = steps.duration * count + steps.duration_increment * triangle;
        assert_eq!(
            steps.begin + duration,
            steps.end,
            "steps of a leap follow each other"
        );
        self.rows += u64::from(load.sampled_rows) * count;
        self.computed += load.tokens() * count;
        self.tokens += u64::from(steps.gap_seqs) * count;
        let is_alone = steps.running == 1 && load.decode_seqs == 1 && load.chunks.is_empty();
        if is_alone && let Some(speculation) = &self.engine.speculation {
            // Rejected drafts of the steps before and places for the next ones have blocks, too.
            let more = self.engine.queue_depth * (1 + speculation.drafts) + speculation.lookahead;
            let most = (load.decode_kv_tokens + u64::from(more)).div_ceil(u64::from(self.engine.block_size));
            assert!(
                u64::from(steps.free_blocks) + most >= u64::from(self.total_blocks),
                "blocks are lost"
            );
            self.alone_at = steps.begin;
        } else if is_alone {
            // Alone: what it holds is its own context, and every other block is free.
            let held = load.decode_kv_tokens.div_ceil(u64::from(self.engine.block_size));
            assert_eq!(
                u64::from(steps.free_blocks) + held,
                u64::from(self.total_blocks),
                "blocks are lost"
            );
            self.alone_at = steps.begin;
        }
    }

    fn ended(&mut self, story: &Completion) {
        let Some(account) = self.open.remove(&story.id.0) else {
            panic!("request {} left without being inside", story.id.0);
        };
        assert_eq!(account.arrival, story.arrival);
        self.level[0] -= 1;
        self.level[1 + usize::from(account.is_running)] -= 1;
        let last_wait = if account.is_running {
            0
        } else {
            (self.now - account.since).0
        };
        let sojourn = u128::from((story.end - story.arrival).0);
        let waited = u128::from(story.waiting_time.0 + last_wait);
        assert_eq!(story.waiting_time.0, account.waited, "waits add up");
        self.told[0] += sojourn;
        self.told[1] += waited;
        self.told[2] += sojourn - waited;
        self.tokens_ended += u64::from(story.output_tokens);
        match story.outcome {
            Outcome::Completed => {
                assert!(story.output_tokens > 0 && story.first_token.is_some());
                // Who was preempted behind its last token ends in the waiting queue, its KV lost already.
                let has_kv = u64::from(account.is_running);
                self.ended_waiting += 1 - has_kv;
                self.owed += has_kv * u64::from(story.prompt_tokens + story.output_tokens - 1);
            }
            Outcome::TimedOut => self.aborted += 1,
            Outcome::Rejected => assert_eq!(story.output_tokens, 0),
            Outcome::Failed => panic!("one replica that is always up does not fail"),
        }
        self.unforeseen += u64::from(account.ends_by_eos || !self.engine.switches.overrun_guard);
    }

    /// Balances the books of a run that has drained.
    pub(crate) fn balance(&self) {
        assert!(self.open.is_empty(), "requests in = out + inside");
        assert_eq!(
            self.area, self.told,
            "Little's law: areas under N(t) and sums of times"
        );
        assert_eq!(self.tokens, self.tokens_ended, "tokens made = tokens delivered");
        // A row is thrown away only behind an ending that the scheduler did not foresee, or for a client who gave up:
        // as many as the steps that may be in flight.
        let discarded = self.rows - self.rejected - self.tokens;
        if let Some(speculation) = &self.engine.speculation {
            // A step in flight behind an ending has drafts, too, and an answer may end among those that stand.
            let drafts = u64::from(speculation.drafts);
            let a_share = (1 + drafts) * u64::from(self.engine.queue_depth);
            let most = self.arrived * (drafts + a_share);
            assert!(discarded <= most, "{discarded} rows discarded, at most {most}");
            return;
        }
        let most = self.unforeseen * u64::from(self.engine.queue_depth - 1)
            + self.aborted * u64::from(self.engine.queue_depth);
        assert!(discarded <= most, "{discarded} rows discarded, at most {most}");
        if self.aborted == 0 {
            // A discarded row is a token computed for nothing. So is, in 0.11, the share of a sequence that is preempted after
            // it was served in the same step, if its last token, in flight then, ends it before it is resumed: the one token
            // behind it (V1-26).
            let expected = self.owed + self.lost + discarded - self.cached;
            let shares = match self.engine.switches.eviction_restores_budget {
                true => 0,
                false => self.ended_waiting,
            };
            assert!(
                (expected..=expected + shares).contains(&self.computed),
                "tokens computed = (P − hits + recomputed) + (O − 1): {} and not {expected}",
                self.computed
            );
        }
    }

    /// When a sequence was last seen to decode alone, and all blocks but its own to be free.
    pub(crate) fn alone_at(&self) -> Picos {
        self.alone_at
    }

    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    pub(crate) fn now(&self) -> Picos {
        self.now
    }
}

impl Observer for Ledger {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.pass_time(match fact {
            Fact::Arrived { request } => request.arrival,
            // Steps are told when their run is over, perhaps after arrivals; they have a time of their own.
            Fact::Steps(_) | Fact::Tiers { .. } => self.now,
            Fact::Ended(story) | Fact::Returned(story) => story.end,
            Fact::Rejected { now, .. }
            | Fact::Admitted { now, .. }
            | Fact::Loaded { now, .. }
            | Fact::Preempted { now, .. }
            | Fact::FirstToken { now, .. }
            | Fact::Burst { now, .. }
            | Fact::Verified { now, .. }
            | Fact::Leaving { now, .. }
            | Fact::Sent { now, .. }
            | Fact::Gap { now, .. } => *now,
            Fact::HandedOver { .. }
            | Fact::Transferred { .. }
            | Fact::Crossing { .. }
            | Fact::Crossed { .. }
            | Fact::Released { .. }
            | Fact::Relayed(_)
            | Fact::Links { .. } => unreachable!("every replica here prefills and decodes"),
        });
        match *fact {
            Fact::Arrived { request } => {
                assert_eq!(request.id.0, self.arrived, "ids are in order of sending");
                self.arrived += 1;
                self.level[0] += 1;
                self.level[1] += 1;
                let account = Account {
                    arrival: request.arrival,
                    since: request.arrival,
                    is_running: false,
                    waited: 0,
                    ends_by_eos: request.ends_by_eos(),
                };
                self.open.insert(request.id.0, account);
            }
            Fact::Admitted {
                now,
                id,
                waiting_since,
                known_tokens,
                cached_tokens,
                ..
            } => {
                let account = self.open.get_mut(&id.0).expect("who is admitted is inside");
                assert!(!account.is_running && account.since == waiting_since);
                (account.is_running, account.since) = (true, now);
                account.waited += (now - waiting_since).0;
                assert!(cached_tokens < known_tokens && cached_tokens % self.engine.block_size == 0);
                self.cached += u64::from(cached_tokens);
                self.level[1] -= 1;
                self.level[2] += 1;
            }
            Fact::Preempted {
                now,
                id,
                running_since,
                lost_tokens,
                ..
            } => {
                let account = self.open.get_mut(&id.0).expect("who is preempted is inside");
                assert!(account.is_running && account.since == running_since);
                (account.is_running, account.since) = (false, now);
                self.lost += u64::from(lost_tokens);
                self.level[1] += 1;
                self.level[2] -= 1;
            }
            Fact::Steps(steps) => self.steps(steps),
            Fact::FirstToken { .. } | Fact::Gap { .. } => self.tokens += 1,
            Fact::Burst { tokens, .. } => self.tokens += u64::from(tokens),
            Fact::Verified { drafts, accepted, .. } => {
                assert!(
                    accepted <= drafts && drafts > 0,
                    "no more drafts stand than were made"
                );
                self.rejected += u64::from(drafts - accepted);
            }
            Fact::Ended(story) => self.ended(story),
            Fact::Loaded { tokens, .. } => self.cached += u64::from(tokens),
            Fact::Returned(_) => panic!("nobody is sent again here"),
            _ => {}
        }
    }
}
