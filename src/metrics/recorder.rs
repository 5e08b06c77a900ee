//! The observer that turns facts into figures, in memory that does not grow with the run.
//!
//! A request costs a handful of additions at each of its facts; a leap of decode steps costs the same as one step.
//! Everything kept is an integer, so a run's figures do not depend on how its steps were grouped into leaps (only
//! KV usage within a run of steps is interpolated, and the sample of steps counts facts).
//!
//! Order asked of the facts: a step's [`Fact::Steps`] comes before the tokens, gaps and endings that it brings
//! about; an arrival comes before anything else about its request. Requests that left are told once, by
//! [`Fact::Ended`] (a refused one by [`Fact::Rejected`], with or without an ending after it).

mod between;
mod endings;
mod returned;

use std::hint::cold_path;

use super::audit::Audit;
use super::batches::Batches;
use super::by_replica::ByReplica;
use super::concurrent::Concurrent;
use super::detail::Detail;
use super::distribution::Distribution;
use super::gaps;
use super::in_flight::{InFlight, Live, Place};
use super::leap::Ends;
use super::metric::Metric;
use super::observation::{Observation, Sending};
use super::options::SloLimits;
use super::options::{RecorderOptions, Records};
use super::packed::Packed;
use super::parts::{Latencies, PartSummary, Parts};
use super::relays::Relays;
use super::samples::Samples;
use super::seconds::Seconds;
use super::series::{Change, Series};
use super::speculation::SpeculationSummary;
use super::stretch::{Counts, Filled, Peaks, Stretch, Tally, Work};
use super::summary::SeriesPoint;
use super::tiers::Tiers;
use crate::ids::RequestId;
use crate::sim::{Fact, Observer, Rejection, Steps};
use crate::units::Picos;
use crate::workload::Request;

/// Collects a run.
#[derive(Clone, Debug)]
pub struct Recorder {
    options: RecorderOptions,
    in_flight: InFlight,
    open: Tally<Distribution>,
    batches: Batches,
    /// Number in the system, waiting, running: now, when the open stretch began, and −Σ change·instant in it.
    level: Change,
    level_at_begin: Change,
    moment: [i128; 3],
    clock: Picos,
    sending: Option<Sending>,
    series: Series,
    seconds: Seconds,
    concurrent: Concurrent,
    /// Of each pool.
    samples: Vec<Samples>,
    audit: Audit,
    detail: Option<Detail>,
    /// Of several replicas.
    by_replica: Option<ByReplica>,
    /// Of replicas that are given KV from outside.
    tiers: Option<Box<Tiers>>,
    speculation: Option<Box<SpeculationSummary>>,
    /// Of several classes or pools.
    parts: Option<Box<Parts>>,
    /// Of pools with roles.
    relays: Option<Box<Relays>>,
}

impl Recorder {
    /// Ready to observe from time 0.
    #[must_use]
    pub fn new(options: RecorderOptions) -> Self {
        Recorder {
            in_flight: InFlight::default(),
            open: Tally::empty(Picos::ZERO),
            batches: Batches::new(),
            level: [0; 3],
            level_at_begin: [0; 3],
            moment: [0; 3],
            clock: Picos::ZERO,
            sending: None,
            series: Series::new(),
            seconds: Seconds::default(),
            concurrent: Concurrent::default(),
            samples: vec![Samples::new(); options.fleet.pool_count()],
            audit: Audit::default(),
            detail: match options.records {
                Records::None => None,
                Records::Requests => Some(Detail::new(false)),
                Records::WithItls => Some(Detail::new(true)),
            },
            relays: None,
            by_replica: (options.fleet.replicas() > 1).then(|| ByReplica::new(options.fleet.replicas())),
            tiers: None,
            speculation: None,
            parts: Parts::new(Vec::new(), &options.fleet.pools),
            options,
        }
    }

    /// Tells classes apart, each with limits of its own. The classes of requests are numbers below that of the limits.
    #[must_use]
    pub fn with_classes(mut self, slos: Vec<SloLimits>) -> Self {
        self.parts = Parts::new(slos, &self.options.fleet.pools);
        self
    }

