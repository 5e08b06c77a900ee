//! The shipped shapes, and finding one by its Hugging Face id or the last part of it.
//!
//! The files under `shapes/` hold the fields of public `config.json` files that this crate reads, nothing else. Several
//! ids share a file where only the weights' values differ: `ids.rs` has the ids, `files.rs` the files.

mod everyday;
mod files;
mod ids;

use std::fmt;

use self::files::FILES;
use self::ids::TABLES;
use super::hf_config::UNCOUNTED_VISION;
use super::{ModelShape, Quantization, Tower, Vision};
use crate::nearest::{nearest, squash};

/// An id and where its shape is written down.
struct Shipped {
    id: &'static str,
    file: &'static str,
    /// Longest context where it differs from the file's.
    context: Option<u32>,
    /// The checkpoint's linear layers are stored otherwise than the file says.
    stored: Option<Quantization>,
    /// Then: with scales of its inputs, too.
    static_scales: bool,
    /// The checkpoint has a vision tower beside the language model of the file: its architecture, and what it says of the tower.
    sees: Option<(&'static str, Tower)>,
}

const fn shipped(id: &'static str, file: &'static str) -> Shipped {
    Shipped {
        id,
        file,
        context: None,
        stored: None,
        static_scales: false,
        sees: None,
    }
}

impl Shipped {
    const fn context(mut self, tokens: u32) -> Shipped {
        self.context = Some(tokens);
        self
    }

    const fn sees(mut self, architecture: &'static str, tower: Tower) -> Shipped {
        self.sees = Some((architecture, tower));
        self
    }

    /// One scale for each matrix and, in the checkpoint, one for each of its inputs.
    const fn fp8(mut self) -> Shipped {
        self.static_scales = true;
        self.fp8_dynamic()
    }

    /// Scales of channels, those of inputs found while running (`input_activations.dynamic` in their config.json).
    const fn fp8_dynamic(mut self) -> Shipped {
        self.stored = Some(Quantization::Fp8);
        self
    }

    /// Qwen's own fp8 checkpoints have scales for blocks of 128×128 (`weight_block_size` in their config.json).
    const fn fp8_blocks(mut self) -> Shipped {
        self.stored = Some(Quantization::Fp8Block);
        self
    }
}

/// Organisations that were renamed: the Hub follows their old names.
const RENAMED: [(&str, &str); 3] = [
    ("neuralmagic/", "redhatai/"),
    ("thudm/", "zai-org/"),
    ("cohereforai/", "coherelabs/"),
];

/// No shipped model has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownModel {
    /// What was asked for.
    pub name: String,
    /// Ids that are spelt alike, nearest first.
    pub suggestions: Vec<String>,
    /// The shipped id that the name means up to where it speaks of fewer bits.
    pub copy_of: Option<String>,
}

impl UnknownModel {
    fn new(name: &str, suggestions: Vec<String>) -> UnknownModel {
        UnknownModel {
            name: name.to_string(),
            suggestions,
            copy_of: None,
        }
    }

    /// What to do where the name is a quantized copy's whose ending does not say enough.
    #[must_use]
    pub fn copy_hint(&self) -> Option<String> {
        let base = self.copy_of.as_ref()?;
        Some(format!(
            "if it is a quantized copy of {base}, give that name and --quantization (fp8, int8, w8a16, awq, gptq, nvfp4 …)"
        ))
    }
}

impl fmt::Display for UnknownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown model \"{}\"", self.name)?;
        if !self.suggestions.is_empty() {
            write!(f, "\n  did you mean {}?", self.suggestions.join(" or "))?;
        }
        if let Some(hint) = self.copy_hint() {
            write!(f, "\n  {hint}")?;
        }
        write!(
            f,
            "\n  `plimsoll models` lists the shipped ones; or give the path of a `config.json` or of its folder"
        )
    }
}

/// All that is shipped, in the order of listings.
fn all() -> impl Iterator<Item = &'static Shipped> {
    TABLES.iter().copied().flatten()
}

