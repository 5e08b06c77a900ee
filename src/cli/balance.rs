//! `--why` of prefill and decode pools: what each pool and the links could serve, as arithmetic, and which of them limits.

use super::{pools, why};
use crate::analysis::RunResult;
use crate::analysis::balance::{Balance, Decoding, Demand, Part, Prefilling};
use crate::cluster::Flow;
use crate::config::Resolved;
use crate::cost::StepLoad;
use crate::metrics::ReplicaSummary;
use crate::report::figures::{bytes_per_s, memory, percent, significant, time};
use crate::sim::{Pool, Role};

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
            Some(Prefilling {
                replicas: pool.replicas,
                request_s: prefill_s(pool, &admitted(done)?),
            })
        })
        .collect();
    if prefill.is_empty() || answers == 0 || relays.requests == 0 || relays.messages == 0 {
        return None;
    }
    // One message a request, whatever becomes of it then; SGLang sends chunks (PD-25).
    let crossed = match spec.flow {
        Flow::Sglang => relays.requests,
        Flow::Nixl | Flow::P2pNccl => relays.messages,
    };
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
        bytes: relays.bytes as f64 / crossed as f64,
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

/// Seconds that a request of a prefill pool's mean length takes of steps that are full of such requests: the least, whatever
/// the load of the run was, because at a low load a step is for one prompt.
fn prefill_s(pool: &Pool, done: &ReplicaSummary) -> f64 {
    let (cached, new) = why::prompt_of(done);
    let mut cost = (pool.cost)();
    let mut request_s = 0.0;
    let mut computed = 0;
    while computed < new {
        let step = pools::full_prefill_step(pool, cached + computed, new - computed);
        let piece = (new - computed).min(pool.engine.prompt_tokens_per_step());
        request_s += cost.step(&step).seconds() * f64::from(piece) / step.tokens() as f64;
        computed += piece;
    }
    request_s
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
    let mut cost = (pool.cost)();
    let load = StepLoad::of_decodes(seqs, each).reading(cost.reads_at_most());
    (batch, cost.step(&load).seconds())
}

/// Requests a second that each part did the work of over the run. They differ where some are refused, lost or sent again
/// between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taken {
    prefill: f64,
    decode: f64,
    links: f64,
}

impl Taken {
    /// By what the prefill pools took, the tokens that the decode pools computed and the bytes that crossed.
    pub(super) fn of(
        resolved: &Resolved,
        replicas: &[Option<ReplicaSummary>],
        result: &RunResult,
        demand: &Demand,
    ) -> Taken {
        let over = result.whole.duration_s.max(f64::MIN_POSITIVE);
        let sum = |role, of: fn(&ReplicaSummary) -> u64| -> f64 {
            let known = of_role(resolved, replicas, role).filter_map(|(_, done)| done.as_ref());
            known.map(of).sum::<u64>() as f64 / over
        };
        let bytes = result.relays.as_ref().map_or(0, |relays| relays.bytes);
        let per = |sum: f64, each: f64| if each > 0.0 { sum / each } else { 0.0 };
        Taken {
            prefill: sum(Role::Prefill, |done| done.admitted),
            decode: per(sum(Role::Decode, |done| done.work.decode_tokens), demand.steps),
            links: per(bytes as f64 / over, demand.bytes),
        }
    }

    fn by(&self, part: Part) -> f64 {
        match part {
            Part::Prefill => self.prefill,
            Part::Decode => self.decode,
            Part::Links => self.links,
        }
    }

    /// The share of what it could serve that a part is asked for.
    pub(super) fn share(&self, part: Part, balance: &Balance) -> f64 {
        let most = match part {
            Part::Prefill => balance.prefill,
            Part::Decode => balance.decode,
            Part::Links => balance.links,
        };
        self.by(part) / most
    }
}

/// The arithmetic, a line for each pool and one for the links; empty without roles.
pub(super) fn explain(resolved: &Resolved, result: &RunResult) -> String {
    let Some(demand) = demand(resolved, result) else {
        return String::new();
    };
    let taken = Taken::of(resolved, &pools::by_pool(resolved, result), result, &demand);
    let balance = demand.balance();
    let (part, most) = balance.limit();
    let name = match part {
        Part::Prefill if demand.prefill.len() > 1 => "the prefill pools",
        Part::Prefill => "the prefill pool",
        Part::Decode if demand.decode.len() > 1 => "the decode pools",
        Part::Decode => "the decode pool",
        Part::Links => "the links",
    };
    let is_even = (taken.prefill - taken.decode).abs() <= 0.05 * taken.prefill;
    let decoded = match is_even {
        true => String::new(),
        false => format!(", {} decoded", significant(taken.decode)),
    };
    let mut text = format!(
        "\nwhat limits prefill and decode: {name}, at {} requests/s; {} were prefilled{decoded}\n",
        significant(most),
        significant(taken.prefill)
    );
    for (part, arithmetic, per_s, is_whole) in arithmetic(&demand, &balance) {
        let name = match part {
            Part::Prefill => "prefill",
            Part::Decode => "decode",
            Part::Links => "KV links",
        };
        let most = match (per_s.is_finite(), is_whole) {
            (true, true) => format!(
                "{} requests/s, {} used",
                significant(per_s),
                percent(taken.by(part) / per_s)
            ),
            (true, false) => format!("{} requests/s", significant(per_s)),
            (false, _) => "any number".to_owned(),
        };
        text += &format!("  {name:<9} {arithmetic} = {most}\n");
    }
    text
}

/// A line of the arithmetic: whose, terms, requests a second, and whether that is all of the part.
type Line = (Part, String, f64, bool);

fn arithmetic(demand: &Demand, balance: &Balance) -> Vec<Line> {
    let [out, inwards] = demand.links_bytes_per_s;
    let (side, rate) = if out <= inwards {
        ("out", out)
    } else {
        ("in", inwards)
    };
    let prefill = demand.prefill.iter().map(|pool| {
        let (replicas, each) = (counted(pool.replicas), time(pool.request_s));
        (
            format!("{replicas} ÷ {each} of full steps a request"),
            pool.per_s(),
        )
    });
    let decode = demand.decode.iter().map(|pool| {
        let (replicas, batch) = (counted(pool.replicas), significant(pool.batch));
        let (steps, each) = (significant(demand.steps), time(pool.step_s));
        let arithmetic = format!("{replicas} × {batch} sequences ÷ ({steps} steps × {each})");
        (arithmetic, pool.per_s(demand.steps))
    });
    let request = memory(demand.bytes);
    let links = format!("{} {side} ÷ {request} a request", bytes_per_s(rate));
    let mut rows = lines_of(Part::Prefill, prefill.collect(), balance.prefill);
    rows.extend(lines_of(Part::Decode, decode.collect(), balance.decode));
    rows.extend(lines_of(Part::Links, vec![(links, balance.links)], balance.links));
    rows
}

/// A line for each pool of a part, and one for their sum where there are several.
fn lines_of(part: Part, pools: Vec<(String, f64)>, sum: f64) -> Vec<Line> {
    let is_alone = pools.len() == 1;
    let each = pools.iter().map(|(_, per_s)| significant(*per_s));
    let added = each.collect::<Vec<_>>().join(" + ");
    let lines = pools.into_iter();
    let mut lines: Vec<_> = lines.map(|(told, per_s)| (part, told, per_s, is_alone)).collect();
    if !is_alone {
        lines.push((part, added, sum, true));
    }
    lines
}

fn counted(replicas: u32) -> String {
    crate::report::counted(u64::from(replicas), "replica")
}
