//! `explain` in words: what a request's time is made of, what binds, and what each change alone would do.

mod answer;

use self::answer::answer;
use super::anatomy;
use super::figures::{counted, percent, signed_percent, time};
use super::page::Page;
use super::sought::Sought;
use super::style::Style;
use super::tables::Column;
use super::text_caveats::trust_lines;
use super::views::verdict_word;
use super::words::EngineWords;
use crate::analysis::{Estimate, Verdict};
use crate::cost::Trust;
use crate::metrics::Anatomies;

/// What was found out, ready to be told.
#[derive(Clone, Debug)]
pub struct Explained {
    /// What was simulated: `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// What the scenario is called, where it is a file or ships.
    pub scenario: Option<String>,
    /// Seed of every random stream.
    pub seed: u64,
    /// The load of the scenario, `8.00 req/s`, and as a number of what the knee is one of.
    pub load: String,
    /// The same; `None` where it has neither a rate nor a number in flight.
    pub load_value: Option<f64>,
    /// What the knee is a number of.
    pub of: Sought,
    /// The scenario as it is.
    pub base: Tried,
    /// What its requests' times are made of; empty where no latency is quoted.
    pub anatomies: Anatomies,
    /// Median of the time to first token in seconds.
    pub p50_ttft_s: Option<f64>,
    /// The resource that binds, in words and as files spell it.
    pub bound: Option<(String, &'static str)>,
    /// What breaks first at the knee, as a sentence.
    pub at_knee: Option<String>,
    /// Changes, each alone.
    pub what_ifs: Vec<WhatIf>,
    /// What was not tried, and why.
    pub left_out: Vec<(String, String)>,
    /// Why no knee is told, where none was looked for.
    pub no_knee: Option<String>,
    /// How the engine calls its limits.
    pub words: EngineWords,
    /// Little's law of the run, and what a closed form says of it.
    pub audits: Vec<(&'static str, String)>,
    /// How well each component of the step time is known.
    pub trust: Vec<(String, Trust)>,
    /// What nobody gave.
    pub assumptions: Vec<String>,
    /// What else must be said.
    pub notes: Vec<String>,
    /// How many changes the user did not wait for to the end, where Ctrl-C ended it.
    pub interrupted: Option<usize>,
}

/// A change, and what came of it.
#[derive(Clone, Debug)]
pub struct WhatIf {
    /// What is changed, `max-num-seqs 256 → 512`.
    pub name: String,
    /// Its flags.
    pub flags: String,
    /// What kind of change it is.
    pub kind: Kind,
    /// What came of it; `None` where it was not reached.
    pub tried: Option<Tried>,
}

/// What a change costs beside its flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Setting,
    /// More or other hardware.
    Hardware,
    /// Other numbers, so that answers may be others.
    Numbers,
    /// The user's own.
    Own,
}

impl Kind {
    /// As files spell it.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Kind::Setting => "setting",
            Kind::Hardware => "hardware",
            Kind::Numbers => "number_format",
            Kind::Own => "own",
        }
    }
}

/// A way of serving under the same traffic.
#[derive(Clone, Debug)]
pub struct Tried {
    /// GPUs of all pools.
    pub gpus: u64,
    /// What its run is worth.
    pub verdict: Verdict,
    /// Requests of its run.
    pub requests: u64,
    /// 99th percentile of the time to first token in seconds; `None` where no latency may be quoted.
    pub p99_ttft: Option<Estimate>,
    /// Of the gaps between tokens.
    pub p99_itl_s: Option<f64>,
    /// Of the requests' times per output token.
    pub p99_tpot_s: Option<f64>,
    /// Its knee.
    pub knee: Found,
}

/// What became of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// It was not asked for, or not reached.
    Nothing,
    /// The knee.
    Knee(Estimate),
    /// No load meets the SLO.
    None,
    /// It cannot be searched for, and why.
    Failed(String),
}

impl Found {
    pub(super) fn knee(&self) -> Option<Estimate> {
        match self {
            Found::Knee(estimate) => Some(*estimate),
            Found::Nothing | Found::None | Found::Failed(_) => None,
        }
    }
}

/// Whether two estimates differ by more than chance explains: their intervals are apart.
pub(super) fn apart(one: Estimate, other: Estimate) -> bool {
    one.high < other.low || other.high < one.low
}

