//! What becomes of replicas with roles: as in a fleet, as often as is said, and for as long as somebody needs them.

use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{
    Change, ChangeKind, ClusterSpec, Disaggregation, Flow, Group, Outages, Payroll, Serves,
};
use plimsoll::engine::{EngineConfig, EngineSpec};
use plimsoll::facts::Outcome;
use plimsoll::sim::{Frontend, Server, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::common::request;
use crate::laws::{FLOWS, by_id, with_prefix};
use crate::setup::{G7, Listed, Told, Upsets, pools, run_upset, sglang, vllm};

const MS: u64 = 1_000_000_000;
const SECOND: u64 = 1000 * MS;

fn change(at: u64, replica: u32, kind: ChangeKind) -> Change {
    let at = Picos(at);
    Change { at, replica, kind }
}

fn engines(flow: Flow) -> [EngineSpec; 2] {
    match flow {
        Flow::Sglang => [
            sglang(40_000, 8192, true).into(),
            sglang(40_000, 8192, false).into(),
        ],
        _ => [caching(), caching()],
    }
}

fn caching() -> EngineSpec {
    let config = EngineConfig {
        enable_prefix_caching: true,
        ..vllm()
    };
    config.into()
}

/// One replica that prefills and one that decodes.
fn pair(flow: Flow, changes: &[Change], outages: Option<Outages>, requests: &[Request]) -> Told {
    let upsets = Upsets {
        changes: changes.to_vec(),
        outages,
        ..Upsets::default()
    };
    let told = run_upset(engines(flow), G7, &pools(flow, 1, 1), &upsets, requests, false);
    assert_eq!(told.seen.violations, Vec::<String>::new());
    told
}

/// Requests twice a second, each of which takes a tenth of it.
fn steady(requests: u64) -> Vec<Request> {
    (0..requests)
        .map(|id| request(id, Picos(id * SECOND / 2), 2048, 3))
        .collect()
}

fn count(told: &Told, outcome: Outcome) -> usize {
    told.stories
        .iter()
        .filter(|story| story.outcome == outcome)
        .count()
}

/// 1,000 cycles: the share of time down has a relative standard error of √(2·0.9²/1000) = 4 %.
const FREQUENT: Outages = Outages {
    mean_up_s: 9.0,
    mean_down_s: 1.0,
};

/// Each replica is down a tenth of the time, so 0.81 find both up, of which one in a hundred meets a failure. Orders to
/// come up that find a replica up do not make it fail more often.
#[test]
fn requests_are_lost_as_often_as_replicas_are_down() {
    for flow in FLOWS {
        for orders in [0usize, 20] {
            let ups: Vec<Change> = (1..=orders)
                .map(|second| change(second as u64 * 10 * SECOND, 1, ChangeKind::Up))
                .collect();
            // One whose first change is to come up is off until then.
            let first = change(0, 1, ChangeKind::Up);
            let changes: Vec<Change> = std::iter::once(first).chain(ups).collect();
            let told = pair(flow, &changes, Some(FREQUENT), &steady(20_000));
            let [completed, failed, refused] =
                [Outcome::Completed, Outcome::Failed, Outcome::Rejected].map(|outcome| count(&told, outcome));
            let name = format!("{flow:?}, {orders} orders: {completed}, {failed}, {refused}");
            assert!((15_700..16_500).contains(&completed), "{name}");
            // A proxy with NIXL finds out late that nobody decodes.
            let [few, many] = match flow {
                Flow::Nixl => [1_700..2_300, 1_650..2_300],
                _ => [3_300..4_250, 50..250],
            };
            assert!(few.contains(&refused) && many.contains(&failed), "{name}");
            // 1,000 cycles more or less, of each of the two.
            let failures = told.service.iter().filter(|change| change.1 < 0).count();
            assert!((1_850..2_150).contains(&failures), "{name}: {failures}");
            let idle = told.payroll.without_effect as usize;
            assert!(idle <= orders && idle >= orders / 2, "{name}: {idle}");
        }
    }
}

/// Whatever chance has in store for it.
#[test]
fn one_that_was_drained_stays_away() {
    for flow in FLOWS {
        for replica in [0, 1] {
            let drains = [change(20_100 * MS, replica, ChangeKind::Drain)];
            let told = pair(flow, &drains, Some(FREQUENT), &steady(2_000));
            let completed = told
                .stories
                .iter()
                .filter(|story| story.outcome == Outcome::Completed);
            let last = completed.clone().map(|story| story.arrival).max();
            assert!(last <= Some(Picos(20 * SECOND)), "{flow:?} {replica}: {last:?}");
            assert!((20..=41).contains(&completed.count()), "{flow:?} {replica}");
        }
    }
}

#[test]
fn one_whose_first_change_is_to_come_up_is_off_until_then() {
    for flow in FLOWS {
        for replica in [0, 1] {
            let comes = [change(100_100 * MS, replica, ChangeKind::Up)];
            let told = pair(flow, &comes, Some(FREQUENT), &steady(2_000));
            let completed = told
                .stories
                .iter()
                .filter(|story| story.outcome == Outcome::Completed);
            let first = completed.map(|story| story.arrival).min();
            assert!(first > Some(Picos(100 * SECOND)), "{flow:?} {replica}: {first:?}");
        }
    }
}

/// One that fails and comes up at one instant has lost who was inside, and serves on.
#[test]
fn changes_of_one_instant_are_taken_as_they_are_given() {
    use ChangeKind::{Fail, Up};
    for flow in FLOWS {
        let fate = |kinds: [ChangeKind; 2]| {
            let changes = kinds.map(|kind| change(10 * SECOND + 50 * MS, 1, kind));
            let told = pair(flow, &changes, None, &steady(40));
            assert_eq!(told.payroll.without_effect, 0);
            [Outcome::Completed, Outcome::Failed, Outcome::Rejected].map(|outcome| count(&told, outcome))
        };
        // The 21st request is decoded from 43 ms on.
        assert_eq!(fate([Fail, Up]), [39, 1, 0], "{flow:?}");
        let nobody = if flow == Flow::Nixl {
            [0, 40, 0]
        } else {
            [0, 0, 40]
        };
        assert_eq!(fate([Up, Fail]), nobody, "{flow:?}");
    }
}

/// G7: prefilled at 30 ms, sent by 40.3 or 42.7 ms, or within the step that prefills, and decoded after that.
#[test]
fn one_that_drains_is_paid_for_as_long_as_somebody_needs_it() {
    let requests = [
        request(0, Picos::ZERO, 2048, 3),
        request(1, Picos(40 * SECOND), 2048, 3),
    ];
    for (flow, read) in [
        (Flow::Nixl, 42_737_418_240),
        (Flow::P2pNccl, 30_335_544_320),
        (Flow::Sglang, 40_737_418_240),
    ] {
        let told = pair(flow, &[change(10 * MS, 0, ChangeKind::Drain)], None, &requests);
        assert_eq!(
            (told.payroll.drained, told.payroll.paid[0]),
            (1, Picos(read)),
            "{flow:?}"
        );
        // Nobody has come to the decode replica yet when it drains, but somebody will, or will not.
        let told = pair(flow, &[change(10 * MS, 1, ChangeKind::Drain)], None, &requests);
        let story = &by_id(&told)[0];
        let (outcome, until) = match flow {
            Flow::Nixl => (Outcome::Failed, Picos(10 * MS)),
            _ => (Outcome::Completed, story.end),
        };
        assert_eq!(story.outcome, outcome, "{flow:?}");
        assert_eq!(
            (told.payroll.drained, told.payroll.paid[1]),
            (1, until),
            "{flow:?}"
        );
    }
    // What nobody will read is kept until its lease ends, 30 s after the prefill.
    let changes = [
        change(40 * MS, 1, ChangeKind::Fail),
        change(41 * MS, 0, ChangeKind::Drain),
    ];
    let told = pair(Flow::Nixl, &changes, None, &requests);
    assert_eq!(told.payroll.paid[0], Picos(30_030 * MS));
}

/// One that was given back comes up with nothing in its cache, one that was called back in time has all.
#[test]
fn one_that_starts_again_has_an_empty_cache() {
    use ChangeKind::{Drain, Up};
    let requests = [0, 10 * SECOND].map(|at| with_prefix(request(at, Picos(at), 2048, 3), 2048));
    for flow in FLOWS {
        let cached = |changes: [(u64, ChangeKind); 2]| {
            let changes = changes.map(|(at, kind)| change(at, 0, kind));
            let told = pair(flow, &changes, None, &requests);
            assert_eq!(count(&told, Outcome::Completed), 2);
            by_id(&told)[1].cached_tokens
        };
        assert!(cached([(10 * MS, Drain), (20 * MS, Up)]) > 2000, "{flow:?}");
        assert_eq!(cached([(10 * MS, Drain), (SECOND, Up)]), 0, "{flow:?}");
    }
}

/// What became of the replicas of `spec` by `end`, while nobody sends anything.
fn lives_of(spec: &ClusterSpec, flow: Flow, end: Picos) -> (Payroll, Vec<(Picos, i32)>) {
    let decodes = |replica: u32| {
        spec.disaggregation
            .as_ref()
            .is_some_and(|pools| replica >= pools.prefill)
    };
    let server = |replica: u32| Server {
        engine: engines(flow)[usize::from(decodes(replica))].clone(),
        cost: Box::new(G7),
        frontend: Frontend::default(),
    };
    let servers = (0..spec.replicas).map(server).collect();
    let traffic = Listed([request(0, Picos(2 * end.0), 16, 2)].into());
    let mut simulation = Simulation::of_servers(servers, spec, 5, traffic);
    let until = Until {
        time: end,
        ..Until::DRAINED
    };
    simulation.advance(until, &mut Nobody);
    (simulation.payroll(), simulation.service().to_vec())
}

struct Nobody;

impl plimsoll::facts::Observer for Nobody {
    fn observe(&mut self, _: &plimsoll::facts::Fact<'_>) {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    /// Orders and chance make of replicas with roles what they make of a fleet in two groups of as many, the same draws
    /// included.
    #[test]
    fn replicas_live_as_in_a_fleet(
        (x, y) in (1u32..3, 1u32..3),
        which in 0usize..3,
        changes in prop::collection::vec((0u64..10, 0u32..4, 0usize..3), 0..12),
        outages in prop::option::of((0.5f64..9.0, 0.1f64..3.0)),
    ) {
        let flow = FLOWS[which];
        let kinds = [ChangeKind::Fail, ChangeKind::Up, ChangeKind::Drain];
        let mut changes: Vec<Change> = changes
            .into_iter()
            .map(|(at, replica, kind)| change(at * SECOND, replica % (x + y), kinds[kind]))
            .collect();
        changes.sort_by_key(|change| change.at);
        let group = |members: std::ops::Range<u32>| Group {
            policy: Policy::RoundRobin,
            members: members.collect(),
            serves: Serves::default(),
        };
        let fleet = ClusterSpec {
            changes,
            outages: outages.map(|(mean_up_s, mean_down_s)| Outages { mean_up_s, mean_down_s }),
            groups: vec![group(0..x), group(x..x + y)],
            ..ClusterSpec::of(x + y, Policy::RoundRobin)
        };
        let roles = ClusterSpec {
            disaggregation: Some(Disaggregation { ..pools(flow, x, y) }),
            ..fleet.clone()
        };
        let end = Picos(30 * SECOND);
        let apart = lives_of(&roles, flow, end);
        prop_assert_eq!(&apart, &lives_of(&fleet, flow, end));
        // The books of who serves agree with themselves.
        let mut serving = 0;
        for &(_, more) in &apart.1 {
            serving += more;
            prop_assert!((0..=(x + y) as i32).contains(&serving));
        }
    }
}
