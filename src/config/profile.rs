//! Versioned engine defaults: which value a flag has when nobody sets it, and what changed between versions.
//!
//! The numbers live in `src/engine/profiles/*.toml`, one file a version. Which of them another version takes:
//! `profile/found.rs`.

mod cards;
mod found;

pub use cards::{FusedNormLimits, LatentBlocks};
pub use found::{Found, find, find_for};

use serde::{Deserialize, Serialize};

use super::document::Source;
use super::raw::{RawGraphMode, RawPolicy};
use crate::engine::VersionSwitches;
use crate::engine::memory::PoolRules;
use crate::hardware::Device;
use crate::quantity::{parse_bytes, parse_duration};
use crate::units::Picos;

const SHIPPED: [&str; 2] = [
    include_str!("../engine/profiles/vllm-0.33.toml"),
    include_str!("../engine/profiles/vllm-0.11.toml"),
];

/// What can be asked for.
pub const ENGINES: [&str; 8] = [
    "vllm@0.33",
    "vllm@0.11",
    "vllm@0.6",
    "sglang@0.5.23",
    "sglang@0.5.4",
    "tensorrt-llm@1.2",
    "static",
    "hf-cb",
];

/// Everything that depends on the engine's version.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// `vllm@0.33`.
    pub profile: String,
    /// Flags that nobody set.
    pub defaults: Defaults,
    /// Batch sizes by device memory, first match.
    pub batch: Vec<BatchRow>,
    /// What else start-up derives and refuses.
    pub startup: Startup,
    /// How the KV pool is counted.
    pub pool: Pool,
    /// Blocks of a latent cache.
    pub latent_blocks: LatentBlocks,
    /// The largest hidden states whose all-reduce is fused with the norm behind it.
    pub fused_norms: FusedNormLimits,
    /// Which batch sizes are captured.
    pub graphs: GraphRule,
    /// Behaviours.
    pub switches: Switches,
    /// Speculative decoding.
    pub speculation: SpeculationRules,
    /// Pauses of the engine loop.
    pub host: Host,
    /// Flags that this version lacks, with the reason.
    pub gone: std::collections::BTreeMap<String, String>,
}

/// Values of flags that nobody set; the keys are vLLM's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the keys are vLLM's flags, documented at RawEngine")]
pub struct Defaults {
    pub gpu_memory_utilization: f64,
    pub block_size: u64,
    pub enable_prefix_caching: bool,
    pub enable_chunked_prefill: bool,
    pub long_prefill_token_threshold: u64,
    pub scheduling_policy: RawPolicy,
    pub scheduler_reserve_full_isl: bool,
    pub watermark: f64,
    pub prefill_schedule_interval: u64,
    pub stream_interval: u64,
    pub output_proc_chunk_size: u64,
    pub async_scheduling: bool,
    pub cudagraph_mode: RawGraphMode,
    pub fuse_allreduce_rms: bool,
}

/// Batch sizes of the server on GPUs with at least so much memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchRow {
    /// Memory as the engine sees it.
    pub memory_at_least: String,
    /// A part of the GPU's name to which the row does not apply.
    #[serde(default)]
    pub except_gpu: Option<String>,
    /// Token budget of a step.
    pub max_num_batched_tokens: u64,
    /// Most running sequences.
    pub max_num_seqs: u64,
}

/// What start-up derives and refuses, where versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Startup {
    /// A budget that nobody gave is at least the default without chunked prefill and at most
    /// `max_num_seqs * max_model_len` (`EngineArgs._set_default_max_num_seqs_and_batched_tokens_args`); else it is
    /// `max_model_len` without chunked prefill and the default with it (`EngineArgs._set_default_args`).
    pub budget_keeps_default: bool,
    /// A budget that nobody gave, where kernels that exchange experts' tokens take one small batch of each data-parallel engine
    /// (`SchedulerConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS_FOR_BATCHED_DP`); none where the version has no such default.
    pub batched_expert_tokens: Option<u64>,
    /// `enable_chunked_prefill` is set for every model that generates, whatever the flag says (`EngineArgs._set_default_args`:
    /// "V1 always uses chunked prefills").
    pub always_chunks: bool,
    /// fp8 weights run on Turing, expanded to 16 bits (`Fp8Config.get_min_capability`).
    pub fp8_on_turing: bool,
    /// The published packages have kernels for Volta (compute capability 7.0).
    pub runs_on_volta: bool,
    /// A data-parallel server ranks its engines by four times the waiting and the running (V1-86).
    pub data_parallel_by_waiting: bool,
    /// A data-parallel server has as many API server processes as engines, where nobody says.
    #[serde(default)]
    pub api_server_per_engine: bool,
    /// `-O` is short for the mode of the compilation config, not for a level of optimizations (before 0.12).
    pub level_is_mode: bool,
    /// `--kv-cache-dtype auto` is fp8 where the checkpoint's `kv_cache_scheme` or `kv_cache_quant_algo` asks for it.
    pub heeds_kv_scheme: bool,
    /// The smallest side, in weights, of the blocks to which those of experts in fp8 are cut where a rank's slice is no
    /// multiple of 128 (`refine_fp8_moe_block_shape`); 128 where they are not cut (`validate_fp8_block_shape_moe`).
    pub finest_expert_block: u32,
    /// On Hopper, experts in fp8 whose scales the checkpoint brings run in FlashInfer's CUTLASS kernels, of which the tables are
    /// (`FlashInferExperts._supports_quant_scheme`); else, as all other experts in fp8, in Triton's (`select_fp8_moe_backend`).
    pub flashinfer_experts: bool,
    /// Rows that only fill a CUDA graph are sent to experts, too; since `VLLM_MOE_SKIP_PADDING` they are not.
    pub routes_padding: bool,
    /// Asynchronous scheduling goes with several stages; before, `EngineArgs.create_engine_config` refuses both together.
    pub pipelines_ahead: bool,
    /// `--max-model-len auto` takes the longest that fits (`_auto_fit_max_model_len`, since 0.14).
    pub fits_context: bool,
    /// A model's context under YaRN is its original positions times the factor, not `max_position_embeddings`
    /// (`_get_and_verify_max_len`).
    pub yarn_multiplies_original: bool,
}

