//! AIPerf and GenAI-Perf: the aggregate object and AIPerf's records, one a request.
//!
//! Their `inter_token_latency` is `(latency − ttft) / (osl − 1)` of each request: our TPOT. AIPerf's
//! `inter_chunk_latency` are the gaps. Times of day are nanoseconds; every metric names its unit.

use serde_json::{Map, Value};

use super::error::Problems;
use super::json::{self, Fields, plain_number};
use super::load::Load;
use super::measured::{Measured, RequestTimes, Stats, Tool};
use super::vllm;

pub(super) fn is_record(map: &Map<String, Value>) -> bool {
    let metadata = map.get("metadata").and_then(Value::as_object);
    map.contains_key("metrics") && metadata.is_some_and(|metadata| metadata.contains_key("request_start_ns"))
}

pub(super) fn is_aggregate(map: &Map<String, Value>) -> bool {
    ["request_latency", "time_to_first_token", "request_throughput"]
        .iter()
        .any(|tag| {
            let metric = map.get(*tag).and_then(Value::as_object);
            metric.is_some_and(|metric| metric.contains_key("unit") && metric.contains_key("avg"))
        })
}

pub(super) fn aggregate(fields: &Fields<'_>, place: &str) -> Measured {
    let is_aiperf = fields.value("aiperf_version").is_some() || fields.value("benchmark_duration").is_some();
    let tool = if is_aiperf {
        Tool::AiperfAggregate
    } else {
        Tool::GenaiPerfAggregate
    };
    let mut row = Measured::new(tool, place);
    let average = |tag: &str| metric(fields, tag).and_then(|metric| metric.number("avg"));
    let latency = |tag: &str| metric(fields, tag).map_or_else(Stats::default, |metric| timed(&metric));
    row.ttft = latency("time_to_first_token");
    row.tpot = latency("inter_token_latency");
    row.itl = latency("inter_chunk_latency");
    row.e2el = latency("request_latency");
    row.setup.input_tokens = average("input_sequence_length");
    row.setup.output_tokens = average("output_sequence_length");
    row.outcome.completed = average("request_count").and_then(json::whole);
    row.outcome.failed = average("error_request_count").and_then(json::whole);
    row.outcome.request_throughput = average("request_throughput");
    row.outcome.output_throughput = average("output_token_throughput");
    row.outcome.goodput = average("goodput").or(average("request_goodput"));
    row.outcome.duration_s = metric(fields, "benchmark_duration").and_then(|metric| timed(&metric).mean);
    row.taken
        .push("inter_token_latency is one value a request, so it is taken as TPOT".to_owned());
    asked_for(fields, &mut row);
    row
}

/// The client's own arguments, which both tools copy into the file.
fn asked_for(fields: &Fields<'_>, row: &mut Measured) {
    let Some(input) = fields.object("input_config") else {
        return;
    };
    let text_at = |path: &[&str], key: &str| {
        let at = path
            .iter()
            .try_fold(input.own(), |map, step| map.get(*step)?.as_object());
        at.and_then(|map| map.get(key)).cloned()
    };
    let model = text_at(&["endpoint"], "model_names")
        .or(text_at(&[], "model_names"))
        .or(text_at(&[], "model"));
    row.setup.model = match model {
        Some(Value::Array(names)) => names.first().and_then(Value::as_str).map(str::to_owned),
        Some(Value::String(name)) => Some(name),
        _ => None,
    };
    let number = |key: &str| {
        let at = text_at(&["loadgen"], key)
            .or(text_at(&["perf_analyzer", "stimulus"], key))
            .or(text_at(&[], key));
        at.as_ref().and_then(plain_number)
    };
    let clients = number("concurrency").and_then(json::whole);
    row.setup.max_concurrency = clients;
    row.setup.load = match (number("request_rate"), clients) {
        (Some(rate), _) => Load::Open { rate },
        (None, Some(clients)) => Load::Closed { clients },
        _ => Load::Unknown,
    };
}

fn metric<'a>(fields: &Fields<'a>, tag: &str) -> Option<Fields<'a>> {
    fields.value(tag)?;
    fields.object(tag)
}

/// Statistics of a metric that names its unit.
fn timed(metric: &Fields<'_>) -> Stats {
    let Some(seconds) = per_second(metric.text("unit").as_deref()) else {
        metric.problem("unit", "must be ns, us, ms or s for a time");
        return Stats::default();
    };
    let mut stats = metric.stats("", "", seconds);
    stats.samples = metric.count("count");
    stats
}

