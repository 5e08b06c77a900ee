//! Everything that adds up over a stretch of a run.
//!
//! A run is a sequence of stretches; the sum of all is the whole run, and the sum of those between warm-up and
//! drain is the steady state. Nothing here is an average: averages are taken once, in [`Stretch::summary`].

use super::distribution::Distribution;
use super::fleet::Fleet;
use super::metric::Metric;
use super::moments::Moments;
use super::packed::Packed;
use super::summary::{Occupancy, Summary, WorkCounters};
use crate::cost::bounds::StepsBySize;
use crate::sim::Steps;
use crate::units::{PICOS_PER_SECOND, Picos};

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) rejected: u64,
    /// Of those rejected.
    pub(super) too_long: u64,
    pub(super) timed_out: u64,
    pub(super) failed: u64,
    pub(super) good: u64,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) asked_tokens: u64,
    pub(super) preemptions: u64,
    pub(super) cache_queries: u64,
    pub(super) cache_hits: u64,
}

/// Largest levels seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peaks {
    pub(super) in_system: u64,
    pub(super) waiting: u64,
    pub(super) running: u64,
    /// Of the replica that was fullest.
    pub(super) kv: Filled,
}

/// How full one replica's KV pool was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Filled {
    pub(super) units: u64,
    /// Units of its whole pool.
    pub(super) of: u64,
}

impl Filled {
    /// In 0..=1.
    pub(super) fn share(self) -> f64 {
        self.units as f64 / self.of.max(1) as f64
    }

    /// The fuller one of two, by their shares.
    #[inline]
    pub(super) fn fuller(self, other: Filled) -> Filled {
        let is_fuller = if self.of == other.of {
            other.units > self.units
        } else {
            // Nothing seen yet has a pool of 0, and gives way to anybody.
            self.of == 0
                || u128::from(other.units) * u128::from(self.of)
                    > u128::from(self.units) * u128::from(other.of)
        };
        if is_fuller { other } else { self }
    }
}

/// Sums of work; see [`WorkCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) steps: u64,
    pub(super) decode_only_steps: u64,
    pub(super) busy: u64,
    pub(super) prefill_tokens: u64,
    pub(super) recomputed_tokens: u64,
    pub(super) decode_tokens: u64,
    draft_tokens: u64,
    pub(super) sampled_rows: u64,
    pub(super) decode_kv_tokens: u128,
    pub(super) chunk_pairs_doubled: u128,
    pub(super) chunk_kv_tokens: u64,
    pub(super) by_size: StepsBySize,
    /// KV units × picoseconds.
    pub(super) kv_area: u128,
}

/// What is being added up: the latencies as distributions while open, packed once closed.
#[derive(Clone, Debug)]
pub(super) struct Tally<D> {
    pub(super) begin: Picos,
    pub(super) counts: Counts,
    /// Answers of the very instant at which it begins, where the stretch before ended among them. A rate counts each instant at one end.
    pub(super) at_begin: Counts,
    pub(super) peaks: Peaks,
    pub(super) work: Work,
    pub(super) latencies: [D; 6],
    /// Of each class of requests; empty where there are none, and as long as the last that was seen.
    pub(super) classes: Vec<ClassCounts>,
}

/// What became of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassCounts {
    pub(super) ended: u64,
    pub(super) good: u64,
}

/// A closed stretch.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub(super) tally: Tally<Packed>,
    pub(super) end: Picos,
    /// Area under the number in the system, waiting and running, in picoseconds.
    pub(super) areas: [i128; 3],
}

impl Stretch {
    /// Start in seconds.
    #[must_use]
    pub fn begin_s(&self) -> f64 {
        self.tally.begin.seconds()
    }

    /// End in seconds.
    #[must_use]
    pub fn end_s(&self) -> f64 {
        self.end.seconds()
    }

