//! The context of a model under YaRN, which releases of vLLM read in two ways (`_get_and_verify_max_len`).
//!
//! Older ones take `original_max_position_embeddings` times `factor`; newer ones, SGLang and TensorRT-LLM take
//! `max_position_embeddings`, which most checkpoints have at that product, and those whose YaRN is to be added by hand have not.

use super::document::Source;
use super::judge::Judge;
use super::profile;
use super::raw::{RawEngine, RawModel, RawRopeScaling, RawScenario};
use super::version::{EngineKind, Scheduled};
use crate::model::{self, ModelShape};

const POSITIONS: &str = "model.max_position_embeddings";
const KIND: &str = "model.rope_scaling.rope_type";
const SCALING: &str = "model.rope_scaling";
const FACTOR: &str = "model.rope_scaling.factor";
const ORIGINAL: &str = "model.rope_scaling.original_max_position_embeddings";
const MOST: u32 = (1 << 30) - 1;

/// The model with the context that the asked engine takes, overrides of its config included.
pub(super) fn read_by(judge: &mut Judge, model: ModelShape, raw: &RawScenario) -> ModelShape {
    let multiplies = multiplies(&raw.engine, &model);
    refuse_foreign(judge, &raw.engine);
    let model = overridden(judge, model, &raw.model, multiplies);
    match model.yarn_position.filter(|_| multiplies) {
        Some(stretched) => ModelShape {
            max_position: stretched,
            ..model
        },
        None => model,
    }
}

/// Flags that override a model's config, and which engine has them.
const FLAGS: [(&str, &str); 3] = [
    ("--hf-overrides", "vLLM"),
    ("--rope-scaling", "vLLM"),
    ("--json-model-override-args", "SGLang"),
];

/// Refuses a flag of an engine that does not serve; policies that are no engine's take those of vLLM.
fn refuse_foreign(judge: &mut Judge, engine: &RawEngine) {
    let serves = match engine.kind() {
        EngineKind::Vllm | EngineKind::Scheduled(_) => "vLLM",
        EngineKind::Sglang => "SGLang",
        EngineKind::Trtllm => "TensorRT-LLM",
    };
    let mut refused = Vec::new();
    for key in [KIND, POSITIONS] {
        let Some(Source::Flag(given)) = judge.document.source(key) else {
            continue;
        };
        let known = FLAGS.iter().find(|(flag, _)| given.ends_with(flag));
        let Some((flag, owner)) = known.filter(|(flag, owner)| *owner != serves && !refused.contains(flag))
        else {
            continue;
        };
        refused.push(*flag);
        let help = match (serves, *flag) {
            ("SGLang", "--rope-scaling") => "SGLang takes it in --json-model-override-args with rope_scaling",
            ("SGLang", _) => "SGLang calls it --json-model-override-args",
            ("vLLM", _) => "vLLM calls it --hf-overrides",
            _ => "TensorRT-LLM has no such flag: write the config.json with it and give its path",
        };
        let problem = format!("is a flag of {owner}, and {serves} serves");
        judge.wrong_help(key, &problem, "not of this engine", help);
    }
}

fn overridden(judge: &mut Judge, mut model: ModelShape, raw: &RawModel, multiplies: bool) -> ModelShape {
    if let Some(positions) = raw.max_position_embeddings {
        let positions = judge.required(POSITIONS, positions, (1, u64::from(MOST)));
        // The config's own scaling multiplies those, too.
        let factor = model
            .trained_position
            .map_or(1.0, |trained| f64::from(model.max_position) / f64::from(trained));
        model.trained_position = model.trained_position.map(|_| positions);
        model.max_position = (f64::from(positions) * factor) as u32;
        let is_of_scaling = matches!(judge.document.source(POSITIONS), Some(Source::Flag(flag)) if flag.ends_with("--rope-scaling"));
        if is_of_scaling && !multiplies {
            judge.notes.push(format!(
                "--rope-scaling is a flag of vLLM about 0.11, which makes the context {}: newer releases have --hf-overrides with \
                 max_position_embeddings for it",
                model.max_position
            ));
        }
    }
    if let Some(rope) = &raw.rope_scaling {
        stretch(judge, &mut model, rope);
    }
    model
}

