//! Replicas that come and go with the load, as they are written.

use super::document::Source;
use super::judge::Judge;
use super::raw::{RawAutoscale, RawReplicaChange, RawReplicaEvent, RawSignal};
use crate::cluster::{Autoscale, Signal};
use crate::quantity::parse_duration;
use crate::units::Picos;

/// Between two looks at least: vLLM's engines publish their loads every 100 ms.
const SHORTEST_INTERVAL: Picos = Picos(100_000_000_000);

/// Resolves an autoscaler of a pool that has `replicas` at first and whose first is `first`; its members are as many as
/// there may ever be.
pub(super) fn resolve(judge: &mut Judge, raw: &RawAutoscale, first: u32, replicas: u32) -> Autoscale {
    let key = |name: &str| format!("cluster.autoscale.{name}");
    let source = |why: &str| Source::Assumption(why.to_string());
    let least = judge.count(
        &key("min_replicas"),
        raw.min_replicas,
        (1, super::cluster::REPLICAS_MAX),
        1,
        source("one must be there to be asked"),
    );
    let most = match raw.max_replicas {
        Some(most) => judge.required(&key("max_replicas"), most, (1, super::cluster::REPLICAS_MAX)),
        None => {
            let help = "write max_replicas = 8 in it";
            judge.wrong_help("cluster.autoscale", "has no end", "no max_replicas", help);
            replicas
        }
    };
    if least > most && !judge.is_wrong(&["cluster.autoscale"]) {
        let label = format!("{most}, and min_replicas is {least}");
        judge.wrong(&key("max_replicas"), "is below min_replicas", label);
    } else if !(least..=most).contains(&replicas)
        && !judge.is_wrong(&["cluster.autoscale", "cluster.replicas"])
    {
        let label = format!("replicas is {replicas}, and they lie between {least} and {most}");
        judge.wrong(&key("max_replicas"), "leaves no room for those at first", label);
    }
    let signal = match raw.signal.unwrap_or(RawSignal::InFlight) {
        RawSignal::InFlight => Signal::InFlight,
        RawSignal::Waiting => Signal::Waiting,
        RawSignal::KvUsage => Signal::KvUsage,
    };
    if raw.signal.is_none() {
        judge.assume(
            &key("signal"),
            "in_flight".to_string(),
            source("what a gateway knows by itself"),
        );
    }
    let target = raw.target.unwrap_or_else(|| {
        let help = "write target = 32.0: the signal's value for each replica that is aimed at";
        judge.wrong_help("cluster.autoscale", "aims at nothing", "no target", help);
        1.0
    });
    let must = if signal == Signal::KvUsage {
        "must be above 0 and below 1"
    } else {
        "must be above 0"
    };
    judge.number(
        &key("target"),
        target,
        |target| target > 0.0 && (signal != Signal::KvUsage || target < 1.0),
        must,
    );
    let mut duration = |name: &str, given: &Option<_>, default: &str, why: &str, may_be_zero| match given {
        Some(text) => judge.duration(&key(name), text, may_be_zero),
        None => {
            judge.assume(&key(name), default.to_string(), source(why));
            parse_duration(default).ok()
        }
    };
    let hpa = "default of Kubernetes' autoscaler";
    let interval = duration("interval", &raw.interval, "15 s", hpa, false);
    let startup = duration(
        "startup_delay",
        &raw.startup_delay,
        "60 s",
        "a small model's load and start",
        true,
    );
    let scale_in_delay = duration("scale_in_delay", &raw.scale_in_delay, "300 s", hpa, true);
    if interval.is_some_and(|interval| interval < SHORTEST_INTERVAL) {
        let help = "engines report every 100 ms at most";
        judge.wrong_help(
            &key("interval"),
            "must be at least 100 ms",
            "nothing new is seen so soon",
            help,
        );
    }
    let most = most.max(replicas);
    Autoscale {
        members: (first..first + most).collect(),
        at_first: replicas,
        least: least.min(most),
        signal,
        target,
        interval: interval.unwrap_or(Picos(1)),
        startup: startup.unwrap_or(Picos::ZERO),
        scale_in_delay: scale_in_delay.unwrap_or(Picos::ZERO),
    }
}

/// A replica that the autoscaler decides about is not told to drain or to come up by hand; it may fail.
pub(super) fn check_events(judge: &mut Judge, events: &[RawReplicaEvent], scalers: &[Autoscale]) {
    for (index, event) in events.iter().enumerate() {
        let is_scaled = |scaler: &Autoscale| {
            let replica = event.replica.map(|replica| replica.0);
            scaler
                .members
                .iter()
                .any(|&member| Some(u64::from(member)) == replica)
        };
        let is_order = matches!(event.kind, Some(RawReplicaChange::Drain | RawReplicaChange::Up));
        if is_order && scalers.iter().any(is_scaled) {
            judge.wrong(
                &format!("cluster.events.{index}.kind"),
                "is the autoscaler's to decide",
                "this replica is autoscaled; it can only fail",
            );
        }
    }
}
