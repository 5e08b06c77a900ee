//! Several places that serve independently of each other.

use plimsoll::workload::Arrivals;

use crate::system::{Services, check, engine, near, private_servers, run, share_at_most, traffic};
use crate::theory;

fn poisson(request_rate: f64) -> Arrivals {
    Arrivals::Poisson { request_rate }
}

/// An arrival waits for the end of the running step, half a step on average, also where a place is free: 0.0005 s.
const HALF_A_STEP: f64 = 0.0005;

/// The waits of M/M/c are about those of M/M/1 at c times the speed, for the share that waits. With two places at ρ = ½ that
/// is 29/4·⅓ ≈ 2.4, and 1 for the service itself, over n and a sojourn of 1.33²: 1.9/n. With ten at ρ = 0.7, 336/100·0.22
/// and 1 over 1.07²: 1.5/n. 200,000 requests give standard errors below 0.35 %.
#[test]
fn several_places_make_m_m_c() {
    for (servers, offered) in [(2, 1.0), (10, 7.0)] {
        let spec = traffic(poisson(offered), Services::Exponential, 200_000);
        let result = run(engine(servers), private_servers(), &spec, 7);
        let expected = theory::m_m_c(offered, 1.0, servers).expect("below saturation");
        check(&result, "e2el", expected.sojourn + HALF_A_STEP);
        let steady = result.steady.as_ref().expect("stable");
        near("running", steady.occupancy.running, offered, 0.01);
        let at_once = 1.0 - theory::erlang_c(servers, offered).expect("below saturation");
        let within_a_step = share_at_most(&steady.queue_time, 2.0 * HALF_A_STEP);
        near("served at once", within_a_step, at_once, 0.015);
    }
}

/// Places for everybody: M/G/∞ has `a` busy on average, whatever the law of services. The number of busy places is a sum of
/// services over time: variance of its mean over n requests is about (1 + c²)/n of its square, 0.4 % at most.
#[test]
fn places_for_everybody_hold_the_offered_load() {
    for services in [Services::Constant, Services::Exponential, Services::Skewed] {
        let result = run(
            engine(1000),
            private_servers(),
            &traffic(poisson(20.0), services, 200_000),
            8,
        );
        check(&result, "in_system", 20.0 * (1.0 + HALF_A_STEP));
        check(&result, "e2el", 1.0 + HALF_A_STEP);
    }
}

/// A server that refuses when all places are taken loses Erlang's B of its arrivals, whatever the law of services. Losses
/// come in bursts of about one service: with 8 arrivals in each, the share lost of n = 300,000 has a relative standard
/// error of about √(8·2/(0.1217·n)) = 2 %.
#[test]
fn refused_arrivals_are_erlangs_loss() {
    let lost = theory::erlang_b(10, 8.0);
    for services in [Services::Constant, Services::Exponential] {
        let mut loss_system = engine(10);
        loss_system.max_num_queued_reqs = Some(10);
        let result = run(
            loss_system,
            private_servers(),
            &traffic(poisson(8.0), services, 300_000),
            9,
        );
        let share = result.whole.rejected as f64 / result.whole.sent as f64;
        near("lost", share, lost, 0.03);
    }
}
