//! Sizes that SGLang's start-up derives from the GPU (SG-44 to SG-48).

use crate::units::Bytes;

/// Batch sizes whose decode is captured (SG-47). The largest is one of them where `ends_there`.
pub(super) fn decode_graphs(max: u32, ends_there: bool) -> Vec<u32> {
    let sizes = [1, 2, 4, 8, 12].into_iter();
    let sizes = sizes
        .chain((16..=256).step_by(8))
        .chain((272..=496).step_by(16))
        .chain((512..=max.max(512)).step_by(32));
    let mut sizes: Vec<u32> = sizes.filter(|&size| size <= max).collect();
    if ends_there && sizes.last() != Some(&max) {
        sizes.push(max);
    }
    sizes
}

/// Most requests that run by default where drafts are verified (SG-46).
pub(super) const SPECULATING_MAX: u32 = 48;

/// Tokens of the batches that are captured where each of at most `max` requests verifies `tokens` (SG-47): sizes lie closer together.
pub(super) fn verification_graphs(max: u32, tokens: u32) -> Vec<u32> {
    let sizes = (1..=8)
        .chain((10..=32).step_by(2))
        .chain((40..=64).step_by(4))
        .chain((72..=256).step_by(8))
        .chain((272..=max.max(272)).step_by(16));
    let mut sizes: Vec<u32> = sizes.filter(|&size| size <= max).collect();
    if sizes.last() != Some(&max) {
        sizes.push(max);
    }
    sizes.into_iter().map(|size| size * tokens).collect()
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

/// What captured prefill batches take beside the memory of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrefillGraphs {
    /// None are captured.
    None,
    /// So many sizes.
    Of(usize),
    /// Those of a model that compresses its KV, however many they are.
    OfMla,
}

/// What the default `mem_fraction_static` depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reserve {
    /// GPU memory, as the driver shows it.
    pub(super) memory: Bytes,
    /// Tokens of the largest step: a chunk's, or those of all who run on a decode server.
    pub(super) tokens: u32,
    /// Largest decode batch for which graphs are reserved; 0 without.
    pub(super) graph_max: u32,
    /// Prefill batches are captured, too.
    pub(super) prefill_graphs: PrefillGraphs,
    /// Ranks.
    pub(super) tensor_parallel: u32,
    /// Ranks with attention of their own; 1 as a rule.
    pub(super) attention_ranks: u32,
    /// What models that see leave of the fraction; 1 of others.
    pub(super) share: f64,
}

const MIB: f64 = (1u64 << 20) as f64;
/// GPUs with more memory set at least so much apart, in MiB.
const LARGE: f64 = 60.0 * 1024.0;
const LEAST_OF_LARGE: f64 = 10_240.0;

/// The default `mem_fraction_static`, rounded to three digits as the server does before it sets memory apart for images (SG-44).
pub(super) fn mem_fraction_static(given: Reserve) -> f64 {
    let memory = given.memory.0 as f64 / MIB;
    let graph_max = f64::from(given.graph_max);
    let mut reserved = 512.0
        + 1.5 * f64::from(given.tokens.max(2048))
        + 2.0 * graph_max
        + f64::from(given.tensor_parallel) / 8.0 * 1024.0;
    reserved += match given.prefill_graphs {
        PrefillGraphs::None => 0.0,
        PrefillGraphs::Of(sizes) => 8.0 * sizes as f64,
        PrefillGraphs::OfMla => 1536.0,
    };
    if given.attention_ranks > 1 {
        let for_each = if given.graph_max > 300 { 4.5 } else { 3.0 };
        reserved += for_each * graph_max * f64::from(given.attention_ranks);
    }
    if memory > LARGE {
        reserved = reserved.max(LEAST_OF_LARGE);
    }
    let fraction = ((memory - reserved) / memory * 1000.0).round() / 1000.0;
    // Six digits are a share of the memory below any page.
    (fraction * given.share * 1e6).round() / 1e6
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
        let check = |mib: u64, tensor_parallel, tokens, graph_max, prefill_graphs, expected: f64| {
            let given = Reserve {
                memory: Bytes(mib << 20),
                tokens,
                graph_max,
                prefill_graphs,
                tensor_parallel,
                attention_ranks: 1,
                share: 1.0,
            };
            let got = mem_fraction_static(given);
            assert!((got - expected).abs() < 1e-12, "{got} of {given:?}");
        };
        let (none, captured) = (PrefillGraphs::None, PrefillGraphs::Of(58));
        check(81_559, 1, 8192, 256, captured, 0.830);
        check(81_559, 1, 8192, 256, none, 0.835);
        check(81_559, 8, 8192, 512, captured, 0.812);
        check(81_559, 8, 8192, 512, none, 0.818);
        check(143_771, 1, 8192, 256, captured, 0.903);
        check(143_771, 1, 8192, 256, none, 0.907);
        check(143_771, 8, 8192, 512, captured, 0.893);
        check(143_771, 8, 8192, 512, none, 0.897);
        // Of models with a compressed KV 1,536 MiB, and nothing for each size: 512 + 12,288 + 1,024 + 1,024 + 1,536 = 16,384.
        check(143_771, 8, 8192, 512, PrefillGraphs::OfMla, 0.886);
        // A decode server of 512 at most: 512 + 3,072 + 1,024 + 128 are less than what large GPUs set apart, 10,240.
        check(81_559, 1, 512, 512, none, 0.874);
        check(46_068, 1, 32, 32, none, 0.918);
    }

    #[test]
    fn captured_sizes_grow_coarser() {
        let sizes = decode_graphs(256, true);
        assert_eq!(&sizes[..7], [1, 2, 4, 8, 12, 16, 24]);
        assert_eq!(sizes.last(), Some(&256));
        assert!(decode_graphs(512, true).ends_with(&[480, 496, 512]));
        assert_eq!(decode_graphs(8, true), [1, 2, 4, 8]);
        assert_eq!(decode_graphs(10, true), [1, 2, 4, 8, 10]);
        assert_eq!(decode_graphs(10, false), [1, 2, 4, 8]);
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