/// Which batch sizes are captured as CUDA graphs (V1-73).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphRule {
    /// Every 8 up to here, every 16 above.
    pub step_8_to: u64,
    /// Largest captured size by default.
    pub max: u64,
    /// The same on B200 and its kin (compute capability 10.0).
    pub max_datacenter_blackwell: u64,
    /// `max_num_seqs`, and `max_num_batched_tokens` if small enough, are captured too.
    pub include_max_num_seqs: bool,
    /// Speculating, batches of so many decodes with all their drafts are captured, too.
    pub counts_drafts: bool,
    /// The graphs' memory is taken from the KV cache (VS-8).
    pub charged_to_memory: bool,
}

/// How versions count one pool; see [`PoolRules`].
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented at engine::memory::PoolRules")]
pub struct Pool {
    pub one_group_below: f64,
    pub spares_null_block: bool,
    pub tokens_of_longest: bool,
}

/// Behaviours that differ between versions; see [`crate::engine::VersionSwitches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "documented at engine::VersionSwitches")]
pub struct Switches {
    pub unhashed_to_head: bool,
    pub threshold_not_when_alone: bool,
    pub oversize_prompt_stops: bool,
    pub eviction_restores_budget: bool,
    pub overrun_guard: bool,
    pub windows_settle: bool,
    pub stale_output_drains: bool,
    pub fills_queue_first: bool,
}

/// What speculative decoding does to the scheduler, where versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationRules {
    /// Together with asynchronous scheduling.
    pub is_asynchronous: bool,
    /// A smaller model may draft.
    pub drafts_by_model: bool,
    /// See [`crate::engine::Speculation`].
    pub looks_ahead_at_admission: bool,
    /// Likewise.
    pub pads_admissions: bool,
    /// Likewise.
    pub registers_output: bool,
    /// Likewise.
    pub keeps_drafts: bool,
    /// Likewise, of drafters with KV of their own.
    pub drafts_for_chunks: bool,
    /// Likewise.
    pub drafts_near_longest: bool,
    /// Blocks are known by the token after them, too ([`crate::engine::BlockHashes::Ahead`]).
    pub hashes_ahead: bool,
}

/// Pauses of the engine loop.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// After a pass that scheduled nothing (V1-9).
    pub idle_pass_sleep: String,
}

impl Profile {
    /// Who gave a value that is this profile's default.
    pub(super) fn source(&self) -> Source {
        Source::Profile(self.profile.clone())
    }

    /// Batch sizes of `device`.
    #[must_use]
    pub fn batch_for(&self, device: &Device) -> &BatchRow {
        let fits = |row: &&BatchRow| {
            let least = parse_bytes(&row.memory_at_least).expect("shipped profiles are checked by a test");
            let is_excepted = |part: &String| device.id.to_lowercase().contains(part.as_str());
            device.memory >= least && !row.except_gpu.as_ref().is_some_and(is_excepted)
        };
        self.batch
            .iter()
            .find(fits)
            .expect("the last row has no condition, which a test checks")
    }

    /// The scheduler's behaviours, with or without whole-sequence admission, which is a flag (VS-1).
    #[must_use]
    pub fn version_switches(&self, reserve_full_isl: bool) -> VersionSwitches {
        let switches = self.switches;
        VersionSwitches {
            reserve_full_isl,
            unhashed_to_head: switches.unhashed_to_head,
            threshold_not_when_alone: switches.threshold_not_when_alone,
            oversize_prompt_stops: switches.oversize_prompt_stops,
            eviction_restores_budget: switches.eviction_restores_budget,
            overrun_guard: switches.overrun_guard,
            windows_settle: switches.windows_settle,
            stale_output_drains: switches.stale_output_drains,
            fills_queue_first: switches.fills_queue_first,
        }
    }

