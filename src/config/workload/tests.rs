//! Rates of what arrives and limits of what is let in, as they are judged.

use crate::config::flags::tests::{flags_of, resolve_line};
use crate::config::tests::{BASE, resolve_text, told};
use crate::config::{NoFiles, Resolved, assemble, axes, resolve, resolved_toml};
use crate::workload::{Arrivals, Prefix};

#[test]
fn the_rate_of_a_run_is_of_requests_whatever_starts_them() {
    let rate = |more: &str| {
        let text = BASE.replacen("[workload.arrivals.poisson]\nrequest_rate = 4.0\n", more, 1);
        assert_ne!(text, BASE);
        resolve_text(&text)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .request_rate()
    };
    let sessions = "[workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.prefix.sessions]\nturns = 5.0\nthink_time = \"5 s\"\n";
    assert_eq!(rate(sessions), 5.0, "conversations have five requests each");
    let ramp = "[workload]\nnum_prompts = 100\n[workload.arrivals.ramp]\nstart_rate = 1.0\nend_rate = 4.0\n";
    let mean = rate(ramp);
    assert!(
        (mean - 3.0 / 4f64.ln()).abs() < 1e-9,
        "{mean}: a hundred requests take ∫dx/rate(x)"
    );
}

#[test]
fn a_range_that_stands_for_both_lengths_is_wrong_once() {
    let told = |ratio: &str| {
        let line = format!("--request-rate 4 --input-len 100 --output-len 10 --random-range-ratio {ratio}");
        let problems = resolve_line(&line).err().map(|problems| problems.to_string());
        problems.unwrap_or_default()
    };
    assert_eq!(told("1.5").matches("below 1").count(), 1, "{}", told("1.5"));
    let apart = told(r#"'{"input": 1.5, "output": 2}'"#);
    assert_eq!(apart.matches("below 1").count(), 2, "{apart}");
}

#[test]
fn a_rate_is_refused_in_its_own_unit_and_below_what_the_clock_shows() {
    let poisson = |rate: &str| told("request_rate = 4.0", &format!("request_rate = {rate}"));
    let slow = poisson("1e-300");
    assert!(
        slow.contains("must be at least 1.1e-7 requests per second"),
        "{slow}"
    );
    assert!(slow.lines().all(|line| line.len() < 200), "{slow}");
    assert!(poisson("0").contains("must be above 0 requests per second"));
    let limit = |keys: &str| told("[engine]", &format!("[[cluster.rate_limits]]\n{keys}\n[engine]"));
    for (keys, problem) in [
        ("tokens_per_second = -1.0", "must be above 0 tokens per second"),
        (
            "tokens_per_second = 1e10",
            "must be at most 1e9 tokens per second",
        ),
        (
            "requests_per_second = -1.0",
            "must be above 0 requests per second",
        ),
    ] {
        let told = limit(keys);
        assert!(told.contains(problem), "{keys}: {told}");
    }
}

#[test]
fn a_long_run_is_accepted_where_the_clock_can_show_it() {
    let text = |rate: &str| {
        BASE.replace("request_rate = 4.0", &format!("request_rate = {rate}"))
            .replace("[engine]", "[workload]\nnum_prompts = 1000000000000\n[engine]")
    };
    assert!(resolve_text(&text("1e6")).is_ok());
    assert!(resolve_text(&text("1e4")).is_err());
    let closed = text("1")
        .replace("poisson", "closed")
        .replace("request_rate = 1", "max_concurrency = 32");
    assert!(
        resolve_text(&closed)
            .err()
            .is_some_and(|problems| problems.to_string().contains("32 at a time"))
    );
}

#[test]
fn a_token_bucket_that_refuses_everybody_is_refused() {
    let limit = |keys: &str| told("[engine]", &format!("[[cluster.rate_limits]]\n{keys}\n[engine]"));
    // Every request has 1024 + 128 tokens.
    let small = limit("tokens_per_second = 100.0");
    assert!(
        small.contains("all would be refused") && small.contains("write token_burst = 1152"),
        "{small}"
    );
    assert_eq!(
        limit("tokens_per_second = 100.0\ntoken_burst = 1152.0"),
        "accepted"
    );
    let slow = limit("tokens_per_second = 1e-5\ntoken_burst = 1152.0");
    assert!(slow.contains("does not fill within the 213 days"), "{slow}");
}

#[test]
fn a_retry_that_would_wait_past_the_clock_is_refused() {
    let retries = |keys: &str| told("[engine]", &format!("[cluster.retries]\n{keys}\n[engine]"));
    let patient = retries("max_retries = 40");
    assert!(patient.contains("does not fit the simulated clock"), "{patient}");
    assert!(patient.contains("write max_retries = 28 or less"), "{patient}");
    assert_eq!(retries("max_retries = 28"), "accepted");
    assert_eq!(retries("max_retries = 100\nbackoff = \"0 s\""), "accepted");
}

#[test]
fn a_rate_scales_the_law_of_arrivals_wherever_it_stands() {
    let of = |line: &str| resolve_line(line).unwrap_or_else(|problems| panic!("{line}: {problems}"));
    let model = "Llama-3.1-8B-Instruct --gpu h100 --max-model-len 16384";
    for line in [
        "matrix-f",
        "rate-limit",
        &format!("{model} --workload workloads/azure-code-2023"),
    ] {
        let (own, scaled) = (of(line), of(&format!("{line} --request-rate 14")));
        let law = |of: &Resolved| std::mem::discriminant(&of.scenario.workload.arrivals);
        assert_eq!(law(&own), law(&scaled), "{line}");
        assert!((scaled.request_rate() - 14.0).abs() < 1e-9, "{line}");
        assert!(
            scaled.notes.iter().any(|note| note.contains("keeps its shape")),
            "{line}"
        );
        // Written out and read again it is the same.
        let again = resolve_text(&resolved_toml(&scaled)).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(again.scenario.workload, scaled.scenario.workload, "{line}");
    }
    let at_once = of("matrix-f --request-rate inf --num-prompts 9");
    assert_eq!(at_once.scenario.workload.arrivals, Arrivals::AllAtOnce);
    let gamma = of("matrix-f --request-rate 14 --burstiness 0.5");
    assert!(matches!(gamma.scenario.workload.arrivals, Arrivals::Gamma { .. }));
}

#[test]
fn a_swept_rate_and_a_limit_in_flight_keep_the_law_of_a_base() {
    let input = assemble(&flags_of("matrix-f"), &NoFiles).unwrap();
    let mut cell = input.document.clone();
    assert!(axes::apply(&mut cell, "request_rate", "14").is_empty());
    let cell = resolve(cell, &NoFiles).unwrap_or_else(|problems| panic!("{problems}"));
    assert!((cell.request_rate() - 14.0).abs() < 1e-9);
    assert!(matches!(
        cell.scenario.workload.arrivals,
        Arrivals::Profile { .. }
    ));
    for line in ["matrix-f --max-concurrency 64", "matrix-f --client vllm"] {
        let resolved = resolve_line(line).unwrap_or_else(|problems| panic!("{line}: {problems}"));
        let arrivals = &resolved.scenario.workload.arrivals;
        assert!(
            matches!(arrivals, Arrivals::Profile { .. }),
            "{line}: {arrivals:?}"
        );
    }
}

#[test]
fn a_ramp_and_a_cycle_of_rates_are_scaled_to_a_mean() {
    let rate = |arrivals: &str| {
        let text = BASE.replacen("[workload.arrivals.poisson]\nrequest_rate = 4.0\n", arrivals, 1);
        resolve_text(&text)
            .unwrap_or_else(|problems| panic!("{problems}"))
            .request_rate()
    };
    let ramp = "[workload]\nnum_prompts = 100\n[workload.arrivals.ramp]\nstart_rate = 1.0\nend_rate = 4.0\nrequest_rate = 7.0\n";
    assert!((rate(ramp) - 7.0).abs() < 1e-9);
    let cycle = "[workload.arrivals.mmpp]\nrequest_rate = 7.0\nstates = [{ request_rate = 1.0, mean_sojourn = \"9 s\" }, \
                 { request_rate = 0.0, mean_sojourn = \"1 s\" }]\n";
    assert!((rate(cycle) - 7.0).abs() < 1e-9);
}

#[test]
fn distances_of_reuse_are_octaves_or_a_lognormal_law_and_judged() {
    let text = |keys: &str| {
        BASE.replace(
            "[engine]",
            &format!(
                "[workload.prefix.reuse]\nsystem_len = 16\nprobability = 0.5\nshare = 0.9\n{keys}\n[engine]"
            ),
        )
    };
    let octaves = |keys: &str| match resolve_text(&text(keys)).unwrap().scenario.workload.prefix {
        Prefix::Reuse(law) => law.distances.to_vec(),
        _ => panic!("prompts continue earlier ones"),
    };
    assert_eq!(octaves("distances = [0.25, 0.0, 3]"), [0.25, 0.0, 3.0]);
    assert_eq!(
        octaves("distance_median = 5.0\ndistance_sigma = 0.0"),
        [0.0, 0.0, 1.0]
    );
    let many = format!("distances = [{}]", "1.0, ".repeat(21));
    for (keys, problem) in [
        ("", "does not say how far back"),
        ("distance_median = 5.0", "does not say how far back"),
        (
            "distances = [1.0]\ndistance_sigma = 1.0",
            "both say how far back prompts lie",
        ),
        ("distances = []", "must have 1 to 20 numbers"),
        (many.as_str(), "must have 1 to 20 numbers"),
        ("distances = [0.5, -0.5]", "must not hold negative shares"),
        ("distances = [0.0, 0.0]", "must not all be 0"),
    ] {
        let told = match resolve_text(&text(keys)) {
            Ok(_) => panic!("{keys} is taken"),
            Err(problems) => problems.to_string(),
        };
        assert!(told.contains(problem), "{keys}: {told}");
    }
}
