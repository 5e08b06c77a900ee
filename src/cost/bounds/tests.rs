//! Rates against published work, and runs against what memory and units can do.

use super::*;
use crate::cost::calibration::for_device;
use crate::cost::roofline::RooflineCost;
use crate::cost::testing::{device, llama_8b, placement};
use crate::cost::{Chunk, StepCost, StepLoad};
use crate::model::{LayerGroup, Mlp};

fn rates() -> WorkRates {
    work_rates(&device("h100"), &llama_8b(), &placement())
}

#[test]
fn llama_8b_has_the_published_work_per_token() {
    let rates = rates();
    assert_eq!(rates.flops_per_token, 13.958_643_712e9);
    assert_eq!(rates.flops_per_row, 1.050_673_152e9);
    assert_eq!(rates.flops_per_decode_kv_token, 524_288.0);
    assert_eq!(rates.bytes_per_kv_token, 131_072.0);
    assert_eq!(rates.weight_bytes(1.0), 15.009_316_864e9);
}

#[test]
fn memory_bounds_the_token_time_of_a_batch() {
    for (batch, context, millis) in [
        (1, 1024, 4.52),
        (32, 1024, 5.76),
        (256, 1024, 14.74),
        (64, 8192, 24.99),
    ] {
        let bound = 1e3 * rates().bandwidth_bound_step(batch, context).0;
        assert!((bound - millis).abs() < 0.006, "{batch} x {context}: {bound}");
    }
}

#[test]
fn prefilling_takes_the_worked_number_of_operations() {
    for (computed, new, tera) in [
        (0, 512, 7.217),
        (0, 8192, 131.945),
        (6144, 2048, 36.285),
        (7680, 512, 9.278),
    ] {
        let (c, q) = (f64::from(computed), f64::from(new));
        let work = WorkSums {
            steps: 1.0,
            tokens: q,
            sampled_rows: 1.0,
            chunk_pairs_doubled: q * (2.0 * c + q + 1.0),
            chunk_kv_tokens: c + q,
            ..WorkSums::default()
        };
        let flops = rates().flops(&work).0 / 1e12;
        assert!((flops - tera).abs() < 0.002, "{new} after {computed}: {flops}");
    }
}

/// A run of `batch` prompts of 1,024 tokens, one a step, then 128 tokens each.
fn run_of(cost: &mut RooflineCost, batch: u32) -> (WorkSums, Seconds) {
    let (mut work, mut busy) = (WorkSums::default(), 0.0);
    let mut count = |load: &StepLoad| {
        busy += cost.step(load).seconds();
        work.steps += 1.0;
        work.tokens += load.tokens() as f64;
        work.decoded_tokens += f64::from(load.decode_seqs);
        work.sampled_rows += f64::from(load.sampled_rows);
        work.decode_kv_tokens += load.decode_kv_tokens as f64;
        for chunk in &load.chunks {
            let (computed, new) = (f64::from(chunk.computed), f64::from(chunk.new));
            work.chunk_pairs_doubled += new * (2.0 * computed + new + 1.0);
            work.chunk_kv_tokens += computed + new;
        }
        work.by_size.add(load.tokens(), 1);
    };
    let prompt = StepLoad {
        chunks: vec![Chunk {
            computed: 0,
            new: 1024,
        }],
        sampled_rows: 1,
        ..StepLoad::default()
    };
    (0..batch).for_each(|_| count(&prompt));
    for context in 1025..1153 {
        count(&StepLoad {
            decode_seqs: batch,
            decode_kv_tokens: u64::from(batch) * u64::from(context),
            decode_longest: context,
            sampled_rows: batch,
            ..StepLoad::default()
        });
    }
    (work, Seconds(busy))
}

