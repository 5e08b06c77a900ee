//! `plimsoll calibrations`: what ships, and how well each part of it is known.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::{Exit, inputs};
use crate::cost::Trust;
use crate::cost::calibration::{Calibration, KernelFormat, Residual, Source, shipped, shipped_names};
use crate::report::tables::Column;
use crate::report::{folded, table_on, trust_mark, trust_word};

/// The calibrations that ship, and how well each is known.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll calibrations
  plimsoll calibrations h100-sxm-80gb-vllm
  plimsoll calibrations h100-sxm-80gb-vllm --format toml > mine.toml   # to edit, for --calibration mine.toml
  plimsoll calibrations mine.toml
  plimsoll calibrations --format json")]
pub struct Args {
    /// One of them, or a file, in full: every block with its error.
    #[arg(value_name = "NAME|FILE.toml")]
    pub name: Option<String>,
    /// text or json; of one calibration also toml, its file.
    #[arg(long, default_value = "text", value_parser = super::text_or(&["json", "toml"]))]
    pub format: String,
}

/// Runs the command.
///
/// # Errors
/// A name that does not ship, a file that cannot be read, and TOML of all of them.
pub fn run(args: &Args, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<ExitCode> {
    if args.format == "toml" {
        let Some(name) = &args.name else {
            bail!("`--format toml` writes one calibration: plimsoll calibrations NAME --format toml");
        };
        // What is no calibration is not passed on as one.
        inputs::calibration(name)?;
        out.write_all(inputs::calibration_text(name)?.as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    let named = args.name.as_deref().map(inputs::calibration).transpose()?;
    let all: Vec<Calibration> = match named {
        Some(one) => vec![one],
        None => shipped_names().filter_map(shipped).collect(),
    };
    if args.format == "json" {
        let list: Vec<Value> = all.iter().map(as_json).collect();
        writeln!(out, "{:#}", json!({ "format_version": 1, "calibrations": list }))?;
    } else if args.name.is_some() {
        let texts = all.iter().map(|one| in_full(one, width));
        out.write_all(texts.collect::<String>().as_bytes())?;
    } else {
        out.write_all(list(&all, width).as_bytes())?;
    }
    Ok(Exit::Ok.into())
}

/// One block of a calibration.
struct Known {
    name: String,
    trust: Trust,
    median_pct: Option<f64>,
    p95_pct: Option<f64>,
    hold_out_median_pct: Option<f64>,
    sigma_ln: Option<f64>,
    rows: Option<u64>,
}

fn blocks(calibration: &Calibration) -> Vec<Known> {
    let evidence = |name: &str| calibration.evidence.as_ref()?.blocks.get(name).cloned();
    let known = |name: String, trust: Trust, residual: Residual| {
        let evidence = evidence(&name);
        Known {
            trust,
            median_pct: evidence
                .as_ref()
                .map(|e| e.residual_median_pct)
                .or(residual.median_pct),
            p95_pct: evidence.as_ref().map(|e| e.residual_p95_pct).or(residual.p95_pct),
            hold_out_median_pct: evidence.as_ref().and_then(|e| e.hold_out_median_pct),
            sigma_ln: evidence.as_ref().map(|e| e.sigma_ln).or(residual.sigma_ln),
            rows: evidence.as_ref().map(|e| e.rows),
            name,
        }
    };
    let mut all = Vec::new();
    for (format, name) in KernelFormat::ALL {
        if let Some(gemm) = calibration.gemm.get(&format) {
            all.push(known(format!("gemm.{name}"), gemm.trust, gemm.residual));
        }
    }
    if let Some(attention) = &calibration.attention {
        for part in ["decode", "fp8_kv", "prefill"] {
            all.push(known(
                format!("attention.{part}"),
                attention.trust,
                Residual::default(),
            ));
        }
    }
    for (format, name) in KernelFormat::ALL {
        if let Some(moe) = calibration.moe.get(&format) {
            all.push(known(format!("moe.{name}"), moe.trust, moe.residual));
        }
    }
    for link in &calibration.allreduce {
        all.push(known(
            format!("allreduce.{}", link.gpus),
            link.trust,
            Residual::default(),
        ));
    }
    for (engine, host) in &calibration.host {
        all.push(known(format!("host.{engine}"), host.trust, Residual::default()));
    }
    all
}

fn list(all: &[Calibration], width: Option<usize>) -> String {
    let fitted = all.iter().filter(|one| one.evidence.is_some()).count();
    let probed = all
        .iter()
        .filter(|one| one.provenance.source == Source::Probe)
        .count();
    let mut text = format!(
        "{} calibrations ship, {fitted} of them fitted to published measurements, {probed} measured by `plimsoll probe` (chosen by \
         name only), the rest priors\n\n",
        all.len()
    );
    let columns = [
        Column::left("name"),
        Column::left("date"),
        Column::left("trust"),
        Column::right("products %"),
        Column::right("decode %"),
        Column::right("prefill %"),
        Column::right("host %"),
        Column::left("from"),
    ];
    let row = |calibration: &Calibration| {
        let blocks = blocks(calibration);
        let error = |name: &str| {
            let block = blocks.iter().find(|block| block.name.starts_with(name));
            match block.map(|block| (block.median_pct, block.p95_pct)) {
                Some((Some(median), Some(p95))) => format!("{median:.1} / {p95:.0}"),
                _ => "–".to_owned(),
            }
        };
        let trust = calibration.trust();
        let date = &calibration.provenance.date;
        vec![
            calibration.name.clone(),
            date.split('T').next().unwrap_or(date).to_owned(),
            trust_mark(trust).to_owned() + " " + trust_word(trust),
            error("gemm.bf16"),
            error("attention.decode"),
            error("attention.prefill"),
            error("host."),
            calibration.provenance.credit.clone(),
        ]
    };
    text += &table_on(&columns, &all.iter().map(row).collect::<Vec<_>>(), 1, width);
    text += "\n Errors: median / 95th percentile of the rows that were fitted, 16-bit kernels; `plimsoll calibrations NAME` \
             shows all, and the error on held-out shapes.\n";
    folded(&text, width)
}

fn in_full(calibration: &Calibration, width: Option<usize>) -> String {
    let provenance = &calibration.provenance;
    let trust = calibration.trust();
    let mut text = format!(
        "{}: {} {}, {}, {}\n",
        calibration.name,
        trust_mark(trust),
        trust_word(trust),
        provenance.date,
        provenance.credit
    );
    if let Some(evidence) = &calibration.evidence {
        if !evidence.unidentified.is_empty() {
            text += &format!("not identified: {}\n", evidence.unidentified.join(", "));
        }
        if let Some(next) = &evidence.next_measurement {
            text += &format!("next best measurement: {next}\n");
        }
    }
    text.push('\n');
    let columns = [
        Column::left("block"),
        Column::left("trust"),
        Column::right("rows"),
        Column::right("median %"),
        Column::right("p95 %"),
        Column::right("hold-out %"),
        Column::right("σ of a step %"),
    ];
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
    let row = |block: &Known| {
        vec![
            block.name.clone(),
            trust_word(block.trust).to_owned(),
            block.rows.map_or("–".to_owned(), |rows| rows.to_string()),
            number(block.median_pct),
            number(block.p95_pct),
            number(block.hold_out_median_pct),
            number(block.sigma_ln.map(|sigma| 100.0 * sigma)),
        ]
    };
    let rows: Vec<Vec<String>> = blocks(calibration).iter().map(row).collect();
    text += &table_on(&columns, &rows, 1, width);
    for note in &provenance.notes {
        text += &format!(" note: {note}\n");
    }
    let evidence = calibration.evidence.as_ref();
    for doubt in evidence.map_or(&[][..], |evidence| &evidence.doubts) {
        text += &format!(" DOUBTFUL: {doubt}\n");
    }
    for remark in evidence.map_or(&[][..], |evidence| &evidence.remarks) {
        text += &format!(" note: {remark}\n");
    }
    folded(&text, width)
}

fn as_json(calibration: &Calibration) -> Value {
    let block = |block: &Known| {
        json!({
            "name": block.name,
            "trust": trust_word(block.trust),
            "rows": block.rows,
            "residual_median_pct": block.median_pct,
            "residual_p95_pct": block.p95_pct,
            "hold_out_median_pct": block.hold_out_median_pct,
            "sigma_ln": block.sigma_ln,
        })
    };
    json!({
        "name": calibration.name,
        "gpu": calibration.provenance.gpu,
        "date": calibration.provenance.date,
        "credit": calibration.provenance.credit,
        "notes": calibration.provenance.notes,
        "trust": trust_word(calibration.trust()),
        "blocks": blocks(calibration).iter().map(block).collect::<Vec<_>>(),
        "evidence": calibration.evidence.as_ref().and_then(|evidence| serde_json::to_value(evidence).ok()),
    })
}
