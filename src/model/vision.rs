//! The vision tower beside a language model: what engines ask of its config when they set memory apart for images.
//!
//! Left out: its weights and its time, which are nowhere counted.

use serde_json::{Map, Value};

/// Architectures that end like those with a tower and have none.
const BLIND: [&str; 1] = ["ChatGLMForConditionalGeneration"];

/// That a checkpoint has a tower, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vision {
    /// The `architectures` entry of the whole checkpoint, `Qwen2_5_VLForConditionalGeneration`.
    pub architecture: String,
    /// What its `vision_config` says; `None` where there is none to read.
    pub tower: Option<Tower>,
}

/// The numbers of a `vision_config`, each `None` where it has no such key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tower {
    /// `num_hidden_layers`. Some towers call it otherwise (`depth`), and engines do not look there.
    pub layers: Option<u32>,
    /// `hidden_size`. Of some it is not the tower's own width but that of the language model (Qwen2-VL).
    pub hidden_size: Option<u32>,
}

impl Vision {
    /// What the outermost object of a `config.json` says.
    pub(super) fn read(architecture: &str, outer: &Map<String, Value>) -> Option<Vision> {
        let config = outer.get("vision_config").and_then(Value::as_object);
        let ends_so = architecture.ends_with("ForConditionalGeneration") && !BLIND.contains(&architecture);
        if !ends_so && !outer.contains_key("vision_config") {
            return None;
        }
        // Kimi-K2.5 marks the tower's own keys.
        let number = |key: &str| {
            let config = config?;
            let value = config.get(key).or_else(|| config.get(&format!("vt_{key}")))?;
            u32::try_from(value.as_u64()?).ok()
        };
        Some(Vision {
            architecture: architecture.to_string(),
            tower: config.map(|_| Tower {
                layers: number("num_hidden_layers"),
                hidden_size: number("hidden_size"),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tower_is_read_by_the_keys_that_engines_ask_for() {
        let read = |architecture: &str, json: &str| {
            let value: Value = serde_json::from_str(json).unwrap();
            Vision::read(architecture, value.as_object().unwrap())
        };
        let tower = |layers, hidden_size| Some(Tower { layers, hidden_size });
        let qwen = read(
            "Qwen2_5_VLForConditionalGeneration",
            r#"{"vision_config": {"depth": 32, "hidden_size": 1280}}"#,
        );
        assert_eq!(qwen.unwrap().tower, tower(None, Some(1280)));
        let kimi = r#"{"vision_config": {"vt_num_hidden_layers": 27, "vt_hidden_size": 1152, "text_hidden_size": 7168}}"#;
        let kimi = read("KimiK25ForConditionalGeneration", kimi).unwrap();
        assert_eq!(kimi.tower, tower(Some(27), Some(1152)));
        assert_eq!(read("Gemma3ForConditionalGeneration", "{}").unwrap().tower, None);
        let odd = read(
            "LlavaForConditionalGeneration",
            r#"{"vision_config": {"hidden_size": -1}}"#,
        );
        assert_eq!(odd.unwrap().tower, tower(None, None));
        assert_eq!(read("Qwen2ForCausalLM", "{}"), None);
        assert_eq!(read("ChatGLMForConditionalGeneration", "{}"), None);
    }
}
