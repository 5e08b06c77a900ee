//! A workload fitted to a trace: what makes it heavy or bursty, and none of its rows.
//!
//! Kept: the curve of the rate over the day, how dispersed arrivals are within it, the quantiles of prompt and output
//! length, their correlation, and the share of prompt tokens that a cache finds, by how many requests ago they were last used.
//! Nothing else: see
//! [`FittedWorkload::losses`]. No row can be read back: every interior quantile is the mean of four neighbouring rows or
//! more, or lies between two means of two rows or more; the ends are set by the means of their segments rather than by the
//! shortest and longest row, a rate by a count of fifty requests or more, or by a multiple of five; and all is rounded to
//! three figures.

use std::sync::Arc;

use super::describe::{Description, describe, sorted};
use super::fit_arrivals::{FittedArrivals, fit_arrivals};
use super::fit_prefix::fit_prefix;
use super::hits::{Caches, HitRates, hit_rates};
use super::losses::losses;
use super::queue::{Job, p99_wait_s};
use super::{Trace, twin};
use crate::quantity::significant;
use crate::units::Picos;
use crate::workload::{Arrivals, Client, Lengths, Prefix, Request, ReuseLaw, WorkloadSpec};

/// Fewer requests than this would show through any quantile.
const REQUESTS_MIN: usize = 64;
/// Segments between quantiles that are tried, most first.
const SEGMENTS: [usize; 5] = [100, 64, 32, 16, 8];
/// Requests that each segment holds at least.
const SEGMENT_REQUESTS: usize = 8;
/// The twin that is compared has about so many requests, if the trace has fewer and the clock allows: it lasts several
/// times as long.
const TWIN_MIN: usize = 100_000;
/// Normal scores that are correlated more closely than this would be one number.
pub(super) const CORRELATION_MAX: f64 = 0.99;
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
    /// Its turns wait for answers.
    #[error(
        "its turns wait for answers, and the laws of such conversations are not fitted: `plimsoll run MODEL --gpu GPU --trace FILE --users 8` \
         leads them as they are"
    )]
    Conversations,
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
    /// Requests drawn from this workload, over the trace's span `spans` times over.
    pub twin: Description,
    /// How many times the trace's span the twin lasts.
    pub spans: u32,
    /// What caches of several sizes find; empty where the trace does not tell what prompts share.
    pub hit_rates: Vec<HitRates>,
    /// What the twin does not keep, in sentences.
    pub losses: Vec<String>,
}

/// Fits a workload to a trace. `caches` tells of requests what share of their prompt tokens caches of so many tokens find.
///
/// # Errors
/// If the trace has so few requests that the fit would give rows away, or is of conversations whose turns wait for answers.
pub fn fit(trace: &Trace, caches: &Caches<'_>) -> Result<FittedWorkload, FitError> {
    if trace.conversations.is_some() {
        return Err(FitError::Conversations);
    }
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
        .filter(|share| share.tokens > 0.0)
        .and_then(|_| fit_prefix(&trace.requests, &total));
    let input = total;
    let output = knots(
        &sorted(trace.requests.iter().map(|request| request.output_tokens)),
        segments,
    );
    let correlation = copula_correlation(source.rank_correlation.unwrap_or(0.0));
    let correlation = correlation.clamp(-CORRELATION_MAX, CORRELATION_MAX);
    let twin = source.clone();
    let mut fitted = FittedWorkload {
        arrivals,
        input,
        output,
        correlation: (correlation * 1000.0).round() / 1000.0,
        prefix,
        source,
        twin,
        spans: spans(trace),
        hit_rates: Vec::new(),
        losses: Vec::new(),
    };
    let drawn = fitted.draw(trace);
    fitted.twin = fitted.describe_twin(trace, &drawn);
    fitted.hit_rates = fitted.compare_caches(trace, &drawn, caches);
    fitted.losses = losses(&fitted, &trace.requests, &drawn.requests);
    Ok(fitted)
}

