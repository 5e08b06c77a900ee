//! `plimsoll audit`: is a benchmark's result physically and statistically possible?

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;

use super::Exit;
use super::files;
use super::inputs;
use super::interrupt;
use super::terminal::Terminal;
use crate::audit::{self, Known, Machine};
use crate::report::audited::{self, Audited};
use crate::report::folded;
use crate::results::{self, Load, Measured, ResultFile, UnreadRow, no_figure};
use crate::validate::once;

/// Is this benchmark physically and statistically possible?
///
/// Reads results of vllm bench serve, SGLang, AIPerf, GenAI-Perf, GuideLLM, llmperf, inference-perf, InferenceX,
/// trtllm-bench and Plimsoll, printed blocks, and CSV tables with a row a run. Checks Little's law against the limit on
/// requests in flight, definitions of the latencies, tokens against seconds, percentiles against their samples, and
/// every time against weights over bandwidth and operations over the dense peak. IMPOSSIBLE breaks a law; DOUBTFUL needs
/// an unlikely story; notes say how to read a figure.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll audit results.json
  plimsoll audit bench.log --gpu h100 --model meta-llama/Llama-3.1-8B-Instruct
  plimsoll audit profile_export.jsonl --max-concurrency 64    # AIPerf's records do not say it
  plimsoll audit published.csv --format json
  plimsoll audit 'stage_0.json' 'stage_1.json' --notes

What a file lacks can be given, and a note tells what it says otherwise; physical bounds need GPU, model and the number of GPUs (one unless said).

Exit codes: 0 nothing impossible or doubtful, 1 something found, 2 a file cannot be read, or a row of it, or no figure in it, or what is given contradicts itself.")]
pub struct Args {
    /// Results; `-` reads standard input. Rows of one file are compared with each other.
    #[arg(value_name = "RESULT", required = true)]
    pub files: Vec<String>,
    /// What is known beside the files.
    #[command(flatten)]
    pub known: KnownArgs,
    /// Show notes too, and what was read as what.
    #[arg(long)]
    pub notes: bool,
    /// What to print.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Write it into this file.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
}

/// How an audit, a comparison or a replay is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[value(alias = "table")]
    Text,
    /// Everything, as one object.
    Json,
}

/// What is known beside the file. A value that a file has stays and is told, but for GPU and model.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What the file lacks")]
pub struct KnownArgs {
    /// GPU that served, a name or a profile.
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,
    /// Model that was served, an id or a config.json.
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// GPUs that share the weights.
    #[arg(long, alias = "tp", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tensor_parallel_size: Option<u32>,
    /// All GPUs of the server.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub n_gpus: Option<u32>,
    /// The client's limit on requests in flight.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_concurrency: Option<u64>,
    /// Requests per second that were sent; `inf` for all at once.
    #[arg(long, value_name = "RATE")]
    pub request_rate: Option<f64>,
    /// Requests that were sent.
    #[arg(long, value_name = "N")]
    pub num_prompts: Option<u64>,
    /// Mean prompt, tokens.
    #[arg(long, value_name = "TOKENS")]
    pub input_len: Option<f64>,
    /// Mean answer, tokens.
    #[arg(long, value_name = "TOKENS")]
    pub output_len: Option<f64>,
}

impl KnownArgs {
    /// Puts what is given where a row has nothing. Of each flag that a row has otherwise: the flag, and what the row says.
    fn fill(&self, row: &mut Measured) -> Vec<(String, String)> {
        let unused = self.unused(row);
        let setup = &mut row.setup;
        setup.max_concurrency = setup.max_concurrency.or(self.max_concurrency);
        setup.num_prompts = setup.num_prompts.or(self.num_prompts);
        setup.input_tokens = setup.input_tokens.or(self.input_len);
        setup.output_tokens = setup.output_tokens.or(self.output_len);
        match (setup.load, self.request_rate, setup.max_concurrency) {
            (Load::Unknown, Some(rate), _) if rate.is_finite() => setup.load = Load::Open { rate },
            (Load::Unknown, rate, None) if rate.is_some() => setup.load = Load::Burst,
            (Load::Unknown | Load::Burst, _, Some(clients)) => setup.load = Load::Closed { clients },
            _ => {}
        }
        unused
    }

