//! What differs between two runs by their files' own word. It comes before any pattern in the moves: of another model or
//! another GPU every step differs, and no pattern in them names a cause.
//!
//! Names are read, not spelt: `h100` may be an `H100-SXM-80GB`, and a model's path ends in its name. A base model and its
//! tuned sister compute the same. What only one of the two says is no difference.

use super::lengths::other_lengths;
use super::{Cause, settings};
use crate::hardware;
use crate::model;
use crate::results::{Load, Measured, Setup};

/// Rates nearer to each other are one load: a trace's is counted, a curve's added up.
const SAME_RATE: f64 = 0.005;

/// What the files say that differs, and whether another machine or model is among it.
pub(super) fn setups(predicted: &Measured, measured: &Measured) -> Option<(Cause, bool)> {
    let (a, b) = (&predicted.setup, &measured.setup);
    let (machine, server) = servers(a, b);
    let is_other_machine = !machine.is_empty();
    let said = [machine, server, other_settings(predicted, measured)].concat();
    (!said.is_empty()).then(|| {
        let cause = Cause {
            kind: "setup",
            words: format!(
                "not the same run, as the files themselves say: {}",
                said.join("; ")
            ),
        };
        (cause, is_other_machine)
    })
}

/// What differs in settings, beyond load and lengths, of which causes of their own speak.
fn other_settings(predicted: &Measured, measured: &Measured) -> Vec<String> {
    let (a, b) = (&predicted.setup, &measured.setup);
    let told = settings::Told {
        load: other_load(a, b).is_some(),
        lengths: !other_lengths(predicted, measured).is_empty(),
        gpu: other_gpu(a, b).is_some(),
        precision: other_precision(a, b).is_some(),
    };
    settings::differences(a, b, told)
}

/// What differs in machines and models, and what in the software beside them.
fn servers(a: &Setup, b: &Setup) -> (Vec<String>, Vec<String>) {
    let ranks = [
        counts("tensor-parallel ranks", a.tensor_parallel, b.tensor_parallel),
        counts("pipeline stages", a.pipeline_parallel, b.pipeline_parallel),
        counts("replicas", a.data_parallel, b.data_parallel),
    ];
    // GPUs are as many as there are of these.
    let gpus = counts("GPUs", a.n_gpus, b.n_gpus).filter(|_| ranks.iter().all(Option::is_none));
    let [tensor, pipeline, replicas] = ranks;
    let machine = [
        unlike("model", &a.model, &b.model, model::is_other),
        other_gpu(a, b),
        gpus,
        tensor,
        pipeline,
        replicas,
        counts("expert-parallel ranks", a.expert_parallel, b.expert_parallel),
        counts("pools", a.pools, b.pools),
        is_apart(a, b),
        other_precision(a, b),
        unlike(
            "KV cache",
            &a.kv_cache_dtype,
            &b.kv_cache_dtype,
            model::is_other_type,
        ),
    ];
    let server = [
        unlike("engine", &a.engine, &b.engine, is_other_engine),
        version(a, b),
        unlike("router", &a.router, &b.router, |one, other| one != other),
    ];
    (
        machine.into_iter().flatten().collect(),
        server.into_iter().flatten().collect(),
    )
}

fn other_gpu(a: &Setup, b: &Setup) -> Option<String> {
    unlike("GPU", &a.gpu, &b.gpu, is_other_gpu)
}

fn other_precision(a: &Setup, b: &Setup) -> Option<String> {
    unlike("precision", &a.precision, &b.precision, model::is_other_type)
}

/// Whether only one of the two has prefill and decode apart.
fn is_apart(a: &Setup, b: &Setup) -> Option<String> {
    let (one, other) = a.is_disaggregated.zip(b.is_disaggregated)?;
    let word = |is_apart: bool| if is_apart { "apart" } else { "together" };
    (one != other).then(|| format!("prefill and decode {} against {}", word(one), word(other)))
}

