//! When requests of a trace arrive: a rate curve, and gamma gaps within its pieces.
//!
//! A coarse curve, a few dozen pieces, keeps the hours of a day. Where the counts of arrivals in seconds to a minute vary
//! more than gamma gaps of any one shape would have them, the trace has bursts that last: then the curve is as fine as
//! the number of requests allows. A coarse curve follows no chance: its pieces are so long that their counts vary twice as much as chance
//! would have them, and where no length is, the rate is constant. A curve of chance would be played on top of the gaps' own. Left out: laws of bursts. One that was fitted (switching on and off) had the dispersions
//! and not the latency, which the largest burst alone decides.
//!
//! No single request shows in a rate: the count behind it is fifty or more (in a coarse curve), a multiple of five, or none.

use super::describe::{dispersion, find_grid, variation};
use super::fit::{TWIN_SEED, three_figures};
use super::twin;
use crate::workload::Request;

/// Lengths of a piece that are tried, in seconds, shortest first.
const PIECES_S: [f64; 11] = [
    5.0, 10.0, 20.0, 30.0, 60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
];
/// A day: longer traces are folded onto one.
const DAY_S: f64 = 86_400.0;
/// Windows in which counts of arrivals are compared with the twin's, in seconds.
const DISPERSION_WINDOWS_S: [f64; 3] = [1.0, 10.0, 60.0];
/// Root mean square of the logarithmic errors of dispersions up to which a coarse curve will do, beyond what is chance.
const MISFIT_MAX: f64 = 0.15;
/// A twin that is tried holds about so many requests at least, over the whole span as often as that takes: half a day of
/// a day curve has another mean and another spread of rates, which gaps would have to make up for.
const TRIED_MIN: usize = 20_000;
/// Gaps of this shape and above are so regular that counts vary by where their windows begin.
const REGULAR: f64 = 25.0;
/// Shapes of gamma gaps that are taken.
const SHAPES: std::ops::RangeInclusive<f64> = 0.01..=100.0;

/// How fine a rate curve may be.
struct Grain {
    /// Most pieces.
    pieces_max: f64,
    /// Requests that a piece holds on average, at least, if the trace has so many.
    piece_requests: f64,
    /// A piece with fewer requests than this is said to have a multiple of [`FEW`].
    exact_from: f64,
    /// Whether pieces must vary by more than chance; a fine curve is asked for because counts do.
    beyond_chance: bool,
}

/// A coarse curve is of rates where its pieces vary so many times as much as chance would have it, at least.
const BEYOND_CHANCE: f64 = 2.0;
/// Standard deviations by which a few pieces must be beyond chance, too.
const SURE: f64 = 3.0;
/// Arrivals, on average, in the windows whose counts tell how arrivals vary by chance.
const CHANCE_ARRIVALS: f64 = 5.0;

/// Counts that might show single requests are rounded to multiples of so many.
const FEW: f64 = 5.0;

/// A day curve.
const COARSE: Grain = Grain {
    pieces_max: 96.0,
    piece_requests: 50.0,
    exact_from: 50.0,
    beyond_chance: true,
};
/// Bursts, one by one. Pieces hold few requests, so that every count is rounded.
const FINE: Grain = Grain {
    pieces_max: 720.0,
    piece_requests: 10.0,
    exact_from: f64::INFINITY,
    beyond_chance: false,
};

/// A rate that follows a curve, with gamma gaps in operational time.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedArrivals {
    /// Length of a piece in seconds.
    pub piece_s: f64,
    /// requests/s in each piece.
    pub rates: Vec<f64>,
    /// Shape of the gamma law: 1 is Poisson, below 1 burstier.
    pub burstiness: f64,
    /// What gaps or counts say of it where that is no shape from 0.01 to 100, and the nearest of these stands in.
    pub beyond: Option<String>,
    /// Distance of the grid that the trace's times sit on, in seconds.
    pub grid_s: Option<f64>,
    /// Whether several days were folded onto one.
    pub folded: bool,
    /// Which pieces are said to have a multiple of five requests, so that no single one shows.
    pub rounded: Rounded,
}

