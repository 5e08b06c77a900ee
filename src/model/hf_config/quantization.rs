//! How a checkpoint says that its linear layers are quantized, which of them are not, and what its KV cache is to be.
//!
//! Left out: layers in several formats, which are refused by name. Law: a method that is known with other bits or
//! activations is an error that says so, never the nearest that is modelled.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use super::super::{KvScheme, Quantization};
use super::Reader;
use super::modules::{Rule, Stays};
use super::reader::shortened;

/// All that a checkpoint says of its formats.
pub(super) struct Scheme {
    pub(super) quantization: Quantization,
    pub(super) stays: Stays,
    pub(super) kv: Option<KvScheme>,
}

const NONE: Scheme = Scheme {
    quantization: Quantization::None,
    stays: Stays {
        targets: None,
        except: Vec::new(),
        names: BTreeSet::new(),
        key: "",
    },
    kv: None,
};

impl Reader<'_> {
    /// `None` where it is not understood, which was reported.
    pub(super) fn scheme(&mut self) -> Option<Scheme> {
        let config = self
            .get("quantization_config")
            .or_else(|| self.get("compression_config"));
        let Some(config) = config else {
            return Some(NONE);
        };
        // ModelOpt's own file has everything one level deeper.
        let config = config
            .get("quantization")
            .filter(|inner| inner.is_object())
            .unwrap_or(config);
        let quantization = match format(config) {
            Ok(quantization) => quantization,
            Err(why) => {
                return self.problem(format!(
                    "`quantization_config` {why}; `--quantization` takes its place if the key is removed"
                ));
            }
        };
        if config.get("lm_head").and_then(Value::as_bool) == Some(true) {
            let note = "the checkpoint quantizes its LM head, too: it is counted in 16 bits here";
            self.notes.push(note.to_string());
        }
        let stays = match stays(config) {
            Ok(stays) => stays,
            Err(why) => return self.problem(format!("`quantization_config` {why}")),
        };
        let kv = self.kv_scheme(config)?;
        Some(Scheme {
            quantization,
            stays,
            kv,
        })
    }

    /// vLLM takes a `kv_cache_scheme` of compressed-tensors for fp8 and refuses any other; of ModelOpt it knows fp8 and nvfp4.
    #[expect(clippy::option_option, reason = "the outer one is a reported problem")]
    fn kv_scheme(&mut self, config: &Value) -> Option<Option<KvScheme>> {
        let said = |key: &str| config.get(key).filter(|value| !value.is_null());
        let Some(scheme) = said("kv_cache_scheme").or_else(|| said("kv_cache_quant_algo")) else {
            return Some(None);
        };
        let bits = scheme.get("num_bits").and_then(Value::as_u64);
        let is_float = scheme.get("type").and_then(Value::as_str) == Some("float");
        let name = scheme.as_str().map(str::to_lowercase);
        let is_fp8 = (bits == Some(8) && is_float) || name.as_deref() == Some("fp8");
        match method(config) {
            "compressed-tensors" if is_fp8 => Some(Some(KvScheme::CompressedTensors)),
            "compressed-tensors" => self.problem(format!(
                "`kv_cache_scheme` is {} and must be of 8-bit floats: vLLM takes no other",
                shortened(scheme)
            )),
            _ if is_fp8 => Some(Some(KvScheme::ModelOpt)),
            _ => {
                self.notes.push(format!(
                    "the checkpoint asks for a KV cache of {}, which is not modelled: it is counted in 16 bits unless \
                     --kv-cache-dtype says otherwise",
                    shortened(scheme)
                ));
                Some(None)
            }
        }
    }
}

fn method(config: &Value) -> &str {
    config.get("quant_method").and_then(Value::as_str).unwrap_or("")
}

