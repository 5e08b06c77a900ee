//! What static batching and Transformers' continuous batching have beside the keys of `[engine]`. These keys are flags, too.

use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::scalar::Duration;

/// How batches are formed by `engine.profile = "static"` and `"hf-cb"`. Other engines take no notice of these keys.
#[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Static batching and Transformers' continuous batching")]
pub struct RawBatching {
    /// static: how long the oldest request waits for a full batch of max_num_seqs; 0 by default.
    #[arg(long, value_name = "DURATION")]
    pub batch_timeout: Option<Duration>,
    /// static: an answer leaves when it is complete, though its row is computed until the batch ends.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub release_rows_early: Option<bool>,
    /// hf-cb: who comes first.
    #[arg(long, value_name = "ORDER")]
    pub cb_scheduler: Option<RawCbScheduler>,
    /// hf-cb: share of the blocks below which prompts wait; 0.2 by default.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub safety_margin: Option<f64>,
}

/// Schedulers of Transformers' continuous batching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake")]
pub enum RawCbScheduler {
    /// Decodes, then prompts.
    Fifo,
    /// Prompts that are begun, then decodes.
    PrefillFirst,
}

/// vLLM 0.6's `--preemption-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RawPreemptionMode {
    /// Compute everything anew.
    Recompute,
    /// Move the KV blocks to the host's memory.
    Swap,
}
