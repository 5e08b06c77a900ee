//! Writing results: to the screen or to files, whole or not at all.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Context;

use super::ledger;
use super::terminal::Terminal;
use crate::report::chart::Picture;

/// A file's bytes without the mark that some editors put before a text in UTF-8: it is no part of what is written.
pub(super) fn without_mark(bytes: Vec<u8>) -> Vec<u8> {
    match bytes.strip_prefix("\u{feff}".as_bytes()) {
        Some(rest) => rest.to_vec(),
        None => bytes,
    }
}

/// Most bytes of a result that are read: half a gigabyte holds every token of 100,000 long answers.
const RESULT_MAX: u64 = 512 << 20;

/// All bytes of a result's file, or of standard input for `-`; what is packed by gzip is unpacked.
///
/// # Errors
/// If it cannot be read, is in UTF-16, or does not end within [`RESULT_MAX`], as a device does not.
pub(super) fn read_result(name: &str) -> anyhow::Result<Vec<u8>> {
    let (shown, bytes) = if name == "-" {
        let shown = "standard input";
        (shown, up_to(std::io::stdin(), RESULT_MAX, shown)?)
    } else {
        anyhow::ensure!(
            !Path::new(name).is_dir(),
            "{name} is a folder: name the results in it, {name}/*.json"
        );
        let file = ledger::open(Path::new(name)).with_context(|| format!("cannot read {name}"))?;
        (name, up_to(file, RESULT_MAX, name)?)
    };
    unpacked(bytes, shown)
}

