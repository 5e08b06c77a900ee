//! One place: a first-come-first-served server.

use std::collections::BTreeMap;

use plimsoll::analysis::Verdict;
use plimsoll::sim::{Completion, Fact, Frontend, Observer, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator};

use crate::system::{
    STEPS_PER_SERVICE, Services, check, engine, interval, near, private_servers, run, share_at_most, traffic,
};
use crate::theory;

fn poisson(request_rate: f64) -> Arrivals {
    Arrivals::Poisson { request_rate }
}

/// The mean over n successive waits in M/M/1 has variance `ρ(2 + 5ρ − 4ρ² + ρ³)/((1 − ρ)⁴·n)` (Daley 1968): 29/n at ρ = ½.
/// The sojourn's mean is 2, so 500,000 requests give a standard error of 0.38 %.
#[test]
fn exponential_services_make_m_m_1() {
    let result = run(
        engine(1),
        private_servers(),
        &traffic(poisson(0.5), Services::Exponential, 500_000),
        1,
    );
    let expected = theory::m_g_1(0.5, 1.0, Services::Exponential.scv()).expect("below saturation");
    assert_eq!(result.verdict, Verdict::Stable);
    check(&result, "e2el", expected.sojourn);
    check(&result, "in_system", expected.inside);
    let steady = result.steady.as_ref().expect("half load is stable");
    // Utilisation law, and a Poisson arrival sees what the time average says: the share of it that finds nobody is 1 − ρ.
    near("busy", steady.occupancy.busy, 0.5, 0.01);
    let at_once = share_at_most(&steady.queue_time, 0.0);
    near("served at once", at_once, 0.5, 0.01);
    for (label, p) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)] {
        let exact = theory::m_m_1_sojourn_quantile(0.5, 1.0, p).expect("below saturation");
        let (value, half) = interval(&result, &format!("{label}_e2el"));
        near(label, value, exact, (1.5 * half / exact).min(0.03));
    }
}

/// Heavy traffic has the variance of a mean wait in proportion to (1 + c²)³: an eighth of M/M/1's 88.5/n at ρ = 0.6.
/// The sojourn's mean is 1.75; 250,000 requests give a standard error of 0.38 %.
#[test]
fn constant_services_make_m_d_1() {
    let result = run(
        engine(1),
        private_servers(),
        &traffic(poisson(0.6), Services::Constant, 250_000),
        2,
    );
    let expected = theory::m_d_1(0.6, 1.0).expect("below saturation");
    check(&result, "e2el", expected.sojourn);
    check(&result, "in_system", expected.inside);
}

/// By the same rule c² = ¼ is between the two above, and c² = 2 has 3.4 times M/M/1's variance: 36/n at ρ = 0.4, for a
/// sojourn of 2; 650,000 requests give a standard error of 0.37 %.
#[test]
fn any_services_make_m_g_1() {
    let cases = [
        (Services::TwoPoints { spread: 0.5 }, 0.6, 300_000),
        (Services::Skewed, 0.4, 650_000),
    ];
    for (services, rate, requests) in cases {
        let result = run(
            engine(1),
            private_servers(),
            &traffic(poisson(rate), services, requests),
            3,
        );
        let expected = theory::m_g_1(rate, 1.0, services.scv()).expect("below saturation");
        check(&result, "e2el", expected.sojourn);
    }
}

/// Kingman's bound `λ(σ_a² + σ_s²)/(2(1 − ρ))`, and his approximation for heavy traffic, which is ρ times the part of the gaps
/// smaller and from which bursty gaps differ most at light load.
#[test]
fn bursty_gaps_wait_no_longer_than_kingmans_bound() {
    let (rate, burstiness) = (0.6, 0.5);
    let arrivals = Arrivals::Gamma {
        request_rate: rate,
        burstiness,
    };
    let result = run(
        engine(1),
        private_servers(),
        &traffic(arrivals, Services::Constant, 300_000),
        4,
    );
    let (wait, half) = interval(&result, "queue_time");
    let bound = rate / (burstiness * rate * rate) / (2.0 * (1.0 - rate));
    let approximate = theory::kingman_wait(rate, 1.0, 1.0 / burstiness, 0.0).expect("below saturation");
    assert!(wait + half < bound, "{wait} ± {half} above {bound}");
    near("wait", wait, approximate, 0.2);
}

#[derive(Default)]
struct Stories(BTreeMap<u64, Completion>);

impl Observer for Stories {
    fn observe(&mut self, fact: &Fact<'_>) {
        if let Fact::Ended(completion) = fact {
            self.0.insert(completion.id.0, (*completion).clone());
        }
    }
}

/// Lindley's recursion, `begin = max(arrival, end of the one before)`, to the last picosecond and at any load.
#[test]
fn every_request_waits_as_lindley_says() {
    let step = Picos::from_seconds(1.0 / f64::from(STEPS_PER_SERVICE));
    for (rate, services) in [
        (0.3, Services::Constant),
        (0.8, Services::Exponential),
        (1.2, Services::Skewed),
    ] {
        let spec = traffic(poisson(rate), services, 20_000);
        let mut stories = Stories::default();
        let generator = Generator::new(&spec, 5);
        let mut simulation = Simulation::new(engine(1), private_servers(), Frontend::default(), generator);
        simulation.advance(Until::DRAINED, &mut stories);
        let mut free = Picos::ZERO;
        for story in stories.0.values() {
            let begin = story.arrival.max(free);
            free = begin + step * u64::from(story.output_tokens);
            let expected = (begin, Some(begin + step), free);
            assert_eq!(
                (story.first_scheduled, story.first_token, story.end),
                expected,
                "request {}",
                story.id.0
            );
        }
        assert_eq!(stories.0.len(), 20_000);
    }
}

/// Intervals of independent runs cover the closed form nineteen times in twenty: 38 of 40 expected, four binomial deviations
/// of 1.4 below.
#[test]
fn intervals_cover_the_truth() {
    let truth = theory::m_m_1(0.5, 1.0).expect("below saturation").sojourn;
    let covered = (0..40).filter(|seed| {
        let spec = traffic(poisson(0.5), Services::Exponential, 12_000);
        let (value, half) = interval(&run(engine(1), private_servers(), &spec, 100 + seed), "e2el");
        (value - truth).abs() <= half
    });
    let covered = covered.count();
    assert!(covered >= 33, "{covered} of 40");
}

#[test]
fn overload_is_called_unstable() {
    let result = run(
        engine(1),
        private_servers(),
        &traffic(poisson(1.25), Services::Exponential, 20_000),
        6,
    );
    assert_eq!(result.verdict, Verdict::Unstable);
    assert!(result.steady.is_none());
    near("growth", result.growth_per_s, 0.25, 0.2);
    near("throughput", interval(&result, "throughput").0, 1.0, 0.03);
}
