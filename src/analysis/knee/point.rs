//! One rate of a knee search: the columns of its table.

use super::binding::Binding;
use super::limiter::Pressure;
use super::objective::{Objective, interval};
use crate::analysis::{Estimate, RunResult, Verdict};
use crate::metrics::{PartSummary, Summary};

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
    /// From the first arrival until the last request was done, in seconds.
    pub lasted_s: f64,
    /// How far inside the objective, see [`Objective::slack`].
    pub slack: Option<Estimate>,
    /// Share of good requests, where limits were set; where they are set for classes, of the class with the fewest.
    pub attainment: Option<Estimate>,
    /// Requests completed per second; at overload what the system can do.
    pub throughput: Option<Estimate>,
    /// Output tokens per second.
    pub output_tokens_per_s: Option<f64>,
    /// Mean prompt and output tokens of the requests that were answered.
    pub tokens_each: Option<(f64, f64)>,
    /// Share of the output tokens asked for that the engine's context cut off ([`Summary::cut_share`]).
    pub answers_cut: f64,
    /// Preemptions for each request answered, over the whole run.
    pub preemptions: f64,
    /// Median and 99th percentile in seconds.
    pub ttft_s: Option<(f64, f64)>,
    /// 95 % interval of its 99th percentile, seconds; without an upper end where the rate may lie past saturation.
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
    /// Mean number in the system: those, and answers on their way out.
    pub in_system: Option<f64>,
    /// Mean share of KV blocks in use.
    pub kv_usage: Option<f64>,
    /// Growth of the number in the system, requests per second.
    pub growth_per_s: f64,
    /// The promise that is nearest to breaking, or furthest beyond.
    pub binding: Option<Binding>,
    /// 99th percentiles of TTFT and TPOT of each class in seconds, over the whole run: of the steady stretch only shares are kept.
    pub by_class: Vec<[Option<f64>; 2]>,
    /// What the machines were up against, if the caller knows.
    pub pressure: Option<Pressure>,
    /// Requests that left without an answer.
    pub lost: Lost,
    /// The same of the class that is nearest to missing its SLO, where classes are told apart.
    pub lost_of_class: Option<Lost>,
    /// More turned away or given up than the objective leaves room for, or than a system that keeps up loses; or replicas that
    /// fail take a queue with them that would else grow.
    pub is_losing: bool,
    /// Requests wait at their client for a place among those in flight, and hardly any in the server.
    pub is_held_by_client: bool,
    /// Mean and 99th percentile of that wait in seconds, which no other latency has in it.
    pub client_queue_s: Option<(f64, f64)>,
    /// Something is asked for, and the run does not tell whether it is kept.
    pub is_unknown: bool,
    /// Fewer requests met another than miss the SLO beyond the share that may, so that no lower rate keeps it.
    pub is_out_of_reach: bool,
}

/// Shares of the requests that left without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lost {
    /// Turned away by the server, because of the load.
    pub refused: f64,
    /// Turned away because they are longer than the server holds.
    pub too_long: f64,
    /// Given up by their clients.
    pub given_up: f64,
    /// Lost with the replica that they were on.
    pub failed: f64,
    /// The class whose requests they are shares of; `None` of all requests.
    pub class: Option<usize>,
}

impl Lost {
    fn of(summary: &Summary) -> Lost {
        let ended = summary.ended().max(1) as f64;
        Lost {
            refused: (summary.rejected - summary.too_long) as f64 / ended,
            too_long: summary.too_long as f64 / ended,
            given_up: summary.timed_out as f64 / ended,
            failed: summary.failed as f64 / ended,
            class: None,
        }
    }

    /// Of a class, over the whole run: of the steady stretch only its share of good requests is kept.
    fn of_class(class: usize, part: &PartSummary) -> Lost {
        let ended = part.ended_requests().max(1) as f64;
        Lost {
            refused: (part.rejected - part.too_long) as f64 / ended,
            too_long: part.too_long as f64 / ended,
            given_up: part.timed_out as f64 / ended,
            failed: part.failed as f64 / ended,
            class: Some(class),
        }
    }

