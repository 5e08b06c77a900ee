//! The model's own uncertainty of a run's figures, apart from sampling: what if each component were slower, or faster?
//!
//! Every component's time is moved to both ends of its own 90 % interval, the same traffic is simulated again, and the
//! ratios of the figures are that component's part. Near the knee a step that is 10 % slower raises a TTFT by far more than
//! 10 %, and by more than a faster step lowers it; so the two ends of an interval are kept apart. Parts add up as independent
//! errors do, those that raise a figure and those that lower it separately.
//! The terms of a host fitted to the runs of one's own server do not err independently: those runs allow some combinations and
//! refute others. The file holds pairs of allowed hosts ([`HostPair`]), which are simulated instead of the host's components.
//! Left out: interactions between components.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::host::under_terms;
use crate::analysis::simulate_whole;
use crate::config::{Resolved, Server};
use crate::cost::calibration::{Calibration, HostPair};
use crate::cost::roofline::{RooflineCost, SharedExperts};
use crate::cost::uncertainty::Component;
use crate::metrics::Summary;
use crate::sim::{Pool, Scenario};
use crate::stats::Z_90;
use crate::workload::{Arrivals, WorkloadSpec, short_day};

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
    /// Half the width of ln(figure)'s 90 % interval as σ of a normal law.
    pub sigma_ln: f64,
    /// How far ln(figure) reaches down and up with 90 % confidence.
    pub reach_ln: (f64, f64),
    /// σ by component, signed: positive where a slower component makes the figure larger.
    pub parts: Vec<(Component, f64)>,
}

impl FigureInterval {
    /// Of a figure that nothing makes uncertain.
    #[must_use]
    pub fn certain(name: &'static str) -> FigureInterval {
        FigureInterval::new(name, &[])
    }

