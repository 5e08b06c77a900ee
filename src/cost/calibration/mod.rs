//! What a GPU's kernels and an engine's host really reach of the datasheet: parameters, where they come from, how
//! well they are known.
//!
//! A calibration may lack blocks; [`Calibration::over`] fills them from a less specific one. Files: schema 1,
//! [`Calibration::parse`] and [`Calibration::to_toml`]. Left out: covariances between parameters.
//! Law: parsing what was written gives the same calibration.

mod ceilings;
mod evidence;
mod merge;
mod read;
mod registry;
mod write;

use std::collections::BTreeMap;

pub use evidence::{BlockEvidence, Evidence, FamilyEvidence, HostPair, Input, RunEvidence};
pub use read::{CalibrationError, Problem};
pub use registry::{Chosen, for_device, is_calibrated, prior, shipped, shipped_names, shipped_text};

use super::Trust;
use super::jitter::JitterLaw;

/// Parameters of the step cost for one GPU and the engines that were measured on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// File name without `.toml`.
    pub name: String,
    /// Where the numbers come from.
    pub provenance: Provenance,
    /// Linear layers, per number format.
    pub gemm: BTreeMap<KernelFormat, Gemm>,
    /// Prefill and decode attention.
    pub attention: Option<Attention>,
    /// Fused routed experts, per number format of their weights.
    pub moe: BTreeMap<KernelFormat, Moe>,
    /// Norms, activations, rotary embedding, sampling.
    pub elementwise: Option<Elementwise>,
    /// All-reduce, one entry a group size.
    pub allreduce: Vec<AllReduce>,
    /// All-reduce in one kernel with the residual's sum and the norm behind it, one entry a group size.
    pub fused_allreduce: Vec<AllReduce>,
    /// Copies between the GPU and its host, by direction: what LMCache and vLLM V0's swapping take where nobody said
    /// otherwise.
    pub copies: BTreeMap<Direction, Copies>,
    /// What the host adds, per engine.
    pub host: BTreeMap<String, Host>,
    /// How steps scatter, per engine; one server's own, so no other calibration lends it.
    pub jitter: BTreeMap<String, JitterLaw>,
    /// Factors on operators by name, for kernels that no roofline explains; 1 where absent.
    pub scale: BTreeMap<String, f64>,
    /// What the numbers rest on, where `calibrate` found them.
    pub evidence: Option<Evidence>,
}

/// The factor on an operator among those that differ from 1.
pub(crate) fn scale_of(scale: &BTreeMap<String, f64>, operator: &str) -> f64 {
    scale.get(operator).copied().unwrap_or(1.0)
}

impl Calibration {
    /// The factor on an operator.
    #[must_use]
    pub fn scale_of(&self, operator: &str) -> f64 {
        scale_of(&self.scale, operator)
    }

    /// What the host of an engine adds; of one without a block of its own what it adds to vLLM.
    #[must_use]
    pub fn host_of(&self, engine: &str) -> Option<&Host> {
        self.host.get(engine).or_else(|| self.host.get("vllm"))
    }
}

/// The origin of a calibration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// Kind of origin, which is also the default trust of the blocks.
    pub source: Source,
    /// The GPU that was measured, in words.
    pub gpu: String,
    /// `YYYY-MM-DD` or a UTC time stamp.
    pub date: String,
    /// Whose measurements, and under which licence.
    pub credit: String,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// How the numbers were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Measured by the probe on the machine at hand.
    Probe,
    /// Fitted to published measurements.
    PublicFit,
    /// Fitted by `calibrate` to a user's benchmark results.
    Benchmark,
    /// Taken from similar GPUs.
    #[default]
    Prior,
    /// Written by hand.
    Hand,
    /// Datasheet ceilings.
    Datasheet,
}

