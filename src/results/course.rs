//! The published tables of the serving course, week 1 and 2 and section 9.5, as one JSON file.
//!
//! Columns are taken for what their names say; whether they can be that is for an audit. What others found out about
//! these numbers (`arithmetic_found`, `answer_sketch`) is not read.

use serde_json::Value;

use super::json::{self, Fields, plain_number};
use super::load::Load;
use super::measured::{Measured, Tool};

const IGNORED: [&str; 2] = ["arithmetic_found", "answer_sketch"];

pub(super) fn read(fields: &Fields<'_>) -> Vec<Measured> {
    let source = fields.text("source").unwrap_or_default();
    let model = source
        .contains("Llama-3.1-8B-Instruct")
        .then(|| "meta-llama/Llama-3.1-8B-Instruct".to_owned());
    let mut rows = Vec::new();
    for (key, value) in fields.own() {
        let Some(table) = value.as_object() else { continue };
        let place = key.clone();
        let table = fields.within(&place, table);
        match key.as_str() {
            "week1" => serving(&table, key, &mut rows),
            "week2" => {
                fixed_batch(&table, key, &mut rows);
                offline(&table, key, &mut rows);
            }
            key if key.starts_with("section") => closed(&table, key, &mut rows),
            key if IGNORED.contains(&key) => {}
            other => fields.problem(other, "is no table of the course"),
        }
    }
    for row in &mut rows {
        row.setup.model = row.setup.model.take().or_else(|| model.clone());
        row.setup.precision = source.contains("bf16").then(|| "bf16".to_owned());
        row.setup.n_gpus = row.setup.n_gpus.or(Some(1));
    }
    rows
}

