//! SGLang's engine leaping equals the same engine stepping: equal passes, token gaps and ends, in random scenarios.
//!
//! The stepping engine visits every sequence in every step; the recordings of the real engine judge both (the leaping
//! one everywhere, the stepping one here).

use std::collections::BTreeMap;

use plimsoll::conform::{AnyRecording, replay_stepwise};
use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::sglang::{PriorityRule, QueuePolicy, SglangConfig, SglangRecord, SglangSwitches};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::sim::{Completion, Fact, Frontend, Observer, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Piece, Prompt, Request};
use proptest::prelude::*;

use crate::draws::draws;
use crate::given::Given;
use crate::sglang::server;

/// What a run tells, gap by gap however its steps were grouped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) gaps: BTreeMap<Picos, u64>,
    /// Tokens that came in one piece with another.
    pub(crate) at_once: u64,
    /// Admissions, retractions and first tokens in their order.
    pub(crate) story: Vec<(char, Picos, RequestId, u32)>,
    /// Σ over steps of free blocks and of KV tokens read, and of their durations.
    steps: u64,
    kv_tokens: u64,
    pub(crate) busy: Picos,
    pub(crate) last_end: Picos,
    pub(crate) completions: Vec<Completion>,
    /// The run came to its end, and not to a server that died or hangs.
    pub(crate) drained: bool,
}

impl Observer for Told {
    fn observe(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::Steps(steps) => {
                assert!(
                    steps.begin >= self.last_end,
                    "steps of a replica follow each other"
                );
                self.last_end = steps.end;
                self.steps += steps.count;
                self.busy += steps.end - steps.begin;
                let grown = u64::from(steps.load.decode_seqs) * (steps.count * (steps.count - 1) / 2);
                self.kv_tokens += steps.load.decode_kv_tokens * steps.count + grown;
                let mut gap = steps.gap;
                for step in 0..steps.count {
                    if steps.gap_seqs > 0 {
                        *self.gaps.entry(gap).or_default() += u64::from(steps.gap_seqs);
                    }
                    gap = steps.duration + steps.duration_increment * (step + 1);
                }
            }
            Fact::Gap { gap, .. } => *self.gaps.entry(*gap).or_default() += 1,
            Fact::Admitted {
                now,
                id,
                cached_tokens,
                ..
            } => self.story.push(('A', *now, *id, *cached_tokens)),
            Fact::Preempted {
                now, id, lost_tokens, ..
            } => self.story.push(('P', *now, *id, *lost_tokens)),
            Fact::FirstToken { now, id, .. } => self.story.push(('T', *now, *id, 0)),
            Fact::Burst { tokens, .. } => self.at_once += u64::from(*tokens),
            Fact::Ended(completion) => self.completions.push((*completion).clone()),
            _ => {}
        }
    }
}

pub(crate) fn run(
    config: &SglangConfig,
    requests: &[Request],
    stepwise: bool,
    logs: bool,
) -> (Vec<SglangRecord>, Told) {
    let cost = Box::new(LinearCost::new(0.006, 2e-5, 1.5e-9));
    let traffic = Given(Vec::from(requests).into_iter());
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let mut simulation = make(config.clone(), cost, Frontend::default(), traffic);
    if logs {
        simulation = simulation.logging();
    }
    let mut told = Told::default();
    told.drained = simulation.advance(Until::DRAINED, &mut told) == Pause::Drained;
    (simulation.take_sglang_log(), told)
}

prop_compose! {
    pub(crate) fn configs()(
        (pool_pages, page_size, running) in (20u32..400, prop_oneof![Just(1u32), Just(4), Just(16)], 1u32..24),
        chunk in prop_oneof![Just(None), (1u32..20).prop_map(Some)],
        policy in prop_oneof![
            Just(QueuePolicy::Fcfs),
            Just(QueuePolicy::Lpm),
            Just(QueuePolicy::DfsWeight),
            Just(QueuePolicy::Lof),
            Just(QueuePolicy::Random),
        ],
        (radix_cache, mixed, overlap, priorities, new) in any::<(bool, bool, bool, bool, bool)>(),
        (low_values_first, preemption_threshold) in (any::<bool>(), 0i64..8),
        conservativeness in 0.0f64..1.5,
        (interval, most) in (prop_oneof![2 => Just(0u32), 1 => 1u32..6], prop_oneof![3 => Just(None), 1 => (1u32..4).prop_map(Some)]),
    ) -> SglangConfig {
        SglangConfig {
            page_size,
            max_total_tokens: pool_pages * page_size,
            max_running_requests: running,
            chunked_prefill_size: chunk.map(|pages| pages * page_size * 3),
            max_prefill_tokens: 120,
            prefill_decode_interval: interval,
            prefill_max_requests: most,
            policy,
            priority: (priorities && matches!(policy, QueuePolicy::Fcfs | QueuePolicy::Lof)).then_some(PriorityRule {
                low_values_first,
                preemption_threshold,
            }),
            radix_cache,
            enable_mixed_chunk: mixed && chunk.is_some(),
            overlap_schedule: overlap,
            context_length: 600,
            switches: if new { SglangSwitches::V0_5_23 } else { SglangSwitches::V0_5_4 },
            ..server(1, 1)
        }
        .with_conservativeness(conservativeness)
    }
}