    /// From ln(figure/figure as predicted) with each component fast and slow.
    fn new(name: &'static str, moved: &[(Component, [f64; 2])]) -> FigureInterval {
        let reach = |sign: f64| {
            let furthest = |[fast, slow]: &[f64; 2]| (sign * fast).max(sign * slow).max(0.0);
            let squares = moved.iter().map(|(_, ends)| furthest(ends).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let (down, up) = (reach(-1.0), reach(1.0));
        FigureInterval {
            name,
            sigma_ln: (down + up) / (2.0 * Z_90),
            reach_ln: (down, up),
            parts: parts(moved),
        }
    }

    /// The factors that the figure lies within with 90 % confidence.
    #[must_use]
    pub fn factors_90(&self) -> (f64, f64) {
        let (down, up) = self.reach_ln;
        ((-down).exp(), up.exp())
    }

    /// The component that contributes most.
    #[must_use]
    pub fn worst(&self) -> Option<Component> {
        let by_size = |a: &&(Component, f64), b: &&(Component, f64)| a.1.abs().total_cmp(&b.1.abs());
        self.parts.iter().max_by(by_size).map(|(component, _)| *component)
    }
}

/// σ of each component, signed. Directions of one component add up as squares do, with the sign of the widest.
fn parts(moved: &[(Component, [f64; 2])]) -> Vec<(Component, f64)> {
    let mut parts: Vec<(Component, f64)> = Vec::new();
    for (component, [fast, slow]) in moved {
        let own = (slow - fast) / (2.0 * Z_90);
        match parts.iter_mut().find(|(known, _)| known == component) {
            Some((_, known)) => {
                let widest = if own.abs() > known.abs() { own } else { *known };
                *known = known.hypot(own).copysign(widest);
            }
            None => parts.push((*component, own)),
        }
    }
    parts
}

/// Requests of each of the runs: ratios of runs with the same traffic need far fewer than the figures themselves.
const REQUESTS_MAX: u64 = 2000;

/// The same of several clients of whom some have an end: their first requests tell how they begin together, and not how the run
/// goes on and ends.
const REQUESTS_MAX_TO_AN_END: u64 = 20_000;

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
///
/// # Errors
/// What `meets` says is the highest rate as predicted, where that is another than the knee by more than a factor of
/// `NEAR`, or none: a ratio to it says nothing of the knee.
pub fn knee_interval(
    resolved: &Resolved,
    knee: f64,
    meets: &(dyn Fn(&Scenario, f64) -> bool + Sync),
) -> Result<FigureInterval, Option<f64>> {
    let moves = moves(resolved);
    // The promise is judged here over one traffic, by the search over many: their own difference is no uncertainty. So the
    // knee as predicted is looked for here again.
    let cases = cases(&moves);
    let highest = |moved: &Option<&Moved>| {
        let scenario = under(resolved, *moved);
        highest(knee, |rate| meets(&scenario, rate))
    };
    let here = highest(&cases[0]);
    let is_inside = here > rung(knee, 0) && here < rung(knee, LADDER - 1);
    if !is_inside || (here / knee).max(knee / here) > NEAR {
        return Err(is_inside.then_some(here));
    }
    let found: Vec<f64> = cases[1..].par_iter().map(highest).collect();
    let moved: Vec<(Component, [f64; 2])> = moves
        .iter()
        .zip(found.chunks_exact(2))
        .map(|((component, _), pair)| (*component, [(pair[0] / here).ln(), (pair[1] / here).ln()]))
        .collect();
    Ok(FigureInterval::new("knee", &moved))
}

/// What is changed of a calibration.
enum Moved {
    /// A component takes so many times as long.
    Component(Component, f64),
    /// The host is another one.
    Host(BTreeMap<String, f64>),
}

/// A part of the interval, and what is simulated for its two ends.
type Move = (Component, [Moved; 2]);

/// The parts: every component, but for those that hosts of one's own server stand for.
fn moves(resolved: &Resolved) -> Vec<Move> {
    let directions = directions(resolved);
    let is_held = |component: &Component| match component {
        Component::Host => !directions.is_empty(),
        Component::Launching => holds(directions, "eager_launch_us"),
        Component::FrontEnd => holds(directions, "request_ms"),
        Component::Streaming => holds(directions, "per_output_token_us"),
        _ => false,
    };
    let sigmas = sigmas(resolved).into_iter();
    let others = sigmas.filter(|(component, _)| !is_held(component));
    let both = |(component, sigma)| {
        (
            component,
            ends(sigma).map(|factor| Moved::Component(component, factor)),
        )
    };
    let hosts = directions.iter().map(|direction| {
        let ends = [&direction.less, &direction.more];
        (part_of(direction), ends.map(|end| Moved::Host(end.clone())))
    });
    others.map(both).chain(hosts).collect()
}

/// Hosts that the runs of one's own server allow; none where pools were calibrated otherwise.
fn directions(resolved: &Resolved) -> &[HostPair] {
    let servers = resolved.servers.iter();
    let mut all = servers.map(|server| server.calibration.allowed_hosts(&server.placement.engine));
    let first = all.next().unwrap_or_default();
    if all.all(|other| other == first) {
        first
    } else {
        &[]
    }
}

fn holds(directions: &[HostPair], term: &str) -> bool {
    directions
        .iter()
        .any(|direction| direction.less.contains_key(term))
}

/// The component whose term a direction moves furthest.
fn part_of(direction: &HostPair) -> Component {
    let width = |(term, less): (&String, &f64)| {
        let more = direction.more.get(term).copied().unwrap_or(*less);
        ((more / less).ln().abs(), term.clone())
    };
    let widths = direction.less.iter().map(width);
    let widest = widths.max_by(|one, other| one.0.total_cmp(&other.0));
    match widest.as_ref().map(|(_, term)| term.as_str()) {
        Some("eager_launch_us") => Component::Launching,
        Some("request_ms") => Component::FrontEnd,
        Some("per_output_token_us") => Component::Streaming,
        _ => Component::Host,
    }
}

/// What is simulated: the step as predicted, then both ends of each part.
fn cases(moves: &[Move]) -> Vec<Option<&Moved>> {
    let ends = moves.iter().flat_map(|(_, ends)| ends.iter().map(Some));
    std::iter::once(None).chain(ends).collect()
}

/// The factors at the two ends of a component's 90 % interval: fast, then slow.
fn ends(sigma: f64) -> [f64; 2] {
    [-Z_90, Z_90].map(|z| (z * sigma).exp())
}

/// The highest rate that meets a promise, by bisection on a ladder around the known one.
fn highest(knee: f64, meets: impl Fn(f64) -> bool) -> f64 {
    let rate = |step: u32| rung(knee, step);
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

/// The rate of a rung of the ladder around the knee.
fn rung(knee: f64, step: u32) -> f64 {
    knee * (f64::from(step) / f64::from(LADDER) * SPAN.ln()).exp() / SPAN.sqrt()
}

/// How far the knee of short runs may be from the knee, as a factor.
const NEAR: f64 = std::f64::consts::SQRT_2;

/// Rungs of the ladder, and its top rate over its bottom one: rungs are 0.5 % apart. A knee that moves further than to
/// a quarter or to four times is told as that.
const LADDER: u32 = 512;
const SPAN: f64 = 16.0;

/// The model interval of a run: two short simulations for each component of its step, and one as predicted.
///
/// # Panics
/// Never: nothing stops it.
#[must_use]
pub fn model_interval(resolved: &Resolved) -> ModelInterval {
    model_interval_while(resolved, &|| true).expect("nothing stops it")
}

/// The same, without figures of an ideal server, of which nothing is uncertain; `None` once `goes_on`, which is asked before each simulation, says no.
#[must_use]
pub fn model_interval_while(
    resolved: &Resolved,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Option<ModelInterval> {
    if resolved.is_ideal() {
        return Some(ModelInterval { figures: Vec::new() });
    }
    let moves = moves(resolved);
    let cases = cases(&moves);
    let simulated: Vec<[f64; FIGURES.len()]> = cases
        .par_iter()
        .map(|one| goes_on().then(|| simulated(resolved, *one)))
        .collect::<Option<_>>()?;
    let (predicted, moved) = simulated
        .split_first()
        .expect("the run as predicted is the first case");
    let figure = |(index, name): (usize, &&'static str)| {
        let ln = |values: &[f64; FIGURES.len()]| {
            let ratio = (values[index] / predicted[index]).ln();
            // A figure that does not exist, or is zero, has no relative error.
            if ratio.is_finite() { ratio } else { 0.0 }
        };
        let pairs = moves.iter().zip(moved.chunks_exact(2));
        let moved: Vec<(Component, [f64; 2])> = pairs
            .map(|((component, _), pair)| (*component, [ln(&pair[0]), ln(&pair[1])]))
            .collect();
        FigureInterval::new(name, &moved)
    };
    Some(ModelInterval {
        figures: FIGURES.iter().enumerate().map(figure).collect(),
    })
}

/// The components of every pool's steps; where pools differ, the one that is known least.
fn sigmas(resolved: &Resolved) -> Vec<(Component, f64)> {
    let mut all: Vec<(Component, f64)> = Vec::new();
    for server in &resolved.servers {
        let sigmas = server
            .calibration
            .sigmas(&server.device, &server.model, &server.placement);
        for (component, sigma) in sigmas {
            match all.iter_mut().find(|(known, _)| *known == component) {
                Some((_, largest)) => *largest = largest.max(sigma),
                None => all.push((component, sigma)),
            }
        }
    }
    all
}

/// The scenario of a run with one component of every pool slower, or faster, or with another host: its steps and its front ends.
fn under(resolved: &Resolved, moved: Option<&Moved>) -> Scenario {
    let mut scenario = resolved.scenario.clone();
    for (pool, server) in scenario.pools.iter_mut().zip(&resolved.servers) {
        let calibration = match moved {
            Some(Moved::Component(component, factor)) => server.calibration.scaled(*component, *factor),
            Some(Moved::Host(terms)) => under_terms(&server.calibration, &server.placement.engine, terms),
            None => server.calibration.clone(),
        };
        recalibrate(pool, server, &calibration);
        if let Some(ranks) = &mut scenario.lock_step {
            let placement = &server.placement;
            let shared = SharedExperts::maker(&server.device, &server.model, &calibration, placement);
            ranks.shared = shared.expect("a scaled calibration has the blocks of its original");
        }
    }
    scenario
}

fn recalibrate(pool: &mut Pool, server: &Server, calibration: &Calibration) {
    let placement = &server.placement;
    pool.frontend = pool.frontend.under(calibration, &placement.engine);
    let cost = RooflineCost::maker(&server.device, &server.model, calibration, placement);
    pool.cost = std::sync::Arc::new(cost.expect("a scaled calibration has the blocks of its original"));
}

/// The traffic of a day curve in fewer requests, and how many: its first ones tell of the night alone. `None` where there is no
/// such, or replicas come, go or fail at times that are not the curve's.
#[must_use]
pub fn short_day_of(scenario: &Scenario) -> Option<(WorkloadSpec, u64)> {
    let cluster = &scenario.cluster;
    let keeps_its_clock =
        cluster.outages.is_some() || !cluster.changes.is_empty() || !cluster.scalers.is_empty();
    short_day(&scenario.workload).filter(|_| !keeps_its_clock)
}

fn simulated(resolved: &Resolved, moved: Option<&Moved>) -> [f64; FIGURES.len()] {
    let mut scenario = under(resolved, moved);
    if let Some((day, _)) = short_day_of(&scenario) {
        scenario.workload = day;
        return figures(&simulate_whole(&scenario, None));
    }
    let workload = &mut scenario.workload;
    let mut sent_max = None;
    if matches!(workload.arrivals, Arrivals::Superposed { .. }) {
        // A number of requests would let those without an end go on when the others are through.
        let has_end = workload.has_end() || workload.parts().iter().any(|part| part.has_end());
        sent_max = Some(if has_end {
            REQUESTS_MAX_TO_AN_END
        } else {
            REQUESTS_MAX
        });
    } else {
        let own = workload.num_prompts.unwrap_or(REQUESTS_MAX);
        workload.num_prompts = Some(own.min(REQUESTS_MAX));
    }
    figures(&simulate_whole(&scenario, sent_max))
}

#[cfg(test)]
mod tests;
