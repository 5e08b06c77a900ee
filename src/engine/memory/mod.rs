//! What fits: from a GPU's memory to the number of KV blocks, as vLLM's start-up profiling finds it (V1-67 to V1-72, R-10).
//!
//! `kv = ceil(total · gpu_memory_utilization) − weights − activations − CUDA graphs − runtime`, all per rank, and
//! `blocks = floor(kv / (block_size · KV bytes per token))`. Weights and KV are counted from the shape; activations,
//! graphs and runtime are estimates ([`Estimates`]) that an engine would measure, and are to be printed as assumed.
//!
//! Sliding windows: vLLM's hybrid allocator puts layers into groups of equal size (full, sliding), lets every group
//! draw blocks from one pool, and frees what slid out of a window ([`crate::kv::KvGroups`]). [`MemoryPlan::num_gpu_blocks`]
//! counts blocks of one group, as vLLM does; [`MemoryPlan::tokens`] is the token count that it prints.
//!
//! Recurrent layers: the state of a sequence is one block of a group of such layers, and as a block is as large in every group,
//! attention layers' blocks are made as many tokens long as the state takes bytes ([`StateLayout`]).
//!
//! Left out: CPU offload, activations and graphs of a drafter, the vision tower. Law: a plan's parts add up to the
//! requested memory to the byte, with less than a block over.

mod layout;
mod longest;
mod misfit;
mod options;
mod plan;
mod unlike;

pub use layout::{KvLayout, StateLayout, block_unit, kv_groups};
pub use longest::longest_context;
pub use misfit::{DoesNotFit, PoolSize, Remedy, Shortage};
pub use options::{
    Budget, ESTIMATES_OFF, Edges, Estimates, MemoryOptions, PoolRules, StateBlocks, Windowed,
    bytes_per_logit, sparse_kv_dtype,
};
pub use plan::{MemoryPlan, plan};
pub use unlike::KindLayout;

#[cfg(test)]
mod tests;
