//! `--why`: where the time of a run's steps goes, operator by operator.

use super::{balance, pools};
use crate::analysis::Outcome;
use crate::cluster::LockStepAccount;
use crate::config::Resolved;
use crate::cost::{Breakdown, StepLoad};
use crate::engine::EngineSpec;
use crate::metrics::{LittleCheck, ReplicaSummary, Summary, WorkCounters};
use crate::report::drafts;
use crate::report::figures::{bytes_per_s, count, flops_per_s, percent, significant, time};
use crate::report::{counted, trust_mark};
use crate::sim::{Pool, Role};

/// Explains a decode step and a prefill step as they were on average, of each pool by its own steps.
pub(super) fn explain(resolved: &Resolved, outcome: &Outcome) -> String {
    let result = &outcome.result;
    let all = resolved.scenario.pools.as_slice();
    if result.whole.work.steps == 0 {
        return "\nno request was answered and no step ran: there is no time to explain\n".to_owned();
    }
    if let [pool] = all {
        let summary = result.steady.as_ref().unwrap_or(&result.whole);
        let ranks = outcome.lock_step.as_ref();
        let beside = ranks.and_then(LockStepAccount::tokens_beside_prompts);
        return sections(pool, &summary.work, mean_prompt(summary), beside);
    }
    let mut text = balance::explain(resolved, result);
    if result.steady.is_some() {
        text += "\nwhat follows is of each pool over the whole run, warm-up and drain included\n";
    }
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
        text += &sections(pool, &done.work, prompt_of(&done), None);
    }
    text
}

/// Tokens of a prompt that are found in the prefix cache, and those that are not, on average.
type Prompt = (u32, u32);

/// Of those that were answered in a stretch; all of a prompt is new where nobody was.
fn mean_prompt(summary: &Summary) -> Prompt {
    let length = summary.input_tokens as f64 / summary.completed.max(1) as f64;
    let queried = summary.cache_queries_tokens.max(1) as f64;
    let cached = length * summary.cache_hit_tokens as f64 / queried;
    (cached.round() as u32, (length - cached).round() as u32)
}

/// Of those that a pool took.
pub(super) fn prompt_of(done: &ReplicaSummary) -> Prompt {
    let each = |tokens: u64| (tokens as f64 / done.admitted.max(1) as f64).round() as u32;
    let new = done
        .work
        .prefill_tokens
        .saturating_sub(done.work.recomputed_tokens);
    (each(done.cache_hit_tokens), each(new))
}

/// `beside` are the tokens that other ranks in step bring to a step with prompts on average; `None` where there are none.
fn sections(pool: &Pool, work: &WorkCounters, (cached, new): Prompt, beside: Option<f64>) -> String {
    let decode = pools::mean_decode_step(work).reading((pool.cost)().reads_at_most());
    // Of prompts as long as those of the run; a step of one that fills it costs more attention than many short ones.
    let new = match new {
        0 => pool.engine.max_model_len(),
        new => new,
    };
    // Pieces of a long prompt take the longer the more of it is there: that in its middle is as long as they are on average.
    let budget = pool.engine.prompt_tokens_per_step().max(1);
    let before = new.saturating_sub(budget) / 2;
    let prefill = pools::mean_prefill_step(pool, work, cached + before, new - before);
    let drafts = pool.engine.speculates().and_then(drafts::acceptance);
    let mut text = drafts.map_or(String::new(), |told| format!("\ndrafts: {told}\n"));
    // A replica that only prefills has no decode step to explain.
    if pool.role != Role::Prefill {
        let sequences = counted(u64::from(decode.decode_seqs), "sequence");
        let title = format!(
            "a decode step of {sequences} at context {}",
            decode.decode_longest
        );
        text += &section(&title, &(pool.cost)().breakdown(&decode));
        text += &padded(pool, &decode);
        text += &launched(pool, &decode);
    }
    if pool.role != Role::Decode {
        let of = match prefill.chunks.as_slice() {
            [first, _, ..] => format!(", of prompts of {}", first.new),
            _ if before > 0 => format!(", in the middle of a prompt of {new}"),
            _ => String::new(),
        };
        let others = beside.unwrap_or(0.0).round() as u64;
        let beside = match beside {
            None => String::new(),
            Some(_) => format!(", beside {} of the other ranks", count(others)),
        };
        let title = format!(
            "a prefill step of {}{of}{beside}, as they had on average",
            counted(prefill.tokens(), "token")
        );
        text += &section(&title, &(pool.cost)().breakdown_beside(&prefill, others));
    }
    text
}

/// To how many tokens a CUDA graph pads those of a decode step, which the rates of its kernels count.
fn padded(pool: &Pool, decode: &StepLoad) -> String {
    let tokens = u32::try_from(decode.tokens()).expect("a step's tokens");
    match (pool.cost)().replayed(tokens) {
        Some(graph) if graph > tokens => format!(
            "  the CUDA graph pads {} to {graph}: FLOP/s above include the padding, MFU does not\n",
            counted(decode.tokens(), "token")
        ),
        _ => String::new(),
    }
}

/// That no CUDA graph holds a decode step, where kernels are then launched one by one, and which flag would have one.
fn launched(pool: &Pool, decode: &StepLoad) -> String {
    let tokens = u32::try_from(decode.tokens()).expect("a step's tokens");
    let cost = (pool.cost)();
    let has_graphs = cost.replayed(1).is_some();
    if !has_graphs || cost.replayed(tokens).is_some() {
        return String::new();
    }
    let remedy = match pool.engine {
        EngineSpec::Trtllm(_) => "--cuda-graph-padding or a larger --cuda-graph-max-batch-size",
        EngineSpec::Sglang(_) => "a larger --cuda-graph-max-bs",
        _ => "a larger --max-cudagraph-capture-size",
    };
    format!(
        "  no CUDA graph holds {}, so kernels are launched one by one and the GPU waits for the host between them (host_bound_wait): {remedy} \
         captures one that does\n",
        counted(decode.tokens(), "token")
    )
}

fn section(title: &str, breakdown: &Breakdown) -> String {
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
            "  {:<22} {:>9} {:>8} {rate:<27}  {}\n",
            part.operator,
            time(part.seconds),
            percent(part.seconds / total),
            trust_mark(part.trust),
        );
    }
    text
}
