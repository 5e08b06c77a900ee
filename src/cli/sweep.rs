//! `plimsoll sweep`: one run for each combination of values.

mod axes;
mod charts;
mod shown;

use std::io::Write;
use std::process::ExitCode;

use self::shown::Pareto;
use super::Exit;
use super::kept::{Keeper, Kept};
use super::outputs::{Format, OutputFlags, Outputs, Writer};
use super::plan::{AxisFlags, Common, Plan, Planned, Refused};
use super::progress::{self, Progress};
use super::reported::unread;
use super::run::{Name, records, save};
use super::terminal::Terminal;
use super::{cells, files, fronts, in_step, interrupt, memory, present};
use crate::analysis::{Experiment, simulate};
use crate::calibrate::interval::model_interval_while;
use crate::report::json::Arrays;
use crate::report::pareto::{Frontier, Measure};
use crate::report::sweep::SweepRow;
use crate::report::sweep::columns::Columns;
use crate::report::sweep_layout::SweepLayout;
use crate::report::{self, ResultMeta, counted};
use crate::sweep::{self, Finished};

/// What to vary.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll sweep course-week1
  plimsoll sweep quickstart -L gpu h100,l40s -S request-rate 2..16 step 2 --format csv -o grid.csv
  plimsoll sweep matrix-d -L max-num-seqs 8,16,32 -L max-num-batched-tokens 2048,4096,8192 --link
  plimsoll sweep quickstart -L request-rate 2,4,8 --partition slice:1/3
  plimsoll sweep quickstart -S request-rate 2..24 step 2 -L gpu h100,l40s --charts pictures
  plimsoll sweep meta-llama/Llama-3.1-70B-Instruct --gpu h100 --input-len 1024 --output-len 256 --request-rate inf -L tp 2,4,8 -L max-concurrency 4,16,64,256 --pareto --charts pictures

--charts draws a line for each value of a second axis and a pane for each of a third; runs that differ in their seed only are one point with an interval. With -o FILE.jsonl finished runs are kept as they come: after an interruption the same command goes on from there. --pareto tells the settings that nobody beats in what each user and each GPU get, as InferenceX and AIConfigurator draw them, and --charts draws it. --save-result writes one file a cell. A cell that does not fit, or whose values do not go together, is a row that says so; a value that is wrong by itself is an error. Exit code 3 where none fits, or where no run meets the SLO.

An axis is a flag's name or a key path of the scenario file; axes given here replace those of its [sweep].")]
pub struct Args {
    /// What to simulate.
    #[command(flatten)]
    pub scenario: crate::config::flags::ScenarioFlags,
    /// What to vary.
    #[command(flatten)]
    pub axes: AxisFlags,
    /// Run only part m of n: slice:m/n, or slurm to read the array task's environment.
    #[arg(long, value_name = "PART", help_heading = "Axes")]
    pub partition: Option<String>,
    /// Leave the model's intervals out of JSON and CSV: one simulation a cell instead of fifteen or so, the others short.
    #[arg(long)]
    pub no_interval: bool,
    /// What the table, or the CSV, shows of each cell: ttft, tpot, itl, e2el, throughput, hits, good, kv, cost, or a figure of the CSV.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Output")]
    pub columns: Vec<String>,
    /// Which settings nobody beats in output tokens a second of each user and of each GPU (or in millions a dollar).
    #[arg(
        long,
        value_name = "OF",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "gpu",
        help_heading = "Output"
    )]
    pub pareto: Option<Pareto>,
    /// What to write.
    #[command(flatten)]
    pub output: OutputFlags,
}

