//! What the card, the model and the version of the engine allow, and what is told of them.

#[cfg(test)]
mod formats;

use clap::{CommandFactory, FromArgMatches};

use crate::config::flags::tests::{FILES, Line, MACHINE, TRAFFIC, resolve_line, said};
use crate::config::tests::{BASE, resolve_text, told};
use crate::config::*;
use crate::model::Dtype;

#[test]
fn a_pool_beyond_the_gpus_memory_is_an_error_with_a_place() {
    for flag in [
        "--kv-cache-memory-bytes '900 TiB'",
        "--num-gpu-blocks-override 99999999",
    ] {
        let told = said(&format!("{MACHINE} {TRAFFIC} {flag}"));
        assert!(
            told.contains("does not fit: --") && told.contains("without --"),
            "{told}"
        );
    }
}

#[test]
fn a_cell_that_does_not_fit_is_named() {
    let words = shlex::split(&format!("{MACHINE} {TRAFFIC}")).unwrap();
    let Line { flags } =
        Line::from_arg_matches(&Line::command().try_get_matches_from(words).unwrap()).unwrap();
    let ground = Ground::of(&flags, &FILES).unwrap();
    let cell = ground.cell(&flags, &[("gpu".to_owned(), "t4".to_owned())], &FILES);
    let told = resolve(cell.unwrap().document, &FILES).err().unwrap().to_string();
    assert!(told.contains("the cell gpu = t4 does not fit"), "{told}");
}

#[test]
fn an_engine_that_runs_vllm_s_kernels_has_their_limits() {
    let on = |flags: &str| {
        said(&format!(
            "meta-llama/Llama-3.2-1B --max-model-len 8192 {TRAFFIC} {flags}"
        ))
    };
    for engine in ["vllm@0.33", "vllm@0.11", "vllm@0.6", "hf-cb", "static"] {
        let told = on(&format!(
            "--gpu b200 --quantization int8 --max-num-seqs 8 --engine {engine}"
        ));
        assert!(told.contains("8-bit integers end at 9.0"), "{engine}: {told}");
    }
    let is_noted = |gpu: &str, engine: &str| {
        on(&format!("--gpu {gpu} --engine {engine}")).contains("newer than vLLM 0.6.6 of December 2024")
    };
    for gpu in ["b200", "rtx-5090", "gb10", "mi355x", "r9700"] {
        assert!(is_noted(gpu, "vllm@0.6") && !is_noted(gpu, "hf-cb"), "{gpu}");
    }
    for gpu in ["h200", "l40s", "mi300x", "mi210", "rx-7900-xtx"] {
        assert!(!is_noted(gpu, "vllm@0.6"), "{gpu}");
    }
}

#[test]
fn expert_parallelism_is_vllms_and_needs_experts_and_gpus() {
    let told = |flags: &str| {
        said(&format!(
            "{flags} --gpu h100 --max-model-len 8192 {TRAFFIC} --enable-expert-parallel"
        ))
    };
    for (flags, part) in [
        ("Qwen/Qwen3-30B-A3B -dp 1", "one GPU holds all experts"),
        ("Qwen/Qwen3-8B -tp 2", "the model has no experts"),
        (
            "Qwen/Qwen3-30B-A3B -tp 4",
            "each GPU of an engine holds some experts whole",
        ),
    ] {
        assert!(told(flags).contains(part), "{flags}: {}", told(flags));
    }
    let sglang = said(&format!(
        "Qwen/Qwen3-30B-A3B -tp 4 --engine sglang --gpu h100 {TRAFFIC} --enable-expert-parallel"
    ));
    assert!(sglang.contains("SGLang has no such flag"), "{sglang}");
}

