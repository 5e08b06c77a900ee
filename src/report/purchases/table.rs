//! Purchases as a table for people, the cheapest first, under the answer and all that must be known of it.

use std::fmt::Write;

use super::answer::{self, survival};
use super::{Found, Offer, Purchases, dollars, others};
use crate::report::figures::{count, significant_down};
use crate::report::knees::{assumed, notes, promises, qualified};
use crate::report::page::table_on;
use crate::report::tables::{Column, markdown};
use crate::report::trust::{trust_mark, trust_word};
use crate::report::wrapped;

/// The first line, what it rests on, a table, and what to look at next.
#[must_use]
pub fn text(shop: &Purchases, width: Option<usize>) -> String {
    const PLAIN: usize = 120;
    let mut text = wrapped("", "  ", &answer::answer(shop), width.unwrap_or(usize::MAX));
    let width_of_lines = width.unwrap_or(PLAIN);
    let line = |(name, sentence): (&str, String)| {
        wrapped(&format!("{name:<10}"), "          ", &sentence, width_of_lines)
    };
    lines(shop).into_iter().for_each(|told| text += &line(told));
    let offers = shop.offers();
    let (columns, cells) = cells(&offers, shop.spares);
    if !cells.is_empty() {
        text.push('\n');
        text += &table_on(&columns, &cells, 2, width);
        text.extend(answer::loads(&offers).map(|loads| line(("load", loads))));
    }
    text.push('\n');
    // A command is copied as it stands.
    for (name, command) in &shop.next {
        let _ = writeln!(text, "{name:<10}{command}");
    }
    under(shop)
        .into_iter()
        .for_each(|told| text += &line(("assumed", told)));
    text
}

/// The same in Markdown.
#[must_use]
pub fn md(shop: &Purchases) -> String {
    let offers = shop.offers();
    let (columns, cells) = cells(&offers, shop.spares);
    let mut text = format!("{}\n\n{}\n", answer::answer(shop), markdown(&columns, &cells));
    if let Some(loads) = answer::loads(&offers) {
        let _ = writeln!(text, "* load: {loads}");
    }
    for (name, sentence) in lines(shop) {
        let _ = writeln!(text, "* {name}: {sentence}");
    }
    for (name, command) in &shop.next {
        let _ = writeln!(text, "* {name}: `{command}`");
    }
    for sentence in under(shop) {
        let _ = writeln!(text, "* assumed: {sentence}");
    }
    text
}

/// What the answer rests on: a word for each sentence's kind, and the sentence.
fn lines(shop: &Purchases) -> Vec<(&'static str, String)> {
    let knees = &shop.knees;
    let mut lines = Vec::new();
    lines.extend(answer::demand(shop).map(|demand| ("demand", demand)));
    lines.extend(answer::held(shop).map(|held| ("but", held)));
    lines.extend(answer::surviving(shop).map(|surviving| ("N+1", surviving)));
    lines.extend(answer::alike(shop).into_iter().map(|names| ("alike", names)));
    if !knees.subject.is_empty() {
        lines.push(("serves", knees.subject.clone()));
    }
    lines.extend(promises(knees).into_iter().map(|promise| ("SLO", promise)));
    if !knees.price_source.is_empty() {
        lines.push(("prices", knees.price_source.clone()));
    }
    lines.extend(others::unfit(shop).map(|unfit| ("no fit", unfit)));
    lines.extend(others::misses(shop).map(|misses| ("misses", misses)));
    lines.extend(others::pruned(shop).map(|pruned| ("pruned", pruned)));
    lines.extend(shop.left_out.clone().map(|left_out| ("left out", left_out)));
    lines.extend(others::pools(shop).into_iter().map(|pools| ("pools", pools)));
    let others = shop.only(|_, row| !matches!(row.found, Found::DoesNotFit(_) | Found::Pruned(_)));
    lines.extend(qualified(&others).into_iter().map(|sentence| ("but", sentence)));
    lines.extend(answer::counting(shop).map(|counting| ("counted", counting)));
    // What must be known of settings that nobody is told to buy stands in JSON.
    lines.extend(notes(&of_answer(shop)).into_iter().map(|note| ("note", note)));
    lines
}

/// What the answer takes for granted, and what of the load.
fn under(shop: &Purchases) -> Vec<String> {
    let load = match (shop.demand.of_loop, shop.demand.rate) {
        (None, None) => return Vec::new(),
        _ if shop.demand.headroom != 1.0 => "the load lasts, at that headroom",
        (Some(_), _) => "the load lasts, and nothing is kept for peaks (--headroom 1)",
        (None, _) => {
            "the rate is the mean of a load that lasts, and nothing is kept for peaks beyond its own (--headroom 1)"
        }
    };
    let mut told = vec![load.to_owned()];
    told.extend(assumed(&of_answer(shop)));
    told
}

/// The setting of the answer alone.
fn of_answer(shop: &Purchases) -> super::Knees {
    let best = shop.offers().iter().find_map(|offer| offer.row);
    shop.only(|at, _| best == Some(at))
}

/// Columns and rows. The interval of the cost is that of both chance and the model's doubt.
pub(super) fn cells(offers: &[Offer], spares: u64) -> (Vec<Column>, Vec<Vec<String>>) {
    let is_bare = spares == 0;
    let has_marks = answer::loads(offers).is_some();
    let mut columns = vec![Column::right("rank"), Column::left("buy")];
    columns.extend(["GPUs", "req/s each", "load"].map(Column::right));
    columns.push(Column::left("survives a failure"));
    columns.extend(["$/h", "90 %"].map(Column::right));
    columns.extend(is_bare.then(|| Column::right("N+1 $/h")));
    columns.push(Column::right("$/M out"));
    columns.push(Column::left("kernels"));
    let row = |offer: &Offer| {
        let dash = || "–".to_owned();
        let usd = |usd: Option<f64>| usd.map_or_else(dash, dollars);
        let interval = offer
            .usd_90
            .map_or_else(dash, |(low, high)| match high.is_finite() {
                true => format!("[{}, {}]", dollars(low), dollars(high)),
                false => format!("from {}", dollars(low)),
            });
        let trust = offer
            .kernels
            .map(|trust| format!("{} {}", trust_mark(trust), trust_word(trust)));
        let mut cells = vec![
            offer.rank.to_string(),
            offer.bought(),
            count(offer.gpus),
            offer.knee_per_s.map_or_else(dash, significant_down),
            answer::load(offer, has_marks).unwrap_or_else(dash),
            survival(offer),
            usd(offer.usd_per_hour),
            interval,
        ];
        cells.extend(is_bare.then(|| usd(offer.surviving.2)));
        cells.push(usd(offer.usd_per_million_output_tokens));
        cells.push(trust.unwrap_or_default());
        cells
    };
    (columns, offers.iter().map(row).collect())
}
