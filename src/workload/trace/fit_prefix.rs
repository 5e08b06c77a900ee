//! The part of a fit that stands for shared prefixes: how much, how often and how late prompts repeat earlier ones.
//!
//! Lengths are left alone: what is shared is part of them. Kept are what nearly all prompts begin with, the share of
//! a prompt that is repeated, and, for each octave of distances, the share of all prompt tokens that was last used so many
//! requests before. What a cache of any size finds under least recently used follows from these: a prefix is still there if
//! what came since fits in beside it.
//!
//! A request that looks so far back may find no prompt that is long enough, or none at all so near the start. So the
//! probabilities are fitted in rounds: those of an octave from which the law's own requests find too little are raised.

use rand::RngExt;
use rustc_hash::FxHashMap;

use super::fit::three_figures;
use super::twin;
use crate::ids::{RequestId, SegmentId};
use crate::rng::{Purpose, stream};
use crate::workload::reuse::{OCTAVES_MAX, Reuse, octave};
use crate::workload::{Prompt, Request, ReuseLaw, segments};

/// Requests from which the hits of a law are told, if a trace has fewer: in several runs of as many as it has.
const PROBE: usize = 20_000;
/// Requests of a trace that are looked at: a run without an end would take as long to fit.
const LOOKED_AT: usize = 50_000;
const ROUNDS: usize = 20;
/// How far a round goes: in full, a rare octave would be raised again before its requests were counted.
const DAMPING: f64 = 0.5;
/// A round's largest step.
const STEP_MAX: f64 = 1.5;
/// A share of all tokens that is noise.
const NOISE: f64 = 0.002;

/// Share of all prompt tokens that was last used 1, 2 to 3, 4 to 7, … requests before.
type Octaves = [f64; OCTAVES_MAX];

/// The law whose requests find as many of their tokens as the trace's, after as many requests.
pub(super) fn fit_prefix(requests: &[Request], total: &[f64]) -> Option<ReuseLaw> {
    let requests = &requests[..requests.len().min(LOOKED_AT)];
    let common = common(requests);
    let seen = observe(
        requests
            .iter()
            .map(|request| (&request.prompt, request.prompt_tokens)),
        |segment| common.contains_key(&segment),
    );
    let system_len = system_len(requests, &common);
    if seen.continued == 0 {
        let law = law(system_len, 1.0, &[0.0; OCTAVES_MAX]);
        return (system_len > 0).then_some(law);
    }
    let mut share = seen.share.clamp(0.01, 1.0);
    let begun = seen.continued as f64 / requests.len() as f64;
    let found: f64 = seen.octaves.iter().sum();
    let mut tried = seen.octaves.map(|tokens| begun * tokens / found);
    let mut best = (f64::INFINITY, law(system_len, share, &tried));
    for round in 0..ROUNDS {
        let law = law(system_len, share, &tried);
        let drawn = probe(&law, total, requests.len(), round as u64);
        let off = distance(&seen.octaves, &drawn);
        if off < best.0 {
            best = (off, law);
        }
        share = (share * correct(&mut tried, &seen.octaves, &drawn)).min(1.0);
    }
    Some(best.1)
}

/// A law of which so many of all requests continue one so far back.
fn law(system_len: u32, share: f64, continued: &Octaves) -> ReuseLaw {
    let probability: f64 = continued.iter().sum();
    let used = continued
        .iter()
        .rposition(|part| *part > 0.0)
        .map_or(1, |last| last + 1);
    let distances = continued[..used]
        .iter()
        .map(|part| three_figures(part / probability));
    ReuseLaw {
        system_len,
        probability: three_figures(probability).min(1.0),
        share: three_figures(share),
        distances: match probability > 0.0 {
            true => distances.collect(),
            false => [1.0].into(),
        },
    }
}

/// Raises what found too little and lowers what found too much. Together they are no more than all requests: by how much they
/// would be more is returned, and must be found by a larger share of each.
fn correct(continued: &mut Octaves, wanted: &Octaves, found: &Octaves) -> f64 {
    for ((part, wanted), found) in continued.iter_mut().zip(wanted).zip(found) {
        let step = ((wanted + NOISE) / (found + NOISE)).powf(DAMPING);
        *part *= step.clamp(1.0 / STEP_MAX, STEP_MAX);
    }
    let excess = continued.iter().sum::<f64>().max(1.0);
    continued.iter_mut().for_each(|part| *part /= excess);
    excess
}

/// By how much the shares found within some distance differ at most.
fn distance(a: &Octaves, b: &Octaves) -> f64 {
    let (mut sum, mut most) = (0.0, 0.0f64);
    for (a, b) in a.iter().zip(b) {
        sum += a - b;
        most = most.max(sum.abs());
    }
    most
}

