//! Number formats against the hardware and the model: what neither has is refused, what is converted is noted.
//!
//! Left out: which attention backend an engine would pick. Law: storage shrinks as asked in any case; a format without
//! units of its own is computed in a wider one, and a note says so.

use super::judge::Judge;
use super::raw::{RawDtype, RawModel};
use crate::hardware::{Architecture, Device};
use crate::model::{Dtype, Mlp, ModelShape, Quantization};

/// Checks the formats of `model` on `device`; `auto` may become another format, as in vLLM.
pub(super) fn check(judge: &mut Judge, raw: &RawModel, model: &mut ModelShape, device: &Device) {
    dtype(judge, raw, model, device);
    quantization(judge, raw, model, device);
}

/// Turing has no bfloat16: vLLM refuses it where it is asked for and takes float16 where it is not.
fn dtype(judge: &mut Judge, raw: &RawModel, model: &mut ModelShape, device: &Device) {
    let is_asked = raw.dtype.is_some_and(|dtype| dtype != RawDtype::Auto);
    if model.dtype == Dtype::Bf16 && device.architecture == Architecture::Turing {
        if is_asked {
            judge.wrong_help(
                "model.dtype",
                "asks for a format that the GPU does not have",
                format!("{} has no bfloat16", device.id),
                "write float16",
            );
        } else {
            model.dtype = Dtype::Fp16;
            judge.notes.push(format!(
                "{} has no bfloat16: the model runs in float16",
                device.id
            ));
        }
    }
    if model.dtype == Dtype::Fp32 {
        judge.notes.push(
            "float32: bytes are counted as four each, but kernels are timed at the 16-bit rate; real ones are slower"
                .to_string(),
        );
    }
}

fn quantization(judge: &mut Judge, raw: &RawModel, model: &ModelShape, device: &Device) {
    let peaks = &device.peaks;
    let has_experts = model
        .layers
        .iter()
        .any(|group| matches!(group.mlp, Mlp::Experts { .. }));
    let name = model.quantization.name();
    let missing = match model.quantization {
        Quantization::Mxfp4 if raw.quantization.is_some() && !has_experts => {
            judge.wrong_help(
                "model.quantization",
                "has no effect on this model",
                "mxfp4 stores experts, and it has none",
                "leave it out, or write fp8, awq or nvfp4",
            );
            return;
        }
        Quantization::Fp8 => peaks.fp8.is_none(),
        Quantization::Int8 => peaks.int8.is_none(),
        Quantization::Nvfp4 => peaks.fp4.is_none(),
        _ => false,
    };
    if missing {
        judge.notes.push(format!(
            "{} has no {name} units: weights are stored so and computed in 16 bits",
            device.id
        ));
    }
}

/// A KV cache in a format that the GPU cannot compute with.
pub(super) fn check_kv(judge: &mut Judge, kv_dtype: Dtype, device: &Device) {
    if kv_dtype == Dtype::Fp8 && device.peaks.fp8.is_none() {
        judge.notes.push(format!(
            "{} has no fp8 units: an fp8 KV cache saves memory, and not every attention backend of the engine reads it",
            device.id
        ));
    }
}
