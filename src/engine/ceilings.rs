//! What no serving engine can exceed: datasheet rates divided by the work of a token.
//!
//! Left out on purpose: efficiency, attention, communication, the host. A calibrated cost lies below all of these.

use crate::cost::calibration::KernelFormat;
use crate::cost::kernel;
use crate::hardware::Device;
use crate::model::{ModelShape, Quantization};
use crate::units::{Bytes, Flops, FlopsPerSec};

/// Upper bounds of one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Peak rate of the linear layers' arithmetic on one GPU.
    pub peak: FlopsPerSec,
    /// Work of the linear layers for one token.
    pub flops_per_token: Flops,
    /// Weights that a rank reads for a decode step of one sequence.
    pub streamed: Bytes,
    /// Weights of all linear layers of the replica, every expert included.
    pub layer_weights: Bytes,
    /// Prompt tokens per second: `TP · PP · peak / flops_per_token`.
    pub prefill_tokens_per_s: f64,
    /// Decode steps per second of a single sequence, each a token unless drafts stand: `bandwidth / streamed`.
    pub decode_steps_per_s: f64,
    /// Tokens of a step above which arithmetic takes longer than reading the weights. With experts, the step that
    /// reads them all.
    pub ridge_tokens: f64,
}

impl Ceilings {
    /// The same of an engine whose decode steps read so much: weights for drafts that are verified, and a drafter's.
    #[must_use]
    pub fn reading(self, streamed: Bytes, device: &Device) -> Ceilings {
        Ceilings {
            streamed,
            decode_steps_per_s: 1.0 / (streamed / device.memory_bandwidth).0,
            ..self
        }
    }
}

/// The ceilings of `model` on `stages` of `tensor_parallel` GPUs each: all compute at a time, but a sequence's step passes one after the
/// other.
#[must_use]
pub fn ceilings(device: &Device, model: &ModelShape, tensor_parallel: u32, stages: u32) -> Ceilings {
    let flops_per_token = model.linear_flops_per_token();
    let kept = model.kept_flops_per_token();
    let streamed = model.streamed_bytes(tensor_parallel);
    let vectors = Bytes(model.other_parameters * model.dtype.bytes());
    let layer_weights = model.layer_weight_bytes(1) - vectors;
    let special = peak(device, model.quantization);
    let token_s = (Flops(flops_per_token.0 - kept.0) / special).0 + (kept / device.peaks.bf16).0;
    // Of two units the rate at which they get through a token one after the other.
    let peak = match kept.0 > 0.0 {
        true => FlopsPerSec(flops_per_token.0 / token_s),
        false => special,
    };
    let weights_s = (layer_weights / device.memory_bandwidth).0;
    Ceilings {
        peak,
        flops_per_token,
        streamed,
        layer_weights,
        prefill_tokens_per_s: f64::from(tensor_parallel * stages) / token_s,
        decode_steps_per_s: 1.0 / (streamed / device.memory_bandwidth).0,
        ridge_tokens: weights_s / token_s,
    }
}

/// The same of one of several engines that share experts: each reads its share of them (`alone`) and computes, while all have as much to
/// do, for as many tokens as are its own (`for_all`).
#[must_use]
pub fn shared_ceilings(
    device: &Device,
    (alone, for_all): (&ModelShape, &ModelShape),
    tensor_parallel: u32,
    stages: u32,
) -> Ceilings {
    let reads = ceilings(device, alone, tensor_parallel, stages);
    let computes = ceilings(device, for_all, tensor_parallel, stages);
    let weights_s = (reads.layer_weights / device.memory_bandwidth).0;
    let token_s = f64::from(tensor_parallel * stages) / computes.prefill_tokens_per_s;
    Ceilings {
        peak: computes.peak,
        flops_per_token: computes.flops_per_token,
        prefill_tokens_per_s: computes.prefill_tokens_per_s,
        ridge_tokens: weights_s / token_s,
        ..reads
    }
}

/// The rate of the units that multiply weights stored this way; weight-only formats are expanded and multiplied in
/// 16 bits (QZ-4, QZ-7), as are formats that the device has no units for.
#[must_use]
pub fn peak(device: &Device, quantization: Quantization) -> FlopsPerSec {
    kernel::peak(&device.peaks, KernelFormat::of(quantization, &device.peaks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hardware, model};

    fn ridge(gpu: &str, quantization: Quantization) -> f64 {
        let model = model::find("meta-llama/Llama-3.1-8B").unwrap().0;
        let device = hardware::find(gpu).unwrap().0;
        ceilings(&device, &model.with_quantization(quantization), 1, 1).ridge_tokens
    }

    #[test]
    fn ridge_points_of_the_common_cards() {
        for (gpu, tokens) in [
            ("H100-SXM", 295.0),
            ("H200", 206.0),
            ("A100-SXM-80GB", 153.0),
            ("B200", 281.0),
            ("L40S", 419.0),
        ] {
            assert!((ridge(gpu, Quantization::None) - tokens).abs() < 0.6, "{gpu}");
        }
    }

    #[test]
    fn fp8_keeps_the_ridge_and_int4_quarters_it() {
        assert!((ridge("H100-SXM", Quantization::Fp8) - 295.0).abs() < 0.6);
        assert!((ridge("H100-SXM", Quantization::AWQ) - 77.0).abs() < 0.6);
        // No fp8 units: half the bytes at the same rate.
        assert!((ridge("A100-SXM-80GB", Quantization::Fp8) - 76.5).abs() < 0.6);
    }

    /// However experts are shared out, a GPU of the server computes as much as one of a single engine on all of them.
    #[test]
    fn engines_that_share_experts_prefill_no_faster_than_their_gpus_compute() {
        let model = model::find("deepseek-ai/DeepSeek-V3").unwrap().0;
        let device = hardware::find("H200-SXM").unwrap().0;
        let whole = ceilings(&device, &model, 8, 1);
        let each = shared_ceilings(&device, (&model, &model), 1, 1);
        assert!((8.0 * each.prefill_tokens_per_s / whole.prefill_tokens_per_s - 1.0).abs() < 1e-9);
        assert!((each.ridge_tokens / whole.ridge_tokens - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_single_stream_is_bound_by_reading_the_weights() {
        let model = model::find("meta-llama/Llama-3.1-8B").unwrap().0;
        let device = hardware::find("H100-SXM").unwrap().0;
        let one = ceilings(&device, &model, 1, 1);
        assert!((one.decode_steps_per_s - 3.35e12 / 15.0093e9).abs() < 0.1);
        assert!((one.prefill_tokens_per_s - 989.4e12 / 13.9586e9).abs() < 5.0);
        let two = ceilings(&device, &model, 2, 1);
        assert!((two.decode_steps_per_s / one.decode_steps_per_s - 2.0).abs() < 1e-6);
    }
}
