//! Versioned defaults of SGLang (`src/engine/profiles/sglang-*.toml`).

use serde::{Deserialize, Serialize};

use crate::config::document::Source;
use crate::config::raw::RawQueuePolicy;
use crate::config::version;
use crate::engine::sglang::SglangSwitches;
use crate::model::ModelShape;
use crate::quantity::parse_bytes;
use crate::units::Bytes;

const SHIPPED: [&str; 2] = [
    include_str!("../../engine/profiles/sglang-0.5.23.toml"),
    include_str!("../../engine/profiles/sglang-0.5.4.toml"),
];

/// Everything that depends on the version of SGLang.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SglangProfile {
    /// `sglang@0.5.23`.
    pub(super) profile: String,
    pub(super) behaviour: Behaviour,
    pub(super) defaults: Defaults,
    /// Sizes by device memory, first match.
    memory: Vec<MemoryRow>,
    pub(super) vision: VisionRules,
    pub(super) startup: Startup,
    pub(super) data_parallel_attention: ApartRules,
}

/// Which release's rules the scheduler follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Behaviour {
    #[serde(rename = "0.5.23")]
    V0_5_23,
    #[serde(rename = "0.5.4")]
    V0_5_4,
}

/// Values of flags that nobody set; the keys are SGLang's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    pub(super) schedule_policy: RawQueuePolicy,
    pub(super) schedule_conservativeness: f64,
    pub(super) max_prefill_tokens: u64,
    pub(super) page_size: u64,
    pub(super) enable_mixed_chunk: bool,
    pub(super) disable_radix_cache: bool,
    pub(super) disable_overlap_schedule: bool,
    pub(super) num_continuous_decode_steps: u64,
    pub(super) enable_priority_scheduling: bool,
    pub(super) schedule_low_priority_values_first: bool,
    pub(super) priority_scheduling_preemption_threshold: u64,
    pub(super) disable_cuda_graph: bool,
}

/// Sizes on GPUs with at least so much memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryRow {
    at_least: String,
    pub(super) chunked_prefill_size: u64,
    cuda_graph_max_bs: u64,
    cuda_graph_max_bs_tp4: u64,
}

impl MemoryRow {
    /// Largest captured decode batch.
    pub(super) fn graph_max(&self, tensor_parallel: u32) -> u64 {
        if tensor_parallel >= 4 {
            self.cuda_graph_max_bs_tp4
        } else {
            self.cuda_graph_max_bs
        }
    }
}

/// Which checkpoints with a vision tower are served with it, by their `architectures` entries.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VisionRules {
    /// Without it, unless `--enable-multimodal` is given.
    pub(super) text_only: Vec<String>,
    /// All that have one; absent: whichever does.
    pub(super) known: Option<Vec<String>>,
    /// Those whose prefill batches are captured all the same, where prefill is.
    #[serde(default)]
    pub(super) prefill_graphs: Vec<String>,
}

/// Which models are served with data-parallel attention, by their `architectures` entries.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApartRules {
    /// Their code shares attention out over a rank's GPUs alone, and gathers tokens behind it.
    pub(super) architectures: Vec<String>,
}

/// What start-up derives, where versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Startup {
    /// Prefill batches replay graphs (SG-48).
    pub(super) captures_prefill: bool,
    /// At most half the pool's tokens run (SG-46).
    pub(super) half_pool_bounds_running: bool,
}

/// What `--attention-backend` takes, by release.
const BACKENDS_0_5_23: [&str; 24] = [
    "triton",
    "torch_native",
    "flex_attention",
    "dsa",
    "nsa",
    "qsa",
    "dsv4",
    "compressed",
    "fa3",
    "fa4",
    "flashinfer",
    "llada2_cfg_flashinfer",
    "flashmla",
    "trtllm_mla",
    "cutedsl_mla",
    "trtllm_mha",
    "hpc_ops",
    "minicpm_flashattn",
    "minicpm_flashinfer",
    "aiter",
    "wave",
    "intel_amx",
    "ascend",
    "intel_xpu",
];
const BACKENDS_0_5_4: [&str; 17] = [
    "triton",
    "torch_native",
    "flex_attention",
    "nsa",
    "cutlass_mla",
    "fa3",
    "fa4",
    "flashinfer",
    "flashmla",
    "trtllm_mla",
    "trtllm_mha",
    "dual_chunk_flash_attn",
    "aiter",
    "wave",
    "intel_amx",
    "ascend",
    "intel_xpu",
];

impl SglangProfile {
    /// Who gave a value that is this profile's default.
    pub(super) fn source(&self) -> Source {
        Source::Profile(self.profile.clone())
    }

    /// What `--attention-backend` takes.
    pub(super) fn attention_backends(&self) -> &'static [&'static str] {
        match self.behaviour {
            Behaviour::V0_5_23 => &BACKENDS_0_5_23,
            Behaviour::V0_5_4 => &BACKENDS_0_5_4,
        }
    }

    /// The sizes for a GPU's memory.
    pub(super) fn sizes_for(&self, memory: Bytes) -> &MemoryRow {
        let fits = |row: &&MemoryRow| {
            memory >= parse_bytes(&row.at_least).expect("shipped profiles are checked by a test")
        };
        self.memory
            .iter()
            .find(fits)
            .expect("the last row has no condition, which a test checks")
    }

    /// The scheduler's behaviours.
    pub(super) fn switches(&self) -> SglangSwitches {
        match self.behaviour {
            Behaviour::V0_5_23 => SglangSwitches::V0_5_23,
            Behaviour::V0_5_4 => SglangSwitches::V0_5_4,
        }
    }
}

