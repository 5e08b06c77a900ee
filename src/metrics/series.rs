//! State over time in at most [`BINS_MAX`] equal intervals; neighbours merge as the run grows.
//!
//! A bin stores the changes of each level inside it and the area they make up to the bin's end, so that facts may
//! come out of order (replicas are ordered only among themselves) and two bins merge exactly.

use super::gaps;
use super::leap::Ends;
use super::summary::SeriesPoint;
use crate::sim::Steps;
use crate::units::{PICOS_PER_SECOND, Picos};

/// Bins kept at most.
const BINS_MAX: usize = 512;
/// Width of a bin at first.
const WIDTH_FIRST: u64 = PICOS_PER_SECOND / 100;

/// Changes of the number in the system, waiting and running.
pub(super) type Change = [i64; 3];

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    change: Change,
    /// Σ change × time left in the bin.
    area: [i128; 3],
    /// KV units × picoseconds.
    kv: u128,
    tokens: u64,
    /// Requests that came in: nothing else raises the number in the system.
    arrivals: u64,
    gaps: Gaps,
}

/// Gaps between tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Gaps {
    count: u64,
    sum: u128,
    longest: u64,
}

impl Gaps {
    fn add(&mut self, other: &Gaps) {
        self.count += other.count;
        self.sum += other.sum;
        self.longest = self.longest.max(other.longest);
    }
}

/// The bins of a run.
#[derive(Clone, Debug)]
pub(super) struct Series {
    width: u64,
    bins: Vec<Bin>,
    /// The bin found last: its index and end.
    cursor: (usize, u64),
}

impl Series {
    pub(super) fn new() -> Self {
        Series {
            width: WIDTH_FIRST,
            bins: vec![Bin::default()],
            cursor: (0, WIDTH_FIRST),
        }
    }

    /// Index and end of the bin that `instant` lies in.
    #[inline]
    fn locate(&mut self, instant: u64) -> (usize, u64) {
        let (_, end) = self.cursor;
        if instant >= end || instant < end - self.width {
            self.move_cursor(instant);
        }
        self.cursor
    }

    #[cold]
    fn move_cursor(&mut self, instant: u64) {
        while instant / self.width >= BINS_MAX as u64 {
            self.halve();
        }
        let index = (instant / self.width) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        // The last bin may reach past the end of the clock: it ends there, and is told a little too early.
        self.cursor = (index, (index as u64 + 1).saturating_mul(self.width));
    }

    fn halve(&mut self) {
        let width = i128::from(self.width);
        let merge = |pair: &[Bin]| {
            let mut merged = pair[0];
            let second = pair.get(1).copied().unwrap_or_default();
            for level in 0..3 {
                merged.area[level] += i128::from(pair[0].change[level]) * width + second.area[level];
                merged.change[level] += second.change[level];
            }
            merged.kv += second.kv;
            merged.tokens += second.tokens;
            merged.arrivals += second.arrivals;
            merged.gaps.add(&second.gaps);
            merged
        };
        self.bins = self.bins.chunks(2).map(merge).collect();
        self.width *= 2;
    }

    /// Levels change at `instant`.
    #[inline(always)]
    pub(super) fn shift(&mut self, instant: Picos, change: Change) {
        let (index, end) = self.locate(instant.0);
        let left = (end - instant.0) as i128;
        let bin = &mut self.bins[index];
        bin.arrivals += change[0].max(0) as u64;
        for (level, by) in change.into_iter().enumerate() {
            bin.change[level] += by;
            bin.area[level] += i128::from(by) * left;
        }
    }

    /// Tokens came out at `instant`.
    #[inline]
    pub(super) fn tokens_at(&mut self, instant: Picos, tokens: u64) {
        let (index, _) = self.locate(instant.0);
        self.bins[index].tokens += tokens;
    }

    /// A token came out at `instant`, so long after the one before it.
    #[inline]
    pub(super) fn gap(&mut self, instant: Picos, gap: Picos) {
        let (index, _) = self.locate(instant.0);
        self.bins[index].gaps.add(&Gaps {
            count: 1,
            sum: u128::from(gap.0),
            longest: gap.0,
        });
    }

    /// A leap held `kv` units, and `seqs` sequences had a token in each of its steps: in the first so long after the one
    /// before as `gap` says, in each later one as long as the step.
    #[inline]
    pub(super) fn leap(&mut self, steps: &Steps<'_>, ends: &Ends, seqs: u64, kv: u64) {
        let (index, end) = self.locate(steps.end.0);
        if steps.begin.0 < end - self.width {
            return self.leap_over_bins(steps, ends, seqs, kv);
        }
        let bin = &mut self.bins[index];
        bin.kv += u128::from(kv) * u128::from(steps.end.0 - steps.begin.0);
        if seqs > 0 {
            bin.tokens += steps.count * seqs;
            bin.gaps.add(&gaps_of(steps, 0, steps.count, seqs));
        }
    }

    #[inline(never)]
    fn leap_over_bins(&mut self, steps: &Steps<'_>, ends: &Ends, seqs: u64, kv: u64) {
        self.hold(steps.begin, steps.end, kv);
        if seqs == 0 {
            return;
        }
        let (width, bins) = (self.width, &mut self.bins);
        let mut first = 0;
        ends.for_each_bin(width, |bin, count| {
            let bin = &mut bins[bin as usize];
            bin.tokens += count * seqs;
            bin.gaps.add(&gaps_of(steps, first, count, seqs));
            first += count;
        });
    }

