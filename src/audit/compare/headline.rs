//! Which of the figures that moved is told first.

use super::{Cause, Comparison, Moved};

impl Comparison {
    /// The figure that moved most, of those that moved more than chance.
    #[must_use]
    pub fn largest(&self) -> Option<&Moved> {
        let real = self.figures.iter().filter(|figure| figure.is_real());
        real.max_by(|a, b| a.distance().total_cmp(&b.distance()))
    }

    /// The figure to tell first, of those that moved more than chance, with the cause that explains it: one with a cause before
    /// one without, a mean before a median and that before a tail, and of alike ones the one that moved most.
    #[must_use]
    pub fn headline(&self) -> Option<(&Moved, Option<&Cause>)> {
        let real = self.figures.iter().filter(|figure| figure.is_real());
        let known = real.map(|figure| (figure, self.cause_of(figure)));
        known.max_by(|(a, of_a), (b, of_b)| {
            let rank = |figure: &Moved, cause: &Option<&Cause>| (cause.is_some(), centrality(&figure.name));
            let by_rank = rank(a, of_a).cmp(&rank(b, of_b));
            by_rank.then_with(|| a.distance().total_cmp(&b.distance()))
        })
    }

    /// The surest cause that says why a figure moved.
    fn cause_of(&self, figure: &Moved) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.explains(&figure.name))
    }
}

/// How much a figure is of all requests: a mean or a throughput, a median, a tail.
fn centrality(name: &str) -> u8 {
    match name {
        name if name.starts_with("mean ") || name.ends_with("throughput") => 2,
        name if name.starts_with("median ") => 1,
        _ => 0,
    }
}