/// The shipped profiles, newest first.
pub(super) fn shipped() -> Vec<SglangProfile> {
    SHIPPED
        .iter()
        .map(|text| toml::from_str(text).expect("shipped profiles are checked by a test"))
        .collect()
}

/// Finds the profile of `sglang` or `sglang@VERSION` to serve a model, and says so where it is not exactly that version: of one between two profiles the
/// nearer, or the newer where the other shares a model with sparse attention out by itself. The error says what is known.
pub(super) fn find(
    asked: &str,
    model: Option<&ModelShape>,
) -> Result<(SglangProfile, Option<String>), (String, String)> {
    let known = "modelled are sglang@0.5.23 and sglang@0.5.4";
    let all = shipped();
    let Some(version) = version::parts(asked).1 else {
        let newest = all.into_iter().next().expect("profiles are shipped");
        return Ok((newest, None));
    };
    let Some(asked_number) = number(version) else {
        return Err((
            format!("`{version}` is not a version of SGLang"),
            "write it like sglang@0.5.23".to_string(),
        ));
    };
    if asked_number < (0, 4, 0) {
        return Err((
            format!("SGLang {version} is older than the overlap scheduler that is modelled"),
            known.to_string(),
        ));
    }
    let of = |profile: &SglangProfile| {
        let version = version::parts(&profile.profile).1;
        version.and_then(number).expect("shipped profiles name a version")
    };
    // Within 0.5 the nearest release; before it the oldest profile, after it the newest.
    let distance = |profile: &SglangProfile| {
        let (major, minor, patch) = of(profile);
        (
            asked_number.0.abs_diff(major),
            asked_number.1.abs_diff(minor),
            if (asked_number.0, asked_number.1) < (major, minor) {
                patch
            } else if (asked_number.0, asked_number.1) > (major, minor) {
                u32::MAX - patch
            } else {
                asked_number.2.abs_diff(patch)
            },
        )
    };
    let is_sparse = model.is_some_and(|model| model.indexer().is_some());
    let is_newer = |profile: &&SglangProfile| of(profile) > asked_number;
    let is_between = all.iter().any(|profile| of(profile) < asked_number);
    let newer = all
        .iter()
        .find(is_newer)
        .filter(|_| is_sparse && is_between)
        .cloned();
    let which = match newer {
        Some(_) => " of those that serve this model",
        None => "",
    };
    let nearest = newer.or_else(|| all.into_iter().min_by_key(distance));
    let nearest = nearest.expect("profiles are shipped");
    let note = (of(&nearest) != asked_number || version.contains("post")).then(|| {
        format!(
            "no profile of sglang@{version}: {} is the nearest{which} and is used",
            nearest.profile
        )
    });
    Ok((nearest, note))
}

/// `0.5.4.post2` → (0, 5, 4).
fn number(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version::numbers(version);
    let (major, minor) = (numbers.next()??, numbers.next()??);
    let patch = numbers.next().unwrap_or(Some(0))?;
    Some((major, minor, patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_profiles_are_whole() {
        for profile in shipped() {
            for row in &profile.memory {
                parse_bytes(&row.at_least).unwrap();
            }
            profile.sizes_for(Bytes(0));
        }
    }

    #[test]
    fn another_version_takes_the_nearest_profile_and_says_so() {
        let name = |asked: &str| find(asked, None).map(|(profile, note)| (profile.profile, note.is_some()));
        assert_eq!(name("sglang"), Ok(("sglang@0.5.23".into(), false)));
        assert_eq!(name("sglang@0.5.4"), Ok(("sglang@0.5.4".into(), false)));
        assert_eq!(name("sglang@0.5.4.post2"), Ok(("sglang@0.5.4".into(), true)));
        assert_eq!(name("sglang@0.5.20"), Ok(("sglang@0.5.23".into(), true)));
        assert_eq!(name("sglang@0.4.9"), Ok(("sglang@0.5.4".into(), true)));
        assert_eq!(name("sglang@0.6"), Ok(("sglang@0.5.23".into(), true)));
        assert!(name("sglang@0.3.1").is_err() && name("sglang@new").is_err());
    }

    #[test]
    fn a_version_between_two_takes_the_one_that_serves_the_model() {
        let (sparse, _) = crate::model::find("deepseek-ai/DeepSeek-V3.2").expect("a shipped model");
        let of = |asked: &str| find(asked, Some(&sparse)).expect("a version of SGLang").0.profile;
        assert_eq!(of("sglang@0.5.9"), "sglang@0.5.23");
        assert_eq!(of("sglang@0.5.4"), "sglang@0.5.4");
        assert_eq!(of("sglang@0.5.2"), "sglang@0.5.4");
    }
}
