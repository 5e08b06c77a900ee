//! Plans against the engine's worked numbers and published logs, and the words for what does not fit.

use super::layout::kv_layout;
use super::plan::attempt;
use super::*;
use crate::hardware::Device;
use crate::kv::{KvGroups, WindowGroups};
use crate::model::{Attention, ModelShape};
use crate::units::Bytes;
use crate::{hardware, model};
use proptest::prelude::*;

/// The estimates of V1-72.
const WORKED: Estimates = Estimates {
    activations: Bytes(3 << 29),
    cuda_graphs: Bytes(644_245_094),
    runtime: Bytes(0),
};

fn case(gpu: &str, name: &str) -> (Device, ModelShape, MemoryOptions) {
    let device = hardware::find(gpu).unwrap().0;
    let model = model::find(name).unwrap().0;
    let options = MemoryOptions {
        max_model_len: 8192,
        ..MemoryOptions::vllm_defaults(&device, &model)
    };
    (device, model, options)
}

#[test]
fn the_worked_numbers_of_the_engine_are_reproduced() {
    let check = |gpu: &str, gpu_memory_utilization: f64, blocks: u32| {
        let (device, model, options) = case(gpu, "meta-llama/Llama-3.1-8B");
        let options = MemoryOptions {
            gpu_memory_utilization,
            estimates: Some(WORKED),
            ..options
        };
        assert_eq!(
            plan(&device, &model, &options).unwrap().num_gpu_blocks,
            blocks,
            "{gpu}"
        );
    };
    check("H100-SXM-80GB", 0.90, 27_715);
    check("H100-SXM-80GB", 0.92, 28_525);
    check("H200-SXM-141GB", 0.92, 57_117);
    check("A100-SXM-40GB", 0.90, 9_422);
    check("L40S-48GB", 0.92, 12_180);
}

#[test]
fn a_pool_of_24_gib_holds_48_requests_of_4096_tokens() {
    let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
    let options = MemoryOptions {
        kv_cache_memory_bytes: Some(Bytes(24 << 30)),
        ..options
    };
    let plan = plan(&device, &model, &options).unwrap();
    assert_eq!(plan.concurrency(4096), 48);
    assert_eq!(plan.num_gpu_blocks, 12_288);
}

#[test]
fn estimates_agree_with_published_start_up_logs_within_a_hundredth() {
    // Llama-3.1-8B on one 80 GB GPU, 0.90 of the memory, 8,192 batched tokens, graphs not yet charged. The logs
    // give 79.15 GiB with 256 sequences, 79.11 GiB likewise, and a vLLM 0.8.5 with its 1,024 sequences.
    let check = |gib: f64, max_num_seqs: u32, logged_tokens: f64| {
        let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
        let device = Device {
            memory: Bytes::from_gib(gib),
            ..device
        };
        let options = MemoryOptions {
            gpu_memory_utilization: 0.90,
            max_num_seqs,
            charge_cuda_graphs: false,
            ..options
        };
        let tokens = plan(&device, &model, &options).unwrap().tokens() as f64;
        assert!(
            (tokens / logged_tokens - 1.0).abs() < 0.01,
            "{tokens} against {logged_tokens}"
        );
    };
    check(79.15, 256, 445_648.0);
    check(79.11, 256, 447_776.0);
    check(79.1, 1024, 442_160.0);
}

#[test]
fn a_larger_step_or_batch_shrinks_the_pool() {
    let (device, model, options) = case("H100", "meta-llama/Llama-3.1-8B");
    let blocks = |tokens: u32, seqs: u32| {
        let options = MemoryOptions {
            max_num_batched_tokens: tokens,
            max_num_seqs: seqs,
            ..options.clone()
        };
        plan(&device, &model, &options).unwrap().num_gpu_blocks
    };
    assert!(blocks(2048, 256) > blocks(8192, 256));
    assert!(blocks(8192, 256) > blocks(8192, 1024));
}

#[test]
fn windows_split_layers_into_groups_of_equal_size() {
    let layout = |name: &str| {
        let (_, model, options) = case("H100", name);
        kv_layout(&model, &options)
    };
    let groups = |full, window, groups| KvGroups {
        full,
        windows: vec![WindowGroups { window, groups }],
    };
    let oss = layout("openai/gpt-oss-20b");
    assert_eq!(oss.groups, groups(1, 128, 1));
    assert_eq!(oss.block_bytes * 2, oss.bytes_per_token * 16);
    // 10 full layers and 52 with a window: groups of 10, the sixth sliding one with two layers and eight of padding.
    let gemma = layout("google/gemma-3-27b-it");
    assert_eq!(gemma.groups, groups(1, 1024, 6));
    assert_eq!(gemma.block_bytes.0 * 62, gemma.bytes_per_token.0 * 16 * 10);
    // 5 full and 29 sliding of 34.
    assert_eq!(layout("google/gemma-3-4b-it").groups, groups(1, 1024, 6));
}

