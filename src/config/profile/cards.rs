//! What of a version of vLLM hangs on the card's die.

use serde::Deserialize;

use super::Profile;
use crate::hardware::{Architecture, Device};

/// Tokens of a block of a latent cache (DeepSeek's) where nobody gives them: the first attention backend that takes the GPU
/// and the cache's format decides. Other GPUs' backends take [`Defaults::block_size`](super::Defaults::block_size).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentBlocks {
    /// H100, H200.
    pub hopper: u64,
    /// The same where the cache is of 8-bit floats.
    pub hopper_fp8: u64,
    /// B200, GB200 (compute capability 10.0).
    pub blackwell: u64,
    /// B300 (10.3).
    pub blackwell_ultra: u64,
    /// Also where `--block-size` says otherwise.
    pub overrules: bool,
}

/// MiB of a step's hidden states up to which their all-reduce among 2, 4 and 8 GPUs is fused with the norm behind it
/// (`FI_ALLREDUCE_FUSION_MAX_SIZE_MB`); other GPUs have no such kernel.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FusedNormLimits {
    /// H100, H200.
    pub hopper: [f64; 3],
    /// B200, GB200 (compute capability 10.0).
    pub blackwell: [f64; 3],
    /// B300 (10.3).
    pub blackwell_ultra: [f64; 3],
}

/// Dies for which vLLM has kernels of their own.
enum Die {
    /// Compute capability 9.0.
    Hopper,
    /// 10.0.
    Blackwell,
    /// 10.3.
    BlackwellUltra,
}

fn die(device: &Device) -> Option<Die> {
    match device.architecture {
        Architecture::Hopper => Some(Die::Hopper),
        Architecture::Blackwell => Some(Die::Blackwell),
        Architecture::BlackwellUltra => Some(Die::BlackwellUltra),
        _ => None,
    }
}

impl Profile {
    /// Tokens of a block of a latent cache on `device`, where its backend has a say.
    #[must_use]
    pub fn latent_block(&self, device: &Device, is_fp8: bool) -> Option<u64> {
        let blocks = &self.latent_blocks;
        Some(match die(device)? {
            Die::Hopper if is_fp8 => blocks.hopper_fp8,
            Die::Hopper => blocks.hopper,
            Die::Blackwell => blocks.blackwell,
            Die::BlackwellUltra => blocks.blackwell_ultra,
        })
    }

    /// MiB of hidden states up to which all-reduces among 2, 4 and 8 GPUs may be fused with norms.
    #[must_use]
    pub fn fused_norms_mib(&self, device: &Device) -> Option<[f64; 3]> {
        let limits = &self.fused_norms;
        Some(match die(device)? {
            Die::Hopper => limits.hopper,
            Die::Blackwell => limits.blackwell,
            Die::BlackwellUltra => limits.blackwell_ultra,
        })
    }
}
