//! The most output tokens in any whole second (B-14), counted from time 0.
//!
//! Facts of several replicas come in order of time only within each, so the latest [`OPEN_MAX`] seconds stay open. A leap may be
//! told later than that: what it adds to a second that is closed counts there by itself, so a peak of replicas that lie further
//! apart may be told too low, never too high.

use std::collections::VecDeque;

use super::leap::Ends;
use crate::units::{PICOS_PER_SECOND, Picos};

/// Seconds that stay open for facts of replicas that lag behind.
const OPEN_MAX: usize = 256;

/// Tokens of the latest seconds and the maximum of the older ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Seconds {
    first: u64,
    open: VecDeque<u64>,
    peak: u64,
    /// Begin and end of the newest second, in picoseconds.
    newest: (u64, u64),
}

impl Seconds {
    fn add(&mut self, second: u64, tokens: u64) {
        let Some(ahead) = second.checked_sub(self.first) else {
            self.peak = self.peak.max(tokens);
            return;
        };
        if ahead as usize >= 2 * OPEN_MAX {
            self.peak = self.max();
            self.open.clear();
            self.first = second + 1 - OPEN_MAX as u64;
        }
        while (second - self.first) as usize >= OPEN_MAX {
            self.peak = self.peak.max(self.open.pop_front().unwrap_or(0));
            self.first += 1;
        }
        let place = (second - self.first) as usize;
        if self.open.len() <= place {
            self.open.resize(place + 1, 0);
        }
        self.open[place] += tokens;
        let newest = self.first + self.open.len() as u64 - 1;
        // The last second may reach past the end of the clock.
        let instant = |second: u64| second.saturating_mul(PICOS_PER_SECOND);
        self.newest = (instant(newest), instant(newest + 1));
    }

    /// Tokens came out at `instant`.
    #[inline]
    pub(super) fn tokens_at(&mut self, instant: Picos, tokens: u64) {
        let (begin, end) = self.newest;
        match self.open.back_mut() {
            Some(open) if begin <= instant.0 && instant.0 < end => *open += tokens,
            _ => self.add(instant.0 / PICOS_PER_SECOND, tokens),
        }
    }

    /// Every step of a leap gave `tokens`.
    #[inline]
    pub(super) fn tokens(&mut self, ends: &Ends, tokens: u64) {
        let (begin, end) = self.newest;
        if let Some(open) = self.open.back_mut()
            && ends.lie_within(begin, end)
        {
            *open += ends.count() * tokens;
            return;
        }
        ends.for_each_bin(PICOS_PER_SECOND, |second, steps| self.add(second, steps * tokens));
    }

    /// The largest second so far.
    pub(super) fn max(&self) -> u64 {
        self.open.iter().copied().fold(self.peak, u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_survives_idle_years() {
        let mut seconds = Seconds::default();
        for t in [0.1, 0.2, 0.9, 1.5, 700.0, 700.1, 10_000.0] {
            seconds.tokens_at(Picos::from_seconds(t), 1);
        }
        assert_eq!(seconds.max(), 3);
    }

    #[test]
    fn what_is_told_long_after_is_not_heaped_on_one_second() {
        let mut seconds = Seconds::default();
        seconds.tokens_at(Picos::from_seconds(1000.0), 1);
        // A run of steps of another replica, of half a second each, from 400 s on.
        for step in 0..1000 {
            seconds.tokens_at(Picos::from_seconds(400.1 + f64::from(step) / 2.0), 4);
        }
        assert_eq!(seconds.max(), 8);
        // What lies within the window counts together, after an idle time, too.
        let mut seconds = Seconds::default();
        for t in [0.5, 5000.1, 4999.5, 4999.6, 4750.0] {
            seconds.tokens_at(Picos::from_seconds(t), 1);
        }
        assert_eq!(seconds.max(), 2);
    }
}
