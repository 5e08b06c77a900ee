//! Sweeps over the traffic itself, of which what serves the lightest load is no better for it.
//!
//! Law: settings are held against each other at one and the same traffic, the heaviest that any of them carries: that of the most
//! tokens or, of as many, of the least regular arrivals and the most users. Where nothing but the traffic differs none is ranked:
//! the heaviest that is carried is named, and latencies are ranges. Left out: how settings compare at lighter loads, which the table
//! has. A client's limit on what is in flight is a setting like those of a server: of such a loop the output is the answer.

use super::lowest::LATENCIES;
use super::setting::{self, Labels, Setting, named};
use super::{Noise, Told, among, spread};
use crate::config::axes::sets_traffic;
use crate::report::figures::{significant, time};
use crate::report::sweep_layout::is_named;

/// Loads that differ by less in tokens per second, prompts and outputs, are as many tokens.
const HEAVIER: f64 = 0.05;

/// Axes that say by themselves which load is heavier, those that decide between as many tokens first; of the less the more where
/// that is `true`.
const ORDERED: [(&str, bool); 3] = [("burstiness", true), ("users", false), ("request_rate", false)];

/// A traffic, and what was tried with it.
struct Load<'r, 's> {
    /// What is sent.
    traffic: Labels,
    /// How many settings it was sent to.
    tried: usize,
    /// Those of them that are asked for, without what is sent.
    kept: Vec<Setting<'r, 's>>,
}

/// The heaviest load that settings of those that are `asked` for carry, and which of them is best at it; `None` where all of the
/// sweep are sent the same, and where they are to be held against each other whatever they are sent.
pub(super) fn heaviest<'r, 's>(
    tried: &[Setting<'r, 's>],
    asked: &[Setting<'r, 's>],
    within: &str,
    noise: Noise,
) -> Option<Told<'r, 's>> {
    let loads = loads(tried, asked);
    let carried: Vec<&Load<'_, '_>> = loads.iter().filter(|load| !load.kept.is_empty()).collect();
    if loads.len() < 2 || carried.is_empty() {
        return None;
    }
    let kept = || carried.iter().flat_map(|load| &load.kept);
    if !kept().all(Setting::is_served) {
        let told = among(&asked.iter().collect::<Vec<_>>(), within, noise);
        return Some(Told {
            text: "; no load is carried".to_owned() + &told.text,
            ..told
        });
    }
    let are_alone = loads.iter().all(|load| load.tried == 1);
    let told = match the_heaviest(&carried, noise) {
        Some(load) => load.told(within, noise),
        None if !are_alone => return None,
        None => {
            let outputs = kept().filter_map(|setting| Some(setting.kept()?.output.0));
            let range = range(outputs, significant).unwrap_or_default();
            Told {
                text: format!("; output{within} {range} tok/s"),
                beside: String::new(),
                runs: kept().flat_map(|setting| setting.runs.clone()).collect(),
            }
        }
    };
    Some(match are_alone {
        true => Told {
            beside: latencies(&kept().collect::<Vec<_>>()),
            ..told
        },
        false => told,
    })
}

/// The loads of a sweep, in their order.
fn loads<'r, 's>(tried: &[Setting<'r, 's>], asked: &[Setting<'r, 's>]) -> Vec<Load<'r, 's>> {
    let is_load = |axis: &&str| {
        let is_other = ["num_prompts", "duration", "max_concurrency"];
        sets_traffic(axis) && !is_other.iter().any(|key| is_named(axis, key))
    };
    let parts = setting::parted(tried.first().map(|first| &first.labels[..]), is_load);
    let parts = |setting: &Setting<'_, '_>| parts(&setting.labels);
    let mut loads: Vec<Load<'r, 's>> = Vec::new();
    for setting in tried
        .iter()
        .filter(|setting| setting.simulated().next().is_some())
    {
        let (traffic, _) = parts(setting);
        match loads.iter_mut().find(|load| load.traffic == traffic) {
            Some(load) => load.tried += 1,
            None => loads.push(Load {
                traffic,
                tried: 1,
                kept: Vec::new(),
            }),
        }
    }
    for setting in asked.iter().filter(|setting| setting.kept().is_some()) {
        let (traffic, labels) = parts(setting);
        if let Some(load) = loads.iter_mut().find(|load| load.traffic == traffic) {
            load.kept.push(Setting {
                labels,
                ..setting.clone()
            });
        }
    }
    loads
}

