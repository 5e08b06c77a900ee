//! Times that a coarse clock has rounded, spread over its ticks again.
//!
//! Whoever replays such a trace sends all requests of a tick at one instant, and slower ones the more so: a burst that nobody sent. Left out: what
//! the true times were; inside a tick requests come at random, in their order.

use rand::RngExt;

use super::Trace;
use super::describe::find_grid;
use crate::rng::{Purpose, stream};
use crate::units::Picos;

impl Trace {
    /// Distance in seconds of the grid that its times sit on, if one of half a second or coarser.
    #[must_use]
    pub fn grid_s(&self) -> Option<f64> {
        let times: Vec<f64> = self
            .requests
            .iter()
            .map(|request| request.arrival.seconds())
            .collect();
        find_grid(&times)
    }

    /// Spreads the requests of each instant over the tick of `grid_s` seconds that begins there, uniformly, and no further than the next
    /// instant, which need not be on the grid. Their order stays, and the same trace always gets the same times, whatever a run's seed.
    pub fn spread_ticks(&mut self, grid_s: f64) {
        let mut random = stream(0, Purpose::Ticks, 0);
        let mut rest = &mut self.requests[..];
        while let Some(first) = rest.first() {
            let begin = first.arrival;
            let size = rest.partition_point(|request| request.arrival == begin);
            let (tick, later) = rest.split_at_mut(size);
            let room = later
                .first()
                .map_or(grid_s, |next| (next.arrival - begin).seconds());
            let room = room.min(grid_s);
            let mut offsets: Vec<f64> = tick.iter().map(|_| random.random_range(0.0..room)).collect();
            offsets.sort_unstable_by(f64::total_cmp);
            for (request, offset) in tick.iter_mut().zip(offsets) {
                request.arrival += Picos::from_seconds(offset);
            }
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::units::Picos;
    use crate::workload::trace::{ReadOptions, read};

    #[test]
    fn requests_of_a_tick_come_within_it_in_their_order() {
        let rows: String = (0..2000)
            .map(|row| {
                format!(
                    "{{\"timestamp\": {}, \"input_length\": {}, \"output_length\": 2}}\n",
                    row / 10 * 3000,
                    row + 1
                )
            })
            .collect();
        let mut trace = read(rows.as_bytes(), "ticks.jsonl", &ReadOptions::default()).unwrap();
        assert_eq!(trace.grid_s(), Some(3.0));
        trace.spread_ticks(3.0);
        for (row, pair) in trace.requests.windows(2).enumerate() {
            assert!(pair[0].arrival <= pair[1].arrival);
            let begin = Picos::from_seconds((row / 10 * 3) as f64);
            let within = pair[0].arrival.saturating_sub(begin).seconds();
            assert!(pair[0].arrival >= begin && within < 3.0, "{within}");
        }
        assert_eq!(trace.grid_s(), None);
        let mean = trace
            .requests
            .iter()
            .map(|request| request.arrival.seconds() % 3.0)
            .sum::<f64>()
            / 2000.0;
        assert!((mean - 1.5).abs() < 0.1, "{mean}");
    }

    #[test]
    fn an_instant_off_the_grid_is_not_overtaken() {
        let at = |row: u32| if row == 1005 { 301_400 } else { row / 10 * 3000 };
        let rows: String = (0..2000)
            .map(|row| {
                format!(
                    "{{\"timestamp\": {}, \"input_length\": 1, \"output_length\": 2}}\n",
                    at(row)
                )
            })
            .collect();
        let mut trace = read(rows.as_bytes(), "ticks.jsonl", &ReadOptions::default()).unwrap();
        assert_eq!(trace.grid_s(), Some(3.0));
        trace.spread_ticks(3.0);
        let is_in_order = |pair: &[crate::workload::Request]| pair[0].arrival <= pair[1].arrival;
        assert!(trace.requests.windows(2).all(is_in_order));
    }
}
