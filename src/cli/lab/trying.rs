//! `plimsoll lab try`: a lab on many students, for whoever writes one.

use std::io::Write;
use std::process::ExitCode;

use super::super::Exit;
use super::super::progress::Progress;
use super::super::terminal::Terminal;
use super::experiments::{Ran, Runner};
use super::{named, of_the_lab};
use crate::lab::{Lab, Sheet, Student, grade, shipped};
use crate::report::lab::tried::{self, Try};

/// What to try.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Tells of each question what its answers spread over, and where a formula by hand would not count as right or a choice hangs on chance: exit code 1."
)]
pub(super) struct Args {
    /// Labs: numbers, names or files; without any all that ship.
    #[arg(value_name = "LAB")]
    labs: Vec<String>,
    /// How many students, the one without an id among them.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    students: u32,
}

/// Runs the command.
///
/// # Errors
/// A lab that is wrong.
pub(super) fn run(args: &Args, out: &mut dyn Write, terminal: &Terminal) -> anyhow::Result<ExitCode> {
    let labs = match args.labs.as_slice() {
        [] => shipped::all(),
        names => names
            .iter()
            .map(|name| Ok(named(name)?.0))
            .collect::<anyhow::Result<Vec<Lab>>>()?,
    };
    let mut progress = Progress::new(
        terminal,
        Some(labs.len() as u64 * u64::from(args.students)),
        "students",
    );
    let mut found = Vec::new();
    let mut done = 0;
    let mut runner = Runner::default();
    for lab in &labs {
        let mut tries = Vec::new();
        for index in 0..args.students {
            if !progress.at(done) {
                return Ok(Exit::Interrupted.into());
            }
            match one(lab, index, &mut runner)? {
                Some(one) => tries.push(one),
                None => return Ok(Exit::Interrupted.into()),
            }
            done += 1;
        }
        out.write_all(tried::text(lab, &tries, terminal.width()).as_bytes())?;
        found.extend(tried::problems(lab, &tries));
    }
    drop(progress);
    for problem in &found {
        writeln!(out, "{problem}")?;
    }
    Ok(if found.is_empty() { Exit::Ok } else { Exit::Failure }.into())
}

/// A student by number, the first of them nobody; `None` after Ctrl-C.
fn one(lab: &Lab, index: u32, runner: &mut Runner) -> anyhow::Result<Option<Try>> {
    let student = match index {
        0 => Student::nobody(),
        _ => Student::named(&index.to_string()).map_err(anyhow::Error::msg)?,
    };
    let mut sheet = Sheet::new(lab, &student);
    if let Ran::Cut = runner.run(&mut sheet, false)? {
        return Ok(None);
    }
    Ok(Some(Try {
        student: student.id().to_owned(),
        outcomes: grade(&sheet, None, None).map_err(of_the_lab(lab))?,
    }))
}
