//! What a fitted workload does not keep, in sentences, and why its queues are other ones.
//!
//! A wait has three things in it that a fit may lose, and each is put back by itself: which lengths come when (the trace's
//! lengths shuffled over its own arrivals), the law of the lengths (the twin's over the trace's arrivals), and the arrivals.

use rand::seq::SliceRandom;

use super::describe::{Description, Dispersion, LengthSummary};
use super::fit::{CORRELATION_MAX, FittedWorkload, TWIN_SEED, copula_correlation};
use super::fit_arrivals::Rounded;
use super::hits::{HitRates, cache_size};
use super::queue::{Job, p99_wait_s};
use crate::quantity::significant;
use crate::rng::{Purpose, stream};
use crate::workload::Request;

/// A relative difference that is worth a sentence.
const WORTH: f64 = 0.1;
/// A part of a wait's change is named if it is so much of the whole, in logarithms.
const PART_MIN: f64 = 0.2;
/// Orders of the lengths that are tried.
const SHUFFLES: usize = 3;

/// What the twin does not keep.
pub(super) fn losses(fitted: &FittedWorkload, trace: &[Request], twin: &[Request]) -> Vec<String> {
    let mut losses = vec![
        "the order of requests: lengths do not drift over the day and do not depend on the hour".to_owned(),
    ];
    let tail = 100.0 / (fitted.input.len() - 1) as f64;
    losses.push(format!(
        "the shape of the tails: within the longest and shortest {tail:.0} % lengths are spread evenly, keeping their mean"
    ));
    for (name, of_trace, of_twin) in [
        ("prompts", fitted.source.input, fitted.twin.input),
        ("answers", fitted.source.output, fitted.twin.output),
    ] {
        losses.extend(lost_lengths(name, of_trace, of_twin));
    }
    if let Some(arrivals) = &fitted.arrivals {
        losses.push(format!(
            "the rate within a piece of {} s, but for gamma gaps of one shape",
            arrivals.piece_s
        ));
        losses.extend(arrivals.beyond.clone());
        losses.extend(match arrivals.rounded {
            Rounded::Nowhere => None,
            Rounded::Below(few) => Some(format!(
                "single requests in the rate: a piece with fewer than {few} has a multiple of 5"
            )),
            Rounded::Everywhere => {
                Some("single requests in the rate: each piece has a multiple of 5".to_owned())
            }
        });
        losses.extend(lost_gaps(&fitted.source, &fitted.twin));
        losses.extend(lost_bursts(&fitted.source, &fitted.twin));
        let waits = fitted.source.p99_wait_s.zip(fitted.twin.p99_wait_s);
        losses.extend(waits.and_then(|waits| lost_waits(waits, &jobs(trace), &jobs(twin))));
        if let Some(grid_s) = arrivals.grid_s {
            losses.push(format!("the {grid_s:.3} s grid of its times: the twin's are continuous, with the dispersion of counts over several ticks"));
        }
        if arrivals.folded {
            losses.push("differences between days: all were averaged onto one".to_owned());
        }
    }
    losses.extend(lost_hits(&fitted.hit_rates));
    if let Some(prefix) = &fitted.prefix {
        losses.push(format!(
            "the tree of shared prefixes: {:.0} % of the requests continue one earlier prompt, and no other continues the same",
            100.0 * prefix.probability
        ));
    }
    if let (Some(before), Some(after)) = (fitted.source.rank_correlation, fitted.twin.rank_correlation)
        && copula_correlation(before).abs() > CORRELATION_MAX
    {
        losses.push(format!(
            "how closely answers follow prompts: their rank correlation {} → {}",
            significant(before),
            significant(after)
        ));
    }
    if fitted.source.sessions.is_some() {
        losses.push("which requests belong to one conversation".to_owned());
    }
    losses
}

/// Whether two figures differ by more than is worth a sentence.
fn is_off(trace: f64, twin: f64) -> bool {
    (twin / trace - 1.0).abs() > WORTH
}

/// Lengths that a few knots do not tell: a law that jumps near its end.
fn lost_lengths(name: &str, trace: LengthSummary, twin: LengthSummary) -> Option<String> {
    let moved: Vec<String> = [
        ("mean", trace.mean, twin.mean),
        ("p50", trace.p50, twin.p50),
        ("p90", trace.p90, twin.p90),
        ("p99", trace.p99, twin.p99),
    ]
    .into_iter()
    // Of a few tokens a tenth is no token.
    .filter(|&(_, a, b)| is_off(a, b) && (a - b).abs() > 1.0)
    .map(|(which, a, b)| format!("{which} {} → {}", significant(a), significant(b)))
    .collect();
    (!moved.is_empty()).then(|| format!("the lengths of {name}: {} tokens", moved.join(", ")))
}

