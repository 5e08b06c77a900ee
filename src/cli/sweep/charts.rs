//! `sweep --charts`: the pictures of all runs, finished now or read back.

use crate::cli::plan::Plan;
use crate::cli::subject::agreed;
use crate::cli::{present, subject};
use crate::config::{Diagnostic, Diagnostics, Place, Slo};
use crate::report::chart::{self, Beside, Picture};
use crate::report::pareto::{Frontier, Measure};
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

/// Rows with their axes alone: lines of a file name the scenario, too.
fn by_axes<'a>(plan: &'a Plan, rows: &[SweepRow<'a>]) -> Vec<SweepRow<'a>> {
    let named = rows.iter().zip(plan.labels()).map(|(row, settings)| SweepRow {
        settings,
        ..row.clone()
    });
    named.collect()
}

/// The limits that are the same in all runs.
fn agreed_slo(plan: &Plan) -> Option<&Slo> {
    agreed(plan.runs.iter().map(|cell| &cell.resolved.slo))
}

/// The frontier: (name, picture).
pub(super) fn frontier(plan: &Plan, rows: &[SweepRow<'_>], measure: Measure) -> (&'static str, Picture) {
    let rows = by_axes(plan, rows);
    let frontier = Frontier::of(&rows, measure);
    let limits = agreed_slo(plan).map(present::printed_limits);
    let tpot = limits.into_iter().flatten().find(|limit| limit.metric == "tpot");
    let beside = Beside {
        subject: subject::of_all(plan.runs.iter().map(|cell| &cell.resolved)),
        usd_per_gpu_hour: frontier.usd_per_gpu_hour(),
        tokens_per_user: tpot.map(|limit| 1.0 / limit.limit_s),
    };
    ("pareto", chart::pareto(&frontier, &beside))
}

/// Every figure against what was varied: (name, picture).
pub(super) fn picture(plan: &Plan, rows: &[SweepRow<'_>], layout: &SweepLayout) -> (&'static str, Picture) {
    let rows = by_axes(plan, rows);
    let mut view = SweepView::of(
        &rows,
        layout.clone(),
        subject::of_all(plan.runs.iter().map(|cell| &cell.resolved)),
    );
    // A limit that is not the same in all runs is no line across them.
    if let Some(slo) = agreed_slo(plan) {
        view.limits = present::printed_limits(slo);
        view.attainment = slo.attainment;
        view.promises = present::promises(slo);
    }
    ("sweep", chart::sweep(&view))
}
