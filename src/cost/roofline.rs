//! Step time as a sum over operators of a calibrated roofline, plus what the host adds.
//!
//! `t = Σ linear + attention + elementwise + all-reduce + LM head + sampling`, each with its own ceiling, its own
//! efficiency and its own floor; the host is added to it (synchronous scheduling, V1-80) or hidden behind it
//! (asynchronous, V1-81). Whatever depends on the step's tokens, or on its sampled rows, alone is evaluated once for
//! each count and kept in picoseconds; the simulation then only adds integers.
//!
//! Left out: pipeline and expert parallelism, speculative drafts, noise, other work on the GPU.
//! Laws: [`StepCost`]'s; more tokens, rows or context never cost less, except where padding to a CUDA graph hides
//! the difference; the parts of [`Breakdown`] add up to the step.

use super::calibration::{
    AllReduce, Calibration, DecodeAttention, Elementwise, Gemm, Host, KernelFormat, Moe, PrefillAttention,
};
use super::kernel::{Ceilings, all_gather_seconds, all_reduce_seconds, gemm_seconds, moe_seconds};
use super::operators::{
    Experts, Linear, elementwise_bytes_per_token, experts, flops_per_pair, linears, lm_head, local_kv_heads,
    query_bytes_per_token, window,
};
use super::{Breakdown, Chunk, DecodeCost, Part, StepCost, StepLoad, Trust};
use crate::hardware::{Device, Peaks};
use crate::model::{Dtype, ModelShape, kv_bytes_per_token_layer};
use crate::units::Picos;

/// How an engine puts a model on its GPUs, as far as step time depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Ranks that share every layer.
    pub tensor_parallel: u32,
    /// Format of the KV cache.
    pub kv_dtype: Dtype,
    /// CUDA graphs.
    pub graphs: Graphs,
    /// The host prepares a step while the GPU runs the one before (V1-81).
    pub asynchronous: bool,
    /// Which engine's host terms apply: `vllm`, `sglang`.
    pub engine: String,
    /// Mean context that is expected. A layer whose sliding window is shorter counts as full windows, any other
    /// as unwindowed, so that the cost stays affine in KV tokens.
    pub typical_context: u32,
}

/// CUDA graphs of an engine (V1-73 to V1-77).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graphs {
    /// Which batches replay a graph.
    pub mode: CudagraphMode,
    /// Captured token counts, ascending; a batch is padded up to the next one.
    pub capture_sizes: Vec<u32>,
}

/// vLLM's `cudagraph_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CudagraphMode {
    /// Always eager.
    None,
    /// Attention is launched eagerly between the pieces, for every batch.
    Piecewise,
    /// One graph for decode-only batches, others eager.
    FullDecodeOnly,
    /// One graph for decode-only batches, pieces for others.
    #[default]
    FullAndPiecewise,
}

/// Why a step cost cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RooflineError {
    /// The calibration has no such block, nor did any fallback.
    #[error("calibration `{calibration}` has no `{block}`; add it or start from a shipped calibration")]
    Lacking {
        /// Its name.
        calibration: String,
        /// The block's key.
        block: String,
    },
    /// Zero ranks.
    #[error("tensor_parallel is 0; a model needs at least one GPU")]
    NoRanks,
}

/// The calibrated roofline of one model on one kind of GPU under one engine.
#[derive(Clone, Debug)]
pub struct RooflineCost {
    operators: Operators,
    host: HostTerms,
    graphs: Graphs,
    padded: Vec<u32>,
    attention: AttentionTerms,
    token_picos: Vec<u64>,
    row_picos: Vec<u64>,
}

/// An entry that has not been evaluated. No step takes 213 days.
const UNKNOWN: u64 = u64::MAX;

