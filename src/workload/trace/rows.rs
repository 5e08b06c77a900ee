//! From rows, whatever file they were in, to a [`Trace`]: checks of every number, clock, block size and shared prefixes.

use rustc_hash::FxHashMap;

use super::error::{Place, Problem, Problems};
use super::format::{Format, TimeUnit};
use super::{ReadOptions, Trace};
use crate::ids::{RequestId, SegmentId};
use crate::units::{Picos, ROW_TOKENS_MAX};
use crate::workload::{Piece, Prompt, Request};

/// First identity of the answers, far above any hash id after renumbering.
pub(super) const OUTPUT_SEGMENTS: u64 = 1 << 62;
/// First identity of the ends of prompts that no hash id covers.
pub(super) const TAIL_SEGMENTS: u64 = 1 << 63;
/// Rates outside these are taken for a mistaken unit, in requests/s.
const PLAUSIBLE_RATES: std::ops::RangeInclusive<f64> = 0.01..=2_000.0;
/// Block sizes that are tried where hash ids do not fit the format's own.
const BLOCKS: [u32; 7] = [512, 16, 64, 32, 128, 256, 1024];

/// One request of a file.
pub(super) struct Row {
    /// Its line, or its number where lines mean nothing.
    pub(super) place: Place,
    /// When it was sent, in picoseconds from whatever the file counts from.
    pub(super) time: Option<i128>,
    pub(super) input: u32,
    pub(super) output: u32,
    /// Its hash ids, as a range of [`Rows::ids`].
    pub(super) ids: std::ops::Range<usize>,
    /// Its conversation.
    pub(super) session: Option<u32>,
}

/// Rows as they are collected.
pub(super) struct Rows<'a> {
    pub(super) name: &'a str,
    pub(super) format: Format,
    pub(super) options: &'a ReadOptions,
    pub(super) rows: Vec<Row>,
    pub(super) ids: Vec<u64>,
    pub(super) problems: Problems,
    pub(super) notes: Vec<String>,
    pub(super) warnings: Vec<String>,
    empty: u64,
}

