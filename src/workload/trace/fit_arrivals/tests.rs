//! What is fitted to arrivals whose law is known.

use super::*;

#[test]
fn the_shape_of_gamma_gaps_is_found_again() {
    for shape in [0.3, 1.0, 4.0] {
        let times = twin::arrivals(60.0, &[5.0, 10.0], shape, 30_000, 99);
        let (found, _, misfit) = fit_burstiness(&times, 60.0, &[5.0, 10.0], &windows(&times, None));
        assert!(
            (found / shape).ln().abs() < 0.2 && misfit < MISFIT_MAX,
            "{shape}: {found}, {misfit}"
        );
    }
}

#[test]
fn arrivals_at_a_constant_rate_get_no_curve_of_their_chance() {
    for (shape, seed) in [(1.0, 7), (1.0, 8), (0.3, 9), (4.0, 10)] {
        let times = twin::arrivals(3600.0, &[5.0], shape, 2_000, seed);
        let lengths = vec![(10, 10); times.len()];
        let fitted = fit_arrivals(&twin::requests(&times, &lengths, None, 0)).unwrap();
        assert_eq!(fitted.rates.len(), 1, "{shape}: {fitted:?}");
        assert!(
            (fitted.burstiness / shape).ln().abs() < 0.2,
            "{shape}: {fitted:?}"
        );
    }
    // A rate that doubles keeps its curve.
    let times = twin::arrivals(60.0, &[5.0, 10.0], 1.0, 4_000, 11);
    let lengths = vec![(10, 10); times.len()];
    let fitted = fit_arrivals(&twin::requests(&times, &lengths, None, 0)).unwrap();
    assert!(fitted.piece_s < 40.0, "{fitted:?}");
}

#[test]
fn a_day_that_rises_and_falls_is_no_burst() {
    // 172,800 requests: more than a twin that stops at 100,000 would reach.
    let day = |hour: u32| 2.0 * (1.0 + 0.9 * (f64::from(hour) * std::f64::consts::TAU / 24.0).sin());
    let rates: Vec<f64> = (0..24).map(day).collect();
    let times = twin::arrivals_within(3600.0, &rates, 1.0, DAY_S, 5);
    let lengths = vec![(10, 10); times.len()];
    let fitted = fit_arrivals(&twin::requests(&times, &lengths, None, 0)).unwrap();
    assert!((0.9..1.1).contains(&fitted.burstiness), "{fitted:?}");
    assert_eq!(fitted.rounded, Rounded::Nowhere, "{fitted:?}");
}

#[test]
fn gaps_that_hardly_vary_stay_regular() {
    let times: Vec<f64> = (0..64u32)
        .map(|i| f64::from(i) + 0.01 * f64::from(i * 7 % 5))
        .collect();
    let fitted = fit_arrivals(&twin::requests(&times, &[(10, 10); 64], None, 0)).unwrap();
    assert_eq!(fitted.burstiness, 100.0);
    assert!(fitted.beyond.is_some_and(|said| said.starts_with("how regular")));
    // Borders of pieces are no curve.
    let times: Vec<f64> = (0..5_000u32).map(|i| 0.2 * f64::from(i)).collect();
    let fitted = fit_arrivals(&twin::requests(&times, &[(10, 10); 5_000], None, 0)).unwrap();
    assert_eq!(fitted.rates.len(), 1, "{fitted:?}");
}

#[test]
fn a_shape_at_an_edge_of_the_search_is_told() {
    // Ten a second, each up to 0.15 s late: gaps vary as those of shape 3 do, and counts less than those of any.
    let late = |i: u32| 1.5 * f64::from(i * 7919 % 10_007) / 10_007.0;
    let mut times: Vec<f64> = (0..8_000).map(|i| (f64::from(i) + late(i)) / 10.0).collect();
    times.sort_by(f64::total_cmp);
    let (shape, said, _) = fit_burstiness(&times, 60.0, &[10.0], &windows(&times, None));
    assert_eq!(shape, 100.0);
    assert!(said.is_some_and(|said| said.contains("shape 100, which stand in")));
    // 500 at a time, every 300 s.
    let times: Vec<f64> = (0..20_000)
        .map(|i: u32| 300.0 * f64::from(i / 500) + 1e-5 * f64::from(i % 500))
        .collect();
    let rate = times.len() as f64 / times.last().unwrap();
    let (shape, said, _) = fit_burstiness(&times, 600.0, &[rate], &windows(&times, None));
    assert_eq!(shape, 0.01);
    assert!(said.is_some_and(|said| said.contains("shape 0.01, which stand in")));
}