impl RooflineCost {
    /// Resolves a calibration for one placement of a model.
    ///
    /// # Errors
    /// If the calibration lacks a block that this placement needs.
    pub fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<RooflineCost, RooflineError> {
        if placement.tensor_parallel == 0 {
            return Err(RooflineError::NoRanks);
        }
        let lacking = |block: &str| RooflineError::Lacking {
            calibration: calibration.name.clone(),
            block: block.to_owned(),
        };
        let host = calibration
            .host
            .get(&placement.engine)
            .or_else(|| calibration.host.get("vllm"));
        let host = host.ok_or_else(|| lacking("host.vllm"))?;
        let attention = calibration
            .attention
            .as_ref()
            .ok_or_else(|| lacking("attention"))?;
        let decode = match placement.kv_dtype {
            Dtype::Fp8 => &attention.decode_fp8_kv,
            Dtype::Bf16 | Dtype::Fp16 | Dtype::Fp32 => &attention.decode,
        };
        let mut terms = AttentionTerms::new(device, shape, placement, decode, &attention.prefill);
        terms.trust = attention.trust;
        terms.derate = calibration
            .gemm
            .get(&KernelFormat::Bf16)
            .map_or(1.0, |gemm| gemm.sustained_over_burst);
        terms.decode_scale(calibration.scale.get("decode_attention").copied().unwrap_or(1.0));
        terms.prefill_scale = calibration.scale.get("prefill_attention").copied().unwrap_or(1.0);
        Ok(RooflineCost {
            operators: Operators::new(device, shape, calibration, placement)
                .map_err(|block| lacking(&block))?,
            host: HostTerms::new(host, shape.layer_count(), placement.asynchronous),
            graphs: placement.graphs.clone(),
            padded: padding_table(&placement.graphs),
            attention: terms,
            token_picos: Vec::new(),
            row_picos: Vec::new(),
        })
    }

    fn launch(&self, tokens: u64, decode_only: bool) -> Launch {
        let captured = (tokens as usize) < self.padded.len();
        match (self.graphs.mode, decode_only) {
            _ if !captured => Launch::Eager,
            (CudagraphMode::None, _) | (CudagraphMode::FullDecodeOnly, false) => Launch::Eager,
            (CudagraphMode::FullDecodeOnly | CudagraphMode::FullAndPiecewise, true) => Launch::Full,
            (CudagraphMode::Piecewise, _) | (CudagraphMode::FullAndPiecewise, false) => Launch::Piecewise,
        }
    }

    fn padded_tokens(&self, tokens: u64, launch: Launch) -> u64 {
        match launch {
            Launch::Eager => tokens,
            Launch::Full | Launch::Piecewise => u64::from(self.padded[tokens as usize]),
        }
    }

    fn tokens_picos(&mut self, padded: u64) -> u64 {
        let operators = &self.operators;
        look_up(&mut self.token_picos, padded, || operators.token_parts(padded))
    }

    fn rows_picos(&mut self, rows: u32) -> u64 {
        let operators = &self.operators;
        look_up(&mut self.row_picos, u64::from(rows), || {
            operators.row_parts(u64::from(rows))
        })
    }

    /// The part of a step that its decoding sequences, tokens and rows decide, as an affine function of the contexts.
    fn affine(&mut self, load: &Counts, launch: Launch) -> DecodeCost {
        let gpu = self.tokens_picos(self.padded_tokens(load.tokens, launch))
            + self.rows_picos(load.rows)
            + self.attention.base_picos(load.decode_seqs, load.chunks > 0);
        let sequences = u64::from(load.decode_seqs) + u64::from(load.chunks);
        DecodeCost {
            base: Picos(gpu + self.host.added(sequences)),
            per_kv_token: Picos(self.attention.per_kv_token),
            per_longest_token: Picos(self.attention.per_longest_token),
            floor: Picos(self.host.floor(sequences, launch)),
        }
    }
}

/// The counts of a step.
struct Counts {
    decode_seqs: u32,
    chunks: u32,
    tokens: u64,
    rows: u32,
}

impl StepCost for RooflineCost {
    fn decode(&mut self, batch: u32) -> DecodeCost {
        let counts = Counts {
            decode_seqs: batch,
            chunks: 0,
            tokens: u64::from(batch),
            rows: batch,
        };
        let launch = self.launch(counts.tokens, true);
        self.affine(&counts, launch)
    }

