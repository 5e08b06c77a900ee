//! The course of a probe: point after point until the plan or the time ends, wide intervals once more, drift watched.
//!
//! The machine is a trait, so that the course is tested on one that is made up. Law: after the cap nothing new is begun, and
//! what was not measured is named.

use super::ProbeError;
use super::plan::{Plan, Point, sentinels};
use super::sample::Estimate;

/// What times points.
pub trait Machine {
    /// Samples of one point, in seconds for one operation.
    ///
    /// # Errors
    /// [`Refusal::Unsupported`] where this card or library cannot do it, which is a result; anything else ends the probe.
    fn time(&mut self, point: Point) -> Result<Vec<f64>, Refusal>;
    /// Seconds since the command began.
    fn elapsed_s(&self) -> f64;
    /// Told before each point how many are done; says whether to go on.
    fn goes_on(&mut self, done: usize) -> bool;
}

/// Why a point has no samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The card or a library does not do this.
    Unsupported(String),
    /// The probe cannot go on.
    Fatal(ProbeError),
}

impl From<ProbeError> for Refusal {
    fn from(error: ProbeError) -> Refusal {
        Refusal::Fatal(error)
    }
}

/// One point and its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    /// What was timed.
    pub point: Point,
    /// Seconds for one operation, in the order in which they were taken.
    pub samples: Vec<f64>,
}

impl Timed {
    /// The median and its interval.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        Estimate::of(&self.samples).expect("a timed point has samples")
    }
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Every point with samples, sentinels three times, in the order of time.
    pub timed: Vec<Timed>,
    /// Points that the card or a library refused, with its words.
    pub unsupported: Vec<(Point, String)>,
    /// Points that time did not suffice for.
    pub skipped: Vec<Point>,
    /// Points that were measured twice because their interval was wide.
    pub repeated: usize,
    /// Seconds from the start to the end.
    pub wall_s: f64,
}

/// Half-width over median above which a point is measured once more.
const WIDE: f64 = 0.03;
/// Kept back for the last sentinels, the fit and the file, seconds.
const RESERVE_S: f64 = 4.0;

/// Measures a plan within `max_s` seconds of wall time.
///
/// # Errors
/// If the machine fails, or the user wants to stop.
pub fn follow(plan: &Plan, max_s: f64, machine: &mut dyn Machine) -> Result<Course, ProbeError> {
    let mut course = Course::default();
    let end = max_s - RESERVE_S;
    let last = plan.points.len().saturating_sub(sentinels().len());
    for (done, point) in plan.points.iter().copied().enumerate() {
        if !machine.goes_on(done) {
            return Err(ProbeError::Interrupted);
        }
        // The sentinels at the end are worth more than any point before them; the reserve is for them.
        let is_last = done >= last && machine.elapsed_s() < max_s - 1.0;
        if !is_last && machine.elapsed_s() + point.expected_s() > end {
            course.skipped.push(point);
            continue;
        }
        match machine.time(point) {
            Ok(samples) if samples.is_empty() => course.skipped.push(point),
            Ok(samples) => course.timed.push(Timed { point, samples }),
            Err(Refusal::Unsupported(why)) => course.unsupported.push((point, why)),
            Err(Refusal::Fatal(error)) => return Err(error),
        }
    }
    repeat_wide(&mut course, end, plan.points.len(), machine)?;
    course.wall_s = machine.elapsed_s();
    Ok(course)
}

/// Measures wide points once more and keeps the narrower of the two.
fn repeat_wide(
    course: &mut Course,
    end: f64,
    done: usize,
    machine: &mut dyn Machine,
) -> Result<(), ProbeError> {
    for index in 0..course.timed.len() {
        let Timed { point, .. } = course.timed[index];
        let before = course.timed[index].estimate().relative_half_width();
        let is_costly = matches!(point, Point::GemmSustained(_) | Point::Disk(..));
        let is_sentinel = sentinels().contains(&point);
        if before <= WIDE || is_costly || is_sentinel || machine.elapsed_s() + point.expected_s() > end {
            continue;
        }
        if !machine.goes_on(done) {
            return Err(ProbeError::Interrupted);
        }
        let again = match machine.time(point) {
            Ok(samples) if !samples.is_empty() => Timed { point, samples },
            Ok(_) | Err(Refusal::Unsupported(_)) => continue,
            Err(Refusal::Fatal(error)) => return Err(error),
        };
        course.repeated += 1;
        if again.estimate().relative_half_width() < before {
            course.timed[index] = again;
        }
    }
    Ok(())
}

