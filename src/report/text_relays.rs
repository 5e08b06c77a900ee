//! What prefill and decode pools did, in three lines: how busy each was, what the first token waited for, what the links
//! carried.

use super::figures::{count, memory, percent, significant, time};
use crate::analysis::RunResult;
use crate::metrics::{LinkSummary, RelaySummary, Stage};

/// Label and text of each line; none where every replica does both.
pub(super) fn lines(result: &RunResult) -> Vec<(&'static str, String)> {
    let Some(relays) = &result.relays else {
        return Vec::new();
    };
    let ttft_s = relays.ttft_of_clients_s(result.whole.ttft.mean_s());
    let mut lines = vec![("P and D", pools(result, relays))];
    if relays.requests > 0 {
        lines.push(("to token 1", first_token(relays, ttft_s)));
    }
    lines.push(("KV links", links(relays, ttft_s)));
    lines
}

fn pools(result: &RunResult, relays: &RelaySummary) -> String {
    let busy = |prefills: bool| -> f64 {
        let ones = result.by_replica.iter().zip(&relays.links);
        let (mut sum, mut replicas) = (0.0, 0);
        for (replica, _) in ones.filter(|(_, link)| link.prefills == prefills) {
            sum += replica.busy_s / result.whole.duration_s.max(f64::MIN_POSITIVE);
            replicas += 1;
        }
        (sum / f64::from(replicas.max(1))).min(1.0)
    };
    format!(
        "prefill busy {} · decode busy {} · {} blocks held for transfers on average",
        percent(busy(true)),
        percent(busy(false)),
        significant(relays.held_blocks),
    )
}

/// The stages that take time, in order. What clients wait for besides is the way of the token out of the engine.
fn first_token(relays: &RelaySummary, ttft_s: f64) -> String {
    let named = [
        (Stage::PrefillQueue, "queue"),
        (Stage::Prefill, "prefill"),
        (Stage::Forward, "forward"),
        (Stage::DecodeMemory, "decode queue"),
        (Stage::Transfer, "transfer"),
        (Stage::DecodePlace, "decode loop"),
        (Stage::DecodeStep, "decode step"),
    ];
    let stages = named.map(|(stage, name)| (relays.stage_s(stage), name));
    let parts: Vec<String> = stages
        .into_iter()
        .chain([(ttft_s - relays.ttft_s(), "handing on")])
        .filter(|(took, _)| *took > 5e-4 * ttft_s)
        .map(|(took, name)| format!("{name} {}", time(took)))
        .collect();
    format!("{} = {}", time(ttft_s), parts.join(" + "))
}

fn links(relays: &RelaySummary, ttft_s: f64) -> String {
    let most = |prefills: bool, use_of: &dyn Fn(&LinkSummary) -> f64| {
        let of_role = relays.links.iter().filter(|link| link.prefills == prefills);
        of_role.map(use_of).fold(0.0, f64::max)
    };
    let each = relays.bytes as f64 / relays.messages.max(1) as f64;
    format!(
        "{} messages of {}, {} in the median (p99 {}, mean {}) · out {} · in {} · {} of TTFT",
        count(relays.messages),
        memory(each),
        time(relays.message_s[1]),
        time(relays.message_s[2]),
        time(relays.message_s[0]),
        percent(most(true, &|link| link.sent.utilisation)),
        percent(most(false, &|link| link.received.utilisation)),
        percent(relays.stage_s(Stage::Transfer) / ttft_s.max(f64::MIN_POSITIVE)),
    )
}
