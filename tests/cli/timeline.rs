//! `--timeline`: the file is one that Perfetto takes, and holds what the run did, on every engine and cluster.
//!
//! What Perfetto demands is checked as its importer of JSON reads a file: events in the order of whole nanoseconds, those of one
//! instant in the order of the file.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Desk, SMALL, text};

/// A thread's number, which is that of one process only.
type Thread = (u64, u64);

/// What is open on a thread: until when, or until it is ended.
#[derive(Debug)]
enum Open {
    Until(u64),
    Ended,
}

/// What a file holds, in sums.
#[derive(Debug, Default)]
struct Seen {
    /// Steps, and nanoseconds of them, by process.
    steps: BTreeMap<u64, (u64, u64)>,
    tokens: u64,
    /// Names of the arrows, and how many.
    flows: BTreeMap<String, u64>,
    /// Names of spans, and how many.
    spans: BTreeMap<String, u64>,
    instants: BTreeMap<String, u64>,
    /// Processes by name.
    processes: BTreeMap<String, u64>,
    /// How runs ended.
    ended_by: BTreeMap<String, u64>,
    /// ∫ of requests that run, in request-nanoseconds, by process.
    running: BTreeMap<u64, u64>,
    last: u64,
}

fn nanos(value: &Value) -> u64 {
    let micros = value.as_f64().unwrap_or_else(|| panic!("{value} is no time"));
    let nanos = (micros * 1e3).round();
    assert!(
        (micros * 1e3 - nanos).abs() < 1e-3,
        "{micros} µs is no whole nanosecond"
    );
    nanos as u64
}

