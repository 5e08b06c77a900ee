//! What a course says of the card: parameters, block by block, each with its interval.
//!
//! Also whether the card was itself meanwhile ([`blemishes`]): no drift, no heat, no neighbour, a clock near its usual one.

mod attention;
mod blemishes;
mod gemm;
mod host;
mod memory;

pub use self::attention::Pages;
pub use self::blemishes::{MOST_DRIFT, blemishes};
pub use self::gemm::Gemm;
pub use self::host::{Launch, Link};
pub use self::memory::Memory;

use super::ProbeError;
use super::course::Course;
use super::facts::Gpu;
use super::fit::gemm::FEWEST;
use super::fit::lines::DecodeFit;
use super::plan::{Format, Point};

/// Everything that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Streams through the GPU's memory.
    pub memory: Memory,
    /// Products, per format that was measured.
    pub gemm: Vec<Gemm>,
    /// Decode attention.
    pub decode: Option<DecodeFit>,
    /// The same KV read by a kernel that only reads, and by decode.
    pub pages: Vec<Pages>,
    /// (tokens, FLOP/s) of the prefill kernel, which is a stand-in for an engine's.
    pub prefill_proxy: Vec<(u64, f64)>,
    /// Launches.
    pub launch: Launch,
    /// The host link.
    pub link: Link,
    /// (block bytes, in flight, bytes/s).
    pub disk: Vec<(u64, u64, f64)>,
    /// (from, to, bytes, seconds) between GPUs.
    pub peer: Vec<(u32, u32, u64, f64)>,
    /// Largest spread of a sentinel.
    pub drift: f64,
}

/// Fits everything.
///
/// # Errors
/// If there are too few bf16 products for a calibration.
pub fn find(course: &Course, gpu: &Gpu) -> Result<Findings, ProbeError> {
    let gemm: Vec<Gemm> = Format::ALL
        .into_iter()
        .map(|format| gemm::products(course, format))
        .collect();
    if gemm[0].fit.is_none() {
        return Err(ProbeError::TooFew {
            measured: gemm[0].rows.len(),
            wanted: FEWEST,
        });
    }
    let timed = || {
        course
            .timed
            .iter()
            .map(|timed| (timed.point, timed.estimate().value))
    };
    let of_disk = |(point, seconds)| match point {
        Point::Disk(bytes, depth) => Some((bytes, depth, bytes as f64 / seconds)),
        _ => None,
    };
    let mut disk: Vec<(u64, u64, f64)> = timed().filter_map(of_disk).collect();
    disk.sort_by_key(|(bytes, depth, _)| (*bytes, *depth));
    let of_peer = |(point, seconds)| match point {
        Point::PeerCopy(from, to, bytes) => Some((from, to, bytes, seconds)),
        _ => None,
    };
    Ok(Findings {
        memory: memory::memory(course, gpu),
        gemm,
        decode: attention::decode(course),
        pages: attention::pages(course),
        prefill_proxy: attention::prefill_proxy(course),
        launch: host::launch(course),
        link: host::link(course),
        disk,
        peer: timed().filter_map(of_peer).collect(),
        drift: course.drift(),
    })
}

impl Findings {
    /// Bandwidth of decode attention on the most KV, over that of a plain read. Below 0.85 the kernel, not the memory, is
    /// what was measured.
    #[must_use]
    pub fn decode_over_read(&self) -> Option<f64> {
        let (_, read) = self.memory.rates.iter().find(|(key, _)| *key == "read_gbs")?;
        let most = self
            .pages
            .iter()
            .max_by(|a, b| a.kv_bytes.total_cmp(&b.kv_bytes))?;
        Some(most.kv_bytes / most.decode / read.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::course::{follow, testing::MadeUp};
    use crate::probe::facts::testing::h200;
    use crate::probe::plan::{Options, plan};

    fn found(max_s: f64) -> Result<Findings, ProbeError> {
        let options = Options {
            seed: 1,
            max_s,
            with_disk: true,
        };
        let course = follow(&plan(&h200(), &options), max_s, &mut MadeUp::default())?;
        find(&course, &h200())
    }

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!(
            (found / expected - 1.0).abs() < tolerance,
            "{found}, not {expected}"
        );
    }

    #[test]
    fn a_made_up_h200_is_found_again() {
        let found = found(100.0).unwrap();
        let rate = |key: &str| {
            found
                .memory
                .rates
                .iter()
                .find(|(k, _)| *k == key)
                .unwrap()
                .1
                .value
        };
        near(rate("read_gbs"), 4220e9, 0.01);
        near(rate("l2_read_gbs"), 7000e9, 0.01);
        near(found.memory.latency[0].unwrap().value, 270e-9, 1e-6);
        near(found.memory.latency[1].unwrap().value, 700e-9, 1e-6);
        let bf16 = &found.gemm[0];
        near(bf16.fit.as_ref().unwrap().flops_per_s.value, 776e12, 0.01);
        near(bf16.sustained_over_burst.unwrap(), 0.95, 1e-6);
        near(bf16.zeros_over_random.unwrap(), 1.13, 1e-6);
        near(bf16.best_of_8_over_first.unwrap(), 0.97, 1e-6);
        let decode = found.decode.as_ref().unwrap();
        near(decode.bytes_per_s.value, 4370e9, 1e-3);
        near(decode.per_seq_head.value, 16e-9, 1e-3);
        near(found.launch.node[0].unwrap(), 1.4e-6, 0.02);
        near(found.launch.node[1].unwrap(), 1.8e-6, 0.02);
        near(found.link.h2d.unwrap().bytes_per_s.value, 55e9, 1e-3);
        near(found.link.per_copy.unwrap().value, 1.9e-6, 1e-6);
        near(found.decode_over_read().unwrap(), 1.03, 0.02);
        assert_eq!((found.disk.len(), found.pages.len()), (9, 13));
        assert_eq!(found.prefill_proxy.len(), 6);
    }

    #[test]
    fn too_little_time_is_an_error_with_a_remedy() {
        let error = found(8.0).unwrap_err().to_string();
        assert!(error.contains("--max-seconds"), "{error}");
    }
}
