//! From a row of a table to a scenario, in the words of a scenario file, with all that had to be assumed.

mod flags;
mod harness;
mod lengths;
mod ranks;
mod server;
mod traffic;
mod version;

use std::fmt::Write as _;

use toml::Value;

pub(super) use self::flags::Said;
use crate::config::{Diagnostic, Diagnostics};
use crate::hardware::{self, Device};
use crate::results::{Load, Measured};

/// A run to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// A scenario file.
    pub scenario: String,
    /// What the row does not say and the scenario must.
    pub assumptions: Vec<String>,
    /// What its flags say without effect, as sentences.
    pub ignored: Vec<String>,
    /// Other ways to read the row.
    pub readings: Vec<Reading>,
    /// Lengths that scatter, where the row says nothing of its lengths but a mean each, and they are taken to be equal.
    pub scattered: Option<Reading>,
}

/// What a row may as well mean: a part of its scenario, and what could stand there.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    instead_of: String,
    put: String,
}

impl Plan {
    /// The same run, read in another way.
    #[must_use]
    pub fn read_as(&self, reading: &Reading) -> Plan {
        Plan {
            scenario: exchanged(&self.scenario, &reading.instead_of, &reading.put),
            ..self.clone()
        }
    }

    /// The same run timed by a calibration, which scenarios know by `name`. Where its card is known, the row ran on that one, of those that
    /// its words may mean.
    ///
    /// # Errors
    /// The row ran on another card.
    pub fn timed_by(&self, row: &Measured, name: &str, card: Option<&Device>) -> Result<Plan, String> {
        let said = row.setup.gpu.as_deref().unwrap_or_default();
        let of_row = gpu_line(server::gpu_name(said).0);
        let mut plan = self.clone();
        let mut line = of_row.clone();
        if let Some(card) = card {
            let meant = hardware::readings(server::gpu_name(said).0);
            if !meant.is_empty() && meant.iter().all(|meant| meant.id != card.id) {
                return Err(format!(
                    "the calibration {name} was made on {}, and the row ran on {said}",
                    card.id
                ));
            }
            line = gpu_line(&card.id);
            plan.readings.retain(|reading| reading.instead_of != of_row);
        }
        line += &format!("calibration = {}\n", quoted(name));
        plan.scenario = exchanged(&plan.scenario, &of_row, &line);
        Ok(plan)
    }

    /// The same run with a shorter context.
    #[must_use]
    fn with_context(&self, context: u64) -> Plan {
        let mut assumptions = self.assumptions.clone();
        assumptions.push(format!(
            "the model's whole context does not fit: max_model_len {context}"
        ));
        let engine = format!("\n[engine]\nmax_model_len = {context}\n");
        let scenario = exchanged(&self.scenario, "\n[engine]\n", &engine);
        Plan {
            scenario,
            assumptions,
            ..self.clone()
        }
    }

    /// Makes something of the plan. A server whose model's whole context does not fit was started with a shorter one,
    /// whatever the row says; the plan that was made use of comes back.
    ///
    /// # Errors
    /// What `make` says of the plan as it is.
    pub fn attempt<T>(
        self,
        row: &Measured,
        make: impl Fn(&Plan) -> Result<T, Unmade>,
    ) -> Result<(T, Plan), String> {
        let unmade = match make(&self) {
            Ok(made) => return Ok((made, self)),
            Err(unmade) => unmade,
        };
        if !unmade.is_of_context || self.scenario.contains("max_model_len") {
            return Err(unmade.reason);
        }
        let setup = &row.setup;
        let mean = setup.input_tokens.unwrap_or(512.0) + setup.output_tokens.unwrap_or(512.0);
        // A power of two that holds four mean requests, or just one where that is already too long for the memory.
        let roomy = ((4.0 * mean) as u64).clamp(1, 1 << 24).next_power_of_two();
        let tight = (mean.ceil() as u64).clamp(1, 1 << 24).next_multiple_of(TIGHT_TO);
        let shorter = [roomy, tight].map(|context| self.with_context(context));
        let made = shorter
            .into_iter()
            .find_map(|plan| make(&plan).ok().zip(Some(plan)));
        made.ok_or(unmade.reason)
    }

    /// The same run with other traffic of the same law.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Plan {
        Plan {
            scenario: exchanged(&self.scenario, "\nseed = 0\n", &format!("\nseed = {seed}\n")),
            ..self.clone()
        }
    }
}

/// What a context that holds one mean request is rounded up to, which leaves room for its length having been rounded.
const TIGHT_TO: u64 = 128;

/// A scenario with another part in place of one that every plan writes.
fn exchanged(scenario: &str, part: &str, put: &str) -> String {
    assert!(scenario.contains(part), "a plan has `{}`", part.trim());
    scenario.replacen(part, put, 1)
}

/// Why a row makes no plan; in words one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unplanned {
    /// It does not say how requests were sent.
    Load,
    /// It does not say how long these are.
    Lengths(&'static str),
    /// Something else is missing, contradicts itself or is not modelled.
    Row(String),
}

impl std::fmt::Display for Unplanned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unplanned::Load => f.write_str("the row does not say how requests were sent"),
            Unplanned::Lengths(what) => write!(f, "the row does not say how long {what} are"),
            Unplanned::Row(why) => f.write_str(why),
        }
    }
}

impl From<String> for Unplanned {
    fn from(why: String) -> Unplanned {
        Unplanned::Row(why)
    }
}

impl From<&str> for Unplanned {
    fn from(why: &str) -> Unplanned {
        Unplanned::Row(why.to_owned())
    }
}

