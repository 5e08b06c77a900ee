//! Sweeps over the traffic itself, of which what serves the lightest load is no better for it.
//!
//! Law: settings are held against each other at one and the same traffic, the heaviest that any of them carries. Where nothing but
//! the traffic differs none is ranked: the heaviest that is carried is named, and outputs and latencies are ranges. Left out: how
//! settings compare at lighter loads, which the table has.

use super::lowest::LATENCIES;
use super::{Labels, Noise, Setting, among, is_served, mean_of, most, named, seeds, spread};
use crate::config::axes::sets_traffic;
use crate::report::figures::{significant, time};
use crate::sweep::Candidate;

/// Loads that differ by less in tokens per second, prompts and outputs, are equally heavy.
const HEAVIER: f64 = 0.05;

/// A traffic, and what was tried with it.
pub(super) struct Load<'r, 's> {
    /// What is sent.
    traffic: Labels,
    /// How many settings it was sent to.
    tried: usize,
    /// Those that it is compared of, without what is sent, and what they served.
    settings: Vec<(Setting<'r, 's>, Option<Candidate>)>,
}

/// The loads of a sweep in which they differ, in their order; `None` of one that sends the same to all.
pub(super) fn by_load<'r, 's>(
    tried: &[Setting<'r, 's>],
    ranked: &[Setting<'r, 's>],
    candidates: &[Option<Candidate>],
) -> Option<Vec<Load<'r, 's>>> {
    let axes = tried.first()?.0.iter().map(|(axis, _)| axis);
    let is_load = |axis: &&String| sets_traffic(axis) && !is_length_of_a_run(axis);
    let traffic: Vec<String> = axes.filter(is_load).cloned().collect();
    let parts = |(labels, _): &Setting<'_, '_>| -> (Labels, Labels) {
        let labels = labels.iter().cloned();
        labels.partition(|(axis, _)| traffic.contains(axis))
    };
    let mut loads: Vec<Load<'r, 's>> = Vec::new();
    let is_simulated = |(_, runs): &&Setting<'_, '_>| runs.iter().any(|run| run.is_simulated());
    for setting in tried.iter().filter(is_simulated) {
        let (own, _) = parts(setting);
        match loads.iter_mut().find(|load| load.traffic == own) {
            Some(load) => load.tried += 1,
            None => loads.push(Load {
                traffic: own,
                tried: 1,
                settings: Vec::new(),
            }),
        }
    }
    for (setting, candidate) in ranked.iter().zip(candidates) {
        let (own, rest) = parts(setting);
        if let Some(load) = loads.iter_mut().find(|load| load.traffic == own) {
            load.settings.push(((rest, setting.1.clone()), *candidate));
        }
    }
    (loads.len() > 1).then_some(loads)
}

/// The last key of an axis, as files spell it: of `--num-prompts` and `workload.num_prompts` the same.
fn key(axis: &str) -> String {
    let last = axis.rsplit('.').next().unwrap_or(axis);
    last.trim_start_matches('-').replace('-', "_")
}

/// Whether an axis says how long is sent, and not what.
fn is_length_of_a_run(axis: &str) -> bool {
    matches!(key(axis).as_str(), "num_prompts" | "duration")
}

/// Whether loads differ in rate alone, so that the heavier is the faster.
fn by_rate(traffic: &Labels) -> bool {
    traffic.iter().all(|(axis, _)| key(axis) == "request_rate")
}

/// Whether the heaviest is heavier than the lightest by more than noise; one that nothing stands beside is.
fn is_heavier(weights: &[f64], noise: Noise) -> bool {
    let few = match noise {
        Noise::Number(part) => part,
        Noise::Intervals | Noise::Little => 0.0,
    };
    let lightest = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    weights.len() == 1 || heaviest > lightest * (1.0 + few.max(HEAVIER))
}

impl<'r, 's> Load<'r, 's> {
    /// Those that meet the SLO.
    fn kept(&self) -> impl Iterator<Item = (&Setting<'r, 's>, Candidate)> {
        let kept = self.settings.iter();
        kept.filter_map(|(setting, one)| Some((setting, one.filter(|one| one.keeps)?)))
    }

    /// Tokens per second that a setting which meets the SLO serves, prompts and outputs.
    fn weight(&self) -> Option<f64> {
        let all = |((_, runs), one): (&Setting<'r, 's>, Candidate)| {
            one.output.0 + mean_of(runs, "input_throughput").unwrap_or_default()
        };
        self.kept().map(all).max_by(f64::total_cmp)
    }

