//! What an architecture implies that its `config.json` does not say: which norms and biases exist, which layers have a
//! window, how experts are spelt, which keys may be absent or have other names.
//!
//! One row a family, in `dense.rs`, `early.rs`, `experts.rs`, `unlike.rs` and `hybrid.rs`. A new architecture that is a variation of a known one is one row there.

mod dense;
mod early;
mod experts;
mod hybrid;
mod unlike;
mod unmodelled;

use dense::{DENSE, OPT};
use early::EARLY;
use experts::EXPERTS;
use hybrid::HYBRID;
use unlike::UNLIKE;
pub(super) use unmodelled::unmodelled;

/// A family of architectures whose configs are read alike.
pub(super) struct Family {
    /// `model_type` values, the first for messages.
    pub(super) model_types: &'static [&'static str],
    /// `architectures` values.
    pub(super) architectures: &'static [&'static str],
    /// `tie_word_embeddings` where the key is absent.
    pub(super) tied_by_default: bool,
    /// Biases of the query, key and value projections.
    pub(super) qkv_bias: Bias,
    /// Whether the attention output projection has a bias where query, key and value have one.
    pub(super) out_bias: bool,
    /// How queries and keys are normalised.
    pub(super) qk_norm: QkNorm,
    /// Norms of width `d` in a layer.
    pub(super) norms_per_layer: u32,
    /// Those norms, and the last one, have a bias beside their weight.
    pub(super) norm_bias: bool,
    /// The embedding is normalised before the first layer.
    pub(super) embedding_norm: bool,
    /// The LM head has a bias, unless `lm_head_bias` says otherwise.
    pub(super) head_bias: bool,
    /// Which layers have a sliding window where `layer_types` is absent.
    pub(super) window: WindowRule,
    /// Which layers keep a state of constant size in place of keys and values.
    pub(super) hybrid: Hybrid,
    /// How experts are spelt.
    pub(super) experts: ExpertKeys,
    /// Multi-head latent attention.
    pub(super) latent: bool,
    /// How layers differ in their attention, but for windows.
    pub(super) unlike: Unlike,
    /// What the output of attention is multiplied by.
    pub(super) gate: Gate,
    /// Dense feed-forward parts have a gate beside up and down projections.
    pub(super) gated: bool,
    /// What a checkpoint calls those two where there is no gate.
    pub(super) up_and_down: (&'static str, &'static str),
    /// All query heads share one KV head where `multi_query` is true, as it is where the key is absent, unless
    /// `new_decoder_architecture` is (Falcon, StarCoder).
    pub(super) multi_query: bool,
    /// `intermediate_size` is four times `hidden_size` where it is not said.
    pub(super) width_is_implied: bool,
    /// `intermediate_size` is that of gate and up projection together.
    pub(super) width_of_both: bool,
    /// Positions are a table of this many rows beside `max_position_embeddings`.
    pub(super) position_table: Option<u32>,
    /// Values of numeric keys that are absent.
    pub(super) defaults: &'static [(&'static str, u32)],
    /// Keys that go by another name: Llama's, and this family's.
    pub(super) spelt: &'static [(&'static str, &'static str)],
}

/// Where biases are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bias {
    /// Always.
    Always,
    /// Where `attention_bias` is true.
    ByKey,
    /// Nowhere, whatever `attention_bias` says; `mlp_bias` counts.
    MlpOnly,
    /// In the feed-forward part, always, and nowhere else.
    MlpAlways,
    /// Where `use_bias` is true, in the feed-forward part, too; what holds where the key is absent.
    WithMlp {
        /// Its default.
        by_default: bool,
    },
}

/// How queries and keys are normalised.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QkNorm {
    /// Not at all, or without weights.
    No,
    /// Head by head, with one weight vector of a head's width each.
    Head,
    /// All heads together, with weight vectors of their whole width.
    Whole,
    /// The same, where `use_qk_norm` is true.
    WholeByKey,
}

/// How layers differ in their attention, but for windows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlike {
    /// Not at all.
    No,
    /// Those with and without a window have unlike heads, and the last ones share keys and values (`global_head_dim`,
    /// `num_global_key_value_heads`, `num_kv_shared_layers`).
    Gemma4,
    /// Each is described by itself in `block_configs` (Nemotron's searched architectures).
    Blocks,
    /// Those with a window, which `hybrid_layer_pattern` names, have heads of their own (`swa_num_attention_heads` and its like).
    WindowHeads,
    /// Those with a window have more query heads (`attention_other_setting` or `num_sliding_attention_heads`).
    WindowQueries,
    /// Query heads are listed (`num_attention_heads_per_layer`).
    ListedQueries,
}

/// What the output of attention is multiplied by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Nothing.
    No,
    /// A gate that the query projection makes, unless `attn_output_gate` is false.
    OfQueries,
    /// A gate of a projection of its own.
    Own,
    /// A number a head, where `use_head_wise_attn_gate` is true.
    OfHeads,
    /// By `gated_attention_proj_granularity_type`: `head_wise` is a number a head, `element_wise` a gate of its own.
    ByGranularity,
    /// By `gating`: true or `per-head` is a number a head, `per-element` a gate of its own.
    BySize,
}

