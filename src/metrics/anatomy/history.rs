//! What one replica did, run of steps by run of steps, as functions of time: whose differences are one request's shares.
//!
//! * *Waiting*: for each cause the time in which the engine's last decision left somebody waiting for it. A decision is made at each end of
//!   a step; where the engine schedules ahead it is about the step behind the one that begins then.
//! * *Working*: the time that steps would have taken without prompts in them, and what prompts added.
//!
//! What somebody lacked is read off the step that was decided: running = seats, or tokens = token budget. Where neither was used up and
//! somebody waited, it is inferred to be the KV pool, unless a rule of the engine may be the reason ([`OtherWait`](super::TtftPart)).

use std::collections::VecDeque;

use crate::cost::StepLoad;
use crate::engine::EngineSpec;
use crate::engine::scheduled::SchedulerChoice;
use crate::metrics::leap::Ends;
use crate::sim::Steps;
use crate::units::Picos;

/// What the head of a queue lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Tokens,
    Seats,
    Kv,
    Other,
}

impl Lack {
    pub(super) const COUNT: usize = 4;
}

/// Time by [`Lack`], in picoseconds.
pub(super) type Waits = [i128; Lack::COUNT];

/// Time of steps, in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// As they would be without prompts.
    pub(super) decode: i128,
    /// What prompts add. A CUDA graph that only decodes replay can make that a little less than nothing.
    pub(super) prompts: i128,
}

impl Work {
    pub(super) fn since(self, before: Work) -> Work {
        Work {
            decode: self.decode - before.decode,
            prompts: self.prompts - before.prompts,
        }
    }

    pub(super) fn plus(self, more: Work) -> Work {
        Work {
            decode: self.decode + more.decode,
            prompts: self.prompts + more.prompts,
        }
    }
}

/// A run of steps.
#[derive(Clone, Copy, Debug)]
struct Piece {
    ends: Ends,
    begin: Picos,
    /// When its last step began.
    last_begin: Picos,
    end: Picos,
    /// What the decision on it left somebody lacking.
    lack: Lack,
    /// Up to its begin.
    waited: Waits,
    /// Up to its begin, and in it.
    before: Work,
    own: Work,
}

/// What is needed to read an engine's decisions.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// A step is decided while the one before it runs.
    pub(super) is_ahead: bool,
    /// Most sequences.
    seats: u32,
    /// Most tokens of a step, decodes among them or not.
    budget: u64,
    counts_decodes: bool,
    /// Tokens by which a step may miss its budget: prompts are cut at whole pages.
    slack: u64,
    /// Prompts are never cut.
    is_whole: bool,
    /// Tokens that a free block holds.
    block_tokens: u64,
    /// The longest sequence; with as much room nobody waits for it.
    longest: u64,
    /// Memory is promised beyond what a prompt needs, so that free blocks do not say that there is room.
    reserves: bool,
    /// A batch is closed until it is done.
    is_static: bool,
}

impl Rules {
    pub(super) fn of(engine: &EngineSpec) -> Rules {
        let budget = u64::from(engine.prompt_tokens_per_step());
        let rules = Rules {
            is_ahead: schedules_ahead(engine),
            seats: engine.max_num_seqs(),
            budget,
            counts_decodes: engine.decodes_share_the_budget(),
            slack: 0,
            is_whole: !cuts_prompts(engine),
            block_tokens: u64::from(engine.block_size()) / u64::from(engine.kv_groups()).max(1),
            longest: u64::from(engine.max_model_len()),
            reserves: false,
            is_static: false,
        };
        match engine {
            EngineSpec::Vllm(_) => rules,
            EngineSpec::Sglang(config) => Rules {
                slack: u64::from(config.page_size) - 1,
                reserves: true,
                ..rules
            },
            EngineSpec::Trtllm(_) => Rules {
                slack: u64::from(engine.block_size()) - 1,
                reserves: true,
                ..rules
            },
            EngineSpec::Scheduled(config) => Rules {
                is_static: matches!(
                    config.scheduler,
                    SchedulerChoice::Static(_) | SchedulerChoice::Own(_)
                ),
                ..rules
            },
        }
    }

