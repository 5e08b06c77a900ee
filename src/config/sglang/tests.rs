//! SGLang as the engine: its flags and defaults, and those of vLLM beside it.

use insta::assert_snapshot;

use crate::config::flags::tests::{FILES, resolve_line};
use crate::config::*;

/// SGLang on a machine of its own, with these flags.
fn sglang(flags: &str) -> Result<crate::engine::sglang::SglangConfig, Diagnostics> {
    let machine = "--model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64";
    match resolve_line(&format!("{machine} {flags}"))?
        .scenario
        .first_pool()
        .engine
        .clone()
    {
        crate::engine::EngineSpec::Sglang(config) => Ok(config),
        _ => panic!("SGLang was asked for"),
    }
}

#[test]
fn sglang_has_its_own_defaults_and_flags() {
    use crate::engine::sglang::{QueuePolicy, SglangSwitches};
    let plain = sglang("--engine sglang").unwrap();
    assert_eq!(plain.profile, "sglang@0.5.23");
    assert_eq!(
        (
            plain.chunked_prefill_size,
            plain.max_prefill_tokens,
            plain.page_size
        ),
        (Some(8192), 16384, 1)
    );
    assert_eq!(
        (plain.context_length, plain.max_running_requests),
        (131_072, 2048)
    );
    assert!(plain.overlap_schedule && plain.radix_cache && !plain.enable_mixed_chunk);
    // 0.828 of 79.2 GiB, less 15 GiB of weights, at 128 KiB a token.
    assert!(
        (380_000..420_000).contains(&plain.max_total_tokens),
        "{}",
        plain.max_total_tokens
    );
    let old = sglang("--engine sglang@0.5.4").unwrap();
    assert_eq!(old.switches, SglangSwitches::V0_5_4);
    assert!(old.max_total_tokens > plain.max_total_tokens);

    let set = "--engine sglang --schedule-policy dfs-weight --chunked-prefill-size -1 --disable-overlap-schedule \
               --max-total-tokens 4096 --page-size 16 --schedule-conservativeness 2 --disable-radix-cache";
    let set = sglang(set).unwrap();
    assert_eq!(
        (set.policy, set.chunked_prefill_size),
        (QueuePolicy::DfsWeight, None)
    );
    assert_eq!((set.max_total_tokens, set.max_running_requests), (4096, 2048));
    assert!(!set.overlap_schedule && !set.radix_cache && (set.init_new_token_ratio - 1.0).abs() < 1e-12);

    let pasted = "--serve-cmd 'python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 2 \
                  --schedule-policy lpm --mem-fraction-static 0.8 --host 0.0.0.0 --enable-metrics'";
    let pasted = sglang(pasted).unwrap();
    assert_eq!(pasted.policy, QueuePolicy::Lpm);
    assert!(pasted.max_total_tokens > 2 * plain.max_total_tokens);
}

#[test]
fn an_order_by_prefix_without_a_cache_is_told_to_be_none() {
    let machine = "--model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64";
    let is_noted = |flags: &str| {
        let resolved = resolve_line(&format!("{machine} --engine sglang {flags}")).unwrap();
        let mut notes = resolved.notes.iter();
        notes.any(|note| note.contains("no effect without the radix cache"))
    };
    assert!(is_noted("--disable-radix-cache --schedule-policy lpm"));
    assert!(!is_noted("--disable-radix-cache") && !is_noted("--schedule-policy lpm"));
}