impl<'a> Rows<'a> {
    pub(super) fn new(name: &'a str, format: Format, options: &'a ReadOptions) -> Rows<'a> {
        Rows {
            name,
            format,
            options,
            rows: Vec::new(),
            ids: Vec::new(),
            problems: Problems::default(),
            notes: Vec::new(),
            warnings: Vec::new(),
            empty: 0,
        }
    }

    /// The unit of the file's times: as asked, or the format's own.
    pub(super) fn time_unit(&self) -> TimeUnit {
        self.options
            .time_unit
            .or(self.format.time_unit())
            .unwrap_or(TimeUnit::S)
    }

    /// Checks a time and converts it; `None` after a complaint.
    pub(super) fn time(&mut self, place: &Place, field: &str, value: f64) -> Option<i128> {
        let help = "a time is a number of the unit from some start; leave the row out or mend it";
        let what = if value.is_nan() {
            "is NaN".to_owned()
        } else if value < 0.0 {
            format!("is {value}: a time cannot be negative")
        } else if value > 1e19 {
            format!("is {value}: no clock shows that")
        } else {
            return Some((value * self.time_unit().picos() as f64).round() as i128);
        };
        self.problems.push(Problem::new(place.clone(), field, what, help));
        None
    }

    /// Checks a token count; `None` after a complaint. Zero passes: what it means is a matter of the row.
    pub(super) fn tokens(&mut self, place: &Place, field: &str, value: f64) -> Option<u32> {
        let what = if value.is_nan() {
            "is NaN".to_owned()
        } else if value < 0.0 {
            format!("is {value}: a token count cannot be negative")
        } else if value > f64::from(ROW_TOKENS_MAX) {
            format!("is {value}: more tokens than any model takes")
        } else if value.fract() != 0.0 {
            format!("is {value}: a token count is a whole number")
        } else {
            return Some(value as u32);
        };
        self.problems.push(Problem::new(
            place.clone(),
            field,
            what,
            "mend the row or leave it out of the file",
        ));
        None
    }

    /// Keeps a row, unless a count of zero makes it a complaint or (with `skip_empty`) a row left out.
    pub(super) fn push(&mut self, row: Row) {
        if row.input > 0 && row.output > 0 {
            self.rows.push(row);
            return;
        }
        self.ids.truncate(row.ids.start);
        if self.options.skip_empty {
            self.empty += 1;
            return;
        }
        let what = if row.input == 0 {
            "has no prompt tokens"
        } else {
            "has no output tokens"
        };
        let help = "a request has at least 1 of each: leave the row out of the file; `plimsoll trace FILE --skip-empty` describes \
                    the rest, and with --fit makes a workload of it";
        self.problems.push(Problem::new(row.place, "", what, help));
    }

    /// Notes that `count` rows were left out, if any were.
    pub(super) fn note_left_out(&mut self, count: u64, why: &str) {
        if count > 0 {
            self.notes.push(format!("left out {} {why}", rows_word(count)));
        }
    }

    /// The trace, or all that is wrong with it.
    pub(super) fn finish(mut self) -> Result<Trace, super::TraceError> {
        let empty = self.empty;
        self.note_left_out(empty, "without prompt or output tokens");
        if self.rows.is_empty() && self.problems.total == 0 {
            self.problems.push(Problem::new(
                Place::File,
                "",
                "holds no request",
                "a trace has at least one request",
            ));
        }
        let has_arrivals = self.check_times();
        let block = self.find_block();
        let span = if self.problems.total == 0 {
            self.order(has_arrivals)
        } else {
            0
        };
        if self.problems.total > 0 {
            return Err(self.problems.into_error(self.name, Some(self.format)));
        }
        if has_arrivals {
            self.warnings.extend(self.unit_warning(span));
        }
        Ok(self.assemble(has_arrivals, block))
    }

    /// Either every row has a time or none has.
    fn check_times(&mut self) -> bool {
        let timed = self.rows.iter().filter(|row| row.time.is_some()).count();
        if timed > 0 && timed < self.rows.len() {
            let bare = self
                .rows
                .iter()
                .find(|row| row.time.is_none())
                .map(|row| row.place.clone());
            let what = format!(
                "has no arrival time, as {} of {} rows",
                self.rows.len() - timed,
                self.rows.len()
            );
            let help = "give every row a time, or none";
            self.problems
                .push(Problem::new(bare.unwrap_or(Place::File), "", what, help));
        }
        timed > 0
    }

    /// Sorts by time, counts from the first arrival, and returns the span in picoseconds.
    fn order(&mut self, has_arrivals: bool) -> u64 {
        if !has_arrivals {
            return 0;
        }
        let late = self
            .rows
            .windows(2)
            .filter(|pair| pair[1].time < pair[0].time)
            .count() as u64;
        if late > 0 {
            self.rows.sort_by_key(|row| row.time);
            self.notes.push(format!(
                "sorted by time: {} came before the row above",
                rows_word(late)
            ));
        }
        let first = self.rows.first().and_then(|row| row.time).unwrap_or(0);
        for row in &mut self.rows {
            row.time = row.time.map(|time| time - first);
        }
        let span = self.rows.last().and_then(|row| row.time).unwrap_or(0);
        let days = span as f64 / 1e12 / 86_400.0;
        let Ok(picos) = u64::try_from(span) else {
            let place = self.rows.last().map_or(Place::File, |row| row.place.clone());
            let what = format!("arrives {days:.0} days after the first request: the clock shows 213");
            let unit = format!(
                "cut the trace, or name its unit with --time-unit (read as {})",
                self.time_unit().title()
            );
            self.problems.push(Problem::new(place, "", what, unit));
            return 0;
        };
        picos
    }

    /// A warning where the implied rate is absurd, with the unit that would make it plausible.
    fn unit_warning(&self, span: u64) -> Option<String> {
        self.format.time_unit()?;
        let gaps = self.rows.len() as f64 - 1.0;
        let rate = gaps / (span as f64 / 1e12);
        let read = self.time_unit();
        if gaps < 9.0 || span == 0 || PLAUSIBLE_RATES.contains(&rate) {
            return self.may_be_milliseconds(gaps, span);
        }
        let implied = if rate >= 1.0 {
            format!("{rate:.0} req/s")
        } else {
            format!("one request in {:.0} s", 1.0 / rate)
        };
        let in_unit = |unit: TimeUnit| rate * read.picos() as f64 / unit.picos() as f64;
        let fits = [TimeUnit::S, TimeUnit::Ms, TimeUnit::Us, TimeUnit::Ns]
            .into_iter()
            .find(|&unit| PLAUSIBLE_RATES.contains(&in_unit(unit)));
        Some(match fits {
            Some(unit) => format!(
                "times look like {}, read as {} (implied {implied}); use --time-unit {}",
                unit.title(),
                read.title(),
                unit.flag()
            ),
            None => format!("times read as {} imply {implied}: check them", read.title()),
        })
    }

    /// A warning where seconds that nobody named are whole and a minute apart: traces of servers have several requests a minute, and
    /// clocks that show seconds show parts of them.
    fn may_be_milliseconds(&self, gaps: f64, span: u64) -> Option<String> {
        const GAP_S: f64 = 60.0;
        let second = i128::from(TimeUnit::S.picos());
        let are_whole = || {
            self.rows
                .iter()
                .all(|row| row.time.is_some_and(|time| time % second == 0))
        };
        let gap_s = span as f64 / 1e12 / gaps;
        let is_told = self.options.time_unit.is_some() || self.time_unit() != TimeUnit::S;
        (!is_told && gaps >= 2.0 && gap_s >= GAP_S && are_whole()).then(|| {
            format!(
                "times may be milliseconds: they are whole numbers, {gap_s:.0} apart on average, and are read as seconds; if so use \
                 --time-unit ms, if not --time-unit s"
            )
        })
    }

    /// The block size that every row's number of hash ids agrees with, and whether a partial last block has an id.
    fn find_block(&mut self) -> Option<(u32, bool)> {
        if self.ids.is_empty() {
            return None;
        }
        let named = self.options.block;
        let usual = self.format.block().unwrap_or(16);
        let candidates: Vec<u32> = match named {
            Some(block) => vec![block],
            None => std::iter::once(usual).chain(BLOCKS).collect(),
        };
        let agrees = |row: &Row, block: u32, partial: bool| {
            row.ids.is_empty() || row.ids.len() as u32 == blocks(row.input, block, partial)
        };
        for &block in &candidates {
            for partial in [true, false] {
                if self.rows.iter().all(|row| agrees(row, block, partial)) {
                    let rule = if partial {
                        "the last one may be partial"
                    } else {
                        "full blocks only"
                    };
                    if block != usual || !partial {
                        self.notes.push(format!(
                            "a hash id stands for {block} tokens ({rule}), told by their number in each row"
                        ));
                    }
                    return Some((block, partial));
                }
            }
        }
        let block = named.unwrap_or(usual);
        let odd: Vec<Problem> = self
            .rows
            .iter()
            .filter(|row| !agrees(row, block, true))
            .map(|row| {
                let what = format!(
                    "has {} ids, {} tokens make {} blocks of {block}",
                    row.ids.len(),
                    row.input,
                    blocks(row.input, block, true)
                );
                let help =
                    "every row needs one id for each block of its prompt; --block N names another block size";
                Problem::new(row.place.clone(), "hash_ids", what, help)
            })
            .collect();
        odd.into_iter().for_each(|problem| self.problems.push(problem));
        None
    }

    fn assemble(self, has_arrivals: bool, block: Option<(u32, bool)>) -> Trace {
        // Ids of a file may be anything (hashes, negative numbers): they are renumbered in order of first appearance.
        let mut numbers: FxHashMap<u64, u64> = FxHashMap::default();
        let mut sessions = Vec::with_capacity(if self.rows.iter().any(|row| row.session.is_some()) {
            self.rows.len()
        } else {
            0
        });
        let requests: Vec<Request> = self
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| {
                let prompt = match block {
                    Some((block, _)) if !row.ids.is_empty() => Prompt::Pieces(pieces(
                        &self.ids[row.ids.clone()],
                        row.input,
                        block,
                        index as u64,
                        &mut numbers,
                    )),
                    _ => Prompt::Unique,
                };
                sessions.extend(row.session);
                Request {
                    id: RequestId(index as u64),
                    arrival: Picos(row.time.unwrap_or(0) as u64),
                    client_queue_time: Picos::ZERO,
                    prompt_tokens: row.input,
                    output_tokens: row.output,
                    max_tokens: row.output,
                    priority: 0,
                    prompt,
                    output_segment: SegmentId(OUTPUT_SEGMENTS | index as u64),
                    session: None,
                    class: 0,
                    ignore_eos: true,
                    deadline: None,
                }
            })
            .collect();
        if sessions.len() != requests.len() {
            sessions.clear();
        }
        let time_unit = self
            .format
            .time_unit()
            .filter(|_| has_arrivals)
            .map(|_| self.time_unit());
        let (format, notes, warnings) = (self.format, self.notes, self.warnings);
        let mut hash_ids: Vec<(u64, u64)> = numbers.into_iter().map(|(id, number)| (number, id)).collect();
        hash_ids.sort_unstable();
        Trace {
            format,
            time_unit,
            requests,
            has_arrivals,
            notes,
            warnings,
            block: block.map(|(block, _)| block),
            hash_ids: hash_ids.into_iter().map(|(_, id)| id).collect(),
            sessions,
            conversations: None,
        }
    }
}

