//! Commands pasted from a server and its benchmark client: what they mean, and what of them cannot be honoured.

#[cfg(test)]
mod environment;

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
        let profile = flags.server.engines.engine.profile.unwrap();
        assert!(profile.starts_with("sglang"), "{of_sglang}: {profile}");
    }
    let name_of_another = "vllm serve m --served-model-name 'not sglang serve'";
    assert_eq!(engine_of(name_of_another), "vllm");
    assert_eq!(
        serve(name_of_another, None, &NoFiles)
            .unwrap()
            .flags
            .server
            .engines
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
