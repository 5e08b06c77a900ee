//! One search from the scenario to its view: rate after rate, the model's doubt, and the replicas that a rate needs.

use super::super::in_step::in_step_at;
use super::super::{failures, fronts, interrupt, mix, present, subject};
use super::caveats::{self, Caveats};
use super::rate::{LONGEST, POINT, judged, long_enough, met, precision};
use super::{Bracket, classes, model, sizing};
use crate::analysis::costs::Rent;
use crate::analysis::knee::{Demand, Knee, Objective, SearchOptions, search};
use crate::analysis::{LoadKind, Precision, silent_classes};
use crate::calibrate::interval::FigureInterval;
use crate::config::{Document, Resolved};
use crate::report::figures::{percent, significant};
use crate::report::{EngineWords, KneeContext, KneeView, Sizing};
use crate::workload::mean_rate;

/// What to search, and to size.
pub(in crate::cli) struct Asked<'a> {
    pub(in crate::cli) resolved: &'a Resolved,
    /// What it was read from, of which another number of replicas is made.
    pub(in crate::cli) document: &'a Document,
    pub(in crate::cli) bracket: Bracket,
    pub(in crate::cli) sizing: Option<Sizing>,
    /// What its pools cost, where that is told beside the knee.
    pub(in crate::cli) rent: Option<Result<Rent, String>>,
    /// What was given and has no effect.
    pub(in crate::cli) ignored: Vec<String>,
    /// Nothing but the knee is asked for: not how far it may be off because the model is.
    pub(in crate::cli) is_bare: bool,
}

impl<'a> Asked<'a> {
    /// The knee alone, between no bounds.
    pub(super) fn bare(resolved: &'a Resolved, document: &'a Document) -> Asked<'a> {
        Asked {
            resolved,
            document,
            bracket: Bracket::default(),
            sizing: None,
            rent: None,
            ignored: Vec::new(),
            is_bare: true,
        }
    }
}

/// Neighbours on a curve that is looked at are no further apart.
const APART: f64 = 1.3;

/// Told how many were tried, says whether to go on.
pub(super) type GoesOn<'a> = &'a mut dyn FnMut(u64) -> bool;

/// A search and what it says.
pub(super) struct Searched {
    pub(super) view: KneeView,
    pub(super) knee: Knee,
    /// Where the search was stopped, in words.
    pub(super) stopped: Option<String>,
}

/// Searches and judges.
///
/// # Errors
/// Traffic without a rate, and a class that never begins.
pub(super) fn search_one(
    asked: &Asked<'_>,
    searching: GoesOn<'_>,
    counting: GoesOn<'_>,
) -> anyhow::Result<Searched> {
    let resolved = asked.resolved;
    let Some(own_rate) = mean_rate(&resolved.scenario.workload) else {
        anyhow::bail!(
            "the traffic has no rate that could be raised: all requests are sent at once; give --request-rate, or --max-concurrency or --users for a \
             closed loop, of which the most in flight is looked for"
        );
    };
    let objective = present::objective(resolved);
    let precision = precision(resolved);
    let options = SearchOptions {
        apart: Some(APART),
        ..options(asked.bracket, own_rate, &precision)
    };
    let Rates {
        knee,
        caveats,
        stopped,
    } = find(resolved, &objective, precision, &options, searching)?;
    let is_interrupted = stopped.is_some();
    let model = (!is_interrupted && !asked.is_bare)
        .then(|| model::uncertainty(resolved, &objective, &knee))
        .flatten();
    // Runs that were cut short tell nothing of the model.
    let model = match interrupt::is_asked() && !is_interrupted && !asked.is_bare && knee.within_slo.is_some()
    {
        true => Err("interrupted before it was".to_owned()),
        false => model.transpose(),
    };
    let needed = asked
        .sizing
        .as_ref()
        .filter(|_| !is_interrupted)
        .map(|sizing| sizing::needed(asked, sizing, &knee, &objective, precision, counting));
    let (sizing, of_count) = match (asked.sizing.clone(), needed) {
        (Some(sizing), Some(needed)) => {
            let demand = Demand {
                rate: needed.rate,
                ..sizing.demand
            };
            let counted = needed.counted;
            let sizing = Sizing {
                demand,
                counted,
                ..sizing
            };
            (Some(sizing), needed.note)
        }
        (sizing, _) => (sizing, None),
    };
    let stopped_at = match &stopped {
        Some(_) => StoppedAt::Search,
        None if interrupt::is_asked() => StoppedAt::WhatFollows,
        None => StoppedAt::Nothing,
    };
    let mut view = view(asked, sizing, &knee, &precision, stopped_at, model);
    view.notes.extend(of_count);
    view.notes.extend(caveats::at_the_answer(&knee, caveats));
    view.notes
        .extend(model::shortened(resolved, &knee).filter(|_| view.model.is_some()));
    view.notes
        .extend(caveats::sped_up(resolved, &knee, asked.sizing.as_ref()));
    view.notes.extend(wide(&view, options.width));
    Ok(Searched { view, knee, stopped })
}

