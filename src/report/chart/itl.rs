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

/// The gaps of an interval, or of several together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gaps {
    /// When, in seconds.
    t_s: f64,
    mean_s: f64,
    longest_s: f64,
    number: f64,
}

/// The intervals in which gaps ended.
fn gaps(series: &[SeriesPoint]) -> Vec<Gaps> {
    let known = series.iter().filter_map(|point| {
        Some(Gaps {
            t_s: point.t_s,
            mean_s: point.mean_itl_s?,
            longest_s: point.max_itl_s?,
            number: point.gaps as f64,
        })
    });
    known.filter(|gaps| gaps.number > 0.0).collect()
}

/// The mean of all gaps, every one of them with the same weight, as a run's table has it of the same time; `None` of none.
fn mean(all: &[Gaps]) -> Option<f64> {
    let number: f64 = all.iter().map(|gaps| gaps.number).sum();
    (number > 0.0).then(|| all.iter().map(|gaps| gaps.mean_s * gaps.number).sum::<f64>() / number)
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
    let means = runs.iter().filter_map(|(_, series)| mean(&gaps(series)));
    let means: Vec<String> = means.map(figures::time).collect();
    format!(
        "Longest gap between two tokens: {} (mean {})",
        each.join(", "),
        means.join(", ")
    )
}

fn draw(picture: &mut Picture, panel: &Panel, series: &[SeriesPoint]) {
    let all = gaps(series);
    if all.is_empty() {
        return nothing(picture, panel, "no gaps between tokens");
    }
    // Neighbours are taken together, as many as make a column wide enough to be seen: spikes that touch look like a level.
    let known = columns(&all);
    let ups = known.iter().map(|gaps| panel.pixel((gaps.t_s, gaps.longest_s)));
    let downs = known
        .iter()
        .rev()
        .map(|gaps| panel.pixel((gaps.t_s, gaps.mean_s)));
    let outline: Vec<(f64, f64)> = ups.clone().chain(downs).collect();
    if known.len() > 1 {
        picture.area(outline, Colour::VERMILLION.faded(0.22));
        picture.line(ups.collect(), Colour::VERMILLION, 1.1);
    }
    let means: Vec<(f64, f64)> = known.iter().map(|gaps| (gaps.t_s, gaps.mean_s)).collect();
    if let [only] = known[..] {
        picture.dot(panel.pixel((only.t_s, only.longest_s)), 2.5, Colour::VERMILLION);
        picture.dot(panel.pixel((only.t_s, only.mean_s)), 2.5, Colour::BLUE);
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
    if let Some(mean) = mean(&all) {
        labels.push(label(mean, format!("mean {}", figures::time(mean)), Colour::BLUE));
    }
    panel.end_labels(picture, labels);
}

/// Columns over the width of a panel.
const COLUMNS_MAX: usize = 100;

/// Neighbours taken together: the mean of all of their gaps, the longest of all.
fn columns(known: &[Gaps]) -> Vec<Gaps> {
    let each = known.len().div_ceil(COLUMNS_MAX).max(1);
    let column = |chunk: &[Gaps]| {
        Some(Gaps {
            t_s: chunk.iter().map(|gaps| gaps.t_s).sum::<f64>() / chunk.len() as f64,
            mean_s: mean(chunk)?,
            longest_s: chunk.iter().map(|gaps| gaps.longest_s).fold(0.0, f64::max),
            number: chunk.iter().map(|gaps| gaps.number).sum(),
        })
    };
    known.chunks(each).filter_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::single_server;
    use crate::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};

    #[test]
    fn the_mean_of_the_chart_is_that_of_the_table() {
        let mut recorder = Recorder::new(RecorderOptions {
            fleet: Fleet::alike(1, 100, 16),
            slo: SloLimits::default(),
            records: Records::None,
        });
        let end = single_server::two_sequences(&mut recorder);
        let mut run = recorder.finish(end);
        let told = |series: &[SeriesPoint]| mean(&gaps(series)).unwrap_or(0.0);
        let table = run.whole.itl.mean_s().unwrap_or(0.0);
        assert!(table > 0.0);
        assert!(
            (told(&run.series) - table).abs() < 1e-9 * table,
            "{} {table}",
            told(&run.series)
        );
        // First tokens end no gap: an interval of many does not count for more.
        let with_gaps = run.series.iter_mut().find(|point| point.gaps > 0);
        with_gaps.expect("there are gaps").output_tokens_per_s *= 50.0;
        assert!((told(&run.series) - table).abs() < 1e-9 * table);
    }

    #[test]
    fn a_column_has_the_mean_of_its_gaps_and_not_of_its_intervals() {
        let interval = |t_s, mean_s, number| Gaps {
            t_s,
            mean_s,
            longest_s: mean_s,
            number,
        };
        let mut many = vec![interval(0.0, 0.010, 99.0), interval(1.0, 0.110, 1.0)];
        many.extend((2..200).map(|at| interval(f64::from(at), 0.010, 50.0)));
        let columns = columns(&many);
        assert_eq!(columns.len(), 100);
        assert!((columns[0].mean_s - 0.011).abs() < 1e-12, "{:?}", columns[0]);
        assert_eq!(columns[0].longest_s, 0.110);
    }
}
