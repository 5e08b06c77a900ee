//! `plimsoll fit`: does it fit, how many tokens of KV cache, and what the datasheet allows at most.

mod arithmetic;
mod drafts;
mod json;
mod loading;
mod states;
mod text;
mod typical;

use std::io::Write;
use std::process::ExitCode;

use super::disk::Disk;
use super::figures::{grouped, short};
use super::terminal::Terminal;
use super::{Exit, interrupt};
use crate::config::flags::{EngineFlags, MachineFlags, ScenarioFlags, ServerFlags, SpeculationFlags};
use crate::config::scalar::Count;
use crate::config::{Capacity, Diagnostic, Diagnostics, Place, Source, assemble, capacity};
use crate::engine::EngineSpec;
use crate::engine::memory::{DoesNotFit, ESTIMATES_OFF, MemoryPlan};
use crate::units::Bytes;
use json::{does_not_fit_json, fits_json};
use text::{folded, write_assumed, write_notes, write_text};
use typical::Typical;

/// Does the model fit, and what is the most the hardware could do?
///
/// Weights and KV cache are counted from the model's config; activations, CUDA graphs and runtime are estimates.
/// The ceilings are datasheet rooflines: nothing served is faster.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "Examples:
  plimsoll fit meta-llama/Llama-3.1-8B-Instruct --gpu H100-SXM-80GB --max-model-len 8192
  plimsoll fit Qwen/Qwen3-32B --gpu l40s --quantization fp8 --tensor-parallel-size 2 --why
  plimsoll fit Qwen/Qwen3-8B --gpu h200 --engine vllm@0.11 --max-num-seqs 256
  plimsoll fit --gpu h100 --serve-cmd \"vllm serve Qwen/Qwen3-8B --max-model-len 32k\"
  plimsoll fit ./my-model/config.json --gpu hardware_profiles/mine.toml --format json

Flags, defaults and refusals are those of run, knee and sweep; of a scenario's traffic only the mean length counts. Exit code 3: it does not fit; the message names the smallest changes that do.")]
pub struct Args {
    /// Model, or scenario: Hugging Face id, the path of a config.json or of its folder, or a scenario.
    #[arg(value_name = "MODEL|SCENARIO")]
    pub target: Option<String>,
    #[command(flatten)]
    pub(crate) machines: MachineFlags,
    #[command(flatten)]
    pub(crate) engines: EngineFlags,
    #[command(flatten)]
    pub(crate) speculation: SpeculationFlags,
    /// A whole `vllm serve …`, `python -m sglang.launch_server …` or `trtllm-serve …` command to take model and engine flags from.
    #[arg(long, value_name = "COMMAND", help_heading = "Pasted commands")]
    pub serve_cmd: Option<String>,
    /// Prompt tokens of a usual request, of which fit tells how many run at once; without it the mean of the scenario's traffic, or 1,024.
    #[arg(long, value_name = "TOKENS", help_heading = "Traffic")]
    pub input_len: Option<Count>,
    /// Output tokens of a usual request; without it the mean of the scenario's traffic, or 128.
    #[arg(long, value_name = "TOKENS", help_heading = "Traffic")]
    pub output_len: Option<Count>,
    /// Print the arithmetic line by line.
    #[arg(long, help_heading = "Output")]
    pub why: bool,
    /// text or json.
    #[arg(long, default_value = "text", value_parser = super::text_or(&["json"]), help_heading = "Output")]
    pub format: String,
}

impl Args {
    /// What is asked, in the words of a run without traffic.
    fn flags(&self) -> ScenarioFlags {
        let server = ServerFlags {
            machines: self.machines.clone(),
            engines: self.engines.clone(),
            speculation: self.speculation.clone(),
            ..ServerFlags::default()
        };
        ScenarioFlags {
            target: self.target.clone(),
            server,
            serve_cmd: self.serve_cmd.clone(),
            ..ScenarioFlags::default()
        }
    }
}

/// Answers on `out`; exit code 3 where it does not fit.
///
/// # Errors
/// Every flag and key that is wrong.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // All is said at the end.
    let _nothing_yet = interrupt::at_once();
    let input = assemble(&args.flags(), &Disk)?;
    let has_pools = ["cluster.pools", "cluster.prefill", "cluster.decode"]
        .iter()
        .any(|key| input.document.get(key).is_some());
    if let Some(Source::Flag(flag)) = input.document.source("cluster.price") {
        let problem = Diagnostic::new("--price has no effect on fit, which tells no cost");
        let help = "leave it out: `run`, `sweep` and `knee` say what GPUs cost, and take --price";
        return Err(Diagnostics::from(problem.at(Place::Flag(flag)).help(help)).into());
    }
    let input_has_step_time = input.document.get("cluster.step_time").is_some();
    let mut question = capacity(input.document, &Disk)?;
    question.notes.splice(0..0, input.notes);
    if has_pools {
        let note = "the scenario has several pools: this is one server by what they have in common, [model], [cluster] and [engine]; what \
                    a pool has of its own is left out";
        question.notes.push(note.to_owned());
    }
    if input_has_step_time {
        let note = "step_time says how long the steps of a run last, and divides no memory: the ceilings here are the GPU's";
        question.notes.push(note.to_owned());
    }
    let typical = Typical::of(args, &question);
    let text = match (&question.plan, args.format.as_str()) {
        (Ok(plan), "json") => format!("{:#}\n", fits_json(&question, plan, typical)),
        (Err(error), "json") => format!("{:#}\n", does_not_fit_json(&question, error)),
        (Ok(plan), _) => text_of(&question, plan, typical, args.why)?,
        (Err(error), _) => misfit_text(&question, error)?,
    };
    let width = terminal.width().filter(|_| args.format == "text");
    let text = width.map_or(text.clone(), |width| folded(&text, width));
    out.write_all(text.as_bytes())?;
    Ok(match question.plan {
        Ok(_) => Exit::Ok,
        Err(_) => Exit::NotMet,
    }
    .into())
}

