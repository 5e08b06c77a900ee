//! What each table's rows are of: products, attention, copies, collectives.

use super::super::observation::{Block, Kernel};
use super::experts;
use super::row::Row;
use crate::cost::calibration::{Direction, KernelFormat};
use crate::cost::kernel::{DecodeAttentionShape, GemmShape, PrefillAttentionShape};
use crate::cost::operators::table_widths;

/// A kernel with the block and the shape that it belongs to; or why a row is left; or what is wrong with it.
pub(super) type Read = Result<Result<(Block, Kernel, String), String>, String>;

/// Narrower products run in their floor; longer ones throttle.
const SMALLEST: u64 = 768;
const LARGEST_M: u64 = 8192;

/// Of all tables.
const HEAD_DIM: u64 = 128;

/// What reads the rows of a table with such columns; `None` if no table that is known has them.
pub(super) fn reader(has: impl Fn(&str) -> bool) -> Option<fn(&Row) -> Read> {
    Some(if has("n") && has("k") && has("m") {
        gemm
    } else if has("context") && has("batch") {
        decode
    } else if has("seqlen") {
        prefill
    } else if has("q_chunk") && has("kv_prefix") {
        chunk
    } else if has("direction") && has("bytes") {
        copy
    } else if has("experts") {
        experts::row
    } else if has("elements") {
        all_reduce
    } else {
        return None;
    })
}

fn gemm(row: &Row) -> Read {
    let dtype = row.text("dtype");
    let format = match dtype {
        "int4_wo" => KernelFormat::Int4,
        "awq" | "gptq" => {
            return Ok(Err(format!(
                "`{dtype}` tables are of kernels that vLLM no longer chooses (it converts to Marlin)"
            )));
        }
        "int8_wo" => return Ok(Err("weight-only int8 is not modelled".to_owned())),
        other => match format(other) {
            Some(format) => format,
            None if other.is_empty() => {
                return Ok(Err(
                    "it names no format: the column `dtype` is empty or missing".to_owned()
                ));
            }
            None => return Ok(Err(format!("the format `{other}` is not modelled"))),
        },
    };
    let (weight_bytes, input_bytes) = table_widths(format);
    let shape = GemmShape {
        m: row.size("m")?,
        n: row.size("n")?,
        k: row.size("k")?,
        weight_bytes,
        input_bytes,
        output_bytes: 2.0,
    };
    if row.text("l2_warm") == "1" {
        return Ok(Err("weights were replayed from the cache".to_owned()));
    }
    if shape.n < SMALLEST || shape.k < SMALLEST || shape.m > LARGEST_M {
        return Ok(Err(format!(
            "smaller than {SMALLEST} wide or more than {LARGEST_M} tokens: outside what serving runs"
        )));
    }
    let name = format!("{} x {}", shape.n, shape.k);
    Ok(Ok((Block::Gemm(format), Kernel::Gemm(shape), name)))
}

fn decode(row: &Row) -> Read {
    if row.text("l2_warm") == "1" {
        return Ok(Err("the KV cache was replayed from L2".to_owned()));
    }
    if row.text("above_peak_bw") == "1" {
        return Ok(Err("faster than the memory allows".to_owned()));
    }
    let (block, width) = match row.text("kv_dtype") {
        "fp8" => (Block::DecodeAttentionFp8, 1.0),
        "bf16" | "fp16" => (Block::DecodeAttention, 2.0),
        "" => {
            return Ok(Err(
                "it names no KV format: the column `kv_dtype` is empty or missing".to_owned(),
            ));
        }
        other => return Ok(Err(format!("KV in `{other}` is not modelled"))),
    };
    let shape = DecodeAttentionShape {
        batch: row.size("batch")?,
        heads: row.size("heads")?,
        kv_heads: row.size("kv_heads")?,
        context: row.size("context")?,
        kv_bytes_per_token_head: 2.0 * HEAD_DIM as f64 * width,
    };
    let name = format!("{} / {}", row.text("heads"), row.text("kv_heads"));
    Ok(Ok((block, Kernel::Decode(shape), name)))
}

