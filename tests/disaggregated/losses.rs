//! Replicas that fail, transfers that fail, leases and first contacts: timelines, and laws of every flow.

use plimsoll::cluster::router::{KvEvents, Overlap, Policy};
use plimsoll::cluster::{Change, ChangeKind, Disaggregation, Flow, Lease, LinkRate, LoadFailure, Outages};
use plimsoll::engine::{EngineConfig, EngineSpec};
use plimsoll::facts::{Completion, Outcome};
use plimsoll::ids::ReplicaId;
use plimsoll::metrics::Stage;
use plimsoll::sim::{Frontend, Pause, Retries};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::common::request;
use crate::laws::{FLOWS, by_id, coming, engines, with_prefix};
use crate::setup::{G7, PlainCost, Told, Upsets, pools, run, run_upset, sglang, vllm};

const MS: u64 = 1_000_000_000;
const SECOND: u64 = 1000 * MS;

fn change(at: u64, replica: u32, kind: ChangeKind) -> Change {
    Change {
        at: Picos(at),
        replica,
        kind,
    }
}

/// Golden example G7 with these changes: P is replica 0, D replica 1.
fn upset(spec: &Disaggregation, changes: &[(u64, u32, ChangeKind)], requests: &[Request]) -> Told {
    let upsets = Upsets {
        changes: changes
            .iter()
            .map(|&(at, replica, kind)| change(at, replica, kind))
            .collect(),
        ..Upsets::default()
    };
    let engines = match spec.flow {
        Flow::Sglang => [
            sglang(40_000, 8192, true).into(),
            sglang(40_000, 8192, false).into(),
        ],
        _ => [vllm().into(), vllm().into()],
    };
    let told = run_upset(engines, G7, spec, &upsets, requests, false);
    assert_eq!(told.seen.violations, Vec::<String>::new());
    assert_eq!(told.pause, Pause::Drained);
    told
}

fn lone() -> [Request; 1] {
    [request(0, Picos::ZERO, 2048, 3)]
}

/// G7's read lasts from 32 to 42.7 ms.
#[test]
fn kv_that_is_lost_while_it_is_read_is_computed_again_or_fails_its_request() {
    let fails = [(40 * MS, 0, ChangeKind::Fail)];
    let mut spec = pools(Flow::Nixl, 1, 1);
    let story = &upset(&spec, &fails, &lone()).stories[0];
    assert_eq!((story.outcome, story.end), (Outcome::Failed, Picos(40 * MS)));
    assert_eq!((story.output_tokens, story.replica.0), (0, 1));
    spec.on_load_failure = LoadFailure::Recompute;
    let told = upset(&spec, &fails, &lone());
    // D's loop looks at 40 ms, computes 2048 tokens for 30 ms, and two steps of 8 ms follow.
    let story = &told.stories[0];
    assert_eq!(story.first_token, Some(Picos(70 * MS)));
    assert_eq!((story.outcome, story.end), (Outcome::Completed, Picos(86 * MS)));
    let relays = told.seen.relays.unwrap();
    assert_eq!((relays.bytes, relays.messages), (0, 0));
    assert!((relays.stage_s(Stage::DecodeStep) - 0.030).abs() < 1e-12);
    // What was pushed, or is on its decode server, does not miss its prefill server.
    let told = upset(
        &pools(Flow::P2pNccl, 1, 1),
        &[(31 * MS, 0, ChangeKind::Fail)],
        &lone(),
    );
    assert_eq!(told.stories[0].first_token, Some(Picos(40_335_544_320)));
    let story = &upset(&pools(Flow::Sglang, 1, 1), &fails, &lone()).stories[0];
    assert_eq!((story.outcome, story.end), (Outcome::Failed, Picos(40 * MS)));
    let late = [(41 * MS, 0, ChangeKind::Fail)];
    let story = &upset(&pools(Flow::Sglang, 1, 1), &late, &lone()).stories[0];
    assert_eq!(story.outcome, Outcome::Completed);
}

