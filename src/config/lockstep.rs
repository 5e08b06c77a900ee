//! Data-parallel engines of a model with experts, which step together (V1-85, SG-50, TR-9).

use super::document::Source;
use super::judge::Judge;
use super::pools::PoolDraft;
use super::raw::{RawCluster, RawScenario};
use super::scalar::Count;
use super::server::Server;
use super::serving::Flags;
use super::version::EngineKind;
use super::{sglang, trtllm};
use crate::cluster::LockStepSpec;
use crate::cost::roofline::{Gathers, SharedExperts};
use crate::model::{LayerGroup, Mlp, ModelShape};
use crate::sim::LockStepRanks;

/// Ranks that share the experts of a model: the data-parallel engines of one that has any. Those of SGLang each have a
/// whole model of their own unless their attention alone is data parallel.
pub(super) fn ranks(raw: &RawScenario, model: &ModelShape) -> u32 {
    if raw.engine.kind() == EngineKind::Sglang {
        return sglang::attention_ranks(&raw.sglang, &raw.cluster);
    }
    let engines = engines(raw);
    if model.has_experts() { engines.max(1) } else { 1 }
}

/// Data-parallel engines of a server, whether they step together or not: as many as are asked for, or GPUs where TensorRT-LLM's attend apart.
pub(super) fn engines(raw: &RawScenario) -> u32 {
    match trtllm::attention_ranks(raw) {
        1 => raw.cluster.data_parallel_size.map_or(1, |count| count.0 as u32),
        ranks => ranks,
    }
}

/// GPUs that share the attention of one rank, of so many that share a layer's rest.
pub(super) fn attention_group(raw: &RawScenario, tensor_parallel: u32) -> u32 {
    let ranks = match raw.engine.kind() {
        EngineKind::Sglang => sglang::attention_ranks(&raw.sglang, &raw.cluster),
        EngineKind::Trtllm => trtllm::attention_ranks(raw),
        EngineKind::Vllm | EngineKind::Scheduled(_) => 1,
    };
    (tensor_parallel / ranks).max(1)
}

/// The part of a model that lies on one such rank: all of it, but of the experts a share; of dense layers and shared
/// experts too, where ranks have those in common.
pub(super) fn of_rank(model: &ModelShape, ranks: u32, gathers: Option<Gathers>) -> ModelShape {
    let dense = if gathers.is_some() { ranks } else { 1 };
    let share = |group: &LayerGroup| {
        let mut own = group.clone();
        match &mut own.mlp {
            Mlp::Dense { intermediate, .. } => *intermediate = intermediate.div_ceil(dense),
            Mlp::Experts {
                experts,
                shared_intermediate,
                ..
            } => {
                *experts = experts.div_ceil(ranks);
                *shared_intermediate = shared_intermediate.div_ceil(dense);
            }
            Mlp::Absent => {}
        }
        own
    };
    ModelShape {
        layers: model.layers.iter().map(share).collect(),
        ..model.clone()
    }
}

/// The part of a model's work that one such rank has where it alone has requests: of each expert that a token is sent to a share, whether
/// ranks hold slices or whole experts.
pub(super) fn worked_by_rank(model: &ModelShape, ranks: u32, gathers: Option<Gathers>) -> ModelShape {
    let mut own = of_rank(model, ranks, gathers);
    if gathers.is_some_and(|common| common.logits) {
        own.vocab_size = own.vocab_size.div_ceil(ranks);
    }
    for (own, whole) in own.layers.iter_mut().zip(&model.layers) {
        if let (
            Mlp::Experts {
                experts,
                intermediate,
                ..
            },
            Mlp::Experts {
                experts: all,
                intermediate: whole,
                ..
            },
        ) = (&mut own.mlp, &whole.mlp)
        {
            *experts = *all;
            *intermediate = whole.div_ceil(ranks);
        }
    }
    own
}

