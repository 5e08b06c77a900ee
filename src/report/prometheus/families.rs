//! The metrics by name: which vLLM 0.33 registers (`PrometheusStatLogger`), in its order, and where each is read.
//!
//! Left out, because no fact tells them: `admission_rejections` (by which limit a request was refused), `mm_cache_*`,
//! `engine_sleep_state`, and what vLLM registers only with a flag (`spec_decode_*`, `kv_block_*`, connectors, LoRA).

use crate::metrics::scraped::{EngineMetrics, Histogram};

/// Of one number for each engine, or for each engine and value of one more label.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    /// Without `vllm:`, of a counter without `_total`, too.
    pub(super) name: &'static str,
    pub(super) is_counter: bool,
    pub(super) help: &'static str,
    /// The other label and its values.
    pub(super) label: Option<(&'static str, &'static [&'static str])>,
    /// One number for each value of the label; one without a label.
    pub(super) read: fn(&EngineMetrics) -> Vec<f64>,
}

/// Of one histogram for each engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets {
    /// Without `vllm:`.
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&EngineMetrics) -> &Histogram,
}

const fn gauge(name: &'static str, help: &'static str, read: fn(&EngineMetrics) -> Vec<f64>) -> Numbers {
    Numbers {
        name,
        is_counter: false,
        help,
        label: None,
        read,
    }
}

const fn counter(name: &'static str, help: &'static str, read: fn(&EngineMetrics) -> Vec<f64>) -> Numbers {
    Numbers {
        is_counter: true,
        ..gauge(name, help, read)
    }
}

const fn by(
    numbers: Numbers,
    label: &'static str,
    values: &'static [&'static str],
    read: fn(&EngineMetrics) -> Vec<f64>,
) -> Numbers {
    Numbers {
        label: Some((label, values)),
        read,
        ..numbers
    }
}

const fn histogram(
    name: &'static str,
    help: &'static str,
    read: fn(&EngineMetrics) -> &Histogram,
) -> Buckets {
    Buckets { name, help, read }
}

fn one(number: u64) -> Vec<f64> {
    vec![number as f64]
}

fn cached(engine: &EngineMetrics) -> u64 {
    let [_, local, external] = engine.prompt_tokens;
    local + external
}

/// Gauges and counters.
pub(super) const NUMBERS: &[Numbers] = &[
    gauge(
        "num_requests_running",
        "Requests that have a place in the running batch.",
        |engine| one(engine.running),
    ),
    gauge(
        "num_requests_waiting",
        "Requests that the engine has and does not run.",
        |engine| one(engine.waiting + engine.deferred),
    ),
    by(
        gauge(
            "num_requests_waiting_by_reason",
            "Waiting requests by what they wait for: capacity is a place in the batch, deferred their KV from another server.",
            |_| Vec::new(),
        ),
        "reason",
        &["capacity", "deferred"],
        |engine| vec![engine.waiting as f64, engine.deferred as f64],
    ),
    gauge(
        "kv_cache_usage_perc",
        "Share of the KV blocks in use, 1 if all are.",
        |engine| vec![engine.kv_usage],
    ),
    counter(
        "prefix_cache_queries",
        "Tokens that newly admitted requests looked up in the prefix cache.",
        |engine| one(engine.prefix_queries),
    ),
    counter("prefix_cache_hits", "Tokens that they found there.", |engine| {
        one(engine.prefix_hits)
    }),
    counter(
        "external_prefix_cache_queries",
        "Tokens that newly admitted requests looked up outside the engine.",
        |engine| one(engine.external_queries),
    ),
    counter(
        "external_prefix_cache_hits",
        "Tokens that they got from there.",
        |engine| one(engine.tier_hits + engine.replica_hits),
    ),
    counter(
        "num_preemptions",
        "How often a running request lost its KV blocks.",
        |engine| one(engine.preemptions),
    ),
    counter(
        "prompt_tokens",
        "Prompt tokens of requests that have their first token.",
        |engine| one(engine.prompt_tokens.iter().sum()),
    ),
    by(
        counter(
            "prompt_tokens_by_source",
            "The same tokens by where their KV is from.",
            |_| Vec::new(),
        ),
        "source",
        &["local_compute", "local_cache_hit", "external_kv_transfer"],
        |engine| engine.prompt_tokens.map(|tokens| tokens as f64).to_vec(),
    ),
    counter(
        "prompt_tokens_cached",
        "Those of them that were not computed here.",
        |engine| one(cached(engine)),
    ),
    by(
        counter(
            "prompt_tokens_cached_by_source",
            "Tokens found by look-ups at admission: device is the prefix cache, p2p another server, external_unspecified all tiers of KV.",
            |_| Vec::new(),
        ),
        "source",
        &["device", "host", "p2p", "disk", "external_unspecified"],
        |engine| {
            let hits = [engine.prefix_hits, engine.replica_hits, engine.tier_hits];
            let [device, replica, tiers] = hits.map(|hits| hits as f64);
            vec![device, 0.0, replica, 0.0, tiers]
        },
    ),
    counter(
        "generation_tokens",
        "Output tokens that came of steps.",
        |engine| one(engine.generation_tokens),
    ),
    by(
        counter(
            "request_success",
            "Requests that are done, by what ended their output.",
            |_| Vec::new(),
        ),
        "finished_reason",
        &["stop", "length", "abort", "error", "repetition"],
        |engine| {
            let [stop, length] = engine.success.map(|requests| requests as f64);
            vec![stop, length, 0.0, 0.0, 0.0]
        },
    ),
];

