//! Closed loops: users who think, and a fixed number in flight.

use plimsoll::sim::{Frontend, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator};

use crate::system::{Services, check, engine, near, private_servers, recorder, run, traffic};
use crate::theory;

/// Exact mean value analysis: users with exponential think times and one exponential station are a product-form network.
/// A think and a service have variance (Z² + S²) in a cycle of Z + R: 150,000 cycles give below 0.3 %.
#[test]
fn thinking_users_make_the_closed_network_of_mean_value_analysis() {
    let think = 10.0;
    for users in [1, 5, 15] {
        let arrivals = Arrivals::Users {
            users,
            think_time: Picos::from_seconds(think),
        };
        let result = run(
            engine(1),
            private_servers(),
            &traffic(arrivals, Services::Exponential, 150_000),
            10,
        );
        let expected = theory::mean_value_analysis(&[1.0], think, users);
        check(&result, "throughput", expected.throughput);
        check(&result, "e2el", expected.response);
        let bounds = theory::closed_bounds(&[1.0], think, users);
        let steady = result.steady.expect("a closed loop is steady");
        let throughput = steady.completed as f64 / steady.duration_s;
        assert!(throughput < 1.005 * bounds.throughput);
        assert!(steady.e2el.mean_s().expect("some were served") > 0.99 * bounds.response);
    }
}

/// `concurrency = X·E2E = C` while the backlog lasts: exactly, but for the requests that are inside at the end.
#[test]
fn a_fixed_number_in_flight_is_throughput_times_latency() {
    for (places, in_flight) in [(4, 4), (4, 32), (64, 16)] {
        let mut spec = traffic(Arrivals::AllAtOnce, Services::Exponential, 1);
        spec.num_prompts = None;
        spec.client.max_concurrency = Some(in_flight);
        let engine = engine(places);
        let mut recorder = recorder(&engine);
        let generator = Generator::new(&spec, 11);
        let mut simulation = Simulation::new(engine, private_servers(), Frontend::default(), generator);
        let until = Until {
            ended: 40_000,
            time: Picos::MAX,
        };
        simulation.advance(until, &mut recorder);
        let seen = recorder.finish(simulation.now());
        assert_eq!(seen.violations, Vec::<String>::new());
        let c = f64::from(in_flight);
        near("in flight", seen.whole.occupancy.in_system, c, 1e-9);
        let throughput = seen.whole.completed as f64 / seen.whole.duration_s;
        let latency = seen.whole.e2el.mean_s().expect("some were served");
        let edge = 3.0 * latency / seen.whole.duration_s;
        near("X·E2E", throughput * latency, c, edge.max(1e-9));
        // All services are a second long on average and min(places, C) run at once.
        near("X", throughput, c.min(f64::from(places)), 0.02);
    }
}
