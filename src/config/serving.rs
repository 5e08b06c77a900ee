//! The flags of whichever engine serves, and what they decide about memory and step time.

use std::num::NonZeroU32;

use super::engine::EngineFlags;
use super::judge::Judge;
use super::raw::{RawGraphMode, RawScenario};
use super::scheduled::{self, ScheduledFlags};
use super::sglang::{self, SglangFlags};
use super::trtllm::{self, TrtllmFlags};
use super::version::EngineKind;
use super::{engine, formats, hybrid, skipped, sparse, unlike};
use crate::cluster::Gathering;
use crate::cluster::router::{DataParallelScore, Policy};
use crate::cost::calibration::Calibration;
use crate::cost::roofline::{CudagraphMode, Drafting, Fp8Inputs, Gathers, Graphs};
use crate::engine::memory::{Budget, MemoryOptions, MemoryPlan, StateBlocks, Windowed, kv_groups};
use crate::engine::sglang::DOOR;
use crate::engine::{EngineConfig, EngineSpec};
use crate::hardware::Device;
use crate::model::{Dtype, KvFormat, KvScheme, ModelShape};
use crate::sim::Role;
use crate::units::Bytes;

/// The flags of whichever engine serves.
pub(super) enum Flags {
    Vllm(Box<EngineFlags>),
    Sglang(Box<SglangFlags>),
    Trtllm(Box<TrtllmFlags>),
    Scheduled(Box<ScheduledFlags>),
}

/// Resolves the flags of the engine that is asked for; flags of the other one are refused.
pub(super) fn flags(
    judge: &mut Judge,
    raw: &RawScenario,
    model: Option<&ModelShape>,
    device: Option<&Device>,
    (tensor_parallel, role): (u32, Role),
) -> Flags {
    skipped::check(judge, raw, model);
    if let Some(model) = model {
        hybrid::check_engine(judge, raw, model);
        sparse::check_engine(judge, raw, model);
        unlike::check_engine(judge, raw, model);
    }
    match raw.engine.kind() {
        EngineKind::Trtllm => {
            scheduled::note_batching(judge, &raw.batching, "TensorRT-LLM");
            if let (Some(model), Some(device)) = (model, device) {
                formats::check_trtllm(judge, model, device);
            }
            Flags::Trtllm(Box::new(trtllm::resolve(judge, raw, model)))
        }
        EngineKind::Sglang => {
            sglang::refuse_vllms(judge, &raw.engine);
            trtllm::refuse_trtllms(judge, raw, "SGLang");
            if let Some(device) = device {
                formats::check_sglang(judge, device);
            }
            scheduled::note_batching(judge, &raw.batching, "SGLang");
            let flags = sglang::resolve(
                judge,
                (&raw.engine, &raw.sglang, &raw.cluster),
                (device, model),
                (tensor_parallel, role),
            );
            if let Some(model) = model {
                sparse::check_sglang(judge, &flags, raw.model.kv_cache_dtype, model, device);
            }
            Flags::Sglang(Box::new(flags))
        }
        EngineKind::Scheduled(kind) => {
            let has_key = |key: &str| scheduled::has_key(kind, key);
            sglang::refuse_sglangs(judge, &raw.sglang, scheduled::called(kind), has_key);
            let model_len = model.map(|model| model.max_position);
            let flags = scheduled::resolve(judge, kind, &raw.engine, &raw.batching, device, model_len);
            trtllm::refuse_trtllms(judge, raw, &flags.profile_name());
            scheduled::note_batching(judge, &raw.batching, &flags.profile_name());
            if let (Some(model), Some(device)) = (model, device) {
                formats::check_scheduled(judge, &flags.profile_name(), model, device);
            }
            Flags::Scheduled(Box::new(flags))
        }
        EngineKind::Vllm => Flags::Vllm(Box::new(vllm(judge, raw, model, device))),
    }
}

