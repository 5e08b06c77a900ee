//! Reads a Hugging Face `config.json` into a [`ModelShape`].
//!
//! Multimodal configs keep the language model under `text_config`; what is absent there is looked for outside, then in
//! the class defaults of the family. Left out, with a note: vision towers, prediction layers. Law: any text gives a
//! shape or an error that lists everything wrong, never a panic, and no number of a shape can overflow a size.

mod layers;
mod quantization;
mod vectors;

use std::fmt;

use serde_json::{Map, Value};

use super::families::{FAMILIES, Family};
use super::{Attention, Dtype, ModelShape};
use crate::nearest::nearest;

/// Why a `config.json` cannot be read, all reasons together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ModelError {
    /// The model, as the caller named it.
    pub name: String,
    /// At least one, each with its key.
    pub problems: Vec<String>,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the config of {} cannot be used", self.name)?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

// Limits on what a config may say. They lie well above any model and keep all products of them within 64 bits.
const WIDTH_MAX: u32 = 1 << 18;
const LAYERS_MAX: u32 = 1 << 12;
const HEADS_MAX: u32 = 1 << 12;
const HEAD_DIM_MAX: u32 = 1 << 13;
const EXPERTS_MAX: u32 = 1 << 14;
const VOCABULARY_MAX: u32 = 1 << 24;
const POSITION_MAX: u32 = 1 << 30;
/// A thousand times the largest published model.
const PARAMETERS_MAX: f64 = 1e15;

impl ModelShape {
    /// Reads the text of a `config.json`. The second value notes what was assumed or left out.
    ///
    /// ```
    /// let config = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    ///     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    ///     "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}"#;
    /// let (shape, notes) = plimsoll::model::ModelShape::from_hf_config(config, "mine").unwrap();
    /// assert_eq!(shape.parameters(), 8_030_261_248);
    /// assert!(notes.is_empty());
    /// ```
    pub fn from_hf_config(json: &str, name: &str) -> Result<(ModelShape, Vec<String>), ModelError> {
        let failed = |problems| ModelError {
            name: name.to_string(),
            problems,
        };
        let value: Value =
            serde_json::from_str(json).map_err(|error| failed(vec![format!("not JSON: {error}")]))?;
        let outer = value.as_object().ok_or_else(|| {
            failed(vec![
                "not a JSON object; give the text of a `config.json`".to_string(),
            ])
        })?;
        let mut reader = Reader::new(outer).map_err(|problem| failed(vec![problem]))?;
        match reader.shape(name) {
            Some(shape) if reader.problems.is_empty() => Ok((shape, reader.notes)),
            _ => Err(failed(reader.problems)),
        }
    }
}

