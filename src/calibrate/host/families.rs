//! Each family of runs as the others foretell it: what a prediction for one more server would have been.

use super::{Linear, Trial};
use crate::calibrate::component::{percent, rounded};
use crate::calibrate::runs::{Figure, Run};
use crate::cost::calibration::FamilyEvidence;
use crate::cost::discrepancy::kinds_of_weights;

/// Leaves each family of runs out in turn and says how wrong the rest would have it. A family's terms are then the
/// others', or the prior where only it speaks about them: what a prediction for one more server would have been.
pub(super) fn families(trial: &Trial, linear: &Linear) -> Vec<FamilyEvidence> {
    // In the order in which they come up: runs of one family may stand in several files.
    let mut names: Vec<&str> = Vec::new();
    for run in &trial.runs {
        if !names.contains(&run.family.as_str()) {
            names.push(&run.family);
        }
    }
    if names.len() < 2 {
        return Vec::new();
    }
    let without = |name: &&str| {
        let is_out = |run: &usize| trial.runs[*run].family == *name;
        let pairs = trial.rows.iter().zip(&trial.weights);
        let weights: Vec<f64> = pairs
            .map(|(run, count)| if is_out(run) { 0.0 } else { *count })
            .collect();
        let values = linear.solve(&trial.parameters, &weights, &vec![0.0; linear.at.len()]);
        family(name, &trial.runs, &trial.errors(&values))
    };
    names.iter().map(without).collect()
}

/// What the errors of all figures say of one family.
fn family(name: &str, runs: &[&Run], errors: &[f64]) -> FamilyEvidence {
    let figures = runs
        .iter()
        .flat_map(|run| run.measured.iter().map(move |(figure, _)| (run, *figure)));
    let own: Vec<(Figure, f64)> = figures
        .zip(errors)
        .filter(|((run, _), _)| run.family == name)
        .map(|((_, figure), error)| (figure, *error))
        .collect();
    let of = |is_chosen: &dyn Fn(Figure) -> bool| -> Option<f64> {
        let chosen: Vec<f64> = own
            .iter()
            .filter(|(figure, _)| is_chosen(*figure))
            .map(|(_, error)| error * error)
            .collect();
        let mean = chosen.iter().sum::<f64>() / chosen.len() as f64;
        (!chosen.is_empty()).then(|| rounded(mean.sqrt()))
    };
    let of_family: Vec<&Run> = runs.iter().copied().filter(|run| run.family == name).collect();
    let mut weights: Vec<String> = of_family
        .iter()
        .flat_map(|run| kinds_of_weights(&run.resolved.device, &run.resolved.model, &run.resolved.placement))
        .collect();
    weights.sort();
    weights.dedup();
    let errors: Vec<f64> = own.iter().map(|(_, error)| *error).collect();
    FamilyEvidence {
        family: name.to_owned(),
        gpu: of_family
            .first()
            .map_or(String::new(), |run| run.resolved.device.id.clone()),
        weights,
        ranks: of_family
            .iter()
            .map(|run| run.resolved.placement.tensor_parallel)
            .max()
            .unwrap_or(1),
        figures: own.len() as u64,
        miss_median_pct: percent(&errors, 0.5),
        step_ln: of(&|figure| !figure.is_ttft()),
        ttft_ln: of(&Figure::is_ttft),
    }
}