/// The format of quantized layers, or why there is none, to follow "`quantization_config`".
fn format(config: &Value) -> Result<Quantization, String> {
    let method = method(config);
    let bits = config
        .get("bits")
        .or_else(|| config.get("w_bit"))
        .and_then(Value::as_u64);
    let algorithm = config.get("quant_algo").and_then(Value::as_str).unwrap_or("");
    let is = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
    match (method, bits) {
        ("fp8", _) if config.get("weight_block_size").is_some_and(Value::is_array) => {
            Ok(Quantization::Fp8Block)
        }
        ("fp8" | "fbgemm_fp8", _) => Ok(Quantization::Fp8),
        ("mxfp4", _) => Ok(Quantization::Mxfp4),
        ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(4) | None) => Ok(Quantization::Int4 {
            group_size: group_size(config).unwrap_or(128),
        }),
        ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(8)) => Ok(Quantization::WeightOnly8 {
            group_size: group_size(config),
        }),
        ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(bits)) => Err(format!(
            "is {method} with {bits} bits, which are not modelled: 4 and 8 are"
        )),
        ("bitsandbytes", _) if is("load_in_8bit") => Ok(Quantization::Int8),
        ("bitsandbytes", _) => Ok(Quantization::Int4 { group_size: 64 }),
        ("compressed-tensors", _) => compressed_tensors(config),
        ("modelopt" | "modelopt_fp4" | "modelopt_mixed" | "", _) if !algorithm.is_empty() => {
            match algorithm.to_uppercase().as_str() {
                "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" => Ok(Quantization::Fp8),
                "FP8_PB_WO" => Ok(Quantization::Fp8Block),
                "NVFP4" | "FP4" => Ok(Quantization::Nvfp4),
                _ => Err(format!(
                    "has the quant_algo `{algorithm}`, which is not modelled: FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO \
                     and NVFP4 are"
                )),
            }
        }
        ("", _) => Err("has no `quant_method`, as every checkpoint of vLLM must".to_string()),
        _ => Err(format!("with quant_method `{method}` is not known")),
    }
}

/// Channels that share a scale; `None` where it is not said or is "per channel" (-1).
fn group_size(config: &Value) -> Option<u32> {
    let said = config.get("group_size").or_else(|| config.get("q_group_size"));
    let said = said
        .and_then(Value::as_u64)
        .filter(|size| (1..=1 << 16).contains(size));
    said.map(|size| size as u32)
}

/// The scheme of a `compressed-tensors` config; all its groups must have the same.
fn compressed_tensors(config: &Value) -> Result<Quantization, String> {
    let groups = config.get("config_groups").and_then(Value::as_object);
    let mut found: Vec<(&str, Quantization)> = Vec::new();
    for (name, group) in groups.into_iter().flatten() {
        let Some(weights) = group.get("weights").filter(|weights| !weights.is_null()) else {
            continue;
        };
        let activations = group
            .get("input_activations")
            .filter(|activations| !activations.is_null());
        let bits = weights.get("num_bits").and_then(Value::as_u64).unwrap_or(8);
        let kind = weights.get("type").and_then(Value::as_str).unwrap_or("int");
        let strategy = weights.get("strategy").and_then(Value::as_str);
        let format = match (bits, kind, activations.is_some()) {
            (8, "float", true) if strategy == Some("block") => Quantization::Fp8Block,
            (8, "float", true) => Quantization::Fp8,
            (8, "int", true) => Quantization::Int8,
            (8, "int" | "float", false) => Quantization::WeightOnly8 {
                group_size: group_size(weights),
            },
            (4, "int", false) => Quantization::Int4 {
                group_size: group_size(weights).unwrap_or(128),
            },
            (4, "float", true) => Quantization::Nvfp4,
            (_, _, is_both) => {
                let activations = if is_both { "with" } else { "without" };
                return Err(format!(
                    "has weights of {bits}-bit {kind} {activations} quantized activations in `{name}`, which is not modelled: \
                     8 bits of either kind are, 4-bit int without and 4-bit float with them"
                ));
            }
        };
        found.push((name, format));
    }
    let Some(&(first, format)) = found.first() else {
        return Err("has no weights in `config_groups`".to_string());
    };
    match found.iter().find(|(_, other)| *other != format) {
        None => Ok(format),
        Some((name, other)) => Err(format!(
            "mixes formats, {} in `{first}` and {} in `{name}`: one format beside 16 bits is modelled",
            format.name(),
            other.name()
        )),
    }
}

