//! Copies between host and GPU, and between GPUs.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaStream, result, sys};

use super::device::{Memory, Pinned, arguments, driver_error, said};
use super::machine::Bench;
use crate::probe::course::Refusal;
use crate::probe::plan::Way;

/// Bytes of the largest copy.
const LARGEST: u64 = 64 << 20;
/// Bytes of one of many small copies.
const PIECE: u64 = 64 << 10;
const PIECES: u64 = 1024;

/// Pinned memory and a second stream, made when the first copy is timed: pinning costs a third of a second a gigabyte.
pub(super) struct HostBuffer {
    pinned: Pinned,
    other: Arc<CudaStream>,
}

fn host<'b>(bench: &'b mut Bench<'_>) -> Result<&'b HostBuffer, Refusal> {
    if bench.host.is_none() {
        let other = said("cuStreamCreate", bench.device.context.new_stream())?;
        // A host that pins no memory has no link worth a number; the GPU has.
        let pinned = Pinned::new(2 * LARGEST).map_err(|error| Refusal::Unsupported(error.to_string()))?;
        bench.host = Some(HostBuffer { pinned, other });
    }
    Ok(bench.host.as_ref().expect("made above"))
}

/// Queues a copy of `bytes` between pinned memory and the arena, each `offset` bytes from its start.
fn queue(
    host: &HostBuffer,
    device_at: u64,
    stream: sys::CUstream,
    way: Way,
    offset: u64,
    bytes: u64,
) -> Result<(), Refusal> {
    // SAFETY: both sides hold `offset + bytes`, and the stream is waited for before they go.
    unsafe {
        let at = host.pinned.at.cast::<u8>().add(offset as usize);
        if way == Way::Out {
            let to = std::slice::from_raw_parts_mut(at, bytes as usize);
            said(
                "cuMemcpyDtoH",
                result::memcpy_dtoh_async(to, device_at + offset, stream),
            )?;
        } else {
            let from = std::slice::from_raw_parts(at.cast_const(), bytes as usize);
            said(
                "cuMemcpyHtoD",
                result::memcpy_htod_async(device_at + offset, from, stream),
            )?;
        }
    }
    Ok(())
}

/// Copies of one sample: 64 MiB in all, 4 to 256 of them.
fn count(bytes: u64) -> u64 {
    (64_u64 << 20).div_ceil(bytes).clamp(4, 256)
}

/// Times `count` operations queued on the bench's stream by events; the answer is for one.
fn by_events(
    bench: &Bench,
    count: u64,
    mut queue_one: impl FnMut(u64) -> Result<(), Refusal>,
) -> Result<Vec<f64>, Refusal> {
    let device = &bench.device;
    let event = || {
        said(
            "cuEventCreate",
            device
                .context
                .new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT)),
        )
    };
    let mut samples = Vec::new();
    for turn in 0..6 {
        let (first, last) = (event()?, event()?);
        said("cuEventRecord", first.record(&device.stream))?;
        (0..count).try_for_each(&mut queue_one)?;
        said("cuEventRecord", last.record(&device.stream))?;
        device.wait()?;
        if turn > 0 {
            let ms = said("cuEventElapsedTime", first.elapsed_ms(&last))?;
            samples.push(f64::from(ms) * 1e-3 / count as f64);
        }
    }
    Ok(samples)
}

/// Copies one way.
pub(super) fn copies(bench: &mut Bench, way: Way, bytes: u64) -> Result<Vec<f64>, Refusal> {
    host(bench)?;
    let (at, stream) = (bench.kv.at, bench.device.stream.cu_stream());
    bench.spoil_kv();
    let host = bench.host.as_ref().expect("made above");
    by_events(bench, count(bytes), |_| queue(host, at, stream, way, 0, bytes))
}

/// Copies both ways at once; the host's clock, since two streams have no common event.
pub(super) fn both(bench: &mut Bench, bytes: u64) -> Result<Vec<f64>, Refusal> {
    host(bench)?;
    let (at, stream) = (bench.kv.at, bench.device.stream.cu_stream());
    bench.spoil_kv();
    let host = bench.host.as_ref().expect("made above");
    let count = count(bytes);
    let mut samples = Vec::new();
    for turn in 0..6 {
        let begun = Instant::now();
        for _ in 0..count {
            queue(host, at, stream, Way::In, 0, bytes)?;
            queue(host, at, host.other.cu_stream(), Way::Out, LARGEST, bytes)?;
        }
        bench.device.wait()?;
        said("cuStreamSynchronize", host.other.synchronize())?;
        if turn > 0 {
            samples.push(begun.elapsed().as_secs_f64() / count as f64);
        }
    }
    Ok(samples)
}

