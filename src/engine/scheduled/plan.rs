//! What a scheduler sees, and what it can do.

use std::iter::Chain;
use std::slice;

use super::ledger::Ledger;
use super::sequence::{Phase, Sequence};
use crate::engine::scheduler::{Binding, Denied, SequenceId, SequenceView};
use crate::facts::Outcome;
use crate::kv::{Match, Taken};
use crate::units::Picos;

/// The step that is being composed: a view of the engine, and the actions that change it.
///
/// Actions take effect at once: blocks that a sequence is given are not free for the next. An action that cannot be taken
/// is [`Denied`], with the reason, and changes nothing.
pub struct StepPlan<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) now: Picos,
}

/// What there is to see.
impl StepPlan<'_> {
    /// The clock.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Tokens of a KV block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.ledger.block_size
    }

    /// KV blocks of the GPU's memory.
    #[must_use]
    pub fn total_blocks(&self) -> u32 {
        self.ledger.pool.total()
    }

    /// Of them, those that no sequence holds; they may cache contents that a later sequence finds.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.ledger.pool.free()
    }

    /// Blocks that hold `tokens` tokens.
    #[must_use]
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        self.ledger.blocks_for(tokens)
    }

    /// Who waits: in order of arrival, whoever was preempted first, unless the scheduler sorts them otherwise.
    #[must_use]
    pub fn waiting(&self) -> Views<'_> {
        Views::of(self.ledger, self.ledger.waiting.as_slices())
    }

    /// Who runs, in order of admission.
    #[must_use]
    pub fn running(&self) -> Views<'_> {
        Views::of(self.ledger, (&self.ledger.running, &[]))
    }

    /// Whose blocks are in the host's memory, in the order in which they went there.
    #[must_use]
    pub fn swapped(&self) -> Views<'_> {
        Views::of(self.ledger, self.ledger.swapped.as_slices())
    }

    /// One sequence; `None` if it has left.
    #[must_use]
    pub fn get(&self, id: SequenceId) -> Option<SequenceView> {
        let slot = self.ledger.slot(id.0).ok()?;
        Some(self.ledger.view(slot))
    }

    /// Of those who run, those who compute their prompts.
    pub fn prefilling(&self) -> impl Iterator<Item = SequenceView> {
        let unpacked = self.ledger.unpacked().into_iter();
        let views = unpacked.map(|slot| self.ledger.view(slot));
        views.filter(|sequence| sequence.is_prefilling)
    }

    /// Tokens that a sequence must compute before its next is sampled: what it knows, without what is computed or, if it
    /// waits, cached. Looks its prefix up where prefixes are cached.
    ///
    /// # Errors
    /// [`Denied::Gone`].
    pub fn missing_tokens(&self, id: SequenceId) -> Result<u32, Denied> {
        let slot = self.ledger.slot(id.0)?;
        let sequence = &self.ledger.sequences[slot];
        if sequence.place.is_some() {
            return Ok(1);
        }
        let cached = self.ledger.cached_prefix(sequence).blocks * self.ledger.block_size;
        Ok(sequence.known() - sequence.computed.max(cached))
    }
}

