//! The loop: `event_loop_normal` (SG-2) and `event_loop_overlap` (SG-3).
//!
//! Life of a replica:
//! 1. [`SglangReplica::offer`] takes a request in; the engine sees it when a pass of its loop drains its inputs.
//! 2. A *pass* drains, decides the next batch and launches it. Under overlap a second pass follows at once while only
//!    one batch is in flight; then the loop waits for the older one.
//! 3. At the *end of the oldest batch* its result is processed; the next pass comes at the same instant.

use std::collections::VecDeque;

use rand::rngs::ChaCha8Rng;

use super::SglangConfig;
use super::batch::{Batch, BatchMode, SglangRecord};
use super::disaggregated::Role;
use super::packed::Packed;
use super::publish::Publisher;
use super::recorded::RecordedPass;
use super::sequence::{Phase, Sequence};
use crate::cost::StepCost;
use crate::cost::jitter::Jitter;
use crate::engine::Handle;
use crate::engine::priced::Priced;
use crate::engine::roster::Roster;
use crate::engine::signal::Told;
use crate::engine::speculation::Acceptance;
use crate::facts::{Completion, Observer};
use crate::ids::{ReplicaId, RequestId};
use crate::kv::RadixTree;
use crate::rng::{Purpose, stream};
use crate::units::Picos;

/// One SGLang server.
pub(crate) struct SglangReplica {
    pub(super) id: ReplicaId,
    pub(super) config: SglangConfig,
    /// What it does of each request.
    pub(super) role: Role,
    /// What others must hear before it goes on.
    pub(super) signals: Vec<Told>,
    pub(super) cost: Priced,
    pub(super) tree: RadixTree,
    pub(super) free_pages: u32,
    pub(super) sequences: Roster<Sequence>,
    /// Requests inside, drained or not.
    pub(super) inside: usize,
    /// Requests that the loop has not drained yet, by time of arrival at the engine.
    pub(super) inbox: VecDeque<(Picos, Handle)>,
    pub(super) waiting: VecDeque<usize>,
    /// The decoding requests in the batch's order; ended ones stay until a pass drops them.
    pub(super) running: Vec<Handle>,
    /// Members of the prefill batch that the pass before launched.
    pub(super) last: Option<Vec<Handle>>,
    /// The partly prefilled request (SG-16).
    pub(super) chunked: Option<usize>,
    /// The sticky flag (SG-14).
    pub(super) full: bool,
    /// Passes that may not prefill yet (SG-11).
    pub(super) prefill_hold: u32,
    /// The last pass was one of these.
    pub(super) held_prefill: bool,
    /// The new-token ratio (SG-32).
    pub(super) ratio: f64,
    /// Counts changes of the running batch.
    pub(super) membership: u64,
    /// What it was before the last decision.
    pub(super) found: u64,
    /// The running batch whose members all had a token in the last processed batch.
    pub(super) uniform: u64,
    /// Those of the running batch who are not visited one by one.
    pub(super) packed: Packed,
    /// Where a balancer reads its load, if one does.
    pub(super) publisher: Option<Publisher>,
    jitter: Option<Jitter>,
    /// How many drafts stand, where it speculates.
    pub(super) acceptance: Option<Acceptance>,
    /// No leaps.
    pub(super) stepwise: bool,
    /// Rows of the token table in use (SG-13).
    pub(super) rows: u32,
    /// Ended sequences that `running` or `last` still name.
    pub(super) ended_in_lists: usize,
    /// How often somebody has joined the queue, by which each who does is numbered.
    pub(super) joinings: u64,
    /// Passes that sorted the queue under a policy that matches nobody.
    pub(super) sorts: u64,
    pub(super) rng: ChaCha8Rng,
    pub(super) in_flight: VecDeque<Box<Batch>>,
    /// Of a rank in lock-step: what it has decided while others still do.
    pub(super) decided: Option<Box<Batch>>,
    #[expect(clippy::vec_box, reason = "a batch moves between the queues as a pointer")]
    pub(super) spare: Vec<Box<Batch>>,
    /// End of the last processed batch.
    pub(super) last_end: Picos,
    /// When the GPU is done with everything launched.
    pub(super) gpu_free: Picos,
    /// Since when the tokens of the last batch's common gap had been there.
    pub(super) last_decode: Picos,
    next_pass: Option<Picos>,
    /// Nobody can go on, ever.
    pub(super) is_stuck: bool,
    /// Requests retracted in the present pass.
    pub(super) retracted: Vec<RequestId>,
    pub(super) shares_log: Vec<(RequestId, u32, u32)>,
    pub(super) log: Option<Vec<SglangRecord>>,
    /// What chance decided in each logged pass, where a recording is replayed.
    pub(in crate::engine) recorded: Option<Vec<RecordedPass>>,
}

