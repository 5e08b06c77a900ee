//! The knees of several settings beside each other: what each takes within the promise, what that costs, and which is cheapest.
//!
//! What a setting costs is what its GPUs do per million output tokens at its knee, or, where a rate is given, per hour of the
//! replicas that carry it. It is known no better than the knee: its range holds chance and the doubt of the step time
//! ([`Priced::cost_range`]). Which settings cannot be told from the cheapest follows from those ranges; that doubts of two
//! settings may have one cause, and cancel, is not counted on.

mod answer;

use std::fmt::Write;

use super::figures::{interval_outwards, significant, significant_down};
use super::tables::{Column, markdown, table_within};
use super::text_knee::asked;
use super::text_sizing::dollars;
use super::views::{KneeView, trust_word};
use super::{csv, wrapped};
use crate::analysis::Estimate;
use crate::calibrate::interval::FigureInterval;
use crate::cost::Trust;

/// Axis and value.
pub type Labels = Vec<(String, String)>;

/// One setting.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeRow {
    /// What names it.
    pub labels: Labels,
    /// What came of it.
    pub found: Found,
}

/// What came of a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Its search, which may have found no rate within the promise.
    Knee(Box<Priced>),
    /// The model does not fit, and what would make it fit.
    DoesNotFit(String),
    /// The user stopped before its search ended.
    NotRun,
}

/// A knee search and what the GPUs cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    /// The search.
    pub view: KneeView,
    /// GPUs that were simulated.
    pub gpus: u64,
    /// US dollars per hour of all of them, where every price is known.
    pub usd_per_hour: Option<f64>,
    /// Output tokens per second at the knee.
    pub output_tokens_per_s: Option<f64>,
}

/// Factors between which a cost lies of which nothing is known.
const UNKNOWN: (f64, f64) = (0.0, f64::INFINITY);

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Knees {
    /// What all of them serve: `Llama-3.1-8B-Instruct`; empty where they have nothing in common.
    pub subject: String,
    /// In the order of the axes.
    pub rows: Vec<KneeRow>,
    /// Where the prices are from.
    pub price_source: String,
}

impl KneeRow {
    /// Its search, where it was made.
    #[must_use]
    pub fn priced(&self) -> Option<&Priced> {
        match &self.found {
            Found::Knee(priced) => Some(priced),
            Found::DoesNotFit(_) | Found::NotRun => None,
        }
    }
}

impl Priced {
    /// Whether some rate, or the rate that was asked for with some number of replicas, is within the promise.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        match &self.view.sizing {
            Some(sizing) => sizing.fleet.is_some(),
            None => self.view.knee.is_some(),
        }
    }

    /// GPUs that are paid for; `None` of a rate that no number of them carries.
    #[must_use]
    pub fn gpus_paid(&self) -> Option<u64> {
        match &self.view.sizing {
            Some(sizing) => Some(sizing.fleet.as_ref()?.gpus),
            None => Some(self.gpus),
        }
    }

    /// What they cost in an hour.
    #[must_use]
    pub fn usd_per_hour_paid(&self) -> Option<f64> {
        match &self.view.sizing {
            Some(sizing) => sizing.fleet.as_ref()?.usd_per_hour,
            None => self.usd_per_hour,
        }
    }

    /// US dollars per million output tokens: of the fleet at the rate that was asked for, or at the knee.
    #[must_use]
    pub fn usd_per_million_output_tokens(&self) -> Option<f64> {
        if let Some(sizing) = &self.view.sizing {
            return sizing.fleet.as_ref()?.usd_per_million_output_tokens;
        }
        self.view.knee?;
        let tokens_per_hour = 3600.0 * self.output_tokens_per_s.filter(|tokens| *tokens > 0.0)?;
        Some(self.usd_per_hour? / (tokens_per_hour / 1e6))
    }

    /// What settings are ranked by, dollars: an hour of the fleet where a rate is given, else a million output tokens.
    #[must_use]
    pub fn cost(&self) -> Option<f64> {
        match self.view.sizing {
            Some(_) => self.usd_per_hour_paid(),
            None => self.usd_per_million_output_tokens(),
        }
    }

    /// Between which factors of itself [`Priced::cost`] lies by chance and by the model's doubt together, each end as if the two were
    /// independent; anything from nothing up where the model's doubt is not known.
    #[must_use]
    pub fn cost_range(&self) -> (f64, f64) {
        let (chance, model) = match &self.view.sizing {
            Some(sizing) => {
                let Some(fleet) = &sizing.fleet else {
                    return (1.0, 1.0);
                };
                let of = |replicas: u64| replicas as f64 / fleet.replicas as f64;
                let (fewest, most) = fleet.replicas_95;
                let most = most.map_or(f64::INFINITY, of);
                let model = fleet.replicas_model_90;
                let model = model.map(|(fewest, most)| (of(fewest), of(most)));
                ((of(fewest), most), model.unwrap_or(UNKNOWN))
            }
            None => {
                let Some(knee) = self.view.knee else {
                    return (1.0, 1.0);
                };
                // The more is served, the less it costs.
                let chance = (knee.value / knee.high, knee.value / knee.low);
                let model = self.view.model.as_ref().map(FigureInterval::factors_90);
                let model = model.map(|(low, high)| (1.0 / high, 1.0 / low));
                (chance, model.unwrap_or(UNKNOWN))
            }
        };
        let together = |a: f64, b: f64| a.ln().hypot(b.ln());
        (
            (-together(chance.0, model.0)).exp(),
            together(chance.1, model.1).exp(),
        )
    }

    /// The knee at the two ends of the model's 90 % interval.
    #[must_use]
    pub fn knee_model_90(&self) -> Option<(f64, f64)> {
        let (low, high) = self.view.model.as_ref()?.factors_90();
        let knee = self.view.knee?.value;
        Some((knee * low, knee * high))
    }

    /// The large kernel that is known least: small ones and the host are a prior on nearly every card.
    #[must_use]
    pub fn kernels(&self) -> Option<Trust> {
        let is_large = |name: &str| {
            !["small kernels", "host"]
                .iter()
                .any(|small| name.ends_with(small))
        };
        let large = self.view.trust.iter().filter(|(name, _)| is_large(name));
        large.map(|(_, trust)| *trust).max()
    }

    /// What breaks first, in few words.
    fn limit(&self) -> String {
        let whole = self.view.limited_by.as_deref().unwrap_or_default();
        let first = whole.split([',', ':', '(', ';']).next().unwrap_or_default();
        first.split(". ").next().unwrap_or_default().trim().to_owned()
    }
}

