//! A server as one of several ranks whose attention is data parallel and whose steps are common (SG-50, DP-2), as
//! `engine/lockstep.rs` has it of vLLM.
//!
//! The loops of all ranks go round together, since every pass ends in an exchange of batch sizes
//! (`Scheduler.prepare_mlp_sync_batch`, 0.5.4). A rank decides as it would alone; one that has nothing to compute while
//! another has is given an *idle batch*, in which nobody computes anything. If nobody has anything, nothing is launched.
//! 0.5.23 decides alike: decodes that are computed as prompts, since another rank has any, stay the running batch (SG-51).
//!
//! Left out: roles, intervals of passes (SG-11), snapshots of its load (`publish.rs`). A kept log is of passes that launch, and with one nothing is
//! leapt over.

use super::batch::{Batch, BatchMode};
use super::replica::SglangReplica;
use crate::cost::{DecodeCost, StepLoad};
use crate::engine::lockstep::RankRun;
use crate::engine::rank::Padding;
use crate::facts::{Completion, Observer};
use crate::units::Picos;

impl SglangReplica {
    /// One pass of the loop at `now`, as far as it goes by itself; whether it has a batch.
    pub(crate) fn decide<O: Observer>(
        &mut self,
        now: Picos,
        observer: &mut O,
        ended: &mut Vec<Completion>,
    ) -> bool {
        self.forget_pass();
        self.tree.set_clock(now);
        self.drain(now);
        self.decided = self.next_batch(now, observer, ended);
        self.decided.is_some()
    }

    /// What was decided is launched, an idle batch if that is nothing. How long it lasts is yet to be said.
    pub(crate) fn launch_decided(&mut self, now: Picos) {
        let decided = self.decided.take();
        let is_idle = decided.is_none();
        let mut batch = decided.unwrap_or_else(|| self.open_batch(BatchMode::None));
        batch.begin = now.max(self.gpu_free);
        batch.duration = Picos::ZERO;
        self.note_state(&mut batch);
        self.log_pass(now, (!is_idle).then_some(&*batch));
        self.in_flight.push_back(batch);
    }

    /// Nobody has anything in flight, nor has decided anything: when something next reaches the loop.
    pub(crate) fn rest_in_step(&mut self, now: Picos) -> Option<Picos> {
        self.rest(now);
        let input = self.next_pass();
        self.forget_pass();
        input
    }

    fn newest(&self) -> &Batch {
        self.in_flight.back().expect("asked only after a launch")
    }

    /// What the newest batch computes; an idle batch's is empty.
    pub(crate) fn newest_load(&self) -> &StepLoad {
        &self.newest().load
    }

    /// Whether the newest batch has prompts.
    pub(crate) fn newest_extends(&self) -> bool {
        matches!(self.newest().mode, BatchMode::Extend | BatchMode::Mixed)
    }

    /// The rank's own share of the newest step as a law of its contexts. Decodes in pieces are prompts of one token, whose
    /// attention is taken to last as long as a decode's; who idles then has one prompt of all the pieces' tokens.
    pub(crate) fn newest_law(&mut self, padding: Padding) -> DecodeCost {
        let batch = self.in_flight.back().expect("asked only after a launch");
        match padding {
            Padding::Decodes(size) => *self.cost.decode(size),
            Padding::Alone | Padding::Launched { .. } => self.cost.eager_law(&batch.load),
            Padding::Pieces(tokens) if batch.mode == BatchMode::None => {
                let dummy = StepLoad::of_prompt(tokens as u32);
                self.cost.pieces_law(&dummy, tokens)
            }
            Padding::Pieces(tokens) => self.cost.pieces_law(&batch.load, tokens),
        }
    }

    /// The captured batch that a step of so many decodes replays, if it replays a CUDA graph.
    pub(crate) fn replayed(&self, batch: u32) -> Option<u32> {
        self.cost.replayed(batch)
    }

    /// Tokens of the pieces that a step with prompts of so many tokens replays, if it replays any.
    pub(crate) fn replayed_pieces(&self, tokens: u64) -> Option<u64> {
        self.cost.replayed_pieces(tokens)
    }