impl SglangReplica {
    /// An empty server; `stepwise` never leaps, which changes nothing but the time it takes.
    pub(crate) fn new(
        id: ReplicaId,
        config: SglangConfig,
        cost: Box<dyn StepCost>,
        stepwise: bool,
    ) -> SglangReplica {
        SglangReplica {
            id,
            role: Role::default(),
            signals: Vec::new(),
            cost: Priced::new(cost),
            tree: RadixTree::new(config.page_size),
            free_pages: config.max_total_tokens / config.page_size,
            sequences: Roster::default(),
            inside: 0,
            inbox: VecDeque::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            last: None,
            chunked: None,
            full: false,
            prefill_hold: 0,
            held_prefill: false,
            ratio: config.init_new_token_ratio,
            membership: 1,
            found: 1,
            uniform: 0,
            packed: Packed::new(config.page_size),
            publisher: None,
            jitter: None,
            acceptance: None,
            stepwise,
            rows: 0,
            ended_in_lists: 0,
            joinings: 0,
            sorts: 0,
            rng: stream(config.seed, Purpose::Queue, u64::from(id.0)),
            in_flight: VecDeque::new(),
            decided: None,
            spare: Vec::new(),
            last_end: Picos::ZERO,
            gpu_free: Picos::ZERO,
            last_decode: Picos::ZERO,
            next_pass: None,
            is_stuck: false,
            retracted: Vec::new(),
            shares_log: Vec::new(),
            log: None,
            recorded: None,
            config,
        }
    }

    /// Makes steps scatter around their cost, and takes them one by one.
    pub(crate) fn disturb(&mut self, jitter: Jitter) {
        self.jitter = Some(jitter);
        self.stepwise = true;
    }

    /// Keeps a record of every pass.
    pub(crate) fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The records kept so far.
    pub(crate) fn take_log(&mut self) -> Vec<SglangRecord> {
        self.log.take().unwrap_or_default()
    }

    /// Tokens of a page.
    pub(crate) fn block_size(&self) -> u32 {
        self.config.page_size
    }

    /// Pages of the pool.
    pub(crate) fn total_blocks(&self) -> u32 {
        self.config.max_total_tokens / self.config.page_size
    }

    /// Tokens whose cached KV was evicted since it came up.
    pub(crate) fn evicted_tokens(&self) -> u64 {
        self.tree.evicted()
    }

    /// Requests inside, drained or not.
    pub(crate) fn inside(&self) -> usize {
        self.inside
    }

    /// Something reaches the loop at `now`: if it waits for no batch, it passes then.
    pub(super) fn wake_loop(&mut self, now: Picos) {
        if self.in_flight.is_empty() {
            self.next_pass = Some(self.next_pass.map_or(now, |pass| pass.min(now)));
        }
    }

    /// What it has to tell those between the pools.
    pub(crate) fn take_signals(&mut self, into: &mut Vec<Told>) {
        into.append(&mut self.signals);
    }

    /// When something next reaches the loop, as far as is known.
    pub(super) fn next_input(&self) -> Option<Picos> {
        let request = self.inbox.front().map(|&(at, _)| at);
        let transfer = match &self.role {
            Role::Whole => None,
            Role::Prefill(role) => role.next_input(),
            Role::Decode(role) => role.next_input(),
        };
        match (request, transfer) {
            (Some(request), Some(transfer)) => Some(request.min(transfer)),
            (request, transfer) => request.or(transfer),
        }
    }

