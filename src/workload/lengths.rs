//! How long prompts and answers are.
//!
//! Lengths draw from a stream of their own, one pair a request in the order in which requests are planned, so that
//! changing the rate, the scheduler or the endings leaves every length as it was. Each draw is rounded to whole
//! tokens at once and is at least 1.

use std::sync::Arc;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

use super::{Lengths, LognormalLength, MemorylessLength};
use crate::rng::{Purpose, stream};
use crate::stats::{normal_cdf_drawn, quantile_sorted};
use crate::units::{TEXT_TOKENS_MAX as TOKENS_MAX, rounded};

/// Draws (prompt, output) pairs.
#[derive(Debug)]
pub(super) struct LengthSampler {
    law: Law,
    rng: ChaCha8Rng,
}

#[derive(Debug)]
enum Law {
    Fixed(u32, u32),
    Uniform {
        input: (u32, u32),
        output: (u32, u32),
    },
    Lognormal {
        input: LognormalLength,
        output: LognormalLength,
        normals: NormalPair,
    },
    Memoryless {
        input: Memoryless,
        output: Memoryless,
    },
    Quantiles {
        input: Arc<[f64]>,
        output: Arc<[f64]>,
        normals: NormalPair,
    },
    Empirical(Arc<[(u32, u32)]>),
}

impl LengthSampler {
    pub(super) fn new(lengths: &Lengths, seed: u64) -> LengthSampler {
        LengthSampler::of_class(lengths, seed, 0)
    }

    /// The law of one class of requests, which draws from a stream of its own.
    pub(super) fn of_class(lengths: &Lengths, seed: u64, class: u64) -> LengthSampler {
        let law = match lengths {
            Lengths::Fixed {
                input_len,
                output_len,
            } => Law::Fixed(valid(*input_len), valid(*output_len)),
            Lengths::RandomVllm {
                input_len,
                output_len,
                range_ratio,
                output_range_ratio,
            } => uniform(
                vllm_range(*input_len, *range_ratio),
                vllm_range(*output_len, *output_range_ratio),
            ),
            Lengths::RandomSglang {
                input_len,
                output_len,
                range_ratio,
            } => uniform(
                sglang_range(*input_len, *range_ratio),
                sglang_range(*output_len, *range_ratio),
            ),
            Lengths::Lognormal {
                input,
                output,
                correlation,
            } => {
                assert_lognormal(input);
                assert_lognormal(output);
                Law::Lognormal {
                    input: *input,
                    output: *output,
                    normals: NormalPair::new(*correlation),
                }
            }
            Lengths::Memoryless {
                input,
                output,
                is_geometric,
            } => Law::Memoryless {
                input: Memoryless::new(*input, *is_geometric),
                output: Memoryless::new(*output, *is_geometric),
            },
            Lengths::Quantiles {
                input,
                output,
                correlation,
            } => {
                assert_quantiles(input);
                assert_quantiles(output);
                let normals = NormalPair::new(*correlation);
                Law::Quantiles {
                    input: input.clone(),
                    output: output.clone(),
                    normals,
                }
            }
            Lengths::Empirical { pairs } => {
                assert!(
                    !pairs.is_empty(),
                    "an empirical law of lengths has at least one pair"
                );
                pairs
                    .iter()
                    .for_each(|pair| assert!(valid(pair.0) > 0 && valid(pair.1) > 0));
                Law::Empirical(pairs.clone())
            }
        };
        LengthSampler {
            law,
            rng: stream(seed, Purpose::Lengths, class),
        }
    }

    /// The next (prompt, output), in tokens.
    pub(super) fn draw(&mut self) -> (u32, u32) {
        let rng = &mut self.rng;
        match &self.law {
            Law::Fixed(input, output) => (*input, *output),
            Law::Uniform { input, output } => (
                rng.random_range(input.0..=input.1),
                rng.random_range(output.0..=output.1),
            ),
            Law::Lognormal {
                input,
                output,
                normals,
            } => loop {
                let (z_input, z_output) = normals.draw(rng);
                if let (Some(input), Some(output)) = (lognormal(input, z_input), lognormal(output, z_output))
                {
                    return (input, output);
                }
            },
            Law::Memoryless { input, output } => (input.draw(rng), output.draw(rng)),
            Law::Quantiles {
                input,
                output,
                normals,
            } => {
                let (z_input, z_output) = normals.draw(rng);
                (
                    tokens(quantile(input, normal_cdf_drawn(z_input))),
                    tokens(quantile(output, normal_cdf_drawn(z_output))),
                )
            }
            Law::Empirical(pairs) => pairs[rng.random_range(0..pairs.len())],
        }
    }
}

