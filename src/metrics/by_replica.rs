//! What each of several replicas did, and Little's law for each one's running batch.

use super::in_flight::{Live, Place};
use super::stretch::{Filled, Work};
use super::summary::{LittleCheck, WorkCounters};
use crate::ids::ReplicaId;
use crate::sim::{Completion, Fact, Outcome};
use crate::units::{PICOS_PER_SECOND, Picos};

/// What one replica did over a whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSummary {
    /// Requests that began to run here.
    pub admitted: u64,
    /// Requests that it answered whole.
    pub completed: u64,
    /// Requests that were given up or failed here.
    pub lost: u64,
    /// Output tokens of the completed ones.
    pub output_tokens: u64,
    /// Time in which a step ran, in seconds.
    pub busy_s: f64,
    /// Preemptions.
    pub preemptions: u64,
    /// Prompt tokens looked up in the prefix cache at first admission.
    pub cache_queries_tokens: u64,
    /// Prompt tokens found there.
    pub cache_hit_tokens: u64,
    /// Little's law for the running batch: `L` from instants, `W` from what requests say of themselves.
    pub running: LittleCheck,
    /// Most sequences running at once.
    pub running_max: u32,
    /// Largest share of its KV blocks in use.
    pub kv_usage_max: f64,
    /// What its steps computed.
    pub work: WorkCounters,
}

/// The replicas of each of several pools, of which `replicas` says how many it has: they are numbered through over the
/// pools. `None` of a pool without accounts: a replica that is alone has none of its own.
#[must_use]
pub fn of_pools(
    all: &[ReplicaSummary],
    replicas: impl IntoIterator<Item = u32>,
) -> Vec<Option<&[ReplicaSummary]>> {
    let mut first = 0;
    let of_pool = |replicas: u32| {
        let last = first + replicas as usize;
        let own = all.get(first..last);
        first = last;
        own
    };
    replicas.into_iter().map(of_pool).collect()
}

/// Running sums of one replica. Areas and times are exact, in picoseconds.
#[derive(Clone, Debug, Default)]
struct Tally {
    admitted: u64,
    visits: u64,
    completed: u64,
    lost: u64,
    output_tokens: u64,
    preemptions: u64,
    cache_queries: u64,
    cache_hits: u64,
    work: Work,
    fullest: Filled,
    /// Sequences running, and −Σ change·instant.
    level: i64,
    level_max: i64,
    moment: i128,
    /// Σ of the visits that are over.
    ran: i128,
}

/// All replicas.
#[derive(Clone, Debug)]
pub(super) struct ByReplica(Vec<Tally>);

impl ByReplica {
    pub(super) fn new(replicas: u32) -> ByReplica {
        ByReplica(vec![Tally::default(); replicas as usize])
    }

    /// What is not the end of a request.
    pub(super) fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted {
                now,
                replica,
                known_tokens,
                cached_tokens,
                resumed,
                ..
            } => {
                let tally = &mut self.0[replica.0 as usize];
                tally.shift(now, 1);
                tally.visits += 1;
                if !resumed {
                    tally.admitted += 1;
                    tally.cache_queries += u64::from(known_tokens);
                    tally.cache_hits += u64::from(cached_tokens);
                }
            }
            Fact::Preempted {
                now,
                replica,
                running_since,
                ..
            } => {
                let tally = &mut self.0[replica.0 as usize];
                tally.shift(now, -1);
                tally.preemptions += 1;
                tally.ran += i128::from((now - running_since).0);
            }
            Fact::HandedOver {
                now,
                from,
                to,
                running_since,
                ..
            } => {
                let tally = &mut self.0[from.0 as usize];
                tally.shift(now, -1);
                tally.ran += i128::from((now - running_since).0);
                self.0[to.0 as usize].admitted += 1;
            }
            Fact::Steps(steps) => self.0[steps.replica.0 as usize].work.add_steps(steps),
            _ => {}
        }
    }

    /// How full the KV pool of a replica was over steps of its own.
    pub(super) fn filled(&mut self, replica: ReplicaId, filled: Filled) {
        let fullest = &mut self.0[replica.0 as usize].fullest;
        *fullest = fullest.fuller(filled);
    }

    /// A request that had been taken in left, from where `live` says.
    pub(super) fn ended(&mut self, completion: &Completion, live: &Live) {
        let tally = &mut self.0[completion.replica.0 as usize];
        match completion.outcome {
            Outcome::Completed => {
                tally.completed += 1;
                tally.output_tokens += u64::from(completion.output_tokens);
            }
            Outcome::TimedOut | Outcome::Failed => tally.lost += 1,
            Outcome::Rejected => {}
        }
        if live.place == Place::Running {
            tally.shift(completion.end, -1);
            let sojourn = i128::from(completion.end.0) - i128::from(completion.arrival.0);
            tally.ran += match live.is_again {
                false => sojourn - i128::from(completion.waiting_time.0) - i128::from(live.ran.0),
                true => i128::from(completion.end.0) - i128::from(live.since.0),
            };
        }
    }

    /// The summaries of a run that ended at `end`, and in words the laws that are broken.
    pub(super) fn conclude(self, end: Picos) -> (Vec<ReplicaSummary>, Vec<String>) {
        let broken = self.0.iter().enumerate().filter_map(|(index, tally)| {
            // Of those still inside only half the account is there.
            let is_broken = tally.level < 0 || (tally.level == 0 && tally.area(end) != tally.ran);
            is_broken.then(|| format!("Little's law fails for the running batch of replica {index}"))
        });
        let broken = broken.collect();
        (self.0.iter().map(|tally| tally.summary(end)).collect(), broken)
    }
}

