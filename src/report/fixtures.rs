//! Invented results for the tests of printers and charts.

use super::chart::{Phase, RooflineStep, RooflineView};
use super::sweep::SweepRow;
use super::sweep_layout::SweepLayout;
use super::sweep_view::SweepView;
use super::versus::{MEASURES, VariantView, Versus};
use super::working_set::{PoolMark, WorkingSetView};
use super::{KneePoint, KneeView, Limit, Quantiles, ResultMeta, Sizing, Utilisation};
use crate::analysis::knee::{Demand, fleet};
use crate::analysis::{Estimate, RunResult, Verdict};
use crate::analysis::{Looked, WorkingSet};
use crate::cost::Trust;
use crate::ids::{ReplicaId, RequestId};
use crate::metrics::{
    Distribution, LittleAudit, LittleCheck, Occupancy, RequestRecord, SeriesPoint, Summary, WorkCounters,
};
use crate::sim::{Completion, Outcome};
use crate::units::Picos;
use crate::workload::{Arrivals, Client, Generator, Lengths, Prefix, WorkloadSpec};

/// Two replicas of two GPUs for the knee of [`knee_view`].
pub(super) fn sizing() -> Sizing {
    let demand = Demand {
        rate: 40.0,
        gpus_per_replica: 2,
        usd_per_gpu_hour: Some(2.99),
    };
    let knee = knee_view().knee.expect("the view has a knee");
    Sizing {
        fleet: Some(fleet(knee, &demand, Some((1024.0, 128.0)), Some((0.8, 1.25)))),
        demand,
        gpu: "H100-SXM-80GB".into(),
        price_source: Some("assumed list price of 2025-10-01".into()),
        slows_a_trace: false,
    }
}

/// A sweep over rates, or over words, with `lines` values of a second axis; the last value is past saturation.
pub(super) fn sweep_view(values: &[&str], lines: usize, panes: usize) -> SweepView {
    let mut cells: Vec<Vec<(String, String)>> = Vec::new();
    for pane in 0..panes {
        for line in 0..lines {
            cells.extend(values.iter().map(|value| {
                let named = |axis: &str, value: &str| (axis.to_owned(), value.to_owned());
                vec![
                    named("request-rate", value),
                    named("engine.policy", &format!("a_policy_of_long_name_{line}")),
                    named("gpu", &format!("gpu-{pane}")),
                ]
            }));
        }
    }
    let runs: Vec<serde_json::Value> = (0..cells.len())
        .map(|cell| {
            let (at, line) = (cell % values.len(), cell / values.len());
            let is_last = at + 1 == values.len() && at > 0;
            let slow = (1 + at) as f64 * (1.0 + 0.1 * line as f64) * if is_last { 30.0 } else { 1.0 };
            serde_json::json!({
                "median_ttft_ms": 40.0 * slow, "p99_ttft_ms": 90.0 * slow, "median_tpot_ms": 9.0 * slow,
                "p99_tpot_ms": 12.0 * slow, "p99_itl_ms": 30.0 * slow, "output_throughput": 100.0 * (at + 1) as f64,
                "request_throughput": at as f64 + 1.0, "request_goodput": if is_last { 0.0 } else { at as f64 + 1.0 },
                "plimsoll": {
                    "verdict": if is_last { "unstable" } else { "stable" },
                    "intervals_95": {"p99_ttft_ms": [70.0 * slow, 130.0 * slow]},
                },
            })
        })
        .collect();
    let labels: Vec<&[(String, String)]> = cells.iter().map(Vec::as_slice).collect();
    let rows: Vec<SweepRow<'_>> = labels
        .iter()
        .zip(&runs)
        .map(|(settings, run)| SweepRow {
            settings,
            run,
            attainment: Some(0.99),
        })
        .collect();
    let layout = SweepLayout::of(&labels).expect("the axes have places");
    SweepView {
        limits: knee_view().limits,
        attainment: 0.99,
        ..SweepView::of(&rows, layout, "Llama-3.1-8B-Instruct on H100-SXM-80GB".into())
    }
}

