//! Replicas and what is between them.

use std::collections::BTreeMap;

use super::document::Source;
use super::judge::Judge;
use super::pools::PoolDraft;
use super::raw::{RawCluster, RawReplicaChange, RawReplicaEvent, RawScenario};
use super::routers::{policy, refuse_foreign_options};
use super::serving::Flags;
use super::{autoscale, disaggregation, trtllm};
use crate::cluster::router::Policy;
use crate::cluster::{Autoscale, Change, ChangeKind, ClusterSpec, Group, Outages, Serves};
use crate::sim::Role;

/// More replicas than anybody routes between.
pub const REPLICAS_MAX: u64 = 4096;

/// More GPUs than anybody spreads a layer over.
const RANKS_MAX: u64 = 1024;

/// Resolves replicas, routers and events.
pub(super) fn resolve(judge: &mut Judge, raw: &RawScenario, pools: &mut [PoolDraft]) -> ClusterSpec {
    let mut scalers = Vec::new();
    // Replicas that prefill come first.
    pools.sort_by_key(|pool| pool.role == Role::Decode);
    let roles: Vec<Role> = pools.iter().map(|pool| pool.role).collect();
    let have_roles = disaggregation::check_roles(judge, raw, &roles);
    let groups = match &mut *pools {
        [pool] if raw.cluster.pools.is_empty() => {
            let flags = &pool.draft.flags;
            let (replicas, policy) = match data_parallel(judge, raw) {
                Some(engines) => (engines, flags.data_parallel_balancer()),
                None => replicas(judge, &raw.cluster, flags),
            };
            pool.replicas = replicas;
            scalers.extend(autoscaled(judge, raw, pool, 0));
            let replicas = pool.replicas;
            vec![Group {
                policy,
                members: (0..replicas).collect(),
                serves: Serves::default(),
            }]
        }
        pools => groups(judge, raw, pools, &mut scalers),
    };
    refuse_foreign_options(judge, &raw.cluster, &groups);
    let replicas = pools.iter().map(|pool| pool.replicas).sum();
    let changes = changes(judge, &raw.cluster.events, replicas);
    check_effects(judge, &raw.cluster, &changes);
    let changes = changes.into_iter().map(|(_, change)| change).collect();
    autoscale::check_events(judge, &raw.cluster.events, &scalers);
    let cluster = ClusterSpec {
        replicas,
        groups,
        scalers,
        changes,
        outages: outages(judge, &raw.cluster),
        disaggregation: None,
    };
    if have_roles {
        disaggregation::check_cluster(judge, raw, &cluster);
    }
    cluster
}

/// The pool's autoscaler, if it has one: the pool then has as many replicas as there may ever be.
fn autoscaled(judge: &mut Judge, raw: &RawScenario, pool: &mut PoolDraft, first: u32) -> Option<Autoscale> {
    let replicas = pool.replicas;
    let scaler = pool.judge(judge, raw, |judge, raw, _| {
        let raw = raw.cluster.autoscale.as_ref()?;
        Some(autoscale::resolve(judge, raw, first, replicas))
    })?;
    pool.replicas = scaler.members.len() as u32;
    Some(scaler)
}

