//! What a class handed in: a row for each file.

use serde_json::{Value, json};

use super::outcome_json;
use crate::lab::{Notebook, Outcome};
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
    /// Whether it could be graded and nothing was changed in it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.graded.as_ref().is_ok_and(|graded| graded.is_intact)
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
            match graded.is_intact {
                true => graded.notebook.receipt.clone(),
                false => "CHANGED".to_owned(),
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
