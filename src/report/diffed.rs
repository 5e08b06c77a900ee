//! Two results beside each other as text and as JSON: what moved most and why, then every figure.

use serde_json::{Value, json};

use super::figures;
use crate::audit::compare::{Comparison, FALSE_MOVES, Moved, Together};

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
        .max_by(|a, b| a.1.distance().total_cmp(&b.1.distance()));
    if let Some(nothing) = comparisons.iter().find_map(|one| one.nothing.as_deref())
        && comparisons.iter().all(|one| one.nothing.is_some())
    {
        return format!("nothing to compare: {nothing}");
    }
    let Some((comparison, figure)) = most else {
        let unlike = comparisons.iter().find(|one| !one.unlike.is_empty());
        let though = unlike.map_or(String::new(), |one| format!(", but {}", not_alike(one)));
        return format!("nothing moved by more than chance{though}");
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

/// What differs in how the two were run.
fn not_alike(comparison: &Comparison) -> String {
    format!("they were not run alike: {}", comparison.unlike.join("; "))
}

/// How sure it is that something moved where it is said.
fn judged(together: &Together) -> String {
    let alone = 100.0 * (1.0 - FALSE_MOVES);
    match together.figures {
        1 => format!("chance of the one figure that is judged: {alone:.0} %"),
        figures => format!(
            "{figures} figures are judged together, each against its {:.2} % chance, so that as far as these hold {alone:.0} % of \
             pairs of equal systems are told nothing at all",
            100.0 * together.each
        ),
    }
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
        lines.extend(table(&comparison.figures));
        if !comparison.unlike.is_empty() {
            lines.push(format!("note: {}", not_alike(comparison)));
        }
        lines.extend(
            comparison
                .together
                .as_ref()
                .map(|together| format!("note: {}", judged(together))),
        );
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
        lines.push(format!("without a partner: {}", some(alone)));
    }
    lines.join("\n") + "\n"
}

/// Rows without a partner for people: of many the first few, and how many they are.
#[must_use]
pub fn some(alone: &[String]) -> String {
    const SHOWN: usize = 5;
    match alone.len() {
        0..=SHOWN => alone.join("; "),
        all => format!(
            "{all} rows, of which the first {SHOWN}: {}",
            alone[..SHOWN].join("; ")
        ),
    }
}

/// Figures under their heads, every column as wide as what it holds.
fn table(figures: &[Moved]) -> Vec<String> {
    const LEAST: [usize; 5] = [22, 12, 12, 10, 10];
    let heads = ["", "predicted", "measured", "change", "chance"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(heads).chain(figures.iter().map(cells)).collect();
    let width = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max();
        LEAST[column].max(longest.unwrap_or(0) + 2)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let marks = figures.iter().map(|figure| match (figure.few, figure.is_real()) {
        (Some(few), _) => format!("  the largest of {few}"),
        (None, true) => String::new(),
        (None, false) => "  within chance".to_owned(),
    });
    let marks = std::iter::once(String::new()).chain(marks);
    let line = |([name, rest @ ..], mark): (&[String; 5], String)| {
        let rest = rest.iter().zip(&widths[1..]);
        let rest: String = rest.map(|(cell, width)| format!("{cell:>width$}")).collect();
        format!("{name:<0$}{rest}{mark}", widths[0])
    };
    rows.iter().zip(marks).map(line).collect()
}

fn cells(figure: &Moved) -> [String; 5] {
    [
        figure.name.clone(),
        value(figure, figure.predicted),
        value(figure, figure.measured),
        signed(figure.change()),
        figure.chance().map_or("?".to_owned(), between),
    ]
}

/// What chance leaves a change between: it doubles a figure as often as it halves it.
fn between((low, high): (f64, f64)) -> String {
    let text = |change: f64| format!("{:.1}", 100.0 * change.abs());
    match text(low) == text(high) {
        true => format!("±{} %", text(high)),
        false => format!("-{}/{}", text(low), signed(high)),
    }
}

/// A change with its sign; no change has none.
fn signed(change: f64) -> String {
    /// Per cent from which on digits say nothing.
    const MOST_SPELT_OUT: f64 = 1e7;
    if (100.0 * change).abs() >= MOST_SPELT_OUT {
        return format!("{:+.2e} %", 100.0 * change);
    }
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
            "chance_95": figure.chance_alone().map(|(low, high)| [low, high]),
            "chance_together": figure.chance().map(|(low, high)| [low, high]),
            "is_real": figure.is_real(),
            "largest_of": figure.few,
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
        "together": comparison.together.as_ref().map(|together| json!({
            "figures": together.figures,
            "confidence": 1.0 - FALSE_MOVES,
            "confidence_each": together.each,
        })),
        "remarks": comparison.remarks,
        "causes": causes.collect::<Vec<Value>>(),
        "unlike": comparison.unlike,
        "nothing_to_compare": comparison.nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_without_a_partner_five_are_named() {
        let rows = |count: usize| -> Vec<String> { (1..=count).map(|row| format!("row {row}")).collect() };
        assert_eq!(some(&rows(2)), "row 1; row 2");
        let told = some(&rows(387));
        assert_eq!(
            told,
            "387 rows, of which the first 5: row 1; row 2; row 3; row 4; row 5"
        );
        assert!(text(&[], &rows(387)).ends_with(&format!("without a partner: {told}\n")));
    }

    #[test]
    fn no_column_runs_into_its_neighbour() {
        let figure = |measured: f64, noise: f64| Moved {
            name: "mean ttft".to_owned(),
            predicted: 0.0471,
            measured,
            noise: Some(noise),
            widening: 1.0,
            is_time: true,
            few: None,
        };
        for line in table(&[figure(6.68, 11.458), figure(0.05, 0.1)]) {
            let cells: Vec<&str> = line.split("  ").filter(|cell| !cell.is_empty()).collect();
            assert!((4..=6).contains(&cells.len()), "{line}");
        }
        let lines = table(&[figure(6.68, 2.0)]);
        assert!(
            lines[1].ends_with("6.68 s  +14082.6 %  -86.5/+638.9 %"),
            "{lines:?}"
        );
    }

    #[test]
    fn what_is_within_chance_is_within_the_chance_that_is_printed() {
        let line = |predicted: f64, measured: f64| {
            let figure = Moved {
                name: "mean ttft".to_owned(),
                predicted,
                measured,
                noise: Some(0.197),
                widening: 2.0,
                is_time: true,
                few: None,
            };
            table(&[figure])[1].clone()
        };
        for (line, change) in [(line(1.0, 1.408), "+40.8 %"), (line(1.408, 1.0), "-29.0 %")] {
            assert!(
                line.contains(change) && line.ends_with("-32.6/+48.3 %  within chance"),
                "{line}"
            );
        }
        assert!(line(1.0, 1.49).ends_with("+48.3 %") && line(1.49, 1.0).ends_with("+48.3 %"));
        assert_eq!(between((-0.009, 0.009)), "±0.9 %");
    }
}
