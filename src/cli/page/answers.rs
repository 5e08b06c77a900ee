//! From what was turned on the page to what is shown: flags over the scenario of the command line, simulated as `run` and `knee` do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::disk::Disk;
use super::super::{interrupt, knee, run, subject};
use super::controls::{self, Group};
use super::film;
use super::repeated::{flag_of, joined, repeated};
use crate::config::flags::ScenarioFlags;
use crate::config::variant::{Said, variant};
use crate::config::{Diagnostic, Diagnostics, Document, Resolved, is_scenario, resolve};
use crate::report::film::Film;

/// Longest that a page waits for a run, and for a search.
const LONGEST: Duration = Duration::from_secs(60);

/// What a page asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Asked {
    /// What was turned, by its flag without dashes.
    #[serde(default)]
    pub(in crate::cli) flags: BTreeMap<String, String>,
    /// Whether the first requests are filmed.
    #[serde(default)]
    film: bool,
}

/// What a page begins with.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct Start {
    version: &'static str,
    /// What is simulated.
    pub(in crate::cli) subject: String,
    base: String,
    groups: Vec<Group>,
}

/// A run.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Ran {
    command: String,
    said: String,
    why: String,
    exit: u8,
    result: Box<RawValue>,
    groups: Vec<Group>,
    subject: String,
    film: Option<Film>,
}

