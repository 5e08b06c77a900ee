//! Hit rate over the size of the prefix cache, with the knee and the pool of a GPU.

use super::super::figures;
use super::super::working_set::{WorkingSetView, answer};
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::place::{Place, best, dense};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::analysis::KNEE_SHARE;

const WIDTH: f64 = 820.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 792.0;
const HEIGHT: f64 = 360.0;
const POINTS: u32 = 400;

/// Draws the curve.
#[must_use]
pub fn working_set(view: &WorkingSetView) -> Picture {
    let curve = &view.curve;
    let mut picture = Picture::new(&sentence(&answer(view)), WIDTH, 0.0);
    let subtitle = format!(
        "{}, {}. Least recently used, one request at a time.",
        view.subject,
        figures::counted(curve.requests, "request")
    );
    let top = head(&mut picture, LEFT, &subtitle) + 40.0;
    let points: Vec<(f64, f64)> = curve
        .points(curve.largest_request_blocks, POINTS)
        .into_iter()
        .map(|(blocks, rate)| (view.tokens(blocks) as f64, rate))
        .collect();
    let pool = view
        .pool
        .as_ref()
        .map(|pool| (view.tokens(pool.blocks) as f64, pool));
    let sizes = points
        .iter()
        .map(|point| point.0)
        .chain(pool.map(|(tokens, _)| tokens));
    let panel = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + HEIGHT,
        x: Axis::log(sizes, Quantity::Number),
        y: Axis::fixed(0.0, 1.0, Quantity::Share),
    };
    panel.rules(&mut picture, "Share of prompt tokens found in the cache", 5);
    let mut ceiling = None;
    if curve.requests == 0 {
        nothing(&mut picture, &panel, "no request came");
    } else {
        let endless = curve.endless_hit_rate();
        let name = format!("an endless cache, {}", figures::percent(endless));
        ceiling = (endless > 0.0).then_some((endless, name));
        if ceiling.is_none() {
            nothing(
                &mut picture,
                &panel,
                "no prompt repeats another's beginning: a cache of any size finds nothing",
            );
        }
        panel.curve(&mut picture, &points, Colour::BLUE, 2.2);
    }
    let mut marks = Vec::new();
    if let Some(knee) = curve.knee_blocks() {
        let tokens = view.tokens(knee) as f64;
        let name = format!(
            "{} of all hits: {} tokens",
            figures::percent(KNEE_SHARE),
            figures::significant(tokens)
        );
        marks.push((tokens, curve.hit_rate(knee), name, Colour::GREEN));
    }
    if let Some((tokens, pool)) = pool {
        let name = format!("{}: {} tokens", pool.name, figures::significant(tokens));
        marks.push((tokens, curve.hit_rate(pool.blocks), name, Colour::VERMILLION));
    }
    for &(tokens, rate, _, colour) in &marks {
        let x = panel.pixel_x(tokens);
        picture.dashes((x, panel.top), (x, panel.bottom), colour, 1.2);
        picture.ring(panel.pixel((tokens, rate)), 5.0, colour);
    }
    // Names come after all lines, which would strike them through, where they cover none but the marks' own.
    let mut drawn = dense(&panel.pixels(&points));
    if let Some((endless, _)) = &ceiling {
        let height = panel.pixel((0.0, *endless)).1;
        drawn.extend(dense(&[(panel.left, height), (panel.right, height)]));
    }
    let page = Place {
        left: panel.left,
        top: panel.top,
        right: panel.right,
        bottom: panel.bottom,
    };
    let mut taken = Vec::new();
    for (tokens, _, name, colour) in marks {
        let x = panel.pixel_x(tokens);
        let width = Font::LABEL.width(&name);
        let candidates = (0..17).flat_map(|row| {
            let bottom = panel.bottom - 10.0 - 20.0 * f64::from(row);
            [x - 9.0 - width, x + 9.0].map(|left| Place {
                left,
                top: bottom - 16.0,
                right: left + width,
                bottom,
            })
        });
        let Some(place) = best(candidates, |place| place.covers(&drawn, 0.0), &taken, &page) else {
            continue;
        };
        picture.rectangle(
            (place.left - 2.0, place.top),
            (place.right + 2.0, place.bottom),
            Colour::WHITE,
        );
        let base = (place.left, place.bottom - 4.0);
        picture.text(base, &name, Font::LABEL, Anchor::Start, colour);
        taken.push(place);
    }
    if let Some((endless, name)) = ceiling {
        // Last, on white: marks that cross the name would strike it through.
        panel.limit(&mut picture, endless, "", Anchor::Start);
        let (left, base) = (panel.left + 4.0, panel.pixel((0.0, endless)).1 - 5.0);
        let right = left + Font::NOTE.width(&name);
        picture.rectangle(
            (left - 2.0, base - 11.0),
            (right + 2.0, base + 3.0),
            Colour::WHITE,
        );
        picture.text((left, base), &name, Font::NOTE, Anchor::Start, Colour::INK);
    }
    panel.foot(&mut picture, 9);
    panel.foot_labels(&mut picture, "size of the cache in tokens, logarithmic", 9);
    picture.height = panel.bottom + 56.0;
    picture
}

/// With a capital, as a title has it.
fn sentence(answer: &str) -> String {
    let mut letters = answer.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
