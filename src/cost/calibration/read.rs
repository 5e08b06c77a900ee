//! From the text of a calibration file to a [`Calibration`]: all problems at once.
//!
//! A walk over the parsed table rather than a derived reader, since that stops at the first problem and this one
//! names every unknown key, missing key and impossible value of the file.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use toml::{Table, Value};

use super::{
    AllReduce, Attention, C5, Calibration, DecodeAttention, Elementwise, Evidence, Gemm, GemmForm, Host,
    KernelFormat, Moe, Occupancy, OccupancyPnorm, OneShot, PrefillAttention, Provenance, Rate, Residual,
    Source,
};
use crate::cost::Trust;
use crate::cost::operators::OPERATORS;

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
const PROBE_BLOCKS: [&str; 6] = ["memory", "launch", "host_link", "disk", "peer", "uncertainty"];

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
    calibration.scale = file.section("scale", read_scale).unwrap_or_default();
    calibration.allreduce = file.array("allreduce", |fields| read_all_reduce(fields, trust));
    file.finish();
    calibration
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

fn read_gemm(fields: &mut Fields, trust: Trust) -> Option<Gemm> {
    for key in [
        "zeros_over_random",
        "best_of_8_over_first",
        "bias_ln",
        "points",
        "out",
        "residuals",
    ] {
        fields.take(key);
    }
    let status = fields.text("status");
    let form = match fields.text("model").as_deref() {
        Some("occupancy-pnorm") => Some(GemmForm::OccupancyPnorm(read_occupancy_pnorm(fields))),
        // The residual table of `C5+residual` is not used: it corrects points, and a step sums many.
        Some("C5" | "C5+residual") => Some(GemmForm::C5(C5 {
            p_tflops: fields.number("p_tflops", POSITIVE),
            w_gbs: fields.number("w_gbs", POSITIVE),
            t0_us: fields.number("t0_us", NOT_NEGATIVE),
            pnorm: fields.number("pnorm", PNORM),
            kappa_ns: fields.number("kappa_ns", NOT_NEGATIVE),
        })),
        _ if status.as_deref().is_some_and(|status| status != "ok") => None,
        other => {
            let found = other.map_or("is missing".to_owned(), |text| format!("is `{text}`"));
            fields.problem("model", format!("{found}; write `occupancy-pnorm` or `C5`"));
            None
        }
    };
    let gemm = Gemm {
        sustained_over_burst: fields.number_or("sustained_over_burst", 0.3..=1.05, 1.0),
        residual: read_residual(fields),
        trust: fields.trust(trust),
        form: form?,
    };
    status.is_none_or(|status| status == "ok").then_some(gemm)
}

fn read_scale(fields: &mut Fields) -> BTreeMap<String, f64> {
    let read_one = |operator: &&str| {
        let factor = fields.optional_number(operator, 0.01..=100.0)?;
        Some(((*operator).to_owned(), factor))
    };
    OPERATORS.iter().filter_map(read_one).collect()
}

fn read_occupancy_pnorm(fields: &mut Fields) -> OccupancyPnorm {
    let tile = fields.integers("tile");
    if !(tile.is_empty() || matches!(tile[..], [1..=4096, 1..=4096])) {
        fields.problem(
            "tile",
            "must be two integers from 1 to 4096, `[rows, columns]`".to_owned(),
        );
    }
    let occupancy = match fields.text("occupancy").as_deref() {
        None | Some("smooth") => Occupancy::Smooth,
        Some("wave") => Occupancy::Wave,
        Some(other) => {
            fields.problem("occupancy", format!("is `{other}`; write `smooth` or `wave`"));
            Occupancy::Smooth
        }
    };
    OccupancyPnorm {
        compute_efficiency: fields.number("ec", EFFICIENCY),
        bandwidth_efficiency: fields.number("eb", EFFICIENCY),
        overhead_us: fields.number("o_us", NOT_NEGATIVE),
        pnorm: fields.number("pnorm", PNORM),
        // Above 1 a product with more tiles could be faster than one with fewer.
        occupancy_exponent: fields.number_or("a", 0.0..=1.0, 0.0),
        occupancy,
        tile: match tile[..] {
            [rows @ 1..=4096, columns @ 1..=4096] => (rows as u32, columns as u32),
            _ => (128, 128),
        },
        quantize_us: fields.number_or("q0_us", NOT_NEGATIVE, 0.0),
        quantize_passes: fields.number_or("q1", NOT_NEGATIVE, 0.0),
    }
}

