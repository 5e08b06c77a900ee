//! TensorRT-LLM's PyTorch backend: who may run by what memory it will need, and what a step computes of that.
//!
//! Its executor (`_torch/pyexecutor/py_executor.py`) is the loop of vLLM's V1 engine: one step is decided while another runs
//! (`_executor_loop_overlap`) or when it has ended (`_executor_loop`), and a step mixes prompts and decodes. So it is
//! `Replica` with another `schedule()`, which `schedule.rs` holds: `CapacityScheduler` and `MicroBatchScheduler`
//! (`batch_manager/capacityScheduler.cpp`, `microBatchScheduler.cpp`).
//!
//! # Block reuse
//!
//! On by default. The pool is `kv/reuse.rs`, the loop's part is `reuse.rs` here. Read from `kvCacheManager.cpp`, `evictionPolicy.cpp`,
//! `capacityScheduler.cpp`, `llmRequest.h` and `resource_manager.py` as a public index of the repository holds them, without their dates:
//! that they are 1.2's could not be checked, and no schedule with reuse was recorded.
//!
//! * **TR-1** A prompt's blocks are looked up in a tree from its head, all tokens but the last one (`loadOrAllocateBlocks`). A whole block
//!   that is found is shared; at the first that is not the search ends.
//! * **TR-2** There the block that begins with most of the next tokens is reused in part (`enable_partial_reuse`, `findMatchingBlock`): the
//!   block itself leaves the tree if nobody holds it and nothing is beneath it, else its head is copied. Copying takes no time here. Of
//!   equals the first wins; the server goes through an unordered map.
//! * **TR-3** All blocks of a prompt are taken at its start (`addSequence`), of those who start in a step first who computes all of its
//!   prompt (`sortRequests`), in order of arrival; then one for each decode that needs it (`prepare_resources`).
//! * **TR-4** Free blocks are taken in the order in which they became free, those of one sequence from its end (`LRUEvictionPolicy`, one
//!   priority). A block that is taken leaves the tree with all beneath it, held or not (`freeChildren`).
//! * **TR-5** The whole blocks of a prompt come into the tree when the step of its last part is processed (`storeContextBlocks`), what a request
//!   has computed when it leaves, its last block in part (`releaseBlocks`); where an equal content is there already, that one stays.
//!   What somebody who gives up has not computed is not stored, which is a choice of ours.
//! * **TR-6** Who would compute a block that somebody before it in this step, or in parts already, is about to make is put off
//!   (`beneficialToSkip`), not in static batches. With overlap the next step is decided before the block can be found, so that it is put off
//!   in vain.
//! * **TR-7** Tokens of a step and blocks to the end are counted as if nothing were found (`MicroBatchScheduler`,
//!   `getRemainingBlocksToCompletion`); only then a chunk begins behind what is found, and ends at a block's end
//!   (`setPrepopulatedPromptLen`). Later versions count what is found; so a block that several hold is promised to each.
//! * **TR-8** The server goes through prompts in order of arrival. Whoever was put off and comes before a prompt in parts may lack blocks that this one
//!   holds, and then neither goes on for ever, if nobody decodes: a naive twin in that order finds such a livelock. Here whoever has begun goes
//!   first.
//!
//! Left out: reuse beside `max_utilization`, priorities of blocks, a second level in the host's memory, pools of their own for layers with windows
//! (every layer keeps everything, as where `max_attention_window` is not given), beams, LoRA, drafts, and budgets below the batch size, at which
//! decodes would take turns.

mod config;
mod reuse;
mod schedule;

pub use config::{BlockReuse, CapacityPolicy, TrtllmConfig};

pub(crate) use schedule::Capacity;
