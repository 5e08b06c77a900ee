//! What one kernel takes: the calibrated roofline forms, as pure functions from a shape to seconds.
//!
//! Times of kernels are summed over a step; the maximum (or p-norm) of compute and memory is taken for each kernel by
//! itself, never over sums ("Williams 2009, roofline"). Left out: clocks that change during a step, and two
//! kernels that overlap. Law: every form grows, or stays, with each of its sizes.

use super::calibration::{
    AllReduce, Copies, DecodeAttention, Gemm, GemmForm, KernelFormat, Occupancy, OccupancyPnorm,
    PrefillAttention,
};
use crate::hardware::{Device, Peaks};
use crate::model::Quantization;
use crate::units::FlopsPerSec;

/// A matrix product `[m × k]·[k × n]` and the width of its elements in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmShape {
    /// Rows of the activations: tokens.
    pub m: u64,
    /// Output channels.
    pub n: u64,
    /// Input channels.
    pub k: u64,
    /// Of one weight, scales included.
    pub weight_bytes: f64,
    /// Of one input activation.
    pub input_bytes: f64,
    /// Of one output activation.
    pub output_bytes: f64,
}

impl GemmShape {
    /// `2·M·N·K`, padding not counted.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Weights, activations in and out.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        self.weight_bytes * n * k + self.input_bytes * m * k + self.output_bytes * m * n
    }
}

/// The ceilings that a GEMM's efficiencies scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Dense peak of the format that the tensor cores compute in, FLOP/s.
    pub flops_per_s: f64,
    /// Memory bandwidth, bytes/s.
    pub bytes_per_s: f64,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// What the L2 cache keeps of data that stream through it, bytes: [`RESIDENT`] of its size.
    pub resident_bytes: f64,
}

/// Part of the L2 cache that holds what a kernel reads again. Each of an A100's two partitions caches data for the SMs beside it
/// (NVIDIA 2020, "A100 Tensor Core GPU Architecture"), and what a kernel writes takes room, too. In cross-validation a
/// quarter and the whole are no better.
pub const RESIDENT: f64 = 0.5;

/// Bytes of data that stream through a card's L2 cache which it keeps.
#[must_use]
pub fn resident_bytes(device: &Device) -> f64 {
    RESIDENT * device.l2.0 as f64
}

impl Ceilings {
    /// The ceilings of `device` where the tensor cores run at `flops_per_s`.
    #[must_use]
    pub fn of(device: &Device, flops_per_s: f64) -> Ceilings {
        Ceilings {
            flops_per_s,
            bytes_per_s: device.memory_bandwidth.0,
            sm_count: device.sm_count,
            resident_bytes: resident_bytes(device),
        }
    }
}

/// The dense peak that a kernel of this format computes at: 16 bits where weights alone are narrow, or where the device
/// has no units for the format (QZ-7).
#[must_use]
pub fn peak(peaks: &Peaks, format: KernelFormat) -> FlopsPerSec {
    own_peak(peaks, format).unwrap_or(peaks.bf16)
}

/// The same; `None` where the profile does not say how fast the device multiplies that format itself.
pub(super) fn own_peak(peaks: &Peaks, format: KernelFormat) -> Option<FlopsPerSec> {
    match format {
        KernelFormat::Bf16 | KernelFormat::Int4 | KernelFormat::Mxfp4 => Some(peaks.bf16),
        KernelFormat::Fp8 | KernelFormat::Fp8Block => peaks.fp8,
        KernelFormat::Int8 => peaks.int8,
        KernelFormat::Nvfp4 => peaks.fp4,
    }
}

impl KernelFormat {
    /// In which a device with these peaks multiplies weights of a layer stored this way: formats that it has no units for, and
    /// those in which weights alone are narrow, are expanded to 16 bits (QZ-4, QZ-7).
    #[must_use]
    pub fn of(quantization: Quantization, peaks: &Peaks) -> KernelFormat {
        match quantization {
            Quantization::Fp8 | Quantization::Fp8Block if peaks.fp8.is_some() => KernelFormat::Fp8,
            Quantization::Int8 if peaks.int8.is_some() => KernelFormat::Int8,
            Quantization::Nvfp4 if peaks.fp4.is_some() => KernelFormat::Nvfp4,
            Quantization::Nvfp4 | Quantization::Int4 { .. } => KernelFormat::Int4,
            // Experts in MXFP4 have laws of their own; no kernel of 8-bit weights alone was measured.
            Quantization::None
            | Quantization::Mxfp4
            | Quantization::WeightOnly8 { .. }
            | Quantization::Fp8
            | Quantization::Fp8Block
            | Quantization::Int8 => KernelFormat::Bf16,
        }
    }
}

