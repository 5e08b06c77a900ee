//! The frontier of a sweep: what GPUs make against what each user gets, a line for each server over its loads, and the frontier through
//! those that nobody beats. Up and to the right is better.
//!
//! Servers with a setting on the frontier have colours and marks, in its order; the others are grey. A number beside a point is its load.

use super::super::figures::{counted, significant};
use super::super::pareto::{Frontier, Measure, Point, Standing};
use super::super::text_sizing::dollars;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head, wrapped};
use super::place::{Place, best, dense};
use super::scene::{Anchor, Colour, Font, Picture};
use super::sweep::colour;
use super::sweep_foot::{axis_name, last_part};
use super::sweep_marks::Marker;

const LEFT: f64 = 76.0;
const PANEL: (f64, f64) = (560.0, 400.0);
/// Right of the panel, for what tokens cost.
const COSTS: f64 = 62.0;
/// The list of servers.
const NAMES: f64 = 250.0;
/// As many servers as there are colours.
const COLOURED: usize = 7;
const TICKS: usize = 6;

/// What stands beside the settings themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// What is simulated, `Llama-3.1-8B-Instruct on H100-SXM-80GB`.
    pub subject: String,
    /// What an hour of a GPU costs, where all cost the same.
    pub usd_per_gpu_hour: Option<f64>,
    /// Tokens a second of each user that the SLO asks for, if it limits the TPOT.
    pub tokens_per_user: Option<f64>,
}

/// Draws a frontier.
#[must_use]
pub fn pareto(frontier: &Frontier<'_, '_>, beside: &Beside) -> Picture {
    let width = LEFT + PANEL.0 + COSTS + NAMES + 24.0;
    let mut picture = Picture::new(&frontier.answer(), width, 0.0);
    let top = head(&mut picture, LEFT, &beside.subject) + 34.0;
    let points = &frontier.points;
    let asked = beside.tokens_per_user.into_iter();
    let panel = Panel {
        left: LEFT,
        top,
        right: LEFT + PANEL.0,
        bottom: top + PANEL.1,
        x: Axis::linear(
            points.iter().map(|point| point.user).chain(asked),
            Quantity::Number,
        ),
        y: Axis::linear(points.iter().map(|point| point.made), Quantity::Number),
    };
    let heading = match frontier.measure {
        Measure::Gpu => "Output tokens per second and GPU",
        Measure::Dollar => "Million output tokens per dollar",
    };
    panel.rules(&mut picture, heading, TICKS);
    costs(&mut picture, &panel, frontier.measure, beside);
    let mut bottom = panel.bottom + 52.0;
    if points.is_empty() {
        nothing(&mut picture, &panel, "no setting has a place");
    } else {
        bottom = bottom.max(draw(&mut picture, &panel, frontier, beside));
    }
    panel.foot(&mut picture, TICKS);
    panel.foot_labels(
        &mut picture,
        "output tokens per second of each user (1 / median TPOT)",
        TICKS,
    );
    picture.height = bottom;
    picture
}

