//! Consecutive steps of one batch, put together before they are added up.
//!
//! The engine tells of a run of decode steps in pieces: a leap, then the steps during which something else was
//! scheduled. While durations stay in progression and the batch stays the same, the pieces say what a single longer
//! leap would say, and every sum of the recorder is the same for one long leap as for its parts.

use crate::ids::ReplicaId;
use crate::sim::Steps;
use crate::units::Picos;

/// Steps of a replica that follow each other without a pause, each `increment` longer than the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) replica: ReplicaId,
    pub(super) count: u64,
    pub(super) begin: Picos,
    pub(super) end: Picos,
    pub(super) duration: Picos,
    /// Open to any value while there is one step.
    pub(super) increment: Picos,
    /// Sequences whose tokens share the gaps, and the first gap.
    pub(super) gap_seqs: u32,
    pub(super) gap: Picos,
    pub(super) decode_seqs: u32,
    pub(super) sampled_rows: u32,
    /// KV tokens read in the first step; each later one reads `decode_seqs` more.
    pub(super) decode_kv_tokens: u64,
    /// After scheduling the first.
    pub(super) free_blocks: u32,
    pub(super) has_chunks: bool,
}

impl Run {
    /// The steps of one fact.
    #[inline]
    pub(super) fn of(steps: &Steps<'_>) -> Run {
        Run {
            replica: steps.replica,
            count: steps.count,
            begin: steps.begin,
            end: steps.end,
            duration: steps.duration,
            increment: steps.duration_increment,
            gap_seqs: steps.gap_seqs,
            gap: steps.gap,
            decode_seqs: steps.load.decode_seqs,
            sampled_rows: steps.load.sampled_rows,
            decode_kv_tokens: steps.load.decode_kv_tokens,
            free_blocks: steps.free_blocks,
            has_chunks: !steps.load.chunks.is_empty(),
        }
    }

    /// Takes in the steps that come next, if they go on as this run does.
    #[inline]
    pub(super) fn extend(&mut self, steps: &Steps<'_>) -> bool {
        let load = steps.load;
        let goes_on = steps.begin == self.end
            && steps.gap == steps.duration
            && load.decode_seqs == self.decode_seqs
            && load.sampled_rows == self.sampled_rows
            && load.decode_kv_tokens == self.decode_kv_tokens + u64::from(self.decode_seqs) * self.count
            && steps.gap_seqs == self.gap_seqs
            && steps.replica == self.replica
            && steps.recomputed_tokens == 0
            && !self.has_chunks
            && load.chunks.is_empty();
        let Some(increment) = steps.duration.0.checked_sub(self.duration.0).filter(|_| goes_on) else {
            return false;
        };
        let increment = match self.count {
            1 => Picos(increment),
            _ => self.increment,
        };
        if steps.duration != self.duration + increment * self.count
            || (steps.count > 1 && steps.duration_increment != increment)
        {
            return false;
        }
        self.increment = increment;
        self.count += steps.count;
        self.end = steps.end;
        true
    }
}
