//! Layers of Nemotron's searched architectures against hand arithmetic from `block_configs`.

use serde_json::{Value, json};

use crate::model::{Attention, Dtype, Mlp, ModelShape, find};

#[test]
fn layers_without_attention_cache_nothing_and_have_their_own_width() {
    let (nemotron, _) = find("nvidia/Llama-3_3-Nemotron-Super-49B-v1").unwrap();
    assert_eq!(nemotron.layer_count(), 80);
    let attends = |absent: bool| {
        let layers = nemotron.layers.iter();
        let layers = layers.filter(|group| (group.attention == Attention::Absent) == absent);
        layers.map(|group| group.count).sum::<u32>()
    };
    assert_eq!((attends(false), attends(true)), (49, 31));
    // 49 layers of 8 KV heads of 128.
    assert_eq!(
        nemotron.kv_bytes_per_token(Dtype::Bf16, 1).0,
        49 * 2 * 8 * 128 * 2
    );
    // 2/3 of 5.25, 2.625 and 1.3125 · 8192, rounded up to a multiple of 256.
    let widths: Vec<u32> = nemotron
        .layers
        .iter()
        .map(|group| match group.mlp {
            Mlp::Dense { intermediate, .. } => intermediate,
            _ => panic!("all layers have a feed-forward part"),
        })
        .collect();
    for width in [28_672, 14_336, 7168, 5632, 2816, 17_920] {
        assert!(widths.contains(&width), "{widths:?} lack {width}");
    }
    assert_eq!(nemotron.sublayer_count(), 49 + 80);
}

#[test]
fn merged_parts_are_wider_than_those_of_any_other_model() {
    let (ultra, _) = find("nvidia/Llama-3_1-Nemotron-Ultra-253B-v1").unwrap();
    let widths = ultra.layers.iter().map(|group| match group.mlp {
        Mlp::Dense { intermediate, .. } => intermediate,
        _ => 0,
    });
    assert_eq!(widths.max(), Some(425_984));
}

fn read(blocks: Value) -> Result<ModelShape, String> {
    let config = json!({
        "architectures": ["DeciLMForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
        "num_key_value_heads": null, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
        "block_configs": blocks,
    });
    let read = ModelShape::from_hf_config(&config.to_string(), "mine");
    read.map(|(shape, notes)| {
        assert!(notes.is_empty(), "{notes:?}");
        shape
    })
    .map_err(|error| error.to_string())
}

#[test]
fn blocks_have_their_own_kv_heads_or_are_left_out() {
    let shape = read(json!([
        {"attention": {"n_heads_in_group": 8}, "ffn": {"no_op": true}},
        {"attention": {"n_heads_in_group": 16}, "ffn": {"intermediate_size": 11_008}},
    ]))
    .unwrap();
    // 4 and 2 KV heads.
    assert_eq!(shape.kv_bytes_per_token(Dtype::Bf16, 1).0, (4 + 2) * 2 * 128 * 2);
    assert!(shape.has_unlike_heads());
    assert_eq!(shape.layers[0].mlp, Mlp::Absent);
    // A norm before each half that there is, and the last one.
    assert_eq!(shape.other_parameters, 4 * 4096);
}

#[test]
fn what_the_class_does_not_build_is_an_error() {
    let of = |attention: Value, ffn: Value| {
        let block = json!({"attention": attention, "ffn": ffn});
        read(json!([block, block])).unwrap_err()
    };
    let (plain, ffn) = (json!({"n_heads_in_group": 8}), json!({"ffn_mult": 2.0}));
    assert!(of(json!({"replace_with_linear": true}), ffn.clone()).contains("does not build"));
    assert!(
        of(json!({"n_heads_in_group": 8, "window_length": 1024}), ffn.clone()).contains("does not build")
    );
    assert!(of(json!({"n_heads_in_group": 7}), ffn).contains("must divide"));
    assert!(
        of(
            plain.clone(),
            json!({"ffn_mult": 2.0, "replace_with_linear": true})
        )
        .contains("no linear layer")
    );
    assert!(of(plain, json!({})).contains("`ffn_mult`"));
    assert!(read(json!([])).unwrap_err().contains("each of 2 layers"));
}
