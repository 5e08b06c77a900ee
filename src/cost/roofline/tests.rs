//! Step times of the roofline: sums of kernels, hosts, graphs, and the laws that leaps rest on.

use super::*;
use crate::cost::Chunk;
use crate::cost::calibration::{KernelFormat, for_device};
use crate::cost::testing::{device, llama_8b, placement};
use crate::model::{Attention, KvFormat, Quantization};
use proptest::prelude::*;

mod drafts;
mod links;

fn cost(short: &str, placement: &Placement) -> RooflineCost {
    let device = device(short);
    let calibration = for_device(&device, "vllm").calibration;
    RooflineCost::new(&device, &llama_8b(), &calibration, placement).unwrap()
}

fn decode_load(batch: u32, kv: u64, longest: u32) -> StepLoad {
    StepLoad {
        decode_seqs: batch,
        decode_kv_tokens: kv,
        decode_longest: longest,
        sampled_rows: batch,
        ..StepLoad::default()
    }
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let mode = prop_oneof![
        Just(CudagraphMode::None),
        Just(CudagraphMode::Piecewise),
        Just(CudagraphMode::FullDecodeOnly),
        Just(CudagraphMode::FullAndPiecewise),
    ];
    let ranks = prop_oneof![Just(1_u32), Just(2), Just(8)];
    let fused = prop_oneof![Just(None), Just(Some(64))];
    (mode, any::<bool>(), ranks, fused).prop_map(|(mode, asynchronous, tensor_parallel, fused_norms)| {
        let mut placement = placement();
        placement.graphs.mode = mode;
        Placement {
            asynchronous,
            tensor_parallel,
            fused_norms,
            ..placement
        }
    })
}

