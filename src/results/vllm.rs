//! `vllm bench serve --save-result`, of 2024 to 2026: one object, appended objects, a sweep's summary; and Plimsoll's
//! own superset of it.
//!
//! Definitions are the ones of this crate (vLLM 0.33 `calculate_metrics`, B-7 to B-12). Milliseconds in statistics,
//! seconds in per-request lists. Where no request was answered the client writes zeros; they are no measurements.

use super::columns::NOT_A_NUMBER;
use super::json::{Fields, plain_number};
use super::load::Load;
use super::measured::{AROUND, Measured, Miscounted, Own, RequestTimes, Setup, Stats, Tool};
use super::settings;
use crate::stats::Interval;

pub(super) fn read(fields: &Fields<'_>, place: &str) -> Measured {
    let ours = fields.value("plimsoll").is_some();
    let mut row = Measured::new(if ours { Tool::Plimsoll } else { Tool::VllmBench }, place);
    row.setup = setup(fields);
    totals(fields, &mut row);
    if row.outcome.completed == Some(0) {
        row.leave(
            "latencies",
            "no request was answered, and the client writes 0 for what it did not measure",
        );
        return row;
    }
    [row.ttft, row.tpot, row.itl, row.e2el] =
        ["ttft", "tpot", "itl", "e2el"].map(|name| fields.stats("", &format!("_{name}_ms"), 1e3));
    for key in fields.not_numbers() {
        row.leave(key, NOT_A_NUMBER);
        row.not_numbers.push(key.to_owned());
    }
    row.ttft.samples = row.outcome.completed;
    row.e2el.samples = row.outcome.completed;
    per_request(fields, &mut row);
    if let Some(judged) = fields.object("plimsoll") {
        row.own = Some(own(&judged));
        if let Some(settings) = settings::of_own(&judged) {
            row.setup.settings = settings;
        }
        row.outcome.cached_share = cached_share(&judged);
        if let Some(scenario) = judged.object("scenario") {
            simulated(&scenario, &mut row.setup);
            row.setup.is_disaggregated = Some(judged.value("disaggregation").is_some());
        }
    }
    row.complete()
}

/// What was simulated, of which the client's keys have no words or others.
fn simulated(scenario: &Fields<'_>, setup: &mut Setup) {
    let count = |key: &str| scenario.count(key).and_then(|count| u32::try_from(count).ok());
    setup.gpu = scenario.text("gpu");
    setup.precision = scenario.text("precision");
    // Under the client's name for it the model may not be known.
    setup.model = scenario.text("model").or(setup.model.take());
    let gpus = count("gpus_per_replica");
    setup.pipeline_parallel = count("pipeline_parallel_size");
    let stages = setup.pipeline_parallel.unwrap_or(1).max(1);
    setup.tensor_parallel = gpus.map(|gpus| gpus / stages);
    setup.data_parallel = count("replicas").filter(|engines| *engines > 1);
    // Results of earlier versions do not say how many there are of all replicas.
    let replicas = setup.data_parallel.unwrap_or(1);
    setup.n_gpus = count("gpus").or(gpus.and_then(|gpus| gpus.checked_mul(replicas)));
    setup.engine = scenario.text("engine");
    setup.answers_whole = setup.engine.as_deref() == Some("static");
    // One's own results name pools where there are several.
    setup.pools = count("pools").or(Some(1));
    setup.load = told_load(scenario, setup.load);
    setup.router = scenario
        .text("router")
        .filter(|router| router != "vllm_data_parallel");
}

/// How requests were sent, by what the client's keys have no words for.
fn told_load(scenario: &Fields<'_>, by_client: Load) -> Load {
    let rate = match by_client {
        Load::Open { rate } => rate,
        _ => f64::INFINITY,
    };
    if let Some(users) = scenario.count("users") {
        return Load::Users { users };
    }
    if scenario.value("turns_per_session").is_some() {
        return Load::Sessions { rate };
    }
    match (scenario.count("clients"), by_client) {
        (Some(2..), Load::Open { rate }) => Load::Mixed { rate },
        // Who of several has a limit, or thinks, the client's keys do not say.
        (Some(2..), Load::Burst) => Load::Unknown,
        _ => by_client,
    }
}

/// What its simulated caches say of themselves.
fn cached_share(judged: &Fields<'_>) -> Option<f64> {
    let whole = judged.object("whole")?;
    let asked = whole
        .number("cache_queries_tokens")
        .filter(|asked| *asked > 0.0)?;
    Some(whole.number("cache_hit_tokens")? / asked)
}

