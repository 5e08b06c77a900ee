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
mod figures;
mod first_token;
mod lengths;
mod pairing;
mod said;
mod settings;
mod shape;
mod steps;
mod together;

use super::case::Case;
use super::little::FULL;
use crate::results::Measured;
use crate::stats::Z_95;
use causes::causes;
use chance::Chance;
use figures::figures;
pub use pairing::{Pair, pairs};
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
    /// Whether it is a time.
    pub is_time: bool,
    /// The requests behind a percentile beyond which there is none of them, in either result: it is their largest value.
    pub few: Option<u64>,
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
        let chance = self.noise.map_or(0.0, |noise| self.widening * noise);
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
        self.noise.map(|noise| either_way(self.widening * noise))
    }

    /// The changes between which chance alone leaves this figure by itself, 95 %.
    #[must_use]
    pub fn chance_alone(&self) -> Option<(f64, f64)> {
        self.noise.map(either_way)
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

/// One run against another.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Places of both in their files.
    pub places: (String, String),
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
    /// Why no figure can be compared; where it is said there are no figures and no causes.
    pub nothing: Option<String>,
}

impl Comparison {
    /// A figure by its name.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<&Moved> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// The figure that moved most, of those that moved more than chance.
    #[must_use]
    pub fn largest(&self) -> Option<&Moved> {
        let real = self.figures.iter().filter(|figure| figure.is_real());
        real.max_by(|a, b| a.distance().total_cmp(&b.distance()))
    }
}

/// Compares one run with another.
#[must_use]
pub fn compare(predicted: &Measured, measured: &Measured) -> Comparison {
    let mut comparison = Comparison {
        places: (predicted.place.clone(), measured.place.clone()),
        figures: Vec::new(),
        together: None,
        remarks: Vec::new(),
        causes: Vec::new(),
        unlike: Vec::new(),
        nothing: unanswered(predicted, measured),
    };
    if comparison.nothing.is_some() {
        return comparison;
    }
    let chances = [Chance::new(predicted), Chance::new(measured)];
    comparison.figures = figures(predicted, measured, &chances);
    let is_same_traffic = chance::saw_the_same(predicted, measured);
    if is_same_traffic {
        comparison
            .figures
            .iter_mut()
            .for_each(|figure| figure.noise = None);
    }
    comparison.together = together::judge(&mut comparison.figures, &chances);
    comparison.remarks = remarks([predicted, measured], &chances, is_same_traffic);
    comparison.causes = causes(predicted, measured, &comparison);
    let is_said = |what: &String| comparison.causes.iter().any(|cause| cause.words.contains(what));
    comparison.unlike = said::all_that_differs(predicted, measured);
    comparison.unlike.retain(|what| !is_said(what));
    if comparison.figures.is_empty() {
        comparison.nothing = Some("no figure is in both results".to_owned());
    }
    comparison
}

/// The client's limit, where it is full: no queue but the client's own grows behind it.
fn full_limit(row: &Measured) -> Option<u64> {
    let in_flight = Case::new(row, None).in_flight()?.value;
    let limit = row.setup.max_concurrency?;
    (in_flight >= FULL * limit as f64).then_some(limit)
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

/// What a reader must know of the two before the figures.
fn remarks(rows: [&Measured; 2], chances: &[Chance<'_>; 2], is_same_traffic: bool) -> Vec<String> {
    let which = ["first", "second"];
    let not_measured = rows.iter().zip(which).filter_map(|(row, which)| {
        let names: Vec<&str> = row.not_measured().collect();
        let is_plural = names.len() > 1;
        (!names.is_empty()).then(|| {
            format!(
                "{} of the {which} result {} NaN, which is no measurement, and {} left out",
                names.join(", "),
                if is_plural { "are" } else { "is" },
                if is_plural { "are" } else { "is" }
            )
        })
    });
    let verdicts = rows.iter().zip(which).filter_map(|(row, which)| {
        let why = match row.own.as_ref()?.verdict.as_str() {
            "too_short" => "is too short to judge: its figures are its own, not the system's",
            "critical" => "is so near to saturation that its figures are hardly known",
            "unstable" => match full_limit(row) {
                Some(limit) => {
                    return Some(format!(
                        "the {which} result is a closed loop of {limit}: its rate is above what that many in flight are \
                         answered at, and waiting for the limit is in no latency"
                    ));
                }
                None => "is overloaded: its latencies measure how long it ran",
            },
            _ => return None,
        };
        Some(format!("the {which} result {why}"))
    });
    let mut remarks: Vec<String> = not_measured.chain(verdicts).collect();
    if is_same_traffic {
        let what = "both saw the requests of one seed, so what moved is no chance of arrivals; another seed may show it larger \
                    or smaller, which `plimsoll compare` bounds";
        remarks.push(what.to_owned());
        return remarks;
    }
    let [one, other] = [chances[0].how(), chances[1].how()];
    remarks.push(if one == other {
        format!("chance of each result: {one}")
    } else {
        format!("chance of the first result {one}; of the second {other}")
    });
    remarks
}

#[cfg(test)]
mod fair;
#[cfg(test)]
mod tests;
