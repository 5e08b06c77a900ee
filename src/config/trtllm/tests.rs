//! TensorRT-LLM as the engine: its flags and defaults, and those of others beside it.

use crate::cluster::{AttentionDp, Balance, LockStepSpec};
use crate::config::flags::tests::resolve_line;
use crate::config::*;
use crate::cost::roofline::Exchange;
use crate::engine::EngineSpec;
use crate::engine::trtllm::{BlockReuse, CapacityPolicy, TrtllmConfig};

const MACHINE: &str = "--model meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64";

/// TensorRT-LLM on a machine of its own, with these flags, and what was said.
fn trtllm(flags: &str) -> Result<(TrtllmConfig, Vec<String>), Diagnostics> {
    let resolved = resolve_line(&format!("{MACHINE} {flags}"))?;
    let EngineSpec::Trtllm(config) = resolved.scenario.first_pool().engine.clone() else {
        panic!("TensorRT-LLM was asked for");
    };
    Ok((config, resolved.notes))
}

fn refused(flags: &str) -> String {
    let problems = trtllm(flags).unwrap_err();
    problems
        .0
        .iter()
        .map(|problem| problem.message.clone() + "\n")
        .collect()
}

#[test]
fn it_has_its_own_defaults_and_flags() {
    let (plain, notes) = trtllm("--engine trtllm").unwrap();
    assert_eq!(plain.profile, "tensorrt-llm@1.2");
    assert_eq!((plain.max_batch_size, plain.max_num_tokens), (2048, 8192));
    assert_eq!((plain.tokens_per_block, plain.max_seq_len), (32, 131_072));
    assert_eq!(plain.capacity_scheduler_policy, CapacityPolicy::GuaranteedNoEvict);
    assert!(plain.overlap_scheduler && !plain.enable_chunked_prefill);
    // 0.9 of what 15 GiB of weights and a step leave of 79.6 GiB, at 128 KiB a token.
    let tokens = plain.num_blocks * 32;
    assert!((410_000..470_000).contains(&tokens), "{tokens}");
    assert_eq!(plain.block_reuse, BlockReuse::Partial);
    assert!(!notes.iter().any(|note| note.contains("equal prefixes")));

    let set = "--engine tensorrt-llm@1.2.0rc1 --max-batch-size 64 --max-num-tokens 1024 --max-seq-len 4096 --tokens-per-block 64 \
               --capacity-scheduler-policy STATIC_BATCH --disable-overlap-scheduler --enable-chunked-prefill \
               --kv-cache-max-tokens 6400 --enable-block-reuse=false";
    let (set, notes) = trtllm(set).unwrap();
    assert_eq!(
        (set.max_batch_size, set.max_num_tokens, set.max_seq_len),
        (64, 1024, 4096)
    );
    assert_eq!((set.tokens_per_block, set.num_blocks), (64, 100));
    assert_eq!(set.capacity_scheduler_policy, CapacityPolicy::StaticBatch);
    assert!(!set.overlap_scheduler && set.enable_chunked_prefill);
    assert!(
        notes
            .iter()
            .any(|note| note.contains("no profile of tensorrt-llm@1.2.0rc1"))
    );
    assert_eq!(set.block_reuse, BlockReuse::Off);
    let whole = trtllm("--engine trtllm --enable-partial-reuse=false").unwrap().0;
    assert_eq!(whole.block_reuse, BlockReuse::Whole);
}

#[test]
fn a_sequence_longer_than_the_pool_is_cut() {
    let (cut, notes) = trtllm("--engine trtllm --kv-cache-max-tokens 4096").unwrap();
    assert_eq!((cut.max_seq_len, cut.num_blocks), (4096, 128));
    assert!(notes.iter().any(|note| note.contains("is cut to 4096")));
}