    /// Closes no batches: all of the run is one stretch, of which nothing can be judged.
    #[must_use]
    pub fn in_one_stretch(mut self) -> Self {
        self.batches = Batches::never_closed();
        self
    }

    /// The batches closed so far, for those who decide whether to go on.
    #[must_use]
    pub fn batches(&self) -> &[Stretch] {
        self.batches.closed()
    }

    /// What became of each class so far, where classes are told apart.
    #[must_use]
    pub fn by_class(&self) -> &[PartSummary] {
        self.parts.as_ref().map_or(&[], |parts| &parts.classes)
    }

    /// Requests sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.audit.arrivals
    }

    /// How many replicas serve them.
    #[must_use]
    pub fn replicas(&self) -> u32 {
        self.options.fleet.replicas()
    }

    /// The number in the system over time, as far as seen.
    #[must_use]
    pub fn series(&self) -> Vec<SeriesPoint> {
        self.series.points(self.clock, 0.0)
    }

    /// When requests were sent so far.
    #[must_use]
    pub fn sending(&self) -> Sending {
        self.sending.unwrap_or_default()
    }

    /// Ends the run at `now`, the instant at which the simulation stopped.
    #[must_use]
    pub fn finish(mut self, now: Picos) -> Observation {
        let end = if self.level[0] == 0 {
            self.clock
        } else {
            self.clock.max(now)
        };
        let rest = self.close(end);
        let second_peak = self.seconds.max();
        let mut stretches = self.batches.into_closed();
        let whole_batches = stretches.len();
        stretches.push(rest);
        let fleet = self.options.fleet.clone();
        let inside = self.in_flight.iter().count() as u64;
        let joined = Stretch::joined(&stretches).expect("the rest is always there");
        let counts_good =
            self.options.slo.any() || self.parts.as_ref().is_some_and(|parts| parts.any_limit());
        let mut whole = joined.summary(&fleet, inside, second_peak, counts_good);
        whole.duration_s = end.seconds();
        whole.max_concurrent = self.concurrent.most();
        let mut little = self.audit.little(&joined, end, &self.in_flight);
        let mut violations = self.audit.conclude(&whole, &little);
        let by_replica = self.by_replica.map_or_else(Vec::new, |replicas| {
            let concluded = replicas.conclude(end, joined.areas[0]);
            violations.extend(concluded.broken);
            little.front_ends = Some(concluded.front_ends);
            concluded.replicas
        });
        if let Some(parts) = &self.parts {
            violations.extend(parts.violations(whole.sent, whole.completed));
        }
        let (by_class, by_pool) = self
            .parts
            .map_or_else(Default::default, |parts| (parts.classes, parts.pools));
        let relays = self.relays.map(|relays| {
            let (relays, broken) = relays.conclude(end.max(now));
            violations.extend(broken);
            relays
        });
        let kv_units = fleet.all_units();
        Observation {
            stretches,
            whole_batches,
            fleet,
            slo: self.options.slo,
            counts_good,
            sending: self.sending.unwrap_or_default(),
            end,
            whole,
            little,
            by_replica,
            speculation: self.speculation.map(|account| *account),
            tiers: self.tiers.and_then(|tiers| tiers.conclude()),
            by_class,
            by_pool,
            relays,
            violations,
            series: self.series.points(end, kv_units),
            sampled_steps: self.samples.into_iter().map(Samples::into_kept).collect(),
            records: self.detail.map(Detail::into_records),
        }
    }

    /// Levels change. Inlined, so that the constant changes of each caller fold away.
    #[inline(always)]
    fn shift(&mut self, now: Picos, change: Change) {
        self.concurrent.shift(now, self.level[0], change[0]);
        for (which, by) in change.into_iter().enumerate() {
            self.level[which] += by;
            self.moment[which] -= i128::from(by) * i128::from(now.0);
        }
        self.clock = self.clock.max(now);
        self.series.shift(now, change);
    }

    fn arrived(&mut self, request: &Request) {
        let (id, now, client_queue_time) = (request.id, request.arrival, request.client_queue_time);
        let live = Live::arriving(request);
        if self.in_flight.insert(id, live).is_some() {
            return self.audit.note(|| format!("request {} arrived twice", id.0));
        }
        if let Some(parts) = &mut self.parts {
            cold_path();
            parts.sent(request.class, now);
        }
        self.open.counts.sent += 1;
        let wished = now.saturating_sub(client_queue_time);
        let sending = self.sending.get_or_insert(Sending {
            first: wished,
            last: now,
            last_wished: wished,
        });
        sending.first = sending.first.min(wished);
        sending.last = sending.last.max(now);
        sending.last_wished = sending.last_wished.max(wished);
        self.audit.arrivals += 1;
        self.shift(now, [1, 1, 0]);
        let peaks = &mut self.open.peaks;
        peaks.in_system = peaks.in_system.max(self.level[0] as u64);
        peaks.waiting = peaks.waiting.max(self.level[1] as u64);
    }

    fn admitted(&mut self, id: RequestId, now: Picos, waiting_since: Picos) {
        match self.in_flight.get_mut(id) {
            Some(live) if live.place == Place::Waiting => {
                live.place = Place::Running;
                live.since = now;
            }
            _ => {
                return self
                    .audit
                    .note(|| format!("request {} was admitted while not waiting", id.0));
            }
        }
        self.audit.admissions += 1;
        self.audit.waited += i128::from(now.0) - i128::from(waiting_since.0);
        self.shift(now, [0, -1, 1]);
        let peaks = &mut self.open.peaks;
        peaks.running = peaks.running.max(self.level[2].max(0) as u64);
    }

    /// An answer leaves its engine, whose place somebody else may have from now on.
    fn leaving(&mut self, id: RequestId, now: Picos) {
        if let Some(live) = self.in_flight.get_mut(id)
            && live.place == Place::Running
        {
            live.ran += now.saturating_sub(live.since);
            (live.place, live.since) = (Place::Leaving, now);
            self.shift(now, [0, 0, -1]);
        }
    }

    fn steps(&mut self, steps: &Steps<'_>) {
        self.samples[self.options.fleet.pool_of(steps.replica)].offer(steps);
        self.audit.steps(steps);
        self.open.work.add_steps(steps);
        let (seqs, ends) = (u64::from(steps.gap_seqs), Ends::of(steps));
        let kv_units = self.hold_kv(steps);
        self.series.leap(steps, &ends, seqs, kv_units);
        if seqs == 0 {
            return;
        }
        let (mut first, increment, mut count) = (steps.duration, steps.duration_increment, steps.count);
        let itl = &mut self.open.latencies[Metric::Itl as usize];
        if steps.seen.is_some() {
            cold_path();
            for run in gaps::of_steps(steps) {
                itl.record_progression(run.first, run.increment, run.count, seqs);
            }
            return self.seconds.tokens(&ends, seqs);
        }
        if steps.gap != first {
            itl.record(steps.gap, seqs);
            (first, count) = (first + increment, count - 1);
        }
        itl.record_progression(first, increment, count, seqs);
        self.seconds.tokens(&ends, seqs);
    }

    /// Notes the KV that a leap holds; the units held over its length on average.
    #[inline]
    fn hold_kv(&mut self, steps: &Steps<'_>) -> u64 {
        let room = self.options.fleet.room(steps.replica);
        let used =
            u64::from(room.kv_blocks.saturating_sub(steps.free_meanwhile)) * u64::from(room.block_size) * 2;
        // Over a leap every step takes as many token slots: half of them are held on average, all of them at its end.
        let units = room.units();
        let later = u64::from(steps.kv_slots) * (steps.count - 1);
        let mean = (used + later).min(units);
        let busy = steps.end.saturating_sub(steps.begin).0;
        self.open.work.kv_area += u128::from(mean) * u128::from(busy);
        let largest = (used + 2 * later).min(units);
        let filled = Filled {
            units: largest,
            of: units,
        };
        self.open.peaks.kv = self.open.peaks.kv.fuller(filled);
        if let Some(replicas) = &mut self.by_replica {
            cold_path();
            replicas.filled(steps.replica, filled);
        }
        mean
    }

    fn close_full_batch(&mut self) {
        let counts = &self.open.counts;
        if counts.completed + counts.lost() >= self.batches.size() {
            let batch = self.close(self.clock);
            self.batches.push(batch, &mut self.open.latencies);
        }
    }

    /// Closes the open stretch at `end` and opens the next.
    fn close(&mut self, end: Picos) -> Stretch {
        let begin = self.open.begin;
        let area = |which: usize| {
            i128::from(self.level[which]) * i128::from(end.0) + self.moment[which]
                - i128::from(self.level_at_begin[which]) * i128::from(begin.0)
        };
        let areas = [area(0), area(1), area(2)];
        // Those who never waited in the client, which is nearly everyone, are recorded here at once.
        let client = &mut self.open.latencies[Metric::ClientQueueTime as usize];
        client.record(Picos::ZERO, self.open.counts.completed - client.count());
        let tally = self.open.packed();
        self.open.begin = end;
        (self.open.counts, self.open.at_begin) = (Counts::default(), Counts::default());
        self.open.work = Work::default();
        self.open.classes.clear();
        let [in_system, waiting, running] = self.level.map(|level| level.max(0) as u64);
        self.open.peaks = Peaks {
            in_system,
            waiting,
            running,
            kv: Filled::default(),
        };
        self.level_at_begin = self.level;
        self.moment = [0; 3];
        Stretch { tally, end, areas }
    }
}