/// What requests of `law` with lengths of quantiles `total` find, in runs of `count` requests.
fn probe(law: &ReuseLaw, total: &[f64], count: usize, seed: u64) -> Octaves {
    let runs = PROBE.div_ceil(count) as u64;
    let mut mean = [0.0; OCTAVES_MAX];
    for run in 0..runs {
        let mut reuse = Reuse::new(law.clone(), seed * runs + run);
        let mut rng = stream(seed * runs + run, Purpose::Lengths, 0);
        let prompts: Vec<(Prompt, u32)> = (0..count as u64)
            .map(|index| {
                let tokens = twin::interpolate(total, rng.random()).round().max(1.0) as u32;
                (reuse.prompt(RequestId(index), tokens), tokens)
            })
            .collect();
        let prompts = prompts.iter().map(|(prompt, tokens)| (prompt, *tokens));
        let seen = observe(prompts, |segment| segment == segments::system());
        for (mean, found) in mean.iter_mut().zip(seen.octaves) {
            *mean += found / runs as f64;
        }
    }
    mean
}

/// What prompts tell about sharing.
struct Seen {
    octaves: Octaves,
    /// Requests that continue an earlier one.
    continued: usize,
    /// The known part of their tokens.
    share: f64,
}

/// Reads prompts with their lengths in the order in which they came. Texts that `is_common` are no reuse.
fn observe<'a>(
    prompts: impl Iterator<Item = (&'a Prompt, u32)>,
    is_common: impl Fn(SegmentId) -> bool,
) -> Seen {
    let mut last: FxHashMap<SegmentId, u64> = FxHashMap::default();
    let (mut octaves, mut all, mut continued) = ([0.0; OCTAVES_MAX], 0.0, 0);
    let (mut known, mut of) = (0.0, 0.0);
    for (index, (prompt, tokens)) in (0u64..).zip(prompts) {
        let pieces = prompt.shared();
        let (mut found, mut repeated) = (0.0, false);
        for piece in pieces {
            let Some(before) = last.get(&piece.segment) else {
                break;
            };
            found += f64::from(piece.tokens);
            if !is_common(piece.segment) {
                octaves[octave(index - before)] += f64::from(piece.tokens);
                repeated = true;
            }
        }
        if repeated {
            (known, of, continued) = (known + found, of + f64::from(tokens), continued + 1);
        }
        all += f64::from(tokens);
        last.extend(pieces.iter().map(|piece| (piece.segment, index)));
    }
    Seen {
        octaves: octaves.map(|found| if all > 0.0 { found / all } else { 0.0 }),
        continued,
        share: if of > 0.0 { known / of } else { 0.0 },
    }
}

/// Texts that most requests hold, such as a system prompt.
fn common(requests: &[Request]) -> FxHashMap<SegmentId, usize> {
    let mut holders: FxHashMap<SegmentId, usize> = FxHashMap::default();
    for piece in requests.iter().flat_map(|request| request.prompt.shared()) {
        *holders.entry(piece.segment).or_default() += 1;
    }
    holders.retain(|_, holders| 2 * *holders > requests.len());
    holders
}

/// Tokens of the longest beginning that is common.
fn system_len(requests: &[Request], common: &FxHashMap<SegmentId, usize>) -> u32 {
    let beginning = |request: &Request| -> u32 {
        request
            .prompt
            .shared()
            .iter()
            .take_while(|piece| common.contains_key(&piece.segment))
            .map(|piece| piece.tokens)
            .sum()
    };
    requests.iter().map(beginning).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts of a law, as a trace would tell them.
    fn drawn(law: &ReuseLaw, total: &[f64], count: usize) -> Vec<Request> {
        let mut rng = stream(9, Purpose::Lengths, 0);
        let lengths: Vec<(u32, u32)> = (0..count)
            .map(|_| (twin::interpolate(total, rng.random()).round().max(1.0) as u32, 8))
            .collect();
        twin::requests(&vec![0.0; count], &lengths, Some(law), 9)
    }

    fn octaves(requests: &[Request]) -> Octaves {
        let prompts = requests
            .iter()
            .map(|request| (&request.prompt, request.prompt_tokens));
        observe(prompts, |segment| segment == segments::system()).octaves
    }

    /// The law fitted to requests of a law has others that find as much as late.
    fn check(law: &ReuseLaw) {
        let total = [100.0, 400.0, 1_000.0, 2_000.0, 4_000.0, 16_000.0];
        let requests = drawn(law, &total, 4_000);
        let fitted = fit_prefix(&requests, &total).unwrap();
        assert_eq!(fitted.system_len, law.system_len);
        let off = distance(&octaves(&requests), &octaves(&drawn(&fitted, &total, 4_000)));
        assert!(off < 0.025, "{off}: {fitted:?}");
    }

    #[test]
    fn what_is_found_after_how_many_requests_is_kept() {
        let law = |probability, share, distances: &[f64]| ReuseLaw {
            system_len: 64,
            probability,
            share,
            distances: distances.into(),
        };
        check(&law(0.5, 0.8, &[0.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.4, 0.3]));
        check(&law(0.7, 0.95, &[0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.7]));
    }

    #[test]
    fn a_trace_that_shares_a_system_prompt_alone_continues_nothing() {
        let law = ReuseLaw {
            system_len: 64,
            probability: 0.0,
            share: 1.0,
            distances: [1.0].into(),
        };
        let total = [100.0, 1_000.0];
        assert_eq!(fit_prefix(&drawn(&law, &total, 500), &total), Some(law));
    }
}
