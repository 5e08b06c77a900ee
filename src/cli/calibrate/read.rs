//! What each file is, and what it gives.
//!
//! Recognised by content: a calibration or a probe's output is TOML with `schema`; the course's tables are JSON with
//! `source` and `tables`; published serving results have a column `suggested_use`; kernel tables have their own headers;
//! all else is the result of a benchmark tool, or an error that says what was looked for.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::{Args, name_among, table_gpu};
use crate::calibrate::jitter::Tails;
use crate::calibrate::observation::Observation;
use crate::calibrate::runs::{Figure, Run};
use crate::calibrate::tables::Selection;
use crate::calibrate::{bench, measured_file, serving, tables};
use crate::cli::course::measured::{FigureName, Measured, MeasuredRow, MeasuredTable, Use};
use crate::cli::disk::Disk;
use crate::config::{Document, axes, files as config_files, resolve};
use crate::cost::calibration::{Calibration, Input};
use crate::hardware::{self, Device};
use crate::report::calibrated::Told;
use crate::results::{self, Tool};
use crate::validate::impossible;

/// Everything that was read.
pub(super) struct Read<'a> {
    args: &'a Args,
    device: &'a Device,
    pub(super) observations: Vec<Observation>,
    pub(super) runs: Vec<Run>,
    pub(super) inputs: Vec<Input>,
    /// Blocks that a probe measured on the card itself.
    pub(super) kept: Option<Calibration>,
    pub(super) told: Told,
    pub(super) notes: Vec<String>,
    /// Files that Plimsoll wrote itself.
    pub(super) predictions: Vec<String>,
}

