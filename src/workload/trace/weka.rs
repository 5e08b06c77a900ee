//! Recorded agentic coding sessions, as WEKA's kv-cache-tester publishes them: who said what to a coding agent's model, when,
//! and which blocks of each prompt were those of an earlier one.
//!
//! A conversation is one JSON object: `block_size` (64), `hash_id_scope` (`local`: ids mean nothing in another conversation)
//! and `requests` of type `n`, `s` (streamed) or `subagent`, which holds requests of its own. A file has one of them, a list, or
//! one a line; a folder or tar has many files. Source: callanjfox/kv-cache-tester, docs/trace_replay_tester.md, and the 710
//! conversations of its folder `traces`.
//!
//! Times count from each conversation's beginning, so nothing is said of when conversations begin. Who waits for whom is
//! [`lines`]. Ids are named in runs: blocks that were new together are one text, so a prompt of a thousand blocks has a few
//! pieces. Left out: what a conversation's model was, and agents that are recorded as one line though they ran side by side
//! (AIPerf tells them apart by what their prompts share).

mod lines;
mod texts;

use serde::Deserialize;
use serde::de::IgnoredAny;

use self::lines::Lines;
use self::texts::{Texts, same_blocks};
use super::container::Member;
use super::error::{Place, Problem};
use super::json_lines::HashId;
use super::rows::{OUTPUT_SEGMENTS, Rows};
use super::words::plainly;
use super::{Trace, TraceError};
use crate::ids::{RequestId, SegmentId};
use crate::workload::{Plan, Request};

/// Tokens of a block where a conversation does not say.
const USUAL_BLOCK: u32 = 64;
/// Most requests of a trace: their numbers are kept in 32 bits.
const REQUESTS_MAX: usize = u32::MAX as usize;

/// A conversation; keys that are not here are passed over.
#[derive(Deserialize)]
struct Conversation {
    block_size: Option<f64>,
    hash_id_scope: Option<String>,
    requests: Option<Vec<Entry>>,
}

/// A request, or a subagent with requests of its own.
#[derive(Deserialize)]
struct Entry {
    t: Option<f64>,
    #[serde(rename = "type")]
    kind: Option<String>,
    model: Option<String>,
    #[serde(rename = "in")]
    input: Option<f64>,
    #[serde(rename = "out")]
    output: Option<f64>,
    hash_ids: Option<Vec<HashId>>,
    api_time: Option<f64>,
    think_time: Option<f64>,
    duration_ms: Option<f64>,
    requests: Option<Vec<Entry>>,
}

/// Whether the beginning of a JSON text has the keys of a conversation.
pub(super) fn is_conversation(head: &[u8], has_key: impl Fn(&[u8], &str) -> bool) -> bool {
    has_key(head, "requests") && (has_key(head, "hash_id_scope") || has_key(head, "block_size"))
}

/// Whether a file of an archive or a folder may hold conversations.
pub(super) fn may_hold(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    !file.starts_with('.') && [".json", ".jsonl"].iter().any(|end| file.ends_with(end))
}

/// Reads the conversations of one file.
pub(super) fn read(text: &[u8], rows: Rows<'_>) -> Result<Trace, TraceError> {
    let mut reader = Reader::new(rows);
    reader.file(text, "");
    reader.finish()
}

/// Reads the conversations of all files of an archive that may hold any, in the order of their names.
pub(super) fn read_members(members: &[Member], rows: Rows<'_>) -> Result<Trace, TraceError> {
    let mut reader = Reader::new(rows);
    let mut files: Vec<&Member> = members.iter().filter(|member| may_hold(&member.name)).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let passed_over = members.len() - files.len();
    for member in files {
        let name = member.name.rsplit('/').next().unwrap_or(&member.name);
        reader.file(&member.bytes, &format!("{name}: "));
    }
    if passed_over > 0 {
        let files = match passed_over {
            1 => "file that is",
            _ => "files that are",
        };
        reader
            .rows
            .notes
            .push(format!("passed over {passed_over} {files} no JSON"));
    }
    reader.finish()
}