prop_compose! {
    /// Gap before it, group and length of a shared prefix, own prompt, outputs, headroom, EOS forbidden, priority. Who belongs
    /// to the last group goes on with the conversation of somebody before it.
    pub(crate) fn wishes()(
        gap in prop_oneof![Just(0u64), 0u64..30_000, 0u64..900_000],
        (group, shared, own) in (0u64..=CONVERSATIONS, 0u32..60, 1u32..50),
        (outputs, headroom) in (prop_oneof![1u32..8, 1u32..120], prop_oneof![Just(0u32), 0u32..60]),
        (ignore_eos, priority) in (any::<bool>(), 0i64..12),
        patience in prop_oneof![4 => Just(None), 1 => (1u64..2_000_000).prop_map(Some)],
    ) -> (u64, u64, u32, u32, u32, u32, bool, i64, Option<u64>) {
        (gap, group, shared, own, outputs, headroom, ignore_eos, priority, patience)
    }
}

/// The group that goes on with conversations.
const CONVERSATIONS: u64 = 3;
/// A conversation does not go on behind so many tokens.
const CONVERSATION_MAX: u32 = 200;

pub(crate) type Wish = (u64, u64, u32, u32, u32, u32, bool, i64, Option<u64>);

pub(crate) fn requests(wishes: Vec<Wish>) -> Vec<Request> {
    let mut now = 0;
    let mut made: Vec<Request> = Vec::new();
    for (id, wish) in (0..).zip(wishes) {
        let (gap, group, shared, own, outputs, headroom, ignore_eos, priority, patience) = wish;
        now += gap;
        let piece = |segment, tokens| Piece {
            segment: SegmentId(segment),
            start: 0,
            tokens,
        };
        let earlier = made.get(shared as usize * 7 % made.len().max(1));
        let earlier =
            earlier.filter(|earlier| group == CONVERSATIONS && earlier.prompt_tokens < CONVERSATION_MAX);
        let mut pieces = Vec::new();
        if let Some(earlier) = earlier {
            if let Prompt::Pieces(prompt) = &earlier.prompt {
                pieces.extend(prompt.iter().copied());
            }
            pieces.push(Piece {
                segment: earlier.output_segment,
                start: earlier.prompt_tokens,
                tokens: earlier.output_tokens,
            });
        } else if shared > 0 {
            pieces.push(piece(group, shared));
        }
        pieces.push(piece(100 + id, own));
        let micros = |micros: u64| Picos(micros * 1_000_000);
        made.push(Request {
            id: RequestId(id),
            arrival: micros(now),
            client_queue_time: Picos::ZERO,
            prompt_tokens: pieces.iter().map(|piece| piece.tokens).sum(),
            output_tokens: outputs,
            max_tokens: if ignore_eos { outputs } else { outputs + headroom },
            priority,
            prompt: Prompt::Pieces(pieces.into()),
            output_segment: SegmentId(10_000 + id),
            session: None,
            class: 0,
            ignore_eos,
            deadline: patience.map(|patience| micros(now + patience)),
        });
    }
    made
}

proptest! {
    #![proptest_config(draws(400))]
    #[test]
    fn leaping_is_stepping(config in configs(), wishes in prop::collection::vec(wishes(), 1..40)) {
        let requests = requests(wishes);
        let (log, told) = run(&config, &requests, false, true);
        let (expected_log, expected) = run(&config, &requests, true, true);
        for (at, (got, expected)) in log.iter().zip(&expected_log).enumerate() {
            prop_assert_eq!(got, expected, "pass {}", at);
        }
        prop_assert_eq!(log.len(), expected_log.len());
        prop_assert_eq!(&told, &expected);
        // Without a log the counters of a run stay stale for longer.
        let (_, unlogged) = run(&config, &requests, false, false);
        prop_assert_eq!(&unlogged, &expected);
        // A server that dies: 0.5.4 where its only request cannot grow, either where a chunk finds no memory.
        let may_die = config.switches == SglangSwitches::V0_5_4 || config.chunked_prefill_size.is_some();
        prop_assert!(expected.drained || may_die || !config.radix_cache);
        prop_assert!(expected.completions.len() == requests.len() || !expected.drained);
        if !expected.drained {
            return Ok(());
        }
        let tokens: u64 = expected.completions.iter().map(|end| u64::from(end.output_tokens)).sum();
        let first = expected.story.iter().filter(|event| event.0 == 'T').count() as u64;
        prop_assert_eq!(tokens, first + expected.gaps.values().sum::<u64>());
    }
}

#[test]
fn the_stepping_engine_repeats_the_recordings_too() {
    for file in crate::conform::files_in(&["sglang-normal", "sglang-overlap", "sglang-0.5.4"]) {
        let bytes = std::fs::read(&file).expect("readable");
        let recording = AnyRecording::read(&bytes).expect("a recording");
        replay_stepwise(&recording).unwrap_or_else(|difference| panic!("{}: {difference}", file.display()));
    }
}

#[test]
fn who_used_up_the_memory_when_admitted_is_admitted_once() {
    let config = SglangConfig {
        max_running_requests: 3,
        chunked_prefill_size: None,
        priority: Some(PriorityRule {
            low_values_first: false,
            preemption_threshold: 3,
        }),
        radix_cache: false,
        context_length: 600,
        switches: SglangSwitches::V0_5_4,
        ..server(369, 1)
    };
    let wishes = vec![
        (0, 0, 17, 48, 73, 38, false, 1, None),
        (0, 0, 41, 32, 111, 0, true, 0, None),
        (1, 0, 2, 32, 4, 0, true, 4, None),
    ];
    for percent in 0..150 {
        let config = config.clone().with_conservativeness(f64::from(percent) / 100.0);
        let (_, told) = run(&config, &requests(wishes.clone()), false, true);
        assert_eq!(told.completions.len(), 3);
    }
}