fn any_load() -> impl Strategy<Value = StepLoad> {
    let chunk = (0_u32..30_000, 2_u32..4096).prop_map(|(computed, new)| Chunk { computed, new });
    (0_u32..700, 1_u32..4000, prop::collection::vec(chunk, 0..4)).prop_map(|(seqs, context, chunks)| {
        StepLoad {
            decode_seqs: seqs,
            decode_kv_tokens: u64::from(seqs) * u64::from(context),
            decode_longest: if seqs > 0 { context } else { 0 },
            sampled_rows: seqs + chunks.len() as u32,
            chunks,
            ..StepLoad::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_step_without_chunks_is_a_decode_step(
        placement in any_placement(), batch in 1_u32..700, kv in 1_u64..5_000_000, longest in 1_u32..100_000,
    ) {
        let mut cost = cost("h100", &placement);
        let step = cost.step(&decode_load(batch, kv, longest));
        prop_assert_eq!(step, cost.decode(batch).at(kv, longest));
    }

    #[test]
    fn the_parts_add_up_to_the_step(placement in any_placement(), load in any_load()) {
        let mut cost = cost("a100", &placement);
        let step = cost.step(&load).seconds();
        let parts: f64 = cost.breakdown(&load).parts.iter().map(|part| part.seconds).sum();
        prop_assert!((parts - step).abs() < 1e-11, "{} against {}", parts, step);
    }

    #[test]
    fn a_step_costs_the_same_whatever_was_asked_before(placement in any_placement(), loads in prop::collection::vec(any_load(), 1..4)) {
        let mut asked = cost("h100", &placement);
        for load in loads.iter().chain(&loads) {
            prop_assert_eq!(asked.step(load), cost("h100", &placement).step(load));
        }
    }

    #[test]
    fn more_work_never_costs_less(placement in any_placement(), load in any_load(), more in any_load()) {
        let mut cost = cost("a100", &placement);
        let less = cost.step(&load);
        let joined = StepLoad {
            decode_seqs: load.decode_seqs + more.decode_seqs,
            decode_kv_tokens: load.decode_kv_tokens + more.decode_kv_tokens,
            decode_longest: load.decode_longest.max(more.decode_longest),
            chunks: load.chunks.iter().chain(&more.chunks).copied().collect(),
            sampled_rows: load.sampled_rows + more.sampled_rows,
            ..StepLoad::default()
        };
        prop_assert!(cost.step(&joined) >= less);
    }
}

#[test]
fn a_batch_is_padded_to_the_next_captured_size() {
    let mut cost = cost("h100", &placement());
    let without_attention = |cost: &mut RooflineCost, batch: u32| {
        let tokens = cost.padded_tokens(u64::from(batch), cost.launch(u64::from(batch), true));
        cost.tokens_picos(tokens)
    };
    assert_eq!(without_attention(&mut cost, 9), without_attention(&mut cost, 16));
    assert!(without_attention(&mut cost, 16) < without_attention(&mut cost, 136));
    assert_eq!(cost.launch(513, true), Launch::Compiled);
}

#[test]
fn pieces_may_be_captured_at_sizes_of_their_own() {
    let mut placement = placement();
    placement.graphs.capture_sizes = vec![1, 8];
    placement.graphs.piece_sizes = Some(vec![16, 64]);
    let cost = cost("h100", &placement);
    assert_eq!(cost.launch(5, true), Launch::Full);
    assert_eq!(cost.padded_tokens(5, Launch::Full), 8);
    assert_eq!(cost.launch(40, true), Launch::Compiled);
    assert_eq!(cost.launch(40, false), Launch::Piecewise);
    assert_eq!(cost.padded_tokens(5, Launch::Piecewise), 16);
    assert_eq!(cost.launch(65, false), Launch::Compiled);
}

#[test]
fn without_graphs_launching_bounds_a_small_model() {
    let mut narrow = llama_8b();
    narrow.hidden_size = 512;
    let device = device("h100");
    let calibration = for_device(&device, "vllm").calibration;
    let decode = |mode: CudagraphMode| {
        let mut placement = placement();
        placement.graphs.mode = mode;
        let cost = RooflineCost::new(&device, &narrow, &calibration, &placement);
        cost.unwrap().decode(1).at(1, 1).seconds()
    };
    let (graph, eager) = (
        decode(CudagraphMode::FullAndPiecewise),
        decode(CudagraphMode::None),
    );
    let launching = 32.0 * 12.0 * 8e-6;
    assert!(graph < launching && eager > launching, "{graph} {eager}");
}

#[test]
fn enforce_eager_bounds_a_token_by_the_host_and_leaves_a_long_prompt_alone() {
    let of = |edit: fn(&mut Graphs)| {
        let mut placement = placement();
        placement.asynchronous = true;
        edit(&mut placement.graphs);
        cost("h100", &placement)
    };
    let mut graph = of(|_| ());
    let mut piecewise = of(|graphs| graphs.mode = CudagraphMode::Piecewise);
    let mut compiled = of(|graphs| graphs.mode = CudagraphMode::None);
    let mut eager = of(|graphs| {
        graphs.mode = CudagraphMode::None;
        graphs.is_compiled = false;
    });
    let token = |cost: &mut RooflineCost| cost.decode(1).at(1024, 1024).seconds();
    let ratio = token(&mut eager) / token(&mut graph);
    assert!(
        (1.5..4.0).contains(&ratio),
        "published: 1.7 to 4.3 times, {ratio}"
    );
    let floors = [&mut graph, &mut piecewise, &mut compiled, &mut eager].map(|cost| cost.decode(1).floor);
    assert!(floors.is_sorted_by(|a, b| a < b), "{floors:?}");
    let prompt = StepLoad {
        chunks: vec![Chunk {
            computed: 0,
            new: 8192,
        }],
        sampled_rows: 1,
        ..StepLoad::default()
    };
    assert_eq!(eager.step(&prompt), graph.step(&prompt));
}

#[test]
fn without_padding_only_captured_batches_replay_graphs() {
    let mut placement = placement();
    placement.graphs.mode = CudagraphMode::FullDecodeOnly;
    placement.graphs.capture_sizes = vec![1, 2, 8];
    let replayed = |pads: bool| {
        let mut placement = placement.clone();
        placement.graphs.pads = pads;
        let cost = cost("h100", &placement);
        [1, 2, 3, 7, 8, 9].map(|batch| cost.replayed(batch))
    };
    assert_eq!(
        replayed(true),
        [Some(1), Some(2), Some(8), Some(8), Some(8), None]
    );
    assert_eq!(replayed(false), [Some(1), Some(2), None, None, Some(8), None]);
}

#[test]
fn asynchronous_scheduling_hides_the_host_until_it_is_the_bottleneck() {
    let mut hidden = placement();
    hidden.asynchronous = true;
    let (mut sync, mut overlapped) = (cost("h200", &placement()), cost("h200", &hidden));
    assert!(overlapped.decode(32).at(32_000, 1000) < sync.decode(32).at(32_000, 1000));
}

#[test]
fn decode_time_is_flat_in_the_batch_until_the_cache_outweighs_the_weights() {
    let mut cost = cost("h100", &placement());
    let mut at = |batch: u32| cost.decode(batch).at(u64::from(batch) * 1024, 1024).seconds();
    let (one, eight, many) = (at(1), at(8), at(112));
    assert!(eight / one < 1.12, "{one} {eight}");
    assert!(
        (1.7..2.8).contains(&(many / one)),
        "112 x 1024 tokens weigh as much as the weights: {one} {many}"
    );
}

#[test]
fn short_contexts_take_a_rows_least_time_and_long_ones_their_bytes() {
    let mut cost = cost("b200", &placement());
    let law = cost.decode(512);
    assert!(law.kv_floor > Picos::ZERO);
    let at = |context: u32| law.at(512 * u64::from(context), context);
    assert_eq!((at(1), at(16)), (law.least(), law.least()));
    assert!(at(4096) > law.least());
    let gaps = [at(2048) - at(1024), at(4096) - at(2048)].map(|gap| gap.seconds());
    assert!((gaps[1] / gaps[0] - 2.0).abs() < 1e-6, "{gaps:?}");
    let mixed = StepLoad {
        chunks: vec![Chunk { computed: 0, new: 64 }],
        ..decode_load(512, 512, 1)
    };
    let alone = StepLoad {
        decode_kv_tokens: 512 * 16,
        decode_longest: 16,
        ..mixed.clone()
    };
    assert_eq!(cost.step(&mixed), cost.step(&alone));
}

#[test]
fn a_calibration_that_lacks_a_block_is_an_error_that_names_it() {
    let error = RooflineCost::new(
        &device("h100"),
        &llama_8b(),
        &Calibration::default(),
        &placement(),
    );
    assert!(error.unwrap_err().to_string().contains("host.vllm"));
}

#[test]
fn a_scale_on_an_operator_moves_that_operator_alone() {
    let device = device("h100");
    let mut calibration = for_device(&device, "vllm").calibration;
    calibration.scale.insert("down_proj".to_owned(), 2.0);
    let scaled = RooflineCost::new(&device, &llama_8b(), &calibration, &placement()).unwrap();
    let load = decode_load(8, 8000, 1000);
    let (before, after) = (
        cost("h100", &placement()).breakdown(&load),
        scaled.breakdown(&load),
    );
    for (old, new) in before.parts.iter().zip(&after.parts) {
        let factor = if old.operator == "down_proj" { 2.0 } else { 1.0 };
        assert!(
            (new.seconds / old.seconds - factor).abs() < 1e-9,
            "{}",
            old.operator
        );
    }
}

/// Llama-3.1-8B with eight experts in each layer, of which a token is routed to two.
fn mixtral() -> ModelShape {
    let mut mixtral = llama_8b();
    mixtral.layers[0].mlp = crate::model::Mlp::Experts {
        experts: 8,
        experts_per_token: 2,
        intermediate: 14_336,
        shared_intermediate: 0,
        gated: true,
        latent: None,
    };
    mixtral
}

#[test]
fn experts_stay_bound_by_memory_longer_than_dense_layers() {
    let mixtral = mixtral();
    let device = device("h100");
    let calibration = for_device(&device, "vllm").calibration;
    let mut cost = RooflineCost::new(&device, &mixtral, &calibration, &placement()).unwrap();
    let mut at = |batch: u32| cost.decode(batch).at(u64::from(batch), 1).seconds();
    let (one, eight, sixteen) = (at(1), at(8), at(16));
    assert!(
        eight > 2.0 * one,
        "eight tokens touch 7.2 of 8 experts, one touches 2: {one} {eight}"
    );
    assert!(sixteen < 1.2 * eight, "then all are touched: {eight} {sixteen}");
}

#[test]
fn experts_that_are_dealt_out_whole_wait_for_the_fullest_gpu() {
    let mixtral = mixtral();
    let device = device("h100");
    let calibration = for_device(&device, "vllm").calibration;
    let cost = |is_dealt_out: bool| {
        let placement = Placement {
            tensor_parallel: 4,
            expert_groups: if is_dealt_out { 4 } else { 1 },
            ..placement()
        };
        RooflineCost::new(&device, &mixtral, &calibration, &placement).unwrap()
    };
    let step =
        |is_dealt_out: bool, batch: u32| cost(is_dealt_out).decode(batch).at(u64::from(batch), 1).seconds();
    // Both rows of one token at the fullest GPU are at 1.5 of its 2 experts in the mean (EP-4): read whole, where every GPU
    // would read a quarter of both.
    let ratio = |batch: u32| step(true, batch) / step(false, batch);
    let bytes = 3.0 * 4096.0 * 14_336.0 * 2.0;
    let added = f64::from(mixtral.layers[0].count) * bytes * (1.5 - 2.0 / 4.0) / device.memory_bandwidth.0;
    let more = step(true, 1) - step(false, 1);
    assert!(
        (1.0..1.3).contains(&(more / added)),
        "{more} s more, {added} s of reading at the datasheet's bandwidth"
    );
    // Many tokens reach all experts, two on each GPU: as many bytes as four slices of eight, and chance between GPUs.
    assert!((1.0..1.25).contains(&ratio(256)), "{}", ratio(256));
}

#[test]
fn rows_that_only_fill_a_graph_reach_experts_unless_they_are_masked() {
    let device = device("h100");
    let calibration = for_device(&device, "vllm").calibration;
    let shape = crate::model::find("Qwen/Qwen3-30B-A3B").unwrap().0;
    let part = |routes_padding: bool, capture_sizes: Vec<u32>, operator: &str| {
        let mut placement = placement();
        placement.graphs.routes_padding = routes_padding;
        placement.graphs.capture_sizes = capture_sizes;
        let mut cost = RooflineCost::new(&device, &shape, &calibration, &placement).unwrap();
        let parts = cost.breakdown(&decode_load(9, 9_000, 1_000)).parts;
        let step = cost.decode(9).at(9_000, 1).seconds();
        let part = parts.into_iter().find(|part| part.operator == operator);
        (part.unwrap().seconds, step)
    };
    let (all, masked, exact) = (
        |operator| part(true, vec![8, 16], operator),
        |operator| part(false, vec![8, 16], operator),
        |operator| part(false, vec![8, 9, 16], operator),
    );
    assert_eq!(masked("experts").0, exact("experts").0);
    assert!(all("experts").0 > 1.1 * masked("experts").0);
    assert_eq!(all("qkv_proj").0, masked("qkv_proj").0);
    let saved = all("experts").1 - masked("experts").1;
    assert!((saved - (all("experts").0 - masked("experts").0)).abs() < 1e-9);
}

#[test]
fn experts_in_blocks_of_fp8_are_faster_than_in_sixteen_bits_and_their_kernels_a_prior() {
    for (card, model) in [
        ("h100", "Qwen/Qwen3-30B-A3B-FP8"),
        ("h200", "deepseek-ai/DeepSeek-V3"),
    ] {
        let device = device(card);
        let calibration = for_device(&device, "vllm").calibration;
        let blocks = crate::model::find(model).unwrap().0;
        let experts = |(quantization, fp8_experts): (Quantization, KernelFormat), batch: u32| {
            let mut shape = blocks.clone();
            shape.quantization = quantization;
            let placement = Placement {
                fp8_experts,
                ..placement()
            };
            let cost = RooflineCost::new(&device, &shape, &calibration, &placement).unwrap();
            let parts = cost.breakdown(&decode_load(batch, 1000, 100)).parts;
            parts.into_iter().find(|part| part.operator == "experts").unwrap()
        };
        for batch in [1, 8, 64] {
            let [narrow, wide, pathological, others] = [
                (blocks.quantization, KernelFormat::Fp8),
                (Quantization::None, KernelFormat::Fp8),
                (Quantization::Fp8, KernelFormat::Fp8),
                (Quantization::Fp8, KernelFormat::Fp8Block),
            ]
            .map(|formats| experts(formats, batch));
            assert_eq!(others, narrow, "{model} at {batch}: neither has a table");
            assert!(narrow.seconds < wide.seconds, "{model} at {batch}");
            assert!(
                pathological.seconds > wide.seconds,
                "{model} at {batch}: the measured table is kept"
            );
            assert_eq!((narrow.trust, wide.trust), (Trust::Prior, Trust::Calibrated));
        }
    }
}

#[test]
fn ranks_share_the_time_of_weights_but_not_of_floors() {
    let mut shared = placement();
    shared.tensor_parallel = 4;
    let (mut one, mut four) = (cost("h100", &placement()), cost("h100", &shared));
    let ratio = one.decode(8).at(8000, 1000).seconds() / four.decode(8).at(8000, 1000).seconds();
    assert!((1.5..3.0).contains(&ratio), "{ratio}");
}

/// gpt-oss-20b, all of it or its layers with a window (or without) alone, with a cache in that format.
fn attention_seconds(is_kept: fn(Option<u32>) -> bool, format: KvFormat, load: &StepLoad) -> f64 {
    let (mut model, _) = crate::model::find("openai/gpt-oss-20b").unwrap();
    let window = |attention: &Attention| match attention {
        Attention::Grouped { window, .. } => *window,
        _ => None,
    };
    model.layers.retain(|group| is_kept(window(&group.attention)));
    let device = device("h100");
    let calibration = for_device(&device, "vllm").calibration;
    let placement = Placement {
        kv_format: format,
        typical_context: 4096,
        ..placement()
    };
    let cost = RooflineCost::new(&device, &model, &calibration, &placement).unwrap();
    let parts = cost.breakdown(load).parts;
    let of_attention = parts.iter().filter(|part| part.operator.ends_with("_attention"));
    of_attention.map(|part| part.seconds).sum()
}

#[test]
fn each_layer_attends_as_its_own_caches_format_says() {
    let (narrow, wide) = (KvFormat::from(Dtype::Fp8), KvFormat::from(Dtype::Bf16));
    let mixed = KvFormat {
        dtype: Dtype::Fp8,
        windowed: Dtype::Bf16,
    };
    let prompt = StepLoad {
        chunks: vec![Chunk {
            computed: 60_000,
            new: 4096,
        }],
        sampled_rows: 1,
        ..StepLoad::default()
    };
    let all = |format, load: &StepLoad| attention_seconds(|_| true, format, load);
    for load in [
        decode_load(1, 256, 256),
        decode_load(1, 125_000, 125_000),
        decode_load(64, 64 * 8192, 8192),
        prompt,
    ] {
        let kinds = attention_seconds(|window| window.is_none(), narrow, &load)
            + attention_seconds(|window| window.is_some(), wide, &load);
        let found = all(mixed, &load);
        assert!((found / kinds - 1.0).abs() < 1e-6, "{found} {kinds}");
    }
    // What a longer context adds is the 8-bit layers' alone, and half of what it is in 16 bits, but for the kernels' own rates.
    let growth = |format| {
        let at = |context: u32| all(format, &decode_load(1, u64::from(context), context));
        at(120_000) - at(60_000)
    };
    assert!((growth(mixed) / growth(narrow) - 1.0).abs() < 1e-6);
    assert!(growth(mixed) < 0.8 * growth(wide));
    // Windows are read by the kernels of 16 bits, which for so few tokens may be the faster ones.
    let windows = |format| {
        attention_seconds(
            |window| window.is_some(),
            format,
            &decode_load(256, 256 * 4096, 4096),
        )
    };
    assert!((windows(mixed) / windows(narrow) - 1.0).abs() > 0.01);
    assert!((windows(mixed) / windows(wide) - 1.0).abs() < 1e-9);
}