fn number(event: &Value, key: &str) -> u64 {
    event[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no {key} in {event}"))
}

/// Reads a file as Perfetto does; panics where it would drop something.
fn read(file: &Value) -> Seen {
    let mut seen = Seen::default();
    let mut events: Vec<(u64, &Value)> = Vec::new();
    let mut owners: BTreeMap<u64, u64> = BTreeMap::new();
    for event in file["traceEvents"].as_array().unwrap() {
        if let Some(tid) = event["tid"].as_u64() {
            let pid = number(event, "pid");
            assert_eq!(
                *owners.entry(tid).or_insert(pid),
                pid,
                "thread {tid} has two processes"
            );
        }
        if event["ph"] == "M" {
            if event["name"] == "process_name" {
                let name = event["args"]["name"].as_str().unwrap().to_owned();
                let before = seen.processes.insert(name, number(event, "pid"));
                assert_eq!(before, None, "two replicas have one name");
            }
        } else {
            events.push((nanos(&event["ts"]), event));
        }
    }
    assert!(
        seen.processes.values().all(|pid| !owners.contains_key(pid)),
        "a thread has the number of a process"
    );
    // Stable: those of one instant stay in the order of the file.
    events.sort_by_key(|(at, _)| *at);
    let mut stacks: BTreeMap<Thread, Vec<Open>> = BTreeMap::new();
    let mut arrows: BTreeMap<u64, &str> = BTreeMap::new();
    let mut spans: BTreeMap<String, u64> = BTreeMap::new();
    let mut running: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (at, event) in events {
        seen.last = seen.last.max(at);
        let pid = number(event, "pid");
        let name = event["name"].as_str().unwrap_or_default();
        let stack = stacks
            .entry((pid, event["tid"].as_u64().unwrap_or_default()))
            .or_default();
        let is_over = |open: &Open| matches!(open, Open::Until(end) if *end <= at);
        while stack.last().is_some_and(is_over) {
            stack.pop();
        }
        match event["ph"].as_str().unwrap() {
            "X" => {
                let end = at + nanos(&event["dur"]);
                seen.last = seen.last.max(end);
                assert!(stack.is_empty(), "steps overlap: {event}");
                stack.push(Open::Until(end));
                let (steps, lasted) = seen.steps.entry(pid).or_default();
                (*steps, *lasted) = (*steps + 1, *lasted + end - at);
                seen.tokens += number(&event["args"], "tokens");
                assert_eq!(tokens_in(name), number(&event["args"], "tokens"), "{event}");
            }
            "B" => {
                assert!(stack.len() < 2, "a phase of a run within another: {event}");
                stack.push(Open::Ended);
            }
            "E" => {
                assert!(matches!(stack.pop(), Some(Open::Ended)), "nothing ends: {event}");
                if let Some(how) = event["args"]["ended_by"].as_str() {
                    assert!(stack.is_empty(), "{event}");
                    *seen.ended_by.entry(how.to_owned()).or_default() += 1;
                }
            }
            "s" => {
                assert!(!stack.is_empty(), "an arrow begins nowhere: {event}");
                assert!(arrows.insert(number(event, "id"), name).is_none(), "{event}");
            }
            "f" => {
                assert!(!stack.is_empty(), "an arrow ends nowhere: {event}");
                assert_eq!(arrows.remove(&number(event, "id")), Some(name), "{event}");
                *seen.flows.entry(name.to_owned()).or_default() += 1;
            }
            phase @ ("b" | "e") => {
                let key = format!("{pid} {} {}", event["cat"], event["id2"]["local"]);
                let open = spans.entry(key).or_default();
                if phase == "b" {
                    *open += 1;
                    *seen.spans.entry(name.to_owned()).or_default() += 1;
                } else {
                    *open -= 1;
                }
                assert!(*open <= 1, "{event}");
            }
            "C" if name == "requests" => {
                let since = running.entry(pid).or_default();
                *seen.running.entry(pid).or_default() += since.1 * (at - since.0);
                *since = (at, number(&event["args"], "running"));
                number(&event["args"], "waiting");
            }
            "C" => drop(number(&event["args"], "used")),
            "i" => *seen.instants.entry(name.to_owned()).or_default() += 1,
            other => panic!("nobody knows the phase {other}"),
        }
    }
    assert!(arrows.is_empty(), "arrows end nowhere: {arrows:?}");
    assert!(spans.values().all(|open| *open == 0), "{spans:?}");
    let is_open = |stack: &Vec<Open>| stack.iter().any(|open| matches!(open, Open::Ended));
    assert!(!stacks.values().any(is_open), "a run does not end");
    seen
}

/// Tokens that the name of a step counts.
fn tokens_in(name: &str) -> u64 {
    let parts = name.split(" + ").map(|part| {
        let words: Vec<&str> = part.split(' ').collect();
        match words[..] {
            ["prefill", tokens, "in", _] | ["decode" | "drafts", tokens] => tokens.parse().unwrap(),
            ["no", "tokens"] => 0,
            _ => panic!("a step is called {name}"),
        }
    });
    parts.sum()
}

/// The result of a run in JSON, what it said beside it, and what its timeline holds of all of it.
fn run(words: &str) -> (Value, String, Seen) {
    let desk = Desk::new();
    let output = desk.run(&format!(
        "{words} --format json --timeline t.json --timeline-window 0s.."
    ));
    let said = text(&output.stderr);
    let result = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("plimsoll {words}: {error}\n{said}"));
    let file = std::fs::read_to_string(desk.path().join("t.json")).unwrap();
    let file = serde_json::from_str(&file).unwrap_or_else(|error| panic!("plimsoll {words}: {error}"));
    (result, said, read(&file))
}

fn count(of: &BTreeMap<String, u64>, name: &str) -> u64 {
    of.get(name).copied().unwrap_or_default()
}

const LLAMA: &str = "run meta-llama/Llama-3.1-8B-Instruct --gpu h100-sxm-80gb --input-len 1000 --output-len 64 --num-prompts 100";

