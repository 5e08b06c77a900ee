//! Static batching as ST-1 to ST-4 have it.

use plimsoll::engine::scheduled::policies::StaticConfig;

use super::World;

pub(super) fn decide(world: &mut World<'_>, settings: &StaticConfig) {
    if !world.running.is_empty() {
        for at in world.running.clone() {
            let all = world.seqs[at].kv + 1;
            assert!(world.hold(at, all));
            world.give(at, 1);
        }
        return;
    }
    let mut batch: Vec<usize> = Vec::new();
    let mut is_cut = false;
    for &at in world.waiting.iter().take(settings.batch_size as usize) {
        let mut with = batch.clone();
        with.push(at);
        if with.len() > 1 && blocks_at_full_length(world, &with) > world.config.num_gpu_blocks as usize {
            is_cut = true;
            break;
        }
        batch = with;
    }
    let Some(oldest) = batch.iter().map(|&at| world.seqs[at].queued).min() else {
        return;
    };
    let closes = oldest + settings.batch_timeout;
    if batch.len() < settings.batch_size as usize && !is_cut && world.now < closes {
        world.wake = Some(closes);
        return;
    }
    let longest = longest_prompt(world, &batch);
    for at in batch {
        world.seqs[at].pad = longest - world.seqs[at].request.prompt_tokens as usize;
        world.seqs[at].in_batch = true;
        assert!(world.hold(at, longest));
        world.start(at);
        world.give(at, longest);
    }
}

fn longest_prompt(world: &World<'_>, batch: &[usize]) -> usize {
    let prompts = batch
        .iter()
        .map(|&at| world.seqs[at].request.prompt_tokens as usize);
    prompts.max().unwrap()
}

/// Blocks of all rows when the longest answer that may be is complete.
fn blocks_at_full_length(world: &World<'_>, batch: &[usize]) -> usize {
    let answer = |&at: &usize| {
        let request = &world.seqs[at].request;
        request
            .max_tokens
            .min(world.config.max_model_len - request.prompt_tokens) as usize
    };
    let answers = batch.iter().map(answer).max().unwrap();
    world.blocks_for(longest_prompt(world, batch) + answers - 1) * batch.len()
}
