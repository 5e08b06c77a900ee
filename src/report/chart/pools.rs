//! Batch, queue and KV cache over time of each pool or replica: small multiples on common scales, and above them how many
//! replicas were in service where they come and go.

use super::super::figures;
use super::axis::{Axis, Quantity};
use super::knee::nothing;
use super::panel::{Panel, head};
use super::scene::{Anchor, Colour, Font, Picture};
use crate::metrics::LoadPoint;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 148.0;
const COLUMN: f64 = 220.0;
const COLUMN_GAP: f64 = 44.0;
const ROW: f64 = 62.0;
const ROW_GAP: f64 = 20.0;
/// Rows that are drawn.
const ROWS_MAX: usize = 8;
/// Points of a curve: more would be noise.
const POINTS: usize = 110;

/// One pool or replica.
#[derive(Clone, Debug)]
pub struct PoolOverTime {
    /// `chat`, `replica 3`.
    pub name: String,
    /// Sequences that ran on it on average over the run, as the report says it.
    pub running: f64,
    /// Its points, equally far apart and the same number for all.
    pub points: Vec<LoadPoint>,
}

impl PoolOverTime {
    fn mean(&self, of: fn(&LoadPoint) -> f64) -> f64 {
        self.points.iter().map(of).sum::<f64>() / self.points.len().max(1) as f64
    }
}

/// Replicas in service from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InService {
    /// From then on, in seconds.
    pub t_s: f64,
    /// So many.
    pub replicas: u32,
}

/// Heading, kind, colour and figure of a column.
type Column = (&'static str, Quantity, Colour, fn(&LoadPoint) -> f64);

const COLUMNS: [Column; 3] = [
    ("Running sequences", Quantity::Number, Colour::BLUE, |point| {
        point.running
    }),
    (
        "Waiting in the engine",
        Quantity::Number,
        Colour::VERMILLION,
        |point| point.waiting,
    ),
    ("KV blocks in use", Quantity::Share, Colour::GREEN, |point| {
        point.kv_usage
    }),
];

/// Draws the pools, at most eight: the busiest ones. `in_service` is empty where replicas do not come and go.
#[must_use]
pub fn pools(pools: &[PoolOverTime], in_service: &[InService], subject: &str) -> Picture {
    let shown = busiest(pools);
    let mut picture = Picture::new(&title(pools), WIDTH, 0.0);
    let note = match pools.len() > shown.len() {
        true => format!(" The {} busiest of {} are drawn.", shown.len(), pools.len()),
        false => String::new(),
    };
    let mut top = head(
        &mut picture,
        24.0,
        &format!("{subject}.{note} Scales are common."),
    ) + 44.0;
    let ends = pools.iter().filter_map(|pool| pool.points.last());
    let end = ends.map(|point| point.t_s).fold(0.0, f64::max);
    let end = in_service.iter().map(|step| step.t_s).fold(end, f64::max);
    let x = Axis::fixed(0.0, if end > 0.0 { end } else { 1.0 }, Quantity::Time);
    if !in_service.is_empty() {
        top = service(&mut picture, in_service, x, top);
    }
    let curves: Vec<[Vec<(f64, f64)>; 3]> = shown
        .iter()
        .map(|pool| COLUMNS.map(|(_, _, _, of)| thinned(&pool.points, of)))
        .collect();
    let bottom_row = shown.len().saturating_sub(1);
    for (column, (heading, quantity, colour, _)) in COLUMNS.into_iter().enumerate() {
        let left = LEFT + column as f64 * (COLUMN + COLUMN_GAP);
        let values = curves
            .iter()
            .flat_map(|row| row[column].iter().map(|point| point.1));
        let y = Axis::linear(values, quantity);
        for (row, curve) in curves.iter().enumerate() {
            let panel_top = top + row as f64 * (ROW + ROW_GAP);
            let panel = Panel {
                left,
                top: panel_top,
                right: left + COLUMN,
                bottom: panel_top + ROW,
                x,
                y,
            };
            panel.rules(&mut picture, if row == 0 { heading } else { "" }, 2);
            filled(&mut picture, &panel, &curve[column], colour);
            panel.foot(&mut picture, 4);
            if row == bottom_row {
                panel.foot_labels(&mut picture, "simulated time", 4);
            }
        }
    }
    for (row, pool) in shown.iter().enumerate() {
        let middle = top + row as f64 * (ROW + ROW_GAP) + ROW / 2.0 + 4.0;
        let name = fitting(&pool.name, LEFT - 24.0 - 44.0);
        picture.text((24.0, middle), &name, Font::LABEL, Anchor::Start, Colour::INK);
    }
    let rows = shown.len().max(1) as f64;
    picture.height = top + rows * (ROW + ROW_GAP) - ROW_GAP + 56.0;
    picture
}

/// The busiest ones, in the order of the scenario.
fn busiest(pools: &[PoolOverTime]) -> Vec<&PoolOverTime> {
    let mut order: Vec<usize> = (0..pools.len()).collect();
    let load = |at: &usize| pools[*at].mean(|point| point.running + point.waiting);
    order.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.cmp(b)));
    order.truncate(ROWS_MAX);
    order.sort_unstable();
    order.into_iter().map(|at| &pools[at]).collect()
}

