//! Gaps and instants against the laws that they are drawn from.

use super::*;
use crate::workload::MmppState;
use crate::workload::generator::tests::{arrivals_of, spec};

fn seconds(spec: &WorkloadSpec, seed: u64) -> Vec<f64> {
    arrivals_of(spec, seed)
        .iter()
        .map(|request| request.arrival.seconds())
        .collect()
}

fn gaps(instants: &[f64]) -> Vec<f64> {
    std::iter::once(0.0)
        .chain(instants.iter().copied())
        .zip(instants)
        .map(|(a, b)| b - a)
        .collect()
}

fn mean_and_cv(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt() / mean)
}

#[test]
fn gaps_have_the_mean_and_spread_of_their_law() {
    let check = |arrivals, burstiness: f64| {
        let mut renewal = spec(arrivals);
        renewal.num_prompts = Some(100_000);
        let (mean, cv) = mean_and_cv(&gaps(&seconds(&renewal, 1)));
        // A gamma law of shape κ has cv² = 1/κ and kurtosis 3 + 6/κ; the relative standard error of a mean is
        // cv/√n, that of a standard deviation √((kurtosis − 1)/4n). Four of each.
        let n = 100_000_f64;
        let tolerance = 4.0 / (burstiness * n).sqrt();
        assert!(
            (mean * 4.0 - 1.0).abs() < tolerance,
            "mean {mean} at κ = {burstiness}"
        );
        let spread_tolerance = 4.0 * ((2.0 + 6.0 / burstiness) / (4.0 * n)).sqrt() + tolerance;
        assert!(
            (cv * burstiness.sqrt() - 1.0).abs() < spread_tolerance,
            "cv {cv} at κ = {burstiness}"
        );
    };
    check(Arrivals::Poisson { request_rate: 4.0 }, 1.0);
    for burstiness in [0.25, 1.0, 4.0] {
        check(
            Arrivals::Gamma {
                request_rate: 4.0,
                burstiness,
            },
            burstiness,
        );
        // A flat day curve is the renewal process itself, in whatever pieces it is given.
        let piece = Picos::from_seconds(0.7);
        check(
            Arrivals::Profile {
                piece,
                rates: [4.0, 4.0].into(),
                burstiness,
            },
            burstiness,
        );
    }
}

#[test]
fn infinite_burstiness_is_constant() {
    let constant = arrivals_of(&spec(Arrivals::Constant { request_rate: 3.0 }), 0);
    let gamma = spec(Arrivals::Gamma {
        request_rate: 3.0,
        burstiness: f64::INFINITY,
    });
    assert_eq!(constant, arrivals_of(&gamma, 0));
    assert_eq!(
        constant[2].arrival,
        Picos(1_000_000_000_000 - 1),
        "thirds of a second, each rounded down"
    );
}

#[test]
fn rescaling_follows_the_worked_example_of_vllm() {
    // B-33: four requests at 2/s whose gaps add up to 1.6 s.
    let rescaling = Rescaling {
        drawn: Picos::ZERO,
        total: Picos::from_seconds(1.6),
        target: Picos::from_seconds(2.0),
    };
    let drawn = [0.3, 0.8, 0.9, 1.6].map(Picos::from_seconds);
    let expected = [0.375, 1.0, 1.125, 2.0].map(Picos::from_seconds);
    assert_eq!(drawn.map(|instant| rescaling.rescale(instant)), expected);
}

#[test]
fn rescaled_arrivals_are_the_drawn_ones_on_another_scale_and_end_at_n_over_rate() {
    let drawn = spec(Arrivals::Gamma {
        request_rate: 8.0,
        burstiness: 0.5,
    });
    let mut rescaled = drawn.clone();
    rescaled.client.rescale_arrivals = true;
    let (drawn, rescaled) = (seconds(&drawn, 6), arrivals_of(&rescaled, 6));
    assert_eq!(rescaled[999].arrival, Picos::from_seconds(125.0));
    for (drawn_at, request) in drawn.iter().zip(&rescaled) {
        assert!((drawn_at * 125.0 / drawn[999] - request.arrival.seconds()).abs() < 1e-11);
    }
}

