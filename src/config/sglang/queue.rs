//! In which order SGLang's queue is served.

use super::profile::SglangProfile;
use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::{RawQueuePolicy, RawSglang};
use crate::engine::sglang::{PriorityRule, QueuePolicy};

/// Largest difference of priorities that is taken seriously: 2³⁰.
const VALUES_MAX: u64 = 1 << 30;

/// `schedule_policy`.
pub(super) fn policy(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile) -> QueuePolicy {
    let name = |policy: RawQueuePolicy| {
        let value = toml::Value::try_from(policy).expect("a unit variant is a string");
        value.as_str().unwrap_or_default().to_string()
    };
    let default = profile.defaults.schedule_policy;
    let policy = raw.schedule_policy.unwrap_or(default);
    judge.take(
        "sglang.schedule_policy",
        raw.schedule_policy.map(name),
        name(default),
        Source::Profile(profile.profile.clone()),
    );
    match policy {
        RawQueuePolicy::Fcfs => QueuePolicy::Fcfs,
        RawQueuePolicy::Lpm => QueuePolicy::Lpm,
        RawQueuePolicy::DfsWeight => QueuePolicy::DfsWeight,
        RawQueuePolicy::Lof => QueuePolicy::Lof,
        RawQueuePolicy::Random => QueuePolicy::Random,
    }
}

/// `enable_priority_scheduling` and what goes with it.
pub(super) fn priority(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    policy: QueuePolicy,
) -> Option<PriorityRule> {
    let key = "sglang.enable_priority_scheduling";
    let source = Source::Profile(profile.profile.clone());
    let defaults = &profile.defaults;
    let is_enabled = judge.take(
        key,
        raw.enable_priority_scheduling,
        defaults.enable_priority_scheduling,
        source.clone(),
    );
    let low_values_first = raw.schedule_low_priority_values_first;
    let threshold = raw.priority_scheduling_preemption_threshold;
    if !is_enabled {
        for (key, is_given) in [
            (
                "sglang.schedule_low_priority_values_first",
                low_values_first.is_some(),
            ),
            (
                "sglang.priority_scheduling_preemption_threshold",
                threshold.is_some(),
            ),
        ] {
            if is_given {
                let help = "add --enable-priority-scheduling";
                judge.wrong_help(
                    key,
                    "matters with priorities only",
                    "nothing is served by priority",
                    help,
                );
            }
        }
        return None;
    }
    if !matches!(policy, QueuePolicy::Fcfs | QueuePolicy::Lof) {
        let help = "leave --schedule-policy out, or write fcfs or lof";
        judge.wrong_help(
            key,
            "goes with the policies fcfs and lof only",
            "another policy",
            help,
        );
    }
    Some(PriorityRule {
        low_values_first: judge.take(
            "sglang.schedule_low_priority_values_first",
            low_values_first,
            defaults.schedule_low_priority_values_first,
            source.clone(),
        ),
        preemption_threshold: i64::from(judge.count(
            "sglang.priority_scheduling_preemption_threshold",
            threshold,
            (0, VALUES_MAX),
            defaults.priority_scheduling_preemption_threshold,
            source,
        )),
    })
}
