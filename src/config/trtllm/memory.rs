//! What of TensorRT-LLM's flags decides its memory: a fraction of what weights, CUDA graphs and the activations of one full step leave
//! (`_torch/pyexecutor/_util.py`, `KvCacheCreator`). Graphs are captured before that step runs, and are in its peak: "memory used
//! outside torch (e.g., NCCL and CUDA graphs)", as the server logs it.
//!
//! Left out: what the server measures while it runs that step.

use super::TrtllmFlags;
use crate::engine::memory::{Budget, MemoryOptions, PoolRules, StateBlocks, Windowed};
use crate::model::Dtype;
use crate::units::Bytes;

impl TrtllmFlags {
    /// What decides the KV pool.
    pub(in crate::config) fn memory_options(&self, tensor_parallel: u32, kv_dtype: Dtype) -> MemoryOptions {
        let config = &self.config;
        MemoryOptions {
            tensor_parallel,
            edges: None,
            pipeline_parallel: 1,
            can_pipeline: false,
            gpu_memory_utilization: self.free_fraction,
            budget: Budget {
                flag: "--kv-cache-free-gpu-memory-fraction",
                usual: self.usual_fraction,
                digits: 100.0,
                kept: 1.0,
                excluded: Bytes(0),
                holds_activations: true,
                is_of_rest: true,
            },
            kv_format: kv_dtype.into(),
            block_size: config.tokens_per_block,
            max_num_batched_tokens: config.max_num_tokens,
            max_in_flight_tokens: config.max_num_tokens,
            windowed: Windowed::KeepAll,
            rules: PoolRules::BY_BLOCKS,
            max_num_seqs: config.max_batch_size,
            // A longest sequence beyond the pool is cut, not refused at start-up; two blocks are the least that serves.
            max_model_len: 2 * config.tokens_per_block,
            charge_cuda_graphs: true,
            enforce_eager: self.captured.is_none(),
            kv_cache_memory_bytes: None,
            num_gpu_blocks_override: None,
            drafter: None,
            state_blocks: StateBlocks::One,
            estimates: None,
        }
    }
}
