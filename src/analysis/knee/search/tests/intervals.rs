//! How narrow a search makes its answer, and how it looks at the curve about it.

use super::*;

/// Of a promise that breaks ever faster, between a rate far below the knee that surely keeps it and the next.
#[test]
fn the_ends_of_the_knee_s_interval_are_looked_for_between_rates_that_are_far_apart() {
    let curved = |rate: f64| {
        let slack = 0.01 - 0.01 * (rate / 5.0).powi(8);
        Point {
            slack: (rate < 8.0).then_some(Estimate {
                value: slack,
                low: slack - 0.003,
                high: slack + 0.003,
            }),
            ..exact(rate)
        }
    };
    let options = SearchOptions {
        start_rate: 2.5,
        ..SearchOptions::default()
    };
    let of = |options: &SearchOptions| search(|rate, _| Some(curved(rate)), options);
    let (knee, coarse) = (
        of(&options),
        of(&SearchOptions {
            width: None,
            ..options
        }),
    );
    let (within, wider) = (knee.within_slo.unwrap(), coarse.within_slo.unwrap());
    // At 4.78 the lower end of the slack is zero, and at 5.17 the upper one.
    assert!(wider.low < 4.5, "{wider:?}");
    assert!(within.low > 4.5 && within.low <= 4.79, "{within:?}");
    assert!(within.high - within.low <= 0.1 * within.value, "{within:?}");
    assert!(knee.points.len() <= coarse.points.len() + 8 && knee.converged);
}

/// The error of a share falls with the root of the requests, and the share hardly with the rate.
#[test]
fn an_interval_that_chance_makes_is_narrowed_by_longer_runs_and_by_no_more_than_allowed() {
    let flat = |longest: &mut u64, requests: u64, slope: f64, rate: f64| {
        let requests = requests.max(16_000);
        // Beyond saturation one rate is run for longer all the same.
        if rate < 8.0 {
            *longest = requests.max(*longest);
        }
        let (slack, error) = (slope * (5.0 - rate), 0.006 * (16_000.0 / requests as f64).sqrt());
        Point {
            requests,
            slack: (rate < 8.0).then_some(Estimate {
                value: slack,
                low: slack - error,
                high: slack + error,
            }),
            ..exact(rate)
        }
    };
    let of = |slope: f64, width| {
        let mut longest = 0;
        let options = SearchOptions {
            width,
            ..SearchOptions::default()
        };
        let knee = search(
            |rate, requests| Some(flat(&mut longest, requests, slope, rate)),
            &options,
        );
        (knee.within_slo.unwrap(), longest, knee.points.len())
    };
    let wide = |knee: Estimate| (knee.high - knee.low) / knee.value;
    let (short, asked, _) = of(0.01, None);
    assert!(wide(short) > 0.2 && asked == 16_000, "{short:?}");
    let (found, asked, tried) = of(0.01, Some(0.1));
    assert!(
        wide(found) <= 0.1 && found.low <= 5.0 && found.high >= 5.0,
        "{found:?}"
    );
    assert!(asked <= 240_000 && tried <= 30, "{asked} {tried}");
    // Where no affordable run tells, the search ends all the same.
    let (lost, asked, tried) = of(0.004, Some(0.1));
    assert!(
        wide(lost) > 0.1 && asked == 240_000 && tried <= 30,
        "{lost:?} {asked} {tried}"
    );
    // And where it would be far too short it is not begun.
    let (lost, asked, tried) = of(0.002, Some(0.1));
    assert!(
        wide(lost) > 1.0 && asked == 16_000 && tried <= 30,
        "{lost:?} {asked} {tried}"
    );
}

/// What is drawn is simulated: from below the knee to saturation no two rates are further apart than is asked, and nothing found moves.
#[test]
fn a_curve_that_is_looked_at_has_no_wide_gap_about_the_knee() {
    for below in [3.0, 1.4] {
        has_no_wide_gap_about(5.0 - below);
    }
}

fn has_no_wide_gap_about(knee: f64) {
    // It lies far below saturation, so that the search has nothing to look for between the two.
    let below = 5.0 - knee;
    let far = |rate: f64| {
        let point = exact(rate);
        let lower = |estimate: Estimate| Estimate {
            value: estimate.value - below,
            low: estimate.low - below,
            high: estimate.high - below,
        };
        Point {
            slack: point.slack.map(lower),
            ..point
        }
    };
    let found = |apart: Option<f64>| {
        let options = SearchOptions {
            apart,
            ..SearchOptions::default()
        };
        search(|rate, _| Some(far(rate)), &options)
    };
    let (plain, filled) = (found(None), found(Some(1.3)));
    assert_eq!(
        (plain.within_slo, plain.saturation, plain.converged),
        (filled.within_slo, filled.saturation, filled.converged)
    );
    let widest = |found: &Knee| {
        let pairs = found.points.windows(2).map(|pair| (pair[0].rate, pair[1].rate));
        // From an octave below it to the last rate that is kept up with.
        let about = pairs.filter(|(_, upper)| *upper > 1.01 * knee / 2.0 && *upper < 8.0);
        about.map(|(lower, upper)| upper / lower).fold(1.0, f64::max)
    };
    assert!(widest(&plain) > 1.4, "{:?}", widest(&plain));
    assert!(widest(&filled) <= 1.3 + 1e-9, "{:?}", widest(&filled));
}
