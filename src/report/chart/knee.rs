//! Latency and throughput against offered load, or the number in flight of a closed loop, with the objectives, the knee and saturation.

mod flags;
mod full;
mod promised;

use self::flags::flags;
use self::promised::{drawn_classes, limits, of_classes};
use super::super::figures;
use super::super::text_knee::{asked, in_flight};
use super::super::views::{KneePoint, KneeView};
use super::axis::{Axis, Quantity};
use super::panel::{EndLabel, Panel, head};
use super::place::dense;
use super::scene::{Anchor, Colour, Font, Picture};
use crate::analysis::{Estimate, Verdict};

const LEFT: f64 = 72.0;
const RIGHT: f64 = 694.0;
const WIDTH: f64 = 820.0;
const PANEL_HEIGHT: f64 = 150.0;
const PANEL_GAP: f64 = 44.0;
/// Room above the first panel for the names of the knee and of saturation.
const FLAGS: f64 = 76.0;
/// Rates up to so many times saturation are drawn.
const BEYOND: f64 = 2.0;

const FIRST_HEADING: &str = "Time to first token, logarithmic";

/// Draws a knee search: three panels over one axis of offered load, or of the number in flight of a closed loop.
///
/// Past saturation no latency is drawn, since none is a property of the system; critical points are hollow.
#[must_use]
pub fn knee(view: &KneeView) -> Picture {
    let view = &near(view);
    let height = 520.0 + FLAGS + PANEL_HEIGHT;
    let mut picture = Picture::new(&title(view), WIDTH, height);
    let mut top = head(&mut picture, LEFT, &subtitle(view)) + FLAGS;
    let x = rate_axis(view);
    let panel = |top: f64, y: Axis| Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + PANEL_HEIGHT,
        x,
        y,
    };

    let panels = [
        panel(top, latency_axis(view, &TTFT, "ttft")),
        panel(top + PANEL_HEIGHT + PANEL_GAP, latency_axis(view, &TPOT, "tpot")),
        panel(top + 2.0 * (PANEL_HEIGHT + PANEL_GAP), throughput_axis(view)),
    ];
    bands(&mut picture, view, &panels);
    latencies(&mut picture, view, &panels[0], FIRST_HEADING, &TTFT, "ttft");
    latencies(
        &mut picture,
        view,
        &panels[1],
        "Time per output token and gaps between tokens, logarithmic",
        &TPOT,
        "tpot",
    );
    throughput(&mut picture, view, &panels[2]);
    flags(&mut picture, view, &panels[0]);
    for panel in &panels {
        panel.foot(&mut picture, 8);
    }
    panels[2].foot_labels(&mut picture, view.of.axis(), 8);
    top = panels[2].bottom;
    picture.height = top + 56.0;
    picture
}

/// Without the rates so far beyond saturation that they would press all else into a corner.
fn near(view: &KneeView) -> KneeView {
    let furthest = view.ceiling().map_or(f64::INFINITY, |rate| BEYOND * rate.high);
    let mut near = view.clone();
    near.points.retain(|point| point.load() <= furthest);
    near
}

/// The answer of the text, with what it is an answer about. A subject may be several, so no verb follows it.
fn title(view: &KneeView) -> String {
    let tried = view.of.tried();
    let noun = if view.of.is_loop() { "run" } else { tried };
    let rates = figures::counted(view.points.len() as u64, noun);
    let is_asked = !asked(view).is_empty();
    let finding = match view.knee {
        _ if view.points.is_empty() && view.is_interrupted => {
            format!("INTERRUPTED before any {tried} was simulated")
        }
        None if view.is_interrupted && is_asked && view.only_client().is_none() => {
            format!("INTERRUPTED after {rates}, none of which met the SLO")
        }
        _ if view.is_interrupted => {
            format!("INTERRUPTED after {rates}; until then {}", found(view, is_asked))
        }
        _ => found(view, is_asked),
    };
    format!("{}: {finding}", view.subject)
}

