//! Which calibration times a server: the one that is asked for, over the best that ships for its GPU.

use std::collections::BTreeMap;

use super::document::Source;
use super::files::Files;
use super::judge::Judge;
use super::machine::{is_path, text_file};
use super::raw::{RawCluster, RawScenario};
use crate::cost::Trust;
use crate::cost::calibration::{self, Calibration, Copies, Direction};
use crate::hardware::{self, Device};

/// Copies over the host link as the calibration that is asked for has them; none where that is broken, which
/// [`super::machine::build`] reports.
pub(super) fn copies(
    raw: &RawCluster,
    device: &Device,
    engine: &str,
    files: &dyn Files,
) -> BTreeMap<Direction, Copies> {
    let asked = asked_calibration(raw, files);
    let best = || calibration::for_device(device, engine).calibration;
    let copies = asked
        .map(|asked| asked.copies)
        .filter(|copies| !copies.is_empty());
    copies.unwrap_or_else(|| best().copies)
}

/// The calibration that a run would go by, without a word about it.
pub(super) fn calibration_of(
    raw: &RawCluster,
    device: &Device,
    engine: &str,
    files: &dyn Files,
) -> Calibration {
    let best = calibration::for_device(device, engine).calibration;
    match asked_calibration(raw, files) {
        Some(asked) => asked.over(&best),
        None => best,
    }
}

/// The calibration that is asked for by itself; `None` where there is none that can be read.
fn asked_calibration(raw: &RawCluster, files: &dyn Files) -> Option<Calibration> {
    let name = raw.calibration.as_deref()?;
    if !is_path(name, ".toml") {
        return calibration::shipped(name);
    }
    let text = String::from_utf8(files.read(name).ok()?).ok()?;
    Calibration::parse(name, &text).ok()
}

/// The calibration that is asked for, on top of the best that ships for the GPU, or that one by itself.
pub(super) fn calibration(
    judge: &mut Judge,
    raw: &RawScenario,
    device: &Device,
    engine: &str,
    files: &dyn Files,
) -> Option<(Calibration, Trust)> {
    let key = "cluster.calibration";
    let best = calibration::for_device(device, engine);
    let Some(name) = &raw.cluster.calibration else {
        let source = Source::Assumption(best.note.clone());
        judge.assume(key, best.calibration.name.clone(), source);
        return Some((best.calibration, best.trust));
    };
    judge.given(key, name);
    if *name == best.calibration.name {
        return Some((best.calibration, best.trust));
    }
    let asked = if is_path(name, ".toml") {
        let text = text_file(judge, key, name, files)?;
        let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".toml");
        match Calibration::parse(stem, &text) {
            Ok(calibration) => calibration,
            Err(error) => {
                judge.wrong(key, "is not a calibration", error.to_string());
                return None;
            }
        }
    } else if let Some(shipped) = calibration::shipped(name) {
        shipped
    } else {
        let known: Vec<&str> = calibration::shipped_names().collect();
        let near = crate::nearest::nearest(name, known.iter().copied(), 1);
        let help = near.first().map_or_else(
            || format!("shipped are {}", known.join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        judge.wrong_help(key, "names no shipped calibration", name.clone(), help);
        return None;
    };
    let mut trust = asked.provenance.source.trust();
    let mut asked = asked;
    let made_on = asked.provenance.gpu.clone();
    let is_shipped = !is_path(name, ".toml");
    // A file of one's own may describe its GPU in any words; only a known name of another card speaks against it.
    let is_foreign = match hardware::find(&made_on) {
        Ok((other, _)) => other.id != device.id,
        Err(_) => is_shipped && !made_on.eq_ignore_ascii_case(&device.id),
    };
    if is_foreign {
        judge.notes.push(match made_on.as_str() {
            "" => format!("calibration {name} is of no card: it is the datasheet's roofline"),
            made_on => format!("calibration {name} was made on {made_on}, not on {}", device.id),
        });
        asked = asked.distrusted(Trust::Prior);
        trust = trust.max(Trust::Prior);
    }
    Some((asked.over(&best.calibration), trust))
}
