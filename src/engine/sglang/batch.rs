//! A batch between its decision and the processing of its result.

use super::sequence::Sequence;
use crate::cost::StepLoad;
use crate::engine::Handle;
use crate::ids::RequestId;
use crate::units::Picos;

/// What a batch computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchMode {
    /// Prompts or chunks of them; decodes wait (SG-10).
    #[default]
    Extend,
    /// One token of each running request.
    Decode,
    /// Prompts and decodes together (SG-12).
    Mixed,
    /// Nothing was launched although requests run (SG-33b).
    None,
}

/// A sequence's part in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) handle: Handle,
    /// The sequence's life at that time.
    pub(crate) life: u32,
    /// Its place in the order of the running batch, for decodes.
    pub(crate) order: u64,
    /// It emits a token: everything but a chunk with more to come.
    pub(crate) samples: bool,
    pub(crate) is_decode: bool,
    /// It is packed and stays so: there is nothing to do but to tell since when it had waited.
    pub(crate) is_packed: bool,
    /// Drafts that stand, of those that it verifies.
    pub(crate) accepted: Option<u32>,
}

impl Entry {
    /// Of a sequence that decodes.
    pub(crate) fn of_decode(sequence: &Sequence, is_packed: bool) -> Entry {
        Entry {
            handle: sequence.handle,
            life: sequence.life,
            order: sequence.order,
            samples: true,
            is_decode: true,
            is_packed,
            accepted: None,
        }
    }
}

/// One launched batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) mode: BatchMode,
    /// Whoever computes in it, but for the pack.
    pub(crate) entries: Vec<Entry>,
    /// The step of the pack that it is; `None` for batches without the pack.
    pub(crate) packed: Option<u64>,
    /// Members that joined the pack right behind it.
    pub(crate) joined: u32,
    pub(crate) load: StepLoad,
    pub(crate) begin: Picos,
    pub(crate) duration: Picos,
    pub(crate) recomputed_tokens: u64,
    /// Pages of tokens that it computes for requests that have left since; they are free when its result is there (SG-5).
    pub(crate) late_pages: u32,
    /// State of the running batch that a decode batch is of; 0 for others.
    pub(crate) membership: u64,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    pub(crate) free_pages: u32,
}

impl Batch {
    /// When its result is there.
    #[inline]
    pub(crate) fn end(&self) -> Picos {
        self.begin + self.duration
    }

    /// Sequences that are handed something when its result is there: of those that sample a row for each of their tokens, one each.
    #[inline]
    pub(crate) fn handed(&self) -> u32 {
        self.load.sampled_rows - self.load.drafts
    }

    /// Nobody but the pack computes in it.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.packed.is_some() && self.entries.is_empty()
    }
}

/// A pass of the loop as the recorded schedules of the engine have it: the state after `get_next_batch_to_run`.
#[derive(Clone, Debug, PartialEq)]
pub struct SglangRecord {
    /// What was launched.
    pub mode: BatchMode,
    /// When it was decided.
    pub scheduled: Picos,
    /// When it began on the GPU.
    pub begin: Picos,
    /// How long it lasted.
    pub duration: Picos,
    /// (request, tokens with KV before, tokens computed) in the batch's order.
    pub shares: Vec<(RequestId, u32, u32)>,
    /// Requests retracted in the pass.
    pub retracted: Vec<RequestId>,
    /// Free pages.
    pub free_pages: u32,
    /// Tokens of the tree that nobody protects.
    pub evictable: u64,
    /// Tokens of the tree that somebody protects.
    pub protected: u64,
    /// Size of the running batch; a prefill batch joins it one pass later.
    pub running: u32,
    /// Size of the queue.
    pub waiting: u32,
    /// The sticky flag `batch_is_full` (SG-14).
    pub full: bool,
    /// The new-token ratio (SG-32).
    pub ratio: f64,
    /// The partly prefilled request.
    pub chunked: Option<RequestId>,
    /// The queue in its order.
    pub order: Vec<RequestId>,
}