/// What the rates that were tried say.
fn found(view: &KneeView, is_asked: bool) -> String {
    let rate = figures::significant;
    let saturation = match (view.saturates_below(), view.saturation) {
        (Some(high), _) => Some(format!("saturates below {} req/s", rate(high))),
        (None, Some(saturation)) => Some(format!("saturates at {} req/s", rate(saturation.value))),
        (None, None) => None,
    };
    if let Some(pushed) = view.only_client() {
        return format!(
            "{} push at most {} req/s, which is no limit of the server",
            in_flight(view),
            rate(pushed.value)
        );
    }
    match (view.knee, saturation) {
        (Some(knee), _) => format!("{} within the SLO", view.of.told(knee.value)),
        (None, Some(saturation)) if is_asked => format!("no simulated rate meets the SLO; {saturation}"),
        (None, None) if is_asked && !view.points.is_empty() => {
            format!("no simulated {} meets the SLO", view.of.tried())
        }
        (None, Some(saturation)) => saturation,
        (None, None) => format!("latency against {}", view.of.axis()),
    }
}

fn subtitle(view: &KneeView) -> String {
    let asked = asked(view);
    let mut text = String::new();
    if !asked.is_empty() {
        text = format!("SLO: {}.", asked.join(", "));
    }
    if let Some(limited_by) = &view.limited_by {
        // A caption has room for what binds, not for why.
        let what = limited_by.split(". ").next().unwrap_or_default();
        let what = what.split(": ").next().unwrap_or_default();
        text = format!("{text} Limited by {what}.");
    }
    let mut critical = view
        .points
        .iter()
        .filter(|point| point.verdict == Verdict::Critical && point.ttft.is_some())
        .peekable();
    if critical.peek().is_some() {
        text.push_str(" Hollow points are critical: ");
        text.push_str(match critical.any(KneePoint::may_be_past_saturation) {
            true => "so near saturation that the figure is what it is at least.",
            false => "too near saturation for a precise figure.",
        });
    }
    text.push_str(&of_classes(view));
    if view.when_full.is_some() {
        text.push_str(full::MEANING);
    }
    text.trim().to_string()
}

fn rate_axis(view: &KneeView) -> Axis {
    let ends = [view.knee, view.ceiling()]
        .into_iter()
        .flatten()
        .map(|estimate| estimate.high);
    Axis::linear(
        view.points.iter().map(KneePoint::load).chain(ends),
        Quantity::Number,
    )
}

fn latency_axis(view: &KneeView, curves: &[Curve], metric: &str) -> Axis {
    let of = |curve: &Curve| view.points.iter().filter_map(curve.of).collect::<Vec<f64>>();
    // Head room, so that the name of the limit does not touch the heading.
    let limits = limits(view, metric);
    let limits = limits.iter().map(|(limit_s, _)| limit_s * 1.3);
    let of_classes = drawn_classes(view, metric);
    let of_classes = of_classes
        .iter()
        .flat_map(|class| class.points.iter().map(|&(_, tail_s)| tail_s));
    Axis::log(
        curves.iter().flat_map(of).chain(of_classes).chain(limits),
        Quantity::Time,
    )
}

fn throughput_axis(view: &KneeView) -> Axis {
    let completed = view
        .points
        .iter()
        .filter_map(|point| point.request_throughput)
        .map(|estimate| estimate.high);
    let offered = view.points.iter().map(|point| point.request_rate);
    let offered = offered.filter(|_| !view.of.is_loop());
    Axis::linear(completed.chain(offered), Quantity::Number)
}

/// Intervals of the knee and of saturation as vertical bands, and the unstable region beyond.
fn bands(picture: &mut Picture, view: &KneeView, panels: &[Panel]) {
    for panel in panels {
        let mut band = |low: f64, high: f64, colour: Colour| {
            let (left, right) = (panel.pixel_x(low), panel.pixel_x(high));
            picture.rectangle((left, panel.top), (right, panel.bottom), colour);
        };
        if let Some(saturation) = view.ceiling() {
            band(saturation.high, panel.x.high(), Colour::AXIS.faded(0.18));
            if view.saturates_below().is_none() {
                band(saturation.low, saturation.high, Colour::VERMILLION.faded(0.15));
            }
        }
        if let Some(knee) = view.knee {
            band(knee.low, knee.high, Colour::BLUE.faded(0.15));
        }
        for (estimate, colour) in marks(view) {
            let x = panel.pixel_x(estimate.value);
            picture.line(vec![(x, panel.top), (x, panel.bottom)], colour, 1.5);
        }
        full::line(picture, view, panel);
    }
}

