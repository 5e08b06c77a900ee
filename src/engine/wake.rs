//! What others need to know of a replica among several: when it next does something that they may notice, how full it
//! is, what it has cached; and how it fails.
//!
//! A run of alike decode steps is noticed by nobody, so a replica is left alone until its run is over. That is what
//! makes a step of one replica among many cost what it costs alone.

use super::replica::Replica;
use super::step::Step;
use super::telling::Outlook;
use crate::facts::{Completion, Observer, Outcome};
use crate::units::Picos;

/// When a replica next does something by itself: earlier first, the end of a step before a pass of the loop (EV-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wake {
    /// When.
    pub(crate) at: Picos,
    /// It is a pass of the loop, not the end of a step.
    pub(crate) is_pass: bool,
}

/// How full a replica is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Sequences in `running`.
    pub running: u32,
    /// Requests inside that are not running.
    pub waiting: u32,
    /// Share of the KV blocks that sequences use.
    pub kv_usage: f64,
}

impl Replica {
    /// Whether it schedules a step while the one before is in flight.
    pub(crate) fn schedules_ahead(&self) -> bool {
        self.config.is_asynchronous()
    }

    /// When something next happens here that others may notice: an admission, a first token, a preemption, an end.
    /// It may turn out that nothing does; nothing does before.
    pub(crate) fn wake(&mut self) -> Option<Wake> {
        if let Some(at) = self.next() {
            let is_pass = self.is_about_to_pass();
            if is_pass || !self.goes_on_plainly(Picos::MAX) {
                return Some(Wake { at, is_pass });
            }
            let at = self.end_of_run();
            return Some(Wake { at, is_pass: false });
        }
        None
    }

    /// When the run of alike steps that goes on is over, or the next request reaches the engine.
    fn end_of_run(&mut self) -> Picos {
        if !self.is_settled() {
            return self.gpu_free.min(self.horizon_inside(Picos::MAX));
        }
        let end = self.run_ahead().end();
        end.min(self.horizon_inside(Picos::MAX))
    }

    /// What is not told yet; `None` where steps are those of a pipeline, or none is in flight though somebody is on the way to the queue.
    #[inline]
    pub(super) fn outlook(&self) -> Option<Outlook> {
        let next_end = self.in_flight.front().map(Step::end);
        let is_known = self.stages.is_none() && (next_end.is_some() || self.inside() == 0);
        is_known.then(|| Outlook {
            untold: self.telling.untold(),
            next_end,
        })
    }

    /// How full it is.
    pub(crate) fn reported_state(&self) -> State {
        let (total, free) = (self.pool.total(), self.pool.free());
        State {
            running: self.sequences.running,
            waiting: self.inside() as u32 - self.sequences.running,
            kv_usage: f64::from(total - free) / f64::from(total),
        }
    }

    /// Others hear of changes of the cache so late.
    pub(crate) fn delay_events(&mut self, latency: Picos) {
        self.pool.delay_events(latency);
    }

    /// Fails at `now`: everybody inside leaves unfinished, and the cache is lost.
    pub(crate) fn fail<O: Observer>(&mut self, now: Picos, observer: &mut O, ended: &mut Vec<Completion>) {
        self.telling.flush(observer);
        for handle in self.sequences.handles() {
            if let Some(mut completion) = self.abort(handle, now, observer) {
                completion.outcome = Outcome::Failed;
                ended.push(completion);
            }
        }
        self.restart(now);
    }
}