/// Reads `slice:m/n` (m from 1) or the environment of a Slurm array; part and number of parts, from 0.
fn partition(text: &str, environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<(usize, usize)> {
    if text == "slurm" {
        let number = |name: &str| environment(name).and_then(|value| value.parse::<usize>().ok());
        let all = (
            number("SLURM_ARRAY_TASK_ID"),
            number("SLURM_ARRAY_TASK_COUNT"),
            number("SLURM_ARRAY_TASK_MIN").unwrap_or(0),
        );
        return match all {
            (Some(id), Some(count), first) if id >= first && id - first < count => Ok((id - first, count)),
            _ => anyhow::bail!(
                "--partition slurm needs SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT of a job array"
            ),
        };
    }
    let parts = text.strip_prefix("slice:").and_then(|rest| rest.split_once('/'));
    match parts.map(|(part, count)| (part.parse::<usize>(), count.parse::<usize>())) {
        Some((Ok(part), Ok(count))) if part >= 1 && part <= count => Ok((part - 1, count)),
        _ => anyhow::bail!("--partition `{text}`: write slice:m/n with m from 1 to n, or slurm"),
    }
}

/// Runs the command.
///
/// # Errors
/// Flags of the output that are wrong, and files that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let part = match &args.partition {
        Some(text) => partition(text, |name| std::env::var(name).ok())?,
        None => (0, 1),
    };
    let columns = args.shown()?;
    let nothing_yet = interrupt::at_once();
    let common = Common::read(&args.axes, &args.scenario, &args.output)?;
    let axes = args.varied(common.scenario())?;
    let input = common.first(&axes)?;
    drop(nothing_yet);
    let stopped = |terminal: &Terminal| {
        terminal.notes(&["interrupted before any cell was simulated".to_owned()]);
        Ok(Exit::Interrupted.into())
    };
    let Some(plan) = Plan::of(common.cells(&axes)?, part, |_, _| Ok(()))? else {
        return stopped(terminal);
    };
    let outputs = args.output.resolve(&input.results, Writer::Sweep)?;
    terminal.notes(&input.notes);
    terminal.notes(&outputs.notes);
    terminal.notes(&args.unshown(outputs.format));
    terminal.notes(&unread(&input.document, &outputs, Writer::Sweep));
    let mut of_cells: Vec<String> = Vec::new();
    for note in plan.runs.iter().flat_map(|cell| &cell.resolved.notes) {
        if !of_cells.contains(note) {
            of_cells.push(note.clone());
        }
    }
    terminal.notes(&of_cells);
    terminal.notes(&plan.refusals());
    if args.output.dry_run {
        const PLAIN: usize = 100;
        let Some(text) = cells::describe(&plan, terminal.width().unwrap_or(PLAIN)) else {
            return stopped(terminal);
        };
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    outputs.check_places()?;
    terminal.notes(&outputs.told);
    let folder = outputs.charts.as_deref();
    let drawn = folder.map(|folder| {
        let layout = match (charts::layout(&plan), args.pareto) {
            (Ok(layout), _) => Some(layout),
            // A frontier is drawn of any number of axes.
            (Err(_), Some(_)) => None,
            (Err(problem), None) => return Err(problem),
        };
        Ok((folder, layout))
    });
    let drawn = drawn.transpose()?;
    let saved_as = outputs.result_filename.as_deref().filter(|_| outputs.save_result);
    let mut replaced = 0;
    for cell in &plan.runs {
        memory::check_records(&cell.resolved, records(&outputs, false))?;
        if let Some(name) = saved_as {
            let (result, _) = outputs.claim_saved(&file_name(cell.index, &outputs, name))?;
            replaced += u64::from(result.exists());
        }
    }
    if replaced > 0 {
        terminal.notes(&[format!(
            "{} of the saved results are there already and are replaced",
            counted(replaced, "file")
        )]);
    }
    let with_interval = !args.no_interval
        && (outputs.save_result || matches!(outputs.format, Format::Json | Format::Jsonl | Format::Csv));
    let told = Told {
        outputs: &outputs,
        columns: &columns,
        pareto: args.pareto.map(Measure::from),
        with_interval,
    };
    execute(&plan, &told, drawn.as_ref(), out, terminal)
}

/// What is made of the runs.
struct Told<'a> {
    outputs: &'a Outputs,
    columns: &'a Columns,
    pareto: Option<Measure>,
    with_interval: bool,
}

