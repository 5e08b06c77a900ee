//! Keys of vLLM's where SGLang serves and of SGLang's where it does not, and what the engine that serves calls them.

use toml::Value;

use crate::config::foreign::{Foreign, given};
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

const OF_VLLM: Foreign<'static> = Foreign {
    section: "engine",
    owner: "vLLM",
    serves: "SGLang",
    own: "sglang",
};

/// Refuses vLLM's keys, as SGLang serves.
pub(in crate::config) fn refuse_vllms(judge: &mut Judge, raw: &RawEngine) {
    for (key, value) in &given(raw) {
        if !["profile", "stream_interval", "speculative_config"].contains(&key.as_str()) {
            let twin = TWINS.iter().find(|(vllm, ..)| vllm == key);
            let twin = twin.map(|&(_, sglang, turned)| (sglang, turned));
            refuse(judge, OF_VLLM, (key, value), twin);
        }
    }
}

/// Refuses SGLang's keys, as another engine serves, which has some of the keys of `[engine]`.
pub(in crate::config) fn refuse_sglangs(
    judge: &mut Judge,
    raw: &RawSglang,
    serves: &str,
    has_key: impl Fn(&str) -> bool,
) {
    let of_sglang = Foreign {
        section: "sglang",
        owner: "SGLang",
        serves,
        own: "engine",
    };
    for (key, value) in &given(raw) {
        if !is_shared(judge, key) {
            let twin = TWINS
                .iter()
                .find(|(vllm, sglang, _)| sglang == key && has_key(vllm));
            let twin = twin.map(|&(vllm, _, turned)| (vllm, turned));
            refuse(judge, of_sglang, (key, value), twin);
        }
    }
}

fn refuse(judge: &mut Judge, foreign: Foreign, (key, value): (&str, &Value), twin: Option<(&str, Turned)>) {
    let name = twin.map(|(twin, _)| twin);
    foreign.refuse(judge, key, name, |is_flag| help(foreign, twin, value, is_flag));
}

/// How to say it to the engine that serves.
fn help(foreign: Foreign, twin: Option<(&str, Turned)>, value: &Value, is_flag: bool) -> String {
    let name = foreign.serves;
    let Some((twin, turned)) = twin else {
        return match is_flag {
            true => format!("{name} has no such flag; --engine says which engine serves"),
            false => format!("{name} has no such flag: delete the line, or leave out --engine"),
        };
    };
    let is_unknown = twin == "scheduling_policy" && value.as_str().is_some_and(|value| value != "fcfs");
    let turned = match (turned, value) {
        (Turned::Same, _) if is_unknown => Err("fcfs or priority"),
        (Turned::Other(what), _) => Err(what),
        (Turned::Opposite, Value::Boolean(switch)) => Ok(Value::Boolean(!switch)),
        (_, value) => Ok(value.clone()),
    };
    let flag = format!("--{}", twin.replace('_', "-"));
    let called = match &turned {
        Err(_) | Ok(Value::Boolean(true)) => flag,
        Ok(Value::Boolean(false)) => format!("{flag}=false"),
        Ok(Value::String(text)) => format!("{flag} {text}"),
        Ok(value) => format!("{flag} {value}"),
    };
    let meaning = turned.as_ref().err().map(|what| format!(" ({what})"));
    let meaning = meaning.unwrap_or_default();
    if is_flag {
        return format!("{name} calls it {called}{meaning}");
    }
    let line = match &turned {
        Err(_) => format!("a {twin} under [{}]", foreign.own),
        Ok(value) => format!("{twin} = {value} under [{}]", foreign.own),
    };
    format!(
        "{name} calls it {twin}{meaning}: add {called}, which replaces this line, or write {line} in its place"
    )
}