/// What there is to say of an interval that no more rates and runs of a search made as narrow as it should be.
fn wide(view: &KneeView, width: Option<f64>) -> Option<String> {
    /// As wide as it looks in three figures.
    const ROUNDING: f64 = 1.05;
    let (knee, width) = view.knee.zip(width)?;
    let is_chance = !view.is_of_one_traffic && !view.is_interrupted && knee.low > 0.0;
    let wide = (knee.high - knee.low) / knee.value;
    (is_chance && wide.is_finite() && wide > width * ROUNDING).then(|| {
        format!(
            "the knee's interval is {} of it wide, which is chance: about the knee the share of good requests changes little with the \
             rate, or much from run to run. A smaller --precision takes longer runs",
            percent(wide)
        )
    })
}

/// Where the search starts, between what bounds, and how narrow its answer must be.
pub(super) fn options(bracket: Bracket, own_rate: f64, precision: &Precision) -> SearchOptions {
    let coarser = precision.relative / POINT.relative;
    SearchOptions {
        // The bounds say where not to look, and no more: a rate that was meant to be run is the better guess.
        start_rate: own_rate,
        rate_min: bracket.min_rate.unwrap_or(0.0),
        rate_max: bracket.max_rate.unwrap_or(f64::INFINITY),
        // The bracket is as much narrower than a point's interval as it always was.
        tolerance: SearchOptions::default().tolerance * coarser,
        width: SearchOptions::default().width.map(|width| width * coarser),
        requests_max: LONGEST * precision.max_requests,
        ..SearchOptions::default()
    }
}

/// What a search over rates found.
pub(super) struct Rates {
    pub(super) knee: Knee,
    /// What must be said of a rate.
    caveats: Caveats,
    /// Where the user stopped it, in words.
    stopped: Option<String>,
}

/// Simulates rate after rate.
///
/// # Errors
/// At one of them a class never began, so that the rate is not that of all.
pub(super) fn find(
    resolved: &Resolved,
    objective: &Objective,
    precision: Precision,
    options: &SearchOptions,
    goes_on: GoesOn<'_>,
) -> anyhow::Result<Rates> {
    let mut tried = 0;
    let mut stopped_at = None;
    let (mut never_began, mut never_began_at) = (None, 0.0);
    let mut caveats = Caveats::new();
    let mut evaluate = |rate: f64, requests: u64| {
        let precision = Precision {
            min_requests: precision.min_requests.max(requests),
            max_requests: precision.max_requests.max(requests),
            ..precision
        };
        let outcome = long_enough(resolved, rate, objective, precision);
        tried += 1;
        if !goes_on(tried) {
            stopped_at = Some((rate, outcome.counts.ended));
            return None;
        }
        let silent = silent_classes(&outcome.result, &resolved.scenario.workload);
        never_began = silent.into_iter().find(|class| !class.has_begun());
        if never_began.is_some() {
            never_began_at = rate;
            return None;
        }
        caveats.extend(
            (fronts::of_run(resolved, &outcome).into_iter())
                .chain(in_step_at(rate, resolved, &outcome))
                .map(|said| (rate, said)),
        );
        let mut point = judged(resolved, rate, objective, &outcome);
        point.pressure = present::pressure(resolved, &outcome.result);
        if let Some(met) = met(resolved, rate, &outcome.result) {
            point.with_met(met, objective);
        }
        Some(point)
    };
    let knee = search(&mut evaluate, options);
    let stopped = stopped_at.map(|(rate, ended)| {
        format!(
            "interrupted at {} req/s after {}: too short to be judged, so that rate is none of those in the table",
            significant(rate),
            crate::report::counted(ended, "request")
        )
    });
    if let Some(class) = never_began {
        anyhow::bail!(
            "no knee can be found: at {} req/s class {} never begins ({}); give an earlier start, or `duration` of [workload] beyond it \
             in place of a number of requests",
            significant(never_began_at),
            class.name,
            class.why()
        );
    }
    Ok(Rates {
        knee,
        caveats,
        stopped,
    })
}