fn read_residual(fields: &mut Fields) -> Residual {
    Residual {
        median_pct: fields.optional_number("residual_median_pct", NOT_NEGATIVE),
        p95_pct: fields.optional_number("residual_p95_pct", NOT_NEGATIVE),
        sigma_ln: fields.optional_number("sigma_ln", NOT_NEGATIVE),
    }
}

fn read_moe(fields: &mut Fields, trust: Trust) -> Option<Moe> {
    Some(Moe {
        compute_efficiency: fields.number("ec", EFFICIENCY),
        bandwidth_efficiency: fields.number("eb", EFFICIENCY),
        overhead_us: fields.number("o_us", NOT_NEGATIVE),
        pnorm: fields.number("pnorm", PNORM),
        padding_rows: fields.number_or("padding_rows", NOT_NEGATIVE, 0.0),
        residual: read_residual(fields),
        trust: fields.trust(trust),
    })
}

/// Reads shares of ceilings, or the absolute rates and the ratios to the GEMM's rates that a probe writes.
fn read_attention(fields: &mut Fields, trust: Trust, bf16: Option<&C5>) -> Attention {
    for key in ["head_dim", "sigma_ln", "prefill_q", "prefill_proxy_tflops"] {
        fields.take(key);
    }
    let decode = read_decode_attention(fields);
    let fp8_ratio = fields.optional_number("w_att_fp8_ratio", POSITIVE);
    let fp8 = fields.section("fp8_kv", read_decode_attention);
    let decode_fp8_kv = fp8.unwrap_or_else(|| {
        let ratio = fp8_ratio.unwrap_or(1.0);
        let bandwidth = match decode.bandwidth {
            Rate::Absolute(rate) => Rate::Absolute(rate * ratio),
            Rate::Share(share) => Rate::Share(share * ratio),
        };
        DecodeAttention {
            bandwidth,
            ..decode.clone()
        }
    });
    let prefill = read_prefill_attention(fields, bf16);
    for key in ["residual_decode_pct", "residual_prefill_pct"] {
        fields.optional_number(key, NOT_NEGATIVE);
    }
    Attention {
        decode,
        decode_fp8_kv,
        prefill,
        trust: fields.trust(trust),
    }
}

fn read_prefill_attention(fields: &mut Fields, bf16: Option<&C5>) -> PrefillAttention {
    if let Some(ratio) = fields.optional_number("prefill_r", EFFICIENCY) {
        let w_ratio = fields.number("prefill_w_ratio", EFFICIENCY);
        let Some(c5) = bf16 else {
            fields.problem(
                "prefill_r",
                "is relative to `gemm.bf16` of model `C5`, which is absent".to_owned(),
            );
            return PrefillAttention {
                overhead_us: 0.0,
                compute: Rate::Share(ratio),
                bandwidth: Rate::Share(w_ratio),
            };
        };
        return PrefillAttention {
            overhead_us: fields.number_or("prefill_o_us", NOT_NEGATIVE, PREFILL_OVERHEAD_US),
            compute: Rate::Absolute(ratio * c5.p_tflops * 1e12),
            bandwidth: Rate::Absolute(w_ratio * c5.w_gbs * 1e9),
        };
    }
    PrefillAttention {
        overhead_us: fields.number("prefill_o_us", NOT_NEGATIVE),
        compute: match fields.optional_number("prefill_tflops", POSITIVE) {
            Some(tflops) => Rate::Absolute(tflops * 1e12),
            None => Rate::Share(fields.number("prefill_ec", EFFICIENCY)),
        },
        bandwidth: match fields.optional_number("prefill_gbs", POSITIVE) {
            Some(gbs) => Rate::Absolute(gbs * 1e9),
            None => Rate::Share(fields.number("prefill_eb", EFFICIENCY)),
        },
    }
}

