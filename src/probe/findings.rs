//! What a course says of the card: parameters, block by block, each with its interval.
//!
//! Also whether the card was itself meanwhile ([`blemishes`]): no drift, no heat, no neighbour, a clock near its usual one.

use super::ProbeError;
use super::course::{Course, Timed};
use super::facts::{Gpu, Instruments};
use super::fit::gemm::{self, C5Fit, Row};
use super::fit::lines::{self, DecodeFit, DecodeRow, Line};
use super::plan::{Format, HEAD_DIM, KV_HEADS, Point, QUERY_HEADS, SENTINEL_GEMM, Stream, Way};
use super::sample::Estimate;

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

/// KV pages in a shuffled order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Sequences.
    pub batch: u64,
    /// KV tokens of each.
    pub context: u64,
    /// Bytes of all of them.
    pub kv_bytes: f64,
    /// Seconds of the kernel that only reads them.
    pub read: f64,
    /// Seconds of decode attention, eight query heads a KV head.
    pub decode: f64,
}

/// The GPU's memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// bytes/s of the largest of each kernel, by the key of a file.
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

/// Products of one format.
#[derive(Clone, Debug, PartialEq)]
pub struct Gemm {
    /// Which.
    pub format: Format,
    /// The fit, where enough points were measured.
    pub fit: Option<C5Fit>,
    /// Why there are no points, where there are none.
    pub refusal: Option<String>,
    /// The points.
    pub rows: Vec<Row>,
    /// Compute rate after seconds over that of a burst.
    pub sustained_over_burst: Option<f64>,
    /// Rate on zeros over that on random numbers.
    pub zeros_over_random: Option<f64>,
    /// Time of the best of eight algorithms over the library's first.
    pub best_of_8_over_first: Option<f64>,
}

/// Launch costs in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Launch {
    /// Host's time to submit one kernel.
    pub eager_submit: Option<Estimate>,
    /// Time between two kernels submitted one by one.
    pub eager_gap: Option<Estimate>,
    /// Host's time to launch a graph.
    pub graph_launch: Option<Estimate>,
    /// One more node of a graph: on one block, on one for each SM.
    pub node: [Option<f64>; 2],
    /// From launch to the host's knowing of the end.
    pub sync: Option<Estimate>,
}

/// The host link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Host to device.
    pub h2d: Option<Line>,
    /// Device to host.
    pub d2h: Option<Line>,
    /// Sum of both directions at once, bytes/s.
    pub both: Option<Estimate>,
    /// One of many small copies, seconds.
    pub per_copy: Option<Estimate>,
    /// A kernel's writes to host memory, bytes/s.
    pub zero_copy: Option<Estimate>,
    /// Copies from memory that is not pinned, bytes/s.
    pub pageable: Option<Estimate>,
}

/// Fits everything.
///
/// # Errors
/// If there are too few bf16 products for a calibration.
pub fn find(course: &Course, gpu: &Gpu) -> Result<Findings, ProbeError> {
    let gemm: Vec<Gemm> = Format::ALL
        .into_iter()
        .map(|format| products(course, format))
        .collect();
    if gemm[0].fit.is_none() {
        return Err(ProbeError::TooFew {
            measured: gemm[0].rows.len(),
            wanted: gemm::FEWEST,
        });
    }
    let timed = |pick: &dyn Fn(Point) -> bool| -> Vec<(Point, f64)> {
        let picked = course.timed.iter().filter(|timed| pick(timed.point));
        picked
            .map(|timed| (timed.point, timed.estimate().value))
            .collect()
    };
    let mut disk = timed(&|point| matches!(point, Point::Disk(..)));
    disk.sort_by(|(a, _), (b, _)| a.bytes().total_cmp(&b.bytes()));
    let peer = timed(&|point| matches!(point, Point::PeerCopy(..)));
    Ok(Findings {
        memory: memory(course, gpu),
        gemm,
        decode: decode(course),
        pages: pages(course),
        prefill_proxy: prefill_proxy(course),
        launch: launch(course),
        link: link(course),
        disk: disk
            .into_iter()
            .filter_map(|(point, seconds)| match point {
                Point::Disk(bytes, depth) => Some((bytes, depth, bytes as f64 / seconds)),
                _ => None,
            })
            .collect(),
        peer: peer
            .into_iter()
            .filter_map(|(point, seconds)| match point {
                Point::PeerCopy(from, to, bytes) => Some((from, to, bytes, seconds)),
                _ => None,
            })
            .collect(),
        drift: course.drift(),
    })
}

