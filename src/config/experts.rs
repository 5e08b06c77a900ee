//! Which kernels compute routed experts in fp8, and whether a table of them is at hand.
//!
//! vLLM 0.24's tables of Hopper are of FlashInfer's CUTLASS kernels, as its choice among kernels has it for one static scale a tensor
//! (`fused_moe/oracle/fp8.py`, `FlashInferExperts._supports_quant_scheme`). Scales found while running or of channels, blocks, older
//! versions and SGLang take Triton's, which no table of Hopper has; nor has any TensorRT-LLM's, which tunes its own. Those of Ada are Triton's, and Blackwell's kernels do not differ in this.
//! Law: what no table has is timed as experts of 16 bits with half the bytes, and said to be a prior.

use super::serving::Flags;
use crate::cost::calibration::{Calibration, KernelFormat};
use crate::hardware::{Architecture, Device};
use crate::model::{ModelShape, Quantization};

/// The kernels of a model's experts, if they are in fp8 and not in blocks.
pub(super) fn kernels(flags: &Flags, model: &ModelShape, device: &Device) -> KernelFormat {
    let runs_cutlass = match flags {
        Flags::Vllm(flags) => model.static_scales && flags.profile.startup.flashinfer_experts,
        Flags::Sglang(_) | Flags::Trtllm(_) | Flags::Scheduled(_) => false,
    };
    match device.architecture {
        Architecture::Hopper if !runs_cutlass => KernelFormat::Fp8Block,
        _ => KernelFormat::Fp8,
    }
}

/// How a model's experts in fp8 are timed, where that is not what one would expect.
pub(super) fn note(
    kernels: KernelFormat,
    model: &ModelShape,
    device: &Device,
    calibration: &Calibration,
) -> Option<String> {
    if !model.has_experts() || device.peaks.fp8.is_none() {
        return None;
    }
    let (kernels, scales) = match model.quantization {
        Quantization::Fp8Block => (KernelFormat::Fp8Block, "block fp8"),
        Quantization::Fp8 => (kernels, "fp8"),
        _ => return None,
    };
    let own = |format: KernelFormat| calibration.moe.get(&format);
    let Some(found) = own(kernels) else {
        return Some(format!(
            "routed experts in {scales}: no table of the kernels that compute them on {} is at hand, timed with the efficiencies of \
             16-bit experts at one byte a weight (prior)",
            device.id
        ));
    };
    let wide = own(KernelFormat::Bf16)?;
    let share = |efficiency: f64| 100.0 * efficiency;
    (found.bandwidth_efficiency < 0.5 * wide.bandwidth_efficiency).then(|| {
        format!(
            "routed experts in {scales} are timed by CUTLASS's kernels as vLLM 0.24 ran them, which reach {:.0} % of the \
             bandwidth on {} (16-bit experts {:.0} %)",
            share(found.bandwidth_efficiency),
            device.id,
            share(wide.bandwidth_efficiency),
        )
    })
}
