//! What is promised of the latencies that are drawn, and the curves of classes that promises are held against.

use super::super::scene::Colour;
use crate::report::figures;
use crate::report::views::{ClassPromise, KneePoint, KneeView};

/// What is promised of a latency that is drawn, with its name: to all requests, of a percentile, or to classes.
pub(super) fn limits(view: &KneeView, metric: &str) -> Vec<(f64, String)> {
    let word = metric.to_uppercase();
    let is_of_classes = promises_to_classes(view);
    let of_all = view
        .limits
        .iter()
        .filter(|limit| !is_of_classes && limit.metric == metric);
    let of_all = of_all.map(|limit| {
        (
            limit.limit_s,
            format!("{word} SLO {}", figures::time(limit.limit_s)),
        )
    });
    // Of no other percentile there is a curve.
    let of_percentile = view.promises.iter().filter(|promise| promise.metric == metric);
    let of_percentile = of_percentile.filter_map(|promise| {
        let p = promise.percentile.filter(|p| [50.0, 99.0].contains(p))?;
        Some((
            promise.limit_s,
            format!("{word} p{p} SLO {}", figures::time(promise.limit_s)),
        ))
    });
    let mut lines: Vec<(f64, String)> = of_all.chain(of_percentile).collect();
    if is_of_classes {
        let mut of_classes: Vec<(f64, Vec<&str>)> = Vec::new();
        for class in &view.classes {
            for limit in class.limits.iter().filter(|limit| limit.metric == metric) {
                match of_classes
                    .iter_mut()
                    .find(|(limit_s, _)| *limit_s == limit.limit_s)
                {
                    Some((_, names)) => names.push(&class.name),
                    None => of_classes.push((limit.limit_s, vec![&class.name])),
                }
            }
        }
        lines.extend(of_classes.into_iter().map(|(limit_s, names)| {
            (
                limit_s,
                format!("{word} SLO of {} {}", names.join(" and "), figures::time(limit_s)),
            )
        }));
    }
    lines
}

fn promises_to_classes(view: &KneeView) -> bool {
    view.classes.iter().any(|class| !class.limits.is_empty())
}

/// The tail of a class that something is promised to, over the rates.
pub(super) struct ClassCurve<'a> {
    pub(super) name: &'a str,
    pub(super) colour: Colour,
    pub(super) points: Vec<(f64, f64)>,
}

/// More curves than that nobody tells apart.
const CLASS_COLOURS: [Colour; 3] = [Colour::GREEN, Colour::ORANGE, Colour::SKY];

/// The tails that a limit of a class is held against: of those that are promised this latency, as many as there are colours.
pub(super) fn drawn_classes<'a>(view: &'a KneeView, metric: &str) -> Vec<ClassCurve<'a>> {
    let of = |point: &KneePoint, class: usize| {
        let tails = point.by_class.get(class)?;
        match metric {
            "ttft" => tails.p99_ttft_s,
            _ => tails.p99_tpot_s,
        }
    };
    let promised = view.classes.iter().enumerate();
    // A class has one colour in all panels.
    let promised = promised
        .filter(|(_, class)| !class.limits.is_empty())
        .zip(CLASS_COLOURS);
    let promised = promised.filter(|((_, class), _)| class.limits.iter().any(|limit| limit.metric == metric));
    let curve = |((index, class), colour): ((usize, &'a ClassPromise), Colour)| ClassCurve {
        name: &class.name,
        colour,
        points: view
            .points
            .iter()
            .filter_map(|point| Some((point.load(), of(point, index)?)))
            .collect(),
    };
    promised
        .map(curve)
        .filter(|curve| !curve.points.is_empty())
        .collect()
}

/// What a caption says of the curves of classes.
pub(super) fn of_classes(view: &KneeView) -> String {
    let promised = view
        .classes
        .iter()
        .filter(|class| !class.limits.is_empty())
        .count();
    let drawn = CLASS_COLOURS.len();
    match promised {
        0 => String::new(),
        few if few <= drawn => " The p99 of a class is over the whole run.".to_owned(),
        _ => format!(
            " The p99 of a class is over the whole run, and drawn for the first {drawn} of {promised} with an SLO."
        ),
    }
}
