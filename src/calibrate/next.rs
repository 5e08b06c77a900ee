//! The next best measurement: the kernel whose prediction the parameters' draws disagree most about.
//!
//! Candidates are what serving runs: products of common models at decode and prefill sizes, attention over common
//! caches. A candidate's worth is the variance of ln(prediction) over the draws, less what one more row of the form's
//! own error cannot resolve. Left out: what a measurement costs. The next best run is `host/next_run.rs`'.

use super::component::BlockFit;
use super::observation::{Block, Kernel};
use crate::cost::calibration::KernelFormat;
use crate::cost::experts::{Load, MoeShape};
use crate::cost::kernel::{DecodeAttentionShape, GemmShape, PrefillAttentionShape};
use crate::cost::operators::table_widths;
use crate::stats::Running;

/// In words; `None` without a fitted block.
#[must_use]
pub fn measurement(blocks: &[BlockFit]) -> Option<String> {
    let mut best: Option<(f64, String)> = None;
    for block in blocks {
        for kernel in candidates(block.block) {
            let spread = spread(block, &kernel);
            if best.as_ref().is_none_or(|(most, _)| spread > *most) {
                let percent = 100.0 * spread;
                best = Some((
                    spread,
                    format!(
                        "{} at {kernel}: its prediction is within ±{percent:.0} % only",
                        block.block
                    ),
                ));
            }
        }
    }
    best.map(|(_, words)| words)
}

/// Standard deviation of ln(prediction) over the draws.
#[must_use]
pub fn spread(block: &BlockFit, kernel: &Kernel) -> f64 {
    let logs = block
        .draws
        .iter()
        .map(|draw| block.form.seconds(draw, kernel).ln());
    Running::from_iter(logs).variance().sqrt()
}

fn candidates(block: Block) -> Vec<Kernel> {
    match block {
        Block::Gemm(format) => gemms(format),
        Block::DecodeAttention => decodes(2.0),
        Block::DecodeAttentionFp8 => decodes(1.0),
        Block::PrefillAttention => prefills(2.0, 2.0),
        Block::PrefillAttentionFp8 => prefills(2.0, 1.0),
        Block::PrefillAttentionFp8Query => prefills(1.0, 1.0),
        Block::Moe(format) => experts(format),
        Block::AllReduce(_) => (12..27)
            .step_by(2)
            .map(|log| Kernel::AllReduce(f64::from(1_u32 << log)))
            .collect(),
        Block::Copy(_) => [4096.0, 65_536.0, 1e6, 16e6, 256e6]
            .map(|bytes| Kernel::Copy { bytes, pieces: 1.0 })
            .to_vec(),
    }
}

fn gemms(format: KernelFormat) -> Vec<Kernel> {
    let (weight_bytes, input_bytes) = table_widths(format);
    // QKV, output, gate with up and down of 8B, 70B on four ranks, and a vocabulary.
    let layers = [
        (6144, 4096),
        (4096, 4096),
        (28_672, 4096),
        (4096, 14_336),
        (2560, 8192),
        (8192, 7168),
        (128_256, 4096),
    ];
    let sizes = [1, 16, 64, 192, 512, 1024, 4096];
    let kernel = |(n, k): (u64, u64), m: u64| {
        Kernel::Gemm(GemmShape {
            m,
            n,
            k,
            weight_bytes,
            input_bytes,
            output_bytes: 2.0,
        })
    };
    layers
        .iter()
        .flat_map(|layer| sizes.iter().map(|m| kernel(*layer, *m)))
        .collect()
}

fn decodes(width: f64) -> Vec<Kernel> {
    let kernel = |batch: u64, context: u64| {
        Kernel::Decode(DecodeAttentionShape {
            batch,
            heads: 32,
            kv_heads: 8,
            context,
            kv_bytes_per_token_head: 256.0 * width,
        })
    };
    let batches = [1, 8, 32, 128, 512];
    let all = batches
        .iter()
        .flat_map(|batch| [512, 2048, 8192, 32_768].map(|context| kernel(*batch, context)));
    all.collect()
}

fn prefills(query_bytes: f64, kv_bytes: f64) -> Vec<Kernel> {
    let kernel = |tokens: u64| {
        Kernel::Prefill(PrefillAttentionShape {
            batch: 1,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
            tokens,
            prefix: 0,
            query_bytes,
            kv_bytes,
        })
    };
    [256, 1024, 2048, 8192, 32_768].map(kernel).to_vec()
}

fn experts(format: KernelFormat) -> Vec<Kernel> {
    // Mixtral 8x7B and Qwen3-30B-A3B.
    let models = [(4096, 14_336, 8, 2), (2048, 768, 128, 8)];
    let kernel = |(hidden, intermediate, experts, experts_per_token): (u32, u32, u32, u32), tokens: u64| {
        Kernel::Moe(MoeShape {
            tokens,
            hidden,
            matrices: 3,
            intermediate,
            experts,
            experts_per_token,
            load: Load::uniform(experts, experts_per_token, tokens),
            weight_bytes: table_widths(format).0,
            activation_bytes: 2.0,
        })
    };
    models
        .iter()
        .flat_map(|model| [1, 16, 128, 1024, 8192].map(|tokens| kernel(*model, tokens)))
        .collect()
}
