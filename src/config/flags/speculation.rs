//! The flags of speculative decoding: keys of `engine.speculative_config`.

use clap::Args;
use toml::Value;

use super::editor::Editor;

/// Speculative decoding by flags, beside `--speculative-config`; the longer names are those of vLLM before 0.8.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Speculative decoding (vLLM's flags, and how many drafts stand)")]
pub(crate) struct SpeculationFlags {
    /// What drafts: eagle, eagle3, mtp, draft_model or ngram.
    #[arg(long, value_name = "METHOD")]
    pub spec_method: Option<String>,
    /// The drafter; of draft_model a bundled id, `[ngram]` for n-grams.
    #[arg(long, visible_alias = "speculative-model", value_name = "MODEL")]
    pub spec_model: Option<String>,
    /// Drafts that are verified beside each decoded token; 0 is off.
    #[arg(long, visible_alias = "num-speculative-tokens", value_name = "TOKENS")]
    pub spec_tokens: Option<i64>,
    /// Share of the drafts that stand once those before them do, α: not the rate of vLLM's log.
    ///
    /// vLLM's log tells `Avg Draft acceptance rate`, accepted ÷ drafted, which of K drafts is (α + α² + … + αᴷ) ÷ K (0.7 and 3 drafts: 51.1 %), and
    /// `Per-position acceptance rate`, α, α², …, of which the first is α. A verification brings 1 + α + α² + … + αᴷ tokens, the log's `Mean
    /// acceptance length`. Rates as logged by position are given whole:
    /// --speculative-config '{…, "synthetic_acceptance_rates": [0.7, 0.49, 0.343]}'.
    #[arg(long, value_name = "FRACTION", allow_negative_numbers = true)]
    pub acceptance_rate: Option<f64>,
    /// In place of a rate: tokens that a verification brings on average, its own included.
    ///
    /// SGLang's log calls it `accept len`, its answers `spec_accept_length`, vLLM's log `Mean acceptance length`. The first positions are then
    /// accepted always, the next one with what is left, and those behind never.
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub acceptance_length: Option<f64>,
}

impl SpeculationFlags {
    /// Sets what is given, over what a config says.
    pub(super) fn apply(&self, editor: &mut Editor<'_>) {
        let given: [(&str, &str, Option<Value>); 5] = [
            ("method", "spec-method", self.spec_method.clone().map(Value::from)),
            ("model", "spec-model", self.spec_model.clone().map(Value::from)),
            (
                "num_speculative_tokens",
                "spec-tokens",
                self.spec_tokens.map(Value::from),
            ),
            (
                "acceptance_rate",
                "acceptance-rate",
                self.acceptance_rate.map(Value::from),
            ),
            (
                "synthetic_acceptance_length",
                "acceptance-length",
                self.acceptance_length.map(Value::from),
            ),
        ];
        for (key, flag, value) in given {
            if let Some(value) = value {
                editor.set(&format!("engine.speculative_config.{key}"), value, flag);
            }
        }
    }
}
