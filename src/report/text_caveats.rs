//! What a reader must know before the figures: why the verdict is what it is, what is broken, ignored, trusted and assumed.

use super::figures::signed_percent;
use super::page::Page;
use super::trust::{trust_mark, trust_word};
use super::views::ResultMeta;
use crate::analysis::RunResult;
use crate::calibrate::interval::{FigureInterval, ModelInterval};
use crate::cost::Trust;

/// Reasons of the verdict, broken laws, flags without effect, defaults that were assumed.
pub(super) fn caveats(page: &mut Page, result: &RunResult, meta: &ResultMeta) {
    page.listed("why", &result.reasons);
    page.listed("BUG, conservation violated", &result.violations);
    page.listed("ignored", &meta.ignored);
    page.listed("note", &meta.notes);
    page.listed("trust", &trust_lines(&meta.trust));
    page.listed("model ±", &model_lines(result, meta));
    page.listed("assumed", &assumed(&meta.assumptions));
}

/// What the parameters' uncertainty makes of the figures, where that is known.
pub(super) fn model_lines(result: &RunResult, meta: &ResultMeta) -> Vec<String> {
    // Without an answer every figure is 0 whatever the model, and "−0 % to +0 %" would read as certainty.
    let known = meta.model_interval.iter().filter(|_| result.whole.completed > 0);
    known.filter_map(model_interval).collect()
}

/// The parts of a step with their marks: one line, or one for the pools that each is told of, `chat: …`.
pub(super) fn trust_lines(trust: &[(String, Trust)]) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, trust) in trust {
        let (of, part) = name.split_once(": ").unwrap_or(("", name));
        let mark = format!("{} {part} {}", trust_mark(*trust), trust_word(*trust));
        match lines.iter_mut().find(|(known, _)| *known == of) {
            Some((_, marks)) => marks.push(mark),
            None => lines.push((of, vec![mark])),
        }
    }
    let line = |(of, marks): (&str, Vec<String>)| match of {
        "" => marks.join("   "),
        of => format!("{of}: {}", marks.join("   ")),
    };
    lines.into_iter().map(line).collect()
}

/// What the parameters' uncertainty makes of each figure, and which part of a step makes most of it: sampling apart.
pub(super) fn model_interval(model: &ModelInterval) -> Option<String> {
    let figure = |figure: &FigureInterval| {
        let (down, up) = figure.factors_90();
        let name = match figure.name {
            "mean_ttft_ms" => "TTFT mean",
            "p99_ttft_ms" => "TTFT p99",
            "mean_tpot_ms" => "TPOT",
            "mean_e2el_ms" => "E2EL",
            _ => "tok/s",
        };
        format!("{name} {} to {}", signed_percent(down - 1.0), upwards(up))
    };
    // A figure that is nothing in every run, as TPOT is where answers leave whole, has no error either.
    let is_told = |one: &&FigureInterval| one.factors_90() != (1.0, 1.0);
    let figures: Vec<String> = model.figures.iter().filter(is_told).map(figure).collect();
    let mut told = model.figures.iter().filter(is_told);
    let tpot = told.find(|figure| figure.name == "mean_tpot_ms");
    let worst = tpot.and_then(FigureInterval::worst);
    let mostly = worst.map_or(String::new(), |component| {
        format!(" (TPOT mostly by {})", component.name().replace('_', " "))
    });
    (!figures.is_empty()).then(|| format!("{}, 90 %{mostly}", figures.join(" · ")))
}

/// Factor from which a model's interval says nothing but that saturation lies within it.
const TENFOLD: f64 = 10.0;

/// The upper end of an interval as a percentage, or in words.
fn upwards(factor: f64) -> String {
    if factor > TENFOLD {
        return "more than tenfold (too wide to say: within the model's error it saturates)".to_owned();
    }
    signed_percent(factor - 1.0)
}

/// Values that nobody gave, in one sentence; none where there are none.
pub(super) fn assumed(assumptions: &[String]) -> Vec<String> {
    let all = (!assumptions.is_empty()).then(|| assumptions.join(" · "));
    all.into_iter().collect()
}