/// The servers in order: those on the frontier as they come along it, then the others.
fn servers(frontier: &Frontier<'_, '_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let all = frontier.front().chain(&frontier.points);
    for name in all.map(Point::server) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The points, lines, labels and the list of servers; returns the height below the list.
fn draw(picture: &mut Picture, panel: &Panel, frontier: &Frontier<'_, '_>, beside: &Beside) -> f64 {
    let servers = servers(frontier);
    let on_it: Vec<String> = frontier.front().map(Point::server).collect();
    let coloured = servers
        .iter()
        .take(COLOURED)
        .filter(|name| on_it.contains(name))
        .count();
    let front: Vec<(f64, f64)> = frontier.front().map(|point| (point.user, point.made)).collect();
    panel.curve(picture, &front, Colour::INK.faded(0.16), 9.0);
    let mut drawn: Vec<(f64, f64)> = dense(&panel.pixels(&front));
    // Those without a colour lie below the others.
    for (index, name) in servers.iter().enumerate().rev() {
        let own: Vec<&Point<'_, '_>> = frontier
            .points
            .iter()
            .filter(|point| point.server() == *name)
            .collect();
        let (hue, marker) = look(index, coloured);
        let line: Vec<(f64, f64)> = own.iter().map(|point| (point.user, point.made)).collect();
        if own.iter().all(|point| point.load().is_some()) {
            panel.curve(picture, &line, hue.faded(0.6), 1.2);
            drawn.extend(dense(&panel.pixels(&line)));
        }
        for point in own {
            let at = panel.pixel((point.user, point.made));
            let radius = if point.standing == Standing::Beaten {
                3.0
            } else {
                4.6
            };
            match point.is_settled() {
                true => marker.draw(picture, at, radius, hue),
                false => marker.hollow(picture, at, radius, hue),
            }
        }
    }
    if let Some(asked) = beside.tokens_per_user {
        let x = panel.pixel_x(asked);
        picture.dashes((x, panel.top), (x, panel.bottom), Colour::INK, 1.2);
        let name = format!("SLO: {} tok/s", significant(asked));
        picture.text(
            (x + 5.0, panel.top + 12.0),
            &name,
            Font::NOTE,
            Anchor::Start,
            Colour::INK,
        );
        drawn.extend(dense(&[(x, panel.top), (x, panel.bottom)]));
    }
    loads(picture, panel, frontier, &drawn);
    list(picture, panel, &servers, coloured, frontier)
}

/// Colour and mark of a server by its place in the list.
fn look(index: usize, coloured: usize) -> (Colour, Marker) {
    match index < coloured {
        true => (colour(index), Marker::of(index)),
        false => (Colour::GREY.faded(0.6), Marker::Circle),
    }
}

/// The load beside each point of the frontier, where it covers least.
fn loads(picture: &mut Picture, panel: &Panel, frontier: &Frontier<'_, '_>, drawn: &[(f64, f64)]) {
    let dots = frontier
        .points
        .iter()
        .map(|point| panel.pixel((point.user, point.made)));
    let dots: Vec<(f64, f64)> = dots.collect();
    let apart = |place: &Place, dot: (f64, f64)| {
        let middle = ((place.left + place.right) / 2.0, (place.top + place.bottom) / 2.0);
        (middle.0 - dot.0).hypot(middle.1 - dot.1)
    };
    let page = Place {
        left: panel.left,
        top: panel.top,
        right: panel.right + 20.0,
        bottom: panel.bottom,
    };
    let mut taken: Vec<Place> = Vec::new();
    for point in frontier.front() {
        let Some(load) = point.load() else {
            continue;
        };
        let (x, y) = panel.pixel((point.user, point.made));
        let width = Font::NOTE.width(&load);
        let corners = [
            (9.0, -17.0),
            (9.0, 6.0),
            (-9.0 - width, -17.0),
            (-9.0 - width, 6.0),
            (-width / 2.0, -24.0),
            (-width / 2.0, 12.0),
        ];
        let candidates = corners.map(|(right, down)| Place {
            left: x + right,
            top: y + down,
            right: x + right + width,
            bottom: y + down + 12.0,
        });
        // A number that is nearer to another dot would be taken for its load, which is worse than a line behind it.
        let cost = |place: &Place| {
            let own = apart(place, (x, y));
            let nearer = dots.iter().filter(|dot| apart(place, **dot) < own - 0.5).count();
            400 * nearer + 40 * place.covers(&dots, 1.0) + place.covers(drawn, 0.0)
        };
        if let Some(place) = best(candidates, cost, &taken, &page) {
            taken.push(place);
            let at = (place.left, place.bottom - 1.0);
            picture.text(at, &load, Font::NOTE, Anchor::Start, Colour::INK);
        }
    }
}

/// What a million output tokens cost at each rule, where that is known.
fn costs(picture: &mut Picture, panel: &Panel, measure: Measure, beside: &Beside) {
    let usd = |made: f64| match measure {
        Measure::Gpu => Some(beside.usd_per_gpu_hour? / (3600.0 * made) * 1e6),
        Measure::Dollar => Some(1.0 / made),
    };
    for (value, _) in panel.y.ticks(TICKS).into_iter().filter(|(value, _)| *value > 0.0) {
        let Some(usd) = usd(value) else {
            return;
        };
        let (_, y) = panel.pixel((panel.x.low(), value));
        let at = (panel.right + 8.0, y + 4.0);
        picture.text(at, &dollars(usd), Font::TICK, Anchor::Start, Colour::GREY);
    }
    if usd(1.0).is_some() {
        let at = (panel.right + 8.0, panel.top - 10.0);
        picture.text(at, "$/M out", Font::NOTE, Anchor::Start, Colour::GREY);
    }
}

/// Which server is which, and what a number beside a point is; returns the height below.
fn list(
    picture: &mut Picture,
    panel: &Panel,
    servers: &[String],
    coloured: usize,
    frontier: &Frontier<'_, '_>,
) -> f64 {
    const LINE: f64 = 16.0;
    let left = panel.right + COSTS + 10.0;
    let mut y = panel.top;
    let mut write = |picture: &mut Picture, text: &str, font: Font, hue: Colour| {
        for line in wrapped(text, font, NAMES - 20.0) {
            picture.text((left + 14.0, y), &line, font, Anchor::Start, hue);
            y += LINE;
        }
        y += 4.0;
        y
    };
    let mut below = panel.top;
    let has_names = servers.iter().any(|name| !name.is_empty());
    if has_names {
        for (index, name) in servers.iter().take(coloured).enumerate() {
            let (hue, marker) = look(index, coloured);
            marker.draw(picture, (left + 4.0, below - 4.0), 4.0, hue);
            below = write(picture, &spoken(name), Font::LABEL, hue);
        }
        let others = servers.len() - coloured;
        if others > 0 {
            picture.dot((left + 4.0, below - 4.0), 3.0, Colour::GREY.faded(0.6));
            let told = match coloured {
                COLOURED => format!("{} more", counted(others as u64, "server")),
                _ => format!("{} off the frontier", counted(others as u64, "server")),
            };
            below = write(picture, &told, Font::LABEL, Colour::GREY);
        }
    }
    let load = frontier.points.first().and_then(Point::load_axis);
    let mut told = Vec::new();
    told.extend(load.map(|axis| format!("numbers: {}", axis_name(&axis))));
    told.push("grey band: the frontier".to_owned());
    if frontier.points.iter().any(|point| !point.is_settled()) {
        told.push("hollow: critical or too short to tell".to_owned());
    }
    for text in told {
        below = write(picture, &text, Font::NOTE, Colour::GREY);
    }
    below
}

/// `gpu = h100, tp = 2` with paths and names cut to their last parts.
fn spoken(name: &str) -> String {
    let parts = name.split(", ").map(|part| match part.split_once(" = ") {
        Some((axis, value)) => format!("{} = {}", axis_name(axis), last_part(value)),
        None => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join(", ")
}
