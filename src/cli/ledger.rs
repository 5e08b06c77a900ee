//! Which files this program read, and which it is to write: no output takes the place of an input or of another output.
//!
//! Every file that a command reads is opened here, those that a scenario names included, and every file that it writes
//! is claimed here by the flag that names it, before any work where its name is known then. Two paths are one file
//! where they lead to the same place, by links or by `./`. Devices, pipes and `-` keep nothing that could be lost.
//!
//! Left out: what a shell's `>` empties before this program begins, and the file of results that a sweep goes on from,
//! which is read and written by intention.

use std::collections::{BTreeMap, BTreeSet};
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
    let bytes = std::fs::read(path)?;
    reads(path);
    Ok(bytes)
}

/// The text of an input.
pub(super) fn read_to_string(path: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    reads(path);
    Ok(text)
}

/// An input, to be read elsewhere.
pub(super) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::File::open(path)?;
    reads(path);
    Ok(file)
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
