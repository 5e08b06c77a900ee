//! One server: a model on GPUs under an engine's flags, judged in the two steps that every scenario's server takes.
//!
//! A pool of a cluster is such a server, whose input is its own tables over the scenario's ([`Document::of_pool`]): there
//! is one path for the rules, whether there are pools or not.
//!
//! [`Document::of_pool`]: super::document::Document::of_pool

use super::files::Files;
use super::judge::Judge;
use super::raw::RawScenario;
use super::serving::Flags;
use super::step_time::StepTime;
use super::workload;
use super::{cluster, formats, lockstep, machine, pipeline, serving, yarn};
use crate::cluster::Serves;
use crate::cost::Trust;
use crate::cost::calibration::Calibration;
use crate::cost::roofline::{Pipeline, Placement};
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

/// Model, GPU, layout and flags.
pub(super) fn draft(judge: &mut Judge, raw: &RawScenario, role: Role, files: &dyn Files) -> Draft {
    let mut model = machine::model(judge, &raw.model, files).map(|model| yarn::read_by(model, &raw.engine));
    let device = machine::device(judge, &raw.cluster, files);
    if let (Some(model), Some(device)) = (&mut model, &device) {
        formats::check(judge, &raw.model, model, device);
    }
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
    /// Whether requests of the traffic are within the server's context.
    /// `served` are the group's, beside the prompts that the pool gets.
    /// Whether the server `refuses` those that are not, is the workload's to say.
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
        (context, seed): (u32, u64),
        files: &dyn Files,
    ) -> Option<Server> {
        let (model, device) = (self.model?, self.device?);
        let at = (context, seed);
        let layout = (self.tensor_parallel, self.pipeline, self.role);
        let machine = machine::build(judge, raw, &model, &device, layout, self.flags, at, files)?;
        Some(Server {
            model,
            device,
            placement: machine.placement,
            memory: machine.memory,
            calibration: machine.calibration,
            trust: machine.trust,
            step_time: machine.step_time,
            engine: machine.engine,
            cost: machine.cost,
            frontend: machine.frontend,
        })
    }
}
