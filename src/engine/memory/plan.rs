//! The division of one rank's memory.

use super::layout::{KvLayout, kv_layout, rank_weights, stage_weights};
use super::misfit::{PoolSize, Shortage};
use super::options::{ESTIMATES_OFF, Estimates, MemoryOptions, PoolRules};
use super::unlike::KindLayout;
use crate::hardware::Device;
use crate::kv::WindowGroups;
use crate::model::ModelShape;
use crate::units::Bytes;

/// How the memory of one rank is divided: in a pipeline of one of the stage with the fewest blocks, which all others take, too.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryPlan {
    /// `ceil(total · gpu_memory_utilization)`, of what [`super::Budget::excluded`] leaves; all of it where the share is of the rest.
    pub requested: Bytes,
    /// The stage that is counted, from 0.
    pub stage: u32,
    /// Weights of this rank.
    pub weights: Bytes,
    /// What was estimated, or given.
    pub estimates: Estimates,
    /// The KV pool.
    pub kv_pool: Bytes,
    /// What the pool might have beyond it, of an engine that takes no more blocks.
    pub unused: Bytes,
    /// How tokens lie in it.
    pub layout: KvLayout,
    /// Blocks of `block_size` tokens in the layers of one group, the null block included (V1-29): what the engine is given.
    pub num_gpu_blocks: u32,
    /// Most tokens that are scheduled and not settled.
    pub max_in_flight_tokens: u32,
    /// Tokens of a block of a group of attention layers.
    pub block_size: u32,
    /// Longest sequence.
    pub max_model_len: u32,
    /// How this version of the engine counts.
    pub rules: PoolRules,
}

impl MemoryPlan {
    /// Tokens of the pool: what the engine prints at start. As vLLM 0.33 counts them, those of requests of the longest kind,
    /// the last one in part; else as [`MemoryPlan::tokens_in_all_layers`].
    #[must_use]
    pub fn tokens(&self) -> u64 {
        if !self.rules.tokens_of_longest {
            return self.tokens_in_all_layers();
        }
        // In floating point, as there: a product that is not whole may lose a token.
        let requests = f64::from(self.num_gpu_blocks) / self.blocks_of_request(self.max_model_len) as f64;
        (requests * f64::from(self.max_model_len)) as u64
    }

    /// Tokens that the pool holds if every layer keeps all of them.
    #[must_use]
    pub fn tokens_in_all_layers(&self) -> u64 {
        u64::from(self.num_gpu_blocks / self.layout.groups.count()) * u64::from(self.block_size)
    }

    /// Blocks that one request of `tokens` tokens occupies at most, in all groups. For the longest this is vLLM's own bound
    /// (`max_memory_usage_bytes`), in which a window takes a block more than its tokens fill, wherever it begins.
    #[must_use]
    pub fn blocks_of_request(&self, tokens: u32) -> u64 {
        if !self.layout.kinds.is_empty() {
            let kinds = self.layout.kinds.iter();
            return kinds.map(|kind| self.blocks_of_kind(kind, tokens)).sum();
        }
        let groups = &self.layout.groups;
        let blocks = tokens.div_ceil(self.block_size);
        let of_windows = groups.windows.iter().map(|kind| {
            let held = self.held_at_most(kind);
            let held = if tokens >= self.max_model_len {
                held
            } else {
                held.min(blocks)
            };
            u64::from(kind.groups) * u64::from(held)
        });
        u64::from(groups.full) * u64::from(blocks) + of_windows.sum::<u64>() + u64::from(groups.states)
    }

    /// The same of one of several kinds whose blocks have a length of their own.
    fn blocks_of_kind(&self, kind: &KindLayout, tokens: u32) -> u64 {
        let blocks = tokens.div_ceil(kind.block_size);
        let held = kind.window.map_or(blocks, |window| {
            let one = WindowGroups { window, groups: 1 };
            let held = one.held_at_most(self.max_in_flight_tokens, self.max_model_len, kind.block_size);
            match tokens >= self.max_model_len {
                true => held,
                false => held.min(blocks),
            }
        });
        u64::from(kind.groups) * u64::from(held)
    }