struct Reader<'a> {
    /// Where the language model is described.
    inner: &'a Map<String, Value>,
    /// The whole file.
    outer: &'a Map<String, Value>,
    architecture: String,
    family: &'static Family,
    problems: Vec<String>,
    notes: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(outer: &'a Map<String, Value>) -> Result<Reader<'a>, String> {
        let inner = ["text_config", "llm_config", "language_config"]
            .iter()
            .find_map(|key| outer.get(*key)?.as_object())
            .unwrap_or(outer);
        let architecture_of = |map: &'a Map<String, Value>| map.get("architectures")?.get(0)?.as_str();
        let type_of = |map: &'a Map<String, Value>| map.get("model_type")?.as_str();
        let architecture = architecture_of(outer).or_else(|| architecture_of(inner));
        let family = Family::find(architecture, type_of(inner).or_else(|| type_of(outer)));
        let Some(family) = family else {
            return Err(unknown_architecture(architecture.or_else(|| type_of(inner))));
        };
        Ok(Reader {
            inner,
            outer,
            architecture: architecture.unwrap_or(family.architectures[0]).to_string(),
            family,
            problems: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// The value of a key; an explicit `null` is none.
    fn get(&self, key: &str) -> Option<&'a Value> {
        let value = self.inner.get(key).or_else(|| self.outer.get(key))?;
        (!value.is_null()).then_some(value)
    }

    fn problem<T>(&mut self, problem: String) -> Option<T> {
        self.problems.push(problem);
        None
    }

    /// A whole number between `least` and `most`; `None` where the key is absent or wrong, which is written down.
    fn number(&mut self, key: &str, least: u32, most: u32) -> Option<u32> {
        let said = self.inner.contains_key(key) || self.outer.contains_key(key);
        let Some(value) = self.get(key) else {
            // An explicit null switches a default off.
            return if said { None } else { self.family.default(key) };
        };
        let number = value.as_u64().or_else(|| whole(value.as_f64()?));
        match number {
            Some(number) if (u64::from(least)..=u64::from(most)).contains(&number) => Some(number as u32),
            _ => self.problem(format!(
                "`{key}` is {} and must be a whole number from {least} to {most}",
                shortened(value)
            )),
        }
    }

    /// As [`Reader::number`], but absence is a problem too.
    fn required(&mut self, key: &str, most: u32) -> Option<u32> {
        let before = self.problems.len();
        let number = self.number(key, 1, most);
        if number.is_none() && self.problems.len() == before {
            return self.problem(format!("`{key}` is missing"));
        }
        number
    }

    fn flag(&mut self, key: &str, default: bool) -> bool {
        match self.get(key) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(value) => {
                let problem = format!("`{key}` is {} and must be true or false", shortened(value));
                self.problem::<()>(problem);
                default
            }
        }
    }

    fn shape(&mut self, name: &str) -> Option<ModelShape> {
        let hidden_size = self.required("hidden_size", WIDTH_MAX);
        let vocab_size = self.required("vocab_size", VOCABULARY_MAX);
        // Command R says how far it may be stretched (vLLM, `_get_and_verify_max_len`).
        let stretched = self.number("model_max_length", 1, POSITION_MAX);
        let max_position = stretched.or_else(|| self.required("max_position_embeddings", POSITION_MAX));
        let layer_count = self.required("num_hidden_layers", LAYERS_MAX);
        let tied_embeddings = self.flag("tie_word_embeddings", self.family.tied_by_default);
        let dtype = self.dtype();
        let quantization = self.quantization();
        let attention = self.attention(hidden_size);
        let layers = layer_count.and_then(|count| self.layers(count, attention.as_ref()?, max_position?));
        self.note_what_is_left_out();
        let mut shape = ModelShape {
            name: name.to_string(),
            architecture: self.architecture.clone(),
            hidden_size: hidden_size?,
            vocab_size: vocab_size?,
            tied_embeddings,
            max_position: max_position?,
            dtype: dtype?,
            quantization: quantization?,
            layers: layers?,
            other_parameters: 0,
        };
        shape.other_parameters = self.other_parameters(&shape);
        let estimate: f64 = shape
            .matrices()
            .iter()
            .map(|matrix| matrix.copies as f64 * matrix.inputs as f64 * matrix.outputs as f64)
            .sum();
        if estimate + shape.other_parameters as f64 > PARAMETERS_MAX {
            return self.problem(format!(
                "its numbers make {estimate:.1e} parameters, more than {PARAMETERS_MAX:.0e}"
            ));
        }
        Some(shape)
    }

    /// Format of unquantized weights as vLLM serves them under `--dtype auto`.
    fn dtype(&mut self) -> Option<Dtype> {
        let Some(value) = self.get("torch_dtype").or_else(|| self.get("dtype")) else {
            self.notes.push("no `torch_dtype`: bfloat16 assumed".to_string());
            return Some(Dtype::Bf16);
        };
        match value.as_str().map(|name| name.trim_start_matches("torch.")) {
            Some("bfloat16") => Some(Dtype::Bf16),
            Some("float16" | "half") => Some(Dtype::Fp16),
            Some("float32" | "float") => {
                self.notes
                    .push("a float32 checkpoint: served in bfloat16, as vLLM does by default".to_string());
                Some(Dtype::Bf16)
            }
            _ => self.problem(format!(
                "`torch_dtype` is {} and must be bfloat16, float16 or float32",
                shortened(value)
            )),
        }
    }

    /// The attention of a layer without a window.
    fn attention(&mut self, hidden_size: Option<u32>) -> Option<Attention> {
        let query_heads = self.required("num_attention_heads", HEADS_MAX);
        if self.family.latent {
            return self.latent_attention(query_heads);
        }
        let kv_heads = self.number("num_key_value_heads", 1, HEADS_MAX).or(query_heads);
        let head_dim = self.number("head_dim", 1, HEAD_DIM_MAX);
        let (query_heads, kv_heads) = (query_heads?, kv_heads?);
        if !query_heads.is_multiple_of(kv_heads) {
            return self.problem(format!(
                "`num_attention_heads` ({query_heads}) is not a multiple of `num_key_value_heads` ({kv_heads})"
            ));
        }
        let head_dim = match head_dim {
            Some(head_dim) => head_dim,
            None if hidden_size?.is_multiple_of(query_heads) => hidden_size? / query_heads,
            None => {
                return self.problem(format!(
                    "`head_dim` is missing and `hidden_size` ({}) is not a multiple of `num_attention_heads` ({query_heads})",
                    hidden_size?
                ));
            }
        };
        Some(Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            window: None,
        })
    }

    fn latent_attention(&mut self, query_heads: Option<u32>) -> Option<Attention> {
        let query_rank = self.number("q_lora_rank", 1, WIDTH_MAX);
        let kv_rank = self.required("kv_lora_rank", WIDTH_MAX);
        let rope_dim = self.required("qk_rope_head_dim", HEAD_DIM_MAX);
        let nope_dim = self.required("qk_nope_head_dim", HEAD_DIM_MAX);
        let value_dim = self.required("v_head_dim", HEAD_DIM_MAX);
        Some(Attention::Latent {
            query_heads: query_heads?,
            query_rank,
            kv_rank: kv_rank?,
            rope_dim: rope_dim?,
            nope_dim: nope_dim?,
            value_dim: value_dim?,
        })
    }

    fn note_what_is_left_out(&mut self) {
        if self.outer.contains_key("vision_config") || self.architecture.ends_with("ForConditionalGeneration")
        {
            let note = "a multimodal model: the weights of its vision tower are not counted";
            self.notes.push(note.to_string());
        }
        let predicted = self.get("num_nextn_predict_layers").and_then(Value::as_u64);
        if predicted.is_some_and(|layers| layers > 0) {
            let note = "multi-token prediction layers are not counted: engines load them only to speculate";
            self.notes.push(note.to_string());
        }
    }
}

