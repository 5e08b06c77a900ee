//! CSV tables with one run a row, columns named after figures and units: `ttft_mean_ms`, `output_tok_s`, `isl_mean` …
//!
//! Any subset of the columns will do, in any order, in these names or in those of vLLM's JSON (`mean_ttft_ms`,
//! `output_throughput`); columns that are not known are left out and named. Two columns may be one figure under two names
//! as long as they agree. Latencies are taken as their columns say: whether they can be that is for an audit.
//! The table of `plimsoll sweep` is one of these, whose rows are predictions.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::columns::{NOT_A_NUMBER, STRANGE};
use super::error::{Problem, Problems};
use super::load::Load;
use super::measured::{Measured, Own, Stats, Tool};
use super::names::{KNOWN, MEASURES, canonical, is_figure};
use super::text::{self, Lines};
use super::vllm;

/// What only a sweep's table has: the judgement, beside the columns of a client. What else its header names are axes and
/// factors of the model's intervals.
const OF_A_SWEEP: [&str; 3] = ["verdict", "burstiness", "completed"];
/// Verdicts of a sweep's cells that were not simulated.
const NOT_RUN: [&str; 3] = ["not_run", "does_not_fit", "refused"];

/// The names of the columns as rows are read by them.
#[must_use]
pub fn columns(text: &str) -> Vec<String> {
    let header = text.lines().next().unwrap_or_default().to_lowercase();
    let cells = header.split(char::from(separator(&header)));
    cells
        .map(|name| canonical(name.trim().trim_matches('"')).into_owned())
        .collect()
}

/// Whether the first line names a figure that a benchmark has.
pub(super) fn is_table(text: &str) -> bool {
    let columns = columns(text);
    // `ttft_ms` and `client_ttft_ms` name no statistic that is known, and are a run's columns all the same.
    let is_measure = |name: &String| {
        let mut of = MEASURES.into_iter().chain(["e2el_"]);
        name.ends_with("_ms") && of.any(|metric| name.contains(metric))
    };
    columns.len() > 1 && columns.iter().any(|name| is_figure(name) || is_measure(name))
}

/// What parts the cells, by the header: a comma, or what spreadsheets write instead.
fn separator(header: &str) -> u8 {
    let others = [b';', b'\t'];
    let is_it = |other: &u8| !header.contains(',') && header.contains(char::from(*other));
    others.into_iter().find(is_it).unwrap_or(b',')
}

/// A column that only a table with a row a request has.
pub(super) fn column_of_requests(text: &str) -> Option<&'static str> {
    let header = text.lines().next().unwrap_or_default();
    let columns: Vec<&str> = header
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .collect();
    ["request_id", "first_token_s", "start_time_s"]
        .into_iter()
        .find(|name| columns.contains(name))
}

pub(super) fn read(text: &str, problems: &Problems) -> Vec<Measured> {
    let mut rows = Vec::new();
    each(text, problems, |_, row| rows.extend(row));
    rows
}

/// A row of a table.
pub struct RowOfLine {
    /// The line that it begins in.
    pub line: u64,
    /// What can be read of it; `None` where it is no row of this table at all.
    pub row: Option<Measured>,
    /// What is wrong with it.
    pub wrong: Vec<Problem>,
}

/// The rows of such a table one by one; what is wrong with one says nothing of the others.
///
/// # Errors
/// A text without a header.
pub fn rows_by_line(text: &str) -> Result<Vec<RowOfLine>, Problem> {
    let problems = Problems::default();
    let mut rows = Vec::new();
    each(text, &problems, |line, row| {
        let wrong = problems.take();
        rows.push(RowOfLine { line, row, wrong });
    });
    problems.take().into_iter().next().map_or(Ok(rows), Err)
}

