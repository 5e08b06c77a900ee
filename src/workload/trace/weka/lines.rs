//! Who waits for whom in a recorded conversation, and for how long, told by the times that were recorded.
//!
//! A conversation is a line of requests, each of which waits for the answer before it. A subagent is another line, which begins
//! with the answer before it in the list; the first request that was recorded at or after its end waits for it. What is between
//! an answer and the next request is, in this order: where a subagent is waited for, the time since the last of their ends;
//! the `think_time` that the file gives; the time since the request before, less its `api_time`; that time whole.
//!
//! Published files differ in two things that they do not say, and both are told by their values. Times of a subagent's requests
//! count from its own beginning if the first of them lies before the subagent's `t`, else from the conversation's. That `t` is
//! the subagent's end if it would else last beyond the next request, which waited for it (so in kv-cache-tester's folder
//! `traces`: `t` less `duration_ms` is the end of the request before), else its beginning.

use super::Entry;
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::PlannedTurn;
use crate::workload::trace::error::{Place, Problem};
use crate::workload::trace::rows::Rows;

/// Clocks of requests show whole seconds, those of subagents milliseconds.
const CLOCK: i128 = PICOS_PER_SECOND as i128;

/// A request that was sent, by its turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) turn: u32,
    time: i128,
    /// When its answer was there; its sending where nothing tells.
    end: i128,
    has_end: bool,
}

/// A line of requests as far as it is read.
#[derive(Debug)]
pub(super) struct Line {
    parent: Option<Sent>,
    own: Option<Sent>,
    /// Subagents whom nobody has waited for yet: their last turns and their ends.
    beside: Vec<(u32, i128)>,
}

/// When a subagent's line runs.
#[derive(Debug)]
pub(super) struct Span {
    /// What times of its requests count from.
    pub(super) from: i128,
    pub(super) end: i128,
}

/// How times were read, over all conversations.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// `t` of this conversation's subagents is their end.
    told_at_end: bool,
    /// When this conversation's first request was sent.
    origin: Option<i128>,
    conversations_told_at_end: u64,
    subagents: u64,
    inner_times: u64,
    thought: u64,
    less_api_time: u64,
    whole: u64,
    joined: u64,
    overlapping: u64,
    never_waited_for: u64,
}

impl Line {
    pub(super) fn new(parent: Option<Sent>) -> Line {
        Line {
            parent,
            own: None,
            beside: Vec::new(),
        }
    }

    /// The request that the next one follows: the line's last, or the one by which the line began.
    pub(super) fn before(&self) -> Option<Sent> {
        self.own.or(self.parent)
    }

    /// The line's last request.
    pub(super) fn own(&self) -> Option<Sent> {
        self.own
    }

    pub(super) fn sent(&mut self, sent: Sent) {
        self.own = Some(sent);
    }

    /// A subagent ran beside it until `end`, and perhaps subagents of that one still do.
    pub(super) fn spawned(&mut self, subagent: Line, end: i128) {
        self.beside.extend(subagent.own.map(|last| (last.turn, end)));
        self.beside.extend(subagent.beside);
    }
}

impl Lines {
    /// Looks at a conversation before it is read: whether `t` of subagents is their end.
    pub(super) fn begin(&mut self, entries: &[Entry]) {
        self.origin = None;
        let is_subagent = |entry: &Entry| entry.kind.as_deref() == Some("subagent");
        let time = |entry: &Entry| entry.t.filter(|t| (0.0..1e19).contains(t));
        let ends_too_late = |(at, entry): (usize, &Entry)| {
            let (t, length) = (time(entry)?, entry.duration_ms? / 1e3);
            let next = entries[at..].iter().find(|entry| !is_subagent(entry));
            let before = entries[..at].iter().rfind(|entry| !is_subagent(entry));
            let before = before.and_then(time).unwrap_or(0.0);
            Some(t + length > time(next?)? + 1.0 && t - length >= before)
        };
        let subagents = || entries.iter().enumerate().filter(|(_, entry)| is_subagent(entry));
        self.told_at_end = subagents().any(|entry| ends_too_late(entry) == Some(true));
        self.conversations_told_at_end += u64::from(self.told_at_end);
    }

    /// When a request was sent and what it waits for, in a line whose times count from `from`. `None` after a complaint.
    pub(super) fn when(
        &mut self,
        entry: &Entry,
        line: &mut Line,
        from: i128,
        place: &Place,
        rows: &mut Rows<'_>,
    ) -> Option<(Sent, PlannedTurn)> {
        let time = from + time(entry, place, rows)?;
        let api_time = entry.api_time.map(|value| rows.time(place, "api_time", value));
        let think_time = entry
            .think_time
            .map(|value| rows.time(place, "think_time", value));
        if api_time == Some(None) || think_time == Some(None) {
            return None;
        }
        let (api_time, think_time) = (api_time.flatten(), think_time.flatten());
        let before = line.before();
        let mut after: Vec<u32> = before.iter().map(|before| before.turn).collect();
        let joined = line.beside.iter().filter(|(_, end)| *end <= time + CLOCK);
        let last_end = joined.clone().map(|(_, end)| *end).max();
        after.extend(joined.map(|(turn, _)| *turn));
        line.beside.retain(|(_, end)| *end > time + CLOCK);
        let gap = match (before, last_end, think_time) {
            (None, None, _) => time - *self.origin.get_or_insert(time),
            (before, Some(end), _) => {
                self.joined += 1;
                time - end.max(before.map_or(0, |before| before.end))
            }
            (Some(_), None, Some(think_time)) => {
                self.thought += 1;
                think_time
            }
            (Some(before), None, None) if before.has_end => {
                self.less_api_time += 1;
                time - before.end
            }
            (Some(before), None, None) => {
                self.whole += 1;
                time - before.time
            }
        };
        self.overlapping += u64::from(gap < 0 && last_end.is_none());
        let Ok(gap) = u64::try_from(gap.max(0)) else {
            let what = "comes more than 213 days after the answer before: no run lasts so long";
            let problem = Problem::new(place.clone(), "t", what, "times are in seconds: mend it");
            rows.problems.push(problem);
            return None;
        };
        let planned = PlannedTurn {
            after,
            think_time: Picos(gap),
        };
        let sent = Sent {
            turn: 0,
            time,
            end: time + api_time.unwrap_or(0),
            has_end: api_time.is_some(),
        };
        Some((sent, planned))
    }

