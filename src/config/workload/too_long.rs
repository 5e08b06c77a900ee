//! How many prompts are longer than a server takes: counted in a file, the tail of a law otherwise.

use crate::quantity::grouped;
use crate::stats::normal_cdf;
use crate::workload::{Lengths, LognormalLength, MemorylessLength, WorkloadSpec};

/// Prompts that are too long, among all of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TooLong {
    /// Their share of the requests.
    share: f64,
    /// Where a file holds the prompts: how many of how many, and the first of them, counted from 1 in order of arrival.
    counted: Option<(u64, u64, u64)>,
}

impl TooLong {
    /// Whether not one request fits.
    pub(super) fn is_all(&self) -> bool {
        self.share >= 1.0
    }

    /// How many of a file's requests, and where the first stands; `None` of a law.
    pub(super) fn of_file(&self) -> Option<String> {
        let (count, all, first) = self.counted?;
        let what = match count {
            1 => "is too long: request",
            _ => "are too long, the first of them request",
        };
        Some(format!(
            "{} of {} requests, {}, {what} {} in order of arrival",
            count_of(count),
            count_of(all),
            percent(self.share),
            count_of(first)
        ))
    }

    /// Their share, in words.
    pub(super) fn share_of_requests(&self) -> String {
        match self.counted {
            Some((1, ..)) => "that one".to_owned(),
            Some((count, ..)) => format!("those {}", count_of(count)),
            None => format!("about {} of the requests", percent(self.share)),
        }
    }
}

fn count_of(requests: u64) -> String {
    grouped(&requests.to_string())
}

/// Two figures: of a law's tail more would say what no finite run shows.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        0.0.. if percent < 1e-4 => "less than 0.0001 %".to_owned(),
        _ => format!("{} %", two_figures(percent)),
    }
}

fn two_figures(value: f64) -> String {
    let places = (1.0 - value.log10().floor()).max(0.0) as usize;
    format!("{value:.places$}")
}

/// Prompts of more than `fits` tokens among those of `spec`; of those above `most` another server is asked. Of conversations it is
/// the first turns.
pub(super) fn too_long(spec: &WorkloadSpec, fits: u32, most: u32) -> TooLong {
    let is_long = |prompt: u32| prompt > fits && prompt <= most;
    if let Some(requests) = spec.listed() {
        return count(requests.iter().map(|request| request.prompt_tokens), is_long);
    }
    let shared = spec.prefix.shared_len();
    if let Lengths::Empirical { pairs } = &spec.lengths {
        let found = count(pairs.iter().map(|pair| pair.0.saturating_add(shared)), is_long);
        // Pairs are drawn with replacement: their places in the file say nothing of a run.
        return TooLong {
            counted: None,
            ..found
        };
    }
    let above = |limit: u32| match limit.checked_sub(shared) {
        Some(own) => share_above(&spec.lengths, own),
        None => 1.0,
    };
    let beyond = if most == u32::MAX { 0.0 } else { above(most) };
    TooLong {
        share: above(fits) - beyond,
        counted: None,
    }
}

fn count(prompts: impl Iterator<Item = u32>, is_long: impl Fn(u32) -> bool) -> TooLong {
    let (mut found, mut all, mut first) = (0_u64, 0_u64, 0_u64);
    for prompt in prompts {
        all += 1;
        if is_long(prompt) {
            found += 1;
            first = if found == 1 { all } else { first };
        }
    }
    TooLong {
        share: found as f64 / all.max(1) as f64,
        counted: Some((found, all, first)),
    }
}

/// The share of a law's prompts that have more than `limit` tokens.
fn share_above(lengths: &Lengths, limit: u32) -> f64 {
    let limit = f64::from(limit);
    let whole = |low: f64, high: f64| ((high - limit.max(low - 1.0)) / (high - low + 1.0)).clamp(0.0, 1.0);
    match lengths {
        Lengths::Fixed { .. } | Lengths::RandomVllm { .. } | Lengths::RandomSglang { .. } => {
            let [(low, high), _] = lengths.ranges();
            whole(f64::from(low), f64::from(high))
        }
        Lengths::Lognormal { input, .. } => lognormal_above(input, limit),
        Lengths::Memoryless {
            input, is_geometric, ..
        } => memoryless_above(*input, *is_geometric, limit),
        Lengths::Quantiles { input, .. } => quantiles_above(input, limit),
        Lengths::Empirical { .. } => unreachable!("a file's pairs are counted"),
    }
}

/// Of a law that is cut at its longest by drawing again. Lengths are rounded, so more than `limit` begins half a token above it.
fn lognormal_above(law: &LognormalLength, limit: f64) -> f64 {
    let below = |tokens: f64| match law.sigma > 0.0 {
        true => normal_cdf((tokens / law.median).ln() / law.sigma),
        false => f64::from(tokens >= law.median),
    };
    let kept = below(f64::from(law.max) + 0.5) - below(0.5);
    let long = below(f64::from(law.max) + 0.5) - below(limit + 0.5);
    (long / kept).clamp(0.0, 1.0)
}

/// Of a law without memory that is cut at its longest by drawing again.
fn memoryless_above(law: MemorylessLength, is_geometric: bool, limit: f64) -> f64 {
    let (mean, max) = match law {
        MemorylessLength::Constant(tokens) => return f64::from(f64::from(tokens) > limit),
        MemorylessLength::Drawn { mean, max } => (mean, f64::from(max)),
    };
    // The exponential law is rounded: more than `limit` begins half a token above it.
    let above = |tokens: f64| match is_geometric {
        true => (1.0 - 1.0 / mean).powf(tokens),
        false => (-(tokens + 0.5) / mean).exp(),
    };
    let cut = above(max);
    ((above(limit) - cut) / (1.0 - cut)).clamp(0.0, 1.0)
}

