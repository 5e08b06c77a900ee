//! Per-request records and, when asked for, every request's own token gaps.
//!
//! Facts about steps do not name their sequences. A sequence takes part in every step of its replica that has
//! gaps, from its first token on, except where a [`Fact::Gap`] says that it was passed over; so its gaps are a
//! slice of its replica's list, cut where such facts say.

use rustc_hash::FxHashMap;

use super::audit::Audit;
use super::gaps::{self, GapRun};
use super::summary::RequestRecord;
use crate::ids::{ReplicaId, RequestId};
use crate::sim::{Completion, Fact, Outcome, Steps};
use crate::units::Picos;

/// Collects records.
#[derive(Clone, Debug)]
pub(super) struct Detail {
    records: Vec<RequestRecord>,
    /// Of requests inside, but for those of the first class.
    classes: FxHashMap<RequestId, u32>,
    gaps: Option<Gaps>,
}

#[derive(Clone, Debug, Default)]
struct Gaps {
    replicas: Vec<TokenLog>,
    sequences: FxHashMap<RequestId, Sequence>,
}

/// The steps of one replica that have gaps: (end, gap).
#[derive(Clone, Debug, Default)]
struct TokenLog {
    entries: Vec<(Picos, Picos)>,
    last_end: Picos,
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    replica: usize,
    /// Gaps settled so far.
    itls: Vec<Picos>,
    /// Entries of the log from here on are its own too; `None` while it emits nothing.
    from: Option<usize>,
    /// From the end of a step to the engine's telling of its token.
    delivery: Picos,
    /// When the engine told its first token.
    first_told: Option<Picos>,
    /// Tokens that came in one piece with another.
    at_once: u32,
    /// It was prefilled on another replica.
    is_relayed: bool,
}

impl Detail {
    pub(super) fn new(with_itls: bool) -> Self {
        Detail {
            records: Vec::new(),
            classes: FxHashMap::default(),
            gaps: with_itls.then(Gaps::default),
        }
    }

    pub(super) fn into_records(self) -> Vec<RequestRecord> {
        self.records
    }

    pub(super) fn observe(&mut self, fact: &Fact<'_>, audit: &mut Audit) {
        if let Some(gaps) = &mut self.gaps {
            gaps.observe(fact);
        }
        if let Fact::Arrived { request } = fact
            && request.class > 0
        {
            self.classes.insert(request.id, request.class);
        }
        if let Fact::Ended(completion) = fact {
            let itls_s = self
                .gaps
                .as_mut()
                .map_or(Vec::new(), |gaps| gaps.take(completion, audit));
            self.records.push(RequestRecord {
                completion: (*completion).clone(),
                class: self.classes.remove(&completion.id).unwrap_or(0),
                itls_s,
            });
        }
    }
}

