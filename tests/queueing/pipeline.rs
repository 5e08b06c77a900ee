//! Stages of a pipeline against what is known of them (PP-2, PP-3, V1-84).

use plimsoll::cost::linear::{LinearCost, LinearStages};
use plimsoll::engine::EngineConfig;
use plimsoll::metrics::{Fleet, Recorder, RecorderOptions, Records, SloLimits};
use plimsoll::sim::{Completion, Frontend, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator};

use crate::common::{plain, request};
use crate::given::{Ends, Given};
use crate::system::{engine, near};

/// Milliseconds that each stage takes for a step, whatever is in it, and the way between two of them.
struct Line {
    stages_ms: &'static [f64],
    transfer_ms: f64,
    is_asynchronous: bool,
}

impl Line {
    fn of(stages_ms: &'static [f64]) -> Line {
        Line {
            stages_ms,
            transfer_ms: 0.0,
            is_asynchronous: false,
        }
    }

    fn engine(&self, seats: u32) -> EngineConfig {
        let stages = self.stages_ms.len() as u32;
        EngineConfig {
            stages,
            queue_depth: stages + u32::from(self.is_asynchronous),
            ..engine(seats)
        }
    }

    fn cost(&self) -> Box<LinearStages> {
        let constant = |ms: f64| LinearCost::new(ms / 1000.0, 0.0, 0.0);
        Box::new(LinearStages {
            preparation: LinearCost::NOTHING,
            stages: self.stages_ms.iter().map(|&ms| constant(ms)).collect(),
            transfer: constant(self.transfer_ms),
        })
    }

    /// What a step takes that meets no other.
    fn way_ms(&self) -> f64 {
        self.stages_ms.iter().sum::<f64>() + self.transfer_ms * (self.stages_ms.len() - 1) as f64
    }

    fn slowest_ms(&self) -> f64 {
        self.stages_ms.iter().copied().fold(0.0, f64::max)
    }
}

/// Requests at given times, in milliseconds.
fn given(requests: impl IntoIterator<Item = (f64, u32, u32)>) -> Given {
    let requests = requests.into_iter().zip(0..);
    let named = requests.map(|((at_ms, prompt, outputs), id)| {
        request(id, Picos::from_seconds(at_ms / 1000.0), prompt, outputs)
    });
    Given(named.collect::<Vec<_>>().into_iter())
}

fn serve(line: &Line, engine: EngineConfig, traffic: Given) -> Vec<Completion> {
    let mut ends = Ends::default();
    let mut simulation = Simulation::new(engine, line.cost(), Frontend::default(), traffic);
    simulation.advance(Until::DRAINED, &mut ends);
    ends.0.sort_by_key(|completion| completion.id);
    ends.0
}

fn tpot_ms(completion: &Completion) -> f64 {
    let first = completion.first_token.expect("it was served");
    1000.0 * (completion.end - first).seconds() / f64::from(completion.output_tokens - 1)
}

/// A token goes back to the first stage when it has left the last: alone, a request advances once in all stage times, exactly.
#[test]
fn alone_a_token_takes_the_time_of_all_stages() {
    for is_asynchronous in [false, true] {
        for (stages_ms, transfer_ms) in [(&[5.0, 5.0][..], 0.0), (&[3.0, 7.0, 4.0], 0.5), (&[1.0; 8], 0.25)] {
            let line = Line {
                stages_ms: stages_ms.to_vec().leak(),
                transfer_ms,
                is_asynchronous,
            };
            let ends = serve(&line, line.engine(8), given([(0.0, 100, 50)]));
            near("TPOT", tpot_ms(&ends[0]), line.way_ms(), 1e-9);
            near(
                "TTFT",
                1000.0 * ends[0].first_token.unwrap().seconds(),
                line.way_ms(),
                1e-9,
            );
        }
    }
}

