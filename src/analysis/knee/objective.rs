//! What a rate must meet to count as served.

use crate::analysis::{Estimate, RunResult, Verdict};
use crate::metrics::{Distribution, Metric, Summary};

/// A statistic of a latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// A quantile, in 0..=1.
    Quantile(f64),
}

/// `p99_ttft_ms <= 500`: a limit on a statistic over requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    /// Of what.
    pub metric: Metric,
    /// Which figure.
    pub statistic: Statistic,
    /// Largest allowed value in seconds.
    pub limit_s: f64,
}

/// All that must hold. An empty objective asks only for a steady state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objective {
    /// Share of requests that must meet every goodput limit.
    pub attainment: Option<f64>,
    /// Those limits in seconds, where they are known: they say which of them binds, and decide nothing.
    pub limits: Vec<(Metric, f64)>,
    /// Limits on statistics.
    pub constraints: Vec<Constraint>,
}

impl Objective {
    /// How far inside the objective a run is: positive is met. Attainment counts in shares of requests, a
    /// constraint in shares of its limit; the tightest decides. `None` where there is no steady state, or where
    /// the objective is empty and nothing can be missed.
    #[must_use]
    pub fn slack(&self, run: &RunResult) -> Option<Estimate> {
        let steady = run.quotable().filter(|_| run.verdict != Verdict::Unstable)?;
        let attainment = self.attainment.and_then(|share| {
            let reached = interval(run, "attainment").or_else(|| counted(steady))?;
            Some(Estimate {
                value: reached.value - share,
                low: reached.low - share,
                high: reached.high - share,
            })
        });
        let constraints = self
            .constraints
            .iter()
            .filter_map(|constraint| constraint.slack(run, steady));
        attainment
            .into_iter()
            .chain(constraints)
            .min_by(|a, b| a.value.total_cmp(&b.value))
    }
}

/// The share of good requests as it was counted, for a run that is not a sample of a steady state.
pub(super) fn counted(summary: &Summary) -> Option<Estimate> {
    let ended = summary.completed + summary.rejected + summary.timed_out;
    let value = summary.good? as f64 / ended.max(1) as f64;
    Some(Estimate {
        value,
        low: value,
        high: value,
    })
}

impl Constraint {
    fn slack(&self, run: &RunResult, steady: &Summary) -> Option<Estimate> {
        let distribution = distribution(steady, self.metric);
        let (name, value) = match self.statistic {
            Statistic::Mean => (self.metric.name().to_owned(), distribution.mean_s()?),
            Statistic::Quantile(p) => (
                format!("p{}_{}", p * 100.0, self.metric.name()),
                distribution.quantile_s(p)?,
            ),
        };
        let seen = interval(run, &name).unwrap_or(Estimate {
            value,
            low: value,
            high: value,
        });
        let slack = |value: f64| (self.limit_s - value) / self.limit_s;
        Some(Estimate {
            value: slack(seen.value),
            low: slack(seen.high),
            high: slack(seen.low),
        })
    }
}

pub(super) fn distribution(summary: &Summary, metric: Metric) -> &Distribution {
    match metric {
        Metric::Ttft => &summary.ttft,
        Metric::Tpot => &summary.tpot,
        Metric::Itl => &summary.itl,
        Metric::E2el => &summary.e2el,
        Metric::QueueTime => &summary.queue_time,
        Metric::ClientQueueTime => &summary.client_queue_time,
    }
}

/// The interval of that name.
pub(super) fn interval(run: &RunResult, name: &str) -> Option<Estimate> {
    run.intervals
        .iter()
        .find(|(of, _)| of == name)
        .map(|(_, estimate)| *estimate)
}
