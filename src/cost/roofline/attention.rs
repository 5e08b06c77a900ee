//! Attention of all layers of a step: affine in the KV tokens for decoding sequences, a few flops for each chunk.
//!
//! Sparse attention reads `k` tokens of a context at most: of decoding sequences each token beyond costs nothing, and of chunks a query
//! has `k` keys at most. Where all contexts are shorter, a chunk attends as if there were no bound (vLLM `use_dense_mha`); else each
//! of its queries gathers its own keys and multiplies in the compressed space, as a decoding sequence does: `max(F/(ec·PEAK),
//! bytes/W)` a pair. That they may come from L2 instead of memory is left out, so of such layers nothing is calibrated, and their kernels have
//! no least time.
//!
//! Decoding: `t0 + max(c·batch·n_kv + h·batch·n_q + k·S_max + KV_bytes/W, r·batch·n_kv)` a layer; over a latent cache `h` grows with the
//! width of a value, and compute may take the place of `W`. A layer whose window is shorter
//! than the typical context counts as `batch` full windows, any other as unwindowed. Chunks: `o + (F + θ·SMs·F1)/(ec·PEAK) +
//! (bytes − s·min(new, R))/(eb·BW) + w·tokens`, with the cached prefix in `F` and `bytes`, windows exact, `F1` that of
//! the step's longest block, and `new` the bytes of all chunks' own tokens. A mixed step has one kernel and so one floor.

use super::Placement;
use crate::cost::calibration::{DecodeAttention, PrefillAttention};
use crate::cost::kernel::{longest_block_pairs, resident_bytes};
use crate::cost::operators::{
    flops_per_pair, indexer, local_kv_heads, local_query_heads, query_bytes_per_token, reduced_width, window,
};
use crate::cost::{Chunk, Part, StepLoad, Trust};
use crate::hardware::Device;
use crate::model::{Dtype, KvFormat, ModelShape, kv_read_per_token_layer};
use crate::units::Picos;

/// Parameters of the kernels that read a cache of one format: decoding, and of chunks.
type Kernels<'a> = (&'a DecodeAttention, &'a PrefillAttention);

/// Attention of all layers: integer coefficients for decoding, floats for chunks.
#[derive(Clone, Debug)]
pub(super) struct AttentionTerms {
    decode_t0: u64,
    prefill_t0: u64,
    per_seq: u64,
    /// What contexts take at least, for each sequence.
    kv_floor_per_seq: u64,
    pub(super) per_kv_token: u64,
    /// What a token that sparse attention leaves unread does not cost.
    pub(super) per_token_beyond: u64,
    /// Tokens of a context that it reads at most.
    pub(super) picks: Option<u32>,
    pub(super) per_longest_token: u64,
    /// FLOPs and bytes of one KV token read in decoding, unwindowed layers.
    pub(super) kv_flops: f64,
    pub(super) kv_bytes: f64,
    /// The same for one decoding sequence, windowed layers and the queries.
    pub(super) seq_flops: f64,
    pub(super) seq_bytes: f64,
    chunks: Vec<ChunkTerms>,
    pub(super) prefill_scale: f64,
    pub(super) derate: f64,
    pub(super) trust: Trust,
}

/// Chunk attention of the layers of one group.
#[derive(Clone, Debug)]
struct ChunkTerms {
    window: Option<u32>,
    picks: Option<PickTerms>,
    flops_per_pair: f64,
    /// `θ·SMs` times the FLOPs of a pair in one head.
    tail_flops_per_pair: f64,
    seconds_per_flop: f64,
    kv_bytes: f64,
    query_bytes: f64,
    seconds_per_byte: f64,
    /// Bytes that new tokens' data may save, if there are so many, and the part of them that is saved.
    resident_bytes: f64,
    resident_share: f64,
    seconds_per_token: f64,
}

/// What sparse attention does otherwise, if a context is longer than it reads.
#[derive(Clone, Copy, Debug)]
struct PickTerms {
    /// Tokens that it reads at most.
    most: u32,
    /// FLOPs of a pair in the compressed space over those of one outside.
    absorbed: f64,
    /// Heads that kernels compute over those there are.
    padding: f64,
    /// To read the keys of one pair in all layers.
    gather_seconds: f64,
}

/// Heads that FLASHMLA computes at least, which reads rows with scales (vLLM `FlashMLASparseImpl`: `prefill_padding`,
/// `_compute_fp8_decode_padded_heads`; SGLang `flashmla_kv`).
const FLASHMLA_HEADS: u32 = 64;

