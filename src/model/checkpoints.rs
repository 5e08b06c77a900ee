//! Quantized copies of the shipped models, by their names: `hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4`.
//!
//! Whoever quantizes a model keeps its name and says at the end how the weights are stored. The shape is the shipped one's, so the name is
//! enough, however its beginning is spelt, and a note says what was read into it. Left out: endings that mean several formats (`-GPTQ`, `-INT8`) and what a copy keeps
//! in 16 bits beyond the LM head; its `config.json` says either. Law: a shipped id is never read in this way.

use super::registry::{self, UnknownModel};
use super::{ModelShape, Quantization};

/// How linear layers are stored behind a name with this ending.
const ENDINGS: [(&str, Quantization); 26] = [
    ("-fp8", Quantization::Fp8),
    ("-fp8-dynamic", Quantization::Fp8),
    ("-fp8-static", Quantization::Fp8),
    ("-fp8-kv", Quantization::Fp8),
    ("-fp8-block", Quantization::Fp8Block),
    ("-awq", Quantization::AWQ),
    ("-awq-int4", Quantization::AWQ),
    ("-int4-awq", Quantization::AWQ),
    ("-gptq-int4", Quantization::GPTQ),
    ("-gptq-4bit", Quantization::GPTQ),
    ("-int4", Quantization::AWQ),
    ("-w4a16", Quantization::GPTQ),
    ("-quantized.w4a16", Quantization::GPTQ),
    ("-bnb-4bit", Quantization::BITSANDBYTES),
    ("-bnb-nf4", Quantization::BITSANDBYTES),
    (
        "-gptq-int8",
        Quantization::WeightOnly8 {
            group_size: Some(128),
        },
    ),
    ("-w8a16", Quantization::WeightOnly8 { group_size: None }),
    ("-quantized.w8a16", Quantization::WeightOnly8 { group_size: None }),
    ("-w8a8", Quantization::Int8),
    ("-quantized.w8a8", Quantization::Int8),
    ("-w8a8-int8", Quantization::Int8),
    ("-nvfp4", Quantization::Nvfp4),
    ("-nvfp4-v2", Quantization::Nvfp4),
    ("-fp4", Quantization::Nvfp4),
    ("-fp4-v2", Quantization::Nvfp4),
    ("-bf16", Quantization::None),
];

/// The shipped model of that name, as [`super::find`] has it, or of its everyday spelling (`mistral-7b`), or the one of which the
/// name is a quantized copy's, and what was read into it.
///
/// ```
/// let (model, notes) = plimsoll::model::find_checkpoint("RedHatAI/Qwen3-8B-quantized.w4a16").unwrap();
/// assert_eq!(model.quantization.name(), "int4 (group 128, symmetric)");
/// assert!(notes[0].contains("Qwen/Qwen3-8B"));
/// ```
pub fn find_checkpoint(name: &str) -> Result<(ModelShape, Vec<String>), UnknownModel> {
    if let Ok(found) = registry::find(name) {
        return Ok(found);
    }
    let name = name.trim().trim_end_matches('/');
    let last = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let ending = ENDINGS
        .iter()
        .filter(|(ending, _)| last.ends_with(ending))
        .max_by_key(|(ending, _)| ending.len());
    let copied =
        ending.and_then(|&(ending, stored)| Some((base(&last[..last.len() - ending.len()])?, stored)));
    let Some(((shape, mut notes), said)) = copied else {
        return registry::find_meant(name).map_err(|unknown| UnknownModel {
            copy_of: copied_from(&last),
            ..unknown
        });
    };
    let (stored, static_scales) = match said {
        Quantization::Fp8 if last.ends_with("-fp8") => {
            let whose = if name.contains('/') { name } else { &shape.name };
            fp8_of(whose.split('/').next().unwrap_or_default())
        }
        said => (
            said,
            ["-fp8-static", "-fp8-kv"].iter().any(|end| last.ends_with(end)),
        ),
    };
    notes.push(format!(
        "{name} is not bundled: counted as {} with its linear layers in {}, as its name says; its config.json would be exact",
        shape.name,
        stored.name()
    ));
    let shape = ModelShape {
        name: name.to_owned(),
        static_scales,
        ..shape.with_quantization(stored)
    };
    Ok((shape, notes))
}

/// What a publisher means by `-FP8`, and whether its checkpoints bring scales of their inputs: the same as in the shipped ones of
/// that publisher, of which Qwen's are in blocks. Nothing is known of any other's, and most find those scales while running.
fn fp8_of(publisher: &str) -> (Quantization, bool) {
    let is_own = |id: &&str| {
        let own = id.split('/').next().unwrap_or_default();
        id.ends_with("-FP8") && own.eq_ignore_ascii_case(publisher)
    };
    registry::names()
        .filter(is_own)
        .find_map(|id| registry::find(id).ok())
        .map_or((Quantization::Fp8, false), |(shape, _)| {
            (shape.quantization, shape.static_scales)
        })
}

/// The shipped model that a copy's name begins with, by its last part, and what is said of that one whatever its name.
fn base(part: &str) -> Option<(ModelShape, Vec<String>)> {
    let (shape, _) = registry::find_meant(part).ok()?;
    registry::find(&shape.name).ok()
}

/// With which a word begins that speaks of fewer bits.
const FEWER_BITS: [&str; 17] = [
    "4bit", "8bit", "awq", "bnb", "exl", "fp4", "fp8", "gguf", "gptq", "int4", "int8", "mxfp", "nf4", "nvfp",
    "quant", "w4", "w8",
];

