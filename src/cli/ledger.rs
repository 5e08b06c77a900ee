//! Which files this program read, and which it is to write: no output takes the place of an input or of another output.
//!
//! Every file that a command reads is opened here, those that a scenario names included, and every file that it writes
//! is claimed here by the flag that names it, before any work where its name is known then. Two paths are one file
//! where they lead to the same place, by links or by `./`. Devices, pipes and `-` keep nothing that could be lost.
//!
//! An input is a file, a pipe or a terminal: a device need not end, and neither need a line of a pipe, so that both would be
//! read until there is no memory.
//!
//! Left out: what a shell's `>` empties before this program begins, and the file of results that a sweep goes on from,
//! which is read and written by intention.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind, IsTerminal, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files of this process, by the place that their paths lead to.
#[derive(Default)]
struct Ledger {
    read: BTreeSet<PathBuf>,
    /// With the flag that names it.
    written: BTreeMap<PathBuf, String>,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger {
    read: BTreeSet::new(),
    written: BTreeMap::new(),
});

fn ledger() -> MutexGuard<'static, Ledger> {
    // Both lists are whole at any time.
    LEDGER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of an input.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = open(path)?;
    let length = file.metadata().map_or(0, |about| about.len());
    whole(file, length)
}

/// The text of an input.
pub(super) fn read_to_string(path: &Path) -> std::io::Result<String> {
    text(read(path)?)
}

/// Bytes as text.
pub(super) fn text(bytes: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is no text in UTF-8"))
}

/// The text of a file that this program keeps and writes anew: nothing that an output must spare.
pub(super) fn read_kept(path: &Path) -> std::io::Result<String> {
    text(whole(opened(path)?, 0)?)
}

/// An input, to be read elsewhere.
pub(super) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let file = opened(path)?;
    reads(path);
    Ok(file)
}

fn opened(path: &Path) -> std::io::Result<std::fs::File> {
    // Elsewhere than on Unix a folder cannot be opened, for a reason that says less.
    if path.is_dir() {
        return Err(Error::new(
            ErrorKind::IsADirectory,
            "it is a folder: name a file in it",
        ));
    }
    let file = std::fs::File::open(path)?;
    if is_endless(path, &file)? {
        return Err(Error::new(
            ErrorKind::InvalidData,
            "it is a device, which need not end: name a file or a pipe",
        ));
    }
    Ok(file)
}

/// Whether an open file is a device; the empty one ends, and a terminal does when its user says so.
#[cfg(unix)]
fn is_endless(path: &Path, file: &std::fs::File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    let kind = file.metadata()?.file_type();
    let is_empty = || {
        path.canonicalize()
            .is_ok_and(|place| place == Path::new("/dev/null"))
    };
    Ok(kind.is_block_device() || (kind.is_char_device() && !file.is_terminal() && !is_empty()))
}

#[cfg(not(unix))]
fn is_endless(_: &Path, _: &std::fs::File) -> std::io::Result<bool> {
    Ok(false)
}

/// Longest line that is read: more than any data set of conversations takes that stands in one line.
const LINE_BYTES_MAX: u64 = 1 << 30;

/// All bytes of an input of about this length, a standard input's too.
///
/// # Errors
/// If it cannot be read, or has a line of more than [`LINE_BYTES_MAX`].
pub(super) fn whole(from: impl Read, length: u64) -> std::io::Result<Vec<u8>> {
    in_lines_of(from, length, LINE_BYTES_MAX)
}

