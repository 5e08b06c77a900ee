//! From findings to the text of a calibration file, schema 1, with its provenance.
//!
//! Blocks that the cost model does not read (`memory`, `launch`, `host_link`, `disk`, `peer`) hold the raw points, so that a
//! better form can be fitted later. What a probe cannot measure is written as a prior, with its source beside it. Law: the file
//! is read by [`crate::cost::calibration::Calibration::parse`].

mod blocks;
mod provenance;
mod text;

pub use self::provenance::notes;

use self::blocks::{attention, launch, links, memory, products};
use self::provenance::{clocks, provenance};
use self::text::File;
use super::course::Course;
use super::facts::{Gpu, Instruments, Software};
use super::findings::Findings;
use super::plan::Plan;

/// Everything that a file tells.
pub struct Account<'a> {
    /// The card.
    pub gpu: &'a Gpu,
    /// What ran on it.
    pub software: &'a Software,
    /// What its instruments said.
    pub instruments: &'a Instruments,
    /// What was to be measured.
    pub plan: &'a Plan,
    /// What was.
    pub course: &'a Course,
    /// What it says.
    pub findings: &'a Findings,
    /// Seed of the plan and of all data.
    pub seed: u64,
    /// UTC, `2026-11-21T00:00:00Z`.
    pub date_utc: &'a str,
}

/// Writes the file.
#[must_use]
pub fn file(account: &Account) -> String {
    let mut file = File::default();
    file.line("# Measured by `plimsoll probe`. Times in the unit of the key; `ci` is the 95 % interval of the sampling,");
    file.line("# which is not the error of the form (`sigma_ln`) nor what one card differs from another (`uncertainty`).");
    file.line("schema = 1");
    provenance(&mut file, account);
    clocks(&mut file, account);
    memory(&mut file, account.findings);
    for gemm in &account.findings.gemm {
        products(&mut file, gemm);
    }
    attention(&mut file, account);
    launch(&mut file, account.findings);
    links(&mut file, account);
    file.section("uncertainty");
    file.line(
        "# ten published collections of one model of card, one fit (NVIDIA AIConfigurator's tables of H200)",
    );
    file.key("between_cards_p_sd", "0.05");
    file.key("between_cards_w_sd", "0.03");
    file.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Trust;
    use crate::cost::calibration::{Calibration, GemmForm, KernelFormat, Rate};
    use crate::probe::course::{follow, testing::MadeUp};
    use crate::probe::facts::testing::h200;
    use crate::probe::findings::find;
    use crate::probe::plan::{Options, plan};

    fn written(mut machine: MadeUp, max_s: f64) -> String {
        let options = Options {
            seed: 1,
            max_s,
            with_disk: false,
        };
        let gpu = h200();
        let plan = plan(&gpu, &options);
        let course = follow(&plan, max_s, &mut machine).unwrap();
        let findings = find(&course, &gpu).unwrap();
        let software = Software {
            driver: "580.159.04".to_owned(),
            kernel_load: "nvrtc-cubin".to_owned(),
            ..Software::default()
        };
        let instruments = Instruments {
            sm_max: Some(1980),
            sm_burst: Some(1980),
            throttle_bits: 4,
            pcie: Some((5, 16)),
            ..Instruments::default()
        };
        file(&Account {
            gpu: &gpu,
            software: &software,
            instruments: &instruments,
            plan: &plan,
            course: &course,
            findings: &findings,
            seed: 1,
            date_utc: "2026-11-21T00:00:00Z",
        })
    }

    #[test]
    fn what_was_made_up_is_read_back_by_the_cost_model() {
        let text = written(MadeUp::default(), 60.0);
        let calibration = Calibration::parse("mine", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(calibration.provenance.gpu, "NVIDIA H200");
        assert_eq!(calibration.gemm.len(), 3);
        let bf16 = &calibration.gemm[&KernelFormat::Bf16];
        assert_eq!(bf16.trust, Trust::Measured);
        assert!((bf16.sustained_over_burst - 0.95).abs() < 1e-4);
        let GemmForm::C5(c5) = &bf16.form else {
            panic!("a probe writes C5")
        };
        assert!((c5.p_tflops / 776.0 - 1.0).abs() < 0.01 && (c5.w_gbs / 4250.0 - 1.0).abs() < 0.01);
        let attention = calibration.attention.unwrap();
        assert!(
            (attention.decode.t0_us - 12.0).abs() < 0.1,
            "the kernel's 5 us and the engine's 7"
        );
        assert_eq!(attention.trust, Trust::Calibrated);
        let Rate::Absolute(rate) = attention.prefill.compute else {
            panic!("a share of the measured peak")
        };
        assert!((rate / (0.8 * 776e12) - 1.0).abs() < 0.01);
        assert!(
            text.contains("clean = true") && text.contains("throttle = [\"sw_power_cap\"]"),
            "{text}"
        );
    }

    #[test]
    fn what_was_refused_or_skipped_is_said_and_still_read() {
        let machine = MadeUp {
            without_fp8: true,
            warming: 0.01,
            ..MadeUp::default()
        };
        let text = written(machine, 33.0);
        let calibration = Calibration::parse("mine", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(calibration.gemm.len(), 1);
        assert!(
            text.contains("[gemm.fp8]\nstatus = \"unsupported\"\n# no algorithm"),
            "{text}"
        );
        assert!(text.contains("[gemm.int8]\nstatus = \"skipped\""), "{text}");
        assert!(
            text.contains("skipped = [") && text.contains("\"gemm.int8\""),
            "{text}"
        );
        assert!(
            text.contains("clean = false") && text.contains("drifted by"),
            "{text}"
        );
    }
}
