//! A step between its scheduling and the processing of its output.

use super::sequence::Handle;
use crate::cost::StepLoad;
use crate::ids::RequestId;
use crate::units::Picos;

/// One scheduled step. Buffers are reused from step to step.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Steps are numbered from 1 in the order of scheduling.
    pub(crate) number: u64,
    /// When it was decided.
    pub(crate) scheduled: Picos,
    /// When it begins on the GPU.
    pub(crate) begin: Picos,
    pub(crate) duration: Picos,
    pub(crate) load: StepLoad,
    /// Members of the pack in it.
    pub(crate) packed: u32,
    /// Of them, those whose token is thrown away: they ended in the step before, or were given up since.
    pub(crate) discarded: u32,
    /// It was decided while the step before it was still running.
    pub(crate) overlapped: bool,
    /// Sequences outside the pack that sample a token, in scheduled order.
    pub(crate) samples: Vec<Handle>,
    /// Sequences whose last token this step samples: (place in `running`, who).
    pub(crate) finishing: Vec<(u64, Handle)>,
    /// Sequences that left the pack after this step: their next gap starts at its end.
    pub(crate) left_pack: Vec<Handle>,
    pub(crate) recomputed_tokens: u64,
    /// It computes part of a prompt, or admits somebody (V1-16).
    pub(crate) carries_prefill: bool,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    pub(crate) free_blocks: u32,
    /// State of the pack's membership after scheduling.
    pub(crate) membership: u64,
    /// Nothing but the pack decodes in it, and nothing happens at its end.
    pub(crate) is_plain: bool,
}

impl Step {
    /// When its output is there.
    pub(crate) fn end(&self) -> Picos {
        self.begin + self.duration
    }

    /// Finds out whether it [is plain](Step::is_plain) when it is closed.
    pub(crate) fn note_whether_plain(&mut self) {
        self.is_plain = self.packed > 0
            && self.load.decode_seqs == self.packed
            && self.load.chunks.is_empty()
            && self.discarded == 0
            && self.samples.is_empty()
            && self.finishing.is_empty();
    }

    /// Empties the buffers for another step.
    pub(crate) fn clear(&mut self) {
        self.load.chunks.clear();
        self.load = StepLoad {
            chunks: std::mem::take(&mut self.load.chunks),
            ..StepLoad::default()
        };
        (self.packed, self.discarded, self.recomputed_tokens) = (0, 0, 0);
        self.carries_prefill = false;
        self.samples.clear();
        self.finishing.clear();
        self.left_pack.clear();
    }
}

/// A step as the recorded schedules of the engines have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleRecord {
    /// When it was scheduled.
    pub scheduled: Picos,
    /// When it began on the GPU.
    pub begin: Picos,
    /// How long it lasted.
    pub duration: Picos,
    /// (request, tokens computed before, tokens scheduled) in the scheduler's order.
    pub shares: Vec<(RequestId, u32, u32)>,
    /// Requests preempted while it was scheduled, in that order.
    pub preempted: Vec<RequestId>,
    /// Free blocks after scheduling.
    pub free_blocks: u32,
    /// `running` after scheduling.
    pub running: u32,
    /// `waiting` after scheduling.
    pub waiting: u32,
}
