//! What is told while a run goes on is what is told of it afterwards: the same requests, posted as they come and looked at
//! at any instants, and posted beforehand.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::cluster::ClusterSpec;
use plimsoll::cluster::router::Policy;
use plimsoll::cost::StepCost;
use plimsoll::live::{Delivered, Delivery, Live};
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, RequestRecord, SloLimits};
use plimsoll::rng::{Purpose, stream};
use plimsoll::sim::{Fact, Observer, Outcome, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Post, Posted, Span};
use proptest::prelude::*;
use rand::RngExt;

use crate::scenario::{Experiment, Nobody};

/// Posts and when they come.
fn posts(seed: u64, longest: u32) -> Vec<(Picos, Post)> {
    let mut dice = stream(seed, Purpose::Arrivals, 7);
    let mut at = 0;
    let mut posts: Vec<(Picos, Post)> = Vec::new();
    for index in 0..dice.random_range(1..50u64) {
        at += dice.random_range(0..60_000_000_000u64);
        let own = Span::Text {
            name: 1000 + index,
            tokens: dice.random_range(1..longest / 3),
        };
        let mut prompt = Vec::new();
        if dice.random_range(0..2) == 0 {
            let name = dice.random_range(0..3u64);
            prompt.push(Span::Text {
                name,
                tokens: 5 + name as u32,
            });
        }
        prompt.push(own);
        let max_tokens = dice.random_range(1..longest / 3);
        posts.push((
            Picos(at),
            Post {
                prompt,
                output_tokens: dice.random_range(1..=max_tokens),
                max_tokens,
                priority: dice.random_range(-1..2),
                class: 0,
                ignore_eos: false,
                session: None,
            },
        ));
    }
    posts
}

/// A server, or several behind a router.
fn servers(experiment: &Experiment, replicas: u32, traffic: Posted) -> Simulation<Posted> {
    if replicas == 1 {
        return experiment.simulation_of(traffic);
    }
    let costs = (0..replicas).map(|_| Box::new(experiment.cost) as Box<dyn StepCost>);
    let spec = ClusterSpec::of(replicas, Policy::LeastRequests);
    let engine = experiment.engine.clone().into();
    Simulation::of_cluster(
        &engine,
        costs.collect(),
        &spec,
        experiment.seed,
        experiment.frontend,
        traffic,
    )
    .drafting(experiment.seed)
}

/// Keeps books, and remembers who was preempted, or had a gap of its own where steps are shared.
struct Books {
    recorder: Recorder,
    passed_over: BTreeSet<u64>,
    speculates: bool,
}

impl Observer for Books {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.recorder.observe(fact);
        match *fact {
            Fact::Preempted { id, .. } => drop(self.passed_over.insert(id.0)),
            Fact::Gap { id, .. } if !self.speculates => drop(self.passed_over.insert(id.0)),
            _ => {}
        }
    }
}

/// The run of all of them, posted beforehand, and who was preempted or passed over.
fn beforehand(
    experiment: &Experiment,
    replicas: u32,
    posts: &[(Picos, Post)],
) -> (BTreeMap<u64, RequestRecord>, BTreeSet<u64>) {
    let mut traffic = Posted::default();
    for (at, post) in posts {
        traffic.post(post, *at);
    }
    let engine = &experiment.engine;
    let recorder = Recorder::new(RecorderOptions {
        fleet: Fleet::alike(replicas, engine.num_gpu_blocks - 1, engine.block_size),
        slo: SloLimits::default(),
        records: Records::WithItls,
    });
    let mut simulation = servers(experiment, replicas, traffic);
    let mut books = Books {
        recorder,
        passed_over: BTreeSet::new(),
        speculates: engine.speculation.is_some(),
    };
    simulation.advance(Until::DRAINED, &mut books);
    let seen = books.recorder.finish(simulation.now());
    assert!(seen.violations.is_empty(), "{:?}", seen.violations);
    let records = seen.records.into_iter().flatten();
    let records = records.map(|record| (record.completion.id.0, record));
    (records.collect(), books.passed_over)
}