/// What there is to do.
impl StepPlan<'_> {
    /// A sequence computes its next `tokens` tokens in this step. One that waits is admitted.
    ///
    /// # Errors
    /// [`Denied::NoBlocks`], or what makes the action illegal.
    pub fn compute(&mut self, id: SequenceId, tokens: u32) -> Result<(), Denied> {
        self.compute_reserving(id, tokens, 0)
    }

    /// The same, with blocks for at least `reserved` tokens in all.
    ///
    /// # Errors
    /// As [`StepPlan::compute`].
    pub fn compute_reserving(&mut self, id: SequenceId, tokens: u32, reserved: u32) -> Result<(), Denied> {
        let ledger = &mut *self.ledger;
        let slot = ledger.slot(id.0)?;
        if ledger.share(slot) > 0 {
            return Err(Denied::GivenAlready);
        }
        ledger.detach(slot, None);
        let sequence = &ledger.sequences[slot];
        if sequence.phase == Phase::Swapped {
            return Err(Denied::NotRunning);
        }
        let found = ledger.cached_prefix(sequence);
        let cached = found.blocks * ledger.block_size;
        let computed = sequence.computed.max(cached);
        let missing = sequence.known() - computed;
        if tokens == 0 || tokens > missing {
            let asked = tokens;
            return Err(Denied::Tokens { asked, missing });
        }
        let held = sequence.blocks.max(found.blocks);
        let fits = reserved.max(computed + tokens);
        // Mostly another token of the last block.
        let new = if u64::from(fits) <= u64::from(held) * u64::from(ledger.block_size) {
            0
        } else {
            ledger.blocks_for(fits) - held
        };
        let (needed, free) = (new + found.unreferenced, ledger.pool.free());
        if needed > free {
            return Err(Denied::NoBlocks { needed, free });
        }
        if sequence.phase == Phase::Waiting {
            ledger.admit(slot, found, new, self.now);
        } else if new > 0 {
            ledger.pool.take(new);
            ledger.sequences[slot].blocks += new;
        }
        ledger.sequences[slot].share = tokens;
        ledger.shares.push(slot);
        Ok(())
    }

    /// Everybody who runs and does not prefill computes a token in this step, if they are no more than `most` and at least
    /// `spare` blocks stay free. All or nothing: how many they are, or `None`.
    ///
    /// The same as asking for each of them in order of admission, but a step costs O(its changes) where it is used.
    pub fn decode_all(&mut self, most: u32, spare: u32) -> Option<u32> {
        self.ledger.decode_all(most, spare)
    }

    /// A running sequence loses its blocks and waits again, at the head of the queue; all that it knows must be computed
    /// anew, except what is cached. What it was given in this step is taken back.
    ///
    /// # Errors
    /// If it does not run, or belongs to a closed batch.
    pub fn preempt(&mut self, id: SequenceId) -> Result<(), Denied> {
        let slot = self.running_unbound(id)?;
        let ledger = &mut *self.ledger;
        ledger.drop_share(slot);
        ledger.release(slot);
        ledger.running.retain(|&other| other != slot);
        ledger.waiting.push_front(slot);
        let lost_tokens = std::mem::take(&mut ledger.sequences[slot].computed);
        ledger.set_aside(slot, Phase::Waiting, lost_tokens, self.now);
        Ok(())
    }

    /// A running sequence's blocks go to the host's memory; it is resumed by [`StepPlan::swap_in`].
    ///
    /// # Errors
    /// [`Denied::NoSwapSpace`], or as [`StepPlan::preempt`].
    pub fn swap_out(&mut self, id: SequenceId) -> Result<(), Denied> {
        let slot = self.running_unbound(id)?;
        let ledger = &mut *self.ledger;
        let needed = ledger.sequences[slot].blocks;
        let free = ledger.swap_free;
        if needed > free {
            return Err(Denied::NoSwapSpace { needed, free });
        }
        ledger.drop_share(slot);
        ledger.release(slot);
        ledger.swap_free -= needed;
        ledger.moved_blocks += needed;
        ledger.sequences[slot].blocks = needed;
        ledger.running.retain(|&other| other != slot);
        ledger.swapped.push_back(slot);
        ledger.set_aside(slot, Phase::Swapped, 0, self.now);
        Ok(())
    }

    /// A sequence's blocks come back from the host's memory; it runs, behind the others.
    ///
    /// # Errors
    /// [`Denied::NoBlocks`], or [`Denied::NotSwapped`].
    pub fn swap_in(&mut self, id: SequenceId) -> Result<(), Denied> {
        let ledger = &mut *self.ledger;
        let slot = ledger.slot(id.0)?;
        let sequence = &ledger.sequences[slot];
        if sequence.phase != Phase::Swapped {
            return Err(Denied::NotSwapped);
        }
        let (needed, free) = (sequence.blocks, ledger.pool.free());
        if needed > free {
            return Err(Denied::NoBlocks { needed, free });
        }
        ledger.swapped.retain(|&other| other != slot);
        ledger.swap_free += needed;
        ledger.moved_blocks += needed;
        ledger.sequences[slot].held = ledger.pool.admit(Match::MISS, Taken::of_one_group(needed));
        ledger.start_running(slot, 0, self.now);
        Ok(())
    }

    /// A request that waits or is swapped out is refused; its client has an error at once, and what it had so far.
    ///
    /// # Errors
    /// If it runs.
    pub fn reject(&mut self, id: SequenceId) -> Result<(), Denied> {
        let ledger = &mut *self.ledger;
        let slot = ledger.slot(id.0)?;
        if ledger.sequences[slot].phase == Phase::Running {
            return Err(Denied::NotWaiting);
        }
        ledger.take_out(slot);
        let completion = ledger.answer(slot, self.now, Outcome::Rejected);
        ledger.refused.push(completion);
        ledger.sequences.remove(slot);
        Ok(())
    }

    /// If the answer of a sequence has ended with the step before, it leaves now. Whether it has.
    pub(super) fn retire(&mut self, id: SequenceId) -> bool {
        let ledger = &mut *self.ledger;
        let at = ledger
            .slot(id.0)
            .ok()
            .and_then(|slot| ledger.ended.iter().position(|&ended| ended == slot));
        let Some(at) = at else { return false };
        let slot = ledger.ended.remove(at);
        ledger.drop_share(slot);
        ledger.take_out(slot);
        ledger.sequences.remove(slot);
        true
    }

    /// Puts `tokens` tokens of padding in front of the prompt of a sequence that waits and was never computed.
    ///
    /// # Errors
    /// If anything of it is computed, or it does not wait.
    pub fn pad(&mut self, id: SequenceId, tokens: u32) -> Result<(), Denied> {
        let slot = self.ledger.slot(id.0)?;
        let sequence = &mut self.ledger.sequences[slot];
        if sequence.phase != Phase::Waiting || sequence.story.has_run() {
            return Err(Denied::NotWaiting);
        }
        sequence.padding = tokens;
        Ok(())
    }

    /// Closes a batch around a waiting sequence: it stays, and computes on behind its answer's end, until the answers of
    /// all that are bound are complete. Nothing is streamed.
    ///
    /// # Errors
    /// If it does not wait, or was preempted before.
    pub fn bind(&mut self, id: SequenceId, binding: Binding) -> Result<(), Denied> {
        let slot = self.ledger.slot(id.0)?;
        let sequence = &mut self.ledger.sequences[slot];
        if sequence.phase != Phase::Waiting || sequence.story.has_run() {
            return Err(Denied::NotWaiting);
        }
        sequence.binding = Some(binding);
        self.ledger.binds = true;
        Ok(())
    }

    /// Puts the waiting queue in order of `key`, equals as they were. The order stays; who arrives is behind it.
    pub fn sort_waiting_by_key<K: Ord>(&mut self, mut key: impl FnMut(&SequenceView) -> K) {
        let sequences = &self.ledger.sequences;
        let waiting = self.ledger.waiting.make_contiguous();
        waiting.sort_by_cached_key(|&slot| key(&sequences[slot].view()));
    }

    /// Puts the running sequences in order of `key`, equals as they were.
    pub fn sort_running_by_key<K: Ord>(&mut self, mut key: impl FnMut(&SequenceView) -> K) {
        let ledger = &mut *self.ledger;
        let mut running = std::mem::take(&mut ledger.running);
        running.sort_by_cached_key(|&slot| key(&ledger.view(slot)));
        running.iter().for_each(|&slot| ledger.number(slot));
        ledger.running = running;
    }

    /// The scheduler wants to be asked again at `at`, if nothing happens before.
    pub fn wake_at(&mut self, at: Picos) {
        self.ledger.wake = Some(at);
    }

    /// The scheduler would decide the same for the next steps, too: the same sequences decode one token each, until
    /// somebody arrives, ends or gives up, or fewer than `spare` blocks would stay free. It is not asked meanwhile, and
    /// the steps are leapt over. Without effect on a step that computes more than one token of anybody.
    pub fn repeat_while_spare(&mut self, spare: u32) {
        self.ledger.repeat = Some(spare);
    }

    /// The engine dies of what it met, and nobody inside goes on; the run ends here and says so.
    pub fn halt(&mut self) {
        self.ledger.is_halted = true;
    }

    fn running_unbound(&mut self, id: SequenceId) -> Result<usize, Denied> {
        let slot = self.ledger.slot(id.0)?;
        let sequence = &self.ledger.sequences[slot];
        if sequence.phase != Phase::Running {
            return Err(Denied::NotRunning);
        }
        if sequence.binding.is_some() {
            return Err(Denied::Bound);
        }
        self.ledger.unpack();
        Ok(slot)
    }
}

