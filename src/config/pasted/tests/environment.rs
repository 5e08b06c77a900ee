//! What stands around a pasted command: its environment, and what it says of its neighbours.

use super::*;

#[test]
fn what_stands_around_a_pasted_command_is_told() {
    let line = |command: &str, more: &str| {
        format!(
            "--gpu h100 --max-model-len 8192 --request-rate 2 --input-len 128 --output-len 16 --serve-cmd '{command}' {more}"
        )
    };
    let resolved = |command: &str, more: &str| {
        resolve_line(&line(command, more)).unwrap_or_else(|problems| panic!("{command}: {problems}"))
    };
    let docker = "docker run --gpus all -e VLLM_ATTENTION_BACKEND=FLASHINFER -v /m:/m vllm/vllm-openai:v0.11.0 --model Qwen/Qwen3-8B";
    let served = resolved(docker, "");
    assert_eq!(
        served.scenario.first_pool().engine.vllm().unwrap().profile,
        "vllm@0.11"
    );
    assert_snapshot!(served.ignored.join("\n"), @r"
    in --serve-cmd: VLLM_ATTENTION_BACKEND=FLASHINFER is not modelled: the calibration says how fast kernels are
    in --serve-cmd: `docker run --gpus all -v /m:/m` before the command has no effect: a container changes nothing that is simulated
    ");
    let pinned = |tag: &str, more: &str| resolved(&docker.replace(":v0.11.0", tag), more);
    let served = pinned(":v0.11.0@sha256:0a1b2c", "");
    assert_eq!(
        served.scenario.first_pool().engine.vllm().unwrap().profile,
        "vllm@0.11"
    );
    for tag in [":latest", "@sha256:0a1b2c", ""] {
        let told = pinned(tag, "").ignored.join("\n");
        assert!(told.contains("says no version"), "{tag}: {told}");
        let told = pinned(tag, "--engine vllm@0.11").ignored.join("\n");
        assert!(!told.contains("says no version"), "{tag}: {told}");
    }
    for (image, more, profile) in [
        ("vllm/vllm-openai:v0.10.2rc1", "", "vllm@0.11"),
        ("nvcr.io/nvidia/vllm:25.09-py3 vllm serve", "", "vllm@0.33"),
        (
            "rocm/vllm:rocm6.4.1_vllm_0.10.1_20250909 vllm serve",
            "",
            "vllm@0.11",
        ),
    ] {
        let command = format!("docker run --gpus all {image} --model Qwen/Qwen3-8B");
        let served = resolved(&command.replace("serve --model", "serve"), more);
        let engine = &served.scenario.first_pool().engine;
        assert_eq!(engine.vllm().unwrap().profile, profile, "{image}");
        let told = served.ignored.join("\n");
        assert_eq!(
            told.contains("says no version"),
            image.contains("25.09"),
            "{image}: {told}"
        );
    }
    let v0 = resolved(&docker.replace("v0.11.0", "v0.6.6.post1"), "");
    assert!(v0.scenario.first_pool().engine.vllm().is_none());
    let built = line(
        "docker run nvcr.io/nvidia/tensorrt-llm/release:0.20.0 trtllm-serve Qwen/Qwen3-8B",
        "",
    );
    let told = resolve_line(&built).err().unwrap().to_string();
    assert!(told.contains("ran engines that were built before"), "{told}");
    let installed = resolved("pip install vllm==0.11.0 && vllm serve Qwen/Qwen3-8B", "");
    assert_eq!(
        installed.scenario.first_pool().engine.vllm().unwrap().profile,
        "vllm@0.11"
    );
    let idle = line("docker run lmsysorg/sglang:v0.5.4 --model Qwen/Qwen3-8B", "");
    assert_snapshot!(resolve_line(&idle).err().unwrap(), @r"
    error: in --serve-cmd: the image sglang serves only with a command of its own, and none follows
     |
     = help: write `python3 -m sglang.launch_server` behind the image
    ");
    let asked = resolved(docker, "--engine vllm@0.33");
    assert_eq!(
        asked.scenario.first_pool().engine.vllm().unwrap().profile,
        "vllm@0.33"
    );
    let error = |more: &str| {
        let told = resolve_line(&line("VLLM_USE_V1=0 vllm serve Qwen/Qwen3-8B", more));
        told.err().map(|problems| problems.to_string())
    };
    assert_snapshot!(error("").unwrap(), @r"
    error: in --serve-cmd: `VLLM_USE_V1=0` asks for the V0 engine
     |
     = help: give --engine vllm@0.6, which is V0's profile, or leave the setting out
    ");
    assert_eq!(error("--engine vllm@0.6"), None);
}

#[test]
fn a_server_that_sees_too_few_gpus_does_not_start() {
    let told = |command: &str| {
        let line = format!(
            "--gpu h100-sxm --input-len 100 --output-len 10 --request-rate 1 --serve-cmd '{command}'"
        );
        let told = resolve_line(&line);
        told.err().map_or(String::new(), |problems| problems.to_string())
    };
    let few = told("CUDA_VISIBLE_DEVICES=0,1 vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 4");
    assert_snapshot!(few, @r"
    error: in --serve-cmd: with `CUDA_VISIBLE_DEVICES=0,1` 2 GPUs are visible, and `-tp 4` needs 4: the server does not start
     |
     = help: name as many GPUs there as the server needs, or leave the setting out
    ");
    for fine in [
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2",
        "CUDA_VISIBLE_DEVICES=4 vllm serve meta-llama/Llama-3.1-8B-Instruct",
        "CUDA_VISIBLE_DEVICES=0,1 vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 4 --distributed-executor-backend ray",
    ] {
        assert_eq!(told(fine), "", "{fine}");
    }
}

#[test]
fn lmcaches_settings_are_read_where_it_keeps_kv() {
    let served = |connector: &str| {
        let line = format!(
            "--gpu h100 --max-model-len 8192 --request-rate 2 --input-len 128 --output-len 16 --serve-cmd \
             'LMCACHE_MAX_LOCAL_CPU_SIZE=20 LMCACHE_CHUNK_SIZE=512 LMCACHE_USE_LAYERWISE=True vllm serve Qwen/Qwen3-8B {connector}'"
        );
        resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let cached =
        served(r#"--kv-transfer-config "{\"kv_connector\":\"LMCacheConnectorV1\",\"kv_role\":\"kv_both\"}""#);
    let tiers = cached.scenario.tiers.as_ref().unwrap();
    assert_eq!(tiers.chunk_size, 512);
    let told = cached.ignored.join("\n");
    assert!(
        told.contains("LMCACHE_CHUNK_SIZE=512 is chunk_size of [lmcache]"),
        "{told}"
    );
    assert!(served("").scenario.tiers.is_none());
}

#[test]
fn slices_of_outputs_are_read_of_the_environment_and_carried() {
    let served = |before: &str, engine: &str| {
        resolve_line(&format!(
            "--gpu h100 --max-model-len 8192 --request-rate 2 --input-len 128 --output-len 16 {engine} --serve-cmd \
             '{before} vllm serve Qwen/Qwen3-8B'"
        ))
    };
    let of = |before: &str, engine: &str| {
        let resolved = served(before, engine).unwrap_or_else(|problems| panic!("{problems}"));
        let said = resolved.ignored.join("\n");
        (
            resolved.scenario.pools[0].frontend.outputs_at_once,
            said,
            crate::config::resolved_toml(&resolved),
        )
    };
    assert_eq!(of("", "").0, 128);
    let (outputs, said, spelt_out) = of("VLLM_V1_OUTPUT_PROC_CHUNK_SIZE=512", "");
    assert_eq!(outputs, 512);
    assert!(
        said.contains("VLLM_V1_OUTPUT_PROC_CHUNK_SIZE=512 is output_proc_chunk_size of [engine]"),
        "{said}"
    );
    assert!(spelt_out.contains("output_proc_chunk_size = 512"), "{spelt_out}");
    // vLLM 0.6 takes all at once, as ever.
    assert_eq!(
        of("VLLM_V1_OUTPUT_PROC_CHUNK_SIZE=512", "--engine vllm@0.6").0,
        u32::MAX
    );
    for wrong in ["many", "0", "-1"] {
        let before = format!("VLLM_V1_OUTPUT_PROC_CHUNK_SIZE={wrong}");
        let problems = served(&before, "").err().unwrap().to_string();
        let expected = format!("in --serve-cmd: `{before}` is not a whole number from 1 to ");
        assert!(problems.contains(&expected), "{problems}");
    }
}

#[test]
fn kernels_for_small_batches_of_experts_set_small_budgets() {
    let served = |more: &str| {
        let line = format!(
            "--gpu h200 --request-rate 1 --input-len 10 --output-len 10 --serve-cmd \
             'vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --max-model-len 8192 {more}'"
        );
        let served = resolve_line(&line).unwrap_or_else(|problems| panic!("{more}: {problems}"));
        let engine = served.scenario.first_pool().engine.vllm().unwrap();
        (engine.max_num_batched_tokens, engine.max_num_seqs)
    };
    let ep = "--enable-expert-parallel";
    assert_eq!(
        served(&format!("{ep} --all2all-backend deepep_low_latency")),
        (256, 256)
    );
    assert_eq!(
        served(&format!(
            "{ep} --all2all-backend=nixl_ep --max-num-batched-tokens 512"
        )),
        (512, 512)
    );
    let others = [
        ep.to_owned(),
        "--all2all-backend deepep_low_latency".to_owned(),
        format!("{ep} --all2all-backend deepep_high_throughput"),
    ];
    for more in others {
        assert_eq!(served(&more), (8192, 1024), "{more}");
    }
}

#[test]
fn half_of_a_pair_of_servers_is_taken_where_both_are_asked_for() {
    let line = |more: &str, mode: &str| {
        format!(
            "--gpu h100 --request-rate 1 --input-len 64 --output-len 8 {more} --serve-cmd 'python -m sglang.launch_server --model-path \
             Qwen/Qwen3-8B --disaggregation-mode {mode} --disaggregation-transfer-backend nixl'"
        )
    };
    for mode in ["prefill", "decode"] {
        let resolved =
            resolve_line(&line("--prefill 1 --decode 2", mode)).unwrap_or_else(|told| panic!("{told}"));
        assert_eq!(resolved.scenario.pools.len(), 2);
        let notes = resolved.notes.join("\n");
        assert!(
            notes.contains(&format!(
                "--disaggregation-mode {mode} starts one server of a pool"
            )) && notes.contains("--disaggregation-transfer-backend has no effect"),
            "{notes}"
        );
        let alone = said(&line("", mode));
        assert!(
            alone.contains("starts one server of a pair") && alone.contains("--prefill 1 --decode 1"),
            "{alone}"
        );
    }
    assert!(said(&line("", "both")).contains("write prefill or decode"));
    resolve_line(&line("", "null")).unwrap_or_else(|told| panic!("{told}"));
}
