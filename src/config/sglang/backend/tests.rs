//! What attention backends decide, given and by default.

use crate::config::Resolved;
use crate::config::flags::tests::resolve_line;
use crate::cost::roofline::CudagraphMode;
use crate::engine::EngineSpec;
use crate::engine::sglang::SglangConfig;

const LLAMA: &str = "meta-llama/Llama-3.1-8B-Instruct";
const V2_LITE: &str = "deepseek-ai/DeepSeek-V2-Lite-Chat";
const V3: &str = "deepseek-ai/DeepSeek-V3 -tp 8 --context-length 8192";

fn resolved(model: &str, flags: &str) -> Result<Resolved, String> {
    let line = format!("--model {model} --request-rate 1 --input-len 64 --output-len 8 {flags}");
    resolve_line(&line).map_err(|told| told.to_string())
}

fn config(resolved: &Resolved) -> SglangConfig {
    match &resolved.scenario.first_pool().engine {
        EngineSpec::Sglang(config) => config.clone(),
        _ => panic!("SGLang was asked for"),
    }
}

fn page(model: &str, flags: &str) -> u32 {
    let resolved = resolved(model, flags).unwrap_or_else(|told| panic!("{model} {flags}: {told}"));
    config(&resolved).page_size
}

fn refused(model: &str, flags: &str) -> String {
    resolved(model, flags).map(|_| ()).unwrap_err()
}

const NEW: &str = "--engine sglang@0.5.23 --gpu";
const OLD: &str = "--engine sglang@0.5.4 --gpu";

#[test]
fn on_b200_the_default_kernels_have_pages_of_64_tokens() {
    let check = |model: &str, engine: &str, gpu: &str, expected: u32| {
        assert_eq!(
            page(model, &format!("{engine} {gpu}")),
            expected,
            "{model} {engine} {gpu}"
        );
    };
    check(LLAMA, NEW, "b200", 64);
    check(LLAMA, NEW, "b300", 64);
    check(LLAMA, OLD, "b200", 1);
    for gpu in ["h100-sxm", "a100-sxm-80gb", "rtx-5090", "mi300x"] {
        check(LLAMA, NEW, gpu, 1);
    }
    // 0.5.4 chose TensorRT-LLM's kernels for these two already.
    for engine in [NEW, OLD] {
        check(V3, engine, "b200", 64);
        check("openai/gpt-oss-20b", engine, "b200", 64);
        check("openai/gpt-oss-20b", engine, "h100-sxm", 1);
    }
    // A compressed KV cache of another architecture is FlashInfer's.
    check(V2_LITE, NEW, "b200", 1);
}

#[test]
fn kernels_that_are_asked_for_have_pages_of_their_own() {
    let check = |model: &str, flags: &str, expected: u32| {
        assert_eq!(page(model, flags), expected, "{model} {flags}");
    };
    for engine in [NEW, OLD] {
        check(
            V2_LITE,
            &format!("{engine} h100-sxm --attention-backend flashmla"),
            64,
        );
        check(
            V2_LITE,
            &format!("{engine} h100-sxm --decode-attention-backend flashmla"),
            64,
        );
        check(LLAMA, &format!("{engine} h100-sxm --attention-backend triton"), 1);
        check(
            LLAMA,
            &format!("{engine} b200 --attention-backend trtllm_mha --page-size 32"),
            32,
        );
    }
    check(
        V2_LITE,
        &format!("{OLD} b200 --attention-backend cutlass_mla"),
        128,
    );
    check(
        LLAMA,
        &format!("{OLD} h100-sxm --prefill-attention-backend fa4"),
        128,
    );
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend trtllm_mha"),
        64,
    );
    check(
        LLAMA,
        &format!("{OLD} b200 --attention-backend trtllm_mha --page-size 128"),
        64,
    );
    check(
        LLAMA,
        &format!("{NEW} b200 --attention-backend trtllm_mha --page-size 128"),
        128,
    );
    check(LLAMA, &format!("{NEW} b200 --attention-backend fa4"), 128);
    check(LLAMA, &format!("{NEW} h100-sxm --attention-backend fa4"), 1);
    check(LLAMA, &format!("{NEW} b200 --attention-backend flashinfer"), 1);
    // One half leaves the other to the default, which has its pages, too.
    check(
        LLAMA,
        &format!("{NEW} b200 --decode-attention-backend flashinfer"),
        64,
    );
    let told = resolved(
        V2_LITE,
        &format!("{NEW} h100-sxm --attention-backend flashmla --page-size 16"),
    );
    let notes = told.unwrap().notes.join("\n");
    assert!(notes.contains("--page-size 16 becomes 64"), "{notes}");
    let uneven = refused(LLAMA, &format!("{NEW} b200 --chunked-prefill-size 1000"));
    assert!(
        uneven.contains("must be a multiple of page_size") && uneven.contains("write 1024"),
        "{uneven}"
    );
}