/// Who had most to do and who least.
fn title(pools: &[PoolOverTime]) -> String {
    let by = |a: &&PoolOverTime, b: &&PoolOverTime| a.running.total_cmp(&b.running);
    let (Some(most), Some(least)) = (pools.iter().max_by(by), pools.iter().min_by(by)) else {
        return "No replica computed anything".to_owned();
    };
    let said = |pool: &PoolOverTime| figures::significant(pool.running);
    if pools.len() == 1 {
        return format!("On average {} sequences run", said(most));
    }
    format!(
        "Most run on {}, {} on average, fewest on {}, {}",
        most.name,
        said(most),
        least.name,
        said(least)
    )
}

/// A panel of its own over the whole width; returns where the next ones begin.
fn service(picture: &mut Picture, steps: &[InService], x: Axis, top: f64) -> f64 {
    let panel = Panel {
        left: LEFT,
        top,
        right: LEFT + 3.0 * COLUMN + 2.0 * COLUMN_GAP,
        bottom: top + ROW,
        x,
        y: Axis::linear(
            steps.iter().map(|step| f64::from(step.replicas)),
            Quantity::Number,
        ),
    };
    // Whole numbers, as many as have room.
    let most = steps.iter().map(|step| step.replicas).max().unwrap_or(1);
    panel.rules(picture, "Replicas in service", most.clamp(1, 4) as usize);
    let mut stairs: Vec<(f64, f64)> = Vec::new();
    for step in steps {
        if let Some(&(_, before)) = stairs.last() {
            stairs.push((step.t_s, before));
        }
        stairs.push((step.t_s, f64::from(step.replicas)));
    }
    if let Some(&(_, last)) = stairs.last() {
        stairs.push((panel.x.high(), last));
    }
    filled(picture, &panel, &stairs, Colour::PURPLE);
    panel.foot(picture, 8);
    panel.foot_labels(picture, "", 8);
    panel.bottom + 72.0
}

fn filled(picture: &mut Picture, panel: &Panel, points: &[(f64, f64)], colour: Colour) {
    let pixels = panel.pixels(points);
    match (pixels.first(), pixels.last()) {
        (Some(&first), Some(&last)) if pixels.len() > 1 => {
            let mut outline = pixels.clone();
            outline.extend([(last.0, panel.bottom), (first.0, panel.bottom)]);
            picture.area(outline, colour.faded(0.18));
            picture.line(pixels, colour, 1.3);
        }
        (Some(&only), _) => picture.dot(only, 2.5, colour),
        _ => nothing(picture, panel, "nothing was computed"),
    }
}

/// Means of equally many neighbours.
fn thinned(points: &[LoadPoint], of: fn(&LoadPoint) -> f64) -> Vec<(f64, f64)> {
    let each = points.len().div_ceil(POINTS).max(1);
    let mean = |chunk: &[LoadPoint]| {
        let of_all = |of: &dyn Fn(&LoadPoint) -> f64| chunk.iter().map(of).sum::<f64>() / chunk.len() as f64;
        (of_all(&|point| point.t_s), of_all(&of))
    };
    points.chunks(each).map(mean).collect()
}

/// As much of a name as fits.
fn fitting(name: &str, width: f64) -> String {
    let mut shown = name.to_owned();
    while Font::LABEL.width(&shown) > width && shown.chars().count() > 2 {
        let keep = shown.chars().count() - 2;
        shown = shown.chars().take(keep).collect::<String>() + "…";
    }
    shown
}
