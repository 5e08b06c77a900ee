//! What a user may ask of a shape: the spellings of `--dtype`, `--quantization` and `--kv-cache-dtype`.
//!
//! Left out: whether the hardware has units for a format; storage shrinks all the same, the cost model decides the
//! rest. Law: an override replaces what `config.json` said, it never adds to it.

use super::{Dtype, LayerGroup, ModelShape, Quantization};
use crate::nearest::nearest;

/// A word that is none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a {what}; known are {known}{}", suggestion.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?")))]
pub struct UnknownChoice {
    /// What was written.
    pub word: String,
    /// `quantization`, `dtype` …
    pub what: &'static str,
    /// The choices.
    pub known: String,
    /// The nearest of them.
    pub suggestion: Option<String>,
}

const QUANTIZATIONS: [(&str, Quantization); 19] = [
    ("none", Quantization::None),
    ("fp8", Quantization::Fp8),
    ("fbgemm_fp8", Quantization::Fp8),
    ("ptpc_fp8", Quantization::Fp8),
    ("modelopt", Quantization::Fp8),
    ("int8", Quantization::Int8),
    ("w8a8", Quantization::Int8),
    (
        "w8a16",
        Quantization::WeightOnly8 {
            group_size: Some(128),
        },
    ),
    ("awq", Quantization::AWQ),
    ("awq_marlin", Quantization::AWQ),
    ("gptq", Quantization::GPTQ),
    ("gptq_marlin", Quantization::GPTQ),
    ("int4", Quantization::AWQ),
    ("w4a16", Quantization::GPTQ),
    ("bitsandbytes", Quantization::BITSANDBYTES),
    ("mxfp4", Quantization::Mxfp4),
    ("modelopt_fp4", Quantization::Nvfp4),
    ("nvfp4", Quantization::Nvfp4),
    ("fp4", Quantization::Nvfp4),
];

const DTYPES: [(&str, Option<Dtype>); 7] = [
    ("auto", None),
    ("bfloat16", Some(Dtype::Bf16)),
    ("bf16", Some(Dtype::Bf16)),
    ("float16", Some(Dtype::Fp16)),
    ("half", Some(Dtype::Fp16)),
    ("float32", Some(Dtype::Fp32)),
    ("float", Some(Dtype::Fp32)),
];

const KV_CACHE_DTYPES: [(&str, Option<Dtype>); 8] = [
    ("auto", None),
    ("bfloat16", Some(Dtype::Bf16)),
    ("float16", Some(Dtype::Fp16)),
    ("fp8", Some(Dtype::Fp8)),
    ("fp8_e4m3", Some(Dtype::Fp8)),
    ("fp8_e5m2", Some(Dtype::Fp8)),
    ("fp8_inc", Some(Dtype::Fp8)),
    ("fp8_ds_mla", Some(Dtype::Fp8)),
];

/// Reads `--quantization` in vLLM's spellings; `none` undoes what the checkpoint says.
pub fn parse_quantization(word: &str) -> Result<Quantization, UnknownChoice> {
    choose("quantization", word, &QUANTIZATIONS)
}

/// Reads `--dtype`; `auto` is `None`, the checkpoint's own.
pub fn parse_dtype(word: &str) -> Result<Option<Dtype>, UnknownChoice> {
    choose("dtype", word, &DTYPES)
}

/// Reads `--kv-cache-dtype`; `auto` is `None`, the model's own.
pub fn parse_kv_cache_dtype(word: &str) -> Result<Option<Dtype>, UnknownChoice> {
    choose("KV cache dtype", word, &KV_CACHE_DTYPES)
}

/// Whether two spellings are two types: `bfloat16` is `bf16`, `half` is `float16`, and `auto` says nothing.
#[must_use]
pub fn is_other_type(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(plain_type);
    let read = |name: &str| parse_dtype(name).or_else(|_| parse_kv_cache_dtype(name));
    match (read(&one), read(&other)) {
        (Ok(Some(one)), Ok(Some(other))) => one != other,
        (Ok(None), _) | (_, Ok(None)) => false,
        _ => one != other,
    }
}

/// A type as vLLM's flags spell it: PyTorch writes `torch.float8_e4m3fn`, people `fp16`.
fn plain_type(name: &str) -> String {
    let name = name.trim().to_lowercase().replace("torch.", "");
    let name = name.replace("float8", "fp8");
    match name.as_str() {
        "fp16" => "float16".to_owned(),
        "fp32" => "float32".to_owned(),
        _ if name.starts_with("fp8") => name.trim_end_matches("uz").trim_end_matches("fn").to_owned(),
        _ => name,
    }
}