/// The ids of all shipped models, in the order of listings.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|shipped| shipped.id)
}

/// The shipped model of that id, and what was left out in reading it. Case does not matter and the organisation may be
/// left off: `llama-3.1-8b-instruct`.
///
/// ```
/// let (model, _) = plimsoll::model::find("llama-3.1-8b-instruct").unwrap();
/// assert_eq!(model.name, "meta-llama/Llama-3.1-8B-Instruct");
/// assert_eq!(model.parameters(), 8_030_261_248);
/// ```
pub fn find(name: &str) -> Result<(ModelShape, Vec<String>), UnknownModel> {
    let shipped = exactly(name).ok_or_else(|| UnknownModel::new(name, suggestions(name)))?;
    Ok(read(shipped))
}

/// The same of a name as people write it, `mistral-7b`, with a note of what it was read as.
pub(super) fn find_meant(name: &str) -> Result<(ModelShape, Vec<String>), UnknownModel> {
    if let Some(shipped) = exactly(name) {
        return Ok(read(shipped));
    }
    let shipped = everyday::meant(name).map_err(|candidates| {
        let is_unheard_of = candidates.is_empty();
        let candidates = candidates.into_iter().take(SUGGESTED).map(str::to_string);
        let suggestions = if is_unheard_of {
            suggestions(name)
        } else {
            candidates.collect()
        };
        UnknownModel::new(name, suggestions)
    })?;
    let (shape, mut notes) = read(shipped);
    notes.push(format!(
        "{name} is read as {}; the full name of another or the path of its config.json says otherwise",
        shipped.id
    ));
    Ok((shape, notes))
}

fn exactly(name: &str) -> Option<&'static Shipped> {
    let mut wanted = name.trim().trim_end_matches('/').to_lowercase();
    for (before, now) in RENAMED {
        if let Some(part) = wanted.strip_prefix(before) {
            wanted = format!("{now}{part}");
        }
    }
    let last_part = |id: &str| id.rsplit('/').next().map(str::to_lowercase);
    all()
        .find(|shipped| shipped.id.to_lowercase() == wanted)
        .or_else(|| all().find(|shipped| last_part(shipped.id).as_ref() == Some(&wanted)))
}

/// How many ids an unknown name gets to choose from.
const SUGGESTED: usize = 3;

/// The nearest ids, judged by their last parts: people leave off the organisation or get it wrong.
fn suggestions(wanted: &str) -> Vec<String> {
    let wanted_part = wanted.trim_end_matches('/').rsplit('/').next().unwrap_or(wanted);
    let mut parts: Vec<&str> = Vec::new();
    for part in names().filter_map(|id| id.rsplit('/').next()) {
        // Of ids that end alike the first is meant.
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    nearest(wanted_part, parts, SUGGESTED)
        .into_iter()
        .filter_map(|part| names().find(|id| squash(id).ends_with(&squash(part))))
        .map(str::to_string)
        .collect()
}

fn read(shipped: &Shipped) -> (ModelShape, Vec<String>) {
    let (_, text) = FILES
        .iter()
        .find(|(stem, _)| *stem == shipped.file)
        .expect("every id names a shipped file, a test finds them all");
    let (mut shape, mut notes) = ModelShape::from_hf_config(text, shipped.id)
        .expect("shipped shapes are valid, a test reads them all");
    shape.max_position = shipped.context.unwrap_or(shape.max_position);
    if let Some(stored) = shipped.stored {
        shape.quantization = stored;
        shape.static_scales = shipped.static_scales;
        // Scales of blocks are the fp8 method's own.
        shape.quant_method = (stored == Quantization::Fp8Block).then(|| "fp8".to_string());
    }
    if let Some((architecture, tower)) = shipped.sees {
        shape.vision = Some(Vision {
            architecture: architecture.to_string(),
            tower: Some(tower),
        });
        notes.push(UNCOUNTED_VISION.to_owned());
    }
    (shape, notes)
}

#[cfg(test)]
mod tests;
