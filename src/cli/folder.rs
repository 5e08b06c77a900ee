//! A folder of trace files where one trace file is asked for: its files, packed as `tar` would.

use std::io::{Error, ErrorKind};
use std::path::Path;

use super::ledger;

/// A tar archive is a chain of blocks of this size.
const BLOCK: usize = 512;

/// The JSON files of a folder, in the order of their names, as a tar archive.
///
/// # Errors
/// If there is none, or one cannot be read.
pub(super) fn packed(folder: &Path) -> std::io::Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_json = path
            .extension()
            .is_some_and(|end| end == "json" || end == "jsonl");
        let is_hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if is_json && !is_hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            "is a folder without JSON files, of which a trace of sessions is made: name a trace file; ServeGen's client files are packed \
             first, with `tar czf profiles.tar.gz`",
        ));
    }
    let mut archive = Vec::new();
    for path in files {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let bytes = ledger::read(&path)?;
        append(&mut archive, &name, &bytes).map_err(|what| Error::new(ErrorKind::InvalidInput, what))?;
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

/// Adds a file with a POSIX header.
fn append(archive: &mut Vec<u8>, name: &str, bytes: &[u8]) -> Result<(), String> {
    const NAME_MAX: usize = 100;
    const SIZE: std::ops::Range<usize> = 124..135;
    let mut header = [0_u8; BLOCK];
    let size = format!("{:011o}", bytes.len());
    if name.len() > NAME_MAX || size.len() > SIZE.len() {
        return Err(format!(
            "{name}: a file of a folder has a name of at most {NAME_MAX} bytes and less than 8 GiB"
        ));
    }
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[SIZE].copy_from_slice(size.as_bytes());
    header[156] = b'0';
    header[257..262].copy_from_slice(b"ustar");
    archive.extend_from_slice(&header);
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    Ok(())
}
