//! The API server of an engine, against one that takes request after request and token after token in the order in which they come.

use std::collections::BTreeMap;

use plimsoll::engine::ScheduleRecord;
use plimsoll::ids::RequestId;
use plimsoll::metrics::Records;
use plimsoll::sim::{Fact, Frontend, Observer, Until};
use plimsoll::units::Picos;
use proptest::prelude::*;

use crate::common::recorder;
use crate::scenario::Experiment;

/// What a request is and when it was sent, met the engine and was there.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    prompt_tokens: u32,
    output_tokens: u32,
    sent: Picos,
    entry: Picos,
    at_client: Option<(Option<Picos>, Picos)>,
}

#[derive(Default)]
struct Watch(BTreeMap<RequestId, Seen>);

impl Observer for Watch {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Arrived { request } => {
                let seen = self.0.entry(request.id).or_default();
                seen.prompt_tokens = request.prompt_tokens;
            }
            Fact::Sent { now, id, entry, .. } => {
                let seen = self.0.entry(id).or_default();
                (seen.sent, seen.entry) = (now, entry);
            }
            // It is read, cut into tokens and refused.
            Fact::Rejected { now, request, .. } => self.0.entry(request.id).or_default().sent = now,
            Fact::Ended(story) => {
                let seen = self.0.entry(story.id).or_default();
                seen.output_tokens = story.output_tokens;
                seen.at_client = Some((story.first_token, story.end));
            }
            _ => {}
        }
    }
}

/// What comes to the API server, in the order in which equal instants are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Comes {
    /// Tokens of a step: who has one.
    Tokens(usize),
    Request(RequestId),
}

/// A server of one process by hand: what each request saw.
fn by_hand(
    frontend: &Frontend,
    log: &[ScheduleRecord],
    seen: &BTreeMap<RequestId, Seen>,
) -> BTreeMap<RequestId, Seen> {
    let mut emitted: BTreeMap<RequestId, u32> = BTreeMap::new();
    let mut handed: Vec<Vec<RequestId>> = Vec::new();
    let mut coming: Vec<(Picos, Comes)> = Vec::new();
    for record in log {
        let mut whose = Vec::new();
        for &(id, before, tokens) in &record.shares {
            let so_far = emitted.entry(id).or_default();
            let of = &seen[&id];
            if before + tokens == of.prompt_tokens + *so_far && *so_far < of.output_tokens {
                *so_far += 1;
                whose.push(id);
            }
        }
        coming.push((record.begin + record.duration, Comes::Tokens(handed.len())));
        handed.push(whose);
    }
    coming.extend(seen.iter().map(|(id, of)| (of.sent, Comes::Request(*id))));
    coming.sort();
    let (token, piece) = (frontend.per_token_of_many(), frontend.per_handed_token());
    let mut free = Picos::ZERO;
    let mut by_hand: BTreeMap<RequestId, Seen> = BTreeMap::new();
    for (at, comes) in coming {
        match comes {
            Comes::Request(id) => {
                let of = seen[&id];
                let work = frontend.request_service + frontend.per_prompt_token * u64::from(of.prompt_tokens);
                free = free.max(at) + work;
                by_hand.insert(
                    id,
                    Seen {
                        entry: free + frontend.request_delay,
                        at_client: None,
                        ..of
                    },
                );
            }
            Comes::Tokens(step) => {
                let count = handed[step].len() as u64;
                // Behind, several tokens of a stream go out in one piece.
                let behind = if count <= u64::from(frontend.outputs_at_once) {
                    token
                } else {
                    piece
                };
                free = (free + behind * count).max(at + piece * count);
                for id in &handed[step] {
                    let there = free + frontend.response_delay;
                    let of = by_hand.get_mut(id).expect("it was sent before");
                    let (first, _) = of.at_client.unwrap_or((Some(there), there));
                    of.at_client = Some((first, there));
                }
            }
        }
    }
    by_hand
}

/// Experiments in which one process hands tokens on, and everybody gets all of them one by one.
fn with_one_loop(seed: u64) -> Option<Experiment> {
    let mut experiment = Experiment::draw(seed);
    experiment.frontend.servers = std::num::NonZeroU32::MIN;
    experiment.spec.client.timeout = None;
    experiment.engine.speculation = None;
    experiment.engine.max_num_queued_reqs = None;
    let is_slow = experiment.frontend.per_output_token > Picos::ZERO;
    (is_slow && experiment.engine.stages == 1).then_some(experiment)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whether steps are leapt over or not, and whoever is preempted: the very picoseconds.
    #[test]
    fn every_request_sees_what_one_loop_by_hand_does(seed in any::<u64>()) {
        let Some(experiment) = with_one_loop(seed) else { return Ok(()) };
        let mut watch = Watch::default();
        let mut simulation = experiment.simulation().logging();
        simulation.advance(Until::DRAINED, &mut watch);
        let log = simulation.take_log();
        let expected = by_hand(&experiment.frontend, &log, &watch.0);
        for (id, seen) in watch.0.iter().filter(|(_, seen)| seen.output_tokens > 0) {
            let by_hand = &expected[id];
            prop_assert_eq!(seen.entry, by_hand.entry, "{:?} enters", id);
            prop_assert_eq!(seen.at_client, by_hand.at_client, "{:?} has its tokens", id);
        }
    }

    /// Nobody's gaps add up to anything but the time from the first token to the last.
    #[test]
    fn gaps_add_up_to_what_they_are_gaps_of(seed in any::<u64>()) {
        let Some(experiment) = with_one_loop(seed) else { return Ok(()) };
        let mut recorder = recorder(&experiment.engine, Records::WithItls);
        let simulation = experiment.drain(&mut recorder);
        let seen = recorder.finish(simulation.now());
        prop_assert_eq!(seen.violations, Vec::<String>::new());
        for record in seen.records.expect("asked for") {
            let story = &record.completion;
            let Some(first) = story.first_token else { continue };
            let (sum, span): (f64, f64) = (record.itls_s.iter().sum(), (story.end - first).seconds());
            prop_assert!((sum - span).abs() < 1e-9, "{:?}: gaps of {sum} s in {span} s", story.id);
        }
    }
}
