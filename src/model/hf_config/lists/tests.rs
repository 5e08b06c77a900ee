//! Lists of modules that stay in 16 bits, read as vLLM reads them for each method, and weighed.

use serde_json::{Value, json};

use super::super::quantization::tests::{compressed, llama, weights_gib};
use super::super::tests::{LLAMA, MIXTRAL, read, with};
use crate::model::{ModelShape, Quantization};

const QWEN: &str = include_str!("../../shapes/qwen3-30b-a3b.json");

/// Attention of Llama-3.1-8B has 1,342,177,280 elements, so that it takes 1.25 GiB more in 16 bits.
#[test]
fn what_a_checkpoint_keeps_in_16_bits_is_counted() {
    let whole = weights_gib(json!({"quant_method": "fp8"}));
    assert_eq!(whole, 8.458);
    let more = |config: Value| ((weights_gib(config) - whole) * 1e3).round() / 1e3;
    let projections = |layers: std::ops::Range<usize>, parts: &[&str]| -> Vec<String> {
        layers
            .flat_map(|layer| {
                parts
                    .iter()
                    .map(move |part| format!("model.layers.{layer}.{part}"))
            })
            .collect()
    };
    let attention = ["q_proj", "k_proj", "v_proj", "o_proj"].map(|part| format!("self_attn.{part}"));
    let attention: Vec<&str> = attention.iter().map(String::as_str).collect();
    let mlp = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"];
    assert_eq!(more(compressed(json!({"ignore": ["lm_head"]}))), 0.0);
    assert_eq!(
        more(compressed(json!({"ignore": ["lm_head", "re:.*self_attn.*"]}))),
        1.25
    );
    assert_eq!(
        more(compressed(json!({"ignore": projections(0..32, &attention)}))),
        1.25
    );
    for method in ["fp8", "fbgemm_fp8"] {
        let listed = projections(0..32, &attention);
        assert_eq!(
            more(json!({"quant_method": method, "modules_to_not_convert": listed})),
            1.25
        );
    }
    // The feed-forward parts of the first and the last layer: 2 × 176,160,768 elements.
    let ends = [projections(0..1, &mlp), projections(31..32, &mlp)].concat();
    assert_eq!(
        more(json!({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ends})),
        0.328
    );
    let mlp_only = json!({"config_groups": {"group_0": {"targets": ["re:.*mlp.*"],
        "weights": {"num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8}}}});
    assert_eq!(more(compressed(mlp_only)), 1.25);
    let modelopt = json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.*.self_attn*", "lm_head"]});
    assert_eq!(more(modelopt), 1.25);
}

#[test]
fn layers_that_a_list_names_are_a_group_of_their_own() {
    let first: Vec<String> = (0..16).map(|layer| format!("model.layers.{layer}.")).collect();
    let without_dot: Vec<String> = (0..16).map(|layer| format!("model.layers.{layer}")).collect();
    let awq = |listed: Vec<String>| json!({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": listed});
    let modelopt = json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": without_dot.clone()});
    let mut notes = Vec::new();
    for (config, gib) in [(awq(first), 10.144), (modelopt, 11.708)] {
        let (shape, _) = llama(config);
        let groups: Vec<(u32, usize)> = shape
            .layers
            .iter()
            .map(|group| (group.count, group.kept.len()))
            .collect();
        assert_eq!(groups, [(16, 4), (16, 0)]);
        // Half of the linear layers at 2 bytes, half at 0.5195 or 1; the vocabulary's tables at 2.
        assert!(
            (shape.weight_bytes(1).gib() - gib).abs() < 0.01,
            "{}",
            shape.weight_bytes(1).gib()
        );
        notes.push(shape.kept_note().unwrap());
        let mxfp4 = shape.with_quantization(Quantization::Mxfp4);
        assert_eq!(
            mxfp4.kept_note(),
            None,
            "an override replaces what the checkpoint says"
        );
    }
    insta::assert_snapshot!(notes[0], @"the checkpoint keeps qkv in 16 of 32 layers, attention_out in 16 of 32 layers, gate_up in 16 of 32 layers, down in 16 of 32 layers in bfloat16: 4.81 GiB more than all in int4 (group 128), and each product is timed in its own format");
}

/// vLLM's `is_layer_skipped` with `skip_with_substr`.
#[test]
fn awqs_lists_are_letters_of_names() {
    let awq = |json: &str, listed: &[&str]| {
        let config =
            json!({"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": listed});
        ModelShape::from_hf_config(&with(json, "quantization_config", config), "mine")
    };
    let kept = |json: &str, listed: &[&str]| {
        let (shape, notes) = awq(json, listed).unwrap();
        let layers = shape.layers.iter().filter(|group| !group.kept.is_empty());
        (layers.map(|group| group.count).sum::<u32>(), notes.join("\n"))
    };
    assert_eq!(kept(LLAMA, &["layers.1."]).0, 1);
    let (layers, told) = kept(LLAMA, &["model.layers.1"]);
    assert_eq!(layers, 11, "layer 1, and 10 to 19");
    insta::assert_snapshot!(told, @"`modules_to_not_convert` of the checkpoint names model.layers.1, which leaves every layer in 16 bits whose number begins so: vLLM looks for the letters in names, and a dot behind the number ends it");
    // A router's name is within no product's of a layer with experts, whatever its gates are called.
    for listed in [["mlp.gate"], ["gate"], ["visual"], ["lm_head"]] {
        assert_eq!(kept(QWEN, &listed), (0, String::new()), "{listed:?}");
    }
    assert_eq!(kept(QWEN, &["mlp"]).0, 48);
    assert_eq!(kept(MIXTRAL, &["gate"]), (0, String::new()));
    // `v_proj` is in `qkv_proj`, and still one of three.
    for part in ["v_proj", "up_proj", "mlp.gate"] {
        let refused = awq(LLAMA, &[part]).unwrap_err();
        assert!(refused.to_string().contains("keeps some of"), "{part}: {refused}");
    }
}

/// vLLM's `is_layer_skipped_bnb`.
#[test]
fn lists_of_bitsandbytes_are_words_of_names() {
    let kept = |entry: &str| {
        let (shape, _) = llama(json!({"quant_method": "bitsandbytes", "llm_int8_skip_modules": [entry]}));
        let layers = shape.layers.iter().filter(|group| !group.kept.is_empty());
        layers.map(|group| group.count).sum::<u32>()
    };
    assert_eq!(kept("self_attn"), 32);
    assert_eq!(kept("model.layers.1"), 1);
    assert_eq!(kept("layers.1"), 0);
    assert_eq!(kept("gate"), 0);
}

#[test]
fn experts_and_routers_go_by_the_names_of_their_family() {
    let experts = |config: &str, ignore: &str| {
        let (shape, notes) = read(&with(
            config,
            "quantization_config",
            compressed(json!({"ignore": [ignore]})),
        ));
        assert!(notes.is_empty(), "{ignore}: {notes:?}");
        shape.layers[0].kept.clone()
    };
    let all = vec!["expert_gate_up", "expert_down"];
    assert_eq!(experts(MIXTRAL, "re:.*block_sparse_moe.experts.*"), all);
    for router in [
        "re:.*block_sparse_moe.gate",
        r"re:.*block_sparse_moe\.gate$",
        "model.layers.0.block_sparse_moe.gate",
    ] {
        assert_eq!(experts(MIXTRAL, router), Vec::<&str>::new());
    }
    for router in ["re:.*mlp.shared_expert_gate$", r"re:.*mlp\.gate$", "re:.*gate$"] {
        assert_eq!(experts(QWEN, router), Vec::<&str>::new());
    }
    let modelopt = json!({"quant_method": "modelopt", "quant_algo": "FP8",
        "ignore": ["model.layers.*.mlp.gate", "model.layers.*.mlp.shared_expert_gate", "lm_head"]});
    let minimax = json!({"quant_method": "fp8", "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]});
    for config in [modelopt, minimax] {
        let (_, notes) = read(&with(QWEN, "quantization_config", config));
        assert!(notes.is_empty(), "{notes:?}");
    }
}

#[test]
fn of_two_lists_the_one_counts_that_vllm_reads_and_the_other_is_told() {
    let two = |method: &str, one: (&str, &str), other: (&str, &str)| {
        let config = json!({"quant_method": method, "quant_algo": "FP8", "bits": 4, "group_size": 128, one.0: [one.1], other.0: [other.1]});
        let (shape, notes) = llama(config);
        (shape.layers[0].kept.len(), notes.join("\n"))
    };
    let (kept, told) = two("modelopt", ("ignore", "self_attn"), ("exclude_modules", "mlp"));
    assert_eq!(kept, 2);
    insta::assert_snapshot!(told, @"what the checkpoint lists under `exclude_modules` counts for nothing: vLLM does not read it of this method beside `ignore`");
    let (kept, told) = two("awq", ("ignore", "mlp.up"), ("modules_to_not_convert", "layers"));
    assert_eq!(kept, 4);
    assert!(told.contains("under `ignore` counts for nothing"), "{told}");
    let (kept, told) = two("modelopt", ("ignore", "mlp"), ("exclude_modules", "mlp"));
    assert_eq!((kept, told.as_str()), (2, ""));
    let (kept, told) = two("gptq", ("modules_to_not_convert", "mlp"), ("ignore", "lm_head"));
    assert_eq!(kept, 0);
    insta::assert_snapshot!(told, @"what the checkpoint lists under `ignore` and `modules_to_not_convert` counts for nothing: vLLM does not read it of this method");
}

#[test]
fn an_entry_that_names_nothing_is_told() {
    let of = |ignore: Value| llama(compressed(json!({ "ignore": ignore }))).1.join("\n");
    assert_eq!(
        of(json!(["lm_head", "model.embed_tokens", "re:.*vision_tower.*"])),
        ""
    );
    insta::assert_snapshot!(of(json!(["model.layers.0.attn.qkv", "re:.*moe.*"])), @"`ignore` of the checkpoint names model.layers.0.attn.qkv and 1 more, which is no linear layer known here and counts for nothing");
    insta::assert_snapshot!(of(json!([r"re:.*moe\.w1$"])), @r"`ignore` of the checkpoint names re:.*moe\.w1$, which is no linear layer known here and counts for nothing");
    let modelopt =
        json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.*.moe.w1"]});
    insta::assert_snapshot!(llama(modelopt).1.join("\n"), @"`ignore` of the checkpoint names model.layers.*.moe.w1, which is no linear layer known here and counts for nothing");
}
