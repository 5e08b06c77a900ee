//! The distribution functions of TTFT, TPOT, ITL and E2EL over one logarithmic axis of time.
//!
//! Promises are about tails, so the share above is logarithmic, too: 90, 99 and 99.9 % are equally far apart, and a curve ends where its
//! number of values does, the largest of n at 1 − 1/2n.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::place::{Place, best, dense};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::metrics::{Distribution, Summary};

const WIDTH: f64 = 820.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 792.0;
const HEIGHT: f64 = 380.0;
/// Distance between a curve and its label.
const GAP: f64 = 8.0;
/// Height of a label's line.
const LINE: f64 = 16.0;
/// Shares that get a rule: the quantiles that people quote.
const SHARES: [f64; 9] = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];
/// Decades of the share above that are drawn, at least and at most.
const DECADES: (f64, f64) = (2.0, 5.2);

struct Curve {
    /// `TTFT`, or `TTFT = E2EL` where one lies on the other.
    name: String,
    colour: Colour,
    /// (seconds, decades of the share above).
    points: Vec<(f64, f64)>,
    /// Its median and its 99th percentile.
    quoted: [String; 2],
}

/// Draws the distributions of a stretch of a run; `subject` says which run.
#[must_use]
pub fn latency_distribution(summary: &Summary, subject: &str) -> Picture {
    let curves = curves(summary);
    let mut picture = Picture::new(&title(summary), WIDTH, 0.0);
    let top = head(&mut picture, LEFT, subject) + 34.0;
    let seconds = curves
        .iter()
        .flat_map(|curve| curve.points.iter().map(|(seconds, _)| *seconds));
    // Room for the first curve's name.
    let before = curves
        .iter()
        .filter_map(|curve| curve.points.first())
        .map(|(first, _)| first / 2.0);
    let x = Axis::log(seconds.chain(before), Quantity::Time);
    let tails = curves.iter().filter_map(|curve| curve.points.last());
    let most = tails.map(|(_, tail)| *tail).fold(0.0, f64::max);
    let y = Axis::fixed(0.0, most.clamp(DECADES.0, DECADES.1), Quantity::Number);
    let panel = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + HEIGHT,
        x,
        y,
    };
    picture.height = panel.bottom + 56.0;

    rules(&mut picture, &panel);
    let places = label_places(&panel, &curves);
    for place in places.iter().flatten() {
        picture.rectangle(
            (place.left - 2.0, place.top),
            (place.right + 2.0, place.bottom),
            Colour::WHITE,
        );
    }
    for (curve, place) in curves.iter().zip(&places) {
        panel.curve(&mut picture, &curve.points, curve.colour, 2.0);
        if let Some(place) = place {
            write_label(&mut picture, curve, place);
        }
    }
    if curves.is_empty() {
        nothing(&mut picture, &panel, "no request was completed");
    }
    panel.foot(&mut picture, 9);
    panel.foot_labels(&mut picture, "time, logarithmic", 9);
    picture
}

/// The curves of what was seen; latencies that are the same for every request share one.
fn curves(summary: &Summary) -> Vec<Curve> {
    let all = [
        ("TTFT", Colour::VERMILLION, &summary.ttft),
        ("TPOT", Colour::BLUE, &summary.tpot),
        ("ITL", Colour::GREEN, &summary.itl),
        ("E2EL", Colour::PURPLE, &summary.e2el),
    ];
    let mut curves: Vec<Curve> = Vec::new();
    for (name, colour, distribution) in all {
        let Some(curve) = curve(name, colour, distribution) else {
            continue;
        };
        match curves.iter_mut().find(|known| known.points == curve.points) {
            Some(same) => same.name = format!("{} = {name}", same.name),
            None => curves.push(curve),
        }
    }
    curves
}

/// Requests from which a 99th percentile is another one than the longest.
const HUNDREDTH: u64 = 100;

fn title(summary: &Summary) -> String {
    let ttft = &summary.ttft;
    if ttft.count() < HUNDREDTH
        && let (Some(p50), Some(longest)) = (ttft.quantile_s(0.5), ttft.max_s())
    {
        return match ttft.count() {
            1 => format!(
                "One request, with its first token within {}",
                figures::time(longest)
            ),
            number => format!(
                "Half of {number} requests have their first token within {}, all within {}",
                figures::time(p50),
                figures::time(longest)
            ),
        };
    }
    match (summary.ttft.quantile_s(0.5), summary.ttft.quantile_s(0.99)) {
        (Some(p50), Some(p99)) => format!(
            "Half of all requests have their first token within {}, 99 % within {}",
            figures::time(p50),
            figures::time(p99)
        ),
        _ => "No request was completed".into(),
    }
}

