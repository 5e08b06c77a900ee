//! Variants side by side, for programs: JSON with every seed's figures, CSV with a row for each variant and measure.

use serde_json::{Map, Value, json};

use super::versus::{Row, Unit, Versus, answer};
use super::versus_measures::ends as possible;
use super::{trust_word, verdict_word};
use crate::analysis::Difference;
use crate::calibrate::interval::FigureInterval;
use crate::stats::Interval;

/// The comparison as one JSON object.
#[must_use]
pub fn json(versus: &Versus) -> String {
    let rows = versus.rows();
    let variants: Vec<Value> = (0..versus.variants.len())
        .map(|at| variant(versus, &rows, at))
        .collect();
    let mut object = json!({
        "answer": answer(versus),
        "subject": versus.subject,
        "seeds": versus.seeds(),
        "requests": versus.requests,
        "same_requests": versus.is_paired,
        "variants": variants,
    });
    if let Some(asked) = versus.interrupted_of {
        object["interrupted"] = json!(true);
        object["seeds_asked"] = json!(asked);
    }
    object.to_string() + "\n"
}

fn variant(versus: &Versus, rows: &[Row], at: usize) -> Value {
    let shown = &versus.variants[at];
    let mut figures = Map::new();
    let mut differences = Map::new();
    for row in rows {
        figures.insert(row.measure.key.to_owned(), json!(row.means[at]));
        if let Some(difference) = at.checked_sub(1).and_then(|other| row.differences[other]) {
            differences.insert(row.measure.key.to_owned(), of(row.measure.unit, &difference));
        }
    }
    let by_seed: Map<String, Value> = super::versus::MEASURES
        .iter()
        .zip(&shown.figures)
        .filter(|(measure, _)| figures.contains_key(measure.key))
        .map(|(measure, values)| (measure.key.to_owned(), json!(values)))
        .collect();
    let verdicts: Vec<&str> = shown
        .verdicts
        .iter()
        .map(|verdict| verdict_word(*verdict))
        .collect();
    let mut object = json!({
        "name": shown.name,
        "flags": shown.said,
        "verdicts": verdicts,
        "figures": figures,
        "figures_by_seed": by_seed,
        "notes": shown.remarks.iter().map(|remark| remark.text.as_str()).collect::<Vec<_>>(),
        "notes_of_runs": shown.remarks.iter().map(|remark| remark.runs).collect::<Vec<_>>(),
        "violations": shown.violations,
    });
    let words = shown.trust.iter();
    object["trust"] = Value::Object(
        words
            .map(|(part, trust)| (part.clone(), trust_word(*trust).into()))
            .collect(),
    );
    if let Some(model) = &shown.model {
        object["model_interval"] = Value::Object(model.figures.iter().map(figure).collect());
    }
    if at > 0 {
        object["differences"] = Value::Object(differences);
        object["later_by_1s_share"] = json!(shown.moved.map(|moved| moved.0));
        object["sooner_by_1s_share"] = json!(shown.moved.map(|moved| moved.1));
    }
    object
}

/// The factors that a figure lies within with 90 % confidence by the parameters' uncertainty alone, as those of a run are
/// written.
fn figure(figure: &FigureInterval) -> (String, Value) {
    let (low, high) = figure.factors_90();
    let parts = figure.parts.iter();
    let by_component: Map<String, Value> = parts
        .map(|(component, part)| (component.name().to_owned(), json!(part)))
        .collect();
    let told = json!({
        "factors_90": [low, high],
        "sigma_ln": figure.sigma_ln,
        "effect_ln_by_component": by_component,
    });
    (figure.name.to_owned(), told)
}

fn of(unit: Unit, difference: &Difference) -> Value {
    let ends = |interval: &Interval, is_relative: bool| {
        let known = interval.half_width.is_finite();
        json!(known.then(|| <[f64; 2]>::from(possible(unit, is_relative, interval))))
    };
    json!({
        "absolute": difference.absolute.value,
        "absolute_95": ends(&difference.absolute, false),
        "relative": difference.relative.map(|relative| relative.value),
        "relative_95": difference.relative.map(|relative| ends(&relative, true)),
    })
}

