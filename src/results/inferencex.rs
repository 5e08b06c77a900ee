//! SemiAnalysis InferenceX: vLLM's client with its statistics in seconds, under names without a unit.
//!
//! Its `random` lengths are uniform on 0.8 to 1.0 of the nominal one; the totals here are what was sent.

use super::json::Fields;
use super::measured::{Measured, Setup, Tool};
use super::vllm;

pub(super) fn read(fields: &Fields<'_>, place: &str) -> Measured {
    let mut row = Measured::new(Tool::Inferencex, place);
    let max_concurrency = fields.count("max_concurrency");
    row.setup = Setup {
        model: fields.text("model_id"),
        load: vllm::load(fields.rate("request_rate"), max_concurrency),
        max_concurrency,
        num_prompts: fields.count("num_prompts"),
        ..Setup::default()
    };
    let outcome = &mut row.outcome;
    outcome.completed = fields.count("completed");
    outcome.duration_s = fields.number("duration");
    outcome.input_tokens = fields.number("total_input_tokens");
    outcome.output_tokens = fields.number("total_output_tokens");
    outcome.request_throughput = fields.number("request_throughput");
    outcome.input_throughput = fields.number("input_throughput");
    outcome.output_throughput = fields.number("output_throughput");
    outcome.total_throughput = fields.number("total_token_throughput");
    outcome.goodput = fields
        .number("request_goodput")
        .or_else(|| fields.number("request_goodput:"));
    row.ttft = fields.stats("", "_ttft", 1.0);
    row.tpot = fields.stats("", "_tpot", 1.0);
    row.itl = fields.stats("", "_itl", 1.0);
    row.e2el = fields.stats("", "_e2el", 1.0);
    row.taken.push("latencies are written in seconds".to_owned());
    row.complete()
}
