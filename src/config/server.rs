//! One server: a model on GPUs under an engine's flags, judged in the two steps that every scenario's server takes.
//!
//! A pool of a cluster is such a server, whose input is its own tables over the scenario's ([`Document::of_pool`]): there
//! is one path for the rules, whether there are pools or not.
//!
//! [`Document::of_pool`]: super::document::Document::of_pool

use std::num::NonZeroU32;
use std::sync::Arc;

use super::calibrated::{calibration, calibration_of};
use super::diagnostic::Diagnostic;
use super::files::Files;
use super::fusion::fused_norms;
use super::judge::Judge;
use super::raw::RawScenario;
use super::scalar::Count;
use super::serving::Flags;
use super::step_time::{self, StepTime};
use super::{
    blocks, cluster, expert_parallel, experts, formats, lockstep, machine, pipeline, ranks, serving,
    workload, yarn,
};
use crate::cluster::Serves;
use crate::cost::Trust;
use crate::cost::calibration::Calibration;
use crate::cost::roofline::{Exchange, Pipeline, Placement, RooflineCost};
use crate::engine::EngineSpec;
use crate::engine::memory::MemoryPlan;
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::sim::{CostFactory, Frontend, Role};
use crate::workload::WorkloadSpec;

/// What one pool runs on, with all that decided it.
#[derive(Clone)]
pub struct Server {
    /// The model.
    pub model: ModelShape,
    /// The GPU.
    pub device: Device,
    /// How the model lies on its GPUs.
    pub placement: Placement,
    /// Where the GPU's memory goes; `None` where the number of blocks was given.
    pub memory: Option<MemoryPlan>,
    /// Its parameters, every block filled, and the name.
    pub calibration: Calibration,
    /// The worst of its parts.
    pub trust: Trust,
    /// How long its steps last, where that was said and is no machine's.
    pub step_time: Option<StepTime>,
    pub(super) engine: EngineSpec,
    pub(super) cost: CostFactory,
    pub(super) frontend: Frontend,
}

/// What is known of a server before its memory is planned and its steps are priced. A part that was reported is absent.
pub(super) struct Draft {
    pub(super) model: Option<ModelShape>,
    pub(super) device: Option<Device>,
    pub(super) tensor_parallel: u32,
    pub(super) pipeline: Option<Pipeline>,
    pub(super) role: Role,
    pub(super) flags: Flags,
}

/// Whether a group gets requests of a class; the only kind there is has no number.
pub(super) fn serves_class(served: &Serves, class: Option<usize>) -> bool {
    let is_among = |classes: &Vec<u32>| class.is_none_or(|class| classes.contains(&(class as u32)));
    served.classes.as_ref().is_none_or(is_among)
}

/// The model as the engine reads it, in formats that go with the GPU, and the GPU; each is absent where it was reported.
pub(super) fn model_and_device(
    judge: &mut Judge,
    raw: &RawScenario,
    files: &dyn Files,
) -> (Option<ModelShape>, Option<Device>) {
    let mut model = machine::model(judge, &raw.model, files).map(|model| yarn::read_by(judge, model, raw));
    let device = machine::device(judge, &raw.cluster, files);
    if let (Some(model), Some(device)) = (&mut model, &device) {
        formats::check(judge, &raw.model, model, device);
    }
    (model, device)
}

/// Model, GPU, layout and flags.
pub(super) fn draft(judge: &mut Judge, raw: &RawScenario, role: Role, files: &dyn Files) -> Draft {
    let (model, device) = model_and_device(judge, raw, files);
    let tensor_parallel = cluster::tensor_parallel(judge, &raw.cluster);
    let of_role = (tensor_parallel, role);
    let mut flags = serving::flags(judge, raw, model.as_ref(), device.as_ref(), of_role);
    let (of_model, of_device) = (model.as_ref(), device.as_ref());
    let pipeline = pipeline::resolve(judge, raw, of_model, of_device, &mut flags, tensor_parallel);
    Draft {
        model,
        device,
        tensor_parallel: lockstep::attention_group(raw, tensor_parallel),
        pipeline,
        role,
        flags,
    }
}

impl Draft {
    /// Checks that the requests which the group `served` gets are within the server's context. Whether the server `refuses` those
    /// that are not is the workload's to say.
    pub(super) fn check_context(
        &self,
        judge: &mut Judge,
        spec: &WorkloadSpec,
        served: &Serves,
        refuses: bool,
    ) {
        let key = self.flags.context_key();
        if judge.is_wrong(&[key]) {
            return;
        }
        let context = workload::Context {
            key,
            tokens: self.flags.max_model_len(),
            door: self.flags.door(),
            of_model: self.model.as_ref().map(|model| model.max_position),
            most_prompt: served.most_prompt,
            refuses,
        };
        for (class, alone) in workload::by_class(spec) {
            if serves_class(served, class) {
                let class = class.map(|class| (class, spec.classes[class].name.as_str()));
                workload::check_context(judge, &alone, class, context);
                if let Some(limit) = self.flags.longest_prompt() {
                    workload::note_refused(judge, &alone, limit, served.most_prompt);
                }
            }
        }
    }

