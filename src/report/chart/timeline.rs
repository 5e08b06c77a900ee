//! What arrives, and batch, queue and KV usage, over one axis of simulated time.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{EndLabel, Panel, head};
use super::scene::{Colour, Picture};
use crate::analysis::RunResult;
use crate::metrics::SeriesPoint;

const WIDTH: f64 = 820.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 716.0;
const PANEL_HEIGHT: f64 = 130.0;
const PANEL_GAP: f64 = 40.0;
/// Steps of the offered rate at most.
const STEPS: usize = 128;

/// Draws how full the engine was, of replicas that come and go (`scales`) those in service; stretches cut from the steady-state figures are grey.
#[must_use]
pub fn timeline(result: &RunResult, subject: &str, scales: bool) -> Picture {
    let state = &result.steady.as_ref().unwrap_or(&result.whole).occupancy;
    let title = format!(
        "On average {} sequences run, {} wait and {} of the KV cache is in use",
        figures::significant(state.running),
        figures::significant(state.waiting),
        figures::percent(state.kv_usage)
    );
    let mut picture = Picture::new(&title, WIDTH, 0.0);
    let note = result
        .steady_window_s
        .map_or("", |_| ". Grey: warm-up and drain, cut from the averages.");
    let mut top = head(&mut picture, LEFT, &format!("{subject}{note}")) + 40.0;
    let end = result.series.last().map_or(result.whole.duration_s, |point| {
        point.t_s.max(result.whole.duration_s)
    });
    let x = Axis::fixed(0.0, if end > 0.0 { end } else { 1.0 }, Quantity::Time);
    let waiting = result.series.iter().map(|point| point.waiting);
    let running = result.series.iter().map(|point| point.running);
    let kv = result.series.iter().map(|point| point.kv_usage);
    let offered = offered(&result.series);
    let rate = mean_rate(result);
    let arrivals = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + PANEL_HEIGHT,
        x,
        y: Axis::linear(offered.iter().map(|step| step.1), Quantity::Number),
    };
    cuts(&mut picture, result, &arrivals);
    let mean = (format!("mean {}/s", figures::significant(rate)), rate);
    filled(
        &mut picture,
        &arrivals,
        ("Requests sent per second", &offered),
        Colour::PURPLE,
        mean,
    );
    top = arrivals.bottom + PANEL_GAP;
    let rows: [Row<'_>; 3] = [
        Row {
            heading: "Running sequences",
            y: Axis::linear(running, Quantity::Number),
            colour: Colour::BLUE,
            of: |point| point.running,
            mean: format!("mean {}", figures::significant(state.running)),
            mean_at: state.running,
        },
        Row {
            heading: "Waiting sequences",
            y: Axis::linear(waiting, Quantity::Number),
            colour: Colour::VERMILLION,
            of: |point| point.waiting,
            mean: format!("mean {}", figures::significant(state.waiting)),
            mean_at: state.waiting,
        },
        Row {
            // One of them may be full while most are empty.
            heading: match result.by_replica.len() {
                0 | 1 => "KV blocks in use",
                _ if scales => "KV blocks in use, of the replicas in service",
                _ => "KV blocks in use, of all replicas",
            },
            y: Axis::linear(kv, Quantity::Share),
            colour: Colour::GREEN,
            of: |point| point.kv_usage,
            mean: format!("mean {}", figures::percent(state.kv_usage)),
            mean_at: state.kv_usage,
        },
    ];
    for (index, row) in rows.iter().enumerate() {
        let panel = Panel {
            left: LEFT,
            top,
            right: RIGHT,
            bottom: top + PANEL_HEIGHT,
            x,
            y: row.y,
        };
        cuts(&mut picture, result, &panel);
        draw(&mut picture, result, &panel, row);
        if index + 1 == rows.len() {
            panel.foot_labels(&mut picture, "simulated time", 8);
        }
        top = panel.bottom + PANEL_GAP;
    }
    picture.height = top - PANEL_GAP + 56.0;
    picture
}

struct Row<'a> {
    heading: &'a str,
    y: Axis,
    colour: Colour,
    of: fn(&SeriesPoint) -> f64,
    mean: String,
    mean_at: f64,
}

fn draw(picture: &mut Picture, result: &RunResult, panel: &Panel, row: &Row<'_>) {
    let series = result.series.iter();
    let points: Vec<(f64, f64)> = series.map(|point| (point.t_s, (row.of)(point))).collect();
    let mean = (row.mean.clone(), row.mean_at);
    filled(picture, panel, (row.heading, &points), row.colour, mean);
}