/// What Plimsoll says of its own figures.
fn own(judged: &Fields<'_>) -> Own {
    let intervals = judged.object("intervals_95");
    let interval = |(key, ends): (&String, &serde_json::Value)| {
        let [low, high] = ends.as_array()?.as_slice() else {
            return None;
        };
        Some((key.clone(), Interval::between(low.as_f64()?, high.as_f64()?)))
    };
    let model = judged.object("model_interval");
    let factors = |(key, figure): (&String, &serde_json::Value)| {
        let [low, high] = figure.get("factors_90")?.as_array()?.as_slice() else {
            return None;
        };
        Some((key.clone(), (low.as_f64()?, high.as_f64()?)))
    };
    let is_interrupted = judged.value("interrupted").and_then(serde_json::Value::as_bool) == Some(true);
    Own {
        model: model.map_or_else(Vec::new, |map| map.own().iter().filter_map(factors).collect()),
        interrupted_after: judged
            .count("interrupted_after_requests")
            .filter(|_| is_interrupted),
        verdict: judged.text("verdict").unwrap_or_default(),
        seed: judged
            .object("scenario")
            .and_then(|scenario| scenario.count("seed")),
        intervals: intervals.map_or_else(Vec::new, |map| map.own().iter().filter_map(interval).collect()),
    }
}

/// What the client was asked for. Keys with GPUs and engines are not the client's: people add them as `--metadata`.
fn setup(fields: &Fields<'_>) -> Setup {
    let max_concurrency = fields.count("max_concurrency");
    let metadata = |names: &[&str]| names.iter().find_map(|name| fields.text(name));
    Setup {
        gpu: metadata(&["gpu", "gpu_type", "accelerator"]),
        model: fields.text("model_id"),
        engine: fields.text("backend").or(fields.text("endpoint_type")),
        load: load(fields.rate("request_rate"), max_concurrency),
        burstiness: fields.number("burstiness"),
        workload: scatter(fields).unwrap_or_default(),
        max_concurrency,
        num_prompts: fields.count("num_prompts"),
        tensor_parallel: metadata(&["tensor_parallel_size", "tp"]).and_then(|text| text.parse().ok()),
        flags: flags(fields),
        settings: settings::of_client(fields),
        ..Setup::default()
    }
}

/// How random lengths were drawn, where somebody added it: within a share of their means either way.
fn scatter(fields: &Fields<'_>) -> Option<String> {
    let names = ["random_range_ratio", "range_ratio"];
    let ratio = names.iter().find_map(|name| fields.text(name))?;
    let ratio: f64 = ratio.parse().ok().filter(|ratio| *ratio > 0.0)?;
    Some(format!("random {AROUND}{ratio}"))
}

/// The label, and that a speculative decoder ran where the server's counters tell.
fn flags(fields: &Fields<'_>) -> String {
    let label = fields.text("label").unwrap_or_default();
    match fields.number("spec_decode_acceptance_length") {
        Some(length) => format!("{label} speculative acceptance_length={length}"),
        None => label,
    }
}

/// A rate without end is a burst, or a closed loop where the client limits what is in flight.
pub(super) fn load(rate: Option<f64>, max_concurrency: Option<u64>) -> Load {
    match (rate, max_concurrency) {
        (Some(rate), _) if rate.is_finite() => Load::Open { rate },
        (_, Some(clients)) => Load::Closed { clients },
        (Some(_), None) => Load::Burst,
        (None, None) => Load::Unknown,
    }
}

fn totals(fields: &Fields<'_>, row: &mut Measured) {
    let outcome = &mut row.outcome;
    outcome.completed = fields.count("completed");
    outcome.failed = fields.count("failed");
    outcome.duration_s = fields.number("duration");
    if fields.value("duration").is_none() {
        fields.problem(
            "duration",
            "is missing: seconds from the first send to the last answer",
        );
    }
    outcome.input_tokens = fields.number("total_input_tokens");
    outcome.output_tokens = fields.number("total_output_tokens");
    outcome.request_throughput = fields.number("request_throughput");
    outcome.output_throughput = fields.number("output_throughput");
    outcome.total_throughput = fields.number("total_token_throughput");
    outcome.peak_output_throughput = fields.number("max_output_tokens_per_s");
    // With a colon in files of vLLM before 0.9.
    outcome.goodput = fields
        .number("request_goodput")
        .or_else(|| fields.number("request_goodput:"));
    outcome.peak_in_flight = fields.number("max_concurrent_requests");
    outcome.client_queue_s = fields.number("mean_client_queue_time_ms").map(|wait| wait / 1e3);
    if outcome.peak_in_flight.is_some() {
        let why =
            "counts every request that touches a second, so it can exceed the limit on requests in flight";
        row.taken.push(format!("max_concurrent_requests {why}"));
    }
}

