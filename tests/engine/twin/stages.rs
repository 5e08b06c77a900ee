//! Layers on the stages of a pipeline: vLLM's `EngineCore.step_with_batch_queue` written out, with a list of who is in which stage when.
//!
//! Every call of `schedule()` has a place in the queue, also one that schedules nothing. The host takes no time but what
//! prepares a step.

use std::collections::VecDeque;

use super::Scheduled;
use super::engine::{Engine, Launched};

/// The pipeline.
#[derive(Debug, Clone)]
pub(crate) struct TwinStages {
    /// How long a step is in each stage.
    pub(crate) laws: Vec<TwinLaw>,
    /// From a stage to the next.
    pub(crate) transfer: TwinLaw,
    /// Before the first stage.
    pub(crate) preparation: TwinLaw,
    /// Who sampled is scheduled again so many calls later, at least; 0 in the synchronous loop.
    pub(crate) stagger: usize,
    /// An empty call leaves the queue to be filled; otherwise the oldest step is waited for, and one that has ended is taken
    /// before anything else is scheduled.
    pub(crate) fills_queue_first: bool,
    /// Who was preempted waits for the steps in which it was.
    pub(crate) stale_output_drains: bool,
}

/// Picoseconds, linear in a step's tokens and in pairs of a query and a key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TwinLaw {
    pub(crate) per_step: u64,
    pub(crate) per_token: u64,
    pub(crate) per_pair: u64,
}

impl TwinLaw {
    fn price(self, shares: &[Scheduled]) -> u64 {
        let tokens: u64 = shares.iter().map(|share| u64::from(share.2)).sum();
        let pairs =
            |&(_, computed, n): &Scheduled| u64::from(n) * (2 * u64::from(computed) + u64::from(n) + 1);
        let pairs: u64 = shares.iter().map(pairs).sum();
        self.per_step + self.per_token * tokens + self.per_pair * pairs / 2
    }
}

/// What became of a call of `schedule()`.
enum Called {
    Step(Launched),
    Nothing,
}

impl Engine {
    /// Serves all requests; whether it got stuck.
    pub(super) fn serve_over_stages(&mut self, stages: &TwinStages) -> bool {
        let mut queue: VecDeque<Called> = VecDeque::new();
        let mut free_ps = vec![0; stages.laws.len()];
        let mut prepared_ps = 0;
        let mut fruitless = 0;
        let mut empty_calls = 0;
        loop {
            self.drain_inputs();
            if self.scheduler.has_requests() {
                let decision = self.scheduler.schedule(self.now_ps);
                let executed = !decision.shares.is_empty();
                fruitless += decision.preempted.len();
                if decision.shares.iter().any(|share| share.samples) {
                    fruitless = 0;
                } else if self.is_livelocked(fruitless) {
                    return true;
                }
                empty_calls = if executed || !decision.preempted.is_empty() {
                    0
                } else {
                    empty_calls + 1
                };
                assert!(
                    empty_calls < 100,
                    "a loop that schedules nothing will do so for ever"
                );
                if executed {
                    let turn = self.scheduler.turn;
                    let shares = self.scheduled(&decision);
                    prepared_ps = self.now_ps.max(prepared_ps) + stages.preparation.price(&shares);
                    let awaited_ps = queue.iter().map(|called| match called {
                        Called::Step(earlier)
                            if earlier.turn + stages.laws.len() == turn && earlier.is_awaited =>
                        {
                            earlier.end_ps
                        }
                        _ => 0,
                    });
                    let ready_ps = awaited_ps.max().unwrap_or(0).max(prepared_ps);
                    let begin_ps = ready_ps.max(free_ps[0]);
                    let (mut there_ps, mut end_ps) = (ready_ps, 0);
                    for (free_ps, law) in free_ps.iter_mut().zip(&stages.laws) {
                        end_ps = there_ps.max(*free_ps) + law.price(&shares);
                        *free_ps = end_ps;
                        there_ps = end_ps + stages.transfer.price(&shares);
                    }
                    queue.push_back(Called::Step(self.launch_at(decision, begin_ps, end_ps)));
                } else {
                    queue.push_back(Called::Nothing);
                }
                let oldest_has_ended = match &queue[0] {
                    Called::Step(oldest) => oldest.end_ps <= self.now_ps,
                    Called::Nothing => true,
                };
                let goes_on = stages.fills_queue_first || (executed && !oldest_has_ended);
                if queue.len() < self.scheduler.config.queue_depth && goes_on {
                    continue;
                }
            }
            match queue.pop_front() {
                Some(Called::Step(launched)) => {
                    let later = queue.iter().filter_map(|called| match called {
                        Called::Step(later) => Some(later.shares.as_slice()),
                        Called::Nothing => None,
                    });
                    self.finish_before(&launched, &later.collect::<Vec<_>>());
                }
                Some(Called::Nothing) => {}
                None => match self.next_input_ps() {
                    Some(next_ps) => self.now_ps = next_ps,
                    None => return false,
                },
            }
        }
    }
}
