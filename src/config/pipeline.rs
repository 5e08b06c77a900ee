//! Stages that a replica's layers are spread over: `--pipeline-parallel-size`, and the link between them.
//!
//! Modelled for vLLM V1 alone, whose loop was recorded with stages. What does not go with a pipeline there, or was not recorded with
//! one, is refused by name.

use super::disaggregation::links;
use super::document::Source;
use super::judge::Judge;
use super::raw::RawScenario;
use super::serving::Flags;
use crate::cost::roofline::{Pipeline, StageLink};
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::quantity::{format_rate, parse_rate};
use crate::units::{BytesPerSec, Picos};

pub(super) const STAGES: &str = "cluster.pipeline_parallel_size";
const LINK: &str = "cluster.stage_link";
const LATENCY: &str = "cluster.stage_link_latency";

/// Of a point-to-point message of NCCL inside a node, and between nodes.
const NEAR: Picos = Picos(10_000_000);
const FAR: Picos = Picos(30_000_000);

/// More stages than anybody has.
pub(super) const STAGES_MAX: u64 = 1024;

/// The pipeline that is asked for, if there is one, told to the engine's flags.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    model: Option<&ModelShape>,
    device: Option<&Device>,
    flags: &mut Flags,
    tensor_parallel: u32,
) -> Option<Pipeline> {
    let cluster = &raw.cluster;
    let stages = cluster
        .pipeline_parallel_size
        .map_or(1, |count| judge.required(STAGES, count, (1, STAGES_MAX)));
    if stages <= 1 {
        if !judge.is_wrong(&[STAGES]) {
            let keys = [
                (LINK, cluster.stage_link.is_some()),
                (LATENCY, cluster.stage_link_latency.is_some()),
            ];
            let help = "leave it out, or give --pipeline-parallel-size";
            judge.refuse_given(&keys, "has no effect", "there is one stage", help);
        }
        return None;
    }
    if judge.is_wrong(&[STAGES]) {
        return None;
    }
    let problems = judge.problems.len();
    check_depth(judge, model, stages);
    check_model(judge, model);
    check_engine(judge, raw, flags);
    let link = device.and_then(|device| link(judge, raw, device, tensor_parallel * stages));
    if judge.problems.len() > problems {
        return None;
    }
    flags.spread_over(stages);
    if let Some(model) = model.filter(|model| model.has_unlike_layers()) {
        let note = format!(
            "the layers of {} are of {} shapes, whose order is not kept: dense ones before experts come first if they fit the first \
             stage, others are spread evenly",
            model.name,
            model.layers.len()
        );
        judge.notes.push(note);
    }
    Some(Pipeline { stages, link: link? })
}

/// Whether a run would take stages of this model under these flags.
pub(super) fn is_modelled(
    raw: &RawScenario,
    model: Option<&ModelShape>,
    flags: &Flags,
    has_role: bool,
) -> bool {
    let is_vllm = matches!(flags, Flags::Vllm(vllm) if vllm.drafting.is_none());
    let engines = raw.cluster.data_parallel_size.map_or(1, |count| count.0);
    is_vllm && engines <= 1 && !has_role && model.is_none_or(|model| unlike(model).is_none())
}

/// No stage is empty.
pub(super) fn check_depth(judge: &mut Judge, model: Option<&ModelShape>, stages: u32) {
    if let Some(layers) = model.map(ModelShape::layer_count)
        && stages > layers
    {
        let label = format!("it has only {layers} layers to share");
        judge.wrong(STAGES, "is larger than the model is deep", label);
    }
}

/// Layers whose KV is not alike lie on stages in ways that were not recorded.
fn check_model(judge: &mut Judge, model: Option<&ModelShape>) {
    if let Some(why) = model.and_then(unlike) {
        let help = "use tensor parallelism, or a model whose layers all attend to everything";
        judge.wrong_help(STAGES, "must be 1 for this model", why, help);
    }
}

/// What of a model is not modelled on stages.
fn unlike(model: &ModelShape) -> Option<&'static str> {
    if model.recurrence().is_some() {
        Some("states of recurrent layers on several stages are not modelled")
    } else if model.has_windows() {
        Some("layers with windows on several stages are not modelled")
    } else if model.per_layer_input.is_some() {
        Some("inputs of their own for every layer are not modelled on several stages")
    } else {
        None
    }
}