/// Which pieces of a rate curve have rounded counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounded {
    /// None: all have many requests.
    Nowhere,
    /// Those with fewer requests than this, of a coarse curve.
    Below(u32),
    /// All of a fine curve.
    Everywhere,
}

/// Fits the rate curve and the burstiness within it; `None` where all requests arrive at once.
pub(super) fn fit_arrivals(requests: &[Request]) -> Option<FittedArrivals> {
    let times: Vec<f64> = requests.iter().map(|request| request.arrival.seconds()).collect();
    let span_s = times.last().copied().filter(|&span| span > 0.0)?;
    let grid_s = find_grid(&times);
    let windows = windows(&times, grid_s);
    let chance = chance(&times, span_s, grid_s);
    let fit = |grain: &Grain| {
        let folded = span_s >= 2.0 * DAY_S;
        let (piece_s, rates, rounded) = rate_curve(&times, span_s, folded, grain, chance);
        let (burstiness, beyond, misfit) = fit_burstiness(&times, piece_s, &rates, &windows);
        let fitted = FittedArrivals {
            piece_s,
            rates,
            burstiness,
            beyond,
            grid_s,
            folded,
            rounded,
        };
        (fitted, misfit)
    };
    let (coarse, misfit) = fit(&COARSE);
    if misfit < MISFIT_MAX {
        return Some(coarse);
    }
    // Bursts that last seconds to a minute are no renewal process: no shape of gaps has their counts in all windows.
    let (fine, finer) = fit(&FINE);
    Some(if fine.piece_s < coarse.piece_s && finer < misfit {
        fine
    } else {
        coarse
    })
}

/// Windows of one length, in which counts are compared.
#[derive(Clone, Copy)]
struct Windows {
    length_s: f64,
    /// The trace's index of dispersion.
    index: f64,
    /// Inverse variance of its logarithm: what so few windows have by chance, 2/(n − 1), and what no curve is asked to meet.
    weight: f64,
}

/// Windows that counts are compared in.
fn windows(times: &[f64], grid_s: Option<f64>) -> Vec<Windows> {
    let lengths = match grid_s {
        Some(grid) => [2.0, 4.0, 10.0].map(|ticks| ticks * grid),
        None => DISPERSION_WINDOWS_S,
    };
    let index = |window_s: f64| dispersion(times, window_s, -grid_s.unwrap_or(0.0) / 2.0);
    let span_s = times.last().copied().unwrap_or(0.0);
    let seen = lengths.into_iter().filter_map(|length_s| {
        let others = (span_s / length_s).floor() - 1.0;
        Some(Windows {
            length_s,
            index: index(length_s)?,
            weight: 1.0 / (2.0 / others.max(1.0) + MISFIT_MAX.powi(2)),
        })
    });
    seen.filter(|windows| windows.index > 0.0).collect()
}

/// Variance over mean of the counts that arrivals have by chance: that of a few at a time, over which a rate hardly changes.
fn chance(times: &[f64], span_s: f64, grid_s: Option<f64>) -> f64 {
    let window_s = CHANCE_ARRIVALS * span_s / times.len() as f64;
    let window_s = grid_s.map_or(window_s, |grid| window_s.max(2.0 * grid));
    dispersion(times, window_s, -grid_s.unwrap_or(0.0) / 2.0).unwrap_or(1.0)
}

/// Variance that borders of pieces alone make of counts.
const BY_BORDERS: f64 = 0.25;

/// Whether counts of pieces vary by more than chance.
fn is_beyond_chance(counts: &[f64], chance: f64) -> bool {
    let others = counts.len() as f64 - 1.0;
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / others;
    // Between borders equal gaps have one of two numbers, which vary by a quarter at most.
    let by_chance = (chance * mean).max(BY_BORDERS);
    variance >= by_chance * BEYOND_CHANCE.max(1.0 + SURE * (2.0 / others).sqrt())
}

