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
//! # Attention data parallelism
//!
//! `enable_attention_dp`: one executor for each GPU of the tensor-parallel size, whose loops go round together. `ranks.rs` here has what a rank could
//! compute, `cluster/lockstep` what all decide. Read from `executor_request_queue.py`, `py_executor.py`, `cuda_graph_runner.py`, `model_engine.py`,
//! `modeling_deepseekv3.py`, `modeling_utils.py` and `fused_moe_cutlass.py`, as a public index holds them of the time about 1.2; how requests are shared out,
//! prompts put off and batches padded is held against decisions of these methods, transcribed from there (`tests/data/ranks`); that they are 1.2's own
//! could not be checked.
//!
//! * **TR-9** Each rank has its own requests, KV cache with all heads, `max_batch_size`, `max_num_tokens` and capacity scheduler. `batch_wait_*` is
//!   without effect (`PyExecutor._schedule`).
//! * **TR-10** Requests wait before all ranks. In each pass as many are taken, in order of arrival, as ranks have seats together
//!   (`_fetch_and_process_requests`, `max_num_active_requests`); whose last token is in flight still has its seat.
//! * **TR-11** Of those taken the longest prompt goes first, to the rank whose requests have the fewest prompt tokens, computed or not, of equals to that
//!   with the fewest requests, then to the first; none gets more requests than the fullest has, or the mean of all rounded up
//!   (`_schedule_attention_dp_requests`, `_balance_requests_across_ranks`, `expected_num_active_requests`). In that order they queue there.
//! * **TR-12** While anybody is on any rank, one with nobody has a dummy that decodes one token (`_pad_attention_dp_dummy_request`), and has it no longer
//!   when the next step is decided (`_update_request_states_tp`).
//! * **TR-13** A rank with somebody gets no dummy. If it can compute nothing, since the last tokens of all that it has are in flight, nobody launches
//!   (`_can_queue`): the step in flight ends before the next is decided. There ranks that could have launched process that step a pass later than the
//!   others; here all process it at once.
//! * **TR-14** Where all ranks decode, each pads its batch to the captured one that holds the largest of all (`_get_padded_batch`), with `enable_padding` alone.
//!   A graph is replayed if then all batches are equal and captured (`maybe_get_cuda_graph`). With prompts on any rank nobody replays any, but those without
//!   have padded theirs before they hear of it. Nothing above `max_batch_size` is captured (`_filter_cuda_graph_batch_sizes`).
//! * **TR-15** `enable_balance`: prompts are put off in a step unless every rank has some, and a seat, or some rank has nobody who decodes, a dummy counting as
//!   one; after `timeout_iters` such steps in a row they are computed all the same. Where every rank has some and all decode they are put off for
//!   `batching_wait_iters` steps more (`_balance_adp_requests`). Steps in which nobody has any prompt count as steps without.
//! * **TR-16** Attention, dense layers, shared experts, the choice of experts, embedding and LM head are whole on each GPU; routed experts are shared out by
//!   `ep_size` as without. Tokens reach them by an all-gather and come back by a reduce-scatter, over NCCL; if no expert is in slices and NVLink joins
//!   all GPUs, by kernels that send each to the GPUs of its experts alone (`select_alltoall_method_type`, `NVLinkOneSided`), here in 16 bits both ways.
//! * **TR-17** `enable_lm_head_tp_in_adp` slices the head of drafts alone (`DeepseekV3MTPHead`).
//!
//! Left out of it: requests that name their rank, routing by caches (later versions), a dummy that no step took because another rank stalled, that a
//! blocked loop wakes for the first request alone, host time that a stall uncovers, and what exchanging sizes takes.
//!
//! Left out: reuse beside `max_utilization`, priorities of blocks, a second level in the host's memory, pools of their own for layers with windows
//! (every layer keeps everything, as where `max_attention_window` is not given), beams, LoRA, drafts, and budgets below the batch size, at which
//! decodes would take turns.

mod config;
mod ranks;
mod reuse;
mod schedule;

pub use config::{BlockReuse, CapacityPolicy, TrtllmConfig};

pub(crate) use ranks::AtHand;
pub(crate) use schedule::Capacity;
