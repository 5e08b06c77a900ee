//! What can be timed: one operation on one size, and what is known of it before it is.

use super::{KIB, SENTINEL_GEMM};

/// Number formats of matrix products. Without fp16: it shares bf16's tensor cores, and a calibration has one entry for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// bfloat16 in and out.
    Bf16,
    /// e4m3 in, bfloat16 out, fast accumulation, as engines use it.
    Fp8,
    /// int8 in, int32 out; engines fuse the scale, so that many rows look slower here than there.
    Int8,
}

impl Format {
    /// All of them, in the order of a file.
    pub const ALL: [Format; 3] = [Format::Bf16, Format::Fp8, Format::Int8];

    /// Its key in a calibration.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Format::Bf16 => "bf16",
            Format::Fp8 => "fp8",
            Format::Int8 => "int8",
        }
    }

    /// Bytes of one element of the weights and of the input.
    #[must_use]
    pub fn input_bytes(self) -> u64 {
        if self == Format::Bf16 { 2 } else { 1 }
    }

    /// Bytes of one element of the output.
    #[must_use]
    pub fn output_bytes(self) -> u64 {
        if self == Format::Int8 { 4 } else { 2 }
    }
}

/// A product `[m × k]·[k × n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows: tokens.
    pub m: u64,
    /// Output channels.
    pub n: u64,
    /// Input channels.
    pub k: u64,
}

/// Operations of a product from which it loads a card so much that the card rests before.
const LARGE_FLOPS: f64 = 2e10;

/// Direction of a copy over the host link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Host to device.
    In,
    /// Device to host.
    Out,
    /// Both at once; the bytes are those of one direction.
    Both,
}

/// Which kernel moves bytes in the GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Reads, through memory five times the L2.
    ReadCold,
    /// Reads the same bytes again.
    ReadWarm,
    /// Writes.
    Write,
    /// One read, one write.
    Copy,
    /// Two reads, one write.
    Triad,
}

/// One thing that is timed. Every answer is in seconds for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A kernel over this many bytes of each of its arrays.
    Stream(Stream, u64),
    /// One dependent load among this many bytes.
    Chase(u64),
    /// A matrix product, weights from memory, random normal data.
    Gemm(Format, Shape),
    /// The best of eight algorithms instead of the library's first.
    GemmBest(Format, Shape),
    /// The same on zeros: how much less power they draw.
    GemmZeros(Shape),
    /// The same for seconds on end.
    GemmSustained(Shape),
    /// One token for each of `batch` sequences of `context` tokens, eight KV heads.
    Decode {
        /// Sequences.
        batch: u64,
        /// KV tokens of each.
        context: u64,
        /// Query heads of one KV head.
        group: u64,
    },
    /// Only the reads of such a step.
    KvRead {
        /// Sequences.
        batch: u64,
        /// KV tokens of each.
        context: u64,
    },
    /// A causal prefill of one prompt with 32 query and 8 KV heads.
    Prefill(u64),
    /// The host's time to submit a kernel, one by one.
    EagerSubmit,
    /// Time between kernels that were submitted one by one.
    EagerGap,
    /// One node of a graph of this many small kernels, on one block or one for each SM.
    GraphNode(u64, bool),
    /// The host's time to launch a graph.
    GraphLaunch,
    /// From a launch to the host's knowing of its end.
    Sync,
    /// A copy over the host link from or to pinned memory.
    Link(Way, u64),
    /// One of 1024 copies of 64 KiB, host to device.
    Pieces,
    /// A copy from memory that is not pinned, host to device.
    Pageable(u64),
    /// KV pages written to mapped host memory by a kernel.
    ZeroCopy(u64),
    /// A block of this size read from a file, with this many in flight; seconds a block.
    Disk(u64, u64),
    /// A copy between two GPUs.
    PeerCopy(u32, u32, u64),
}

impl Point {
    /// The block that it belongs to, as `skipped` names it.
    #[must_use]
    pub fn block(self) -> &'static str {
        match self {
            Point::Stream(..) => "memory",
            Point::Chase(_) => "latency",
            Point::Gemm(Format::Bf16, _) => "gemm.bf16",
            Point::Gemm(Format::Fp8, _) => "gemm.fp8",
            Point::Gemm(Format::Int8, _) => "gemm.int8",
            Point::GemmBest(..) => "gemm.best_of_8",
            Point::GemmZeros(_) => "gemm.zeros",
            Point::GemmSustained(_) => "gemm.sustained",
            Point::Decode { .. } | Point::KvRead { .. } => "attention.decode",
            Point::Prefill(_) => "attention.prefill",
            Point::EagerSubmit | Point::EagerGap => "launch.eager",
            Point::GraphNode(..) | Point::GraphLaunch | Point::Sync => "launch.graph",
            Point::Link(..) | Point::Pieces | Point::Pageable(_) | Point::ZeroCopy(_) => "host_link",
            Point::Disk(..) => "disk",
            Point::PeerCopy(..) => "peer",
        }
    }

    /// Bytes that it moves, where that is what it is about.
    #[must_use]
    pub fn bytes(self) -> f64 {
        match self {
            Point::Stream(Stream::Copy, bytes) => 2.0 * bytes as f64,
            Point::Stream(Stream::Triad, bytes) => 3.0 * bytes as f64,
            Point::Stream(_, bytes)
            | Point::Chase(bytes)
            | Point::Link(_, bytes)
            | Point::Pageable(bytes)
            | Point::ZeroCopy(bytes)
            | Point::Disk(bytes, _)
            | Point::PeerCopy(_, _, bytes) => bytes as f64,
            Point::Pieces => (64 * KIB) as f64,
            Point::Decode { batch, context, .. } | Point::KvRead { batch, context } => {
                (batch * context * KV_BYTES_PER_TOKEN) as f64
            }
            Point::Gemm(format, shape) | Point::GemmBest(format, shape) => gemm_bytes(format, shape),
            _ => 0.0,
        }
    }

    /// The product that is so large that the card rests before it; load for seconds on end is meant to find it as it is.
    #[must_use]
    pub fn large_product(self) -> Option<Shape> {
        let (Point::Gemm(_, shape) | Point::GemmBest(_, shape) | Point::GemmZeros(shape)) = self else {
            return None;
        };
        let flops = 2.0 * (shape.m * shape.n * shape.k) as f64;
        (flops >= LARGE_FLOPS).then_some(shape)
    }

    /// Wall time that it takes with everything around it, as far as one can say beforehand, seconds.
    #[must_use]
    pub fn expected_s(self) -> f64 {
        match self {
            Point::GemmSustained(_) => 3.4,
            // With the rest before it.
            Point::GemmBest(..) => 0.2,
            _ if self.large_product() == Some(SENTINEL_GEMM) => 1.1,
            _ if self.large_product().is_some() => 0.15,
            Point::Disk(..) => 1.2,
            Point::Link(..) | Point::Chase(_) => 0.15,
            _ => 0.1,
        }
    }
}

/// KV heads of the attention points.
pub const KV_HEADS: u64 = 8;
/// Query heads of the prefill points.
pub const QUERY_HEADS: u64 = 32;
/// Channels of a head.
pub const HEAD_DIM: u64 = 128;
/// K and V in bfloat16.
pub const KV_BYTES_PER_TOKEN: u64 = 2 * 2 * KV_HEADS * HEAD_DIM;
/// Tokens of a page.
pub const PAGE: u64 = 16;

/// Weights, input and output of a product.
fn gemm_bytes(format: Format, Shape { m, n, k }: Shape) -> f64 {
    (format.input_bytes() * (n * k + m * k) + format.output_bytes() * m * n) as f64
}
