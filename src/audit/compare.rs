//! Two results beside each other: what moved, by how much, whether that is more than chance, and the likely cause.
//!
//! What the files say of themselves comes first: another model, GPU or load. Else a cause is a pattern in the moves, tried
//! in an order: not the same lengths, not the same definition, a client's limit, a
//! constant time in every step, a factor on every step, a time that long steps hide, a constant or a factor on the prompt, the
//! tail of the queue. Left out: what no two files can tell apart; then nothing is named. Where models, machines or loads differ,
//! every step and queue differs with them, and two simulations are what their settings make them, so nothing else is named.
//! Law: two equal results have no move and no cause.

mod causes;
mod chance;
mod definition;
mod deviation;
mod figures;
mod first_token;
mod foretold;
mod headline;
mod kinds;
mod lengths;
mod pairing;
mod remarks;
mod roles;
mod said;
mod settings;
mod shape;
mod steps;
mod together;

use crate::results::Measured;
use crate::stats::Z_95;
use causes::causes;
use chance::Chance;
use figures::figures;
pub use foretold::{Foretold, MODEL_CONFIDENCE, Refuted};
pub use pairing::{Pair, pairs};
pub use roles::Roles;
pub use together::{FALSE_MOVES, Together};

/// A move smaller than this is not spoken of, whatever the samples.
const LEAST: f64 = 0.01;
/// Half-width of a 95 % interval in deviations.
const DEVIATIONS: f64 = Z_95;

/// A figure in both results.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// `median ttft`, `output throughput` …
    pub name: String,
    /// In the first result; seconds for times.
    pub predicted: f64,
    /// In the second.
    pub measured: f64,
    /// What chance alone moves it by either way, 95 % of this figure by itself, in the logarithm of their ratio; `None` where
    /// the files do not tell.
    pub noise: Option<f64>,
    /// How many times as far chance reaches where it is judged together with the other figures ([`Together`]).
    pub widening: f64,
    /// How far it jumps, in the logarithm, where in another run it would be of another kind of gap: beyond that chance.
    pub jump: f64,
    /// Whether it is a time.
    pub is_time: bool,
    /// The requests behind a percentile beyond which there is none of them, in either result: it is their largest value.
    pub few: Option<u64>,
    /// What a prediction says of it, where one of the results is one.
    pub foretold: Option<Foretold>,
}

impl Moved {
    /// Measured over predicted, less one.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.measured / self.predicted - 1.0
    }

    /// How far it moved, the same whichever of the two results comes first: by the logarithm of their ratio.
    #[must_use]
    pub fn distance(&self) -> f64 {
        (self.measured / self.predicted).ln().abs()
    }

    /// Whether it moved by more than chance, as far as that is known; of a percentile of few requests it is not.
    #[must_use]
    pub fn is_real(&self) -> bool {
        let chance = self.together().unwrap_or(0.0);
        self.few.is_none() && self.distance() > chance.max(LEAST)
    }

    /// Whether chance has a say in whether it moved.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.few.is_none() && self.noise.is_some()
    }

    /// The changes between which chance alone leaves all figures together: those by which it is judged.
    #[must_use]
    pub fn chance(&self) -> Option<(f64, f64)> {
        self.together().map(either_way)
    }

    /// Whether it moved by more than chance if it has stayed of one kind of gap.
    pub(super) fn is_real_of_its_kind(&self) -> bool {
        let chance = self.noise.map_or(0.0, |noise| self.widening * noise);
        self.few.is_none() && self.distance() > chance.max(LEAST)
    }

    /// How far chance reaches either way where all figures are judged together, in the logarithm.
    fn together(&self) -> Option<f64> {
        self.noise.map(|noise| self.widening * noise + self.jump)
    }

    /// How far chance reaches either way, 95 % of this figure by itself, in the logarithm.
    #[must_use]
    pub fn noise_alone(&self) -> Option<f64> {
        self.noise.map(|noise| noise + self.jump)
    }

    /// The changes between which chance alone leaves this figure by itself, 95 %.
    #[must_use]
    pub fn chance_alone(&self) -> Option<(f64, f64)> {
        self.noise_alone().map(either_way)
    }
}

/// The changes that so large a move of the logarithm is, down and up.
fn either_way(noise: f64) -> (f64, f64) {
    ((-noise).exp_m1(), noise.exp_m1())
}

/// Why figures moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `setup`, `host-overhead`, `bandwidth`, `queueing` …; names are stable.
    pub kind: &'static str,
    /// In words, with the numbers that show it.
    pub words: String,
}