#[test]
fn what_is_not_modelled_or_not_its_own_is_refused() {
    for (flags, why) in [
        (
            "--enable-block-reuse=false --enable-partial-reuse",
            "`--enable-partial-reuse` needs enable_block_reuse",
        ),
        (
            "--capacity-scheduler-policy max_utilization",
            "max_utilization is not modelled with block reuse",
        ),
        ("--max-num-tokens 100", "`--max-num-tokens` below max_batch_size"),
        ("--max-num-seqs 8", "is a flag of vLLM, and TensorRT-LLM serves"),
        (
            "--chunked-prefill-size 8",
            "is a flag of SGLang, and TensorRT-LLM serves",
        ),
        (
            "--capacity-scheduler-policy max_utilization --enable-block-reuse=false --enable-chunked-prefill",
            "not modelled with chunked prefill",
        ),
        (
            "--capacity-scheduler-policy max_utilization --enable-block-reuse=false",
            "needs a step that holds the longest sequence",
        ),
        (
            "--max-num-tokens 16 --max-batch-size 8 --enable-chunked-prefill",
            "must hold a block",
        ),
    ] {
        let told = refused(&format!("--engine trtllm {flags}"));
        assert!(told.contains(why), "{flags}: {told}");
    }
    assert!(refused("--engine tensorrt-llm@0.20").contains("cannot be used"));
    for (engine, name) in [("vllm", "vLLM"), ("sglang", "SGLang"), ("static", "static")] {
        let problems = resolve_line(&format!("{MACHINE} --engine {engine} --max-batch-size 8"))
            .err()
            .unwrap();
        let told = &problems.0[0].message;
        assert!(
            told.contains(&format!("is a flag of TensorRT-LLM, and {name} serves")),
            "{told}"
        );
    }
}

#[test]
fn what_makes_prompts_wait_or_be_refused_is_said() {
    let told = |flags: &str| trtllm(&format!("--engine trtllm {flags}")).unwrap().1.join("\n");
    let long = "--max-num-tokens 400 --max-batch-size 64";
    let refused = "prompts of more than max_num_tokens = 400 tokens are refused";
    assert!(told(long).contains(refused), "{}", told(long));
    assert!(!told(&format!("{long} --enable-chunked-prefill")).contains("are refused"));
    assert!(!told("--max-num-tokens 512 --max-batch-size 64").contains("are refused"));

    let waits = "--batch-wait-timeout-iters 20 --batch-wait-max-tokens-ratio 0.5";
    assert!(told(waits).contains(
        "prompts wait for up to 20 steps while others decode, until a step would have 4096 tokens"
    ));
    assert!(
        told("--batch-wait-timeout-iters 20").contains("has no effect without batch_wait_max_tokens_ratio")
    );
    assert!(
        told("--batch-wait-max-tokens-ratio 0.5").contains("has no effect without batch_wait_timeout_iters")
    );
    assert!(!told("").contains("batch_wait"));
}

#[test]
fn cards_and_formats_that_it_does_not_run_are_refused() {
    let on = |gpu: &str, more: &str| {
        let line = format!(
            "--model meta-llama/Llama-3.1-8B-Instruct --gpu {gpu} --request-rate 4 --input-len 512 --output-len 64 --engine trtllm {more}"
        );
        resolve_line(&line)
            .map(|_| ())
            .map_err(|problems| problems.0[0].message.clone())
    };
    for gpu in ["mi300x", "t4", "v100", "7900xtx"] {
        let problem = on(gpu, "").unwrap_err();
        assert!(problem.contains("does not run on"), "{gpu}: {problem}");
    }
    for (gpu, format) in [("h100-sxm", "nvfp4"), ("a100-sxm-80gb", "fp8")] {
        let problem = on(gpu, &format!("--quantization {format}")).unwrap_err();
        assert!(problem.contains("does not run on this GPU"), "{gpu}: {problem}");
    }
    on("l40s", "--quantization fp8").unwrap();
    on("b200", "--quantization nvfp4").unwrap();
}

const EXPERTS: &str = "--model deepseek-ai/DeepSeek-V3 --gpu b200 --request-rate 4 --input-len 512 --output-len 64 --max-seq-len 4096 \
                       --engine trtllm";

fn served(flags: &str) -> Resolved {
    resolve_line(&format!("{EXPERTS} {flags}")).unwrap_or_else(|told| panic!("{flags}: {told}"))
}

