//! The JSON Schema of the scenario file, from the doc comments of its keys.

use super::raw::RawScenario;

/// The schema as indented JSON with a final newline.
#[must_use]
pub fn scenario_schema() -> String {
    let schema = schemars::schema_for!(RawScenario);
    let text = serde_json::to_string_pretty(&schema).expect("a schema is representable in JSON");
    text + "\n"
}
