//! What of speculative decoding is refused, and what the rest comes to.

use crate::config::Resolved;
use crate::config::flags::tests::resolve_line;

fn told(more: &str) -> Result<Resolved, String> {
    let line = format!(
        "meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --request-rate 4 --input-len 512 --output-len 64 --num-prompts 100 \
         --max-model-len 4096 {more}"
    );
    resolve_line(&line).map_err(|problems| problems.to_string())
}

const EAGLE3: &str = "--spec-method eagle3 --spec-tokens 3";

#[test]
fn what_is_not_modelled_beside_drafts_is_refused() {
    let check = |more: &str, part: &str| match told(more) {
        Ok(_) => panic!("{more} is accepted"),
        Err(problems) => assert!(problems.contains(part), "{more}: {problems}"),
    };
    let rate = format!("{EAGLE3} --acceptance-rate 0.7");
    check(EAGLE3, "how many drafts stand is not said");
    check(
        "--spec-tokens 3 --acceptance-rate 0.7",
        "nothing says what drafts",
    );
    check(
        "--spec-method eagle3 --acceptance-rate 0.7",
        "does not say how many tokens",
    );
    check("--spec-method medusa --spec-tokens 3", "is not modelled");
    check("--spec-method mtp --spec-tokens 65", "must lie between 1 and 64");
    check(
        &format!("{rate} --engine vllm@0.11 --async-scheduling"),
        "cannot be scheduled asynchronously",
    );
    check(
        &format!("{rate} --engine vllm@0.11 --scheduling-policy priority"),
        "priorities in this version",
    );
    check(
        &format!("{rate} --replicas 2 --router kv_events"),
        "a router that follows KV events",
    );
    check(
        &format!("{rate} --max-num-batched-tokens 3 --max-num-seqs 3"),
        "does not fit into a step",
    );
    check(
        &format!("{rate} --long-prefill-token-threshold 2"),
        "cuts a decode with its drafts",
    );
    check(
        "--spec-method draft_model --spec-model TinyLlama/TinyLlama-1.1B-Chat-v1.0 --spec-tokens 3 --acceptance-rate 0.7",
        "has another vocabulary",
    );
    check(
        "--spec-method draft_model --spec-model meta-llama/Llama-3.2-1B-Instruct --spec-tokens 3 --acceptance-rate 0.7 --engine vllm@0.11",
        "is not taken by this version",
    );
    let config = |json: &str| format!("--speculative-config '{json}'");
    let twice = r#"{"method": "eagle", "num_speculative_tokens": 2, "acceptance_rate": 0.5, "synthetic_acceptance_length": 2}"#;
    check(&config(twice), "says twice");
    let ranks = r#"{"method": "eagle", "num_speculative_tokens": 2, "acceptance_rate": 0.5, "draft_tensor_parallel_size": 2}"#;
    check(&config(ranks), "the drafter has 2 ranks, and the model 1");
    let growing =
        r#"{"method": "eagle", "num_speculative_tokens": 2, "synthetic_acceptance_rates": [0.4, 0.5]}"#;
    check(&config(growing), "none above the one before");
}

#[test]
fn acceptance_is_said_in_three_ways() {
    let rates = |more: &str| {
        let json =
            format!(r#"--speculative-config '{{"method": "ngram", "num_speculative_tokens": 3{more}}}'"#);
        let resolved = told(&json).unwrap_or_else(|problems| panic!("{problems}"));
        let engine = resolved.scenario.first_pool().engine.vllm().unwrap().clone();
        engine.speculation.expect("it speculates").acceptance
    };
    assert_eq!(rates(r#", "acceptance_rate": 0.5"#), [0.5, 0.25, 0.125]);
    // Of the same mean the one that scatters least.
    assert_eq!(
        rates(r#", "synthetic_acceptance_length": 2.25"#),
        [1.0, 0.25, 0.0]
    );
    assert_eq!(
        rates(r#", "synthetic_acceptance_rates": [0.9, 0.5, 0.1]"#),
        [0.9, 0.5, 0.1]
    );
}

#[test]
fn no_drafts_are_none() {
    let engine = |more: &str| told(more).unwrap().scenario.first_pool().engine.clone();
    assert_eq!(engine("--spec-method eagle3 --spec-tokens 0"), engine(""));
}

#[test]
fn flags_of_older_releases_mean_the_same() {
    let old = "--speculative-model [ngram] --num-speculative-tokens 4 --ngram-prompt-lookup-max 4 --acceptance-rate 0.5";
    let new = "--spec-method ngram --spec-tokens 4 --acceptance-rate 0.5";
    let engine = |line: &str| told(line).map(|resolved| resolved.scenario.first_pool().engine.clone());
    // The former flag is taken out with its reason where a command line is read.
    assert_eq!(
        engine(&old.replace(" --ngram-prompt-lookup-max 4", "")),
        engine(new)
    );
}

#[test]
fn a_drafter_takes_memory() {
    let blocks = |more: &str| told(more).unwrap().memory.expect("memory decides").num_gpu_blocks;
    let (alone, eagle, ngram) = (
        blocks(""),
        blocks(&format!("{EAGLE3} --acceptance-rate 0.7")),
        blocks("--spec-method ngram --spec-tokens 3 --acceptance-rate 0.7"),
    );
    assert!(
        eagle < alone * 33 / 34,
        "a 33rd layer and weights: {eagle} of {alone}"
    );
    // Graphs of more tokens are captured, which takes no more than a little.
    assert!(ngram <= alone && ngram > eagle, "{ngram} of {alone}");
}
