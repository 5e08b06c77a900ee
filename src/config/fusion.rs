//! All-reduces that add the residual and normalize in the same kernel: vLLM's pass `fuse_allreduce_rms`.
//!
//! It is part of the optimization levels 2 and 3 since 0.17 (`config/vllm.py`, `enable_allreduce_rms_fusion`), on Hopper and
//! Blackwell's data-centre cards, for steps whose hidden states are not too large
//! (`compilation/passes/fusion/allreduce_rms_fusion.py`, `FI_ALLREDUCE_FUSION_MAX_SIZE_MB`); the kernels are FlashInfer's, a port of
//! TensorRT-LLM's. Left out: that versions before 0.22 do not fuse under data or pipeline parallelism, and that the quantization of
//! the next layer's input may be part of it, too.

use super::document::Source;
use super::engine::EngineFlags;
use super::judge::Judge;
use super::raw::RawEngine;
use super::serving::Flags;
use crate::cost::calibration::Calibration;
use crate::hardware::Device;
use crate::model::ModelShape;

const KEY: &str = "engine.fuse_allreduce_rms";

/// Tokens of a step up to which all-reduces and norms are one; `None` where they never are.
pub(super) fn fused_norms(
    judge: &mut Judge,
    raw: &RawEngine,
    flags: &Flags,
    model: &ModelShape,
    device: &Device,
    tensor_parallel: u32,
    calibration: &Calibration,
) -> Option<u64> {
    let Flags::Vllm(flags) = flags else {
        return None;
    };
    let hidden_bytes = u64::from(model.hidden_size) * model.dtype.bytes();
    let most = most_bytes(flags, device, tensor_parallel).map(|bytes| bytes / hidden_bytes);
    if let Some(true) = raw.fuse_allreduce_rms {
        judge.given(KEY, true);
        let why = match most {
            _ if tensor_parallel == 1 => Some("one GPU has nobody to reduce with".to_owned()),
            _ if flags.is_eager => Some("nothing is compiled".to_owned()),
            None => Some(format!(
                "vLLM has no fused all-reduce among {tensor_parallel} of {}",
                device.id
            )),
            Some(_) => None,
        };
        if let Some(why) = why {
            let name = judge.document.name_of(KEY);
            judge.ignore(format!("{name} has no effect: {why}"));
            return None;
        }
    }
    let most = most.filter(|_| tensor_parallel > 1 && !flags.is_eager)?;
    let by_default = flags.profile.defaults.fuse_allreduce_rms && flags.is_fully_optimized;
    let source = match flags.is_fully_optimized {
        true => flags.profile.source(),
        false => Source::Assumption("what the level of optimization means".to_owned()),
    };
    let fuses = judge.take(KEY, raw.fuse_allreduce_rms, by_default, source);
    let is_timed = calibration
        .fused_allreduce
        .iter()
        .any(|link| link.gpus == tensor_parallel);
    if fuses && !is_timed {
        judge.notes.push(format!(
            "all-reduces fused with norms are timed as all-reduces and norms: the calibration has no [[fused_allreduce]] of gpus = \
             {tensor_parallel}"
        ));
    }
    fuses.then_some(most)
}

/// Bytes of a step's hidden states at most.
fn most_bytes(flags: &EngineFlags, device: &Device, gpus: u32) -> Option<u64> {
    const MIB: f64 = 1_048_576.0;
    let limits = flags.profile.fused_norms_mib(device)?;
    let group = [2, 4, 8].iter().position(|known| *known == gpus)?;
    // The workspace is of memory that all GPUs of the group map, which is not known to work over PCIe.
    device.nvlink_of(gpus)?;
    Some((limits[group] * MIB) as u64)
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::{TRAFFIC, resolve_line};

    /// Tokens up to which a line of flags fuses, and what is said of it.
    fn fused(line: &str) -> (Option<u64>, String) {
        let line = format!("{TRAFFIC} --model meta-llama/Llama-3.1-70B-Instruct {line}");
        let resolved = resolve_line(&line).unwrap_or_else(|problems| panic!("{problems}"));
        let told = [&resolved.notes[..], &resolved.ignored[..]].concat().join("\n");
        (resolved.placement.fused_norms, told)
    }

    #[test]
    fn steps_are_fused_where_vllm_does() {
        // Hidden states of 8192 elements of two bytes.
        for (line, tokens) in [
            ("--gpu h200 --tensor-parallel-size 2", Some(4096)),
            ("--gpu h200 --tensor-parallel-size 8", Some(32)),
            ("--gpu b200 --tensor-parallel-size 8", Some(64)),
            ("--gpu b300 --tensor-parallel-size 8", Some(256)),
            ("--gpu b200 --tensor-parallel-size 1 --max-model-len 8192", None),
            ("--gpu a100-sxm-80gb --tensor-parallel-size 4", None),
            ("--gpu h100-pcie --tensor-parallel-size 4", None),
            ("--gpu b200 --tensor-parallel-size 8 --engine sglang", None),
            ("--gpu b200 --tensor-parallel-size 8 --engine vllm@0.11", None),
            ("--gpu b200 --tensor-parallel-size 8 --engine vllm@0.16", None),
            ("--gpu b200 --tensor-parallel-size 8 --engine vllm@0.17", Some(64)),
            ("--gpu b200 --tensor-parallel-size 8 -O1", None),
            ("--gpu b200 --tensor-parallel-size 8 --enforce-eager", None),
        ] {
            assert_eq!(fused(line).0, tokens, "{line}");
        }
    }

    #[test]
    fn the_pass_is_switched_as_vllm_spells_it() {
        let with = |pass: &str, line: &str| {
            let config = format!("'{{\"pass_config\": {{\"fuse_allreduce_rms\": {pass}}}}}'");
            fused(&format!("{line} --compilation-config {config}"))
        };
        let b200 = "--gpu b200 --tensor-parallel-size 8";
        assert_eq!(with("false", b200).0, None);
        assert_eq!(with("true", &format!("{b200} --engine vllm@0.11")).0, Some(64));
        let (tokens, told) = with("true", "--gpu a100-sxm-80gb --tensor-parallel-size 4");
        assert_eq!(tokens, None);
        assert!(
            told.contains("no fused all-reduce among 4 of A100-SXM-80GB"),
            "{told}"
        );
    }
}