#[test]
fn a_ramp_follows_the_index() {
    assert_eq!(ramp_rate(0.0, 2.0, 8.0, false), 2.0);
    assert_eq!(ramp_rate(0.5, 2.0, 8.0, false), 5.0);
    assert_eq!(ramp_rate(0.5, 2.0, 8.0, true), 4.0);
    assert_eq!(ramp_rate(1.0, 2.0, 8.0, true), 8.0);
    let ramp = |start_rate| {
        spec(Arrivals::Ramp {
            start_rate,
            end_rate: 8.0,
            exponential: false,
        })
    };
    let flat = seconds(&spec(Arrivals::Poisson { request_rate: 8.0 }), 2);
    let (flat_gaps, ramp_gaps) = (gaps(&flat), gaps(&seconds(&ramp(2.0), 2)));
    for (index, (flat, ramp)) in flat_gaps.iter().zip(&ramp_gaps).enumerate() {
        let rate = 2.0 + 6.0 * index as f64 / 999.0;
        assert!((flat * 8.0 - ramp * rate).abs() < 1e-9, "gap {index}");
    }
}

#[test]
fn a_day_curve_sends_in_each_hour_what_its_rate_says() {
    let rates = [0.0, 2.0, 10.0, 0.5];
    let piece = Picos::from_seconds(100.0);
    let mut day = spec(Arrivals::Profile {
        piece,
        rates: rates.into(),
        burstiness: 1.0,
    });
    day.num_prompts = None;
    day.duration = Some(Picos::from_seconds(40_000.0));
    let mut counts = [0.0; 4];
    seconds(&day, 3)
        .iter()
        .for_each(|instant| counts[(instant / 100.0) as usize % 4] += 1.0);
    for (count, rate) in counts.into_iter().zip(rates) {
        // Poisson counts over 100 days: the standard deviation is the root of the mean. Four of them.
        let expected: f64 = rate * 1e4;
        assert!(
            (count - expected).abs() <= 4.0 * expected.sqrt(),
            "{count} at {rate} requests/s"
        );
    }
}

#[test]
fn an_mmpp_is_burstier_than_poisson_and_counts_as_its_law_says() {
    // An interrupted Poisson process, 20/s for 1 s on average, then silence for 4 s, is a renewal process with
    // hyperexponential gaps (Kuczura 1973): their mean is the cycle over its requests, 5/20 s, and
    // cv² = 1 + 2λω₁/(ω₁ + ω₂)² with ω₁ = 1/s out of the burst and ω₂ = 1/4 into it: 1 + 40/1.5625 = 26.6.
    let state = |request_rate, seconds| MmppState {
        request_rate,
        mean_sojourn: Picos::from_seconds(seconds),
    };
    let mut bursts = spec(Arrivals::Mmpp {
        states: vec![state(20.0, 1.0), state(0.0, 4.0)],
    });
    bursts.num_prompts = Some(400_000);
    let (mean, cv) = mean_and_cv(&gaps(&seconds(&bursts, 8)));
    // The relative error of the mean is 5.2/√400,000 = 0.008. The square of the spread is made by 20,000 silences of
    // exponential length, whose squares have a coefficient of variation of √5: 0.016, and twice that of the mean.
    // Four of each.
    assert!((mean / 0.25 - 1.0).abs() < 0.033, "mean {mean}");
    assert!((cv * cv / 26.6 - 1.0).abs() < 0.13, "cv² {}", cv * cv);
}

#[test]
fn an_instant_is_rounded_as_any_duration_is() {
    // Above 2^52 ps, 75 minutes, half a picosecond more is the next even number.
    let odd = ((1u64 << 52) + 1) as f64;
    assert_eq!(round(odd), Picos((1 << 52) + 1));
    for seconds in [0.1, 4_503.7, 9_007.3, 86_400.123_456_789, 1e7] {
        assert_eq!(round(seconds * 1e12), Picos::from_seconds(seconds));
    }
    assert_eq!(round(1e30), Picos::MAX);
    assert_eq!(round(0.499_999_999_999_999_94), Picos::ZERO);
}
