//! What makes a fit of the host doubtful: runs that no host explains.
//!
//! The host's terms are the only ones that runs move. If the GPU, the model or a flag is another than was said, they run
//! to the end of what is possible and the runs are still not met; such a fit must not look like a measured one.

use super::host::HostFit;

/// Median error of the fitted runs above which they are not of the server that was described, in percent.
const MISFIT_PCT: f64 = 25.0;
/// Width of an interval, relative to its middle, below which a parameter stands at the end of what is possible.
const STUCK: f64 = 1e-3;

/// Doubts about a fit, in words, the gravest first.
#[must_use]
pub fn doubts(host: &HostFit) -> Vec<String> {
    let mut doubts = Vec::new();
    let median = host.evidence.residual_median_pct;
    if is_misfit(host) {
        doubts.push(format!(
            "no host explains these runs: they are {median:.0} % off in the median after the fit; is it this GPU, this \
             model, these flags, this engine? the terms are marked prior"
        ));
    }
    for name in stuck(host) {
        doubts.push(format!(
            "{name} stands at the end of what is possible: something else than the host makes these runs slow or fast"
        ));
    }
    doubts
}

/// Whether the runs are not met even after the fit.
#[must_use]
pub fn is_misfit(host: &HostFit) -> bool {
    host.evidence.residual_median_pct > MISFIT_PCT
}

/// Parameters that every draw puts at one place.
fn stuck(host: &HostFit) -> Vec<&String> {
    let intervals = host.evidence.interval_90.iter();
    intervals
        .filter(|(_, [low, high])| high - low <= STUCK * (high + low) / 2.0)
        .map(|(name, _)| name)
        .collect()
}
