//! Traces as JSON lines: Mooncake, Qwen-Bailian, LLMServingSim (flat) and APEX+.

use std::borrow::Cow;
use std::fmt;

use rustc_hash::FxHashMap;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, Visitor};

use super::error::{Place, Problem};
use super::format::Format;
use super::rows::{Row, Rows};
use super::words::plainly;

/// LLMServingSim gives token ids; its prefix cache, as vLLM's, hashes them in blocks of this size.
const TOKEN_ID_BLOCK: usize = 16;

/// Every key that the four formats know, under the names of all of them; others are passed over.
#[derive(serde::Deserialize)]
struct Line<'a> {
    #[serde(alias = "created_time", alias = "arrival_time_ns", alias = "StartTimeOffset")]
    timestamp: Option<f64>,
    #[serde(alias = "input_tokens", alias = "input_toks", alias = "ContextTokens")]
    input_length: Option<f64>,
    #[serde(alias = "output_tokens", alias = "output_toks", alias = "GeneratedTokens")]
    output_length: Option<f64>,
    hash_ids: Option<Vec<HashId>>,
    #[serde(borrow)]
    session_id: Option<Name<'a>>,
    chat_id: Option<Name<'a>>,
    parent_chat_id: Option<Name<'a>>,
    input_tok_ids: Option<Vec<u32>>,
    delay: Option<f64>,
    sub_requests: Option<IgnoredAny>,
    text_input: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
}

/// What lines know of each other.
#[derive(Default)]
struct Links<'a> {
    sessions: FxHashMap<Name<'a>, u32>,
    session_count: u32,
    orphans: u64,
    chains: FxHashMap<(u64, Box<[u32]>), u64>,
}

/// Reads all rows.
pub(super) fn read(text: &[u8], rows: &mut Rows) {
    let mut links = Links::default();
    let ends_open = !text.ends_with(b"\n");
    let mut lines = text
        .split(|&b| b == b'\n')
        .zip(1u64..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .peekable();
    while let Some((line, number)) = lines.next() {
        let cut = ends_open && lines.peek().is_none();
        match serde_json::from_slice::<Line>(line) {
            Ok(parsed) => read_line(parsed, number, rows, &mut links),
            Err(error) => rows.problems.push(syntax_problem(line, number, cut, &error)),
        }
    }
    let orphans = links.orphans;
    if orphans > 0 {
        rows.notes.push(format!(
            "{orphans} turns follow a chat that is not in the file; each starts a conversation of its own"
        ));
    }
}

fn read_line<'a>(line: Line<'a>, number: u64, rows: &mut Rows, links: &mut Links<'a>) {
    let place = Place::Line(number);
    if let Some(problem) = unsupported(&line, &place) {
        rows.problems.push(problem);
        return;
    }
    let names = field_names(rows.format);
    let input = require(line.input_length, &place, names.1, rows)
        .and_then(|value| rows.tokens(&place, names.1, value));
    let output = require(line.output_length, &place, names.2, rows)
        .and_then(|value| rows.tokens(&place, names.2, value));
    let time = line.timestamp.map(|value| rows.time(&place, names.0, value));
    let session = links.session(line.chat_id, line.parent_chat_id, line.session_id);
    let (Some(input), Some(output)) = (input, output) else {
        return;
    };
    if time == Some(None) {
        return;
    }
    let start = rows.ids.len();
    if let Some(ids) = line.hash_ids {
        rows.ids.extend(ids.into_iter().map(|id| id.0));
    } else if let Some(tokens) = line.input_tok_ids.filter(|tokens| tokens.len() == input as usize) {
        links.hash_blocks(&tokens, &mut rows.ids);
    }
    let ids = start..rows.ids.len();
    rows.push(Row {
        place,
        time: time.flatten(),
        input,
        output,
        ids,
        session,
    });
}

/// What these formats allow but a list of fixed instants cannot say.
fn unsupported(line: &Line, place: &Place) -> Option<Problem> {
    let wait =
        "turns that wait for an answer cannot be replayed at fixed instants: give every turn a timestamp";
    if line.sub_requests.is_some() {
        return Some(Problem::new(
            place.clone(),
            "sub_requests",
            "is an agentic session, of which only flat requests are read",
            wait,
        ));
    }
    if line.delay.is_some() && line.timestamp.is_none() {
        return Some(Problem::new(
            place.clone(),
            "delay",
            "stands in place of a timestamp",
            wait,
        ));
    }
    if line.input_length.is_none() && (line.text_input.is_some() || line.messages.is_some()) {
        let help = "count the prompt's tokens with the model's tokenizer and write them as `input_length`";
        return Some(Problem::new(
            place.clone(),
            "input_length",
            "is missing and the row gives text",
            help,
        ));
    }
    None
}