    /// What whoever waits after a step was decided lacks. Of a run of steps the first may have left nobody waiting: `waiting` is not asked.
    fn lack(&self, steps: &Steps<'_>) -> Lack {
        if steps.running >= self.seats {
            return Lack::Seats;
        }
        if self.is_static {
            return Lack::Other;
        }
        let decodes = u64::from(steps.load.decode_seqs);
        let tokens = match self.counts_decodes {
            true => steps.load.tokens(),
            false => steps.load.tokens() - decodes,
        };
        let has_prompts = !steps.load.chunks.is_empty();
        if tokens + self.slack >= self.budget && (self.counts_decodes || has_prompts) {
            return Lack::Tokens;
        }
        let free = u64::from(steps.free_blocks) * self.block_tokens;
        if self.is_whole && has_prompts && free >= self.budget.min(self.longest) {
            return Lack::Tokens;
        }
        match !self.reserves && free >= self.longest {
            true => Lack::Other,
            false => Lack::Kv,
        }
    }
}

/// Whether an engine decides a step while the one before it runs.
fn schedules_ahead(engine: &EngineSpec) -> bool {
    match engine {
        EngineSpec::Vllm(config) => config.is_asynchronous() || config.queue_depth > 1,
        EngineSpec::Sglang(config) => config.overlap_schedule,
        EngineSpec::Trtllm(config) => config.overlap_scheduler,
        EngineSpec::Scheduled(_) => false,
    }
}

/// Whether an engine cuts a prompt that is longer than what is left of a step.
pub(super) fn cuts_prompts(engine: &EngineSpec) -> bool {
    match engine {
        EngineSpec::Vllm(config) => config.enable_chunked_prefill,
        EngineSpec::Sglang(config) => config.chunked_prefill_size.is_some(),
        EngineSpec::Trtllm(config) => config.enable_chunked_prefill,
        EngineSpec::Scheduled(config) => match &config.scheduler {
            SchedulerChoice::VllmV0(v0) => v0.enable_chunked_prefill,
            SchedulerChoice::HfContinuous(_) => true,
            SchedulerChoice::Static(_) | SchedulerChoice::Own(_) => false,
        },
    }
}

/// The steps of one replica, as far back as anybody needs them.
#[derive(Clone, Debug)]
pub(super) struct History {
    rules: Rules,
    pieces: VecDeque<Piece>,
    /// Of all steps told.
    done: Work,
    /// Pieces at which old ones are let go next.
    full: usize,
}

/// Pieces that are kept without asking who needs them.
const KEPT: usize = 4096;
/// Of the newest that many are always kept: an end is told behind the steps that bring it about, and a few more.
const NEWEST: usize = 64;

impl History {
    pub(super) fn new(rules: Rules) -> History {
        History {
            rules,
            pieces: VecDeque::new(),
            done: Work::default(),
            full: KEPT,
        }
    }

    /// A run of steps is told; `decodes` says what those of a step with prompts would take without them.
    pub(super) fn push(&mut self, steps: &Steps<'_>, decodes: impl FnOnce(&StepLoad) -> Picos) {
        let ends = Ends::of(steps);
        let busy: i128 = i128::from(steps.duration.0) * i128::from(steps.count)
            + i128::from(steps.duration_increment.0)
                * i128::from(steps.count)
                * (i128::from(steps.count) - 1)
                / 2;
        let decode = match steps.load.chunks.is_empty() {
            true => busy,
            false => i128::from(decodes(steps.load).0) * i128::from(steps.count),
        };
        let own = Work {
            decode,
            prompts: busy - decode,
        };
        let lack = self.rules.lack(steps);
        let waited = self
            .pieces
            .back()
            .map_or(Waits::default(), |last| self.waited_in(last, lack, steps.begin));
        self.pieces.push_back(Piece {
            ends,
            begin: steps.begin,
            last_begin: match steps.count {
                1 => steps.begin,
                count => Picos(ends.end(count - 2)),
            },
            end: steps.end,
            lack,
            waited,
            before: self.done,
            own,
        });
        self.done = self.done.plus(own);
    }

