//! The command that all cells have in common, upon which the values of each are put.

use super::super::disk::Disk;
use super::super::outputs::OutputFlags;
use super::super::run::{or_quickstart, with_results};
use super::AxisFlags;
use super::variants::{self, Variant};
use crate::config::axes::{self, Axis, Cell};
use crate::config::flags::ScenarioFlags;
use crate::config::{Assembled, Diagnostic, Diagnostics, Document, Ground, resolve};

/// A command of which axes are to set a part.
pub(in crate::cli) struct Common<'a> {
    given: &'a AxisFlags,
    flags: ScenarioFlags,
    output: &'a OutputFlags,
    ground: Ground,
    /// Ways of serving that every combination is made of, if any.
    variants: Vec<Variant>,
    /// What is to be said of the scenario that was not named.
    note: Option<String>,
    /// A search sets the rate that the flags have.
    has_own_rate: bool,
}

impl<'a> Common<'a> {
    /// Reads the scenario and pasted commands.
    ///
    /// # Errors
    /// The first syntax error of the scenario, its absence, or names in its `[sweep]` that are none.
    pub(in crate::cli) fn read(
        given: &'a AxisFlags,
        flags: &ScenarioFlags,
        output: &'a OutputFlags,
    ) -> Result<Common<'a>, Diagnostics> {
        let (flags, note) = or_quickstart(flags.clone());
        let ground = Ground::of(&flags, &Disk)?;
        let wrong = axes::wrong_names(ground.document());
        if !wrong.is_empty() {
            return Err(Diagnostics(wrong));
        }
        Ok(Common {
            ground,
            variants: variants::read(&given.variants)?,
            given,
            flags,
            output,
            note,
            has_own_rate: false,
        })
    }

    /// The same for a search, which sets the rate: one is needed for an input to be whole.
    pub(in crate::cli) fn with_rate(mut self) -> Common<'a> {
        self.flags.traffic.request_rate = Some(crate::config::scalar::Rate(1.0));
        self.has_own_rate = true;
        self
    }

    /// Whether nothing said a rate, so that the search's own stands for it.
    pub(in crate::cli) fn lacks_rate(&self) -> bool {
        self.has_own_rate
    }

    /// The scenario that is named, with what pasted commands changed of it.
    pub(in crate::cli) fn scenario(&self) -> &Document {
        self.ground.document()
    }

    /// The command with the first value of each axis.
    ///
    /// # Errors
    /// All that is wrong with it, and values of any cell that cannot be read.
    pub(in crate::cli) fn first(&self, axes: &[Axis]) -> Result<Assembled, Diagnostics> {
        let alone = self.ground.flags_alone(&self.flags, &Disk);
        let replaced: Vec<Diagnostic> = axes
            .iter()
            .filter_map(|axis| self.given.replaced(axis, &alone))
            .collect();
        if !replaced.is_empty() {
            return Err(Diagnostics(replaced));
        }
        let unread = axes::unreadable(axes);
        if !unread.is_empty() {
            return Err(with_other_values(Diagnostics(unread), &alone, axes));
        }
        let value = |axis: &Axis| Some((axis.name.clone(), axis.values.first()?.clone()));
        let values: Vec<(String, String)> = axes.iter().filter_map(value).collect();
        let mut input = self.ground.run(&self.flags, &values, &Disk)?;
        if let Some(first) = self.variants.first() {
            first.put(&mut input.document)?;
        }
        self.whole(input)
    }

    /// Every combination of these axes' values, of each variant if there are any.
    ///
    /// # Errors
    /// What is wrong with an axis or a variant, or with flags and values of a cell together.
    pub(in crate::cli) fn cells(&self, axes: &[Axis]) -> Result<Vec<Cell>, Diagnostics> {
        let is_linked = self.given.link && !axes.is_empty();
        let cells = axes::cells(self.scenario(), axes, is_linked, |values| {
            Ok(self
                .whole(self.ground.cell(&self.flags, values, &Disk)?)?
                .document)
        })?;
        if self.variants.is_empty() {
            return Ok(cells);
        }
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        for variant in &self.variants {
            for cell in &cells {
                match variant.cell(cell) {
                    Ok(cell) => all.push(cell),
                    // What is wrong with its flags is wrong in every cell.
                    Err(wrong) => {
                        problems.extend(wrong.0);
                        break;
                    }
                }
            }
        }
        match problems.is_empty() {
            true => Ok(all),
            false => Err(Diagnostics(problems)),
        }
    }

    fn whole(&self, mut input: Assembled) -> Result<Assembled, Diagnostics> {
        if self.has_own_rate {
            // An axis of the arrivals beside it contradicts nobody.
            input
                .document
                .make_default("--request-rate", "the search sets the rate");
        }
        input.notes.extend(self.note.clone());
        with_results(input, self.output)
    }
}

/// Values of axes that no flag takes, and those beside them that are taken and cannot be honoured: each is judged by itself, so
/// that what it does not go with is left out.
fn with_other_values(mut problems: Diagnostics, document: &Document, axes: &[Axis]) -> Diagnostics {
    const JUDGED: usize = 100;
    let values = axes
        .iter()
        .flat_map(|axis| axis.values.iter().map(move |value| (axis, value)));
    for (axis, value) in values.take(JUDGED) {
        let mut cell = document.clone();
        if !axes::apply(&mut cell, &axis.name, value).is_empty() {
            continue;
        }
        let is_its_own = |problem: &Diagnostic| problem.place.is_of_axis() && problem.misfit.is_none();
        let wrong = resolve(cell, &Disk).map_or_else(|wrong| wrong.0, |_| Vec::new());
        for problem in wrong.into_iter().filter(is_its_own) {
            if !problems.0.contains(&problem) {
                problems.0.push(problem);
            }
        }
    }
    problems
}