/// How many times the trace's span the twin lasts: for [`TWIN_MIN`] requests, but no longer than a run may.
fn spans(trace: &Trace) -> u32 {
    let wanted = TWIN_MIN.div_ceil(trace.requests.len()) as u64;
    let span = trace.requests.last().map_or(Picos::ZERO, |last| last.arrival);
    let most = Picos::LAST.0.checked_div(span.0).unwrap_or(wanted);
    u32::try_from(wanted.min(most).max(1)).expect("at most as many as requests are wanted")
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
        let prefix = self.prefix.clone().map_or(Prefix::None, Prefix::Reuse);
        WorkloadSpec {
            arrivals,
            lengths: Lengths::Quantiles {
                input,
                output,
                correlation: self.correlation,
            },
            prefix,
            client: Client::default(),
            num_prompts: None,
            duration: None,
            endings: None,
            classes: Vec::new(),
        }
    }

    /// Requests drawn from this workload over the trace's span `spans` times over, or as many times as many where the
    /// trace has no times.
    fn draw(&self, trace: &Trace) -> Trace {
        let instants = match (&self.arrivals, trace.requests.last()) {
            (Some(fitted), Some(last)) => twin::arrivals_within(
                fitted.piece_s,
                &fitted.rates,
                fitted.burstiness,
                last.arrival.seconds() * f64::from(self.spans),
                TWIN_SEED,
            ),
            _ => vec![0.0; trace.requests.len() * self.spans as usize],
        };
        let lengths = twin::lengths(
            &self.input,
            &self.output,
            self.correlation,
            instants.len(),
            TWIN_SEED,
        );
        let requests = twin::requests(&instants, &lengths, self.prefix.as_ref(), TWIN_SEED);
        self.told_as(trace, requests)
    }

    /// What caches find in the trace and in the twin, over one span.
    fn compare_caches(&self, trace: &Trace, drawn: &Trace, caches: &Caches<'_>) -> Vec<HitRates> {
        if self.prefix.is_none() {
            return Vec::new();
        }
        let span = &drawn.requests[..self.of_one_span(trace, &drawn.requests)];
        let again = |seed: u64| {
            let lengths = twin::lengths(
                &self.input,
                &self.output,
                self.correlation,
                span.len(),
                TWIN_SEED + seed,
            );
            let instants: Vec<f64> = span.iter().map(|request| request.arrival.seconds()).collect();
            twin::requests(&instants, &lengths, self.prefix.as_ref(), TWIN_SEED + seed)
        };
        hit_rates(&trace.requests, again, caches)
    }

    /// How many drawn requests the first span has.
    fn of_one_span(&self, trace: &Trace, drawn: &[Request]) -> usize {
        let end = trace.requests.last().map_or(Picos::ZERO, |last| last.arrival);
        match self.arrivals {
            Some(_) => drawn.partition_point(|request| request.arrival <= end),
            None => trace.requests.len(),
        }
    }

    /// Drawn requests as a trace that tells what the fitted one told.
    fn told_as(&self, trace: &Trace, requests: Vec<Request>) -> Trace {
        Trace {
            requests,
            has_arrivals: self.arrivals.is_some(),
            notes: Vec::new(),
            warnings: Vec::new(),
            hash_ids: Vec::new(),
            sessions: Vec::new(),
            conversations: None,
            ..*trace
        }
    }

    /// The twin in numbers: many requests, so that what differs is the fit and not the draw. What depends on how long it
    /// lasts is of one span: the prefix share and the busiest minute of the first, the wait of the median one.
    fn describe_twin(&self, trace: &Trace, drawn: &Trace) -> Description {
        let mut twin = describe(drawn);
        if self.spans == 1 {
            return twin;
        }
        let requests = &drawn.requests;
        let end = trace.requests.last().map_or(Picos::ZERO, |last| last.arrival);
        let first = self.of_one_span(trace, requests);
        let one = describe(&self.told_as(trace, requests[..first].to_vec()));
        twin.prefix = one.prefix;
        twin.p99_wait_s = median_wait_s(requests, end);
        if let (Some(twin), Some(one)) = (&mut twin.arrivals, one.arrivals) {
            twin.peak_to_mean_minute = one.peak_to_mean_minute;
            twin.peak_to_mean_10s = one.peak_to_mean_10s;
        }
        twin
    }

    /// Of how many requests the twin's numbers are, and over how long: a sentence.
    #[must_use]
    pub fn twin_basis(&self) -> String {
        let requests = self.twin.requests;
        let Some(arrivals) = self.source.arrivals.as_ref().filter(|_| self.arrivals.is_some()) else {
            return format!("the twin's numbers are of {requests} requests");
        };
        let span_s = significant(arrivals.span_s);
        match self.spans {
            1 => format!("the twin's numbers are of {requests} requests drawn over the trace's {span_s} s"),
            spans => format!(
                "the twin's numbers are of {requests} requests drawn over {spans} times the trace's {span_s} s; the busiest \
                 minute, the wait and what was seen before are of one of these"
            ),
        }
    }
}

