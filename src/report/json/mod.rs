//! A run as one JSON object: a superset, in keys and types, of `vllm bench serve --save-result`.
//!
//! The client's keys describe the whole run as that client would see it (ramp, drain and overload included), in its key
//! order, and are never withheld. Everything of ours stands under `plimsoll`. Where no request was completed the client's
//! figures are 0, as its own are. Leaves out: keys for audio.

mod anatomy;
mod cost;
mod explained;
mod in_flight;
mod knee;
mod knees;
mod pairs;
mod parts;
mod plimsoll;
mod purchases;
mod splits;
mod tiers;
mod value;
mod waits;

pub use self::anatomy::anatomy;
pub use self::explained::explained;
pub use self::in_flight::in_flight;
pub use self::knee::knee;
pub use self::knees::{cost_of, knee_setting, knee_settings};
pub use self::pairs::pairs;
pub(super) use self::purchases::load_by;
pub(super) use self::purchases::purchase_of;
pub use self::purchases::{purchases, sized_setting};
pub use self::splits::splits;
use self::value::{Object, Value};
use super::views::ResultMeta;
use crate::analysis::RunResult;
use crate::metrics::{Distribution, RequestRecord, SpeculationSummary, Summary};
use crate::sim::Outcome;

/// Version of the object under `plimsoll`; grows when a key changes its meaning.
pub const FORMAT_VERSION: u64 = 2;

/// Version of this program, as every object has it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Which arrays of per-request figures are written; they need records of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrays {
    /// None: standard output.
    #[default]
    None,
    /// `latencies` and `queue_times`: `--save-result`.
    Saved,
    /// All: `--save-detailed`.
    Detailed,
}

/// Writes one run as a line of JSON, without a newline at its end.
#[must_use]
pub fn run(result: &RunResult, meta: &ResultMeta, arrays: Arrays) -> String {
    let mut object = Object::default();
    identity(&mut object, result, meta);
    totals(&mut object, &result.whole);
    if let Some(records) = &result.records {
        per_request(&mut object, records, arrays);
    }
    object.put("max_output_tokens_per_s", result.whole.max_output_tokens_per_s);
    object.put("max_concurrent_requests", result.whole.max_concurrent);
    object.put("rtfx", 0.0);
    if let Some(account) = &result.speculation {
        speculation(&mut object, account);
    }
    latencies(&mut object, &result.whole, meta);
    object.put("plimsoll", plimsoll::object(result, meta));
    object.line()
}

/// What vLLM's client reads from the server's counters.
fn speculation(object: &mut Object, account: &SpeculationSummary) {
    object.put("spec_decode_acceptance_rate", 100.0 * account.acceptance_rate());
    object.put("spec_decode_acceptance_length", account.acceptance_length());
    object.put("spec_decode_num_drafts", account.verifications);
    object.put("spec_decode_draft_tokens", account.draft_tokens);
    object.put("spec_decode_accepted_tokens", account.accepted_tokens);
    object.put(
        "spec_decode_per_position_acceptance_rates",
        account.rates_by_position(),
    );
}

/// The name under which vLLM's client would save the result:
/// `{label}-{rate}qps[-concurrency{N}]-{model}-{YYYYmmdd-HHMMSS}.json`.
#[must_use]
pub fn file_name(meta: &ResultMeta) -> String {
    let label = meta.label.as_deref().unwrap_or(&meta.backend);
    let rate = match meta.ramp_up {
        Some(ramp) => {
            let strategy = strategy(ramp.exponential);
            format!("ramp-up-{strategy}-{}qps-{}qps", ramp.start_rps, ramp.end_rps)
        }
        None if meta.request_rate.is_finite() => format!("{:?}qps", meta.request_rate),
        None => "infqps".into(),
    };
    let concurrency = meta
        .max_concurrency
        .map_or(String::new(), |limit| format!("-concurrency{limit}"));
    let model = meta.asked_for.as_ref().unwrap_or(&meta.model_id);
    let model = model.trim_end_matches('/').rsplit('/').next().unwrap_or(model);
    format!("{label}-{rate}{concurrency}-{model}-{}.json", stamp(meta))
}

fn stamp(meta: &ResultMeta) -> String {
    meta.date.strftime("%Y%m%d-%H%M%S").to_string()
}

fn strategy(exponential: bool) -> &'static str {
    if exponential { "exponential" } else { "linear" }
}

