//! Everything of a step but attention and host: what its padded tokens alone decide, and what its sampled rows do.
//!
//! Evaluated once for each count; the caller keeps the sums. Law: both grow with their count.

mod common;

use std::collections::BTreeMap;

use super::{Exchange, Placement};
use crate::cost::calibration::{AllReduce, Calibration, Elementwise, Gemm, KernelFormat, Moe, scale_of};
use crate::cost::experts::{moe_seconds, moe_traffic};
use crate::cost::kernel::{Ceilings, GemmShape, all_gather_seconds, all_reduce_seconds, gemm_seconds, peak};
use crate::cost::operators::{Experts, Linear, elementwise_bytes_per_token, experts, linears, lm_head};
use crate::cost::{Part, Trust};
use crate::hardware::{Device, Peaks};
use crate::model::ModelShape;
use common::Gathering;

/// Everything but attention and host.
#[derive(Clone, Debug)]
pub(super) struct Operators {
    linears: Vec<(Linear, Gemm)>,
    experts: Vec<(Experts, Moe)>,
    lm_head: (Linear, Gemm),
    peaks: Peaks,
    ceilings: Ceilings,
    elementwise: Elementwise,
    elementwise_bytes_per_token: f64,
    /// Halves of layers, each with an all-reduce behind it.
    sublayers: f64,
    hidden_bytes: f64,
    logits_bytes: f64,
    link: Option<AllReduce>,
    fused: Option<FusedNorms>,
    /// Layers whose second all-reduce is the experts', which all data-parallel ranks share.
    shared_layers: f64,
    /// GPUs that hold experts whole; 1 where each holds a slice of all.
    expert_ranks: u32,
    scale: BTreeMap<String, f64>,
    /// The embedding is here.
    embeds: bool,
    /// What it gave is summed over this rank's GPUs.
    sums_embedding: bool,
    /// The LM head is this rank's own.
    has_head: bool,
    /// Of what ranks that attend by themselves have in common.
    gathering: Option<Gathering>,
    /// How tokens of data-parallel ranks come to their experts, where nothing else is in common.
    exchange: Exchange,
}

/// All-reduces that add the residual and normalize, too.
#[derive(Clone, Debug)]
struct FusedNorms {
    link: AllReduce,
    /// Of a step, at most.
    tokens: u64,
    /// All-reduces behind which something else stands before the norm.
    apart: f64,
}

impl Operators {
    pub(super) fn new(
        device: &Device,
        shape: &ModelShape,
        calibration: &Calibration,
        placement: &Placement,
    ) -> Result<Operators, String> {
        let tp = placement.tensor_parallel;
        let with_gemm = |linear| with_gemm(linear, shape, calibration, placement);
        let with_moe = |experts| with_moe(experts, calibration, placement);
        let is_own = |linear: &Linear| !(placement.gathers.is_some() && is_of_mlp(linear));
        let linears = linears(shape, &device.peaks, tp)
            .into_iter()
            .filter(is_own)
            .map(with_gemm)
            .collect::<Result<_, _>>()?;
        let is_shared = placement.data_parallel > 1;
        // Experts that ranks share are theirs in common, and here is what a rank does by itself.
        let (slices, expert_ranks) = match is_shared {
            true => (tp, 1),
            false => (placement.expert_slices(), placement.expert_groups),
        };
        let own_experts = experts(shape, &device.peaks, slices);
        let shared_layers = match placement.gathers {
            // Moving tokens to what is in common sums up attention, too.
            Some(_) => shape.sublayer_count(),
            None => own_experts.iter().map(|experts| experts.layers).sum(),
        };
        let own_experts = if is_shared { Vec::new() } else { own_experts };
        // Experts in MXFP4 are computed on a padded width, and cutting it back stands between.
        let padded = own_experts
            .iter()
            .filter(|experts| experts.format.kernel == KernelFormat::Mxfp4);
        let apart: u32 = padded.map(|experts| experts.layers).sum();
        let fused = placement.fused_norms.and_then(|tokens| {
            let mut links = calibration.fused_allreduce.iter();
            Some(FusedNorms {
                link: links.find(|link| link.gpus == tp)?.clone(),
                tokens,
                apart: f64::from(apart),
            })
        });
        Ok(Operators {
            linears,
            experts: own_experts.into_iter().map(with_moe).collect::<Result<_, _>>()?,
            lm_head: with_gemm(lm_head(shape, tp))?,
            peaks: device.peaks.clone(),
            ceilings: Ceilings::of(device, device.peaks.bf16.0),
            elementwise: calibration.elementwise.clone().ok_or("elementwise")?,
            elementwise_bytes_per_token: elementwise_bytes_per_token(shape, tp),
            sublayers: f64::from(shape.sublayer_count()),
            hidden_bytes: f64::from(shape.hidden_size) * shape.dtype.bytes() as f64,
            logits_bytes: f64::from(shape.vocab_size) * shape.dtype.bytes() as f64,
            link: (tp > 1).then(|| link_for(calibration, device, tp)),
            fused,
            shared_layers: if is_shared { f64::from(shared_layers) } else { 0.0 },
            expert_ranks,
            scale: calibration.scale.clone(),
            embeds: true,
            sums_embedding: placement.gathers.is_none_or(|common| common.splits_embedding),
            has_head: placement.gathers.is_none_or(|common| !common.logits),
            gathering: None,
            exchange: placement.exchange,
        })
    }

