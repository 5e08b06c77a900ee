//! The shell: arguments in, bytes out, exit codes. The only place that opens files, prints and reads the clock.
//!
//! Each command is a module with `Args` and `run`. What a command prints as its result goes to the writer that it is
//! given; notes and problems go to the [`Terminal`]. Exit codes are those of [`Exit`].

pub mod audit;
mod balance;
pub mod calibrate;
pub mod calibrations;
mod cells;
mod clock;
pub mod compare;
mod components;
pub mod conform;
pub mod course;
pub mod diff;
pub mod disk;
mod exit;
pub mod explain;
#[cfg(feature = "serve")]
pub mod explore;
mod failures;
pub mod figures;
mod files;
pub mod fit;
mod folder;
mod fronts;
pub mod guide;
pub mod hw;
mod in_step;
pub mod inputs;
pub mod interrupt;
mod kept;
pub mod knee;
pub mod lab;
mod ledger;
mod memory;
pub mod metrics;
mod mix;
pub mod models;
mod named;
pub mod outputs;
mod page;
mod piecewise;
mod plan;
mod pools;
mod present;
pub mod probe;
mod progress;
mod remarks;
mod rent;
pub mod report;
mod reported;
pub mod run;
pub mod scenarios;
pub mod schema;
#[cfg(feature = "serve")]
pub mod serve;
mod short;
pub mod size;
mod subject;
pub mod sweep;
pub mod terminal;
mod theory;
pub mod timeline;
pub mod trace;
mod unknown;
mod used;
pub mod validate;
mod values;
mod what_if;
mod why;
pub mod working_set;

use std::io::Write;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::config::{Diagnostics, argv, visible};
pub use exit::Exit;
use terminal::Terminal;

const EXAMPLES: &str = "Examples:
  plimsoll knee                       # the highest rate of the quickstart scenario
  plimsoll size quickstart --for-rate 100   # what to buy for it
  plimsoll fit meta-llama/Llama-3.1-8B-Instruct --gpu h100
  plimsoll run meta-llama/Llama-3.1-8B-Instruct --gpu h100 --request-rate 10 --input-len 1024 --output-len 128
  plimsoll run --serve-cmd \"vllm serve …\" --bench-cmd \"vllm bench serve …\" --gpu h100 --save-result
  plimsoll sweep course-week1
  plimsoll audit results.json         # could this measurement be true?
  plimsoll guide answers              # how to read what is printed";

/// How hard may an LLM server be loaded?
///
/// Plimsoll predicts time to first token, inter-token latency, throughput and the knee of an LLM server from a GPU, a
/// model, engine flags and traffic: a discrete-event simulation of the engine's scheduler on a calibrated roofline.
#[derive(Parser, Debug)]
#[command(
    name = "plimsoll",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = format!("{EXAMPLES}\n\nExit codes, the same for every command:{}", Exit::help()))]
pub struct Cli {
    /// Colour in messages.
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        global = true,
        display_order = 900
    )]
    pub color: Colour,
    /// Only the result and errors: no notes, no progress.
    #[arg(long, global = true, display_order = 901)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Does it fit? KV tokens, concurrency and the roofline's ceilings, at once
    Fit(Box<fit::Args>),
    /// What happens at this rate, or with this trace?
    Run(Box<run::Args>),
    /// What rate can be served within the SLO?
    Knee(Box<knee::Args>),
    /// What to buy for a rate, for users or for a trace: cards, how many, and what they cost
    Size(Box<size::Args>),
    /// One run for each combination of values
    Sweep(Box<sweep::Args>),
    /// Is one way of serving better than another? The same traffic for both
    Compare(Box<compare::Args>),
    /// Why is it as slow as it is, and what would help? Times taken apart, and changes tried alone
    Explain(Box<explain::Args>),
    /// Write a run, its knee and what explains both as one HTML file
    Report(Box<report::Args>),
    /// Fit a calibration to measurements: kernel tables, a probe's output, results of any benchmark tool
    Calibrate(Box<calibrate::Args>),
    /// What calibrations ship, and how well is each known?
    Calibrations(calibrations::Args),
    /// Is a benchmark's result physically and statistically possible?
    Audit(audit::Args),
    /// What moved between two results, and why?
    Diff(diff::Args),
    /// Are the schedules the engine's own? Replays recordings of it
    Conform(conform::Args),
    /// Exercises: predict, simulate, explain
    Lab(lab::Args),
    /// Predictions beside the measurements of a course's labs
    Course(course::Args),
    /// How far are predictions from published measurements?
    Validate(validate::Args),
    /// Answer real clients with the timing of a simulated server: OpenAI's API, vLLM's metrics
    #[cfg(feature = "serve")]
    Serve(Box<serve::Args>),
    /// Turn a scenario's knobs in the browser, and see queue, batch and latencies move
    #[cfg(feature = "serve")]
    Explore(Box<explore::Args>),
    /// How large a prefix cache can the prompts use? Hit rate over size, in one pass
    WorkingSet(Box<working_set::Args>),
    /// Describe a request trace, or fit a shareable workload to it
    Trace(trace::Args),
    /// List, show or add GPUs
    Hw(hw::Args),
    /// Measure this machine's GPU and write its calibration
    Probe(probe::Args),
    /// List or show model shapes
    Models(models::Args),
    /// List the shipped scenarios, or print one
    Scenarios(scenarios::Args),
    /// Read the manual offline: pages, terms, or every passage with a word
    Guide(guide::Args),
    /// Print the JSON Schema of the scenario file
    Schema(schema::Args),
    /// Print a shell's completion script
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Commands whose flags are vLLM's, in all of vLLM's spellings.
const SPEAK_VLLM: [&str; 12] = [
    "fit",
    "run",
    "knee",
    "size",
    "sweep",
    "compare",
    "explain",
    "report",
    "working-set",
    "calibrate",
    "serve",
    "explore",
];