fn choose<T: Copy>(what: &'static str, word: &str, choices: &[(&str, T)]) -> Result<T, UnknownChoice> {
    let wanted = word.to_lowercase().replace('-', "_");
    let names = || choices.iter().map(|&(name, _)| name);
    choices
        .iter()
        .find(|(name, _)| *name == wanted)
        .map(|&(_, choice)| choice)
        .ok_or_else(|| UnknownChoice {
            word: word.to_string(),
            what,
            known: names().collect::<Vec<_>>().join(", "),
            suggestion: nearest(word, names(), 1).first().map(|name| (*name).to_string()),
        })
}

impl ModelShape {
    /// The same shape with all linear layers stored another way. Asking for what a checkpoint is stored in leaves it as
    /// it is, its groups, its blocks and what it keeps in 16 bits.
    #[must_use]
    pub fn with_quantization(self, quantization: Quantization) -> ModelShape {
        let is_same = std::mem::discriminant(&self.quantization) == std::mem::discriminant(&quantization);
        if is_same || (self.quantization, quantization) == (Quantization::Fp8Block, Quantization::Fp8) {
            return self;
        }
        let whole = |group: LayerGroup| LayerGroup {
            kept: Vec::new(),
            ..group
        };
        ModelShape {
            quantization,
            quant_method: None,
            static_scales: false,
            kv_scheme: None,
            layers: self.layers.into_iter().map(whole).collect(),
            ..self
        }
    }

    /// What a quantized checkpoint leaves in 16 bits, as a sentence; `None` where that is nothing.
    #[must_use]
    pub fn kept_note(&self) -> Option<String> {
        let mut layers_of: Vec<(&str, u32)> = Vec::new();
        for group in &self.layers {
            for name in &group.kept {
                match layers_of.iter_mut().find(|(known, _)| known == name) {
                    Some((_, layers)) => *layers += group.count,
                    None => layers_of.push((name, group.count)),
                }
            }
        }
        if layers_of.is_empty() {
            return None;
        }
        let all = self.layer_count();
        let parts: Vec<String> = layers_of
            .iter()
            .map(|(name, layers)| match *layers == all {
                true => format!("{name} in all {all} layers"),
                false => format!("{name} in {layers} of {all} layers"),
            })
            .collect();
        let quantized = ModelShape {
            layers: self
                .layers
                .iter()
                .cloned()
                .map(|group| LayerGroup {
                    kept: Vec::new(),
                    ..group
                })
                .collect(),
            ..self.clone()
        };
        let more = self.weight_bytes(1) - quantized.weight_bytes(1);
        Some(format!(
            "the checkpoint keeps {} in {}: {:.2} GiB more than all in {}, and each product is timed in its own format",
            parts.join(", "),
            self.dtype.name(),
            more.gib(),
            self.quantization.name()
        ))
    }
}

impl Dtype {
    /// As vLLM spells it, `bfloat16`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bf16 => "bfloat16",
            Dtype::Fp16 => "float16",
            Dtype::Fp32 => "float32",
            Dtype::Fp8 => "fp8",
            Dtype::Fp8Scaled => "fp8_ds_mla",
        }
    }
}

impl Quantization {
    /// A short name, `int4 (group 128)`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Quantization::None => "none".to_string(),
            Quantization::Fp8 => "fp8".to_string(),
            Quantization::Fp8Block => "fp8 (block)".to_string(),
            Quantization::Int8 => "int8".to_string(),
            Quantization::WeightOnly8 { group_size: None } => "8-bit weights only".to_string(),
            Quantization::WeightOnly8 {
                group_size: Some(size),
            } => format!("8-bit weights only (group {size})"),
            Quantization::Int4 {
                group_size,
                has_zeros: true,
            } => format!("int4 (group {group_size})"),
            Quantization::Int4 {
                group_size,
                has_zeros: false,
            } => format!("int4 (group {group_size}, symmetric)"),
            Quantization::Mxfp4 => "mxfp4".to_string(),
            Quantization::Nvfp4 => "nvfp4".to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vllm_spellings_are_understood() {
        assert_eq!(parse_quantization("FP8"), Ok(Quantization::Fp8));
        assert_eq!(parse_quantization("awq-marlin"), Ok(Quantization::AWQ));
        assert_eq!(parse_dtype("auto"), Ok(None));
        assert_eq!(parse_kv_cache_dtype("fp8_e4m3"), Ok(Some(Dtype::Fp8)));
    }

    #[test]
    fn a_misspelt_choice_names_the_nearest() {
        let error = parse_dtype("bfloat61").unwrap_err();
        insta::assert_snapshot!(error, @"`bfloat61` is not a dtype; known are auto, bfloat16, bf16, float16, half, float32, float; did you mean `bfloat16`?");
    }
}