    /// Of a stage behind the first: the embedding is not here.
    pub(super) fn without_embedding(&mut self) {
        self.embeds = false;
    }

    /// Seconds until all ranks have `bytes` of which each has a slice.
    pub(super) fn gather_seconds(&self, bytes: f64) -> f64 {
        self.link
            .as_ref()
            .map_or(0.0, |link| all_gather_seconds(link, bytes))
    }

    /// A projection of 16-bit weights before the first layer.
    pub(super) fn join(&mut self, shape: &GemmShape) {
        let (lm_head, gemm) = &self.lm_head;
        let projection = Linear {
            operator: "drafter",
            layers: 1,
            n: shape.n,
            k: shape.k,
            format: lm_head.format,
        };
        self.linears.push((projection, gemm.clone()));
    }

    fn ceilings(&self, format: KernelFormat) -> Ceilings {
        Ceilings {
            flops_per_s: peak(&self.peaks, format).0,
            ..self.ceilings
        }
    }

    fn linear_part(&self, (linear, gemm): &(Linear, Gemm), m: u64) -> Part {
        let layers = f64::from(linear.layers);
        let shape = linear.shape(m);
        let ceilings = self.ceilings(linear.format.kernel);
        let one = gemm_seconds(gemm, &ceilings, &shape, gemm.sustained_over_burst);
        Part {
            operator: linear.operator.to_owned(),
            seconds: layers * one,
            flops: layers * shape.flops(),
            bytes: layers * shape.bytes(),
            trust: gemm.trust,
        }
    }

