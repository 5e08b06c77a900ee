//! A knee search's outcome in the shape that printers and charts take.

use super::figures::{counted, significant, time};
use super::knee_limit::{First, hardest_pressed, limited_by};
use super::sought::Sought;
use super::views::{
    ClassPromise, ClassTails, Counted, KneePoint, KneeView, Limit, Promise, Quantiles, Sizing,
};
use super::words::EngineWords;
use crate::analysis::costs::Rent;
use crate::analysis::knee::{CountEnding, Fleet, Knee, Point, Sending};
use crate::calibrate::interval::FigureInterval;
use crate::cost::Trust;

/// What a search does not know of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KneeContext {
    /// What was simulated: `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// What the scenario is called, where it is a file or ships.
    pub scenario: Option<String>,
    /// Seed of every random stream.
    pub seed: u64,
    /// The limits on each request.
    pub limits: Vec<Limit>,
    /// The classes of requests and what is promised to each.
    pub classes: Vec<ClassPromise>,
    /// Limits on percentiles and means.
    pub promises: Vec<Promise>,
    /// Share of requests that must meet them, in 0..=1.
    pub attainment: f64,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// Defaults and substitutions, as sentences.
    pub assumptions: Vec<String>,
    /// Ctrl-C ended the search.
    pub is_interrupted: bool,
    /// It was whole, and the user stopped what follows from it.
    pub is_cut_after: bool,
    /// How far the knee may be off because the step time's parameters are.
    pub model: Option<FigureInterval>,
    /// First part of a saved result's name, where one was given.
    pub label: Option<String>,
    /// Pairs kept in the JSON.
    pub metadata: Vec<(String, String)>,
    /// The rate that replicas are counted for, without its fleet.
    pub sizing: Option<Sizing>,
    /// What the pools cost, or why that is not known; `None` where it is not told.
    pub rent: Option<Result<Rent, String>>,
    /// The rates are means of a load that changes on purpose (a trace, a day curve, a ramp).
    pub load_varies: bool,
    /// What the engine calls its limits.
    pub words: EngineWords,
    /// Requests that the client has in flight at most.
    pub max_concurrency: Option<u32>,
    /// Lowest rate that was to be looked at, where one was given.
    pub min_rate: Option<f64>,
    /// Why no interval of the model is told, where there is a knee and none can be.
    pub model_unknown: Option<String>,
    /// What else must be known of the search.
    pub notes: Vec<String>,
    /// What was given and has no effect.
    pub ignored: Vec<String>,
    /// What has no rate and is sent beside every rate, in words.
    pub beside: Vec<String>,
    /// The pools by name, and what their engines call their limits; empty for one.
    pub pools: Vec<(String, EngineWords)>,
}

impl KneeView {
    /// Makes the view of a search.
    #[must_use]
    pub fn new(knee: &Knee, context: KneeContext) -> KneeView {
        let KneeContext {
            subject,
            scenario,
            seed,
            limits,
            classes,
            promises,
            attainment,
            trust,
            mut assumptions,
            is_interrupted,
            is_cut_after,
            model,
            label,
            metadata,
            sizing,
            load_varies,
            rent,
            words,
            max_concurrency,
            min_rate,
            model_unknown,
            mut notes,
            ignored,
            pools,
            beside,
        } = context;
        assumptions.extend(meaning_of_saturation(knee, load_varies));
        notes.extend(held_back(knee));
        let sending_counted = sending_counted(sizing.as_ref());
        notes.extend(hardly_held(knee, sending_counted));
        if load_varies && (knee.within_slo.is_some() || knee.saturation.is_some()) {
            notes.push(
                "every rate was looked at with one and the same traffic: brackets are those of the search, and how far the knee \
                 of another day lies from it is not in them (where arrivals are drawn, --seed draws others)"
                    .into(),
            );
        }
        if !knee.converged && !is_interrupted {
            notes.extend(not_narrowed(knee));
        }
        let at_knee = tokens_at_knee(knee, !beside.is_empty());
        KneeView {
            rent,
            subject,
            of: Sought::Rate,
            points: knee.points.iter().map(point).collect(),
            knee: knee.within_slo,
            saturation: knee.saturation,
            when_full: knee.when_full,
            client: knee.client,
            max_concurrency,
            limited_by: limited_by(knee, &classes, load_varies, words, &pools),
            breaks_first: First::of(knee),
            hardest_pressed: hardest_pressed(knee),
            scenario,
            seed,
            prompt_tokens_per_s: at_knee.map(|(prompt, _)| prompt),
            output_tokens_per_s: at_knee.map(|(_, output)| output),
            answers_cut: share_at_knee(knee, |point| point.answers_cut),
            too_long: share_at_knee(knee, |point| point.lost.too_long),
            sending: knee.sending(),
            sending_counted,
            limits,
            classes,
            promises,
            attainment,
            is_interrupted,
            is_cut_after,
            is_of_one_traffic: load_varies,
            trust,
            assumptions,
            sizing: sizing.map(|asked| sized(asked, knee, model.as_ref())),
            model,
            model_unknown,
            min_rate,
            notes,
            ignored,
            beside,
            label,
            metadata,
        }
    }
}

