//! Attention: additive for decoding, so that a step stays affine in its KV tokens, and additive for prompts.

use super::Form;
use crate::calibrate::observation::{Block, Kernel};
use crate::calibrate::solve::Parameter;
use crate::cost::calibration::{Attention, Calibration, DecodeAttention, PrefillAttention, Rate};
use crate::cost::kernel::{Ceilings, decode_attention_seconds, prefill_attention_seconds};
use crate::hardware::Device;

pub(super) fn decode(device: &Device, base: &Calibration, is_fp8: bool) -> Vec<Form> {
    let Some(attention) = base.attention.clone() else {
        return Vec::new();
    };
    let prior = if is_fp8 {
        &attention.decode_fp8_kv
    } else {
        &attention.decode
    };
    let ceilings = Ceilings::of(device, device.peaks.bf16.0);
    let share = prior.bandwidth.of(ceilings.bytes_per_s) / ceilings.bytes_per_s;
    vec![Form {
        label: String::new(),
        parameters: vec![
            // Tables leave small caches out because they stay in L2, and with them what would show the floor: its
            // prior is narrow, though not so that large caches would have to be read too slowly.
            Parameter::factor("t0_us", (1.0, 60.0), prior.t0_us, 0.2),
            // Without a least time for a row, as priors are, long rows had to pay for short ones.
            Parameter::term("per_seq_head_ns", (0.0, 80.0), 0.4 * prior.per_seq_head_ns, 8.0),
            Parameter::term("per_token_ns", (0.0, 1.0), prior.per_token_ns, 0.05),
            Parameter::factor("decode_eb", (0.3, 1.3), share, 0.2),
            Parameter::factor("row_ns", (1.0, 200.0), 2.5 * prior.per_seq_head_ns, 0.5),
            // A head's query, output and sums over the splits of its context are 0.5 to 2 kB.
            Parameter::term("per_query_head_ns", (0.0, 5.0), 0.3, 0.5),
        ],
        seconds: Box::new(move |values, kernel| match kernel {
            Kernel::Decode(shape) => decode_attention_seconds(&decode_of(values), &ceilings, shape),
            _ => f64::NAN,
        }),
        store: Box::new(move |values, _, into| {
            let own = own(into, &attention);
            if is_fp8 {
                own.decode_fp8_kv = decode_of(values);
            } else {
                own.decode = decode_of(values);
            }
        }),
    }]
}

fn decode_of(values: &[f64]) -> DecodeAttention {
    DecodeAttention {
        t0_us: values[0],
        per_seq_head_ns: values[1],
        per_token_ns: values[2],
        bandwidth: Rate::Share(values[3]),
        row_ns: values[4],
        per_query_head_ns: values[5],
    }
}

pub(super) fn prefill(block: Block, device: &Device, base: &Calibration) -> Vec<Form> {
    let Some(attention) = base.attention.clone() else {
        return Vec::new();
    };
    let ceilings = Ceilings::of(device, device.peaks.bf16.0);
    let prior = &attention.prefill;
    let compute = prior.compute.of(ceilings.flops_per_s) / ceilings.flops_per_s;
    let bandwidth = prior.bandwidth.of(ceilings.bytes_per_s) / ceilings.bytes_per_s;
    vec![Form {
        label: String::new(),
        parameters: vec![
            Parameter::factor("prefill_o_us", (1.0, 60.0), prior.overhead_us, 0.15),
            Parameter::factor("prefill_ec", (0.1, 1.0), compute, 0.2),
            Parameter::factor("prefill_eb", (0.05, 1.9), bandwidth, 0.4),
            // Half of a block is what the last wave costs on average; 1 is Graham's bound, and blocks may be of 256.
            Parameter::term("prefill_tail", (0.0, 2.0), 0.5, 0.3),
            // Data in L2 are read at two to six times the memory's rate, if other things do not decide.
            Parameter::term("prefill_resident", (0.0, 1.0), 0.3, 0.3),
            // vLLM's `reshape_and_cache_flash` starts a thread block for each token; others write within the kernel.
            Parameter::term("prefill_token_ns", (0.0, 10.0), 0.0, 1.0),
        ],
        seconds: Box::new(move |values, kernel| match kernel {
            Kernel::Prefill(shape) => prefill_attention_seconds(&prefill_of(values), &ceilings, shape),
            _ => f64::NAN,
        }),
        store: Box::new(move |values, _, into| {
            let own = own(into, &attention);
            match block {
                Block::PrefillAttentionFp8 => own.prefill_fp8_kv = prefill_of(values),
                Block::PrefillAttentionFp8Query => own.prefill_fp8_query = Some(prefill_of(values)),
                _ => own.prefill = prefill_of(values),
            }
        }),
    }]
}

fn prefill_of(values: &[f64]) -> PrefillAttention {
    PrefillAttention {
        overhead_us: values[0],
        compute: Rate::Share(values[1]),
        bandwidth: Rate::Share(values[2]),
        tail: values[3],
        resident_share: values[4],
        per_token_ns: values[5],
    }
}

/// A calibration's own attention, which begins as the base's.
fn own<'c>(calibration: &'c mut Calibration, base: &Attention) -> &'c mut Attention {
    calibration.attention.get_or_insert_with(|| base.clone())
}