fn identity(object: &mut Object, result: &RunResult, meta: &ResultMeta) {
    object.put("date", stamp(meta));
    object.put("endpoint_type", meta.backend.as_str());
    object.put("backend", meta.backend.as_str());
    object.put("label", meta.label.clone());
    let asked_for = meta.asked_for.as_ref().unwrap_or(&meta.model_id);
    object.put("model_id", asked_for.as_str());
    object.put("tokenizer_id", meta.model_id.as_str());
    object.put("num_prompts", meta.num_prompts.unwrap_or(result.whole.sent));
    for (key, value) in &meta.metadata {
        object.put(key, value.as_str());
    }
    let rate = if meta.request_rate.is_finite() {
        meta.request_rate.into()
    } else {
        Value::from("inf")
    };
    object.put("request_rate", rate);
    object.put("burstiness", meta.burstiness);
    object.put("max_concurrency", meta.max_concurrency);
    if let Some(ramp) = meta.ramp_up {
        object.put("ramp_up_strategy", strategy(ramp.exponential));
        object.put("ramp_up_start_rps", ramp.start_rps);
        object.put("ramp_up_end_rps", ramp.end_rps);
    }
}

fn totals(object: &mut Object, whole: &Summary) {
    let per_second = |number: u64| {
        if whole.duration_s > 0.0 {
            number as f64 / whole.duration_s
        } else {
            0.0
        }
    };
    object.put("duration", whole.duration_s);
    object.put("completed", whole.completed);
    object.put("failed", whole.lost());
    object.put("total_input_tokens", whole.input_tokens);
    object.put("total_output_tokens", whole.output_tokens);
    object.put("request_throughput", per_second(whole.completed));
    object.put("request_goodput", whole.good.map(per_second));
    object.put("output_throughput", per_second(whole.output_tokens));
    object.put(
        "total_token_throughput",
        per_second(whole.input_tokens + whole.output_tokens),
    );
}

/// Arrays in order of sending; a request that failed has no first token and counts no output.
fn per_request(object: &mut Object, records: &[RequestRecord], arrays: Arrays) {
    let mut ordered: Vec<&RequestRecord> = records.iter().collect();
    ordered.sort_by_key(|record| record.completion.id);
    let of = |figure: fn(&RequestRecord) -> Value| {
        Value::List(ordered.iter().map(|record| figure(record)).collect())
    };
    let detailed = arrays == Arrays::Detailed;
    if detailed {
        object.put("input_lens", of(|record| record.completion.prompt_tokens.into()));
        object.put("output_lens", of(|record| record.completion.output_tokens.into()));
        object.put("ttfts", of(|record| ttft_s(record).unwrap_or(0.0).into()));
        object.put("itls", of(|record| record.itls_s.clone().into()));
    }
    if arrays != Arrays::None {
        object.put(
            "latencies",
            of(|record| {
                (record.completion.end - record.completion.arrival)
                    .seconds()
                    .into()
            }),
        );
    }
    if detailed {
        object.put(
            "start_times",
            of(|record| record.completion.arrival.seconds().into()),
        );
    }
    if arrays != Arrays::None {
        object.put(
            "queue_times",
            of(|record| record.completion.client_queue_time.seconds().into()),
        );
    }
    if detailed {
        object.put("generated_texts", of(|_| "".into()));
        object.put("errors", of(|record| error(record.completion.outcome).into()));
    }
}

/// Send to first token, in seconds.
pub(crate) fn ttft_s(record: &RequestRecord) -> Option<f64> {
    record
        .completion
        .first_token
        .map(|first_token| (first_token - record.completion.arrival).seconds())
}

fn error(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "",
        Outcome::TimedOut => "timed out",
        Outcome::Rejected => "503 Service Unavailable",
        Outcome::Failed => "replica failed",
    }
}

fn latencies(object: &mut Object, whole: &Summary, meta: &ResultMeta) {
    for (name, distribution) in [
        ("ttft", &whole.ttft),
        ("tpot", &whole.tpot),
        ("itl", &whole.itl),
        ("e2el", &whole.e2el),
    ] {
        if meta.metrics.iter().any(|metric| metric == name) {
            distribution_ms(object, name, distribution, &meta.percentiles, Some(0.0));
        }
    }
    if meta.max_concurrency.is_some() {
        distribution_ms(
            object,
            "client_queue_time",
            &whole.client_queue_time,
            &meta.percentiles,
            Some(0.0),
        );
    }
}

