//! Who quantizes the inputs of fp8 products: a kernel of its own before each, or the kernel that writes them.
//!
//! TensorRT-LLM's products in fp8 were timed as a layer without a scale of its input
//! (`ai-dynamo/aiconfigurator` `collector/trtllm/collect_gemm.py`), so with a pass that finds the largest element and one that
//! quantizes (`FP8QDQLinearMethod.apply`): the terms `q0` and `q1` of the [form](crate::cost::kernel::gemm_seconds). A checkpoint brings static
//! scales, with which one pass does, and none where the kernel before writes fp8. Left out: what writing one byte in place of two
//! saves that kernel, and the first layer's norm, before which there is no all-reduce.

use crate::cost::calibration::{Calibration, Gemm, GemmForm, KernelFormat};
use crate::cost::operators::Linear;
use crate::model::{ModelShape, Quantization};

/// Who quantizes the inputs of fp8 products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fp8Inputs {
    /// Whoever did when the products were timed.
    AsTimed,
    /// Scales are static. Inputs of these products are written in fp8; any other's are quantized in one pass.
    Static {
        /// Operators, as a breakdown names them.
        written: Vec<String>,
    },
}

/// Bytes that one pass moves for each element: 16 bits in, 8 out.
const PASS_BYTES: f64 = 3.0;

impl Fp8Inputs {
    /// Puts the server's quantization of its input in the place of the one that a product was timed with. Scales of blocks are
    /// never static.
    pub(super) fn price(
        &self,
        gemm: &mut Gemm,
        linear: &Linear,
        shape: &ModelShape,
        calibration: &Calibration,
    ) {
        let Fp8Inputs::Static { written } = self else {
            return;
        };
        let is_static = linear.format.kernel == KernelFormat::Fp8 && shape.quantization == Quantization::Fp8;
        let GemmForm::OccupancyPnorm(form) = &mut gemm.form else {
            return;
        };
        if !is_static || form.quantize_passes == 0.0 {
            return;
        }
        let pass = calibration
            .elementwise
            .as_ref()
            .filter(|_| !written.iter().any(|name| name == linear.operator));
        (form.quantize_us, form.quantize_passes) = match pass {
            Some(pass) => (pass.floor_us, PASS_BYTES / pass.bandwidth_efficiency),
            None => (0.0, 0.0),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::roofline::{Placement, RooflineCost};
    use crate::cost::testing::{device, placement};
    use crate::cost::{StepCost, StepLoad};

    /// Seconds of the operators of 64 decodes of Llama 70B under TensorRT-LLM's kernels.
    fn seconds(quantization: Quantization, inputs: Fp8Inputs) -> Vec<(String, f64)> {
        let device = device("h200");
        let (mut shape, _) = crate::model::find("meta-llama/Llama-3.1-70B-Instruct").expect("it is bundled");
        shape.quantization = quantization;
        let calibration = for_device(&device, "trtllm").calibration;
        let placement = Placement {
            inputs,
            ..placement()
        };
        let cost = RooflineCost::new(&device, &shape, &calibration, &placement).unwrap();
        let load = StepLoad {
            decode_seqs: 64,
            decode_kv_tokens: 64 * 1000,
            decode_longest: 1000,
            sampled_rows: 64,
            ..StepLoad::default()
        };
        let parts = cost.breakdown(&load).parts;
        parts
            .into_iter()
            .map(|part| (part.operator, part.seconds))
            .collect()
    }

    #[test]
    fn a_pass_that_another_kernel_does_costs_nothing() {
        let static_of = |written: &[&str]| Fp8Inputs::Static {
            written: written.iter().map(ToString::to_string).collect(),
        };
        let timed = seconds(Quantization::Fp8, Fp8Inputs::AsTimed);
        let passes = seconds(Quantization::Fp8, static_of(&[]));
        let written = seconds(Quantization::Fp8, static_of(&["down_proj"]));
        for ((timed, passes), written) in timed.iter().zip(&passes).zip(&written) {
            let is_product = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"].contains(&timed.0.as_str());
            assert_eq!(passes.1 < timed.1, is_product, "{}", timed.0);
            assert_eq!(written.1 < passes.1, timed.0 == "down_proj", "{}", timed.0);
        }
        // Each of 80 layers' pass is a launch of 2 µs and 3 bytes an element.
        let down = |parts: &[(String, f64)]| parts.iter().find(|(name, _)| name == "down_proj").unwrap().1;
        let pass = 80.0 * (2e-6 + 3.0 * 64.0 * 28_672.0 / (0.75 * 4.8e12));
        assert!((down(&passes) - down(&written) - pass).abs() < 1e-9);
    }

    #[test]
    fn scales_of_blocks_and_16_bits_are_as_they_were_timed() {
        let written = vec!["down_proj".to_string(), "qkv_proj".to_string()];
        for quantization in [Quantization::None, Quantization::Fp8Block] {
            let with = seconds(
                quantization,
                Fp8Inputs::Static {
                    written: written.clone(),
                },
            );
            assert_eq!(with, seconds(quantization, Fp8Inputs::AsTimed));
        }
    }
}
