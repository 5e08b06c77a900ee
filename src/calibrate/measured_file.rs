//! The output of `plimsoll probe` as an input: its blocks stay, the times of its products are fitted to again.
//!
//! A probe writes its points beside what it fitted to them, so that they can be fitted together with tables, and their
//! residuals judged like any other's. Decode attention keeps the probe's parameters, with the error that they have on
//! its points. Left out: what only a probe reads (launches, links, disks), and what it holds as a prior.

use toml::{Table, Value};

use super::component::{bias, percent};
use super::number;
use super::observation::{Block, Kernel, Observation, format_name};
use super::tables::SIZE_MAX;
use crate::cost::calibration::{
    BlockEvidence, Calibration, CalibrationError, DecodeAttention, Evidence, KernelFormat, Rate, Source,
};
use crate::cost::kernel::GemmShape;
use crate::cost::operators::table_widths;

/// What a probe's file gave.
pub struct MeasuredFile {
    /// Its blocks, with the evidence of those that are not fitted again.
    pub calibration: Calibration,
    /// The times of its products.
    pub observations: Vec<Observation>,
    /// Points of all kinds.
    pub rows: u64,
    /// What was taken, in words.
    pub took: String,
    /// What was not.
    pub left: Vec<String>,
}

/// Why a TOML file is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredFileError {
    /// It is no calibration file, or a broken one.
    #[error("{file} cannot be read as the output of `plimsoll probe`: {problems}")]
    Broken {
        /// The file.
        file: String,
        /// All that is wrong with it.
        problems: CalibrationError,
    },
    /// It holds parameters and no points.
    #[error(
        "{0} is a calibration without measured points: start from it by `--base {0}`, or give the output of `plimsoll probe`"
    )]
    NoPoints(String),
    /// A key that the evidence needs is missing or wrong.
    #[error("{file}: `{key}` {message}")]
    Key {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A point is broken.
    #[error("{file}: `{key}[{index}]` {message}")]
    Point {
        /// The file.
        file: String,
        /// The list.
        key: String,
        /// From 0.
        index: usize,
        /// What is wrong.
        message: String,
    },
}

/// KV heads of the probe's decode attention, and bytes of one token of one of them: 128 wide, keys and values, 16 bits.
const KV_HEADS: f64 = 8.0;
const KV_BYTES: f64 = 512.0;

/// Reads a probe's file; `input` is remembered in each observation.
///
/// # Errors
/// A file that is no calibration, has no points, or a point that is none.
pub fn read(file: &str, text: &str, input: usize) -> Result<MeasuredFile, MeasuredFileError> {
    let name = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".toml");
    let broken = |problems| MeasuredFileError::Broken {
        file: file.to_owned(),
        problems,
    };
    let mut calibration = Calibration::parse(name, text).map_err(broken)?;
    let table: Table = text.parse().unwrap_or_default();
    let mut observations = Vec::new();
    for (format, _) in KernelFormat::ALL {
        let key = format!("gemm.{}.points", format_name(format));
        for (index, point) in points(&table, &key).iter().enumerate() {
            observations.push(
                product(format, point, input).map_err(|message| MeasuredFileError::Point {
                    file: file.to_owned(),
                    key: key.clone(),
                    index,
                    message,
                })?,
            );
        }
    }
    let pages = points(&table, "memory.kv_pages");
    if calibration.provenance.source != Source::Probe || observations.is_empty() && pages.is_empty() {
        return Err(MeasuredFileError::NoPoints(file.to_owned()));
    }
    let attention = calibration.attention.as_ref();
    let evidence = attention.map(|attention| decode_evidence(&table, &attention.decode, pages));
    let decode = evidence
        .transpose()
        .map_err(|message| MeasuredFileError::Key {
            file: file.to_owned(),
            key: "attention.sigma_ln",
            message,
        })?
        .flatten();
    calibration.evidence = Some(Evidence {
        blocks: decode.into_iter().collect(),
        ..Evidence::default()
    });
    let rows = (observations.len() + pages.len()) as u64;
    Ok(MeasuredFile {
        took: took(&calibration, observations.len(), pages.len()),
        left: left(&table),
        calibration,
        observations,
        rows,
    })
}

