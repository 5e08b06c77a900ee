use super::super::{Dtype, find};
use super::*;

fn shape(name: &str) -> ModelShape {
    find(name).unwrap().0
}

#[test]
fn worked_numbers_of_llama_3_1_8b() {
    let model = shape("meta-llama/Llama-3.1-8B");
    assert_eq!(model.parameters(), 8_030_261_248);
    assert_eq!(model.weight_bytes(1), Bytes(16_060_522_496));
    assert_eq!(model.kv_bytes_per_token(Dtype::Bf16, 1), Bytes(131_072));
    assert_eq!(model.kv_bytes_per_token(Dtype::Fp8, 1), Bytes(65_536));
    assert!((model.linear_flops_per_token().0 - 13.9586e9).abs() < 1e5);
    assert!((model.lm_head_flops_per_row().0 - 1.0507e9).abs() < 1e5);
    assert!((model.streamed_bytes(1).gb() - 15.0093).abs() < 1e-4);
}

#[test]
fn worked_numbers_of_larger_models() {
    let model = shape("meta-llama/Llama-3.1-70B");
    assert_eq!(model.parameters(), 70_553_706_496);
    assert_eq!(model.weight_bytes(1), Bytes(141_107_412_992));
    assert_eq!(model.kv_bytes_per_token(Dtype::Bf16, 1), Bytes(327_680));
    assert!((model.linear_flops_per_token().0 - 136.902e9).abs() < 1e6);
    let model = shape("Qwen/Qwen2.5-7B");
    assert_eq!(model.parameters(), 7_615_616_512);
    assert_eq!(model.kv_bytes_per_token(Dtype::Bf16, 1), Bytes(57_344));
    assert!((model.linear_flops_per_token().0 - 13.0506e9).abs() < 1e5);
}

#[test]
fn quantization_shrinks_the_linear_layers_only() {
    let gb = |quantization| {
        let model = shape("meta-llama/Llama-3.1-8B").with_quantization(quantization);
        let (weights, streamed) = (model.weight_bytes(1).gb(), model.streamed_bytes(1).gb());
        (
            (weights * 100.0).round() / 100.0,
            (streamed * 100.0).round() / 100.0,
        )
    };
    assert_eq!(gb(Quantization::None), (16.06, 15.01));
    assert_eq!(gb(Quantization::Fp8), (9.08, 8.03));
    assert_eq!(gb(Quantization::AWQ), (5.73, 4.68));
}

#[test]
fn tensor_parallel_ranks_share_everything_but_norms_routers_and_scarce_kv_heads() {
    let model = shape("meta-llama/Llama-3.1-8B");
    let norms = model.other_parameters * 2;
    let (one, eight) = (model.weight_bytes(1).0 - norms, model.weight_bytes(8).0 - norms);
    assert_eq!(one, 8 * eight);
    // With 16 ranks, each of the 8 KV heads lives twice.
    let sixteen = model.weight_bytes(16).0 - norms;
    assert_eq!(16 * sixteen - one, 32 * 4096 * 2 * 8 * 128 * 2);
    assert_eq!(
        model.kv_bytes_per_token(Dtype::Bf16, 16),
        model.kv_bytes_per_token(Dtype::Bf16, 8)
    );
}

#[test]
fn latent_attention_caches_one_vector_and_every_rank_keeps_it() {
    let model = shape("deepseek-ai/DeepSeek-V3");
    assert_eq!(model.kv_bytes_per_token(Dtype::Bf16, 1), Bytes(61 * 576 * 2));
    assert_eq!(model.kv_bytes_per_token(Dtype::Bf16, 8), Bytes(61 * 576 * 2));
}

#[test]
fn active_parameters_match_the_model_cards() {
    let check = |name: &str, billions: f64, tolerance: f64| {
        let active = shape(name).active_parameters() as f64 / 1e9;
        assert!((active - billions).abs() <= tolerance, "{name}: {active}");
    };
    check("mistralai/Mixtral-8x7B-v0.1", 12.9, 0.05);
    check("mistralai/Mixtral-8x22B-v0.1", 39.1, 0.1);
    check("Qwen/Qwen3-30B-A3B", 3.3, 0.06);
    check("Qwen/Qwen3-235B-A22B", 22.0, 0.3);
    check("deepseek-ai/DeepSeek-V3", 37.0, 0.6);
    check("XiaomiMiMo/MiMo-V2-Flash", 15.0, 0.5);
    check("ibm-granite/granite-4.0-h-small", 9.0, 0.25);
    check("LiquidAI/LFM2-8B-A1B", 1.5, 0.1);
    check("deepseek-ai/DeepSeek-V2-Lite", 2.4, 0.3);
    // 5.1 and 3.6 in the card, which leaves out the embedding of 0.58. Biases of idle experts (0.04) are counted here.
    check("openai/gpt-oss-120b", 5.13 + 0.58, 0.05);
    check("openai/gpt-oss-20b", 3.61 + 0.58, 0.05);
}
