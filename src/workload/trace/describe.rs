//! What a trace is like: rate, burstiness, lengths and shared prefixes.
//!
//! Quantiles are numpy's (linear interpolation), deviations population ones. The prefix share counts, in the order of
//! the trace, the blocks at the start of a prompt that an earlier prompt held already: an infinite cache, no answer in it.

use std::fmt::Write as _;

use rustc_hash::FxHashSet;
use serde::Serialize;

use super::Trace;
use super::queue::{Job, p99_wait_s};
use super::rows::is_tail;
use crate::quantity::significant;
use crate::workload::{Plan, Prompt, Request};

/// Windows over which counts of arrivals are compared, in seconds.
const DISPERSION_WINDOWS_S: [f64; 3] = [1.0, 10.0, 60.0];
/// Fewest windows that a dispersion is computed from.
const WINDOWS_MIN: usize = 10;
/// Fewest arrivals in all that a dispersion is computed from.
const ARRIVALS_MIN: usize = 30;

/// A trace in a few numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// What the file was read as.
    pub format: &'static str,
    /// How many requests.
    pub requests: usize,
    /// Arrivals, where the file has them.
    pub arrivals: Option<ArrivalSummary>,
    /// Prompt lengths in tokens.
    pub input: LengthSummary,
    /// Output lengths in tokens.
    pub output: LengthSummary,
    /// Spearman's rank correlation of prompt and output length; `None` where one of them is constant.
    pub rank_correlation: Option<f64>,
    /// 99th percentile of the wait, in seconds, behind a server that is busy 70 % of the time and works off tokens in order
    /// of arrival; `None` without arrivals.
    pub p99_wait_s: Option<f64>,
    /// What prompts share, where the file tells.
    pub prefix: Option<PrefixShare>,
    /// Conversations, where the file tells.
    pub sessions: Option<Sessions>,
    /// What looks like a mistake.
    pub warnings: Vec<String>,
    /// What was assumed or left out.
    pub notes: Vec<String>,
}

/// When requests arrive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArrivalSummary {
    /// From the first arrival to the last, in seconds.
    pub span_s: f64,
    /// Gaps over span, in requests/s; `None` where all arrive at once.
    pub request_rate: Option<f64>,
    /// Coefficient of variation of the gaps: 1 for Poisson.
    pub gap_cv: Option<f64>,
    /// Most arrivals in a full minute over their mean; `None` below two full minutes.
    pub peak_to_mean_minute: Option<f64>,
    /// Likewise in ten seconds.
    pub peak_to_mean_10s: Option<f64>,
    /// Variance over mean of the counts in windows of so many seconds: 1 for Poisson.
    pub dispersion: Vec<Dispersion>,
    /// Distance of the grid that the times sit on, if one of half a second or coarser.
    pub grid_s: Option<f64>,
}

/// Variance over mean of the number of arrivals in a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dispersion {
    /// Length of the windows in seconds.
    pub window_s: f64,
    /// Index of dispersion.
    pub index: f64,
}

/// A distribution of token counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LengthSummary {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: u32,
}

/// What an infinite prefix cache would find.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PrefixShare {
    /// Tokens of a block.
    pub block: u32,
    /// Share of the prompts' blocks.
    pub blocks: f64,
    /// Share of the prompts' tokens.
    pub tokens: f64,
}

/// Conversations of several turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sessions {
    /// How many.
    pub count: usize,
    /// Mean number of turns.
    pub mean_turns: f64,
    /// From an answer to a turn that waits for it, where the file tells.
    pub think_time: Option<ThinkTimes>,
}

/// Quantiles of the time from an answer to a turn that waits for it, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThinkTimes {
    /// Median.
    pub p50_s: f64,
    /// 90th percentile.
    pub p90_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
}

/// Describes a trace.
#[must_use]
pub fn describe(trace: &Trace) -> Description {
    let input = sorted(trace.requests.iter().map(|request| request.prompt_tokens));
    let output = sorted(trace.requests.iter().map(|request| request.output_tokens));
    let pairs: Vec<(u32, u32)> = trace
        .requests
        .iter()
        .map(|request| (request.prompt_tokens, request.output_tokens))
        .collect();
    let jobs: Vec<Job> = trace.requests.iter().map(Job::from).collect();
    let sessions = (!trace.sessions.is_empty()).then(|| {
        let count = trace.sessions.iter().collect::<FxHashSet<_>>().len();
        Sessions {
            count,
            mean_turns: trace.requests.len() as f64 / count as f64,
            think_time: trace.conversations.as_ref().and_then(think_times),
        }
    });
    Description {
        format: trace.format.title(),
        requests: trace.requests.len(),
        arrivals: trace.has_arrivals.then(|| summarise_arrivals(&trace.requests)),
        input: summarise_lengths(&input),
        output: summarise_lengths(&output),
        rank_correlation: rank_correlation(&pairs),
        p99_wait_s: trace.has_arrivals.then(|| p99_wait_s(&jobs)).flatten(),
        prefix: trace.block.map(|block| prefix_share(&trace.requests, block)),
        sessions,
        warnings: trace.warnings.clone(),
        notes: trace.notes.clone(),
    }
}

