//! A workload fitted to a trace: what makes it heavy or bursty, and none of its rows.
//!
//! Kept: the curve of the rate over the day, how dispersed arrivals are within it, the quantiles of prompt and output
//! length, their correlation, and the share of prompt tokens that a cache finds. Nothing else: see
//! [`FittedWorkload::losses`]. No row can be read back: every interior quantile is the mean of several neighbouring
//! rows, the ends are set by the means of their segments rather than by the shortest and longest row, rates are counts
//! over many requests, or multiples of five of them, and all is rounded to three figures.

use std::sync::Arc;

use super::describe::{Description, Dispersion, describe, sorted};
use super::fit_arrivals::{FittedArrivals, fit_arrivals};
use super::fit_prefix::fit_prefix;
use super::{Trace, twin};
use crate::quantity::significant;
use crate::units::Picos;
use crate::workload::{Arrivals, Client, Lengths, Prefix, ReuseLaw, WorkloadSpec};

/// Fewer requests than this would show through any quantile.
const REQUESTS_MIN: usize = 64;
/// Segments between quantiles that are tried, most first.
const SEGMENTS: [usize; 5] = [100, 64, 32, 16, 8];
/// Requests that each segment holds at least.
const SEGMENT_REQUESTS: usize = 8;
/// The twin that is compared has at least so many requests, if the trace is shorter.
pub(super) const TWIN_MIN: usize = 100_000;
/// And at most so many.
const TWIN_MAX: usize = 200_000;
/// Seed of the twin that is compared.
pub(super) const TWIN_SEED: u64 = 0;

/// Why a trace cannot be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Its rows would show through.
    #[error(
        "too few requests to fit: {requests}, and below {REQUESTS_MIN} a quantile gives single rows away"
    )]
    TooFew {
        /// How many there are.
        requests: usize,
    },
}

/// A workload fitted to a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedWorkload {
    /// When requests are sent; `None` where the trace has no times.
    pub arrivals: Option<FittedArrivals>,
    /// Prompt length at equally spaced probabilities from 0 to 1.
    pub input: Vec<f64>,
    /// Output length likewise.
    pub output: Vec<f64>,
    /// Correlation of the normal scores of prompt and output.
    pub correlation: f64,
    /// What prompts share; `None` where the trace does not tell or shares nothing.
    pub prefix: Option<ReuseLaw>,
    /// The trace.
    pub source: Description,
    /// Requests drawn from this workload.
    pub twin: Description,
    /// What the twin does not keep, in sentences.
    pub losses: Vec<String>,
}

/// Fits a workload to a trace.
///
/// # Errors
/// If the trace has so few requests that the fit would give rows away.
pub fn fit(trace: &Trace) -> Result<FittedWorkload, FitError> {
    let requests = trace.requests.len();
    let segments = SEGMENTS
        .into_iter()
        .find(|segments| requests >= segments * SEGMENT_REQUESTS);
    let Some(segments) = segments.filter(|_| requests >= REQUESTS_MIN) else {
        return Err(FitError::TooFew { requests });
    };
    let source = describe(trace);
    let total = knots(
        &sorted(trace.requests.iter().map(|request| request.prompt_tokens)),
        segments,
    );
    let arrivals = source
        .arrivals
        .as_ref()
        .and_then(|_| fit_arrivals(&trace.requests));
    let prefix = source
        .prefix
        .and_then(|share| fit_prefix(&trace.requests, share.tokens, &total));
    let input = total;
    let output = knots(
        &sorted(trace.requests.iter().map(|request| request.output_tokens)),
        segments,
    );
    let correlation = copula_correlation(source.rank_correlation.unwrap_or(0.0));
    let twin = source.clone();
    let mut fitted = FittedWorkload {
        arrivals,
        input,
        output,
        correlation,
        prefix,
        source,
        twin,
        losses: Vec::new(),
    };
    fitted.twin = fitted.describe_twin(trace);
    fitted.losses = losses(&fitted);
    Ok(fitted)
}

