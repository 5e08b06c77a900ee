//! A calibration that predicts instead of those that ship, and which rows it may predict: those of its card.

use crate::calibrate::plan::Plan;
use crate::cost::calibration::Calibration;
use crate::hardware::{self, Device};
use crate::results::Measured;

/// A calibration that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedBy {
    /// As scenarios name it: a file or one that ships.
    name: String,
    calibration: Calibration,
    /// What it was made on, where that is a known card.
    card: Option<Device>,
}

impl TimedBy {
    /// The calibration that scenarios know by this name.
    #[must_use]
    pub fn new(name: &str, calibration: Calibration) -> TimedBy {
        TimedBy {
            name: name.to_owned(),
            card: hardware::find(&calibration.provenance.gpu)
                .ok()
                .map(|found| found.0),
            calibration,
        }
    }

    /// What people should know of it before they read errors.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (name, made_on) = (&self.name, &self.calibration.provenance.gpu);
        let mut notes = Vec::new();
        if self.card.is_none() {
            notes.push(format!(
                "the calibration {name} was made on `{made_on}`, which is no known card: it times the rows of every card"
            ));
        }
        let evidence = self.calibration.evidence.iter();
        if evidence.flat_map(|of| &of.runs).any(|run| !run.is_left_out) {
            notes.push(format!(
                "rows that the calibration {name} was fitted to are in-sample: their errors say little of others"
            ));
        }
        notes
    }

    /// The plan of a row, timed by it.
    ///
    /// # Errors
    /// The row ran on another card.
    pub fn time(&self, plan: &Plan, row: &Measured) -> Result<Plan, String> {
        plan.timed_by(row, &self.name, self.card.as_ref())
    }

    /// What times kernels of a card.
    ///
    /// # Errors
    /// It was made on another one.
    pub(super) fn kernels_of(&self, device: &Device) -> Result<&Calibration, String> {
        match &self.card {
            Some(card) if card.id != device.id => Err(format!(
                "the calibration {} was made on {}, and the row is of {}",
                self.name, card.id, device.id
            )),
            _ => Ok(&self.calibration),
        }
    }
}
