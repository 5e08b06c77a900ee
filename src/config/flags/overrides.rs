//! Overrides of a model's config: what of them decides its longest context. All else is refused by name, for it changes shapes.
//!
//! Scaling of rotary positions changes neither shapes nor the time of a step: how attention is scaled and where ramps begin is left out.

use clap::Args;
use serde_json::{Map, Value as Json};
use toml::Value;

use super::editor::Editor;
use crate::config::document::Source;

/// Overrides as vLLM and SGLang take them.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Model")]
pub(crate) struct OverrideFlags {
    /// Overrides of the model's config, of which max_position_embeddings and rope_scaling (rope_parameters) are taken.
    #[arg(long, value_name = "JSON")]
    pub hf_overrides: Option<String>,
    /// The same, as SGLang calls it.
    #[arg(long, value_name = "JSON")]
    pub json_model_override_args: Option<String>,
    /// Scaling of rotary positions, as vLLM about 0.11 takes it.
    #[arg(long, value_name = "JSON")]
    pub rope_scaling: Option<String>,
}

/// A flag that holds overrides, and what is wrong in it.
struct Flag<'a, 'b> {
    name: &'static str,
    editor: &'a mut Editor<'b>,
}

const POSITIONS: &str = "max_position_embeddings";
const ROPE_SCALING: &str = "rope-scaling";

impl OverrideFlags {
    /// Sets what is given.
    pub(super) fn apply(&self, editor: &mut Editor<'_>) {
        if let Some(json) = &self.rope_scaling {
            let name = ROPE_SCALING;
            Flag { name, editor }.rope_scaling(json);
        }
        if self.hf_overrides.is_some() && self.json_model_override_args.is_some() {
            let what = "--json-model-override-args and --hf-overrides both override the model's config";
            let help = "keep one: --hf-overrides is vLLM's, and --json-model-override-args SGLang's";
            return editor.wrong("json-model-override-args", what, help);
        }
        for (name, json) in [
            ("hf-overrides", &self.hf_overrides),
            ("json-model-override-args", &self.json_model_override_args),
        ] {
            if let Some(json) = json {
                let mut flag = Flag { name, editor };
                if let Some(config) = flag.object(json) {
                    flag.config(&config);
                }
            }
        }
    }
}

impl Flag<'_, '_> {
    fn wrong(&mut self, what: &str, help: &str) {
        let message = format!("`--{}` {what}", self.name);
        self.editor.wrong(self.name, message, help);
    }

    fn object(&mut self, json: &str) -> Option<Map<String, Json>> {
        match serde_json::from_str(json) {
            Ok(Json::Object(object)) => Some(object),
            _ => {
                let help = "write it like '{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 32768}'";
                self.wrong("is not a JSON object", help);
                None
            }
        }
    }

    /// The releases that have the flag take the original positions times the factor, whatever the config's own are.
    fn rope_scaling(&mut self, json: &str) {
        let Some(rope) = self.object(json) else { return };
        self.rope(&Json::Object(rope.clone()));
        let number = |key: &str| rope.get(key).and_then(Json::as_f64);
        let is_yarn = ["rope_type", "type"]
            .iter()
            .any(|key| rope.get(*key).is_some_and(|kind| kind == "yarn"));
        let longest = number("original_max_position_embeddings").zip(number("factor"));
        if let Some((original, factor)) = longest.filter(|_| is_yarn) {
            self.editor.set(
                "model.max_position_embeddings",
                (original * factor) as i64,
                self.name,
            );
        }
    }

    fn config(&mut self, config: &Map<String, Json>) {
        for (key, value) in config {
            match (key.as_str(), value) {
                ("text_config", Json::Object(inner)) => self.config(inner),
                (POSITIONS, Json::Number(positions)) if positions.is_u64() => {
                    let positions = positions.as_i64().unwrap_or(i64::MAX);
                    self.editor
                        .set("model.max_position_embeddings", positions, self.name);
                }
                (POSITIONS, _) => self.wrong(
                    &format!("has `{POSITIONS}` {value}, which is no number of tokens"),
                    "write a whole number",
                ),
                ("rope_scaling" | "rope_parameters", value) => self.rope(value),
                (other, _) => {
                    let what = format!(
                        "sets `{other}`, which is not supported: it would change the result (changed model shapes)"
                    );
                    self.wrong(&what, "write the config.json with it and give its path");
                }
            }
        }
    }

