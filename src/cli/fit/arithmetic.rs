//! The arithmetic behind the answer, a line a quantity, for `--why`.

use std::io::Write;

use super::drafts::{speculation, tokens_per_decode};
use super::loading;
use super::states;
use super::text::{kv_per_token, requests};
use super::typical::Typical;
use crate::cli::figures::{grouped, short, with_unit};
use crate::config::Capacity;
use crate::engine::ceilings::Ceilings;
use crate::engine::memory::{MemoryOptions, MemoryPlan, bytes_per_logit};
use crate::model::{ModelShape, Quantization};
use crate::quantity::{format_flops, format_rate};
use crate::report::drafts;
use crate::units::Bytes;

/// Every line is `what   arithmetic = result`.
pub(super) fn write_arithmetic(
    out: &mut dyn Write,
    question: &Capacity,
    plan: &MemoryPlan,
    typical: Typical,
    ceilings: &Ceilings,
) -> anyhow::Result<()> {
    let lines = memory_lines(question, plan)
        .into_iter()
        .chain(request_lines(question, plan, typical))
        .chain(roof_lines(question, ceilings))
        .chain(question.break_even.iter().flat_map(loading::arithmetic));
    for (what, arithmetic) in lines {
        writeln!(out, "   {what:<18} {arithmetic}")?;
    }
    Ok(())
}

fn memory_lines(question: &Capacity, plan: &MemoryPlan) -> Vec<(&'static str, String)> {
    let Capacity {
        device,
        model,
        options,
        ..
    } = question;
    let tp = options.tensor_parallel;
    let estimate = plan.estimates;
    let share = match options.budget.is_of_rest {
        true => String::new(),
        false => {
            let kept = match options.budget.kept {
                1.0 => String::new(),
                kept => format!(" × {kept}"),
            };
            // Beyond four digits a share tells nothing more.
            let given = (options.gpu_memory_utilization * 1e4).round() / 1e4;
            format!(" × {given}{kept}")
        }
    };
    let mut lines = vec![(
        "  memory",
        format!(
            "{:.1} GiB that {} offers{}{share} = {:.2} GiB",
            device.memory.gib(),
            device.id,
            match options.budget.excluded {
                Bytes(0) => String::new(),
                taken => format!(", less {:.2} GiB of context and libraries,", taken.gib()),
            },
            plan.requested.gib()
        ),
    )];
    let shared = if tp * options.pipeline_parallel > 1 {
        ", this GPU's share"
    } else {
        ""
    };
    lines.push((
        "- weights",
        format!(
            "{} parameters, {} linear layers, {} rest{shared}{} = {:.2} GiB",
            grouped(model.parameters()),
            storage(model),
            model.dtype.name(),
            drafter_weights(options),
            plan.weights.gib()
        ),
    ));
    if options.budget.holds_activations {
        lines.extend(activation_lines(question, plan));
        let runtime = format!(
            "buffers and workspaces = {:.2} GiB   estimate",
            estimate.runtime.gib()
        );
        lines.push(("- runtime", runtime));
    } else {
        let outside = "activations and CUDA graphs live in what the share leaves out".to_string();
        lines.push(("  outside", outside));
    }
    let given = match (options.kv_cache_memory_bytes, options.budget.is_of_rest) {
        (Some(_), _) => "as given".to_string(),
        (None, true) => format!(
            "the rest × {}, as far as it is asked for",
            options.gpu_memory_utilization
        ),
        (None, false) => "the rest".to_string(),
    };
    lines.push(("= KV pool", format!("{given} = {:.2} GiB", plan.kv_pool.gib())));
    lines
}

