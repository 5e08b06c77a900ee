//! What people paste and hand over: the client's names in what is saved, files that grow, columns and figures that are no measurement.

use serde_json::Value;

use crate::{Desk, fixture, text, unfolded};

/// A short run of a client that asks for a model by the server's own name for it.
const SERVED: &str = "run --gpu h100 --serve-cmd 'vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192 \
                      --served-model-name llama'";

fn saved(desk: &Desk, name: &str) -> String {
    text(&std::fs::read(desk.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn a_saved_result_has_the_names_of_the_client() {
    let desk = Desk::new();
    let bench = "vllm bench serve --backend openai-chat --model llama --dataset-name random --input-len 256 --output-len 16 \
                 --request-rate 8 --max-concurrency 16 --num-prompts 40 --save-result";
    let run = desk.run(&format!("{SERVED} --bench-cmd '{bench}'"));
    let told = text(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{told}");
    assert!(!told.contains("--backend"), "{told}");
    let name = "openai-chat-8.0qps-concurrency16-llama-20260101-000000.json";
    let result: Value = serde_json::from_str(&saved(&desk, name)).unwrap();
    for (key, expected) in [
        ("backend", "openai-chat"),
        ("endpoint_type", "openai-chat"),
        ("model_id", "llama"),
    ] {
        assert_eq!(result[key], expected, "{key}");
    }
    // The file is still our own, of the model that was simulated.
    let diff = desk.expect(0, &format!("diff {name} {name}"));
    assert!(diff.contains("nothing moved"), "{diff}");
    let refused = desk.run(&format!("calibrate {name} --gpu h100"));
    assert!(text(&refused.stderr).contains("is a prediction of Plimsoll itself"));
}

#[test]
fn results_are_appended_as_the_client_appends_them() {
    let desk = Desk::new();
    let bench = |rate: u32| {
        format!(
            "{SERVED} --bench-cmd 'vllm bench serve --dataset-name random --input-len 256 --output-len 16 --request-rate {rate} \
             --num-prompts 40 --append-result --result-filename all.json'"
        )
    };
    desk.expect(0, &bench(4));
    desk.expect(0, &bench(8));
    let rates: Vec<Value> = saved(&desk, "all.json")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["request_rate"].clone())
        .collect();
    assert_eq!(rates, [4.0, 8.0]);
    let audit = text(&desk.run("audit all.json").stdout);
    assert!(audit.contains("2 "), "{audit}");
}

#[test]
fn a_run_that_does_not_fit_says_which_model_was_counted() {
    let line = "run --gpu l4 --request-rate 1 --input-len 9 --output-len 9 --serve-cmd 'vllm serve \
                RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8 --disable-log-requests'";
    let run = Desk::new().run(line);
    let told = text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{told}");
    for part in [
        "is not bundled",
        "assumed max_model_len = 131072",
        "--disable-log-requests has no effect",
    ] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    assert!(!told.contains("--quantization"), "{told}");
}

#[test]
fn files_of_options_are_read_as_their_servers_read_them() {
    let desk = Desk::new();
    let options = "kv_cache_config:\n  free_gpu_memory_fraction: 0.5\n  enable_block_reuse: false\nmax_batch_size: 64\n";
    std::fs::write(desk.path().join("extra.yml"), options).unwrap();
    std::fs::write(
        desk.path().join("vllm.yaml"),
        "max-num-seqs: 64\nenforce-eager: true\n",
    )
    .unwrap();
    let resolved = |serve: &str| {
        let line = format!(
            "run --dry-run --gpu h100 --request-rate 1 --input-len 9 --output-len 9 --serve-cmd '{serve}'"
        );
        desk.expect(0, &line)
    };
    let model = "meta-llama/Llama-3.1-8B-Instruct";
    let told = resolved(&format!(
        "trtllm-serve {model} --max_batch_size 8 --extra_llm_api_options extra.yml"
    ));
    for part in [
        "max_batch_size = 64",
        "kv_cache_free_gpu_memory_fraction = 0.5",
        "enable_block_reuse = false",
    ] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let told = resolved(&format!("vllm serve {model} --config vllm.yaml --max-num-seqs 8"));
    assert!(
        told.contains("max_num_seqs = 8") && told.contains("enforce_eager = true"),
        "{told}"
    );
    let line = format!("run --gpu h100 --request-rate 1 --serve-cmd 'vllm serve {model} --config none.yaml'");
    let refused = desk.run(&line);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("the file of options none.yaml cannot be read"));
}

#[test]
fn columns_and_figures_that_are_no_measurement_are_named() {
    let desk = Desk::new();
    let header = "gpu,model,isl_mean,osl_mean,rate_or_concurrency_kind,value,num_prompts,TPOT (ms),ttft_mean_ms,tpot_mean_ms";
    let row = "H100-SXM-80GB,meta-llama/Llama-3.1-8B-Instruct,256,16,max_concurrency,1,20,5";
    std::fs::write(desk.path().join("t.csv"), format!("{header}\n{row},NaN,6\n")).unwrap();
    let run = desk.run("validate t.csv --no-interval --format json");
    let told = text(&run.stderr);
    assert!(
        told.contains("the column `tpot (ms)` is not known and is left out; did you mean `tpot_mean_ms`?"),
        "{told}"
    );
    assert!(told.contains("ttft_mean_ms is NaN in line 2"), "{told}");
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    let strange = &result
        .pointer("/unknown_columns")
        .or(result.pointer("/runs/unknown_columns"));
    assert_eq!(strange.unwrap()[0]["did_you_mean"], "tpot_mean_ms", "{result}");
    let other = format!("{header}\n{row},40,6\n");
    std::fs::write(desk.path().join("u.csv"), other).unwrap();
    let diff = desk.expect(0, "diff u.csv t.csv");
    assert!(
        diff.contains("ttft_mean_ms of the second result is NaN"),
        "{diff}"
    );
}

#[test]
fn what_no_run_has_is_refused() {
    let desk = Desk::new();
    let result = r#"{"backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "request_rate": "inf", "max_concurrency": 8,
        "duration": 1e308, "completed": 100, "total_input_tokens": 51200, "total_output_tokens": 12800,
        "output_throughput": 1e300, "mean_ttft_ms": 40.0, "mean_tpot_ms": 5.9}"#;
    std::fs::write(desk.path().join("wild.json"), result).unwrap();
    for command in ["calibrate wild.json --gpu h100", "diff wild.json wild.json"] {
        let run = desk.run(command);
        let told = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{command}: {told}");
        assert!(told.contains("and no run has more"), "{told}");
    }
}

#[test]
fn seconds_beside_milliseconds_are_suspected() {
    let desk = Desk::new();
    let table = |name: &str, ttft: &str, tpot: &str| {
        let rows = format!(
            "model,value,rate_or_concurrency_kind,ttft_mean_ms,tpot_mean_ms\nm,4,rate,{ttft},{tpot}\n"
        );
        std::fs::write(desk.path().join(name), rows).unwrap();
    };
    table("a.csv", "40", "6");
    table("b.csv", "0.042", "0.0061");
    let diff = desk.expect(0, "diff a.csv b.csv");
    assert!(
        diff.contains("may be in seconds") && !diff.contains("bandwidth"),
        "{diff}"
    );
}

#[test]
fn a_file_of_a_kind_that_is_not_written_is_refused_and_a_count_before_a_card_explained() {
    let desk = Desk::new();
    let line = "run Qwen/Qwen3-8B --gpu h100 --request-rate 1 --input-len 9 --output-len 9 --num-prompts 5";
    let told = text(&desk.run(&format!("{line} -o x.parquet")).stderr);
    assert!(told.contains("no result is written as .parquet"), "{told}");
    let told = text(&desk.run(&line.replace("h100", "8xh100")).stderr);
    assert!(told.contains("--gpu h100 -tp 8"), "{told}");
    let told = text(&desk.run(&format!("{line} --gpu-memory-utilization 1.2")).stderr);
    assert!(
        told.contains("must be above 0 and at most 1: 1.2 is not"),
        "{told}"
    );
}

#[test]
fn a_table_in_which_no_figure_is_read_is_refused_and_columns_that_are_left_are_named() {
    let desk = Desk::new();
    let write = |name: &str, table: &str| std::fs::write(desk.path().join(name), table).unwrap();
    write("bare.csv", "id,ttft_ms,tpot_ms,e2e_ms\nx,1,2,3\n");
    let run = desk.run("audit bare.csv");
    let told = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{told}");
    assert!(
        told.contains("no figure was read") && told.contains("`ttft_mean_ms`"),
        "{told}"
    );
    write("odd.csv", "id,client_ttft_ms,ttft_foo_ms,tpot_mean_ms\nx,1,2,3\n");
    write("other.csv", "id,avg_ttft_ms,tpot_mean_ms\nx,1,3\n");
    let noted = desk.expect(0, "audit odd.csv other.csv --notes");
    let (first, second) = noted.split_once("other.csv (CSV table)").unwrap();
    for name in ["client_ttft_ms", "ttft_foo_ms"] {
        assert!(
            first.contains(&format!("left   row x: {name} is no column")),
            "{noted}"
        );
    }
    assert!(second.contains("avg_ttft_ms is no column"), "{noted}");
    for command in ["diff odd.csv other.csv", "validate odd.csv"] {
        let told = text(&desk.run(command).stderr);
        assert!(
            told.contains("the column `client_ttft_ms` is not known"),
            "{command}: {told}"
        );
    }
}

#[test]
fn a_measured_run_pairs_with_its_own_row_and_no_right_column_is_blamed() {
    let desk = Desk::new();
    let measured = |name: &str| fixture(&format!("measured/serving-h100{name}"));
    let (asynchronous, other) = (measured("/a-c64.json.gz"), measured("/s-c64.json.gz"));
    let diff = desk.expect(0, &format!("diff {asynchronous} {other}"));
    assert!(!diff.contains("latency over tokens"), "{diff}");
    let diff = desk.expect(0, &format!("diff {} {other}", measured(".csv")));
    assert!(diff.starts_with("nothing moved by more than chance\n"), "{diff}");
    assert!(
        diff.contains("first row a-c1 (1 in flight)") && !diff.contains("ambiguous"),
        "{diff}"
    );
    let known = format!(
        "audit {} --gpu l40s --n-gpus 1 --tensor-parallel-size",
        measured("/a-c1.json.gz")
    );
    let told = text(&desk.run(&format!("{known} 8")).stderr);
    desk.expect(2, &format!("{known} 8"));
    assert!(told.contains("needs 8 GPUs, and --n-gpus 1 leaves 1"), "{told}");
}

/// DeepSeek-R1 as NVIDIA's recipes serve it on eight B200: attention for requests of its own on each, experts dealt out.
#[test]
fn a_pasted_server_of_tensorrt_llm_attends_apart_on_each_gpu() {
    let desk = Desk::new();
    let options = "enable_attention_dp: true\nattention_dp_config:\n  batching_wait_iters: 0\n  enable_balance: true\n  timeout_iters: 60\n\
                   cuda_graph_config:\n  enable_padding: true\n  max_batch_size: 128\nkv_cache_config:\n  dtype: fp8\n  \
                   free_gpu_memory_fraction: 0.8\n  enable_block_reuse: false\nmoe_config:\n  backend: CUTLASS\nstream_interval: 10\n\
                   print_iter_log: true\n";
    std::fs::write(desk.path().join("file.yml"), options).unwrap();
    let serve = "trtllm-serve deepseek-ai/DeepSeek-R1-0528 --port 8888 --trust_remote_code --backend pytorch --max_batch_size 128 \
                 --max_seq_len 4096 --max_num_tokens 8192 --tp_size 8 --ep_size 8 --config file.yml";
    let run = |more: &str| {
        format!(
            "run --gpu b200 --input-len 1024 --output-len 64 --num-prompts 400 --max-concurrency 128 {more} --serve-cmd '{serve}'"
        )
    };
    let told = desk.expect(0, &run("--dry-run"));
    for part in [
        "enable_attention_dp = true",
        "attention_dp_enable_balance = true",
        "attention_dp_timeout_iters = 60",
        "attention_dp_batching_wait_iters = 0",
        "expert_parallel_size = 8",
    ] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let output = desk.run(&run("--why --format text"));
    let (out, err) = (unfolded(&text(&output.stdout)), unfolded(&text(&output.stderr)));
    assert!(output.status.code().is_some_and(|code| code < 2), "{out}\n{err}");
    for part in [
        "on 8 × B200-SXM-180GB, tensorrt-llm@1.2",
        "by place 8 replicas",
        "8 engines with work waited",
        "of the other ranks",
    ] {
        assert!(out.contains(part), "`{part}` is not in\n{out}");
    }
    let notes = out + &err;
    assert!(notes.contains("the 8 ranks attend by themselves"), "{notes}");
    // Eight pools of KV beside a share of the experts hold more of a latent cache than one that all repeat.
    let tokens = |serve: &str| {
        let fit = desk.expect(0, &format!("fit --gpu b200 --format json --serve-cmd '{serve}'"));
        let fit: Value = serde_json::from_str(&fit).unwrap();
        fit["kv_tokens"].as_u64().unwrap_or_else(|| panic!("{fit}"))
    };
    let apart = tokens(serve);
    std::fs::write(
        desk.path().join("file.yml"),
        options
            .replace("enable_attention_dp: true", "enable_attention_dp: false")
            .replace("enable_balance: true", "enable_balance: false"),
    )
    .unwrap();
    assert!(8 * apart > 4 * tokens(serve), "{apart}");
    std::fs::write(
        desk.path().join("file.yml"),
        options.to_owned() + "scheduler_config:\n  capacity_scheduler_policy: MAX_UTILIZATION\n",
    )
    .unwrap();
    let refused = desk.run(&run(""));
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("beside enable_attention_dp"),
        "{}",
        text(&refused.stderr)
    );
}
