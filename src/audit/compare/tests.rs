//! Each pattern of moves has its cause, and equal results have none.

use super::*;
use crate::results::{Load, Stats, Tool};
use crate::stats::Interval;

/// A latency of this mean, median, 99th percentile and standard deviation, s.
pub(super) fn stats(mean: f64, median: f64, p99: f64, std: f64) -> Stats {
    Stats {
        mean: Some(mean),
        median: Some(median),
        std: Some(std),
        percentiles: vec![(99.0, p99)],
        ..Stats::default()
    }
}

pub(super) fn run() -> Measured {
    let mut row = Measured::new(Tool::VllmBench, "");
    row.setup.load = Load::Open { rate: 10.0 };
    (row.setup.input_tokens, row.setup.output_tokens) = (Some(512.0), Some(128.0));
    row.outcome.completed = Some(2000);
    row.outcome.request_throughput = Some(9.9);
    row.outcome.output_throughput = Some(1267.0);
    row.ttft = stats(0.040, 0.036, 0.090, 0.015);
    row.tpot = stats(0.0081, 0.0080, 0.0098, 0.0006);
    row.itl = stats(0.0081, 0.0078, 0.0150, 0.0020);
    row.e2el = stats(1.069, 1.05, 1.30, 0.09);
    row
}

#[test]
fn a_run_that_answered_nobody_is_nothing_to_compare_with() {
    let mut empty = run();
    empty.outcome.completed = Some(0);
    let compared = compare(&empty, &run());
    assert!(compared.figures.is_empty() && compared.causes.is_empty());
    assert_eq!(
        compared.nothing.as_deref(),
        Some("the first result does not have a single request that was answered")
    );
    let mut alien = Measured::new(Tool::VllmBench, "");
    alien.outcome.completed = Some(10);
    assert_eq!(
        compare(&run(), &alien).nothing.as_deref(),
        Some("no figure is in both results")
    );
    assert_eq!(compare(&run(), &run()).nothing, None);
}

fn causes_after(change: impl FnOnce(&mut Measured)) -> String {
    let mut measured = run();
    change(&mut measured);
    let kinds: Vec<&str> = compare(&run(), &measured)
        .causes
        .iter()
        .map(|cause| cause.kind)
        .collect();
    kinds.join(" ")
}

pub(super) fn moved(stats: &mut Stats, of: impl Fn(f64) -> f64) {
    (stats.mean, stats.median) = (stats.mean.map(&of), stats.median.map(&of));
    stats
        .percentiles
        .iter_mut()
        .for_each(|(_, value)| *value = of(*value));
}

/// Every step takes another time, and with them every answer.
fn steps(row: &mut Measured, of: impl Fn(f64) -> f64) {
    let step = row.tpot.mean.unwrap();
    let longer = (row.setup.output_tokens.unwrap() - 1.0) * (of(step) - step);
    moved(&mut row.itl, &of);
    moved(&mut row.tpot, &of);
    moved(&mut row.e2el, |whole| whole + longer);
}

#[test]
fn equal_results_have_no_cause() {
    assert_eq!(causes_after(|_| {}), "");
    assert!(compare(&run(), &run()).largest().is_none());
}

#[test]
fn patterns_have_their_causes() {
    assert_eq!(causes_after(|row| steps(row, |gap| gap + 0.001)), "host-overhead");
    assert_eq!(causes_after(|row| steps(row, |gap| gap * 1.2)), "bandwidth");
    assert_eq!(causes_after(|row| row.itl.percentiles = vec![(99.0, 0.03)]), "");
    assert_eq!(
        causes_after(|row| row.ttft.percentiles = vec![(99.0, 0.4)]),
        "queueing"
    );
    assert_eq!(
        causes_after(|row| moved(&mut row.ttft, |ttft| ttft + 0.012)),
        "front-end"
    );
    assert_eq!(
        causes_after(|row| moved(&mut row.ttft, |ttft| ttft * 1.5)),
        "prefill"
    );
    assert_eq!(
        causes_after(|row| row.outcome.request_throughput = Some(8.0)),
        "run-edges"
    );
    assert_eq!(causes_after(|row| moved(&mut row.ttft, |_| 1.06)), "definition");
    assert_eq!(
        causes_after(|row| moved(&mut row.itl, |gap| gap / 2.0)),
        "definition"
    );
    let longer = |row: &mut Measured| {
        row.setup.output_tokens = Some(160.0);
        moved(&mut row.e2el, |whole| whole * 1.25);
    };
    assert_eq!(causes_after(longer), "lengths");
    // Of another workload a TTFT may be as long as the predicted answer by chance.
    let another = |row: &mut Measured| {
        row.setup.output_tokens = Some(160.0);
        moved(&mut row.ttft, |_| 1.06);
    };
    assert!(!causes_after(another).contains("definition"));
    let limited = |row: &mut Measured| {
        (row.outcome.request_throughput, row.outcome.output_throughput) = (Some(5.01), Some(641.0));
        row.setup.load = Load::Open { rate: 10.0 };
    };
    assert!(causes_after(limited).starts_with("client-limit"));
}

