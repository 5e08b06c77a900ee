//! What becomes of replicas: failures, drains, wishes, and how long each takes.

use super::*;
use crate::cluster::router::Policy;
use crate::cluster::spec::Change;
use crate::cluster::{Disaggregation, Signal};
use ChangeKind::{Drain, Fail, Up};

const OUTAGES: Outages = Outages {
    mean_up_s: 300.0,
    mean_down_s: 100.0,
};

/// The second replica of a fleet of two, and the one that decodes of two with roles.
fn each_kind(changes: &[(u64, ChangeKind)], outages: Option<Outages>, claim: impl Fn(Lives)) {
    let change = |&(at, kind): &(u64, ChangeKind)| Change {
        at: Picos(at),
        replica: 1,
        kind,
    };
    let fleet = ClusterSpec {
        changes: changes.iter().map(change).collect(),
        outages,
        ..ClusterSpec::of(2, Policy::RoundRobin)
    };
    let pools = ClusterSpec {
        disaggregation: Some(Disaggregation::plain(1, 1)),
        ..fleet.clone()
    };
    for spec in [fleet, pools] {
        claim(Lives::new(&spec, 7));
    }
}

/// (when, what) becomes of `replica` until `end`.
fn story_of(replica: usize, lives: &mut Lives, end: Picos) -> Vec<(Picos, ChangeKind)> {
    let mut story = Vec::new();
    while let Some(at) = lives.next_change().filter(|&at| at <= end) {
        while let Some(turn) = lives.take_due(at) {
            if turn.replica == replica {
                story.push((at, turn.kind));
            }
        }
    }
    story
}

fn story(lives: &mut Lives, end: Picos) -> Vec<(Picos, ChangeKind)> {
    story_of(1, lives, end)
}

#[test]
fn what_changes_nothing_is_counted() {
    let given = [
        (1, Fail),
        (2, Fail),
        (3, Up),
        (4, Up),
        (5, Drain),
        (6, Drain),
        (7, Up),
    ];
    each_kind(&given, None, |mut lives| {
        let told: Vec<u64> = story(&mut lives, Picos(9))
            .iter()
            .map(|change| change.0.0)
            .collect();
        assert_eq!(told, [1, 3, 5, 7]);
        assert_eq!(lives.payroll(Picos(9)).without_effect, 3);
    });
}

#[test]
fn changes_of_one_instant_are_taken_as_they_are_given() {
    for (given, stage) in [([Fail, Up], Stage::Serving), ([Up, Fail], Stage::Failed)] {
        each_kind(&given.map(|kind| (5, kind)), None, |mut lives| {
            let told = story(&mut lives, Picos(9));
            assert_eq!(told, given.map(|kind| (Picos(5), kind)));
            assert_eq!(lives.stage(1), stage);
            assert_eq!(lives.payroll(Picos(9)).without_effect, 0);
        });
    }
}

#[test]
fn one_that_fails_while_it_drains_is_given_back() {
    each_kind(&[(1, Drain), (4, Fail)], None, |mut lives| {
        story(&mut lives, Picos(9));
        assert_eq!(lives.stage(1), Stage::Off);
        let payroll = lives.payroll(Picos(9));
        assert_eq!(payroll.paid, [Picos(9), Picos(4)]);
        assert_eq!((payroll.drained, lives.draining()), (1, [].as_slice()));
    });
}

/// Failures and recoveries take turns, as often as their means say, also where the scenario interferes.
///
/// With rates λ = 1/300 s and μ = 1/100 s a replica is up a share of 3/4 in the long run, to which it returns as
/// exp(−(λ + μ)t), within 75 s. In 1,000 s after a failure it is up for 750 − 75·3/4 s, after a start for
/// 750 + 75/4 s, so it fails by itself 2.3125 and 2.5625 times; of those that the scenario wants 3/4 find it up.
#[test]
fn chance_has_one_clock_for_each_stage() {
    let interfered: Vec<(u64, ChangeKind)> = (0..2_000)
        .map(|i| (i * 1_000_000_000_000_000, [Fail, Up][i as usize % 2]))
        .collect();
    // An alternating renewal process of such means counts with 5/8 of Poisson's variance: four standard deviations.
    for (given, failures) in [(Vec::new(), 4_780..5_220), (interfered, 5_395..5_855)] {
        each_kind(&given, Some(OUTAGES), |mut lives| {
            let story = story(&mut lives, Picos::from_seconds(2_000_000.0));
            assert!(
                story.windows(2).all(|pair| pair[0].1 != pair[1].1),
                "they take turns"
            );
            let told = story.iter().filter(|change| change.1 == Fail).count();
            assert!(
                failures.contains(&told),
                "{told} failures, not {failures:?}, in 2,000,000 s"
            );
        });
    }
}

