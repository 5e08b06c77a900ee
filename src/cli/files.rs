//! Writing results: to the screen or to files, whole or not at all.

use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::terminal::Terminal;
use crate::report::chart::Picture;

/// Puts a result on the screen, or into a file where one was asked for.
pub(super) fn put(text: &str, file: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
    match file {
        Some(path) if path != "-" => write(Path::new(path), text.as_bytes()),
        _ => Ok(out.write_all(text.as_bytes())?),
    }
}

/// Writes a file beside its place and moves it there, so that an interruption leaves no half of one. What is no
/// regular file (a device, a pipe) is written to, and a link keeps pointing where it does.
pub(super) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let mut special = std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .with_context(failed)?;
        return special.write_all(bytes).with_context(failed);
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    let place = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut partial = place.as_os_str().to_owned();
    partial.push(".partial");
    let written = std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, &place));
    written.with_context(failed)
}

/// Saves pictures as SVG and PNG.
pub(super) fn save_pictures(
    folder: &str,
    pictures: &[(&str, Picture)],
    terminal: &Terminal,
) -> anyhow::Result<()> {
    for (name, picture) in pictures {
        let stem = Path::new(folder).join(name);
        write(&stem.with_extension("svg"), picture.svg().as_bytes())?;
        write(&stem.with_extension("png"), &picture.png())?;
    }
    let names: Vec<&str> = pictures.iter().map(|(name, _)| *name).collect();
    terminal.notes(&[format!("drew {} into {folder} (SVG and PNG)", names.join(", "))]);
    Ok(())
}
