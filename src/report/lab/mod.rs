//! Labs for people: the exercise, how predictions came out, and what a class handed in.

pub mod class;
pub mod tried;

use serde_json::{Value, json};

use super::page::{Page, wrapped};
use super::prose::blocks;
use super::style::Style;
use crate::lab::{
    Answer, Answered, Kind, Lab, Missing, Notebook, Outcome, Question, Sheet, Student, Tolerance, Varied,
    figure,
};

/// An exercise as a student reads it.
///
/// `asked` is how the lab was named, for the commands that come next; `unlocked` is who has not predicted anything yet.
///
/// # Errors
/// A figure that a command did not print.
pub fn exercise(
    sheet: &Sheet<'_>,
    asked: &str,
    unlocked: Option<&Student>,
    style: Style,
) -> Result<String, Missing> {
    let lab = sheet.lab;
    let mut page = Page::new(style);
    page.answer(&title(lab));
    page.line("");
    for block in blocks(&sheet.text(&lab.about)?) {
        page.block(&block.laid_out(Some(page.width())));
        page.line("");
    }
    let before: Vec<_> = lab.experiments.iter().filter(|one| one.before).collect();
    if !before.is_empty() {
        page.line("Known beforehand, from");
        for experiment in before {
            page.line(&format!(
                "  plimsoll {}   # {}",
                sheet.command(experiment)?,
                sheet.text(&experiment.what)?
            ));
        }
        page.line("");
    }
    page.line("To predict");
    let column = names_column(lab);
    for question in &lab.questions {
        page.block(&entry(
            &question.name,
            &[asks(sheet, question)?],
            column,
            page.width(),
        ));
    }
    page.line("");
    if let Some(student) = unlocked {
        let blanks = lab
            .questions
            .iter()
            .map(|question| format!("{}=…", question.name));
        let who = match student.id() {
            "" => String::new(),
            id => format!(" --student-id {}", shlex::try_quote(id).unwrap_or_default()),
        };
        let blanks = blanks.collect::<Vec<_>>().join(" ");
        page.line(&format!("plimsoll lab predict {asked}{who} {blanks}"));
    }
    page.line(&format!("plimsoll lab run {asked}"));
    Ok(page.into_text())
}

/// `Lab 3: Roofline`.
fn title(lab: &Lab) -> String {
    format!("Lab {}: {}", lab.number, lab.title)
}

/// Columns that the names of questions take.
fn names_column(lab: &Lab) -> usize {
    let names = lab.questions.iter().map(|question| question.name.len());
    names.max().unwrap_or(0)
}

/// A name in its column, and its sentences beside it.
fn entry(name: &str, sentences: &[String], column: usize, width: usize) -> String {
    let indent = " ".repeat(column + 4);
    let lines = sentences.iter().enumerate().map(|(at, sentence)| {
        let name = if at == 0 { name } else { "" };
        wrapped(&format!("  {name:<column$}  "), &indent, sentence, width)
    });
    lines.collect()
}

/// A question with what may answer it.
///
/// # Errors
/// A figure that a command did not print.
pub fn asks(sheet: &Sheet<'_>, question: &Question) -> Result<String, Missing> {
    let ask = sheet.text(&question.ask)?;
    Ok(match &question.answer {
        Answered::Number { unit, .. } if unit.is_empty() => ask,
        Answered::Number { unit, .. } => format!("{ask} [{unit}]"),
        Answered::Choice { scores, .. } => {
            let names: Vec<&str> = scores.iter().map(|(name, _)| name.as_str()).collect();
            format!("{ask} [{}]", names.join(" or "))
        }
    })
}

/// What was predicted beside what was simulated.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// The lab with its figures.
    pub sheet: &'a Sheet<'a>,
    /// Whose.
    pub student: &'a str,
    /// The locked predictions, if there are any.
    pub notebook: Option<&'a Notebook>,
    /// How each question came out.
    pub outcomes: &'a [Outcome],
    /// The names of experiments, and their commands as they are typed.
    pub commands: &'a [(String, String)],
    /// What parts of the model the figures rest on, by how well each is known: `calibrated: linear layers, prefill attention`.
    pub trust: &'a [String],
}

impl Told<'_> {
    /// How many predictions were right, of how many.
    fn right(&self) -> (usize, usize) {
        let right = self.outcomes.iter().filter(|one| one.right == Some(true)).count();
        (right, self.outcomes.len())
    }
}