#[test]
fn another_definition_is_told_of_either_result() {
    let told = |change: &dyn Fn(&mut Measured)| {
        let mut odd = run();
        change(&mut odd);
        let causes = compare(&odd, &run()).causes;
        let kinds: Vec<&str> = causes.iter().map(|cause| cause.kind).collect();
        assert_eq!(kinds, ["definition"]);
        causes[0].words.clone()
    };
    assert_eq!(
        told(&|row| moved(&mut row.itl, |gap| gap / 2.0)),
        "the first result's itl is half of its own tpot: empty chunks are counted beside every token"
    );
    let ttft = told(&|row| moved(&mut row.ttft, |_| 1.06));
    assert!(
        ttft.starts_with("the first result's ttft 1.06 s is the second result's e2el"),
        "{ttft}"
    );
    // Both count empty chunks, so something else moved.
    let mut both = [run(), run()];
    both.iter_mut()
        .for_each(|row| moved(&mut row.itl, |gap| gap / 2.0));
    moved(&mut both[1].ttft, |ttft| ttft * 1.5);
    let kinds: Vec<&str> = compare(&both[0], &both[1])
        .causes
        .iter()
        .map(|cause| cause.kind)
        .collect();
    assert_eq!(kinds, ["prefill"]);
}

#[test]
fn a_full_limit_is_no_overload() {
    let remark = |limit: Option<u64>| {
        let mut row = run();
        row.setup.load = Load::Open { rate: 60.0 };
        row.setup.max_concurrency = limit;
        row.own = Some(crate::results::Own {
            verdict: "unstable".into(),
            ..crate::results::Own::default()
        });
        compare(&row, &run()).remarks[0].clone()
    };
    // 9.9/s × 1.07 s are 10.6 in flight.
    assert!(remark(Some(11)).starts_with("the first result is a closed loop of 11"));
    for limit in [None, Some(100)] {
        assert_eq!(
            remark(limit),
            "the first result is overloaded: its latencies measure how long it ran"
        );
    }
}

#[test]
fn answers_that_leave_whole_are_no_slow_prefill() {
    let whole = |row: &mut Measured| {
        moved(&mut row.e2el, |whole| 4.0 * whole);
        row.ttft = row.e2el.clone();
        (row.tpot, row.itl) = (Stats::default(), Stats::default());
    };
    assert_eq!(causes_after(whole), "not-streamed");
}

#[test]
fn chance_is_told_from_a_move() {
    let mut measured = run();
    moved(&mut measured.ttft, |ttft| ttft * 1.015);
    let comparison = compare(&run(), &measured);
    let mean = comparison.figure("mean ttft").unwrap();
    // Times per token vary by 7.4 %, which the 10.6 inside share: N·v = 0.058, s = 0.21, and 202 s see it 149 times anew.
    // 1.96 · √2 · √((0.375² − 0.074²) / 2000 + 0.074² / 149).
    let noise = mean.noise.unwrap();
    assert!((noise - 0.0282).abs() < 2e-4, "{noise}");
    assert!(!mean.is_real());
    let rate = comparison.figure("request throughput").unwrap();
    assert!((rate.noise.unwrap() - 1.96 * (2.0f64 / 2000.0).sqrt()).abs() < 1e-3);
}

