//! `-o FILE.jsonl`: what is finished is kept as it comes, and the same command goes on from there.

use std::fs::TryLockError;
use std::io::{Read, Write};

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
        let mut file = held(path)?;
        let mut text = String::new();
        match file.read_to_string(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => anyhow::bail!(
                "{path} holds something else: it is no text in UTF-8\n  help: write to another file, or delete this one"
            ),
            Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
        }
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
        file.set_len(finished.complete_bytes() as u64)
            .with_context(|| format!("cannot write {path}"))?;
        Ok((finished, Keeper::new(Some(file))))
    }
}

/// The file of that name for nobody but this command, for as long as it is open: two that append to one file, and put all of it in
/// order at their ends, would each lose what the other kept.
///
/// # Errors
/// Another command writes to it, or it cannot be written.
fn held(path: &str) -> anyhow::Result<std::fs::File> {
    loop {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let file = file.with_context(|| format!("cannot write {path}"))?;
        // Where a file system has no locks there is nothing to be asked.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            anyhow::bail!(
                "another command is writing to {path}\n  help: wait for it, and the same command goes on from there; or write to another file"
            );
        }
        // Between opening and locking it another command may have put its own in that place.
        if is_still(&file, path) {
            return Ok(file);
        }
    }
}

/// Whether an open file is the one that stands at a place.
#[cfg(unix)]
fn is_still(file: &std::fs::File, path: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |about: std::fs::Metadata| (about.dev(), about.ino());
    let (own, there) = (file.metadata().map(id), std::fs::metadata(path).map(id));
    // Where it cannot be told, what is open is what there is.
    own.is_err() || own.ok() == there.ok()
}

#[cfg(not(unix))]
fn is_still(_: &std::fs::File, _: &str) -> bool {
    true
}

/// The file that what is finished is appended to, until it fails: the rest is done to its end, and what follows a line that was
/// written in part would belong to nothing. It is held, and others are kept off it, until this is dropped.
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
        if self.error.is_none()
            && let Some(file) = &mut self.file
        {
            self.error = file.write_all(line.as_bytes()).err();
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
    }

    #[test]
    fn two_commands_do_not_write_to_one_file() {
        let path = std::env::temp_dir().join(format!("plimsoll-kept-{}.jsonl", std::process::id()));
        let path = path.to_str().unwrap();
        let first = held(path).unwrap();
        let told = held(path).unwrap_err().to_string();
        assert!(
            told.starts_with(&format!("another command is writing to {path}\n  help: wait")),
            "{told}"
        );
        drop(first);
        // Whoever comes next has it, also where the first has put another file in its place.
        let other = format!("{path}.other");
        std::fs::write(&other, "row\n").unwrap();
        let second = held(path).unwrap();
        std::fs::rename(&other, path).unwrap();
        assert!(!is_still(&second, path) || cfg!(not(unix)));
        let third = held(path).unwrap();
        assert_eq!(third.metadata().unwrap().len(), 4);
        std::fs::remove_file(path).unwrap();
    }
}
