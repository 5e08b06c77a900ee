//! Keys of a scenario whose engine is another than the one that a flag names, where both engines have a key of the very same meaning.
//!
//! `plimsoll run SCENARIO --engine sglang@…` asks what that traffic does to another engine. How long a sequence may be and how many may run at once mean the
//! same to every engine, whatever each calls it: such a key goes over, and that is said. Keys that mean another thing, or that only one engine has, stay where they are
//! and are refused (`foreign`). Where the scenario itself names its engine its keys have to be that engine's.

use super::document::{Document, Source};
use super::version;

const ENGINE: &str = "engine.profile";

/// What engines call the same: those whose keys are in `[engine]`, SGLang, TensorRT-LLM.
const SAME: [[&str; 3]; 2] = [
    [
        "engine.max_model_len",
        "sglang.context_length",
        "trtllm.max_seq_len",
    ],
    [
        "engine.max_num_seqs",
        "sglang.max_running_requests",
        "trtllm.max_batch_size",
    ],
];

/// Renames what a scenario calls by another engine's name; what is to be said of it.
pub(super) fn settle(document: &mut Document) -> Vec<String> {
    let Some(Source::Flag(_)) = document.source(ENGINE) else {
        return Vec::new();
    };
    let profile = document
        .get(ENGINE)
        .and_then(toml::Value::as_str)
        .unwrap_or_default();
    let (name, _) = version::parts(profile);
    let (own, called) = match name.as_str() {
        "sglang" => (1, "SGLang"),
        "tensorrt-llm" => (2, "TensorRT-LLM"),
        _ => (0, name.as_str()),
    };
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let mut notes = Vec::new();
    for row in SAME {
        let to = row[own];
        for from in row.into_iter().filter(|key| *key != to) {
            // What a flag gives was meant for the engine that it belongs to.
            let is_of_scenario = matches!(
                document.source(from),
                Some(Source::File { .. } | Source::Preset(_))
            );
            if !is_of_scenario || document.get(to).is_some() {
                continue;
            }
            document.rename(from, to);
            notes.push(format!(
                "the scenario's {} is {called}'s {}: the same value is taken",
                last(from),
                last(to)
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use crate::config::flags::tests::resolve_line;

    #[test]
    fn what_means_the_same_goes_over_to_another_engine() {
        let resolved = |line: &str| resolve_line(line).unwrap_or_else(|problems| panic!("{problems}"));
        for (engine, key) in [
            ("sglang@0.5.23", "context_length"),
            ("tensorrt-llm@1.2", "max_seq_len"),
        ] {
            let run = resolved(&format!("quickstart --engine {engine}"));
            assert_eq!(run.scenario.first_pool().engine.max_model_len(), 16_384);
            let told = "the scenario's max_model_len is ";
            let is_told = |note: &String| note.starts_with(told) && note.contains(key);
            assert!(run.notes.iter().any(is_told), "{:?}", run.notes);
        }
        let back = resolved("radix-cache --engine vllm@0.33");
        assert_eq!(back.scenario.first_pool().engine.name(), "vllm");
        // A flag of the engine that serves counts, and the key of the scenario gives way as it did.
        let given = resolved("quickstart --engine sglang@0.5.23 --context-length 9000");
        assert_eq!(given.scenario.first_pool().engine.max_model_len(), 9000);
    }

    #[test]
    fn what_a_flag_gives_to_another_engine_is_refused() {
        let line = "quickstart --engine sglang@0.5.23 --max-model-len 9000";
        let problems = resolve_line(line).map(|_| ()).unwrap_err().to_string();
        assert!(
            problems.contains("is a flag of vLLM, and SGLang serves"),
            "{problems}"
        );
    }
}
