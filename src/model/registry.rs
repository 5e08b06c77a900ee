//! The shipped shapes, and finding one by its Hugging Face id or the last part of it.
//!
//! The files under `shapes/` hold the fields of public `config.json` files that this crate reads, nothing else. Several
//! ids share a file where only the weights' values differ.

use std::fmt;

use super::hf_config::UNCOUNTED_VISION;
use super::{ModelShape, Quantization, Tower, Vision};
use crate::nearest::{nearest, squash};

/// An id and where its shape is written down.
struct Shipped {
    id: &'static str,
    file: &'static str,
    /// Longest context where it differs from the file's.
    context: Option<u32>,
    /// The checkpoint's linear layers are stored otherwise than the file says.
    stored: Option<Quantization>,
    /// Then: with scales of its inputs, too.
    static_scales: bool,
    /// The checkpoint has a vision tower beside the language model of the file: its architecture, and what it says of the tower.
    sees: Option<(&'static str, Tower)>,
}

const fn shipped(id: &'static str, file: &'static str) -> Shipped {
    Shipped {
        id,
        file,
        context: None,
        stored: None,
        static_scales: false,
        sees: None,
    }
}

impl Shipped {
    const fn context(mut self, tokens: u32) -> Shipped {
        self.context = Some(tokens);
        self
    }

    const fn sees(mut self, architecture: &'static str, tower: Tower) -> Shipped {
        self.sees = Some((architecture, tower));
        self
    }

    /// One scale for each matrix and, in the checkpoint, one for each of its inputs.
    const fn fp8(mut self) -> Shipped {
        self.static_scales = true;
        self.fp8_dynamic()
    }

    /// Scales of channels, those of inputs found while running (`input_activations.dynamic` in their config.json).
    const fn fp8_dynamic(mut self) -> Shipped {
        self.stored = Some(Quantization::Fp8);
        self
    }

