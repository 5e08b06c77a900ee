//! What a GPU, its links and its node offer, from datasheets: the ceilings that calibrations scale down.
//!
//! A device is read from a TOML profile ([`Device::from_toml`]); the shipped ones are found by name ([`find`]) and a
//! new one is drafted from `nvidia-smi -q` ([`nvidia_smi`]). Left out: clocks, sparsity, MIG slices. Law: every rate
//! is a dense peak, and [`Device::memory`] is what an engine is offered, not what the box says.

pub mod nvidia_smi;
mod product;
mod profile;
mod profiles;
mod registry;

pub use profile::{ProfileError, ProfileProblem};
pub use registry::{UnknownDevice, all, find, readings};

use crate::units::{Bytes, BytesPerSec, FlopsPerSec};

/// One accelerator as its datasheet has it. Dense peaks only, never the sparse marketing figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// `H100-SXM-80GB`: the id that users type and the upper case of the profile's file name.
    pub id: String,
    /// The vendor's full product name.
    pub name: String,
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// The architecture family, which decides tile shapes and supported dtypes.
    pub architecture: Architecture,
    /// Id of a measured card with the same chip, whose measurements are a prior of this one where it has none.
    pub like: Option<String>,
    /// Memory as an engine sees it (what `torch.cuda.mem_get_info` calls total, some 0.5 GiB below `nvidia-smi`),
    /// from which KV blocks are counted.
    pub memory: Bytes,
    /// What the driver's own tool shows as the total, where that is known ([`Device::reported_memory`]).
    pub reported: Option<Bytes>,
    /// Peak memory bandwidth.
    pub memory_bandwidth: BytesPerSec,
    /// Dense peak rates per number format.
    pub peaks: Peaks,
    /// Level-2 cache.
    pub l2: Bytes,
    /// Streaming multiprocessors (compute units on AMD).
    pub sm_count: u32,
    /// GPU-to-GPU fabric, one direction, per GPU; `None` on PCIe-only cards.
    pub nvlink: Option<BytesPerSec>,
    /// What an NVLink bridge between two cards offers, one direction, per GPU, where the card takes one. It is an option:
    /// nothing crosses it unless [`Device::bridged`] fits it.
    pub nvlink_bridge: Option<BytesPerSec>,
    /// GPUs that one node's links join: the board of a server, or the NVLink domain of a rack.
    pub gpus_per_node: u32,
    /// GPUs that NVLink joins: those of a node, or the two behind a bridge.
    pub nvlink_gpus: u32,
    /// Host link, one direction.
    pub pcie: BytesPerSec,
    /// Board power in watts.
    pub tdp_w: f64,
    /// List price per hour in US dollars and its date, if known.
    pub price: Option<Price>,
}

/// The GPU generations whose kernels behave alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// V100: compute capability 7.0, with units for float16 alone.
    Volta,
    /// T4.
    Turing,
    /// A100, A10.
    Ampere,
    /// L40S, L4, RTX 4090.
    Ada,
    /// H100, H200.
    Hopper,
    /// B200, GB200.
    Blackwell,
    /// B300, GB300: compute capability 10.3.
    BlackwellUltra,
    /// RTX 5090, RTX PRO 6000, GB10: compute capability 12. They have neither the tensor memory of [`Architecture::Blackwell`] nor its
    /// kernels: engines serve them by those of Ada.
    BlackwellRtx,
    /// MI210 to MI355X.
    Cdna,
    /// Radeon RX 7900 XTX, PRO W7900, AI PRO R9700.
    Rdna,
    /// Anything else: no prior applies.
    Other,
}

/// Dense peak rates; `None` where the hardware has no such units.
#[derive(Clone, Debug, PartialEq)]
pub struct Peaks {
    /// bfloat16 and float16 with 32-bit accumulation; V100 and T4 have float16 only.
    pub bf16: FlopsPerSec,
    /// 8-bit floating point.
    pub fp8: Option<FlopsPerSec>,
    /// 8-bit integer (operations per second).
    pub int8: Option<FlopsPerSec>,
    /// 4-bit floating point.
    pub fp4: Option<FlopsPerSec>,
}

/// A dated price.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// US dollars per GPU-hour.
    pub usd_per_hour: f64,
    /// `YYYY-MM-DD`.
    pub date: String,
}

