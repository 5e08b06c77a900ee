//! The most requests that were in flight at some time within one second, as the clients of vLLM and SGLang count them (B-14): whoever ends
//! in a second counts beside whoever begins in it later, so that a closed loop of 32 may have 64.
//!
//! Arrivals come in order of time; an answer of a replica that lags behind the others may be told late, and counts as inside until then.

use crate::units::{PICOS_PER_SECOND, Picos};

/// Those of the second under way, and the most of any before it. Seconds are counted from time 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Concurrent {
    /// When the second ends.
    until: u64,
    /// Requests that were inside at its begin, or came in it.
    touching: u64,
    most: u64,
}

impl Concurrent {
    /// The number in flight, which was `inside` until now, changes by so many.
    #[inline(always)]
    pub(super) fn shift(&mut self, now: Picos, inside: i64, by: i64) {
        if now.0 >= self.until {
            self.until = (now.0 / PICOS_PER_SECOND + 1).saturating_mul(PICOS_PER_SECOND);
            self.touching = inside.max(0) as u64;
        }
        if by > 0 {
            self.touching += by as u64;
            self.most = self.most.max(self.touching);
        }
    }

    /// The most of any second so far.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ends_in_a_second_counts_beside_who_begins_in_it() {
        let mut seen = Concurrent::default();
        let at = Picos::from_seconds;
        seen.shift(at(0.2), 0, 2);
        // Both end at 0.5 s, two more come.
        seen.shift(at(0.5), 2, -2);
        seen.shift(at(0.6), 0, 2);
        assert_eq!(seen.most(), 4);
        // A second in which nothing happens but the end of one.
        seen.shift(at(3.1), 2, -1);
        seen.shift(at(3.2), 1, 1);
        assert_eq!(seen.most(), 4);
        seen.shift(at(3.3), 2, 2);
        assert_eq!(seen.most(), 5);
    }
}
