//! Tables of kernels with copies, prefixes and collectives are fitted.

use crate::fitting::request;
use plimsoll::calibrate::observation::{Block, Kernel, Observation};
use plimsoll::calibrate::tables::{self, Selection};
use plimsoll::calibrate::{Calibrated, calibrate};
use plimsoll::cost::calibration::{self, Calibration, Copies, Direction};
use plimsoll::cost::kernel::copy_seconds;

fn evidence(fitted: &Calibrated, block: &str) -> calibration::BlockEvidence {
    let evidence = fitted.calibration.evidence.as_ref().unwrap();
    evidence.blocks[block].clone()
}

#[test]
fn copies_give_their_line_back_and_are_kept_in_the_file() {
    let truth = Copies {
        alpha_us: 9.0,
        per_copy_us: 1.5,
        gbs: 24.0,
    };
    let sizes = [
        (65_536.0, 1.0),
        (1e6, 1.0),
        (1.6e7, 1.0),
        (2.5e8, 1.0),
        (6.4e7, 1024.0),
        (6.4e7, 64.0),
    ];
    let rows = sizes.map(|(bytes, pieces)| Observation {
        block: Block::Copy(Direction::HostToDevice),
        kernel: Kernel::Copy { bytes, pieces },
        seconds: copy_seconds(&truth, bytes, pieces),
        shape: format!("{bytes} in {pieces}"),
        input: 0,
    });
    let fitted = calibrate(&request("L40S-48GB", "prior-ada", rows.to_vec()));
    let copies = fitted.calibration.copies[&Direction::HostToDevice];
    assert!((copies.gbs / 24.0 - 1.0).abs() < 0.03, "{copies:?}");
    assert!((copies.per_copy_us / 1.5 - 1.0).abs() < 0.1, "{copies:?}");
    assert!(evidence(&fitted, "copy.h2d").hold_out_median_pct.is_some());
    let again = Calibration::parse("x", &fitted.calibration.to_toml()).unwrap();
    assert_eq!(again.copies, fitted.calibration.copies);
}

/// Vidur's times on A30 (FlashInfer, MIT): another card and library, so only the form is checked, on the nearest card's
/// ceilings. Chunks of 64 to 512 tokens behind a prefix jump where kernels split by the size of the chunk.
#[test]
fn chunks_behind_a_prefix_have_the_form_of_prompts() {
    let path = format!("{}/tests/data/chunked_attention.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let selection = Selection {
        gpu: "a30".to_owned(),
        framework: "vllm".to_owned(),
    };
    let table = tables::read("chunked_attention.csv", &text, 0, &selection).unwrap();
    assert_eq!((table.rows, table.observations.len()), (120, 120));
    let fitted = calibrate(&request("a10", "prior-ampere", table.observations));
    let prefill = evidence(&fitted, "attention.prefill");
    assert_eq!(prefill.rows, 60);
    assert!(
        prefill.residual_median_pct <= 16.0 && prefill.residual_p95_pct <= 45.0,
        "{prefill:?}"
    );
    assert!(prefill.hold_out_median_pct.unwrap() <= 20.0, "{prefill:?}");
}

#[test]
fn collectives_of_a_published_table_are_fitted_with_two_branches() {
    let path = format!(
        "{}/tests/data/kernels/collectives.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    for (key, gpu, base) in [
        ("h100_sxm", "H100-SXM-80GB", "prior-hopper"),
        ("h200_sxm", "H200-SXM-141GB", "prior-hopper"),
        ("b200_sxm", "B200-SXM-180GB", "prior-blackwell"),
    ] {
        let selection = Selection {
            gpu: key.to_owned(),
            framework: "vllm".to_owned(),
        };
        let table = tables::read("collectives.csv", &text, 0, &selection).unwrap();
        let fitted = calibrate(&request(gpu, base, table.observations));
        for gpus in [2, 4, 8] {
            let block = evidence(&fitted, &format!("allreduce.{gpus}"));
            // Published times of eight B200 fall where messages grow: 26 µs at half a megabyte, 21 at two.
            let most = if (key, gpus) == ("b200_sxm", 8) { 15.0 } else { 7.0 };
            assert!(
                block.residual_median_pct <= most && block.residual_p95_pct <= 35.0,
                "{gpu} {gpus}: {block:?}"
            );
        }
        let two_branches = fitted.calibration.allreduce.iter();
        assert!(
            two_branches
                .filter(|link| link.gpus > 2)
                .all(|link| link.one_shot.is_some())
        );
    }
}