#[test]
fn a_shape_that_stands_in_for_another_is_told() {
    assert_eq!(shape_of(Some(2.0)), (0.25, None));
    for (variation, stands_in) in [(Some(0.0), 100.0), (Some(50.0), 0.01), (None, 1.0)] {
        let (shape, said) = shape_of(variation);
        assert_eq!(shape, stands_in);
        assert!(said.is_some_and(|said| said.ends_with("in")), "{variation:?}");
    }
}

#[test]
fn rounded_counts_keep_their_sum_and_hide_single_requests() {
    let mut counts: Vec<f64> = (0..400).map(|i| f64::from(i * 7 % 13)).collect();
    let sum: f64 = counts.iter().sum();
    let empty = counts.iter().filter(|count| **count == 0.0).count();
    assert!(round_counts(&mut counts, f64::INFINITY));
    assert!(counts.iter().all(|count| count % 5.0 == 0.0));
    assert!((counts.iter().sum::<f64>() - sum).abs() < 5.0);
    assert!(counts.iter().filter(|count| **count == 0.0).count() >= empty);
}

#[test]
fn no_piece_shows_fewer_than_fifty_requests_but_as_a_multiple_of_five() {
    let evenly = |count: u32, span_s: f64| -> Vec<f64> {
        let gap_s = span_s / f64::from(count);
        (1..=count).map(|i| f64::from(i) * gap_s).collect()
    };
    // A busy day in which one request comes between three and four.
    let mut quiet = evenly(20_000, DAY_S);
    quiet.retain(|time| !(7_200.0..18_000.0).contains(time));
    quiet.push(12_000.0);
    quiet.sort_by(f64::total_cmp);
    // A rate that falls from piece to piece, down to nothing.
    let falling: Vec<f64> = (0..5_000u32)
        .map(|i| 86_000.0 * (f64::from(i) / 5_000.0).powi(4))
        .collect();
    let traces = [
        evenly(64, 3_000.0),
        evenly(130, 150.0),
        evenly(100, DAY_S),
        evenly(599, DAY_S),
        evenly(700, 14.0 * DAY_S),
        quiet,
        falling,
    ];
    for times in traces {
        let span_s = times.last().copied().unwrap();
        let folded = span_s >= 2.0 * DAY_S;
        let days = if folded { span_s / DAY_S } else { 1.0 };
        for grain in [&COARSE, &FINE] {
            let (piece_s, rates, _) = rate_curve(&times, span_s, folded, grain, 0.0);
            let mean = times.len() as f64 / rates.len() as f64;
            assert!(
                mean >= grain.piece_requests,
                "{} pieces of {piece_s} s",
                rates.len()
            );
            let shown: Vec<f64> = rates.iter().map(|rate| rate * piece_s * days).collect();
            let is_hidden = |&count: &f64| {
                let fives = count / 5.0;
                count > 49.5 || (fives - fives.round()).abs() < 0.03
            };
            assert!(shown.iter().all(is_hidden), "{shown:?}");
            let all: f64 = shown.iter().sum();
            assert!((all - times.len() as f64).abs() < 0.005 * all + 3.0, "{all}");
        }
    }
}

/// Bursts of 20 s in silences of 40 s, each burst of a size of its own.
fn bursty() -> Vec<f64> {
    let sizes = (0..60).map(|burst: u32| 60 + burst * 37 % 200);
    let burst = |(at, size): (usize, u32)| {
        (0..size).map(move |i| at as f64 * 60.0 + 20.0 * f64::from(i) / f64::from(size))
    };
    sizes.enumerate().flat_map(burst).collect()
}

#[test]
fn bursts_that_last_get_a_finer_curve_and_steady_arrivals_do_not() {
    let fitted = |times: &[f64]| {
        let lengths = vec![(10, 10); times.len()];
        fit_arrivals(&twin::requests(times, &lengths, None, 0)).unwrap()
    };
    let bursts = bursty();
    let fine = fitted(&bursts);
    assert!(
        fine.piece_s < 15.0 && fine.rounded == Rounded::Everywhere,
        "{fine:?}"
    );
    let drawn = twin::arrivals(fine.piece_s, &fine.rates, fine.burstiness, bursts.len(), 3);
    for window_s in DISPERSION_WINDOWS_S {
        let [trace, twin] = [&bursts, &drawn].map(|times| dispersion(times, window_s, 0.0).unwrap());
        assert!((twin / trace).ln().abs() < 0.25, "{window_s} s: {trace} {twin}");
    }
    let steady = fitted(&twin::arrivals(300.0, &[4.0, 8.0], 1.0, 12_000, 5));
    assert!(
        steady.rounded == Rounded::Nowhere && steady.piece_s >= 30.0,
        "{steady:?}"
    );
}
