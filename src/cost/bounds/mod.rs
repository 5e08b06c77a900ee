//! Work and its datasheet bounds: FLOPs and bytes of a run from its counters, and the time that bytes alone take.
//!
//! No calibration enters. FLOPs are those of the model (padding and recomputed tiles not counted), bytes are weights,
//! KV and the activations of linear layers, each counted once. Law: for a single step they equal the sums of its
//! [`super::Breakdown`], small kernels and the states that chunks of prompts carry on left out, where nothing is padded. What a
//! drafter computes is no work of the model and counts in no FLOPs; what it reads counts.

mod drafter;
#[cfg(test)]
mod tests;

use self::drafter::DrafterRates;
use super::calibration::KernelFormat;
use super::experts::active_experts;
use super::kernel;
use super::operators::{
    Experts, experts, flops_per_pair, indexer, linears, lm_head, query_bytes_per_token, score_flops, window,
};
use super::recurrence::recurrent_work;
use super::roofline::{Placement, is_of_mlp};
use crate::hardware::Device;
use crate::model::{ModelShape, kv_read_per_token_layer};
use crate::units::{BytesPerSec, Flops, FlopsPerSec, Seconds};

/// FLOPs and bytes of one replica, all its GPUs together, for each unit of work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkRates {
    /// Linear layers and active experts, for each token of a step.
    pub flops_per_token: f64,
    /// LM head, for each sampled row.
    pub flops_per_row: f64,
    /// Attention, for each KV token that a decoding sequence attends to.
    pub flops_per_decode_kv_token: f64,
    /// Attention, for each half (query, key) pair of a chunk, as `chunk_pairs_doubled` counts them.
    pub flops_per_chunk_half_pair: f64,
    /// Weights of dense layers, streamed by every step.
    pub bytes_per_step: f64,
    /// LM head, streamed by every step that samples.
    pub bytes_per_sampling_step: f64,
    /// Activations of linear layers and attention, for each token.
    pub bytes_per_token: f64,
    /// Activations of the LM head, for each sampled row.
    pub bytes_per_row: f64,
    /// Recurrent layers, for each token that a sequence decodes, and for each of a chunk.
    pub flops_per_decoded_token: f64,
    /// The same of a chunk.
    pub flops_per_scanned_token: f64,
    /// States of recurrent layers, read and written for each token that a sequence decodes.
    pub state_bytes: f64,
    /// KV cache, for each token of it that is read.
    pub bytes_per_kv_token: f64,
    /// Time that linear layers and active experts take of all GPUs for a token, at the dense peaks of the units that multiply them.
    pub compute_s_per_token: f64,
    /// Dense peak of all GPUs in 16 bits, in which everything else is computed; in 8 bits where the KV cache is.
    pub attention_peak: FlopsPerSec,
    /// Memory bandwidth of all GPUs.
    pub bandwidth: BytesPerSec,
    ranks: f64,
    stages: f64,
    /// Data-parallel ranks that share their experts, 1 as a rule: each streams its part of those that the tokens of all activate.
    sharing: f64,
    experts: Vec<Experts>,
    drafter: DrafterRates,
}

/// Steps sorted by their number of tokens, in powers of two: distinct experts are concave in it, so that they must not
/// be taken at the mean of a run with long prompts and single tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepsBySize {
    bins: [SizeBin; SIZE_BINS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SizeBin {
    steps: u64,
    tokens: u64,
}

/// The last holds every step of 16,384 tokens and more, which touches all experts of any model.
const SIZE_BINS: usize = 16;

impl StepsBySize {
    /// Adds `count` steps of `tokens` tokens each.
    #[inline]
    pub fn add(&mut self, tokens: u64, count: u64) {
        let bits = (u64::BITS - tokens.leading_zeros()) as usize;
        let bin = &mut self.bins[bits.min(SIZE_BINS - 1)];
        bin.steps += count;
        bin.tokens += tokens * count;
    }

    /// Adds another's steps.
    pub fn merge(&mut self, other: &StepsBySize) {
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            mine.steps += theirs.steps;
            mine.tokens += theirs.tokens;
        }
    }

    /// Steps and their mean number of tokens, bin by bin.
    fn means(&self) -> impl Iterator<Item = (f64, f64)> {
        let filled = self.bins.iter().filter(|bin| bin.steps > 0);
        filled.map(|bin| (bin.steps as f64, bin.tokens as f64 / bin.steps as f64))
    }
}

