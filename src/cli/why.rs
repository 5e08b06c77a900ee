//! `--why`: where the time of a run's steps goes, operator by operator.

use super::{balance, pools};
use crate::analysis::RunResult;
use crate::config::Resolved;
use crate::cost::{Chunk, StepLoad};
use crate::metrics::{LittleCheck, WorkCounters};
use crate::report::figures::{bytes_per_s, flops_per_s, percent, significant, time};
use crate::report::{counted, trust_mark};
use crate::sim::{Pool, Role};

/// Explains a typical decode step and a prefill step that fills the token budget, of each pool by its own steps.
pub(super) fn explain(resolved: &Resolved, result: &RunResult) -> String {
    let all = resolved.scenario.pools.as_slice();
    if let [pool] = all {
        let summary = result.steady.as_ref().unwrap_or(&result.whole);
        return sections(pool, &summary.work);
    }
    let mut text = balance::explain(resolved, result);
    for (pool, done) in all.iter().zip(pools::by_pool(resolved, result)) {
        let Some(done) = done.filter(|done| done.work.steps > 0) else {
            text += &format!("\n{}: none of its replicas ran a step\n", pool.name);
            continue;
        };
        let law = |name: &str, LittleCheck { l, lambda, w }: LittleCheck| {
            format!(
                "{name} L {} vs λW {} ({}/s × {})",
                significant(l),
                significant(lambda * w),
                significant(lambda),
                time(w)
            )
        };
        text += &format!(
            "\n{}: {}, {}, busy {} of the time\n",
            pool.name,
            law("running", done.running),
            law("waiting", done.waiting),
            percent(
                done.busy_s / (result.whole.duration_s * f64::from(pool.replicas)).max(f64::MIN_POSITIVE)
            ),
        );
        text += &sections(pool, &done.work);
    }
    text
}

fn sections(pool: &Pool, work: &WorkCounters) -> String {
    let decode = pools::mean_decode_step(work);
    let budget = pool.engine.prompt_tokens_per_step();
    let prefill = StepLoad {
        chunks: vec![Chunk {
            computed: 0,
            new: budget.min(pool.engine.max_model_len()),
        }],
        sampled_rows: 1,
        ..StepLoad::default()
    };
    let mut text = String::new();
    // A replica that only prefills has no decode step to explain.
    if pool.role != Role::Prefill {
        let sequences = counted(u64::from(decode.decode_seqs), "sequence");
        let title = format!(
            "a decode step of {sequences} at context {}",
            decode.decode_longest
        );
        text += &section(pool, &title, &decode);
    }
    if pool.role != Role::Decode {
        let title = format!("a prefill step of {}", counted(prefill.tokens(), "token"));
        text += &section(pool, &title, &prefill);
    }
    text
}

fn section(pool: &Pool, title: &str, load: &StepLoad) -> String {
    let breakdown = (pool.cost)().breakdown(load);
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
