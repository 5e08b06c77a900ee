//! Laws of every flow, and the corner cases (C-22, C-23, C-33).

use plimsoll::analysis::balance::{Decoding, Demand, Part, Prefilling};
use plimsoll::cluster::{Disaggregation, Flow, LinkRate};
use plimsoll::engine::{EngineConfig, EngineSpec};
use plimsoll::facts::{Completion, Outcome};
use plimsoll::ids::SegmentId;
use plimsoll::metrics::Stage;
use plimsoll::sim::Pause;
use plimsoll::units::Picos;
use plimsoll::workload::{Piece, Prompt, Request};
use proptest::prelude::*;

use crate::common::request;
use crate::setup::{G7, PlainCost, Told, pools, run, sglang, vllm};

pub(crate) const FLOWS: [Flow; 3] = [Flow::Nixl, Flow::P2pNccl, Flow::Sglang];

pub(crate) fn engines(flow: Flow, tokens: [u32; 2], overlap: bool, caches: bool) -> [EngineSpec; 2] {
    let vllm = |tokens: u32| EngineConfig {
        num_gpu_blocks: tokens / 16 + 1,
        queue_depth: 1 + u32::from(overlap),
        enable_prefix_caching: caches,
        max_num_batched_tokens: 256,
        ..vllm()
    };
    let mut sglang = tokens.map(|tokens| sglang(tokens, 256, true));
    sglang[1].radix_cache = false;
    sglang
        .iter_mut()
        .for_each(|config| config.overlap_schedule = overlap);
    match flow {
        Flow::Sglang => sglang.map(EngineSpec::from),
        _ => tokens.map(|tokens| vllm(tokens).into()),
    }
}

/// What comes: gap in ps to the one before, prompt and output tokens, shared prefix tokens, and how many ps its client waits.
pub(crate) type Wish = (u64, u32, u32, u32, Option<u64>);

/// Requests as they are wished, in order of arrival.
pub(crate) fn coming(wishes: &[Wish]) -> Vec<Request> {
    let mut now = 0;
    let one = |(id, &(gap, prompt, output, shared, patience)): (u64, &Wish)| {
        now += gap;
        let plain = request(id, Picos(now), prompt, output);
        let deadline = patience.map(|patience| Picos(now + patience));
        with_prefix(Request { deadline, ..plain }, shared)
    };
    (0..).zip(wishes).map(one).collect()
}

/// Of `prompt` tokens the first `shared` are those of others.
pub(crate) fn with_prefix(request: Request, shared: u32) -> Request {
    let own = request.prompt_tokens - shared.min(request.prompt_tokens);
    let piece = |segment, tokens| Piece {
        segment: SegmentId(segment),
        start: 0,
        tokens,
    };
    let pieces = [
        piece(1 << 40, request.prompt_tokens - own),
        piece(1000 + request.id.0, own),
    ];
    let pieces: Vec<Piece> = pieces.into_iter().filter(|piece| piece.tokens > 0).collect();
    Request {
        prompt: Prompt::Pieces(pieces.into()),
        ..request
    }
}

pub(crate) fn by_id(told: &Told) -> Vec<Completion> {
    let mut stories = told.stories.clone();
    stories.sort_by_key(|story| story.id);
    stories
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Everybody ends once, every law of the recorder holds, a run that is watched is the run that is not, and all
    /// memory comes back: a last request needs all of it on both sides.
    #[test]
    fn nothing_is_lost_in_any_flow(
        which in 0usize..3,
        (x, y) in (1u32..4, 1u32..4),
        tokens in prop::array::uniform2(800u32..2400),
        (overlap, caches) in (any::<bool>(), any::<bool>()),
        (rate, buffer, hop) in (1u64..30, 0u64..400_000_000, 0u64..3_000_000_000),
        cost in (1_000_000_000u64..60_000_000_000, 100_000_000u64..5_000_000_000, 0u64..400_000),
        wishes in prop::collection::vec(
            (0u64..4_000_000_000, 1u32..500, 1u32..200, 0u32..400, prop::option::weighted(0.2, 1u64..60_000_000_000)),
            1..30,
        ),
    ) {
        let flow = FLOWS[which];
        let link = LinkRate { send: rate * 1_000_000_000, receive: 10_000_000_000 };
        let spec = Disaggregation {
            links: vec![link; (x + y) as usize],
            latency: Picos(30_000_000),
            hop: Picos(hop),
            receive_buffer: buffer,
            num_reserved_decode_tokens: 32,
            ..pools(flow, x, y)
        };
        let cost = PlainCost { prompt_2048: Picos(cost.0), decode: Picos(cost.1), per_kv_token: Picos(cost.2) };
        let mut requests = coming(&wishes);
        let now = requests[requests.len() - 1].arrival.0;
        // On each pair of replicas, in turn.
        let pairs = x * y;
        for pair in 0..u64::from(pairs) {
            let whole = tokens[0].min(tokens[1]) / 16 * 16 - 80;
            let at = Picos(now + (1 + pair) * 10_000_000_000_000);
            let last = request(requests.len() as u64, at, whole, 2);
            requests.push(with_prefix(last, 0));
        }
        let told = run(engines(flow, tokens, overlap, caches), cost, &spec, &requests, false);
        prop_assert_eq!(told.pause, Pause::Drained);
        prop_assert_eq!(&told.seen.violations, &Vec::<String>::new());
        prop_assert_eq!(told.stories.len(), requests.len());
        for story in &told.stories[told.stories.len() - pairs as usize..] {
            prop_assert_eq!(story.outcome, Outcome::Completed);
        }
        let watched = run(engines(flow, tokens, overlap, caches), cost, &spec, &requests, true);
        prop_assert_eq!(by_id(&told), by_id(&watched));
        let relays = told.seen.relays.unwrap();
        let ttft: f64 = told
            .stories
            .iter()
            .filter_map(|story| story.first_token.map(|at| (at - story.arrival).seconds()))
            .sum();
        prop_assert!((relays.ttft_s() * relays.requests as f64 - ttft).abs() < 1e-6 * ttft.max(1.0));
    }
}