/// What is read so far.
struct Reader<'a> {
    rows: Rows<'a>,
    requests: Vec<Request>,
    sessions: Vec<u32>,
    plan: Plan,
    lines: Lines,
    block: Option<u32>,
    texts: Texts,
    models: Vec<String>,
    counts: Counts,
}

/// What is assumed of requests.
#[derive(Default)]
struct Counts {
    blocks_unsaid: u64,
    without_output: u64,
    without_ids: u64,
    short_of_ids: u64,
    repeated: u64,
}

impl<'a> Reader<'a> {
    fn new(rows: Rows<'a>) -> Reader<'a> {
        Reader {
            rows,
            requests: Vec::new(),
            sessions: Vec::new(),
            plan: Plan::default(),
            lines: Lines::default(),
            block: None,
            texts: Texts::default(),
            models: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// All conversations of a text; `place` is what messages put in front.
    fn file(&mut self, text: &[u8], place: &str) {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = || {
            text.split(|&b| b == b'\n')
                .filter(|line| !line.trim_ascii().is_empty())
        };
        let is_whole = |line: &[u8]| serde_json::from_slice::<IgnoredAny>(line).is_ok();
        if text.trim_ascii_start().starts_with(b"[") {
            if let Some(list) = self.parse::<Vec<Conversation>>(text, place) {
                for (number, conversation) in (1..).zip(list) {
                    self.conversation(conversation, &format!("{place}conversation {number} "));
                }
            }
        } else if lines().nth(1).is_some() && lines().take(2).any(is_whole) {
            for (line, number) in text.split(|&b| b == b'\n').zip(1u64..) {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                let place = format!("{place}line {number} ");
                if let Some(conversation) = self.parse(line, &place) {
                    self.conversation(conversation, &place);
                }
            }
        } else if let Some(conversation) = self.parse(text, place) {
            self.conversation(conversation, place);
        }
    }

    /// A text as what it should be; `None` after a complaint that names the key, if there is one.
    fn parse<T: for<'de> Deserialize<'de>>(&mut self, text: &[u8], place: &str) -> Option<T> {
        let error = match serde_json::from_slice::<T>(text) {
            Ok(parsed) => return Some(parsed),
            Err(error) => error,
        };
        let mut reader = serde_json::Deserializer::from_slice(text);
        let field = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Err(located) if error.is_data() => located.path().to_string().trim_matches('.').to_owned(),
            _ => String::new(),
        };
        let what = if error.is_eof() {
            "is cut off: its JSON does not end".to_owned()
        } else {
            format!("is not as expected: {}", plainly(&error.to_string()))
        };
        let help = "a conversation is a JSON object with `block_size` and `requests`; fetch the file again, or leave it out";
        let place = item(place);
        self.rows.problems.push(Problem::new(place, &field, what, help));
        None
    }

    fn conversation(&mut self, conversation: Conversation, place: &str) {
        let Some(block) = self.block_of(&conversation, place) else {
            return;
        };
        let entries = conversation.requests.unwrap_or_default();
        if entries.is_empty() {
            let problem = Problem::new(
                item(place),
                "requests",
                "holds no request",
                "leave the conversation out",
            );
            self.rows.problems.push(problem);
            return;
        }
        self.block = Some(block);
        self.texts
            .begin(conversation.hash_id_scope.as_deref() == Some("global"));
        let first = self.requests.len() as u32;
        self.lines.begin(&entries);
        let line = self.lead(entries, None, 0, place);
        self.lines.forgotten(&line);
        if self.requests.len() as u32 > first {
            self.plan.starts.push(first);
            self.sessions
                .resize(self.requests.len(), self.plan.starts.len() as u32 - 1);
        }
    }

    /// Tokens of a conversation's blocks; `None` after a complaint.
    fn block_of(&mut self, conversation: &Conversation, place: &str) -> Option<u32> {
        let known = ["local", "global"];
        if let Some(scope) = conversation.hash_id_scope.as_deref()
            && !known.contains(&scope)
        {
            let what = format!("is `{scope}`");
            let help = "known are local, ids of the conversation, and global, ids of all";
            let problem = Problem::new(item(place), "hash_id_scope", what, help);
            self.rows.problems.push(problem);
        }
        let block = match conversation.block_size {
            None => {
                self.counts.blocks_unsaid += 1;
                USUAL_BLOCK
            }
            Some(size) if (1.0..=65_536.0).contains(&size) && size.fract() == 0.0 => size as u32,
            Some(size) => {
                let what = format!("is {size}");
                let help = "a block has 1 to 65536 tokens; kv-cache-tester's have 64";
                self.rows
                    .problems
                    .push(Problem::new(item(place), "block_size", what, help));
                return None;
            }
        };
        if let Some(other) = self.block.filter(|&other| other != block) {
            let what = format!("is {block}, and {other} in the conversations before");
            let help = "give conversations of each block size a trace of their own";
            self.rows
                .problems
                .push(Problem::new(item(place), "block_size", what, help));
            return None;
        }
        Some(block)
    }

    /// Takes the requests of a line whose times count from `from`, and gives it back; `parent` is the turn before it began.
    fn lead(
        &mut self,
        entries: Vec<Entry>,
        parent: Option<lines::Sent>,
        from: i128,
        place: &str,
    ) -> lines::Line {
        let mut line = lines::Line::new(parent);
        for (number, mut entry) in (1..).zip(entries) {
            let at = match place.ends_with('.') {
                true => format!("{place}{number}"),
                false => format!("{place}request {number}"),
            };
            let here = Place::Item(at.clone());
            match entry.kind.as_deref() {
                Some("n" | "s") => {
                    if let Some(sent) = self.request(entry, &mut line, from, &here) {
                        line.sent(sent);
                    }
                }
                Some("subagent") => {
                    let inner = entry.requests.take().unwrap_or_default();
                    let Some(span) = self
                        .lines
                        .span(&entry, &inner, &line, from, &here, &mut self.rows)
                    else {
                        continue;
                    };
                    let inner = self.lead(inner, line.before(), span.from, &format!("{at}."));
                    line.spawned(inner, span.end);
                }
                other => {
                    let what = match other {
                        None => "is missing".to_owned(),
                        Some(other) => format!("is `{other}`"),
                    };
                    let help = "known are n, s and subagent";
                    self.rows.problems.push(Problem::new(here, "type", what, help));
                }
            }
        }
        line
    }

    /// Takes one request; `None` after a complaint.
    fn request(
        &mut self,
        entry: Entry,
        line: &mut lines::Line,
        from: i128,
        place: &Place,
    ) -> Option<lines::Sent> {
        let input = self.count(entry.input, "in", place);
        let output = self.count(entry.output, "out", place);
        let when = self.lines.when(&entry, line, from, place, &mut self.rows);
        let (input, output, (mut sent, planned)) = (input?, output?, when?);
        if input == 0 {
            let help = "a request has at least 1: leave it out of the file";
            self.rows
                .problems
                .push(Problem::new(place.clone(), "in", "has no prompt tokens", help));
            return None;
        }
        if self.requests.len() >= REQUESTS_MAX {
            let help = "cut it into parts";
            self.rows
                .problems
                .push(Problem::new(Place::File, "", "has more than 2^32 requests", help));
            return None;
        }
        let ids = entry.hash_ids.unwrap_or_default();
        let block = self.block.unwrap_or(USUAL_BLOCK);
        let most = input.div_ceil(block) as usize;
        if ids.len() > most {
            let what = format!(
                "has {} ids, {input} tokens make {most} blocks of {block}",
                ids.len()
            );
            let help = "a prompt has an id for each block at most: mend `in`, or leave the request out";
            self.rows
                .problems
                .push(Problem::new(place.clone(), "hash_ids", what, help));
            return None;
        }
        let model = entry.model.as_deref().unwrap_or_default();
        if !self.models.iter().any(|known| known == model) {
            self.models.push(model.to_owned());
        }
        self.counts.without_output += u64::from(output == 0);
        self.counts.without_ids += u64::from(ids.is_empty());
        self.counts.short_of_ids += u64::from(!ids.is_empty() && ids.len() < (input / block) as usize);
        let index = self.requests.len() as u64;
        let prompt = self.texts.prompt(&ids, input, block, index);
        let before = line.own().map(|before| &self.requests[before.turn as usize]);
        self.counts.repeated += u64::from(before.is_some_and(|before| {
            before.prompt_tokens == input && !ids.is_empty() && same_blocks(&before.prompt, &prompt)
        }));
        let output = output.max(1);
        self.requests.push(Request {
            id: RequestId(index),
            prompt_tokens: input,
            output_tokens: output,
            max_tokens: output,
            prompt,
            output_segment: SegmentId(OUTPUT_SEGMENTS | index),
            ignore_eos: true,
            ..Request::default()
        });
        self.plan.turns.push(planned);
        sent.turn = index as u32;
        Some(sent)
    }

    /// A token count that must be there.
    fn count(&mut self, value: Option<f64>, field: &str, place: &Place) -> Option<u32> {
        let Some(value) = value else {
            let help = "every request needs its prompt and output length";
            self.rows
                .problems
                .push(Problem::new(place.clone(), field, "is missing", help));
            return None;
        };
        self.rows.tokens(place, field, value)
    }

    /// The trace, or all that is wrong with it.
    fn finish(mut self) -> Result<Trace, TraceError> {
        if self.requests.is_empty() && self.rows.problems.total == 0 {
            let help = "a trace has at least one conversation";
            self.rows
                .problems
                .push(Problem::new(Place::File, "", "holds no request", help));
        }
        if self.rows.problems.total > 0 {
            return Err(self
                .rows
                .problems
                .into_error(self.rows.name, Some(self.rows.format)));
        }
        let mut notes = std::mem::take(&mut self.rows.notes);
        notes.extend(self.lines.notes());
        notes.extend(self.counts.notes());
        if self.models.len() > 1 {
            let models = self.models.len();
            notes.push(format!(
                "requests were of {models} models: all of them are sent to the one that is served"
            ));
        }
        Ok(Trace {
            format: self.rows.format,
            time_unit: None,
            requests: self.requests,
            has_arrivals: false,
            notes,
            warnings: self.rows.warnings,
            block: self.block,
            hash_ids: Vec::new(),
            sessions: self.sessions,
            conversations: Some(self.plan),
        })
    }
}

impl Counts {
    fn notes(&self) -> impl Iterator<Item = String> {
        [
            (
                self.blocks_unsaid,
                "conversation does not say its block_size",
                "conversations do not say their block_size",
                "64 tokens are assumed",
            ),
            (
                self.without_output,
                "request has no output tokens",
                "requests have no output tokens",
                "1 is asked of each, as AIPerf does",
            ),
            (
                self.without_ids,
                "request has no hash_ids",
                "requests have no hash_ids",
                "such a prompt is shared with nobody",
            ),
            (
                self.short_of_ids,
                "request has fewer hash_ids than full blocks",
                "requests have fewer hash_ids than full blocks",
                "the rest of such a prompt is shared with nobody",
            ),
            (
                self.repeated,
                "request repeats the prompt before it (a call made twice, once of them streamed)",
                "requests repeat the prompt before them (a call made twice, once of them streamed)",
                "all are sent",
            ),
        ]
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many, told)| {
            let what = if count == 1 { one } else { many };
            format!("{count} {what}: {told}")
        })
    }
}

/// A place by its name, or the file as a whole.
fn item(place: &str) -> Place {
    match place.trim_end_matches([' ', ':']) {
        "" => Place::File,
        name => Place::Item(name.to_owned()),
    }
}

#[cfg(test)]
mod tests;