    /// How the KV pool is counted.
    #[must_use]
    pub fn pool_rules(&self) -> PoolRules {
        let Pool {
            one_group_below,
            spares_null_block,
            tokens_of_longest,
        } = self.pool;
        PoolRules {
            one_group_below,
            spares_null_block,
            tokens_of_longest,
        }
    }

    /// The pause after a pass that scheduled nothing.
    #[must_use]
    pub fn idle_pass_sleep(&self) -> Picos {
        parse_duration(&self.host.idle_pass_sleep).expect("shipped profiles are checked by a test")
    }
}

/// The shipped profiles, newest first.
#[must_use]
pub fn shipped() -> Vec<Profile> {
    SHIPPED
        .iter()
        .map(|text| toml::from_str(text).expect("shipped profiles are checked by a test"))
        .collect()
}

/// Captured batch sizes in tokens, ascending (V1-73).
#[must_use]
pub fn capture_sizes(
    rule: &GraphRule,
    max: u64,
    max_num_seqs: Option<u64>,
    max_num_batched_tokens: u64,
) -> Vec<u32> {
    let max = max.min(max_num_batched_tokens);
    let fine = (8..=rule.step_8_to.min(max)).step_by(8);
    let coarse = (rule.step_8_to + 8..=max).step_by(16);
    let mut sizes: Vec<u64> = [1, 2, 4]
        .into_iter()
        .chain(fine)
        .chain(coarse)
        .filter(|&size| size <= max)
        .collect();
    if rule.include_max_num_seqs {
        sizes.extend(
            max_num_seqs
                .into_iter()
                .chain([max_num_batched_tokens])
                .filter(|&size| size <= max),
        );
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|size| size as u32).collect()
}

/// Tokens of batches in which everybody decodes with so many drafts, up to `most` sequences and `max` tokens (`_set_cudagraph_sizes`,
/// `request_counts`): larger ones replay nothing.
pub(super) fn decode_sizes(most: u64, drafts: u32, max: u64) -> Vec<u32> {
    let small = [1, 2, 4].into_iter().filter(|&count| count <= most);
    let fine = (8..256.min(most + 1)).step_by(8);
    let coarse = (256..=most).step_by(16);
    let counts = small.chain(fine).chain(coarse).chain([most]);
    let tokens = counts.map(|count| count * (1 + u64::from(drafts)));
    tokens
        .filter(|&tokens| tokens <= max)
        .map(|tokens| tokens as u32)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::found::KNOWN;
    use super::*;

    #[test]
    fn the_engines_that_are_listed_are_those_that_are_modelled() {
        let told: Vec<&str> = KNOWN
            .trim_start_matches("modelled are ")
            .split([',', ' '])
            .collect();
        let told: Vec<&str> = told
            .into_iter()
            .filter(|word| !["", "and"].contains(word))
            .collect();
        assert_eq!(told, ENGINES);
    }

    #[test]
    fn shipped_profiles_are_whole() {
        for profile in shipped() {
            assert!(
                parse_bytes(&profile.batch.last().unwrap().memory_at_least)
                    .unwrap()
                    .0
                    == 0
            );
            for row in &profile.batch {
                parse_bytes(&row.memory_at_least).unwrap();
            }
            parse_duration(&profile.host.idle_pass_sleep).unwrap();
        }
    }

    #[test]
    fn the_rules_of_the_pool_that_others_assume_are_those_of_the_profiles() {
        let pools: Vec<PoolRules> = shipped().iter().map(Profile::pool_rules).collect();
        assert_eq!(pools, [PoolRules::BY_REQUESTS, PoolRules::BY_BLOCKS]);
    }

    #[test]
    fn capture_sizes_follow_each_versions_rule() {
        let [new, old] = [&shipped()[0].graphs, &shipped()[1].graphs];
        let sizes = capture_sizes(new, 512, Some(1024), 8192);
        assert_eq!(&sizes[..5], [1, 2, 4, 8, 16]);
        assert!(
            sizes.contains(&248) && sizes.contains(&256) && !sizes.contains(&264) && sizes.contains(&272)
        );
        assert_eq!(sizes.last(), Some(&512));
        let sizes = capture_sizes(old, 512, Some(256), 2048);
        assert!(sizes.contains(&264) && sizes.last() == Some(&512));
        assert_eq!(capture_sizes(old, 4, Some(2), 2048), [1, 2, 4]);
        assert!(capture_sizes(new, 200, Some(100), 8192).contains(&100));
        let drafted = decode_sizes(256, 3, 512);
        assert_eq!((&drafted[..4], drafted.last()), (&[4, 8, 16, 32][..], Some(&512)));
        assert!(drafted.contains(&96) && !drafted.contains(&1024));
    }
}
