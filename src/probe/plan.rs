//! What is measured, on which sizes, and in which order: a list of points, drawn up before the GPU is touched.
//!
//! Points come in tiers; within a tier they are shuffled by a seed, so that a drift of the clock falls on no one kind
//! of point. Where time runs out the later tiers are dropped and named. Law: a plan depends on the card, the options
//! and the seed only.

mod point;

pub use point::{
    Format, HEAD_DIM, KV_BYTES_PER_TOKEN, KV_HEADS, PAGE, Point, QUERY_HEADS, Shape, Stream, Way,
};

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::facts::Gpu;

/// 2¹⁰, 2²⁰ and 2³⁰ bytes.
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Memory that is taken on the card. The same bytes serve all blocks in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Weights and streams, rotated through.
    pub arena: u64,
    /// KV pages, or outputs of products.
    pub kv: u64,
    /// Inputs of products, tables and partial results.
    pub scratch: u64,
}

/// Free memory below which the caches cannot be washed out and the large points do not fit.
pub const LEAST_FREE: u64 = 6 * GIB;

impl Buffers {
    /// What `gpu` can spare; a quarter of what is free each.
    #[must_use]
    pub fn on(gpu: &Gpu) -> Buffers {
        let quarter = gpu.memory_free / 4 / MIB * MIB;
        Buffers {
            arena: quarter.min(4 * GIB),
            kv: quarter.min(4400 * MIB),
            scratch: 512 * MIB,
        }
    }

    /// Whether a point finds room.
    #[must_use]
    pub fn hold(&self, point: Point) -> bool {
        match point {
            Point::Stream(Stream::Copy, bytes) => bytes <= self.arena && bytes <= self.kv,
            Point::Stream(Stream::Triad, bytes) => 2 * bytes <= self.arena && bytes <= self.kv,
            Point::Stream(_, bytes) => bytes <= self.arena,
            Point::Gemm(format, Shape { m, n, k }) | Point::GemmBest(format, Shape { m, n, k }) => {
                format.input_bytes() * n * k <= self.arena
                    && format.input_bytes() * m * k <= self.scratch
                    && format.output_bytes() * m * n <= self.kv
            }
            Point::Decode { batch, context, .. } | Point::KvRead { batch, context } => {
                batch * context * KV_BYTES_PER_TOKEN <= self.kv
            }
            _ => true,
        }
    }
}

/// What a user may choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Of the order of points and of all data.
    pub seed: u64,
    /// Wall time after which nothing new is begun, seconds.
    pub max_s: f64,
    /// Whether a disk is read, too.
    pub with_disk: bool,
}

/// Points in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is measured first to last; sentinels appear three times.
    pub points: Vec<Point>,
    /// Points that the card's memory cannot hold.
    pub left_out: Vec<Point>,
}

/// The product that is repeated at start, middle and end to see drift.
pub const SENTINEL_GEMM: Shape = Shape {
    m: 8192,
    n: 8192,
    k: 8192,
};
/// The read that is repeated with it.
pub const SENTINEL_READ: u64 = 256 * MIB;

/// Rows of the products.
pub const ROWS: [u64; 8] = [1, 16, 64, 128, 256, 512, 2048, 8192];
/// Output and input channels of the products.
pub const WEIGHTS: [(u64, u64); 8] = [
    (1024, 4096),
    (4096, 1024),
    (6144, 4096),
    (4096, 16384),
    (16384, 4096),
    (10240, 8192),
    (1024, 8192),
    (51200, 5120),
];
/// Sequences and KV tokens of the decode points.
const DECODE: [(u64, u64); 13] = [
    (1, 2048),
    (1, 8192),
    (1, 32768),
    (8, 512),
    (8, 2048),
    (8, 8192),
    (32, 512),
    (32, 2048),
    (32, 8192),
    (128, 512),
    (128, 2048),
    (128, 8192),
    (256, 1024),
];