    /// A step waits for the fullest of the GPUs among which experts are dealt out.
    fn experts_part(&self, experts: &Experts, moe: &Moe, tokens: u64) -> Part {
        let shape = &match self.expert_ranks {
            1 => experts.shape(tokens),
            ranks => experts.fullest(tokens, ranks),
        };
        let layers = f64::from(experts.layers);
        let ceilings = self.ceilings(experts.format.kernel);
        Part {
            operator: "experts".to_owned(),
            // Throttling is left out: the fitted efficiency is below what reaches the power limit.
            seconds: layers * moe_seconds(moe, &ceilings, shape, 1.0),
            flops: layers * shape.flops(),
            bytes: layers * moe_traffic(moe, &ceilings, shape).bytes(),
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

    fn link_part(&self, operator: &str, trust: Trust, seconds: f64) -> Part {
        Part {
            operator: operator.to_owned(),
            seconds,
            flops: 0.0,
            bytes: 0.0,
            trust,
        }
    }

    fn scaled(&self, mut parts: Vec<Part>) -> Vec<Part> {
        for part in &mut parts {
            part.seconds *= scale_of(&self.scale, &part.operator);
        }
        parts
    }

    /// Whether this rank has routed experts of its own.
    pub(super) fn has_experts(&self) -> bool {
        !self.experts.is_empty()
    }

    /// What depends on the tokens that are routed to experts alone.
    pub(super) fn routed_parts(&self, tokens: u64) -> Vec<Part> {
        if tokens == 0 {
            return Vec::new();
        }
        let experts = self.experts.iter();
        self.scaled(
            experts
                .map(|(experts, moe)| self.experts_part(experts, moe, tokens))
                .collect(),
        )
    }

    /// What depends on the step's padded tokens alone.
    pub(super) fn token_parts(&self, tokens: u64) -> Vec<Part> {
        if tokens == 0 {
            return Vec::new();
        }
        let mut parts: Vec<Part> = self
            .linears
            .iter()
            .map(|linear| self.linear_part(linear, tokens))
            .collect();
        let hidden = tokens as f64 * self.hidden_bytes;
        // Two a layer and one after the vocabulary-parallel embedding (TP-1).
        let of_embedding = f64::from(u8::from(self.embeds && self.sums_embedding));
        let reductions = self.sublayers - self.shared_layers + of_embedding;
        let fused = self.fused.as_ref().filter(|fused| tokens <= fused.tokens);
        let in_one = fused.map_or(0.0, |fused| reductions - fused.apart);
        let kernels = self.sublayers / 2.0 * self.elementwise.kernels_per_layer - in_one;
        let embedding = if self.embeds { 2.0 * self.hidden_bytes } else { 0.0 };
        let bytes = tokens as f64 * (self.elementwise_bytes_per_token + embedding);
        parts.push(self.small_kernels("elementwise", kernels.max(0.0), bytes));
        if let Some(link) = &self.link {
            let apart = (reductions - in_one) * all_reduce_seconds(link, hidden);
            let (in_one, trust) = match fused {
                Some(FusedNorms { link: fused, .. }) => {
                    let trust = link.trust.max(fused.trust);
                    (in_one * all_reduce_seconds(fused, hidden), trust)
                }
                None => (0.0, link.trust),
            };
            parts.push(self.link_part("all_reduce", trust, apart + in_one));
        }
        self.scaled(parts)
    }

    /// What depends on the sampled rows alone.
    pub(super) fn row_parts(&self, rows: u64) -> Vec<Part> {
        if rows == 0 {
            return Vec::new();
        }
        let mut parts = Vec::new();
        if self.has_head {
            parts.push(self.linear_part(&self.lm_head, rows));
        }
        if let Some(link) = self.link.as_ref().filter(|_| self.has_head) {
            let seconds = all_gather_seconds(link, rows as f64 * self.logits_bytes);
            parts.push(self.link_part("logits_gather", link.trust, seconds));
        }
        // Logits are read and written a few times in 32 bits.
        let bytes = rows as f64 * self.logits_bytes * SAMPLING_PASSES;
        parts.push(self.small_kernels("sampling", self.elementwise.sampling_kernels, bytes));
        self.scaled(parts)
    }
}

/// Times that sampling moves the 16-bit logits, in 32 bits: one conversion, a maximum, a sum.
const SAMPLING_PASSES: f64 = 7.0;

/// Whether a linear layer is behind the attention: of a dense layer, of shared experts, or the choice of experts.
pub(in crate::cost) fn is_of_mlp(linear: &Linear) -> bool {
    const NAMES: [&str; 9] = [
        "gate_up_proj",
        "up_proj",
        "down_proj",
        "router",
        "latent_in_proj",
        "latent_out_proj",
        "shared_gate_up_proj",
        "shared_up_proj",
        "shared_down_proj",
    ];
    NAMES.contains(&linear.operator)
}

/// A format's own block; of other 8-bit inputs, which have to be quantized too; or the 16-bit one's efficiencies at the format's peak.
fn gemm_for(calibration: &Calibration, format: KernelFormat) -> Result<Gemm, String> {
    let of = |format: KernelFormat| calibration.gemm.get(&format);
    if let Some(gemm) = of(format) {
        return Ok(gemm.clone());
    }
    let alike = match format {
        KernelFormat::Int8 => of(KernelFormat::Fp8),
        _ => None,
    };
    let mut gemm = alike
        .or_else(|| of(KernelFormat::Bf16))
        .cloned()
        .ok_or("gemm.bf16")?;
    gemm.trust = gemm.trust.max(Trust::Prior);
    Ok(gemm)
}

/// A format's own block, or the 16-bit one's efficiencies: Triton's kernels of experts in fp8 have no published table on Hopper, and
/// share nothing with CUTLASS's. No table has experts without a gate.
fn moe_for(calibration: &Calibration, experts: &Experts) -> Result<Moe, String> {
    if let Some(moe) = calibration.moe.get(&experts.format.kernel) {
        let mut moe = moe.clone();
        if !experts.are_gated() {
            moe.trust = moe.trust.max(Trust::Prior);
        }
        return Ok(moe);
    }
    let mut moe = calibration
        .moe
        .get(&KernelFormat::Bf16)
        .cloned()
        .ok_or("moe.bf16")?;
    moe.trust = moe.trust.max(Trust::Prior);
    Ok(moe)
}

/// A linear layer and what times it, its input's quantization included.
fn with_gemm(
    linear: Linear,
    shape: &ModelShape,
    calibration: &Calibration,
    placement: &Placement,
) -> Result<(Linear, Gemm), String> {
    let mut gemm = gemm_for(calibration, linear.format.kernel)?;
    placement.inputs.price(&mut gemm, &linear, shape, calibration);
    Ok((linear, gemm))
}

/// Experts and what times them.
fn with_moe(
    mut experts: Experts,
    calibration: &Calibration,
    placement: &Placement,
) -> Result<(Experts, Moe), String> {
    experts.format.kernel = placement.kernels_of(&experts);
    let moe = moe_for(calibration, &experts)?;
    Ok((experts, moe))
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
    let (overhead_us, ceiling) = match device.nvlink_of(gpus) {
        Some(nvlink) => (LAUNCH_US, nvlink.0),
        None => (LAUNCH_US + PCIE_HOP_US * f64::from(gpus), device.pcie.0),
    };
    AllReduce {
        gpus,
        overhead_us,
        bus_gbs: BUS_EFFICIENCY * ceiling / 1e9,
        one_shot: None,
        trust: Trust::Prior,
    }
}

/// Overhead of an all-reduce that nobody timed, in microseconds: assumed.
const LAUNCH_US: f64 = 5.0;
/// What each GPU adds to it where they speak over PCIe, in microseconds: assumed.
const PCIE_HOP_US: f64 = 1.8;
/// Bus bandwidth of an all-reduce over the link's data rate in one direction: 0.58 to 0.67 on NVLink and PCIe.
const BUS_EFFICIENCY: f64 = 0.6;
