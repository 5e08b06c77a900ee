//! All figures of a comparison judged together: how many there are, and how much further chance may reach for each.
//!
//! Of thirteen figures that are each within their 95 % interval one time in twenty is not, one or the other often is. So each is
//! held against the interval that holds it so surely that in 95 of 100 pairs of equal systems all are held at once (Šidák 1967):
//! `1 − (1 − α)^(1/n)` of each for α of all. Figures of one run go together, and Šidák's inequality makes that α a bound: the
//! more they do, the fewer pairs are told to differ. It bounds as well as the intervals hold, and of figures whose chance is not
//! known it says nothing. Pairs of one file are judged each by itself.

use super::Moved;
use super::chance::Chance;
use crate::stats::student_t;

/// The share of pairs of equal systems of which a figure may be told to have moved.
pub const FALSE_MOVES: f64 = 0.05;
/// Confidence of the intervals that results and their batches give.
const ALONE: f64 = 0.95;

/// How the figures of a pair are judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// Figures in which chance has a say.
    pub figures: usize,
    /// Confidence of each for [`FALSE_MOVES`] of all.
    pub each: f64,
}

/// Widens the chance of every figure that is judged.
pub(super) fn judge(figures: &mut [Moved], chances: &[Chance<'_>; 2]) -> Option<Together> {
    let count = figures.iter().filter(|figure| figure.is_judged()).count();
    let together = (count > 0).then(|| Together {
        figures: count,
        each: (1.0 - FALSE_MOVES).powf(1.0 / count as f64),
    })?;
    // Tails of few batches are longer than those of many.
    let freedom = chances.each_ref().map(Chance::freedom);
    let freedom = freedom[0].min(freedom[1]);
    let widening = student_t(together.each, freedom) / student_t(ALONE, freedom);
    figures.iter_mut().for_each(|figure| figure.widening = widening);
    Some(together)
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::run;
    use crate::results::Stats;

    #[test]
    fn one_figure_is_judged_by_its_own_interval_and_many_by_wider_ones() {
        let mut alone = run();
        (alone.outcome.request_throughput, alone.outcome.output_throughput) = (None, None);
        for stats in [&mut alone.tpot, &mut alone.itl, &mut alone.e2el] {
            *stats = Stats::default();
        }
        (alone.ttft.median, alone.ttft.percentiles) = (None, Vec::new());
        let one = compare(&alone, &alone);
        let together = one.together.unwrap();
        assert_eq!(together.figures, 1);
        assert!((together.each - 0.95).abs() < 1e-12);
        let mean = one.figure("mean ttft").unwrap();
        assert!((mean.widening - 1.0).abs() < 1e-9);
        assert_eq!(
            mean.chance().unwrap().1,
            (mean.noise.unwrap() * mean.widening).exp_m1()
        );
        // Fourteen: 1 − 0.95^(1/14) is 0.366 %, beyond 2.906 deviations of a normal law.
        let many = compare(&run(), &run());
        let mean = many.figure("mean ttft").unwrap();
        assert_eq!(many.together.unwrap().figures, 14);
        assert!((mean.widening - 2.906 / 1.96).abs() < 1e-3, "{}", mean.widening);
        assert!(mean.chance().unwrap().1 > mean.chance_alone().unwrap().1);
    }

    #[test]
    fn what_chance_has_no_say_in_is_not_counted() {
        let mut silent = run();
        for stats in [
            &mut silent.ttft,
            &mut silent.tpot,
            &mut silent.itl,
            &mut silent.e2el,
        ] {
            stats.std = None;
        }
        silent.outcome.completed = Some(90);
        let compared = compare(&silent, &silent);
        // Both throughputs have the chance of their arrivals; of 90 requests a p99 is the largest.
        assert_eq!(compared.together.unwrap().figures, 2);
        assert_eq!(compared.figure("mean ttft").unwrap().noise, None);
    }
}
