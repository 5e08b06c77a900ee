//! `--variant "split: --prefill 1 --decode 3"`: ways of serving by their flags, each combined with all axes.
//!
//! Flags of a variant take the place of those that all cells have in common; one that an axis sets, too, is an error, since no cell
//! would have the axis's value.

use crate::config::axes::Cell;
use crate::config::variant::{Said, put};
use crate::config::{Diagnostic, Diagnostics, Document, Place};

/// What the labels of cells call them.
pub(in crate::cli) const AXIS: &str = "variant";

/// One way of serving.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    name: String,
    said: Said,
}

/// Those of a command line, in their order.
///
/// # Errors
/// Texts that cannot be taken apart, and two of one name.
pub(super) fn read(texts: &[String]) -> Result<Vec<Variant>, Diagnostics> {
    let mut variants: Vec<Variant> = Vec::new();
    let mut problems = Vec::new();
    for text in texts {
        let said = match Said::parse(text) {
            Ok(said) => said,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let name = said.called();
        if name.is_empty() {
            let problem = Diagnostic::new("`--variant` has neither a name nor flags").at(place());
            problems.push(
                problem.help("write its flags, or a name for what all have in common: --variant \"plain:\""),
            );
        } else if variants.iter().any(|known| known.name == name) {
            let problem = Diagnostic::new(format!("the variant `{name}` is given twice")).at(place());
            problems.push(problem.help("give each a name of its own: --variant \"wide: -tp 8\""));
        } else {
            variants.push(Variant { name, said });
        }
    }
    match problems.is_empty() {
        true => Ok(variants),
        false => Err(Diagnostics(problems)),
    }
}

fn place() -> Place {
    Place::Flag("--variant".to_owned())
}

impl Variant {
    /// Puts it upon the command of a cell.
    ///
    /// # Errors
    /// What is wrong with its flags, by its name.
    pub(super) fn put(&self, document: &mut Document) -> Result<(), Diagnostics> {
        let of_this = |problem: Diagnostic| match problem.message.contains("the variant") {
            true => problem,
            false => problem.label(format!("of the variant `{}`", self.name)),
        };
        let told = put(document, &self.said);
        told.map_err(|wrong| Diagnostics(wrong.0.into_iter().map(of_this).collect()))
    }

    /// Its cell, from what all variants have in common.
    pub(super) fn cell(&self, common: &Cell) -> Result<Cell, Diagnostics> {
        let mut cell = common.clone();
        self.put(&mut cell.document)?;
        cell.labels.insert(0, (AXIS.to_owned(), self.name.clone()));
        Ok(cell)
    }
}