/// Histograms.
pub(super) const HISTOGRAMS: &[Buckets] = &[
    histogram(
        "request_prompt_tokens",
        "Prompt tokens of requests that are done.",
        |engine| &engine.request_prompt_tokens,
    ),
    histogram(
        "request_generation_tokens",
        "Output tokens of requests that are done.",
        |engine| &engine.request_generation_tokens,
    ),
    histogram(
        "iteration_tokens_total",
        "Tokens of a step that brought output: prompt tokens count in the step that ends a prefill.",
        |engine| &engine.iteration_tokens,
    ),
    histogram(
        "request_max_num_generation_tokens",
        "Output tokens of the longest answer to a request that is done.",
        |engine| &engine.request_generation_tokens,
    ),
    histogram(
        "request_params_n",
        "The parameter n of requests that are done.",
        |engine| &engine.request_n,
    ),
    histogram(
        "request_params_max_tokens",
        "The parameter max_tokens of requests that are done.",
        |engine| &engine.request_max_tokens,
    ),
    histogram(
        "time_to_first_token_seconds",
        "From when the server has a request to the end of the step that gives its first token.",
        |engine| &engine.ttft,
    ),
    histogram(
        "inter_token_latency_seconds",
        "Every gap between two tokens of a request.",
        |engine| &engine.itl,
    ),
    histogram(
        "request_time_per_output_token_seconds",
        "Mean gap between the tokens of a request that is done.",
        |engine| &engine.tpot,
    ),
    histogram(
        "e2e_request_latency_seconds",
        "From when the server has a request until it is done.",
        |engine| &engine.e2e,
    ),
    histogram(
        "request_queue_time_seconds",
        "From the engine's queue to the first step of a request.",
        |engine| &engine.queue,
    ),
    histogram(
        "request_inference_time_seconds",
        "From the first step of a request to its last token.",
        |engine| &engine.inference,
    ),
    histogram(
        "request_prefill_time_seconds",
        "From the first step of a request to its first token.",
        |engine| &engine.prefill,
    ),
    histogram(
        "request_decode_time_seconds",
        "From the first token of a request to its last.",
        |engine| &engine.decode,
    ),
    histogram(
        "request_num_preemptions",
        "How often a request that is done was preempted.",
        |engine| &engine.request_preemptions,
    ),
    histogram(
        "request_prefill_kv_computed_tokens",
        "Prompt tokens that were computed for a request that is done.",
        |engine| &engine.request_prefill_computed,
    ),
];

/// A gauge by the name that vLLM gave it before.
pub(super) const OLD_NUMBERS: &[Numbers] = &[gauge(
    "gpu_cache_usage_perc",
    "Deprecated: kv_cache_usage_perc.",
    |engine| vec![engine.kv_usage],
)];

/// A histogram by the name that vLLM gave it before.
pub(super) const OLD_HISTOGRAMS: &[Buckets] = &[histogram(
    "time_per_output_token_seconds",
    "Deprecated: inter_token_latency_seconds.",
    |engine| &engine.itl,
)];