impl Knees {
    /// Whether any setting keeps the promise.
    #[must_use]
    pub fn is_any_kept(&self) -> bool {
        self.priced().any(Priced::is_kept)
    }

    fn priced(&self) -> impl Iterator<Item = &Priced> {
        self.rows.iter().filter_map(KneeRow::priced)
    }

    /// Whether replicas were counted for a rate.
    fn is_sized(&self) -> bool {
        self.priced().any(|priced| priced.view.sizing.is_some())
    }

    /// What is promised, where all promise the same.
    fn promised(&self) -> Option<String> {
        let mut all = self.priced().map(|priced| asked(&priced.view));
        let first = all.next()?;
        all.all(|other| other == first).then(|| first.join(", "))
    }
}

/// The first line, a table and where its figures come from.
#[must_use]
pub fn text(knees: &Knees, width: Option<usize>) -> String {
    const PLAIN: usize = 120;
    let (columns, cells) = cells(knees);
    let mut text = wrapped("", "  ", &answer::answer(knees), width.unwrap_or(usize::MAX));
    let mut line = |name: &str, sentence: &str| {
        text += &wrapped(
            &format!("{name:<10}"),
            "          ",
            sentence,
            width.unwrap_or(PLAIN),
        );
    };
    if !knees.subject.is_empty() {
        line("simulated", &knees.subject);
    }
    if let Some(promised) = knees.promised() {
        line("promised", &promised);
    }
    if knees.priced().any(|priced| priced.usd_per_hour.is_some()) {
        line("prices", &knees.price_source);
    }
    for sentence in answer::qualified(knees) {
        line("but", &sentence);
    }
    text.push('\n');
    text + &table_within(&columns, &cells, width)
}

/// The same in Markdown.
#[must_use]
pub fn md(knees: &Knees) -> String {
    let (columns, cells) = cells(knees);
    let mut text = format!("{}\n\n{}", answer::answer(knees), markdown(&columns, &cells));
    if let Some(promised) = knees.promised() {
        let _ = write!(text, "\n{promised}. Prices: {}.\n", knees.price_source);
    }
    text
}

fn axes(knees: &Knees) -> impl Iterator<Item = &String> {
    let first = knees.rows.first().into_iter();
    first.flat_map(|row| row.labels.iter().map(|(axis, _)| axis))
}

fn cells(knees: &Knees) -> (Vec<Column>, Vec<Vec<String>>) {
    let is_sized = knees.is_sized();
    let mut columns: Vec<Column> = axes(knees).map(|axis| Column::left(axis)).collect();
    columns.extend(["req/s", "95 %", "model 90 %", "saturates", "out tok/s"].map(Column::right));
    columns.extend(is_sized.then(|| Column::right("replicas")));
    columns.extend(["GPUs", "$/h", "$/M out"].map(Column::right));
    columns.extend(["kernels", "limited by"].map(Column::left));
    let cells = |row: &KneeRow| {
        let mut cells: Vec<String> = row.labels.iter().map(|(_, value)| value.clone()).collect();
        match &row.found {
            Found::Knee(priced) => cells.extend(figures(priced, is_sized)),
            Found::DoesNotFit(_) | Found::NotRun => {
                let empty = 8 + usize::from(is_sized);
                cells.extend(std::iter::repeat_n("–".to_owned(), empty));
                cells.push(String::new());
                cells.push(state(&row.found).to_owned());
            }
        }
        cells
    };
    (columns, knees.rows.iter().map(cells).collect())
}