    /// Plans memory and builds the step cost; `None` was reported.
    pub(super) fn build(
        self,
        judge: &mut Judge,
        raw: &RawScenario,
        (typical_context, seed): (u32, u64),
        files: &dyn Files,
    ) -> Option<Server> {
        let (model, device) = (self.model?, self.device?);
        let (tensor_parallel, flags) = (self.tensor_parallel, self.flags);
        if !judge.problems.is_empty() {
            // Memory formulas need valid flags.
            return None;
        }
        let name = flags.engine();
        let data_parallel = lockstep::ranks(raw, &model);
        let known = calibration_of(&raw.cluster, &device, name, files);
        ranks::check(
            judge,
            raw,
            &model,
            &device,
            &known,
            (tensor_parallel, data_parallel),
        );
        if !judge.problems.is_empty() {
            return None;
        }
        let kv_format = machine::kv_format(judge, &raw.model, &model, &device, &flags);
        judge.notes.extend(formats::kv_note(kv_format.dtype, &device));
        let gpus = tensor_parallel * data_parallel;
        let expert_groups = expert_parallel::resolve(judge, raw, &model, gpus, &flags);
        blocks::check(judge, raw, &model, tensor_parallel, data_parallel, &flags)?;
        let own = lockstep::of_rank(&model, data_parallel, flags.gathers());
        let options = flags.memory_options(&own, tensor_parallel, kv_format);
        judge.notes.extend(flags.windows_note(&own, &options));
        let plan = machine::plan(judge, &own, &device, &options, self.role, files)?;
        let beside = step_time::Beside {
            pipeline: self.pipeline.is_some(),
            lock_step: data_parallel > 1,
            drafts: flags.drafting().is_some(),
        };
        let step_time = step_time::step_time(judge, raw, beside);
        let (calibration, trust) = match &step_time {
            _ if judge.is_wrong(&["cluster.step_time"]) => return None,
            Some(ideal) => {
                let name = format!("none (a step lasts {})", ideal.law);
                (Calibration { name, ..known }, Trust::Measured)
            }
            None => calibration(judge, raw, &device, name, files)?,
        };
        let fp8_experts = experts::kernels(&flags, &model, &device);
        let note = experts::note(fp8_experts, &model, &device, &calibration);
        judge.notes.extend(note);
        let placement = Placement {
            tensor_parallel,
            data_parallel,
            expert_groups,
            gathers: flags.gathers(),
            exchange: match &flags {
                Flags::Trtllm(flags) => flags.exchange(&device, gpus, expert_groups),
                Flags::Vllm(_) | Flags::Sglang(_) | Flags::Scheduled(_) => Exchange::AllReduce,
            },
            kv_format,
            graphs: flags.graphs(),
            asynchronous: flags.asynchronous(),
            engine: name.to_string(),
            typical_context,
            drafting: flags.drafting(),
            inputs: flags.fp8_inputs(&model, tensor_parallel, kv_format.dtype),
            fused_norms: fused_norms(
                judge,
                &raw.engine,
                &flags,
                &model,
                &device,
                tensor_parallel,
                &calibration,
            ),
            fp8_experts,
            pipeline: self.pipeline,
        };
        let cost = match &step_time {
            Some(ideal) => ideal.factory(),
            None => roofline(judge, &device, &model, &calibration, &placement)?,
        };
        let processes = processes(judge, raw, &flags);
        let layers = model.layers.iter().map(|group| group.count).sum();
        let flags = flags.with_copies(&calibration, layers);
        let (engine, memory) = flags.with_memory(judge, plan, seed)?;
        Some(Server {
            frontend: match step_time {
                Some(_) => processes,
                None => processes.under(&calibration, name),
            },
            model,
            device,
            placement,
            memory,
            calibration,
            trust,
            step_time,
            engine,
            cost,
        })
    }
}

/// Step times of a machine; `None` was reported.
fn roofline(
    judge: &mut Judge,
    device: &Device,
    model: &ModelShape,
    calibration: &Calibration,
    placement: &Placement,
) -> Option<CostFactory> {
    match RooflineCost::maker(device, model, calibration, placement) {
        Ok(maker) => Some(Arc::new(maker)),
        Err(error) => {
            judge.report(Diagnostic::new(error.to_string()).at(judge.place("cluster.calibration")));
            None
        }
    }
}

/// The processes of the server's front end, which take no time yet.
fn processes(judge: &mut Judge, raw: &RawScenario, flags: &Flags) -> Frontend {
    let engines = lockstep::engines(raw);
    // What is no number of tokens has been reported.
    let interval = |count: Count| u32::try_from(count.0).ok().and_then(NonZeroU32::new);
    Frontend {
        servers: flags.api_servers(judge, engines),
        is_shared: engines > 1,
        outputs_at_once: flags.outputs_at_once(),
        stream_interval: raw
            .engine
            .stream_interval
            .and_then(interval)
            .unwrap_or(NonZeroU32::MIN),
        ..Frontend::default()
    }
}
