//! `schedule()`: who gets how many tokens in the next step (vLLM 0.33 `Scheduler.schedule`).

use super::pool::{Admission, BlockPool, PrefixNames};
use super::sequence::{Sequence, Status};
use super::tiers::Lmcache;
use super::{TwinConfig, TwinRequest};

/// Place of a sequence in the list of all requests.
pub(super) type Index = usize;

/// The share of one sequence in a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// The sequence.
    pub(super) sequence: Index,
    /// Tokens computed before the step.
    pub(super) computed: u32,
    /// Tokens scheduled.
    pub(super) n: u32,
    /// Its sequence was preempted in the same step, which 0.11 computes all the same (V1-26).
    pub(super) is_orphan: bool,
    /// Whether the step ends with a new token of this sequence.
    pub(super) samples: bool,
    /// Drafts among the tokens scheduled, and whether they are padding that no drafter has proposed.
    pub(super) drafts: u32,
    pub(super) is_padded: bool,
    /// Tokens that come of the step.
    pub(super) tokens: u32,
    /// How often the sequence had been preempted.
    pub(super) stay: u32,
    /// In a pipeline: somebody needs the token that comes of it.
    pub(super) is_awaited: bool,
}

/// What one call of `schedule()` decided.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// Running sequences in admission order, then those admitted now.
    pub(super) shares: Vec<Share>,
    /// Preempted sequences in order of eviction.
    pub(super) preempted: Vec<Index>,
    /// A chunk behind another was served, preempted later or not, or somebody was admitted with prefill left (V1-16).
    pub(super) carries_prefill: bool,
}

/// The scheduler's state (V1-1).
#[derive(Debug)]
pub(super) struct Scheduler {
    pub(super) config: TwinConfig,
    pub(super) sequences: Vec<Sequence>,
    /// Requests drained and not running, preempted ones included. Under FCFS the front is next.
    pub(super) waiting: Vec<Index>,
    /// Admitted sequences, oldest admission first.
    pub(super) running: Vec<Index>,
    pub(super) pool: BlockPool,
    pub(super) names: PrefixNames,
    /// LMCache, and who waits for it: when the KV is there, whose, in the order in which loads began.
    pub(super) lmcache: Option<Lmcache>,
    pub(super) loading: Vec<(u64, Index)>,
    /// Calls of `schedule()` so far.
    pub(super) turn: usize,
    /// Executed steps since the last one with prefill, that one included; `None` before any (V1-16).
    steps_since_prefill: Option<u32>,
    /// Whether the last step that was free to prefill left requests waiting (V1-16).
    release_left_waiting: bool,
}

impl Scheduler {
    /// Makes an idle scheduler that has seen none of `requests` yet.
    pub(super) fn new(config: &TwinConfig, requests: &[TwinRequest]) -> Self {
        let mut names = PrefixNames::default();
        let sequences = requests
            .iter()
            .map(|request| Sequence::new(request, config, &mut names))
            .collect();
        Self {
            config: config.clone(),
            sequences,
            waiting: Vec::new(),
            running: Vec::new(),
            pool: BlockPool::new(config),
            names,
            lmcache: config.tiers.as_ref().map(Lmcache::new),
            loading: Vec::new(),
            turn: 0,
            steps_since_prefill: None,
            release_left_waiting: false,
        }
    }

    /// Whether any request is waiting or running.
    pub(super) fn has_requests(&self) -> bool {
        !self.waiting.is_empty() || !self.running.is_empty() || self.count_loading() > 0
    }

    /// Sequences that wait for KV, or have it and wait for their turn. Who gave up is none of them.
    pub(super) fn count_loading(&self) -> usize {
        let waits = |&&(_, index): &&(u64, Index)| self.sequences[index].status == Status::Loading;
        self.loading.iter().filter(waits).count()
    }

    /// Whether steps are scheduled before the one in flight has ended (V1-5).
    pub(super) fn is_async(&self) -> bool {
        self.config.is_async()
    }