/// The flags of vLLM's V1 engine.
fn vllm(
    judge: &mut Judge,
    raw: &RawScenario,
    model: Option<&ModelShape>,
    device: Option<&Device>,
) -> EngineFlags {
    sglang::refuse_sglangs(judge, &raw.sglang, "vLLM", |_| true);
    scheduled::refuse_flags_of_v0(judge, &raw.engine);
    trtllm::refuse_trtllms(judge, raw, "vLLM");
    scheduled::note_batching(judge, &raw.batching, "vLLM");
    let exchanges = super::lockstep::exchanges_experts(&raw.cluster, model);
    let has_stages = raw
        .cluster
        .pipeline_parallel_size
        .is_some_and(|stages| stages.0 > 1);
    let flags = engine::resolve(
        judge,
        &raw.engine,
        device,
        model,
        raw.model.kv_cache_dtype,
        (exchanges, has_stages),
    );
    skipped::check_version(judge, &raw.model, flags.profile.pool_rules());
    if let Some(model) = model {
        hybrid::check_version(judge, &flags.profile, model);
        sparse::check(judge, &flags, model, device);
        unlike::check(judge, &flags, model);
    }
    if let (Some(model), Some(device)) = (model, device) {
        formats::check_version(judge, &flags.profile, model, device);
    }
    flags
}

impl Flags {
    /// Name and version of the profile, `vllm@0.33`.
    pub(super) fn profile(&self) -> String {
        match self {
            Flags::Vllm(flags) => flags.profile.profile.clone(),
            Flags::Sglang(flags) => flags.profile_name(),
            Flags::Trtllm(flags) => flags.profile_name(),
            Flags::Scheduled(flags) => flags.profile_name(),
        }
    }

    /// Longest sequence.
    pub(super) fn max_model_len(&self) -> u32 {
        match self {
            Flags::Vllm(flags) => flags.config.max_model_len,
            Flags::Sglang(flags) => flags.context_length(),
            Flags::Trtllm(flags) => flags.max_seq_len(),
            Flags::Scheduled(flags) => flags.max_model_len(),
        }
    }

