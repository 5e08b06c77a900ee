//! Attention kernels over pages in a shuffled order.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::device::{Memory, arguments};
use super::machine::{Bench, Contents};
use crate::probe::course::Refusal;
use crate::probe::plan::{Format, HEAD_DIM, KV_HEADS, PAGE, QUERY_HEADS};

/// The order of all pages, twice over, so that a window may begin anywhere.
pub(super) struct Pages {
    table: Memory,
    count: u64,
}

/// Bytes of one page of K, and of V.
const PAGE_BYTES: u64 = PAGE * KV_HEADS * HEAD_DIM * 2;
static PAGE_LOG2: u32 = PAGE.ilog2();
/// `log₂e/√128`.
static SCALE: f32 = std::f32::consts::LOG2_E / 11.313_708;
/// Most pieces that the KV of a sequence is split into, for the kernel that merges them.
const MOST_SPLITS: u64 = 128;
/// Fewest tokens of a piece: four tiles.
const LEAST_SPLIT: u64 = 64;
/// Blocks of the decode kernel that a multiprocessor runs at a time, one warp each.
const DECODE_BLOCKS: u64 = 8;
/// Blocks for each multiprocessor of the kernel that only reads, four warps each: an H200 read fastest with 16.
const READ_BLOCKS: u64 = 16;

fn prepare(bench: &mut Bench) -> Result<(), Refusal> {
    bench.fill_kv()?;
    if bench.pages.is_none() {
        let count = bench.kv.bytes / 2 / PAGE_BYTES;
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(bench.seed));
        let table = Memory::new(8 * count)?;
        let twice = [order.clone(), order].concat();
        bench.device.put(table.at, &twice)?;
        bench.pages = Some(Pages { table, count });
    }
    Ok(())
}

/// Blocks that share the KV of one head of one sequence: at most `blocks_an_sm` a multiprocessor in all, so that few of them wait for
/// a second wave that leaves most of the card idle.
fn splits(sms: u32, blocks_an_sm: u64, batch: u64, context: u64) -> u64 {
    let at_a_time = blocks_an_sm * u64::from(sms);
    let wanted = at_a_time / (batch * KV_HEADS);
    wanted.min(context / LEAST_SPLIT).clamp(1, MOST_SPLITS)
}

/// One decode step's attention: the split kernel and, where there are splits, the one that merges.
pub(super) fn decode(bench: &mut Bench, batch: u64, context: u64, group: u64) -> Result<Vec<f64>, Refusal> {
    prepare(bench)?;
    let (first, second) = (
        bench.device.kernel("attn_decode_bf16")?,
        bench.device.kernel("attn_combine")?,
    );
    let splits = splits(bench.device.sms, DECODE_BLOCKS, batch, context);
    let query = Memory::new(batch * KV_HEADS * group * HEAD_DIM * 2)?;
    let out = Memory::new(query.bytes)?;
    let partial = Memory::new(batch * KV_HEADS * splits * 16 * HEAD_DIM * 4)?;
    let sums = Memory::new(batch * KV_HEADS * splits * 16 * 2 * 4)?;
    let lengths = Memory::new(batch * 4)?;
    bench
        .device
        .put(lengths.at, &vec![context as u32; batch as usize])?;
    fill_query(bench, &query)?;
    let pages = bench.pages.as_ref().expect("made above");
    let (per_sequence, used) = (context.div_ceil(PAGE) as u32, batch * context.div_ceil(PAGE));
    let (keys, values) = (bench.kv.at, bench.kv.at + bench.kv.bytes / 2);
    let (heads, group, split_count) = (KV_HEADS as u32, group as u32, splits as u32);
    let (device, turn) = (&bench.device, &mut bench.turn);
    let mut body = || {
        *turn += 1;
        let table = pages.table.at + 4 * (turn.wrapping_mul(used) % pages.count);
        let grid = (split_count, heads, batch as u32);
        // SAFETY: arguments as the kernels have them; a window of `used` pages lies inside the doubled table.
        unsafe {
            device.launch(
                &first,
                grid,
                32,
                arguments!(
                    query.at,
                    keys,
                    values,
                    table,
                    lengths.at,
                    per_sequence,
                    PAGE_LOG2,
                    heads,
                    group,
                    SCALE,
                    partial.at,
                    sums.at,
                    out.at,
                ),
            )?;
            if split_count > 1 {
                let grid = (heads * group, batch as u32, 1);
                device.launch(
                    &second,
                    grid,
                    128,
                    arguments!(partial.at, sums.at, split_count, heads, group, out.at,),
                )?;
            }
        }
        Ok(())
    };
    device.time(&mut body)
}