    fn step(&mut self, load: &StepLoad) -> Picos {
        let counts = Counts {
            decode_seqs: load.decode_seqs,
            chunks: load.chunks.len() as u32,
            tokens: load.tokens(),
            rows: load.sampled_rows,
        };
        let launch = self.launch(counts.tokens, load.chunks.is_empty());
        let mut cost = self.affine(&counts, launch);
        cost.base += self.attention.chunks_picos(&load.chunks);
        cost.at(load.decode_kv_tokens, load.decode_longest)
    }

    fn breakdown(&self, load: &StepLoad) -> Breakdown {
        let tokens = load.tokens();
        let launch = self.launch(tokens, load.chunks.is_empty());
        let mut parts = self.operators.token_parts(self.padded_tokens(tokens, launch));
        parts.extend(self.attention.parts(load));
        parts.extend(self.operators.row_parts(u64::from(load.sampled_rows)));
        let sequences = u64::from(load.decode_seqs) + load.chunks.len() as u64;
        let host = |operator: &str, picos: u64| Part {
            operator: operator.to_owned(),
            seconds: Picos(picos).seconds(),
            flops: 0.0,
            bytes: 0.0,
            trust: self.host.trust,
        };
        parts.push(host("host", self.host.added(sequences)));
        let gpu = parts.iter().map(|part| part.seconds).sum::<f64>();
        let floor = self.host.floor(sequences, launch);
        let waiting = floor.saturating_sub(Picos::from_seconds(gpu).0);
        if waiting > 0 {
            parts.push(host("host_bound_wait", waiting));
        }
        Breakdown { parts: merged(parts) }
    }
}

/// Reads or fills one entry of a table of rounded sums.
fn look_up(table: &mut Vec<u64>, index: u64, parts: impl FnOnce() -> Vec<Part>) -> u64 {
    let index = usize::try_from(index).expect("a step has fewer tokens than memory has bytes");
    if index >= table.len() {
        table.resize(index + 1, UNKNOWN);
    }
    if table[index] == UNKNOWN {
        table[index] = Picos::from_seconds(parts().iter().map(|part| part.seconds).sum()).0;
    }
    table[index]
}

/// `padded[t]` is the captured size that `t` tokens replay.
fn padding_table(graphs: &Graphs) -> Vec<u32> {
    let mut sizes = graphs.capture_sizes.clone();
    sizes.sort_unstable();
    let mut padded = Vec::new();
    for size in sizes {
        padded.resize((size as usize + 1).max(padded.len()), size);
    }
    padded
}

/// Joins parts of equal name (layer groups of different shape), in order of first appearance.
fn merged(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match joined.iter_mut().find(|known| known.operator == part.operator) {
            Some(known) => {
                known.seconds += part.seconds;
                known.flops += part.flops;
                known.bytes += part.bytes;
                known.trust = known.trust.max(part.trust);
            }
            None => joined.push(part),
        }
    }
    joined
}

/// How a step's kernels reach the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launch {
    Full,
    Piecewise,
    Eager,
}

/// The host's share in picoseconds.
#[derive(Clone, Debug)]
struct HostTerms {
    step: u64,
    per_seq: u64,
    floor_step: u64,
    floor_per_seq: u64,
    piecewise: u64,
    eager: u64,
    trust: Trust,
}

impl HostTerms {
    fn new(host: &Host, layers: u32, asynchronous: bool) -> HostTerms {
        let micros = |us: f64| Picos::from_seconds(us * 1e-6).0;
        let layers = f64::from(layers);
        // A synchronous step waits for the host's share whether or not launching is slower than the GPU.
        let (step, per_seq, floor_step, floor_per_seq) = if asynchronous {
            let gap = (host.async_gap_us, host.async_gap_per_seq_us);
            (gap.0, gap.1, host.async_floor_us, host.async_floor_per_seq_us)
        } else {
            (host.step_us, host.per_seq_us, host.step_us, host.per_seq_us)
        };
        HostTerms {
            step: micros(step),
            per_seq: micros(per_seq),
            floor_step: micros(floor_step),
            floor_per_seq: micros(floor_per_seq),
            piecewise: micros(host.piecewise_us_per_layer * layers),
            eager: micros(host.eager_launch_us * host.eager_kernels_per_layer * layers),
            trust: host.trust,
        }
    }

