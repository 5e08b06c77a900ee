//! The roofline with a run's steps as dots, coloured by phase (Williams, Waterman and Patterson 2009).
//!
//! Attainable FLOP/s = min(peak, bandwidth × intensity). A step's intensity and rate come from the cost model's own work
//! counts, so a dot above the roof would be a bug of the model.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::place::{Place, best, dense};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::cost::{StepCost, StepLoad};

const WIDTH: f64 = 820.0;
const LEFT: f64 = 92.0;
const RIGHT: f64 = 792.0;
const HEIGHT: f64 = 400.0;

/// Dots, the largest, that a phase's name may stand beside.
const NAMED_BY: usize = 24;
/// Distances of a name from its dot that are tried.
const DISTANCES: [f64; 5] = [12.0, 24.0, 42.0, 66.0, 96.0];
/// A name that is further away has a line to its dot.
const LEADER_FROM: f64 = 16.0;

/// A machine's two ceilings and the steps that ran under them.
#[derive(Clone, Debug, PartialEq)]
pub struct RooflineView {
    /// What was simulated.
    pub subject: String,
    /// GPUs of one replica, of which each runs every step: roof and dots are those of one of them.
    pub gpus: u32,
    /// Dense peak of one GPU in FLOP/s, for the number format named in `format`.
    pub peak_flops_per_s: f64,
    /// `bf16`, `fp8` …
    pub format: String,
    /// Memory bandwidth of one GPU in bytes per second.
    pub memory_bytes_per_s: f64,
    /// The steps.
    pub steps: Vec<RooflineStep>,
}

/// One step, or several alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RooflineStep {
    /// Floating-point operations on one GPU.
    pub flops: f64,
    /// Bytes moved to and from its memory.
    pub bytes: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// How many like it.
    pub count: u64,
    /// What it computed.
    pub phase: Phase,
}

/// What a step computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One token for each sequence.
    Decode,
    /// Prompt chunks beside decoding sequences.
    Mixed,
    /// Prompt chunks alone.
    Prefill,
}

/// Work of a run's sampled steps by the cost model's account.
#[must_use]
pub fn roofline_steps(sampled: &[(StepLoad, f64, u64)], cost: &dyn StepCost) -> Vec<RooflineStep> {
    let step = |(load, seconds, count): &(StepLoad, f64, u64)| {
        let parts = cost.breakdown(load).parts;
        let phase = match (load.chunks.is_empty(), load.decode_seqs) {
            (true, _) => Phase::Decode,
            (false, 0) => Phase::Prefill,
            (false, _) => Phase::Mixed,
        };
        RooflineStep {
            flops: parts.iter().map(|part| part.flops).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            seconds: *seconds,
            count: *count,
            phase,
        }
    };
    sampled.iter().map(step).collect()
}

impl RooflineView {
    /// FLOP per byte at which the two ceilings meet.
    fn ridge(&self) -> f64 {
        self.peak_flops_per_s / self.memory_bytes_per_s
    }

    fn roof(&self, intensity: f64) -> f64 {
        self.peak_flops_per_s.min(self.memory_bytes_per_s * intensity)
    }
}

impl RooflineStep {
    /// (FLOP per byte, FLOP per second); `None` where that is not a point of a logarithmic chart.
    fn point(&self) -> Option<(f64, f64)> {
        let point = (self.flops / self.bytes, self.flops / self.seconds);
        (point.0.is_finite() && point.1.is_finite() && point.0 > 0.0 && point.1 > 0.0).then_some(point)
    }
}

