//! What a fitted calibration rests on: its command, its inputs, how wide its parameters are, how wrong it is.
//!
//! Nothing here enters a step's time; [`Calibration::sigmas`] turns it into the model's own uncertainty. The section
//! `[evidence]` of a file mirrors these types, which is why they are serialised where other core types are not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use super::Calibration;
use crate::cost::Trust;

/// How a calibration was fitted and how well.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The command that fits it again.
    pub command: String,
    /// Version of this program.
    pub version: String,
    /// Share of the shapes that each round of the cross-validation held out.
    pub hold_out: f64,
    /// Seed of hold-out and intervals.
    pub seed: u64,
    /// `block.parameter` of every parameter whose interval is about as wide as what was believed before.
    #[serde(default)]
    pub unidentified: Vec<String>,
    /// The measurement that would narrow predictions most, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_measurement: Option<String>,
    /// Why the fit is none to rely on: what it was fitted to is not met, or cannot be. Whoever uses the file is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// What cannot be told apart, and what was left out.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// The files that were read.
    #[serde(default)]
    pub inputs: Vec<Input>,
    /// Per fitted block, `gemm.bf16`, `attention.decode`, `host.vllm`.
    #[serde(default)]
    pub blocks: BTreeMap<String, BlockEvidence>,
    /// Families of end-to-end runs, each as the other families foretell it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub families: Vec<FamilyEvidence>,
    /// End-to-end runs that were reproduced, one by one.
    #[serde(default)]
    pub runs: Vec<RunEvidence>,
}

/// A file that was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its name, without folders.
    pub file: String,
    /// CRC-32 of its bytes (IEEE 802.3), eight hexadecimal digits.
    pub crc32: String,
    /// Rows that it holds.
    pub rows: u64,
    /// Rows that were fitted to.
    pub used: u64,
}

/// How well one block is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockEvidence {
    /// Rows that were fitted to.
    pub rows: u64,
    /// Different shapes among them; hold-out and intervals take whole shapes.
    pub shapes: u64,
    /// Of a host of which runs were left out: the figures that were fitted to. Hold-out, σ and intervals are of these alone,
    /// residuals of all `rows`. Absent where all were fitted to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_rows: Option<u64>,
    /// The runs that those are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_shapes: Option<u64>,
    /// Median relative error of the fit, in percent.
    pub residual_median_pct: f64,
    /// 95th percentile of it.
    pub residual_p95_pct: f64,
    /// Median signed error; positive: the model is too slow.
    pub bias_pct: f64,
    /// Median relative error on shapes that the fit had not seen; absent where there were too few to hold any out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_out_median_pct: Option<f64>,
    /// 95th percentile of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_out_p95_pct: Option<f64>,
    /// Standard deviation of ln(model/truth) of this block's whole time in a step: what averages out over a layer's
    /// shapes is left out, what one card or campaign differs from another is counted.
    pub sigma_ln: f64,
    /// 90 % interval of every parameter.
    #[serde(default)]
    pub interval_90: BTreeMap<String, [f64; 2]>,
    /// Of the host of one's own server: hosts that its runs allow as well, in pairs. What they move a prediction by adds up as
    /// squares do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directions: Vec<HostPair>,
}

/// Two hosts to both sides of the one that was fitted, by their terms; each is as far as 90 % allow, or the fit itself. Beside them
/// `bandwidth_factor` is a factor on what products read with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostPair {
    /// To one side.
    pub less: BTreeMap<String, f64>,
    /// To the other.
    pub more: BTreeMap<String, f64>,
}

/// A family of end-to-end runs, one server as a rule, and how far a fit that has not seen it is from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyEvidence {
    /// Whose runs, on which card.
    pub family: String,
    /// Id of the card.
    pub gpu: String,
    /// Kinds of kernels that its weights took, `gemm.bf16`, `moe.mxfp4`.
    pub weights: Vec<String>,
    /// GPUs of its largest tensor-parallel group.
    #[serde(default = "one")]
    pub ranks: u32,
    /// Figures of its runs.
    pub figures: u64,
    /// Median relative error over all of them, in percent.
    pub miss_median_pct: f64,
    /// Root mean square of ln(predicted/measured) over the figures that steps decide: gaps, whole answers, throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ln: Option<f64>,
    /// The same over times to the first token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttft_ln: Option<f64>,
}

fn one() -> u32 {
    1
}

/// One end-to-end figure, measured and reproduced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEvidence {
    /// Which run.
    pub run: String,
    /// Which figure, `e2el_p50_ms`.
    pub figure: String,
    /// As published.
    pub measured: f64,
    /// By the fitted calibration.
    pub predicted: f64,
    /// Its run took no part in the fit, since no host explains it together with the others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_left_out: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl RunEvidence {
    /// Predicted over measured, less one.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

impl Calibration {
    /// Whether runs of one's own server decide what its host adds under asynchronous scheduling: its terms, or which of them go together.
    #[must_use]
    pub fn has_measured_overlap(&self, engine: &str) -> bool {
        let term = "async_gap_us";
        let pairs = self.allowed_hosts(engine);
        self.has_measured(engine, term) || pairs.iter().any(|pair| pair.less.contains_key(term))
    }