/// What it takes for a rate to saturate, where that is not a queue that grows without bound.
fn meaning_of_saturation(knee: &Knee, load_varies: bool) -> Vec<String> {
    let mut said = Vec::new();
    if load_varies && knee.saturation.is_some() {
        said.push(
            "the load varies: a rate is the mean over its span, and it saturates where the backlog left at the end \
             takes more than 5 % of the span to work off, or, where the span is few stays of a request long, where sending it \
             faster gets it done no sooner"
                .into(),
        );
    }
    if knee.points.iter().any(|point| point.is_losing) && knee.saturation.is_some() {
        let fail = knee
            .points
            .iter()
            .any(|point| point.is_losing && point.lost.failed > 0.0);
        let or_fail = if fail {
            ", or lost in the queues of replicas that fail,"
        } else {
            ""
        };
        said.push(format!(
            "it saturates where more requests are refused or given up{or_fail} than the SLO leaves room for, at least 5 %"
        ));
    }
    said
}

/// What the client holds back at the knee, if that is of the size of what is promised: no latency has it in it.
fn held_back(knee: &Knee) -> Option<String> {
    let found = knee.within_slo?;
    let point = knee.up_to(found.value).next()?;
    let (mean_s, p99_s) = point.client_queue_s?;
    let is_felt = point.ttft_s.is_some_and(|(median_s, _)| mean_s > 0.1 * median_s);
    is_felt.then(|| {
        format!(
            "at {} req/s a request waits {} at its client on average (p99 {}) before it is sent, for one of the places of \
             --max-concurrency: a wait that is in no latency, as in the client of vLLM, and without which the knee is lower",
            significant(point.rate),
            time(mean_s),
            time(p99_s)
        )
    })
}

/// That a load with an end is over before a rate is held for long.
fn hardly_held(knee: &Knee, counted_for: Option<Sending>) -> Vec<String> {
    let at_knee = knee.sending();
    let at_saturation = knee.sending_at_saturation();
    let is_other = |one: &Sending| at_knee.is_none_or(|knee| knee.rate != one.rate);
    [at_knee, at_saturation.filter(is_other), counted_for]
        .into_iter()
        .flatten()
        .filter_map(|sending| {
            let (requests, rate) = (counted(sending.requests, "request"), significant(sending.rate));
            let (lasts, stay) = (time(sending.lasts_s), time(sending.stay_s));
            if sending.is_burst() {
                return Some(format!(
                    "at {rate} req/s all {requests} are sent within {lasts}, and one stays for {stay} (median): they are one burst and no \
                     rate that a server could be said to keep up; a longer trace tells it"
                ));
            }
            sending.is_short().then(|| {
                format!(
                    "at {rate} req/s the {requests} are sent within {lasts}, {} times as long as one of them stays ({stay}, median): filling \
                     up and draining are a good part of what is seen, and a rate that lasted would be kept up by less; a longer trace \
                     tells it",
                    significant(sending.stays())
                )
            })
        })
        .collect()
}

/// The sending of the number of replicas that was found.
fn sending_counted(sizing: Option<&Sizing>) -> Option<Sending> {
    match sizing?.counted.as_ref()? {
        Counted::BySimulation { count, .. } => match count.ending {
            CountEnding::Found { replicas, .. } => count.crew(replicas)?.point.sending(),
            _ => None,
        },
        Counted::ByKnee(_) => None,
    }
}

