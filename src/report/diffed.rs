//! Two results beside each other as text and as JSON: what moved most and why, then every figure.

use serde_json::{Value, json};

use super::figures;
use crate::audit::compare::{Comparison, Moved};

/// Version of the JSON; grows when a key changes its meaning.
pub const FORMAT_VERSION: u64 = 1;

/// The answer in one line.
#[must_use]
pub fn answer(comparisons: &[Comparison]) -> String {
    let moved: Vec<(&Comparison, &Moved)> = comparisons
        .iter()
        .filter_map(|one| Some((one, one.largest()?)))
        .collect();
    let most = moved
        .iter()
        .max_by(|a, b| a.1.change().abs().total_cmp(&b.1.change().abs()));
    if let Some(nothing) = comparisons.iter().find_map(|one| one.nothing.as_deref())
        && comparisons.iter().all(|one| one.nothing.is_some())
    {
        return format!("nothing to compare: {nothing}");
    }
    let Some((comparison, figure)) = most else {
        return "nothing moved by more than chance".to_owned();
    };
    let place = match (comparisons.len(), &comparison.places.1) {
        (1, _) => String::new(),
        (_, place) => format!(" in {place}"),
    };
    let why = comparison
        .causes
        .iter()
        .find(|cause| cause.explains(&figure.name))
        .map_or("no pattern names a cause", |cause| cause.words.as_str());
    format!(
        "{} is {:.1} % {} than predicted{place} ({} → {}): {why}",
        figure.name,
        100.0 * figure.change().abs(),
        if figure.change() > 0.0 { "higher" } else { "lower" },
        value(figure, figure.predicted),
        value(figure, figure.measured),
    )
}

fn value(figure: &Moved, value: f64) -> String {
    if figure.is_time {
        figures::time(value)
    } else {
        format!("{}/s", figures::significant(value))
    }
}

/// The comparison for people.
#[must_use]
pub fn text(comparisons: &[Comparison], alone: &[String]) -> String {
    let mut lines = vec![answer(comparisons)];
    for comparison in comparisons {
        lines.push(String::new());
        if comparisons.len() > 1 {
            lines.push(format!("{} against {}", comparison.places.0, comparison.places.1));
        }
        if let Some(nothing) = &comparison.nothing {
            if comparisons.len() > 1 {
                lines.push(format!("nothing to compare: {nothing}"));
            } else {
                lines.pop();
            }
            continue;
        }
        lines.push(format!(
            "{:<22}{:>12}{:>12}{:>10}{:>10}",
            "", "predicted", "measured", "change", "chance"
        ));
        lines.extend(comparison.figures.iter().map(row));
        lines.extend(comparison.remarks.iter().map(|remark| format!("note: {remark}")));
        lines.extend(
            comparison
                .causes
                .iter()
                .map(|cause| format!("likely [{}]: {}", cause.kind, cause.words)),
        );
    }
    if !alone.is_empty() {
        lines.push(String::new());
        lines.push(format!("without a partner: {}", alone.join("; ")));
    }
    lines.join("\n") + "\n"
}

fn row(figure: &Moved) -> String {
    let mark = if figure.is_real() { "" } else { "  within chance" };
    let noise = figure
        .noise
        .map_or("?".to_owned(), |noise| format!("±{:.1} %", 100.0 * noise));
    format!(
        "{:<22}{:>12}{:>12}{:>10}{noise:>10}{mark}",
        figure.name,
        value(figure, figure.predicted),
        value(figure, figure.measured),
        signed(figure.change()),
    )
}

/// A change with its sign; no change has none.
fn signed(change: f64) -> String {
    let text = format!("{:+.1}", 100.0 * change);
    let is_none = text.trim_start_matches(['+', '-']) == "0.0";
    format!("{} %", if is_none { "0.0" } else { &text })
}

/// The comparison as one object; times in milliseconds.
#[must_use]
pub fn json(comparisons: &[Comparison], alone: &[String]) -> String {
    let pairs: Vec<Value> = comparisons.iter().map(pair).collect();
    let object = json!({
        "format_version": FORMAT_VERSION,
        "answer": answer(comparisons),
        "pairs": pairs,
        "without_partner": alone,
    });
    format!("{object:#}\n")
}

fn pair(comparison: &Comparison) -> Value {
    let figures = comparison.figures.iter().map(|figure| {
        let unit = if figure.is_time { 1e3 } else { 1.0 };
        json!({
            "name": figure.name,
            "unit": if figure.is_time { "ms" } else { "/s" },
            "predicted": figure.predicted * unit,
            "measured": figure.measured * unit,
            "change": figure.change(),
            "noise_95": figure.noise,
            "is_real": figure.is_real(),
        })
    });
    let causes = comparison
        .causes
        .iter()
        .map(|cause| json!({"kind": cause.kind, "words": cause.words}));
    json!({
        "predicted": comparison.places.0,
        "measured": comparison.places.1,
        "figures": figures.collect::<Vec<Value>>(),
        "remarks": comparison.remarks,
        "causes": causes.collect::<Vec<Value>>(),
        "nothing_to_compare": comparison.nothing,
    })
}