    /// Decides the next step: first the running sequences, then admissions (V1-2, V1-11).
    pub(super) fn schedule(&mut self, now_ps: u64) -> Decision {
        let mut decision = Decision::default();
        self.turn += 1;
        self.notice_loads(now_ps);
        let budget = self
            .config
            .max_num_scheduled_tokens
            .unwrap_or(self.config.max_num_batched_tokens);
        let mut budget = Budget {
            tokens: budget,
            // Without drafts nothing but the tokens counts.
            inputs: self
                .config
                .drafts
                .as_ref()
                .map_or(u32::MAX, |_| self.config.max_num_batched_tokens),
            slots: self.config.draft_slots(),
        };
        let threshold = self.long_prefill_threshold();
        let hold_prefill = self.holds_prefill();
        self.schedule_running(&mut decision, &mut budget, threshold, hold_prefill);
        // V1-18: no admission in a step that preempted anything.
        if decision.preempted.is_empty() {
            self.admit_waiting(&mut decision, &mut budget, threshold, hold_prefill, now_ps);
        }
        self.count_prefill_interval(&decision, hold_prefill);
        self.advance(&mut decision);
        decision
    }

    /// Part A: running sequences in admission order, preempting for blocks (V1-11 to V1-16).
    fn schedule_running(&mut self, decision: &mut Decision, budget: &mut Budget, threshold: u32, hold: bool) {
        let restores = self.config.priority_policy && self.config.priority_eviction_restores;
        let mut position = 0;
        'running: while position < self.running.len() && !budget.is_spent() {
            let index = self.running[position];
            let sequence = &self.sequences[index];
            if sequence.ends_in_flight(&self.config) || (hold && sequence.is_mid_prefill) {
                position += 1; // V1-15, V1-16
                continue;
            }
            if self.turn < sequence.turn {
                position += 1; // `next_decode_eligible_step`
                continue;
            }
            let mut n = sequence.known() + sequence.drafts + sequence.placeholders - sequence.computed;
            n = capped(n, threshold).min(budget.for_one());
            n = n.min((self.config.max_model_len - 1).saturating_sub(sequence.computed));
            if n == 0 {
                position += 1; // V1-12: skipped, later sequences may still run.
                continue;
            }
            while !self.pool.allocate(&mut self.sequences[index], n, None) {
                let victim_position = self.victim();
                let victim = self.running.remove(victim_position);
                self.preempt(victim);
                decision.preempted.push(victim);
                // V1-26: a victim served earlier in this step loses its share, or should.
                if let Some(share) = decision.shares.iter().position(|share| share.sequence == victim) {
                    if restores {
                        budget.restore(decision.shares.remove(share).n);
                    } else {
                        // 0.11 forgets to take it out of the step: the model runner begins where it began before, and
                        // the scheduler counts the tokens as computed.
                        let share = &mut decision.shares[share];
                        share.is_orphan = true;
                        share.computed = self.sequences[victim].begun;
                        self.sequences[victim].computed = share.n;
                    }
                }
                if victim == index {
                    // V1-25: the next sequence has moved to this position; 0.33 goes on with it under the
                    // priority policy, otherwise the loop ends.
                    if restores {
                        continue 'running;
                    }
                    break 'running;
                }
                if restores && victim_position < position {
                    position -= 1;
                }
            }
            let sequence = &mut self.sequences[index];
            decision.carries_prefill |= sequence.is_mid_prefill;
            decision.give(index, sequence, n);
            decision.shares.last_mut().expect("just given").drafts = sequence.take_drafts(n, &self.config);
            budget.charge(n);
            position += 1;
        }
    }

    /// Loads that have ended: blocks of who gave up are freed (C-32), the others' are registered (PD-12).
    fn notice_loads(&mut self, now_ps: u64) {
        let mut at = 0;
        while at < self.loading.len() {
            let (there_ps, index) = self.loading[at];
            let sequence = &mut self.sequences[index];
            if there_ps > now_ps || sequence.is_loaded {
                at += 1;
            } else if sequence.status == Status::Aborted {
                self.pool.release(sequence);
                self.loading.remove(at);
            } else {
                self.pool.register(sequence, sequence.computed);
                sequence.computed = sequence.computed.min(sequence.known() - 1);
                sequence.is_loaded = true;
                at += 1;
            }
        }
    }

    /// Position in `loading` of the one whose KV has come and whose turn is next.
    fn head_of_loaded(&self) -> Option<usize> {
        let mut loaded = (0..self.loading.len()).filter(|&at| {
            let sequence = &self.sequences[self.loading[at].1];
            sequence.is_loaded && !sequence.is_aside
        });
        if self.config.priority_policy {
            return loaded.min_by_key(|&at| self.rank(self.loading[at].1));
        }
        loaded.next()
    }

    /// Part B: waiting requests, head of line (V1-17); those whose KV has come go first (V1-3).
    fn admit_waiting(
        &mut self,
        decision: &mut Decision,
        budget: &mut Budget,
        threshold: u32,
        hold: bool,
        now_ps: u64,
    ) {
        let mut set_aside = Vec::new();
        let (serves_running, serves_prefill) = (!decision.shares.is_empty(), decision.carries_prefill);
        while !budget.is_spent() && self.running.len() < self.config.max_num_seqs {
            let (loaded, head) = (self.head_of_loaded(), self.head_of_waiting());
            let is_loaded = match (loaded, head) {
                (None, None) => break,
                (Some(at), Some(head)) if self.config.priority_policy => {
                    self.rank(self.loading[at].1) < self.rank(self.waiting[head])
                }
                (loaded, _) => loaded.is_some(),
            };
            if is_loaded {
                let at = loaded.expect("somebody is");
                match self.admit_loaded(at, decision, budget, threshold, hold) {
                    true => continue,
                    false => break,
                }
            }
            let head = head.expect("somebody waits");
            let index = self.waiting[head];
            if self.is_stale(index) {
                // V1-28: its outputs from before the preemption must arrive first.
                self.sequences[index].is_deferred = true;
                set_aside.push(self.waiting.remove(head));
                continue;
            }
            // V1-45: what 0.11 takes for computed is neither looked up nor loaded.
            let kept = self.sequences[index].computed;
            let hits = match kept {
                0 => self.pool.lookup(&self.sequences[index]),
                _ => Vec::new(),
            };
            let cached = u32::try_from(hits.len()).expect("few blocks") * self.config.block_size;
            let external = match &mut self.lmcache {
                Some(lmcache) if kept == 0 => lmcache.look_up(now_ps, index, &self.sequences[index], cached),
                _ => 0,
            };
            let is_aside = external > 0 && self.lmcache.as_ref().is_some_and(Lmcache::is_aside);
            let reserved = self.reserved_blocks(decision);
            let sequence = &mut self.sequences[index];
            // V1-19: a resumed sequence recomputes its outputs too. V1-20: hits and loads cost no budget.
            let computed = kept + cached + external;
            let mut n = sequence.known() - computed;
            let mut padding = 0;
            if n == 1
                && let Some(padded) = self.config.padded(computed, serves_running, serves_prefill)
            {
                if padded > budget.for_one() {
                    break; // D-8: rather not at all than not uniform.
                }
                padding = padded - 1;
                n = padded;
            }
            n = capped(n, threshold);
            if is_aside {
                n = 0;
            } else if hold && sequence.has_prefill_left(computed) {
                break; // V1-16
            }
            if !self.config.enable_chunked_prefill && n > budget.for_one() {
                if self.config.oversize_prompt_stops_admission {
                    break;
                }
                // 0.11 puts them back in reverse.
                set_aside.insert(0, self.waiting.remove(head));
                continue;
            }
            n = n.min(budget.for_one());
            let admission = Admission {
                hits: &hits,
                external,
                aside: is_aside.then_some(reserved),
                others_run: !self.running.is_empty(),
            };
            if !self.pool.allocate(sequence, n, Some(admission)) {
                break; // V1-17: head-of-line blocking.
            }
            self.waiting.remove(head);
            sequence.computed = computed;
            sequence.local = cached;
            sequence.whole = sequence.known();
            sequence.is_deferred = false;
            let mut there_ps = 0;
            if external > 0
                && let Some(lmcache) = &mut self.lmcache
            {
                there_ps = lmcache.load(now_ps, index, cached, external);
            }
            if is_aside {
                sequence.status = Status::Loading;
                sequence.is_loaded = false;
                self.loading.push((there_ps, index));
                continue;
            }
            self.running.push(index);
            sequence.status = Status::Running;
            sequence.cached_tokens.get_or_insert(cached);
            decision.carries_prefill |= sequence.has_prefill_left(sequence.computed);
            decision.give(index, sequence, n);
            let share = decision.shares.last_mut().expect("just given");
            (share.drafts, share.is_padded) = (padding, padding > 0);
            assert!(
                padding == 0 || n == 1 + padding,
                "vLLM fails where the threshold cuts padding"
            );
            budget.charge(n);
        }
        // Back to the front; under the priority policy the place does not matter.
        self.waiting.splice(0..0, set_aside);
        for sequence in &mut self.sequences {
            sequence.is_aside = false;
        }
    }

    /// Admits a sequence whose KV has come; `false` if nobody behind it is looked at.
    fn admit_loaded(
        &mut self,
        at: usize,
        decision: &mut Decision,
        budget: &mut Budget,
        threshold: u32,
        hold: bool,
    ) -> bool {
        let index = self.loading[at].1;
        let sequence = &mut self.sequences[index];
        if hold && sequence.has_prefill_left(sequence.computed) {
            return false; // V1-16
        }
        let mut n = capped(sequence.known() - sequence.computed, threshold);
        if !self.config.enable_chunked_prefill && n > budget.for_one() {
            sequence.is_aside = true;
            return !self.config.oversize_prompt_stops_admission;
        }
        n = n.min(budget.for_one());
        let admission = Admission {
            hits: &[],
            external: 0,
            aside: None,
            others_run: !self.running.is_empty(),
        };
        if !self.pool.allocate(sequence, n, Some(admission)) {
            return false;
        }
        self.loading.remove(at);
        self.running.push(index);
        sequence.status = Status::Running;
        sequence.cached_tokens.get_or_insert(sequence.local);
        decision.carries_prefill |= sequence.has_prefill_left(sequence.computed);
        decision.give(index, sequence, n);
        budget.charge(n);
        true
    }

    /// Blocks that prefills under way lack, loads included; 0.33 leaves them alone when it begins a load (V1-30).
    fn reserved_blocks(&self, decision: &Decision) -> usize {
        if !self.config.reserve_full_isl {
            return 0;
        }
        let lacks = |index: Index| {
            let sequence = &self.sequences[index];
            let known = sequence.known().min(self.config.max_model_len);
            self.pool.blocks_for(known).saturating_sub(sequence.blocks.len())
        };
        let running = self.running.iter().filter(|&&index| {
            let sequence = &self.sequences[index];
            match decision.shares.iter().find(|share| share.sequence == index) {
                Some(share) => sequence.computed + share.n < sequence.known() + sequence.placeholders,
                None => sequence.is_mid_prefill,
            }
        });
        let loading = self.loading.iter().map(|(_, index)| index);
        let loading = loading.filter(|&&index| self.sequences[index].status == Status::Loading);
        running.chain(loading).map(|&index| lacks(index)).sum()
    }

    /// Whether steps from before its preemption have to be processed before it comes back.
    fn is_stale(&self, index: Index) -> bool {
        let sequence = &self.sequences[index];
        match &self.config.stages {
            None => sequence.stale_outputs > 0,
            Some(stages) => {
                stages.stale_output_drains && sequence.status == Status::Preempted && sequence.unprocessed > 0
            }
        }
    }

    /// Books the step: computed tokens advance now, outputs become placeholders (V1-14).
    fn advance(&mut self, decision: &mut Decision) {
        let is_async = self.is_async();
        let stagger = self.config.stages.as_ref().map_or(0, |stages| stages.stagger);
        for share in &decision.shares {
            self.sequences[share.sequence].unprocessed += share.n;
        }
        for share in decision.shares.iter_mut().filter(|share| !share.is_orphan) {
            let sequence = &mut self.sequences[share.sequence];
            // What the request asks for at most: with a stop token one more (V1-15).
            let most = sequence.prompt_len
                + sequence.request.output_tokens
                + u32::from(sequence.request.ends_by_eos);
            share.is_awaited = share.computed >= sequence.whole || sequence.whole + 1 < most;
            sequence.begun = share.computed;
            sequence.computed += share.n;
            sequence.in_flight += share.n;
            // V1-63: a chunk that ends before the last known token emits nothing.
            share.samples = sequence.computed >= sequence.known() + sequence.placeholders;
            sequence.is_mid_prefill = !share.samples;
            if share.samples {
                share.tokens = sequence.verify(if share.is_padded { 0 } else { share.drafts });
            }
            if is_async && share.samples {
                sequence.turn = self.turn + stagger;
                sequence.placeholders += 1 + share.drafts;
                sequence.drafts = self.config.drafts.as_ref().map_or(0, |drafts| drafts.most); // D-13
            }
        }
    }

    /// Sends a sequence, already out of `running`, back to `waiting` (V1-23, V1-24, V1-28).
    fn preempt(&mut self, index: Index) {
        let sequence = &mut self.sequences[index];
        self.pool.release(sequence);
        sequence.computed = 0;
        sequence.in_flight = 0;
        sequence.stale_outputs = sequence.placeholders;
        sequence.placeholders = 0;
        sequence.drop_drafts(&self.config);
        sequence.preemptions += 1;
        sequence.status = Status::Preempted;
        self.waiting.insert(0, index);
        if let Some(lmcache) = &mut self.lmcache {
            lmcache.leaves(index);
        }
    }

    /// Position in `running` of the one to preempt (V1-22).
    fn victim(&self) -> usize {
        if !self.config.priority_policy {
            return self.running.len() - 1;
        }
        let mut worst = 0;
        for position in 1..self.running.len() {
            if self.urgency(self.running[position]) > self.urgency(self.running[worst]) {
                worst = position; // On a full tie the first one stays.
            }
        }
        worst
    }

    /// Position in `waiting` of the next candidate (V1-24).
    fn head_of_waiting(&self) -> Option<usize> {
        if !self.config.priority_policy {
            return if self.waiting.is_empty() { None } else { Some(0) };
        }
        (0..self.waiting.len()).min_by_key(|&position| self.rank(self.waiting[position]))
    }

    /// Order of the priority policy; vLLM's request ids are strings and compare as such.
    fn rank(&self, index: Index) -> ((i64, u64), String) {
        (self.urgency(index), self.sequences[index].request.id.to_string())
    }

    /// Priority, then arrival: smaller is served first.
    fn urgency(&self, index: Index) -> (i64, u64) {
        let request = &self.sequences[index].request;
        (request.priority, request.arrival_ps)
    }

    /// The cap on one sequence's tokens; 0.33 drops it when there is nobody to protect (VS-5).
    fn long_prefill_threshold(&self) -> u32 {
        let is_alone = self.running.len() + self.waiting.len() <= 1;
        if self.config.no_threshold_when_alone && is_alone {
            return 0;
        }
        self.config.long_prefill_token_threshold
    }

    /// Whether this step must leave prefill work alone (V1-16).
    fn holds_prefill(&self) -> bool {
        let is_too_early = self
            .steps_since_prefill
            .is_some_and(|steps| steps < self.config.prefill_schedule_interval);
        let some_decode = self
            .running
            .iter()
            .any(|&index| !self.sequences[index].is_mid_prefill);
        is_too_early && some_decode && !self.release_left_waiting
    }

    /// Counts an executed step for V1-16. What the queue holds is noted in every pass that looks at it.
    fn count_prefill_interval(&mut self, decision: &Decision, was_held: bool) {
        if decision.carries_prefill {
            self.steps_since_prefill = Some(1);
        } else if let Some(steps) = &mut self.steps_since_prefill
            && !decision.shares.is_empty()
        {
            *steps += 1;
        }
        if !was_held && decision.preempted.is_empty() {
            let counts = |index: &Index| !self.sequences[*index].is_deferred;
            self.release_left_waiting = self.waiting.iter().any(counts);
        }
    }
}

