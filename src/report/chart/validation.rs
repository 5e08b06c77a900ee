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
}

/// Draws up to four panels, two in a row.
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
        panel.curve(picture, &[(low, low), (high, high)], Colour::INK, 1.0);
        dots(picture, &panel, &scatter.points);
    }
    panel.foot(picture, 5);
    panel.foot_labels(picture, "measured (upwards: predicted)", 5);
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
    picture.text(
        (panel.left + 8.0, panel.top + 16.0),
        &text,
        Font::LABEL,
        Anchor::Start,
        Colour::GREY,
    );
}
