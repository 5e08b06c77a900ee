//! What a command writes, and where: flags in, a checked plan out.
//!
//! Law: a flag that a command cannot honour is refused by name, or, where it came from a pasted command, named in a note;
//! a place that cannot be written is found out before anything is simulated.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::{files, ledger};
use crate::config::pasted::ResultFlags;
use crate::config::{Diagnostic, Diagnostics, Place};

/// What to write, and where.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    #[command(flatten)]
    pub(crate) results: ResultFlags,
    /// Form of the result; without it the end of --output's name says so (.json, .jsonl, .csv, .md), else table.
    #[arg(long, value_name = "FORM")]
    pub format: Option<Format>,
    /// Write the result to a file instead of the screen.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<String>,
    /// Draw the charts, SVG and PNG, into a folder.
    #[arg(long, value_name = "DIR")]
    pub charts: Option<String>,
    /// run, knee: explain where the time of a step goes, kernel by kernel; knee explains at the knee. run: and of a request's time to first
    /// token, which JSON has, too.
    #[arg(long)]
    pub why: bool,
    /// Print the scenario with every assumed value written out (sweep: what each cell resolves to), and simulate nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// One object, in vLLM's keys.
    Json,
    /// One object a line.
    Jsonl,
    /// For spreadsheets.
    Csv,
    /// For documents.
    Md,
}

/// A command, as far as its outputs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// One run.
    Run,
    /// A search over rates.
    Knee,
    /// What to buy.
    Size,
    /// Many runs.
    Sweep,
    /// Variants under the same seeds.
    Compare,
}

impl Writer {
    fn name(self) -> &'static str {
        match self {
            Writer::Run => "run",
            Writer::Knee => "knee",
            Writer::Size => "size",
            Writer::Sweep => "sweep",
            Writer::Compare => "compare",
        }
    }

    /// Whether what it tells is of searches, and of no run.
    pub(super) fn searches(self) -> bool {
        matches!(self, Writer::Knee | Writer::Size)
    }
}

/// What to write, valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Outputs {
    /// Form of the result.
    pub format: Format,
    /// Where it goes; `None` is the screen.
    pub file: Option<String>,
    /// Folder for charts.
    pub charts: Option<String>,
    /// Explain it.
    pub why: bool,
    /// Save vLLM's JSON.
    pub save_result: bool,
    /// With the lists of every request.
    pub save_detailed: bool,
    /// Behind what the file holds.
    pub append_result: bool,
    /// Folder of the saved file.
    pub result_dir: String,
    /// Its name.
    pub result_filename: Option<String>,
    /// Flags that were given and change nothing, as sentences.
    pub notes: Vec<String>,
    /// What else is to be said once all places are checked: a form that a name chooses, folders that are made.
    pub told: Vec<String>,
}

