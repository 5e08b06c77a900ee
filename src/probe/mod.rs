//! `plimsoll probe`: minutes on a GPU become a calibration file.
//!
//! All but the driver's calls is plain and always compiled: what is measured ([`plan`]), the course of it ([`course`]),
//! what samples say ([`sample`]), the parameters ([`fit`], [`findings`]), the file ([`mod@write`]) and what is wrong with a
//! machine ([`doctor`]). The driver's calls are behind the feature `cuda`, where libraries are opened when they are
//! needed and none is linked: one binary runs with and without a GPU.
//!
//! Left out: fp16 (bf16's tensor cores and one entry for both in a calibration), experts, 4-bit formats, NCCL. Law: the probe
//! reads clocks and power, and never sets them.

pub mod course;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod doctor;
pub mod facts;
pub mod findings;
pub mod fit;
pub mod kernels;
pub mod plan;
pub mod sample;
pub mod write;

/// How to get a binary that can probe.
pub const WITHOUT_CUDA: &str = "this binary was built without the probe; \
    `cargo install plimsoll --features cuda` builds one that has it (no CUDA is needed to build)";

/// Why a probe ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The machine cannot be probed as it is; the message says what to do.
    #[error("{0}")]
    Unfit(String),
    /// A call of the driver or of a library failed while measuring.
    #[error("{what}: {message}")]
    Driver {
        /// Which call.
        what: &'static str,
        /// What it said.
        message: String,
    },
    /// Too few points were measured for a calibration.
    #[error(
        "only {measured} of {wanted} bf16 products were measured before the time ran out; give --max-seconds more"
    )]
    TooFew {
        /// Products that were timed.
        measured: usize,
        /// Fewest that are needed.
        wanted: usize,
    },
    /// The user asked to stop.
    #[error("interrupted; nothing was written")]
    Interrupted,
}
