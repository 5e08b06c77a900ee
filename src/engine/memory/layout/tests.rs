//! Groups of layers, their pool and what it holds, against vLLM's own functions.

use super::super::tests::case;
use super::super::*;
use super::kv_layout;
use crate::hardware::{self, Device};
use crate::kv::{KvGroups, WindowGroups};
use crate::model::{self, Attention, Dtype, KvFormat, ModelShape};
use crate::units::Bytes;

#[test]
fn windows_split_layers_into_groups_of_equal_size() {
    let layout = |name: &str| {
        let (_, model, options) = case("H100", name);
        kv_layout(&model, &options)
    };
    let groups = |full, window, groups| KvGroups {
        full,
        windows: vec![WindowGroups { window, groups }],
        states: 0,
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

/// What vLLM's own functions gave, one case after the other.
fn cases_of(name: &str) -> Vec<serde_json::Value> {
    let path = format!("{}/tests/data/pools/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(path).expect("the pools are beside the tests");
    serde_json::from_reader(flate2::read::GzDecoder::new(file)).expect("the file is JSON")
}

/// How recorded pools and ours compare.
#[derive(Default)]
struct Recorded {
    refused: usize,
    wrong: Vec<String>,
}

impl Recorded {
    /// Blocks, tokens and longest requests of a case, or that it is refused.
    fn hold(&mut self, case: &serde_json::Value, model: &ModelShape, options: &MemoryOptions) {
        // Room for any weights: they are none of the question.
        let device = Device {
            memory: Bytes::from_gib(1e4),
            ..hardware::find("B300").unwrap().0
        };
        let number = |key: &str| case[key].as_u64().unwrap_or_default();
        match plan(&device, model, options) {
            Ok(plan) => {
                let requests =
                    f64::from(plan.num_gpu_blocks) / plan.blocks_of_request(plan.max_model_len) as f64;
                let expected = case["requests"].as_f64().unwrap_or_default();
                let is_right = u64::from(plan.num_gpu_blocks) == number("num_blocks")
                    && plan.tokens() == number("tokens")
                    && (requests - expected).abs() < 1e-8;
                if !is_right {
                    self.wrong
                        .push(format!("{case}: {} {}", plan.num_gpu_blocks, plan.tokens()));
                }
            }
            Err(error) => match error {
                Shortage::OneRequestDoesNotFit { .. } if case["refused"] == true => self.refused += 1,
                _ => self.wrong.push(format!("{case}: {error:?}")),
            },
        }
    }

    fn end(self, cases: usize) {
        let wrong = self.wrong;
        assert!(
            wrong.is_empty(),
            "{} of {cases}: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(5)]
        );
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
    assert!(matches!(refused, Shortage::OneRequestDoesNotFit { .. }));
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

/// State bytes, block sizes, groups, blocks, tokens and requests of what vLLM's own functions gave for each bundled hybrid
/// (`tests/data/pools/hybrid_pools.py`).
#[test]
fn pools_of_hybrids_are_those_of_vllms_own_functions() {
    let cases = cases_of("hybrid.json.gz");
    assert!(cases.len() > 3000, "{}", cases.len());
    let mut recorded = Recorded::default();
    for case in &cases {
        let number = |key: &str| case[key].as_u64().unwrap_or_default();
        let model = model::find(case["model"].as_str().unwrap()).unwrap().0;
        let fp8 = case["kv_dtype"] == "fp8";
        let options = MemoryOptions {
            tensor_parallel: number("tensor_parallel") as u32,
            kv_format: if fp8 {
                Dtype::Fp8.into()
            } else {
                model.dtype.into()
            },
            block_size: number("block_size") as u32,
            state_blocks: match case["caching"].as_bool() {
                Some(true) => StateBlocks::Aligned {
                    checkpoints: case["checkpoint_alignment"].as_u64().map(|tokens| tokens as u32),
                },
                _ => StateBlocks::One,
            },
            ..pool_of(
                number("pool_gib"),
                &model,
                PoolRules::BY_REQUESTS,
                number("max_model_len") as u32,
            )
        };
        let layout = kv_layout(&model, &options);
        let states = layout.states.expect("it is a hybrid");
        let found = [
            states.bytes.0,
            u64::from(layout.block_size),
            u64::from(layout.groups.full),
            u64::from(states.groups),
        ];
        let expected = ["state_bytes", "unified_block_size", "groups", "state_groups"].map(number);
        if found != expected {
            recorded.wrong.push(format!("{case}: {found:?}"));
        }
        recorded.hold(case, &model, &options);
    }
    assert!(recorded.refused > 100, "{}", recorded.refused);
    recorded.end(cases.len());
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

/// Groups, block sizes, blocks, tokens and requests of what vLLM's own functions gave for models whose layers have pages of unlike sizes
/// (`tests/data/pools/unlike_pools.py`, `skipped_pools.py`): latents beside an indexer's keys, heads that differ with the window, and
/// windows that are left out of an fp8 cache.
#[test]
fn pools_of_unlike_pages_are_those_of_vllms_own_functions() {
    let cases = [cases_of("unlike.json.gz"), cases_of("skipped.json.gz")].concat();
    assert!(cases.len() > 2000, "{}", cases.len());
    let mut recorded = Recorded::default();
    let mut unlike = 0;
    for case in &cases {
        let number = |key: &str| case[key].as_u64().unwrap_or_default();
        let model = model::find(case["model"].as_str().unwrap()).unwrap().0;
        let options = MemoryOptions {
            tensor_parallel: number("tensor_parallel") as u32,
            kv_format: match case["kv_dtype"].as_str() {
                Some("fp8") => Dtype::Fp8.into(),
                Some("fp8_ds_mla") => Dtype::Fp8Scaled.into(),
                Some("fp8 but for windows") => KvFormat {
                    dtype: Dtype::Fp8,
                    windowed: model.dtype,
                },
                _ => model.dtype.into(),
            },
            block_size: number("block_size") as u32,
            ..pool_of(
                number("pool_gib"),
                &model,
                PoolRules::BY_REQUESTS,
                number("max_model_len") as u32,
            )
        };
        let layout = kv_layout(&model, &options);
        for kind in &layout.kinds {
            let (groups, block) = match kind.window {
                None => ("groups", "full_block_size"),
                Some(_) => ("window_groups", "window_block_size"),
            };
            let found = (u64::from(kind.groups), u64::from(kind.block_size));
            if found != (number(groups), number(block)) {
                recorded.wrong.push(format!("{case}: {kind:?}"));
            }
        }
        unlike += u32::from(!layout.kinds.is_empty());
        recorded.hold(case, &model, &options);
    }
    assert!(
        recorded.refused > 100 && unlike > 1700,
        "{} {unlike}",
        recorded.refused
    );
    recorded.end(cases.len());
}
