//! Whether a measurement refutes a prediction that says how far its model may be off.
//!
//! A measured figure lies within what the prediction allows where model and chance together leave it there in 90 of 100. Of
//! several figures one may lie outside by that alone, so the prediction is refuted only where one lies beyond the interval that
//! holds all of them together as surely (Šidák, as in `together`). Left out: figures without a model interval.

use super::{Comparison, DEVIATIONS, Roles};
use crate::results::Measured;
use crate::stats::student_t;

/// Confidence of model intervals, as results write them.
pub const MODEL_CONFIDENCE: f64 = 0.9;

/// What a prediction says of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Foretold {
    /// The least and the most that the measurement may be, model and chance together, 90 %, in the unit of the figure.
    pub within: (f64, f64),
    /// Whether it lies there.
    pub is_inside: bool,
    /// Whether it lies beyond what all figures together allow.
    pub is_refuted: bool,
}

/// What becomes of a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Refuted {
    /// Figures with a model interval.
    pub figures: usize,
    /// Those whose measurement lies outside of theirs.
    pub outside: Vec<String>,
    /// Those that refute it.
    pub refuting: Vec<String>,
}

/// Holds every figure that has a model interval against it.
pub(super) fn foretell(rows: [&Measured; 2], comparison: &mut Comparison) -> Option<Refuted> {
    let is_first = match comparison.roles {
        Roles::Predicted => true,
        Roles::Measured => false,
        Roles::Alike => return None,
    };
    let model = &rows[usize::from(!is_first)].own.as_ref()?.model;
    let factors = |name: &str| {
        let key = key(name)?;
        let known = model.iter().find(|(known, _)| *known == key)?;
        Some(known.1).filter(|(low, high)| *low > 0.0 && *high > 0.0)
    };
    let figures = comparison.figures.iter_mut();
    let mut known: Vec<_> = figures
        .filter_map(|figure| factors(&figure.name).map(|factors| (figure, factors)))
        .filter(|(figure, _)| figure.measured > 0.0 && figure.few.is_none())
        .collect();
    let count = known.len();
    if count == 0 {
        return None;
    }
    let normal = |confidence: f64| student_t(confidence, f64::INFINITY);
    let ninety = normal(MODEL_CONFIDENCE);
    let together = normal(MODEL_CONFIDENCE.powf(1.0 / count as f64)) / ninety;
    let mut refuted = Refuted {
        figures: count,
        outside: Vec::new(),
        refuting: Vec::new(),
    };
    for (figure, (low, high)) in &mut known {
        let chance = figure.noise.unwrap_or(0.0) * ninety / DEVIATIONS;
        let reach = |model: f64| model.max(0.0).hypot(chance) + figure.jump;
        let (down, up) = (reach(-low.ln()), reach(high.ln()));
        let (predicted, measured) = match is_first {
            true => (figure.predicted, figure.measured),
            false => (figure.measured, figure.predicted),
        };
        let off = (measured / predicted).ln();
        let foretold = Foretold {
            within: (predicted * (-down).exp(), predicted * up.exp()),
            is_inside: (-down..=up).contains(&off),
            is_refuted: !(-down * together..=up * together).contains(&off),
        };
        if !foretold.is_inside {
            refuted.outside.push(figure.name.clone());
        }
        if foretold.is_refuted {
            refuted.refuting.push(figure.name.clone());
        }
        figure.foretold = Some(foretold);
    }
    Some(refuted)
}

/// The key of a result file under which a figure's model interval stands.
fn key(name: &str) -> Option<String> {
    let (of, metric) = name.split_once(' ')?;
    Some(match (of, metric) {
        ("request", _) => "request_throughput".to_owned(),
        ("output", _) => "output_throughput".to_owned(),
        ("total", _) => "total_token_throughput".to_owned(),
        (of, metric) => format!("{of}_{metric}_ms"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::compare;
    use super::super::tests::{moved, run};
    use super::*;
    use crate::results::{Own, Tool};

    /// What becomes of a prediction whose times per token and first tokens may be off by 10 %, where they are measured so many
    /// times as long.
    fn judged(tpot: f64, ttft: f64) -> Refuted {
        let mut predicted = run();
        predicted.tool = Tool::Plimsoll;
        let keys = ["mean_tpot_ms", "mean_ttft_ms", "p99_ttft_ms"];
        predicted.own = Some(Own {
            model: keys.map(|key| (key.to_owned(), (0.9, 1.1))).to_vec(),
            ..Own::default()
        });
        let mut measured = run();
        moved(&mut measured.tpot, |step| tpot * step);
        moved(&mut measured.ttft, |first| ttft * first);
        let compared = compare(&predicted, &measured);
        let swapped = compare(&measured, &predicted);
        assert_eq!(compared.refuted, swapped.refuted);
        let mean = compared.figure("mean tpot").unwrap();
        let within = mean.foretold.unwrap().within;
        assert!(within.0 < 0.0081 * 0.9 && within.1 > 0.0081 * 1.1, "{within:?}");
        assert_eq!(compared.figure("median tpot").unwrap().foretold, None);
        compared.refuted.unwrap()
    }

    #[test]
    fn a_prediction_is_refuted_by_what_lies_beyond_its_model_and_chance() {
        let names = |names: &[String]| names.join(", ");
        let held = judged(1.08, 1.0);
        assert_eq!((held.figures, names(&held.outside)), (3, String::new()));
        // Outside of its own interval, but of three one may be.
        let near = judged(1.115, 1.0);
        assert_eq!(names(&near.outside), "mean tpot");
        assert_eq!(names(&near.refuting), "");
        let beyond = judged(1.3, 1.4);
        assert!(
            names(&beyond.refuting).starts_with("mean ttft, p99 ttft, mean tpot"),
            "{beyond:?}"
        );
    }

    #[test]
    fn nothing_is_foretold_by_two_measurements_or_two_predictions() {
        assert_eq!(compare(&run(), &run()).refuted, None);
        let mut predicted = run();
        predicted.tool = Tool::Plimsoll;
        predicted.own = Some(Own {
            model: vec![("mean_tpot_ms".to_owned(), (0.9, 1.1))],
            ..Own::default()
        });
        assert_eq!(compare(&predicted, &predicted).refuted, None);
        assert!(compare(&predicted, &run()).refuted.is_some());
    }
}
