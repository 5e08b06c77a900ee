//! How a model lies on its GPUs, and which of its batches replay CUDA graphs.

use super::{Drafting, Fp8Inputs, Pipeline};
use crate::cost::calibration::KernelFormat;
use crate::cost::operators::Experts;
use crate::model::KvFormat;

/// How an engine puts a model on its GPUs, as far as step time depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Ranks that share every layer.
    pub tensor_parallel: u32,
    /// Groups of such ranks that have requests of their own and share their experts; 1 as a rule (DP-2).
    pub data_parallel: u32,
    /// Groups of GPUs, of all that share a layer, that hold experts whole, each some; 1 where each GPU has a slice of every expert.
    pub expert_groups: u32,
    /// What else such groups have in common, if their attention alone is their own (SG-50).
    pub gathers: Option<Gathers>,
    /// How tokens come to experts that such groups share, and back, where nothing else is in common.
    pub exchange: Exchange,
    /// Formats of the KV cache.
    pub kv_format: KvFormat,
    /// CUDA graphs.
    pub graphs: Graphs,
    /// The host prepares a step while the GPU runs the one before (V1-81).
    pub asynchronous: bool,
    /// Which engine's host terms apply: `vllm`, `sglang`.
    pub engine: String,
    /// Mean context that is expected. A layer whose sliding window is shorter counts as full windows, any other
    /// as unwindowed, so that the cost stays affine in KV tokens.
    pub typical_context: u32,
    /// Speculative decoding, if there is any.
    pub drafting: Option<Drafting>,
    /// Who quantizes the inputs of fp8 products.
    pub inputs: Fp8Inputs,
    /// Tokens of a step up to which an all-reduce, the residual's sum and the norm behind it are one kernel (vLLM's pass
    /// `fuse_allreduce_rms`); `None` where they never are.
    pub fused_norms: Option<u64>,
    /// Kernels of experts in fp8 whose scales are not of blocks.
    pub fp8_experts: KernelFormat,
    /// Stages that the layers are spread over, if there are several.
    pub pipeline: Option<Pipeline>,
}

/// How data-parallel ranks bring tokens to the experts that all share, and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// vLLM's all-gather and reduce-scatter, which together count as one all-reduce.
    #[default]
    AllReduce,
    /// TensorRT-LLM's, by NCCL (TR-16).
    Gathered,
    /// To the GPUs alone whose experts they are routed to, over NVLink (TensorRT-LLM's `NVLinkOneSided`, TR-16).
    Routed,
}

/// What ranks share that attend by themselves (SGLang's data-parallel attention, SG-50): all of a layer behind its attention, dense
/// layers, shared experts and the choice of experts too. Each GPU has a slice of it, and computes it for the tokens of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gathers {
    /// The LM head, too: each GPU computes a slice of the logits of all (no `--enable-dp-lm-head`).
    pub logits: bool,
    /// The GPUs of a rank share the embedding out; else each has it whole.
    pub splits_embedding: bool,
    /// Tokens of all ranks up to which decodes are moved by all-reduces ([`Moved::Summed`](crate::cost::Moved)) even where all
    /// have equally many.
    pub sums_up_to: u64,
}

impl Placement {
    /// Stages of the layers.
    #[must_use]
    pub fn stages(&self) -> u32 {
        self.pipeline.as_ref().map_or(1, |pipeline| pipeline.stages)
    }

    /// The kernels that compute these experts.
    pub(crate) fn kernels_of(&self, experts: &Experts) -> KernelFormat {
        match experts.format.kernel {
            KernelFormat::Fp8 => self.fp8_experts,
            format => format,
        }
    }

    /// GPUs that share each expert: all that share a layer, or those of one group.
    pub(crate) fn expert_slices(&self) -> u32 {
        self.tensor_parallel * self.data_parallel / self.expert_groups
    }

    /// GPUs of one replica.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.tensor_parallel * self.stages()
    }
}

/// CUDA graphs of an engine (V1-73 to V1-77).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graphs {
    /// Which batches replay a graph.
    pub mode: CudagraphMode,
    /// Captured token counts, ascending.
    pub capture_sizes: Vec<u32>,
    /// Those of steps that replay pieces, where they are others.
    pub piece_sizes: Option<Vec<u32>>,
    /// A batch between two of them is padded up to the next one; else it replays nothing.
    pub pads: bool,
    /// Rows that only fill a graph are sent to experts, too.
    pub routes_padding: bool,
    /// The code is compiled (`torch.compile`); if not, Python dispatches every operator that no graph replays.
    pub is_compiled: bool,
}

/// vLLM's `cudagraph_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CudagraphMode {
    /// Kernels are launched one by one.
    None,
    /// Attention is launched eagerly between the pieces, for every batch.
    Piecewise,
    /// One graph for decode-only batches, others eager.
    FullDecodeOnly,
    /// One graph for decode-only batches, pieces for others.
    #[default]
    FullAndPiecewise,
}
