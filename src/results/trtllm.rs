//! The report of `trtllm-bench throughput`: an offline burst of all requests at once through the engine itself.
//!
//! It has no counts: requests are throughput × total latency, lengths are ratios of throughputs. TPOT is as here. TTFT
//! starts when a request is handed over, so it holds all of the queueing of a burst.

use super::error::Problems;
use super::json;
use super::load::Load;
use super::measured::{Measured, Tool};
use super::text::number;

pub(super) fn read(text: &str, problems: &Problems) -> Vec<Measured> {
    let mut row = Measured::new(Tool::TrtllmBench, "");
    row.setup.load = Load::Burst;
    row.setup.engine = Some("tensorrt-llm".to_owned());
    let mut found = 0;
    for (index, line) in text.lines().enumerate() {
        let Some((name, value)) = line.split_once(": ").or(line.split_once(':')) else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if !knows(name) {
            continue;
        }
        match number(value) {
            Ok(value) => {
                take(&mut row, name, value);
                found += 1;
            }
            Err(what) => problems.push(format!("line {}: `{name}`", index + 1), what),
        }
    }
    if found == 0 {
        problems.push(
            "the file",
            "has the title of a trtllm-bench report and none of its rows",
        );
    }
    derive(&mut row);
    vec![row]
}

fn knows(name: &str) -> bool {
    name.starts_with("[TPOT]")
        || name.starts_with("[TTFT]")
        || name.starts_with("[Latency]")
        || ["Request Throughput", "Total ", "Average ", "Per GPU Output"]
            .iter()
            .any(|start| name.starts_with(start))
}

fn take(row: &mut Measured, name: &str, value: f64) {
    let outcome = &mut row.outcome;
    match name {
        "Request Throughput (req/sec)" => outcome.request_throughput = Some(value),
        "Total Output Throughput (tokens/sec)" => outcome.output_throughput = Some(value),
        "Total Token Throughput (tokens/sec)" => outcome.total_throughput = Some(value),
        "Total Latency (ms)" => outcome.duration_s = Some(value / 1e3),
        "Average request latency (ms)" => row.e2el.mean = Some(value / 1e3),
        "Average time-to-first-token [TTFT] (ms)" => row.ttft.mean = Some(value / 1e3),
        "Average time-per-output-token [TPOT] (ms)" => row.tpot.mean = Some(value / 1e3),
        "Per GPU Output Throughput (tokens/sec/gpu)" => {
            // The report divides by TP × PP, which it does not print.
            row.setup.n_gpus = outcome
                .output_throughput
                .map(|all| (all / value).round())
                .filter(|gpus| (1.0..=4096.0).contains(gpus))
                .map(|gpus| gpus as u32);
        }
        _ => {
            let Some((metric, statistic)) = name.trim_start_matches('[').split_once("] ") else {
                return;
            };
            let stats = match metric {
                "TPOT" => &mut row.tpot,
                "TTFT" => &mut row.ttft,
                "Latency" => &mut row.e2el,
                _ => return,
            };
            stats.put(statistic.trim(), value / 1e3);
        }
    }
}

/// Counts and lengths from ratios of rates.
fn derive(row: &mut Measured) {
    let outcome = &mut row.outcome;
    let Some(requests) = outcome.request_throughput.filter(|rate| *rate > 0.0) else {
        return;
    };
    outcome.completed = outcome
        .duration_s
        .and_then(|duration| json::whole(requests * duration));
    row.setup.num_prompts = outcome.completed;
    row.setup.output_tokens = outcome.output_throughput.map(|tokens| tokens / requests);
    let prompts = outcome
        .total_throughput
        .zip(outcome.output_throughput)
        .map(|(total, output)| total - output);
    row.setup.input_tokens = prompts
        .filter(|tokens| *tokens >= 0.0)
        .map(|tokens| tokens / requests);
    row.taken
        .push("counts and lengths are ratios of the printed throughputs".to_owned());
}
