//! Answers that the engine's context cuts: whoever reads a figure has to know that less work was done than was asked for.

use super::figures::percent;

/// Share of the output tokens from which on it counts: a tail that is cut changes nothing.
const COUNTS: f64 = 0.01;

/// `ANSWERS CUT: 95.6 % of their tokens are beyond the engine's context; `, before what else the first line says; empty where
/// hardly any are.
pub(super) fn told(share: f64) -> String {
    match is_other_work(share) {
        true => format!(
            "ANSWERS CUT: {} of their tokens are beyond the engine's context; ",
            percent(share)
        ),
        false => String::new(),
    }
}

/// Whether so much is cut that the work is not what was asked for: its rate and cost compare with those of no other setting.
pub(super) fn is_other_work(share: f64) -> bool {
    share >= COUNTS
}
