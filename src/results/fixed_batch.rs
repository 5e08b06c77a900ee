//! Fixed batches from start to end: `vllm bench latency` and SGLang's `bench_one_batch`, saved and printed.
//!
//! vLLM (0.33 `benchmarks/latency.py`): a latency is that of a whole batch through the engine in the client's own process,
//! tokenized prompts to the last token; the file says neither model, batch nor lengths. It turns prefix caching off.
//! SGLang (0.5 `bench_one_batch.py`): one pass over all prompts whatever their sum, then `output_len − 1` steps, without
//! scheduler or server; `median_decode_latency` is over steps. Its warm-up is printed first and left out.

use super::error::Problems;
use super::json::{Fields, whole};
use super::load::Load;
use super::measured::{Measured, Stats, Tool};

/// `--output-json` of `vllm bench latency`.
pub(super) fn vllm(fields: &Fields<'_>, place: &str) -> Measured {
    let mut row = vllm_row(place);
    row.e2el.mean = fields.number("avg_latency");
    row.e2el.std = fields.number("std_latency");
    if let Some(latencies) = fields
        .value("latencies")
        .and_then(|_| fields.numbers("latencies"))
    {
        row.e2el.samples = Some(latencies.len() as u64);
        row.e2el.min = latencies.iter().copied().min_by(f64::total_cmp);
        row.e2el.max = latencies.iter().copied().max_by(f64::total_cmp);
    }
    if let Some(percentiles) = fields
        .value("percentiles")
        .and_then(|_| fields.object("percentiles"))
    {
        for key in percentiles.own().keys() {
            match key.parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => {
                    if let Some(value) = percentiles.number(key) {
                        row.e2el.put_percentile(percent, value);
                    }
                }
                _ => percentiles.problem(key, "is no percentile from 0 to 100"),
            }
        }
    }
    row
}

fn vllm_row(place: &str) -> Measured {
    let mut row = Measured::new(Tool::VllmLatency, place);
    row.setup.engine = Some("vllm".to_owned());
    row.setup.has_fixed_lengths = Some(true);
    row.taken
        .push("a latency is that of a whole batch, from its start to its last token".to_owned());
    row
}

/// What `vllm bench latency` prints: `Avg latency: 1.2 seconds`, `50% percentile latency: 1.2 seconds`.
pub(super) fn vllm_printed(text: &str, problems: &Problems) -> Vec<Measured> {
    let mut row = vllm_row("");
    for (index, line) in text.lines().enumerate() {
        let Some((name, value)) = line.split_once("latency:") else {
            continue;
        };
        let Some(value) = seconds(value) else {
            problems.push(
                format!("line {}", index + 1),
                format!("`{}` must be a number of seconds", value.trim()),
            );
            continue;
        };
        match name.trim() {
            "Avg" => row.e2el.mean = Some(value),
            "Std" => row.e2el.std = Some(value),
            name => {
                let percent = name.split('%').next().and_then(|text| text.trim().parse().ok());
                if let Some(percent) = percent.filter(|percent| (0.0..=100.0).contains(percent)) {
                    row.e2el.put_percentile(percent, value);
                }
            }
        }
    }
    vec![row]
}

/// A line of SGLang's `--result-filename`.
pub(super) fn sglang(fields: &Fields<'_>, place: &str) -> Measured {
    let mut row = Measured::new(Tool::SglangOneBatch, place);
    let (batch, input, output) = (
        fields.count("batch_size"),
        fields.count("input_len"),
        fields.count("output_len"),
    );
    for (key, found) in [
        ("batch_size", batch),
        ("input_len", input),
        ("output_len", output),
    ] {
        if found.is_none() && fields.value(key).is_none() {
            fields.problem(key, "is missing: bench_one_batch writes it in every line");
        }
    }
    let lengths = (batch.unwrap_or(0), input.unwrap_or(0), output.unwrap_or(0));
    let times = (
        fields.number("prefill_latency"),
        fields.number("median_decode_latency"),
        fields.number("total_latency"),
    );
    one_batch(&mut row, lengths, times);
    row
}

