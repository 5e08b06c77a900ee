//! What answers wait for on their way out of an engine: its API servers hand on token after token.
//!
//! At the end of a step every sequence that has a token of it is handed on, in the order of the steps, each in the same time
//! (V1-82: one event loop puts outputs to their streams, which then write pieces; `docs/probe.md` measured it). A step's tokens reach
//! their clients when all of that step are through: whoever was admitted last stands last in a step, so that is when first tokens come.
//! Requests that come in take their time in the same loop. A loop that is behind finds tokens of several steps for each stream, and
//! writes them as one piece: they take the time of tokens alone. Only where a step has more outputs than are put to their streams at once
//! do streams run in between, and write piece after piece (`AsyncLLM.output_handler`, `VLLM_V1_OUTPUT_PROC_CHUNK_SIZE`). Law: what is
//! handed on keeps the order of the steps.
//!
//! A run of steps costs O(1). Steps of a run last longer and longer, and each brings the same work; so the loop falls behind
//! for a while at most and, once it has caught up, keeps up to the run's end. [`Told::done`] is that in closed form.
//!
//! Left out: the order of tokens within a step, and that tokens in one piece have no gap between them.

use std::collections::VecDeque;
use std::hint::cold_path;

use rustc_hash::FxHashSet;

use crate::engine::{Outlook, Untold};
use crate::facts::{SeenGaps, Steps};
use crate::ids::RequestId;
use crate::units::Picos;

/// Runs of steps that are remembered, of those before the first who was preempted and waits yet: the token before a gap came with one
/// of the last steps, or with one of the last before it was preempted.
const REMEMBERED: usize = 64;

/// The way out of one replica.
#[derive(Debug)]
pub(crate) struct Streaming {
    pace: Pace,
    /// When all is done that steps wait for which end from now on.
    done: Picos,
    /// When the requests are through that no step waits for.
    aside: Picos,
    /// Runs of steps, in order of time.
    told: Vec<Told>,
    /// So many are remembered before some are forgotten.
    forget_at: usize,
    /// Of those that are forgotten the last that decoded: whoever decodes may wait for more prefills than are remembered.
    decoded: [Option<Told>; 2],
    /// Who was preempted, in order of time; of those who have had a token since, some are left.
    preempted: VecDeque<(Picos, RequestId)>,
    waiting: FxHashSet<RequestId>,
}

/// What handing tokens on takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Of one process for one token, where a piece has more than one.
    pub(crate) token: Picos,
    /// The same for one that is a piece of its own.
    pub(crate) piece: Picos,
    /// Most outputs of a step that are put to their streams before any of those runs.
    pub(crate) at_once: u32,
    /// Processes that share what comes in and goes out.
    pub(crate) servers: u64,
    /// Replicas that share these processes. What the others hand on is taken to be as much, at the same time.
    pub(crate) sharers: u64,
}

/// What the tokens of one step take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Of a loop that is behind, with what the same step of others brings it.
    pub(crate) behind: Picos,
    /// Of one that waits for them.
    pub(crate) whole: Picos,
}

impl Work {
    /// When the tokens of a step that ended at `end` are handed on by a loop that has other things to do until `free`.
    #[inline]
    pub(crate) fn done(&self, free: Picos, end: Picos) -> Picos {
        (free + self.behind).max(end + self.whole)
    }

    /// The same of the last step of a run.
    #[inline]
    pub(crate) fn all_done(&self, free: Picos, run: &Untold) -> Picos {
        let first = self.done(free, run.first_end);
        (first + self.behind * (run.count - 1)).max(run.last_end + self.whole)
    }
}

/// Tokens of a run of steps.
#[derive(Clone, Copy, Debug)]
struct Told {
    run: Untold,
    /// When the tokens of the first step were handed on, and those of the last.
    first_done: Picos,
    last_done: Picos,
    /// What those of one step take.
    work: Work,
    /// Somebody decodes in it.
    decodes: bool,
}