impl OutputFlags {
    /// Checks the flags; those of a pasted benchmark command stand in for what was not given.
    ///
    /// # Errors
    /// Flags that `writer` cannot honour, and names that are none.
    pub fn resolve(&self, pasted: &ResultFlags, writer: Writer) -> Result<Outputs, Diagnostics> {
        let own = &self.results;
        let mut problems = self.without_effect(writer, pasted.result_filename.is_some());
        let idle = idle(pasted, writer)
            .into_iter()
            .filter(|(flag, _)| !self.is_kept_by_knee(flag));
        let mut notes: Vec<String> = idle
            .map(|(flag, why)| format!("in --bench-cmd: {flag} has no effect: {why}"))
            .collect();
        notes.extend(self.unseen(writer));
        let mut told = Vec::new();
        if let (None, Some(format), Some(file)) = (self.format, self.by_name(), &self.output) {
            let name = format
                .to_possible_value()
                .map_or(String::new(), |value| value.get_name().to_owned());
            told.push(format!(
                "{file} is written as {name} because of its name; --format would choose another kind"
            ));
        }
        let either = |own: &Option<String>, pasted: &Option<String>| own.clone().or_else(|| pasted.clone());
        let result_filename = either(&own.result_filename, &pasted.result_filename);
        let label = either(&own.label, &pasted.label);
        problems.extend(self.unknown_ending());
        for (flag, part) in [("--label", &label), ("--result-filename", &result_filename)] {
            problems.extend(file_name_part(flag, part.as_deref().unwrap_or("x")));
        }
        if !problems.is_empty() {
            return Err(Diagnostics(problems));
        }
        // Asking for details is asking for the file.
        let is_appended = own.append_result || pasted.append_result;
        let is_saved = own.save_result || own.save_detailed || pasted.save_result || pasted.save_detailed;
        let save_result = (is_saved || is_appended) && !writer.searches();
        let result_dir = either(&own.result_dir, &pasted.result_dir).unwrap_or_else(|| ".".to_owned());
        let of_file = self.output.as_deref().and_then(|file| Path::new(file).parent());
        let of_results = save_result.then_some(Path::new(&result_dir));
        told.extend(folders_made([of_file, of_results]));
        Ok(Outputs {
            format: self.form(),
            file: self.output.clone().filter(|file| file != "-"),
            charts: self.charts.clone(),
            why: self.why,
            save_result,
            save_detailed: own.save_detailed || pasted.save_detailed,
            append_result: is_appended && writer == Writer::Run,
            result_dir,
            result_filename,
            notes,
            told,
        })
    }

    /// The form that was asked for, in a flag or by the name of the file.
    fn form(&self) -> Format {
        self.format.or_else(|| self.by_name()).unwrap_or_default()
    }

