//! `sweep --columns`: which figures the table shows.

use super::Args;
use crate::cli::outputs::Format;
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::report::sweep::columns::Columns;

impl Args {
    /// The figures that are asked for.
    ///
    /// # Errors
    /// A name of none.
    pub(super) fn shown(&self) -> Result<Columns, Diagnostics> {
        Columns::named(&self.columns).map_err(|unknown| {
            let problem = Diagnostic::new(unknown.to_string()).at(Place::Flag("--columns".to_owned()));
            problem.help(format!("figures are {}", Columns::known())).into()
        })
    }

    /// That names of figures change nothing where all are written.
    pub(super) fn unshown(&self, format: Format) -> Vec<String> {
        let is_table = matches!(format, Format::Table | Format::Md);
        let is_idle = !self.columns.is_empty() && !is_table;
        let note = "--columns has no effect: it chooses what the table shows, and this form has every figure";
        is_idle.then(|| note.to_owned()).into_iter().collect()
    }
}