    fn added(&self, sequences: u64) -> u64 {
        self.step + self.per_seq * sequences
    }

    fn floor(&self, sequences: u64, launch: Launch) -> u64 {
        let launching = match launch {
            Launch::Full => 0,
            Launch::Piecewise => self.piecewise,
            Launch::Eager => self.eager,
        };
        self.floor_step + self.floor_per_seq * sequences + launching
    }
}

/// Attention of all layers: integer coefficients for decoding, floats for chunks.
#[derive(Clone, Debug)]
struct AttentionTerms {
    decode_t0: u64,
    prefill_t0: u64,
    per_seq: u64,
    per_kv_token: u64,
    per_longest_token: u64,
    /// FLOPs and bytes of one KV token read in decoding, unwindowed layers.
    kv_flops: f64,
    kv_bytes: f64,
    /// The same for one decoding sequence, windowed layers and the queries.
    seq_flops: f64,
    seq_bytes: f64,
    chunks: Vec<ChunkTerms>,
    prefill_scale: f64,
    derate: f64,
    trust: Trust,
}

/// Chunk attention of the layers of one group.
#[derive(Clone, Debug)]
struct ChunkTerms {
    window: Option<u32>,
    flops_per_pair: f64,
    seconds_per_flop: f64,
    kv_bytes: f64,
    query_bytes: f64,
    seconds_per_byte: f64,
}