impl Course {
    /// The median of a point that was timed, the last one where it was timed several times.
    #[must_use]
    pub fn median(&self, point: Point) -> Option<Estimate> {
        let timed = self.timed.iter().rev().find(|timed| timed.point == point);
        timed.map(Timed::estimate)
    }

    /// The medians of a sentinel from start to end.
    #[must_use]
    pub fn sentinel(&self, point: Point) -> Vec<f64> {
        let timed = self.timed.iter().filter(|timed| timed.point == point);
        timed.map(|timed| timed.estimate().value).collect()
    }

    /// Largest spread of a sentinel over its least value.
    #[must_use]
    pub fn drift(&self) -> f64 {
        let spread = |point: Point| {
            let medians = self.sentinel(point);
            let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
            let most = medians.iter().copied().fold(0.0, f64::max);
            if medians.len() < 2 {
                0.0
            } else {
                most / least - 1.0
            }
        };
        sentinels().into_iter().map(spread).fold(0.0, f64::max)
    }

    /// Names of the blocks of which something was skipped, each once.
    #[must_use]
    pub fn skipped_blocks(&self) -> Vec<&'static str> {
        let mut blocks: Vec<&str> = self.skipped.iter().map(|point| point.block()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }
}

#[cfg(test)]
pub(in crate::probe) mod testing {
    use super::*;
    use crate::probe::fit::gemm::testing::true_seconds;
    use crate::probe::plan::{Format, KV_HEADS, Stream};

    /// A machine that follows the forms of the cost model with an H200's numbers; time passes as points expect.
    pub(in crate::probe) struct MadeUp {
        pub(in crate::probe) clock_s: f64,
        pub(in crate::probe) calls: usize,
        pub(in crate::probe) without_fp8: bool,
        pub(in crate::probe) stop_after: usize,
        /// Each second makes everything slower by this share.
        pub(in crate::probe) warming: f64,
    }

    impl Default for MadeUp {
        fn default() -> MadeUp {
            MadeUp {
                clock_s: 3.0,
                calls: 0,
                without_fp8: false,
                stop_after: usize::MAX,
                warming: 0.0,
            }
        }
    }

    fn truth(point: Point) -> f64 {
        let bytes = point.bytes();
        match point {
            Point::Stream(Stream::ReadWarm, size) if size < 30 << 20 => 2.0e-6 + bytes / 7000e9,
            Point::Stream(..) => 2.1e-6 + bytes / 4220e9,
            Point::Chase(size) if size < 60 << 20 => 270e-9,
            Point::Chase(_) => 700e-9,
            Point::Gemm(format, shape) => true_seconds(format, shape),
            Point::GemmBest(format, shape) => 0.97 * true_seconds(format, shape),
            Point::GemmZeros(shape) => true_seconds(Format::Bf16, shape) / 1.13,
            Point::GemmSustained(shape) => true_seconds(Format::Bf16, shape) / 0.95,
            Point::Decode { batch, context, .. } => {
                5e-6 + 16e-9 * (batch * KV_HEADS) as f64 + 0.13e-9 * context as f64 + bytes / 4370e9
            }
            Point::KvRead { .. } => 3e-6 + bytes / 4400e9,
            Point::Prefill(tokens) => 1e-5 + 2.0 * (tokens * tokens) as f64 * 32.0 * 128.0 / 310e12,
            Point::EagerSubmit => 2.3e-6,
            Point::EagerGap => 2.6e-6,
            Point::GraphNode(nodes, wide) => 7e-6 / nodes as f64 + if wide { 1.8e-6 } else { 1.4e-6 },
            Point::GraphLaunch => 7e-6,
            Point::Sync => 9e-6,
            Point::Pieces => 1.9e-6,
            Point::Pageable(_) => bytes / 8e9,
            Point::ZeroCopy(_) => bytes / 45e9,
            Point::Link(..) => 7e-6 + bytes / 55e9,
            Point::Disk(..) => bytes / 3e9,
            Point::PeerCopy(..) => 8e-6 + bytes / 380e9,
        }
    }