/// Pools that serve the same requests, of one model and one range of prompts, share one router.
fn groups(
    judge: &mut Judge,
    raw: &RawScenario,
    pools: &mut [PoolDraft],
    scalers: &mut Vec<Autoscale>,
) -> Vec<Group> {
    let all: u64 = pools.iter().map(|pool| u64::from(pool.replicas)).sum();
    let is_told = |index: usize| judge.is_wrong(&[&format!("cluster.pools.{index}.replicas")]);
    if all > REPLICAS_MAX && !(0..pools.len()).any(is_told) {
        let label = format!("together they have {all}");
        judge.wrong("cluster.pools", "must have at most 4096 replicas", label);
    }
    let mut groups: Vec<Group> = Vec::new();
    // The first pool of each group.
    let mut firsts: Vec<usize> = Vec::new();
    let mut next = 0;
    for index in 0..pools.len() {
        let policy = pools[index].judge(judge, raw, |judge, raw, draft| {
            policy(judge, &raw.cluster, &draft.flags)
        });
        scalers.extend(autoscaled(judge, raw, &mut pools[index], next));
        let members = next..next + pools[index].replicas;
        next = members.end;
        let serves = |pool: &PoolDraft| {
            (
                pool.draft.model.as_ref().map(|model| model.name.clone()),
                pool.prompts,
                pool.role,
            )
        };
        let known = firsts
            .iter()
            .position(|&first| serves(&pools[first]) == serves(&pools[index]));
        pools[index].group = known.unwrap_or(groups.len());
        if let Some(known) = known {
            if groups[known].policy != policy {
                let other = &pools[firsts[known]].name;
                let label = format!("pool {other} serves the same requests behind another router");
                let help = "give both the same router, or write it under [cluster] alone";
                let key = format!("cluster.pools.{index}.router");
                judge.wrong_help(&key, "must be that of the other pool", label, help);
            }
            groups[known].members.extend(members);
        } else {
            let (least_prompt, most_prompt) = pools[index].prompts;
            firsts.push(index);
            groups.push(Group {
                policy,
                members: members.collect(),
                serves: Serves {
                    classes: None,
                    least_prompt,
                    most_prompt,
                },
            });
        }
    }
    groups
}

/// The tensor-parallel size.
pub(super) fn tensor_parallel(judge: &mut Judge, raw: &RawCluster) -> u32 {
    let source = Source::Assumption("one GPU".to_string());
    judge.count(
        "cluster.tensor_parallel_size",
        raw.tensor_parallel_size,
        (1, RANKS_MAX),
        1,
        source,
    )
}

/// Engines of a data-parallel server, if there is more than one.
fn data_parallel(judge: &mut Judge, raw: &RawScenario) -> Option<u32> {
    let attention_ranks = trtllm::attention_ranks(raw);
    let raw = &raw.cluster;
    let (key, engines, help) = match raw.data_parallel_size {
        _ if attention_ranks > 1 => (
            "trtllm.enable_attention_dp",
            attention_ranks,
            "leave --enable-attention-dp out, or --replicas and --router",
        ),
        given => (
            "cluster.data_parallel_size",
            judge.required("cluster.data_parallel_size", given?, (1, REPLICAS_MAX)),
            "give either --data-parallel-size, or --replicas with --router",
        ),
    };
    if engines <= 1 || judge.is_wrong(&[key]) {
        return None;
    }
    if raw.replicas.is_some() || raw.router.is_some() {
        judge.wrong_help(
            key,
            "does not go with replicas",
            "several data-parallel servers behind a router are not modelled",
            help,
        );
    }
    Some(engines)
}

fn replicas(judge: &mut Judge, raw: &RawCluster, flags: &Flags) -> (u32, Policy) {
    let replicas = match raw.replicas {
        Some(count) => judge.required("cluster.replicas", count, (1, REPLICAS_MAX)),
        None => 1,
    };
    let policy = match replicas > 1 || raw.router.is_some() {
        true => policy(judge, raw, flags),
        false => Policy::RoundRobin,
    };
    (replicas, policy)
}

/// No two failures of a replica follow one another faster on average: each is an event, and a run of many is all events.
const OUTAGE_PERIOD_MIN_S: f64 = 1e-3;