/// How the engines of the one pool there is step together, if they do. What belongs to that is refused elsewhere.
pub(super) fn resolve(judge: &mut Judge, raw: &RawScenario, pools: &[PoolDraft]) -> Option<LockStepSpec> {
    let cluster = &raw.cluster;
    let model = pools.first().and_then(|pool| pool.draft.model.as_ref());
    let ranks = model.map_or(1, |model| ranks(raw, model));
    let is_alone = cluster.pools.is_empty();
    if ranks < 2 || !is_alone {
        // Without a model nobody knows whether it has experts.
        let own = without_flag(raw);
        match model {
            Some(model) if own.is_none() && deals_out(cluster, model) => deal_out(judge, cluster, model),
            Some(model) => refuse_options(judge, cluster, own, model.has_experts()),
            None if is_alone => {}
            None => refuse_options(judge, cluster, own, true),
        }
        return None;
    }
    let pool = &pools[0];
    if let Some(gathering) = pool.draft.flags.gathering() {
        refuse_neighbours(judge, raw);
        refuse_options(judge, cluster, without_flag(raw), true);
        let each = match gathering.gpus_a_rank {
            1 => String::new(),
            gpus => format!(", on {gpus} GPUs each,"),
        };
        judge.notes.push(format!(
            "the {ranks} ranks attend by themselves{each} and step together: each step lasts as long as the slowest needs, and a \
             rank without work runs an idle batch; chunked_prefill_size and max_running_requests are shared out among them"
        ));
        return Some(LockStepSpec::Gathered(gathering));
    }
    if let Flags::Trtllm(flags) = &pool.draft.flags
        && let Some(attending) = flags.attention_dp()
    {
        refuse_neighbours(judge, raw);
        refuse_options(judge, cluster, without_flag(raw), true);
        judge.notes.push(format!(
            "the {ranks} ranks attend by themselves and step together: each step lasts as long as the slowest needs, and a rank without work \
             computes a dummy; max_batch_size and max_num_tokens are each rank's own"
        ));
        return Some(LockStepSpec::Attending(attending));
    }
    let Some(waits_longer) = pool.draft.flags.agrees_rarely() else {
        judge.wrong_help(
            "cluster.data_parallel_size",
            "must be 1 for a model with experts",
            "its engines would step together, which is modelled of vLLM's; TensorRT-LLM's ranks do with --enable-attention-dp",
            "--replicas N simulates N separate servers",
        );
        return None;
    };
    refuse_neighbours(judge, raw);
    if let Some(given) = cluster.enable_expert_parallel {
        judge.given("cluster.enable_expert_parallel", given);
    } else {
        let source = Source::Assumption("default of vLLM".to_string());
        judge.assume("cluster.enable_expert_parallel", false, source);
    }
    let default = if waits_longer { 32 } else { 16 };
    let source = Source::Profile(pool.draft.flags.profile());
    let key = "cluster.dp_sync_interval";
    let sync_interval = judge.count(key, cluster.dp_sync_interval, (1, 1 << 20), default, source);
    judge.notes.push(format!(
        "the {ranks} engines share their experts and step together: each step lasts as long as the slowest needs, and an \
         engine without work computes a dummy batch"
    ));
    Some(LockStepSpec::Agreed {
        sync_interval: sync_interval.into(),
    })
}

/// Whether data-parallel engines hold experts whole, each some, so that tokens travel to them and back.
pub(super) fn exchanges_experts(cluster: &RawCluster, model: Option<&ModelShape>) -> bool {
    cluster.enable_expert_parallel == Some(true)
        && model.is_none_or(ModelShape::has_experts)
        && cluster.data_parallel_size.is_some_and(|count| count.0 > 1)
}

/// Whether the GPUs of one engine hold experts whole, each some.
fn deals_out(cluster: &RawCluster, model: &ModelShape) -> bool {
    let is_one = |count: Option<Count>| count.is_none_or(|count| count.0 <= 1);
    cluster.enable_expert_parallel == Some(true)
        && model.has_experts()
        && is_one(cluster.data_parallel_size)
        && !is_one(cluster.tensor_parallel_size)
}

/// vLLM's expert parallelism without data parallelism: every GPU of the group has all tokens, computes those that are routed to
/// its own experts, and the sum goes over the group as it does of slices.
fn deal_out(judge: &mut Judge, cluster: &RawCluster, model: &ModelShape) {
    judge.given("cluster.enable_expert_parallel", true);
    judge.notes.push(
        "each GPU of an engine holds some experts whole: a step waits for the one to which most tokens are routed, as chance \
         deals them out (no expert is more popular than another)"
            .to_string(),
    );
    let others = RawCluster {
        enable_expert_parallel: None,
        ..cluster.clone()
    };
    refuse_options(judge, &others, None, model.has_experts());
}

/// What cannot stand beside ranks that step together.
fn refuse_neighbours(judge: &mut Judge, raw: &RawScenario) {
    let [events, autoscale, failures] = raw.cluster.comings_and_goings();
    let tiers = ("lmcache", judge.document.get("lmcache").is_some());
    judge.refuse_given(
        &[events, autoscale, failures, tiers],
        "does not go with engines that step together",
        "no engine can go without the others",
        "leave it out, or write replicas instead of data_parallel_size",
    );
}

/// What is said of vLLM's flags where the engine shares experts out by one of its own.
fn without_flag(raw: &RawScenario) -> Option<&'static str> {
    match raw.engine.kind() {
        EngineKind::Sglang => Some("SGLang has no such flag"),
        EngineKind::Trtllm => Some("TensorRT-LLM has no such flag"),
        EngineKind::Vllm | EngineKind::Scheduled(_) => None,
    }
}

