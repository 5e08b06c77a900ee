//! Models that see: memory is set apart for images, and prefill batches are captured for few of them.
//!
//! Left out: the weights and the time of the vision tower. Law: a text-only model knows nothing of all this.

use super::KEY_FRACTION;
use super::profile::{Behaviour, SglangProfile};
use crate::config::judge::Judge;
use crate::config::raw::RawSglang;
use crate::hardware::{Architecture, Device};
use crate::model::{ModelShape, Tower, Vision};
use crate::sim::Role;
use crate::units::Bytes;

const ENABLE: &str = "sglang.enable_multimodal";
const LEAVE_OUT: &str = "sglang.language_model_only";

/// The tower by which others are measured, ViT-L/14; what a config does not say is taken to be its.
const LAYERS: u32 = 24;
const WIDTH: u32 = 1024;

/// A model that is served with its vision tower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seeing {
    /// What is left of the share of memory for weights and pool.
    pub(super) share: f64,
    /// Its prefill batches are captured where prefill is.
    pub(super) captures_prefill: bool,
    /// It is Qwen3-VL on a large Hopper card, for which 0.5.23 has defaults of its own.
    pub(super) is_qwen3_vl_on_hopper: bool,
}

/// Whether the model is served with its tower; decode servers of 0.5.23 set no memory apart for it.
pub(super) fn seeing(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    (device, model): (Option<&Device>, Option<&ModelShape>),
    role: Role,
) -> Option<Seeing> {
    for (key, given) in [
        (ENABLE, raw.enable_multimodal),
        (LEAVE_OUT, raw.language_model_only),
    ] {
        if let Some(given) = given {
            judge.given(key, given);
        }
    }
    let is_new = profile.behaviour == Behaviour::V0_5_23;
    if raw.language_model_only == Some(true) && !is_new {
        judge.wrong_help(
            LEAVE_OUT,
            "is not a flag of SGLang 0.5.4",
            "there the vision tower is always loaded",
            "--engine sglang@0.5.23 has it",
        );
    }
    let vision = model.and_then(|model| model.vision.as_ref());
    let rules = &profile.vision;
    let is_among = |names: &[String], vision: &Vision| names.contains(&vision.architecture);
    let is_text_only = vision.is_some_and(|vision| is_among(&rules.text_only, vision));
    if raw.enable_multimodal.is_some() && model.is_some() && !is_text_only {
        let why = match vision {
            Some(_) => "this is already the default for the model",
            None => "the model has no vision tower",
        };
        judge.ignore(format!("enable_multimodal has no effect: {why}"));
    }
    let vision = vision?;
    let is_known = rules.known.as_ref().is_none_or(|known| is_among(known, vision));
    let is_wanted = !is_text_only || raw.enable_multimodal == Some(true);
    if !is_known || !is_wanted || raw.language_model_only == Some(true) {
        return None;
    }
    let sets_apart = !(is_new && role == Role::Decode);
    if vision.tower.is_none() && sets_apart && raw.mem_fraction_static.is_none() {
        judge.notes.push(format!(
            "the config says nothing of the model's vision tower, by whose size SGLang lowers {KEY_FRACTION}: \
             {LAYERS} layers of width {WIDTH} are assumed, which is what it takes for what a config does not say"
        ));
    }
    Some(Seeing {
        share: match sets_apart {
            true => share(vision.tower.unwrap_or_default()),
            false => 1.0,
        },
        captures_prefill: is_among(&rules.prefill_graphs, vision),
        is_qwen3_vl_on_hopper: is_new && is_qwen3_vl(vision) && device.is_some_and(is_large_hopper),
    })
}

fn is_qwen3_vl(vision: &Vision) -> bool {
    vision.architecture.starts_with("Qwen3VL")
}

/// H100, H200 and their like (`large_hopper_qwen3_vl_model_type`).
fn is_large_hopper(device: &Device) -> bool {
    device.architecture == Architecture::Hopper && device.reported_memory() >= Bytes(60 << 30)
}

