//! What became of each class of requests, and of what each pool answered, over a whole run.
//!
//! Laws: classes partition what was sent, and pools what was completed. Little's law holds for each class: the time that its
//! number inside sums up to is that of the stays its requests tell, to the picosecond.

use super::distribution::Distribution;
use super::options::SloLimits;
use crate::sim::{Completion, Outcome};
use crate::stats::Interval;
use crate::units::{PICOS_PER_SECOND, Picos};

/// One class of requests, or one pool's share of them.
#[derive(Clone, Debug, Default)]
pub struct PartSummary {
    /// Requests sent; of a pool those that reached it and left.
    pub sent: u64,
    /// Requests answered whole.
    pub completed: u64,
    /// Requests refused; a pool's never reach it.
    pub rejected: u64,
    /// Those of them that are longer than the server holds.
    pub too_long: u64,
    /// Requests whose client gave up.
    pub timed_out: u64,
    /// Requests lost with a replica.
    pub failed: u64,
    /// Requests that met every limit that holds for them.
    pub good: u64,
    /// Prompt tokens of completed requests.
    pub input_tokens: u64,
    /// Output tokens of completed requests.
    pub output_tokens: u64,
    /// Time to first token, per request.
    pub ttft: Distribution,
    /// Mean time per output token after the first, per request of more than one.
    pub tpot: Distribution,
    /// Send to last token, per request.
    pub e2el: Distribution,
    /// Arrival to first scheduling, per request.
    pub queue_time: Distribution,
    /// Its requests by the pool that they left, in the pools' order (of prefill and decode apart the latter); of a class, where
    /// there are several pools.
    pub by_pool: Vec<Served>,
    /// When its first and its last request were sent; of a class only, and `None` while none was.
    pub sending: Option<(Picos, Picos)>,
    /// Time that its requests have spent inside, told by each that left; of a class only.
    stays: i128,
    /// The same by when they were seen to come and to leave.
    seen: i128,
}

/// Requests of a class that left one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// However they left.
    pub ended: u64,
    /// Those of them that met every limit that holds for them.
    pub good: u64,
}

/// Latencies of a completed request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latencies {
    pub(super) ttft: Picos,
    /// `None` for an answer of one token.
    pub(super) tpot: Option<Picos>,
    pub(super) e2el: Picos,
    pub(super) queued: Picos,
}

/// The classes and pools of a run, as far as it has any.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) classes: Vec<PartSummary>,
    slos: Vec<SloLimits>,
    pub(super) pools: Vec<PartSummary>,
    pool_of: Vec<u32>,
}

impl Parts {
    /// Of classes with these limits, and of replicas in these pools; `None` where there is only one of each.
    pub(super) fn new(slos: Vec<SloLimits>, pool_of: &[u32]) -> Option<Box<Parts>> {
        let pools = pool_of.iter().max().map_or(0, |&last| last as usize + 1);
        let has_pools = pools > 1;
        (has_pools || !slos.is_empty()).then(|| {
            Box::new(Parts {
                classes: vec![
                    PartSummary {
                        by_pool: vec![Served::default(); if has_pools { pools } else { 0 }],
                        ..PartSummary::default()
                    };
                    slos.len()
                ],
                slos,
                pools: vec![PartSummary::default(); if has_pools { pools } else { 0 }],
                pool_of: pool_of.to_vec(),
            })
        })
    }

    /// The limits of a class; `None` where there are no classes.
    pub(super) fn slo(&self, class: u32) -> Option<SloLimits> {
        self.slos.get(class as usize).copied()
    }

    /// Whether any class has a limit.
    pub(super) fn any_limit(&self) -> bool {
        self.slos.iter().any(SloLimits::any)
    }

    pub(super) fn sent(&mut self, class: u32, now: Picos) {
        if let Some(part) = self.classes.get_mut(class as usize) {
            part.sent += 1;
            part.sending = Some((part.sending.map_or(now, |(first, _)| first), now));
            part.seen -= i128::from(now.0);
        }
    }

