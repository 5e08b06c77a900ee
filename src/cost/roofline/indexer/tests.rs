//! Sparse attention and its indexer against worked numbers and the laws of a step's cost.

use proptest::prelude::*;

use crate::cost::calibration::for_device;
use crate::cost::roofline::{Placement, RooflineCost};
use crate::cost::testing::{device, llama_8b, placement};
use crate::cost::uncertainty::Component;
use crate::cost::{Chunk, StepCost, StepLoad, Trust};
use crate::model::{Dtype, ModelShape, find};

const DEEPSEEK: &str = "deepseek-ai/DeepSeek-V3.2";

fn shape(model: &str) -> ModelShape {
    find(model).expect("it is bundled").0
}

fn on_eight() -> Placement {
    Placement {
        tensor_parallel: 8,
        kv_format: Dtype::Bf16.into(),
        ..placement()
    }
}

fn cost(model: &str) -> RooflineCost {
    cost_in(model, &on_eight())
}

fn cost_in(model: &str, placement: &Placement) -> RooflineCost {
    let device = device("h200");
    let calibration = for_device(&device, "vllm").calibration;
    RooflineCost::new(&device, &shape(model), &calibration, placement).unwrap()
}

fn decodes(contexts: &[u32]) -> StepLoad {
    let mut load = StepLoad {
        sampled_rows: contexts.len() as u32,
        ..StepLoad::default()
    };
    for context in contexts {
        load.add_within(context - 1, 1, Some(2048));
    }
    load
}

fn seconds_of(cost: &RooflineCost, load: &StepLoad, operator: &str) -> f64 {
    let parts = cost.breakdown(load).parts;
    let of = parts.iter().filter(|part| part.operator == operator);
    of.map(|part| part.seconds).sum()
}

proptest! {
    /// Of decoding sequences attention has the least of a context and of the picks, the indexer all of it, one by one.
    #[test]
    fn a_step_has_what_each_context_adds(contexts in prop::collection::vec(1u32..8000, 1..12)) {
        let mut cost = cost(DEEPSEEK);
        let load = decodes(&contexts);
        let step = cost.step(&load);
        let law = cost.decode(contexts.len() as u32);
        let read = law.per_token_beyond;
        let scored = law.per_kv_token - read;
        let each = |context: &u32| read * u64::from((*context).min(2048)) + scored * u64::from(*context);
        let one_by_one = contexts.iter().map(each).sum::<crate::units::Picos>();
        prop_assert_eq!(step, (law.base + one_by_one).max(law.floor));
        let breakdown = cost.breakdown(&load);
        let sum: f64 = breakdown.parts.iter().map(|part| part.seconds).sum();
        prop_assert!((sum / step.seconds() - 1.0).abs() < 1e-6, "{} {}", sum, step.seconds());
    }
}

#[test]
fn beyond_the_picks_a_context_costs_its_indexer_s_keys_alone() {
    let cost = cost(DEEPSEEK);
    let at = |context: u32, operator: &str| seconds_of(&cost, &decodes(&[context; 64]), operator);
    assert_eq!(at(4096, "decode_attention"), at(100_000, "decode_attention"));
    assert!(at(1024, "decode_attention") < 0.9 * at(2048, "decode_attention"));
    // 61 layers x (132 B of a key + 8 B of its score) of each of 64 x 96,000 tokens, at what decode attention streams of 4.8 TB/s.
    let more = at(100_000, "indexer") - at(4000, "indexer");
    let bytes = 61.0 * 140.0 * 64.0 * 96_000.0;
    let rate = bytes / more;
    assert!((0.5e12..4.8e12).contains(&rate), "{rate:e}");
}

