//! The model's own uncertainty of a run's figures, apart from sampling: what if each component were a little slower?
//!
//! Every component's time is moved by one σ up and down, the same traffic is simulated again, and half the difference
//! of the logarithms is that component's part. Parts add up as independent errors do. Left out: interactions, and the
//! bends of a figure at overload, where half a difference understates it.

use rayon::prelude::*;

use crate::analysis::{Experiment, Precision, simulate};
use crate::config::Resolved;
use crate::cost::StepCost;
use crate::cost::calibration::Calibration;
use crate::cost::roofline::RooflineCost;
use crate::cost::uncertainty::Component;
use crate::metrics::{Records, SloLimits, Summary};
use crate::sim::Scenario;

/// How far each figure may be off.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInterval {
    /// Figure by figure.
    pub figures: Vec<FigureInterval>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureInterval {
    /// As JSON spells it.
    pub name: &'static str,
    /// σ of ln(figure).
    pub sigma_ln: f64,
    /// σ by component, signed: positive where a slower component makes the figure larger.
    pub parts: Vec<(Component, f64)>,
}

impl FigureInterval {
    /// The factors that the figure lies within with 90 % confidence.
    #[must_use]
    pub fn factors_90(&self) -> (f64, f64) {
        let reach = (Z_90 * self.sigma_ln).exp();
        (1.0 / reach, reach)
    }

    /// The component that contributes most.
    #[must_use]
    pub fn worst(&self) -> Option<Component> {
        let by_size = |a: &&(Component, f64), b: &&(Component, f64)| a.1.abs().total_cmp(&b.1.abs());
        self.parts.iter().max_by(by_size).map(|(component, _)| *component)
    }
}

/// The normal law's central 90 %.
pub const Z_90: f64 = 1.645;
/// Requests of each of the runs: ratios of runs with the same traffic need far fewer than the figures themselves.
const REQUESTS_MAX: u64 = 2000;

/// Names of the figures, in order.
const FIGURES: [&str; 5] = [
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "mean_e2el_ms",
    "output_throughput",
];

fn figures(summary: &Summary) -> [f64; 5] {
    let some = |value: Option<f64>| value.unwrap_or(f64::NAN);
    [
        some(summary.ttft.mean_s()),
        some(summary.ttft.quantile_s(0.99)),
        some(summary.tpot.mean_s()),
        some(summary.e2el.mean_s()),
        summary.output_tokens as f64 / summary.duration_s,
    ]
}

/// The model interval of a knee: for each component the rate that still meets the promise when it is slower, and when it
/// is faster. `meets` simulates one scenario at one rate, always with the same traffic.
#[must_use]
pub fn knee_interval(
    resolved: &Resolved,
    knee: f64,
    meets: &(dyn Fn(&Scenario, f64) -> bool + Sync),
) -> FigureInterval {
    let sigmas = resolved
        .parameters
        .sigmas(&resolved.device, &resolved.model, &resolved.placement);
    let half = |&(component, sigma): &(Component, f64)| {
        let at = |factor: f64| {
            let calibration = resolved.parameters.scaled(component, factor);
            let scenario = under(resolved, calibration);
            highest(knee, |rate| meets(&scenario, rate))
        };
        (component, (at(sigma.exp()) / at((-sigma).exp())).ln() / 2.0)
    };
    let parts: Vec<(Component, f64)> = sigmas.par_iter().map(half).collect();
    FigureInterval {
        name: "knee",
        sigma_ln: parts.iter().map(|(_, part)| part * part).sum::<f64>().sqrt(),
        parts,
    }
}

/// The highest rate that meets a promise, by bisection on a ladder around the known one.
fn highest(knee: f64, meets: impl Fn(f64) -> bool) -> f64 {
    let rate = |step: u32| knee * (f64::from(step) / f64::from(LADDER) * SPAN.ln()).exp() / SPAN.sqrt();
    let (mut low, mut high) = (0, LADDER);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if meets(rate(middle)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    rate(low)
}

/// Rungs of the ladder, and its top rate over its bottom one: rungs are 0.5 % apart.
const LADDER: u32 = 256;
const SPAN: f64 = 4.0;

/// The model interval of a run: two short simulations for each component of its step.
#[must_use]
pub fn model_interval(resolved: &Resolved) -> ModelInterval {
    let sigmas = resolved
        .parameters
        .sigmas(&resolved.device, &resolved.model, &resolved.placement);
    let both = |&(component, sigma): &(Component, f64)| {
        let at = |factor: f64| simulated(resolved, &resolved.parameters.scaled(component, factor));
        let (slow, fast) = (at(sigma.exp()), at((-sigma).exp()));
        let mut halves = [0.0; FIGURES.len()];
        for ((half, slow), fast) in halves.iter_mut().zip(slow).zip(fast) {
            let difference = (slow / fast).ln() / 2.0;
            // A figure that does not exist, or is zero, has no relative error.
            *half = if difference.is_finite() { difference } else { 0.0 };
        }
        (component, halves)
    };
    let parts: Vec<(Component, [f64; FIGURES.len()])> = sigmas.par_iter().map(both).collect();
    let figure = |(index, name): (usize, &&'static str)| {
        let parts: Vec<(Component, f64)> = parts
            .iter()
            .map(|(component, halves)| (*component, halves[index]))
            .collect();
        FigureInterval {
            name,
            sigma_ln: parts.iter().map(|(_, part)| part * part).sum::<f64>().sqrt(),
            parts,
        }
    };
    ModelInterval {
        figures: FIGURES.iter().enumerate().map(figure).collect(),
    }
}

/// The scenario of a run under another calibration.
fn under(resolved: &Resolved, calibration: Calibration) -> Scenario {
    let parts = (
        resolved.device.clone(),
        resolved.model.clone(),
        calibration,
        resolved.placement.clone(),
    );
    let mut scenario = resolved.scenario.clone();
    scenario.cost = std::sync::Arc::new(move || {
        let (device, model, calibration, placement) = &parts;
        let cost = RooflineCost::new(device, model, calibration, placement);
        Box::new(cost.expect("a scaled calibration has the blocks of its original")) as Box<dyn StepCost>
    });
    scenario
}

fn simulated(resolved: &Resolved, calibration: &Calibration) -> [f64; FIGURES.len()] {
    let mut scenario = under(resolved, calibration.clone());
    scenario.workload.num_prompts = Some(
        scenario
            .workload
            .num_prompts
            .map_or(REQUESTS_MAX, |count| count.min(REQUESTS_MAX)),
    );
    let experiment = Experiment {
        slo: SloLimits::default(),
        records: Records::None,
        precision: Precision::default(),
        stops_when_precise: false,
    };
    figures(&simulate(&scenario, &experiment, |_| true).result.whole)
}
