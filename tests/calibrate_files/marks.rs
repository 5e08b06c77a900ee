//! What is measured badly, or hardly, is not marked as measured.

use std::path::Path;

use crate::{plimsoll, text};
use plimsoll::cost::Trust;
use plimsoll::cost::calibration::{Calibration, GemmForm, KernelFormat};

/// Rows of the shipped table of products in 16 bits on H100 under vLLM, each changed, below its header.
fn products(change: impl Fn(Vec<String>) -> Vec<String>) -> Vec<String> {
    let path = format!("{}/tests/data/kernels/gemm.csv", env!("CARGO_MANIFEST_DIR"));
    let table = std::fs::read_to_string(path).unwrap();
    let mut lines = table.lines();
    let header = lines.next().unwrap().to_owned();
    let own = lines.filter(|line| line.starts_with("h100_sxm,vllm,0.24.0,bf16,"));
    let cold = own.filter(|line| line.ends_with(",0"));
    let changed = cold.map(|line| change(line.split(',').map(str::to_owned).collect()).join(","));
    std::iter::once(header).chain(changed).collect()
}

/// The report and the file of a fit to a table.
fn fitted(folder: &Path, lines: &[String], gpu: &str) -> (String, Calibration) {
    std::fs::write(folder.join("gemm.csv"), lines.join("\n") + "\n").unwrap();
    let args = [
        "calibrate",
        "gemm.csv",
        "--gpu",
        gpu,
        "--draws",
        "10",
        "-o",
        "out.toml",
    ];
    let ran = plimsoll(folder, &args);
    // 1 where nothing was fitted: no file is written then.
    let code = ran.status.code();
    assert!(matches!(code, Some(0 | 1)), "{}", text(&ran.stderr));
    let file = std::fs::read_to_string(folder.join("out.toml")).ok();
    assert_eq!(file.is_some(), code == Some(0), "{}", text(&ran.stderr));
    let file = file.unwrap_or_else(|| {
        let told = plimsoll(folder, &[&args[..6], &["--format", "json"]].concat());
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        toml::to_string(&told["calibration"]).unwrap()
    });
    std::fs::remove_file(folder.join("out.toml")).ok();
    (text(&ran.stdout), Calibration::parse("out", &file).unwrap())
}

fn trust(of: &Calibration) -> Trust {
    of.gemm[&KernelFormat::Bf16].trust
}

#[test]
fn impossible_kernels_are_doubted_and_a_prior() {
    let folder = tempfile::tempdir().unwrap();
    let sound = products(|cells| cells);
    let (report, written) = fitted(folder.path(), &sound, "H100-SXM-80GB");
    assert!(!report.contains("DOUBTFUL"), "{report}");
    assert_eq!(trust(&written), Trust::Measured);
    let in_ms = products(|mut cells| {
        cells[7] = (1e-3 * cells[7].parse::<f64>().unwrap()).to_string();
        cells
    });
    let (report, written) = fitted(folder.path(), &in_ms, "H100-SXM-80GB");
    let doubt = report.lines().nth(1).unwrap();
    assert!(
        doubt.starts_with("DOUBTFUL: gemm.bf16: 48 of 48 rows are faster than"),
        "{report}"
    );
    assert!(doubt.contains("as if they were ms and not µs"), "{report}");
    assert!(report.starts_with("H100-SXM-80GB: 0 of "), "{report}");
    assert!(doubt.contains("eb = 1.3 stands at the end"), "{report}");
    assert_eq!(trust(&written), Trust::Prior);
    // Nothing is simulated at more than the memory's bandwidth.
    let GemmForm::OccupancyPnorm(form) = &written.gemm[&KernelFormat::Bf16].form else {
        panic!("{report}")
    };
    assert!(
        form.bandwidth_efficiency < 1.0 && form.compute_efficiency < 1.0,
        "{form:?}"
    );
    assert!(written.evidence.unwrap().doubts[0].contains("faster than"));
    let of_another = products(|mut cells| {
        cells[0] = "l4".to_owned();
        cells
    });
    let (report, written) = fitted(folder.path(), &of_another, "L4-24GB");
    let doubt = report.lines().nth(1).unwrap();
    assert!(doubt.starts_with("DOUBTFUL: gemm.bf16: "), "{report}");
    assert!(doubt.contains("are they of this GPU"), "{report}");
    assert_eq!(trust(&written), Trust::Prior);
}

#[test]
fn a_row_makes_no_measured_block() {
    let folder = tempfile::tempdir().unwrap();
    let all = products(|cells| cells);
    let (report, written) = fitted(folder.path(), &all[..2], "H100-SXM-80GB");
    assert_eq!(trust(&written), Trust::Calibrated, "what ships of the card");
    assert!(
        report.contains("gemm.bf16: 1 kernel decides 1 of 7 parameters"),
        "{report}"
    );
    // The same kernel again tells nothing more.
    let again: Vec<String> = (0..12).map(|index| all[usize::from(index > 0)].clone()).collect();
    let (_, written) = fitted(folder.path(), &again, "H100-SXM-80GB");
    assert_eq!(trust(&written), Trust::Calibrated);
    // Of a card that has nothing of its own even that is a prior.
    let of_another: Vec<String> = all[..2]
        .iter()
        .map(|line| line.replace("h100_sxm", "h100_pcie"))
        .collect();
    let (_, written) = fitted(folder.path(), &of_another, "H100-PCIE-80GB");
    assert_eq!(trust(&written), Trust::Prior);
    let (_, written) = fitted(folder.path(), &all[..9], "H100-SXM-80GB");
    assert_eq!(trust(&written), Trust::Measured);
}

#[test]
fn attention_is_measured_where_decoding_and_prompts_both_are() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kernels/");
    let fit = |tables: &[&str]| {
        let mut args = vec!["calibrate".to_owned()];
        args.extend(tables.iter().map(|table| format!("{kernels}{table}.csv")));
        args.extend(
            "--gpu H100-SXM-80GB --draws 10 -o out.toml"
                .split(' ')
                .map(str::to_owned),
        );
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = plimsoll(folder.path(), &args);
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let file = std::fs::read_to_string(folder.path().join("out.toml")).unwrap();
        let trust = Calibration::parse("out", &file).unwrap().attention.unwrap().trust;
        (text(&ran.stdout), trust)
    };
    let (report, half) = fit(&["attn_decode"]);
    assert_eq!(half, Trust::Calibrated);
    assert!(report.contains("attention.prefill was not measured"), "{report}");
    assert_eq!(fit(&["attn_decode", "attn_prefill"]).1, Trust::Measured);
}
