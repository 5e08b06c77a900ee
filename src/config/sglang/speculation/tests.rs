//! What SGLang's flags of speculative decoding come to, and what is refused of them.

use crate::config::Resolved;
use crate::config::flags::tests::resolve_line;
use crate::config::sglang::Algorithm;
use crate::config::sglang::Tree;
use crate::engine::EngineSpec;
use crate::engine::sglang::SglangConfig;

fn told(model: &str, more: &str) -> Result<Resolved, String> {
    let given = |flag: &str, value: &str| match more.contains(flag) {
        true => String::new(),
        false => format!("{flag} {value}"),
    };
    let (gpu, engine) = (
        given("--gpu", "H100-SXM-80GB"),
        given("--engine", "sglang@0.5.23"),
    );
    let line = format!(
        "{model} --request-rate 4 --input-len 512 --output-len 64 --num-prompts 100 {gpu} {engine} {more}"
    );
    resolve_line(&line).map_err(|problems| problems.to_string())
}

const LLAMA: &str = "meta-llama/Llama-3.1-8B-Instruct";
const EAGLE3: &str =
    "--speculative-algorithm EAGLE3 --speculative-draft-model-path lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B";
const CHAIN: &str = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4";

fn config(resolved: &Resolved) -> SglangConfig {
    match &resolved.scenario.first_pool().engine {
        EngineSpec::Sglang(config) => config.clone(),
        other => panic!("{} is not SGLang", other.profile()),
    }
}

#[test]
fn a_chain_keeps_pages_for_two_verifications_and_lets_48_run() {
    let resolved = told(LLAMA, &format!("{EAGLE3} {CHAIN} --acceptance-length 2.5")).unwrap();
    let config = config(&resolved);
    let drafts = config.drafts.unwrap();
    assert_eq!((drafts.tokens, drafts.levels, drafts.reserve), (4, 3, 8));
    assert!(drafts.names_pairs);
    assert_eq!(drafts.acceptance, [1.0, 0.5, 0.0]);
    assert_eq!(config.max_running_requests, 48);
    let sizes = &resolved.placement.graphs.capture_sizes;
    assert_eq!(&sizes[..3], [4, 8, 12]);
    assert_eq!(sizes.last(), Some(&192));
}

#[test]
fn drafts_are_chosen_by_the_model_where_nobody_says() {
    let rate = "--acceptance-rate 0.6";
    let of = |model: &str, more: &str| config(&told(model, more).unwrap()).drafts.unwrap();
    let tree = of(LLAMA, &format!("{EAGLE3} {rate}"));
    assert_eq!((tree.tokens, tree.levels, tree.reserve), (8, 5, 40));
    let qwen = "Qwen/Qwen3-8B";
    let head = "--speculative-algorithm EAGLE --speculative-draft-model-path some/head";
    let chain = of(qwen, &format!("{head} {rate}"));
    assert_eq!((chain.tokens, chain.levels, chain.reserve), (4, 3, 8));
    let ngrams = of(qwen, &format!("--speculative-algorithm ngram {rate}"));
    assert_eq!((ngrams.tokens, ngrams.levels, ngrams.reserve), (12, 11, 24));
    assert!(!ngrams.names_pairs);
}

#[test]
fn each_branch_of_a_tree_has_pages_of_its_own() {
    let reserve = |branches, page| {
        let tree = Tree {
            steps: 5,
            branches,
            tokens: 8,
        };
        tree.reserve(Algorithm::Eagle3, page)
    };
    assert_eq!(reserve(1, 64), 16);
    assert_eq!(reserve(4, 1), 40);
    // ⌈(15 + 5) / 16⌉ = 2 pages of 16 for each of 4 branches.
    assert_eq!(reserve(4, 16), 256);
}

#[test]
fn vllms_keys_ask_for_the_same() {
    let by_vllm = "--spec-method eagle3 --spec-model some/head --spec-tokens 3 --acceptance-rate 0.7";
    let own = format!("{EAGLE3} {CHAIN} --acceptance-rate 0.7");
    let drafts = |more: &str| config(&told(LLAMA, more).unwrap()).drafts;
    assert_eq!(drafts(by_vllm), drafts(&own));
    assert_eq!(drafts("--spec-method eagle3 --spec-tokens 0"), None);
}

#[test]
fn what_is_not_modelled_beside_drafts_is_refused() {
    let check = |model: &str, more: &str, part: &str| match told(model, more) {
        Ok(_) => panic!("{more} is accepted"),
        Err(problems) => assert!(problems.contains(part), "{more}: {problems}"),
    };
    let asked = format!("{EAGLE3} {CHAIN} --acceptance-rate 0.7");
    check(
        LLAMA,
        &format!("{EAGLE3} {CHAIN}"),
        "how many drafts stand is not said",
    );
    check(LLAMA, "--acceptance-rate 0.7", "nothing says what drafts");
    check(LLAMA, "--speculative-algorithm DFLASH", "which is not modelled");
    check(LLAMA, "--speculative-algorithm EAGEL", "did you mean EAGLE?");
    check(
        LLAMA,
        "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --acceptance-rate 0.7",
        "how many branches",
    );
    check(
        LLAMA,
        "--speculative-algorithm EAGLE3 --speculative-eagle-topk 1 --acceptance-rate 0.7",
        "how many steps",
    );
    check(
        LLAMA,
        &format!("--speculative-algorithm EAGLE3 {CHAIN} --acceptance-rate 0.7"),
        "which EAGLE-3 head",
    );
    check(
        LLAMA,
        &format!("{asked} --acceptance-length 2"),
        "says twice how many drafts stand",
    );
    check(
        LLAMA,
        &format!("{asked} --engine sglang@0.5.4"),
        "is not modelled for SGLang 0.5.4",
    );
    check(
        LLAMA,
        &format!("{asked} --enable-mixed-chunk"),
        "is not modelled beside drafts",
    );
    check(
        LLAMA,
        &format!("{asked} --replicas 2 --router kv_events"),
        "a router that follows KV events",
    );
    check(
        LLAMA,
        &format!("{EAGLE3} --acceptance-rate 0.7 --attention-backend fa4 --page-size 16"),
        "drafts trees, which the attention kernels do not verify",
    );
    check(
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        &format!("--speculative-algorithm NEXTN {CHAIN} --acceptance-rate 0.7 -tp 4"),
        "layers that keep a state",
    );
    check(
        "deepseek-ai/DeepSeek-V3.2",
        &format!("--speculative-algorithm EAGLE {CHAIN} --acceptance-rate 0.7 --gpu H200 -tp 8"),
        "is not modelled beside sparse attention",
    );
}
