//! What is told while a run goes on is what is told of it afterwards: the same requests, posted as they come and looked at
//! at any instants, and posted beforehand.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll::cluster::ClusterSpec;
use plimsoll::cluster::router::Policy;
use plimsoll::config::{Document, NoFiles, resolve};
use plimsoll::cost::StepCost;
use plimsoll::live::{Delivered, Delivery, Live};
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, RequestRecord, Room, SloLimits};
use plimsoll::rng::{Purpose, stream};
use plimsoll::sim::{Fact, Observer, Outcome, Scenario, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Post, Posted, Span};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
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

/// What serves: the same and empty, as often as it is asked for.
struct Servers<'a> {
    open: Box<dyn Fn(Posted) -> Simulation<Posted> + 'a>,
    fleet: Fleet,
    /// Who has a gap of its own may have been passed over in steps that others had tokens of, which is told with its next one.
    passes_over: bool,
    seed: u64,
}

impl Servers<'_> {
    /// One of vLLM's, or several behind a router.
    fn of_vllm(experiment: &Experiment, replicas: u32) -> Servers<'_> {
        let open = move |traffic| {
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
        };
        let engine = &experiment.engine;
        Servers {
            open: Box::new(open),
            fleet: Fleet::alike(replicas, engine.num_gpu_blocks - 1, engine.block_size),
            passes_over: engine.speculation.is_none(),
            seed: experiment.seed,
        }
    }

    /// Those of a scenario.
    fn of_scenario(scenario: Scenario, passes_over: bool, seed: u64) -> Servers<'static> {
        let rooms = Simulation::of_scenario(&scenario, Posted::default());
        let rooms = rooms.total_blocks().zip(scenario.block_sizes());
        let rooms = rooms.map(|(kv_blocks, block_size)| Room {
            kv_blocks,
            block_size,
        });
        let fleet = Fleet {
            rooms: rooms.collect(),
            pools: scenario.pool_of_each(),
        };
        Servers {
            fleet,
            open: Box::new(move |traffic| Simulation::of_scenario(&scenario, traffic)),
            passes_over,
            seed,
        }
    }
}

/// A scenario from its tables, without traffic.
fn scenario(tables: &str) -> Scenario {
    let traffic = "[workload]\nnum_prompts = 1\n[workload.arrivals.all_at_once]\n[workload.lengths.fixed]\ninput_len = 1\noutput_len = 1\n";
    let document = Document::parse("live.toml", &format!("{tables}{traffic}")).expect(tables);
    let resolved = resolve(document, &NoFiles);
    resolved
        .unwrap_or_else(|problems| panic!("{problems}\n{tables}"))
        .scenario
}

/// Longest sequence of the servers of the scenarios below.
const LONGEST: u32 = 300;

/// SGLang's engine, of either release, with little room and much, chunked prefills and whole ones, in steps that mix and that do not.
fn sglang(seed: u64) -> Scenario {
    let mut dice = stream(seed, Purpose::Jitter, 3);
    let mut one_of = |choices: &[&'static str]| choices[dice.random_range(0..choices.len())];
    scenario(&format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\nreplicas = {}\nrouter = \"least_requests\"\n\
         [engine]\nprofile = \"{}\"\n\
         [sglang]\ncontext_length = {LONGEST}\nmax_total_tokens = {}\nmax_running_requests = {}\nchunked_prefill_size = {}\n\
         enable_mixed_chunk = {}\ndisable_overlap_schedule = {}\nschedule_conservativeness = {}\n",
        one_of(&["1", "2"]),
        one_of(&["sglang@0.5.23", "sglang@0.5.4"]),
        one_of(&["400", "1000", "100000"]),
        one_of(&["2", "8", "64"]),
        one_of(&["32", "128", "-1"]),
        one_of(&["true", "false"]),
        one_of(&["true", "false"]),
        one_of(&["0.1", "1.0"]),
    ))
}

