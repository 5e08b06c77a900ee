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
mod tests;
