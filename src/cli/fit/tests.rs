//! Answers as people and programs read them.

use super::*;
use crate::cli::Colour;
use crate::config::argv;
use clap::Parser;
use serde_json::Value;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn fit(words: &str) -> (String, ExitCode) {
    let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
    let words = argv::normalise(&words).args;
    let args = Cli::try_parse_from(std::iter::once("fit".to_string()).chain(words))
        .unwrap()
        .args;
    let mut out = Vec::new();
    let code = run(&args, &mut out, &Terminal::new(Colour::Never, true)).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

#[test]
fn the_first_line_is_the_verdict() {
    insta::assert_snapshot!(fit("Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --max-model-len 8192").0, @r#"
    FITS          weights 15.0 GiB · runtime ~2.5 · KV pool 55.3 GiB = 453k tokens in 28,303 blocks (128 KiB/token: 32 layers × 8 KV heads × 128 × 2, bfloat16)
    concurrency   55 requests × 8,192 tokens worst case  |  393 × 1,152 tokens typical
    ceilings      prefill ≤ 70.9k tok/s (compute roof)  |  decode bs=1 ≤ 223 tok/s (memory roof)  |  ridge point 295 tokens/step
    why           below ~295 tokens per step the GPU waits for memory; above it, for math   [--why for the arithmetic]
    assumed       vllm@0.33 defaults --gpu-memory-utilization 0.92 --max-num-batched-tokens 8192 --max-num-seqs 1024 --block-size 16
    assumed       a typical request --input-len 1024 --output-len 128
    estimated     runtime: activations, CUDA graphs and buffers, which an engine measures at start
    "#);
}

#[test]
fn a_misfit_says_what_was_assumed_and_offers_what_an_engine_takes() {
    let (text, _) = fit("meta-llama/Llama-3.1-8B-Instruct --gpu v100-sxm-16gb");
    assert!(text.contains("smallest change that fits: -tp "), "{text}");
    assert!(
        !text.contains("fp8") && !text.contains("awq"),
        "Volta has neither: {text}"
    );
    let (text, _) = fit("deepseek-ai/DeepSeek-R1 --gpu h100 -tp 8");
    assert!(
        text.contains("smallest change that fits: -tp 8 -pp 2\n"),
        "{text}"
    );
    assert!(text.contains(" assumed       vllm@0.33 defaults"), "{text}");
    let (text, code) = fit("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8 --gpu l4");
    assert_eq!(code, Exit::NotMet.into());
    assert!(
        text.contains(" note          RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8 is not bundled"),
        "{text}"
    );
    assert!(!text.contains("--quantization"), "{text}");
}

#[test]
fn a_typical_request_is_no_longer_than_the_context() {
    let (text, _) = fit("Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --max-model-len 1024");
    assert!(
        text.contains("× 1,024 tokens worst case  |  a typical request is longer"),
        "{text}"
    );
    let (text, _) = fit("Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --max-model-len 1024 --format json");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["typical_tokens"], &json["typical_concurrency"]),
        (&1024.into(), &json["max_concurrency"])
    );
}

#[test]
fn a_step_with_drafts_brings_more_than_a_token() {
    let ceiling = |more: &str| {
        let line = format!("Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 --format json {more}");
        let told: Value = serde_json::from_str(&fit(&line).0).unwrap();
        (
            told["decode_ceiling_tok_s"].as_f64().unwrap(),
            told["tokens_per_decode_step"].clone(),
        )
    };
    let (plain, none) = ceiling("");
    assert!(none.is_null());
    let drafts = "--spec-method eagle3 --spec-tokens 3";
    // 1 + 1/2 + 1/4 + 1/8; and where nobody says how many stand, all of them may.
    let stand = format!("{drafts} --acceptance-rate 0.5");
    // A step reads the model once, and a layer of 218.1 M weights, a head of 131.1 M and a projection of 50.3 M for each draft.
    let share = 15.0093 / (15.0093 + 3.0 * 2.0 * (0.2181 + 0.1311 + 0.0503));
    let near = |(ceiling, tokens): (f64, Value), expected: f64| {
        assert_eq!(tokens, expected);
        assert!(
            (ceiling / (plain * expected * share) - 1.0).abs() < 1e-3,
            "{ceiling}"
        );
    };
    near(ceiling(&stand), 1.875);
    near(ceiling(drafts), 4.0);
    // n-grams are looked up.
    let looked_up = ceiling("--spec-method ngram --spec-tokens 3 --acceptance-rate 0.5");
    assert_eq!(looked_up, (plain * 1.875, 1.875.into()));
    // Drafts that a mixture of experts verifies choose experts of their own.
    let of_experts = |more: &str| {
        let line = format!("Qwen/Qwen3-30B-A3B --gpu h100 --max-model-len 8192 --format json {more}");
        let told: Value = serde_json::from_str(&fit(&line).0).unwrap();
        told["decode_ceiling_tok_s"].as_f64().unwrap()
    };
    let gained = of_experts("--spec-method ngram --spec-tokens 3 --acceptance-rate 0.5") / of_experts("");
    assert!((0.5..0.9).contains(&gained), "{gained}");
    let text = fit(&format!(
        "Llama-3.1-8B-Instruct --gpu h100 --max-model-len 8192 {stand}"
    ))
    .0;
    let said = "decode bs=1 ≤ 361 tok/s (memory roof, 1.88 tokens a step)";
    assert!(text.contains(said), "{text}");
}

