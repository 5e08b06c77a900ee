//! Each law is broken once by a small row; a sound row breaks none. Laws of who was in flight: `little/tests.rs`.

use proptest::prelude::*;

use super::*;
use crate::results::{Load, Stats, Tool, read};

/// 8 clients of 512 + 128 tokens on an H100: everything agrees.
pub(super) fn sound() -> Measured {
    let mut row = Measured::new(Tool::VllmBench, "");
    row.setup.gpu = Some("H100-SXM-80GB".into());
    row.setup.model = Some("meta-llama/Llama-3.1-8B-Instruct".into());
    row.setup.load = Load::Closed { clients: 8 };
    row.setup.max_concurrency = Some(8);
    row.setup.num_prompts = Some(400);
    (row.setup.input_tokens, row.setup.output_tokens) = (Some(512.0), Some(128.0));
    row.setup.has_fixed_lengths = Some(true);
    row.outcome.completed = Some(400);
    row.outcome.failed = Some(0);
    row.outcome.duration_s = Some(50.0);
    row.outcome.output_tokens = Some(51_200.0);
    row.outcome.request_throughput = Some(8.0);
    row.outcome.output_throughput = Some(1024.0);
    row.outcome.total_throughput = Some(5120.0);
    row.ttft = Stats {
        mean: Some(0.048),
        median: Some(0.044),
        std: Some(0.015),
        percentiles: vec![(99.0, 0.095)],
        ..Stats::default()
    };
    row.tpot = Stats {
        mean: Some(0.0074),
        median: Some(0.0073),
        ..Stats::default()
    };
    row.itl = Stats {
        mean: Some(0.0074),
        median: Some(0.0072),
        ..Stats::default()
    };
    row.e2el = Stats {
        mean: Some(0.9878),
        median: Some(0.98),
        percentiles: vec![(99.0, 1.15)],
        ..Stats::default()
    };
    row
}

pub(super) fn findings(rows: &[Measured]) -> Vec<Finding> {
    audit(rows, &Known::default())
        .into_iter()
        .flat_map(|row| row.findings)
        .collect()
}

/// `impossible decode-bound, note few-samples`: what is found in rows.
pub(super) fn found(rows: &[Measured]) -> String {
    let words: Vec<String> = findings(rows)
        .iter()
        .map(|finding| format!("{} {}", finding.severity.name(), finding.check.name()))
        .collect();
    words.join(", ")
}

/// What is found in the sound row after a change.
pub(super) fn after(change: impl FnOnce(&mut Measured)) -> String {
    let mut row = sound();
    change(&mut row);
    found(&[row])
}

#[test]
fn a_model_that_is_not_the_files_is_doubted() {
    let given = |name: &str| {
        let known = Known {
            machine: Some(Machine {
                model: Some(crate::model::find(name).unwrap().0),
                ..Machine::default()
            }),
        };
        let audited = audit(&[sound()], &known);
        let doubted = |finding: &&Finding| finding.check == Check::OtherModel;
        audited[0].findings.iter().find(doubted).cloned()
    };
    assert_eq!(given("llama-3.1-8b-instruct"), None);
    let doubt = given("openai/gpt-oss-120b").unwrap();
    assert_eq!(doubt.severity, Severity::Doubtful);
    assert_eq!(
        doubt.arithmetic,
        "meta-llama/Llama-3.1-8B-Instruct in the file, openai/gpt-oss-120b given"
    );
}

#[test]
fn a_sound_result_breaks_no_law() {
    assert_eq!(after(|_| {}), "");
}

