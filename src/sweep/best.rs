//! Which run of a sweep serves the most, and whether more than chance is behind it.
//!
//! Left out: anything but output tokens per second. Runs share their arrivals, so two intervals that overlap may still
//! differ; taking them for alike errs on the side of saying nothing, unless the figures are so far apart that a reader
//! would take it for a mistake.

/// Outputs that differ by more than this part of the largest are not called alike here, however wide their intervals.
const ALIKE_AT_MOST: f64 = 0.1;

/// What one run brings to the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Output tokens per second: the figure, and the ends of its 95 % interval.
    pub output: (f64, f64, f64),
    /// Whether it meets the SLO.
    pub keeps: bool,
}

/// The outcome of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Best {
    /// No run meets the SLO.
    NoneKeeps,
    /// All runs that keep it are within noise of the best.
    Alike {
        /// The fewest tokens per second of any.
        least: f64,
        /// The most.
        most: f64,
    },
    /// All are within noise of the best, and some too far from it to be called alike.
    Overlapping {
        /// Which is the best, as it was given.
        index: usize,
        /// Its output tokens per second.
        tokens_per_s: f64,
        /// How many others there are.
        others: usize,
    },
    /// One stands out.
    One {
        /// Which, as it was given.
        index: usize,
        /// Its output tokens per second.
        tokens_per_s: f64,
        /// Others whose interval reaches into its.
        within_noise: usize,
    },
}

/// Compares runs; `None` stands for one that was not made or has no output.
#[must_use]
pub fn best(runs: &[Option<Candidate>]) -> Best {
    let kept = || {
        let runs = runs.iter().enumerate();
        runs.filter_map(|(index, run)| Some((index, run.filter(|run| run.keeps)?.output)))
    };
    let Some((index, (tokens_per_s, low, _))) = kept().max_by(|a, b| a.1.0.total_cmp(&b.1.0)) else {
        return Best::NoneKeeps;
    };
    let alike = kept().filter(|(_, (_, _, high))| *high >= low).count();
    let least = kept().map(|(_, (least, ..))| least).fold(tokens_per_s, f64::min);
    let others = alike - 1;
    match others > 0 && alike == kept().count() {
        true if least >= (1.0 - ALIKE_AT_MOST) * tokens_per_s => Best::Alike {
            least,
            most: tokens_per_s,
        },
        true => Best::Overlapping {
            index,
            tokens_per_s,
            others,
        },
        false => Best::One {
            index,
            tokens_per_s,
            within_noise: others,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(tokens: f64, half: f64, keeps: bool) -> Option<Candidate> {
        Some(Candidate {
            output: (tokens, tokens - half, tokens + half),
            keeps,
        })
    }

    #[test]
    fn the_best_is_the_most_among_those_that_keep_the_promise() {
        let one = |index, tokens_per_s, within_noise| Best::One {
            index,
            tokens_per_s,
            within_noise,
        };
        assert_eq!(
            best(&[run(100.0, 5.0, true), run(200.0, 5.0, false), None]),
            one(0, 100.0, 0)
        );
        assert_eq!(
            best(&[
                run(100.0, 5.0, true),
                run(200.0, 5.0, true),
                run(193.0, 5.0, true)
            ]),
            one(1, 200.0, 1)
        );
        assert_eq!(best(&[run(1.0, 0.1, false), None]), Best::NoneKeeps);
        assert_eq!(
            best(&[run(100.0, 5.0, true), run(103.0, 5.0, true)]),
            Best::Alike {
                least: 100.0,
                most: 103.0
            }
        );
        assert_eq!(
            best(&[run(100.0, 5.0, true)]),
            one(0, 100.0, 0),
            "one run has nothing to be like"
        );
    }

    #[test]
    fn outputs_that_are_far_apart_are_not_alike_for_wide_intervals() {
        assert_eq!(
            best(&[
                run(2200.0, 1700.0, true),
                run(5510.0, 4000.0, true),
                run(9000.0, 1.0, false)
            ]),
            Best::Overlapping {
                index: 1,
                tokens_per_s: 5510.0,
                others: 1
            }
        );
        assert_eq!(
            best(&[run(91.0, 50.0, true), run(100.0, 50.0, true)]),
            Best::Alike {
                least: 91.0,
                most: 100.0
            }
        );
    }
}