/// The sequences of a queue, from either end. It borrows the plan only until the next is taken, so that
/// `while let Some(head) = plan.waiting().next()` may act on the plan.
#[derive(Clone)]
pub struct Views<'a> {
    ledger: &'a Ledger,
    slots: Chain<slice::Iter<'a, usize>, slice::Iter<'a, usize>>,
}

impl<'a> Views<'a> {
    fn of(ledger: &'a Ledger, (first, second): (&'a [usize], &'a [usize])) -> Views<'a> {
        Views {
            ledger,
            slots: first.iter().chain(second),
        }
    }
}

impl Iterator for Views<'_> {
    type Item = SequenceView;

    fn next(&mut self) -> Option<SequenceView> {
        let slot = *self.slots.next()?;
        Some(self.ledger.view(slot))
    }

    fn nth(&mut self, n: usize) -> Option<SequenceView> {
        let slot = *self.slots.nth(n)?;
        Some(self.ledger.view(slot))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl DoubleEndedIterator for Views<'_> {
    fn next_back(&mut self) -> Option<SequenceView> {
        let slot = *self.slots.next_back()?;
        Some(self.ledger.view(slot))
    }
}

impl ExactSizeIterator for Views<'_> {}

impl Ledger {
    /// What a waiting sequence would find cached; nothing for others.
    fn cached_prefix(&self, sequence: &Sequence) -> Match {
        if sequence.phase != Phase::Waiting || !self.pool.caches() || sequence.padding > 0 {
            return Match::MISS;
        }
        self.pool.look_up(&sequence.pieces, sequence.known())
    }

