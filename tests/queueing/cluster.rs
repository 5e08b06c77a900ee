//! Several servers behind a router (Mitzenmacher 2001 for two choices; Winston 1977 for the shortest queue).

use plimsoll::analysis::RunResult;
use plimsoll::cluster::router::Policy;
use plimsoll::cluster::{ClusterSpec, Outages};
use plimsoll::workload::Arrivals;

use crate::system::{Services, check, engine, interval, near, private_servers, run_cluster, traffic};
use crate::theory;

fn routed(policy: Policy, servers: u32, load: f64, services: Services, requests: u64) -> RunResult {
    let request_rate = load * f64::from(servers);
    let spec = traffic(Arrivals::Poisson { request_rate }, services, requests);
    run_cluster(
        &engine(1),
        &ClusterSpec::of(servers, policy),
        private_servers,
        &spec,
        11,
    )
}

/// A random split of a Poisson stream is Poisson streams, so each server is M/G/1 on its own; the waits of ten servers
/// together have a tenth of one server's variance for the same number of requests each: 29/n and 88.5/8/n as there.
#[test]
fn a_random_split_makes_independent_m_g_1() {
    for (services, load, requests) in [
        (Services::Exponential, 0.5, 500_000),
        (Services::Constant, 0.6, 250_000),
    ] {
        let result = routed(Policy::Random, 10, load, services, requests);
        let expected = theory::m_g_1(load, 1.0, services.scv()).expect("below saturation");
        check(&result, "e2el", expected.sojourn);
        check(&result, "in_system", 10.0 * expected.inside);
        let steady = result.steady.as_ref().expect("stable");
        near("busy", steady.occupancy.busy, load, 0.01);
    }
}

/// In turn, each of N servers sees Erlang-N gaps, more regular than Poisson's: between D/M/1 and M/M/1. The root of
/// `σ = exp(−(1 − σ)/ρ)` gives D/M/1 its sojourn 1/(1 − σ).
#[test]
fn turns_wait_between_regular_and_random_arrivals() {
    let load: f64 = 0.7;
    let sigma = (0..200).fold(0.5, |sigma: f64, _| (-(1.0 - sigma) / load).exp());
    let (sojourn, half) = interval(
        &routed(Policy::RoundRobin, 20, load, Services::Exponential, 300_000),
        "e2el",
    );
    let regular = 1.0 / (1.0 - sigma);
    // Erlang-20 gaps have a twentieth of Poisson's variance: Kingman puts them 5 % of the way.
    let random = 1.0 / (1.0 - load);
    near("sojourn", sojourn, regular + (random - regular) / 20.0, 0.03);
    assert!(sojourn - half > regular, "{sojourn} ± {half}");
}

/// Of many servers with exponential services, a share ρ^(2^k − 1) holds at least k requests if the shorter of two random
/// queues is joined. 200 servers are within a per cent of many.
#[test]
fn two_choices_have_their_asymptote() {
    let load: f64 = 0.7;
    let result = routed(Policy::PowerOfTwo, 200, load, Services::Exponential, 400_000);
    let inside: f64 = (1..8).map(|k| load.powi((1 << k) - 1)).sum();
    near("sojourn", interval(&result, "e2el").0, inside / load, 0.015);
}

/// The shortest of all queues is better than the shorter of two, and cannot beat one queue for all servers (M/M/c).
#[test]
fn the_shortest_queue_lies_between_its_bounds() {
    let (servers, load) = (10, 0.8);
    let sojourn = |policy| {
        let result = routed(policy, servers, load, Services::Exponential, 300_000);
        interval(&result, "e2el").0
    };
    let shortest = sojourn(Policy::LeastRequests);
    let one_queue = theory::m_m_c(load * f64::from(servers), 1.0, servers).expect("below saturation");
    assert!(shortest > one_queue.sojourn, "{shortest}");
    assert!(shortest < sojourn(Policy::PowerOfTwo), "{shortest}");
}

/// A replica alternates between up and down, and is down a share `d/(u + d)` of the time.
#[test]
fn replicas_are_down_for_their_share_of_the_time() {
    let spec = ClusterSpec {
        outages: Some(Outages {
            mean_up_s: 90.0,
            mean_down_s: 10.0,
        }),
        ..ClusterSpec::of(1, Policy::RoundRobin)
    };
    let arrivals = Arrivals::Poisson { request_rate: 2.0 };
    let result = run_cluster(
        &engine(1000),
        &spec,
        private_servers,
        &traffic(arrivals, Services::Constant, 200_000),
        12,
    );
    let whole = &result.whole;
    // 1,000 cycles: the share down has a relative standard error of about √(2·0.9²/1000) = 4 %.
    near("refused", whole.rejected as f64 / whole.sent as f64, 0.1, 0.12);
    // A request of one second is lost if its replica fails meanwhile: 1 − exp(−1/90) of those taken in.
    let lost = whole.failed as f64 / (whole.failed + whole.completed) as f64;
    near("lost", lost, 1.0 - (-1.0f64 / 90.0).exp(), 0.12);
}