/// Draws up the plan.
#[must_use]
pub fn plan(gpu: &Gpu, options: &Options) -> Plan {
    let buffers = Buffers::on(gpu);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    // The long product comes by itself: the card is hot after it.
    let long = vec![Point::GemmSustained(SENTINEL_GEMM)];
    let mut tiers = [essential(), long, useful(gpu), luxuries(gpu, options)];
    for tier in &mut tiers {
        tier.shuffle(&mut rng);
    }
    let all = tiers.into_iter().flatten();
    let (points, left_out): (Vec<Point>, Vec<Point>) = all.partition(|point| buffers.hold(*point));
    Plan {
        points: with_sentinels(points),
        left_out,
    }
}

/// The two points that show drift.
#[must_use]
pub fn sentinels() -> [Point; 2] {
    [
        Point::Gemm(Format::Bf16, SENTINEL_GEMM),
        Point::Stream(Stream::ReadCold, SENTINEL_READ),
    ]
}

fn with_sentinels(mut points: Vec<Point>) -> Vec<Point> {
    // The middle by number, which the points without which there is no file have come before.
    let middle = points.len() / 2;
    let tail = points.split_off(middle);
    let sentinels = sentinels();
    let parts = [&sentinels[..], &points, &sentinels, &tail, &sentinels];
    parts.concat()
}

fn gemms(format: Format) -> impl Iterator<Item = Point> {
    WEIGHTS
        .into_iter()
        .flat_map(move |(n, k)| ROWS.map(|m| Point::Gemm(format, Shape { m, n, k })))
}

/// Without these there is no calibration.
fn essential() -> Vec<Point> {
    let mut points: Vec<Point> = gemms(Format::Bf16).collect();
    // The sentinel's size is measured as such.
    let sizes = (16..=32).map(|power| 1_u64 << power);
    for bytes in sizes {
        if bytes != SENTINEL_READ {
            points.push(Point::Stream(Stream::ReadCold, bytes));
        }
        points.push(Point::Stream(Stream::ReadWarm, bytes));
    }
    for (batch, context) in DECODE {
        for group in [4, 8] {
            points.push(Point::Decode {
                batch,
                context,
                group,
            });
        }
    }
    for nodes in [1, 10, 100, 300, 1000] {
        points.extend([Point::GraphNode(nodes, false), Point::GraphNode(nodes, true)]);
    }
    points.extend([
        Point::EagerSubmit,
        Point::EagerGap,
        Point::GraphLaunch,
        Point::Sync,
    ]);
    for way in [Way::In, Way::Out] {
        points.extend([4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB].map(|bytes| Point::Link(way, bytes)));
    }
    points
}

fn useful(gpu: &Gpu) -> Vec<Point> {
    let mut points = Vec::new();
    if gpu.has_fp8() {
        points.extend(gemms(Format::Fp8));
    }
    for bytes in [MIB, 16 * MIB, 256 * MIB, GIB, 4 * GIB] {
        points.extend([Stream::Write, Stream::Copy].map(|stream| Point::Stream(stream, bytes)));
    }
    // Two of its arrays lie in the arena.
    for bytes in [MIB, 16 * MIB, 256 * MIB, GIB] {
        points.push(Point::Stream(Stream::Triad, bytes));
    }
    points.extend([512, 1024, 2048, 4096, 8192, 16384].map(Point::Prefill));
    points.extend(DECODE.map(|(batch, context)| Point::KvRead { batch, context }));
    points.extend([
        // A sixteenth is near every SM, too, where the L2 has two halves that each keep a copy.
        Point::Chase(gpu.l2_bytes / 16 / 128 * 128),
        Point::Chase((4 * gpu.l2_bytes).clamp(64 * MIB, 512 * MIB)),
    ]);
    points.extend([MIB, 16 * MIB, 64 * MIB].map(|bytes| Point::Link(Way::Both, bytes)));
    points.extend([
        Point::Pieces,
        Point::Pageable(64 * MIB),
        Point::ZeroCopy(64 * MIB),
    ]);
    points
}