    impl Machine for MadeUp {
        fn time(&mut self, point: Point) -> Result<Vec<f64>, Refusal> {
            self.calls += 1;
            self.clock_s += point.expected_s();
            if self.without_fp8 && matches!(point, Point::Gemm(Format::Fp8, _)) {
                return Err(Refusal::Unsupported("no algorithm".to_owned()));
            }
            let seconds = truth(point) * (1.0 + self.warming * self.clock_s);
            Ok((0..9)
                .map(|i| seconds * (1.0 + 0.001 * (f64::from(i) - 4.0)))
                .collect())
        }

        fn elapsed_s(&self) -> f64 {
            self.clock_s
        }

        fn goes_on(&mut self, _done: usize) -> bool {
            self.calls < self.stop_after
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::MadeUp;
    use super::*;
    use crate::probe::facts::testing::h200;
    use crate::probe::findings::MOST_DRIFT;
    use crate::probe::plan::{Format, Options, plan};

    fn whole() -> Plan {
        let options = Options {
            seed: 1,
            max_s: 60.0,
            with_disk: false,
        };
        plan(&h200(), &options)
    }

    #[test]
    fn a_calm_machine_is_measured_whole_and_does_not_drift() {
        let mut machine = MadeUp::default();
        let course = follow(&whole(), 60.0, &mut machine).unwrap();
        assert_eq!(course.timed.len(), whole().points.len());
        assert!(course.skipped.is_empty() && course.repeated == 0);
        assert!(course.drift() < 1e-9);
        assert_eq!(course.sentinel(sentinels()[0]).len(), 3);
    }

    #[test]
    fn at_the_cap_the_last_tiers_are_dropped_and_the_sentinels_kept() {
        let mut machine = MadeUp::default();
        let course = follow(&whole(), 33.0, &mut machine).unwrap();
        assert!(course.wall_s < 33.0, "{}", course.wall_s);
        assert!(course.skipped_blocks().contains(&"gemm.int8"));
        let essential = |point: &Point| matches!(point, Point::Gemm(Format::Bf16, _));
        assert_eq!(course.skipped.iter().filter(|point| essential(point)).count(), 0);
        assert_eq!(course.sentinel(sentinels()[0]).len(), 3);
    }

    #[test]
    fn a_card_that_grows_slower_is_seen_to_drift() {
        let mut machine = MadeUp {
            warming: 0.002,
            ..MadeUp::default()
        };
        assert!(follow(&whole(), 60.0, &mut machine).unwrap().drift() > MOST_DRIFT);
    }

    #[test]
    fn what_a_card_refuses_is_noted_and_an_interruption_ends_it() {
        let mut machine = MadeUp {
            without_fp8: true,
            ..MadeUp::default()
        };
        let course = follow(&whole(), 60.0, &mut machine).unwrap();
        assert_eq!(course.unsupported.len(), 64);
        let mut machine = MadeUp {
            stop_after: 5,
            ..MadeUp::default()
        };
        assert_eq!(follow(&whole(), 60.0, &mut machine), Err(ProbeError::Interrupted));
        assert_eq!(machine.calls, 5);
    }

    #[test]
    fn a_wide_point_is_measured_once_more() {
        struct Shaky(MadeUp, usize);
        impl Machine for Shaky {
            fn time(&mut self, point: Point) -> Result<Vec<f64>, Refusal> {
                let mut samples = self.0.time(point)?;
                if point == Point::Sync && self.1 == 0 {
                    self.1 += 1;
                    samples.iter_mut().step_by(2).for_each(|s| *s *= 1.5);
                }
                Ok(samples)
            }
            fn elapsed_s(&self) -> f64 {
                self.0.elapsed_s()
            }
            fn goes_on(&mut self, done: usize) -> bool {
                self.0.goes_on(done)
            }
        }
        let mut machine = Shaky(MadeUp::default(), 0);
        let course = follow(&whole(), 60.0, &mut machine).unwrap();
        assert_eq!(course.repeated, 1);
        assert!((course.median(Point::Sync).unwrap().value - 9e-6).abs() < 1e-9);
    }
}