impl Source {
    /// Trust of a block that does not say its own.
    #[must_use]
    pub fn trust(self) -> Trust {
        match self {
            Source::Probe | Source::Benchmark => Trust::Measured,
            Source::PublicFit => Trust::Calibrated,
            Source::Prior | Source::Hand => Trust::Prior,
            Source::Datasheet => Trust::RooflineOnly,
        }
    }
}

/// Number format of weights as a kernel reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelFormat {
    /// 16-bit weights and activations.
    Bf16,
    /// W8A8 floating point.
    Fp8,
    /// W8A8 floating point with a scale for each 128×128 block of weights, and on Hopper all of which CUTLASS's kernels of static
    /// scales have no part; told apart for experts only.
    Fp8Block,
    /// W8A8 integer.
    Int8,
    /// W4A16 with group scales, computed in 16 bits.
    Int4,
    /// 4-bit microscaling weights, 16-bit activations.
    Mxfp4,
    /// 4-bit floating point with block scales.
    Nvfp4,
}

impl KernelFormat {
    /// Every format, with the key it has in a file.
    pub const ALL: [(KernelFormat, &'static str); 7] = [
        (KernelFormat::Bf16, "bf16"),
        (KernelFormat::Fp8, "fp8"),
        (KernelFormat::Fp8Block, "fp8_block"),
        (KernelFormat::Int8, "int8"),
        (KernelFormat::Int4, "int4"),
        (KernelFormat::Mxfp4, "mxfp4"),
        (KernelFormat::Nvfp4, "nvfp4"),
    ];
}

/// Parameters of linear layers in one number format.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Which curve, and its parameters.
    pub form: GemmForm,
    /// Compute rate after seconds of load over that of a short burst, 0 to 1.
    pub sustained_over_burst: f64,
    /// Error against the measurements that were fitted.
    pub residual: Residual,
    /// How well the block is known.
    pub trust: Trust,
}

/// The curve of a GEMM's time.
#[derive(Clone, Debug, PartialEq)]
pub enum GemmForm {
    /// Efficiencies of datasheet ceilings, with occupancy.
    OccupancyPnorm(OccupancyPnorm),
    /// Absolute rates, as a probe fits them.
    C5(C5),
}

/// `t = o + (Tc^p + Tb^p)^(1/p) + q0 + q1·M·K/BW`, see [`super::kernel::gemm_seconds`].
#[derive(Clone, Debug, PartialEq)]
pub struct OccupancyPnorm {
    /// `ec`, of the peak FLOP/s.
    pub compute_efficiency: f64,
    /// `eb`, of the memory bandwidth.
    pub bandwidth_efficiency: f64,
    /// `o` in µs.
    pub overhead_us: f64,
    /// `p`.
    pub pnorm: f64,
    /// `a`.
    pub occupancy_exponent: f64,
    /// How tiles that do not fill the SMs count.
    pub occupancy: Occupancy,
    /// Rows and columns of an output tile.
    pub tile: (u32, u32),
    /// `q0` in µs: launch of a separate activation quantization.
    pub quantize_us: f64,
    /// `q1`: bytes moved by it for each activation element, at full bandwidth.
    pub quantize_passes: f64,
    /// `k0`: input channels' worth of work that a tile spends on filling and draining its pipeline.
    pub fill_k: f64,
    /// `s`: compute rate of a product after its first [`THROTTLE_S`](super::kernel::THROTTLE_S), of that before; 1 where the
    /// clocks hold.
    pub long_over_burst: f64,
}

/// How idle SMs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// `max(1, SMs/tiles)`.
    Smooth,
    /// Whole waves, `ceil(tiles/SMs)·SMs/tiles` (Ampere).
    Wave,
}

/// `t = t0 + κK + ((F/P)^p + (B/W)^p)^(1/p)`.
#[derive(Clone, Debug, PartialEq)]
pub struct C5 {
    /// `P` in TFLOP/s.
    pub p_tflops: f64,
    /// `W` in GB/s.
    pub w_gbs: f64,
    /// `t0` in µs.
    pub t0_us: f64,
    /// `p`.
    pub pnorm: f64,
    /// `κ` in ns for each input channel.
    pub kappa_ns: f64,
}

