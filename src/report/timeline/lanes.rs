//! What a timeline keeps of one replica: its lanes, its counters, and where its steps were last.

use super::TimelineReplica;
use super::events::{Args, Events, Nanos, Track};
use super::window::TimeWindow;
use crate::sim::Steps;
use crate::units::Picos;

/// A lane that shows one running request at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of its thread, once something is written there.
    tid: Option<u32>,
    is_taken: bool,
    /// When the last one left.
    free_from: Picos,
}

/// Numbers of requests from an instant on, not written yet.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    since: Picos,
    running: i64,
    waiting: i64,
    is_new: bool,
}

/// How the steps that were told last would go on if nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Course {
    end: Picos,
    decode_seqs: u32,
    decode_kv_tokens: u64,
}

/// One replica.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) pid: u32,
    pub(super) name: String,
    /// Where its steps are.
    pub(super) steps: Track,
    kv_blocks: u32,
    pub(super) answers_whole: bool,
    slots: Vec<Slot>,
    level: Level,
    course: Option<Course>,
    /// Begin and end of the last step that was written.
    pub(super) last_step: Option<(Picos, Picos)>,
    used_blocks: Option<u32>,
}

impl Lanes {
    /// The replica of this number among `all`. No thread has the number of a process, which would be its main one.
    pub(super) fn new(index: usize, all: usize, of: &TimelineReplica, events: &mut Events) -> Lanes {
        let number = |of: usize| u32::try_from(of).expect("replicas are numbered in 32 bits");
        let pid = number(index + 1);
        let steps = Track {
            pid,
            tid: number(all + 1 + index),
        };
        let label = format!("{} KV blocks of {} tokens", of.kv_blocks, of.block_size);
        events.process(pid, &of.name, index, &label);
        events.thread(steps, &of.steps, 0);
        Lanes {
            pid,
            name: of.name.clone(),
            steps,
            kv_blocks: of.kv_blocks,
            answers_whole: of.answers_whole,
            slots: Vec::new(),
            level: Level {
                is_new: true,
                ..Level::default()
            },
            course: None,
            last_step: None,
            used_blocks: None,
        }
    }

    /// Takes the first slot that is free at `now`.
    pub(super) fn take_slot(&mut self, now: Picos) -> usize {
        let free = |slot: &Slot| !slot.is_taken && slot.free_from <= now;
        let at = self.slots.iter().position(free).unwrap_or(self.slots.len());
        if at == self.slots.len() {
            self.slots.push(Slot::default());
        }
        self.slots[at].is_taken = true;
        at
    }

    /// Nobody has the slot from `now` on.
    pub(super) fn free_slot(&mut self, at: usize, now: Picos) {
        let slot = &mut self.slots[at];
        (slot.is_taken, slot.free_from) = (false, now);
    }

    /// The track of a slot, with a name; `next` is the number of the next new thread.
    pub(super) fn track(&mut self, at: usize, next: &mut u32, events: &mut Events) -> Track {
        let pid = self.pid;
        let slot = &mut self.slots[at];
        let is_new = slot.tid.is_none();
        let tid = *slot.tid.get_or_insert(*next);
        let track = Track { pid, tid };
        if is_new {
            *next += 1;
            events.thread(track, &format!("running {}", at + 1), at + 1);
        }
        track
    }

    /// So many more run and wait from `at` on. Of one nanosecond only the last numbers are written.
    pub(super) fn shift(
        &mut self,
        at: Picos,
        running: i64,
        waiting: i64,
        window: TimeWindow,
        events: &mut Events,
    ) {
        if Nanos::of(at) > Nanos::of(self.level.since.max(window.from)) {
            self.write_level(window, events);
        }
        let level = &mut self.level;
        level.running += running;
        level.waiting += waiting;
        level.since = level.since.max(at);
        level.is_new = true;
    }

    /// Writes the numbers that hold since the last change.
    pub(super) fn write_level(&mut self, window: TimeWindow, events: &mut Events) {
        let Level {
            since,
            running,
            waiting,
            is_new,
        } = self.level;
        debug_assert!(running >= 0 && waiting >= 0, "nobody leaves who was not there");
        if std::mem::replace(&mut self.level.is_new, false) && is_new {
            let counts = Args::default().with("running", running).with("waiting", waiting);
            events.counter(self.pid, "requests", since.max(window.from), &counts);
        }
    }

    /// Used blocks, where the steps are of another batch than those before: of a run of equal steps the blocks of the first are
    /// known, as who runs and waits is, and steps may be told as several runs.
    pub(super) fn used_blocks(&mut self, steps: &Steps<'_>) -> Option<u32> {
        let load = steps.load;
        let now = Course {
            end: steps.begin,
            decode_seqs: load.decode_seqs,
            decode_kv_tokens: load.decode_kv_tokens,
        };
        let goes_on = load.only_decodes() && self.course == Some(now);
        self.course = load.only_decodes().then(|| Course {
            end: steps.end,
            decode_kv_tokens: load.decode_kv_tokens + u64::from(load.decode_seqs) * steps.count,
            ..now
        });
        (!goes_on).then(|| self.kv_blocks - steps.free_meanwhile)
    }

    /// Writes how many blocks are in use from `at` on, if that is news.
    pub(super) fn write_blocks(&mut self, used: u32, at: Picos, events: &mut Events) {
        if self.used_blocks.replace(used) != Some(used) {
            events.counter(self.pid, "KV blocks", at, &Args::default().with("used", used));
        }
    }
}
