//! Layers that keep a state of constant size in place of keys and values: gated delta nets, Kimi's among them, state-space duals and short
//! convolutions.
//!
//! A sequence has one state a layer, however long it is: the last inputs of a short causal convolution, and the matrix that each
//! head carries along. Sizes are those of vLLM 0.33's `MambaStateShapeCalculator` and `MambaStateDtypeCalculator`.
//! Left out: drafts of speculative decoding, which widen the convolution's. Law: a rank's share of state and projections is the
//! whole divided by the ranks, but for groups of which there are fewer than ranks: those are repeated.

use super::{Dtype, Sharding};
use crate::units::Bytes;

/// How a layer of constant state mixes tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// What becomes of the state at a token.
    pub rule: Rule,
    /// Tokens that the convolution before it sees.
    pub conv_kernel: u32,
    /// Tokens that a prompt's scan takes at once.
    pub chunk: u32,
    /// Format of the heads' state, as the checkpoint asks for it; the convolution's inputs are in the model's.
    pub state_dtype: Dtype,
}

/// The recurrence itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// `S ← α·S·(I − β·k·kᵀ) + β·v·kᵀ`, `o = S·q` (Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks"; Qwen3-Next).
    GatedDelta {
        /// Heads of queries and keys.
        key_heads: u32,
        /// Heads of values, of the states and of the output gate.
        value_heads: u32,
        /// Width of a query or a key.
        key_dim: u32,
        /// Width of a value.
        value_dim: u32,
    },
    /// The same with a decay for each channel of a key, `S ← S·Diag(α)·(I − β·k·kᵀ) + β·v·kᵀ` (Kimi Team 2025, "Kimi Linear").
    KimiDelta {
        /// Heads of queries, keys, values and states.
        heads: u32,
        /// Width of each of those.
        dim: u32,
        /// Decays and the output's gate are made by two matrices each, with a width of one head between them; else by one.
        is_thin: bool,
    },
    /// A convolution between two gates, and no more (LFM2).
    ShortConv {
        /// Its channels.
        channels: u32,
    },
    /// `S ← α·S + Δ·x·Bᵀ`, `y = S·C` (Dao and Gu 2024, "Transformers are SSMs": Mamba2; Nemotron-H).
    StateSpace {
        /// Heads, each with a state.
        heads: u32,
        /// Width of a head.
        head_dim: u32,
        /// Groups of heads that share `B` and `C`.
        groups: u32,
        /// Width of `B` and `C`.
        state_size: u32,
    },
}

/// A projection of such a layer, as vLLM fuses them.
pub(crate) struct Projection {
    pub(crate) name: &'static str,
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    pub(crate) sharding: Sharding,
}

impl Recurrence {
    /// Projections in and out of a residual stream of width `d`.
    pub(crate) fn projections(&self, d: u64) -> Vec<Projection> {
        let projection = |name, inputs, outputs, sharding| Projection {
            name,
            inputs,
            outputs,
            sharding,
        };
        let out = projection("state_out", self.inner_width(), d, Sharding::Split);
        match self.rule {
            Rule::GatedDelta { value_heads, .. } => {
                // Queries, keys, values and the gate `z`; then `b` and `a`, a number for each head.
                let width = self.conv_channels() + self.inner_width();
                vec![
                    projection("state_in", d, width, Sharding::Split),
                    projection("state_gates", d, 2 * u64::from(value_heads), Sharding::Split),
                    out,
                ]
            }
            Rule::KimiDelta {
                heads,
                dim,
                is_thin: false,
            } => {
                let (heads, dim) = (u64::from(heads), u64::from(dim));
                let width = self.conv_channels() + heads;
                vec![
                    projection("state_in", d, width, Sharding::Split),
                    projection("state_gates", d, 2 * heads * dim, Sharding::Split),
                    out,
                ]
            }
            Rule::KimiDelta { heads, dim, .. } => {
                let (heads, dim) = (u64::from(heads), u64::from(dim));
                vec![
                    projection("state_in", d, self.conv_channels() + heads, Sharding::Split),
                    projection("state_gates", d, 2 * dim, Sharding::Replicated),
                    projection("state_gates_up", dim, 2 * heads * dim, Sharding::Split),
                    out,
                ]
            }
            // Both gates and what goes through the convolution.
            Rule::ShortConv { channels } => {
                vec![
                    projection("state_in", d, 3 * u64::from(channels), Sharding::Split),
                    out,
                ]
            }
            Rule::StateSpace {
                heads,
                groups,
                state_size,
                ..
            } => {
                // The gate `z`, `x`, `B`, `C` and `dt`.
                let sharding = Sharding::Groups {
                    groups,
                    of_one: 2 * u64::from(state_size),
                };
                let width = self.inner_width() + self.conv_channels() + u64::from(heads);
                vec![projection("state_in", d, width, sharding), out]
            }
        }
    }