fn memory(course: &Course, gpu: &Gpu) -> Memory {
    let curve = |stream: Stream| {
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
    };
    let rate_of_largest = |stream: Stream| {
        let (bytes, seconds) = curve(stream).pop()?;
        let moved = Point::Stream(stream, bytes).bytes();
        Some(seconds.map(|seconds| moved / seconds))
    };
    let (cold, warm) = (curve(Stream::ReadCold), curve(Stream::ReadWarm));
    // The plateau of the L2: large enough to hide the launch, small enough to stay in.
    let in_l2 = |(bytes, seconds): &(u64, Estimate)| {
        (*bytes <= gpu.l2_bytes / 2).then(|| seconds.map(|seconds| *bytes as f64 / seconds))
    };
    let l2 = warm.iter().filter_map(in_l2).next_back();
    let rates = [
        ("read_gbs", rate_of_largest(Stream::ReadCold)),
        ("write_gbs", rate_of_largest(Stream::Write)),
        ("copy_gbs", rate_of_largest(Stream::Copy)),
        ("triad_gbs", rate_of_largest(Stream::Triad)),
        ("l2_read_gbs", l2),
    ];
    let points: Vec<(f64, f64)> = cold.iter().map(|(bytes, s)| (*bytes as f64, s.value)).collect();
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
            .find(|(bytes, _)| (*bytes <= gpu.l2_bytes as f64) == is_in_l2);
        found.map(|(_, seconds)| *seconds)
    };
    Memory {
        rates: rates
            .into_iter()
            .filter_map(|(key, rate)| Some((key, rate?)))
            .collect(),
        t0: lines::line(&points).map(|line| line.alpha),
        latency: [chase(true), chase(false)],
        cold,
        warm,
    }
}

fn products(course: &Course, format: Format) -> Gemm {
    let mut rows: Vec<Row> = Vec::new();
    for timed in &course.timed {
        match timed.point {
            // A sentinel is no point of the fit: it would count thrice.
            Point::Gemm(of, shape) if of == format && shape != SENTINEL_GEMM => rows.push(Row {
                shape,
                seconds: timed.estimate(),
            }),
            _ => {}
        }
    }
    rows.sort_by_key(|row| (row.shape.n, row.shape.k, row.shape.m));
    let refusal = course.unsupported.iter().find_map(|(point, why)| match point {
        Point::Gemm(of, _) if *of == format => Some(why.clone()),
        _ => None,
    });
    let burst = course.sentinel(Point::Gemm(Format::Bf16, SENTINEL_GEMM));
    let burst = burst.first().copied();
    let over_burst = |point: Point| Some(burst? / course.median(point)?.value);
    let is_bf16 = format == Format::Bf16;
    Gemm {
        format,
        fit: gemm::fit(format, &rows),
        refusal: refusal.filter(|_| rows.len() < gemm::FEWEST),
        sustained_over_burst: over_burst(Point::GemmSustained(SENTINEL_GEMM)),
        zeros_over_random: over_burst(Point::GemmZeros(SENTINEL_GEMM)).filter(|_| is_bf16),
        best_of_8_over_first: best_of_8(course).filter(|_| is_bf16),
        rows,
    }
}

fn best_of_8(course: &Course) -> Option<f64> {
    let ratios: Vec<f64> = course
        .timed
        .iter()
        .filter_map(|timed| match timed.point {
            Point::GemmBest(format, shape) => {
                let first = course.median(Point::Gemm(format, shape))?;
                Some(timed.estimate().value / first.value)
            }
            _ => None,
        })
        .collect();
    crate::stats::quantile(&ratios, 0.5)
}

fn decode(course: &Course) -> Option<DecodeFit> {
    // The machine rotates through pages over five times the L2, so that small batches are cold, too.
    let rows: Vec<DecodeRow> = course
        .timed
        .iter()
        .filter_map(|timed| match timed.point {
            Point::Decode { batch, context, .. } => Some(DecodeRow {
                seq_heads: (batch * KV_HEADS) as f64,
                longest: context as f64,
                kv_bytes: timed.point.bytes(),
                seconds: timed.estimate().value,
            }),
            _ => None,
        })
        .collect();
    lines::decode(&rows)
}

