//! What is given and cannot act beside the rest: a router of one replica, a limit that nothing reaches.
//!
//! Left out: what no engine of the input has, which is refused or named where it is read. Law: what is told here changes no run.

use super::document::Source;
use super::judge::Judge;
use super::raw::RawScenario;
use crate::cluster::ClusterSpec;
use crate::sim::Pool;
use crate::workload::{Arrivals, WorkloadSpec};

/// A sentence for each.
pub(super) fn note(
    judge: &mut Judge,
    raw: &RawScenario,
    (pools, cluster, spec): (&[Pool], &ClusterSpec, &WorkloadSpec),
) {
    let idle = [
        router(judge, raw, cluster),
        scaler(cluster),
        graphs(judge, raw),
        pool_size(judge, raw),
        drafts(raw),
        limit(judge, spec),
        unread_priorities(pools, spec),
    ];
    idle.into_iter()
        .flatten()
        .for_each(|sentence| judge.ignore(sentence));
    judge.notes.extend(one_priority(judge, pools, spec));
}

/// Whether the user gave a value, rather than a default or a file that spells one out.
fn is_given(judge: &Judge, key: &str) -> bool {
    let is_assumed = |source: Source| matches!(source, Source::Assumption(_) | Source::Profile(_));
    let was_assumed = judge
        .provenance
        .iter()
        .any(|value| value.key == key && value.is_assumed());
    !was_assumed
        && judge
            .document
            .source(key)
            .is_some_and(|source| !is_assumed(source))
}

fn router(judge: &Judge, raw: &RawScenario, cluster: &ClusterSpec) -> Option<String> {
    if cluster.groups.iter().any(|group| group.members.len() != 1) {
        return None;
    }
    let of_pools = (0..raw.cluster.pools.len()).map(|pool| format!("cluster.pools.{pool}.router"));
    let mut keys = std::iter::once("cluster.router".to_owned()).chain(of_pools);
    let key = keys.find(|key| is_given(judge, key))?;
    let name = judge.document.get(&key)?.as_str()?;
    let why = match cluster.groups.len() {
        1 => "there is one replica",
        _ => "there is one replica for each kind of request",
    };
    Some(format!(
        "router = {name} {IDLE}: {why}, to which every router sends"
    ))
}

/// What is said of a router that cannot act.
const IDLE: &str = "has no effect";

/// Whether a sentence says that the router of one replica cannot act, which it does where others are put beside that one.
pub(super) fn is_on_router(sentence: &str) -> bool {
    sentence.starts_with("router = ") && sentence.contains(IDLE)
}

fn scaler(cluster: &ClusterSpec) -> Option<String> {
    let mut scalers = cluster.scalers.iter();
    let still = scalers.find(|scaler| scaler.least as usize == scaler.members.len())?;
    Some(format!(
        "autoscale has no effect: min_replicas and max_replicas are both {}",
        still.least
    ))
}

fn graphs(judge: &Judge, raw: &RawScenario) -> Option<String> {
    let sizes = ["max_cudagraph_capture_size", "cudagraph_capture_sizes"];
    let is_eager = raw.engine.enforce_eager == Some(true);
    let given = sizes
        .iter()
        .find(|size| is_given(judge, &format!("engine.{size}")));
    let given = given.filter(|_| is_eager)?;
    Some(format!(
        "{given} has no effect: with enforce_eager no graph is captured"
    ))
}

/// vLLM 0.33 `CacheConfig.kv_cache_memory_bytes`: "it ignores gpu_memory_utilization".
fn pool_size(judge: &Judge, raw: &RawScenario) -> Option<String> {
    let is_sized = raw.engine.kv_cache_memory_bytes.is_some();
    (is_sized && is_given(judge, "engine.gpu_memory_utilization")).then(|| {
        "gpu_memory_utilization has no effect: kv_cache_memory_bytes says how large the KV cache is"
            .to_owned()
    })
}

fn drafts(raw: &RawScenario) -> Option<String> {
    let config = raw.engine.speculative_config.as_ref()?;
    let is_off = config.num_speculative_tokens.is_some_and(|drafts| drafts.0 == 0);
    let says_more = config.method.is_some() || config.model.is_some() || config.acceptance_rate.is_some();
    (is_off && says_more).then(|| {
        "speculative_config has no effect: with num_speculative_tokens = 0 nothing is drafted".to_owned()
    })
}