    /// The form that a file of this name has; a dry run writes a scenario, whatever its name.
    fn by_name(&self) -> Option<Format> {
        let path = Path::new(self.output.as_deref().filter(|_| !self.dry_run)?);
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "json" => Some(Format::Json),
            "jsonl" => Some(Format::Jsonl),
            "csv" => Some(Format::Csv),
            "md" => Some(Format::Md),
            _ => None,
        }
    }

    /// Refuses a file whose name promises what is not written; a name without an ending, or with that of text, promises a table.
    fn unknown_ending(&self) -> Option<Diagnostic> {
        const OTHERS: [&str; 14] = [
            "parquet", "arrow", "feather", "xlsx", "xls", "ods", "html", "htm", "pdf", "svg", "png", "yaml",
            "yml", "tsv",
        ];
        let file = self
            .output
            .as_deref()
            .filter(|_| self.format.is_none() && !self.dry_run)?;
        let ending = Path::new(file).extension()?.to_str()?.to_ascii_lowercase();
        OTHERS.contains(&ending.as_str()).then(|| {
            Diagnostic::new(format!("`{file}`: no result is written as .{ending}"))
                .at(Place::Flag("--output".to_owned()))
                .help("give it an ending of .json, .jsonl, .csv, .md or .txt, or say the form by --format")
                .help("--charts DIR draws pictures, SVG and PNG")
        })
    }

    /// Flags of this command line that the command cannot honour.
    fn without_effect(&self, writer: Writer, names_file: bool) -> Vec<Diagnostic> {
        let name = writer.name();
        let refuse = |flag: &str, why: String, help: &str| {
            Diagnostic::new(format!("`{flag}` {why}"))
                .at(Place::Flag(flag.to_owned()))
                .help(help)
        };
        let mut problems = Vec::new();
        if self.why && matches!(writer, Writer::Sweep | Writer::Compare | Writer::Size) {
            let why = format!("has no effect on {name}");
            problems.push(refuse(
                "--why",
                why,
                "run explains one cell, knee explains the knee",
            ));
        } else if self.why && !self.tells_why(writer) {
            let why = match writer {
                Writer::Run => "explains in words and in JSON, and in no other form",
                _ => "explains in words: it goes with --format table",
            };
            problems.push(refuse("--why", why.to_owned(), "leave one of the two out"));
        }
        let own = &self.results;
        if own.append_result && writer == Writer::Sweep {
            let why = "has no effect on sweep: each cell has a file of its own".to_owned();
            problems.push(refuse(
                "--append-result",
                why,
                "--save-result saves them; -o FILE.jsonl has all in one",
            ));
        }
        if own.append_result && !names_file && own.result_filename.is_none() && writer == Writer::Run {
            let why = "does not say to which file: a name of its own is new in each run".to_owned();
            problems.push(refuse("--append-result", why, "add --result-filename NAME"));
        }
        if writer.searches() || writer == Writer::Compare {
            let is_kept = |flag: &&str| writer.searches() && self.is_kept_by_knee(flag);
            for flag in given(own).into_iter().filter(|flag| !is_kept(flag)) {
                let why = format!("has no effect on {name}: its table is not of one run");
                problems.push(refuse(
                    flag,
                    why,
                    "run saves and reports one run, sweep one file for each cell",
                ));
            }
        } else if !(own.save_result || own.save_detailed || own.append_result) {
            let files = [
                ("--result-dir", own.result_dir.is_some()),
                ("--result-filename", own.result_filename.is_some()),
            ];
            for (flag, _) in files.into_iter().filter(|(_, is_given)| *is_given) {
                let why = "names a file that is not asked for".to_owned();
                problems.push(refuse(flag, why, "add --save-result"));
            }
        }
        problems
    }

    /// Whether the form has a place for an explanation: of a run JSON has, for what its times are made of.
    fn tells_why(&self, writer: Writer) -> bool {
        match self.form() {
            Format::Table => true,
            Format::Json | Format::Jsonl => writer == Writer::Run,
            Format::Csv | Format::Md => false,
        }
    }

    /// Whether knee's JSON keeps what a flag says.
    fn is_kept_by_knee(&self, flag: &str) -> bool {
        matches!(self.form(), Format::Json | Format::Jsonl) && matches!(flag, "--label" | "--metadata")
    }

    /// Flags that this form of output does not show.
    fn unseen(&self, writer: Writer) -> Vec<String> {
        let own = &self.results;
        if writer.searches() || writer == Writer::Compare || own.save_result || own.save_detailed {
            return Vec::new();
        }
        let format = self.form();
        let is_json = matches!(format, Format::Json | Format::Jsonl);
        let is_listed = matches!(format, Format::Csv | Format::Md) || writer == Writer::Sweep;
        let is_keyed = is_json || (format == Format::Csv && writer == Writer::Sweep);
        let unseen = [
            (
                "--label",
                own.label.is_some() && !is_keyed,
                "it stands in JSON and in the names of saved results",
            ),
            (
                "--metadata",
                !own.metadata.is_empty() && !is_keyed,
                "it stands in JSON",
            ),
            (
                "--metric-percentiles",
                own.metric_percentiles.is_some() && is_listed && !is_keyed,
                "this table has columns of its own; JSON and --format table of run have them",
            ),
        ];
        unseen
            .into_iter()
            .filter(|(_, is_unseen, _)| *is_unseen)
            .map(|(flag, _, why)| format!("{flag} has no effect here: {why}"))
            .collect()
    }
}

/// Names of the flags that say what is saved and reported, as far as they are given.
fn given(flags: &ResultFlags) -> Vec<&'static str> {
    let all = [
        ("--metric-percentiles", flags.metric_percentiles.is_some()),
        ("--percentile-metrics", flags.percentile_metrics.is_some()),
        ("--save-result", flags.save_result),
        ("--save-detailed", flags.save_detailed),
        ("--append-result", flags.append_result),
        ("--result-dir", flags.result_dir.is_some()),
        ("--result-filename", flags.result_filename.is_some()),
        ("--metadata", !flags.metadata.is_empty()),
        ("--label", flags.label.is_some()),
    ];
    all.into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(flag, _)| flag)
        .collect()
}

