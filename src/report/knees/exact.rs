//! The settings as rows of CSV, in the order of the axes.

use super::{KneeRow, Knees};
use crate::report::csv;
use crate::report::trust::trust_word;

/// Figures of a setting that was searched, as the JSON has them.
const FIGURES: [&str; 27] = [
    "knee_of",
    "knee",
    "knee_low",
    "knee_high",
    "knee_model_low",
    "knee_model_high",
    "saturation",
    "saturation_low",
    "saturation_high",
    "when_full",
    "when_full_low",
    "when_full_high",
    "request_throughput_at_knee",
    "output_throughput_at_knee",
    "for_rate",
    "replicas_counted",
    "gpus",
    "usd_per_hour",
    "usd_per_user_hour",
    "usd_per_million_output_tokens",
    "usd_per_million_tokens",
    "usd_low",
    "usd_high",
    "kernels",
    "limited_by",
    "breaks_first",
    "hardest_pressed",
];

/// One row a setting: its axes, the knee with both intervals and what it is a number of (`rate`, `requests` in flight or `users`), what it costs; empty where it has none, and why in `state`. `standing` is
/// `best`, `alike` of what cannot be told from the best, and `worse`, and `alike_by` says whether that is by `chance` or by the `model`'s doubt; empty where a setting was not searched to its end or has no rank.
#[must_use]
pub fn csv(knees: &Knees) -> String {
    let axes = knees.rows.first().into_iter().flat_map(|row| &row.labels);
    let axes = axes.map(|(axis, _)| axis.as_str());
    let head: Vec<&str> = axes
        .chain(FIGURES)
        .chain(["standing", "alike_by", "state", "why"])
        .collect();
    let rows = knees
        .rows
        .iter()
        .zip(knees.standing_words().into_iter().zip(knees.doubt_words()))
        .map(|(row, (standing, doubt))| {
            let mut cells: Vec<String> = row.labels.iter().map(|(_, value)| value.clone()).collect();
            cells.extend(figures(row));
            let words = [
                standing.unwrap_or_default(),
                doubt.unwrap_or_default(),
                row.state(),
                row.why_not().unwrap_or_default(),
            ];
            cells.extend(words.map(str::to_owned));
            cells
        });
    csv::write(&head, rows)
}

fn figures(row: &KneeRow) -> Vec<String> {
    let number = |value: Option<f64>| {
        value
            .filter(|value| value.is_finite())
            .map_or_else(String::new, |value| value.to_string())
    };
    let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let Some(priced) = row.priced() else {
        return vec![String::new(); FIGURES.len()];
    };
    let view = &priced.view;
    let (knee, saturation, model) = (view.knee, view.saturation, priced.knee_model_90());
    let full = view.when_full.map(|full| full.served);
    let sizing = view.sizing.as_ref();
    let fleet = sizing.and_then(|sizing| sizing.fleet.as_ref());
    let cost = priced.cost().and_then(|cost| cost.interval_90());
    vec![
        view.of.code().to_owned(),
        number(knee.map(|knee| knee.value)),
        number(knee.map(|knee| knee.low)),
        number(knee.map(|knee| knee.high)),
        number(model.map(|(low, _)| low)),
        number(model.map(|(_, high)| high)),
        number(saturation.map(|rate| rate.value)),
        number(saturation.map(|rate| rate.low)),
        number(saturation.map(|rate| rate.high)),
        number(full.map(|served| served.value)),
        number(full.map(|served| served.low)),
        number(full.map(|served| served.high)),
        number(view.served_per_s()),
        number(view.output_tokens_per_s),
        number(sizing.map(|sizing| sizing.demand.rate)),
        whole(fleet.map(|fleet| fleet.replicas)),
        whole(priced.gpus_paid()),
        number(priced.usd_per_hour_paid()),
        number(priced.usd_per_user_hour()),
        number(priced.usd_per_million_output_tokens()),
        number(priced.usd_per_million_tokens()),
        number(cost.map(|(low, _)| low)),
        number(cost.map(|(_, high)| high)),
        priced
            .kernels()
            .map_or_else(String::new, |trust| trust_word(trust).to_owned()),
        view.limited_by.clone().unwrap_or_default(),
        view.breaks_first.code(),
        view.hardest_pressed.unwrap_or_default().to_owned(),
    ]
}
