//! What weights and caches are stored in, and which kernels that takes.

use super::*;

#[test]
fn formats_that_the_card_or_the_model_lacks_are_not_taken_in_silence() {
    let on = |flags: &str| {
        said(&format!(
            "meta-llama/Llama-3.2-1B --max-model-len 8192 {TRAFFIC} {flags}"
        ))
    };
    for (flags, part) in [
        ("--gpu t4 --dtype bfloat16", "T4-16GB has no bfloat16"),
        ("--gpu t4 --kv-cache-dtype fp8", "T4-16GB has no fp8 units"),
        ("--gpu a100-sxm-80gb --quantization fp8", "has no fp8 units"),
        ("--gpu h100 --quantization mxfp4", "mxfp4 stores experts"),
        ("--gpu h100 --dtype float32", "timed at the 16-bit rate"),
        (
            "--gpu t4 --quantization fp8",
            "weights are stored so and computed in 16 bits",
        ),
        (
            "--gpu t4 --quantization fp8 --engine vllm@0.11",
            "fp8 needs 8.0 in vllm@0.11",
        ),
        (
            "--gpu v100-sxm-16gb --dtype bfloat16",
            "V100-SXM-16GB has no bfloat16",
        ),
        (
            "--gpu v100-sxm-16gb --quantization awq",
            "of compute capability 7.0, and awq needs 7.5",
        ),
        ("--gpu v100-sxm-16gb", "it takes one of your own build"),
        (
            "--gpu v100-sxm-16gb --engine sglang",
            "compute capability 7.0, and SGLang begins at 7.5",
        ),
        (
            "--gpu t4 --quantization fp8 --engine vllm@0.6",
            "fp8 needs 8.0 in vllm@0.6",
        ),
        (
            "--gpu h100 --quantization nvfp4 --engine vllm@0.6",
            "vllm@0.6 is older than its kernels for nvfp4",
        ),
    ] {
        let told = on(flags);
        assert!(told.contains(part), "{flags}: {told}");
    }
    assert!(!on("--gpu t4 --dtype float16").contains("bfloat16"));
    assert!(!on("--gpu v100-sxm-16gb --engine vllm@0.11").contains("your own build"));
    let told = said(&format!(
        "openai/gpt-oss-20b --gpu t4 --tensor-parallel-size 4 {TRAFFIC}"
    ));
    assert!(told.contains("mxfp4 needs 8.0"), "{told}");
    let told = said(&format!(
        "openai/gpt-oss-20b --gpu h100 --engine vllm@0.6 {TRAFFIC}"
    ));
    assert!(told.contains("older than its kernels for mxfp4"), "{told}");
}

#[test]
fn the_kernels_of_fp8_experts_are_named() {
    let about = |line: &str| {
        let line = format!("{TRAFFIC} --model {line}");
        let resolved = resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"));
        let mut notes = resolved.notes.into_iter();
        notes
            .find(|note| note.starts_with("routed experts"))
            .unwrap_or_default()
    };
    let blocks = "Qwen/Qwen3-30B-A3B-FP8 --gpu h100-sxm";
    for line in [blocks.to_string(), format!("{blocks} --quantization fp8")] {
        assert!(about(&line).contains("in block fp8: no table"), "{line}");
    }
    // Scales that the checkpoint brings, where the engine has kernels for them.
    let with_scales = "RedHatAI/Qwen3-30B-A3B-FP8 --gpu h100-sxm";
    assert!(about(with_scales).contains("reach 20 % of the bandwidth"));
    for line in [
        "Qwen/Qwen3-30B-A3B --gpu h100-sxm --quantization fp8",
        "RedHatAI/Qwen3-30B-A3B-FP8-dynamic --gpu h100-sxm",
        &format!("{with_scales} --engine vllm@0.11"),
        &format!("{with_scales} --engine sglang"),
    ] {
        assert!(
            about(line).contains("in fp8: no table"),
            "{line}: {}",
            about(line)
        );
    }
    let of_triton = "Qwen/Qwen3-30B-A3B --gpu l40s --quantization fp8";
    for line in [of_triton, "Qwen/Qwen3-8B-FP8 --gpu h100-sxm"] {
        assert_eq!(about(line), "", "{line}");
    }
}

/// Of vLLM 0.11 `auto` is the model's dtype; of SGLang it heeds ModelOpt's checkpoints only.
#[test]
fn a_checkpoints_kv_format_is_taken_where_the_engine_takes_it() {
    let kv = |flags: &str| {
        let resolved = resolve_line(&format!("kv.json --gpu h100-sxm {TRAFFIC} {flags}"))
            .unwrap_or_else(|problems| panic!("{problems}"));
        (resolved.placement.kv_format.dtype, resolved.notes.join("\n"))
    };
    for flags in ["", "--kv-cache-dtype auto"] {
        let (dtype, told) = kv(flags);
        assert_eq!(dtype, Dtype::Fp8, "{flags}");
        assert!(
            told.contains("--kv-cache-dtype bfloat16 keeps it in 16 bits"),
            "{told}"
        );
    }
    let (dtype, told) = kv("--kv-cache-dtype bfloat16");
    assert_eq!(dtype, Dtype::Bf16);
    assert!(!told.contains("KV cache"), "{told}");
    for engine in ["vllm@0.11", "sglang", "vllm@0.6"] {
        let (dtype, told) = kv(&format!("--engine {engine}"));
        assert_eq!(dtype, Dtype::Bf16, "{engine}");
        assert!(told.contains("does not take under auto"), "{engine}: {told}");
    }
}

#[test]
fn weights_of_8_bits_alone_are_multiplied_in_16() {
    let on = |model: &str| {
        let flags = format!("{model} --gpu h100-sxm --kv-cache-dtype bfloat16 {TRAFFIC}");
        resolve_line(&flags).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let told = on("kv.json").notes.join("\n");
    assert!(told.contains("no kernel of such was measured"), "{told}");
    let device = crate::hardware::find("h100-sxm").unwrap().0;
    let peak = |quantization| {
        let model = crate::model::find("meta-llama/Llama-3.1-8B").unwrap().0;
        crate::engine::ceilings::ceilings(&device, &model.with_quantization(quantization), 1, 1).peak
    };
    use crate::model::Quantization::{Int8, WeightOnly8};
    assert_eq!(peak(WeightOnly8 { group_size: None }), device.peaks.bf16);
    assert_eq!(Some(peak(Int8)), device.peaks.int8);
}

#[test]
fn modelopts_own_file_is_read_beside_the_config() {
    for name in ["modelopt/", "modelopt/config.json"] {
        let line = format!("{name} --gpu h100-sxm --max-model-len 8192 {TRAFFIC}");
        let resolved = resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(resolved.placement.kv_format.dtype, crate::model::Dtype::Fp8);
        let notes = resolved.notes.join("\n");
        assert!(notes.contains("read from its hf_quant_config.json"), "{notes}");
    }
}
