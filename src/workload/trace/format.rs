//! Which trace formats are read, what their clock counts, and how a file is recognised by its first bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::{Place, Problem};
use super::weka;

/// A published trace format, as the publisher writes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Azure LLM inference traces 2023 and 2024: `TIMESTAMP,ContextTokens,GeneratedTokens`.
    Azure,
    /// Mooncake JSON lines: `timestamp` (ms), `input_length`, `output_length`, `hash_ids` (512 tokens).
    Mooncake,
    /// Qwen-Bailian JSON lines: `chat_id`, `parent_chat_id`, `timestamp` (s), lengths, `hash_ids` (16 tokens).
    Bailian,
    /// BurstGPT CSV: `Timestamp` (s), `Request tokens`, `Response tokens`; 0 response tokens is a failed request.
    Burstgpt,
    /// Vidur and sarathi-serve length lists: `num_prefill_tokens,num_decode_tokens`, no arrivals.
    VidurLengths,
    /// Vidur traces: `arrived_at` (s), `num_prefill_tokens`, `num_decode_tokens`.
    VidurTrace,
    /// splitwise-sim CSV: `arrival_timestamp` (s), `prompt_size`, `token_size`.
    SplitwiseSim,
    /// LLMServingSim JSON lines, flat: `arrival_time_ns`, `input_toks`, `output_toks`.
    LlmServingSim,
    /// APEX+ JSON lines: `StartTimeOffset` (ns), `ContextTokens`, `GeneratedTokens`.
    ApexPlus,
    /// ShareGPT conversations as JSON; tokens counted in the file or estimated from the text.
    Sharegpt,
    /// The result of `vllm bench serve --save-detailed`.
    VllmBench,
    /// Agentic coding sessions of WEKA's kv-cache-tester: `requests` with `t` (s), `in`, `out`, `hash_ids` (64 tokens), a conversation a file.
    Weka,
    /// ServeGen client profiles (a tar of `chunk-N-trace.csv` and `chunk-N-dataset.json`): a trace is drawn from them.
    Servegen,
}

impl Format {
    /// The format's name in prose.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Format::Azure => "Azure CSV",
            Format::Mooncake => "Mooncake JSONL",
            Format::Bailian => "Qwen-Bailian JSONL",
            Format::Burstgpt => "BurstGPT CSV",
            Format::VidurLengths => "Vidur lengths CSV",
            Format::VidurTrace => "Vidur trace CSV",
            Format::SplitwiseSim => "splitwise-sim CSV",
            Format::LlmServingSim => "LLMServingSim JSONL",
            Format::ApexPlus => "APEX+ JSONL",
            Format::Sharegpt => "ShareGPT JSON",
            Format::VllmBench => "vllm bench serve --save-detailed JSON",
            Format::Weka => "kv-cache-tester sessions",
            Format::Servegen => "ServeGen client profiles",
        }
    }

    /// What one unit of the file's time column is; `None` where it holds dates, or no times at all.
    #[must_use]
    pub fn time_unit(self) -> Option<TimeUnit> {
        match self {
            Format::Azure | Format::VidurLengths | Format::Sharegpt | Format::Weka => None,
            Format::Mooncake => Some(TimeUnit::Ms),
            Format::LlmServingSim | Format::ApexPlus => Some(TimeUnit::Ns),
            _ => Some(TimeUnit::S),
        }
    }

    /// Tokens that one hash id stands for, where the format has hash ids.
    #[must_use]
    pub fn block(self) -> Option<u32> {
        match self {
            Format::Mooncake => Some(512),
            Format::Bailian => Some(16),
            Format::Weka => Some(64),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// What a number in a time column counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Picoseconds in one.
    #[must_use]
    pub fn picos(self) -> u64 {
        match self {
            TimeUnit::Ns => 1_000,
            TimeUnit::Us => 1_000_000,
            TimeUnit::Ms => 1_000_000_000,
            TimeUnit::S => 1_000_000_000_000,
        }
    }

    /// The unit in prose.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            TimeUnit::Ns => "nanoseconds",
            TimeUnit::Us => "microseconds",
            TimeUnit::Ms => "milliseconds",
            TimeUnit::S => "seconds",
        }
    }

    /// As the flag `--time-unit` spells it.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Us => "us",
            TimeUnit::Ms => "ms",
            TimeUnit::S => "s",
        }
    }
}

