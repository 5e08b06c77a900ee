//! How full and how busy the replicas in service were, where replicas come and go.
//!
//! A recorder knows how many replicas there may be, and shares out among all of them what was busy and what was held. A replica that
//! is not there holds nothing and is no room: of one replica that is full and five that were never started a sixth is no answer.
//! Law: a share of the replicas in service times their time is the share of all times all time. Left out: which pool a replica is
//! of, so that where pools with unlike KV caches come and go a replica counts as an average one.

use super::RunResult;

/// Makes shares of all `replicas` shares of those `in_service`: (seconds, so many from then on).
pub(super) fn share_out(result: &mut RunResult, in_service: &[(f64, u32)], replicas: u32) {
    let share = |share: f64, from_s: f64, to_s: f64| {
        let serving = mean(in_service, from_s, to_s);
        match serving > 0.0 {
            // The last step may reach past the end.
            true => (share * f64::from(replicas) / serving).min(1.0),
            false => 0.0,
        }
    };
    let steady = result.steady.as_mut().zip(result.steady_window_s);
    let whole = (0.0, result.whole.duration_s);
    for (summary, (from_s, to_s)) in std::iter::once((&mut result.whole, whole)).chain(steady) {
        let state = &mut summary.occupancy;
        state.kv_usage = share(state.kv_usage, from_s, to_s);
        state.busy = share(state.busy, from_s, to_s);
    }
    // Points stand in the middle of intervals of one width, the last of which may be cut short.
    let width = result.series.first().map_or(0.0, |point| 2.0 * point.t_s);
    for (index, point) in result.series.iter_mut().enumerate() {
        let from_s = index as f64 * width;
        point.kv_usage = share(point.kv_usage, from_s, 2.0 * point.t_s - from_s);
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
    use super::*;

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
