//! Which of the host's terms are sought, what is believed of them, and their names.

use std::collections::BTreeMap;

use crate::calibrate::component::rounded;
use crate::calibrate::runs::{Figure, Run};
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::{Calibration, GemmForm, Host, KernelFormat};
use crate::cost::discrepancy::REQUEST_SD_LN;
use crate::cost::uncertainty::{UNKNOWN_LAUNCHES, UNKNOWN_STREAMING};

/// Factor on launches at which a run's figures move if it speaks about launches, and by how much one of them then moves: from what
/// a call of the driver takes to the slowest host that was measured it is ten.
pub(super) const SLOW_LAUNCHES: f64 = 10.0;
pub(super) const MOVES: f64 = 0.02;

/// Launches of steps that replay no graph.
pub(super) fn launches(base: &Host) -> Parameter {
    Parameter::factor(
        "eager_launch_us",
        (1.0, 400.0),
        base.eager_launch_us,
        UNKNOWN_LAUNCHES,
    )
}

/// Factor on an API server's time for a token at which a run's figures move if it speaks about that, and by how much. TTFT does not count:
/// what it holds of a token's time stands beside the delay of a request, which is sought by it.
pub(super) const SLOW_STREAMING: f64 = 2.0;
pub(super) const STREAMING_MOVES: f64 = 0.05;

/// The API server's time for a token.
pub(super) fn streaming(base: &Host) -> Parameter {
    Parameter::factor(
        "per_output_token_us",
        (2.0, 500.0),
        base.per_output_token_us,
        UNKNOWN_STREAMING,
    )
}

/// Which terms the runs speak about at all.
pub(super) fn parameters(runs: &[&Run], base: &Host, fits_bandwidth: bool) -> Vec<Parameter> {
    let mut all = Vec::new();
    let has = |asynchronous: bool| runs.iter().any(|run| run.is_asynchronous() == asynchronous);
    if has(false) {
        all.push(Parameter::factor("step_us", (50.0, 5000.0), base.step_us, 0.3));
        all.push(Parameter::factor(
            "per_seq_us",
            (1.0, 300.0),
            base.per_seq_us,
            0.5,
        ));
    }
    if has(true) {
        let (gap, per_seq) = (base.async_gap_us, base.async_gap_per_seq_us);
        all.push(Parameter::factor("async_gap_us", (10.0, 3000.0), gap, 0.5));
        all.push(Parameter::factor(
            "async_gap_per_seq_us",
            (0.5, 200.0),
            per_seq,
            0.5,
        ));
    }
    let is_ttft = |run: &&Run| {
        let mut figures = run.measured.iter();
        figures.any(|(figure, _)| !run.is_offline && matches!(figure, Figure::TtftP50 | Figure::TtftMean))
    };
    if runs.iter().any(is_ttft) {
        all.push(Parameter::factor(
            "request_ms",
            (0.1, 200.0),
            base.request_ms,
            REQUEST_SD_LN,
        ));
    }
    if fits_bandwidth {
        all.push(Parameter::factor(BANDWIDTH, (0.7, 1.4), 1.0, 0.1));
    }
    all
}

/// The one parameter that is no term of the host.
pub(super) const BANDWIDTH: &str = "bandwidth_factor";

/// A parameter's term.
pub(super) fn host_term<'h>(host: &'h mut Host, name: &str) -> &'h mut f64 {
    known_term(host, name).expect("every parameter but the bandwidth is a term")
}

/// A term by its name in a calibration, if that is one which is sought.
fn known_term<'h>(host: &'h mut Host, name: &str) -> Option<&'h mut f64> {
    Some(match name {
        "step_us" => &mut host.step_us,
        "per_seq_us" => &mut host.per_seq_us,
        "async_gap_us" => &mut host.async_gap_us,
        "async_gap_per_seq_us" => &mut host.async_gap_per_seq_us,
        "request_ms" => &mut host.request_ms,
        "per_output_token_us" => &mut host.per_output_token_us,
        "eager_launch_us" => &mut host.eager_launch_us,
        _ => return None,
    })
}

/// A calibration with other terms of an engine's host, by their names; `bandwidth_factor` is one on what its products read with.
#[must_use]
pub fn under_terms(calibration: &Calibration, engine: &str, terms: &BTreeMap<String, f64>) -> Calibration {
    let mut other = calibration.clone();
    if let Some(host) = other.host.get_mut(engine) {
        for (name, value) in terms {
            if let Some(term) = known_term(host, name) {
                *term = *value;
            }
        }
    }
    if let Some(factor) = terms.get(BANDWIDTH) {
        scale_bandwidth(&mut other, *factor);
    }
    other
}

/// One factor on what reads weights. Caches are left: runs of small batches say little of them.
pub fn scale_bandwidth(calibration: &mut Calibration, factor: f64) {
    for format in [KernelFormat::Bf16, KernelFormat::Fp8, KernelFormat::Int8] {
        if let Some(gemm) = calibration.gemm.get_mut(&format) {
            match &mut gemm.form {
                GemmForm::OccupancyPnorm(form) => {
                    form.bandwidth_efficiency = rounded(form.bandwidth_efficiency * factor);
                }
                GemmForm::C5(form) => form.w_gbs = rounded(form.w_gbs * factor),
            }
        }
    }
}