fn unknown_architecture(name: Option<&str>) -> String {
    let known = || {
        FAMILIES
            .iter()
            .flat_map(|family| family.architectures.iter().copied())
    };
    let known_list = known().collect::<Vec<_>>().join(", ");
    match name {
        None => format!("`architectures` is missing; known are {known_list}"),
        Some(name) => {
            let near = nearest(name, known(), 1);
            let hint = near
                .first()
                .map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("the architecture {name} is not known; known are {known_list}{hint}")
        }
    }
}

/// A float that is a whole number.
fn whole(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && (0.0..1e15).contains(&value)).then_some(value as u64)
}

/// A JSON value for a message, cut where it is long.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LayerGroup, Mlp, Quantization};
    use super::*;
    use proptest::prelude::*;

    const LLAMA: &str = include_str!("../shapes/llama-3.1-8b.json");
    const SAMPLES: [&str; 5] = [
        LLAMA,
        include_str!("../shapes/deepseek-v3.json"),
        include_str!("../shapes/gpt-oss-20b.json"),
        include_str!("../shapes/gemma-3-4b.json"),
        include_str!("../shapes/qwen3-30b-a3b.json"),
    ];

    fn read(json: &str) -> (ModelShape, Vec<String>) {
        ModelShape::from_hf_config(json, "mine").unwrap()
    }

    fn with(json: &str, key: &str, value: Value) -> String {
        let mut config: Value = serde_json::from_str(json).unwrap();
        config[key] = value;
        config.to_string()
    }

    fn quantization_of(config: Value) -> Quantization {
        read(&with(LLAMA, "quantization_config", config)).0.quantization
    }

    #[test]
    fn everything_wrong_is_told_at_once() {
        let json = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": -4096, "num_hidden_layers": 32.5,
            "num_attention_heads": 32, "num_key_value_heads": 7, "vocab_size": "many", "torch_dtype": "int3",
            "max_position_embeddings": 99999999999, "quantization_config": {"quant_method": "magic"}}"#;
        let error = ModelShape::from_hf_config(json, "mine").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        the config of mine cannot be used
          `hidden_size` is -4096 and must be a whole number from 1 to 262144
          `vocab_size` is "many" and must be a whole number from 1 to 16777216
          `max_position_embeddings` is 99999999999 and must be a whole number from 1 to 1073741824
          `num_hidden_layers` is 32.5 and must be a whole number from 1 to 4096
          `torch_dtype` is "int3" and must be bfloat16, float16 or float32
          `quantization_config` with quant_method `magic` is not known; `--quantization` takes its place if the key is removed
          `num_attention_heads` (32) is not a multiple of `num_key_value_heads` (7)
        "#);
    }

    #[test]
    fn an_unknown_architecture_names_the_known_ones() {
        let error =
            ModelShape::from_hf_config(r#"{"architectures": ["LamaForCausalLM"]}"#, "mine").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        the config of mine cannot be used
          the architecture LamaForCausalLM is not known; known are LlamaForCausalLM, YiForCausalLM, MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen2MoeForCausalLM, Qwen3ForCausalLM, Qwen3MoeForCausalLM, GemmaForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3ForConditionalGeneration, Phi3ForCausalLM, GraniteForCausalLM, DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, Glm4MoeForCausalLM, GptOssForCausalLM, Llama4ForConditionalGeneration, Llama4ForCausalLM, MiniMaxM2ForCausalLM, Olmo2ForCausalLM, Olmo3ForCausalLM, CohereForCausalLM, Cohere2ForCausalLM, Starcoder2ForCausalLM, SmolLM3ForCausalLM, Glm4ForCausalLM, SeedOssForCausalLM, OPTForCausalLM; did you mean LlamaForCausalLM?
        "#);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let mut json = with(LLAMA, "hidden_size", (1 << 18).into());
        for (key, value) in [("intermediate_size", 1 << 18), ("num_hidden_layers", 1 << 12)] {
            json = with(&json, key, value.into());
        }
        let json = with(
            &with(&json, "architectures", serde_json::json!(["MixtralForCausalLM"])),
            "num_local_experts",
            512.into(),
        );
        let json = with(&json, "num_experts_per_tok", 1.into());
        let error = ModelShape::from_hf_config(&json, "mine").unwrap_err();
        assert!(error.problems[0].contains("parameters"), "{error}");
    }

    #[test]
    fn a_sparse_multimodal_config_takes_the_class_defaults() {
        let json = r#"{"architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
            "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                "num_hidden_layers": 34, "sliding_window": 1024},
            "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}}"#;
        let (shape, notes) = read(json);
        let (flat, _) = read(include_str!("../shapes/gemma-3-4b.json"));
        assert_eq!(shape, flat);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn windows_follow_the_family_or_the_list() {
        let windows = |json: &str| -> Vec<(u32, Option<u32>)> {
            let groups = read(json).0.layers;
            let window = |group: &LayerGroup| match group.attention {
                Attention::Grouped { window, .. } => window,
                Attention::Latent { .. } => None,
            };
            groups.iter().map(|group| (group.count, window(group))).collect()
        };
        assert_eq!(
            windows(include_str!("../shapes/gemma-3-27b.json")),
            [(52, Some(1024)), (10, None)]
        );
        assert_eq!(
            windows(include_str!("../shapes/gemma-2-9b.json")),
            [(21, Some(4096)), (21, None)]
        );
        assert_eq!(
            windows(include_str!("../shapes/gpt-oss-120b.json")),
            [(18, Some(128)), (18, None)]
        );
        assert_eq!(
            windows(include_str!("../shapes/mistral-7b-v0.1.json")),
            [(32, Some(4096))]
        );
        assert_eq!(
            windows(include_str!("../shapes/mistral-7b-v0.2.json")),
            [(32, None)]
        );
        // Longer than the context, hence none.
        assert_eq!(
            windows(include_str!("../shapes/phi-3-mini-128k.json")),
            [(32, None)]
        );
        let upper = with(
            include_str!("../shapes/qwen2.5-7b.json"),
            "use_sliding_window",
            true.into(),
        );
        let upper = with(
            &with(&upper, "sliding_window", 4096.into()),
            "max_window_layers",
            20.into(),
        );
        assert_eq!(windows(&upper), [(20, None), (8, Some(4096))]);
    }

    #[test]
    fn dense_layers_among_sparse_ones_are_found() {
        let (shape, notes) = read(include_str!("../shapes/deepseek-v3.json"));
        assert_eq!(
            shape.layers.iter().map(|group| group.count).collect::<Vec<_>>(),
            [3, 58]
        );
        assert!(notes[0].contains("prediction"));
        let mixed = with(
            include_str!("../shapes/qwen3-30b-a3b.json"),
            "decoder_sparse_step",
            2.into(),
        );
        let mixed = with(&mixed, "mlp_only_layers", serde_json::json!([1]));
        assert_eq!(
            read(&mixed)
                .0
                .layers
                .iter()
                .map(|group| group.count)
                .collect::<Vec<_>>(),
            [25, 23]
        );
    }

    #[test]
    fn quantization_schemes_are_recognised() {
        use serde_json::json;
        let int4 = |group_size| Quantization::Int4 { group_size };
        assert_eq!(quantization_of(json!({"quant_method": "fp8"})), Quantization::Fp8);
        assert_eq!(
            quantization_of(json!({"quant_method": "fp8", "weight_block_size": [128, 128]})),
            Quantization::Fp8Block
        );
        assert_eq!(
            quantization_of(json!({"quant_method": "awq", "bits": 4, "group_size": 64})),
            int4(64)
        );
        assert_eq!(
            quantization_of(json!({"quant_method": "gptq", "bits": 8})),
            Quantization::Int8
        );
        assert_eq!(
            quantization_of(json!({"quant_method": "mxfp4"})),
            Quantization::Mxfp4
        );
        let compressed = |bits: u64, kind: &str| {
            let weights = json!({"num_bits": bits, "type": kind, "group_size": 32});
            quantization_of(json!({"quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": weights}}}))
        };
        assert_eq!(compressed(8, "float"), Quantization::Fp8);
        assert_eq!(compressed(8, "int"), Quantization::Int8);
        assert_eq!(compressed(4, "int"), int4(32));
        assert_eq!(compressed(4, "float"), Quantization::Nvfp4);
        assert_eq!(
            quantization_of(json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})),
            Quantization::Nvfp4
        );
    }

    /// Configs of families that ship no shape, with the parameters of their model cards.
    #[test]
    fn other_families_have_the_parameters_of_their_cards() {
        let cards = [
            (
                // allenai/OLMo-2-1124-13B: 13.7 B.
                r#"{"architectures": ["Olmo2ForCausalLM"], "hidden_size": 5120, "intermediate_size": 13824,
                "max_position_embeddings": 4096, "num_attention_heads": 40, "num_hidden_layers": 40,
                "num_key_value_heads": 40, "tie_word_embeddings": false, "torch_dtype": "float32", "vocab_size": 100352}"#,
                13.7e9,
                13.7e9,
            ),
            (
                // bigcode/starcoder2-3b: 3.03 B.
                r#"{"architectures": ["Starcoder2ForCausalLM"], "hidden_size": 3072, "intermediate_size": 12288,
                "max_position_embeddings": 16384, "num_attention_heads": 24, "num_hidden_layers": 30,
                "num_key_value_heads": 2, "sliding_window": 4096, "use_bias": true, "vocab_size": 49152}"#,
                3.03e9,
                3.03e9,
            ),
            (
                // HuggingFaceTB/SmolLM3-3B: 3.08 B.
                r#"{"architectures": ["SmolLM3ForCausalLM"], "hidden_size": 2048, "intermediate_size": 11008,
                "max_position_embeddings": 65536, "num_attention_heads": 16, "num_hidden_layers": 36,
                "num_key_value_heads": 4, "torch_dtype": "bfloat16", "vocab_size": 128256}"#,
                3.08e9,
                3.08e9,
            ),
            (
                // MiniMaxAI/MiniMax-M2: 230 B, 10 B active beside the 1.2 B of embedding and LM head.
                r#"{"architectures": ["MiniMaxM2ForCausalLM"], "head_dim": 128, "hidden_size": 3072,
                "intermediate_size": 1536, "max_position_embeddings": 196608, "num_attention_heads": 48,
                "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8, "num_local_experts": 256,
                "tie_word_embeddings": false, "use_qk_norm": true, "vocab_size": 200064}"#,
                229e9,
                11.2e9,
            ),
            (
                // meta-llama/Llama-4-Scout-17B-16E: 109 B with the vision tower of 0.9 B, 17 B active.
                r#"{"architectures": ["Llama4ForConditionalGeneration"], "text_config": {"attention_chunk_size": 8192,
                "head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192,
                "intermediate_size_mlp": 16384, "max_position_embeddings": 10485760, "model_type": "llama4_text",
                "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
                "num_local_experts": 16, "vocab_size": 202048}, "torch_dtype": "bfloat16"}"#,
                108e9,
                17e9,
            ),
        ];
        for (json, all, active) in cards {
            let (shape, _) = read(json);
            let near = |got: u64, card: f64| (got as f64 / card - 1.0).abs() < 0.03;
            let exactly = |got: u64, card: f64| (got as f64 / card - 1.0).abs() < 0.005;
            assert!(
                exactly(shape.parameters(), all),
                "{} {}",
                shape.architecture,
                shape.parameters()
            );
            assert!(
                near(shape.active_parameters(), active),
                "{} {}",
                shape.architecture,
                shape.active_parameters()
            );
        }
    }

    #[test]
    fn chunked_layers_of_llama_4_are_windows_and_said() {
        let (shape, notes) = read(
            r#"{"architectures": ["Llama4ForCausalLM"], "attention_chunk_size": 128, "head_dim": 64, "hidden_size": 512,
            "interleave_moe_layer_step": 2, "intermediate_size": 1024, "intermediate_size_mlp": 2048,
            "max_position_embeddings": 131072, "no_rope_layers": [1, 1, 1, 0], "num_attention_heads": 8,
            "num_experts_per_tok": 1, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_local_experts": 2,
            "torch_dtype": "bfloat16", "vocab_size": 202048}"#,
        );
        let layers: Vec<(u32, bool, bool)> = shape
            .layers
            .iter()
            .map(|group| {
                let slides = matches!(
                    group.attention,
                    Attention::Grouped {
                        window: Some(128),
                        ..
                    }
                );
                let is_sparse = matches!(
                    group.mlp,
                    Mlp::Experts {
                        shared_intermediate: 1024,
                        ..
                    }
                );
                (group.count, slides, is_sparse)
            })
            .collect();
        assert_eq!(layers, [(2, true, false), (1, true, true), (1, false, true)]);
        assert!(notes.iter().any(|note| note.contains("chunks")), "{notes:?}");
    }

    #[test]
    fn a_bare_model_type_is_enough() {
        let json = with(
            &with(LLAMA, "architectures", Value::Null),
            "model_type",
            "llama".into(),
        );
        assert_eq!(read(&json).0.architecture, "LlamaForCausalLM");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0u64..5000).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
            Just(serde_json::json!([])),
            Just(serde_json::json!({})),
            Just(serde_json::json!(["sliding_attention"])),
        ]
    }

    proptest! {
        #[test]
        fn any_mutation_gives_a_shape_or_an_error(
            sample in 0usize..SAMPLES.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 0..4),
            removals in prop::collection::vec(any::<prop::sample::Index>(), 0..2),
        ) {
            let mut config: Map<String, Value> = serde_json::from_str(SAMPLES[sample]).unwrap();
            let keys: Vec<String> = config.keys().cloned().collect();
            for (key, value) in changes {
                config.insert(key.get(&keys).clone(), value);
            }
            for key in removals {
                config.remove(key.get(&keys));
            }
            let json = Value::Object(config).to_string();
            match ModelShape::from_hf_config(&json, "mutant") {
                Ok((shape, _)) => {
                    prop_assert!(shape.parameters() > 0);
                    prop_assert!(shape.widest_intermediate() > 0);
                    prop_assert!(shape.active_parameters() <= shape.parameters());
                    for tp in [1, 2, 3, 8, 64] {
                        prop_assert!(shape.weight_bytes(tp) <= shape.weight_bytes(1));
                        prop_assert!(shape.kv_bytes_per_token(Dtype::Fp32, tp).0 > 0);
                    }
                }
                Err(error) => prop_assert!(!error.problems.is_empty()),
            }
        }

        #[test]
        fn any_text_gives_an_error_and_not_a_panic(text in "\\PC{0,60}") {
            prop_assert!(ModelShape::from_hf_config(&text, "text").is_err());
        }
    }
}
