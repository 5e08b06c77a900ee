//! Whether a load with an end is sent faster than it can be worked off.
//!
//! One run cannot tell: whoever comes last is still inside when sending ends, stays are long in a full batch, and a backlog and a
//! batch that drains look alike. Rates of the same traffic can. As long as a system keeps up, sending it faster gets it done
//! sooner; once it does not, what is saved in sending is spent on working off, and no more is done in a second.

use super::point::Point;
use crate::analysis::{Estimate, Verdict};

/// A rate is beside another that is so many times as high: closer ones differ by who happens to come last.
const BESIDE: f64 = 1.1;
/// Share of the time saved in sending that must be saved in all, or it is spent on working off.
const SAVED_MIN: f64 = 0.5;

impl Point {
    /// From the end of sending until the last request was done, in seconds.
    fn drain_s(&self) -> f64 {
        self.lasted_s - self.sent_for_s()
    }

    /// Whether all of it is seen, with nothing lost to the load.
    fn is_whole(&self) -> bool {
        self.verdict == Verdict::Finite && self.lost.share() == 0.0 && self.lost.failed == 0.0
    }

    /// The highest of the lower rates of the same traffic beside which this one is sent faster than it can be worked off: less than half of
    /// the time that is saved in sending is saved in all, and working off takes longer by more than a stay. What is sent within a stay has
    /// no rate.
    pub(super) fn falls_behind<'a>(&self, others: &'a [Point]) -> Option<&'a Point> {
        let is_burst = self.sending().is_none_or(|sending| sending.is_burst());
        let has_fallen = |kept: &&Point| {
            let saved_s = kept.lasted_s - self.lasted_s;
            let saved_in_sending_s = kept.sent_for_s() - self.sent_for_s();
            let longer_s = self.drain_s() - kept.drain_s();
            saved_s < SAVED_MIN * saved_in_sending_s
                && kept.e2el_s.is_some_and(|(stay_s, _)| longer_s > stay_s)
        };
        let lower = others.iter().filter(|other| other.rate * BESIDE <= self.rate);
        let kept =
            lower.filter(|other| other.is_whole() && other.requests == self.requests && other.keeps_up());
        kept.filter(has_fallen)
            .max_by(|a, b| a.rate.total_cmp(&b.rate))
            .filter(|_| self.is_whole() && !is_burst)
    }

    /// The same rate, told that it is more than can be worked off: its latencies are those of a backlog, and what the system can do
    /// is what it did in all, without the time that the last ones take where it keeps up.
    pub(super) fn fallen_behind(self, kept: &Point) -> Point {
        let answered = self.requests as f64 * (1.0 - self.lost.unanswered());
        let in_all = answered / self.lasted_s;
        let served = answered / (self.lasted_s - kept.drain_s());
        Point {
            verdict: Verdict::Unstable,
            reason: "sent faster than it can be worked off: slower, it is done as soon".into(),
            slack: None,
            attainment: None,
            throughput: Some(Estimate {
                value: served,
                low: in_all,
                high: served,
            }),
            output_tokens_per_s: None,
            ttft_s: None,
            p99_ttft: None,
            tpot_s: None,
            itl_s: None,
            e2el_s: None,
            running: None,
            waiting: None,
            kv_usage: None,
            growth_per_s: self.rate - served,
            binding: None,
            by_class: Vec::new(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::tests::exact;
    use super::super::{SearchOptions, search};
    use super::*;

    /// A server of `capacity` requests a second that is sent `requests`, each of which stays for 2 s where it is alone and for
    /// four times as long in a full batch, and of which the longest stays for three times as long as the others.
    fn server(capacity: f64, requests: u64) -> impl Fn(f64, u64) -> Option<Point> {
        move |rate, _| {
            let stay_s = 2.0 * (1.0 + 3.0 * (rate / capacity).min(1.0));
            let sent_for_s = requests as f64 / rate;
            Some(Point {
                rate,
                verdict: Verdict::Finite,
                slack: None,
                requests,
                lasted_s: sent_for_s.max(requests as f64 / capacity) + 3.0 * stay_s,
                e2el_s: Some((stay_s, 3.0 * stay_s)),
                ..exact(1.0)
            })
        }
    }

    #[test]
    fn saturation_of_a_trace_grows_as_the_capacity_does() {
        for capacity in [20.0, 80.0, 320.0] {
            let knee = search(server(capacity, 20_000), &SearchOptions::default());
            let saturation = knee.saturation.unwrap();
            assert!(
                (saturation.low..=saturation.high).contains(&capacity),
                "{saturation:?} of {capacity}"
            );
            let error = saturation.value / capacity - 1.0;
            assert!(error.abs() < 0.12, "{saturation:?} of {capacity}");
            assert!(knee.converged);
        }
    }

    #[test]
    fn what_fits_into_one_batch_has_no_saturation() {
        let knee = search(server(1e9, 300), &SearchOptions::default());
        assert_eq!(knee.saturation, None);
        // 300 requests at 20 a second take 15 s: a batch that fills up is no backlog.
        let few = search(server(1e3, 300), &SearchOptions::default());
        assert_eq!(few.saturation, None, "{:?}", few.points);
    }
}
