//! What servers show to Prometheus is what happened in them: the books of the metrics against a naive count of the same facts, at any
//! instant, and alike whether the simulation leaps over equal steps or takes each.

use std::collections::BTreeSet;

use plimsoll::cost::linear::LinearCost;
use plimsoll::facts::{Completion, Fact, Observer, Outcome};
use plimsoll::ids::RequestId;
use plimsoll::metrics::scraped::{EngineInfo, EngineMetrics, Histogram, Scraped};
use plimsoll::report::prometheus::{self, Exposition};
use plimsoll::sim::{Frontend, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::given::Given;
use crate::runs::request;
use crate::timeline::{ENGINES, engine};

/// The same, counted one by one.
#[derive(Default)]
struct Naive {
    sent: u64,
    ended: u64,
    running: BTreeSet<u64>,
    stories: Vec<Completion>,
    /// Of all tokens but the first of each request.
    gaps: u64,
    waited: u128,
    /// Instants at which somebody had a token.
    ends: BTreeSet<Picos>,
}

impl Observer for Naive {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Arrived { .. } => self.sent += 1,
            Fact::Rejected { .. } => self.ended += 1,
            Fact::Admitted { id, .. } => drop(self.running.insert(id.0)),
            Fact::Preempted { id, .. } => drop(self.running.remove(&id.0)),
            Fact::FirstToken { now, .. } => drop(self.ends.insert(now)),
            Fact::Gap { now, seen, .. } => {
                self.ends.insert(now);
                self.gaps += 1;
                self.waited += u128::from(seen.0);
            }
            Fact::Steps(steps) if steps.gap_seqs > 0 => {
                let (mut end, mut gap) = (steps.begin, steps.gap);
                for step in 0..steps.count {
                    let duration = steps.duration + steps.duration_increment * step;
                    end += duration;
                    self.ends.insert(end);
                    if step > 0 {
                        gap = duration;
                    }
                    self.gaps += u64::from(steps.gap_seqs);
                    self.waited += u128::from(gap.0) * u128::from(steps.gap_seqs);
                }
            }
            Fact::Ended(story) => {
                self.ended += 1;
                self.running.remove(&story.id.0);
                self.stories.push(story.clone());
            }
            _ => {}
        }
    }
}

struct Both<'a>(&'a mut Scraped, &'a mut Naive);

impl Observer for Both<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.0.observe(fact);
        self.1.observe(fact);
    }
}

/// What a run shows at each of these instants and at its end.
fn pages(name: &str, requests: &[Request], stepwise: bool, cuts: &[Picos]) -> (Vec<String>, Scraped, Naive) {
    let traffic = Given(Vec::from(requests).into_iter());
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let cost = Box::new(LinearCost::new(0.006, 2e-5, 1.5e-9));
    let mut simulation = make(engine(name), cost, Frontend::default(), traffic);
    let mut scraped = Scraped::of([EngineInfo::of("", "m", &engine(name))]);
    let mut naive = Naive::default();
    let mut pages = Vec::new();
    for time in cuts.iter().copied().chain([Picos::MAX]) {
        let until = Until {
            time,
            ..Until::DRAINED
        };
        let pause = simulation.advance(until, &mut Both(&mut scraped, &mut naive));
        let [shown] = &scraped.engines()[..] else {
            panic!("one replica is one engine")
        };
        let inside = shown.running + shown.waiting + shown.deferred + scraped.elsewhere();
        assert_eq!(naive.sent, naive.ended + inside, "{name} at {time}");
        assert_eq!(shown.running, naive.running.len() as u64, "{name} at {time}");
        assert!((0.0..=1.0).contains(&shown.kv_usage), "{name} at {time}");
        pages.push(prometheus::text(&scraped, &Exposition::default(), Picos::ZERO));
        if pause != Pause::TimeUp {
            break;
        }
    }
    (pages, scraped, naive)
}

/// The first line in which two pages differ, on both.
fn differs<'a>(one: &'a str, other: &'a str) -> Option<(&'a str, &'a str)> {
    assert_eq!(one.lines().count(), other.lines().count());
    one.lines().zip(other.lines()).find(|(one, other)| one != other)
}

/// A page without the KV in use, which within a run of steps is not told step by step.
fn without_kv(page: &str) -> String {
    let lines = page
        .lines()
        .filter(|line| !line.starts_with("vllm:kv_cache_usage_perc"));
    lines.collect::<Vec<_>>().join("\n")
}

fn is_sum_of(histogram: &Histogram, values: impl Iterator<Item = Picos>) -> Result<(), TestCaseError> {
    let values: Vec<Picos> = values.collect();
    prop_assert_eq!(histogram.count(), values.len() as u64);
    let sum: f64 = values.iter().map(|value| value.seconds()).sum();
    prop_assert!(
        (histogram.sum() - sum).abs() <= 1e-9 * sum.max(1.0),
        "{} and not {}",
        histogram.sum(),
        sum
    );
    let mut below = 0;
    for (bound, count) in histogram.buckets() {
        let naive = values.iter().filter(|value| value.seconds() <= bound).count();
        prop_assert_eq!(count, naive as u64, "up to {}", bound);
        prop_assert!(count >= below);
        below = count;
    }
    Ok(())
}

