//! `explain` in words: what a request's time is made of, what binds, and what each change alone would do.

mod answer;
mod standing;

use self::answer::answer;
pub use self::standing::{Missing, Slo, Standing, standing};
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
    /// What stands before its latencies.
    pub standing: Standing,
    /// Whether its SLO is met at this load; `None` where there is none, or no steady state in which it could be.
    pub slo: Option<Slo>,
    /// What is said where a client holds back what is not served, and hardly any wait in the server.
    pub client: Option<String>,
    /// The scenario as it is.
    pub base: Tried,
    /// What its requests' times are made of; empty where no latency is quoted.
    pub anatomies: Anatomies,
    /// Median of the time to first token in seconds.
    pub p50_ttft_s: Option<f64>,
    /// What binds at this load, as a sentence and as files spell it.
    pub bound: Option<(String, &'static str)>,
    /// What breaks first at the knee, as a sentence.
    pub at_knee: Option<String>,
    /// Whether all changes see the requests of the scenario as it is.
    pub are_same_requests: bool,
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
    /// What the user did not wait for, where Ctrl-C ended it.
    pub interrupted: Option<Missing>,
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
    pub p99_itl: Option<Estimate>,
    /// Of the requests' times per output token.
    pub p99_tpot: Option<Estimate>,
    /// Share of its requests that were refused, lost or given up.
    pub unanswered: f64,
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
    /// The client is the limit, which pushes so much at most, within the SLO.
    Client(Estimate),
    /// It cannot be searched for, and why.
    Failed(String),
}

impl Found {
    pub(super) fn knee(&self) -> Option<Estimate> {
        match self {
            Found::Knee(estimate) => Some(*estimate),
            Found::Nothing | Found::None | Found::Client(_) | Found::Failed(_) => None,
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
        self.moved(base, |tried| tried.p99_ttft)
    }

    /// How a latency moves, relative, where that is beyond chance.
    pub(super) fn moved(&self, base: &Tried, of: impl Fn(&Tried) -> Option<Estimate>) -> Option<f64> {
        let (before, after) = (of(base)?, of(self.tried.as_ref()?)?);
        apart(before, after).then(|| after.value / before.value - 1.0)
    }

    /// The 99th percentile of the time to first token with it, where it makes a load stable at which requests pile up as it is.
    pub(super) fn rescued(&self, base: &Tried) -> Option<f64> {
        let tried = self.tried.as_ref()?;
        let is_rescue = base.verdict == Verdict::Unstable && tried.verdict == Verdict::Stable;
        tried.p99_ttft.map(|p99| p99.value).filter(|_| is_rescue)
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

/// What stands over the table: who is compared, at which load, and what the mark means.
fn heading(view: &Explained) -> String {
    let same = match (view.are_same_requests, view.of.is_loop()) {
        (false, _) => "",
        (true, false) => ", the same arrivals",
        (true, true) => ", the same clients",
    };
    let load = match view.are_same_requests {
        true => format!("with {}", view.load),
        false => "at this load".to_owned(),
    };
    let marked = match view.base.verdict {
        Verdict::Finite => "intervals apart, or without one other by more than 2 %",
        _ => "intervals apart",
    };
    let stable = match view.base.verdict {
        Verdict::Unstable => ", or stable where this load is not",
        _ => "",
    };
    format!("what if (each alone{same}; latencies {load}; * {marked}{stable}):")
}

fn what_ifs(page: &mut Page, view: &Explained) {
    if !view.what_ifs.is_empty() {
        page.line("");
        page.line(&heading(view));
        let knee = format!("knee {}", view.of.unit());
        let heads = [
            Some(Column::left("")),
            Some(Column::right("GPUs")),
            view.no_knee.is_none().then(|| Column::right(&knee)),
            has_lost(view).then(|| Column::right("no answer")),
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

/// Whether any row has requests that were refused, lost or given up.
fn has_lost(view: &Explained) -> bool {
    let changed = view.what_ifs.iter().filter_map(|what_if| what_if.tried.as_ref());
    std::iter::once(&view.base)
        .chain(changed)
        .any(|tried| tried.unanswered > 0.0)
}

fn row(name: &str, tried: &Tried, what_if: Option<&WhatIf>, view: &Explained) -> Vec<String> {
    let star = |is_beyond: bool| match what_if {
        Some(_) if is_beyond => " *",
        Some(_) | None => "  ",
    };
    let is_rescue = what_if.is_some_and(|of| of.rescued(&view.base).is_some());
    let latency = |of: fn(&Tried) -> Option<Estimate>| {
        let is_other = what_if.is_some_and(|what_if| what_if.moved(&view.base, of).is_some());
        of(tried).map(|p99| format!("{}{}", time(p99.value), star(is_other || is_rescue)))
    };
    let none = || format!("–{}", star(false));
    let ttft = latency(|tried| tried.p99_ttft);
    let ttft =
        ttft.unwrap_or_else(|| format!("{}{}", verdict_word(tried.verdict).replace('_', " "), star(false)));
    let knee = match &tried.knee {
        Found::Knee(estimate) => format!(
            "{} {}{}",
            view.of.figure(estimate.value),
            view.of.interval(*estimate),
            star(what_if.is_some_and(|of| of.gain(&view.base).is_some()))
        ),
        Found::None => "SLO never met".to_owned(),
        Found::Client(_) => "the client's".to_owned(),
        Found::Failed(_) => "none".to_owned(),
        Found::Nothing => "–".to_owned(),
    };
    let cells = [
        Some(name.to_owned()),
        Some(tried.gpus.to_string()),
        view.no_knee.is_none().then_some(knee),
        has_lost(view).then(|| percent(tried.unanswered)),
        Some(ttft),
        Some(latency(|tried| tried.p99_itl).unwrap_or_else(none)),
        Some(latency(|tried| tried.p99_tpot).unwrap_or_else(none)),
    ];
    cells.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests;
