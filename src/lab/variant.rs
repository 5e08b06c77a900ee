//! What differs from student to student.

use std::collections::BTreeMap;

use super::{Lab, Varied};
use crate::digest::sha256;

/// The name of the figure that every lab has: a seed of the student's own for `--seed`.
pub(super) const SEED: &str = "seed";
/// Seeds are small enough to be typed.
const SEEDS: u64 = 1000;
/// Longest id, in characters.
const LONGEST_ID: usize = 64;

/// Who does a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Student(Option<String>);

impl Student {
    /// Nobody in particular: the first value of each list, and seed 0.
    #[must_use]
    pub fn nobody() -> Student {
        Student(None)
    }

    /// A student by an id, whatever their school uses; empty is nobody.
    ///
    /// # Errors
    /// If it has control characters or is longer than 64 characters.
    pub fn named(id: &str) -> Result<Student, String> {
        let id = id.trim();
        if id.chars().any(char::is_control) || id.chars().count() > LONGEST_ID {
            return Err(format!(
                "an id has at most {LONGEST_ID} characters, none of them a control character"
            ));
        }
        if id.starts_with(['=', '+', '-', '@']) {
            return Err(
                "an id begins with a letter or a digit: a spreadsheet would take it for a formula".to_owned(),
            );
        }
        Ok(Student((!id.is_empty()).then(|| id.to_owned())))
    }

    /// The id; empty for nobody.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// One of `count` for this student; the first for nobody.
    fn draws(&self, lab: &str, what: &str, count: u64) -> u64 {
        let Some(id) = &self.0 else {
            return 0;
        };
        let hash = sha256(format!("{id}\n{lab}\n{what}").as_bytes());
        let head = u64::from_str_radix(&hash[..15], 16).unwrap_or(0);
        head % count.max(1)
    }
}

/// One student's values of what a lab varies.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant(BTreeMap<String, Varied>);

impl Variant {
    /// A student's, the same whenever and wherever it is drawn.
    #[must_use]
    pub fn of(lab: &Lab, student: &Student) -> Variant {
        let drawn = lab.vary.iter().flat_map(|(name, rows)| {
            let place = student.draws(&lab.name, name, rows.len() as u64);
            rows[place as usize].clone()
        });
        let seed = Varied::Number(student.draws(&lab.name, SEED, SEEDS) as f64);
        Variant(drawn.chain([(SEED.to_owned(), seed)]).collect())
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Varied> {
        self.0.get(name)
    }

    /// What the lab varies, by name; without the seed.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Varied)> {
        let all = self.0.iter().map(|(name, value)| (name.as_str(), value));
        all.filter(|(name, _)| *name != SEED)
    }
}
