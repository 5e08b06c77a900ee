//! kubernetes-sigs inference-perf: one stage's `stage_N_lifecycle_metrics.json`, in seconds.
//!
//! Two traps of the versions of 2025 and 2026. Servers send an empty event beside every token and the tool counts it as
//! a gap: `inter_token_latency` and `time_per_output_token` are half of the truth, with a median near zero. And answers
//! whose text does not decode alone count 0 output tokens, so the mean length is too small where the smallest is 0; then
//! TPOT comes from the medians. `send_duration` is the time of sending: answers come after it.

use super::json::Fields;
use super::llmperf::tpot_of_means;
use super::load::Load;
use super::measured::{Measured, Stats, Tool};

/// A median gap below this share of the mean is no time between tokens: most gaps are to empty events.
const EMPTY_EVENT_SHARE: f64 = 0.2;

pub(super) fn read(fields: &Fields<'_>, place: &str) -> Measured {
    let mut row = Measured::new(Tool::InferencePerf, place);
    load(fields, &mut row);
    let Some(successes) = fields.object("successes") else {
        fields.problem("successes", "is missing: the answered requests of the stage");
        return row;
    };
    let stats = |path: &[&str]| {
        successes
            .at(path)
            .map_or_else(Stats::default, |at| at.stats("", "", 1.0))
    };
    let completed = successes.count("count");
    row.outcome.completed = completed;
    row.outcome.failed = fields
        .object("failures")
        .and_then(|failures| failures.count("count"));
    if let Some(rates) = successes.object("throughput") {
        row.outcome.input_throughput = rates.number("input_tokens_per_sec");
        row.outcome.output_throughput = rates.number("output_tokens_per_sec");
        row.outcome.total_throughput = rates.number("total_tokens_per_sec");
        row.outcome.request_throughput = rates.number("requests_per_sec");
    }
    let whole = completed.zip(row.outcome.request_throughput.filter(|rate| *rate > 0.0));
    row.outcome.duration_s = whole.map(|(completed, rate)| completed as f64 / rate);
    row.setup.input_tokens = stats(&["prompt_len"]).mean;
    let lengths = stats(&["output_len"]);
    row.setup.output_tokens = lengths.mean;
    row.ttft = stats(&["latency", "time_to_first_token"]);
    row.e2el = stats(&["latency", "request_latency"]);
    row.ttft.samples = completed;
    row.e2el.samples = completed;
    gaps(stats(&["latency", "inter_token_latency"]), &mut row);
    time_per_token(&lengths, &mut row);
    row.leave(
        "normalized_time_per_output_token",
        "is end-to-end latency over output tokens: it holds the first token",
    );
    row
}

fn load(fields: &Fields<'_>, row: &mut Measured) {
    let Some(summary) = fields.object("load_summary") else {
        return;
    };
    row.setup.num_prompts = summary.count("count");
    if let Some(rate) = summary.number("requested_rate") {
        row.setup.load = Load::Open { rate };
    } else if let Some(clients) = summary.count("concurrency") {
        row.setup.load = Load::Closed { clients };
        row.setup.max_concurrency = Some(clients);
    }
    if let Some(sending) = summary.number("send_duration") {
        row.leave(
            &format!("send_duration {sending:.3} s"),
            "is the time of sending; the duration here is requests over their throughput, answers included",
        );
    }
}

fn gaps(itl: Stats, row: &mut Measured) {
    let share = itl
        .median
        .zip(itl.mean.filter(|mean| *mean > 0.0))
        .map(|(median, mean)| median / mean);
    if share.is_some_and(|share| share < EMPTY_EVENT_SHARE) {
        let figures = itl.median.zip(itl.mean).unwrap_or_default();
        row.leave(
            &format!(
                "inter_token_latency (median {:.3} ms, mean {:.3} ms)",
                figures.0 * 1e3,
                figures.1 * 1e3
            ),
            "counts an empty event beside every token, so it is about half of the time between tokens",
        );
    } else {
        row.itl = itl;
    }
}

fn time_per_token(lengths: &Stats, row: &mut Measured) {
    row.leave(
        "time_per_output_token",
        "counts empty events as tokens; TPOT is derived instead",
    );
    if lengths.min.is_none_or(|min| min >= 1.0) {
        row.tpot = tpot_of_means(row);
        return;
    }
    let medians = row.e2el.median.zip(row.ttft.median).zip(lengths.median);
    row.tpot.median = medians
        .filter(|((whole, first), tokens)| *tokens > 1.0 && whole >= first)
        .map(|((whole, first), tokens)| (whole - first) / (tokens - 1.0));
    row.tpot.derived = row
        .tpot
        .median
        .map(|_| "(median e2el − median ttft) / (median output tokens − 1)");
    row.leave(
        "mean of output_len",
        "some answers count 0 tokens, so the mean is too small; the median is the length of an answer",
    );
    row.setup.output_tokens = lengths.median.or(row.setup.output_tokens);
    if row.outcome.output_throughput.take().is_some() {
        row.leave(
            "output_tokens_per_sec, total_tokens_per_sec",
            "count the same lengths, so they are too small",
        );
        row.outcome.total_throughput = None;
    }
}
