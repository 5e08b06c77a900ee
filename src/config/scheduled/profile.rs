//! Versioned defaults (`src/engine/profiles/{vllm-0.6,static,hf-cb}.toml`), and who is asked for.

use serde::Deserialize;

use crate::config::document::Source;
use crate::config::judge::Judge;
use crate::config::raw::RawEngine;
use crate::config::version::{V1_SINCE, minor_of_zero, parts};

const SHIPPED: [&str; 3] = [
    include_str!("../../engine/profiles/vllm-0.6.toml"),
    include_str!("../../engine/profiles/static.toml"),
    include_str!("../../engine/profiles/hf-cb.toml"),
];

/// Which engine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    V0,
    Static,
    HfContinuous,
}

impl Kind {
    /// What must be said beside a result.
    pub(super) fn assumptions(self, judge: &mut Judge) {
        let notes: &[&str] = match self {
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

    /// Which engine it is of.
    pub(super) fn kind(&self) -> Kind {
        match self.profile.as_str() {
            "static" => Kind::Static,
            "hf-cb" => Kind::HfContinuous,
            _ => Kind::V0,
        }
    }
}

/// Whether `--engine` asks for one of these.
pub(in crate::config) fn is_asked(raw: &RawEngine) -> bool {
    let Some(asked) = &raw.profile else {
        return false;
    };
    let (name, version) = parts(asked);
    match name.as_str() {
        "static" | "hf-cb" => version.is_none(),
        "vllm" => version
            .and_then(minor_of_zero)
            .is_some_and(|minor| minor < V1_SINCE),
        _ => false,
    }
}

/// Whether it asks for vLLM's V0.
pub(in crate::config) fn is_v0(raw: &RawEngine) -> bool {
    is_asked(raw) && find(raw.profile.as_deref().unwrap_or_default()).0.kind() == Kind::V0
}

/// The profile of what [`is_asked`], and a sentence where it is not exactly that version.
pub(super) fn find(asked: &str) -> (ScheduledProfile, Option<String>) {
    let (name, version) = parts(asked);
    let wanted = match name.as_str() {
        "static" | "hf-cb" => name,
        _ => "vllm@0.6".to_string(),
    };
    let mut all = SHIPPED.iter().map(|text| {
        toml::from_str::<ScheduledProfile>(text).expect("shipped profiles are checked by a test")
    });
    let profile = all
        .find(|profile| profile.profile == wanted)
        .expect("each of them is shipped");
    let note = version
        .filter(|version| minor_of_zero(version) != Some(6))
        .map(|version| {
            format!("no profile of vllm@{version}: vllm@0.6 is the nearest V0 engine and is used")
        });
    (profile, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_are_whole_and_found() {
        let asked = |profile: &str| {
            let raw = RawEngine {
                profile: Some(profile.to_string()),
                ..RawEngine::default()
            };
            is_asked(&raw).then(|| {
                let (profile, note) = find(profile);
                (profile.profile, note.is_some())
            })
        };
        assert_eq!(asked("vllm@0.6"), Some(("vllm@0.6".into(), false)));
        assert_eq!(asked("vllm@0.6.6.post1"), Some(("vllm@0.6".into(), false)));
        assert_eq!(asked("vllm@0.5.4"), Some(("vllm@0.6".into(), true)));
        assert_eq!(asked("static"), Some(("static".into(), false)));
        assert_eq!(asked("HF-CB"), Some(("hf-cb".into(), false)));
        for other in ["vllm", "vllm@0.8", "vllm@1.0", "sglang@0.5.4", "hf"] {
            assert_eq!(asked(other), None, "{other}");
        }
    }
}
