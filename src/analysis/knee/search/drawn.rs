//! Rates that are only looked at.
//!
//! A search tries rates where it has to decide something, and a curve through them has straight lines where it bends most. Law: what is
//! found does not move.

use super::{EXPANSION, Tried};
use crate::analysis::knee::Point;

impl<F: FnMut(f64, u64) -> Option<Point>> Tried<F> {
    /// Tries rates between neighbours that are further apart than by this factor, from an octave below the knee to the last rate that is
    /// kept up with. One that speaks against the brackets, by chance, is forgotten, and ends it.
    pub(super) fn draw(&mut self, apart: f64) {
        let Some(within) = self.points.iter().rposition(Point::is_within) else {
            return;
        };
        let knee = self.points[within].rate;
        let has_end = self.has_end();
        while !has_end && !self.is_spent() {
            let mut pairs = self.points.windows(2);
            let gap = pairs.find(|pair| {
                let is_about = pair[1].rate > knee / EXPANSION && pair[1].keeps_up();
                is_about && pair[1].rate > apart * pair[0].rate
            });
            let Some(rate) = gap.map(|pair| (pair[0].rate * pair[1].rate).sqrt()) else {
                return;
            };
            let keeps_up = self.run(rate);
            let place = self.points.iter().position(|point| point.rate == rate);
            let Some(place) = place else { return };
            let point = &self.points[place];
            let is_as_known = point.is_within() == (rate < knee) && (rate < knee || !point.may_be_within());
            if !keeps_up || !is_as_known {
                self.points.remove(place);
                return;
            }
        }
    }
}
