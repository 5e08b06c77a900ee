//! What every step takes more or less, as the gaps between tokens and the times per token show it.
//!
//! Steps with a prompt are long, and what the host does at each launch is hidden behind their kernels; steps without one are
//! short and show it. So a time that the median has and the tail has not is one of launches, or of reading memory, which short
//! steps are bound by.

use super::super::finding::time;
use super::shape::{Shape, shape, tail};
use super::{Cause, Comparison, Moved};
use crate::results::{Measured, Stats};

/// Gaps are of longer steps than the median's where they are this many times as long.
const LONGER: f64 = 1.25;
/// The median moved enough for the tail to be held against it.
const ENOUGH: f64 = 0.15;
/// The tail hardly moved where it moved by a part of what the median did that lies between these.
const HARDLY: (f64, f64) = (-0.25, 0.5);

/// The cause of longer or shorter steps.
pub(super) fn steps(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Option<Cause> {
    let moved = |name: &str| {
        ["median", "mean"]
            .iter()
            .find_map(|of| comparison.figure(&format!("{of} {name}")))
    };
    let step = moved("itl")
        .or_else(|| moved("tpot"))
        .filter(|step| step.is_real())?;
    let of_gaps = shape(&predicted.itl, &measured.itl).or_else(|| shape(&predicted.tpot, &measured.tpot));
    let told = match of_gaps {
        Some(Shape::Shift(shift)) => Some(by_time(shift)),
        Some(Shape::Scale(factor)) => Some(by_factor(factor)),
        Some(Shape::Tail) => Some(in_the_tail()),
        // Longer at the median and shorter on average, or the other way round: no step is just slower.
        _ if is_contradicted(comparison, step) => return None,
        _ => by_launches(&predicted.itl, &measured.itl),
    };
    Some(told.unwrap_or_else(|| by_either(step)))
}

/// How many times as long steps are, by the figure that moved most of those that moved as they are asked to: longer or shorter;
/// 1 where none did.
pub(super) fn factor(comparison: &Comparison, is_longer: bool) -> f64 {
    let figures = comparison.figures.iter().filter(|figure| {
        let is_of_steps = figure.name.ends_with(" itl") || figure.name.ends_with(" tpot");
        let is_central = figure.name.starts_with("median ") || figure.name.starts_with("mean ");
        is_of_steps && is_central && figure.is_real() && (figure.change() > 0.0) == is_longer
    });
    let most = figures.max_by(|a, b| a.distance().total_cmp(&b.distance()));
    most.map_or(1.0, |most| most.measured / most.predicted)
}

/// Whether any figure of steps moved the other way.
fn is_contradicted(comparison: &Comparison, step: &Moved) -> bool {
    let is_against = |figure: &Moved| {
        let is_of_steps = figure.name.ends_with(" itl") || figure.name.ends_with(" tpot");
        is_of_steps && figure.is_real() && (figure.change() > 0.0) != (step.change() > 0.0)
    };
    comparison.figures.iter().any(is_against)
}

fn by_time(shift: f64) -> Cause {
    let more = if shift > 0.0 { "more" } else { "less" };
    Cause {
        kind: "host-overhead",
        words: format!(
            "every step takes {} {more}, at the median as in the tail: time of the host (scheduler, sampling, \
             detokenisation, graphs), not of a kernel",
            time(shift.abs())
        ),
    }
}

fn by_factor(factor: f64) -> Cause {
    Cause {
        kind: "bandwidth",
        words: format!(
            "every step is {factor:.2} times as long, at the median as in the tail: memory bandwidth, clocks, \
             precision, the number of GPUs, or a host that is not hidden behind steps (synchronous scheduling)"
        ),
    }
}

fn in_the_tail() -> Cause {
    Cause {
        kind: "step-tail",
        words: "gaps agree at the median and not in the tail: prompts in the same steps (token budget, chunks), or \
                stalls of the host"
            .to_owned(),
    }
}

/// Short steps moved and longer ones hardly.
fn by_launches(predicted: &Stats, measured: &Stats) -> Option<Cause> {
    let low = predicted.median.zip(measured.median)?;
    let (shift, factor) = (low.1 - low.0, low.1 / low.0);
    let part = |high: (f64, f64)| (high.1 - high.0) / shift;
    let is_long = |high: (f64, f64)| high.0 >= LONGER * low.0 && high.1 >= LONGER * low.1;
    let (percent, high) = tail(predicted, measured)
        .filter(|(_, high)| is_long(*high) && part(*high) > HARDLY.0 && part(*high) < HARDLY.1)
        .min_by(|a, b| part(a.1).abs().total_cmp(&part(b.1).abs()))?;
    let (more, why) = match shift > 0.0 {
        true => (
            "more",
            "CUDA graphs off (`--enforce-eager`) or a slower host; else less memory bandwidth",
        ),
        false => (
            "less",
            "CUDA graphs on or a faster host; else more memory bandwidth",
        ),
    };
    ((factor - 1.0).abs() > ENOUGH).then(|| Cause {
        kind: "launch-overhead",
        words: format!(
            "steps without a prompt are {factor:.2} times as long ({} → {}) and those with one take hardly {more} (p{percent} {} → \
             {}): a cost of the host at each launch, which long steps hide: {why}",
            time(low.0),
            time(low.1),
            time(high.0),
            time(high.1)
        ),
    })
}

fn by_either(step: &Moved) -> Cause {
    let by = step.measured - step.predicted;
    let (more, sign) = if by > 0.0 {
        ("more", "slower")
    } else {
        ("less", "faster")
    };
    Cause {
        kind: "step-time",
        words: format!(
            "steps are {:.0} % {sign} ({} {more}): host overhead or bandwidth; runs at two batch sizes would tell which",
            100.0 * step.change().abs(),
            time(by.abs())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::{moved, run};
    use crate::results::Measured;

    /// A run whose gaps have this median, p90, p95 and p99, and whose times per token and answers go with their mean, ms.
    fn gaps(mean: f64, [median, p90, p95, p99]: [f64; 4]) -> Measured {
        let mut row = run();
        let longer = mean / 1e3 - row.tpot.mean.unwrap_or(0.0);
        moved(&mut row.tpot, |step| step + longer);
        moved(&mut row.e2el, |whole| whole + 127.0 * longer);
        row.itl.mean = Some(mean / 1e3);
        row.itl.median = Some(median / 1e3);
        row.itl.percentiles = vec![(90.0, p90 / 1e3), (95.0, p95 / 1e3), (99.0, p99 / 1e3)];
        row
    }

    fn told(one: &Measured, other: &Measured) -> (&'static str, String) {
        let cause = compare(one, other).causes.swap_remove(0);
        (cause.kind, cause.words)
    }

    #[test]
    fn what_short_steps_take_more_and_long_ones_do_not_is_a_cost_of_launches() {
        let graphs = gaps(9.35, [7.77, 8.76, 24.6, 27.6]);
        let eager = gaps(17.8, [15.6, 27.9, 28.3, 47.8]);
        let (kind, words) = told(&graphs, &eager);
        assert_eq!(kind, "launch-overhead");
        assert!(
            words.starts_with(
                "steps without a prompt are 2.01 times as long (7.77 ms → 15.6 ms) and those with one take hardly more (p95 \
                 24.6 ms → 28.3 ms)"
            ),
            "{words}"
        );
        assert!(
            words.contains("--enforce-eager") && !words.contains("as in the tail"),
            "{words}"
        );
        let (kind, words) = told(&eager, &graphs);
        assert_eq!(kind, "launch-overhead");
        assert!(
            words.contains("hardly less (p95") && words.contains("CUDA graphs on"),
            "{words}"
        );
    }

    #[test]
    fn gaps_of_one_kind_of_step_show_no_launches() {
        // The tail is no longer a step of another kind: every step is as long as the longest was.
        let (kind, _) = told(
            &gaps(9.35, [7.77, 8.76, 24.6, 27.6]),
            &gaps(25.0, [24.9, 25.0, 25.1, 28.0]),
        );
        assert_eq!(kind, "step-time");
        // All take as much more.
        let (kind, _) = told(
            &gaps(9.0, [8.0, 9.0, 24.0, 28.0]),
            &gaps(13.0, [12.0, 13.0, 28.0, 32.0]),
        );
        assert_eq!(kind, "host-overhead");
    }
}