impl Description {
    /// For people: the answer first, then warnings, numbers and notes.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        self.write_text(&mut text).expect("a string takes every write");
        text
    }

    fn write_text(&self, out: &mut String) -> std::fmt::Result {
        write!(
            out,
            "{} request{}",
            self.requests,
            if self.requests == 1 { "" } else { "s" }
        )?;
        if let Some(arrivals) = &self.arrivals {
            write!(out, " in {} s", significant(arrivals.span_s))?;
            match arrivals.request_rate {
                Some(rate) => write!(out, ": {} req/s", significant(rate))?,
                None => write!(out, ", all at once")?,
            }
        }
        writeln!(
            out,
            ", {:.0} tokens in and {:.0} out on average",
            self.input.mean, self.output.mean
        )?;
        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        writeln!(
            out,
            "\n{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "tokens", "mean", "p50", "p90", "p99", "max"
        )?;
        for (name, lengths) in [("input", &self.input), ("output", &self.output)] {
            let LengthSummary {
                mean,
                p50,
                p90,
                p99,
                max,
            } = lengths;
            writeln!(
                out,
                "{name:<12}{mean:>10.1}{p50:>10.0}{p90:>10.0}{p99:>10.0}{max:>10}"
            )?;
        }
        if let Some(correlation) = self.rank_correlation {
            writeln!(
                out,
                "{:<12}{correlation:>10.2}  between input and output, by rank",
                "correlation"
            )?;
        }
        self.write_arrivals(out)?;
        if let Some(PrefixShare {
            block,
            blocks,
            tokens,
        }) = self.prefix
        {
            let (blocks, tokens) = (100.0 * blocks, 100.0 * tokens);
            writeln!(
                out,
                "prefixes    {blocks:.1} % of blocks and {tokens:.1} % of tokens were seen before ({block}-token blocks, infinite cache)"
            )?;
        }
        if let Some(Sessions {
            count,
            mean_turns,
            think_time,
        }) = self.sessions
        {
            writeln!(out, "sessions    {count}, of {mean_turns:.2} turns on average")?;
            if let Some(ThinkTimes { p50_s, p90_s, p99_s }) = think_time {
                let [p50, p90, p99] = [p50_s, p90_s, p99_s].map(significant);
                writeln!(
                    out,
                    "think time  p50 {p50} s, p90 {p90} s, p99 {p99} s from an answer to the next turn"
                )?;
            }
        }
        writeln!(out, "read as     {}", self.format)?;
        self.notes
            .iter()
            .try_for_each(|note| writeln!(out, "note        {note}"))
    }

    fn write_arrivals(&self, out: &mut String) -> std::fmt::Result {
        let Some(arrivals) = &self.arrivals else {
            return match self.sessions {
                Some(Sessions {
                    think_time: Some(_), ..
                }) => writeln!(
                    out,
                    "arrivals    turns follow answers; when sessions begin is not in the file"
                ),
                _ => writeln!(out, "arrivals    none in the file: lengths only"),
            };
        };
        let mut parts = Vec::new();
        parts.extend(
            arrivals
                .gap_cv
                .map(|cv| format!("gap CV {} (Poisson 1)", significant(cv))),
        );
        parts.extend(
            arrivals
                .peak_to_mean_minute
                .map(|peak| format!("busiest minute {} × the mean", significant(peak))),
        );
        if !parts.is_empty() {
            writeln!(out, "arrivals    {}", parts.join(", "))?;
        }
        if let Some(grid_s) = arrivals.grid_s {
            writeln!(
                out,
                "clock       times sit on a {grid_s} s grid: gaps and counts below it mean little"
            )?;
        }
        let dispersion: Vec<String> = arrivals
            .dispersion
            .iter()
            .map(|d| format!("{} over {} s", significant(d.index), d.window_s))
            .collect();
        if !dispersion.is_empty() {
            writeln!(out, "dispersion  {} (counts, Poisson 1)", dispersion.join(", "))?;
        }
        if let Some(wait_s) = self.p99_wait_s {
            writeln!(
                out,
                "queueing    p99 waits {} s behind a server that is busy 70 % of the time (tokens in order of arrival)",
                significant(wait_s)
            )?;
        }
        Ok(())
    }
}