/// Pieces of one length that cover the span (or a day) exactly, each with its mean rate: the shortest that hold enough requests, and say
/// more than chance where the grain asks for it. Where pieces of no length that is tried hold enough, there are as few as hold them.
fn rate_curve(
    times: &[f64],
    span_s: f64,
    folded: bool,
    grain: &Grain,
    chance: f64,
) -> (f64, Vec<f64>, Rounded) {
    let cycle_s = if folded { DAY_S } else { span_s };
    let fits = |piece: &f64| {
        piece * grain.pieces_max >= cycle_s && times.len() as f64 * piece / cycle_s >= grain.piece_requests
    };
    let fitting = PIECES_S.into_iter().filter(fits).map(|piece| cycle_s / piece);
    let mut numbers: Vec<f64> = fitting.collect();
    if numbers.is_empty() {
        numbers.push(times.len() as f64 / grain.piece_requests);
    }
    let counted = |pieces: f64| {
        let pieces = pieces.floor().max(1.0);
        // Rounded up to a millisecond, so that the pieces cover the last arrival; the excess of all is below 0.1 s in a coarse
        // curve and 0.72 s in a fine one.
        let piece_s = (cycle_s / pieces * 1000.0).ceil() / 1000.0;
        let mut counts = vec![0.0f64; pieces as usize];
        for &time in times {
            let within = if folded { time % DAY_S } else { time };
            counts[((within / piece_s) as usize).min(pieces as usize - 1)] += 1.0;
        }
        (piece_s, counts)
    };
    let says_enough = |counts: &[f64]| !grain.beyond_chance || is_beyond_chance(counts, chance);
    let (piece_s, mut counts) = numbers
        .into_iter()
        .map(counted)
        .find(|(_, counts)| counts.len() == 1 || says_enough(counts))
        .unwrap_or_else(|| counted(1.0));
    let is_rounded = round_counts(&mut counts, grain.exact_from);
    let rounded = match is_rounded {
        false => Rounded::Nowhere,
        true if grain.exact_from.is_finite() => Rounded::Below(grain.exact_from as u32),
        true => Rounded::Everywhere,
    };
    let whole_days = (span_s / DAY_S).floor();
    let observed_s = |index: usize| {
        let start = index as f64 * piece_s;
        let rest = (span_s - whole_days * DAY_S - start).clamp(0.0, piece_s);
        if folded {
            whole_days * piece_s + rest
        } else {
            piece_s
        }
    };
    let rates = counts
        .iter()
        .enumerate()
        .map(|(index, count)| three_figures(count / observed_s(index)))
        .collect();
    (piece_s, rates, rounded)
}

