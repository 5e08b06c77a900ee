//! The kernels as text: CUDA C++ for the run-time compiler, and PTX for machines without one.
//!
//! The PTX is what NVRTC 12.9 makes of the text for `compute_80`, its `.version` lowered to 7.4 so that every driver that the
//! probe accepts takes it. It opens with the digest of the text, and a test compares the two.

use crate::digest::sha256;

/// CUDA C++ of every kernel, without an include.
pub const SOURCE: &str = include_str!("cuda/kernels.cu");

/// PTX for compute capability 8.0 and above.
pub const PTX: &str = include_str!("cuda/kernels.ptx");

/// Changes with the body of any kernel: numbers of different versions are not to be compared.
pub const VERSION: u32 = 3;

/// Digest of the text.
#[must_use]
pub fn digest() -> String {
    sha256(SOURCE.as_bytes())
}

/// The first line of a PTX that belongs to the text.
#[must_use]
pub fn stamp() -> String {
    format!("// kernels.cu {}", digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ptx_was_made_from_the_text() {
        assert!(
            PTX.starts_with(&stamp()),
            "kernels.ptx is stale; its first line must be\n{}\nmake it with `cargo test --features cuda nvrtc` where NVRTC is installed",
            stamp()
        );
        assert!(PTX.contains(".version 7.4") && PTX.contains(".target sm_80"));
    }

    #[test]
    fn text_and_constant_agree_on_the_version() {
        assert!(SOURCE.contains(&format!("#define PROBE_KERNELS_VERSION {VERSION}\n")));
        assert!(!SOURCE.contains("\n#include"), "NVRTC finds no headers");
    }
}