    /// Length in seconds.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        self.end.saturating_sub(self.tally.begin).seconds()
    }

    /// Requests sent in it.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.tally.counts.sent
    }

    /// Requests completed in it.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.tally.counts.completed
    }

    /// Requests that left in it, however.
    #[must_use]
    pub fn ended(&self) -> u64 {
        let counts = &self.tally.counts;
        counts.completed + counts.lost()
    }

    /// Requests that met every goodput limit.
    #[must_use]
    pub fn good(&self) -> u64 {
        self.tally.counts.good
    }

    /// Requests of a class that left in it, and how many of them met every limit that holds for them.
    #[must_use]
    pub fn ended_and_good(&self, class: usize) -> (u64, u64) {
        let counts = self.tally.classes.get(class).copied().unwrap_or_default();
        (counts.ended, counts.good)
    }

    /// Output tokens of the completed requests.
    #[must_use]
    pub fn output_tokens(&self) -> u64 {
        self.tally.counts.output_tokens
    }

    /// ∫ number in the system, in request-seconds.
    #[must_use]
    pub fn system_area_s(&self) -> f64 {
        self.areas[0] as f64 / PICOS_PER_SECOND as f64
    }

    /// Σ in seconds and count of a latency.
    #[must_use]
    pub fn sum_and_count(&self, metric: Metric) -> (f64, u64) {
        let moments = &self.tally.latencies[metric as usize].moments;
        (moments.sum as f64 / PICOS_PER_SECOND as f64, moments.count)
    }

    /// Mean and deviation of a latency over several stretches, in seconds; `None` where there is none.
    #[must_use]
    pub fn mean_and_deviation_s<'a>(
        stretches: impl IntoIterator<Item = &'a Stretch>,
        metric: Metric,
    ) -> Option<(f64, f64)> {
        let mut moments = Moments::default();
        for stretch in stretches {
            moments.merge(&stretch.tally.latencies[metric as usize].moments);
        }
        moments.mean_s().zip(moments.std_s())
    }

    /// How many values of a latency exceed `limit`.
    #[must_use]
    pub fn exceeding(&self, metric: Metric, limit: Picos) -> f64 {
        self.tally.latencies[metric as usize].exceeding(limit)
    }

    /// The same where the counts of answers have all of the instant at which it ends, of which those that follow have the others, and
    /// none of that at which it begins. Latencies stay those of the stretch.
    #[must_use]
    pub(super) fn with_whole_instants(mut self, following: &[Stretch]) -> Stretch {
        let at_end = following.iter().take_while(|next| next.tally.begin == self.end);
        let mut others = Counts::default();
        at_end.for_each(|next| others.add(&next.tally.at_begin));
        self.tally.counts = self.tally.counts.exchanging(&self.tally.at_begin, &others);
        self
    }

    /// One stretch from consecutive ones; `None` if there are none.
    #[must_use]
    pub fn joined(parts: &[Stretch]) -> Option<Stretch> {
        let latency = |metric| {
            let parts = parts.iter().map(|part: &Stretch| &part.tally.latencies[metric]);
            Packed::union(&parts.collect::<Vec<_>>())
        };
        let first = parts.first()?;
        let mut whole = Stretch {
            tally: Tally {
                latencies: std::array::from_fn(latency),
                classes: first.tally.classes.clone(),
                ..first.tally
            },
            ..*first
        };
        for next in &parts[1..] {
            if next.tally.begin == whole.tally.begin {
                whole.tally.at_begin.add(&next.tally.at_begin);
            }
            whole.tally.add_counts(&next.tally);
            whole.end = next.end;
            for (area, more) in whole.areas.iter_mut().zip(next.areas) {
                *area += more;
            }
        }
        Some(whole)
    }

    /// The averages. `inside` is the number in the system at the end, `second_peak` the most tokens in a second,
    /// and goodput is counted only where limits were set.
    #[must_use]
    pub(super) fn summary(&self, fleet: &Fleet, inside: u64, second_peak: u64, with_good: bool) -> Summary {
        let counts = &self.tally.counts;
        let latency = |metric: Metric| {
            let mut distribution = Distribution::default();
            distribution.merge_packed(&self.tally.latencies[metric as usize]);
            distribution
        };
        Summary {
            duration_s: self.duration_s(),
            sent: counts.sent,
            completed: counts.completed,
            rejected: counts.rejected,
            too_long: counts.too_long,
            timed_out: counts.timed_out,
            failed: counts.failed,
            inside,
            input_tokens: counts.input_tokens,
            output_tokens: counts.output_tokens,
            asked_tokens: counts.asked_tokens,
            ttft: latency(Metric::Ttft),
            tpot: latency(Metric::Tpot),
            itl: latency(Metric::Itl),
            e2el: latency(Metric::E2el),
            queue_time: latency(Metric::QueueTime),
            client_queue_time: latency(Metric::ClientQueueTime),
            good: with_good.then_some(counts.good),
            occupancy: self.occupancy(fleet),
            work: self.tally.work.counters(),
            preemptions: counts.preemptions,
            cache_queries_tokens: counts.cache_queries,
            cache_hit_tokens: counts.cache_hits,
            max_in_flight: self.tally.peaks.in_system,
            max_concurrent: 0,
            max_output_tokens_per_s: second_peak as f64,
        }
    }

    /// A step counts where it was told, and as a whole: a stretch shorter than a step, or one that ends within it, would be full
    /// beyond its measure, so shares are cut at 1. Over a whole run the audit holds what is booked against the steps' own ends.
    fn occupancy(&self, fleet: &Fleet) -> Occupancy {
        let span = self.end.saturating_sub(self.tally.begin).0.max(1) as f64;
        let units = fleet.mean_units().max(1.0);
        let peaks = &self.tally.peaks;
        let replicas = f64::from(fleet.replicas().max(1));
        let level = |which: usize| self.areas[which] as f64 / span;
        Occupancy {
            in_system: level(0),
            waiting: level(1),
            running: level(2),
            kv_usage: (self.tally.work.kv_area as f64 / span / units / replicas).min(1.0),
            busy: (self.tally.work.busy as f64 / span / replicas).min(1.0),
            kv_usage_max: peaks.kv.share(),
            running_max: u32::try_from(peaks.running).expect(INSIDE),
            waiting_max: u32::try_from(peaks.waiting).expect(INSIDE),
        }
    }
}

