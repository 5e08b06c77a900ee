//! Rates of what arrives and limits of what is let in, as they are judged.

use crate::config::tests::{BASE, resolve_text, told};

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