    /// What the load costs: refused and given up. Replicas fail at any load, and too long is too long at any: both are left out.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.refused + self.given_up
    }

    /// All that left without an answer.
    #[must_use]
    pub fn unanswered(&self) -> f64 {
        self.share() + self.too_long + self.failed
    }
}

fn tails(class: &PartSummary) -> [Option<f64>; 2] {
    [&class.ttft, &class.tpot].map(|latency| latency.quantile_s(0.99))
}

/// Of those that run in the server, the share that may wait there while it is the client who holds requests back.
const HARDLY_ANY: f64 = 0.1;

fn is_held_by_client(summary: &Summary) -> bool {
    let (waiting, running) = (summary.occupancy.waiting, summary.occupancy.running);
    client_queue_s(summary).is_some() && waiting <= HARDLY_ANY * running
}

/// Mean and 99th percentile of the wait at the client; `None` where nobody waits there.
fn client_queue_s(summary: &Summary) -> Option<(f64, f64)> {
    let queue = &summary.client_queue_time;
    let mean_s = queue.mean_s().filter(|mean_s| *mean_s > 0.0)?;
    Some((mean_s, queue.quantile_s(0.99)?))
}

/// Share of requests that may be lost while a rate counts as served, where the objective does not allow for more.
const LOST_MAX: f64 = 0.05;
/// Mean number in the system below which requests hardly ever meet, and no lower rate makes them faster: about the share
/// of requests that meet another, which must be small against those that may miss a promise.
const ALONE: f64 = 0.0005;

impl Point {
    /// The row of a judged run. The caller adds the pressure.
    #[must_use]
    pub fn of(rate: f64, run: &RunResult, objective: &Objective) -> Point {
        let steady = run.quotable();
        let lost = Lost::of(steady.unwrap_or(&run.whole));
        let slack = objective.slack(run);
        let tightest = steady.and_then(|_| objective.tightest_class(run));
        let lost_of_class =
            tightest.and_then(|(class, _)| Some(Lost::of_class(class, run.by_class.get(class)?)));
        // A finite run is no sample: its rates are counted over the whole of it.
        let per_s = |count: fn(&Summary) -> u64| {
            let whole = steady.filter(|_| run.steady.is_none())?;
            Some(count(whole) as f64 / whole.duration_s.max(f64::MIN_POSITIVE))
        };
        let exactly = |value| Estimate {
            value,
            low: value,
            high: value,
        };
        let pair = |of: fn(&crate::metrics::Summary) -> &crate::metrics::Distribution| {
            let quantiles = of(steady?).quantiles_s(&[0.5, 0.99]);
            Some((quantiles[0]?, quantiles[1]?))
        };
        Point {
            rate,
            verdict: run.verdict,
            reason: run.reasons.first().cloned().unwrap_or_default(),
            requests: run.whole.sent,
            lasted_s: run.whole.duration_s,
            slack,
            attainment: steady.and_then(|steady| objective.reached(run, steady)),
            throughput: interval(run, "throughput").or_else(|| per_s(|whole| whole.completed).map(exactly)),
            output_tokens_per_s: interval(run, "output_throughput")
                .map(|estimate| estimate.value)
                .or_else(|| per_s(|whole| whole.output_tokens)),
            tokens_each: steady.filter(|summary| summary.completed > 0).map(|summary| {
                let each = |tokens: u64| tokens as f64 / summary.completed as f64;
                (each(summary.input_tokens), each(summary.output_tokens))
            }),
            answers_cut: steady.unwrap_or(&run.whole).cut_share(),
            preemptions: run.whole.preemptions as f64 / run.whole.completed.max(1) as f64,
            ttft_s: pair(|summary| &summary.ttft),
            p99_ttft: interval(run, "p99_ttft"),
            tpot_s: pair(|summary| &summary.tpot),
            itl_s: pair(|summary| &summary.itl),
            e2el_s: pair(|summary| &summary.e2el),
            running: steady.map(|summary| summary.occupancy.running),
            waiting: steady.map(|summary| summary.occupancy.waiting),
            in_system: steady.map(|summary| summary.occupancy.in_system),
            kv_usage: steady.map(|summary| summary.occupancy.kv_usage),
            growth_per_s: run.growth_per_s,
            binding: Binding::of(run, objective),
            by_class: match steady {
                Some(_) => run.by_class.iter().map(tails).collect(),
                None => Vec::new(),
            },
            pressure: None,
            lost,
            lost_of_class,
            is_losing: {
                let may_lose = LOST_MAX.max(1.0 - objective.attainment.unwrap_or(1.0));
                let queues =
                    steady.is_some_and(|summary| summary.occupancy.aside() > summary.occupancy.running);
                lost.share() > may_lose || (queues && lost.failed > may_lose)
            },
            is_held_by_client: is_held_by_client(steady.unwrap_or(&run.whole)),
            client_queue_s: client_queue_s(steady.unwrap_or(&run.whole)),
            is_unknown: slack.is_none() && !objective.is_empty(),
            is_out_of_reach: false,
        }
    }