#[test]
fn another_version_has_defaults_of_its_own() {
    let assumed = |engine: &str| {
        let (text, _) = fit(&format!("Llama-3.1-8B --gpu h200 --format json {engine}"));
        let json: Value = serde_json::from_str(&text).unwrap();
        let scenario = &json["scenario"];
        (
            scenario["engine"].clone(),
            scenario["assumed"][0].clone(),
            json["num_gpu_blocks"].as_u64().unwrap(),
        )
    };
    let (name, share, newer) = assumed("");
    assert_eq!(
        (name, share),
        ("vllm@0.33".into(), "--gpu-memory-utilization 0.92".into())
    );
    let (name, share, older) = assumed("--engine vllm@0.11");
    assert_eq!(
        (name, share),
        ("vllm@0.11".into(), "--gpu-memory-utilization 0.9".into())
    );
    assert!(older < newer);
}

#[test]
fn the_states_of_a_hybrid_are_counted_as_vllm_lays_them_out() {
    let (text, _) = fit("Qwen3-Next-80B-A3B-Instruct --gpu H100-SXM-80GB --tp 4 --why");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("state")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    states        a request keeps 3 blocks of 12 layers for its states, 9.6 MiB, whatever its length; blocks of attention layers are 272 tokens long, so that a state fits into one
        state            3 inputs × 2,048 channels × 2 B + 8 heads × 128 × 128 × 2 B = 274,432 B a layer and request
        block size       274,432 B ÷ 1,024 B of a token in an attention layer = 272 tokens, the next multiple of 16; 1.5 % of a state's page is padding
        states           3 groups of 12 recurrent layers, a block of each for a request
        if cached        with prefix caching vLLM has 2,760,259 tokens in 8,729 blocks of 320 tokens: a request may keep 3 states in a group
    "#);
    assert!(text.contains(" B ÷ (272 tokens × 12,288 B) = 10,"), "{text}");
    assert!(text.contains("--no-enable-prefix-caching"), "{text}");
    let (text, _) = fit("Qwen3-Next-80B-A3B-Instruct --gpu H100-SXM-80GB --tp 4 --format json");
    let json: Value = serde_json::from_str(&text).unwrap();
    let states = &json["states"];
    assert_eq!(
        (&states["block_size"], &states["state_blocks_per_request"]),
        (&272.into(), &3.into())
    );
    assert_eq!(json["scenario"]["block_size"], 272);
}

