//! How full and how busy the replicas in service were, where replicas come and go.
//!
//! A recorder knows how many replicas there may be, and shares out among all of them what was busy and what was held. A replica that
//! is not there holds nothing and is no room: of one replica that is full and five that were never started a sixth is no answer.
//! Law: a share of the replicas in service times their time is the share of all times all time. Left out: which pool a replica is
//! of, so that where pools with unlike KV caches come and go a replica counts as an average one.

use super::RunResult;

/// What sums of times may be off by.
const ROUNDING: f64 = 1e-6;

/// Makes shares of all `replicas` shares of those `in_service`: (seconds, so many from then on).
pub(super) fn share_out(result: &mut RunResult, in_service: &[(f64, u32)], replicas: u32) {
    let share = |share: f64, from_s: f64, to_s: f64| {
        let serving = mean(in_service, from_s, to_s);
        match serving > 0.0 {
            true => share * f64::from(replicas) / serving,
            false => 0.0,
        }
    };
    let steady = result.steady.as_mut().zip(result.steady_window_s);
    let whole = (0.0, result.whole.duration_s);
    for (summary, (from_s, to_s)) in std::iter::once((&mut result.whole, whole)).chain(steady) {
        let state = &mut summary.occupancy;
        state.kv_usage = share(state.kv_usage, from_s, to_s);
        debug_assert!(state.kv_usage < 1.0 + ROUNDING, "no cache holds more than it has");
        // The last step may reach past the end.
        state.busy = share(state.busy, from_s, to_s).min(1.0);
    }
    // Points stand in the middle of intervals of one width, the last of which may be cut short.
    let width = result.series.first().map_or(0.0, |point| 2.0 * point.t_s);
    for (index, point) in result.series.iter_mut().enumerate() {
        let from_s = index as f64 * width;
        point.kv_usage = share(point.kv_usage, from_s, 2.0 * point.t_s - from_s);
        debug_assert!(point.kv_usage < 1.0 + ROUNDING, "no cache holds more than it has");
    }
}

/// How many are in service on average between two times.
fn mean(in_service: &[(f64, u32)], from_s: f64, to_s: f64) -> f64 {
    let ends = in_service.iter().skip(1).map(|step| step.0);
    let ends = ends.chain([f64::INFINITY]);
    let area = in_service.iter().zip(ends).map(|(&(begin, serving), end)| {
        let held_s = end.min(to_s) - begin.max(from_s);
        f64::from(serving) * held_s.max(0.0)
    });
    let area: f64 = area.sum();
    let span_s = to_s - from_s;
    if span_s > 0.0 { area / span_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::{LoadKind, Precision, judge};
    use super::*;
    use crate::metrics::single_server::{self, Server};
    use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};

    /// Two of ten are in service for half the time and three from then on: what was held and done is the same.
    #[test]
    fn shares_of_those_in_service_times_their_time_are_shares_of_all_times_all_time() {
        let mut recorder = Recorder::new(RecorderOptions {
            fleet: Fleet::alike(1, 100, 16),
            slo: SloLimits::default(),
            records: Records::None,
        });
        let end = single_server::run(&Server::mm1(0.15, 4_000, 3), &mut recorder);
        let mut of_all = judge(recorder.finish(end), LoadKind::Open, &Precision::default());
        let steady = of_all.steady.as_mut().expect("an M/M/1 queue is stable");
        (of_all.whole.occupancy.kv_usage, steady.occupancy.kv_usage) = (0.13, 0.14);
        of_all.series.iter_mut().for_each(|point| point.kv_usage = 0.1);
        let whole_s = of_all.whole.duration_s;
        let steps = [(0.0, 2), (0.5 * whole_s, 3)];
        let mut shared = of_all.clone();
        share_out(&mut shared, &steps, 10);
        let window = of_all.steady_window_s.unwrap();
        let stretches = [
            (&of_all.whole, &shared.whole, (0.0, whole_s)),
            (
                of_all.steady.as_ref().unwrap(),
                shared.steady.as_ref().unwrap(),
                window,
            ),
        ];
        for (all, own, (from_s, to_s)) in stretches {
            let serving = mean(&steps, from_s, to_s);
            assert!(all.occupancy.busy > 0.1 && serving > 2.0);
            for (all, own) in [
                (all.occupancy.busy, own.occupancy.busy),
                (all.occupancy.kv_usage, own.occupancy.kv_usage),
            ] {
                assert!((own * serving - all * 10.0).abs() < 1e-9, "{own} of {all}");
            }
        }
        let (first, last) = (shared.series.first().unwrap(), shared.series.last().unwrap());
        assert!((first.kv_usage - 0.5).abs() < 1e-9 && (last.kv_usage - 1.0 / 3.0).abs() < 1e-9);
        // A step that reaches past the end is no more than all the time.
        let mut late = of_all.clone();
        late.whole.occupancy.busy = 0.3;
        share_out(&mut late, &steps[..1], 10);
        assert_eq!(late.whole.occupancy.busy, 1.0);
    }

    #[test]
    fn the_mean_in_service_is_that_of_the_time_between() {
        let steps = [(0.0, 2), (10.0, 3), (20.0, 1)];
        assert_eq!(mean(&steps, 0.0, 10.0), 2.0);
        assert_eq!(mean(&steps, 5.0, 15.0), 2.5);
        assert_eq!(mean(&steps, 0.0, 40.0), 70.0 / 40.0);
        assert_eq!(mean(&steps, 30.0, 40.0), 1.0);
        assert_eq!((mean(&steps, 3.0, 3.0), mean(&[], 0.0, 1.0)), (0.0, 0.0));
    }
}
