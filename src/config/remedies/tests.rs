//! What is proposed, and that all of it holds.

use insta::assert_snapshot;

use crate::config::assemble::overlay;
use crate::config::flags::tests::{TRAFFIC, flags_of, said};
use crate::config::{Capacity, Diagnostics, NoFiles, assemble, capacity};
use crate::engine::memory::DoesNotFit;
use crate::model;

fn fitted(line: &str, more: &str) -> Result<Capacity, Diagnostics> {
    let mut input = assemble(&flags_of(line), &NoFiles)?;
    // What is given beside a line takes the place of what the line says.
    let problems = overlay(&mut input.document, &flags_of(more));
    assert!(problems.is_empty(), "{problems:?}");
    capacity(input.document, &NoFiles)
}

fn misfit(line: &str) -> DoesNotFit {
    let found = fitted(line, "").unwrap_or_else(|problems| panic!("{line}: {problems}"));
    found.plan.err().unwrap_or_else(|| panic!("{line} fits"))
}

/// The changes that are proposed, each of which has been made and fits.
fn proposed(line: &str) -> String {
    let remedies = misfit(line).remedies;
    for remedy in &remedies {
        let changed = match remedy.flags.strip_prefix("without ") {
            Some(flag) => {
                let (before, behind) = line.split_once(flag).unwrap();
                let behind = behind.trim_start().split_once(' ');
                fitted(
                    &format!("{before}{}", behind.map_or("", |(_, behind)| behind)),
                    "",
                )
            }
            None => fitted(line, &remedy.flags),
        };
        let found = changed.unwrap_or_else(|problems| panic!("{line} {}: {problems}", remedy.flags));
        let plan = found
            .plan
            .unwrap_or_else(|misfit| panic!("{line} {}: {misfit}", remedy.flags));
        assert_eq!(plan.tokens(), remedy.tokens, "{line} {}", remedy.flags);
    }
    let flags: Vec<&str> = remedies.iter().map(|remedy| remedy.flags.as_str()).collect();
    flags.join(" | ")
}

#[test]
fn the_smallest_changes_come_first() {
    let of = |line: &str| proposed(&format!("{line} --max-model-len 8192"));
    assert_snapshot!(of("meta-llama/Llama-3.1-70B --gpu h100"), @"--quantization fp8 --max-model-len 5120 | -tp 2");
    assert_snapshot!(proposed("meta-llama/Llama-3.1-8B --gpu l4 --max-model-len 131072"), @"--max-model-len 32768 | -tp 2");
    assert_snapshot!(of("meta-llama/Llama-3.1-405B --gpu t4"), @"-tp 8 -pp 8");
    let of = |line: &str| proposed(&format!("{line} --gpu h100 --max-model-len 16384"));
    assert_snapshot!(of("deepseek-ai/DeepSeek-V3"), @"-tp 8 -pp 2");
    assert_snapshot!(of("deepseek-ai/DeepSeek-V3 -tp 8"), @"-tp 8 -pp 2");
    assert_snapshot!(of("meta-llama/Llama-3.1-405B"), @"--quantization fp8 -tp 8 | -tp 8 -pp 2");
}

#[test]
fn a_flag_that_is_to_blame_is_named() {
    let of = |flags: &str| proposed(&format!("meta-llama/Llama-3.1-8B --gpu h100 {flags}"));
    for flag in [
        "--kv-cache-memory-bytes 900TiB",
        "--num-gpu-blocks-override 3",
        "--num-gpu-blocks-override 99999999",
    ] {
        let name = flag.split(' ').next().unwrap();
        assert_eq!(
            of(&format!("{flag} --max-model-len 8192")),
            format!("without {name}")
        );
    }
    let least = of("--max-model-len 8192 --gpu-memory-utilization 0.01");
    let share: f64 = least.rsplit(' ').next().unwrap().parse().unwrap();
    misfit(&format!(
        "meta-llama/Llama-3.1-8B --gpu h100 --max-model-len 8192 --gpu-memory-utilization {}",
        share - 0.01
    ));
    // Where a part of the context fits, a shorter one is offered beside the larger share, and no flag twice.
    assert_snapshot!(of("--gpu-memory-utilization 0.3"), @"--gpu-memory-utilization 0.43 | --max-model-len 50176");
}

#[test]
fn heads_that_do_not_divide_take_the_nearest_groups_that_fit() {
    let of = |flags: &str| proposed(&format!("meta-llama/Llama-3.1-8B --max-model-len 8192 {flags}"));
    assert_eq!(of("--gpu h100 -tp 3"), "-tp 2 | -tp 4");
    assert_eq!(of("--gpu h100 -tp 7"), "-tp 4 | -tp 8");
    let of_28_heads = |flags: &str| proposed(&format!("Qwen/Qwen2.5-7B --max-model-len 8192 {flags}"));
    assert_eq!(of_28_heads("--gpu h100 -tp 8"), "-tp 4");
    assert_eq!(of_28_heads("--gpu h100 -tp 3"), "-tp 2 | -tp 4");
}