/// PD-14 and PD-30 with a link that takes no time to speak of and nobody else there.
#[test]
fn alone_the_first_token_comes_when_the_parts_add_up() {
    let fast = 1_000_000_000_000_000_000;
    let link = LinkRate {
        send: fast,
        receive: fast,
    };
    for (prompt, arrival) in [(2048u32, 0u64), (1024, 17_000_000_123), (512, 999_999_999_999)] {
        let spec = |flow| Disaggregation {
            links: vec![link; 2],
            latency: Picos(30_000_000),
            ..pools(flow, 1, 1)
        };
        let first = |flow| {
            let engines = match flow {
                Flow::Sglang => [
                    sglang(40_000, 8192, true).into(),
                    sglang(40_000, 8192, false).into(),
                ],
                _ => [vllm().into(), vllm().into()],
            };
            let told = run(
                engines,
                G7,
                &spec(flow),
                &[request(0, Picos(arrival), prompt, 5)],
                false,
            );
            assert_eq!(told.seen.violations, Vec::<String>::new());
            told.stories[0].first_token.unwrap().0 - arrival
        };
        let prefill = G7.prompt_2048.0 * u64::from(prompt) / 2048;
        let (alpha, hop, step) = (30_000_000, 1_000_000_000, G7.decode.0);
        // α once for D's notice, once for the KV; the bytes take less than a nanosecond.
        let sglang = first(Flow::Sglang) - (prefill + 2 * alpha);
        assert!(sglang < 1000, "{sglang}");
        // The loop of D looks at the millisecond behind the KV's arrival.
        assert_eq!(first(Flow::Nixl), prefill + 2 * hop + 1_000_000_000 + step);
        let p2p = first(Flow::P2pNccl) - (prefill + alpha + 2 * hop + step);
        assert!(p2p < 1000, "{p2p}");
    }
}

/// C-22: where D has no memory, vLLM's P fills with what nobody reads, SGLang's P waits with nothing computed.
#[test]
fn a_full_decode_replica_holds_up_the_prefill_in_the_flows_own_way() {
    let requests: Vec<Request> = (0..12).map(|id| request(id, Picos(id + 1), 1024, 300)).collect();
    let told = |flow| {
        // D has room for two requests at a time.
        let engines = match flow {
            Flow::Sglang => [
                sglang(40_000, 8192, true).into(),
                sglang(3000, 8192, false).into(),
            ],
            _ => {
                let small = EngineConfig {
                    num_gpu_blocks: 2 * 83 + 1,
                    ..vllm()
                };
                [vllm().into(), small.into()]
            }
        };
        let mut spec = pools(flow, 1, 1);
        spec.num_reserved_decode_tokens = 300;
        let told = run(engines, G7, &spec, &requests, false);
        assert_eq!(told.seen.violations, Vec::<String>::new());
        assert_eq!(
            told.stories
                .iter()
                .filter(|story| story.outcome == Outcome::Completed)
                .count(),
            12
        );
        told.seen.relays.unwrap()
    };
    let (nixl, sglang) = (told(Flow::Nixl), told(Flow::Sglang));
    assert!(
        nixl.held_blocks > 100.0,
        "P holds {} blocks on average",
        nixl.held_blocks
    );
    assert!(nixl.stage_s(Stage::DecodeMemory) > 2.0 && nixl.stage_s(Stage::PrefillQueue) < 0.3);
    assert!(
        sglang.held_blocks < 64.0,
        "P holds {} pages on average",
        sglang.held_blocks
    );
    assert!(sglang.stage_s(Stage::DecodeMemory) == 0.0 && sglang.stage_s(Stage::PrefillQueue) > 2.0);
    assert!(sglang.reservation_s > 2.0);
}

