//! Predictions beside measurements: a table a source, errors in percent, and one line that says how far off it all is.
//!
//! An error is `predicted / measured − 1`. Only held figures of rows that fitted nothing count for the answer; all
//! others are shown. Left out: whether a measurement is right.

use serde_json::{Value, json};

use super::figures::significant;
use super::page::{folded, table_on};
use super::tables::{Column, markdown};

/// Error within which a prediction is said to be close.
const CLOSE: f64 = 0.15;

/// A table of measured rows with a prediction for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// What was measured.
    pub title: String,
    /// The scenario that predicts it.
    pub scenario: String,
    /// Its rows were used to fit what predicts them.
    pub is_calibration: bool,
    /// Heads of the columns that tell rows apart.
    pub axes: Vec<String>,
    /// What must be known to read it.
    pub notes: Vec<String>,
    /// The rows.
    pub rows: Vec<Compared>,
}

/// A measured row.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Its value on each axis.
    pub labels: Vec<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// One figure twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name with its unit, as JSON has it: `e2el_p50_ms`.
    pub name: String,
    /// As published.
    pub measured: f64,
    /// As simulated.
    pub predicted: f64,
    /// It counts for the answer.
    pub is_held: bool,
}

impl Figure {
    /// `predicted / measured − 1`.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Held figures of rows that fitted nothing, each with the words that find it.
fn held(comparisons: &[Comparison]) -> Vec<(String, &Figure)> {
    let mut found = Vec::new();
    for comparison in comparisons.iter().filter(|comparison| !comparison.is_calibration) {
        for row in &comparison.rows {
            let held = row.figures.iter().filter(|figure| figure.is_held);
            found
                .extend(held.map(|figure| (format!("{}, {}", row.labels.join(" at "), figure.name), figure)));
        }
    }
    found
}

/// The answer: median and worst error of what is held.
#[must_use]
pub fn answer(comparisons: &[Comparison]) -> String {
    let mut held = held(comparisons);
    held.sort_by(|a, b| a.1.error().abs().total_cmp(&b.1.error().abs()));
    let Some((place, worst)) = held.last() else {
        return "nothing is held against a measurement".into();
    };
    let errors: Vec<f64> = held.iter().map(|(_, figure)| figure.error().abs()).collect();
    let middle = errors.len() / 2;
    let median = f64::midpoint(errors[middle], errors[(errors.len() - 1) / 2]);
    let close = errors.iter().filter(|error| **error <= CLOSE).count();
    format!(
        "median error {:.1} %, worst {} ({place}); {close} of {} figures that fitted nothing within {:.0} %",
        100.0 * median,
        signed(worst.error()),
        errors.len(),
        100.0 * CLOSE
    )
}

fn signed(error: f64) -> String {
    format!("{:+.1} %", 100.0 * error)
}

fn use_of(comparison: &Comparison) -> &'static str {
    if comparison.is_calibration {
        "calibrate"
    } else {
        "validate"
    }
}

fn columns(comparison: &Comparison) -> Vec<Column> {
    let mut columns: Vec<Column> = comparison.axes.iter().map(|axis| Column::left(axis)).collect();
    for figure in comparison.rows.first().iter().flat_map(|row| &row.figures) {
        let bracket = |name: &str| {
            if figure.is_held {
                name.to_owned()
            } else {
                format!("({name})")
            }
        };
        columns.push(Column::right(&bracket(&figure.name)));
        columns.extend(["predicted", "error"].map(Column::right));
    }
    columns
}

fn cells(comparison: &Comparison) -> Vec<Vec<String>> {
    let of_row = |row: &Compared| {
        let mut cells = row.labels.clone();
        for figure in &row.figures {
            cells.extend([
                significant(figure.measured),
                significant(figure.predicted),
                signed(figure.error()),
            ]);
        }
        cells
    };
    comparison.rows.iter().map(of_row).collect()
}

/// For people, within the columns of a screen if there is one: the answer, then a table a source with its notes. Figures in
/// brackets do not count.
#[must_use]
pub fn text(comparisons: &[Comparison], width: Option<usize>) -> String {
    let mut text = answer(comparisons) + "\n";
    for comparison in comparisons {
        let (title, of) = (&comparison.title, use_of(comparison));
        text += &format!(
            "\n{title} [{of}]: measured, predicted by {}\n",
            comparison.scenario
        );
        text += &table_on(&columns(comparison), &cells(comparison), 1, width);
        for note in &comparison.notes {
            text += &format!("  {note}\n");
        }
    }
    folded(&text, width)
}