#[test]
fn every_engine_writes_what_its_run_did() {
    for engine in [
        "--request-rate 30",
        "--request-rate 30 --no-async-scheduling",
        "--request-rate inf --max-model-len 8192 --num-gpu-blocks-override 700",
        "--request-rate 30 --engine sglang@0.5.23",
        "--request-rate 30 --engine trtllm@1.2",
        "--request-rate 30 --engine vllm@0.6",
        "--request-rate 10 --engine static",
        "--request-rate 30 --engine hf-cb",
        "--request-rate 30 --replicas 3",
        "--request-rate 10 --step-jitter cv=0.05",
    ] {
        let (result, said, seen) = run(&format!("{LLAMA} {engine}"));
        let whole = &result["plimsoll"]["whole"];
        let steps: u64 = seen.steps.values().map(|(steps, _)| steps).sum();
        assert_eq!(steps, number(whole, "steps"), "{engine}");
        assert!(said.contains("t.json holds all"), "{said}");
        // A prompt and all tokens but the last are computed once, and what preemptions threw away again; V0 finds out that an answer is
        // whole a step late.
        let computed = 100 * (1000 + 63) + number(whole, "recomputed_tokens");
        let late = if engine.contains("vllm@0.6") { 100 } else { 0 };
        assert!(
            (computed..=computed + late).contains(&seen.tokens),
            "{engine}: {} tokens",
            seen.tokens
        );
        assert_eq!(
            count(&seen.ended_by, "its end"),
            number(&result, "completed"),
            "{engine}"
        );
        let preemptions = number(whole, "preemptions");
        let seen_as = [
            (&seen.ended_by, "preemption"),
            (&seen.spans, "preempted"),
            (&seen.instants, "preempted"),
        ];
        for (counts, name) in seen_as {
            assert_eq!(count(counts, name), preemptions, "{engine}");
        }
        assert!(preemptions > 0 || !engine.contains("override"), "{engine}");
        let arrows = count(&seen.flows, "first token");
        assert!(arrows <= 100 && arrows + preemptions >= 100, "{engine}");
        // Time at work, and who ran: as the result has them.
        let duration_s = result["duration"].as_f64().unwrap();
        let share = |nanos: u64| nanos as f64 / 1e9 / duration_s;
        let occupancy = &whole["occupancy"];
        let busy: u64 = seen.steps.values().map(|(_, nanos)| nanos).sum();
        let replicas = seen.processes.len() as f64;
        assert_close(share(busy) / replicas, &occupancy["busy"], engine);
        assert_close(share(seen.running.values().sum()), &occupancy["running"], engine);
    }
}

fn assert_close(value: f64, figure: &Value, what: &str) {
    let figure = figure.as_f64().unwrap();
    assert!(
        (value - figure).abs() <= 1e-3 * figure,
        "{what}: {value} and not {figure}"
    );
}

#[test]
fn replicas_are_called_what_they_are_and_kv_is_seen_on_its_way() {
    let names = |seen: &Seen| seen.processes.keys().cloned().collect::<Vec<_>>().join(", ");
    for engine in ["vllm", "sglang@0.5.23"] {
        let (_, _, seen) = run(&format!(
            "{LLAMA} --request-rate 10 --prefill 1 --decode 2 --engine {engine}"
        ));
        assert_eq!(names(&seen), "decode 0, decode 1, prefill 0");
        assert_eq!(count(&seen.flows, "handed over"), 100, "{engine}");
        assert_eq!(count(&seen.spans, "KV transfer"), 100, "{engine}");
        assert_eq!(count(&seen.spans, "waits for KV"), 100, "{engine}");
        // SGLang's first tokens come with the KV, and are of no step of the decode replica.
        let arrows = if engine == "vllm" { 100 } else { 0 };
        assert_eq!(count(&seen.flows, "first token"), arrows, "{engine}");
    }
    let (_, _, ranks) = run("run dp-attention --num-prompts 60");
    assert_eq!(names(&ranks), "rank 0, rank 1, rank 2, rank 3");
    let (_, _, stages) = run(
        "run meta-llama/Llama-3.1-70B-Instruct --gpu h100-sxm-80gb -pp 4 --max-model-len 8192 --request-rate 2 --input-len 512 \
         --output-len 64 --num-prompts 50",
    );
    assert_eq!(names(&stages), "replica 0");
    let (result, _, failing) = run("run pd-failover --num-prompts 500");
    assert_eq!(
        count(&failing.ended_by, "failure"),
        count(&failing.instants, "failed")
    );
    assert_eq!(count(&failing.ended_by, "its end"), number(&result, "completed"));
}

