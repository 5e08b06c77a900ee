//! Laws the twin keeps in random scenarios, with every option and version switch drawn at random.
//!
//! The twin itself asserts that blocks are conserved and registered once; a scenario that never ends would show
//! as a test that does not either.

use crate::draws::Draw;
use crate::equality::draw_switches;
use crate::twin::{TwinConfig, TwinOutcome, TwinRequest, TwinRun, simulate};

/// Duration of every step.
const SECOND: u64 = 1_000_000_000_000;

fn draw_config(draw: &mut Draw) -> TwinConfig {
    let enable_chunked_prefill = draw.chance();
    let max_num_batched_tokens = if enable_chunked_prefill {
        4 + draw.below(30)
    } else {
        100
    };
    let mut config = TwinConfig {
        max_model_len: 30 + draw.below(40),
        max_num_seqs: 1 + draw.below(8) as usize,
        max_num_batched_tokens,
        enable_chunked_prefill,
        block_size: 1 + draw.below(5),
        num_gpu_blocks: 72 + draw.below(20) as usize,
        enable_prefix_caching: draw.chance(),
        priority_policy: draw.chance(),
        long_prefill_token_threshold: draw.below(3) * 5,
        queue_depth: 1 + draw.below(3) as usize,
        watermark_blocks: draw.below(4) as usize,
        prefill_schedule_interval: 1 + draw.below(4),
        ..draw_switches(draw)
    };
    if draw.chance() {
        config.max_num_scheduled_tokens = Some(max_num_batched_tokens - 1);
    }
    config
}

fn draw_request(draw: &mut Draw, id: u64) -> TwinRequest {
    let arrival_ps = u64::from(draw.below(40)) * SECOND / 4;
    TwinRequest {
        id,
        arrival_ps,
        prompt: vec![
            (100, 0, 1 + draw.below(16)),
            (u64::from(draw.below(3)), 0, 1 + draw.below(8)),
        ],
        output_tokens: 1 + draw.below(40),
        output_segment: 101,
        ends_by_eos: draw.chance(),
        priority: i64::from(draw.below(3)),
        abort_at: (draw.below(6) == 0).then(|| arrival_ps + u64::from(draw.below(80)) * SECOND / 4),
        accepted: Vec::new(),
        proposed: None,
    }
}

fn check_laws(config: &TwinConfig, requests: &[TwinRequest], run: &TwinRun) {
    let budget = config
        .max_num_scheduled_tokens
        .unwrap_or(config.max_num_batched_tokens);
    for step in &run.steps {
        let tokens: u32 = step.scheduled.iter().map(|&(_, _, n)| n).sum();
        assert!(tokens > 0 && tokens <= budget, "budget");
        assert!(
            step.scheduled
                .iter()
                .all(|&(_, computed, n)| computed + n <= config.max_model_len)
        );
        assert!(step.running <= config.max_num_seqs);
        // A share whose sequence is preempted in the same step is computed without it by 0.11 alone (V1-26).
        let orphans = step
            .scheduled
            .iter()
            .filter(|share| step.preempted.contains(&share.0));
        let orphans = orphans.count();
        assert!(orphans == 0 || (config.priority_policy && !config.priority_eviction_restores));
        assert!(step.scheduled.len() - orphans <= step.running);
        assert!(step.scheduled_at_ps <= step.gpu_start_ps);
    }
    for pair in run.steps.windows(2) {
        assert!(
            pair[0].gpu_start_ps + pair[0].duration_ps <= pair[1].gpu_start_ps,
            "one step at a time"
        );
    }
    for (request, outcome) in requests.iter().zip(&run.outcomes) {
        check_outcome(config, request, outcome);
    }
}

fn check_outcome(config: &TwinConfig, request: &TwinRequest, outcome: &TwinOutcome) {
    let prompt: u32 = request.prompt.iter().map(|&(_, _, len)| len).sum();
    let outputs = request.output_tokens.min(config.max_model_len - prompt) as usize;
    if !outcome.is_aborted {
        assert_eq!(outcome.token_times_ps.len(), outputs, "all its tokens");
    }
    assert!(outcome.token_times_ps.len() <= outputs);
    assert!(
        outcome
            .token_times_ps
            .is_sorted_by(|earlier, later| earlier < later)
    );
    assert!(
        outcome.cached_tokens.is_none_or(|cached| cached < prompt),
        "one token is always computed"
    );
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "the seed replays a failure; it is shown only when the test fails"
)]
fn random_scenarios_keep_the_laws() {
    for seed in 1..=3000 {
        eprintln!("seed {seed}");
        let mut draw = Draw::of(seed);
        let config = draw_config(&mut draw);
        let requests: Vec<TwinRequest> = (0..12).map(|id| draw_request(&mut draw, id)).collect();
        let run = simulate(&config, &requests, &mut |_| SECOND);
        check_laws(&config, &requests, &run);
    }
}
