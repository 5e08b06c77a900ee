//! What a recording tells of passes in which the engine leaves something to chance: the shuffled queue under `random`, and a Python set's
//! order of those who were pushed out together.

use super::replica::SglangReplica;
use crate::ids::RequestId;
use crate::units::Picos;

/// Recorded clocks are rounded sums of floats; times are compared within a microsecond.
const CLOCK_TOLERANCE: Picos = Picos(1_000_000);

/// A recorded pass, as far as chance decided it.
#[derive(Debug)]
pub struct RecordedPass {
    /// When it was.
    pub at: Picos,
    /// The queue before it, where the policy is `random`.
    pub queue: Option<Vec<RequestId>>,
    /// Who was pushed out, in the order in which they came back to the queue.
    pub retracted: Vec<RequestId>,
}

impl SglangReplica {
    /// The recorded pass that is next, if a recording is replayed.
    fn recorded_pass(&self) -> Option<&RecordedPass> {
        self.recorded.as_ref()?.get(self.log.as_ref()?.len())
    }

    /// Whether a recording under `random` passes this pass over, since the next one that it has is later: a pass of an empty server
    /// that admits nobody is not written down.
    pub(super) fn is_unrecorded(&self, now: Picos) -> bool {
        self.recorded_pass()
            .is_some_and(|pass| pass.queue.is_some() && now + CLOCK_TOLERANCE < pass.at)
    }

    /// Puts the queue in the recorded order, if there is one.
    pub(super) fn follow_recorded_queue(&mut self) -> bool {
        if self.recorded.is_none() {
            return false;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let queue = self.recorded_pass().and_then(|pass| pass.queue.as_ref());
        if let Some(queue) = queue {
            let place = |slot: &usize| {
                let id = self.sequences[*slot].request.id;
                queue.iter().position(|known| *known == id)
            };
            waiting
                .make_contiguous()
                .sort_by_key(|slot| place(slot).unwrap_or(usize::MAX));
        }
        let is_recorded = queue.is_some();
        self.waiting = waiting;
        is_recorded
    }

    /// Those who were pushed out in this pass stand last in the queue: puts them in the recorded order, if there is one.
    pub(super) fn follow_recorded_retractions(&mut self) {
        let several = self.retracted.len();
        if self.recorded.is_none() || several < 2 {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let kept = waiting.len() - several;
        let pushed_out = &mut waiting.make_contiguous()[kept..];
        if let Some(pass) = self.recorded_pass() {
            pushed_out.sort_by_key(|&slot| {
                let id = self.sequences[slot].request.id;
                pass.retracted.iter().position(|&known| known == id)
            });
        }
        let first = self.joinings - several as u64;
        for (nth, &slot) in (1..).zip(pushed_out.iter()) {
            self.sequences[slot].joined = first + nth;
        }
        self.waiting = waiting;
    }
}
