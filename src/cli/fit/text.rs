//! The answer as text: the verdict first, then what it allows and what was assumed.

use std::io::Write;

use super::arithmetic::write_arithmetic;
use super::drafts::{ceilings, of_step, tokens_per_decode};
use super::typical::Typical;
use super::{assumed, loading, running_at_most, states, tight, too_long, windows};
use crate::cli::figures::{grouped, plain, short};
use crate::config::Capacity;
use crate::engine::ceilings::Ceilings;
use crate::engine::memory::MemoryPlan;
use crate::model::{Attention, Drafter};
use crate::report::{counted, wrapped};

/// Lines of at most `width` columns, each below its own beginning.
pub(super) fn folded(text: &str, width: usize) -> String {
    const INDENT: &str = "               ";
    text.lines()
        .map(|line| wrapped("", INDENT, line, width))
        .collect()
}

/// Writes what fits; with `why`, the arithmetic too.
pub(super) fn write_text(
    out: &mut dyn Write,
    question: &Capacity,
    plan: &MemoryPlan,
    typical: Typical,
    why: bool,
) -> anyhow::Result<()> {
    let options = &question.options;
    let ceilings = ceilings(question);
    let tight = tight(question, plan);
    let runtime = plan.charged(options.charge_cuda_graphs) - plan.weights;
    writeln!(
        out,
        " {:<13} weights {:.1} GiB{} · KV pool {:.1} GiB = {} tokens in {} blocks ({})",
        if tight.is_some() { "FITS, BARELY" } else { "FITS" },
        plan.weights.gib(),
        match options.budget.holds_activations {
            true => format!(" · runtime ~{:.1}", runtime.gib()),
            false => String::new(),
        },
        plan.kv_pool.gib(),
        short(plan.tokens() as f64),
        grouped(u64::from(plan.num_gpu_blocks)),
        kv_per_token(question, plan),
    )?;
    if let Some(told) = &tight {
        writeln!(out, " margin        {told}")?;
    }
    let most = plan.concurrency(typical.tokens(question));
    let usual = match typical.told(question) {
        Ok(tokens) => format!("{} × {tokens}", grouped(most)),
        Err(told) => told,
    };
    writeln!(
        out,
        " concurrency   {} × {} tokens worst case  |  {usual}{}",
        requests(plan.concurrency(question.max_model_len)),
        grouped(u64::from(question.max_model_len)),
        at_most(running_at_most(question), most),
    )?;
    if let Some(told) = windows(question, plan) {
        writeln!(out, " windows       {told}")?;
    }
    if let Some(told) = states::told(plan) {
        writeln!(out, " states        {told}")?;
    }
    if let Some(warning) = too_long(question, plan) {
        writeln!(out, " warning       {warning}")?;
    }
    writeln!(
        out,
        " ceilings      prefill ≤ {} tok/s (compute roof)  |  decode bs=1 ≤ {} tok/s (memory roof{})  |  ridge point {:.0} tokens/step",
        short(ceilings.prefill_tokens_per_s),
        short(ceilings.decode_steps_per_s * tokens_per_decode(question)),
        of_step(question),
        ceilings.ridge_tokens,
    )?;
    if let Some(told) = in_all(question, plan, &ceilings) {
        writeln!(out, " in all        {told}")?;
    }
    if let Some(told) = &question.break_even {
        writeln!(out, " loading       {}", loading::answer(told))?;
    }
    if why {
        write_arithmetic(out, question, plan, typical, &ceilings)?;
    } else {
        writeln!(
            out,
            " why           below ~{:.0} tokens per step the GPU waits for memory; above it, for math   [--why for the arithmetic]",
            ceilings.ridge_tokens
        )?;
    }
    write_assumed(out, question)?;
    if let Some(assumed) = loading::assumptions(question) {
        writeln!(out, " assumed       {assumed}")?;
    }
    let assumed = typical.assumed();
    if !assumed.is_empty() {
        writeln!(out, " assumed       a typical request {}", assumed.join(" "))?;
    }
    let runtime = match options.budget.holds_activations {
        true => "activations, CUDA graphs and buffers, which an engine measures at start",
        false => {
            "context and libraries, which precede the share; activations and CUDA graphs live outside it"
        }
    };
    writeln!(out, " estimated     runtime: {runtime}")?;
    write_notes(out, question)
}