    /// The key of that length, as the engine spells it.
    pub(super) fn context_key(&self) -> &'static str {
        match self {
            Flags::Vllm(_) | Flags::Scheduled(_) => "engine.max_model_len",
            Flags::Sglang(_) => "sglang.context_length",
            Flags::Trtllm(_) => "trtllm.max_seq_len",
        }
    }

    /// How a data-parallel server shares requests out between its engines (V1-86, SG-49).
    pub(super) fn data_parallel_balancer(&self) -> Policy {
        match self {
            Flags::Vllm(flags) => {
                Policy::VllmDataParallel(match flags.profile.startup.data_parallel_by_waiting {
                    true => DataParallelScore::FourfoldWaiting,
                    false => DataParallelScore::InFlight,
                })
            }
            Flags::Sglang(flags) => flags.balancer,
            Flags::Trtllm(_) | Flags::Scheduled(_) => Policy::RoundRobin,
        }
    }

    /// What ranks have in common beside experts, if they have attention of their own.
    pub(super) fn gathers(&self) -> Option<Gathers> {
        match self {
            Flags::Sglang(flags) => flags.apart().gathers(),
            Flags::Vllm(_) | Flags::Trtllm(_) | Flags::Scheduled(_) => None,
        }
    }

    /// How such ranks come together.
    pub(super) fn gathering(&self) -> Option<Gathering> {
        match self {
            Flags::Sglang(flags) => flags.apart().gathers().map(|_| flags.apart().gathering()),
            Flags::Vllm(_) | Flags::Trtllm(_) | Flags::Scheduled(_) => None,
        }
    }

    /// Whether data-parallel engines with experts agree on an end every 32 steps, not 16; `None` where their stepping
    /// together is not modelled.
    pub(super) fn agrees_rarely(&self) -> Option<bool> {
        match self {
            Flags::Vllm(flags) => Some(flags.profile.startup.data_parallel_by_waiting),
            Flags::Sglang(_) | Flags::Trtllm(_) | Flags::Scheduled(_) => None,
        }
    }

    /// Whether the engine publishes what it caches and evicts (vLLM V1's `kv_events_config`, SGLang's).
    pub(super) fn publishes_kv_events(&self) -> bool {
        !matches!(self, Flags::Trtllm(_) | Flags::Scheduled(_))
    }

    /// Whether `--kv-cache-dtype auto` means what the checkpoint asks for: vLLM since 0.13 (`resolve_kv_cache_dtype_string`;
    /// `Attention` for compressed-tensors), SGLang of ModelOpt's only (`configure_kv_cache_dtype`).
    pub(super) fn heeds(&self, scheme: KvScheme) -> bool {
        match self {
            Flags::Vllm(flags) => flags.profile.startup.heeds_kv_scheme,
            Flags::Sglang(_) | Flags::Trtllm(_) => scheme == KvScheme::ModelOpt,
            Flags::Scheduled(_) => false,
        }
    }

    /// The engine whose calibration and host terms apply.
    pub(super) fn engine(&self) -> &'static str {
        match self {
            // Of the others no host was measured; vLLM's stands in, which the notes of their flags say.
            Flags::Vllm(_) | Flags::Scheduled(_) => "vllm",
            Flags::Sglang(_) => "sglang",
            Flags::Trtllm(_) => "trtllm",
        }
    }

    /// Processes of the API server of a server of so many data-parallel engines, which are those of all of them.
    pub(super) fn api_servers(&self, judge: &mut Judge, engines: u32) -> NonZeroU32 {
        let Flags::Vllm(flags) = self else {
            return NonZeroU32::MIN;
        };
        let by_default = match flags.profile.startup.api_server_per_engine {
            true => NonZeroU32::new(engines).unwrap_or(NonZeroU32::MIN),
            false => NonZeroU32::MIN,
        };
        if flags.api_server_count.is_none() && engines > 1 {
            let source = flags.profile.source();
            judge.assume("engine.api_server_count", by_default.get(), source);
        }
        flags.api_server_count.unwrap_or(by_default)
    }

    /// Most outputs of a step that the API server puts to their streams before any of those runs: vLLM V1 takes them in slices of so many
    /// (`output_proc_chunk_size`), the others all.
    pub(super) fn outputs_at_once(&self) -> u32 {
        match self {
            Flags::Vllm(flags) => flags.outputs_at_once,
            Flags::Sglang(_) | Flags::Trtllm(_) | Flags::Scheduled(_) => u32::MAX,
        }
    }

    /// A step is prepared while the one before runs.
    pub(super) fn asynchronous(&self) -> bool {
        match self {
            Flags::Vllm(flags) => flags.asynchronous,
            Flags::Sglang(flags) => flags.overlaps(),
            Flags::Trtllm(flags) => flags.overlaps(),
            Flags::Scheduled(_) => false,
        }
    }

    /// What replays CUDA graphs. SGLang compiles nothing outside them, with `--enable-torch-compile` neither (0.5.23
    /// `CudaGraphRunner.capture`).
    pub(super) fn graphs(&self) -> Graphs {
        match self {
            Flags::Vllm(flags) => Graphs {
                mode: graph_mode(flags.graph_mode),
                capture_sizes: flags.capture_sizes.clone(),
                piece_sizes: None,
                pads: true,
                routes_padding: flags.profile.startup.routes_padding,
                is_compiled: !flags.is_eager,
            },
            Flags::Sglang(flags) => Graphs {
                mode: match (flags.graph_max, flags.captures_prefill()) {
                    (None, _) => CudagraphMode::None,
                    (Some(_), true) => CudagraphMode::FullAndPiecewise,
                    (Some(_), false) => CudagraphMode::FullDecodeOnly,
                },
                capture_sizes: flags.capture_sizes(),
                piece_sizes: flags.prefill_capture_sizes(),
                pads: true,
                routes_padding: true,
                is_compiled: false,
            },
            Flags::Trtllm(flags) => flags.graphs(),
            Flags::Scheduled(flags) => flags.graphs(),
        }
    }

    /// Speculative decoding, if there is any.
    pub(super) fn drafting(&self) -> Option<Drafting> {
        match self {
            Flags::Vllm(flags) => flags.drafting.clone(),
            Flags::Sglang(flags) => flags.drafting.clone(),
            Flags::Scheduled(_) | Flags::Trtllm(_) => None,
        }
    }

    /// Tokens of the context that a prompt must leave to be let in.
    pub(super) fn door(&self) -> u32 {
        match self {
            // `max_req_input_len`, of a longest request that is one short of the context.
            Flags::Sglang(_) => DOOR + 1,
            Flags::Vllm(_) | Flags::Scheduled(_) | Flags::Trtllm(_) => 1,
        }
    }

    /// Tokens of the longest prompt that is not refused, where the context alone does not say it, and their key.
    pub(super) fn longest_prompt(&self) -> Option<(&'static str, u32)> {
        match self {
            Flags::Vllm(_) | Flags::Sglang(_) | Flags::Scheduled(_) => None,
            Flags::Trtllm(flags) => flags.longest_prompt(),
        }
    }

    /// Who quantizes the inputs of fp8 products.
    pub(super) fn fp8_inputs(&self, model: &ModelShape, tensor_parallel: u32, kv_dtype: Dtype) -> Fp8Inputs {
        match self {
            Flags::Vllm(_) | Flags::Sglang(_) | Flags::Scheduled(_) => Fp8Inputs::AsTimed,
            Flags::Trtllm(flags) => flags.fp8_inputs(model, tensor_parallel, kv_dtype),
        }
    }

    /// What decides the memory.
    pub(super) fn memory_options(
        &self,
        model: &ModelShape,
        tensor_parallel: u32,
        kv_format: KvFormat,
    ) -> MemoryOptions {
        match self {
            Flags::Vllm(flags) => vllm_memory(model, tensor_parallel, kv_format, flags),
            Flags::Sglang(flags) => flags.memory_options(tensor_parallel, kv_format.dtype),
            Flags::Trtllm(flags) => flags.memory_options(tensor_parallel, kv_format.dtype),
            Flags::Scheduled(flags) => flags.memory_options(tensor_parallel, kv_format.dtype),
        }
    }

    /// The server is one of a pool that hands its KV over, or gets it.
    pub(super) fn hand_kv_over(&mut self) {
        if let Flags::Vllm(flags) = self {
            flags.hands_kv_over = true;
        }
    }

    /// The layers lie on so many stages, each of which has a step at a time.
    pub(super) fn spread_over(&mut self, stages: u32) {
        if let Flags::Vllm(flags) = self {
            flags.config.stages = stages;
            flags.config.queue_depth = stages + u32::from(flags.asynchronous);
        }
    }

    /// What is to be said of layers with a window.
    pub(super) fn windows_note(&self, model: &ModelShape, options: &MemoryOptions) -> Option<String> {
        if !model.has_windows() {
            return None;
        }
        let keeps = |why: &str| {
            Some(format!(
                "every layer keeps the KV of all tokens, those with a window too: {why}"
            ))
        };
        match self {
            Flags::Vllm(flags) if flags.hands_kv_over => {
                keeps("between pools KV is handed over whole, as vLLM does with its hybrid allocator off")
            }
            Flags::Vllm(flags) if flags.keeps_windows => keeps("--disable-hybrid-kv-cache-manager says so"),
            Flags::Vllm(_) if model.attends_in_chunks() => {
                keeps("vLLM's hybrid allocator is off for attention within chunks, unless its environment says otherwise")
            }
            Flags::Vllm(flags) => match (
                flags.config.enable_prefix_caching,
                kv_groups(model, options).keeps_all(),
            ) {
                (false, _) => None,
                (true, true) => keeps(
                    "cached prefixes of such a model are not modelled otherwise; --no-enable-prefix-caching gives up \
                     what no window sees",
                ),
                (true, false) => Some(
                    "cached prefixes are found by the layers that attend to everything; vLLM also asks whether the last \
                     window is still cached, and may share it"
                        .to_string(),
                ),
            },
            Flags::Sglang(_) => keeps("SGLang's pool of their own (swa_full_tokens_ratio) is not modelled"),
            Flags::Trtllm(_) => keeps("so does TensorRT-LLM where max_attention_window is not given"),
            Flags::Scheduled(_) => keeps("this engine tells no layers apart"),
        }
    }

    /// The same where the calibration knows copies over the host link: what swaps takes their time.
    pub(super) fn with_copies(self, calibration: &Calibration, layers: u32) -> Flags {
        match self {
            Flags::Scheduled(flags) => Flags::Scheduled(Box::new(flags.with_copies(calibration, layers))),
            others => others,
        }
    }

    /// The engine with its memory; the plan is kept where memory decided.
    pub(super) fn with_memory(
        self,
        judge: &mut Judge,
        plan: MemoryPlan,
        seed: u64,
    ) -> Option<(EngineSpec, Option<MemoryPlan>)> {
        match self {
            Flags::Vllm(flags) => {
                let num_gpu_blocks = plan.num_gpu_blocks;
                let has_full_graphs = match flags.graph_mode {
                    RawGraphMode::FullDecodeOnly | RawGraphMode::FullAndPiecewise | RawGraphMode::Full => {
                        !flags.is_eager
                    }
                    RawGraphMode::None | RawGraphMode::Piecewise => false,
                };
                hybrid::check_seats(judge, &plan, flags.max_num_seqs, has_full_graphs);
                unlike::check_plan(judge, &plan, flags.config.enable_prefix_caching);
                let config = EngineConfig {
                    num_gpu_blocks,
                    // Of a hybrid it is as long as a state is large.
                    block_size: plan.block_size,
                    kv_groups: plan.layout.groups.clone(),
                    watermark_blocks: (flags.watermark * f64::from(num_gpu_blocks)) as u32,
                    ..flags.config
                };
                let memory = flags.num_gpu_blocks_override.is_none().then_some(plan);
                Some((config.into(), memory))
            }
            Flags::Scheduled(flags) => {
                let (config, plan) = flags.with_memory(judge, plan);
                Some((config.into(), plan))
            }
            Flags::Trtllm(flags) => {
                let config = flags.engine(judge, &plan);
                // What `kv_cache_max_tokens` leaves of the memory is the user's choice.
                let (plan, _) = plan.capped(Some(config.num_blocks), &config.profile);
                let plan = MemoryPlan {
                    max_model_len: config.max_seq_len,
                    ..plan
                };
                Some((config.into(), Some(plan)))
            }
            Flags::Sglang(flags) => {
                let config = flags.engine(judge, &plan, seed)?;
                // What `max_total_tokens` leaves of the memory has been said.
                let pages = config.max_total_tokens / config.page_size;
                let (plan, _) = plan.capped(Some(pages), &config.profile);
                let plan = MemoryPlan {
                    max_model_len: config.context_length,
                    ..plan
                };
                Some((config.into(), Some(plan)))
            }
        }
    }
}