fn read_decode_attention(fields: &mut Fields) -> DecodeAttention {
    let kernel_us = fields.optional_number("t0_kernel_us", NOT_NEGATIVE);
    let engine_extra_us = fields.number_or("t0_engine_extra_us", NOT_NEGATIVE, 0.0);
    DecodeAttention {
        t0_us: match kernel_us {
            Some(kernel_us) => kernel_us + engine_extra_us,
            None => fields.number("t0_us", NOT_NEGATIVE),
        },
        per_seq_head_ns: fields.number("per_seq_head_ns", NOT_NEGATIVE),
        per_token_ns: fields.number("per_token_ns", NOT_NEGATIVE),
        bandwidth: match fields.optional_number("w_att_gbs", POSITIVE) {
            Some(gbs) => Rate::Absolute(gbs * 1e9),
            None => Rate::Share(fields.number("decode_eb", EFFICIENCY)),
        },
    }
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

fn read_host(fields: &mut Fields, trust: Trust) -> Host {
    Host {
        step_us: fields.number("step_us", NOT_NEGATIVE),
        per_seq_us: fields.number("per_seq_us", NOT_NEGATIVE),
        async_gap_us: fields.number("async_gap_us", NOT_NEGATIVE),
        async_gap_per_seq_us: fields.number("async_gap_per_seq_us", NOT_NEGATIVE),
        async_floor_us: fields.number("async_floor_us", NOT_NEGATIVE),
        async_floor_per_seq_us: fields.number("async_floor_per_seq_us", NOT_NEGATIVE),
        eager_launch_us: fields.number("eager_launch_us", NOT_NEGATIVE),
        eager_kernels_per_layer: fields.number("eager_kernels_per_layer", NOT_NEGATIVE),
        piecewise_us_per_layer: fields.number("piecewise_us_per_layer", NOT_NEGATIVE),
        request_ms: fields.number("request_ms", NOT_NEGATIVE),
        per_prompt_token_us: fields.number("per_prompt_token_us", NOT_NEGATIVE),
        response_ms: fields.number("response_ms", NOT_NEGATIVE),
        trust: fields.trust(trust),
    }
}

/// Of FlashAttention 3 under vLLM on H100 and H200; probe files carry none.
const PREFILL_OVERHEAD_US: f64 = 12.0;
const NOT_NEGATIVE: RangeInclusive<f64> = 0.0..=1e9;
const POSITIVE: RangeInclusive<f64> = 1e-9..=1e9;
/// Fitted efficiencies may exceed 1 where a p-norm or a quantization term shares the time.
const EFFICIENCY: RangeInclusive<f64> = 0.01..=2.0;
const PNORM: RangeInclusive<f64> = 0.5..=100.0;

/// The keys of one table, taken one by one; what is left at the end is unknown.
struct Fields<'p> {
    path: String,
    table: Table,
    problems: &'p mut Vec<Problem>,
}

