//! In which order SGLang's queue is served.

use super::profile::{Behaviour, SglangProfile};
use super::vision::Seeing;
use crate::config::judge::Judge;
use crate::config::raw::{RawQueuePolicy, RawSglang};
use crate::engine::sglang::{PriorityRule, QueuePolicy};

/// Largest difference of priorities that is taken seriously: 2³⁰.
const VALUES_MAX: u64 = 1 << 30;

/// Longest interval that is taken seriously.
const INTERVAL_MAX: u64 = 1 << 16;

/// Decode rounds between prefill batches of Qwen3-VL on large Hopper cards (`_qwen3vl_hopper_serving_overrides`).
const INTERVAL_OF_QWEN3_VL: u64 = 22;

/// `schedule_policy`.
pub(super) fn policy(judge: &mut Judge, raw: &RawSglang, profile: &SglangProfile) -> QueuePolicy {
    let (key, default) = ("sglang.schedule_policy", profile.defaults.schedule_policy);
    match judge.choose(key, raw.schedule_policy, default, profile.source()) {
        RawQueuePolicy::Fcfs => QueuePolicy::Fcfs,
        RawQueuePolicy::Lpm => QueuePolicy::Lpm,
        RawQueuePolicy::DfsWeight => QueuePolicy::DfsWeight,
        RawQueuePolicy::Lof => QueuePolicy::Lof,
        RawQueuePolicy::Random => QueuePolicy::Random,
        RawQueuePolicy::Priority => refuse(
            judge,
            "is `priority`, which is no policy of SGLang's scheduler",
            "SGLang's parser takes the name, its scheduler stops with `Unknown schedule_policy`",
            "priorities are a flag: --enable-priority-scheduling, with --schedule-policy fcfs or lof",
        ),
        RawQueuePolicy::RoutingKey => refuse(
            judge,
            "is `routing-key`, and requests have no routing keys here",
            "SGLang sends those first whose key runs most often",
            &format!("without keys it is the order of arrival: --schedule-policy fcfs; {KNOWN}"),
        ),
        RawQueuePolicy::Hrrn => refuse(
            judge,
            "is `hrrn`, which is not modelled",
            "hrrn raises a waiting request's priority with the tokens processed meanwhile; no recording confirms how SGLang counts them",
            &format!("lpm looks at the cache without ageing; {KNOWN}"),
        ),
        RawQueuePolicy::ShortestPrefillFirst => refuse(
            judge,
            "is `shortest-prefill-first`, which is not modelled",
            "experimental in SGLang; no recorded schedule shows how it counts and ages what waits",
            KNOWN,
        ),
    }
}

const KNOWN: &str =
    "fcfs, lpm, dfs-weight, lof and random are modelled, priorities by --enable-priority-scheduling";

/// A name that SGLang's parser takes (SG-26) and that is not modelled.
fn refuse(judge: &mut Judge, what: &str, why: &str, help: &str) -> QueuePolicy {
    judge.wrong_help("sglang.schedule_policy", what, why, help);
    QueuePolicy::Fcfs
}

/// `prefill_decode_interval`, a flag since 0.5.23 (SG-11).
pub(super) fn prefill_decode_interval(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    seeing: Option<Seeing>,
) -> u32 {
    let key = "sglang.prefill_decode_interval";
    let source = profile.source();
    let of_model = seeing.is_some_and(|seeing| seeing.is_qwen3_vl_on_hopper);
    let usual = if of_model { INTERVAL_OF_QWEN3_VL } else { 0 };
    let interval = judge.count(key, raw.prefill_decode_interval, (0, INTERVAL_MAX), usual, source);
    if interval > 0 && profile.behaviour == Behaviour::V0_5_4 {
        let help = "--engine sglang@0.5.23 has it";
        judge.wrong_help(
            key,
            "is not a flag of SGLang 0.5.4",
            "prefills come first there",
            help,
        );
    }
    interval
}

/// `enable_priority_scheduling` and what goes with it.
pub(super) fn priority(
    judge: &mut Judge,
    raw: &RawSglang,
    profile: &SglangProfile,
    policy: QueuePolicy,
) -> Option<PriorityRule> {
    let key = "sglang.enable_priority_scheduling";
    let source = profile.source();
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
        judge.refuse_given(
            &[
                (
                    "sglang.schedule_low_priority_values_first",
                    low_values_first.is_some(),
                ),
                (
                    "sglang.priority_scheduling_preemption_threshold",
                    threshold.is_some(),
                ),
            ],
            "matters with priorities only",
            "nothing is served by priority",
            "add --enable-priority-scheduling",
        );
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

#[cfg(test)]
mod tests {
    use crate::config::tests::resolve_served;
    use crate::engine::EngineSpec;
    use crate::engine::sglang::SglangConfig;

    fn resolved(flags: &str) -> Result<SglangConfig, Vec<String>> {
        match resolve_served("Llama-3.1-8B-Instruct", "", flags) {
            Ok(run) => match run.scenario.first_pool().engine.clone() {
                EngineSpec::Sglang(config) => Ok(config),
                other => panic!("{} is not SGLang", other.profile()),
            },
            Err(problems) => Err(problems.0.into_iter().map(|problem| problem.message).collect()),
        }
    }

    #[test]
    fn the_interval_came_after_0_5_4() {
        let flags = |version: &str| {
            format!(
                "profile = \"sglang@{version}\"\n[sglang]\nprefill_decode_interval = 4\nprefill_max_requests = 8"
            )
        };
        let config = resolved(&flags("0.5.23")).unwrap();
        assert_eq!(
            (config.prefill_decode_interval, config.prefill_max_requests),
            (4, Some(8))
        );
        let refused = "`prefill_decode_interval` is not a flag of SGLang 0.5.4";
        assert_eq!(resolved(&flags("0.5.4")), Err(vec![refused.to_string()]));
    }

    #[test]
    fn policies_that_sglang_has_and_this_has_not_are_refused_by_name() {
        for (policy, why) in [
            ("priority", "which is no policy of SGLang's scheduler"),
            ("routing-key", "and requests have no routing keys here"),
            ("hrrn", "which is not modelled"),
            ("shortest-prefill-first", "which is not modelled"),
        ] {
            let flags = format!("profile = \"sglang\"\n[sglang]\nschedule_policy = \"{policy}\"");
            let refused = format!("`schedule_policy` is `{policy}`, {why}");
            assert_eq!(resolved(&flags), Err(vec![refused]), "{policy}");
        }
    }
}