/// Lengths of two ranges; nothing is drawn where both are points.
fn uniform(input: (u32, u32), output: (u32, u32)) -> Law {
    if input.0 == input.1 && output.0 == output.1 {
        return Law::Fixed(input.0, output.0);
    }
    Law::Uniform { input, output }
}

fn valid(tokens: u32) -> u32 {
    assert!(
        (1..=TOKENS_MAX).contains(&tokens),
        "a length lies between 1 and 2^28 tokens"
    );
    tokens
}

/// `[⌊L(1−r)⌋, ⌈L(1+r)⌉]`, at least 1 (vLLM 0.33 `RandomDataset.get_sampling_params`, B-16).
pub(super) fn vllm_range(nominal: u32, range_ratio: f64) -> (u32, u32) {
    assert!(
        (0.0..1.0).contains(&range_ratio),
        "vLLM's range ratio lies in [0, 1)"
    );
    let nominal = f64::from(valid(nominal));
    let low = (nominal * (1.0 - range_ratio)).floor() as u32;
    let high = (nominal * (1.0 + range_ratio)).ceil() as u32;
    (low.max(1), high.max(1))
}

/// `[max(⌊L·r⌋, 1), L]` (SGLang `sample_random_requests`, B-25).
pub(super) fn sglang_range(longest: u32, range_ratio: f64) -> (u32, u32) {
    assert!(
        (0.0..=1.0).contains(&range_ratio),
        "SGLang's range ratio lies in [0, 1]"
    );
    let low = (f64::from(valid(longest)) * range_ratio).floor() as u32;
    (low.max(1), longest)
}

fn assert_lognormal(law: &LognormalLength) {
    valid(law.max);
    assert!(
        law.median >= 1.0 && law.median <= f64::from(law.max),
        "a median length lies between 1 and max"
    );
    assert!(
        (0.0..=10.0).contains(&law.sigma),
        "the spread of a logarithm of lengths lies between 0 and 10"
    );
}

fn assert_quantiles(quantiles: &[f64]) {
    assert!(
        !quantiles.is_empty(),
        "a quantile function has at least one point"
    );
    assert!(quantiles.is_sorted(), "a quantile function does not fall");
    let in_range = |length: &f64| (0.0..=f64::from(TOKENS_MAX)).contains(length);
    assert!(
        quantiles.iter().all(in_range),
        "a quantile of lengths lies between 0 and 2^28 tokens"
    );
}

/// `median · e^(σz)` in whole tokens, `None` outside `[1, max]`.
fn lognormal(law: &LognormalLength, z: f64) -> Option<u32> {
    let length = (law.median * (law.sigma * z).exp()).round();
    (length >= 1.0 && length <= f64::from(law.max)).then_some(length as u32)
}

/// The value at probability `p` of a function given at equally spaced probabilities, linear between them.
fn quantile(values: &[f64], p: f64) -> f64 {
    quantile_sorted(values, p).expect("a law has values")
}

fn tokens(length: f64) -> u32 {
    (rounded(length) as u32).max(1)
}

/// A law without memory, ready to be drawn from. A standard exponential number E makes both: `mean · E`, rounded, is the exponential
/// law, and `1 + ⌊E / −ln(1 − 1/mean)⌋` the geometric one on 1, 2, …, by inversion.
#[derive(Debug)]
enum Memoryless {
    Constant(u32),
    Exponential { mean: f64, max: u32 },
    Geometric { scale: f64, max: u32 },
}

