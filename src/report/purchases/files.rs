//! Purchases as rows of CSV: settings in the order of their axes, then pools.

use super::{Config, How, Offer, Purchases};
use crate::report::csv;
use crate::report::json::load_by;
use crate::report::knees::KneeRow;
use crate::report::trust::trust_word;

/// Figures of a purchase, as the JSON has them.
const FIGURES: [&str; 22] = [
    "rank",
    "buy",
    "replicas",
    "prefill_replicas",
    "decode_replicas",
    "gpus",
    "knee_of_one",
    "load",
    "load_by",
    "survives_a_failure",
    "load_one_lost",
    "usd_per_hour",
    "usd_low",
    "usd_high",
    "usd_per_hour_surviving",
    "gpus_surviving",
    "usd_per_million_output_tokens",
    "usd_per_million_tokens",
    "counted_by",
    "kernels",
    "standing",
    "alike_by",
];

/// One row a setting: what axes call it, its card, what is bought of it and what that costs; empty where it is no purchase, and why in
/// `state`. Rows of prefill and decode pools have no values of axes.
#[must_use]
pub fn csv(shop: &Purchases) -> String {
    let axes = shop.labels.first().into_iter().flatten();
    let axes: Vec<&str> = axes.map(|(axis, _)| axis.as_str()).collect();
    let head: Vec<&str> = (axes.iter().copied())
        .chain(["card", "tensor_parallel", "pipeline_parallel", "data_parallel"])
        .chain(FIGURES)
        .chain(["state", "why"])
        .collect();
    let offers = shop.offers();
    let of_row = |at: usize| offers.iter().find(|offer| offer.row == Some(at));
    let settings = shop
        .knees
        .rows
        .iter()
        .enumerate()
        .map(|(at, row): (usize, &KneeRow)| {
            let mut cells: Vec<String> = shop.labels[at].iter().map(|(_, value)| value.clone()).collect();
            let config = &shop.configs[at];
            cells.extend(shape(config));
            cells.extend(of_row(at).map_or_else(|| vec![String::new(); FIGURES.len()], figures));
            cells.extend([
                row.state().to_owned(),
                row.why_not().unwrap_or_default().to_owned(),
            ]);
            cells
        });
    let apart = offers.iter().filter(|offer| offer.row.is_none()).map(|offer| {
        let mut cells = vec![String::new(); axes.len()];
        cells.extend(shape(&offer.config));
        cells.extend(figures(offer));
        cells.extend(["kept".to_owned(), String::new()]);
        cells
    });
    csv::write(&head, settings.chain(apart))
}

/// The card, and how its GPUs share a replica.
fn shape(config: &Config) -> [String; 4] {
    [
        config.gpu.clone(),
        config.tensor_parallel.clone(),
        config.pipeline_parallel.to_string(),
        config.data_parallel.to_string(),
    ]
}

/// The cells of a purchase.
fn figures(offer: &Offer) -> Vec<String> {
    let number = |value: Option<f64>| {
        let finite = value.filter(|value| value.is_finite());
        finite.map_or_else(String::new, |value| value.to_string())
    };
    let (replicas, apart) = match offer.how {
        How::Alike(replicas) => (replicas, None),
        How::Apart(prefill, decode) => (prefill + decode, Some((prefill, decode))),
    };
    let part = |of: fn((u64, u64)) -> u64| apart.map_or_else(String::new, |both| of(both).to_string());
    vec![
        offer.rank.to_string(),
        offer.bought(),
        replicas.to_string(),
        part(|(prefill, _)| prefill),
        part(|(_, decode)| decode),
        offer.gpus.to_string(),
        number(offer.knee_per_s),
        number(offer.load),
        offer
            .load_by
            .map_or_else(String::new, |by| load_by(by).to_owned()),
        offer.survives.to_string(),
        number(offer.left.map(|(_, load)| load)),
        number(offer.usd_per_hour),
        number(offer.usd_90.map(|(low, _)| low)),
        number(offer.usd_90.map(|(_, high)| high)),
        number(offer.surviving.2),
        offer.surviving.1.to_string(),
        number(offer.usd_per_million_output_tokens),
        number(offer.usd_per_million_tokens),
        match offer.why_by_knee {
            None => "simulation".to_owned(),
            Some(_) => "knee".to_owned(),
        },
        offer
            .kernels
            .map_or_else(String::new, |trust| trust_word(trust).to_owned()),
        offer.standing.unwrap_or_default().to_owned(),
        offer.alike_by.unwrap_or_default().to_owned(),
    ]
}