    /// A waiting sequence starts with the prefix that was found and `new` blocks behind it.
    fn admit(&mut self, slot: usize, found: Match, new: u32, now: Picos) {
        let held = self.pool.admit(found, Taken::of_one_group(new));
        self.unqueue(slot);
        let cached = found.blocks * self.block_size;
        let sequence = &mut self.sequences[slot];
        sequence.held = held;
        sequence.computed = cached;
        sequence.blocks = found.blocks + new;
        sequence.fill = sequence.known();
        self.start_running(slot, cached, now);
    }

    /// A sequence that waited or was swapped out runs.
    fn start_running(&mut self, slot: usize, cached_tokens: u32, now: Picos) {
        self.running.push(slot);
        self.number(slot);
        let sequence = &mut self.sequences[slot];
        sequence.phase = Phase::Running;
        let known = sequence.request.prompt_tokens + sequence.outputs;
        let (story, request) = (&mut sequence.story, &sequence.request);
        self.told
            .push(story.admit(request, self.replica, now, known, cached_tokens));
    }

    /// A sequence that ran no longer does.
    fn set_aside(&mut self, slot: usize, phase: Phase, lost_tokens: u32, now: Picos) {
        let sequence = &mut self.sequences[slot];
        sequence.phase = phase;
        sequence.queued_since = now;
        let (story, request) = (&mut sequence.story, &sequence.request);
        self.preempted.push(request.id);
        self.told
            .push(story.preempt(request, self.replica, now, lost_tokens));
    }
}
