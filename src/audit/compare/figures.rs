//! The figures that two results have in common, and what chance alone would move them by.

use super::Moved;
use super::chance::{Chance, Of};
use crate::results::Measured;

/// Every figure that both have.
pub(super) fn figures(predicted: &Measured, measured: &Measured, chances: &[Chance<'_>; 2]) -> Vec<Moved> {
    let mut found = Vec::new();
    let (a, b) = (&predicted.outcome, &measured.outcome);
    for (key, one, other) in [
        ("request", a.request_throughput, b.request_throughput),
        ("output", a.output_throughput, b.output_throughput),
        ("total", a.total_throughput, b.total_throughput),
    ] {
        let noise = together(chances, |chance| chance.of_rate(key, key != "request"));
        found.extend(moved(format!("{key} throughput"), one, other, noise));
    }
    for ((name, one), (_, other)) in predicted.latencies().into_iter().zip(measured.latencies()) {
        let noise = |of: Of| together(chances, |chance| chance.of_latency(name, of));
        let mean = moved(format!("mean {name}"), one.mean, other.mean, noise(Of::Mean));
        found.extend(mean.map(|mean| Moved {
            is_time: true,
            ..mean
        }));
        for percent in [50.0, 90.0, 95.0, 99.0] {
            let called = match percent {
                50.0 => format!("median {name}"),
                percent => format!("p{percent} {name}"),
            };
            let (one, other) = (one.percentile(percent), other.percentile(percent));
            let few = [predicted, measured].map(|row| too_few(row, name, percent));
            let percentile = moved(called, one, other, noise(Of::Percentile(percent)));
            let jump = chances
                .each_ref()
                .map(|chance| chance.jump(name, Of::Percentile(percent)));
            found.extend(percentile.map(|percentile| Moved {
                is_time: true,
                jump: jump[0].max(jump[1]),
                few: few.into_iter().flatten().min(),
                ..percentile
            }));
        }
    }
    found
}

/// How many requests a percentile is of, if none of them lies beyond it. Gaps are many, however few the requests.
fn too_few(row: &Measured, name: &str, percent: f64) -> Option<u64> {
    let requests = row.outcome.completed.or(row.setup.num_prompts)?;
    let beyond = requests as f64 * (1.0 - percent / 100.0);
    (name != "itl" && percent > 50.0 && beyond < 1.0 - 1e-9).then_some(requests)
}

/// Chance of the logarithm of a ratio: both results' relative ones together. One that says nothing of its own is taken to be as uncertain as the other.
fn together(chances: &[Chance<'_>; 2], of: impl Fn(&Chance<'_>) -> Option<f64>) -> Option<f64> {
    let [one, other] = [of(&chances[0]), of(&chances[1])];
    let (one, other) = (one.or(other)?, other.or(one)?);
    Some(one.hypot(other))
}

fn moved(name: String, predicted: Option<f64>, measured: Option<f64>, noise: Option<f64>) -> Option<Moved> {
    Some(Moved {
        name,
        predicted: predicted.filter(|value| *value > 0.0)?,
        measured: measured.filter(|value| *value >= 0.0)?,
        noise,
        widening: 1.0,
        jump: 0.0,
        is_time: false,
        few: None,
        foretold: None,
    })
}
