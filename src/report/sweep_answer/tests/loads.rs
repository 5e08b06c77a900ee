//! Sweeps over the traffic.

use super::*;

/// Whoever is sent least answers first, and whoever is sent most has the most output: neither is any merit.
#[test]
fn no_load_is_crowned_and_the_heaviest_that_is_carried_is_named() {
    let rates = [
        (
            vec![("request-rate", "2")],
            open("stable", 400.0, 2000.0, 7.0, 1.0),
        ),
        (
            vec![("request-rate", "8")],
            open("stable", 1600.0, 8000.0, 9.0, 1.0),
        ),
        (
            vec![("request-rate", "32")],
            open("unstable", 4000.0, 20_000.0, 90.0, 0.0),
        ),
    ];
    assert_eq!(
        of_settings(&rates, None),
        "3 runs; 1 is unstable; heaviest load carried: request-rate = 8, 1,600 tok/s; TPOT p50 7.00 ms to 9.00 ms, TTFT p50 35.0 ms \
         to 45.0 ms"
    );
    assert_eq!(
        of_settings(&rates, Some(0.9)),
        "3 runs; 1 is unstable; heaviest load within the SLO: request-rate = 8, 1,600 tok/s; TPOT p50 7.00 ms to 9.00 ms, TTFT \
         p50 35.0 ms to 45.0 ms"
    );
    // Prompts are a load, too, though their outputs are alike.
    let prompts = [
        (
            vec![("input_len", "512")],
            open("stable", 400.0, 1200.0, 7.0, 1.0),
        ),
        (
            vec![("input_len", "4096")],
            open("stable", 401.0, 6800.0, 9.0, 1.0),
        ),
    ];
    let told = of_settings(&prompts, None);
    assert!(
        told.starts_with(
            "2 runs; heaviest load carried, 6,800 tok/s in and out: input_len = 4096, 401 tok/s of output; TPOT p50"
        ),
        "{told}"
    );
    let think_time = "workload.prefix.sessions.think_time";
    // A longer run is no heavier load.
    let steady = || open("stable", 400.0, 1200.0, 7.0, 1.0);
    let cell = |prompts, seqs| (vec![("num-prompts", prompts), ("max-num-seqs", seqs)], steady());
    let lengths = [
        cell("2000", "128"),
        cell("4000", "128"),
        cell("2000", "256"),
        cell("4000", "256"),
    ];
    let told = of_settings(&lengths, None);
    assert!(!told.contains("heaviest"), "{told}");
    // Nor is one that is as heavy as the others, however many settings it was sent to.
    let cell = |think, seqs| (vec![(think_time, think), ("max-num-seqs", seqs)], steady());
    let pauses = [
        cell("10 s", "128"),
        cell("20 s", "128"),
        cell("10 s", "256"),
        cell("20 s", "256"),
    ];
    let told = of_settings(&pauses, None);
    assert!(!told.contains("heaviest"), "{told}");
    // Nobody is alone where nobody else was tried.
    let cell = |rate, seqs, run| (vec![("request-rate", rate), ("max-num-seqs", seqs)], run);
    let linked = [
        cell("2", "128", steady()),
        cell("2", "256", steady()),
        cell("8", "128", open("stable", 1600.0, 4800.0, 9.0, 1.0)),
    ];
    let told = of_settings(&linked, None);
    assert!(
        told.contains("heaviest load carried: request-rate = 8, by max-num-seqs = 128, 1,600 tok/s"),
        "{told}"
    );
    // As much is sent with every think time.
    let pauses = [
        (
            vec![(think_time, "10 s")],
            open("stable", 2350.0, 9000.0, 8.0, 1.0),
        ),
        (
            vec![(think_time, "60 s")],
            open("stable", 2410.0, 9100.0, 9.0, 1.0),
        ),
    ];
    assert_eq!(
        of_settings(&pauses, Some(0.9)),
        "2 runs; output within the SLO 2,350 to 2,410 tok/s; TPOT p50 8.00 ms to 9.00 ms, TTFT p50 40.0 ms to 45.0 ms"
    );
    // One that is left has nobody beside it, and past saturation nothing is carried.
    assert_eq!(
        of_settings(&rates[..1], None),
        "1 run; most output 400 tok/s at request-rate = 2"
    );
    let over = rates
        .clone()
        .map(|(labels, _)| (labels, open("unstable", 4000.0, 20_000.0, 90.0, 0.0)));
    assert_eq!(
        of_settings(&over, None),
        "3 runs; 3 are unstable; no load is carried; output alike within noise, about 4,000 tok/s"
    );
    assert_eq!(
        of_settings(&over, Some(0.9)),
        "3 runs; 3 are unstable; none meets the SLO"
    );
}

