//! One rate of a knee search: the columns of its table.

use super::binding::Binding;
use super::limiter::Pressure;
use super::objective::{Objective, counted, interval};
use crate::analysis::{Estimate, RunResult, Verdict};

/// A rate and what became of it. Latencies are `None` where no steady state was reached: then they would be a
/// function of the run's length.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Offered load in requests per second.
    pub rate: f64,
    /// The run's verdict.
    pub verdict: Verdict,
    /// The most important sentence behind it.
    pub reason: String,
    /// Requests simulated.
    pub requests: u64,
    /// How far inside the objective, see [`Objective::slack`].
    pub slack: Option<Estimate>,
    /// Share of good requests, where limits were set.
    pub attainment: Option<Estimate>,
    /// Requests completed per second; at overload what the system can do.
    pub throughput: Option<Estimate>,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Median and 99th percentile in seconds.
    pub ttft_s: Option<(f64, f64)>,
    /// 95 % interval of its 99th percentile, seconds.
    pub p99_ttft: Option<Estimate>,
    /// Median and 99th percentile in seconds.
    pub tpot_s: Option<(f64, f64)>,
    /// Median and 99th percentile in seconds, over every gap.
    pub itl_s: Option<(f64, f64)>,
    /// Median and 99th percentile in seconds.
    pub e2el_s: Option<(f64, f64)>,
    /// Mean running sequences.
    pub running: Option<f64>,
    /// Mean waiting sequences.
    pub waiting: Option<f64>,
    /// Mean share of KV blocks in use.
    pub kv_usage: Option<f64>,
    /// Growth of the number in the system, requests per second.
    pub growth_per_s: f64,
    /// The promise that is nearest to breaking, or furthest beyond.
    pub binding: Option<Binding>,
    /// What the machines were up against, if the caller knows.
    pub pressure: Option<Pressure>,
}

impl Point {
    /// The row of a judged run. The caller adds the pressure.
    #[must_use]
    pub fn of(rate: f64, run: &RunResult, objective: &Objective) -> Point {
        let steady = run.quotable();
        let pair = |of: fn(&crate::metrics::Summary) -> &crate::metrics::Distribution| {
            let quantiles = of(steady?).quantiles_s(&[0.5, 0.99]);
            Some((quantiles[0]?, quantiles[1]?))
        };
        Point {
            rate,
            verdict: run.verdict,
            reason: run.reasons.first().cloned().unwrap_or_default(),
            requests: run.whole.sent,
            slack: objective.slack(run),
            attainment: interval(run, "attainment").or_else(|| steady.and_then(counted)),
            throughput: interval(run, "throughput"),
            output_tokens_per_s: interval(run, "output_throughput").map(|estimate| estimate.value),
            ttft_s: pair(|summary| &summary.ttft),
            p99_ttft: interval(run, "p99_ttft"),
            tpot_s: pair(|summary| &summary.tpot),
            itl_s: pair(|summary| &summary.itl),
            e2el_s: pair(|summary| &summary.e2el),
            running: steady.map(|summary| summary.occupancy.running),
            waiting: steady.map(|summary| summary.occupancy.waiting),
            kv_usage: steady.map(|summary| summary.occupancy.kv_usage),
            growth_per_s: run.growth_per_s,
            binding: Binding::of(run, objective),
            pressure: None,
        }
    }

    /// Whether the rate meets the objective. Without a steady state it does not.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.has_steady_state() && self.slack.is_none_or(|slack| slack.value >= 0.0)
    }

    /// Whether the queue keeps within bounds, as far as one could see.
    #[must_use]
    pub fn has_steady_state(&self) -> bool {
        self.verdict != Verdict::Unstable
    }
}