    /// Width of what the recurrence puts out, all heads together.
    #[must_use]
    pub fn inner_width(&self) -> u64 {
        match self.rule {
            Rule::GatedDelta {
                value_heads,
                value_dim,
                ..
            } => u64::from(value_heads) * u64::from(value_dim),
            Rule::KimiDelta { heads, dim, .. } => u64::from(heads) * u64::from(dim),
            Rule::ShortConv { channels } => u64::from(channels),
            Rule::StateSpace { heads, head_dim, .. } => u64::from(heads) * u64::from(head_dim),
        }
    }

    /// Channels of the convolution.
    #[must_use]
    pub fn conv_channels(&self) -> u64 {
        self.conv_channels_of_rank(1)
    }

    /// The same on one of so many ranks; each has a group of its own at least (`extra_groups_for_head_shards`).
    #[must_use]
    pub fn conv_channels_of_rank(&self, tensor_parallel: u32) -> u64 {
        let tp = u64::from(tensor_parallel);
        match self.rule {
            Rule::GatedDelta {
                key_heads, key_dim, ..
            } => (2 * u64::from(key_heads) * u64::from(key_dim) + self.inner_width()) / tp,
            Rule::KimiDelta { .. } => 3 * self.inner_width() / tp,
            Rule::ShortConv { .. } => self.inner_width() / tp,
            Rule::StateSpace {
                groups, state_size, ..
            } => {
                let groups = u64::from(groups / tensor_parallel).max(1);
                self.inner_width() / tp + 2 * groups * u64::from(state_size)
            }
        }
    }

    /// Heads that have a state each; none of a convolution.
    #[must_use]
    pub fn heads(&self) -> u32 {
        match self.rule {
            Rule::GatedDelta { value_heads, .. } => value_heads,
            Rule::KimiDelta { heads, .. } | Rule::StateSpace { heads, .. } => heads,
            Rule::ShortConv { .. } => 0,
        }
    }

    /// Numbers in the state of one head.
    #[must_use]
    pub fn state_of_head(&self) -> u64 {
        match self.rule {
            Rule::GatedDelta {
                key_dim, value_dim, ..
            } => u64::from(key_dim) * u64::from(value_dim),
            Rule::KimiDelta { dim, .. } => u64::from(dim) * u64::from(dim),
            Rule::ShortConv { .. } => 0,
            Rule::StateSpace {
                head_dim, state_size, ..
            } => u64::from(head_dim) * u64::from(state_size),
        }
    }

    /// Inputs of the convolution that a sequence keeps in one layer of one rank.
    #[must_use]
    pub fn conv_state_bytes(&self, dtype: Dtype, tensor_parallel: u32) -> Bytes {
        let inputs = u64::from(self.conv_kernel.saturating_sub(1));
        Bytes(inputs * self.conv_channels_of_rank(tensor_parallel) * dtype.bytes())
    }