#[test]
fn ranks_attend_apart_and_share_the_experts() {
    let spec = |resolved: &Resolved| resolved.scenario.lock_step.as_ref().map(|ranks| ranks.spec);
    let resolved = served("-tp 8 --ep-size 8 --enable-attention-dp --max-batch-size 64 --cuda-graph-padding");
    let how = |balance| {
        Some(LockStepSpec::Attending(AttentionDp {
            max_batch_size: 64,
            pads: true,
            balance,
        }))
    };
    assert_eq!(spec(&resolved), how(None));
    let placement = &resolved.placement;
    assert_eq!(resolved.scenario.cluster.replicas, 8);
    assert_eq!(
        (
            placement.tensor_parallel,
            placement.data_parallel,
            placement.expert_groups
        ),
        (1, 8, 8)
    );
    assert_eq!((placement.exchange, placement.gathers), (Exchange::Routed, None));
    assert_eq!(placement.graphs.capture_sizes.last(), Some(&64));
    let slices = served("-tp 8 --enable-attention-dp");
    assert_eq!(
        (slices.placement.expert_groups, slices.placement.exchange),
        (1, Exchange::Gathered)
    );

    // Attention, dense layers and the head are whole on each rank, and an eighth of the experts; a latent cache is as large on any number.
    let weights = |resolved: &Resolved| resolved.memory.as_ref().expect("memory decided").weights.0;
    let together = served("-tp 8 --ep-size 8");
    assert_eq!(spec(&together), None);
    assert!(
        weights(&resolved) > weights(&together),
        "{} {}",
        weights(&resolved),
        weights(&together)
    );
    assert!(2 * weights(&together) > weights(&resolved));

    let balanced =
        "-tp 8 --enable-attention-dp --max-batch-size 64 --cuda-graph-padding --attention-dp-enable-balance";
    let shipped = Balance {
        timeout_iters: 50,
        batching_wait_iters: 10,
    };
    assert_eq!(spec(&served(balanced)), how(Some(shipped)));
    let given = format!("{balanced} --attention-dp-timeout-iters 3 --attention-dp-batching-wait-iters 0");
    let given = served(&given);
    let least = Balance {
        timeout_iters: 3,
        batching_wait_iters: 0,
    };
    assert_eq!(spec(&given), how(Some(least)));
    // One of vLLM's engines takes no rank away.
    let one = served("-tp 8 --enable-attention-dp --data-parallel-size 1");
    assert_eq!(one.scenario.replicas(), given.scenario.replicas());
    assert!(
        one.ignored
            .iter()
            .any(|told| told.starts_with("data_parallel_size has no effect")),
        "{:?}",
        one.ignored
    );
    assert!(
        given
            .notes
            .iter()
            .any(|note| note.contains("until every rank has some")),
        "{:?}",
        given.notes
    );
}

#[test]
fn what_does_not_go_with_ranks_that_attend_apart_is_refused_or_said() {
    let apart = "-tp 8 --enable-attention-dp";
    for (flags, why) in [
        (
            "--capacity-scheduler-policy max_utilization --enable-block-reuse=false --max-num-tokens 8192",
            "beside enable_attention_dp",
        ),
        ("--replicas 2 --router round-robin", "does not go with replicas"),
        ("--enable-expert-parallel", "has no effect"),
        ("--data-parallel-size 2", "does not go with enable_attention_dp"),
    ] {
        let told = resolve_line(&format!("{EXPERTS} {apart} {flags}"))
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(told.contains(why), "{flags}: {told}");
    }
    let dense = refused("--engine trtllm -tp 2 --enable-attention-dp");
    assert!(dense.contains("models with experts only"), "{dense}");
    let too_many = resolve_line(&format!("{EXPERTS} -tp 16 --enable-attention-dp"))
        .map(|_| ())
        .unwrap_err();
    assert!(
        too_many.to_string().contains("more GPUs than a node has"),
        "{too_many}"
    );
    let said = |flags: &str| served(flags).notes.join("\n");
    for (flags, note) in [
        (
            "-tp 8 --attention-dp-timeout-iters 4",
            "has no effect without enable_attention_dp",
        ),
        (
            "-tp 8 --enable-attention-dp --attention-dp-timeout-iters 4",
            "without attention_dp_enable_balance",
        ),
        (
            "-tp 8 --enable-attention-dp --batch-wait-timeout-iters 4",
            "no effect beside enable_attention_dp",
        ),
    ] {
        assert!(said(flags).contains(note), "{flags}: {}", said(flags));
    }
}