fn outages(judge: &mut Judge, raw: &RawCluster) -> Option<Outages> {
    let (between, recovery) = (
        "cluster.mean_time_between_failures",
        "cluster.mean_time_to_recovery",
    );
    match (&raw.mean_time_between_failures, &raw.mean_time_to_recovery) {
        (None, None) => None,
        (Some(up), Some(down)) => {
            let mean_up_s = judge.span(between, up, false)?.seconds();
            let mean_down_s = judge.span(recovery, down, false)?.seconds();
            if mean_up_s + mean_down_s < OUTAGE_PERIOD_MIN_S {
                judge.wrong_help(
                    between,
                    "and the mean time to recovery must be 1 ms together at least",
                    format!(
                        "a replica would fail {:.0} times a second",
                        1.0 / (mean_up_s + mean_down_s)
                    ),
                    "servers fail hours or days apart, and a restart takes a minute: \"12 h\" and \"60 s\"",
                );
                return None;
            }
            Some(Outages {
                mean_up_s,
                mean_down_s,
            })
        }
        (Some(_), None) => {
            judge.wrong_help(
                between,
                "needs a mean time to recovery",
                "given alone",
                "add --mean-time-to-recovery",
            );
            None
        }
        (None, Some(_)) => {
            judge.wrong_help(
                recovery,
                "needs a mean time between failures",
                "given alone",
                "add --mean-time-between-failures",
            );
            None
        }
    }
}

/// The events in order of time, where that is equal in that of the file, each with its number there.
fn changes(judge: &mut Judge, events: &[RawReplicaEvent], replicas: u32) -> Vec<(usize, Change)> {
    let mut changes: Vec<(usize, Change)> = events
        .iter()
        .enumerate()
        .filter_map(|(index, event)| Some((index, change(judge, index, event, replicas)?)))
        .collect();
    changes.sort_by_key(|(_, change)| change.at);
    changes
}

/// Whether replicas take requests, over the events in order: one that leaves a replica as it is was meant otherwise.
fn check_effects(judge: &mut Judge, raw: &RawCluster, changes: &[(usize, Change)]) {
    if raw.mean_time_between_failures.is_some() || raw.autoscale.is_some() {
        // Replicas come and go by themselves, too.
        return;
    }
    let mut states: BTreeMap<u32, ChangeKind> = BTreeMap::new();
    for (index, change) in changes {
        let first = !states.contains_key(&change.replica);
        let before = states.insert(change.replica, change.kind);
        let is_down = before == Some(ChangeKind::Fail);
        let why = match change.kind {
            ChangeKind::Up if !first && before == Some(ChangeKind::Up) => "it is up already",
            ChangeKind::Drain if before == Some(ChangeKind::Drain) => "it drains already",
            ChangeKind::Drain | ChangeKind::Fail if is_down => "it has failed before",
            ChangeKind::Up if first => {
                let (replica, at) = (change.replica, change.at.seconds());
                judge.notes.push(format!(
                    "replica {replica} is down until {at} s: the first of its events is `up`, and it never failed before"
                ));
                continue;
            }
            _ => continue,
        };
        let key = format!("cluster.events.{index}.kind");
        judge.wrong_help(&key, "has no effect", why, "leave the event out");
    }
}

fn change(judge: &mut Judge, index: usize, event: &RawReplicaEvent, replicas: u32) -> Option<Change> {
    let key = |name: &str| format!("cluster.events.{index}.{name}");
    let (Some(at), Some(replica), Some(kind)) = (&event.at, event.replica, event.kind) else {
        // What is missing may be what was cut out for its own mistake.
        if judge.is_wrong(&[&format!("cluster.events.{index}")]) {
            return None;
        }
        judge.wrong_help(
            &format!("cluster.events.{index}"),
            "is not whole",
            "an event has `at`, `replica` and `kind`",
            "write { at = \"60 s\", replica = 0, kind = \"fail\" }",
        );
        return None;
    };
    if replica.0 >= u64::from(replicas) {
        judge.wrong(
            &key("replica"),
            "is no replica",
            format!("there are {replicas}, numbered from 0"),
        );
        return None;
    }
    Some(Change {
        at: judge.span(&key("at"), at, true)?,
        replica: replica.0 as u32,
        kind: match kind {
            RawReplicaChange::Fail => ChangeKind::Fail,
            RawReplicaChange::Up => ChangeKind::Up,
            RawReplicaChange::Drain => ChangeKind::Drain,
        },
    })
}