impl<'p> Fields<'p> {
    fn new(path: String, table: Table, problems: &'p mut Vec<Problem>) -> Fields<'p> {
        Fields {
            path,
            table,
            problems,
        }
    }

    fn key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn problem(&mut self, key: &str, message: String) {
        let key = self.key(key);
        self.problems.push(Problem { key, message });
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        self.table.remove(key)
    }

    fn finish(self) {
        for key in self.table.keys() {
            self.problems.push(Problem {
                key: self.key(key),
                message: "is not a key of schema 1".to_owned(),
            });
        }
    }

    /// A number, or the `v` of a table `{ v, ci, n, sd, source }`.
    fn optional_number(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = match self.take(key)? {
            Value::Table(mut table) => {
                let inner = table.remove("v");
                table.retain(|name, _| !matches!(name, "ci" | "n" | "sd" | "source"));
                for name in table.keys() {
                    self.problem(
                        key,
                        format!("has `{name}`; a measured value has v, ci, n, sd and source"),
                    );
                }
                inner.unwrap_or(Value::Boolean(false))
            }
            value => value,
        };
        let number = match value {
            Value::Float(number) => number,
            Value::Integer(number) => number as f64,
            other => {
                self.problem(key, format!("must be a number, not {}", other.type_str()));
                return None;
            }
        };
        if range.contains(&number) {
            return Some(number);
        }
        self.problem(
            key,
            format!(
                "is {number}; it must lie between {} and {}",
                range.start(),
                range.end()
            ),
        );
        None
    }

    fn number_or(&mut self, key: &str, range: RangeInclusive<f64>, absent: f64) -> f64 {
        self.optional_number(key, range).unwrap_or(absent)
    }

    /// A number that must be there; a problem and the range's start otherwise.
    fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> f64 {
        let start = *range.start();
        if !self.table.contains_key(key) {
            self.problem(key, "is missing".to_owned());
            return start;
        }
        self.number_or(key, range, start)
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.take(key)? {
            Value::String(text) => Some(text),
            other => {
                self.problem(key, format!("must be a string, not {}", other.type_str()));
                None
            }
        }
    }

    fn list(&mut self, key: &str) -> Vec<Value> {
        match self.take(key) {
            None => Vec::new(),
            Some(Value::Array(values)) => values,
            Some(other) => {
                self.problem(key, format!("must be a list, not {}", other.type_str()));
                Vec::new()
            }
        }
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        let values = self.list(key);
        let texts: Vec<String> = values
            .iter()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect();
        if texts.len() < values.len() {
            self.problem(key, "must hold strings only".to_owned());
        }
        texts
    }

    fn integers(&mut self, key: &str) -> Vec<i64> {
        let values = self.list(key);
        let integers: Vec<i64> = values.iter().filter_map(Value::as_integer).collect();
        if integers.len() < values.len() {
            self.problem(key, "must hold integers only".to_owned());
        }
        integers
    }

    fn trust(&mut self, default: Trust) -> Trust {
        match self.text("trust").as_deref() {
            None => default,
            Some("measured") => Trust::Measured,
            Some("calibrated") => Trust::Calibrated,
            Some("prior") => Trust::Prior,
            Some("roofline") => Trust::RooflineOnly,
            Some(other) => {
                let known = "write measured, calibrated, prior or roofline";
                self.problem("trust", format!("is `{other}`; {known}"));
                default
            }
        }
    }

    fn section<T>(&mut self, key: &str, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        match self.take(key)? {
            Value::Table(table) => {
                let mut fields = Fields::new(self.key(key), table, self.problems);
                let value = read(&mut fields);
                fields.finish();
                Some(value)
            }
            other => {
                self.problem(key, format!("must be a table, not {}", other.type_str()));
                None
            }
        }
    }

    fn sections<T>(&mut self, mut read: impl FnMut(&mut Fields) -> T) -> BTreeMap<String, T> {
        let names: Vec<String> = self.table.keys().cloned().collect();
        let read_one = |name: String| self.section(&name, &mut read).map(|value| (name, value));
        names.into_iter().filter_map(read_one).collect()
    }

    /// A table of one section for each number format.
    fn formats<T>(
        &mut self,
        key: &str,
        mut read: impl FnMut(&mut Fields) -> Option<T>,
    ) -> BTreeMap<KernelFormat, T> {
        let read_all = |fields: &mut Fields| {
            let read_one = |(format, name): (KernelFormat, &str)| {
                fields
                    .section(name, &mut read)
                    .flatten()
                    .map(|value| (format, value))
            };
            KernelFormat::ALL.into_iter().filter_map(read_one).collect()
        };
        self.section(key, read_all).unwrap_or_default()
    }

    fn array<T>(&mut self, key: &str, mut read: impl FnMut(&mut Fields) -> T) -> Vec<T> {
        let mut entries = Vec::new();
        for (index, value) in self.list(key).into_iter().enumerate() {
            let path = format!("{}[{index}]", self.key(key));
            if let Value::Table(table) = value {
                let mut fields = Fields::new(path, table, self.problems);
                entries.push(read(&mut fields));
                fields.finish();
            } else {
                self.problem(key, "must hold tables only".to_owned());
            }
        }
        entries
    }
}

#[cfg(test)]
mod tests {
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
