//! A file that grows while a command runs, and is there whole or not at all.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{files, ledger};

/// A file that is written piece by piece beside its place, and moved there when it is whole. What is there and is no regular file is
/// written to as it is ([`files::is_written_in_place`]).
///
/// A piece that cannot be written is told of at the end: until then others are taken and forgotten, so that whoever has more to do
/// than this file does it.
#[derive(Debug)]
pub(super) struct Piecewise {
    place: PathBuf,
    /// Where it grows, if not in its place.
    partial: Option<PathBuf>,
    written: std::io::Result<BufWriter<File>>,
}

impl Piecewise {
    /// Begins an empty file.
    ///
    /// # Errors
    /// If it is an input, or cannot be made.
    pub(super) fn begin(place: &Path) -> anyhow::Result<Piecewise> {
        ledger::spares_inputs(place, "this")?;
        files::make_folder(place)?;
        let partial = (!files::is_written_in_place(place)).then(|| ledger::beside(place));
        let opened = files::create(partial.as_deref().unwrap_or(place));
        let file = opened.with_context(|| format!("cannot write {}", place.display()))?;
        Ok(Piecewise {
            place: place.to_owned(),
            partial,
            written: Ok(BufWriter::new(file)),
        })
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, piece: &str) {
        if let Ok(file) = &mut self.written
            && let Err(error) = file.write_all(piece.as_bytes())
        {
            self.written = Err(error);
        }
    }

    /// Nothing follows: the file takes its place.
    ///
    /// # Errors
    /// If a piece could not be written; what was stays nowhere.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        let written = std::mem::replace(&mut self.written, Err(std::io::ErrorKind::Other.into()));
        let moved = written.and_then(|mut file| {
            file.flush()?;
            drop(file);
            match &self.partial {
                Some(partial) => std::fs::rename(partial, &self.place),
                None => Ok(()),
            }
        });
        if moved.is_ok() {
            self.partial = None;
        }
        moved.with_context(|| format!("cannot write {}", self.place.display()))
    }
}

impl Drop for Piecewise {
    /// Half a file helps nobody.
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // Closed before: some systems remove no open file.
            self.written = Err(std::io::ErrorKind::Other.into());
            drop(std::fs::remove_file(partial));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("new/it.json");
        let mut file = Piecewise::begin(&place).unwrap();
        file.add("one ");
        assert!(!place.exists());
        file.add("two");
        file.end().unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "one two");
        // What is given up leaves what was there, and nothing else.
        let mut other = Piecewise::begin(&place).unwrap();
        other.add("three");
        drop(other);
        assert_eq!(std::fs::read_to_string(&place).unwrap(), "one two");
        assert_eq!(std::fs::read_dir(folder.path().join("new")).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let full = Path::new("/dev/full");
        if full.exists() {
            let mut file = Piecewise::begin(full).unwrap();
            (0..100).for_each(|_| file.add(&"x".repeat(1000)));
            let told = format!("{:#}", file.end().unwrap_err());
            assert!(told.contains("cannot write /dev/full"), "{told}");
        }
    }
}
