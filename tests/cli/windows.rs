//! Models with sliding windows: what fits is what runs. Blocks are counted by hand, as vLLM 0.33 does with its defaults on an
//! H100: blocks of 16 tokens, 8,192 tokens a step, two steps in flight.

use serde_json::Value;

use super::{Desk, text};

fn json(words: &str) -> Value {
    let printed = Desk::new().run(&format!("{words} --format json"));
    serde_json::from_slice(&printed.stdout)
        .unwrap_or_else(|error| panic!("plimsoll {words}: {error}\n{}", text(&printed.stderr)))
}

/// Usable blocks of the pool, and the most that a run of one burst held at once.
fn peak(model: &str, context: u32, traffic: &str) -> (u64, u64) {
    let fits = json(&format!("fit {model} --gpu h100-sxm --max-model-len {context}"));
    let usable = fits["num_gpu_blocks"].as_u64().unwrap() - 1;
    let run = json(&format!(
        "run {model} --gpu h100-sxm --max-model-len {context} {traffic}"
    ));
    let share = run["plimsoll"]["whole"]["occupancy"]["kv_usage_max"]
        .as_f64()
        .unwrap();
    (usable, (share * usable as f64).round() as u64)
}

/// gpt-oss-120b: a group of 18 layers that keeps everything, one of 18 with a window of 128.
const OSS: &str = "openai/gpt-oss-120b";

#[test]
fn one_long_request_fits_and_runs() {
    let fits = json(&format!("fit {OSS} --gpu h100-sxm"));
    // 131,072 tokens: 8,192 blocks, and of the window's group (127 + 2·8,192)/16 rounded up, and one: 1,033. The pool has
    // room for one such request.
    let blocks = fits["num_gpu_blocks"].as_u64().unwrap();
    assert_eq!(blocks / (8192 + 1033), 1);
    assert_eq!(fits["max_concurrency"], 1);
    let traffic = "--input-len 130000 --output-len 1000 --max-concurrency 1 --num-prompts 2";
    let (usable, peak) = peak(OSS, 131_072, traffic);
    assert_eq!(usable, blocks - 1);
    // The prompt's 16th and last chunk begins at 122,880, while the 15th is in flight: 8,125 blocks, of which the window's
    // group has given back those before 114,688 − 127 tokens, 7,160.
    assert_eq!(peak, 8125 + (8125 - 7160));
    let run = json(&format!("run {OSS} --gpu h100-sxm {traffic}"));
    assert_eq!(run["completed"], 2);
}

#[test]
fn more_long_requests_run_at_once_than_are_promised() {
    let server = format!("{OSS} --gpu h100-sxm --max-model-len 32768");
    let fits = json(&format!("fit {server}"));
    // Worst case 2,048 + 1,033 blocks each: 15,365 ÷ 3,081.
    assert_eq!(fits["max_concurrency"], 4);
    // A prompt of 30,000 tokens asks for 1,875 blocks and the window's 1,033. Six that decode hold 1,875 to 1,938 and 9 or 10
    // each, at most 11,688, and leave 3,676 of 15,364 or more; seven leave 2,176 at best.
    let traffic = "--input-len 30000 --output-len 1000 --num-prompts 12 --request-rate inf";
    let run = json(&format!("run {server} {traffic}"));
    assert_eq!(run["plimsoll"]["whole"]["occupancy"]["running_max"], 7);
}

#[test]
fn a_sequence_holds_what_its_windows_see() {
    // 4,096 tokens are one chunk: 256 blocks in both groups. It is in flight when the first answer token is scheduled, so
    // both have 257 then; afterwards the window's group keeps 9 or 10 and the other ends with 320.
    let (_, peak_of_oss) = peak(
        OSS,
        131_072,
        "--input-len 4096 --output-len 1024 --max-concurrency 1 --num-prompts 1",
    );
    assert_eq!(peak_of_oss, 2 * 257);
    // Where the answer is the longer part, the full group decides: 40 + 40 blocks for 640 tokens, then 320 and 10 for 5,119:
    // counted in tokens over the run of steps, a block more or less.
    let (_, peak_of_oss) = peak(
        OSS,
        131_072,
        "--input-len 512 --output-len 4608 --max-concurrency 1 --num-prompts 1",
    );
    assert!((328..=331).contains(&peak_of_oss), "{peak_of_oss}");
    // gemma-3-27b: a group of 10 layers that keeps everything, six with a window of 1,024, and 8,192 tokens in one chunk: 512
    // blocks each, 513 for the first answer token.
    let traffic = "--input-len 8192 --output-len 64 --max-concurrency 1 --num-prompts 1";
    let (_, peak_of_gemma) = peak("google/gemma-3-27b-it", 16_384, traffic);
    assert_eq!(peak_of_gemma, 7 * 513);
}

#[test]
fn engines_that_tell_no_layers_apart_say_so() {
    for (words, said) in [
        (format!("fit {OSS} --gpu h100-sxm"), "attend to everything"),
        (
            format!("fit {OSS} --gpu h100-sxm --engine sglang"),
            "swa_full_tokens_ratio",
        ),
        (
            "fit mistralai/Mistral-7B-v0.1 --gpu h100-sxm".to_string(),
            "--no-enable-prefix-caching",
        ),
    ] {
        let fits = json(&words);
        let notes = fits["scenario"]["notes"].to_string();
        assert!(notes.contains(said), "plimsoll {words}: {notes}");
    }
}