    /// `by gpu = h100 alone, 3,380 tok/s`, or by how many, and which of these stands out.
    fn by_whom(&self, noise: Noise) -> String {
        let (settings, candidates): (Vec<_>, Vec<_>) =
            self.kept().map(|(setting, one)| (setting, Some(one))).unzip();
        if let ([setting], [Some(one)]) = (&settings[..], &candidates[..]) {
            let alone = if self.tried > 1 { " alone" } else { "" };
            return format!("by {}{alone}, {}", named(&setting.0), output(setting, *one));
        }
        let among = among(&settings, &candidates, "", noise);
        let number = match (settings.len(), self.tried) {
            (2, 2) => "both".to_owned(),
            (all, tried) if all == tried => format!("all {tried}"),
            (some, tried) => format!("{some} of {tried}"),
        };
        let of_these = among.strip_prefix("; ").unwrap_or(&among);
        format!("by {number} settings; of these {of_these}")
    }
}

/// What there is to say of them.
pub(super) fn told(loads: &[Load<'_, '_>], within: &str, noise: Noise) -> String {
    let weighed = loads.iter().filter_map(|load| Some((load, load.weight()?)));
    let carried: Vec<(&Load<'_, '_>, f64)> = weighed.collect();
    let Some(&(load, _)) = carried.iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return String::new();
    };
    // Where more than the rate differs it is not plain what weighs more.
    let of = if within.is_empty() { " carried" } else { within };
    let of = of.to_owned()
        + if by_rate(&load.traffic) {
            ""
        } else {
            ", in tokens in and out"
        };
    let kept = carried.iter().flat_map(|(load, _)| load.kept());
    let kept: Vec<(&Setting<'_, '_>, Candidate)> = kept.collect();
    let settings: Vec<&Setting<'_, '_>> = kept.iter().map(|(setting, _)| *setting).collect();
    let weights: Vec<f64> = carried.iter().map(|(_, weight)| *weight).collect();
    let is_heavier = is_heavier(&weights, noise);
    // Where all are unstable nothing is carried.
    let are_served = settings.iter().all(|setting| is_served(setting));
    if are_served && loads.iter().any(|load| load.tried > 1) {
        if is_heavier {
            let by = load.by_whom(noise);
            return format!("; heaviest load{of}: {}, {by}", named(&load.traffic));
        }
        let candidates: Vec<Option<Candidate>> = kept.iter().map(|(_, one)| Some(*one)).collect();
        return among(&settings, &candidates, within, noise);
    }
    // Axes may advance together: then each load has a setting of its own.
    let whole =
        |load: &Load<'_, '_>, (labels, _): &Setting<'_, '_>| [&load.traffic[..], &labels[..]].concat();
    let told = match load.kept().next() {
        Some((setting, one)) if kept.len() == 1 => {
            return most(within, one.output.0, &(whole(load, setting), setting.1.clone()));
        }
        Some((setting, one)) if is_heavier && are_served => {
            let served = output(setting, one);
            format!("; heaviest load{of}: {}, {served}", named(&whole(load, setting)))
        }
        _ => {
            let outputs = kept.iter().map(|(_, one)| one.output.0);
            let range = range(outputs, significant).unwrap_or_default();
            format!("; output{within} {range} tok/s")
        }
    };
    match are_served {
        true => told + &latencies(&settings),
        false => told,
    }
}

/// `3,380 tok/s, mean of 3 seeds`.
fn output((_, runs): &Setting<'_, '_>, one: Candidate) -> String {
    format!("{} tok/s{}", significant(one.output.0), seeds(runs))
}

/// `; TPOT p50 8.67 ms to 10.7 ms, TTFT p50 32.8 ms to 51.2 ms`.
fn latencies(settings: &[&Setting<'_, '_>]) -> String {
    let of = |&(key, name): &(&str, &str)| {
        let seconds = |(_, runs): &&Setting<'_, '_>| Some(mean_of(runs, key).filter(|ms| *ms > 0.0)? / 1e3);
        let known: Vec<f64> = settings.iter().map(seconds).collect::<Option<_>>()?;
        Some(format!("{name} {}", range(known.into_iter(), time)?))
    };
    match LATENCIES.iter().filter_map(of).collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        told => format!("; {}", told.join(", ")),
    }
}

/// `8.67 ms to 10.7 ms`, or `about 8.67 ms`.
fn range(values: impl Iterator<Item = f64>, figure: fn(f64) -> String) -> Option<String> {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        let (least, most) = ends.unwrap_or((value, value));
        Some((least.min(value), most.max(value)))
    });
    ends.map(|(least, most)| spread(least, most, figure))
}