/// The first note of each run that is one of these.
fn noted(runs: &[serde_json::Value], is_one: fn(&str) -> bool) -> Vec<&str> {
    let notes = runs.iter().filter_map(|run| run["plimsoll"]["notes"].as_array());
    let first = notes.filter_map(|notes| {
        let mut texts = notes.iter().filter_map(serde_json::Value::as_str);
        texts.find(|text| is_one(text))
    });
    first.collect()
}

/// That the TTFT of some cells is one of equal lengths, whose sequences are in step, with what is said of the last of them.
fn of_equal_lengths(runs: &[serde_json::Value]) -> Option<String> {
    let equal = noted(runs, in_step::is_on_equal_lengths);
    let last = equal.last()?;
    Some(format!(
        "the TTFT is one of equal lengths in {} of {}; of one of these: {last}",
        equal.len(),
        counted(runs.len() as u64, "run")
    ))
}

/// That some cells are held up by API servers and not by what is varied, with what is said of the last of those that are behind, if any.
fn of_front_ends(runs: &[serde_json::Value]) -> Vec<String> {
    let busy = noted(runs, fronts::is_on_busy_ones);
    let behind = busy.iter().rev().find(|note| fronts::is_on_those_behind(note));
    let last = behind.or(busy.last()).map(|last| {
        format!(
            "API servers are busy in {} of {}; of one of these: {last}",
            busy.len(),
            counted(runs.len() as u64, "run")
        )
    });
    last.into_iter().collect()
}

