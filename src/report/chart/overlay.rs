//! Running and waiting sequences over time, simulated over measured.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{EndLabel, Panel, head};
use super::scene::{Colour, Picture};
use crate::validate::requests::Sample;

const WIDTH: f64 = 820.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 716.0;
const PANEL_HEIGHT: f64 = 170.0;
const PANEL_GAP: f64 = 44.0;

/// Heading, colour and value of one state.
type State = (&'static str, Colour, fn(&Sample) -> f64);

/// Draws both states, measured in ink and simulated in colour.
#[must_use]
pub fn overlay(title: &str, subject: &str, measured: &[Sample], simulated: &[Sample]) -> Picture {
    let mut picture = Picture::new(title, WIDTH, 0.0);
    let mut top = head(&mut picture, LEFT, subject) + 40.0;
    let all = || measured.iter().chain(simulated);
    let end = all().map(|sample| sample.t_s).fold(1.0, f64::max);
    let x = Axis::fixed(0.0, end, Quantity::Time);
    let rows: [State; 2] = [
        ("Running sequences", Colour::BLUE, |sample| sample.running),
        ("Waiting sequences", Colour::VERMILLION, |sample| sample.waiting),
    ];
    for (index, (heading, colour, of)) in rows.iter().enumerate() {
        let panel = Panel {
            left: LEFT,
            top,
            right: RIGHT,
            bottom: top + PANEL_HEIGHT,
            x,
            y: Axis::linear(all().map(of), Quantity::Number),
        };
        panel.rules(&mut picture, heading, 4);
        if measured.is_empty() && simulated.is_empty() {
            nothing(&mut picture, &panel, "no state was recorded");
        }
        let mut labels = Vec::new();
        for (name, samples, colour, width) in [
            ("measured", measured, Colour::INK, 1.6),
            ("simulated", simulated, *colour, 1.6),
        ] {
            let points: Vec<(f64, f64)> = samples.iter().map(|sample| (sample.t_s, of(sample))).collect();
            panel.curve(&mut picture, &points, colour, width);
            let peak = points.iter().map(|point| point.1).fold(0.0, f64::max);
            if let Some(&last) = points.last() {
                labels.push(EndLabel {
                    at: (panel.right, panel.pixel(last).1),
                    text: format!("{name}, {} at most", figures::significant(peak)),
                    colour,
                });
            }
        }
        panel.end_labels(&mut picture, labels);
        panel.foot(&mut picture, 8);
        if index + 1 == rows.len() {
            panel.foot_labels(&mut picture, "time since the first arrival", 8);
        }
        top = panel.bottom + PANEL_GAP;
    }
    picture.width = WIDTH + 60.0;
    picture.height = top - PANEL_GAP + 56.0;
    picture
}
