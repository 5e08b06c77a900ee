//! What others need to know of such an engine among several, as [`crate::engine::wake`] tells of vLLM's.

use super::replica::ScheduledReplica;
use crate::engine::leap::progression;
use crate::engine::{Handle, State, Wake};
use crate::facts::{Completion, Observer, Outcome};
use crate::units::Picos;
use crate::workload::{Prompt, Request};

impl ScheduledReplica {
    /// When something next happens here that others may notice: an admission, a first token, a preemption, an end.
    /// It may turn out that nothing does; nothing does before.
    pub(crate) fn wake(&mut self) -> Option<Wake> {
        if let Some(at) = self.next_pass {
            return Some(Wake { at, is_pass: true });
        }
        let next_end = self.in_flight.as_ref()?.end();
        let run = self.run_ahead();
        let step = self.in_flight.as_ref()?;
        let at = run.map_or(next_end, |(increment, limit)| {
            let end = step.begin + progression(step.duration, increment, limit);
            let arrival = self.inbox.front().map_or(Picos::MAX, |&(arrival, _)| arrival);
            end.min(arrival).max(next_end)
        });
        Some(Wake { at, is_pass: false })
    }

    /// How full it is.
    pub(crate) fn reported_state(&self) -> State {
        let (total, free) = (self.ledger.pool.total(), self.ledger.pool.free());
        let sequences = &self.ledger.sequences;
        let live = |slot: &&usize| !sequences[**slot].is_answered;
        let running = self.ledger.running.iter().filter(live).count() as u32;
        State {
            running,
            waiting: self.inside() as u32 - running,
            kv_usage: f64::from(total - free) / f64::from(total),
        }
    }

    /// Tokens at the head of a request's prompt that are cached here.
    pub(crate) fn cached_tokens(&self, request: &Request) -> u32 {
        match &request.prompt {
            Prompt::Unique => 0,
            Prompt::Pieces(pieces) => {
                let found = self.ledger.pool.look_up(pieces, request.prompt_tokens);
                found.blocks * self.ledger.block_size
            }
        }
    }

    /// Tokens of everything that is cached here.
    pub(crate) fn index_tokens(&self) -> u64 {
        self.ledger.pool.cached_tokens()
    }

    /// Fails at `now`: everybody inside leaves unfinished, and the cache is lost.
    pub(crate) fn fail<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        self.settle();
        let sequences = self.ledger.sequences.iter();
        let inside: Vec<Handle> = sequences.map(|sequence| sequence.handle).collect();
        for handle in inside {
            if let Some(mut completion) = self.abort(handle, now, observer) {
                completion.outcome = Outcome::Failed;
                ended.push(completion);
            }
        }
        self.restart(now);
    }
}
