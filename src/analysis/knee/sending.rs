//! How long a load with an end is sent for, beside how long a request stays: a rate says something of a server only if it lasts.

use super::outcome::Knee;
use super::point::Point;
use crate::analysis::Verdict;

/// The sending of all requests at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sending {
    /// The rate, requests per second.
    pub rate: f64,
    /// All that are sent.
    pub requests: u64,
    /// How long they take to send at that rate, in seconds.
    pub lasts_s: f64,
    /// Median stay of a request, in seconds.
    pub stay_s: f64,
}

/// Stays below which whoever came first is still inside when the last comes: a burst, whatever its rate.
const BURST: f64 = 1.0;
/// Stays below which filling up and draining are a good part of all that is seen.
const SHORT: f64 = 10.0;
/// Stays below which it is all the same how fast they come.
const AT_ONCE: f64 = 0.01;

/// Whether a sending for so many stays is a burst.
#[must_use]
pub fn is_burst(stays: f64) -> bool {
    stays < BURST
}

impl Sending {
    /// How many stays it lasts.
    #[must_use]
    pub fn stays(&self) -> f64 {
        self.lasts_s / self.stay_s.max(f64::MIN_POSITIVE)
    }

    /// Nobody has left when the last comes, or hardly anybody.
    #[must_use]
    pub fn is_burst(&self) -> bool {
        is_burst(self.stays())
    }

    /// It lasts for so few stays that the rate is hardly held.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.stays() < SHORT
    }
}

impl Point {
    /// Its sending, where its load has an end and was served.
    #[must_use]
    pub fn sending(&self) -> Option<Sending> {
        let (stay_s, _) = self.e2el_s.filter(|_| self.verdict == Verdict::Finite)?;
        Some(Sending {
            rate: self.rate,
            requests: self.requests,
            lasts_s: self.sent_for_s(),
            stay_s,
        })
    }

    /// How long its requests take to send, in seconds.
    pub(super) fn sent_for_s(&self) -> f64 {
        self.requests as f64 / self.rate
    }

    /// All come at once, as they would at any higher rate.
    #[must_use]
    pub fn is_at_once(&self) -> bool {
        self.sending().is_some_and(|sending| sending.stays() < AT_ONCE)
    }
}

impl Knee {
    /// The sending at the highest rate that the answer vouches for.
    #[must_use]
    pub fn sending(&self) -> Option<Sending> {
        let answer = self.within_slo.or(self.saturation)?;
        self.up_to(answer.value).next()?.sending()
    }

    /// The sending at the highest rate that was served.
    #[must_use]
    pub fn sending_at_saturation(&self) -> Option<Sending> {
        self.up_to(self.saturation?.value).next()?.sending()
    }
}

#[cfg(test)]
mod tests {
    use super::super::search::tests::exact;
    use super::super::{SearchOptions, search};
    use super::*;

    /// 300 requests that stay for 2 s and are all served, however fast they come.
    fn of_an_end(rate: f64) -> Point {
        Point {
            rate,
            verdict: Verdict::Finite,
            slack: None,
            requests: 300,
            lasted_s: 300.0 / rate + 5.0,
            e2el_s: Some((2.0, 5.0)),
            ..exact(1.0)
        }
    }

    #[test]
    fn a_load_with_an_end_that_never_falls_behind_is_looked_at_until_it_comes_at_once() {
        let knee = search(|rate, _| Some(of_an_end(rate)), &SearchOptions::default());
        let fastest = knee.points.last().unwrap().rate;
        // 300 requests within a hundredth of 2 s.
        assert!((15e3..30e3).contains(&fastest), "{fastest}");
        assert_eq!(knee.saturation, None);
        let sending = knee.sending().unwrap();
        assert!(sending.rate == fastest && sending.is_burst() && sending.is_short());
    }

    #[test]
    fn a_rate_that_is_held_for_a_few_stays_is_short_and_no_burst() {
        let stays = |rate: f64| of_an_end(rate).sending().unwrap();
        assert!(stays(200.0).is_burst());
        assert!(stays(50.0).is_short() && !stays(50.0).is_burst());
        assert!(!stays(10.0).is_short(), "15 stays");
        let endless = Point {
            verdict: Verdict::Stable,
            ..of_an_end(200.0)
        };
        assert_eq!(endless.sending(), None);
    }
}
