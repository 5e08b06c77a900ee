//! How a checkpoint says that its linear layers are quantized. Which modules are exempt is not read.

use serde_json::Value;

use super::super::Quantization;
use super::Reader;

impl Reader<'_> {
    pub(super) fn quantization(&mut self) -> Option<Quantization> {
        let config = self
            .get("quantization_config")
            .or_else(|| self.get("compression_config"));
        let Some(config) = config else {
            return Some(Quantization::None);
        };
        let method = config.get("quant_method").and_then(Value::as_str).unwrap_or("");
        let bits = config
            .get("bits")
            .or_else(|| config.get("w_bit"))
            .and_then(Value::as_u64);
        let group_size = group_size(config);
        let algorithm = config.get("quant_algo").and_then(Value::as_str).unwrap_or("");
        let is = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
        let found = match (method, bits) {
            ("fp8", _) if config.get("weight_block_size").is_some_and(Value::is_array) => {
                Some(Quantization::Fp8Block)
            }
            ("fp8" | "fbgemm_fp8", _) => Some(Quantization::Fp8),
            ("mxfp4", _) => Some(Quantization::Mxfp4),
            ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(4) | None) => {
                Some(Quantization::Int4 { group_size })
            }
            ("gptq" | "gptq_marlin", Some(8)) => Some(Quantization::Int8),
            ("bitsandbytes", _) if is("load_in_8bit") => Some(Quantization::Int8),
            ("bitsandbytes", _) => Some(Quantization::Int4 { group_size: 64 }),
            ("compressed-tensors", _) => compressed_tensors(config),
            ("modelopt" | "", _) if algorithm == "FP8" => Some(Quantization::Fp8),
            ("modelopt" | "modelopt_fp4" | "", _) if algorithm.contains("FP4") => Some(Quantization::Nvfp4),
            _ => None,
        };
        if found.is_none() {
            return self.problem(format!(
                "`quantization_config` with quant_method `{method}` is not known; `--quantization` takes its place \
                 if the key is removed"
            ));
        }
        found
    }
}

/// Channels that share a scale; 128 where it is not said or is "per channel" (-1).
fn group_size(config: &Value) -> u32 {
    let said = config.get("group_size").or_else(|| config.get("q_group_size"));
    let said = said
        .and_then(Value::as_u64)
        .filter(|size| (1..=1 << 16).contains(size));
    said.map_or(128, |size| size as u32)
}

/// The scheme of the weights in a `compressed-tensors` config, from its first group.
fn compressed_tensors(config: &Value) -> Option<Quantization> {
    let groups = config.get("config_groups")?.as_object()?;
    let weights = groups.values().next()?.get("weights")?;
    let bits = weights.get("num_bits")?.as_u64()?;
    let kind = weights.get("type").and_then(Value::as_str).unwrap_or("int");
    let strategy = weights.get("strategy").and_then(Value::as_str);
    match (bits, kind) {
        (8, "float") if strategy == Some("block") => Some(Quantization::Fp8Block),
        (8, "float") => Some(Quantization::Fp8),
        (8, "int") => Some(Quantization::Int8),
        (4, "int") => Some(Quantization::Int4 {
            group_size: group_size(weights),
        }),
        (4, "float") => Some(Quantization::Nvfp4),
        _ => None,
    }
}
