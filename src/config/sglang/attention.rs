//! `--enable-dp-attention` (SG-50, SG-51): each of `--dp-size` ranks attends by itself on its share of the GPUs of `--tp-size`, and
//! all of these share the rest; without `--enable-dp-lm-head` the LM head, too.
//!
//! What start-up derives from it: a third of the conservativeness (0.3, SG-32), a share of the chunk and of `max_running_requests`
//! for each rank, prefill graphs (0.5.23) no larger than that chunk, decode graphs of whole multiples of a rank's GPUs, and more
//! memory for graphs (SG-44).
//!
//! Left out, and refused by name: models whose code in that release shares attention out over all GPUs; balancing by load
//! snapshots, and intervals between prefills (0.5.23). Delayed prefills (`--enable-prefill-delayer`) are no default.

use super::SglangFlags;
use super::profile::{Behaviour, SglangProfile};
use crate::cluster::router::Policy;
use crate::cluster::{Coordination, Gathering};
use crate::config::judge::Judge;
use crate::config::raw::{RawCluster, RawSglang};
use crate::cost::roofline::Gathers;
use crate::engine::memory::Edges;
use crate::hardware::Device;
use crate::model::ModelShape;

const KEY: &str = "sglang.enable_dp_attention";
const LM_HEAD: &str = "sglang.enable_dp_lm_head";

/// Factor of the conservativeness (`_handle_data_parallelism`).
const CONSERVATIVENESS: f64 = 0.3;
/// Bytes that the buffer of 0.5.23's own all-reduce holds, on each GPU (`SGLANG_CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB`; no table of
/// `configs/custom_all_reduce_v2.py` has less).
const ALL_REDUCE_BYTES: u64 = 16 << 20;

/// Ranks with attention of their own that the flags ask for; 1 without them.
pub(in crate::config) fn asked(raw: &RawSglang, cluster: &RawCluster) -> u32 {
    match (raw.enable_dp_attention, cluster.data_parallel_size) {
        (Some(true), Some(ranks)) => (ranks.0 as u32).max(1),
        _ => 1,
    }
}

/// Ranks that attend by themselves.
#[derive(Clone, Copy, Debug)]
pub(in crate::config) struct Apart {
    /// How many; 1 as a rule.
    pub(super) ranks: u32,
    /// GPUs of each.
    gpus: u32,
    /// Each has its LM head.
    own_head: bool,
    /// Of 0.5.23.
    coordination: Option<Coordination>,
}

impl Apart {
    /// What they have in common; nothing where there is one.
    pub(in crate::config) fn gathers(&self) -> Option<Gathers> {
        (self.ranks > 1).then(|| Gathers {
            logits: !self.own_head,
            // `VocabParallelEmbedding` has `enable_tp=False` in 0.5.4, `use_attn_tp_group` in 0.5.23 (SG-52).
            splits_embedding: self.coordination.is_some(),
            sums_up_to: self.coordination.map_or(0, |new| new.sums_up_to),
        })
    }

    /// How they come together.
    pub(in crate::config) fn gathering(&self) -> Gathering {
        Gathering {
            gpus_a_rank: self.gpus,
            coordination: self.coordination,
        }
    }

    /// Who shares embedding and LM head.
    pub(super) fn edges(&self) -> Option<Edges> {
        self.gathers().map(|common| Edges {
            embedding: if common.splits_embedding { self.gpus } else { 1 },
            head: if common.logits {
                self.gpus * self.ranks
            } else {
                self.gpus
            },
        })
    }

    /// Whether a decode batch of so many can be captured: whole multiples of a rank's GPUs (`get_batch_sizes_to_capture`).
    pub(super) fn captures(&self, batch: u32) -> bool {
        self.ranks == 1 || batch.is_multiple_of(self.gpus)
    }
}

