//! `_schedule_default` and `_schedule_chunked_prefill` of vLLM 0.6.6, as their rules are written down (V0-1 to V0-13).

use plimsoll::engine::Policy;
use plimsoll::engine::scheduled::policies::{PreemptionMode, V0Config};
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;

use super::{State, World};

/// What the engine remembers between decisions.
#[derive(Default)]
pub(super) struct Memory {
    previous: Picos,
    previous_was_prompt: bool,
    latency: Picos,
}

pub(super) fn decide(world: &mut World<'_>, v0: &V0Config, memory: &mut Memory) {
    let mut budget = world.config.max_num_batched_tokens as usize;
    if v0.enable_chunked_prefill {
        let turns = running(world, v0, &mut budget);
        let resumed = if turns.disturbed {
            Vec::new()
        } else {
            swapped(world, &mut budget)
        };
        // Whom this decision pushed out is queued at its end.
        let set_aside = world.waiting.drain(..turns.recomputed).collect::<Vec<_>>();
        prefills(world, v0, &mut budget, memory);
        world.waiting.splice(0..0, set_aside);
        let new = world.running.iter().copied();
        let new: Vec<usize> = new
            .filter(|at| !turns.had.contains(at) && !resumed.contains(at))
            .collect();
        let lists = |world: &World<'_>, of: &[usize]| {
            let (prefills, decodes): (Vec<usize>, Vec<usize>) =
                of.iter().copied().partition(|&at| world.seqs[at].prefills());
            [decodes, prefills].concat()
        };
        let still = |list: &[usize]| -> Vec<usize> {
            list.iter()
                .copied()
                .filter(|at| world.running.contains(at))
                .collect()
        };
        let (left, served) = (still(&turns.left), still(&turns.served));
        world.running = [left, lists(world, &resumed), lists(world, &served), new].concat();
        return;
    }
    if world.swapped.is_empty() && prefills(world, v0, &mut budget, memory) {
        return;
    }
    if v0.policy == Policy::Priority {
        priority(world, budget);
    }
    let turns = running(world, v0, &mut budget);
    if !turns.disturbed {
        swapped(world, &mut budget);
    }
}

/// What became of those who ran.
#[derive(Default)]
struct Turns {
    /// Everybody, before.
    had: Vec<usize>,
    /// Who was given something.
    served: Vec<usize>,
    /// Whose turn did not come.
    left: Vec<usize>,
    /// How many were pushed out to be computed anew.
    recomputed: usize,
    /// Whether anybody was pushed out.
    disturbed: bool,
}

fn watermark(world: &World<'_>) -> usize {
    world.config.num_gpu_blocks as usize / 100
}

fn need(world: &World<'_>, at: usize) -> usize {
    world.blocks_for(world.seqs[at].known())
}

fn passed(world: &World<'_>, v0: &V0Config, memory: &mut Memory) -> bool {
    if memory.previous_was_prompt {
        memory.latency = world.now - memory.previous;
    }
    (memory.previous, memory.previous_was_prompt) = (world.now, false);
    if v0.delay_factor == 0.0 || world.waiting.is_empty() {
        return true;
    }
    let earliest = world
        .waiting
        .iter()
        .map(|&at| world.seqs[at].request.arrival)
        .min()
        .unwrap();
    let delay = Picos((v0.delay_factor * memory.latency.0 as f64) as u64);
    // Those that this decision has given something, or admitted, have been taken off the list by then.
    let others = world.running.iter().any(|&at| world.seqs[at].given == 0);
    world.now - earliest > delay || !others
}

/// V0-13: with prefix caching a piece that does not end the prompt is of whole blocks.
fn piece(world: &World<'_>, v0: &V0Config, missing: usize, budget: usize) -> usize {
    if !v0.enable_chunked_prefill || missing <= budget {
        missing
    } else if world.config.enable_prefix_caching {
        budget / world.size() * world.size()
    } else {
        budget
    }
}

fn prefills(world: &mut World<'_>, v0: &V0Config, budget: &mut usize, memory: &mut Memory) -> bool {
    let mut any = false;
    let total = world.config.num_gpu_blocks as usize;
    while passed(world, v0, memory) {
        let Some(&at) = world.waiting.first() else { break };
        let whole = world.seqs[at].known();
        // What is cached costs nothing of the budget (V0-3), and saves neither the limit nor the test of blocks (V0-5).
        let tokens = piece(world, v0, world.missing(at), *budget);
        let limit = world
            .config
            .max_model_len
            .min(world.config.max_num_batched_tokens) as usize;
        let is_too_long = !v0.enable_chunked_prefill && whole > limit;
        if is_too_long || total < need(world, at) + watermark(world) {
            world.refuse(at);
            continue;
        }
        if world.free.len() < need(world, at) + watermark(world)
            || tokens == 0
            || tokens > *budget
            || world.running.len() + 1 > world.config.max_num_seqs as usize
        {
            break;
        }
        assert!(world.hold(at, whole));
        world.start(at);
        world.give(at, tokens);
        *budget -= tokens;
        any = true;
    }
    memory.previous_was_prompt |= any;
    any
}