    /// The sequence of a handle, if it has not left.
    pub(super) fn find(&self, handle: Handle) -> Option<&Sequence> {
        self.sequences.get(handle)
    }

    /// Whether a handle's sequence is admitted and not ended.
    #[inline]
    pub(super) fn is_running(&self, handle: Handle) -> bool {
        self.find(handle)
            .is_some_and(|sequence| sequence.phase == Phase::Running)
    }

    /// When something happens next here without anything from outside.
    pub(crate) fn next(&self) -> Option<Picos> {
        self.next_pass
            .or_else(|| self.in_flight.front().map(|batch| batch.end()))
    }

    /// When the loop passes next, if it waits for no batch.
    pub(super) fn next_pass(&self) -> Option<Picos> {
        self.next_pass
    }

    /// The loop waits for input.
    pub(super) fn forget_pass(&mut self) {
        self.next_pass = None;
    }

    /// Whether nobody can ever go on.
    pub(crate) fn is_livelocked(&self) -> bool {
        self.is_stuck
    }

    /// Goes on to the next event from outside at `horizon`, or until a request has left. Batches that end at the
    /// horizon are processed before it, a pass of the loop at that instant comes after it (EV-6). Returns the last
    /// instant at which something happened.
    pub(crate) fn run<O: Observer>(
        &mut self,
        horizon: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        let mut now = Picos::ZERO;
        loop {
            if let Some(pass) = self.next_pass {
                if pass >= horizon || self.is_livelocked() {
                    return now;
                }
                now = pass;
                self.pass(pass, observer, ended);
                if !ended.is_empty() || !self.signals.is_empty() {
                    return now;
                }
            }
            let Some(batch) = self.in_flight.front() else {
                if self.next_pass.is_some() {
                    continue;
                }
                return now;
            };
            if batch.end() > horizon {
                return now;
            }
            if self.leap(horizon, observer) > 0 {
                now = self.last_end;
                continue;
            }
            now = self.process_oldest(observer, ended);
            self.next_pass = Some(now);
            if !ended.is_empty() || !self.signals.is_empty() {
                return now;
            }
        }
    }

