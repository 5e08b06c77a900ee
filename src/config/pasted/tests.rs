//! Commands pasted from a server and its benchmark client: what they mean, and what of them cannot be honoured.

use insta::assert_snapshot;

use crate::config::flags::tests::{MACHINE, resolve_line, said, traffic};
use crate::config::*;
use crate::workload::{Arrivals, Draws, Lengths};

#[test]
fn pasted_commands_are_understood_with_their_clients_defaults() {
    let line = "--gpu h100-sxm --serve-cmd 'VLLM_USE_V1=1 vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 1 --max_num_batched_tokens 4096 \
        --max-model-len 8192 --host 0.0.0.0 --disable-log-requests' --bench-cmd 'vllm bench serve --backend vllm --dataset-name random \
        --random-input-len 1024 --random-output-len 128 --request-rate 20 --ignore-eos --goodput ttft:500'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    let spec = &resolved.scenario.workload;
    assert_eq!(
        resolved
            .scenario
            .first_pool()
            .engine
            .vllm()
            .unwrap()
            .max_num_batched_tokens,
        4096
    );
    assert_eq!(
        (spec.num_prompts, spec.client.rescale_arrivals),
        (Some(1000), true)
    );
    assert_eq!(spec.arrivals, Arrivals::Poisson { request_rate: 20.0 });
    assert!(matches!(
        spec.lengths,
        Lengths::RandomVllm {
            input_len: 1024,
            output_len: 128,
            ..
        }
    ));
    assert_eq!(resolved.slo.goodput.len(), 1);
    assert_eq!(
        resolved
            .notes
            .iter()
            .filter(|note| note.contains("has no effect"))
            .count(),
        4
    );
    assert_eq!(resolved.report.backend.as_deref(), Some("vllm"));
    let bare = "--gpu h100-sxm --serve-cmd 'python3 -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-8B-Instruct' \
        --bench-cmd 'python3 benchmarks/benchmark_serving.py --model meta-llama/Llama-3.1-8B-Instruct'";
    let spec = resolve_line(bare)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .scenario
        .workload;
    assert_eq!(
        (spec.arrivals, spec.num_prompts),
        (Arrivals::AllAtOnce, Some(1000))
    );
}

#[test]
fn another_backend_of_tensorrt_llm_is_refused() {
    let told = |backend: &str| {
        let line = format!(
            "--gpu h100-sxm --request-rate 4 --input-len 9 --output-len 9 --serve-cmd 'trtllm-serve \
             meta-llama/Llama-3.1-8B-Instruct {backend}'"
        );
        resolve_line(&line).map_or_else(|problems| problems.to_string(), |_| String::new())
    };
    for other in ["--backend tensorrt", "--backend=_autodeploy"] {
        assert!(told(other).contains("is not modelled"), "{}", told(other));
    }
    assert_eq!(told("--backend pytorch"), "");
}