/// Draws the roofline.
#[must_use]
pub fn roofline(view: &RooflineView) -> Picture {
    let mut picture = Picture::new(&title(view), WIDTH, 0.0);
    let dots_are = "Each dot is a step, or several alike: its area grows with how many they are, and where it is darker more lie on each other.";
    let one_of = match view.gpus {
        0 | 1 => String::new(),
        gpus => format!(" Roof and dots are those of one of its {gpus} GPUs."),
    };
    let said = format!("{}. {dots_are}{one_of}", view.subject);
    let top = head(&mut picture, LEFT, &said) + 34.0;
    let points = || view.steps.iter().filter_map(RooflineStep::point);
    let ridge = view.ridge();
    let x = Axis::log(
        points()
            .map(|point| point.0 / 1.5)
            .chain([ridge / 30.0, ridge * 8.0]),
        Quantity::Number,
    );
    let rates = points()
        .map(|point| point.1 / 2.0)
        .chain([view.roof(x.low()), view.peak_flops_per_s]);
    let y = Axis::log(rates, Quantity::FlopsPerS);
    let panel = Panel {
        left: LEFT,
        top,
        right: RIGHT,
        bottom: top + HEIGHT,
        x,
        y,
    };
    picture.height = panel.bottom + 56.0;

    panel.rules(
        &mut picture,
        "FLOP per second, padding of CUDA graphs included",
        6,
    );
    ceilings(&mut picture, view, &panel);
    dots(&mut picture, view, &panel);
    if view.steps.is_empty() {
        nothing(&mut picture, &panel, "no step was recorded");
    }
    panel.foot(&mut picture, 8);
    panel.foot_labels(
        &mut picture,
        "arithmetic intensity, FLOP per byte of memory traffic",
        8,
    );
    picture
}

fn title(view: &RooflineView) -> String {
    let time = |step: &RooflineStep| step.seconds * step.count as f64;
    let total: f64 = view.steps.iter().map(time).sum();
    let ridge = view.ridge();
    let left_of_ridge = |step: &&RooflineStep| step.point().is_some_and(|point| point.0 < ridge);
    let memory: f64 = view.steps.iter().filter(left_of_ridge).map(time).sum();
    if total > 0.0 {
        format!(
            "{} of step time is spent left of the ridge, where memory bandwidth is the roof",
            figures::percent(memory.max(0.0) / total)
        )
    } else {
        format!(
            "Below {} FLOP per byte memory bandwidth is the roof",
            figures::significant(ridge)
        )
    }
}

/// The slope and the flat; the slope may leave the panel at its foot, so it starts where it enters.
fn roof_line(view: &RooflineView, panel: &Panel) -> [(f64, f64); 3] {
    let start = panel.x.low().max(panel.y.low() / view.memory_bytes_per_s);
    [start, view.ridge(), panel.x.high()].map(|intensity| (intensity, view.roof(intensity)))
}

fn ceilings(picture: &mut Picture, view: &RooflineView, panel: &Panel) {
    let ridge = view.ridge();
    let corners = roof_line(view, panel);
    panel.curve(picture, &corners, Colour::INK, 2.0);

    let (ridge_x, ridge_y) = panel.pixel(corners[1]);
    picture.dashes((ridge_x, ridge_y), (ridge_x, panel.bottom), Colour::AXIS, 1.0);
    let note = format!("ridge {} FLOP/B", figures::significant(ridge));
    picture.text(
        (ridge_x + 6.0, panel.bottom - 8.0),
        &note,
        Font::NOTE,
        Anchor::Start,
        Colour::GREY,
    );

    let peak = format!("{} {}", figures::flops_per_s(view.peak_flops_per_s), view.format);
    picture.text(
        (panel.right - 4.0, ridge_y - 8.0),
        &peak,
        Font::LABEL,
        Anchor::End,
        Colour::INK,
    );

    let halfway = (corners[0].0 * ridge).sqrt();
    let (x, y) = panel.pixel((halfway, view.roof(halfway)));
    let memory = figures::bytes_per_s(view.memory_bytes_per_s);
    picture.text(
        (x - 10.0, y - 6.0),
        &memory,
        Font::LABEL,
        Anchor::End,
        Colour::INK,
    );
}