pub(super) fn knee_view() -> KneeView {
    let stable = |rate: f64, attainment: f64, ttft: (f64, f64), tpot: (f64, f64), running: f64| KneePoint {
        request_rate: rate,
        verdict: Verdict::Stable,
        requests: 20_000,
        attainment: Some(attainment),
        ttft: Some(Quantiles {
            p50_s: ttft.0 / 1e3,
            p99_s: ttft.1 / 1e3,
        }),
        p99_ttft: Some(Estimate {
            value: ttft.1 / 1e3,
            low: ttft.1 * 0.92e-3,
            high: ttft.1 * 1.09e-3,
        }),
        tpot: Some(Quantiles {
            p50_s: tpot.0 / 1e3,
            p99_s: tpot.1 / 1e3,
        }),
        itl: Some(Quantiles {
            p50_s: tpot.0 / 1.1e3,
            p99_s: tpot.1 * 1.5e-3,
        }),
        e2el: None,
        request_throughput: Some(Estimate {
            value: rate,
            low: rate * 0.99,
            high: rate * 1.01,
        }),
        output_throughput: Some(rate * 128.0),
        running: Some(running),
        waiting: Some(running / 80.0),
        kv_usage: Some(running / 400.0),
        growth_per_s: 0.0,
        refused: 0.0,
        given_up: 0.0,
        failed: 0.0,
        is_losing: false,
    };
    let mut critical = stable(26.0, 0.758, (340.0, 2100.0), (24.1, 41.7), 74.0);
    critical.verdict = Verdict::Critical;
    critical.p99_ttft = Some(Estimate {
        value: 2.1,
        low: 1.4,
        high: 2.8,
    });
    let mut unstable = stable(28.0, 0.1, (0.0, 0.0), (0.0, 0.0), 256.0);
    unstable.verdict = Verdict::Unstable;
    (unstable.attainment, unstable.ttft, unstable.p99_ttft) = (None, None, None);
    (unstable.tpot, unstable.itl) = (None, None);
    (unstable.running, unstable.waiting, unstable.kv_usage) = (None, None, None);
    (unstable.growth_per_s, unstable.output_throughput) = (0.4, None);
    unstable.request_throughput = Some(Estimate {
        value: 27.6,
        low: 27.2,
        high: 28.0,
    });
    KneeView {
        subject: "Llama-3.1-8B-Instruct on H100-SXM-80GB".into(),
        points: vec![
            stable(4.0, 1.0, (28.0, 61.0), (7.0, 8.6), 4.0),
            stable(8.0, 1.0, (31.0, 88.0), (7.4, 9.9), 8.0),
            stable(16.0, 0.999_2, (44.0, 171.0), (11.0, 16.2), 23.0),
            stable(22.0, 0.996, (78.0, 362.0), (15.9, 27.0), 45.0),
            stable(24.2, 0.990_1, (112.0, 498.0), (18.8, 33.1), 60.0),
            critical,
            unstable,
        ],
        knee: Some(Estimate {
            value: 24.2,
            low: 22.9,
            high: 25.3,
        }),
        saturation: Some(Estimate {
            value: 27.6,
            low: 26.1,
            high: 29.0,
        }),
        limits: vec![
            Limit {
                metric: "ttft".into(),
                limit_s: 0.5,
            },
            Limit {
                metric: "tpot".into(),
                limit_s: 0.05,
            },
        ],
        classes: Vec::new(),
        promises: Vec::new(),
        attainment: 0.99,
        is_interrupted: false,
        limited_by: Some("prefill compute (91 % of roof at the knee)".into()),
        trust: vec![
            ("decode".into(), Trust::Calibrated),
            ("prefill".into(), Trust::RooflineOnly),
        ],
        model: None,
        model_unknown: None,
        min_rate: None,
        notes: Vec::new(),
        ignored: Vec::new(),
        label: None,
        metadata: Vec::new(),
        sizing: None,
        assumptions: vec!["gpu_memory_utilization 0.92 (default of vllm@0.33)".into()],
    }
}