fn fill_query(bench: &mut Bench, query: &Memory) -> Result<(), Refusal> {
    let kernel = bench.device.kernel("fill_normal")?;
    let (pieces, format, scale, seed) = (query.bytes / 16, 0_u32, 1.0_f32, bench.seed as u32 + 1);
    // SAFETY: the arguments are those of fill_normal.
    unsafe {
        bench.device.launch(
            &kernel,
            (64, 1, 1),
            256,
            arguments!(query.at, pieces, format, scale, seed),
        )?;
    }
    Ok(bench.device.wait()?)
}

/// Only the reads of a decode step.
pub(super) fn read(bench: &mut Bench, batch: u64, context: u64) -> Result<Vec<f64>, Refusal> {
    prepare(bench)?;
    let kernel = bench.device.kernel("kv_read_paged")?;
    let splits = splits(bench.device.sms, READ_BLOCKS, batch, context) as u32;
    // One word for each of a block's four warps.
    let words = 4 * u64::from(splits) * KV_HEADS * batch;
    let (lengths, sink) = (Memory::new(batch * 4)?, Memory::new(4 * words)?);
    bench
        .device
        .put(lengths.at, &vec![context as u32; batch as usize])?;
    let pages = bench.pages.as_ref().expect("made above");
    let (per_sequence, used) = (context.div_ceil(PAGE) as u32, batch * context.div_ceil(PAGE));
    let (keys, values) = (bench.kv.at, bench.kv.at + bench.kv.bytes / 2);
    let (heads, row) = (KV_HEADS as u32, (HEAD_DIM * 2 / 16) as u32);
    let (device, turn) = (&bench.device, &mut bench.turn);
    let mut body = || {
        *turn += 1;
        let table = pages.table.at + 4 * (turn.wrapping_mul(used) % pages.count);
        // SAFETY: as for decode.
        unsafe {
            device.launch(
                &kernel,
                (splits, heads, batch as u32),
                128,
                arguments!(
                    keys,
                    values,
                    table,
                    lengths.at,
                    per_sequence,
                    PAGE_LOG2,
                    heads,
                    row,
                    sink.at,
                ),
            )?;
        }
        Ok(())
    };
    device.time(&mut body)
}

/// A causal prefill of one prompt.
pub(super) fn prefill(bench: &mut Bench, tokens: u64) -> Result<Vec<f64>, Refusal> {
    bench.fill_arena(Contents::Normal(Format::Bf16))?;
    bench.spoil_kv();
    let kernel = bench.device.kernel("attn_prefill_bf16")?;
    let (query_bytes, kv_bytes) = (
        tokens * QUERY_HEADS * HEAD_DIM * 2,
        tokens * KV_HEADS * HEAD_DIM * 2,
    );
    let query = bench.arena.at;
    let (keys, values, out) = (query + query_bytes, query + query_bytes + kv_bytes, bench.kv.at);
    let (tokens, heads, kv_heads) = (tokens as u32, QUERY_HEADS as u32, KV_HEADS as u32);
    let device = &bench.device;
    let mut body = || {
        // SAFETY: the arena holds query, keys and values, the KV pages the output.
        unsafe {
            device.launch(
                &kernel,
                (tokens / 64, heads, 1),
                128,
                arguments!(query, keys, values, out, tokens, heads, kv_heads, SCALE,),
            )?;
        }
        Ok(())
    };
    device.time(&mut body)
}
