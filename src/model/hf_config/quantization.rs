//! How a checkpoint says that its linear layers are quantized, which of them are not, and what its KV cache is to be.
//!
//! Left out: layers in several formats, which are refused by name. Law: a method that is known with other bits or
//! activations is an error that says so, never the nearest that is modelled.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{KvScheme, Quantization};
use super::modules::Stays;
use super::reader::shortened;
use super::{Reader, WIDTH_MAX, lists};

/// All that a checkpoint says of its formats.
pub(super) struct Scheme {
    pub(super) quantization: Quantization,
    pub(super) method: Option<String>,
    pub(super) static_scales: bool,
    pub(super) stays: Stays,
    pub(super) kv: Option<KvScheme>,
}

const NONE: Scheme = Scheme {
    quantization: Quantization::None,
    method: None,
    static_scales: false,
    stays: Stays {
        targets: None,
        except: Vec::new(),
        names: BTreeSet::new(),
        key: "",
    },
    kv: None,
};

/// Where ModelOpt before 0.31 says how it quantized a checkpoint, beside the `config.json`.
pub const MODELOPT_FILE: &str = "hf_quant_config.json";

const GROUP_MAX: i64 = 1 << 16;
/// What AutoAWQ and GPTQModel take by default.
const ASSUMED_GROUP: u32 = 128;

/// Channels that share a scale.
enum Group {
    Of(u32),
    /// All of a row: `-1`, "per channel".
    Row,
    Unsaid,
}