/// What stands upright in a panel, as pixels: the lines of the knee and of saturation, and that of a full server.
fn upright(view: &KneeView, panel: &Panel) -> Vec<(f64, f64)> {
    let full = view.when_full.map(|full| full.served.value);
    let rates = marks(view).map(|(estimate, _)| estimate.value).chain(full);
    let lines = rates.map(|rate| panel.pixel_x(rate));
    lines
        .flat_map(|x| dense(&[(x, panel.top), (x, panel.bottom)]))
        .collect()
}

fn marks(view: &KneeView) -> impl Iterator<Item = (Estimate, Colour)> {
    let knee = view.knee.map(|estimate| (estimate, Colour::BLUE));
    knee.into_iter()
        .chain(view.ceiling().map(|estimate| (estimate, Colour::VERMILLION)))
}

/// A quantile of a latency over the rates.
struct Curve {
    name: &'static str,
    colour: Colour,
    of: fn(&KneePoint) -> Option<f64>,
}

const TTFT: [Curve; 2] = [
    Curve {
        name: "p99",
        colour: Colour::VERMILLION,
        of: |point| Some(point.ttft?.p99_s),
    },
    Curve {
        name: "p50",
        colour: Colour::BLUE,
        of: |point| Some(point.ttft?.p50_s),
    },
];
const TPOT: [Curve; 3] = [
    Curve {
        name: "ITL p99",
        colour: Colour::PURPLE,
        of: |point| Some(point.itl?.p99_s),
    },
    Curve {
        name: "TPOT p99",
        colour: Colour::VERMILLION,
        of: |point| Some(point.tpot?.p99_s),
    },
    Curve {
        name: "TPOT p50",
        colour: Colour::BLUE,
        of: |point| Some(point.tpot?.p50_s),
    },
];

fn latencies(
    picture: &mut Picture,
    view: &KneeView,
    panel: &Panel,
    heading: &str,
    curves: &[Curve],
    metric: &str,
) {
    panel.rules(picture, heading, 5);
    if metric == "ttft" {
        interval_band(picture, view, panel);
    }
    let mut labels = Vec::new();
    let mut drawn = upright(view, panel);
    for curve in curves {
        let quoted = view
            .points
            .iter()
            .filter_map(|point| (curve.of)(point).map(|seconds| (point, seconds)));
        let points: Vec<(f64, f64)> = quoted
            .clone()
            .map(|(point, seconds)| (point.load(), seconds))
            .collect();
        panel.curve(picture, &points, curve.colour, 2.0);
        drawn.extend(dense(&panel.pixels(&points)));
        for ((point, _), &at) in quoted.zip(&points) {
            match point.verdict {
                Verdict::Critical => picture.ring(panel.pixel(at), 3.5, curve.colour),
                _ => picture.dot(panel.pixel(at), 2.8, curve.colour),
            }
        }
        if let Some(&last) = points.last() {
            let text = format!("{} {}", curve.name, figures::time(last.1));
            labels.push(EndLabel {
                at: beside(panel, last),
                text,
                colour: curve.colour,
            });
        }
    }
    for class in drawn_classes(view, metric) {
        panel.curve(picture, &class.points, class.colour, 1.5);
        drawn.extend(dense(&panel.pixels(&class.points)));
        if let Some(&last) = class.points.last() {
            labels.push(EndLabel {
                at: beside(panel, last),
                text: format!("{} p99 {}", class.name, figures::time(last.1)),
                colour: class.colour,
            });
        }
    }
    panel.limits(picture, &limits(view, metric), &drawn);
    if labels.is_empty() {
        let is_steady = view.points.iter().any(|point| point.ttft.is_some());
        let why = match is_steady {
            true => "no request has a second token",
            false => &format!("no steady state at any simulated {}", view.of.tried()),
        };
        nothing(picture, panel, why);
    }
    panel.end_labels(picture, labels);
}

