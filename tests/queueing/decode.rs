//! Continuous batching with an affine step time.

use plimsoll::analysis::{RunResult, Verdict};
use plimsoll::ids::RequestId;
use plimsoll::sim::{Fact, Frontend, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator, Lengths, WorkloadSpec};

use crate::system::{AffineCost, Services, engine, interval, near, recorder, run, traffic};
use crate::theory::AffineDecode;

/// a = 6 ms, c = 30 µs, p = 16 µs.
pub(crate) const COST: AffineCost = AffineCost {
    a: Picos(6_000_000_000),
    c: Picos(30_000_000),
    p: Picos(16_000_000),
};
const DECODE_STEPS: u32 = 200;

fn model(prompt_tokens: u32) -> AffineDecode {
    AffineDecode {
        base: COST.a.seconds(),
        per_sequence: COST.c.seconds(),
        decode_steps: f64::from(DECODE_STEPS),
        prompt_tokens: f64::from(prompt_tokens),
        per_prompt_token: COST.p.seconds(),
    }
}

/// A prompt of one token is a decode step like the others; a longer one comes before them.
fn spec(request_rate: f64, prompt_tokens: u32, requests: u64) -> WorkloadSpec {
    let mut spec = traffic(Arrivals::Poisson { request_rate }, Services::Constant, requests);
    spec.lengths = Lengths::Fixed {
        input_len: prompt_tokens,
        output_len: DECODE_STEPS + u32::from(prompt_tokens > 1),
    };
    spec
}

fn affine(rate: f64, prompt_tokens: u32, requests: u64) -> RunResult {
    run(
        engine(1 << 20),
        Box::new(COST),
        &spec(rate, prompt_tokens, requests),
        15,
    )
}

/// The fluid form leaves out that a sequence finds itself in its batch. Exactly, `b` sequences that each get
/// `1/(a + c·b)` steps a second share a server of a rate that depends on their number, whose stationary law is a product:
/// `π(b) ∝ (λn)^b·Π(a + c·j)/b!`, a negative binomial of mean `λn(a + c)/(1 − λnc)`, whatever the law of n. So
/// `TPOT = (a + c)/(1 − λnc)`, 0.5 % above the fluid.
#[test]
fn an_affine_step_time_gives_the_tpot_and_the_batch_of_the_closed_form() {
    let one = model(0);
    for (rate, requests) in [(5.0, 20_000), (20.0, 40_000), (50.0, 80_000), (100.0, 200_000)] {
        let result = affine(rate, 1, requests);
        let fluid = one.tpot(rate).expect("below saturation");
        let exact = fluid * (one.base + one.per_sequence) / one.base;
        let (tpot, half) = interval(&result, "tpot");
        near("tpot, fluid", tpot, fluid, 0.015);
        near("tpot, exact", tpot, exact, 0.003 + 1.5 * half / tpot);
        let steady = result.steady.expect("stable");
        let batch = one.batch(rate).expect("below saturation");
        near("batch", steady.occupancy.running, batch, 0.025);
        // Little's law for the running batch: its members are λ·n·TPOT.
        let arrived = steady.completed as f64 / steady.duration_s;
        let own = arrived * f64::from(DECODE_STEPS) * tpot;
        near("own batch", steady.occupancy.running, own, 0.01);
    }
}

/// Prompts stretch the steps of everybody else: 10.86 ms instead of 6.82 at 20 requests/s.
#[test]
fn prompts_slow_everybody_down_as_the_fluid_says() {
    let with_prompts = model(1024);
    let result = affine(20.0, 1024, 40_000);
    let fluid = with_prompts.tpot(20.0).expect("below saturation");
    near("tpot", interval(&result, "tpot").0, fluid, 0.02);
    let steady = result.steady.expect("stable");
    let batch = with_prompts.batch(20.0).expect("below saturation");
    near("batch", steady.occupancy.running, batch, 0.03);
}

