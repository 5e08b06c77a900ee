//! What a launch costs: eagerly, as a node of a graph, and back to the host.

use std::time::Instant;

use super::device::{Memory, arguments};
use super::machine::Bench;
use crate::probe::course::Refusal;

/// Launches of one eager sample: fewer than the driver queues before it makes the host wait.
const LAUNCHES: usize = 500;

/// Seconds a launch, the host's own or, with `to_the_end`, the GPU's.
pub(super) fn eager(bench: &mut Bench, to_the_end: bool) -> Result<Vec<f64>, Refusal> {
    let kernel = bench.device.kernel("k_tiny")?;
    let word = Memory::new(4096)?;
    let device = &bench.device;
    let launch = || {
        // SAFETY: one word is written.
        unsafe { device.launch(&kernel, (1, 1, 1), 32, arguments!(word.at)) }
    };
    (0..50).try_for_each(|_| launch())?;
    device.wait()?;
    let mut samples = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        (0..LAUNCHES).try_for_each(|_| launch())?;
        let submitted = begun.elapsed();
        device.wait()?;
        let taken = if to_the_end { begun.elapsed() } else { submitted };
        samples.push(taken.as_secs_f64() / LAUNCHES as f64);
    }
    Ok(samples)
}

fn nodes_of(
    bench: &mut Bench,
    nodes: u64,
    wide: bool,
) -> Result<(cudarc::driver::CudaGraph, Memory), Refusal> {
    let kernel = bench.device.kernel("k_tiny")?;
    let words = Memory::new(4 * u64::from(bench.device.sms.max(64)))?;
    let grid = if wide { bench.device.sms } else { 1 };
    let device = &bench.device;
    let mut body = || {
        // SAFETY: one word for each block.
        unsafe { device.launch(&kernel, (grid, 1, 1), 32, arguments!(words.at)) }?;
        Ok(())
    };
    Ok((device.graph(nodes as usize, &mut body)?, words))
}

/// Seconds a node of a graph of this many.
pub(super) fn nodes(bench: &mut Bench, nodes: u64, wide: bool) -> Result<Vec<f64>, Refusal> {
    let (graph, _words) = nodes_of(bench, nodes, wide)?;
    let samples = bench.device.replay(&graph, 3, 9)?;
    Ok(samples
        .into_iter()
        .map(|seconds| seconds / nodes as f64)
        .collect())
}

/// The host's time to launch a graph of a hundred nodes.
pub(super) fn graph(bench: &mut Bench) -> Result<Vec<f64>, Refusal> {
    let (graph, _words) = nodes_of(bench, 100, false)?;
    bench.device.replay(&graph, 3, 1)?;
    let mut samples = Vec::new();
    for _ in 0..21 {
        let begun = Instant::now();
        super::device::said("cuGraphLaunch", graph.launch())?;
        samples.push(begun.elapsed().as_secs_f64());
        bench.device.wait()?;
    }
    Ok(samples)
}

/// From a launch to the host's knowing of its end.
pub(super) fn round_trip(bench: &mut Bench) -> Result<Vec<f64>, Refusal> {
    let kernel = bench.device.kernel("k_tiny")?;
    let word = Memory::new(4096)?;
    let device = &bench.device;
    let mut samples = Vec::new();
    for turn in 0..24 {
        let begun = Instant::now();
        // SAFETY: one word is written.
        unsafe { device.launch(&kernel, (1, 1, 1), 32, arguments!(word.at)) }?;
        device.wait()?;
        // The first ones load the kernel and wake the driver.
        if turn >= 3 {
            samples.push(begun.elapsed().as_secs_f64());
        }
    }
    Ok(samples)
}