/// Hands over every row with its line, `None` for one that cannot be read at all; problems are told before.
fn each(text: &str, problems: &Problems, mut take: impl FnMut(u64, Option<Measured>)) {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator(text.lines().next().unwrap_or_default()))
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let Ok(headers) = reader.headers().cloned() else {
        problems.push("line 1", "is no header of a CSV table");
        return;
    };
    let is_sweep = OF_A_SWEEP
        .iter()
        .all(|name| headers.iter().any(|column| column == *name));
    // Axes are spelt as flags are.
    let flags: Vec<String> = headers.iter().map(|name| name.replace('-', "_")).collect();
    let lower: Vec<String> = headers.iter().map(str::to_lowercase).collect();
    let headers: Vec<Cow<'_, str>> = match is_sweep {
        true => flags.iter().map(|name| canonical(name)).collect(),
        false => lower.iter().map(|name| canonical(name)).collect(),
    };
    let headers: Vec<&str> = headers.iter().map(|name| &**name).collect();
    let unknown: Vec<&str> = headers
        .iter()
        .copied()
        .filter(|name| !is_sweep && !is_figure(name) && !KNOWN.contains(name))
        .collect();
    let mut lines = Lines::of(text);
    for record in reader.records() {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                let line = lines.at(error.position());
                problems.push(format!("line {line}"), "cannot be read as CSV");
                take(line, None);
                continue;
            }
        };
        let line = lines.at(record.position());
        if record.len() != headers.len() {
            let what = format!("has {} cells, the header has {}", record.len(), headers.len());
            problems.push(format!("line {line}"), what);
            take(line, None);
            continue;
        }
        let mut cells: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, cell) in headers.iter().copied().zip(record.iter()) {
            let known = cells.entry(name).or_insert(cell);
            if known.is_empty() {
                *known = cell;
            } else if !cell.is_empty() && !is_same(known, cell) {
                let what =
                    format!("two columns are `{name}`, in whatever spelling, and differ: {known} and {cell}");
                problems.push(format!("line {line}"), what);
            }
        }
        if is_sweep
            && cells
                .get("verdict")
                .is_some_and(|verdict| NOT_RUN.contains(verdict))
        {
            continue;
        }
        let cells_of_row = Cells {
            line,
            cells: &cells,
            problems,
        };
        let mut row = match is_sweep {
            true => cells_of_row.predicted(),
            false => cells_of_row.row(),
        };
        for (name, _) in cells
            .iter()
            .filter(|(name, cell)| is_figure(name) && cell.eq_ignore_ascii_case("nan"))
        {
            row.leave(name, NOT_A_NUMBER);
        }
        for name in unknown
            .iter()
            .filter(|name| cells.get(*name).is_some_and(|cell| !cell.is_empty()))
        {
            row.leave(name, STRANGE);
        }
        take(line, Some(row));
    }
}

/// Whether a cell says nothing: empty, or what spreadsheets and programs write for that.
fn is_blank(cell: &str) -> bool {
    const BLANKS: [&str; 9] = ["", "-", "–", "—", "n/a", "na", "nan", "none", "null"];
    BLANKS.contains(&cell.to_lowercase().as_str())
}

/// Whether two cells say one thing: `5` is `5.0`, and `1,000` is `1000`.
fn is_same(one: &str, other: &str) -> bool {
    let number = |cell: &str| text::number(cell).ok();
    one == other
        || number(one)
            .zip(number(other))
            .is_some_and(|(one, other)| one == other)
}

/// One row by column name.
struct Cells<'a> {
    line: u64,
    cells: &'a BTreeMap<&'a str, &'a str>,
    problems: &'a Problems,
}