/// The gamma shape whose twin has the trace's dispersion of counts in several windows.
///
/// The moment of the gaps alone (κ = 1/CV²) is led astray by clock grids and by a few long pauses; counts over seconds
/// to a minute are what a queue feels. Where the trace is too short for counts, or too regular, gaps in operational time
/// decide, and what they say is told where it is no shape that is taken. The number is the root mean square of the logarithmic errors of the
/// dispersions, each less as it is known less: a dozen minutes say little.
fn fit_burstiness(
    times: &[f64],
    piece_s: f64,
    rates: &[f64],
    windows: &[Windows],
) -> (f64, Option<String>, f64) {
    let (shape, beyond) = shape_of(variation(&operational_gaps(times, piece_s, rates)));
    if windows.is_empty() || shape >= REGULAR {
        return (three_figures(shape), beyond, 0.0);
    }
    let span_s = times.last().copied().unwrap_or(0.0);
    let end_s = span_s * TRIED_MIN.div_ceil(times.len()) as f64;
    let misfit = |log_shape: f64| -> f64 {
        let drawn = twin::arrivals_within(piece_s, rates, log_shape.exp(), end_s, TWIN_SEED);
        let term = |of: &Windows| {
            let twin = dispersion(&drawn, of.length_s, 0.0);
            of.weight * twin.map_or(0.0, |twin| (twin.max(1e-9) / of.index).ln().powi(2))
        };
        windows.iter().map(term).sum()
    };
    let (low, high) = (SHAPES.start().ln(), SHAPES.end().ln());
    let best = |from: f64, step: f64, count: u32| {
        let shapes = (0..=count).map(|i| (from + step * f64::from(i)).clamp(low, high));
        let mut shapes: Vec<f64> = shapes.collect();
        shapes.dedup();
        shapes
            .into_iter()
            .map(|at| (misfit(at), at))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("a search looks at one shape at least")
    };
    // Shapes from one end to 85; a finer search around the best of these comes to the other end, too.
    let coarse_step = 5_000f64.ln() / 16.0;
    let (_, coarse) = best(low, coarse_step, 17);
    let (misfit, shape) = best(coarse - coarse_step, coarse_step / 6.0, 12);
    let beyond = if shape == high {
        Some("how regular counts are: they vary less than those of gamma gaps of shape 100, which stand in")
    } else if shape == low {
        Some("how bursty counts are: they vary more than those of gamma gaps of shape 0.01, which stand in")
    } else {
        None
    };
    (
        three_figures(shape.exp()),
        beyond.map(str::to_owned),
        MISFIT_MAX * (misfit / windows.len() as f64).sqrt(),
    )
}

/// The shape of gamma gaps with a coefficient of variation, κ = 1/CV²; and what is said where another stands in.
fn shape_of(variation: Option<f64>) -> (f64, Option<String>) {
    let Some(cv) = variation else {
        let said = "how bursty gaps are: there are too few to tell, and Poisson's stand in";
        return (1.0, Some(said.to_owned()));
    };
    let shape = 1.0 / (cv * cv);
    if SHAPES.contains(&shape) {
        return (shape, None);
    }
    let said = match shape > 100.0 {
        true => "how regular gaps are: they vary less than gamma gaps of shape 100, which stand in",
        false => "how bursty gaps are: they vary more than gamma gaps of shape 0.01, which stand in",
    };
    (shape.clamp(*SHAPES.start(), *SHAPES.end()), Some(said.to_owned()))
}

/// Gaps measured by how many arrivals the rate curve expects in them.
fn operational_gaps(times: &[f64], piece_s: f64, rates: &[f64]) -> Vec<f64> {
    let mut before = vec![0.0];
    for rate in rates {
        before.push(before[before.len() - 1] + rate * piece_s);
    }
    let cycle_s = piece_s * rates.len() as f64;
    let expected = |time: f64| {
        let (rounds, within) = ((time / cycle_s).floor(), time % cycle_s);
        let piece = ((within / piece_s) as usize).min(rates.len() - 1);
        rounds * before[rates.len()] + before[piece] + rates[piece] * (within - piece as f64 * piece_s)
    };
    times
        .windows(2)
        .map(|pair| expected(pair[1]) - expected(pair[0]))
        .collect()
}

/// Rounds counts below `exact_from` to multiples of [`FEW`] and keeps their sum, but for less than one of these: what one
/// piece gains the next ones lose. Whether any was.
fn round_counts(counts: &mut [f64], exact_from: f64) -> bool {
    let (mut owed, mut is_rounded) = (0.0, false);
    for count in counts.iter_mut().filter(|count| **count > 0.0) {
        let due = *count + owed;
        let told = if due < exact_from {
            is_rounded = true;
            (due / FEW).round().max(0.0) * FEW
        } else {
            due
        };
        (owed, *count) = (due - told, told);
    }
    is_rounded
}

#[cfg(test)]
mod tests {
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
}
