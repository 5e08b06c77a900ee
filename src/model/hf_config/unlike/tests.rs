//! Layers of Gemma 4 against what `transformers` makes of the same configs.

use serde_json::{Value, json};

use super::super::tests::changed;
use crate::model::{Attention, LayerGroup, Mlp, find};

/// (layers, query heads, KV heads, width, window, shared) of a group, and its feed-forward width.
type Kind = (u32, [u32; 3], Option<u32>, bool, u32);

fn told(model: &str) -> Vec<Kind> {
    let told = |group: &LayerGroup| {
        let Attention::Grouped {
            query_heads,
            kv_heads,
            head_dim,
            window,
            shares_kv,
            ..
        } = group.attention
        else {
            panic!("all layers attend");
        };
        let width = match group.mlp {
            Mlp::Dense { intermediate, .. }
            | Mlp::Experts {
                shared_intermediate: intermediate,
                ..
            } => intermediate,
            Mlp::Absent => 0,
        };
        (
            group.count,
            [query_heads, kv_heads, head_dim],
            window,
            shares_kv,
            width,
        )
    };
    find(model).unwrap().0.layers.iter().map(told).collect()
}

#[test]
fn layers_have_the_heads_that_their_kind_has() {
    assert_eq!(
        told("google/gemma-4-31B-it"),
        [
            (50, [32, 16, 256], Some(1024), false, 21_504),
            (10, [32, 4, 512], None, false, 21_504)
        ]
    );
    assert_eq!(
        told("google/gemma-4-E2B-it"),
        [
            (12, [8, 1, 256], Some(512), false, 6144),
            (3, [8, 1, 512], None, false, 6144),
            (16, [8, 1, 256], Some(512), true, 12_288),
            (4, [8, 1, 512], None, true, 12_288)
        ]
    );
}

#[test]
fn what_a_config_says_beyond_that_is_an_error() {
    let told = |more: Value| changed(include_str!("../../shapes/gemma-4-e2b.json"), &more);
    assert!(told(json!({})).is_ok());
    assert!(
        told(json!({"per_layer_config": {"4": {"head_dim": 512}}}))
            .unwrap_err()
            .contains("as it was published")
    );
    assert!(
        told(json!({"use_bidirectional_attention": "all"}))
            .unwrap_err()
            .contains("encoder")
    );
    assert!(
        told(json!({"num_kv_shared_layers": 35}))
            .unwrap_err()
            .contains("must be below")
    );
    let uneven = json!({"attention_k_eq_v": true, "num_global_key_value_heads": 3});
    assert!(told(uneven).unwrap_err().contains("not a multiple"));
}