/// Replicas that prefill and others that decode.
fn apart(seed: u64) -> Scenario {
    let mut dice = stream(seed, Purpose::Jitter, 4);
    let mut one_of = |choices: &[&'static str]| choices[dice.random_range(0..choices.len())];
    let machines = format!(
        "[model]\nname = \"meta-llama/Llama-3.1-8B-Instruct\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\n[cluster.prefill]\nreplicas = {}\n\
         [cluster.decode]\nreplicas = {}\n[cluster.link]\nbandwidth = \"{}\"\n",
        one_of(&["1", "2"]),
        one_of(&["1", "2"]),
        one_of(&["1GB/s", "50GB/s"]),
    );
    let engine = match one_of(&["vllm", "sglang"]) {
        "vllm" => small_vllm(&mut one_of),
        _ => format!(
            "[engine]\nprofile = \"sglang@0.5.23\"\n[sglang]\ncontext_length = {LONGEST}\nmax_running_requests = {}\nchunked_prefill_size = {}\n\
             max_total_tokens = {}\n",
            one_of(&["4", "64"]),
            one_of(&["64", "2048"]),
            one_of(&["800", "100000"]),
        ),
    };
    scenario(&(machines + &engine))
}

/// vLLM with few or many places, small or large steps, and blocks that are short or not.
fn small_vllm(one_of: &mut impl FnMut(&[&'static str]) -> &'static str) -> String {
    format!(
        "[engine]\nprofile = \"vllm@0.33\"\nmax_model_len = {LONGEST}\nmax_num_seqs = {}\nmax_num_batched_tokens = {}\nnum_gpu_blocks_override = {}\n",
        one_of(&["2", "64"]),
        one_of(&["64", "2048"]),
        one_of(&["30", "5000"]),
    )
}

/// Ranks of one server that step together.
fn in_lock_step(seed: u64) -> Scenario {
    let mut dice = stream(seed, Purpose::Jitter, 5);
    let mut one_of = |choices: &[&'static str]| choices[dice.random_range(0..choices.len())];
    let machines = format!(
        "[model]\nname = \"Qwen/Qwen3-30B-A3B\"\n[cluster]\ngpu = \"H100-SXM-80GB\"\ndata_parallel_size = {}\n",
        one_of(&["2", "4"])
    );
    let engine = match one_of(&["vllm", "sglang"]) {
        "vllm" => small_vllm(&mut one_of),
        _ => format!(
            "tensor_parallel_size = 4\n[engine]\nprofile = \"sglang@0.5.23\"\n[sglang]\nenable_dp_attention = true\ncontext_length = {LONGEST}\n\
             max_running_requests = {}\nmax_total_tokens = {}\n",
            one_of(&["8", "64"]),
            one_of(&["800", "100000"]),
        ),
    };
    scenario(&(machines + &engine))
}

/// Keeps books, and remembers who was preempted, or may have been passed over.
struct Books {
    recorder: Recorder,
    passed_over: BTreeSet<u64>,
    passes_over: bool,
}

impl Observer for Books {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.recorder.observe(fact);
        match *fact {
            Fact::Preempted { id, .. } => drop(self.passed_over.insert(id.0)),
            Fact::Gap { id, .. } if self.passes_over => drop(self.passed_over.insert(id.0)),
            _ => {}
        }
    }
}

/// The run of all of them, posted beforehand, and who was preempted or passed over.
fn beforehand(
    servers: &Servers<'_>,
    posts: &[(Picos, Post)],
) -> (BTreeMap<u64, RequestRecord>, BTreeSet<u64>) {
    let mut traffic = Posted::default();
    for (at, post) in posts {
        traffic.post(post, *at);
    }
    let recorder = Recorder::new(RecorderOptions {
        fleet: servers.fleet.clone(),
        slo: SloLimits::default(),
        records: Records::WithItls,
    });
    let mut simulation = (servers.open)(traffic);
    let mut books = Books {
        recorder,
        passed_over: BTreeSet::new(),
        passes_over: servers.passes_over,
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
fn as_they_come(servers: &Servers<'_>, posts: &[(Picos, Post)]) -> (Vec<Delivery>, usize) {
    let mut dice = stream(servers.seed, Purpose::Arrivals, 8);
    let mut live = Live::new((servers.open)(Posted::default()));
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

/// What is told of posts as they come is what was told of them beforehand: the endings to the picosecond, every token, and nothing late.
fn check(servers: &Servers<'_>, posts: &[(Picos, Post)]) -> Result<(), TestCaseError> {
    let (was, passed_over) = beforehand(servers, posts);
    let (told, late) = as_they_come(servers, posts);
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
                    prop_assert_eq!(
                        ended.rejection.is_some(),
                        record.completion.outcome == Outcome::Rejected
                    );
                }
            }
        }
        prop_assert_eq!(count, record.completion.output_tokens, "request {}", id);
        times.dedup();
        let mut expected = tokens_at(record);
        expected.dedup_by(|a, b| (*a - *b).abs() < 1e-11);
        let is_exact =
            times.len() == expected.len() && times.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9);
        // Of whom is preempted or passed over, which steps bring it a token is told with its next one.
        prop_assert!(
            is_exact || passed_over.contains(id),
            "request {id}: {times:?}, was {expected:?}"
        );
    }
    prop_assert_eq!(ends, was.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_told_as_it_comes_is_what_was(seed in any::<u64>(), replicas in 1u32..4) {
        let experiment = Experiment::draw(seed);
        let posts = posts(seed, experiment.engine.max_model_len);
        check(&Servers::of_vllm(&experiment, replicas), &posts)?;
    }

    #[test]
    fn who_goes_away_leaves_nothing_behind(seed in any::<u64>(), replicas in 1u32..4) {
        let experiment = Experiment::draw(seed);
        let posts = posts(seed, experiment.engine.max_model_len);
        let mut dice = stream(seed, Purpose::Arrivals, 9);
        let servers = Servers::of_vllm(&experiment, replicas);
        let mut live = Live::new((servers.open)(Posted::default()));
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_is_so_of_sglang(seed in any::<u64>()) {
        check(&Servers::of_scenario(sglang(seed), false, seed), &posts(seed, LONGEST))?;
    }

    #[test]
    fn it_is_so_of_prefill_and_decode_apart(seed in any::<u64>()) {
        // The first step after the KV came may be one without it.
        check(&Servers::of_scenario(apart(seed), true, seed), &posts(seed, LONGEST))?;
    }

    #[test]
    fn it_is_so_of_ranks_in_lock_step(seed in any::<u64>()) {
        check(&Servers::of_scenario(in_lock_step(seed), false, seed), &posts(seed, LONGEST))?;
    }
}

/// Nobody was inside when ranks were to report, and a step of dummies ran past that.
#[test]
fn ranks_report_while_nobody_is_inside() {
    let seed = 11_284_627_035_090_515_427;
    let servers = Servers::of_scenario(in_lock_step(seed), false, seed);
    check(&servers, &posts(seed, LONGEST)).expect("both are alike");
}