/// Sums over the steps of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkSums {
    /// Steps.
    pub steps: f64,
    /// Tokens computed, in chunks and by decoding.
    pub tokens: f64,
    /// Of them those that sequences decode.
    pub decoded_tokens: f64,
    /// Rows sampled.
    pub sampled_rows: f64,
    /// KV tokens read by decoding sequences.
    pub decode_kv_tokens: f64,
    /// `Σ q·(2c + q + 1)` over chunks.
    pub chunk_pairs_doubled: f64,
    /// `Σ c + q` over chunks.
    pub chunk_kv_tokens: f64,
    /// The same steps and tokens by size, for what is not linear in a step's tokens.
    pub by_size: StepsBySize,
}

/// Work of `shape` on `device` for each unit that a run counts.
#[must_use]
pub fn work_rates(device: &Device, shape: &ModelShape, placement: &Placement) -> WorkRates {
    let tp = placement.tensor_parallel.max(1);
    let ranks = f64::from(tp);
    let gpus = f64::from(placement.stages()) * ranks;
    let linears = linears(shape, &device.peaks, tp);
    let head = lm_head(shape, tp);
    // What ranks have in common each streams a slice of.
    let slices = |is_common: bool| if is_common { placement.data_parallel } else { 1 };
    let streamed_head = lm_head(
        shape,
        tp * slices(placement.gathers.is_some_and(|common| common.logits)),
    );
    let mut rates = WorkRates {
        flops_per_token: 0.0,
        flops_per_row: ranks * head.shape(1).flops(),
        flops_per_decode_kv_token: 0.0,
        flops_per_chunk_half_pair: 0.0,
        bytes_per_step: 0.0,
        bytes_per_sampling_step: ranks * streamed_head.shape(0).bytes(),
        bytes_per_token: 0.0,
        bytes_per_row: ranks * (head.shape(1).bytes() - head.shape(0).bytes()),
        bytes_per_kv_token: 0.0,
        flops_per_decoded_token: 0.0,
        flops_per_scanned_token: 0.0,
        state_bytes: 0.0,
        compute_s_per_token: 0.0,
        attention_peak: attention_peak(device, placement) * gpus,
        bandwidth: device.memory_bandwidth * gpus,
        ranks,
        stages: f64::from(placement.stages()),
        sharing: f64::from(placement.data_parallel.max(1)),
        experts: experts(shape, &device.peaks, tp),
        drafter: DrafterRates::of(device, placement),
    };
    let sliced = self::linears(shape, &device.peaks, tp * slices(placement.gathers.is_some()));
    for (linear, sliced) in linears.iter().zip(&sliced) {
        let streamed = if is_of_mlp(linear) { sliced } else { linear };
        let layers = ranks * f64::from(linear.layers);
        let flops = layers * linear.shape(1).flops();
        rates.flops_per_token += flops;
        rates.compute_s_per_token += flops / (gpus * roof(device, linear.format.kernel).0);
        rates.bytes_per_step += layers * streamed.shape(0).bytes();
        rates.bytes_per_token += layers * (linear.shape(1).bytes() - linear.shape(0).bytes());
    }
    for experts in &rates.experts {
        let (layers, one) = (ranks * f64::from(experts.layers), experts.shape(1));
        let flops = layers * one.flops();
        rates.flops_per_token += flops;
        rates.compute_s_per_token += flops / (gpus * roof(device, experts.format.kernel).0);
        rates.bytes_per_token += layers * (one.bytes() - expert_weight_bytes(experts, 1.0));
    }
    if let Some(work) = recurrent_work(shape, tp) {
        rates.flops_per_decoded_token = ranks * work.decode_flops;
        rates.flops_per_scanned_token = ranks * work.token_flops;
        rates.bytes_per_token += ranks * work.token_bytes;
        rates.state_bytes = ranks * work.state_bytes;
    }
    for group in &shape.layers {
        // A window that is usually full makes KV reads constant; that share is left out of the rates.
        let layers = ranks * f64::from(group.count);
        let kv_bytes = layers * kv_read_per_token_layer(&group.attention, placement.kv_format, tp).0 as f64;
        rates.bytes_per_token += layers * query_bytes_per_token(&group.attention, shape.dtype, tp);
        if window(&group.attention).is_some_and(|window| window < placement.typical_context) {
            continue;
        }
        if let Some(indexer) = indexer(&group.attention) {
            let keys = indexer.cached_bytes().0 as f64;
            rates.bytes_per_kv_token += layers * keys;
            rates.flops_per_decode_kv_token += layers * score_flops(indexer);
            rates.flops_per_chunk_half_pair += layers / ranks * score_flops(indexer) / 2.0;
            // As with windows: picks that are usually all there make reads constant.
            if indexer.top_k < placement.typical_context {
                continue;
            }
            rates.bytes_per_kv_token -= layers * keys;
        }
        rates.flops_per_decode_kv_token += layers * flops_per_pair(&group.attention, tp, true);
        rates.flops_per_chunk_half_pair += layers * flops_per_pair(&group.attention, tp, false) / 2.0;
        rates.bytes_per_kv_token += kv_bytes;
    }
    rates
}