#[test]
fn the_budget_of_a_step_is_what_each_version_derives() {
    let short = "--max-model-len 4096 --no-enable-chunked-prefill";
    let resolved = |line: &str| resolve_line(line).unwrap();
    let budget = |flags: &str| {
        let line = format!("{TRAFFIC} --gpu h100-sxm --model meta-llama/Llama-3.1-8B-Instruct {flags}");
        resolve_line(&line)
            .unwrap()
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .max_num_batched_tokens
    };
    assert_eq!(budget(&format!("--engine vllm@0.33 {short}")), 8192);
    // V1 of that time cut prompts whatever it was told, so the budget is the usual one.
    assert_eq!(budget(&format!("--engine vllm@0.11 {short}")), 8192);
    let overruled = resolved(&format!(
        "{TRAFFIC} --gpu h100-sxm --model meta-llama/Llama-3.1-8B-Instruct --engine vllm@0.11 {short}"
    ));
    assert!(
        overruled
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .enable_chunked_prefill
    );
    assert!(overruled.notes.iter().any(|note| note.contains("has no effect")));
    let few = "--max-model-len 4096 --max-num-seqs 1";
    assert_eq!(budget(&format!("--engine vllm@0.33 {few}")), 4096);
    assert_eq!(budget(&format!("--engine vllm@0.11 {few}")), 8192);
}

#[test]
fn another_cards_calibration_is_noted_and_trusted_less() {
    let line = format!("{MACHINE} {TRAFFIC} --calibration b200-sxm-180gb-vllm");
    let resolved = resolve_line(&line).unwrap();
    assert_eq!(resolved.trust, crate::cost::Trust::Prior);
    assert!(resolved.notes.iter().any(|note| note.contains("was made on")));
}

#[test]
fn a_profile_of_ones_own_is_found_by_its_name() {
    struct Own(String);
    impl Files for Own {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            let is_it = path == "hardware_profiles/my-gpu-48gb.toml";
            is_it
                .then(|| self.0.clone().into_bytes())
                .ok_or_else(|| format!("there is no file `{path}`"))
        }
    }
    let device = crate::hardware::find("L40S-48GB").unwrap().0;
    let own = Own(device.to_toml(&device.name));
    for name in ["MY-GPU-48GB", "my_gpu_48gb"] {
        let mut document = Document::default();
        document.set("cluster.gpu", toml::Value::from(name), "--gpu");
        let mut problems = resolve(document, &own).err().unwrap().to_string();
        problems.retain(|char| char != '\n');
        assert!(!problems.contains("unknown GPU"), "{problems}");
    }
}

#[test]
fn a_group_of_ranks_stays_within_a_node_and_replicated_heads_are_noted() {
    let on = |ranks: u32| told("gpu = ", &format!("tensor_parallel_size = {ranks}\ngpu = "));
    let refused = on(16);
    assert!(
        refused.contains("`tensor_parallel_size` is larger than a node"),
        "{refused}"
    );
    assert_eq!(on(8), "accepted");
    let notes = |ranks: u32, model: &str| {
        let text = BASE
            .replacen("gpu = ", &format!("tensor_parallel_size = {ranks}\ngpu = "), 1)
            .replacen("meta-llama/Llama-3.1-8B-Instruct", model, 1);
        resolve_text(&text)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .notes
    };
    let replicated = |notes: Vec<String>| notes.iter().any(|note| note.contains("KV heads on 8 ranks"));
    assert!(replicated(notes(8, "Qwen/Qwen3-30B-A3B")), "it has four");
    assert!(
        !replicated(notes(8, "meta-llama/Llama-3.1-8B-Instruct")),
        "it has eight"
    );
}

#[test]
fn the_gpus_of_a_rack_are_one_node() {
    let on = |gpu: &str, ranks: u32| {
        told(
            "gpu = \"H100-SXM-80GB\"",
            &format!("tensor_parallel_size = {ranks}\ngpu = \"{gpu}\""),
        )
    };
    assert_eq!(on("gb200", 16), "accepted");
    assert!(on("b200", 16).contains("larger than a node"));
}

