//! Names of a table's columns, and which of them hold figures.

use std::borrow::Cow;

/// Beginnings of the names of latencies.
pub(super) const MEASURES: [&str; 4] = ["ttft_", "tpot_", "itl_", "e2e_"];
/// Figures that are no latencies.
pub(super) const RATES: [&str; 4] = ["req_throughput", "output_tok_s", "total_tok_s", "duration_s"];
/// Columns that hold no figure.
pub(super) const KNOWN: [&str; 38] = [
    "request_rate",
    "max_concurrency",
    "id",
    "source",
    "source_path",
    "date",
    "engine",
    "version",
    "gpu",
    "n_gpus",
    "tp",
    "pp",
    "dp",
    "ep",
    "model",
    "precision",
    "kv_cache_dtype",
    "workload",
    "isl_mean",
    "osl_mean",
    "num_prompts",
    "rate_or_concurrency_kind",
    "value",
    "flags",
    "notes",
    "confidence",
    "confidence_reason",
    "family",
    "suggested_use",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
    "burstiness",
    "max_concurrent_requests",
    "max_output_tokens_per_s",
    "request_goodput",
    "verdict",
];

/// Other names of columns. All lists of this file stand in docs/calibrate.md, too.
pub(super) const OTHER_NAMES: [(&str, &str); 22] = [
    ("request_throughput", "req_throughput"),
    ("output_throughput", "output_tok_s"),
    ("total_token_throughput", "total_tok_s"),
    ("total_throughput", "total_tok_s"),
    ("duration", "duration_s"),
    ("model_id", "model"),
    ("backend", "engine"),
    ("tensor_parallel_size", "tp"),
    ("concurrency", "max_concurrency"),
    ("request_rate_req_s", "request_rate"),
    ("input_len", "isl_mean"),
    ("output_len", "osl_mean"),
    ("isl", "isl_mean"),
    ("osl", "osl_mean"),
    ("input_length", "isl_mean"),
    ("output_length", "osl_mean"),
    ("input_sequence_length", "isl_mean"),
    ("output_sequence_length", "osl_mean"),
    ("prompt_len", "isl_mean"),
    ("mean_input_tokens", "isl_mean"),
    ("mean_output_tokens", "osl_mean"),
    ("prompt_length", "isl_mean"),
];

/// The column that a name of vLLM's JSON means; that client puts the statistic first.
pub(super) fn canonical(name: &str) -> Cow<'_, str> {
    if let Some((_, known)) = OTHER_NAMES.iter().find(|(other, _)| *other == name) {
        return Cow::Borrowed(known);
    }
    let parts = name.strip_suffix("_ms").and_then(|rest| rest.split_once('_'));
    match parts {
        Some((statistic, metric @ ("ttft" | "tpot" | "itl" | "e2el")))
            if statistic == "median" || is_statistic(statistic) =>
        {
            let statistic = if statistic == "median" { "p50" } else { statistic };
            let metric = if metric == "e2el" { "e2e" } else { metric };
            Cow::Owned(format!("{metric}_{statistic}_ms"))
        }
        _ => Cow::Borrowed(name),
    }
}

/// Whether a column holds a figure.
pub(super) fn is_figure(name: &str) -> bool {
    RATES.contains(&name)
        || MEASURES.iter().any(|start| {
            let rest = name.strip_prefix(start).and_then(|rest| rest.strip_suffix("_ms"));
            rest.is_some_and(is_statistic)
        })
}

/// Whether a word is a statistic that is read: `mean`, `p99`.
fn is_statistic(word: &str) -> bool {
    let percent = |digits: &str| {
        digits
            .parse()
            .is_ok_and(|percent| (0.0..=100.0).contains(&percent))
    };
    ["mean", "std", "min", "max"].contains(&word) || word.strip_prefix('p').is_some_and(percent)
}
