//! What is drawn: flags, traffic, tiers of KV, groups of layers. A seed replays all of it.

use crate::twin::tiers::{TwinPolicy, TwinTier, TwinTiers};
use crate::twin::{TwinConfig, TwinLaw, TwinRequest, TwinStages};

use super::agree::{Law, MILLISECOND};
use crate::draws::Draw;

pub(crate) fn draw_config(draw: &mut Draw) -> TwinConfig {
    let enable_chunked_prefill = draw.chance();
    let small = draw.chance();
    TwinConfig {
        max_model_len: 40 + draw.below(60),
        max_num_seqs: 1 + draw.below(if small { 4 } else { 12 }) as usize,
        max_num_batched_tokens: if enable_chunked_prefill {
            4 + draw.below(30)
        } else {
            100
        },
        enable_chunked_prefill,
        block_size: 1 + draw.below(6),
        num_gpu_blocks: 102 + draw.below(if small { 10 } else { 300 }) as usize,
        enable_prefix_caching: draw.chance(),
        priority_policy: draw.chance(),
        long_prefill_token_threshold: draw.below(3) * 5,
        queue_depth: 1 + draw.below(2) as usize,
        stages: None,
        watermark_blocks: draw.below(4) as usize,
        prefill_schedule_interval: if draw.chance() { 1 } else { 1 + draw.below(4) },
        ..draw_switches(draw)
    }
}

/// vLLM 0.33 with every version switch drawn.
pub(crate) fn draw_switches(draw: &mut Draw) -> TwinConfig {
    TwinConfig {
        reserve_full_isl: draw.chance(),
        unhashed_freed_blocks_to_head: draw.chance(),
        no_threshold_when_alone: draw.chance(),
        oversize_prompt_stops_admission: draw.chance(),
        priority_eviction_restores: draw.chance(),
        async_overrun_guard: draw.chance(),
        ..TwinConfig::v33()
    }
}

pub(super) fn draw_tiers(draw: &mut Draw) -> TwinTiers {
    let chunk = 1 + draw.below(8);
    let bytes_per_token = 1000;
    let ranks = 1 + u64::from(draw.below(2));
    let chunks = |draw: &mut Draw| u64::from(1 + draw.below(12)) * u64::from(chunk) * bytes_per_token;
    let rate = |draw: &mut Draw| f64::from(1 + draw.below(40)) * 25_000.0;
    let tier = |draw: &mut Draw| TwinTier {
        capacity: chunks(draw) * 2,
        read_rate: rate(draw),
        write_rate: rate(draw),
        latency_ps: u64::from(draw.below(3)) * MILLISECOND,
    };
    let disk = draw.chance().then(|| tier(draw));
    let remote = draw.chance().then(|| tier(draw));
    let aside = draw.chance();
    TwinTiers {
        chunk,
        save_unfull_chunk: draw.chance(),
        save_decode_cache: draw.below(4) == 0,
        min_retrieve: draw.below(3) * 3,
        policy: [
            TwinPolicy::Lru,
            TwinPolicy::Fifo,
            TwinPolicy::Lfu,
            TwinPolicy::Mru,
        ][draw.below(4) as usize],
        aside,
        layers: (!aside && draw.chance()).then_some(4),
        bytes_per_token,
        ranks,
        lookup_ps: u64::from(draw.below(3)) * MILLISECOND,
        load_rate: rate(draw),
        store_rate: rate(draw),
        host: (draw.below(4) > 0).then(|| chunks(draw)),
        disk,
        remote,
    }
}