#[test]
fn steps_of_unlike_pools_scatter_by_their_own_law() {
    /// A calibration of one's own beside the shipped ones.
    struct Own;
    impl Files for Own {
        fn read(&self, path: &str) -> Result<Vec<u8>, String> {
            let law = match path {
                "calm.toml" => "0.05",
                "wild.toml" => "0.5",
                _ => return Err(format!("there is no file `{path}`")),
            };
            let text = "schema = 1\n[provenance]\nsource = \"public-fit\"\ngpu = \"H100-SXM-80GB\"\ncredit = \"x\"\n\
                        date = \"2026-01-01\"\n[jitter.vllm]\ncv = ";
            Ok(format!("{text}{law}\n").into_bytes())
        }
    }
    let pools = |second: &str| {
        let pool = |name: &str, calibration: &str| {
            let own = match calibration {
                "" => String::new(),
                file => format!("calibration = \"{file}\"\n"),
            };
            format!("[[cluster.pools]]\nname = \"{name}\"\nreplicas = 2\n{own}")
        };
        let cluster = format!(
            "router = \"round_robin\"\nstep_jitter = \"calibrated\"\n{}{}",
            pool("a", "calm.toml"),
            pool("b", second)
        );
        let text = BASE.replacen("[engine]", &format!("{cluster}[engine]"), 1);
        resolve(Document::parse("a.toml", &text).unwrap(), &Own)
    };
    let both = pools("wild.toml").unwrap_or_else(|problems| panic!("{problems}"));
    let laws: Vec<f64> = both
        .scenario
        .jitter_by_replica()
        .iter()
        .map(|law| law.cv)
        .collect();
    assert_eq!(laws, [0.05, 0.05, 0.5, 0.5]);
    let lacking = pools("").err().map(|problems| problems.to_string());
    assert!(lacking.is_some_and(|told| told.contains("has no law for vllm")));
}

/// `OPTIMIZATION_LEVEL_TO_CONFIG` of vLLM 0.33; of 0.11 `-O` is the mode of compilation.
#[test]
fn levels_of_optimization_mean_what_the_version_has_them_mean() {
    use crate::cost::roofline::CudagraphMode::{FullAndPiecewise, None, Piecewise};
    let graphs = |flags: &str| {
        let line = format!("{MACHINE} {TRAFFIC} {flags}");
        let graphs = resolve_line(&line)
            .unwrap_or_else(|problems| panic!("{flags}: {problems}"))
            .placement
            .graphs;
        (graphs.mode, !graphs.is_compiled)
    };
    assert_eq!(graphs("--enforce-eager"), (None, true));
    for (flags, expected) in [
        ("-O0", (None, true)),
        ("-O1", (Piecewise, false)),
        ("-O2", (FullAndPiecewise, false)),
        ("-O 3", (FullAndPiecewise, false)),
        ("-O0 -cc.mode=3", (None, false)),
        (
            "-O1 --cudagraph-mode full_and_piecewise",
            (FullAndPiecewise, false),
        ),
        ("-cc.cudagraph_mode=PIECEWISE", (Piecewise, false)),
        ("-cc '{\"mode\": 0, \"cudagraph_mode\": \"NONE\"}'", (None, true)),
        ("-cc '{\"level\": 0}'", (None, true)),
        ("-cc 0", (None, true)),
        ("-cc.mode=VLLM_COMPILE", (FullAndPiecewise, false)),
        ("-O0 --engine vllm@0.11", (None, true)),
        ("-O3 --engine vllm@0.11", (FullAndPiecewise, false)),
    ] {
        assert_eq!(graphs(flags), expected, "{flags}");
    }
    let told = |flags: &str| said(&format!("{MACHINE} {TRAFFIC} {flags}"));
    assert!(told("-O1 --engine vllm@0.11").contains("compiles the model whole"));
    assert!(
        told("-cc.mode=0 -cc.cudagraph_mode=FULL_DECODE_ONLY")
            .contains("is not modelled without compilation")
    );
    assert!(told("-cc.mode=0 -cc.cudagraph_mode=PIECEWISE").contains("has no effect"));
    for whole in ["-O.cudagraph_mode=FULL", "--cudagraph-mode full"] {
        let whole = told(whole);
        assert!(
            whole.contains("has a mode that is not modelled") && !whole.contains("did you mean"),
            "{whole}"
        );
    }
    assert!(told("-O4").contains("optimization-level"));
    // Eager overrides them, and says so; what is no level or mode at all is wrong all the same.
    assert!(told("--enforce-eager -O5").contains("optimization-level"));
    assert!(told("--enforce-eager -cc.mode=9").contains("must lie between 0 and 3"));
    let ignored = |flags: &str| {
        resolve_line(&format!("{MACHINE} {TRAFFIC} {flags}"))
            .unwrap()
            .ignored
    };
    let overridden = ignored("--enforce-eager -O2 -cc.mode=3");
    assert_eq!(overridden.len(), 2, "{overridden:?}");
    assert!(
        overridden[0].contains("enforce_eager compiles nothing"),
        "{overridden:?}"
    );
    assert!(ignored("--enforce-eager -O0").is_empty());
}

