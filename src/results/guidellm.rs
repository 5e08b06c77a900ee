//! GuideLLM's report, versions 1 and 2: one row a benchmark, answered requests only.
//!
//! `request_latency` is in seconds, names that end in `_ms` are not. Its `time_per_output_token_ms` is latency over
//! output tokens, the first one included: it is left out. Its `inter_token_latency_ms` is `(e2el − ttft) / (n − 1)` of
//! each request, so it is our TPOT. `*_per_second` are distributions over time whose mean is not total over duration.

use super::json::Fields;
use super::load::Load;
use super::measured::{Measured, Stats, Tool};

pub(super) fn read(fields: &Fields<'_>) -> Vec<Measured> {
    let list = fields.list("benchmarks").unwrap_or_default();
    let model = fields
        .at(&["config", "spec", "backend"])
        .and_then(|backend| backend.text("model"))
        .or_else(|| fields.object("args").and_then(|args| args.text("model")));
    let mut rows = Vec::new();
    for (index, benchmark) in list.iter().enumerate() {
        let place = format!("benchmarks[{index}]");
        match benchmark.as_object() {
            Some(map) => rows.push(read_one(&fields.within(&place, map), &place, model.clone())),
            None => fields.problem(&place, "must be an object"),
        }
    }
    rows
}

fn read_one(fields: &Fields<'_>, place: &str, model: Option<String>) -> Measured {
    let mut row = Measured::new(Tool::Guidellm, place);
    row.setup.model = model;
    let strategy = fields
        .at(&["config", "strategy"])
        .or_else(|| fields.at(&["args", "strategy"]));
    if let Some(strategy) = strategy {
        row.setup.load = load(&strategy);
        row.setup.max_concurrency = match row.setup.load {
            Load::Closed { clients } => Some(clients),
            _ => strategy.count("max_concurrency"),
        };
    }
    let Some(metrics) = fields.object("metrics") else {
        fields.problem("metrics", "is missing: the distributions of the benchmark");
        return row;
    };
    let answered = |name: &str, seconds: f64| distribution(&metrics, name, seconds);
    row.ttft = answered("time_to_first_token_ms", 1e3);
    row.tpot = answered("inter_token_latency_ms", 1e3);
    row.e2el = answered("request_latency", 1.0);
    row.setup.input_tokens = answered("prompt_token_count", 1.0).mean;
    row.setup.output_tokens = answered("output_token_count", 1.0).mean;
    if let Some(totals) = metrics.object("request_totals") {
        row.outcome.completed = totals.count("successful");
        row.outcome.failed = totals.count("errored");
    }
    row.outcome.mean_in_flight = answered("request_concurrency", 1.0).mean;
    rates(fields, &metrics, &mut row);
    row.leave(
        "time_per_output_token_ms",
        "is latency over output tokens, the first token included",
    );
    row.taken
        .push("inter_token_latency_ms is one value a request, so it is taken as TPOT".to_owned());
    row
}

fn load(strategy: &Fields<'_>) -> Load {
    let kind = strategy
        .text("type_")
        .or(strategy.text("type"))
        .unwrap_or_default();
    let clients = strategy.count("streams").or(strategy.count("max_concurrency"));
    match kind.as_str() {
        "constant" | "poisson" | "async" => strategy
            .number("rate")
            .map_or(Load::Unknown, |rate| Load::Open { rate }),
        "concurrent" => clients.map_or(Load::Unknown, |clients| Load::Closed { clients }),
        "synchronous" => Load::Closed { clients: 1 },
        "throughput" => clients.map_or(Load::Burst, |clients| Load::Closed { clients }),
        _ => Load::Unknown,
    }
}

/// The distribution of answered requests under `metrics.<name>.successful`, percentiles folded in.
fn distribution(metrics: &Fields<'_>, name: &str, seconds: f64) -> Stats {
    let Some(at) = metrics.at(&[name, "successful"]) else {
        return Stats::default();
    };
    let mut stats = at.stats("", "", seconds);
    if let Some(percentiles) = at.object("percentiles") {
        stats.put_percentiles(&percentiles.stats("", "", seconds));
    }
    stats.samples = at.count("count");
    stats
}

/// Throughput from counts and the benchmark's own duration; the rate distributions are over time, not over requests.
fn rates(fields: &Fields<'_>, metrics: &Fields<'_>, row: &mut Measured) {
    row.outcome.duration_s = fields.number("duration").or_else(|| {
        let length = fields.number("end_time")? - fields.number("start_time")?;
        (length > 0.0).then_some(length)
    });
    let total = |name: &str| {
        metrics
            .at(&[name, "successful"])
            .and_then(|at| at.number("total_sum"))
    };
    row.outcome.input_tokens = total("prompt_token_count");
    row.outcome.output_tokens = total("output_token_count");
    let Some(duration) = row.outcome.duration_s.filter(|duration| *duration > 0.0) else {
        return;
    };
    row.outcome.request_throughput = row.outcome.completed.map(|completed| completed as f64 / duration);
    row.outcome.output_throughput = row.outcome.output_tokens.map(|tokens| tokens / duration);
    row.leave(
        "*_per_second",
        "are distributions over time; throughput here is the total over the duration",
    );
}
