//! Which calibration times a server: the one that is asked for, over the best that ships for its GPU.

use std::collections::BTreeMap;

use super::document::Source;
use super::files::{Files, text_of};
use super::judge::Judge;
use super::machine::is_path;
use super::raw::{RawCluster, RawScenario};
use crate::cost::Trust;
use crate::cost::calibration::{self, Calibration, Copies, Direction};
use crate::hardware::{self, Device};

/// Copies over the host link as the calibration that is asked for has them; none where that is broken, which
/// [`super::server::Draft::build`] reports.
pub(super) fn copies(
    raw: &RawCluster,
    device: &Device,
    engine: &str,
    files: &dyn Files,
) -> BTreeMap<Direction, Copies> {
    let asked = asked(raw, files);
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
    match asked(raw, files) {
        Some(asked) => asked.over(&best),
        None => best,
    }
}

/// Why a calibration that is asked for cannot be had.
enum Unusable {
    /// Its file, as one says of a value: `is not a calibration`, and in what way.
    File(&'static str, String),
    /// None ships by this name.
    Unknown,
}

/// The calibration of a name, a file's or a shipped one's, by itself.
fn find(name: &str, files: &dyn Files) -> Result<Calibration, Unusable> {
    if !is_path(name, ".toml") {
        return calibration::shipped(name).ok_or(Unusable::Unknown);
    }
    let text = text_of(name, files).map_err(|(what, why)| Unusable::File(what, why))?;
    let stem = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".toml");
    Calibration::parse(stem, &text).map_err(|error| Unusable::File("is not a calibration", error.to_string()))
}

/// The calibration that is asked for, by itself; `None` where there is none that can be read.
fn asked(raw: &RawCluster, files: &dyn Files) -> Option<Calibration> {
    find(raw.calibration.as_deref()?, files).ok()
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
    let mut asked = match find(name, files) {
        Ok(asked) => asked,
        Err(Unusable::File(what, why)) => {
            judge.senseless(key, what, why);
            return None;
        }
        Err(Unusable::Unknown) => {
            let known: Vec<&str> = calibration::shipped_names().collect();
            let near = crate::nearest::nearest(name, known.iter().copied(), 1);
            let help = near.first().map_or_else(
                || format!("shipped are {}", known.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            judge
                .senseless(key, "names no shipped calibration", name.clone())
                .help
                .push(help);
            return None;
        }
    };
    if let Some(beyond) = asked.beyond(device) {
        let help = format!(
            "{beyond}; leave it out, or name its card by --gpu: {}",
            asked.provenance.gpu
        );
        judge.wrong_help(key, "is of a faster card", name.clone(), help);
        return None;
    }
    let doubts = asked.evidence.iter().flat_map(|evidence| &evidence.doubts);
    let doubts: Vec<&str> = doubts.map(String::as_str).collect();
    if !doubts.is_empty() {
        judge
            .notes
            .push(format!("calibration {name} is DOUBTFUL: {}", doubts.join("; ")));
    }
    let mut trust = asked.trust();
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
