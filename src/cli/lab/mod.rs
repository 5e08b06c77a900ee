//! `plimsoll lab`: exercises. A student predicts, then the simulator runs the lab's commands, and each figure stands beside its formula.
//!
//! A lab's commands are plain command lines of this program, run here as they are typed and printed for whoever wants to repeat them.

mod check;
mod experiments;
mod predict;
mod trying;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::terminal::Terminal;
use super::{Exit, files, interrupt, ledger};
use crate::config::{Diagnostic, Diagnostics};
use crate::lab::{Lab, Missing, Notebook, Sheet, Student, file_name, grade, read, shipped};
use crate::nearest::nearest;
use crate::report::lab as report;
use crate::report::{folded, glossary};
use experiments::{Ran, Runner};

/// Exercises: predict, simulate, explain.
///
/// A lab tells what is known and asks for figures. Predictions are locked with a receipt, then the lab's commands run, and each figure stands
/// beside what was predicted, the formula that gives it and why. Lengths, rates and cards differ by --student-id.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  plimsoll lab                                       # the labs
  plimsoll lab 1 --student-id ada                    # read one
  plimsoll lab predict 1 --student-id ada            # asks, and locks what is answered; or name=value …
  plimsoll lab run 1                                 # simulate, and put both beside each other
  plimsoll lab explain 1 \"Arrivals times stay.\"
  plimsoll lab check handed-in/*.toml --format csv   # for teachers: grade a class
  plimsoll lab 1 --source > mine.toml                # to write one of your own; plimsoll lab try mine.toml

Predictions are kept in lab-NN-NAME.toml of the working folder.")]
pub struct Args {
    #[command(subcommand)]
    step: Option<Step>,
    #[command(flatten)]
    show: Show,
}

/// What to show.
#[derive(clap::Args, Debug)]
struct Show {
    /// A lab: its number, its name, or a file of one's own. Without it all are listed.
    #[arg(value_name = "LAB")]
    lab: Option<String>,
    /// Whose variant; without it that of the lab's predictions in this folder, or the lab's own.
    #[arg(long, value_name = "ID", value_parser = Student::named, requires = "lab")]
    student_id: Option<Student>,
    /// Print the lab's file instead.
    #[arg(long, requires = "lab", conflicts_with_all = ["format", "student_id"])]
    source: bool,
    /// text or json.
    #[arg(long, default_value = "text", value_parser = super::text_or(&["json"]))]
    format: String,
}

/// What to do with a lab.
#[derive(clap::Subcommand, Debug)]
enum Step {
    /// Lock predictions: asks for those that are not given as name=value
    Predict(predict::Args),
    /// Run the lab's commands, and put what they give beside what was predicted
    Run(RunArgs),
    /// Keep the sentence that explains what was seen
    Explain(ExplainArgs),
    /// Grade files that were handed in: simulates each one's variant again
    Check(check::Args),
    /// Try a lab on many students: what its answers spread over, and what in it would mislead
    Try(trying::Args),
}

/// What to run.
#[derive(clap::Args, Debug)]
struct RunArgs {
    /// A lab: its number, its name, or a file of one's own.
    #[arg(value_name = "LAB")]
    lab: String,
    /// Run it though nothing was predicted.
    #[arg(long)]
    without_prediction: bool,
    /// Whose variant, where nothing was predicted.
    #[arg(long, value_name = "ID", value_parser = Student::named, requires = "without_prediction")]
    student_id: Option<Student>,
    /// A result of `vllm bench serve` that measured one of the lab's experiments, to stand beside it: loaded=result.json. May be repeated.
    #[arg(long, value_name = "EXPERIMENT=FILE")]
    measured: Vec<String>,
    /// text or json.
    #[arg(long, default_value = "text", value_parser = super::text_or(&["json"]))]
    format: String,
}

/// What to keep.
#[derive(clap::Args, Debug)]
struct ExplainArgs {
    /// A lab: its number, its name, or a file of one's own.
    #[arg(value_name = "LAB")]
    lab: String,
    /// The sentence.
    #[arg(value_name = "SENTENCE")]
    sentence: String,
}

/// Runs the command.
///
/// # Errors
/// A lab that is not there or wrong, predictions that are missing, a file that cannot be read or written.
pub fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    match &args.step {
        Some(Step::Predict(args)) => predict::run(args, out, terminal),
        Some(Step::Run(args)) => results(args, out, terminal),
        Some(Step::Explain(args)) => explain(args, out),
        Some(Step::Check(args)) => check::run(args, out, terminal),
        Some(Step::Try(args)) => trying::run(args, out, terminal),
        None => match &args.show.lab {
            Some(name) => show(&args.show, name, out, terminal),
            None => list(&args.show.format, out, terminal.width()),
        },
    }
}

/// The lab of a file, or one that ships, with its text.
fn named(name: &str) -> anyhow::Result<(Lab, String)> {
    let path = Path::new(name);
    let is_toml = path.extension().is_some_and(|ending| ending == "toml");
    let from_file = || -> anyhow::Result<(Lab, String)> {
        let text =
            ledger::read_to_string(path).map_err(|error| anyhow::anyhow!("cannot read {name}: {error}"))?;
        Ok((read(name, &text)?, text))
    };
    // A file that is there is meant, whatever ships under its name.
    if is_toml && path.exists() {
        return from_file();
    }
    if let Some((lab, text)) = shipped::find(name) {
        return Ok((lab, text.to_owned()));
    }
    if is_toml || path.is_file() {
        return from_file();
    }
    let problem = Diagnostic::new(format!("there is no lab `{name}`"));
    let problem = match nearest(name, shipped::names(), 1)[..] {
        [near, ..] => problem.help(format!("did you mean `{near}`?")),
        [] => problem,
    };
    let all = shipped::SHIPPED.len();
    Err(Diagnostics::from(problem.help(format!(
        "`plimsoll lab` lists those that ship, 1 to {all}; or name a file of your own"
    )))
    .into())
}

/// Where a lab's predictions are kept.
fn notebook_path(lab: &Lab) -> PathBuf {
    PathBuf::from(file_name(lab))
}

/// The predictions of a lab in this folder.
fn notebook(lab: &Lab) -> anyhow::Result<Option<Notebook>> {
    let path = notebook_path(lab);
    if !path.exists() {
        return Ok(None);
    }
    let shown = path.display();
    let text = ledger::read_kept(&path).map_err(|error| anyhow::anyhow!("cannot read {shown}: {error}"))?;
    let notebook = Notebook::read(&text).map_err(|problem| anyhow::anyhow!("{shown}: {problem}"))?;
    anyhow::ensure!(
        notebook.is_of(lab),
        "{shown} is of a lab of this name that asks for other figures: predict anew, after putting that file elsewhere"
    );
    Ok(Some(notebook))
}

/// The labs, a line each, with what this folder has of them.
fn list(format: &str, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<ExitCode> {
    let all = shipped::all();
    let mut states = Vec::new();
    for lab in &all {
        // One that cannot be read is told where it is used.
        let notebook = notebook(lab).ok().flatten();
        states.push(match notebook {
            Some(notebook) if notebook.explanation.is_some() => "explained",
            Some(_) => "predicted",
            None => "",
        });
    }
    let both = all.iter().zip(&states);
    if format == "json" {
        let rows = both.map(|(lab, state)| {
            json!({"number": lab.number, "name": lab.name, "title": lab.title, "question": lab.question, "state": state})
        });
        writeln!(out, "{:#}", json!(rows.collect::<Vec<_>>()))?;
        return Ok(Exit::Ok.into());
    }
    let entries: Vec<(String, String)> = both
        .map(|(lab, state)| {
            let mark = if state.is_empty() {
                String::new()
            } else {
                format!(" [{state}]")
            };
            (
                format!("{:>2}  {}", lab.number, lab.name),
                format!("{}{mark}", lab.question),
            )
        })
        .collect();
    let widest = entries
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let listed = glossary(
        entries.iter().map(|(name, said)| (name.as_str(), said.as_str())),
        widest,
        width,
    );
    let about = "`plimsoll lab N` shows one, `plimsoll lab predict N` locks what you expect of it, `plimsoll lab run N` tells.\n";
    write!(out, "{listed}\n{}", folded(about, width))?;
    Ok(Exit::Ok.into())
}

/// The exercise.
fn show(args: &Show, name: &str, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let (lab, text) = named(name)?;
    if args.source {
        out.write_all(text.as_bytes())?;
        return Ok(Exit::Ok.into());
    }
    // Reading needs no predictions: those that are not of this lab are told, and stand in nobody's way.
    let locked = match notebook(&lab) {
        _ if args.student_id.is_some() => None,
        Ok(notebook) => notebook.map(|notebook| notebook.student),
        Err(problem) => {
            terminal.notes(&[format!("{problem:#}")]);
            None
        }
    };
    let is_locked = locked.is_some();
    let student = args.student_id.clone().or(locked).unwrap_or(Student::nobody());
    let unlocked = (!is_locked).then_some(&student);
    let mut sheet = Sheet::new(&lab, &student);
    if !is_shipped(&lab) {
        experiments::judge(&sheet)?;
    }
    let Ran::Whole(_) = Runner::default().run(&mut sheet, true)? else {
        return Ok(Exit::Interrupted.into());
    };
    let text = match args.format.as_str() {
        "json" => report::exercise_json(&sheet, student.id()).map(|object| format!("{object:#}\n")),
        _ => report::exercise(&sheet, name, unlocked, terminal.style(None)),
    };
    out.write_all(text.map_err(of_the_lab(&lab))?.as_bytes())?;
    Ok(Exit::Ok.into())
}

/// A figure that a command did not print is the fault of the lab's file.
fn of_the_lab(lab: &Lab) -> impl Fn(Missing) -> anyhow::Error {
    let name = lab.name.clone();
    move |missing| anyhow::anyhow!("lab {name}: {missing}")
}

/// Simulated beside predicted.
fn results(args: &RunArgs, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let (lab, _) = named(&args.lab)?;
    let notebook = match args.without_prediction {
        true => None,
        false => {
            let help = "--without-prediction runs it all the same";
            Some(notebook(&lab)?.ok_or_else(|| Diagnostics::from(not_predicted(&args.lab).help(help)))?)
        }
    };
    let student = match &notebook {
        Some(notebook) => notebook.student.clone(),
        None => args.student_id.clone().unwrap_or(Student::nobody()),
    };
    if notebook.as_ref().is_some_and(|notebook| !notebook.is_intact()) {
        let note = format!(
            "{} was changed after it was locked: its receipt is of other predictions",
            file_name(&lab)
        );
        terminal.notes(&[note]);
    }
    let measured = measurements(&lab, &args.measured)?;
    let mut sheet = Sheet::new(&lab, &student);
    let Ran::Whole(ran) = Runner::default().run(&mut sheet, false)? else {
        return Ok(Exit::Interrupted.into());
    };
    terminal.notes(&ran.on_disk);
    for (experiment, result) in &measured {
        terminal.notes(&unlike(experiment, result, sheet.of(experiment)));
    }
    let beside = measured
        .into_iter()
        .fold(None, |beside: Option<Sheet<'_>>, (experiment, result)| {
            Some(
                beside
                    .as_ref()
                    .unwrap_or(&sheet)
                    .with_measured(&experiment, result),
            )
        });
    let predictions = notebook.as_ref().map(|notebook| &notebook.predictions);
    let outcomes = grade(&sheet, predictions, beside.as_ref()).map_err(of_the_lab(&lab))?;
    if !args.measured.is_empty() && outcomes.iter().all(|one| one.measured.is_none()) {
        terminal.notes(&["no question's figures are all in what was measured".to_owned()]);
    }
    let result = report::Told {
        sheet: &sheet,
        student: student.id(),
        notebook: notebook.as_ref(),
        outcomes: &outcomes,
        commands: &ran.commands,
        trust: &ran.trust,
    };
    let text = match args.format.as_str() {
        "json" => format!("{:#}\n", report::result_json(&result)),
        _ => report::result(&result, &args.lab, terminal.style(None)).map_err(of_the_lab(&lab))?,
    };
    out.write_all(text.as_bytes())?;
    Ok(Exit::Ok.into())
}

fn not_predicted(name: &str) -> Diagnostic {
    Diagnostic::new(format!("nothing is predicted of lab {name} in this folder")).help(format!(
        "`plimsoll lab predict {name}` asks for it; a prediction that may be wrong teaches more than none"
    ))
}

/// Whether it is the very lab that ships under its name.
fn is_shipped(lab: &Lab) -> bool {
    shipped::find(&lab.name).is_some_and(|(shipped, _)| shipped.digest == lab.digest)
}

/// In what a result says of its load it is not the experiment that it should have measured.
fn unlike(experiment: &str, measured: &Value, simulated: Option<&Value>) -> Vec<String> {
    const LOAD: [&str; 3] = ["model_id", "request_rate", "max_concurrency"];
    let known = |value: &Value| !value.is_null();
    let differs = LOAD.iter().filter_map(|key| {
        let (there, here) = (&measured[*key], &simulated?[*key]);
        (known(there) && known(here) && there != here)
            .then(|| format!("{experiment} was measured with {key} {there}, and is simulated with {here}"))
    });
    let is_ours = measured["plimsoll"].is_object();
    let ours = is_ours.then(|| format!("what should have measured {experiment} was simulated, too"));
    differs.chain(ours).collect()
}

/// Results by the experiments that they measured.
fn measurements(lab: &Lab, given: &[String]) -> anyhow::Result<Vec<(String, Value)>> {
    given
        .iter()
        .map(|one| {
            let (name, file) = one
                .split_once('=')
                .ok_or_else(|| anyhow::anyhow!("--measured {one}: write EXPERIMENT=FILE"))?;
            let names: Vec<&str> = lab.experiments.iter().map(|one| one.name.as_str()).collect();
            anyhow::ensure!(
                names.contains(&name),
                "--measured {one}: lab {} has no experiment `{name}`; it has {}",
                lab.name,
                names.join(", ")
            );
            let bytes = files::read_result(file)?;
            let result: Value = serde_json::from_slice(&bytes)
                .map_err(|error| anyhow::anyhow!("{file} is not the JSON of `vllm bench serve`: {error}"))?;
            anyhow::ensure!(
                result.is_object(),
                "{file} is not the JSON of `vllm bench serve`: it holds no object"
            );
            Ok((name.to_owned(), result))
        })
        .collect()
}

/// Keeps the sentence.
fn explain(args: &ExplainArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let _nothing_yet = interrupt::at_once();
    let (lab, _) = named(&args.lab)?;
    let sentence = args.sentence.trim();
    anyhow::ensure!(!sentence.is_empty(), "the sentence is empty");
    let mut notebook = notebook(&lab)?.ok_or_else(|| Diagnostics::from(not_predicted(&args.lab)))?;
    let is_new = notebook.explanation.replace(sentence.to_owned()).is_none();
    let path = notebook_path(&lab);
    files::write(&path, notebook.to_toml().as_bytes())?;
    let kept = if is_new {
        "keeps"
    } else {
        "keeps, in place of the one before"
    };
    writeln!(out, "{} {kept}: “{sentence}”", path.display())?;
    Ok(Exit::Ok.into())
}
