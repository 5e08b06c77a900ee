//! Which engine made a recording, in its own words: what repeats it must be that engine, in that version.
//!
//! Words that name the engine and no version contradict nothing.

use super::check::{RecordingError, fail};

/// Finds a recording of another engine than that which repeats it.
pub(super) fn check(engine: &str, profile: &str) -> Result<(), RecordingError> {
    if is_of(engine, profile) {
        return Ok(());
    }
    fail(format!(
        "`engine` is \"{engine}\" and `profile` {profile}: a recording is repeated by its own engine and version only"
    ))
}

/// Whether words such as `vllm 0.33.0 v1 scheduler, synchronous` name the engine of a profile, and where they name a version, the
/// profile's.
fn is_of(words: &str, profile: &str) -> bool {
    let Some((name, version)) = profile.split_once('@') else {
        return false;
    };
    let words = words.to_lowercase();
    let Some((_, rest)) = words.split_once(name) else {
        return false;
    };
    let rest = rest.trim_start_matches([' ', '@', 'v']);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let said = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
    said.is_empty()
        || said == version
        || said
            .strip_prefix(version)
            .is_some_and(|patch| patch.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_of_the_engine_that_it_names() {
        for (words, profile, is_same) in [
            ("vllm 0.33.0 v1 scheduler, synchronous", "vllm@0.33", true),
            (
                "worked out by hand from the rules of the vLLM 0.33 V1 scheduler",
                "vllm@0.33",
                true,
            ),
            ("vllm@0.33", "vllm@0.33", true),
            ("vLLM v0.33.1", "vllm@0.33", true),
            (
                "tensorrt-llm: its schedulers in Python (2026-02)",
                "tensorrt-llm@1.2",
                true,
            ),
            ("foo 1.0", "vllm@0.33", false),
            ("tensorrt-llm 1.2", "vllm@0.33", false),
            ("vllm 0.3.3", "vllm@0.33", false),
            ("vllm 0.11.0 v1 scheduler, synchronous", "vllm@0.33", false),
            ("tensorrt-llm 1.1", "tensorrt-llm@1.2", false),
        ] {
            assert_eq!(check(words, profile).is_ok(), is_same, "{words}");
        }
    }
}