#[test]
fn layers_that_share_picks_do_not_score() {
    let load = decodes(&[50_000; 16]);
    let of = |model: &str| seconds_of(&cost(model), &load, "indexer");
    let ratio = of("zai-org/GLM-5.2") / of("zai-org/GLM-5");
    assert!((ratio - 21.0 / 78.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn short_prompts_alone_are_not_scored_and_long_ones_are_quadratically() {
    let cost = cost(DEEPSEEK);
    let with = |chunks: &[(u32, u32)], seqs: u32| {
        let mut load = decodes(&vec![1000; seqs as usize]);
        load.chunks = chunks
            .iter()
            .map(|&(computed, new)| Chunk { computed, new })
            .collect();
        load
    };
    let scored = |chunks: &[(u32, u32)], seqs: u32| seconds_of(&cost, &with(chunks, seqs), "indexer");
    assert_eq!(scored(&[(0, 2048)], 0), 0.0);
    assert!(scored(&[(0, 2049)], 0) > 0.0);
    assert!(scored(&[(0, 1000)], 1) > scored(&[], 1));
    let (one, two) = (scored(&[(0, 40_000)], 0), scored(&[(0, 80_000)], 0));
    assert!((3.3..4.1).contains(&(two / one)), "{one} {two}");
    // Attention itself becomes linear.
    let attention = |chunks: &[(u32, u32)]| seconds_of(&cost, &with(chunks, 0), "prefill_attention");
    let (one, two) = (attention(&[(0, 40_000)]), attention(&[(0, 80_000)]));
    assert!((1.9..2.2).contains(&(two / one)), "{one} {two}");
    // All of it is as far as its parts go.
    let load = with(&[(0, 5000), (3000, 700)], 3);
    let mut priced = cost.clone();
    let sum: f64 = cost.breakdown(&load).parts.iter().map(|part| part.seconds).sum();
    assert!((sum / priced.step(&load).seconds() - 1.0).abs() < 1e-6);
}

#[test]
fn a_query_of_a_long_prompt_gathers_its_keys_as_a_decoding_sequence_does() {
    let cost = cost(DEEPSEEK);
    let chunk = |new: u32| {
        let mut load = StepLoad::default();
        load.chunks.push(Chunk {
            computed: 40_000,
            new,
        });
        seconds_of(&cost, &load, "prefill_attention")
    };
    let of_queries = chunk(1500) - chunk(500);
    let of_picks = |context: u32| seconds_of(&cost, &decodes(&vec![context; 1000]), "decode_attention");
    // All that is more of a decoding sequence is its row, which a context of one token has too.
    let of_sequences = (of_picks(5000) - of_picks(1)) * 2048.0 / 2047.0;
    assert!(
        (1.0..1.1).contains(&(of_queries / of_sequences)),
        "{of_queries} {of_sequences}"
    );
}

#[test]
fn kernels_that_read_rows_with_scales_compute_64_heads() {
    let read = |ranks: u32, format: Dtype| {
        let placement = Placement {
            tensor_parallel: ranks,
            kv_format: format.into(),
            ..placement()
        };
        cost_in(DEEPSEEK, &placement).decode(8).per_token_beyond
    };
    // Of the 128 heads 16, 64 and all.
    let [eighth, half, all] = [8, 2, 1].map(|ranks| read(ranks, Dtype::Fp8Scaled));
    assert_eq!(eighth, half);
    assert!(half < all, "{half:?} {all:?}");
    // In 16 bits the fewer heads are bound by memory, at twice the bytes and less.
    assert_eq!(read(8, Dtype::Bf16), read(4, Dtype::Bf16));
}

#[test]
fn nobody_measured_it_and_that_is_said() {
    let cost = cost(DEEPSEEK);
    for part in cost.breakdown(&decodes(&[5000; 8])).parts {
        if ["indexer", "decode_attention"].contains(&part.operator.as_str()) {
            assert_eq!(part.trust, Trust::RooflineOnly, "{}", part.operator);
        }
    }
    let device = device("h200");
    let calibration = for_device(&device, "vllm").calibration;
    let has = |shape: &ModelShape| {
        let sigmas = calibration.sigmas(&device, shape, &on_eight());
        sigmas
            .iter()
            .any(|(component, sigma)| *component == Component::Indexer && *sigma > 0.3)
    };
    assert!(has(&shape(DEEPSEEK)) && !has(&llama_8b()));
}
