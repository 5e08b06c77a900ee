//! What every step takes more or less, as the gaps between tokens and the times per token show it.
//!
//! Steps with a prompt are long, and what the host does at each launch is hidden behind their kernels; steps without one are
//! short and show it. So a time that the median has and the tail has not is one of launches, or of reading memory, which short
//! steps are bound by.

use super::super::finding::time;
use super::chance::is_loop_of_several;
use super::shape::{Shape, shape, tail};
use super::{Cause, Comparison, LEAST, Moved};
use crate::results::{Measured, Stats};

/// Gaps are of longer steps than the median's where they are this many times as long.
const LONGER: f64 = 1.25;
/// The median moved enough for the tail to be held against it.
const ENOUGH: f64 = 0.15;
/// The tail hardly moved where it moved by a part of what the median did that lies between these.
const HARDLY: (f64, f64) = (-0.25, 0.5);

/// The cause of longer or shorter steps.
pub(super) fn steps(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Option<Cause> {
    let Some(step) = central(comparison).find(|step| step.is_real()) else {
        return in_a_closed_loop(predicted, measured, comparison);
    };
    // Longer at the median and shorter on average, or the other way round: no step is just slower. A percentile of the tail may
    // have come to be of another kind of gap, and says nothing.
    let is_longer = step.change() > 0.0;
    let is_against = |figure: &Moved| figure.is_real_of_its_kind() && (figure.change() > 0.0) != is_longer;
    if central(comparison).any(is_against) {
        return None;
    }
    let of_gaps = shape(&predicted.itl, &measured.itl).or_else(|| shape(&predicted.tpot, &measured.tpot));
    let told = match of_gaps {
        Some(Shape::Shift(shift)) => Some(by_time(shift)),
        Some(Shape::Scale(factor)) => Some(by_factor(factor)),
        Some(Shape::Tail) if is_longer_in_the_tail(predicted, measured) == is_longer => Some(in_the_tail()),
        _ => by_launches(&predicted.itl, &measured.itl),
    };
    Some(told.unwrap_or_else(|| by_either(step)))
}

/// Means and medians of steps, the one that prompts touch least first.
fn central(comparison: &Comparison) -> impl Iterator<Item = &Moved> {
    let names = ["median itl", "mean itl", "median tpot", "mean tpot"];
    names.into_iter().filter_map(|name| comparison.figure(name))
}

fn is_longer_in_the_tail(predicted: &Measured, measured: &Measured) -> bool {
    let furthest = |one: &Stats, other: &Stats| tail(one, other).next();
    let found = furthest(&predicted.itl, &measured.itl).or(furthest(&predicted.tpot, &measured.tpot));
    found.is_some_and(|(_, (one, other))| other > one)
}

/// In a closed loop first tokens and steps trade places: who waits behind whose prompt is a pattern, of which neither figure is
/// known well. Their sum is, since it is the loop's throughput; where it moved and every figure of steps went with it, steps did.
fn in_a_closed_loop(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Option<Cause> {
    if !is_loop_of_several(predicted) || !is_loop_of_several(measured) {
        return None;
    }
    let whole = comparison.figure("mean e2el").filter(|whole| whole.is_real())?;
    let is_longer = whole.change() > 0.0;
    let goes_along = |figure: &Moved| figure.distance() > LEAST && (figure.change() > 0.0) == is_longer;
    let mut figures = central(comparison).peekable();
    let first = *figures.peek()?;
    if !figures.all(goes_along) {
        return None;
    }
    let step = comparison.figure("mean tpot").unwrap_or(first);
    let (more, sign) = words(is_longer, ["more", "less"], ["slower", "faster"]);
    Some(Cause {
        kind: "step-time",
        words: format!(
            "answers take {} {more} in a closed loop, where first tokens and steps trade places: every figure of steps went with \
             them ({} {:+.1} %, {} {:+.1} %), so steps are {sign}: host overhead or bandwidth; runs at two batch sizes would tell which",
            time((whole.measured - whole.predicted).abs()),
            first.name,
            100.0 * first.change(),
            step.name,
            100.0 * step.change(),
        ),
    })
}

/// Two words each for longer and for shorter.
fn words(is_longer: bool, one: [&'static str; 2], other: [&'static str; 2]) -> (&'static str, &'static str) {
    let at = usize::from(!is_longer);
    (one[at], other[at])
}

/// Whether slower or faster steps alone explain by how much answers of a closed loop moved: then first tokens moved because
/// those whom they wait behind did.
pub(super) fn explain_the_loop(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> bool {
    /// Of the move of an answer.
    const NEARLY_ALL: f64 = 0.8;
    let are_loops = is_loop_of_several(predicted) && is_loop_of_several(measured);
    let Some(whole) = comparison.figure("mean e2el").filter(|_| are_loops) else {
        return false;
    };
    let by = whole.measured - whole.predicted;
    let along = central(comparison).filter(|step| (step.change() > 0.0) == (by > 0.0));
    let most = along.map(Moved::change).fold(
        0.0,
        |most: f64, change| {
            if change.abs() > most.abs() { change } else { most }
        },
    );
    by != 0.0 && most * whole.predicted / by >= NEARLY_ALL
}

/// How many times as long steps are, by the figure that moved most of those that moved as they are asked to: longer or shorter;
/// 1 where none did.
pub(super) fn factor(comparison: &Comparison, is_longer: bool) -> f64 {
    let figures =
        central(comparison).filter(|figure| figure.is_real() && (figure.change() > 0.0) == is_longer);
    let most = figures.max_by(|a, b| a.distance().total_cmp(&b.distance()));
    most.map_or(1.0, |most| most.measured / most.predicted)
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
    let (more, sign) = words(by > 0.0, ["more", "less"], ["slower", "faster"]);
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
