//! Request traces: read as their publishers write them, described, and fitted to a workload that can be shared.
//!
//! Readers take bytes; only the shell opens files. Gzip and tar are told by their first bytes, the format by its first
//! line. What a file does not say is assumed in the open: every assumption and every row left out is a note of the
//! [`Trace`]. What is wrong is an error with a place, never a guess and never a panic. Turns that wait for an answer are read of
//! one format, kv-cache-tester's sessions ([`Trace::conversations`]); every other trace is a list of fixed instants, and turns that
//! wait (`delay`, agentic sub-requests) are refused.

mod container;
mod describe;
mod error;
mod fit;
mod fit_arrivals;
mod fit_prefix;
mod format;
mod hits;
mod json_lines;
mod losses;
mod mooncake;
mod queue;
mod results;
mod rows;
mod servegen;
mod sharegpt;
mod tables;
mod ticks;
mod toml_text;
mod twin;
mod weka;
mod words;

pub use describe::{
    ArrivalSummary, Description, Dispersion, LengthSummary, PrefixShare, Sessions, ThinkTimes, describe,
};
pub use error::{PROBLEMS_SHOWN, Place, Problem, TraceError};
pub use fit::{FitError, FittedWorkload, fit};
pub use fit_arrivals::{FittedArrivals, Rounded};
pub use format::{Format, TimeUnit};
pub use hits::{Caches, HitRates};
pub use mooncake::{Asked, salted};
pub use toml_text::Compared;

use std::borrow::Cow;

use crate::units::Picos;
use crate::workload::{Arrivals, Lengths, Plan, Request};
use error::Problems;
use rows::Rows;

/// Unpacked text larger than this is refused, so that a small malicious file cannot fill the memory.
const BYTES_MAX: u64 = 4_000_000_000;

/// Requests as they were, ready to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What the file was.
    pub format: Format,
    /// What its times counted; `None` for dates and for files without times.
    pub time_unit: Option<TimeUnit>,
    /// In order of arrival, counted from the first.
    pub requests: Vec<Request>,
    /// Whether arrivals are the file's; otherwise every request arrives at 0.
    pub has_arrivals: bool,
    /// What was assumed, ignored or left out, with counts.
    pub notes: Vec<String>,
    /// What looks like a mistake but can be read.
    pub warnings: Vec<String>,
    /// Tokens that one hash id stands for; `None` where nothing tells what prompts share.
    pub block: Option<u32>,
    /// What the file calls each text that a hash id stands for, by the number of its segment here; empty where it has none.
    pub hash_ids: Vec<u64>,
    /// The conversation of each request, numbered from 0; empty where the file does not say.
    pub sessions: Vec<u32>,
    /// Where turns wait for answers instead of coming at instants: who waits for whom. Requests then stand conversation after
    /// conversation.
    pub conversations: Option<Plan>,
}

impl Trace {
    /// The requests as they came, for replay; `time_scale` stretches their arrivals (2 is half the rate). `None` where
    /// the file has no times.
    #[must_use]
    pub fn replay(&self, time_scale: f64) -> Option<Arrivals> {
        let requests = self.has_arrivals.then(|| self.requests.as_slice().into())?;
        Some(Arrivals::Replay { requests, time_scale })
    }

    /// The lengths alone, to be drawn with replacement under other arrivals.
    #[must_use]
    pub fn lengths(&self) -> Lengths {
        Lengths::Empirical {
            pairs: self
                .requests
                .iter()
                .map(|request| (request.prompt_tokens, request.output_tokens))
                .collect(),
        }
    }
}

/// How to read a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOptions {
    /// Its format; `None` looks at the file.
    pub format: Option<Format>,
    /// What its times count; `None` takes the format's own unit.
    pub time_unit: Option<TimeUnit>,
    /// Tokens of one hash id; `None` takes the format's own, or the one that all rows agree with.
    pub block: Option<u32>,
    /// Leaves out rows without prompt or output tokens instead of complaining.
    pub skip_empty: bool,
    /// ShareGPT: leaves out what `vllm bench serve --dataset-name sharegpt` does (B-17).
    pub vllm_filter: bool,
    /// ShareGPT: characters of Latin text that make a token, where the file has no counts.
    pub chars_per_token: f64,
    /// ServeGen: start and length of the window to draw; `None` is the busiest hour.
    pub window: Option<(Picos, Picos)>,
    /// ServeGen: seed of the draw.
    pub seed: u64,
    /// Most bytes of unpacked text.
    pub bytes_max: u64,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            format: None,
            time_unit: None,
            block: None,
            skip_empty: false,
            vllm_filter: false,
            chars_per_token: 4.0,
            window: None,
            seed: 0,
            bytes_max: BYTES_MAX,
        }
    }
}

