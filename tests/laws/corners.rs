//! Corner cases of vLLM V1 that the engine's own tests leave out (C-1, C-4, C-12, C-13, C-27 to C-29).

use plimsoll::analysis::{LoadKind, Precision, Verdict, judge};
use plimsoll::cost::constant::ConstantCost;
use plimsoll::engine::EngineConfig;
use plimsoll::ids::RequestId;
use plimsoll::metrics::{Observation, Records};
use plimsoll::sim::{Completion, Frontend, Outcome, Simulation, Until};
use plimsoll::units::{PICOS_PER_SECOND, Picos};
use plimsoll::workload::{Arrivals, Generator, Request, Traffic};

use crate::common::{ample_engine, plain, recorder, request};

/// Given requests: (arrival in seconds, prompt, output).
struct Given(std::vec::IntoIter<Request>);

impl Given {
    fn new(requests: &[(u64, u32, u32)]) -> Given {
        let given = |(id, &(arrival_s, prompt, output)): (usize, &(u64, u32, u32))| {
            request(id as u64, Picos(arrival_s * PICOS_PER_SECOND), prompt, output)
        };
        let requests: Vec<Request> = requests.iter().enumerate().map(given).collect();
        Given(requests.into_iter())
    }
}

impl Traffic for Given {
    fn next_arrival(&mut self) -> Option<Picos> {
        self.0.as_slice().first().map(|request| request.arrival)
    }
    fn take(&mut self) -> Request {
        self.0.next().expect("announced")
    }
    fn ended(&mut self, _: RequestId, _: Picos) {}
}

/// Runs with steps of one second.
fn observe<T: Traffic>(engine: &EngineConfig, traffic: T) -> Observation {
    let mut recorder = recorder(engine, Records::WithItls);
    let second = ConstantCost {
        per_step: Picos(PICOS_PER_SECOND),
        per_decode_seq: Picos::ZERO,
    };
    let mut simulation = Simulation::new(engine.clone(), Box::new(second), Frontend::default(), traffic);
    simulation.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(simulation.now());
    assert_eq!(seen.violations, Vec::<String>::new());
    seen
}

fn serve(engine: &EngineConfig, requests: &[(u64, u32, u32)]) -> Vec<Completion> {
    let records = observe(engine, Given::new(requests)).records.expect("asked for");
    let mut stories: Vec<Completion> = records.into_iter().map(|record| record.completion).collect();
    stories.sort_by_key(|story| story.id);
    stories
}

fn deep(queue_depth: u32) -> EngineConfig {
    EngineConfig {
        queue_depth,
        ..ample_engine()
    }
}

#[test]
fn c_1_one_token_ends_in_the_prefill_step() {
    for queue_depth in [1, 2] {
        let seen = observe(&deep(queue_depth), Given::new(&[(0, 50, 1)]));
        assert_eq!(seen.whole.work.steps, 1);
        assert_eq!(
            (seen.whole.tpot.count(), seen.whole.itl.count()),
            (0, 0),
            "undefined"
        );
        assert_eq!(seen.whole.ttft.mean_s(), seen.whole.e2el.mean_s());
    }
}

#[test]
fn c_4_a_sequence_stops_at_max_model_len() {
    for queue_depth in [1, 2] {
        let engine = EngineConfig {
            max_model_len: 64,
            ..deep(queue_depth)
        };
        let stories = serve(&engine, &[(0, 60, 100), (0, 63, 100), (0, 64, 1)]);
        let outputs: Vec<(Outcome, u32)> = stories.iter().map(|s| (s.outcome, s.output_tokens)).collect();
        assert_eq!(
            outputs,
            [
                (Outcome::Completed, 4),
                (Outcome::Completed, 1),
                (Outcome::Rejected, 0)
            ]
        );
    }
}

#[test]
fn c_12_an_arrival_at_the_end_of_a_step_is_in_the_next() {
    let stories = serve(&deep(1), &[(0, 10, 5), (2, 10, 1)]);
    assert_eq!(stories[1].first_scheduled.seconds(), 2.0);
    assert_eq!(stories[1].end.seconds(), 3.0);
    // Decided at the same instant, but behind the step that was scheduled before.
    let stories = serve(&deep(2), &[(0, 10, 5), (2, 10, 1)]);
    assert_eq!(stories[1].first_scheduled.seconds(), 2.0);
    assert_eq!(stories[1].end.seconds(), 4.0);
}

