//! The flags of `vllm serve` and of SGLang's server: keys of the scenario under the same names.

use toml::{Table, Value};

use super::ScenarioFlags;
use super::disaggregation;
use super::editor::Editor;
use crate::config::diagnostic::Diagnostic;
use crate::config::document::Document;

/// Applies the model's, cluster's and engine's flags. `from` is put before flag names in messages.
pub(in crate::config) fn apply_serve(
    document: &mut Document,
    flags: &ScenarioFlags,
    from: &str,
) -> Vec<Diagnostic> {
    let mut editor = Editor::new(document, from);
    editor.set_some("model.name", flags.model.clone(), "model");
    let tables = [
        ("model", Table::try_from(&flags.shape)),
        ("cluster", Table::try_from(&flags.cluster)),
        ("engine", Table::try_from(&flags.engine)),
        ("sglang", Table::try_from(&flags.sglang)),
        ("batching", Table::try_from(&flags.batching)),
    ];
    for (section, table) in tables {
        for (key, value) in table.expect("format types are representable in TOML") {
            let flag = if key == "profile" {
                "engine".to_string()
            } else {
                key.replace('_', "-")
            };
            editor.set(&format!("{section}.{key}"), value, &flag);
        }
    }
    if let Some(json) = &flags.compilation_config {
        compilation_config(&mut editor, json);
    }
    let mut problems = editor.problems;
    problems.extend(disaggregation::apply(document, &flags.disaggregation, from));
    problems
}

/// The CUDA-graph keys of vLLM's compilation config.
fn compilation_config(editor: &mut Editor<'_>, json: &str) {
    let flag = "compilation-config";
    let Ok(serde_json::Value::Object(config)) = serde_json::from_str(json) else {
        editor.wrong(
            flag,
            "`--compilation-config` is not a JSON object",
            "write it like '{\"cudagraph_mode\": \"PIECEWISE\"}'",
        );
        return;
    };
    for (key, value) in config {
        match (key.as_str(), &value) {
            ("cudagraph_mode", serde_json::Value::String(mode)) => {
                editor.set("engine.cudagraph_mode", mode.to_lowercase(), flag)
            }
            ("max_cudagraph_capture_size", serde_json::Value::Number(size)) => {
                editor.set(
                    "engine.max_cudagraph_capture_size",
                    size.as_i64().unwrap_or(0),
                    flag,
                );
            }
            ("cudagraph_capture_sizes", serde_json::Value::Array(sizes)) => {
                let sizes: Vec<Value> = sizes
                    .iter()
                    .map(|size| Value::Integer(size.as_i64().unwrap_or(0)))
                    .collect();
                editor.set("engine.cudagraph_capture_sizes", sizes, flag);
            }
            _ => {
                let message = format!("`--compilation-config`: `{key}` is not modelled");
                editor.wrong(
                    flag,
                    message,
                    "cudagraph_mode, cudagraph_capture_sizes and max_cudagraph_capture_size are",
                );
            }
        }
    }
}
