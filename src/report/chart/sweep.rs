//! A sweep: every figure against what was varied, a line for each value of a second axis, a pane for each of a third.
//!
//! Law: what lies past saturation is hollow and dashed and no value is written beside it, because it is a property of that
//! run's length; a line that ends there ends in the word `unstable`. What is critical or too short to tell is hollow. Words have
//! no scale, so no line joins them, and none leads to a rate of `inf`, which stands apart at the right.

use super::super::figures;
use super::super::sweep::OF_WHOLE;
use super::super::sweep_layout::Swept;
use super::super::sweep_view::{FIGURES, Kind, Standing, SweepFigure, SweepPoint, SweepView};
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::place::{Place, best, dense};
use super::scene::{Anchor, Colour, Font, Picture};
use super::sweep_foot::{Foot, axis_name, last_part, shortened};
use super::sweep_marks::{Mark, Marker, Told, end_label, join, tell, values};

const LEFT: f64 = 72.0;
const PANEL_HEIGHT: f64 = 124.0;
/// From the values under a panel to the next one.
const PANEL_GAP: f64 = 42.0;
/// Room right of a panel for the values at the ends of its lines.
const ENDS: f64 = 60.0;
/// Room left of a panel for the labels of its scale.
const SCALE: f64 = 64.0;

/// Figures that panes leave out, where every figure takes a whole row.
const NOT_IN_PANES: [&str; 3] = ["median_itl_ms", "median_e2el_ms", "request_throughput"];

/// Draws a sweep.
#[must_use]
pub fn sweep(view: &SweepView) -> Picture {
    let columns = view.layout.panes.as_ref().map_or(2, |panes| panes.values.len());
    let width = match columns {
        0..=2 => 330.0,
        3 => 260.0,
        _ => 220.0,
    };
    let pitch = width + ENDS + SCALE;
    let total = LEFT + columns as f64 * pitch - SCALE + 12.0;
    let mut picture = Picture::new(&view.title, total, 0.0);
    let foot = Foot::of(&view.layout.across);
    let mut top = head(&mut picture, LEFT, &subtitle(view)) + 8.0;
    top = legend(&mut picture, view, top) + 32.0;
    if let Some(panes) = &view.layout.panes {
        for (column, value) in panes.values.iter().enumerate() {
            let name = shortened(
                &format!("{} = {}", axis_name(&panes.name), last_part(value)),
                width,
            );
            let at = (LEFT + column as f64 * pitch, top);
            picture.text(at, &name, Font::LABEL, Anchor::Start, Colour::INK);
        }
        top += 34.0;
    }
    let rows = rows(view);
    let step = PANEL_HEIGHT + foot.height_of_labels(width) + PANEL_GAP;
    for (row, figures) in rows.iter().enumerate() {
        for (column, &(figure, pane)) in figures.iter().enumerate() {
            let left = LEFT + column as f64 * pitch;
            let panel_top = top + row as f64 * step;
            let panel = Panel {
                left,
                top: panel_top,
                right: left + width,
                bottom: panel_top + PANEL_HEIGHT,
                x: Axis::fixed(0.0, 1.0, Quantity::Number),
                y: scale(view, figure),
            };
            draw(&mut picture, view, &panel, &foot, (figure, pane));
            let is_last = rows.get(row + 1).is_none_or(|next| column >= next.len());
            foot.labels(&mut picture, &panel);
            if is_last {
                foot.title(&mut picture, &panel);
            }
        }
    }
    if rows.is_empty() {
        picture.text(
            (LEFT, top),
            "no run was finished",
            Font::SUBTITLE,
            Anchor::Start,
            Colour::GREY,
        );
    }
    picture.height =
        top + rows.len().saturating_sub(1) as f64 * step + PANEL_HEIGHT + foot.height(width) + 10.0;
    picture
}

/// The panels in rows, each a figure and a pane: the median beside the tail, or one figure across all panes.
fn rows(view: &SweepView) -> Vec<Vec<(usize, usize)>> {
    let tells = |index: &usize| is_told(view, *index);
    let indices: Vec<usize> = (0..FIGURES.len()).collect();
    if let Some(panes) = &view.layout.panes {
        let is_kept = |index: &usize| tells(index) && !NOT_IN_PANES.contains(&FIGURES[*index].key);
        let across = |index: usize| (0..panes.values.len()).map(|pane| (index, pane)).collect();
        return indices.into_iter().filter(is_kept).map(across).collect();
    }
    let pairs = indices.chunks(2).map(|pair| {
        let told = pair.iter().copied().filter(tells);
        told.map(|index| (index, 0)).collect::<Vec<_>>()
    });
    pairs.filter(|pair| !pair.is_empty()).collect()
}

