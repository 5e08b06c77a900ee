//! What counts something else, and moves where nothing of the server did.
//!
//! An answer is its first token and its steps, so steps are no faster where ttft and e2el stay. Prompts that are counted beside
//! answers multiply tokens per second, and no request comes sooner.

use super::super::finding::show;
use super::{Cause, Comparison, Moved};
use crate::results::Measured;

/// A figure that moved by less stayed.
const STAYED: f64 = 0.02;
/// From so large a move on it is no rounding.
const MOVED: f64 = 0.05;

fn stayed(figure: Option<&Moved>) -> bool {
    figure.is_some_and(|figure| figure.change().abs() < STAYED)
}

/// Times between tokens that moved while answers and their first tokens take what they took.
pub(super) fn of_steps(measured: &Measured, comparison: &Comparison) -> Option<Cause> {
    let figure = |name: &str| {
        let of = ["mean", "median"].map(|of| format!("{of} {name}"));
        of.iter().find_map(|name| comparison.figure(name))
    };
    let moved = |name: &str| figure(name).filter(|step| step.is_real() && step.change().abs() > MOVED);
    let (tpot, itl) = (moved("tpot"), moved("itl"));
    let step = tpot.or(itl)?;
    if !stayed(figure("ttft")) {
        return None;
    }
    let unmoved = match figure("e2el") {
        Some(whole) => {
            // Steps that are a small part of the answer move it by less than could be told.
            let tokens = measured.setup.output_tokens.filter(|tokens| *tokens > 1.0)?;
            let by = (tokens - 1.0) * (step.measured - step.predicted).abs();
            if !stayed(Some(whole)) || by < 3.0 * STAYED * whole.predicted {
                return None;
            }
            "e2el and ttft"
        }
        // Where one of the two stayed the steps did.
        None => {
            let other = if tpot.is_some() { "itl" } else { "tpot" };
            if !stayed(figure(other)) || !stayed(comparison.figure("output throughput")) {
                return None;
            }
            "ttft and output throughput"
        }
    };
    let (which, why) = match (tpot, itl) {
        (Some(_), Some(_)) => (
            "tpot and itl are",
            "something else is counted (chunks without a token, other tokens), or it is another unit",
        ),
        (Some(_), None) => (
            "tpot alone is",
            "it is divided by something else than the tokens after the first, or it is another unit",
        ),
        (None, _) => (
            "itl alone is",
            "it is the time between other chunks (some without a token, or of several)",
        ),
    };
    Some(Cause {
        kind: "definition",
        words: format!(
            "{which} {} times as long while {unmoved} stayed, and no step is faster or slower then: a matter of definition, {why}",
            show(step.measured / step.predicted)
        ),
    })
}

/// Tokens per second that moved as if prompts were counted beside answers, while requests per second stayed.
pub(super) fn of_throughput(rows: [&Measured; 2], comparison: &Comparison) -> Option<Cause> {
    let output = comparison.figure("output throughput")?;
    if !stayed(comparison.figure("request throughput")) || output.measured <= 0.0 {
        return None;
    }
    let ratio = output.measured / output.predicted;
    let (name, row, factor) = match ratio >= 1.0 {
        true => (comparison.roles.owners()[1], rows[1], ratio),
        false => (comparison.roles.owners()[0], rows[0], 1.0 / ratio),
    };
    let (prompt, answer) = row.setup.input_tokens.zip(row.setup.output_tokens)?;
    let both = (prompt + answer) / answer;
    let is_it = factor > 1.0 + MOVED && (factor / both - 1.0).abs() < STAYED;
    is_it.then(|| Cause {
        kind: "prompt-tokens-counted",
        words: format!(
            "the {name} output throughput is {} times as high, ({} + {}) / {} = {}, and no request comes sooner: prompt tokens \
             are counted",
            show(factor),
            show(prompt),
            show(answer),
            show(answer),
            show(both)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::{moved, run};
    use crate::results::{Measured, Stats};

    #[test]
    fn steps_are_no_faster_where_answers_are_not() {
        let told = |change: &dyn Fn(&mut Measured)| {
            let mut odd = run();
            change(&mut odd);
            let causes = compare(&run(), &odd).causes;
            let kinds: Vec<&str> = causes.iter().map(|cause| cause.kind).collect();
            let words = causes.first().map_or(String::new(), |cause| cause.words.clone());
            (kinds.join(" "), words)
        };
        let both = told(&|row| {
            moved(&mut row.tpot, |step| step / 2.0);
            moved(&mut row.itl, |step| step / 2.0);
        });
        assert_eq!(both.0, "definition");
        assert!(
            both.1
                .starts_with("tpot and itl are 0.5 times as long while e2el and ttft stayed"),
            "{both:?}"
        );
        let alone = told(&|row| moved(&mut row.tpot, |step| step / 2.0));
        assert_eq!(alone.0, "definition");
        assert!(alone.1.starts_with("tpot alone is 0.5 times"), "{alone:?}");
        let untimed = |row: &mut Measured| row.e2el = Stats::default();
        let alone = told(&|row| (untimed(row), moved(&mut row.tpot, |step| step / 2.0)).0);
        assert_eq!(alone.0, "definition", "{alone:?}");
        // Where no answer is timed steps may be twice as fast.
        let unknown = told(&|row| {
            untimed(row);
            moved(&mut row.tpot, |step| step / 2.0);
            moved(&mut row.itl, |step| step * 0.6);
        });
        assert_eq!(unknown.0, "bandwidth", "{unknown:?}");
    }

    #[test]
    fn prompts_that_are_counted_are_told_of_either_result() {
        let mut odd = run();
        odd.outcome.output_throughput = Some(1267.0 * 5.0);
        for (one, other, name) in [(run(), odd.clone(), "second"), (odd, run(), "first")] {
            let causes = compare(&one, &other).causes;
            assert_eq!(causes.len(), 1, "{causes:?}");
            assert_eq!(causes[0].kind, "prompt-tokens-counted");
            let expected =
                format!("the {name} result's output throughput is 5 times as high, (512 + 128) / 128 = 5");
            assert!(causes[0].words.starts_with(&expected), "{}", causes[0].words);
        }
    }

    #[test]
    fn a_percentile_of_few_requests_is_no_evidence() {
        let of = |requests: u64| {
            let (mut one, mut other) = (run(), run());
            (one.outcome.completed, other.outcome.completed) = (Some(requests), Some(requests));
            other.ttft.percentiles = vec![(99.0, 0.4)];
            compare(&one, &other)
        };
        let (few, many) = (of(99), of(2000));
        assert_eq!(few.largest(), None);
        assert_eq!(few.causes, []);
        assert_eq!(few.figure("p99 ttft").unwrap().few, Some(99));
        assert!(crate::report::diffed::text(&[few], &[]).contains("the largest of 99"));
        assert_eq!(many.largest().unwrap().name, "p99 ttft");
    }
}