/// Quantiles of think times, of turns that wait for an answer; `None` where none does.
fn think_times(plan: &Plan) -> Option<ThinkTimes> {
    let waiting = plan.turns.iter().filter(|turn| !turn.after.is_empty());
    let mut seconds: Vec<f64> = waiting.map(|turn| turn.think_time.seconds()).collect();
    seconds.sort_unstable_by(f64::total_cmp);
    let at = |p| crate::stats::quantile_by(seconds.len() as u64, p, |index| seconds[index as usize]);
    Some(ThinkTimes {
        p50_s: at(0.5)?,
        p90_s: at(0.9)?,
        p99_s: at(0.99)?,
    })
}

fn summarise_arrivals(requests: &[Request]) -> ArrivalSummary {
    let times: Vec<f64> = requests.iter().map(|request| request.arrival.seconds()).collect();
    let span_s = times.last().copied().unwrap_or(0.0);
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let peak_to_mean = |window_s: f64| {
        let counts = counts(&times, window_s, 0.0);
        let peak = counts.iter().max().copied().unwrap_or(0) as f64;
        let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
        (counts.len() >= 2).then(|| peak / mean)
    };
    ArrivalSummary {
        span_s,
        request_rate: (span_s > 0.0).then(|| gaps.len() as f64 / span_s),
        gap_cv: variation(&gaps),
        peak_to_mean_minute: peak_to_mean(60.0),
        peak_to_mean_10s: peak_to_mean(10.0),
        grid_s: find_grid(&times),
        dispersion: DISPERSION_WINDOWS_S
            .iter()
            .filter_map(|&window_s| {
                Some(Dispersion {
                    window_s,
                    index: dispersion(&times, window_s, 0.0)?,
                })
            })
            .collect(),
    }
}

/// Arrivals in each full window of `window_s` seconds, the first beginning at `start_s`.
fn counts(times: &[f64], window_s: f64, start_s: f64) -> Vec<u64> {
    let span = times.last().copied().unwrap_or(0.0) - start_s;
    // Windows that are nearly all empty tell nothing, and a sparse file must not ask for gigabytes of them.
    let windows = Some((span / window_s).floor() as usize)
        .filter(|&windows| windows <= 100 * times.len())
        .unwrap_or(0);
    let mut counts = vec![0; windows];
    for &time in times {
        if let Some(count) = counts.get_mut(((time - start_s) / window_s) as usize) {
            *count += 1;
        }
    }
    counts
}

/// Variance over mean of counts in windows; `None` with too few of them.
pub(super) fn dispersion(times: &[f64], window_s: f64, start_s: f64) -> Option<f64> {
    let counts: Vec<f64> = counts(times, window_s, start_s)
        .into_iter()
        .map(|count| count as f64)
        .collect();
    let (mean, variance) = moments(&counts);
    (counts.len() >= WINDOWS_MIN && times.len() >= ARRIVALS_MIN && mean > 0.0).then(|| variance / mean)
}

/// The grid that times sit on, in seconds, if one of half a second or coarser: publishers round or batch their clocks.
pub(super) fn find_grid(times: &[f64]) -> Option<f64> {
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut steps: Vec<f64> = gaps.iter().copied().filter(|&gap| gap > 0.1).collect();
    steps.sort_unstable_by(f64::total_cmp);
    let least = *steps.get(steps.len() / 20)?;
    let ticks = |gap: f64| (gap / least).round();
    let on_grid = gaps
        .iter()
        .filter(|&&gap| (gap / least - ticks(gap)).abs() < 0.02)
        .count();
    let found = times.len() >= ARRIVALS_MIN && least >= 0.5 && on_grid as f64 >= 0.95 * gaps.len() as f64;
    let (length, count) = steps.iter().fold((0.0, 0.0), |(length, count), &gap| {
        (length + gap, count + ticks(gap))
    });
    found.then(|| (length / count * 1000.0).round() / 1000.0)
}

/// Coefficient of variation; `None` without a positive mean.
pub(super) fn variation(values: &[f64]) -> Option<f64> {
    let (mean, variance) = moments(values);
    (values.len() >= 2 && mean > 0.0).then(|| variance.sqrt() / mean)
}