/// The panel's right edge at the height of a point: bands and marks leave no room beside the point itself.
fn beside(panel: &Panel, point: (f64, f64)) -> (f64, f64) {
    (panel.right, panel.pixel(point).1)
}

/// The interval of p99 TTFT as a band around its curve.
fn interval_band(picture: &mut Picture, view: &KneeView, panel: &Panel) {
    let known: Vec<(f64, Estimate)> = view
        .points
        .iter()
        .filter(|point| point.ttft.is_some())
        .filter_map(|point| point.p99_ttft.map(|interval| (point.load(), interval)))
        .filter(|(_, interval)| interval.high.is_finite())
        .collect();
    band_around(picture, panel, &known, Colour::VERMILLION);
}

/// Intervals at ascending rates as one faded band.
fn band_around(picture: &mut Picture, panel: &Panel, known: &[(f64, Estimate)], colour: Colour) {
    if known.len() < 2 {
        return;
    }
    let upper = known.iter().map(|(rate, interval)| (*rate, interval.high));
    let lower = known.iter().rev().map(|(rate, interval)| (*rate, interval.low));
    let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
    picture.area(panel.pixels(&outline), colour.faded(0.2));
}

/// Completed against offered load: the curve leaves the diagonal where the system saturates. A closed loop has no diagonal.
fn throughput(picture: &mut Picture, view: &KneeView, panel: &Panel) {
    let heading = match view.beside.as_slice() {
        [] => "Throughput, requests completed per second".to_owned(),
        beside => format!(
            "Throughput, requests completed per second, {} included",
            beside.join(" and ")
        ),
    };
    panel.rules(picture, &heading, 4);
    let known: Vec<(f64, Estimate)> = view
        .points
        .iter()
        .filter_map(|point| Some((point.load(), point.request_throughput?)))
        .collect();
    let Some(&(last_rate, last)) = known.last() else {
        return nothing(picture, panel, &format!("no {} was simulated", view.of.tried()));
    };
    let is_loop = view.of.is_loop();
    let offered = [panel.pixel((0.0, 0.0)), panel.pixel((last_rate, last_rate))];
    if !is_loop {
        picture.dashes(offered[0], offered[1], Colour::GREY, 1.0);
    }
    band_around(picture, panel, &known, Colour::GREEN);
    let points: Vec<(f64, f64)> = known
        .iter()
        .map(|(rate, estimate)| (*rate, estimate.value))
        .collect();
    panel.curve(picture, &points, Colour::GREEN, 2.0);
    for &at in &points {
        picture.dot(panel.pixel(at), 2.8, Colour::GREEN);
    }
    let offered = if is_loop { Vec::new() } else { dense(&offered) };
    let curves = [offered, dense(&panel.pixels(&points))];
    full::name(picture, view, panel, (&upright(view, panel), &curves.concat()));
    let label = |text: String, y: f64, colour: Colour| EndLabel {
        at: beside(panel, (last_rate, y)),
        text,
        colour,
    };
    let mut labels = vec![label(
        format!("{} req/s", figures::significant(last.value)),
        last.value,
        Colour::GREEN,
    )];
    // What has no rate is completed, too, and not offered at the rates of this axis. A loop offers what is served.
    if !is_loop && !view.beside.is_empty() {
        labels.push(label("offered beside it".into(), last_rate, Colour::GREY));
    } else if !is_loop && last_rate > last.high {
        labels.push(label("offered".into(), last_rate, Colour::GREY));
    }
    panel.end_labels(picture, labels);
}

/// A sentence in place of curves.
pub(super) fn nothing(picture: &mut Picture, panel: &Panel, sentence: &str) {
    let middle = ((panel.left + panel.right) / 2.0, (panel.top + panel.bottom) / 2.0);
    // On white: a rule may pass there.
    let half = Font::SUBTITLE.width(sentence) / 2.0 + 6.0;
    let (top, bottom) = (middle.1 - 15.0, middle.1 + 7.0);
    picture.rectangle((middle.0 - half, top), (middle.0 + half, bottom), Colour::WHITE);
    picture.text(middle, sentence, Font::SUBTITLE, Anchor::Middle, Colour::GREY);
}

#[cfg(test)]
mod tests;
