//! What a file is, by its content, and the reader for it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::error::Problems;
use super::json::{self, Fields};
use super::measured::Measured;
use super::text::without_colours;
use super::{
    aiperf, block, console, course, fixed_batch, guidellm, inference_perf, inferencex, llmperf, sglang,
    table, trtllm, vllm,
};

/// What a file that is nothing known is told.
const LOOKED_FOR: &str = "is no known result; looked for vllm bench serve (`mean_ttft_ms` and `duration`), SGLang \
    (`mean_e2e_latency_ms`), AIPerf or GenAI-Perf (`time_to_first_token` with a `unit`), GuideLLM (`benchmarks`), \
    llmperf (`results_ttft_s_mean` or `end_to_end_latency_s`), inference-perf (`load_summary` and `successes`), \
    InferenceX (`median_ttft`), vllm bench latency (`avg_latency`), SGLang's bench_one_batch (`prefill_latency`), the course's tables (`week1`), printed blocks (`Serving Benchmark Result`, `PERFORMANCE \
    OVERVIEW`, `LLM Metrics`) and CSV tables with a column such as `ttft_mean_ms` or `output_tok_s`";

/// Reads a file of any tool.
pub(super) fn read(bytes: &[u8], problems: &Problems) -> Vec<Measured> {
    let Some(text) = text_of(bytes, problems) else {
        return Vec::new();
    };
    match text.trim_start().chars().next() {
        None => {
            problems.push("the file", "is empty");
            Vec::new()
        }
        Some('{' | '[') => read_documents(&text, problems),
        Some(_) => read_text(&text, problems),
    }
}

/// The text of a file that is a table with a row a run.
pub(super) fn table_text(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let text = text_of(bytes, &Problems::default())?;
    let is_json = text.trim_start().starts_with(['{', '[']);
    (!is_json && table::column_of_requests(&text).is_none() && table::is_table(&text)).then_some(text)
}

fn text_of<'a>(bytes: &'a [u8], problems: &Problems) -> Option<Cow<'a, str>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(without_colours(text)),
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            problems.push(format!("line {line}"), "is not UTF-8 text");
            None
        }
    }
}

fn read_text(text: &str, problems: &Problems) -> Vec<Measured> {
    if text.contains("PERFORMANCE OVERVIEW") {
        return trtllm::read(text, problems);
    }
    if text.contains("Serving Benchmark Result") {
        return block::read(text, problems);
    }
    if text.contains("Avg latency:") && text.contains("percentile latency:") {
        return fixed_batch::vllm_printed(text, problems);
    }
    if text.contains("Prefill. latency:") && text.contains("Total. latency:") {
        return fixed_batch::sglang_printed(text, problems);
    }
    if text.contains("LLM Metrics") && text.contains('│') {
        return console::read(text, problems);
    }
    if let Some(column) = table::column_of_requests(text) {
        problems.push("line 1", format!(
            "`{column}` is of a table with a row a request, not a run: give it to `plimsoll validate TABLE.csv --requests FILE`"
        ));
        return Vec::new();
    }
    if table::is_table(text) {
        return table::read(text, problems);
    }
    problems.push("the file", LOOKED_FOR);
    Vec::new()
}

fn read_documents(text: &str, problems: &Problems) -> Vec<Measured> {
    let documents = json::documents(text, problems);
    // A file of records is one run: they are read together.
    let objects: Option<Vec<(usize, &Map<String, Value>)>> = documents
        .iter()
        .map(|(line, document)| Some((*line, document.as_object()?)))
        .collect();
    if let Some(objects) = objects.filter(|objects| objects.iter().any(|(_, map)| aiperf::is_record(map))) {
        return aiperf::records(&objects, problems);
    }
    let many = documents.len() > 1;
    let read_one = |(line, document): &(usize, Value)| {
        let place = if many {
            format!("line {line}")
        } else {
            String::new()
        };
        read_document(document, &place, problems)
    };
    documents.iter().flat_map(read_one).collect()
}

