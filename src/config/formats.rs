//! Number formats against the hardware and the model: what neither has is refused, what is converted is noted.
//!
//! Left out: which attention backend an engine would pick. Law: storage shrinks as asked in any case; a format without
//! units of its own is computed in a wider one, and a note says so.

use super::judge::Judge;
use super::profile::Profile;
use super::raw::{RawDtype, RawKvDtype, RawModel};
use crate::hardware::{Architecture, Device};
use crate::model::{Dtype, KvScheme, ModelShape, Quantization};

/// Checks the formats of `model` on `device`; `auto` may become another format, as in vLLM.
pub(super) fn check(judge: &mut Judge, raw: &RawModel, model: &mut ModelShape, device: &Device) {
    let asks_dtype = raw.dtype.is_some_and(|dtype| dtype != RawDtype::Auto);
    dtype(judge, asks_dtype, model, device);
    quantization(judge, raw.quantization.is_some(), model, device);
}

/// Tells a judge which formats this version of the engine refuses on the GPU.
pub(super) fn check_version(judge: &mut Judge, profile: &Profile, model: &ModelShape, device: &Device) {
    check_int8(judge, model, device);
    if device.architecture == Architecture::Volta && !profile.startup.runs_on_volta {
        judge.notes.push(format!(
            "{} is of compute capability 7.0, and the published packages of {} begin at 7.5: it takes one of your own build",
            device.id, profile.profile
        ));
    }
    if !profile.startup.fp8_on_turing {
        check_turing(judge, &profile.profile, model, device);
    }
}

/// Tells a judge which formats the kernels of engines with a scheduler of their own lack on the GPU: those of vLLM 0.6 are its own, all
/// others have those of a vLLM of today.
pub(super) fn check_scheduled(judge: &mut Judge, profile: &str, model: &ModelShape, device: &Device) {
    check_int8(judge, model, device);
    if profile != "vllm@0.6" {
        return;
    }
    check_turing(judge, profile, model, device);
    if let Quantization::Nvfp4 | Quantization::Mxfp4 = model.quantization {
        judge.wrong_help(
            "model.quantization",
            "is a format that the engine does not have",
            format!(
                "{profile} is older than its kernels for {}",
                model.quantization.name()
            ),
            "a newer profile runs it",
        );
    }
    if is_newer_than_vllm_0_6(device) {
        judge.notes.push(format!(
            "{} is newer than vLLM 0.6.6 of December 2024, whose published packages hold no kernels for it: {profile} takes one of your \
             own build",
            device.id
        ));
    }
}

/// Blackwell, CDNA4 and RDNA4; the generations of AMD before lack the formats by which they are told.
fn is_newer_than_vllm_0_6(device: &Device) -> bool {
    let is_of_amd = match device.architecture {
        Architecture::Cdna => device.peaks.fp4.is_some(),
        Architecture::Rdna => device.peaks.fp8.is_some(),
        _ => false,
    };
    device.is_blackwell() || is_of_amd
}

/// vLLM's products of 8-bit integers are not built for Blackwell.
fn check_int8(judge: &mut Judge, model: &ModelShape, device: &Device) {
    if device.is_blackwell() && model.quantization == Quantization::Int8 {
        judge.wrong_help(
            "model.quantization",
            "is a format that the engine does not run on this GPU",
            format!(
                "{} is of compute capability 10.0 or more, and vLLM's products of 8-bit integers end at 9.0",
                device.id
            ),
            "--quantization fp8 has as many bits",
        );
    }
}

/// Versions of vLLM whose `Fp8Config.get_min_capability` is 80.
fn check_turing(judge: &mut Judge, profile: &str, model: &ModelShape, device: &Device) {
    if device.architecture == Architecture::Turing && model.quantization == Quantization::Fp8 {
        judge.wrong_help(
            "model.quantization",
            "is a format that the engine does not run on this GPU",
            format!(
                "{} is of compute capability 7.5, and fp8 needs 8.0 in {profile}",
                device.id
            ),
            "a newer profile runs it",
        );
    }
}

/// Tells a judge that SGLang does not run on the GPU (`ModelRunner.load_model`: "SGLang only supports sm75 and above").
pub(super) fn check_sglang(judge: &mut Judge, device: &Device) {
    if device.architecture == Architecture::Volta {
        judge.wrong_help(
            "cluster.gpu",
            "is a GPU that SGLang does not run on",
            format!(
                "{} is of compute capability 7.0, and SGLang begins at 7.5",
                device.id
            ),
            "give another GPU, or --engine vllm",
        );
    }
}