/// Why a number of requests inside fits 32 bits.
pub(super) const INSIDE: &str = "whoever is inside has a place in memory: fewer than 2^32";

impl Tally<Packed> {
    /// Adds all of the tally that follows but for its latencies.
    fn add_counts(&mut self, next: &Tally<Packed>) {
        self.counts.add(&next.counts);
        self.peaks.raise(&next.peaks);
        self.work.add(&next.work);
        for (class, counts) in next.classes.iter().enumerate() {
            let mine = class_counts(&mut self.classes, class);
            mine.ended += counts.ended;
            mine.good += counts.good;
        }
    }
}

/// The counts of a class, which may be the first of its kind.
pub(super) fn class_counts(classes: &mut Vec<ClassCounts>, class: usize) -> &mut ClassCounts {
    if class >= classes.len() {
        classes.resize(class + 1, ClassCounts::default());
    }
    &mut classes[class]
}

impl Counts {
    /// Requests that left without all their tokens.
    #[inline]
    pub(super) fn lost(&self) -> u64 {
        self.rejected + self.timed_out + self.failed
    }

    /// The same with other answers in the place of some.
    fn exchanging(self, some: &Counts, others: &Counts) -> Counts {
        let exchanged = |of: fn(&Counts) -> u64| of(&self) + of(others) - of(some);
        Counts {
            completed: exchanged(|counts| counts.completed),
            good: exchanged(|counts| counts.good),
            input_tokens: exchanged(|counts| counts.input_tokens),
            output_tokens: exchanged(|counts| counts.output_tokens),
            asked_tokens: exchanged(|counts| counts.asked_tokens),
            ..self
        }
    }