/// Flags that decide memory, with the values that the profile gave them.
pub(super) fn write_assumed(out: &mut dyn Write, question: &Capacity) -> anyhow::Result<()> {
    let assumed = assumed(question);
    if !assumed.is_empty() {
        let profile = &question.profile;
        writeln!(out, " assumed       {profile} defaults {}", assumed.join(" "))?;
    }
    Ok(())
}

pub(super) fn write_notes(out: &mut dyn Write, question: &Capacity) -> anyhow::Result<()> {
    for note in &question.notes {
        writeln!(out, " note          {note}")?;
    }
    Ok(())
}

/// What the engines of a data-parallel server have together, of which the lines above count one.
fn in_all(question: &Capacity, plan: &MemoryPlan, ceilings: &Ceilings) -> Option<String> {
    let engines = u64::from(question.engines);
    (engines > 1).then(|| {
        format!(
            "{engines} engines: {} tokens  |  {} × {} tokens worst case  |  prefill ≤ {} tok/s",
            short((engines * plan.tokens()) as f64),
            requests(engines * plan.concurrency(question.max_model_len)),
            grouped(u64::from(question.max_model_len)),
            short(engines as f64 * ceilings.prefill_tokens_per_s),
        )
    })
}

/// The cap on sequences, where memory would hold more.
fn at_most((most, limit): (u32, &str), fitting: u64) -> String {
    match u64::from(most) {
        most if most < fitting => format!("  |  at most {} run at once ({limit})", grouped(most)),
        _ => String::new(),
    }
}

/// `128 KiB/token: 32 layers × 8 KV heads × 128 × 2, bfloat16`; of a replica on several GPUs, what lies on the one that is counted.
pub(super) fn kv_per_token(question: &Capacity, plan: &MemoryPlan) -> String {
    let Capacity { model, options, .. } = question;
    let tp = options.tensor_parallel;
    let bytes = options.kv_bytes_per_token(model, plan.stage);
    let dtype = options.kv_format.name();
    let drafting = options.drafter.iter().flat_map(Drafter::kv_layers);
    let on_stage = options.layers_on_stage(model, plan.stage);
    let own = model.layers.iter().zip(on_stage).map(|(group, on_stage)| {
        let told = match on_stage == group.count {
            true => layers(group.count),
            false => format!("{on_stage} of {}", layers(group.count)),
        };
        (group, told)
    });
    let terms: Vec<String> = own
        .chain(drafting.map(|group| (group, format!("{} of the drafter", layers(group.count)))))
        .filter_map(|(group, layers)| match group.attention {
            Attention::Grouped { shares_kv: true, .. } => None,
            Attention::Grouped {
                kv_heads,
                head_dim,
                value_dim,
                window,
                ..
            } => {
                let window = window.map_or(String::new(), |window| {
                    format!(" (window {})", grouped(u64::from(window)))
                });
                let heads = match (kv_heads / tp).max(1) {
                    1 => "1 KV head".to_string(),
                    heads => format!("{heads} KV heads"),
                };
                let width = match value_dim == head_dim {
                    true => format!("{head_dim} × 2"),
                    false => format!("({head_dim} + {value_dim})"),
                };
                Some(format!("{layers}{window} × {heads} × {width}"))
            }
            Attention::Latent {
                kv_rank,
                rope_dim,
                indexer,
                ..
            } => {
                let keys = indexer.map_or(0, |indexer| indexer.cached_bytes().0);
                let keys = match keys {
                    0 => String::new(),
                    bytes => format!(" and {bytes} B of indexer keys"),
                };
                Some(format!("{layers} × ({kv_rank} + {rope_dim}) latent{keys}"))
            }
            Attention::Recurrent(_) | Attention::Absent => None,
        })
        .collect();
    let per_gpu = match tp * options.pipeline_parallel {
        1 => "",
        _ => " per GPU",
    };
    format!(
        "{} KiB/token{per_gpu}: {}, {dtype}",
        plain(bytes.0 as f64 / 1024.0),
        terms.join(" + ")
    )
}

fn layers(count: u32) -> String {
    counted(u64::from(count), "layer")
}

/// `1 request`, `54 requests`.
pub(super) fn requests(count: u64) -> String {
    match count {
        1 => "1 request".to_string(),
        _ => format!("{} requests", grouped(count)),
    }
}
