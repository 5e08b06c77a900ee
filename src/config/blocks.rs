//! Weights in fp8 with a scale for each 128×128 block: slices of a tensor-parallel rank that the blocks do not divide.
//!
//! vLLM and SGLang refuse to load such layers (`validate_fp8_block_shape`, `validate_fp8_block_shape_moe`); vLLM 0.33 cuts
//! the blocks of experts smaller first, for Triton's kernels (`refine_fp8_moe_block_shape`). Left out: projections of
//! attention, whose slices are whole heads, and `compressed-tensors`, which cuts no blocks: both are judged as fp8's own.

use super::diagnostic::Diagnostic;
use super::expert_parallel;
use super::judge::Judge;
use super::raw::RawScenario;
use super::serving::Flags;
use crate::model::{LayerGroup, Mlp, ModelShape, Quantization};

/// Rows and columns of a block.
const BLOCK: u32 = 128;

/// Ranks that are proposed: those of one NVLink domain.
const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Who shares a layer's weights.
struct Split {
    /// Of a dense layer.
    dense: u32,
    /// Of one expert; 1 where each expert lies on one rank.
    expert: u32,
    /// To what blocks of experts are cut, at the smallest.
    finest: u32,
}

/// A layer whose slices are no whole blocks.
#[derive(Debug, PartialEq)]
struct Uneven {
    what: &'static str,
    width: u32,
    ranks: u32,
    is_of_experts: bool,
}

impl Uneven {
    fn said(&self, finest: u32) -> String {
        let Uneven {
            what, width, ranks, ..
        } = self;
        let slice = f64::from(*width) / f64::from(*ranks);
        let cut = match finest < BLOCK && self.is_of_experts {
            true => format!(", nor blocks cut to {finest}×{finest}, the finest that this version takes"),
            false => String::new(),
        };
        format!(
            "{what} of width {width} on {ranks} ranks are slices of {slice}, which the checkpoint's blocks of \
             {BLOCK}×{BLOCK} do not divide{cut}: the engine refuses to load them"
        )
    }
}

fn gcd(one: u32, other: u32) -> u32 {
    match other {
        0 => one,
        other => gcd(other, one % other),
    }
}

/// The first layer that such ranks cannot load.
fn uneven(model: &ModelShape, split: &Split) -> Option<Uneven> {
    let is_whole =
        |width: u32, ranks: u32| width.is_multiple_of(ranks) && (width / ranks).is_multiple_of(BLOCK);
    let of_group = |group: &LayerGroup| {
        let is_kept = |part: &str| group.kept.iter().any(|name| name.starts_with(part));
        match group.mlp {
            Mlp::Dense { intermediate, .. } => {
                let is_loaded = is_kept("down") || is_whole(intermediate, split.dense);
                (!is_loaded).then_some(("dense layers", intermediate, split.dense, false))
            }
            Mlp::Experts {
                intermediate,
                shared_intermediate: shared,
                ..
            } => {
                let ranks = split.expert;
                let cut = gcd(gcd(BLOCK, intermediate / ranks), model.hidden_size);
                let is_cut = intermediate.is_multiple_of(ranks) && cut >= split.finest;
                let is_loaded = is_kept("expert_") || is_whole(intermediate, ranks) || is_cut;
                let is_shared_loaded = shared == 0 || is_kept("shared") || is_whole(shared, split.dense);
                match (is_loaded, is_shared_loaded) {
                    (false, _) => Some(("experts", intermediate, ranks, true)),
                    (true, false) => Some(("shared experts", shared, split.dense, false)),
                    (true, true) => None,
                }
            }
            Mlp::Absent => None,
        }
    };
    let found = model.layers.iter().find_map(of_group);
    found.map(|(what, width, ranks, is_of_experts)| Uneven {
        what,
        width,
        ranks,
        is_of_experts,
    })
}

