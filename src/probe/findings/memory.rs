//! The GPU's memory: rates of its streams, the fixed time of a read, latencies of dependent loads.

use super::super::course::Course;
use super::super::facts::Gpu;
use super::super::fit::lines;
use super::super::plan::{Point, Stream};
use super::super::sample::Estimate;

/// The GPU's memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// bytes/s by the key of a file: of the largest of each kernel, and of the L2 by the slope.
    pub rates: Vec<(&'static str, Estimate)>,
    /// Fixed time of a read, seconds.
    pub t0: Option<Estimate>,
    /// One dependent load in the L2 and in memory, seconds.
    pub latency: [Option<Estimate>; 2],
    /// (bytes, seconds) cold.
    pub cold: Vec<(u64, Estimate)>,
    /// The same bytes again.
    pub warm: Vec<(u64, Estimate)>,
}

/// Fits the streams and the loads one after the other.
pub(super) fn memory(course: &Course, gpu: &Gpu) -> Memory {
    let curve = |stream: Stream| curve(course, stream);
    let rate_of_largest = |stream: Stream| {
        let (bytes, seconds) = curve(stream).pop()?;
        let moved = Point::Stream(stream, bytes).bytes();
        Some(seconds.map(|seconds| moved / seconds))
    };
    let (cold, warm) = (curve(Stream::ReadCold), curve(Stream::ReadWarm));
    // The slope of time over bytes, which leaves the launch out. Of more than a sixth of the L2 some may be gone: an H200, whose L2
    // has two halves, read 16 of its 60 MB at 5 TB/s in one run and at memory's rate in the next.
    let in_l2: Vec<(f64, f64)> = warm
        .iter()
        .filter(|(bytes, _)| *bytes <= gpu.l2_bytes / 6)
        .map(|(bytes, seconds)| (*bytes as f64, seconds.value))
        .collect();
    let l2 = lines::line(&in_l2).map(|line| line.bytes_per_s);
    let rates = [
        ("read_gbs", rate_of_largest(Stream::ReadCold)),
        ("write_gbs", rate_of_largest(Stream::Write)),
        ("copy_gbs", rate_of_largest(Stream::Copy)),
        ("triad_gbs", rate_of_largest(Stream::Triad)),
        ("l2_read_gbs", l2),
    ];
    let points: Vec<(f64, f64)> = cold.iter().map(|(bytes, s)| (*bytes as f64, s.value)).collect();
    Memory {
        rates: rates
            .into_iter()
            .filter_map(|(key, rate)| Some((key, rate?)))
            .collect(),
        t0: lines::line(&points).map(|line| line.alpha),
        latency: latencies(course, gpu.l2_bytes),
        cold,
        warm,
    }
}

/// (bytes, seconds) of one kernel, ascending, each size once.
fn curve(course: &Course, stream: Stream) -> Vec<(u64, Estimate)> {
    let mut points: Vec<(u64, Estimate)> = Vec::new();
    for timed in &course.timed {
        match timed.point {
            Point::Stream(kind, bytes) if kind == stream && !points.iter().any(|(b, _)| *b == bytes) => {
                points.push((bytes, timed.estimate()));
            }
            _ => {}
        }
    }
    points.sort_by_key(|(bytes, _)| *bytes);
    points
}

/// One dependent load in the L2 and in memory.
fn latencies(course: &Course, l2_bytes: u64) -> [Option<Estimate>; 2] {
    let mut chases: Vec<(f64, Estimate)> = course
        .timed
        .iter()
        .filter(|timed| matches!(timed.point, Point::Chase(_)))
        .map(|timed| (timed.point.bytes(), timed.estimate()))
        .collect();
    chases.sort_by(|a, b| a.0.total_cmp(&b.0));
    let chase = |is_in_l2: bool| {
        let found = chases
            .iter()
            .find(|(bytes, _)| (*bytes <= l2_bytes as f64) == is_in_l2);
        found.map(|(_, seconds)| *seconds)
    };
    [chase(true), chase(false)]
}