    /// Hosts that the runs of one's own server allow, in pairs; none where its host is not known by them.
    #[must_use]
    pub fn allowed_hosts(&self, engine: &str) -> &[HostPair] {
        let is_known = self
            .host
            .get(engine)
            .is_some_and(|host| host.trust < Trust::Prior);
        let evidence = self.evidence.as_ref().filter(|_| is_known);
        let block = evidence.and_then(|evidence| evidence.blocks.get(&format!("host.{engine}")));
        block.map_or(&[], |block| block.directions.as_slice())
    }

    /// Whether they decide what it takes to launch a step that replays no graph.
    #[must_use]
    pub fn has_measured_launches(&self, engine: &str) -> bool {
        self.has_measured(engine, "eager_launch_us")
    }

    /// Whether they decide a term of the host.
    fn has_measured(&self, engine: &str, term: &str) -> bool {
        let name = format!("host.{engine}");
        let is_measured = self
            .host
            .get(engine)
            .is_some_and(|host| host.trust == Trust::Measured);
        let is_decided = |evidence: &Evidence| {
            let block = evidence.blocks.get(&name);
            let is_fitted = block.is_some_and(|block| block.interval_90.contains_key(term));
            is_fitted && !evidence.unidentified.contains(&format!("{name}.{term}"))
        };
        is_measured && self.evidence.as_ref().is_some_and(is_decided)
    }
}

impl Evidence {
    /// Reads the section; the message says what is wrong with it.
    pub(super) fn from_value(value: Value) -> Result<Evidence, String> {
        let evidence: Evidence = serde_path_to_error::deserialize(value).map_err(|error| {
            let (path, what) = (error.path().to_string(), error.inner().message());
            format!("is not understood at `{path}`: {what}")
        })?;
        let widths = evidence.blocks.iter().map(|(name, block)| (name, block.sigma_ln));
        for (name, sigma) in widths {
            if !(0.0..=2.0).contains(&sigma) {
                return Err(format!("has blocks.{name}.sigma_ln = {sigma}, not from 0 to 2"));
            }
        }
        Ok(evidence)
    }

    /// The section.
    pub(super) fn to_value(&self) -> Value {
        Value::try_from(self).expect("numbers, texts and lists of them are TOML")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Calibration, shipped};

    #[test]
    fn an_unknown_key_of_the_evidence_is_a_problem_with_a_place() {
        let text = "schema = 1\n[provenance]\nsource = \"prior\"\n[evidence]\ncomand = \"x\"\n";
        let error = Calibration::parse("x", text).unwrap_err().to_string();
        assert!(error.contains("`evidence` is not understood"), "{error}");
        let shipped = shipped("h100-sxm-80gb-vllm").unwrap().to_toml();
        let broken = shipped.replacen("async_gap_us = [", "async_gap_us = 15.0 # [", 1);
        let error = Calibration::parse("x", &broken).unwrap_err().to_string();
        assert!(
            error.contains("at `blocks.host.vllm.interval_90.async_gap_us`"),
            "{error}"
        );
    }

    #[test]
    fn only_ones_own_runs_make_the_overlap_known() {
        let known = |trust: &str, unidentified: &str, parameter: &str| {
            let prior = shipped("prior-hopper").unwrap();
            let text = prior.to_toml().replace("[host.vllm]", "[host.other]");
            let host = &text[text.find("[host.other]").unwrap()..];
            let end = host.find("\n\n").unwrap_or(host.len());
            let host = host[..end]
                .replace("[host.other]", "[host.vllm]")
                .replace("trust = \"prior\"", &format!("trust = \"{trust}\""));
            let text = format!(
                "schema = 1\n[provenance]\nsource = \"benchmark\"\n{host}\n[evidence]\ncommand = \"\"\nversion = \"\"\n\
                 hold_out = 0.3\nseed = 0\nunidentified = [{unidentified}]\n[evidence.blocks.\"host.vllm\"]\nrows = 1\n\
                 shapes = 1\nresidual_median_pct = 1.0\nresidual_p95_pct = 1.0\nbias_pct = 0.0\nsigma_ln = 0.2\n\
                 interval_90 = {{ {parameter} = [1.0, 2.0] }}\n"
            );
            Calibration::parse("x", &text)
                .unwrap()
                .has_measured_overlap("vllm")
        };
        assert!(known("measured", "", "async_gap_us"));
        assert!(!known("calibrated", "", "async_gap_us"));
        assert!(!known("measured", "\"host.vllm.async_gap_us\"", "async_gap_us"));
        assert!(!known("measured", "", "step_us"));
    }

    #[test]
    fn a_fitted_file_knows_its_inputs_and_errors() {
        let evidence = shipped("h100-sxm-80gb-vllm").and_then(|c| c.evidence).unwrap();
        assert!(
            evidence
                .inputs
                .iter()
                .any(|input| input.file == "gemm.csv" && input.used > 0)
        );
        assert!(evidence.blocks["gemm.bf16"].hold_out_median_pct.is_some());
        let mut met = evidence.runs.iter().filter(|run| !run.is_left_out);
        assert!(met.all(|run| run.error().abs() < 0.2));
    }
}