#[test]
fn requests_that_share_a_batch_are_not_independent() {
    // 100 inside and a square of 0.074² make N·v = 0.55, s = 0.51: 202 s see a stay of 10 s 9.9 times anew, and
    // 0.074 · 1.96 · √(2 / 9.9) is 6.5 %, not 0.5 % by 2,000 requests.
    let long = |mut row: Measured| {
        (row.e2el.mean, row.e2el.std) = (Some(10.0), Some(2.0));
        row
    };
    let (one, mut other) = (long(run()), long(run()));
    moved(&mut other.tpot, |tpot| tpot * 1.04);
    let tpot = compare(&one, &other).figure("mean tpot").unwrap().clone();
    assert!((tpot.noise.unwrap() - 0.064).abs() < 0.002, "{:?}", tpot.noise);
    assert!(!tpot.is_real());
    // A result that judged itself is believed, and the other is taken as uncertain as it is.
    let mut judged = one.clone();
    judged.own = Some(crate::results::Own {
        verdict: "too_short".into(),
        seed: None,
        intervals: vec![
            ("mean_tpot_ms".into(), Interval::between(7.3, 8.92)),
            ("p99_ttft_ms".into(), Interval::between(81.0, 99.0)),
        ],
        ..crate::results::Own::default()
    });
    let compared = compare(&judged, &judged);
    let noise = |name: &str| compared.figure(name).unwrap().noise.unwrap();
    assert!((noise("mean tpot") - 2f64.sqrt() * 0.1).abs() < 1e-9);
    assert!((noise("p99 ttft") - 2f64.sqrt() * 0.1).abs() < 1e-9);
    assert!(
        compared.remarks[0].contains("first result is too short"),
        "{:?}",
        compared.remarks
    );
    assert!(compared.remarks.last().unwrap().contains("own 95 % intervals"));
    // A whole run that is not what its steady stretch was has the chance of its ends, too.
    let mut apart = judged.clone();
    moved(&mut apart.ttft, |ttft| 2.0 * ttft);
    apart.ttft.std = Some(0.3);
    let tail = compare(&apart, &apart).figure("p99 ttft").unwrap().noise.unwrap();
    assert!(tail > 2.0 * noise("p99 ttft"), "{tail}");
    // Of the same requests nothing moves by the chance of arrivals.
    judged.own.as_mut().unwrap().seed = Some(3);
    let compared = compare(&judged, &judged);
    assert!(compared.figures.iter().all(|figure| figure.noise.is_none()));
    assert!(compared.remarks.last().unwrap().contains("requests of one seed"));
}

#[test]
fn requests_in_batches_of_time_tell_a_drift_from_a_deviation() {
    use crate::results::RequestTimes;
    // Every other stretch of 50 s has steps twice as long: 1,000 values, but ten stretches.
    let requests = (0..1000).map(|index| {
        let start = index as f64 * 0.5;
        let step = if ((start / 50.0) as u64).is_multiple_of(2) {
            0.01
        } else {
            0.02
        };
        RequestTimes {
            start_s: Some(start),
            ttft_s: 0.05,
            e2el_s: Some(0.05 + 99.0 * step),
            output_tokens: 100.0,
            ..RequestTimes::default()
        }
    });
    let mut row = Measured::new(Tool::VllmBench, "");
    row.requests = requests.collect();
    let tpots: Vec<f64> = row.requests.iter().filter_map(RequestTimes::tpot_s).collect();
    row.tpot = Stats::of(&tpots, &[99.0]);
    let noise = compare(&row, &row).figure("mean tpot").unwrap().noise.unwrap();
    assert!(noise > 0.2, "a deviation over √1000 would be 3 %: {noise}");
}

#[test]
fn a_course_of_the_load_is_no_chance() {
    use crate::results::RequestTimes;
    // 20 stretches of 50 s: the rate climbs from 1 to 20 and steps with it, each stretch with a small chance of its own.
    let row = |is_changing: bool| {
        let requests = (0..20u32).flat_map(|stretch| {
            let count = if is_changing { 50 * (stretch + 1) } else { 500 };
            let step = 0.01 + 0.001 * f64::from(stretch) + 0.0002 * f64::from(stretch * 7 % 3);
            (0..count).map(move |index| RequestTimes {
                start_s: Some(50.0 * (f64::from(stretch) + f64::from(index) / f64::from(count))),
                ttft_s: 0.05,
                e2el_s: Some(0.05 + 99.0 * step),
                output_tokens: 100.0,
                ..RequestTimes::default()
            })
        });
        let mut row = Measured::new(Tool::VllmBench, "");
        row.requests = requests.collect();
        row.setup.load = Load::Open { rate: 10.5 };
        let tpots: Vec<f64> = row.requests.iter().filter_map(RequestTimes::tpot_s).collect();
        row.tpot = Stats::of(&tpots, &[90.0]);
        row
    };
    let compared = |is_changing: bool| compare(&row(is_changing), &row(is_changing));
    let noise = |compared: &Comparison| compared.figure("mean tpot").unwrap().noise.unwrap();
    let (given, wandering) = (compared(true), compared(false));
    assert!(noise(&given) < 0.15, "{}", noise(&given));
    assert!(given.remarks.last().unwrap().contains("load taken as given"));
    // Steps that wander by themselves under an even load are the system's memory.
    assert!(noise(&wandering) > 0.5, "{}", noise(&wandering));
    assert!(wandering.remarks.last().unwrap().ends_with("batches of time"));
}