/// How late prefixes are asked for again: what a cache that evicts finds.
fn lost_hits(rates: &[HitRates]) -> Option<String> {
    /// A share of the prompt tokens that is worth a sentence.
    const WORTH: f64 = 0.02;
    let most = rates
        .iter()
        .max_by(|a, b| a.off().abs().total_cmp(&b.off().abs()))?;
    (most.off().abs() > WORTH).then(|| {
        format!(
            "how late prefixes are asked for again: a cache of {} tokens finds {:.1} % of the trace's prompt tokens and {:.1} % of \
             the twin's",
            cache_size(most.cache_tokens),
            100.0 * most.trace,
            100.0 * most.twin
        )
    })
}

/// How regular single gaps are: shapes are fitted to counts.
fn lost_gaps(trace: &Description, twin: &Description) -> Option<String> {
    let cv = |of: &Description| of.arrivals.as_ref().and_then(|arrivals| arrivals.gap_cv);
    let (before, after) = cv(trace).zip(cv(twin)).filter(|&(a, b)| is_off(a, b))?;
    Some(format!(
        "how regular single gaps are: their coefficient of variation {} → {}",
        significant(before),
        significant(after)
    ))
}

/// By how much counts of arrivals vary less, or more, than the trace's.
fn lost_bursts(trace: &Description, twin: &Description) -> Option<String> {
    let (before, after) = (trace.arrivals.as_ref()?, twin.arrivals.as_ref()?);
    let of_twin = |a: &Dispersion| after.dispersion.iter().find(|b| b.window_s == a.window_s);
    let counts: Vec<(&Dispersion, &Dispersion)> = before
        .dispersion
        .iter()
        .filter_map(|a| Some((a, of_twin(a)?)))
        .collect();
    let shown = |(a, b): &(&Dispersion, &Dispersion)| {
        format!(
            "{} → {} over {} s",
            significant(a.index),
            significant(b.index),
            a.window_s
        )
    };
    let shown: Vec<String> = counts
        .iter()
        .any(|(a, b)| is_off(a.index, b.index))
        .then(|| counts.iter().map(shown).collect())?;
    Some(format!(
        "the shape of bursts: dispersion of counts {}",
        shown.join(", ")
    ))
}

fn jobs(requests: &[Request]) -> Vec<Job> {
    requests.iter().map(Job::from).collect()
}

/// By how much a queue feels the twin less, or more, than the trace, and what of the trace is to blame. The waits are those
/// of the trace and of the twin.
fn lost_waits((before, after): (f64, f64), trace: &[Job], twin: &[Job]) -> Option<String> {
    if !is_off(felt(before), felt(after)) {
        return None;
    }
    let mut rng = stream(TWIN_SEED, Purpose::Queue, 0);
    let mut tokens: Vec<f64> = trace.iter().map(|job| job.tokens).collect();
    let mut shuffled: Vec<f64> = (0..SHUFFLES)
        .filter_map(|_| {
            tokens.shuffle(&mut rng);
            wait_with(trace, tokens.iter().copied())
        })
        .collect();
    shuffled.sort_unstable_by(f64::total_cmp);
    let in_any_order = *shuffled.get(SHUFFLES / 2)?;
    let of_law = wait_with(trace, twin.iter().cycle().map(|job| job.tokens))?;
    let order = match in_any_order < before {
        true => "that long requests come together",
        false => "that long requests keep apart",
    };
    let whole = step(before, after);
    let mut parts = vec![
        (order, step(before, in_any_order)),
        ("the law of the lengths", step(in_any_order, of_law)),
        ("how arrivals bunch", step(of_law, after)),
    ];
    parts.retain(|(_, part)| part / whole >= PART_MIN);
    parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    let parts: Vec<&str> = parts.into_iter().map(|(what, _)| what).collect();
    Some(format!(
        "{}; behind a server that is busy 70 % of the time p99 waits {} s in the trace and {} s in the twin, and latencies \
         near saturation differ likewise",
        parts.join(", and "),
        significant(before),
        significant(after)
    ))
}