impl From<Unplanned> for String {
    fn from(why: Unplanned) -> String {
        why.to_string()
    }
}

/// Why nothing came of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmade {
    /// As one sentence.
    pub reason: String,
    /// The model's whole context does not fit, but for which it might.
    pub is_of_context: bool,
}

impl Unmade {
    /// Why a scenario is none, `worded` from its first problem.
    #[must_use]
    pub fn of(problems: &Diagnostics, worded: impl Fn(&Diagnostic) -> String) -> Unmade {
        let Some(first) = problems.0.first() else {
            return Unmade::from("the row makes no valid scenario".to_owned());
        };
        Unmade {
            reason: worded(first),
            is_of_context: first.misfit.as_ref().is_some_and(|misfit| misfit.is_of_context),
        }
    }
}

impl From<String> for Unmade {
    fn from(reason: String) -> Unmade {
        Unmade {
            reason,
            is_of_context: false,
        }
    }
}

/// The scenario that a row describes. `trace` finds the path of a recorded trace by the name that a row gives it.
///
/// # Errors
/// Why the row cannot be modelled.
pub fn plan(row: &Measured, trace: &dyn Fn(&str) -> Option<String>) -> Result<Plan, Unplanned> {
    let setup = &row.setup;
    if let Some(missing) = missing(row, trace) {
        return Err(Unplanned::Row(missing));
    }
    let model = setup.model.as_deref().ok_or("the row does not name its model")?;
    let gpu = setup.gpu.as_deref().ok_or("the row does not name its GPU")?;
    if setup.speculates() {
        return Err("the row speculates, and does not say how many drafts stood".into());
    }
    let mut draft = Draft {
        row,
        text: String::new(),
        assumptions: Vec::new(),
        readings: Vec::new(),
        scattered: None,
        said: Said::default(),
    };
    let serves = draft.engine()?;
    draft.line("[model]");
    draft.model(model)?;
    draft.precision()?;
    draft.rest_of("model");
    draft.line("\n[cluster]");
    draft.gpu(gpu);
    draft.ranks()?;
    draft.rest_of("cluster");
    draft.line("\n[engine]");
    draft.server(serves)?;
    draft.workload(trace)?;
    Ok(Plan {
        scenario: draft.text,
        assumptions: draft.assumptions,
        ignored: draft.said.ignored,
        readings: draft.readings,
        scattered: draft.scattered,
    })
}

/// Everything that a row leaves out of what it must say, with the columns that say it; `None` where it names its model, GPU and
/// engine, for what else is missing is then told by itself.
fn missing(row: &Measured, trace: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let setup = &row.setup;
    if setup.pools.is_some_and(|pools| pools > 1) {
        return None;
    }
    let names = [
        (setup.model.is_none(), "its model (column `model`)"),
        (setup.gpu.is_none(), "its GPU (column `gpu`)"),
        (setup.engine.is_none(), "its engine (column `engine`)"),
    ];
    let named: Vec<&str> = names
        .into_iter()
        .filter(|name| name.0)
        .map(|name| name.1)
        .collect();
    if named.is_empty() {
        return None;
    }
    let mut told = vec![format!("does not name {}", named.join(", "))];
    if setup.load == Load::Unknown {
        told.push(
            "does not say how requests were sent (column `request_rate` or `max_concurrency`)".to_owned(),
        );
    }
    // How long prompts and answers are may be said in many words: something stands for what is missing, and they are read.
    let mut whole = row.clone();
    let named = &mut whole.setup;
    named
        .model
        .get_or_insert_with(|| "meta-llama/Llama-3.1-8B-Instruct".to_owned());
    named.gpu.get_or_insert_with(|| "H100-SXM-80GB".to_owned());
    named.engine.get_or_insert_with(|| "vllm".to_owned());
    if named.load == Load::Unknown {
        named.load = Load::Open { rate: 1.0 };
    }
    if let Err(Unplanned::Lengths(what)) = plan(&whole, trace) {
        told.push(format!(
            "does not say how long {what} are (columns `input_len` and `output_len`)"
        ));
    }
    Some(format!("the row {}", told.join("; it ")))
}

/// The line of a scenario that names its GPU.
fn gpu_line(name: &str) -> String {
    format!("gpu = {}\n", quoted(name))
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// A scenario as far as it is written.
struct Draft<'a> {
    row: &'a Measured,
    text: String,
    assumptions: Vec<String>,
    readings: Vec<Reading>,
    scattered: Option<Reading>,
    /// What its flags say that no section has yet.
    said: Said,
}

impl Draft<'_> {
    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn entry(&mut self, key: &str, value: &str) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{key} = {value}");
    }

    /// Writes what a column says, unless the flags say it as well.
    fn entry_of_column(
        &mut self,
        column: &str,
        (section, key): (&str, &str),
        value: &Value,
    ) -> Result<(), String> {
        if let Some(other) = self
            .said
            .take(&format!("{section}.{key}"))
            .filter(|other| other != value)
        {
            let flag = key.replace('_', "-");
            return Err(format!(
                "the row contradicts itself: its {column} means {key} = {value}, its flags say --{flag} {other}"
            ));
        }
        self.entry(key, &value.to_string());
        Ok(())
    }

    /// Writes what the flags say of a section beside what columns said.
    fn rest_of(&mut self, section: &str) {
        for (key, value) in self.said.take_section(section) {
            self.entry(&key, &value.to_string());
        }
    }

    fn assume(&mut self, what: impl Into<String>) {
        self.assumptions.push(what.into());
    }
}

#[cfg(test)]
mod tests;