#[test]
fn some_kernels_are_not_captured_and_some_share_no_prefixes() {
    let mode = |model: &str, flags: &str| {
        let resolved = resolved(model, flags).unwrap_or_else(|told| panic!("{told}"));
        (resolved.placement.graphs.mode, config(&resolved).radix_cache)
    };
    assert_eq!(
        mode(LLAMA, &format!("{NEW} h100-sxm --attention-backend torch_native")),
        (CudagraphMode::None, true)
    );
    assert_eq!(
        mode(LLAMA, &format!("{NEW} h100-sxm --attention-backend fa3")),
        (CudagraphMode::FullAndPiecewise, true)
    );
    assert_eq!(
        mode(
            LLAMA,
            &format!("{OLD} h100-sxm --attention-backend dual_chunk_flash_attn")
        ),
        (CudagraphMode::FullDecodeOnly, false)
    );
    // Prefill graphs would make DeepSeek's prefills attend otherwise on B200.
    assert_eq!(
        mode(V3, &format!("{NEW} b200")),
        (CudagraphMode::FullDecodeOnly, true)
    );
    assert_eq!(
        mode(V3, &format!("{NEW} b200 --attention-backend flashinfer")),
        (CudagraphMode::FullAndPiecewise, true)
    );
}

#[test]
fn what_no_server_would_take_is_refused_with_a_way_out() {
    let check = |model: &str, flags: &str, expected: &str| {
        let told = refused(model, flags);
        assert!(told.contains(expected), "{model} {flags}: {told}");
    };
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend flash3"),
        "no attention backend of sglang@0.5.23",
    );
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend flashinfr"),
        "did you mean flashinfer? It has triton,",
    );
    check(
        LLAMA,
        &format!("{NEW} b200 --attention-backend cutlass_mla"),
        "no attention backend of sglang@0.5.23",
    );
    check(
        LLAMA,
        &format!("{OLD} b200 --attention-backend fa4"),
        "write --prefill-attention-backend fa4",
    );
    check(
        LLAMA,
        &format!("{OLD} h100-sxm --attention-backend trtllm_mha"),
        "has none of TensorRT-LLM's kernels",
    );
    check(
        LLAMA,
        &format!("{NEW} b200 --attention-backend fa3"),
        "FlashAttention 3",
    );
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend flashmla"),
        "does not compress its KV cache",
    );
    check(
        V2_LITE,
        &format!("{NEW} b200 --attention-backend trtllm_mha"),
        "compresses its KV cache",
    );
    check(
        V2_LITE,
        &format!("{NEW} h100-sxm --decode-attention-backend trtllm_mla"),
        "compressed KV cache",
    );
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend aiter"),
        "is not AMD's",
    );
    check(
        LLAMA,
        &format!("{NEW} mi300x --attention-backend flashinfer"),
        "is AMD's",
    );
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend nsa"),
        "does not attend sparsely",
    );
    check(
        LLAMA,
        &format!("{NEW} h100-sxm --attention-backend qsa"),
        "are not simulated",
    );
}

#[test]
fn what_decides_nothing_is_said_to() {
    let ignored = |flags: &str| {
        resolved(LLAMA, flags)
            .unwrap_or_else(|told| panic!("{told}"))
            .ignored
            .join("\n")
    };
    let told = ignored(&format!("{NEW} h100-sxm --attention-backend fa3"));
    assert!(told.contains("--attention-backend fa3 has no effect"), "{told}");
    let told = ignored("--gpu h100-sxm --attention-backend FLASH_ATTN");
    assert!(
        told.contains("the calibration says how fast attention is"),
        "{told}"
    );
}