/// Two waves: the second comes when the first has surely ended and may repeat its prompts and answers.
pub(crate) fn draw_requests(draw: &mut Draw, shared_outputs: bool, aborts: bool) -> Vec<TwinRequest> {
    let mut requests: Vec<TwinRequest> = Vec::new();
    let first_wave = 4 + draw.below(10);
    for id in 0..u64::from(first_wave + draw.below(8)) {
        let late = id >= u64::from(first_wave);
        let base = if late { 1_000_000 * MILLISECOND } else { 0 };
        let arrival_ps = base + u64::from(draw.below(300)) * MILLISECOND;
        let mut prompt = vec![
            (u64::from(draw.below(3)), 0, 1 + draw.below(14)),
            (10 + id, 0, 1 + draw.below(10)),
        ];
        if draw.chance() {
            prompt.pop();
        }
        if late && draw.chance() {
            // The next turn of a conversation of the first wave.
            let earlier = &requests[draw.below(first_wave) as usize];
            let length: u32 = earlier.prompt.iter().map(|&(_, _, tokens)| tokens).sum();
            prompt = earlier.prompt.clone();
            prompt.push((
                earlier.output_segment,
                length,
                1 + draw.below(earlier.output_tokens.min(15)),
            ));
            prompt.retain(|&(_, _, tokens)| tokens > 0);
        }
        requests.push(TwinRequest {
            id,
            arrival_ps,
            prompt,
            output_tokens: 1 + draw.below(45),
            output_segment: if shared_outputs { 500 } else { 500 + id },
            ends_by_eos: draw.below(3) == 0,
            priority: i64::from(draw.below(3)),
            abort_at: (aborts && draw.below(5) == 0)
                .then(|| arrival_ps + u64::from(draw.below(400)) * MILLISECOND + 7),
            accepted: Vec::new(),
            proposed: None,
        });
    }
    requests
}

/// Groups of layers with windows, some beside groups without. A pool that would do for all layers as one is as many times
/// as large.
pub(super) fn draw_groups(draw: &mut Draw, config: &mut TwinConfig) {
    let window = |draw: &mut Draw| {
        let longest = if draw.chance() { 12 } else { 60 };
        Some(1 + draw.below(longest))
    };
    let one = window(draw);
    let mut groups = vec![one; 1 + draw.below(3) as usize];
    if draw.below(4) == 0 {
        groups.push(window(draw));
    }
    let full = match config.enable_prefix_caching {
        true => 1,
        false => draw.below(3) as usize,
    };
    groups.splice(0..0, vec![None; full]);
    config.num_gpu_blocks = (config.num_gpu_blocks - 1) * groups.len() + 1;
    config.groups = groups;
    config.windows_settle = draw.chance();
}

/// Layers on stages, by the rules of 0.33 or of 0.11.
pub(super) fn draw_stages(draw: &mut Draw, config: &mut TwinConfig) {
    let count = 2 + draw.below(4) as usize;
    let is_newer = draw.chance();
    let mut law = |most: u32| TwinLaw {
        per_step: u64::from(draw.below(most)) * MILLISECOND / 3,
        per_token: u64::from(draw.below(3)) * 7_000_000,
        per_pair: u64::from(draw.below(3)) * 500_001,
    };
    let (transfer, preparation) = (law(3), law(3));
    let mut laws: Vec<TwinLaw> = (0..count).map(|_| law(12)).collect();
    // Steps take time.
    laws[count - 1].per_step += 1 + MILLISECOND;
    // No version drains outputs and leaves the shares of those that it evicts.
    config.priority_eviction_restores = is_newer;
    // 0.11 does not start with both.
    let ahead = usize::from(is_newer && draw.chance());
    config.queue_depth = count + ahead;
    config.stages = Some(TwinStages {
        laws,
        transfer,
        preparation,
        stagger: ahead * count,
        fills_queue_first: is_newer,
        stale_output_drains: is_newer,
    });
}

pub(super) fn draw_traffic(
    draw: &mut Draw,
    config: &TwinConfig,
    stepwise: bool,
    aborts: bool,
) -> (Vec<TwinRequest>, Law) {
    let requests = draw_requests(draw, stepwise, aborts);
    let fits = |request: &TwinRequest| {
        let prompt: u32 = request.prompt.iter().map(|piece| piece.2).sum();
        prompt < config.max_model_len
    };
    let requests: Vec<TwinRequest> = requests.into_iter().filter(fits).collect();
    let law = Law {
        per_step: u64::from(1 + draw.below(9)) * MILLISECOND,
        per_token: u64::from(draw.below(3)) * 20_000_000,
        per_pair: u64::from(draw.below(3)) * 1_000_001,
        reads_at_most: None,
    };
    (requests, law)
}
