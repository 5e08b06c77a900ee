//! Streams through the GPU's memory, and a walk of dependent loads.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::device::{Memory, arguments, blocks};
use super::machine::{Bench, Contents};
use crate::probe::course::Refusal;
use crate::probe::plan::{Format, Stream};

/// Steps between two slots, prime, so that neighbours in time are none in memory.
const STRIDE: u64 = 7919;

/// Times one kernel of a stream; each call takes the next slot of the arena.
pub(super) fn stream(bench: &mut Bench, stream: Stream, bytes: u64) -> Result<Vec<f64>, Refusal> {
    bench.fill_arena(Contents::Normal(Format::Bf16))?;
    if matches!(stream, Stream::Write | Stream::Copy | Stream::Triad) {
        bench.spoil_kv();
    }
    let name = match stream {
        Stream::ReadCold | Stream::ReadWarm => "bw_read",
        Stream::Write => "bw_write",
        Stream::Copy => "bw_copy",
        Stream::Triad => "bw_triad",
    };
    let kernel = bench.device.kernel(name)?;
    let pieces = bytes / 16;
    let grid = (blocks(pieces, bench.device.sms), 1, 1);
    // One word for each of a block's eight warps.
    let sink = Memory::new(4 * 8 * u64::from(grid.0))?;
    let (arena, kv, scale, seed) = (&bench.arena, &bench.kv, 2.0_f32, bench.seed as u32);
    let (slots, slots_out) = ((arena.bytes / bytes).max(1), (kv.bytes / bytes).max(1));
    let (device, turn) = (&bench.device, &mut bench.turn);
    let mut body = || {
        *turn = if stream == Stream::ReadWarm { 0 } else { *turn + 1 };
        let step = turn.wrapping_mul(STRIDE);
        let from = arena.at + step % slots * bytes;
        let second = arena.at + (step + 1) % slots * bytes;
        let to = kv.at + step % slots_out * bytes;
        // SAFETY: arguments as the kernels have them; slots lie inside their buffers.
        unsafe {
            match stream {
                Stream::ReadCold | Stream::ReadWarm => {
                    device.launch(&kernel, grid, 256, arguments!(from, pieces, sink.at))
                }
                Stream::Write => device.launch(&kernel, grid, 256, arguments!(to, pieces, seed)),
                Stream::Copy => device.launch(&kernel, grid, 256, arguments!(to, from, pieces)),
                Stream::Triad => {
                    device.launch(&kernel, grid, 256, arguments!(to, from, second, scale, pieces))
                }
            }
        }?;
        Ok(())
    };
    device.time(&mut body)
}

/// Bytes of a line: one entry of the walk lies in each.
const LINE: u64 = 128;
/// Loads of one walk.
static STEPS: u32 = 20_000;

/// Times one load of a walk over a random cycle through `bytes`.
pub(super) fn chase(bench: &mut Bench, bytes: u64) -> Result<Vec<f64>, Refusal> {
    let lines = (bytes / LINE).max(2) as usize;
    let mut order: Vec<u32> = (0..lines as u32).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(bench.seed));
    let words = (LINE / 4) as u32;
    let mut next = vec![0_u32; lines * words as usize];
    // The cycle starts at entry 0, where the walk does, wherever that lies in the order.
    for (here, there) in order.iter().zip(order.iter().cycle().skip(1)) {
        next[(here * words) as usize] = there * words;
    }
    let (table, at) = (Memory::new(next.len() as u64 * 4)?, Memory::new(256)?);
    bench.device.put(table.at, &next)?;
    bench.device.put(at.at, &[0_u32; 64])?;
    // The copy left the table's end in the L2: either all of it is to be there, or nothing.
    if bytes > bench.gpu.l2_bytes {
        stream(bench, Stream::ReadCold, bench.arena.bytes.min(1 << 30))?;
    } else {
        let pieces = bytes / 16;
        let grid = (blocks(pieces, bench.device.sms), 1, 1);
        let (read, sink) = (
            bench.device.kernel("bw_read")?,
            Memory::new(4 * 8 * u64::from(grid.0))?,
        );
        for _ in 0..2 {
            // SAFETY: arguments as the kernel has them; the table is that long.
            unsafe {
                bench
                    .device
                    .launch(&read, grid, 256, arguments!(table.at, pieces, sink.at))
            }?;
        }
        bench.device.wait()?;
    }
    let kernel = bench.device.kernel("ptr_chase")?;
    let device = &bench.device;
    let mut body = || {
        // SAFETY: every entry of the table is an index into it.
        unsafe { device.launch(&kernel, (1, 1, 1), 1, arguments!(table.at, STEPS, at.at)) }?;
        Ok(())
    };
    body()?;
    device.wait()?;
    let graph = device.graph(1, &mut body)?;
    let samples = device.replay(&graph, 1, 5)?;
    Ok(samples
        .into_iter()
        .map(|seconds| seconds / f64::from(STEPS))
        .collect())
}
