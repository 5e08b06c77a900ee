//! Published traces through the whole simulator, where the data folder is at hand (`PLIMSOLL_DATA`): at their own rate,
//! at half and at twice of it, nothing is lost and Little's law holds, overload included.

use std::path::PathBuf;

use plimsoll::analysis::{Experiment, Outcome, Precision, simulate};
use plimsoll::config::{Document, Files, NoFiles, resolve};
use plimsoll::metrics::{LittleCheck, Records, SloLimits};
use plimsoll::workload::trace::{self, ReadOptions};

/// Factors on arrival times.
const TIME_SCALES: [f64; 3] = [2.0, 1.0, 0.5];

/// Files of the data folder.
struct Data(PathBuf);

impl Files for Data {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        std::fs::read(self.0.join("traces").join(path)).map_err(|error| format!("{path}: {error}"))
    }
}

fn tell(line: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes()).unwrap();
}

fn data() -> Option<Data> {
    let folder = std::env::var_os("PLIMSOLL_DATA").map(|folder| Data(folder.into()));
    if folder.is_none() {
        tell("PLIMSOLL_DATA is not set: the published traces are not replayed");
    }
    folder
}

fn replay(data: &Data, path: &str, time_scale: f64) -> Outcome {
    let text = format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n\
         [workload.arrivals.trace]\npath = \"{path}\"\ntime_scale = {time_scale:?}\n"
    );
    let document = Document::parse("replay.toml", &text).unwrap();
    let resolved = resolve(document, data).unwrap_or_else(|problems| panic!("{path}: {problems:?}"));
    let experiment = Experiment {
        slo: SloLimits::default(),
        records: Records::None,
        precision: Precision::default(),
        stops_when_precise: false,
        bad_max: None,
        sent_max: None,
        overloaded_min: 0,
        is_judged: true,
    };
    simulate(&resolved.scenario, &experiment, |_| true)
}

fn assert_little(name: &str, check: &LittleCheck) {
    let expected = check.lambda * check.w;
    let error = (check.l - expected).abs() / expected.max(1e-9);
    assert!(error < 1e-6, "{name}: L = {}, λW = {expected}", check.l);
}

/// Replays `path` at all rates and returns the median TTFT of each, in seconds.
fn check(path: &str, requests: u64) -> Option<Vec<f64>> {
    let data = data()?;
    let medians = TIME_SCALES.iter().map(|&time_scale| {
        let outcome = replay(&data, path, time_scale);
        let (result, whole) = (&outcome.result, &outcome.result.whole);
        assert_eq!(result.violations, Vec::<String>::new(), "{path}");
        assert_eq!((outcome.counts.sent, outcome.counts.ended), (requests, requests), "{path}");
        assert_eq!(whole.completed + whole.rejected + whole.timed_out, requests, "{path}");
        assert_little("system", &result.little.system);
        assert_little("waiting", &result.little.waiting);
        assert_little("running", &result.little.running);
        let ms = |p| 1e3 * whole.ttft.quantile_s(p).unwrap();
        tell(&format!(
            "{path} x{}: {:?}, TTFT p50 {:.1} p99 {:.1} ms, {:.2} req/s, {:.0} output tok/s, {:.1} % of prompt tokens cached, {} preemptions",
            1.0 / time_scale,
            result.verdict,
            ms(0.5),
            ms(0.99),
            whole.completed as f64 / whole.duration_s,
            whole.output_tokens as f64 / whole.duration_s,
            100.0 * whole.cache_hit_tokens as f64 / whole.cache_queries_tokens.max(1) as f64,
            whole.preemptions
        ));
        ms(0.5) / 1e3
    });
    Some(medians.collect())
}

/// The same requests closer together never wait less in the median.
fn assert_load_is_felt(medians: Option<Vec<f64>>) {
    for pair in medians.iter().flat_map(|medians| medians.windows(2)) {
        assert!(pair[1] >= 0.98 * pair[0], "{medians:?}");
    }
}

