//! The patterns by which moves have causes, in the order in which they are tried.

use super::super::case::Case;
use super::super::finding::{show, time};
use super::chance::Length;
use super::definition::{of_steps, of_throughput};
use super::first_token::first_token;
use super::lengths::other_lengths;
use super::said::{other_load, setups};
use super::settings;
use super::steps::steps;
use super::{Cause, Comparison, Roles};
use crate::results::{Load, Measured, Stats};

/// What explains the moves, the surest first.
pub(super) fn causes(predicted: &Measured, measured: &Measured, comparison: &Comparison) -> Vec<Cause> {
    if comparison.largest().is_none() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let (setup, is_other_machine) = setups(predicted, measured).unzip();
    found.extend(setup);
    found.extend(other_run(predicted, measured));
    let is_decided = settings::decide_all(&predicted.setup, &measured.setup) && !found.is_empty();
    let is_other_load = found.iter().any(|cause| cause.kind == "load");
    if is_other_machine == Some(true) || is_other_load || is_decided {
        return found;
    }
    if let Some(units) = other_unit(comparison) {
        found.push(units);
        return found;
    }
    // Columns of two workloads that are unlike agree by chance only.
    if !found.iter().any(|cause| cause.kind == "lengths") {
        let of = comparison.roles.owners();
        let either = other_definition([predicted, measured], of)
            .or_else(|| other_definition([measured, predicted], [of[1], of[0]]))
            .or_else(|| of_steps(measured, comparison));
        found.extend(either);
        found.extend(of_throughput([predicted, measured], comparison));
    }
    if found.iter().any(|cause| cause.kind == "definition") {
        return found;
    }
    found.extend(client_limit(predicted, measured, comparison.roles));
    found.extend(steps(predicted, measured, comparison));
    found.extend(first_token(predicted, measured, comparison));
    found.extend(throughput(comparison));
    found
}

/// Loads or lengths that differ explain more than any model of a server.
fn other_run(predicted: &Measured, measured: &Measured) -> Vec<Cause> {
    let (a, b) = (&predicted.setup, &measured.setup);
    let mut found = Vec::new();
    if let Some(load) = other_load(a, b) {
        found.push(Cause {
            kind: "load",
            words: format!("not the same {load}"),
        });
    }
    let step = predicted.tpot.centre().unwrap_or(0.0);
    for other in other_lengths(predicted, measured) {
        let [one, longer] = other.means;
        let is_of_steps = other.which == Length::Answer && step > 0.0;
        let more = is_of_steps.then(|| format!(", {} of e2el each", time(((longer - one) * step).abs())));
        let by_chance = match other.is_by_chance {
            true => ", which lengths drawn at random may do",
            false => "",
        };
        found.push(Cause {
            kind: "lengths",
            words: other.words() + by_chance + &more.unwrap_or_default(),
        });
    }
    found
}

/// Times that are all about a thousand times as long, or a thousandth, are the same times in another unit.
fn other_unit(comparison: &Comparison) -> Option<Cause> {
    const THOUSAND: f64 = 1e3;
    /// How far a factor may be from it.
    const NEAR: f64 = 3.0;
    let times: Vec<f64> = comparison
        .figures
        .iter()
        .filter(|figure| figure.is_time && figure.predicted > 0.0 && figure.measured > 0.0)
        .map(|figure| figure.measured / figure.predicted)
        .collect();
    let is_near = |factor: f64| move |ratio: &f64| (factor / NEAR..=factor * NEAR).contains(ratio);
    let (longer, shorter) = match times.is_empty() {
        true => return None,
        false => (
            times.iter().all(is_near(THOUSAND)),
            times.iter().all(is_near(1.0 / THOUSAND)),
        ),
    };
    let which = match (longer, shorter) {
        (true, _) => {
            "a thousand times those of the first: the first may be in seconds, where milliseconds are read"
        }
        (_, true) => {
            "a thousandth of those of the first: the second may be in seconds, where milliseconds are read"
        }
        _ => return None,
    };
    Some(Cause {
        kind: "units",
        words: format!("the times of the second result are about {which}"),
    })
}

/// A column that agrees with another one of the other result, or of its own, is that other thing; `names` are those of both.
fn other_definition([sound, row]: [&Measured; 2], [theirs, own_name]: [&str; 2]) -> Option<Cause> {
    let near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.1;
    let centre = |stats: &Stats| stats.centre().filter(|value| *value > 0.0);
    let (first, whole) = (centre(&sound.ttft), centre(&sound.e2el));
    let definition = |words: String| {
        Some(Cause {
            kind: "definition",
            words,
        })
    };
    if let (Some(first), Some(whole), Some(ttft)) = (first, whole, centre(&row.ttft))
        && near(ttft, whole)
        && ttft > 2.0 * first
        && centre(&row.e2el).is_none_or(|own| near(ttft, own))
    {
        return definition(format!(
            "the {own_name} ttft {} is the {theirs} e2el {}: the column is the whole answer",
            time(ttft),
            time(whole)
        ));
    }
    let (step, gap) = (centre(&sound.tpot), centre(&row.itl));
    if let (Some(step), Some(gap), Some(own)) = (step, gap, centre(&row.tpot))
        && near(own, step)
        && near(2.0 * gap, step)
        && !centre(&sound.itl).is_some_and(|theirs| near(theirs, gap))
    {
        return definition(format!(
            "the {own_name} itl is half of its own tpot: empty chunks are counted beside every token"
        ));
    }
    // Each result by its own times: of another run the same time per token may be right.
    let [odd, others] = [row, sound].map(|row| Case::new(row, None).tpot_with_first());
    let odd = odd.filter(|_| others.is_none())?;
    definition(format!(
        "the {own_name} tpot {} is latency over tokens, {} / {}: it counts the first token, and without that is {}",
        time(odd.tpot),
        time(odd.whole),
        show(odd.tokens),
        time(odd.sound)
    ))
}

/// Fewer in flight than in the first result, and slower: the client kept requests back.
fn client_limit(predicted: &Measured, measured: &Measured, roles: Roles) -> Option<Cause> {
    let open = matches!(measured.setup.load, Load::Open { .. } | Load::Burst);
    let (one, other) = (Case::new(predicted, None), Case::new(measured, None));
    let (expected, is) = (one.in_flight()?, other.in_flight()?);
    let rates = one.throughput()?.value / other.throughput()?.value;
    let fewer = is.value * (1.0 + is.slack) < 0.8 * expected.low();
    (open && fewer && rates > 1.05).then(|| Cause {
        kind: "client-limit",
        words: format!(
            "{} in flight ({}) where {} were {}, at lower throughput: a limit of the client",
            show(is.value),
            is.how,
            show(expected.value),
            roles.than()
        ),
    })
}

/// Throughput alone: latencies agree, so the run's edges do not.
fn throughput(comparison: &Comparison) -> Option<Cause> {
    let rate = comparison
        .figure("request throughput")
        .or_else(|| comparison.figure("output throughput"))?;
    let times_moved = comparison
        .figures
        .iter()
        .any(|figure| figure.is_time && figure.is_real());
    (rate.is_real() && !times_moved).then(|| Cause {
        kind: "run-edges",
        words: format!(
            "{} moved by {:+.0} % and no latency did: another length of run, ramp, drain, failed requests or idle time",
            rate.name,
            100.0 * rate.change()
        ),
    })
}