/// Whether a figure has anything to say: how long whole answers take only where gaps between tokens are not seen, hit rates
/// only where anybody hits.
fn is_told(view: &SweepView, index: usize) -> bool {
    let values = || view.points.iter().filter_map(|point| point.figures[index]);
    let figure = &FIGURES[index];
    match (figure.key, figure.of) {
        ("hit_rate", _) => values().any(|value| value.value > 0.0),
        (_, Some(("e2el", _))) => {
            let tpot = FIGURES.iter().position(|figure| figure.key == "median_tpot_ms");
            let is_blind = |point: &SweepPoint| tpot.is_none_or(|tpot| point.figures[tpot].is_none());
            let is_limited = FIGURES.iter().any(|figure| {
                figure.of.is_some_and(|(metric, _)| metric == "e2el") && limit(view, figure).is_some()
            });
            values().next().is_some() && (is_limited || view.points.iter().any(is_blind))
        }
        _ => values().next().is_some(),
    }
}

fn subtitle(view: &SweepView) -> String {
    let mut parts: Vec<String> = Vec::new();
    let fixed = view
        .layout
        .fixed
        .iter()
        .map(|(axis, value)| format!("{axis} = {value}"));
    let of = std::iter::once(view.subject.clone()).filter(|subject| !subject.is_empty());
    let of: Vec<String> = of.chain(fixed).collect();
    if !of.is_empty() {
        parts.push(format!("{}.", of.join(", ")));
    }
    let each = view.limits.iter().map(|limit| {
        format!(
            "{} ≤ {}",
            limit.metric.to_uppercase(),
            figures::time(limit.limit_s)
        )
    });
    let each: Vec<String> = each.collect();
    let share = (!each.is_empty()).then(|| {
        format!(
            "{} of requests with {}",
            figures::percent_promised(view.attainment),
            each.join(" and ")
        )
    });
    let percentiles = view.promises.iter().map(|promise| {
        let which = promise.percentile.map_or("mean".to_owned(), |p| format!("p{p}"));
        let limit = figures::time(promise.limit_s);
        format!("{which} {} ≤ {limit}", promise.metric.to_uppercase())
    });
    let promised: Vec<String> = share.into_iter().chain(percentiles).collect();
    if !promised.is_empty() {
        parts.push(format!("SLO: {}.", promised.join(", ")));
    }
    if view.seeds > 1 {
        parts.push(format!(
            "Means of {} a point with 95 % intervals.",
            figures::counted(view.seeds as u64, "seed")
        ));
    } else if has_intervals(view) {
        parts.push("Bars are 95 % intervals of one run.".to_owned());
    }
    if view.of_whole {
        let mut said = OF_WHOLE.to_owned();
        said[..1].make_ascii_uppercase();
        parts.push(format!("{said}."));
    }
    let has = |standing| view.points.iter().any(|point| point.standing == standing);
    if has(Standing::Unstable) {
        let what = "Hollow and dashed: UNSTABLE, past saturation; what that one run saw, which grows with its length.";
        parts.push(what.to_owned());
    }
    if has(Standing::Unsure) {
        let which = if has(Standing::Unstable) {
            "Hollow on a plain line"
        } else {
            "Hollow"
        };
        parts.push(format!("{which}: critical or too short to tell."));
    }
    parts.join(" ")
}

fn has_intervals(view: &SweepView) -> bool {
    let all = view
        .points
        .iter()
        .flat_map(|point| point.figures.iter().flatten());
    all.into_iter().any(|estimate| estimate.high > estimate.low)
}

/// The lines' names in their colours, beside their marks; returns the height below them.
fn legend(picture: &mut Picture, view: &SweepView, top: f64) -> f64 {
    let Some(Swept { name, values }) = &view.layout.lines else {
        return top;
    };
    let right = picture.width - 24.0;
    let (mut x, mut y) = (LEFT, top + 8.0);
    let name = axis_name(name);
    picture.text((x, y), &name, Font::LABEL, Anchor::Start, Colour::INK);
    x += Font::LABEL.width(&name) + 18.0;
    for (line, value) in values.iter().enumerate() {
        let value = shortened(&last_part(value), 260.0);
        let width = 14.0 + Font::LABEL.width(&value);
        if x + width > right {
            (x, y) = (LEFT, y + 18.0);
        }
        Marker::of(line).draw(picture, (x + 4.0, y - 4.0), 4.0, colour(line));
        picture.text((x + 14.0, y), &value, Font::LABEL, Anchor::Start, colour(line));
        x += width + 18.0;
    }
    y + 8.0
}

