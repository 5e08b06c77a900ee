//! Stacks and states of hybrids against hand arithmetic from the configs and vLLM 0.33's shapes of states.

use serde_json::{Value, json};

use crate::model::{Attention, Dtype, ModelShape, Rule, find};

/// Layers that attend, layers with a state, bytes of a token, and of a state in one layer of one and of two ranks.
fn told(name: &str) -> (u32, u32, u64, [u64; 2]) {
    let (shape, _) = find(name).unwrap();
    let of = |is: fn(&Attention) -> bool| {
        let groups = shape.layers.iter().filter(|group| is(&group.attention));
        groups.map(|group| group.count).sum::<u32>()
    };
    let recurrence = shape.recurrence().unwrap();
    (
        of(|attention| matches!(attention, Attention::Grouped { .. } | Attention::Latent { .. })),
        of(|attention| matches!(attention, Attention::Recurrent(_))),
        shape.kv_bytes_per_token(Dtype::Bf16, 1).0,
        [1, 2].map(|tp| recurrence.state_bytes(shape.dtype, tp).0),
    )
}

#[test]
fn states_are_those_of_the_classes() {
    // `kda_state_shape`: 3 inputs of 3 · 4096 channels in bf16, 32 heads of 128 × 128 in fp32; a latent of 512 + 64.
    assert_eq!(
        told("moonshotai/Kimi-Linear-48B-A3B-Instruct"),
        (
            7,
            20,
            7 * 576 * 2,
            [
                3 * 12_288 * 2 + 32 * 128 * 128 * 4,
                3 * 6144 * 2 + 16 * 128 * 128 * 4
            ]
        )
    );
    // `mamba2_state_shape`: 8192 + 2 · 128 channels, 128 heads of 64 × 128, all in bf16; the one group on both ranks.
    assert_eq!(
        told("ibm-granite/granite-4.0-h-small"),
        (
            4,
            36,
            4 * 2 * 8 * 128 * 2,
            [
                3 * 8448 * 2 + 128 * 64 * 128 * 2,
                3 * (4096 + 256) * 2 + 64 * 64 * 128 * 2
            ]
        )
    );
    // `short_conv_state_shape`: 2 inputs of 2048 channels.
    let lfm2 = [2 * 2048 * 2, 2 * 1024 * 2];
    assert_eq!(told("LiquidAI/LFM2-1.2B"), (6, 10, 6 * 2 * 8 * 64 * 2, lfm2));
    assert_eq!(told("LiquidAI/LFM2-8B-A1B"), (6, 18, 6 * 2 * 8 * 64 * 2, lfm2));
    // `gated_delta_net_state_shape`: 2 · 30 · 96 + 30 · 192 channels, 30 heads of 192 × 96, in the model's format.
    let (attend, keep, _, [state, _]) = told("allenai/Olmo-Hybrid-7B");
    assert_eq!((attend, keep, state), (8, 24, 3 * 11_520 * 2 + 30 * 192 * 96 * 2));
}

fn read(config: &Value) -> Result<ModelShape, String> {
    let read = ModelShape::from_hf_config(&config.to_string(), "mine");
    read.map(|(shape, _)| shape).map_err(|error| error.to_string())
}

/// Falcon-H1's class defaults, but four layers.
fn falcon() -> Value {
    json!({
        "architectures": ["FalconH1ForCausalLM"], "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 4,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128_000, "max_position_embeddings": 8192,
        "mamba_d_ssm": 1024, "mamba_n_heads": 128, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_d_conv": 4,
        "mamba_chunk_size": 256, "torch_dtype": "bfloat16",
    })
}

#[test]
fn attention_and_a_state_side_by_side_are_two_layers() {
    let shape = read(&falcon()).unwrap();
    let counts: Vec<(u32, u32)> = shape
        .layers
        .iter()
        .map(|group| (group.count, group.sublayers()))
        .collect();
    assert_eq!(counts, [(4, 1), (4, 2)]);
    assert_eq!(shape.kv_bytes_per_token(Dtype::Bf16, 1).0, 4 * 2 * 8 * 128 * 2);
    // Two norms of a layer, its state's vectors (no norm among them) and the last norm.
    let vectors = (1024 + 2 * 256) * 5 + 3 * 128;
    assert_eq!(shape.other_parameters, 4 * (2 * 4096 + vectors) + 4096);
}

#[test]
fn stacks_are_told_apart_or_refused() {
    let kimi: Value = serde_json::from_str(include_str!("../../shapes/kimi-linear-48b-a3b.json")).unwrap();
    let with = |key: &str, value: Value| {
        let mut config = kimi.clone();
        config["linear_attn_config"][key] = value;
        read(&config)
    };
    assert!(
        with("full_attn_layers", json!([4, 8]))
            .unwrap_err()
            .contains("name each layer from 1 to 27")
    );
    assert!(
        with("use_full_rank_gate", json!(true))
            .unwrap_err()
            .contains("low rank")
    );
    assert!(
        with("num_heads", json!(null))
            .unwrap_err()
            .contains("`num_heads`")
    );
    let rule = with("num_heads", json!(16)).unwrap().recurrence().unwrap().rule;
    assert_eq!(
        rule,
        Rule::KimiDelta {
            heads: 16,
            dim: 128,
            is_thin: true
        }
    );
    let granite: Value = serde_json::from_str(include_str!("../../shapes/granite-4.0-h-small.json")).unwrap();
    let of_layers = |kinds: Value| {
        let mut config = granite.clone();
        config["num_hidden_layers"] = json!(2);
        config["layer_types"] = kinds;
        config["mamba_d_head"] = json!("auto");
        read(&config)
    };
    assert!(
        of_layers(json!(["mamba", "moe"]))
            .unwrap_err()
            .contains("`layer_types` must be")
    );
    assert!(
        of_layers(json!(["mamba", "mamba"]))
            .unwrap_err()
            .contains("none of its layers attends")
    );
    // 2 · 4096 over 128 heads.
    let rule = of_layers(json!(["mamba", "attention"]))
        .unwrap()
        .recurrence()
        .unwrap()
        .rule;
    assert!(matches!(rule, Rule::StateSpace { head_dim: 64, .. }), "{rule:?}");
    let plain = of_layers(json!(["attention", "attention"])).unwrap();
    assert_eq!(
        plain.recurrence(),
        None,
        "Granite 4 Micro keeps keys and values alone"
    );
}
