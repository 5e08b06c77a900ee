//! `enable_attention_dp` (TR-9 to TR-17): each GPU of `--tp_size` is a rank with attention, dense layers and requests of its own, and all share
//! the routed experts. `max_batch_size`, `max_num_tokens` and the KV cache are each rank's.
//!
//! Left out, and refused by name: models without experts, whose ranks would step together for nothing but their loop; `max_utilization`, under
//! which a rank may pause everybody it has.

use super::profile::TrtllmProfile;
use crate::cluster::{AttentionDp, Balance};
use crate::config::judge::Judge;
use crate::config::raw::RawScenario;
use crate::config::scalar::Count;
use crate::config::version::EngineKind;
use crate::engine::trtllm::CapacityPolicy;
use crate::model::ModelShape;
use crate::units::FLAG_TOKENS_MAX as STEPS_MAX;

const KEY: &str = "trtllm.enable_attention_dp";
const BALANCE: &str = "trtllm.attention_dp_enable_balance";
const TIMEOUT: &str = "trtllm.attention_dp_timeout_iters";
const BATCHING: &str = "trtllm.attention_dp_batching_wait_iters";

/// Ranks with attention of their own that the flags ask for; 1 without them.
pub(in crate::config) fn asked(raw: &RawScenario) -> u32 {
    let is_asked = raw.engine.kind() == EngineKind::Trtllm && raw.trtllm.enable_attention_dp == Some(true);
    match raw.cluster.tensor_parallel_size {
        Some(gpus) if is_asked => (gpus.0 as u32).max(1),
        _ => 1,
    }
}

/// How they step together, judged; `None` where there is one.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    profile: &TrtllmProfile,
    model: Option<&ModelShape>,
    (max_batch_size, pads, policy): (u32, bool, CapacityPolicy),
) -> Option<AttentionDp> {
    let (flags, defaults) = (&raw.trtllm, &profile.defaults);
    let asked_for = flags.enable_attention_dp;
    let is_on = judge.take(KEY, asked_for, defaults.enable_attention_dp, profile.source());
    let ranks = asked(raw);
    if !is_on || ranks < 2 {
        if is_on {
            judge.ignore("enable_attention_dp has no effect on one GPU (--tp-size)".to_string());
        }
        let beside = [
            (BALANCE, flags.attention_dp_enable_balance.is_some()),
            (TIMEOUT, flags.attention_dp_timeout_iters.is_some()),
            (BATCHING, flags.attention_dp_batching_wait_iters.is_some()),
        ];
        ignore(
            judge,
            &beside,
            "has no effect without enable_attention_dp on several GPUs",
        );
        return None;
    }
    if model.is_some_and(|model| !model.has_experts()) {
        judge.wrong_help(
            KEY,
            "is modelled of models with experts only",
            "this one has no experts that its ranks could share",
            format!("--replicas {ranks} simulates {ranks} separate servers, which is what its ranks are but for one loop"),
        );
    }
    judge.refuse_given(
        &[(
            "cluster.data_parallel_size",
            raw.cluster
                .data_parallel_size
                .is_some_and(|engines| engines.0 > 1),
        )],
        "does not go with enable_attention_dp",
        "its ranks are the GPUs of the tensor-parallel size",
        "leave it out",
    );
    if raw
        .cluster
        .data_parallel_size
        .is_some_and(|engines| engines.0 == 1)
    {
        judge.ignore("data_parallel_size has no effect beside enable_attention_dp".to_string());
    }
    if policy == CapacityPolicy::MaxUtilization {
        judge.wrong_help(
            "trtllm.capacity_scheduler_policy",
            "max_utilization is not modelled beside enable_attention_dp",
            "what other ranks do where one pauses everybody it has is not known",
            "leave one of them out",
        );
    }
    Some(AttentionDp {
        max_batch_size,
        pads,
        balance: balance(judge, raw, profile),
    })
}

/// For how long prompts wait for those of other ranks.
fn balance(judge: &mut Judge, raw: &RawScenario, profile: &TrtllmProfile) -> Option<Balance> {
    let (flags, defaults) = (&raw.trtllm, &profile.defaults);
    let given = flags.attention_dp_enable_balance;
    let steps = [
        (TIMEOUT, flags.attention_dp_timeout_iters.is_some()),
        (BATCHING, flags.attention_dp_batching_wait_iters.is_some()),
    ];
    if !judge.take(
        BALANCE,
        given,
        defaults.attention_dp_enable_balance,
        profile.source(),
    ) {
        ignore(judge, &steps, "has no effect without attention_dp_enable_balance");
        return None;
    }
    let mut count = |key, given: Option<Count>, default| {
        judge.count(key, given, (0, STEPS_MAX), default, profile.source())
    };
    let timeout_iters = count(
        TIMEOUT,
        flags.attention_dp_timeout_iters,
        defaults.attention_dp_timeout_iters,
    );
    let batching_wait_iters = count(
        BATCHING,
        flags.attention_dp_batching_wait_iters,
        defaults.attention_dp_batching_wait_iters,
    );
    judge.notes.push(format!(
        "prompts wait for up to {timeout_iters} steps until every rank has some, and {batching_wait_iters} more for others to come \
         (attention_dp_config): with fewer requests than ranks each first token is that much later"
    ));
    Some(Balance {
        timeout_iters,
        batching_wait_iters,
    })
}

fn ignore(judge: &mut Judge, keys: &[(&str, bool)], why: &str) {
    for (key, is_given) in keys {
        if *is_given {
            let name = key.trim_start_matches("trtllm.");
            judge.ignore(format!("{name} {why}"));
        }
    }
}