/// Options of ranks that step together, where none do. `own` says so of an engine that has others.
fn refuse_options(judge: &mut Judge, raw: &RawCluster, own: Option<&'static str>, has_experts: bool) {
    let (why, help) = match (own, has_experts) {
        (Some(why), _) => (why, "write --ep-size with the number of GPUs that share a layer"),
        (None, false) => (
            "the model has no experts",
            "leave it out: this model has no experts to share, so its data-parallel engines are servers of their own",
        ),
        (None, true) => (
            "one GPU holds all experts",
            "add --data-parallel-size, or --tensor-parallel-size for expert parallelism alone, or leave it out",
        ),
    };
    if raw.enable_expert_parallel == Some(true) {
        judge.wrong_help("cluster.enable_expert_parallel", "has no effect", why, help);
    }
    if raw.dp_sync_interval.is_some() {
        judge.wrong_help(
            "cluster.dp_sync_interval",
            "has no effect",
            "no engines step together here",
            help,
        );
    }
}

/// Puts a price on what the ranks share; `None` was reported.
pub(super) fn build(judge: &mut Judge, spec: LockStepSpec, server: &Server) -> Option<LockStepRanks> {
    let made = SharedExperts::maker(
        &server.device,
        &server.model,
        &server.calibration,
        &server.placement,
    );
    match made {
        Ok(shared) => Some(LockStepRanks { spec, shared }),
        Err(error) => {
            judge.wrong("cluster.calibration", "lacks something", error.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::resolve_served;

    const EXPERTS: &str = "Qwen/Qwen3-30B-A3B";
    const DENSE: &str = "meta-llama/Llama-3.1-8B-Instruct";

    fn spec(model: &str, cluster: &str, rest: &str) -> Option<LockStepSpec> {
        let resolved = resolve_served(model, cluster, rest).unwrap_or_else(|problems| panic!("{problems:?}"));
        resolved.scenario.lock_step.map(|ranks| ranks.spec)
    }

    fn refusals(model: &str, cluster: &str, rest: &str) -> Vec<String> {
        let problems = resolve_served(model, cluster, rest).map(|_| ()).unwrap_err();
        problems.0.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn engines_with_experts_step_together_and_others_do_not() {
        let new = LockStepSpec::Agreed { sync_interval: 16 };
        assert_eq!(spec(EXPERTS, "data_parallel_size = 4", ""), Some(new));
        let old = LockStepSpec::Agreed { sync_interval: 32 };
        let rest = "profile = \"vllm@0.11\"";
        assert_eq!(spec(EXPERTS, "data_parallel_size = 4", rest), Some(old));
        assert_eq!(spec(DENSE, "data_parallel_size = 4", ""), None);
        // Each of SGLang's has all experts.
        assert_eq!(
            spec(EXPERTS, "data_parallel_size = 4", "profile = \"sglang\""),
            None
        );
        assert_eq!(spec(EXPERTS, "replicas = 4", ""), None);
        assert_eq!(spec(EXPERTS, "data_parallel_size = 1", ""), None);
    }

    #[test]
    fn engines_that_share_experts_have_more_room_for_kv() {
        let blocks = |cluster: &str| {
            let resolved =
                resolve_served(EXPERTS, cluster, "").unwrap_or_else(|problems| panic!("{problems:?}"));
            resolved.memory.map(|plan| plan.num_gpu_blocks)
        };
        let (alone, shared) = (blocks(""), blocks("data_parallel_size = 4"));
        assert!(shared > alone, "{shared:?} {alone:?}");
    }

    #[test]
    fn the_gpus_of_one_engine_may_hold_experts_whole() {
        let cluster = "tensor_parallel_size = 4\nenable_expert_parallel = true";
        let resolved = resolve_served(EXPERTS, cluster, "").unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(resolved.placement.expert_groups, 4);
        assert!(
            resolved
                .notes
                .iter()
                .any(|note| note.contains("holds some experts whole")),
            "{:?}",
            resolved.notes
        );
        assert_eq!(refusals(DENSE, cluster, "").len(), 1);
        assert_eq!(refusals(EXPERTS, "enable_expert_parallel = true", "").len(), 1);
    }

    #[test]
    fn what_does_not_go_with_them_is_refused() {
        for (cluster, rest) in [
            ("data_parallel_size = 16", ""),
            ("enable_expert_parallel = true", ""),
            ("dp_sync_interval = 8", ""),
            (
                "data_parallel_size = 4\nmean_time_between_failures = \"1 h\"\nmean_time_to_recovery = \"60 s\"",
                "",
            ),
        ] {
            let told = refusals(EXPERTS, cluster, rest);
            assert_eq!(told.len(), 1, "{cluster} {rest}: {told:?}");
        }
        assert_eq!(
            refusals(DENSE, "data_parallel_size = 4\ndp_sync_interval = 8", "").len(),
            1
        );
    }
}