impl Reader<'_> {
    /// `None` where it is not understood, which was reported.
    pub(super) fn scheme(&mut self) -> Option<Scheme> {
        let own = self
            .get("quantization_config")
            .or_else(|| self.get("compression_config"));
        // As vLLM's `get_config` has it, the file counts where the config says nothing itself.
        let (place, to_undo, config) = match (own, self.beside) {
            (Some(config), _) => ("quantization_config", "the key", config),
            (None, None) => return Some(NONE),
            (None, Some(Err(error))) => {
                return self.problem(format!("`{MODELOPT_FILE}` beside it is not JSON: {error}"));
            }
            (None, Some(Ok(config))) => {
                let note = format!("how the checkpoint is quantized is read from its {MODELOPT_FILE}");
                self.notes.push(note);
                (MODELOPT_FILE, "the file", config)
            }
        };
        // ModelOpt's own file has everything one level deeper.
        let config = config
            .get("quantization")
            .filter(|inner| inner.is_object())
            .unwrap_or(config);
        let quantization = match self.format(config) {
            Ok(quantization) => quantization,
            Err(why) => {
                return self.problem(format!(
                    "`{place}` {why}; `--quantization` takes its place if {to_undo} is removed"
                ));
            }
        };
        if config.get("lm_head").and_then(Value::as_bool) == Some(true) {
            let note = "the checkpoint quantizes its LM head, too: it is counted in 16 bits here";
            self.notes.push(note.to_string());
        }
        let stays = match lists::stays(config) {
            Ok(stays) => stays,
            Err(why) => return self.problem(format!("`{place}` {why}")),
        };
        self.notes.extend(lists::unread(config));
        let kv = self.kv_scheme(config)?;
        // ModelOpt's own file names none.
        let method = match method(config) {
            "" => "modelopt",
            said => said,
        };
        Some(Scheme {
            quantization,
            method: Some(method.to_lowercase()),
            static_scales: quantization == Quantization::Fp8 && has_static_scales(config),
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

    /// The format of quantized layers, or why there is none, to follow the place that says it.
    fn format(&mut self, config: &Value) -> Result<Quantization, String> {
        let method = method(config);
        let bits = match config.get("bits").or_else(|| config.get("w_bit")) {
            None | Some(Value::Null) => None,
            Some(written) => match written.as_u64() {
                Some(bits) => Some(bits),
                None => return Err(format!("has `bits` of {written}, which is no number of bits")),
            },
        };
        let algorithm = config.get("quant_algo").and_then(Value::as_str).unwrap_or("");
        let is = |key: &str| config.get(key).and_then(Value::as_bool) == Some(true);
        match (method, bits) {
            ("fp8", _) if config.get("weight_block_size").is_some_and(Value::is_array) => {
                Ok(Quantization::Fp8Block)
            }
            ("fp8" | "fbgemm_fp8", _) => Ok(Quantization::Fp8),
            ("mxfp4", _) => Ok(Quantization::Mxfp4),
            ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(4) | None) => {
                if bits.is_none() {
                    self.notes
                        .push(format!("`bits` of {method} is not given: 4 bits assumed"));
                }
                Ok(Quantization::Int4 {
                    group_size: self.narrow_group(group_of(config)?),
                    has_zeros: has_zeros(config, method),
                })
            }
            ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(8)) => Ok(Quantization::WeightOnly8 {
                group_size: self.wide_group(group_of(config)?),
            }),
            ("awq" | "gptq" | "gptq_marlin" | "awq_marlin", Some(bits)) => Err(format!(
                "is {method} with {bits} bits, which are not modelled: 4 and 8 are"
            )),
            ("bitsandbytes", _) if is("load_in_8bit") => Ok(Quantization::Int8),
            ("bitsandbytes", _) => {
                // Left out, it is true in vLLM.
                if config.get("load_in_4bit") == Some(&Value::Bool(false)) {
                    self.notes.push(
                        "bitsandbytes with `load_in_4bit` false and `load_in_8bit` not true: 4 bits assumed"
                            .to_owned(),
                    );
                }
                Ok(Quantization::BITSANDBYTES)
            }
            ("compressed-tensors", _) => self.compressed_tensors(config),
            ("modelopt" | "modelopt_fp4" | "modelopt_mixed" | "", _) if !algorithm.is_empty() => {
                match algorithm.to_uppercase().as_str() {
                    "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" => Ok(Quantization::Fp8),
                    "FP8_PB_WO" => Ok(Quantization::Fp8Block),
                    "NVFP4" | "FP4" => match group_of(config)? {
                        Group::Unsaid | Group::Of(16) => Ok(Quantization::Nvfp4),
                        _ => Err(
                            "has a `group_size` that is not NVFP4's of 16, which alone is modelled"
                                .to_string(),
                        ),
                    },
                    _ => Err(format!(
                        "has the quant_algo `{algorithm}`, which is not modelled: FP8, FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO \
                         and NVFP4 are"
                    )),
                }
            }
            ("", _) if config.get("quant_algo").is_some() => {
                Err("has no `quant_algo`, as every checkpoint of ModelOpt must".to_string())
            }
            ("", _) => Err("has no `quant_method`, as every checkpoint of vLLM must".to_string()),
            _ => Err(format!("with quant_method `{method}` is not known")),
        }
    }

    /// The scheme of a `compressed-tensors` config; all its groups must have the same.
    fn compressed_tensors(&mut self, config: &Value) -> Result<Quantization, String> {
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
                    group_size: match group_of(weights)? {
                        Group::Of(size) => Some(size),
                        Group::Row | Group::Unsaid => None,
                    },
                },
                (4, "int", false) => Quantization::Int4 {
                    // A strategy other than groups says no size.
                    group_size: self.narrow_group(match group_of(weights)? {
                        Group::Unsaid if strategy != Some("group") => Group::Row,
                        group => group,
                    }),
                    has_zeros: weights.get("symmetric") == Some(&Value::Bool(false)),
                },
                (4, "float", true) => Quantization::Nvfp4,
                (_, _, is_both) => {
                    let activations = if is_both { "with" } else { "without" };
                    return Err(format!(
                        "has weights of {bits}-bit {kind} {activations} quantized activations in `{name}`, which is not modelled; \
                         supported: 8-bit int or float; 4-bit int with 16-bit activations; 4-bit float with quantized activations"
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

    /// The groups of 4-bit weights. One scale for a whole row is one for as many channels as the matrix has; that the width of
    /// the residual stream stands for it is wrong by a thousandth of the weights at most.
    fn narrow_group(&mut self, group: Group) -> u32 {
        match group {
            Group::Of(size) => size,
            Group::Unsaid => self.assumed_group(),
            Group::Row => {
                let width = self.get("hidden_size").and_then(Value::as_u64);
                let width = width.filter(|width| (1..=u64::from(WIDTH_MAX)).contains(width));
                // Without a width there is no shape, either, which is reported.
                let width = width.map_or(ASSUMED_GROUP, |width| width as u32);
                self.note_once(format!(
                    "the checkpoint has one scale for each row of its 4-bit weights: counted as one for every {width} \
                     channels, the hidden size"
                ));
                width
            }
        }
    }

    /// The groups of 8-bit weights; `None` of whole rows.
    fn wide_group(&mut self, group: Group) -> Option<u32> {
        match group {
            Group::Of(size) => Some(size),
            Group::Row => None,
            Group::Unsaid => Some(self.assumed_group()),
        }
    }

    fn assumed_group(&mut self) -> u32 {
        self.note_once(format!(
            "the checkpoint does not say its `group_size`: {ASSUMED_GROUP} assumed"
        ));
        ASSUMED_GROUP
    }

    fn note_once(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Whether a config of fp8 has one scale for all inputs of a product, which is in the checkpoint. vLLM's own method finds them while
/// running unless it is told (`Fp8Config.activation_scheme`), FBGEMM's always for each token.
fn has_static_scales(config: &Value) -> bool {
    match method(config) {
        "fp8" => config.get("activation_scheme").and_then(Value::as_str) == Some("static"),
        "fbgemm_fp8" => false,
        "compressed-tensors" => {
            let groups = config.get("config_groups").and_then(Value::as_object);
            let mut inputs = groups
                .into_iter()
                .flat_map(|groups| groups.values())
                .filter_map(|group| group.get("input_activations").filter(|inputs| !inputs.is_null()))
                .peekable();
            let is_static = |inputs: &Value| inputs.get("dynamic").and_then(Value::as_bool) != Some(true);
            inputs.peek().is_some() && inputs.all(is_static)
        }
        // ModelOpt's.
        _ => {
            let algorithm = config.get("quant_algo").and_then(Value::as_str);
            algorithm.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case("FP8"))
        }
    }
}

pub(super) fn method(config: &Value) -> &str {
    config.get("quant_method").and_then(Value::as_str).unwrap_or("")
}

/// Whether groups of AWQ or GPTQ have zero points: as AutoAWQ (`zero_point`) and GPTQModel (`sym`) take them where nothing is
/// said. GPTQ's checkpoints hold zeros of symmetric groups, too; vLLM drops them once they are loaded (`gptq_marlin.py`).
fn has_zeros(config: &Value, method: &str) -> bool {
    let said = |key: &str| config.get(key).and_then(Value::as_bool);
    match method {
        "awq" | "awq_marlin" => said("zero_point").unwrap_or(true),
        _ => said("sym") == Some(false),
    }
}

/// How many channels share a scale, or why that is not understood.
fn group_of(config: &Value) -> Result<Group, String> {
    let said = config.get("group_size").or_else(|| config.get("q_group_size"));
    let Some(said) = said.filter(|said| !said.is_null()) else {
        return Ok(Group::Unsaid);
    };
    match said.as_i64() {
        Some(-1) => Ok(Group::Row),
        Some(size @ 1..=GROUP_MAX) => Ok(Group::Of(size as u32)),
        _ => Err(format!(
            "has {} for `group_size`, which must be a whole number from 1 to {GROUP_MAX}, or -1 for whole rows",
            shortened(said)
        )),
    }
}

#[cfg(test)]
pub(super) mod tests;
