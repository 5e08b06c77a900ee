//! Flags of `trtllm-serve` that have no field of their own, where no other server has one of the same name.

use super::Effect::{Ignored, NotModelled};
use super::Takes::One;
use super::{BEAMS, Family, PROCESSES, SERVER, TEXT};

/// Flags of `trtllm-serve`.
pub(super) const TRTLLM: &[Family] = &[
    (
        One,
        Ignored(SERVER),
        "metadata-server-config-file num-postprocess-workers disagg-cluster-uri",
    ),
    (One, Ignored(TEXT), "tool-parser"),
    (One, Ignored(PROCESSES), "gpus-per-node"),
    (One, NotModelled("1", BEAMS), "max-beam-width"),
    (
        One,
        NotModelled(
            "",
            "it is read in --serve-cmd only: its keys are flags here (--cuda-graph-padding, \
             --disable-overlap-scheduler, --tokens-per-block and the like)",
        ),
        "extra-llm-api-options",
    ),
];
