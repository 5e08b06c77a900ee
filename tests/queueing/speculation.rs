//! Speculative decoding in steps of constant time: how many tokens a verification brings has a closed form (SD-1), and with
//! it the time per token.

use plimsoll::engine::{BlockHashes, EngineConfig, Speculation};
use plimsoll::metrics::SpeculationSummary;
use plimsoll::sim::{Frontend, Simulation, Until};
use plimsoll::workload::{Arrivals, Generator};

use crate::common::plain;
use crate::system::{engine, near, private_servers, recorder};

const DRAFTS: u32 = 4;
const OUTPUT: u32 = 2001;

/// Seconds of a token as the client sees it, and what became of the drafts.
fn run(queue_depth: u32, alpha: f64) -> (f64, SpeculationSummary) {
    let engine = EngineConfig {
        queue_depth,
        max_model_len: 1 << 20,
        speculation: Some(Speculation {
            drafts: DRAFTS,
            runner_tokens: 1 << 26,
            slots: 0,
            lookahead: DRAFTS,
            looks_ahead_at_admission: true,
            pads_admissions: true,
            registers_output: true,
            keeps_drafts: false,
            drafts_for_chunks: false,
            drafts_near_longest: true,
            hashes: BlockHashes::Ahead,
            acceptance: (1..=DRAFTS).map(|position| alpha.powi(position as i32)).collect(),
        }),
        ..engine(64)
    };
    let mut recorder = recorder(&engine);
    let spec = plain(Arrivals::AllAtOnce, 100, OUTPUT, 64);
    let traffic = Generator::new(&spec, 7);
    let mut simulation = Simulation::new(engine, private_servers(), Frontend::default(), traffic).drafting(7);
    simulation.advance(Until::DRAINED, &mut recorder);
    let seen = recorder.finish(simulation.now());
    assert_eq!(seen.violations, Vec::<String>::new());
    assert_eq!(seen.whole.output_tokens, 64 * u64::from(OUTPUT));
    let tpot = seen.whole.tpot.mean_s().expect("all are answered");
    (tpot, seen.speculation.expect("drafts were made"))
}

#[test]
fn a_verification_brings_as_many_tokens_as_the_closed_form_says() {
    for queue_depth in [1, 2] {
        for alpha in [0.3, 0.7, 0.9] {
            let expected = (1.0 - f64::powi(alpha, DRAFTS as i32 + 1)) / (1.0 - alpha);
            let (tpot, drafts) = run(queue_depth, alpha);
            near("tokens", drafts.acceptance_length(), expected, 0.01);
            for (position, rate) in (1..).zip(drafts.rates_by_position()) {
                near("rate", rate, alpha.powi(position), 0.03);
            }
            // Where an answer ends is cut off: half a verification in 2,000 tokens.
            near("tpot", tpot, 0.001 / expected, 0.01);
        }
    }
}

#[test]
fn drafts_that_never_stand_bring_a_token_a_step_and_those_that_always_do_all_of_them() {
    let (tpot, drafts) = run(2, 0.0);
    near("tpot", tpot, 0.001, 1e-9);
    assert_eq!((drafts.accepted_tokens, drafts.acceptance_length()), (0, 1.0));
    let (tpot, drafts) = run(2, 1.0);
    near("tpot", tpot, 0.001 / f64::from(DRAFTS + 1), 1e-9);
    assert_eq!(drafts.acceptance_rate(), 1.0);
}
