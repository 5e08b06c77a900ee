//! Which settings have the lowest latencies, and which is cheapest, where all serve what they are offered and output tells nothing.
//!
//! Law: latencies are told apart by their own intervals, or by how far seeds lie apart, and never by less than what is no
//! difference of outputs, either. Left out: runs without either, of which one latency is as good as another, and tails.

use super::setting::{Setting, pooled};
use super::{ALIKE_WITHIN, spread};
use crate::report::figures::{counted, time};
use crate::report::sweep::SweepRow;
use crate::report::text_sizing::dollars;
use crate::sweep::{self, Best, Candidate};

/// The latencies: keys, and names for people, as the table's columns have them.
pub(super) const LATENCIES: [(&str, &str); 2] =
    [("median_tpot_ms", "TPOT p50"), ("median_ttft_ms", "TTFT p50")];

/// What there is to say of a latency.
struct Told {
    /// `TPOT p50 4.35 ms`, the figure with its name.
    figure: String,
    /// Which setting has it; `None` where all are alike.
    index: Option<usize>,
    /// What chance leaves open.
    beside: String,
}

/// `; lowest TPOT p50 4.35 ms at spec-tokens = 3`: of settings that all serve their open loops, whose outputs are alike.
pub(super) fn lowest(settings: &[&Setting<'_, '_>]) -> String {
    let is_carried = |setting: &&Setting<'_, '_>| setting.runs.iter().all(|run| run.is_carried());
    if settings.len() < 2 || !settings.iter().all(is_carried) {
        return String::new();
    }
    let told: Vec<Told> = (LATENCIES.iter())
        .filter_map(|&(key, name)| told(settings, key, name))
        .collect();
    let place = |index: usize| settings[index].at();
    match &told[..] {
        [a, b] if a.index.is_some() && a.index == b.index && a.beside.is_empty() && b.beside.is_empty() => {
            let place = a.index.map(place).unwrap_or_default();
            format!("; lowest {} and {}{place}", a.figure, b.figure)
        }
        all => (all.iter())
            .map(|one| match one.index {
                Some(index) => format!("; lowest {}{}{}", one.figure, place(index), one.beside),
                None => format!("; {}{}", one.figure, one.beside),
            })
            .collect(),
    }
}

/// Why no latency of theirs is ranked, where they are sent at a rate of their own and are too short, or end, before a steady stretch.
pub(super) fn unranked(settings: &[&Setting<'_, '_>]) -> String {
    let runs = || settings.iter().flat_map(|setting| &setting.runs);
    let has_none = |run: &&SweepRow<'_>| !LATENCIES.iter().any(|(key, _)| run.interval(key).is_some());
    match settings.len() > 1 && runs().all(|run| run.is_open_loop()) && runs().any(has_none) {
        true => "; latencies are not ranked: runs without a steady stretch have no intervals".to_owned(),
        false => String::new(),
    }
}

/// `; cheapest 3.11 $/h at target = 16`: of settings whose outputs are alike and whose costs are not.
pub(super) fn cheapest(settings: &[&Setting<'_, '_>]) -> String {
    let of = |run: &SweepRow<'_>| run.named("usd_per_hour").filter(|usd| *usd > 0.0);
    let mean = |setting: &&Setting<'_, '_>| setting.mean(of);
    let costs: Option<Vec<f64>> = settings.iter().map(mean).collect();
    let costs = costs.unwrap_or_default();
    let cheapest = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
    let most = costs.iter().copied().fold(0.0, f64::max);
    match cheapest.filter(|&at| costs[at] * (1.0 + ALIKE_WITHIN) < most) {
        None => String::new(),
        Some(index) => {
            let least = costs[index] * (1.0 + ALIKE_WITHIN);
            let others = costs.iter().filter(|cost| **cost <= least).count() - 1;
            let others = match others {
                0 => String::new(),
                others => format!(" ({} within 1 % of it)", counted(others as u64, "other")),
            };
            let usd = dollars(costs[index]);
            format!("; cheapest {usd} $/h{}{others}", settings[index].at())
        }
    }
}

/// One latency of all settings; `None` unless of each more is known than one figure.
fn told(settings: &[&Setting<'_, '_>], key: &str, name: &str) -> Option<Told> {
    let known = |setting: &&Setting<'_, '_>| seconds(&setting.runs, key);
    let known: Vec<(f64, f64, f64)> = settings.iter().map(known).collect::<Option<_>>()?;
    // What takes least time has the highest rate.
    let rates: Vec<Option<Candidate>> = (known.iter())
        .map(|(value, low, high)| {
            let output = (1.0 / value, 1.0 / high, 1.0 / low);
            Some(Candidate { output, keeps: true })
        })
        .collect();
    let figure = |seconds: f64| format!("{name} {}", time(seconds));
    Some(match sweep::best(&rates) {
        Best::NoneKeeps => return None,
        Best::Alike { least, most } => Told {
            figure: format!(
                "{name} alike within noise, {}",
                spread(1.0 / most, 1.0 / least, time)
            ),
            index: None,
            beside: String::new(),
        },
        Best::Overlapping {
            index, tokens_per_s, ..
        } => Told {
            figure: figure(1.0 / tokens_per_s),
            index: Some(index),
            beside: ", though the runs' intervals overlap".to_owned(),
        },
        Best::One {
            index,
            tokens_per_s,
            within_noise,
        } => Told {
            figure: figure(1.0 / tokens_per_s),
            index: Some(index),
            beside: match within_noise {
                0 => String::new(),
                others => format!(" ({} within noise of it)", counted(others as u64, "other")),
            },
        },
    })
}

/// A latency of the runs of a setting as one, with its 95 % interval, in seconds.
fn seconds(runs: &[&SweepRow<'_>], key: &str) -> Option<(f64, f64, f64)> {
    let of = |run: &&SweepRow<'_>| {
        // Of answers that leave whole there are no gaps.
        let value = run.figure(key).filter(|value| *value > 0.0)?;
        let (low, high) = match run.interval(key) {
            None if runs.len() < 2 => return None,
            interval => interval.unwrap_or((value, value)),
        };
        Some((value / 1e3, low / 1e3, high / 1e3))
    };
    let known: Vec<(f64, f64, f64)> = runs.iter().map(of).collect::<Option<_>>()?;
    let (value, low, high) = pooled(&known)?;
    let least = ALIKE_WITHIN / 2.0 * value;
    Some((value, low.min(value - least).max(least), high.max(value + least)))
}
