//! Results of serving benchmarks, as every tool writes them, read into one type with one meaning for each figure.
//!
//! Readers take bytes; only the shell opens files. What a file is, is told by its content. Each reader knows its tool's
//! definitions: what a figure means there is made what it means here ([`Measured`]), or left out with the reason
//! ([`Left`]); nothing is renamed in silence. What is wrong with a file is told all at once, with its place.
//! Left out: server-side metrics, energy, text of answers. Law: no input makes a reader panic, and what a reader takes
//! is finite and not negative.

mod aiperf;
mod block;
mod columns;
mod console;
mod course;
mod error;
mod fixed_batch;
mod guidellm;
mod inference_perf;
mod inferencex;
mod json;
mod llmperf;
mod load;
mod measured;
mod names;
mod recognise;
mod settings;
mod sglang;
mod speculation;
mod table;
mod text;
mod trtllm;
mod vllm;

pub use columns::{no_figure, strange_columns};
pub use error::{PROBLEMS_SHOWN, Problem, ReadError};
pub use load::Load;
pub use measured::{
    AROUND, Left, Measured, Miscounted, Outcome, Own, RequestTimes, ResultFile, Setup, Stats, Tool,
};
pub use settings::{OtherSetting, Settings};
pub use table::{RowOfLine, columns as columns_of_table, rows_by_line};
pub use text::csv_rows;

use error::Problems;

/// Reads a result file; `name` is for messages.
///
/// # Errors
/// All that is wrong with it, or what was looked for where it is the result of no known tool.
///
/// ```
/// let text = br#"{"backend": "vllm", "request_rate": "inf", "max_concurrency": 8, "duration": 10.0, "completed": 100,
///     "total_input_tokens": 51200, "total_output_tokens": 12800, "mean_ttft_ms": 40.0, "mean_tpot_ms": 5.9}"#;
/// let file = plimsoll::results::read(text, "result.json").unwrap();
/// assert_eq!(file.rows[0].ttft.mean, Some(0.040));
/// assert_eq!(file.rows[0].setup.output_tokens, Some(128.0));
/// ```
pub fn read(bytes: &[u8], name: &str) -> Result<ResultFile, ReadError> {
    let problems = Problems::default();
    let rows = recognise::read(bytes, &problems);
    if rows.is_empty() && problems.is_empty() {
        problems.push("the file", "holds no result of any run");
    }
    problems.into_result(ResultFile {
        name: name.to_owned(),
        rows,
    })
}

/// A row of a table with cells that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadRow {
    /// Its place, and what its other cells say.
    pub row: Measured,
    /// What is wrong, at least one.
    pub problems: Vec<Problem>,
}

/// Reads a result file as [`read`] does, but for a table's rows that cannot be read: they are kept apart.
///
/// # Errors
/// As [`read`], and a table in which no row can be read.
pub fn read_rows(bytes: &[u8], name: &str) -> Result<(ResultFile, Vec<UnreadRow>), ReadError> {
    let Some(Ok(lines)) = recognise::table_text(bytes).map(|text| rows_by_line(&text)) else {
        return read(bytes, name).map(|file| (file, Vec::new()));
    };
    let (mut rows, mut unread) = (Vec::new(), Vec::new());
    for RowOfLine { line, row, wrong } in lines {
        match row {
            Some(row) if wrong.is_empty() => rows.push(row),
            row => unread.push(UnreadRow {
                row: row.unwrap_or_else(|| Measured::new(Tool::Table, format!("line {line}"))),
                problems: wrong,
            }),
        }
    }
    if rows.is_empty() {
        return read(bytes, name).map(|file| (file, Vec::new()));
    }
    let name = name.to_owned();
    Ok((ResultFile { name, rows }, unread))
}

#[cfg(test)]
pub(crate) mod published;
#[cfg(test)]
mod tests;