/// The shipped id that a name means up to where it speaks of fewer bits: a copy whose ending says too little.
fn copied_from(last: &str) -> Option<String> {
    let says_bits = |rest: &str| FEWER_BITS.iter().any(|bits| rest.starts_with(bits));
    let (end, _) = last
        .match_indices(['-', '.', '_'])
        .find(|(at, _)| says_bits(&last[at + 1..]))?;
    Some(base(&last[..end])?.0.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_s_name_says_how_it_is_stored() {
        let check = |name: &str, base: &str, stored: &str| {
            let (shape, notes) = find_checkpoint(name).unwrap();
            let (plain, _) = registry::find(base).unwrap();
            assert_eq!(
                (shape.quantization.name().as_str(), shape.name.as_str()),
                (stored, name)
            );
            assert_eq!(
                shape.parameters(),
                plain.with_quantization(shape.quantization).parameters()
            );
            assert!(notes.iter().any(|note| note.contains(base)), "{name}: {notes:?}");
        };
        let llama = "meta-llama/Llama-3.1-405B-Instruct";
        check("meta-llama/Llama-3.1-405B-Instruct-FP8", llama, "fp8");
        check("RedHatAI/Llama-3.1-405B-Instruct-FP8-dynamic", llama, "fp8");
        check(
            "Llama-3.1-405B-Instruct-quantized.w4a16",
            llama,
            "int4 (group 128, symmetric)",
        );
        check(
            "neuralmagic/Llama-3.1-405B-Instruct-quantized.w8a8",
            llama,
            "int8",
        );
        check("nvidia/Llama-3.1-405B-Instruct-FP4", llama, "nvfp4");
        check(
            "Qwen/Qwen2.5-7B-Instruct-AWQ",
            "Qwen/Qwen2.5-7B-Instruct",
            "int4 (group 128)",
        );
        check(
            "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8",
            "Qwen/Qwen2.5-72B-Instruct",
            "8-bit weights only (group 128)",
        );
        check(
            "hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4",
            "meta-llama/Meta-Llama-3.1-8B-Instruct",
            "int4 (group 128)",
        );
        // Qwen's own are in blocks, whoever else's by that name are not.
        let coder = "Qwen/Qwen3-30B-A3B-Instruct-2507";
        check("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", coder, "fp8 (block)");
        check("Qwen3-30B-A3B-Instruct-2507-FP8", coder, "fp8 (block)");
        check("acme/Qwen3-30B-A3B-Instruct-2507-FP8", coder, "fp8");
        check("RedHatAI/Qwen3-30B-A3B-FP8-dynamic", "Qwen/Qwen3-30B-A3B", "fp8");
        check(
            "TheBloke/Llama-2-7B-Chat-AWQ",
            "meta-llama/Llama-2-7b-chat-hf",
            "int4 (group 128)",
        );
        check(
            "casperhansen/llama-3-8b-instruct-awq",
            "meta-llama/Meta-Llama-3-8B-Instruct",
            "int4 (group 128)",
        );
        check("mistral7b-awq", "mistralai/Mistral-7B-v0.3", "int4 (group 128)");
        check(
            "acme/DeepSeek-R1-0528-FP4-v2",
            "deepseek-ai/DeepSeek-R1-0528",
            "nvfp4",
        );
        check("unsloth/DeepSeek-V3-bf16", "deepseek-ai/DeepSeek-V3", "none");
    }

    #[test]
    fn a_copy_s_name_says_whether_it_brings_scales_of_inputs() {
        for (name, expected) in [
            ("RedHatAI/Qwen3-30B-A3B-FP8", true),
            ("nvidia/Mixtral-8x7B-Instruct-v0.1-FP8", true),
            ("acme/Qwen3-30B-A3B-FP8-static", true),
            ("amd/Llama-3.1-70B-Instruct-FP8-KV", true),
            ("acme/Qwen3-30B-A3B-FP8", false),
            ("RedHatAI/Qwen3-30B-A3B-FP8-dynamic", false),
            ("zai-org/GLM-4.5-Air-FP8", false),
            ("Qwen/Qwen3-30B-A3B-FP8", false),
        ] {
            assert_eq!(find_checkpoint(name).unwrap().0.static_scales, expected, "{name}");
        }
    }

    #[test]
    fn a_shipped_id_is_itself() {
        for id in registry::names() {
            assert_eq!(find_checkpoint(id).unwrap(), registry::find(id).unwrap(), "{id}");
        }
        let former = find_checkpoint("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8")
            .unwrap()
            .0;
        assert_eq!(former.name, "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8");
    }

    #[test]
    fn an_ending_of_several_meanings_says_what_would_do() {
        let error = find_checkpoint("TheBloke/Mistral-7B-Instruct-v0.2-GPTQ").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        unknown model "TheBloke/Mistral-7B-Instruct-v0.2-GPTQ"
          did you mean mistralai/Mistral-7B-Instruct-v0.2 or mistralai/Mistral-7B-Instruct-v0.1 or mistralai/Mistral-7B-Instruct-v0.3?
          if it is a quantized copy of mistralai/Mistral-7B-Instruct-v0.2, give that name and --quantization (fp8, int8, w8a16, awq, gptq, nvfp4 …)
          `plimsoll models` lists the shipped ones; or give the path of a `config.json` or of its folder
        "#);
        for name in [
            "TheBloke/Llama-2-7B-Chat-GPTQ",
            "Qwen3-8B-INT8",
            "acme/Llama-3.1-70B-Instruct-FP8-mixed",
        ] {
            assert!(find_checkpoint(name).unwrap_err().copy_of.is_some(), "{name}");
        }
        for name in ["acme/bot-8b-FP8", "Llama-3.1-8B-Instrukt"] {
            assert_eq!(find_checkpoint(name).unwrap_err().copy_of, None, "{name}");
        }
    }
}
