//! A step time in proportion to the batch: processor sharing.

use std::collections::BTreeMap;

use plimsoll::cost::StepCost;
use plimsoll::cost::constant::ConstantCost;
use plimsoll::sim::{Fact, Frontend, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator};

use crate::system::{STEPS_PER_SERVICE, Services, check, engine, near, run, traffic};
use crate::theory;

fn shared_server() -> Box<dyn StepCost> {
    Box::new(ConstantCost {
        per_step: Picos::ZERO,
        per_decode_seq: Picos::from_seconds(1.0 / f64::from(STEPS_PER_SERVICE)),
    })
}

/// The number in the system is that of M/M/1 whatever the services, and the variance of its mean about the same: 29/4/n.
/// An arrival waits for the end of a step first, half a thousandth for each one inside: it is 0.05 % of the sojourn.
#[test]
fn a_step_in_proportion_to_its_batch_is_processor_sharing() {
    for services in [Services::Exponential, Services::Constant, Services::Skewed] {
        let spec = traffic(Arrivals::Poisson { request_rate: 0.5 }, services, 400_000);
        let result = run(engine(100_000), shared_server(), &spec, 12);
        let expected = theory::processor_sharing(0.5, 1.0).expect("below saturation");
        check(&result, "e2el", expected.sojourn);
        check(&result, "in_system", expected.inside);
    }
}

#[derive(Default)]
struct BySize(BTreeMap<u32, (f64, u32)>);

impl Observer for BySize {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(completion) = fact {
            let (sum, count) = self.0.entry(completion.output_tokens).or_default();
            *sum += (completion.end - completion.arrival).seconds();
            *count += 1;
        }
    }
}

/// `E[T(x)] = x/(1 − ρ)`: a job ten times as long stays ten times as long.
#[test]
fn a_shared_server_slows_every_size_down_by_the_same_factor() {
    let spec = traffic(Arrivals::Poisson { request_rate: 0.5 }, Services::Skewed, 400_000);
    let mut sizes = BySize::default();
    let generator = Generator::new(&spec, 13);
    let mut simulation = Simulation::new(engine(100_000), shared_server(), Frontend::default(), generator);
    simulation.advance(Until::DRAINED, &mut sizes);
    assert_eq!(sizes.0.len(), 2);
    for (tokens, (sum, count)) in sizes.0 {
        let size = f64::from(tokens) / f64::from(STEPS_PER_SERVICE);
        near("slowdown", sum / f64::from(count) / size, 2.0, 0.015);
    }
}