#[test]
fn why_shows_the_arithmetic() {
    insta::assert_snapshot!(fit("openai/gpt-oss-20b --gpu l40s --tp 2 --why").0, @r#"
    FITS          weights 6.4 GiB · runtime ~1.8 · KV pool 32.6 GiB = 2.76M tokens in 178,253 blocks (24 KiB/token per GPU: 12 layers (window 128) × 4 KV heads × 64 × 2 + 12 layers × 4 KV heads × 64 × 2, bfloat16)
    concurrency   21 requests × 131,072 tokens worst case  |  1,237 × 1,152 tokens typical  |  at most 256 run at once (max_num_seqs)
    windows       2.76M tokens, as vLLM logs it, assumes full-length requests, whose windowed layers free old tokens; if every layer kept everything, the pool would hold 1.43M
    ceilings      prefill ≤ 120k tok/s (compute roof)  |  decode bs=1 ≤ 466 tok/s (memory roof)  |  ridge point 791 tokens/step
        memory           44.4 GiB that L40S-48GB offers × 0.92 = 40.85 GiB
      - weights          20,914,757,184 parameters, mxfp4 linear layers, bfloat16 rest, this GPU's share = 6.42 GiB
      - activations      sampling of 256 rows × 201,088 × 14 B + 2,048 × 2,880 × 2 B = 0.68 GiB (forward 0.11)   estimate
      - CUDA graphs      19.2 MiB a layer = 0.45 GiB   estimate
      - runtime          buffers and workspaces = 0.66 GiB   estimate
      = KV pool          the rest = 32.64 GiB
        KV per token     24 KiB/token per GPU: 12 layers (window 128) × 4 KV heads × 64 × 2 + 12 layers × 4 KV heads × 64 × 2, bfloat16
        KV blocks        35,046,041,569 B ÷ (16 tokens × 12,288 B) = 178,253 blocks ÷ 2 groups of layers = 1,426,016 tokens
        worst case       131,072 tokens take 8,457 blocks: 178,253 ÷ 8,457 = 21 requests
        typical          1,024 in + 128 out (assumed, a chat turn): 1,152 tokens take 144 blocks: 178,253 ÷ 144 = 1,237 requests
        windows          1 of 2 groups give back what slid out of 128 tokens: 265 blocks each, with the 4,096 that may be in flight
        logged           178,253 ÷ 8,457 × 131,072 tokens of the longest request = 2,762,679 tokens, as vLLM's log counts
        prefill roof     2 × 362 TFLOP/s ÷ 6.06 GFLOP a token = 120k tok/s
        decode roof      864 GB/s ÷ 1.86 GB of weights read a step = 466 tok/s for one sequence
        ridge point      (11.4 GB of layers ÷ 864 GB/s) ÷ (6.06 GFLOP ÷ 362 TFLOP/s) = 791 tokens
    assumed       vllm@0.33 defaults --gpu-memory-utilization 0.92 --max-model-len 131072 --max-num-batched-tokens 2048 --max-num-seqs 256 --block-size 16
    assumed       a typical request --input-len 1024 --output-len 128
    estimated     runtime: activations, CUDA graphs and buffers, which an engine measures at start
    note          cached prefixes are found by the layers that attend to everything; vLLM also asks whether the last window is still cached, and may share it
    "#);
}

#[test]
fn engines_that_share_experts_are_counted_as_they_run() {
    let dp_attention = "deepseek-ai/DeepSeek-V3 --gpu h200 --engine sglang@0.5.4 -tp 8 -dp 8 --enable-dp-attention --enable-dp-lm-head";
    let (text, code) = fit(&format!("{dp_attention} --context-length 8192"));
    assert_eq!(code, ExitCode::SUCCESS, "{text}");
    // An expert of a token is a slice on each of the eight GPUs: one engine that decodes alone reads an eighth of what it uses.
    let ceiling = |more: &str| {
        let (text, _) = fit(&format!(
            "mistralai/Mixtral-8x22B-v0.1 --gpu h200 --max-model-len 20000 --format json {more}"
        ));
        let json: Value = serde_json::from_str(&text).unwrap();
        (
            json["prefill_ceiling_tok_s"].as_f64().unwrap(),
            json["decode_ceiling_tok_s"].as_f64().unwrap(),
        )
    };
    let (prefill, decode) = ceiling("-dp 8");
    assert!(decode > 70.5, "{decode}");
    // All eight work for one request where they split every layer, and compute no more for prompts of all than they do so.
    let (split_prefill, split_decode) = ceiling("-tp 8");
    assert!(
        (8.0 * prefill / split_prefill - 1.0).abs() < 1e-6,
        "{prefill} {split_prefill}"
    );
    assert!(split_decode > decode);
    let (text, _) = fit("mistralai/Mixtral-8x22B-v0.1 --gpu h200 --max-model-len 20000 -dp 8");
    assert!(text.contains("in all        8 engines: "), "{text}");
}

#[test]
fn each_engine_runs_as_many_at_once_as_its_own_limit() {
    for (engine, most) in [
        ("sglang@0.5.23", None),
        (
            "sglang@0.5.4 --max-running-requests 16",
            Some("16 run at once (max_running_requests)"),
        ),
        ("static", Some("8 run at once (max_num_seqs)")),
        ("hf-cb", None),
        ("vllm@0.6", Some("256 run at once (max_num_seqs)")),
    ] {
        let (text, _) = fit(&format!("Llama-3.1-8B --gpu h100 --engine {engine}"));
        let told = text
            .split("|  at most ")
            .nth(1)
            .and_then(|rest| rest.lines().next());
        assert_eq!(told, most, "{engine}");
    }
    let (text, _) = fit("Llama-3.1-8B --gpu h100 --engine sglang --max-total-tokens 10000 --format json");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["kv_tokens"], 10_000);
    assert_eq!(json["scenario"]["max_num_seqs"], 2048);
    assert_eq!(json["scenario"]["max_num_batched_tokens"], 8192);
}