/// The wait of jobs that come as they do and are as long as others.
fn wait_with(jobs: &[Job], tokens: impl Iterator<Item = f64>) -> Option<f64> {
    let job = |(job, tokens): (&Job, f64)| Job { tokens, ..*job };
    p99_wait_s(&jobs.iter().zip(tokens).map(job).collect::<Vec<Job>>())
}

/// Below a microsecond nobody waits.
fn felt(wait_s: f64) -> f64 {
    wait_s.max(1e-6)
}

/// From one wait to the next, as a logarithm.
fn step(from: f64, to: f64) -> f64 {
    (felt(to) / felt(from)).ln()
}

#[cfg(test)]
mod tests {
    use super::super::twin;
    use super::*;

    /// Poisson arrivals, one a second: so many that another order of the lengths waits as long within a few per cent.
    fn poisson() -> Vec<f64> {
        twin::arrivals(1_000.0, &[1.0], 1.0, 200_000, 7)
    }

    /// One after the other, each as long as its number says.
    fn made(times: &[f64], tokens: impl Fn(usize) -> u32) -> Vec<Job> {
        let job = |(number, &arrival_s): (usize, &f64)| Job {
            arrival_s,
            tokens: f64::from(tokens(number)),
        };
        times.iter().enumerate().map(job).collect()
    }

    /// What is said where the twin of some jobs is others; `blamed` stands before the waits.
    fn check(trace: &[Job], twin: &[Job], blamed: Option<&str>) {
        let [before, after] = [trace, twin].map(|jobs| p99_wait_s(jobs).unwrap());
        let said = lost_waits((before, after), trace, twin);
        let causes = said
            .as_deref()
            .and_then(|said| said.split_once("; behind a server"));
        assert_eq!(causes.map(|(causes, _)| causes), blamed, "{before} s, {after} s");
    }

    #[test]
    fn a_wait_has_each_of_three_causes_alone() {
        let times = poisson();
        let long_or_short = |is_long: bool| if is_long { 5_000 } else { 100 };
        // One in five is long.
        let in_rows = made(&times, |number| long_or_short(number % 200 < 40));
        let apart = made(&times, |number| long_or_short(number.is_multiple_of(5)));
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.shuffle(&mut stream(1, Purpose::Lengths, 0));
        let mixed = made(&times, |number| long_or_short(order[number].is_multiple_of(5)));
        check(&in_rows, &mixed, Some("that long requests come together"));
        check(&apart, &mixed, Some("that long requests keep apart"));
        let alike = made(&times, |_| 1_000);
        check(&alike, &mixed, Some("the law of the lengths"));
        check(&mixed, &alike, Some("the law of the lengths"));
        let in_bunches: Vec<f64> = (0..times.len()).map(|i| 20.0 * (i / 20) as f64).collect();
        check(&made(&in_bunches, |_| 1_000), &alike, Some("how arrivals bunch"));
        check(&mixed, &mixed, None);
    }

    #[test]
    fn several_causes_are_told_the_largest_first() {
        let times = poisson();
        let in_rows = made(&times, |number| if number % 200 < 40 { 5_000 } else { 100 });
        let alike = made(&times, |_| 1_080);
        check(
            &in_rows,
            &alike,
            Some("that long requests come together, and the law of the lengths"),
        );
    }

    #[test]
    fn hits_are_lost_where_some_cache_finds_more_or_less() {
        let rates = |twin| {
            [(1_000_000, 0.3, 0.31), (2_000_000, 0.4, twin)].map(|(cache_tokens, trace, twin)| HitRates {
                cache_tokens,
                trace,
                twin,
            })
        };
        assert_eq!(lost_hits(&rates(0.415)), None);
        assert_eq!(lost_hits(&[]), None);
        let said = lost_hits(&rates(0.35)).unwrap();
        assert!(
            said.ends_with("of 2M tokens finds 40.0 % of the trace's prompt tokens and 35.0 % of the twin's"),
            "{said}"
        );
    }

    #[test]
    fn waits_that_nobody_feels_are_alike() {
        let evenly: Vec<f64> = (0..1_000u32).map(f64::from).collect();
        let jobs = made(&evenly, |_| 1_000);
        for waits in [(0.0, 0.0), (0.0, 5e-7), (9e-7, 1e-8)] {
            assert_eq!(lost_waits(waits, &jobs, &jobs), None, "{waits:?}");
        }
    }
}