    /// Blocks of one group with a window that a request holds at most.
    #[must_use]
    pub fn held_at_most(&self, kind: &WindowGroups) -> u32 {
        kind.held_at_most(self.max_in_flight_tokens, self.max_model_len, self.block_size)
    }

    /// Requests of `tokens` tokens that the pool holds at once, whole ones. As in vLLM's log the null block is counted
    /// as if it held tokens.
    #[must_use]
    pub fn concurrency(&self, tokens: u32) -> u64 {
        u64::from(self.num_gpu_blocks) / self.blocks_of_request(tokens.max(1))
    }

    /// What the pool has beyond one request of the longest kind; `None` where it holds none.
    #[must_use]
    pub fn spare(&self) -> Option<Bytes> {
        let null = u64::from(self.rules.spares_null_block);
        let needed = self.blocks_of_request(self.max_model_len) + null;
        let spare = u64::from(self.num_gpu_blocks).checked_sub(needed)?;
        Some(Bytes(spare * self.layout.block_bytes.0))
    }

    /// Whether one longest request fits by less than estimates may be off: an engine that measures more does not start. Not where
    /// the pool's size was given, where what is estimated lies outside the share, nor where an engine starts without room for one.
    #[must_use]
    pub fn is_tight(&self, options: &MemoryOptions) -> bool {
        let is_the_rest = PoolSize::of(options) == PoolSize::TheRest;
        let is_estimated = is_the_rest && options.budget.holds_activations && options.estimates.is_none();
        is_estimated
            && !options.budget.is_of_rest
            && self
                .spare()
                .is_some_and(|spare| spare + self.unused < ESTIMATES_OFF)
    }

    /// The plan of an engine that takes `most` blocks at most, and a sentence where the memory holds more.
    #[must_use]
    pub fn capped(self, most: Option<u32>, engine: &str) -> (MemoryPlan, Option<String>) {
        let Some(most) = most.filter(|most| self.num_gpu_blocks > *most) else {
            return (self, None);
        };
        let note = format!(
            "{engine} takes at most {most} KV blocks of the {} that the memory holds; --num-gpu-blocks-override asks for more",
            self.num_gpu_blocks
        );
        let kv_pool = Bytes(self.layout.block_bytes.0 * u64::from(most));
        let plan = MemoryPlan {
            num_gpu_blocks: most,
            kv_pool,
            unused: self.kv_pool - kv_pool,
            ..self
        };
        (plan, Some(note))
    }

    /// All that is not KV: weights, activations, runtime, and graphs where they are charged.
    #[must_use]
    pub fn charged(&self, charge_cuda_graphs: bool) -> Bytes {
        let graphs = if charge_cuda_graphs {
            self.estimates.cuda_graphs
        } else {
            Bytes(0)
        };
        self.weights + self.estimates.activations + graphs + self.estimates.runtime
    }
}

/// Divides the memory of one rank, or says what is short.
///
/// # Panics
/// If `tensor_parallel`, `pipeline_parallel` or `block_size` is zero, or the utilisation is not within (0, 1]: the
/// configuration is checked before.
pub fn plan(device: &Device, model: &ModelShape, options: &MemoryOptions) -> Result<MemoryPlan, Shortage> {
    let utilization = options.gpu_memory_utilization;
    assert!(utilization > 0.0 && utilization <= 1.0, "utilisation is a share");
    assert!(options.block_size > 0, "a block holds tokens");
    if let Some((kind, heads)) = model.indivisible_heads(options.tensor_parallel) {
        return Err(Shortage::HeadsNotDivisible {
            kind,
            heads,
            tensor_parallel: options.tensor_parallel,
        });
    }
    if options.pipeline_parallel == 1 || !options.has_plain_stages(model) {
        let estimates = options.estimates.unwrap_or_else(|| Estimates::of(model, options));
        let (weights, layout) = (rank_weights(model, options), kv_layout(model, options));
        return divide(device, options, weights, estimates, layout);
    }
    // The engine takes the fewest blocks of any stage (`get_kv_cache_configs`), and does not start unless all fit.
    let alone = MemoryOptions {
        pipeline_parallel: 1,
        ..options.clone()
    };
    let mut fullest: Option<MemoryPlan> = None;
    for (at, stage) in (0..).zip(model.stages(options.pipeline_parallel)) {
        let estimates = options
            .estimates
            .unwrap_or_else(|| Estimates::of_stage(&stage, options));
        let (weights, layout) = (stage_weights(&stage, options), kv_layout(&stage.shape, &alone));
        let plan = MemoryPlan {
            stage: at,
            ..divide(device, options, weights, estimates, layout)?
        };
        let rank = |plan: &MemoryPlan| (plan.num_gpu_blocks, std::cmp::Reverse(plan.weights));
        if fullest.as_ref().is_none_or(|known| rank(&plan) < rank(known)) {
            fullest = Some(plan);
        }
    }
    Ok(fullest.expect("a pipeline has stages"))
}

