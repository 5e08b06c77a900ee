//! The output of a step: tokens reach their requests, complete answers leave, and who gives up.

use super::launch::Step;
use super::replica::ScheduledReplica;
use super::sequence::Phase;
use crate::engine::Handle;
use crate::engine::scheduler::Binding;
use crate::engine::story::{self, common_gap};
use crate::facts::{Completion, Fact, Observer, Outcome, Steps};
use crate::units::Picos;

impl ScheduledReplica {
    /// Processes the step in flight and returns the time of its end.
    pub(super) fn process<O: Observer>(&mut self, observer: &mut O, ended: &mut Vec<Completion>) -> Picos {
        self.settle();
        self.plan = None;
        let mut step = self.in_flight.take().expect("a step in flight ends");
        let now = step.end();
        self.ledger.list_endings(&mut step);
        let since = self.report(&step, observer);
        // Where whoever is packed has waited longer than the more numerous others, each is told of alone.
        let tells_each = self.ledger.packed_in(&step) > 0 && since != self.ledger.last_decode;
        self.ledger.list_packed(&mut step, tells_each);
        if step.packed.is_some() {
            step.entries.sort_unstable_by_key(|entry| entry.order);
            self.fruitless_preemptions = 0;
        }
        for entry in &step.entries {
            if entry.is_packed {
                if tells_each {
                    let id = self.ledger.sequences[entry.handle.slot].request.id;
                    let gap = now - self.ledger.last_decode;
                    observer.observe(&story::gap(now, self.id, id, gap));
                }
                self.ledger.register_listed(entry.handle.slot);
            } else if self.ledger.slot(entry.handle).is_ok() {
                self.take_output(entry.handle.slot, entry.tokens, now, since, observer, ended);
            }
        }
        self.end_batch(now, observer, ended);
        self.last_end = now;
        if step.packed.is_some() || step.entries.iter().any(|entry| !entry.is_prefill) {
            self.ledger.last_decode = now;
        }
        self.spare_step = Some(step);
        now
    }

    /// Tells that a step was executed. Returns since when those who share its gap had waited.
    fn report<O: Observer>(&mut self, step: &Step, observer: &mut O) -> Picos {
        let stories = step.entries.iter().filter_map(|entry| {
            let sequence = self.ledger.sequences.get(entry.handle)?;
            let samples = sequence.computed + entry.tokens == sequence.known();
            (samples && sequence.binding.is_none()).then_some(&sequence.story)
        });
        let packed = self.ledger.packed_in(step);
        let last_decode = self.ledger.last_decode;
        let handed = packed + stories.clone().count() as u32;
        let (gap_seqs, since) = common_gap(stories, packed, self.last_end, last_decode);
        observer.observe(&Fact::Steps(&Steps {
            replica: self.id,
            begin: step.begin,
            end: step.end(),
            count: 1,
            duration: step.duration,
            duration_increment: Picos::ZERO,
            gap_seqs,
            gap: step.end() - since.min(step.begin),
            handed,
            seen: None,
            load: &step.load,
            recomputed_tokens: step.recomputed_tokens,
            running: step.running,
            waiting: step.waiting,
            free_blocks: step.free_blocks,
            free_meanwhile: step.free_blocks,
            kv_slots: step.load.decode_seqs,
        }));
        since
    }

    /// A sequence has computed its share.
    fn take_output<O: Observer>(
        &mut self,
        slot: usize,
        tokens: u32,
        now: Picos,
        since: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let ledger = &mut self.ledger;
        let sequence = &mut ledger.sequences[slot];
        sequence.share = 0;
        sequence.computed += tokens;
        let samples = sequence.computed == sequence.known();
        ledger.register(slot);
        if !samples {
            return;
        }
        let sequence = &mut ledger.sequences[slot];
        if sequence.is_complete() {
            sequence.filler += 1;
            return;
        }
        sequence.outputs += 1;
        self.fruitless_preemptions = 0;
        match sequence.binding {
            None => self.stream(slot, now, since, observer, ended),
            Some(Binding::EachWhole) if sequence.is_complete() && !sequence.is_answered => {
                self.answer_whole(slot, now, observer, ended);
            }
            Some(_) => {}
        }
    }

    /// A client gets its next token, and leaves with its last.
    fn stream<O: Observer>(
        &mut self,
        slot: usize,
        now: Picos,
        since: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let sequence = &mut self.ledger.sequences[slot];
        let (story, request) = (&mut sequence.story, &sequence.request);
        if let Some(fact) = story.have_token(request, self.id, now, Some(since)) {
            observer.observe(&fact);
        }
        if sequence.is_complete() {
            ended.push(self.ledger.answer(slot, now, Outcome::Completed));
            self.ledger.ended.push(slot);
            if !self.ledger.ends_late {
                self.ledger.dismiss_ended();
            }
        }
    }

    /// A client gets its whole answer; the row stays.
    fn answer_whole<O: Observer>(
        &mut self,
        slot: usize,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) {
        let sequence = &mut self.ledger.sequences[slot];
        let (story, request) = (&mut sequence.story, &sequence.request);
        if let Some(fact) = story.have_token(request, self.id, now, None) {
            observer.observe(&fact);
        }
        let (id, tokens) = (request.id, sequence.outputs - 1);
        if tokens > 0 {
            observer.observe(&Fact::Burst { now, id, tokens });
        }
        ended.push(self.ledger.answer(slot, now, Outcome::Completed));
    }

    /// A closed batch ends when the answers of all its members are complete (ST-3).
    fn end_batch<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        if !self.ledger.binds {
            return;
        }
        let sequences = &self.ledger.sequences;
        let is_bound = |slot: &&usize| sequences[**slot].binding.is_some();
        let mut bound = self.ledger.running.iter().filter(is_bound);
        if bound.clone().next().is_none() || !bound.all(|&slot| sequences[slot].is_complete()) {
            return;
        }
        let members: Vec<usize> = self.ledger.running.iter().filter(is_bound).copied().collect();
        for slot in members {
            if !self.ledger.sequences[slot].is_answered {
                self.answer_whole(slot, now, observer, ended);
            }
            self.ledger.take_out(slot);
            self.ledger.sequences.remove(slot);
        }
    }

    /// The client of a request gave up at `now`; `None` if it has ended before. Of a closed batch the row is computed on.
    pub(crate) fn abort<O: Observer>(
        &mut self,
        handle: Handle,
        now: Picos,
        _observer: &mut O,
    ) -> Option<Completion> {
        let slot = self.ledger.slot(handle).ok()?;
        if self.ledger.sequences[slot].is_answered {
            return None;
        }
        self.settle();
        self.plan = None;
        self.ledger.detach(slot, self.in_flight.as_deref_mut());
        if let Some(step) = &mut self.in_flight {
            step.repeat = None;
        }
        let completion = self.ledger.answer(slot, now, Outcome::TimedOut);
        let sequence = &self.ledger.sequences[slot];
        if sequence.binding.is_none() || sequence.phase != Phase::Running {
            self.inbox.retain(|&(_, other)| other != handle);
            self.ledger.take_out(slot);
            self.ledger.sequences.remove(slot);
        }
        Some(completion)
    }
}
