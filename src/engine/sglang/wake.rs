//! What others need to know of an SGLang server among several, as [`crate::engine::wake`] tells of vLLM's.

use super::packed::Packed;
use super::replica::SglangReplica;
use super::sequence::Phase;
use crate::engine::leap::{progression, run_law};
use crate::engine::{Handle, State, Wake};
use crate::facts::{Completion, Observer, Outcome};
use crate::kv::{Journal, RadixTree};
use crate::units::Picos;

impl SglangReplica {
    /// When something next happens here that others may notice: an admission, a first token, a retraction, an end.
    /// It may turn out that nothing does; nothing does before.
    pub(crate) fn wake(&mut self) -> Option<Wake> {
        if let Some(at) = self.next_pass() {
            return Some(Wake { at, is_pass: true });
        }
        let end = self.in_flight.front()?.end();
        let at = if self.goes_on_plainly() {
            self.end_of_run(end)
        } else {
            end
        };
        Some(Wake { at, is_pass: false })
    }

    /// When the run of alike steps that goes on is over, or a request reaches the engine; `next_end` at the earliest.
    fn end_of_run(&mut self, next_end: Picos) -> Picos {
        let members = self.running.len() as u32;
        let law = *self.cost.decode(members);
        // Contents that nobody protects make room without anybody noticing; without them somebody is retracted.
        let cycles = u64::from((self.reported_free() / members).saturating_sub(1));
        let limit = self
            .steps_to_ending()
            .min(cycles * u64::from(self.config.page_size));
        let front = self.in_flight.front().expect("a plain run has a batch in flight");
        let (increment, limit) = run_law(&law, &front.load, self.in_flight.len() as u64, limit);
        let end = front.begin + progression(front.duration, increment, limit);
        end.min(self.next_input().unwrap_or(Picos::MAX)).max(next_end)
    }

    /// How full it is.
    pub(crate) fn reported_state(&self) -> State {
        let (total, free) = (self.total_blocks(), self.reported_free());
        let running = self
            .running
            .iter()
            .filter(|&&handle| self.is_running(handle))
            .count();
        let prefilling = self.last.iter().flatten().count();
        let running = (running + prefilling).min(self.inside());
        State {
            running: running as u32,
            waiting: (self.inside() - running) as u32,
            kv_usage: f64::from(total - free.min(total)) / f64::from(total),
        }
    }

    /// Tokens of everything that is cached here.
    pub(crate) fn index_tokens(&self) -> u64 {
        self.tree.evictable() + self.tree.protected()
    }

    /// What changes in its cache, if somebody listens.
    #[inline]
    pub(crate) fn journal(&self) -> Option<&Journal> {
        self.tree.journal()
    }

    /// Others hear of changes of the cache so late.
    pub(crate) fn delay_events(&mut self, latency: Picos) {
        self.tree.delay_events(latency);
    }

    /// Fails at `now`: everybody inside leaves unfinished, and the cache is lost.
    pub(crate) fn fail<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        let inside: Vec<Handle> = self
            .sequences
            .iter()
            .filter(|sequence| sequence.phase != Phase::Ended)
            .map(|sequence| sequence.handle)
            .collect();
        for handle in inside {
            if let Some(mut completion) = self.abort(handle, now, observer) {
                completion.outcome = Outcome::Failed;
                ended.push(completion);
            }
        }
        self.restart(now);
    }

    /// Starts again empty at `now`, after everybody inside has left.
    fn restart(&mut self, now: Picos) {
        let event_latency = self.tree.journal().map(Journal::latency);
        self.tree = RadixTree::new(self.config.page_size);
        if let Some(latency) = event_latency {
            self.tree.delay_events(latency);
        }
        self.free_pages = self.total_blocks();
        self.sequences.clear();
        self.inbox.clear();
        self.waiting.clear();
        self.running.clear();
        (self.last, self.chunked, self.full) = (None, None, false);
        self.ratio = self.config.init_new_token_ratio;
        self.prefill_hold = 0;
        self.membership += 1;
        (self.uniform, self.packed) = (0, Packed::new(self.config.page_size));
        (self.rows, self.ended_in_lists) = (0, 0);
        self.in_flight.clear();
        self.role.restart();
        (self.last_end, self.gpu_free, self.last_decode) = (now, now, now);
        self.forget_pass();
    }
}
