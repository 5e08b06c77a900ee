//! Work that was asked for and is not done: answers that the engine's context cuts, requests that are too long for the server, a rate
//! that is over before it is one.
//! Whoever reads a figure has to know of it, and a cost compares with no other's that does the work.

use super::figures::percent;
use crate::analysis::costs::{Work, is_less_work, is_other_work};

/// What a setting leaves undone, so that it has no rank among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Undone {
    /// So large a share of the answers' tokens is cut off.
    Answers(f64),
    /// So large a share of the requests is too long, and others serve more of them.
    Requests(f64),
    /// All requests are sent at once: no rate is served.
    Rate,
}

impl Undone {
    /// Of a setting, where the best of those that it is ranked with refuse the share `least` of their requests as too long.
    pub(super) fn of(work: Work, least: f64) -> Option<Undone> {
        match is_other_work(work.answers_cut) {
            true => Some(Undone::Answers(work.answers_cut)),
            false if work.is_burst => Some(Undone::Rate),
            false => is_less_work(work.too_long, least).then_some(Undone::Requests(work.too_long)),
        }
    }

    /// In a table's cell.
    pub(super) fn in_short(self) -> String {
        match self {
            Undone::Answers(share) => format!("answers cut by {}", percent(share)),
            Undone::Requests(share) => format!("{} refused as too long", percent(share)),
            Undone::Rate => "a burst, no rate".to_owned(),
        }
    }

    /// As a sentence.
    pub(super) fn why(self) -> &'static str {
        match self {
            Undone::Answers(_) => "answers are cut at the engine's context",
            Undone::Requests(_) => "it refuses requests as too long that others serve",
            Undone::Rate => "all requests are sent before the first has left, a burst and no rate",
        }
    }
}

/// `ANSWERS CUT: 95.6 % of their tokens are beyond the engine's context; `, before what else the first line says; empty where
/// hardly any are.
pub(super) fn answers_cut(share: f64) -> String {
    match is_other_work(share) {
        true => format!(
            "ANSWERS CUT: {} of their tokens are beyond the engine's context; ",
            percent(share)
        ),
        false => String::new(),
    }
}

/// `TOO LONG: 14.5 % of requests are refused for it; `, there too.
pub(super) fn too_long(share: f64) -> String {
    match is_less_work(share, 0.0) {
        true => format!("TOO LONG: {} of requests are refused for it; ", percent(share)),
        false => String::new(),
    }
}
