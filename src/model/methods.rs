//! Quantization methods by vLLM's names, and which checkpoints each of them loads.
//!
//! `--quantization` names how weights are read, and the checkpoint says how many bits they have. vLLM starts only where the two agree
//! (`ModelConfig._verify_quantization` and the `override_quantization_method` of each method, vLLM 0.33). Left out: methods of other
//! platforms. Law: a method that loads a checkpoint changes nothing about it.

use super::{ModelShape, Quantization};

/// What a method makes of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// It reads the weights as they are stored.
    AsStored,
    /// The weights are stored otherwise: vLLM would not start.
    Contradicts,
    /// The weights are not quantized, and it makes them so when they are loaded.
    Online,
    /// The weights are not quantized, and it reads none that are not.
    NeedsOther,
    /// vLLM has no method of this name.
    Unknown,
}

/// Methods that read each other's checkpoints: that of the checkpoint first.
const FAMILIES: [&[&str]; 7] = [
    &["gptq", "gptq_marlin", "marlin", "moe_wna16"],
    &["awq", "awq_marlin", "marlin", "moe_wna16"],
    &["fp8"],
    &["fbgemm_fp8"],
    &["compressed_tensors"],
    &["bitsandbytes"],
    &["mxfp4", "gpt_oss_mxfp4"],
];

/// Methods that quantize 16-bit weights when they are loaded.
const ONLINE: [&str; 4] = ["fp8", "ptpc_fp8", "bitsandbytes", "experts_int8"];

/// The rest of vLLM's methods.
const OTHERS: [&str; 13] = [
    "auto_round",
    "experts_int8",
    "fp_quant",
    "gguf",
    "inc",
    "modelopt",
    "modelopt_fp4",
    "modelopt_mixed",
    "modelopt_mxfp8",
    "petit_nvfp4",
    "ptpc_fp8",
    "quark",
    "torchao",
];

/// `gptq-marlin` and `GPTQ_Marlin` are one.
fn spelt(word: &str) -> String {
    word.trim().to_lowercase().replace('-', "_")
}

fn is_known(method: &str) -> bool {
    OTHERS.contains(&method) || FAMILIES.iter().any(|family| family.contains(&method))
}

impl ModelShape {
    /// What vLLM makes of this checkpoint under `--quantization word`.
    ///
    /// ```
    /// use plimsoll::model::{Loading, find_checkpoint};
    /// let (model, _) = find_checkpoint("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8").unwrap();
    /// assert_eq!(model.loading("gptq_marlin"), Loading::AsStored);
    /// assert_eq!(model.loading("fp8"), Loading::Contradicts);
    /// ```
    #[must_use]
    pub fn loading(&self, word: &str) -> Loading {
        let method = spelt(word);
        if !is_known(&method) {
            return Loading::Unknown;
        }
        if self.quantization == Quantization::None {
            return match ONLINE.contains(&method.as_str()) {
                true => Loading::Online,
                false => Loading::NeedsOther,
            };
        }
        let is_read = match self.quant_method.as_deref().map(spelt) {
            // ModelOpt's checkpoints name their method themselves, whatever the flag says.
            Some(stated) if stated.starts_with("modelopt") => true,
            Some(stated) => {
                let family = FAMILIES
                    .iter()
                    .find(|family| family[0] == spelt(family_of(&stated)));
                family.map_or(stated == method, |family| family.contains(&method.as_str()))
            }
            None => self.is_named_for(&method) && holds(&method, self.quantization),
        };
        match is_read {
            true => Loading::AsStored,
            false => Loading::Contradicts,
        }
    }

    /// Whether the name does not speak of another method, where the name is all that is known.
    fn is_named_for(&self, method: &str) -> bool {
        let name = self.name.to_lowercase();
        let of = ["awq", "gptq"].iter().find(|of| name.contains(*of));
        of.is_none_or(|of| {
            let is_of = |family: &&&[&str]| family[0] == *of;
            FAMILIES
                .iter()
                .find(is_of)
                .is_some_and(|family| family.contains(&method))
        })
    }
}

/// The method whose checkpoints a stated one reads.
fn family_of(stated: &str) -> &str {
    match stated {
        "gptq_marlin" => "gptq",
        "awq_marlin" => "awq",
        "gpt_oss_mxfp4" => "mxfp4",
        own => own,
    }
}

/// Whether checkpoints of a method may be stored so.
fn holds(method: &str, stored: Quantization) -> bool {
    use Quantization::{Fp8, Fp8Block, Int4, Int8, Mxfp4, None, Nvfp4, WeightOnly8};
    match stored {
        None => false,
        Fp8 => [
            "fp8",
            "fbgemm_fp8",
            "ptpc_fp8",
            "compressed_tensors",
            "modelopt",
            "quark",
        ]
        .contains(&method),
        Fp8Block => ["fp8", "compressed_tensors", "modelopt"].contains(&method),
        Int8 => ["compressed_tensors", "bitsandbytes", "quark"].contains(&method),
        WeightOnly8 { .. } => {
            ["gptq", "gptq_marlin", "marlin", "moe_wna16", "compressed_tensors"].contains(&method)
        }
        Int4 { .. } => {
            let packed = ["compressed_tensors", "bitsandbytes"];
            packed.contains(&method) || FAMILIES[0].contains(&method) || FAMILIES[1].contains(&method)
        }
        Mxfp4 => ["mxfp4", "gpt_oss_mxfp4", "compressed_tensors", "quark"].contains(&method),
        Nvfp4 => ["modelopt", "modelopt_fp4", "petit_nvfp4", "compressed_tensors"].contains(&method),
    }
}

#[cfg(test)]
mod tests {
    use super::Loading::{AsStored, Contradicts, NeedsOther, Online, Unknown};
    use crate::model::find_checkpoint;

    #[test]
    fn a_method_loads_the_checkpoints_that_vllm_loads_with_it() {
        for (name, method, expected) in [
            ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq", AsStored),
            ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq-marlin", AsStored),
            ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "awq", Contradicts),
            ("Qwen/Qwen2.5-7B-Instruct-AWQ", "awq_marlin", AsStored),
            ("Qwen/Qwen2.5-7B-Instruct-AWQ", "gptq", Contradicts),
            ("Qwen/Qwen3-8B-FP8", "fp8", AsStored),
            ("Qwen/Qwen3-8B-FP8", "awq", Contradicts),
            ("Qwen/Qwen3-8B-FP8", "compressed-tensors", Contradicts),
            (
                "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8",
                "compressed-tensors",
                AsStored,
            ),
            (
                "RedHatAI/Qwen3-8B-quantized.w4a16",
                "compressed-tensors",
                AsStored,
            ),
            ("openai/gpt-oss-20b", "mxfp4", AsStored),
            ("openai/gpt-oss-20b", "fp8", Contradicts),
            ("moonshotai/Kimi-K2.5", "compressed_tensors", AsStored),
            ("moonshotai/Kimi-K2.5", "gptq", Contradicts),
            ("nvidia/Llama-3.1-405B-Instruct-FP4", "modelopt_fp4", AsStored),
            ("Qwen/Qwen3-8B", "fp8", Online),
            ("Qwen/Qwen3-8B", "bitsandbytes", Online),
            ("Qwen/Qwen3-8B", "gptq", NeedsOther),
            ("Qwen/Qwen3-8B", "w4a16", Unknown),
            ("Qwen/Qwen3-8B", "nonsense", Unknown),
        ] {
            let (model, _) = find_checkpoint(name).unwrap();
            assert_eq!(model.loading(method), expected, "{name} --quantization {method}");
        }
    }
}