/// Colours of lines in their order, as many as `LINES_MAX`.
pub(super) fn colour(line: usize) -> Colour {
    const COLOURS: [Colour; 7] = [
        Colour::BLUE,
        Colour::VERMILLION,
        Colour::GREEN,
        Colour::PURPLE,
        Colour::ORANGE,
        Colour::SKY,
        Colour::INK,
    ];
    COLOURS[line % COLOURS.len()]
}

/// The limit on a figure: one that so many requests must keep, in a pane of a percentile that tells of so many, or one on this very
/// percentile. A median says nothing of the tail that a limit is about.
fn limit(view: &SweepView, figure: &SweepFigure) -> Option<f64> {
    /// The furthest of the tail that is drawn.
    const TAIL: f64 = 0.99;
    let (metric, percentile) = figure.of?;
    let tells_of_all = percentile / 100.0 >= view.attainment.min(TAIL) - 1e-9;
    let every = view.limits.iter().find(|limit| limit.metric == metric);
    let every = every.filter(|_| tells_of_all);
    let this = view.promises.iter().find(|promise| {
        promise.metric == metric && promise.percentile.is_some_and(|p| (p - percentile).abs() < 1e-9)
    });
    every
        .map(|limit| limit.limit_s)
        .or_else(|| this.map(|promise| promise.limit_s))
}

/// The scale of a figure, the same in all panes.
fn scale(view: &SweepView, index: usize) -> Axis {
    let figure = &FIGURES[index];
    let known = view.points.iter().filter_map(|point| point.figures[index]);
    let values = known.flat_map(|estimate| [estimate.low.max(0.0), estimate.value, estimate.high]);
    match figure.kind {
        // Head room, so that the name of the limit does not touch the heading.
        Kind::Latency => {
            let limit = limit(view, figure).map(|limit_s| limit_s * 1.3);
            Axis::log(values.chain(limit), Quantity::Time)
        }
        Kind::Rate => Axis::linear(
            values.chain(offered(view, figure).map(|at| at.1)),
            Quantity::Number,
        ),
        Kind::Share => Axis::fixed(0.0, 1.06, Quantity::Share),
    }
}

/// The offered load where it lies along the foot and completed requests are drawn: (which value, rate).
fn offered(view: &SweepView, figure: &SweepFigure) -> impl Iterator<Item = (usize, f64)> + use<> {
    let across = &view.layout.across;
    let is_drawn = figure.key == "request_throughput" && across.is_rate();
    let rates = is_drawn.then(|| across.numbers_or_inf()).flatten();
    let rates = rates.unwrap_or_default().into_iter().enumerate();
    rates.filter(|(_, rate)| rate.is_finite())
}

/// A figure's name, and that its scale is logarithmic where it is: in a word that has room.
fn heading(figure: &SweepFigure, room: f64) -> String {
    let whole = format!("{}, logarithmic", figure.heading);
    match figure.kind {
        Kind::Latency if Font::HEADING.width(&whole) <= room => whole,
        Kind::Latency => format!("{}, log", figure.heading),
        Kind::Rate | Kind::Share => figure.heading.to_owned(),
    }
}

/// One panel: a figure of one pane.
fn draw(picture: &mut Picture, view: &SweepView, panel: &Panel, foot: &Foot, (index, pane): (usize, usize)) {
    let figure = &FIGURES[index];
    panel.rules(picture, &heading(figure, panel.right - panel.left + ENDS), 4);
    let y = |value: f64| panel.pixel((0.0, value)).1;
    let rates = offered(view, figure).map(|(at, rate)| (foot.x(panel, at), y(rate)));
    for pair in rates.collect::<Vec<_>>().windows(2) {
        picture.dashes(pair[0], pair[1], Colour::GREY, 1.0);
    }
    let lines = view.layout.lines.as_ref().map_or(1, |lines| lines.values.len());
    let marks: Vec<Vec<Mark>> = (0..lines)
        .map(|line| marks(view, panel, foot, (index, pane, line, lines)))
        .collect();
    let is_valued = !foot.is_ordered && foot.has_room_for_values(panel, lines);
    let told: Vec<Told> = match is_valued {
        true => marks
            .iter()
            .flat_map(|marks| values(panel, figure, marks))
            .collect(),
        false => Vec::new(),
    };
    if let Some((value, name)) = promised(view, figure) {
        let taken: Vec<Place> = told.iter().map(|told| told.place).collect();
        rule_of_limit(
            picture,
            panel,
            (value, &name),
            (&drawn(&marks, foot.is_ordered), &taken),
        );
    }
    let mut labels = Vec::new();
    for (line, marks) in marks.iter().enumerate() {
        join(picture, marks, colour(line), foot.is_ordered);
        for mark in marks {
            mark.draw(picture, colour(line), Marker::of(line));
        }
        if foot.is_ordered {
            labels.extend(end_label(panel, figure, marks, colour(line)));
        }
    }
    for value in &told {
        tell(picture, value);
    }
    if marks.iter().all(Vec::is_empty) {
        nothing(picture, panel, "no run has one");
    }
    panel.end_labels(picture, labels);
    foot.rule(picture, panel);
}