#[test]
fn counts_that_contradict_each_other_are_found() {
    assert_eq!(
        after(|row| row.outcome.duration_s = Some(60.0)),
        "impossible counts-agree"
    );
    let text = after(|row| row.outcome.output_throughput = Some(5120.0));
    assert_eq!(text, "impossible prompt-tokens-counted");
    assert!(after(|row| row.outcome.output_throughput = Some(900.0)).contains("counts-agree"));
    assert!(after(|row| row.outcome.total_throughput = Some(4000.0)).contains("counts-agree"));
    assert_eq!(
        after(|row| row.outcome.mean_in_flight = Some(5.0)),
        "doubtful counts-agree"
    );
    let failed = after(|row| (row.outcome.failed, row.setup.num_prompts) = (Some(40), Some(440)));
    assert_eq!(failed, "doubtful failures");
    assert_eq!(
        after(|row| row.outcome.completed = Some(0)).split(", ").next(),
        Some("impossible failures")
    );
}

#[test]
fn requests_that_were_not_sent_are_not_answered() {
    assert_eq!(
        after(|row| row.setup.num_prompts = Some(200)),
        "impossible counts-agree"
    );
    let failed = after(|row| row.outcome.failed = Some(1));
    assert!(failed.contains("impossible counts-agree"), "{failed}");
    // 400 at 8/s take 50 ± 2.5 s to send; at 6/s 67 ± 3.3 s, and the run took 50 s.
    let at = |rate: f64, shape: Option<f64>| {
        after(|row| {
            (row.setup.load, row.setup.max_concurrency) = (Load::Open { rate }, None);
            row.setup.burstiness = shape;
        })
    };
    assert_eq!(at(8.0, None), "");
    assert_eq!(at(7.0, None), "", "2.6 deviations");
    assert_eq!(at(5.0, None), "impossible counts-agree");
    // Gaps of shape 0.1 deviate three times as much.
    assert_eq!(at(5.0, Some(0.1)), "");
    assert_eq!(at(0.5, Some(0.1)), "impossible counts-agree");
}