    /// States of the heads of a sequence in one layer of one rank.
    #[must_use]
    pub fn head_state_bytes(&self, tensor_parallel: u32) -> Bytes {
        let heads = u64::from(self.heads() / tensor_parallel);
        Bytes(heads * self.state_of_head() * self.state_dtype.bytes())
    }

    /// All that a sequence keeps in one layer of one rank (`MambaSpec.page_size_bytes`).
    #[must_use]
    pub fn state_bytes(&self, dtype: Dtype, tensor_parallel: u32) -> Bytes {
        self.conv_state_bytes(dtype, tensor_parallel) + self.head_state_bytes(tensor_parallel)
    }

    /// Heads or groups that so many ranks cannot divide, and their kind.
    pub(crate) fn indivisible(&self, tensor_parallel: u32) -> Option<(&'static str, u32)> {
        let parts = match self.rule {
            Rule::GatedDelta {
                key_heads,
                value_heads,
                ..
            } => [("linear key", key_heads), ("linear value", value_heads)],
            Rule::KimiDelta { heads, .. } => [("linear", heads), ("linear", heads)],
            Rule::ShortConv { channels } => [("channels of convolution", channels); 2],
            // A single group is repeated (`MambaMixer2`).
            Rule::StateSpace { heads, groups, .. } => [
                ("state-space", heads),
                ("groups of state-space", if groups == 1 { heads } else { groups }),
            ],
        };
        parts
            .into_iter()
            .find(|(_, parts)| !parts.is_multiple_of(tensor_parallel))
    }

    /// Parameters that are in no matrix: the convolution, decays, skips, the gated norm.
    pub(crate) fn vector_parameters(&self, conv_bias: bool, is_normed: bool) -> u64 {
        let taps = u64::from(self.conv_kernel) + u64::from(conv_bias);
        let conv = self.conv_channels() * taps;
        match self.rule {
            // `A_log` and `dt_bias`; one norm for all heads.
            Rule::GatedDelta {
                value_heads,
                value_dim,
                ..
            } => conv + 2 * u64::from(value_heads) + u64::from(value_dim),
            // `A_log`, a `dt_bias` for each channel, one norm for all heads.
            Rule::KimiDelta { heads, dim, .. } => {
                conv + u64::from(heads) + self.inner_width() + u64::from(dim)
            }
            Rule::ShortConv { .. } => conv,
            // `A_log`, `dt_bias` and `D`; a norm as wide as all heads, which Falcon-H1 does without.
            Rule::StateSpace { heads, .. } => {
                conv + 3 * u64::from(heads) + u64::from(is_normed) * self.inner_width()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nemotron-3-Nano's.
    fn state_space(groups: u32) -> Recurrence {
        Recurrence {
            rule: Rule::StateSpace {
                heads: 64,
                head_dim: 64,
                groups,
                state_size: 128,
            },
            conv_kernel: 4,
            chunk: 128,
            state_dtype: Dtype::Fp32,
        }
    }

    #[test]
    fn states_have_the_bytes_that_vllm_gives_them() {
        // `mamba2_state_shape(4096, tp, 8, 64, 64, 128, 4)`: (3, 6144/tp) and (64/tp, 64, 128).
        let nano = state_space(8);
        assert_eq!(
            nano.state_bytes(Dtype::Bf16, 1),
            Bytes(3 * 6144 * 2 + 64 * 64 * 128 * 4)
        );
        assert_eq!(
            nano.state_bytes(Dtype::Bf16, 4),
            Bytes(3 * 1536 * 2 + 16 * 64 * 128 * 4)
        );
        // One group of all heads: every rank has it.
        assert_eq!(state_space(1).conv_channels_of_rank(4), 1024 + 2 * 128);
    }

    #[test]
    fn what_ranks_cannot_divide_is_named() {
        assert_eq!(state_space(8).indivisible(8), None);
        assert_eq!(state_space(8).indivisible(16), Some(("groups of state-space", 8)));
        assert_eq!(state_space(1).indivisible(16), None);
        assert_eq!(state_space(8).indivisible(3), Some(("state-space", 64)));
    }
}
