//! Two results beside each other as text and as JSON: what moved most and why, then every figure.

use serde_json::{Value, json};

use super::figures;
use crate::audit::compare::{
    Cause, Comparison, FALSE_MOVES, MODEL_CONFIDENCE, Moved, Refuted, Roles, Together,
};

/// Version of the JSON; grows when a key changes its meaning.
pub const FORMAT_VERSION: u64 = 1;

/// The answer in one line: what becomes of a prediction, then the figure that matters most and why.
#[must_use]
pub fn answer(comparisons: &[Comparison]) -> String {
    if let Some(nothing) = comparisons.iter().find_map(|one| one.nothing.as_deref())
        && comparisons.iter().all(|one| one.nothing.is_some())
    {
        return format!("nothing to compare: {nothing}");
    }
    let moved = moved(comparisons);
    refuted(comparisons).map_or(moved.clone(), |refuted| format!("{refuted}; {moved}"))
}

/// The figure to tell first, and why it moved.
fn moved(comparisons: &[Comparison]) -> String {
    let headlines = comparisons
        .iter()
        .filter_map(|one| one.headline().map(|(figure, cause)| (one, figure, cause)));
    let most = headlines.max_by(|a, b| {
        let is_named = |(_, _, cause): &(&Comparison, &Moved, Option<&Cause>)| cause.is_some();
        let by_cause = is_named(a).cmp(&is_named(b));
        by_cause.then_with(|| a.1.distance().total_cmp(&b.1.distance()))
    });
    let Some((comparison, figure, cause)) = most else {
        if comparisons.iter().all(|one| one.is_same) {
            return "nothing moved: the two are the same measurement, no figure differs in any digit"
                .to_owned();
        }
        let unlike = comparisons.iter().find(|one| !one.unlike.is_empty());
        let though = unlike.map_or(String::new(), |one| format!(", but {}", not_alike(one)));
        return format!("nothing moved by more than chance{though}");
    };
    let place = match (comparisons.len(), &comparison.places.1) {
        (1, _) => String::new(),
        (_, place) => format!(" in {place}"),
    };
    let why = match (cause, comparison.causes.first()) {
        (Some(cause), _) => cause.words.clone(),
        (None, Some(other)) => format!("no pattern names its cause, beside it {}", other.words),
        (None, None) => "no pattern names a cause".to_owned(),
    };
    format!(
        "{} is {:.1} % {} than {}{place} ({} → {}): {why}",
        figure.name,
        100.0 * figure.change().abs(),
        if figure.change() > 0.0 { "higher" } else { "lower" },
        comparison.roles.than(),
        value(figure, figure.predicted),
        value(figure, figure.measured),
    )
}

