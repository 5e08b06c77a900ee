//! Names on the command line to devices and models: files first, then what is shipped.
//!
//! Left out: the network. Law: what wins over what is said in a note.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::disk::Disk;
use super::ledger;
use crate::config::{Unreadable, checkpoint};
use crate::cost::calibration::{self, Calibration};
use crate::hardware::{self, Device};
use crate::model::{self, ModelShape};
use crate::nearest::{nearest, squash};

/// The folder in which one's own profiles are looked for.
pub const PROFILE_FOLDER: &str = "hardware_profiles";

/// The device that `--gpu` names: a `.toml` path, a profile in [`PROFILE_FOLDER`] of the working folder, or a shipped
/// one. The notes are for the reader of the result.
pub fn device(name: &str) -> anyhow::Result<(Device, Vec<String>)> {
    if name.to_lowercase().ends_with(".toml") {
        return Ok((read_profile(Path::new(name))?, Vec::new()));
    }
    let shipped = hardware::find(name);
    // A short name that means a shipped card means one's own file of that card's name too.
    let id = shipped.as_ref().map_or(name, |(device, _)| device.id.as_str());
    let folder = Path::new(PROFILE_FOLDER);
    let Some(path) = profile_on_disk(folder, name).or_else(|| profile_on_disk(folder, id)) else {
        let (device, note) = shipped?;
        return Ok((device, note.into_iter().collect()));
    };
    let own = read_profile(&path)?;
    let mut notes = Vec::new();
    match shipped {
        Ok((device, note)) if device == own => notes.extend(note),
        Ok((_, note)) => {
            notes.extend(note);
            notes.push(format!(
                "{} takes the place of the shipped profile",
                path.display()
            ));
        }
        Err(_) => notes.push(format!("GPU read from {}", path.display())),
    }
    Ok((own, notes))
}

/// The profiles in [`PROFILE_FOLDER`] of the working folder, by file name, but for the template; and a sentence for each
/// that cannot be used.
pub fn own_devices() -> (Vec<Device>, Vec<String>) {
    let Ok(entries) = std::fs::read_dir(PROFILE_FOLDER) else {
        return (Vec::new(), Vec::new());
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "toml")
            && path.file_stem().is_some_and(|stem| stem != "template")
    });
    paths.sort();
    let (mut devices, mut unusable) = (Vec::new(), Vec::new());
    for path in &paths {
        match read_profile(path) {
            Ok(device) => devices.push(device),
            Err(error) => unusable.push(format!("{}: {error:#}", path.display())),
        }
    }
    (devices, unusable)
}

/// The model that a positional names: a `config.json`, a folder that holds one, or a shipped id.
pub fn model(name: &str) -> anyhow::Result<(ModelShape, Vec<String>)> {
    match checkpoint(name, &Disk) {
        Some(Ok((shape, mut notes))) => {
            notes.extend(shape.kept_note());
            Ok((shape, notes))
        }
        Some(Err(Unreadable { what, why })) => bail!("`{name}` {what}: {why}"),
        None => Ok(model::find_checkpoint(name)?),
    }
}

/// How many names are proposed for an unknown one.
const SUGGESTED: usize = 3;

/// The calibration that a name means: a `.toml` file or a shipped one, with no more than it says itself.
pub fn calibration(name: &str) -> anyhow::Result<Calibration> {
    match calibration::shipped(name) {
        Some(known) => Ok(known),
        None => Ok(Calibration::parse(name, &calibration_text(name)?)?),
    }
}

/// The text of its file, comments included.
pub fn calibration_text(name: &str) -> anyhow::Result<String> {
    if name.to_lowercase().ends_with(".toml") {
        return ledger::read_to_string(name.as_ref()).with_context(|| format!("cannot read {name}"));
    }
    match calibration::shipped_text(name) {
        Some(text) => Ok(text.to_owned()),
        None => {
            let near = nearest(name, calibration::shipped_names(), SUGGESTED);
            let help = match &near[..] {
                [] => String::new(),
                near => format!("did you mean {}? ", near.join(" or ")),
            };
            bail!(
                "`{name}` names no shipped calibration and no file ending in .toml; {help}`plimsoll calibrations` lists them"
            )
        }
    }
}

fn read_profile(path: &Path) -> anyhow::Result<Device> {
    let text = ledger::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Device::from_toml(&text, &path.display().to_string())?)
}

/// A file of `folder` whose stem is `name`, whatever its case and separators.
fn profile_on_disk(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut fitting: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter(|path| {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            stem.is_some_and(|stem| squash(stem) == squash(name))
        })
        .collect();
    // The order of a folder's entries is not defined.
    fitting.sort();
    fitting.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_on_disk_wins_over_a_shipped_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h100-sxm-80gb.toml");
        std::fs::write(&path, "").unwrap();
        assert_eq!(profile_on_disk(folder.path(), "H100_SXM_80GB"), Some(path));
        assert_eq!(profile_on_disk(folder.path(), "L4"), None);
    }

    #[test]
    fn a_config_is_read_from_a_folder_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        std::fs::write(&path, include_str!("../model/shapes/qwen3-8b.json")).unwrap();
        for name in [folder.path(), &path] {
            let (shape, _) = model(name.to_str().unwrap()).unwrap();
            assert_eq!(shape.parameters(), 8_190_735_360);
        }
        let beside = folder.path().join("hf_quant_config.json");
        let fp8 = r#"{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}"#;
        std::fs::write(&beside, fp8).unwrap();
        for name in [folder.path(), &path] {
            let (shape, notes) = model(name.to_str().unwrap()).unwrap();
            assert_eq!(shape.quantization, model::Quantization::Fp8);
            assert!(notes[0].contains("hf_quant_config.json"), "{notes:?}");
        }
        let error = model("nowhere/config.json").unwrap_err().to_string();
        assert!(
            error.contains("there is no file `nowhere/config.json`"),
            "{error}"
        );
    }
}