fn state(found: &Found) -> &'static str {
    match found {
        Found::Knee(_) => "",
        Found::DoesNotFit(_) => "does not fit",
        Found::NotRun => "not run",
    }
}

fn figures(priced: &Priced, is_sized: bool) -> Vec<String> {
    let dash = || "–".to_owned();
    let view = &priced.view;
    let saturation = match (view.saturates_below(), view.saturation) {
        (Some(high), _) => format!("< {}", significant(high)),
        (None, at) => at.map_or_else(dash, |at| significant(at.value)),
    };
    let interval = |knee: Estimate| interval_outwards(knee.low, knee.high);
    let mut cells = vec![
        view.knee
            .map_or_else(|| "none".to_owned(), |knee| significant_down(knee.value)),
        view.knee.map_or_else(dash, interval),
        priced
            .knee_model_90()
            .map_or_else(dash, |(low, high)| interval_outwards(low, high)),
        saturation,
        priced.output_tokens_per_s.map_or_else(dash, significant),
    ];
    let fleet = view.sizing.as_ref().and_then(|sizing| sizing.fleet.as_ref());
    cells.extend(is_sized.then(|| fleet.map_or_else(dash, |fleet| fleet.replicas.to_string())));
    cells.extend([
        priced.gpus_paid().map_or_else(dash, |gpus| gpus.to_string()),
        priced.usd_per_hour_paid().map_or_else(dash, dollars),
        priced.usd_per_million_output_tokens().map_or_else(dash, dollars),
        priced
            .kernels()
            .map_or_else(String::new, |trust| trust_word(trust).to_owned()),
        match view.is_interrupted {
            true => "interrupted".to_owned(),
            false => priced.limit(),
        },
    ]);
    cells
}

/// One row a setting: its axes, the knee with both intervals, what it costs; empty where it has none, and why in `state`.
#[must_use]
pub fn csv(knees: &Knees) -> String {
    const FIGURES: [&str; 18] = [
        "knee",
        "knee_low",
        "knee_high",
        "knee_model_low",
        "knee_model_high",
        "saturation",
        "saturation_low",
        "saturation_high",
        "output_tokens_per_s",
        "for_rate",
        "replicas",
        "gpus",
        "usd_per_hour",
        "usd_per_million_output_tokens",
        "kernels",
        "limited_by",
        "state",
        "why",
    ];
    let head: Vec<&str> = axes(knees).map(String::as_str).chain(FIGURES).collect();
    let rows = knees.rows.iter().map(|row| {
        let mut cells: Vec<String> = row.labels.iter().map(|(_, value)| value.clone()).collect();
        cells.extend(exact(&row.found));
        cells
    });
    csv::write(&head, rows)
}

fn exact(found: &Found) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let whole = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
    let priced = match found {
        Found::Knee(priced) => priced,
        Found::DoesNotFit(why) => {
            let mut cells = vec![String::new(); 16];
            cells.extend(["does_not_fit".to_owned(), why.clone()]);
            return cells;
        }
        Found::NotRun => {
            let mut cells = vec![String::new(); 16];
            cells.extend(["not_run".to_owned(), String::new()]);
            return cells;
        }
    };
    let view = &priced.view;
    let (knee, saturation, model) = (view.knee, view.saturation, priced.knee_model_90());
    let sizing = view.sizing.as_ref();
    let fleet = sizing.and_then(|sizing| sizing.fleet.as_ref());
    let state = match (view.is_interrupted, priced.is_kept()) {
        (true, _) => "interrupted",
        (false, true) => "kept",
        (false, false) => "not_kept",
    };
    vec![
        number(knee.map(|knee| knee.value)),
        number(knee.map(|knee| knee.low)),
        number(knee.map(|knee| knee.high).filter(|high| high.is_finite())),
        number(model.map(|(low, _)| low)),
        number(model.map(|(_, high)| high)),
        number(saturation.map(|rate| rate.value)),
        number(saturation.map(|rate| rate.low)),
        number(saturation.map(|rate| rate.high)),
        number(priced.output_tokens_per_s),
        number(sizing.map(|sizing| sizing.demand.rate)),
        whole(fleet.map(|fleet| fleet.replicas)),
        whole(priced.gpus_paid()),
        number(priced.usd_per_hour_paid()),
        number(priced.usd_per_million_output_tokens()),
        priced
            .kernels()
            .map_or_else(String::new, |trust| trust_word(trust).to_owned()),
        view.limited_by.clone().unwrap_or_default(),
        state.to_owned(),
        String::new(),
    ]
}

#[cfg(test)]
mod tests;
