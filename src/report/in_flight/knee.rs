//! A closed loop's search in the shape that charts and rankings take, and what breaks beyond its answer.

use crate::analysis::Estimate;
use crate::analysis::knee::{InFlight, InFlightEnding, Knee, Limiter, Point, Pressure};
use crate::metrics::Metric;
use crate::report::figures::count;
use crate::report::knee_limit::{First, breaks, limiter_code};
use crate::report::knee_view::{self, KneeContext};
use crate::report::sought::Sought;
use crate::report::views::{ClassPromise, KneePoint, KneeView};
use crate::report::words::EngineWords;

impl KneeView {
    /// Makes the view of a search for the most in flight.
    #[must_use]
    pub fn of_loop(found: &InFlight, of: Sought, context: KneeContext) -> KneeView {
        let limited_by = limited_by(found, of, &context.classes, context.words, &context.pools);
        let nearest = found.best().or(found.tried.first()).map(|(_, point)| point);
        let share = |of: fn(&Point) -> f64| nearest.map_or(0.0, of);
        let tokens = tokens_per_s(found);
        // A loop has no rate that could be too high: nothing else of a search over rates is known of it.
        let without_rates = Knee {
            within_slo: None,
            saturation: None,
            when_full: None,
            client: None,
            limiter: None,
            binding: None,
            loss: None,
            points: Vec::new(),
            converged: true,
        };
        KneeView {
            of,
            points: found.tried.iter().map(point).collect(),
            knee: knee(found.ending),
            limited_by,
            breaks_first: first(found),
            hardest_pressed: pressed(found).map(|(limiter, _)| limiter_code(limiter)),
            prompt_tokens_per_s: tokens.map(|(prompt, _)| prompt),
            output_tokens_per_s: tokens.map(|(_, output)| output),
            answers_cut: share(|point| point.answers_cut),
            too_long: share(|point| point.lost.too_long),
            ..KneeView::new(&without_rates, context)
        }
    }
}

/// The most within the SLO and the ends of its interval; an end that was not found out is open.
fn knee(ending: InFlightEnding) -> Option<Estimate> {
    let (most, low, high) = match ending {
        InFlightEnding::Found {
            most,
            surely,
            at_most,
        } => (most, surely.unwrap_or(0), at_most),
        InFlightEnding::Unbounded(most) | InFlightEnding::Most(most) => (most, most, None),
        InFlightEnding::None | InFlightEnding::Untold(_) | InFlightEnding::Stopped => return None,
    };
    Some(Estimate {
        value: most as f64,
        low: low as f64,
        high: high.map_or(f64::INFINITY, |high| high as f64),
    })
}

fn point((number, point): &(u64, Point)) -> KneePoint {
    KneePoint {
        in_flight: Some(*number),
        ..knee_view::point(point)
    }
}

/// Prompt and output tokens per second of the answer's run.
fn tokens_per_s(found: &InFlight) -> Option<(f64, f64)> {
    let (_, point) = found.best()?;
    let (rate, (prompt, output)) = (point.throughput?.value, point.tokens_each?);
    Some((rate * prompt, rate * output))
}

/// What breaks first beyond the answer.
fn first(found: &InFlight) -> First {
    let beyond = found.first_beyond().map(|(_, point)| point);
    match beyond.map(|point| (point.binding, point.is_losing)) {
        None => First::Nothing,
        Some((Some(binding), _)) => First::Promise(binding.metric, binding.statistic),
        Some((None, true)) => First::LostRequests,
        Some((None, false)) => First::Saturation,
    }
}

/// What is pressed the hardest within the answer, by what breaks beyond it.
fn pressed(found: &InFlight) -> Option<(Limiter, Pressure)> {
    let (_, beyond) = found.first_beyond()?;
    let metric = beyond.binding?.metric;
    let pressure = found.best().map_or(beyond, |(_, point)| point).pressure?;
    Some(match metric {
        Metric::Tpot | Metric::Itl => (pressure.limiter_of_pace(), pressure),
        _ => (pressure.limiter(), pressure),
    })
}

/// What breaks first beyond the answer, in words: its figure there, why, and what is pressed the hardest within it.
fn limited_by(
    found: &InFlight,
    of: Sought,
    classes: &[ClassPromise],
    words: EngineWords,
    pools: &[(String, EngineWords)],
) -> Option<String> {
    let (beyond, point) = found.first_beyond()?;
    let with = format!("with {} {}", count(*beyond), of.unit());
    let Some(binding) = point.binding else {
        return Some(format!("{} {with}", point.reason));
    };
    let pressed = pressed(found);
    let pool = pressed.and_then(|(_, pressure)| pools.get(pressure.pool?));
    let words = pool.map_or(words, |(_, words)| *words);
    let pool = pool.map(|(name, _)| name.as_str());
    Some(breaks(
        (&binding, &format!(" {with}")),
        classes,
        pressed,
        words,
        pool,
    ))
}