impl FittedWorkload {
    /// The workload as the generator takes it. Without times in the trace all requests are sent at once.
    #[must_use]
    pub fn spec(&self) -> WorkloadSpec {
        let arrivals = self
            .arrivals
            .as_ref()
            .map_or(Arrivals::AllAtOnce, |fitted| Arrivals::Profile {
                piece: Picos::from_seconds(fitted.piece_s),
                rates: fitted.rates.as_slice().into(),
                burstiness: fitted.burstiness,
            });
        let (input, output) = (
            Arc::from(self.input.as_slice()),
            Arc::from(self.output.as_slice()),
        );
        let prefix = self.prefix.map_or(Prefix::None, Prefix::Reuse);
        WorkloadSpec {
            arrivals,
            lengths: Lengths::Quantiles {
                input,
                output,
                correlation: self.correlation,
            },
            prefix,
            client: Client {
                max_concurrency: None,
                rescale_arrivals: false,
                timeout: None,
                priorities: Vec::new(),
            },
            num_prompts: None,
            duration: None,
            endings: None,
            classes: Vec::new(),
        }
    }

    /// The twin in numbers: many requests, so that what differs is the fit and not the draw; the prefix share and the
    /// busiest minute, which depend on how many there are, from as many as the trace has.
    fn describe_twin(&self, trace: &Trace) -> Description {
        let count = trace.requests.len().clamp(TWIN_MIN, TWIN_MAX);
        let times = match &self.arrivals {
            Some(fitted) => {
                twin::arrivals(fitted.piece_s, &fitted.rates, fitted.burstiness, count, TWIN_SEED)
            }
            None => vec![0.0; count],
        };
        let lengths = twin::lengths(&self.input, &self.output, self.correlation, count, TWIN_SEED);
        let drawn = Trace {
            requests: twin::requests(&times, &lengths, self.prefix, TWIN_SEED),
            has_arrivals: self.arrivals.is_some(),
            notes: Vec::new(),
            warnings: Vec::new(),
            hash_ids: Vec::new(),
            sessions: Vec::new(),
            ..*trace
        };
        let mut twin = describe(&drawn);
        let as_many = Trace {
            requests: drawn.requests[..trace.requests.len().min(count)].to_vec(),
            ..drawn
        };
        let as_many = describe(&as_many);
        twin.prefix = as_many.prefix;
        twin.p99_wait_s = as_many.p99_wait_s;
        if let (Some(twin), Some(as_many)) = (&mut twin.arrivals, as_many.arrivals) {
            twin.peak_to_mean_minute = as_many.peak_to_mean_minute;
            twin.peak_to_mean_10s = as_many.peak_to_mean_10s;
        }
        twin
    }
}

/// What the twin does not keep.
fn losses(fitted: &FittedWorkload) -> Vec<String> {
    let mut losses = vec![
        "the order of requests: lengths do not drift over the day and do not depend on the hour".to_owned(),
    ];
    let tail = 100.0 / (fitted.input.len() - 1) as f64;
    losses.push(format!(
        "the shape of the tails: within the longest and shortest {tail:.0} % lengths are spread evenly, keeping their mean"
    ));
    if let Some(arrivals) = &fitted.arrivals {
        losses.push(format!(
            "the rate within a piece of {} s, but for gamma gaps of one shape",
            arrivals.piece_s
        ));
        losses.extend(arrivals.beyond.clone());
        losses.extend(
            arrivals.rounded_to.map(|requests| {
                format!("single requests in the rate: each piece has a multiple of {requests}")
            }),
        );
        losses.extend(lost_waits(&fitted.source, &fitted.twin));
        if let Some(grid_s) = arrivals.grid_s {
            losses.push(format!("the {grid_s:.3} s grid of its times: the twin's are continuous, with the dispersion of counts over several ticks"));
        }
        if arrivals.folded {
            losses.push("differences between days: all were averaged onto one".to_owned());
        }
    }
    if let Some(prefix) = fitted.prefix {
        losses.push(format!(
            "the tree of shared prefixes and the growth of conversations: {:.0} % of the requests continue one of about {:.0} requests before",
            100.0 * prefix.probability, prefix.distance_median
        ));
    }
    if fitted.source.sessions.is_some() {
        losses.push("which requests belong to one conversation".to_owned());
    }
    losses
}

