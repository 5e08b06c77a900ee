//! Data-parallel engines of a model with experts, which step together (V1-85).

use super::document::Source;
use super::formats::has_experts;
use super::judge::Judge;
use super::pools::PoolDraft;
use super::raw::{RawCluster, RawScenario};
use super::server::Server;
use crate::cluster::LockStepSpec;
use crate::cost::roofline::SharedExperts;
use crate::model::{LayerGroup, Mlp, ModelShape};
use crate::sim::LockStepRanks;

/// Ranks that share the experts of a model: the data-parallel engines of one that has any.
pub(super) fn ranks(raw: &RawCluster, model: &ModelShape) -> u32 {
    let engines = raw.data_parallel_size.map_or(1, |count| count.0 as u32);
    if has_experts(model) { engines.max(1) } else { 1 }
}

/// The part of a model that lies on one such rank: all of it, but of the experts a share.
pub(super) fn of_rank(model: &ModelShape, ranks: u32) -> ModelShape {
    let share = |group: &LayerGroup| {
        let mut own = group.clone();
        if let Mlp::Experts { experts, .. } = &mut own.mlp {
            *experts = experts.div_ceil(ranks);
        }
        own
    };
    ModelShape {
        layers: model.layers.iter().map(share).collect(),
        ..model.clone()
    }
}

/// How the engines of the one pool there is step together, if they do. What belongs to that is refused elsewhere.
pub(super) fn resolve(judge: &mut Judge, raw: &RawScenario, pools: &[PoolDraft]) -> Option<LockStepSpec> {
    let cluster = &raw.cluster;
    let model = pools.first().and_then(|pool| pool.draft.model.as_ref());
    let ranks = model.map_or(1, |model| ranks(cluster, model));
    let is_alone = cluster.pools.is_empty();
    if ranks < 2 || !is_alone {
        // Without a model nobody knows whether it has experts.
        if model.is_some() || !is_alone {
            refuse_options(judge, cluster);
        }
        return None;
    }
    let pool = &pools[0];
    let Some((waits_longer, pads)) = pool
        .draft
        .flags
        .steps_with_others(raw.engine.enforce_eager == Some(true))
    else {
        judge.wrong_help(
            "cluster.data_parallel_size",
            "must be 1 for a model with experts",
            "its engines would step together, which is modelled of vLLM only",
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
    Some(LockStepSpec {
        sync_interval: sync_interval.into(),
        pads,
    })
}

/// What cannot stand beside ranks that step together.
fn refuse_neighbours(judge: &mut Judge, raw: &RawScenario) {
    let cluster = &raw.cluster;
    let neighbours = [
        ("cluster.events", !cluster.events.is_empty()),
        ("cluster.autoscale", cluster.autoscale.is_some()),
        (
            "cluster.mean_time_between_failures",
            cluster.mean_time_between_failures.is_some(),
        ),
        ("lmcache", judge.document.get("lmcache").is_some()),
    ];
    for (key, is_given) in neighbours {
        if is_given {
            judge.wrong_help(
                key,
                "does not go with engines that step together",
                "no engine can go without the others",
                "leave it out, or write replicas instead of data_parallel_size",
            );
        }
    }
}

/// An option of ranks that step together would be ignored.
fn refuse_options(judge: &mut Judge, raw: &RawCluster) {
    let options = [
        ("enable_expert_parallel", raw.enable_expert_parallel == Some(true)),
        ("dp_sync_interval", raw.dp_sync_interval.is_some()),
    ];
    for (name, is_given) in options {
        if is_given {
            judge.wrong_help(
                &format!("cluster.{name}"),
                "has no effect",
                "it is modelled of data-parallel engines of a model with experts",
                "add --data-parallel-size, or leave it out",
            );
        }
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
