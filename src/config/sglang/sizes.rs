//! Sizes that SGLang's start-up derives from the GPU (SG-44 to SG-48).

use crate::units::Bytes;

/// Batch sizes whose decode is captured (SG-47).
pub(super) fn decode_graphs(max: u32) -> Vec<u32> {
    let sizes = [1, 2, 4, 8, 12].into_iter();
    let sizes = sizes
        .chain((16..=256).step_by(8))
        .chain((272..=496).step_by(16))
        .chain((512..=max.max(512)).step_by(32));
    sizes.filter(|&size| size <= max).collect()
}

/// Tokens of the prefill batches that are captured for chunks of `chunk` tokens (SG-48).
pub(super) fn prefill_graphs(chunk: u32) -> Vec<u32> {
    let steps = [
        (4, 32, 4),
        (48, 256, 16),
        (288, 512, 32),
        (576, 1024, 64),
        (1280, 4096, 256),
        (4608, u32::MAX, 512),
    ];
    let of = |(first, last, step): (u32, u32, usize)| (first..=chunk.min(last)).step_by(step);
    steps.into_iter().flat_map(of).collect()
}

/// What the default `mem_fraction_static` depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserve {
    /// GPU memory, as the driver shows it.
    pub(super) memory: Bytes,
    /// `chunked_prefill_size`, or `max_prefill_tokens` when chunking is off.
    pub(super) chunk: u32,
    /// Largest captured decode batch.
    pub(super) graph_max: u64,
    /// Ranks.
    pub(super) tensor_parallel: u32,
    /// Ranks with attention of their own; 1 as a rule.
    pub(super) attention_ranks: u32,
    /// Prefill batches are captured, too.
    pub(super) captures_prefill: bool,
    /// The model compresses its KV.
    pub(super) is_mla: bool,
    /// What models that see leave of the fraction; 1 of others.
    pub(super) share: f64,
}

const MIB: f64 = (1u64 << 20) as f64;

/// The default `mem_fraction_static`, rounded to three digits as the server does before it sets memory apart for images (SG-44).
pub(super) fn mem_fraction_static(given: Reserve) -> f64 {
    let memory = given.memory.0 as f64 / MIB;
    let mut reserved = 512.0
        + 1.5 * f64::from(given.chunk.max(2048))
        + 2.0 * given.graph_max as f64
        + f64::from(given.tensor_parallel) / 8.0 * 1024.0;
    if given.captures_prefill {
        reserved += 8.0 * prefill_graphs(given.chunk).len() as f64;
        if given.is_mla {
            reserved += 1536.0;
        }
    }
    if given.attention_ranks > 1 {
        let for_each = if given.graph_max > 300 { 4.5 } else { 3.0 };
        reserved += for_each * given.graph_max as f64 * f64::from(given.attention_ranks);
    }
    if memory > 60.0 * 1024.0 {
        reserved = reserved.max(10_240.0);
    }
    ((memory - reserved) / memory * 1000.0).round() / 1000.0 * given.share
}

/// The default `max_running_requests` (SG-46).
pub(super) fn max_running_requests(pool: u32, context: u32, bounded_by_half: bool) -> u32 {
    let by_context = f64::from(pool) / f64::from(context) * 512.0;
    let most = (by_context as u32).clamp(2048, 4096);
    if bounded_by_half { most.min(pool / 2) } else { most }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_memory_fractions() {
        let check = |mib: u64, tensor_parallel, chunk, graph_max, new: f64, old: f64| {
            let given = |captures_prefill| Reserve {
                memory: Bytes(mib << 20),
                chunk,
                graph_max,
                tensor_parallel,
                attention_ranks: 1,
                captures_prefill,
                is_mla: false,
                share: 1.0,
            };
            let got = [
                mem_fraction_static(given(true)),
                mem_fraction_static(given(false)),
            ];
            assert_eq!(got, [new, old]);
        };
        check(81_559, 1, 8192, 256, 0.830, 0.835);
        check(81_559, 8, 8192, 512, 0.812, 0.818);
        check(143_771, 1, 8192, 256, 0.903, 0.907);
        check(143_771, 8, 8192, 512, 0.893, 0.897);
    }

    #[test]
    fn captured_sizes_grow_coarser() {
        let sizes = decode_graphs(256);
        assert_eq!(&sizes[..7], [1, 2, 4, 8, 12, 16, 24]);
        assert_eq!(sizes.last(), Some(&256));
        assert!(decode_graphs(512).ends_with(&[480, 496, 512]));
        assert_eq!(decode_graphs(8), [1, 2, 4, 8]);
        assert_eq!(prefill_graphs(8192).len(), 58);
        assert!(prefill_graphs(700).ends_with(&[512, 576, 640]));
    }

    #[test]
    fn memory_bounds_concurrency_not_the_default_cap() {
        assert_eq!(max_running_requests(440_000, 131_072, true), 2048);
        assert_eq!(max_running_requests(440_000, 4096, true), 4096);
        assert_eq!(max_running_requests(1000, 4096, true), 500);
    }
}