/// Flags of a pasted command that change nothing here, each with the reason.
fn idle(pasted: &ResultFlags, writer: Writer) -> Vec<(&'static str, &'static str)> {
    let is_saved = pasted.save_result || pasted.save_detailed || pasted.append_result;
    let is_idle = |flag: &&str| match writer.searches() {
        true => true,
        false => !is_saved && flag.starts_with("--result-"),
    };
    let why = match writer {
        Writer::Knee => "knee prints a table of rates, not of one run",
        Writer::Size => "size prints a table of what to buy, not of one run",
        _ => "nothing is saved without --save-result",
    };
    given(pasted)
        .into_iter()
        .filter(is_idle)
        .map(|flag| (flag, why))
        .collect()
}

/// What to say of folders that are not there, each once.
fn folders_made(folders: [Option<&Path>; 2]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    for folder in folders.into_iter().flatten().filter(is_new) {
        let note = format!("the folder {} is not there and is made", folder.display());
        if !told.contains(&note) {
            told.push(note);
        }
    }
    told
}

/// The scenario that reproduces a saved result.
fn scenario_beside(result: &Path) -> PathBuf {
    result.with_extension("resolved.toml")
}

/// Refuses what would leave the folder of results, or make a name that file systems do not take.
fn file_name_part(flag: &str, text: &str) -> Option<Diagnostic> {
    const LONGEST: usize = 150;
    let wrong = |message: String| Some(Diagnostic::new(message).at(Place::Flag(flag.to_owned())));
    if text.contains(['/', '\\', '\0']) || matches!(text, "" | "." | "..") {
        return wrong(format!(
            "`{flag}` is part of a file's name, without a path: --result-dir names the folder"
        ));
    }
    if text.len() > LONGEST {
        return wrong(format!("`{flag}` is longer than {LONGEST} bytes"));
    }
    None
}

impl Outputs {
    /// Finds out before a long simulation whether everything can be written.
    ///
    /// # Errors
    /// The first place that cannot.
    pub fn check_places(&self) -> anyhow::Result<()> {
        if let Some(file) = &self.file {
            files::check_file(Path::new(file), "--output")?;
        }
        let folder_of_results = self.save_result.then_some(&self.result_dir);
        for folder in folder_of_results.into_iter().chain(&self.charts) {
            files::check_folder(Path::new(folder))?;
        }
        Ok(())
    }

    /// The files in which a result of this name, which nobody chose, is saved: with `-2`, `-3` behind it where it is taken.
    /// The first of them is made, empty, so that no other process takes it meanwhile.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn free_to_save(&self, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let stem = name.strip_suffix(".json").unwrap_or(name);
        for count in 1_u32.. {
            let behind = match count {
                1 => String::new(),
                _ => format!("-{count}"),
            };
            let path = Path::new(&self.result_dir).join(format!("{stem}{behind}.json"));
            let scenario = scenario_beside(&path);
            if files::make_new(&path)? {
                if !scenario.exists() {
                    ledger::claim(&path, "--save-result")?;
                    return Ok((path, scenario));
                }
                // A scenario of another result has the name: both go by the next.
                std::fs::remove_file(&path)?;
            }
        }
        unreachable!("some name is free")
    }

    /// The files in which a result of this name is saved, with the scenario that reproduces it.
    ///
    /// # Errors
    /// If one of them is an input, or another flag's.
    pub(super) fn claim_saved(&self, name: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let result = Path::new(&self.result_dir).join(name);
        let scenario = scenario_beside(&result);
        for path in [&result, &scenario] {
            ledger::claim(path, "--save-result")?;
        }
        Ok((result, scenario))
    }

    /// Writes the scenario that a dry run spells out: into a `.toml` file where one is named, else to the screen, for
    /// a file of results must not be replaced by a scenario.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put_scenario(&self, text: &str, out: &mut dyn std::io::Write) -> anyhow::Result<()> {
        let file = self.file.as_deref().filter(|file| file.ends_with(".toml"));
        files::put(text, file, out)
    }
}

#[cfg(test)]
mod tests;
