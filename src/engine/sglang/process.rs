//! The result of a batch: tokens reach their requests, prompts enter the tree, finished requests leave
//! (`SchedulerBatchResultProcessor`, SG-38, SG-39).

use super::batch::{Batch, BatchMode, Entry};
use super::disaggregated::Role;
use super::replica::SglangReplica;
use super::sequence::Phase;
use crate::engine::Handle;
use crate::engine::story::{self, common_gap};
use crate::facts::{Completion, Fact, Observer, Outcome, Steps};
use crate::units::Picos;

impl SglangReplica {
    /// Processes the oldest batch and returns the time of its end.
    pub(super) fn process_oldest<O: Observer>(
        &mut self,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        self.list_endings();
        let packed = self.packed_in_oldest();
        let (gap_seqs, since) = self.common_gap(packed);
        if packed > 0 && since != self.last_decode {
            // Whoever is packed has waited longer than the more numerous others, and each is told of alone.
            self.list_packed();
        }
        let mut batch = self.in_flight.pop_front().expect("a batch in flight ends");
        let now = batch.end();
        self.tree.set_clock(now);
        self.report(&batch, gap_seqs, since, observer);
        self.free_pages += std::mem::take(&mut batch.late_pages);
        self.publish_result(batch.mode, now);
        if batch.packed.is_some() {
            batch.entries.sort_unstable_by_key(|entry| entry.order);
        }
        let before = ended.len();
        for entry in &batch.entries {
            if !entry.samples {
                self.send_chunk(now);
            } else if entry.is_packed {
                let (id, gap) = (
                    self.sequences[entry.handle.slot].request.id,
                    now - self.last_decode,
                );
                observer.observe(&story::gap(now, self.id, id, gap));
            } else if self.awaits(entry) {
                self.deliver(entry, now, since, observer, ended);
            }
        }
        self.last_end = now;
        if let Some(step) = batch.packed {
            self.packed.processed = step + 1;
        }
        if batch.mode != BatchMode::Extend {
            self.last_decode = now;
        }
        let is_whole = batch.membership == self.membership && ended.len() == before;
        self.uniform = if is_whole { self.membership } else { 0 };
        self.spare.push(batch);
        now
    }

    /// The token is for a request that still waits for it.
    #[inline]
    fn awaits(&self, entry: &Entry) -> bool {
        self.find(entry.handle)
            .is_some_and(|sequence| sequence.phase == Phase::Running && sequence.life == entry.life)
    }

    /// How many share the gap that is told with the oldest batch, and since when they had waited.
    fn common_gap(&self, packed: u32) -> (u32, Picos) {
        let batch = self.in_flight.front().expect("a batch in flight ends");
        let entries = batch.entries.iter();
        let samplers = entries.filter(|entry| entry.samples && self.awaits(entry));
        let stories = samplers.map(|entry| &self.sequences[entry.handle.slot].story);
        common_gap(stories, packed, self.last_end, self.last_decode)
    }

    /// Tells that a batch was executed.
    fn report<O: Observer>(&mut self, batch: &Batch, gap_seqs: u32, since: Picos, observer: &mut O) {
        observer.observe(&Fact::Steps(&Steps {
            replica: self.id,
            begin: batch.begin,
            end: batch.end(),
            count: 1,
            duration: batch.duration,
            duration_increment: Picos::ZERO,
            gap_seqs,
            gap: batch.end() - since.min(batch.begin),
            handed: batch.handed(),
            seen: None,
            load: &batch.load,
            recomputed_tokens: batch.recomputed_tokens,
            running: batch.running,
            waiting: batch.waiting,
            free_blocks: batch.free_pages,
            free_meanwhile: self.reported_free(),
            kv_slots: batch.load.decode_seqs,
        }));
    }

