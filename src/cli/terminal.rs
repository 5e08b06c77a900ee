//! Where words to people go: results to stdout, notes and problems to stderr, colour only where it is wanted.

use std::io::{IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};

use super::Colour;
use crate::config::{Diagnostics, readable, visible};
use crate::report::Style;

/// Who we talk to.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    colour: Colour,
    is_quiet: bool,
}

impl Terminal {
    /// A terminal with the user's wishes.
    #[must_use]
    pub fn new(colour: Colour, is_quiet: bool) -> Terminal {
        Terminal { colour, is_quiet }
    }

    fn choice(self) -> ColorChoice {
        match self.colour {
            Colour::Auto => ColorChoice::Auto,
            Colour::Always => ColorChoice::Always,
            Colour::Never => ColorChoice::Never,
        }
    }

    /// Where results go; escape codes are taken out where they are not wanted, and what nobody reads is dropped.
    #[must_use]
    pub fn stdout(self) -> Box<dyn Write> {
        Box::new(WhileRead {
            writer: AutoStream::new(std::io::stdout(), self.choice()),
            is_closed: false,
        })
    }

    /// Writes a line for people; a stderr that nobody reads is no reason to fail.
    fn say(self, text: &str) {
        let mut stderr = AutoStream::new(std::io::stderr(), self.choice());
        let _ = writeln!(stderr, "{text}");
    }

    /// Tells what is wrong with the input.
    pub fn problems(self, problems: &Diagnostics) {
        self.say(&problems.render(true));
    }

    /// Tells why a command failed.
    pub fn error(self, error: &anyhow::Error) {
        self.say(&readable(&format!("error: {error:#}")));
    }

    /// Tells what belongs beside the result, unless quiet.
    pub fn notes(self, notes: &[String]) {
        if !self.is_quiet {
            for note in notes {
                self.say(&visible(&format!("note: {note}")));
            }
        }
    }

    /// Whether results and notes come to one screen: what a report says need not be said beside it.
    #[must_use]
    pub fn is_one_screen(self) -> bool {
        std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Columns of the screen that results go to, by `COLUMNS` or the terminal itself; `None` where they go to a file or a
    /// pipe and nothing is said.
    #[must_use]
    pub fn width(self) -> Option<usize> {
        let said = std::env::var("COLUMNS").ok();
        if let Some(columns) = said.and_then(|columns| columns.parse().ok()) {
            return Some(columns);
        }
        let (terminal_size::Width(columns), _) = terminal_size::terminal_size()?;
        std::io::stdout().is_terminal().then_some(usize::from(columns))
    }

    /// How a result is written: for the screen, or plain and of one width into a file.
    #[must_use]
    pub fn style(self, file: Option<&str>) -> Style {
        match file {
            Some(_) => Style::default(),
            // [`Terminal::stdout`] takes the codes out where they are not wanted.
            None => Style {
                color: true,
                width: self.width(),
            },
        }
    }

    /// A terminal to say progress to, for whoever has none: those who may speak have asked before.
    pub(super) fn speaking() -> Terminal {
        Terminal::new(Colour::Never, false)
    }

    /// Says how far it is, as a line of a log.
    pub(super) fn progress(self, line: &str) {
        self.say(line);
    }

    /// Whether that may be said: nobody is there to see a bar, and nobody asked for quiet.
    pub(super) fn tells_progress(self) -> bool {
        !self.is_quiet && !std::io::stderr().is_terminal()
    }

    /// Whether progress may be drawn.
    #[must_use]
    pub fn shows_progress(self) -> bool {
        !self.is_quiet && std::io::stderr().is_terminal()
    }
}

/// A pipe whose reader may go away, which is its right (`plimsoll … | head`): what comes after that is dropped, so that the
/// command writes its files all the same and ends with its own exit code.
struct WhileRead<W> {
    writer: W,
    is_closed: bool,
}

impl<W: Write> WhileRead<W> {
    /// What a write gave, or `dropped` from the first one on that nobody reads.
    fn unless_closed<T>(
        &mut self,
        dropped: T,
        write: impl FnOnce(&mut W) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        if self.is_closed {
            return Ok(dropped);
        }
        match write(&mut self.writer) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(dropped)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for WhileRead<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.unless_closed(bytes.len(), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.unless_closed((), Write::flush)
    }
}
