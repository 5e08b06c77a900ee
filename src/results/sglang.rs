//! `sglang.bench_serving --output-file`: one object a line, `Infinity` written bare.
//!
//! Definitions are vLLM's (B-29), but on the native endpoint a chunk of n tokens counts as n gaps of a n-th each (B-28).
//! Its `random` lengths are uniform between `range_ratio × L` and `L`, and the ratio is 0 unless set: the mean prompt is
//! about L/2. The totals are what was sent, so means are taken from them, and the law from what was asked for.

use super::json::Fields;
use super::measured::{Measured, Setup, Tool};
use super::vllm;

pub(super) fn read(fields: &Fields<'_>, place: &str) -> Measured {
    let mut row = Measured::new(Tool::SglangBench, place);
    row.setup = setup(fields);
    let outcome = &mut row.outcome;
    outcome.completed = fields.count("completed");
    outcome.duration_s = fields.number("duration");
    outcome.input_tokens = fields.number("total_input_tokens");
    outcome.output_tokens = fields.number("total_output_tokens");
    outcome.request_throughput = fields.number("request_throughput");
    outcome.input_throughput = fields.number("input_throughput");
    outcome.output_throughput = fields.number("output_throughput");
    outcome.total_throughput = fields.number("total_throughput");
    outcome.mean_in_flight = fields.number("concurrency");
    outcome.peak_in_flight = fields.number("max_concurrent_requests");
    outcome.peak_output_throughput = fields.number("max_output_tokens_per_s");
    outcome.goodput = fields.number("request_goodput");
    if row.outcome.completed == Some(0) {
        row.leave("latencies", "no request was answered");
        return row;
    }
    row.ttft = fields.stats("", "_ttft_ms", 1e3);
    row.tpot = fields.stats("", "_tpot_ms", 1e3);
    row.itl = fields.stats("", "_itl_ms", 1e3);
    row.e2el = fields.stats("", "_e2e_latency_ms", 1e3);
    row.ttft.samples = row.outcome.completed;
    row.e2el.samples = row.outcome.completed;
    lengths(fields, &mut row);
    row.complete()
}

fn setup(fields: &Fields<'_>) -> Setup {
    let server = match fields.value("server_info") {
        Some(value) if value.is_object() => fields.object("server_info"),
        _ => None,
    };
    let of_server = |key: &str| server.and_then(|server| server.text(key));
    let ranks = |key: &str| of_server(key).and_then(|text| text.parse::<u32>().ok());
    let max_concurrency = fields.count("max_concurrency");
    let ratio = fields.number("random_range_ratio");
    Setup {
        model: of_server("model_path").or(fields.text("model_id")),
        engine: fields.text("backend"),
        engine_version: of_server("version"),
        tensor_parallel: ranks("tp_size"),
        n_gpus: ranks("tp_size")
            .zip(ranks("pp_size"))
            .and_then(|(tensor, pipeline)| tensor.checked_mul(pipeline)),
        load: vllm::load(fields.rate("request_rate"), max_concurrency),
        max_concurrency,
        workload: workload(fields),
        has_fixed_lengths: ratio.map(|ratio| ratio == 1.0),
        flags: fields.number("accept_length").map_or(String::new(), |length| {
            format!("speculative accept_length={length}")
        }),
        ..Setup::default()
    }
}

/// The nominal lengths of a random data set and how far below them it draws, where that is said and scatters.
fn random(fields: &Fields<'_>) -> Option<(f64, f64, f64)> {
    let name = fields.text("dataset_name")?;
    let ratio = fields.number("random_range_ratio")?;
    let (input, output) = (
        fields.number("random_input_len")?,
        fields.number("random_output_len")?,
    );
    (name.starts_with("random") && (0.0..1.0).contains(&ratio)).then_some((input, output, ratio))
}

/// The data set, with its law in the words of a table where it is random.
fn workload(fields: &Fields<'_>) -> String {
    let name = fields.text("dataset_name").unwrap_or_default();
    match random(fields) {
        Some((input, output, ratio)) => format!("{name} isl={input} osl={output} range_ratio={ratio}"),
        None => name,
    }
}

/// Says what the nominal lengths of a random data set are worth.
fn lengths(fields: &Fields<'_>, row: &mut Measured) {
    if let Some((input, output, ratio)) = random(fields) {
        row.taken.push(format!(
            "random_input_len {input} and random_output_len {output}: the random data set drew lengths from {ratio} × L to \
             L, so these are the largest; means are total tokens over requests"
        ));
    }
}
