//! Variants side by side: paired differences with their intervals, and when first tokens came.

use super::super::figures;
use super::super::versus::{Row, Unit, Versus, ends, headline, is_moved, judged, moved, told, written};
use super::axis::{Axis, Quantity};
use super::distribution::staircase;
use super::knee::nothing;
use super::panel::{Panel, head};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::metrics::Distribution;

const WIDTH: f64 = 900.0;
/// Ends of the axis of differences: a figure that doubles is at its right end.
const MOST: f64 = 1.0;
const ROW: f64 = 26.0;

/// Colours of variants in their order.
fn colour(at: usize) -> Colour {
    const COLOURS: [Colour; 5] = [
        Colour::INK,
        Colour::BLUE,
        Colour::VERMILLION,
        Colour::GREEN,
        Colour::PURPLE,
    ];
    COLOURS[at % COLOURS.len()]
}

/// What the colours say.
const LEGEND: &str = "green: better; orange: worse; black: more than chance, of a figure that the title does not count; \
                      grey: may be chance, or less than 1 %";

/// Each measure's paired difference to the base with its 95 % interval. The colours are what the title counts: green is better,
/// orange worse; black moved as surely, and does not count; grey may be chance, or is too small for a word.
#[must_use]
pub fn difference(versus: &Versus) -> Picture {
    const LEFT: f64 = 190.0;
    const RIGHT: f64 = 590.0;
    let mut picture = Picture::new(&headline(versus), WIDTH, 0.0);
    let subtitle = format!(
        "{}, {} × {}. {}",
        versus.subject,
        figures::counted(versus.seeds() as u64, "seed"),
        figures::counted(versus.requests, "request"),
        said(versus)
    );
    let top = head(&mut picture, 24.0, &subtitle) + 40.0;
    let rows = versus.rows();
    let others = versus.variants.len() - 1;
    let lines = (rows.len() * others).max(1) as f64;
    let panel = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + ROW * lines + 8.0,
        x: Axis::fixed(-MOST, MOST, Quantity::Share),
        y: Axis::fixed(0.0, 1.0, Quantity::Number),
    };
    rules(&mut picture, &panel, &versus.variants[0].name);
    let mut y = top + ROW / 2.0 + 4.0;
    for row in &rows {
        for other in 0..others {
            let name = match others {
                1 => row.measure.label.to_owned(),
                _ => format!("{}, {}", row.measure.label, versus.variants[other + 1].name),
            };
            picture.text(
                (LEFT - 14.0, y + 4.0),
                &name,
                Font::NOTE,
                Anchor::End,
                Colour::INK,
            );
            mark(&mut picture, &panel, row, other, y);
            y += ROW;
        }
    }
    if rows.is_empty() {
        nothing(&mut picture, &panel, "no request was completed");
    }
    panel.foot(&mut picture, 8);
    panel.foot_labels(
        &mut picture,
        "difference, 95 % interval (shares in points); an arrowhead goes on beyond the axis",
        8,
    );
    let below = (WIDTH / 2.0, panel.bottom + 58.0);
    picture.text(below, LEGEND, Font::NOTE, Anchor::Middle, Colour::GREY);
    picture.height = panel.bottom + 74.0;
    picture
}

fn said(versus: &Versus) -> String {
    let each = versus.variants.iter();
    each.map(|variant| format!("{}: {}", variant.name, variant.said))
        .collect::<Vec<_>>()
        .join("; ")
}

fn rules(picture: &mut Picture, panel: &Panel, base: &str) {
    for (value, _) in panel.x.ticks(8) {
        let x = panel.pixel_x(value);
        let colour = if value == 0.0 { Colour::AXIS } else { Colour::RULE };
        picture.line(vec![(x, panel.top), (x, panel.bottom)], colour, 1.0);
    }
    picture.text(
        (panel.pixel_x(0.0), panel.top - 10.0),
        &format!("as {base}"),
        Font::HEADING,
        Anchor::Middle,
        Colour::INK,
    );
}

/// One difference: a dot, its interval, and the figures beside it.
fn mark(picture: &mut Picture, panel: &Panel, row: &Row, other: usize, y: f64) {
    let value = |at: usize| row.means[at].map_or("–".to_owned(), |mean| written(row.measure.unit, mean));
    let Some(found) = row.differences[other] else {
        let text = format!("{} → {}", value(0), value(other + 1));
        return picture.text(
            (panel.right + 14.0, y + 4.0),
            &text,
            Font::NOTE,
            Anchor::Start,
            Colour::GREY,
        );
    };
    let interval = told(row.measure.unit, &found);
    let is_known = row.measure.unit == Unit::Share || found.relative.is_some();
    let colour = match judged(row, other) {
        None if is_moved(row, other) => Colour::INK,
        None => Colour::GREY,
        Some(true) => Colour::GREEN,
        Some(false) => Colour::VERMILLION,
    };
    if is_known {
        let x = |value: f64| panel.pixel_x(value.clamp(-MOST, MOST));
        // What lies beyond the axis, a value or an end of its interval, is an arrowhead at its end.
        let mut beyond = vec![interval.value];
        if interval.half_width.is_finite() {
            let (low, high) = ends(row.measure.unit, row.measure.unit != Unit::Share, &interval);
            picture.line(vec![(x(low), y), (x(high), y)], colour, 2.0);
            beyond.extend([low, high]);
        }
        for sign in [-1.0, 1.0] {
            if beyond.iter().any(|end| end * sign > MOST) {
                let tip = x(MOST * sign);
                let back = tip - 9.0 * sign;
                picture.area(vec![(tip, y), (back, y - 5.0), (back, y + 5.0)], colour);
            }
        }
        if interval.value.abs() <= MOST {
            picture.dot((x(interval.value), y), 4.0, colour);
        }
    }
    let text = format!("{} → {}  {}", value(0), value(other + 1), moved(row, other));
    picture.text(
        (panel.right + 14.0, y + 4.0),
        &text,
        Font::NOTE,
        Anchor::Start,
        colour,
    );
}

