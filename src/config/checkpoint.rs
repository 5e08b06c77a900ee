//! A model that is given as files: a checkpoint's folder, or its `config.json`, with what NVIDIA's ModelOpt writes beside it.

use super::files::{Files, text_of};
use crate::model::{self, ModelShape};

/// The file of a checkpoint's folder that has its shape.
const CONFIG: &str = "config.json";

/// Why the files of a checkpoint are none.
#[derive(Debug)]
pub struct Unreadable {
    /// As one says of a value: `cannot be read`.
    pub what: &'static str,
    /// In what way, or which of the files.
    pub why: String,
}

/// The file of the model's shape, if a name is that of a file or of a folder with one, rather than an id of the registry.
pub(super) fn config_of(name: &str, files: &dyn Files) -> Option<String> {
    let inside = format!("{}/{CONFIG}", name.trim_end_matches('/'));
    if name.to_lowercase().ends_with(".json") {
        return Some(name.to_owned());
    }
    if files.read(&inside).is_ok() {
        return Some(inside);
    }
    if !name.starts_with(['.', '/']) && !name.ends_with('/') {
        return None;
    }
    let is_file = !name.ends_with('/') && files.read(name).is_ok();
    Some(if is_file { name.to_owned() } else { inside })
}

/// The model that a name means, and what was read into it; `None` if it is no path. The same for every command.
pub fn read(name: &str, files: &dyn Files) -> Option<Result<(ModelShape, Vec<String>), Unreadable>> {
    let path = config_of(name, files)?;
    Some(read_from(&path, name, files))
}

fn read_from(path: &str, name: &str, files: &dyn Files) -> Result<(ModelShape, Vec<String>), Unreadable> {
    let text = |path: &str| text_of(path, files).map_err(|(what, why)| Unreadable { what, why });
    let config = text(path)?;
    let beside = path
        .strip_suffix(CONFIG)
        .filter(|folder| folder.is_empty() || folder.ends_with('/'))
        .map(|folder| format!("{folder}{}", model::MODELOPT_FILE))
        .filter(|beside| files.read(beside).is_ok());
    let beside = beside.map(|beside| text(&beside)).transpose()?;
    ModelShape::from_checkpoint(&config, beside.as_deref(), name).map_err(|error| Unreadable {
        what: "is not a config.json that is understood",
        why: error.to_string(),
    })
}
