//! Steps of an engine that speculates.

use super::*;

fn drafting(drafts: u32) -> RooflineCost {
    let drafter = crate::model::Drafter::eagle(&llama_8b(), true);
    let placement = Placement {
        drafting: Some(Drafting {
            drafts,
            levels: drafts,
            branches: 1,
            precede: false,
            drafter: Some(drafter),
        }),
        ..placement()
    };
    cost("h100", &placement)
}

/// Sequences with that context that verify so many drafts each.
fn verifying(seqs: u32, context: u32, drafts: u32) -> StepLoad {
    let mut load = StepLoad {
        sampled_rows: seqs * (1 + drafts),
        ..StepLoad::default()
    };
    (0..seqs).for_each(|_| load.add_verification(context, drafts));
    load
}

#[test]
fn drafts_ride_along_while_weights_are_read_and_cost_what_they_are_behind() {
    let step = |seqs: u32, drafts: u32| {
        drafting(drafts.max(1))
            .step(&verifying(seqs, 1000, drafts))
            .seconds()
    };
    for seqs in [1, 16, 128] {
        let taken: Vec<f64> = (1..=5).map(|drafts| step(seqs, drafts)).collect();
        assert!(taken.is_sorted(), "more drafts never take less: {taken:?}");
    }
    let alone = cost("h100", &placement());
    let plain = |seqs: u32| {
        alone
            .clone()
            .step(&decode_load(seqs, u64::from(seqs) * 1001, 1001))
            .seconds()
    };
    assert!(step(1, 3) < 1.4 * plain(1), "{} {}", step(1, 3), plain(1));
    assert!(step(256, 3) > 1.7 * plain(256), "{} {}", step(256, 3), plain(256));
}

#[test]
fn the_parts_of_a_step_with_drafts_add_up_and_a_prompt_fills_the_drafters_cache() {
    let mut cost = drafting(3);
    let mut load = verifying(8, 2000, 3);
    load.chunks.push(Chunk {
        computed: 0,
        new: 900,
    });
    let step = cost.step(&load).seconds();
    let parts = cost.breakdown(&load).parts;
    let sum: f64 = parts.iter().map(|part| part.seconds).sum();
    assert!((sum / step - 1.0).abs() < 0.01, "{sum} {step}");
    let drafter = |cost: &RooflineCost, load: &StepLoad| {
        let parts = cost.breakdown(load).parts;
        let part = parts.into_iter().find(|part| part.operator == "drafter");
        part.map_or(0.0, |part| part.seconds)
    };
    // A piece of a prompt that samples nothing is computed by the drafter, too, once and without a head.
    let piece = StepLoad {
        chunks: vec![Chunk {
            computed: 0,
            new: 900,
        }],
        ..StepLoad::default()
    };
    let last = StepLoad {
        sampled_rows: 1,
        ..piece.clone()
    };
    assert!(drafter(&cost, &piece) > 0.0 && drafter(&cost, &last) > drafter(&cost, &piece));
}
