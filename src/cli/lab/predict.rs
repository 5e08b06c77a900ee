//! `plimsoll lab predict`: locks what a student expects.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use super::super::terminal::Terminal;
use super::super::{Exit, clock, files, interrupt};
use super::experiments::{self, Ran, Runner};
use super::{is_shipped, named, notebook_path, of_the_lab};
use crate::config::{Diagnostic, Diagnostics, Place};
use crate::lab::{Answer, Answered, Lab, Notebook, Predictions, Question, Sheet, Student};
use crate::nearest::nearest;
use crate::report::{folded, lab as report};

/// What to lock.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// A lab: its number, its name, or a file of one's own.
    #[arg(value_name = "LAB")]
    lab: String,
    /// Predictions: a figure in the question's unit, or one of its choices. Those that are left out are asked for on a terminal.
    #[arg(value_name = "NAME=VALUE")]
    given: Vec<String>,
    /// Whose variant; without it the lab's own.
    #[arg(long, value_name = "ID", value_parser = Student::named)]
    student_id: Option<Student>,
}

/// Runs the command.
///
/// # Errors
/// Predictions that are missing, unreadable or locked already, a file that cannot be written.
pub(super) fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let (lab, _) = named(&args.lab)?;
    let path = notebook_path(&lab);
    if path.exists() {
        let problem = Diagnostic::new(format!(
            "lab {} is predicted already, in {}",
            args.lab,
            path.display()
        ));
        return Err(Diagnostics::from(problem.help(format!(
            "`plimsoll lab run {}` tells how it came out; to begin again put that file elsewhere, and the receipt will be another one",
            args.lab
        )))
        .into());
    }
    let student = args.student_id.clone().unwrap_or(Student::nobody());
    if !is_shipped(&lab) {
        experiments::judge(&Sheet::new(&lab, &student))?;
    }
    let mut predictions = given(&lab, &args.given)?;
    let missing: Vec<&Question> = lab
        .questions
        .iter()
        .filter(|question| !predictions.contains_key(&question.name))
        .collect();
    if !missing.is_empty() {
        if !std::io::stdin().is_terminal() {
            return Err(all_missing(&missing).into());
        }
        let mut sheet = Sheet::new(&lab, &student);
        let Ran::Whole(_) = Runner::default().run(&mut sheet, true)? else {
            return Ok(Exit::Interrupted.into());
        };
        // Nothing is locked before the last answer.
        let _nothing_yet = interrupt::at_once();
        let count = missing.len();
        for (at, question) in missing.into_iter().enumerate() {
            let asks = report::asks(&sheet, question).map_err(of_the_lab(&lab))?;
            let page = format!("({} of {count}) {asks}\n", at + 1);
            match asked(question, &folded(&page, terminal.width()))? {
                Some(answer) => predictions.insert(question.name.clone(), answer),
                None => anyhow::bail!("the answers ended before the questions: nothing is locked"),
            };
        }
    }
    let now = clock::now().strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let notebook = Notebook::lock(&lab, student, now, predictions);
    anyhow::ensure!(
        files::make_new(&path)?,
        "{} was made meanwhile: nothing is locked",
        path.display()
    );
    // An empty file would stand in the way of another try.
    files::write(&path, notebook.to_toml().as_bytes()).inspect_err(|_| files::remove(&path))?;
    writeln!(out, "locked in {}   receipt {}", path.display(), notebook.receipt)?;
    terminal.notes(&[format!("`plimsoll lab run {}` tells how they came out", args.lab)]);
    Ok(Exit::Ok.into())
}

/// Predictions of the command line.
fn given(lab: &Lab, words: &[String]) -> Result<Predictions, Diagnostics> {
    let mut predictions = Predictions::new();
    let mut problems = Vec::new();
    for word in words {
        let place = Place::Flag(word.clone());
        match one(lab, word) {
            Ok((name, answer)) => {
                if predictions.insert(name.clone(), answer).is_some() {
                    problems.push(Diagnostic::new(format!("`{name}` is predicted twice")).at(place));
                }
            }
            Err(problem) => problems.push(problem.at(place)),
        }
    }
    match problems.is_empty() {
        true => Ok(predictions),
        false => Err(Diagnostics(problems)),
    }
}

fn one(lab: &Lab, word: &str) -> Result<(String, Answer), Diagnostic> {
    let (name, value) = word
        .split_once('=')
        .ok_or_else(|| Diagnostic::new(format!("`{word}` is no prediction")).help("write NAME=VALUE"))?;
    let question = lab.question(name).ok_or_else(|| {
        let names: Vec<&str> = lab
            .questions
            .iter()
            .map(|question| question.name.as_str())
            .collect();
        let problem = Diagnostic::new(format!("lab {} does not ask for `{name}`", lab.name));
        match nearest(name, names.iter().copied(), 1)[..] {
            [near, ..] => problem.help(format!("did you mean `{near}`?")),
            [] => problem.help(format!("it asks for {}", names.join(", "))),
        }
    })?;
    let answer = answer(question, value).map_err(|problem| Diagnostic::new(format!("{name}: {problem}")))?;
    Ok((name.to_owned(), answer))
}

/// Reads an answer; a figure may have its unit behind it.
fn answer(question: &Question, text: &str) -> Result<Answer, String> {
    let text = text.trim();
    match &question.answer {
        Answered::Number { unit, .. } => {
            let bare = text.strip_suffix(unit.as_str()).unwrap_or(text).trim();
            match bare.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Answer::Number(number)),
                _ if bare.contains(',') => Err(format!("`{text}`: write 1200 or 1.2, without a comma")),
                _ if unit.is_empty() => Err(format!("`{text}` is no number, like 12 or 0.5")),
                _ => Err(format!("`{text}` is no number of {unit}, like 12 or 0.5")),
            }
        }
        Answered::Choice { scores, .. } => {
            let names: Vec<&str> = scores.iter().map(|(name, _)| name.as_str()).collect();
            match names.iter().find(|name| name.eq_ignore_ascii_case(text)) {
                Some(name) => Ok(Answer::Choice((*name).to_owned())),
                None => Err(format!("`{text}` is none of {}", names.join(", "))),
            }
        }
    }
}

fn all_missing(missing: &[&Question]) -> Diagnostics {
    let names: Vec<String> = missing
        .iter()
        .map(|question| format!("{}=…", question.name))
        .collect();
    Diagnostic::new(format!("not predicted: {}", names.join(" ")))
        .help("give each as NAME=VALUE; on a terminal they are asked for")
        .into()
}

/// Asks for one on the terminal until it can be read; `None` where input ends.
fn asked(question: &Question, asks: &str) -> anyhow::Result<Option<Answer>> {
    let mut stderr = std::io::stderr();
    loop {
        write!(stderr, "{asks}{} = ", question.name)?;
        stderr.flush()?;
        let mut line = Vec::new();
        if std::io::stdin().lock().read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        match answer(question, &String::from_utf8_lossy(&line)) {
            Ok(answer) => return Ok(Some(answer)),
            Err(problem) => writeln!(stderr, "{problem}")?,
        }
    }
}