/// The same, judged.
pub(super) fn ranks(
    judge: &mut Judge,
    (raw, cluster): (&RawSglang, &RawCluster),
    profile: &SglangProfile,
    (device, model): (Option<&Device>, Option<&ModelShape>),
) -> Apart {
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
    let alone = Apart {
        ranks: 1,
        gpus: 1,
        own_head: true,
        coordination: None,
    };
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
        return alone;
    }
    let all = cluster.tensor_parallel_size.map_or(1, |gpus| gpus.0);
    if !all.is_multiple_of(u64::from(ranks)) {
        judge.wrong_help(
            KEY,
            "needs a tensor-parallel size that its ranks divide",
            format!("{ranks} ranks on {all} GPUs"),
            "with it --dp-size divides --tp-size, and does not multiply the GPUs",
        );
    }
    if let Some(model) = model {
        check_model(judge, profile, model);
    }
    if raw.enable_dp_lm_head.is_none() {
        judge.assume(LM_HEAD, false, profile.source());
    }
    let is_new = profile.behaviour == Behaviour::V0_5_23;
    let sends_tokens = raw
        .moe_a2a_backend
        .as_deref()
        .is_some_and(|backend| backend != "none");
    let coordination = is_new.then(|| Coordination {
        sums_up_to: match (device, model) {
            (Some(device), Some(model)) if !sends_tokens => sums_up_to(device, model, all as u32),
            _ => 0,
        },
        converts_decodes: !sends_tokens,
    });
    Apart {
        ranks,
        gpus: (all as u32 / ranks).max(1),
        own_head: raw.enable_dp_lm_head == Some(true),
        coordination,
    }
}

/// Tokens of all ranks whose hidden states that buffer holds; none without NVLink between all GPUs, where 0.5.23 has no
/// all-reduce of its own (`can_use_custom_all_reduce_v2`).
fn sums_up_to(device: &Device, model: &ModelShape, gpus: u32) -> u64 {
    let bytes = u64::from(model.hidden_size) * model.dtype.bytes();
    match device.nvlink_of(gpus) {
        Some(_) => ALL_REDUCE_BYTES / bytes,
        None => 0,
    }
}

/// Models whose code shares attention out over all GPUs, whatever is asked for (SG-53): ranks would add up one another's requests.
fn check_model(judge: &mut Judge, profile: &SglangProfile, model: &ModelShape) {
    if profile
        .data_parallel_attention
        .architectures
        .contains(&model.architecture)
    {
        return;
    }
    let engine = profile.profile.replace("sglang@", "SGLang ");
    judge.wrong_help(
        KEY,
        "is not of this model",
        format!(
            "{engine} shares the attention of {} out over all GPUs",
            model.architecture
        ),
        "--dp-size alone makes ranks with a whole model each",
    );
}

/// What 0.5.23 has and ranks that step together are not modelled with.
pub(super) fn check_neighbours(judge: &mut Judge, apart: &Apart, balancer: Policy, interval: u32) {
    if apart.ranks < 2 {
        return;
    }
    if matches!(balancer, Policy::TotalLoad { .. }) {
        judge.wrong_help(
            "sglang.load_balance_method",
            "is not modelled beside enable_dp_attention",
            "when a rank that steps with others publishes its load is left out",
            "auto and round_robin take turns",
        );
    }
    if interval > 0 {
        judge.wrong_help(
            "sglang.prefill_decode_interval",
            "is not modelled beside enable_dp_attention",
            "a prefill of any rank would put off those of all, which is left out",
            "write 0",
        );
    }
}