    /// All ranks together need so long for the newest step.
    pub(crate) fn retime_newest(&mut self, duration: Picos) {
        let batch = self.in_flight.back_mut().expect("asked only after a launch");
        batch.duration = duration;
        let is_idle = batch.mode == BatchMode::None;
        self.gpu_free = batch.end();
        if let Some(record) = self.log.as_mut().and_then(|log| log.last_mut())
            && !is_idle
        {
            record.duration = duration;
        }
    }

    /// All ranks together take the steps in flight at these times, (begin, duration) each.
    pub(crate) fn retime(&mut self, times: &[(Picos, Picos)]) {
        for (batch, &(begin, duration)) in self.in_flight.iter_mut().zip(times) {
            (batch.begin, batch.duration) = (begin, duration);
            self.gpu_free = batch.end();
        }
    }

    /// The oldest step ends.
    pub(crate) fn end_in_step<O: Observer>(&mut self, observer: &mut O, ended: &mut Vec<Completion>) {
        let front = self.in_flight.front().expect("all ranks have a step in flight");
        if front.mode != BatchMode::None {
            self.process_oldest(observer, ended);
            return;
        }
        let batch = self.in_flight.pop_front().expect("it was just looked at");
        self.last_end = batch.end();
        self.spare.push(batch);
    }

    /// When something next reaches the loop.
    pub(crate) fn next_request(&self) -> Option<Picos> {
        self.next_input()
    }

    /// When the oldest step in flight begins and how long it lasts.
    pub(crate) fn oldest_step(&self) -> Option<(Picos, Picos)> {
        self.in_flight.front().map(|batch| (batch.begin, batch.duration))
    }

    /// Whether nobody is here, nor in flight.
    fn idles_in_step(&self) -> bool {
        self.running.is_empty()
            && self.waiting.is_empty()
            && self.last.is_none()
            && self.chunked.is_none()
            && self.in_flight.iter().all(|batch| batch.mode == BatchMode::None)
    }

    /// Whether nothing but a run of alike steps lies before it.
    pub(crate) fn can_run_in_step(&self) -> bool {
        self.idles_in_step() || (self.log.is_none() && self.goes_on_plainly())
    }

    /// What it goes on with then. Makes room for the first step, as its pass will anyway.
    pub(crate) fn run_in_step(&mut self) -> RankRun {
        if self.idles_in_step() {
            return RankRun::Idle;
        }
        let front = self.in_flight.front().expect("a plain run has a batch in flight");
        let (kv_tokens, longest, decided) = (
            front.load.decode_kv_tokens,
            front.load.decode_longest,
            front.end(),
        );
        let limit = self.steps_to_ending();
        let limit = match limit {
            0 => 0,
            limit => {
                self.tree.set_clock(decided);
                self.steps_that_fit(limit)
            }
        };
        RankRun::Plain {
            limit,
            members: self.running.len() as u32,
            kv_tokens,
            longest,
            beyond: (0, 0),
        }
    }

    /// The rank's own share of such steps.
    pub(crate) fn run_law(&mut self, members: u32, padding: Padding) -> DecodeCost {
        match padding {
            Padding::Decodes(size) => *self.cost.decode(size),
            Padding::Alone | Padding::Launched { .. } | Padding::Pieces(_) => {
                self.cost.eager_law(&StepLoad {
                    decode_seqs: members,
                    sampled_rows: members,
                    ..StepLoad::default()
                })
            }
        }
    }

    /// Leaps over `steps` steps of a run, the last of which ends at `end` and each of which lasts `increment` longer than
    /// the one before; the steps then in flight are to be [retimed](SglangReplica::retime).
    pub(crate) fn leap_in_step<O: Observer>(
        &mut self,
        steps: u64,
        increment: Picos,
        end: Picos,
        observer: &mut O,
    ) {
        if self.idles_in_step() {
            self.last_end = end;
            return;
        }
        self.tell_run(steps, increment, observer);
        self.jump(steps, increment);
    }
}
