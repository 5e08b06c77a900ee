//! The axes of a sweep: those of its flags, or of the scenario's own `[sweep]`.

use super::Args;
use crate::cli::disk::Disk;
use crate::config::axes::{self, Axis};
use crate::config::files::{self, Files};
use crate::config::{Diagnostic, Diagnostics, Document};

impl Args {
    /// What varies.
    ///
    /// # Errors
    /// Axes that are wrong, and none at all.
    pub(super) fn varied(&self, scenario: &Document) -> Result<Vec<Axis>, Diagnostics> {
        let axes = match self.axes.has_axes() {
            true => self.axes.given()?,
            false => axes::of_scenario(scenario)?,
        };
        match axes.is_empty() && self.axes.variants.is_empty() {
            true => Err(self.nothing_varies(scenario).into()),
            false => Ok(axes),
        }
    }

    /// What to say where there is no axis: what may be one of this traffic, and what the scenario itself says is done with it.
    fn nothing_varies(&self, scenario: &Document) -> Diagnostic {
        let has_rate = ["poisson", "gamma", "constant"]
            .iter()
            .any(|law| scenario.get(&format!("workload.arrivals.{law}")).is_some());
        let example = match has_rate {
            true => "-L request-rate 4,8,16",
            false => "-L max-num-seqs 16,64,256",
        };
        let problem = Diagnostic::new("nothing varies").help(format!(
            "give an axis, {example} or any other flag or key of a scenario, or a [sweep] in the scenario"
        ));
        let flags = &self.scenario;
        let name = flags.scenario.as_deref().or(flags.target.as_deref());
        let own = name.map(|name| commands_of(name, &Disk)).unwrap_or_default();
        match own.is_empty() {
            true => problem,
            false => problem.help(format!("the scenario says what it is for: {}", own.join(", "))),
        }
    }
}

/// The commands of this program in the comment at a scenario's head.
fn commands_of(name: &str, files: &dyn Files) -> Vec<String> {
    let on_disk = files
        .read(name)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let text = on_disk.or_else(|| files::find(name, files).map(|shipped| shipped.text));
    let head = text.unwrap_or_default();
    let comment = head.lines().map_while(|line| line.strip_prefix('#'));
    // What a command does may stand behind it, in a column of its own.
    let commands = comment
        .map(|line| line.trim().split("  ").next().unwrap_or_default())
        .filter(|line| line.starts_with("plimsoll "));
    commands.map(|command| format!("`{command}`")).collect()
}
