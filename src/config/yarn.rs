//! The context of a model under YaRN, which releases of vLLM read in two ways (`_get_and_verify_max_len`).
//!
//! Older ones take `original_max_position_embeddings` times `factor`; newer ones, SGLang and TensorRT-LLM take
//! `max_position_embeddings`, which most checkpoints have at that product, and those whose YaRN is to be added by hand have not.

use super::profile;
use super::raw::RawEngine;
use super::version::{EngineKind, Scheduled};
use crate::model::ModelShape;

/// The model with the context that the asked engine takes.
pub(super) fn read_by(model: ModelShape, engine: &RawEngine) -> ModelShape {
    match model.yarn_position.filter(|_| multiplies(engine)) {
        Some(stretched) => ModelShape {
            max_position: stretched,
            ..model
        },
        None => model,
    }
}

/// Whether the engine multiplies the original positions.
fn multiplies(engine: &RawEngine) -> bool {
    match engine.kind() {
        EngineKind::Sglang | EngineKind::Trtllm => false,
        EngineKind::Scheduled(kind) => kind == Scheduled::V0,
        EngineKind::Vllm => {
            let asked = engine.profile.as_deref().unwrap_or("vllm");
            profile::find(asked).is_ok_and(|(found, _)| found.startup.yarn_multiplies_original)
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