fn pages(course: &Course) -> Vec<Pages> {
    let both = |timed: &Timed| match timed.point {
        Point::KvRead { batch, context } => {
            let decode = Point::Decode {
                batch,
                context,
                group: 8,
            };
            Some(Pages {
                batch,
                context,
                kv_bytes: timed.point.bytes(),
                read: timed.estimate().value,
                decode: course.median(decode)?.value,
            })
        }
        _ => None,
    };
    let mut pages: Vec<Pages> = course.timed.iter().filter_map(both).collect();
    pages.sort_by_key(|page| (page.batch, page.context));
    pages
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

fn prefill_proxy(course: &Course) -> Vec<(u64, f64)> {
    let mut rates: Vec<(u64, f64)> = course
        .timed
        .iter()
        .filter_map(|timed| match timed.point {
            Point::Prefill(tokens) => {
                // Causal: half of 4·S²·H·d.
                let flops = 2.0 * (tokens * tokens * QUERY_HEADS * HEAD_DIM) as f64;
                Some((tokens, flops / timed.estimate().value))
            }
            _ => None,
        })
        .collect();
    rates.sort_by_key(|(tokens, _)| *tokens);
    rates
}

fn launch(course: &Course) -> Launch {
    let node = |wide: bool| {
        let points: Vec<(f64, f64)> = course
            .timed
            .iter()
            .filter_map(|timed| match timed.point {
                Point::GraphNode(nodes, of) if of == wide => {
                    Some((nodes as f64, nodes as f64 * timed.estimate().value))
                }
                _ => None,
            })
            .collect();
        lines::line(&points).map(|line| 1.0 / line.bytes_per_s.value)
    };
    Launch {
        eager_submit: course.median(Point::EagerSubmit),
        eager_gap: course.median(Point::EagerGap),
        graph_launch: course.median(Point::GraphLaunch),
        node: [node(false), node(true)],
        sync: course.median(Point::Sync),
    }
}

fn link(course: &Course) -> Link {
    let fitted = |way: Way| {
        let picked = course
            .timed
            .iter()
            .filter(|timed| matches!(timed.point, Point::Link(of, _) if of == way));
        let points: Vec<(f64, f64)> = picked
            .map(|timed| (timed.point.bytes(), timed.estimate().value))
            .collect();
        lines::line(&points)
    };
    let rate = |pick: &dyn Fn(Point) -> bool, directions: f64| {
        let picked = course.timed.iter().filter(|timed| pick(timed.point));
        let largest = picked.max_by(|a, b| a.point.bytes().total_cmp(&b.point.bytes()))?;
        let bytes = directions * largest.point.bytes();
        Some(largest.estimate().map(|seconds| bytes / seconds))
    };
    Link {
        h2d: fitted(Way::In),
        d2h: fitted(Way::Out),
        both: rate(&|point| matches!(point, Point::Link(Way::Both, _)), 2.0),
        per_copy: course.median(Point::Pieces),
        zero_copy: rate(&|point| matches!(point, Point::ZeroCopy(_)), 1.0),
        pageable: rate(&|point| matches!(point, Point::Pageable(_)), 1.0),
    }
}

/// Drift of the sentinels above which a result is no steady card's.
pub const MOST_DRIFT: f64 = 0.03;

/// What keeps a result from being a picture of this card at rest from others; nothing where it is clean.
#[must_use]
pub fn blemishes(gpu: &Gpu, instruments: &Instruments, drift: f64) -> Vec<String> {
    let mut found = Vec::new();
    if drift >= MOST_DRIFT {
        found.push(format!("the sentinels drifted by {:.1} %", 100.0 * drift));
    }
    if let Some(reason) = instruments.spoilt_by() {
        found.push(format!("the card lowered its clock: {reason}"));
    }
    if gpu.is_mig {
        found.push("this is a MIG slice, not a card".to_owned());
    }
    if let Some(others @ 1..) = gpu.other_processes {
        found.push(format!("{others} other process(es) computed on the card"));
    }
    if let (Some(burst), Some(most)) = (instruments.sm_burst, instruments.sm_max)
        && f64::from(burst) < 0.6 * f64::from(most)
    {
        found.push(format!(
            "the SM clock was {burst} MHz in a burst, of {most}: somebody may have locked it"
        ));
    }
    found
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
        near(
            rate("l2_read_gbs"),
            (1 << 24) as f64 / (2e-6 + (1 << 24) as f64 / 7000e9),
            0.01,
        );
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

    #[test]
    fn each_blemish_is_named() {
        assert_eq!(
            blemishes(&h200(), &Instruments::default(), 0.01),
            Vec::<String>::new()
        );
        let mut shared = h200();
        shared.is_mig = true;
        shared.other_processes = Some(2);
        let hot = Instruments {
            throttle_bits: 0x40,
            sm_burst: Some(900),
            sm_max: Some(1980),
            ..Instruments::default()
        };
        assert_eq!(blemishes(&shared, &hot, 0.05).len(), 5);
    }
}
