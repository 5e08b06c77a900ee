//! Data-parallel attention of a model with experts: every rank has its own requests, all ranks have each other's experts,
//! so all ranks step together (V1-85, SG-50, DP-2).
//!
//! * A step of all begins when every rank has launched its own, and lasts as long as the slowest rank needs: `max over
//!   ranks of (own share) + experts of all ranks' tokens`. Real ranks meet in every layer with experts, where the slowest
//!   may be another each time; the sum of maxima over layers is not modelled, but the layers of a rank are alike.
//!
//! Ranks of vLLM, of SGLang's data-parallel attention and of TensorRT-LLM's differ ([`LockStepSpec`]). Of vLLM:
//!
//! * Where all ranks decode under CUDA graphs each replays the graph of the largest batch (DP-2), so the experts see that
//!   captured batch of every rank. A step with prompts in it is padded rank by rank, as if each were alone.
//! * A rank without work computes a dummy batch of one token. Ranks agree every `dp_sync_interval` steps whether anybody has
//!   work left; until then they go on, and a request that reaches an idle rank waits for the step to end.
//!
//! Of SGLang (SG-50: `prepare_mlp_sync_batch`, `DpPaddingMode`, `CudaGraphRunner.can_run`):
//!
//! * Sizes are exchanged in every pass. If any rank has a batch all launch, those without one an idle batch; if none has,
//!   nothing is launched, and a request that comes then is seen at once.
//! * A graph is replayed where all ranks decode or idle and a captured batch holds the largest; each computes that one, also
//!   who idles. In 0.5.4 prompts on one rank take the graphs from all: each launches its own batch kernel by kernel.
//! * In 0.5.23 all replay the pieces that are captured for the largest batch if each rank that has one could replay pieces for
//!   its own (SG-51); decodes are prompts of one token then, and who idles computes a dummy of that size.
//! * Without a graph, decodes are padded to the largest rank if that moves less than two all-reduces of what there is;
//!   prompts never are. Who idles unpadded has its launches and its part in the experts.
//! * The logits of all are computed by all where ranks have the LM head in common.
//!
//! Of TensorRT-LLM (TR-9 to TR-16, `PyExecutor._executor_loop`, `CUDAGraphRunner`):
//!
//! * Requests wait before all ranks, and are shared out in each pass by the tokens of the prompts that ranks have, no more than there are seats.
//! * A rank with nobody computes a dummy of one token while any has somebody. Where nobody on a rank can compute, since the last tokens of
//!   all there are in flight, nobody launches before that step has ended.
//! * Where all ranks decode, each replays the captured batch that holds the largest; without padding only if all are as large. Where any
//!   has prompts all launch kernel by kernel, decodes in batches that are padded all the same.
//! * `enable_balance` puts prompts off until every rank has some.
//!
//! Cost: a run of alike decode steps on all ranks is one leap to the first change on any rank, or to the step in which
//! another rank becomes the slowest: shares are affine in the steps, so that is solved for, in O(ranks). An event on one
//! rank costs O(ranks), since it cuts everybody's run; that is what lock-step means.

mod account;
mod attending;
mod group;
mod leap;
mod padding;
mod price;
mod sharing;

pub use account::LockStepAccount;
pub(crate) use group::LockStep;
pub use padding::{Coordination, Gathering};
pub use sharing::{AttentionDp, Balance};

/// How ranks step together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStepSpec {
    /// vLLM's: they step on until they agree that nobody has work left.
    Agreed {
        /// Steps between two agreements (`dp_sync_interval`).
        sync_interval: u64,
    },
    /// SGLang's: they exchange the sizes of their batches in every pass, and stop where all are empty.
    Gathered(Gathering),
    /// TensorRT-LLM's: they share requests out among them in every pass, and stop where nobody has any.
    Attending(AttentionDp),
}