impl Observer for Recorder {
    // Inlined, so that each teller of a fact goes straight to what the fact does here.
    #[inline(always)]
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Some(detail) = &mut self.detail {
            cold_path();
            detail.observe(fact, &mut self.audit);
        }
        if let Some(replicas) = &mut self.by_replica {
            cold_path();
            replicas.observe(fact);
        }
        match *fact {
            Fact::Arrived { request } => self.arrived(request),
            Fact::Rejected { now, request, why } => {
                self.rejected(request.id, now, why == Rejection::TooLong);
            }
            Fact::Admitted {
                now,
                id,
                waiting_since,
                known_tokens,
                cached_tokens,
                resumed,
                ..
            } => {
                self.admitted(id, now, waiting_since);
                if !resumed {
                    self.open.counts.cache_queries += u64::from(known_tokens);
                    self.open.counts.cache_hits += u64::from(cached_tokens);
                }
            }
            Fact::Preempted {
                now,
                id,
                running_since,
                ..
            } => self.preempted(id, now, running_since),
            Fact::Steps(steps) => self.steps(steps),
            Fact::FirstToken { now, .. } => self.tokens_at(now, 1),
            Fact::Gap { now, seen, .. } => {
                self.open.latencies[Metric::Itl as usize].record(seen, 1);
                self.series.gap(now, seen);
                self.tokens_at(now, 1);
            }
            Fact::Burst { now, tokens, .. } => self.tokens_at(now, tokens.into()),
            Fact::Verified { drafts, accepted, .. } => self.verified(drafts, accepted),
            Fact::Returned(part) => self.returned(part),
            Fact::Leaving { now, id } => self.leaving(id, now),
            Fact::Ended(completion) => self.ended(completion),
            // Told to those who follow requests from place to place.
            Fact::Sent { .. } | Fact::Crossing { .. } | Fact::Crossed { .. } => {}
            Fact::HandedOver { .. }
            | Fact::Transferred { .. }
            | Fact::Released { .. }
            | Fact::Relayed(_)
            | Fact::Links { .. } => self.between_replicas(fact),
            Fact::Loaded {
                id,
                cached_tokens,
                tokens,
                ..
            } => self
                .tiers
                .get_or_insert_default()
                .admitted(id, cached_tokens, tokens),
            Fact::Tiers { replica, account } => {
                self.tiers.get_or_insert_default().account(replica, account);
            }
        }
    }
}

impl Tally<Distribution> {
    fn empty(begin: Picos) -> Self {
        Tally {
            begin,
            counts: Counts::default(),
            at_begin: Counts::default(),
            peaks: Peaks::default(),
            work: Work::default(),
            latencies: std::array::from_fn(|_| Distribution::default()),
            classes: Vec::new(),
        }
    }

    fn packed(&self) -> Tally<Packed> {
        Tally {
            begin: self.begin,
            counts: self.counts,
            at_begin: self.at_begin,
            peaks: self.peaks,
            work: self.work,
            latencies: std::array::from_fn(|metric| self.latencies[metric].pack()),
            classes: self.classes.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