fn prefill(row: &Row) -> Read {
    let (queries, cache) = (row.text("q_dtype"), row.text("kv_dtype"));
    let (block, query_bytes, kv_bytes) = match (queries, cache) {
        ("bf16" | "fp16", "bf16" | "fp16") => (Block::PrefillAttention, 2.0, 2.0),
        ("bf16" | "fp16", "fp8") => (Block::PrefillAttentionFp8, 2.0, 1.0),
        ("fp8", "fp8") => (Block::PrefillAttentionFp8Query, 1.0, 1.0),
        _ => {
            return Ok(Err(format!(
                "prefill with queries in `{queries}` and KV in `{cache}` is not modelled"
            )));
        }
    };
    let shape = PrefillAttentionShape {
        batch: row.size("batch")?,
        heads: row.size("heads")?,
        kv_heads: row.size("kv_heads")?,
        head_dim: HEAD_DIM,
        tokens: row.size("seqlen")?,
        prefix: if row.0.contains_key("prefix") {
            row.whole("prefix")?
        } else {
            0
        },
        query_bytes,
        kv_bytes,
    };
    Ok(Ok(chunks(block, shape)))
}

/// Heads make the shape; behind a prefix the size of the chunk does, too, since kernels split by it.
fn chunks(block: Block, shape: PrefillAttentionShape) -> (Block, Kernel, String) {
    let heads = format!("{} / {}", shape.heads, shape.kv_heads);
    let name = match shape.prefix {
        0 => heads,
        _ => format!("{heads}, chunks of {}", shape.tokens),
    };
    (block, Kernel::Prefill(shape), name)
}

/// Vidur's rows: a chunk behind a prefix, or one token a sequence. Its caches are in 16 bits.
fn chunk(row: &Row) -> Read {
    let (batch, kv_heads, prefix) = (row.size("batch")?, row.size("kv_heads")?, row.whole("kv_prefix")?);
    let head_dim = row.size("head_dim")?;
    match row.text("phase") {
        "prefill" => {
            let shape = PrefillAttentionShape {
                batch,
                heads: row.size("heads")?,
                kv_heads,
                head_dim,
                tokens: row.size("q_chunk")?,
                prefix,
                query_bytes: 2.0,
                kv_bytes: 2.0,
            };
            Ok(Ok(chunks(Block::PrefillAttention, shape)))
        }
        "decode" => {
            let shape = DecodeAttentionShape {
                batch,
                heads: row.size("heads")?,
                kv_heads,
                context: prefix,
                kv_bytes_per_token_head: 4.0 * head_dim as f64,
            };
            let name = format!("{} / {kv_heads}, batch {batch}", row.text("heads"));
            Ok(Ok((Block::DecodeAttention, Kernel::Decode(shape), name)))
        }
        other => Ok(Err(format!("the phase `{other}` is neither prefill nor decode"))),
    }
}

fn copy(row: &Row) -> Read {
    let word = row.text("direction");
    let known = Direction::ALL.iter().find(|(_, name)| *name == word);
    let Some((direction, _)) = known else {
        return Ok(Err(format!(
            "copies in the direction `{word}` are not fitted, only h2d and d2h"
        )));
    };
    let bytes = row.number("bytes")?;
    let pieces = if row.0.contains_key("pieces") {
        row.number("pieces")?
    } else {
        1.0
    };
    if bytes <= 0.0 || pieces < 1.0 {
        return Err(format!(
            "`bytes` is {bytes} and `pieces` is {pieces}; both are above 0"
        ));
    }
    let name = format!("{bytes} in {pieces}");
    Ok(Ok((
        Block::Copy(*direction),
        Kernel::Copy { bytes, pieces },
        name,
    )))
}

fn all_reduce(row: &Row) -> Read {
    if row.text("op") != "all_reduce" {
        return Ok(Err("only all-reduce is fitted".to_owned()));
    }
    let gpus = row.whole("gpus")?;
    let Ok(gpus @ 2..=1024) = u32::try_from(gpus) else {
        return Err(format!("`gpus` is {gpus}, not from 2 to 1024"));
    };
    let elements = row.size("elements")?;
    let name = elements.to_string();
    // Elements of two bytes in every table.
    Ok(Ok((
        Block::AllReduce(gpus),
        Kernel::AllReduce(2.0 * elements as f64),
        name,
    )))
}

pub(super) fn format(dtype: &str) -> Option<KernelFormat> {
    match dtype {
        "bf16" | "fp16" => Some(KernelFormat::Bf16),
        "fp8" => Some(KernelFormat::Fp8),
        "int8" => Some(KernelFormat::Int8),
        "nvfp4" => Some(KernelFormat::Nvfp4),
        "w4a16_mxfp4" => Some(KernelFormat::Mxfp4),
        "int4_wo" => Some(KernelFormat::Int4),
        _ => None,
    }
}