/// What is left of a step.
#[derive(Debug)]
struct Budget {
    /// Tokens.
    tokens: u32,
    /// Rows of the model runner's input, of which a drafter may need some for each share (D-7).
    inputs: u32,
    slots: u32,
}

impl Budget {
    /// Nobody can be given anything.
    fn is_spent(&self) -> bool {
        self.tokens == 0 || self.inputs <= self.slots
    }

    /// Most tokens of one share.
    fn for_one(&self) -> u32 {
        self.tokens.min(self.inputs - self.slots)
    }

    fn charge(&mut self, n: u32) {
        self.tokens -= n;
        self.inputs -= n + self.slots;
    }

    fn restore(&mut self, n: u32) {
        self.tokens += n;
        self.inputs += n + self.slots;
    }
}

/// Applies the long-prefill threshold, 0 meaning none.
fn capped(n: u32, threshold: u32) -> u32 {
    if threshold == 0 { n } else { n.min(threshold) }
}

impl Decision {
    /// Schedules `n` tokens of a sequence.
    fn give(&mut self, index: Index, sequence: &Sequence, n: u32) {
        let computed = sequence.computed;
        // Whether it samples is known when the step is booked, in `Scheduler::advance`.
        self.shares.push(Share {
            sequence: index,
            computed,
            n,
            is_orphan: false,
            samples: false,
            drafts: 0,
            is_padded: false,
            tokens: 0,
            stay: sequence.preemptions,
            is_awaited: false,
        });
    }
}
