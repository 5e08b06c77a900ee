//! Predicted against measured, a panel a figure on equal logarithmic axes: on the diagonal is right.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::scene::{Anchor, Colour, Font, Picture};

const SIDE: f64 = 300.0;
const LEFT: f64 = 84.0;
const GAP: (f64, f64) = (110.0, 96.0);

/// One panel's points.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// What is compared, `time to first token, ms`.
    pub name: String,
    /// Whether values are seconds.
    pub is_time: bool,
    /// (measured, predicted, whether the row fitted a calibration); all above zero.
    pub points: Vec<(f64, f64, bool)>,
    /// How far off they are, in words; a cloud of many points is drawn with it, and with lines of ±25 %.
    pub spread: Option<String>,
}

/// Draws panels, two in a row.
#[must_use]
pub fn validation(title: &str, subject: &str, scatters: &[Scatter]) -> Picture {
    let mut picture = Picture::new(title, LEFT + 2.0 * SIDE + GAP.0 + 40.0, 0.0);
    let top = head(&mut picture, LEFT, subject) + 40.0;
    for (index, scatter) in scatters.iter().enumerate() {
        let (column, row) = ((index % 2) as f64, (index / 2) as f64);
        let (left, top) = (LEFT + column * (SIDE + GAP.0), top + row * (SIDE + GAP.1));
        panel(&mut picture, scatter, left, top);
        picture.height = picture.height.max(top + SIDE + 60.0);
    }
    picture
}

fn panel(picture: &mut Picture, scatter: &Scatter, left: f64, top: f64) {
    let values = || {
        scatter
            .points
            .iter()
            .flat_map(|(measured, predicted, _)| [*measured, *predicted])
    };
    let quantity = if scatter.is_time {
        Quantity::Time
    } else {
        Quantity::Number
    };
    let axis = if scatter.points.is_empty() {
        Axis::fixed(0.0, 1.0, quantity)
    } else {
        Axis::log(values(), quantity)
    };
    let panel = Panel {
        left,
        top,
        right: left + SIDE,
        bottom: top + SIDE,
        x: axis,
        y: axis,
    };
    panel.rules(picture, &scatter.name, 5);
    if scatter.points.is_empty() {
        nothing(picture, &panel, "no row has it");
    } else {
        let (low, high) = (axis.low(), axis.high());
        if let Some(spread) = &scatter.spread {
            let grey = Colour::GREY.faded(0.55);
            panel.curve(picture, &[(low, BAND * low), (high / BAND, high)], grey, 0.8);
            panel.curve(picture, &[(BAND * low, low), (high, high / BAND)], grey, 0.8);
            cloud(picture, &panel, &scatter.points);
            words(picture, &panel, spread);
        } else {
            dots(picture, &panel, &scatter.points);
        }
        panel.curve(picture, &[(low, low), (high, high)], Colour::INK, 1.0);
    }
    panel.foot(picture, 5);
    panel.foot_labels(picture, "measured (upwards: predicted)", 5);
}

/// Predictions between the lines beside the diagonal are within 25 %.
const BAND: f64 = 1.25;

/// Many points: small and translucent, those that nothing was fitted to above the others.
fn cloud(picture: &mut Picture, panel: &Panel, points: &[(f64, f64, bool)]) {
    for is_fitted in [true, false] {
        let colour = if is_fitted { Colour::PURPLE } else { Colour::BLUE };
        for (measured, predicted, _) in points.iter().filter(|point| point.2 == is_fitted) {
            picture.dot(panel.pixel((*measured, *predicted)), 1.9, colour.faded(0.5));
        }
    }
}

/// Words in the panel's upper left corner, where no prediction is ten times too slow, clear of the rules.
fn words(picture: &mut Picture, panel: &Panel, text: &str) {
    let widest = text
        .lines()
        .map(|line| Font::LABEL.width(line))
        .fold(0.0, f64::max);
    let height = 15.0 * text.lines().count() as f64;
    let corner = (panel.left + 4.0, panel.top + 4.0);
    picture.rectangle(
        corner,
        (corner.0 + widest + 8.0, corner.1 + height + 2.0),
        Colour::WHITE,
    );
    for (index, line) in text.lines().enumerate() {
        picture.text(
            (panel.left + 8.0, panel.top + 16.0 + 15.0 * index as f64),
            line,
            Font::LABEL,
            Anchor::Start,
            Colour::GREY,
        );
    }
}

fn dots(picture: &mut Picture, panel: &Panel, points: &[(f64, f64, bool)]) {
    for &(measured, predicted, fitted) in points {
        let at = panel.pixel((measured, predicted));
        if fitted {
            picture.ring(at, 3.0, Colour::PURPLE);
        } else {
            picture.dot(at, 2.6, Colour::BLUE.faded(0.6));
        }
    }
    let fitted = points.iter().filter(|point| point.2).count();
    let text = format!(
        "{} rows{}",
        figures::count(points.len() as u64),
        if fitted > 0 {
            format!(", {fitted} of them fitted (rings)")
        } else {
            String::new()
        }
    );
    words(picture, panel, &text);
}
