//! Every format: small files made here in it, authentic ones where they are present, damaged ones always.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/results")
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn rows(name: &str) -> Vec<Measured> {
    read(&fixture(name), name).unwrap().rows
}

fn one(name: &str) -> Measured {
    let mut rows = rows(name);
    assert_eq!(rows.len(), 1, "{name}");
    rows.remove(0)
}

#[test]
fn a_block_is_read_through_its_colours() {
    let plain = String::from_utf8(fixture("vllm_block.txt")).unwrap();
    let coloured: Vec<String> = plain
        .lines()
        .map(|line| format!("\u{1b}[32m{}\u{1b}[0m", line.replace(':', ":\u{1b}[1;36m")))
        .collect();
    let read = |text: &str| read(text.as_bytes(), "block").unwrap().rows;
    assert_eq!(read(&coloured.join("\n")), read(&plain));
}

#[test]
fn a_table_names_the_line_of_the_file_and_a_comma_that_parts_no_thousands() {
    let table = [
        "model,ttft_mean_ms,tpot_mean_ms",
        "a,1,2",
        "",
        "a,1,2,3",
        "a,\"827,89\",2",
    ]
    .join("\r\n");
    let told = read(table.as_bytes(), "t.csv").unwrap_err().to_string();
    assert!(told.contains("line 4: has 4 cells, the header has 3"), "{told}");
    assert!(
        told.contains("line 5: `ttft_mean_ms`: `827,89` has a comma"),
        "{told}"
    );
}

#[test]
fn a_table_reads_thousands_with_and_without_commas() {
    let table = "model,num_prompts,ttft_mean_ms,mean_ttft_ms\na,\"10,000\",\"1,234.5\",1234.5\n";
    let rows = read(table.as_bytes(), "t.csv").unwrap().rows;
    assert_eq!(rows[0].setup.num_prompts, Some(10_000));
    assert_eq!(rows[0].ttft.mean, Some(1.2345));
}

/// Mean, or median marked `~`, in milliseconds.
fn ms(stats: &Stats) -> String {
    let mark = if stats.mean.is_some() { "" } else { "~" };
    stats.centre().map_or("-".into(), |value| {
        format!("{mark}{:.4}", value * 1e3)
            .trim_end_matches('0')
            .trim_end_matches('.')
            .into()
    })
}

fn line(row: &Measured) -> String {
    let number =
        |value: Option<f64>| value.map_or("-".into(), |value| format!("{}", (value * 1e3).round() / 1e3));
    format!(
        "{}: {} | n {} | {}+{} tok | {}/s {} tok/s | ttft {} tpot {} itl {} e2el {} | {} requests, {} left",
        row.tool.name(),
        row.setup.load,
        row.outcome.completed.map_or("-".into(), |n| n.to_string()),
        number(row.setup.input_tokens),
        number(row.setup.output_tokens),
        number(row.outcome.request_throughput),
        number(row.outcome.output_throughput),
        ms(&row.ttft),
        ms(&row.tpot),
        ms(&row.itl),
        ms(&row.e2el),
        row.requests.len(),
        row.left.len(),
    )
}

const FIXTURES: [&str; 25] = [
    "vllm.json",
    "vllm_appended.jsonl",
    "vllm_2024.json",
    "vllm_all_failed.json",
    "vllm_sweep.json",
    "vllm_block.txt",
    "sglang.jsonl",
    "sglang_block.txt",
    "aiperf_aggregate.json",
    "aiperf_records.jsonl",
    "aiperf_console.txt",
    "genai_perf_aggregate.json",
    "genai_perf_console.txt",
    "guidellm_v1.json",
    "guidellm_v2.json",
    "llmperf_summary.json",
    "llmperf_responses.json",
    "inference_perf.json",
    "inferencex.json",
    "trtllm_bench.txt",
    "table.csv",
    "vllm_latency.json",
    "vllm_latency.txt",
    "sglang_one_batch.jsonl",
    "sglang_one_batch.txt",
];