/// Of each of these something was once proposed that the engine refused, or that did not fit.
#[test]
fn what_is_proposed_is_taken_by_the_engine_and_fits() {
    let told = [
        "huggyllama/llama-65b --gpu a100-sxm-80gb --engine tensorrt-llm@1.2",
        "meta-llama/Llama-3.1-8B-Instruct --gpu a2-16gb --engine tensorrt-llm@1.2",
        "meta-llama/Llama-3.1-8B-Instruct --gpu t4 --engine vllm@0.11",
        "meta-llama/Llama-3.1-8B-Instruct --gpu t4 --engine vllm@0.6",
        "meta-llama/Llama-3.1-70B-Instruct --gpu jetson-agx-orin-64gb",
        "MiniMaxAI/MiniMax-M2.1 --gpu radeon-ai-pro-r9700-32gb --engine vllm@0.11",
        "CohereForAI/c4ai-command-r-v01 --gpu rtx-4090-24gb --engine vllm@0.6",
        "Qwen/Qwen2-72B-Instruct --gpu rtx-4090-24gb -tp 4 --engine vllm@0.6",
        "Qwen/Qwen3-235B-A22B --gpu mi250x-64gb --engine vllm@0.6",
        "Qwen/Qwen3.5-9B --gpu rtx-3090-24gb",
        "zai-org/GLM-4.5-Air --gpu rtx-3060-12gb --engine sglang",
        "meta-llama/Llama-3.1-8B-Instruct --gpu v100-sxm-16gb",
    ]
    .map(|line| match proposed(line).as_str() {
        "" => format!("{line} → nothing"),
        changes => format!("{line} → {changes}"),
    });
    assert_snapshot!(told.join("\n"), @r"
    huggyllama/llama-65b --gpu a100-sxm-80gb --engine tensorrt-llm@1.2 → -tp 2
    meta-llama/Llama-3.1-8B-Instruct --gpu a2-16gb --engine tensorrt-llm@1.2 → -tp 2
    meta-llama/Llama-3.1-8B-Instruct --gpu t4 --engine vllm@0.11 → -tp 2 --max-model-len 73728 | -tp 4
    meta-llama/Llama-3.1-8B-Instruct --gpu t4 --engine vllm@0.6 → -tp 2 --max-model-len 73728 | -tp 4
    meta-llama/Llama-3.1-70B-Instruct --gpu jetson-agx-orin-64gb → --quantization awq --max-model-len 56320 | -tp 1 -pp 4
    MiniMaxAI/MiniMax-M2.1 --gpu radeon-ai-pro-r9700-32gb --engine vllm@0.11 → -tp 4 -pp 3
    CohereForAI/c4ai-command-r-v01 --gpu rtx-4090-24gb --engine vllm@0.6 → -tp 4 --max-model-len 10240
    Qwen/Qwen2-72B-Instruct --gpu rtx-4090-24gb -tp 4 --engine vllm@0.6 → --quantization fp8 --max-model-len 15360 | -tp 8 --max-model-len 25600
    Qwen/Qwen3-235B-A22B --gpu mi250x-64gb --engine vllm@0.6 → -tp 8 --max-model-len 20480
    Qwen/Qwen3.5-9B --gpu rtx-3090-24gb → --quantization fp8 | -tp 2
    zai-org/GLM-4.5-Air --gpu rtx-3060-12gb --engine sglang → nothing
    meta-llama/Llama-3.1-8B-Instruct --gpu v100-sxm-16gb → -tp 2 --max-model-len 87040 | -tp 4
    ");
}

#[test]
fn every_shipped_model_fits_somewhere_within_eight_of_the_largest_gpu() {
    for name in model::names() {
        let length = model::find(name).unwrap().0.max_position.min(4096);
        let line = format!(
            "{name} --gpu b300 --max-num-seqs 64 --max-model-len {length} --no-enable-prefix-caching"
        );
        if let Err(misfit) = fitted(&line, "")
            .unwrap_or_else(|problems| panic!("{name}: {problems}"))
            .plan
        {
            assert!(!misfit.remedies.is_empty(), "{name}: {misfit}");
        }
    }
}

#[test]
fn a_run_proposes_what_fit_does_and_no_context_below_its_prompts() {
    let line = "meta-llama/Llama-3.1-8B-Instruct --gpu t4 --engine vllm@0.11";
    let told = said(&format!("{line} {TRAFFIC}"));
    assert!(told.contains(&misfit(line).smallest_changes()), "{told}");
    let traffic = "--request-rate 1 --input-len 100000 --output-len 10";
    let line = "meta-llama/Llama-3.1-8B-Instruct --gpu l4";
    assert!(proposed(line).contains("--max-model-len"));
    let told = said(&format!("{line} {traffic}"));
    assert!(
        told.contains("smallest change that fits") && !told.contains("--max-model-len"),
        "{told}"
    );
}

#[test]
fn a_group_beyond_a_node_is_told_before_what_does_not_fit() {
    let line = "meta-llama/Llama-3.1-70B-Instruct --gpu jetson-agx-orin-64gb -tp 4";
    let here = fitted(line, "").map(|_| ()).unwrap_err();
    assert!(
        !here.is_misfit() && here.to_string().contains("is larger than a node"),
        "{here}"
    );
    let run = said(&format!("{line} {TRAFFIC}"));
    assert!(
        run.contains("is larger than a node") && !run.contains("does not fit"),
        "{run}"
    );
}
