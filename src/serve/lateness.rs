//! How late things were said, as a histogram of fixed size.

use std::time::Duration;

/// Buckets to an octave.
const PER_OCTAVE: u32 = 4;
/// From a microsecond up to more than an hour.
const BUCKETS: usize = 132;

/// Counts by length, within 19 %.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; BUCKETS],
    longest: Duration,
}

impl Default for Lateness {
    fn default() -> Lateness {
        Lateness {
            counts: [0; BUCKETS],
            longest: Duration::ZERO,
        }
    }
}

impl Lateness {
    /// Something was said so late.
    pub fn add(&mut self, late: Duration) {
        let micros = late.as_secs_f64() * 1e6;
        let bucket = (micros.max(1.0).log2() * f64::from(PER_OCTAVE)).ceil() as usize;
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.longest = self.longest.max(late);
    }

    /// The bound that this share of all was not later than; nothing where nothing was said.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all: u64 = self.counts.iter().sum();
        let rank = (all as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        let micros = (bucket as f64 / f64::from(PER_OCTAVE)).exp2();
        Some(Duration::from_secs_f64(micros * 1e-6).min(self.longest))
    }

    /// The latest of all.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_within_a_bucket() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile(0.5), None);
        for micros in 1..=1000 {
            lateness.add(Duration::from_micros(micros));
        }
        for share in [0.1, 0.5, 0.9, 0.99] {
            let exact = share * 1000.0;
            let found = lateness.quantile(share).expect("some were said").as_secs_f64() * 1e6;
            assert!((exact..exact * 1.2).contains(&found), "{share}: {found}");
        }
        assert_eq!(lateness.quantile(1.0), Some(Duration::from_millis(1)));
        lateness.add(Duration::from_secs(100_000));
        assert_eq!(lateness.longest(), Duration::from_secs(100_000));
    }
}
