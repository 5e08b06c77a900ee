//! What was measured: one kernel's time, told apart by the block of a calibration that it speaks about.
//!
//! Readers of other formats only have to make [`Observation`]s. Left out: repetitions; a table's row is one number.

use std::fmt;

use crate::cost::calibration::{Direction, KernelFormat};
use crate::cost::experts::MoeShape;
use crate::cost::kernel::{DecodeAttentionShape, GemmShape, PrefillAttentionShape};

/// The block of a calibration whose parameters an observation speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// Linear layers of one format.
    Gemm(KernelFormat),
    /// Chunks, KV in 16 bits.
    PrefillAttention,
    /// The same with KV in 8 bits.
    PrefillAttentionFp8,
    /// The same with queries in 8 bits, too.
    PrefillAttentionFp8Query,
    /// One token a sequence, KV in 16 bits.
    DecodeAttention,
    /// The same with KV in 8 bits.
    DecodeAttentionFp8,
    /// Routed experts of one format.
    Moe(KernelFormat),
    /// All-reduce among so many GPUs.
    AllReduce(u32),
    /// Copies between host and GPU.
    Copy(Direction),
}

impl fmt::Display for Block {
    /// The block's key, `gemm.bf16`, `attention.fp8_kv`, `allreduce.4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Block::Gemm(format) => write!(f, "gemm.{}", format_name(*format)),
            Block::PrefillAttention => f.write_str("attention.prefill"),
            Block::PrefillAttentionFp8 => f.write_str("attention.prefill_fp8_kv"),
            Block::PrefillAttentionFp8Query => f.write_str("attention.prefill_fp8_query"),
            Block::DecodeAttention => f.write_str("attention.decode"),
            Block::DecodeAttentionFp8 => f.write_str("attention.fp8_kv"),
            Block::Moe(format) => write!(f, "moe.{}", format_name(*format)),
            Block::AllReduce(gpus) => write!(f, "allreduce.{gpus}"),
            Block::Copy(direction) => {
                let known = Direction::ALL.iter().find(|(known, _)| known == direction);
                write!(f, "copy.{}", known.expect("ALL holds every direction").1)
            }
        }
    }
}

/// A format's key in a file.
#[must_use]
pub fn format_name(format: KernelFormat) -> &'static str {
    let known = KernelFormat::ALL.iter().find(|(known, _)| *known == format);
    known.expect("ALL holds every format").1
}

/// What ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kernel {
    /// A linear layer.
    Gemm(GemmShape),
    /// Prefill attention of one layer.
    Prefill(PrefillAttentionShape),
    /// Decode attention of one layer.
    Decode(DecodeAttentionShape),
    /// The routed experts of one layer.
    Moe(MoeShape),
    /// An all-reduce of so many bytes.
    AllReduce(f64),
    /// A copy.
    Copy {
        /// Of all pieces.
        bytes: f64,
        /// At least one.
        pieces: f64,
    },
}

impl fmt::Display for Kernel {
    /// The shape as a person would order it: `n 4096, k 4096, m 64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernel::Gemm(shape) => write!(f, "n {}, k {}, m {}", shape.n, shape.k, shape.m),
            Kernel::Prefill(shape) => {
                write!(
                    f,
                    "{} prompts of {} tokens, {} heads, {} KV heads",
                    shape.batch, shape.tokens, shape.heads, shape.kv_heads
                )?;
                match shape.prefix {
                    0 => Ok(()),
                    prefix => write!(f, ", {prefix} tokens cached"),
                }
            }
            Kernel::Decode(shape) => write!(
                f,
                "batch {}, context {}, {} KV heads",
                shape.batch, shape.context, shape.kv_heads
            ),
            Kernel::Moe(shape) => write!(
                f,
                "{} experts of {} x {}, {} active, {} tokens, {:.0} rows here",
                shape.experts,
                shape.hidden,
                shape.intermediate,
                shape.experts_per_token,
                shape.tokens,
                shape.load.rows
            ),
            Kernel::AllReduce(bytes) => write!(f, "{bytes:.0} bytes"),
            Kernel::Copy { bytes, pieces } => write!(f, "{bytes:.0} bytes in {pieces:.0} pieces"),
        }
    }
}

/// One measured kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// What it speaks about.
    pub block: Block,
    /// What ran.
    pub kernel: Kernel,
    /// How long it took.
    pub seconds: f64,
    /// Rows of one shape go together into the hold-out and into a bootstrap's draw: they share the form's error.
    pub shape: String,
    /// Which input it came from, by index.
    pub input: usize,
}
