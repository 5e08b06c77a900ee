//! Trace events as text, one object of JSON a line, in the order in which they are put.
//!
//! The [Trace Event Format](https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU) counts microseconds, and
//! Perfetto rounds each `ts` and each `dur` to whole nanoseconds, apart from each other: of exact picoseconds the end of a slice
//! could then lie behind the start of the next one, and a slice that overlaps another is dropped. So an instant is written as
//! the nanosecond in which it lies, and a duration as the difference of two of these; slices that touch still do.
//!
//! Events of equal time keep their order in the file. Where that decides what nests in what ([`Events::begin`],
//! [`Events::end`]) whoever puts them does so in order of time for each track.

use std::fmt::{self, Display, Write};

use crate::units::Picos;

const IN_MEMORY: &str = "a string takes whatever is written";
/// Picoseconds in a nanosecond.
const NANO: u64 = 1000;

/// A thread of a process, as the format calls them: a lane of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// An instant or a length in whole nanoseconds, written in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nanos(pub(super) u64);

impl Nanos {
    /// The nanosecond in which an instant lies.
    pub(super) fn of(at: Picos) -> Nanos {
        Nanos(at.0 / NANO)
    }

    /// Just before a slice that began at `begin` ends at `end`: the last instant of which the slice is the innermost.
    pub(super) fn last_of(begin: Picos, end: Picos) -> Nanos {
        let (begin, end) = (Nanos::of(begin), Nanos::of(end));
        if begin < end { Nanos(end.0 - 1) } else { begin }
    }
}

impl Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// What stands under `args` of an event.
#[derive(Clone, Debug, Default)]
pub(super) struct Args(String);

impl Args {
    /// Adds a number or a list of numbers.
    pub(super) fn with(mut self, key: &str, value: impl Display) -> Args {
        let comma = if self.0.is_empty() { "" } else { "," };
        write!(self.0, "{comma}\"{key}\":{value}").expect(IN_MEMORY);
        self
    }

    /// Adds a text.
    pub(super) fn saying(self, key: &str, text: &str) -> Args {
        self.with(key, quoted(text))
    }
}

impl Display for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.0)
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Events that are not taken yet.
#[derive(Debug, Default)]
pub(super) struct Events {
    text: String,
    is_begun: bool,
    /// Number of the next flow, or of the next span that has no other.
    next: u64,
}

