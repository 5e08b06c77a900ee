//! The knee of M/M/1 is where the closed form has it.

use super::*;
use crate::analysis::knee::{Constraint, Objective, Statistic};
use crate::analysis::{Decision, LoadKind, Precision, Verdict, decide, judge};
use crate::metrics::single_server::{self, Server};
use crate::metrics::{Fleet, Metric, Recorder, RecorderOptions, Records, SloLimits};
use crate::units::Picos;

/// M/M/1 with unit service, run as long as its precision asks.
pub(super) fn mm1(rate: f64, limit_s: f64, objective: &Objective) -> Point {
    let fleet = Fleet::alike(1, 100, 16);
    let slo = SloLimits {
        e2el: Some(Picos::from_seconds(limit_s)),
        ..SloLimits::default()
    };
    let precision = Precision {
        relative: 0.1,
        min_requests: 4_000,
        max_requests: 40_000,
        ..Precision::default()
    };
    let mut requests = 4_000;
    loop {
        let mut recorder = Recorder::new(RecorderOptions {
            fleet: fleet.clone(),
            slo,
            records: Records::None,
        });
        let server = Server {
            stop_early: true,
            ..Server::mm1(rate, requests, 11)
        };
        let end = single_server::run(&server, &mut recorder);
        match decide(&recorder, LoadKind::Open, &precision) {
            Decision::Continue(more) => requests += more,
            Decision::Stop(_) => {
                return Point::of(
                    rate,
                    &judge(recorder.finish(end), LoadKind::Open, &precision),
                    objective,
                );
            }
        }
    }
}

/// Replicas that fail take a queue with them, which keeps it from growing: that is no way to keep up. A few lost in batches are.
#[test]
fn a_queue_that_failures_take_away_is_not_kept_up_with() {
    let mut recorder = Recorder::new(RecorderOptions {
        fleet: Fleet::alike(1, 100, 16),
        slo: SloLimits::default(),
        records: Records::None,
    });
    let end = single_server::run(&Server::mm1(0.5, 20_000, 11), &mut recorder);
    let mut run = judge(recorder.finish(end), LoadKind::Open, &Precision::default());
    let keeps_up = |run: &crate::analysis::RunResult| Point::of(0.5, run, &Objective::default()).keeps_up();
    assert!(keeps_up(&run));
    let steady = run.steady.as_mut().unwrap();
    (steady.failed, steady.completed) = (steady.completed / 2, steady.completed / 2);
    (steady.occupancy.in_system, steady.occupancy.running) = (3.0, 2.0);
    assert!(keeps_up(&run), "half of a batch is lost with it");
    run.steady.as_mut().unwrap().occupancy.in_system = 42.0;
    assert!(!keeps_up(&run));
}

#[test]
fn the_knee_of_m_m_1_is_where_the_closed_form_has_it() {
    // P(sojourn ≤ x) = 1 − e^−(μ−λ)x = 0.95 at x = 10: λ = 1 − ln 20 / 10 = 0.700.
    let objective = Objective {
        attainment: Some(0.95),
        ..Objective::default()
    };
    let options = SearchOptions {
        start_rate: 0.02,
        tolerance: 0.03,
        points_max: 25,
        ..SearchOptions::default()
    };
    let knee = search(|rate, _| Some(mm1(rate, 10.0, &objective)), &options);
    let truth = 1.0 - 20f64.ln() / 10.0;
    let within = knee.within_slo.unwrap();
    assert!(within.low <= truth && truth <= within.high, "{within:?}");
    assert!(within.high - within.low < 0.2, "{within:?}");
    let saturation = knee.saturation.unwrap();
    assert!(saturation.low <= 1.0 && 1.0 <= saturation.high, "{saturation:?}");
    assert!(saturation.high - saturation.low < 0.2, "{saturation:?}");
    let overloaded = knee
        .points
        .iter()
        .filter(|point| point.verdict == Verdict::Unstable);
    assert!(
        overloaded
            .clone()
            .all(|point| point.ttft_s.is_none() && point.slack.is_none())
    );
    assert!(
        overloaded
            .filter(|point| point.rate > 1.2)
            .all(|point| point.requests <= 6_000)
    );
}

#[test]
fn a_percentile_limit_gives_the_same_knee_as_its_attainment() {
    let p95 = Constraint {
        metric: Metric::E2el,
        statistic: Statistic::Quantile(0.95),
        limit_s: 10.0,
    };
    let by_share = Objective {
        attainment: Some(0.95),
        ..Objective::default()
    };
    let by_value = Objective {
        constraints: vec![p95],
        ..Objective::default()
    };
    let options = SearchOptions {
        start_rate: 0.5,
        tolerance: 0.05,
        points_max: 15,
        ..SearchOptions::default()
    };
    let rate = |objective: &Objective| {
        search(|rate, _| Some(mm1(rate, 10.0, objective)), &options)
            .within_slo
            .unwrap()
            .value
    };
    assert!((rate(&by_share) - rate(&by_value)).abs() < 0.03);
}