impl Cause {
    /// Whether it says why a figure of that name moved: what lengthens a step explains no first token, and the other way
    /// round; another definition, other lengths or a client's limit may explain any.
    #[must_use]
    pub fn explains(&self, figure: &str) -> bool {
        let is_of = |metrics: &[&str]| metrics.iter().any(|metric| figure.contains(metric));
        match self.kind {
            "host-overhead" | "launch-overhead" | "bandwidth" | "step-tail" | "step-time" => {
                is_of(&["itl", "tpot", "e2el", "throughput"])
            }
            "queueing" | "front-end" | "prefill" | "first-token" => is_of(&["ttft", "e2el"]),
            "run-edges" => is_of(&["throughput"]),
            "prompt-tokens-counted" => is_of(&["output throughput"]),
            _ => true,
        }
    }
}

/// Figures from which on no two measurements agree in every digit by chance.
const SAME_FROM: usize = 3;

/// One run against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Places of both in their files.
    pub places: (String, String),
    /// Which of the two is a prediction.
    pub roles: Roles,
    /// What becomes of the prediction, where one of the two is one that says how far it may be off.
    pub refuted: Option<Refuted>,
    /// Every figure that both have.
    pub figures: Vec<Moved>,
    /// How the figures are judged together; `None` where chance has no say in any.
    pub together: Option<Together>,
    /// Where the chance in each result comes from, and what a result says against itself.
    pub remarks: Vec<String>,
    /// What explains the moves, the surest first; empty where nothing moved or no pattern fits.
    pub causes: Vec<Cause>,
    /// What differs in how the two were run and stands in no cause, as where nothing moved.
    pub unlike: Vec<String>,
    /// Both are the same measurement: no figure differs in any digit.
    pub is_same: bool,
    /// Why no figure can be compared; where it is said there are no figures and no causes.
    pub nothing: Option<String>,
}

impl Comparison {
    /// A figure by its name.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<&Moved> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// Compares one run with another.
#[must_use]
pub fn compare(predicted: &Measured, measured: &Measured) -> Comparison {
    let mut comparison = Comparison {
        places: (predicted.place.clone(), measured.place.clone()),
        roles: Roles::of(predicted, measured),
        refuted: None,
        figures: Vec::new(),
        together: None,
        remarks: Vec::new(),
        causes: Vec::new(),
        unlike: Vec::new(),
        is_same: false,
        nothing: unanswered(predicted, measured),
    };
    if comparison.nothing.is_some() {
        return comparison;
    }
    let chances = [Chance::new(predicted), Chance::new(measured)];
    comparison.figures = figures(predicted, measured, &chances);
    comparison.refuted = foretold::foretell([predicted, measured], &mut comparison);
    let is_same_traffic = chance::saw_the_same(predicted, measured);
    if is_same_traffic {
        comparison
            .figures
            .iter_mut()
            .for_each(|figure| (figure.noise, figure.jump) = (None, 0.0));
    }
    comparison.together = together::judge(&mut comparison.figures, &chances);
    comparison.remarks = remarks::remarks([predicted, measured], &chances, is_same_traffic);
    comparison.causes = causes(predicted, measured, &comparison);
    let is_said = |what: &String| comparison.causes.iter().any(|cause| cause.words.contains(what));
    comparison.unlike = said::all_that_differs(predicted, measured);
    comparison.unlike.retain(|what| !is_said(what));
    let mut figures = comparison.figures.iter();
    comparison.is_same = comparison.unlike.is_empty()
        && comparison.figures.len() >= SAME_FROM
        && figures.all(|figure| figure.predicted == figure.measured);
    if comparison.figures.is_empty() {
        comparison.nothing = Some("no figure is in both results".to_owned());
    }
    comparison
}

/// That a run answered nobody: its figures, where it has any, are of no request.
fn unanswered(predicted: &Measured, measured: &Measured) -> Option<String> {
    let is_empty = |row: &Measured| row.outcome.completed == Some(0);
    let which = match (is_empty(predicted), is_empty(measured)) {
        (true, true) => "neither result has",
        (true, false) => "the first result does not have",
        (false, true) => "the second result does not have",
        (false, false) => return None,
    };
    Some(format!("{which} a single request that was answered"))
}

#[cfg(test)]
mod fair;
#[cfg(test)]
mod in_loops;
#[cfg(test)]
mod tests;
