//! Keys of an engine that does not serve: refused, with what the one that serves calls them.
//!
//! A scenario names its engine, and `--engine` may name another. A key of the scenario then gives way to the flag of the
//! same meaning of the engine that serves; what no flag replaces is refused, because leaving it out would change the run.

use serde::Serialize;
use toml::Table;

use super::document::Source;
use super::judge::Judge;

/// A table of keys whose engine does not serve.
#[derive(Clone, Copy)]
pub(super) struct Foreign<'a> {
    /// The table, `engine`.
    pub(super) section: &'static str,
    /// Whose flags its keys are.
    pub(super) owner: &'static str,
    /// Who serves.
    pub(super) serves: &'a str,
    /// The table with the flags of whoever serves.
    pub(super) own: &'static str,
}

/// What was given of a table's keys.
pub(super) fn given(raw: &impl Serialize) -> Table {
    Table::try_from(raw).expect("format types are representable in TOML")
}

impl Foreign<'_> {
    /// Refuses a key. Where the engine that serves has a `twin` of it, and a flag has set that one, the key of a scenario leaves the
    /// document instead. `help` says how to write it for that engine; it is told whether a flag gave the key.
    pub(super) fn refuse(
        self,
        judge: &mut Judge,
        key: &str,
        twin: Option<&str>,
        help: impl FnOnce(bool) -> String,
    ) {
        let path = format!("{}.{key}", self.section);
        let flag_of = |judge: &Judge, path: &str| match judge.document.source(path) {
            Some(Source::Flag(flag)) => Some(flag),
            _ => None,
        };
        let is_flag = flag_of(judge, &path).is_some();
        let twin = twin
            .filter(|_| !is_flag)
            .map(|twin| format!("{}.{twin}", self.own));
        if let Some(flag) = twin.and_then(|twin| flag_of(judge, &twin)) {
            let owner = self.owner;
            judge.notes.push(format!(
                "{flag} replaces the scenario's {key}, which is a flag of {owner}"
            ));
            judge.document.remove(&path);
            return;
        }
        let problem = format!("is a flag of {}, and {} serves", self.owner, self.serves);
        judge.wrong_help(&path, &problem, "not of this engine", help(is_flag));
    }
}
