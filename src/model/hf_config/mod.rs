//! Reads a Hugging Face `config.json` into a [`ModelShape`].
//!
//! Multimodal configs keep the language model under `text_config`; what is absent there is looked for outside, then in
//! the class defaults of the family. Left out, with a note: vision towers, prediction layers. Law: any text gives a
//! shape or an error that lists everything wrong, never a panic, and no number of a shape can overflow a size.

mod blocks;
mod heads;
mod hybrid;
mod indexer;
mod layers;
mod lists;
mod module_names;
mod modules;
mod products;
mod quantization;
mod reader;
mod recurrence;
mod rope;
mod unlike;
mod vectors;

use std::fmt;

use serde_json::Value;

pub use self::quantization::MODELOPT_FILE;
use self::reader::{Reader, shortened};
pub use self::rope::{is_scaled_already, yarn_note};
use super::families::{Hybrid, Unlike};
use super::{Attention, Dtype, ModelShape, Vision};
use crate::python::quote_bare_numbers;

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

/// What is said of a model that sees.
pub(super) const UNCOUNTED_VISION: &str =
    "a multimodal model: the weights of its vision tower are not counted";
/// What is said of the layers that a config has for multi-token prediction.
pub const UNCOUNTED_PREDICTION: &str =
    "multi-token prediction layers are not counted: engines load them only to speculate";

// Limits on what a config may say. They lie well above any model and keep all products of them within 64 bits.
const WIDTH_MAX: u32 = 1 << 18;
const LAYERS_MAX: u32 = 1 << 12;
/// Architectures whose configs have no `num_key_value_heads`: every head has its own.
const WITHOUT_KV_HEADS: [&str; 11] = [
    "OPTForCausalLM",
    "GPT2LMHeadModel",
    "GPTJForCausalLM",
    "GPTNeoXForCausalLM",
    "BloomForCausalLM",
    "MPTForCausalLM",
    "MptForCausalLM",
    "QWenLMHeadModel",
    "BaichuanForCausalLM",
    "BaiChuanForCausalLM",
    "InternLMForCausalLM",
];
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
        ModelShape::from_checkpoint(json, None, name)
    }

    /// The same with the text of the `hf_quant_config.json` beside it, in which ModelOpt before 0.31 says how the checkpoint
    /// is quantized. It counts where the config says nothing of that, as in vLLM.
    pub fn from_checkpoint(
        json: &str,
        hf_quant_config: Option<&str>,
        name: &str,
    ) -> Result<(ModelShape, Vec<String>), ModelError> {
        let failed = |problems| ModelError {
            name: name.to_string(),
            problems,
        };
        let value: Value = serde_json::from_str(&quote_bare_numbers(json))
            .map_err(|error| failed(vec![format!("not JSON: {error}")]))?;
        let outer = value.as_object().ok_or_else(|| {
            failed(vec![
                "not a JSON object; give the text of a `config.json`".to_string(),
            ])
        })?;
        let beside =
            hf_quant_config.map(|text| serde_json::from_str(text).map_err(|error| error.to_string()));
        let mut reader = Reader::new(outer).map_err(|problem| failed(vec![problem]))?;
        reader.beside = beside.as_ref();
        match reader.shape(name) {
            Some(shape) if reader.problems.is_empty() => Ok((shape, reader.notes)),
            _ => Err(failed(reader.problems)),
        }
    }
}