/// Tells a judge that TensorRT-LLM does not run on the GPU, or not in the model's format (its lists of supported hardware and of
/// precisions: Ampere and later, fp8 from Ada on, nvfp4 on Blackwell; nothing is widened as in vLLM).
pub(super) fn check_trtllm(judge: &mut Judge, model: &ModelShape, device: &Device) {
    let is_known = device.is_blackwell()
        || matches!(
            device.architecture,
            Architecture::Ampere | Architecture::Ada | Architecture::Hopper
        );
    // What else a user's own card may be is not for us to refuse.
    if !is_known && device.architecture != Architecture::Other {
        judge.wrong_help(
            "cluster.gpu",
            "is a GPU that TensorRT-LLM does not run on",
            format!(
                "{} is none of NVIDIA's Ampere, Ada, Hopper and Blackwell",
                device.id
            ),
            "give another GPU, or --engine vllm",
        );
        return;
    }
    let missing = match model.quantization {
        Quantization::Fp8 | Quantization::Fp8Block if device.peaks.fp8.is_none() => "fp8",
        Quantization::Nvfp4 if device.peaks.fp4.is_none() => "nvfp4",
        _ => return,
    };
    judge.wrong_help(
        "model.quantization",
        "is a format that the engine does not run on this GPU",
        format!(
            "{} has no {missing} units, and TensorRT-LLM computes {missing} with them alone",
            device.id
        ),
        "give a GPU that has them, or --engine vllm, which widens the weights",
    );
}

/// Compute capability, in tenths, of NVIDIA's cards before Ampere, which have no bfloat16; `None` of all others.
fn early_capability(device: &Device) -> Option<u32> {
    match device.architecture {
        Architecture::Volta => Some(70),
        Architecture::Turing => Some(75),
        _ => None,
    }
}

/// Compute capability, in tenths, from which vLLM runs a format (`get_min_capability`): of 4-bit integers, GPTQ's kernels run on all.
fn least_capability(quantization: Quantization) -> u32 {
    match quantization {
        Quantization::Mxfp4 => 80,
        Quantization::Fp8
        | Quantization::Fp8Block
        | Quantization::Int8
        | Quantization::Nvfp4
        | Quantization::AWQ => 75,
        _ => 70,
    }
}

/// `7.5`, of 75 tenths.
fn decimal(tenths: u32) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Volta and Turing have no bfloat16: vLLM refuses it where it is asked for and takes float16 where it is not.
fn dtype(judge: &mut Judge, is_asked: bool, model: &mut ModelShape, device: &Device) {
    if model.dtype == Dtype::Bf16 && early_capability(device).is_some() {
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

/// What vLLM's `get_min_capability` refuses (mxfp4 before Ampere, nearly all on Volta), and what its kernels widen to 16 bits.
fn quantization(judge: &mut Judge, is_asked: bool, model: &ModelShape, device: &Device) {
    let peaks = &device.peaks;
    let has_experts = model.has_experts();
    let name = match model.quantization {
        // Its kernels ask for more than those of other 4-bit integers.
        Quantization::AWQ => "awq".to_owned(),
        other => other.name(),
    };
    let needed = least_capability(model.quantization);
    let lacking = early_capability(device).filter(|has| *has < needed);
    let missing = match model.quantization {
        Quantization::Mxfp4 if is_asked && !has_experts => {
            judge.wrong_help(
                "model.quantization",
                "has no effect on this model",
                "mxfp4 stores experts, and it has none".to_string(),
                "leave it out, or write fp8, awq or nvfp4",
            );
            return;
        }
        _ if let Some(has) = lacking => {
            let (has, needed) = (decimal(has), decimal(needed));
            judge.wrong_help(
                "model.quantization",
                "is a format that the engine does not run on this GPU",
                format!(
                    "{} is of compute capability {has}, and {name} needs {needed}",
                    device.id
                ),
                "give a newer GPU, or a checkpoint in another format",
            );
            return;
        }
        Quantization::Fp8 | Quantization::Fp8Block => peaks.fp8.is_none(),
        Quantization::Int8 => peaks.int8.is_none(),
        Quantization::Nvfp4 => peaks.fp4.is_none(),
        _ => false,
    };
    if let Quantization::WeightOnly8 { .. } = model.quantization {
        judge.notes.push(format!(
            "{name}: multiplied in 16 bits, and no kernel of such was measured; timed as 16-bit products that read \
             {:.3} bytes a weight (prior)",
            model.quantization.bytes_per_weight()
        ));
    }
    if missing {
        judge.notes.push(format!(
            "{} has no {name} units: weights are stored so and computed in 16 bits",
            device.id
        ));
    }
}

/// The format of the KV cache: as asked, or as the checkpoint asks where the engine heeds that, or the model's own.
pub(super) fn kv_dtype(
    raw: Option<RawKvDtype>,
    model: &ModelShape,
    heeds: impl Fn(KvScheme) -> bool,
) -> Dtype {
    match raw {
        None | Some(RawKvDtype::Auto) if model.kv_scheme.is_some_and(&heeds) => Dtype::Fp8,
        None | Some(RawKvDtype::Auto) => model.dtype,
        Some(RawKvDtype::Bfloat16) => Dtype::Bf16,
        Some(RawKvDtype::Float16) => Dtype::Fp16,
        Some(RawKvDtype::Fp8 | RawKvDtype::Fp8E4m3 | RawKvDtype::Fp8E5m2) => Dtype::Fp8,
    }
}

/// What there is to say about a KV cache in a format that the GPU cannot compute with.
#[must_use]
pub(super) fn kv_note(kv_dtype: Dtype, device: &Device) -> Option<String> {
    (kv_dtype == Dtype::Fp8 && device.peaks.fp8.is_none()).then(|| {
        format!(
            "{} has no fp8 units: an fp8 KV cache saves memory, and not every attention backend of the engine reads it",
            device.id
        )
    })
}
