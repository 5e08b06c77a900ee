//! `--why` of prefill and decode pools: what each pool and the links could serve, as arithmetic, and which of them limits.

use super::pools;
use crate::analysis::RunResult;
use crate::analysis::balance::{Balance, Decoding, Demand, Part, Prefilling};
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
    let done = pools::by_pool(resolved, result);
    let whole = &result.whole;
    let answers = whole.completed;
    // Of a pool that nothing was sent to nobody knows how long it would take.
    let admitted = |done: &Option<ReplicaSummary>| done.as_ref().filter(|done| done.admitted > 0).cloned();
    let prefill: Vec<Prefilling> = of_role(resolved, &done, Role::Prefill)
        .filter_map(|(pool, done)| {
            let done = admitted(done)?;
            Some(Prefilling {
                replicas: pool.replicas,
                request_s: done.busy_s / done.admitted as f64,
            })
        })
        .collect();
    if prefill.is_empty() || answers == 0 || relays.requests == 0 {
        return None;
    }
    let output = whole.output_tokens as f64 / answers as f64;
    // SGLang's first token came with the KV (PD-5).
    let steps = match spec.flow {
        Flow::Sglang => output - 1.0,
        Flow::Nixl | Flow::P2pNccl => output,
    };
    let context = whole.input_tokens as f64 / answers as f64 + output / 2.0;
    let decode = of_role(resolved, &done, Role::Decode).map(|(pool, _)| {
        let (batch, step_s) = largest_decode_step(pool, context);
        Decoding {
            replicas: pool.replicas,
            batch,
            step_s,
        }
    });
    let rates = &spec.links;
    let (senders, receivers) = rates.split_at(spec.prefill as usize);
    Some(Demand {
        prefill,
        decode: decode.collect(),
        steps,
        bytes: relays.bytes as f64 / relays.requests as f64,
        links_bytes_per_s: [
            senders.iter().map(|rate| rate.send as f64).sum(),
            receivers.iter().map(|rate| rate.receive as f64).sum(),
        ],
    })
}

/// The pools of one role, each with what it did.
fn of_role<'a>(
    resolved: &'a Resolved,
    done: &'a [Option<ReplicaSummary>],
    role: Role,
) -> impl Iterator<Item = (&'a Pool, &'a Option<ReplicaSummary>)> {
    let pools = resolved.scenario.pools.iter().zip(done);
    pools.filter(move |(pool, _)| pool.role == role)
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

/// Requests a second that came over the time in which they were sent: those that the pools with the role of prefill took.
pub(super) fn offered_per_s(
    resolved: &Resolved,
    replicas: &[Option<ReplicaSummary>],
    result: &RunResult,
) -> f64 {
    let taken: Option<Vec<u64>> = of_role(resolved, replicas, Role::Prefill)
        .map(|(_, done)| Some(done.as_ref()?.admitted))
        .collect();
    let requests = match taken {
        Some(taken) if !taken.is_empty() => taken.iter().sum(),
        _ => result.whole.sent,
    };
    requests as f64 / result.whole.duration_s.max(f64::MIN_POSITIVE)
}

/// The arithmetic, a line for each pool and one for the links; empty without roles.
pub(super) fn explain(resolved: &Resolved, result: &RunResult) -> String {
    let Some(demand) = demand(resolved, result) else {
        return String::new();
    };
    let served = offered_per_s(resolved, &pools::by_pool(resolved, result), result);
    let balance = demand.balance();
    let (part, most) = balance.limit();
    let name = match part {
        Part::Prefill if demand.prefill.len() > 1 => "the prefill pools",
        Part::Prefill => "the prefill pool",
        Part::Decode if demand.decode.len() > 1 => "the decode pools",
        Part::Decode => "the decode pool",
        Part::Links => "the links",
    };
    let mut text = format!(
        "\nwhat limits prefill and decode: {name}, at {} requests/s; {} were prefilled\n",
        significant(most),
        significant(served)
    );
    for (name, arithmetic, per_s, is_whole) in arithmetic(&demand, &balance) {
        let most = match (per_s.is_finite(), is_whole) {
            (true, true) => format!(
                "{} requests/s, {} used",
                significant(per_s),
                percent(served / per_s)
            ),
            (true, false) => format!("{} requests/s", significant(per_s)),
            (false, _) => "any number".to_owned(),
        };
        text += &format!("  {name:<9} {arithmetic} = {most}\n");
    }
    text
}

/// A line of the arithmetic: name, terms, requests a second, and whether that is all of the part.
type Line = (&'static str, String, f64, bool);

fn arithmetic(demand: &Demand, balance: &Balance) -> Vec<Line> {
    let [out, inwards] = demand.links_bytes_per_s;
    let (side, rate) = if out <= inwards {
        ("out", out)
    } else {
        ("in", inwards)
    };
    let prefill = demand.prefill.iter().map(|pool| {
        let (replicas, each) = (counted(pool.replicas), time(pool.request_s));
        (format!("{replicas} ÷ {each} of steps a request"), pool.per_s())
    });
    let decode = demand.decode.iter().map(|pool| {
        let (replicas, batch) = (counted(pool.replicas), significant(pool.batch));
        let (steps, each) = (significant(demand.steps), time(pool.step_s));
        let arithmetic = format!("{replicas} × {batch} sequences ÷ ({steps} steps × {each})");
        (arithmetic, pool.per_s(demand.steps))
    });
    let request = format_bytes(Bytes(demand.bytes as u64));
    let links = format!("{} {side} ÷ {request} a request", bytes_per_s(rate));
    let mut rows = lines_of("prefill", prefill.collect(), balance.prefill);
    rows.extend(lines_of("decode", decode.collect(), balance.decode));
    rows.extend(lines_of("KV links", vec![(links, balance.links)], balance.links));
    rows
}

/// A line for each pool of a part, and one for their sum where there are several.
fn lines_of(name: &'static str, pools: Vec<(String, f64)>, sum: f64) -> Vec<Line> {
    let is_alone = pools.len() == 1;
    let each = pools.iter().map(|(_, per_s)| significant(*per_s));
    let added = each.collect::<Vec<_>>().join(" + ");
    let lines = pools.into_iter();
    let mut lines: Vec<_> = lines.map(|(told, per_s)| (name, told, per_s, is_alone)).collect();
    if !is_alone {
        lines.push((name, added, sum, true));
    }
    lines
}

fn counted(replicas: u32) -> String {
    crate::report::counted(u64::from(replicas), "replica")
}
