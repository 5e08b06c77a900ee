//! What is served of models with sparse attention, and what is refused.

use crate::config::flags::tests::resolve_line;
use crate::config::tests::{BASE, resolve_text};
use crate::engine::EngineSpec;

/// The base scenario with such a model on eight GPUs that hold it.
fn told(gpu: &str, model: &str, (kv, more): (&str, &str)) -> Result<crate::config::Resolved, String> {
    let text = BASE
        .replacen("meta-llama/Llama-3.1-8B-Instruct", model, 1)
        .replacen("H100-SXM-80GB", gpu, 1)
        .replacen("[model]\n", &format!("[model]\nkv_cache_dtype = \"{kv}\"\n"), 1)
        .replacen("[cluster]\n", "[cluster]\ntensor_parallel_size = 8\n", 1)
        .replacen("[engine]\n", &format!("[engine]\n{more}\n"), 1);
    resolve_text(&text).map_err(|problems| problems.to_string())
}

const DEEPSEEK: &str = "deepseek-ai/DeepSeek-V3.2";

#[test]
fn blocks_and_bytes_are_those_of_the_backends() {
    let block = |gpu: &str, model: &str, kv: &str| {
        let resolved = told(gpu, model, (kv, "")).unwrap_or_else(|problems| panic!("{problems}"));
        let plan = resolved.memory.expect("vLLM plans its memory");
        (plan.block_size, plan.layout.bytes_per_token.0)
    };
    // Latents of 576 in 16 bits, or 656 bytes with scales, or 576 in 8; the indexer's keys are 132 bytes a layer in any case.
    assert_eq!(block("H200-SXM-141GB", DEEPSEEK, "auto"), (64, 61 * (1152 + 132)));
    assert_eq!(block("H200-SXM-141GB", DEEPSEEK, "fp8"), (64, 61 * (656 + 132)));
    assert_eq!(block("B200-SXM-180GB", DEEPSEEK, "fp8"), (64, 61 * (576 + 132)));
    assert_eq!(
        block("B200-SXM-180GB", "zai-org/GLM-5-FP8", "auto"),
        (64, 78 * (576 + 132))
    );
    assert_eq!(
        block("B200-SXM-180GB", "zai-org/GLM-5-FP8", "bfloat16"),
        (64, 78 * (1152 + 132))
    );
    assert_eq!(
        block("H200-SXM-141GB", "zai-org/GLM-5.2-FP8", "fp8"),
        (64, 78 * 656 + 21 * 132)
    );
}

/// Eight GPUs with such a model under SGLang.
fn under_sglang(gpu: &str, model: &str, flags: &str) -> Result<crate::config::Resolved, String> {
    let line = format!(
        "--engine sglang@0.5.23 --gpu {gpu} -tp 8 --model {model} --request-rate 1 --input-len 64 --output-len 8 {flags}"
    );
    resolve_line(&line).map_err(|problems| problems.to_string())
}

#[test]
fn sglang_lays_the_same_bytes_out_and_caches_in_8_bits_on_blackwell() {
    let page = |gpu: &str, model: &str, kv: &str| {
        let resolved = under_sglang(gpu, model, &format!("--kv-cache-dtype {kv}"));
        let resolved = resolved.unwrap_or_else(|problems| panic!("{problems}"));
        let EngineSpec::Sglang(config) = &resolved.scenario.first_pool().engine else {
            panic!("another engine");
        };
        let plan = resolved.memory.as_ref().expect("its memory is planned");
        (config.page_size, plan.layout.bytes_per_token.0)
    };
    assert_eq!(page("h200-sxm", DEEPSEEK, "auto"), (64, 61 * (1152 + 132)));
    assert_eq!(page("h200-sxm", DEEPSEEK, "fp8_e4m3"), (64, 61 * (656 + 132)));
    assert_eq!(page("b200-sxm", DEEPSEEK, "auto"), (64, 61 * (576 + 132)));
    assert_eq!(page("b200-sxm", DEEPSEEK, "bfloat16"), (64, 61 * (1152 + 132)));
    assert_eq!(
        page("b200-sxm", "zai-org/GLM-5.2-FP8", "auto"),
        (64, 78 * 576 + 21 * 132)
    );
}

#[test]
fn what_sglang_would_not_take_or_is_not_modelled_is_refused() {
    let refused = |gpu: &str, flags: &str, why: &str| {
        let told = under_sglang(gpu, DEEPSEEK, flags).map(|_| ()).unwrap_err();
        assert!(told.contains(why), "{gpu} {flags}: {told}");
    };
    refused("h200-sxm", "--kv-cache-dtype fp8_e5m2", "write fp8_e4m3");
    refused("a100-sxm-80gb", "", "SGLang has no backend of sparse attention");
    refused(
        "h200-sxm",
        "--attention-backend fa3",
        "attends sparsely, which these kernels do not",
    );
    for name in ["dsa", "nsa"] {
        assert!(under_sglang("h200-sxm", DEEPSEEK, &format!("--attention-backend {name}")).is_ok());
    }
}

#[test]
fn what_is_not_modelled_of_sparse_attention_is_refused() {
    let refused = |gpu: &str, more: &str, why: &str| {
        let problems = told(gpu, DEEPSEEK, ("auto", more)).err();
        let problems = problems.unwrap_or_else(|| panic!("{more} is taken"));
        assert!(problems.contains(why), "{more}: {problems}");
    };
    refused("H200-SXM-141GB", "profile = \"vllm@0.11\"", "use vllm@0.33");
    refused(
        "H200-SXM-141GB",
        "profile = \"sglang@0.5.4\"",
        "use sglang@0.5.23",
    );
    refused("H200-SXM-141GB", "profile = \"vllm@0.6\"", "use vllm@0.33");
    refused("H200-SXM-141GB", "block_size = 16", "multiple of 64");
    refused("A100-SXM-80GB", "", "no backend of sparse attention");
    assert!(told("H200-SXM-141GB", DEEPSEEK, ("auto", "block_size = 128")).is_ok());
}
