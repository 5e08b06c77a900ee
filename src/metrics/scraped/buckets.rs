//! The bucket boundaries of vLLM's histograms: `vllm/v1/metrics/buckets.py` of vLLM 0.33.
//!
//! Dashboards and autoscalers name boundaries (`le="0.5"`), so they are vLLM's to the last one.

use crate::units::PICOS_PER_SECOND;

/// Queue, prefill, decode, inference and whole stay of a request, in picoseconds.
pub(super) const REQUEST_LATENCY: [u64; 21] = of_millis([
    300, 500, 800, 1_000, 1_500, 2_000, 2_500, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000, 60_000,
    120_000, 240_000, 480_000, 960_000, 1_920_000, 7_680_000,
]);

/// Time to the first token, in picoseconds.
pub(super) const TIME_TO_FIRST_TOKEN: [u64; 22] = of_millis([
    1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000, 40_000, 80_000,
    160_000, 640_000, 2_560_000,
]);

/// Gaps between tokens and their mean over an answer, in picoseconds.
pub(super) const INTER_TOKEN_LATENCY: [u64; 19] = of_millis([
    10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000, 40_000,
    80_000,
]);

/// Tokens of a step.
pub(super) const ITERATION_TOKENS: [u64; 13] =
    [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];

/// The parameter `n` of a request.
pub(super) const REQUEST_PARAMS_N: [u64; 5] = [1, 2, 5, 10, 20];

/// How often a request was preempted.
pub(super) const REQUEST_NUM_PREEMPTIONS: [u64; 7] = [1, 2, 3, 4, 5, 10, 20];

/// Tokens of a request: 1, 2 and 5 times the powers of ten, up to `max_model_len`.
pub(super) fn request_tokens(max_model_len: u32) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let bounds = powers.flat_map(|power| [power, 2 * power, 5 * power]);
    bounds
        .take_while(|bound| *bound <= u64::from(max_model_len))
        .collect()
}

const fn of_millis<const N: usize>(mut bounds: [u64; N]) -> [u64; N] {
    let mut at = 0;
    while at < N {
        bounds[at] *= PICOS_PER_SECOND / 1000;
        at += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_bounds_end_at_the_longest_sequence() {
        assert_eq!(request_tokens(100), [1, 2, 5, 10, 20, 50, 100]);
        assert_eq!(request_tokens(4096).last(), Some(&2000));
        assert_eq!(request_tokens(u32::MAX).len(), 29);
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [
            REQUEST_LATENCY.as_slice(),
            &TIME_TO_FIRST_TOKEN,
            &INTER_TOKEN_LATENCY,
            &ITERATION_TOKENS,
        ] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
        assert_eq!(REQUEST_LATENCY[0], 3 * PICOS_PER_SECOND / 10);
    }
}
