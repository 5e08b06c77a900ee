//! What limits a knee, in words.

use super::*;
use crate::analysis::{Estimate, Verdict};
use crate::config::{Document, NoFiles, resolve};
use crate::report::{KneeContext, KneeView};

pub(in crate::report) fn tried(rate: f64, verdict: Verdict) -> Point {
    Point {
        rate,
        verdict,
        reason: String::new(),
        requests: 1000,
        lasted_s: 1000.0 / rate,
        slack: None,
        attainment: Some(Estimate {
            value: 0.99,
            low: 0.98,
            high: 1.0,
        }),
        throughput: Some(Estimate {
            value: rate,
            low: rate,
            high: rate,
        }),
        output_tokens_per_s: None,
        answers_cut: 0.0,
        tokens_each: None,
        preemptions: 0.0,
        p99_ttft: None,
        ttft_s: (verdict == Verdict::Stable).then_some((0.03, 0.09)),
        tpot_s: None,
        itl_s: None,
        e2el_s: None,
        running: None,
        waiting: None,
        in_system: None,
        kv_usage: None,
        growth_per_s: 0.0,
        binding: None,
        lost: Lost::default(),
        lost_of_class: None,
        is_losing: false,
        by_class: Vec::new(),
        is_held_by_client: false,
        client_queue_s: None,
        is_unknown: false,
        is_out_of_reach: false,
        pressure: Some(Pressure {
            compute: 0.91 / rate * 10.0,
            bandwidth: 0.46,
            batch: 12.0,
            ..Pressure::default()
        }),
    }
}

/// A search that ended, found nothing and says nothing of these points.
fn knee_of(points: Vec<Point>) -> Knee {
    Knee {
        within_slo: None,
        saturation: None,
        when_full: None,
        client: None,
        limiter: None,
        binding: None,
        loss: None,
        points,
        converged: true,
    }
}

/// 10 req/s, known to a hundredth.
fn about_ten() -> Option<Estimate> {
    Some(Estimate {
        value: 10.0,
        low: 9.9,
        high: 10.1,
    })
}

/// The 99th percentile of a metric of the whole run, with its limit.
fn p99(metric: Metric, value_s: f64, limit_s: f64) -> Binding {
    Binding {
        metric,
        statistic: Statistic::Quantile(0.99),
        value_s,
        limit_s,
        class: None,
        queue: None,
        stages: None,
    }
}

#[test]
fn the_limiter_is_quoted_with_the_pressure_at_the_knee() {
    let points = vec![
        tried(5.0, Verdict::Stable),
        tried(10.0, Verdict::Stable),
        tried(20.0, Verdict::Unstable),
    ];
    let knee = Knee {
        within_slo: about_ten(),
        limiter: Some(Limiter::PrefillCompute),
        binding: Some(Binding {
            queue: Some(0.8),
            ..p99(Metric::Ttft, 0.48, 0.5)
        }),
        converged: false,
        ..knee_of(points)
    };
    let view = KneeView::new(&knee, KneeContext::default());
    let limited_by = view.limited_by.unwrap();
    assert_eq!(
        limited_by,
        "TTFT p99, which reaches its limit first (480 ms of 500 ms): 80.0 % of it is the wait for a first step, the \
         rest the prompt's own steps; a step decodes 12.0 sequences on average, 0 % of the steps carry pieces of \
         prompts too, and the engine is busy 0 % of the time. Hardest pressed is compute (compute 91.0 % of roof, bandwidth 46.0 %, host 0 % of step time; not full: \
         KV blocks 0 % at most)"
    );
    assert!(view.points[0].ttft.is_some() && view.points[2].ttft.is_none());
    assert_eq!(view.notes.len(), 1, "an unfinished search says so");
    assert!(view.assumptions.is_empty(), "and nothing was assumed");
    let over = Knee {
        binding: Some(p99(Metric::Ttft, 0.51, 0.5)),
        ..knee
    };
    let limited_by = KneeView::new(&over, KneeContext::default()).limited_by.unwrap();
    assert!(
        limited_by.starts_with("TTFT p99, which is beyond its limit first (510 ms of 500 ms)"),
        "{limited_by}"
    );
}