/// Refuses ranks whose slices no blocks divide; `None` was reported.
pub(super) fn check(
    judge: &mut Judge,
    raw: &RawScenario,
    model: &ModelShape,
    tensor_parallel: u32,
    data_parallel: u32,
    flags: &Flags,
) -> Option<()> {
    if model.quantization != Quantization::Fp8Block {
        return Some(());
    }
    // Without expert parallelism every rank of all engines has a slice of every expert; of SGLang's of dense layers, too.
    let (finest, beside) = match flags {
        Flags::Vllm(flags) => (flags.profile.startup.finest_expert_block, 1),
        Flags::Sglang(_) => (BLOCK, data_parallel),
        Flags::Scheduled(_) | Flags::Trtllm(_) => return Some(()),
    };
    // Groups that do not come out even have been reported.
    let split = |ranks: u32, deals_experts: bool| Split {
        dense: ranks * beside,
        expert: match deals_experts {
            true => 1,
            false => ranks * data_parallel / expert_parallel::groups(raw, model, ranks * data_parallel),
        },
        finest,
    };
    let deals_experts = raw.cluster.enable_expert_parallel == Some(true);
    let asked = split(tensor_parallel, deals_experts);
    let Some(found) = uneven(model, &asked) else {
        let uncut = Split {
            finest: BLOCK,
            ..asked
        };
        judge.notes.extend(uneven(model, &uncut).map(|cut| {
            format!(
                "experts of width {} on {} ranks are no whole blocks of {BLOCK}×{BLOCK}: the engine cuts the blocks smaller, \
                 for Triton's kernels alone; they are timed as whole ones",
                cut.width, cut.ranks
            )
        }));
        return Some(());
    };
    let loads = |ranks: &u32| {
        *ranks != tensor_parallel
            && model.indivisible_heads(*ranks).is_none()
            && uneven(model, &split(*ranks, deals_experts)).is_none()
    };
    let mut ways: Vec<String> = RANKS
        .into_iter()
        .filter(loads)
        .map(|ranks| format!("-tp {ranks}"))
        .collect();
    let is_vllm = matches!(flags, Flags::Vllm(_));
    if is_vllm && !deals_experts && uneven(model, &split(tensor_parallel, true)).is_none() {
        ways.push("--enable-expert-parallel, which leaves every expert whole".to_owned());
    }
    let why = found.said(finest);
    let problem = Diagnostic::new(format!("does not fit: {why}"))
        .at(judge.place("cluster.tensor_parallel_size"))
        .misfit(why);
    judge.report(match ways.is_empty() {
        true => problem.help("a checkpoint in another format has no such blocks"),
        false => problem.help(format!("what loads: {}", ways.join("   |   "))),
    });
    None
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::{TRAFFIC, said};

    #[test]
    fn slices_that_the_blocks_do_not_divide_are_refused_with_what_loads() {
        let told = |flags: &str| said(&format!("{TRAFFIC} --gpu h100 --max-model-len 4096 {flags}"));
        // 768 / 4 = 192, and the version cuts no blocks.
        let old = told("Qwen/Qwen3-30B-A3B-FP8 -tp 4 --engine vllm@0.11");
        for part in [
            "experts of width 768 on 4 ranks are slices of 192, which the checkpoint's blocks of 128×128 do not divide",
            "what loads: -tp 1   |   -tp 2   |   --enable-expert-parallel",
        ] {
            assert!(old.contains(part), "{old}");
        }
        let is_refused = |flags: &str| told(flags).contains("does not fit");
        assert!(!is_refused("Qwen/Qwen3-30B-A3B-FP8 -tp 2 --engine vllm@0.11"));
        let sglang = said(&format!(
            "{TRAFFIC} --gpu h100 Qwen/Qwen3-30B-A3B-FP8 -tp 4 --engine sglang"
        ));
        assert!(
            sglang.contains("slices of 192") && !sglang.contains("--enable-expert"),
            "{sglang}"
        );
        // vLLM 0.33 cuts them to 64 and 32.
        for ranks in [4, 8] {
            let cut = told(&format!("Qwen/Qwen3-30B-A3B-FP8 -tp {ranks}"));
            assert!(cut.contains("the engine cuts the blocks smaller"), "{cut}");
        }
        // Dense layers are never cut: 9728 / 8 = 1216 = 9.5 blocks.
        let dense = told("Qwen/Qwen3-4B-FP8 -tp 8");
        assert!(
            dense.contains("dense layers of width 9728 on 8 ranks are slices of 1216"),
            "{dense}"
        );
        assert!(
            dense.contains("what loads: -tp 1   |   -tp 2   |   -tp 4"),
            "{dense}"
        );
        // Other formats have no blocks.
        assert!(!is_refused("Qwen/Qwen3-4B -tp 8 --quantization fp8"));
    }
}