/// Everything in how two were run that differs by their own word, whether anything moved or not.
pub(super) fn all_that_differs(predicted: &Measured, measured: &Measured) -> Vec<String> {
    let (a, b) = (&predicted.setup, &measured.setup);
    let (machine, server) = servers(a, b);
    let load = other_load(a, b);
    let limit = a.max_concurrency.zip(b.max_concurrency);
    let limit = limit.filter(|(one, other)| one != other && load.is_none());
    let settings = other_settings(predicted, measured);
    let is_said = settings
        .iter()
        .any(|said| said.contains(settings::MAX_CONCURRENCY));
    let limit = limit.filter(|_| !is_said);
    let limit = limit.map(|(one, other)| format!("limits of {one} against {other} in flight"));
    let said = machine.into_iter().chain(server).chain(settings);
    let lengths = other_lengths(predicted, measured).into_iter();
    let lengths = lengths.filter(|other| !other.is_by_chance);
    said.chain(load)
        .chain(limit)
        .chain(lengths.map(|other| other.words()))
        .collect()
}

/// What differs in how requests were sent, where both say it.
pub(super) fn other_load(a: &Setup, b: &Setup) -> Option<String> {
    let is_known = a.load != Load::Unknown && b.load != Load::Unknown;
    if let Some((one, other)) = other_burst(a, b) {
        return Some(format!("load: {one} against {other} requests at once"));
    }
    (is_known && !is_same_load(a.load, b.load)).then(|| format!("load: {} against {}", a.load, b.load))
}

/// How many requests come at once, where that differs: all that happens depends on it, as it does on no other load's number.
pub(super) fn other_burst(a: &Setup, b: &Setup) -> Option<(u64, u64)> {
    let are_bursts = a.load == Load::Burst && b.load == Load::Burst;
    let counts = a.num_prompts.zip(b.num_prompts);
    counts.filter(|(one, other)| are_bursts && one != other)
}

/// Whether both were sent in one way.
fn is_same_load(one: Load, other: Load) -> bool {
    match (one, other) {
        (Load::Open { rate: a }, Load::Open { rate: b })
        | (Load::Mixed { rate: a }, Load::Mixed { rate: b })
        | (Load::Sessions { rate: a }, Load::Sessions { rate: b }) => {
            a == b || (a / b - 1.0).abs() < SAME_RATE
        }
        _ => one == other,
    }
}

fn unlike(
    what: &str,
    one: &Option<String>,
    other: &Option<String>,
    is_other: impl Fn(&str, &str) -> bool,
) -> Option<String> {
    let (one, other) = (one.as_deref()?, other.as_deref()?);
    is_other(one, other).then(|| format!("{what} {one} against {other}"))
}

fn counts(what: &str, one: Option<u32>, other: Option<u32>) -> Option<String> {
    let (one, other) = (one?, other?);
    (one != other).then(|| format!("{one} against {other} {what}"))
}

/// No device that one name may mean is one that the other may.
fn is_other_gpu(one: &str, other: &str) -> bool {
    // `A100-PCIe-80GB (NVLink pair)`: what stands in brackets is a remark.
    let [one, other] = [one, other].map(|name| name.split('(').next().unwrap_or(name).trim());
    match [one, other].map(hardware::readings) {
        [a, b] if a.is_empty() && b.is_empty() => !one.eq_ignore_ascii_case(other),
        [a, b] if a.is_empty() || b.is_empty() => false,
        [a, b] => !a.iter().any(|device| b.iter().any(|other| device.id == other.id)),
    }
}

/// Clients write the protocol that they speak (`openai-chat`) where they do not know the engine.
fn is_other_engine(one: &str, other: &str) -> bool {
    let is_protocol = |name: &str| name.to_lowercase().contains("openai");
    !one.eq_ignore_ascii_case(other) && !is_protocol(one) && !is_protocol(other)
}

fn version(a: &Setup, b: &Setup) -> Option<String> {
    let same = a.engine.as_ref()?.eq_ignore_ascii_case(b.engine.as_ref()?);
    let (one, other) = (a.engine_version.as_deref()?, b.engine_version.as_deref()?);
    // A tag says `v0.11.0` of what a package says `0.11.0`.
    let [plain, other_plain] = [one, other].map(|name| name.trim().trim_start_matches(['v', 'V']));
    (same && plain != other_plain).then(|| {
        format!(
            "{} {one} against {other}",
            a.engine.as_deref().unwrap_or("engine")
        )
    })
}