/// What does not fit, for people: why, what would, and what was assumed about it.
fn misfit_text(question: &Capacity, error: &DoesNotFit) -> anyhow::Result<String> {
    let mut text = format!(
        " DOES NOT FIT  {}\n  {}\n",
        error.reason(),
        error.smallest_changes()
    )
    .into_bytes();
    if let Some(tight) = error.tight_changes() {
        writeln!(text, "  {tight}")?;
    }
    write_assumed(&mut text, question)?;
    write_notes(&mut text, question)?;
    Ok(String::from_utf8(text)?)
}

/// What fits, for people.
fn text_of(question: &Capacity, plan: &MemoryPlan, typical: Typical, why: bool) -> anyhow::Result<String> {
    let mut text = Vec::new();
    write_text(&mut text, question, plan, typical, why)?;
    Ok(String::from_utf8(text)?)
}

/// The most sequences that run at once, and the engine's word for that.
fn running_at_most(question: &Capacity) -> (u32, &'static str) {
    match &question.engine {
        Some(EngineSpec::Sglang(config)) => (config.max_running_requests, "max_running_requests"),
        Some(EngineSpec::Trtllm(config)) => (config.max_batch_size, "max_batch_size"),
        Some(engine) => (engine.max_num_seqs(), "max_num_seqs"),
        None => (question.options.max_num_seqs, "max_num_seqs"),
    }
}

/// Why the tokens of the pool and those of the requests that it holds are two figures, where layers have windows.
fn windows(question: &Capacity, plan: &MemoryPlan) -> Option<String> {
    if plan.layout.groups.windows.is_empty() {
        return None;
    }
    if plan.rules.tokens_of_longest {
        return Some(format!(
            "{} tokens, as vLLM logs it, assumes full-length requests, whose windowed layers free old tokens; if every layer kept \
             everything, the pool would hold {}",
            short(plan.tokens() as f64),
            short(plan.tokens_in_all_layers() as f64)
        ));
    }
    let longest = plan.concurrency(question.max_model_len) * u64::from(question.max_model_len);
    let held = match longest {
        0 => String::new(),
        tokens => format!(
            ": {} tokens in requests of the longest kind",
            short(tokens as f64)
        ),
    };
    Some(format!(
        "the pool's {} tokens are as if every layer kept all of them, as vLLM's log counts; layers with a window give back what slid \
         out of it, and the requests are counted so{held}",
        short(plan.tokens() as f64)
    ))
}

/// What becomes of long requests where the engine starts though its pool holds none of the longest.
fn too_long(question: &Capacity, plan: &MemoryPlan) -> Option<String> {
    if plan.concurrency(question.max_model_len) > 0 {
        return None;
    }
    let then = match &question.engine {
        // `max_req_len` (SG-25).
        Some(EngineSpec::Sglang(config)) => format!(
            "cuts answers at {} tokens, prompt included, and refuses prompts that leave no room for one",
            grouped(u64::from(config.context_length.min(config.max_total_tokens) - 1))
        ),
        Some(EngineSpec::Trtllm(config)) => format!(
            "cuts sequences at {} tokens, prompt included",
            grouped(u64::from(config.max_seq_len))
        ),
        _ => format!(
            "refuses requests of more than {} tokens, as `run` does",
            grouped(plan.tokens())
        ),
    };
    Some(format!(
        "no request of {} tokens fits the KV pool: the engine starts all the same and {then}",
        grouped(u64::from(question.max_model_len))
    ))
}

/// That the longest request fits by less than is sure, and by how much.
fn tight(question: &Capacity, plan: &MemoryPlan) -> Option<String> {
    let spare = plan.spare().filter(|_| plan.is_tight(&question.options))?;
    Some(format!(
        "one request of {} tokens leaves {} of the pool, and what is estimated may be off by {}: an engine that measures more at \
         start needs a smaller --max-model-len",
        grouped(u64::from(question.max_model_len)),
        small(spare),
        small(ESTIMATES_OFF)
    ))
}

/// Memory below a GiB or a few, in the unit in which it has digits.
fn small(bytes: Bytes) -> String {
    match bytes.gib() {
        gib if gib >= 0.1 => format!("{gib:.1} GiB"),
        gib => format!("{:.0} MiB", gib * 1024.0),
    }
}

/// Keys that decide memory and that nobody gave, as flags with the profile's values.
fn assumed(question: &Capacity) -> Vec<String> {
    const DECIDE: [&str; 14] = [
        "engine.gpu_memory_utilization",
        "engine.max_model_len",
        "engine.max_num_batched_tokens",
        "engine.max_num_seqs",
        "engine.block_size",
        "sglang.mem_fraction_static",
        "sglang.context_length",
        "sglang.page_size",
        "sglang.max_running_requests",
        "trtllm.kv_cache_free_gpu_memory_fraction",
        "trtllm.max_seq_len",
        "trtllm.max_num_tokens",
        "trtllm.max_batch_size",
        "trtllm.tokens_per_block",
    ];
    let value = |path: &str| {
        let key = path.rsplit('.').next().unwrap_or(path);
        let mut values = question.provenance.iter();
        let value = values.find(|value| value.key == path && value.is_assumed())?;
        Some(format!("--{} {}", key.replace('_', "-"), value.value))
    };
    DECIDE.into_iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests;
