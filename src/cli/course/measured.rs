//! The measured tables of a course's labs, as they ship: what was published, beside the scenario that predicts it.

use serde::Deserialize;

/// All tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Who measured, and with what.
    pub source: String,
    /// The tables.
    pub tables: Vec<MeasuredTable>,
}

/// One table and how to read it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredTable {
    /// What was measured.
    pub title: String,
    /// Name of the shipped scenario whose figures are compared.
    pub scenario: String,
    /// Whether its rows fitted a calibration.
    #[serde(rename = "use")]
    pub use_: Use,
    /// Which of a row's settings tell rows apart.
    pub axes: Vec<String>,
    /// The figures of every row, in the order of [`MeasuredRow::measured`].
    pub figures: Vec<FigureName>,
    /// Those that the prediction is held to.
    pub held: Vec<FigureName>,
    /// A length that nobody published and the measured figure implies, where the prediction stands or falls with it.
    #[serde(default)]
    pub implied: Option<Implied>,
    /// What must be known to read it.
    pub notes: Vec<String>,
    /// The rows.
    pub rows: Vec<MeasuredRow>,
}

/// What is solved for, in place of an error that would only repeat an assumption.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Implied {
    /// The scenario's key that holds the lognormal law of the answers, with its `median` and `max`.
    pub key: String,
}

/// What a table may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// It fitted a calibration.
    Calibrate,
    /// Nothing was fitted to it.
    Validate,
}

/// A figure that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureName {
    /// Median of send to last token, ms.
    E2elP50Ms,
    /// Its 99th percentile, ms.
    E2elP99Ms,
    /// Median gap between tokens, ms.
    ItlP50Ms,
    /// Output tokens per second of the whole run.
    OutputTokS,
    /// Prompt and output tokens per second of the whole run.
    TotalTokS,
}

impl FigureName {
    /// As files and reports spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FigureName::E2elP50Ms => "e2el_p50_ms",
            FigureName::E2elP99Ms => "e2el_p99_ms",
            FigureName::ItlP50Ms => "itl_p50_ms",
            FigureName::OutputTokS => "output_tok_s",
            FigureName::TotalTokS => "total_tok_s",
        }
    }
}

/// One measured row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRow {
    /// Settings of the scenario that make the row: name as a flag, value.
    pub set: Vec<(String, String)>,
    /// The figures.
    pub measured: Vec<f64>,
}

/// The tables inside the program.
#[must_use]
pub fn shipped() -> Measured {
    let text = include_str!("../../../calibrations/measured/course_tables.json");
    serde_json::from_str(text).expect("the shipped tables are read by a test")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_value_for_every_figure_and_axis() {
        for table in shipped().tables {
            for row in &table.rows {
                assert_eq!(row.measured.len(), table.figures.len(), "{}", table.title);
                let has = |axis: &String| row.set.iter().any(|(name, _)| name == axis);
                assert!(table.axes.iter().all(has), "{}", table.title);
            }
            assert!(table.held.iter().all(|figure| table.figures.contains(figure)));
        }
    }

    #[test]
    fn published_time_to_first_token_is_the_whole_answer() {
        let shipped = shipped();
        let serving = &shipped.tables[0];
        for row in &serving.rows {
            let tokens = row.measured[0] / row.measured[2];
            assert!((tokens - 128.0).abs() < 0.3, "{:?}: {tokens}", row.set);
        }
    }
}
