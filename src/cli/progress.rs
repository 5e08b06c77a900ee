//! Progress on stderr, for work over a second: a bar where a person watches, and elsewhere a plain line every ten seconds, so that
//! whoever reads a log knows that it goes on, and how far it is.
//!
//! The lines are of the whole program: several things may be under way, one within the other, and are told in one line.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::interrupt;
use super::terminal::Terminal;
use crate::report::figures::{count, time};

/// Between two lines of a log.
const EVERY: Duration = Duration::from_secs(10);

static LINES: Mutex<Lines> = Mutex::new(Lines::new());

/// Counts something up to an end that may be unknown.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    terminal: Terminal,
    total: Option<u64>,
    what: &'static str,
    /// Its part of the lines, where no bar may be drawn.
    part: Option<u64>,
}

impl Progress {
    /// Nothing is drawn yet. `what` is counted, in the plural: `rates`, `numbers of replicas`.
    pub(super) fn new(terminal: &Terminal, total: Option<u64>, what: &'static str) -> Progress {
        let begun = Instant::now();
        Progress {
            bar: None,
            begun,
            terminal: *terminal,
            total,
            what,
            part: (terminal.tells_progress()).then(|| with_lines(|lines| lines.open(begun))),
        }
    }

    /// Tells how far it is; says whether to go on.
    pub(super) fn at(&mut self, done: u64) -> bool {
        if self.bar.is_none()
            && self.terminal.shows_progress()
            && self.begun.elapsed() > Duration::from_secs(1)
        {
            self.bar = Some(self.draw());
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(self.what(done));
        }
        if let Some(part) = self.part {
            let of = self
                .total
                .map_or(String::new(), |total| format!(" of {}", count(total)));
            let text = format!("{}{of} {}", count(done), self.what(done));
            let line = with_lines(|lines| {
                lines.set(part, text);
                lines.due(Instant::now(), None)
            });
            line.into_iter().for_each(|line| self.terminal.progress(&line));
        }
        !interrupt::is_asked()
    }

    /// Of one the first word has no plural; of one of several it has.
    fn what(&self, done: u64) -> String {
        match (done, self.total) {
            (1, None | Some(1)) => singular(self.what),
            _ => self.what.to_owned(),
        }
    }

    fn draw(&self) -> ProgressBar {
        let known = "{bar:30} {human_pos}/{human_len} {msg}  {elapsed}, {eta} left";
        let unknown = "{spinner} {human_pos} {msg}  {elapsed}";
        let bar = self.total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = if self.total.is_some() { known } else { unknown };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style);
        bar
    }
}

/// `number of replicas` of `numbers of replicas`.
fn singular(what: &str) -> String {
    let (first, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    format!("{}{rest}", first.strip_suffix('s').unwrap_or(first))
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if let Some(part) = self.part {
            with_lines(|lines| lines.close(part));
        }
    }
}

/// Tells what is simulated right now, where a line is due and work that counts is under way; says whether to go on. For whoever has
/// no [`Progress`] at hand and may take long.
pub(super) fn goes_on(now: impl FnOnce() -> String) -> bool {
    let line = with_lines(|lines| {
        let at = Instant::now();
        match lines.parts.is_empty() || !lines.is_due(at) {
            true => None,
            false => lines.due(at, Some(now())),
        }
    });
    // Parts are opened by those alone who may speak.
    line.into_iter()
        .for_each(|line| Terminal::speaking().progress(&line));
    !interrupt::is_asked()
}

fn with_lines<T>(act: impl FnOnce(&mut Lines) -> T) -> T {
    act(&mut LINES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What is under way, of which a line is made.
struct Lines {
    /// From the outermost to the innermost, each with its number.
    parts: Vec<(u64, String)>,
    opened: u64,
    /// When the first of all was opened.
    begun: Option<Instant>,
    /// When the last line was told.
    told: Option<Instant>,
}

impl Lines {
    const fn new() -> Lines {
        Lines {
            parts: Vec::new(),
            opened: 0,
            begun: None,
            told: None,
        }
    }

    fn open(&mut self, now: Instant) -> u64 {
        self.opened += 1;
        self.begun.get_or_insert(now);
        self.parts.push((self.opened, String::new()));
        self.opened
    }

    fn set(&mut self, part: u64, text: String) {
        let mut parts = self.parts.iter_mut();
        if let Some((_, own)) = parts.find(|(number, _)| *number == part) {
            *own = text;
        }
    }

    fn close(&mut self, part: u64) {
        self.parts.retain(|(number, _)| *number != part);
    }

    fn is_due(&self, now: Instant) -> bool {
        let last = self.told.or(self.begun);
        last.is_some_and(|last| now.saturating_duration_since(last) >= EVERY)
    }

    /// `progress: 12 rates, at 14.2 req/s 131,072 requests; 40.0 s`, where it is time for it.
    fn due(&mut self, now: Instant, at: Option<String>) -> Option<String> {
        if !self.is_due(now) {
            return None;
        }
        self.told = Some(now);
        let begun = self.begun.unwrap_or(now);
        let parts = self.parts.iter().map(|(_, text)| text.clone());
        let told: Vec<String> = parts.chain(at).filter(|text| !text.is_empty()).collect();
        let elapsed = time(now.saturating_duration_since(begun).as_secs_f64());
        Some(format!("progress: {}; {elapsed}", told.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_every_ten_seconds_tells_what_is_under_way() {
        let mut lines = Lines::new();
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let outer = lines.open(start);
        lines.set(outer, "1 of 4 ways".to_owned());
        assert_eq!(lines.due(after(9), None), None);
        let inner = lines.open(after(9));
        lines.set(inner, "3 rates".to_owned());
        let at = Some("at 12.0 req/s 65,536 requests".to_owned());
        assert_eq!(
            lines.due(after(10), at).as_deref(),
            Some("progress: 1 of 4 ways, 3 rates, at 12.0 req/s 65,536 requests; 10.0 s")
        );
        assert_eq!(lines.due(after(19), None), None, "ten seconds after the last");
        lines.close(inner);
        lines.set(outer, "2 of 4 ways".to_owned());
        assert_eq!(
            lines.due(after(75), None).as_deref(),
            Some("progress: 2 of 4 ways; 75.0 s")
        );
        // What follows goes on counting from the first.
        lines.close(outer);
        let next = lines.open(after(80));
        lines.set(next, format!("1 {}", singular("numbers of replicas")));
        assert_eq!(
            lines.due(after(90), None).as_deref(),
            Some("progress: 1 number of replicas; 90.0 s")
        );
    }
}