#[test]
fn every_format_is_read_into_the_same_figures() {
    let mut text = String::new();
    for name in FIXTURES {
        rows(name)
            .iter()
            .for_each(|row| writeln!(text, "{}", line(row)).unwrap());
    }
    insta::assert_snapshot!(text, @r"
    vllm bench serve: 8 in flight | n 400 | 512+128 tok | 8/s 1024 tok/s | ttft 48 tpot 7.4 itl 7.4 e2el 987.8 | 0 requests, 0 left
    vllm bench serve: 2 req/s | n 100 | 512+128 tok | 2/s 256 tok/s | ttft 30 tpot 6 itl - e2el - | 0 requests, 0 left
    vllm bench serve: 4 req/s | n 100 | 512+128 tok | 4/s 512 tok/s | ttft 32 tpot 6.2 itl - e2el - | 0 requests, 0 left
    vllm bench serve: 1 req/s | n 2 | 15+3 tok | 1/s 3 tok/s | ttft 110 tpot 20 itl 20 e2el 150 | 2 requests, 0 left
    vllm bench serve: all at once | n 0 | -+- tok | 0/s 0 tok/s | ttft - tpot - itl - e2el - | 0 requests, 1 left
    vllm bench serve: 2 in flight | n 100 | 128+128 tok | 2/s - tok/s | ttft 20 tpot 7 itl - e2el 909 | 0 requests, 0 left
    vllm bench serve: 2 in flight | n 100 | 128+128 tok | 1.96/s - tok/s | ttft 21 tpot 7.1 itl - e2el 922.7 | 0 requests, 0 left
    vllm bench serve (printed): 8 in flight | n 400 | 512+128 tok | 8/s 1024 tok/s | ttft 48 tpot 7.4 itl 7.4 e2el - | 0 requests, 0 left
    sglang.bench_serving: 32 in flight | n 1000 | 256.5+64.5 tok | 50/s 3225 tok/s | ttft 42 tpot 9 itl 9.1 e2el 620 | 0 requests, 0 left
    sglang.bench_serving: all at once | n 1000 | 256.5+64.5 tok | 50/s 3225 tok/s | ttft 42 tpot 9 itl 9.1 e2el 620 | 0 requests, 0 left
    sglang.bench_serving (printed): 16 in flight | n 160 | 500+250 tok | 1.6/s 400 tok/s | ttft 250 tpot - itl 37.15 e2el 9500 | 0 requests, 0 left
    AIPerf: 1 in flight | n 100 | 550+251 tok | 2/s 502 tok/s | ttft 16 tpot 2 itl - e2el 516 | 0 requests, 0 left
    AIPerf records: unknown load | n 2 | 100+5 tok | 10.87/s 54.348 tok/s | ttft 50 tpot 5.5 itl 5.5 e2el 72 | 2 requests, 1 left
    AIPerf (printed): unknown load | n 700 | 100+51 tok | 250/s 12750 tok/s | ttft 20 tpot 10 itl - e2el 520 | 0 requests, 0 left
    GenAI-Perf: 1 in flight | n - | 550+251 tok | 2/s 502 tok/s | ttft 16 tpot 2 itl - e2el 516 | 0 requests, 0 left
    GenAI-Perf (printed): unknown load | n - | 550+251 tok | 2/s 502 tok/s | ttft 16 tpot 2 itl - e2el 516 | 0 requests, 0 left
    GuideLLM: 4 in flight | n 100 | 512+128 tok | 2/s 256 tok/s | ttft 30 tpot 7.244 itl - e2el 950 | 0 requests, 2 left
    GuideLLM: 2 req/s | n 100 | 512+128 tok | 2/s 256 tok/s | ttft 30 tpot 7.244 itl - e2el 950 | 0 requests, 2 left
    llmperf summary: 4 in flight | n 100 | 550+150 tok | 2.6/s 390 tok/s | ttft 204 tpot 8.8993 itl - e2el 1530 | 0 requests, 1 left
    llmperf responses: unknown load | n 2 | 550+126 tok | -/s - tok/s | ttft 250 tpot 10 itl - e2el 1500 | 2 requests, 2 left
    inference-perf: 10 req/s | n 600 | 512+100 tok | 9.868/s 986.8 tok/s | ttft 30 tpot 7.7778 itl - e2el 800 | 0 requests, 4 left
    InferenceX: 16 in flight | n 160 | 900+900 tok | 1.6/s 1440 tok/s | ttft ~150 tpot ~10.3 itl - e2el ~9400 | 0 requests, 0 left
    trtllm-bench: all at once | n 1000 | 512+128 tok | 40/s 5120 tok/s | ttft 9000 tpot 47.2441 itl - e2el 15000 | 0 requests, 0 left
    CSV table: 8 in flight | n - | 512+128 tok | 8/s 1024 tok/s | ttft 48 tpot 7.4 itl 7.4 e2el 987.8 | 0 requests, 1 left
    CSV table: all at once | n - | 512+128 tok | 8/s 1024 tok/s | ttft - tpot - itl - e2el - | 0 requests, 0 left
    CSV table: 4 req/s | n - | 512+128 tok | 3.93/s 503 tok/s | ttft 30 tpot 6.9 itl 6.9 e2el 906 | 0 requests, 0 left
    vllm bench latency: unknown load | n - | -+- tok | -/s - tok/s | ttft - tpot - itl - e2el 912 | 0 requests, 0 left
    vllm bench latency: unknown load | n - | -+- tok | -/s - tok/s | ttft - tpot - itl - e2el 912 | 0 requests, 0 left
    sglang.bench_one_batch: one batch of 1 | n 1 | 256+8 tok | -/s - tok/s | ttft 16 tpot ~7 itl - e2el 65 | 0 requests, 1 left
    sglang.bench_one_batch: one batch of 16 | n 16 | 256+8 tok | -/s - tok/s | ttft 90 tpot ~8 itl - e2el 146 | 0 requests, 1 left
    sglang.bench_one_batch: one batch of 16 | n 16 | 256+8 tok | -/s - tok/s | ttft 90 tpot ~8 itl - e2el 146 | 0 requests, 1 left
    ");
}

#[test]
fn llmperf_time_to_first_token_is_taken_out_of_its_gaps() {
    let row = one("llmperf_responses.json");
    assert!(row.itl.is_empty(), "no gap was measured");
    // (1.7 − 0.2) / 150 and (1.3 − 0.3) / 100.
    assert!((row.tpot.mean.unwrap() - 0.010).abs() < 1e-12);
    assert_eq!(row.outcome.failed, Some(1));
}

#[test]
fn inference_perf_gaps_to_empty_events_are_left_out() {
    let row = one("inference_perf.json");
    assert!(row.itl.is_empty());
    assert!((row.tpot.mean.unwrap() - (0.8 - 0.03) / 99.0).abs() < 1e-12);
    assert!(row.left.iter().any(|left| left.why.contains("empty event")));
    assert!(
        (row.outcome.duration_s.unwrap() - 600.0 / 9.868).abs() < 1e-9,
        "not the time of sending"
    );
}

#[test]
fn nominal_lengths_of_sglangs_random_data_are_the_law_s_and_no_means() {
    let row = &rows("sglang.jsonl")[0];
    assert_eq!(row.setup.input_tokens, Some(256.5));
    assert!(
        row.taken
            .iter()
            .any(|taken| taken.contains("random_input_len 512"))
    );
    assert_eq!(row.setup.workload, "random isl=512 osl=128 range_ratio=0");
    assert_eq!(
        (row.setup.tensor_parallel, row.setup.engine_version.as_deref()),
        (Some(2), Some("0.5.6"))
    );
}

#[test]
fn an_engine_s_name_may_carry_its_version() {
    let mut row = one("vllm.json");
    row.setup.engine = Some("sglang@0.5.23".to_owned());
    let row = row.complete();
    assert_eq!(row.setup.engine.as_deref(), Some("sglang"));
    assert_eq!(row.setup.engine_version.as_deref(), Some("0.5.23"));
}

#[test]
fn zeros_of_a_failed_run_are_no_latencies() {
    let row = one("vllm_all_failed.json");
    assert!(row.ttft.is_empty() && row.outcome.failed == Some(8));
}

#[test]
fn lists_of_a_part_of_the_requests_are_left() {
    let text = String::from_utf8(fixture("vllm_2024.json"))
        .unwrap()
        .replace("\"completed\": 2", "\"completed\": 9");
    let row = read(text.as_bytes(), "cut").unwrap().rows.remove(0);
    assert!(row.requests.is_empty());
    assert!(row.left.iter().any(|left| left.why.contains("2 of 9")));
}

#[test]
fn an_answer_s_end_is_read_and_not_made_up() {
    let text = String::from_utf8(fixture("vllm_2024.json")).unwrap();
    let row = |itls: &str, more: &str| {
        let text = text.replace("[[0.02, 0.02], [0.03, 0.01]]", itls);
        let text = text.replace("\"best_of\"", &format!("{more} \"best_of\""));
        read(text.as_bytes(), "a.json").unwrap().rows.remove(0)
    };
    let ends = |row: &Measured| -> Vec<Option<f64>> {
        let of = |request: &RequestTimes| request.e2el_s.map(|whole| (whole * 1e3).round());
        row.requests.iter().map(of).collect()
    };
    assert_eq!(
        ends(&row("[[0.02, 0.02], [0.03, 0.01]]", "")),
        [Some(140.0), Some(160.0)]
    );
    // Chunks of two tokens, and a list that was cut.
    assert_eq!(ends(&row("[[0.04], [0.04]]", "")), [Some(140.0), Some(160.0)]);
    let cut = row("[[0.02, 0.02], [0.01]]", "");
    assert_eq!(ends(&cut), [Some(140.0), None]);
    assert!(cut.e2el.is_empty());
    assert_eq!(ends(&row("[]", "")), [None, None]);
    assert_eq!(
        ends(&row("[]", "\"latencies\": [0.2, 0.3],")),
        [Some(200.0), Some(300.0)]
    );
}

#[test]
fn a_table_may_use_the_clients_own_names() {
    let text = "request_rate,max_concurrency,mean_ttft_ms,median_tpot_ms,p99_e2el_ms,output_throughput,extra\n\
                4,,30,7,1000,503,x\ninf,8,48,7.4,1150,1024,\n";
    let rows = read(text.as_bytes(), "own.csv").unwrap().rows;
    assert_eq!(rows[0].setup.load, Load::Open { rate: 4.0 });
    assert_eq!(rows[1].setup.load, Load::Closed { clients: 8 });
    assert_eq!(
        (rows[0].ttft.mean, rows[0].tpot.median),
        (Some(0.03), Some(0.007))
    );
    assert_eq!(
        (rows[1].e2el.percentile(99.0), rows[1].outcome.output_throughput),
        (Some(1.15), Some(1024.0))
    );
    assert_eq!(rows[0].left[0].what, "extra");
    let twice = read(b"mean_ttft_ms,ttft_mean_ms\n1,2\n", "twice.csv").unwrap_err();
    let told = "line 2: two columns are `ttft_mean_ms`, in whatever spelling, and differ: 1 and 2";
    assert!(twice.to_string().contains(told), "{twice}");
    let same = b"median_ttft_ms,p50_ttft_ms,mean_ttft_ms\n1,1.0,2\n,3,4\n5,,6\n";
    let medians = read(same, "same.csv")
        .unwrap()
        .rows
        .into_iter()
        .map(|row| row.ttft.median);
    assert_eq!(
        medians.collect::<Vec<_>>(),
        [Some(0.001), Some(0.003), Some(0.005)]
    );
}

#[test]
fn a_table_may_be_a_spreadsheets() {
    let text = "GPU;Rate_Or_Concurrency_Kind;value;TTFT_mean_ms;tpot_mean_ms;tp\n\
                H100;QPS;4;30;N/A;-\nH100;request_rate_rps;inf;-;7;1\nH100;users;8;1;nan;\n";
    let rows = read(text.as_bytes(), "own.csv").unwrap().rows;
    let loads = [Load::Open { rate: 4.0 }, Load::Burst, Load::Closed { clients: 8 }];
    assert_eq!(rows.iter().map(|row| row.setup.load).collect::<Vec<_>>(), loads);
    assert_eq!((rows[0].ttft.mean, rows[0].tpot.mean), (Some(0.03), None));
    assert_eq!(
        (rows[1].ttft.mean, rows[1].setup.tensor_parallel),
        (None, Some(1))
    );
    assert_eq!(
        read(text.replace(';', "\t").as_bytes(), "t.tsv").unwrap().rows,
        rows
    );
}

/// As `sweep -o` writes it, but for columns that are left out here.
#[test]
fn a_sweeps_own_table_and_lines_are_results() {
    let table = "request-rate,tensor-parallel-size,backend,burstiness,completed,duration,max_concurrency,\
                 max_concurrent_requests,max_output_tokens_per_s,mean_e2el_ms,mean_itl_ms,mean_tpot_ms,mean_ttft_ms,\
                 median_ttft_ms,model_id,num_prompts,output_throughput,p50_ttft_ms,request_goodput,request_rate,\
                 request_throughput,total_input_tokens,total_output_tokens,mean_ttft_ms_model_low,verdict\n\
                 5,2,vllm,1.0,200,40,,12,750,450,6.7,6.7,25,26,m,200,320,26,,5.0,5,51200,12800,0.8,stable\n\
                 9,2,,,,,,,,,,,,,,,,,,,,,,,not_run\n\
                 9,1,,,,,,,,,,,,,,,,,,,,,,,does_not_fit\n";
    let rows = read(table.as_bytes(), "own.csv").unwrap().rows;
    assert_eq!(rows.len(), 1, "a cell that was not run has no result");
    let row = &rows[0];
    assert_eq!(
        (row.tool, row.setup.load),
        (Tool::Plimsoll, Load::Open { rate: 5.0 })
    );
    assert_eq!((row.setup.tensor_parallel, row.setup.n_gpus), (Some(2), None));
    assert_eq!(
        (row.setup.input_tokens, row.setup.output_tokens),
        (Some(256.0), Some(64.0))
    );
    assert_eq!(
        (row.outcome.peak_in_flight, row.ttft.median),
        (Some(12.0), Some(0.026))
    );
    assert_eq!(row.own.as_ref().unwrap().verdict, "stable");
    assert!(row.left.is_empty(), "{:?}", row.left);

    let result = r#"{"backend": "vllm", "completed": 10, "duration": 5.0, "mean_ttft_ms": 20.0, "plimsoll": {"verdict": "stable"}}"#;
    let lines = format!(
        "{{\"cell\":\"a=1\",\"result\":{result}}}\n{{\"cell\":\"a=2\",\"result\":{{\"plimsoll\":{{\"verdict\":\"not_run\"}}}}}}\n\
         {{\"cell\":\"a=3\",\"result\":{result}}}\n"
    );
    let rows = read(lines.as_bytes(), "own.jsonl").unwrap().rows;
    let places: Vec<&str> = rows.iter().map(|row| row.place.as_str()).collect();
    assert_eq!(places, ["line 1", "line 3"]);
    assert!(
        rows.iter()
            .all(|row| row.tool == Tool::Plimsoll && row.ttft.mean == Some(0.02))
    );
}

#[test]
fn documents_of_no_single_run_say_which_file_to_give() {
    for (text, told) in [
        (
            r#"{"knee": {}, "saturation": {}, "points": []}"#,
            "give the result of one rate",
        ),
        (
            r#"{"variants": [], "same_requests": true}"#,
            "give the result of one variant",
        ),
        (
            r#"{"fits": true, "scenario": {}}"#,
            "is what `plimsoll fit` says of memory",
        ),
        (
            r#"{"impossible": 0, "doubtful": 0, "files": []}"#,
            "give that result itself",
        ),
    ] {
        let error = read(text.as_bytes(), "it.json").unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn the_courses_findings_by_others_are_not_read() {
    let bytes = fixture("course_tables.json");
    let mut document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    let with = read(&bytes, "course").unwrap();
    document
        .as_object_mut()
        .unwrap()
        .remove("arithmetic_found")
        .unwrap();
    assert_eq!(with, read(document.to_string().as_bytes(), "course").unwrap());
    assert_eq!(with.rows.len(), 16 + 4 + 16 + 4 + 5);
}

#[test]
fn all_problems_of_a_file_come_at_once_with_their_places() {
    let text = String::from_utf8(fixture("vllm_appended.jsonl")).unwrap();
    let text = text
        .replace("\"duration\": 25.0", "\"duration\": -1")
        .replace("\"mean_ttft_ms\": 30.0", "\"mean_ttft_ms\": []");
    let table = "id,ttft_mean_ms,rate_or_concurrency_kind,value\na,fast,open,3\nb,1\n";
    let shown = format!(
        "{}\n{}\n{}\n{}",
        read(text.as_bytes(), "bad.jsonl").unwrap_err(),
        read(table.as_bytes(), "bad.csv").unwrap_err(),
        read(b"{\"a\": 1,}", "bad.json").unwrap_err(),
        read(b"{\"a\": 1}", "other.json").unwrap_err(),
    );
    insta::assert_snapshot!(shown, @r"
    bad.jsonl cannot be read as the result of a benchmark
      line 1: `mean_ttft_ms`: must be a number, not a list
      line 2: `duration`: -1 must be a finite number that is not negative
    bad.csv cannot be read as the result of a benchmark
      line 2: `rate_or_concurrency_kind`: `open` must be request_rate_rps (rate, rps, qps), max_concurrency (concurrency, clients, users), burst_all_at_once, offline_*, static_batch or trace_replay
      line 2: `ttft_mean_ms`: `fast` must be a number of at least 0
      line 3: has 2 cells, the header has 4
    bad.json cannot be read as the result of a benchmark
      line 1, column 9: is not JSON: trailing comma
    other.json cannot be read as the result of a benchmark
      the file: is no known result; looked for vllm bench serve (`mean_ttft_ms` and `duration`), SGLang (`mean_e2e_latency_ms`), AIPerf or GenAI-Perf (`time_to_first_token` with a `unit`), GuideLLM (`benchmarks`), llmperf (`results_ttft_s_mean` or `end_to_end_latency_s`), inference-perf (`load_summary` and `successes`), InferenceX (`median_ttft`), vllm bench latency (`avg_latency`), SGLang's bench_one_batch (`prefill_latency`), the course's tables (`week1`), printed blocks (`Serving Benchmark Result`, `PERFORMANCE OVERVIEW`, `LLM Metrics`) and CSV tables with a column such as `ttft_mean_ms` or `output_tok_s`
    ");
}

#[test]
fn authentic_results_are_read() {
    let Some(data) = published::data("authentic results are not read") else {
        return;
    };
    let mut read_some = 0;
    for entry in std::fs::read_dir(data.join("formats")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let result = read(&std::fs::read(&path).unwrap(), &name);
        let is_result = !name.starts_with("README") && !name.contains("prometheus");
        assert_eq!(result.is_ok(), is_result, "{name}: {result:?}");
        read_some += usize::from(is_result);
        for row in result.iter().flat_map(|file| &file.rows) {
            let known = row.latencies().iter().any(|(_, stats)| !stats.is_empty());
            assert!(known || row.outcome.completed == Some(0), "{name}: {row:?}");
        }
    }
    assert!(read_some >= 17, "{read_some}");
    let table = read(
        &std::fs::read(data.join("groundtruth/serving/measured.csv")).unwrap(),
        "measured.csv",
    )
    .unwrap();
    assert_eq!(table.rows.len(), 387);
    assert!(table.rows.iter().all(|row| row.left.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_makes_a_reader_panic(
        which in 0..FIXTURES.len(), at in 0.0..1.0f64, cut in 0usize..60, junk in "[ -~│\n]{0,6}",
    ) {
        let mut bytes = fixture(FIXTURES[which]);
        let start = (at * bytes.len() as f64) as usize;
        let end = (start + cut).min(bytes.len());
        bytes.splice(start..end, junk.bytes());
        for row in read(&bytes, "damaged").iter().flat_map(|file| &file.rows) {
            for (_, stats) in row.latencies() {
                let known = [stats.mean, stats.median, stats.min, stats.max];
                prop_assert!(known.iter().flatten().all(|value| value.is_finite() && *value >= 0.0));
            }
        }
    }

    #[test]
    fn no_value_makes_a_reader_panic(which in 0..FIXTURES.len(), key in 0usize..60, value in "-?[0-9]{1,20}|null|\"inf\"|NaN|\\[1\\]|\\{\\}|1e308|0") {
        let text = String::from_utf8(fixture(FIXTURES[which])).unwrap();
        let values: Vec<usize> = text.match_indices(": ").map(|(at, _)| at + 2).collect();
        if let Some(start) = values.get(key) {
            let length = text[*start..].find([',', '}', '\n']).unwrap_or(0);
            let changed = format!("{}{value}{}", &text[..*start], &text[start + length..]);
            let _ = read(changed.as_bytes(), "changed");
        }
    }
}

#[test]
fn several_clients_side_by_side_are_no_open_loop() {
    let of = |clients: &str| {
        let text = format!(
            r#"{{"backend": "vllm", "request_rate": 11.2487, "duration": 10.0, "completed": 100, "total_input_tokens": 1000,
                "total_output_tokens": 1000, "request_throughput": 10.0, "output_throughput": 100.0,
                "plimsoll": {{"scenario": {{"gpu": "H100", {clients}"replicas": 1}}}}}}"#
        );
        read(text.as_bytes(), "mix.json")
            .unwrap()
            .rows
            .remove(0)
            .setup
            .load
    };
    assert_eq!(of(""), Load::Open { rate: 11.2487 });
    let mixed = of("\"clients\": 4, ");
    assert_eq!(mixed, Load::Mixed { rate: 11.2487 });
    assert_eq!(mixed.to_string(), "several clients at 11.25 req/s");
}

#[test]
fn who_waits_for_an_answer_sends_neither_at_a_rate_nor_all_at_once() {
    let of = |rate: &str, told: &str| {
        let text = format!(
            r#"{{"backend": "vllm", "request_rate": {rate}, "max_concurrency": null, "duration": 10.0, "completed": 100,
                "total_input_tokens": 1000, "total_output_tokens": 1000, "request_throughput": 10.0,
                "output_throughput": 100.0, "plimsoll": {{"scenario": {{"gpu": "H100", {told}, "replicas": 1}}}}}}"#
        );
        read(text.as_bytes(), "turns.json")
            .unwrap()
            .rows
            .remove(0)
            .setup
            .load
    };
    let think = "\"think_time_s\": 5.0";
    let users = of("\"inf\"", &format!("\"users\": 50, {think}"));
    assert_eq!(users, Load::Users { users: 50 });
    assert_eq!(users.to_string(), "50 users who think");
    let turns = format!("\"turns_per_session\": 4.0, {think}");
    assert_eq!(of("8.0", &turns), Load::Sessions { rate: 8.0 });
    assert_eq!(of("8.0", &turns).to_string(), "conversations of 8 req/s");
    assert_eq!(of("\"inf\"", &turns).to_string(), "conversations");
    assert_eq!(of("\"inf\"", "\"clients\": 2"), Load::Unknown);
}

#[test]
fn lists_that_contradict_the_counts_are_kept_apart_from_lists_that_are_whole() {
    let miscounted = |ttfts: usize, lengths: usize| {
        let list = |count: usize, value: &str| vec![value; count].join(", ");
        let text = format!(
            r#"{{"request_rate": 5.0, "max_concurrency": null, "num_prompts": 4, "duration": 1.0, "completed": 3, "failed": 1,
            "mean_ttft_ms": 50.0, "ttfts": [{}], "output_lens": [{}]}}"#,
            list(ttfts, "0.05"),
            list(lengths, "8")
        );
        read(text.as_bytes(), "r.json").unwrap().rows.remove(0).miscounted
    };
    // Clients list those that failed, too, or leave them out.
    assert_eq!(miscounted(3, 3), None);
    assert_eq!(miscounted(4, 4), None);
    let part = miscounted(2, 2).unwrap();
    assert!(
        part.is_part && part.words == "lists of 2 of 3 answered requests",
        "{part:?}"
    );
    let unlike = miscounted(2, 3).unwrap();
    assert!(
        !unlike.is_part && unlike.words == "2 ttfts, 3 output_lens of 3 answered requests",
        "{unlike:?}"
    );
    assert!(!miscounted(3000, 3000).unwrap().is_part);
}
