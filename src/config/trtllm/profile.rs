//! Versioned defaults of TensorRT-LLM (`src/engine/profiles/tensorrt-llm-*.toml`).

use serde::Deserialize;

use crate::config::document::Source;
use crate::config::raw::RawCapacityPolicy;
use crate::config::version;
use crate::model::{Attention, Dtype, LayerGroup, ModelShape, OutputGate};

const SHIPPED: &str = include_str!("../../engine/profiles/tensorrt-llm-1.2.toml");

/// Everything that depends on the version.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrtllmProfile {
    /// `tensorrt-llm@1.2`.
    pub(super) profile: String,
    pub(super) defaults: Defaults,
    graphs: GraphRule,
    pub(super) quantized_before: QuantizedBefore,
}

/// Values of flags that nobody set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Defaults {
    pub(super) max_batch_size: u64,
    pub(super) max_num_tokens: u64,
    pub(super) kv_cache_free_gpu_memory_fraction: f64,
    pub(super) tokens_per_block: u64,
    pub(super) enable_chunked_prefill: bool,
    pub(super) capacity_scheduler_policy: RawCapacityPolicy,
    pub(super) batch_wait_timeout_iters: u64,
    pub(super) batch_wait_max_tokens_ratio: f64,
    pub(super) disable_overlap_scheduler: bool,
    pub(super) cuda_graph_max_batch_size: u64,
    pub(super) cuda_graph_padding: bool,
    pub(super) enable_block_reuse: bool,
    pub(super) enable_partial_reuse: bool,
    pub(super) enable_attention_dp: bool,
    pub(super) attention_dp_enable_balance: bool,
    pub(super) attention_dp_timeout_iters: u64,
    pub(super) attention_dp_batching_wait_iters: u64,
}

/// Which decode batches are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphRule {
    step_8_to: u32,
    each_to: u32,
}

/// Products in fp8 whose input the kernel before writes in fp8.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QuantizedBefore {
    by_activation: Vec<String>,
    by_attention_over_fp8_kv: Vec<String>,
    by_all_reduce: Vec<String>,
    all_reduce_architectures: Vec<String>,
    all_reduce_hidden_size_above: u32,
}

impl QuantizedBefore {
    /// Of one model on a group of GPUs.
    pub(super) fn of(&self, model: &ModelShape, tensor_parallel: u32, kv_dtype: Dtype) -> Vec<String> {
        let is_plain = |group: &LayerGroup| {
            matches!(
                group.attention,
                Attention::Grouped {
                    gate: OutputGate::None,
                    ..
                }
            )
        };
        let attends = matches!(kv_dtype, Dtype::Fp8 | Dtype::Fp8Scaled) && model.layers.iter().all(is_plain);
        let reduces = tensor_parallel > 1
            && model.hidden_size > self.all_reduce_hidden_size_above
            && self.all_reduce_architectures.contains(&model.architecture);
        let of = [
            (true, &self.by_activation),
            (attends, &self.by_attention_over_fp8_kv),
            (reduces, &self.by_all_reduce),
        ];
        let of = of.into_iter().filter(|(is_so, _)| *is_so);
        of.flat_map(|(_, names)| names).cloned().collect()
    }
}

impl TrtllmProfile {
    /// Who gave a value that is this profile's default.
    pub(super) fn source(&self) -> Source {
        Source::Profile(self.profile.clone())
    }

    /// Captured decode batches up to `most`, ascending; of those above what may run that itself, where others are padded to it
    /// (`_filter_cuda_graph_batch_sizes`).
    pub(super) fn capture_sizes(&self, most: u32, pads: bool, running: u32) -> Vec<u32> {
        let GraphRule { step_8_to, each_to } = self.graphs;
        let doubles = |from: u32| std::iter::successors(Some(from), |size| size.checked_mul(2));
        let mut sizes: Vec<u32> = match pads {
            true => [1, 2, 4].into_iter().chain((8..=step_8_to).step_by(8)).collect(),
            false => (1..=each_to)
                .chain(doubles(2 * each_to).take_while(|&size| size <= step_8_to))
                .collect(),
        };
        sizes.extend(doubles(2 * step_8_to).take_while(|&size| size < most));
        sizes.retain(|&size| size < most);
        sizes.push(most);
        let captured = sizes.len();
        sizes.retain(|&size| size <= running);
        if pads && sizes.len() < captured && sizes.last() != Some(&running) {
            sizes.push(running);
        }
        sizes
    }
}

/// The shipped profile.
pub(super) fn shipped() -> TrtllmProfile {
    toml::from_str(SHIPPED).expect("the shipped profile is checked by a test")
}