/// What nobody gave, with the search's own precision in place of a run's length.
pub(super) fn assumptions(resolved: &Resolved, precision: &Precision) -> Vec<String> {
    let varies = LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying;
    let mut told: Vec<String> = present::assumptions(resolved)
        .into_iter()
        .filter(|told| {
            let is_of_search = ["precision = ", "request_rate = "];
            !is_of_search.iter().any(|of| told.starts_with(of))
                && (varies || !told.starts_with("duration = "))
        })
        .collect();
    if *precision == POINT && !varies {
        told.push(format!("precision = {}", POINT.relative));
    }
    told
}

/// What the user stopped.
#[derive(Clone, Copy, PartialEq)]
enum StoppedAt {
    Nothing,
    Search,
    WhatFollows,
}

/// What is printed.
fn view(
    asked: &Asked<'_>,
    sizing: Option<Sizing>,
    knee: &Knee,
    precision: &Precision,
    stopped: StoppedAt,
    model: Result<Option<FigureInterval>, String>,
) -> KneeView {
    let resolved = asked.resolved;
    let (model, model_unknown) = match model {
        Ok(model) => (model, None),
        Err(why) => (None, Some(why)),
    };
    let own = (resolved.other_notes().into_iter())
        .chain(failures::of_search(resolved, knee))
        .chain(classes::note(knee, &present::objective(resolved)));
    let context = KneeContext {
        is_interrupted: stopped == StoppedAt::Search,
        is_cut_after: stopped == StoppedAt::WhatFollows,
        model,
        model_unknown,
        min_rate: asked.bracket.min_rate,
        notes: own.collect(),
        sizing,
        load_varies: LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying,
        ..context(asked, precision)
    };
    KneeView::new(knee, context)
}

/// What is known before anything is simulated.
pub(super) fn context(asked: &Asked<'_>, precision: &Precision) -> KneeContext {
    let resolved = asked.resolved;
    KneeContext {
        subject: subject::subject(resolved),
        scenario: resolved.scenario_name(),
        seed: resolved.scenario.seed,
        limits: present::printed_limits(&resolved.slo),
        promises: present::promises(&resolved.slo),
        classes: present::class_promises(resolved),
        attainment: resolved.slo.attainment,
        trust: present::trust(resolved),
        assumptions: assumptions(resolved, precision),
        max_concurrency: resolved.scenario.workload.client.max_concurrency,
        ignored: asked.ignored.clone(),
        label: resolved.report.label.clone(),
        metadata: resolved.report.metadata.clone(),
        rent: asked.rent.clone(),
        words: EngineWords::of(&resolved.scenario.first_pool().engine),
        pools: pools(resolved),
        beside: mix::beside(&resolved.scenario.workload),
        ..KneeContext::default()
    }
}

/// The pools and what their engines call their limits, where there are several.
fn pools(resolved: &Resolved) -> Vec<(String, EngineWords)> {
    let pools = resolved.scenario.pools.iter();
    let named = pools.filter(|_| resolved.servers.len() > 1);
    let words = named.map(|pool| (pool.name.clone(), EngineWords::of(&pool.engine)));
    words.collect()
}
