//! The shipped shapes, and finding one by its Hugging Face id or the last part of it.
//!
//! The files under `shapes/` hold the fields of public `config.json` files that this crate reads, nothing else. Several
//! ids share a file where only the weights' values differ.

use std::fmt;

use super::{ModelShape, Quantization};
use crate::nearest::{nearest, squash};

/// An id and where its shape is written down.
struct Shipped {
    id: &'static str,
    file: &'static str,
    /// Longest context where it differs from the file's.
    context: Option<u32>,
    /// The checkpoint's linear layers are stored otherwise than the file says.
    stored: Option<Quantization>,
}

const fn shipped(id: &'static str, file: &'static str) -> Shipped {
    Shipped {
        id,
        file,
        context: None,
        stored: None,
    }
}

impl Shipped {
    const fn context(mut self, tokens: u32) -> Shipped {
        self.context = Some(tokens);
        self
    }

    const fn fp8(mut self) -> Shipped {
        self.stored = Some(Quantization::Fp8);
        self
    }

    /// Qwen's own fp8 checkpoints have scales for blocks of 128×128 (`weight_block_size` in their config.json).
    const fn fp8_blocks(mut self) -> Shipped {
        self.stored = Some(Quantization::Fp8Block);
        self
    }
}

/// Every id that resolves without a network, family by family. Of ids that end alike the first is meant.
#[rustfmt::skip]
const SHIPPED: [Shipped; 150] = [
    shipped("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
    shipped("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
    shipped("meta-llama/Llama-2-13b-hf", "llama-2-13b"),
    shipped("meta-llama/Llama-2-13b-chat-hf", "llama-2-13b"),
    shipped("meta-llama/Llama-2-70b-hf", "llama-2-70b"),
    shipped("meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"),
    shipped("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
    shipped("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
    shipped("meta-llama/Meta-Llama-3-70B-Instruct", "llama-3-70b"),
    shipped("meta-llama/Meta-Llama-3-70B", "llama-3-70b"),
    shipped("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
    shipped("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
    shipped("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
    shipped("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
    shipped("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
    shipped("meta-llama/Llama-3.1-70B", "llama-3.1-70b"),
    shipped("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"),
    shipped("meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b"),
    shipped("meta-llama/Llama-3.1-405B-Instruct", "llama-3.1-405b"),
    shipped("meta-llama/Llama-3.1-405B", "llama-3.1-405b"),
    shipped("meta-llama/Meta-Llama-3.1-405B-Instruct", "llama-3.1-405b"),
    shipped("meta-llama/Meta-Llama-3.1-405B", "llama-3.1-405b"),
    shipped("meta-llama/Llama-3.2-1B-Instruct", "llama-3.2-1b"),
    shipped("meta-llama/Llama-3.2-1B", "llama-3.2-1b"),
    shipped("meta-llama/Llama-3.2-3B-Instruct", "llama-3.2-3b"),
    shipped("meta-llama/Llama-3.2-3B", "llama-3.2-3b"),
    shipped("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"),
    shipped("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b").fp8(),
    shipped("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b").fp8(),
    shipped("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b").fp8(),
    shipped("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.1-70b").fp8(),
    shipped("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"),
    shipped("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "llama-3.1-70b"),
    shipped("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"),
    shipped("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "llama-4-maverick"),
    shipped("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
    shipped("Qwen/Qwen2.5-0.5B", "qwen2.5-0.5b"),
    shipped("Qwen/Qwen2.5-1.5B-Instruct", "qwen2.5-1.5b"),
    shipped("Qwen/Qwen2.5-1.5B", "qwen2.5-1.5b").context(131_072),
    shipped("Qwen/Qwen2.5-3B-Instruct", "qwen2.5-3b"),
    shipped("Qwen/Qwen2.5-3B", "qwen2.5-3b"),
    shipped("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
    shipped("Qwen/Qwen2.5-7B", "qwen2.5-7b").context(131_072),
    shipped("Qwen/Qwen2.5-14B-Instruct", "qwen2.5-14b"),
    shipped("Qwen/Qwen2.5-14B", "qwen2.5-14b").context(131_072),
    shipped("Qwen/Qwen2.5-32B-Instruct", "qwen2.5-32b"),
    shipped("Qwen/Qwen2.5-32B", "qwen2.5-32b").context(131_072),
    shipped("Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"),
    shipped("Qwen/Qwen2.5-72B", "qwen2.5-72b").context(131_072),
    shipped("Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"),
    shipped("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen2.5-32b"),
    shipped("Qwen/Qwen2-7B-Instruct", "qwen2.5-7b"),
    shipped("Qwen/Qwen2-7B", "qwen2.5-7b").context(131_072),
    shipped("Qwen/Qwen2-72B-Instruct", "qwen2.5-72b"),
    shipped("deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", "qwen2.5-14b").context(131_072),
    shipped("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b").context(131_072),
    shipped("Qwen/Qwen3-0.6B", "qwen3-0.6b"),
    shipped("Qwen/Qwen3-0.6B-FP8", "qwen3-0.6b").fp8_blocks(),
    shipped("Qwen/Qwen3-1.7B", "qwen3-1.7b"),
    shipped("Qwen/Qwen3-1.7B-FP8", "qwen3-1.7b").fp8_blocks(),
    shipped("Qwen/Qwen3-4B", "qwen3-4b"),
    shipped("Qwen/Qwen3-4B-FP8", "qwen3-4b").fp8_blocks(),
    shipped("Qwen/Qwen3-8B", "qwen3-8b"),
    shipped("Qwen/Qwen3-8B-FP8", "qwen3-8b").fp8_blocks(),
    shipped("Qwen/Qwen3-14B", "qwen3-14b"),
    shipped("Qwen/Qwen3-14B-FP8", "qwen3-14b").fp8_blocks(),
    shipped("Qwen/Qwen3-32B", "qwen3-32b"),
    shipped("Qwen/Qwen3-32B-FP8", "qwen3-32b").fp8_blocks(),
    shipped("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
    shipped("Qwen/Qwen3-30B-A3B-FP8", "qwen3-30b-a3b").fp8_blocks(),
    shipped("Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"),
    shipped("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b").fp8_blocks(),
    shipped("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b").context(262_144),
    shipped("Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b").context(262_144),
    shipped("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b").context(262_144),
    shipped("Qwen/Qwen3-30B-A3B-Thinking-2507", "qwen3-30b-a3b").context(262_144),
    shipped("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b").context(262_144),
    shipped("Qwen/Qwen3-235B-A22B-Thinking-2507", "qwen3-235b-a22b").context(262_144),
    shipped("Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen3-coder-480b-a35b"),
    shipped("Qwen/Qwen3-VL-2B-Instruct", "qwen3-vl-2b"),
    shipped("Qwen/Qwen3-VL-4B-Instruct", "qwen3-vl-4b"),
    shipped("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl-8b"),
    shipped("Qwen/Qwen3-VL-32B-Instruct", "qwen3-vl-32b"),
    shipped("Qwen/Qwen3-VL-32B-Thinking", "qwen3-vl-32b"),
    shipped("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3-vl-30b-a3b"),
    shipped("Qwen/Qwen3-VL-235B-A22B-Instruct", "qwen3-vl-235b-a22b"),
    shipped("Qwen/Qwen3-VL-235B-A22B-Thinking", "qwen3-vl-235b-a22b"),
    shipped("mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"),
    shipped("mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"),
    shipped("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"),
    shipped("mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3"),
    shipped("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
    shipped("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"),
    shipped("mistralai/Mistral-Nemo-Base-2407", "mistral-nemo-12b").context(128_000),
    shipped("mistralai/Mistral-Small-24B-Instruct-2501", "mistral-small-24b"),
    shipped("mistralai/Mistral-Small-24B-Base-2501", "mistral-small-24b"),
    shipped("mistralai/Mistral-Large-Instruct-2407", "mistral-large-123b"),
    shipped("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    shipped("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
    shipped("mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"),
    shipped("mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"),
    shipped("google/gemma-2-2b-it", "gemma-2-2b"),
    shipped("google/gemma-2-2b", "gemma-2-2b"),
    shipped("google/gemma-2-9b-it", "gemma-2-9b"),
    shipped("google/gemma-2-9b", "gemma-2-9b"),
    shipped("google/gemma-2-27b-it", "gemma-2-27b"),
    shipped("google/gemma-2-27b", "gemma-2-27b"),
    shipped("google/gemma-3-1b-it", "gemma-3-1b"),
    shipped("google/gemma-3-1b-pt", "gemma-3-1b"),
    shipped("google/gemma-3-4b-it", "gemma-3-4b"),
    shipped("google/gemma-3-4b-pt", "gemma-3-4b"),
    shipped("google/gemma-3-12b-it", "gemma-3-12b"),
    shipped("google/gemma-3-12b-pt", "gemma-3-12b"),
    shipped("google/gemma-3-27b-it", "gemma-3-27b"),
    shipped("google/gemma-3-27b-pt", "gemma-3-27b"),
    shipped("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"),
    shipped("microsoft/Phi-3-mini-128k-instruct", "phi-3-mini-128k"),
    shipped("microsoft/Phi-3-medium-4k-instruct", "phi-3-medium-4k"),
    shipped("microsoft/Phi-3-medium-128k-instruct", "phi-3-medium-128k"),
    shipped("microsoft/Phi-3.5-mini-instruct", "phi-3-mini-128k"),
    shipped("microsoft/phi-4", "phi-4"),
    shipped("microsoft/Phi-4-mini-instruct", "phi-4-mini"),
    shipped("deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"),
    shipped("deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"),
    shipped("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
    shipped("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
    shipped("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
    shipped("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"),
    shipped("deepseek-ai/DeepSeek-V3.1", "deepseek-v3"),
    shipped("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
    shipped("moonshotai/Kimi-K2.5", "kimi-k2.5"),
    shipped("zai-org/GLM-4.7-Flash", "glm-4.7-flash"),
    shipped("openai/gpt-oss-20b", "gpt-oss-20b"),
    shipped("openai/gpt-oss-120b", "gpt-oss-120b"),
    shipped("MiniMaxAI/MiniMax-M2.5", "minimax-m2.5"),
    shipped("MiniMaxAI/MiniMax-M2.7", "minimax-m2.7"),
    shipped("XiaomiMiMo/MiMo-7B-Base", "mimo-7b"),
    shipped("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"),
    shipped("01-ai/Yi-6B", "yi-6b"),
    shipped("01-ai/Yi-34B", "yi-34b"),
    shipped("01-ai/Yi-34B-Chat", "yi-34b"),
    shipped("codellama/CodeLlama-7b-hf", "codellama-7b"),
    shipped("codellama/CodeLlama-7b-Instruct-hf", "codellama-7b"),
    shipped("codellama/CodeLlama-13b-hf", "codellama-13b"),
    shipped("codellama/CodeLlama-13b-Instruct-hf", "codellama-13b"),
    shipped("codellama/CodeLlama-34b-hf", "codellama-34b"),
    shipped("codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"),
    shipped("codellama/CodeLlama-70b-hf", "codellama-70b"),
    shipped("codellama/CodeLlama-70b-Instruct-hf", "codellama-70b"),
    shipped("facebook/opt-125m", "opt-125m"),
];

macro_rules! shapes {
    ($($stem:literal),* $(,)?) => {
        [$(($stem, include_str!(concat!("shapes/", $stem, ".json")))),*]
    };
}

/// File stem and text of each shape.
#[rustfmt::skip]
const FILES: [(&str, &str); 73] = shapes![
    "codellama-13b",
    "codellama-34b",
    "codellama-70b",
    "codellama-7b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "gemma-2-27b",
    "gemma-2-2b",
    "gemma-2-9b",
    "gemma-3-12b",
    "gemma-3-1b",
    "gemma-3-27b",
    "gemma-3-4b",
    "glm-4.7-flash",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "kimi-k2",
    "kimi-k2.5",
    "llama-2-13b",
    "llama-2-70b",
    "llama-2-7b",
    "llama-3-70b",
    "llama-3-8b",
    "llama-3.1-405b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "llama-4-maverick",
    "llama-4-scout",
    "mimo-7b",
    "minimax-m2.5",
    "minimax-m2.7",
    "mistral-7b-v0.1",
    "mistral-7b-v0.2",
    "mistral-7b-v0.3",
    "mistral-large-123b",
    "mistral-nemo-12b",
    "mistral-small-24b",
    "mixtral-8x22b",
    "mixtral-8x7b",
    "opt-125m",
    "phi-3-medium-128k",
    "phi-3-medium-4k",
    "phi-3-mini-128k",
    "phi-3-mini-4k",
    "phi-4",
    "phi-4-mini",
    "qwen2.5-0.5b",
    "qwen2.5-1.5b",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen2.5-3b",
    "qwen2.5-72b",
    "qwen2.5-7b",
    "qwen3-0.6b",
    "qwen3-1.7b",
    "qwen3-14b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "qwen3-4b",
    "qwen3-8b",
    "qwen3-coder-480b-a35b",
    "qwen3-vl-235b-a22b",
    "qwen3-vl-2b",
    "qwen3-vl-30b-a3b",
    "qwen3-vl-32b",
    "qwen3-vl-4b",
    "qwen3-vl-8b",
    "tinyllama-1.1b",
    "yi-34b",
    "yi-6b",
];

/// No shipped model has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownModel {
    /// What was asked for.
    pub name: String,
    /// Ids that are spelt alike, nearest first.
    pub suggestions: Vec<String>,
    /// The shipped id with which the name begins, if more follows.
    pub copy_of: Option<&'static str>,
}

impl UnknownModel {
    /// What to do where the name is a quantized copy's whose ending does not say enough.
    #[must_use]
    pub fn copy_hint(&self) -> Option<String> {
        let base = self.copy_of?;
        Some(format!(
            "if it is a quantized copy of {base}, give that name and --quantization (fp8, int8, w8a16, awq, gptq, nvfp4 …)"
        ))
    }
}

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown model \"{}\"", self.name)?;
        if !self.suggestions.is_empty() {
            write!(f, "\n  did you mean {}?", self.suggestions.join(" or "))?;
        }
        if let Some(hint) = self.copy_hint() {
            write!(f, "\n  {hint}")?;
        }
        write!(
            f,
            "\n  `plimsoll models` lists the shipped ones; or give the path of a `config.json` or of its folder"
        )
    }
}

/// The ids of all shipped models, in the order of listings.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|shipped| shipped.id)
}

/// The shipped model of that id, and what was left out in reading it. Case does not matter and the organisation may be
/// left off: `llama-3.1-8b-instruct`.
///
/// ```
/// let (model, _) = plimsoll::model::find("llama-3.1-8b-instruct").unwrap();
/// assert_eq!(model.name, "meta-llama/Llama-3.1-8B-Instruct");
/// assert_eq!(model.parameters(), 8_030_261_248);
/// ```
pub fn find(name: &str) -> Result<(ModelShape, Vec<String>), UnknownModel> {
    let mut wanted = name.trim().trim_end_matches('/').to_lowercase();
    // The organisation was renamed, and the Hub follows its old name.
    if let Some(part) = wanted.strip_prefix("neuralmagic/") {
        wanted = format!("redhatai/{part}");
    }
    let last_part = |id: &str| id.rsplit('/').next().map(str::to_lowercase);
    let shipped = SHIPPED
        .iter()
        .find(|shipped| shipped.id.to_lowercase() == wanted)
        .or_else(|| {
            SHIPPED
                .iter()
                .find(|shipped| last_part(shipped.id).as_ref() == Some(&wanted))
        });
    match shipped {
        Some(shipped) => Ok(read(shipped)),
        None => Err(UnknownModel {
            name: name.to_string(),
            suggestions: suggestions(&wanted),
            copy_of: None,
        }),
    }
}

/// The nearest ids, judged by their last parts: people leave off the organisation or get it wrong.
fn suggestions(wanted: &str) -> Vec<String> {
    let wanted_part = wanted.rsplit('/').next().unwrap_or(wanted);
    let parts = names().filter_map(|id| id.rsplit('/').next());
    nearest(wanted_part, parts, 3)
        .into_iter()
        .filter_map(|part| names().find(|id| squash(id).ends_with(&squash(part))))
        .map(str::to_string)
        .collect()
}

fn read(shipped: &Shipped) -> (ModelShape, Vec<String>) {
    let (_, text) = FILES
        .iter()
        .find(|(stem, _)| *stem == shipped.file)
        .expect("every id names a shipped file, a test finds them all");
    let (mut shape, notes) = ModelShape::from_hf_config(text, shipped.id)
        .expect("shipped shapes are valid, a test reads them all");
    shape.max_position = shipped.context.unwrap_or(shape.max_position);
    if let Some(stored) = shipped.stored {
        shape.quantization = stored;
    }
    (shape, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameter totals as the checkpoints have them: the `total_parameters` that the Hub shows for the safetensors
    /// files, or their index's `total_size` over two bytes. For Gemma 3 the language model alone (the SigLIP tower has
    /// 416,866,032 and its projector 1,152·(d + 1)); for tied Qwen3 the copy of the LM head in the files is not counted;
    /// DeepSeek-V3 is without its prediction layer, and Kimi K2 with its fp8 scales, one in 16,384. GLM-4.7, Kimi K2.5, Llama 4, MiMo,
    /// MiniMax, Qwen3-Coder and Qwen3-VL (Kimi with the correction of its routers, no parameter there) are what `transformers` 5.20 makes of the language model of their `config.json`.
    #[rustfmt::skip]
    const PUBLISHED: [(&str, u64); 73] = [
        ("codellama-13b", 13_016_028_160),
        ("codellama-34b", 33_743_970_304),
        ("codellama-70b", 68_976_910_336),
        ("codellama-7b", 6_738_546_688),
        ("deepseek-v2-lite", 15_706_484_224),
        ("deepseek-v3", 671_026_419_200),
        ("gemma-2-27b", 27_227_128_320),
        ("gemma-2-2b", 2_614_341_888),
        ("gemma-2-9b", 9_241_705_984),
        ("gemma-3-12b", 12_187_325_040 - 416_866_032 - 1_152 * 3_841),
        ("gemma-3-1b", 999_885_952),
        ("gemma-3-27b", 27_432_406_640 - 416_866_032 - 1_152 * 5_377),
        ("gemma-3-4b", 4_300_079_472 - 416_866_032 - 1_152 * 2_561),
        ("glm-4.7-flash", 29_943_390_976),
        ("gpt-oss-120b", 116_829_156_672),
        ("gpt-oss-20b", 20_914_757_184),
        ("kimi-k2", 1_026_470_731_056),
        ("kimi-k2.5", 1_026_408_209_408 + 60 * 384),
        ("llama-2-13b", 13_015_864_320),
        ("llama-2-70b", 68_976_648_192),
        ("llama-2-7b", 6_738_415_616),
        ("llama-3-70b", 70_553_706_496),
        ("llama-3-8b", 8_030_261_248),
        ("llama-3.1-405b", 405_853_388_800),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.2-1b", 1_235_814_400),
        ("llama-3.2-3b", 3_212_749_824),
        ("llama-4-maverick", 400_711_848_960),
        ("llama-4-scout", 107_769_861_120),
        ("mimo-7b", 7_622_619_136),
        ("minimax-m2.5", 228_689_748_992),
        ("minimax-m2.7", 228_689_748_992),
        ("mistral-7b-v0.1", 7_241_732_096),
        ("mistral-7b-v0.2", 7_241_732_096),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("mistral-large-123b", 122_610_069_504),
        ("mistral-nemo-12b", 12_247_782_400),
        ("mistral-small-24b", 23_572_403_200),
        ("mixtral-8x22b", 140_620_634_112),
        ("mixtral-8x7b", 46_702_792_704),
        ("opt-125m", 125_239_296),
        ("phi-3-medium-128k", 13_960_238_080),
        ("phi-3-medium-4k", 13_960_238_080),
        ("phi-3-mini-128k", 3_821_079_552),
        ("phi-3-mini-4k", 3_821_079_552),
        ("phi-4", 14_659_507_200),
        ("phi-4-mini", 3_836_021_760),
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen2.5-14b", 14_770_033_664),
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen2.5-3b", 3_085_938_688),
        ("qwen2.5-72b", 72_706_203_648),
        ("qwen2.5-7b", 7_615_616_512),
        ("qwen3-0.6b", 596_049_920),
        ("qwen3-1.7b", 1_720_574_976),
        ("qwen3-14b", 14_768_307_200),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-4b", 4_022_468_096),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-coder-480b-a35b", 480_154_875_392),
        ("qwen3-vl-235b-a22b", 235_093_634_560),
        ("qwen3-vl-2b", 1_720_574_976),
        ("qwen3-vl-30b-a3b", 30_532_122_624),
        ("qwen3-vl-32b", 32_762_123_264),
        ("qwen3-vl-4b", 4_022_468_096),
        ("qwen3-vl-8b", 8_190_735_360),
        ("tinyllama-1.1b", 1_100_048_384),
        ("yi-34b", 34_388_917_248),
        ("yi-6b", 6_061_035_520),
    ];

    #[test]
    fn parameters_agree_with_the_published_totals() {
        let mut exact = 0;
        for (stem, published) in PUBLISHED {
            let shipped = SHIPPED.iter().find(|shipped| shipped.file == stem).unwrap();
            let parameters = read(shipped).0.parameters();
            let error = parameters as f64 / published as f64 - 1.0;
            assert!(
                error.abs() < 0.005,
                "{stem}: {parameters} against {published}, {error:+.4}"
            );
            exact += usize::from(parameters == published);
        }
        assert!(exact >= PUBLISHED.len() - 1, "only {exact} are exact");
    }

    #[test]
    fn every_file_is_used_and_every_id_has_one() {
        for (stem, _) in FILES {
            assert!(
                SHIPPED.iter().any(|shipped| shipped.file == stem),
                "{stem} has no id"
            );
        }
        for shipped in &SHIPPED {
            assert_eq!(read(shipped).0.name, shipped.id);
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/model/shapes");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), FILES.len());
    }

    #[test]
    fn ids_resolve_in_any_case_and_by_their_last_part() {
        let check = |name: &str, id: &str| assert_eq!(find(name).unwrap().0.name, id);
        check(
            "meta-llama/llama-3.3-70b-instruct",
            "meta-llama/Llama-3.3-70B-Instruct",
        );
        check("Llama-3.1-8B", "meta-llama/Llama-3.1-8B");
        check("qwen3-8b", "Qwen/Qwen3-8B");
        check("gpt-oss-20b", "openai/gpt-oss-20b");
    }

    #[test]
    fn variants_differ_in_context_and_storage() {
        assert_eq!(find("Qwen/Qwen2.5-7B").unwrap().0.max_position, 131_072);
        assert_eq!(find("Qwen/Qwen2.5-7B-Instruct").unwrap().0.max_position, 32_768);
        assert_eq!(
            find("Qwen/Qwen3-8B-FP8").unwrap().0.quantization,
            Quantization::Fp8Block
        );
        assert_eq!(
            find("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8")
                .unwrap()
                .0
                .quantization,
            Quantization::Fp8
        );
    }

    #[test]
    fn an_unknown_id_gets_the_nearest_ones() {
        let error = find("meta-lama/Llama-3.1-8B-Instuct").unwrap_err();
        insta::assert_snapshot!(error, @r#"
        unknown model "meta-lama/Llama-3.1-8B-Instuct"
          did you mean meta-llama/Llama-3.1-8B-Instruct or meta-llama/Llama-3.1-70B-Instruct or meta-llama/Llama-3.2-1B-Instruct?
          `plimsoll models` lists the shipped ones; or give the path of a `config.json` or of its folder
        "#);
        assert!(find("abacus").unwrap_err().suggestions.is_empty());
    }
}
