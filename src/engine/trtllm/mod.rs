//! TensorRT-LLM's PyTorch backend: who may run by what memory it will need, and what a step computes of that.
//!
//! Its executor (`_torch/pyexecutor/py_executor.py`) is the loop of vLLM's V1 engine: one step is decided while another runs
//! (`_executor_loop_overlap`) or when it has ended (`_executor_loop`), and a step mixes prompts and decodes. So it is
//! `Replica` with another `schedule()`, which `schedule.rs` holds: `CapacityScheduler` and `MicroBatchScheduler`
//! (`batch_manager/capacityScheduler.cpp`, `microBatchScheduler.cpp`).
//!
//! Left out: block reuse (equal prefixes are computed anew), pools of their own for layers with windows (every layer keeps
//! everything, as where `max_attention_window` is not given), beams, LoRA, drafts, and budgets below the batch size, at which
//! decodes would take turns.

mod config;
mod schedule;

pub use config::{CapacityPolicy, TrtllmConfig};

pub(crate) use schedule::Capacity;
