//! How many a closed loop may have in flight: the answer, what breaks beyond it, and a line a number that was tried.

mod knee;

use super::figures::{count, significant};
use super::pairs::state;
use super::searched::Searched;
use super::sought::Sought;
use super::style::Style;
use super::tables::Column;
use super::text_cost;
use super::text_knee::promised_line;
use super::tried::{
    self, ATTAIN, E2EL_P50, E2EL_P99, KV, RUNNING, SERVED, TOKENS, TPOT_P50, TPOT_P99, TTFT_P50, TTFT_P99,
    WAITING,
};
use super::views::{KneeView, verdict_word};
use crate::analysis::knee::{InFlight, InFlightEnding, Point};
use crate::calibrate::interval::FigureInterval;

/// A search for the most in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlightView {
    /// What was found, and all that were tried.
    pub found: InFlight,
    /// The same as charts and rankings take it, and what else is known of it.
    pub knee: KneeView,
}

impl InFlightView {
    /// The run of the answer; `None` without one.
    #[must_use]
    pub fn best(&self) -> Option<&(u64, Point)> {
        self.found.best()
    }

    /// Prompt and output tokens per second of the answer's run.
    #[must_use]
    pub fn tokens_per_s(&self) -> Option<(f64, f64)> {
        self.knee.prompt_tokens_per_s.zip(self.knee.output_tokens_per_s)
    }

    /// How far the answer may be off because the step time's parameters are, or why that is not known; `None` without an answer.
    #[must_use]
    pub fn model(&self) -> Option<Result<&FigureInterval, &str>> {
        let unknown = self.knee.model_unknown.as_deref().map(Err);
        self.knee.model.as_ref().map(Ok).or(unknown)
    }

    /// `23 in flight within SLO  (95 % [22, 24])   14.6 req/s, 1,870 output tok/s`.
    fn answer(&self) -> String {
        let who = self.knee.of.unit();
        let is_interrupted = self.knee.is_interrupted;
        let cut = match is_interrupted {
            true => "INTERRUPTED, until then: ",
            false => "",
        };
        let Some((most, point)) = self.best() else {
            return match self.found.ending {
                InFlightEnding::None => format!("NOT EVEN ONE {} meets the SLO", self.one()),
                InFlightEnding::Untold(_) => {
                    "NOT KNOWN: runs have too few requests to tell whether the SLO is met".to_owned()
                }
                _ if is_interrupted => {
                    format!("INTERRUPTED before it was known how many {who} meet the SLO")
                }
                _ => "NOT FOUND: the search ran out of runs before it had an answer".to_owned(),
            };
        };
        let known = match self.found.ending {
            InFlightEnding::Found { surely, at_most, .. } => {
                let end = |end: Option<u64>| end.map_or("not known".to_owned(), count);
                format!("(95 % [{}, {}])", end(surely), end(at_most))
            }
            InFlightEnding::Most(_) => "and no more were tried".to_owned(),
            _ => "and no SLO is missed with more".to_owned(),
        };
        let served = point.throughput.zip(point.output_tokens_per_s);
        let served = served.map_or(String::new(), |(rate, tokens)| {
            format!(
                "   {} req/s, {} output tok/s",
                significant(rate.value),
                significant(tokens)
            )
        });
        format!("{cut}{} {who} within SLO  {known}{served}", count(*most))
    }

    fn one(&self) -> &'static str {
        match self.knee.of {
            Sought::Users => "user",
            Sought::Rate | Sought::InFlight => "request in flight",
        }
    }

    /// What qualifies the answer: (name, sentence).
    fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        lines.extend(self.knee.limited_by.clone().map(|told| ("limited by", told)));
        if let Some(rent) = &self.knee.rent {
            lines.push(("cost", text_cost::line(rent, self.tokens_per_s(), false)));
        }
        lines.push((
            "supposes",
            "that fewer in flight serve no worse: where answers of one length keep requests in step, a few more may do better than a few less"
                .to_owned(),
        ));
        lines
    }
}

/// Writes the answer, what it rests on, and every number that was tried.
#[must_use]
pub fn text(view: &InFlightView, style: Style) -> String {
    searched(view).text(style)
}

/// The same in Markdown.
#[must_use]
pub fn md(view: &InFlightView) -> String {
    searched(view).markdown()
}

fn searched(view: &InFlightView) -> Searched<'_> {
    Searched {
        answer: view.answer(),
        is_found: view.best().is_some(),
        lines: view.lines(),
        promises: promised_line(&view.knee),
        subject: &view.knee.subject,
        trust: &view.knee.trust,
        model: view.model(),
        notes: &view.knee.notes,
        assumptions: &view.knee.assumptions,
        tried: cells(view),
        keys: 1,
    }
}

fn cells(view: &InFlightView) -> (Vec<Column>, Vec<Vec<String>>) {
    let figures = [
        SERVED, TOKENS, ATTAIN, TTFT_P50, TTFT_P99, TPOT_P50, TPOT_P99, E2EL_P50, RUNNING, WAITING, KV,
    ];
    let heads = std::iter::once(view.knee.of.unit()).chain(tried::heads(&figures));
    let mut columns: Vec<Column> = heads.map(Column::right).collect();
    columns.push(Column::left("SLO"));
    let best = view.best().map(|(number, _)| *number);
    let row = |(number, point): &(u64, Point)| {
        let mark = if best == Some(*number) { "▶ " } else { "" };
        let number = format!("{mark}{}", count(*number));
        let cells = std::iter::once(number).chain(tried::cells(&figures, point));
        cells.chain([state(point).to_owned()]).collect()
    };
    (columns, view.found.tried.iter().map(row).collect())
}

/// A row a number in flight, full precision.
#[must_use]
pub fn csv(view: &InFlightView) -> String {
    let figures = [
        SERVED, TOKENS, ATTAIN, TTFT_P50, TTFT_P99, TPOT_P50, TPOT_P99, E2EL_P50, E2EL_P99, RUNNING, WAITING,
        KV,
    ];
    let head: Vec<&str> = ["in_flight", "verdict", "requests"]
        .into_iter()
        .chain(tried::keys(&figures))
        .chain(["kept", "is_answer"])
        .collect();
    let best = view.best().map(|(number, _)| *number);
    let rows = view.found.tried.iter().map(|(number, point)| {
        let before = [
            number.to_string(),
            verdict_word(point.verdict).to_owned(),
            point.requests.to_string(),
        ];
        let after = [point.is_within(), best == Some(*number)].map(|is| is.to_string());
        let exact = tried::exact(&figures, point);
        before.into_iter().chain(exact).chain(after).collect()
    });
    super::csv::write(&head, rows)
}

#[cfg(test)]
mod tests;
