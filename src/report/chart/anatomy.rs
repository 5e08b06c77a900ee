//! What times to first token are made of: a stacked bar for each group of requests, the fastest on top.

use super::super::anatomy::told;
use super::super::figures::{percent, time};
use super::axis::{Axis, Quantity};
use super::panel::{Panel, head};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::metrics::{Anatomies, Group, TtftPart};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 24.0;
const BARS: f64 = 128.0;
const RIGHT: f64 = 800.0;
/// From one bar to the next, and how thick each is.
const ROW: f64 = 44.0;
const THICK: f64 = 28.0;

/// Parts that have one colour, with their name.
const COLOURS: [(&str, &[TtftPart], Colour); 8] = [
    ("before the replica", &[TtftPart::Gateway], Colour::AXIS),
    ("front end in", &[TtftPart::FrontEndIn], Colour::SKY),
    ("queue", &TtftPart::QUEUE, Colour::VERMILLION),
    ("preempted", &[TtftPart::Preempted], Colour::PURPLE),
    ("step ahead", &[TtftPart::StepAhead], Colour::GREY),
    ("own prefill", &[TtftPart::OwnPrefill], Colour::BLUE),
    ("interference", &[TtftPart::Interference], Colour::ORANGE),
    (
        "hand-over, front end out",
        &[TtftPart::HandOver, TtftPart::FrontEndOut],
        Colour::GREEN,
    ),
];

/// Draws the groups by time to first token.
#[must_use]
pub fn anatomy(anatomies: &Anatomies, subject: &str) -> Picture {
    let groups = anatomies.by_ttft();
    let mut picture = Picture::new(&title(&groups), WIDTH, 0.0);
    let top = head(&mut picture, LEFT, subject) + 12.0;
    if groups.is_empty() {
        let why = "no latency of this run may be quoted";
        picture.text(
            (LEFT, top + 20.0),
            why,
            Font::HEADING,
            Anchor::Start,
            Colour::GREY,
        );
        picture.height = top + 44.0;
        return picture;
    }
    let names = names(&mut picture, &groups, top + 8.0);
    let ends = groups.iter().flat_map(|group| {
        let seconds = COLOURS.map(|(_, parts, _)| of(group, parts));
        let above: f64 = seconds.iter().filter(|part| **part > 0.0).sum();
        let below: f64 = seconds.iter().filter(|part| **part < 0.0).sum();
        [above, below]
    });
    let panel = Panel {
        left: BARS,
        top: names + 16.0,
        right: RIGHT,
        bottom: names + 16.0 + ROW * groups.len() as f64,
        x: Axis::linear(ends, Quantity::Time),
        y: Axis::fixed(0.0, 1.0, Quantity::Number),
    };
    for (value, _) in panel.x.ticks(7) {
        let x = panel.pixel_x(value);
        picture.line(vec![(x, panel.top), (x, panel.bottom)], Colour::RULE, 1.0);
    }
    for (index, group) in groups.iter().enumerate() {
        bar(
            &mut picture,
            &panel,
            group,
            panel.top + ROW * index as f64 + (ROW - THICK) / 2.0,
        );
    }
    panel.foot(&mut picture, 7);
    panel.foot_labels(&mut picture, "time to first token, means that add up", 7);
    picture.height = panel.bottom + 52.0;
    picture
}

fn of(group: &Group, parts: &[TtftPart]) -> f64 {
    parts.iter().map(|part| group.part_s(*part)).sum()
}

/// `Around p99 a first token takes 246 ms, 53 % of it queue; around the median 41 ms, 12 % of it`.
fn title(groups: &[Group]) -> String {
    let named = |name: &str| groups.iter().find(|group| group.name == name);
    let (Some(tail), Some(middle)) = (named("p99"), named("p50")) else {
        return "What a time to first token is made of".to_owned();
    };
    let share = |group: &Group, parts: &[TtftPart]| of(group, parts) / group.ttft_s().max(f64::MIN_POSITIVE);
    let largest = COLOURS
        .iter()
        .max_by(|(_, one, _), (_, other, _)| of(tail, one).total_cmp(&of(tail, other)));
    let Some((name, parts, _)) = largest else {
        return "What a time to first token is made of".to_owned();
    };
    format!(
        "Around p99 a first token takes {}, {} of it {name}; around the median {}, {} of it",
        time(tail.ttft_s()),
        percent(share(tail, parts)),
        time(middle.ttft_s()),
        percent(share(middle, parts)),
    )
}

/// The names of the parts in their colours, as far as they are in any bar; returns the height below them.
fn names(picture: &mut Picture, groups: &[Group], mut y: f64) -> f64 {
    const SQUARE: f64 = 10.0;
    const GAP: f64 = 18.0;
    let mut x = LEFT;
    let is_there = |parts: &[TtftPart]| groups.iter().any(|group| of(group, parts).abs() > 0.0);
    for (name, _, colour) in COLOURS.iter().filter(|(_, parts, _)| is_there(parts)) {
        let width = SQUARE + 6.0 + Font::LABEL.width(name);
        if x + width > WIDTH - LEFT {
            (x, y) = (LEFT, y + 18.0);
        }
        picture.rectangle((x, y - SQUARE + 1.0), (x + SQUARE, y + 1.0), *colour);
        picture.text(
            (x + SQUARE + 6.0, y),
            name,
            Font::LABEL,
            Anchor::Start,
            Colour::INK,
        );
        x += width + GAP;
    }
    y
}

/// One group: what is less than nothing lies left of zero.
fn bar(picture: &mut Picture, panel: &Panel, group: &Group, top: f64) {
    let middle = top + THICK / 2.0 + 4.0;
    picture.text(
        (LEFT, middle),
        told(group.name),
        Font::HEADING,
        Anchor::Start,
        Colour::INK,
    );
    let (mut above, mut below) = (0.0, 0.0);
    for (_, parts, colour) in COLOURS {
        let seconds = of(group, parts);
        let from = if seconds < 0.0 { &mut below } else { &mut above };
        let (start, end) = (*from, *from + seconds);
        *from = end;
        let (left, right) = (panel.pixel_x(start.min(end)), panel.pixel_x(start.max(end)));
        if right - left < 0.4 {
            continue;
        }
        picture.rectangle((left, top), (right, top + THICK), colour);
        let figure = time(seconds.abs());
        if Font::NOTE.width(&figure) + 8.0 < right - left {
            let at = ((left + right) / 2.0, middle);
            let ink = match colour {
                Colour::ORANGE | Colour::SKY | Colour::PURPLE => Colour::INK,
                _ => Colour::WHITE,
            };
            picture.text(at, &figure, Font::NOTE, Anchor::Middle, ink);
        }
    }
    let at = (panel.pixel_x(above) + 8.0, middle);
    picture.text(at, &time(group.ttft_s()), Font::LABEL, Anchor::Start, Colour::INK);
}
