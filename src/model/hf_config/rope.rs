//! How far rotary positions are stretched beyond `max_position_embeddings`.

use serde_json::{Map, Value};

use super::{POSITION_MAX, Reader, shortened};

/// Kinds of scaling whose `max_position_embeddings` are those after it (vLLM 0.33, `_get_and_verify_max_len`).
const SCALED_ALREADY: [&str; 7] = [
    "default",
    "su",
    "longrope",
    "llama3",
    "yarn",
    "deepseek_yarn",
    "deepseek_llama_scaling",
];

impl<'a> Reader<'a> {
    /// The longest context of a model that was trained with so many positions.
    pub(super) fn rope_stretched(&mut self, trained: u32) -> Option<u32> {
        let Some(rope) = self.rope() else {
            return Some(trained);
        };
        let kind = rope.get("rope_type").or_else(|| rope.get("type"));
        let kind = kind.and_then(Value::as_str).unwrap_or("default");
        let factor = match rope.get("factor").filter(|factor| !factor.is_null()) {
            None => 1.0,
            Some(factor) => match factor.as_f64().filter(|factor| *factor >= 1.0) {
                Some(factor) => factor,
                None => {
                    return self.problem(format!(
                        "`factor` of the rope scaling is {} and must be a number of at least 1",
                        shortened(factor)
                    ));
                }
            },
        };
        // Gemma 3 has the positions after scaling, too.
        if SCALED_ALREADY.contains(&kind) || self.family.model_types.contains(&"gemma3") {
            return Some(trained);
        }
        let longest = f64::from(trained) * factor;
        if longest > f64::from(POSITION_MAX) {
            return self.problem(format!(
                "`factor` of the rope scaling, {factor}, makes a context of {longest:.0} tokens"
            ));
        }
        Some(longest as u32)
    }

    /// What the config says of scaling, in one place for all layers or in one for each kind.
    fn rope(&mut self) -> Option<&'a Map<String, Value>> {
        let said = self.get("rope_scaling").or_else(|| self.get("rope_parameters"))?;
        let Some(said) = said.as_object() else {
            return self.problem(format!(
                "`rope_scaling` is {} and must be an object",
                shortened(said)
            ));
        };
        let is_of_kinds = !said.is_empty() && said.values().all(Value::is_object);
        match is_of_kinds {
            true => said.values().find_map(Value::as_object),
            false => Some(said),
        }
    }

    /// The longest context to releases that take the original positions of YaRN times its factor, where others, who take
    /// `max_position_embeddings`, have another one.
    pub(super) fn yarn_position(&mut self, trained: u32) -> Option<u32> {
        let rope = self.rope()?;
        let kind = rope.get("rope_type").or_else(|| rope.get("type"));
        if kind.and_then(Value::as_str) != Some("yarn") {
            return None;
        }
        let number = |key: &str| rope.get(key).and_then(Value::as_f64);
        let stretched = number("original_max_position_embeddings")? * number("factor").unwrap_or(1.0);
        let is_context = (1.0..=f64::from(POSITION_MAX)).contains(&stretched);
        let stretched = Some(stretched as u32).filter(|&stretched| is_context && stretched != trained)?;
        self.notes.push(yarn_note(trained, stretched));
        Some(stretched)
    }
}

/// What two readings of YaRN make of a model.
pub fn yarn_note(trained: u32, stretched: u32) -> String {
    format!(
        "under YaRN its context is `max_position_embeddings`, {trained}, to vLLM 0.33, and the original positions times the factor, \
         {stretched}, to releases about 0.11: each profile takes its own"
    )
}

/// Whether `max_position_embeddings` is that after a scaling of the kind.
pub fn is_scaled_already(kind: &str) -> bool {
    SCALED_ALREADY.contains(&kind)
}
