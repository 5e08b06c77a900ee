//! One block: its values, how wide they are, how wrong it is on shapes that it has not seen.
//!
//! * The *form* (a tiling, one branch or two) is the one that predicts held-out shapes best.
//! * The *hold-out error* pools rounds in which a share of the shapes is left out in turn, so that each is once.
//! * *Intervals* come from draws: shapes with replacement, and priors moved at random by their own width. Without the
//!   second a parameter that the rows do not touch would look exactly known.
//! * A parameter is *not identified* if its draws scatter nearly as much as what was believed before.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, StandardNormal};

use super::forms::Form;
use super::observation::{Block, Observation};
use super::solve::{Loss, Parameter, Task, starts};
use crate::cost::calibration::{BlockEvidence, Calibration, Residual};
use crate::rng::{Purpose, stream};
use crate::stats::{Z_90, quantile, student_t};

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Share of the shapes that each round of the cross-validation leaves out.
    pub hold_out: f64,
    /// Of hold-out, starts and draws.
    pub seed: u64,
    /// Draws of the parameters for their intervals.
    pub draws: usize,
}

/// A fitted block.
pub struct BlockFit {
    /// Which.
    pub block: Block,
    /// The form that was chosen.
    pub form: Form,
    /// Its parameters' values.
    pub values: Vec<f64>,
    /// As they might as well be.
    pub draws: Vec<Vec<f64>>,
    /// How well it is known.
    pub evidence: BlockEvidence,
    /// Parameters that the rows do not decide.
    pub unidentified: Vec<&'static str>,
    /// ln(model/measured) of every row that was fitted to.
    pub in_sample: Vec<f64>,
    /// The same of rows whose shape the fit had not seen; empty where there were too few shapes.
    pub held_out: Vec<f64>,
    /// Different kernels among the rows.
    pub kernels: usize,
    /// What says that the rows are not of this GPU, or not times in µs; in words.
    pub doubt: Option<String>,
    /// Standard deviation of one row's ln(model/measured).
    row_sigma_ln: f64,
}

/// Expected error of one row: the forms' own.
const ROW_SIGMA: f64 = 0.06;
/// Starts of the final fit, and of those that only compare.
const STARTS: (usize, usize) = (5, 2);
/// By how much a form must be better than a preferred one to be chosen.
const WORTH: f64 = 0.97;
/// Share of the prior's width at which a parameter counts as not identified.
pub(super) const AS_WIDE_AS_BEFORE: f64 = 0.7;
/// What one campaign or card differs from another of the same kind (bandwidth 0.73 against 0.81 on A100, 0.76 against
/// 0.90 on L40S; probes of one model of card scatter by 3 to 5 %).
const CAMPAIGN_SIGMA: f64 = 0.04;

