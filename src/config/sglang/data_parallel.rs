//! Which rank of a data-parallel SGLang server gets a request: `--load-balance-method` (SG-49).

use super::profile::{Behaviour, SglangProfile};
use crate::cluster::router::{Policy, TotalLoad};
use crate::config::judge::Judge;
use crate::config::raw::{RawBalanceMethod, RawCluster, RawSglang};
use crate::engine::sglang::PUBLISH_INTERVAL;
use crate::units::Picos;

const METHOD: &str = "sglang.load_balance_method";
const WATCH: &str = "sglang.load_watch_interval";
const PUBLISH: &str = "sglang.load_snapshot_publish_interval";

/// Seconds from one question to all ranks to the next (0.5.4, `load_watch_interval`).
const WATCH_INTERVAL_S: f64 = 0.1;

/// Who of the ranks gets a request. Where there is one rank only, options say nothing.
pub(super) fn balancer(
    judge: &mut Judge,
    raw: &RawSglang,
    cluster: &RawCluster,
    profile: &SglangProfile,
) -> Policy {
    let is_old = profile.behaviour == Behaviour::V0_5_4;
    refuse_of_other_release(judge, raw, is_old);
    if cluster.data_parallel_size.is_none_or(|ranks| ranks.0 < 2) {
        for (key, is_given) in given(raw) {
            if is_given {
                let name = key.trim_start_matches("sglang.");
                judge.ignore(format!("{name} has no effect without several ranks (--dp-size)"));
            }
        }
        return Policy::RoundRobin;
    }
    let default = match is_old {
        true => RawBalanceMethod::RoundRobin,
        false => RawBalanceMethod::Auto,
    };
    let method = judge.choose(METHOD, raw.load_balance_method, default, profile.source());
    let policy = match method {
        RawBalanceMethod::Auto | RawBalanceMethod::RoundRobin => Policy::RoundRobin,
        RawBalanceMethod::MinimumTokens => {
            let note = "minimum_tokens is round_robin in SGLang 0.5.4, as the server warns";
            judge.notes.push(note.to_string());
            Policy::RoundRobin
        }
        RawBalanceMethod::ShortestQueue => Policy::ShortestQueue {
            watch_interval: watch_interval(judge, raw, profile),
        },
        RawBalanceMethod::TotalRequests => total(judge, raw, profile, TotalLoad::Requests),
        RawBalanceMethod::TotalTokens => total(judge, raw, profile, TotalLoad::Tokens),
        RawBalanceMethod::FollowBootstrapRoom => {
            judge.wrong_help(
                METHOD,
                "is for servers that prefill or decode only",
                "requests have a bootstrap room there only, and data-parallel ranks are not modelled there",
                "auto takes turns",
            );
            Policy::RoundRobin
        }
    };
    note_unused(judge, raw, policy);
    refuse_losses(judge, cluster, policy);
    policy
}

