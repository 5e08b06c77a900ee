//! What a run's verdict says to whoever reads it: a number in the system that keeps returning to the same level is steady
//! also where everybody inside gives up, and then nobody has an answer.

use super::views::verdict_word;
use crate::analysis::{RunResult, Verdict};

/// Whether nobody who was sent had an answer, or nobody was sent. Overload that was cut short before the first answer has lost nobody yet.
pub(super) fn has_no_answers(result: &RunResult) -> bool {
    let whole = &result.whole;
    let is_cut = result.verdict == Verdict::Unstable && whole.lost() == 0;
    whole.completed == 0 && !is_cut
}

/// The steady stretch of a congestion collapse, s: some were answered before it, and nobody in it.
pub(super) fn collapsed_s(result: &RunResult) -> Option<(f64, f64)> {
    let steady = result.steady.as_ref()?;
    let is_collapse = result.whole.completed > 0 && steady.completed == 0 && steady.sent > 0;
    result.steady_window_s.filter(|_| is_collapse)
}

/// The word for a run, as JSON writes it: its verdict, or that there are no answers for it to be about.
pub(super) fn run_word(result: &RunResult) -> &'static str {
    if has_no_answers(result) {
        "no_answers"
    } else if collapsed_s(result).is_some() {
        "collapsed"
    } else {
        verdict_word(result.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn a_steady_queue_of_whom_nobody_is_answered_is_not_stable() {
        let mut run = fixtures::stable_run();
        assert_eq!(run_word(&run), "stable");
        (run.whole.completed, run.whole.timed_out) = (0, run.whole.sent);
        assert_eq!(run_word(&run), "no_answers");
        (run.whole.sent, run.whole.timed_out) = (0, 0);
        assert_eq!(run_word(&run), "no_answers", "nobody was sent");
    }

    #[test]
    fn a_collapse_is_told_from_when_on_nobody_is_answered() {
        let mut run = fixtures::stable_run();
        let steady = run.steady.as_mut().unwrap();
        (steady.completed, run.steady_window_s) = (0, Some((56.8, 99.9)));
        run.whole.timed_out = run.whole.sent / 2;
        assert_eq!(run_word(&run), "collapsed");
        let text = super::super::text::run(&run, &fixtures::meta(), super::super::Style::default());
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.contains("COLLAPSED at")
                && first.contains("nobody is answered in time from 56.8 s to 99.9 s"),
            "{first}"
        );
        assert!(!first.contains("stable"), "{text}");
    }
}