#[test]
fn figures_that_are_no_numbers_are_told() {
    let text = |keys: &str| {
        let json = format!(
            r#"{{"backend": "vllm", "request_rate": 10.0, "num_prompts": 1000, "duration": 100.0, "completed": 1000,
            "failed": 0, "total_input_tokens": 512000, "total_output_tokens": 128000, "note": NaN, {keys}}}"#
        );
        found(&read(json.as_bytes(), "result.json").unwrap().rows)
    };
    assert_eq!(text(r#""mean_ttft_ms": 40.0"#), "");
    assert_eq!(text(r#""mean_ttft_ms": NaN"#), "impossible counts-agree");
    assert_eq!(
        text(r#""mean_ttft_ms": 40.0, "std_itl_ms": NaN"#),
        "doubtful counts-agree"
    );
}

#[test]
fn columns_that_are_something_else_are_found() {
    let text = after(|row| (row.ttft.mean, row.ttft.median, row.ttft.std) = (Some(0.98), Some(0.975), None));
    assert!(text.contains("impossible ttft-is-e2el"), "{text}");
    assert!(after(|row| row.ttft.percentiles = vec![(99.0, 1.2)]).contains("impossible ttft-is-e2el"));
    // No time is left after such a first token, so there are no gaps to be counted.
    let whole = after(|row| row.ttft = row.e2el.clone());
    assert!(
        whole.contains("impossible ttft-is-e2el") && !whole.contains("itl-adds-up"),
        "{whole}"
    );
    assert_eq!(
        after(|row| (row.itl.mean, row.itl.median) = (Some(0.0037), Some(0.00003))),
        "impossible itl-adds-up"
    );
    // Latency over tokens, where the first token took long enough to tell.
    let text = after(|row| {
        (row.ttft.mean, row.ttft.median, row.ttft.std, row.ttft.percentiles) =
            (Some(0.3), Some(0.3), None, vec![]);
        row.itl = Stats::default();
        (row.tpot.mean, row.tpot.median) = (Some(0.9878 / 128.0), None);
    });
    assert_eq!(text, "doubtful tpot-definition");
    let text = after(|row| (row.itl.mean, row.itl.median) = (Some(0.022), Some(0.02)));
    assert_eq!(text, "note itl-adds-up", "chunks of three tokens");
}

#[test]
fn statistics_that_no_sample_has_are_found() {
    assert_eq!(
        after(|row| row.ttft.percentiles = vec![(90.0, 0.0953), (99.0, 0.095)]),
        "impossible percentiles"
    );
    // Markov: 1 % of requests at 6 s make a mean of at least 60 ms.
    assert!(after(|row| row.ttft.percentiles = vec![(99.0, 6.0)]).contains("impossible percentiles"));
    // Cantelli: 9.95 deviations above the mean at most.
    assert!(after(|row| row.ttft.percentiles = vec![(99.0, 0.25)]).contains("impossible percentiles"));
    assert_eq!(
        after(|row| row.ttft.min = Some(0.05)),
        "impossible percentiles, impossible percentiles"
    );
    let text = after(|row| {
        (
            row.outcome.completed,
            row.outcome.duration_s,
            row.outcome.output_tokens,
        ) = (Some(40), Some(5.0), None)
    });
    assert!(
        text.contains("note few-samples") && !text.contains("impossible"),
        "{text}"
    );
}

#[test]
fn times_below_what_physics_allows_are_found() {
    // 15 GB of weights at 3.35 TB/s take 4.5 ms.
    let fast = |row: &mut Measured| {
        (row.tpot, row.itl, row.e2el) = (
            Stats {
                mean: Some(0.003),
                ..Stats::default()
            },
            Stats::default(),
            Stats::default(),
        );
        row.setup.max_concurrency = None;
        row.setup.load = Load::Unknown;
    };
    assert_eq!(after(fast), "impossible decode-bound");
    let speculates = |row: &mut Measured| {
        fast(row);
        row.setup.flags = "--speculative-config {}".into();
    };
    assert_eq!(after(speculates), "note decode-bound");
    // Two GPUs read it in half of the time; fp8 is half of it.
    assert_eq!(after(|row| (fast(row), row.setup.n_gpus = Some(2)).0), "");
    assert_eq!(
        after(|row| (fast(row), row.setup.precision = Some("fp8".into())).0),
        ""
    );
    // 512 tokens × 14 GFLOP at 989 TFLOP/s take 7.2 ms.
    let cached = |row: &mut Measured| {
        row.ttft = Stats {
            mean: Some(0.005),
            ..Stats::default()
        }
    };
    assert!(after(cached).contains("impossible prefill-bound"));
    // 5 ms of 7.2 ms: a file that tells of its cache must have found 31 % there.
    let told = |share: f64| after(|row| (cached(row), row.outcome.cached_share = Some(share)).0);
    assert_eq!(told(0.9), "note prefill-bound");
    assert!(told(0.1).contains("impossible prefill-bound"));
    let text = after(|row| {
        (row.outcome.total_throughput, row.setup.input_tokens) = (Some(80_000.0), Some(9872.0));
        row.ttft = Stats::default();
    });
    assert_eq!(text, "impossible prefill-bound");
}

#[test]
fn a_mean_lies_among_the_values_that_a_file_lists() {
    let told = |mean: f64| {
        let text = format!(
            r#"{{"avg_latency": {mean}, "latencies": [1.0, 1.02, 1.04], "percentiles": {{"50": 1.02}}}}"#
        );
        found(&read(text.as_bytes(), "latency.json").unwrap().rows)
    };
    assert_eq!(told(1.02), "");
    assert_eq!(told(3.0), "impossible percentiles");
}

#[test]
fn nothing_is_answered_in_no_time() {
    assert_eq!(
        after(|row| row.outcome.duration_s = Some(0.0)),
        "impossible counts-agree, note too-short"
    );
}

#[test]
fn rows_that_contradict_each_other_are_found() {
    let of = |clients: u64, tpot_s: f64| {
        let mut row = sound();
        (row.setup.load, row.setup.max_concurrency) = (Load::Closed { clients }, Some(clients));
        (row.setup.gpu, row.itl, row.e2el, row.ttft) =
            (None, Stats::default(), Stats::default(), Stats::default());
        row.outcome = crate::results::Outcome::default();
        row.tpot = Stats {
            mean: Some(tpot_s),
            ..Stats::default()
        };
        row
    };
    assert_eq!(found(&[of(8, 0.007), of(32, 0.010), of(128, 0.02)]), "");
    // One slow row among three: it is the one that is named.
    let rows = [of(8, 0.007), of(16, 0.020), of(32, 0.008), of(64, 0.010)];
    let audited = audit(&rows, &Known::default());
    let named: Vec<usize> = (0..4).filter(|at| audited[*at].worst().is_some()).collect();
    assert_eq!(named, [1]);
}

#[test]
fn a_peak_is_no_less_than_the_mean() {
    let with = |change: fn(&mut Measured)| {
        let mut row = sound();
        row.outcome.peak_in_flight = Some(8.0);
        row.outcome.peak_output_throughput = Some(1100.0);
        row.outcome.goodput = Some(7.9);
        change(&mut row);
        found(&[row])
    };
    assert_eq!(with(|_| ()), "");
    // 8 in flight by Little's law; 51,200 tokens in 51 whole seconds; 8 requests answered a second.
    assert_eq!(
        with(|row| row.outcome.peak_in_flight = Some(2.0)),
        "impossible counts-agree"
    );
    assert_eq!(
        with(|row| row.outcome.peak_output_throughput = Some(5.0)),
        "impossible counts-agree"
    );
    assert_eq!(
        with(|row| row.outcome.goodput = Some(1e6)),
        "impossible counts-agree"
    );
    assert_eq!(with(|row| row.outcome.goodput = Some(8.1)), "");
    // No second holds more than all 51,200 tokens, or more than all 400 requests.
    assert_eq!(
        with(|row| row.outcome.peak_output_throughput = Some(1e7)),
        "impossible counts-agree"
    );
    assert_eq!(
        with(|row| row.outcome.peak_in_flight = Some(500.0)),
        "impossible counts-agree"
    );
    // Half as many chunks as tokens, and a chunk is counted as one token; a speculative decoder emits several at once.
    let bunched = |row: &mut Measured| {
        row.itl.mean = Some(0.0148);
        row.itl.median = Some(0.0145);
        row.outcome.peak_output_throughput = Some(520.0);
    };
    assert_eq!(with(bunched), "note itl-adds-up");
    let speculating = |row: &mut Measured| {
        row.setup.flags = "speculative acceptance_length=2.4".into();
        row.outcome.peak_output_throughput = Some(430.0);
    };
    assert_eq!(with(speculating), "");
    // All within one second of three that the run touches.
    let short = |row: &mut Measured| {
        row.outcome.duration_s = Some(1.25);
        row.outcome.request_throughput = Some(320.0);
        row.outcome.output_throughput = Some(40_960.0);
        row.outcome.total_throughput = Some(204_800.0);
        row.outcome.peak_in_flight = Some(400.0);
        row.outcome.peak_output_throughput = Some(51_200.0);
    };
    assert!(!with(short).contains("counts-agree"), "{}", with(short));
}

#[test]
fn values_of_one_mean_spread_only_so_far() {
    let with = |change: fn(&mut Measured)| {
        let mut row = sound();
        change(&mut row);
        found(&[row])
    };
    // 400 values with a mean of 48 ms: one holds all, 48 ms × √399 = 959 ms.
    assert_eq!(with(|row| row.ttft.std = Some(0.95)), "");
    assert_eq!(with(|row| row.ttft.std = Some(1.0)), "impossible percentiles");
    assert_eq!(with(|row| row.tpot.std = Some(1.0)), "impossible percentiles");
    assert_eq!(with(|row| row.itl.std = Some(1.0)), "");
    assert_eq!(with(|row| row.itl.std = Some(1e6)), "impossible percentiles");
    let between = |row: &mut Measured| {
        (row.ttft.min, row.ttft.max, row.ttft.std) = (Some(0.03), Some(0.1), Some(0.05));
    };
    assert_eq!(with(between), "impossible percentiles");
    assert_eq!(with(|row| row.ttft.p50 = Some(0.044)), "");
    assert_eq!(with(|row| row.ttft.p50 = Some(0.046)), "impossible percentiles");
    assert_eq!(with(|row| row.e2el.p50 = Some(0.98)), "");
}

#[test]
fn a_first_token_after_the_last_is_told_as_that() {
    let mut row = sound();
    row.e2el = Stats {
        mean: Some(0.01),
        ..Stats::default()
    };
    let told = findings(&[row]);
    let told: Vec<&Finding> = told
        .iter()
        .filter(|finding| finding.check == Check::TtftIsE2el)
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].claim, "mean ttft is longer than mean e2el");
    assert!(
        told[0].arithmetic.starts_with("48.0 ms > 10.0 ms"),
        "{}",
        told[0].arithmetic
    );
}

proptest! {
    /// Any closed loop that obeys its own definitions, printed with two decimals.
    #[test]
    fn a_consistent_closed_loop_raises_no_alarm(
        clients in 1u64..200, waves in 10u64..60, ttft_ms in 20.0..900.0f64, tpot_ms in 5.0..60.0f64,
        input in 16.0..900.0f64, output in 16.0..900.0f64,
    ) {
        let (input, output) = (input.round(), output.round());
        let whole_s = (ttft_ms + (output - 1.0) * tpot_ms) / 1e3;
        let two = |value: f64| (value * 100.0).round() / 100.0;
        let requests = clients * waves;
        let rate = clients as f64 / whole_s;
        // The operations of the prompts must fit, else the row is not sound.
        prop_assume!(rate * (input + output) * 14e9 < 0.5 * 989e12 && ttft_ms / 1e3 > input * 14e9 / 989e12);
        let mut row = sound();
        (row.setup.load, row.setup.max_concurrency) = (Load::Closed { clients }, Some(clients));
        (row.setup.input_tokens, row.setup.output_tokens) = (Some(input), Some(output));
        (row.setup.num_prompts, row.outcome.completed) = (Some(requests), Some(requests));
        row.outcome.duration_s = Some(two(requests as f64 / rate));
        row.outcome.output_tokens = Some(requests as f64 * output);
        row.outcome.request_throughput = Some(two(rate)).filter(|rate| *rate > 0.0);
        row.outcome.output_throughput = Some(two(rate * output));
        row.outcome.total_throughput = Some(two(rate * (input + output)));
        let mean = |ms: f64| Stats { mean: Some(two(ms) / 1e3), ..Stats::default() };
        (row.ttft, row.tpot, row.itl, row.e2el) = (mean(ttft_ms), mean(tpot_ms), mean(tpot_ms), Stats::default());
        let worst = audit(&[row.clone()], &Known::default())[0].worst();
        prop_assert!(worst <= Some(Severity::Note), "{:#?}", findings(&[row]));
    }
}

#[test]
fn lists_of_the_wrong_length_and_interrupted_runs_are_told() {
    let wrong = |is_part: bool| {
        after(|row| {
            row.miscounted = Some(crate::results::Miscounted {
                is_part,
                words: "lists of 250 of 400 answered requests".into(),
            });
        })
    };
    assert_eq!(wrong(true), "note counts-agree");
    assert_eq!(wrong(false), "impossible counts-agree");
    let cut = after(|row| {
        row.own = Some(crate::results::Own {
            interrupted_after: Some(250),
            ..crate::results::Own::default()
        });
    });
    assert_eq!(cut, "note too-short");
}