fn took(calibration: &Calibration, products: usize, pages: usize) -> String {
    let provenance = &calibration.provenance;
    let mut text = format!(
        "plimsoll probe of {}, {}: {products} times of products, fitted again",
        provenance.gpu, provenance.date
    );
    if pages > 0 {
        text += &format!("; decode attention as the probe fitted it to {pages} points");
    }
    if !calibration.copies.is_empty() {
        text += "; copies over the host link as it fitted them, for tiers of KV and for what swaps";
    }
    for note in &provenance.notes {
        text += &format!("; note: {note}");
    }
    text
}

fn left(table: &Table) -> Vec<String> {
    let mut left = Vec::new();
    if table.contains_key("attention") {
        left.push(
            "prefill attention: the probe's kernel is no engine's, its share of the peak stays a prior"
                .to_owned(),
        );
    }
    let unread: Vec<&str> = ["launch", "disk", "peer"]
        .into_iter()
        .filter(|block| table.contains_key(*block))
        .collect();
    if !unread.is_empty() {
        left.push(format!("{}: no step's time reads them", unread.join(", ")));
    }
    left
}

/// A list of lists at a path; empty where there is none.
fn points<'a>(table: &'a Table, path: &str) -> &'a [Value] {
    let mut keys = path.split('.');
    let first = keys.next().and_then(|key| table.get(key));
    let found = keys.try_fold(first, |value, key| Some(value?.get(key)));
    let list = found.flatten().and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn numbers(point: &Value) -> Option<Vec<f64>> {
    let numbers: Option<Vec<f64>> = point.as_array()?.iter().map(number).collect();
    numbers.filter(|numbers| numbers.iter().all(|number| number.is_finite() && *number > 0.0))
}

/// `[m, n, k, median us, ci low, ci high, samples]`.
fn product(format: KernelFormat, point: &Value, input: usize) -> Result<Observation, String> {
    let wrong = "must be [m, n, k, median us, ci low, ci high, samples], all above 0";
    let numbers = numbers(point).ok_or(wrong)?;
    let [m, n, k, us, ..] = numbers[..] else {
        return Err(wrong.to_owned());
    };
    if [m, n, k].iter().any(|size| *size > SIZE_MAX as f64) {
        return Err(format!("has a size above {SIZE_MAX}"));
    }
    let (weight_bytes, input_bytes) = table_widths(format);
    let shape = GemmShape {
        m: m as u64,
        n: n as u64,
        k: k as u64,
        weight_bytes,
        input_bytes,
        // The probe's integer products write sums of 32 bits.
        output_bytes: if format == KernelFormat::Int8 { 4.0 } else { 2.0 },
    };
    Ok(Observation {
        block: Block::Gemm(format),
        kernel: Kernel::Gemm(shape),
        seconds: us * 1e-6,
        shape: format!("{n} x {k}"),
        input,
    })
}

