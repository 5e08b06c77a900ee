//! `FIFOScheduler` and `PrefillFirstScheduler` of Transformers as ST-7 to ST-9 have them.

use plimsoll::engine::scheduled::policies::{HfConfig, HfOrder};

use super::World;

pub(super) fn decide(world: &mut World<'_>, settings: &HfConfig) {
    let of_kind = |prefills: bool| -> Vec<usize> {
        let running = world.running.iter().copied();
        running
            .filter(|&at| world.seqs[at].prefills() == prefills)
            .collect()
    };
    let fifo = settings.order == HfOrder::Fifo;
    let mut candidates = of_kind(!fifo);
    candidates.extend(of_kind(fifo));
    candidates.extend(world.waiting.iter().copied());
    let mut budget = settings.max_batch_tokens as usize;
    let running = world.running.clone();
    for at in candidates {
        let decodes = running.contains(&at) && !world.seqs[at].prefills();
        let is_short = 5 * world.free.len() < world.config.num_gpu_blocks as usize;
        if fifo && is_short && !world.shares.is_empty() && !decodes {
            break;
        }
        let tokens = world.missing(at).min(budget);
        let all = world.computed(at) + tokens;
        if !world.hold(at, all) {
            if world.free.is_empty() {
                break;
            }
            continue;
        }
        if !running.contains(&at) {
            world.start(at);
        }
        world.give(at, tokens);
        budget -= tokens;
        if budget == 0 {
            break;
        }
    }
}
