//! ray llmperf: the summary with flattened keys and the list of responses, in seconds.
//!
//! llmperf divides end-to-end latency by output tokens and calls it `inter_token_latency_s`: it holds the time to first
//! token, and no gap was ever measured. It is left out; TPOT comes from each response, or from the means.

use serde_json::{Map, Value};

use super::error::Problems;
use super::json::Fields;
use super::load::Load;
use super::measured::{Measured, RequestTimes, Setup, Stats, Tool};
use super::vllm;

const NOT_A_GAP: &str =
    "is end-to-end latency over output tokens: it holds the time to first token, no gap was measured";

pub(super) fn is_response(map: &Map<String, Value>) -> bool {
    map.contains_key("end_to_end_latency_s") && map.contains_key("ttft_s")
}

pub(super) fn summary(fields: &Fields<'_>, place: &str) -> Measured {
    let mut row = Measured::new(Tool::LlmperfSummary, place);
    let clients = fields.count("num_concurrent_requests");
    row.setup = Setup {
        model: fields.text("model"),
        load: clients.map_or(Load::Unknown, |clients| Load::Closed { clients }),
        max_concurrency: clients,
        num_prompts: fields.count("results_num_requests_started"),
        input_tokens: fields.number("results_number_input_tokens_mean"),
        output_tokens: fields.number("results_number_output_tokens_mean"),
        has_fixed_lengths: Some(false),
        ..Setup::default()
    };
    let completed = fields.count("results_num_completed_requests");
    let per_minute = fields.number("results_num_completed_requests_per_min");
    row.outcome.completed = completed;
    row.outcome.failed = fields.count("results_number_errors");
    row.outcome.request_throughput = per_minute.map(|rate| rate / 60.0);
    row.outcome.output_throughput = fields.number("results_mean_output_throughput_token_per_s");
    row.outcome.duration_s = completed
        .zip(per_minute.filter(|rate| *rate > 0.0))
        .map(|(completed, per_minute)| completed as f64 / (per_minute / 60.0));
    row.ttft = quantiles(fields, "results_ttft_s_");
    row.e2el = quantiles(fields, "results_end_to_end_latency_s_");
    row.ttft.samples = completed;
    row.e2el.samples = completed;
    row.leave("inter_token_latency_s", NOT_A_GAP);
    row.tpot = tpot_of_means(&row);
    row.complete()
}

fn quantiles(fields: &Fields<'_>, prefix: &str) -> Stats {
    let mut stats = fields.stats(prefix, "", 1.0);
    stats.put_percentiles(&fields.stats(&format!("{prefix}quantiles_"), "", 1.0));
    stats
}

/// `(mean e2el − mean ttft) / (mean output tokens − 1)`: a mean weighted by tokens, close to the mean over requests
/// where lengths vary little.
pub(super) fn tpot_of_means(row: &Measured) -> Stats {
    let means = row.e2el.mean.zip(row.ttft.mean).zip(row.setup.output_tokens);
    let mean = means
        .filter(|((whole, first), tokens)| *tokens > 1.0 && whole >= first)
        .map(|((whole, first), tokens)| (whole - first) / (tokens - 1.0));
    Stats {
        mean,
        derived: mean.map(|_| "(mean e2el − mean ttft) / (mean output tokens − 1)"),
        ..Stats::default()
    }
}

pub(super) fn responses(list: &[Value], place: &str, problems: &Problems) -> Vec<Measured> {
    let mut row = Measured::new(Tool::LlmperfResponses, place);
    let mut requests = Vec::new();
    let mut failed = 0;
    for (index, item) in list.iter().enumerate() {
        let at = format!("{place}[{index}]");
        let Some(map) = item.as_object() else {
            problems.push(at, "is not an object: a list holds one response in each place");
            continue;
        };
        let fields = Fields::new(&at, map, problems);
        if fields.value("error_code").is_some() {
            failed += 1;
            continue;
        }
        let need = |key: &str| {
            if fields.value(key).is_none() {
                fields.problem(key, "is missing");
            }
            fields.number(key)
        };
        let (ttft, whole, tokens) = (
            need("ttft_s"),
            need("end_to_end_latency_s"),
            need("number_output_tokens"),
        );
        if let (Some(ttft_s), Some(e2el_s), Some(output_tokens)) = (ttft, whole, tokens) {
            let input_tokens = fields.number("number_input_tokens");
            requests.push(RequestTimes {
                ttft_s,
                e2el_s: Some(e2el_s),
                input_tokens,
                output_tokens,
                ..RequestTimes::default()
            });
        }
    }
    let mean = |values: Vec<f64>| Stats::of(&values, &[]).mean;
    row.setup.input_tokens = mean(
        requests
            .iter()
            .filter_map(|request| request.input_tokens)
            .collect(),
    );
    row.setup.output_tokens = mean(requests.iter().map(|request| request.output_tokens).collect());
    row.outcome.completed = Some(requests.len() as u64);
    row.outcome.failed = Some(failed);
    row.leave("inter_token_latency_s", NOT_A_GAP);
    row.leave(
        "throughput",
        "the responses have no times of day, so nothing tells how long the run was",
    );
    vllm::take_requests(&mut row, requests);
    vec![row]
}
