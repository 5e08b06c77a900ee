//! A timeline holds the single steps of a run, the same ones whether the simulation leaps over equal ones or takes each.

use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineSpec;
use plimsoll::engine::scheduled::policies::HfOrder;
use plimsoll::engine::sglang::SglangConfig;
use plimsoll::engine::trtllm::{BlockReuse, CapacityPolicy, TrtllmConfig};
use plimsoll::facts::{Fact, Observer};
use plimsoll::ids::RequestId;
use plimsoll::report::timeline::{Held, TimeWindow, Timeline, TimelineReplica};
use plimsoll::sim::{Frontend, Pause, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::equality::engine_config;
use crate::given::Given;
use crate::runs::request;
use crate::scheduled::{fixed, hf, v0};
use crate::sglang::server;
use crate::twin::TwinConfig;

pub(crate) const ENGINES: [&str; 8] = [
    "vLLM",
    "vLLM, asynchronous",
    "SGLang",
    "SGLang, overlapped",
    "TensorRT-LLM",
    "vLLM V0",
    "static",
    "Transformers",
];

/// Each with so few blocks that requests wait, and are preempted where they can be.
pub(crate) fn engine(name: &str) -> EngineSpec {
    let vllm = |queue_depth| {
        let small = TwinConfig {
            max_num_seqs: 6,
            max_num_batched_tokens: 24,
            num_gpu_blocks: 40,
            max_model_len: 64,
            queue_depth,
            ..TwinConfig::v33()
        };
        engine_config(&small)
    };
    match name {
        "vLLM" => vllm(1).into(),
        "vLLM, asynchronous" => vllm(2).into(),
        "SGLang" => server(150, 24).into(),
        "SGLang, overlapped" => SglangConfig {
            overlap_schedule: true,
            ..server(150, 24)
        }
        .into(),
        "TensorRT-LLM" => TrtllmConfig {
            profile: "tensorrt-llm@1.2".to_owned(),
            max_seq_len: 64,
            max_batch_size: 6,
            max_num_tokens: 64,
            enable_chunked_prefill: false,
            capacity_scheduler_policy: CapacityPolicy::MaxUtilization,
            batch_wait_iters: 0,
            batch_wait_tokens: 0,
            overlap_scheduler: true,
            tokens_per_block: 4,
            num_blocks: 40,
            block_reuse: BlockReuse::Off,
        }
        .into(),
        "vLLM V0" => v0(true).into(),
        "static" => fixed(4, Picos::ZERO, true).into(),
        "Transformers" => hf(HfOrder::Fifo, 48, 60).into(),
        other => panic!("no engine {other}"),
    }
}

/// What is told of steps, summed up.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    steps: u64,
    tokens: u64,
    busy: Picos,
    first_tokens: u64,
    ended: u64,
}

struct Both<'a>(&'a mut Timeline, &'a mut Sums);

impl Observer for Both<'_> {
    fn observe(&mut self, fact: &Fact<'_>) {
        self.0.observe(fact);
        match fact {
            Fact::Steps(steps) => {
                self.1.steps += steps.count;
                self.1.tokens += steps.load.tokens() * steps.count;
                self.1.busy += steps.end - steps.begin;
            }
            Fact::FirstToken { .. } => self.1.first_tokens += 1,
            Fact::Ended(_) => self.1.ended += 1,
            _ => {}
        }
    }
}

/// The file of a run that is looked at anew every `pause` requests.
fn write(name: &str, requests: &[Request], stepwise: bool, pause: u64) -> (String, Held, Sums) {
    let traffic = Given(Vec::from(requests).into_iter());
    let make = if stepwise {
        Simulation::stepwise
    } else {
        Simulation::new
    };
    let cost = Box::new(LinearCost::new(0.006, 2e-5, 1.5e-9));
    let mut simulation = make(engine(name), cost, Frontend::default(), traffic);
    let replica = TimelineReplica {
        name: "replica 0".to_owned(),
        steps: "steps".to_owned(),
        kv_blocks: engine(name).usable_blocks(),
        block_size: engine(name).block_size(),
        answers_whole: engine(name).answers_whole(),
    };
    let window = TimeWindow {
        from: Picos::ZERO,
        to: Picos::MAX,
    };
    let mut timeline = Timeline::new(&[replica], &[], window);
    let mut sums = Sums::default();
    let mut ended = pause;
    loop {
        let until = Until {
            ended,
            ..Until::DRAINED
        };
        if simulation.advance(until, &mut Both(&mut timeline, &mut sums)) == Pause::Drained {
            break;
        }
        ended += pause;
    }
    let held = timeline.finish();
    (timeline.take(), held, sums)
}