/// A search.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Searched {
    command: String,
    said: String,
    exit: u8,
    knee: Box<RawValue>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(in crate::cli) enum Unanswered {
    /// Nobody waits for it any more, or the program ends.
    Gone,
    /// What is wrong, and the command that it is wrong with.
    Wrong {
        /// As a command line.
        command: String,
        /// Everything that is.
        problems: Vec<Problem>,
    },
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct Problem {
    message: String,
    help: Vec<String>,
}

impl Problem {
    pub(in crate::cli) fn new(message: impl Into<String>) -> Problem {
        Problem {
            message: message.into(),
            help: Vec::new(),
        }
    }
}

/// The scenario of the command line, which a page turns.
#[derive(Debug)]
pub(in crate::cli) struct Explorer {
    flags: ScenarioFlags,
    /// The words that they were given by.
    base: Vec<String>,
    start: Start,
}

impl Explorer {
    /// Of flags as they were typed, and what is to be said of them.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(in crate::cli) fn new(
        flags: ScenarioFlags,
        typed: Vec<String>,
    ) -> Result<(Explorer, Vec<String>), Diagnostics> {
        let (flags, note) = run::or_quickstart(flags);
        let base = match &note {
            Some(_) => std::iter::once(crate::config::QUICKSTART.to_owned())
                .chain(typed)
                .collect(),
            None => typed,
        };
        let mut explorer = Explorer {
            flags,
            base,
            start: Start::default(),
        };
        let (_, resolved) = explorer.resolve(&[])?;
        explorer.start = Start {
            version: env!("CARGO_PKG_VERSION"),
            subject: subject::subject(&resolved),
            base: joined(&explorer.base),
            groups: controls::of(&resolved),
        };
        let notes = note.into_iter().chain(resolved.notes.iter().cloned()).collect();
        Ok((explorer, notes))
    }

    /// What a page begins with.
    pub(in crate::cli) fn start(&self) -> &Start {
        &self.start
    }

    fn resolve(&self, words: &[String]) -> Result<(Document, Resolved), Diagnostics> {
        let said = Said {
            name: None,
            words: words.to_vec(),
        };
        let input = variant(&self.flags, &said, &Disk)?;
        let mut resolved = resolve(input.document.clone(), &Disk)?;
        resolved.said_before(&input.notes, &input.ignored);
        Ok((input.document, resolved))
    }

    /// Simulates a run; `goes_on` says whether anybody waits for it.
    ///
    /// # Errors
    /// What is wrong with the flags, or that nobody waits.
    pub(in crate::cli) fn run(
        &self,
        asked: &Asked,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Ran, Unanswered> {
        let words = self.words("run", &asked.flags)?;
        let (_, resolved) = self
            .resolve(&words)
            .map_err(|problems| self.wrong("run", &words, &problems))?;
        let filming = asked.film.then(|| film::of(&resolved));
        let begun = Instant::now();
        let is_late = || begun.elapsed() > LONGEST;
        let told = run::told(&resolved, filming, &|| {
            goes_on() && !interrupt::is_asked() && !is_late()
        });
        let Some(told) = told else {
            return Err(self.cut("run", &words, is_late()));
        };
        Ok(Ran {
            command: self.command("run", &words),
            said: told.said,
            why: told.why,
            exit: told.exit as u8,
            result: written(&told.json),
            groups: controls::of(&resolved),
            subject: subject::subject(&resolved),
            film: told.film,
        })
    }

    /// Looks for the knee; `goes_on` says whether anybody waits for it.
    ///
    /// # Errors
    /// What is wrong with the flags, that there is no knee, or that nobody waits.
    pub(in crate::cli) fn knee(
        &self,
        asked: &Asked,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Searched, Unanswered> {
        let words = self.words("knee", &asked.flags)?;
        let (document, resolved) = self
            .resolve(&words)
            .map_err(|problems| self.wrong("knee", &words, &problems))?;
        let begun = Instant::now();
        let is_late = || begun.elapsed() > LONGEST;
        let goes_on = || goes_on() && !interrupt::is_asked() && !is_late();
        let told = knee::told(&resolved, &document, &goes_on);
        match told {
            Ok(Some(told)) => Ok(Searched {
                command: self.command("knee", &words),
                said: told.said,
                exit: told.exit as u8,
                knee: written(&told.json),
            }),
            Ok(None) => Err(self.cut("knee", &words, is_late())),
            Err(error) => Err(match error.downcast_ref::<Diagnostics>() {
                Some(problems) => self.wrong("knee", &words, problems),
                None => self.failed("knee", &words, format!("{error:#}")),
            }),
        }
    }

    /// The command line that does the same.
    fn command(&self, command: &str, words: &[String]) -> String {
        let model = self.flags.target.as_deref().filter(|target| !is_scenario(target));
        format!(
            "plimsoll {command} {}",
            joined(&repeated(&self.base, model, words))
        )
        .trim_end()
        .to_owned()
    }

    fn cut(&self, command: &str, words: &[String], is_late: bool) -> Unanswered {
        match is_late {
            false => Unanswered::Gone,
            true => {
                let why = format!(
                    "it was not done after {} s and is given up: its command takes as long as it takes",
                    LONGEST.as_secs()
                );
                self.failed(command, words, why)
            }
        }
    }

    fn failed(&self, command: &str, words: &[String], why: String) -> Unanswered {
        Unanswered::Wrong {
            command: self.command(command, words),
            problems: vec![Problem::new(why)],
        }
    }

    fn wrong(&self, command: &str, words: &[String], problems: &Diagnostics) -> Unanswered {
        let within = format!("in the variant `{}`: ", words.join(" "));
        let told = |problem: &Diagnostic| Problem {
            message: problem.message.replace(&within, "").replace("`variant --", "`--"),
            help: problem.help.clone(),
        };
        Unanswered::Wrong {
            command: self.command(command, words),
            problems: problems.0.iter().map(told).collect(),
        }
    }

    /// The flags that were turned, as words of a command line.
    fn words(&self, command: &str, flags: &BTreeMap<String, String>) -> Result<Vec<String>, Unanswered> {
        let (mut words, mut limits, mut problems) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (flag, value) in flags {
            if let Some(why) = controls::refused(flag, value) {
                problems.push(Problem::new(why));
            } else if let Some(metric) = flag.strip_prefix("goodput:") {
                match value.parse::<f64>() {
                    Ok(limit) if limit.is_finite() && limit > 0.0 => {
                        limits.insert(metric.to_owned(), limit);
                    }
                    _ => problems.push(Problem::new(format!(
                        "{metric} of at most `{value}` ms is no limit: a number above 0 is one"
                    ))),
                }
            } else if flag == "think-time" {
                words.push(format!("--{flag}={value}s"));
            } else {
                words.push(format!("--{}={value}", self.spelt(flag)));
            }
        }
        if !problems.is_empty() {
            let command = self.command(command, &words);
            return Err(Unanswered::Wrong { command, problems });
        }
        words.extend(self.other_length(flags));
        if !limits.is_empty() {
            let own = self.resolve(&words).or_else(|_| self.resolve(&[]));
            let (_, own) = own.map_err(|problems| self.wrong(command, &[], &problems))?;
            for (metric, limit) in &own.slo.goodput {
                limits
                    .entry(metric.name().to_owned())
                    .or_insert(limit.seconds() * 1e3);
            }
            words.push("--goodput".to_owned());
            words.extend(
                limits
                    .into_iter()
                    .map(|(metric, limit)| format!("{metric}:{limit}")),
            );
        }
        Ok(words)
    }

    /// The length that was not turned, in the mean, where the other was and the scenario's differ from request to request.
    fn other_length(&self, flags: &BTreeMap<String, String>) -> Option<String> {
        let other = match ["input-len", "output-len"].map(|flag| flags.contains_key(flag)) {
            [true, false] => "output-len",
            [false, true] => "input-len",
            _ => return None,
        };
        let (_, own) = self.resolve(&[]).ok()?;
        if controls::has_one_length(&own) {
            return None;
        }
        let (input, output) = own.mean_lengths();
        let mean = if other == "input-len" { input } else { output };
        Some(format!("--{other}={}", mean.round().max(1.0)))
    }

    /// A flag as the base spells it, where it spells it otherwise: both would set the same length.
    fn spelt<'a>(&self, flag: &'a str) -> &'a str {
        let as_random = match flag {
            "input-len" => "random-input-len",
            "output-len" => "random-output-len",
            _ => return flag,
        };
        let is_so = |word: &String| flag_of(word).as_deref() == Some(as_random);
        if self.base.iter().any(is_so) {
            as_random
        } else {
            flag
        }
    }
}

/// What a printer wrote, to the last digit.
fn written(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.trim_end().to_owned()).expect("the printers write JSON")
}

#[cfg(test)]
mod tests;
