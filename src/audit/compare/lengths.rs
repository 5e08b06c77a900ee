//! Mean lengths that differ, and whether lengths that are drawn anew do that by themselves.
//!
//! Law: two simulations that differ in their seeds alone have the lengths of one law, so nothing is told of their means.

use super::super::finding::show;
use super::chance::{Chance, Length};
use super::settings;
use crate::results::Measured;

/// Mean lengths nearer to each other are one.
const SAME: f64 = 0.02;

/// A mean length that is another one in the second result.
pub(super) struct OtherLength {
    /// Of prompts or of answers.
    pub(super) which: Length,
    /// In both results, tokens.
    pub(super) means: [f64; 2],
    /// Whether lengths drawn at random may differ as much.
    pub(super) is_by_chance: bool,
}

impl OtherLength {
    /// `answers differ: 128 against 160 tokens`.
    pub(super) fn words(&self) -> String {
        let what = match self.which {
            Length::Prompt => "prompts",
            Length::Answer => "answers",
        };
        let [one, other] = self.means.map(show);
        format!("{what} differ: {one} against {other} tokens")
    }
}

/// The mean lengths that differ, where both results say them.
pub(super) fn other_lengths(predicted: &Measured, measured: &Measured) -> Vec<OtherLength> {
    let (a, b) = (&predicted.setup, &measured.setup);
    if settings::differ_in_seed_alone(a, b) {
        return Vec::new();
    }
    let chances = [Chance::new(predicted), Chance::new(measured)];
    let pairs = [
        (Length::Prompt, a.input_tokens.zip(b.input_tokens)),
        (Length::Answer, a.output_tokens.zip(b.output_tokens)),
    ];
    let other = |(which, means): (Length, Option<(f64, f64)>)| {
        let (one, other) = means?;
        let by = (other / one - 1.0).abs();
        let [one_by, other_by] = chances.each_ref().map(|chance| chance.of_length(which));
        (by > SAME).then(|| OtherLength {
            which,
            means: [one, other],
            is_by_chance: by <= one_by.hypot(other_by),
        })
    };
    pairs.into_iter().filter_map(other).collect()
}