/// Which layers the checkpoint does not quantize, each method by the rule that vLLM has for its lists.
fn stays(config: &Value) -> Result<Stays, String> {
    let lists = [
        "ignore",
        "ignored_layers",
        "modules_to_not_convert",
        "exclude_modules",
        "llm_int8_skip_modules",
    ];
    let listed = lists.into_iter().find(|key| {
        config
            .get(key)
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
    });
    let entries = listed.map_or_else(Vec::new, |key| words(config, key));
    let mut stays = Stays {
        key: listed.unwrap_or(""),
        ..Stays::default()
    };
    let exactly =
        |stays: &mut Stays, entries: Vec<&str>| stays.names.extend(entries.into_iter().map(of_first_expert));
    match method(config) {
        // Experts only, which no list keeps.
        "mxfp4" => {}
        "compressed-tensors" => {
            let (patterns, names): (Vec<&str>, Vec<&str>) =
                entries.into_iter().partition(|entry| entry.starts_with("re:"));
            exactly(&mut stays, names);
            stays.except = patterns
                .into_iter()
                .map(pattern_or_name)
                .collect::<Result<_, _>>()?;
            let targets = targets(config)?;
            if !targets
                .iter()
                .any(|target| matches!(target, Rule::Class(part) if part == "linear"))
            {
                stays.targets = Some(targets);
                stays.key = listed.unwrap_or("targets");
            }
        }
        "fp8" | "fbgemm_fp8" => exactly(&mut stays, entries),
        "gptq" | "gptq_marlin" => gptq(config, &mut stays)?,
        // `is_layer_skipped` with substrings, and `is_layer_skipped_bnb`.
        "awq" | "awq_marlin" => {
            let entries: BTreeSet<String> = entries.into_iter().map(of_first_expert).collect();
            stays.except = entries.into_iter().map(Rule::Letters).collect();
        }
        "bitsandbytes" => {
            stays.except = entries
                .into_iter()
                .map(|entry| Rule::Words(entry.to_string()))
                .collect();
        }
        // ModelOpt: parts of names, and wildcards.
        _ => {
            let rule = |entry: &str| match entry.contains('*') {
                true => Regex::new(&format!("^{}$", regex::escape(entry).replace(r"\*", ".*")))
                    .map(|pattern| Rule::Pattern(pattern, entry.to_string())),
                false => Ok(Rule::Within(entry.to_string())),
            };
            stays.except = entries
                .into_iter()
                .map(rule)
                .collect::<Result<_, _>>()
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(stays)
}

/// The targets of all groups that quantize weights. A name without a dot is a class.
fn targets(config: &Value) -> Result<Vec<Rule>, String> {
    let groups = config.get("config_groups").and_then(Value::as_object);
    let quantized = groups
        .into_iter()
        .flat_map(|groups| groups.values())
        .filter(|group| group.get("weights").is_some_and(|weights| !weights.is_null()));
    let mut targets = Vec::new();
    for group in quantized {
        if !group.get("targets").is_some_and(Value::is_array) {
            targets.push(Rule::Class("linear".to_string()));
        }
        for target in words(group, "targets") {
            targets.push(match target.contains(['.', ':']) {
                true => pattern_or_name(target)?,
                false => Rule::Class(target.to_lowercase()),
            });
        }
    }
    Ok(targets)
}

/// GPTQ: `dynamic` has patterns, `-:` for what is left out, and `modules_in_block_to_quantize` names what is not.
fn gptq(config: &Value, stays: &mut Stays) -> Result<(), String> {
    let dynamic = config.get("dynamic").and_then(Value::as_object);
    for (entry, own) in dynamic.into_iter().flatten() {
        if let Some(left_out) = entry.strip_prefix("-:") {
            stays.except.push(pattern(left_out, entry)?);
            stays.key = "dynamic";
        } else if let Some(key) = ["bits", "group_size"]
            .into_iter()
            .find(|key| own.get(key).is_some() && own.get(key) != config.get(key))
        {
            return Err(format!(
                "gives `{entry}` a {key} of its own in `dynamic`: one format beside 16 bits is modelled"
            ));
        }
    }
    let blocks = config
        .get("modules_in_block_to_quantize")
        .and_then(Value::as_array);
    if let Some(blocks) = blocks.filter(|blocks| !blocks.is_empty()) {
        let flat = blocks.iter().flat_map(|block| match block.as_array() {
            Some(names) => names.iter().filter_map(Value::as_str).collect(),
            None => Vec::from_iter(block.as_str()),
        });
        stays.targets = Some(flat.map(|name| Rule::Within(name.to_string())).collect());
        stays.key = "modules_in_block_to_quantize";
    }
    Ok(())
}

fn words<'a>(config: &'a Value, key: &str) -> Vec<&'a str> {
    let list = config.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn pattern_or_name(entry: &str) -> Result<Rule, String> {
    match entry.strip_prefix("re:") {
        Some(text) => pattern(text, entry),
        None => Ok(Rule::Exact(entry.to_string())),
    }
}

/// As Python's `re.match` has it: from the beginning, to any end. `written` is the whole entry.
fn pattern(text: &str, written: &str) -> Result<Rule, String> {
    Regex::new(&format!("^(?:{text})"))
        .map(|pattern| Rule::Pattern(pattern, written.to_string()))
        .map_err(|_| {
            format!("has the pattern `{text}`, which is not understood: it must do without looking around")
        })
}

/// Experts of a layer are one kernel: the first stands for them.
fn of_first_expert(name: &str) -> String {
    let Some((before, after)) = name.split_once("experts.") else {
        return name.to_string();
    };
    let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    match rest.len() < after.len() {
        true => format!("{before}experts.0{rest}"),
        false => name.to_string(),
    }
}
