//! `sweep --charts`: the picture of all runs, finished now or read back.

use crate::cli::plan::Plan;
use crate::cli::subject::agreed;
use crate::cli::{present, subject};
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::report::chart::{self, Picture};
use crate::report::sweep::SweepRow;
use crate::report::sweep_layout::SweepLayout;
use crate::report::sweep_view::SweepView;

/// Where each cell is drawn: asked before anything is simulated.
///
/// # Errors
/// If more varies than a picture shows.
pub(super) fn layout(plan: &Plan) -> Result<SweepLayout, Diagnostics> {
    SweepLayout::of(&plan.labels()).map_err(|undrawable| {
        let problem = Diagnostic::new(format!("`--charts` cannot draw this sweep: {undrawable}"));
        let problem = problem.at(Place::Flag("--charts".to_owned()));
        problem
            .help("give fewer axes or values (-L, -S), fix the others by their flags, or leave --charts out")
            .into()
    })
}

/// The pictures: (name, picture).
pub(super) fn pictures(
    plan: &Plan,
    rows: &[SweepRow<'_>],
    layout: &SweepLayout,
) -> Vec<(&'static str, Picture)> {
    let slos = || plan.runs.iter().map(|cell| &cell.resolved.slo);
    // By the axes alone: lines of a file name the scenario, too.
    let named = rows.iter().zip(plan.labels()).map(|(row, settings)| SweepRow {
        settings,
        ..row.clone()
    });
    let rows: Vec<SweepRow<'_>> = named.collect();
    let mut view = SweepView::of(
        &rows,
        layout.clone(),
        subject::of_all(plan.runs.iter().map(|cell| &cell.resolved)),
    );
    // A limit that is not the same in all runs is no line across them.
    if let Some(slo) = agreed(slos()) {
        view.limits = present::printed_limits(slo);
        view.attainment = slo.attainment;
        view.promises = present::promises(slo);
    }
    vec![("sweep", chart::sweep(&view))]
}