/// A run at 10 requests per second whose steady state is known.
pub(super) fn stable_run() -> RunResult {
    let steady = summary(1.0, 9_000, 900.0);
    RunResult {
        whole: summary(1.04, 10_000, 1_003.0),
        steady: Some(steady),
        steady_window_s: Some((51.0, 951.0)),
        verdict: Verdict::Stable,
        reasons: vec!["the number in the system returned to its median 412 times".into()],
        growth_per_s: 0.0,
        intervals: vec![
            (
                "ttft".into(),
                Estimate {
                    value: 0.0382,
                    low: 0.0377,
                    high: 0.0387,
                },
            ),
            (
                "attainment".into(),
                Estimate {
                    value: 0.997,
                    low: 0.996,
                    high: 0.998,
                },
            ),
            (
                "p99_ttft".into(),
                Estimate {
                    value: 0.088,
                    low: 0.081,
                    high: 0.095,
                },
            ),
            (
                "tpot".into(),
                Estimate {
                    value: 0.00766,
                    low: 0.00757,
                    high: 0.00775,
                },
            ),
        ],
        little: LittleAudit {
            system: LittleCheck {
                l: 9.812,
                lambda: 10.0,
                w: 0.9812,
            },
            waiting: LittleCheck {
                l: 0.0312,
                lambda: 10.0,
                w: 0.003_12,
            },
            running: LittleCheck {
                l: 9.781,
                lambda: 10.0,
                w: 0.9781,
            },
            front_ends: None,
        },
        violations: vec![],
        by_replica: vec![],
        tiers: None,
        by_class: vec![],
        class_attainment: vec![],
        by_pool: vec![],
        relays: None,
        series: series(),
        sampled_steps: vec![],
        records: None,
    }
}

/// The same server past saturation.
pub(super) fn unstable_run() -> RunResult {
    let mut run = stable_run();
    (run.verdict, run.steady, run.steady_window_s) = (Verdict::Unstable, None, None);
    run.reasons = vec!["the number in the system grew in 19 of 20 windows".into()];
    (run.growth_per_s, run.intervals) = (0.4, vec![]);
    run
}

/// Nothing was answered.
pub(super) fn failed_run() -> RunResult {
    let mut run = stable_run();
    (run.verdict, run.steady, run.steady_window_s) = (Verdict::TooShort, None, None);
    run.whole = Summary {
        sent: 8,
        timed_out: 8,
        ..empty_summary(0.005)
    };
    (run.reasons, run.intervals, run.series) = (vec!["8 requests are too few".into()], vec![], vec![]);
    let nothing = LittleCheck {
        l: 0.0,
        lambda: 0.0,
        w: 0.0,
    };
    run.little = LittleAudit {
        system: nothing,
        waiting: nothing,
        running: nothing,
        front_ends: None,
    };
    run
}

/// A run of two requests with records: one answered, one given up.
pub(super) fn recorded_run() -> RunResult {
    let completion =
        |id: u64, arrival: f64, first_token: Option<f64>, end: f64, output_tokens: u32| Completion {
            id: RequestId(id),
            replica: ReplicaId(0),
            outcome: if first_token.is_some() {
                Outcome::Completed
            } else {
                Outcome::TimedOut
            },
            arrival: Picos::from_seconds(arrival),
            client_queue_time: Picos::from_seconds(0.002),
            first_scheduled: Picos::from_seconds(arrival + 0.001),
            first_token: first_token.map(Picos::from_seconds),
            end: Picos::from_seconds(end),
            prompt_tokens: 1024,
            output_tokens,
            cached_tokens: 512,
            preemptions: 0,
            waiting_time: Picos::from_seconds(0.001),
        };
    let mut run = stable_run();
    run.records = Some(vec![
        RequestRecord {
            completion: completion(1, 0.5, None, 1.5, 0),
            class: 0,
            itls_s: vec![],
        },
        RequestRecord {
            completion: completion(0, 0.25, Some(0.3), 0.325, 3),
            class: 0,
            itls_s: vec![0.0125, 0.0125],
        },
    ]);
    run
}

fn summary(slowness: f64, completed: u64, duration_s: f64) -> Summary {
    let spread = |fastest: f64, slowest: f64| {
        let mut distribution = Distribution::default();
        for index in 0..1000u32 {
            let share = f64::from(index) / 999.0;
            let value = fastest * (slowest / fastest).powf(share.powi(3)) * slowness;
            distribution.record(Picos::from_seconds(value), completed / 1000);
        }
        distribution
    };
    Summary {
        sent: completed,
        completed,
        input_tokens: completed * 1024,
        output_tokens: completed * 128,
        ttft: spread(0.026, 0.091),
        tpot: spread(0.0069, 0.0102),
        itl: spread(0.0066, 0.031),
        e2el: spread(0.91, 1.4),
        queue_time: spread(0.001, 0.02),
        client_queue_time: Distribution::default(),
        good: Some(completed * 997 / 1000),
        occupancy: Occupancy {
            in_system: 9.812,
            waiting: 0.0312,
            running: 9.781,
            kv_usage: 0.0251,
            busy: 0.873,
            kv_usage_max: 0.061,
            running_max: 24,
            waiting_max: 4,
        },
        preemptions: 0,
        cache_queries_tokens: completed * 1024,
        cache_hit_tokens: completed * 256,
        max_in_flight: 26,
        max_output_tokens_per_s: 1_911.0,
        ..empty_summary(duration_s)
    }
}

