//! The loop while nothing runs and somebody waits for KV from outside (V1-9, PD-11), and who waits at all.

use std::hint::cold_path;

use super::replica::Replica;
use crate::units::Picos;

impl Replica {
    /// Nobody waits whom a pass of the loop could admit.
    #[inline]
    pub(super) fn nobody_waits(&self) -> bool {
        let is_ready = match &self.external {
            None => false,
            Some(external) => {
                cold_path();
                external.first_ready().is_some()
            }
        };
        self.waiting.len() == 0 && !is_ready
    }

    /// Requests that the engine knows and that do not run.
    #[inline]
    pub(super) fn not_admitted(&self) -> u32 {
        let outside = match &self.external {
            None => 0,
            Some(external) => {
                cold_path();
                external.outside()
            }
        };
        self.waiting.len() + outside
    }

    /// Somebody waits, or for somebody who has left a load is under way.
    #[inline]
    pub(super) fn has_business(&self) -> bool {
        let has_loads = match &self.external {
            None => false,
            Some(external) => {
                cold_path();
                external.has_business()
            }
        };
        self.waiting.len() > 0 || has_loads
    }

    /// The loop has nothing to run and waits for KV, or for blocks that are held back, by going round (V1-9).
    pub(super) fn spins(&self) -> bool {
        self.external.is_some() && self.in_flight.is_empty() && self.has_business()
    }

    /// A pass at `now` scheduled nothing: plans the next one that can make a difference.
    pub(super) fn spin(&mut self, now: Picos) {
        self.awake = now + self.config.idle_pass_sleep;
        self.next_pass = None;
        let due = self.external.as_ref().and_then(|external| external.next_due());
        for at in [due, self.next_input()].into_iter().flatten() {
            self.pass_from(at);
        }
    }

    /// The loop, which spins or is asleep, makes a pass at or after `at`, unless it makes one before.
    pub(super) fn pass_from(&mut self, at: Picos) {
        let pass = self.look_after(at);
        self.next_pass = Some(self.next_pass.map_or(pass, |next| next.min(pass)));
    }

    /// When a loop that spins looks first at or after `at`.
    pub(super) fn look_after(&self, at: Picos) -> Picos {
        let sleep = self.config.idle_pass_sleep.0;
        let after = at.0.saturating_sub(self.awake.0);
        let rounds = after
            .checked_div(sleep)
            .map_or(after, |_| after.div_ceil(sleep) * sleep);
        self.awake + Picos(rounds)
    }
}