/// How far the probe's decode attention is off its own points `[batch, context, us of reads, us of attention]`; what is
/// wrong with its σ.
fn decode_evidence(
    table: &Table,
    decode: &DecodeAttention,
    pages: &[Value],
) -> Result<Option<(String, BlockEvidence)>, String> {
    let Some(attention) = table.get("attention") else {
        return Ok(None);
    };
    let value = |key: &str| {
        let value = attention.get(key)?;
        number(value.get("v").unwrap_or(value))
    };
    let Rate::Absolute(bandwidth) = decode.bandwidth else {
        return Ok(None);
    };
    // Without what engines add.
    let (Some(floor), Some(per_seq_head_ns)) = (value("t0_kernel_us"), value("per_seq_head_ns")) else {
        return Ok(None);
    };
    let error = |point: &Value| {
        let [batch, context, _, us, ..] = numbers(point)?[..] else {
            return None;
        };
        let heads = batch * KV_HEADS;
        let tokens = heads * context * KV_BYTES / bandwidth;
        let terms = per_seq_head_ns * heads + decode.per_token_ns * context;
        Some(((floor + 1e-3 * terms + 1e6 * tokens) / us).ln())
    };
    let errors: Vec<f64> = pages.iter().filter_map(error).collect();
    if errors.is_empty() {
        return Ok(None);
    }
    let interval = |key: &str| {
        let ends = attention.get(key)?.get("ci")?.as_array()?;
        let [low, high] = ends.iter().filter_map(Value::as_float).collect::<Vec<_>>()[..] else {
            return None;
        };
        Some((key.to_owned(), [low, high]))
    };
    let fitted = ["w_att_gbs", "per_seq_head_ns", "per_token_ns", "t0_kernel_us"];
    // σ of a fit to points; more than e² either way is no fit.
    let sigma_ln = match value("sigma_ln") {
        Some(sigma) if (0.0..=2.0).contains(&sigma) => sigma,
        Some(sigma) => return Err(format!("is {sigma}: the error of a fit lies between 0 and 2")),
        None => {
            return Err(
                "is missing: the error of the fit to these points, as `plimsoll probe` writes it".to_owned(),
            );
        }
    };
    let evidence = BlockEvidence {
        rows: errors.len() as u64,
        shapes: 1,
        residual_median_pct: percent(&errors, 0.5),
        residual_p95_pct: percent(&errors, 0.95),
        bias_pct: bias(&errors),
        sigma_ln,
        interval_90: fitted.into_iter().filter_map(interval).collect(),
        ..BlockEvidence::default()
    };
    Ok(Some(("attention.decode".to_owned(), evidence)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: &str = "schema = 1\n[provenance]\nsource = \"probe\"\ngpu = \"NVIDIA H200\"\n\
        [memory]\nkv_pages = [[8, 8192, 60.0, 75.0], [32, 2048, 60.0, 80.0]]\n\
        [gemm.bf16]\nmodel = \"C5\"\nstatus = \"ok\"\np_tflops = 776.0\nw_gbs = 4250.0\nt0_us = 3.3\npnorm = 3.9\n\
        kappa_ns = 0.38\npoints = [[1, 6144, 4096, 16.1, 16.0, 16.2, 9], [64, 6144, 4096, 17.0, 16.0, 18.2, 9]]\n\
        [attention]\nw_att_gbs = { v = 4370.0, ci = [4300.0, 4420.0] }\nt0_kernel_us = 5.0\nt0_engine_extra_us = 7.0\n\
        per_seq_head_ns = 16.0\nper_token_ns = 0.13\nprefill_r = 0.8\nprefill_w_ratio = 0.3\nsigma_ln = 0.07\n";

    #[test]
    fn the_error_of_the_attentions_fit_is_read_and_never_made_up() {
        let said = |instead: &str| {
            let text = PROBE.replace("sigma_ln = 0.07\n", instead);
            assert_ne!(text, PROBE);
            read("mine.toml", &text, 0).err().map(|error| error.to_string())
        };
        assert!(said("").is_some_and(|told| told.contains("`attention.sigma_ln` is missing")));
        assert!(said("sigma_ln = 9.0\n").is_some_and(|told| told.contains("is 9")));
        assert_eq!(said("sigma_ln = 0.1\n"), None);
    }

    #[test]
    fn the_points_of_a_probe_are_observations_and_its_blocks_stay() {
        let read = read("dir/mine.toml", PROBE, 3).unwrap();
        assert_eq!((read.observations.len(), read.rows), (2, 4));
        let first = &read.observations[0];
        assert_eq!((first.block, first.input), (Block::Gemm(KernelFormat::Bf16), 3));
        assert!((first.seconds - 16.1e-6).abs() < 1e-12);
        let evidence = &read.calibration.evidence.unwrap().blocks["attention.decode"];
        // 5 + 1.0 + 1.1 + 61.4 us against 75, and 5 + 4.1 + 0.3 + 61.4 against 80.
        assert!(
            (7.0..12.0).contains(&evidence.residual_median_pct),
            "{evidence:?}"
        );
        assert_eq!(evidence.sigma_ln, 0.07);
    }

    #[test]
    fn a_file_without_points_is_told_from_a_broken_one() {
        let told = |text: &str| read("x.toml", text, 0).err().unwrap().to_string();
        assert!(told("schema = 1\n[provenance]\nsource = \"prior\"\n").contains("--base x.toml"));
        assert!(told("model = 3").contains("`schema` is missing"));
        let wrong = PROBE.replace("16.1, 16.0", "-16.1, 16.0");
        assert!(told(&wrong).contains("`gemm.bf16.points[0]` must be"));
    }
}