#[test]
fn what_the_files_say_of_themselves_comes_before_any_pattern() {
    let of = |model: &str, gpu: &str, factor: f64| {
        let mut row = run();
        (row.setup.model, row.setup.gpu) = (Some(model.to_owned()), Some(gpu.to_owned()));
        steps(&mut row, |gap| gap * factor);
        row
    };
    let told = |one: &Measured, other: &Measured| {
        let causes = compare(one, other).causes;
        let kinds: Vec<&str> = causes.iter().map(|cause| cause.kind).collect();
        (
            kinds.join(" "),
            causes.first().map_or(String::new(), |cause| cause.words.clone()),
        )
    };
    let llama = "meta-llama/Llama-3.1-8B-Instruct";
    let (kinds, words) = told(&of(llama, "h100", 1.0), &of("Qwen/Qwen3-8B", "h100", 1.2));
    assert_eq!(kinds, "setup");
    assert!(
        words.ends_with("model meta-llama/Llama-3.1-8B-Instruct against Qwen/Qwen3-8B"),
        "{words}"
    );
    let (kinds, words) = told(&of(llama, "H100-SXM-80GB", 1.0), &of(llama, "L40S", 1.2));
    assert_eq!(kinds, "setup");
    assert!(words.ends_with("GPU H100-SXM-80GB against L40S"), "{words}");
    // One thing under two names, or a name that may be anything, is no difference.
    let (kinds, _) = told(
        &of(llama, "H100-SXM-80GB", 1.0),
        &of("/models/llama-3.1-8b-instruct/", "h100", 1.2),
    );
    assert_eq!(kinds, "bandwidth");
    let (kinds, _) = told(&of(llama, "h100", 1.0), &of("chat", "a card of ours", 1.2));
    assert_eq!(kinds, "bandwidth");
    // Neither does a length that the server may be asked for, nor do two names of which nothing is known.
    let pairs = [("meta-llama/Meta-Llama-3-8B", llama), ("acme/bot-8b", "acme-bot")];
    for (one, other) in pairs {
        let (kinds, words) = told(&of(one, "h100", 1.0), &of(other, "h100", 1.2));
        assert_eq!(kinds, "bandwidth", "{words}");
    }
    let (kinds, _) = told(&of("acme/bot-8b", "h100", 1.0), &of("acme/bot-70b", "h100", 1.2));
    assert_eq!(kinds, "setup");
    // Another engine is said, and what its steps look like, too.
    let mut other = of(llama, "h100", 1.2);
    (other.setup.engine, other.setup.n_gpus) = (Some("sglang".into()), None);
    let mut one = of(llama, "h100", 1.0);
    one.setup.engine = Some("vllm".into());
    assert_eq!(told(&one, &other).0, "setup bandwidth");
    // What differs is said where something moved.
    assert_eq!(
        told(&of(llama, "h100", 1.0), &of("Qwen/Qwen3-8B", "h100", 1.0)).0,
        ""
    );
}

#[test]
fn formats_and_versions_are_read_and_not_spelt() {
    let told = |change: &dyn Fn(&mut crate::results::Setup, usize)| {
        let rows = [0, 1].map(|index| {
            let mut row = run();
            change(&mut row.setup, index);
            row
        });
        let [one, mut other] = rows;
        steps(&mut other, |gap| gap * 1.2);
        let causes = compare(&one, &other).causes;
        causes[0].kind == "setup"
    };
    for (one, other, is_told) in [
        ("fp8", "fp8_e4m3", false),
        ("fp8", "torch.float8_e4m3fn", false),
        ("half", "float16", false),
        ("half", "fp16", false),
        ("bf16", "torch.bfloat16", false),
        ("auto", "fp8", false),
        ("INT4", "int4", false),
        ("fp8", "bf16", true),
        ("fp16", "bf16", true),
        ("fp8", "int8", true),
    ] {
        let [one, other] = [one, other].map(|name| Some(name.to_owned()));
        let names = [&one, &other];
        let cache = |setup: &mut crate::results::Setup, row: usize| {
            setup.kv_cache_dtype = names[row].clone();
        };
        assert_eq!(told(&cache), is_told, "{names:?}");
        let weights = |setup: &mut crate::results::Setup, row: usize| setup.precision = names[row].clone();
        assert_eq!(told(&weights), is_told, "{names:?}");
    }
    for (one, other, is_told) in [("0.11.0", "v0.11.0", false), ("0.11.0", "v0.12.0", true)] {
        let version = |setup: &mut crate::results::Setup, row: usize| {
            setup.engine = Some("vllm".to_owned());
            setup.engine_version = Some([one, other][row].to_owned());
        };
        assert_eq!(told(&version), is_told, "{one} {other}");
    }
}

