//! What of a load a search for a knee looks for, in words and as files spell it.

use super::figures::{count, interval_outwards, significant_down};
use crate::analysis::Estimate;

/// What the knee is a number of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sought {
    /// Requests per second.
    #[default]
    Rate,
    /// Requests that a closed loop has in flight.
    InFlight,
    /// Users of a closed loop, who think between an answer and the next request.
    Users,
}

impl Sought {
    /// Whether it is how many a closed loop has in flight.
    #[must_use]
    pub fn is_loop(self) -> bool {
        self != Sought::Rate
    }

    /// What follows its figure: `req/s`.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Sought::Rate => "req/s",
            Sought::InFlight => "in flight",
            Sought::Users => "users",
        }
    }

    /// Several of what a search tries.
    #[must_use]
    pub fn tried(self) -> &'static str {
        match self {
            Sought::Rate => "rate",
            Sought::InFlight => "number in flight",
            Sought::Users => "number of users",
        }
    }

    /// The name of an axis that it stands on.
    #[must_use]
    pub fn axis(self) -> &'static str {
        match self {
            Sought::Rate => "offered load, requests per second",
            Sought::InFlight => "requests in flight",
            Sought::Users => "users",
        }
    }

    /// As files spell it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Sought::Rate => "rate",
            Sought::InFlight => "requests",
            Sought::Users => "users",
        }
    }

    /// The other way round; a file without the word is of a rate.
    #[must_use]
    pub fn of_code(code: Option<&str>) -> Sought {
        let loops = [Sought::InFlight, Sought::Users];
        let found = loops.into_iter().find(|of| code == Some(of.code()));
        found.unwrap_or_default()
    }

    /// The figure of a knee, which must not be said larger than it is: `14.2`, `1,234`.
    #[must_use]
    pub fn figure(self, value: f64) -> String {
        match self.is_loop() {
            true => count(value as u64),
            false => significant_down(value),
        }
    }

    /// The same with what it is a number of: `14.2 req/s`, `23 in flight`.
    #[must_use]
    pub fn told(self, value: f64) -> String {
        format!("{} {}", self.figure(value), self.unit())
    }

    /// An interval, rounded outwards: `[34.1, 35.1]`, `[177, 184]`; of a number in flight without an upper end `from 177`.
    #[must_use]
    pub fn interval(self, Estimate { low, high, .. }: Estimate) -> String {
        let whole = |end: f64| count(end as u64);
        match self.is_loop() {
            true if high.is_finite() => format!("[{}, {}]", whole(low), whole(high.ceil())),
            true => format!("from {}", whole(low)),
            false => interval_outwards(low, high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_flight_is_whole_and_a_rate_has_three_figures() {
        let interval = |of: Sought| {
            of.interval(Estimate {
                value: 1234.0,
                low: 1211.0,
                high: 1259.0,
            })
        };
        assert_eq!(Sought::Users.told(1234.0), "1,234 users");
        assert_eq!(interval(Sought::InFlight), "[1,211, 1,259]");
        assert_eq!(Sought::Rate.told(18.37), "18.3 req/s");
        for of in [Sought::Rate, Sought::InFlight, Sought::Users] {
            assert_eq!(Sought::of_code(Some(of.code())), of);
        }
    }
}
