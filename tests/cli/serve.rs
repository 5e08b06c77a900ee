//! `serve` as its clients see it: the real binary, real sockets. No time is held to anything but to a bound from below: what a
//! client has is never there before it was simulated.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::listening::{Listening, status};
use crate::{Desk, text};

fn start(words: &str) -> Listening {
    Listening::start(&format!("serve {words}"))
}

const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --port 0";

#[test]
fn it_opens_as_the_readme_shows() {
    let server = start(MODEL);
    let shown = include_str!("../../README.md");
    let line = shown
        .lines()
        .find(|line| line.starts_with("simulated vllm@"))
        .unwrap();
    assert_eq!(
        server
            .opening
            .trim_end()
            .replace(&server.address, "127.0.0.1:8000"),
        line
    );
    let (code, rest) = server.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("\n0 requests: 0 answered"), "{rest}");
}

#[test]
fn an_answer_takes_as_long_as_it_was_simulated_to() {
    // Every step takes 20 ms: the prompt one, each further token one.
    let server = start(&format!("{MODEL} --step-time 20ms"));
    let begun = Instant::now();
    let answer = server.post(
        "/v1/completions",
        &json!({"prompt": [1, 2, 3, 4, 5], "max_tokens": 7, "ignore_eos": true}),
    );
    let took_ms = begun.elapsed().as_secs_f64() * 1e3;
    assert_eq!(answer["usage"]["prompt_tokens"], 5);
    assert_eq!(answer["usage"]["completion_tokens"], 7);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    let simulated = |key: &str| answer["plimsoll"][key].as_f64().unwrap();
    assert!((simulated("ttft_ms") - 20.0).abs() < 1e-6, "{answer}");
    assert!((simulated("e2el_ms") - 140.0).abs() < 1e-6, "{answer}");
    assert!(took_ms >= simulated("e2el_ms"), "{took_ms} ms");
    let (_, metrics) = server.ask("GET", "/metrics", "");
    for line in [
        "vllm:generation_tokens_total{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 7.0\n",
        "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"} 1.0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let (code, rest) = server.end();
    assert_eq!(code, Some(0));
    assert!(
        rest.contains("\n1 requests: 1 answered with 7 tokens, 0 refused"),
        "{rest}"
    );
}

#[test]
fn a_stream_has_an_event_for_each_token_and_then_its_end() {
    let server = start(&format!("{MODEL} --step-time 2ms --served-model-name one other"));
    let body = json!({"model": "other", "messages": [{"role": "user", "content": "count"}], "max_tokens": 30,
        "ignore_eos": true, "stream": true, "stream_options": {"include_usage": true}});
    let (status, answer) = server.ask("POST", "/v1/chat/completions", &body.to_string());
    assert_eq!(status, 200, "{answer}");
    let events: Vec<&str> = answer
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let events: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    let word = |event: &Value| {
        event["choices"][0]["delta"]["content"]
            .as_str()
            .map(str::to_owned)
    };
    let pieces: Vec<String> = events
        .iter()
        .filter_map(word)
        .filter(|word| !word.is_empty())
        .collect();
    assert_eq!(pieces.len(), 30, "{answer}");
    assert_eq!(events.last().unwrap()["usage"]["completion_tokens"], 30);
    // The next turn finds all of this one in the prefix cache, but for what does not fill a block of 16.
    let mut messages = body["messages"].as_array().unwrap().clone();
    messages.push(json!({"role": "assistant", "content": pieces.concat()}));
    messages.push(json!({"role": "user", "content": "go on"}));
    let next = server.post(
        "/v1/chat/completions",
        &json!({"messages": messages, "max_tokens": 1}),
    );
    assert_eq!(next["model"], "one");
    assert_eq!(
        next["usage"]["prompt_tokens_details"]["cached_tokens"], 32,
        "{next}"
    );
    let (status, refused) = server.ask(
        "POST",
        "/v1/completions",
        r#"{"model": "another", "prompt": "a"}"#,
    );
    assert_eq!(status, 404, "{refused}");
}