fn empty_summary(duration_s: f64) -> Summary {
    Summary {
        duration_s,
        sent: 0,
        completed: 0,
        rejected: 0,
        timed_out: 0,
        failed: 0,
        inside: 0,
        input_tokens: 0,
        output_tokens: 0,
        ttft: Distribution::default(),
        tpot: Distribution::default(),
        itl: Distribution::default(),
        e2el: Distribution::default(),
        queue_time: Distribution::default(),
        client_queue_time: Distribution::default(),
        good: None,
        occupancy: Occupancy::default(),
        work: WorkCounters::default(),
        preemptions: 0,
        cache_queries_tokens: 0,
        cache_hit_tokens: 0,
        max_in_flight: 0,
        max_output_tokens_per_s: 0.0,
    }
}

/// 400 points that wander about a mean, from a small recurrence: no randomness in fixtures.
fn series() -> Vec<SeriesPoint> {
    let mut state: u64 = 1;
    let mut level: f64 = 0.0;
    (0..400u32)
        .map(|index| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let noise = (state >> 40) as f64 / f64::from(1u32 << 24) - 0.5;
            level += 0.25 * (9.8 - level) + 3.5 * noise;
            let draining = if index > 385 {
                f64::from(400 - index) / 14.0
            } else {
                1.0
            };
            let running = level.max(0.0) * draining;
            let waiting = (noise * 12.0 - 4.6).max(0.0) * draining;
            SeriesPoint {
                t_s: f64::from(index) * 2.5 + 1.25,
                running,
                waiting,
                kv_usage: running * 0.00257,
                in_system: running + waiting,
                output_tokens_per_s: running * 130.0,
                arrivals_per_s: 4.0,
                mean_itl_s: (running > 0.0).then_some(0.008 + running * 2e-4),
                max_itl_s: (running > 0.0).then_some(0.02 + running * 2e-3),
            }
        })
        .collect()
}

pub(super) fn roofline_view() -> RooflineView {
    let weights = 16.06e9;
    let step = |tokens: f64, context: f64, count: u64, phase: Phase| {
        let (flops, bytes) = (
            tokens * 16.06e9 + tokens * context * 262_144.0,
            weights + tokens.min(256.0) * context * 131_072.0,
        );
        let seconds = (flops / 730e12).max(bytes / 2.8e12) + 0.0006;
        RooflineStep {
            flops,
            bytes,
            seconds,
            count,
            phase,
        }
    };
    let decodes = [1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 16.0, 20.0, 24.0];
    let mut steps: Vec<RooflineStep> = decodes
        .iter()
        .map(|&batch| {
            step(
                batch,
                1100.0,
                (40_000.0 / (1.0 + (batch - 9f64).abs())) as u64,
                Phase::Decode,
            )
        })
        .collect();
    for tokens in [300.0, 1033.0, 1040.0, 1500.0, 2060.0, 4100.0] {
        steps.push(step(tokens, 600.0, 900, Phase::Mixed));
    }
    steps.push(step(1024.0, 512.0, 300, Phase::Prefill));
    steps.push(step(8192.0, 512.0, 60, Phase::Prefill));
    RooflineView {
        subject: "Llama-3.1-8B-Instruct on H100-SXM-80GB, vllm@0.33, 10.0 req/s".into(),
        peak_flops_per_s: 989.4e12,
        format: "bf16".into(),
        memory_bytes_per_s: 3.35e12,
        steps,
    }
}