/// `0.95 · clamp(1 − 0.1·(c − 1), 0.8, 1.05)`, where `c = layers·width²` as a multiple of ViT-L/14's
/// (`adjust_mem_fraction_for_vlm` of both versions).
fn share(tower: Tower) -> f64 {
    let complexity = |layers: u32, width: u32| f64::from(layers) * f64::from(width) * f64::from(width);
    let own = complexity(tower.layers.unwrap_or(LAYERS), tower.hidden_size.unwrap_or(WIDTH));
    let ratio = own / complexity(LAYERS, WIDTH);
    0.95 * (1.0 - 0.1 * (ratio - 1.0)).clamp(0.8, 1.05)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::flags::tests::resolve_line;

    #[test]
    fn a_larger_tower_takes_more_of_the_memory() {
        let check = |layers, hidden_size, expected: f64| {
            let got = share(Tower { layers, hidden_size });
            assert!(
                (got - expected).abs() < 1e-9,
                "{got} of {layers:?} × {hidden_size:?}"
            );
        };
        // ViT-L/14, which is also what is taken where nothing is said.
        check(Some(24), Some(1024), 0.95);
        check(None, None, 0.95);
        // Qwen2.5-VL: (1280 / 1024)² = 1.5625, so 5.625 % less.
        check(None, Some(1280), 0.95 * 0.943_75);
        // Kimi-K2.5: 27 · 1152² / (24 · 1024²) = 1.423828125.
        check(Some(27), Some(1152), 0.95 * (1.0 - 0.042_382_812_5));
        // Qwen2-VL gives the language model's width, and 12.25 is beyond what is taken off.
        check(None, Some(3584), 0.95 * 0.8);
        check(Some(1), Some(64), 0.95 * 1.05);
    }

    /// The share of memory for weights and pool, as it is assumed.
    fn fraction(model: &str, flags: &str) -> f64 {
        let line =
            format!("--model {model} --gpu h100-sxm --request-rate 1 --input-len 64 --output-len 8 {flags}");
        let resolved = resolve_line(&line).unwrap_or_else(|told| panic!("{line}: {told}"));
        let mut all = resolved.provenance.iter();
        let found = all.find(|value| value.key == "sglang.mem_fraction_static");
        found.expect("every server has one").value.parse().unwrap()
    }

    #[test]
    fn memory_is_set_apart_for_images_where_the_tower_is_served() {
        let check = |model: &str, flags: &str, expected: f64| {
            let got = fraction(model, flags);
            assert!((got - expected).abs() < 1e-6, "{got} of {model} {flags}");
        };
        // The driver shows 81,559 MiB. 512 for what is constant, 12,288 for a chunk, 512 for decode graphs and 128 for the rank are
        // taken off; 58 prefill graphs of 8 MiB of 0.5.23 are not captured for this model.
        let plain: f64 = ((81_559.0 - 13_440.0) / 81_559.0_f64 * 1000.0).round() / 1000.0;
        let qwen = plain * 0.95 * 0.943_75;
        check("Qwen/Qwen2.5-VL-7B-Instruct", "--engine sglang@0.5.4", qwen);
        check("Qwen/Qwen2.5-VL-7B-Instruct", "--engine sglang", qwen);
        check("Qwen/Qwen3-VL-4B-Instruct", "--engine sglang", plain * 0.95);
        let text = fraction("Qwen/Qwen2.5-7B-Instruct", "--engine sglang");
        check(
            "Qwen/Qwen2.5-VL-7B-Instruct",
            "--engine sglang --language-model-only",
            text,
        );
        // Gemma 3 is served as a text model unless it is told otherwise: 27 · 1152² / (24 · 1024²).
        check("google/gemma-3-4b-it", "--engine sglang", text);
        check(
            "google/gemma-3-4b-it",
            "--engine sglang --enable-multimodal",
            plain * 0.95 * (1.0 - 0.042_382_812_5),
        );
        check(
            "google/gemma-3-4b-it",
            "--engine sglang --mem-fraction-static 0.7",
            0.7,
        );
    }

    #[test]
    fn what_asks_for_nothing_is_said() {
        let machine = "--gpu h100-sxm --request-rate 1 --input-len 64 --output-len 8 --model";
        let notes = |line: &str| match resolve_line(&format!("{machine} {line}")) {
            Ok(resolved) => resolved.notes.join("\n"),
            Err(told) => told.to_string(),
        };
        let check = |line: &str, expected: &str| {
            let told = notes(line);
            assert!(told.contains(expected), "{line}: {told}");
        };
        check(
            "Qwen/Qwen3-8B --engine sglang --enable-multimodal",
            "enable_multimodal has no effect: the model has no vision tower",
        );
        check(
            "Qwen/Qwen2.5-VL-7B-Instruct --engine sglang --enable-multimodal",
            "already the default",
        );
        check(
            "Qwen/Qwen2.5-VL-7B-Instruct --engine sglang@0.5.4 --language-model-only",
            "is not a flag of SGLang 0.5.4",
        );
        // vLLM has a flag of the same name.
        check(
            "Qwen/Qwen2.5-VL-7B-Instruct --language-model-only",
            "prompts are text tokens",
        );
    }
}