impl SglangFlags {
    /// Ranks that attend by themselves.
    pub(in crate::config) fn apart(&self) -> &Apart {
        &self.apart
    }
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

/// Tokens of the prefill batches that are captured: none above one rank's chunk, which is shared out after they were set
/// (`handle_data_parallelism`).
pub(super) fn prefill_graphs(sizes: Option<Vec<u32>>, own: Option<u32>, ranks: u32) -> Option<Vec<u32>> {
    let mut sizes = sizes?;
    if ranks > 1 {
        sizes.retain(|&tokens| own.is_none_or(|own| tokens <= own));
    }
    Some(sizes).filter(|sizes| !sizes.is_empty())
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
    use crate::cluster::{Coordination, Gathering, LockStepSpec};
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

    const NEW: &str = "sglang@0.5.23";

    fn served(model: &str, engine: &str, cluster: &str, flags: &str) -> Resolved {
        judged(model, engine, cluster, flags)
            .unwrap_or_else(|told| panic!("{model} {engine} {cluster} {flags}: {told}"))
    }

    fn spec(resolved: &Resolved) -> Option<LockStepSpec> {
        resolved.scenario.lock_step.as_ref().map(|ranks| ranks.spec)
    }

    #[test]
    fn ranks_share_the_gpus_and_what_start_up_derives() {
        let resolved = served(EXPERTS, OLD, FOUR, BOTH);
        let scenario = &resolved.scenario;
        let alone = Gathering {
            gpus_a_rank: 1,
            coordination: None,
        };
        assert_eq!(spec(&resolved), Some(LockStepSpec::Gathered(alone)));
        assert_eq!(scenario.cluster.replicas, 4);
        assert_eq!(resolved.placement.tensor_parallel, 1);
        let EngineSpec::Sglang(config) = &scenario.first_pool().engine else {
            panic!("another engine");
        };
        assert_eq!(config.chunked_prefill_size, Some(8192 / 4));
        assert!((config.init_new_token_ratio - 0.7 * 0.3).abs() < 1e-12);
        // Heads are not divided, so a rank's tokens take four times the memory; a quarter of the experts leaves room for it.
        let plan = resolved.memory.as_ref().expect("memory decided");
        let alone = served(EXPERTS, OLD, "tensor_parallel_size = 4", "");
        let all = alone.memory.as_ref().expect("memory decided");
        let ratio = all.tokens() as f64 / plan.tokens() as f64;
        assert!((3.5..5.5).contains(&ratio), "{ratio}");
        let limited = format!("{BOTH}\nmax_running_requests = 64");
        let limited = served(EXPERTS, OLD, FOUR, &limited);
        assert_eq!(limited.scenario.first_pool().engine.max_num_seqs(), 16);
    }

    /// Qwen3-30B-A3B has hidden states of 2,048 in 16 bits, so 16 MiB hold those of 4,096 tokens.
    #[test]
    fn the_newer_release_coordinates_its_ranks() {
        let resolved = served(EXPERTS, NEW, FOUR, "enable_dp_attention = true");
        let gathering = |sums_up_to, converts_decodes| {
            Some(LockStepSpec::Gathered(Gathering {
                gpus_a_rank: 1,
                coordination: Some(Coordination {
                    sums_up_to,
                    converts_decodes,
                }),
            }))
        };
        assert_eq!(spec(&resolved), gathering(4096, true));
        // Prefill graphs are those of a rank's chunk, decode graphs those of all four GPUs.
        let graphs = &resolved.placement.graphs;
        assert_eq!(
            graphs.piece_sizes.as_ref().and_then(|sizes| sizes.last()),
            Some(&2048)
        );
        assert_eq!(graphs.capture_sizes.last(), Some(&512));
        let sends = "enable_dp_attention = true\nmoe_a2a_backend = \"deepep\"";
        assert_eq!(spec(&served(EXPERTS, NEW, FOUR, sends)), gathering(0, false));
    }

    /// Two ranks of two GPUs halve the heads, and so the KV of a token on each GPU; graphs are of even batches.
    #[test]
    fn a_rank_may_have_several_gpus() {
        let two = "tensor_parallel_size = 4\ndata_parallel_size = 2";
        for engine in [OLD, NEW] {
            let (one, two) = (
                served(EXPERTS, engine, FOUR, BOTH),
                served(EXPERTS, engine, two, BOTH),
            );
            assert_eq!(two.placement.tensor_parallel, 2);
            assert_eq!(two.scenario.cluster.replicas, 2);
            let kv = |resolved: &Resolved| {
                let plan = resolved.memory.as_ref().expect("memory decided");
                plan.layout.bytes_per_token.0
            };
            assert_eq!(kv(&one), 2 * kv(&two), "{engine}");
            let sizes = &two.placement.graphs.capture_sizes;
            assert!(sizes.starts_with(&[2, 4, 8, 12]), "{engine}: {sizes:?}");
        }
    }

    /// DeepSeek-V3: tables of 129,280 × 7,168 in 16 bits. 0.5.4 has the embedding whole on each GPU, 0.5.23 shared out in each rank; the LM
    /// head is shared out over all GPUs, or with `--enable-dp-lm-head` in each rank.
    #[test]
    fn tables_lie_as_each_release_shares_them_out() {
        let table = 129_280 * 7168 * 2;
        let weights = |engine: &str, ranks: u64, flags: &str| {
            let cluster = format!("tensor_parallel_size = 8\ndata_parallel_size = {ranks}\ngpu = \"H200\"");
            let rest = format!("profile = \"{engine}\"\n[sglang]\ncontext_length = 8192\n{flags}");
            let mut input = crate::config::tests::served("deepseek-ai/DeepSeek-V3", "", &rest);
            for (key, value) in [("tensor_parallel_size", 8), ("data_parallel_size", ranks as i64)] {
                input.set(&format!("cluster.{key}"), toml::Value::from(value), "");
            }
            input.set("cluster.gpu", toml::Value::from("H200"), "");
            let resolved = crate::config::resolve(input, &crate::config::NoFiles);
            let resolved = resolved.unwrap_or_else(|told| panic!("{cluster} {engine}: {told}"));
            resolved.memory.expect("memory decided").weights.0
        };
        let alone = "enable_dp_attention = true";
        for ranks in [8, 4] {
            let group = 8 / ranks;
            for (engine, embedding) in [(OLD, table), (NEW, table / group)] {
                let (own, common) = (weights(engine, ranks, BOTH), weights(engine, ranks, alone));
                assert_eq!(own - common, table / group - table / 8, "{engine} {ranks}");
                let newer = weights(NEW, ranks, alone);
                assert_eq!(common - newer, embedding - table / group, "{engine} {ranks}");
            }
        }
    }

    /// A dense layer is gathered for, too; Llama's attention is shared out over all GPUs in either release.
    #[test]
    fn models_are_served_as_their_code_allows() {
        for engine in [OLD, NEW] {
            let resolved = served("Qwen/Qwen3-8B", engine, FOUR, BOTH);
            assert!(matches!(spec(&resolved), Some(LockStepSpec::Gathered(_))));
            let told = judged(DENSE, engine, FOUR, BOTH)
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(
                told.contains("shares the attention of LlamaForCausalLM out"),
                "{told}"
            );
        }
    }

    #[test]
    fn what_is_not_modelled_is_refused_by_name() {
        let uneven = "tensor_parallel_size = 4\ndata_parallel_size = 3";
        let with = |more: &str| format!("{BOTH}\n{more}");
        let (small, total, spaced) = (
            with("chunked_prefill_size = 3"),
            with("load_balance_method = \"total_tokens\""),
            with("prefill_decode_interval = 2"),
        );
        for (model, engine, cluster, flags) in [
            (EXPERTS, OLD, uneven, BOTH),
            (EXPERTS, OLD, "data_parallel_size = 4", BOTH),
            (DENSE, OLD, FOUR, BOTH),
            (EXPERTS, OLD, FOUR, "enable_dp_lm_head = true"),
            (EXPERTS, OLD, FOUR, &small),
            (EXPERTS, NEW, FOUR, &total),
            (EXPERTS, NEW, FOUR, &spaced),
        ] {
            let told = judged(model, engine, cluster, flags).map(|_| ()).unwrap_err();
            assert_eq!(told.0.len(), 1, "{model} {engine} {cluster} {flags}: {told}");
        }
    }

    /// Both spellings of 0.5.23 say the same.
    #[test]
    fn attn_dp_size_is_both_flags() {
        let said = |flags: &str| {
            let command =
                format!("Qwen/Qwen3-30B-A3B --gpu h100 --engine sglang -tp 4 --context-length 8192 {flags}");
            crate::config::flags::tests::said(&format!("{} {command}", crate::config::flags::tests::TRAFFIC))
        };
        let (old, new) = (
            said("--dp-size 4 --enable-dp-attention"),
            said("--attn-dp-size 4"),
        );
        assert!(old.contains("the 4 ranks attend by themselves"), "{old}");
        assert_eq!(old, new);
        assert_eq!(said("--attn-dp-size=4"), new);
        assert_eq!(said("--attn-dp-size 1"), said(""));
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
