//! What a full server serves, where that is surely less than what saturates it: a dashed line of saturation's colour in every panel,
//! named in the panel of throughput.

use crate::report::chart::panel::Panel;
use crate::report::chart::place::{Place, best};
use crate::report::chart::scene::{Anchor, Colour, Font, Picture};
use crate::report::figures;
use crate::report::views::KneeView;

/// What a caption says of it.
pub(super) const MEANING: &str =
    " Between what it serves once full and saturation a burst that fills it is never worked off.";

/// The line, where it is known.
pub(super) fn line(picture: &mut Picture, view: &KneeView, panel: &Panel) {
    if let Some(full) = view.when_full {
        let x = panel.pixel_x(full.served.value);
        picture.dashes((x, panel.top), (x, panel.bottom), Colour::VERMILLION, 1.5);
    }
}

/// What is drawn, as pixels.
type Drawn<'a> = &'a [(f64, f64)];

/// Its name and its interval beside it, or beside another of the lines that stand `upright`, where they cover least of them and of
/// the `curves`.
pub(super) fn name(
    picture: &mut Picture,
    view: &KneeView,
    panel: &Panel,
    (upright, curves): (Drawn<'_>, Drawn<'_>),
) {
    /// Between the line and the words.
    const GAP: f64 = 6.0;
    /// From the head of the first line to the foot of the second.
    const HEIGHT: f64 = 28.0;
    /// Distance between two heights that are tried.
    const STEP: f64 = 4.0;
    let Some(full) = view.when_full else {
        return;
    };
    let served = full.served;
    let lines = [
        (
            format!("once full {} req/s", figures::significant_down(served.value)),
            Font::LABEL,
        ),
        (
            format!(
                "{} {}",
                view.certainty(),
                figures::interval_outwards(served.low, served.high)
            ),
            Font::NOTE,
        ),
    ];
    let width = lines
        .iter()
        .map(|(text, font)| font.width(text))
        .fold(0.0, f64::max);
    let x = panel.pixel_x(served.value);
    let heights = ((panel.bottom - panel.top - HEIGHT) / STEP).max(0.0) as usize;
    // A line's pixels have one place across.
    let mut lines_at: Vec<f64> = upright.iter().map(|(at, _)| *at).collect();
    lines_at.dedup();
    let lefts = lines_at.iter().flat_map(|at| [at - GAP - width, at + GAP]);
    let candidates = lefts.flat_map(|left| {
        (0..=heights).rev().map(move |height| Place {
            left,
            top: panel.top + STEP * height as f64,
            right: left + width,
            bottom: panel.top + STEP * height as f64 + HEIGHT,
        })
    });
    let cost = |place: &Place| {
        let away = (place.left - x).max(x - place.right).max(0.0);
        // A pixel of a curve is worse than all the width.
        1000 * (place.covers(upright, 0.0) + place.covers(curves, 2.0)) + away as usize
    };
    let page = Place {
        left: panel.left,
        top: panel.top,
        right: panel.right,
        bottom: panel.bottom,
    };
    let Some(place) = best(candidates, cost, &[], &page) else {
        return;
    };
    let (at, anchor) = match place.right < x + GAP {
        true => (place.right, Anchor::End),
        false => (place.left, Anchor::Start),
    };
    for ((text, font), below) in lines.into_iter().zip([12.0, 26.0]) {
        picture.text((at, place.top + below), &text, font, anchor, Colour::VERMILLION);
    }
}