impl AttentionTerms {
    /// `kernels` are those that read and write a cache of that format.
    pub(super) fn new<'a>(
        device: &Device,
        shape: &ModelShape,
        placement: &Placement,
        kernels: impl Fn(Dtype) -> Kernels<'a>,
    ) -> AttentionTerms {
        let tp = placement.tensor_parallel;
        let (peak, bandwidth) = (device.peaks.bf16.0, device.memory_bandwidth.0);
        let mut terms = AttentionTerms {
            decode_t0: 0,
            prefill_t0: 0,
            per_seq: 0,
            kv_floor_per_seq: 0,
            per_kv_token: 0,
            per_token_beyond: 0,
            picks: shape.indexer().map(|indexer| indexer.top_k),
            per_longest_token: 0,
            kv_flops: 0.0,
            kv_bytes: 0.0,
            seq_flops: 0.0,
            seq_bytes: 0.0,
            chunks: Vec::new(),
            prefill_scale: 1.0,
            derate: 1.0,
            trust: Trust::Prior,
        };
        let (mut per_seq, mut per_kv, mut per_longest, mut floor) = (0.0, 0.0, 0.0, 0.0);
        for group in shape.layers.iter().filter(|group| group.attends()) {
            let layers = f64::from(group.count);
            let attention = &group.attention;
            let format = placement.kv_format.of(attention);
            let (decode, prefill) = kernels(format);
            let (decode_rate, prefill_rate) = (decode.bandwidth.of(bandwidth), prefill.compute.of(peak));
            let picks = indexer(attention);
            let keys = picks.map_or(0, |indexer| indexer.cached_bytes().0);
            let cached = kv_read_per_token_layer(attention, placement.kv_format, tp).0 - keys;
            let kv_bytes = layers * cached as f64;
            let kv_flops = layers * flops_per_pair(attention, tp, true);
            let heads = local_query_heads(attention, tp);
            let padding = match format {
                Dtype::Fp8Scaled => f64::from(heads.next_multiple_of(FLASHMLA_HEADS)) / f64::from(heads),
                _ => 1.0,
            };
            // Queries of many heads over one latent cache can be bound by compute even in decoding.
            let kv_seconds = (kv_bytes / decode_rate).max(padding * kv_flops / prefill_rate);
            let query_bytes = layers * query_bytes_per_token(attention, shape.dtype, tp);
            let kv_heads = f64::from(local_kv_heads(attention, tp));
            let query_heads = f64::from(heads);
            let reduced_heads = query_heads * reduced_width(attention);
            let row = decode.per_seq_head_ns * kv_heads + decode.per_query_head_ns * reduced_heads;
            let row = layers * row * 1e-9;
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
                None if picks.is_some() => {
                    per_kv += kv_seconds;
                    terms.kv_flops += kv_flops;
                    terms.kv_bytes += kv_bytes;
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
                picks: picks.map(|indexer| PickTerms {
                    most: indexer.top_k,
                    absorbed: flops_per_pair(attention, tp, true) / flops_per_pair(attention, tp, false),
                    padding,
                    gather_seconds: kv_bytes / decode_rate,
                }),
                flops_per_pair: layers * flops_per_pair(attention, tp, false),
                tail_flops_per_pair: layers
                    * prefill.tail
                    * f64::from(device.sm_count)
                    * flops_per_pair(attention, tp, false)
                    / query_heads,
                seconds_per_flop: 1.0 / prefill_rate,
                kv_bytes,
                query_bytes,
                seconds_per_byte: 1.0 / prefill.bandwidth.of(bandwidth),
                resident_bytes: layers * resident_bytes(device),
                resident_share: prefill.resident_share,
                seconds_per_token: layers * prefill.per_token_ns * 1e-9,
            });
        }
        let (decode_t0_us, prefill_t0_us) = floors_us(shape, placement.kv_format, kernels);
        terms.decode_t0 = Picos::from_seconds(decode_t0_us * 1e-6).0;
        terms.prefill_t0 = Picos::from_seconds(prefill_t0_us * 1e-6).0;
        terms.per_seq = Picos::from_seconds(per_seq).0;
        terms.kv_floor_per_seq = Picos::from_seconds(floor).0;
        terms.per_kv_token = Picos::from_seconds(per_kv).0;
        // All layers of a sparse model are sparse.
        terms.per_token_beyond = terms.picks.map_or(0, |_| terms.per_kv_token);
        terms.per_longest_token = Picos::from_seconds(per_longest).0;
        terms
    }

    pub(super) fn decode_scale(&mut self, factor: f64) {
        for picos in [
            &mut self.decode_t0,
            &mut self.per_seq,
            &mut self.kv_floor_per_seq,
            &mut self.per_kv_token,
            &mut self.per_token_beyond,
            &mut self.per_longest_token,
        ] {
            *picos = (*picos as f64 * factor).round() as u64;
        }
    }

    /// Decoding sequences and chunks of a mixed step share one kernel and so one floor, the larger of the two.
    #[inline]
    pub(super) fn base_picos(&self, decode_seqs: u32, has_chunks: bool) -> u64 {
        let decode = if decode_seqs > 0 { self.decode_t0 } else { 0 };
        let prefill = if has_chunks { self.prefill_t0 } else { 0 };
        decode.max(prefill) + self.per_seq * u64::from(decode_seqs)
    }

    /// What the contexts of so many decoding sequences take at least.
    #[inline]
    pub(super) fn kv_floor_picos(&self, decode_seqs: u32) -> u64 {
        self.kv_floor_per_seq * u64::from(decode_seqs)
    }

    pub(super) fn chunks_picos(&self, chunks: &[Chunk]) -> Picos {
        if chunks.is_empty() {
            return Picos::ZERO;
        }
        Picos::from_seconds(self.chunk_work(chunks).seconds)
    }

    #[inline(always)]
    fn chunk_work(&self, chunks: &[Chunk]) -> Work {
        let mut work = Work::default();
        let (mut new, mut largest) = (0.0, 0);
        for chunk in chunks {
            new += f64::from(chunk.new);
            largest = largest.max(chunk.new);
        }
        for terms in &self.chunks {
            let is_picked = |picks: &PickTerms| chunks.iter().any(|chunk| chunk.context() > picks.most);
            let picks = terms.picks.filter(is_picked);
            let most = terms.window.or(picks.map(|picks| picks.most));
            let absorbed = picks.map_or(1.0, |picks| picks.absorbed);
            // The larger a chunk, the longer its longest block.
            let keys = most.map_or(largest, |most| largest.min(most));
            let longest = longest_block_pairs(f64::from(largest), f64::from(keys));
            let tail = longest * absorbed * terms.tail_flops_per_pair;
            work.seconds += tail * terms.seconds_per_flop / self.derate;
            // Keys that are gathered are not those of the chunk.
            let kv_bytes = picks.map_or(terms.kv_bytes, |_| 0.0);
            let fresh = (new * (kv_bytes + terms.query_bytes)).min(terms.resident_bytes);
            work.seconds +=
                new * terms.seconds_per_token - terms.resident_share * fresh * terms.seconds_per_byte;
            for chunk in chunks {
                let pairs = attended_pairs(chunk, most);
                let flops = pairs * absorbed * terms.flops_per_pair;
                let math = flops * terms.seconds_per_flop / self.derate;
                let query_bytes = f64::from(chunk.new) * terms.query_bytes;
                let kv_tokens = match terms.window {
                    None => chunk.computed + chunk.new,
                    Some(window) => chunk.computed.min(window) + chunk.new,
                };
                let (kv_bytes, seconds) = match picks {
                    Some(picks) => (
                        pairs * terms.kv_bytes,
                        (picks.padding * math).max(pairs * picks.gather_seconds),
                    ),
                    None => {
                        let bytes = f64::from(kv_tokens) * terms.kv_bytes;
                        (bytes, math + bytes * terms.seconds_per_byte)
                    }
                };
                work.flops += flops;
                work.bytes += kv_bytes + query_bytes;
                work.seconds += seconds + query_bytes * terms.seconds_per_byte;
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
            trust: self.picks.map_or(self.trust, |_| Trust::RooflineOnly),
        };
        let base = self.base_picos(load.decode_seqs, !load.chunks.is_empty());
        let alone = self.base_picos(load.decode_seqs, false);
        if load.decode_seqs > 0 {
            let read = load.decode_kv_tokens - load.decode_beyond;
            let (seqs, kv) = (f64::from(load.decode_seqs), read as f64);
            let contexts = self.per_kv_token * load.decode_kv_tokens
                - self.per_token_beyond * load.decode_beyond
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

/// What kernels take at least in all layers, decoding and of chunks, in µs: each layer that of its own cache's format.
fn floors_us<'a>(shape: &ModelShape, format: KvFormat, kernels: impl Fn(Dtype) -> Kernels<'a>) -> (f64, f64) {
    let attending = || shape.layers.iter().filter(|group| group.attends());
    let mut floors = (0.0, 0.0);
    let formats = [format.dtype, format.windowed];
    for dtype in &formats[..1 + usize::from(format.is_mixed())] {
        let own = attending().filter(|group| format.of(&group.attention) == *dtype);
        let layers = f64::from(own.map(|group| group.count).sum::<u32>());
        let (decode, prefill) = kernels(*dtype);
        floors.0 += layers * decode.t0_us;
        floors.1 += layers * prefill.overhead_us;
    }
    floors
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
    let causal = |new: u32| Chunk { new, ..*chunk }.pairs_doubled() as f64 / 2.0;
    match window {
        Some(window) if chunk.context() > window => {
            // Queries that see less than a window because there is no more.
            let growing = window.saturating_sub(chunk.computed);
            causal(growing) + f64::from(chunk.new - growing) * f64::from(window)
        }
        _ => causal(chunk.new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::Rate;
    use crate::cost::kernel::{
        Ceilings, DecodeAttentionShape, PrefillAttentionShape, decode_attention_seconds,
        prefill_attention_seconds,
    };
    use crate::cost::testing;

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

    /// Llama-3.1-8B on an L40S with every term of attention in play.
    fn terms() -> (Device, AttentionTerms, DecodeAttention, PrefillAttention) {
        let device = testing::device("l40s");
        let decode = DecodeAttention {
            t0_us: 10.0,
            per_seq_head_ns: 9.0,
            per_query_head_ns: 0.7,
            row_ns: 30.0,
            per_token_ns: 0.1,
            bandwidth: Rate::Share(0.8),
        };
        let prefill = PrefillAttention {
            overhead_us: 10.0,
            compute: Rate::Share(0.5),
            bandwidth: Rate::Share(0.6),
            tail: 0.3,
            resident_share: 0.7,
            per_token_ns: 1.5,
        };
        let terms = AttentionTerms::new(&device, &testing::llama_8b(), &testing::placement(), |_| {
            (&decode, &prefill)
        });
        (device, terms, decode, prefill)
    }

    #[test]
    fn a_step_takes_what_the_fitted_laws_say_layer_by_layer() {
        let (device, terms, decode, prefill) = terms();
        let ceilings = Ceilings::of(&device, device.peaks.bf16.0);
        // Few tokens leave room in L2, many do not; a prefix comes from memory.
        for (computed, new) in [(0, 64), (0, 8192), (30_000, 512)] {
            let shape = PrefillAttentionShape {
                batch: 1,
                heads: 32,
                kv_heads: 8,
                head_dim: 128,
                tokens: u64::from(new),
                prefix: u64::from(computed),
                query_bytes: 2.0,
                kv_bytes: 2.0,
            };
            let law = 32.0 * prefill_attention_seconds(&prefill, &ceilings, &shape);
            let step = terms.chunks_picos(&[Chunk { computed, new }]).0 + terms.base_picos(0, true);
            assert!(
                (Picos(step).seconds() / law - 1.0).abs() < 1e-5,
                "{computed} {new}"
            );
        }
        for (batch, context) in [(1, 20_000), (64, 2000), (256, 20)] {
            let shape = DecodeAttentionShape {
                batch,
                heads: 32,
                kv_heads: 8,
                context,
                kv_bytes_per_token_head: 512.0,
            };
            let law = 32.0 * decode_attention_seconds(&decode, &ceilings, &shape);
            let seqs = batch as u32;
            let read = terms.per_kv_token * batch * context + terms.per_longest_token * context;
            let step = terms.base_picos(seqs, false) + read.max(terms.kv_floor_picos(seqs));
            assert!(
                (Picos(step).seconds() / law - 1.0).abs() < 1e-5,
                "{batch} {context}"
            );
        }
    }

    #[test]
    fn what_stays_in_the_cache_is_shared_by_all_chunks_of_a_step() {
        let (_, terms, _, prefill) = terms();
        let of = |share: f64, chunks: &[Chunk]| {
            let mut terms = terms.clone();
            terms
                .chunks
                .iter_mut()
                .for_each(|terms| terms.resident_share = share);
            terms.chunks_picos(chunks).seconds()
        };
        let saved = |chunks: &[Chunk]| of(0.0, chunks) - of(prefill.resident_share, chunks);
        let chunk = Chunk {
            computed: 0,
            new: 1024,
        };
        let (one, two, many) = (saved(&[chunk]), saved(&[chunk; 2]), saved(&[chunk; 16]));
        assert!((two / one - 2.0).abs() < 1e-6, "{one} {two}");
        // 48 MB of a layer at 0.6 x 864 GB/s: no more, however many chunks.
        let most = 32.0 * 0.7 * 48e6 / (0.6 * 0.864e12);
        assert!((many / most - 1.0).abs() < 1e-6, "{many} {most}");
    }
}
