//! Routers and their options.

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawCluster, RawRouter};
use super::scalar::Duration;
use super::serving::Flags;
use crate::cluster::Group;
use crate::cluster::router::{CacheAware, KvEvents, Overlap, Policy};
use crate::units::Picos;

/// The router of a pool: its own, the scenario's, or none in particular.
pub(super) fn policy(judge: &mut Judge, raw: &RawCluster, flags: &Flags) -> Policy {
    match raw.router {
        Some(router) => routed(judge, raw, router, flags),
        None => {
            let source = Source::Assumption("what most load balancers do".to_string());
            judge.assume("cluster.router", "round_robin".to_string(), source);
            Policy::RoundRobin
        }
    }
}

/// The router that was asked for, of this server's flags.
fn routed(judge: &mut Judge, raw: &RawCluster, router: RawRouter, flags: &Flags) -> Policy {
    match router {
        RawRouter::RoundRobin => Policy::RoundRobin,
        RawRouter::Random => Policy::Random,
        RawRouter::LeastRequests => Policy::LeastRequests,
        RawRouter::LeastTokens => Policy::LeastTokens,
        RawRouter::PowerOfTwo => Policy::PowerOfTwo,
        RawRouter::SessionAffinity => Policy::SessionAffinity,
        RawRouter::PrefixHash => Policy::PrefixHash,
        RawRouter::CacheAware => cache_aware(judge, raw),
        RawRouter::KvEvents => kv_events(judge, raw, flags),
        RawRouter::VllmDataParallel => {
            let balancer = flags.data_parallel_balancer();
            if !matches!(balancer, Policy::VllmDataParallel(_)) {
                let help = "choose another router; SGLang's ranks share requests by --dp-size and --load-balance-method";
                judge.wrong_help(
                    "cluster.router",
                    "is vLLM's",
                    "this engine has no such balancer",
                    help,
                );
            }
            balancer
        }
    }
}

fn cache_aware(judge: &mut Judge, raw: &RawCluster) -> Policy {
    let source = || Source::Assumption("default of sglang_router".to_string());
    let options = CacheAware::default();
    let key = "cluster.cache_threshold";
    let cache_threshold = judge.take(key, raw.cache_threshold, options.cache_threshold, source());
    judge.fraction(key, cache_threshold, true, true);
    let balance_abs_threshold = judge.count(
        "cluster.balance_abs_threshold",
        raw.balance_abs_threshold,
        (0, 1 << 30),
        options.balance_abs_threshold.into(),
        source(),
    );
    let key = "cluster.balance_rel_threshold";
    let balance_rel_threshold = judge.take(
        key,
        raw.balance_rel_threshold,
        options.balance_rel_threshold,
        source(),
    );
    judge.number(
        key,
        balance_rel_threshold,
        |factor| factor >= 1.0,
        "must be at least 1",
    );
    Policy::CacheAware(CacheAware {
        cache_threshold,
        balance_abs_threshold,
        balance_rel_threshold,
        ..options
    })
}

fn kv_events(judge: &mut Judge, raw: &RawCluster, flags: &Flags) -> Policy {
    let key = "cluster.overlap_weight";
    let source = Source::Assumption("default of Dynamo's router".to_string());
    let overlap_weight = judge.take(
        key,
        raw.overlap_weight,
        KvEvents::default().overlap_weight,
        source,
    );
    judge.number(key, overlap_weight, |weight| weight >= 0.0, "must be at least 0");
    let key = "cluster.use_kv_events";
    let source = Source::Assumption("default of Dynamo's router".to_string());
    let overlap = if judge.take(key, raw.use_kv_events, true, source) {
        if !flags.publishes_kv_events() {
            let help = "add --use-kv-events=false: the router then goes by what it has sent where";
            let label = "this engine publishes no KV events";
            judge.wrong_help("cluster.router", "needs KV events", label, help);
        }
        let why = "1 to 10 ms are usual, none is measured";
        let latency = delay(
            judge,
            "cluster.kv_event_latency",
            raw.kv_event_latency.as_ref(),
            (Overlap::LATENCY, why),
        );
        Overlap::Events { latency }
    } else {
        let why = "default of Dynamo's router";
        let ttl = delay(
            judge,
            "cluster.router_ttl",
            raw.router_ttl.as_ref(),
            (Overlap::TTL, why),
        );
        Overlap::Approximate { ttl }
    };
    Policy::KvEvents(KvEvents {
        overlap_weight,
        overlap,
    })
}

/// A time that may be zero, or its default and where that is from.
fn delay(judge: &mut Judge, key: &str, given: Option<&Duration>, (default, why): (Picos, &str)) -> Picos {
    if let Some(text) = given {
        return judge.duration(key, text, true).unwrap_or_default();
    }
    let text = match default.seconds() {
        seconds if seconds >= 1.0 => format!("{seconds} s"),
        seconds => format!("{} ms", seconds * 1e3),
    };
    judge.assume(key, text, Source::Assumption(why.to_string()));
    default
}

