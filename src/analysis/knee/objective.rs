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

    /// Whether nothing is asked for but a steady state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.attainment.is_none() && self.constraints.is_empty()
    }

    /// Whether a run keeps all of it, by its point estimates: over the steady stretch, or over the whole of a finite
    /// experiment. Overload keeps nothing. `None` where nothing is asked for, or the run is too short to say.
    #[must_use]
    pub fn is_kept(&self, run: &RunResult) -> Option<bool> {
        match run.verdict {
            _ if self.is_empty() => None,
            Verdict::Unstable => Some(false),
            Verdict::TooShort => None,
            Verdict::Stable | Verdict::Critical | Verdict::Finite => {
                let summary = run.steady.as_ref().unwrap_or(&run.whole);
                Some(self.holds_over(summary))
            }
        }
    }

    /// Whether all of it holds over a stretch of a run, whatever the run is judged to be.
    #[must_use]
    pub fn holds_over(&self, summary: &Summary) -> bool {
        let is_attained = self.attainment.is_none_or(|asked| {
            let good = summary.good.unwrap_or(0) as f64;
            good / summary.completed.max(1) as f64 >= asked
        });
        let is_within = |constraint: &Constraint| {
            constraint
                .value_s(summary)
                .is_none_or(|value| value <= constraint.limit_s)
        };
        is_attained && self.constraints.iter().all(is_within)
    }
}

/// The share of good requests as it was counted, for a run that is not a sample of a steady state.
pub(super) fn counted(summary: &Summary) -> Option<Estimate> {
    let ended = summary.ended();
    let value = summary.good? as f64 / ended.max(1) as f64;
    Some(Estimate {
        value,
        low: value,
        high: value,
    })
}

impl Constraint {
    /// The limited statistic in seconds; `None` where no request has that latency.
    fn value_s(&self, summary: &Summary) -> Option<f64> {
        let distribution = distribution(summary, self.metric);
        match self.statistic {
            Statistic::Mean => distribution.mean_s(),
            Statistic::Quantile(p) => distribution.quantile_s(p),
        }
    }

    fn slack(&self, run: &RunResult, steady: &Summary) -> Option<Estimate> {
        let value = self.value_s(steady)?;
        let name = match self.statistic {
            Statistic::Mean => self.metric.name().to_owned(),
            Statistic::Quantile(p) => format!("p{}_{}", p * 100.0, self.metric.name()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{LoadKind, Precision, judge};
    use crate::metrics::single_server::{self, Server};
    use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
    use crate::units::Picos;

    /// An M/M/1 queue in which a good request stays at most six service times: at ρ = ½ a share of 1 − e⁻³ = 0.950.
    fn queue(rate: f64, requests: u64) -> RunResult {
        let mut recorder = Recorder::new(RecorderOptions {
            fleet: Fleet::alike(1, 100, 16),
            slo: SloLimits {
                e2el: Some(Picos::from_seconds(6.0)),
                ..SloLimits::default()
            },
            records: Records::None,
        });
        let end = single_server::run(&Server::mm1(rate, requests, 3), &mut recorder);
        judge(recorder.finish(end), LoadKind::Open, &Precision::default())
    }

    #[test]
    fn a_promise_is_kept_broken_or_not_yet_known() {
        let share = |share| Objective {
            attainment: Some(share),
            ..Objective::default()
        };
        let median = |limit_s| Objective {
            constraints: vec![Constraint {
                metric: Metric::E2el,
                statistic: Statistic::Quantile(0.5),
                limit_s,
            }],
            ..Objective::default()
        };
        let half = queue(0.5, 20_000);
        assert_eq!(share(0.93).is_kept(&half), Some(true));
        assert_eq!(share(0.97).is_kept(&half), Some(false));
        // The median stay is 2·ln 2 = 1.39.
        assert_eq!(median(1.5).is_kept(&half), Some(true));
        assert_eq!(median(1.3).is_kept(&half), Some(false));
        assert_eq!(Objective::default().is_kept(&half), None);
        assert_eq!(share(0.01).is_kept(&queue(1.5, 5_000)), Some(false));
        assert_eq!(share(0.01).is_kept(&queue(0.5, 60)), None);
    }
}
