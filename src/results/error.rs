//! What is wrong with a result file: every problem with its place, all of them together.

use std::cell::RefCell;
use std::fmt;

/// Problems that a message spells out; the rest are counted.
pub const PROBLEMS_SHOWN: usize = 12;

/// One thing wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `line 3`, `` line 3: `duration` ``, `the file`.
    pub place: String,
    /// What is wrong and what would be right.
    pub what: String,
}

/// A file that is not a result, all problems of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ReadError {
    /// The file, as the caller named it.
    pub name: String,
    /// At least one, in the order of the file.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read as the result of a benchmark", self.name)?;
        for problem in self.problems.iter().take(PROBLEMS_SHOWN) {
            write!(f, "\n  {}: {}", problem.place, problem.what)?;
        }
        match self.problems.len().saturating_sub(PROBLEMS_SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// Collects problems while a file is read, so that all can be told.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(super) fn push(&self, place: impl Into<String>, what: impl Into<String>) {
        let (place, what) = (place.into(), what.into());
        self.0.borrow_mut().push(Problem { place, what });
    }

    /// Those so far, which are then no longer among them.
    pub(super) fn take(&self) -> Vec<Problem> {
        self.0.take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// What was read, if nothing was wrong.
    pub(super) fn into_result(self, file: super::ResultFile) -> Result<super::ResultFile, ReadError> {
        let problems = self.0.into_inner();
        if problems.is_empty() {
            return Ok(file);
        }
        Err(ReadError {
            name: file.name,
            problems,
        })
    }
}
