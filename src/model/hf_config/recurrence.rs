//! Layers that keep a state of constant size: what a config says of their heads, widths and formats.
//!
//! Source of each: the class's `get_mamba_state_shape_from_config` and `get_mamba_state_dtype_from_config` in vLLM 0.33.

use serde_json::{Map, Value};

use super::super::families::Hybrid;
use super::super::{Dtype, Recurrence, Rule};
use super::{HEAD_DIM_MAX, HEADS_MAX, Reader, WIDTH_MAX, shortened};

/// Tokens that vLLM's and the paper's kernels of gated delta nets scan at once (`FLA_CHUNK_SIZE`).
const DELTA_CHUNK: u32 = 64;
const CONV_KERNEL_MAX: u32 = 64;

impl Reader<'_> {
    pub(super) fn recurrence(&mut self) -> Option<Recurrence> {
        match self.family.hybrid {
            Hybrid::StateSpace => self.state_space("mamba_ssm_cache_dtype", Some(Dtype::Fp32)),
            // Their classes do not read what a config says of the format.
            Hybrid::Mamba2 | Hybrid::Mamba2Beside => self.state_space("", None),
            Hybrid::KimiDelta => self.kimi_delta(true),
            Hybrid::LingDelta => self.kimi_delta(false),
            Hybrid::ShortConv => self.short_conv(),
            Hybrid::None | Hybrid::GatedDelta => self.gated_delta(),
        }
    }

    /// Qwen3-Next's, and of the later ones.
    fn gated_delta(&mut self) -> Option<Recurrence> {
        let key_heads = self.required("linear_num_key_heads", HEADS_MAX);
        let value_heads = self.required("linear_num_value_heads", HEADS_MAX);
        let key_dim = self.required("linear_key_head_dim", HEAD_DIM_MAX);
        let value_dim = self.required("linear_value_head_dim", HEAD_DIM_MAX);
        let conv_kernel = self.required("linear_conv_kernel_dim", CONV_KERNEL_MAX);
        let state_dtype = self.state_dtype("mamba_ssm_dtype", None);
        Some(Recurrence {
            rule: Rule::GatedDelta {
                key_heads: key_heads?,
                value_heads: value_heads?,
                key_dim: key_dim?,
                value_dim: value_dim?,
            },
            conv_kernel: conv_kernel?,
            chunk: DELTA_CHUNK,
            state_dtype: state_dtype?,
        })
    }

    /// Nemotron-H's, and under other names Granite 4's and Falcon-H1's.
    fn state_space(&mut self, dtype_key: &str, dtype: Option<Dtype>) -> Option<Recurrence> {
        let heads = self.required("mamba_num_heads", HEADS_MAX);
        let head_dim = self.mamba_head_dim(heads);
        let groups = self.required("n_groups", HEADS_MAX);
        let state_size = self.required("ssm_state_size", HEAD_DIM_MAX);
        let conv_kernel = self.required("conv_kernel", CONV_KERNEL_MAX);
        let chunk = self.required("chunk_size", WIDTH_MAX);
        let state_dtype = self.state_dtype(dtype_key, dtype);
        let (heads, groups) = (heads?, groups?);
        if !heads.is_multiple_of(groups) {
            return self.problem(format!(
                "`mamba_num_heads` ({heads}) is not a multiple of `n_groups` ({groups})"
            ));
        }
        Some(Recurrence {
            rule: Rule::StateSpace {
                heads,
                head_dim: head_dim?,
                groups,
                state_size: state_size?,
            },
            conv_kernel: conv_kernel?,
            chunk: chunk?,
            state_dtype: state_dtype?,
        })
    }

    /// Granite's may be left to the class: all heads together are `mamba_expand` times as wide as the model.
    fn mamba_head_dim(&mut self, heads: Option<u32>) -> Option<u32> {
        if self.get("mamba_head_dim").and_then(Value::as_str) != Some("auto") {
            return self.required("mamba_head_dim", HEAD_DIM_MAX);
        }
        let expand = self.number("mamba_expand", 1, 64).unwrap_or(2);
        let width = expand * self.required("hidden_size", WIDTH_MAX)? / heads?;
        match width {
            0 => self.problem("`mamba_d_head` is auto, and its heads are more than their width".to_string()),
            width => Some(width),
        }
    }

    /// Kimi Linear's, in an object of their own, or flat as `transformers` 5 and Ling 3 write them.
    fn kimi_delta(&mut self, is_thin: bool) -> Option<Recurrence> {
        let said = self.get("linear_attn_config").and_then(Value::as_object);
        if said
            .and_then(|said| said.get("use_full_rank_gate"))
            .and_then(Value::as_bool)
            == Some(true)
        {
            return self
                .problem("`use_full_rank_gate` is true: only gates of low rank are modelled".to_string());
        }
        let heads = self.of_delta(said, "num_heads", "linear_num_heads", HEADS_MAX);
        let dim = self.of_delta(said, "head_dim", "linear_head_dim", HEAD_DIM_MAX);
        let conv_kernel = self.of_delta(
            said,
            "short_conv_kernel_size",
            "linear_conv_kernel_dim",
            CONV_KERNEL_MAX,
        );
        Some(Recurrence {
            rule: Rule::KimiDelta {
                heads: heads?,
                dim: dim?,
                is_thin,
            },
            conv_kernel: conv_kernel?,
            chunk: DELTA_CHUNK,
            state_dtype: Dtype::Fp32,
        })
    }

    fn of_delta(
        &mut self,
        said: Option<&Map<String, Value>>,
        key: &str,
        flat: &str,
        most: u32,
    ) -> Option<u32> {
        let Some(said) = said else {
            return self.required(flat, most);
        };
        let value = said.get(key).and_then(Value::as_u64);
        match value.filter(|value| (1..=u64::from(most)).contains(value)) {
            Some(value) => Some(value as u32),
            None => self.problem(format!(
                "`{key}` of `linear_attn_config` must be a whole number from 1 to {most}"
            )),
        }
    }

    /// LFM2's: nothing but the convolution.
    fn short_conv(&mut self) -> Option<Recurrence> {
        let channels = self.required("hidden_size", WIDTH_MAX);
        let conv_kernel = self.required("conv_L_cache", CONV_KERNEL_MAX);
        Some(Recurrence {
            rule: Rule::ShortConv { channels: channels? },
            conv_kernel: conv_kernel?,
            chunk: 1,
            state_dtype: self.model_dtype()?,
        })
    }

    /// The format of states as vLLM has it under `--mamba-ssm-cache-dtype auto`: what the checkpoint says, else what its class
    /// does, else the model's.
    fn state_dtype(&mut self, key: &str, of_class: Option<Dtype>) -> Option<Dtype> {
        let Some(value) = self.get(key) else {
            return of_class.or_else(|| self.model_dtype());
        };
        match value.as_str() {
            Some("float32") => Some(Dtype::Fp32),
            Some("float16") => Some(Dtype::Fp16),
            Some("bfloat16") => Some(Dtype::Bf16),
            Some("auto") => self.model_dtype(),
            _ => self.problem(format!(
                "`{key}` is {} and must be float32, float16 or bfloat16",
                shortened(value)
            )),
        }
    }
}

#[cfg(test)]
mod tests;