impl Gaps {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted { replica, id, .. } => self.admitted(replica, id),
            Fact::Steps(steps) => self.log(steps.replica).push(steps),
            Fact::FirstToken { now, id, .. } => self.first_token(id, now),
            Fact::Gap {
                now, id, gap, seen, ..
            } => self.gap(id, now - gap, seen),
            Fact::Burst { id, tokens, .. } => self.burst(id, tokens),
            // A token may be in flight yet when its sequence is preempted: the gap after it says when the last one came.
            Fact::Loaded { .. }
            | Fact::Verified { .. }
            | Fact::Tiers { .. }
            | Fact::Preempted { .. }
            | Fact::Arrived { .. }
            | Fact::Rejected { .. }
            | Fact::Sent { .. }
            | Fact::Crossing { .. }
            | Fact::Crossed { .. }
            | Fact::Ended(_) => {}
            // All of its tokens have left the engine; when its client has the last is the front end's to say.
            Fact::Leaving { now, id } => self.settle(id, now),
            // Its answer begins anew.
            Fact::Returned(part) => {
                self.sequences.remove(&part.id);
            }
            Fact::Relayed(relay) => {
                self.sequences.entry(relay.id).or_default().is_relayed = true;
            }
            Fact::HandedOver { .. }
            | Fact::Transferred { .. }
            | Fact::Released { .. }
            | Fact::Links { .. } => {}
        }
    }

    fn log(&mut self, replica: ReplicaId) -> &mut TokenLog {
        let replica = replica.0 as usize;
        if self.replicas.len() <= replica {
            self.replicas.resize_with(replica + 1, TokenLog::default);
        }
        &mut self.replicas[replica]
    }

    fn admitted(&mut self, replica: ReplicaId, id: RequestId) {
        self.log(replica);
        self.sequences.entry(id).or_default().replica = replica.0 as usize;
    }

    fn first_token(&mut self, id: RequestId, now: Picos) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let log = &self.replicas[sequence.replica];
            sequence.from = Some(log.entries.len());
            sequence.first_told = Some(now);
            sequence.delivery = match sequence.is_relayed {
                // Its first token is of another replica's step.
                true => Picos::ZERO,
                false => now.saturating_sub(log.last_end),
            };
        }
    }

    /// Moves the sequence's entries of the log into its own list, up to those delivered by `until`.
    fn settle(&mut self, id: RequestId, until: Picos) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let entries = &self.replicas[sequence.replica].entries;
            if let Some(from) = sequence.from.take() {
                let delivered = |&&(end, _): &&(Picos, Picos)| end + sequence.delivery <= until;
                sequence
                    .itls
                    .extend(entries[from..].iter().take_while(delivered).map(|&(_, gap)| gap));
            }
        }
    }

    /// It had no token since `since`; its client saw none for so long.
    fn gap(&mut self, id: RequestId, since: Picos, seen: Picos) {
        self.settle(id, since);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.itls.push(seen);
            sequence.from = Some(self.replicas[sequence.replica].entries.len());
        }
    }

    fn burst(&mut self, id: RequestId, tokens: u32) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            sequence.at_once += tokens;
        }
    }

    /// When a request that left had left its engine: the front end's time for an answer is that of its first token.
    fn left_engine(&self, completion: &Completion) -> Picos {
        let told = self
            .sequences
            .get(&completion.id)
            .and_then(|sequence| sequence.first_told);
        let response = match (completion.first_token, told) {
            (Some(at_client), Some(told)) => at_client.saturating_sub(told),
            _ => Picos::ZERO,
        };
        completion.end.saturating_sub(response)
    }

    /// The gaps of a request that left, in seconds.
    fn take(&mut self, completion: &Completion, audit: &mut Audit) -> Vec<f64> {
        self.settle(completion.id, self.left_engine(completion));
        let mut sequence = self.sequences.remove(&completion.id).unwrap_or_default();
        let expected = completion.output_tokens.saturating_sub(1 + sequence.at_once) as usize;
        if completion.outcome != Outcome::Completed {
            // Whose client gave up while it was preempted or passed over had no part in the last steps.
            sequence.itls.truncate(expected);
        }
        if completion.outcome == Outcome::Completed && sequence.itls.len() != expected {
            let (id, found) = (completion.id.0, sequence.itls.len());
            audit.note(|| {
                format!("request {id}: {found} token gaps were seen, its length asks for {expected}")
            });
        }
        sequence.itls.iter().map(|gap| gap.seconds()).collect()
    }
}

impl TokenLog {
    fn push(&mut self, steps: &Steps<'_>) {
        self.last_end = steps.end;
        if steps.gap_seqs == 0 {
            return;
        }
        let mut duration = steps.duration;
        let later: u64 = (1..steps.count)
            .map(|i| steps.duration.0 + steps.duration_increment.0 * i)
            .sum();
        let mut end = Picos(steps.end.0 - later);
        for gap in gaps::of_steps(steps).into_iter().flat_map(GapRun::gaps) {
            self.entries.push((end, gap));
            duration += steps.duration_increment;
            end += duration;
        }
    }
}