/// C-23, PD-10: what D has cached is not read again, only the last block, of which the last token is always computed.
#[test]
fn cached_prompts_are_not_read_again_by_vllm_and_always_sent_by_sglang() {
    let twice = |flow| {
        let requests = [0u64, 1].map(|id| {
            let plain = request(id, Picos(id * 5_000_000_000_000 + 1), 1024, 4);
            with_prefix(plain, 1024)
        });
        let caching = EngineConfig {
            enable_prefix_caching: true,
            ..vllm()
        };
        let engines = match flow {
            Flow::Sglang => [
                sglang(40_000, 8192, true).into(),
                sglang(40_000, 8192, false).into(),
            ],
            _ => [caching.clone().into(), caching.into()],
        };
        let told = run(engines, G7, &pools(flow, 1, 1), &requests, false);
        assert_eq!(told.seen.violations, Vec::<String>::new());
        // P computes what it must: the last block, or the last token.
        assert!(told.seen.records.unwrap()[1].completion.cached_tokens >= 1008);
        told.seen.relays.unwrap().bytes / 131_072
    };
    assert_eq!(twice(Flow::Nixl), 1024 + 16);
    assert_eq!(twice(Flow::Sglang), 2 * 1024);
}

/// PD-6: in overload what comes out is what the part that limits could serve, by its arithmetic.
#[test]
fn in_overload_as_many_are_served_as_the_part_that_limits_could_serve() {
    let check = |prompt: u32, output: u32, link: u64, blocks: u32, expected: Part| {
        let requests: Vec<Request> = (0..300)
            .map(|id| request(id, Picos(id + 1), prompt, output))
            .collect();
        let small = EngineConfig {
            num_gpu_blocks: blocks + 1,
            ..vllm()
        };
        let spec = Disaggregation {
            links: vec![
                LinkRate {
                    send: link,
                    receive: link,
                };
                2
            ],
            ..pools(Flow::Nixl, 1, 1)
        };
        let told = run([vllm().into(), small.into()], G7, &spec, &requests, false);
        let relays = told.seen.relays.as_ref().unwrap();
        let context = f64::from(prompt) + f64::from(output) / 2.0;
        let demand = Demand {
            prefill: vec![Prefilling {
                replicas: 1,
                request_s: told.seen.by_replica[0].busy_s / 300.0,
            }],
            decode: vec![Decoding {
                replicas: 1,
                batch: (f64::from(blocks) / (context / 16.0 + 0.5)).floor().min(256.0),
                step_s: G7.decode.seconds(),
            }],
            steps: f64::from(output),
            bytes: relays.bytes as f64 / 300.0,
            links_bytes_per_s: [link as f64; 2],
        };
        let (part, per_s) = demand.balance().limit();
        assert_eq!(part, expected);
        let served = 300.0 / told.seen.whole.duration_s;
        // The pipe fills and empties, and at its end a batch is not full.
        assert!(
            (0.85..1.02).contains(&(served / per_s)),
            "{part:?}: {served} of {per_s}"
        );
    };
    let gb = 1_000_000_000;
    check(2048, 3, 25 * gb, 90_000, Part::Prefill);
    check(2048, 3, gb, 90_000, Part::Links);
    check(256, 200, 25 * gb, 240, Part::Decode);
}

/// C-33: a preempted request is computed again by vLLM (PD-17) and loaded back by SGLang (PD-32).
#[test]
fn whoever_loses_its_memory_on_the_decode_replica_gets_it_back_in_the_engines_own_way() {
    let requests: Vec<Request> = (0..4).map(|id| request(id, Picos(id + 1), 400, 400)).collect();
    let told = |flow| {
        let engines = match flow {
            Flow::Sglang => [
                sglang(40_000, 8192, true).into(),
                sglang(2000, 8192, false).into(),
            ],
            _ => [
                vllm().into(),
                EngineConfig {
                    num_gpu_blocks: 2000 / 16 + 1,
                    ..vllm()
                }
                .into(),
            ],
        };
        let mut spec = pools(flow, 1, 1);
        spec.num_reserved_decode_tokens = 0;
        let told = run(engines, G7, &spec, &requests, false);
        assert_eq!(told.seen.violations, Vec::<String>::new());
        assert!(told.stories.iter().all(|story| story.output_tokens == 400));
        assert!(told.seen.whole.preemptions > 0);
        told.seen.whole.work.recomputed_tokens
    };
    assert!(told(Flow::Nixl) > 400);
    assert_eq!(told(Flow::Sglang), 0);
}