fn running(world: &mut World<'_>, v0: &V0Config, budget: &mut usize) -> Turns {
    let mut queue: Vec<usize> = world.running.clone();
    let mut turns = Turns {
        had: queue.clone(),
        ..Turns::default()
    };
    while !queue.is_empty() {
        let at = queue[0];
        let tokens = piece(world, v0, world.seqs[at].missing(), *budget);
        if tokens == 0 || tokens > *budget {
            break;
        }
        queue.remove(0);
        // Blocks that the new token touches; those of a prompt are all there already.
        let touches = if world.seqs[at].prefills() && world.seqs[at].known().is_multiple_of(world.size()) {
            0
        } else {
            1
        };
        let mut alive = true;
        while alive && world.free.len() < touches {
            let victim = queue.pop().unwrap_or(at);
            alive = victim != at;
            if let Some(ended) = world.ended.iter().position(|&ended| ended == victim) {
                world.ended.remove(ended);
                world.leave(victim, Outcome::Completed, world.now);
                continue;
            }
            turns.disturbed = true;
            if v0.preemption_mode == PreemptionMode::Recompute {
                recompute(world, victim);
                turns.recomputed += 1;
            } else {
                let blocks = world.seqs[victim].blocks.len();
                if blocks > world.host_free {
                    world.died = true;
                    return turns;
                }
                world.host_free -= blocks;
                world.moved += blocks;
                world.stop(victim, State::Swapped);
                world.seqs[victim].host_blocks = blocks;
                world.swapped.push(victim);
            }
        }
        if alive {
            let all = world.seqs[at].kv + tokens;
            assert!(world.hold(at, all));
            world.give(at, tokens);
            turns.served.push(at);
            *budget -= tokens;
        }
    }
    turns.left = queue;
    turns
}

fn recompute(world: &mut World<'_>, victim: usize) {
    world.stop(victim, State::Waiting);
    world.seqs[victim].kv = 0;
    world.waiting.insert(0, victim);
}

/// Who came back. What it misses is never computed in pieces, whatever the mode.
fn swapped(world: &mut World<'_>, budget: &mut usize) -> Vec<usize> {
    let mut resumed = Vec::new();
    while let Some(&at) = world.swapped.first() {
        let full = world.seqs[at].kv / world.size();
        // Whose prompt is not computed yet has blocks for all of it.
        let need = (full + 1).max(world.seqs[at].host_blocks);
        if need > world.config.num_gpu_blocks as usize {
            world.refuse(at);
            continue;
        }
        let tokens = world.seqs[at].missing();
        if world.free.len() < need + watermark(world)
            || world.running.len() + 1 > world.config.max_num_seqs as usize
            || tokens > *budget
        {
            break;
        }
        let blocks = std::mem::take(&mut world.seqs[at].host_blocks);
        world.host_free += blocks;
        world.moved += blocks;
        world.take(at, blocks);
        world.start(at);
        let all = world.seqs[at].kv + tokens;
        assert!(world.hold(at, all));
        world.give(at, tokens);
        *budget -= tokens;
        resumed.push(at);
    }
    resumed
}

fn priority(world: &mut World<'_>, budget: usize) {
    let rank =
        |world: &World<'_>, at: usize| (world.seqs[at].request.priority, world.seqs[at].request.arrival);
    let mut queue = world.running.clone();
    queue.sort_by_key(|&at| rank(world, at));
    world.running.clone_from(&queue);
    if let Some(&head) = world.waiting.first() {
        while let Some(&last) = queue.last() {
            if rank(world, last) <= rank(world, head) {
                break;
            }
            let fits = world.free.len() >= need(world, head) + watermark(world);
            let has_seat = queue.len() < world.config.max_num_seqs as usize;
            if fits && has_seat && world.missing(head) <= budget {
                break;
            }
            queue.pop();
            if world.ended.contains(&last) {
                // It is queued although it has ended, and kills the engine when its turn comes.
                world.died = true;
                return;
            }
            recompute(world, last);
        }
        let mut waiting = world.waiting.clone();
        waiting.sort_by_key(|&at| rank(world, at));
        world.waiting = waiting;
    }
}
