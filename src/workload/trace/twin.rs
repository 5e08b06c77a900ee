//! Requests drawn from a fitted workload, to compare it with the trace that it was fitted to.
//!
//! The laws are those of the workload generator: gamma gaps in operational time under a piecewise-constant rate,
//! piecewise-linear quantile functions joined by a Gaussian copula, and prompts that continue earlier ones.

use rand_distr::{Distribution, Gamma, StandardNormal};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::ids::{RequestId, SegmentId};
use crate::rng::{Purpose, stream};
use crate::units::Picos;
use crate::workload::reuse::Reuse;
use crate::workload::{Prompt, Request, ReuseLaw};

/// First identity of answers, which nobody shares.
const OUTPUT_SEGMENTS: u64 = 1 << 63;

/// The first `count` arrival instants in seconds, the profile repeated as often as needed.
#[cfg(test)]
pub(super) fn arrivals(piece_s: f64, rates: &[f64], burstiness: f64, count: usize, seed: u64) -> Vec<f64> {
    instants(piece_s, rates, burstiness, seed).take(count).collect()
}

/// The arrival instants of the first `end_s` seconds, the profile repeated as often as needed.
pub(super) fn arrivals_within(
    piece_s: f64,
    rates: &[f64],
    burstiness: f64,
    end_s: f64,
    seed: u64,
) -> Vec<f64> {
    instants(piece_s, rates, burstiness, seed)
        .take_while(|&time| time <= end_s)
        .collect()
}

/// Arrival instants in seconds without end; none where nothing is ever sent.
fn instants(piece_s: f64, rates: &[f64], burstiness: f64, seed: u64) -> impl Iterator<Item = f64> {
    let mut rng = stream(seed, Purpose::Arrivals, 0);
    let law = Gamma::new(burstiness, 1.0 / burstiness).ok();
    let law = law.filter(|_| rates.iter().any(|&rate| rate > 0.0));
    let per_round: f64 = rates.iter().map(|rate| rate * piece_s).sum();
    let (mut piece, mut start_s, mut done) = (0, 0.0, 0.0);
    let mut target = 0.0;
    std::iter::from_fn(move || {
        target += law?.sample(&mut rng);
        // A gap of many rounds is skipped at once: a tiny shape makes gaps of any length.
        let rounds = ((target - done) / per_round).floor() - 1.0;
        if rounds > 0.0 {
            start_s += rounds * piece_s * rates.len() as f64;
            done += rounds * per_round;
        }
        while done + rates[piece] * piece_s < target {
            done += rates[piece] * piece_s;
            start_s += piece_s;
            piece = (piece + 1) % rates.len();
        }
        let within_s = match rates[piece] {
            0.0 => 0.0,
            rate => (target - done) / rate,
        };
        Some(start_s + within_s)
    })
}

/// `count` pairs of prompt and output lengths.
pub(super) fn lengths(
    input: &[f64],
    output: &[f64],
    correlation: f64,
    count: usize,
    seed: u64,
) -> Vec<(u32, u32)> {
    let mut rng = stream(seed, Purpose::Lengths, 0);
    let normal = Normal::standard();
    let other = (1.0 - correlation * correlation).sqrt();
    let tokens = |knots: &[f64], score: f64| interpolate(knots, normal.cdf(score)).round().max(1.0) as u32;
    (0..count)
        .map(|_| {
            let (x, e): (f64, f64) = (StandardNormal.sample(&mut rng), StandardNormal.sample(&mut rng));
            (tokens(input, x), tokens(output, correlation * x + other * e))
        })
        .collect()
}

/// A piecewise-linear quantile function at `p`, its knots at equally spaced probabilities.
pub(super) fn interpolate(knots: &[f64], p: f64) -> f64 {
    let rank = p.clamp(0.0, 1.0) * (knots.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    knots[low] + (knots[high] - knots[low]) * rank.fract()
}

/// Requests of these instants and lengths, their contents after `prefix`. No instant is beyond what a clock shows.
pub(super) fn requests(
    times: &[f64],
    lengths: &[(u32, u32)],
    prefix: Option<&ReuseLaw>,
    seed: u64,
) -> Vec<Request> {
    let mut reuse = prefix.map(|law| Reuse::new(law.clone(), seed));
    let request = |((index, &time), &(prompt_tokens, output)): ((u64, &f64), &(u32, u32))| Request {
        id: RequestId(index),
        arrival: Picos::from_seconds(time),
        client_queue_time: Picos::ZERO,
        prompt_tokens,
        output_tokens: output,
        max_tokens: output,
        priority: 0,
        prompt: reuse.as_mut().map_or(Prompt::Unique, |reuse| {
            reuse.prompt(RequestId(index), prompt_tokens)
        }),
        output_segment: SegmentId(OUTPUT_SEGMENTS | index),
        session: None,
        class: 0,
        ignore_eos: true,
        deadline: None,
    };
    (0u64..).zip(times).zip(lengths).map(request).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_the_profile_and_skip_idle_pieces() {
        let times = arrivals(10.0, &[20.0, 0.0, 5.0], 1.0, 25_000, 1);
        let in_piece = |piece: u64| {
            times
                .iter()
                .filter(|&&time| (time / 10.0) as u64 % 3 == piece)
                .count()
        };
        assert_eq!(in_piece(1), 0);
        let ratio = in_piece(0) as f64 / in_piece(2) as f64;
        assert!((3.8..4.2).contains(&ratio), "{ratio}");
        let rate = times.len() as f64 / times.last().unwrap();
        assert!((8.1..8.6).contains(&rate), "{rate}");
    }

    #[test]
    fn a_tiny_shape_does_not_hang() {
        let times = arrivals(1e-3, &[1e-3, 0.0], 0.01, 1_000, 1);
        assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
    }
}
