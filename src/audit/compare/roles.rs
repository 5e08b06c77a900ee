//! Which of two results is a prediction: words say "predicted" of nothing that was measured.

use crate::results::{Measured, Tool};

/// What two results are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// The first is a prediction and the second a measurement.
    Predicted,
    /// The second is the prediction.
    Measured,
    /// Both are one or the other.
    Alike,
}

impl Roles {
    /// By who wrote the two: Plimsoll predicts.
    #[must_use]
    pub fn of(one: &Measured, other: &Measured) -> Roles {
        match [one, other].map(|row| row.tool == Tool::Plimsoll) {
            [true, false] => Roles::Predicted,
            [false, true] => Roles::Measured,
            _ => Roles::Alike,
        }
    }

    /// Heads of columns.
    #[must_use]
    pub fn heads(self) -> [&'static str; 2] {
        match self {
            Roles::Predicted => ["predicted", "measured"],
            Roles::Measured => ["measured", "predicted"],
            Roles::Alike => ["first", "second"],
        }
    }

    /// What a figure of the second is held against: `than predicted`.
    #[must_use]
    pub fn than(self) -> &'static str {
        match self {
            Roles::Predicted => "predicted",
            Roles::Measured => "measured",
            Roles::Alike => "in the first result",
        }
    }

    /// Before the name of a figure: `the predicted ttft`, `the first result's ttft`.
    pub(super) fn owners(self) -> [&'static str; 2] {
        match self {
            Roles::Alike => ["first result's", "second result's"],
            _ => self.heads(),
        }
    }
}