#[test]
fn a_prompt_beyond_sglang_s_context_is_told_in_its_words() {
    assert_snapshot!(sglang("--engine sglang --context-length 100").unwrap_err(), @r#"
    error: `--input-len` does not fit the engine's context: prompts of up to 512 tokens, and context_length is 100
     |
     = help: write context_length = 576 or more, or shorter prompts
    "#);
    let outside = sglang("--engine sglang --context-length 0").unwrap_err();
    assert_snapshot!(outside, @"error: `--context-length` must lie between 4 and 131,072: 0 does not");
}

#[test]
fn flags_of_the_other_engine_are_refused() {
    let problem = |flags: &str| sglang(flags).map(|_| ()).unwrap_err().to_string();
    let check = |flags: &str, expected: &str| {
        let printed = problem(flags);
        assert!(printed.contains(expected), "{printed}");
    };
    check(
        "--engine sglang --max-num-seqs 8",
        "SGLang calls it --max-running-requests",
    );
    check(
        "--engine sglang --watermark 0.1",
        "`--watermark` is a flag of vLLM, and SGLang serves",
    );
    check("--page-size 16", "vLLM calls it --block-size");
    check(
        "--schedule-conservativeness 2",
        "is a flag of SGLang, and vLLM serves",
    );
    check(
        "--engine static --page-size 16",
        "is a flag of SGLang, and static batching serves: not of this engine\n |\n = help: static batching has no such flag",
    );
    check(
        "--engine hf-cb --page-size 16",
        "Transformers' continuous batching calls it --block-size",
    );
    check(
        "--engine sglang --num-continuous-decode-steps 4",
        "other than 1 is not modelled",
    );
    check(
        "--engine sglang --chunked-prefill-size 8 --page-size 16",
        "must be at least page_size",
    );
    check("--engine sglang@0.2", "cannot be used");
    check(
        "--engine sglang --enable-priority-scheduling --schedule-policy lpm",
        "goes with the policies fcfs and lof only",
    );
    check("--engine sglang --mem-fraction-static 0.1", "mem-fraction-static");
    let eagle = "--serve-cmd 'python -m sglang.launch_server --model-path m --speculative-algorithm EAGLE'";
    check(eagle, "how many drafts stand is not said");
}

#[test]
fn keys_of_a_scenario_for_the_other_engine_say_what_replaces_them() {
    let told = |line: &str| match resolve_line(line) {
        Ok(resolved) => resolved.notes.join("\n"),
        Err(problems) => {
            let lines = problems
                .0
                .iter()
                .map(|problem| format!("{}; {}", problem.message, problem.help.join(" ")));
            lines.collect::<Vec<_>>().join("\n")
        }
    };
    assert_snapshot!(told("matrix-a --engine sglang"), @r"
    `enable_prefix_caching` is a flag of vLLM, and SGLang serves; SGLang calls it disable_radix_cache: add --disable-radix-cache=false, which replaces this line, or write disable_radix_cache = false under [sglang] in its place
    `gpu_memory_utilization` is a flag of vLLM, and SGLang serves; SGLang calls it mem_fraction_static (of vLLM all memory that it takes, of SGLang that of weights and KV pool alone): add --mem-fraction-static, which replaces this line, or write a mem_fraction_static under [sglang] in its place
    `max_num_batched_tokens` is a flag of vLLM, and SGLang serves; SGLang calls it chunked_prefill_size: add --chunked-prefill-size 8192, which replaces this line, or write chunked_prefill_size = 8192 under [sglang] in its place
    ");
    assert_snapshot!(told("prefix-lpm --engine vllm --max-num-seqs 32"), @r"
    `max_total_tokens` is a flag of SGLang, and vLLM serves; vLLM calls it num_gpu_blocks_override (vLLM counts blocks, SGLang tokens): add --num-gpu-blocks-override, which replaces this line, or write a num_gpu_blocks_override under [engine] in its place
    ");
    let replaced = resolve_line("dp-router --engine sglang --context-length 8192").unwrap();
    assert_eq!(replaced.scenario.first_pool().engine.max_model_len(), 8192);
    assert!(
        replaced.notes.contains(
            &"--context-length replaces the scenario's max_model_len, which is a flag of vLLM".to_string()
        ),
        "{:?}",
        replaced.notes
    );
    // Spelt out, it names the version and is read again.
    let spelt = crate::config::resolved_toml(&replaced);
    assert!(
        spelt.contains("profile = \"sglang@0.5.23\"") && !spelt.contains("max_model_len = "),
        "{spelt}"
    );
    let again = resolve(Document::parse("again.toml", &spelt).unwrap(), &FILES).unwrap();
    assert_eq!(
        again.scenario.first_pool().engine,
        replaced.scenario.first_pool().engine
    );
}

#[test]
fn a_share_that_leaves_a_step_no_memory_is_refused_and_the_nearest_is_named() {
    let refused = |flags: &str| {
        let problems = sglang(&format!("--engine sglang {flags}"))
            .map(|_| ())
            .unwrap_err();
        assert!(problems.is_misfit(), "{problems}");
        let problem = &problems.0[0];
        format!("{}; {}", problem.message, problem.help.join(" "))
    };
    assert_snapshot!(refused("--mem-fraction-static 0.99999"), @"`--mem-fraction-static` leaves 1 MiB outside weights and KV pool, and a step of 8192 prompt tokens with the captured graphs needs about 1.4 GiB; smallest change that fits: --mem-fraction-static 0.982");
    sglang("--engine sglang --mem-fraction-static 0.978").unwrap();
    let low = refused("--mem-fraction-static 0.1");
    let (_, changes) = low
        .split_once("smallest change that fits: --mem-fraction-static ")
        .unwrap();
    let least = changes.split("   |   ").next().unwrap();
    assert!(!changes.contains("--mem-fraction-static"), "{low}");
    sglang(&format!("--engine sglang --mem-fraction-static {least}")).unwrap();
    let below = least.parse::<f64>().unwrap() - 0.001;
    sglang(&format!("--engine sglang --mem-fraction-static {below}")).unwrap_err();
    let problems = sglang("--engine sglang --chunked-prefill-size 131072")
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        problems.contains("SGLang's own rule leaves no memory"),
        "{problems}"
    );
}

/// `enable_torch_compile` is off; prefill graphs are of 0.5.23 and as long as a chunk.
#[test]
fn prompts_are_dispatched_by_python_unless_their_graphs_are_captured() {
    let graphs = |flags: &str| {
        let line = format!(
            "--model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64 {flags}"
        );
        resolve_line(&line).unwrap().placement.graphs
    };
    let old = graphs("--engine sglang@0.5.4");
    assert!(!old.is_compiled && old.piece_sizes.is_none());
    let new = graphs("--engine sglang --chunked-prefill-size 2048");
    assert_eq!(new.piece_sizes.unwrap().last(), Some(&2048));
    assert_eq!(new.capture_sizes.last(), Some(&256));
    assert!(!new.is_compiled);
}

/// The share of the memory that a server takes, by its rule.
fn share(model: &str, gpu: &str, engine: &str, cluster: &str, flags: &str) -> f64 {
    let text = format!(
        "[model]\nname = \"{model}\"\n[cluster]\ngpu = \"{gpu}\"\n{cluster}\n[engine]\nprofile = \"{engine}\"\n[sglang]\n{flags}\n"
    );
    let document = Document::parse("test.toml", &text).unwrap();
    let capacity = capacity(document, &FILES).unwrap_or_else(|told| panic!("{text}: {told}"));
    capacity.options.share()
}

/// What `mem_fraction_static` comes to, if so much is taken off what the driver shows.
fn less(memory: f64, reserved: f64) -> f64 {
    ((memory - reserved) / memory * 1000.0).round() / 1000.0
}

const LLAMA: &str = "meta-llama/Llama-3.1-8B-Instruct";
const NEW: &str = "sglang@0.5.23";
const OLD: &str = "sglang@0.5.4";

#[test]
fn what_is_set_apart_for_graphs_depends_on_what_is_captured() {
    let check = |model: &str, gpu: &str, engine: &str, flags: &str, expected: f64| {
        let got = share(model, gpu, engine, "", flags);
        assert!(
            (got - expected).abs() < 1e-9,
            "{got} for {expected} of {model} on {gpu}, {engine}: {flags}"
        );
    };
    // 512 that are constant, 12,288 for a chunk and 128 for the one rank; 2 for each sequence of the largest decode batch; 8 for each of
    // 58 prefill batches, or 1,536 where the KV is compressed.
    let step = 512.0 + 12_288.0 + 128.0;
    check(LLAMA, "h100-sxm", NEW, "", less(81_559.0, step + 512.0 + 464.0));
    check(LLAMA, "h100-sxm", OLD, "", less(81_559.0, step + 512.0));
    let lite = "deepseek-ai/DeepSeek-V2-Lite-Chat";
    check(lite, "h100-sxm", NEW, "", less(81_559.0, step + 512.0 + 1536.0));
    check(lite, "h100-sxm", OLD, "", less(81_559.0, step + 512.0));
    // The older server counts graphs that it does not capture.
    check(
        LLAMA,
        "h100-sxm",
        NEW,
        "disable_cuda_graph = true",
        less(81_559.0, step),
    );
    check(
        LLAMA,
        "h100-sxm",
        OLD,
        "disable_cuda_graph = true",
        less(81_559.0, step + 512.0),
    );
    // The newer captures no more than may run, unless it is told.
    check(
        LLAMA,
        "h100-sxm",
        NEW,
        "max_running_requests = 32",
        less(81_559.0, step + 64.0 + 464.0),
    );
    check(
        LLAMA,
        "h100-sxm",
        OLD,
        "max_running_requests = 32",
        less(81_559.0, step + 512.0),
    );
    let both = "max_running_requests = 32\ncuda_graph_max_bs = 64";
    check(LLAMA, "h100-sxm", NEW, both, less(81_559.0, step + 128.0 + 464.0));
    // Prompts that are never split have no sizes to capture.
    let whole = less(81_559.0, 512.0 + 16_384.0 * 1.5 + 128.0 + 512.0);
    check(LLAMA, "h100-sxm", NEW, "chunked_prefill_size = -1", whole);
}

#[test]
fn pools_with_a_role_set_apart_what_their_steps_need() {
    let check = |role: &str, engine: &str, flags: &str, expected: f64| {
        let pools = format!("[[cluster.pools]]\nname = \"a\"\nrole = \"{role}\"\n");
        let got = share(LLAMA, "h100-sxm", engine, &pools, flags);
        assert!(
            (got - expected).abs() < 1e-9,
            "{got} for {expected} of {role}, {engine}: {flags}"
        );
    };
    let memory = 81_559.0;
    // 2,048 tokens at least, 256 in decode graphs and none of prefill come to less than the 10 GiB that large cards set apart.
    check("decode", NEW, "", less(memory, 10_240.0));
    check(
        "decode",
        NEW,
        "max_running_requests = 4096",
        less(memory, 10_240.0),
    );
    check(
        "decode",
        NEW,
        "max_running_requests = 8192",
        less(memory, 512.0 + 12_288.0 + 128.0 + 512.0),
    );
    check("prefill", NEW, "", less(memory, 512.0 + 12_288.0 + 128.0 + 464.0));
    // The older server does not know its role yet.
    let whole = less(memory, 512.0 + 12_288.0 + 128.0 + 512.0);
    check("decode", OLD, "", whole);
    check("prefill", OLD, "", whole);
}

#[test]
fn amds_attention_takes_of_the_share_where_contexts_are_long() {
    let check = |model: &str, engine: &str, flags: &str, kept: f64| {
        let text = format!(
            "[model]\nname = \"{model}\"\n[cluster]\ngpu = \"mi300x\"\n[engine]\nprofile = \"{engine}\"\n[sglang]\n{flags}\n"
        );
        let capacity = capacity(Document::parse("test.toml", &text).unwrap(), &FILES);
        let capacity = capacity.unwrap_or_else(|told| panic!("{text}: {told}"));
        assert!(
            (capacity.options.budget.kept - kept).abs() < 1e-12,
            "{model} {engine} {flags}"
        );
        let is_told = capacity
            .notes
            .iter()
            .any(|note| note.contains("SGLang keeps 0.85"));
        assert_eq!(is_told, kept < 1.0, "{:?}", capacity.notes);
    };
    for engine in [NEW, OLD] {
        check(LLAMA, engine, "", 0.85);
        check(LLAMA, engine, "mem_fraction_static = 0.8", 0.85);
        check(LLAMA, engine, "context_length = 8192", 1.0);
        check(LLAMA, engine, "attention_backend = \"triton\"", 1.0);
    }
    check("openai/gpt-oss-20b", NEW, "", 0.85);
    check("openai/gpt-oss-20b", OLD, "", 1.0);
}

#[test]
fn qwen3_vl_has_defaults_of_its_own_on_large_hopper_cards() {
    let interval = |gpu: &str, engine: &str, flags: &str| {
        let line = format!(
            "--model Qwen/Qwen3-VL-8B-Instruct --gpu {gpu} --engine {engine} --context-length 8192 --request-rate 1 --input-len 64 \
             --output-len 8 {flags}"
        );
        let resolved = resolve_line(&line).unwrap_or_else(|told| panic!("{line}: {told}"));
        match resolved.scenario.first_pool().engine.clone() {
            crate::engine::EngineSpec::Sglang(config) => {
                let most = resolved.placement.graphs.capture_sizes.last().copied();
                (config.prefill_decode_interval, most)
            }
            _ => panic!("SGLang was asked for"),
        }
    };
    assert_eq!(interval("h100-sxm", NEW, ""), (22, Some(256)));
    assert_eq!(
        interval("h100-sxm", NEW, "--prefill-decode-interval 0"),
        (0, Some(256))
    );
    assert_eq!(
        interval("h100-sxm", NEW, "--max-running-requests 400"),
        (22, Some(400))
    );
    assert_eq!(interval("h100-sxm", OLD, ""), (0, Some(256)));
    assert_eq!(interval("b200", NEW, ""), (0, Some(512)));
}