/// The comparison as CSV.
#[must_use]
pub fn csv(versus: &Versus) -> String {
    let mut lines = vec![
        "variant,flags,measure,unit,value,difference,difference_low,difference_high,relative,relative_low,relative_high"
            .to_owned(),
    ];
    for row in versus.rows() {
        for (at, shown) in versus.variants.iter().enumerate() {
            let difference = at.checked_sub(1).and_then(|other| row.differences[other]);
            let mut cells = vec![
                quoted(&shown.name),
                quoted(&shown.said),
                row.measure.key.to_owned(),
                unit(row.measure.unit).to_owned(),
                row.means[at].map_or(String::new(), |mean| mean.to_string()),
            ];
            let unit = row.measure.unit;
            cells.extend(ends(
                unit,
                false,
                difference.map(|difference| difference.absolute),
            ));
            cells.extend(ends(
                unit,
                true,
                difference.and_then(|difference| difference.relative),
            ));
            lines.push(cells.join(","));
        }
    }
    if versus.interrupted_of.is_some() {
        lines.push(format!(",,interrupted,count,{},,,,,,", versus.seeds()));
    }
    lines.join("\n") + "\n"
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "s",
        Unit::Share => "fraction",
        Unit::Count => "count",
        Unit::Rate => "per_s",
    }
}

/// The value and its ends; empty where unknown.
fn ends(unit: Unit, is_relative: bool, interval: Option<Interval>) -> [String; 3] {
    let Some(interval) = interval else {
        return [const { String::new() }; 3];
    };
    let end = |value: f64| {
        if value.is_finite() {
            value.to_string()
        } else {
            String::new()
        }
    };
    if interval.half_width.is_infinite() {
        return [end(interval.value), String::new(), String::new()];
    }
    let (low, high) = possible(unit, is_relative, &interval);
    [end(interval.value), end(low), end(high)]
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::comparison as two;
    use super::*;

    #[test]
    fn files_hold_every_seed_and_both_differences() {
        let parsed: Value = serde_json::from_str(&json(&two())).unwrap();
        let b = &parsed["variants"][1];
        assert_eq!(b["figures_by_seed"]["hit_rate"].as_array().unwrap().len(), 4);
        assert!((b["differences"]["mean_ttft_s"]["relative"].as_f64().unwrap() + 0.5).abs() < 1e-9);
        assert!(b["differences"]["hit_rate"]["relative"].is_null());
        assert!(parsed["variants"][0]["differences"].is_null());
        let csv = csv(&two());
        let row = csv
            .lines()
            .find(|line| line.starts_with("B,--schedule-policy lpm,mean_tpot_s,s,"))
            .unwrap();
        assert_eq!(row.split(',').count(), 11);
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert!(parsed["interrupted"].is_null() && !csv.contains("interrupted"));
    }

    #[test]
    fn a_comparison_that_was_stopped_says_after_how_many_seeds() {
        let cut = Versus {
            interrupted_of: Some(500),
            ..two()
        };
        assert!(answer(&cut).starts_with("INTERRUPTED after 4 of 500 seeds: "));
        let whole = Versus {
            interrupted_of: Some(4),
            ..two()
        };
        assert!(answer(&whole).starts_with("INTERRUPTED after all 4 seeds: "));
        let parsed: Value = serde_json::from_str(&json(&cut)).unwrap();
        assert_eq!(
            (&parsed["interrupted"], &parsed["seeds"]),
            (&json!(true), &json!(4))
        );
        let csv = csv(&cut);
        let last = csv.lines().last().unwrap();
        assert!(last.starts_with(",,interrupted,count,4") && last.split(',').count() == 11);
    }
}
