//! The tables that AIPerf and GenAI-Perf print: boxes drawn with `│`, one metric a row, statistics in columns.
//!
//! A name may go on in the next row, whose cells are empty. Their inter-token latency is our TPOT ([`super::aiperf`]).

use super::error::Problems;
use super::json;
use super::measured::{Measured, Stats, Tool};
use super::text::number;

pub(super) fn read(text: &str, problems: &Problems) -> Vec<Measured> {
    let tool = if text.contains("GenAI-Perf") {
        Tool::GenaiPerfConsole
    } else {
        Tool::AiperfConsole
    };
    let mut row = Measured::new(tool, "");
    let mut columns: Vec<String> = Vec::new();
    let mut found = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('┃') {
            columns = cells(line, '┃');
            continue;
        }
        if !line.starts_with('│') {
            continue;
        }
        let cells = cells(line, '│');
        // A name that goes on: its figures stood in the row before.
        if cells.iter().skip(1).all(String::is_empty) {
            continue;
        }
        if columns.len() != cells.len() {
            let what = format!("has {} cells under {} columns", cells.len(), columns.len());
            problems.push(format!("line {}", index + 1), what);
            continue;
        }
        match figures(&columns, &cells) {
            Ok(stats) => found += usize::from(take(&mut row, &cells[0].to_lowercase(), stats)),
            Err(what) => problems.push(format!("line {}: `{}`", index + 1, cells[0]), what),
        }
    }
    if found == 0 {
        problems.push(
            "the file",
            "has the title of a console table and none of its rows",
        );
    }
    row.taken
        .push("inter token latency is one value a request, so it is taken as TPOT".to_owned());
    vec![row]
}

fn cells(line: &str, border: char) -> Vec<String> {
    line.trim_matches(border)
        .split(border)
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// The figures of a row as printed; `N/A` and an empty cell are nothing.
fn figures(columns: &[String], cells: &[String]) -> Result<Stats, String> {
    let mut stats = Stats::default();
    for (column, cell) in columns.iter().zip(cells).skip(1) {
        if cell.is_empty() || cell == "N/A" {
            continue;
        }
        stats.put(column, number(cell)?);
    }
    Ok(stats)
}

/// Whether the row was one of those that are known.
fn take(row: &mut Measured, name: &str, stats: Stats) -> bool {
    let mean = stats.mean;
    let outcome = &mut row.outcome;
    match name.split('(').next().unwrap_or(name).trim() {
        "time to first token" => row.ttft = in_seconds(stats),
        "inter token latency" => row.tpot = in_seconds(stats),
        "inter chunk latency" => row.itl = in_seconds(stats),
        "request latency" => row.e2el = in_seconds(stats),
        "output sequence length" => row.setup.output_tokens = mean,
        "input sequence length" => row.setup.input_tokens = mean,
        "output token throughput" => outcome.output_throughput = mean,
        "request throughput" => outcome.request_throughput = mean,
        "request count" => {
            outcome.completed = mean.and_then(json::whole);
            row.ttft.samples = outcome.completed;
            row.e2el.samples = outcome.completed;
        }
        _ => return false,
    }
    true
}

/// Printed in milliseconds.
fn in_seconds(stats: Stats) -> Stats {
    let seconds = |value: Option<f64>| value.map(|value| value / 1e3);
    Stats {
        mean: seconds(stats.mean),
        median: seconds(stats.median),
        p50: seconds(stats.p50),
        std: seconds(stats.std),
        min: seconds(stats.min),
        max: seconds(stats.max),
        percentiles: stats
            .percentiles
            .iter()
            .map(|(percent, value)| (*percent, value / 1e3))
            .collect(),
        ..stats
    }
}