    /// Takes the place of all scaling that the config has; `null` is none.
    fn rope(&mut self, rope: &Json) {
        let rope = match rope {
            Json::Null => &Map::new(),
            Json::Object(rope) => rope,
            other => {
                return self.wrong(
                    &format!("has rope scaling {other}, which is no object"),
                    "write it like {\"rope_type\": \"yarn\", …}",
                );
            }
        };
        // One for each kind of layers: they scale alike.
        let rope = match rope.values().next() {
            Some(Json::Object(first)) if rope.values().all(Json::is_object) => first,
            _ => rope,
        };
        let before = self.editor.document.source("model.rope_scaling.rope_type");
        if matches!(&before, Some(Source::Flag(flag)) if flag.ends_with("--rope-scaling"))
            && self.name != ROPE_SCALING
        {
            let what = "sets the scaling of rotary positions, and so does --rope-scaling";
            return self.wrong(what, "keep one of them");
        }
        self.editor.document.remove("model.rope_scaling");
        let kind = rope.get("rope_type").or_else(|| rope.get("type"));
        let kind = kind.and_then(Json::as_str).unwrap_or("default");
        self.editor.set("model.rope_scaling.rope_type", kind, self.name);
        for key in ["factor", "original_max_position_embeddings"] {
            let value = match rope.get(key) {
                None | Some(Json::Null) => continue,
                Some(Json::Number(number)) if key == "factor" => number.as_f64().map(Value::Float),
                Some(number) => number.as_i64().map(Value::Integer),
            };
            match value {
                Some(value) => self
                    .editor
                    .set(&format!("model.rope_scaling.{key}"), value, self.name),
                None => self.wrong(
                    &format!("has `{key}` {}, which is no number", rope[key]),
                    "write a number",
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::{FILES, flags_of};
    use crate::config::{Resolved, assemble, resolve};

    const YARN: &str = r#"{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768}"#;

    fn served(more: &str) -> Result<Resolved, String> {
        let line = format!("--gpu h100 --request-rate 1 --input-len 100 --output-len 10 {more}");
        let input = assemble(&flags_of(&line), &FILES).map_err(|wrong| wrong.to_string())?;
        resolve(input.document, &FILES).map_err(|wrong| wrong.to_string())
    }

    fn context(more: &str) -> u32 {
        served(more)
            .unwrap_or_else(|told| panic!("{more}: {told}"))
            .model
            .max_position
    }

    #[test]
    fn rope_scaling_is_read_as_the_release_that_has_it_reads_it() {
        let line = format!("Qwen/Qwen3-8B --rope-scaling '{YARN}' --max-model-len 131072");
        assert_eq!(context(&line), 131_072);
        assert_eq!(context(&format!("{line} --engine vllm@0.11")), 131_072);
        let plain = "Qwen/Qwen3-8B --max-model-len 32768";
        let (with, without) = (served(&line).unwrap(), served(plain).unwrap());
        assert_eq!(with.model.layers, without.model.layers);
        assert!(
            with.notes
                .iter()
                .any(|note| note.contains("--rope-scaling is a flag of vLLM about 0.11")),
            "{:?}",
            with.notes
        );
    }

    #[test]
    fn overrides_of_positions_are_taken_as_the_engine_reads_them() {
        let overridden =
            |more: &str| format!("Qwen/Qwen3-8B --hf-overrides '{{\"rope_scaling\":{YARN}{more}}}'");
        assert_eq!(context(&overridden("")), 40_960);
        assert_eq!(
            context(&format!(
                "{} --engine vllm@0.11 --max-model-len 131072",
                overridden("")
            )),
            131_072
        );
        let both = overridden(",\"max_position_embeddings\":131072");
        assert_eq!(context(&format!("{both} --max-model-len 131072")), 131_072);
        let sglang = both.replace("--hf-overrides", "--engine sglang --json-model-override-args");
        assert_eq!(context(&format!("{sglang} --context-length 131072")), 131_072);
        let short = sglang.replace(",\"max_position_embeddings\":131072", "");
        let told = served(&format!("{short} --context-length 131072")).err().unwrap();
        assert!(told.contains("131072 to --json-model-override-args"), "{told}");
        let told = served(&format!("{} --max-model-len 131072", overridden("")))
            .err()
            .unwrap();
        assert!(
            told.contains("\"max_position_embeddings\": 131072 to --hf-overrides")
                && told.contains("vllm@0.11"),
            "{told}"
        );
        let nested = "Qwen/Qwen3-8B --hf-overrides '{\"text_config\":{\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2}}}'";
        assert_eq!(context(nested), 81_920);
        assert_eq!(
            context("Qwen/Qwen3-8B --hf-overrides.max_position_embeddings 65536"),
            65_536
        );
    }

    #[test]
    fn overrides_are_flags_of_the_engine_that_has_them() {
        let told = |more: &str| served(&format!("Qwen/Qwen3-8B {more}")).err().unwrap_or_default();
        let positions = r#"'{"max_position_embeddings": 65536}'"#;
        let (vllm, sglang) = (
            format!("--hf-overrides {positions}"),
            format!("--json-model-override-args {positions}"),
        );
        let of_sglang = told(&format!("--engine sglang {vllm}"));
        assert!(
            of_sglang.contains("`--hf-overrides` is a flag of vLLM, and SGLang serves")
                && of_sglang.contains("SGLang calls it --json-model-override-args"),
            "{of_sglang}"
        );
        let of_vllm = told(&sglang);
        assert!(
            of_vllm.contains("`--json-model-override-args` is a flag of SGLang, and vLLM serves")
                && of_vllm.contains("vLLM calls it --hf-overrides"),
            "{of_vllm}"
        );
        for flag in [&vllm, &sglang, &format!("--rope-scaling '{YARN}'")] {
            let told = told(&format!("--engine tensorrt-llm {flag}"));
            assert!(
                told.contains("and TensorRT-LLM serves") && told.contains("config.json"),
                "{told}"
            );
        }
        let scaled = told(&format!("--engine sglang --rope-scaling '{YARN}'"));
        assert!(
            scaled.contains("`--rope-scaling` is a flag of vLLM, and SGLang serves")
                && scaled.contains("--json-model-override-args with rope_scaling"),
            "{scaled}"
        );
        assert_eq!(told(&format!("--engine sglang {sglang}")), "");
        assert_eq!(told(&format!("--engine vllm@0.6 {vllm}")), "");
    }

    #[test]
    fn two_flags_for_one_config_are_one_too_many() {
        let told = |more: &str| served(&format!("Qwen/Qwen3-8B {more}")).err().unwrap_or_default();
        let both = told("--hf-overrides '{}' --json-model-override-args '{}'");
        assert!(
            both.contains("both override the model's config") && both.contains("keep one"),
            "{both}"
        );
        let scaled = told(&format!(
            "--rope-scaling '{YARN}' --hf-overrides '{{\"rope_scaling\": {YARN}}}'"
        ));
        assert!(scaled.contains("and so does --rope-scaling"), "{scaled}");
        let positions = "--hf-overrides '{\"max_position_embeddings\": 65536}'";
        assert_eq!(told(&format!("--rope-scaling '{YARN}' {positions}")), "");
    }

    #[test]
    fn other_overrides_are_refused_by_name() {
        let told = |json: &str| {
            served(&format!("Qwen/Qwen3-8B --hf-overrides '{json}'"))
                .err()
                .unwrap()
        };
        assert!(
            told(r#"{"num_hidden_layers": 4}"#)
                .contains("`--hf-overrides` sets `num_hidden_layers`, which is not supported")
        );
        assert!(told("4").contains("is not a JSON object"));
        assert!(
            told(r#"{"rope_scaling": {"rope_type": "yarn", "factor": 0.5}}"#)
                .contains("must be a number of at least 1")
        );
        assert!(
            told(r#"{"rope_scaling": {"rope_type": "yarn", "factor": "x"}}"#)
                .contains("`factor` \"x\", which is no number")
        );
    }
}
