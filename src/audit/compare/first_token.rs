//! What the first token takes more or less, beyond what longer steps make of it.
//!
//! A request waits for the step in flight and its first token ends another, so where every step takes a factor more, a first
//! token may too. Only what is left is told of front ends and prompts.

use super::super::finding::time;
use super::shape::{Shape, shape};
use super::steps::{explain_the_loop, factor};
use super::{Cause, Comparison, Moved};
use crate::results::Measured;

/// Steps explain a move of which they leave less than this part.
const LEFT: f64 = 0.2;

/// The cause of a longer or shorter time to the first token.
pub(super) fn first_token(
    predicted: &Measured,
    measured: &Measured,
    comparison: &Comparison,
) -> Option<Cause> {
    let median = comparison
        .figure("median ttft")
        .or_else(|| comparison.figure("mean ttft"))?;
    if is_whole(predicted) != is_whole(measured) {
        return Some(not_streamed(predicted));
    }
    if let Some(queue) = queueing(comparison, median) {
        return Some(queue);
    }
    // A median alone may have come to be of those who wait for one prompt more.
    let mean = comparison.figure("mean ttft").unwrap_or(median);
    if !mean.is_real() || explain_the_loop(predicted, measured, comparison) {
        return None;
    }
    let goes_along = median.is_real() && (median.change() > 0.0) == (mean.change() > 0.0);
    let first = if goes_along { median } else { mean };
    let by = first.measured - first.predicted;
    let steps = factor(comparison, by > 0.0);
    let of_steps = (steps - 1.0) * first.predicted;
    let left = by - of_steps;
    // Longer steps may leave nothing, and less than nothing.
    if left / by < LEFT {
        return Some(by_steps(by, steps));
    }
    let beyond = match steps == 1.0 {
        true => String::new(),
        false => format!(
            ", {} of it beyond what steps of {steps:.2} times the length explain",
            time(left.abs())
        ),
    };
    let shape = shape(&predicted.ttft, &measured.ttft).filter(|_| goes_along);
    Some(by_itself(shape, by, &beyond))
}

/// Whether answers of several tokens leave in one piece.
fn is_whole(row: &Measured) -> bool {
    let both = row.ttft.median.zip(row.e2el.median);
    both.is_some_and(|(first, whole)| whole > 0.0 && first >= 0.99 * whole)
        && row.setup.output_tokens.is_some_and(|tokens| tokens > 8.0)
}

fn not_streamed(predicted: &Measured) -> Cause {
    let which = if is_whole(predicted) { "first" } else { "second" };
    Cause {
        kind: "not-streamed",
        words: format!(
            "in the {which} result the first token comes with the last: its answers leave whole (static batching, or a \
             client that does not stream), so only e2el can be compared"
        ),
    }
}

/// The tail moved, and by much more than the median.
fn queueing(comparison: &Comparison, median: &Moved) -> Option<Cause> {
    let tail = ["p99 ttft", "p95 ttft", "p90 ttft"];
    let tail = tail.iter().find_map(|name| comparison.figure(name))?;
    let change = tail.change();
    let is_of_queue = tail.is_real() && change.abs() > 0.2 && change.abs() > 2.0 * median.change().abs();
    is_of_queue.then(|| Cause {
        kind: "queueing",
        words: format!(
            "{} is {} ({} against {}) while {} moved by {:+.0} %: the queue, that is burstier arrivals, other \
             admission (token budget, `max_num_seqs`) or a load nearer to saturation",
            tail.name,
            if change > 0.0 { "longer" } else { "shorter" },
            time(tail.measured),
            time(tail.predicted),
            median.name,
            100.0 * median.change()
        ),
    })
}

fn more(by: f64) -> &'static str {
    if by > 0.0 { "more" } else { "less" }
}

/// Nothing is left to explain.
fn by_steps(by: f64, steps: f64) -> Cause {
    Cause {
        kind: "first-token",
        words: format!(
            "the first token takes {} {}, which steps of {steps:.2} times the length explain: it waits for one and ends another",
            time(by.abs()),
            more(by)
        ),
    }
}

/// What steps do not explain.
fn by_itself(shape: Option<Shape>, by: f64, beyond: &str) -> Cause {
    match shape {
        Some(Shape::Shift(shift)) => Cause {
            kind: "front-end",
            words: format!(
                "the first token takes {} {}{beyond}, at the median as in the tail: tokenisation, HTTP and the front end",
                time(shift.abs()),
                more(shift)
            ),
        },
        Some(Shape::Scale(factor)) => Cause {
            kind: "prefill",
            words: format!(
                "the first token takes {factor:.2} times as long{beyond}, at the median as in the tail: prompt computation, or \
                 prefix cache hits"
            ),
        },
        _ => Cause {
            kind: "first-token",
            words: format!(
                "the first token takes {} {}{beyond}: front end, prompt computation or queueing",
                time(by.abs()),
                more(by)
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::{moved, run};
    use crate::results::Measured;

    /// What is told of first tokens that take so much more while steps take a factor more.
    fn told(steps: f64, later: f64) -> (&'static str, String) {
        let mut other: Measured = run();
        moved(&mut other.tpot, |step| step * steps);
        moved(&mut other.itl, |gap| gap * steps);
        moved(&mut other.e2el, |whole| whole * steps);
        moved(&mut other.ttft, |first| first + later);
        let cause = compare(&run(), &other).causes.pop();
        cause.map_or(("", String::new()), |cause| (cause.kind, cause.words))
    }

    #[test]
    fn no_front_end_is_blamed_for_what_longer_steps_explain() {
        assert_eq!(told(1.0, 0.012).0, "front-end");
        // 36 ms of steps that are twice as long may be 36 ms more.
        let (kind, words) = told(2.0, 0.0188);
        assert_eq!(kind, "first-token");
        assert_eq!(
            words,
            "the first token takes 18.8 ms more, which steps of 2.00 times the length explain: it waits for one and ends another"
        );
        let (kind, words) = told(0.5, -0.012);
        assert_eq!(kind, "first-token");
        assert!(
            words.contains("12.0 ms less, which steps of 0.50 times"),
            "{words}"
        );
    }

    #[test]
    fn what_longer_steps_leave_is_told_of_the_front_end() {
        // A tenth of 36 ms are 3.6 ms of 12.
        let (kind, words) = told(1.1, 0.012);
        assert_eq!(kind, "front-end");
        assert!(
            words.starts_with(
                "the first token takes 12.0 ms more, 8.40 ms of it beyond what steps of 1.10 times the length"
            ),
            "{words}"
        );
        // Shorter steps explain no longer first token.
        assert!(!told(0.9, 0.012).1.contains("beyond"), "{:?}", told(0.9, 0.012));
    }
}
