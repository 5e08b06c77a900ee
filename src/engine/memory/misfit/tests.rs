//! What is short, in words.

use super::super::tests::case;
use super::super::*;
use crate::units::Bytes;

#[test]
fn what_is_short_is_told_with_what_there_is() {
    let told = |gpu: &str, name: &str, changed: &dyn Fn(MemoryOptions) -> MemoryOptions| {
        let (device, model, options) = case(gpu, name);
        plan(&device, &model, &changed(options))
            .unwrap_err()
            .told_of(&device.id)
    };
    let large = told("H100", "meta-llama/Llama-3.1-70B", &|options| options);
    insta::assert_snapshot!(large, @"needs 131.4 GiB weights + 3.5 GiB activations and runtime a GPU, H100-SXM-80GB offers 72.8 GiB");
    let long = told("L4", "meta-llama/Llama-3.1-8B", &|options| MemoryOptions {
        max_model_len: 131_072,
        ..options
    });
    insta::assert_snapshot!(long, @"one request of 131072 tokens needs 16.0 GiB of KV cache, L4-24GB has 4.1 GiB left");
    let bytes = told("H100", "meta-llama/Llama-3.1-8B", &|options| MemoryOptions {
        kv_cache_memory_bytes: Some(Bytes(900 << 40)),
        ..options
    });
    insta::assert_snapshot!(bytes, @"--kv-cache-memory-bytes asks for 921600.0 GiB of KV cache beside 15.0 GiB of weights, H100-SXM-80GB has 79.1 GiB");
    let few = told("H100", "meta-llama/Llama-3.1-8B", &|options| MemoryOptions {
        num_gpu_blocks_override: Some(2),
        ..options
    });
    insta::assert_snapshot!(few, @"one request of 8192 tokens needs 1.0 GiB of KV cache, --num-gpu-blocks-override gives 0.0 GiB");
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
        error,
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
            plan(&device, &model, &options),
            Err(Shortage::HeadsNotDivisible {
                kind: "KV",
                heads: 10,
                ..
            })
        );
        assert_eq!(divided, divides, "{tensor_parallel}");
    }
}