#[test]
fn without_a_window_the_first_ten_seconds_are_written_and_the_rest_is_counted() {
    let desk = Desk::new();
    let plain = desk.expect(0, SMALL);
    let output = desk.run(&format!("{SMALL} --timeline t.json"));
    // The result is another's in nothing.
    assert_eq!(text(&output.stdout), plain);
    let said = text(&output.stderr);
    assert!(
        said.contains("t.json holds 1,252 of 4,856 steps, those in the window 0 s..10 s of 37.3 s"),
        "{said}"
    );
    assert!(said.contains("--timeline-window 0s.. holds all"), "{said}");
    let bytes = std::fs::read(desk.path().join("t.json")).unwrap();
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    let seen = read(&file);
    assert_eq!(seen.steps.values().map(|(steps, _)| steps).sum::<u64>(), 1252);
    assert!(seen.last <= 10_000_000_000, "{}", seen.last);
    assert!(count(&seen.ended_by, "the end of the timeline") > 0);
    let about = &file["otherData"];
    assert_eq!(about["window"], "0 s..10 s");
    assert_eq!(about["engine"], "vllm@0.33");
    assert_eq!(about["gpu"], "H100-SXM-80GB");
    // Again, the same bytes; and nothing but the file is left.
    desk.run(&format!("{SMALL} --timeline t.json"));
    assert_eq!(std::fs::read(desk.path().join("t.json")).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 1);
}

#[test]
fn a_window_in_the_middle_is_a_part_of_the_whole() {
    let desk = Desk::new();
    let write = |window: &str| {
        let output = desk.run(&format!("{SMALL} --timeline t.json --timeline-window {window}"));
        let file = std::fs::read_to_string(desk.path().join("t.json")).unwrap();
        (
            serde_json::from_str::<Value>(&file).unwrap(),
            text(&output.stderr),
        )
    };
    let steps = |file: &Value| -> Vec<String> {
        let events = file["traceEvents"].as_array().unwrap().iter();
        let steps = events.filter(|event| event["ph"] == "X");
        steps
            .map(|step| format!("{} {} {}", step["ts"], step["dur"], step["name"]))
            .collect()
    };
    let (whole, _) = write("0s..");
    let (part, _) = write("20s..21s");
    let seen = read(&part);
    assert!(seen.last <= 21_000_000_000);
    let (whole, part) = (steps(&whole), steps(&part));
    assert!(part.len() > 100, "{}", part.len());
    let first = whole.iter().position(|step| *step == part[0]).unwrap();
    assert_eq!(whole[first..first + part.len()], part);
    let (after, said) = write("100s..110s");
    assert!(said.contains("no step lies in the window 100 s..110 s"), "{said}");
    assert!(
        said.contains("the run had 4,856 steps, the last of which ended after 37.3 s"),
        "{said}"
    );
    assert!(steps(&after).is_empty());
    read(&after);
}

#[test]
fn what_cannot_be_written_is_said_and_the_result_stands() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path().join("folder")).unwrap();
    for (words, problem) in [
        ("--timeline -", "--timeline writes beside the result"),
        ("--timeline folder", "it is a folder"),
        (
            "--timeline t.json --timeline-window 9s..3s",
            "it ends before it begins",
        ),
        ("--timeline t.json --timeline-window 10", "10"),
        ("--timeline-window 10s", "--timeline <FILE>"),
        ("--timeline t.json -o t.json", "both write t.json"),
    ] {
        let output = desk.run(&format!("{SMALL} {words}"));
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{words}: {said}"
        );
        assert!(said.contains(problem), "{words}: {said}");
    }
    if std::path::Path::new("/dev/full").exists() {
        let output = desk.run(&format!("{SMALL} --timeline /dev/full"));
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stdout), desk.expect(0, SMALL));
        assert!(text(&output.stderr).contains("cannot write /dev/full"));
    }
    assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 1);
}
