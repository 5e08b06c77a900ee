//! Flags of `trtllm-serve` that have no field of their own, where no other server has one of the same name.

use super::Effect::{self, Ignored, NotModelled};
use super::Takes::{self, One};

use super::{SERVER, TEXT};

/// Whether a value follows, what becomes of it, and the flags' names.
type Family = (Takes, Effect, &'static [&'static str]);

/// Flags of `trtllm-serve`.
pub(super) const TRTLLM: &[Family] = &[
    (
        One,
        Ignored(SERVER),
        &[
            "metadata-server-config-file",
            "num-postprocess-workers",
            "disagg-cluster-uri",
        ],
    ),
    (One, Ignored(TEXT), &["tool-parser"]),
    (
        One,
        Ignored("where processes run is not modelled"),
        &["gpus-per-node"],
    ),
    (
        One,
        NotModelled("1", "beam search is not modelled"),
        &["max-beam-width"],
    ),
    (
        One,
        NotModelled(
            "",
            "it is read in --serve-cmd only: its keys are flags here (--cuda-graph-padding, --disable-overlap-scheduler, \
             --tokens-per-block and the like)",
        ),
        &["extra-llm-api-options", "config"],
    ),
];