/// Many small copies, as an engine moves KV blocks; the answer is for one.
pub(super) fn pieces(bench: &mut Bench) -> Result<Vec<f64>, Refusal> {
    host(bench)?;
    let (at, stream) = (bench.kv.at, bench.device.stream.cu_stream());
    bench.spoil_kv();
    let host = bench.host.as_ref().expect("made above");
    by_events(bench, PIECES, |turn| {
        queue(host, at, stream, Way::In, turn * PIECE, PIECE)
    })
}

/// From memory that is not pinned.
pub(super) fn pageable(bench: &mut Bench, bytes: u64) -> Result<Vec<f64>, Refusal> {
    bench.spoil_kv();
    let from = vec![0x5a_u8; bytes as usize];
    let mut samples = Vec::new();
    for turn in 0..4 {
        let begun = Instant::now();
        bench.device.put(bench.kv.at, &from)?;
        if turn > 0 {
            samples.push(begun.elapsed().as_secs_f64());
        }
    }
    Ok(samples)
}

/// Pages gathered by a kernel into mapped host memory.
pub(super) fn zero_copy(bench: &mut Bench, bytes: u64) -> Result<Vec<f64>, Refusal> {
    host(bench)?;
    let kernel = bench.device.kernel("kv_copy_pages")?;
    let page: u64 = 32 << 10;
    let pages = (bytes / page) as u32;
    let table: Vec<u32> = (0..pages).rev().collect();
    let order = Memory::new(4 * u64::from(pages))?;
    bench.device.put(order.at, &table)?;
    let to = bench.host.as_ref().expect("made above").pinned.on_device()?;
    let (from, pieces, scatter) = (bench.arena.at, (page / 16) as u32, 0_u32);
    let device = &bench.device;
    let grid = (pages.min(device.sms.max(1)), 1, 1);
    by_events(bench, 4, |_| {
        // SAFETY: the arena holds every page, and the pinned memory all of them.
        unsafe {
            device.launch(
                &kernel,
                grid,
                256,
                arguments!(to, from, order.at, pages, pieces, scatter),
            )?;
        }
        Ok(())
    })
}

/// The machine's GPUs, opened when the first copy between two is timed.
#[derive(Default)]
pub(super) struct Peers {
    opened: Vec<Option<Peer>>,
}

/// Memory is freed before its GPU is closed.
struct Peer {
    memory: Memory,
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

/// Bytes of the largest copy between GPUs.
const PEER_BYTES: u64 = 64 << 20;

impl Peers {
    fn open(&mut self, number: u32) -> Result<(), Refusal> {
        let index = number as usize;
        if self.opened.len() <= index {
            self.opened.resize_with(index + 1, || None);
        }
        if self.opened[index].is_none() {
            let context = said("open a GPU", CudaContext::new(index))?;
            self.opened[index] = Some(Peer {
                memory: Memory::new(PEER_BYTES)?,
                stream: said("cuStreamCreate", context.new_stream())?,
                context,
            });
        }
        Ok(())
    }

    /// Copies from one GPU to another, directly where the driver can; the answer is for one.
    pub(super) fn copy(&mut self, from: u32, to: u32, bytes: u64) -> Result<Vec<f64>, Refusal> {
        self.open(to)?;
        self.open(from)?;
        let peer = |number: u32| self.opened.get(number as usize).and_then(Option::as_ref);
        let (Some(source), Some(target)) = (peer(from), peer(to)) else {
            return Err(driver_error("peer", "a GPU was not opened").into());
        };
        super::device::bind(&source.context)?;
        // SAFETY: the other context is live. Already enabled, or not possible, is as good an answer: the copy then goes by the host.
        let _ = unsafe { sys::cuCtxEnablePeerAccess(target.context.cu_ctx(), 0) };
        let count = count(bytes).min(64);
        let mut samples = Vec::new();
        for turn in 0..6 {
            let begun = Instant::now();
            for _ in 0..count {
                // SAFETY: both sides are PEER_BYTES long.
                let copied = unsafe {
                    result::memcpy_peer_async(
                        target.context.cu_ctx(),
                        target.memory.at,
                        source.context.cu_ctx(),
                        source.memory.at,
                        bytes as usize,
                        source.stream.cu_stream(),
                    )
                };
                said("cuMemcpyPeer", copied)?;
            }
            said("cuStreamSynchronize", source.stream.synchronize())?;
            if turn > 0 {
                samples.push(begun.elapsed().as_secs_f64() / count as f64);
            }
        }
        Ok(samples)
    }
}