#[test]
fn c_13_blocks_freed_at_the_instant_of_an_arrival_are_its_own() {
    // A takes two of the two blocks and ends at 2 s, when B comes and needs both.
    let full = |queue_depth| EngineConfig {
        num_gpu_blocks: 3,
        max_model_len: 32,
        ..deep(queue_depth)
    };
    let requests = [(0, 20, 2), (2, 20, 1)];
    for queue_depth in [1, 2] {
        assert_eq!(
            serve(&full(queue_depth), &requests)[1].first_scheduled.seconds(),
            2.0
        );
    }
    // With C still running a step is in flight when A's end is processed: sync admits B behind it at 2 s; async too, but B's
    // step comes after the one in flight.
    let crowded = |queue_depth| EngineConfig {
        num_gpu_blocks: 4,
        ..full(queue_depth)
    };
    let requests = [(0, 20, 2), (0, 5, 6), (2, 20, 1)];
    assert_eq!(serve(&crowded(1), &requests)[2].end.seconds(), 3.0);
    assert_eq!(serve(&crowded(2), &requests)[2].end.seconds(), 4.0);
}

#[test]
fn c_27_waiting_for_a_place_in_the_client_is_no_part_of_ttft() {
    let mut spec = plain(Arrivals::AllAtOnce, 10, 5, 9);
    spec.client.max_concurrency = Some(3);
    let seen = observe(&deep(1), Generator::new(&spec, 0));
    let [ttft, e2el] = [&seen.whole.ttft, &seen.whole.e2el].map(|d| (d.quantile_s(0.0), d.max_s()));
    assert_eq!(ttft, (Some(1.0), Some(1.0)));
    assert_eq!(e2el, (Some(5.0), Some(5.0)));
    // Three waves: 0, 5 and 10 s in the client.
    let waits = &seen.whole.client_queue_time;
    assert_eq!(
        (waits.quantile_s(0.0), waits.mean_s(), waits.max_s()),
        (Some(0.0), Some(5.0), Some(10.0))
    );
}

#[test]
fn c_28_a_single_request_is_every_percentile_of_itself() {
    let seen = observe(&deep(2), Given::new(&[(3, 10, 5)]));
    for (distribution, value) in [
        (&seen.whole.ttft, 1.0),
        (&seen.whole.tpot, 1.0),
        (&seen.whole.e2el, 5.0),
    ] {
        for p in [0.0, 0.5, 0.99, 1.0] {
            assert_eq!(distribution.quantile_s(p), Some(value));
        }
        assert_eq!(
            (distribution.mean_s(), distribution.std_s()),
            (Some(value), Some(0.0))
        );
    }
}

#[test]
fn c_29_no_success_is_zero_and_no_nan() {
    let engine = EngineConfig {
        max_num_queued_reqs: Some(0),
        ..deep(2)
    };
    let seen = observe(&engine, Given::new(&[(0, 10, 5), (1, 10, 5), (4, 10, 5)]));
    let whole = &seen.whole;
    assert_eq!((whole.sent, whole.completed, whole.rejected), (3, 0, 3));
    assert_eq!((whole.ttft.mean_s(), whole.ttft.quantile_s(0.99)), (None, None));
    let occupancy = &whole.occupancy;
    for figure in [
        occupancy.in_system,
        occupancy.busy,
        occupancy.kv_usage,
        whole.duration_s,
    ] {
        assert!(figure.is_finite());
    }
    let judged = judge(seen, LoadKind::Open, &Precision::default());
    assert_eq!(judged.verdict, Verdict::TooShort);
    assert!(
        judged
            .intervals
            .iter()
            .all(|(_, estimate)| estimate.value.is_finite())
    );
}

/// A preemption in async mode comes while a token is in flight: its gap is the client's all the same (V1-28).
#[test]
fn a_token_in_flight_at_a_preemption_keeps_its_gap() {
    for queue_depth in [1, 2] {
        let engine = EngineConfig {
            num_gpu_blocks: 5,
            block_size: 4,
            max_model_len: 16,
            ..deep(queue_depth)
        };
        // A grows into a third block at its third token, when B holds the last free one.
        let records = observe(&engine, Given::new(&[(0, 7, 4), (0, 4, 4)])).records;
        let records = records.expect("asked for");
        let second = records
            .iter()
            .find(|record| record.completion.id == RequestId(1))
            .expect("it ended");
        assert!(second.completion.preemptions > 0);
        assert_eq!(second.itls_s.len(), 3);
        let decoding = second.completion.end - second.completion.first_token.expect("it has one");
        assert_eq!(second.itls_s.iter().sum::<f64>(), decoding.seconds());
    }
}

#[test]
fn nothing_sent_is_a_run_of_no_length() {
    let seen = observe(&deep(1), Given::new(&[]));
    assert_eq!((seen.whole.sent, seen.whole.duration_s), (0, 0.0));
    assert_eq!(seen.whole.occupancy.in_system, 0.0);
    let judged = judge(seen, LoadKind::Open, &Precision::default());
    assert_eq!(judged.verdict, Verdict::TooShort);
    assert!(judged.growth_per_s.is_finite());
}