impl Cells<'_> {
    fn text(&self, name: &str) -> Option<String> {
        let cell = self.cells.get(name).filter(|cell| !is_blank(cell))?;
        Some((*cell).to_owned())
    }

    fn problem(&self, name: &str, what: String) {
        self.problems.push(format!("line {}: `{name}`", self.line), what);
    }

    fn number(&self, name: &str) -> Option<f64> {
        let number = text::number(&self.text(name)?);
        number.map_err(|what| self.problem(name, what)).ok()
    }

    fn count(&self, name: &str) -> Option<u64> {
        let number = self.number(name)?;
        if number.fract() != 0.0 || number > 1e15 {
            self.problem(name, format!("{number} must be a whole number"));
            return None;
        }
        Some(number as u64)
    }

    fn ranks(&self, name: &str) -> Option<u32> {
        self.count(name).and_then(|count| u32::try_from(count).ok())
    }

    fn row(&self) -> Measured {
        let place = self
            .text("id")
            .map_or(format!("line {}", self.line), |id| format!("row {id}"));
        let mut row = Measured::new(Tool::Table, place);
        let text = |name: &str| self.text(name).unwrap_or_default();
        let setup = &mut row.setup;
        setup.gpu = self.text("gpu");
        setup.n_gpus = self.ranks("n_gpus");
        setup.tensor_parallel = self.ranks("tp");
        setup.pipeline_parallel = self.ranks("pp");
        setup.data_parallel = self.ranks("dp");
        setup.expert_parallel = self.ranks("ep");
        setup.engine = self.text("engine");
        setup.engine_version = self.text("version");
        setup.model = self.text("model");
        setup.precision = self.text("precision");
        setup.kv_cache_dtype = self.text("kv_cache_dtype");
        setup.num_prompts = self.count("num_prompts");
        setup.input_tokens = self.number("isl_mean");
        setup.output_tokens = self.number("osl_mean");
        (setup.workload, setup.flags, setup.notes) = (text("workload"), text("flags"), text("notes"));
        (setup.family, setup.suggested_use) = (text("family"), text("suggested_use"));
        (setup.confidence, setup.date) = (text("confidence"), text("date"));
        if let Some(reason) = self.text("confidence_reason") {
            setup.notes = format!("{}; {reason}", setup.notes);
        }
        setup.load = self.load();
        setup.trace = self.text("value").filter(|_| setup.load == Load::Trace);
        setup.max_concurrency = match setup.load {
            Load::Closed { clients } => Some(clients),
            _ if self.text("rate_or_concurrency_kind").is_none() => self.count("max_concurrency"),
            _ => None,
        };
        setup.has_fixed_lengths = fixed_lengths(&setup.workload);
        setup.burstiness = self.number("burstiness");
        self.outcome(&mut row);
        [row.ttft, row.tpot, row.itl, row.e2el] = MEASURES.map(|start| self.stats(start));
        row.complete()
    }

    /// A row of a sweep: what a run's own JSON says, as far as a table can hold it. How many GPUs served stands in no column.
    fn predicted(&self) -> Measured {
        let mut row = self.row();
        row.tool = Tool::Plimsoll;
        row.ttft.samples = row.outcome.completed;
        row.e2el.samples = row.outcome.completed;
        row.own = Some(Own {
            verdict: self.text("verdict").unwrap_or_default(),
            ..Own::default()
        });
        row
    }

    fn outcome(&self, row: &mut Measured) {
        let outcome = &mut row.outcome;
        outcome.duration_s = self.number("duration_s");
        outcome.request_throughput = self.number("req_throughput");
        outcome.output_throughput = self.number("output_tok_s");
        outcome.total_throughput = self.number("total_tok_s");
        outcome.failed = self.count("failed");
        outcome.input_tokens = self.number("total_input_tokens");
        outcome.output_tokens = self.number("total_output_tokens");
        outcome.peak_in_flight = self.number("max_concurrent_requests");
        outcome.peak_output_throughput = self.number("max_output_tokens_per_s");
        outcome.goodput = self.number("request_goodput");
        // A table of runs names the requests that were sent; that they were answered is what its throughput tells.
        outcome.completed = self.count("completed");
    }

    fn load(&self) -> Load {
        let Some(kind) = self.text("rate_or_concurrency_kind") else {
            let is_infinite = self
                .text("request_rate")
                .is_some_and(|rate| rate.starts_with("inf"));
            let rate = if is_infinite {
                Some(f64::INFINITY)
            } else {
                self.number("request_rate")
            };
            return vllm::load(rate, self.count("max_concurrency"));
        };
        let clients = || self.count("value");
        let is_infinite = self
            .text("value")
            .is_some_and(|value| value.to_lowercase().starts_with("inf"));
        match kind.to_lowercase().as_str() {
            // vLLM's own defaults, of a rate and of a limit: all at once.
            "request_rate_rps" | "request_rate" | "rate" | "rps" | "qps" | "max_concurrency"
            | "concurrency" | "clients" | "users"
                if is_infinite =>
            {
                Load::Burst
            }
            "request_rate_rps" | "request_rate" | "rate" | "rps" | "qps" => self
                .number("value")
                .map_or(Load::Unknown, |rate| Load::Open { rate }),
            "max_concurrency" | "concurrency" | "clients" | "users" => {
                clients().map_or(Load::Unknown, |clients| Load::Closed { clients })
            }
            "static_batch" => clients().map_or(Load::Unknown, |batch| Load::StaticBatch { batch }),
            "burst_all_at_once" => Load::Burst,
            "trace_replay" => Load::Trace,
            other if other.starts_with("offline") => Load::Offline,
            other => {
                let known = "request_rate_rps (rate, rps, qps), max_concurrency (concurrency, clients, users), \
                    burst_all_at_once, offline_*, static_batch or trace_replay";
                self.problem("rate_or_concurrency_kind", format!("`{other}` must be {known}"));
                Load::Unknown
            }
        }
    }

    fn stats(&self, start: &str) -> Stats {
        let mut stats = Stats::default();
        for name in self.cells.keys().filter(|name| is_figure(name)) {
            let Some(statistic) = name.strip_prefix(start).and_then(|rest| rest.strip_suffix("_ms")) else {
                continue;
            };
            if let Some(ms) = self.number(name) {
                stats.put(statistic, ms / 1e3);
            }
        }
        stats
    }
}