/// By how much a queue feels the twin less, or more, than the trace, and whether its bursts or its lengths are to blame.
fn lost_waits(trace: &Description, twin: &Description) -> Option<String> {
    /// A difference that is worth a sentence.
    const WORTH: f64 = 0.1;
    let is_off = |trace: f64, twin: f64| (twin / trace - 1.0).abs() > WORTH;
    let (before, after) = (trace.arrivals.as_ref()?, twin.arrivals.as_ref()?);
    let of_twin = |a: &Dispersion| after.dispersion.iter().find(|b| b.window_s == a.window_s);
    let counts: Vec<(&Dispersion, &Dispersion)> = before
        .dispersion
        .iter()
        .filter_map(|a| Some((a, of_twin(a)?)))
        .collect();
    let wait = trace
        .p99_wait_s
        .zip(twin.p99_wait_s)
        .filter(|&(a, b)| is_off(a, b));
    let of_bursts = counts.iter().any(|(a, b)| is_off(a.index, b.index));
    if !of_bursts && wait.is_none() {
        return None;
    }
    let shown = |(a, b): &(&Dispersion, &Dispersion)| {
        format!(
            "{} → {} over {} s",
            significant(a.index),
            significant(b.index),
            a.window_s
        )
    };
    let counts: Vec<String> = counts.iter().map(shown).collect();
    let what = if of_bursts {
        format!("the shape of bursts: dispersion of counts {}", counts.join(", "))
    } else {
        "that long requests come together".to_owned()
    };
    let wait = wait.map_or(String::new(), |(a, b)| {
        format!(
            "; behind a server that is busy 70 % of the time p99 waits {} s in the trace and {} s in the twin, and latencies \
             near saturation differ likewise",
            significant(a),
            significant(b)
        )
    });
    Some(what + &wait)
}

/// Quantiles at `segments + 1` equally spaced probabilities, smoothed and rounded so that none is a row.
///
/// An interior one is the mean of the rows within half a segment of it. The two ends are where a straight line must
/// start so that the first and last segment keep their mean.
fn knots(sorted: &[u32], segments: usize) -> Vec<f64> {
    let n = sorted.len();
    let width = n as f64 / segments as f64;
    let mean = |from: f64, to: f64| {
        let rows = &sorted[from.round() as usize..(to.round() as usize).min(n)];
        rows.iter().map(|&tokens| f64::from(tokens)).sum::<f64>() / rows.len() as f64
    };
    let mut knots: Vec<f64> = (0..=segments)
        .map(|knot| knot as f64 * width)
        .map(|at| mean((at - width / 4.0).max(0.0), at + width / 4.0))
        .collect();
    knots[0] = (2.0 * mean(0.0, width) - knots[1]).clamp(1.0, knots[1].max(1.0));
    knots[segments] = (2.0 * mean(n as f64 - width, n as f64) - knots[segments - 1]).max(knots[segments - 1]);
    let mut longest = 1.0;
    for knot in &mut knots {
        longest = three_figures(*knot).max(longest);
        *knot = longest;
    }
    knots
}

/// Rounds to three significant figures.
pub(super) fn three_figures(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 0.0;
    }
    // Dividing by a power of ten that is exact gives the shortest decimal; multiplying by its inverse does not.
    let digits = 2 - value.log10().floor() as i32;
    if digits >= 0 {
        (value * 10f64.powi(digits)).round() / 10f64.powi(digits)
    } else {
        (value / 10f64.powi(-digits)).round() * 10f64.powi(-digits)
    }
}

/// The Gaussian copula's correlation that has a given rank correlation: `2·sin(π·ρ/6)`.
fn copula_correlation(rank_correlation: f64) -> f64 {
    let raw = 2.0 * (std::f64::consts::PI * rank_correlation / 6.0).sin();
    (raw.clamp(-0.99, 0.99) * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_keep_the_mean_and_hide_the_rows() {
        let mut rows: Vec<u32> = (0..1000u32).map(|i| 10 + i * i / 100).collect();
        rows[999] = 50_000;
        let knots = knots(&rows, 100);
        let mean = rows.iter().sum::<u32>() as f64 / 1000.0;
        let drawn = (0..10_000)
            .map(|i| twin::interpolate(&knots, (f64::from(i) + 0.5) / 10_000.0))
            .sum::<f64>()
            / 10_000.0;
        assert!((drawn / mean - 1.0).abs() < 0.005, "{drawn} {mean}");
        assert!(knots.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(!knots.contains(&50_000.0));
    }

    #[test]
    fn three_figures_round_at_every_size() {
        assert_eq!(
            [0.012_345, 1.2345, 123.45, 98_765.0].map(three_figures),
            [0.0123, 1.23, 123.0, 98_800.0]
        );
    }
}
