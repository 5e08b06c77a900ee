//! The ledger of one resolution: problems found, values assumed, and the fully spelt-out input.

use std::fmt::Display;

use serde::Serialize;
use toml::Value;

use super::diagnostic::{Diagnostic, Diagnostics, Place};
use super::document::{Document, Source};
use super::misfit::misfit_of;
use super::raw::{RawScenario, spelled};
use super::read;
use super::scalar::{Count, Duration, Rate};
use crate::quantity::{grouped, parse_duration};
use crate::units::Picos;

/// A value and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Key path in a scenario file.
    pub key: String,
    /// As it would be written there.
    pub value: String,
    /// Who gave it.
    pub source: Source,
}

impl Provenance {
    /// Whether nobody but a default gave the value.
    #[must_use]
    pub fn is_assumed(&self) -> bool {
        matches!(self.source, Source::Profile(_) | Source::Assumption(_))
    }
}

/// Fastest rate that is accepted, requests per second: beyond it gaps are too few picoseconds to be distinct.
const RATE_MAX: f64 = 1e9;

/// Slowest rate that is accepted: at it two come within the 213 days that the simulated clock shows.
const RATE_MIN: f64 = 1.1e-7;

/// Collects everything that `resolve` finds.
pub(super) struct Judge {
    /// The input, into which assumed values are written as they are found.
    pub(super) document: Document,
    /// The same as it was given.
    pub(super) asked: Document,
    pub(super) problems: Vec<Diagnostic>,
    pub(super) provenance: Vec<Provenance>,
    pub(super) notes: Vec<String>,
    /// Those of the notes that name something without effect.
    pub(super) ignored: Vec<String>,
    /// Tokens of the context that the longest prompt needs, where the traffic is known and no prompt may be refused.
    pub(super) least_context: u32,
    /// Keys were cut out because they had no right shape: what is missing may be there.
    is_cut: bool,
    /// Keys whose value was reported: something stands in for it, and what follows from that is no mistake of the user's.
    wrong: Vec<String>,
}

impl Judge {
    /// Ends where something was wrong.
    pub(super) fn check(&mut self) -> Result<(), Diagnostics> {
        match self.problems.is_empty() {
            true => Ok(()),
            false => Err(Diagnostics(std::mem::take(&mut self.problems))),
        }
    }

    /// Reads the shape of `document`.
    pub(super) fn new(document: Document) -> (Judge, RawScenario) {
        let (raw, problems, cut) = read::read(&document);
        let is_cut = !problems.is_empty();
        (
            Judge {
                asked: document.clone(),
                document,
                problems,
                provenance: Vec::new(),
                notes: Vec::new(),
                ignored: Vec::new(),
                least_context: 0,
                is_cut,
                wrong: cut,
            },
            raw,
        )
    }

    /// Reports a problem with the value of `key`: "`name` `problem`", with `label` at the place.
    pub(super) fn wrong(&mut self, key: &str, problem: &str, label: impl Into<String>) -> &mut Diagnostic {
        let message = format!("`{}` {problem}", self.document.name_of(key));
        self.wrong.push(key.to_string());
        self.report(Diagnostic::new(message).at(self.document.place(key)).label(label))
    }

    /// The same of a value that is wrong whatever stands beside it.
    pub(super) fn senseless(
        &mut self,
        key: &str,
        problem: &str,
        label: impl Into<String>,
    ) -> &mut Diagnostic {
        let problem = self.wrong(key, problem, label);
        problem.is_of_value = true;
        problem
    }

    /// Whether one of `keys`, or something within it, is already reported: a check of several values asks it first.
    pub(super) fn is_wrong(&self, keys: &[&str]) -> bool {
        let is_within = |outer: &str, inner: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut wrong = self.wrong.iter();
        wrong.any(|wrong| {
            keys.iter()
                .any(|key| is_within(key, wrong) || is_within(wrong, key))
        })
    }

    /// Reports a problem with a help line.
    pub(super) fn wrong_help(
        &mut self,
        key: &str,
        problem: &str,
        label: impl Into<String>,
        help: impl Into<String>,
    ) {
        let help = help.into();
        self.wrong(key, problem, label).help.push(help);
    }

    /// Refuses each of these keys that is given, all for the same reason.
    pub(super) fn refuse_given(&mut self, keys: &[(&str, bool)], problem: &str, label: &str, help: &str) {
        for (key, _) in keys.iter().filter(|(_, is_given)| *is_given) {
            self.wrong_help(key, problem, label, help);
        }
    }

    /// Reports that something is missing, unless it may have been cut out.
    pub(super) fn missing(&mut self, message: &str, help: &str) {
        if !self.is_cut {
            self.report(Diagnostic::new(message).help(help));
        }
    }

