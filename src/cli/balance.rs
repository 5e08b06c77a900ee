//! `--why` of prefill and decode pools: what each pool and the links could serve, as arithmetic, and which of them limits.

use super::pools;
use crate::analysis::RunResult;
use crate::analysis::balance::{Balance, Demand, Part};
use crate::cluster::Flow;
use crate::config::Resolved;
use crate::cost::StepLoad;
use crate::metrics::ReplicaSummary;
use crate::quantity::format_bytes;
use crate::report::figures::{bytes_per_s, percent, significant, time};
use crate::sim::{Pool, Role};
use crate::units::Bytes;

/// What a request of a run asked of each part; `None` without roles, or where nobody was served.
pub(super) fn demand(resolved: &Resolved, result: &RunResult) -> Option<Demand> {
    let scenario = &resolved.scenario;
    let spec = scenario.cluster.disaggregation.as_ref()?;
    let relays = result.relays.as_ref()?;
    let pool = |role| scenario.pools.iter().find(|pool| pool.role == role);
    let (prefill, decode) = (pool(Role::Prefill)?, pool(Role::Decode)?);
    let done = pools::by_pool(resolved, result);
    let of = |role| {
        let pools = scenario.pools.iter().zip(&done);
        pools
            .filter(|(pool, _)| pool.role == role)
            .find_map(|(_, done)| done.as_ref())
    };
    let whole = &result.whole;
    let (prompts, answers) = (of(Role::Prefill)?.admitted, whole.completed);
    if prompts == 0 || answers == 0 || relays.requests == 0 {
        return None;
    }
    let output = whole.output_tokens as f64 / answers as f64;
    // SGLang's first token came with the KV (PD-5).
    let steps = match spec.flow {
        Flow::Sglang => output - 1.0,
        Flow::Nixl | Flow::P2pNccl => output,
    };
    let context = whole.input_tokens as f64 / answers as f64 + output / 2.0;
    let (batch, step_s) = largest_decode_step(decode, context);
    let rates = &spec.links;
    let (senders, receivers) = rates.split_at(spec.prefill as usize);
    Some(Demand {
        prefill: prefill.replicas,
        prefill_s: of(Role::Prefill)?.busy_s / prompts as f64,
        decode: decode.replicas,
        batch,
        step_s,
        steps,
        bytes: relays.bytes as f64 / relays.requests as f64,
        links_bytes_per_s: [
            senders.iter().map(|rate| rate.send as f64).sum(),
            receivers.iter().map(|rate| rate.receive as f64).sum(),
        ],
    })
}

/// The largest batch that a decode replica holds of sequences with `context` tokens each on average, and how long its step
/// takes.
fn largest_decode_step(pool: &Pool, context: f64) -> (f64, f64) {
    let block = f64::from(pool.engine.block_size());
    // The last block is half full on average.
    let blocks = context / block + 0.5;
    let by_memory = f64::from(pool.engine.usable_blocks()) / blocks;
    let batch = by_memory
        .floor()
        .clamp(1.0, f64::from(pool.engine.max_num_seqs()));
    let (seqs, each) = (batch as u32, context.round() as u32);
    let load = StepLoad {
        decode_seqs: seqs,
        decode_kv_tokens: u64::from(seqs) * u64::from(each),
        decode_longest: each,
        chunks: Vec::new(),
        sampled_rows: seqs,
    };
    (batch, (pool.cost)().step(&load).seconds())
}

/// The share of what it could serve that the busier of two pools is asked for; `None` of a pool that has no role.
pub(super) fn asked(role: Role, balance: &Balance, per_s: f64) -> Option<f64> {
    match role {
        Role::Both => None,
        Role::Prefill => Some(per_s / balance.prefill),
        Role::Decode => Some(per_s / balance.decode),
    }
}

/// Requests a second that came over the time in which they were sent.
pub(super) fn offered_per_s(replicas: &[Option<ReplicaSummary>], result: &RunResult) -> f64 {
    let admitted = replicas.first().and_then(Option::as_ref);
    let requests = admitted.map_or(result.whole.sent, |prefill| prefill.admitted);
    requests as f64 / result.whole.duration_s.max(f64::MIN_POSITIVE)
}

/// The arithmetic in four lines; empty without roles.
pub(super) fn explain(resolved: &Resolved, result: &RunResult) -> String {
    let Some(demand) = demand(resolved, result) else {
        return String::new();
    };
    let served = offered_per_s(&pools::by_pool(resolved, result), result);
    let balance = demand.balance();
    let (part, most) = balance.limit();
    let name = match part {
        Part::Prefill => "the prefill pool",
        Part::Decode => "the decode pool",
        Part::Links => "the links",
    };
    let [out, inwards] = demand.links_bytes_per_s;
    let (side, rate) = if out <= inwards {
        ("out", out)
    } else {
        ("in", inwards)
    };
    let rows = [
        (
            "prefill",
            format!(
                "{} ÷ {} of steps a request",
                counted(demand.prefill),
                time(demand.prefill_s)
            ),
            balance.prefill,
        ),
        (
            "decode",
            format!(
                "{} × {} sequences ÷ ({} steps × {})",
                counted(demand.decode),
                significant(demand.batch),
                significant(demand.steps),
                time(demand.step_s)
            ),
            balance.decode,
        ),
        (
            "KV links",
            format!(
                "{} {side} ÷ {} a request",
                bytes_per_s(rate),
                format_bytes(Bytes(demand.bytes as u64))
            ),
            balance.links,
        ),
    ];
    let mut text = format!(
        "\nwhat limits prefill and decode: {name}, at {} requests/s; {} were prefilled\n",
        significant(most),
        significant(served)
    );
    for (name, arithmetic, per_s) in rows {
        let most = match per_s.is_finite() {
            true => format!(
                "{} requests/s, {} used",
                significant(per_s),
                percent(served / per_s)
            ),
            false => "any number".to_owned(),
        };
        text += &format!("  {name:<9} {arithmetic} = {most}\n");
    }
    text
}

fn counted(replicas: u32) -> String {
    crate::report::counted(u64::from(replicas), "replica")
}