impl<'a> Read<'a> {
    pub(super) fn new(args: &'a Args, device: &'a Device) -> Read<'a> {
        Read {
            args,
            device,
            observations: Vec::new(),
            runs: Vec::new(),
            inputs: Vec::new(),
            kept: None,
            told: Told::default(),
            notes: Vec::new(),
            predictions: Vec::new(),
        }
    }

    fn wants(&self, block: &str) -> bool {
        let only = &self.args.only;
        only.is_empty() || only.iter().any(|wanted| block.starts_with(wanted.as_str()))
    }

    fn name_of(&self, path: &str) -> String {
        name_among(&self.args.files, path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// One that cannot be opened, is of no known kind or is broken, with the place and the remedy.
    pub(super) fn file(&mut self, path: &str) -> anyhow::Result<()> {
        let bytes = crate::cli::files::read_result(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let (name, index) = (self.name_of(path), self.inputs.len());
        let crc32 = tables::crc32(&text);
        if let Some(same) = self.inputs.iter().find(|input| input.crc32 == crc32) {
            let note = format!("{path} holds the same as {}: counted once", same.file);
            self.notes.push(note);
            return Ok(());
        }
        let header = text.lines().next().unwrap_or_default();
        let rows = if path.to_lowercase().ends_with(".toml") {
            self.calibration(path, &text, index)?
        } else if is_course(&text) {
            self.course(path, &text, index)?
        } else if serving::is_serving(&text) {
            self.serving(path, &text, index)?
        } else if tables::is_kernel_table(header) {
            self.kernels(path, &text, index)?
        } else {
            self.results(path, &bytes, index)?
        };
        self.inputs.push(Input {
            file: name,
            crc32,
            rows,
            used: 0,
        });
        Ok(())
    }

    /// A probe's output: its blocks stay, and its points are fitted to again.
    fn calibration(&mut self, path: &str, text: &str, index: usize) -> anyhow::Result<u64> {
        let read = measured_file::read(path, text, index)?;
        if let Some(beyond) = read.calibration.beyond(self.device) {
            let made_on = &read.calibration.provenance.gpu;
            bail!("{path} was measured on a faster card ({beyond}): give --gpu as it was, {made_on}");
        }
        let made_on = hardware::find(&read.calibration.provenance.gpu);
        if let Ok((other, _)) = made_on
            && other.id != self.device.id
        {
            let note = format!("{path} was measured on {}, not on {}", other.id, self.device.id);
            self.notes.push(note);
        }
        let name = self.name_of(path);
        self.told.took.push(format!("{name}: {}", read.took));
        let left = read.left.into_iter().map(|left| (name.clone(), left));
        self.told.left.extend(left);
        if self.kept.is_some() {
            bail!("{path}: two files of a probe are given; calibrate from one, or name the other by --base");
        }
        let observations = read.observations.into_iter();
        let only = &self.args.only;
        let wants =
            |block: String| only.is_empty() || only.iter().any(|wanted| block.starts_with(wanted.as_str()));
        self.observations
            .extend(observations.filter(|row| wants(row.block.to_string())));
        self.kept = Some(read.calibration);
        Ok(read.rows)
    }

    fn course(&mut self, path: &str, text: &str, index: usize) -> anyhow::Result<u64> {
        let measured: Measured =
            serde_json::from_str(text).with_context(|| format!("{path} is not the course's tables"))?;
        if self.wants("host") {
            self.runs.extend(course_runs(&measured, index)?);
        }
        Ok(measured.tables.iter().map(|table| table.rows.len() as u64).sum())
    }

    fn serving(&mut self, path: &str, text: &str, index: usize) -> anyhow::Result<u64> {
        let wrong = results::read_rows(text.as_bytes(), path)
            .map_or_else(|_| Vec::new(), |(file, _)| impossible(&file.rows));
        if !wrong.is_empty() {
            bail!("{path}: {}", wrong.join("\n  "));
        }
        let serving = serving::read(text, self.args.engine_name(), index)
            .with_context(|| format!("cannot read {path}"))?;
        self.says_nothing_of(path);
        if self.wants("host") {
            self.runs.extend(serving.runs);
            self.leave(&self.name_of(path), serving.left);
        }
        Ok(serving.rows)
    }

    /// Rows of a table describe their runs whole, so what is said beside it is said of no row.
    fn says_nothing_of(&mut self, path: &str) {
        let given = self.args.said.words();
        if !given.is_empty() {
            let names: Vec<String> = given.iter().map(|(name, _)| format!("--{name}")).collect();
            self.notes.push(format!(
                "{} say nothing of {path}: its columns describe every run whole",
                names.join(", ")
            ));
        }
    }

    fn kernels(&mut self, path: &str, text: &str, index: usize) -> anyhow::Result<u64> {
        let selection = Selection {
            gpu: table_gpu(self.args, self.device),
            framework: self.args.engine_name().to_owned(),
        };
        let mut table = tables::read(path, text, index, &selection)?;
        tables::prefer_balanced(&mut table);
        if table.observations.is_empty() && table.left.is_empty() {
            let others: Vec<String> = tables::selections(text)
                .into_iter()
                .map(|other| format!("{} under {}", other.gpu, other.framework))
                .collect();
            self.notes.push(format!(
                "{path} has no row of {} under {}; it has {}",
                selection.gpu,
                selection.framework,
                if others.is_empty() {
                    "none at all".to_owned()
                } else {
                    others.join(", ")
                }
            ));
        }
        table
            .observations
            .retain(|row| self.wants(&row.block.to_string()));
        self.observations.extend(table.observations);
        self.leave(&self.name_of(path), table.left);
        Ok(table.rows)
    }

    fn results(&mut self, path: &str, bytes: &[u8], index: usize) -> anyhow::Result<u64> {
        let mut file = results::read(bytes, path).map_err(|error| {
            if bytes.trim_ascii_start().starts_with(b"{") || bytes.trim_ascii_start().starts_with(b"[") {
                return anyhow::Error::from(error);
            }
            let text = String::from_utf8_lossy(bytes);
            let header = text.lines().next().unwrap_or_default();
            if let Some(lacking) = tables::lacks(header) {
                return anyhow::anyhow!("{path} is no kernel table: {lacking}");
            }
            if let Some(column) = in_seconds(header) {
                return anyhow::anyhow!(
                    "{path}: its column `{column}` is in seconds; latencies of a table are read in milliseconds, `{}ms`",
                    column.trim_end_matches('s')
                );
            }
            anyhow::Error::from(error).context(format!(
                "{path} is no kernel table (its header has not the columns of one) and no result"
            ))
        })?;
        let wrong = impossible(&file.rows);
        if !wrong.is_empty() {
            bail!("{path}: {}", wrong.join("\n  "));
        }
        file.name = self.name_of(path);
        if file.rows.iter().any(|row| row.tool == Tool::Plimsoll) {
            if !self.args.allow_predictions {
                bail!(
                    "{path} is a prediction of Plimsoll itself and no measurement: a calibration fitted to it would learn what it \
                     was predicted with\n  help: give the result of a run on the GPU, or --allow-predictions to fit all the same, \
                     as a prior"
                );
            }
            self.predictions.push(file.name.clone());
        }
        if !self.wants("host") {
            return Ok(file.rows.len() as u64);
        }
        let (said, notes) = self.args.said.of(path, self.args)?;
        for note in notes
            .into_iter()
            .filter(|note| !self.notes.contains(note))
            .collect::<Vec<_>>()
        {
            self.notes.push(note);
        }
        let taken = bench::runs(&file, &said, &Disk, index);
        if taken.runs.is_empty() {
            let refused = taken
                .refused
                .iter()
                .map(|(place, reason)| format!("{place}: {reason}"));
            bail!(
                "{path} gives no run to fit to\n  {}",
                refused.collect::<Vec<_>>().join("\n  ")
            );
        }
        self.runs.extend(taken.runs);
        self.told.took.extend(taken.took);
        self.told.left.extend(taken.left);
        self.told.left.extend(taken.refused);
        self.told.impossible.extend(taken.impossible);
        Ok(file.rows.len() as u64)
    }

    fn leave(&mut self, name: &str, left: BTreeMap<String, u64>) {
        let rows = left
            .into_iter()
            .map(|(reason, rows)| (format!("{rows} rows of {name}"), reason));
        self.told.left.extend(rows);
    }
}

/// The first column of latencies in seconds, which no table of results has.
fn in_seconds(header: &str) -> Option<&str> {
    let mut columns = header.split([',', ';', '\t']).map(str::trim);
    let is_latency = |column: &&str| {
        let names = ["ttft_", "tpot_", "itl_", "e2e_", "e2el_"];
        names.iter().any(|name| column.starts_with(name)) && column.ends_with("_s")
    };
    columns.find(is_latency)
}

/// The course's tables as they ship; every other JSON is a tool's.
fn is_course(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde_json::Value>(text)
            .is_ok_and(|value| value.get("source").is_some() && value.get("tables").is_some())
}

/// Rows of the course's tables that may be fitted to.
fn course_runs(measured: &Measured, input: usize) -> anyhow::Result<Vec<Run>> {
    let tables = measured
        .tables
        .iter()
        .filter(|table| table.use_ == Use::Calibrate);
    let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.map(|(table, row)| course_run(table, row, input)).collect()
}

fn course_run(table: &MeasuredTable, row: &MeasuredRow, input: usize) -> anyhow::Result<Run> {
    let scenario = config_files::find(&table.scenario, &Disk)
        .with_context(|| format!("there is no scenario `{}`", table.scenario))?;
    let refuse = |problems: crate::config::Diagnostics| anyhow::anyhow!("{}", problems.render(false));
    let mut document =
        Document::parse(&scenario.name, &scenario.text).map_err(|problem| refuse(problem.into()))?;
    for (name, value) in &row.set {
        let problems = axes::apply(&mut document, name, value);
        if !problems.is_empty() {
            return Err(refuse(crate::config::Diagnostics(problems)));
        }
    }
    let settings: Vec<&str> = row.set.iter().take(2).map(|(_, value)| value.as_str()).collect();
    let figures = table.figures.iter().zip(&row.measured);
    let label = format!("course week 2, {}", settings.join(", batch "));
    Ok(Run {
        load: label.clone(),
        label,
        family: format!("course week 2 on {}", settings.first().unwrap_or(&"")),
        is_offline: true,
        resolved: resolve(document, &Disk).map_err(refuse)?,
        scattered: None,
        in_seconds: None,
        measured: figures
            .filter_map(|(figure, value)| match figure {
                FigureName::E2elP50Ms => Some((Figure::E2elP50, *value)),
                _ => None,
            })
            .collect(),
        tails: Tails::default(),
        input,
    })
}