/// Of a text in UTF-16 the first bytes: its mark, or a letter of ASCII and a zero.
const UTF_16: [&[u8]; 4] = [b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{"];

fn unpacked(bytes: Vec<u8>, name: &str) -> anyhow::Result<Vec<u8>> {
    let bytes = match bytes.starts_with(b"\x1f\x8b") {
        // In words: what cannot be unpacked is a wrong file, and no failure of the machine.
        true => up_to(
            flate2::read::MultiGzDecoder::new(bytes.as_slice()),
            RESULT_MAX,
            name,
        )
        .map_err(|error| anyhow::anyhow!("{error:#}, unpacked by gzip"))?,
        false => bytes,
    };
    anyhow::ensure!(
        !UTF_16.iter().any(|start| bytes.starts_with(start)),
        "{name} is UTF-16 text: save it as UTF-8"
    );
    Ok(bytes)
}

fn up_to(from: impl Read, most: u64, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    anyhow::ensure!(
        bytes.len() as u64 <= most,
        "{name} has more than {} MiB: no more of a result is read; leave out lists of single tokens, or give one run a file",
        most >> 20
    );
    Ok(without_mark(bytes))
}

/// Puts a result on the screen, or into a file where one was asked for; `-` is the screen, too.
pub(super) fn put(text: &str, file: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
    match file {
        Some(path) if path != "-" => write(Path::new(path), text.as_bytes()),
        _ => Ok(out.write_all(text.as_bytes())?),
    }
}

/// Writes a file beside its place and moves it there, so that an interruption leaves no half of one. What is there
/// and is no regular file (a device, a pipe, a link) is written to as it is: moving would replace it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    ledger::spares_inputs(path, "this")?;
    make_folder(path)?;
    let written = if is_written_in_place(path) {
        let mut options = std::fs::OpenOptions::new();
        let opened = options.write(true).truncate(true).create(true).open(path);
        opened.and_then(|mut file| file.write_all(bytes))
    } else {
        let partial = ledger::beside(path);
        let moved = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
        // Half a file helps nobody, and why it could not be written is told below.
        moved.inspect_err(|_| drop(std::fs::remove_file(&partial)))
    };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Puts `text` on a line behind what a file holds, as vLLM's client appends a result; it begins a file that is not there. Commands that
/// append to one file at once wait for each other, and each of their lines is there and whole.
///
/// # Errors
/// If it cannot be written; a half of it is taken back.
pub(super) fn append(path: &Path, text: &str) -> anyhow::Result<()> {
    ledger::spares_inputs(path, "this")?;
    make_folder(path)?;
    appended(path, text).with_context(|| format!("cannot append to {}", path.display()))
}

fn appended(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(path)?;
    // Where a file system has no locks a line is still one write at the end.
    let _ = file.lock();
    let length = file.metadata()?.len();
    let mut last = [0];
    if length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    let is_open = length > 0 && last != *b"\n";
    let line = [if is_open { "\n" } else { "" }, text].concat();
    file.write_all(line.as_bytes()).inspect_err(|_| {
        let _ = file.set_len(length);
    })
}

/// A file of rows, each written at once and whole or not at all: of what a full disk takes half of nothing stays.
pub(super) struct Rows {
    file: std::fs::File,
    length: u64,
}

impl Rows {
    /// An empty one, in place of what is there.
    pub(super) fn create(path: &Path) -> std::io::Result<Rows> {
        create(path).map(|file| Rows { file, length: 0 })
    }
}

impl Write for Rows {
    fn write(&mut self, row: &[u8]) -> std::io::Result<usize> {
        self.file.write_all(row).inspect_err(|_| {
            // A pipe has no length, and keeps what it took.
            let _ = self.file.set_len(self.length);
        })?;
        self.length += row.len() as u64;
        Ok(row.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// An empty file to write, in place of what is there.
pub(super) fn create(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::File::create(path)
}

/// Whether what is there is written to as it is: a device, a pipe or a link, which a file that is moved there would replace.
pub(super) fn is_written_in_place(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) || is_descriptor(path)
}

/// Whether a path names an open file of this process, as `>(command)` of a shell does.
fn is_descriptor(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Makes the folder of a file.
pub(super) fn make_folder(path: &Path) -> anyhow::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => std::fs::create_dir_all(folder)
            // Folders above it are made, too: none that could be named is missing, and the place takes no folder.
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => std::io::Error::other(error),
                _ => error,
            })
            .with_context(|| format!("cannot make the folder {}", folder.display())),
        _ => Ok(()),
    }
}

/// Makes an empty file; whether there was none of that name.
///
/// # Errors
/// If it cannot be made for another reason.
pub(super) fn make_new(path: &Path) -> anyhow::Result<bool> {
    make_folder(path)?;
    match std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
    {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

/// Takes a file away that could not be finished; where that fails, too, it stays.
pub(super) fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Checks before a long simulation that the file that `flag` names can be written.
///
/// # Errors
/// If it is an input, another flag's file or a folder, or its own folder cannot be made or written to.
pub(super) fn check_file(path: &Path, flag: &str) -> anyhow::Result<()> {
    anyhow::ensure!(
        !path.as_os_str().is_empty(),
        "the file to write has an empty name"
    );
    anyhow::ensure!(!path.is_dir(), "cannot write {}: it is a folder", path.display());
    ledger::claim(path, flag)?;
    let is_special = std::fs::metadata(path).is_ok_and(|there| !there.is_file());
    if is_special || is_descriptor(path) {
        return Ok(());
    }
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => check_folder(folder),
        None => check_folder(Path::new(".")),
    }
}

/// Checks before a long simulation that a folder will take its results.
///
/// # Errors
/// If it cannot be made or written to.
pub(super) fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let probe = folder.join(format!(".plimsoll-{}.partial", std::process::id()));
    make_folder(&probe)?;
    std::fs::write(&probe, b"")
        .and_then(|()| std::fs::remove_file(&probe))
        .with_context(|| format!("cannot write into {}", folder.display()))
}

/// Saves pictures as SVG and PNG.
pub(super) fn save_pictures(
    folder: &str,
    pictures: &[(impl AsRef<str>, Picture)],
    terminal: &Terminal,
) -> anyhow::Result<()> {
    for (name, picture) in pictures {
        let stem = Path::new(folder).join(name.as_ref());
        let (svg, png) = (stem.with_extension("svg"), stem.with_extension("png"));
        for path in [&svg, &png] {
            ledger::claim(path, "--charts")?;
        }
        write(&svg, picture.svg().as_bytes())?;
        write(&png, &picture.png())?;
    }
    let names: Vec<&str> = pictures.iter().map(|(name, _)| name.as_ref()).collect();
    terminal.notes(&[format!("drew {} into {folder} (SVG and PNG)", names.join(", "))]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_before_a_text_is_no_part_of_it() {
        assert_eq!(without_mark("\u{feff}{}".into()), b"{}");
        assert_eq!(without_mark(b"{}".to_vec()), b"{}");
    }

    #[test]
    fn what_is_packed_is_unpacked_and_utf_16_is_named() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all("\u{feff}{}".as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(unpacked(packed.clone(), "it").unwrap(), b"{}");
        let told = unpacked(packed[..packed.len() - 9].to_vec(), "cut.json.gz").unwrap_err();
        assert!(told.to_string().contains("cannot read cut.json.gz"), "{told}");
        for start in UTF_16 {
            let told = unpacked([start, b"\0a"].concat(), "wide.json").unwrap_err();
            assert!(told.to_string().contains("wide.json is UTF-16 text"), "{told}");
        }
        assert_eq!(unpacked(b"{}".to_vec(), "it").unwrap(), b"{}");
    }

    #[test]
    fn what_does_not_end_is_not_read_on() {
        assert_eq!(
            up_to(std::io::repeat(b'7').take(8), 8, "it").unwrap(),
            b"77777777"
        );
        let told = up_to(std::io::repeat(0), 3 << 20, "/dev/zero")
            .unwrap_err()
            .to_string();
        assert!(told.starts_with("/dev/zero has more than 3 MiB"), "{told}");
    }

    #[test]
    fn those_who_append_to_one_file_at_once_lose_nothing() {
        let path = std::env::temp_dir().join(format!("plimsoll-append-{}", std::process::id()));
        let line = |who: usize| who.to_string().repeat(5000);
        std::thread::scope(|scope| {
            for who in 0..8 {
                let (path, line) = (&path, line(who));
                scope.spawn(move || (0..20).for_each(|_| append(path, &line).unwrap()));
            }
        });
        let held = std::fs::read_to_string(&path).unwrap();
        let of = |who: usize| held.lines().filter(|held| *held == line(who)).count();
        assert_eq!((0..8).map(of).collect::<Vec<_>>(), [20; 8]);
        assert_eq!(held.lines().count(), 160);
        // What ends with a line is followed on the next.
        std::fs::write(&path, "a\n").unwrap();
        append(&path, "b").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"a\nb");
        std::fs::remove_file(&path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_a_file_replaced_whole() {
        let folder = std::env::temp_dir().join(format!("plimsoll-files-{}", std::process::id()));
        let (target, link) = (folder.join("target"), folder.join("link"));
        write(&target, b"a longer text").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&link, b"short").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"short");
        write(&target, b"new").unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_full_device_is_told_and_stays_a_device() {
        use std::os::unix::fs::FileTypeExt;
        let full = Path::new("/dev/full");
        if full.exists() {
            let error = write(full, b"text").unwrap_err();
            assert!(
                format!("{error:#}").contains("cannot write /dev/full"),
                "{error:#}"
            );
            assert!(std::fs::metadata(full).unwrap().file_type().is_char_device());
        }
    }
}