/// Whether the measurements refute their predictions, where these say how far their model may be off.
fn refuted(comparisons: &[Comparison]) -> Option<String> {
    let judged: Vec<_> = comparisons
        .iter()
        .filter_map(|one| Some((one, one.refuted.as_ref()?)))
        .collect();
    let percent = 100.0 * MODEL_CONFIDENCE;
    let count = |of: fn(&Refuted) -> usize| judged.iter().map(|(_, refuted)| of(refuted)).sum::<usize>();
    let figures = count(|refuted| refuted.figures);
    let is_refuted = |refuted: &&Refuted| !refuted.refuting.is_empty();
    let against = judged.iter().filter(|(_, refuted)| is_refuted(refuted)).count();
    if judged.is_empty() {
        return None;
    }
    if against > 0 {
        let (one, refuted) = judged.iter().find(|(_, refuted)| is_refuted(refuted))?;
        let first = one.figure(refuted.refuting.first()?)?;
        let (low, high) = first.foretold?.within;
        let is = match one.roles {
            Roles::Measured => first.predicted,
            _ => first.measured,
        };
        let which = match judged.len() {
            1 => "the prediction is refuted".to_owned(),
            all => format!("{against} of {all} predictions are refuted"),
        };
        return Some(format!(
            "{which}: {} is {}, outside of {} to {} ({percent:.0} %, model and chance){}",
            first.name,
            value(first, is),
            value(first, low),
            value(first, high),
            match refuted.refuting.len() {
                1 => String::new(),
                all => format!(", and {} more of {} figures", all - 1, refuted.figures),
            }
        ));
    }
    let outside: Vec<&str> = judged
        .iter()
        .flat_map(|(_, refuted)| refuted.outside.iter().map(String::as_str))
        .collect();
    let what = if judged.len() == 1 {
        "prediction is"
    } else {
        "predictions are"
    };
    Some(match outside.len() {
        0 if figures == 1 => {
            format!(
                "the {what} not refuted: its figure is inside its {percent:.0} % interval (model and chance)"
            )
        }
        0 => format!(
            "the {what} not refuted: all {figures} figures are inside their {percent:.0} % intervals (model and chance)"
        ),
        _ => format!(
            "the {what} not refuted: {} outside of {percent:.0} % (model and chance), as of {figures} figures some may be",
            outside.join(", ")
        ),
    })
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
        lines.extend(table(&comparison.figures, comparison.roles));
        lines.extend(model(comparison));
        if !comparison.unlike.is_empty() {
            lines.push(format!("note: {}", not_alike(comparison)));
        }
        lines.extend(
            comparison
                .together
                .as_ref()
                .map(|together| format!("note: {}", judged(together))),
        );
        if comparison.is_same {
            lines.push("note: the same measurement twice tells nothing of chance".to_owned());
            continue;
        }
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
fn table(figures: &[Moved], roles: Roles) -> Vec<String> {
    const LEAST: [usize; 5] = [22, 12, 12, 10, 10];
    let [one, other] = roles.heads();
    let heads = ["", one, other, "change", "chance"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(heads).chain(figures.iter().map(cells)).collect();
    let width = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max();
        LEAST[column].max(longest.unwrap_or(0) + 2)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let marks = figures.iter().map(|figure| match (figure.few, figure.is_real()) {
        (Some(few), _) => format!("  the largest of {few}"),
        (None, true) => String::new(),
        (None, false) if figure.predicted == figure.measured => "  the same".to_owned(),
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

/// Of every figure that has a model interval, whether the measurement is inside.
fn model(comparison: &Comparison) -> Vec<String> {
    let told = comparison.figures.iter().filter_map(|figure| {
        let foretold = figure.foretold?;
        let (low, high) = foretold.within;
        let (low, high) = (value(figure, low), value(figure, high));
        let is = match (foretold.is_inside, foretold.is_refuted) {
            (true, _) => "inside",
            (false, false) => "outside, as one of several may be",
            (false, true) => "outside",
        };
        Some(format!("model: {} {low} to {high}: {is}", figure.name))
    });
    let mut lines: Vec<String> = told.collect();
    if !lines.is_empty() {
        lines.insert(0, format!(
            "model: where the prediction leaves the measurement in {:.0} of 100, its model interval and chance together",
            100.0 * MODEL_CONFIDENCE
        ));
    }
    lines
}

fn cells(figure: &Moved) -> [String; 5] {
    [
        figure.name.clone(),
        value(figure, figure.predicted),
        value(figure, figure.measured),
        signed(figure.change()),
        figure.chance().map_or("–".to_owned(), between),
    ]
}

/// What chance leaves a change between: it doubles a figure as often as it halves it.
fn between((low, high): (f64, f64)) -> String {
    /// Less than it would be printed as none.
    const LEAST: f64 = 0.0005;
    if low.abs().max(high) < LEAST {
        return "<0.1 %".to_owned();
    }
    /// A factor from which on nothing is known.
    const NOTHING_KNOWN: f64 = 10.0;
    if 1.0 + high >= NOTHING_KNOWN {
        return format!("over ×{NOTHING_KNOWN:.0} either way");
    }
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
            "noise_95": figure.noise_alone(),
            "chance_95": figure.chance_alone().map(|(low, high)| [low, high]),
            "chance_together": figure.chance().map(|(low, high)| [low, high]),
            "is_real": figure.is_real(),
            "largest_of": figure.few,
            "model_90": figure.foretold.map(|foretold| json!({
                "within": [foretold.within.0 * unit, foretold.within.1 * unit],
                "is_inside": foretold.is_inside,
                "is_refuted": foretold.is_refuted,
            })),
        })
    });
    let causes = comparison
        .causes
        .iter()
        .map(|cause| json!({"kind": cause.kind, "words": cause.words}));
    json!({
        "predicted": comparison.places.0,
        "measured": comparison.places.1,
        "roles": comparison.roles.heads(),
        "prediction": comparison.refuted.as_ref().map(|refuted| json!({
            "is_refuted": !refuted.refuting.is_empty(),
            "confidence": MODEL_CONFIDENCE,
            "figures": refuted.figures,
            "outside": refuted.outside,
            "refuting": refuted.refuting,
        })),
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
            jump: 0.0,
            is_time: true,
            few: None,
            foretold: None,
        };
        for line in table(&[figure(6.68, 11.458), figure(0.05, 0.1)], Roles::Alike) {
            let cells: Vec<&str> = line.split("  ").filter(|cell| !cell.is_empty()).collect();
            assert!((4..=6).contains(&cells.len()), "{line}");
        }
        let lines = table(&[figure(6.68, 2.0)], Roles::Alike);
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
                jump: 0.0,
                is_time: true,
                few: None,
                foretold: None,
            };
            table(&[figure], Roles::Alike)[1].clone()
        };
        for (line, change) in [(line(1.0, 1.408), "+40.8 %"), (line(1.408, 1.0), "-29.0 %")] {
            assert!(
                line.contains(change) && line.ends_with("-32.6/+48.3 %  within chance"),
                "{line}"
            );
        }
        assert!(line(1.0, 1.49).ends_with("+48.3 %") && line(1.49, 1.0).ends_with("+48.3 %"));
        assert_eq!(between((-0.009, 0.009)), "±0.9 %");
        assert_eq!(between((-1e-6, 1e-6)), "<0.1 %");
        assert_eq!(between((-0.99, 99.0)), "over ×10 either way");
    }
}
