//! What stands below a command line's own flags, read once however many cells of a sweep are put upon it.
//!
//! Law: a cell is the command that has its values as flags. They are judged with the others, in no order.

use super::super::axes::{Swept, with_values};
use super::super::base;
use super::super::diagnostic::Diagnostics;
use super::super::document::Document;
use super::super::files::Files;
use super::super::flags::{self, ClientKind, ScenarioFlags};
use super::super::pasted::ResultFlags;
use super::{Assembled, Layered, Layers, is_scenario, scenario, without_base};

/// A scenario and the pasted commands over it.
#[derive(Clone, Debug)]
pub struct Ground {
    layers: Layers,
    /// What a pasted benchmark command says about its result.
    results: Option<ResultFlags>,
    /// Whose command that is.
    client: Option<ClientKind>,
}

impl Ground {
    /// What these flags name.
    ///
    /// # Errors
    /// The first syntax error of the file, or its absence.
    pub fn of(flags: &ScenarioFlags, files: &dyn Files) -> Result<Ground, Diagnostics> {
        let mut notes = Vec::new();
        let document = scenario(flags, files, &mut notes)?;
        let mut layers = Layers {
            document,
            notes,
            ignored: flags.ignored.clone(),
            ..Layers::default()
        };
        layers.positional(flags);
        if let Some(command) = &flags.serve_cmd {
            let positional = flags.target.as_deref().filter(|target| !is_scenario(target));
            layers.serve_cmd(
                command,
                flags.server.engines.engine.profile.as_deref(),
                positional,
                files,
            );
        }
        let bench = flags.bench_cmd.as_deref();
        let bench = bench.and_then(|command| layers.bench_cmd(command, flags));
        let (client, results) = bench.unzip();
        Ok(Ground {
            layers,
            results,
            client,
        })
    }

    /// The scenario and what pasted commands changed of it.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.layers.document
    }

    /// The command of a cell with these values.
    ///
    /// # Errors
    /// Values that cannot be read, and flags that do not go together.
    pub fn cell(
        &self,
        flags: &ScenarioFlags,
        values: &[(String, String)],
        files: &dyn Files,
    ) -> Result<Assembled, Diagnostics> {
        let (flags, swept) = with_values(flags, values)?;
        self.under(&flags, &swept, files).read()
    }

    /// The same of a command that is to be run: where a flag cannot be understood, what else is wrong is told with it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn run(
        &self,
        flags: &ScenarioFlags,
        values: &[(String, String)],
        files: &dyn Files,
    ) -> Result<Assembled, Diagnostics> {
        let (flags, swept) = with_values(flags, values)?;
        self.under(&flags, &swept, files).judged(files)
    }

    /// These flags alone, right or wrong.
    #[must_use]
    pub fn flags_alone(&self, flags: &ScenarioFlags, files: &dyn Files) -> Document {
        self.under(flags, &Swept::default(), files).assembled.document
    }

    /// Puts flags upon it.
    pub(super) fn under(&self, flags: &ScenarioFlags, swept: &Swept, files: &dyn Files) -> Layered {
        let mut layers = self.layers.clone();
        if flags.traffic.trace.is_some() {
            layers.notes.extend(without_base(&mut layers.document));
        }
        layers.flags(flags, swept);
        if let Some(client) = flags.traffic.client.or(self.client) {
            // A workload below the scenario says something, too; that it cannot be read is told by whoever runs it.
            let mut whole = layers.document.clone();
            let is_read = base::underlay(&mut whole, files, &mut Vec::new()).is_ok();
            let below = is_read.then_some(&whole);
            flags::client_defaults(&mut layers.document, client, below);
        }
        let assembled = Assembled {
            document: layers.document,
            results: self.results.clone().unwrap_or_default(),
            notes: layers.notes,
            ignored: layers.ignored,
        };
        Layered {
            assembled,
            problems: layers.problems,
            is_cut: layers.is_cut,
        }
    }
}

impl From<Document> for Ground {
    fn from(document: Document) -> Ground {
        let layers = Layers {
            document,
            ..Layers::default()
        };
        Ground {
            layers,
            results: None,
            client: None,
        }
    }
}