#[test]
fn whoever_is_on_a_replica_that_fails_fails_with_it_in_every_flow() {
    for flow in FLOWS {
        for (at, replica, told_by) in [(10 * MS, 0, 0), (50 * MS, 1, 1)] {
            let story = &upset(&pools(flow, 1, 1), &[(at, replica, ChangeKind::Fail)], &lone()).stories[0];
            let expected = (Outcome::Failed, Picos(at), told_by);
            assert_eq!((story.outcome, story.end, story.replica.0), expected, "{flow:?}");
        }
    }
}

/// Nobody is sent to a replica that is down, and who would have to be is refused, or fails where a proxy finds out late.
#[test]
fn a_pool_without_replicas_serves_nobody() {
    for flow in FLOWS {
        for replica in [0, 1] {
            let fails = [(0, replica, ChangeKind::Fail), (SECOND, replica, ChangeKind::Up)];
            let requests = [
                request(0, Picos(MS), 2048, 3),
                request(1, Picos(2 * SECOND), 2048, 3),
            ];
            let told = upset(&pools(flow, 1, 1), &fails, &requests);
            let late = (flow, replica) == (Flow::Nixl, 1);
            let lost = if late { Outcome::Failed } else { Outcome::Rejected };
            let outcomes: Vec<Outcome> = by_id(&told).iter().map(|story| story.outcome).collect();
            assert_eq!(outcomes, [lost, Outcome::Completed], "{flow:?} {replica}");
        }
    }
}

/// PD-8: P has room for one prompt, and D is gone with the first one.
#[test]
fn blocks_of_a_reader_that_is_lost_stay_until_their_lease_ends() {
    let small = EngineConfig {
        num_gpu_blocks: 130,
        ..vllm()
    };
    let requests = [
        request(0, Picos::ZERO, 2048, 3),
        request(1, Picos(7 * SECOND), 2048, 3),
    ];
    let begins = |lease: Lease, fails_at: u64, rate: u64| {
        let mut spec = Disaggregation {
            lease,
            ..pools(Flow::Nixl, 1, 1)
        };
        spec.links[1].receive = rate;
        let upsets = Upsets {
            changes: vec![
                change(fails_at, 1, ChangeKind::Fail),
                change(fails_at + MS, 1, ChangeKind::Up),
            ],
            ..Upsets::default()
        };
        let engines = [small.clone().into(), vllm().into()];
        let told = run_upset(engines, G7, &spec, &upsets, &requests, false);
        assert_eq!(told.seen.violations, Vec::<String>::new());
        let stories = by_id(&told);
        assert_eq!(stories[0].outcome, Outcome::Failed);
        (
            stories[1].first_scheduled.0,
            told.seen.relays.unwrap().held_blocks,
        )
    };
    let lease = Lease::Renewed(Picos(30 * SECOND));
    // While the lease is D's own, at 40 ms, it ends 30 s after the prefill. The last heartbeat, 5 s after the start, gives
    // 20 s more, which is less.
    let (first, held) = begins(lease, 40 * MS, 25_000_000_000);
    assert_eq!(first, 30_030 * MS);
    assert!(held > 100.0, "{held}");
    // A read that takes 107 s fails at 50 s: the heartbeat then is the last.
    assert_eq!(begins(lease, 50 * SECOND, 2_500_000).0, 70 * SECOND);
    let fixed = Lease::Fixed(Picos(120 * SECOND));
    assert_eq!(begins(fixed, 50 * SECOND, 2_500_000).0, 120_030 * MS);
}

/// vLLM 0.11: what waits for memory on D for longer than the timeout finds nothing to read.
#[test]
fn a_timeout_without_renewal_takes_kv_from_whoever_waits_for_it() {
    let mut spec = pools(Flow::Nixl, 1, 1);
    spec.lease = Lease::Fixed(Picos(SECOND));
    spec.on_load_failure = LoadFailure::Recompute;
    let small = EngineConfig {
        num_gpu_blocks: 200,
        ..vllm()
    };
    // The first holds D's memory for 300 steps of 8 ms.
    let requests = [request(0, Picos::ZERO, 2048, 300), request(1, Picos(MS), 2048, 3)];
    let told = run([vllm().into(), small.into()], G7, &spec, &requests, false);
    assert_eq!(told.seen.violations, Vec::<String>::new());
    let stories = by_id(&told);
    assert!(stories.iter().all(|story| story.outcome == Outcome::Completed));
    // One prompt was read, the other computed a second time.
    assert_eq!(told.seen.relays.unwrap().bytes, 268_435_456);
    let after = stories[1].first_token.unwrap() - stories[0].end;
    assert!(after >= Picos(30 * MS), "{after}");
}

