//! Keys of the engine that does not serve: refused, with what the one that serves calls them.
//!
//! A scenario names its engine, and `--engine` may name another. A key of the scenario then gives way to the other
//! engine's flag of the same meaning; what no flag replaces is refused, because leaving it out would change the run.

use toml::Value;

use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::{RawEngine, RawSglang};

/// How a value is said by the other engine.
#[derive(Clone, Copy, Debug)]
enum Turned {
    /// The same value.
    Same,
    /// The opposite of a switch.
    Opposite,
    /// Another quantity: what the other's flag means.
    Other(&'static str),
}

/// A flag of vLLM, what SGLang calls it, and how values go over.
const TWINS: [(&str, &str, Turned); 14] = [
    ("max_model_len", "context_length", Turned::Same),
    ("max_num_seqs", "max_running_requests", Turned::Same),
    ("max_num_batched_tokens", "chunked_prefill_size", Turned::Same),
    (
        "enable_chunked_prefill",
        "chunked_prefill_size",
        Turned::Other("-1 never splits a prompt"),
    ),
    ("enable_prefix_caching", "disable_radix_cache", Turned::Opposite),
    ("async_scheduling", "disable_overlap_schedule", Turned::Opposite),
    ("scheduling_policy", "schedule_policy", Turned::Same),
    ("block_size", "page_size", Turned::Same),
    (
        "gpu_memory_utilization",
        "mem_fraction_static",
        Turned::Other("of vLLM all memory that it takes, of SGLang that of weights and KV pool alone"),
    ),
    (
        "num_gpu_blocks_override",
        "max_total_tokens",
        Turned::Other("vLLM counts blocks, SGLang tokens"),
    ),
    ("max_num_queued_reqs", "max_queued_requests", Turned::Same),
    ("enforce_eager", "disable_cuda_graph", Turned::Same),
    ("max_cudagraph_capture_size", "cuda_graph_max_bs", Turned::Same),
    (
        "long_prefill_token_threshold",
        "chunked_prefill_size",
        Turned::Other("one chunk for all prompts"),
    ),
];

/// Flags of SGLang that others have by the same name, and why they have no effect there.
const SHARED: [(&str, &str); 2] = [
    ("attention_backend", "the calibration says how fast attention is"),
    ("language_model_only", "prompts are text tokens"),
];

/// Whether another engine than SGLang has a flag of this name, which has no effect there; it is noted.
pub(in crate::config) fn is_shared(judge: &mut Judge, key: &str) -> bool {
    let Some((_, why)) = SHARED.iter().find(|(shared, _)| *shared == key) else {
        return false;
    };
    let name = judge.document.name_of(&format!("sglang.{key}"));
    judge.ignore(format!("{name} has no effect: {why}"));
    true
}

/// The engine that serves, as its user sees it.
struct Serving {
    name: &'static str,
    section: &'static str,
    owner: &'static str,
    foreign: &'static str,
    is_sglang: bool,
}

const SGLANG: Serving = Serving {
    name: "SGLang",
    section: "sglang",
    owner: "vLLM",
    foreign: "engine",
    is_sglang: true,
};
const VLLM: Serving = Serving {
    name: "vLLM",
    section: "engine",
    owner: "SGLang",
    foreign: "sglang",
    is_sglang: false,
};

/// Reports keys that were given although the other engine serves, but for those of a scenario that a flag of the engine
/// which serves replaces: these leave the document.
pub(in crate::config) fn refuse_foreign(
    judge: &mut Judge,
    raw: &RawEngine,
    sglang: &RawSglang,
    serves_sglang: bool,
) {
    let (serving, table) = if serves_sglang {
        (SGLANG, toml::Table::try_from(raw))
    } else {
        (VLLM, toml::Table::try_from(sglang))
    };
    let table = table.expect("format types are representable in TOML");
    for (key, value) in &table {
        if ["profile", "stream_interval"].contains(&key.as_str()) {
            continue;
        }
        if !serves_sglang && is_shared(judge, key) {
            continue;
        }
        let path = format!("{}.{key}", serving.foreign);
        let twin = serving.twin(key);
        let is_flag = matches!(judge.document.source(&path), Some(Source::Flag(_)));
        let replaced_by = twin.and_then(|(twin, _)| {
            let theirs = format!("{}.{twin}", serving.section);
            match judge.document.source(&theirs) {
                Some(Source::Flag(flag)) if !is_flag => Some(flag),
                _ => None,
            }
        });
        if let Some(flag) = replaced_by {
            judge.notes.push(format!(
                "{flag} replaces the scenario's {key}, which is a flag of {}",
                serving.owner
            ));
            judge.document.remove(&path);
            continue;
        }
        let help = serving.help(twin, value, is_flag);
        let problem = format!("is a flag of {}, and {} serves", serving.owner, serving.name);
        judge.wrong_help(&path, &problem, "not of this engine", help);
    }
}

impl Serving {
    /// What this engine calls a key of the other.
    fn twin(&self, key: &str) -> Option<(&'static str, Turned)> {
        TWINS.iter().find_map(|&(vllm, sglang, turned)| {
            let (theirs, ours) = if self.is_sglang {
                (vllm, sglang)
            } else {
                (sglang, vllm)
            };
            (theirs == key).then_some((ours, turned))
        })
    }

    /// How to say it to this engine.
    fn help(&self, twin: Option<(&str, Turned)>, value: &Value, is_flag: bool) -> String {
        let name = self.name;
        let Some((twin, turned)) = twin else {
            return match is_flag {
                true => format!("{name} has no such flag; --engine says which engine serves"),
                false => format!("{name} has no such flag: delete the line, or leave out --engine"),
            };
        };
        let flag = format!("--{}", twin.replace('_', "-"));
        let is_unknown = twin == "scheduling_policy" && value.as_str().is_some_and(|value| value != "fcfs");
        let turned = match (turned, value) {
            (Turned::Same, _) if is_unknown => Err("fcfs or priority"),
            (Turned::Other(what), _) => Err(what),
            (Turned::Opposite, Value::Boolean(switch)) => Ok(Value::Boolean(!switch)),
            (_, value) => Ok(value.clone()),
        };
        let (called, meaning) = match &turned {
            Err(what) => (flag.clone(), format!(" ({what})")),
            Ok(Value::Boolean(true)) => (flag.clone(), String::new()),
            Ok(Value::Boolean(false)) => (format!("{flag}=false"), String::new()),
            Ok(Value::String(text)) => (format!("{flag} {text}"), String::new()),
            Ok(value) => (format!("{flag} {value}"), String::new()),
        };
        if is_flag {
            return format!("{name} calls it {called}{meaning}");
        }
        let line = match &turned {
            Err(_) => format!("a {twin} under [{}]", self.section),
            Ok(value) => format!("{twin} = {value} under [{}]", self.section),
        };
        format!(
            "{name} calls it {twin}{meaning}: add {called}, which replaces this line, or write {line} in its place"
        )
    }
}
