//! Commands of clients that have words of their own, put into those of `vllm bench serve`: `aiperf profile`, `genai-perf profile` and
//! `guidellm benchmark`.
//!
//! Names and defaults are AIPerf's (`docs/cli-options.md`, 0.13), whose predecessor GenAI-Perf is, and GuideLLM's (`guidellm benchmark run`).
//! Lengths that scatter are normal there and uniform here, with the same deviation. Left out: conversations, several loads in one
//! command, pictures and sound, files of prompts. Law: every flag is put into vLLM's words, named as without effect, or refused.

mod aiperf;
mod guidellm;

use super::others::of_program;
use crate::config::diagnostic::{Diagnostic, Place};

/// A command in vLLM's words.
#[derive(Debug)]
pub(super) struct Translated {
    /// The words behind `vllm bench serve`.
    pub(super) words: Vec<String>,
    /// How it was read, as sentences.
    pub(super) notes: Vec<String>,
    /// What has no effect, as sentences.
    pub(super) ignored: Vec<String>,
}

/// What a flag is followed by.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Nothing,
    One,
    /// All up to the next flag.
    Many,
}

/// What is done with a flag.
#[derive(Clone, Copy, PartialEq)]
enum Means {
    /// vLLM's flag of the same value.
    Flag(&'static str),
    /// Something that decides with others what is written.
    Part(Part),
    /// Nothing, and why.
    Idle(&'static str),
    /// It cannot be honoured, and what to do.
    Refused(&'static str),
}

/// What several flags say together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Rate,
    Concurrency,
    Pattern,
    Smoothness,
    Seconds,
    Prompt,
    PromptDeviation,
    Answer,
    AnswerDeviation,
    Prefixes,
    PrefixTokens,
    Data,
    File,
    FileKind,
    Scheduled,
    Turns,
}

type Row = (&'static [&'static str], Takes, Means);

/// Programs, and the word behind them that starts a benchmark.
const STARTS: [(&str, &str); 3] = [
    ("aiperf", "profile"),
    ("genai-perf", "profile"),
    ("guidellm", "benchmark"),
];

/// Why a connection's flags do nothing.
const CLIENT: &str = "there is no connection to make";
const SCREEN: &str = "it changes the client's screen and files only";
const TOKENS: &str = "tokens are counted, not made from text";

/// What a command says, by what it is a part of.
struct Said {
    /// The client's name.
    program: &'static str,
    parts: Vec<(Part, String, String)>,
    out: Translated,
    problems: Vec<Diagnostic>,
}

impl Said {
    fn wrong(&mut self, flag: &str, what: &str, help: &str) {
        let message = format!("in --bench-cmd: `{flag}` of {} {what}", self.program);
        let problem = Diagnostic::new(message).at(Place::Flag(format!("--bench-cmd {flag}")));
        self.problems.push(problem.help(help));
    }

    /// A flag without effect.
    fn idle(&mut self, flag: &str, why: &str) {
        self.out
            .ignored
            .push(format!("{flag} of {} has no effect: {why}", self.program));
    }

    /// The last that was said of a part, and by which flag.
    fn part(&self, part: Part) -> Option<(String, String)> {
        let said = self.parts.iter().rev().find(|(of, ..)| *of == part);
        said.map(|(_, flag, value)| (flag.clone(), value.clone()))
    }

    /// A number; what is none is a problem.
    fn number(&mut self, part: Part) -> Option<f64> {
        let (flag, value) = self.part(part)?;
        let number = value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.wrong(&flag, &format!("is `{value}`"), "write one number, 0 or more");
        }
        number
    }

    fn put(&mut self, flag: &str, value: impl ToString) {
        self.out.words.extend([flag.to_owned(), value.to_string()]);
    }