#[test]
fn who_is_inside_as_it_closes_is_told() {
    let server = start(&format!("{MODEL} --step-time 100s"));
    let mut socket = TcpStream::connect(&server.address).unwrap();
    let body = r#"{"prompt": "a", "stream": true}"#;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + body).as_bytes()).unwrap();
    // It is inside once its headers are there.
    let mut start = [0; 12];
    socket.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    let (code, rest) = server.end();
    assert_eq!(code, Some(0));
    assert!(rest.contains("\n1 requests: 0 answered"), "{rest}");
    assert!(rest.contains("1 cut off"), "{rest}");
    let mut told = String::new();
    let _ = socket.read_to_string(&mut told);
    let error = told.find("\"code\":503").expect(&told);
    assert!(
        told.rfind("data: [DONE]").is_some_and(|done| done > error),
        "{told}"
    );
}

#[test]
fn who_is_refused_has_the_status_whether_it_streams_or_not() {
    let server = start(&format!(
        "{MODEL} --step-time 100s --max-num-queued-reqs 1 --max-model-len 4096"
    ));
    let mut inside = TcpStream::connect(&server.address).unwrap();
    let body = r#"{"prompt": "a", "stream": true}"#;
    let head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 31\r\n\r\n";
    inside.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut start = [0; 12];
    inside.read_exact(&mut start).unwrap();
    for streams in [false, true] {
        let body = json!({"prompt": "a", "stream": streams}).to_string();
        let (status, told) = server.ask("POST", "/v1/completions", &body);
        assert_eq!(status, 503, "{told}");
        let body = json!({"prompt": vec![1; 5000], "stream": streams}).to_string();
        let (status, told) = server.ask("POST", "/v1/completions", &body);
        assert_eq!(status, 400, "{told}");
    }
    let (code, rest) = server.end();
    assert_eq!(code, Some(0));
    assert!(rest.contains(" 2 refused,"), "{rest}");
}

const CLASSES: &str = r#"
[model]
name = "meta-llama/Llama-3.1-8B-Instruct"
[cluster]
gpu = "H100-SXM-80GB"
[[cluster.rate_limits]]
class = "batch"
requests_per_second = 0.01
burst = 1
[[workload.classes]]
name = "chat"
goodput = { ttft = "10 s" }
arrivals.poisson.request_rate = 4.0
lengths.fixed = { input_len = 9, output_len = 9 }
[[workload.classes]]
name = "batch"
priority = 10
arrivals.closed.max_concurrency = 8
lengths.fixed = { input_len = 9, output_len = 9 }
"#;

#[test]
fn classes_are_models_and_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("classes.toml");
    std::fs::write(&file, CLASSES).unwrap();
    let server = start(&format!("{} --port 0 --step-time 2ms", file.display()));
    let (_, models) = server.ask("GET", "/v1/models", "");
    let models: Value = serde_json::from_str(&models).unwrap();
    let names: Vec<_> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(names, ["meta-llama/Llama-3.1-8B-Instruct", "chat", "batch"]);
    let ask = |model: &str| json!({"model": model, "prompt": [1, 2, 3], "max_tokens": 5});
    assert_eq!(
        server.post("/v1/completions", &ask(""))["model"],
        "meta-llama/Llama-3.1-8B-Instruct"
    );
    assert_eq!(server.post("/v1/completions", &ask("chat"))["model"], "chat");
    assert_eq!(server.post("/v1/completions", &ask("batch"))["model"], "batch");
    // The bucket of the class holds one request, and fills in 100 s.
    let (head, told) = server.exchange("POST", "/v1/completions", &ask("batch").to_string());
    assert_eq!(status(&head), 429, "{told}");
    let after = head.lines().find_map(|line| line.strip_prefix("retry-after: "));
    let after: u64 = after.expect(&head).parse().unwrap();
    assert!((60..=100).contains(&after), "{after}");
    let (_, metrics) = server.ask("GET", "/metrics", "");
    for line in [
        "plimsoll:class_requests_total{class=\"chat\",outcome=\"answered\"} 2.0\n",
        "plimsoll:class_requests_good_total{class=\"chat\"} 2.0\n",
        "plimsoll:class_requests_total{class=\"batch\",outcome=\"answered\"} 1.0\n",
        "plimsoll:class_requests_total{class=\"batch\",outcome=\"refused\"} 1.0\n",
        "plimsoll:class_generation_tokens_total{class=\"batch\"} 5.0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    let (code, rest) = server.end();
    assert_eq!(code, Some(0));
    let row = |name: &str| -> Vec<&str> {
        let row = rest.lines().find(|line| line.trim_start().starts_with(name));
        row.expect(&rest).split_whitespace().collect()
    };
    let (chat, batch) = (row("chat"), row("batch"));
    assert_eq!(
        (chat[1], chat[3], *chat.last().unwrap()),
        ("2", "–", "%"),
        "{rest}"
    );
    assert_eq!(
        (batch[1], batch[3], *batch.last().unwrap()),
        ("2", "1", "–"),
        "{rest}"
    );
}