/// Finds the profile of `tensorrt-llm` or `trtllm@VERSION`, and says so where it is not exactly that version; the error says what
/// is known.
pub(super) fn find(asked: &str) -> Result<(TrtllmProfile, Option<String>), (String, String)> {
    let known = || "modelled is tensorrt-llm@1.2".to_string();
    let profile = shipped();
    let Some(version) = version::parts(asked).1 else {
        return Ok((profile, None));
    };
    let Some((major, minor, is_release)) = number(version) else {
        return Err((
            format!("`{version}` is not a version of TensorRT-LLM"),
            "write it like tensorrt-llm@1.2".to_string(),
        ));
    };
    if major < 1 {
        let why = format!(
            "TensorRT-LLM {version} ran engines that were built before, whose executor is not modelled"
        );
        return Err((why, known()));
    }
    let is_exact = (major, minor) == (1, 2) && is_release;
    let note = (!is_exact).then(|| {
        format!(
            "no profile of tensorrt-llm@{version}: {} is the nearest and is used",
            profile.profile
        )
    });
    Ok((profile, note))
}

/// `1.2.0rc1` → 1, 2, and that it is no release.
fn number(version: &str) -> Option<(u32, u32, bool)> {
    let version = version.trim_start_matches('v');
    let is_release = version.chars().all(|c| c.is_ascii_digit() || c == '.');
    let mut numbers = version::numbers(version);
    let major = numbers.next()??;
    let minor = numbers.next().unwrap_or(Some(0))?;
    Some((major, minor, is_release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_takes_the_profile_and_says_so() {
        let name = |asked: &str| find(asked).map(|(profile, note)| (profile.profile, note.is_some()));
        let ours = |noted| Ok(("tensorrt-llm@1.2".to_string(), noted));
        for exact in [
            "tensorrt-llm",
            "trtllm@1.2",
            "tensorrt-llm@1.2.0",
            "tensorrt-llm@v1.2.1",
        ] {
            assert_eq!(name(exact), ours(false), "{exact}");
        }
        for near in [
            "trtllm@1.2.0rc1",
            "tensorrt-llm@1.0",
            "tensorrt-llm@1.3.0rc27",
            "trtllm@2",
        ] {
            assert_eq!(name(near), ours(true), "{near}");
        }
        assert!(name("tensorrt-llm@0.20.0").is_err() && name("trtllm@new").is_err());
    }

    #[test]
    fn llama_s_all_reduce_writes_fp8_where_there_is_one() {
        let of = |model: &str, ranks, kv| {
            let (shape, _) = crate::model::find(model).expect("it is bundled");
            shipped().quantized_before.of(&shape, ranks, kv).join(" ")
        };
        let (large, small) = (
            "meta-llama/Llama-3.1-70B-Instruct",
            "meta-llama/Llama-3.1-8B-Instruct",
        );
        let always = "down_proj shared_down_proj";
        assert_eq!(of(large, 1, Dtype::Bf16), always);
        assert_eq!(of(large, 1, Dtype::Fp8), format!("{always} o_proj"));
        assert_eq!(
            of(large, 2, Dtype::Bf16),
            format!("{always} qkv_proj gate_up_proj")
        );
        assert_eq!(of(small, 2, Dtype::Bf16), always);
        assert_eq!(of("Qwen/Qwen3-32B", 2, Dtype::Fp8), format!("{always} o_proj"));
        assert_eq!(of("deepseek-ai/DeepSeek-V3", 8, Dtype::Fp8), always);
        let known = crate::cost::operators::OPERATORS;
        let rule = shipped().quantized_before;
        let named = [
            rule.by_activation,
            rule.by_attention_over_fp8_kv,
            rule.by_all_reduce,
        ]
        .concat();
        assert!(named.iter().all(|name| known.contains(&name.as_str())));
    }

    #[test]
    fn capture_sizes_follow_the_rule() {
        let profile = shipped();
        let sizes = |most, pads| profile.capture_sizes(most, pads, 2048);
        assert_eq!(sizes(4, true), [1, 2, 4]);
        assert_eq!(sizes(20, true), [1, 2, 4, 8, 16, 20]);
        assert_eq!(sizes(128, true).len(), 19);
        assert_eq!(sizes(1000, true).last_chunk(), Some(&[128, 256, 512, 1000]));
        assert_eq!(sizes(128, false).last_chunk(), Some(&[31, 32, 64, 128]));
        assert_eq!(sizes(512, false).last_chunk(), Some(&[64, 128, 256, 512]));
        assert_eq!(sizes(1, false), [1]);
        assert_eq!(profile.capture_sizes(128, true, 12), [1, 2, 4, 8, 12]);
        assert_eq!(profile.capture_sizes(128, true, 16), [1, 2, 4, 8, 16]);
        assert_eq!(profile.capture_sizes(64, false, 33).last(), Some(&32));
    }
}