#[test]
fn a_pool_that_holds_no_longest_request_is_told_of() {
    let long = "Qwen/Qwen3-30B-A3B-Instruct-2507 --gpu h200 --engine hf-cb";
    for (flags, told) in [
        (
            "google/gemma-3-27b-it --gpu h100 --engine sglang",
            "cuts answers at 31,560 tokens, prompt included",
        ),
        (long, "refuses requests of more than 131,072 tokens"),
    ] {
        let (text, code) = fit(flags);
        let warning = text.lines().find(|line| line.starts_with(" warning"));
        assert!(
            warning.is_some_and(|line| line.contains(told)),
            "{flags}:\n{text}"
        );
        assert_eq!(code, ExitCode::SUCCESS, "the server starts");
        let json: Value = serde_json::from_str(&fit(&format!("{flags} --format json")).0).unwrap();
        assert!(json["warning"].as_str().unwrap().contains(told), "{json}");
    }
    assert!(
        !fit("Llama-3.1-8B --gpu h100 --engine sglang")
            .0
            .contains("warning")
    );
    let (text, code) = fit("google/gemma-3-27b-it --gpu h100 --engine static");
    assert!(
        text.starts_with(" DOES NOT FIT") && code == ExitCode::from(3),
        "{text}"
    );
}

#[test]
fn loading_is_held_against_computing() {
    let flags = "Llama-3.1-8B --gpu h100 --kv-offloading-size 50 --kv-offloading-backend lmcache";
    let (text, _) = fit(&format!("{flags} --why"));
    for line in [
        " loading       KV beats computing above",
        "host 20.0 GB/s: pays from 512 tokens",
        "     break-even       131,072 B a token and rank ÷ (",
        "     from host        1.00 ms look-up and latency + 8,192 tokens at 20.0 GB/s",
        "load_bandwidth 20 GB/s (paged KV over PCIe, usual: 10 to 25 GB/s)",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    let json: Value = serde_json::from_str(&fit(&format!("{flags} --format json")).0).unwrap();
    let told = &json["break_even"];
    let (bytes, needed) = (
        told["kv_bytes_per_token_and_rank"].as_f64().unwrap(),
        told["needed_bytes_per_s_and_rank"].as_f64().unwrap(),
    );
    let per_token = told["compute_s"].as_f64().unwrap() / told["prompt_tokens"].as_f64().unwrap();
    assert!((bytes / per_token / needed - 1.0).abs() < 1e-9);
}

#[test]
fn what_does_not_fit_exits_with_3() {
    let (text, code) = fit("meta-llama/Llama-3.1-70B-Instruct --gpu A100-SXM-80GB");
    insta::assert_snapshot!(text, @r#"
    DOES NOT FIT  needs 131.4 GiB weights + 2.1 GiB activations and runtime a GPU, A100-SXM-80GB offers 72.8 GiB
     smallest change that fits: --quantization fp8 --max-model-len 9216   |   -tp 2 --max-model-len 28672   |   -tp 4
     fits barely, by less than the 0.5 GiB by which what is estimated may be off: --quantization fp8 --max-model-len 9216   |   -tp 2 --max-model-len 28672
    assumed       vllm@0.33 defaults --gpu-memory-utilization 0.92 --max-model-len 131072 --max-num-batched-tokens 2048 --max-num-seqs 256 --block-size 16
    "#);
    assert_eq!(code, ExitCode::from(3));
}

#[test]
fn json_has_the_blocks_and_is_consistent() {
    let (text, _) = fit("Qwen/Qwen3-8B --gpu h200 --kv-cache-dtype fp8 --format json");
    let json: Value = serde_json::from_str(&text).unwrap();
    let number = |key: &str| json[key].as_u64().unwrap();
    assert_eq!(number("kv_tokens"), 16 * number("num_gpu_blocks"));
    assert_eq!(
        number("num_gpu_blocks"),
        number("kv_pool_bytes") / number("kv_block_bytes")
    );
    assert_eq!(json["scenario"]["kv_bytes_per_token"], 36 * 8 * 128 * 2);
    let (text, _) = fit("llama-3.1-405b --gpu l4 --format json");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["fits"], false);
}

#[test]
fn a_pool_may_be_given_with_a_unit() {
    let (text, _) =
        fit("Llama-3.1-8B --gpu h100 --max-model-len 4096 --kv-cache-memory-bytes 24GiB --format json");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["max_concurrency"], 48);
}