/// The median of the p99 waits of spans that follow each other.
fn median_wait_s(requests: &[Request], span: Picos) -> Option<f64> {
    let span_s = span.seconds();
    let number = |request: &Request| (request.arrival.seconds() / span_s) as u64;
    let mut waits: Vec<f64> = requests
        .chunk_by(|a, b| number(a) == number(b))
        .filter_map(|of_span| {
            let start_s = number(&of_span[0]) as f64 * span_s;
            let job = |request: &Request| {
                let job = Job::from(request);
                Job {
                    arrival_s: job.arrival_s - start_s,
                    ..job
                }
            };
            p99_wait_s(&of_span.iter().map(job).collect::<Vec<Job>>())
        })
        .collect();
    waits.sort_unstable_by(f64::total_cmp);
    waits.get(waits.len().checked_sub(1)? / 2).copied()
}

/// Quantiles at `segments + 1` equally spaced probabilities, smoothed and rounded so that none is a row.
///
/// An interior one is the mean of the rows within a quarter of a segment on either side: of four at least. The two ends are
/// where a straight line must start so that the first and last segment keep their mean. Where that does not keep the mean of
/// all, as with a law that jumps near its end, [`mean_knots`] do, each of them between the means of the rows on either side:
/// of two at least.
fn knots(sorted: &[u32], segments: usize) -> Vec<f64> {
    /// A law that only bends stays nearer to its mean.
    const OFF: f64 = 0.01;
    let rows = Segments::new(sorted, segments);
    let mut knots: Vec<f64> = (0..=segments)
        .map(|knot| knot as f64)
        .map(|at| rows.mean(at - 0.25, at + 0.25))
        .collect();
    knots[0] = rows.start(knots[1]);
    let last = rows.mean(segments as f64 - 1.0, segments as f64);
    knots[segments] = (2.0 * last - knots[segments - 1]).max(knots[segments - 1]);
    let held = knots.windows(2).map(|pair| pair[0] + pair[1]).sum::<f64>() / (2 * segments) as f64;
    if (held / rows.mean(0.0, segments as f64) - 1.0).abs() > OFF {
        knots = mean_knots(&rows);
    }
    let mut longest = 1.0;
    for knot in &mut knots {
        longest = three_figures(*knot).max(longest);
        *knot = longest;
    }
    knots
}

