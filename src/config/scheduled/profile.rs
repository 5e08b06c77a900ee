//! Versioned defaults (`src/engine/profiles/{vllm-0.6,static,hf-cb}.toml`), and who is asked for.

use serde::Deserialize;

use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::version::{Scheduled as Kind, minor_of_zero, parts};

/// What must be said beside a result of such an engine.
pub(super) fn assumptions(judge: &mut Judge, kind: Kind) {
    let notes: &[&str] = match kind {
        Kind::V0 => &[],
        Kind::Static => &[
            "static batching: answers leave whole, so TTFT is the end-to-end latency (of the batch, unless release_rows_early), \
                 and TPOT and ITL say nothing",
            "static batching: step times are those of vLLM's kernels, launched one by one unless enforce_eager = false; generate() is slower. Memory: weights, \
                 activations of 8,192 positions, and KV cache for every row at full length",
        ],
        Kind::HfContinuous => &[
            "Transformers' continuous batching: step times are those of vLLM's kernels, launched one by one unless \
                 enforce_eager = false; Transformers' own are slower. Memory: weights, activations of a step, and at most 4,096 blocks of KV cache",
        ],
    };
    judge.notes.extend(notes.iter().map(|note| (*note).to_string()));
}

/// Values of flags that nobody set; the keys are the flags' names.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduledProfile {
    /// `vllm@0.6`.
    pub(super) profile: String,
    pub(super) gpu_memory_utilization: f64,
    pub(super) max_num_seqs: u64,
    pub(super) max_num_batched_tokens: u64,
    pub(super) block_size: u64,
    /// Most KV blocks, whatever the memory holds.
    #[serde(default)]
    pub(super) blocks_max: Option<u32>,
    pub(super) enable_prefix_caching: bool,
    /// Contexts above this switch chunked prefill on.
    pub(super) chunked_prefill_above: u64,
    /// GiB.
    pub(super) swap_space: f64,
}

impl ScheduledProfile {
    /// Who gave a value that is this profile's default.
    pub(super) fn source(&self) -> Source {
        Source::Profile(self.profile.clone())
    }
}

/// The profile of an engine, and a sentence where that is not exactly the version that was `asked` for.
pub(super) fn find(kind: Kind, asked: &str) -> (ScheduledProfile, Option<String>) {
    let text = match kind {
        Kind::V0 => include_str!("../../engine/profiles/vllm-0.6.toml"),
        Kind::Static => include_str!("../../engine/profiles/static.toml"),
        Kind::HfContinuous => include_str!("../../engine/profiles/hf-cb.toml"),
    };
    let profile = toml::from_str(text).expect("shipped profiles are checked by a test");
    let other = parts(asked).1.filter(|version| minor_of_zero(version) != Some(6));
    let note = other.map(|version| {
        format!("no profile of vllm@{version}: vllm@0.6 is the nearest V0 engine and is used")
    });
    (profile, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_are_whole_and_found() {
        let found = |kind: Kind, asked: &str| {
            let (profile, note) = find(kind, asked);
            (profile.profile, note.is_some())
        };
        assert_eq!(found(Kind::V0, "vllm@0.6"), ("vllm@0.6".into(), false));
        assert_eq!(found(Kind::V0, "vllm@0.6.6.post1"), ("vllm@0.6".into(), false));
        assert_eq!(found(Kind::V0, "vllm@0.5.4"), ("vllm@0.6".into(), true));
        assert_eq!(found(Kind::Static, "static"), ("static".into(), false));
        assert_eq!(found(Kind::HfContinuous, "HF-CB"), ("hf-cb".into(), false));
    }
}