/// Fits the rows of one block; `None` without rows or forms, and where it does not go on, which is asked before each draw.
#[must_use]
pub fn fit(
    block: Block,
    forms: Vec<Form>,
    rows: &[&Observation],
    options: &Options,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<BlockFit> {
    if rows.is_empty() || forms.is_empty() {
        return None;
    }
    let mut best: Option<(f64, Form, Vec<f64>)> = None;
    for form in forms {
        if !goes_on() {
            return None;
        }
        let held_out = hold_out(&form, rows, options);
        let errors = held_out.clone().unwrap_or_else(|| {
            let values = solve(&form, rows, options, STARTS.1);
            errors(&form, rows, &values)
        });
        let score = errors.iter().map(|error| error.abs().min(SCORE_CAP)).sum::<f64>();
        if best.as_ref().is_none_or(|(least, _, _)| score < WORTH * least) {
            best = Some((score, form, held_out.unwrap_or_default()));
        }
    }
    let (_, form, held_out) = best?;
    let values = solve(&form, rows, options, STARTS.0);
    let values: Vec<f64> = values.into_iter().map(rounded).collect();
    let draws = draws(&form, rows, &values, options, goes_on)?;
    let in_sample = errors(&form, rows, &values);
    let spread = if held_out.is_empty() {
        &in_sample
    } else {
        &held_out
    };
    let unidentified = unidentified(&form.parameters, &draws);
    let evidence = BlockEvidence {
        rows: rows.len() as u64,
        shapes: shapes(rows).len() as u64,
        residual_median_pct: percent(&in_sample, 0.5),
        residual_p95_pct: percent(&in_sample, 0.95),
        bias_pct: bias(&in_sample),
        hold_out_median_pct: (!held_out.is_empty()).then(|| percent(&held_out, 0.5)),
        hold_out_p95_pct: (!held_out.is_empty()).then(|| percent(&held_out, 0.95)),
        sigma_ln: rounded(step_sigma(block, rows, spread)),
        interval_90: intervals(&form.parameters, &draws),
        ..BlockEvidence::default()
    };
    Some(BlockFit {
        block,
        values,
        draws,
        evidence,
        unidentified,
        row_sigma_ln: rounded(root_mean_square(&in_sample)),
        kernels: kernels(rows),
        doubt: None,
        form,
        in_sample,
        held_out,
    })
}

/// How many rows are of a kernel that none before them is of.
fn kernels(rows: &[&Observation]) -> usize {
    let is_new = |(index, row): &(usize, &&Observation)| {
        let mut before = rows[..*index].iter();
        before.all(|other| other.kernel != row.kernel)
    };
    rows.iter().enumerate().filter(is_new).count()
}

/// An error beyond which a row only counts as a miss when forms are compared.
const SCORE_CAP: f64 = 0.3;

impl BlockFit {
    /// Writes the block into a calibration. What cannot be this GPU's must not be run with: a doubted block holds what was believed
    /// before.
    pub fn store(&self, into: &mut Calibration) {
        let believed: Vec<f64> = self.form.parameters.iter().map(|of| of.prior).collect();
        let values = match &self.doubt {
            Some(_) => &believed,
            None => &self.values,
        };
        let residual = Residual {
            median_pct: Some(self.evidence.residual_median_pct),
            p95_pct: Some(self.evidence.residual_p95_pct),
            sigma_ln: Some(self.row_sigma_ln),
        };
        self.form.store(values, residual, into);
    }
}

/// ln(model/measured) of every row.
pub(super) fn errors(form: &Form, rows: &[&Observation], values: &[f64]) -> Vec<f64> {
    let error = |row: &&Observation| (form.seconds(values, &row.kernel) / row.seconds).ln();
    rows.iter().map(error).collect()
}

fn shapes<'a>(rows: &[&'a Observation]) -> Vec<&'a str> {
    let all: BTreeSet<&str> = rows.iter().map(|row| row.shape.as_str()).collect();
    all.into_iter().collect()
}

fn solve(form: &Form, rows: &[&Observation], options: &Options, count: usize) -> Vec<f64> {
    let parameters = form.parameters.as_slice();
    let task = Task {
        parameters,
        errors: &|values| errors(form, rows, values),
        weights: &vec![1.0; rows.len()],
        shifts: &vec![0.0; parameters.len()],
        sigma: ROW_SIGMA,
        loss: Loss::SoftL1,
    };
    task.solve(&starts(
        parameters,
        count,
        &mut stream(options.seed, Purpose::Calibration, 0),
    ))
}

/// Errors on shapes that a fit had not seen, in no order; `None` where there are too few shapes.
fn hold_out(form: &Form, rows: &[&Observation], options: &Options) -> Option<Vec<f64>> {
    let mut shapes = shapes(rows);
    if shapes.len() < 3 || options.hold_out <= 0.0 {
        return None;
    }
    shapes.shuffle(&mut stream(options.seed, Purpose::Calibration, 1));
    let rounds = ((1.0 / options.hold_out).round() as usize).clamp(2, shapes.len());
    let mut held_out = Vec::new();
    for round in 0..rounds {
        let left_out: BTreeSet<&str> = shapes.iter().copied().skip(round).step_by(rounds).collect();
        let (unseen, seen): (Vec<&Observation>, Vec<&Observation>) =
            rows.iter().partition(|row| left_out.contains(row.shape.as_str()));
        let values = solve(form, &seen, options, STARTS.1);
        held_out.extend(errors(form, &unseen, &values));
    }
    Some(held_out)
}

