//! Gaps between tokens over simulated time: the longest and the mean of each interval, a panel for each variant.
//!
//! A percentile hides when it happened. Where a whole prompt is one step, every answer that runs waits for it, and the
//! longest gap has spikes; chunks flatten them. The axis is logarithmic, and the same in all panels.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{EndLabel, Panel, head};
use super::scene::{Colour, Picture};
use crate::metrics::SeriesPoint;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 716.0;
const PANEL_HEIGHT: f64 = 130.0;
const PANEL_GAP: f64 = 44.0;

/// Draws the gaps of one run, or of several under each other, each with a name.
#[must_use]
pub fn itl(runs: &[(String, &[SeriesPoint])], subject: &str) -> Picture {
    let mut picture = Picture::new(&title(runs), WIDTH, 0.0);
    let note = format!("{subject}. Blue: mean gap; orange: the longest gap of each interval. Logarithmic.");
    let mut top = head(&mut picture, LEFT, &note) + 40.0;
    let all = || runs.iter().flat_map(|(_, series)| series.iter());
    let end = all().map(|point| point.t_s).fold(0.0, f64::max);
    let x = Axis::fixed(0.0, if end > 0.0 { end } else { 1.0 }, Quantity::Time);
    let values = all()
        .flat_map(|point| [point.mean_itl_s, point.max_itl_s])
        .flatten();
    let y = Axis::log(values, Quantity::Time);
    for (index, (name, series)) in runs.iter().enumerate() {
        let panel = Panel {
            left: LEFT,
            top,
            right: RIGHT,
            bottom: top + PANEL_HEIGHT,
            x,
            y,
        };
        let heading = match name.as_str() {
            "" => "Gap between two tokens".to_owned(),
            name => format!("{name}: gap between two tokens"),
        };
        panel.rules(&mut picture, &heading, 4);
        draw(&mut picture, &panel, series);
        panel.foot(&mut picture, 8);
        if index + 1 == runs.len() {
            panel.foot_labels(&mut picture, "simulated time", 8);
        }
        top = panel.bottom + PANEL_GAP;
    }
    picture.height = top - PANEL_GAP + 56.0;
    picture
}

fn longest(series: &[SeriesPoint]) -> Option<f64> {
    series.iter().filter_map(|point| point.max_itl_s).reduce(f64::max)
}

/// The mean of all gaps, each interval with the weight of its tokens.
fn mean(series: &[SeriesPoint]) -> Option<f64> {
    let pairs = || {
        series
            .iter()
            .filter_map(|point| Some((point.mean_itl_s?, point.output_tokens_per_s)))
    };
    let tokens: f64 = pairs().map(|(_, weight)| weight).sum();
    (tokens > 0.0).then(|| pairs().map(|(gap, weight)| gap * weight).sum::<f64>() / tokens)
}

fn title(runs: &[(String, &[SeriesPoint])]) -> String {
    let each: Vec<String> = runs
        .iter()
        .filter_map(|(name, series)| {
            let longest = figures::time(longest(series)?);
            Some(if name.is_empty() {
                longest
            } else {
                format!("{name} {longest}")
            })
        })
        .collect();
    if each.is_empty() {
        return "No gaps between tokens were seen".to_owned();
    }
    let means = runs.iter().filter_map(|(_, series)| mean(series));
    let means: Vec<String> = means.map(figures::time).collect();
    format!(
        "Longest gap between two tokens: {} (mean {})",
        each.join(", "),
        means.join(", ")
    )
}

fn draw(picture: &mut Picture, panel: &Panel, series: &[SeriesPoint]) {
    let known: Vec<(f64, f64, f64)> = series
        .iter()
        .filter_map(|point| Some((point.t_s, point.mean_itl_s?, point.max_itl_s?)))
        .collect();
    if known.is_empty() {
        return nothing(picture, panel, "no gaps between tokens");
    }
    // Neighbours are taken together, as many as make a column wide enough to be seen: spikes that touch look like a level.
    let known = columns(&known);
    let ups = known.iter().map(|&(t_s, _, longest)| panel.pixel((t_s, longest)));
    let downs = known.iter().rev().map(|&(t_s, mean, _)| panel.pixel((t_s, mean)));
    let outline: Vec<(f64, f64)> = ups.clone().chain(downs).collect();
    if known.len() > 1 {
        picture.area(outline, Colour::VERMILLION.faded(0.22));
        picture.line(ups.collect(), Colour::VERMILLION, 1.1);
    }
    let means: Vec<(f64, f64)> = known.iter().map(|&(t_s, mean, _)| (t_s, mean)).collect();
    if let [(t_s, mean, longest)] = known[..] {
        picture.dot(panel.pixel((t_s, longest)), 2.5, Colour::VERMILLION);
        picture.dot(panel.pixel((t_s, mean)), 2.5, Colour::BLUE);
    }
    panel.curve(picture, &means, Colour::BLUE, 1.6);
    let label = |value: f64, text: String, colour| EndLabel {
        at: (panel.right, panel.pixel((0.0, value)).1),
        text,
        colour,
    };
    let mut labels = Vec::new();
    if let Some(longest) = longest(series) {
        labels.push(label(
            longest,
            format!("longest {}", figures::time(longest)),
            Colour::VERMILLION,
        ));
    }
    if let Some(mean) = mean(series) {
        labels.push(label(mean, format!("mean {}", figures::time(mean)), Colour::BLUE));
    }
    panel.end_labels(picture, labels);
}

/// Columns over the width of a panel.
const COLUMNS_MAX: usize = 100;

/// (time, mean, longest) of neighbours taken together: the mean of the means, the longest of all.
fn columns(known: &[(f64, f64, f64)]) -> Vec<(f64, f64, f64)> {
    let each = known.len().div_ceil(COLUMNS_MAX).max(1);
    let column = |chunk: &[(f64, f64, f64)]| {
        let mean = |of: fn(&(f64, f64, f64)) -> f64| chunk.iter().map(of).sum::<f64>() / chunk.len() as f64;
        let longest = chunk.iter().map(|point| point.2).fold(0.0, f64::max);
        (mean(|point| point.0), mean(|point| point.1), longest)
    };
    known.chunks(each).map(column).collect()
}