/// The result of a lab for people.
///
/// # Errors
/// A figure that a command did not print.
pub fn result(told: &Told<'_>, asked: &str, style: Style) -> Result<String, Missing> {
    let mut page = Page::new(style);
    let lab = told.sheet.lab;
    let (right, all) = told.right();
    page.answer(&match told.notebook {
        Some(_) => format!("{right} of {all} predictions right   {}", title(lab)),
        None => format!("{}, without predictions", title(lab)),
    });
    page.line("");
    let column = names_column(lab);
    for outcome in told.outcomes {
        page.block(&entry(&outcome.name, &sentences(outcome), column, page.width()));
    }
    page.line("");
    if let Some(notebook) = told.notebook {
        let who = match notebook.student.id() {
            "" => String::new(),
            id => format!("by {id}, "),
        };
        page.fact(
            "locked",
            &format!("{who}{}; receipt {}", notebook.predicted_at, notebook.receipt),
        );
    }
    // Whole, however long: they are there to be typed again.
    page.line("  commands");
    let widest = told
        .commands
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    for (name, command) in told.commands {
        page.line(&format!("    {name:<widest$}  {command}"));
    }
    let is_measured = told.outcomes.iter().any(|one| one.measured.is_some());
    page.fact(
        "rest on",
        match is_measured {
            true => "measurement where it is said, and else on simulation, with",
            false => "simulation: nothing here was measured. It has",
        },
    );
    page.listed("", told.trust);
    if let Some(reflect) = &lab.reflect {
        page.fact("explain", &told.sheet.text(reflect)?);
        match told.notebook.and_then(|notebook| notebook.explanation.as_deref()) {
            Some(explanation) => page.fact("", &format!("“{explanation}”")),
            None if told.notebook.is_some() => page.fact("", &format!("plimsoll lab explain {asked} \"…\"")),
            None => {}
        }
    }
    Ok(page.into_text())
}

/// All that is said of one question.
fn sentences(outcome: &Outcome) -> Vec<String> {
    let unit = |answer: &Answer| shown(answer, outcome.unit());
    let simulated = unit(&outcome.simulated);
    let mut said = vec![outcome.ask.clone()];
    said.push(match (&outcome.predicted, outcome.right) {
        (Some(predicted), Some(right)) => {
            let mark = if right { "✓" } else { "✗" };
            let off = off(outcome, right).map_or(String::new(), |off| format!(": {off}"));
            format!("{mark} predicted {}, simulated {simulated}{off}", bare(predicted))
        }
        _ => format!("simulated {simulated}"),
    });
    if let Some(measured) = &outcome.measured {
        said.push(format!("measured {}", unit(measured)));
    }
    if let Some(by_hand) = outcome.by_hand() {
        let value = figure(by_hand.value);
        // A formula that is a number needs no equation.
        let equation = match by_hand.on_paper == value {
            true => String::new(),
            false => format!("{} = ", by_hand.on_paper),
        };
        let told = format!("{}: {equation}{value} {}", by_hand.rule, outcome.unit());
        said.push(told.trim_end().to_owned());
    }
    said.push(outcome.because.clone());
    said
}

/// How far a figure is off, and whether that is near enough, in words.
fn off(outcome: &Outcome, right: bool) -> Option<String> {
    let (Some(Answer::Number(predicted)), Answer::Number(truth)) = (&outcome.predicted, &outcome.simulated)
    else {
        return None;
    };
    let Kind::Number { unit, tolerance, .. } = &outcome.kind else {
        return None;
    };
    let not = if right { "" } else { "not " };
    let off = match tolerance {
        Tolerance::Relative(_) if predicted * truth > 0.0 => by_ratio(predicted / truth),
        _ => format!("{} off", points(figure((predicted - truth).abs()), unit)),
    };
    Some(format!("{off}, {not}{}", allowed(*tolerance, unit)))
}

/// How far off a prediction may be: `within 25 %`, `within 5 ms`.
pub(super) fn allowed(tolerance: Tolerance, unit: &str) -> String {
    match tolerance {
        Tolerance::Relative(share) => format!("within {} %", figure(100.0 * share)),
        Tolerance::Points(most) => format!("within {}", points(figure(most), unit)),
    }
}

/// A difference in a unit; of shares in points, for 5 % would be read as 5 % of one.
fn points(difference: String, unit: &str) -> String {
    match unit {
        "%" => format!("{difference} percentage points"),
        unit => format!("{difference} {unit}").trim_end().to_owned(),
    }
}

fn by_ratio(ratio: f64) -> String {
    const TWICE: f64 = 2.0;
    match ratio {
        _ if (ratio - 1.0).abs() < 0.01 => "less than 1 % off".to_owned(),
        _ if ratio >= TWICE => format!("{} times too much", figure(ratio)),
        _ if ratio <= 1.0 / TWICE => format!("{} times too little", figure(1.0 / ratio)),
        _ if ratio > 1.0 => format!("{:.0} % too much", 100.0 * (ratio - 1.0)),
        _ => format!("{:.0} % too little", 100.0 * (1.0 - ratio)),
    }
}