    /// Up to `at`, which lies in a piece or behind it and before the next, of which the decision left `next` lacking.
    fn waited_in(&self, piece: &Piece, next: Lack, at: Picos) -> Waits {
        let mut waited = piece.waited;
        let (change, then) = match self.rules.is_ahead {
            true => (piece.last_begin.max(piece.begin), next),
            false => (Picos::LAST, next),
        };
        let before = at.min(change).saturating_sub(piece.begin);
        waited[piece.lack as usize] += i128::from(before.0);
        waited[then as usize] += i128::from(at.saturating_sub(change.max(piece.begin)).0);
        waited
    }

    /// Whether old pieces are to be let go.
    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= self.full
    }

    /// Lets go of what ended before anybody needs it.
    pub(super) fn forget_before(&mut self, needed: Picos) {
        while self.pieces.len() > NEWEST && self.pieces[1].begin < needed {
            self.pieces.pop_front();
        }
        self.full = KEPT.max(2 * self.pieces.len());
    }

    /// The last piece that began by `at`.
    fn piece_at(&self, at: Picos) -> Option<usize> {
        self.pieces
            .partition_point(|piece| piece.begin <= at)
            .checked_sub(1)
    }

    /// Time waited up to `at` since the start of all, by what the head of the queue lacked.
    fn waited_at(&self, at: Picos) -> Waits {
        let Some(index) = self.piece_at(at) else {
            return Waits::default();
        };
        let piece = &self.pieces[index];
        let next = self.pieces.get(index + 1).map_or(piece.lack, |next| next.lack);
        self.waited_in(piece, next, at)
    }

    /// When the engine decided first, from `at` on, and not later than `latest`.
    fn first_decision(&self, at: Picos, latest: Picos) -> Picos {
        let within = self.piece_at(at).and_then(|index| {
            let piece = &self.pieces[index];
            match piece.begin == at {
                true => Some(at),
                false => piece.ends.end_from(at.0).map(Picos),
            }
        });
        let behind = || {
            let next = self.piece_at(at).map_or(0, |index| index + 1);
            self.pieces.get(next).map(|piece| piece.begin)
        };
        within.or_else(behind).unwrap_or(latest).min(latest)
    }

    /// A wait in the queue: until the engine decided first, and from then on by what the head of the queue lacked.
    pub(super) fn wait(&self, from: Picos, to: Picos) -> (Picos, Waits) {
        let first = self.first_decision(from, to);
        let (before, after) = (self.waited_at(first), self.waited_at(to));
        let mut waits = Waits::default();
        for (wait, (before, after)) in waits.iter_mut().zip(before.into_iter().zip(after)) {
            *wait = after - before;
        }
        (first.saturating_sub(from), waits)
    }

    /// From an admission until the admitted could compute: what was left of the step that ran.
    pub(super) fn step_ahead(&self, admitted: Picos) -> Picos {
        let Some(index) = self.piece_at(admitted) else {
            return Picos::ZERO;
        };
        let piece = &self.pieces[index];
        let ended_now = |index: usize| self.pieces.get(index).is_some_and(|piece| piece.end == admitted);
        let begins_now =
            piece.begin == admitted && !(self.rules.is_ahead && index.checked_sub(1).is_some_and(ended_now));
        if begins_now {
            return Picos::ZERO;
        }
        let running = piece.ends.end_from(admitted.0 + 1);
        running.map_or(Picos::ZERO, |end| Picos(end) - admitted)
    }

    /// Time of the steps that ended by `at`.
    pub(super) fn work_at(&self, at: Picos) -> Work {
        let behind = self.pieces.iter().rev().take_while(|piece| piece.end > at);
        behind.last().map_or(self.done, |piece| {
            // Nobody's token comes within a run of steps, but the client that gave up may have gone there.
            let ended = piece.ends.ended_by(at.0);
            let share = |whole: i128| match ended {
                0 => 0,
                ended => whole * i128::from(ended) / i128::from(piece.ends.count()),
            };
            Work {
                decode: piece.before.decode + share(piece.own.decode),
                prompts: piece.before.prompts + share(piece.own.prompts),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Chunk;
    use crate::ids::ReplicaId;

    fn history(is_ahead: bool) -> History {
        History::new(Rules {
            is_ahead,
            seats: 8,
            budget: 512,
            counts_decodes: true,
            slack: 0,
            is_whole: false,
            block_tokens: 16,
            longest: 4096,
            reserves: false,
            is_static: false,
        })
    }

    /// A run of `count` steps from `begin` on, the first `duration` long and each two longer than the one before.
    fn push(history: &mut History, begin: u64, (count, duration): (u64, u64), running: u32, prompt: u32) {
        let mut load = StepLoad::of_decodes(running, 100);
        if prompt > 0 {
            load.chunks.push(Chunk {
                computed: 0,
                new: prompt,
            });
        }
        let increment = if count > 1 { 2 } else { 0 };
        let steps = Steps {
            replica: ReplicaId(0),
            begin: Picos(begin),
            end: Picos(begin + count * duration + increment * count * (count - 1) / 2),
            count,
            duration: Picos(duration),
            duration_increment: Picos(increment),
            gap_seqs: running,
            gap: Picos(duration),
            handed: running,
            seen: None,
            load: &load,
            recomputed_tokens: 0,
            running,
            waiting: 1,
            free_blocks: 3,
            free_meanwhile: 3,
            kv_slots: running,
        };
        history.push(&steps, |_| Picos(4));
    }

    /// Full of sequences from 0 to 10, of tokens to 20, without blocks to 30, full of sequences to 40.
    fn four_steps(is_ahead: bool) -> History {
        let mut history = history(is_ahead);
        push(&mut history, 0, (1, 10), 8, 0);
        push(&mut history, 10, (1, 10), 4, 508);
        push(&mut history, 20, (1, 10), 4, 100);
        push(&mut history, 30, (1, 10), 8, 0);
        history
    }

    #[test]
    fn a_wait_is_the_step_under_way_and_then_what_each_decision_left_lacking() {
        // By [`Lack`]: tokens, seats, blocks, others.
        let (under_way, waits) = four_steps(false).wait(Picos(3), Picos(40));
        assert_eq!((under_way, waits), (Picos(7), [10, 10, 10, 0]));
        // At 10 it was decided on the step that begins at 20, and so on; nothing is known of one that begins at 40.
        let (under_way, waits) = four_steps(true).wait(Picos(3), Picos(30));
        assert_eq!((under_way, waits), (Picos(7), [0, 10, 10, 0]));
        // Whoever comes as a decision is made waits for no step.
        assert_eq!(
            four_steps(false).wait(Picos(10), Picos(20)),
            (Picos(0), [10, 0, 0, 0])
        );
        // And whoever is taken in before any: a front end may be slower than a step.
        assert_eq!(four_steps(false).wait(Picos(12), Picos(12)), (Picos(0), [0; 4]));
    }

    #[test]
    fn ahead_is_the_step_that_runs_when_one_is_decided() {
        assert_eq!(four_steps(false).step_ahead(Picos(10)), Picos(0));
        assert_eq!(four_steps(true).step_ahead(Picos(10)), Picos(10));
        // The first of all begins at once.
        assert_eq!(four_steps(true).step_ahead(Picos(0)), Picos(0));
        assert_eq!(four_steps(true).step_ahead(Picos(14)), Picos(6));
    }

    #[test]
    fn a_run_of_steps_has_ends_within() {
        let mut history = history(true);
        // Ends at 10, 22 and 36.
        push(&mut history, 0, (3, 10), 8, 0);
        push(&mut history, 36, (1, 10), 4, 508);
        assert_eq!(history.step_ahead(Picos(22)), Picos(14));
        let (under_way, waits) = history.wait(Picos(11), Picos(36));
        // From 22 on the decision was about the step behind the run.
        assert_eq!((under_way, waits), (Picos(11), [14, 0, 0, 0]));
        let work = |at| {
            let Work { decode, prompts } = history.work_at(Picos(at));
            (decode, prompts)
        };
        assert_eq!((work(36), work(46)), ((36, 0), (40, 6)));
    }
}
