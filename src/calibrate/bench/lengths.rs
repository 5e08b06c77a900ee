//! The lengths of every request, where a file has them: the run's own traffic instead of a law around its means. What is
//! said of lengths that are only assumed, and which cannot be those of the run.

use std::fmt::Write;

use crate::config::{Document, Files, Resolved};
use crate::results::{Load, Measured};

/// Every request of a run: when it was sent, s, its prompt and its answer, tokens.
pub(super) struct Recorded {
    requests: Vec<(f64, u64, u64)>,
    has_starts: bool,
    is_open: bool,
}

/// The name under which the scenario finds them.
const NAME: &str = "requests-of-the-file.csv";

impl Recorded {
    /// `None` where the file does not have all lengths, or where its load is neither open, closed nor a burst.
    pub(super) fn of(row: &Measured) -> Option<Recorded> {
        let is_open = matches!(row.setup.load, Load::Open { .. } | Load::Trace);
        let is_known = matches!(
            row.setup.load,
            Load::Open { .. } | Load::Trace | Load::Closed { .. } | Load::Burst
        );
        if row.requests.is_empty() || !is_known {
            return None;
        }
        let starts = row.requests.iter().map(|request| request.start_s);
        let first = starts.clone().flatten().reduce(f64::min);
        let has_starts = starts.clone().all(|start| start.is_some());
        let requests: Option<Vec<(f64, u64, u64)>> = row
            .requests
            .iter()
            .map(|request| {
                let start = request
                    .start_s
                    .zip(first)
                    .map_or(0.0, |(start, first)| start - first);
                let (input, output) = (request.input_tokens?, request.output_tokens);
                (input >= 1.0 && output >= 1.0).then_some((start, input as u64, output as u64))
            })
            .collect();
        let mut requests = requests?;
        if is_open && has_starts {
            requests.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        // Without its times an open loop is drawn anew, with lengths from the list.
        Some(Recorded {
            requests,
            has_starts,
            is_open,
        })
    }

    /// Replaces the traffic of a scenario.
    pub(super) fn put(&self, document: &mut Document) {
        let path = toml::Value::from(NAME);
        let flag = "the requests of the file";
        document.remove("workload.prefix");
        if self.is_open && !self.has_starts {
            document.set("workload.lengths.file.path", path, flag);
            return;
        }
        document.remove("workload.lengths");
        document.remove("workload.num_prompts");
        document.set("workload.arrivals.trace.path", path, flag);
    }

    /// What the runs are made of.
    pub(super) fn words(&self) -> String {
        let count = self.requests.len();
        match (self.is_open, self.has_starts) {
            (true, true) => format!("the times and lengths of its {count} requests"),
            (true, false) => format!("lengths drawn from its {count} requests"),
            (false, _) => format!("the lengths of its {count} requests"),
        }
    }

    /// As a trace in Vidur's columns, which hold no more than this.
    fn csv(&self) -> String {
        let mut text = "arrived_at,num_prefill_tokens,num_decode_tokens\n".to_owned();
        for (start, input, output) in &self.requests {
            let start = if self.is_open { *start } else { 0.0 };
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{start:.9},{input},{output}");
        }
        text
    }
}

/// The disk, and the requests beside it.
pub(super) struct WithFile<'a> {
    pub(super) recorded: Option<&'a Recorded>,
    pub(super) files: &'a dyn Files,
}

impl Files for WithFile<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        match self.recorded {
            Some(recorded) if path == NAME => Ok(recorded.csv().into_bytes()),
            _ => self.files.read(path),
        }
    }
}

/// How far a law's mean may be from the file's, of the logarithm: means of a few hundred drawn lengths scatter less.
pub(super) const LENGTHS_APART: f64 = 0.2;

/// Longest mean of prompts or answers, tokens: more than any model's context.
const LENGTH_MAX: f64 = 1e9;

/// Refuses lengths that are of another run: one command for several files is easily pasted.
pub(super) fn check(row: &Measured, document: &Document) -> Result<(), String> {
    let number = |key: &str| {
        document
            .get(key)
            .and_then(toml::Value::as_integer)
            .map(|n| n as f64)
    };
    let of_law = |key: &str| {
        number(&format!("workload.lengths.fixed.{key}")).or(number(&format!("workload.lengths.random.{key}")))
    };
    let prefix = number("workload.prefix.groups.prefix_len").unwrap_or(0.0);
    let kinds = [
        (
            "prompts",
            row.setup.input_tokens,
            of_law("input_len").map(|tokens| tokens + prefix),
        ),
        ("answers", row.setup.output_tokens, of_law("output_len")),
    ];
    for (what, of_file, said) in kinds {
        if let Some(tokens) = of_file.filter(|tokens| *tokens > LENGTH_MAX) {
            return Err(format!(
                "its {what} have {tokens:.3e} tokens in the mean, and no model takes as many"
            ));
        }
        if let Some(tokens) = of_file.filter(|tokens| *tokens < 1.0) {
            return Err(format!(
                "its {what} have {tokens:.2e} tokens in the mean, fewer than one: its counts are not of one run"
            ));
        }
        if let (Some(of_file), Some(said)) = (of_file, said)
            && (said / of_file).ln().abs() > LENGTHS_APART
        {
            return Err(format!(
                "its {what} have {of_file:.0} tokens in the mean, and {said:.0} are said beside it; write FILE= before a \
                 --bench-cmd or --scenario that is for one file"
            ));
        }
    }
    Ok(())
}

/// What is assumed where nobody says how lengths were drawn.
pub(super) fn equal(row: &Measured) -> String {
    let tokens = |tokens: Option<f64>| tokens.map_or("?".to_owned(), |tokens| format!("{tokens:.0}"));
    format!(
        "lengths are equal, {} and {} tokens each; --bench-cmd says how they were drawn, and without it intervals reach to lengths \
         that scatter",
        tokens(row.setup.input_tokens),
        tokens(row.setup.output_tokens)
    )
}

/// How far means of one law may be apart, of the logarithm: those of a few hundred drawn lengths.
const SAME_MEANS: f64 = 0.1;

/// What runs have in common that repeat each other: load, mean lengths, and what the server takes in a step.
pub(super) fn load_key(row: &Measured, resolved: &Resolved) -> String {
    let rough = |tokens: Option<f64>| tokens.map_or(0.0, |tokens| (tokens.ln() / SAME_MEANS).round());
    let engine = &resolved.scenario.first_pool().engine;
    format!(
        "{}, {} in, {} out, {} seats, {} tokens a step, {}",
        row.setup.load,
        rough(row.setup.input_tokens),
        rough(row.setup.output_tokens),
        engine.max_num_seqs(),
        engine.prompt_tokens_per_step(),
        resolved.placement.asynchronous
    )
}
