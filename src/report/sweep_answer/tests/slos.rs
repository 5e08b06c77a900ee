//! Sweeps over the SLO itself.

use super::*;

fn run(verdict: &str, tokens: f64, good: f64, kept: bool, decided: bool) -> Value {
    serde_json::json!({
        "output_throughput": tokens, "request_rate": 8.0, "request_throughput": 1.0, "request_goodput": good,
        "plimsoll": {"verdict": verdict, "slo_kept": kept, "slo_decided": decided,
            "intervals_95": {"output_throughput": [0.99 * tokens, 1.01 * tokens]}},
    })
}

/// The laxest is met the most easily, which says nothing of what serves.
#[test]
fn no_slo_is_crowned() {
    let cell = |slo: &'static str, run: Value| (vec![("goodput", slo)], run);
    let one = [
        cell("ttft:500", run("stable", 1720.0, 1.0, true, true)),
        cell("ttft:400", run("stable", 1720.0, 1.0, true, true)),
        cell("ttft:200", run("stable", 1720.0, 0.992, true, false)),
        cell("ttft:100", run("stable", 1720.0, 0.846, false, true)),
    ];
    assert_eq!(
        of_settings(&one, None),
        "4 runs; the SLO is met at goodput = ttft:500, goodput = ttft:400; not decided at goodput = ttft:200 (99.2 % good so far); \
         missed at goodput = ttft:100 (84.6 % good)"
    );
    // One SLO for all is no axis.
    assert!(of_settings(&one[..1], None).contains("; most output within the SLO 1,720 tok/s at goodput"));
}

#[test]
fn settings_are_compared_under_one_slo() {
    let cell = |slo: &'static str, gpu: &'static str, run: Value| {
        (vec![("slo.goodput.ttft", slo), ("gpu", gpu)], run)
    };
    let two = [
        cell("100 ms", "a", run("stable", 1720.0, 0.8, false, true)),
        cell("100 ms", "b", run("unstable", 1190.0, 0.0, false, true)),
        cell("500 ms", "a", run("stable", 1720.0, 1.0, true, true)),
        cell("500 ms", "b", run("unstable", 1190.0, 0.0, false, true)),
    ];
    assert_eq!(
        of_settings(&two, None),
        "4 runs; 2 are unstable; under slo.goodput.ttft = 100 ms: none meets it; under slo.goodput.ttft = 500 ms: most output within it 1,720 \
         tok/s at gpu = a"
    );
    let many = ["1 s", "2 s", "3 s", "4 s", "5 s"];
    let many: Vec<_> = (many.into_iter())
        .flat_map(|slo| {
            two[2..]
                .iter()
                .map(move |(labels, run)| cell(slo, labels[1].1, run.clone()))
        })
        .collect();
    assert!(
        of_settings(&many, None).ends_with("; 5 of 5 SLOs are met by some of the runs"),
        "{}",
        of_settings(&many, None)
    );
}