/// Relative error against measurements, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residual {
    /// Median.
    pub median_pct: Option<f64>,
    /// 95th percentile.
    pub p95_pct: Option<f64>,
    /// Standard deviation of ln(model/measured).
    pub sigma_ln: Option<f64>,
}

/// Attention kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// One token a sequence, KV in 16 bits.
    pub decode: DecodeAttention,
    /// The same with KV in 8 bits.
    pub decode_fp8_kv: DecodeAttention,
    /// Chunks, KV in 16 bits.
    pub prefill: PrefillAttention,
    /// The same with KV in 8 bits.
    pub prefill_fp8_kv: PrefillAttention,
    /// Queries in 8 bits, too, as TensorRT-LLM has them; no engine that is simulated does.
    pub prefill_fp8_query: Option<PrefillAttention>,
    /// How well the block is known.
    pub trust: Trust,
}

/// `t = t0 + max(c·batch·n_kv + h·batch·n_q + k·S_max + KV_bytes/W, r·batch·n_kv)`, a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeAttention {
    /// `t0` in µs.
    pub t0_us: f64,
    /// `c` in ns.
    pub per_seq_head_ns: f64,
    /// `h` in ns: a sequence's query head is rescaled, reduced over the splits of its context and written.
    pub per_query_head_ns: f64,
    /// `r` in ns: what a sequence and KV head takes however short its context is; no more than `c` where nothing shows it.
    pub row_ns: f64,
    /// `k` in ns.
    pub per_token_ns: f64,
    /// `W`: GB/s, or a share of the memory bandwidth.
    pub bandwidth: Rate,
}

/// `t = o + (F + θ·SMs·F1)/(ec·PEAK) + (bytes − s·min(new, R))/(eb·BW) + w·tokens`, a layer, see
/// [`super::kernel::prefill_attention_seconds`]; `F1` is the longest block's share of the work.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefillAttention {
    /// `o` in µs.
    pub overhead_us: f64,
    /// TFLOP/s, or a share of the 16-bit peak.
    pub compute: Rate,
    /// GB/s, or a share of the memory bandwidth.
    pub bandwidth: Rate,
    /// `θ`: part of its longest block that a kernel takes longer than an even share of its work (Graham 1969: at most 1
    /// for blocks of 128 queries).
    pub tail: f64,
    /// `s`: part of their time that bytes take less which are still in the L2 cache.
    pub resident_share: f64,
    /// `w` in ns: a token's keys and values are written to their place in the cache by a thread block of their own.
    pub per_token_ns: f64,
}

/// A rate by itself or as a share of a ceiling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// In units (FLOP or bytes) a second.
    Absolute(f64),
    /// Of the device's ceiling.
    Share(f64),
}

impl Rate {
    /// In units a second, for a device with this ceiling.
    #[must_use]
    pub fn of(self, ceiling: f64) -> f64 {
        match self {
            Rate::Absolute(rate) => rate,
            Rate::Share(share) => share * ceiling,
        }
    }
}

/// Routed experts in one number format, see [`super::experts::moe_seconds`].
#[derive(Clone, Debug, PartialEq)]
pub struct Moe {
    /// `ec`.
    pub compute_efficiency: f64,
    /// `eb`.
    pub bandwidth_efficiency: f64,
    /// `o` in µs, both products and the routing.
    pub overhead_us: f64,
    /// `p`.
    pub pnorm: f64,
    /// Rows that an active expert computes in vain.
    pub padding_rows: f64,
    /// What an active expert takes besides, µs: kernels that compute a list of products start each anew.
    pub per_expert_us: f64,
    /// Times that an expert's weights are read for each 128 of its rows, where they do not stay in the L2 cache; 0 if only once.
    pub rereads: f64,
    /// What moves activations between the products; `None` where that is part of the products' memory traffic.
    pub moved: Option<Moved>,
    /// Error against the measurements that were fitted.
    pub residual: Residual,
    /// How well the block is known.
    pub trust: Trust,
}