fn draws(
    form: &Form,
    rows: &[&Observation],
    best: &[f64],
    options: &Options,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<Vec<f64>>> {
    let parameters = form.parameters.as_slice();
    let shapes = shapes(rows);
    let one = |index: usize| {
        let mut stream = stream(options.seed, Purpose::Calibration, 2 + index as u64);
        let mut times: BTreeMap<&str, f64> = BTreeMap::new();
        for _ in 0..shapes.len() {
            *times
                .entry(shapes[stream.random_range(0..shapes.len())])
                .or_default() += 1.0;
        }
        let weight = |row: &&Observation| times.get(row.shape.as_str()).copied().unwrap_or(0.0);
        let weights: Vec<f64> = rows.iter().map(weight).collect();
        let shifts: Vec<f64> = (0..parameters.len())
            .map(|_| StandardNormal.sample(&mut stream))
            .collect();
        let task = Task {
            parameters,
            errors: &|values| errors(form, rows, values),
            weights: &weights,
            shifts: &shifts,
            sigma: ROW_SIGMA,
            loss: Loss::SoftL1,
        };
        task.solve(&[best.to_vec()])
    };
    (0..options.draws)
        .map(|index| goes_on().then(|| one(index)))
        .collect()
}

/// 90 % intervals of the parameters.
pub(super) fn intervals(parameters: &[Parameter], draws: &[Vec<f64>]) -> BTreeMap<String, [f64; 2]> {
    let interval = |(index, parameter): (usize, &Parameter)| {
        let column: Vec<f64> = draws.iter().map(|draw| draw[index]).collect();
        let ends = [0.05, 0.95].map(|p| rounded(quantile(&column, p).unwrap_or(f64::NAN)));
        (parameter.name.to_owned(), ends)
    };
    parameters.iter().enumerate().map(interval).collect()
}

/// Four significant figures: more than any measurement gives, and short enough to be read.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Names of the parameters whose draws are about as wide as their priors.
pub(super) fn unidentified(parameters: &[Parameter], draws: &[Vec<f64>]) -> Vec<&'static str> {
    let is_wide = |(index, parameter): &(usize, &Parameter)| {
        let column: Vec<f64> = draws.iter().map(|draw| parameter.scaled(draw[*index])).collect();
        // Quantiles rather than moments: a draw at a bound must not hide the rest.
        let half = |p: f64| quantile(&column, p).unwrap_or(0.0);
        (half(0.84) - half(0.16)) / 2.0 > AS_WIDE_AS_BEFORE * parameter.sd
    };
    let wide = parameters.iter().enumerate().filter(is_wide);
    wide.map(|(_, parameter)| parameter.name).collect()
}

/// Error of the block's whole time in a step: what shapes have in common, averaged over those that a layer sums.
fn step_sigma(block: Block, rows: &[&Observation], errors: &[f64]) -> f64 {
    // QKV, output, gate with up, down; other blocks run one shape a layer.
    let summed = if matches!(block, Block::Gemm(_)) { 4.0 } else { 1.0 };
    let mean_square = if rows.len() == errors.len() {
        root_mean_square(errors).powi(2)
    } else {
        0.0
    };
    // Rows of one shape differ in batch, and a step has one batch: half of the variance is taken for the shape's. It is
    // known from as few shapes as there are, so that the normal law's 90 % has to be Student's.
    let few = student_t(0.9, shapes(rows).len() as f64) / Z_90;
    (SHAPE_SHARE * mean_square / summed * few * few + CAMPAIGN_SIGMA.powi(2)).sqrt()
}

/// Share of a row's squared error that the other rows of its shape do not average out.
const SHAPE_SHARE: f64 = 0.5;

fn root_mean_square(errors: &[f64]) -> f64 {
    let capped = errors
        .iter()
        .map(|error| error.clamp(-SCORE_CAP, SCORE_CAP).powi(2));
    (capped.sum::<f64>() / errors.len().max(1) as f64).sqrt()
}

/// A quantile of the relative error, in percent.
pub(super) fn percent(errors: &[f64], p: f64) -> f64 {
    let relative: Vec<f64> = errors.iter().map(|error| (error.exp() - 1.0).abs()).collect();
    hundredths(100.0 * quantile(&relative, p).unwrap_or(0.0))
}

/// The median signed error, in percent.
pub(super) fn bias(errors: &[f64]) -> f64 {
    hundredths(100.0 * (quantile(errors, 0.5).unwrap_or(0.0).exp() - 1.0))
}

fn hundredths(percent: f64) -> f64 {
    (100.0 * percent).round() / 100.0
}