/// PD-13: once for a pair.
#[test]
fn the_first_contact_of_a_pair_costs_a_handshake() {
    let mut spec = pools(Flow::Nixl, 1, 1);
    spec.handshake = Picos(200 * MS);
    let requests = [
        request(0, Picos::ZERO, 2048, 3),
        request(1, Picos(10 * SECOND), 2048, 3),
    ];
    let told = upset(&spec, &[], &requests);
    let ttfts: Vec<Picos> = by_id(&told)
        .iter()
        .map(|story| story.first_token.unwrap() - story.arrival)
        .collect();
    assert_eq!(ttfts, [Picos(251 * MS), Picos(51 * MS)]);
    // A replica that comes back is a stranger.
    let back = [(5 * SECOND, 1, ChangeKind::Fail), (6 * SECOND, 1, ChangeKind::Up)];
    let told = upset(&spec, &back, &requests);
    let last: &Completion = &by_id(&told)[1];
    assert_eq!(last.first_token, Some(Picos(10 * SECOND + 251 * MS)));
}

#[test]
fn every_transfer_may_fail() {
    let mut spec = pools(Flow::Nixl, 1, 1);
    spec.transfer_failure_rate = 1.0;
    let story = &upset(&spec, &[], &lone()).stories[0];
    assert_eq!(
        (story.outcome, story.end),
        (Outcome::Failed, Picos(42_737_418_240))
    );
    spec.on_load_failure = LoadFailure::Recompute;
    let story = &upset(&spec, &[], &lone()).stories[0];
    // Seen at 43 ms, 30 ms of prompt.
    assert_eq!(story.first_token, Some(Picos(73 * MS)));
    spec.flow = Flow::Sglang;
    let story = &upset(&spec, &[], &lone()).stories[0];
    assert_eq!(
        (story.outcome, story.end),
        (Outcome::Failed, Picos(40_737_418_240))
    );
    let half = |flow| {
        let requests: Vec<Request> = (0..400)
            .map(|id| request(id, Picos(id * SECOND), 64, 2))
            .collect();
        let spec = Disaggregation {
            transfer_failure_rate: 0.5,
            ..pools(flow, 1, 1)
        };
        let told = upset(&spec, &[], &requests);
        told.stories
            .iter()
            .filter(|story| story.outcome == Outcome::Failed)
            .count()
    };
    for flow in [Flow::Nixl, Flow::Sglang] {
        let failed = half(flow);
        assert!((150..250).contains(&failed), "{failed}");
    }
}

/// The same engines, which refuse whom they have no room for in a queue of so many.
fn shut(mut engines: [EngineSpec; 2], queues: [Option<u32>; 2]) -> [EngineSpec; 2] {
    for (engine, queue) in engines.iter_mut().zip(queues) {
        match engine {
            EngineSpec::Vllm(config) => config.max_num_queued_reqs = queue,
            EngineSpec::Sglang(config) => config.max_queued_requests = queue,
            EngineSpec::Scheduled(_) | EngineSpec::Trtllm(_) => unreachable!("nobody separates these"),
        }
    }
    engines
}