/// How many of a unit make a second; milliseconds where none is written.
fn per_second(unit: Option<&str>) -> Option<f64> {
    match unit {
        Some("ns" | "nanoseconds") => Some(1e9),
        Some("us" | "µs" | "microseconds") => Some(1e6),
        None | Some("ms" | "milliseconds") => Some(1e3),
        Some("s" | "sec" | "seconds") => Some(1.0),
        Some(_) => None,
    }
}

/// All records of a run.
pub(super) fn records(objects: &[(usize, &Map<String, Value>)], problems: &Problems) -> Vec<Measured> {
    let mut row = Measured::new(Tool::AiperfRecords, "");
    let (mut requests, mut failed, mut warm_up, mut first_ns, mut last_ns) =
        (Vec::new(), 0, 0, f64::MAX, 0.0_f64);
    for (line, map) in objects {
        let place = format!("line {line}");
        let fields = Fields::new(&place, map, problems);
        let Some((metadata, metrics)) = fields.object("metadata").zip(fields.object("metrics")) else {
            problems.push(&place, "is no record: it needs `metadata` and `metrics`");
            continue;
        };
        if metadata
            .text("benchmark_phase")
            .is_some_and(|phase| phase != "profiling")
        {
            warm_up += 1;
            continue;
        }
        if fields.value("error").is_some() {
            failed += 1;
            continue;
        }
        let times = metadata
            .number("request_start_ns")
            .zip(metadata.number("request_end_ns"));
        let Some((request, (start_ns, end_ns))) = request(&metrics).zip(times) else {
            problems.push(&place, "lacks the times or the latency of an answered request");
            continue;
        };
        (first_ns, last_ns) = (first_ns.min(start_ns), last_ns.max(end_ns));
        requests.push((start_ns, end_ns, request));
    }
    let requests: Vec<RequestTimes> = requests
        .into_iter()
        .map(|(start_ns, end_ns, request)| RequestTimes {
            start_s: Some((start_ns - first_ns) / 1e9),
            end_s: Some((end_ns - first_ns) / 1e9),
            ..request
        })
        .collect();
    if warm_up > 0 {
        row.leave(&format!("{warm_up} records"), "are of the warm-up phase");
    }
    totals(&mut row, &requests, failed, (last_ns - first_ns) / 1e9);
    vllm::take_requests(&mut row, requests);
    row.taken
        .push("inter_chunk_latency are the gaps, inter_token_latency is TPOT".to_owned());
    vec![row.complete()]
}

fn totals(row: &mut Measured, requests: &[RequestTimes], failed: u64, duration_s: f64) {
    row.outcome.completed = Some(requests.len() as u64);
    row.outcome.failed = Some(failed);
    row.outcome.output_tokens = Some(requests.iter().map(|request| request.output_tokens).sum());
    row.outcome.input_tokens = requests.iter().map(|request| request.input_tokens).sum();
    if duration_s > 0.0 && !requests.is_empty() {
        row.outcome.duration_s = Some(duration_s);
        row.outcome.request_throughput = Some(requests.len() as f64 / duration_s);
        row.outcome.output_throughput = row.outcome.output_tokens.map(|tokens| tokens / duration_s);
    }
}

/// An answered request; nothing where a figure is missing.
fn request(metrics: &Fields<'_>) -> Option<RequestTimes> {
    let seconds = |tag: &str| {
        let metric = metrics.object(tag)?;
        Some(metric.number("value")? / per_second(metric.text("unit").as_deref())?)
    };
    let tokens = |tag: &str| metrics.object(tag)?.number("value");
    let gaps = metrics.object("inter_chunk_latency").and_then(|metric| {
        let scale = per_second(metric.text("unit").as_deref())?;
        Some(
            metric
                .numbers("value")?
                .iter()
                .map(|gap| gap / scale)
                .collect::<Vec<f64>>(),
        )
    });
    let e2el_s = seconds("request_latency")?;
    Some(RequestTimes {
        ttft_s: seconds("time_to_first_token").unwrap_or(e2el_s),
        e2el_s: Some(e2el_s),
        itls_s: gaps.unwrap_or_default(),
        stated_tpot_s: seconds("inter_token_latency"),
        input_tokens: tokens("input_sequence_length"),
        output_tokens: tokens("output_sequence_length").or_else(|| tokens("output_token_count"))?,
        ..RequestTimes::default()
    })
}
