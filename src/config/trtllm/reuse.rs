//! Block reuse: on by default, and off where it cannot be modelled.

use super::super::judge::Judge;
use super::super::raw::RawScenario;
use super::profile::TrtllmProfile;
use crate::engine::trtllm::{BlockReuse, CapacityPolicy};

const KEY: &str = "trtllm.enable_block_reuse";
const PARTIAL: &str = "trtllm.enable_partial_reuse";

/// What is reused. Whoever is paused gives blocks back and comes again with other tokens, of which the server's own rule is not known.
pub(super) fn resolve(
    judge: &mut Judge,
    raw: &RawScenario,
    profile: &TrtllmProfile,
    policy: CapacityPolicy,
) -> BlockReuse {
    let (flags, defaults) = (&raw.trtllm, &profile.defaults);
    if policy == CapacityPolicy::MaxUtilization {
        return beside_pauses(
            judge,
            flags.enable_block_reuse.unwrap_or(defaults.enable_block_reuse),
        );
    }
    let reuses = judge.take(
        KEY,
        flags.enable_block_reuse,
        defaults.enable_block_reuse,
        profile.source(),
    );
    let partial = judge.take(
        PARTIAL,
        flags.enable_partial_reuse,
        reuses && defaults.enable_partial_reuse,
        profile.source(),
    );
    match (reuses, partial) {
        (true, true) => BlockReuse::Partial,
        (true, false) => BlockReuse::Whole,
        (false, false) => BlockReuse::Off,
        (false, true) => {
            judge.wrong_help(
                PARTIAL,
                "needs enable_block_reuse",
                "no block is reused",
                "leave one of the two out",
            );
            BlockReuse::Off
        }
    }
}

fn beside_pauses(judge: &mut Judge, is_asked: bool) -> BlockReuse {
    if is_asked {
        judge.wrong_help(
            "trtllm.capacity_scheduler_policy",
            "max_utilization is not modelled with block reuse",
            "what becomes of the blocks of a request that is paused is not known",
            "add --enable-block-reuse=false, or leave the policy out",
        );
    } else {
        judge.given(KEY, false);
    }
    BlockReuse::Off
}
