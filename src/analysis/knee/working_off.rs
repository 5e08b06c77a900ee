//! Whether a load with an end is sent faster than it can be worked off.
//!
//! One run cannot tell: whoever comes last is still inside when sending ends, stays are long in a full batch, and a backlog and a
//! batch that drains look alike. Rates of the same traffic can. As long as a system keeps up, sending it faster gets it done
//! sooner; once it does not, what is saved in sending is spent on working off, and no more is done in a second.

use super::point::Point;
use crate::analysis::{Estimate, Verdict};

/// A rate is beside another that is so many times as high: closer ones differ by who happens to come last.
const BESIDE: f64 = 1.1;
/// Share of the time saved in sending that must be saved in all, or it is spent on working off: half-way between the two.
const SAVED_MIN: f64 = 0.5;
/// Of fewer requests a single long answer is what working off takes.
const FEWEST: u64 = 32;
/// Share of the requests that may be lost while what is left is the same traffic.
const LOST_MAX: f64 = 0.01;

/// Tells those rates that are sent faster than can be worked off, by all that were tried.
pub(super) fn judge(points: &mut [Point]) {
    for place in 0..points.len() {
        if points[place].falls_behind(&points[..place]) {
            points[place] = points[place].clone().fallen_behind();
        }
    }
}

/// What can be worked off, by a rate that has fallen behind and those below it: at least what it did in all, and about that without
/// the time that the last ones take where the system keeps up.
pub(super) fn served(over: &Point, below: &[Point]) -> Estimate {
    let in_all = over.worked_off_per_s();
    let kept = below
        .iter()
        .rev()
        .find(|point| point.is_whole() && point.rate <= in_all);
    let drain_s = kept.map_or(0.0, Point::drain_s);
    let value = match over.lasted_s > drain_s {
        true => over.answered() / (over.lasted_s - drain_s),
        false => in_all,
    };
    Estimate {
        value,
        low: in_all,
        high: value,
    }
}

impl Point {
    /// From the first arrival to the last, in seconds.
    fn sending_s(&self) -> f64 {
        self.requests.saturating_sub(1) as f64 / self.rate
    }

    /// From the last arrival until the last request was done, in seconds.
    fn drain_s(&self) -> f64 {
        (self.lasted_s - self.sending_s()).max(0.0)
    }

    fn answered(&self) -> f64 {
        self.requests as f64 * (1.0 - self.lost.unanswered())
    }

    /// All that was answered in all the time that it took, requests per second.
    fn worked_off_per_s(&self) -> f64 {
        self.answered() / self.lasted_s.max(f64::MIN_POSITIVE)
    }

    /// Whether all of it is seen, with hardly anything lost to the load.
    fn is_whole(&self) -> bool {
        let lost = self.lost.share() + self.lost.failed;
        self.verdict == Verdict::Finite && lost <= LOST_MAX && self.requests >= FEWEST
    }

    /// Whether it is sent faster than it can be worked off, beside a lower rate of the same traffic: less than half of the time that is
    /// saved in sending is saved in all, and working off takes longer by more than a stay. What is sent within such a stay has no rate.
    fn falls_behind(&self, lower: &[Point]) -> bool {
        let has_fallen = |kept: &Point| {
            let Some((stay_s, _)) = kept.e2el_s.filter(|(stay_s, _)| self.sending_s() >= *stay_s) else {
                return false;
            };
            let saved_s = kept.lasted_s - self.lasted_s;
            let saved_in_sending_s = kept.sending_s() - self.sending_s();
            let longer_s = self.drain_s() - kept.drain_s();
            saved_s < SAVED_MIN * saved_in_sending_s && longer_s > stay_s
        };
        let mut beside = lower.iter().filter(|other| {
            other.rate * BESIDE <= self.rate && other.is_whole() && other.requests == self.requests
        });
        self.is_whole() && beside.any(has_fallen)
    }

    /// The same rate where so many share it, each of which saturates at `each`: what is sent for a few stays hides in one run that it is
    /// more than can be worked off, and no other rate of theirs is there to tell.
    #[must_use]
    pub fn shared_by(self, replicas: u64, each: &Estimate) -> Point {
        let is_short = self.sending().is_some_and(|sending| sending.is_short());
        match is_short && self.rate > each.high * replicas as f64 {
            true => self.fallen_behind(),
            false => self,
        }
    }

    /// The same rate, told that it is more than can be worked off: its latencies are those of a backlog.
    fn fallen_behind(self) -> Point {
        let served = self.worked_off_per_s();
        Point {
            verdict: Verdict::Unstable,
            reason: "sent faster than it can be worked off: slower, it is done as soon".into(),
            slack: None,
            attainment: None,
            throughput: Some(Estimate {
                value: served,
                low: served,
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
            in_system: None,
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
    fn saturation_of_a_trace_grows_as_the_capacity_does_from_any_start() {
        for capacity in [20.0, 80.0, 320.0] {
            for start in [0.05, 0.9, 1.3, 2.0, 9.0] {
                let options = SearchOptions {
                    start_rate: start * capacity,
                    ..SearchOptions::default()
                };
                let knee = search(server(capacity, 20_000), &options);
                let saturation = knee.saturation.unwrap();
                let label = format!("{saturation:?} of {capacity} from {start}: {:?}", knee.within_slo);
                assert!((saturation.low..=saturation.high).contains(&capacity), "{label}");
                assert!((saturation.value / capacity - 1.0).abs() < 0.12, "{label}");
                assert!(knee.converged, "{label}");
            }
        }
    }

    #[test]
    fn a_long_answer_among_a_few_requests_is_no_backlog() {
        let sent = |requests: u64, rate: f64, drain_s: f64| Point {
            rate,
            requests,
            verdict: Verdict::Finite,
            lasted_s: (requests - 1) as f64 / rate + drain_s,
            e2el_s: Some((1.0, 6.0)),
            ..exact(1.0)
        };
        // Sent in half of the time, it is done no sooner.
        let behind = |requests: u64| {
            let slow_s = (requests - 1) as f64 / 0.1;
            let mut points = [sent(requests, 0.1, 1.0), sent(requests, 0.2, 1.0 + 0.5 * slow_s)];
            judge(&mut points);
            points[1].verdict
        };
        assert_eq!(behind(2), Verdict::Finite);
        assert_eq!(behind(200), Verdict::Unstable);
    }

    #[test]
    fn several_carry_no_more_of_a_short_load_than_each_alone() {
        let point = |rate: f64| Point {
            rate,
            requests: 300,
            verdict: Verdict::Finite,
            e2el_s: Some((2.0, 5.0)),
            ..exact(1.0)
        };
        let each = Estimate {
            value: 40.0,
            low: 35.0,
            high: 45.0,
        };
        assert_eq!(point(80.0).shared_by(2, &each).verdict, Verdict::Finite);
        assert_eq!(point(100.0).shared_by(2, &each).verdict, Verdict::Unstable);
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