/// What the words of a workload say about lengths: `random isl=… osl=…` is fixed, data sets and ranges are not.
fn fixed_lengths(workload: &str) -> Option<bool> {
    let varies = ["sharegpt", "range_ratio", "<=", "shared_prefix", "multi-turn"];
    let lower = workload.to_lowercase();
    if varies.iter().any(|word| lower.contains(word)) {
        return Some(false);
    }
    (lower.contains("isl=") && lower.contains("osl=")).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::super::names::{OTHER_NAMES, RATES};
    use super::*;

    /// Names in backquotes of a cell of a Markdown table.
    fn names(cell: &str) -> Vec<&str> {
        cell.split('`').skip(1).step_by(2).collect()
    }

    #[test]
    fn the_columns_are_those_that_the_documentation_lists() {
        let text = include_str!("../../docs/calibrate.md");
        let (_, section) = text.split_once("## Columns of a table of runs\n").unwrap();
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let rows: Vec<Vec<&str>> = rows.map(|row| row.split('|').map(str::trim).collect()).collect();
        let mut listed: Vec<&str> = rows.iter().flat_map(|row| names(row[1])).collect();
        let figures: Vec<String> = MEASURES.iter().map(|start| format!("{start}…_ms")).collect();
        let read = KNOWN
            .into_iter()
            .chain(RATES)
            .chain(figures.iter().map(String::as_str));
        let mut read: Vec<&str> = read.collect();
        listed.sort_unstable();
        read.sort_unstable();
        assert_eq!(listed, read);
        let aliases = rows.iter().flat_map(|row| {
            let of = names(row[1])[0];
            names(row[5]).into_iter().map(move |other| (other, of))
        });
        let mut aliases: Vec<(&str, &str)> = aliases.collect();
        let mut known = OTHER_NAMES.to_vec();
        aliases.retain(|(other, _)| !other.contains('…'));
        aliases.sort_unstable();
        known.sort_unstable();
        assert_eq!(aliases, known);
    }
}
