//! A request leaves: refused, answered, or lost.

use std::hint::cold_path;

use super::{Latencies, Place, Recorder};
use crate::ids::RequestId;
use crate::metrics::in_flight::Live;
use crate::metrics::metric::Metric;
use crate::metrics::stretch::{Counts, class_counts};
use crate::sim::{Completion, Outcome};
use crate::units::Picos;

impl Recorder {
    #[inline]
    pub(super) fn tokens_at(&mut self, now: Picos, tokens: u64) {
        self.audit.tokens += tokens;
        self.series.tokens_at(now, tokens);
        self.seconds.tokens_at(now, tokens);
    }

    /// Drafts of a request were verified.
    pub(super) fn verified(&mut self, drafts: u32, accepted: u32) {
        self.speculation
            .get_or_insert_default()
            .verified(drafts, accepted);
    }

    /// Requests sent of the class that fewest were sent of; `None` without classes.
    #[must_use]
    pub fn rarest_class(&self) -> Option<u64> {
        let classes = self.parts.as_ref().map(|parts| parts.classes.iter());
        classes?.map(|part| part.sent).min()
    }

    /// Requests that left so far, and how many of them met every limit.
    #[must_use]
    pub fn ended_and_good(&self) -> (u64, u64) {
        let open = &self.open.counts;
        let closed = self.batches.closed().iter();
        closed.fold(
            (open.completed + open.lost(), open.good),
            |(ended, good), batch| (ended + batch.ended(), good + batch.good()),
        )
    }

    #[cold]
    pub(super) fn rejected(&mut self, id: RequestId, now: Picos, is_too_long: bool) {
        let Some(live) = self.in_flight.remove(id) else {
            return self
                .audit
                .note(|| format!("request {} was rejected while not inside", id.0));
        };
        self.open.counts.rejected += 1;
        self.open.counts.too_long += u64::from(is_too_long);
        if let Some(parts) = &mut self.parts {
            parts.rejected(live.class, (live.arrival, now), is_too_long);
            if parts.slo(live.class).is_some() {
                class_counts(&mut self.open.classes, live.class as usize).ended += 1;
            }
        }
        self.audit.system += i128::from(now.0) - i128::from(live.arrival.0);
        self.audit.ran += i128::from(live.ran.0);
        self.audit.waited += i128::from(now.0) - i128::from(live.since.0);
        self.shift(now, [-1, -1, 0]);
        self.close_full_batch();
    }

    pub(super) fn ended(&mut self, completion: &Completion) {
        let Some(live) = self.in_flight.remove(completion.id) else {
            if completion.outcome != Outcome::Rejected {
                self.audit
                    .note(|| format!("request {} left while not inside", completion.id.0));
            }
            return;
        };
        self.audit.left(completion, &live);
        if let Some(replicas) = &mut self.by_replica {
            cold_path();
            replicas.ended(completion);
        }
        match live.place {
            Place::Waiting => self.shift(completion.end, [-1, -1, 0]),
            Place::Running => self.shift(completion.end, [-1, 0, -1]),
            Place::Leaving => self.shift(completion.end, [-1, 0, 0]),
        }
        if completion.outcome != Outcome::Completed
            && let Some(tiers) = &mut self.tiers
        {
            tiers.lost(completion.id);
        }
        let answered = match completion.outcome {
            Outcome::Completed => Some(self.completed(completion, &live)),
            Outcome::TimedOut => {
                self.open.counts.timed_out += 1;
                None
            }
            Outcome::Failed => {
                self.open.counts.failed += 1;
                None
            }
            Outcome::Rejected => {
                self.open.counts.rejected += 1;
                None
            }
        };
        if let Some(parts) = &mut self.parts {
            cold_path();
            parts.ended(live.class, completion, answered);
            if parts.slo(live.class).is_some() {
                let counts = class_counts(&mut self.open.classes, live.class as usize);
                counts.ended += 1;
                counts.good += u64::from(answered.is_some_and(|(_, is_good)| is_good));
            }
        }
        self.close_full_batch();
    }

    #[inline]
    fn completed(&mut self, completion: &Completion, live: &Live) -> (Latencies, bool) {
        let first_token = completion.first_token.unwrap_or(completion.end);
        let ttft = first_token.saturating_sub(completion.arrival);
        let e2el = completion.end.saturating_sub(completion.arrival);
        let later_tokens = u64::from(completion.output_tokens.saturating_sub(1));
        let decoding = completion.end.saturating_sub(first_token).0;
        let tpot = Picos(
            (decoding + later_tokens / 2)
                .checked_div(later_tokens)
                .unwrap_or(0),
        );
        let latencies = &mut self.open.latencies;
        latencies[Metric::Ttft as usize].record_one(ttft);
        if let Some(tiers) = &mut self.tiers {
            cold_path();
            tiers.completed(completion.id, ttft);
        }
        if later_tokens > 0 {
            latencies[Metric::Tpot as usize].record_one(tpot);
        }
        latencies[Metric::E2el as usize].record_one(e2el);
        let queued = completion.first_scheduled.saturating_sub(completion.arrival);
        latencies[Metric::QueueTime as usize].record_one(queued);
        if completion.client_queue_time > Picos::ZERO {
            latencies[Metric::ClientQueueTime as usize].record(completion.client_queue_time, 1);
        }
        let slo = self.parts.as_ref().and_then(|parts| parts.slo(live.class));
        let is_good = slo.unwrap_or(self.options.slo).hold(ttft, tpot, e2el);
        let answer = |counts: &mut Counts| {
            counts.completed += 1;
            counts.input_tokens += u64::from(completion.prompt_tokens);
            counts.output_tokens += u64::from(completion.output_tokens);
            counts.asked_tokens += u64::from(live.asked);
            counts.good += u64::from(is_good);
        };
        answer(&mut self.open.counts);
        if completion.end == self.open.begin {
            cold_path();
            answer(&mut self.open.at_begin);
        }
        let latencies = Latencies {
            ttft,
            tpot: (later_tokens > 0).then_some(tpot),
            e2el,
            queued,
        };
        (latencies, is_good)
    }
}
