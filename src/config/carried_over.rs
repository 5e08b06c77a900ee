//! Keys of a scenario whose engine is another than the one that a flag names, where both engines have a key of the very same meaning.
//!
//! `plimsoll run SCENARIO --engine sglang@…` asks what that traffic does to another engine. How long a sequence may be and how many may run at once mean the
//! same to every engine, whatever each calls it: such a number goes over, and that is said. With DP attention SGLang shares its seats out among the ranks, which no other
//! engine does: there they stay. So do pools' own keys. Keys that mean another thing, or that only one engine has, stay where they are
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
        "vllm" => (0, "vLLM"),
        _ => (0, name.as_str()),
    };
    let shares_seats = document.get("sglang.enable_dp_attention").is_some();
    let last = |key: &'static str| key.rsplit('.').next().unwrap_or(key);
    let mut notes = Vec::new();
    for row in SAME {
        let to = row[own];
        // Transformers' continuous batching has no number of seats, either.
        if row == SAME[1] && (shares_seats || name == "hf-cb") {
            continue;
        }
        for from in row.into_iter().filter(|key| *key != to) {
            // What a flag gives was meant for the engine that it belongs to.
            let is_of_scenario = matches!(
                document.source(from),
                Some(Source::File { .. } | Source::Preset(_))
            );
            // `auto` is a word of one engine.
            let is_number = document.get(from).is_some_and(toml::Value::is_integer);
            if !is_of_scenario || !is_number || document.get(to).is_some() {
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
        // A flag of the engine that serves counts, and the key of the scenario gives way as it did.
        let given = resolved("quickstart --engine sglang@0.5.23 --context-length 9000");
        assert_eq!(given.scenario.first_pool().engine.max_model_len(), 9000);
    }

    #[test]
    fn seats_go_over_where_they_mean_the_same() {
        let line = "matrix-a --engine tensorrt-llm@1.2";
        let problems = resolve_line(line).map(|_| ()).unwrap_err().to_string();
        // Of what else the scenario says nothing goes over.
        assert!(problems.contains("gpu_memory_utilization"), "{problems}");
        assert!(
            !problems.contains("max_num_seqs") && !problems.contains("max_model_len"),
            "{problems}"
        );
        let shared = "matrix-a --engine sglang@0.5.23 --enable-dp-attention --dp-size 2";
        let problems = resolve_line(shared).map(|_| ()).unwrap_err().to_string();
        assert!(
            problems.contains("`max_num_seqs` is a flag of vLLM"),
            "{problems}"
        );
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
