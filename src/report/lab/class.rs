//! What a class handed in: a row for each file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::outcome_json;
use crate::lab::{Notebook, Outcome, PROGRAM};
use crate::report::page::table_on;
use crate::report::tables::{Column, markdown};

/// One file that was handed in.
#[derive(Clone, Debug)]
pub struct HandedIn {
    /// Its name.
    pub file: String,
    /// What it holds, and how it came out; or why it could not be graded.
    pub graded: Result<Graded, String>,
}

/// A file that was graded.
#[derive(Clone, Debug)]
pub struct Graded {
    /// The file.
    pub notebook: Notebook,
    /// How each question came out.
    pub outcomes: Vec<Outcome>,
    /// Whether the receipt is that of what the file holds.
    pub is_intact: bool,
    /// Whether the receipt is among those that were handed in before; `None` where those are not given.
    pub was_handed_in: Option<bool>,
}

impl Graded {
    fn right(&self) -> usize {
        self.outcomes.iter().filter(|one| one.right == Some(true)).count()
    }

    fn is_explained(&self) -> bool {
        self.notebook.explanation.is_some()
    }
}

impl HandedIn {
    /// Whether it could be graded, nothing was changed in it, and its receipt was handed in before if those are known.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_sound = |graded: &Graded| graded.is_intact && graded.was_handed_in != Some(false);
        self.graded.as_ref().is_ok_and(is_sound)
    }

    /// Looks for its receipt in a text.
    pub fn hold_against(&mut self, receipts: &str) {
        if let Ok(graded) = &mut self.graded {
            graded.was_handed_in = Some(receipts.contains(&graded.notebook.receipt));
        }
    }
}

const HEADS: [&str; 7] = [
    "student",
    "lab",
    "right",
    "explained",
    "locked",
    "receipt",
    "file",
];

fn cells(one: &HandedIn) -> Vec<String> {
    let file = one.file.clone();
    match &one.graded {
        Ok(graded) => vec![
            graded.notebook.student.id().to_owned(),
            graded.notebook.lab.clone(),
            format!("{}/{}", graded.right(), graded.outcomes.len()),
            if graded.is_explained() { "yes" } else { "no" }.to_owned(),
            graded.notebook.predicted_at.clone(),
            match (graded.is_intact, graded.was_handed_in) {
                (false, _) => "CHANGED".to_owned(),
                (true, Some(false)) => format!("NOT HANDED IN BEFORE {}", graded.notebook.receipt),
                (true, _) => graded.notebook.receipt.clone(),
            },
            file,
        ],
        Err(problem) => vec![
            "–".into(),
            "–".into(),
            "–".into(),
            "–".into(),
            "–".into(),
            problem.clone(),
            file,
        ],
    }
}

fn columns() -> Vec<Column> {
    HEADS.iter().map(|head| Column::left(head)).collect()
}

/// A table for people.
#[must_use]
pub fn text(all: &[HandedIn], width: Option<usize>) -> String {
    table_on(&columns(), &all.iter().map(cells).collect::<Vec<_>>(), 1, width)
}

/// A table for documents.
#[must_use]
pub fn md(all: &[HandedIn]) -> String {
    markdown(&columns(), &all.iter().map(cells).collect::<Vec<_>>())
}

/// An array of objects.
#[must_use]
pub fn json(all: &[HandedIn]) -> String {
    let rows: Vec<Value> = all
        .iter()
        .map(|one| match &one.graded {
            Ok(graded) => json!({
                "file": one.file,
                "student": graded.notebook.student.id(),
                "lab": graded.notebook.lab,
                "predicted_at": graded.notebook.predicted_at,
                "receipt": graded.notebook.receipt,
                "is_intact": graded.is_intact,
                "was_handed_in": graded.was_handed_in,
                "right": graded.right(),
                "of": graded.outcomes.len(),
                "explanation": graded.notebook.explanation,
                "questions": graded.outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
            }),
            Err(problem) => json!({"file": one.file, "problem": problem}),
        })
        .collect();
    format!("{:#}\n", Value::Array(rows))
}

/// What stands out in a class: who handed a lab in twice, and files that another version of this program locked.
#[must_use]
pub fn remarks(all: &[HandedIn]) -> Vec<String> {
    let graded = || {
        all.iter()
            .filter_map(|one| Some((&one.file, one.graded.as_ref().ok()?)))
    };
    let mut first = BTreeMap::new();
    let mut remarks = Vec::new();
    for (file, graded) in graded() {
        let whose = (graded.notebook.student.id(), &graded.notebook.lab);
        if let Some(before) = first.insert(whose, file) {
            let (id, lab) = whose;
            remarks.push(format!(
                "lab {lab} of student `{id}` is there twice: {before}, {file}"
            ));
        }
    }
    let others = graded()
        .filter(|(_, graded)| graded.notebook.program != PROGRAM)
        .count();
    if others > 0 {
        remarks.push(format!(
            "{others} of the files were locked by another version of plimsoll than {PROGRAM}, which grades them by its own figures"
        ));
    }
    remarks
}

/// A cell that no spreadsheet takes for a formula.
fn no_formula(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text.to_owned(),
    }
}

/// A row for each file.
#[must_use]
pub fn csv(all: &[HandedIn]) -> String {
    let head = [
        "file",
        "student",
        "lab",
        "right",
        "of",
        "explained",
        "predicted_at",
        "receipt",
        "is_intact",
        "was_handed_in",
        "explanation",
        "problem",
    ];
    let rows = all.iter().map(|one| match &one.graded {
        Ok(graded) => vec![
            one.file.clone(),
            graded.notebook.student.id().to_owned(),
            graded.notebook.lab.clone(),
            graded.right().to_string(),
            graded.outcomes.len().to_string(),
            graded.is_explained().to_string(),
            graded.notebook.predicted_at.clone(),
            graded.notebook.receipt.clone(),
            graded.is_intact.to_string(),
            graded.was_handed_in.map_or(String::new(), |was| was.to_string()),
            no_formula(graded.notebook.explanation.as_deref().unwrap_or_default()),
            String::new(),
        ],
        Err(problem) => {
            let mut row = vec![String::new(); head.len()];
            row[0] = one.file.clone();
            row[head.len() - 1] = problem.clone();
            row
        }
    });
    crate::report::csv::write(&head, rows)
}
