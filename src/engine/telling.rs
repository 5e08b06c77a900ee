//! What a replica tells of its steps: a run of steps of one batch as one fact.
//!
//! Steps that decode the same members of the pack, one after the other without a pause, are held back and told together,
//! as one leap over them would be. Whatever else there is to tell comes after them.

use crate::cost::StepLoad;
use crate::facts::{Fact, Observer, Steps};
use crate::ids::ReplicaId;
use crate::units::Picos;

use super::replica::Replica;
use super::step::Step;

/// Steps that were executed and not told yet.
#[derive(Debug)]
pub(super) struct Telling {
    replica: ReplicaId,
    /// How many; 0 if there is nothing to tell.
    count: u64,
    begin: Picos,
    end: Picos,
    /// Of the first.
    duration: Picos,
    /// Of each over the one before.
    increment: Picos,
    /// From the token before to the first.
    gap: Picos,
    /// What the first computes.
    load: StepLoad,
    membership: u64,
    running: u32,
    waiting: u32,
    free_blocks: u32,
    kv_slots: u32,
    /// Of the first.
    meanwhile: Meanwhile,
    /// Of the step that is told next.
    next: Meanwhile,
}

/// Steps that were executed and are held back, as they will be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untold {
    pub(crate) first_end: Picos,
    pub(crate) last_end: Picos,
    pub(crate) duration: Picos,
    pub(crate) increment: Picos,
    pub(crate) count: u64,
    /// Sequences that have a token of each.
    pub(crate) handed: u32,
}

impl Untold {
    /// Of steps as they are told.
    #[inline]
    pub(crate) fn of(steps: &Steps<'_>) -> Untold {
        Untold {
            first_end: steps.begin + steps.duration,
            last_end: steps.end,
            duration: steps.duration,
            increment: steps.duration_increment,
            count: steps.count,
            handed: steps.handed,
        }
    }
}

/// What of a replica's steps is not told yet, and when the next one ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlook {
    pub(crate) untold: Option<Untold>,
    /// `None` where nobody is inside.
    pub(crate) next_end: Option<Picos>,
}

/// A replica while a step runs, as that step's end finds it. Where steps are scheduled ahead it is another than when the step was
/// scheduled: those have left who ended before it began, and the step behind it has taken its blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Meanwhile {
    free_blocks: u32,
    running: u32,
}

impl Telling {
    /// Nothing to tell.
    pub(super) fn new(replica: ReplicaId) -> Telling {
        Telling {
            replica,
            count: 0,
            begin: Picos::ZERO,
            end: Picos::ZERO,
            duration: Picos::ZERO,
            increment: Picos::ZERO,
            gap: Picos::ZERO,
            load: StepLoad::default(),
            membership: 0,
            running: 0,
            waiting: 0,
            free_blocks: 0,
            kv_slots: 0,
            meanwhile: Meanwhile::default(),
            next: Meanwhile::default(),
        }
    }

    /// What is told next runs while so many blocks are free and so many sequences run.
    #[inline]
    pub(super) fn meanwhile(&mut self, free_blocks: u32, running: u32) {
        self.next = Meanwhile { free_blocks, running };
    }

    /// A step was executed, `gap` after the token before.
    #[inline(always)]
    pub(super) fn step<O: Observer>(&mut self, step: &Step, gap: Picos, observer: &mut O) {
        if step.is_uniform {
            self.run(step, 1, Picos::ZERO, step.end(), gap, observer);
        } else {
            self.step_alone(step, gap, observer);
        }
    }

    /// A step that is unlike all others was executed.
    fn step_alone<O: Observer>(&mut self, step: &Step, gap: Picos, observer: &mut O) {
        self.flush(observer);
        let gap_seqs = step.packed - step.discarded;
        observer.observe(&Fact::Steps(&self.one(step, step.begin, gap_seqs, gap)));
    }

    /// A step that passed through the stages of a pipeline was executed; before `begin` another one is told of.
    pub(super) fn staged<O: Observer>(&mut self, step: &Step, begin: Picos, observer: &mut O) {
        let duration = step.end() - begin;
        observer.observe(&Fact::Steps(&self.one(step, begin, 0, duration)));
    }