#[test]
fn one_that_was_drained_does_not_come_back_by_itself() {
    each_kind(&[(1, Drain)], Some(OUTAGES), |mut lives| {
        let told = story(&mut lives, Picos::from_seconds(1e6));
        let after: Vec<ChangeKind> = told.into_iter().map(|change| change.1).collect();
        assert_eq!(after, [Drain, Fail]);
        assert_eq!(lives.stage(1), Stage::Off);
    });
}

#[test]
fn one_that_is_off_does_not_fail_before_it_comes_up() {
    let late = Picos::from_seconds(1e6);
    each_kind(&[(late.0, Up)], Some(OUTAGES), |mut lives| {
        assert_eq!(story(&mut lives, late)[0], (late, Up));
    });
}

/// Half of such draws and more are beyond the 213 days of the clock: those failures do not come.
#[test]
fn failures_beyond_the_clock_do_not_come() {
    let day_s = 86_400.0;
    let rare = Outages {
        mean_up_s: 200.0 * day_s,
        mean_down_s: 200.0 * day_s,
    };
    let spec = ClusterSpec {
        outages: Some(rare),
        ..ClusterSpec::of(1_000, Policy::RoundRobin)
    };
    let mut lives = Lives::new(&spec, 7);
    let mut failures = 0;
    while let Some(at) = lives.next_change() {
        while let Some(turn) = lives.take_due(at) {
            failures += u32::from(turn.kind == Fail && turn.from == Stage::Serving);
        }
    }
    // 1 − exp(−213.5/200) of 1,000 fail once, and few come back and fail again.
    assert!((656..800).contains(&failures), "{failures}");
    assert!(lives.lives.iter().any(|life| life.number == 0));
}

/// What befalls a replica is the same however many there are behind it, and in other pools.
#[test]
fn each_replica_has_draws_of_its_own() {
    let end = Picos::from_seconds(100_000.0);
    let outages = Some(OUTAGES);
    let fleet = |replicas| ClusterSpec {
        outages,
        ..ClusterSpec::of(replicas, Policy::RoundRobin)
    };
    let pools = |prefill: u32, decode: u32| ClusterSpec {
        disaggregation: Some(Disaggregation::plain(prefill, decode)),
        ..fleet(prefill + decode)
    };
    let befalls = |spec: &ClusterSpec, replica: usize| story_of(replica, &mut Lives::new(spec, 7), end);
    for replica in 0..2 {
        assert_eq!(befalls(&fleet(2), replica), befalls(&fleet(3), replica));
        assert_eq!(
            befalls(&pools(1, 2), 1 + replica),
            befalls(&pools(3, 3), 3 + replica)
        );
    }
    assert!(befalls(&fleet(2), 0).len() > 100);
    assert_ne!(befalls(&fleet(2), 0), befalls(&fleet(2), 1));
    assert_ne!(befalls(&pools(1, 1), 0), befalls(&pools(1, 1), 1));
}

#[test]
fn a_start_that_is_cancelled_does_not_come_up_and_is_paid_for_until_then() {
    let scaler = Autoscale {
        members: vec![0, 1],
        at_first: 1,
        least: 1,
        signal: Signal::InFlight,
        target: 1.0,
        interval: Picos(1),
        startup: Picos(10),
        scale_in_delay: Picos(0),
    };
    let spec = ClusterSpec {
        scalers: vec![scaler],
        ..ClusterSpec::of(2, Policy::RoundRobin)
    };
    let mut lives = Lives::new(&spec, 7);
    lives.start(1, Picos(5), Picos(10));
    lives.cancel(1, Picos(8));
    assert_eq!(story(&mut lives, Picos(99)), []);
    let payroll = lives.payroll(Picos(99));
    assert_eq!(payroll.paid, [Picos(99), Picos(3)]);
    assert_eq!((payroll.started, payroll.cancelled, payroll.drained), (1, 1, 0));
}