    fn unused(&self, row: &Measured) -> Vec<(String, String)> {
        /// A mean length is given in whole tokens, and a rate in a few digits.
        const SAME: f64 = 0.01;
        let setup = &row.setup;
        let count = |flag: &str, given: Option<u64>, has: Option<u64>| {
            let (given, has) = given.zip(has).filter(|(given, has)| given != has)?;
            Some((format!("{flag} {given}"), has.to_string()))
        };
        let number = |flag: &str, given: Option<f64>, has: Option<f64>| {
            let (given, has) = given.zip(has)?;
            let is_same = given == has || (given / has - 1.0).abs() <= SAME;
            // Lengths are means, of which the file gives the sum.
            let rounded = (1e4 * has).round() / 1e4;
            (!is_same).then(|| (format!("{flag} {given}"), rounded.to_string()))
        };
        let rate = match (self.request_rate, setup.load) {
            (None, _) | (_, Load::Unknown) => None,
            (given, Load::Open { rate }) => number("--request-rate", given, Some(rate)),
            (Some(given), load) => {
                let is_same = given.is_infinite() && matches!(load, Load::Burst | Load::Closed { .. });
                (!is_same).then(|| (format!("--request-rate {given}"), load.to_string()))
            }
        };
        let unused = [
            count("--max-concurrency", self.max_concurrency, setup.max_concurrency),
            count("--num-prompts", self.num_prompts, setup.num_prompts),
            number("--input-len", self.input_len, setup.input_tokens),
            number("--output-len", self.output_len, setup.output_tokens),
            rate,
        ];
        unused.into_iter().flatten().collect()
    }

    /// Why the GPUs that are given, with what a row says beside them, are fewer than share its weights.
    fn contradiction(&self, row: &Measured) -> Option<String> {
        let said = |given: Option<u32>, has: Option<u32>, flag: &str, column: &str| match (given, has) {
            (Some(given), _) => Some((given, format!("{flag} {given}"))),
            (None, has) => has.map(|has| (has, format!("the file's {column} of {has}"))),
        };
        let setup = &row.setup;
        let (ranks, of_ranks) = said(
            self.tensor_parallel_size,
            setup.tensor_parallel,
            "--tensor-parallel-size",
            "tp",
        )?;
        let (gpus, of_gpus) = said(self.n_gpus, setup.n_gpus, "--n-gpus", "n_gpus")?;
        let is_given = self.tensor_parallel_size.is_some() || self.n_gpus.is_some();
        (is_given && ranks > gpus).then(|| {
            format!("{of_ranks} needs {ranks} GPUs, and {of_gpus} leaves {gpus}: one of them is wrong")
        })
    }

    fn machine(&self) -> anyhow::Result<Machine> {
        let device = self
            .gpu
            .as_deref()
            .map(inputs::device)
            .transpose()?
            .map(|(device, _)| device);
        let model = self
            .model
            .as_deref()
            .map(inputs::model)
            .transpose()?
            .map(|(model, _)| model);
        Ok(Machine {
            device,
            model,
            tensor_parallel: self.tensor_parallel_size,
            n_gpus: self.n_gpus,
        })
    }
}

/// Runs the command.
///
/// # Errors
/// An unknown GPU or model, or a result that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    // All is said at the end.
    let nothing_yet = interrupt::at_once();
    let known = Known {
        machine: Some(args.known.machine()?),
    };
    let mut audited = Vec::new();
    let mut unreadable = false;
    for name in &args.files {
        match read_rows(name) {
            Ok((mut file, unread)) => {
                for problem in unread.iter().flat_map(|row| &row.problems) {
                    let (place, what) = (&problem.place, &problem.what);
                    terminal.error(&anyhow::anyhow!("{}: {place}: {what}", file.name));
                    unreadable = true;
                }
                let refused = no_figure(&file).or_else(|| {
                    let wrong = file.rows.iter().find_map(|row| args.known.contradiction(row))?;
                    Some(format!("{}: {wrong}", file.name))
                });
                if let Some(why) = refused {
                    terminal.error(&anyhow::anyhow!("{why}"));
                    unreadable = true;
                    continue;
                }
                let (rows, mut twice) = once(std::mem::take(&mut file.rows));
                file.rows = rows;
                twice
                    .iter_mut()
                    .for_each(|told| *told = format!("{}: {told}", file.name));
                terminal.notes(&twice);
                let unused = file.rows.iter_mut().flat_map(|row| args.known.fill(row));
                terminal.notes(&told(&file.name, unused.collect()));
                if let Some(same) = audited.iter().find(|known: &&Audited| is_same_run(known, &file)) {
                    let what = format!("holds the same as {}: counted once", same.file.name);
                    terminal.notes(&[format!("{} {what}", file.name)]);
                    continue;
                }
                let rows = audit::audit(&file.rows, &known);
                audited.push(Audited { file, rows });
            }
            Err(error) => {
                terminal.error(&error);
                unreadable = true;
            }
        }
    }
    if let Some(file) = args.output.as_deref().filter(|file| *file != "-") {
        files::check_file(Path::new(file), "--output")?;
    }
    if !audited.is_empty() {
        let width = terminal.width().filter(|_| args.output.is_none());
        let text = match args.format {
            Format::Text => folded(&audited::text(&audited, args.notes), width),
            Format::Json => audited::json(&audited),
        };
        drop(nothing_yet);
        files::put(&text, args.output.as_deref(), out)?;
    }
    let counts = audited::counts(&audited);
    let exit = if unreadable {
        Exit::BadInput
    } else if counts.impossible + counts.doubtful > 0 {
        Exit::Failure
    } else {
        Exit::Ok
    };
    Ok(exit.into())
}

