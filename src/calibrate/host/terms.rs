//! Which of the host's terms are sought, what is believed of them, and their names.

use std::collections::BTreeMap;

use super::Trial;
use crate::calibrate::component::rounded;
use crate::calibrate::runs::{Figure, Run};
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::{Calibration, GemmForm, Host, KernelFormat};
use crate::cost::discrepancy::REQUEST_SD_LN;
use crate::cost::uncertainty::{UNKNOWN_LAUNCHES, UNKNOWN_STREAMING};

/// Factor on launches at which a run's figures move if it speaks about launches, and by how much one of them then moves: from what
/// a call of the driver takes to the slowest host that was measured it is ten.
const SLOW_LAUNCHES: f64 = 10.0;
const LAUNCHES_MOVE: f64 = 0.02;
/// The same of an API server's time for a token. TTFT does not count: what it holds of a token's time stands beside the delay of a
/// request, which is sought by it.
const SLOW_STREAMING: f64 = 2.0;
const STREAMING_MOVES: f64 = 0.05;

/// Terms that only some runs speak about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sought {
    /// Launches of steps that replay no graph.
    pub(super) launches: bool,
    /// The API server's time for a token.
    pub(super) streaming: bool,
}

impl Sought {
    /// What would show in a figure if it were slow: launches in steps beyond the largest captured graph, or of an engine without any;
    /// the time for a token where many are streamed.
    pub(super) fn of(trial: &Trial) -> Sought {
        let as_believed = trial.errors_under(trial.base, None);
        let figures = || trial.runs.iter().flat_map(|run| &run.measured);
        let moves = |term: &str, factor: f64, least: f64, counts: fn(Figure) -> bool| {
            let mut slow = trial.base.clone();
            *host_term(&mut slow, term) *= factor;
            let slowly = trial.errors_under(&slow, None);
            let moved = as_believed.iter().zip(&slowly).zip(figures());
            let mut counted = moved.filter(|(_, (figure, _))| counts(*figure));
            counted.any(|((believed, slow), _)| (slow - believed).abs() > least)
        };
        Sought {
            launches: moves("eager_launch_us", SLOW_LAUNCHES, LAUNCHES_MOVE, |_| true),
            streaming: trial.base.per_output_token_us > 0.0
                && moves("per_output_token_us", SLOW_STREAMING, STREAMING_MOVES, |figure| {
                    !figure.is_ttft()
                }),
        }
    }
}

/// Which terms the runs speak about, and what is believed of them; a factor on the bandwidth of products is the last.
pub(super) fn parameters(runs: &[&Run], base: &Host, sought: Sought, fits_bandwidth: bool) -> Vec<Parameter> {
    let mut all = Vec::new();
    let mut seek = |name, ends, prior, sd| all.push(Parameter::factor(name, ends, prior, sd));
    if runs.iter().any(|run| !run.is_asynchronous()) {
        seek("step_us", (50.0, 5000.0), base.step_us, 0.3);
        seek("per_seq_us", (1.0, 300.0), base.per_seq_us, 0.5);
    }
    if runs.iter().any(|run| run.is_asynchronous()) {
        seek("async_gap_us", (10.0, 3000.0), base.async_gap_us, 0.5);
        seek(
            "async_gap_per_seq_us",
            (0.5, 200.0),
            base.async_gap_per_seq_us,
            0.5,
        );
    }
    if runs.iter().any(|run| run.shows_front_end()) {
        seek("request_ms", (0.1, 200.0), base.request_ms, REQUEST_SD_LN);
    }
    if sought.launches {
        seek(
            "eager_launch_us",
            (1.0, 400.0),
            base.eager_launch_us,
            UNKNOWN_LAUNCHES,
        );
    }
    if sought.streaming {
        seek(
            "per_output_token_us",
            (2.0, 500.0),
            base.per_output_token_us,
            UNKNOWN_STREAMING,
        );
    }
    if fits_bandwidth {
        seek(BANDWIDTH, (0.7, 1.4), 1.0, 0.1);
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
