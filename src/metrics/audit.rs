//! Conservation laws, checked over every run from sums that do not share their terms.
//!
//! The area under N(t) comes from the instants at which facts were told; sojourns come from what completions,
//! admissions and preemptions claim about themselves. A lost, doubled or misdated event makes the two differ.

use super::in_flight::{InFlight, Live, Place};
use super::stretch::Stretch;
use super::summary::{LittleAudit, LittleCheck, Summary};
use crate::sim::{Completion, Outcome, Steps};
use crate::units::{PICOS_PER_SECOND, Picos};

/// Violations that are spelled out; the rest are counted.
const NOTES_MAX: usize = 16;

/// Running sums of an audit.
#[derive(Clone, Debug, Default)]
pub(super) struct Audit {
    pub(super) arrivals: u64,
    pub(super) admissions: u64,
    /// Returns to the waiting queue.
    pub(super) waits: u64,
    /// Σ of finished sojourns in the system, of finished waits, and of runs of those who left, in picoseconds.
    pub(super) system: i128,
    pub(super) waited: i128,
    pub(super) ran: i128,
    /// Tokens told one by one, and tokens in the gaps of steps.
    pub(super) tokens: u64,
    ended_tokens: u64,
    truncated: bool,
    step_ends: Vec<Picos>,
    notes: Vec<String>,
    notes_left_out: u64,
}

impl Audit {
    /// Writes a violation down.
    #[cold]
    pub(super) fn note(&mut self, violation: impl FnOnce() -> String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(violation());
        } else {
            self.notes_left_out += 1;
        }
    }

    /// Steps of a replica follow each other.
    #[inline]
    pub(super) fn steps(&mut self, steps: &Steps<'_>) {
        let replica = steps.replica.0 as usize;
        if self.step_ends.len() <= replica {
            self.step_ends.resize(replica + 1, Picos::ZERO);
        }
        if steps.begin < self.step_ends[replica] || steps.end < steps.begin || steps.count == 0 {
            self.note(|| {
                format!(
                    "replica {replica}: a step from {} to {} overlaps another",
                    steps.begin, steps.end
                )
            });
        }
        self.step_ends[replica] = steps.end;
        self.tokens += u64::from(steps.gap_seqs) * steps.count;
    }

    /// A request left: its own account against what was seen.
    #[inline]
    pub(super) fn left(&mut self, completion: &Completion, live: &Live) {
        let sojourn = i128::from(completion.end.0) - i128::from(completion.arrival.0);
        self.system += sojourn;
        let here = i128::from(completion.end.0) - i128::from(live.since.0);
        // Who was with one server all the time ran whenever it did not wait there, but for its answer's way back.
        let by_story = || sojourn - i128::from(completion.waiting_time.0);
        self.ran += match live.place {
            Place::Running if !live.is_again => by_story(),
            Place::Running => i128::from(live.ran.0) + here,
            Place::Leaving if !live.is_again => by_story() - here,
            Place::Leaving | Place::Waiting => i128::from(live.ran.0),
        };
        if live.place == Place::Waiting {
            self.waited += here;
        }
        self.ended_tokens += u64::from(completion.output_tokens);
        self.truncated |= completion.outcome != Outcome::Completed;
        let first = completion.first_token.unwrap_or(completion.end);
        if completion.arrival != live.arrival || first < completion.arrival || completion.end < first {
            self.note(|| format!("request {} tells a story that runs back in time", completion.id.0));
        }
    }

    /// A request came back from a replica that failed; if it waited there, for how long.
    pub(super) fn returned(&mut self, waited: Option<Picos>) {
        self.waits += 1;
        self.waited += waited.map_or(0, |waited| i128::from(waited.0));
        self.truncated = true;
    }

    /// Little's law for the system, the waiting queue and the running batch, over `0..end`.
    pub(super) fn little(&self, whole: &Stretch, end: Picos, in_flight: &InFlight) -> LittleAudit {
        let (mut system, mut waited, mut ran) = (self.system, self.waited, self.ran);
        for (_, live) in in_flight.iter() {
            let here = i128::from(end.0) - i128::from(live.since.0);
            system += i128::from(end.0) - i128::from(live.arrival.0);
            ran += i128::from(live.ran.0);
            match live.place {
                Place::Running => ran += here,
                Place::Waiting => waited += here,
                Place::Leaving => {}
            }
        }
        let seconds = end.seconds().max(f64::MIN_POSITIVE);
        let check = |area: i128, visits: u64, sojourns: i128| LittleCheck {
            l: area as f64 / end.0.max(1) as f64,
            lambda: visits as f64 / seconds,
            w: sojourns as f64 / PICOS_PER_SECOND as f64 / visits.max(1) as f64,
        };
        LittleAudit {
            system: check(whole.areas[0], self.arrivals, system),
            waiting: check(whole.areas[1], self.arrivals + self.waits, waited),
            running: check(whole.areas[2], self.admissions, ran),
            front_ends: None,
        }
    }

    /// All broken laws of a finished run.
    pub(super) fn conclude(mut self, whole: &Summary, little: &LittleAudit) -> Vec<String> {
        let out = whole.ended();
        if whole.sent != out + whole.inside {
            self.note(|| {
                format!(
                    "{} requests sent, but {out} left and {} are inside",
                    whole.sent, whole.inside
                )
            });
        }
        if whole.inside == 0 && !self.truncated && self.tokens != self.ended_tokens {
            let (seen, told) = (self.tokens, self.ended_tokens);
            self.note(|| format!("{seen} output tokens were seen, requests report {told}"));
        }
        // Its steps follow each other from time 0, so a replica computes no longer than until its last one ends.
        let most_busy: f64 = self.step_ends.iter().map(|end| end.seconds()).sum();
        let busy = whole.work.busy_s;
        if busy > most_busy * (1.0 + 1e-9) {
            self.note(|| {
                format!("replicas computed for {busy} s, but their steps ended within {most_busy} s")
            });
        }
        let checks = [
            ("system", little.system),
            ("waiting queue", little.waiting),
            ("running batch", little.running),
        ];
        for (name, check) in checks {
            let by_law = check.lambda * check.w;
            if (check.l - by_law).abs() > 1e-6 * check.l.abs().max(1e-3) {
                self.note(|| {
                    format!(
                        "Little's law fails for the {name}: L = {}, λW = {by_law}",
                        check.l
                    )
                });
            }
        }
        if self.notes_left_out > 0 {
            self.notes.push(format!("and {} more", self.notes_left_out));
        }
        self.notes
    }
}
