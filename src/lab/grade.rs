//! Predicted beside simulated.

use super::{Answer, Answered, Best, Missing, Predictions, Question, Sheet};

/// How one question came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Which question.
    pub name: String,
    /// It, with its figures.
    pub ask: String,
    /// The unit of figures; empty for choices.
    pub unit: String,
    /// What was predicted, if anything.
    pub predicted: Option<Answer>,
    /// What the simulation gave.
    pub simulated: Answer,
    /// What a measurement gave, where one was handed in that has it.
    pub measured: Option<Answer>,
    /// Whether the prediction is near enough.
    pub right: Option<bool>,
    /// How far off it may be, in words.
    pub allowed: String,
    /// The formula with its figures.
    pub by_hand: Option<ByHandOutcome>,
    /// Of a choice, each one's score.
    pub scores: Vec<(String, f64)>,
    /// Why it is so.
    pub because: String,
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
    /// Predicted over simulated, less one; of figures alone.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        match (&self.predicted, &self.simulated) {
            (Some(Answer::Number(predicted)), Answer::Number(truth)) if *truth != 0.0 => {
                Some(predicted / truth - 1.0)
            }
            _ => None,
        }
    }

    /// By how much the best score beats the next one, as a share of it; of choices alone.
    #[must_use]
    pub fn margin(&self) -> Option<f64> {
        let Answer::Choice(best) = &self.simulated else {
            return None;
        };
        let score = |name: &str| {
            self.scores
                .iter()
                .find(|(one, _)| one == name)
                .map(|(_, score)| *score)
        };
        let best_score = score(best)?;
        let others = self.scores.iter().filter(|(name, _)| name != best);
        others
            .map(|(_, other)| {
                let largest = other.abs().max(best_score.abs());
                if largest == 0.0 {
                    0.0
                } else {
                    (best_score - other).abs() / largest
                }
            })
            .min_by(f64::total_cmp)
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
    let simulated = answer(sheet, &question.answer)?;
    // A figure that measurements do not have is no fault: the next one may.
    let measured = measured
        .filter(|sheet| is_measured(sheet, &question.answer))
        .and_then(|sheet| answer(sheet, &question.answer).ok());
    let right = predicted
        .as_ref()
        .map(|predicted| match (&question.answer, predicted, &simulated) {
            (Answered::Number { tolerance, .. }, Answer::Number(predicted), Answer::Number(truth)) => {
                tolerance.holds(*predicted, *truth)
            }
            (_, predicted, truth) => predicted == truth,
        });
    let (unit, allowed, by_hand) = match &question.answer {
        Answered::Number {
            unit,
            tolerance,
            by_hand,
            truth,
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
            (unit.clone(), tolerance.told(unit), by_hand.transpose()?)
        }
        Answered::Choice { .. } => (String::new(), String::new(), None),
    };
    let scores = match &question.answer {
        Answered::Choice { scores, .. } => scores
            .iter()
            .map(|(name, score)| Ok((name.clone(), sheet.value(score)?)))
            .collect::<Result<_, Missing>>()?,
        Answered::Number { .. } => Vec::new(),
    };
    Ok(Outcome {
        name: question.name.clone(),
        ask: sheet.text(&question.ask)?,
        unit,
        predicted,
        simulated,
        measured,
        right,
        allowed,
        by_hand,
        scores,
        because: sheet.text(&question.because)?,
    })
}

/// What the figures of a sheet answer.
fn answer(sheet: &Sheet<'_>, answered: &Answered) -> Result<Answer, Missing> {
    match answered {
        Answered::Number { truth, .. } => sheet.value(truth).map(Answer::Number),
        Answered::Choice { scores, best } => {
            let scored: Vec<(f64, &String)> = scores
                .iter()
                .map(|(name, score)| Ok((sheet.value(score)?, name)))
                .collect::<Result<_, Missing>>()?;
            let by_score = |a: &&(f64, &String), b: &&(f64, &String)| a.0.total_cmp(&b.0);
            let winner = match best {
                Best::Largest => scored.iter().max_by(by_score),
                Best::Smallest => scored.iter().min_by(by_score),
            };
            Ok(Answer::Choice(
                winner.map(|(_, name)| (*name).clone()).unwrap_or_default(),
            ))
        }
    }
}

fn is_measured(sheet: &Sheet<'_>, answered: &Answered) -> bool {
    match answered {
        Answered::Number { truth, .. } => sheet.is_measured(truth),
        Answered::Choice { scores, .. } => scores.iter().any(|(_, score)| sheet.is_measured(score)),
    }
}
