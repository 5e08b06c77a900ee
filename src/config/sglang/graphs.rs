//! Which batches SGLang captures as CUDA graphs, and which it sets memory apart for: those that its flags ask for, whether or not
//! the attention backend then lets them be captured (SG-44, SG-47, SG-48).

use super::backend::Backends;
use super::profile::{Behaviour, SglangProfile};
use super::sizes::{self, PrefillGraphs};
use super::vision::Seeing;
use super::{by_memory, compresses_kv};
use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::RawSglang;
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::sim::Role;
use crate::units::Bytes;

/// Tokens above which prefill batches of models with a compressed KV cache are not captured, and of Llama 2.
const MOST_OF_MLA: u32 = 8192;
const MOST_OF_LLAMA_2: u32 = 4096;
/// Batches of Qwen3-VL on large Hopper cards are captured up to all who may run, if those are no more.
const MOST_OF_QWEN3_VL: u32 = 512;

/// What is captured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Captured {
    /// Largest decode batch; `None` captures nothing.
    pub(super) decode: Option<u32>,
    /// Sizes of prefill batches.
    pub(super) prefill: Option<Vec<u32>>,
    /// Largest decode batch that memory is set apart for; 0 for none.
    pub(super) reserved: u32,
    /// The same of prefill batches.
    pub(super) reserved_prefill: PrefillGraphs,
    /// Largest decode batch of the flags or the card.
    pub(super) graph_max: u32,
}

/// Who serves.
#[derive(Clone, Copy)]
pub(super) struct Machine<'a> {
    pub(super) device: Option<&'a Device>,
    pub(super) model: Option<&'a ModelShape>,
    pub(super) tensor_parallel: u32,
    pub(super) role: Role,
    pub(super) seeing: Option<Seeing>,
}

/// What is captured for chunks of `chunk` tokens.
pub(super) fn captured(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    machine: Machine,
    backends: &Backends,
    chunk: Option<u32>,
) -> Captured {
    let is_new = profile.behaviour == Behaviour::V0_5_23;
    let key = "sglang.disable_cuda_graph";
    let source = profile.source();
    let default = profile.defaults.disable_cuda_graph;
    let is_disabled = judge.take(key, raw.disable_cuda_graph, default, source);
    let graph_max = largest(judge, raw, profile, machine);
    let sees_without = machine.seeing.is_some_and(|seeing| !seeing.captures_prefill);
    let has_prefill =
        profile.startup.captures_prefill && !is_disabled && machine.role != Role::Decode && !sees_without;
    let sizes = match has_prefill {
        true => prefill_sizes(raw, machine.model, chunk),
        false => Vec::new(),
    };
    let is_mla = machine.model.is_some_and(compresses_kv);
    let is_reserved = !is_new || !(is_disabled || machine.role == Role::Prefill);
    Captured {
        decode: (!is_disabled && backends.capture).then_some(graph_max),
        reserved: if is_reserved { graph_max } else { 0 },
        reserved_prefill: match (has_prefill, is_mla) {
            (false, _) => PrefillGraphs::None,
            (true, true) => PrefillGraphs::OfMla,
            (true, false) => PrefillGraphs::Of(sizes.len()),
        },
        prefill: Some(sizes).filter(|sizes| backends.capture_prefill && !sizes.is_empty()),
        graph_max,
    }
}

/// Largest captured decode batch: in 0.5.23 no larger than what may run.
fn largest(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile, machine: Machine) -> u32 {
    let row = profile.sizes_for(machine.device.map_or(Bytes(0), Device::reported_memory));
    let default = row.graph_max(machine.tensor_parallel);
    let running = raw.max_running_requests.map(|running| running.0);
    let running = running.filter(|&running| running > 0 && profile.behaviour == Behaviour::V0_5_23);
    let is_expanded = machine.seeing.is_some_and(|seeing| seeing.is_qwen3_vl_on_hopper);
    let (default, is_bounded) = match running {
        Some(running) if running < default => (running, true),
        Some(running) if is_expanded && running <= u64::from(MOST_OF_QWEN3_VL) => {
            (running, running > default)
        }
        _ => (default, false),
    };
    let source = match is_bounded {
        true => Source::Profile(format!("{}: what may run", profile.profile)),
        false => by_memory(profile, machine.device),
    };
    judge.count(
        "sglang.cuda_graph_max_bs",
        raw.cuda_graph_max_bs,
        (1, 1 << 14),
        default,
        source,
    )
}

/// Tokens of the prefill batches that are captured; none where prompts are never split.
fn prefill_sizes(raw: &RawSglang, model: Option<&ModelShape>, chunk: Option<u32>) -> Vec<u32> {
    let Some(chunk) = chunk else { return Vec::new() };
    let is_mla = model.is_some_and(compresses_kv);
    let is_llama_2 = model.is_some_and(|model| model.name.to_lowercase().contains("llama-2"));
    let pool = raw
        .max_total_tokens
        .and_then(|tokens| u32::try_from(tokens.0).ok());
    let most = [
        Some(chunk),
        is_mla.then_some(MOST_OF_MLA),
        is_llama_2.then_some(MOST_OF_LLAMA_2),
        pool,
    ];
    sizes::prefill_graphs(most.into_iter().flatten().min().unwrap_or(chunk))
}