/// As many requests as stages, in steps of their own: each advances once in as many times of the slowest stage as there are stages, or
/// in all stage times, whichever is longer.
#[test]
fn as_many_as_stages_share_the_line() {
    for stages_ms in [&[5.0, 5.0, 5.0, 5.0][..], &[2.0, 8.0, 3.0], &[9.0, 1.0]] {
        let line = Line::of(stages_ms.to_vec().leak());
        let stages = stages_ms.len() as u32;
        let expected = line.way_ms().max(f64::from(stages) * line.slowest_ms());
        // Each prompt fills a step, and so each request has a step of its own from then on.
        let mut engine = line.engine(64);
        engine.max_num_batched_tokens = 128;
        let ends = serve(&line, engine, given((0..stages).map(|_| (0.0, 128, 400))));
        for end in &ends {
            assert!(
                tpot_ms(end) >= line.way_ms() * (1.0 - 1e-9),
                "{} of {stages_ms:?}",
                tpot_ms(end)
            );
            near("TPOT", tpot_ms(end), expected, 0.02);
        }
    }
}

/// PP-2: no TPOT is below the sum of the stages, no more steps leave than the slowest stage lets through, whatever is sent.
#[test]
fn nothing_is_faster_than_the_slowest_stage_and_the_whole_way() {
    for is_asynchronous in [false, true] {
        let line = Line {
            stages_ms: &[4.0, 6.0, 5.0],
            transfer_ms: 0.3,
            is_asynchronous,
        };
        let mut engine = line.engine(24);
        engine.max_num_batched_tokens = 512;
        let spec = plain(Arrivals::Poisson { request_rate: 40.0 }, 300, 40, 600);
        let mut recorder = Recorder::new(RecorderOptions {
            fleet: Fleet::alike(1, engine.num_gpu_blocks - 1, engine.block_size),
            slo: SloLimits::default(),
            records: Records::Requests,
        });
        let mut simulation =
            Simulation::new(engine, line.cost(), Frontend::default(), Generator::new(&spec, 3)).logging();
        simulation.advance(Until::DRAINED, &mut recorder);
        let (log, now) = (simulation.take_log(), simulation.now());
        let ends: Vec<f64> = log
            .iter()
            .map(|step| (step.begin + step.duration).seconds())
            .collect();
        for pair in ends.windows(2) {
            assert!(pair[1] - pair[0] >= 0.006 - 1e-9, "{pair:?}");
        }
        let seen = recorder.finish(now);
        assert_eq!(seen.violations, Vec::<String>::new());
        assert!(seen.whole.occupancy.busy <= 1.0 + 1e-9);
        for record in seen.records.expect("asked for") {
            assert!(tpot_ms(&record.completion) >= line.way_ms() * (1.0 - 1e-9));
        }
    }
}

/// A prompt's chunks need no token of each other and follow through the stages at the pace of the slowest: `m` chunks on `p` equal
/// stages take `(m + p − 1)·t`, of which each stage idles `(p − 1)/(m + p − 1)` (PP-3).
#[test]
fn filling_and_draining_leave_the_known_bubble() {
    for (stages_ms, chunks) in [(&[5.0, 5.0][..], 7), (&[5.0, 5.0, 5.0, 5.0], 3), (&[2.0; 8], 20)] {
        let line = Line::of(stages_ms.to_vec().leak());
        let mut engine = line.engine(4);
        engine.max_num_batched_tokens = 128;
        let ends = serve(&line, engine, given([(0.0, 128 * chunks, 1)]));
        let (stages, stage_ms) = (stages_ms.len() as f64, stages_ms[0]);
        let took = 1000.0 * ends[0].end.seconds();
        let chunks = f64::from(chunks);
        near("fill and drain", took, (chunks + stages - 1.0) * stage_ms, 1e-9);
        let idle = 1.0 - chunks * stage_ms / took;
        near("bubble", idle, (stages - 1.0) / (chunks + stages - 1.0), 1e-9);
    }
}

/// In overload of one-token answers every step is a micro-batch of its own, and the line gives one step each time of its slowest stage.
#[test]
fn a_full_line_lets_through_one_step_each_slowest_stage() {
    let line = Line::of(&[4.0, 6.0, 5.0]);
    let mut engine = line.engine(512);
    engine.max_num_batched_tokens = 200;
    let all = given((0..500).map(|_| (0.0, 200, 1)));
    let ends = serve(&line, engine, all);
    let last = ends.iter().map(|end| end.end).max().expect("500 were sent");
    near(
        "makespan",
        1000.0 * last.seconds(),
        line.way_ms() + 499.0 * line.slowest_ms(),
        1e-9,
    );
}