/// A curve over its area, with its mean beside it.
fn filled(
    picture: &mut Picture,
    panel: &Panel,
    (heading, points): (&str, &[(f64, f64)]),
    colour: Colour,
    (mean, mean_at): (String, f64),
) {
    panel.rules(picture, heading, 4);
    let pixels = panel.pixels(points);
    match (pixels.first(), pixels.last()) {
        (Some(&first), Some(&last)) if pixels.len() > 1 => {
            let mut outline = pixels.clone();
            outline.extend([(last.0, panel.bottom), (first.0, panel.bottom)]);
            picture.area(outline, colour.faded(0.18));
            picture.line(pixels, colour, 1.4);
        }
        (Some(&only), _) => picture.dot(only, 3.0, colour),
        _ => nothing(picture, panel, "no state was recorded"),
    }
    panel.foot(picture, 8);
    if !points.is_empty() {
        let (_, height) = panel.pixel((0.0, mean_at));
        picture.dashes((panel.left, height), (panel.right, height), colour, 1.2);
        let at = (panel.right, height);
        let text = mean;
        panel.end_labels(picture, vec![EndLabel { at, text, colour }]);
    }
}

/// What was sent per second, as steps: equally many bins each, so many that a burst shows and chance does not hide a ramp.
fn offered(series: &[SeriesPoint]) -> Vec<(f64, f64)> {
    let each = series.len().div_ceil(STEPS).max(1);
    // Bins are equally wide, but for the last.
    let width = match series {
        [first, second, ..] => second.t_s - first.t_s,
        _ => 0.0,
    };
    let step = |(at, bins): (usize, &[SeriesPoint])| {
        let start = (at * each) as f64 * width;
        let rate = bins.iter().map(|bin| bin.arrivals_per_s).sum::<f64>() / bins.len() as f64;
        [(start, rate), (start + bins.len() as f64 * width, rate)]
    };
    series.chunks(each).enumerate().flat_map(step).collect()
}

/// What was sent per second in the stretch that averages are of.
fn mean_rate(result: &RunResult) -> f64 {
    // What follows the last arrival is drain; what is sent within one bar is drawn over all of it.
    let highest = result
        .series
        .iter()
        .map(|point| point.arrivals_per_s)
        .fold(0.0, f64::max);
    if result.steady_window_s.is_none() && result.offered_per_s <= highest {
        return result.offered_per_s;
    }
    let within = |point: &&SeriesPoint| {
        let window = result.steady_window_s;
        window.is_none_or(|(from, to)| (from..=to).contains(&point.t_s))
    };
    let rates = result
        .series
        .iter()
        .filter(within)
        .map(|point| point.arrivals_per_s);
    let (sum, count) = rates.fold((0.0, 0usize), |(sum, count), rate| (sum + rate, count + 1));
    sum / count.max(1) as f64
}

/// Greys what was cut.
fn cuts(picture: &mut Picture, result: &RunResult, panel: &Panel) {
    let Some((from, to)) = result.steady_window_s else {
        return;
    };
    for (start, end) in [(panel.x.low(), from), (to, panel.x.high())] {
        let (left, right) = (panel.pixel_x(start), panel.pixel_x(end));
        picture.rectangle((left, panel.top), (right, panel.bottom), Colour::AXIS.faded(0.16));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures;
    use super::*;

    #[test]
    fn what_is_offered_has_a_pane_of_its_own_in_steps() {
        let svg = timeline(&fixtures::stable_run(), "M on G", false).svg();
        assert!(svg.contains("Requests sent per second"), "{svg}");
        let series: Vec<SeriesPoint> = (0..4)
            .map(|bin| SeriesPoint {
                t_s: f64::from(bin) + 0.5,
                arrivals_per_s: f64::from(10 * bin),
                ..SeriesPoint::default()
            })
            .collect();
        let steps = offered(&series);
        assert_eq!(steps[2..4], [(1.0, 10.0), (2.0, 10.0)]);
        assert_eq!(steps.len(), 8);
        // Many bins are merged, each step the mean of its own.
        let many: Vec<SeriesPoint> = series.iter().copied().cycle().take(512).collect();
        assert!(offered(&many).iter().all(|(_, rate)| (rate - 15.0).abs() < 1e-9));
    }
}