/// The distribution functions of TTFT of every variant under the first seed.
#[must_use]
pub fn ttft_of_variants(versus: &Versus, ttfts: &[(String, &Distribution)]) -> Picture {
    const LEFT: f64 = 72.0;
    const RIGHT: f64 = 876.0;
    const HEIGHT: f64 = 340.0;
    const LINE: f64 = 18.0;
    let mut picture = Picture::new(&ttft_title(ttfts), WIDTH, 0.0);
    let subtitle = format!("{}, the first of the seeds. {}", versus.subject, said(versus));
    let legend = head(&mut picture, LEFT, &subtitle) + 26.0;
    let top = legend + LINE * ttfts.len() as f64 + 24.0;
    let curves: Vec<Vec<(f64, f64)>> = ttfts
        .iter()
        .map(|(_, distribution)| staircase(distribution))
        .collect();
    let seconds = curves.iter().flatten().map(|(seconds, _)| *seconds);
    let panel = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + HEIGHT,
        x: Axis::log(seconds, Quantity::Time),
        y: Axis::fixed(0.0, 1.0, Quantity::Share),
    };
    panel.rules(&mut picture, "Share of requests whose first token came within", 5);
    for (at, points) in curves.iter().enumerate() {
        panel.curve(&mut picture, points, colour(at), 2.0);
    }
    if curves.iter().all(Vec::is_empty) {
        nothing(&mut picture, &panel, "no request was completed");
    }
    // Above the panel: a curve may go anywhere in it.
    for (at, (name, distribution)) in ttfts.iter().enumerate() {
        let figure = |p| distribution.quantile_s(p).map_or("–".into(), figures::time);
        let text = format!("{name}  p50 {}, p99 {}", figure(0.5), figure(0.99));
        let y = legend + LINE * at as f64;
        picture.text((LEFT, y), &text, Font::LABEL, Anchor::Start, colour(at));
    }
    panel.foot(&mut picture, 9);
    panel.foot_labels(&mut picture, "time to first token, logarithmic", 9);
    picture.height = panel.bottom + 56.0;
    picture
}

fn ttft_title(ttfts: &[(String, &Distribution)]) -> String {
    let each = ttfts.iter().filter_map(|(name, distribution)| {
        Some(format!("{name} {}", figures::time(distribution.quantile_s(0.5)?)))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        "No request was completed".to_owned()
    } else {
        format!(
            "Half of all requests have their first token within: {}",
            each.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{fixtures, versus};
    use super::*;

    #[test]
    fn the_title_counts_what_is_coloured() {
        // The hit rate moves by more than chance and decides nothing; mean TTFT is better, mean TPOT worse.
        let versus = fixtures::comparison();
        assert_eq!(
            headline(&versus),
            "B is better than A in 1 figure (mean TTFT −50 % [−50, −50]), worse in 1 (mean TPOT +5.0 % [+5.0, +5.1])"
        );
        let svg = difference(&versus).svg();
        let dots = |colour: &str| {
            let circles = svg.split('<').filter(|tag| tag.starts_with("circle"));
            circles.filter(|tag| tag.contains(colour)).count()
        };
        assert_eq!((dots("#009E73"), dots("#D55E00")), (1, 1), "{svg}");
        // The hit rate moved, too: not as what may be chance is drawn.
        let rate = versus
            .rows()
            .into_iter()
            .find(|row| row.measure.key == "hit_rate");
        assert!(rate.is_some_and(|row| is_moved(&row, 0) && judged(&row, 0).is_none()));
    }

    #[test]
    fn what_goes_on_beyond_the_axis_has_an_arrowhead() {
        let heads = |versus: &Versus| {
            let svg = difference(versus).svg();
            svg.split('<').filter(|tag| tag.starts_with("polygon")).count()
        };
        let mut versus = fixtures::comparison();
        let before = heads(&versus);
        let at = versus::MEASURES
            .iter()
            .position(|measure| measure.key == "p99_ttft_s")
            .unwrap();
        // A mean of +50 % whose interval goes beyond +100 %.
        versus.variants[0].figures[at] = vec![Some(1.0); 4];
        versus.variants[1].figures[at] = [1.0, 1.0, 1.0, 3.0].map(Some).to_vec();
        assert_eq!(heads(&versus), before + 1);
    }
}