impl AttentionTerms {
    fn new(
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
            per_kv_token: 0,
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
        let (mut per_seq, mut per_kv, mut per_longest) = (0.0, 0.0, 0.0);
        for group in &shape.layers {
            let layers = f64::from(group.count);
            let attention = &group.attention;
            let kv_bytes = layers * kv_bytes_per_token_layer(attention, placement.kv_dtype, tp).0 as f64;
            let kv_flops = layers * flops_per_pair(attention, tp, true);
            // Queries of many heads over one latent cache can be bound by compute even in decoding.
            let kv_seconds = (kv_bytes / decode_rate).max(kv_flops / prefill_rate);
            let query_bytes = layers * query_bytes_per_token(attention, shape.dtype, tp);
            per_seq += layers * decode.per_seq_head_ns * 1e-9 * f64::from(local_kv_heads(attention, tp));
            terms.seq_bytes += query_bytes;
            match window(attention).filter(|window| *window < placement.typical_context) {
                Some(window) => {
                    let window = f64::from(window);
                    per_seq += window * kv_seconds;
                    terms.seq_flops += window * kv_flops;
                    terms.seq_bytes += window * kv_bytes;
                }
                None => {
                    per_kv += kv_seconds;
                    per_longest += layers * decode.per_token_ns * 1e-9;
                    terms.kv_flops += kv_flops;
                    terms.kv_bytes += kv_bytes;
                }
            }
            terms.chunks.push(ChunkTerms {
                window: window(attention),
                flops_per_pair: layers * flops_per_pair(attention, tp, false),
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
        terms.per_kv_token = Picos::from_seconds(per_kv).0;
        terms.per_longest_token = Picos::from_seconds(per_longest).0;
        terms
    }

    fn decode_scale(&mut self, factor: f64) {
        for picos in [
            &mut self.decode_t0,
            &mut self.per_seq,
            &mut self.per_kv_token,
            &mut self.per_longest_token,
        ] {
            *picos = (*picos as f64 * factor).round() as u64;
        }
    }

    /// Decoding sequences and chunks of a mixed step share one kernel and so one floor, the larger of the two.
    fn base_picos(&self, decode_seqs: u32, has_chunks: bool) -> u64 {
        let decode = if decode_seqs > 0 { self.decode_t0 } else { 0 };
        let prefill = if has_chunks { self.prefill_t0 } else { 0 };
        decode.max(prefill) + self.per_seq * u64::from(decode_seqs)
    }

    fn chunks_picos(&self, chunks: &[Chunk]) -> Picos {
        if chunks.is_empty() {
            return Picos::ZERO;
        }
        Picos::from_seconds(self.chunk_work(chunks).seconds)
    }

    fn chunk_work(&self, chunks: &[Chunk]) -> Work {
        let mut work = Work::default();
        for terms in &self.chunks {
            for chunk in chunks {
                let flops = attended_pairs(chunk, terms.window) * terms.flops_per_pair;
                let kv_tokens = match terms.window {
                    None => chunk.computed + chunk.new,
                    Some(window) => chunk.computed.min(window) + chunk.new,
                };
                let bytes = f64::from(kv_tokens) * terms.kv_bytes + f64::from(chunk.new) * terms.query_bytes;
                work.flops += flops;
                work.bytes += bytes;
                work.seconds += flops * terms.seconds_per_flop / self.derate + bytes * terms.seconds_per_byte;
            }
        }
        work.seconds *= self.prefill_scale;
        work
    }

    fn parts(&self, load: &StepLoad) -> Vec<Part> {
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
            let picos = alone
                + self.per_kv_token * load.decode_kv_tokens
                + self.per_longest_token * u64::from(load.decode_longest);
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

/// Everything but attention and host.
#[derive(Clone, Debug)]
struct Operators {
    linears: Vec<(Linear, Gemm, f64)>,
    experts: Vec<(Experts, Moe, f64)>,
    lm_head: (Linear, Gemm, f64),
    peaks: Peaks,
    ceilings: Ceilings,
    elementwise: Elementwise,
    elementwise_bytes_per_token: f64,
    layers: f64,
    hidden_bytes: f64,
    logits_bytes: f64,
    link: Option<AllReduce>,
}

impl Operators {
    fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<Operators, String> {
        let tp = placement.tensor_parallel;
        let scale = |operator: &str| calibration.scale.get(operator).copied().unwrap_or(1.0);
        let with_gemm = |linear: Linear| {
            let gemm = gemm_for(calibration, linear.format.kernel)?;
            let factor = scale(linear.operator);
            Ok::<_, String>((linear, gemm, factor))
        };
        let with_moe = |experts: Experts| {
            let moe = moe_for(calibration, experts.format.kernel)?;
            Ok::<_, String>((experts, moe, scale("experts")))
        };
        let linears = linears(shape, &device.peaks, tp)
            .into_iter()
            .map(with_gemm)
            .collect::<Result<_, _>>()?;
        Ok(Operators {
            linears,
            experts: experts(shape, &device.peaks, tp)
                .into_iter()
                .map(with_moe)
                .collect::<Result<_, _>>()?,
            lm_head: with_gemm(lm_head(shape, tp))?,
            peaks: device.peaks.clone(),
            ceilings: Ceilings::of(device, device.peaks.bf16.0),
            elementwise: calibration.elementwise.clone().ok_or("elementwise")?,
            elementwise_bytes_per_token: elementwise_bytes_per_token(shape, tp),
            layers: f64::from(shape.layer_count()),
            hidden_bytes: f64::from(shape.hidden_size) * shape.dtype.bytes() as f64,
            logits_bytes: f64::from(shape.vocab_size) * shape.dtype.bytes() as f64,
            link: (tp > 1).then(|| link_for(calibration, device, tp)),
        })
    }

    fn ceilings(&self, format: KernelFormat) -> Ceilings {
        let bf16 = self.peaks.bf16;
        let peak = match format {
            KernelFormat::Bf16 | KernelFormat::Int4 | KernelFormat::Mxfp4 => bf16,
            KernelFormat::Fp8 => self.peaks.fp8.unwrap_or(bf16),
            KernelFormat::Int8 => self.peaks.int8.unwrap_or(bf16),
            KernelFormat::Nvfp4 => self.peaks.fp4.unwrap_or(bf16),
        };
        Ceilings {
            flops_per_s: peak.0,
            ..self.ceilings
        }
    }

    fn linear_part(&self, (linear, gemm, factor): &(Linear, Gemm, f64), m: u64) -> Part {
        let layers = f64::from(linear.layers);
        let shape = linear.shape(m);
        let ceilings = self.ceilings(linear.format.kernel);
        let one = gemm_seconds(gemm, &ceilings, &shape, gemm.sustained_over_burst);
        Part {
            operator: linear.operator.to_owned(),
            seconds: layers * factor * one,
            flops: layers * shape.flops(),
            bytes: layers * shape.bytes(),
            trust: gemm.trust,
        }
    }

    fn experts_part(&self, (experts, moe, factor): &(Experts, Moe, f64), tokens: u64) -> Part {
        let layers = f64::from(experts.layers);
        let shape = experts.shape(tokens);
        Part {
            operator: "experts".to_owned(),
            // Throttling is left out: the fitted efficiency is below what reaches the power limit.
            seconds: layers * factor * moe_seconds(moe, &self.ceilings(experts.format.kernel), &shape, 1.0),
            flops: layers * shape.flops(),
            bytes: layers * shape.bytes(),
            trust: moe.trust,
        }
    }

    fn small_kernels(&self, operator: &str, kernels: f64, bytes: f64) -> Part {
        let rate = self.elementwise.bandwidth_efficiency * self.ceilings.bytes_per_s;
        Part {
            operator: operator.to_owned(),
            seconds: kernels * self.elementwise.floor_us * 1e-6 + bytes / rate,
            flops: 0.0,
            bytes,
            trust: self.elementwise.trust,
        }
    }

    fn link_part(&self, operator: &str, link: &AllReduce, seconds: f64) -> Part {
        Part {
            operator: operator.to_owned(),
            seconds,
            flops: 0.0,
            bytes: 0.0,
            trust: link.trust,
        }
    }

    /// What depends on the step's padded tokens alone.
    fn token_parts(&self, tokens: u64) -> Vec<Part> {
        if tokens == 0 {
            return Vec::new();
        }
        let mut parts: Vec<Part> = self
            .linears
            .iter()
            .map(|linear| self.linear_part(linear, tokens))
            .collect();
        parts.extend(
            self.experts
                .iter()
                .map(|experts| self.experts_part(experts, tokens)),
        );
        let kernels = self.layers * self.elementwise.kernels_per_layer;
        let bytes = tokens as f64 * (self.elementwise_bytes_per_token + 2.0 * self.hidden_bytes);
        parts.push(self.small_kernels("elementwise", kernels, bytes));
        if let Some(link) = &self.link {
            // Two a layer and one after the vocabulary-parallel embedding (TP-1).
            let one = all_reduce_seconds(link, tokens as f64 * self.hidden_bytes);
            parts.push(self.link_part("all_reduce", link, (2.0 * self.layers + 1.0) * one));
        }
        parts
    }

    /// What depends on the sampled rows alone.
    fn row_parts(&self, rows: u64) -> Vec<Part> {
        if rows == 0 {
            return Vec::new();
        }
        let mut parts = vec![self.linear_part(&self.lm_head, rows)];
        if let Some(link) = &self.link {
            let seconds = all_gather_seconds(link, rows as f64 * self.logits_bytes);
            parts.push(self.link_part("logits_gather", link, seconds));
        }
        // Logits are read and written a few times in 32 bits.
        let bytes = rows as f64 * self.logits_bytes * SAMPLING_PASSES;
        parts.push(self.small_kernels("sampling", self.elementwise.sampling_kernels, bytes));
        parts
    }
}

/// Times that sampling moves the 16-bit logits, in 32 bits: one conversion, a maximum, a sum.
const SAMPLING_PASSES: f64 = 7.0;

/// A format's own block, or the 16-bit one's efficiencies at the format's peak.
fn gemm_for(calibration: &Calibration, format: KernelFormat) -> Result<Gemm, String> {
    if let Some(gemm) = calibration.gemm.get(&format) {
        return Ok(gemm.clone());
    }
    let mut gemm = calibration
        .gemm
        .get(&KernelFormat::Bf16)
        .cloned()
        .ok_or("gemm.bf16")?;
    gemm.trust = gemm.trust.max(Trust::Prior);
    Ok(gemm)
}

fn moe_for(calibration: &Calibration, format: KernelFormat) -> Result<Moe, String> {
    if let Some(moe) = calibration.moe.get(&format) {
        return Ok(moe.clone());
    }
    let mut moe = calibration
        .moe
        .get(&KernelFormat::Bf16)
        .cloned()
        .ok_or("moe.bf16")?;
    moe.trust = moe.trust.max(Trust::Prior);
    Ok(moe)
}

/// The group's own entry; else that of the nearest group size; else the datasheet's link.
fn link_for(calibration: &Calibration, device: &Device, gpus: u32) -> AllReduce {
    let distance = |link: &&AllReduce| (link.gpus.abs_diff(gpus), link.gpus);
    if let Some(nearest) = calibration.allreduce.iter().min_by_key(distance) {
        let mut link = nearest.clone();
        if link.gpus != gpus {
            link.gpus = gpus;
            link.trust = link.trust.max(Trust::Prior);
        }
        return link;
    }
    let (overhead_us, ceiling) = match device.nvlink {
        Some(nvlink) => (5.0, nvlink.0),
        None => (5.0 + 1.8 * f64::from(gpus), device.pcie.0),
    };
    AllReduce {
        gpus,
        overhead_us,
        bus_gbs: BUS_EFFICIENCY * ceiling / 1e9,
        one_shot: None,
        trust: Trust::Prior,
    }
}

/// Bus bandwidth of an all-reduce over the link's data rate in one direction: 0.58 to 0.67 on NVLink and PCIe.
const BUS_EFFICIENCY: f64 = 0.6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::calibration::for_device;
    use crate::cost::testing::{device, llama_8b};
    use proptest::prelude::*;

    fn placement() -> Placement {
        Placement {
            tensor_parallel: 1,
            kv_dtype: Dtype::Bf16,
            graphs: Graphs {
                mode: CudagraphMode::FullAndPiecewise,
                capture_sizes: [1, 2, 4].into_iter().chain((8..=512).step_by(8)).collect(),
            },
            asynchronous: false,
            engine: "vllm".to_owned(),
            typical_context: 1024,
        }
    }

    fn cost(short: &str, placement: &Placement) -> RooflineCost {
        let device = device(short);
        let calibration = for_device(&device, "vllm").calibration;
        RooflineCost::new(&device, &llama_8b(), &calibration, placement).unwrap()
    }

    fn decode_load(batch: u32, kv: u64, longest: u32) -> StepLoad {
        StepLoad {
            decode_seqs: batch,
            decode_kv_tokens: kv,
            decode_longest: longest,
            chunks: Vec::new(),
            sampled_rows: batch,
        }
    }

    fn any_placement() -> impl Strategy<Value = Placement> {
        let mode = prop_oneof![
            Just(CudagraphMode::None),
            Just(CudagraphMode::Piecewise),
            Just(CudagraphMode::FullDecodeOnly),
            Just(CudagraphMode::FullAndPiecewise),
        ];
        (mode, any::<bool>(), prop_oneof![Just(1_u32), Just(2), Just(8)]).prop_map(
            |(mode, asynchronous, tp)| {
                let mut placement = placement();
                placement.graphs.mode = mode;
                placement.asynchronous = asynchronous;
                placement.tensor_parallel = tp;
                placement
            },
        )
    }

    fn any_load() -> impl Strategy<Value = StepLoad> {
        let chunk = (0_u32..30_000, 2_u32..4096).prop_map(|(computed, new)| Chunk { computed, new });
        (0_u32..700, 1_u32..4000, prop::collection::vec(chunk, 0..4)).prop_map(|(seqs, context, chunks)| {
            StepLoad {
                decode_seqs: seqs,
                decode_kv_tokens: u64::from(seqs) * u64::from(context),
                decode_longest: if seqs > 0 { context } else { 0 },
                sampled_rows: seqs + chunks.len() as u32,
                chunks,
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_step_without_chunks_is_a_decode_step(
            placement in any_placement(), batch in 1_u32..700, kv in 1_u64..5_000_000, longest in 1_u32..100_000,
        ) {
            let mut cost = cost("h100", &placement);
            let step = cost.step(&decode_load(batch, kv, longest));
            prop_assert_eq!(step, cost.decode(batch).at(kv, longest));
        }

        #[test]
        fn the_parts_add_up_to_the_step(placement in any_placement(), load in any_load()) {
            let mut cost = cost("a100", &placement);
            let step = cost.step(&load).seconds();
            let parts: f64 = cost.breakdown(&load).parts.iter().map(|part| part.seconds).sum();
            prop_assert!((parts - step).abs() < 1e-11, "{} against {}", parts, step);
        }

        #[test]
        fn more_work_never_costs_less(placement in any_placement(), load in any_load(), more in any_load()) {
            let mut cost = cost("a100", &placement);
            let less = cost.step(&load);
            let joined = StepLoad {
                decode_seqs: load.decode_seqs + more.decode_seqs,
                decode_kv_tokens: load.decode_kv_tokens + more.decode_kv_tokens,
                decode_longest: load.decode_longest.max(more.decode_longest),
                chunks: load.chunks.iter().chain(&more.chunks).copied().collect(),
                sampled_rows: load.sampled_rows + more.sampled_rows,
            };
            prop_assert!(cost.step(&joined) >= less);
        }
    }

    #[test]
    fn a_batch_is_padded_to_the_next_captured_size() {
        let mut cost = cost("h100", &placement());
        let without_attention = |cost: &mut RooflineCost, batch: u32| {
            let tokens = cost.padded_tokens(u64::from(batch), cost.launch(u64::from(batch), true));
            cost.tokens_picos(tokens)
        };
        assert_eq!(without_attention(&mut cost, 9), without_attention(&mut cost, 16));
        assert!(without_attention(&mut cost, 16) < without_attention(&mut cost, 136));
        assert_eq!(cost.launch(513, true), Launch::Eager);
    }

    #[test]
    fn without_graphs_launching_bounds_a_small_model() {
        let mut narrow = llama_8b();
        narrow.hidden_size = 512;
        let device = device("h100");
        let calibration = for_device(&device, "vllm").calibration;
        let decode = |mode: CudagraphMode| {
            let mut placement = placement();
            placement.graphs.mode = mode;
            let cost = RooflineCost::new(&device, &narrow, &calibration, &placement);
            cost.unwrap().decode(8).at(8, 1).seconds()
        };
        let (graph, eager) = (
            decode(CudagraphMode::FullAndPiecewise),
            decode(CudagraphMode::None),
        );
        let launching = 32.0 * 12.0 * 8e-6;
        assert!(graph < launching && eager > launching, "{graph} {eager}");
    }

    #[test]
    fn asynchronous_scheduling_hides_the_host_until_it_is_the_bottleneck() {
        let mut hidden = placement();
        hidden.asynchronous = true;
        let (mut sync, mut overlapped) = (cost("h200", &placement()), cost("h200", &hidden));
        assert!(overlapped.decode(32).at(32_000, 1000) < sync.decode(32).at(32_000, 1000));
    }

    #[test]
    fn decode_time_is_flat_in_the_batch_until_the_cache_outweighs_the_weights() {
        let mut cost = cost("h100", &placement());
        let mut at = |batch: u32| cost.decode(batch).at(u64::from(batch) * 1024, 1024).seconds();
        let (one, eight, many) = (at(1), at(8), at(112));
        assert!(eight / one < 1.12, "{one} {eight}");
        assert!(
            (1.7..2.8).contains(&(many / one)),
            "112 x 1024 tokens weigh as much as the weights: {one} {many}"
        );
    }

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

    #[test]
    fn a_calibration_that_lacks_a_block_is_an_error_that_names_it() {
        let error = RooflineCost::new(
            &device("h100"),
            &llama_8b(),
            &Calibration::default(),
            &placement(),
        );
        assert!(error.unwrap_err().to_string().contains("host.vllm"));
    }
}
