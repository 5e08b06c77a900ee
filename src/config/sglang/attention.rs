//! `--enable-dp-attention` (SG-50): each of `--dp-size` ranks attends by itself, and all GPUs of `--tp-size` share the rest.
//!
//! Modelled is what 0.5.4 does with one GPU a rank. What start-up derives from it: a third of the conservativeness (0.3, SG-32), a
//! share of the chunk and of `max_running_requests` for each rank, and more memory for graphs (SG-44).
//!
//! Left out, and refused by name: 0.5.23, where all ranks decide together whether a step with prompts replays prefill graphs;
//! ranks of several GPUs; models without experts; logits over all GPUs (no `--enable-dp-lm-head`).

use super::profile::{Behaviour, SglangProfile};
use crate::config::judge::Judge;
use crate::config::raw::{RawCluster, RawSglang};
use crate::model::ModelShape;

const KEY: &str = "sglang.enable_dp_attention";
const LM_HEAD: &str = "sglang.enable_dp_lm_head";

/// Factor of the conservativeness (`_handle_data_parallelism`).
const CONSERVATIVENESS: f64 = 0.3;

/// Ranks with attention of their own that the flags ask for; 1 without them.
pub(in crate::config) fn asked(raw: &RawSglang, cluster: &RawCluster) -> u32 {
    match (raw.enable_dp_attention, cluster.data_parallel_size) {
        (Some(true), Some(ranks)) => (ranks.0 as u32).max(1),
        _ => 1,
    }
}

/// The same, judged.
pub(super) fn ranks(
    judge: &mut Judge,
    raw: &RawSglang,
    cluster: &RawCluster,
    profile: &SglangProfile,
    model: Option<&ModelShape>,
) -> u32 {
    let ranks = asked(raw, cluster);
    for (key, given) in [(KEY, raw.enable_dp_attention), (LM_HEAD, raw.enable_dp_lm_head)] {
        if let Some(given) = given {
            judge.given(key, given);
        }
        if given == Some(true) && cluster.data_parallel_size.is_none_or(|ranks| ranks.0 < 2) {
            let name = key.trim_start_matches("sglang.");
            judge.ignore(format!("{name} has no effect without several ranks (--dp-size)"));
        }
    }
    if ranks < 2 {
        if raw.enable_dp_lm_head == Some(true) && cluster.data_parallel_size.is_some_and(|ranks| ranks.0 > 1)
        {
            let why = "ranks with a whole model each compute their own logits anyway";
            judge.wrong_help(
                LM_HEAD,
                "needs enable_dp_attention",
                why,
                "add --enable-dp-attention",
            );
        }
        return 1;
    }
    let mut refuse = |key: &str, problem: &str, label: String, help: &str| {
        judge.wrong_help(key, problem, label, help);
    };
    if profile.behaviour != Behaviour::V0_5_4 {
        refuse(
            KEY,
            "is modelled of SGLang 0.5.4 only",
            "in 0.5.23 all ranks decide together whether a step with prompts replays prefill graphs"
                .to_string(),
            "write --engine sglang@0.5.4",
        );
    }
    let gpus = cluster.tensor_parallel_size.map_or(1, |gpus| gpus.0);
    if !gpus.is_multiple_of(u64::from(ranks)) {
        refuse(
            KEY,
            "needs a tensor-parallel size that its ranks divide",
            format!("{ranks} ranks on {gpus} GPUs"),
            "with it --dp-size divides --tp-size, and does not multiply the GPUs",
        );
    } else if gpus > u64::from(ranks) {
        refuse(
            KEY,
            "is modelled with one GPU a rank only",
            format!("{ranks} ranks on {gpus} GPUs"),
            "write as many ranks as GPUs: --dp-size equal to --tp-size",
        );
    }
    if model.is_some_and(|model| !model.has_experts()) {
        refuse(
            KEY,
            "is modelled of models with experts only",
            "this one has none".to_string(),
            "--dp-size alone makes ranks with a whole model each",
        );
    }
    if raw.enable_dp_lm_head != Some(true) {
        refuse(
            KEY,
            "is modelled with enable_dp_lm_head only",
            "without it the logits of all ranks are computed by all of them".to_string(),
            "add --enable-dp-lm-head",
        );
    }
    ranks
}

/// Prompt tokens that one rank computes in a step.
pub(super) fn chunk(judge: &mut Judge, all: Option<u32>, ranks: u32, page_size: u32) -> Option<u32> {
    let own = all? / ranks;
    if own < page_size && ranks > 1 && !judge.is_wrong(&["sglang.chunked_prefill_size"]) {
        judge.wrong_help(
            "sglang.chunked_prefill_size",
            "leaves a rank less than a page",
            format!("each of {ranks} ranks gets its share: {own} tokens"),
            "give a larger one, or -1",
        );
    }
    Some(own)
}

