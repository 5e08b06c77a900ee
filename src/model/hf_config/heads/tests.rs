//! Heads of layers with and without a window, and gates, against hand arithmetic from the configs.

use serde_json::{Value, json};

use super::super::tests::changed;
use crate::model::{Attention, Dtype, LayerGroup, Matrix, Mlp, ModelShape, OutputGate, find};

/// Layers of a kind, their heads (query, KV, key width, value width), window and whether they have experts.
type Kind = (u32, [u32; 4], Option<u32>, bool);

fn told(shape: &ModelShape) -> Vec<Kind> {
    let told = |group: &LayerGroup| {
        let Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            value_dim,
            window,
            ..
        } = group.attention
        else {
            panic!("all layers attend");
        };
        let has_experts = matches!(group.mlp, Mlp::Experts { .. });
        (
            group.count,
            [query_heads, kv_heads, head_dim, value_dim],
            window,
            has_experts,
        )
    };
    shape.layers.iter().map(told).collect()
}

fn shape(name: &str) -> ModelShape {
    find(name).unwrap().0
}

fn matrix(shape: &ModelShape, name: &str) -> Vec<(u64, u64, u64)> {
    let matrices = shape.matrices();
    let of_name = matrices.iter().filter(|matrix| matrix.name == name);
    let told = |matrix: &Matrix| (matrix.copies, matrix.inputs, matrix.outputs);
    of_name.map(told).collect()
}

#[test]
fn layers_with_a_window_have_the_heads_of_their_kind() {
    let mimo = shape("XiaomiMiMo/MiMo-V2-Flash");
    assert_eq!(
        told(&mimo),
        [
            (1, [64, 4, 192, 128], None, false),
            (39, [64, 8, 192, 128], Some(128), true),
            (8, [64, 4, 192, 128], None, true)
        ]
    );
    let step = shape("stepfun-ai/Step-3.5-Flash");
    assert_eq!(
        told(&step),
        [
            (1, [64, 8, 128, 128], None, false),
            (2, [96, 8, 128, 128], Some(512), false),
            (31, [96, 8, 128, 128], Some(512), true),
            (11, [64, 8, 128, 128], None, true)
        ]
    );
    assert_eq!((mimo.has_unlike_heads(), step.has_unlike_heads()), (true, false));
}

#[test]
fn keys_and_values_of_unlike_width_are_cached_and_multiplied_so() {
    let mimo = shape("XiaomiMiMo/MiMo-V2-Flash");
    // 39 layers of 8 heads and 9 of 4, each 192 + 128 wide.
    let bytes = |tp: u32| mimo.kv_bytes_per_token(Dtype::Bf16, tp).0;
    assert_eq!(bytes(1), (39 * 8 + 9 * 4) * 320 * 2);
    // Eight ranks have a head of each kind.
    assert_eq!(bytes(8), 48 * 320 * 2);
    assert_eq!(
        matrix(&mimo, "qkv"),
        [
            (1, 4096, 64 * 192 + 4 * 320),
            (39, 4096, 64 * 192 + 8 * 320),
            (8, 4096, 64 * 192 + 4 * 320)
        ]
    );
    assert_eq!(matrix(&mimo, "attention_out")[0], (1, 64 * 128, 4096));
}

#[test]
fn gates_are_as_wide_as_the_family_has_them() {
    let step = shape("stepfun-ai/Step-3.5-Flash");
    let gates: Vec<u64> = matrix(&step, "attention_gate")
        .iter()
        .map(|gate| gate.2)
        .collect();
    assert_eq!(gates, [64, 96, 96, 64], "a number a head");
    let trinity = shape("arcee-ai/Trinity-Mini");
    assert!(
        matrix(&trinity, "attention_gate")
            .iter()
            .all(|&gate| (gate.1, gate.2) == (2048, 4096)),
        "as wide as the output"
    );
    assert!(
        matrix(&shape("Qwen/Qwen3.5-27B"), "attention_gate").is_empty(),
        "the query projection makes it"
    );
}

fn laguna(more: &Value) -> Result<ModelShape, String> {
    let config = json!({
        "architectures": ["LagunaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 4,
        "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 100_352, "sliding_window": 512,
        "max_position_embeddings": 131_072, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512, "dtype": "bfloat16", "gating": "per-head",
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"],
        "num_attention_heads_per_layer": [48, 64, 64, 64],
    });
    changed(&config.to_string(), more)
}

#[test]
fn listed_heads_and_sizes_of_gates_are_read_or_refused() {
    let read = laguna(&json!({})).unwrap();
    assert_eq!(
        told(&read),
        [
            (1, [48, 8, 128, 128], None, false),
            (3, [64, 8, 128, 128], Some(512), true)
        ]
    );
    let gate = |gating: Value| {
        let read = laguna(&json!({"gating": gating}))?;
        match read.layers[0].attention {
            Attention::Grouped { gate, .. } => Ok::<OutputGate, String>(gate),
            _ => panic!("it attends"),
        }
    };
    assert_eq!(gate(json!(true)), Ok(OutputGate::OfHeads));
    assert_eq!(gate(json!("per-element")), Ok(OutputGate::Own));
    assert_eq!(gate(json!(false)), Ok(OutputGate::None));
    assert!(gate(json!("some")).unwrap_err().contains("per-element"));
    for (wrong, why) in [
        (
            json!({"num_attention_heads_per_layer": [48, 64]}),
            "for each of 4 layers",
        ),
        (
            json!({"num_attention_heads_per_layer": [48, 60, 64, 64]}),
            "no multiple of its 8 KV heads",
        ),
    ] {
        let error = laguna(&wrong).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn ranks_divide_the_query_heads_of_every_kind() {
    let step = shape("stepfun-ai/Step-3.5-Flash");
    assert_eq!(step.indivisible_heads(8), None);
    assert_eq!(step.indivisible_heads(64), Some(("query", 96)));
}

#[test]
fn lists_that_go_on_to_prediction_layers_are_cut() {
    let mut config: Value = serde_json::from_str(include_str!("../../shapes/step-3.5-flash.json")).unwrap();
    let kinds = config["layer_types"].as_array_mut().unwrap();
    kinds.extend(["sliding_attention"; 3].map(Value::from));
    let read = |config: &Value| ModelShape::from_hf_config(&config.to_string(), "mine");
    assert_eq!(
        told(&read(&config).unwrap().0),
        told(&shape("stepfun-ai/Step-3.5-Flash"))
    );
    config["num_nextn_predict_layers"] = json!(2);
    assert!(read(&config).unwrap_err().to_string().contains("48 entries"));
}