#[test]
fn pasted_commands_that_cannot_be_honoured_say_why() {
    let told = |line: &str| {
        resolve_line(line)
            .err()
            .map_or_else(|| "accepted".to_string(), |problems| problems.to_string())
    };
    assert_snapshot!(told("--serve-cmd 'vllm serve m --cpu-offload-gb 4 --max-num-sekws 4'"), @r#"
    error: in --serve-cmd: `--cpu-offload-gb` is not supported: it would change the result (weights offloaded to the host are not modelled yet)

    error: in --serve-cmd: unexpected argument '--max-num-sekws' found
     |
     = help: a similar argument exists: '--max-num-seqs'

    error: no shape of the model `m` is bundled
     |
     = help: or give the path of its config.json
    "#);
    // What other tools call so is told as of an own flag, and not what is spelt nearly so.
    let traffic = "--bench-cmd 'vllm bench serve --isl 100 --rps=3'";
    let foreign = told(traffic);
    for (flag, here) in [("isl", "--input-len"), ("rps", "--request-rate")] {
        let is_told = foreign.contains(&format!("help: `--{flag}`: here it is {here}"));
        assert!(is_told && !foreign.contains("similar"), "{foreign}");
    }
    assert_snapshot!(told("--serve-cmd 'docker run vllm'"), @r#"
    error: `--serve-cmd` must hold a whole command
     |
     = help: begin it with `vllm serve`
    "#);
    assert_snapshot!(told("--bench-cmd 'vllm bench serve --num-prompts \"5'"), @r#"error: `--bench-cmd` has a quote that does not end"#);
    assert_snapshot!(told("--scenario quikstart"), @r#"
    error: there is no scenario `quikstart`: there is no file `quikstart`
     |
     = help: did you mean `quickstart`?
     = help: shipped are quickstart, course-week1, course-week1-sglang, course-week2-latency, course-week2-throughput, matrix-a, matrix-b, matrix-c, matrix-d, matrix-e, matrix-f, chunked-prefill, no-chunked-prefill, prefix-cold, prefix-warm, prefix-lpm, prefix-caching, multi-turn, radix-cache, queue-shared, queue-unique, chunk-sizes, burst, ideal-queue, memoryless-queue, dp-router, dp-attention, kv-events, failover, static-batching, continuous-batching, v0-prefill-stall, speculative, lmcache-cold, lmcache-warm, lmcache-restart, gateway, gateway-classes, load-shaping, load-shaping-mixed, pd-input-length, pd-together, pd-failover, rate-limit, autoscale
    "#);
}

#[test]
fn a_flag_that_a_pasted_command_repeats_counts_once_and_the_last_time() {
    let line = "--gpu h100 --serve-cmd 'vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --max-model-len 8192 --max_num_seqs=4 -tp 1 -tp 2' \
                --bench-cmd 'vllm bench serve --request-rate 2 --goodput ttft:100 --num-prompts 50 --request-rate 3 --goodput tpot:50'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(resolved.scenario.first_pool().engine.max_num_seqs(), 4);
    assert_eq!(resolved.placement.tensor_parallel, 2);
    assert_eq!(resolved.request_rate(), 3.0);
    assert_eq!(resolved.slo.goodput.len(), 1, "argparse keeps the last list");
    let notes: Vec<&String> = resolved
        .notes
        .iter()
        .filter(|note| note.contains("is given"))
        .collect();
    assert_snapshot!(notes.iter().map(|note| note.as_str()).collect::<Vec<_>>().join("\n"), @r"
    in --serve-cmd: --max-num-seqs is given twice: the last, 4, counts, as in vLLM
    in --serve-cmd: --tensor-parallel-size is given twice: the last, 2, counts, as in vLLM
    in --bench-cmd: --goodput is given twice: the last, tpot:50, counts, as in vLLM
    in --bench-cmd: --request-rate is given twice: the last, 3, counts, as in vLLM
    ");
    let switches = |flags: &str| {
        let line = format!(
            "--gpu h100 --serve-cmd 'vllm serve Qwen/Qwen3-8B --max-model-len 8192 {flags}' \
             --bench-cmd 'vllm bench serve --request-rate 2 --num-prompts 50'"
        );
        resolve_line(&line).unwrap().notes.join("; ")
    };
    let told = switches("--no-enable-prefix-caching --enable-prefix-caching");
    assert!(
        told.contains("--enable-prefix-caching is given twice: the last, true, counts"),
        "{told}"
    );
    assert!(!switches("--enforce-eager --enforce-eager").contains("twice"));
}

#[test]
fn a_pasted_benchmark_draws_as_its_client_does() {
    let draws = |flags: &str| {
        let machine = "meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm";
        let resolved = resolve_line(&format!("{machine} {flags}")).unwrap();
        let told = resolved
            .notes
            .into_iter()
            .find(|note| note.contains("drawn by the simulator"));
        (
            resolved.scenario.workload.client.draws,
            resolved.scenario.seed,
            told,
        )
    };
    let lengths = "--dataset-name random --random-input-len 64 --random-output-len 8 --request-rate 4";
    let vllm = format!("--bench-cmd 'vllm bench serve {lengths} --random-range-ratio 0.5 --seed 7'");
    assert_eq!(draws(&vllm), (Draws::Vllm, 7, None));
    // Each version of SGLang's client has a seed of its own.
    let sglang = format!("--bench-cmd 'python -m sglang.bench_serving {lengths}'");
    assert_eq!(draws(&sglang), (Draws::Sglang, 42, None));
    let old = format!("--engine sglang@0.5.4 {sglang}");
    assert_eq!(draws(&old), (Draws::Sglang, 1, None));
    assert_eq!(draws(&format!("{lengths} --client plain")).0, Draws::Own);
    assert_eq!(draws(lengths).0, Draws::Own);
    let (_, _, told) =
        draws("--bench-cmd 'vllm bench serve --dataset-name prefix_repetition --request-rate 4'");
    assert_snapshot!(told.unwrap(), @"arrivals are drawn by the simulator: which ones vllm bench serve draws with this seed is not known here");
}

#[test]
fn random_ids_has_the_lengths_of_random_and_says_whose_its_instants_are() {
    let resolved = |name: &str| {
        let line = format!(
            "--gpu h100 --model Qwen/Qwen3-8B --engine sglang --bench-cmd 'python -m sglang.bench_serving --dataset-name {name} \
             --random-input 512 --random-output 64 --request-rate 4 --num-prompts 100'"
        );
        resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"))
    };
    let (ids, plain) = (resolved("random-ids"), resolved("random"));
    assert_eq!(ids.scenario.workload, plain.scenario.workload);
    let said = |notes: &[String]| {
        notes
            .iter()
            .any(|note| note.starts_with("random-ids has the lengths of random"))
    };
    assert!(said(&ids.notes) && !said(&plain.notes));
}

#[test]
fn a_pasted_sglang_benchmark_has_that_clients_habits() {
    let command = "python -m sglang.bench_serving --backend sglang --port 8001 --dataset-name generated-shared-prefix \
                   --num-prompts 200 --request-rate 4 --gsp-range-ratio 1";
    let resolved = resolve_line(&format!("{MACHINE} --bench-cmd '{command}'")).unwrap();
    let spec = &resolved.scenario.workload;
    // The client sends all that its data set has, and does not rescale its arrivals.
    assert_eq!(
        (spec.num_prompts, spec.client.rescale_arrivals),
        (Some(1024), false)
    );
    let told = resolved.notes.join("\n");
    assert!(
        told.contains(
            "--bench-cmd --num-prompts 200 has no effect: generated-shared-prefix has 1024 prompts"
        ),
        "{told}"
    );
    assert_snapshot!(
        traffic("--bench-cmd 'python3 -m sglang.bench_serving --dataset-name random --random-input 512 --num-prompt 50'"),
        @"AllAtOnce; RandomSglang { input_len: 512, output_len: 1024, range_ratio: 0.0 }; Requests(50)"
    );
    let refused = resolve_line(&format!("{MACHINE} --bench-cmd '{command} --gsp-num-turns 3'"));
    assert!(
        refused
            .err()
            .is_some_and(|error| error.to_string().contains("is not supported"))
    );
}

#[test]
fn what_has_no_effect_is_told_apart_and_survives_being_spelt_out() {
    let line = "--gpu t4 --serve-cmd 'vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-model-len 4096 --disable-log-requests \
                --swap-space 4' --bench-cmd 'vllm bench serve --request-rate 2 --num-prompts 50 --seed 7 --seed 8'";
    let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
    let has = |sentences: &[String], text: &str| sentences.iter().any(|sentence| sentence.contains(text));
    assert!(
        has(&resolved.ignored, "--disable-log-requests has no effect"),
        "{:?}",
        resolved.ignored
    );
    assert!(has(&resolved.ignored, "never swaps"), "{:?}", resolved.ignored);
    let others = resolved.other_notes();
    assert!(
        has(&others, "bfloat16") && !has(&others, "no effect"),
        "{others:?}"
    );
    let text = resolved_toml(&resolved);
    let again = resolve(Document::parse("a.toml", &text).unwrap(), &NoFiles).unwrap();
    assert_eq!(again.ignored, resolved.ignored);
    assert_eq!(again.other_notes(), others);
    assert_eq!(resolved_toml(&again), text);
}

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
fn a_program_is_known_by_its_own_name() {
    use crate::config::flags::ClientKind;
    use crate::config::pasted::{bench, engine_of, serve};

    for of_sglang in [
        "sglang serve --model-path m",
        "sglang  serve --model-path m",
        "sglang \\\n  serve --model-path m",
        "/opt/venv/bin/python3.12 -m sglang.launch_server --model-path m",
        "docker run lmsysorg/sglang:v0.5.4 python3 -m sglang.launch_server --model-path m",
    ] {
        assert_eq!(engine_of(of_sglang), "sglang", "{of_sglang}");
        let flags = serve(of_sglang, None, &NoFiles).unwrap().flags;
        let profile = flags.engine.profile.unwrap();
        assert!(profile.starts_with("sglang"), "{of_sglang}: {profile}");
    }
    let name_of_another = "vllm serve m --served-model-name 'not sglang serve'";
    assert_eq!(engine_of(name_of_another), "vllm");
    assert_eq!(
        serve(name_of_another, None, &NoFiles)
            .unwrap()
            .flags
            .engine
            .profile,
        None
    );
    let client = |command: &str| bench(command).ok().and_then(|said| said.traffic.client);
    let saved = "vllm bench serve --model m --save-result --result-filename like_bench_serving.json";
    assert_eq!(client(saved), Some(ClientKind::Vllm));
    assert_eq!(
        client("python3 -m sglang.bench_serving --model m"),
        Some(ClientKind::Sglang)
    );
}

#[test]
fn tensorrt_llms_server_is_known_by_its_program() {
    let config = |command: &str| {
        let line = format!(
            "--gpu h100-sxm --request-rate 4 --input-len 512 --output-len 64 --serve-cmd '{command}'"
        );
        let resolved = resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"));
        match resolved.scenario.first_pool().engine.clone() {
            crate::engine::EngineSpec::Trtllm(config) => (config, resolved.notes),
            _ => panic!("TensorRT-LLM serves"),
        }
    };
    let model = "meta-llama/Llama-3.1-8B-Instruct";
    let (config, notes) = config(&format!(
        "trtllm-serve {model} --max_seq_len=40960 --enable_chunked_prefill --max_batch_size 64 --tp_size 1 --num_postprocess_workers 2"
    ));
    assert_eq!((config.max_seq_len, config.max_batch_size), (40960, 64));
    assert!(config.enable_chunked_prefill);
    assert!(
        notes
            .iter()
            .any(|note| note.contains("--num-postprocess-workers has no effect"))
    );
    let told = resolve_line(&format!(
        "--gpu h100-sxm --request-rate 4 --input-len 9 --output-len 9 --serve-cmd 'trtllm-serve serve {model} --extra_llm_api_options a.yml'"
    ));
    let told = told.err().unwrap().to_string();
    assert!(
        told.contains("the file of options a.yml cannot be read"),
        "{told}"
    );
}

#[test]
fn what_a_pasted_flag_may_be_is_told() {
    let told = |commands: &str| said(&format!("--gpu h100-sxm --max-model-len 8192 {commands}"));
    let serve = "--request-rate 4 --input-len 9 --output-len 9 --serve-cmd 'vllm serve Qwen/Qwen3-8B";
    let dtype = told(&format!("{serve} --kv-cache-dtype int8'"));
    assert!(dtype.contains("it takes auto, bfloat16"), "{dtype}");
    let unknown = told(&format!("{serve} --foo-bar'"));
    assert!(
        unknown.contains("--foo-bar") && !unknown.contains("to pass"),
        "{unknown}"
    );
    let latency = told("--model Qwen/Qwen3-8B --bench-cmd 'vllm bench latency --input-len 9'");
    assert!(latency.contains("`vllm bench latency` is not read"), "{latency}");
}

#[test]
fn a_table_that_is_added_to_replaces_nothing() {
    let serve = "vllm serve meta-llama/Llama-3.1-8B-Instruct --speculative-config {\\\"method\\\":\\\"eagle3\\\",\\\"num_speculative_tokens\\\":3}";
    let line = format!(
        "--gpu h100-sxm --max-model-len 8192 --request-rate 4 --input-len 9 --output-len 9 --acceptance-rate 0.7 --serve-cmd '{serve}'"
    );
    let notes = resolve_line(&line)
        .unwrap_or_else(|problems| panic!("{problems}"))
        .notes;
    assert!(!notes.iter().any(|note| note.contains("replaces")), "{notes:?}");
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

#[test]
fn sglang_s_client_says_what_it_would_send_by_default() {
    let line = |bench: &str| {
        format!(
            "--gpu h100 --model Qwen/Qwen3-8B --engine sglang --bench-cmd 'python -m sglang.bench_serving --num-prompts 100 {bench}'"
        )
    };
    let told = said(&line(""));
    assert!(
        told.contains("ShareGPT") && told.contains("--dataset-path"),
        "{told}"
    );
    let apart = resolve_line(&line(
        "--dataset-name random --random-input-len 64 --random-output-len 8 --pd-separated",
    ));
    let notes = apart.unwrap_or_else(|told| panic!("{told}")).notes.join("\n");
    assert!(notes.contains("--pd-separated has no effect"), "{notes}");
}