/// A pool of so many GiB on a GPU that is large enough for anything, with steps of 8,192 tokens.
fn pool_of(gib: u64, model: &ModelShape, rules: PoolRules, max_model_len: u32) -> MemoryOptions {
    let device = hardware::find("B300").unwrap().0;
    let steps = if rules == PoolRules::BY_REQUESTS { 2 } else { 1 };
    MemoryOptions {
        kv_cache_memory_bytes: Some(Bytes(gib << 30)),
        max_in_flight_tokens: steps * 8192,
        max_model_len,
        rules,
        ..MemoryOptions::vllm_defaults(&device, model)
    }
}

/// Blocks, groups, tokens and longest requests of what vLLM's own `get_kv_cache_configs`, `get_kv_cache_capacity` (0.33),
/// log line (0.11) and `get_max_concurrency_for_kv_cache_config` gave for the same layers.
#[test]
fn pools_are_those_of_vllms_own_functions() {
    const NEW: PoolRules = PoolRules::BY_REQUESTS;
    const OLD: PoolRules = PoolRules::BY_BLOCKS;
    let device = hardware::find("B300").unwrap().0;
    let check = |name: &str, (rules, stages, gib, length), expected: (u32, u32, u64, u64)| {
        let model = model::find(name).unwrap().0;
        let options = MemoryOptions {
            pipeline_parallel: stages,
            ..pool_of(gib, &model, rules, length)
        };
        let plan = plan(&device, &model, &options).unwrap();
        let found = (
            plan.num_gpu_blocks,
            plan.layout.groups.count(),
            plan.tokens(),
            plan.concurrency(length),
        );
        assert_eq!(found, expected, "{name} {rules:?} {stages}");
    };
    check(
        "google/gemma-3-27b-it",
        (NEW, 1, 40, 131_072),
        (32_768, 7, 291_658, 2),
    );
    check(
        "google/gemma-3-27b-it",
        (OLD, 1, 40, 131_072),
        (32_768, 7, 74_896, 2),
    );
    check(
        "openai/gpt-oss-20b",
        (NEW, 1, 40, 131_072),
        (109_226, 2, 1_551_920, 11),
    );
    check(
        "openai/gpt-oss-20b",
        (OLD, 1, 40, 131_072),
        (109_226, 2, 873_808, 12),
    );
    // A window that may begin inside a block: 122.96 requests, not 123.
    check(
        "google/gemma-2-2b-it",
        (NEW, 1, 100, 8192),
        (126_030, 2, 1_007_256, 122),
    );
    check(
        "google/gemma-2-2b-it",
        (OLD, 1, 100, 8192),
        (126_030, 2, 1_008_240, 122),
    );
    // No windows: a longest request fills its blocks, or does not.
    check(
        "meta-llama/Llama-3.1-8B",
        (NEW, 1, 10, 1000),
        (5120, 1, 81_269, 81),
    );
    check(
        "meta-llama/Llama-3.1-8B",
        (OLD, 1, 10, 1000),
        (5120, 1, 81_920, 81),
    );
    // The groups are the whole model's: five full layers and 29 others are 1 + 6 groups on each of four stages.
    check(
        "google/gemma-3-4b-it",
        (NEW, 4, 40, 131_072),
        (327_680, 7, 2_916_587, 22),
    );
    check(
        "google/gemma-3-27b-it",
        (NEW, 4, 40, 131_072),
        (109_226, 7, 972_190, 7),
    );
    check(
        "google/gemma-2-2b-it",
        (OLD, 3, 40, 8192),
        (131_072, 2, 1_048_576, 127),
    );
}