fn in_lines_of(mut from: impl Read, length: u64, line_max: u64) -> std::io::Result<Vec<u8>> {
    const PIECE: u64 = 1 << 20;
    let mut bytes = Vec::new();
    // A length is what a file says of itself: one that memory does not hold is found out below.
    let _ = bytes.try_reserve_exact(usize::try_from(length).unwrap_or_default());
    let mut line = 0;
    loop {
        let before = bytes.len();
        let read = from.by_ref().take(PIECE).read_to_end(&mut bytes)? as u64;
        if read == 0 {
            return Ok(bytes);
        }
        let last_end = bytes[before..].iter().rposition(|byte| *byte == b'\n');
        line = last_end.map_or(line + read, |at| read - at as u64 - 1);
        if line > line_max {
            let what = format!(
                "it has {} MiB without the end of a line, and no such line is read",
                line_max >> 20
            );
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
    }
}

/// Notes that a file is an input.
pub(super) fn reads(path: &Path) {
    ledger().read.extend(place(path));
}

/// Notes that `flag` names a file to write.
///
/// # Errors
/// If it is an input of this command, or another flag names it too.
pub(super) fn claim(path: &Path, flag: &str) -> anyhow::Result<()> {
    spares_inputs(path, flag)?;
    let Some(place) = place(path) else {
        return Ok(());
    };
    let mut ledger = ledger();
    let first = ledger.written.entry(place).or_insert_with(|| flag.to_owned());
    anyhow::ensure!(
        first == flag,
        "{first} and {flag} both write {}\n  help: give each a file of its own",
        path.display()
    );
    Ok(())
}

/// Demands that a file to write is no input.
///
/// # Errors
/// If this command read it, or reads the file that is written beside it first.
pub(super) fn spares_inputs(path: &Path, flag: &str) -> anyhow::Result<()> {
    let ledger = ledger();
    for target in [path.to_owned(), beside(path)] {
        anyhow::ensure!(
            !place(&target).is_some_and(|place| ledger.read.contains(&place)),
            "{flag} would overwrite {}, which this command reads\n  help: write to another file",
            target.display()
        );
    }
    Ok(())
}

/// Where a file is written before it is moved to its place.
pub(super) fn beside(path: &Path) -> PathBuf {
    let mut partial = path.as_os_str().to_owned();
    // Processes that write into one folder do not write into each other's.
    partial.push(format!(".{}.partial", std::process::id()));
    PathBuf::from(partial)
}

/// The file that a path leads to, which need not be there yet; none of a device, a pipe or standard input.
fn place(path: &Path) -> Option<PathBuf> {
    if path == Path::new("-") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd") {
        return None;
    }
    if let Ok(there) = path.canonicalize() {
        return there.is_file().then_some(there);
    }
    let (folder, name) = (path.parent()?, path.file_name()?);
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let folder = folder
        .canonicalize()
        .or_else(|_| std::path::absolute(folder))
        .ok()?;
    Some(without_dots(&folder).join(name))
}

/// A path without `..`, of folders that are not there and so no links.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_spared_by_whatever_path_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("input.json");
        std::fs::write(&input, "{}").unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        assert!(claim(&input, "--output").is_ok());
        read(&input).unwrap();
        let mut names = vec!["input.json", "./input.json", "inner/../input.json"];
        if cfg!(unix) {
            #[cfg(unix)]
            std::os::unix::fs::symlink(&input, folder.path().join("link.json")).unwrap();
            names.push("link.json");
        }
        for name in names {
            let told = claim(&folder.path().join(name), "--output").unwrap_err();
            assert!(
                told.to_string().contains("--output would overwrite"),
                "{name}: {told}"
            );
        }
        assert!(claim(&folder.path().join("inner/input.json"), "--output").is_ok());
    }

    #[test]
    fn an_input_ends_and_so_do_its_lines() {
        let told = |from: &mut dyn Read, length| {
            in_lines_of(from, length, 3 << 20)
                .map_or_else(|error| error.to_string(), |it| it.len().to_string())
        };
        assert_eq!(told(&mut std::io::empty(), 0), "0");
        assert_eq!(told(&mut std::io::repeat(b'\n').take(5 << 20), 7), "5242880");
        assert_eq!(told(&mut std::io::repeat(0).take(3 << 20), u64::MAX), "3145728");
        assert!(told(&mut std::io::repeat(0), 1 << 60).starts_with("it has 3 MiB without the end of a line"));
    }

    #[cfg(unix)]
    #[test]
    fn a_device_and_a_folder_are_no_inputs() {
        let told = |path: &str| read(path.as_ref()).map_or_else(|error| error.to_string(), |_| String::new());
        assert!(told("/dev/zero").starts_with("it is a device"));
        assert!(told("/dev").starts_with("it is a folder"));
        assert_eq!(told("/dev/null"), "");
    }

    #[test]
    fn two_flags_cannot_name_one_file_and_one_may_name_it_twice() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        claim(&file("new/out.svg"), "--output").unwrap();
        claim(&file("new/../new/out.svg"), "--output").unwrap();
        let told = claim(&file("other/../new/out.svg"), "--chart").unwrap_err();
        assert!(
            told.to_string().contains("--output and --chart both write"),
            "{told}"
        );
        claim(Path::new("/dev/null"), "--output").unwrap();
        claim(Path::new("/dev/null"), "--chart").unwrap();
    }
}
