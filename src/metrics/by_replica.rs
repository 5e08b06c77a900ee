//! What each of several replicas did, and Little's law for its queue and batch.

use super::stays::{PlaceChecks, Stays};
use super::stretch::{Filled, Work};
use super::summary::{LittleCheck, WorkCounters};
use crate::ids::ReplicaId;
use crate::sim::{Completion, Fact, Outcome};
use crate::units::Picos;

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
    /// Little's law for whoever waits or runs here: `L` from instants, `W` from what requests say of themselves.
    pub inside: LittleCheck,
    /// The same for its queue.
    pub waiting: LittleCheck,
    /// The same for its running batch.
    pub running: LittleCheck,
    /// The same for requests that wait for nothing but their KV on the way here.
    pub crossing: LittleCheck,
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

/// Running sums of one replica.
#[derive(Clone, Debug, Default)]
struct Tally {
    admitted: u64,
    completed: u64,
    lost: u64,
    output_tokens: u64,
    preemptions: u64,
    cache_queries: u64,
    cache_hits: u64,
    work: Work,
    fullest: Filled,
}

/// All replicas.
#[derive(Clone, Debug)]
pub(super) struct ByReplica {
    tallies: Vec<Tally>,
    stays: Stays,
}

/// What all replicas did.
pub(super) struct Concluded {
    pub(super) replicas: Vec<ReplicaSummary>,
    /// Little's law for requests that are with the front ends.
    pub(super) front_ends: LittleCheck,
    /// In words the laws that are broken.
    pub(super) broken: Vec<String>,
}

impl ByReplica {
    pub(super) fn new(replicas: u32) -> ByReplica {
        ByReplica {
            tallies: vec![Tally::default(); replicas as usize],
            stays: Stays::new(replicas),
        }
    }

    /// What was told.
    pub(super) fn observe(&mut self, fact: &Fact<'_>) {
        self.stays.observe(fact);
        match *fact {
            Fact::Admitted {
                replica,
                known_tokens,
                cached_tokens,
                resumed: false,
                ..
            } => {
                let tally = &mut self.tallies[replica.0 as usize];
                tally.admitted += 1;
                tally.cache_queries += u64::from(known_tokens);
                tally.cache_hits += u64::from(cached_tokens);
            }
            Fact::Preempted { replica, .. } => self.tallies[replica.0 as usize].preemptions += 1,
            Fact::HandedOver { to, .. } => self.tallies[to.0 as usize].admitted += 1,
            Fact::Steps(steps) => self.tallies[steps.replica.0 as usize].work.add_steps(steps),
            _ => {}
        }
    }

    /// How full the KV pool of a replica was over steps of its own.
    pub(super) fn filled(&mut self, replica: ReplicaId, filled: Filled) {
        let fullest = &mut self.tallies[replica.0 as usize].fullest;
        *fullest = fullest.fuller(filled);
    }

    /// A request that had been taken in left.
    pub(super) fn ended(&mut self, completion: &Completion) {
        let tally = &mut self.tallies[completion.replica.0 as usize];
        match completion.outcome {
            Outcome::Completed => {
                tally.completed += 1;
                tally.output_tokens += u64::from(completion.output_tokens);
            }
            Outcome::TimedOut | Outcome::Failed => tally.lost += 1,
            Outcome::Rejected => {}
        }
    }

    /// What they did in a run that ended at `end` and whose number in the system has this area below it.
    pub(super) fn conclude(self, end: Picos, system_area: i128) -> Concluded {
        let (front_ends, checks, broken) = self.stays.conclude(end, system_area);
        let replicas = self.tallies.iter().zip(&checks);
        Concluded {
            replicas: replicas.map(|(tally, checks)| tally.summary(checks)).collect(),
            front_ends,
            broken,
        }
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
            all.inside.add(&one.inside);
            all.waiting.add(&one.waiting);
            all.running.add(&one.running);
            all.crossing.add(&one.crossing);
            all.running_max = all.running_max.max(one.running_max);
            all.kv_usage_max = all.kv_usage_max.max(one.kv_usage_max);
            all.work.add(&one.work);
        }
        all
    }
}

impl Tally {
    fn summary(&self, checks: &PlaceChecks) -> ReplicaSummary {
        ReplicaSummary {
            admitted: self.admitted,
            completed: self.completed,
            lost: self.lost,
            output_tokens: self.output_tokens,
            busy_s: Picos(self.work.busy).seconds(),
            preemptions: self.preemptions,
            cache_queries_tokens: self.cache_queries,
            cache_hit_tokens: self.cache_hits,
            inside: checks.inside,
            waiting: checks.waiting,
            running: checks.running,
            crossing: checks.crossing,
            running_max: checks.running_max,
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