/// Kernels around the products of experts: gathering, activating and adding up routed rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// Times that a row's activations are moved, at full bandwidth.
    pub passes: f64,
    /// Part of the rows for experts of other GPUs that is moved, too: all of them in kernels that skip only the products.
    pub foreign_share: f64,
}

/// Small kernels: a floor each, and bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Elementwise {
    /// Kernels in a layer.
    pub kernels_per_layer: f64,
    /// Kernels of sampling, after the LM head.
    pub sampling_kernels: f64,
    /// Floor of a kernel in µs.
    pub floor_us: f64,
    /// Of the memory bandwidth.
    pub bandwidth_efficiency: f64,
    /// How well the block is known.
    pub trust: Trust,
}

/// All-reduce among `gpus` GPUs, see [`super::kernel::all_reduce_seconds`].
#[derive(Clone, Debug, PartialEq)]
pub struct AllReduce {
    /// Group size.
    pub gpus: u32,
    /// `o` in µs.
    pub overhead_us: f64,
    /// `B2` in GB/s, bus bandwidth in the sense of nccl-tests.
    pub bus_gbs: f64,
    /// The branch for small payloads.
    pub one_shot: Option<OneShot>,
    /// How well the entry is known.
    pub trust: Trust,
}

/// Every rank reads all others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneShot {
    /// `B1` in GB/s.
    pub gbs: f64,
    /// `o2` in µs: what the other branch costs more.
    pub two_shot_extra_us: f64,
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the host's memory to the GPU's.
    HostToDevice,
    /// From the GPU's to the host's.
    DeviceToHost,
}

impl Direction {
    /// Both, with the key that each has in a file.
    pub const ALL: [(Direction, &'static str); 2] =
        [(Direction::HostToDevice, "h2d"), (Direction::DeviceToHost, "d2h")];
}

/// `t = α + pieces·c + bytes/β`, see [`super::kernel::copy_seconds`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// `α` in µs.
    pub alpha_us: f64,
    /// `c` in µs: each piece after the first, as pages of a KV cache are copied one by one.
    pub per_copy_us: f64,
    /// `β` in GB/s.
    pub gbs: f64,
}

/// What the host of an engine adds to the GPU's time (V1-80, V1-81), and around the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Synchronous scheduling: added to each step, µs.
    pub step_us: f64,
    /// Synchronous scheduling: added for each running sequence, µs.
    pub per_seq_us: f64,
    /// Asynchronous scheduling: gap between two steps on the GPU, µs.
    pub async_gap_us: f64,
    /// The same for each running sequence.
    pub async_gap_per_seq_us: f64,
    /// Asynchronous scheduling: the host's own time for a step, below which no step can be, µs.
    pub async_floor_us: f64,
    /// The same for each running sequence.
    pub async_floor_per_seq_us: f64,
    /// Host time of one kernel launch without a graph, from compiled code, with its share of what Python does between compiled pieces, µs.
    pub eager_launch_us: f64,
    /// What `enforce_eager` adds to it: Python and PyTorch's dispatcher for each operator, µs.
    pub eager_dispatch_us: f64,
    /// Kernels of a layer when launched one by one.
    pub eager_kernels_per_layer: f64,
    /// Host time of the eager attention between piecewise graphs, µs a layer.
    pub piecewise_us_per_layer: f64,
    /// From the client's send to the engine's queue, beside what holds the API server, ms.
    pub request_ms: f64,
    /// Time of a request in the API server during which no other gets on there, without tokenizing, ms.
    pub request_serial_ms: f64,
    /// Added to that for each prompt token, µs.
    pub per_prompt_token_us: f64,
    /// Time of an output token in the API server, if each is a piece of its own, µs.
    pub per_output_token_us: f64,
    /// From the end of a step to the client, ms.
    pub response_ms: f64,
    /// How well the block is known.
    pub trust: Trust,
}