/// What is left of the conservativeness.
pub(super) fn conservativeness(given: f64, ranks: u32) -> f64 {
    if ranks > 1 {
        given * CONSERVATIVENESS
    } else {
        given
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::LockStepSpec;
    use crate::config::tests::resolve_served;
    use crate::config::{Diagnostics, Resolved};
    use crate::engine::EngineSpec;

    fn judged(model: &str, engine: &str, cluster: &str, flags: &str) -> Result<Resolved, Diagnostics> {
        let rest = format!("profile = \"{engine}\"\n[sglang]\n{flags}");
        resolve_served(model, cluster, &rest)
    }

    const EXPERTS: &str = "Qwen/Qwen3-30B-A3B";
    const DENSE: &str = "meta-llama/Llama-3.1-8B-Instruct";
    const OLD: &str = "sglang@0.5.4";
    const FOUR: &str = "tensor_parallel_size = 4\ndata_parallel_size = 4";
    const BOTH: &str = "enable_dp_attention = true\nenable_dp_lm_head = true";

    #[test]
    fn ranks_share_the_gpus_and_what_start_up_derives() {
        let resolved = judged(EXPERTS, OLD, FOUR, BOTH).unwrap_or_else(|told| panic!("{told}"));
        let scenario = &resolved.scenario;
        let spec = scenario.lock_step.as_ref().map(|ranks| ranks.spec);
        assert_eq!(spec, Some(LockStepSpec::Gathered));
        assert_eq!(scenario.cluster.replicas, 4);
        assert_eq!(resolved.placement.tensor_parallel, 1);
        let EngineSpec::Sglang(config) = &scenario.first_pool().engine else {
            panic!("another engine");
        };
        assert_eq!(config.chunked_prefill_size, Some(8192 / 4));
        assert!((config.init_new_token_ratio - 0.7 * 0.3).abs() < 1e-12);
        // Heads are not divided, so a rank's tokens take four times the memory; a quarter of the experts leaves room for it.
        let plan = resolved.memory.as_ref().expect("memory decided");
        let alone =
            judged(EXPERTS, OLD, "tensor_parallel_size = 4", "").unwrap_or_else(|told| panic!("{told}"));
        let all = alone.memory.as_ref().expect("memory decided");
        let ratio = all.tokens() as f64 / plan.tokens() as f64;
        assert!((3.5..5.5).contains(&ratio), "{ratio}");
        let limited = format!("{BOTH}\nmax_running_requests = 64");
        let limited = judged(EXPERTS, OLD, FOUR, &limited).unwrap_or_else(|told| panic!("{told}"));
        assert_eq!(limited.scenario.first_pool().engine.max_num_seqs(), 16);
    }

    #[test]
    fn what_is_not_modelled_is_refused_by_name() {
        let eight = "tensor_parallel_size = 8\ndata_parallel_size = 4";
        let uneven = "tensor_parallel_size = 4\ndata_parallel_size = 3";
        let alone = "enable_dp_attention = true";
        for (model, engine, cluster, flags) in [
            (EXPERTS, "sglang@0.5.23", FOUR, BOTH),
            (EXPERTS, OLD, eight, BOTH),
            (EXPERTS, OLD, uneven, BOTH),
            (EXPERTS, OLD, "data_parallel_size = 4", BOTH),
            (DENSE, OLD, FOUR, BOTH),
            (EXPERTS, OLD, FOUR, alone),
            (EXPERTS, OLD, FOUR, "enable_dp_lm_head = true"),
            (
                EXPERTS,
                OLD,
                FOUR,
                "enable_dp_attention = true\nenable_dp_lm_head = true\nchunked_prefill_size = 3",
            ),
        ] {
            let told = judged(model, engine, cluster, flags).map(|_| ()).unwrap_err();
            assert_eq!(told.0.len(), 1, "{model} {engine} {cluster} {flags}: {told}");
        }
    }

    #[test]
    fn with_one_rank_it_has_no_effect() {
        let resolved = judged(DENSE, OLD, "", BOTH).unwrap_or_else(|told| panic!("{told}"));
        assert!(resolved.scenario.lock_step.is_none());
        assert_eq!(
            resolved
                .notes
                .iter()
                .filter(|note| note.contains("no effect"))
                .count(),
            2
        );
    }
}
