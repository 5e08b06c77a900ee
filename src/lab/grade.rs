//! Predicted beside simulated.

use super::{Answer, Answered, Best, Missing, Predictions, Question, Sheet, Tolerance};

/// How one question came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Which question.
    pub name: String,
    /// It, with its figures.
    pub ask: String,
    /// What was predicted, if anything.
    pub predicted: Option<Answer>,
    /// What the simulation gave.
    pub simulated: Answer,
    /// What a measurement gave, where one was handed in that has all of it.
    pub measured: Option<Answer>,
    /// Whether the prediction is near enough.
    pub right: Option<bool>,
    /// What is particular to its kind.
    pub kind: Kind,
    /// Why it is so.
    pub because: String,
}

/// A question's kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A figure is asked for.
    Number {
        /// Its unit.
        unit: String,
        /// How far off it may be.
        tolerance: Tolerance,
        /// The formula with its figures.
        by_hand: Option<ByHandOutcome>,
    },
    /// One of several is asked for.
    Choice {
        /// Each one's score.
        scores: Vec<(String, f64)>,
    },
}

/// A formula with its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct ByHandOutcome {
    /// Its name and form.
    pub rule: String,
    /// With the figures.
    pub on_paper: String,
    /// What it gives.
    pub value: f64,
    /// Whether it would count as right.
    pub is_within: bool,
}

impl Outcome {
    /// The unit of its figures; empty for choices.
    #[must_use]
    pub fn unit(&self) -> &str {
        match &self.kind {
            Kind::Number { unit, .. } => unit,
            Kind::Choice { .. } => "",
        }
    }

    /// The formula with its figures.
    #[must_use]
    pub fn by_hand(&self) -> Option<&ByHandOutcome> {
        match &self.kind {
            Kind::Number { by_hand, .. } => by_hand.as_ref(),
            Kind::Choice { .. } => None,
        }
    }

    /// Each choice's score; of figures none.
    #[must_use]
    pub fn scores(&self) -> &[(String, f64)] {
        match &self.kind {
            Kind::Number { .. } => &[],
            Kind::Choice { scores } => scores,
        }
    }

    /// By how much the best score beats the next one, as a share of the larger; of choices alone.
    #[must_use]
    pub fn margin(&self) -> Option<f64> {
        let Answer::Choice(best) = &self.simulated else {
            return None;
        };
        let (of_best, others): (Vec<_>, Vec<_>) = self.scores().iter().partition(|(name, _)| name == best);
        let (_, best_score) = of_best.first()?;
        let apart = others.iter().map(|(_, other)| {
            let larger = other.abs().max(best_score.abs());
            if larger == 0.0 {
                0.0
            } else {
                (best_score - other).abs() / larger
            }
        });
        apart.min_by(f64::total_cmp)
    }
}

/// Grades the predictions of a sheet whose commands were run; `measured` is the same sheet with measurements in it.
///
/// # Errors
/// A figure that a command did not print.
pub fn grade(
    sheet: &Sheet<'_>,
    predictions: Option<&Predictions>,
    measured: Option<&Sheet<'_>>,
) -> Result<Vec<Outcome>, Missing> {
    let questions = sheet.lab.questions.iter();
    questions
        .map(|question| {
            let predicted = predictions.and_then(|all| all.get(&question.name)).cloned();
            outcome(sheet, question, predicted, measured)
        })
        .collect()
}

fn outcome(
    sheet: &Sheet<'_>,
    question: &Question,
    predicted: Option<Answer>,
    measured: Option<&Sheet<'_>>,
) -> Result<Outcome, Missing> {
    let (simulated, kind) = answer(sheet, &question.answer)?;
    // A figure that measurements do not have is no fault: the next one may.
    let measured = measured
        .filter(|sheet| sheet.is_measured(&question.answer))
        .and_then(|sheet| answer(sheet, &question.answer).ok())
        .map(|(answer, _)| answer);
    let right = predicted
        .as_ref()
        .map(|predicted| match (&kind, predicted, &simulated) {
            (Kind::Number { tolerance, .. }, Answer::Number(predicted), Answer::Number(truth)) => {
                tolerance.holds(*predicted, *truth)
            }
            (_, predicted, truth) => predicted == truth,
        });
    Ok(Outcome {
        name: question.name.clone(),
        ask: sheet.text(&question.ask)?,
        predicted,
        simulated,
        measured,
        right,
        kind,
        because: sheet.text(&question.because)?,
    })
}

/// What the figures of a sheet answer.
fn answer(sheet: &Sheet<'_>, answered: &Answered) -> Result<(Answer, Kind), Missing> {
    match answered {
        Answered::Number {
            unit,
            truth,
            tolerance,
            by_hand,
        } => {
            let truth = sheet.value(truth)?;
            let by_hand = by_hand.as_ref().map(|by_hand| {
                let value = sheet.value(&by_hand.formula)?;
                Ok(ByHandOutcome {
                    rule: sheet.text(&by_hand.rule)?,
                    on_paper: sheet.on_paper(&by_hand.formula)?,
                    value,
                    is_within: tolerance.holds(value, truth),
                })
            });
            let kind = Kind::Number {
                unit: unit.clone(),
                tolerance: *tolerance,
                by_hand: by_hand.transpose()?,
            };
            Ok((Answer::Number(truth), kind))
        }
        Answered::Choice { scores, best } => {
            let scores: Vec<(String, f64)> = scores
                .iter()
                .map(|(name, score)| Ok((name.clone(), sheet.value(score)?)))
                .collect::<Result<_, Missing>>()?;
            let by_score = |a: &&(String, f64), b: &&(String, f64)| a.1.total_cmp(&b.1);
            let winner = match best {
                Best::Largest => scores.iter().max_by(by_score),
                Best::Smallest => scores.iter().min_by(by_score),
            };
            let (winner, _) = winner.expect("the reader demands two choices");
            Ok((Answer::Choice(winner.clone()), Kind::Choice { scores }))
        }
    }
}
