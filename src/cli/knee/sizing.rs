//! `--for-rate`: the fleet that a rate needs, or that users do, by simulating it.

use toml::Value;

use super::super::disk::Disk;
use super::super::in_step::{self, in_step_at};
use super::super::{interrupt, mix, present};
use super::in_flight::long_enough_loop;
use super::one::{Asked, GoesOn};
use super::rate::{judged, long_enough};
use crate::analysis::knee::{CountEnding, CountOptions, Demand, Knee, Loop, Objective, Point, count};
use crate::analysis::{LoadKind, Outcome, Precision};
use crate::config::{Diagnostic, Diagnostics, Document, Place, Resolved, resolve};
use crate::report::{Counted, Sizing};

/// What to count replicas for.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Sizing")]
pub struct SizingFlags {
    /// Count the replicas, and their cost, that so many requests per second need in all: the fewest that meet the SLO when
    /// they are simulated behind --router; of prefill and decode pools the cheapest numbers of both.
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub for_rate: Option<f64>,
}

/// The smallest rate that is sized for, requests per second: below it dollars per token say nothing.
const RATE_MIN: f64 = 1e-6;

impl SizingFlags {
    /// What is wrong with the flags by themselves.
    pub(super) fn problems(self) -> Vec<Diagnostic> {
        let too_low = self.for_rate.filter(|rate| *rate > 0.0 && *rate < RATE_MIN);
        let too_low = too_low.map(|rate| {
            Diagnostic::new(format!(
                "--for-rate {rate:e} is less than a request in 11 days, which a replica that is there serves: give at least 1e-6"
            ))
            .at(Place::Flag("--for-rate".to_owned()))
        });
        let all = [super::no_rate("--for-rate", self.for_rate), too_low];
        all.into_iter().flatten().collect()
    }

    /// What was asked, for this scenario's replica.
    ///
    /// # Errors
    /// A scenario that is a cluster already, or whose replicas fail.
    pub(super) fn of(self, resolved: &Resolved, document: &Document) -> Result<Option<Sizing>, Diagnostics> {
        let Some(rate) = self.for_rate else {
            return Ok(None);
        };
        let wanted = Wanted {
            rate,
            of_loop: None,
            spares: 0,
            asker: "--for-rate",
        };
        wanted.of(resolved, document).map(Some)
    }
}

/// What replicas are counted for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::cli) struct Wanted {
    /// Requests per second; of a closed loop a guess.
    pub(in crate::cli) rate: f64,
    /// The closed loop, if it is one.
    pub(in crate::cli) of_loop: Option<Loop>,
    /// Replicas to have beside those that carry it.
    pub(in crate::cli) spares: u64,
    /// Who counts, as messages begin.
    pub(in crate::cli) asker: &'static str,
}

impl Wanted {
    /// The question to a scenario's replica.
    ///
    /// # Errors
    /// A scenario that is a cluster already, or whose replicas fail.
    pub(in crate::cli) fn of(self, resolved: &Resolved, document: &Document) -> Result<Sizing, Diagnostics> {
        let engines = engines_of_one(self.asker, resolved, document)?;
        let price = resolved.scenario.first_pool().price.as_ref();
        let listed = price.and_then(|price| price.listed.as_ref());
        Ok(Sizing {
            demand: Demand {
                rate: self.rate,
                gpus_per_replica: resolved.placement.gpus() * engines,
                usd_per_gpu_hour: price.map(|price| price.usd_per_hour),
            },
            of_loop: self.of_loop,
            spares: self.spares,
            gpu: resolved.device.id.clone(),
            price_source: listed.map(|date| format!("assumed list price of {date}")),
            is_bursty: resolved.scenario.workload.is_bursty(),
            beside: match self.of_loop {
                // All that is sent is the loop.
                Some(_) => Vec::new(),
                None => mix::beside(&resolved.scenario.workload),
            },
            counted: None,
            fleet: None,
        })
    }
}

