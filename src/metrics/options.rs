//! What a recorder is told: the machines, the limits of a good request, and which records to keep.

use super::fleet::Fleet;
use crate::units::Picos;

/// Limits that a request must meet to count as good; all must hold (B-13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SloLimits {
    /// Most time to first token.
    pub ttft: Option<Picos>,
    /// Most mean time per output token.
    pub tpot: Option<Picos>,
    /// Most time from send to last token.
    pub e2el: Option<Picos>,
}

impl SloLimits {
    /// Whether any limit is set.
    #[must_use]
    pub fn any(&self) -> bool {
        self.ttft.is_some() || self.tpot.is_some() || self.e2el.is_some()
    }

    /// Whether a request with these latencies meets all of them.
    #[inline]
    pub(super) fn hold(&self, ttft: Picos, tpot: Picos, e2el: Picos) -> bool {
        let within = |value: Picos, limit: Option<Picos>| limit.is_none_or(|limit| value <= limit);
        within(ttft, self.ttft) && within(tpot, self.tpot) && within(e2el, self.e2el)
    }
}

/// Which per-request records to keep. They cost memory in proportion to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// None.
    #[default]
    None,
    /// One for each request.
    Requests,
    /// One for each request, with all its token gaps.
    WithItls,
}

/// What a [`super::Recorder`] needs to know.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The machines.
    pub fleet: Fleet,
    /// Goodput limits.
    pub slo: SloLimits,
    /// Records to keep.
    pub records: Records,
}