/// Why a search ended with brackets that are wider than asked for: it ran out of runs, and not of rates that it may look at.
fn not_narrowed(knee: &Knee) -> Option<String> {
    let is_open = |holds: fn(&Point) -> bool| {
        let mut points = knee.points.iter();
        points.clone().any(holds) && points.any(|point| !holds(point))
    };
    (is_open(Point::is_within) || is_open(Point::keeps_up))
        .then(|| "the search ran out of runs: its intervals are wider than asked for".to_owned())
}

/// With the fleet that the count found, or that the knee of one replica makes where it was not simulated.
fn sized(asked: Sizing, knee: &Knee, model: Option<&FigureInterval>) -> Sizing {
    // What the model makes of the knee of one, which has bursts of its own, says little of those who share them.
    let factors = model
        .filter(|_| !asked.shares_bursts())
        .map(FigureInterval::factors_90);
    let tokens_each = |point: &Point| tokens_each(point, !asked.beside.is_empty());
    let fleet = match &asked.counted {
        None => None,
        Some(Counted::BySimulation { count, .. }) => {
            let tokens = match count.ending {
                CountEnding::Found { replicas, .. } => count.crew(replicas),
                _ => None,
            };
            let tokens = tokens.and_then(|crew| tokens_each(&crew.point));
            let alone = knee.within_slo.map(|found| found.value);
            let alone = (alone, knee.unsettled_saturation());
            Fleet::by_count(count, alone, &asked.demand, tokens, factors)
        }
        Some(Counted::ByKnee(_)) => knee.within_slo.map(|found| {
            let tokens = knee.up_to(found.value).find_map(tokens_each);
            Fleet::by_knee(found, &asked.demand, tokens, factors)
        }),
    };
    let fleet = fleet.map(|fleet| fleet.with_spares(asked.spares));
    Sizing { fleet, ..asked }
}

/// Prompt and output tokens for each request of a point's rate. What is answered beside the rate has tokens, too, and is paid with
/// it.
fn tokens_each(point: &Point, has_others: bool) -> Option<(f64, f64)> {
    let (input, output) = point.tokens_each?;
    let answered = point.throughput.filter(|_| has_others);
    let each = answered.map_or(1.0, |answered| answered.value / point.rate);
    Some((input * each, output * each))
}

/// Prompt and output tokens per second at the highest rate within the SLO: those of a request as the nearest run had them.
fn tokens_at_knee(knee: &Knee, has_others: bool) -> Option<(f64, f64)> {
    let rate = knee.within_slo?.value;
    let (prompt, output) = knee
        .up_to(rate)
        .find_map(|point| tokens_each(point, has_others))?;
    Some((rate * prompt, rate * output))
}

/// A share of the point at the knee, or else at saturation; 0 where there is neither.
fn share_at_knee(knee: &Knee, of: impl Fn(&Point) -> f64) -> f64 {
    let rate = knee.within_slo.or(knee.saturation).map(|rate| rate.value);
    let nearest = rate.and_then(|rate| knee.up_to(rate).next());
    nearest.map_or(0.0, of)
}

fn tails(&[p99_ttft_s, p99_tpot_s]: &[Option<f64>; 2]) -> ClassTails {
    ClassTails {
        p99_ttft_s,
        p99_tpot_s,
    }
}

pub(super) fn point(point: &Point) -> KneePoint {
    let quantiles = |pair: Option<(f64, f64)>| pair.map(|(p50_s, p99_s)| Quantiles { p50_s, p99_s });
    KneePoint {
        request_rate: point.rate,
        in_flight: None,
        verdict: point.verdict,
        requests: point.requests,
        is_held_by_client: point.is_held_by_client,
        client_queue_s: point.client_queue_s.map(|(mean_s, _)| mean_s),
        by_class: point.by_class.iter().map(tails).collect(),
        attainment: point.attainment.map(|share| share.value),
        ttft: quantiles(point.ttft_s),
        p99_ttft: point.p99_ttft,
        tpot: quantiles(point.tpot_s),
        itl: quantiles(point.itl_s),
        e2el: quantiles(point.e2el_s),
        request_throughput: point.throughput,
        output_throughput: point.output_tokens_per_s,
        running: point.running,
        waiting: point.waiting,
        kv_usage: point.kv_usage,
        growth_per_s: point.growth_per_s,
        refused: point.lost.refused + point.lost.too_long,
        given_up: point.lost.given_up,
        failed: point.lost.failed,
        is_losing: point.is_losing,
    }
}