impl Reader<'_> {
    fn shape(&mut self, name: &str) -> Option<ModelShape> {
        let hidden_size = self.required("hidden_size", WIDTH_MAX);
        let vocab_size = self.required("vocab_size", VOCABULARY_MAX);
        // Command R says how far it may be stretched (vLLM, `_get_and_verify_max_len`).
        let stretched = self.number("model_max_length", 1, POSITION_MAX);
        let mut trained_position = None;
        let max_position = stretched.or_else(|| {
            let trained = self.required("max_position_embeddings", POSITION_MAX)?;
            let longest = self.rope_stretched(trained)?;
            trained_position = Some(trained).filter(|&trained| trained != longest);
            Some(longest)
        });
        let layer_count = self.layer_count();
        // No class of Nemotron-H, Kimi Linear and Ling 3 shares its tables, whatever the key says.
        let shares_tables = !matches!(
            self.family.hybrid,
            Hybrid::StateSpace | Hybrid::KimiDelta | Hybrid::LingDelta
        );
        let tied_embeddings = self.flag("tie_word_embeddings", self.family.tied_by_default) && shares_tables;
        let dtype = self.dtype();
        let scheme = self.scheme();
        let attention = self.attention(hidden_size);
        let stays = scheme.as_ref().map(|scheme| &scheme.stays);
        let layers =
            layer_count.and_then(|count| self.layers(count, attention.as_ref()?, max_position?, stays?));
        let per_layer_input = match self.family.unlike {
            Unlike::Gemma4 => self.number("hidden_size_per_layer_input", 0, WIDTH_MAX),
            _ => None,
        };
        let per_layer_input = per_layer_input.filter(|&width| width > 0);
        let scheme = scheme?;
        self.note_what_is_left_out();
        let mut shape = ModelShape {
            name: name.to_string(),
            architecture: self.architecture.clone(),
            hidden_size: hidden_size?,
            vocab_size: vocab_size?,
            tied_embeddings,
            max_position: max_position?,
            trained_position,
            yarn_position: self.yarn_position(max_position?),
            dtype: dtype?,
            quantization: scheme.quantization,
            quant_method: scheme.method,
            static_scales: scheme.static_scales,
            kv_scheme: scheme.kv,
            layers: layers?,
            per_layer_input,
            vision: Vision::read(&self.architecture, self.outer),
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

    /// The format of the model's weights, noted and complained about elsewhere.
    fn model_dtype(&self) -> Option<Dtype> {
        let value = self.get("torch_dtype").or_else(|| self.get("dtype"));
        let name = value.and_then(Value::as_str).unwrap_or_default();
        Some(match name.trim_start_matches("torch.") {
            "float16" | "half" => Dtype::Fp16,
            _ => Dtype::Bf16,
        })
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
        let shares_one = self.family.multi_query
            && self.flag("multi_query", true)
            && !self.flag("new_decoder_architecture", false);
        // A searched architecture says them of each layer.
        let kv_heads = match shares_one {
            true => Some(1),
            false if self.family.unlike == Unlike::Blocks => query_heads,
            false => {
                if !WITHOUT_KV_HEADS.contains(&self.architecture.as_str()) {
                    self.told_if_absent("num_key_value_heads", "one for each query head is");
                }
                self.number("num_key_value_heads", 1, HEADS_MAX).or(query_heads)
            }
        };
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
        let value_dim = match self.family.unlike {
            Unlike::WindowHeads => self.number("v_head_dim", 1, HEAD_DIM_MAX),
            _ => None,
        };
        Some(Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            window: None,
            value_dim: value_dim.unwrap_or(head_dim),
            gate: self.output_gate()?,
            shares_kv: false,
        })
    }

    fn latent_attention(&mut self, query_heads: Option<u32>) -> Option<Attention> {
        self.told_if_absent("q_lora_rank", "that queries are not compressed is");
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
            gate: self.output_gate()?,
            indexer: self.indexer(query_rank)?,
        })
    }

    fn note_what_is_left_out(&mut self) {
        if Vision::read(&self.architecture, self.outer).is_some() {
            self.notes.push(UNCOUNTED_VISION.to_string());
        }
        let predicted = ["num_nextn_predict_layers", "mtp_num_hidden_layers"]
            .iter()
            .filter_map(|key| self.get(key)?.as_u64())
            .max();
        if predicted.is_some_and(|layers| layers > 0) {
            self.notes.push(UNCOUNTED_PREDICTION.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