impl Told {
    /// A run by a loop that has other things to do until `free`.
    #[inline]
    fn of(run: &Untold, work: Work, free: Picos) -> Told {
        let first_done = work.done(free, run.first_end);
        let mut told = Told {
            run: *run,
            first_done,
            last_done: first_done,
            work,
            decodes: true,
        };
        if run.count > 1 {
            told.last_done = match told.waits_from_the_second() {
                true => run.last_end + work.whole,
                false => told.done(run.count - 1),
            };
        }
        told
    }

    /// Whether the loop waits for the second step, and so for all later ones, which are no shorter.
    #[inline]
    fn waits_from_the_second(&self) -> bool {
        let second_end = self.run.first_end + self.run.duration + self.run.increment;
        self.first_done + self.work.behind <= second_end + self.work.whole
    }

    /// How many steps after the first find the loop behind, and the gap of the one after them, if there is one.
    #[inline]
    fn gaps(&self) -> (u64, Picos) {
        match self.run.count {
            0 | 1 => (0, Picos::ZERO),
            _ if self.waits_from_the_second() => {
                let second_end = self.run.first_end + self.run.duration + self.run.increment;
                (0, second_end + self.work.whole - self.first_done)
            }
            _ => self.gaps_behind(),
        }
    }

    fn gaps_behind(&self) -> (u64, Picos) {
        let behind = self.behind();
        let caught_up = match behind + 1 < self.run.count {
            true => self.done(behind + 1) - self.done(behind),
            false => Picos::ZERO,
        };
        (behind, caught_up)
    }

    /// The end of a step.
    fn end(&self, index: u64) -> Picos {
        match index + 1 == self.run.count {
            true => self.run.last_end,
            false => {
                self.run.first_end
                    + self.run.duration * index
                    + self.run.increment * (index * (index + 1) / 2)
            }
        }
    }

    /// When tokens of a step are handed on: right behind those of the steps before, or after its end.
    fn done(&self, index: u64) -> Picos {
        (self.first_done + self.work.behind * index).max(self.end(index) + self.work.whole)
    }

