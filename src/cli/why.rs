//! `--why`: where the time of a run's steps goes, operator by operator.

use crate::analysis::RunResult;
use crate::config::Resolved;
use crate::cost::{Chunk, StepLoad};
use crate::report::figures::{bytes_per_s, flops_per_s, percent, time};
use crate::report::{counted, trust_mark};

/// Explains a typical decode step and a prefill step that fills the token budget.
pub(super) fn explain(resolved: &Resolved, result: &RunResult) -> String {
    let summary = result.steady.as_ref().unwrap_or(&result.whole);
    let work = &summary.work;
    let batch = (work.decode_tokens as f64 / (work.steps.max(1)) as f64)
        .round()
        .max(1.0) as u32;
    let context = (work.decode_kv_tokens as f64 / (work.decode_tokens.max(1)) as f64)
        .round()
        .max(1.0) as u32;
    let decode = StepLoad {
        decode_seqs: batch,
        decode_kv_tokens: u64::from(batch) * u64::from(context),
        decode_longest: context,
        chunks: Vec::new(),
        sampled_rows: batch,
    };
    let budget = resolved.scenario.first_pool().engine.prompt_tokens_per_step();
    let prefill = StepLoad {
        chunks: vec![Chunk {
            computed: 0,
            new: budget.min(resolved.scenario.first_pool().engine.max_model_len()),
        }],
        sampled_rows: 1,
        ..StepLoad::default()
    };
    if resolved.servers.len() > 1 {
        let why = "of the first pool, with the averages of all:";
        return format!("\n{why}{}", sections(resolved, batch, context, &decode, &prefill));
    }
    sections(resolved, batch, context, &decode, &prefill)
}

fn sections(resolved: &Resolved, batch: u32, context: u32, decode: &StepLoad, prefill: &StepLoad) -> String {
    let mut text = section(
        resolved,
        &format!(
            "a decode step of {} at context {context}",
            counted(u64::from(batch), "sequence")
        ),
        decode,
    );
    text += &section(
        resolved,
        &format!("a prefill step of {}", counted(prefill.tokens(), "token")),
        prefill,
    );
    text
}

fn section(resolved: &Resolved, title: &str, load: &StepLoad) -> String {
    let breakdown = (resolved.scenario.first_pool().cost)().breakdown(load);
    let total: f64 = breakdown.parts.iter().map(|part| part.seconds).sum();
    let mut text = format!("\nwhere the time goes in {title}: {}\n", time(total));
    for part in breakdown.parts.iter().filter(|part| part.seconds > 0.0) {
        let rate = if part.flops > 0.0 || part.bytes > 0.0 {
            let (flops, bytes) = (part.flops / part.seconds, part.bytes / part.seconds);
            format!("{:>14} {:>12}", flops_per_s(flops), bytes_per_s(bytes))
        } else {
            String::new()
        };
        text += &format!(
            "  {:<22} {:>9} {:>6} {rate:<27}  {}\n",
            part.operator,
            time(part.seconds),
            percent(part.seconds / total),
            trust_mark(part.trust),
        );
    }
    text
}