/// The same functions' answers for so many full layers and so many with a window of 1,024.
#[test]
fn kinds_about_equally_common_are_a_group_each_only_where_the_version_pads() {
    let device = hardware::find("B300").unwrap().0;
    let check = |(full, sliding), rules, expected: (u32, u32)| {
        let mut model = model::find("meta-llama/Llama-3.1-8B").unwrap().0;
        let layer = |count, window| {
            let mut group = model.layers[0].clone();
            group.count = count;
            if let Attention::Grouped { window: own, .. } = &mut group.attention {
                *own = window;
            }
            group
        };
        model.layers = vec![layer(full, None), layer(sliding, Some(1024))];
        let options = pool_of(10, &model, rules, 8192);
        let plan = plan(&device, &model, &options).unwrap();
        let found = (plan.num_gpu_blocks, plan.layout.groups.count());
        assert_eq!(found, expected, "{full} {sliding} {rules:?}");
    };
    let (new, old) = (PoolRules::BY_REQUESTS, PoolRules::BY_BLOCKS);
    check((12, 13), new, (12_603, 2));
    check((12, 13), old, (13_653, 3));
    check((10, 14), new, (11_702, 2));
    check((10, 14), old, (16_384, 3));
    check((10, 15), new, (16_384, 3));
    check((8, 11), new, (14_894, 2));
    check((8, 11), old, (20_480, 3));
}

#[test]
fn a_pool_of_one_longest_request_lacks_the_null_block() {
    // vLLM 0.33 `get_kv_cache_configs` refuses it ("40.0 GiB KV cache is needed"), 0.11's does not.
    let device = hardware::find("B300").unwrap().0;
    let model = model::find("meta-llama/Llama-3.1-70B").unwrap().0;
    let with = |rules, blocks| {
        let options = MemoryOptions {
            kv_cache_memory_bytes: None,
            num_gpu_blocks_override: Some(blocks),
            ..pool_of(40, &model, rules, 131_072)
        };
        plan(&device, &model, &options)
    };
    assert!(with(PoolRules::BY_BLOCKS, 8192).is_ok());
    assert!(with(PoolRules::BY_REQUESTS, 8193).is_ok());
    let refused = with(PoolRules::BY_REQUESTS, 8192).unwrap_err();
    assert!(matches!(refused.shortage, Shortage::OneRequestDoesNotFit { .. }));
}

#[test]
fn layers_that_attend_within_chunks_keep_every_token() {
    // `VllmConfig.__post_init__` turns the hybrid allocator off for them.
    let config = r#"{"architectures": ["Llama4ForCausalLM"], "hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
        "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1, "interleave_moe_layer_step": 1,
        "attention_chunk_size": 8192, "vocab_size": 202048, "max_position_embeddings": 10485760,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16"}"#;
    let (model, _) = ModelShape::from_hf_config(config, "scout").unwrap();
    assert!(model.has_windows());
    let options = pool_of(40, &model, PoolRules::BY_REQUESTS, 131_072);
    assert_eq!(kv_groups(&model, &options), KvGroups::ONE);
}

#[test]
fn who_tells_no_layers_apart_keeps_every_token_in_each() {
    let layout = |name: &str, windowed| {
        let (_, model, options) = case("H100", name);
        kv_layout(&model, &MemoryOptions { windowed, ..options })
    };
    let kept = layout("google/gemma-3-27b-it", Windowed::KeepAll);
    assert_eq!(
        (kept.block_bytes, kept.groups),
        (kept.bytes_per_token * 16, KvGroups::ONE)
    );
    // All layers have a window: nothing tells prefixes.
    let mistral = "mistralai/Mistral-7B-v0.1";
    assert_eq!(layout(mistral, Windowed::PassBesideOne).groups, KvGroups::ONE);
    assert_eq!(layout(mistral, Windowed::Pass).groups.full, 0);
}

#[test]
fn long_requests_are_cheaper_under_windows_and_short_ones_are_not() {
    let (device, model, options) = case("H100", "openai/gpt-oss-20b");
    let options = MemoryOptions {
        max_model_len: 131_072,
        ..options
    };
    let plan = plan(&device, &model, &options).unwrap();
    // Of each group 100.
    assert_eq!(plan.blocks_of_request(1600), 200);
    // 8,192 blocks of the full group; of the other the window and two steps of 8,192 tokens in flight.
    let capped = u64::from((127_u32 + 2 * 8192).div_ceil(16) + 1);
    assert_eq!(plan.blocks_of_request(131_072), 8192 + capped);
}

