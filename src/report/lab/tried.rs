//! A lab tried on many students, for whoever writes one: what answers spread over, and what would mislead.

use crate::lab::{Answer, Kind, Lab, Outcome, figure};
use crate::report::page::table_on;
use crate::report::tables::Column;

/// Scores of a choice that are closer than this share are decided by chance.
const CLOSE: f64 = 0.1;

/// What one student would have seen.
#[derive(Clone, Debug)]
pub struct Try {
    /// Their id.
    pub student: String,
    /// How the questions came out, without predictions.
    pub outcomes: Vec<Outcome>,
}

/// What is wrong with a lab that was tried, a line each.
#[must_use]
pub fn problems(lab: &Lab, tries: &[Try]) -> Vec<String> {
    let mut problems: Vec<String> = lab
        .told_beforehand()
        .map(|question| {
            format!(
                "{} {question}: all figures of its answer are told before the prediction",
                lab.name
            )
        })
        .collect();
    for one in tries {
        let who = match one.student.as_str() {
            "" => "without an id".to_owned(),
            id => format!("student {id}"),
        };
        for outcome in &one.outcomes {
            let place = format!("{} {} ({who})", lab.name, outcome.name);
            if let (Some(by_hand), Answer::Number(truth)) = (outcome.by_hand(), &outcome.simulated)
                && !by_hand.is_within
            {
                problems.push(format!(
                    "{place}: by hand {}, simulated {}, which is not {}",
                    figure(by_hand.value),
                    figure(*truth),
                    allowed(outcome)
                ));
            }
            if let Some(margin) = outcome.margin().filter(|margin| *margin < CLOSE) {
                let scores = outcome
                    .scores()
                    .iter()
                    .map(|(name, score)| format!("{name} {}", figure(*score)));
                problems.push(format!(
                    "{place}: the best two scores are {:.1} % apart: {}",
                    100.0 * margin,
                    scores.collect::<Vec<_>>().join(", ")
                ));
            }
        }
    }
    problems
}

/// How far off its figures may be.
fn allowed(outcome: &Outcome) -> String {
    match &outcome.kind {
        Kind::Number { unit, tolerance, .. } => super::allowed(*tolerance, unit),
        Kind::Choice { .. } => String::new(),
    }
}

/// A row for each question: what its answers spread over.
#[must_use]
pub fn text(lab: &Lab, tries: &[Try], width: Option<usize>) -> String {
    let columns = [
        Column::left("lab"),
        Column::left("question"),
        Column::left("answers"),
        Column::right("by hand, worst"),
    ];
    let rows: Vec<Vec<String>> = (0..lab.questions.len())
        .map(|at| {
            let outcomes: Vec<&Outcome> = tries.iter().map(|one| &one.outcomes[at]).collect();
            vec![
                format!("{} {}", lab.number, lab.name),
                lab.questions[at].name.clone(),
                spread(&outcomes),
                worst_by_hand(&outcomes),
            ]
        })
        .collect();
    table_on(&columns, &rows, 2, width)
}

/// From the smallest to the largest figure, or how often each choice was right.
fn spread(outcomes: &[&Outcome]) -> String {
    let figures = outcomes.iter().filter_map(|one| match one.simulated {
        Answer::Number(figure) => Some(figure),
        Answer::Choice(_) => None,
    });
    let (low, high) = figures.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), figure| {
        (low.min(figure), high.max(figure))
    });
    if low <= high {
        let unit = outcomes[0].unit();
        return format!("{} to {} {unit}", figure(low), figure(high))
            .trim_end()
            .to_owned();
    }
    let scores = outcomes.first().map_or(&[][..], |one| one.scores());
    let counts = scores.iter().map(|(name, _)| {
        let is_right = |one: &&&Outcome| one.simulated == Answer::Choice(name.clone());
        format!("{name} {} times", outcomes.iter().filter(is_right).count())
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// How far the formula is off where it is worst.
fn worst_by_hand(outcomes: &[&Outcome]) -> String {
    let errors = outcomes
        .iter()
        .filter_map(|one| match (one.by_hand(), &one.simulated) {
            (Some(by_hand), Answer::Number(truth)) if *truth != 0.0 => {
                Some((by_hand.value / truth - 1.0).abs())
            }
            _ => None,
        });
    let worst = errors.max_by(f64::total_cmp);
    worst.map_or(String::new(), |worst| format!("{:.0} %", 100.0 * worst))
}