/// What of vLLM's flags decides its memory.
fn vllm_memory(
    model: &ModelShape,
    tensor_parallel: u32,
    kv_format: KvFormat,
    flags: &EngineFlags,
) -> MemoryOptions {
    MemoryOptions {
        tensor_parallel,
        edges: None,
        pipeline_parallel: flags.config.stages,
        can_pipeline: flags.drafting.is_none() && !flags.hands_kv_over,
        gpu_memory_utilization: flags.gpu_memory_utilization,
        budget: Budget::vllm(flags.profile.defaults.gpu_memory_utilization),
        kv_format,
        block_size: flags.config.block_size,
        max_num_batched_tokens: flags.max_num_batched_tokens,
        max_in_flight_tokens: flags.max_num_batched_tokens * (1 + flags.config.unsettled_steps()),
        windowed: match flags.hands_kv_over || flags.keeps_windows {
            true => Windowed::KeepAll,
            false => Windowed::of_vllm(model, flags.config.enable_prefix_caching),
        },
        rules: flags.profile.pool_rules(),
        state_blocks: StateBlocks::One,
        max_num_seqs: flags.max_num_seqs,
        max_model_len: flags.config.max_model_len,
        charge_cuda_graphs: flags.profile.graphs.charged_to_memory,
        enforce_eager: flags.graph_mode == RawGraphMode::None,
        kv_cache_memory_bytes: flags.kv_cache_memory_bytes.map(Bytes),
        num_gpu_blocks_override: flags.num_gpu_blocks_override,
        drafter: flags
            .drafting
            .as_ref()
            .and_then(|drafting| drafting.drafter.clone()),
        estimates: None,
    }
}

fn graph_mode(raw: RawGraphMode) -> CudagraphMode {
    match raw {
        RawGraphMode::None => CudagraphMode::None,
        RawGraphMode::Piecewise => CudagraphMode::Piecewise,
        RawGraphMode::FullDecodeOnly => CudagraphMode::FullDecodeOnly,
        // One that is not modelled was reported.
        RawGraphMode::FullAndPiecewise | RawGraphMode::Full => CudagraphMode::FullAndPiecewise,
    }
}