/// No more than so many are simulated of a law of arrivals, whose runs must be the longer the more there are. One with a span of its
/// own runs through it once, however many share it.
pub(super) const OF_A_LAW: u64 = 1024;
/// As many as a scenario may have.
const OF_A_SPAN: u64 = 4096;
/// Runs of a count at most.
const RUNS: usize = 40;
/// How often everybody inside is replaced in the longest run that a count is ready to make.
const GENERATIONS: f64 = 16.0;
/// Requests of that run at most, some seconds of work.
const REQUESTS_MAX: u64 = 2_000_000;

/// The precision of a run that is long enough for everybody inside to be replaced as often as that.
pub(super) fn replacing(precision: Precision, inside: f64) -> Precision {
    let wanted = ((GENERATIONS * inside) as u64).min(REQUESTS_MAX);
    Precision {
        max_requests: precision.max_requests.max(wanted),
        ..precision
    }
}

/// Replicas that a rate or a closed loop needs.
pub(super) struct Needed {
    /// Requests per second that they are counted for: of a closed loop those that it sends to them.
    pub(super) rate: f64,
    /// `None` where no number would help.
    pub(super) counted: Option<Counted>,
    /// What the number hangs on that the traffic need not have.
    pub(super) note: Option<String>,
}

/// The replicas that the demand needs, by simulating as many.
pub(super) fn needed(
    asked: &Asked<'_>,
    sizing: &Sizing,
    knee: &Knee,
    objective: &Objective,
    precision: Precision,
    goes_on: GoesOn<'_>,
) -> Needed {
    let rate = match sizing.of_loop {
        None => sizing.demand.rate,
        Some(of_loop) => of_loop.rate(answer_s(knee)),
    };
    let mut simulated = Vec::new();
    let mut look = |replicas: u64, many: &Resolved, outcome: &Outcome| {
        let said = match sizing.of_loop {
            None => in_step_at(rate, many, outcome),
            Some(_) => in_step::in_step(many, outcome),
        };
        simulated.push((replicas, said));
    };
    let of = (rate, sizing.of_loop, knee);
    let counted = counted(asked, of, objective, precision, goes_on, &mut look);
    let (found, count) = match &counted {
        Some(Counted::BySimulation { count, .. }) => (count.ending, Some(count)),
        _ => (CountEnding::Stopped, None),
    };
    let CountEnding::Found { replicas, .. } = found else {
        return Needed {
            rate,
            counted,
            note: None,
        };
    };
    // What a loop sends is what its answers let in.
    let crew = count.and_then(|count| count.crew(replicas));
    let sent = crew.and_then(|crew| crew.point.throughput);
    Needed {
        rate: match (sizing.of_loop, sent) {
            (Some(_), Some(sent)) => sent.value,
            _ => rate,
        },
        counted,
        note: fewer_if_scattered(replicas, simulated),
    }
}

/// Mean time of an answer at the knee, or at the lowest rate that was tried, by Little's law.
fn answer_s(knee: &Knee) -> f64 {
    let below = knee.within_slo.map_or(f64::INFINITY, |found| found.value);
    let mut kept = knee.up_to(below).filter(|point| point.keeps_up());
    kept.find_map(|point| Some(point.in_system? / point.rate))
        .unwrap_or_default()
}

/// What answers in step do to the number of replicas that was found, or to one less, which was not enough.
fn fewer_if_scattered(found: u64, simulated: Vec<(u64, Option<String>)>) -> Option<String> {
    let told = simulated
        .into_iter()
        .filter_map(|(replicas, said)| Some((replicas, said?)));
    let near = told.filter(|(replicas, _)| *replicas == found || replicas + 1 == found);
    let (replicas, said) = near.max_by_key(|(replicas, _)| *replicas)?;
    Some(format!(
        "with {} {said}. Fewer may be enough for lengths that differ: count again with --random-range-ratio",
        crate::report::counted(replicas, "replica")
    ))
}