impl Events {
    /// A file that says so much about itself before its events.
    pub(super) fn about(about: &Args) -> Events {
        Events {
            text: format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":["),
            ..Events::default()
        }
    }

    /// Ends the file.
    pub(super) fn close(&mut self) {
        self.text.push_str("\n]}\n");
    }

    /// Bytes that wait to be taken.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// What was put since the last time.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// A number that no other flow or span has.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn put(&mut self, event: fmt::Arguments<'_>) {
        let comma = if std::mem::replace(&mut self.is_begun, true) {
            ","
        } else {
            ""
        };
        write!(self.text, "{comma}\n{{{event}}}").expect(IN_MEMORY);
    }

    /// A slice of a track; slices of one track nest or lie apart.
    pub(super) fn slice(
        &mut self,
        track: Track,
        (name, category): (&str, &str),
        (begin, end): (Picos, Picos),
        args: &Args,
    ) {
        let Track { pid, tid } = track;
        let (begin, end) = (Nanos::of(begin), Nanos::of(end));
        let lasts = Nanos(end.0 - begin.0);
        let (name, category) = (quoted(name), quoted(category));
        self.put(format_args!(
            "\"ph\":\"X\",\"name\":{name},\"cat\":{category},\"pid\":{pid},\"tid\":{tid},\"ts\":{begin},\"dur\":{lasts},\"args\":{args}"
        ));
    }

    /// A slice of a track begins; it ends with the next [`Events::end`] that belongs to no later one.
    pub(super) fn begin(&mut self, track: Track, (name, category): (&str, &str), at: Picos, args: &Args) {
        let Track { pid, tid } = track;
        let (name, category, at) = (quoted(name), quoted(category), Nanos::of(at));
        self.put(format_args!(
            "\"ph\":\"B\",\"name\":{name},\"cat\":{category},\"pid\":{pid},\"tid\":{tid},\"ts\":{at},\"args\":{args}"
        ));
    }

    /// The slice that began last ends.
    pub(super) fn end(&mut self, track: Track, at: Picos, args: &Args) {
        let (Track { pid, tid }, at) = (track, Nanos::of(at));
        self.put(format_args!(
            "\"ph\":\"E\",\"pid\":{pid},\"tid\":{tid},\"ts\":{at},\"args\":{args}"
        ));
    }

    /// A stretch of time of a process that may overlap others of its name; `id` is its own among those.
    pub(super) fn span(&mut self, pid: u32, id: u64, name: &str, (begin, end): (Picos, Picos), args: &Args) {
        let (name, begin, end) = (quoted(name), Nanos::of(begin), Nanos::of(end));
        let what = format!("\"name\":{name},\"cat\":{name},\"id2\":{{\"local\":\"{id}\"}},\"pid\":{pid}");
        self.put(format_args!("\"ph\":\"b\",{what},\"ts\":{begin},\"args\":{args}"));
        self.put(format_args!("\"ph\":\"e\",{what},\"ts\":{end}"));
    }

    /// Something that happens at one instant, to the process of a track (`p`) or to all (`g`).
    pub(super) fn instant(&mut self, (track, scope): (Track, char), name: &str, at: Picos, args: &Args) {
        let (Track { pid, tid }, name, at) = (track, quoted(name), Nanos::of(at));
        self.put(format_args!(
            "\"ph\":\"i\",\"s\":\"{scope}\",\"name\":{name},\"pid\":{pid},\"tid\":{tid},\"ts\":{at},\"args\":{args}"
        ));
    }

    /// Counts of a process from an instant on.
    pub(super) fn counter(&mut self, pid: u32, name: &str, at: Picos, counts: &Args) {
        let (name, at) = (quoted(name), Nanos::of(at));
        self.put(format_args!(
            "\"ph\":\"C\",\"name\":{name},\"pid\":{pid},\"ts\":{at},\"args\":{counts}"
        ));
    }

    /// An arrow between the innermost slices of two tracks at two instants.
    pub(super) fn flow(&mut self, name: &str, from: (Track, Nanos), to: (Track, Nanos)) {
        let (id, name) = (self.number(), quoted(name));
        for (phase, (Track { pid, tid }, at)) in [("\"s\"", from), ("\"f\",\"bp\":\"e\"", to)] {
            self.put(format_args!(
                "\"ph\":{phase},\"name\":{name},\"cat\":{name},\"id\":{id},\"pid\":{pid},\"tid\":{tid},\"ts\":{at}"
            ));
        }
    }

    /// A process has a name, stands at this place from the top, and is labelled.
    pub(super) fn process(&mut self, pid: u32, name: &str, place: usize, label: &str) {
        let args = [
            ("process_name", Args::default().saying("name", name)),
            ("process_sort_index", Args::default().with("sort_index", place)),
            ("process_labels", Args::default().saying("labels", label)),
        ];
        for (what, args) in args {
            self.put(format_args!(
                "\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"args\":{args}"
            ));
        }
    }

    /// A track has a name, and stands at this place of its process.
    pub(super) fn thread(&mut self, track: Track, name: &str, place: usize) {
        let Track { pid, tid } = track;
        let args = [
            ("thread_name", Args::default().saying("name", name)),
            ("thread_sort_index", Args::default().with("sort_index", place)),
        ];
        for (what, args) in args {
            self.put(format_args!(
                "\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"args\":{args}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_touch_still_do_in_whole_nanoseconds() {
        let mut events = Events::about(&Args::default());
        let track = Track { pid: 1, tid: 2 };
        // 0.6 ns each: rounded by themselves all would last 1 ns, and overlap.
        for index in 0..5 {
            let (begin, end) = (Picos(index * 600), Picos((index + 1) * 600));
            events.slice(track, ("step", "decode"), (begin, end), &Args::default());
        }
        events.close();
        let text = events.take();
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut at = 0.0;
        for event in file["traceEvents"].as_array().unwrap() {
            let nanos = |key: &str| (event[key].as_f64().unwrap() * 1e3).round();
            assert_eq!(nanos("ts"), at);
            at += nanos("dur");
        }
        assert_eq!(at, 3.0);
    }

    #[test]
    fn the_last_instant_of_a_slice_lies_in_it() {
        assert_eq!(Nanos::last_of(Picos(1000), Picos(3000)), Nanos(2));
        assert_eq!(Nanos::last_of(Picos(1000), Picos(1400)), Nanos(1));
        assert_eq!(Nanos(1_234_567).to_string(), "1234.567");
    }
}
