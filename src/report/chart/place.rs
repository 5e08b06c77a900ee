//! Where a label fits: the candidate that covers least of what is drawn and no other label.

/// A text's place in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

/// Space kept free around a text.
const MARGIN: f64 = 3.0;

impl Place {
    fn contains(&self, (x, y): (f64, f64)) -> bool {
        let across = x > self.left - MARGIN && x < self.right + MARGIN;
        across && y > self.top - MARGIN && y < self.bottom + MARGIN
    }

    pub(super) fn meets(&self, other: &Place) -> bool {
        let across = self.left < other.right && other.left < self.right;
        across && self.top < other.bottom && other.top < self.bottom
    }

    pub(super) fn lies_within(&self, page: &Place) -> bool {
        self.left >= page.left
            && self.right <= page.right
            && self.top >= page.top
            && self.bottom <= page.bottom
    }
}

impl Place {
    /// How many of these points lie on it, or within `reach` pixels of its sides.
    pub(super) fn covers(&self, points: &[(f64, f64)], reach: f64) -> usize {
        let wide = Place {
            left: self.left - reach,
            right: self.right + reach,
            ..*self
        };
        points.iter().filter(|point| wide.contains(**point)).count()
    }
}

/// The first of the cheapest candidates; being off the page or on another label is worse than any cost.
pub(super) fn best(
    candidates: impl IntoIterator<Item = Place>,
    cost: impl Fn(&Place) -> usize,
    taken: &[Place],
    page: &Place,
) -> Option<Place> {
    const NEVER: usize = 100_000;
    candidates.into_iter().min_by_key(|place| {
        let overlaps = taken.iter().filter(|other| place.meets(other)).count();
        cost(place) + NEVER * (overlaps + usize::from(!place.lies_within(page)))
    })
}

/// Points every two pixels along a polyline.
pub(super) fn dense(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let between = |pair: &[(f64, f64)]| {
        let (from, to) = (pair[0], pair[1]);
        let pieces = ((to.0 - from.0).hypot(to.1 - from.1) / 2.0).ceil().max(1.0) as usize;
        let at = move |piece: usize| {
            let part = piece as f64 / pieces as f64;
            (from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1))
        };
        (0..pieces).map(at).collect::<Vec<_>>()
    };
    line.windows(2).flat_map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_place_is_preferred_and_the_page_is_never_left() {
        let at = |left: f64| Place {
            left,
            top: 10.0,
            right: left + 10.0,
            bottom: 20.0,
        };
        let page = Place {
            left: 0.0,
            top: 0.0,
            right: 100.0,
            bottom: 100.0,
        };
        let line = dense(&[(35.0, 0.0), (35.0, 100.0)]);
        let place = best(
            [at(-5.0), at(30.0), at(50.0), at(70.0)],
            |place| place.covers(&line, 0.0),
            &[at(45.0)],
            &page,
        );
        assert_eq!(place, Some(at(70.0)));
    }
}
