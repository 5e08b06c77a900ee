//! Layers with a window beside an fp8 cache: what they are, what is refused, and that a written-out scenario says it again.

use crate::config::flags::tests::{resolve_line, said};
use crate::config::tests::BASE;
use crate::config::{Document, NoFiles, Resolved, capacity, resolve, resolved_toml};
use crate::model::{Dtype, KvFormat};

const GPT_OSS: &str = "openai/gpt-oss-20b --gpu h100-sxm --request-rate 4 --input-len 1024 --output-len 64";
const SKIP: &str = "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers sliding_window";

fn resolved(line: &str) -> Resolved {
    resolve_line(line).unwrap_or_else(|problems| panic!("{line}: {problems}"))
}

/// Keys and values of gpt-oss-20b: 24 layers, half of them with a window of 128, of 8 KV heads of 64.
#[test]
fn windows_keep_sixteen_bits_in_blocks_half_as_long() {
    let mixed = resolved(&format!("{GPT_OSS} {SKIP} --kv-cache-memory-bytes '24 GiB'"));
    let format = KvFormat {
        dtype: Dtype::Fp8,
        windowed: Dtype::Bf16,
    };
    assert_eq!(mixed.placement.kv_format, format);
    let engine = mixed.scenario.first_pool().engine.vllm().unwrap();
    assert_eq!((engine.block_size, engine.kv_groups.full), (32, 1));
    assert_eq!(engine.kv_groups.windows[0].groups, 2);
    let plan = mixed.memory.unwrap();
    // 2·8·64 B a token in 8 bits, 32 of them in each of the 12 layers of a group.
    assert_eq!(plan.layout.block_bytes.0, 2 * 8 * 64 * 32 * 12);
    assert_eq!(plan.num_gpu_blocks, 65_536);
    // 131,072 tokens: in blocks of 32, and of 16 tokens the window and two steps of 8,192 in flight.
    assert_eq!(plan.blocks_of_request(131_072), 4096 + 1033);
    assert_eq!((plan.concurrency(131_072), plan.tokens()), (12, 1_674_777));
    let says = |text: &str| mixed.notes.iter().any(|note| note.contains(text));
    assert!(says("blocks of 16 and 32 tokens") || says("blocks of 32 and 16 tokens"));
    for (flags, requests) in [("", 7), ("--kv-cache-dtype fp8", 14)] {
        let alike = resolved(&format!("{GPT_OSS} {flags} --kv-cache-memory-bytes '24 GiB'"));
        assert_eq!(alike.memory.unwrap().concurrency(131_072), requests, "{flags}");
    }
}

#[test]
fn what_has_no_such_layers_or_no_such_flag_is_refused() {
    let traffic = "--gpu h100-sxm --request-rate 4 --input-len 1024 --output-len 64";
    for (model, flags, part) in [
        (
            "openai/gpt-oss-20b",
            "--engine vllm@0.11",
            "is a flag of vLLM 0.33",
        ),
        (
            "openai/gpt-oss-20b",
            "--engine vllm@0.6",
            "is a flag of vLLM 0.33",
        ),
        ("openai/gpt-oss-20b", "--engine sglang", "is a flag of vLLM 0.33"),
        (
            "openai/gpt-oss-20b",
            "--engine tensorrt-llm",
            "is a flag of vLLM 0.33",
        ),
        ("openai/gpt-oss-20b", "--engine hf-cb", "is a flag of vLLM 0.33"),
        ("Qwen/Qwen3-8B", "", "no layer of it has a sliding window"),
        (
            "meta-llama/Llama-4-Scout-17B-16E-Instruct",
            "-tp 8",
            "no layer of it has a sliding window",
        ),
        ("google/gemma-4-26B-A4B-it", "", "unlike heads"),
        (
            "mistralai/Mistral-7B-v0.1",
            "",
            "all of its layers have a sliding window",
        ),
        (
            "openai/gpt-oss-20b",
            "--prefill 1 --decode 1",
            "KV is handed over as if all layers",
        ),
    ] {
        let told = said(&format!("{model} {traffic} {SKIP} --max-model-len 8192 {flags}"));
        assert!(told.contains(part), "{model} {flags}: {told}");
    }
    for (words, part) in [
        ("0 2", "names a layer by its number"),
        ("full_attention", "names no layers"),
        ("sliding_window 3", "names a layer by its number"),
    ] {
        let told = said(&format!(
            "{GPT_OSS} --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers {words}"
        ));
        assert!(
            told.contains(part) && told.contains("write sliding_window"),
            "{words}: {told}"
        );
    }
}

#[test]
fn without_an_fp8_cache_nothing_is_left_out() {
    let plain = resolved(GPT_OSS);
    let named = resolved(&format!("{GPT_OSS} --kv-cache-dtype-skip-layers sliding_window"));
    assert_eq!(named.placement, plain.placement);
    assert_eq!(named.memory, plain.memory);
    let has = |note: &String| note.contains("--kv-cache-dtype-skip-layers has no effect");
    assert!(named.notes.iter().any(has), "{:?}", named.notes);
}

#[test]
fn a_pasted_command_a_file_and_its_spelt_out_form_say_the_same() {
    let flags = resolved(&format!("{GPT_OSS} {SKIP}"));
    let pasted = resolved(
        "--gpu h100-sxm --request-rate 4 --input-len 1024 --output-len 64 --serve-cmd 'vllm serve openai/gpt-oss-20b \
         --kv_cache_dtype fp8 --kv-cache-dtype-skip-layers sliding_window --port 80'",
    );
    assert_eq!(pasted.placement, flags.placement);
    assert_eq!(pasted.memory, flags.memory);
    let text = BASE
        .replacen("meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-20b", 1)
        .replacen(
            "[cluster]",
            "kv_cache_dtype = \"fp8\"\nkv_cache_dtype_skip_layers = [\"sliding_window\"]\n[cluster]",
            1,
        );
    let document = Document::parse("a.toml", &text).unwrap();
    let written = resolve(document.clone(), &NoFiles).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(written.placement.kv_format, flags.placement.kv_format);
    let spelt = resolved_toml(&written);
    assert!(
        spelt.contains("kv_cache_dtype_skip_layers = [\"sliding_window\"]"),
        "{spelt}"
    );
    let again = resolve(Document::parse("b.toml", &spelt).unwrap(), &NoFiles)
        .unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(again.memory, written.memory);
    assert_eq!(again.placement, written.placement);
    let alone = capacity(document, &NoFiles).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(
        alone.plan.unwrap().num_gpu_blocks,
        written.memory.unwrap().num_gpu_blocks
    );
}