#[test]
fn a_quantized_kv_cache_doubles_the_tokens() {
    let tokens = |flags: &str| {
        let (text, _) = fit(&format!("Llama-3.1-8B --gpu h100 --format json {flags}"));
        serde_json::from_str::<Value>(&text).unwrap()["kv_tokens"]
            .as_u64()
            .unwrap()
    };
    assert!(tokens("--kv-cache-dtype fp8").abs_diff(2 * tokens("")) <= 32);
}

#[test]
fn what_hardly_fits_says_so_and_what_hardly_does_not_has_digits_for_it() {
    let line = "meta-llama/Llama-3.1-70B-Instruct --gpu H100-SXM-80GB --quantization fp8 --max-model-len";
    let (text, code) = fit(&format!("{line} 5376"));
    assert_eq!(code, Exit::NotMet.into());
    let figures: Vec<&str> = text.lines().next().unwrap().split(" GiB").collect();
    let last_word = |part: &str| part.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let (needed, left) = (last_word(figures[0]), last_word(figures[1]));
    assert!(needed > left && needed - left < 0.1, "{text}");
    assert!(text.contains("fits barely, by less than the 0.5 GiB"), "{text}");
    assert!(text.contains("may be off: --max-model-len 5120\n"), "{text}");

    let (text, code) = fit(&format!("{line} 5120"));
    assert_eq!(code, Exit::Ok.into());
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with(" FITS, BARELY"), "{text}");
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with(" margin        one request of 5,120 tokens leaves "),
        "{text}"
    );
    let (text, _) = fit(&format!("{line} 1024"));
    assert!(text.starts_with(" FITS  ") && !text.contains("margin"), "{text}");
    let (json, _) = fit(&format!("{line} 5120 --format json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["spare_bytes"].as_u64().unwrap() < 1 << 29, "{json}");
    assert!(json["warning"].as_str().unwrap().contains("may be off"), "{json}");

    // More would fit than the engine takes, so that no estimate decides.
    let capped = "Llama-3.1-8B-Instruct --gpu b200 --engine hf-cb";
    let (text, _) = fit(capped);
    assert!(text.starts_with(" FITS  ") && !text.contains("margin"), "{text}");
    assert!(text.contains("4,096 blocks"), "{text}");

    // It starts whatever its pool holds, and cuts what does not fit.
    let trtllm =
        "meta-llama/Llama-3.1-70B-Instruct --gpu H100-SXM-80GB --quantization fp8 --engine tensorrt-llm";
    let (text, _) = fit(&format!("{trtllm} --max-seq-len 22000"));
    assert!(text.starts_with(" FITS  "), "{text}");
    let (json, _) = fit(&format!("{trtllm} --max-seq-len 24000 --format json"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["spare_bytes"].is_null(), "{json}");
}

#[test]
fn all_that_lies_in_the_memory_of_a_card_is_no_more_than_it_has() {
    let small =
        "NousResearch/Meta-Llama-3-8B-Instruct --gpu RTX-5080-16GB --quantization fp8 --kv-cache-dtype fp8";
    for line in [
        &format!("{small} --max-seq-len 8192"),
        "THUDM/GLM-4-32B-0414 --gpu rtx-4080-16gb --quantization awq -tp 2",
    ] {
        let (text, _) = fit(&format!("{line} --engine tensorrt-llm@1.2 --format json"));
        let json: Value = serde_json::from_str(&text).unwrap();
        let parts = ["weight", "activation", "cuda_graph", "runtime", "kv_pool"];
        let bytes = |part: &str| json[format!("{part}_bytes")].as_u64().unwrap();
        let all: u64 = parts.into_iter().map(bytes).sum();
        assert!(all <= bytes("memory"), "{line}: {all} B; {json}");
    }
}

#[test]
fn a_stage_has_the_kv_of_its_own_layers() {
    let (text, _) = fit("meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm -tp 2 -pp 2 --why");
    let own = "32 KiB/token per GPU: 16 of 32 layers × 4 KV heads × 128 × 2, bfloat16";
    assert_eq!(text.matches(own).count(), 2, "{text}");
    assert!(text.contains("÷ (16 tokens × 32,768 B)"), "{text}");
    // 61 layers, of which three are dense: stages of 30 and 31, the second of experts alone.
    for line in [
        "meta-llama/Llama-3.1-70B-Instruct --gpu h100 -pp 4",
        "meta-llama/Llama-3.1-70B-Instruct --gpu h100 -tp 2 -pp 3",
        "deepseek-ai/DeepSeek-V3 --gpu h200 -tp 8 -pp 2",
    ] {
        let json: Value = serde_json::from_str(&fit(&format!("{line} --format json")).0).unwrap();
        let number = |of: &Value| of.as_u64().unwrap();
        assert_eq!(
            number(&json["scenario"]["kv_bytes_per_token"]) * number(&json["scenario"]["block_size"]),
            number(&json["kv_block_bytes"]),
            "{line}"
        );
    }
}

#[test]
fn a_typical_request_says_where_it_comes_from() {
    let model = "Llama-3.1-8B-Instruct --gpu h100-sxm";
    let (text, _) = fit(&format!("{model} --why"));
    assert!(text.contains(" × 1,152 tokens typical"), "{text}");
    assert!(
        text.contains(" assumed       a typical request --input-len 1024 --output-len 128\n"),
        "{text}"
    );
    assert!(
        text.contains("  typical          1,024 in + 128 out (assumed, a chat turn): 1,152 tokens take 72"),
        "{text}"
    );
    let (text, _) = fit(&format!("{model} --input-len 500 --output-len 1k --why"));
    assert!(text.contains(" × 1,500 tokens as given"), "{text}");
    assert!(!text.contains("a typical request"), "{text}");
    let (text, _) = fit(&format!("{model} --input-len 500"));
    assert!(
        text.contains(" assumed       a typical request --output-len 128\n"),
        "{text}"
    );
    let (text, _) = fit("quickstart --why");
    assert!(text.contains(" × 1,366 tokens in the traffic's mean"), "{text}");
    assert!(
        text.contains("1,155 in + 211 out (the mean of the scenario's traffic): "),
        "{text}"
    );
    assert!(!text.contains("a typical request"), "{text}");
    let (json, _) = fit("quickstart --output-len 300 --format json");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["typical_tokens"], 1455);
}

#[test]
fn where_heads_do_not_divide_the_nearest_groups_that_fit_are_told() {
    let change = |line: &str| {
        let (text, _) = fit(line);
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("  smallest change that fits: "));
        lines.next().unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(
        change("Llama-3.1-8B-Instruct --gpu h100-sxm -tp 3"),
        "-tp 2   |   -tp 4"
    );
    assert_eq!(change("Qwen/Qwen2.5-7B-Instruct --gpu h100-sxm -tp 8"), "-tp 4");
    let of_70b = change("meta-llama/Llama-3.1-70B-Instruct --gpu h100-sxm -tp 3");
    assert!(
        of_70b.ends_with("   |   -tp 4") && of_70b.contains("-tp 2 --max-model-len"),
        "{of_70b}"
    );
    assert_eq!(of_70b.matches("-tp 4").count(), 1, "{of_70b}");
}