    /// How many steps after the first find the loop behind.
    #[inline]
    fn behind(&self) -> u64 {
        let is_behind =
            |index: u64| self.first_done + self.work.behind * index > self.end(index) + self.work.whole;
        // Ends are convex in the index, and the first of them lies behind: so do all up to one.
        let (mut low, mut high) = (1, self.run.count);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_behind(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The step that ended at `at`.
    fn index_of(&self, at: Picos) -> Option<u64> {
        let (mut low, mut high) = (0, self.run.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.end(middle) < at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low < self.run.count && self.end(low) == at).then_some(low)
    }
}

impl Streaming {
    /// Nothing has been handed on.
    pub(crate) fn new(pace: Pace) -> Streaming {
        Streaming {
            pace,
            done: Picos::ZERO,
            aside: Picos::ZERO,
            told: Vec::with_capacity(2 * REMEMBERED),
            forget_at: 2 * REMEMBERED,
            decoded: [None; 2],
            preempted: VecDeque::new(),
            waiting: FxHashSet::default(),
        }
    }

    /// A request came in at `now` that takes one of the processes so long. All steps that ended before were told.
    pub(crate) fn take_in(&mut self, now: Picos, work: Picos) {
        self.done = self.done().max(now) + Picos(work.0 / self.pace.servers);
    }

    /// A request came in at `now` that takes the only process so long; when that begins, if it is over before the next step ends. Then it
    /// need not be known where between the steps it came: nobody waits for it but other requests.
    #[inline]
    pub(crate) fn take_in_aside(&mut self, now: Picos, work: Picos, outlook: &Outlook) -> Option<Picos> {
        let begin = match &outlook.untold {
            _ if self.pace.servers > 1 => return None,
            None => self.done(),
            Some(untold) => Told::of(untold, self.work(untold.handed), self.done)
                .last_done
                .max(self.aside),
        };
        let begin = begin.max(now);
        let end = begin + work;
        if outlook.next_end.is_some_and(|next| next < end) {
            return None;
        }
        self.aside = end;
        Some(begin)
    }

    /// What the tokens of one step take that so many sequences have one of.
    #[inline]
    pub(crate) fn work(&self, handed: u32) -> Work {
        let pace = &self.pace;
        // Of each process; a token is handed on by one.
        let (mut own, mut of_all) = (u64::from(handed), u64::from(handed) * pace.sharers);
        if pace.servers > 1 {
            cold_path();
            (own, of_all) = (own.div_ceil(pace.servers), of_all.div_ceil(pace.servers));
        }
        let is_at_once = own <= u64::from(pace.at_once);
        Work {
            behind: if is_at_once { pace.token } else { pace.piece } * of_all,
            whole: pace.piece * own,
        }
    }

    /// Processes that share what comes in.
    #[inline]
    pub(crate) fn servers(&self) -> u64 {
        self.pace.servers
    }

    /// When all is done that is there.
    #[inline]
    pub(crate) fn done(&self) -> Picos {
        self.done.max(self.aside)
    }

    /// A run of steps was executed; what clients see of its gaps.
    #[inline]
    pub(crate) fn hand_on(&mut self, steps: &Steps<'_>) -> SeenGaps {
        let run = Untold::of(steps);
        let work = self.work(run.handed);
        let told = Told {
            decodes: steps.load.decode_seqs > 0,
            ..Told::of(&run, work, self.done)
        };
        let before = run.first_end.saturating_sub(steps.gap);
        let first = told.first_done.saturating_sub(before + self.lag_at(before));
        let (behind, caught_up) = told.gaps();
        self.done = told.last_done;
        if self.told.len() >= self.forget_at {
            self.forget();
        }
        self.told.push(told);
        SeenGaps {
            first,
            behind,
            each: work.behind,
            caught_up,
        }
    }

    /// Forgets runs that nobody asks for any more.
    #[cold]
    fn forget(&mut self) {
        while let Some((_, id)) = self.preempted.front()
            && !self.waiting.contains(id)
        {
            self.preempted.pop_front();
        }
        let first = self.preempted.front().map(|(since, _)| *since);
        let of_those = first.map(|since| self.told.partition_point(|told| told.run.last_end < since));
        let behind = of_those.unwrap_or(self.told.len()).saturating_sub(REMEMBERED);
        let mut decoded = self.told[..behind].iter().filter(|told| told.decodes);
        let newest = decoded.next_back().copied();
        self.decoded = match (decoded.next_back(), newest) {
            (Some(&older), newest) => [Some(older), newest],
            (None, Some(_)) => [self.decoded[1], newest],
            (None, None) => self.decoded,
        };
        self.told.drain(..behind);
        self.forget_at = self.told.len() + REMEMBERED;
    }

    /// How much later than at the end of a step, at `at`, its tokens were handed on. What comes when no step ends waits for what is
    /// there.
    #[inline]
    pub(crate) fn lag_at(&self, at: Picos) -> Picos {
        match self.told.last() {
            Some(last) if last.run.last_end == at => last.last_done - at,
            _ => self.lag_before(at),
        }
    }

    /// The same of any step.
    fn lag_before(&self, at: Picos) -> Picos {
        let place = self.told.partition_point(|told| told.run.last_end < at);
        let told = self.told.get(place);
        let decoded = self.decoded.iter().rev().flatten();
        let mut known = told.into_iter().chain(decoded);
        match known.find_map(|told| Some((told, told.index_of(at)?))) {
            Some((told, index)) => told.done(index) - at,
            None if told.is_none() => self.done.saturating_sub(at),
            None => Picos::ZERO,
        }
    }

    /// All that was to be done is lost.
    pub(crate) fn restart(&mut self) {
        (self.done, self.aside) = (Picos::ZERO, Picos::ZERO);
    }

    /// A request was preempted, and will see a gap when it goes on.
    pub(crate) fn waits(&mut self, id: RequestId, since: Picos) {
        self.preempted.push_back((since, id));
        self.waiting.insert(id);
    }

    /// It goes on, or has left.
    pub(crate) fn no_longer_waits(&mut self, id: RequestId) {
        if !self.waiting.is_empty() {
            self.waiting.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
