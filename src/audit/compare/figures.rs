//! The figures that two results have in common, and what chance alone would move them by.

use super::{DEVIATIONS, Moved};
use crate::results::{Load, Measured, Stats};

/// Every figure that both have.
pub(super) fn figures(predicted: &Measured, measured: &Measured) -> Vec<Moved> {
    let mut found = Vec::new();
    let (a, b) = (&predicted.outcome, &measured.outcome);
    let counts = [predicted, measured].map(|row| row.outcome.completed.or(row.setup.num_prompts));
    let rates = [
        ("request throughput", a.request_throughput, b.request_throughput),
        ("output throughput", a.output_throughput, b.output_throughput),
        ("total throughput", a.total_throughput, b.total_throughput),
    ];
    for (name, one, other) in rates {
        push(
            &mut found,
            name.to_owned(),
            one,
            other,
            throughput_noise(predicted, counts),
            false,
        );
    }
    for ((name, one), (_, other)) in predicted.latencies().into_iter().zip(measured.latencies()) {
        push(
            &mut found,
            format!("mean {name}"),
            one.mean,
            other.mean,
            mean_noise(one, other, counts),
            true,
        );
        push(
            &mut found,
            format!("median {name}"),
            one.median,
            other.median,
            None,
            true,
        );
        for percent in [90.0, 95.0, 99.0] {
            let (one, other) = (one.percentile(percent), other.percentile(percent));
            push(&mut found, format!("p{percent} {name}"), one, other, None, true);
        }
    }
    found
}

fn push(
    found: &mut Vec<Moved>,
    name: String,
    one: Option<f64>,
    other: Option<f64>,
    noise: Option<f64>,
    is_time: bool,
) {
    let both = one
        .filter(|value| *value > 0.0)
        .zip(other.filter(|value| *value >= 0.0));
    if let Some((predicted, measured)) = both {
        found.push(Moved {
            name,
            predicted,
            measured,
            noise,
            is_time,
        });
    }
}

/// Two means of n requests each differ by chance by their standard errors together. Requests of one run share its
/// queue, so this is a lower bound.
fn mean_noise(one: &Stats, other: &Stats, counts: [Option<u64>; 2]) -> Option<f64> {
    let share = |stats: &Stats, count: Option<u64>| {
        let count = stats.samples.or(count).filter(|count| *count > 1)?;
        Some((stats.std? / stats.mean.filter(|mean| *mean > 0.0)?).powi(2) / count as f64)
    };
    let (one, other) = (share(one, counts[0]), share(other, counts[1]));
    if one.is_none() && other.is_none() {
        return None;
    }
    Some(DEVIATIONS * (one.unwrap_or(0.0) + other.unwrap_or(0.0)).sqrt())
}

/// Arrivals at random: n of them take n/λ within 1/√n. The closed loops and bursts have no such noise.
fn throughput_noise(predicted: &Measured, counts: [Option<u64>; 2]) -> Option<f64> {
    let Load::Open { .. } = predicted.setup.load else {
        return None;
    };
    let share = |count: Option<u64>| count.filter(|count| *count > 0).map(|count| 1.0 / count as f64);
    Some(DEVIATIONS * (share(counts[0])? + share(counts[1])?).sqrt())
}