/// GPUs that a bridge joins. Bridges over three or four cards exist for other generations and are left out.
const BRIDGED_GPUS: u32 = 2;

/// Figures that differ by no more are one, as written with fewer digits.
const SAME: f64 = 2e-3;

impl Device {
    /// B200, B300 and their kin, of compute capability 10: no cards for workstations and games.
    #[must_use]
    pub fn is_datacenter_blackwell(&self) -> bool {
        matches!(
            self.architecture,
            Architecture::Blackwell | Architecture::BlackwellUltra
        )
    }

    /// The total that `nvidia-smi` shows, by which SGLang chooses its defaults (`get_nvgpu_memory_capacity`).
    #[must_use]
    pub fn reported_memory(&self) -> Bytes {
        self.reported.unwrap_or(self.memory)
    }

    /// Blackwell of any kind.
    #[must_use]
    pub fn is_blackwell(&self) -> bool {
        self.is_datacenter_blackwell() || self.architecture == Architecture::BlackwellRtx
    }

    /// NVLink as a group of so many GPUs has it: none where the group reaches beyond it, since a ring over pairs is as
    /// slow as its slowest link.
    #[must_use]
    pub fn nvlink_of(&self, gpus: u32) -> Option<BytesPerSec> {
        self.nvlink.filter(|_| gpus <= self.nvlink_gpus)
    }

    /// Whether it has the id of a card that ships and another chip or memory than that: figures of its own that decide how long kernels
    /// take, whatever is around them.
    #[must_use]
    pub fn differs_from_shipped(&self) -> bool {
        let shipped = all().iter().find(|card| card.id.eq_ignore_ascii_case(&self.id));
        shipped.is_some_and(|card| !card.is_chip_of(self))
    }

    fn is_chip_of(&self, other: &Device) -> bool {
        let rates = |card: &Device| {
            let peaks = &card.peaks;
            let narrow = [peaks.fp8, peaks.int8, peaks.fp4].map(|peak| peak.map_or(0.0, |peak| peak.0));
            let wide = [card.memory_bandwidth.0, peaks.bf16.0, card.l2.0 as f64];
            wide.into_iter().chain(narrow)
        };
        let mut pairs = rates(self).zip(rates(other));
        self.architecture == other.architecture
            && self.sm_count == other.sm_count
            && pairs.all(|(mine, theirs)| (mine - theirs).abs() <= SAME * mine)
    }

    /// The card with its NVLink bridge fitted, in pairs; `None` where it takes none.
    #[must_use]
    pub fn bridged(&self) -> Option<Device> {
        Some(Device {
            nvlink: Some(self.nvlink_bridge?),
            nvlink_gpus: BRIDGED_GPUS,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_with_figures_of_its_own_is_no_shipped_one() {
        let (card, _) = find("H100-SXM-80GB").unwrap();
        assert!(!card.differs_from_shipped());
        let halved = Device {
            memory_bandwidth: BytesPerSec(card.memory_bandwidth.0 / 2.0),
            ..card.clone()
        };
        assert!(halved.differs_from_shipped());
        let cut = Device {
            sm_count: card.sm_count / 2,
            ..card.clone()
        };
        assert!(cut.differs_from_shipped());
        // What is around the chip, and whoever has a name of its own.
        let cheaper = Device {
            price: None,
            nvlink: None,
            ..card
        };
        assert!(!cheaper.differs_from_shipped());
        let named = Device {
            id: "mine".to_owned(),
            ..halved
        };
        assert!(!named.differs_from_shipped());
    }

    #[test]
    fn a_bridge_joins_two_cards_and_no_more() {
        let (card, _) = find("A100-PCIE-80GB").unwrap();
        assert_eq!(card.nvlink_of(2), None);
        let pair = card.bridged().unwrap();
        assert_eq!(pair.nvlink_of(2), Some(BytesPerSec(300e9)));
        assert_eq!(
            (pair.nvlink_of(4), pair.gpus_per_node),
            (None, card.gpus_per_node)
        );
        let (board, _) = find("A100-SXM-80GB").unwrap();
        assert_eq!(board.nvlink_of(8), Some(BytesPerSec(300e9)));
        assert_eq!(board.bridged(), None);
    }
}