/// The same, posted as they come; looked at wherever something happens or at random: what was told, and how many tokens at a later look than the
/// first after them.
fn as_they_come(experiment: &Experiment, replicas: u32, posts: &[(Picos, Post)]) -> (Vec<Delivery>, usize) {
    let mut dice = stream(experiment.seed, Purpose::Arrivals, 8);
    let mut live = Live::new(servers(experiment, replicas, Posted::default()));
    let mut told = Vec::new();
    let (mut now, mut heard, mut late) = (Picos::ZERO, Picos::ZERO, 0);
    let mut posts = posts.iter().peekable();
    loop {
        let happens = live.next_instant();
        let comes = posts.peek().map(|(at, _)| *at);
        let Some(next) = happens.into_iter().chain(comes).min() else {
            return (told, late);
        };
        assert!(now < Picos::from_seconds(10_000.0), "it ends");
        let strolls = Picos(now.0 + dice.random_range(1..30_000_000_000u64));
        now = match dice.random_range(0..3) {
            0 => strolls,
            1 => next.max(now),
            _ => Picos(next.0.max(now.0) + 1),
        };
        let mut hear = |live: &mut Live, until: Picos| {
            let more = live.advance(until, &mut Nobody);
            let is_late = |delivery: &&Delivery| delivery.at < heard;
            late += more.iter().filter(is_late).count();
            heard = heard.max(until);
            told.extend(more);
        };
        while let Some((at, post)) = posts.next_if(|(at, _)| *at <= now) {
            hear(&mut live, Picos(at.0.saturating_sub(1)));
            live.post(post, *at, true);
        }
        hear(&mut live, now);
    }
}

/// When a client had each of its tokens.
fn tokens_at(record: &RequestRecord) -> Vec<f64> {
    let Some(first) = record.completion.first_token else {
        return Vec::new();
    };
    let mut at = first.seconds();
    let later = record.itls_s.iter().map(|gap| {
        at += gap;
        at
    });
    let later: Vec<f64> = later.collect();
    [vec![first.seconds()], later].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_told_as_it_comes_is_what_was(seed in any::<u64>(), replicas in 1u32..4) {
        let experiment = Experiment::draw(seed);
        let posts = posts(seed, experiment.engine.max_model_len);
        let (was, passed_over) = beforehand(&experiment, replicas, &posts);
        let (told, late) = as_they_come(&experiment, replicas, &posts);
        let is_preempted = was.values().any(|record| record.completion.preemptions > 0);
        prop_assert!(late == 0 || is_preempted, "{} tokens were told late", late);
        let mut ends = 0;
        for (id, record) in &was {
            let (mut count, mut times) = (0, Vec::new());
            for delivery in told.iter().filter(|delivery| delivery.id.0 == *id) {
                match &delivery.what {
                    Delivered::Taken => prop_assert_eq!(count, 0),
                    Delivered::Tokens(tokens) => {
                        count += tokens;
                        times.push(delivery.at.seconds());
                    }
                    Delivered::End(ended) => {
                        ends += 1;
                        prop_assert_eq!(&ended.completion, &record.completion);
                        prop_assert_eq!(delivery.at, record.completion.end);
                        prop_assert_eq!(ended.rejection.is_some(), record.completion.outcome == Outcome::Rejected);
                    }
                }
            }
            prop_assert_eq!(count, record.completion.output_tokens, "request {}", id);
            times.dedup();
            let mut expected = tokens_at(record);
            expected.dedup_by(|a, b| (*a - *b).abs() < 1e-11);
            let is_exact = times.len() == expected.len()
                && times.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9);
            // Of whom is preempted or passed over, which steps bring it a token is told with its next one.
            prop_assert!(is_exact || passed_over.contains(id), "request {id}: {times:?}, was {expected:?}");
        }
        prop_assert_eq!(ends, was.len());
    }

    #[test]
    fn who_goes_away_leaves_nothing_behind(seed in any::<u64>(), replicas in 1u32..4) {
        let experiment = Experiment::draw(seed);
        let posts = posts(seed, experiment.engine.max_model_len);
        let mut dice = stream(seed, Purpose::Arrivals, 9);
        let mut live = Live::new(servers(&experiment, replicas, Posted::default()));
        let mut ended = BTreeMap::new();
        let mut gone = Vec::new();
        let mut hear = |told: Vec<Delivery>| {
            for delivery in told {
                if let Delivered::End(end) = delivery.what {
                    assert!(ended.insert(delivery.id, end.completion).is_none(), "it ends once");
                }
            }
        };
        for (at, post) in &posts {
            hear(live.advance(*at, &mut Nobody));
            let id = live.post(post, *at, true);
            if dice.random_range(0..2) == 0 {
                // Perhaps before it is sent on, perhaps long after it has left.
                let leaves = Picos(at.0 + dice.random_range(0..400_000_000_000u64));
                live.withdraw(id, leaves);
                gone.push((id, leaves));
            }
        }
        while let Some(next) = live.next_instant() {
            hear(live.advance(Picos(next.0 + 1), &mut Nobody));
        }
        prop_assert_eq!(ended.len(), posts.len());
        for completion in ended.values() {
            let leaves = gone.iter().find(|(id, _)| *id == completion.id).map(|(_, at)| *at);
            match completion.outcome {
                Outcome::TimedOut => prop_assert_eq!(Some(completion.end), leaves),
                Outcome::Completed => prop_assert!(leaves.is_none_or(|at| completion.end <= at)),
                _ => {}
            }
        }
    }
}
