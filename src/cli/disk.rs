//! The disk, as `config` sees it, and standard input, which is read once however often it is asked for.

use std::io::Read;
use std::sync::OnceLock;

use crate::config::Files;

static STANDARD_INPUT: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();

/// Files of the working folder.
pub struct Disk;

impl Files for Disk {
    fn is_there(&self, path: &str) -> bool {
        std::path::Path::new(path).exists()
    }

    fn whole_path(&self, path: &str) -> Option<String> {
        let whole = std::path::absolute(path).ok().filter(|_| path != "-")?;
        whole.to_str().map(str::to_owned)
    }

    fn is_folder(&self, path: &str) -> bool {
        std::path::Path::new(path).is_dir()
    }

    fn read_trace(&self, path: &str) -> Result<Vec<u8>, String> {
        match self.is_folder(path) {
            true => super::folder::packed(path.as_ref()).map_err(|error| format!("{path} {error}")),
            false => self.read(path),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        if path == "-" || path == "/dev/stdin" {
            return STANDARD_INPUT.get_or_init(standard_input).clone();
        }
        super::ledger::read(path.as_ref())
            .map(super::files::without_mark)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => format!("there is no file `{path}`{}", looked_in(path)),
                _ => format!("{path}: {error}"),
            })
    }
}

/// Where a path was looked for that does not begin at the root.
fn looked_in(path: &str) -> String {
    let is_whole = std::path::Path::new(path).is_absolute();
    match std::env::current_dir() {
        Ok(folder) if !is_whole => format!(" in the working folder, {}", folder.display()),
        _ => String::new(),
    }
}

fn standard_input() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().read_to_end(&mut bytes);
    read.map_err(|error| format!("standard input: {error}"))?;
    Ok(super::files::without_mark(bytes))
}