fn policies() -> impl Strategy<Value = Policy> {
    let approximate = KvEvents {
        overlap: Overlap::Approximate { ttl: Picos(300 * MS) },
        ..KvEvents::default()
    };
    prop_oneof![
        Just(Policy::RoundRobin),
        Just(Policy::LeastRequests),
        Just(Policy::LeastTokens),
        Just(Policy::KvEvents(KvEvents::default())),
        Just(Policy::KvEvents(approximate)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whoever is refused, fails or is given up leaves the books of both routers: where nothing is cached, requests that come
    /// alone long after fare as if nobody had come before them.
    #[test]
    fn routers_forget_whoever_left_however_it_left(
        (which, policy, recompute) in (0usize..3, 1usize..4, any::<bool>()),
        (x, y) in (1u32..4, 1u32..4),
        queues in prop::array::uniform2(prop::option::of(1u32..5)),
        (handshake, failures) in (0u64..400_000_000_000, prop::option::of(0.0f64..0.5)),
        changes in prop::collection::vec((0u64..60_000_000_000, 0u32..6, 0usize..4), 0..12),
        retries in prop::option::of((1u32..4, 0u64..5_000_000_000)),
        wishes in prop::collection::vec(
            (0u64..2_000_000_000, 1u32..500, 1u32..200, 0u32..1, prop::option::weighted(0.2, 1u64..60_000_000_000)),
            1..30,
        ),
    ) {
        let flow = FLOWS[which];
        let policy = [
            Policy::RoundRobin, Policy::LeastRequests, Policy::LeastTokens, Policy::KvEvents(KvEvents::default()),
        ][policy];
        let spec = Disaggregation {
            prefill_policy: policy,
            decode_policy: policy,
            on_load_failure: if recompute { LoadFailure::Recompute } else { LoadFailure::Fail },
            transfer_failure_rate: failures.filter(|_| flow != Flow::P2pNccl).unwrap_or(0.0),
            num_reserved_decode_tokens: 32,
            ..pools(flow, x, y)
        };
        let late = 1000 * SECOND;
        let tail = |first: u64| -> Vec<Request> {
            (0..8).map(|nth| request(first + nth, Picos((2 + nth) * late), 300, 20)).collect()
        };
        let mut requests = coming(&wishes);
        let before = requests.len() as u64;
        requests.extend(tail(before));
        let kinds = [ChangeKind::Fail, ChangeKind::Fail, ChangeKind::Up, ChangeKind::Drain];
        let mut changes: Vec<Change> = changes
            .into_iter()
            .map(|(at, replica, kind)| change(at, replica % (x + y), kinds[kind]))
            .collect();
        changes.sort_by_key(|change| change.at);
        changes.extend((0..x + y).map(|replica| change(late, replica, ChangeKind::Up)));
        let upsets = Upsets {
            changes,
            retries: retries.map(|(most, backoff)| Retries {
                most,
                backoff: Picos(backoff),
                on_failure: true,
                on_refusal: true,
            }),
            ..Upsets::default()
        };
        let first_contact = Disaggregation { handshake: Picos(handshake), ..spec.clone() };
        let after = |spec: &Disaggregation, upsets: &Upsets, requests: &[Request], first: u64| {
            let engines = shut(engines(flow, [1600, 1600], false, false), queues);
            let told = run_upset(engines, G7, spec, upsets, requests, false);
            let stories = by_id(&told).into_iter().filter(|story| story.id.0 >= first);
            // Of replicas that nothing tells apart the router of KV events takes any.
            let replica = |story: &Completion| match policy {
                Policy::KvEvents(_) => ReplicaId(0),
                _ => story.replica,
            };
            let fate = |story: Completion| (story.id.0 - first, replica(&story), story.first_token, story.end);
            stories.map(fate).collect::<Vec<_>>()
        };
        // Who failed is a draw where transfers fail by chance, and who knows whom is left from before.
        match failures {
            Some(_) => drop(after(&first_contact, &upsets, &requests, before)),
            None => prop_assert_eq!(
                after(&spec, &upsets, &requests, before),
                after(&spec, &Upsets::default(), &tail(0), 0)
            ),
        }
    }

    /// Everybody ends once, every law of the recorder holds, a run that is watched is the run that is not, and all
    /// memory comes back to whoever is up at the end: a last request needs all of it on both sides.
    #[test]
    fn nothing_is_lost_but_what_is_told(
        (which, policies) in (0usize..3, prop::array::uniform2(policies())),
        (x, y) in (1u32..4, 1u32..4),
        (tokens, queues) in (
            prop::array::uniform2(800u32..2400), prop::array::uniform2(prop::option::weighted(0.3, 1u32..6)),
        ),
        (overlap, caches, recompute, fixed) in any::<(bool, bool, bool, bool)>(),
        (rate, buffer, hop, front) in (
            1u64..30, 0u64..400_000_000, 0u64..3_000_000_000, prop::option::of((0u64..4_000_000_000, 0u64..4_000_000_000)),
        ),
        (handshake, lease_s, failures) in (0u64..400_000_000_000, 1u64..40, prop::option::of(0.0f64..0.5)),
        cost in (1_000_000_000u64..60_000_000_000, 100_000_000u64..5_000_000_000, 0u64..400_000),
        changes in prop::collection::vec((0u64..60_000_000_000, 0u32..6, 0usize..4), 0..12),
        outages in prop::option::weighted(0.3, (0.01f64..0.2, 0.001f64..0.05)),
        retries in prop::option::of((1u32..4, 0u64..5_000_000_000)),
        wishes in prop::collection::vec(
            (0u64..4_000_000_000, 1u32..500, 1u32..200, 0u32..400, prop::option::weighted(0.2, 1u64..60_000_000_000)),
            1..30,
        ),
    ) {
        let flow = FLOWS[which];
        let link = LinkRate { send: rate * 1_000_000_000, receive: 10_000_000_000 };
        let lease = Picos(lease_s * SECOND);
        // From the end of a prompt to its decode server: a lease that does not outlast it fails whoever comes alone, too.
        let way = 2 * hop + front.map_or(0, |(work, delay)| work + delay + delay / 3);
        let spec = Disaggregation {
            links: vec![link; (x + y) as usize],
            latency: Picos(30_000_000),
            hop: Picos(hop),
            handshake: Picos(handshake),
            lease: if fixed { Lease::Fixed(Picos(lease.0 / 100 + way)) } else { Lease::Renewed(lease) },
            on_load_failure: if recompute { LoadFailure::Recompute } else { LoadFailure::Fail },
            transfer_failure_rate: failures.unwrap_or(0.0),
            receive_buffer: buffer,
            num_reserved_decode_tokens: 32,
            prefill_policy: policies[0],
            decode_policy: policies[1],
            ..pools(flow, x, y)
        };
        let cost = PlainCost { prompt_2048: Picos(cost.0), decode: Picos(cost.1), per_kv_token: Picos(cost.2) };
        let mut requests = coming(&wishes);
        let now = requests[requests.len() - 1].arrival.0;
        let kinds = [ChangeKind::Fail, ChangeKind::Fail, ChangeKind::Up, ChangeKind::Drain];
        let mut changes: Vec<Change> = changes
            .into_iter()
            .map(|(at, replica, kind)| change(at, replica % (x + y), kinds[kind]))
            .collect();
        changes.sort_by_key(|change| change.at);
        let is_calm = failures.is_none() && outages.is_none();
        let late = now + 1000 * SECOND;
        changes.extend((0..x + y).map(|replica| change(late, replica, ChangeKind::Up)));
        let pairs = if is_calm { x * y } else { 0 };
        for pair in 0..u64::from(pairs) {
            let whole = tokens[0].min(tokens[1]) / 16 * 16 - 80;
            let at = Picos(late + (1 + pair) * 10_000 * SECOND);
            requests.push(with_prefix(request(requests.len() as u64, at, whole, 2), 0));
        }
        let upsets = Upsets {
            changes,
            outages: outages.map(|(mean_up_s, mean_down_s)| Outages { mean_up_s, mean_down_s }),
            retries: retries.map(|(most, backoff)| Retries {
                most,
                backoff: Picos(backoff),
                on_failure: true,
                on_refusal: true,
            }),
            frontend: front.map_or_else(Frontend::default, |(work, delay)| Frontend {
                request_service: Picos(work),
                request_delay: Picos(delay),
                response_delay: Picos(delay / 3),
                ..Frontend::default()
            }),
        };
        let engines = || shut(engines(flow, tokens, overlap, caches), queues);
        let told = run_upset(engines(), cost, &spec, &upsets, &requests, false);
        prop_assert_eq!(told.pause, Pause::Drained);
        prop_assert_eq!(&told.seen.violations, &Vec::<String>::new());
        let mut ids: Vec<u64> = told.stories.iter().map(|story| story.id.0).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..requests.len() as u64).collect::<Vec<_>>());
        for story in by_id(&told).iter().rev().take(pairs as usize) {
            prop_assert_eq!(story.outcome, Outcome::Completed);
        }
        let watched = run_upset(engines(), cost, &spec, &upsets, &requests, true);
        prop_assert_eq!(by_id(&told), by_id(&watched));
    }
}
