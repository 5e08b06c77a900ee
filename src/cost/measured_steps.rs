//! Whole steps and kernels that this project timed on GPUs itself (`calibrations/measured/engine_kernels.py`), against what ships, as
//! tests. Nothing was fitted to them.
//!
//! The steps are of Llama-3.1-8B in one CUDA graph, with the kernels of vLLM 0.33 and no host; so the host is left out of what is
//! predicted, too. Each has three times: of a rested card, the median of a second on end, and after it, when the card is at its power limit;
//! an H100's are of five or seven steps on end, and its steps of decodes alone had no rest before.

use super::calibration::{Calibration, for_device, shipped};
use super::roofline::{Placement, RooflineCost};
use super::testing::{self, Row, device, number, placement, whole};
use super::{StepCost, StepLoad};

fn rows(card: &str, file: &str) -> impl Iterator<Item = Row> {
    testing::rows(&format!("measured/{card}-{file}.csv"))
}

fn short(row: &Row, key: &str) -> u32 {
    whole(row, key) as u32
}

/// Least, median and greatest of predicted over measured, less one, in percent.
fn spread(mut errors: Vec<f64>) -> [f64; 3] {
    errors.sort_by(f64::total_cmp);
    [errors[0], errors[errors.len() / 2], errors[errors.len() - 1]].map(|error| 100.0 * error)
}

/// Demands a least and a greatest error, and between them a median no further from none than said.
fn within(what: &str, [least, median, most]: [f64; 3], bars: [f64; 3]) {
    assert!(
        least >= bars[0] && median.abs() <= bars[1] && most <= bars[2],
        "{what}: {least:+.1} {median:+.1} {most:+.1} %, demanded {bars:?}"
    );
}

fn load(row: &Row) -> StepLoad {
    let mut load = StepLoad::default();
    for _ in 0..short(row, "decodes") {
        load.add(short(row, "context") - 1, 1);
    }
    for _ in 0..short(row, "chunks") {
        load.add(short(row, "chunk_context") - short(row, "new"), short(row, "new"));
    }
    load.sampled_rows = short(row, "decodes") + short(row, "chunks");
    load
}

/// Errors of the GPU's part of the steps that `keep` keeps.
fn steps(card: &str, calibration: &Calibration, time: fn(&Row) -> f64, keep: fn(&Row) -> bool) -> [f64; 3] {
    let (shape, _) = crate::model::find("meta-llama/Llama-3.1-8B-Instruct").unwrap();
    let cost = RooflineCost::new(&device(card), &shape, calibration, &placement()).unwrap();
    let error = |row: &Row| {
        let parts = cost.breakdown(&load(row)).parts;
        let gpu = parts.iter().filter(|part| part.operator != "host");
        let seconds: f64 = gpu.map(|part| part.seconds).sum();
        1e3 * seconds / time(row) - 1.0
    };
    let kept: Vec<Row> = rows(card, "steps").filter(keep).collect();
    assert!(kept.len() > 5, "{card}: {} rows", kept.len());
    spread(kept.iter().map(error).collect())
}

/// A rested card's. Of an H100's decodes, which had no rest before, the first replay was in some cases the slowest: there the median stands in.
fn rested(row: &Row) -> f64 {
    number(row, "first_ms").min(number(row, "median_ms"))
}

/// After a second on end, or what an H100 was given.
fn lasting(row: &Row) -> f64 {
    number(row, "last_ms")
}

fn only_decodes(row: &Row) -> bool {
    row["chunks"] == "0"
}

fn has_chunks(row: &Row) -> bool {
    !only_decodes(row)
}

#[test]
fn decode_steps_are_what_a_rested_card_takes() {
    for card in ["h100", "h200"] {
        let calibration = for_device(&device(card), "vllm").calibration;
        let errors = steps(card, &calibration, rested, only_decodes);
        within(card, errors, [-5.0, 2.5, 6.0]);
    }
}

#[test]
fn steps_with_prompts_lie_between_a_rested_card_and_one_at_its_power_limit() {
    for card in ["h100", "h200"] {
        let calibration = for_device(&device(card), "vllm").calibration;
        let fresh = steps(card, &calibration, rested, has_chunks);
        let tired = steps(card, &calibration, lasting, has_chunks);
        within(&format!("{card} rested"), fresh, [-6.5, 5.0, 11.0]);
        within(&format!("{card} lasting"), tired, [-21.0, 14.0, 1.0]);
    }
}

#[test]
fn a_probes_file_tells_decodes_and_prompts_under_lasting_load() {
    for card in ["h100", "h200"] {
        let base = for_device(&device(card), "vllm").calibration;
        let calibration = shipped(&format!("{card}-probe")).unwrap().over(&base);
        let decodes = steps(card, &calibration, rested, only_decodes);
        let prompts = steps(card, &calibration, lasting, has_chunks);
        within(&format!("{card} decodes"), decodes, [-6.0, 2.0, 12.0]);
        within(&format!("{card} prompts"), prompts, [-13.5, 8.0, 14.0]);
    }
}

#[test]
fn decoding_over_a_latent_cache_takes_what_flash_attention_takes() {
    let (shape, _) = crate::model::find("deepseek-ai/DeepSeek-V3").unwrap();
    for card in ["h100", "h200"] {
        let calibration = for_device(&device(card), "vllm").calibration;
        let error = |row: &Row| {
            let heads = short(row, "heads");
            let placement = Placement {
                tensor_parallel: 128 / heads,
                ..placement()
            };
            let cost = RooflineCost::new(&device(card), &shape, &calibration, &placement).unwrap();
            let load = StepLoad::of_decodes(short(row, "batch"), short(row, "context"));
            let parts = cost.breakdown(&load).parts;
            let attention = parts.iter().filter(|part| part.operator == "decode_attention");
            let seconds: f64 = attention.map(|part| part.seconds).sum();
            1e6 * seconds / f64::from(shape.layer_count()) / number(row, "us") - 1.0
        };
        let batches = rows(card, "latent").filter(|row| short(row, "batch") > 1);
        let errors = spread(batches.map(|row| error(&row)).collect());
        // The greatest is of kernels of 15 us.
        within(card, errors, [-15.0, 6.0, 28.0]);
    }
}