    /// The fact of a single step, told from `begin` on.
    #[inline]
    fn one<'s>(&self, step: &'s Step, begin: Picos, gap_seqs: u32, gap: Picos) -> Steps<'s> {
        Steps {
            replica: self.replica,
            begin,
            end: step.end(),
            count: 1,
            duration: step.end() - begin,
            duration_increment: Picos::ZERO,
            gap_seqs,
            gap,
            handed: step.handed(),
            seen: None,
            load: &step.load,
            recomputed_tokens: step.recomputed_tokens,
            running: step.running,
            waiting: step.waiting,
            free_blocks: step.free_blocks,
            free_meanwhile: self.next.free_blocks,
            kv_slots: step.kv_slots,
        }
    }

    /// A run of `count` uniform steps was executed, of which `first` is the first, the last ended at `end`, and each
    /// lasted `increment` longer than the one before.
    #[inline(always)]
    pub(super) fn run<O: Observer>(
        &mut self,
        first: &Step,
        count: u64,
        increment: Picos,
        end: Picos,
        gap: Picos,
        observer: &mut O,
    ) {
        if self.goes_on(first, count, increment) {
            self.count += count;
            self.end = end;
        } else {
            self.begin_anew(first, count, increment, end, gap, observer);
        }
    }

    /// Tells what was held back, and holds back the run instead.
    #[inline(always)]
    fn begin_anew<O: Observer>(
        &mut self,
        first: &Step,
        count: u64,
        increment: Picos,
        end: Picos,
        gap: Picos,
        observer: &mut O,
    ) {
        if self.count > 0 {
            self.flush_now(observer);
        }
        self.count = count;
        (self.begin, self.end) = (first.begin, end);
        (self.duration, self.increment, self.gap) = (first.duration, increment, gap);
        self.load.decode_seqs = first.load.decode_seqs;
        self.load.sampled_rows = first.load.sampled_rows;
        self.load.decode_kv_tokens = first.load.decode_kv_tokens;
        self.load.decode_longest = first.load.decode_longest;
        self.load.decode_beyond = first.load.decode_beyond;
        self.load.seqs_beyond = first.load.seqs_beyond;
        self.membership = first.membership;
        (self.running, self.waiting) = (first.running, first.waiting);
        (self.free_blocks, self.kv_slots) = (first.free_blocks, first.kv_slots);
        self.meanwhile = self.next;
    }

    /// Whether a run of steps goes on as the one that is held back does; settles the increment of a single step.
    #[inline]
    fn goes_on(&mut self, first: &Step, count: u64, increment: Picos) -> bool {
        if self.count == 0
            || self.membership != first.membership
            || self.end != first.begin
            || self.waiting != first.waiting
            || self.meanwhile.running != self.next.running
            || first.duration < self.duration
        {
            return false;
        }
        let mine = if self.count == 1 {
            first.duration - self.duration
        } else {
            self.increment
        };
        if self.duration + mine * self.count != first.duration || (count > 1 && mine != increment) {
            return false;
        }
        self.increment = mine;
        true
    }

    /// What is held back.
    #[inline]
    pub(super) fn untold(&self) -> Option<Untold> {
        (self.count > 0).then(|| Untold {
            first_end: self.begin + self.duration,
            last_end: self.end,
            duration: self.duration,
            increment: self.increment,
            count: self.count,
            handed: self.load.decode_seqs,
        })
    }

    /// Tells what was held back.
    #[inline]
    pub(super) fn flush<O: Observer>(&mut self, observer: &mut O) {
        if self.count > 0 {
            self.flush_now(observer);
        }
    }

    #[inline(never)]
    fn flush_now<O: Observer>(&mut self, observer: &mut O) {
        observer.observe(&Fact::Steps(&Steps {
            replica: self.replica,
            begin: self.begin,
            end: self.end,
            count: self.count,
            duration: self.duration,
            duration_increment: self.increment,
            gap_seqs: self.load.decode_seqs,
            gap: self.gap,
            handed: self.load.decode_seqs,
            seen: None,
            load: &self.load,
            recomputed_tokens: 0,
            running: self.running,
            waiting: self.waiting,
            free_blocks: self.free_blocks,
            free_meanwhile: self.meanwhile.free_blocks,
            kv_slots: self.kv_slots,
        }));
        self.count = 0;
    }
}

impl Replica {
    /// Tells everything that has happened.
    pub(crate) fn tell<O: Observer>(&mut self, observer: &mut O) {
        self.telling.flush(observer);
        self.tell_tiers(observer);
    }
}
