//! What picks the tokens that sparse attention reads: scores over the whole context, then the best of them.
//!
//! Decoding, a layer with an indexer of its own: `3·floor + Σ_tokens max(bytes/W, F/P)` (vLLM `fp8_paged_mqa_logits`, the top-k kernel, the
//! translation of picks to places): a token's key in 8 bits is read once and its score, in 32 bits, written and read. Every rank does all
//! of it, and it is affine in the contexts. `W` is what decode attention streams, `P` the share of the peak in 8 bits that attention over
//! prompts reaches in 16.
//!
//! A prompt's chunk: `4·floor + max(F/P, bytes/(e·BW))` over all pairs of a query and a token before it, of which each rank scores its share
//! of the queries (`tp_prefill_row_sharding_supported`); keys are gathered first. None of it where a step has prompts alone
//! whose contexts are so short that attention reads all of them. Nothing here is calibrated: [`Trust::RooflineOnly`].
//!
//! Left out: the exchange of picks between ranks, and what top-k takes beyond one reading. Law: longer contexts never take less.

use super::Placement;
use crate::cost::calibration::{DecodeAttention, Elementwise, PrefillAttention};
use crate::cost::operators::{indexer, score_flops};
use crate::cost::{Chunk, Part, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::{Indexer, ModelShape};
use crate::units::Picos;

/// Kernels of a layer in decoding: scores, top-k, places.
const DECODE_KERNELS: f64 = 3.0;
/// Kernels of a layer for chunks: gather, scores, top-k, places.
const PREFILL_KERNELS: f64 = 4.0;
/// A score in 32 bits, written and read.
const SCORE_BYTES: f64 = 8.0;

/// The indexers of a rank: integer coefficients for decoding, floats for chunks. All zero where there are none.
#[derive(Clone, Debug, Default)]
pub(super) struct IndexerTerms {
    decode_t0: u64,
    pub(super) per_kv_token: u64,
    prefill_t0: u64,
    top_k: u32,
    /// FLOPs of a score and bytes of a key, all layers; ranks that share a chunk's queries.
    score_flops: f64,
    key_bytes: f64,
    score_bytes: f64,
    ranks: f64,
    seconds_per_flop: f64,
    seconds_per_byte: f64,
    prefill_scale: f64,
}

impl IndexerTerms {
    pub(super) fn new(
        device: &Device,
        shape: &ModelShape,
        placement: &Placement,
        (decode, prefill): (&DecodeAttention, &PrefillAttention),
        elementwise: &Elementwise,
    ) -> IndexerTerms {
        let own = |attention| indexer(attention).filter(|indexer: &Indexer| indexer.scores);
        let scoring = shape
            .layers
            .iter()
            .filter_map(|group| Some((own(&group.attention)?, group.count)));
        let mut terms = IndexerTerms::default();
        let mut layers = 0.0;
        for (indexer, count) in scoring {
            let count = f64::from(count);
            layers += count;
            terms.top_k = indexer.top_k;
            terms.score_flops += count * score_flops(indexer);
            terms.key_bytes += count * indexer.cached_bytes().0 as f64;
        }
        if layers == 0.0 {
            return terms;
        }
        let (peaks, bandwidth) = (&device.peaks, device.memory_bandwidth.0);
        let peak = peaks.fp8.unwrap_or(peaks.bf16).0;
        let floor = elementwise.floor_us * 1e-6;
        terms.score_bytes = layers * SCORE_BYTES;
        terms.ranks = f64::from(placement.tensor_parallel);
        terms.seconds_per_flop = 1.0 / prefill.compute.of(peak);
        terms.seconds_per_byte = 1.0 / (elementwise.bandwidth_efficiency * bandwidth);
        terms.prefill_scale = 1.0;
        terms.decode_t0 = Picos::from_seconds(layers * DECODE_KERNELS * floor).0;
        terms.prefill_t0 = Picos::from_seconds(layers * PREFILL_KERNELS * floor).0;
        let bytes = (terms.key_bytes + terms.score_bytes) / decode.bandwidth.of(bandwidth);
        terms.per_kv_token = Picos::from_seconds(bytes.max(terms.score_flops * terms.seconds_per_flop)).0;
        terms
    }

    pub(super) fn scale(&mut self, factor: f64) {
        for picos in [&mut self.decode_t0, &mut self.per_kv_token, &mut self.prefill_t0] {
            *picos = (*picos as f64 * factor).round() as u64;
        }
        self.prefill_scale *= factor;
    }

    /// What decoding takes whatever the contexts.
    #[inline]
    pub(super) fn base_picos(&self, decode_seqs: u32) -> u64 {
        if decode_seqs > 0 { self.decode_t0 } else { 0 }
    }

    #[inline]
    pub(super) fn chunks_picos(&self, load: &StepLoad) -> Picos {
        if load.chunks.is_empty() || !self.scores(load) {
            return Picos::ZERO;
        }
        let (flops, bytes) = self.chunk_work(&load.chunks);
        let seconds = (flops * self.seconds_per_flop).max(bytes * self.seconds_per_byte);
        Picos(self.prefill_t0) + Picos::from_seconds(self.prefill_scale * seconds)
    }

    /// Whether a step's chunks are scored: beside decodes, or where one of them has more context than is read.
    fn scores(&self, load: &StepLoad) -> bool {
        self.top_k > 0
            && (load.decode_seqs > 0 || load.chunks.iter().any(|chunk| chunk.context() > self.top_k))
    }

    /// FLOPs and bytes of one rank.
    fn chunk_work(&self, chunks: &[Chunk]) -> (f64, f64) {
        let pairs = |chunk: &Chunk| chunk.pairs_doubled() as f64 / 2.0;
        let scored = chunks.iter().map(pairs).sum::<f64>() / self.ranks;
        let gathered: f64 = chunks.iter().map(|chunk| f64::from(chunk.context())).sum();
        // Read from the cache and written side by side, then read.
        let bytes = scored * self.score_bytes + 3.0 * gathered * self.key_bytes;
        (scored * self.score_flops, bytes)
    }

    pub(super) fn part(&self, load: &StepLoad) -> Option<Part> {
        if self.top_k == 0 {
            return None;
        }
        let mut picos = Picos(self.base_picos(load.decode_seqs) + self.per_kv_token * load.decode_kv_tokens);
        let kv_tokens = load.decode_kv_tokens as f64;
        let mut flops = kv_tokens * self.score_flops;
        let mut bytes = kv_tokens * (self.key_bytes + self.score_bytes);
        if !load.chunks.is_empty() && self.scores(load) {
            picos += self.chunks_picos(load);
            let more = self.chunk_work(&load.chunks);
            flops += more.0;
            bytes += more.1;
        }
        (picos > Picos::ZERO).then(|| Part {
            operator: "indexer".to_owned(),
            seconds: picos.seconds(),
            flops,
            bytes,
            trust: Trust::RooflineOnly,
        })
    }
}

#[cfg(test)]
mod tests;
