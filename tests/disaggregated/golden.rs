//! Golden example G7: Llama-3.1-8B, 2048 prompt tokens, 25 GB/s, to the picosecond.

use plimsoll::cluster::Flow;
use plimsoll::metrics::Stage;
use plimsoll::sim::Pause;
use plimsoll::units::Picos;

use crate::common::request;
use crate::setup::{G7, Told, pools, run, sglang, vllm};

fn lone(chunk: u32) -> Told {
    let engines = [
        sglang(40_000, chunk, true).into(),
        sglang(40_000, 8192, false).into(),
    ];
    run(
        engines,
        G7,
        &pools(Flow::Sglang, 1, 1),
        &[request(0, Picos::ZERO, 2048, 3)],
        false,
    )
}

#[test]
fn sglang_sends_after_a_prompt_in_one_chunk_and_emits_its_token_without_a_step() {
    let told = lone(8192);
    assert_eq!(told.pause, Pause::Drained);
    assert_eq!(told.seen.violations, Vec::<String>::new());
    let story = &told.stories[0];
    assert_eq!(story.first_token, Some(Picos(40_737_418_240)));
    assert_eq!(story.end, Picos(56_737_418_240));
    assert_eq!((story.output_tokens, story.replica.0), (3, 1));
    let relays = told.seen.relays.unwrap();
    assert_eq!((relays.bytes, relays.messages), (268_435_456, 1));
    assert!((relays.stage_s(Stage::Prefill) - 0.030).abs() < 1e-12);
    assert!((relays.stage_s(Stage::Transfer) - 0.010_737_418_24).abs() < 1e-12);
    assert!((relays.ttft_s() - 0.040_737_418_24).abs() < 1e-12);
    // 2048 pages were held for 10.7 of 56.7 ms.
    assert!((relays.held_blocks - 2048.0 * 10.737_418_24 / 56.737_418_24).abs() < 1e-6);
}

#[test]
fn sglang_hides_all_but_the_last_chunks_transfer() {
    let told = lone(512);
    assert_eq!(told.seen.violations, Vec::<String>::new());
    // 512 tokens are 67,108,864 bytes: 2.68435456 ms, behind the last chunk's 30 ms.
    assert_eq!(told.stories[0].first_token, Some(Picos(32_684_354_560)));
    let relays = told.seen.relays.unwrap();
    assert_eq!((relays.bytes, relays.messages), (268_435_456, 4));
}

/// Sent at 0 to idle engines; D's loop, asleep, wakes when the request reaches it and then looks every millisecond.
#[test]
fn nixl_reads_after_the_prefill_and_computes_the_last_token_again() {
    let engines = [vllm().into(), vllm().into()];
    let told = run(
        engines,
        G7,
        &pools(Flow::Nixl, 1, 1),
        &[request(0, Picos::ZERO, 2048, 3)],
        false,
    );
    assert_eq!(told.pause, Pause::Drained);
    assert_eq!(told.seen.violations, Vec::<String>::new());
    // P 0-30, hops 30-32, read 32-42.74, seen at 43, a step of 8.
    let story = &told.stories[0];
    assert_eq!(story.first_token, Some(Picos(51_000_000_000)));
    assert_eq!(story.end, Picos(67_000_000_000));
    let relays = told.seen.relays.unwrap();
    assert_eq!((relays.bytes, relays.messages), (268_435_456, 1));
    let stages = [0.0, 0.030, 0.002, 0.0, 0.010_737_418_24, 0.000_262_581_76, 0.008];
    for (stage, expected) in relays.stages_s.iter().zip(stages) {
        assert!((stage - expected).abs() < 1e-12, "{:?}", relays.stages_s);
    }
}

#[test]
fn p2p_nccl_sends_layers_behind_their_computation() {
    let engines = [vllm().into(), vllm().into()];
    let told = run(
        engines,
        G7,
        &pools(Flow::P2pNccl, 1, 1),
        &[request(0, Picos::ZERO, 2048, 3)],
        false,
    );
    assert_eq!(told.seen.violations, Vec::<String>::new());
    // The last layer's 8 MiB take 0.336 ms behind the forward; hops of 2 ms, a step of 8.
    assert_eq!(told.stories[0].first_token, Some(Picos(40_335_544_320)));
    let relays = told.seen.relays.unwrap();
    assert!((relays.stage_s(Stage::DecodeStep) - 0.008).abs() < 1e-12);
    assert!((relays.stage_s(Stage::Prefill) - 0.030_335_544_32).abs() < 1e-12);
    // A slow link: all of the KV leaves behind the first layer's 30/32 ms, and P's step lasts until then.
    let mut spec = pools(Flow::P2pNccl, 1, 1);
    spec.links[1].receive = 2_500_000_000;
    let engines = [vllm().into(), vllm().into()];
    let told = run(engines, G7, &spec, &[request(0, Picos::ZERO, 2048, 3)], false);
    assert_eq!(
        told.stories[0].first_token,
        Some(Picos(937_500_000 + 107_374_182_400 + 10_000_000_000))
    );
}
