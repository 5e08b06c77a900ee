//! The printed block of `vllm bench serve` and of `sglang.bench_serving`, alone or in a log, one or several.
//!
//! Rows are a name, a colon and a value; sections have no meaning, since each row names its metric. Values are printed
//! with two decimals. Titles differ between clients; the rows that only SGLang prints tell it.

use super::error::Problems;
use super::json;
use super::measured::{Measured, Tool};
use super::text::number;
use super::vllm;

const TITLE: &str = "Serving Benchmark Result";

pub(super) fn read(text: &str, problems: &Problems) -> Vec<Measured> {
    let lines: Vec<&str> = text.lines().collect();
    let titles: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(TITLE)).collect();
    let read_one = |(index, start): (usize, &usize)| {
        let end = titles.get(index + 1).copied().unwrap_or(lines.len());
        read_block(&lines[*start..end], *start, titles.len() > 1, problems)
    };
    titles.iter().enumerate().map(read_one).collect()
}

fn read_block(lines: &[&str], first: usize, many: bool, problems: &Problems) -> Measured {
    let is_sglang = lines
        .iter()
        .any(|line| line.starts_with("Backend:") || line.starts_with("Total input text"));
    let tool = if is_sglang {
        Tool::SglangBlock
    } else {
        Tool::VllmBlock
    };
    let place = if many {
        format!("line {}", first + 1)
    } else {
        String::new()
    };
    let mut block = Block {
        row: Measured::new(tool, place),
        rate: None,
        found: 0,
    };
    for (offset, line) in lines.iter().enumerate().skip(1) {
        if line.len() > 20 && line.trim().bytes().all(|byte| byte == b'=') {
            break;
        }
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if let Err(what) = block.take(name, value) {
            problems.push(format!("line {}: `{name}`", first + offset + 1), what);
        }
    }
    if block.found == 0 {
        problems.push(
            format!("line {}", first + 1),
            "a title without any row beneath it",
        );
    }
    let Block { mut row, rate, .. } = block;
    let setup = &mut row.setup;
    // Newer clients print both; without a printed rate a limit on what is in flight was all there was.
    setup.load = vllm::load(rate, setup.max_concurrency);
    setup.num_prompts = row
        .outcome
        .completed
        .map(|completed| completed + row.outcome.failed.unwrap_or(0));
    row.ttft.samples = row.outcome.completed;
    row.e2el.samples = row.outcome.completed;
    row.complete()
}

/// A block as far as it is read.
struct Block {
    row: Measured,
    rate: Option<f64>,
    found: usize,
}

impl Block {
    fn take(&mut self, name: &str, text: &str) -> Result<(), String> {
        if name == "Backend" {
            self.row.setup.engine = Some(text.to_owned());
            return Ok(());
        }
        if self.is_latency(name) {
            let value = number(text)?;
            self.latency(name, value / 1e3);
            self.found += 1;
            return Ok(());
        }
        let whole = |text: &str| {
            let count = number(text).map(json::whole)?;
            count
                .map(Some)
                .ok_or_else(|| format!("`{text}` is too large for a count"))
        };
        let (setup, outcome) = (&mut self.row.setup, &mut self.row.outcome);
        match name {
            "Successful requests" => outcome.completed = whole(text)?,
            "Failed requests" => outcome.failed = whole(text)?,
            "Maximum request concurrency" | "Max request concurrency" if text == "not set" => {}
            "Maximum request concurrency" | "Max request concurrency" => setup.max_concurrency = whole(text)?,
            "Request rate configured (RPS)" | "Traffic request rate" => self.rate = Some(rate(text)?),
            "Benchmark duration (s)" => outcome.duration_s = Some(number(text)?),
            "Total input tokens" => outcome.input_tokens = Some(number(text)?),
            "Total generated tokens" => outcome.output_tokens = Some(number(text)?),
            "Request throughput (req/s)" => outcome.request_throughput = Some(number(text)?),
            "Input token throughput (tok/s)" => outcome.input_throughput = Some(number(text)?),
            "Output token throughput (tok/s)" => outcome.output_throughput = Some(number(text)?),
            "Total token throughput (tok/s)" | "Total Token throughput (tok/s)" => {
                outcome.total_throughput = Some(number(text)?);
            }
            "Request goodput (req/s)" => outcome.goodput = Some(number(text)?),
            "Peak output token throughput (tok/s)" => outcome.peak_output_throughput = Some(number(text)?),
            "Peak concurrent requests" => outcome.peak_in_flight = Some(number(text)?),
            "Concurrency" => outcome.mean_in_flight = Some(number(text)?),
            "Accept length" => self.row.setup.flags = format!("speculative accept_length={}", number(text)?),
            _ => return Ok(()),
        }
        self.found += 1;
        Ok(())
    }

    fn is_latency(&self, name: &str) -> bool {
        let ends = [
            "TTFT (ms)",
            "TPOT (ms)",
            "ITL (ms)",
            "E2EL (ms)",
            "E2E Latency (ms)",
        ];
        ends.iter().any(|end| name.ends_with(end)) && !name.contains("ueue")
    }

    fn latency(&mut self, name: &str, seconds: f64) {
        let row = &mut self.row;
        let Some((statistic, metric)) = name.trim_end_matches(" (ms)").split_once(' ') else {
            return;
        };
        let stats = match metric {
            "TTFT" => &mut row.ttft,
            "TPOT" => &mut row.tpot,
            "ITL" => &mut row.itl,
            _ => &mut row.e2el,
        };
        stats.put(statistic, seconds);
    }
}

fn rate(text: &str) -> Result<f64, String> {
    if text.starts_with("inf") {
        Ok(f64::INFINITY)
    } else {
        number(text)
    }
}