fn read_document(document: &Value, place: &str, problems: &Problems) -> Vec<Measured> {
    match document {
        Value::Object(map) => read_object(map, place, problems),
        Value::Array(list)
            if list
                .iter()
                .any(|item| item.as_object().is_some_and(llmperf::is_response)) =>
        {
            llmperf::responses(list, place, problems)
        }
        Value::Array(list) => {
            let of = |(index, item): (usize, &Value)| {
                let place = match place {
                    "" => format!("[{index}]"),
                    place => format!("{place} [{index}]"),
                };
                match item.as_object() {
                    Some(map) => read_object(map, &place, problems),
                    None => {
                        problems.push(place, "is not an object: a list holds one result in each place");
                        Vec::new()
                    }
                }
            };
            list.iter().enumerate().flat_map(of).collect()
        }
        _ => {
            problems.push(if place.is_empty() { "the file" } else { place }, LOOKED_FOR);
            Vec::new()
        }
    }
}

/// What documents of Plimsoll's own say that are of no single run.
fn no_single_run(map: &Map<String, Value>) -> Option<&'static str> {
    let has = |keys: &[&str]| keys.iter().all(|key| map.contains_key(*key));
    if has(&["knee", "saturation", "points"]) {
        Some(
            "is what `plimsoll knee` found over many rates, and no run: give the result of one rate, of `plimsoll run … \
             --request-rate RATE --format json`",
        )
    } else if has(&["variants", "same_requests"]) {
        Some(
            "is what `plimsoll compare` found between variants, and no run: give the result of one variant, of `plimsoll run \
             … --format json`",
        )
    } else if has(&["fits", "scenario"]) {
        Some(
            "is what `plimsoll fit` says of memory, and no run: give the result of `plimsoll run … --format json`",
        )
    } else if has(&["impossible", "doubtful", "files"]) {
        Some("is what `plimsoll audit` found in a result: give that result itself")
    } else {
        None
    }
}

fn read_object(map: &Map<String, Value>, place: &str, problems: &Problems) -> Vec<Measured> {
    let fields = Fields::new(place, map, problems);
    let has = |key: &str| map.contains_key(key);
    if let (true, Some(Value::Object(result))) = (has("cell"), map.get("result")) {
        // A row of a sweep that was not run has nothing but its verdict.
        return match result.contains_key("duration") {
            true => read_object(result, place, problems),
            false => Vec::new(),
        };
    }
    if let Some(what) = no_single_run(map) {
        problems.push(if place.is_empty() { "the file" } else { place }, what);
        return Vec::new();
    }
    if has("week1") || has("week2") {
        course::read(&fields)
    } else if map.get("benchmarks").is_some_and(Value::is_array) {
        guidellm::read(&fields)
    } else if has("load_summary") && has("successes") {
        vec![inference_perf::read(&fields, place)]
    } else if map
        .keys()
        .any(|key| key.starts_with("results_ttft_s") || key.starts_with("results_end_to_end"))
    {
        vec![llmperf::summary(&fields, place)]
    } else if aiperf::is_aggregate(map) {
        vec![aiperf::aggregate(&fields, place)]
    } else if has("avg_latency") {
        vec![fixed_batch::vllm(&fields, place)]
    } else if has("prefill_latency") && has("batch_size") {
        vec![fixed_batch::sglang(&fields, place)]
    } else if (has("median_ttft") || has("mean_ttft")) && !has("mean_ttft_ms") {
        vec![inferencex::read(&fields, place)]
    } else if has("mean_e2e_latency_ms") || has("total_output_tokens_retokenized") || has("server_info") {
        vec![sglang::read(&fields, place)]
    } else if has("duration") && (has("mean_ttft_ms") || has("completed") || has("request_throughput")) {
        vec![vllm::read(&fields, place)]
    } else {
        problems.push(if place.is_empty() { "the file" } else { place }, LOOKED_FOR);
        Vec::new()
    }
}