    /// Told that at most a share `met` of the requests met another: the others would have fared no better at any lower rate.
    pub fn with_met(&mut self, met: f64, objective: &Objective) {
        let reached = self.attainment.map(|share| share.value + met);
        let is_out = objective.attainment.zip(reached);
        self.is_out_of_reach = is_out.is_some_and(|(asked, reached)| reached < asked);
    }

    /// Told that there was no time for more requests, of all or of a class, which are fewer than a run must have before anything
    /// is decided: that hardly any missed the SLO is no sign then, only that many did.
    pub fn cut_short(&mut self) {
        if self.slack.is_some_and(|slack| slack.high >= 0.0) {
            self.slack = None;
            self.is_unknown = true;
            self.verdict = Verdict::TooShort;
        }
    }

    /// Whether the rate meets the objective, as far as its run tells. Overloaded it does not.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.keeps_up() && self.slack.map_or(!self.is_unknown, |slack| slack.value >= 0.0)
    }

    /// Whether it does so beyond the sampling error.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.is_within() && self.slack.is_none_or(|slack| slack.low >= 0.0)
    }

    /// Whether it does so, or is not seen to miss the SLO beyond the sampling error.
    #[must_use]
    pub fn may_be_within(&self) -> bool {
        self.keeps_up() && self.slack.map_or(!self.is_unknown, |slack| slack.high >= 0.0)
    }

    /// Whether there are too few requests to tell whether the SLO is met, at a rate that is kept up with: at lower ones
    /// there are fewer.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.is_unknown && self.verdict == Verdict::TooShort && self.keeps_up()
    }

    /// Whether what is offered is served: the queue keeps within bounds, and not by turning requests away.
    #[must_use]
    pub fn keeps_up(&self) -> bool {
        self.has_steady_state() && !self.is_losing
    }

    /// Whether requests hardly ever meet, so that none would be faster at a lower rate.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.in_system.is_some_and(|inside| inside < ALONE)
    }

    /// Whether the SLO is missed, and no lower rate would keep it.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let is_broken = self.slack.is_some_and(|slack| slack.value < 0.0);
        is_broken && (self.is_alone() || self.is_out_of_reach)
    }

    /// Whether not all that is offered is sent, because the client waits for answers.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.is_held_by_client && !self.keeps_up()
    }

    /// Whether the queue keeps within bounds, as far as one could see.
    #[must_use]
    pub fn has_steady_state(&self) -> bool {
        self.verdict != Verdict::Unstable
    }
}