/// Everything of a run that is over, against its stories.
fn is_told(shown: &EngineMetrics, naive: &Naive) -> Result<(), TestCaseError> {
    let done: Vec<&Completion> = naive
        .stories
        .iter()
        .filter(|story| story.outcome == Outcome::Completed)
        .collect();
    let tokens = |of: fn(&Completion) -> u32| naive.stories.iter().map(|story| u64::from(of(story))).sum();
    let (outputs, prompts, cached): (u64, u64, u64) = (
        tokens(|story| story.output_tokens),
        tokens(|story| {
            if story.first_token.is_some() {
                story.prompt_tokens
            } else {
                0
            }
        }),
        tokens(|story| {
            if story.first_token.is_some() {
                story.cached_tokens
            } else {
                0
            }
        }),
    );
    prop_assert_eq!(shown.success.iter().sum::<u64>(), done.len() as u64);
    prop_assert_eq!(shown.generation_tokens, outputs);
    prop_assert_eq!(shown.prompt_tokens, [prompts - cached, cached, 0]);
    prop_assert_eq!(
        shown.preemptions,
        tokens(|story| story.preemptions),
        "preemptions"
    );
    prop_assert_eq!(shown.iteration_tokens.sum(), (outputs + prompts - cached) as f64);
    prop_assert_eq!(shown.iteration_tokens.count(), naive.ends.len() as u64);
    prop_assert_eq!(shown.itl.count(), naive.gaps);
    let waited = naive.waited as f64 / 1e12;
    prop_assert!((shown.itl.sum() - waited).abs() <= 1e-9 * waited.max(1.0));
    is_sum_of(
        &shown.ttft,
        naive
            .stories
            .iter()
            .filter_map(|story| Some(story.first_token? - story.arrival)),
    )?;
    is_sum_of(&shown.e2e, done.iter().map(|story| story.end - story.arrival))?;
    is_sum_of(
        &shown.queue,
        done.iter().map(|story| story.first_scheduled - story.arrival),
    )?;
    is_sum_of(
        &shown.inference,
        done.iter().map(|story| story.end - story.first_scheduled),
    )?;
    is_sum_of(
        &shown.prefill,
        done.iter()
            .filter_map(|story| Some(story.first_token? - story.first_scheduled)),
    )?;
    is_sum_of(
        &shown.decode,
        done.iter()
            .filter_map(|story| Some(story.end - story.first_token?)),
    )?;
    prop_assert_eq!((shown.running, shown.waiting, shown.kv_usage), (0, 0, 0.0));
    Ok(())
}

prop_compose! {
    /// After how many tenths of a second; prompt, outputs; whether an end-of-sequence token ends it; after how many its client gives up.
    fn wishes()(
        gap in prop_oneof![Just(0u64), 0u64..3, 0u64..20],
        (prompt, outputs) in (1u32..30, 1u32..30),
        ends_itself in any::<bool>(),
        patience in prop_oneof![3 => Just(None), 1 => (0u64..9).prop_map(Some)],
    ) -> (u64, u32, u32, bool, Option<u64>) {
        (gap, prompt, outputs, ends_itself, patience)
    }
}

fn requests(wishes: Vec<(u64, u32, u32, bool, Option<u64>)>) -> Vec<Request> {
    let mut at = 0;
    let each = (0..).zip(wishes);
    each.map(|(id, (gap, prompt, outputs, ends_itself, patience))| {
        at += gap;
        let plain = request('A', at, prompt, outputs);
        Request {
            id: RequestId(id),
            max_tokens: outputs + u32::from(ends_itself),
            deadline: patience.map(|tenths| plain.arrival + Picos(1 + tenths * 100_000_000_000)),
            ..plain
        }
    })
    .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn servers_show_what_happened_in_them(
        wishes in prop::collection::vec(wishes(), 1..25), cuts in prop::collection::btree_set(0u64..4_000, 0..4),
    ) {
        let requests = requests(wishes);
        let cuts: Vec<Picos> = cuts.into_iter().map(|millis| Picos(millis * 1_000_000_000)).collect();
        for name in ENGINES {
            let (leapt, scraped, naive) = pages(name, &requests, false, &cuts);
            let (stepped, _, _) = pages(name, &requests, true, &cuts);
            prop_assert_eq!(leapt.len(), stepped.len());
            for (leapt, stepped) in leapt.iter().zip(&stepped) {
                let (leapt, stepped) = (without_kv(leapt), without_kv(stepped));
                prop_assert_eq!(differs(&leapt, &stepped), None, "{}", name);
            }
            if naive.ended < naive.sent {
                // Sequences that wait for each other's blocks have nothing more to tell.
                continue;
            }
            // Nobody is inside any more: all of it is alike.
            let (unseen, _, _) = pages(name, &requests, false, &[]);
            let [leapt, stepped, unseen] = [leapt, stepped, unseen].map(|pages| pages.last().unwrap().clone());
            prop_assert_eq!(differs(&leapt, &stepped), None, "{}", name);
            prop_assert_eq!(differs(&leapt, &unseen), None, "{}, looked at", name);
            is_told(&scraped.engines()[0], &naive)?;
        }
    }
}

#[test]
fn an_end_of_sequence_token_is_another_reason_than_the_length() {
    let stops = Request {
        max_tokens: 50,
        ..request('B', 0, 8, 5)
    };
    for name in ENGINES {
        let (_, scraped, _) = pages(name, &[request('A', 0, 8, 5), stops.clone()], false, &[]);
        assert_eq!(scraped.engines()[0].success, [1, 1], "{name}");
    }
}