/// Dots whose area follows the number of steps, and each phase's name near one of its dots.
fn dots(picture: &mut Picture, view: &RooflineView, panel: &Panel) {
    let most = view.steps.iter().map(|step| step.count).max().unwrap_or(1).max(1) as f64;
    let placed = |step: &RooflineStep| step.point().map(|point| panel.pixel(point));
    let ridge = panel.pixel_x(view.ridge());
    let mut drawn: Vec<(f64, f64)> = view.steps.iter().filter_map(placed).collect();
    drawn.extend(dense(&[(ridge, panel.top), (ridge, panel.bottom)]));
    drawn.extend(dense(&panel.pixels(&roof_line(view, panel))));
    let page = Place {
        left: panel.left,
        top: panel.top,
        right: panel.right,
        bottom: panel.bottom,
    };
    let mut taken: Vec<Place> = Vec::new();
    for (phase, name, colour) in [
        (Phase::Decode, "decode", Colour::BLUE),
        (Phase::Mixed, "mixed", Colour::PURPLE),
        (Phase::Prefill, "prefill", Colour::VERMILLION),
    ] {
        let steps: Vec<&RooflineStep> = view.steps.iter().filter(|step| step.phase == phase).collect();
        for step in &steps {
            if let Some(at) = placed(step) {
                picture.dot(
                    at,
                    2.4 + 4.0 * (step.count as f64 / most).sqrt(),
                    colour.faded(0.55),
                );
            }
        }
        let number = steps.iter().map(|step| step.count).sum();
        let text = format!("{name}, {}", figures::counted(number, "step"));
        let width = Font::LABEL.width(&text);
        // The largest first: they are the phase to the eye.
        let mut ends: Vec<(u64, (f64, f64))> = Vec::new();
        ends.extend(steps.iter().filter_map(|step| Some((step.count, placed(step)?))));
        ends.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.0.total_cmp(&a.1.0)));
        ends.truncate(NAMED_BY);
        let around = |(x, y): (f64, f64)| {
            DISTANCES.into_iter().flat_map(move |far| {
                let slant = far * std::f64::consts::FRAC_1_SQRT_2;
                let sides = [
                    (far, 0.0),
                    (slant, slant),
                    (slant, -slant),
                    (0.0, far),
                    (0.0, -far),
                ];
                let left = [(-slant, slant), (-slant, -slant), (-far, 0.0)];
                let right = sides.map(|(dx, dy)| (x + dx, y + dy - 7.0));
                let left = left.map(|(dx, dy)| (x + dx - width, y + dy - 7.0));
                right.into_iter().chain(left)
            })
        };
        let candidates = ends
            .iter()
            .flat_map(|&(_, at)| around(at))
            .map(|(left, top)| Place {
                left,
                top,
                right: left + width,
                bottom: top + 15.0,
            });
        let from = |place: &Place| {
            let far = |at: (f64, f64)| {
                let (x, y) = (
                    at.0.clamp(place.left, place.right),
                    at.1.clamp(place.top, place.bottom),
                );
                ((at.0 - x).hypot(at.1 - y), at, (x, y))
            };
            let ways = ends.iter().map(|&(_, at)| far(at));
            ways.min_by(|a, b| a.0.total_cmp(&b.0))
        };
        // Pixels to the dot weigh as much as what is covered.
        let cost = |place: &Place| {
            let far = from(place).map_or(0.0, |(far, ..)| far);
            4 * place.covers(&drawn, 0.0) + (far / 4.0) as usize
        };
        if let Some(place) = best(candidates, cost, &taken, &page) {
            if let Some((_, dot, end)) = from(&place).filter(|(far, ..)| *far > LEADER_FROM) {
                picture.line(vec![dot, end], colour, 1.0);
            }
            taken.push(place);
            picture.text(
                (place.left, place.bottom - 3.0),
                &text,
                Font::LABEL,
                Anchor::Start,
                colour,
            );
        }
    }
}