fn luxuries(gpu: &Gpu, options: &Options) -> Vec<Point> {
    let mut points: Vec<Point> = gemms(Format::Int8).collect();
    points.push(Point::GemmZeros(SENTINEL_GEMM));
    for m in [16, 256] {
        points.extend([0, 2, 3, 5].map(|i| {
            let (n, k) = WEIGHTS[i];
            Point::GemmBest(Format::Bf16, Shape { m, n, k })
        }));
    }
    for from in 0..gpu.peers {
        for to in (0..gpu.peers).filter(|to| *to != from) {
            points.extend([64 * KIB, 64 * MIB].map(|bytes| Point::PeerCopy(from, to, bytes)));
        }
    }
    if options.with_disk {
        for bytes in [128 * KIB, MIB, 4 * MIB] {
            points.extend([1, 4, 16].map(|depth| Point::Disk(bytes, depth)));
        }
    }
    points
}

/// How often an operation is called in one sample, and how many samples are taken, once about `one_s` is known for one.
///
/// A sample lasts 2 ms, against half a microsecond of the timer; a point 120 ms at most, and never less than 3 samples.
#[must_use]
pub fn sizing(one_s: f64) -> (usize, usize) {
    let one_s = one_s.max(1e-7);
    let calls = (2e-3 / one_s).ceil().clamp(1.0, 1000.0);
    let samples = (0.12 / (calls * one_s)).floor().clamp(3.0, 9.0);
    (calls as usize, samples as usize)
}

#[cfg(test)]
mod tests {
    use super::super::facts::testing::h200;
    use super::*;

    fn options() -> Options {
        Options {
            seed: 1,
            max_s: 60.0,
            with_disk: false,
        }
    }

    fn count(plan: &Plan, block: &str) -> usize {
        plan.points.iter().filter(|point| point.block() == block).count()
    }

    #[test]
    fn an_h200_gets_64_products_a_format_and_the_sentinels_thrice() {
        let plan = plan(&h200(), &options());
        assert_eq!(count(&plan, "gemm.bf16"), 64 + 3);
        assert_eq!(count(&plan, "gemm.fp8"), 64);
        assert_eq!(count(&plan, "gemm.int8"), 64);
        assert_eq!(count(&plan, "attention.decode"), 39);
        assert_eq!(plan.left_out, [], "141 GB hold everything");
        let expected: f64 = plan.points.iter().map(|point| point.expected_s()).sum();
        assert!(expected < 50.0, "{expected} s would not end before the cap");
    }

    #[test]
    fn the_seed_orders_within_tiers_and_nothing_else() {
        let (a, again) = (plan(&h200(), &options()), plan(&h200(), &options()));
        assert_eq!(a, again);
        let other = plan(&h200(), &Options { seed: 2, ..options() });
        assert_ne!(a.points, other.points);
        let first_fp8 = a.points.iter().position(|p| p.block() == "gemm.fp8").unwrap();
        let last_bf16_weights = a
            .points
            .iter()
            .rposition(|p| matches!(p, Point::Gemm(Format::Bf16, shape) if *shape != SENTINEL_GEMM));
        assert!(last_bf16_weights.unwrap() < first_fp8);
    }

    #[test]
    fn a_small_card_leaves_out_what_it_cannot_hold_and_says_so() {
        let mut small = h200();
        small.memory_free = 8 * GIB;
        let plan = plan(&small, &options());
        assert!(plan.left_out.contains(&Point::Stream(Stream::ReadCold, 4 * GIB)));
        let buffers = Buffers::on(&small);
        assert!(plan.points.iter().all(|point| buffers.hold(*point)));
        assert!(count(&plan, "gemm.bf16") > 60);
    }

    #[test]
    fn a_card_without_fp8_is_not_asked_for_it() {
        let mut ampere = h200();
        ampere.capability = (8, 0);
        assert_eq!(count(&plan(&ampere, &options()), "gemm.fp8"), 0);
    }

    #[test]
    fn samples_are_long_enough_and_points_short_enough() {
        assert_eq!(sizing(2e-6), (1000, 9));
        assert_eq!(sizing(1e-4), (20, 9));
        assert_eq!(sizing(20e-3), (1, 6));
        assert_eq!(sizing(1.0), (1, 3));
        assert_eq!(sizing(0.0).1, 9);
    }
}
