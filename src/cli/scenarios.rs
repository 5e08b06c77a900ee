//! `plimsoll scenarios`: what ships to start from, by name and in a line each, and the file itself.
//!
//! A scenario's title is what its first comment says, so that there is one place to change it. A file on disk takes the
//! place of a shipped one of its name, as it does where it is run.

use std::io::Write;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::json;

use super::Exit;
use super::disk::Disk;
use crate::config::{Diagnostic, Diagnostics, files};
use crate::nearest::nearest;
use crate::report::{folded, glossary};

/// What to show.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  plimsoll scenarios
  plimsoll scenarios dp-router > mine.toml   # to change it; plimsoll run mine.toml
  plimsoll scenarios --format json")]
pub struct Args {
    /// Print this one's file.
    #[arg(value_name = "NAME", conflicts_with = "format")]
    pub name: Option<String>,
    /// Form of the list.
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
}

/// Form of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[value(alias = "text")]
    Table,
    /// An array of objects.
    Json,
}

/// Runs the command.
///
/// # Errors
/// A name that nothing shipped has, or stdout that cannot be written.
pub fn run(args: &Args, out: &mut dyn Write, width: Option<usize>) -> anyhow::Result<ExitCode> {
    match (&args.name, args.format) {
        (Some(name), _) => {
            let found = files::find(name, &Disk).ok_or_else(|| unknown(name))?;
            out.write_all(found.text.as_bytes())?;
        }
        (None, Format::Table) => out.write_all(table(width).as_bytes())?,
        (None, Format::Json) => {
            let all = files::SHIPPED.iter().map(|(name, text)| {
                json!({"name": name, "kind": if is_workload(name) { "workload" } else { "scenario" }, "title": title(text)})
            });
            writeln!(out, "{}", json!(all.collect::<Vec<_>>()))?;
        }
    }
    Ok(Exit::Ok.into())
}

fn unknown(name: &str) -> Diagnostics {
    let known = files::SHIPPED.iter().map(|(known, _)| *known);
    let problem = Diagnostic::new(format!("there is no scenario `{name}`"));
    let problem = match nearest(name.trim_end_matches(".toml"), known, 1)[..] {
        [near, ..] => problem.help(format!("did you mean `{near}`?")),
        [] => problem,
    };
    problem.help("`plimsoll scenarios` lists those that ship").into()
}

/// Files of traffic, which a scenario names as its `base`.
fn is_workload(name: &str) -> bool {
    name.contains('/')
}

/// Scenarios by name, then workloads.
fn table(width: Option<usize>) -> String {
    const BETWEEN: &str = "Traffic alone, for `base` of a [workload]:\n";
    let mut all: Vec<(&str, &str)> = files::SHIPPED.to_vec();
    all.sort_by_key(|(name, _)| *name);
    let entry = |(name, text): (&'static str, &'static str)| {
        let first = text.lines().next().unwrap_or_default();
        (name, first.trim_start_matches('#').trim())
    };
    let widest = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let (workloads, scenarios): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| is_workload(name));
    let [scenarios, workloads] =
        [scenarios, workloads].map(|files| glossary(files.into_iter().map(entry), widest, width));
    let about = "`plimsoll scenarios NAME` prints the file; `plimsoll run NAME` runs it.\n";
    format!("{scenarios}\n{BETWEEN}{workloads}\n{}", folded(about, width))
}

/// The first paragraph of the comment that a file begins with.
fn title(text: &str) -> String {
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    let said: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_file_says_in_its_first_line_what_it_is() {
        for (name, text) in files::SHIPPED {
            let said = title(text);
            assert!(said.len() > 20 && said.len() < 500, "{name}: {said:?}");
        }
        let listed = table(None);
        assert!(listed.contains("\ndp-router  "), "{listed}");
        assert!(listed.contains("\nworkloads/azure-conv-2023  "), "{listed}");
    }

    #[test]
    fn the_list_is_as_wide_as_the_screen() {
        let narrow = table(Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&table(None)));
    }

    #[test]
    fn a_name_that_nothing_has_is_told_with_its_neighbour() {
        let told = unknown("dp-routr").to_string();
        assert!(told.contains("did you mean `dp-router`?"), "{told}");
    }
}
