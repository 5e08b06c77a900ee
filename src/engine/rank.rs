//! What whoever drives ranks in lock-step ([`crate::cluster`]) asks of an engine, whichever it is: of vLLM
//! `engine/lockstep.rs`, of SGLang `engine/sglang/lockstep.rs`.

use super::lockstep::{RankRun, is_of_decodes};
use super::{Engine, Replica};
use crate::cost::{DecodeCost, StepLoad};
use crate::facts::{Completion, Observer};
use crate::units::Picos;

/// What a rank computes in a step that all take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Its own batch, and of SGLang's kernel by kernel.
    Alone,
    /// Its own batch kernel by kernel; of TensorRT-LLM one of decodes alone as large as the captured batch that holds it, if `rounded`.
    Launched {
        /// Whether it is.
        rounded: bool,
    },
    /// A batch of so many decodes.
    Decodes(u32),
    /// A batch with prompts of so many tokens, by the pieces that were captured for it.
    Pieces(u64),
}

/// Calls the same method of either engine whose ranks step together.
macro_rules! either {
    ($self:expr, $rank:ident => $call:expr) => {
        match $self {
            Engine::Vllm($rank) => $call,
            Engine::Sglang($rank) => $call,
            Engine::Scheduled(_) => {
                unreachable!("config lets no other ranks step together")
            }
        }
    };
}

impl Engine {
    /// Steps in flight at most.
    pub(crate) fn steps_ahead(&self) -> usize {
        match self {
            Engine::Vllm(rank) => rank.queue_depth(),
            Engine::Sglang(rank) => rank.depth(),
            Engine::Scheduled(_) => 1,
        }
    }

    /// What the newest step computes; a dummy's is empty.
    pub(crate) fn newest_load(&self) -> &StepLoad {
        either!(self, rank => rank.newest_load())
    }

    /// Whether the newest step is more than decodes.
    pub(crate) fn newest_extends(&self) -> bool {
        match self {
            Engine::Sglang(rank) => rank.newest_extends(),
            other => !is_of_decodes(other.newest_load()),
        }
    }

    /// The rank's own share of the newest step as a law of its contexts.
    pub(crate) fn newest_law(&mut self, padding: Padding) -> DecodeCost {
        match self {
            Engine::Sglang(rank) => rank.newest_law(padding),
            other => other.steps_together().newest_law(padding),
        }
    }

    /// The captured batch that a step of so many decodes replays, if it replays a CUDA graph.
    pub(crate) fn replayed(&self, batch: u32) -> Option<u32> {
        either!(self, rank => rank.replayed(batch))
    }

    /// Tokens of the pieces that a step with prompts of so many tokens replays, if it replays any.
    pub(crate) fn replayed_pieces(&self, tokens: u64) -> Option<u64> {
        match self {
            Engine::Sglang(rank) => rank.replayed_pieces(tokens),
            Engine::Vllm(_) | Engine::Scheduled(_) => None,
        }
    }

    /// All ranks together need so long for the newest step.
    pub(crate) fn retime_newest(&mut self, duration: Picos) {
        either!(self, rank => rank.retime_newest(duration));
    }

    /// All ranks together take the steps in flight at these times, (begin, duration) each.
    pub(crate) fn retime(&mut self, times: &[(Picos, Picos)]) {
        either!(self, rank => rank.retime(times));
    }

    /// The oldest step ends.
    pub(crate) fn end_in_step<O: Observer>(&mut self, observer: &mut O, ended: &mut Vec<Completion>) {
        either!(self, rank => rank.end_in_step(observer, ended));
    }

    /// When the next request reaches the loop.
    pub(crate) fn next_request(&self) -> Option<Picos> {
        either!(self, rank => rank.next_request())
    }

    /// When the oldest step in flight begins and how long it lasts.
    pub(crate) fn oldest_step(&self) -> Option<(Picos, Picos)> {
        either!(self, rank => rank.oldest_step())
    }

    /// What each rank goes on with if nothing but a run of alike steps lies before all of them.
    pub(crate) fn runs_in_step(ranks: &mut [Engine], horizon: Picos) -> Option<Vec<RankRun>> {
        let is_ready = |rank: &Engine| match rank {
            Engine::Sglang(rank) => rank.can_run_in_step(),
            Engine::Vllm(_) | Engine::Scheduled(_) => true,
        };
        if !ranks.iter().all(is_ready) {
            return None;
        }
        let run = |rank: &mut Engine| match rank {
            Engine::Vllm(rank) => rank.run_in_step(horizon),
            Engine::Sglang(rank) => Some(rank.run_in_step()),
            Engine::Scheduled(_) => None,
        };
        ranks.iter_mut().map(run).collect()
    }

    /// The rank's own share of steps of so many sequences in a run, none in a dummy.
    pub(crate) fn run_law(&mut self, members: u32, padding: Padding) -> DecodeCost {
        match self {
            Engine::Sglang(rank) => rank.run_law(members, padding),
            other => other.steps_together().plain_law(members.max(1), padding),
        }
    }

    /// A rank of vLLM's, or TensorRT-LLM's.
    fn steps_together(&mut self) -> &mut Replica {
        self.vllm_mut()
            .expect("config lets no other engine step together")
    }

    /// Leaps over `steps` steps of a run, the last of which ends at `end` and each of which lasts `increment` longer than
    /// the one before.
    pub(crate) fn leap_in_step<O: Observer>(
        &mut self,
        steps: u64,
        increment: Picos,
        end: Picos,
        observer: &mut O,
    ) {
        either!(self, rank => rank.leap_in_step(steps, increment, end, observer));
    }
}
