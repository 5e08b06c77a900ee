//! The least that a setting may cost, before anything is searched: by what one replica serves when all is sent at once, which no rate
//! within an SLO is beyond. Settings whose least is low are searched first, and those of whom even the least is twice the cheapest not
//! at all.
//!
//! Law: a setting that is left out is named, and neither it nor it with one spare could be the cheapest.

use rayon::prelude::*;
use serde_json::Value;

use super::super::knee::{Pruned, Told, Turns};
use super::super::plan::{Plan, Planned};
use super::super::{present, progress};
use super::demand::Demand;
use crate::analysis::{RunResult, simulate};
use crate::metrics::Records;
use crate::report::Sizing;
use crate::report::figures::counted;
use crate::report::purchases::dollars;
use crate::workload::at_once;

/// Requests that are sent at once to see what a replica serves at most.
const FULL: u64 = 2_000;
/// How much more than that run served one may take that never fills up and drains.
const MARGIN: f64 = 1.3;
/// Requests of a run that tells how long an answer takes where hardly anybody waits.
const FEW: u64 = 16;
/// How many times as long an answer may take within an SLO.
const SLOWER: f64 = 10.0;
/// Settings of one turn differ by no more in their least costs.
const OF_A_TURN: f64 = 1.4;
/// From so many times the cheapest on a setting is not searched.
const NOT_WORTH: f64 = 2.0;
/// Share of what a full replica serves at which a search begins.
const START: f64 = 0.7;

/// The least that a setting may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// Requests per second of one replica when it is full; `None` where that is not told.
    full: Option<f64>,
    /// Replicas that there must be at least, the spares among them.
    replicas: u64,
    /// What these cost an hour; `None` where a card has no price.
    usd_per_hour: Option<f64>,
}

/// Those of all settings that can be run, in their order.
pub(super) fn of_all(plan: &Plan, sizings: &[Sizing], demand: &Demand) -> Vec<Bound> {
    let both: Vec<(&Planned, &Sizing)> = plan.runs.iter().zip(sizings).collect();
    both.into_par_iter()
        .map(|(cell, sizing)| bound(cell, sizing, demand))
        .collect()
}

fn bound(cell: &Planned, sizing: &Sizing, demand: &Demand) -> Bound {
    let run = |requests: u64| {
        let resolved = &cell.resolved;
        let mut scenario = resolved.scenario.clone();
        scenario.workload = at_once(&scenario.workload, requests)?;
        let mut experiment = present::experiment(resolved, Records::None);
        experiment.stops_when_precise = false;
        let told = || "what a replica serves when it is full".to_owned();
        let outcome = simulate(&scenario, &experiment, |_| progress::goes_on(told));
        (!outcome.is_interrupted).then_some(outcome.result)
    };
    let full = run(FULL).and_then(|result| served_per_s(&result));
    let rate = match demand.of_loop {
        None => Some(demand.rate),
        Some(of_loop) => run(FEW)
            .and_then(|result| result.whole.e2el.mean_s())
            .map(|alone_s| of_loop.rate(SLOWER * alone_s)),
    };
    let replicas = rate
        .zip(full)
        .map_or(1.0, |(rate, full)| (rate / (MARGIN * full)).ceil());
    let replicas = replicas.max(1.0) as u64 + sizing.spares;
    let each = &sizing.demand;
    let gpus = replicas * u64::from(each.gpus_per_replica);
    Bound {
        full,
        replicas,
        usd_per_hour: each.usd_per_gpu_hour.map(|usd| usd * gpus as f64),
    }
}

fn served_per_s(result: &RunResult) -> Option<f64> {
    let whole = &result.whole;
    let served = whole.completed as f64 / whole.duration_s;
    (whole.completed > 0 && served.is_finite()).then_some(served)
}

impl Bound {
    /// A rate for a search to begin with, where the traffic has none of its own.
    pub(super) fn start_rate(&self) -> f64 {
        self.full.map_or(1.0, |full| START * full)
    }

    /// Why the setting is not worth a search beside the cheapest of those that were searched.
    pub(super) fn why_pruned(&self, found: &[Option<Value>]) -> Option<String> {
        let kept = found.iter().flatten().filter(|object| object["state"] == "kept");
        let costs = kept.filter_map(|object| object["cost"]["usd_per_hour"].as_f64());
        let cheapest = costs.min_by(f64::total_cmp)?;
        let least = self.usd_per_hour.filter(|least| *least >= NOT_WORTH * cheapest)?;
        let replicas = counted(self.replicas, "replica");
        Some(format!(
            "it takes {replicas} at the least, by what one serves when it is full, which cost {} $/h: twice the {} $/h of another setting, or \
             more",
            dollars(least),
            dollars(cheapest)
        ))
    }
}

/// The settings whose least costs are low first. What cannot be run is of the first turn, and what has no price of the last.
pub(super) fn turns<'a>(
    plan: &Plan,
    bounds: &[Bound],
    settings: usize,
    (pruned, told): (Pruned<'a>, Told<'a>),
) -> Turns<'a> {
    let mut least: Vec<(f64, usize)> = (plan.runs.iter().zip(bounds))
        .map(|(cell, bound)| (bound.usd_per_hour.unwrap_or(f64::INFINITY), cell.index))
        .collect();
    least.sort_by(|(a, one), (b, other)| a.total_cmp(b).then(one.cmp(other)));
    let mut turns: Vec<Vec<usize>> = vec![Vec::new()];
    let mut from = least.first().map_or(0.0, |(usd, _)| *usd);
    for (usd, index) in least {
        if usd > OF_A_TURN * from {
            turns.push(Vec::new());
            from = usd;
        }
        turns.last_mut().expect("there is one").push(index);
    }
    let is_run = |index: &usize| plan.run(*index).is_some();
    turns[0].extend((0..settings).filter(|index| !is_run(index)));
    turns.iter_mut().for_each(|turn| turn.sort_unstable());
    Turns { turns, pruned, told }
}