/// The peak of what multiplies weights of this format. Experts in MXFP4 have inputs of 8 bits where there are units for 4.
fn roof(device: &Device, format: KernelFormat) -> FlopsPerSec {
    let peaks = &device.peaks;
    match (format, peaks.fp4, peaks.fp8) {
        (KernelFormat::Mxfp4, Some(_), Some(fp8)) => fp8,
        _ => kernel::peak(peaks, format),
    }
}

fn attention_peak(device: &Device, placement: &Placement) -> FlopsPerSec {
    let peaks = &device.peaks;
    let is_narrow = placement.kv_format.dtype.bytes() == 1;
    peaks.fp8.filter(|_| is_narrow).unwrap_or(peaks.bf16)
}

fn expert_weight_bytes(experts: &Experts, tokens: f64) -> f64 {
    let matrices = f64::from(experts.matrices);
    let one =
        matrices * f64::from(experts.hidden) * f64::from(experts.intermediate) * experts.format.weight_bytes;
    active_experts(experts.experts, experts.experts_per_token, tokens) * one
}

impl WorkRates {
    /// Weight bytes that a sampling step of `tokens` tokens streams: dense layers, LM head, active experts.
    #[must_use]
    pub fn weight_bytes(&self, tokens: f64) -> f64 {
        self.bytes_per_step + self.bytes_per_sampling_step + self.ranks * self.routed_weight_bytes(tokens)
    }

    /// Of experts that ranks share, those of a step in which all ranks have so many tokens.
    fn routed_weight_bytes(&self, tokens: f64) -> f64 {
        let all = tokens * self.sharing;
        let layers = self.experts.iter();
        let layers = layers.map(|experts| f64::from(experts.layers) * expert_weight_bytes(experts, all));
        layers.sum::<f64>() / self.sharing
    }

    /// Floating-point operations of a run.
    #[must_use]
    pub fn flops(&self, work: &WorkSums) -> Flops {
        Flops(
            self.flops_per_token * work.tokens
                + self.flops_per_row * work.sampled_rows
                + self.flops_per_decode_kv_token * work.decode_kv_tokens
                + self.flops_per_chunk_half_pair * work.chunk_pairs_doubled
                + self.flops_per_decoded_token * work.decoded_tokens
                + self.flops_per_scanned_token * (work.tokens - work.decoded_tokens),
        )
    }

    /// Bytes that a run moves, as if every step sampled.
    #[must_use]
    pub fn bytes(&self, work: &WorkSums) -> f64 {
        let routed = |(steps, tokens): (f64, f64)| steps * self.ranks * self.routed_weight_bytes(tokens);
        work.steps * (self.bytes_per_step + self.bytes_per_sampling_step)
            + work.by_size.means().map(routed).sum::<f64>()
            + self.bytes_per_token * work.tokens
            + self.bytes_per_row * work.sampled_rows
            + self.bytes_per_kv_token * (work.decode_kv_tokens + work.chunk_kv_tokens)
            + self.state_bytes * work.decoded_tokens
            + self.drafter.bytes(work)
    }

    /// Share of the dense peaks over `busy` seconds, each operation's by the units that do it (model FLOPs utilisation).
    #[must_use]
    pub fn flops_utilisation(&self, work: &WorkSums, busy: Seconds) -> f64 {
        let linear = work.tokens * self.compute_s_per_token;
        let others = self.flops(work).0 - work.tokens * self.flops_per_token;
        (linear + others / self.attention_peak.0) / busy.0
    }

    /// The dense peak at which all GPUs get through the linear layers, whatever their formats.
    #[must_use]
    pub fn peak(&self) -> FlopsPerSec {
        FlopsPerSec(self.flops_per_token / self.compute_s_per_token)
    }

    /// Share of the memory bandwidth over `busy` seconds.
    #[must_use]
    pub fn bandwidth_utilisation(&self, work: &WorkSums, busy: Seconds) -> f64 {
        self.bytes(work) / (self.bandwidth.0 * busy.0)
    }

    /// The least time of a decode step that memory allows: weights and KV, each read once at datasheet bandwidth, for every token and
    /// its drafts, and by each pass of a drafter. Stages of a pipeline do so one after the other.
    #[must_use]
    pub fn bandwidth_bound_step(&self, batch: u32, context: u32) -> Seconds {
        let sequences = f64::from(batch);
        let kv_tokens = sequences * f64::from(context);
        let bytes = self.weight_bytes(sequences * self.drafter.verified())
            + kv_tokens * self.bytes_per_kv_token
            + sequences * self.state_bytes
            + self.drafter.bytes_of_step(sequences, kv_tokens);
        Seconds(self.stages * bytes / self.bandwidth.0)
    }
}