/// Reads a trace from a file's bytes; `name` is for messages.
///
/// # Errors
/// Everything that is wrong with the file, located, up to [`PROBLEMS_SHOWN`] in full.
pub fn read(bytes: &[u8], name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let plain = |problem: Problem| Problems::from(problem).into_error(name, None);
    check_options(options).map_err(plain)?;
    let bytes = match container::gunzip(bytes, options.bytes_max) {
        Some(unpacked) => Cow::Owned(unpacked.map_err(plain)?),
        None => Cow::Borrowed(bytes),
    };
    if container::is_tar(&bytes) {
        return read_archive(&bytes, name, options);
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let format = match options.format {
        Some(format) if text.iter().all(u8::is_ascii_whitespace) => {
            let empty = Problem::new(
                Place::File,
                "",
                "the file is empty",
                "a trace has at least one request",
            );
            return Err(Problems::from(empty).into_error(name, Some(format)));
        }
        Some(format) => format,
        None => format::sniff(text).map_err(plain)?,
    };
    let mut rows = Rows::new(name, format, options);
    check_applies(&mut rows);
    match format {
        Format::Azure
        | Format::Burstgpt
        | Format::VidurLengths
        | Format::VidurTrace
        | Format::SplitwiseSim => tables::read(text, &mut rows),
        Format::Mooncake | Format::Bailian | Format::LlmServingSim | Format::ApexPlus => {
            json_lines::read(text, &mut rows)
        }
        Format::Sharegpt => sharegpt::read(text, &mut rows),
        Format::VllmBench => results::read(text, &mut rows),
        Format::Weka => return weka::read(text, rows),
        Format::Servegen => {
            let what = "is one file: ServeGen profiles come as many";
            let help =
                "pack the client files: tar czf profiles.tar.gz chunk-*-trace.csv chunk-*-dataset.json";
            rows.problems.push(Problem::new(Place::File, "", what, help));
        }
    }
    rows.finish()
}

/// Reads a tar: ServeGen profiles, conversations in a file each, or one trace file packed by itself.
fn read_archive(bytes: &[u8], name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let plain = |problem: Problem| Problems::from(problem).into_error(name, None);
    let members = container::untar(bytes).map_err(plain)?;
    if members.iter().any(|member| servegen::is_profile(&member.name)) {
        let mut rows = Rows::new(name, Format::Servegen, options);
        check_applies(&mut rows);
        servegen::read(&members, &mut rows);
        return rows.finish();
    }
    let mut of_sessions = members.iter().filter(|member| weka::may_hold(&member.name));
    let is_weka = match options.format {
        Some(format) => format == Format::Weka,
        None => of_sessions.any(|member| format::sniff(&member.bytes) == Ok(Format::Weka)),
    };
    if is_weka {
        let mut rows = Rows::new(name, Format::Weka, options);
        check_applies(&mut rows);
        return weka::read_members(&members, rows);
    }
    match members.as_slice() {
        [only] if !container::is_tar(&only.bytes) => {
            read(&only.bytes, &format!("{name}: {}", only.name), options)
        }
        _ => {
            let what = format!(
                "is an archive of {} files without ServeGen's chunk-N-trace.csv or kv-cache-tester's sessions",
                members.len()
            );
            Err(plain(Problem::new(
                Place::File,
                "",
                what,
                "unpack it and name one trace",
            )))
        }
    }
}

/// An option that the format has no use for is a mistake, not something to pass over.
fn check_applies(rows: &mut Rows) {
    let (format, options) = (rows.format, rows.options);
    let json_lines = matches!(format, Format::Mooncake | Format::Bailian | Format::LlmServingSim);
    let asked = [
        (
            "time_unit",
            options.time_unit.is_some(),
            format.time_unit().is_some() && format != Format::Servegen,
        ),
        ("block", options.block.is_some(), json_lines),
        ("vllm_filter", options.vllm_filter, format == Format::Sharegpt),
        ("window", options.window.is_some(), format == Format::Servegen),
    ];
    for (name, _, _) in asked.into_iter().filter(|&(_, asked, applies)| asked && !applies) {
        let what = format!("does not apply to {format}");
        let help = "leave the option out, or name the format with --read-as";
        rows.problems
            .push(Problem::new(Place::Item("option".to_owned()), name, what, help));
    }
}

/// Options come from flags: each is checked where it would divide by zero or mean nothing.
fn check_options(options: &ReadOptions) -> Result<(), Problem> {
    let wrong = |flag: &str, what: &str, help: &str| {
        Err(Problem::new(Place::Item("option".to_owned()), flag, what, help))
    };
    if options.block == Some(0) {
        return wrong("block", "is 0 tokens", "Mooncake's is 512, Bailian's 16");
    }
    if !(options.chars_per_token.is_finite() && options.chars_per_token > 0.0) {
        return wrong(
            "chars_per_token",
            "is not a positive number",
            "English text has about 4",
        );
    }
    if options.window.is_some_and(|(_, length)| length == Picos::ZERO) {
        return wrong("window", "is empty", "a window has a start and a later end");
    }
    Ok(())
}