#[test]
fn another_version_hides_no_column_that_is_another_figure() {
    let of = |version: &str| {
        let mut row = run();
        row.setup.engine = Some("vllm".to_owned());
        row.setup.engine_version = Some(version.to_owned());
        row
    };
    let mut measured = of("0.12.0");
    moved(&mut measured.ttft, |_| 1.06);
    let causes = compare(&of("0.11.0"), &measured).causes;
    let kinds: Vec<&str> = causes.iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, ["setup", "definition"]);
}

#[test]
fn rates_that_nobody_can_tell_apart_are_one_load() {
    let kinds = |rate: f64| {
        causes_after(|row| {
            row.setup.load = Load::Open { rate };
            steps(row, |gap| gap * 1.2);
        })
    };
    assert_eq!(kinds(10.00004), "bandwidth");
    assert_eq!(kinds(11.0), "load");
}

#[test]
fn other_loads_explain_themselves_and_no_step_is_blamed() {
    let clients = |clients: u64, factor: f64| {
        let mut row = run();
        row.setup.load = Load::Closed { clients };
        for stats in [&mut row.ttft, &mut row.tpot, &mut row.itl, &mut row.e2el] {
            moved(stats, |value| value * factor);
        }
        row
    };
    let compared = compare(&clients(1, 1.0), &clients(16, 1.3));
    let kinds: Vec<&str> = compared.causes.iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, ["load"]);
}

#[test]
fn a_move_is_told_with_a_cause_of_its_own() {
    let mut measured = run();
    steps(&mut measured, |gap| gap * 1.2);
    moved(&mut measured.ttft, |ttft| ttft * 2.0);
    let compared = compare(&run(), &measured);
    let kinds: Vec<&str> = compared.causes.iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, ["bandwidth", "prefill"]);
    // The first token moved most, and steps do not say why.
    let largest = compared.largest().unwrap();
    assert!(largest.name.ends_with("ttft"), "{}", largest.name);
    let of_it = compared.causes.iter().find(|cause| cause.explains(&largest.name));
    assert_eq!(of_it.map(|cause| cause.kind), Some("prefill"));
    assert!(crate::report::diffed::answer(&[compared]).contains("the first token takes 2.00 times as long"));
}

#[test]
fn a_step_that_is_longer_at_the_median_and_shorter_on_average_is_not_blamed() {
    let told = |mean: f64| {
        causes_after(|row| {
            // With its answers, but for the gaps at the median and in the tail.
            steps(row, |gap| gap * mean);
            row.itl.median = run().itl.median.map(|gap| gap * 1.1);
            row.itl.percentiles = run().itl.percentiles;
        })
    };
    assert!(told(1.1).contains("step-time"), "{}", told(1.1));
    assert!(!told(0.9).contains("step-time"), "{}", told(0.9));
}

#[test]
fn the_same_file_twice_is_the_same_measurement() {
    let twice = compare(&run(), &run());
    assert!(twice.is_same && twice.causes.is_empty());
    let text = crate::report::diffed::text(&[twice], &[]);
    assert!(
        text.starts_with("nothing moved: the two are the same measurement, no figure differs in any digit\n"),
        "{text}"
    );
    assert!(text.contains("note: the same measurement twice tells nothing of chance") && !text.contains('?'));
    let mut other = run();
    other.ttft = stats(0.041, 0.036, 0.090, 0.015);
    assert!(!compare(&run(), &other).is_same);
    // Run in another way, and nothing moved: two measurements.
    let mut other = run();
    other.setup.load = Load::Closed { clients: 10 };
    assert!(!compare(&run(), &other).is_same);
}