/// An option of a router that is not the one in use would be ignored.
pub(super) fn refuse_foreign_options(judge: &mut Judge, raw: &RawCluster, groups: &[Group]) {
    let any = |is: fn(&Policy) -> bool| groups.iter().any(|group| is(&group.policy));
    let is_kv_events = any(|policy| matches!(policy, Policy::KvEvents(_)));
    let is_cache_aware = any(|policy| matches!(policy, Policy::CacheAware(_)));
    let of_cache_aware = [
        ("cluster.cache_threshold", raw.cache_threshold.is_some()),
        (
            "cluster.balance_abs_threshold",
            raw.balance_abs_threshold.is_some(),
        ),
        (
            "cluster.balance_rel_threshold",
            raw.balance_rel_threshold.is_some(),
        ),
    ];
    let of_kv_events = [
        ("cluster.overlap_weight", raw.overlap_weight.is_some()),
        ("cluster.use_kv_events", raw.use_kv_events.is_some()),
        ("cluster.kv_event_latency", raw.kv_event_latency.is_some()),
        ("cluster.router_ttl", raw.router_ttl.is_some()),
    ];
    let mut refuse = |owner: &str, options: &[(&str, bool)]| {
        let label = format!("only the router {owner} has it");
        let help = format!("add --router {owner}, or leave it out");
        judge.refuse_given(options, "has no effect", &label, &help);
    };
    if !is_cache_aware {
        refuse("cache_aware", &of_cache_aware);
    }
    if !is_kv_events {
        refuse("kv_events", &of_kv_events);
    } else {
        refuse_idle_time(judge, raw);
    }
}

/// Of the two times of the router that follows KV events each is for one way of knowing.
fn refuse_idle_time(judge: &mut Judge, raw: &RawCluster) {
    let (is_given, name, when, other) = match raw.use_kv_events {
        Some(false) => (
            raw.kv_event_latency.is_some(),
            "kv_event_latency",
            "without KV events",
            "true",
        ),
        _ => (raw.router_ttl.is_some(), "router_ttl", "with KV events", "false"),
    };
    if is_given {
        judge.wrong_help(
            &format!("cluster.{name}"),
            "has no effect",
            format!("the router runs {when}"),
            format!("add --use-kv-events={other}, or leave it out"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::resolve_served;
    use crate::config::{Diagnostics, Resolved};

    fn judged(cluster: &str, engine: &str) -> Result<Resolved, Diagnostics> {
        let cluster = format!("replicas = 2\n{cluster}");
        let engine = format!("max_model_len = 4096\n{engine}");
        resolve_served("meta-llama/Llama-3.1-8B-Instruct", &cluster, &engine)
    }

    fn overlap(cluster: &str, engine: &str) -> (Overlap, Vec<String>) {
        let resolved = judged(cluster, engine).unwrap_or_else(|problems| panic!("{problems:?}"));
        let Policy::KvEvents(options) = resolved.scenario.cluster.groups[0].policy else {
            panic!("another router");
        };
        let assumed = resolved
            .assumptions()
            .map(|value| format!("{} = {}", value.key, value.value));
        (options.overlap, assumed.collect())
    }

    #[test]
    fn a_router_may_be_spelt_with_hyphens_on_the_command_line() {
        use clap::ValueEnum;
        for router in RawRouter::value_variants() {
            let name = router.to_possible_value().unwrap();
            let hyphens = name.get_name().replace('_', "-");
            assert_eq!(RawRouter::from_str(&hyphens, false), Ok(*router));
        }
    }

    #[test]
    fn the_latency_of_kv_events_is_told_where_it_is_assumed() {
        let (events, assumed) = overlap("router = \"kv_events\"", "");
        let latency = Picos(5_000_000_000);
        assert_eq!(events, Overlap::Events { latency });
        assert!(
            assumed.contains(&"cluster.kv_event_latency = 5 ms".to_owned()),
            "{assumed:?}"
        );
        let (events, assumed) = overlap("router = \"kv_events\"\nkv_event_latency = \"0 s\"", "");
        let latency = Picos::ZERO;
        assert_eq!(events, Overlap::Events { latency });
        assert!(
            !assumed.iter().any(|value| value.contains("latency")),
            "{assumed:?}"
        );
        let without = "router = \"kv_events\"\nuse_kv_events = false\nrouter_ttl = \"60 s\"";
        let ttl = Picos(60_000_000_000_000);
        assert_eq!(
            overlap(without, "profile = \"static\"").0,
            Overlap::Approximate { ttl }
        );
    }

    #[test]
    fn what_would_have_no_effect_on_the_router_is_refused() {
        for (cluster, engine) in [
            ("router = \"round_robin\"\nkv_event_latency = \"5 ms\"", ""),
            ("router = \"kv_events\"\nrouter_ttl = \"60 s\"", ""),
            (
                "router = \"kv_events\"\nuse_kv_events = false\nkv_event_latency = \"5 ms\"",
                "",
            ),
            ("router = \"kv_events\"", "profile = \"static\""),
        ] {
            let problems = judged(cluster, engine).map(|_| ()).unwrap_err();
            assert_eq!(problems.0.len(), 1, "{cluster} {engine}: {problems:?}");
        }
    }
}
