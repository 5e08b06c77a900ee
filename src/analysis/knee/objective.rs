//! What a rate must meet to count as served.

use crate::analysis::attainment::good_share_of_all;
use crate::analysis::percentile::QUANTILES;
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

impl Statistic {
    /// This statistic of a latency in seconds; `None` where there is none.
    pub(super) fn of(self, distribution: &Distribution) -> Option<f64> {
        match self {
            Statistic::Mean => distribution.mean_s(),
            Statistic::Quantile(p) => distribution.quantile_s(p),
        }
    }
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
    /// The limits of each class of requests in seconds, its own or those of all; empty of one that nothing is promised to.
    /// Where there are classes, every one of them must reach the share by itself.
    pub classes: Vec<Vec<(Metric, f64)>>,
    /// Limits on statistics.
    pub constraints: Vec<Constraint>,
}

impl Objective {
    /// How far inside the objective a run is: positive is met. Attainment counts in shares of requests, a
    /// constraint in shares of its limit; the tightest decides. `None` where there is no steady state, or where
    /// the objective is empty and nothing can be missed.
    #[must_use]
    pub fn slack(&self, run: &RunResult) -> Option<Estimate> {
        let parts = self.slacks(run)?.into_iter();
        parts.min_by(|a, b| a.value.total_cmp(&b.value))
    }

    /// Whether a run leaves no doubt that all of it is kept, or that it is not: one part is surely broken, or none may be. A run
    /// that is no sample of anything has no intervals and says what it saw. One that is too short decides at most that an
    /// SLO is missed: its server begins empty, so that a longer run misses more.
    #[must_use]
    pub fn is_decided(&self, run: &RunResult) -> bool {
        let parts = self.slacks(run).unwrap_or_default();
        if parts.iter().any(|slack| slack.high < 0.0) {
            return true;
        }
        match run.verdict {
            Verdict::TooShort => run.steady.is_none() && self.is_missed_by_far(run),
            _ => parts.iter().all(|slack| slack.low >= 0.0),
        }
    }

    /// Whether the requests of a run without a steady stretch miss the share that is asked by more than chance.
    fn is_missed_by_far(&self, run: &RunResult) -> bool {
        let seen = good_share_of_all(&run.whole).filter(|_| !self.tells_classes_apart());
        let (Some(asked), Some(seen)) = (self.attainment, seen) else {
            return false;
        };
        seen.high < asked
    }

    /// The same of every part of it.
    fn slacks(&self, run: &RunResult) -> Option<Vec<Estimate>> {
        let steady = run.quotable().filter(|_| run.verdict != Verdict::Unstable)?;
        let attainment = match self.attainment {
            None => None,
            // What is not known of a share is not known of the promise, whatever else is kept.
            Some(share) => {
                let reached = self.reached(run, steady)?;
                Some(Estimate {
                    value: reached.value - share,
                    low: reached.low - share,
                    high: reached.high - share,
                })
            }
        };
        let constraints = self
            .constraints
            .iter()
            .filter_map(|constraint| constraint.slack(run, steady));
        Some(attainment.into_iter().chain(constraints).collect())
    }

    /// Whether classes are judged one by one.
    #[must_use]
    pub fn tells_classes_apart(&self) -> bool {
        self.classes.iter().any(|limits| !limits.is_empty())
    }

    /// The class furthest below, or least above, the share that is asked of each, by what `share_of` says of it. A class of
    /// which requests were sent and nobody has left is starved, and none of them is good. `None` where nothing is known of a
    /// class that is promised something, so that the lowest is not known; nothing is promised to a class that sent nothing.
    fn lowest_class(
        &self,
        run: &RunResult,
        share_of: impl Fn(usize) -> Option<Estimate>,
    ) -> Option<(usize, Estimate)> {
        const NONE: Estimate = Estimate {
            value: 0.0,
            low: 0.0,
            high: 0.0,
        };
        let part = |class: usize| run.by_class.get(class);
        let promised = self.classes.iter().enumerate();
        let promised = promised
            .filter(|(class, limits)| !limits.is_empty() && part(*class).is_none_or(|part| part.sent > 0));
        let share = |(class, _)| {
            let starved = || {
                part(class)
                    .filter(|part| part.ended_requests() == 0)
                    .map(|_| NONE)
            };
            Some((class, share_of(class).or_else(starved)?))
        };
        let shares: Option<Vec<_>> = promised.map(share).collect();
        let shares = shares?.into_iter();
        shares.min_by(|a, b| a.1.value.total_cmp(&b.1.value))
    }

    /// The class that is nearest to missing its SLO, or misses it by most, and the share of its requests that are good.
    #[must_use]
    pub fn tightest_class(&self, run: &RunResult) -> Option<(usize, Estimate)> {
        self.lowest_class(run, |class| run.class_attainment.get(class).copied().flatten())
    }

