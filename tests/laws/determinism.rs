//! One seed, one story; and one cause changed at a time.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll::engine::Policy;
use plimsoll::sim::{Fact, Observer};
use plimsoll::threads::Behind;
use plimsoll::workload::{Arrivals, Prefix, Request};
use proptest::prelude::*;
use rayon::prelude::*;

use crate::scenario::Experiment;

/// A digest of everything that is told.
#[derive(Default)]
struct Digest(DefaultHasher);

impl Observer for Digest {
    fn observe(&mut self, fact: &Fact<'_>) {
        format!("{fact:?}").hash(&mut self.0);
    }
}

fn digest(experiment: &Experiment) -> u64 {
    let mut digest = Digest::default();
    experiment.drain(&mut digest);
    digest.0.finish()
}

#[derive(Default)]
struct Sent(BTreeMap<u64, Request>);

impl Observer for Sent {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Arrived { request } = fact {
            self.0.insert(request.id.0, (*request).clone());
        }
    }
}

fn sent(experiment: &Experiment) -> BTreeMap<u64, Request> {
    let mut sent = Sent::default();
    experiment.drain(&mut sent);
    sent.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn equal_seeds_tell_equal_stories(seed in any::<u64>()) {
        let experiment = Experiment::draw(seed);
        prop_assert_eq!(digest(&experiment), digest(&experiment.clone()));
    }

    /// Another engine sees the same open traffic, and the same lengths in the same order when clients wait for it.
    #[test]
    fn another_scheduler_sees_the_same_traffic(seed in any::<u64>()) {
        let experiment = Experiment::draw(seed);
        let mut other = experiment.clone();
        let (stages, depth) = (experiment.engine.stages, experiment.engine.queue_depth);
        other.engine.queue_depth = 2 * stages + 1 - depth;
        other.engine.max_num_seqs = 1 + experiment.engine.max_num_seqs / 2;
        other.engine.policy = Policy::Fcfs;
        other.engine.enable_prefix_caching ^= true;
        let (here, there) = (sent(&experiment), sent(&other));
        if matches!(experiment.spec.prefix, Prefix::Sessions { .. }) {
            return Ok(());
        }
        let is_open = experiment.spec.client.max_concurrency.is_none()
            && !matches!(experiment.spec.arrivals, Arrivals::Users { .. });
        if is_open {
            prop_assert_eq!(here, there);
        } else {
            for (here, there) in here.values().zip(there.values()) {
                let texts = |request: &Request| {
                    (request.id, request.prompt_tokens, request.output_tokens, request.max_tokens, request.priority, request.prompt.clone())
                };
                prop_assert_eq!(texts(here), texts(there));
            }
        }
    }
}

/// In batches, and by another thread.
#[test]
fn who_hears_later_hears_the_same() {
    let (mut here, mut behind) = (Digest::default(), Behind::of(Digest::default()));
    for seed in 0..64 {
        let experiment = Experiment::draw(seed);
        experiment.drain(&mut here);
        experiment.drain(&mut behind);
    }
    assert_eq!(here.0.finish(), behind.into_inner().0.finish());
}

#[test]
fn threads_change_nothing() {
    let experiments: Vec<Experiment> = (0..64).map(Experiment::draw).collect();
    let in_pool = |threads: usize| -> Vec<u64> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a pool");
        pool.install(|| experiments.par_iter().map(digest).collect())
    };
    let alone = in_pool(1);
    assert_eq!(alone, in_pool(8));
    let distinct: std::collections::BTreeSet<u64> = alone.iter().copied().collect();
    assert_eq!(distinct.len(), 64, "other seeds tell other stories");
}
