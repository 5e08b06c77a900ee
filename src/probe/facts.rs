//! What is known of the machine before anything is timed, and what its clocks did meanwhile.

/// A GPU, as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    /// The driver's name of it, `NVIDIA H200`.
    pub name: String,
    /// Salted digest of its serial number, 12 hexadecimal digits; never the number itself.
    pub uuid_digest: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Level-2 cache.
    pub l2_bytes: u64,
    /// Of the card.
    pub memory_bytes: u64,
    /// Not taken by anybody.
    pub memory_free: u64,
    /// GPUs of the machine, this one included, that can read each other's memory; 1 for a single one.
    pub peers: u32,
    /// Whether it is a slice of a card.
    pub is_mig: bool,
    /// Other processes that compute on it; `None` where nobody can say.
    pub other_processes: Option<u32>,
}

impl Gpu {
    /// Whether its tensor cores know fp8: Ada, Hopper and younger.
    #[must_use]
    pub fn has_fp8(&self) -> bool {
        self.capability >= (8, 9)
    }

    /// `sm_90`.
    #[must_use]
    pub fn arch(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }
}

/// The software around it; empty where unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Software {
    /// Version of the kernel driver, `580.159.04`.
    pub driver: String,
    /// CUDA version of the driver, `13.0`.
    pub cuda_driver: String,
    /// Version of the run-time compiler, `13.0`.
    pub nvrtc: String,
    /// Version of cublasLt, `13.0.2`.
    pub cublaslt: String,
    /// How the kernels came onto the card: `nvrtc-cubin` or `embedded-ptx`.
    pub kernel_load: String,
    /// `x86_64, 16 cores`.
    pub host_cpu: String,
    /// Whether the host is a virtual machine, where that can be seen.
    pub virtualised: Option<bool>,
}

/// What the card's own instruments say; absent where there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instruments {
    /// SM clock before the first kernel, MHz.
    pub sm_idle: Option<u32>,
    /// SM clock in a short burst.
    pub sm_burst: Option<u32>,
    /// SM clock after seconds of load.
    pub sm_sustained: Option<u32>,
    /// Highest SM clock that the card knows.
    pub sm_max: Option<u32>,
    /// Memory clock under load.
    pub mem: Option<u32>,
    /// Enforced limit, W.
    pub power_limit_w: Option<f64>,
    /// Draw after seconds of load, W.
    pub power_sustained_w: Option<f64>,
    /// At the end, °C.
    pub temp_end_c: Option<u32>,
    /// Every reason for a lower clock that was seen under load, as NVML's bits.
    pub throttle_bits: u64,
    /// Whether memory corrects errors, which costs bandwidth on some cards.
    pub ecc: Option<bool>,
    /// Generation and lanes of the host link.
    pub pcie: Option<(u32, u32)>,
}

/// Reasons for a lower clock, by NVML's bit (`nvml.h`, nvmlClocksEventReasons), and whether they spoil a measurement.
const THROTTLE: [(u64, &str, bool); 8] = [
    (0x2, "applications_clocks", false),
    (0x4, "sw_power_cap", false),
    (0x8, "hw_slowdown", true),
    (0x10, "sync_boost", false),
    (0x20, "sw_thermal", true),
    (0x40, "hw_thermal", true),
    (0x80, "hw_power_brake", true),
    (0x100, "display_clock", false),
];

impl Instruments {
    /// The reasons by name.
    #[must_use]
    pub fn throttle(&self) -> Vec<&'static str> {
        let seen = THROTTLE.iter().filter(|(bit, ..)| self.throttle_bits & bit != 0);
        seen.map(|(_, name, _)| *name).collect()
    }

    /// The first reason that makes the result no picture of the card: heat, or a fault of its supply. A cap on the power is none:
    /// under large products it is how the card works.
    #[must_use]
    pub fn spoilt_by(&self) -> Option<&'static str> {
        let seen = THROTTLE
            .iter()
            .find(|(bit, _, spoils)| *spoils && self.throttle_bits & bit != 0);
        seen.map(|(_, name, _)| *name)
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::Gpu;

    /// An idle H200.
    pub(in crate::probe) fn h200() -> Gpu {
        Gpu {
            name: "NVIDIA H200".to_owned(),
            uuid_digest: "3fa94c01be77".to_owned(),
            capability: (9, 0),
            sm_count: 132,
            l2_bytes: 60 << 20,
            memory_bytes: 150_754_820_096,
            memory_free: 149_000_000_000,
            peers: 1,
            is_mig: false,
            other_processes: Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cap_is_told_but_spoils_nothing_and_heat_does() {
        let mut instruments = Instruments {
            throttle_bits: 0x4,
            ..Instruments::default()
        };
        assert_eq!(instruments.throttle(), ["sw_power_cap"]);
        assert_eq!(instruments.spoilt_by(), None);
        instruments.throttle_bits |= 0x40;
        assert_eq!(instruments.spoilt_by(), Some("hw_thermal"));
    }
}