impl Memoryless {
    fn new(length: MemorylessLength, is_geometric: bool) -> Memoryless {
        let (mean, max) = match length {
            MemorylessLength::Constant(tokens) => return Memoryless::Constant(valid(tokens)),
            MemorylessLength::Drawn { mean, max } => (mean, valid(max)),
        };
        assert!(
            mean >= 1.0 && mean <= f64::from(max),
            "a mean length lies between 1 and max"
        );
        match is_geometric {
            // At a mean of 1 every number is 1, whatever is drawn.
            true => Memoryless::Geometric {
                scale: if mean > 1.0 {
                    -1.0 / (-1.0 / mean).ln_1p()
                } else {
                    0.0
                },
                max,
            },
            false => Memoryless::Exponential { mean, max },
        }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> u32 {
        loop {
            let (length, max) = match *self {
                Memoryless::Constant(tokens) => return tokens,
                Memoryless::Exponential { mean, max } => (exponential(mean, rng).round().max(1.0), max),
                Memoryless::Geometric { scale, max } => (1.0 + exponential(scale, rng).floor(), max),
            };
            if length <= f64::from(max) {
                return length as u32;
            }
        }
    }
}

/// An exponential number of this mean.
fn exponential(mean: f64, rng: &mut ChaCha8Rng) -> f64 {
    let standard: f64 = Exp1.sample(rng);
    mean * standard
}

/// Two standard normals with a given correlation.
#[derive(Debug)]
struct NormalPair {
    correlation: f64,
    rest: f64,
}

impl NormalPair {
    fn new(correlation: f64) -> NormalPair {
        assert!(
            correlation > -1.0 && correlation < 1.0,
            "a correlation of lengths lies strictly between -1 and 1"
        );
        NormalPair {
            correlation,
            rest: (1.0 - correlation * correlation).sqrt(),
        }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> (f64, f64) {
        let first: f64 = StandardNormal.sample(rng);
        let second: f64 = StandardNormal.sample(rng);
        (first, self.correlation * first + self.rest * second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(lengths: &Lengths, n: usize) -> Vec<(u32, u32)> {
        let mut sampler = LengthSampler::new(lengths, 7);
        (0..n).map(|_| sampler.draw()).collect()
    }

    fn mean(values: impl Iterator<Item = f64>, n: usize) -> f64 {
        values.sum::<f64>() / n as f64
    }

    /// Correlation of two columns.
    fn correlation(columns: &[(f64, f64)]) -> f64 {
        let n = columns.len();
        let (x, y) = (
            mean(columns.iter().map(|c| c.0), n),
            mean(columns.iter().map(|c| c.1), n),
        );
        let product = mean(columns.iter().map(|c| (c.0 - x) * (c.1 - y)), n);
        let (xx, yy) = (
            mean(columns.iter().map(|c| (c.0 - x).powi(2)), n),
            mean(columns.iter().map(|c| (c.1 - y).powi(2)), n),
        );
        product / (xx * yy).sqrt()
    }

    #[test]
    fn ranges_are_those_of_the_clients() {
        assert_eq!(vllm_range(1024, 0.0), (1024, 1024));
        assert_eq!(vllm_range(1024, 0.1), (921, 1127));
        assert_eq!(vllm_range(1, 0.5), (1, 2));
        assert_eq!(sglang_range(1024, 0.0), (1, 1024));
        assert_eq!(sglang_range(1024, 1.0), (1024, 1024));
        assert_eq!(sglang_range(7, 0.5), (3, 7));
    }

    #[test]
    fn uniform_lengths_reach_both_ends_and_have_their_mean() {
        let n = 100_000;
        let drawn = pairs(
            &Lengths::RandomVllm {
                input_len: 100,
                output_len: 20,
                range_ratio: 0.5,
                output_range_ratio: 0.5,
            },
            n,
        );
        assert_eq!(drawn.iter().map(|pair| pair.0).min(), Some(50));
        assert_eq!(drawn.iter().map(|pair| pair.0).max(), Some(150));
        // Standard deviation √((101² − 1)/12) = 29.2; four standard errors.
        let mean = mean(drawn.iter().map(|pair| f64::from(pair.0)), n);
        assert!((mean - 100.0).abs() < 4.0 * 29.2 / (n as f64).sqrt(), "{mean}");
    }

    #[test]
    fn lognormal_lengths_keep_median_spread_and_correlation() {
        let n = 100_000;
        let law = |median, sigma| LognormalLength {
            median,
            sigma,
            max: 1 << 20,
        };
        let lengths = Lengths::Lognormal {
            input: law(2000.0, 0.8),
            output: law(500.0, 0.5),
            correlation: -0.4,
        };
        let logs: Vec<(f64, f64)> = pairs(&lengths, n)
            .iter()
            .map(|pair| (f64::from(pair.0).ln(), f64::from(pair.1).ln()))
            .collect();
        // Standard errors: σ/√n of the mean logarithm, (1 − ρ²)/√n of the correlation. Rounding to tokens is far finer.
        let root = (n as f64).sqrt();
        let (input, output) = (
            mean(logs.iter().map(|l| l.0), n),
            mean(logs.iter().map(|l| l.1), n),
        );
        assert!((input - 2000_f64.ln()).abs() < 4.0 * 0.8 / root, "{input}");
        assert!((output - 500_f64.ln()).abs() < 4.0 * 0.5 / root, "{output}");
        let rho = correlation(&logs);
        assert!((rho + 0.4).abs() < 4.0 * 0.84 / root, "{rho}");
    }

    #[test]
    fn lengths_without_memory_have_their_mean_and_forget_what_was() {
        let law = |is_geometric, mean, max| Lengths::Memoryless {
            input: MemorylessLength::Constant(1),
            output: MemorylessLength::Drawn { mean, max },
            is_geometric,
        };
        let drawn = |lengths: &Lengths| {
            let mut sampler = LengthSampler::new(lengths, 3);
            (0..200_000).map(|_| sampler.draw()).collect::<Vec<_>>()
        };
        for (is_geometric, scv) in [(true, 0.99), (false, 1.0)] {
            let pairs = drawn(&law(is_geometric, 100.0, 2000));
            assert!(
                pairs
                    .iter()
                    .all(|pair| pair.0 == 1 && (1..=2000).contains(&pair.1))
            );
            let outputs: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let of_all = mean(&outputs);
            assert!((of_all / 100.0 - 1.0).abs() < 0.01, "{of_all}");
            let squares: Vec<f64> = outputs.iter().map(|tokens| (tokens - of_all).powi(2)).collect();
            assert!((mean(&squares) / of_all.powi(2) / scv - 1.0).abs() < 0.03);
            // Of those that are longer than 150 as much is still to come.
            let rest: Vec<f64> = outputs
                .iter()
                .filter(|&&tokens| tokens > 150.0)
                .map(|tokens| tokens - 150.0)
                .collect();
            assert!((mean(&rest) / 100.0 - 1.0).abs() < 0.03, "{}", mean(&rest));
        }
        assert!(drawn(&law(true, 1.0, 9)).iter().all(|pair| *pair == (1, 1)));
        assert!(drawn(&law(true, 9.0, 9)).iter().all(|pair| pair.1 <= 9));
    }

    #[test]
    fn lognormal_lengths_are_cut_by_drawing_again() {
        let law = LognormalLength {
            median: 100.0,
            sigma: 2.0,
            max: 120,
        };
        let drawn = pairs(
            &Lengths::Lognormal {
                input: law,
                output: law,
                correlation: 0.0,
            },
            20_000,
        );
        let at_max = drawn.iter().filter(|pair| pair.0 == 120).count();
        assert!(drawn.iter().all(|pair| (1..=120).contains(&pair.0)));
        assert!(
            at_max < 300,
            "{at_max} lengths sit on the cut, as if they had been clamped"
        );
    }

    #[test]
    fn a_copula_keeps_both_laws_and_joins_their_ranks() {
        let n = 100_000;
        let input: Arc<[f64]> = [0.0, 10_000.0].into();
        let output: Arc<[f64]> = [0.0, 100.0, 10_000.0].into();
        let drawn = pairs(
            &Lengths::Quantiles {
                input,
                output,
                correlation: 0.6,
            },
            n,
        );
        let share = |below: &dyn Fn(&(u32, u32)) -> bool| {
            drawn.iter().filter(|pair| below(pair)).count() as f64 / n as f64
        };
        let error = 4.0 * 0.5 / (n as f64).sqrt();
        assert!((share(&|pair| pair.0 < 2_500) - 0.25).abs() < error);
        assert!((share(&|pair| pair.1 < 100) - 0.5).abs() < error);
        // Ranks of a Gaussian copula correlate as (6/π)·asin(ρ/2); a correlation's standard error is below 1/√n.
        let ranks: Vec<(f64, f64)> = drawn
            .iter()
            .map(|pair| {
                let output = f64::from(pair.1);
                let rank = if output <= 100.0 {
                    output / 200.0
                } else {
                    0.5 + (output - 100.0) / 19_800.0
                };
                (f64::from(pair.0) / 1e4, rank)
            })
            .collect();
        let expected = 6.0 / std::f64::consts::PI * 0.3_f64.asin();
        let rho = correlation(&ranks);
        assert!(
            (rho - expected).abs() < 4.0 / (n as f64).sqrt(),
            "{rho} against {expected}"
        );
    }

    #[test]
    fn empirical_pairs_stay_together() {
        let list: Arc<[(u32, u32)]> = [(10, 1), (20, 2), (30, 3)].into();
        let drawn = pairs(&Lengths::Empirical { pairs: list.clone() }, 3000);
        assert!(
            list.iter()
                .all(|pair| drawn.iter().filter(|drawn| *drawn == pair).count() > 850)
        );
        assert!(drawn.iter().all(|pair| list.contains(pair)));
    }
}