/// For documents.
#[must_use]
pub fn md(comparisons: &[Comparison]) -> String {
    let mut text = format!("**{}**\n", answer(comparisons));
    for comparison in comparisons {
        let (title, of) = (&comparison.title, use_of(comparison));
        text += &format!("\n### {title} ({of})\n\n");
        text += &markdown(&columns(comparison), &cells(comparison));
        text += "\n";
        for note in &comparison.notes {
            text += &format!("- {note}\n");
        }
    }
    text
}

/// For programs, one row a figure.
#[must_use]
pub fn csv(comparisons: &[Comparison]) -> String {
    let head = [
        "table",
        "use",
        "row",
        "figure",
        "held",
        "measured",
        "predicted",
        "error",
    ];
    let of_row = |comparison: &Comparison, row: &Compared| -> Vec<Vec<String>> {
        let of_figure = |figure: &Figure| {
            vec![
                comparison.scenario.clone(),
                use_of(comparison).to_owned(),
                row.labels.join(" "),
                figure.name.clone(),
                figure.is_held.to_string(),
                figure.measured.to_string(),
                figure.predicted.to_string(),
                figure.error().to_string(),
            ]
        };
        row.figures.iter().map(of_figure).collect()
    };
    let rows = comparisons.iter().flat_map(|comparison| {
        comparison
            .rows
            .iter()
            .flat_map(move |row| of_row(comparison, row))
    });
    super::csv::write(&head, rows)
}

/// For programs, everything.
#[must_use]
pub fn json(comparisons: &[Comparison]) -> String {
    let figure = |figure: &Figure| {
        json!({
            "name": figure.name, "held": figure.is_held, "measured": figure.measured,
            "predicted": figure.predicted, "error": figure.error(),
        })
    };
    let row = |axes: &[String], row: &Compared| {
        let cell: serde_json::Map<String, Value> = axes
            .iter()
            .cloned()
            .zip(row.labels.iter().cloned().map(Value::from))
            .collect();
        json!({ "cell": cell, "figures": row.figures.iter().map(figure).collect::<Vec<_>>() })
    };
    let tables = comparisons.iter().map(|comparison| {
        let rows = comparison.rows.iter().map(|one| row(&comparison.axes, one));
        json!({
            "title": comparison.title, "scenario": comparison.scenario, "use": use_of(comparison),
            "notes": comparison.notes, "rows": rows.collect::<Vec<_>>(),
        })
    });
    let whole = json!({ "answer": answer(comparisons), "tables": tables.collect::<Vec<_>>() });
    format!("{whole:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(is_calibration: bool, predicted: f64) -> Comparison {
        let figure = |name: &str, is_held| Figure {
            name: name.into(),
            measured: 100.0,
            predicted,
            is_held,
        };
        Comparison {
            title: "a table".into(),
            scenario: "quickstart".into(),
            is_calibration,
            axes: vec!["gpu".into()],
            notes: vec!["a remark".into()],
            rows: vec![Compared {
                labels: vec!["L4".into()],
                figures: vec![figure("e2el_p50_ms", true), figure("itl_p50_ms", false)],
            }],
        }
    }

    #[test]
    fn calibration_rows_and_figures_in_brackets_do_not_count() {
        let all = [
            comparison(true, 200.0),
            comparison(false, 97.0),
            comparison(false, 110.0),
        ];
        assert_eq!(
            answer(&all),
            "median error 6.5 %, worst +10.0 % (L4, e2el_p50_ms); 2 of 2 figures that fitted nothing within 15 %"
        );
        assert_eq!(answer(&all[..1]), "nothing is held against a measurement");
    }

    #[test]
    fn forms_agree() {
        let all = [comparison(false, 110.0)];
        insta::assert_snapshot!(text(&all, None), @r"
median error 10.0 %, worst +10.0 % (L4, e2el_p50_ms); 1 of 1 figures that fitted nothing within 15 %

a table [validate]: measured, predicted by quickstart
  gpu  e2el_p50_ms  predicted    error  (itl_p50_ms)  predicted    error
  L4           100        110  +10.0 %           100        110  +10.0 %
  a remark
");
        insta::assert_snapshot!(csv(&all), @r"
table,use,row,figure,held,measured,predicted,error
quickstart,validate,L4,e2el_p50_ms,true,100,110,0.10000000000000009
quickstart,validate,L4,itl_p50_ms,false,100,110,0.10000000000000009
");
        assert!(md(&all).contains("| L4 | 100 | 110 | +10.0 % |"));
        let value: Value = serde_json::from_str(&json(&all)).unwrap();
        assert_eq!(value["tables"][0]["rows"][0]["figures"][0]["measured"], 100.0);
    }
}