/// What of the engine does not go with stages.
fn check_engine(judge: &mut Judge, raw: &RawScenario, flags: &Flags) {
    let Flags::Vllm(vllm) = flags else {
        let label = format!(
            "stages of {} are not modelled, those of vLLM V1 are",
            flags.profile()
        );
        judge.wrong_help(
            STAGES,
            "must be 1",
            label,
            "use tensor parallelism, or a vLLM profile",
        );
        return;
    };
    if vllm.asynchronous && !vllm.profile.startup.pipelines_ahead {
        let label = format!("{} does not start with both", vllm.profile.profile);
        let help = "leave --async-scheduling out";
        judge.wrong_help(
            "engine.async_scheduling",
            "does not go with a pipeline",
            label,
            help,
        );
    }
    if vllm.drafting.is_some() {
        judge.wrong_help(
            "engine.speculative_config",
            "is not modelled beside --pipeline-parallel-size",
            "schedules of both were never recorded",
            "leave one of them out",
        );
    }
    let engines = raw.cluster.data_parallel_size.map_or(1, |count| count.0);
    if engines > 1 {
        judge.wrong_help(
            STAGES,
            "is not modelled beside --data-parallel-size",
            format!("{engines} engines of several stages each"),
            "give --replicas and a router, or leave one of them out",
        );
    }
}

/// A pool with a role hands KV over, which stages would each do for their own layers.
pub(super) fn check_role(judge: &mut Judge, key: &str, pipeline: Option<&Pipeline>) {
    if let Some(pipeline) = pipeline {
        judge.wrong_help(
            key,
            "does not go with --pipeline-parallel-size",
            format!("KV that {} stages hand over is not modelled", pipeline.stages),
            "use tensor parallelism, or pools that do both, prefill and decode",
        );
    }
}

/// Tiers of KV beside the GPUs would load and store stage by stage.
pub(super) fn check_tiers(judge: &mut Judge, pipeline: Option<&Pipeline>) {
    if let Some(pipeline) = pipeline {
        judge.wrong_help(
            "lmcache",
            "does not go with --pipeline-parallel-size",
            format!(
                "KV that {} stages load and store is not modelled",
                pipeline.stages
            ),
            "leave one of them out",
        );
    }
}

/// What is between two stages: as given, or NVLink inside a node that has it for so many GPUs, else PCIe, else a network.
fn link(judge: &mut Judge, raw: &RawScenario, device: &Device, gpus: u32) -> Option<StageLink> {
    let (bandwidth, said, is_near) = match &raw.cluster.stage_link {
        Some(text) => {
            judge.given(LINK, text);
            let kind = text.to_lowercase();
            let bandwidth = match links::named(&kind, device) {
                Some(rate) => rate,
                None => bandwidth(judge, text)?,
            };
            let is_near = kind == "nvlink" || kind.starts_with("pcie");
            (bandwidth, text.clone(), is_near)
        }
        None => {
            let (kind, why) = if device.nvlink_of(gpus).is_some() && gpus <= device.gpus_per_node {
                ("nvlink", "all GPUs of a replica fit one node")
            } else if gpus <= device.gpus_per_node {
                (
                    "pcie",
                    "all GPUs of a replica fit one node, which has no NVLink for them",
                )
            } else {
                ("ib-400", "a replica spans nodes; a usual network between them")
            };
            judge.assume(LINK, kind.to_string(), Source::Assumption(why.to_string()));
            let bandwidth = links::named(kind, device).expect("the table and the GPU have these");
            (bandwidth, kind.to_string(), kind != "ib-400")
        }
    };
    let usual = if is_near { NEAR } else { FAR };
    let given = raw.cluster.stage_link_latency.as_ref();
    let latency = links::time(judge, LATENCY, given, usual);
    judge.notes.push(format!(
        "activations cross from stage to stage over {said} at {} a GPU each way",
        format_rate(bandwidth)
    ));
    Some(StageLink { latency, bandwidth })
}

/// A bandwidth that was given in place of a name.
fn bandwidth(judge: &mut Judge, text: &str) -> Option<BytesPerSec> {
    match parse_rate(text) {
        Ok(rate) if rate.0 >= 1e6 && rate.0 < 1e18 => Some(rate),
        Ok(_) => {
            let label = format!("`{text}` is below 1 MB/s or beyond reason");
            judge.wrong_help(LINK, "is no bandwidth of a link", label, "write 25GB/s");
            None
        }
        Err(_) => {
            let help = format!(
                "known are {}; a bandwidth will do, too: 25GB/s",
                links::names().join(", ")
            );
            judge.wrong_help(
                LINK,
                "names no link",
                format!("`{text}` is not known, or not there"),
                help,
            );
            None
        }
    }
}

#[cfg(test)]
mod tests;