/// Files that are no text, told by how they begin.
const NOT_TEXT: [(&[u8], &str, &str); 7] = [
    (b"PK\x03\x04", "a zip archive", "unpack it first: unzip FILE"),
    (
        b"\x28\xb5\x2f\xfd",
        "zstd-compressed",
        "unpack it first: zstd -d FILE",
    ),
    (b"\xfd7zXZ", "xz-compressed", "unpack it first: xz -d FILE"),
    (b"BZh", "bzip2-compressed", "unpack it first: bunzip2 FILE"),
    (b"PAR1", "a Parquet file", "write it as CSV or JSON lines first"),
    (b"\xff\xfe", "UTF-16 text", "save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "save it as UTF-8"),
];

/// How much of a JSON file is looked through for its keys.
const HEAD: usize = 1 << 16;

/// Recognises the format of an unpacked text file.
pub(super) fn sniff(bytes: &[u8]) -> Result<Format, Problem> {
    if let Some((_, what, help)) = NOT_TEXT.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Err(Problem::new(
            Place::File,
            "",
            format!("the file is {what}"),
            *help,
        ));
    }
    let start = bytes
        .iter()
        .position(|b| !b.is_ascii_whitespace())
        .unwrap_or(bytes.len());
    let text = &bytes[start..];
    let first = text.split(|&b| b == b'\n').next().unwrap_or_default();
    match text.first() {
        None => Err(Problem::new(
            Place::File,
            "",
            "the file is empty",
            "a trace has at least one request",
        )),
        Some(b'[') if has_key(&text[..text.len().min(HEAD)], "conversations") => Ok(Format::Sharegpt),
        Some(b'[') if weka::is_conversation(&text[..text.len().min(HEAD)], has_key) => Ok(Format::Weka),
        Some(b'[') => Err(unknown(
            "the JSON list has no `conversations`, as ShareGPT's has, and no `requests`, as kv-cache-tester's has",
        )),
        Some(b'{') => sniff_object(text, first),
        Some(_) => sniff_header(first),
    }
}

/// Tells the JSON formats apart by the keys of the first object.
fn sniff_object(text: &[u8], first: &[u8]) -> Result<Format, Problem> {
    let by_key = [
        ("chat_id", Format::Bailian),
        ("input_toks", Format::LlmServingSim),
        ("sub_requests", Format::LlmServingSim),
        ("StartTimeOffset", Format::ApexPlus),
        ("input_length", Format::Mooncake),
        ("input_tokens", Format::Mooncake),
        ("hash_ids", Format::Mooncake),
        ("text_input", Format::Mooncake),
        ("conversations", Format::Sharegpt),
        ("input_lens", Format::VllmBench),
        ("request_throughput", Format::VllmBench),
    ];
    // A result of the client also has keys that other formats use for their rows.
    let head = &text[..text.len().min(HEAD)];
    if has_key(head, "request_throughput") && has_key(head, "completed") {
        return Ok(Format::VllmBench);
    }
    if weka::is_conversation(head, has_key) {
        return Ok(Format::Weka);
    }
    let found = |part: &[u8]| {
        by_key
            .iter()
            .find(|(key, _)| has_key(part, key))
            .map(|&(_, format)| format)
    };
    found(first).or_else(|| found(head)).ok_or_else(|| {
        unknown("the JSON object has none of the keys that known traces have (`timestamp` and `input_length`, `arrival_time_ns`, `input_lens`, …)")
    })
}

/// Whether a JSON text has a key. Looked for as text: a file cut short, or broken, still names its keys.
fn has_key(text: &[u8], key: &str) -> bool {
    let quoted = format!("\"{key}\"");
    text.windows(quoted.len())
        .any(|window| window == quoted.as_bytes())
}

/// What to write over columns of one's own.
pub(super) const OWN_HEADER: &str = "write `arrived_at,num_prefill_tokens,num_decode_tokens` over columns with seconds, prompt tokens and output \
                          tokens, `TIMESTAMP,ContextTokens,GeneratedTokens` where the first holds dates with times of day, or \
                          `num_prefill_tokens,num_decode_tokens` over lengths without times";