    /// Share of the requests that are good, of the class where it is lowest.
    pub(super) fn reached(&self, run: &RunResult, steady: &Summary) -> Option<Estimate> {
        if self.tells_classes_apart() {
            return self.tightest_class(run).map(|(_, share)| share);
        }
        interval(run, "attainment").or_else(|| counted(steady))
    }

    /// Whether nothing is promised but how fast tokens follow each other.
    #[must_use]
    pub fn is_of_pace(&self) -> bool {
        let is_of_pace = |metric: Metric| matches!(metric, Metric::Tpot | Metric::Itl);
        let limits = self.limits.iter().chain(self.classes.iter().flatten());
        let mut metrics = limits
            .map(|(metric, _)| *metric)
            .chain(self.constraints.iter().map(|constraint| constraint.metric));
        metrics.all(is_of_pace)
    }

    /// Whether nothing is asked for but a steady state.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.attainment.is_none() && self.constraints.is_empty()
    }

    /// Whether a run keeps all of it, by its point estimates: over the steady stretch, or over the whole of a finite
    /// experiment, or of a run that is too short to say more than what it saw. Overload keeps nothing. `None` where nothing is
    /// asked for, nobody was sent, or nobody has left.
    #[must_use]
    pub fn is_kept(&self, run: &RunResult) -> Option<bool> {
        match run.verdict {
            _ if self.is_empty() || run.whole.sent == 0 => None,
            Verdict::Unstable => Some(false),
            Verdict::TooShort if run.whole.ended() == 0 => None,
            Verdict::Stable | Verdict::Critical | Verdict::Finite | Verdict::TooShort => {
                let summary = run.steady.as_ref().unwrap_or(&run.whole);
                let lowest = self.tightest_class(run).map(|(_, share)| share.value);
                let is_known = self.attainment.is_none() || !self.tells_classes_apart() || lowest.is_some();
                is_known.then(|| self.holds_over(summary, lowest))
            }
        }
    }

    /// Whether all of it holds over the whole of a run, whatever the run is judged to be.
    #[must_use]
    pub fn holds_over_whole(&self, run: &RunResult) -> bool {
        let share = |class: usize| {
            let value = run.by_class.get(class)?.counted_share()?.value;
            Some(Estimate {
                value,
                low: value,
                high: value,
            })
        };
        let lowest = self.lowest_class(run, share);
        self.holds_over(&run.whole, lowest.map(|(_, share)| share.value))
    }

    /// Whether all of it holds over a stretch of a run, given the lowest share of good requests among its classes.
    fn holds_over(&self, summary: &Summary, lowest_class: Option<f64>) -> bool {
        let is_attained = self.attainment.is_none_or(|asked| {
            // A request without an answer is not good.
            let of_all = || summary.good.unwrap_or(0) as f64 / summary.ended().max(1) as f64;
            lowest_class.unwrap_or_else(of_all) >= asked
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
        self.statistic.of(distribution(summary, self.metric))
    }

    /// The limited statistic over a stretch of a run in seconds, with its interval where that is known.
    #[must_use]
    pub fn estimate(&self, run: &RunResult, stretch: &Summary) -> Option<Estimate> {
        let value = self.value_s(stretch)?;
        let seen = match self.statistic {
            Statistic::Mean => interval(run, self.metric.name()),
            Statistic::Quantile(p) => quantile_interval(run, self.metric, p, value),
        };
        Some(seen.unwrap_or(Estimate {
            value,
            low: value,
            high: value,
        }))
    }

    fn slack(&self, run: &RunResult, steady: &Summary) -> Option<Estimate> {
        let seen = self.estimate(run, steady)?;
        let slack = |value: f64| (self.limit_s - value) / self.limit_s;
        Some(Estimate {
            value: slack(seen.value),
            low: slack(seen.high),
            high: slack(seen.low),
        })
    }
}

/// The interval around a quantile of a latency: its own, or that of the next higher one whose interval is known, which is the
/// wider. Beyond the highest the half-width grows as that of an exponential tail does, with `√(p/(1 − p))`. `None` of a run
/// that is no sample.
fn quantile_interval(run: &RunResult, metric: Metric, p: f64, value: f64) -> Option<Estimate> {
    let [.., (last, highest)] = QUANTILES;
    let next = QUANTILES.iter().find(|(_, known)| *known >= p - 1e-9);
    let (label, times) = match next {
        Some((label, _)) => (*label, 1.0),
        None => {
            let odds = |p: f64| p / (1.0 - p).max(f64::EPSILON);
            (last, (odds(p) / odds(highest)).sqrt())
        }
    };
    let known = interval(run, &format!("{label}_{}", metric.name()))?;
    Some(Estimate {
        value,
        low: (value - times * (known.value - known.low)).max(0.0),
        high: value + times * (known.high - known.value),
    })
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
        // Too short to say anything of the load, and what it saw is told.
        let short = queue(0.5, 60);
        assert_eq!(short.verdict, Verdict::TooShort);
        assert_eq!(share(0.01).is_kept(&short), Some(true));
        assert_eq!(median(0.1).is_kept(&short), Some(false));
        assert_eq!(share(0.01).slack(&short), None);
    }

    #[test]
    fn a_promise_within_the_interval_is_not_decided_unless_another_is_broken() {
        let mut run = queue(0.5, 20_000);
        run.intervals.retain(|(name, _)| name != "attainment");
        let around = Estimate {
            value: 0.9896,
            low: 0.988,
            high: 0.991,
        };
        run.intervals.push(("attainment".to_owned(), around));
        let mut objective = Objective {
            attainment: Some(0.99),
            ..Objective::default()
        };
        assert!(!objective.is_decided(&run));
        objective.attainment = Some(0.985);
        assert!(objective.is_decided(&run));
        objective.attainment = Some(0.99);
        // The median stay is 1.39.
        objective.constraints.push(Constraint {
            metric: Metric::E2el,
            statistic: Statistic::Quantile(0.5),
            limit_s: 1.0,
        });
        assert!(objective.is_decided(&run));
        assert!(objective.is_decided(&queue(1.5, 5_000)), "overload keeps nothing");
    }

    #[test]
    fn a_run_that_is_too_short_decides_at_most_that_a_promise_is_broken() {
        let share = |share| Objective {
            attainment: Some(share),
            ..Objective::default()
        };
        let short = queue(0.5, 60);
        assert!(short.verdict == Verdict::TooShort && short.steady.is_none());
        let mut nearly = short.clone();
        nearly.whole.good = Some(nearly.whole.ended() - 2);
        assert!(!share(0.01).is_decided(&nearly) && !share(0.99).is_decided(&nearly));
        let mut bad = short.clone();
        bad.whole.good = Some(bad.whole.ended() / 10);
        assert!(share(0.97).is_decided(&bad));
        assert_eq!(share(0.97).is_kept(&bad), Some(false));
        // With a steady stretch, whose interval is above what is asked.
        let mut drifting = queue(0.5, 20_000);
        assert!(share(0.9).is_decided(&drifting));
        drifting.verdict = Verdict::TooShort;
        assert!(!share(0.9).is_decided(&drifting));
        assert!(share(0.99).is_decided(&drifting), "surely broken");
    }

    #[test]
    fn a_quantile_without_an_interval_of_its_own_is_known_no_better_than_its_neighbour() {
        let run = queue(0.5, 20_000);
        let width = |percentile: f64| {
            let constraint = Constraint {
                metric: Metric::E2el,
                statistic: Statistic::Quantile(percentile / 100.0),
                limit_s: 1.0,
            };
            let slack = constraint
                .slack(&run, run.steady.as_ref().expect("steady"))
                .expect("known");
            slack.high - slack.low
        };
        assert!(width(95.0) > width(50.0) && width(50.0) > 0.0);
        assert!((width(97.0) - width(99.0)).abs() < 1e-9);
        assert!((width(99.9) / width(99.0) - (999.0f64 / 99.0).sqrt()).abs() < 1e-6);
    }

    #[test]
    fn a_class_that_nobody_left_of_keeps_no_promise() {
        use crate::metrics::PartSummary;
        let objective = Objective {
            attainment: Some(0.5),
            classes: vec![vec![(Metric::E2el, 6.0)], vec![(Metric::E2el, 6.0)]],
            ..Objective::default()
        };
        let of = |sent, completed, share: Option<f64>| {
            let mut run = queue(0.5, 20_000);
            let part = |sent, completed| {
                let mut part = PartSummary::default();
                (part.sent, part.completed) = (sent, completed);
                part
            };
            let (whole, other) = (part(1_000, 1_000), part(sent, completed));
            let exact = |value| Estimate {
                value,
                low: value,
                high: value,
            };
            run.by_class = vec![whole, other];
            run.class_attainment = vec![Some(exact(0.9)), share.map(exact)];
            let slack = objective.slack(&run).map(|slack| slack.value);
            (slack, objective.is_kept(&run))
        };
        assert_eq!(of(500, 500, Some(0.75)), (Some(0.25), Some(true)));
        assert_eq!(of(500, 0, None), (Some(-0.5), Some(false)), "starved");
        assert_eq!(of(500, 3, None), (None, None), "nobody left in the stretch");
        assert_eq!(of(0, 0, None), (Some(0.4), Some(true)), "no SLO was given");
    }
}