#[test]
fn what_clients_asked_is_a_trace_that_is_read_back() {
    let desk = Desk::new();
    let file = desk.path().join("asked.jsonl");
    let server = start(&format!(
        "{MODEL} --step-time 1ms --save-trace {}",
        file.display()
    ));
    // Three blocks of 16 that two share, lengths that tell the rows apart, and one who is still inside at the end.
    let prompt = |last: u32| [vec![7; 32], vec![last; 8]].concat();
    for (last, tokens) in [(1, 3), (2, 5), (3, 7)] {
        let body = json!({"prompt": prompt(last), "max_tokens": tokens, "ignore_eos": true});
        server.post("/v1/completions", &body);
    }
    let mut inside = TcpStream::connect(&server.address).unwrap();
    let body = r#"{"prompt": [1, 2], "max_tokens": 100000, "stream": true}"#;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    inside.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut start = [0; 12];
    inside.read_exact(&mut start).unwrap();
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written.lines().count(), 3, "a row as each ends: {written}");
    let (code, _) = server.end();
    assert_eq!(code, Some(0));
    let described = desk.run("trace asked.jsonl --format json");
    let described: Value = serde_json::from_slice(&described.stdout).expect("a description");
    let rows = std::fs::read_to_string(&file).unwrap();
    let rows: Vec<Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let lengths: Vec<_> = rows
        .iter()
        .map(|row| (row["input_length"].as_u64(), row["output_length"].as_u64()))
        .collect();
    assert_eq!(
        lengths[..3],
        [(Some(40), Some(3)), (Some(40), Some(5)), (Some(40), Some(7))]
    );
    assert_eq!(lengths[3], (Some(2), Some(100_000)));
    assert_eq!(rows[0]["hash_ids"][1], rows[2]["hash_ids"][1]);
    assert_ne!(rows[0]["hash_ids"][2], rows[2]["hash_ids"][2]);
    assert!(rows[0]["timestamp"].as_f64() < rows[2]["timestamp"].as_f64());
    assert_eq!(described["requests"], 4, "{described}");
    let told = |part: &str, key: &str| described[part][key].as_f64().unwrap();
    assert_eq!((told("input", "mean"), told("output", "max")), (30.5, 100_000.0));
    // Of 122 prompt tokens the second and the third had 32 in common with one before.
    assert!(
        (told("prefix", "tokens") - 64.0 / 122.0).abs() < 1e-12,
        "{described}"
    );
}

#[test]
fn a_pasted_command_says_where_it_listens_and_by_which_name() {
    let pasted = "vllm serve meta-llama/Llama-3.1-8B-Instruct --port 0 --served-model-name short long";
    let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["serve", "--gpu", "H100-SXM-80GB", "--serve-cmd", pasted])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut opening = String::new();
    stdout.read_line(&mut opening).unwrap();
    let address = opening
        .split("http://")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    assert!(!address.ends_with(":8000"), "{opening}");
    let server = Listening {
        child,
        stdout,
        opening,
        address,
    };
    let (_, models) = server.ask("GET", "/v1/models", "");
    let models: Value = serde_json::from_str(&models).unwrap();
    assert_eq!(
        (&models["data"][0]["id"], &models["data"][1]["id"]),
        (&json!("short"), &json!("long"))
    );
}

#[test]
fn what_cannot_be_served_is_told_before() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for (words, code, says) in [
        (format!("{MODEL} --speed 0"), 2, "from 0.001 to 1000"),
        (
            "nobody/knows-it --gpu h100 --port 0".to_owned(),
            2,
            "nobody/knows-it",
        ),
        (
            "meta-llama/Llama-3.1-70B-Instruct --gpu h100 --port 0".to_owned(),
            3,
            "-tp",
        ),
        (format!("{MODEL} --port {port}"), 1, "cannot listen at 127.0.0.1"),
    ] {
        let output = Desk::new().run(&format!("serve {words}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(says), "{words}: {said}");
    }
}