/// The lists of `--save-detailed`. They are taken where they hold every request that was answered.
fn per_request(fields: &Fields<'_>, row: &mut Measured) {
    if fields.value("ttfts").is_none() || fields.value("output_lens").is_none() {
        return;
    }
    let (Some(ttfts), Some(lengths)) = (fields.numbers("ttfts"), fields.numbers("output_lens")) else {
        return;
    };
    if let Some(wrong) = miscounted(fields, row) {
        row.leave(
            "per-request lists",
            &format!("are not as long as the run: {}", wrong.words),
        );
        row.miscounted = Some(wrong);
        return;
    }
    let optional = |key: &str| fields.value(key).and_then(|_| fields.numbers(key));
    let (inputs, starts, latencies) = (
        optional("input_lens"),
        optional("start_times"),
        optional("latencies"),
    );
    let gaps: Vec<Vec<f64>> = fields.value("itls").map_or_else(Vec::new, |_| {
        let lists = fields.list("itls").unwrap_or_default();
        let gaps = |list: &serde_json::Value| {
            list.as_array()
                .map_or(Vec::new(), |gaps| gaps.iter().filter_map(plain_number).collect())
        };
        lists.iter().map(gaps).collect()
    });
    let in_chunks = chunks_are_whole(&gaps, &lengths, row.tpot.mean);
    let at = |list: &Option<Vec<f64>>, index: usize| list.as_ref().and_then(|list| list.get(index).copied());
    let of = |(index, (ttft, length)): (usize, (&f64, &f64))| {
        let listed = gaps.get(index);
        let whole = listed.filter(|gaps| in_chunks || gaps.len() as f64 + 1.0 == *length);
        let summed = || whole.map(|gaps| ttft + gaps.iter().sum::<f64>());
        RequestTimes {
            start_s: at(&starts, index),
            ttft_s: *ttft,
            e2el_s: at(&latencies, index).or_else(summed),
            itls_s: listed.cloned().unwrap_or_default(),
            input_tokens: at(&inputs, index),
            output_tokens: *length,
            ..RequestTimes::default()
        }
    };
    let all: Vec<RequestTimes> = ttfts.iter().zip(&lengths).enumerate().map(of).collect();
    // A request that failed has neither a first token nor an answer.
    let answered: Vec<RequestTimes> = all
        .into_iter()
        .filter(|request| request.output_tokens > 0.0)
        .collect();
    if row
        .outcome
        .completed
        .is_some_and(|completed| completed != answered.len() as u64)
    {
        let why = format!(
            "hold {} of {} answered requests: a part would not be the run",
            answered.len(),
            row.outcome.completed.unwrap_or(0)
        );
        row.leave("per-request lists", &why);
        return;
    }
    take_requests(row, answered);
}

/// Lists that differ in length, or are as long as neither the answers nor the requests that were sent.
fn miscounted(fields: &Fields<'_>, row: &Measured) -> Option<Miscounted> {
    const LISTS: [&str; 6] = [
        "ttfts",
        "output_lens",
        "input_lens",
        "itls",
        "start_times",
        "latencies",
    ];
    let length = |key: &'static str| Some((key, fields.value(key)?.as_array()?.len() as u64));
    let listed = LISTS.into_iter().filter_map(length);
    let lists: Vec<(&str, u64)> = listed.filter(|(_, length)| *length > 0).collect();
    let (_, first) = *lists.first()?;
    let outcome = &row.outcome;
    let completed = outcome.completed?;
    let all = [
        Some(completed),
        Some(completed + outcome.failed.unwrap_or(0)),
        row.setup.num_prompts,
    ];
    let are_alike = lists.iter().all(|(_, length)| *length == first);
    if are_alike && all.contains(&Some(first)) {
        return None;
    }
    let told = match are_alike {
        true => format!("lists of {first}"),
        false => {
            let told: Vec<String> = lists
                .iter()
                .map(|(key, length)| format!("{length} {key}"))
                .collect();
            told.join(", ")
        }
    };
    Some(Miscounted {
        is_part: are_alike && first < completed,
        words: format!("{told} of {completed} answered requests"),
    })
}

/// Whether gaps add up to answers although some lists have fewer than the answer has tokens, since a chunk may hold
/// several: the mean TPOT that the file states tells. Lists that were cut miss it.
fn chunks_are_whole(gaps: &[Vec<f64>], lengths: &[f64], stated_tpot_s: Option<f64>) -> bool {
    const SAME: f64 = 0.01;
    let of = |(gaps, length): (&Vec<f64>, &f64)| {
        (*length > 1.0).then(|| gaps.iter().sum::<f64>() / (length - 1.0))
    };
    let tpots: Vec<f64> = gaps.iter().zip(lengths).filter_map(of).collect();
    gaps.len() == lengths.len()
        && Stats::of(&tpots, &[])
            .mean
            .zip(stated_tpot_s)
            .is_some_and(|(own, stated)| (own - stated).abs() <= SAME * stated)
}

/// Takes requests and the statistics that the file itself lacks. Of whole answers there are none where some are unknown:
/// which ones a file tells is no chance.
pub(super) fn take_requests(row: &mut Measured, requests: Vec<RequestTimes>) {
    const PERCENTS: [f64; 3] = [90.0, 95.0, 99.0];
    let fill = |stats: &mut Stats, values: Vec<f64>| {
        if stats.is_empty() {
            *stats = Stats::of(&values, &PERCENTS);
            stats.derived = Some("computed from the requests");
        }
    };
    fill(
        &mut row.ttft,
        requests.iter().map(|request| request.ttft_s).collect(),
    );
    let whole: Option<Vec<f64>> = requests.iter().map(|request| request.e2el_s).collect();
    if let Some(whole) = whole {
        fill(&mut row.e2el, whole);
        fill(
            &mut row.tpot,
            requests.iter().filter_map(RequestTimes::tpot_s).collect(),
        );
    }
    fill(
        &mut row.itl,
        requests
            .iter()
            .flat_map(|request| request.itls_s.iter().copied())
            .collect(),
    );
    row.requests = requests;
}
