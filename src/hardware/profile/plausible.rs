//! Figures that no card has: a slip of the unit, `GB/s` for `TB/s`, moves every prediction a thousandfold.
//!
//! Limits leave room beyond every card that is known, so that one that does not exist yet can be tried.

use super::judge::Resolve;
use crate::units::Bytes;

/// Slowest and fastest of a kind of link, bytes per second, each as a profile writes it.
type Span = [(f64, &'static str); 2];

/// Device memory: 200 GB/s to 8 TB/s in the cards that ship.
const MEMORY: Span = [(50e9, "50 GB/s"), (200e12, "200 TB/s")];
/// Between GPUs: 56 to 900 GB/s one way.
const GPU_LINK: Span = [(1e9, "1 GB/s"), (20e12, "20 TB/s")];
/// To the host: 16 to 450 GB/s one way.
const HOST_LINK: Span = [(1e9, "1 GB/s"), (20e12, "20 TB/s")];

/// Operations per second below which a step would last for days, and a run beyond the clock.
const PEAK_MIN: f64 = 1e12;
/// Operations per byte that memory brings, in bf16: 31 (H20-3e) to 948 (Jetson AGX Thor) in the cards that ship.
const RIDGE: std::ops::RangeInclusive<f64> = 5.0..=10_000.0;
/// A narrow format's peak over that of bf16: 0.06 (int8 of a B300) to 8 in the cards that ship.
const OVER_BF16: std::ops::RangeInclusive<f64> = 0.02..=64.0;
/// Bytes of the last cache: 2 to 126 MB in the cards that ship.
const CACHE: std::ops::RangeInclusive<f64> = 1e5..=1e10;
/// Watts: 60 to 1,400 in the cards that ship.
const POWER: std::ops::RangeInclusive<f64> = 1.0..=20_000.0;

impl Resolve<'_> {
    /// Bandwidths of the memory, of NVLink, of its bridge and of PCIe.
    pub(super) fn plausible_rates(&mut self, rates: [Option<f64>; 4]) {
        let kinds = [
            ("memory.bandwidth", MEMORY),
            ("link.nvlink", GPU_LINK),
            ("link.nvlink_bridge", GPU_LINK),
            ("link.pcie", HOST_LINK),
        ];
        for ((key, [(least, at_least), (most, at_most)]), rate) in kinds.into_iter().zip(rates) {
            if rate.is_some_and(|rate| rate < least) {
                self.problem::<()>(key, format!("must be at least {at_least}; 1 TB/s is 1,000 GB/s"));
            } else if rate.is_some_and(|rate| rate > most) {
                self.problem::<()>(
                    key,
                    format!("must be at most {at_most}, many times what any card has"),
                );
            }
        }
    }

    /// Peaks of bf16, fp8, int8 and fp4, each beside what it goes with.
    pub(super) fn plausible_peaks(&mut self, peaks: [Option<f64>; 4], bandwidth: Option<f64>) {
        let keys = ["peak.bf16", "peak.fp8", "peak.int8", "peak.fp4"];
        let mut are_fast = true;
        for (key, peak) in keys.into_iter().zip(peaks) {
            if peak.is_some_and(|peak| peak < PEAK_MIN) {
                are_fast = false;
                self.problem::<()>(key, "must be at least 1 TFLOP/s");
            }
        }
        let Some(bf16) = peaks[0].filter(|_| are_fast) else {
            return;
        };
        for (key, peak) in keys.into_iter().zip(peaks).skip(1) {
            let Some(ratio) = peak.map(|peak| peak / bf16) else {
                continue;
            };
            if !OVER_BF16.contains(&ratio) {
                self.problem::<()>(
                    key,
                    format!(
                        "{ratio:.3} times the peak of bf16: a card has 0.06 to 8 times it. Is the unit right?"
                    ),
                );
            }
        }
        let bandwidth = bandwidth.filter(|rate| *rate >= MEMORY[0].0 && *rate <= MEMORY[1].0);
        let ridge = bandwidth.map(|rate| bf16 / rate);
        if let Some(ridge) = ridge.filter(|ridge| !RIDGE.contains(ridge)) {
            self.problem::<()>(
                "memory.bandwidth",
                format!("the peak of bf16 is {ridge:.1} operations a byte: a card has 30 to 1,000. Are both units right?"),
            );
        }
    }

    /// The last cache and the power.
    pub(super) fn plausible_rest(&mut self, l2: Option<Bytes>, tdp_w: Option<f64>) {
        if l2.is_some_and(|size| !CACHE.contains(&(size.0 as f64))) {
            self.problem::<()>("memory.l2", "must lie between 0.1 MB and 10 GB");
        }
        if tdp_w.is_some_and(|watts| !POWER.contains(&watts)) {
            self.problem::<()>("power.tdp", "must lie between 1 W and 20 kW");
        }
    }
}
