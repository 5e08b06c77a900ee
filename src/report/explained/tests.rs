//! The first line of an explanation, and what its tables mark.

use super::super::fixtures;
use super::*;

fn tried(gpus: u64, p99_s: f64, knee: f64) -> Tried {
    let about = |value: f64| Estimate {
        value,
        low: 0.95 * value,
        high: 1.05 * value,
    };
    Tried {
        gpus,
        verdict: Verdict::Stable,
        requests: 2000,
        p99_ttft: Some(about(p99_s)),
        p99_itl: Some(about(0.03)),
        p99_tpot: Some(about(0.02)),
        unanswered: 0.0,
        knee: Found::Knee(about(knee)),
    }
}

fn what_if(name: &str, kind: Kind, tried: Option<Tried>) -> WhatIf {
    WhatIf {
        name: name.to_owned(),
        flags: String::new(),
        kind,
        tried,
    }
}

fn view() -> Explained {
    Explained {
        subject: "Llama on H100".to_owned(),
        scenario: None,
        seed: 0,
        load: "10.0 req/s".to_owned(),
        load_value: Some(10.0),
        of: Sought::Rate,
        standing: Standing::default(),
        slo: Some(Slo::Met),
        client: None,
        base: tried(1, 0.134, 15.0),
        anatomies: fixtures::anatomies(1),
        p50_ttft_s: Some(0.084),
        bound: Some(("steps at this load are bound by compute".to_owned(), "compute")),
        at_knee: None,
        are_same_requests: true,
        what_ifs: vec![
            what_if("replicas 1 → 2", Kind::Hardware, Some(tried(2, 0.06, 31.0))),
            what_if("fp8 weights", Kind::Numbers, Some(tried(1, 0.09, 20.0))),
            what_if("max-num-seqs 8 → 16", Kind::Setting, Some(tried(1, 0.13, 17.0))),
            what_if("max-num-seqs 8 → 4", Kind::Setting, Some(tried(1, 0.13, 15.5))),
        ],
        left_out: vec![(
            "prefix caching off".to_owned(),
            "no prompts begin alike".to_owned(),
        )],
        no_knee: None,
        words: EngineWords::default(),
        audits: vec![("L = λW", "holds".to_owned())],
        trust: Vec::new(),
        assumptions: Vec::new(),
        notes: Vec::new(),
        interrupted: None,
    }
}

#[test]
fn the_first_line_is_the_answer() {
    assert_eq!(
        answer(&view()),
        "p99 TTFT 134 ms = queue 99.0 ms + own prefill 30.0 ms + front end 7.00 ms + rest −2.00 ms; SLO met; \
         steps at this load are bound by compute; headroom +50.0 %: knee 15.0 req/s; most help: replicas 1 → 2 (knee 31.0 req/s, +107 %, 2 GPUs for 1); on the same GPUs: fp8 weights \
         (knee 20.0 req/s, +33.3 %, answers may be others); by a setting alone: max-num-seqs 8 → 16 (knee 17.0 req/s, +13.3 %)"
    );
}