/// Mean and population variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (
        mean,
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n,
    )
}

/// Token counts in ascending order.
pub(super) fn sorted(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    values
}

fn summarise_lengths(sorted: &[u32]) -> LengthSummary {
    let mean = sorted.iter().map(|&value| f64::from(value)).sum::<f64>() / sorted.len() as f64;
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|p| quantile(sorted, p));
    LengthSummary {
        mean,
        p50,
        p90,
        p99,
        max: sorted.last().copied().unwrap_or(0),
    }
}

/// The `p`-quantile of ascending values, linear between ranks; 0 of nothing.
pub(super) fn quantile(sorted: &[u32], p: f64) -> f64 {
    let at = |index: u64| f64::from(sorted[index as usize]);
    crate::stats::quantile_by(sorted.len() as u64, p, at).unwrap_or(0.0)
}

/// Mid-ranks from 1 (ties share their mean rank).
pub(super) fn ranks(values: &[u32]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by_key(|&index| values[index]);
    let mut ranks = vec![0.0; values.len()];
    for tied in order
        .chunk_by(|&a, &b| values[a] == values[b])
        .scan(0usize, |before, tied| {
            *before += tied.len();
            Some((*before - tied.len(), tied))
        })
    {
        let (before, tied) = tied;
        tied.iter()
            .for_each(|&index| ranks[index] = before as f64 + (tied.len() as f64 + 1.0) / 2.0);
    }
    ranks
}

/// Spearman's correlation.
fn rank_correlation(pairs: &[(u32, u32)]) -> Option<f64> {
    let (inputs, outputs): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    correlation(&ranks(&inputs), &ranks(&outputs))
}

/// Pearson's correlation; `None` where one side is constant.
pub(super) fn correlation(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let ((x_mean, x_variance), (y_mean, y_variance)) = (moments(xs), moments(ys));
    let covariance = xs
        .iter()
        .zip(ys)
        .map(|(x, y)| (x - x_mean) * (y - y_mean))
        .sum::<f64>()
        / xs.len() as f64;
    (x_variance > 0.0 && y_variance > 0.0).then(|| covariance / (x_variance * y_variance).sqrt())
}

/// What an infinite cache would find, block by block.
fn prefix_share(requests: &[Request], block: u32) -> PrefixShare {
    let mut seen = FxHashSet::default();
    let (mut blocks, mut hit_blocks, mut tokens, mut hit_tokens) = (0u64, 0u64, 0u64, 0u64);
    for request in requests {
        tokens += u64::from(request.prompt_tokens);
        let Prompt::Pieces(pieces) = &request.prompt else {
            continue;
        };
        let pieces = pieces.iter().filter(|piece| !is_tail(piece.segment));
        let starts = pieces.flat_map(|piece| {
            let ends = piece.start + piece.tokens;
            (piece.start..ends)
                .step_by(block as usize)
                .map(move |start| ((piece.segment, start), block.min(ends - start)))
        });
        blocks += starts.clone().count() as u64;
        for (_, tokens) in starts.clone().take_while(|(place, _)| seen.contains(place)) {
            hit_blocks += 1;
            hit_tokens += u64::from(tokens);
        }
        seen.extend(starts.map(|(place, _)| place));
    }
    PrefixShare {
        block,
        blocks: hit_blocks as f64 / blocks.max(1) as f64,
        tokens: hit_tokens as f64 / tokens.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_values_share_their_rank() {
        assert_eq!(ranks(&[5, 3, 5, 9]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(rank_correlation(&[(1, 3), (2, 2), (3, 1)]), Some(-1.0));
        assert_eq!(rank_correlation(&[(1, 3), (2, 3)]), None);
    }

    #[test]
    fn a_grid_is_seen_and_a_continuous_clock_has_none() {
        let ticks: Vec<f64> = (0..2000).map(|i| f64::from(i / 9) * 3.0).collect();
        assert_eq!(find_grid(&ticks), Some(3.0));
        assert_eq!(
            find_grid(&crate::workload::trace::twin::arrivals(
                60.0,
                &[5.0],
                1.0,
                5_000,
                3
            )),
            None
        );
    }

    #[test]
    fn equal_gaps_have_no_dispersion() {
        let times: Vec<f64> = (0..1000).map(|i| f64::from(i) * 0.25).collect();
        assert_eq!(dispersion(&times, 1.0, 0.0), Some(0.0));
        assert_eq!(dispersion(&times, 60.0, 0.0), None);
    }
}