/// Looks at a run of so many replicas.
type Looks<'a> = &'a mut dyn FnMut(u64, &Resolved, &Outcome);

/// The number, or on what else it rests; `None` where none would help.
fn counted(
    asked: &Asked<'_>,
    (rate, of_loop, knee): (f64, Option<Loop>, &Knee),
    objective: &Objective,
    precision: Precision,
    goes_on: GoesOn<'_>,
    look: Looks<'_>,
) -> Option<Counted> {
    let resolved = asked.resolved;
    let is_bursty = resolved.scenario.workload.is_bursty();
    let known = knee.points.iter().find(|point| !point.is_blind());
    // However much it is slowed down, a burst that comes at one instant meets itself: only several take it apart.
    if !is_bursty && knee.within_slo.is_none() && known.is_some_and(Point::is_hopeless) {
        return None;
    }
    let by_knee = |why: &str| knee.within_slo.map(|_| Counted::ByKnee(why.to_owned()));
    let cluster = &resolved.scenario.cluster;
    if cluster.replicas > 1 {
        return by_knee("several data-parallel servers behind a router are not modelled");
    }
    let varies = LoadKind::of_scenario(&resolved.scenario) == LoadKind::Varying;
    // The client's limit is that of all together: of several each has a part of it in flight, answers sooner, and lets more in. One has
    // all of it, and takes no less than each of them.
    let pushed = knee
        .client
        .filter(|client| client.is_within)
        .map(|client| client.rate);
    // Of bursts that they share the knee of one says little; no fewer do than can carry the mean.
    let each = match is_bursty {
        true => knee.saturation.or(knee.within_slo),
        false => knee.within_slo.or(knee.saturation),
    };
    let each = pushed.or(each);
    let guess = each.map_or(1.0, |each| rate / each.value);
    // Requests that go round in turn come to each more evenly than to one alone: several carry more than so many knees, and no more
    // than saturates them.
    let room = each
        .zip(knee.saturation)
        .map_or(1.0, |(each, saturation)| saturation.value / each.value);
    let guess = (guess / room.max(1.0).sqrt()).ceil();
    let replicas_max = if varies { OF_A_SPAN } else { OF_A_LAW };
    if guess > replicas_max as f64 && !varies {
        return by_knee("more than 1,024 at once take too long");
    }
    let Ok(pair) = of(asked.document, 2) else {
        return by_knee("this scenario cannot have several replicas");
    };
    let inside = inside_each(knee);
    let saturation = knee.saturation.filter(|_| varies);
    let mut tried = 0;
    let evaluate = |replicas: u64| {
        let many = match replicas {
            1 if of_loop.is_none() => None,
            replicas => Some(of(asked.document, replicas).ok()?),
        };
        let many = many.as_ref().unwrap_or(resolved);
        let outcome = match of_loop {
            None => long_enough(
                many,
                rate,
                objective,
                replacing(precision, inside * replicas as f64),
            ),
            Some(of_loop) => long_enough_loop(many, of_loop.number.into(), objective, precision),
        };
        tried += 1;
        if !goes_on(tried) || interrupt::is_asked() {
            return None;
        }
        look(replicas, many, &outcome);
        let mut point = judged(many, rate, objective, &outcome);
        if of_loop.is_some() {
            point.rate = point.throughput.map_or(0.0, |served| served.value);
        }
        Some(match saturation {
            Some(each) => point.shared_by(replicas, &each),
            None => point,
        })
    };
    let options = CountOptions {
        start: guess as u64,
        replicas_max,
        runs_max: RUNS,
    };
    let count = count(evaluate, &options);
    if let (CountEnding::Untold(_), false, Some(counted)) =
        (count.ending, varies, by_knee("its runs would be too long"))
    {
        return Some(counted);
    }
    let router = match count.ending {
        CountEnding::Found { replicas: 1, .. } => None,
        _ => present::router(&pair),
    };
    Some(Counted::BySimulation { router, count })
}