/// Puts a scaling in the place of the config's.
fn stretch(judge: &mut Judge, model: &mut ModelShape, rope: &RawRopeScaling) {
    if let Some(stretched) = model.yarn_position.take() {
        let note = model::yarn_note(model.max_position, stretched);
        judge.notes.retain(|said| *said != note);
    }
    model.max_position = model.trained_position.take().unwrap_or(model.max_position);
    let kind = rope.rope_type.as_deref().unwrap_or("default");
    judge.given(KIND, kind);
    let factor = rope.factor.unwrap_or(1.0);
    judge.given(FACTOR, factor);
    let original = rope.original_max_position_embeddings;
    let original = original.map(|positions| judge.required(ORIGINAL, positions, (1, u64::from(MOST))));
    let longest = |positions: u32| f64::from(positions) * factor;
    let original = original.map(longest);
    if !(factor >= 1.0 && original.unwrap_or(0.0).max(longest(model.max_position)) <= f64::from(MOST)) {
        let key = if rope.factor.is_some() { FACTOR } else { SCALING };
        judge.wrong(
            key,
            "must be a number of at least 1 that leaves a context below 2^30",
            format!("{factor} does not"),
        );
        return;
    }
    if kind == "yarn" {
        let stretched = original.map(|original| original as u32);
        model.yarn_position = stretched.filter(|&stretched| stretched != model.max_position);
        let note = model
            .yarn_position
            .map(|stretched| model::yarn_note(model.max_position, stretched));
        judge.notes.extend(note);
    } else if !model::is_scaled_already(kind) && !model.architecture.starts_with("Gemma3") {
        model.max_position = longest(model.max_position) as u32;
    }
}

/// What makes a context of so many `tokens`, where YaRN stretches positions so far and the engine takes those of the config.
pub(super) fn longer(model: Option<&ModelShape>, tokens: u32, flag: &str) -> Option<String> {
    let model = model?;
    let stretched = model
        .yarn_position
        .filter(|&stretched| (model.max_position + 1..=stretched).contains(&tokens))?;
    Some(format!(
        "write at most {}, or add \"max_position_embeddings\": {stretched} to {flag}",
        model.max_position
    ))
}

/// Whether the engine multiplies the original positions.
fn multiplies(engine: &RawEngine, model: &ModelShape) -> bool {
    match engine.kind() {
        EngineKind::Sglang | EngineKind::Trtllm => false,
        EngineKind::Scheduled(kind) => kind == Scheduled::V0,
        EngineKind::Vllm => {
            let asked = engine.profile.as_deref().unwrap_or("vllm");
            profile::find_for(asked, Some(model))
                .is_ok_and(|(found, _)| found.startup.yarn_multiplies_original)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::flags_of;
    use crate::config::{Files, Resolved, assemble, resolve};

    /// Qwen's recipe: positions as they were trained, and YaRN beside them.
    struct Stretched;

    impl Files for Stretched {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            if !path.ends_with("/config.json") {
                return Err("not there".to_owned());
            }
            let config = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
                "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
                "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}"#;
            Ok(config.as_bytes().to_vec())
        }
    }

    fn read(more: &str) -> Result<Resolved, String> {
        let line =
            format!("./config.json --gpu h100 --request-rate 1 --input-len 100 --output-len 10 {more}");
        let input = assemble(&flags_of(&line), &Stretched).map_err(|wrong| wrong.to_string())?;
        resolve(input.document, &Stretched).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn yarn_is_read_as_the_release_reads_it() {
        let context = |engine: &str| {
            let run = read(&format!("--engine {engine}")).unwrap();
            assert!(
                run.notes
                    .iter()
                    .any(|note| note.contains("131072, to releases about 0.11")),
                "{:?}",
                run.notes
            );
            run.model.max_position
        };
        for (engine, positions) in [
            ("vllm@0.33", 32_768),
            ("vllm@0.11", 131_072),
            ("vllm@0.6", 131_072),
            ("sglang", 32_768),
            ("static", 32_768),
        ] {
            assert_eq!(context(engine), positions, "{engine}");
        }
        let asked = read("--engine vllm@0.11 --max-model-len 131072").unwrap();
        assert_eq!(
            asked.scenario.first_pool().engine.vllm().unwrap().max_model_len,
            131_072
        );
        let refused = read("--engine vllm@0.33 --max-model-len 131072").err().unwrap();
        assert!(refused.contains("is longer than the model allows"), "{refused}");
    }
}