/// The names of time, prompt and output that a reader of this format knows.
fn field_names(format: Format) -> (&'static str, &'static str, &'static str) {
    match format {
        Format::LlmServingSim => ("arrival_time_ns", "input_toks", "output_toks"),
        Format::ApexPlus => ("StartTimeOffset", "ContextTokens", "GeneratedTokens"),
        _ => ("timestamp", "input_length", "output_length"),
    }
}

fn require(value: Option<f64>, place: &Place, field: &str, rows: &mut Rows) -> Option<f64> {
    if value.is_none() {
        rows.problems.push(Problem::new(
            place.clone(),
            field,
            "is missing",
            "every row needs its prompt and output length",
        ));
    }
    value
}

/// A line that is no JSON object of the expected kind, with the key where there is one.
fn syntax_problem(line: &[u8], number: u64, cut: bool, error: &serde_json::Error) -> Problem {
    let place = Place::Line(number);
    if cut && error.is_eof() {
        return Problem::new(
            place,
            "",
            "the file is cut off inside this line",
            "fetch it again, or drop the line",
        );
    }
    let mut reader = serde_json::Deserializer::from_slice(line);
    let field = match serde_path_to_error::deserialize::<_, Line>(&mut reader) {
        Err(located) if error.is_data() => located.path().to_string().trim_matches('.').to_owned(),
        _ => String::new(),
    };
    let nan = ["NaN", "Infinity"]
        .iter()
        .find(|word| line.windows(word.len()).any(|window| window == word.as_bytes()));
    let what = match nan {
        Some(word) if error.is_syntax() => format!("holds {word}, which is no number"),
        // The line is one value, so serde's own "at line 1" would only confuse.
        _ => format!(
            "is not as expected: {}",
            plainly(&error.to_string().replace(" at line 1 column", " at column"))
        ),
    };
    Problem::new(place, &field, what, "mend the line or leave it out of the file")
}

impl<'a> Links<'a> {
    /// Conversation of a row: Bailian's chain of chats, or a session id.
    fn session(
        &mut self,
        chat: Option<Name<'a>>,
        parent: Option<Name<'a>>,
        session: Option<Name<'a>>,
    ) -> Option<u32> {
        let is_turn = parent.as_ref().is_some_and(|parent| *parent != Name::Number(-1));
        let known = match (&parent, &session) {
            (Some(parent), _) => self.sessions.get(parent).copied(),
            (None, Some(session)) => self.sessions.get(session).copied(),
            (None, None) => None,
        };
        let name = chat.or(session)?;
        self.orphans += u64::from(is_turn && known.is_none());
        let number = known.unwrap_or(self.session_count);
        self.session_count += u32::from(known.is_none());
        self.sessions.insert(name, number);
        Some(number)
    }

    /// One id for each full block of token ids; equal ids mean equal tokens up to and including the block.
    fn hash_blocks(&mut self, tokens: &[u32], ids: &mut Vec<u64>) {
        let mut parent = u64::MAX;
        for block in tokens.chunks_exact(TOKEN_ID_BLOCK) {
            let next = self.chains.len() as u64;
            parent = *self.chains.entry((parent, block.into())).or_insert(next);
            ids.push(parent);
        }
    }
}

/// A hash id: any 64-bit integer, signed or not.
pub(super) struct HashId(pub(super) u64);

impl<'de> Deserialize<'de> for HashId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HashId, D::Error> {
        struct Integer;
        impl Visitor<'_> for Integer {
            type Value = HashId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number that fits 64 bits")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<HashId, E> {
                Ok(HashId(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<HashId, E> {
                Ok(HashId(value.cast_unsigned()))
            }
        }
        deserializer.deserialize_any(Integer)
    }
}

/// The name of a chat or session: a number or a text.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Name<'a> {
    Number(i64),
    Text(Cow<'a, str>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name<'a>, D::Error> {
        struct NumberOrText;
        impl<'de> Visitor<'de> for NumberOrText {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a text")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Name<'de>, E> {
                Ok(Name::Number(value.cast_signed()))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Name<'de>, E> {
                Ok(Name::Number(value))
            }
            fn visit_borrowed_str<E: de::Error>(self, value: &'de str) -> Result<Name<'de>, E> {
                Ok(Name::Text(Cow::Borrowed(value)))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Name<'de>, E> {
                Ok(Name::Text(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}
