//! From what was turned on the page to what is shown: flags over the scenario of the command line, simulated as `run` and `knee` do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::disk::Disk;
use super::super::terminal::Terminal;
use super::super::{Colour, explain, interrupt, knee, run, subject};
use super::allowed;
use super::answer::{Explained, Problem, Ran, Searched, Start, Unanswered};
use super::controls::{self, Group};
use super::film::{self, Reel};
use super::repeated::{flag_of, joined, repeated};
use super::stops::{self, Stops};
use crate::config::flags::ScenarioFlags;
use crate::config::variant::{Said, variant};
use crate::config::{Assembled, Diagnostic, Diagnostics, Document, Resolved, is_scenario, resolve};

/// Says whether anybody waits.
type GoesOn<'a> = &'a (dyn Fn() -> bool + Sync);

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

/// The scenario of the command line, which a page turns.
#[derive(Debug)]
pub(in crate::cli) struct Explorer {
    flags: ScenarioFlags,
    /// The words that they were given by.
    base: Vec<String>,
    start: Start,
    /// Longest that is simulated for one answer.
    longest: Option<Duration>,
    /// Whether the scenario says all that is needed without words of more.
    is_whole: bool,
}

impl Explorer {
    /// Of flags as they were typed, and what is to be said of them.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(in crate::cli) fn new(
        flags: ScenarioFlags,
        typed: Vec<String>,
        longest: Option<Duration>,
    ) -> Result<(Explorer, Vec<String>), Diagnostics> {
        Explorer::upon(flags, typed, longest, &[])
    }

    /// Of flags that need words of more to say all; a page begins with these.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(in crate::cli) fn upon(
        flags: ScenarioFlags,
        typed: Vec<String>,
        longest: Option<Duration>,
        words: &[String],
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
            longest,
            is_whole: words.is_empty(),
        };
        let resolved = explorer
            .resolve(words)
            .map_err(|problems| reworded(&problems, words));
        let (document, resolved) = resolved?;
        explorer.start = Start {
            version: env!("CARGO_PKG_VERSION"),
            subject: subject::subject(&resolved),
            base: joined(&explorer.base),
            groups: controls::of(&resolved),
        };
        let swept = "the scenario has a [sweep]: this shows what stands outside";
        let swept = document.get("sweep").map(|_| swept.to_owned());
        let notes = note.into_iter().chain(resolved.notes.iter().cloned());
        let notes = notes.chain(swept).collect();
        Ok((explorer, notes))
    }

    /// What a page begins with.
    pub(in crate::cli) fn start(&self) -> &Start {
        &self.start
    }

    /// The flag of the scenario that says how strong its load is; `None` where words of more do, or nothing.
    pub(in crate::cli) fn own_load(&self) -> Option<&'static str> {
        controls::load(&self.start.groups).filter(|_| self.is_whole)
    }

    /// What a page begins with on which `axes` alone can be turned, with words of more: what a list has beside the choice is left out.
    ///
    /// # Errors
    /// Everything that is wrong with the words.
    pub(in crate::cli) fn kept_start(&self, words: &[String], axes: &[Stops]) -> Result<Start, Diagnostics> {
        let resolved = self.resolve(words).map_err(|problems| reworded(&problems, words));
        let (_, resolved) = resolved?;
        Ok(Start {
            version: self.start.version,
            subject: subject::subject(&resolved),
            base: self.start.base.clone(),
            groups: stops::settings(controls::of(&resolved), axes),
        })
    }

    /// A control of the page that has these values alone: it stands at the one that is the scenario's own.
    pub(in crate::cli) fn stops(&self, flag: &str, values: &[String]) -> Stops {
        let at = |groups: &[Group]| controls::find(groups, flag).and_then(stops::value_of);
        // As the scenario would have it with each value: `h100` is H100-SXM-80GB, and `10s` is 10.
        let with = |value: &String| {
            let one = BTreeMap::from([(flag.to_owned(), value.clone())]);
            let (_, resolved) = self.resolve(&self.words_of(&one)).ok()?;
            Some(controls::of(&resolved))
        };
        let turned: Vec<Option<Vec<Group>>> = values.iter().map(with).collect();
        let own = at(&self.start.groups).filter(|_| self.is_whole);
        let is_own = |groups: &Option<Vec<Group>>| own.is_some() && groups.as_deref().and_then(at) == own;
        let own = turned.iter().position(is_own).map(|at| &values[at]);
        // A control that comes with its value, as requests in flight do.
        let has = |groups: &&[Group]| controls::find(groups, flag).is_some();
        let mut all =
            std::iter::once(self.start.groups.as_slice()).chain(turned.iter().flatten().map(Vec::as_slice));
        Stops::new(all.find(has).unwrap_or_default(), flag, values, own)
    }

    /// The flag that says how strong the load is with words of more.
    pub(in crate::cli) fn load_of(&self, words: &[String]) -> Option<&'static str> {
        let (_, resolved) = self.resolve(words).ok()?;
        controls::load(&controls::of(&resolved))
    }

    /// Flags as words of a command line, and of one length the other's mean.
    pub(in crate::cli) fn words_of(&self, flags: &BTreeMap<String, String>) -> Vec<String> {
        let mut words: Vec<String> = (flags.iter())
            .map(|(flag, value)| format!("--{flag}={value}"))
            .collect();
        words.extend(self.other_length(flags));
        words
    }

    /// Reads words of more upon the scenario, and judges nothing.
    ///
    /// # Errors
    /// Flags and values that nobody knows.
    pub(in crate::cli) fn read(&self, words: &[String]) -> Result<(), Diagnostics> {
        let read = self.assembled(words);
        read.map(drop).map_err(|problems| reworded(&problems, words))
    }

    fn assembled(&self, words: &[String]) -> Result<Assembled, Diagnostics> {
        let said = Said {
            name: None,
            words: words.to_vec(),
        };
        variant(&self.flags, &said, &Disk)
    }

    fn resolve(&self, words: &[String]) -> Result<(Document, Resolved), Diagnostics> {
        let input = self.assembled(words)?;
        let mut resolved = resolve(input.document.clone(), &Disk)?;
        resolved.said_before(&input.notes, &input.ignored);
        Ok((input.document, resolved))
    }

    /// Simulates a run; `goes_on` says whether anybody waits for it.
    ///
    /// # Errors
    /// What is wrong with the flags, or that nobody waits.
    pub(in crate::cli) fn run(&self, asked: &Asked, goes_on: GoesOn) -> Result<Ran, Unanswered> {
        let words = self.words("run", &asked.flags)?;
        let reel = asked.film.then_some(film::LONG);
        // Who asks for a film looks closer than who drags a slider.
        self.run_with(&words, reel, asked.film, goes_on)
    }

    /// Simulates a run with words of flags upon the scenario, so much of it filmed, and its times taken apart or not.
    ///
    /// # Errors
    /// What is wrong with the flags, or that nobody waits.
    pub(in crate::cli) fn run_with(
        &self,
        words: &[String],
        reel: Option<Reel>,
        is_taken_apart: bool,
        goes_on: GoesOn,
    ) -> Result<Ran, Unanswered> {
        let resolved = self.resolve(words);
        let (_, resolved) = resolved.map_err(|problems| self.wrong("run", words, &problems))?;
        let filming = reel.map(|reel| film::of(&resolved, reel));
        let begun = Instant::now();
        let told = run::told(&resolved, filming, is_taken_apart, &|| {
            self.goes_on(goes_on, begun)
        });
        let Some(told) = told else {
            return Err(self.cut("run", words, begun));
        };
        Ok(Ran {
            command: self.command("run", words),
            said: told.said,
            why: told.why,
            exit: told.exit as u8,
            result: written(&told.json),
            anatomy: told.anatomy.map(|anatomy| written(&anatomy)),
            groups: controls::of(&resolved),
            subject: subject::subject(&resolved),
            film: told.film,
        })
    }

    /// Looks for the knee; `goes_on` says whether anybody waits for it.
    ///
    /// # Errors
    /// What is wrong with the flags, that there is no knee, or that nobody waits.
    pub(in crate::cli) fn knee(&self, asked: &Asked, goes_on: GoesOn) -> Result<Searched, Unanswered> {
        self.knee_with(&self.words("knee", &asked.flags)?, goes_on)
    }

    /// Looks for the knee with words of flags upon the scenario.
    ///
    /// # Errors
    /// What is wrong with the flags, that there is no knee, or that nobody waits.
    pub(in crate::cli) fn knee_with(
        &self,
        words: &[String],
        goes_on: GoesOn,
    ) -> Result<Searched, Unanswered> {
        let resolved = self.resolve(words);
        let (document, resolved) = resolved.map_err(|problems| self.wrong("knee", words, &problems))?;
        let begun = Instant::now();
        match knee::told(&resolved, &document, &|| self.goes_on(goes_on, begun)) {
            Ok(Some(told)) => Ok(Searched {
                command: self.command("knee", words),
                said: told.said,
                exit: told.exit as u8,
                knee: written(&told.json),
            }),
            Ok(None) => Err(self.cut("knee", words, begun)),
            Err(error) => Err(match error.downcast_ref::<Diagnostics>() {
                Some(problems) => self.wrong("knee", words, problems),
                None => self.failed("knee", words, format!("{error:#}")),
            }),
        }
    }

    /// Explains; `goes_on` says whether anybody waits for it.
    ///
    /// # Errors
    /// What is wrong with the flags, or that nobody waits.
    pub(in crate::cli) fn explain(&self, asked: &Asked, goes_on: GoesOn) -> Result<Explained, Unanswered> {
        let words = self.words("explain", &asked.flags)?;
        let silent = Terminal::new(Colour::Never, true);
        let begun = Instant::now();
        let found = self.explain_with(&words, true, &silent, goes_on)?;
        // Half of the changes are no answer to whoever waited for them.
        match self.goes_on(goes_on, begun) {
            true => Ok(found),
            false => Err(self.cut("explain", &words, begun)),
        }
    }

    /// Explains with words of flags upon the scenario, as far as somebody waits, and tells a terminal how far it is.
    ///
    /// # Errors
    /// What is wrong with the flags, or that nobody waits.
    pub(in crate::cli) fn explain_with(
        &self,
        words: &[String],
        with_knees: bool,
        terminal: &Terminal,
        goes_on: GoesOn,
    ) -> Result<Explained, Unanswered> {
        let begun = Instant::now();
        let waits = || self.goes_on(goes_on, begun);
        let waiting = explain::Waiting {
            terminal,
            goes_on: &waits,
        };
        let told = explain::told(&self.flags, words, with_knees, waiting);
        let told = told.map_err(|problems| self.wrong("explain", words, &problems))?;
        let Some(told) = told else {
            return Err(self.cut("explain", words, begun));
        };
        Ok(Explained {
            command: self.command("explain", words),
            said: told.said,
            exit: told.exit as u8,
            explained: written(&told.json),
        })
    }

    fn goes_on(&self, goes_on: GoesOn, begun: Instant) -> bool {
        goes_on() && !interrupt::is_asked() && !self.is_late(begun)
    }

    fn is_late(&self, begun: Instant) -> bool {
        self.longest.is_some_and(|longest| begun.elapsed() > longest)
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

    fn cut(&self, command: &str, words: &[String], begun: Instant) -> Unanswered {
        match self.longest.filter(|longest| begun.elapsed() > *longest) {
            None => Unanswered::Gone,
            Some(longest) => {
                let why = format!(
                    "it was not done after {} s and is given up: its command takes as long as it takes",
                    longest.as_secs()
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
        let problems = reworded(problems, words).0.into_iter();
        Unanswered::Wrong {
            command: self.command(command, words),
            problems: problems
                .map(|Diagnostic { message, help, .. }| Problem { message, help })
                .collect(),
        }
    }

    /// The flags that were turned, as words of a command line.
    fn words(&self, command: &str, flags: &BTreeMap<String, String>) -> Result<Vec<String>, Unanswered> {
        let (mut words, mut limits, mut problems) = (Vec::new(), BTreeMap::new(), Vec::new());
        for (flag, value) in flags {
            if let Some(why) = allowed::refused(flag, value) {
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

/// What is wrong, in words for flags: whoever reads them knows variants of a comparison.
fn reworded(problems: &Diagnostics, words: &[String]) -> Diagnostics {
    let within = format!("in the variant `{}`: ", words.join(" "));
    let told = |problem: &Diagnostic| Diagnostic {
        message: problem.message.replace(&within, "").replace("`variant --", "`--"),
        ..problem.clone()
    };
    Diagnostics(problems.0.iter().map(told).collect())
}

/// What a printer wrote, to the last digit.
fn written(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.trim_end().to_owned()).expect("the printers write JSON")
}

#[cfg(test)]
mod tests;
