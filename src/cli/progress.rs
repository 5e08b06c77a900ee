//! Progress on stderr, for work over a second and only where a person watches.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::interrupt;
use super::terminal::Terminal;

/// Counts something up to an end that may be unknown.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    terminal: Terminal,
    total: Option<u64>,
    what: &'static str,
}

impl Progress {
    /// Nothing is drawn yet.
    pub(super) fn new(terminal: &Terminal, total: Option<u64>, what: &'static str) -> Progress {
        Progress {
            bar: None,
            begun: Instant::now(),
            terminal: *terminal,
            total,
            what,
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
        }
        !interrupt::is_asked()
    }

    fn draw(&self) -> ProgressBar {
        let known = "{bar:30} {human_pos}/{human_len} {msg}  {elapsed}, {eta} left";
        let unknown = "{spinner} {human_pos} {msg}  {elapsed}";
        let bar = self.total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = if self.total.is_some() { known } else { unknown };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed");
        bar.set_style(style);
        bar.set_message(self.what);
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