/// Of a quantile function at equally spaced probabilities.
fn quantiles_above(values: &[f64], limit: f64) -> f64 {
    let pieces = values.len().saturating_sub(1).max(1) as f64;
    let above = |pair: &[f64]| match pair[1] > pair[0] {
        true => ((pair[1] - limit) / (pair[1] - pair[0])).clamp(0.0, 1.0),
        false => f64::from(pair[1] > limit),
    };
    values.windows(2).map(above).sum::<f64>() / pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Arrivals, Client, Generator, Prefix, Request, Traffic};

    fn spec(arrivals: Arrivals) -> WorkloadSpec {
        WorkloadSpec {
            arrivals,
            lengths: Lengths::Fixed {
                input_len: 512,
                output_len: 128,
            },
            prefix: Prefix::None,
            client: Client::default(),
            num_prompts: Some(40_000),
            duration: None,
            endings: None,
            classes: Vec::new(),
        }
    }

    fn arrivals_of(spec: &WorkloadSpec, seed: u64) -> Vec<Request> {
        let mut traffic = Generator::new(spec, seed);
        std::iter::from_fn(|| traffic.next_arrival().map(|_| traffic.take())).collect()
    }

    /// Laws with a tail, each beside its prefixes.
    fn laws() -> Vec<WorkloadSpec> {
        let of = |lengths: Lengths, prefix: Prefix| WorkloadSpec {
            lengths,
            prefix,
            ..spec(Arrivals::Poisson { request_rate: 5.0 })
        };
        let lognormal = |median: f64| LognormalLength {
            median,
            sigma: 1.2,
            max: 20_000,
        };
        let groups = Prefix::Groups {
            count: 3,
            prefix_len: 300,
            zipf: 0.0,
            exact_shares: false,
        };
        vec![
            of(
                Lengths::Lognormal {
                    input: lognormal(900.0),
                    output: lognormal(100.0),
                    correlation: 0.3,
                },
                Prefix::None,
            ),
            of(
                Lengths::RandomVllm {
                    input_len: 1500,
                    output_len: 10,
                    range_ratio: 0.9,
                    output_range_ratio: 0.0,
                },
                groups,
            ),
            of(
                Lengths::RandomSglang {
                    input_len: 3000,
                    output_len: 10,
                    range_ratio: 0.2,
                },
                Prefix::None,
            ),
            of(
                Lengths::Memoryless {
                    input: MemorylessLength::Drawn {
                        mean: 800.0,
                        max: 4000,
                    },
                    output: MemorylessLength::Constant(1),
                    is_geometric: true,
                },
                Prefix::None,
            ),
            of(
                Lengths::Memoryless {
                    input: MemorylessLength::Drawn {
                        mean: 800.0,
                        max: 4000,
                    },
                    output: MemorylessLength::Constant(1),
                    is_geometric: false,
                },
                Prefix::None,
            ),
            of(
                Lengths::Quantiles {
                    input: [1.0, 50.0, 800.0, 800.0, 9000.0].into(),
                    output: [1.0, 10.0].into(),
                    correlation: 0.0,
                },
                Prefix::None,
            ),
            of(
                Lengths::Empirical {
                    pairs: [(10, 1), (2100, 1), (400, 1), (9000, 1)].into(),
                },
                Prefix::None,
            ),
        ]
    }

    #[test]
    fn the_share_of_a_law_is_that_of_what_it_draws() {
        for law in laws() {
            let drawn = arrivals_of(&law, 7);
            for (fits, most) in [(2000, u32::MAX), (800, 2500), (799, u32::MAX)] {
                let told = too_long(&law, fits, most).share;
                let prompts = drawn.iter().map(|request| request.prompt_tokens);
                let seen = count(prompts, |prompt| prompt > fits && prompt <= most).share;
                // Four standard deviations of a share of 40,000.
                let slack = 4.0 * (0.25_f64 / drawn.len() as f64).sqrt();
                assert!(
                    (told - seen).abs() < slack,
                    "{told} and {seen} of {:?}",
                    law.lengths
                );
            }
        }
    }

    #[test]
    fn what_is_all_or_nothing_is_exactly_so() {
        let fixed = spec(Arrivals::Poisson { request_rate: 5.0 });
        assert!(too_long(&fixed, 511, u32::MAX).is_all());
        assert_eq!(too_long(&fixed, 512, u32::MAX).share, 0.0);
    }

    #[test]
    fn a_trace_is_counted_and_its_first_is_named() {
        let mut law = laws().pop().unwrap();
        law.num_prompts = Some(3000);
        let requests = arrivals_of(&law, 3);
        let first = requests
            .iter()
            .position(|request| request.prompt_tokens > 5000)
            .unwrap()
            + 1;
        let many = requests
            .iter()
            .filter(|request| request.prompt_tokens > 5000)
            .count();
        let trace = spec(Arrivals::Replay {
            requests: requests.into(),
            time_scale: 1.0,
        });
        let found = too_long(&trace, 5000, u32::MAX);
        let told = found.of_file().unwrap();
        assert!(
            told.starts_with(&format!("{many} of 3,000 requests, 2")),
            "{told}"
        );
        assert!(
            told.contains(&format!("the first of them request {first} in order")),
            "{told}"
        );
        assert_eq!(found.share_of_requests(), format!("those {many}"));
    }

    #[test]
    fn a_share_has_two_figures() {
        for (share, said) in [
            (0.000_300_4, "0.030 %"),
            (0.123, "12 %"),
            (0.0123, "1.2 %"),
            (1e-9, "less than 0.0001 %"),
        ] {
            assert_eq!(percent(share), said);
        }
    }
}