#[test]
fn azure_conversations() {
    assert_load_is_felt(check("AzureLLMInferenceTrace_conv.csv", 19_366));
}

#[test]
fn azure_code() {
    assert_load_is_felt(check("AzureLLMInferenceTrace_code.csv", 8_819));
}

/// The bursts of this trace last for seconds, and the largest of them makes the tail.
#[test]
fn a_fitted_workload_keeps_the_latency_of_bursts() {
    let Some(data) = data() else { return };
    let path = "AzureLLMInferenceTrace_code.csv";
    let trace = replay(&data, path, 1.0);
    let twin = run_workload(
        &std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/scenarios/workloads/azure-code-2023.toml"
        ))
        .unwrap(),
        8_819,
    );
    let p99 = |outcome: &Outcome| outcome.result.whole.ttft.quantile_s(0.99).unwrap();
    let (trace, twin) = (p99(&trace), p99(&twin));
    tell(&format!("{path}: TTFT p99 {trace:.2} s, of its twin {twin:.2} s"));
    // Before the rate curve followed bursts the twin had a fifth.
    assert!((twin / trace).ln().abs() < 0.25, "{trace} s, twin {twin} s");
}

#[test]
fn mooncake_conversations_with_their_shared_prefixes() {
    assert_load_is_felt(check("mooncake_conversation_trace.jsonl", 12_031));
}

#[test]
fn an_hour_of_servegen_clients() {
    assert_load_is_felt(check("servegen/servegen_multimodal_mm-image.tar.gz", 45_952));
}

/// Whole-run figures of a scenario's `[workload]` on one H100.
fn run_workload(workload: &str, requests: u32) -> Outcome {
    let text = format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n\
         [workload]\nnum_prompts = {requests}\n{workload}"
    );
    let resolved = resolve(Document::parse("twin.toml", &text).unwrap(), &NoFiles).unwrap();
    let experiment = Experiment {
        slo: SloLimits::default(),
        records: Records::None,
        precision: Precision::default(),
        stops_when_precise: false,
        bad_max: None,
        sent_max: None,
        overloaded_min: 0,
        is_judged: true,
    };
    simulate(&resolved.scenario, &experiment, |_| true)
}

fn hit_share(outcome: &Outcome) -> f64 {
    let whole = &outcome.result.whole;
    whole.cache_hit_tokens as f64 / whole.cache_queries_tokens as f64
}

#[test]
fn a_fitted_workload_keeps_lengths_and_what_caches_find() {
    let Some(data) = data() else { return };
    let path = "mooncake_conversation_trace.jsonl";
    let bytes = data.read(path).unwrap();
    let trace = trace::read(&bytes, path, &ReadOptions::default()).unwrap();
    let fitted = trace::fit(&trace, &plimsoll::analysis::hit_rates).unwrap();
    let (own, twin) = (&fitted.source, &fitted.twin);
    let lengths = [
        (own.input.mean, twin.input.mean),
        (own.input.p50, twin.input.p50),
        (own.input.p90, twin.input.p90),
        (own.input.p99, twin.input.p99),
    ];
    let endless = (own.prefix.unwrap().tokens, twin.prefix.unwrap().tokens);
    // A cache of 27,000 blocks: what is repeated late is gone by then.
    let finite = (
        hit_share(&replay(&data, path, 1.0)),
        hit_share(&run_workload(&fitted.toml(path, None), 12_031)),
    );
    tell(&format!(
        "{:?}\n{lengths:?}\nendless {endless:?}, finite {finite:?}",
        fitted.prefix
    ));
    assert!(
        lengths.iter().all(|(own, twin)| (twin / own - 1.0).abs() < 0.02),
        "{lengths:?}"
    );
    assert!((endless.0 - endless.1).abs() < 0.02, "{endless:?}");
    assert!((finite.0 - finite.1).abs() < 0.02, "{finite:?}");
}