impl ReplicaSummary {
    /// Several replicas of a pool as one: sums, and the largest of what is a maximum. Little's law adds up, because each
    /// replica's L is of instants and its W of what its requests say, over the same time.
    #[must_use]
    pub fn together(replicas: &[ReplicaSummary]) -> ReplicaSummary {
        let mut all = ReplicaSummary::default();
        for one in replicas {
            all.admitted += one.admitted;
            all.completed += one.completed;
            all.lost += one.lost;
            all.output_tokens += one.output_tokens;
            all.busy_s += one.busy_s;
            all.preemptions += one.preemptions;
            all.cache_queries_tokens += one.cache_queries_tokens;
            all.cache_hit_tokens += one.cache_hit_tokens;
            all.running.add(&one.running);
            all.running_max = all.running_max.max(one.running_max);
            all.kv_usage_max = all.kv_usage_max.max(one.kv_usage_max);
            all.work.add(&one.work);
        }
        all
    }
}

impl Tally {
    fn shift(&mut self, now: Picos, by: i64) {
        self.level += by;
        self.level_max = self.level_max.max(self.level);
        self.moment -= i128::from(by) * i128::from(now.0);
    }

    /// ∫ running, up to `end`.
    fn area(&self, end: Picos) -> i128 {
        i128::from(self.level) * i128::from(end.0) + self.moment
    }

    fn summary(&self, end: Picos) -> ReplicaSummary {
        let seconds = end.seconds().max(f64::MIN_POSITIVE);
        ReplicaSummary {
            admitted: self.admitted,
            completed: self.completed,
            lost: self.lost,
            output_tokens: self.output_tokens,
            busy_s: Picos(self.work.busy).seconds(),
            preemptions: self.preemptions,
            cache_queries_tokens: self.cache_queries,
            cache_hit_tokens: self.cache_hits,
            running: LittleCheck {
                l: self.area(end) as f64 / PICOS_PER_SECOND as f64 / seconds,
                lambda: self.visits as f64 / seconds,
                w: self.ran as f64 / PICOS_PER_SECOND as f64 / self.visits.max(1) as f64,
            },
            running_max: u32::try_from(self.level_max).unwrap_or(u32::MAX),
            kv_usage_max: self.fullest.share(),
            work: self.work.counters(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_together_have_the_sums_of_little_s_law() {
        let replica = |l, lambda, w, running_max| ReplicaSummary {
            running: LittleCheck { l, lambda, w },
            running_max,
            ..ReplicaSummary::default()
        };
        let both = ReplicaSummary::together(&[replica(6.0, 3.0, 2.0, 9), replica(4.0, 1.0, 4.0, 5)]);
        let LittleCheck { l, lambda, w } = both.running;
        assert_eq!((l, lambda, w, both.running_max), (10.0, 4.0, 2.5, 9));
        // L is never made from λW: where they differ the difference stays.
        let wrong = ReplicaSummary::together(&[replica(7.0, 3.0, 2.0, 9), replica(0.0, 0.0, 0.0, 0)]).running;
        assert_eq!((wrong.l, wrong.lambda * wrong.w), (7.0, 6.0));
    }
}