    /// The pass of the loop that is due at `now`, the horizon of [`SglangReplica::run`], if one is.
    pub(crate) fn pass_at<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if self.next_pass == Some(now) {
            self.pass(now, observer, ended);
        }
    }

    /// Passes of the loop at `now`, until it waits for a batch or for input.
    fn pass<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        self.next_pass = None;
        self.tree.set_clock(now);
        self.publish_idle(now);
        loop {
            self.drain(now);
            let before = ended.len();
            let batch = self.next_batch(now, observer, ended);
            if self.is_stuck {
                return;
            }
            let Some(mut batch) = batch else {
                self.log_pass(now, None);
                if self.in_flight.is_empty() {
                    if ended.len() > before && matches!(self.role, Role::Decode(_)) {
                        // Who ended without a forward (PD-29) has made room, and the loop goes round at once.
                        continue;
                    }
                    self.rest(now);
                }
                return;
            };
            self.put_on_gpu(&mut batch, now);
            self.log_pass(now, Some(&batch));
            self.in_flight.push_back(batch);
            if self.in_flight.len() >= self.depth() {
                return;
            }
        }
    }

    /// Batches in flight at most.
    pub(crate) fn depth(&self) -> usize {
        if self.config.overlap_schedule { 2 } else { 1 }
    }

    /// Pages that are free or hold cached contents that nobody protects: free as other engines count.
    pub(super) fn reported_free(&self) -> u32 {
        self.free_pages + (self.tree.evictable() / u64::from(self.config.page_size)) as u32
    }

    /// Nothing is in flight and nothing can be launched: the loop idles until an input comes (SG-32).
    pub(super) fn rest(&mut self, now: Picos) {
        let all_left = self.waiting.is_empty() && self.chunked.is_none();
        if all_left || !self.config.switches.resets_ratio_if_all_left {
            self.ratio = self.config.init_new_token_ratio;
        }
        self.next_pass = self.next_input().filter(|&at| at > now);
        self.prefill_hold = 0;
        if self.held_prefill && (self.chunked.is_some() || !self.waiting.is_empty()) {
            // An idle loop goes round at once, until nothing of the interval is left (SG-11).
            self.next_pass = Some(now);
            return;
        }
        let (expects, wants) = match &self.role {
            Role::Whole => (false, false),
            Role::Prefill(role) => (role.expects_memory(), false),
            Role::Decode(role) => (role.expects_requests(), role.wants_memory()),
        };
        let someone_waits = wants || !(self.waiting.is_empty() && self.running.is_empty());
        let is_whole = matches!(self.role, Role::Whole);
        if is_whole && someone_waits && self.membership != self.found {
            // Whoever left the running batch in this pass made room, and the loop goes round at once (C-18). Servers with a
            // role are woken by what they wait for.
            self.next_pass = Some(now);
        }
        if self.next_pass.is_none() && someone_waits && !expects {
            self.is_stuck = true;
        }
    }

    /// Moves what has arrived into the waiting queue.
    pub(super) fn drain(&mut self, now: Picos) {
        let before = self.waiting.len();
        while let Some(&(arrival, handle)) = self.inbox.front()
            && arrival <= now
        {
            self.inbox.pop_front();
            match &mut self.role {
                Role::Decode(role) => role.queue(handle.slot),
                _ => self.join_queue(handle.slot),
            }
        }
        if matches!(self.role, Role::Prefill(_)) {
            self.poll_transfers(now);
            // Whoever left the bootstrap queue in one pass did so in the order of that queue.
            let sequences = &self.sequences;
            self.waiting.make_contiguous()[before..].sort_by_key(|&slot| sequences[slot].request.id);
        }
    }

    /// A request joins the end of the queue.
    pub(super) fn join_queue(&mut self, slot: usize) {
        self.joinings += 1;
        self.sequences[slot].joined = self.joinings;
        self.waiting.push_back(slot);
    }

    /// An empty batch.
    pub(super) fn open_batch(&mut self, mode: BatchMode) -> Box<Batch> {
        let mut batch = self.spare.pop().unwrap_or_default();
        batch.mode = mode;
        batch.entries.clear();
        (batch.packed, batch.joined) = (None, 0);
        batch.recomputed_tokens = 0;
        batch.membership = 0;
        batch.load.clear();
        batch
    }

    /// Prices a batch and queues it behind the one in flight.
    fn put_on_gpu(&mut self, batch: &mut Batch, now: Picos) {
        batch.duration = if batch.mode == BatchMode::Decode && batch.load.drafts == 0 {
            self.cost.decodes(&batch.load)
        } else {
            // Mixed and prefill batches replay no decode graph, however little they compute (SG-12).
            self.cost.step(&batch.load)
        };
        if let Some(jitter) = &mut self.jitter {
            batch.duration = jitter.disturb(batch.duration);
        }
        batch.begin = now.max(self.gpu_free);
        self.gpu_free = batch.end();
        self.note_state(batch);
    }

    /// What is told of a batch beside what it computes.
    pub(super) fn note_state(&self, batch: &mut Batch) {
        batch.running = self.running.len() as u32;
        batch.waiting = self.waiting.len() as u32;
        batch.free_pages = self.reported_free();
    }

    /// Remembers a sequence's share before its tokens are counted.
    #[inline]
    pub(super) fn log_share(&mut self, slot: usize, tokens: u32) {
        if self.log.is_some() {
            let sequence = &self.sequences[slot];
            self.shares_log.push((sequence.request.id, sequence.kv, tokens));
        }
    }

    /// Tells everything that has happened.
    pub(crate) fn tell<O: Observer>(&mut self, _observer: &mut O) {}
}
