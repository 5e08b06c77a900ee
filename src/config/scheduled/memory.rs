//! Memory: V0 as V1 with its own defaults (V0-14); the others are what is left beside weights and activations.

use super::{Kind, ScheduledFlags};
use crate::config::judge::Judge;
use crate::cost::calibration::{Calibration, Copies, Direction};
use crate::cost::roofline::{CudagraphMode, Graphs};
use crate::engine::memory::{Budget, MemoryOptions, MemoryPlan, PoolRules, StateBlocks, Windowed};
use crate::engine::scheduled::policies::StaticConfig;
use crate::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use crate::model::Dtype;
use crate::units::Picos;

/// The share of the memory where nobody gives one, as vLLM 0.6 has it.
const USUAL_SHARE: f64 = 0.9;

impl ScheduledFlags {
    /// Name and version of the profile.
    pub(in crate::config) fn profile_name(&self) -> String {
        self.config.profile.clone()
    }

    /// Longest sequence.
    pub(in crate::config) fn max_model_len(&self) -> u32 {
        self.config.max_model_len
    }

    /// V0 captures decode batches of 1, 2, 4 and every 8 up to 256 (`_BATCH_SIZES_TO_CAPTURE` of its model runner) and
    /// runs prompts eagerly; Transformers captures nothing unless it is told to, and is then taken to do as V0 does.
    pub(in crate::config) fn graphs(&self) -> Graphs {
        if self.enforce_eager {
            return Graphs {
                mode: CudagraphMode::None,
                capture_sizes: Vec::new(),
                piece_sizes: None,
                pads: true,
                routes_padding: true,
                is_compiled: false,
            };
        }
        let most = self.config.max_num_seqs.max(1).next_multiple_of(8);
        let sizes = [1, 2, 4].into_iter().chain((8..=256).step_by(8));
        Graphs {
            mode: CudagraphMode::FullDecodeOnly,
            capture_sizes: sizes.filter(|&size| size <= most).collect(),
            piece_sizes: None,
            pads: true,
            routes_padding: true,
            is_compiled: false,
        }
    }

    /// What decides the memory.
    pub(in crate::config) fn memory_options(&self, tensor_parallel: u32, kv_dtype: Dtype) -> MemoryOptions {
        let config = &self.config;
        MemoryOptions {
            tensor_parallel,
            edges: None,
            pipeline_parallel: 1,
            can_pipeline: false,
            gpu_memory_utilization: self.gpu_memory_utilization,
            budget: Budget::vllm(USUAL_SHARE),
            kv_format: kv_dtype.into(),
            block_size: config.block_size,
            max_num_batched_tokens: config.max_num_batched_tokens,
            max_in_flight_tokens: config.max_num_batched_tokens,
            windowed: Windowed::KeepAll,
            rules: PoolRules::BY_BLOCKS,
            state_blocks: StateBlocks::One,
            max_num_seqs: config.max_num_seqs,
            max_model_len: config.max_model_len,
            charge_cuda_graphs: false,
            enforce_eager: self.enforce_eager,
            kv_cache_memory_bytes: None,
            num_gpu_blocks_override: self.num_gpu_blocks_override,
            drafter: None,
            estimates: None,
        }
    }

    /// The same with copies as a calibration has them. vLLM 0.6 `CacheEngine.swap_in` copies keys and values of each layer
    /// by themselves, block by block.
    pub(in crate::config) fn with_copies(self, calibration: &Calibration, layers: u32) -> Self {
        let copies = Direction::ALL.map(|(direction, _)| calibration.copies.get(&direction).copied());
        let copies = match copies {
            [Some(back), Some(out)] => Some(([out, back], 2.0 * f64::from(layers))),
            _ => self.copies,
        };
        Self { copies, ..self }
    }

    /// Seconds of one block one way: the mean of both ways where they were measured, as what goes out comes back; else at
    /// the link's own rate.
    pub(super) fn swap_seconds(&self, block_bytes: f64) -> f64 {
        let Some((copies, pieces)) = &self.copies else {
            return self.pcie.map_or(0.0, |pcie| block_bytes / pcie.0);
        };
        // The launch of a whole swap is left out: it is paid once for all of its blocks.
        let each = |copies: &Copies| 1e-6 * copies.per_copy_us * pieces + block_bytes / (1e9 * copies.gbs);
        copies.iter().map(each).sum::<f64>() / 2.0
    }

    /// KV blocks that the engine takes at most, unless their number was given.
    fn blocks_max(&self) -> Option<u32> {
        self.blocks_max.filter(|_| self.num_gpu_blocks_override.is_none())
    }

    /// The engine, given its memory; the plan is kept where memory decided.
    pub(in crate::config) fn with_memory(
        self,
        judge: &mut Judge,
        plan: MemoryPlan,
    ) -> (ScheduledConfig, Option<MemoryPlan>) {
        let (plan, note) = plan.capped(self.blocks_max(), &self.config.profile);
        judge.notes.extend(note);
        let num_gpu_blocks = plan.num_gpu_blocks;
        if let SchedulerChoice::Static(rows) = &self.config.scheduler {
            check_rows(judge, rows, &plan);
        }
        let block_bytes = plan.layout.block_bytes.0;
        let swap_blocks = self.swap_bytes / block_bytes.max(1);
        let swap_time = self.swap_seconds(block_bytes as f64);
        let scheduler = match self.config.scheduler {
            SchedulerChoice::HfContinuous(mut hf) => {
                hf.margin_blocks = (self.safety_margin * f64::from(num_gpu_blocks)).ceil() as u32;
                SchedulerChoice::HfContinuous(hf)
            }
            other => other,
        };
        let is_planned = self.num_gpu_blocks_override.is_none();
        let config = ScheduledConfig {
            num_gpu_blocks,
            swap_blocks: u32::try_from(swap_blocks).unwrap_or(u32::MAX),
            swap_time_per_block: match self.kind {
                Kind::V0 => Picos::from_seconds(swap_time),
                _ => Picos::ZERO,
            },
            scheduler,
            ..self.config
        };
        (config, is_planned.then_some(plan))
    }
}

/// Tokens of a row, prompt and answer, below which no traffic is worth a thought.
const ROW_MIN: u32 = 16;

/// A static batch holds all of its rows at once. Rows that the memory cannot hold even if each were as short as can be are
/// refused; of rows that it cannot hold at full length it is said that batches may close earlier.
fn check_rows(judge: &mut Judge, rows: &StaticConfig, plan: &MemoryPlan) {
    let key = "engine.max_num_seqs";
    let whole = plan.blocks_of_request(rows.max_model_len).max(1);
    let most = (u64::from(plan.num_gpu_blocks) / whole) as u32;
    let shortest = plan.blocks_of_request(ROW_MIN.min(rows.max_model_len)).max(1);
    if u64::from(rows.batch_size) * shortest > u64::from(plan.num_gpu_blocks) {
        judge.wrong_help(
            key,
            "is more rows than the memory holds",
            format!(
                "{} rows, and the KV cache has room for {} tokens",
                rows.batch_size,
                plan.tokens()
            ),
            format!(
                "{most} rows fit at the full length of {} tokens (max_model_len)",
                rows.max_model_len
            ),
        );
    } else if rows.batch_size > most {
        judge.notes.push(format!(
            "{} rows do not fit the KV cache at the full length of {} tokens, {most} do: a batch of long requests closes with fewer",
            rows.batch_size, rows.max_model_len
        ));
    }
}
