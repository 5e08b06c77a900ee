//! The part of a fit that stands for shared prefixes: how much, how often and how late prompts repeat earlier ones.
//!
//! Lengths are left alone: what is shared is part of them. Kept are what nearly all prompts begin with, the share of
//! a prompt that is repeated, the distances back, and, by choice of the probability, the share of all prompt tokens that
//! an endless cache finds.

use rand::RngExt;
use rustc_hash::FxHashMap;

use super::fit::three_figures;
use super::twin;
use crate::ids::RequestId;
use crate::rng::{Purpose, stream};
use crate::workload::reuse::Reuse;
use crate::workload::{Prompt, Request, ReuseLaw};

/// Requests from which the hits of a law are told.
const PROBE: u64 = 20_000;
/// Half the distance of a normal law's quartiles, in standard deviations.
const QUARTILE: f64 = 0.6745;

/// The law whose requests find `share` of their prompt tokens in an endless cache.
pub(super) fn fit_prefix(requests: &[Request], share: f64, total: &[f64]) -> Option<ReuseLaw> {
    if share <= 0.0 {
        return None;
    }
    let mut seen = observe(requests);
    if seen.distances.is_empty() {
        seen.distances.push(1.0);
        seen.shares.push(1.0);
    }
    let at = |values: &[f64], p: f64| values[(p * (values.len() - 1) as f64).round() as usize];
    let spread = (at(&seen.distances, 0.75) / at(&seen.distances, 0.25)).ln();
    let mut law = ReuseLaw {
        system_len: seen.system_len,
        probability: 1.0,
        share: three_figures(at(&seen.shares, 0.5)).clamp(0.01, 1.0),
        distance_median: three_figures(at(&seen.distances, 0.5)).clamp(1.0, 1e5),
        distance_sigma: three_figures(spread / (2.0 * QUARTILE)).min(5.0),
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..14 {
        law.probability = f64::midpoint(low, high);
        if hits(law, total) < share {
            low = law.probability;
        } else {
            high = law.probability;
        }
    }
    law.probability = three_figures(law.probability);
    Some(law)
}

/// Share of prompt tokens that an endless cache finds among requests of `law` with lengths of quantiles `total`.
fn hits(law: ReuseLaw, total: &[f64]) -> f64 {
    let mut reuse = Reuse::new(law, 0);
    let mut rng = stream(0, Purpose::Lengths, 0);
    let mut known: FxHashMap<u64, u32> = FxHashMap::default();
    let (mut found, mut all) = (0.0, 0.0);
    for index in 0..PROBE {
        let tokens = twin::interpolate(total, rng.random()).round().max(1.0) as u32;
        let Prompt::Pieces(pieces) = reuse.prompt(RequestId(index), tokens) else {
            continue;
        };
        let mut cached = 0;
        for piece in &pieces {
            let end = known.entry(piece.segment.0).or_default();
            if cached == piece.start {
                cached = cached.max((piece.start + piece.tokens).min(*end));
            }
            *end = (*end).max(piece.start + piece.tokens);
        }
        found += f64::from(cached);
        all += f64::from(tokens);
    }
    found / all
}

/// What a trace tells about sharing.
struct Seen {
    /// Tokens with which most prompts begin.
    system_len: u32,
    /// Requests back to the last holder of a prompt's longest known beginning, ascending.
    distances: Vec<f64>,
    /// Known part of those prompts, ascending.
    shares: Vec<f64>,
}

/// Reads a trace; beginnings that most requests hold (a system prompt) are no reuse.
fn observe(requests: &[Request]) -> Seen {
    let mut uses: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
    let (mut distances, mut shares) = (Vec::new(), Vec::new());
    for (index, request) in requests.iter().enumerate() {
        let Prompt::Pieces(pieces) = &request.prompt else {
            continue;
        };
        let known = pieces.iter().map_while(|piece| uses.get(&piece.segment.0));
        let (count, last) = known.fold((0, None), |(count, _), seen| (count + 1, Some(*seen)));
        if let Some((last, _)) = last.filter(|(_, times)| 2 * times < index) {
            let tokens: u32 = pieces[..count].iter().map(|piece| piece.tokens).sum();
            distances.push((index - last) as f64);
            shares.push(f64::from(tokens) / f64::from(request.prompt_tokens));
        }
        for piece in pieces {
            let entry = uses.entry(piece.segment.0).or_default();
            *entry = (index, entry.1 + 1);
        }
    }
    let is_common = |segment: u64| {
        uses.get(&segment)
            .is_some_and(|(_, times)| 2 * times > requests.len())
    };
    let system = |request: &Request| match &request.prompt {
        Prompt::Pieces(pieces) => pieces
            .iter()
            .take_while(|piece| is_common(piece.segment.0))
            .map(|piece| piece.tokens)
            .sum(),
        Prompt::Unique => 0,
    };
    let system_len = requests.iter().map(system).max().unwrap_or(0);
    distances.sort_by(f64::total_cmp);
    shares.sort_by(f64::total_cmp);
    Seen {
        system_len,
        distances,
        shares,
    }
}
