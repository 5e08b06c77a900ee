//! Layers of constant state: decoding reads and writes each sequence's state once, prompts are scanned in chunks.
//!
//! Decoding, a layer: `3·floor + seqs·(2·state + activations)/W`, with the floor of small kernels and the `W` at which decode
//! attention streams the cache (vLLM `causal_conv1d_update`, `fused_recurrent_gated_delta_rule` and `selective_state_update`,
//! then the gated norm). It does not depend on the contexts, so a step stays affine in them.
//!
//! A prompt's chunk: `7·floor + max(Σ F/P, F1/(P/SMs)) + bytes/(e·BW)`, vLLM `chunk_gated_delta_rule` and
//! `mamba_chunk_scan_combined`, with the `F` of [`crate::cost::recurrence`]; a short convolution has 3 kernels and no `F`.
//!
//! The chunks of one head follow each other, so a single sequence fills no more SMs than it has heads: `F1` is the longest
//! sequence's work in one head. `P` is the share of the peak that attention over prompts reaches, whose products are of like size.
//! Nothing here is calibrated: every part is [`Trust::RooflineOnly`].
//!
//! Left out: copies of states for prefix caching, Mamba2's state passing, kernels that fuse these.
//! Law: more sequences or tokens never take less.

use super::Placement;
use crate::cost::calibration::{DecodeAttention, Elementwise, PrefillAttention};
use crate::cost::recurrence::recurrent_work;
use crate::cost::{Chunk, Part, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::ModelShape;
use crate::units::Picos;

/// Kernels of a layer in decoding: convolution, recurrence, gated norm.
const DECODE_KERNELS: f64 = 3.0;

/// All recurrent layers of a rank: integer coefficients for decoding, floats for chunks. All zero where there are none.
#[derive(Clone, Debug)]
pub(super) struct RecurrentTerms {
    decode_t0: u64,
    prefill_t0: u64,
    per_seq: u64,
    /// FLOPs and bytes of one decoding sequence.
    seq_flops: f64,
    seq_bytes: f64,
    /// Tokens of a chunk of the scan; chunks are whole.
    chunk: u32,
    /// FLOPs of one token of a scan, all heads, and of one head.
    token_flops: f64,
    head_flops: f64,
    token_bytes: f64,
    /// Bytes of the state that a chunk of a prompt reads and writes.
    state_bytes: f64,
    seconds_per_flop: f64,
    /// Where one head's chunks follow each other: on one SM.
    serial_seconds_per_flop: f64,
    seconds_per_byte: f64,
    prefill_scale: f64,
}

impl RecurrentTerms {
    pub(super) fn new(
        device: &Device,
        shape: &ModelShape,
        placement: &Placement,
        (decode, prefill): (&DecodeAttention, &PrefillAttention),
        elementwise: &Elementwise,
    ) -> RecurrentTerms {
        let tp = placement.tensor_parallel;
        let (peak, bandwidth) = (device.peaks.bf16.0, device.memory_bandwidth.0);
        let rate = prefill.compute.of(peak);
        let mut terms = RecurrentTerms {
            decode_t0: 0,
            prefill_t0: 0,
            per_seq: 0,
            seq_flops: 0.0,
            seq_bytes: 0.0,
            chunk: 1,
            token_flops: 0.0,
            head_flops: 0.0,
            token_bytes: 0.0,
            state_bytes: 0.0,
            seconds_per_flop: 1.0 / rate,
            serial_seconds_per_flop: f64::from(device.sm_count) / rate,
            seconds_per_byte: 1.0 / (elementwise.bandwidth_efficiency * bandwidth),
            prefill_scale: 1.0,
        };
        let Some(work) = recurrent_work(shape, tp) else {
            return terms;
        };
        let floor = elementwise.floor_us * 1e-6;
        terms.chunk = work.chunk;
        terms.seq_flops = work.decode_flops;
        terms.seq_bytes = work.state_bytes + work.token_bytes;
        terms.head_flops = work.head_flops;
        terms.token_flops = work.token_flops;
        terms.token_bytes = work.token_bytes;
        terms.state_bytes = work.state_bytes;
        terms.decode_t0 = Picos::from_seconds(work.layers * DECODE_KERNELS * floor).0;
        terms.prefill_t0 = Picos::from_seconds(work.layers * work.prefill_kernels * floor).0;
        terms.per_seq = Picos::from_seconds(terms.seq_bytes / decode.bandwidth.of(bandwidth)).0;
        terms
    }

    pub(super) fn scale(&mut self, decode: f64, prefill: f64) {
        for picos in [&mut self.decode_t0, &mut self.per_seq] {
            *picos = (*picos as f64 * decode).round() as u64;
        }
        self.prefill_t0 = (self.prefill_t0 as f64 * prefill).round() as u64;
        self.prefill_scale = prefill;
    }

    /// What does not depend on the chunks' lengths. Decoding sequences and chunks have kernels of their own.
    #[inline]
    pub(super) fn base_picos(&self, decode_seqs: u32, has_chunks: bool) -> u64 {
        let decode = if decode_seqs > 0 { self.decode_t0 } else { 0 };
        let prefill = if has_chunks { self.prefill_t0 } else { 0 };
        decode + prefill + self.per_seq * u64::from(decode_seqs)
    }

    #[inline]
    pub(super) fn chunks_picos(&self, chunks: &[Chunk]) -> Picos {
        if chunks.is_empty() || self.prefill_t0 == 0 {
            return Picos::ZERO;
        }
        Picos::from_seconds(self.chunks_seconds(chunks))
    }

    fn chunks_seconds(&self, chunks: &[Chunk]) -> f64 {
        let whole = |chunk: &Chunk| f64::from(chunk.new.div_ceil(self.chunk) * self.chunk);
        let scanned: f64 = chunks.iter().map(whole).sum();
        let longest = chunks.iter().map(whole).fold(0.0, f64::max);
        let spread = scanned * self.token_flops * self.seconds_per_flop;
        let serial = longest * self.head_flops * self.serial_seconds_per_flop;
        self.prefill_scale * (spread.max(serial) + self.chunk_bytes(chunks) * self.seconds_per_byte)
    }

    fn chunk_bytes(&self, chunks: &[Chunk]) -> f64 {
        let new: f64 = chunks.iter().map(|chunk| f64::from(chunk.new)).sum();
        new * self.token_bytes + chunks.len() as f64 * self.state_bytes
    }

    pub(super) fn parts(&self, load: &StepLoad) -> Vec<Part> {
        let part = |operator: &str, picos: u64, flops: f64, bytes: f64| Part {
            operator: operator.to_owned(),
            seconds: Picos(picos).seconds(),
            flops,
            bytes,
            trust: Trust::RooflineOnly,
        };
        let mut parts = Vec::new();
        if load.decode_seqs > 0 && self.decode_t0 > 0 {
            let seqs = f64::from(load.decode_seqs);
            let picos = self.base_picos(load.decode_seqs, false);
            parts.push(part(
                "recurrent_decode",
                picos,
                seqs * self.seq_flops,
                seqs * self.seq_bytes,
            ));
        }
        if !load.chunks.is_empty() && self.prefill_t0 > 0 {
            let picos = self.prefill_t0 + self.chunks_picos(&load.chunks).0;
            let new: f64 = load.chunks.iter().map(|chunk| f64::from(chunk.new)).sum();
            let bytes = self.chunk_bytes(&load.chunks);
            parts.push(part("recurrent_prefill", picos, new * self.token_flops, bytes));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::roofline::RooflineCost;
    use crate::cost::testing::{device, llama_8b, placement};
    use crate::cost::{StepCost, uncertainty::Component};

    fn terms(card: &str, model: &str) -> RecurrentTerms {
        let device = device(card);
        let calibration = for_device(&device, "vllm").calibration;
        let (shape, _) = crate::model::find(model).expect("it is bundled");
        let attention = calibration.attention.expect("it is whole");
        RecurrentTerms::new(
            &device,
            &shape,
            &placement(),
            (&attention.decode, &attention.prefill),
            &calibration.elementwise.expect("it is whole"),
        )
    }

    fn chunk(new: u32) -> Chunk {
        Chunk { computed: 0, new }
    }

    #[test]
    fn one_sequence_fills_no_more_sms_than_it_has_heads() {
        let terms = terms("h100", "Qwen/Qwen3.5-27B");
        let one = terms.chunks_seconds(&[chunk(8192)]);
        let two = terms.chunks_seconds(&[chunk(8192), chunk(8192)]);
        assert!(two < 1.6 * one, "48 heads on 132 SMs: {one} {two}");
        let eight = terms.chunks_seconds(&[chunk(8192); 8]);
        assert!(eight > 3.0 * one, "then they are full: {one} {eight}");
    }

    #[test]
    fn transformers_take_nothing() {
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let attention = calibration.attention.clone().expect("it is whole");
        let elementwise = calibration.elementwise.clone().expect("it is whole");
        let terms = RecurrentTerms::new(
            &device,
            &llama_8b(),
            &placement(),
            (&attention.decode, &attention.prefill),
            &elementwise,
        );
        assert_eq!(terms.base_picos(64, true), 0);
        assert_eq!(terms.chunks_picos(&[chunk(8192)]), Picos::ZERO);
        let sigmas = calibration.sigmas(&device, &llama_8b(), &placement());
        assert!(
            sigmas
                .iter()
                .all(|(component, _)| *component != Component::Recurrence)
        );
    }

    #[test]
    fn the_parts_add_up_and_say_that_nobody_measured_them() {
        for model in [
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        ] {
            let device = device("h100");
            let calibration = for_device(&device, "vllm").calibration;
            let (shape, _) = crate::model::find(model).expect("it is bundled");
            let mut cost = RooflineCost::new(&device, &shape, &calibration, &placement()).unwrap();
            let load = StepLoad {
                decode_seqs: 8,
                decode_kv_tokens: 8000,
                decode_longest: 1000,
                chunks: vec![chunk(1000), chunk(7)],
                sampled_rows: 10,
                ..StepLoad::default()
            };
            let step = cost.step(&load).seconds();
            let parts = cost.breakdown(&load).parts;
            let sum: f64 = parts.iter().map(|part| part.seconds).sum();
            assert!((sum / step - 1.0).abs() < 1e-6, "{model}: {sum} {step}");
            let recurrent = parts
                .iter()
                .filter(|part| part.operator.starts_with("recurrent_"));
            assert_eq!(recurrent.clone().count(), 2, "{model}");
            assert!(recurrent.clone().all(|part| part.trust == Trust::RooflineOnly));
        }
    }
}
