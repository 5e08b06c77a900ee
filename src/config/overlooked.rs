//! What a command line says without effect: lengths that the chosen data set does not take, and pasted flags that
//! flags of the command line replace.
//!
//! Law: none of it changes a run; each gets a sentence beside the result.

use toml::Value;

use super::document::Document;
use super::flags::{Dataset, ScenarioFlags, TrafficFlags, gsp_prompts};
use super::scalar::Count;
use super::{pasted, version};

/// Lengths that are given beside a data set which has its own.
pub(super) fn lengths(flags: &TrafficFlags, from: &str) -> Vec<String> {
    let (why, takes_output) = match flags.dataset_name {
        Some(Dataset::Random | Dataset::RandomIds) => return Vec::new(),
        None if flags.dataset_path.is_none() => return Vec::new(),
        None => ("the lengths are those of --dataset-path", true),
        Some(Dataset::Sharegpt | Dataset::Burstgpt | Dataset::Custom) => {
            ("the lengths are those of the data set's file", true)
        }
        Some(Dataset::TimedTrace) => ("the lengths are those of the trace", false),
        Some(Dataset::PrefixRepetition) => ("prefix_repetition has flags of its own for lengths", true),
        Some(Dataset::Sonnet) => ("sonnet prompts have 550 tokens and answers 150", false),
        Some(Dataset::GeneratedSharedPrefix) => {
            ("generated-shared-prefix has --gsp-… flags for lengths", true)
        }
    };
    let fixed = (flags.dataset_name == Some(Dataset::GeneratedSharedPrefix)).then(|| gsp_prompts(flags));
    let idle_count = flags
        .num_prompts
        .zip(fixed)
        .filter(|(Count(asked), has)| asked != has);
    let idle_count = idle_count.map(|(Count(asked), has)| {
        format!(
            "{from}--num-prompts {asked} has no effect: generated-shared-prefix has {has} prompts (--gsp-num-groups × \
             --gsp-prompts-per-group), and sglang.bench_serving sends them all"
        )
    });
    let given = [
        ("input-len", flags.input_len.is_some()),
        ("random-input-len", flags.random_input_len.is_some()),
        ("output-len", flags.output_len.is_some() && !takes_output),
        ("random-output-len", flags.random_output_len.is_some()),
        ("random-range-ratio", flags.random_range_ratio.is_some()),
    ];
    given
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(flag, _)| format!("{from}--{flag} has no effect: {why}"))
        .chain(idle_count)
        .collect()
}

/// The shape of gaps where there are none.
pub(super) fn burstiness(flags: &TrafficFlags) -> Option<String> {
    let is_at_once = flags.request_rate.is_some_and(|rate| rate.0 == f64::INFINITY);
    (is_at_once && flags.burstiness.is_some())
        .then(|| "--burstiness has no effect: everything is sent at once".to_owned())
}

/// An engine that takes the place of the one whose command was pasted.
pub(super) fn another_engine(flags: &ScenarioFlags) -> Option<String> {
    let (command, engine) = (
        flags.serve_cmd.as_deref()?,
        flags.server.engines.engine.profile.as_deref()?,
    );
    let served = pasted::engine_of(command);
    let family = version::parts(engine).0;
    (family != served).then(|| {
        format!(
            "--engine {engine} serves, with the flags of the {served} command in --serve-cmd that it has, too"
        )
    })
}

/// Whether a table still has all that it had: more was added to it.
fn contains(now: &Value, before: &Value) -> bool {
    let (Value::Table(now), Value::Table(before)) = (now, before) else {
        return false;
    };
    before.iter().all(|(key, value)| now.get(key) == Some(value))
}

/// Values of pasted commands that are no longer in the document.
pub(super) fn overridden(document: &Document, pasted: Vec<(String, String, Value)>) -> Vec<String> {
    let spelt = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let notes = pasted.into_iter().filter_map(|(key, flag, before)| {
        let now = document.get(&key);
        // Of an axis each cell names its value.
        let is_swept = document.source(&key).is_some_and(|source| source.is_axis());
        if is_swept {
            return None;
        }
        if now == Some(&before) || now.is_some_and(|now| contains(now, &before)) {
            return None;
        }
        let before = spelt(&before);
        Some(match now {
            Some(value) => format!(
                "{} {} replaces {flag} {before}",
                document.name_of(&key),
                spelt(value)
            ),
            None => format!("{flag} {before} is replaced by flags of the command line"),
        })
    });
    notes.collect()
}
