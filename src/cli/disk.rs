//! The disk, as `config` sees it.

use crate::config::Files;

/// Files of the working folder.
pub struct Disk;

impl Files for Disk {
    fn is_there(&self, path: &str) -> bool {
        std::path::Path::new(path).exists()
    }

    fn is_folder(&self, path: &str) -> bool {
        std::path::Path::new(path).is_dir()
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        super::ledger::read(path.as_ref())
            .map(super::files::without_mark)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => format!("there is no file `{path}`"),
                _ => format!("{path}: {error}"),
            })
    }
}