pub(super) fn meta() -> ResultMeta {
    ResultMeta {
        date: jiff::civil::date(2026, 8, 16).at(16, 8, 53, 0),
        backend: "plimsoll".into(),
        label: None,
        model_id: "meta-llama/Llama-3.1-8B-Instruct".into(),
        gpu: "H100-SXM-80GB".into(),
        gpus_per_replica: 1,
        replicas: 1,
        pools: Vec::new(),
        classes: Vec::new(),
        attainment: 0.99,
        slo_kept: None,
        promises: Vec::new(),
        ended_by: None,
        router: None,
        gate: Vec::new(),
        scaling: None,
        lock_step: None,
        engine: "vllm@0.33".into(),
        calibration: Some("h100-sxm-80gb-vllm".into()),
        num_prompts: None,
        load: None,
        request_rate: 10.0,
        burstiness: 1.0,
        max_concurrency: None,
        ramp_up: None,
        metadata: vec![],
        percentiles: vec![99.0],
        metrics: ["ttft", "tpot", "itl", "e2el"].map(String::from).to_vec(),
        interrupted: None,
        goodput: vec![
            Limit {
                metric: "ttft".into(),
                limit_s: 0.5,
            },
            Limit {
                metric: "tpot".into(),
                limit_s: 0.05,
            },
        ],
        seed: 0,
        version: "0.1.0".into(),
        trust: vec![
            ("decode".into(), Trust::Calibrated),
            ("prefill".into(), Trust::RooflineOnly),
        ],
        model_interval: None,
        assumptions: vec!["gpu_memory_utilization 0.92 (default of vllm@0.33)".into()],
        ignored: vec!["--served-model-name: no effect on timing".into()],
        notes: vec![],
        utilisation: Some(Utilisation {
            mfu: 0.163,
            memory_bandwidth: 0.612,
            bandwidth_bound_tpot_s: 0.0051,
        }),
        waits: None,
        evicted_tokens: None,
    }
}

/// Two variants under four seeds: B halves TTFT and hits, for 5 % more TPOT.
pub(super) fn comparison() -> Versus {
    let of = |key: &str, values: [f64; 4]| (key.to_owned(), values.map(Some).to_vec());
    let variant = |name: &str, said: &str, known: Vec<(String, Vec<Option<f64>>)>| VariantView {
        model: None,
        name: name.to_owned(),
        said: said.to_owned(),
        verdicts: vec![Verdict::Stable; 4],
        figures: MEASURES
            .iter()
            .map(|measure| {
                let found = known.iter().find(|(key, _)| key == measure.key);
                found.map_or(vec![None; 4], |(_, values)| values.clone())
            })
            .collect(),
        steady: vec![vec![None; 4]; MEASURES.len()],
        remarks: Vec::new(),
        violations: Vec::new(),
        moved: (name != "A").then_some((0.021, 0.35)),
    };
    let a = vec![
        of("hit_rate", [0.0; 4]),
        of("mean_ttft_s", [0.40, 0.44, 0.38, 0.42]),
        of("p99_ttft_s", [1.0, 1.3, 0.9, 1.1]),
        of("mean_tpot_s", [0.010, 0.0101, 0.0099, 0.010]),
    ];
    let b = vec![
        of("hit_rate", [0.5, 0.52, 0.49, 0.51]),
        of("mean_ttft_s", [0.20, 0.22, 0.19, 0.21]),
        of("p99_ttft_s", [0.5, 1.9, 0.8, 1.2]),
        of("mean_tpot_s", [0.0105, 0.010_61, 0.0104, 0.0105]),
    ];
    Versus {
        subject: "Llama-3.1-8B-Instruct on H100-SXM-80GB".to_owned(),
        variants: vec![
            variant("A", "--schedule-policy fcfs", a),
            variant("B", "--schedule-policy lpm", b),
        ],
        requests: 2000,
        interrupted_of: None,
        is_paired: true,
        is_trace: false,
    }
}

/// Prompts behind so many prefixes, some more popular than others.
pub(super) fn prefixes(count: u32) -> WorkingSetView {
    let prompts = behind_prefixes(count, 2048);
    WorkingSetView {
        subject: "64 prefixes".to_owned(),
        curve: WorkingSet::of_traffic(Generator::new(&prompts, 1), u64::MAX, 16, |_| true).0,
        looked: Looked::AtAll,
        pool: Some(PoolMark {
            name: "Llama-3.1-8B-Instruct on L4".to_owned(),
            blocks: 2000,
            bytes_per_token: Some(131_072.0),
            replicas: 1,
            caches: true,
        }),
    }
}

/// Two thousand prompts of 128 tokens behind prefixes.
pub(super) fn behind_prefixes(count: u32, prefix_len: u32) -> WorkloadSpec {
    WorkloadSpec {
        classes: Vec::new(),
        arrivals: Arrivals::Poisson { request_rate: 1.0 },
        lengths: Lengths::Fixed {
            input_len: 128,
            output_len: 65,
        },
        prefix: Prefix::Groups {
            count,
            prefix_len,
            zipf: 1.0,
            exact_shares: false,
        },
        client: Client {
            max_concurrency: None,
            rescale_arrivals: false,
            timeout: None,
            priorities: Vec::new(),
        },
        num_prompts: Some(2000),
        duration: None,
        endings: None,
    }
}