/// The forms of a command whose first is `text`, for people; `table` is another word for it, as everywhere.
fn text_or(others: &'static [&'static str]) -> impl TypedValueParser<Value = String> {
    let text = PossibleValue::new("text").alias("table");
    let others = others.iter().map(|form| PossibleValue::new(*form));
    PossibleValuesParser::new(std::iter::once(text).chain(others)).map(|form| match form.as_str() {
        "table" => "text".to_owned(),
        _ => form,
    })
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    interrupt::listen();
    // A control character can be no part of a name or a number, and would steer the terminal that shows an error. A
    // pasted command may have several lines.
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| harmless(&arg.to_string_lossy()))
        .collect();
    let (cli, terminal, problems) = match parse(&args) {
        Ok(parsed) => parsed,
        Err(mut error) => {
            name_as_typed(&mut error);
            // Help and version are results: clap prints them on stdout and its code for them is 0.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    if let Some(problems) = problems {
        terminal.problems(&problems);
        return Exit::BadInput.into();
    }
    let mut out = terminal.stdout();
    let result = command(&cli, &mut out, &terminal).and_then(|code| Ok(out.flush().map(|()| code)?));
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => Exit::Ok.into(),
        Err(error) => {
            if let Some(problems) = error.downcast_ref::<Diagnostics>() {
                terminal.problems(problems);
                return if problems.is_misfit() {
                    Exit::NotMet
                } else {
                    Exit::BadInput
                }
                .into();
            }
            terminal.error(&error);
            if is_fault_of_the_machine(&error) {
                Exit::Failure
            } else {
                Exit::BadInput
            }
            .into()
        }
    }
}

/// Axes are written by their letters, and a range has a word in its middle: what lacks one is named so.
fn name_as_typed(error: &mut clap::Error) {
    const TYPED: [(&str, &str); 2] = [
        ("--list ", "-L <NAME> <VALUE,…>"),
        ("--steps ", "-S <NAME> <FROM..TO> step <BY>"),
    ];
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && let Some((_, typed)) = TYPED.iter().find(|(long, _)| argument.starts_with(long))
    {
        let typed = ContextValue::String((*typed).to_owned());
        error.insert(ContextKind::InvalidArg, typed);
    }
}

/// An argument with its control characters spelt out, but for those that lay out a command of several lines.
fn harmless(arg: &str) -> String {
    arg.split_inclusive(['\n', '\r', '\t'])
        .map(|part| {
            let text = part.trim_end_matches(['\n', '\r', '\t']);
            visible(text) + &part[text.len()..]
        })
        .collect()
}

/// A full disk or a missing permission; a file that is not there, or a folder where a file should be, was named wrongly.
fn is_fault_of_the_machine(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{
        AlreadyExists, InvalidData, InvalidFilename, IsADirectory, NotADirectory, NotFound,
    };
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| {
            !matches!(
                error.kind(),
                NotFound | AlreadyExists | IsADirectory | NotADirectory | InvalidFilename | InvalidData
            )
        })
}

type Parsed = (Cli, Terminal, Option<Diagnostics>);

/// The command that is asked for: the first argument that is neither a flag nor the value of `--color`, the only flag before
/// a command that takes one.
fn command_of(args: &[String]) -> Option<&str> {
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--color" => {
                args.next();
            }
            flag if flag.starts_with('-') => {}
            name => return Some(name),
        }
    }
    None
}