/// The scenario with so many replicas.
fn of(document: &Document, replicas: u64) -> Result<Resolved, Diagnostics> {
    let mut document = document.clone();
    document.set("cluster.replicas", Value::Integer(replicas as i64), "--for-rate");
    resolve(document, &Disk)
}

/// Requests inside one replica at its knee, or at the highest rate that it keeps up with.
fn inside_each(knee: &Knee) -> f64 {
    let below = knee.within_slo.map_or(f64::INFINITY, |found| found.value);
    let mut kept = knee.up_to(below).filter(|point| point.keeps_up());
    kept.find_map(|point| point.in_system).unwrap_or_default()
}

/// Engines of one replica, which are those of a data-parallel server. Where the count rests on the knee of one, that of a
/// cluster would be counted, and paid, as one.
fn engines_of_one(asker: &str, resolved: &Resolved, document: &Document) -> Result<u32, Diagnostics> {
    let cluster = &resolved.scenario.cluster;
    if resolved.servers.len() > 1 {
        let what = format!("{asker} counts replicas that are alike, and the scenario has pools");
        let help = match cluster.disaggregation.is_some() {
            true => {
                "count without -L and -S, and with one pool of each role: [cluster.prefill] and [cluster.decode], or --prefill 1 --decode 1"
            }
            false => {
                "search the knee of all pools without --for-rate, or size each pool in a scenario of its own"
            }
        };
        return Err(Diagnostic::new(what).help(help).into());
    }
    let has_several = cluster.replicas > 1 && document.get("cluster.replicas").is_some();
    if !cluster.scalers.is_empty() {
        let what = format!(
            "{asker} counts replicas that are up all the time, and an autoscaler starts and stops those of this scenario"
        );
        let help = "leave [cluster.autoscale] out of it to count them; `run` says what the autoscaler's come to, and what they cost";
        return Err(Diagnostic::new(what).help(help).into());
    }
    if has_several {
        let what = format!(
            "{asker} counts replicas, and the scenario has {} already",
            cluster.replicas
        );
        let help = "leave --replicas out, or give --replicas 1 where a file has more; the router may stay";
        return Err(Diagnostic::new(what).help(help).into());
    }
    if cluster.outages.is_some() || !cluster.changes.is_empty() {
        let help =
            "leave the failures out, count, and see by `run --replicas N` with failures whether N is enough";
        return Err(
            Diagnostic::new(format!("{asker} counts replicas that do not fail"))
                .help(help)
                .into(),
        );
    }
    Ok(cluster.replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_fleets_in_step_says_so_of_the_number_found_or_of_one_less() {
        let told = |found: u64, said: &[(u64, Option<&str>)]| {
            let said = said
                .iter()
                .map(|(replicas, said)| (*replicas, said.map(str::to_owned)));
            fewer_if_scattered(found, said.collect())
        };
        let all = [(6, Some("a")), (8, Some("b")), (9, Some("c")), (12, Some("d"))];
        assert_eq!(
            told(9, &all).as_deref(),
            Some(
                "with 9 replicas c. Fewer may be enough for lengths that differ: count again with --random-range-ratio"
            )
        );
        let near = told(9, &[(8, Some("b")), (9, None)]).unwrap();
        assert!(near.starts_with("with 8 replicas b."), "{near}");
        assert_eq!(told(9, &[(6, Some("a")), (9, None)]), None);
    }

    #[test]
    fn a_rate_that_is_next_to_nothing_is_not_sized_for() {
        let flags = |rate: f64| SizingFlags { for_rate: Some(rate) };
        for tiny in [1e-300, 1e-9] {
            let told = Diagnostics(flags(tiny).problems()).render(false);
            assert!(told.contains("less than a request in 11 days"), "{told}");
        }
        assert!(flags(1e-6).problems().is_empty());
    }
}