impl WhatIf {
    /// How the knee moves, relative, where that is beyond chance.
    pub(super) fn gain(&self, base: &Tried) -> Option<f64> {
        let (before, after) = (base.knee.knee()?, self.tried.as_ref()?.knee.knee()?);
        apart(before, after).then(|| after.value / before.value - 1.0)
    }

    /// How the 99th percentile of the time to first token moves, relative, where that is beyond chance.
    pub(super) fn ttft_change(&self, base: &Tried) -> Option<f64> {
        let (before, after) = (base.p99_ttft?, self.tried.as_ref()?.p99_ttft?);
        apart(before, after).then(|| after.value / before.value - 1.0)
    }
}

/// Writes it for a terminal.
#[must_use]
pub fn text(view: &Explained, style: Style) -> String {
    let mut page = Page::new(style);
    page.answer(&answer(view));
    page.fact("subject", &format!("{}, {}", view.subject, view.load));
    if let Some(sentence) = &view.at_knee {
        page.fact("limited by", sentence);
    }
    page.listed("trust", &trust_lines(&view.trust));
    page.listed("note", &view.notes);
    page.block(&anatomy::tables(&view.anatomies, view.words));
    what_ifs(&mut page, view);
    page.line("");
    for (name, sentence) in &view.audits {
        page.fact(name, sentence);
    }
    page.into_text()
}

fn what_ifs(page: &mut Page, view: &Explained) {
    let has_knees = view.no_knee.is_none();
    if !view.what_ifs.is_empty() {
        page.line("");
        let marked = match view.base.verdict {
            Verdict::Finite => "other by more than 2 %",
            _ => "beyond chance",
        };
        page.line(&format!(
            "what if (each alone, the same arrivals; latencies with {}; * {marked}):",
            view.load
        ));
        let knee = format!("knee {}", view.of.unit());
        let heads = [
            Some(Column::left("")),
            Some(Column::right("GPUs")),
            has_knees.then(|| Column::right(&knee)),
            Some(Column::right("p99 TTFT")),
            Some(Column::right("p99 ITL")),
            Some(Column::right("p99 TPOT")),
        ];
        let columns: Vec<Column> = heads.into_iter().flatten().collect();
        let base = row("as it is", &view.base, None, view);
        let others = view.what_ifs.iter().map(|what_if| match &what_if.tried {
            Some(tried) => row(&what_if.name, tried, Some(what_if), view),
            None => {
                let blanks = std::iter::repeat_n("–".to_owned(), columns.len() - 1);
                std::iter::once(what_if.name.clone()).chain(blanks).collect()
            }
        });
        let rows: Vec<Vec<String>> = std::iter::once(base).chain(others).collect();
        page.table(&columns, &rows, 1);
    }
    if let Some(why) = &view.no_knee {
        page.fact("no knees", why);
    }
    let left_out = view.left_out.iter().map(|(name, why)| format!("{name}: {why}"));
    page.listed("left out", &left_out.collect::<Vec<_>>());
}

fn row(name: &str, tried: &Tried, what_if: Option<&WhatIf>, view: &Explained) -> Vec<String> {
    let star = |is_beyond: bool| match what_if {
        Some(_) if is_beyond => " *",
        Some(_) | None => "  ",
    };
    let plain = |seconds: Option<f64>| seconds.map_or("–".to_owned(), time);
    let ttft = match tried.p99_ttft {
        Some(p99) => format!(
            "{}{}",
            time(p99.value),
            star(what_if.is_some_and(|of| of.ttft_change(&view.base).is_some()))
        ),
        None => format!("{}{}", verdict_word(tried.verdict).replace('_', " "), star(false)),
    };
    let knee = match &tried.knee {
        Found::Knee(estimate) => format!(
            "{} {}{}",
            view.of.figure(estimate.value),
            view.of.interval(*estimate),
            star(what_if.is_some_and(|of| of.gain(&view.base).is_some()))
        ),
        Found::None => "SLO never met".to_owned(),
        Found::Failed(_) => "none".to_owned(),
        Found::Nothing => "–".to_owned(),
    };
    let cells = [
        Some(name.to_owned()),
        Some(tried.gpus.to_string()),
        view.no_knee.is_none().then_some(knee),
        Some(ttft),
        Some(plain(tried.p99_itl_s)),
        Some(plain(tried.p99_tpot_s)),
    ];
    cells.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