/// Simulates every cell and prints. With `-o FILE.jsonl` finished cells are kept as they come, and a sweep that was
/// interrupted goes on where it stopped.
fn execute(
    plan: &Plan,
    told: &Told<'_>,
    drawn: Option<&(&str, Option<SweepLayout>)>,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<ExitCode> {
    let outputs = told.outputs;
    let is_jsonl = outputs.format == Format::Jsonl;
    let cells: Vec<sweep::Cell> = plan.cells(is_jsonl.then_some(""));
    let kept = outputs.file.as_deref().filter(|_| is_jsonl);
    // Nobody else writes the file until it is whole.
    let (all, is_interrupted, keeper) = simulate_all(plan, &cells, kept, told, terminal)?;
    if outputs.save_result {
        terminal.notes(&[format!("saved one result a cell into {}", outputs.result_dir)]);
    }
    terminal.notes(&of_front_ends(&all));
    terminal.notes(&of_equal_lengths(&all).into_iter().collect::<Vec<_>>());
    terminal.notes(&shown::without_closed_form(told.columns, plan, (&cells, &all)));
    let row = |(cell, run)| plan.row(cell, run);
    let rows = report::sweep::alike(cells.iter().zip(&all).map(row).collect());
    if !is_interrupted || kept.is_none() {
        put((&cells, &rows), told, out, terminal)?;
        if let Some((folder, layout)) = drawn {
            let sweep = layout.as_ref().map(|layout| charts::picture(plan, &rows, layout));
            let frontier = told.pareto.map(|measure| charts::frontier(plan, &rows, measure));
            let pictures: Vec<_> = sweep.into_iter().chain(frontier).collect();
            files::save_pictures(folder, &pictures, terminal)?;
        }
    }
    if let Some(error) = keeper.error {
        let path = kept.unwrap_or_default();
        return Err(anyhow::Error::new(error).context(format!("cannot keep every finished run in {path}")));
    }
    if is_interrupted {
        terminal.notes(&[match kept {
            Some(path) => format!("interrupted; the same command goes on from {path}"),
            None => "interrupted; what was finished is printed. With -o FILE.jsonl the same command would go on from \
                     where it stopped"
                .to_owned(),
        }]);
        return Ok(Exit::Interrupted.into());
    }
    let exit = match report::sweep::none_keeps(&rows) {
        _ if rows.iter().any(SweepRow::has_violations) => Exit::Failure,
        true => Exit::NotMet,
        // Nothing fits, as each row says.
        false if plan.runs.is_empty() => Exit::NotMet,
        false => Exit::Ok,
    };
    Ok(exit.into())
}

/// Every cell's result, `null` where it was not run, whether the user stopped it, and the file that finished runs were kept in.
/// With `kept` what that file already holds is not simulated again.
fn simulate_all(
    plan: &Plan,
    cells: &[sweep::Cell],
    kept: Option<&str>,
    told: &Told<'_>,
    terminal: &Terminal,
) -> anyhow::Result<(Vec<serde_json::Value>, bool, Keeper<std::fs::File>)> {
    let (finished, mut keeper) = match kept {
        Some(path) => Kept::RUNS.resume(path, cells, terminal)?,
        None => (Finished::default(), Keeper::new(None)),
    };
    let mut progress = Progress::new(terminal, Some(cells.len() as u64), "runs");
    let results = sweep::run(
        cells,
        finished,
        |cell| match plan.run(cell.index) {
            Some(planned) => one(planned, told),
            None => Ok(plan.refused(cell.index).map(Refused::result).unwrap_or_default()),
        },
        |done| {
            progress.at(done.done as u64);
            keeper.append(done.line);
        },
    );
    drop(progress);
    let mut is_interrupted = false;
    let mut all = Vec::with_capacity(results.len());
    for result in results {
        all.push(match result {
            Ok(value) => value,
            Err(CellError::Interrupted) => {
                is_interrupted = true;
                serde_json::Value::Null
            }
            Err(CellError::Json(error)) => return Err(error.into()),
            Err(CellError::Unsaved(error)) => return Err(error),
        });
    }
    Ok((all, is_interrupted, keeper))
}

/// Writes all results, in the order of the cells; a cell that was not run has `null`.
fn put(
    (cells, rows): (&[sweep::Cell], &[SweepRow<'_>]),
    told: &Told<'_>,
    out: &mut dyn Write,
    terminal: &Terminal,
) -> anyhow::Result<()> {
    let file = told.outputs.file.as_deref();
    if told.outputs.format == Format::Jsonl {
        let finished = cells.iter().zip(rows).filter(|(_, row)| !row.run.is_null());
        let (cells, results): (Vec<_>, Vec<_>) = finished.map(|(cell, row)| (cell.clone(), row.run)).unzip();
        return files::put(&sweep::to_jsonl(&cells, &results)?, file, out);
    }
    let width = terminal.width().filter(|_| file.is_none());
    let text = match told.outputs.format {
        Format::Csv => report::sweep::csv(rows, told.columns),
        Format::Json => {
            let results: Vec<_> = rows.iter().map(|row| row.run).collect();
            serde_json::to_string(&results)? + "\n"
        }
        form => match (told.pareto.map(|measure| Frontier::of(rows, measure)), form) {
            (Some(frontier), Format::Md) => frontier.md(),
            (Some(frontier), _) => frontier.text(width),
            (None, Format::Md) => report::sweep::md(rows, told.columns),
            (None, _) => report::sweep::text(rows, told.columns, width),
        },
    };
    files::put(&text, file, out)
}

/// Why a cell has no result.
#[derive(Debug)]
enum CellError {
    Interrupted,
    Json(serde_json::Error),
    Unsaved(anyhow::Error),
}

impl From<serde_json::Error> for CellError {
    fn from(error: serde_json::Error) -> CellError {
        CellError::Json(error)
    }
}

/// Requests of an overloaded cell, so that cells beyond saturation are of one length.
const OVERLOADED: u64 = 10_000;

/// One run, as vLLM's client would report it; saved where that was asked for.
fn one(cell: &Planned, told: &Told<'_>) -> Result<serde_json::Value, CellError> {
    let Told {
        outputs,
        with_interval,
        ..
    } = *told;
    if interrupt::is_asked() {
        return Err(CellError::Interrupted);
    }
    let experiment = Experiment {
        overloaded_min: OVERLOADED,
        ..present::experiment(&cell.resolved, records(outputs, false))
    };
    let outcome = simulate(&cell.resolved.scenario, &experiment, |ended| {
        progress::goes_on(|| format!("{} of one that runs", counted(ended, "request")))
    });
    if outcome.is_interrupted {
        return Err(CellError::Interrupted);
    }
    let result = &outcome.result;
    let is_whole = with_interval && !outcome.is_livelocked;
    let model_interval = match is_whole {
        true => match model_interval_while(&cell.resolved, &|| !interrupt::is_asked()) {
            // A cell without its interval would not be the one that goes on from the file.
            None => return Err(CellError::Interrupted),
            interval => interval,
        },
        false => None,
    };
    let mut meta = ResultMeta {
        model_interval,
        ..present::meta_of(&cell.resolved, &outcome)
    };
    // What JSON has does not depend on what is asked for.
    if matches!(outputs.format, Format::Table | Format::Md | Format::Csv) {
        let more = told.columns.percentiles().into_iter();
        let known = meta.percentiles.clone();
        meta.percentiles.extend(more.filter(|one| !known.contains(one)));
    }
    if outputs.save_result {
        let name = file_name(cell.index, outputs, &report::json::file_name(&meta));
        let name = match outputs.result_filename {
            Some(_) => Name::Chosen(name),
            None => Name::Own(name),
        };
        save(&cell.resolved, result, &meta, outputs, &name).map_err(CellError::Unsaved)?;
    }
    let mut run: serde_json::Value = serde_json::from_str(&report::json::run(result, &meta, Arrays::None))?;
    run["plimsoll"]["cell"] = sweep::object_of(&cell.labels);
    Ok(run)
}

/// The name of a cell's own file: cells may share the rate, the model and the second that vLLM's name is made of.
fn file_name(index: usize, outputs: &Outputs, vllms: &str) -> String {
    let name = outputs.result_filename.as_deref().unwrap_or(vllms);
    let stem = name.strip_suffix(".json").unwrap_or(name);
    format!("{stem}-cell{index:03}.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Lengths;

    /// A request has a prompt and an output: what is swept counts as given.
    #[test]
    fn swept_lengths_need_no_other_flag() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        let lengths = |axes: &str| -> Vec<(u32, u32)> {
            let line = format!("sweep Qwen/Qwen3-8B --gpu h100 --request-rate 2 --num-prompts 200 {axes}");
            let Line { args } = clap::Parser::parse_from(line.split_whitespace());
            let common = Common::read(&args.axes, &args.scenario, &args.output).unwrap();
            let axes = args.varied(common.scenario()).unwrap();
            let cells = Plan::of(common.cells(&axes).unwrap(), (0, 1), |_, _| Ok(()))
                .unwrap()
                .unwrap();
            let of_cell = |cell: Planned| match cell.resolved.scenario.workload.lengths {
                Lengths::Fixed {
                    input_len,
                    output_len,
                } => (input_len, output_len),
                Lengths::RandomVllm {
                    input_len,
                    output_len,
                    ..
                } => (input_len, output_len),
                other => panic!("{other:?}"),
            };
            cells.runs.into_iter().map(of_cell).collect()
        };
        let all = [(128, 16), (128, 64), (512, 16), (512, 64)];
        assert_eq!(lengths("-L input-len 128,512 -L output-len 16,64"), all);
        let pair = [(128, 16), (512, 16)];
        assert_eq!(lengths("-L input-len 128,512 --output-len 16"), pair);
        assert_eq!(lengths("-S input_len 128..512 step 384 --output-len 16"), pair);
    }

    #[test]
    fn partitions_are_counted_from_one_by_people() {
        let slice = |text: &str| partition(text, |_| None).ok();
        assert_eq!(slice("slice:1/3"), Some((0, 3)));
        assert_eq!(slice("slice:3/3"), Some((2, 3)));
        for bad in ["slice:0/3", "slice:4/3", "1/3", "slice:a/b", "slurm"] {
            assert_eq!(slice(bad), None, "{bad}");
        }
        let array = |name: &str| {
            Some(
                if name == "SLURM_ARRAY_TASK_ID" {
                    "5"
                } else if name == "SLURM_ARRAY_TASK_COUNT" {
                    "4"
                } else {
                    "2"
                }
                .to_string(),
            )
        };
        assert_eq!(partition("slurm", array).ok(), Some((3, 4)));
    }
}