    /// Takes over what the judge of a part of the input has found: a problem once, and pointing at `root` where it has no
    /// place; values under the part's own keys, assumed ones into the part's own table; notes with the part's name.
    pub(super) fn hear(
        &mut self,
        part: &mut Judge,
        root: &str,
        name: &str,
        own_key: impl Fn(&str) -> String,
    ) {
        let problems = std::mem::take(&mut part.problems);
        for mut problem in problems {
            if problem.misfit.is_some() {
                problem = misfit_of(problem, name, &part.document);
                // What is said of all pools together fits the others.
                let shared = [
                    "cluster.gpu",
                    "engine.max_model_len",
                    "cluster.tensor_parallel_size",
                ];
                if shared.iter().any(|key| problem.place == self.place(key)) {
                    problem.place = self.place(&format!("{root}.name"));
                }
            }
            if problem.place == Place::Nowhere {
                problem.place = self.place(root);
            }
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        for mut value in part.provenance.drain(..) {
            let key = own_key(&value.key);
            if value.is_assumed() {
                self.document.adopt(&key, &part.document, &value.key);
                value.key = key;
            } else if self.document.get(&key).is_some() {
                value.key = key;
            }
            if self.provenance.iter().all(|known| known.key != value.key) {
                self.provenance.push(value);
            }
        }
        let of_pool = |note: String| format!("{name}: {note}");
        self.notes.extend(part.notes.drain(..).map(of_pool));
        self.ignored.extend(part.ignored.drain(..).map(of_pool));
    }

    /// Notes something that was given and has no effect.
    pub(super) fn ignore(&mut self, sentence: String) {
        self.ignored.push(sentence.clone());
        self.notes.push(sentence);
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        self.problems.push(diagnostic);
        self.problems.last_mut().expect("one was just pushed")
    }

    pub(super) fn place(&self, key: &str) -> Place {
        self.document.place(key)
    }

    /// Notes a given value's source, or writes down the default and its source.
    pub(super) fn take<T: Clone + Display + Into<Value>>(
        &mut self,
        key: &str,
        given: Option<T>,
        default: T,
        source: Source,
    ) -> T {
        match given {
            Some(value) => {
                self.given(key, &value);
                value
            }
            None => {
                self.assume(key, default.clone(), source);
                default
            }
        }
    }

    /// The same of a choice, which is written down in its own word.
    pub(super) fn choose<C: Copy + Serialize>(
        &mut self,
        key: &str,
        given: Option<C>,
        default: C,
        source: Source,
    ) -> C {
        self.take(key, given.map(spelled), spelled(default), source);
        given.unwrap_or(default)
    }

    /// Notes who gave a value.
    pub(super) fn given(&mut self, key: &str, value: impl Display) {
        if let Some(source) = self.document.source(key) {
            self.provenance.push(Provenance {
                key: key.to_string(),
                value: value.to_string(),
                source,
            });
        }
    }

    /// What a look-up of the profile `asked` for found, with what there is to note; `None`, reported, where there is no such.
    pub(super) fn profile<P>(
        &mut self,
        asked: &str,
        found: Result<(P, Option<String>), (String, String)>,
        name: impl Fn(&P) -> &str,
    ) -> Option<P> {
        let key = "engine.profile";
        self.given(key, asked);
        match found {
            Ok((profile, note)) => {
                self.notes.extend(note);
                if !asked.contains('@') {
                    // A scenario that is spelt out names the version: another release of Plimsoll may ship a newer one.
                    self.document.spell_out(key, name(&profile).into());
                }
                Some(profile)
            }
            Err((problem, help)) => {
                self.senseless(key, "cannot be used", problem).help.push(help);
                None
            }
        }
    }

    /// Writes down a value that nobody gave, and why it is so.
    pub(super) fn assume(&mut self, key: &str, value: impl Clone + Display + Into<Value>, source: Source) {
        self.provenance.push(Provenance {
            key: key.to_string(),
            value: value.to_string(),
            source: source.clone(),
        });
        let of = match source {
            Source::Profile(name) | Source::Assumption(name) | Source::Preset(name) | Source::Flag(name) => {
                name
            }
            Source::File { name, .. } => name,
        };
        self.document.set_default(key, value.into(), &of);
    }

    /// A count within limits; out of them it is reported and the nearest limit stands in for the rest of the checks.
    pub(super) fn count(
        &mut self,
        key: &str,
        given: Option<Count>,
        limits: (u64, u64),
        default: u64,
        source: Source,
    ) -> u32 {
        let value = self.take(key, given.map(|count| count.0 as i64), default as i64, source) as u64;
        self.within(key, value, limits)
    }

    /// A count that has to be there.
    pub(super) fn required(&mut self, key: &str, given: Count, limits: (u64, u64)) -> u32 {
        self.given(key, given);
        self.within(key, given.0, limits)
    }

    fn within(&mut self, key: &str, value: u64, (least, most): (u64, u64)) -> u32 {
        if value < least || value > most {
            let (problem, label) = match (least, most) {
                (1, _) if value == 0 => ("must be at least 1, not 0".to_string(), String::new()),
                _ => (
                    format!(
                        "must lie between {} and {}",
                        grouped_count(least),
                        grouped_count(most)
                    ),
                    format!("{} does not", grouped_count(value)),
                ),
            };
            // What is too many may be so for something else.
            self.wrong(key, &problem, label).is_of_value = value < least;
        }
        value.clamp(least, most) as u32
    }

    /// A fraction between 0 and 1, with or without its ends.
    pub(super) fn fraction(&mut self, key: &str, value: f64, zero: bool, one: bool) {
        let low = if zero { value >= 0.0 } else { value > 0.0 };
        let high = if one { value <= 1.0 } else { value < 1.0 };
        if low && high {
            return;
        }
        let (ends, not) = match (zero, one) {
            (true, true) => ("must lie between 0 and 1", "does not"),
            (true, false) => ("must be at least 0 and below 1", "is not"),
            (false, true) => ("must be above 0 and at most 1", "is not"),
            (false, false) => ("must lie between 0 and 1, ends left out", "does not"),
        };
        let problem = self.senseless(key, ends, format!("{value} {not}"));
        if (2.0..=100.0).contains(&value) {
            problem.label = format!("{value} is not a fraction");
            problem
                .help
                .push(format!("for {value} % write {}", value / 100.0));
        }
    }

    /// A number that must satisfy `is_right`, which `must` says in words.
    pub(super) fn number(&mut self, key: &str, value: f64, is_right: impl Fn(f64) -> bool, must: &str) {
        if !(value.is_finite() && is_right(value)) {
            // A limit above may be another value.
            let is_none = !(value.is_finite() && value > 0.0);
            self.wrong(key, must, format!("{value} is not")).is_of_value = is_none;
        }
    }

    /// A finite, positive rate of requests; `None` was reported.
    pub(super) fn rate(&mut self, key: &str, rate: Rate) -> Option<f64> {
        if rate.0 == f64::INFINITY {
            self.given(key, rate.0);
            let help = match self.document.set_by_flag(key) {
                Some(_) => {
                    "give a finite rate; a class that sends all at once has [workload.classes.arrivals.all_at_once]"
                }
                None => "use [workload.arrivals.all_at_once], or --request-rate inf",
            };
            self.wrong_help(key, "must be finite here", "this sends everything at once", help);
            return None;
        }
        self.rate_of(key, rate, "requests")
    }

    /// A finite, positive rate of `things` per second; `None` was reported.
    pub(super) fn rate_of(&mut self, key: &str, Rate(value): Rate, things: &str) -> Option<f64> {
        self.given(key, value);
        if value == f64::INFINITY {
            let help = "leave it out where nothing is limited";
            self.wrong_help(key, "must be finite here", "no limit at all", help);
        } else if value > RATE_MAX {
            self.senseless(
                key,
                &format!("must be at most 1e9 {things} per second"),
                format!("{value:e} leaves less than a nanosecond between two"),
            );
        } else if value > 0.0 && value < RATE_MIN {
            self.senseless(
                key,
                &format!("must be at least {RATE_MIN:e} {things} per second"),
                format!("{value:e} is less than two in the 213 days of the simulated clock"),
            );
        } else if value > 0.0 {
            return Some(value);
        } else {
            self.senseless(
                key,
                &format!("must be above 0 {things} per second"),
                format!("{value} is not"),
            );
        }
        None
    }

    /// A delay or a limit; `None` was reported.
    pub(super) fn duration(&mut self, key: &str, text: &Duration, may_be_zero: bool) -> Option<Picos> {
        let delay = self.span(key, text, may_be_zero)?;
        if delay > Picos::DELAY_MAX {
            self.senseless(key, "must be at most 30 days", format!("`{}` is longer", text.0));
            return None;
        }
        Some(delay)
    }

    /// A stretch of the clock, however long; `None` was reported.
    pub(super) fn span(&mut self, key: &str, text: &Duration, may_be_zero: bool) -> Option<Picos> {
        self.given(key, &text.0);
        match parse_duration(&text.0) {
            Ok(Picos::ZERO) if !may_be_zero => {
                self.senseless(key, "must be longer than 0", format!("`{}` is not", text.0));
                None
            }
            Ok(picos) => Some(picos),
            Err(error) => {
                let opposite = text.0.trim().strip_prefix('-').map(parse_duration);
                match opposite {
                    Some(Ok(_)) if may_be_zero => {
                        self.senseless(key, "must be at least 0", format!("`{}` is not", text.0))
                    }
                    Some(Ok(_)) => {
                        self.senseless(key, "must be longer than 0", format!("`{}` is not", text.0))
                    }
                    _ => self.senseless(key, "is not a duration", error.to_string()),
                };
                None
            }
        }
    }
}

/// `131,072`.
fn grouped_count(value: u64) -> String {
    grouped(&value.to_string())
}