    fn add(&mut self, other: &Counts) {
        self.sent += other.sent;
        self.completed += other.completed;
        self.rejected += other.rejected;
        self.too_long += other.too_long;
        self.timed_out += other.timed_out;
        self.failed += other.failed;
        self.good += other.good;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.asked_tokens += other.asked_tokens;
        self.preemptions += other.preemptions;
        self.cache_queries += other.cache_queries;
        self.cache_hits += other.cache_hits;
    }
}

impl Peaks {
    pub(super) fn raise(&mut self, other: &Peaks) {
        self.in_system = self.in_system.max(other.in_system);
        self.waiting = self.waiting.max(other.waiting);
        self.running = self.running.max(other.running);
        self.kv = self.kv.fuller(other.kv);
    }
}

impl Work {
    /// Adds what a run of steps computes.
    #[inline(always)]
    pub(super) fn add_steps(&mut self, steps: &Steps<'_>) {
        let (load, count) = (steps.load, steps.count);
        let seqs = u64::from(load.decode_seqs);
        let drafts = u64::from(load.drafts);
        self.steps += count;
        self.by_size.add(load.tokens(), count);
        self.busy += steps.end.saturating_sub(steps.begin).0;
        self.decode_tokens += (seqs + drafts) * count;
        self.draft_tokens += drafts * count;
        self.chunk_pairs_doubled += u128::from(load.draft_pairs_doubled) * u128::from(count);
        self.sampled_rows += u64::from(load.sampled_rows) * count;
        // Step i reads i·seqs more; the product is formed wide because a leap may be long.
        let growth = u128::from(seqs * (count - 1)) * u128::from(count) / 2;
        self.decode_kv_tokens += u128::from(load.decode_kv_tokens) * u128::from(count) + growth;
        self.recomputed_tokens += steps.recomputed_tokens;
        if load.chunks.is_empty() {
            self.decode_only_steps += count;
        }
        for chunk in &load.chunks {
            let (computed, new) = (u64::from(chunk.computed), u64::from(chunk.new));
            self.prefill_tokens += new * count;
            self.chunk_pairs_doubled += u128::from(chunk.pairs_doubled()) * u128::from(count);
            self.chunk_kv_tokens += (computed + new) * count;
        }
    }

    /// As they are reported.
    pub(super) fn counters(&self) -> WorkCounters {
        WorkCounters {
            steps: self.steps,
            decode_only_steps: self.decode_only_steps,
            busy_s: self.busy as f64 / PICOS_PER_SECOND as f64,
            prefill_tokens: self.prefill_tokens,
            recomputed_tokens: self.recomputed_tokens,
            decode_tokens: self.decode_tokens,
            draft_tokens: self.draft_tokens,
            sampled_rows: self.sampled_rows,
            decode_kv_tokens: self.decode_kv_tokens,
            chunk_pairs_doubled: self.chunk_pairs_doubled,
            chunk_kv_tokens: self.chunk_kv_tokens,
            by_size: self.by_size,
        }
    }

    fn add(&mut self, other: &Work) {
        self.steps += other.steps;
        self.decode_only_steps += other.decode_only_steps;
        self.busy += other.busy;
        self.prefill_tokens += other.prefill_tokens;
        self.recomputed_tokens += other.recomputed_tokens;
        self.decode_tokens += other.decode_tokens;
        self.draft_tokens += other.draft_tokens;
        self.sampled_rows += other.sampled_rows;
        self.decode_kv_tokens += other.decode_kv_tokens;
        self.chunk_pairs_doubled += other.chunk_pairs_doubled;
        self.chunk_kv_tokens += other.chunk_kv_tokens;
        self.by_size.merge(&other.by_size);
        self.kv_area += other.kv_area;
    }
}