#[test]
fn what_is_within_chance_is_neither_marked_nor_named() {
    let printed = text(&view(), Style::default());
    let row = |name: &str| {
        printed
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(row("max-num-seqs 8 → 16").contains("[16.1, 17.9] *"), "{printed}");
    assert!(!row("max-num-seqs 8 → 4").contains('*'), "{printed}");
    assert!(row("fp8 weights").contains("90.0 ms *"), "{printed}");
    assert!(
        printed.contains("left out    prefix caching off: no prompts begin alike"),
        "{printed}"
    );
    let mut idle = view();
    idle.what_ifs.drain(..3);
    assert!(
        answer(&idle).ends_with("no change tried surely raises the knee or shortens p99 TTFT"),
        "{}",
        answer(&idle)
    );
}

#[test]
fn past_saturation_no_latency_is_quoted() {
    let mut full = view();
    full.anatomies = Anatomies::default();
    full.slo = None;
    full.base = Tried {
        verdict: Verdict::Unstable,
        p99_ttft: None,
        ..tried(1, 1.0, 8.0)
    };
    let printed = text(&full, Style::default());
    assert!(
        printed.starts_with(
            "PAST SATURATION: 10.0 req/s is more than is served, requests pile up, and any latency would be that of the length of the run; \
             steps at this load are bound by compute; past the knee of 8.00 req/s, which is 80.0 % of this load; most help: "
        ),
        "{printed}"
    );
    assert!(
        !printed.contains("where the time to first token goes"),
        "{printed}"
    );
}

#[test]
fn what_was_not_reached_is_told_and_without_knees_the_tail_ranks() {
    let mut cut = view();
    cut.what_ifs[0].tried = None;
    cut.interrupted = Some(Missing { changes: 1, knees: 2 });
    let printed = text(&cut, Style::default());
    assert!(
        printed
            .lines()
            .next()
            .unwrap()
            .ends_with("; INTERRUPTED, 1 change and 2 knees are missing"),
        "{printed}"
    );
    let mut short = view();
    short.no_knee = Some("--no-knee leaves them out".to_owned());
    short.base.knee = Found::Nothing;
    for what_if in &mut short.what_ifs {
        what_if.tried.as_mut().unwrap().knee = Found::Nothing;
    }
    let printed = text(&short, Style::default());
    assert!(
        printed.contains("; most help: replicas 1 → 2 (p99 TTFT 60.0 ms, −55.2 %, 2 GPUs for 1); "),
        "{printed}"
    );
    assert!(!printed.contains("knee req/s"), "{printed}");
}

#[test]
fn what_makes_a_load_stable_helps_for_sure() {
    let mut full = view();
    full.no_knee = Some("--no-knee leaves them out".to_owned());
    full.base = Tried {
        verdict: Verdict::Unstable,
        p99_ttft: None,
        knee: Found::Nothing,
        ..tried(1, 1.0, 8.0)
    };
    for what_if in &mut full.what_ifs {
        let tried = what_if.tried.as_mut().unwrap();
        tried.knee = Found::Nothing;
        if what_if.kind == Kind::Setting {
            (tried.verdict, tried.p99_ttft) = (Verdict::Unstable, None);
        }
    }
    let first = answer(&full);
    assert!(
        first.ends_with(
            "most help: replicas 1 → 2 (stable, p99 TTFT 60.0 ms, 2 GPUs for 1); \
             on the same GPUs: fp8 weights (stable, p99 TTFT 90.0 ms, answers may be others)"
        ),
        "{first}"
    );
    let printed = text(&full, Style::default());
    assert!(printed.contains("60.0 ms *"), "{printed}");
    full.what_ifs.drain(..2);
    assert!(
        answer(&full).ends_with("; no change tried surely makes this load stable"),
        "{}",
        answer(&full)
    );
}

#[test]
fn a_shorter_tail_counts_where_no_knee_rises() {
    let mut same = view();
    for what_if in &mut same.what_ifs {
        what_if.tried.as_mut().unwrap().knee = same.base.knee.clone();
    }
    assert!(
        answer(&same).contains("; most help: replicas 1 → 2 (p99 TTFT 60.0 ms, −55.2 %, 2 GPUs for 1); "),
        "{}",
        answer(&same)
    );
}

#[test]
fn who_goes_without_an_answer_stands_first_and_in_a_column() {
    let mut lossy = view();
    lossy.standing.lost = "REFUSED 92.0 % of requests; those served: ".to_owned();
    lossy.slo = Some(Slo::Missed);
    lossy.base.unanswered = 0.92;
    let printed = text(&lossy, Style::default());
    assert!(
        printed.starts_with("REFUSED 92.0 % of requests; those served: p99 TTFT 134 ms = "),
        "{printed}"
    );
    assert!(
        printed.contains("; SLO MISSED at this load; ") && printed.contains("no answer"),
        "{printed}"
    );
    lossy.standing = Standing {
        lost: String::new(),
        instead: Some("NO ANSWERS at 30.0 req/s".to_owned()),
    };
    assert!(answer(&lossy).starts_with("NO ANSWERS at 30.0 req/s; "));
}

#[test]
fn the_heading_says_what_all_have_in_common_and_what_the_mark_means() {
    let mut loops = view();
    let heading = |view: &Explained| super::heading(view);
    assert_eq!(
        heading(&loops),
        "what if (each alone, the same arrivals; latencies with 10.0 req/s; * intervals apart):"
    );
    loops.of = Sought::InFlight;
    loops.base.verdict = Verdict::Finite;
    assert!(
        heading(&loops).contains("the same clients")
            && heading(&loops).contains("* intervals apart, or without one other by more than 2 %"),
    );
    loops.are_same_requests = false;
    assert!(heading(&loops).starts_with("what if (each alone; latencies at this load; "));
}

#[test]
fn a_client_that_is_the_limit_has_no_knee_of_the_server() {
    let mut held = view();
    held.client = Some("THE CLIENT IS THE LIMIT: so it is".to_owned());
    held.base = Tried {
        verdict: Verdict::Unstable,
        p99_ttft: None,
        knee: Found::Client(Estimate {
            value: 7.5,
            low: 7.0,
            high: 8.0,
        }),
        ..held.base
    };
    let first = answer(&held);
    assert!(
        first.starts_with("THE CLIENT IS THE LIMIT: so it is; ")
            && first.contains("; the client pushes at most 7.50 req/s, within the SLO; "),
        "{first}"
    );
}