/// A figure with its unit, or a choice.
fn shown(answer: &Answer, unit: &str) -> String {
    match answer {
        Answer::Number(number) => format!("{} {unit}", figure(*number)).trim_end().to_owned(),
        Answer::Choice(choice) => choice.clone(),
    }
}

/// A prediction as it was given.
fn bare(answer: &Answer) -> String {
    match answer {
        Answer::Number(number) => number.to_string(),
        Answer::Choice(choice) => choice.clone(),
    }
}

fn answer_json(answer: &Answer) -> Value {
    match answer {
        Answer::Number(number) => json!(number),
        Answer::Choice(choice) => json!(choice),
    }
}

/// An exercise as one object.
///
/// # Errors
/// A figure that a command did not print.
pub fn exercise_json(sheet: &Sheet<'_>, student: &str) -> Result<Value, Missing> {
    let lab = sheet.lab;
    let questions = lab.questions.iter().map(|question| {
        let (unit, choices) = match &question.answer {
            Answered::Number { unit, .. } => (Some(unit.clone()), None),
            Answered::Choice { scores, .. } => {
                (None, Some(scores.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()))
            }
        };
        Ok(json!({"name": question.name, "ask": sheet.text(&question.ask)?, "unit": unit, "choices": choices}))
    });
    let experiments = lab.experiments.iter().map(|one| {
        Ok(json!({"name": one.name, "what": sheet.text(&one.what)?, "before": one.before, "command": sheet.command(one)?}))
    });
    Ok(json!({
        "lab": lab.name,
        "number": lab.number,
        "title": lab.title,
        "student": student,
        "varied": varied_json(sheet),
        "about": sheet.text(&lab.about)?,
        "experiments": experiments.collect::<Result<Vec<_>, Missing>>()?,
        "questions": questions.collect::<Result<Vec<_>, Missing>>()?,
    }))
}

/// What the student's variant is.
fn varied_json(sheet: &Sheet<'_>) -> Value {
    let varied = sheet.variant.iter().map(|(name, value)| {
        let value = match value {
            Varied::Number(number) => json!(number),
            Varied::Word(word) => json!(word),
        };
        (name.to_owned(), value)
    });
    Value::Object(varied.collect())
}

/// The result of a lab as one object.
#[must_use]
pub fn result_json(told: &Told<'_>) -> Value {
    let (right, all) = told.right();
    json!({
        "lab": told.sheet.lab.name,
        "number": told.sheet.lab.number,
        "student": told.student,
        "varied": varied_json(told.sheet),
        "predicted_at": told.notebook.map(|notebook| &notebook.predicted_at),
        "receipt": told.notebook.map(|notebook| &notebook.receipt),
        "explanation": told.notebook.and_then(|notebook| notebook.explanation.as_ref()),
        "right": told.notebook.map(|_| right),
        "of": all,
        "commands": told.commands.iter().map(|(name, command)| json!({"experiment": name, "command": command})).collect::<Vec<_>>(),
        "trust": told.trust,
        "questions": told.outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
    })
}

/// One question as an object.
#[must_use]
pub fn outcome_json(outcome: &Outcome) -> Value {
    let by_hand = outcome.by_hand().map(|by_hand| {
        json!({"rule": by_hand.rule, "on_paper": by_hand.on_paper, "value": by_hand.value, "is_within": by_hand.is_within})
    });
    let scores = outcome
        .scores()
        .iter()
        .map(|(name, score)| (name.clone(), json!(score)));
    let (within, within_points) = match &outcome.kind {
        Kind::Number {
            tolerance: Tolerance::Relative(share),
            ..
        } => (Some(share), None),
        Kind::Number {
            tolerance: Tolerance::Points(points),
            ..
        } => (None, Some(points)),
        Kind::Choice { .. } => (None, None),
    };
    json!({
        "name": outcome.name,
        "ask": outcome.ask,
        "unit": outcome.unit(),
        "predicted": outcome.predicted.as_ref().map(answer_json),
        "simulated": answer_json(&outcome.simulated),
        "measured": outcome.measured.as_ref().map(answer_json),
        "right": outcome.right,
        "within": within,
        "within_points": within_points,
        "by_hand": by_hand,
        "scores": scores.collect::<serde_json::Map<_, _>>(),
        "because": outcome.because,
    })
}

#[cfg(test)]
mod tests;