#[test]
fn stability_ends_where_the_demand_fills_the_engine() {
    let saturation = 1.0 / model(1024).demand();
    // Of 10,000 requests 3 runs in 40 are too short to say so.
    assert_eq!(affine(0.8 * saturation, 1024, 40_000).verdict, Verdict::Stable);
    // Without a cap on the batch nobody ever waits: overload shows as a number running that grows, and as a load above 1.
    for (load, requests) in [(1.15, 10_000), (1.3, 5_000)] {
        let overloaded = affine(load * saturation, 1024, requests);
        assert_eq!(
            overloaded.verdict,
            Verdict::Unstable,
            "{load}: {:?}",
            overloaded.reasons
        );
        assert!(overloaded.steady.is_none());
    }
    // Filling up is not overload, however long it takes.
    for (load, requests) in [(0.9, 500), (0.95, 2_000)] {
        let filling = affine(load * saturation, 1024, requests);
        assert_ne!(
            filling.verdict,
            Verdict::Unstable,
            "{load}: {:?}",
            filling.reasons
        );
    }
}

/// With a cap on the batch. A request holds its place for a prompt step too, which the form leaves out: `(n + 1)·a` for
/// `n·a`, 0.5 % at most. Outputs of many lengths keep the prompts from falling into one step.
#[test]
fn a_capped_batch_saturates_where_the_closed_form_says() {
    for cap in [16, 128] {
        let mut endless = spec(1.0, 1024, 1);
        endless.arrivals = Arrivals::AllAtOnce;
        endless.client.max_concurrency = Some(3 * cap);
        endless.num_prompts = None;
        let pairs: Vec<(u32, u32)> = (1..2 * DECODE_STEPS).map(|n| (1024, n + 1)).collect();
        endless.lengths = Lengths::Empirical { pairs: pairs.into() };
        let mut simulation = Simulation::new(
            engine(cap),
            Box::new(COST),
            Frontend::default(),
            Generator::new(&endless, 16),
        );
        let mut recorder = recorder(&engine(cap));
        let mut ended_at = |ended| {
            let until = Until {
                ended,
                time: Picos::MAX,
            };
            simulation.advance(until, &mut recorder);
            simulation.now().seconds()
        };
        let (begin, end) = (ended_at(5_000), ended_at(55_000));
        let throughput = 50_000.0 / (end - begin);
        let (b, n) = (f64::from(cap), f64::from(DECODE_STEPS));
        near("X", throughput, model(1024).saturation_with_cap(b), 0.01);
        let prompts = b * 1024.0 * COST.p.seconds();
        let exact = b / ((n + 1.0) * COST.a.seconds() + n * COST.c.seconds() * b + prompts);
        near("X, prompt steps counted", throughput, exact, 0.006);
    }
}

#[derive(Default)]
struct Ends(Vec<(RequestId, Picos)>);

impl Observer for Ends {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(completion) = fact {
            self.0.push((completion.id, completion.end));
        }
    }
}

/// `C` requests at once on an ample engine, two prompts to a step: prompts take C/2 steps, in which those admitted before
/// decode too; then O − 1 steps more for the last two, with fewer and fewer beside them. To the picosecond.
#[test]
fn equal_requests_at_once_end_when_the_arithmetic_says() {
    let (prompt, output) = (1000, 30);
    for pairs in [1_u32, 3, 10, 40] {
        let mut all = spec(1.0, prompt, u64::from(2 * pairs));
        all.arrivals = Arrivals::AllAtOnce;
        all.lengths = Lengths::Fixed {
            input_len: prompt,
            output_len: output,
        };
        let mut engine = engine(1000);
        engine.enable_chunked_prefill = false;
        engine.max_num_batched_tokens = 2 * prompt + 2 * pairs;
        let mut ends = Ends::default();
        let mut simulation = Simulation::new(
            engine,
            Box::new(COST),
            Frontend::default(),
            Generator::new(&all, 0),
        );
        simulation.advance(Until::DRAINED, &mut ends);
        // Step t carries the prompts of pair t, and pair i decodes in steps i + 1 to i + O − 1.
        let step = |t: u32| {
            let first = (t + 1).saturating_sub(output).max(1);
            let decoding = (first..=pairs)
                .filter(|i| (i + 1..i + output).contains(&t))
                .count() as u64;
            let prompts = u64::from(t <= pairs) * 2 * u64::from(prompt);
            COST.a + COST.c * (2 * decoding) + COST.p * prompts
        };
        for (id, end) in &ends.0 {
            let pair = id.0 as u32 / 2 + 1;
            let expected: Picos = (1..pair + output).map(step).sum();
            assert_eq!(*end, expected, "request {} of {pairs} pairs", id.0);
        }
        assert_eq!(ends.0.len(), 2 * pairs as usize);
    }
}
