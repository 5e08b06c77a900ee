//! Answers that the engine's context cuts: whoever reads a figure has to know that less work was done than was asked for.

use super::figures::percent;
use crate::analysis::costs::is_other_work;

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
