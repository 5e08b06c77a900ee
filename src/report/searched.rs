//! The page of a search over whole numbers: its answer, what qualifies it, on what it rests, and every number that was tried.

use super::page::Page;
use super::style::Style;
use super::tables::{Column, markdown};
use super::text_caveats::{assumed, trust_lines};
use super::text_knee::{listed, model_interval};
use crate::calibrate::interval::FigureInterval;
use crate::cost::Trust;

/// What a search has to say, in the order of the page.
pub(super) struct Searched<'a> {
    /// The first line.
    pub(super) answer: String,
    /// Whether it is what was asked for, which its colour says.
    pub(super) is_found: bool,
    /// What qualifies it: (name, sentence).
    pub(super) lines: Vec<(&'static str, String)>,
    /// All that is promised.
    pub(super) promises: String,
    /// What was simulated.
    pub(super) subject: &'a str,
    /// How well each component of the step time is known.
    pub(super) trust: &'a [(String, Trust)],
    /// How far it may be off because the step time's parameters are, or why that is not known; `None` without an answer.
    pub(super) model: Option<Result<&'a FigureInterval, &'a str>>,
    /// What else must be known, as sentences.
    pub(super) notes: &'a [String],
    /// Defaults and substitutions, as sentences.
    pub(super) assumptions: &'a [String],
    /// A row a number that was tried.
    pub(super) tried: (Vec<Column>, Vec<Vec<String>>),
    /// How many of the columns name it.
    pub(super) keys: usize,
}

impl Searched<'_> {
    /// For a terminal.
    pub(super) fn text(&self, style: Style) -> String {
        let mut page = Page::new(style);
        let code = if self.is_found { 32 } else { 31 };
        page.answer(&match style.color {
            true => format!("\u{1b}[1;{code}m{}\u{1b}[0m", self.answer),
            false => self.answer.clone(),
        });
        for (name, sentences) in self.facts() {
            page.listed(name, &sentences);
        }
        page.line("");
        let (columns, rows) = &self.tried;
        page.table(columns, rows, self.keys);
        page.into_text()
    }

    /// The same in Markdown: what the answer rests on is a list under the table.
    pub(super) fn markdown(&self) -> String {
        let (columns, rows) = &self.tried;
        let facts = listed(&self.facts());
        format!("**{}**\n\n{}\n{facts}", self.answer, markdown(columns, rows))
    }

    /// What stands between the answer and the table: names, and the sentences of each.
    fn facts(&self) -> Vec<(&str, Vec<String>)> {
        let lines = self.lines.iter();
        let mut facts: Vec<(&str, Vec<String>)> = lines
            .map(|(name, sentence)| (*name, vec![sentence.clone()]))
            .collect();
        facts.push(("SLO", vec![self.promises.clone()]));
        facts.push(("simulated", vec![self.subject.to_owned()]));
        facts.push(("trust", trust_lines(self.trust)));
        let model = self.model.map(|model| match model {
            Ok(model) => model_interval(model),
            Err(why) => format!("not known: {why}"),
        });
        facts.push(("model ±", model.into_iter().collect()));
        facts.push(("note", self.notes.to_vec()));
        facts.push(("assumed", assumed(self.assumptions)));
        facts
    }
}