    /// Qwen's own fp8 checkpoints have scales for blocks of 128×128 (`weight_block_size` in their config.json).
    const fn fp8_blocks(mut self) -> Shipped {
        self.stored = Some(Quantization::Fp8Block);
        self
    }
}

const QWEN_VL: &str = "Qwen2_5_VLForConditionalGeneration";
/// Of all four sizes: 32 layers, which its config calls `depth`.
const QWEN_TOWER: Tower = Tower {
    layers: None,
    hidden_size: Some(1280),
};
const MISTRAL_3: &str = "Mistral3ForConditionalGeneration";
const PIXTRAL: Tower = Tower {
    layers: Some(24),
    hidden_size: Some(1024),
};

/// Every id that resolves without a network, family by family. Of ids that end alike the first is meant.
#[rustfmt::skip]
static SHIPPED: [Shipped; 209] = [
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
    shipped("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.1-70b").fp8_dynamic(),
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
    shipped("Qwen/QwQ-32B", "qwen2.5-32b").context(40_960),
    shipped("Qwen/Qwen2.5-VL-3B-Instruct", "qwen2.5-3b").context(128_000).sees(QWEN_VL, QWEN_TOWER),
    shipped("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-7b").context(128_000).sees(QWEN_VL, QWEN_TOWER),
    shipped("Qwen/Qwen2.5-VL-32B-Instruct", "qwen2.5-32b").context(128_000).sees(QWEN_VL, QWEN_TOWER),
    shipped("Qwen/Qwen2.5-VL-72B-Instruct", "qwen2.5-72b").context(128_000).sees(QWEN_VL, QWEN_TOWER),
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
    shipped("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b").context(262_144),
    shipped("Qwen/Qwen3-VL-2B-Instruct", "qwen3-vl-2b"),
    shipped("Qwen/Qwen3-VL-4B-Instruct", "qwen3-vl-4b"),
    shipped("Qwen/Qwen3-VL-8B-Instruct", "qwen3-vl-8b"),
    shipped("Qwen/Qwen3-VL-32B-Instruct", "qwen3-vl-32b"),
    shipped("Qwen/Qwen3-VL-32B-Thinking", "qwen3-vl-32b"),
    shipped("Qwen/Qwen3-VL-30B-A3B-Instruct", "qwen3-vl-30b-a3b"),
    shipped("Qwen/Qwen3-VL-235B-A22B-Instruct", "qwen3-vl-235b-a22b"),
    shipped("Qwen/Qwen3-VL-235B-A22B-Thinking", "qwen3-vl-235b-a22b"),
    shipped("Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next-80b-a3b"),
    shipped("Qwen/Qwen3-Next-80B-A3B-Thinking", "qwen3-next-80b-a3b"),
    shipped("Qwen/Qwen3.5-27B", "qwen3.5-27b"),
    shipped("Qwen/Qwen3.5-35B-A3B", "qwen3.5-35b-a3b"),
    shipped("Qwen/Qwen3.5-122B-A10B", "qwen3.5-122b-a10b"),
    shipped("Qwen/Qwen3.5-397B-A17B", "qwen3.5-397b-a17b"),
    shipped("Qwen/Qwen3.6-27B", "qwen3.5-27b"),
    shipped("Qwen/Qwen3.6-35B-A3B", "qwen3.5-35b-a3b"),
    shipped("mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"),
    shipped("mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b-v0.1"),
    shipped("mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b-v0.2"),
    shipped("mistralai/Mistral-7B-v0.3", "mistral-7b-v0.3"),
    shipped("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
    shipped("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo-12b"),
    shipped("mistralai/Mistral-Nemo-Base-2407", "mistral-nemo-12b").context(128_000),
    shipped("mistralai/Mistral-Small-24B-Instruct-2501", "mistral-small-24b"),
    shipped("mistralai/Mistral-Small-24B-Base-2501", "mistral-small-24b"),
    shipped("mistralai/Mistral-Small-3.1-24B-Instruct-2503", "mistral-small-24b").context(131_072).sees(MISTRAL_3, PIXTRAL),
    shipped("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "mistral-small-24b").context(131_072).sees(MISTRAL_3, PIXTRAL),
    shipped("mistralai/Devstral-Small-2505", "mistral-small-24b").context(131_072),
    shipped("mistralai/Devstral-Small-2507", "mistral-small-24b").context(131_072),
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
    shipped("google/gemma-4-E2B-it", "gemma-4-e2b"),
    shipped("google/gemma-4-E2B", "gemma-4-e2b"),
    shipped("google/gemma-4-E4B-it", "gemma-4-e4b"),
    shipped("google/gemma-4-E4B", "gemma-4-e4b"),
    shipped("google/gemma-4-31B-it", "gemma-4-31b"),
    shipped("google/gemma-4-31B", "gemma-4-31b"),
    shipped("google/gemma-4-26B-A4B-it", "gemma-4-26b-a4b"),
    shipped("google/gemma-4-26B-A4B", "gemma-4-26b-a4b"),
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
    shipped("deepseek-ai/DeepSeek-V3.1-Terminus", "deepseek-v3"),
    shipped("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-v3.2"),
    shipped("deepseek-ai/DeepSeek-V3.2", "deepseek-v3.2"),
    shipped("moonshotai/Kimi-K2-Instruct", "kimi-k2"),
    shipped("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2").context(262_144),
    shipped("moonshotai/Kimi-K2-Thinking", "kimi-k2-thinking"),
    shipped("moonshotai/Kimi-K2.5", "kimi-k2.5"),
    shipped("zai-org/GLM-4.5", "glm-4.5"),
    shipped("zai-org/GLM-4.5-FP8", "glm-4.5").fp8_dynamic(),
    shipped("zai-org/GLM-4.5-Air", "glm-4.5-air"),
    shipped("zai-org/GLM-4.5-Air-FP8", "glm-4.5-air").fp8_dynamic(),
    shipped("zai-org/GLM-4.6", "glm-4.5").context(202_752),
    shipped("zai-org/GLM-4.6-FP8", "glm-4.5").context(202_752).fp8_dynamic(),
    shipped("zai-org/GLM-4.7", "glm-4.5").context(202_752),
    shipped("zai-org/GLM-4.7-FP8", "glm-4.5").context(202_752).fp8_dynamic(),
    shipped("zai-org/GLM-4.7-Flash", "glm-4.7-flash"),
    shipped("zai-org/GLM-5", "glm-5"),
    shipped("zai-org/GLM-5-FP8", "glm-5").fp8_blocks(),
    shipped("zai-org/GLM-5.2", "glm-5.2"),
    shipped("zai-org/GLM-5.2-FP8", "glm-5.2").fp8_blocks(),
    shipped("openai/gpt-oss-20b", "gpt-oss-20b"),
    shipped("openai/gpt-oss-120b", "gpt-oss-120b"),
    shipped("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"),
    shipped("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "nemotron-3-super-120b-a12b"),
    shipped("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "nemotron-3-super-120b-a12b").fp8(),
    shipped("nvidia/Nemotron-H-56B-Base-8K", "nemotron-h-56b"),
    shipped("nvidia/Llama-3_3-Nemotron-Super-49B-v1", "nemotron-super-49b"),
    shipped("moonshotai/Kimi-Linear-48B-A3B-Instruct", "kimi-linear-48b-a3b"),
    shipped("stepfun-ai/Step-3.5-Flash", "step-3.5-flash"),
    shipped("XiaomiMiMo/MiMo-V2-Flash", "mimo-v2-flash"),
    shipped("arcee-ai/Trinity-Mini", "trinity-mini"),
    shipped("arcee-ai/Trinity-Nano-Preview", "trinity-nano"),
    shipped("ibm-granite/granite-4.0-h-small", "granite-4.0-h-small"),
    shipped("allenai/Olmo-Hybrid-7B", "olmo-hybrid-7b"),
    shipped("LiquidAI/LFM2-1.2B", "lfm2-1.2b"),
    shipped("LiquidAI/LFM2-8B-A1B", "lfm2-8b-a1b"),
    shipped("MiniMaxAI/MiniMax-M2", "minimax-m2.5"),
    shipped("MiniMaxAI/MiniMax-M2.1", "minimax-m2.5"),
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
const FILES: [(&str, &str); 101] = shapes![
    "codellama-13b",
    "codellama-34b",
    "codellama-70b",
    "codellama-7b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "deepseek-v3.2",
    "gemma-2-27b",
    "gemma-2-2b",
    "gemma-2-9b",
    "gemma-3-12b",
    "gemma-3-1b",
    "gemma-3-27b",
    "gemma-3-4b",
    "gemma-4-26b-a4b",
    "gemma-4-31b",
    "gemma-4-e2b",
    "gemma-4-e4b",
    "glm-4.5",
    "glm-4.5-air",
    "glm-4.7-flash",
    "glm-5",
    "glm-5.2",
    "granite-4.0-h-small",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "kimi-k2",
    "kimi-k2-thinking",
    "kimi-k2.5",
    "kimi-linear-48b-a3b",
    "lfm2-1.2b",
    "lfm2-8b-a1b",
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
    "mimo-v2-flash",
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
    "nemotron-3-nano-30b-a3b",
    "nemotron-3-super-120b-a12b",
    "nemotron-h-56b",
    "nemotron-super-49b",
    "olmo-hybrid-7b",
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
    "qwen3-next-80b-a3b",
    "qwen3-vl-235b-a22b",
    "qwen3-vl-2b",
    "qwen3-vl-30b-a3b",
    "qwen3-vl-32b",
    "qwen3-vl-4b",
    "qwen3-vl-8b",
    "qwen3.5-122b-a10b",
    "qwen3.5-27b",
    "qwen3.5-35b-a3b",
    "qwen3.5-397b-a17b",
    "step-3.5-flash",
    "tinyllama-1.1b",
    "trinity-mini",
    "trinity-nano",
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
    let (mut shape, mut notes) = ModelShape::from_hf_config(text, shipped.id)
        .expect("shipped shapes are valid, a test reads them all");
    shape.max_position = shipped.context.unwrap_or(shape.max_position);
    if let Some(stored) = shipped.stored {
        shape.quantization = stored;
        shape.static_scales = shipped.static_scales;
        // Scales of blocks are the fp8 method's own.
        shape.quant_method = (stored == Quantization::Fp8Block).then(|| "fp8".to_string());
    }
    if let Some((architecture, tower)) = shipped.sees {
        shape.vision = Some(Vision {
            architecture: architecture.to_string(),
            tower: Some(tower),
        });
        notes.push(UNCOUNTED_VISION.to_owned());
    }
    (shape, notes)
}

#[cfg(test)]
mod tests;