/// The share of values at or below each value; `None` for an empty distribution.
fn curve(name: &str, colour: Colour, distribution: &Distribution) -> Option<Curve> {
    // The largest of n values stands for what is between one in n and none.
    let most = (2.0 * distribution.count().max(1) as f64).log10();
    let corners = staircase(distribution).into_iter();
    let points: Vec<(f64, f64)> = corners
        .map(|(seconds, share)| (seconds, tail(share).min(most)))
        .collect();
    // Answers that leave whole have no gaps, and a logarithmic axis no place for them.
    if points.last().is_none_or(|(longest, _)| *longest <= 0.0) {
        return None;
    }
    let quantile = |p: f64| distribution.quantile_s(p).map_or("–".into(), figures::time);
    let quoted = [
        format!("p50 {}", quantile(0.5)),
        format!("p99 {}", quantile(0.99)),
    ];
    Some(Curve {
        name: name.to_owned(),
        colour,
        points,
        quoted,
    })
}

/// The corners of a distribution function: it rises at each value and nowhere between two, so that a median between two values
/// stands on the step between them.
pub(super) fn staircase(distribution: &Distribution) -> Vec<(f64, f64)> {
    let steps = distribution.steps();
    let total: u64 = steps.iter().map(|(_, count)| count).sum();
    let (mut corners, mut below) = (Vec::with_capacity(2 * steps.len()), 0);
    for (seconds, count) in steps {
        corners.push((seconds, below as f64 / total as f64));
        below += count;
        corners.push((seconds, below as f64 / total as f64));
    }
    corners
}

/// Decades of the share above: 1 at 90 %, 2 at 99 %.
fn tail(share: f64) -> f64 {
    // No −0 at the foot.
    -(1.0 - share).log10() + 0.0
}

fn rules(picture: &mut Picture, panel: &Panel) {
    for share in SHARES.into_iter().filter(|share| panel.y.shows(tail(*share))) {
        let (_, y) = panel.pixel((panel.x.low(), tail(share)));
        picture.line(vec![(panel.left, y), (panel.right, y)], Colour::RULE, 1.0);
        let label = format!("{} %", (share * 1e5).round() / 1e3);
        picture.text(
            (panel.left - 8.0, y + 4.0),
            &label,
            Font::TICK,
            Anchor::End,
            Colour::GREY,
        );
    }
    let heading = "Share of values at or below; 90, 99 and 99.9 % are equally far apart";
    picture.text(
        (panel.left, panel.top - 12.0),
        heading,
        Font::HEADING,
        Anchor::Start,
        Colour::INK,
    );
}

/// Where each curve's name and quantiles stand: beside it, and so far from the others that it cannot be taken for theirs.
fn label_places(panel: &Panel, curves: &[Curve]) -> Vec<Option<Place>> {
    let drawn: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|curve| dense(&panel.pixels(&curve.points)))
        .collect();
    let page = Place {
        left: panel.left,
        top: panel.top,
        right: panel.right,
        bottom: panel.bottom,
    };
    let mut taken: Vec<Place> = Vec::new();
    let mut place_one = |(index, curve): (usize, &Curve)| {
        let cost = |place: &Place| {
            let reach = |other: usize| if other == index { 0.0 } else { 2.0 * GAP };
            drawn
                .iter()
                .enumerate()
                .map(|(other, points)| place.covers(points, reach(other)))
                .sum()
        };
        let place = best(candidates(panel, curve), cost, &taken, &page);
        taken.extend(place);
        place
    };
    curves.iter().enumerate().map(&mut place_one).collect()
}

fn write_label(picture: &mut Picture, curve: &Curve, place: &Place) {
    let [median, tail] = &curve.quoted;
    let name_width = Font::LABEL.width(&curve.name) + 6.0;
    let (first, second) = (place.top + 12.0, place.top + 12.0 + LINE);
    picture.text(
        (place.left, first),
        &curve.name,
        Font::LABEL,
        Anchor::Start,
        curve.colour,
    );
    picture.text(
        (place.left + name_width, first),
        median,
        Font::NOTE,
        Anchor::Start,
        Colour::GREY,
    );
    picture.text(
        (place.left + name_width, second),
        tail,
        Font::NOTE,
        Anchor::Start,
        Colour::GREY,
    );
}

/// Pixels that two curves may be apart with no label between them.
const FURTHER: f64 = 60.0;