    /// A request gets a token.
    fn deliver<O: Observer>(
        &mut self,
        entry: &Entry,
        now: Picos,
        since: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let slot = entry.handle.slot;
        if matches!(self.role, Role::Prefill(_)) {
            return self.send_rest(slot, now);
        }
        let tokens = match entry.accepted {
            Some(accepted) => self.commit(slot, accepted, now, observer),
            None => 1,
        };
        let sequence = &mut self.sequences[slot];
        sequence.outputs += tokens;
        sequence.in_flight -= 1;
        let (story, request) = (&mut sequence.story, &sequence.request);
        if let Some(fact) = story.have_token(request, self.id, now, Some(since)) {
            observer.observe(&fact);
        }
        if tokens > 1 {
            let (id, tokens) = (sequence.request.id, tokens - 1);
            observer.observe(&Fact::Burst { now, id, tokens });
        }
        if sequence.outputs == sequence.target {
            self.cache_finished(slot);
            self.rows -= 1;
            ended.push(self.leave(slot, now, Outcome::Completed));
        } else if !entry.is_decode {
            let fill = sequence.fill;
            self.cache_unfinished(slot, fill);
        }
    }

    /// A request leaves; its pages and its row are free already.
    pub(super) fn leave(&mut self, slot: usize, now: Picos, outcome: Outcome) -> Completion {
        let sequence = &mut self.sequences[slot];
        let was = std::mem::replace(&mut sequence.phase, Phase::Ended);
        let (story, request) = (&sequence.story, &sequence.request);
        let completion = story.end(request, self.id, now, outcome, sequence.outputs);
        self.inside -= 1;
        let handle = sequence.handle;
        if was == Phase::Running && self.is_listed(handle) {
            self.ended_in_lists += 1;
        } else {
            self.sequences.remove(slot);
        }
        completion
    }

    /// Whether a list of the scheduler names a sequence, which must stay until the list is cleaned.
    fn is_listed(&self, handle: Handle) -> bool {
        self.running.contains(&handle) || self.last.as_ref().is_some_and(|last| last.contains(&handle))
    }

    /// An ended sequence was taken out of the list that named it.
    pub(super) fn bury(&mut self, handle: Handle) {
        self.ended_in_lists -= 1;
        self.sequences.remove(handle.slot);
    }

    /// The client of a request gave up at `now`; `None` if it has ended before. What it computed is cached at once; the
    /// engine does so at the end of the batch on the GPU.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        handle: Handle,
        now: Picos,
        observer: &mut O,
    ) -> Option<Completion> {
        self.tree.set_clock(now);
        let phase = self.find(handle)?.phase;
        if phase == Phase::Ended {
            return None;
        }
        self.tell(observer);
        if phase != Phase::Running {
            self.waiting.retain(|&slot| slot != handle.slot);
            self.inbox.retain(|&(_, other)| other != handle);
            self.forget_queued(handle, now);
        } else {
            if self.chunked == Some(handle.slot) {
                self.chunked = None;
            }
            self.take_out(handle.slot);
            if self.sequences[handle.slot].outputs > 0 {
                self.cache_finished(handle.slot);
            } else {
                self.release(handle.slot);
            }
            self.rows -= 1;
        }
        Some(self.leave(handle.slot, now, Outcome::TimedOut))
    }

    /// Writes the pass down.
    pub(super) fn log_pass(&mut self, now: Picos, batch: Option<&Batch>) {
        if self.log.is_none() || (batch.is_none() && self.running.is_empty()) {
            return;
        }
        let id = |slot: usize| self.sequences[slot].request.id;
        let record = super::SglangRecord {
            mode: batch.map_or(BatchMode::None, |batch| batch.mode),
            scheduled: now,
            begin: batch.map_or(now, |batch| batch.begin),
            duration: batch.map_or(Picos::ZERO, |batch| batch.duration),
            shares: self.shares_log.clone(),
            retracted: self.retracted.clone(),
            free_pages: self.free_pages,
            evictable: self.tree.evictable(),
            protected: self.tree.protected(),
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            full: self.full,
            ratio: self.ratio,
            chunked: self.chunked.map(id),
            order: self.waiting.iter().map(|&slot| id(slot)).collect(),
        };
        self.log.as_mut().expect("only called with a log").push(record);
    }
}