/// The points of a line in one panel.
fn marks(
    view: &SweepView,
    panel: &Panel,
    foot: &Foot,
    (index, pane, line, lines): (usize, usize, usize, usize),
) -> Vec<Mark> {
    let offset = foot.apart(panel, lines) * (line as f64 - (lines - 1) as f64 / 2.0);
    let y = |value: f64| panel.pixel((0.0, value)).1;
    let mark = |point: &SweepPoint| {
        let estimate = point.figures[index]?;
        Some(Mark {
            at: (foot.x(panel, point.spot.at) + offset, y(estimate.value)),
            ends: (y(estimate.low.max(0.0)), y(estimate.high)),
            is_open: !panel.y.shows(estimate.low.max(0.0)),
            value: estimate.value,
            standing: point.standing,
            is_apart: foot.is_apart(point.spot.at),
        })
    };
    let of_line = view.points.iter();
    let of_line = of_line.filter(|point| point.spot.pane == pane && point.spot.line == line);
    of_line.filter_map(mark).collect()
}

/// What is promised of a figure, and in words.
fn promised(view: &SweepView, figure: &SweepFigure) -> Option<(f64, String)> {
    if figure.key == "good" {
        return Some((
            view.attainment,
            format!("SLO {}", figures::percent_promised(view.attainment)),
        ));
    }
    let limit_s = limit(view, figure)?;
    Some((limit_s, format!("SLO {}", figures::time(limit_s))))
}

/// A dashed rule with its name where it covers least of what is drawn.
fn rule_of_limit(
    picture: &mut Picture,
    panel: &Panel,
    (value, name): (f64, &str),
    (drawn, taken): (&[(f64, f64)], &[Place]),
) {
    if !panel.y.shows(value) {
        return;
    }
    let (_, height) = panel.pixel((0.0, value));
    picture.dashes((panel.left, height), (panel.right, height), Colour::INK, 1.2);
    let (width, rise) = (Font::NOTE.width(name), 12.0);
    let near = [height - 5.0 - rise, height + 3.0];
    let far = [near[1] + rise + 4.0, near[0] - rise - 4.0];
    let along = |tops: [f64; 2]| {
        (0..=12).flat_map(move |part| {
            let left = panel.left + 4.0 + f64::from(part) / 12.0 * (panel.right - panel.left - width - 8.0);
            tops.map(|top| Place {
                left,
                top,
                right: left + width,
                bottom: top + rise + 1.0,
            })
        })
    };
    let page = Place {
        left: panel.left,
        top: panel.top - 8.0,
        right: panel.right,
        bottom: panel.bottom,
    };
    let of = |tops| best(along(tops), |place| place.covers(drawn, 2.0), taken, &page);
    let is_free = |place: &Place| place.lies_within(&page) && !taken.iter().any(|other| place.meets(other));
    // Beside the rule or, only where values stand everywhere there, a line further from it.
    if let Some(place) = of(near).filter(is_free).or_else(|| of(far)) {
        picture.text(
            (place.left, place.top + rise),
            name,
            Font::NOTE,
            Anchor::Start,
            Colour::INK,
        );
    }
}