/// How layers without keys and values are spelt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hybrid {
    /// There are none.
    None,
    /// `linear_num_value_heads` and its like; all but every `full_attention_interval`-th, or as `layer_types` says.
    GatedDelta,
    /// `linear_attn_config`, which names the layers, too (Kimi Linear).
    KimiDelta,
    /// The same with `num_attention_heads` of `head_dim`, in all but the last layer of each `layer_group_size` (Ling 3).
    LingDelta,
    /// `conv_L_cache`; the layers that `layer_types` calls `conv`, or all but `full_attn_idxs` (LFM2).
    ShortConv,
    /// `mamba_n_heads` and its like, in the layers that `layer_types` says (Granite 4).
    Mamba2,
    /// The same beside attention in every layer: both read one input, and are added (Falcon-H1).
    Mamba2Beside,
    /// `mamba_num_heads` and its like; a layer is one half of a transformer's, as `hybrid_override_pattern` or
    /// `layers_block_type` says.
    StateSpace,
}

/// Which layers have a sliding window.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowRule {
    /// None.
    Never,
    /// All, where `sliding_window` is set.
    All,
    /// Layers from `max_window_layers` on, where `use_sliding_window` is true (Qwen2).
    UpperLayers,
    /// Every second, from the first (Gemma 2, gpt-oss).
    EverySecond,
    /// All but every `sliding_window_pattern`-th (Gemma 3, Cohere 2, OLMo 3).
    AllButEveryNth,
    /// Layers with rotary positions (`no_rope_layers`; by default all but every fourth) attend within chunks of
    /// `attention_chunk_size` (Llama 4).
    Chunked,
}

/// How experts are spelt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpertKeys {
    /// A dense model.
    None,
    /// `num_local_experts`, all layers; experts have `intermediate_size`, those that all tokens share `shared_intermediate_size`.
    Mixtral,
    /// As Mixtral, with biases, and an attention sink for every head.
    GptOss,
    /// `num_experts`, `decoder_sparse_step`, `mlp_only_layers`, `shared_expert_intermediate_size`.
    Qwen,
    /// `n_routed_experts`, `first_k_dense_replace`, `moe_layer_freq`, `n_shared_experts`.
    DeepSeek,
    /// The same with routers that are always corrected.
    Corrected,
    /// The same, in every `moe_layer_interval`-th layer from `moe_layer_start_index` to `moe_layer_end_index`.
    Ernie,
    /// `num_local_experts`, `moe_layers` or `interleave_moe_layer_step`, one shared expert of `intermediate_size`; dense
    /// layers have `intermediate_size_mlp`.
    Llama4,
    /// As Mixtral, or dense of `shared_intermediate_size` where there are none.
    Granite,
    /// `num_experts`, `mlp_layer_types`, `shared_expert_intermediate_size`, without a gate for that one; routers are corrected.
    Laguna,
    /// `moe_num_experts`, `moe_top_k`, `share_expert_dim` in the layers of `moe_layers_enum`; routers are corrected.
    Step,
    /// `num_experts`, `top_k_experts`, `moe_intermediate_size` beside a dense part of `intermediate_size`, in all layers; or none.
    Gemma4,
}

/// Whether windows of an architecture are chunks.
pub(super) fn attends_in_chunks(architecture: &str) -> bool {
    let family = Family::find(Some(architecture), None);
    family.is_some_and(|family| family.window == WindowRule::Chunked)
}

impl Family {
    /// The family of an `architectures` value, or else of a `model_type` (with or without the `_text` of the inner
    /// config of a multimodal model).
    pub(super) fn find(architecture: Option<&str>, model_type: Option<&str>) -> Option<&'static Family> {
        let by_architecture =
            |family: &&Family| architecture.is_some_and(|name| family.architectures.contains(&name));
        let model_type = model_type.map(|name| name.strip_suffix("_text").unwrap_or(name));
        let by_type = |family: &&Family| model_type.is_some_and(|name| family.model_types.contains(&name));
        Family::all()
            .find(by_architecture)
            .or_else(|| Family::all().find(by_type))
    }

    /// All that can be read.
    pub(super) fn all() -> impl Iterator<Item = &'static Family> {
        DENSE
            .iter()
            .chain(EARLY)
            .chain(EXPERTS)
            .chain(UNLIKE)
            .chain(HYBRID)
    }

    pub(super) fn is_opt(&self) -> bool {
        self.model_types == OPT.model_types
    }

    /// What this family calls a key, if not that.
    pub(super) fn spelling(&self, key: &str) -> Option<&'static str> {
        let known = self.spelt.iter().find(|(name, _)| *name == key);
        known.map(|&(_, own)| own)
    }

    pub(super) fn default(&self, key: &str) -> Option<u32> {
        let known = self.defaults.iter().find(|(name, _)| *name == key);
        known.map(|&(_, value)| value)
    }
}

#[cfg(test)]
mod tests;
