//! Attention of all layers of a step: affine in the KV tokens for decoding sequences, a few flops for each chunk.
//!
//! Decoding: `t0 + max(c·batch·n_kv + k·S_max + KV_bytes/W, r·batch·n_kv)` a layer. A layer whose window is shorter than the
//! typical context counts as `batch` full windows, any other as unwindowed. Chunks: `o + (F + θ·SMs·F1)/(ec·PEAK) +
//! bytes/(eb·BW)`, with the cached prefix in both terms, windows exact, and `F1` that of the step's longest block. A
//! mixed step has one kernel and so one floor.

use super::Placement;
use crate::cost::calibration::{DecodeAttention, PrefillAttention};
use crate::cost::kernel::longest_block_pairs;
use crate::cost::operators::{
    flops_per_pair, local_kv_heads, local_query_heads, query_bytes_per_token, window,
};
use crate::cost::{Chunk, Part, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::{ModelShape, kv_bytes_per_token_layer};
use crate::units::Picos;

/// Attention of all layers: integer coefficients for decoding, floats for chunks.
#[derive(Clone, Debug)]
pub(super) struct AttentionTerms {
    decode_t0: u64,
    prefill_t0: u64,
    per_seq: u64,
    /// What contexts take at least, for each sequence.
    kv_floor_per_seq: u64,
    pub(super) per_kv_token: u64,
    pub(super) per_longest_token: u64,
    /// FLOPs and bytes of one KV token read in decoding, unwindowed layers.
    pub(super) kv_flops: f64,
    pub(super) kv_bytes: f64,
    /// The same for one decoding sequence, windowed layers and the queries.
    pub(super) seq_flops: f64,
    pub(super) seq_bytes: f64,
    chunks: Vec<ChunkTerms>,
    pub(super) prefill_scale: f64,
    pub(super) trust: Trust,
}

/// Chunk attention of the layers of one group.
#[derive(Clone, Debug)]
struct ChunkTerms {
    window: Option<u32>,
    flops_per_pair: f64,
    /// `θ·SMs` times the FLOPs of a pair in one head.
    tail_flops_per_pair: f64,
    seconds_per_flop: f64,
    kv_bytes: f64,
    query_bytes: f64,
    seconds_per_byte: f64,
}

impl AttentionTerms {
    pub(super) fn new(
        device: &Device,
        shape: &ModelShape,
        placement: &Placement,
        decode: &DecodeAttention,
        prefill: &PrefillAttention,
    ) -> AttentionTerms {
        let tp = placement.tensor_parallel;
        let (peak, bandwidth) = (device.peaks.bf16.0, device.memory_bandwidth.0);
        let (decode_rate, prefill_rate) = (decode.bandwidth.of(bandwidth), prefill.compute.of(peak));
        let mut terms = AttentionTerms {
            decode_t0: 0,
            prefill_t0: 0,
            per_seq: 0,
            kv_floor_per_seq: 0,
            per_kv_token: 0,
            per_longest_token: 0,
            kv_flops: 0.0,
            kv_bytes: 0.0,
            seq_flops: 0.0,
            seq_bytes: 0.0,
            chunks: Vec::new(),
            prefill_scale: 1.0,
            trust: Trust::Prior,
        };
        let (mut per_seq, mut per_kv, mut per_longest, mut floor) = (0.0, 0.0, 0.0, 0.0);
        for group in &shape.layers {
            let layers = f64::from(group.count);
            let attention = &group.attention;
            let kv_bytes = layers * kv_bytes_per_token_layer(attention, placement.kv_dtype, tp).0 as f64;
            let kv_flops = layers * flops_per_pair(attention, tp, true);
            // Queries of many heads over one latent cache can be bound by compute even in decoding.
            let kv_seconds = (kv_bytes / decode_rate).max(kv_flops / prefill_rate);
            let query_bytes = layers * query_bytes_per_token(attention, shape.dtype, tp);
            let kv_heads = f64::from(local_kv_heads(attention, tp));
            let row = layers * decode.per_seq_head_ns * 1e-9 * kv_heads;
            // What is missing to a row's least time where its context is short.
            let missing = (layers * decode.row_ns * 1e-9 * kv_heads - row).max(0.0);
            per_seq += row;
            terms.seq_bytes += query_bytes;
            match window(attention).filter(|window| *window < placement.typical_context) {
                Some(window) => {
                    let window = f64::from(window);
                    per_seq += (window * kv_seconds).max(missing);
                    terms.seq_flops += window * kv_flops;
                    terms.seq_bytes += window * kv_bytes;
                }
                None => {
                    floor += missing;
                    per_kv += kv_seconds;
                    per_longest += layers * decode.per_token_ns * 1e-9;
                    terms.kv_flops += kv_flops;
                    terms.kv_bytes += kv_bytes;
                }
            }
            terms.chunks.push(ChunkTerms {
                window: window(attention),
                flops_per_pair: layers * flops_per_pair(attention, tp, false),
                tail_flops_per_pair: layers
                    * prefill.tail
                    * f64::from(device.sm_count)
                    * flops_per_pair(attention, tp, false)
                    / f64::from(local_query_heads(attention, tp)),
                seconds_per_flop: 1.0 / prefill_rate,
                kv_bytes,
                query_bytes,
                seconds_per_byte: 1.0 / prefill.bandwidth.of(bandwidth),
            });
        }
        let layers = f64::from(shape.layer_count());
        terms.decode_t0 = Picos::from_seconds(layers * decode.t0_us * 1e-6).0;
        terms.prefill_t0 = Picos::from_seconds(layers * prefill.overhead_us * 1e-6).0;
        terms.per_seq = Picos::from_seconds(per_seq).0;
        terms.kv_floor_per_seq = Picos::from_seconds(floor).0;
        terms.per_kv_token = Picos::from_seconds(per_kv).0;
        terms.per_longest_token = Picos::from_seconds(per_longest).0;
        terms
    }

    /// Chunks compute at so much of the burst's rate.
    pub(super) fn derate(&mut self, sustained_over_burst: f64) {
        for terms in &mut self.chunks {
            terms.seconds_per_flop /= sustained_over_burst;
        }
    }

    pub(super) fn decode_scale(&mut self, factor: f64) {
        for picos in [
            &mut self.decode_t0,
            &mut self.per_seq,
            &mut self.kv_floor_per_seq,
            &mut self.per_kv_token,
            &mut self.per_longest_token,
        ] {
            *picos = (*picos as f64 * factor).round() as u64;
        }
    }

    /// Decoding sequences and chunks of a mixed step share one kernel and so one floor, the larger of the two.
    pub(super) fn base_picos(&self, decode_seqs: u32, has_chunks: bool) -> u64 {
        let decode = if decode_seqs > 0 { self.decode_t0 } else { 0 };
        let prefill = if has_chunks { self.prefill_t0 } else { 0 };
        decode.max(prefill) + self.per_seq * u64::from(decode_seqs)
    }

    /// What the contexts of so many decoding sequences take at least.
    pub(super) fn kv_floor_picos(&self, decode_seqs: u32) -> u64 {
        self.kv_floor_per_seq * u64::from(decode_seqs)
    }

    pub(super) fn chunks_picos(&self, chunks: &[Chunk]) -> Picos {
        if chunks.is_empty() {
            return Picos::ZERO;
        }
        Picos::from_seconds(self.chunk_work(chunks).seconds)
    }

    fn chunk_work(&self, chunks: &[Chunk]) -> Work {
        let mut work = Work::default();
        for terms in &self.chunks {
            let longest = |chunk: &Chunk| {
                let keys = terms.window.map_or(chunk.new, |window| chunk.new.min(window));
                longest_block_pairs(f64::from(chunk.new), f64::from(keys))
            };
            let tail = chunks.iter().map(longest).fold(0.0, f64::max) * terms.tail_flops_per_pair;
            work.seconds += tail * terms.seconds_per_flop;
            for chunk in chunks {
                let flops = attended_pairs(chunk, terms.window) * terms.flops_per_pair;
                let kv_tokens = match terms.window {
                    None => chunk.computed + chunk.new,
                    Some(window) => chunk.computed.min(window) + chunk.new,
                };
                let bytes = f64::from(kv_tokens) * terms.kv_bytes + f64::from(chunk.new) * terms.query_bytes;
                work.flops += flops;
                work.bytes += bytes;
                work.seconds += flops * terms.seconds_per_flop + bytes * terms.seconds_per_byte;
            }
        }
        work.seconds *= self.prefill_scale;
        work
    }

    pub(super) fn parts(&self, load: &StepLoad) -> Vec<Part> {
        let mut parts = Vec::new();
        let part = |operator: &str, work: Work| Part {
            operator: operator.to_owned(),
            seconds: work.seconds,
            flops: work.flops,
            bytes: work.bytes,
            trust: self.trust,
        };
        let base = self.base_picos(load.decode_seqs, !load.chunks.is_empty());
        let alone = self.base_picos(load.decode_seqs, false);
        if load.decode_seqs > 0 {
            let (seqs, kv) = (f64::from(load.decode_seqs), load.decode_kv_tokens as f64);
            let contexts = self.per_kv_token * load.decode_kv_tokens
                + self.per_longest_token * u64::from(load.decode_longest);
            let picos = alone + contexts.max(self.kv_floor_picos(load.decode_seqs));
            let work = Work {
                seconds: Picos(picos).seconds(),
                flops: seqs * self.seq_flops + kv * self.kv_flops,
                bytes: seqs * self.seq_bytes + kv * self.kv_bytes,
            };
            parts.push(part("decode_attention", work));
        }
        if !load.chunks.is_empty() {
            let mut work = self.chunk_work(&load.chunks);
            work.seconds += Picos(base - alone).seconds();
            parts.push(part("prefill_attention", work));
        }
        parts
    }
}

/// Seconds, FLOPs and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    seconds: f64,
    flops: f64,
    bytes: f64,
}

/// (query, key) pairs of a chunk, causal: `q·c + q(q+1)/2`, at most `window` keys a query.
fn attended_pairs(chunk: &Chunk, window: Option<u32>) -> f64 {
    let (c, q) = (f64::from(chunk.computed), f64::from(chunk.new));
    let causal = |q: f64| q * c + q * (q + 1.0) / 2.0;
    match window.map(f64::from) {
        Some(window) if c + q > window => {
            let growing = (window - c).max(0.0);
            causal(growing) + (q - growing) * window
        }
        _ => causal(q),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windowed_layer_attends_to_no_more_than_its_window() {
        let brute = |c: u32, q: u32, w: u32| (1..=q).map(|i| f64::from((c + i).min(w))).sum::<f64>();
        for (c, q, w) in [
            (0, 5, 128),
            (100, 60, 128),
            (500, 7, 128),
            (128, 1, 128),
            (0, 300, 128),
        ] {
            assert_eq!(
                attended_pairs(&Chunk { computed: c, new: q }, Some(w)),
                brute(c, q, w),
                "{c} {q} {w}"
            );
        }
    }
}
