//! The flags of what serves, those of `vllm serve` and of SGLang's server among them: keys of the scenario under the same names.

use clap::Args;
use toml::{Table, Value};

use super::editor::{By, Editor};
use super::{DisaggregationFlags, OverrideFlags, SpeculationFlags, disaggregation};
use crate::config::diagnostic::Diagnostic;
use crate::config::document::Document;
use crate::config::raw::{RawBatching, RawCluster, RawEngine, RawModel, RawSglang, RawTrtllm};

/// What serves, of every command that simulates it.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerFlags {
    #[command(flatten)]
    pub(crate) machines: MachineFlags,
    #[command(flatten)]
    pub(crate) disaggregation: DisaggregationFlags,
    #[command(flatten)]
    pub(crate) engines: EngineFlags,
    #[command(flatten)]
    pub(crate) batching: RawBatching,
    /// LMCache's keys, which a pasted command sets by the environment.
    #[arg(skip)]
    pub(crate) lmcache: Table,
    #[command(flatten)]
    pub(crate) speculation: SpeculationFlags,
}

/// Which model, on what.
#[derive(Args, Clone, Debug, Default)]
pub struct MachineFlags {
    /// Model: Hugging Face id of a bundled shape, or the path of a config.json.
    #[arg(long, value_name = "MODEL", help_heading = "Model")]
    pub model: Option<String>,
    #[command(flatten)]
    pub(crate) shape: RawModel,
    #[command(flatten)]
    pub(crate) overrides: OverrideFlags,
    #[command(flatten)]
    pub(crate) cluster: RawCluster,
}

/// Under which engine, and how that is set.
#[derive(Args, Clone, Debug, Default)]
pub struct EngineFlags {
    #[command(flatten)]
    pub(crate) engine: RawEngine,
    #[command(flatten)]
    pub(crate) sglang: RawSglang,
    #[command(flatten)]
    pub(crate) trtllm: RawTrtllm,
    /// vLLM's compilation config as JSON (-cc); its CUDA-graph keys are used.
    #[arg(long, value_name = "JSON", help_heading = "Engine (vLLM's flags)")]
    pub compilation_config: Option<String>,
}

/// Applies the model's, cluster's and engine's flags.
pub(in crate::config) fn apply_serve(
    document: &mut Document,
    flags: &ServerFlags,
    by: By<'_>,
) -> Vec<Diagnostic> {
    let ServerFlags {
        machines, engines, ..
    } = flags;
    let mut editor = Editor::new(document, by);
    editor.set_some("model.name", machines.model.clone(), "model");
    let tables = [
        ("model", Table::try_from(&machines.shape)),
        ("cluster", Table::try_from(&machines.cluster)),
        ("engine", Table::try_from(&engines.engine)),
        ("sglang", Table::try_from(&engines.sglang)),
        ("trtllm", Table::try_from(&engines.trtllm)),
        ("batching", Table::try_from(&flags.batching)),
    ];
    for (section, table) in tables {
        for (key, value) in table.expect("format types are representable in TOML") {
            let flag = match key.as_str() {
                "profile" => "engine".to_string(),
                // A variable of a pasted command's environment: there is no flag of that name.
                "output_proc_chunk_size" => "serve-cmd".to_string(),
                _ => key.replace('_', "-"),
            };
            editor.set(&format!("{section}.{key}"), value, &flag);
        }
    }
    for (key, value) in flags.lmcache.clone() {
        editor.set(&format!("lmcache.{key}"), value, "serve-cmd");
    }
    machines.overrides.apply(&mut editor);
    flags.speculation.apply(&mut editor);
    if let Some(json) = &engines.compilation_config {
        compilation_config(&mut editor, json);
    }
    let mut problems = editor.problems;
    problems.extend(disaggregation::apply(document, &flags.disaggregation, by));
    problems
}

/// The keys of vLLM's compilation config that say what is compiled and what is captured. A number by itself is the mode.
fn compilation_config(editor: &mut Editor<'_>, json: &str) {
    use serde_json::Value as Json;
    let flag = "compilation-config";
    let config = match serde_json::from_str(json) {
        Ok(Json::Object(config)) => config,
        Ok(mode @ Json::Number(_)) => serde_json::Map::from_iter([("mode".to_string(), mode)]),
        _ => {
            editor.wrong(
                flag,
                "`--compilation-config` is not a JSON object",
                "write it like '{\"cudagraph_mode\": \"PIECEWISE\"}'",
            );
            return;
        }
    };
    for (key, value) in config {
        match (key.as_str(), &value) {
            (_, Json::Null) => {}
            // `level` until 0.11.
            ("mode" | "level", Json::Number(mode)) => {
                editor.set("engine.compilation_mode", mode.as_i64().unwrap_or(-1), flag);
            }
            ("mode", Json::String(name)) if mode_of(name).is_some() => {
                editor.set("engine.compilation_mode", mode_of(name).unwrap_or(0), flag);
            }
            ("cudagraph_mode", Json::String(mode)) => {
                editor.set("engine.cudagraph_mode", mode.to_lowercase(), flag)
            }
            ("use_cudagraph", Json::Bool(true)) => {}
            ("use_cudagraph", Json::Bool(false)) => editor.set("engine.cudagraph_mode", "none", flag),
            ("max_cudagraph_capture_size", Json::Number(size)) => {
                editor.set(
                    "engine.max_cudagraph_capture_size",
                    size.as_i64().unwrap_or(0),
                    flag,
                );
            }
            ("cudagraph_capture_sizes", Json::Array(sizes)) => {
                let sizes: Vec<Value> = sizes
                    .iter()
                    .map(|size| Value::Integer(size.as_i64().unwrap_or(0)))
                    .collect();
                editor.set("engine.cudagraph_capture_sizes", sizes, flag);
            }
            ("pass_config", Json::Object(passes)) if pass_config(editor, passes, flag) => {}
            _ => {
                let message = format!("`--compilation-config`: `{key}` is not modelled");
                editor.wrong(
                    flag,
                    message,
                    "mode, cudagraph_mode, cudagraph_capture_sizes and max_cudagraph_capture_size are",
                );
            }
        }
    }
}

/// The only pass whose effect on time is known; `false` where others are asked for.
fn pass_config(
    editor: &mut Editor<'_>,
    passes: &serde_json::Map<String, serde_json::Value>,
    flag: &str,
) -> bool {
    const FUSED: &str = "fuse_allreduce_rms";
    let Some(fused) = passes.get(FUSED).and_then(serde_json::Value::as_bool) else {
        return false;
    };
    editor.set("engine.fuse_allreduce_rms", fused, flag);
    passes.len() == 1
}

/// vLLM's `CompilationMode` by name.
fn mode_of(name: &str) -> Option<i64> {
    let names = ["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"];
    let at = names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
    Some(at as i64)
}