    /// Lengths, and how they scatter.
    fn put_lengths(&mut self, prompt: (Option<f64>, f64), answer: (Option<f64>, f64)) {
        for (flag, mean) in [
            ("--random-input-len", prompt.0),
            ("--random-output-len", answer.0),
        ] {
            if let Some(mean) = mean {
                self.put(flag, mean.round());
            }
        }
        // A uniform law from (1 − r) to (1 + r) times the mean has a deviation of r / √3 of it.
        let ratio = |(mean, deviation): (Option<f64>, f64)| {
            let mean = mean.filter(|mean| *mean > 0.0)?;
            Some(3f64.sqrt() * deviation / mean).filter(|ratio| *ratio > 0.0)
        };
        let (input, output) = (ratio(prompt), ratio(answer));
        if input.is_none() && output.is_none() {
            return;
        }
        let (input, output) = (input.unwrap_or(0.0), output.unwrap_or(0.0));
        if input.max(output) >= 1.0 {
            let program = self.program;
            let what =
                format!("in --bench-cmd: lengths of {program} scatter by more than 58 % of their mean");
            let help = "no uniform law has such a deviation: write [workload.lengths] of a scenario, lognormal or from a file";
            self.problems.push(
                Diagnostic::new(what)
                    .at(Place::Flag("--bench-cmd".to_owned()))
                    .help(help),
            );
            return;
        }
        self.put(
            "--random-range-ratio",
            format!(r#"{{"input": {input:.4}, "output": {output:.4}}}"#),
        );
        self.out.notes.push(format!(
            "lengths are normal in {}, and uniform here with the same deviations",
            self.program
        ));
    }
}

/// The arguments behind the program's name, by a table of its flags.
fn read(said: &mut Said, args: &[String], table: &[&[Row]]) {
    let mut rest = args.iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            said.idle("--", "what stands behind -- tunes the client");
            return;
        }
        if !word.starts_with('-') {
            said.wrong(
                word,
                "stands where a flag is expected",
                "quote values with blanks in them",
            );
            continue;
        }
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let name = flag.trim_start_matches('-').replace('_', "-");
        let mut rows = table.iter().flat_map(|rows| rows.iter());
        let Some((_, takes, means)) = rows.find(|(names, ..)| names.contains(&name.as_str())) else {
            said.wrong(
                flag,
                "is not known here",
                "leave it out, and say what it means by a flag of Plimsoll beside --bench-cmd",
            );
            if rest.peek().is_some_and(|next| !next.starts_with('-')) {
                rest.next();
            }
            continue;
        };
        let mut values: Vec<String> = attached.into_iter().collect();
        let most = match takes {
            Takes::Nothing => 0,
            Takes::One => 1,
            Takes::Many => usize::MAX,
        };
        while values.len() < most && rest.peek().is_some_and(|next| !is_flag(next)) {
            values.extend(rest.next().cloned());
        }
        if values.is_empty() && *takes != Takes::Nothing {
            said.wrong(flag, "has no value", "write one behind it");
            continue;
        }
        match means {
            Means::Flag(vllms) => {
                said.out.words.push((*vllms).to_owned());
                said.out.words.extend(values);
            }
            Means::Part(part) => {
                if let Some((earlier, value)) = said.part(*part) {
                    said.idle(&format!("{earlier} {value}"), "the last one counts");
                }
                said.parts.push((*part, flag.to_owned(), values.join(" ")));
            }
            Means::Idle(why) => said.idle(flag, why),
            Means::Refused(help) => said.wrong(flag, "is not modelled", help),
        }
    }
}

/// Whether a word is a flag and no negative number.
fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word.parse::<f64>().is_err()
}

/// The command in vLLM's words; `None` where it starts none of these clients.
pub(super) fn in_vllms_words(words: &[String]) -> Option<Result<Translated, Vec<Diagnostic>>> {
    // What is followed by another word may be the value of a flag.
    let starts = |at: usize| {
        let (word, next) = (of_program(&words[at]), words.get(at + 1)?);
        STARTS
            .into_iter()
            .find(|(program, action)| *program == word && *action == next)
    };
    let (at, (program, _)) = (0..words.len()).find_map(|at| Some((at, starts(at)?)))?;
    let behind = &words[at + 2..];
    let ends = [";", "&", "&&", "|", "||", ">", ">>", "2>&1", "2>"];
    let end = behind.iter().position(|word| ends.contains(&word.as_str()));
    let behind = &behind[..end.unwrap_or(behind.len())];
    let mut said = Said {
        program,
        parts: Vec::new(),
        out: Translated {
            words: vec!["--dataset-name".to_owned(), "random".to_owned()],
            notes: Vec::new(),
            ignored: Vec::new(),
        },
        problems: Vec::new(),
    };
    // `guidellm benchmark run` is the same.
    let behind = behind.strip_prefix(&["run".to_owned()]).unwrap_or(behind);
    match program {
        "guidellm" => guidellm::put(&mut said, behind),
        _ => aiperf::put(&mut said, behind),
    }
    if !said.problems.is_empty() {
        return Some(Err(said.problems));
    }
    let whole = said.out.words.iter().map(String::as_str);
    let whole = shlex::try_join(whole).unwrap_or_default();
    said.out
        .notes
        .insert(0, format!("{program} is read as `vllm bench serve {whole}`"));
    Some(Ok(said.out))
}

#[cfg(test)]
mod tests;
