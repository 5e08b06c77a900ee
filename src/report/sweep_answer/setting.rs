//! A setting of a sweep: what was set, and what the runs that have it serve.

use super::ALIKE_WITHIN;
use crate::analysis::CONFIDENCE;
use crate::report::figures::counted;
use crate::report::sweep::SweepRow;
use crate::report::sweep_layout::is_named;
use crate::stats::{Running, student_t};
use crate::sweep::Candidate;

/// Axes and values.
pub(in crate::report) type Labels = Vec<(String, String)>;

/// Runs that differ in their seed alone.
#[derive(Clone, Debug)]
pub(in crate::report) struct Setting<'r, 's> {
    /// What was set, without the seed.
    pub(in crate::report) labels: Labels,
    pub(in crate::report) runs: Vec<&'r SweepRow<'s>>,
    /// What they serve as one, and whether that is what is asked for: within the SLO. `None` where none has an output.
    pub(in crate::report) served: Option<Candidate>,
}

impl<'r, 's> Setting<'r, 's> {
    /// What it serves, where it is one of those that are asked for.
    pub(in crate::report) fn kept(&self) -> Option<Candidate> {
        self.served.filter(|one| one.keeps)
    }

    /// Whether no run of it is unstable.
    pub(in crate::report) fn is_served(&self) -> bool {
        !self.runs.iter().any(|run| run.is_unstable())
    }

    /// The runs that were made.
    pub(in crate::report) fn simulated(&self) -> impl Iterator<Item = &'r SweepRow<'s>> {
        self.runs.iter().copied().filter(|run| run.is_simulated())
    }

    /// Whether it surely meets the SLO, or has none to meet.
    pub(in crate::report) fn surely_meets(&self) -> bool {
        self.simulated().all(|run| run.keeps() && !run.is_open())
    }

    /// Whether it may meet the SLO, which is not decided.
    pub(in crate::report) fn may_meet(&self) -> bool {
        self.simulated().any(SweepRow::is_open) && self.simulated().all(|run| run.is_open() || run.keeps())
    }

    /// The same setting as one of those of which the SLO is not decided and that serve more than `sure`.
    pub(in crate::report) fn if_more_and_undecided(&self, sure: f64) -> Setting<'r, 's> {
        let keeps = self.may_meet();
        let more = self.served.filter(|one| one.output.1 > sure);
        Setting {
            served: more.map(|one| Candidate { keeps, ..one }),
            ..self.clone()
        }
    }

    /// A figure's mean over runs that differ in their seed; `None` unless all have it.
    pub(in crate::report) fn mean(&self, figure: impl Fn(&SweepRow<'_>) -> Option<f64>) -> Option<f64> {
        let known: Vec<f64> = self.runs.iter().map(|run| figure(run)).collect::<Option<_>>()?;
        Some(known.iter().sum::<f64>() / known.len() as f64)
    }

    /// ` at rate = 4, gpu = h100`; nothing where nothing was set.
    pub(in crate::report) fn at(&self) -> String {
        match named(&self.labels) {
            none if none.is_empty() => none,
            parts => format!(" at {parts}"),
        }
    }

    /// `, mean of 3 seeds`; nothing of one.
    pub(in crate::report) fn seeds(&self) -> String {
        match self.runs.len() {
            1 => String::new(),
            seeds => format!(", mean of {}", counted(seeds as u64, "seed")),
        }
    }
}

/// `rate = 4, gpu = h100`.
pub(in crate::report) fn named(labels: &[(String, String)]) -> String {
    let parts = labels.iter().map(|(axis, value)| format!("{axis} = {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// Parts the labels of a setting into those of axes that do something and the rest, by the axes of the `first`: what an axis does is
/// asked once.
pub(in crate::report) fn parted(
    first: Option<&[(String, String)]>,
    does: impl Fn(&&str) -> bool,
) -> impl Fn(&[(String, String)]) -> (Labels, Labels) {
    let axes = first.into_iter().flatten().map(|(axis, _)| axis.as_str());
    let axes: Vec<String> = axes.filter(does).map(str::to_owned).collect();
    move |labels| labels.iter().cloned().partition(|(axis, _)| axes.contains(axis))
}

/// The settings of a sweep, in their order.
pub(in crate::report) fn apart_from_seeds<'r, 's>(rows: &'r [SweepRow<'s>]) -> Vec<Setting<'r, 's>> {
    let mut settings: Vec<Setting<'_, '_>> = Vec::new();
    for row in rows {
        let is_seed = |label: &&(String, String)| is_named(&label.0, "seed");
        let seeds = |row: &SweepRow<'s>| -> Vec<String> {
            let seeds = row.settings.iter().filter(is_seed);
            seeds.map(|(_, seed)| seed.clone()).collect()
        };
        let labels: Labels = row.settings.iter().filter(|set| !is_seed(set)).cloned().collect();
        let is_its = |setting: &&mut Setting<'r, 's>| {
            setting.labels == labels && setting.runs.iter().all(|run| seeds(run) != seeds(row))
        };
        match settings.iter_mut().find(is_its) {
            Some(setting) => setting.runs.push(row),
            None => settings.push(Setting {
                labels,
                runs: vec![row],
                served: None,
            }),
        }
    }
    for setting in &mut settings {
        let known: Vec<(f64, f64, f64)> = setting.runs.iter().filter_map(|run| run.output()).collect();
        let keeps = setting.surely_meets();
        setting.served = pooled(&known).map(|output| Candidate { output, keeps });
    }
    settings
}

/// The mean of a figure over runs that differ in their seed, least and most, by the runs' own intervals where all have one, else
/// by how far the runs lie apart; of one run without an interval, by [`ALIKE_WITHIN`].
pub(in crate::report) fn pooled(known: &[(f64, f64, f64)]) -> Option<(f64, f64, f64)> {
    let number = known.len() as f64;
    let mut means = Running::default();
    known.iter().for_each(|(value, ..)| means.add(*value));
    let have_intervals = known.iter().all(|(_, low, high)| high > low);
    // Where nothing is known of chance, what is nearly the same is no difference.
    let least = if have_intervals {
        0.0
    } else {
        ALIKE_WITHIN / 2.0 * means.mean()
    };
    let half = if known.is_empty() {
        return None;
    } else if known.len() == 1 {
        let (_, low, high) = known[0];
        (known[0].0 - low, high - known[0].0)
    } else if have_intervals {
        let squares = |end: fn(&(f64, f64, f64)) -> f64| -> f64 {
            known.iter().map(|one| end(one).powi(2)).sum::<f64>().sqrt() / number
        };
        (squares(|one| one.0 - one.1), squares(|one| one.2 - one.0))
    } else {
        let half = student_t(CONFIDENCE, number - 1.0) * (means.variance() / number).sqrt();
        (half, half)
    };
    Some((
        means.mean(),
        means.mean() - half.0.max(least),
        means.mean() + half.1.max(least),
    ))
}
