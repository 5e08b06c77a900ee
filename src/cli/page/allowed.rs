//! What whoever opens a page may set, and how much of it: names of what ships, no files, and loads that one machine can simulate for several.

use crate::hardware;
use crate::model;

/// Flags of controls whose values are judged as on the command line.
const FREE: [&str; 20] = [
    "burstiness",
    "think-time",
    "time-scale",
    "input-len",
    "output-len",
    "random-range-ratio",
    "seed",
    "tensor-parallel-size",
    "router",
    "quantization",
    "kv-cache-dtype",
    "engine",
    "max-num-batched-tokens",
    "gpu-memory-utilization",
    "enable-chunked-prefill",
    "enable-prefix-caching",
    "scheduling-policy",
    "enforce-eager",
    "schedule-policy",
    "mem-fraction-static",
];
/// The others whose values are numbers, and the most that a page takes: who needs more has a machine that runs the command by itself.
const BOUNDED: [(&str, f64); 7] = [
    ("request-rate", 1e5),
    ("max-concurrency", 1e5),
    ("users", 1e5),
    ("replicas", 256.0),
    ("max-num-seqs", 1e6),
    ("max-running-requests", 1e6),
    ("chunked-prefill-size", 1e7),
];
/// Parts of the flag `--goodput`.
const LIMITS: [&str; 2] = ["goodput:ttft", "goodput:tpot"];

/// What a page may not set, or not so.
pub(super) fn refused(flag: &str, value: &str) -> Option<String> {
    if let Some((_, most)) = BOUNDED.iter().find(|(bounded, _)| *bounded == flag) {
        let is_more = value
            .trim()
            .parse::<f64>()
            .is_ok_and(|value| value.is_finite() && value > *most);
        return is_more
            .then(|| format!("--{flag} {value}: a page takes at most {most}, the command line more"));
    }
    // Names of what ships: a path would be read for whoever can open the page.
    let ships = match flag {
        "model" => Some(model::names().any(|name| name == value)),
        "gpu" => Some(
            hardware::all()
                .iter()
                .any(|device| device.id.eq_ignore_ascii_case(value)),
        ),
        _ => None,
    };
    match ships {
        Some(true) => None,
        Some(false) => Some(format!(
            "there is no {flag} `{value}` on this page: what does not ship is named on the command line of `plimsoll explore`"
        )),
        None => {
            let is_known = FREE.contains(&flag) || LIMITS.contains(&flag);
            (!is_known).then(|| format!("there is no control `{flag}`"))
        }
    }
}