fn given(raw: &RawSglang) -> [(&'static str, bool); 3] {
    [
        (METHOD, raw.load_balance_method.is_some()),
        (WATCH, raw.load_watch_interval.is_some()),
        (PUBLISH, raw.load_snapshot_publish_interval.is_some()),
    ]
}

/// Methods and options that the release which serves does not have.
fn refuse_of_other_release(judge: &mut Judge, raw: &RawSglang, is_old: bool) {
    use RawBalanceMethod::{
        Auto, FollowBootstrapRoom, MinimumTokens, ShortestQueue, TotalRequests, TotalTokens,
    };
    let mut refuse = |key: &str, what: &str| {
        let (here, other, methods) = match is_old {
            true => (
                "0.5.4",
                "0.5.23",
                "round_robin, shortest_queue and minimum_tokens",
            ),
            false => (
                "0.5.23",
                "0.5.4",
                "auto, round_robin, total_requests and total_tokens",
            ),
        };
        judge.wrong_help(
            key,
            &format!("is not {what} of SGLang {here}"),
            format!("it is of {other}"),
            format!("--engine sglang@{other} has it; {here} balances by {methods}"),
        );
    };
    let of_new = [Auto, TotalRequests, TotalTokens, FollowBootstrapRoom];
    let of_old = [ShortestQueue, MinimumTokens];
    let foreign: &[RawBalanceMethod] = if is_old { &of_new } else { &of_old };
    if raw
        .load_balance_method
        .is_some_and(|method| foreign.contains(&method))
    {
        refuse(METHOD, "a method");
    }
    if raw.load_watch_interval.is_some() && !is_old {
        refuse(WATCH, "a flag");
    }
    if raw.load_snapshot_publish_interval.is_some() && is_old {
        refuse(PUBLISH, "a flag");
    }
}

fn watch_interval(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile) -> Picos {
    let source = profile.source();
    let seconds = judge.take(WATCH, raw.load_watch_interval, WATCH_INTERVAL_S, source);
    let is_right = |seconds: f64| (0.001..=3600.0).contains(&seconds);
    judge.number(
        WATCH,
        seconds,
        is_right,
        "must lie between 0.001 and 3600 seconds",
    );
    Picos::from_seconds(seconds.clamp(0.001, 3600.0))
}

fn total(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile, by: TotalLoad) -> Policy {
    let publish_interval = judge.count(
        PUBLISH,
        raw.load_snapshot_publish_interval,
        (1, 1 << 20),
        PUBLISH_INTERVAL.into(),
        profile.source(),
    );
    Policy::TotalLoad { by, publish_interval }
}

/// Intervals of methods that are not in use.
fn note_unused(judge: &mut Judge, raw: &RawSglang, policy: Policy) {
    let unused = [
        (
            raw.load_watch_interval.is_some() && !matches!(policy, Policy::ShortestQueue { .. }),
            "load_watch_interval matters to shortest_queue only",
        ),
        (
            raw.load_snapshot_publish_interval.is_some() && !matches!(policy, Policy::TotalLoad { .. }),
            "load_snapshot_publish_interval matters to total_requests and total_tokens only",
        ),
    ];
    for (is_unused, note) in unused {
        if is_unused {
            judge.ignore(note.to_string());
        }
    }
}

/// The controller goes by what ranks tell, and knows nothing of ranks that come and go.
fn refuse_losses(judge: &mut Judge, cluster: &RawCluster, policy: Policy) {
    if policy == Policy::RoundRobin {
        return;
    }
    judge.refuse_given(
        &cluster.comings_and_goings(),
        "does not go with ranks that are balanced by their loads",
        "the ranks of one SGLang server do not come and go",
        "leave it out, or write replicas with a router instead of data_parallel_size",
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::resolve_served;
    use crate::config::{Diagnostics, Resolved};

    fn judged(engine: &str, cluster: &str, flags: &str) -> Result<Resolved, Diagnostics> {
        let rest = format!("profile = \"{engine}\"\n[sglang]\ncontext_length = 4096\n{flags}");
        resolve_served("meta-llama/Llama-3.1-8B-Instruct", cluster, &rest)
    }

    fn policy(engine: &str, flags: &str) -> Policy {
        let resolved =
            judged(engine, "data_parallel_size = 4", flags).unwrap_or_else(|told| panic!("{told}"));
        resolved.scenario.cluster.groups[0].policy
    }

    const NEW: &str = "sglang@0.5.23";
    const OLD: &str = "sglang@0.5.4";

    #[test]
    fn each_release_has_its_methods() {
        let by = |method: &str| format!("load_balance_method = \"{method}\"");
        for (engine, method) in [
            (NEW, "auto"),
            (NEW, "round_robin"),
            (OLD, "round_robin"),
            (OLD, "minimum_tokens"),
        ] {
            assert_eq!(
                policy(engine, &by(method)),
                Policy::RoundRobin,
                "{engine} {method}"
            );
        }
        assert_eq!(policy(NEW, ""), Policy::RoundRobin);
        let watch_interval = Picos(100_000_000_000);
        assert_eq!(
            policy(OLD, &by("shortest_queue")),
            Policy::ShortestQueue { watch_interval }
        );
        let watch_interval = Picos(500_000_000_000);
        let slower = format!("{}\nload_watch_interval = 0.5", by("shortest_queue"));
        assert_eq!(policy(OLD, &slower), Policy::ShortestQueue { watch_interval });
        for (name, by_load) in [
            ("total_requests", TotalLoad::Requests),
            ("total_tokens", TotalLoad::Tokens),
        ] {
            let expected = Policy::TotalLoad {
                by: by_load,
                publish_interval: 15,
            };
            assert_eq!(policy(NEW, &by(name)), expected);
        }
    }

    #[test]
    fn what_is_of_another_release_or_needs_what_is_not_modelled_is_refused() {
        let four = "data_parallel_size = 4";
        let fails =
            "data_parallel_size = 4\nmean_time_between_failures = \"1 h\"\nmean_time_to_recovery = \"60 s\"";
        for (engine, cluster, flags) in [
            (NEW, four, "load_balance_method = \"shortest_queue\""),
            (NEW, four, "load_balance_method = \"follow_bootstrap_room\""),
            (NEW, four, "load_watch_interval = 0.1"),
            (OLD, four, "load_balance_method = \"total_tokens\""),
            (OLD, four, "load_snapshot_publish_interval = 4"),
            (
                OLD,
                four,
                "load_balance_method = \"shortest_queue\"\nload_watch_interval = 0.0",
            ),
            (NEW, fails, "load_balance_method = \"total_tokens\""),
        ] {
            let told = judged(engine, cluster, flags).map(|_| ()).unwrap_err();
            assert_eq!(told.0.len(), 1, "{engine} {flags}: {told}");
        }
    }

    #[test]
    fn without_several_ranks_it_is_said_to_have_no_effect() {
        let alone =
            judged(NEW, "", "load_balance_method = \"total_tokens\"").unwrap_or_else(|told| panic!("{told}"));
        assert!(
            alone
                .notes
                .iter()
                .any(|note| note.contains("no effect without several ranks"))
        );
    }
}