/// Blocks that the backends of vLLM's `platforms/cuda.py` take for a latent cache.
#[test]
fn a_latent_cache_has_the_blocks_of_its_backend() {
    let block = |flags: &str| {
        let line = format!("deepseek-ai/DeepSeek-V3 -tp 8 --max-model-len 8192 {TRAFFIC} {flags}");
        let resolved = resolve_line(&line).unwrap();
        resolved.scenario.first_pool().engine.block_size()
    };
    for (flags, tokens) in [
        ("--gpu h200", 16),
        ("--gpu h200 --kv-cache-dtype fp8", 64),
        ("--gpu h200 --kv-cache-dtype fp8 --block-size 128", 128),
        ("--gpu b200", 32),
        ("--gpu b300", 32),
        ("--gpu h200 --engine vllm@0.11", 64),
        ("--gpu b200 --engine vllm@0.11", 128),
        ("--gpu b300 --engine vllm@0.11", 16),
        ("--gpu h200 --engine vllm@0.11 --block-size 32", 64),
    ] {
        assert_eq!(block(flags), tokens, "{flags}");
    }
    let told = said(&format!(
        "deepseek-ai/DeepSeek-V3 -tp 8 --max-model-len 8192 {TRAFFIC} --gpu h200 --engine vllm@0.11 --block-size 32"
    ));
    assert!(told.contains("block_size = 32 has no effect"), "{told}");
    assert_eq!(
        resolve_line(&format!("{MACHINE} {TRAFFIC}"))
            .unwrap()
            .scenario
            .first_pool()
            .engine
            .block_size(),
        16
    );
}

/// Lists of vLLM 0.33's own `VllmConfig._set_cudagraph_sizes`.
#[test]
fn a_range_of_captured_sizes_that_is_given_is_left_as_it_is() {
    let sizes = |flags: &str| {
        let resolved = resolve_line(&format!("{MACHINE} {TRAFFIC} --max-num-seqs 5 {flags}")).unwrap();
        resolved.placement.graphs.capture_sizes
    };
    assert_eq!(sizes(""), [1, 2, 4, 5, 8]);
    let asked = r#"--compilation-config '{"max_cudagraph_capture_size": 24}'"#;
    assert_eq!(sizes(asked), [1, 2, 4, 8, 16, 24]);
}

#[test]
fn a_bridge_that_nobody_mentions_is_assumed_missing_where_it_would_join_the_ranks() {
    let is_told = |flags: &str| {
        let run = resolve_line(&format!("Qwen/Qwen3-8B {TRAFFIC} {flags}")).unwrap();
        let mut values = run.provenance.iter();
        let is_assumed = values.any(|value| {
            value.key == "cluster.nvlink_bridge" && value.value == "false" && value.is_assumed()
        });
        let is_noted = run
            .notes
            .iter()
            .any(|note| note.contains("--nvlink-bridge if the pair has one"));
        assert_eq!(is_assumed, is_noted, "{flags}");
        is_assumed
    };
    for flags in [
        "--gpu h100-nvl -tp 2",
        "--gpu h200-nvl -tp 2",
        "--gpu a100-pcie-80gb -tp 2",
        "--gpu h100-nvl -pp 2",
    ] {
        assert!(is_told(flags), "{flags}");
    }
    for flags in [
        "--gpu h100-nvl",
        "--gpu h100-nvl -tp 4",
        "--gpu h100-nvl -tp 2 --nvlink-bridge",
        "--gpu h100-nvl -tp 2 --nvlink-bridge=false",
        "--gpu h100-sxm -tp 2",
        "--gpu l40s -tp 2",
    ] {
        assert!(!is_told(flags), "{flags}");
    }
}