/// A user has one request in flight at most.
fn limit(judge: &Judge, spec: &WorkloadSpec) -> Option<String> {
    let Arrivals::Users { users, .. } = spec.arrivals else {
        return None;
    };
    // A conversation with subagents has several.
    if spec.has_conversations() {
        return None;
    }
    let limit = spec.client.max_concurrency?;
    let is_idle = u64::from(limit) >= u64::from(users) && is_given(judge, "workload.client.max_concurrency");
    is_idle.then(|| {
        format!("max_concurrency has no effect: {users} users have no more than {users} requests in flight")
    })
}

/// Priorities of requests, each once; `None` where a trace may bring its own.
fn priorities(spec: &WorkloadSpec) -> Option<usize> {
    let mut all: Vec<i64> = spec.classes.iter().map(|class| class.priority).collect();
    for part in spec.parts() {
        if matches!(part.arrivals, Arrivals::Replay { .. }) {
            return None;
        }
        all.extend(part.client.priorities.iter().map(|(priority, _)| *priority));
        all.extend(part.classes.iter().map(|class| class.priority));
    }
    all.sort_unstable();
    all.dedup();
    Some(all.len())
}

fn unread_priorities(pools: &[Pool], spec: &WorkloadSpec) -> Option<String> {
    let are_unread = pools.iter().all(|pool| pool.engine.serves_in_order());
    (are_unread && priorities(spec)? > 1)
        .then(|| "the requests' priority has no effect: they are served in order of arrival".to_owned())
}

/// Requests of equal priority go in order of arrival, which is not to say that nothing changes: who is preempted may.
fn one_priority(judge: &Judge, pools: &[Pool], spec: &WorkloadSpec) -> Option<String> {
    let key = "engine.scheduling_policy";
    let is_asked = judge.document.get(key).and_then(toml::Value::as_str) == Some("priority");
    let is_served = pools.iter().any(|pool| !pool.engine.serves_in_order());
    (is_asked && is_served && priorities(spec)? <= 1).then(|| {
        "scheduling_policy = priority: all requests have the same priority, so they are served in order of arrival"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::{MACHINE, TRAFFIC, said};

    fn told(flags: &str) -> String {
        said(&format!("{MACHINE} {TRAFFIC} {flags}"))
    }

    #[test]
    fn what_cannot_act_is_told_and_what_can_is_not() {
        for (flags, sentence, acting) in [
            (
                "--router power_of_two",
                "router = power_of_two has no effect: there is one replica, to which every router sends",
                "--router power_of_two --replicas 2",
            ),
            (
                "--enforce-eager --max-cudagraph-capture-size 64",
                "max_cudagraph_capture_size has no effect: with enforce_eager no graph is captured",
                "--max-cudagraph-capture-size 64",
            ),
            (
                "--kv-cache-memory-bytes 20G --gpu-memory-utilization 0.8",
                "gpu_memory_utilization has no effect: kv_cache_memory_bytes says how large",
                "--kv-cache-memory-bytes 20G",
            ),
            (
                "--spec-tokens 0 --acceptance-rate 0.7",
                "speculative_config has no effect: with num_speculative_tokens = 0 nothing is drafted",
                "--spec-tokens 0",
            ),
            (
                "--scheduling-policy priority",
                "scheduling_policy = priority: all requests have the same priority",
                "--scheduling-policy fcfs",
            ),
        ] {
            let idle = told(flags);
            assert!(idle.contains(sentence), "{flags}: {idle}");
            assert!(!told(acting).contains(sentence), "{acting}");
        }
    }

    #[test]
    fn gaps_that_there_are_none_of_have_no_shape() {
        let at = |rate: &str| {
            said(&format!(
                "{MACHINE} --input-len 128 --output-len 16 --num-prompts 20 --burstiness 0.5 --request-rate {rate}"
            ))
        };
        let sentence = "--burstiness has no effect: everything is sent at once";
        assert!(at("inf").contains(sentence) && !at("4").contains(sentence));
    }

    #[test]
    fn a_limit_that_users_cannot_reach_is_told() {
        let users = |limit: u32| {
            said(&format!(
                "{MACHINE} --input-len 128 --output-len 16 --users 4 --think-time 1s --max-concurrency {limit}"
            ))
        };
        let sentence = "max_concurrency has no effect: 4 users have no more than 4 requests in flight";
        assert!(users(4).contains(sentence) && !users(3).contains("has no effect"));
    }
}
