//! Work of the layers of constant state on one rank: FLOPs and bytes, of a decoding sequence and of a scanned token.
//!
//! `F` are the products of the published algorithms, per token, for chunks of `C` tokens:
//!
//! * gated delta net (Yang, Kautz and Hatamizadeh 2024, arXiv:2412.06464, section 3.3; Yang et al. 2024, arXiv:2406.06484, its WY
//!   form), a head: `6·d_k·d_v + C·(6·d_k + 4·d_v) + 2·C²/3`;
//! * state-space dual (Dao and Gu 2024, arXiv:2405.21060, section 6), `H` heads of `P`, `G` groups, states of `N`:
//!   `H·(4·N·P + 2·C·P) + G·2·C·N`.
//!
//! Kimi's delta nets are those of the first, with as many decays as a key is wide, which are not counted; a short convolution has no
//! products but its projections.
//!
//! Decoding reads and writes the state once. Left out: copies of states for prefix caching, the passing of states between chunks.

use crate::model::{Attention, ModelShape, Recurrence, Rule};

/// All recurrent layers of a rank together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecurrentWork {
    pub(crate) layers: f64,
    /// Tokens of a chunk of the scan.
    pub(crate) chunk: u32,
    /// Kernels of a layer for chunks of prompts.
    pub(crate) prefill_kernels: f64,
    /// Of one decoding sequence, the state's bytes left out.
    pub(crate) decode_flops: f64,
    /// Of one token of a scan, all heads, and of one head.
    pub(crate) token_flops: f64,
    pub(crate) head_flops: f64,
    /// Activations of a token, decoded or scanned.
    pub(crate) token_bytes: f64,
    /// A sequence's states, read and written.
    pub(crate) state_bytes: f64,
}

/// The recurrent layers of a model, if it has any.
pub(crate) fn recurrent_work(shape: &ModelShape, tensor_parallel: u32) -> Option<RecurrentWork> {
    let recurrence = shape.recurrence()?;
    let is_recurrent = |attention: &Attention| matches!(attention, Attention::Recurrent(_));
    let groups = shape.layers.iter().filter(|group| is_recurrent(&group.attention));
    let layers = f64::from(groups.map(|group| group.count).sum::<u32>());
    let width = shape.dtype.bytes() as f64;
    let heads = f64::from(recurrence.heads() / tensor_parallel);
    let convolved = recurrence.conv_channels_of_rank(tensor_parallel) as f64;
    let inner = recurrence.inner_width() as f64 / f64::from(tensor_parallel);
    let head = head_flops(recurrence);
    Some(RecurrentWork {
        layers,
        chunk: recurrence.chunk,
        prefill_kernels: prefill_kernels(recurrence),
        decode_flops: layers * decode_flops(recurrence, heads),
        token_flops: layers * (heads * head + group_flops(recurrence, tensor_parallel)),
        head_flops: layers * head,
        // The convolution's in and out, the scan's in and out, and the norm's with its gate.
        token_bytes: layers * width * (3.0 * convolved + 4.0 * inner),
        state_bytes: layers * 2.0 * recurrence.state_bytes(shape.dtype, tensor_parallel).0 as f64,
    })
}

/// Convolution, five of the scan, gated norm; or a convolution between two gates.
fn prefill_kernels(recurrence: &Recurrence) -> f64 {
    match recurrence.rule {
        Rule::ShortConv { .. } => 3.0,
        Rule::GatedDelta { .. } | Rule::KimiDelta { .. } | Rule::StateSpace { .. } => 7.0,
    }
}

/// The recurrence itself: `S·k`, the update and `S·q`; or the update and `S·C`.
fn decode_flops(recurrence: &Recurrence, heads: f64) -> f64 {
    let products = match recurrence.rule {
        Rule::GatedDelta { .. } | Rule::KimiDelta { .. } => 6.0,
        Rule::StateSpace { .. } => 4.0,
        Rule::ShortConv { .. } => 0.0,
    };
    products * heads * recurrence.state_of_head() as f64
}

fn head_flops(recurrence: &Recurrence) -> f64 {
    let chunk = f64::from(recurrence.chunk);
    let delta = |key: u32, value: u32| {
        let (key, value) = (f64::from(key), f64::from(value));
        6.0 * key * value + chunk * (6.0 * key + 4.0 * value) + 2.0 * chunk * chunk / 3.0
    };
    match recurrence.rule {
        Rule::GatedDelta {
            key_dim, value_dim, ..
        } => delta(key_dim, value_dim),
        Rule::KimiDelta { dim, .. } => delta(dim, dim),
        Rule::ShortConv { .. } => 0.0,
        Rule::StateSpace {
            head_dim, state_size, ..
        } => {
            let (head, state) = (f64::from(head_dim), f64::from(state_size));
            4.0 * state * head + 2.0 * chunk * head
        }
    }
}

/// What heads of a group share.
fn group_flops(recurrence: &Recurrence, tensor_parallel: u32) -> f64 {
    match recurrence.rule {
        Rule::GatedDelta { .. } | Rule::KimiDelta { .. } | Rule::ShortConv { .. } => 0.0,
        Rule::StateSpace {
            groups, state_size, ..
        } => {
            let groups = f64::from((groups / tensor_parallel).max(1));
            groups * 2.0 * f64::from(recurrence.chunk) * f64::from(state_size)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_numbers_of_a_gated_delta_net_and_a_state_space_dual() {
        let of = |name: &str| recurrent_work(&crate::model::find(name).unwrap().0, 1).unwrap();
        let qwen = of("Qwen/Qwen3.5-27B");
        // 48 layers of 48 heads with states of 128 × 128 in 32 bits, and 3 inputs of 10,240 channels in 16.
        assert_eq!(qwen.layers, 48.0);
        assert_eq!(
            qwen.state_bytes,
            48.0 * 2.0 * f64::from(48 * 128 * 128 * 4 + 3 * 10_240 * 2)
        );
        assert_eq!(qwen.decode_flops, 48.0 * 48.0 * 6.0 * 128.0 * 128.0);
        let head = 6.0 * 128.0 * 128.0 + 64.0 * 10.0 * 128.0 + 2.0 * 64.0 * 64.0 / 3.0;
        assert!((qwen.token_flops / (48.0 * 48.0 * head) - 1.0).abs() < 1e-12);
        let nemotron = of("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16");
        let heads = 64.0 * (4.0 * 128.0 * 64.0 + 2.0 * 128.0 * 64.0);
        let groups = 8.0 * 2.0 * 128.0 * 128.0;
        assert_eq!(nemotron.token_flops, 23.0 * (heads + groups));
        assert_eq!(recurrent_work(&crate::cost::testing::llama_8b(), 1), None);
    }
}