/// Places to the right and to the left of a curve, the best first when nothing is in the way.
fn candidates(panel: &Panel, curve: &Curve) -> Vec<Place> {
    let quoted = curve
        .quoted
        .iter()
        .map(|text| Font::NOTE.width(text))
        .fold(0.0, f64::max);
    let width = Font::LABEL.width(&curve.name) + 6.0 + quoted;
    let at_tail = |tail: f64| {
        curve
            .points
            .iter()
            .find(|(_, at)| *at >= tail)
            .map(|(seconds, _)| *seconds)
    };
    let beside = |percent: u32| {
        let tail = panel.y.high() * f64::from(percent) / 100.0;
        let (x, y) = panel.pixel((at_tail(tail)?, tail));
        // The curves rise to the right: below right and above left are clear of the curve itself.
        let to_the_right = Place {
            left: x + GAP,
            top: y - 4.0,
            right: x + GAP + width,
            bottom: y - 4.0 + 2.0 * LINE,
        };
        let to_the_left = Place {
            left: x - GAP - width,
            top: y + 4.0 - 2.0 * LINE,
            right: x - GAP,
            bottom: y + 4.0,
        };
        Some([to_the_right, to_the_left])
    };
    let from_the_middle = || (0..23).flat_map(|step| [50 - 2 * step, 50 + 2 * step]);
    let near = from_the_middle().filter_map(beside);
    // Where another curve is that near, beyond it.
    let further = near.clone().map(|[_, left]| {
        [1.0, 2.0].map(|times| Place {
            left: left.left - times * FURTHER,
            right: left.right - times * FURTHER,
            ..left
        })
    });
    near.flatten().chain(further.flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures;
    use super::*;
    use crate::units::Picos;

    /// Answers that leave whole have their first token with their last.
    #[test]
    fn latencies_that_are_the_same_share_a_curve() {
        let mut summary = fixtures::stable_run().whole;
        for seen in [
            &mut summary.ttft,
            &mut summary.tpot,
            &mut summary.itl,
            &mut summary.e2el,
        ] {
            *seen = Distribution::default();
        }
        for ms in [100, 170, 290_u64] {
            summary.ttft.record(Picos(ms * 1_000_000_000), 1);
            summary.e2el.record(Picos(ms * 1_000_000_000), 1);
        }
        let names = |summary: &Summary| -> Vec<String> {
            let curves = curves(summary).into_iter();
            curves.map(|curve| curve.name).collect()
        };
        assert_eq!(names(&summary), ["TTFT = E2EL"]);
        summary.e2el.record(Picos(400_000_000_000), 1);
        assert_eq!(names(&summary), ["TTFT", "E2EL"]);
    }

    #[test]
    fn the_tail_has_as_much_room_as_its_decades() {
        let mut many = Distribution::default();
        for us in 1..=2000_u64 {
            many.record(Picos(us * 1_000_000), 1);
        }
        let curve = curve("TTFT", Colour::BLUE, &many).unwrap();
        let at = |us: f64| {
            let mut points = curve.points.iter();
            let (_, tail) = points
                .rfind(|(seconds, _)| *seconds <= us * 1e-6 + 1e-12)
                .unwrap();
            *tail
        };
        assert!((at(1800.0) - 1.0).abs() < 1e-6 && (at(1980.0) - 2.0).abs() < 1e-6);
        assert!((at(1998.0) - 3.0).abs() < 1e-6, "{}", at(1998.0));
        let last = curve.points.last().unwrap().1;
        assert!(
            (last - 4000f64.log10()).abs() < 1e-9,
            "the largest of 2,000: {last}"
        );
        let mut summary = fixtures::stable_run().whole;
        summary.ttft = many;
        let svg = latency_distribution(&summary, "M on G").svg();
        for rule in ["0 %", "50 %", "90 %", "99 %", "99.9 %"] {
            assert!(svg.contains(&format!("\n{rule}\n")), "{rule}");
        }
    }

    #[test]
    fn a_median_between_two_values_stands_on_the_curve() {
        let mut four = Distribution::default();
        for ms in [100, 170, 290, 300_u64] {
            four.record(Picos(ms * 1_000_000_000), 1);
        }
        let corners = staircase(&four);
        assert_eq!(corners.len(), 8);
        let half: Vec<f64> = (corners.iter())
            .filter(|(_, share)| (share - 0.5).abs() < 1e-9)
            .map(|(seconds, _)| *seconds)
            .collect();
        let median = four.quantile_s(0.5).expect("there are values");
        assert!(
            half.len() == 2 && half[0] < median && median < half[1],
            "{half:?} {median}"
        );
    }
}