#[test]
fn no_mixture_of_experts_moves_more_than_the_memory_can() {
    let mut seen = 0;
    for name in crate::model::names() {
        let model = crate::model::find(name).unwrap().0;
        let is_routed = |group: &LayerGroup| matches!(group.mlp, Mlp::Experts { .. });
        if !model.layers.iter().any(is_routed) {
            continue;
        }
        seen += 1;
        for (card, tensor_parallel) in [("h100", 1), ("b200", 8)] {
            let device = device(card);
            let calibration = for_device(&device, "vllm").calibration;
            let mut placement = placement();
            placement.tensor_parallel = tensor_parallel;
            let rates = work_rates(&device, &model, &placement);
            let mut cost = RooflineCost::new(&device, &model, &calibration, &placement).unwrap();
            for batch in [1, 64] {
                let (work, busy) = run_of(&mut cost, batch);
                let share = rates.bandwidth_utilisation(&work, busy);
                assert!(
                    (0.005..1.0).contains(&share),
                    "{name}, {batch} on {card}: {share}"
                );
            }
        }
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn no_format_computes_more_than_its_units_can() {
    use crate::model::Quantization;
    for (card, quantization) in [("h100", Quantization::Fp8), ("b200", Quantization::Nvfp4)] {
        let device = device(card);
        let model = llama_8b().with_quantization(quantization);
        let calibration = for_device(&device, "vllm").calibration;
        let rates = work_rates(&device, &model, &placement());
        let mut cost = RooflineCost::new(&device, &model, &calibration, &placement()).unwrap();
        let load = StepLoad {
            chunks: vec![Chunk {
                computed: 0,
                new: 8192,
            }],
            sampled_rows: 1,
            ..StepLoad::default()
        };
        let work = WorkSums {
            steps: 1.0,
            tokens: 8192.0,
            sampled_rows: 1.0,
            chunk_pairs_doubled: 8192.0 * 8193.0,
            chunk_kv_tokens: 8192.0,
            ..WorkSums::default()
        };
        let busy = Seconds(cost.step(&load).seconds());
        let share = rates.flops_utilisation(&work, busy);
        let in_16_bits = rates.flops(&work).0 / (device.peaks.bf16.0 * busy.0);
        assert!(
            (0.2..1.0).contains(&share) && share < 0.8 * in_16_bits,
            "{card}: {share}"
        );
    }
}

#[test]
fn experts_are_counted_step_by_step() {
    let (model, _) = crate::model::find("Qwen/Qwen3-30B-A3B").unwrap();
    let rates = work_rates(&device("h100"), &model, &placement());
    let mut by_size = StepsBySize::default();
    by_size.add(1, 127);
    by_size.add(1024, 1);
    let work = WorkSums {
        steps: 128.0,
        by_size,
        ..WorkSums::default()
    };
    let expected = 127.0 * rates.weight_bytes(1.0) + rates.weight_bytes(1024.0);
    assert!((rates.bytes(&work) / expected - 1.0).abs() < 1e-12);
}

#[test]
fn ranks_multiply_bandwidth_but_not_work() {
    let mut shared = placement();
    shared.tensor_parallel = 4;
    let shared = work_rates(&device("h100"), &llama_8b(), &shared);
    assert_eq!(shared.weight_bytes(1.0), rates().weight_bytes(1.0));
    assert_eq!(
        shared.bandwidth_bound_step(8, 100).0 * 4.0,
        rates().bandwidth_bound_step(8, 100).0
    );
}

#[test]
fn what_a_drafter_reads_is_counted_as_its_cost_does() {
    use crate::cost::roofline::Drafting;
    use crate::model::Drafter;
    let model = llama_8b();
    let drafting = Placement {
        drafting: Some(Drafting {
            drafts: 3,
            levels: 3,
            branches: 1,
            precede: false,
            drafter: Some(Drafter::eagle(&model, true)),
        }),
        ..placement()
    };
    let device = device("h100");
    let calibration = for_device(&device, "vllm").calibration;
    let cost = RooflineCost::new(&device, &model, &calibration, &drafting).unwrap();
    let with = work_rates(&device, &model, &drafting);
    for (sequences, context) in [(1, 100), (16, 2000), (64, 500)] {
        let mut load = StepLoad {
            sampled_rows: 4 * sequences,
            ..StepLoad::default()
        };
        (0..sequences).for_each(|_| load.add_verification(context, 3));
        let told = cost.breakdown(&load);
        let part = told.parts.iter().find(|part| part.operator == "drafter").unwrap();
        let mut work = WorkSums {
            steps: 1.0,
            tokens: load.tokens() as f64,
            decoded_tokens: f64::from(4 * sequences),
            sampled_rows: f64::from(4 * sequences),
            decode_kv_tokens: load.decode_kv_tokens as f64,
            ..WorkSums::default()
        };
        work.by_size.add(load.tokens(), 1);
        let drafted = with.bytes(&work) - rates().bytes(&work);
        assert!(
            (drafted / part.bytes - 1.0).abs() < 0.06,
            "{sequences} x {context}: {drafted} {}",
            part.bytes
        );
        // The bound of the step leaves out activations, no more.
        let bound = with.bandwidth_bound_step(sequences, context).0 * with.bandwidth.0;
        let all: f64 = told.parts.iter().map(|part| part.bytes).sum();
        assert!(
            (0.85..1.0).contains(&(bound / all)),
            "{sequences} x {context}: {bound} {all}"
        );
    }
}