/// Knots of which each makes up for what the straight lines below it hold too much or too little, as far as the rows within
/// a quarter of a segment on either side allow. The last interior one and the end, which no other follows, make up for all
/// of it.
fn mean_knots(rows: &Segments<'_>) -> Vec<f64> {
    let start = rows.start(rows.mean(0.75, 1.25));
    let mut knots = vec![start];
    // What the lines below the knot hold, and what the rows do; in tokens of a segment's mean.
    let (mut held, mut seen) = (start / 2.0, 0.0);
    for knot in 1..rows.segments {
        let at = knot as f64;
        seen += rows.mean(at - 1.0, at);
        let near = rows.mean(at - 0.25, at + 0.25);
        let share = if knot + 1 == rows.segments { 2.0 } else { 1.0 };
        let tokens = (near + share * (seen - held - near / 2.0))
            .clamp(rows.mean(at - 0.25, at), rows.mean(at, at + 0.25))
            .max(knots[knot - 1]);
        held += tokens;
        knots.push(tokens);
    }
    seen += rows.mean(rows.segments as f64 - 1.0, rows.segments as f64);
    knots.push((2.0 * (seen - held)).max(knots[rows.segments - 1]));
    knots
}

/// Ascending rows in segments of as many each.
struct Segments<'a> {
    sorted: &'a [u32],
    segments: usize,
}

impl<'a> Segments<'a> {
    fn new(sorted: &'a [u32], segments: usize) -> Segments<'a> {
        Segments { sorted, segments }
    }

    /// The rows from one place to another, in segments; what lies beyond the ends does not count.
    fn within(&self, from: f64, to: f64) -> &[u32] {
        let n = self.sorted.len();
        let row = |at: f64| ((at * n as f64 / self.segments as f64).max(0.0).round() as usize).min(n);
        &self.sorted[row(from)..row(to)]
    }

    /// Their mean.
    fn mean(&self, from: f64, to: f64) -> f64 {
        let rows = self.within(from, to);
        rows.iter().map(|&tokens| f64::from(tokens)).sum::<f64>() / rows.len() as f64
    }

    /// Where the first segment's line starts if it ends at `second` and keeps its mean.
    fn start(&self, second: f64) -> f64 {
        (2.0 * self.mean(0.0, 1.0) - second).clamp(1.0, second.max(1.0))
    }
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
pub(super) fn copula_correlation(rank_correlation: f64) -> f64 {
    2.0 * (std::f64::consts::PI * rank_correlation / 6.0).sin()
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
    fn a_law_that_jumps_keeps_its_mean_wherever_the_jump_lies() {
        for long in [5, 50, 80, 93, 100, 120, 150, 205, 300, 990, 5_000, 9_900] {
            let mut rows = vec![100u32; 10_000];
            rows[10_000 - long..].fill(100_000);
            let knots = knots(&rows, 100);
            let mean = rows.iter().map(|&tokens| f64::from(tokens)).sum::<f64>() / 10_000.0;
            let held = knots.windows(2).map(|pair| pair[0] + pair[1]).sum::<f64>() / 200.0;
            assert!(
                (held / mean - 1.0).abs() < 0.01,
                "{long}: {held} {mean} {knots:?}"
            );
        }
    }

    #[test]
    fn every_quantile_is_the_mean_of_four_rows_or_more() {
        for requests in REQUESTS_MIN..3_000 {
            let segments = SEGMENTS
                .into_iter()
                .find(|count| requests >= count * SEGMENT_REQUESTS);
            let rows: Vec<u32> = (0..requests as u32).collect();
            let rows = Segments::new(&rows, segments.unwrap());
            for knot in 1..rows.segments {
                let at = knot as f64;
                let [below, above] =
                    [rows.within(at - 0.25, at), rows.within(at, at + 0.25)].map(<[u32]>::len);
                assert!(
                    below >= 2 && above >= 2 && below + above >= 4,
                    "{requests}: {below} {above}"
                );
            }
        }
    }

    #[test]
    fn three_figures_round_at_every_size() {
        assert_eq!(
            [0.012_345, 1.2345, 123.45, 98_765.0].map(three_figures),
            [0.0123, 1.23, 123.0, 98_800.0]
        );
    }
}