prop_compose! {
    fn wishes()(
        gap in prop_oneof![Just(0u64), 0u64..3, 0u64..20],
        (prompt, outputs) in (1u32..30, 1u32..30),
    ) -> (u64, u32, u32) {
        (gap, prompt, outputs)
    }
}

fn requests(wishes: Vec<(u64, u32, u32)>) -> Vec<Request> {
    let mut at = 0;
    let each = (0..).zip(wishes);
    each.map(|(id, (gap, prompt, outputs))| {
        at += gap;
        Request {
            id: RequestId(id),
            ..request('A', at, prompt, outputs)
        }
    })
    .collect()
}

/// Nanoseconds that all steps of a file last.
fn nanos(text: &str) -> u64 {
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    let events = file["traceEvents"].as_array().unwrap().iter();
    let micros = events.filter_map(|event| event["dur"].as_f64());
    micros.map(|micros| (micros * 1e3).round() as u64).sum()
}

/// The events of steps and of what comes with them, and all others, each in their order. Between the two there is none: a run of steps
/// is told when it is over, which may be before or after arrivals meanwhile.
fn streams(text: &str) -> (Vec<&str>, Vec<&str>) {
    let lines = text.lines().map(|line| line.trim_end_matches(','));
    lines.partition(|line| line.contains("\"ph\":\"X\"") || line.contains("\"name\":\"KV blocks\""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn leaps_are_written_as_the_steps_that_they_are(wishes in prop::collection::vec(wishes(), 1..25), pause in 1u64..9) {
        let requests = requests(wishes);
        for name in ENGINES {
            let (text, held, sums) = write(name, &requests, false, u64::MAX);
            let (stepped, _, sums_of_steps) = write(name, &requests, true, u64::MAX);
            prop_assert_eq!(streams(&text), streams(&stepped), "{}", name);
            prop_assert_eq!(&sums, &sums_of_steps, "{}", name);
            let (looked_at, _, _) = write(name, &requests, false, pause);
            prop_assert_eq!(streams(&looked_at), streams(&text), "{}, looked at", name);
            // All of it, no more and no less: a step is a nanosecond off at most.
            prop_assert_eq!((held.steps, held.left_out), (sums.steps, 0));
            prop_assert_eq!(text.matches("\"ph\":\"X\"").count() as u64, sums.steps);
            prop_assert!(nanos(&text).abs_diff(sums.busy.0 / 1000) <= sums.steps);
            prop_assert_eq!(sums.ended, requests.len() as u64);
            let arrows = text.matches("\"ph\":\"s\"").count();
            prop_assert_eq!(arrows, text.matches("\"ph\":\"f\"").count());
            // None leads to the first token of one who was preempted while the step that brought it ran.
            prop_assert!(arrows as u64 <= sums.first_tokens);
            if !text.contains("preemption") {
                prop_assert_eq!(arrows as u64, sums.first_tokens, "{}", name);
            }
        }
    }
}

#[test]
fn one_long_answer_is_the_same_bytes_in_one_leap_as_in_steps() {
    let long = [request('A', 0, 8, 50)];
    for name in ENGINES {
        let (text, held, _) = write(name, &long, false, u64::MAX);
        assert_eq!(text, write(name, &long, true, u64::MAX).0, "{name}");
        assert!(held.steps >= 50, "{name}: {held:?}");
        let blocks = text.matches("\"name\":\"KV blocks\"").count();
        assert!((1..10).contains(&blocks), "{name}: {blocks}");
    }
}