/// Reads arguments (without the program's name), vLLM's spellings included.
fn parse(args: &[String]) -> Result<Parsed, clap::Error> {
    let mut args = args.to_vec();
    let name = command_of(&args).map(str::to_owned);
    if name.as_deref() == Some("compare") {
        compare::quote_variants(&mut args);
    }
    if name.as_deref() == Some("size") {
        size::own_prices(&mut args);
    }
    let args = args.as_slice();
    let speaking = name.filter(|name| SPEAK_VLLM.contains(&name.as_str()));
    let normal = match speaking.as_deref() {
        Some("serve" | "explore") => argv::normalise_beside(args, &argv::SERVING),
        Some(_) => argv::normalise(args),
        None => argv::with_plain_signs(args),
    };
    // Where vLLM's flags are taken, a flag that is given again replaces the first, as it does there.
    let all = Cli::command();
    // A binary may have been built without one of them.
    let speakers = SPEAK_VLLM.map(|name| all.find_subcommand(name).map(|_| name));
    let rules = speakers.into_iter().flatten().fold(all, |command, name| {
        command.mut_subcommand(name, |sub| {
            // `-5` is a wrong value and no flag: whoever reads the value says what is right.
            let sub = sub.mut_args(|arg| match arg.get_action() {
                ArgAction::Set => arg.allow_negative_numbers(true),
                _ => arg,
            });
            argv::last_wins(sub, argv::Replaced::Single)
        })
    });
    // Only then: what `--help` prints under headings stands there without.
    let rules = match args.iter().any(|arg| arg == "-h") {
        true => short::with_short_help(rules),
        false => rules,
    };
    let repeated = speaking
        .and_then(|name| rules.find_subcommand(&name))
        .map(|sub| argv::repeated(&normal.args, sub, argv::Replaced::Single));
    let (matches, unreadable) = match values::matches(&rules, &normal.args) {
        Ok(matches) => (matches, None),
        Err(error) => match values::without_unreadable(&rules, &normal.args, &error) {
            Some((matches, unreadable)) => (matches, Some((error, unreadable))),
            None => return Err(unknown::explained(error, args)),
        },
    };
    let mut cli = Cli::from_arg_matches(&matches)?;
    let axes = match &mut cli.command {
        Command::Knee(args) => Some(&mut args.axes),
        Command::Size(sized) => {
            // The first word that is no flag of all commands is the command's name.
            let behind = args.iter().position(|word| word == "size").map_or(0, |at| at + 1);
            sized.words = args[behind..].to_vec();
            Some(&mut sized.axes)
        }
        Command::Sweep(args) => Some(&mut args.axes),
        _ => None,
    };
    if let Some((axes, (name, matches))) = axes.zip(matches.subcommand())
        && let Some(sub) = rules.find_subcommand(name)
    {
        axes.remember(sub, matches);
    }
    let terminal = Terminal::new(cli.color, cli.quiet);
    if let Some((error, unreadable)) = unreadable {
        let problems = values::with_others(unreadable, &cli.command, normal.problems);
        return match problems.0.len() {
            // Alone it is told as the reader of the command line tells it.
            0 | 1 => Err(unknown::explained(error, args)),
            _ => Ok((cli, terminal, Some(problems))),
        };
    }
    let ignored = [normal.ignored, repeated.unwrap_or_default()].concat();
    // Run says them itself, in its report.
    match &mut cli.command {
        Command::Run(args) => args.scenario.ignored = ignored,
        #[cfg(feature = "serve")]
        Command::Explore(explore) => {
            explore.typed = explore::typed(args);
            terminal.notes(&ignored);
        }
        Command::Report(report) => {
            report.typed = report::typed(args);
            terminal.notes(&ignored);
        }
        _ => terminal.notes(&ignored),
    }
    let problems = (!normal.problems.is_empty()).then_some(Diagnostics(normal.problems));
    Ok((cli, terminal, problems))
}

fn command(cli: &Cli, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Fit(args) => fit::run(args, out, terminal),
        Command::Run(args) => run::run(args, out, terminal),
        Command::Knee(args) => knee::run(args, out, terminal),
        Command::Size(args) => size::run(args, out, terminal),
        Command::Sweep(args) => sweep::run(args, out, terminal),
        Command::Compare(args) => compare::run(args, out, terminal),
        Command::Explain(args) => explain::run(args, out, terminal),
        Command::Report(args) => report::run(args, out, terminal),
        Command::Calibrate(args) => calibrate::run(args, out, terminal),
        Command::Calibrations(args) => calibrations::run(args, out, terminal.width()),
        Command::Audit(args) => audit::run(args, out, terminal),
        Command::Diff(args) => diff::run(args, out, terminal),
        Command::Validate(args) => validate::run(args, out, terminal),
        Command::Conform(args) => conform::run(args, out),
        Command::Course(args) => course::run(args, out, terminal),
        Command::Lab(args) => lab::run(args, out, terminal),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args, out, terminal),
        #[cfg(feature = "serve")]
        Command::Explore(args) => explore::run(args, out, terminal),
        Command::WorkingSet(args) => working_set::run(args, out, terminal),
        Command::Trace(args) => trace::run(args, out, terminal),
        Command::Hw(args) => hw::run(args, out, terminal.width()),
        Command::Probe(args) => probe::run(args, out, terminal),
        Command::Models(args) => models::run(args, out, terminal.width()),
        Command::Scenarios(args) => scenarios::run(args, out, terminal.width()),
        Command::Guide(args) => guide::run(args, out, terminal.width()),
        Command::Schema(args) => schema::run(args, out),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Cli::command(), "plimsoll", &mut Unbroken(out));
            Ok(Exit::Ok.into())
        }
    }
}

/// A writer for generators that panic where a pipe is closed: what nobody reads is dropped.
struct Unbroken<'a>(&'a mut dyn Write);

impl Write for Unbroken<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.0.write(bytes).unwrap_or(bytes.len()))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether the reader of our output went away, which is its right (`plimsoll … | head`).
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests;