/// Divides the memory of a rank with these weights and this layout.
fn divide(
    device: &Device,
    options: &MemoryOptions,
    weights: Bytes,
    estimates: Estimates,
    layout: KvLayout,
) -> Result<MemoryPlan, Shortage> {
    let utilization = options.share();
    let offered = device.memory.0.saturating_sub(options.budget.excluded.0);
    let mut plan = MemoryPlan {
        requested: match options.budget.is_of_rest {
            true => Bytes(offered),
            false => Bytes((offered as f64 * utilization).ceil() as u64),
        },
        stage: 0,
        weights,
        estimates,
        kv_pool: Bytes(0),
        unused: Bytes(0),
        layout,
        num_gpu_blocks: 0,
        max_in_flight_tokens: options.max_in_flight_tokens,
        block_size: 0,
        max_model_len: options.max_model_len,
        rules: options.rules,
    };
    plan.block_size = plan.layout.block_size;
    plan.kv_pool = pool(&plan, options)?;
    let blocks = plan.kv_pool.0 / plan.layout.block_bytes.0;
    let blocks = options.num_gpu_blocks_override.map_or(blocks, u64::from);
    plan.num_gpu_blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    if PoolSize::of(options) == PoolSize::Blocks {
        plan.kv_pool = Bytes(plan.layout.block_bytes.0.saturating_mul(blocks));
    }
    check_pool(&plan, options, device)?;
    Ok(plan)
}

/// The KV pool by its formula, or as large as it was asked for.
fn pool(plan: &MemoryPlan, options: &MemoryOptions) -> Result<Bytes, Shortage> {
    let charged = plan.charged(options.charge_cuda_graphs);
    match options.kv_cache_memory_bytes {
        Some(bytes) => Ok(bytes),
        None if charged >= plan.requested => Err(Shortage::NoRoomForKv {
            weights: plan.weights,
            other: charged - plan.weights,
            requested: plan.requested,
        }),
        None => {
            let rest = plan.requested - charged;
            let share = options.share();
            Ok(match options.budget.is_of_rest {
                true => Bytes((rest.0 as f64 * share) as u64),
                false => rest,
            })
        }
    }
}

/// The pool lies within the device's memory and holds one longest request.
fn check_pool(plan: &MemoryPlan, options: &MemoryOptions, device: &Device) -> Result<(), Shortage> {
    let sized_by = PoolSize::of(options);
    // Activations and the rest are estimates; what weights and pool alone exceed is certain.
    if sized_by != PoolSize::TheRest && plan.kv_pool.0.saturating_add(plan.weights.0) > device.memory.0 {
        return Err(Shortage::PoolBeyondMemory {
            kv_pool: plan.kv_pool,
            weights: plan.weights,
            memory: device.memory,
            sized_by,
        });
    }
    let needed = plan.blocks_of_request(options.max_model_len) + u64::from(options.rules.spares_null_block);
    if u64::from(plan.num_gpu_blocks) < needed {
        let needed = needed * plan.layout.block_bytes.0;
        return Err(Shortage::OneRequestDoesNotFit {
            kv_pool: plan.kv_pool,
            needed: Bytes(needed),
            max_model_len: options.max_model_len,
            sized_by,
        });
    }
    Ok(())
}
