//! `-o FILE.jsonl`: what is finished is kept as it comes, and the same command goes on from there.

use std::io::Write;

use anyhow::Context;

use super::terminal::Terminal;
use crate::report::counted;
use crate::sweep::{Cell, Finished};

/// What a file keeps, as its messages call it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// One of them.
    pub noun: &'static str,
    /// What another file's would be of.
    pub of: &'static str,
    /// What is not done again.
    pub done: &'static str,
}

impl Kept {
    /// The runs of a sweep.
    pub(super) const RUNS: Kept = Kept {
        noun: "run",
        of: "sweep, scenario or seed",
        done: "simulated",
    };
    /// The settings of a search.
    pub(super) const SETTINGS: Kept = Kept {
        noun: "setting",
        of: "search, scenario or seed",
        done: "searched",
    };

    /// Reads what an earlier command finished and opens its file for more.
    ///
    /// # Errors
    /// A file that holds something else, or what another command kept, and one that cannot be read or written.
    pub(super) fn resume(
        self,
        path: &str,
        cells: &[Cell],
        terminal: &Terminal,
    ) -> anyhow::Result<(Finished<serde_json::Value>, Keeper<std::fs::File>)> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => anyhow::bail!(
                "{path} holds something else: it is no text in UTF-8\n  help: write to another file, or delete this one"
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        };
        let finished = Finished::read(&text).with_context(|| format!("{path} holds something else"))?;
        let Kept { noun, of, done } = self;
        if let Some(cell) = finished.foreign(cells) {
            anyhow::bail!(
                "{path} holds {noun}s of another {of} (`{cell}`)\n  help: write to another file, or delete this one"
            );
        }
        if !finished.is_empty() {
            terminal.notes(&[format!(
                "{path} already holds {}, not {done} again",
                counted(finished.len() as u64, noun)
            )]);
        }
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot write {path}"))?;
        file.set_len(finished.complete_bytes() as u64)
            .with_context(|| format!("cannot write {path}"))?;
        Ok((finished, Keeper::new(Some(file))))
    }
}

/// The file that what is finished is appended to, until it fails: the rest is done to its end, and what follows a line that was
/// written in part would belong to nothing.
pub(super) struct Keeper<W> {
    file: Option<W>,
    /// Why not everything could be kept.
    pub error: Option<std::io::Error>,
}

impl<W: Write> Keeper<W> {
    /// Keeps nothing without a file.
    pub(super) fn new(file: Option<W>) -> Keeper<W> {
        Keeper { file, error: None }
    }

    /// Appends a line that is whole.
    pub(super) fn append(&mut self, line: &str) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(line.as_bytes())
        {
            self.error = Some(error);
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            let written = bytes.len().min(self.0);
            self.0 -= written;
            Ok(written)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_line_that_cannot_be_kept_is_the_last_that_is_tried() {
        let mut keeper = Keeper::new(Some(Disk(10)));
        keeper.append("12345678");
        assert!(keeper.error.is_none());
        keeper.append("12345678");
        keeper.append("1");
        let kind = keeper.error.map(|error| error.kind());
        assert_eq!(kind, Some(std::io::ErrorKind::StorageFull));
        assert!(keeper.file.is_none());
    }
}