#[test]
fn what_does_not_fit_names_changes_that_do() {
    let (device, model, options) = case("H100", "meta-llama/Llama-3.1-70B");
    let error = plan(&device, &model, &options).unwrap_err();
    insta::assert_snapshot!(error, @r#"
    does not fit: needs 131.4 GiB weights + 4.6 GiB activations and runtime a GPU, H100-SXM-80GB offers 72.8 GiB
      smallest change that fits: --quantization fp8 --max-model-len 1024   |   -tp 2
    "#);
    let (device, model, options) = case("L4", "meta-llama/Llama-3.1-8B");
    let options = MemoryOptions {
        max_model_len: 131_072,
        ..options
    };
    insta::assert_snapshot!(plan(&device, &model, &options).unwrap_err(), @r#"
    does not fit: one request of 131072 tokens needs 16.0 GiB of KV cache, L4-24GB has 3.8 GiB left
      smallest change that fits: --max-model-len 30720   |   -tp 2
    "#);
    let (device, model, options) = case("T4", "meta-llama/Llama-3.1-405B");
    insta::assert_snapshot!(plan(&device, &model, &options).unwrap_err(), @r#"
    does not fit: needs 756.0 GiB weights + 3.9 GiB activations and runtime a GPU, T4-16GB offers 13.4 GiB
      no change of quantization, context or up to 8 GPUs makes it fit
    "#);
}

#[test]
fn quantization_is_tried_together_with_more_gpus() {
    for (name, asked, flags) in [
        ("deepseek-ai/DeepSeek-V3", 1, "--quantization awq -tp 8"),
        ("deepseek-ai/DeepSeek-V3", 8, "--quantization awq"),
        ("meta-llama/Llama-3.1-405B", 1, "--quantization fp8 -tp 8"),
    ] {
        let (device, model, options) = case("H100", name);
        let options = MemoryOptions {
            tensor_parallel: asked,
            max_model_len: 16_384,
            ..options
        };
        let remedies = plan(&device, &model, &options).unwrap_err().remedies;
        let found: Vec<&str> = remedies.iter().map(|remedy| remedy.flags.as_str()).collect();
        assert_eq!(found, [flags], "{name} on {asked}");
    }
}

#[test]
fn the_largest_flags_that_can_be_written_overflow_nothing() {
    for name in [
        "google/gemma-3-27b-it",
        "deepseek-ai/DeepSeek-V3",
        "openai/gpt-oss-120b",
    ] {
        let (device, model, options) = case("MI355X", name);
        let options = MemoryOptions {
            max_num_batched_tokens: 1 << 24,
            max_num_seqs: 1 << 24,
            max_model_len: 1 << 30,
            block_size: 1,
            ..options
        };
        assert!(plan(&device, &model, &options).is_err());
        let given = MemoryOptions {
            kv_cache_memory_bytes: Some(Bytes(1 << 62)),
            ..options
        };
        let error = plan(&device, &model, &given).unwrap_err();
        assert!(matches!(error.shortage, Shortage::PoolBeyondMemory { .. }));
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
    does not fit: one request of 131072 tokens needs 16.0 GiB of KV cache, H100-SXM-80GB has 5.9 GiB left
      smallest change that fits: --gpu-memory-utilization 0.43   |   --max-model-len 48128
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

#[test]
fn every_shipped_model_fits_somewhere_within_eight_of_the_largest_gpu() {
    let device = hardware::find("B300").unwrap().0;
    for name in model::names() {
        let model = model::find(name).unwrap().0;
        let options = MemoryOptions {
            max_model_len: 4096.min(model.max_position),
            ..MemoryOptions::vllm_defaults(&device, &model)
        };
        match plan(&device, &model, &options) {
            Ok(plan) => assert!(plan.num_gpu_blocks > 0),
            Err(error) => assert!(!error.remedies.is_empty(), "{name}: {error}"),
        }
    }
}

proptest! {
    #[test]
    fn parts_add_up_and_more_memory_never_hurts(
        device in 0usize..20, name in 0usize..134, tp in 0u32..4, utilization in 0.3f64..1.0,
        block_size in prop::sample::select(vec![1u32, 8, 16, 64, 128]), length in 1u32..40_000,
    ) {
        let device = hardware::all()[device].clone();
        let model = model::find(model::names().nth(name).unwrap()).unwrap().0;
        let options = MemoryOptions {
            tensor_parallel: 1 << tp,
            gpu_memory_utilization: utilization,
            block_size,
            max_model_len: length,
            ..MemoryOptions::vllm_defaults(&device, &model)
        };
        match plan(&device, &model, &options) {
            Ok(plan) => {
                prop_assert_eq!(plan.charged(true) + plan.kv_pool, plan.requested);
                let used = plan.layout.block_bytes * u64::from(plan.num_gpu_blocks);
                prop_assert!(used <= plan.kv_pool);
                prop_assert!((plan.kv_pool - used) < plan.layout.block_bytes);
                prop_assert!(plan.concurrency(length) >= 1);
                let more = MemoryOptions { gpu_memory_utilization: 1.0, ..options };
                let more = attempt(&device, &model, &more).unwrap();
                prop_assert!(more.num_gpu_blocks >= plan.num_gpu_blocks);
            }
            Err(error) => for remedy in error.remedies {
                prop_assert!(remedy.tokens > 0);
            },
        }
    }
}