    /// When a subagent ran, in a line whose times count from `from`. `None` after a complaint.
    pub(super) fn span(
        &mut self,
        entry: &Entry,
        inner: &[Entry],
        line: &Line,
        from: i128,
        place: &Place,
        rows: &mut Rows<'_>,
    ) -> Option<Span> {
        let told = from + time(entry, place, rows)?;
        let length = entry.duration_ms.map(|ms| rows.time(place, "duration_ms", ms));
        if length == Some(None) {
            return None;
        }
        let length = length.flatten().map(|thousandfold| thousandfold / 1000);
        self.subagents += 1;
        let picos = |seconds: f64| (seconds * CLOCK as f64).round() as i128;
        // What is wrong with the times inside is told when they are read.
        let times = || {
            inner
                .iter()
                .filter_map(|entry| entry.t)
                .filter(|t| (0.0..1e19).contains(t))
        };
        let first = from + picos(times().fold(f64::INFINITY, f64::min).min(1e19));
        let start = match length {
            Some(length) if self.told_at_end => {
                Some(told - length).filter(|start| *start >= line.before().map_or(0, |before| before.time))
            }
            _ => None,
        };
        let start = start.unwrap_or(told);
        /// Times are told to the hundredth or finer.
        const GRAIN: i128 = CLOCK / 100;
        let is_inner = first + GRAIN < start;
        self.inner_times += u64::from(is_inner);
        let base = if is_inner { start } else { from };
        let last = inner.iter().filter_map(|entry| {
            let t = entry.t.filter(|t| (0.0..1e19).contains(t))?;
            let api_time = entry.api_time.filter(|t| (0.0..1e19).contains(t));
            Some(base + picos(t) + picos(api_time.unwrap_or(0.0)))
        });
        let last = last.max().unwrap_or(start);
        Some(Span {
            from: base,
            end: length.map_or(last, |length| start + length),
        })
    }

    /// A subagent whom no later request waits for.
    pub(super) fn forgotten(&mut self, line: &Line) {
        self.never_waited_for += line.beside.len() as u64;
    }

    /// What was assumed, with counts.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let gaps = [
            (self.thought, "think_time as recorded"),
            (
                self.less_api_time,
                "the time since the request before, less its api_time",
            ),
            (
                self.whole,
                "the time since the request before, the answer of the server that was recorded in it",
            ),
            (
                self.joined,
                "the time since the end of the subagents it waits for",
            ),
        ];
        let gaps: Vec<String> = gaps
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{what} ({count})"))
            .collect();
        if !gaps.is_empty() {
            notes.push(format!("from an answer to the next request: {}", gaps.join("; ")));
        }
        match self.overlapping {
            0 => {}
            1 => notes.push(
                "1 request was recorded before the answer that it follows: it is sent with it".to_owned(),
            ),
            many => notes.push(format!(
                "{many} requests were recorded before the answers that they follow: they are sent with them"
            )),
        }
        if self.subagents > 0 {
            let told_at_end = match self.conversations_told_at_end {
                0 => String::new(),
                count => format!(
                    "; in {} their t is their end, since else they would outlast the request that waited for them",
                    counted(count, "conversation")
                ),
            };
            let inner = match self.inner_times {
                0 => "times of their requests count from the conversation's beginning".to_owned(),
                count if count == self.subagents => "times of their requests count from their own".to_owned(),
                count => format!(
                    "times of requests count from their own beginning in {count}, else from the conversation's"
                ),
            };
            let forgotten = match self.never_waited_for {
                0 => String::new(),
                1 => "; 1 of them is waited for by nobody".to_owned(),
                count => format!("; {count} of them are waited for by nobody"),
            };
            notes.push(format!(
                "{} run beside their parent's requests, and the first that was recorded after their end waits for them{forgotten}; \
                 {inner}{told_at_end}",
                counted(self.subagents, "subagent")
            ));
        }
        notes
    }
}

/// The `t` that every entry has, in picoseconds; `None` after a complaint.
fn time(entry: &Entry, place: &Place, rows: &mut Rows<'_>) -> Option<i128> {
    let Some(t) = entry.t else {
        let help = "every request has its time in seconds from the conversation's beginning";
        rows.problems
            .push(Problem::new(place.clone(), "t", "is missing", help));
        return None;
    };
    rows.time(place, "t", t)
}

/// `1 subagent`, `12 subagents`.
fn counted(count: u64, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}
