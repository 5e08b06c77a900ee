//! A distribution laid out in order, for whoever asks for many of its quantiles.

use super::moments::Moments;
use crate::stats::quantile_by;
use crate::units::PICOS_PER_SECOND;

/// `count` durations in `lower .. lower + width`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) lower: u64,
    pub(super) width: u64,
    pub(super) count: u64,
}

/// The quantiles of a multiset of durations: O(distinct values) to lay out, O(log) each.
#[derive(Clone, Debug)]
pub struct Quantiles {
    cells: Vec<Cell>,
    /// Durations up to and with each cell.
    up_to: Vec<u64>,
    moments: Moments,
}

impl Quantiles {
    /// Of cells in ascending order, whose durations have these moments.
    pub(super) fn new(cells: Vec<Cell>, moments: Moments) -> Quantiles {
        let counted = cells.iter().scan(0, |sum, cell| {
            *sum += cell.count;
            Some(*sum)
        });
        Quantiles {
            up_to: counted.collect(),
            cells,
            moments,
        }
    }

    /// The `p`-quantile in seconds, `p` in 0..=1, numpy's linear interpolation at rank `(n − 1)·p`; `None` of nothing.
    #[must_use]
    pub fn at_s(&self, p: f64) -> Option<f64> {
        let picos = quantile_by(self.moments.count, p, |index| self.order_statistic(index))?;
        Some(picos / PICOS_PER_SECOND as f64)
    }

    /// The `index`-th smallest, in picoseconds. Within a cell, values are taken to be evenly spread.
    fn order_statistic(&self, index: u64) -> f64 {
        let place = self.up_to.partition_point(|&up_to| up_to <= index);
        let Some(cell) = self.cells.get(place) else {
            return self.moments.max as f64;
        };
        if cell.width == 1 {
            return cell.lower as f64;
        }
        let before = self.up_to[place] - cell.count;
        let share = ((index - before) as f64 + 0.5) / cell.count as f64;
        let value = cell.lower as f64 + cell.width as f64 * share;
        value.clamp(self.moments.min as f64, self.moments.max as f64)
    }
}
