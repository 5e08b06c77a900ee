//! What does not fit, in words, with changes that do.

use super::super::tests::case;
use super::super::*;
use crate::units::Bytes;

#[test]
fn what_does_not_fit_names_changes_that_do() {
    let (device, model, options) = case("H100", "meta-llama/Llama-3.1-70B");
    let error = plan(&device, &model, &options).unwrap_err();
    insta::assert_snapshot!(error, @r#"
    does not fit: needs 131.4 GiB weights + 3.5 GiB activations and runtime a GPU, H100-SXM-80GB offers 72.8 GiB
      smallest change that fits: --quantization fp8 --max-model-len 5120   |   -tp 2
    "#);
    let (device, model, options) = case("L4", "meta-llama/Llama-3.1-8B");
    let options = MemoryOptions {
        max_model_len: 131_072,
        ..options
    };
    insta::assert_snapshot!(plan(&device, &model, &options).unwrap_err(), @r#"
    does not fit: one request of 131072 tokens needs 16.0 GiB of KV cache, L4-24GB has 4.1 GiB left
      smallest change that fits: --max-model-len 32768   |   -tp 2
    "#);
    let (device, model, options) = case("T4", "meta-llama/Llama-3.1-405B");
    insta::assert_snapshot!(plan(&device, &model, &options).unwrap_err(), @r#"
    does not fit: needs 756.0 GiB weights + 3.3 GiB activations and runtime a GPU, T4-16GB offers 13.4 GiB
      smallest change that fits: -tp 8 -pp 8
    "#);
}

#[test]
fn quantization_and_stages_are_tried_together_with_more_gpus() {
    for (name, asked, flags) in [
        ("deepseek-ai/DeepSeek-V3", 1, "-tp 8 -pp 2"),
        ("deepseek-ai/DeepSeek-V3", 8, "-tp 8 -pp 2"),
        (
            "meta-llama/Llama-3.1-405B",
            1,
            "--quantization fp8 -tp 8 | -tp 8 -pp 2",
        ),
    ] {
        let (device, model, options) = case("H100", name);
        let options = MemoryOptions {
            tensor_parallel: asked,
            max_model_len: 16_384,
            ..options
        };
        let remedies = plan(&device, &model, &options).unwrap_err().remedies;
        let found: Vec<&str> = remedies.iter().map(|remedy| remedy.flags.as_str()).collect();
        assert_eq!(found.join(" | "), flags, "{name} on {asked}");
    }
}

#[test]
fn a_flag_that_is_to_blame_is_named() {
    let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
    let message = |options: MemoryOptions| plan(&device, &model, &options).unwrap_err().to_string();
    insta::assert_snapshot!(message(MemoryOptions { kv_cache_memory_bytes: Some(Bytes(900 << 40)), ..options.clone() }), @r"
    does not fit: --kv-cache-memory-bytes asks for 921600.0 GiB of KV cache beside 15.0 GiB of weights, H100-SXM-80GB has 79.1 GiB
      smallest change that fits: without --kv-cache-memory-bytes
    ");
    insta::assert_snapshot!(message(MemoryOptions { num_gpu_blocks_override: Some(2), ..options.clone() }), @r"
    does not fit: one request of 8192 tokens needs 1.0 GiB of KV cache, --num-gpu-blocks-override gives 0.0 GiB
      smallest change that fits: without --num-gpu-blocks-override
    ");
    let share = message(MemoryOptions {
        gpu_memory_utilization: 0.01,
        ..options.clone()
    });
    let (_, changes) = share.split_once("smallest change that fits: ").unwrap();
    let least: f64 = changes.rsplit(' ').next().unwrap().parse().unwrap();
    let at = |share: f64| {
        let gpu_memory_utilization = share;
        plan(
            &device,
            &model,
            &MemoryOptions {
                gpu_memory_utilization,
                ..options.clone()
            },
        )
    };
    assert!(at(least).is_ok() && at(least - 0.01).is_err(), "{share}");
    // Where a part of the context fits, a shorter one is offered beside the larger share, and no flag twice.
    let part = message(MemoryOptions {
        gpu_memory_utilization: 0.3,
        max_model_len: 131_072,
        ..options.clone()
    });
    insta::assert_snapshot!(part, @r"
    does not fit: one request of 131072 tokens needs 16.0 GiB of KV cache, H100-SXM-80GB has 6.2 GiB left
      smallest change that fits: --gpu-memory-utilization 0.43   |   --max-model-len 50176
    ");
    let beyond = message(MemoryOptions {
        num_gpu_blocks_override: Some(99_999_999),
        ..options.clone()
    });
    assert!(beyond.contains("--num-gpu-blocks-override asks for"), "{beyond}");
    for tensor_parallel in [3, 64] {
        let ranks = message(MemoryOptions {
            tensor_parallel,
            ..options.clone()
        });
        assert!(ranks.ends_with("smallest change that fits: -tp 1"), "{ranks}");
    }
}

#[test]
fn heads_must_divide() {
    let (device, model, options) = case("H100", "Qwen/Qwen2.5-7B");
    let options = MemoryOptions {
        tensor_parallel: 8,
        ..options
    };
    let error = plan(&device, &model, &options).unwrap_err();
    assert!(matches!(
        error.shortage,
        Shortage::HeadsNotDivisible {
            kind: "query",
            heads: 28,
            ..
        }
    ));
    // vLLM `QKVParallelLinear`: 10 heads with keys are neither shared out among 4 or 8 ranks nor repeated on 16.
    let (device, model, options) = case("H200", "microsoft/Phi-3-medium-4k-instruct");
    for (tensor_parallel, divides) in [(2, true), (4, false), (8, false), (10, true), (20, true)] {
        let options = MemoryOptions {
            tensor_parallel,
            max_model_len: 4096,
            ..options.clone()
        };
        let divided = !matches!(
            plan(&device, &model, &options).map_err(|error| error.shortage),
            Err(Shortage::HeadsNotDivisible {
                kind: "KV",
                heads: 10,
                ..
            })
        );
        assert_eq!(divided, divides, "{tensor_parallel}");
    }
}