/// `(a^p + b^p)^(1/p)`: nearly the larger one, and more than either near the ridge.
#[must_use]
pub fn pnorm(a: f64, b: f64, p: f64) -> f64 {
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    if large <= 0.0 {
        return 0.0;
    }
    large * (1.0 + (small / large).powf(p)).powf(1.0 / p)
}

/// Work of a product that runs at burst clocks before the board's power limit slows it down: rows of 0.1 to 0.4 ms in the
/// tables of H100 and H200 reach the efficiency of shorter ones, those of 1 ms and more 10 to 15 % less.
pub const THROTTLE_S: f64 = 250e-6;

/// Seconds of one GEMM.
///
/// `occupancy-pnorm`: `t = o + (Tc^p + Tb^p)^(1/p) + q0 + q1·M·K/BW` with
/// `Tc = 2·pad(M)·pad(N)·(K + k0)·occ^a/(ec·PEAK)`, `Tb = bytes/(eb·BW)`, `occ = max(1, SMs/tiles)` or, with whole waves,
/// `ceil(tiles/SMs)·SMs/tiles`; what `Tc` exceeds [`THROTTLE_S`] by takes `1/s` times as long.
/// `C5`: `t = t0 + κK + ((F/P)^p + (B/W)^p)^(1/p)`.
/// `compute_derate` ≤ 1 scales the compute rate: sustained over burst clocks. Of it and `s` the smaller one counts, not both:
/// they are the same power limit.
#[must_use]
pub fn gemm_seconds(gemm: &Gemm, ceilings: &Ceilings, shape: &GemmShape, compute_derate: f64) -> f64 {
    if shape.m == 0 {
        return 0.0;
    }
    match &gemm.form {
        GemmForm::OccupancyPnorm(form) => {
            let burst = burst_seconds(form, ceilings, shape);
            let slower = (1.0 / form.long_over_burst - 1.0 / compute_derate).max(0.0);
            let compute = burst / compute_derate + (burst - THROTTLE_S).max(0.0) * slower;
            let memory = shape.bytes() / (form.bandwidth_efficiency * ceilings.bytes_per_s);
            let quantize = form.quantize_us * 1e-6
                + form.quantize_passes * shape.m as f64 * shape.k as f64 / ceilings.bytes_per_s;
            form.overhead_us * 1e-6 + pnorm(compute, memory, form.pnorm) + quantize
        }
        GemmForm::C5(form) => {
            let compute = shape.flops() / (form.p_tflops * 1e12 * compute_derate);
            let memory = shape.bytes() / (form.w_gbs * 1e9);
            form.t0_us * 1e-6 + form.kappa_ns * 1e-9 * shape.k as f64 + pnorm(compute, memory, form.pnorm)
        }
    }
}

/// `Tc` of a product at burst clocks.
fn burst_seconds(form: &OccupancyPnorm, ceilings: &Ceilings, shape: &GemmShape) -> f64 {
    let (tile_m, tile_n) = (u64::from(form.tile.0), u64::from(form.tile.1));
    let (tiles_m, tiles_n) = (shape.m.div_ceil(tile_m), shape.n.div_ceil(tile_n));
    let tiles = (tiles_m * tiles_n) as f64;
    let sms = f64::from(ceilings.sm_count);
    let occupancy = match form.occupancy {
        Occupancy::Smooth => (sms / tiles).max(1.0),
        Occupancy::Wave => (tiles / sms).ceil() * sms / tiles,
    };
    let channels = shape.k as f64 + form.fill_k;
    let padded_flops = 2.0 * (tiles_m * tile_m) as f64 * (tiles_n * tile_n) as f64 * channels;
    let rate = form.compute_efficiency * ceilings.flops_per_s;
    padded_flops * occupancy.powf(form.occupancy_exponent) / rate
}

/// Sequences of one decoding token each, over one layer's KV cache on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeAttentionShape {
    /// Sequences.
    pub batch: u64,
    /// Query heads of the rank.
    pub heads: u64,
    /// KV heads of the rank.
    pub kv_heads: u64,
    /// Tokens attended to by each sequence.
    pub context: u64,
    /// KV bytes of one token and one head, keys and values together.
    pub kv_bytes_per_token_head: f64,
}

/// Seconds of one layer's decode attention: `t0 + max(c·batch·n_kv + h·batch·n_q + k·S_max + KV_bytes/W, r·batch·n_kv)`.
#[must_use]
pub fn decode_attention_seconds(
    decode: &DecodeAttention,
    ceilings: &Ceilings,
    shape: &DecodeAttentionShape,
) -> f64 {
    let (batch, heads) = (shape.batch as f64, shape.kv_heads as f64);
    let context = shape.context as f64;
    let bytes = batch * context * heads * shape.kv_bytes_per_token_head;
    let rows = decode.per_seq_head_ns * heads + decode.per_query_head_ns * shape.heads as f64;
    let read = 1e-9 * (batch * rows + decode.per_token_ns * context)
        + bytes / decode.bandwidth.of(ceilings.bytes_per_s);
    decode.t0_us * 1e-6 + read.max(1e-9 * decode.row_ns * batch * heads)
}

