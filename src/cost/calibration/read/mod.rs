//! From the text of a calibration file to a [`Calibration`]: all problems at once.
//!
//! A walk over the parsed table rather than a derived reader, since that stops at the first problem and this one
//! names every unknown key, missing key and impossible value of the file.
mod fields;
mod kernels;

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use super::{
    AllReduce, Calibration, Copies, Direction, Elementwise, Evidence, GemmForm, Host, KernelFormat, OneShot,
    Provenance, Source,
};
use crate::cost::Trust;
use crate::cost::jitter::JitterLaw;
use crate::cost::operators::OPERATORS;
use crate::units::Picos;
use fields::{EFFICIENCY, Fields, NOT_NEGATIVE, POSITIVE};
use kernels::{read_attention, read_gemm, read_moe};

/// Why a calibration file cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("calibration `{name}`: {}", list(.problems))]
pub struct CalibrationError {
    /// The file's name.
    pub name: String,
    /// All that is wrong with it.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the key, `gemm.bf16.ec`; empty for the whole file.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "`{}` {}", self.key, self.message)
        }
    }
}

fn list(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Blocks that only a probe writes and that the step cost does not read.
const PROBE_BLOCKS: [&str; 5] = ["memory", "launch", "disk", "peer", "uncertainty"];

/// Keys of `[host_link]` that no form has.
const PROBE_LINK: [&str; 4] = ["bidir_gbs", "zero_copy_gbs", "pageable_gbs", "pcie"];

/// Keys of `[provenance]` that a probe writes for people.
const PROBE_PROVENANCE: [&str; 26] = [
    "probe_version",
    "kernels_version",
    "kernels_sha256",
    "gpu_uuid_sha256_12",
    "compute_capability",
    "sm_count",
    "l2_bytes",
    "memory_bytes",
    "driver",
    "cuda_driver",
    "nvrtc",
    "cublaslt",
    "nccl",
    "kernel_load",
    "host_cpu",
    "virtualised",
    "ecc",
    "mig",
    "clean",
    "skipped",
    "seed",
    "wall_s",
    "clocks",
    "mode",
    "profile",
    "host",
];

impl Calibration {
    /// Reads a calibration file of schema 1; `name` is the file's name without `.toml`.
    ///
    /// # Errors
    /// Lists every unknown key, missing key and impossible value.
    pub fn parse(name: &str, text: &str) -> Result<Calibration, CalibrationError> {
        let mut problems = Vec::new();
        let calibration = match text.parse::<Table>() {
            Ok(table) => read_file(name, table, &mut problems),
            Err(error) => {
                problems.push(Problem {
                    key: String::new(),
                    message: error.to_string().trim_end().to_owned(),
                });
                Calibration::default()
            }
        };
        if problems.is_empty() {
            Ok(calibration)
        } else {
            Err(CalibrationError {
                name: name.to_owned(),
                problems,
            })
        }
    }
}

fn read_file(name: &str, table: Table, problems: &mut Vec<Problem>) -> Calibration {
    let mut file = Fields::new(String::new(), table, problems);
    match file.take("schema") {
        Some(Value::Integer(1)) => {}
        Some(other) => file.problem("schema", format!("is {other}; this version reads schema 1")),
        None => file.problem("schema", "is missing; write `schema = 1`".to_owned()),
    }
    for block in PROBE_BLOCKS {
        file.take(block);
    }
    let mut calibration = Calibration {
        name: name.to_owned(),
        ..Calibration::default()
    };
    if let Some(provenance) = file.section("provenance", read_provenance) {
        calibration.provenance = provenance;
    } else {
        file.problem(
            "provenance",
            "is missing; say where the numbers come from".to_owned(),
        );
    }
    if let Some(value) = file.take("evidence") {
        match Evidence::from_value(value) {
            Ok(evidence) => calibration.evidence = Some(evidence),
            Err(message) => file.problem("evidence", message),
        }
    }
    let trust = calibration.provenance.source.trust();
    calibration.gemm = file.formats("gemm", |fields| read_gemm(fields, trust));
    calibration.moe = file.formats("moe", |fields| read_moe(fields, trust));
    let bf16_c5 = calibration
        .gemm
        .get(&KernelFormat::Bf16)
        .and_then(|gemm| match &gemm.form {
            GemmForm::C5(c5) => Some(c5.clone()),
            GemmForm::OccupancyPnorm(_) => None,
        });
    calibration.attention = file.section("attention", |fields| {
        read_attention(fields, trust, bf16_c5.as_ref())
    });
    calibration.elementwise = file.section("elementwise", |fields| read_elementwise(fields, trust));
    calibration.host = file
        .section("host", |fields| {
            fields.sections(|engine| read_host(engine, trust))
        })
        .unwrap_or_default();
    calibration.jitter = file
        .section("jitter", |fields| fields.sections(read_jitter))
        .unwrap_or_default();
    calibration.scale = file.section("scale", read_scale).unwrap_or_default();
    calibration.allreduce = file.array("allreduce", |fields| read_all_reduce(fields, trust));
    calibration.fused_allreduce = file.array("fused_allreduce", |fields| read_all_reduce(fields, trust));
    calibration.copies = file.section("host_link", read_copies).unwrap_or_default();
    file.finish();
    calibration
}

/// A probe measures the cost of a piece once, for both directions.
fn read_copies(fields: &mut Fields) -> BTreeMap<Direction, Copies> {
    for key in PROBE_LINK {
        fields.take(key);
    }
    let of_both = fields.number_or("per_copy_us", NOT_NEGATIVE, 0.0);
    let read_one = |(direction, key): (Direction, &str)| {
        let copies = fields.section(key, |fields| Copies {
            alpha_us: fields.number("alpha_us", NOT_NEGATIVE),
            per_copy_us: fields.number_or("per_copy_us", NOT_NEGATIVE, of_both),
            gbs: fields.number("gbs", POSITIVE),
        })?;
        Some((direction, copies))
    };
    Direction::ALL.into_iter().filter_map(read_one).collect()
}

fn read_provenance(fields: &mut Fields) -> Provenance {
    for key in PROBE_PROVENANCE {
        fields.take(key);
    }
    let source = match fields.text("source").as_deref() {
        Some("probe") => Source::Probe,
        Some("public-fit") => Source::PublicFit,
        Some("benchmark") => Source::Benchmark,
        Some("prior") => Source::Prior,
        Some("hand") => Source::Hand,
        Some("datasheet") => Source::Datasheet,
        other => {
            let found = other.map_or("is missing".to_owned(), |text| format!("is `{text}`"));
            let known = "one of probe, public-fit, benchmark, prior, hand, datasheet";
            fields.problem("source", format!("{found}; write {known}"));
            Source::Hand
        }
    };
    let date_utc = fields.text("date_utc");
    Provenance {
        source,
        gpu: fields.text("gpu").unwrap_or_default(),
        date: fields.text("date").or(date_utc).unwrap_or_default(),
        credit: fields.text("credit").unwrap_or_default(),
        notes: fields.texts("notes"),
    }
}

fn read_scale(fields: &mut Fields) -> BTreeMap<String, f64> {
    let read_one = |operator: &&str| {
        let factor = fields.optional_number(operator, 0.01..=100.0)?;
        Some(((*operator).to_owned(), factor))
    };
    OPERATORS.iter().filter_map(read_one).collect()
}

fn read_elementwise(fields: &mut Fields, trust: Trust) -> Elementwise {
    Elementwise {
        kernels_per_layer: fields.number("kernels_per_layer", NOT_NEGATIVE),
        sampling_kernels: fields.number("sampling_kernels", NOT_NEGATIVE),
        floor_us: fields.number("floor_us", NOT_NEGATIVE),
        bandwidth_efficiency: fields.number("eb", EFFICIENCY),
        trust: fields.trust(trust),
    }
}

fn read_all_reduce(fields: &mut Fields, trust: Trust) -> AllReduce {
    let one_shot = fields
        .optional_number("one_shot_gbs", POSITIVE)
        .map(|gbs| OneShot {
            gbs,
            two_shot_extra_us: fields.number("two_shot_extra_us", NOT_NEGATIVE),
        });
    AllReduce {
        gpus: fields.number("gpus", 2.0..=1024.0) as u32,
        overhead_us: fields.number("o_us", NOT_NEGATIVE),
        bus_gbs: fields.number("bus_gbs", POSITIVE),
        one_shot,
        trust: fields.trust(trust),
    }
}

/// Python's share of an operator under `enforce_eager` where a file says none: with 12 operators of 38 µs in all, a layer
/// takes 0.46 ms. Published decode steps: 8.4 ms for Llama-3.1-8B in plain PyTorch on H100 (0.26 ms a layer, against
/// 5.1 ms as a graph; "CUDA Graphs + torch.compile", cloudai.pt), 22 ms for a 7B of 28 layers in vLLM on A800 (0.79 ms
/// a layer, against 13 ms; vllm-omni issue 7960), 33 ms for LLaMA-7B (1.0 ms, against 14.5; vLLM issue 914). This is
/// the geometric middle of the first two, a prior: it is the host's Python that decides.
const EAGER_DISPATCH_US: f64 = 30.0;

fn read_host(fields: &mut Fields, trust: Trust) -> Host {
    Host {
        step_us: fields.number("step_us", NOT_NEGATIVE),
        per_seq_us: fields.number("per_seq_us", NOT_NEGATIVE),
        async_gap_us: fields.number("async_gap_us", NOT_NEGATIVE),
        async_gap_per_seq_us: fields.number("async_gap_per_seq_us", NOT_NEGATIVE),
        async_floor_us: fields.number("async_floor_us", NOT_NEGATIVE),
        async_floor_per_seq_us: fields.number("async_floor_per_seq_us", NOT_NEGATIVE),
        eager_launch_us: fields.number("eager_launch_us", NOT_NEGATIVE),
        eager_dispatch_us: fields.number_or("eager_dispatch_us", NOT_NEGATIVE, EAGER_DISPATCH_US),
        eager_kernels_per_layer: fields.number("eager_kernels_per_layer", NOT_NEGATIVE),
        piecewise_us_per_layer: fields.number("piecewise_us_per_layer", NOT_NEGATIVE),
        request_ms: fields.number("request_ms", NOT_NEGATIVE),
        request_serial_ms: fields.number_or("request_serial_ms", NOT_NEGATIVE, 0.0),
        per_prompt_token_us: fields.number("per_prompt_token_us", NOT_NEGATIVE),
        per_output_token_us: fields.number_or("per_output_token_us", 0.0..=1e6, 0.0),
        response_ms: fields.number("response_ms", NOT_NEGATIVE),
        trust: fields.trust(trust),
    }
}

/// Bounds as those of `--step-jitter`; a fitted law's stalls are part of the mean step.
fn read_jitter(fields: &mut Fields) -> JitterLaw {
    let cv = fields.number("cv", 0.0..=2.0);
    let stalls_per_s = fields.number_or("stalls_per_s", 0.0..=1000.0, 0.0);
    let stall_ms = fields.number_or("stall_ms", 0.0..=1e6, 0.0);
    if (stalls_per_s > 0.0) != (stall_ms > 0.0) {
        fields.problem(
            "stall_ms",
            "and `stalls_per_s` say nothing without each other".to_owned(),
        );
    }
    if stalls_per_s * stall_ms >= 500.0 {
        fields.problem(
            "stall_ms",
            "and `stalls_per_s` hold up steps half of the time".to_owned(),
        );
    }
    JitterLaw {
        cv,
        stalls_per_s,
        stall: Picos::from_seconds(1e-3 * stall_ms),
        stalls_in_mean: true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Rate;
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        match Calibration::parse("test", text) {
            Ok(_) => Vec::new(),
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn all_problems_of_a_file_are_reported_at_once() {
        let text = "schema = 2\ncolour = 1\n[provenance]\nsource = \"guess\"\n\
            [gemm.bf16]\nmodel = \"occupancy-pnorm\"\nec = 7.0\neb = \"fast\"\no_us = 3\npnorm = 4\nq9 = 1\n";
        assert_eq!(
            problems(text),
            [
                "`schema` is 2; this version reads schema 1",
                "`provenance.source` is `guess`; write one of probe, public-fit, benchmark, prior, hand, datasheet",
                "`gemm.bf16.ec` is 7; it must lie between 0.01 and 2",
                "`gemm.bf16.eb` must be a number, not string",
                "`gemm.bf16.q9` is not a key of schema 1",
                "`colour` is not a key of schema 1",
            ]
        );
    }

    #[test]
    fn a_probe_file_is_read_with_its_measured_values() {
        let text = r#"
            schema = 1
            [provenance]
            source = "probe"
            gpu = "NVIDIA H200"
            sm_count = 132
            [memory]
            read_gbs = { v = 4220.0, ci = [4205.0, 4236.0], n = 9 }
            [gemm.bf16]
            model = "C5"
            status = "ok"
            p_tflops = { v = 776.0, ci = [757.0, 795.0] }
            w_gbs = 4250
            t0_us = { v = 3.3 }
            pnorm = 3.9
            kappa_ns = 0.38
            points = [[1, 6144, 4096, 16.1, 16.0, 16.2, 9]]
            [gemm.fp8]
            status = "unsupported"
            [attention]
            w_att_gbs = 4370.0
            t0_kernel_us = 5.0
            t0_engine_extra_us = { v = 7.0, source = "prior" }
            per_seq_head_ns = 16.0
            per_token_ns = 0.13
            w_att_fp8_ratio = 0.71
            prefill_r = { v = 0.80, sd = 0.06, source = "prior" }
            prefill_w_ratio = 0.30
        "#;
        let calibration = Calibration::parse("mine", text).unwrap();
        assert_eq!(calibration.gemm.len(), 1, "an unsupported format is left out");
        assert_eq!(calibration.gemm[&KernelFormat::Bf16].trust, Trust::Measured);
        let attention = calibration.attention.unwrap();
        assert_eq!(attention.decode.t0_us, 12.0);
        assert_eq!(attention.prefill.compute, Rate::Absolute(0.80 * 776.0 * 1e12));
    }
}