#[test]
fn the_way_of_the_kv_is_a_share_of_ttft_and_the_links_may_be_pressed_hardest() {
    let mut stages = [0.0; 7];
    (stages[Stage::Prefill as usize], stages[Stage::Transfer as usize]) = (0.2, 0.8);
    let binding = Binding {
        queue: Some(0.0128),
        stages: Some(stages),
        ..p99(Metric::Ttft, 0.99, 1.0)
    };
    let mut point = tried(10.0, Verdict::Stable);
    let pressure = Pressure {
        links: Some(0.47),
        ..Pressure::default()
    };
    point.pressure = Some(pressure);
    let knee = Knee {
        within_slo: about_ten(),
        limiter: Some(pressure.limiter()),
        binding: Some(binding),
        ..knee_of(vec![point, tried(20.0, Verdict::Unstable)])
    };
    assert_eq!(
        KneeView::new(&knee, KneeContext::default()).limited_by.unwrap(),
        "TTFT p99, which reaches its limit first (990 ms of 1.00 s): of the mean TTFT 80.0 % is the KV's transfer and the \
         wait for it, 20.0 % is the prompt's own steps. Hardest pressed are the KV links (47.0 % of their bandwidth used)"
    );
    // Where a pool is pressed, what its steps do is told beside it.
    let late = why_late(
        &binding,
        Limiter::PrefillCompute,
        &Pressure::default(),
        EngineWords::default(),
    );
    assert!(
        late.starts_with("of the mean TTFT 80.0 %")
            && late.contains("its steps hold pieces of prompts alone"),
        "{late}"
    );
}

#[test]
fn an_engine_s_limits_have_its_own_names() {
    let document = "[model]\nname = \"Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"h100\"\n[engine]\nprofile = \"sglang\"\n\
                    [workload.arrivals.poisson]\nrequest_rate = 1.0\n[workload.lengths.fixed]\ninput_len = 100\noutput_len = 10\n";
    let resolved = resolve(Document::parse("test.toml", document).unwrap(), &NoFiles).unwrap();
    let sglang = EngineWords::of(&resolved.scenario.first_pool().engine);
    let binding = Binding {
        queue: Some(0.8),
        ..p99(Metric::Ttft, 0.48, 0.5)
    };
    let check = |limiter, ours: &str, theirs: &str| {
        let said = |words| {
            let late = why_late(&binding, limiter, &Pressure::default(), words);
            format!("{late}; {}", resource(limiter, words))
        };
        let (vllm, sglang) = (said(EngineWords::default()), said(sglang));
        assert!(vllm.matches(ours).count() == 2, "{vllm}");
        assert!(
            sglang.matches(theirs).count() == 2 && !sglang.contains(ours),
            "{sglang}"
        );
    };
    check(Limiter::MaxNumSeqs, "max_num_seqs", "--max-running-requests");
    check(
        Limiter::TokenBudget,
        "max_num_batched_tokens",
        "--chunked-prefill-size",
    );
    check(
        Limiter::KvBlocks,
        "KV blocks",
        "the token pool (--mem-fraction-static)",
    );
}

#[test]
fn replicas_that_fail_are_named_and_not_a_latency_that_is_kept() {
    let lost = Lost {
        failed: 0.031,
        ..Lost::default()
    };
    let mut lowest = tried(0.001, Verdict::Stable);
    lowest.lost = lost;
    lowest.running = Some(0.0004);
    lowest.binding = Some(p99(Metric::Tpot, 0.0066, 0.03));
    let knee = Knee {
        binding: lowest.binding,
        loss: Some((0.001, lost)),
        ..knee_of(vec![lowest])
    };
    let view = KneeView::new(&knee, KneeContext::default());
    assert_eq!(
        view.limited_by.unwrap(),
        "requests without an answer, which are not good (3.10 % lost with the replica they were on at 0.00100 req/s); \
         those served wait less because of them"
    );
    assert!((view.points[0].failed - 0.031).abs() < 1e-12);
}

#[test]
fn requests_of_a_class_that_are_refused_are_what_breaks_its_promise() {
    let lost = Lost {
        refused: 0.02,
        class: Some(1),
        ..Lost::default()
    };
    let mut within = tried(3.0, Verdict::Stable);
    within.binding = Some(Binding {
        class: Some(1),
        ..p99(Metric::E2el, 9.7, 60.0)
    });
    let mut over = tried(4.0, Verdict::Stable);
    let slack = |value| {
        Some(Estimate {
            value,
            low: value,
            high: value,
        })
    };
    (within.slack, over.slack) = (slack(0.0), slack(-0.01));
    let mut knee = Knee {
        within_slo: slack(3.0),
        binding: within.binding,
        loss: Some((4.0, lost)),
        ..knee_of(vec![within, over])
    };
    let said = |knee: &Knee| {
        let class = |name: &str| ClassPromise {
            request_rate: None,
            name: name.to_owned(),
            limits: Vec::new(),
        };
        let classes = vec![class("chat"), class("batch")];
        let context = KneeContext {
            classes,
            ..KneeContext::default()
        };
        KneeView::new(knee, context).limited_by.unwrap()
    };
    assert!(
        said(&knee).contains("without an answer, which are not good (2.00 % of class batch refused by the server at 4.00 req/s)"),
        "{}",
        said(&knee)
    );
    // Without a limiter, as of ranks that step together, the promise is named all the same.
    knee.loss = None;
    assert_eq!(
        said(&knee),
        "E2EL p99 of class batch, which reaches its limit first (9.70 s of 60.0 s over the whole run at 3.00 req/s)"
    );
}