/// `{engine: {gpu: [[rate, …]]}}` with `columns`, or the same with columns and rows under each GPU.
fn serving(table: &Fields<'_>, family: &str, rows: &mut Vec<Measured>) {
    let workload = table.text("workload").unwrap_or_default();
    let prompts = workload
        .split_whitespace()
        .find_map(|word| word.parse::<u64>().ok());
    let about = workload
        .split("about ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    let common = column_names(table);
    for engine in ["vllm", "sglang"] {
        let Some(gpus) = table.value(engine).and_then(Value::as_object) else {
            continue;
        };
        for (gpu, value) in gpus {
            let own = value.as_object();
            let columns = own.map_or_else(|| common.clone(), |map| column_names(&table.within(family, map)));
            let list = own.map_or(Some(value), |map| map.get("rows"));
            let place = format!("{family} {engine} {gpu}");
            for cells in lines(table, &place, list, columns.len()) {
                let mut row = Measured::new(Tool::CourseTables, String::new());
                row.setup.family = family.to_owned();
                row.setup.workload = workload.clone();
                row.setup.engine = Some(engine.to_owned());
                row.setup.gpu = Some(gpu.clone());
                row.setup.num_prompts = prompts;
                row.setup.input_tokens = about;
                columns
                    .iter()
                    .zip(cells)
                    .for_each(|(column, cell)| take(&mut row, column, cell));
                row.place = format!("{place}, {}", row.setup.load);
                rows.push(row);
            }
        }
    }
}

fn closed(table: &Fields<'_>, family: &str, rows: &mut Vec<Measured>) {
    let what = table.text("what").unwrap_or_default();
    let words: Vec<&str> = what.split([' ', ',']).collect();
    let tokens = words
        .windows(2)
        .find(|pair| pair[1] == "output")
        .and_then(|pair| pair[0].parse::<f64>().ok());
    let columns = column_names(table);
    for cells in lines(table, family, table.value("rows"), columns.len()) {
        let mut row = Measured::new(Tool::CourseTables, String::new());
        row.setup.family = family.to_owned();
        row.setup.workload = what.clone();
        row.setup.output_tokens = tokens;
        row.setup.has_fixed_lengths = tokens.map(|_| true);
        row.setup.gpu = what.contains("A100").then(|| "A100".to_owned());
        row.setup.model = what
            .contains("Llama-3.1-8B")
            .then(|| "meta-llama/Llama-3.1-8B".to_owned());
        columns
            .iter()
            .zip(cells)
            .for_each(|(column, cell)| take(&mut row, column, cell));
        row.place = format!("{family}, {}", row.setup.load);
        rows.push(row);
    }
}

/// The total time of fixed batches: the latency of every request in them.
fn fixed_batch(table: &Fields<'_>, family: &str, rows: &mut Vec<Measured>) {
    let Some(table) = table.object("latency_vs_batch") else {
        return;
    };
    let workload = table.text("workload").unwrap_or_default();
    let after = |word: &str| {
        let rest = workload.split(word).nth(1)?.trim_start();
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse::<f64>()
            .ok()
    };
    let batches = table.numbers("batch").unwrap_or_default();
    let Some(gpus) = table.object("total_ms") else {
        return;
    };
    for (gpu, totals) in gpus.own() {
        let totals: Vec<f64> = totals
            .as_array()
            .map_or(Vec::new(), |list| list.iter().filter_map(plain_number).collect());
        if totals.len() != batches.len() {
            gpus.problem(
                gpu,
                format!("must have {} totals, one for each batch", batches.len()),
            );
            continue;
        }
        for (batch, total) in batches.iter().zip(totals) {
            let Some(size) = json::whole(*batch) else { continue };
            let mut row = Measured::new(Tool::CourseTables, format!("{family} {gpu}, batch {batch}"));
            row.setup.family = format!("{family} latency_vs_batch");
            row.setup.workload = workload.clone();
            row.setup.gpu = Some(gpu.clone());
            row.setup.load = Load::StaticBatch { batch: size };
            (row.setup.input_tokens, row.setup.output_tokens) = (after("input "), after("output "));
            row.setup.has_fixed_lengths = Some(true);
            row.setup.num_prompts = Some(size);
            row.outcome.completed = Some(size);
            row.e2el.mean = Some(total / 1e3);
            rows.push(row);
        }
    }
}

fn offline(table: &Fields<'_>, family: &str, rows: &mut Vec<Measured>) {
    let Some(gpus) = table.object("offline_throughput_tok_s") else {
        return;
    };
    let workload = table.text("offline_workload").unwrap_or_default();
    for gpu in gpus.own().keys() {
        let mut row = Measured::new(Tool::CourseTables, format!("{family} {gpu}, offline"));
        row.setup.family = family.to_owned();
        row.setup.workload = workload.clone();
        row.setup.gpu = Some(gpu.clone());
        row.setup.load = Load::Offline;
        row.setup.num_prompts = workload.split_whitespace().find_map(|word| word.parse().ok());
        let throughput = gpus.number(gpu);
        // vLLM's benchmark_throughput prints `total num tokens / elapsed`, prompt and output together.
        if workload.contains("benchmark_throughput") || workload.contains("input plus output") {
            row.outcome.total_throughput = throughput;
            row.taken
                .push("the offline figure counts prompt and output tokens together".to_owned());
        } else {
            row.outcome.output_throughput = throughput;
        }
        rows.push(row);
    }
}

fn column_names(table: &Fields<'_>) -> Vec<String> {
    let names = table.list("columns").unwrap_or_default().iter();
    names
        .map(|name| name.as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Rows of a list of lists; those of another width are problems.
fn lines<'a>(table: &Fields<'_>, place: &str, list: Option<&'a Value>, width: usize) -> Vec<&'a Vec<Value>> {
    let mut good = Vec::new();
    for (index, line) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
        match line.as_array().filter(|cells| cells.len() == width) {
            Some(cells) => good.push(cells),
            None => table.problem(
                &format!("{place}[{index}]"),
                format!("must be a row of {width} figures"),
            ),
        }
    }
    good
}

/// Takes a cell under a column's name.
fn take(row: &mut Measured, column: &str, cell: &Value) {
    let number = plain_number(cell);
    let seconds = number.map(|number| number / 1e3);
    match column {
        "request_rate" => {
            row.setup.load = match (number, cell.as_str()) {
                (Some(rate), _) => Load::Open { rate },
                (None, Some("inf")) => Load::Burst,
                _ => Load::Unknown,
            }
        }
        "concurrency" => {
            row.setup.max_concurrency = number.and_then(json::whole);
            row.setup.load = row
                .setup
                .max_concurrency
                .map_or(Load::Unknown, |clients| Load::Closed { clients });
        }
        "published_ttft_p50_ms" | "p50_ttft_ms" => row.ttft.median = seconds,
        "avg_ttft_ms" => row.ttft.mean = seconds,
        "avg_tpot_ms" => row.tpot.mean = seconds,
        "itl_p50_ms" => row.itl.median = seconds,
        "output_tok_s" => row.outcome.output_throughput = number,
        _ => percentiles(row, column, number),
    }
}

fn percentiles(row: &mut Measured, column: &str, number: Option<f64>) {
    let Some(number) = number else { return };
    match column {
        "published_ttft_p99_ms" => row.ttft.put_percentile(99.0, number / 1e3),
        "itl_p99_ms" => row.itl.put_percentile(99.0, number / 1e3),
        "p99_latency_s" => row.e2el.put_percentile(99.0, number),
        other => row.leave(other, "is no column that is known"),
    }
}