/// The one that is heavier than others, or the only one.
fn the_heaviest<'l, 'r, 's>(carried: &[&'l Load<'r, 's>], noise: Noise) -> Option<&'l Load<'r, 's>> {
    let few = match noise {
        Noise::Number(part) => part,
        Noise::Intervals | Noise::Little => 0.0,
    };
    let most = carried.iter().map(|load| load.tokens_per_s()).fold(0.0, f64::max);
    let has_most = |load: &&&Load<'_, '_>| load.tokens_per_s() * (1.0 + few.max(HEAVIER)) >= most;
    let most: Vec<&Load<'r, 's>> = carried.iter().filter(has_most).copied().collect();
    let heaviest = *most.iter().max_by(|a, b| {
        let by_order = a.order().partial_cmp(&b.order());
        let by_tokens = a.tokens_per_s().total_cmp(&b.tokens_per_s());
        by_order.unwrap_or(std::cmp::Ordering::Equal).then(by_tokens)
    })?;
    let is_told = carried.len() == 1
        || most.len() < carried.len()
        || most.iter().any(|load| load.order() != heaviest.order());
    is_told.then_some(heaviest)
}

impl<'r, 's> Load<'r, 's> {
    /// Tokens per second that a setting which carries it serves, prompts and outputs.
    fn tokens_per_s(&self) -> f64 {
        let all = |setting: &Setting<'_, '_>| {
            let prompts = setting.mean(|run| run.figure("input_throughput"));
            Some(setting.kept()?.output.0 + prompts.unwrap_or_default())
        };
        self.kept.iter().filter_map(all).fold(0.0, f64::max)
    }

    /// What its [`ORDERED`] axes say, the heavier the greater.
    fn order(&self) -> [f64; ORDERED.len()] {
        ORDERED.map(|(key, is_less_more)| {
            let mut axes = self.traffic.iter();
            let value = axes.find(|(axis, _)| is_named(axis, key));
            let value: f64 = value.map_or(0.0, |(_, value)| value.parse().unwrap_or_default());
            if is_less_more { -value } else { value }
        })
    }

    /// `; heaviest load carried: request-rate = 8, by gpu = h100 alone, 3,380 tok/s`, or by how many, and which of these stands out.
    fn told(&self, within: &str, noise: Noise) -> Told<'r, 's> {
        let is_ordered = |(axis, _): &(String, String)| ORDERED.iter().any(|(key, _)| is_named(axis, key));
        // Where more than that differs it is not plain what is heavier.
        let (measure, of_output) = match self.traffic.iter().all(is_ordered) {
            true => (String::new(), ""),
            false => {
                let all = significant(self.tokens_per_s());
                (format!(", {all} tok/s in and out"), " of output")
            }
        };
        // What a client sends as it is answered is carried by any server.
        let mut runs = self.kept.iter().flat_map(|setting| &setting.runs);
        let carried = match within.is_empty() && runs.all(|run| run.is_open_loop()) {
            true => " carried",
            false => "",
        };
        let by_whom = self.by_whom(of_output, noise);
        Told {
            text: format!(
                "; heaviest load{within}{carried}{measure}: {}, {}",
                named(&self.traffic),
                by_whom.text
            ),
            ..by_whom
        }
    }

    fn by_whom(&self, of_output: &str, noise: Noise) -> Told<'r, 's> {
        if let [setting] = &self.kept[..] {
            let alone = if self.tried > 1 { " alone" } else { "" };
            let by = match named(&setting.labels) {
                none if none.is_empty() => none,
                labels => format!("by {labels}{alone}, "),
            };
            let output = setting.kept().map_or(0.0, |one| one.output.0);
            return Told {
                text: format!("{by}{} tok/s{of_output}{}", significant(output), setting.seeds()),
                beside: String::new(),
                runs: setting.runs.clone(),
            };
        }
        let number = match (self.kept.len(), self.tried) {
            (2, 2) => "both".to_owned(),
            (all, tried) if all == tried => format!("all {tried}"),
            (some, tried) => format!("{some} of {tried}"),
        };
        let among = among(&self.kept.iter().collect::<Vec<_>>(), "", noise);
        let of_these = among.text.strip_prefix("; ").unwrap_or(&among.text);
        Told {
            text: format!("by {number} settings; of these {of_these}"),
            ..among
        }
    }
}

/// `; TPOT p50 8.67 ms to 10.7 ms, TTFT p50 32.8 ms to 51.2 ms`.
fn latencies(settings: &[&Setting<'_, '_>]) -> String {
    let of = |&(key, name): &(&str, &str)| {
        let seconds = |setting: &&Setting<'_, '_>| {
            let mean = setting.mean(|run| run.figure(key));
            Some(mean.filter(|ms| *ms > 0.0)? / 1e3)
        };
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
