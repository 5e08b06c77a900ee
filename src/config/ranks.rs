//! Tensor-parallel groups that the model and the links allow: what is replicated is noted, what is not modelled is refused.

use super::judge::Judge;
use super::raw::RawScenario;
use crate::cost::calibration::Calibration;
use crate::hardware::Device;
use crate::model::{Attention, ModelShape};

/// What a reader should know of `model` on so many ranks, as a sentence.
fn rank_note(model: &ModelShape, tensor_parallel: u32) -> Option<String> {
    let scarce = |attention: &Attention| match *attention {
        Attention::Grouped { kv_heads, .. } => (kv_heads < tensor_parallel).then_some(kv_heads),
        // A latent cache is replicated on any number of ranks.
        Attention::Latent { .. } | Attention::Recurrent(_) | Attention::Absent => None,
    };
    let heads = model.layers.iter().find_map(|group| scarce(&group.attention));
    heads.map(|heads| {
        format!(
            "{heads} KV heads on {tensor_parallel} ranks: heads are replicated, as vLLM does, and each rank keeps a whole \
             one; beyond {heads} ranks the KV cache of a rank does not shrink"
        )
    })
}

/// Refuses groups beyond a node, unless the calibration knows an all-reduce that large.
pub(super) fn check(
    judge: &mut Judge,
    raw: &RawScenario,
    model: &ModelShape,
    device: &Device,
    calibration: &Calibration,
    (tensor_parallel, data_parallel): (u32, u32),
) {
    let known = calibration.allreduce.iter().map(|link| link.gpus);
    let largest = known.fold(device.gpus_per_node, u32::max);
    if tensor_parallel > largest {
        judge.wrong_help(
            "cluster.tensor_parallel_size",
            "is larger than a node",
            format!("{tensor_parallel} GPUs; a node has {largest}, and links between nodes are not modelled"),
            format!(
                "write at most {largest}, or give a calibration with an [[allreduce]] of gpus = {tensor_parallel}"
            ),
        );
    }
    let all = tensor_parallel * data_parallel;
    if data_parallel > 1 && all > largest && tensor_parallel <= largest {
        // TensorRT-LLM's ranks are as many as GPUs share a layer.
        let key = match raw.cluster.data_parallel_size {
            Some(_) => "cluster.data_parallel_size",
            None => "cluster.tensor_parallel_size",
        };
        judge.wrong_help(
            key,
            "makes more GPUs than a node has",
            format!("{all} GPUs share the experts; a node has {largest}, and links between nodes are not modelled"),
            format!("share them among at most {largest}, or give a calibration with an [[allreduce]] of gpus = {all}"),
        );
    }
    judge.notes.extend(rank_note(model, tensor_parallel));
}