    /// A request that came at `arrival` is refused.
    pub(super) fn rejected(&mut self, class: u32, (arrival, now): (Picos, Picos), is_too_long: bool) {
        if let Some(part) = self.classes.get_mut(class as usize) {
            part.rejected += 1;
            part.too_long += u64::from(is_too_long);
            part.stays += i128::from(now.0) - i128::from(arrival.0);
            part.seen += i128::from(now.0);
        }
    }

    /// A request left; its latencies, and whether it was good, if it was answered whole.
    pub(super) fn ended(&mut self, class: u32, completion: &Completion, answered: Option<(Latencies, bool)>) {
        if let Some(part) = self.classes.get_mut(class as usize) {
            part.ended(completion, answered);
            part.stays += i128::from(completion.end.0) - i128::from(completion.arrival.0);
            part.seen += i128::from(completion.end.0);
        }
        if completion.outcome == Outcome::Rejected || self.pools.is_empty() {
            return;
        }
        let pool = self.pool_of[completion.replica.0 as usize];
        let part = &mut self.pools[pool as usize];
        part.sent += 1;
        part.ended(completion, answered);
        if let Some(class) = self.classes.get_mut(class as usize) {
            let served = &mut class.by_pool[pool as usize];
            served.ended += 1;
            served.good += u64::from(answered.is_some_and(|(_, is_good)| is_good));
        }
    }

    /// Broken laws, in words.
    pub(super) fn violations(&self, sent: u64, completed: u64) -> Vec<String> {
        let mut broken = Vec::new();
        let by_class: u64 = self.classes.iter().map(|part| part.sent).sum();
        if !self.classes.is_empty() && by_class != sent {
            broken.push(format!("{sent} requests were sent, {by_class} of the classes"));
        }
        for (index, part) in self.classes.iter().enumerate() {
            if part.sent == part.ended_requests() && part.seen != part.stays {
                broken.push(format!(
                    "Little's law fails for class {index}: {} ps inside, its requests stayed {} ps",
                    part.seen, part.stays
                ));
            }
        }
        let by_pool: u64 = self.pools.iter().map(|part| part.completed).sum();
        if !self.pools.is_empty() && by_pool != completed {
            broken.push(format!(
                "{completed} requests were completed, {by_pool} in the pools"
            ));
        }
        broken
    }
}

impl PartSummary {
    fn ended(&mut self, completion: &Completion, answered: Option<(Latencies, bool)>) {
        match completion.outcome {
            Outcome::Completed => self.completed += 1,
            Outcome::TimedOut => self.timed_out += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Rejected => self.rejected += 1,
        }
        let Some((latencies, is_good)) = answered else {
            return;
        };
        self.good += u64::from(is_good);
        self.input_tokens += u64::from(completion.prompt_tokens);
        self.output_tokens += u64::from(completion.output_tokens);
        self.ttft.record_one(latencies.ttft);
        if let Some(tpot) = latencies.tpot {
            self.tpot.record_one(tpot);
        }
        self.e2el.record_one(latencies.e2el);
        self.queue_time.record_one(latencies.queued);
    }

    /// Share of the requests that left which met every limit, as it was counted and not as a sample; `None` where nobody left.
    #[must_use]
    pub fn counted_share(&self) -> Option<Interval> {
        let ended = self.ended_requests();
        (ended > 0).then(|| Interval {
            value: self.good as f64 / ended as f64,
            half_width: 0.0,
        })
    }

    /// Requests that came per second from the first to the last; `None` of fewer than two, and where all came at once.
    #[must_use]
    pub fn sent_per_s(&self) -> Option<f64> {
        let (first, last) = self.sending?;
        let rate = self.sent.saturating_sub(1) as f64 / last.saturating_sub(first).seconds();
        (rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// Seconds that the requests which left have spent inside, all together; of a class only.
    #[must_use]
    pub fn stayed_s(&self) -> f64 {
        self.stays as f64 / PICOS_PER_SECOND as f64
    }

    /// Requests that left, however.
    #[must_use]
    pub fn ended_requests(&self) -> u64 {
        self.completed + self.rejected + self.timed_out + self.failed
    }
}