/// The pieces of a prompt: one for each hash id, the last cut to the prompt's end, and a unique rest where ids do not cover it.
fn pieces(
    ids: &[u64],
    input: u32,
    block: u32,
    index: u64,
    numbers: &mut FxHashMap<u64, u64>,
) -> Box<[Piece]> {
    let mut left = input;
    let mut pieces = Vec::with_capacity(ids.len() + 1);
    for id in ids {
        let next = numbers.len() as u64;
        let segment = SegmentId(*numbers.entry(*id).or_insert(next));
        let tokens = block.min(left);
        pieces.push(Piece {
            segment,
            start: 0,
            tokens,
        });
        left -= tokens;
    }
    if left > 0 {
        pieces.push(Piece {
            segment: SegmentId(TAIL_SEGMENTS | index),
            start: 0,
            tokens: left,
        });
    }
    pieces.into_boxed_slice()
}

/// Whether a piece is the end of a prompt that no hash id covers.
pub(super) fn is_tail(segment: SegmentId) -> bool {
    segment.0 >= TAIL_SEGMENTS
}

/// How many hash ids a prompt has.
fn blocks(input: u32, block: u32, partial: bool) -> u32 {
    if partial {
        input.div_ceil(block)
    } else {
        input / block
    }
}

/// `1 row`, `12 rows`.
fn rows_word(count: u64) -> String {
    if count == 1 {
        "1 row".to_owned()
    } else {
        format!("{count} rows")
    }
}

#[cfg(test)]
mod tests;