/// Causal attention of chunks of one size behind prefixes of one size, one layer on one rank; whole prompts have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefillAttentionShape {
    /// Prompts.
    pub batch: u64,
    /// Query heads.
    pub heads: u64,
    /// KV heads.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Tokens that each prompt computes.
    pub tokens: u64,
    /// Tokens before them that are in the KV cache already.
    pub prefix: u64,
    /// Of one element of queries and outputs.
    pub query_bytes: f64,
    /// Of one element of keys and values.
    pub kv_bytes: f64,
}

/// Queries of one block of an attention kernel: 64 to 256 in the kernels of the tables.
pub const BLOCK_QUERIES: f64 = 128.0;

/// Pairs of query and key of the longest block of a chunk of `tokens` that attend to `keys` of them: what one SM computes
/// while others are done already. Keys before the chunk are left out: kernels share a long prefix out among SMs.
#[must_use]
pub fn longest_block_pairs(tokens: f64, keys: f64) -> f64 {
    tokens.min(BLOCK_QUERIES) * keys
}

/// Seconds of one layer's prefill attention: `o + (F + θ·SMs·F1)/(ec·PEAK) + (bytes − s·min(new, R))/(eb·BW) + w·tokens`, with
/// `q·c + q(q+1)/2` pairs of query and key for `q` new tokens behind `c` cached ones, as a step's chunks have them, and
/// `F1` of [`longest_block_pairs`] in one head (Graham 1969, "Bounds on multiprocessing timing anomalies"). `new` are the
/// bytes of the new tokens' queries, keys, values and outputs, which neighbouring kernels write and read while they are
/// still among the `R` that [L2 keeps](RESIDENT); `w` writes a token into the cache.
#[must_use]
pub fn prefill_attention_seconds(
    prefill: &PrefillAttention,
    ceilings: &Ceilings,
    shape: &PrefillAttentionShape,
) -> f64 {
    let (batch, tokens, width) = (shape.batch as f64, shape.tokens as f64, shape.head_dim as f64);
    let prefix = shape.prefix as f64;
    let flops = 4.0 * shape.heads as f64 * width * batch * tokens * (prefix + (tokens + 1.0) / 2.0);
    let longest = 4.0 * width * longest_block_pairs(tokens, tokens) * f64::from(ceilings.sm_count);
    let (heads, kv_heads) = (2.0 * shape.heads as f64, 2.0 * shape.kv_heads as f64);
    let new = batch * width * tokens * (heads * shape.query_bytes + kv_heads * shape.kv_bytes);
    let cached = batch * width * prefix * kv_heads * shape.kv_bytes;
    let bytes = new + cached - prefill.resident_share * new.min(ceilings.resident_bytes);
    prefill.overhead_us * 1e-6
        + (flops + prefill.tail * longest) / prefill.compute.of(ceilings.flops_per_s)
        + bytes / prefill.bandwidth.of(ceilings.bytes_per_s)
        + 1e-9 * prefill.per_token_ns * batch * tokens
}

/// Seconds of an all-reduce of `bytes`: `o + min((n−1)·S/B1, o2 + 2(n−1)/n·S/B2)`, one-shot against two-shot.
#[must_use]
pub fn all_reduce_seconds(link: &AllReduce, bytes: f64) -> f64 {
    let n = f64::from(link.gpus);
    let two_shot = 2.0 * (n - 1.0) / n * bytes / (link.bus_gbs * 1e9);
    let branch = match link.one_shot {
        Some(one) => ((n - 1.0) * bytes / (one.gbs * 1e9)).min(one.two_shot_extra_us * 1e-6 + two_shot),
        None => two_shot,
    };
    link.overhead_us * 1e-6 + branch
}

/// Seconds of a copy between host and GPU of `bytes` in `pieces`: `α + (pieces − 1)·c + bytes/β`.
#[must_use]
pub fn copy_seconds(copies: &Copies, bytes: f64, pieces: f64) -> f64 {
    1e-6 * (copies.alpha_us + (pieces - 1.0) * copies.per_copy_us) + bytes / (copies.gbs * 1e9)
}

/// Seconds of an all-gather that leaves `bytes` on every rank: `o + (n−1)/n·S/B2`.
#[must_use]
pub fn all_gather_seconds(link: &AllReduce, bytes: f64) -> f64 {
    let n = f64::from(link.gpus);
    link.overhead_us * 1e-6 + (n - 1.0) / n * bytes / (link.bus_gbs * 1e9)
}