/// Whether a file holds the very runs of one that was read before, whatever it is called.
fn is_same_run(known: &Audited, file: &ResultFile) -> bool {
    known.file.rows == file.rows
}

/// What a file says otherwise, once for each flag.
fn told(name: &str, unused: Vec<(String, String)>) -> Vec<String> {
    const SHOWN: usize = 3;
    let mut says: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (flag, has) in unused {
        let values = says.entry(flag).or_default();
        if !values.contains(&has) {
            values.push(has);
        }
    }
    let told = says.iter().map(|(flag, values)| {
        let more = match values.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let shown = values[..values.len().min(SHOWN)].join(", ");
        format!("{name} says {shown}{more}: {flag} is not used where it does")
    });
    told.collect()
}

/// Reads a result from a file or from standard input.
///
/// # Errors
/// A file that cannot be opened, or that is no result.
pub(super) fn read(name: &str) -> anyhow::Result<ResultFile> {
    Ok(results::read(&files::read_result(name)?, shown(name))?)
}

/// The same, but for rows of a table that cannot be read: they are kept apart.
///
/// # Errors
/// A file that cannot be opened, or that is no result, or in which no row can be read.
pub(super) fn read_rows(name: &str) -> anyhow::Result<(ResultFile, Vec<UnreadRow>)> {
    Ok(results::read_rows(&files::read_result(name)?, shown(name))?)
}

fn shown(name: &str) -> &str {
    if name == "-" { "standard input" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Tool;

    #[test]
    fn more_ranks_than_gpus_are_refused() {
        let told = |ranks: Option<u32>, gpus: Option<u32>, has: (Option<u32>, Option<u32>)| {
            let known = KnownArgs {
                tensor_parallel_size: ranks,
                n_gpus: gpus,
                ..KnownArgs::default()
            };
            let mut row = Measured::new(Tool::Table, "");
            (row.setup.tensor_parallel, row.setup.n_gpus) = has;
            known.contradiction(&row)
        };
        let bare = (None, None);
        let expected = "--tensor-parallel-size 8 needs 8 GPUs, and --n-gpus 1 leaves 1: one of them is wrong";
        assert_eq!(told(Some(8), Some(1), bare).as_deref(), Some(expected));
        let of_file = told(None, Some(1), (Some(8), None)).unwrap();
        assert!(
            of_file.starts_with("the file's tp of 8 needs 8 GPUs"),
            "{of_file}"
        );
        for (ranks, gpus, has) in [
            (Some(8), Some(8), bare),
            (Some(2), Some(8), bare),
            (Some(8), None, bare),
            (None, None, (Some(8), Some(1))),
            (Some(1), None, (Some(8), Some(4))),
        ] {
            assert_eq!(told(ranks, gpus, has), None);
        }
    }

    #[test]
    fn a_flag_that_the_file_answers_is_told() {
        let known = KnownArgs {
            max_concurrency: Some(2),
            num_prompts: Some(400),
            input_len: Some(512.0),
            output_len: Some(64.0),
            request_rate: Some(5.0),
            ..KnownArgs::default()
        };
        let mut row = Measured::new(Tool::VllmBench, "");
        row.setup.max_concurrency = Some(10);
        row.setup.num_prompts = Some(400);
        (row.setup.input_tokens, row.setup.output_tokens) = (Some(511.7), Some(128.0));
        row.setup.load = Load::Closed { clients: 10 };
        let unused = known.fill(&mut row);
        assert_eq!(row.setup.max_concurrency, Some(10));
        let rows = [unused.clone(), unused].concat();
        assert_eq!(
            told("bench.log", rows),
            [
                "bench.log says 10: --max-concurrency 2 is not used where it does",
                "bench.log says 128: --output-len 64 is not used where it does",
                "bench.log says 10 in flight: --request-rate 5 is not used where it does",
            ]
        );
        let mut bare = Measured::new(Tool::AiperfRecords, "");
        assert_eq!(known.fill(&mut bare), []);
        assert_eq!(bare.setup.max_concurrency, Some(2));
        assert_eq!(bare.setup.load, Load::Open { rate: 5.0 });
    }
}
