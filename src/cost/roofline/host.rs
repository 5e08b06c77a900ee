//! What the host adds to a step, and the time below which it cannot prepare one.
//!
//! Synchronous scheduling (V1-80): its share is added to the GPU's time, `added`. Asynchronous (V1-81): only the gap
//! between two steps is, and the host's own chain is a floor. Launching kernels one by one raises the floor of either
//! (V1-77): from compiled code by the launches themselves, under `enforce_eager` by Python's dispatch of each, too.

use super::pipeline::Prepared;
use crate::cost::Trust;
use crate::cost::calibration::Host;
use crate::units::Picos;

/// How a step's kernels reach the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launch {
    Full,
    Piecewise,
    /// No graph, but the code between attention kernels is compiled.
    Compiled,
    Eager,
}

/// The host's share in picoseconds.
#[derive(Clone, Debug)]
pub(super) struct HostTerms {
    step: u64,
    per_seq: u64,
    floor_step: u64,
    floor_per_seq: u64,
    piecewise: u64,
    compiled: u64,
    eager: u64,
    pub(super) trust: Trust,
    /// Of what it takes to launch a step that replays no graph: a prior unless runs decided it, which the caller knows, too.
    pub(super) trust_of_launches: Trust,
}

impl HostTerms {
    pub(super) fn new(host: &Host, layers: u32, asynchronous: bool) -> HostTerms {
        let micros = |us: f64| Picos::from_seconds(us * 1e-6).0;
        let layers = f64::from(layers);
        let launches = host.eager_launch_us * host.eager_kernels_per_layer;
        let dispatches = host.eager_dispatch_us * host.eager_kernels_per_layer;
        // A synchronous step waits for the host's share whether or not launching is slower than the GPU.
        let (step, per_seq, floor_step, floor_per_seq) = if asynchronous {
            let gap = (host.async_gap_us, host.async_gap_per_seq_us);
            (gap.0, gap.1, host.async_floor_us, host.async_floor_per_seq_us)
        } else {
            (host.step_us, host.per_seq_us, host.step_us, host.per_seq_us)
        };
        HostTerms {
            step: micros(step),
            per_seq: micros(per_seq),
            floor_step: micros(floor_step),
            floor_per_seq: micros(floor_per_seq),
            piecewise: micros(host.piecewise_us_per_layer * layers),
            // Attention is dispatched by Python between compiled pieces, with graphs or without.
            compiled: micros((host.piecewise_us_per_layer + launches) * layers),
            eager: micros((host.piecewise_us_per_layer.max(dispatches) + launches) * layers),
            // Published figures decide the synchronous terms; what overlaps with the GPU is a prior unless one's own
            // runs decided it, which the caller knows.
            trust: if asynchronous {
                host.trust.max(Trust::Prior)
            } else {
                host.trust
            },
            trust_of_launches: host.trust.max(Trust::Prior),
        }
    }

    /// Takes out what of a synchronous step comes before the first stage of a pipeline; launches stay a floor.
    pub(super) fn take_preparation(&mut self) -> Prepared {
        let (step, per_seq) = (self.step, self.per_seq);
        (self.step, self.per_seq, self.floor_step, self.floor_per_seq) = (0, 0, 0, 0);
        Prepared { step, per_seq }
    }

    /// Nothing of the host counts.
    pub(super) fn hide(&mut self) {
        (self.step, self.per_seq, self.floor_step, self.floor_per_seq) = (0, 0, 0, 0);
        (self.piecewise, self.compiled, self.eager) = (0, 0, 0);
    }

    pub(super) fn added(&self, sequences: u64) -> u64 {
        self.step + self.per_seq * sequences
    }

    pub(super) fn floor(&self, sequences: u64, launch: Launch) -> u64 {
        let launching = match launch {
            Launch::Full => 0,
            Launch::Piecewise => self.piecewise,
            Launch::Compiled => self.compiled,
            Launch::Eager => self.eager,
        };
        self.floor_step + self.floor_per_seq * sequences + launching
    }
}
