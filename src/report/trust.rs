//! How well a part of the step time is known, as a mark and as a word.

use crate::cost::Trust;

/// Points of trust out of three: measured here, calibrated on this GPU, a similar GPU's parameters, datasheet only. None: what was measured
/// speaks against it.
#[must_use]
pub fn trust_mark(trust: Trust) -> &'static str {
    match trust {
        Trust::Measured => "●●●",
        Trust::Calibrated => "●●○",
        Trust::Prior => "●◐○",
        Trust::RooflineOnly => "●○○",
        Trust::Doubtful => "○○○",
    }
}

/// The word for a degree of trust.
#[must_use]
pub fn trust_word(trust: Trust) -> &'static str {
    match trust {
        Trust::Measured => "measured",
        Trust::Calibrated => "calibrated",
        Trust::Prior => "prior",
        Trust::RooflineOnly => "roofline only",
        Trust::Doubtful => "DOUBTFUL",
    }
}

/// The degree of trust that such a word stands for.
pub(super) fn trust_of(word: &str) -> Option<Trust> {
    let all = [
        Trust::Measured,
        Trust::Calibrated,
        Trust::Prior,
        Trust::RooflineOnly,
        Trust::Doubtful,
    ];
    all.into_iter().find(|trust| trust_word(*trust) == word)
}
