//! What a request's story on two replicas adds up to.

use crate::facts::Completion;
use crate::units::Picos;
use crate::workload::Request;

/// What happened to a request on its prefill replica, as its facts told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    pub(super) first_scheduled: Option<Picos>,
    /// Since when it ran there last.
    pub(super) running_since: Picos,
    /// Σ of its waits there.
    pub(super) waited: Picos,
    pub(super) cached_tokens: u32,
    pub(super) preemptions: u32,
    /// When its prefill was over; `None` before.
    pub(super) prefilled: Option<Picos>,
}

impl Account {
    /// The completion of the part on the decode replica becomes that of the request. `was_running` there at some time.
    pub(super) fn complete(&self, request: &Request, completion: &mut Completion, was_running: bool) {
        let handover = self.prefilled.unwrap_or(completion.end);
        completion.waiting_time += self.waited;
        if was_running {
            // The decode replica counts from the arrival, when the request waited for its prefill or ran there.
            completion.waiting_time = Picos(completion.waiting_time.0 - (handover - request.arrival).0);
        }
        completion.first_scheduled = self.first_scheduled.unwrap_or(request.arrival);
        completion.cached_tokens = self.cached_tokens;
        completion.preemptions += self.preemptions;
    }
}
