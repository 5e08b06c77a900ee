//! Invented results for the tests of printers and charts.

mod knees;
mod runs;
mod sweeps;

pub(super) use self::knees::{knee_view, ranking, sizing};
pub(super) use self::runs::{failed_run, recorded_run, stable_run, unstable_run};
pub(super) use self::sweeps::sweep_view;

use super::chart::{Phase, RooflineStep, RooflineView};
use super::versus::{MEASURES, VariantView, Versus};
use super::working_set::{PoolMark, WorkingSetView};
use super::{Limit, ResultMeta, Utilisation};
use crate::analysis::{Looked, Verdict, WorkingSet};
use crate::cost::Trust;
use crate::metrics::{Anatomies, RequestAnatomy, TtftPart};
use crate::units::Picos;
use crate::workload::{Arrivals, Client, Draws, Generator, Lengths, Prefix, WorkloadSpec};

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
        gpus: 1,
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
        asked_for: None,
        label: None,
        model_id: "meta-llama/Llama-3.1-8B-Instruct".into(),
        precision: Some("bfloat16".into()),
        gpu: "H100-SXM-80GB".into(),
        closed_form: None,
        gpus_per_replica: 1,
        stages: 1,
        replicas: 1,
        pools: Vec::new(),
        classes: Vec::new(),
        attainment: 0.99,
        slo_kept: None,
        slo_decided: None,
        promises: Vec::new(),
        ended_by: None,
        router: None,
        gate: Vec::new(),
        scaling: None,
        lock_step: None,
        rent: Err("the profile of H100-SXM-80GB has no [price]".into()),
        engine: "vllm@0.33".into(),
        calibration: Some("h100-sxm-80gb-vllm".into()),
        num_prompts: None,
        sending_s: None,
        load: None,
        request_rate: 10.0,
        clients: 1,
        turns: None,
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
        settings: vec![("engine.max_num_seqs".into(), "1024".into())],
        utilisation: Some(Utilisation {
            mfu: 0.163,
            memory_bandwidth: 0.612,
            busy: 0.8,
            bandwidth_bound_tpot_s: 0.0051,
        }),
        anatomy: None,
        waits: None,
        evicted_tokens: None,
    }
}

/// Two variants under four seeds: B halves TTFT and hits, for 5 % more TPOT.
pub(super) fn comparison() -> Versus {
    let of = |key: &str, values: [f64; 4]| (key.to_owned(), values.map(Some).to_vec());
    let variant = |name: &str, said: &str, known: Vec<(String, Vec<Option<f64>>)>| VariantView {
        model: None,
        trust: vec![("decode".into(), Trust::Calibrated)],
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
            draws: Draws::Own,
            timeout: None,
            priorities: Vec::new(),
        },
        num_prompts: Some(2000),
        duration: None,
        endings: None,
    }
}

/// What became of the requests of so many runs: the slower the longer it waited for a seat, and cheaper in company.
pub(super) fn anatomies(runs: usize) -> Anatomies {
    let request = |nth: i64| {
        let mut ttft = [0; TtftPart::COUNT];
        for (part, picos) in [
            (TtftPart::FrontEndIn, 6_000_000_000),
            (TtftPart::Seats, nth * 1_000_000_000),
            (TtftPart::OwnPrefill, 30_000_000_000),
            (TtftPart::Interference, -2_000_000_000),
            (TtftPart::FrontEndOut, 1_000_000_000),
        ] {
            ttft[part as usize] = picos;
        }
        let tokens = Some([90_000_000_000, 20_000_000_000, 0, 0, -1_000_000]);
        RequestAnatomy {
            ended: Picos(0),
            ttft,
            tokens,
            gaps: 10,
            prompt_tokens: 512,
        }
    };
    Anatomies::of((0..100 * runs as i64).map(request).collect())
}