/// Mean, median, deviation and percentiles in milliseconds; `empty` stands for what an empty distribution lacks.
fn distribution_ms(
    object: &mut Object,
    name: &str,
    of: &Distribution,
    percentiles: &[f64],
    empty: Option<f64>,
) {
    let mut put = |statistic: String, seconds: Option<f64>| {
        object.put(
            &format!("{statistic}_{name}_ms"),
            seconds.map(|seconds| seconds * 1e3).or(empty),
        );
    };
    put("mean".into(), of.mean_s());
    let quantiles = of.quantiles();
    put("median".into(), quantiles.at_s(0.5));
    put("std".into(), of.std_s());
    for percentile in percentiles {
        put(format!("p{percentile}"), quantiles.at_s(percentile / 100.0));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value as Parsed};

    use super::super::fixtures;
    use super::super::views::{PoolMeta, RampUp};
    use super::*;

    /// Keys of `vllm bench serve --save-result` in its order (without `mean_e2el_ms` and its like, which that client
    /// writes when asked), and what type each value has.
    const CLIENT_KEYS: &str = "date:string endpoint_type:string backend:string label:null model_id:string \
        tokenizer_id:string num_prompts:integer request_rate:float burstiness:float max_concurrency:null \
        duration:float completed:integer failed:integer total_input_tokens:integer total_output_tokens:integer \
        request_throughput:float request_goodput:float output_throughput:float total_token_throughput:float \
        max_output_tokens_per_s:float max_concurrent_requests:integer rtfx:float \
        mean_ttft_ms:float median_ttft_ms:float std_ttft_ms:float p99_ttft_ms:float \
        mean_tpot_ms:float median_tpot_ms:float std_tpot_ms:float p99_tpot_ms:float \
        mean_itl_ms:float median_itl_ms:float std_itl_ms:float p99_itl_ms:float \
        mean_e2el_ms:float median_e2el_ms:float std_e2el_ms:float p99_e2el_ms:float plimsoll:object";

    fn kind(value: &Parsed) -> &'static str {
        match value {
            Parsed::Null => "null",
            Parsed::Bool(_) => "bool",
            Parsed::Number(number) if number.is_f64() => "float",
            Parsed::Number(_) => "integer",
            Parsed::String(_) => "string",
            Parsed::Array(_) => "array",
            Parsed::Object(_) => "object",
        }
    }

    fn parsed(line: &str) -> Map<String, Parsed> {
        serde_json::from_str(line).unwrap()
    }

    /// Top-level keys in the order of writing: the first place where `"key": ` stands.
    fn keys(line: &str) -> Vec<String> {
        let mut keys: Vec<String> = parsed(line).keys().cloned().collect();
        keys.sort_by_key(|key| line.find(&format!("\"{key}\": ")).unwrap());
        keys
    }

    #[test]
    fn keys_types_and_order_are_the_clients() {
        let line = run(&fixtures::stable_run(), &fixtures::meta(), Arrays::None);
        let object = parsed(&line);
        let found: Vec<String> = keys(&line)
            .iter()
            .map(|key| format!("{key}:{}", kind(&object[key.as_str()])))
            .collect();
        assert_eq!(found.join(" "), CLIENT_KEYS);
        assert!(!line.contains('\n'));
    }

    #[test]
    fn metadata_stands_before_the_rate_and_infinity_is_a_string() {
        let mut meta = fixtures::meta();
        meta.metadata = vec![("cluster".into(), "blue".into())];
        (meta.request_rate, meta.max_concurrency, meta.num_prompts) = (f64::INFINITY, Some(64), Some(500));
        meta.percentiles = vec![50.0, 99.9];
        let line = run(&fixtures::stable_run(), &meta, Arrays::None);
        assert!(
            line.contains(
                r#""num_prompts": 500, "cluster": "blue", "request_rate": "inf", "burstiness": 1.0"#
            ),
            "{line}"
        );
        let object = parsed(&line);
        for key in [
            "p50_ttft_ms",
            "p99.9_itl_ms",
            "mean_client_queue_time_ms",
            "p99.9_client_queue_time_ms",
        ] {
            assert!(object.contains_key(key), "{key}");
        }
        assert!(!object.contains_key("p99_ttft_ms"));
    }

    #[test]
    fn nothing_completed_gives_the_clients_zeros() {
        let mut meta = fixtures::meta();
        meta.goodput.clear();
        let object = parsed(&run(&fixtures::failed_run(), &meta, Arrays::None));
        assert_eq!(
            (object["completed"].as_u64(), object["failed"].as_u64()),
            (Some(0), Some(8))
        );
        for (key, value) in object
            .iter()
            .filter(|(key, _)| key.ends_with("_ms") || key.ends_with("_throughput"))
        {
            assert_eq!(value.as_f64(), Some(0.0), "{key}");
        }
        assert!(object["request_goodput"].is_null());
    }

    #[test]
    fn intervals_stand_in_the_units_of_their_figures() {
        let object = parsed(&run(&fixtures::stable_run(), &fixtures::meta(), Arrays::None));
        let intervals = &object["plimsoll"]["intervals_95"];
        let is = |name: &str, ends: [f64; 2]| {
            let known = intervals[name].as_array().unwrap().iter();
            let apart = known.zip(ends).map(|(end, own)| end.as_f64().unwrap() - own);
            assert!(
                apart.fold(0.0, |most: f64, apart| most.max(apart.abs())) < 1e-9,
                "{intervals}"
            );
        };
        is("mean_ttft_ms", [37.7, 38.7]);
        is("p99_ttft_ms", [81.0, 95.0]);
        assert_eq!(intervals["attainment"].to_string(), "[0.996,0.998]");
        assert_eq!(object["plimsoll"]["verdict"], "stable");
    }

    #[test]
    fn arrays_are_in_order_of_sending_and_only_where_asked_for() {
        let result = fixtures::recorded_run();
        let detailed = parsed(&run(&result, &fixtures::meta(), Arrays::Detailed));
        assert_eq!(detailed["ttfts"].to_string(), "[0.05,0.0]");
        assert_eq!(detailed["latencies"].to_string(), "[0.075,1.0]");
        assert_eq!(detailed["itls"].to_string(), "[[0.0125,0.0125],[]]");
        assert_eq!(detailed["start_times"].to_string(), "[0.25,0.5]");
        assert_eq!(detailed["errors"].to_string(), r#"["","timed out"]"#);
        assert_eq!(detailed["output_lens"].to_string(), "[3,0]");
        let saved = keys(&run(&result, &fixtures::meta(), Arrays::Saved));
        let around: Vec<&str> = saved.iter().map(String::as_str).skip(18).take(4).collect();
        assert_eq!(
            around,
            [
                "total_token_throughput",
                "latencies",
                "queue_times",
                "max_output_tokens_per_s"
            ]
        );
        assert!(!run(&result, &fixtures::meta(), Arrays::None).contains("latencies"));
    }

    #[test]
    fn what_pools_differ_in_is_no_property_of_the_scenario() {
        let pool = |name: &str, gpu: &str, gpus_per_replica| PoolMeta {
            name: name.into(),
            replicas: 2,
            gpus_per_replica,
            gpu: gpu.into(),
            model_id: "m".into(),
            engine: "vllm@0.33".into(),
            calibration: "c".into(),
            ..PoolMeta::default()
        };
        let scenario = |pools: Vec<PoolMeta>| {
            let meta = ResultMeta {
                replicas: 4,
                pools,
                ..fixtures::meta()
            };
            let text = run(&fixtures::stable_run(), &meta, Arrays::None);
            parsed(&text)["plimsoll"]["scenario"].clone()
        };
        let unlike = scenario(vec![pool("a", "H100-SXM-80GB", 1), pool("b", "MI300X-192GB", 2)]);
        assert!(
            unlike.get("gpu").is_none() && unlike.get("gpus_per_replica").is_none(),
            "{unlike}"
        );
        assert_eq!(
            (&unlike["gpus"], &unlike["engine"]),
            (&6.into(), &"vllm@0.33".into())
        );
        let alike = scenario(vec![pool("a", "H100-SXM-80GB", 1), pool("b", "H100-SXM-80GB", 1)]);
        assert_eq!(
            (&alike["gpu"], &alike["gpus"]),
            (&"H100-SXM-80GB".into(), &4.into())
        );
    }

    #[test]
    fn file_names_are_the_clients() {
        let mut meta = fixtures::meta();
        assert_eq!(
            file_name(&meta),
            "plimsoll-10.0qps-Llama-3.1-8B-Instruct-20260816-160853.json"
        );
        (meta.label, meta.request_rate, meta.max_concurrency) = (Some("a".into()), f64::INFINITY, Some(8));
        assert_eq!(
            file_name(&meta),
            "a-infqps-concurrency8-Llama-3.1-8B-Instruct-20260816-160853.json"
        );
        meta.ramp_up = Some(RampUp {
            exponential: false,
            start_rps: 1.0,
            end_rps: 20.0,
        });
        assert!(file_name(&meta).starts_with("a-ramp-up-linear-1qps-20qps-concurrency8-"));
    }

    /// Every key of a genuine result is written, with a value of the same type (or null on either side).
    #[test]
    fn a_genuine_result_has_no_key_that_is_not_written() {
        let Some(folder) = crate::results::published::data("genuine results are not compared") else {
            return;
        };
        let mut meta = fixtures::meta();
        (meta.request_rate, meta.max_concurrency) = (f64::INFINITY, Some(2));
        meta.goodput.clear();
        let ours = parsed(&run(&fixtures::stable_run(), &meta, Arrays::None));
        for name in [
            "vllm_bench_serve_save_result_v0.25.1.json",
            "vllm_bench_serve_all_failed_v0.25.1.json",
        ] {
            let path = folder.join("formats").join(name);
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            for (key, value) in parsed(&text) {
                let mine = kind(
                    ours.get(&key)
                        .unwrap_or_else(|| panic!("{name}: {key} is not written")),
                );
                let theirs = kind(&value);
                assert!(
                    mine == theirs || [mine, theirs].contains(&"null"),
                    "{name}: {key} is {theirs}, not {mine}"
                );
            }
        }
    }
}
