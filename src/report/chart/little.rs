//! Little's law: the area under N(t), and L beside λW for the system, the queue and the batch.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::analysis::RunResult;
use crate::metrics::LittleCheck;

const WIDTH: f64 = 820.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 716.0;
const PANEL_HEIGHT: f64 = 210.0;
const ROW: f64 = 34.0;

/// Draws the audit of a whole run.
#[must_use]
pub fn little(result: &RunResult, subject: &str) -> Picture {
    let checks = [
        ("system", result.little.system, Colour::PURPLE),
        ("waiting", result.little.waiting, Colour::VERMILLION),
        ("running", result.little.running, Colour::BLUE),
    ];
    let mut picture = Picture::new(&title(&checks), WIDTH, 0.0);
    let top = head(&mut picture, LEFT, subject) + 40.0;
    let bottom = area(&mut picture, result, top);
    rows(&mut picture, &checks, bottom + 108.0);
    picture.height = bottom + 108.0 + ROW * checks.len() as f64 + 6.0;
    picture
}

/// |L − λW| over the larger of both; zero where both are.
fn mismatch(check: &LittleCheck) -> f64 {
    let product = check.lambda * check.w;
    let larger = check.l.max(product);
    if larger > 0.0 {
        (check.l - product).abs() / larger
    } else {
        0.0
    }
}

fn title(checks: &[(&str, LittleCheck, Colour)]) -> String {
    let worst = checks
        .iter()
        .map(|(_, check, _)| mismatch(check))
        .fold(0.0, f64::max);
    if worst < 1e-6 {
        "Little's law holds: L = λW for the system, the queue and the batch".into()
    } else {
        format!("L and λW differ by at most {}", figures::percent(worst))
    }
}

fn area(picture: &mut Picture, result: &RunResult, top: f64) -> f64 {
    let end = result.series.last().map_or(result.whole.duration_s, |point| {
        point.t_s.max(result.whole.duration_s)
    });
    let x = Axis::fixed(0.0, if end > 0.0 { end } else { 1.0 }, Quantity::Time);
    let mean = result.little.system.l;
    let y = Axis::linear(
        result.series.iter().map(|point| point.in_system).chain([mean]),
        Quantity::Number,
    );
    let panel = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + PANEL_HEIGHT,
        x,
        y,
    };
    panel.rules(picture, "Requests in the system, N(t)", 5);
    let points: Vec<(f64, f64)> = result
        .series
        .iter()
        .map(|point| (point.t_s, point.in_system))
        .collect();
    let pixels = panel.pixels(&points);
    match (pixels.first(), pixels.last()) {
        (Some(&first), Some(&last)) if pixels.len() > 1 => {
            let mut outline = pixels.clone();
            outline.extend([(last.0, panel.bottom), (first.0, panel.bottom)]);
            picture.area(outline, Colour::PURPLE.faded(0.25));
            picture.line(pixels, Colour::PURPLE, 1.4);
        }
        (Some(&only), _) => picture.dot(only, 3.0, Colour::PURPLE),
        _ => nothing(picture, &panel, "no state was recorded"),
    }
    let (_, height) = panel.pixel((0.0, mean));
    picture.dashes((panel.left, height), (panel.right, height), Colour::INK, 1.2);
    let label = format!("L = {}", figures::significant(mean));
    picture.text(
        (panel.right + 8.0, height + 4.0),
        &label,
        Font::LABEL,
        Anchor::Start,
        Colour::INK,
    );
    panel.foot(picture, 8);
    panel.foot_labels(picture, "simulated time", 8);
    panel.bottom
}

/// One row a subsystem: a dot at L, a ring at λW, and the numbers.
fn rows(picture: &mut Picture, checks: &[(&str, LittleCheck, Colour)], top: f64) {
    let heading = "L from the area under N(t) (dot), λW from each request's own times (ring)";
    picture.text(
        (LEFT, top - 26.0),
        heading,
        Font::HEADING,
        Anchor::Start,
        Colour::INK,
    );
    let values = checks
        .iter()
        .flat_map(|(_, check, _)| [check.l, check.lambda * check.w]);
    let axis = Axis::log(values, Quantity::Number);
    let (from, to) = (LEFT + 70.0, 470.0);
    let at = |value: f64| from + axis.position(value) * (to - from);
    for (index, (name, check, colour)) in checks.iter().enumerate() {
        let y = top + ROW * index as f64 + 8.0;
        let product = check.lambda * check.w;
        picture.text((LEFT, y + 4.0), name, Font::LABEL, Anchor::Start, *colour);
        picture.line(vec![(from, y), (to, y)], Colour::RULE, 1.0);
        if check.l > 0.0 && product > 0.0 {
            let (l, lambda_w) = (at(check.l), at(product));
            picture.line(vec![(l, y), (lambda_w, y)], *colour, 2.0);
            picture.ring((lambda_w, y), 7.0, *colour);
            picture.dot((l, y), 3.6, *colour);
        }
        let numbers = format!(
            "L {}    λW {} /s × {} = {}",
            figures::significant(check.l),
            figures::significant(check.lambda),
            figures::time(check.w),
            figures::significant(product)
        );
        picture.text(
            (to + 20.0, y + 4.0),
            &numbers,
            Font::NOTE,
            Anchor::Start,
            Colour::INK,
        );
    }
}