    /// `kv` units are held from `begin` to `end`.
    fn hold(&mut self, begin: Picos, end: Picos, kv: u64) {
        let (last, last_end) = self.locate(end.0);
        let mut from = begin.0;
        let last_begin = last_end - self.width;
        while from < last_begin {
            let bin = from / self.width;
            let until = (bin + 1) * self.width;
            self.bins[bin as usize].kv += u128::from(kv) * u128::from(until - from);
            from = until;
        }
        self.bins[last].kv += u128::from(kv) * u128::from(end.0.saturating_sub(from));
    }

    /// The points up to `end`, given how many KV units all replicas have.
    pub(super) fn points(&self, end: Picos, kv_units: f64) -> Vec<SeriesPoint> {
        let mut level: Change = [0; 3];
        let mut points = Vec::with_capacity(self.bins.len());
        for (index, bin) in self.bins.iter().enumerate() {
            let begin = index as u64 * self.width;
            let bin_end = begin.saturating_add(self.width);
            let until = bin_end.min(end.0.max(begin + 1));
            let span = (until - begin) as f64;
            let kv_usage = match kv_units > 0.0 {
                true => bin.kv as f64 / span / kv_units,
                false => 0.0,
            };
            debug_assert!(
                kv_usage <= 1.0 + 1e-9 || bin_end >= end.0,
                "more blocks are in use than there are: {kv_usage}"
            );
            let mean = |which: usize| {
                let past_end = i128::from(bin_end - until);
                let carried = i128::from(level[which]) * i128::from(until - begin);
                let area = carried + bin.area[which] - i128::from(bin.change[which]) * past_end;
                area as f64 / span
            };
            points.push(SeriesPoint {
                t_s: Picos(begin).seconds() + span / PICOS_PER_SECOND as f64 / 2.0,
                in_system: mean(0),
                waiting: mean(1),
                running: mean(2),
                // The last step may reach past the end of the run.
                kv_usage: kv_usage.min(1.0),
                output_tokens_per_s: bin.tokens as f64 * PICOS_PER_SECOND as f64 / span,
                arrivals_per_s: bin.arrivals as f64 * PICOS_PER_SECOND as f64 / span,
                mean_itl_s: (bin.gaps.count > 0)
                    .then(|| bin.gaps.sum as f64 / bin.gaps.count as f64 / PICOS_PER_SECOND as f64),
                max_itl_s: (bin.gaps.count > 0).then(|| Picos(bin.gaps.longest).seconds()),
                gaps: bin.gaps.count,
            });
            for (sum, change) in level.iter_mut().zip(bin.change) {
                *sum += change;
            }
            if bin_end >= end.0 {
                break;
            }
        }
        points
    }
}

/// The gaps of `count` steps of a leap from its step `first` on.
#[inline]
fn gaps_of(steps: &Steps<'_>, first: u64, count: u64, seqs: u64) -> Gaps {
    if steps.seen.is_some() || steps.gap < steps.duration {
        return seen_gaps_of(steps, first, count, seqs);
    }
    let (duration, increment) = (steps.duration.0, steps.duration_increment.0);
    let last = first + count - 1;
    // Σ (duration + i·increment) from first to last; the very first gap may be longer than its step.
    let indices = u128::from(first + last) * u128::from(count) / 2;
    let mut sum = u128::from(duration) * u128::from(count) + u128::from(increment) * indices;
    let mut longest = duration + increment * last;
    if first == 0 {
        sum += u128::from(steps.gap.0.saturating_sub(duration));
        longest = longest.max(steps.gap.0);
    }
    Gaps {
        count: count * seqs,
        sum: sum * u128::from(seqs),
        longest,
    }
}

/// The same where a busy front end makes them others.
#[inline(never)]
fn seen_gaps_of(steps: &Steps<'_>, mut first: u64, mut count: u64, seqs: u64) -> Gaps {
    let mut told = Gaps {
        count: count * seqs,
        ..Gaps::default()
    };
    for run in gaps::of_steps(steps) {
        let part = run.part(first, count);
        first = first.saturating_sub(run.count);
        count -= part.count;
        told.sum += part.sum() * u128::from(seqs);
        told.longest = told.longest.max(part.longest().0);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_instants_of_the_clock_are_counted() {
        let mut series = Series::new();
        series.shift(Picos(0), [1, 0, 1]);
        series.shift(Picos(u64::MAX), [-1, 0, -1]);
        series.hold(Picos(0), Picos(u64::MAX), 3);
        let points = series.points(Picos(u64::MAX), 3.0);
        let last = points.last().expect("there are points");
        assert!(last.in_system > 0.99 && last.in_system < 1.01, "{last:?}");
    }

    #[test]
    fn merging_bins_keeps_the_area_under_the_curve() {
        let (mut fine, mut area) = (Series::new(), 0.0);
        let end = Picos::from_seconds(100.0);
        for i in 0..100u64 {
            let from = Picos::from_seconds(i as f64 * 0.9 + 0.123);
            let to = Picos::from_seconds(i as f64 * 0.95 + 3.3);
            fine.shift(from, [1, 0, 1]);
            fine.shift(to, [-1, 0, -1]);
            fine.hold(from, to, 2);
            area += (to - from).seconds();
        }
        let points = fine.points(end, 100.0);
        assert!(points.len() <= BINS_MAX && points.len() > BINS_MAX / 4);
        let width = Picos(fine.width).seconds();
        let total: f64 = points.iter().map(|p| p.in_system * width).sum();
        assert!((total - area).abs() < 1e-6 * area, "{total} {area}");
        assert!((points.iter().map(|p| p.running * width).sum::<f64>() - area).abs() < 1e-6 * area);
    }
}