#[test]
fn settings_are_compared_at_one_load() {
    let cell = |rate: &'static str, gpu: &'static str| [("request-rate", rate), ("gpu", gpu)];
    let cells = [cell("2", "a"), cell("2", "b"), cell("8", "a"), cell("8", "b")];
    let of = |runs: [Value; 4], attainment| {
        let runs: Vec<_> = cells.map(Vec::from).into_iter().zip(runs).collect();
        of_settings(&runs, attainment)
    };
    let light = || open("stable", 400.0, 2000.0, 7.0, 1.0);
    let heavy = |tpot: f64| open("stable", 1600.0, 8000.0, tpot, 1.0);
    let over = || open("unstable", 1700.0, 9000.0, 90.0, 0.0);
    assert_eq!(
        of([light(), light(), over(), heavy(12.0)], Some(0.9)),
        "4 runs; 1 is unstable; heaviest load within the SLO: request-rate = 8, by gpu = b alone, 1,600 tok/s"
    );
    assert_eq!(
        of([light(), light(), heavy(9.0), heavy(12.0)], None),
        "4 runs; heaviest load carried: request-rate = 8, by both settings; of these output alike within noise, about 1,600 tok/s; \
         lowest TPOT p50 9.00 ms and TTFT p50 45.0 ms at gpu = a"
    );
    // Axes that advance together have no load in common.
    let linked = [(cells[0].to_vec(), light()), (cells[3].to_vec(), heavy(12.0))];
    let told = of_settings(&linked, None);
    assert!(
        told.starts_with(
            "2 runs; heaviest load carried: request-rate = 8, by gpu = b, 1,600 tok/s; TPOT p50 7.00 ms to"
        ),
        "{told}"
    );
}

/// The same requests a second are heavier where they come less regularly, and a rate that is alone within the SLO is a load, too.
#[test]
fn of_as_many_tokens_the_less_regular_arrivals_are_heavier() {
    let steady = |good: f64| open("stable", 1600.0, 8000.0, 9.0, good);
    let cell = |burst: &'static str, rate: &'static str, run| {
        (vec![("burstiness", burst), ("request-rate", rate)], run)
    };
    let alone = [
        (vec![("burstiness", "0.25")], steady(1.0)),
        (vec![("burstiness", "1")], steady(1.0)),
        (vec![("burstiness", "4")], steady(1.0)),
    ];
    let told = of_settings(&alone, Some(0.9));
    assert!(
        told.starts_with(
            "3 runs; heaviest load within the SLO: burstiness = 0.25, 1,600 tok/s; TPOT p50 about 9.00 ms"
        ),
        "{told}"
    );
    let rates = [
        cell("0.25", "2", open("stable", 400.0, 2000.0, 7.0, 1.0)),
        cell("0.25", "8", steady(0.5)),
        cell("1", "8", steady(1.0)),
        cell("4", "8", steady(1.0)),
    ];
    let told = of_settings(&rates, Some(0.9));
    assert!(
        told.starts_with("4 runs; 1 misses the SLO; heaviest load within it: burstiness = 1, request-rate = 8, 1,600 tok/s; TPOT"),
        "{told}"
    );
    let one = of_settings(&rates[..2], Some(0.9));
    assert!(
        one.starts_with("2 runs; 1 misses the SLO; heaviest load within it: burstiness = 0.25, request-rate = 2, 400 tok/s; TPOT"),
        "{one}"
    );
}

#[test]
fn a_load_of_which_the_slo_is_not_decided_is_named_as_one() {
    let rate = |rate: &'static str, run| (vec![("request-rate", rate)], run);
    let mut heavy = open("stable", 1600.0, 8000.0, 9.0, 0.995);
    heavy["plimsoll"]["slo_decided"] = Value::Bool(false);
    let rates = [
        rate("2", open("stable", 400.0, 2000.0, 7.0, 1.0)),
        rate("8", heavy),
    ];
    assert_eq!(
        of_settings(&rates, Some(0.9)),
        "2 runs; 1 is too short for the SLO; heaviest load surely within it: request-rate = 2, 400 tok/s; TPOT p50 about 7.00 ms, \
         TTFT p50 about 35.0 ms; heaviest load where the SLO is not decided: request-rate = 8, 1,600 tok/s (99.5 % good so far)"
    );
}

/// Whatever a client sends as it is answered is carried, and what it has in flight is a setting of its own.
#[test]
fn a_closed_loop_is_no_load_that_is_carried() {
    let held = |tokens: f64, rate: Value| {
        let mut run = open("finite", tokens, 5.0 * tokens, 9.0, 1.0);
        (run["max_concurrency"], run["request_rate"]) = (16.into(), rate);
        run
    };
    let rates = [
        (vec![("request-rate", "2")], held(400.0, 2.0.into())),
        (vec![("request-rate", "inf")], held(1660.0, "inf".into())),
    ];
    let told = of_settings(&rates, None);
    assert!(
        told.starts_with("2 runs; heaviest load: request-rate = inf, 1,660 tok/s"),
        "{told}"
    );
    let cell = |limit, gpu, tokens| {
        (
            vec![("max-concurrency", limit), ("gpu", gpu)],
            held(tokens, "inf".into()),
        )
    };
    let limits = [
        cell("4", "a", 400.0),
        cell("4", "b", 200.0),
        cell("16", "a", 1600.0),
        cell("16", "b", 800.0),
    ];
    assert_eq!(
        of_settings(&limits, None),
        "4 runs; most output 1,600 tok/s at max-concurrency = 16, gpu = a"
    );
}
