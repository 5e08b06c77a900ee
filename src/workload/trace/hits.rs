//! What prefix caches of several sizes find in a trace and in its twin.
//!
//! A twin that shares as much as its trace may share it sooner or later than that: an endless cache finds as much, one that
//! evicts does not. So both are looked up in caches of every size that makes a difference.

use serde::Serialize;

use crate::workload::Request;

/// Share of the prompt tokens of requests, one after the other, that caches of so many tokens find.
pub type Caches<'a> = dyn Fn(&[Request], &[u64]) -> Vec<f64> + 'a;

/// Rates this close are one.
const ALIKE: f64 = 0.01;
/// Twins whose rates are averaged, fewer where the trace is long.
const TWINS: usize = 4;
/// Requests of all those twins.
const TWINS_REQUESTS: usize = 100_000;

/// What a cache finds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HitRates {
    /// Its size.
    pub cache_tokens: u64,
    /// Share of the trace's prompt tokens.
    pub trace: f64,
    /// Share of the twin's, the mean of several.
    pub twin: f64,
}

impl HitRates {
    /// By how much the twin's is off.
    pub(super) fn off(&self) -> f64 {
        self.twin - self.trace
    }
}

/// The rates of a trace and of twins drawn with several seeds, of the sizes between which they rise.
pub(super) fn hit_rates(
    trace: &[Request],
    twin: impl Fn(u64) -> Vec<Request>,
    caches: &Caches<'_>,
) -> Vec<HitRates> {
    let sizes: Vec<u64> = (3..12)
        .flat_map(|exponent| [1, 2, 5].map(|digit| digit * 10u64.pow(exponent)))
        .collect();
    let twins = (TWINS_REQUESTS / trace.len()).clamp(1, TWINS);
    let mut mean = vec![0.0; sizes.len()];
    for seed in 0..twins as u64 {
        for (mean, rate) in mean.iter_mut().zip(caches(&twin(seed), &sizes)) {
            *mean += rate / twins as f64;
        }
    }
    let rates = sizes.iter().zip(caches(trace, &sizes)).zip(mean);
    let rates: Vec<HitRates> = rates
        .map(|((&cache_tokens, trace), twin)| HitRates {
            cache_tokens,
            trace,
            twin,
        })
        .collect();
    where_they_rise(&rates).to_vec()
}

/// From the last that finds no more than the smallest to the first that finds no less than the largest.
fn where_they_rise(rates: &[HitRates]) -> &[HitRates] {
    let alike =
        |a: &HitRates, b: &HitRates| (a.trace - b.trace).abs() < ALIKE && (a.twin - b.twin).abs() < ALIKE;
    let (Some(least), Some(most)) = (rates.first(), rates.last()) else {
        return rates;
    };
    let from = rates.iter().rposition(|rate| alike(rate, least)).unwrap_or(0);
    let to = rates
        .iter()
        .position(|rate| alike(rate, most))
        .unwrap_or(rates.len() - 1);
    &rates[from.min(to)..=to]
}

/// A size as people write it: `500k`, `20M`.
pub(super) fn cache_size(tokens: u64) -> String {
    match tokens {
        0..1_000_000 => format!("{}k", tokens / 1_000),
        1_000_000..1_000_000_000 => format!("{}M", tokens / 1_000_000),
        _ => format!("{}G", tokens / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sizes_that_make_a_difference_are_shown() {
        let rate = |(cache_tokens, trace, twin)| HitRates {
            cache_tokens,
            trace,
            twin,
        };
        let rates = [
            (1, 0.1, 0.1),
            (2, 0.1, 0.105),
            (5, 0.1, 0.2),
            (10, 0.3, 0.395),
            (20, 0.395, 0.4),
            (50, 0.4, 0.4),
        ]
        .map(rate);
        let shown: Vec<u64> = where_they_rise(&rates)
            .iter()
            .map(|rate| rate.cache_tokens)
            .collect();
        assert_eq!(shown, [2, 5, 10, 20]);
        let flat = [(1, 0.1, 0.1), (2, 0.1, 0.1)].map(rate);
        assert_eq!(where_they_rise(&flat).len(), 1);
    }

    #[test]
    fn sizes_are_written_shortly() {
        assert_eq!(
            [5_000, 200_000, 1_000_000, 50_000_000_000].map(cache_size),
            ["5k", "200k", "1M", "50G"]
        );
    }
}