/// What an engine measures in its profiling run, where it comes out of the share.
fn activation_lines(question: &Capacity, plan: &MemoryPlan) -> [(&'static str, String); 2] {
    let Capacity { model, options, .. } = question;
    let estimate = plan.estimates;
    let of_ranks = match options.tensor_parallel {
        1 => String::new(),
        ranks => format!("/{ranks}"),
    };
    let tokens = grouped(u64::from(options.max_num_batched_tokens));
    let (forward, sampling) = (options.forward_bytes(model), options.sampling_bytes(model));
    let forward_terms = format!(
        "{tokens} tokens × {} B × (2 × {}{of_ranks} + 6 × {}) = {:.2} GiB",
        model.dtype.bytes(),
        grouped(model.widest_intermediate()),
        grouped(u64::from(model.hidden_size)),
        forward.gib(),
    );
    let sampling_terms = format!(
        "{} rows × {} × {} B + {tokens} × {} × {} B = {:.2} GiB",
        grouped(u64::from(
            options.max_num_seqs.min(options.max_num_batched_tokens)
        )),
        grouped(u64::from(model.vocab_size)),
        bytes_per_logit(model),
        grouped(u64::from(model.hidden_size)),
        model.dtype.bytes(),
        sampling.gib(),
    );
    let picking = match estimate.activations - forward.max(sampling) {
        Bytes(0) => String::new(),
        more => format!(" + sparse attention's workspaces, {:.2} GiB", more.gib()),
    };
    let activations = match forward > sampling {
        true => format!(
            "{forward_terms} (sampling {:.2}){picking}   estimate",
            sampling.gib()
        ),
        false => format!(
            "sampling of {sampling_terms} (forward {:.2}){picking}   estimate",
            forward.gib()
        ),
    };
    let graphs = if options.enforce_eager {
        "none, eager"
    } else {
        "19.2 MiB a layer"
    };
    let graphs = format!("{graphs} = {:.2} GiB   estimate", estimate.cuda_graphs.gib());
    match options.charge_cuda_graphs {
        true => [("- activations", activations), ("- CUDA graphs", graphs)],
        false => [
            ("- activations", activations),
            ("  CUDA graphs", format!("{graphs}, in what the share leaves out")),
        ],
    }
}

fn storage(model: &ModelShape) -> String {
    match model.quantization {
        Quantization::None => model.dtype.name().to_string(),
        quantization => quantization.name(),
    }
}

fn request_lines(question: &Capacity, plan: &MemoryPlan, typical: Typical) -> Vec<(&'static str, String)> {
    let groups = plan.layout.groups.count();
    let blocks = |tokens: u32| {
        let blocks = grouped(plan.blocks_of_request(tokens));
        format!(
            "{} tokens take {blocks} blocks: {} ÷ {blocks} = {}",
            grouped(u64::from(tokens)),
            grouped(u64::from(plan.num_gpu_blocks)),
            requests(plan.concurrency(tokens))
        )
    };
    let mut lines = vec![
        ("  KV per token", kv_per_token(question, plan)),
        (
            "  KV blocks",
            format!(
                "{} B ÷ ({} tokens × {} B) = {} blocks{}{}",
                grouped(plan.kv_pool.0),
                plan.block_size,
                grouped(plan.layout.block_bytes.0 / u64::from(plan.block_size)),
                grouped(u64::from(plan.num_gpu_blocks)),
                match groups {
                    1 => String::new(),
                    groups => format!(" ÷ {groups} groups of layers"),
                },
                match plan.layout.states {
                    None => format!(" = {} tokens", grouped(plan.tokens_in_all_layers())),
                    // What states take of them depends on how many requests there are.
                    Some(_) => String::new(),
                }
            ),
        ),
        ("  worst case", blocks(question.max_model_len)),
        (
            "  typical",
            format!("{}: {}", typical.origin(), blocks(typical.tokens(question))),
        ),
    ];
    let kinds = plan.layout.groups.windows.iter().map(|kind| {
        format!(
            "{} of {groups} groups give back what slid out of {} tokens: {} blocks each, with the {} that may be in flight",
            kind.groups,
            grouped(u64::from(kind.window)),
            grouped(u64::from(plan.held_at_most(kind))),
            grouped(u64::from(plan.max_in_flight_tokens)),
        )
    });
    lines.extend(kinds.map(|line| ("  windows", line)));
    lines.extend(states::lines(question, plan));
    if plan.tokens() != plan.tokens_in_all_layers() {
        let line = format!(
            "{} ÷ {} × {} tokens of the longest request = {} tokens, as vLLM's log counts",
            grouped(u64::from(plan.num_gpu_blocks)),
            grouped(plan.blocks_of_request(plan.max_model_len)),
            grouped(u64::from(plan.max_model_len)),
            grouped(plan.tokens())
        );
        lines.push(("  logged", line));
    }
    lines
}

fn roof_lines(question: &Capacity, ceilings: &Ceilings) -> Vec<(&'static str, String)> {
    let bandwidth = question.device.memory_bandwidth;
    let gpus = question.options.tensor_parallel * question.options.pipeline_parallel;
    let tokens = tokens_per_decode(question);
    let (read, drafted) = match speculation(question) {
        Some(_) if question.options.drafter.is_some() => {
            (", the drafter's too", format!(" × {tokens:.2} tokens"))
        }
        Some(_) => ("", format!(" × {tokens:.2} tokens")),
        None => ("", String::new()),
    };
    let told = speculation(question).and_then(drafts::acceptance);
    let mut lines: Vec<(&'static str, String)> = told.map(|told| ("  drafts", told)).into_iter().collect();
    lines.extend([
        (
            "  prefill roof",
            format!(
                "{gpus} × {} ÷ {} a token = {} tok/s",
                format_flops(ceilings.peak),
                with_unit(ceilings.flops_per_token.0, "FLOP"),
                short(ceilings.prefill_tokens_per_s)
            ),
        ),
        (
            "  decode roof",
            format!(
                "{} ÷ {} of weights read a step{read}{drafted} = {} tok/s for one sequence",
                format_rate(bandwidth),
                with_unit(ceilings.streamed.0 as f64, "B"),
                short(ceilings.decode_steps_per_s * tokens)
            ),
        ),
        (
            "  ridge point",
            format!(
                "({} of layers ÷ {}) ÷ ({} ÷ {}) = {:.0} tokens",
                with_unit(ceilings.layer_weights.0 as f64, "B"),
                format_rate(bandwidth),
                with_unit(ceilings.flops_per_token.0, "FLOP"),
                format_flops(ceilings.peak),
                ceilings.ridge_tokens
            ),
        ),
    ]);
    lines
}

/// `, and 0.74 GiB of the drafter`, where there is one.
fn drafter_weights(options: &MemoryOptions) -> String {
    let bytes = options
        .drafter
        .as_ref()
        .map(|drafter| drafter.weight_bytes(options.tensor_parallel));
    bytes.map_or(String::new(), |bytes| {
        format!(", and {:.2} GiB of the drafter", bytes.gib())
    })
}
