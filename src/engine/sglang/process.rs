//! The result of a batch: tokens reach their requests, prompts enter the tree, finished requests leave
//! (`SchedulerBatchResultProcessor`, SG-38, SG-39).

use super::batch::{Batch, BatchMode, Entry};
use super::disaggregated::Role;
use super::replica::SglangReplica;
use super::sequence::Phase;
use crate::engine::Handle;
use crate::engine::story::common_gap;
use crate::facts::{Completion, Fact, Observer, Outcome, Steps};
use crate::units::Picos;

impl SglangReplica {
    /// Processes the oldest batch and returns the time of its end.
    pub(super) fn process_oldest<O: Observer>(
        &mut self,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> Picos {
        self.settle();
        self.plan = None;
        let batch = self.in_flight.pop_front().expect("a batch in flight ends");
        let now = batch.end();
        self.publish_result(batch.mode, now);
        self.tree.set_clock(now);
        let since = self.report(&batch, observer);
        let before = ended.len();
        for entry in &batch.entries {
            if !entry.samples {
                self.send_chunk(now);
            } else if self.awaits(entry) {
                self.deliver(entry, now, since, observer, ended);
            }
        }
        self.last_end = now;
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

    /// Tells that a batch was executed. Returns since when those who share its gap had waited.
    fn report<O: Observer>(&mut self, batch: &Batch, observer: &mut O) -> Picos {
        let entries = batch.entries.iter();
        let samplers = entries.filter(|entry| entry.samples && self.awaits(entry));
        let stories = samplers.map(|entry| &self.sequences[entry.handle.slot].story);
        let (gap_seqs, since) = common_gap(stories, self.last_end, self.last_decode);
        observer.observe(&Fact::Steps(&Steps {
            replica: self.id,
            begin: batch.begin,
            end: batch.end(),
            count: 1,
            duration: batch.duration,
            duration_increment: Picos::ZERO,
            gap_seqs,
            gap: batch.end() - since.min(batch.begin),
            load: &batch.load,
            recomputed_tokens: batch.recomputed_tokens,
            running: batch.running,
            waiting: batch.waiting,
            free_blocks: batch.free_pages,
            kv_slots: batch.load.decode_seqs,
        }));
        since
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
        let sequence = &mut self.sequences[slot];
        sequence.outputs += 1;
        sequence.in_flight -= 1;
        let (story, request) = (&mut sequence.story, &sequence.request);
        if let Some(fact) = story.have_token(request, now, Some(since)) {
            observer.observe(&fact);
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
        self.settle();
        self.plan = None;
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
