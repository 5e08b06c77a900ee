//! `sweep --columns` and `--pareto`: which figures the table and the CSV show.

use serde_json::Value;

use super::Args;
use crate::cli::outputs::Format;
use crate::cli::plan::Plan;
use crate::cli::theory;
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::report::knees::name;
use crate::report::pareto::Measure;
use crate::report::sweep::columns::Columns;
use crate::sweep;

/// What tokens are counted for on a frontier.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pareto {
    /// A second of a GPU.
    Gpu,
    /// A dollar that GPUs cost.
    Dollar,
}

impl From<Pareto> for Measure {
    fn from(asked: Pareto) -> Measure {
        match asked {
            Pareto::Gpu => Measure::Gpu,
            Pareto::Dollar => Measure::Dollar,
        }
    }
}

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

    /// That names of figures change nothing where all are written or a frontier has its own, and a frontier nothing where it is not told.
    pub(super) fn unshown(&self, format: Format) -> Vec<String> {
        let has_all = matches!(format, Format::Json | Format::Jsonl);
        let tells_frontier = matches!(format, Format::Table | Format::Md);
        let (names, frontier) = (!self.columns.is_empty(), self.pareto.is_some());
        let notes = [
            (
                names && has_all,
                "--columns has no effect: it chooses what the table and the CSV show, and this form has every figure",
            ),
            (
                names && frontier && tells_frontier,
                "--columns has no effect beside --pareto, whose table has columns of its own",
            ),
            (
                frontier && !tells_frontier,
                "--pareto is told by the table and Markdown, and drawn by --charts: this form has every run; `--columns pareto` gives CSV \
                 what users and GPUs get",
            ),
        ];
        let told = notes.into_iter().filter(|(is_so, _)| *is_so);
        told.map(|(_, note)| note.to_owned()).collect()
    }
}

/// Why runs have no closed form, where such figures are asked for: once for each reason.
pub(super) fn without_closed_form(
    columns: &Columns,
    plan: &Plan,
    (cells, runs): (&[sweep::Cell], &[Value]),
) -> Vec<String> {
    if !columns.ask_closed_forms() {
        return Vec::new();
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let mut simulated = 0;
    for (cell, run) in cells.iter().zip(runs) {
        let Some(planned) = plan.run(cell.index).filter(|_| !run.is_null()) else {
            continue;
        };
        simulated += 1;
        if run["plimsoll"]["closed_form"].is_object() {
            continue;
        }
        let (why, name) = (theory::why_none(&planned.resolved), name(&planned.labels));
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let told = |(why, names): (&str, Vec<String>)| match names.len() == simulated {
        true => format!("no closed form: {why}"),
        false => format!("no closed form of {}: {why}", names.join("; ")),
    };
    reasons.into_iter().map(told).collect()
}
