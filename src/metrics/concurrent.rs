//! The most requests that were in flight at some time within one second, as the clients of vLLM and SGLang count them (B-14): whoever ends
//! in a second counts beside whoever begins in it later, so that a closed loop of 32 may have 64.

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
    /// `come` of them arrive at an instant before which `inside` were in flight.
    #[inline]
    pub(super) fn arrive(&mut self, now: Picos, inside: u64, come: u64) {
        self.passes(now, inside);
        self.touching += come;
        self.most = self.most.max(self.touching);
    }

    /// Something happens at an instant before which `inside` were in flight.
    #[inline]
    pub(super) fn passes(&mut self, now: Picos, inside: u64) {
        if now.0 >= self.until {
            self.until = (now.0 / PICOS_PER_SECOND + 1).saturating_mul(PICOS_PER_SECOND);
            self.touching = inside;
            self.most = self.most.max(inside);
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
        seen.arrive(at(0.2), 0, 2);
        // Both end at 0.5 s, two more come.
        seen.passes(at(0.5), 2);
        seen.arrive(at(0.6), 0, 2);
        assert_eq!(seen.most(), 4);
        // A second in which nothing happens but the end of one.
        seen.passes(at(3.1), 2);
        seen.arrive(at(3.2), 1, 1);
        assert_eq!(seen.most(), 4);
        seen.arrive(at(3.3), 2, 2);
        assert_eq!(seen.most(), 5);
    }
}
