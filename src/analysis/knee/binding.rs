//! Which promise is the first to break, and what a request spends that latency on.

use super::objective::{Objective, Statistic};
use crate::analysis::RunResult;
use crate::metrics::{Metric, PartSummary, RelaySummary, Summary};

/// The limit that a run is nearest to, or furthest beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binding {
    /// Of what.
    pub metric: Metric,
    /// Which figure of it: a share of requests that must be good is that quantile.
    pub statistic: Statistic,
    /// The figure in seconds.
    pub value_s: f64,
    /// The limit in seconds.
    pub limit_s: f64,
    /// The class of requests that it is promised to; `None` where it is promised to all.
    pub class: Option<usize>,
    /// Share of the figure that requests wait before their first step, where the metric has such a wait.
    pub queue: Option<f64>,
    /// Of a TTFT over prefill and decode replicas: the mean share of it that each stage takes, in the order of `Stage::ALL`.
    pub stages: Option<[f64; 7]>,
}

impl Binding {
    /// The tightest limit of `objective` in a run's steady state; `None` without one, or without limits.
    #[must_use]
    pub fn of(run: &RunResult, objective: &Objective) -> Option<Binding> {
        let steady = run.quotable()?;
        let of_class = objective.tightest_class(run).map(|(class, _)| class);
        let limits = match of_class {
            Some(class) => &objective.classes[class],
            None => &objective.limits,
        };
        let part = of_class.and_then(|class| Some((class, run.by_class.get(class)?)));
        let per_request = objective.attainment.into_iter().flat_map(|share| {
            let limits = limits.iter();
            limits.map(move |&(metric, limit_s)| (metric, Statistic::Quantile(share), limit_s))
        });
        let per_request = per_request.filter_map(|(metric, statistic, limit_s)| match part {
            Some(part) => Binding::to_class(part, metric, statistic, limit_s),
            None => Binding::to(steady, metric, statistic, limit_s),
        });
        let percentiles = objective.constraints.iter();
        let percentiles = percentiles.map(|limit| (limit.metric, limit.statistic, limit.limit_s));
        let percentiles = percentiles
            .filter_map(|(metric, statistic, limit_s)| Binding::to(steady, metric, statistic, limit_s));
        let tightest = per_request
            .chain(percentiles)
            .max_by(|a, b| a.used().total_cmp(&b.used()));
        let seen_s = run.whole.ttft.mean_s();
        let stages = run.relays.as_ref().and_then(|relays| stages(relays, seen_s));
        tightest.map(|binding| Binding {
            stages: stages.filter(|_| binding.metric == Metric::Ttft),
            ..binding
        })
    }

    /// The limit of a class. Its latencies are those of the whole run: of the steady stretch only its share of good
    /// requests is kept.
    fn to_class(
        (class, part): (usize, &PartSummary),
        metric: Metric,
        statistic: Statistic,
        limit_s: f64,
    ) -> Option<Binding> {
        let figure = |of: Metric| {
            let distribution = match of {
                Metric::Ttft => &part.ttft,
                Metric::Tpot => &part.tpot,
                Metric::E2el => &part.e2el,
                Metric::QueueTime => &part.queue_time,
                Metric::Itl | Metric::ClientQueueTime => return None,
            };
            statistic.of(distribution)
        };
        Binding::with(figure, metric, statistic, limit_s, Some(class))
    }

    fn to(steady: &Summary, metric: Metric, statistic: Statistic, limit_s: f64) -> Option<Binding> {
        let figure = |of: Metric| statistic.of(super::objective::distribution(steady, of));
        Binding::with(figure, metric, statistic, limit_s, None)
    }

    fn with(
        figure: impl Fn(Metric) -> Option<f64>,
        metric: Metric,
        statistic: Statistic,
        limit_s: f64,
        class: Option<usize>,
    ) -> Option<Binding> {
        let value_s = figure(metric)?;
        let waits = matches!(metric, Metric::Ttft | Metric::E2el) && value_s > 0.0;
        Some(Binding {
            metric,
            statistic,
            value_s,
            limit_s,
            class,
            queue: figure(Metric::QueueTime)
                .filter(|_| waits)
                .map(|queue_s| (queue_s / value_s).min(1.0)),
            stages: None,
        })
    }

    /// Share of the limit that is used up; above 1 it is broken.
    #[must_use]
    pub fn used(&self) -> f64 {
        self.value_s / self.limit_s
    }
}

/// What the stages to the first token are of it as clients see it, on average over the run; `None` where nobody got one that way.
fn stages(relays: &RelaySummary, seen_s: Option<f64>) -> Option<[f64; 7]> {
    let whole = relays.ttft_of_clients_s(seen_s);
    (relays.requests > 0 && whole > 0.0).then(|| relays.stages_s.map(|stage| stage / whole))
}
