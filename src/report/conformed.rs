//! Replayed recordings as text and as JSON: a line a file, then how many are repeated step by step.

use serde_json::{Value, json};

use super::figures::counted;
use crate::conform::{Agreement, Difference};

/// Version of the JSON; grows when a key changes its meaning.
pub const FORMAT_VERSION: u64 = 1;

/// What became of one file.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// Every step is equal.
    Equal(Agreement),
    /// The first place that is not.
    Different(Difference),
    /// Not a recording.
    Unreadable(String),
}

/// A file for people.
#[must_use]
pub fn line(file: &str, replayed: &Replayed) -> String {
    match replayed {
        Replayed::Equal(agreement) => format!(
            "equal      {file}: {}, {}, times within {:.1e} s\n",
            counted(agreement.steps as u64, "step"),
            counted(agreement.requests as u64, "request"),
            agreement.largest_time_difference_s
        ),
        Replayed::Different(difference) => format!("DIFFERENT  {file}: {difference}\n"),
        Replayed::Unreadable(error) => format!("unreadable {file}: {error}\n"),
    }
}

/// The answer in one line.
#[must_use]
pub fn answer(files: &[(String, Replayed)], of: usize) -> String {
    let is_equal = |(_, replayed): &&(String, Replayed)| matches!(replayed, Replayed::Equal(_));
    let equal = files.iter().filter(is_equal).count();
    format!("{equal} of {of} recordings are repeated step by step")
}

/// Everything, as one object; `of` files were asked for.
#[must_use]
pub fn json(files: &[(String, Replayed)], of: usize) -> String {
    let object = json!({
        "format_version": FORMAT_VERSION,
        "answer": answer(files, of),
        "interrupted": files.len() < of,
        "files": files.iter().map(|(file, replayed)| one(file, replayed)).collect::<Vec<Value>>(),
    });
    format!("{object:#}\n")
}

fn one(file: &str, replayed: &Replayed) -> Value {
    match replayed {
        Replayed::Equal(agreement) => json!({
            "file": file,
            "result": "equal",
            "steps": agreement.steps,
            "requests": agreement.requests,
            "largest_time_difference_s": agreement.largest_time_difference_s,
        }),
        Replayed::Different(difference) => {
            let (step, at_s, request, what, expected, got) = match difference {
                Difference::Step {
                    step,
                    at_s,
                    request,
                    what,
                    expected,
                    got,
                } => (Some(*step), Some(*at_s), *request, *what, expected, got),
                Difference::Result {
                    request,
                    what,
                    expected,
                    got,
                } => (None, None, Some(*request), *what, expected, got),
            };
            json!({
                "file": file,
                "result": "different",
                "difference": {
                    "step": step,
                    "at_s": at_s,
                    "request": request,
                    "what": what,
                    "engine": expected,
                    "simulator": got,
                    "words": difference.to_string(),
                },
            })
        }
        Replayed::Unreadable(error) => json!({ "file": file, "result": "unreadable", "error": error }),
    }
}