type Times = (Option<f64>, Option<f64>, Option<f64>);

fn one_batch(row: &mut Measured, (batch, input, output): (u64, u64, u64), (prefill, decode, total): Times) {
    let setup = &mut row.setup;
    setup.engine = Some("sglang".to_owned());
    setup.load = Load::StaticBatch { batch };
    setup.num_prompts = Some(batch);
    (setup.input_tokens, setup.output_tokens) = (Some(input as f64), Some(output as f64));
    setup.has_fixed_lengths = Some(true);
    let outcome = &mut row.outcome;
    (outcome.completed, outcome.duration_s) = (Some(batch), total);
    outcome.input_tokens = Some(batch as f64 * input as f64);
    outcome.output_tokens = Some(batch as f64 * output as f64);
    row.ttft = single(prefill);
    row.tpot.median = decode;
    row.e2el = single(total);
    row.taken.push(
        "ttft is the pass over all prompts, tpot the median of its steps; no scheduler took part".to_owned(),
    );
    row.leave(
        "throughputs",
        "they are tokens over the latencies that are taken already",
    );
}

/// All requests of a batch have one time.
fn single(seconds: Option<f64>) -> Stats {
    Stats {
        mean: seconds,
        median: seconds,
        ..Stats::default()
    }
}

/// What `bench_one_batch` prints, one batch after the other. The size of a batch stands in its decode lines; lengths
/// follow from throughputs.
pub(super) fn sglang_printed(text: &str, problems: &Problems) -> Vec<Measured> {
    let measured = text.split_once("Benchmark ...").map_or(text, |(_, rest)| rest);
    let skipped = text[..text.len() - measured.len()].lines().count();
    let mut rows = Vec::new();
    let mut block = Block::default();
    for (index, line) in measured.lines().enumerate() {
        let line_number = skipped.max(1) + index;
        let line = line.trim();
        if line.starts_with("Prefill. latency:") {
            block = Block {
                prefill: rate(line),
                ..Block::default()
            };
        } else if line.starts_with("Decode.") {
            block.decode = seconds_after(line, "median latency:");
        } else if line.starts_with("Decode ") {
            block.batch = seconds_after(line, "Batch size:").or(block.batch);
        } else if line.starts_with("Total. latency:") {
            match block.row(rate(line), rows.len() + 1) {
                Some(row) => rows.push(row),
                None => problems.push(
                    format!("line {line_number}"),
                    "ends a batch whose `Prefill.` or `Decode 0. Batch size:` line is missing",
                ),
            }
            block = Block::default();
        }
    }
    rows
}

/// The printed lines of one batch: latency and throughput of the pass over prompts, the steps, the batch.
#[derive(Default)]
struct Block {
    prefill: Option<(f64, f64)>,
    decode: Option<f64>,
    batch: Option<f64>,
}

impl Block {
    fn row(&self, total: Option<(f64, f64)>, number: usize) -> Option<Measured> {
        let ((prefill, input_rate), (total, rate)) = (self.prefill?, total?);
        let batch = whole(self.batch?).filter(|batch| *batch > 0)?;
        let input = whole(prefill * input_rate / batch as f64)?;
        let output = whole((total * rate / batch as f64 - input as f64).max(0.0))?;
        let mut row = Measured::new(Tool::SglangOneBatch, format!("batch {number}"));
        one_batch(
            &mut row,
            (batch, input, output),
            (Some(prefill), self.decode, Some(total)),
        );
        row.taken
            .push("lengths follow from latency times throughput, within a token or two".to_owned());
        Some(row)
    }
}

/// `latency: 0.01234 s, throughput: 83023.00 token/s`.
fn rate(line: &str) -> Option<(f64, f64)> {
    Some((
        seconds_after(line, "latency:")?,
        seconds_after(line, "throughput:")?,
    ))
}

fn seconds_after(line: &str, word: &str) -> Option<f64> {
    seconds(line.split_once(word)?.1)
}

/// The number that a text begins with, if it is finite and not negative.
fn seconds(text: &str) -> Option<f64> {
    let number = text.trim_start().split([' ', ',']).next()?.parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}
