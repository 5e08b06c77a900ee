//! Whole runs of both clients, as `tests/data/numpy/draws.py` has them.

use serde_json::Value;

use crate::units::Picos;
use crate::workload::generator::tests::{arrivals_of, spec};
use crate::workload::{Arrivals, Class, Draws, Lengths, Prefix, Promise, Request, WorkloadSpec};

/// Every run of `draws.py`: its row, the workload that asks for it, and its seed.
fn runs() -> Vec<(Value, WorkloadSpec, u64)> {
    let whole: Value = serde_json::from_str(include_str!("../../../tests/data/numpy/draws.json"))
        .expect("draws.py wrote JSON");
    let runs = whole["runs"].as_array().expect("a list of runs");
    runs.iter()
        .map(|run| (run.clone(), asked(run), run["seed"].as_u64().expect("a seed")))
        .collect()
}

fn asked(run: &Value) -> WorkloadSpec {
    let number = |key: &str| run[key].as_f64().expect("a number");
    let tokens = |key: &str| number(key) as u32;
    let is_vllm = run["client"] == "vllm";
    let (input_len, output_len) = (tokens("input_len"), tokens("output_len"));
    let range_ratio = number("range_ratio");
    let ramp = run["ramp"].as_array();
    let mut spec = spec(match ramp {
        Some(ramp) => Arrivals::Ramp {
            start_rate: ramp[0].as_f64().expect("a rate"),
            end_rate: ramp[1].as_f64().expect("a rate"),
            exponential: ramp[2] == "exponential",
        },
        None if number("burstiness") == 1.0 => Arrivals::Poisson {
            request_rate: number("rate"),
        },
        None => Arrivals::Gamma {
            request_rate: number("rate"),
            burstiness: number("burstiness"),
        },
    });
    spec.lengths = if is_vllm {
        Lengths::RandomVllm {
            input_len,
            output_len,
            range_ratio,
            output_range_ratio: range_ratio,
        }
    } else {
        Lengths::RandomSglang {
            input_len,
            output_len,
            range_ratio,
        }
    };
    spec.num_prompts = Some(run["prompts"].as_array().expect("prompts").len() as u64);
    spec.client.rescale_arrivals = is_vllm;
    spec.client.draws = if is_vllm { Draws::Vllm } else { Draws::Sglang };
    spec
}

fn check_tokens(requests: &[Request], of: fn(&Request) -> u32, expected: &Value) {
    let expected = expected.as_array().expect("a list").iter().map(Value::as_u64);
    assert!(
        requests
            .iter()
            .map(|request| Some(u64::from(of(request))))
            .eq(expected)
    );
}

#[test]
fn requests_are_those_of_the_real_clients() {
    for (run, spec, seed) in runs() {
        let requests = arrivals_of(&spec, seed);
        check_tokens(&requests, |request| request.prompt_tokens, &run["prompts"]);
        check_tokens(&requests, |request| request.output_tokens, &run["outputs"]);
        for (request, expected) in requests.iter().zip(run["instants"].as_array().expect("instants")) {
            let expected = Picos::from_seconds(expected.as_f64().expect("seconds"));
            // A picosecond of rounding, and the last digits of two logarithms.
            let allowed = 1 + expected.0 / 1_000_000_000_000;
            assert!(request.arrival.0.abs_diff(expected.0) <= allowed, "{run}");
        }
    }
}

#[test]
fn published_means_of_sglangs_client_come_out() {
    // Its seed 1, 1,000 tokens each way, range ratio 0: prompts and outputs of a published run on average.
    for (requests, prompt, output) in [
        (10, 610.1, 422.0),
        (80, 495.85, 510.0625),
        (500, 499.662, 505.324),
    ] {
        let mut spec = spec(Arrivals::AllAtOnce);
        spec.lengths = Lengths::RandomSglang {
            input_len: 1000,
            output_len: 1000,
            range_ratio: 0.0,
        };
        spec.num_prompts = Some(requests);
        spec.client.draws = Draws::Sglang;
        let sent = arrivals_of(&spec, 1);
        let mean = |of: fn(&Request) -> u32| {
            sent.iter().map(|request| f64::from(of(request))).sum::<f64>() / requests as f64
        };
        assert_eq!(mean(|request| request.prompt_tokens), prompt);
        assert_eq!(mean(|request| request.output_tokens), output);
    }
}

#[test]
fn one_command_at_two_rates_has_the_same_gaps_on_two_scales() {
    let (_, slow, seed) = runs().swap_remove(2);
    let mut fast = slow.clone();
    let Arrivals::Gamma { request_rate, .. } = &mut fast.arrivals else {
        unreachable!("the third run has gamma gaps")
    };
    *request_rate *= 4.0;
    for (slow, fast) in arrivals_of(&slow, seed).iter().zip(arrivals_of(&fast, seed)) {
        assert!(slow.arrival.0.abs_diff(4 * fast.arrival.0) <= 4);
        assert_eq!(slow.prompt_tokens, fast.prompt_tokens);
    }
}

#[test]
fn a_prefix_or_a_limit_in_flight_changes_no_draw_of_a_client() {
    let (_, plain, seed) = runs().swap_remove(1);
    let mut shared = plain.clone();
    shared.prefix = Prefix::Groups {
        count: 1,
        prefix_len: 100,
        zipf: 0.0,
        exact_shares: false,
    };
    for (plain, shared) in arrivals_of(&plain, seed).iter().zip(arrivals_of(&shared, seed)) {
        assert_eq!(plain.prompt_tokens + 100, shared.prompt_tokens);
        assert_eq!(plain.arrival, shared.arrival);
    }
}

/// Whether asking for a client's draws changes any request of `asked`.
fn is_heard(asked: &WorkloadSpec, seed: u64) -> bool {
    let mut own = asked.clone();
    own.client.draws = Draws::Own;
    arrivals_of(asked, seed) != arrivals_of(&own, seed)
}

#[test]
fn what_no_real_client_sends_keeps_our_draws() {
    let (_, asked, _) = runs().swap_remove(1);
    assert!(is_heard(&asked, 5) && is_heard(&asked, u64::from(u32::MAX)));
    assert!(!is_heard(&asked, 1 << 32), "NumPy takes no such seed");
    let mut ends_early = asked.clone();
    ends_early.duration = Some(Picos::from_seconds(3.0));
    assert!(!is_heard(&ends_early, 5));
    let mut of_classes = asked.clone();
    of_classes.classes = vec![Class {
        name: "chat".to_string(),
        share: 1.0,
        lengths: asked.lengths.clone(),
        priority: 0,
        model: None,
        promise: Promise::default(),
    }];
    assert!(!is_heard(&of_classes, 5));
    let mut dealt = asked.clone();
    dealt.lengths = Lengths::Fixed {
        input_len: 64,
        output_len: 8,
    };
    assert!(
        is_heard(&dealt, 5),
        "constant lengths leave the gaps the client's"
    );
    dealt.prefix = Prefix::Groups {
        count: 5,
        prefix_len: 32,
        zipf: 0.0,
        exact_shares: true,
    };
    assert!(
        !is_heard(&dealt, 5),
        "prefix_repetition's tokens are drawn ahead of the gaps"
    );
}
