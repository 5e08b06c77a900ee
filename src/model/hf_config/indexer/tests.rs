//! Which layers of sparse stacks have an indexer of their own.

use serde_json::{Value, json};

use super::super::tests::changed;
use crate::model::Attention;

/// Layers that score by themselves.
fn scoring(more: &Value) -> Result<u32, String> {
    let shape = changed(include_str!("../../shapes/glm-5.json"), more)?;
    let scores = |attention: &Attention| matches!(attention, Attention::Latent { indexer: Some(indexer), .. } if indexer.scores);
    let scoring = shape.layers.iter().filter(|group| scores(&group.attention));
    Ok(scoring.map(|group| group.count).sum())
}

#[test]
fn layers_share_an_indexer_as_vllm_reads_it() {
    assert_eq!(scoring(&json!({})), Ok(78));
    // GLM-5.2: layers 0, 1, 2, 6, 10 …
    let shared = json!({"index_topk_freq": 4, "index_skip_topk_offset": 3});
    assert_eq!(scoring(&shared), Ok(21));
    let kinds: Vec<&str> = (0..78_u32)
        .map(|layer| match layer < 3 || layer % 4 == 2 {
            true => "full",
            false => "shared",
        })
        .collect();
    let listed = json!({"index_topk_freq": 4, "index_skip_topk_offset": 3, "indexer_types": kinds});
    assert_eq!(scoring(&listed), Ok(21));
    let against = scoring(&json!({"indexer_types": kinds})).unwrap_err();
    assert!(against.contains("vLLM reads the latter"), "{against}");
    // The pattern counts over the rule, and beyond its end layers score.
    let pattern = json!({"index_topk_pattern": "FSSSFSSS", "index_topk_freq": 2});
    assert_eq!(scoring(&pattern), Ok(2 + 70));
}

#[test]
fn an_indexer_needs_compressed_queries_and_a_known_width() {
    let error = scoring(&json!({"q_lora_rank": null})).unwrap_err();
    assert!(error.contains("the indexer has no queries"), "{error}");
    let error = scoring(&json!({"index_head_dim": 96})).unwrap_err();
    assert!(error.contains("multiple of 128"), "{error}");
}