/// Points along everything that marks draw.
fn drawn(marks: &[Vec<Mark>], is_ordered: bool) -> Vec<(f64, f64)> {
    let mut drawn = Vec::new();
    for marks in marks {
        let path: Vec<(f64, f64)> = marks.iter().map(|mark| mark.at).collect();
        if is_ordered {
            drawn.extend(dense(&path));
        }
        drawn.extend(path);
        for mark in marks {
            drawn.extend(dense(&[(mark.at.0, mark.ends.0), (mark.at.0, mark.ends.1)]));
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures;
    use super::super::scene::Shape;
    use super::*;
    use crate::analysis::Estimate;

    /// How often a text stands in the picture.
    fn times(view: &SweepView, wanted: &str) -> usize {
        let is_it = |shape: &&Shape| matches!(shape, Shape::Text { text, .. } if text == wanted);
        sweep(view).shapes.iter().filter(is_it).count()
    }

    #[test]
    fn a_logarithmic_scale_says_so_in_a_word_that_has_room() {
        let figure = &FIGURES[2];
        assert_eq!(
            heading(figure, 400.0),
            "Time per output token, median, logarithmic"
        );
        assert_eq!(heading(figure, 250.0), "Time per output token, median, log");
        assert_eq!(heading(&FIGURES[8], 400.0), FIGURES[8].heading);
        let wide = fixtures::sweep_view(&["2", "4", "8"], 3, 1);
        assert_eq!(times(&wide, "Time to first token, p99, logarithmic"), 1);
    }

    /// Words along the foot have their values beside them, where the name of the limit may not stand.
    #[test]
    fn the_name_of_a_limit_stands_on_no_value() {
        let words = ["a", "b", "c", "d"];
        let mut view = fixtures::sweep_view(&words, 1, 1);
        let good = FIGURES.iter().position(|figure| figure.key == "good").unwrap();
        for point in &mut view.points {
            point.standing = Standing::Settled;
            point.figures[good] = Some(Estimate {
                value: 1.0,
                low: 1.0,
                high: 1.0,
            });
        }
        let picture = sweep(&view);
        let boxes = |wanted: &dyn Fn(&str) -> bool| -> Vec<Place> {
            let texts = picture.shapes.iter().filter_map(|shape| match shape {
                Shape::Text { at, text, anchor, .. } if wanted(text) => {
                    let width = Font::NOTE.width(text);
                    let left = match anchor {
                        Anchor::Start => at.0,
                        Anchor::Middle => at.0 - width / 2.0,
                        Anchor::End => at.0 - width,
                    };
                    Some(Place {
                        left,
                        top: at.1 - 10.0,
                        right: left + width,
                        bottom: at.1,
                    })
                }
                _ => None,
            });
            texts.collect()
        };
        let names = boxes(&|text| text.starts_with("SLO ") && text.ends_with('%'));
        let values = boxes(&|text| text == "100 %");
        assert!(!names.is_empty() && values.len() > 3, "{names:?} {values:?}");
        for name in &names {
            let meets = |value: &&Place| {
                name.left < value.right
                    && value.left < name.right
                    && name.top < value.bottom
                    && value.top < name.bottom
            };
            assert_eq!(values.iter().find(meets), None, "{name:?}");
        }
    }

    #[test]
    fn lines_differ_in_more_than_their_colour() {
        let markers: Vec<Marker> = (0..7).map(Marker::of).collect();
        for (at, marker) in markers.iter().enumerate() {
            assert!(!markers[..at].contains(marker), "{marker:?}");
        }
        // A point of the second line is a polygon in its colour.
        let view = fixtures::sweep_view(&["2", "4", "8"], 3, 1);
        let is_square = |shape: &Shape| matches!(shape, Shape::Area { points, colour: of } if points.len() == 4 && *of == colour(1));
        assert!(sweep(&view).shapes.iter().any(is_square));
    }

    #[test]
    fn whole_runs_are_called_so() {
        let mut view = fixtures::sweep_view(&["2", "4", "8"], 3, 1);
        assert!(!subtitle(&view).contains("whole runs"));
        view.of_whole = true;
        let said =
            "Figures are of whole runs, start and end included: some are too short to have a steady stretch.";
        assert!(subtitle(&view).contains(said), "{}", subtitle(&view));
    }

    #[test]
    fn a_line_that_ends_past_saturation_says_so_and_quotes_nothing() {
        let mut view = fixtures::sweep_view(&["2", "4", "8"], 3, 1);
        for point in &mut view.points {
            point.standing = Standing::Settled;
        }
        assert_eq!(times(&view, "unstable"), 0);
        for point in &mut view.points {
            point.standing = Standing::Unstable;
        }
        let panels = (0..FIGURES.len())
            .filter(|figure| is_told(&view, *figure))
            .count();
        assert_eq!(times(&view, "unstable"), 3 * panels);
    }
}