/// Tells the CSV formats apart by their header.
fn sniff_header(first: &[u8]) -> Result<Format, Problem> {
    let line = String::from_utf8_lossy(first);
    let columns: Vec<String> = line.split(',').map(column_name).collect();
    let has = |names: &[&str]| {
        names
            .iter()
            .all(|name| columns.iter().any(|column| column == name))
    };
    if has(&["timestamp", "contexttokens", "generatedtokens"]) {
        Ok(Format::Azure)
    } else if has(&["timestamp", "request tokens", "response tokens"]) {
        Ok(Format::Burstgpt)
    } else if has(&["arrived_at", "num_prefill_tokens", "num_decode_tokens"]) {
        Ok(Format::VidurTrace)
    } else if has(&["num_prefill_tokens", "num_decode_tokens"]) {
        Ok(Format::VidurLengths)
    } else if has(&["arrival_timestamp", "prompt_size", "token_size"]) {
        Ok(Format::SplitwiseSim)
    } else {
        // What is no text would only disturb the terminal.
        let is_text = !line.contains(['\u{fffd}', '\0']);
        if !is_text {
            return Err(unknown("the file begins with bytes that are no text"));
        }
        let shown: String = line.chars().filter(|c| !c.is_control()).take(80).collect();
        let problem = unknown(&format!(
            "the first line is no header of a known trace: `{shown}`"
        ));
        Err(Problem {
            help: format!("{OWN_HEADER}; {}", problem.help),
            ..problem
        })
    }
}

/// A header cell as it is compared: without quotes, blanks around it, byte-order mark and case.
pub(super) fn column_name(cell: &str) -> String {
    cell.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\u{feff}')
        .to_ascii_lowercase()
}

fn unknown(what: &str) -> Problem {
    let help = "read: Azure, BurstGPT, Vidur and splitwise-sim CSV; Mooncake, Bailian, LLMServingSim and APEX+ JSON lines; ShareGPT JSON; kv-cache-tester sessions; \
                `vllm bench serve --save-detailed` results; ServeGen profiles as .tar.gz. Name one with --read-as to see its own complaints";
    Problem::new(Place::Line(1), "", what, help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Format) {
        assert_eq!(sniff(text.as_bytes()), Ok(expected), "{text}");
    }

    #[test]
    fn what_is_no_text_is_not_printed() {
        let told = sniff(b"\x9d\xe5\x00\x1b[31m junk").unwrap_err();
        let told = format!("{told:?}");
        assert!(told.contains("no text") && !told.contains("junk"), "{told}");
    }

    #[test]
    fn formats_are_told_by_their_first_line() {
        check("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023", Format::Azure);
        check("\u{feff}TIMESTAMP,ContextTokens,GeneratedTokens", Format::Azure);
        check(
            "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
            Format::Burstgpt,
        );
        check(
            "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n",
            Format::VidurLengths,
        );
        check(
            "arrived_at,num_prefill_tokens,num_decode_tokens\n",
            Format::VidurTrace,
        );
        check(
            "{\"timestamp\": 0, \"input_length\": 3, \"output_length\": 1, \"hash_ids\": [0]}\n",
            Format::Mooncake,
        );
        check(
            "{\"chat_id\": 1, \"timestamp\": 0, \"input_length\": 3}\n",
            Format::Bailian,
        );
        check(
            "{\"input_toks\": 5, \"output_toks\": 1, \"arrival_time_ns\": 0}",
            Format::LlmServingSim,
        );
        check(
            "{\n  \"date\": \"\",\n  \"input_lens\": [1]\n}",
            Format::VllmBench,
        );
        check(
            "{\"completed\": 1, \"request_throughput\": 2.0, \"input_tokens\": 5, \"input_lens\": [5]}",
            Format::VllmBench,
        );
        check("[{\"id\": \"a\", \"conversations\": []}]", Format::Sharegpt);
        let session =
            "{\"id\": \"a\", \"block_size\": 64, \"requests\": [{\"t\": 0, \"in\": 64, \"hash_ids\": [1]}]}";
        check(session, Format::Weka);
        check(&format!("[{session}, {session}]"), Format::Weka);
    }

    #[test]
    fn what_is_no_trace_is_named() {
        assert_eq!(
            sniff(b"PK\x03\x04rest").unwrap_err().what,
            "the file is a zip archive"
        );
        assert_eq!(sniff(b"  \n").unwrap_err().what, "the file is empty");
        let header = sniff(b"a,b,c\n1,2,3").unwrap_err();
        assert!(header.what.contains("`a,b,c`"));
        // What it says to write is read.
        let proposed: Vec<&str> = header.help.split('`').skip(1).step_by(2).take(3).collect();
        let formats = [Format::VidurTrace, Format::Azure, Format::VidurLengths];
        assert_eq!(proposed.len(), formats.len());
        for (header, format) in proposed.into_iter().zip(formats) {
            check(header, format);
        }
    }
}
