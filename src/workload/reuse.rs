//! Prompts that begin as an earlier one did, the common part taken out of their own length.
//!
//! Every prompt begins with the system prompt. With probability `p` it goes on as an earlier prompt did, up to a share of
//! its length; all else is new. How far back that prompt lies is drawn by octaves (1, 2 to 3, 4 to 7, … requests), and of
//! [`CANDIDATES`] prompts there the one that fits best is continued: the turns of a conversation are alike in length, so
//! long prompts must not be continuing short ones. Lengths stay those of the length law, to the token.
//!
//! A prompt is continued once; after that it is its continuation that may be. So what is shared was last used as many
//! requests ago as was drawn, and what a cache with room for so many requests finds follows from the law: it is the LRU stack
//! model (Spirn, "Program Behavior: Models and Measurements", 1977) with distances in requests.
//!
//! Left out: that two prompts branch off from one. Memory is proportional to the longest distance.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use statrs::distribution::{ContinuousCDF, Normal};

use super::request::{Piece, Prompt};
use super::segments;
use crate::ids::RequestId;
use crate::rng::{Purpose, stream};

/// Earlier prompts among which the best fit is continued.
const CANDIDATES: u64 = 32;
/// Octaves of distances that are remembered: about a million requests.
pub(crate) const OCTAVES_MAX: usize = 20;

/// How much, how often and how late prompts repeat earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseLaw {
    /// Tokens with which every prompt begins.
    pub system_len: u32,
    /// Probability that a request continues an earlier prompt.
    pub probability: f64,
    /// Most of a prompt, system prompt included, that may be an earlier one's; in (0, 1].
    pub share: f64,
    /// Of the requests that continue one, how many go back 1, 2 to 3, 4 to 7, … requests: relative to their sum, which is
    /// above 0; at most 20.
    pub distances: Arc<[f64]>,
}

impl ReuseLaw {
    /// The octaves of a lognormal law of distances.
    pub(crate) fn lognormal_distances(median: f64, sigma: f64) -> Arc<[f64]> {
        let normal = Normal::standard();
        let below = |distance: f64| {
            let off = (distance / median).ln();
            if sigma > 0.0 {
                normal.cdf(off / sigma)
            } else {
                f64::from(off > 0.0)
            }
        };
        // A distance is the nearest whole number, 1 at least and no longer than is remembered.
        let ends: Vec<f64> = (0..OCTAVES_MAX as i32)
            .map(|octave| match octave + 1 {
                last if last == OCTAVES_MAX as i32 => 1.0,
                next => below(2f64.powi(next) - 0.5),
            })
            .collect();
        let starts = std::iter::once(0.0).chain(ends.iter().copied());
        let octaves: Vec<f64> = ends.iter().zip(starts).map(|(end, start)| end - start).collect();
        let used = octaves
            .iter()
            .rposition(|share| *share > 0.0)
            .map_or(1, |last| last + 1);
        octaves[..used].into()
    }
}

/// The octave of a distance, from 0.
pub(super) fn octave(distance: u64) -> usize {
    assert!(distance > 0, "a request comes after those that it continues");
    (distance.ilog2() as usize).min(OCTAVES_MAX - 1)
}

/// A request's prompt, until another continues it.
#[derive(Debug)]
struct Held {
    pieces: Vec<Piece>,
    tokens: u32,
    /// The number of the first request from here on that nobody continued, or of one before it.
    open: u64,
}

/// Gives prompts their contents.
#[derive(Debug)]
pub(super) struct Reuse {
    law: ReuseLaw,
    /// Sums of the shares up to and with each octave.
    up_to: Vec<f64>,
    /// The last requests, oldest first; the newest is always open.
    recent: VecDeque<Held>,
    /// Requests before the oldest.
    forgotten: u64,
    rng: ChaCha8Rng,
}

impl Reuse {
    pub(super) fn new(law: ReuseLaw, seed: u64) -> Reuse {
        let octaves = law.distances.len();
        assert!(
            (1..=OCTAVES_MAX).contains(&octaves),
            "distances have 1 to 20 octaves"
        );
        let sums = law.distances.iter().scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Reuse {
            up_to: sums.collect(),
            law,
            recent: VecDeque::new(),
            forgotten: 0,
            rng: stream(seed, Purpose::Prefixes, 0),
        }
    }

    /// Contents of request `id`, whose prompt has `prompt_tokens`.
    pub(super) fn prompt(&mut self, id: RequestId, prompt_tokens: u32) -> Prompt {
        let system = self.law.system_len.min(prompt_tokens - 1);
        let continued = self.rng.random::<f64>() < self.law.probability;
        let target = ((self.law.share * f64::from(prompt_tokens)) as u32).min(prompt_tokens - 1);
        let found = if continued && target > system {
            self.best_fit(target)
                .filter(|&number| self.held(number).tokens > system)
        } else {
            None
        };
        let (mut pieces, known) = match found {
            Some(number) => self.continued(number, target),
            None if system > 0 => (vec![piece(segments::system(), 0, system)], system),
            None => (Vec::new(), 0),
        };
        pieces.push(piece(segments::own(id), known, prompt_tokens));
        self.remember(pieces.clone(), prompt_tokens);
        Prompt::Pieces(pieces.into())
    }

    /// The shortest prompt that reaches `target`, or the longest, of some about as far back as is drawn.
    fn best_fit(&mut self, target: u32) -> Option<u64> {
        let drawn = self.rng.random::<f64>() * self.up_to[self.up_to.len() - 1];
        let octave = self
            .up_to
            .partition_point(|sum| *sum <= drawn)
            .min(self.up_to.len() - 1);
        let nearest = 1u64 << octave;
        let sent = self.forgotten + self.recent.len() as u64;
        let mut best: Option<(u64, u32)> = None;
        for candidate in 0..CANDIDATES.min(nearest) {
            let further = match nearest <= CANDIDATES {
                true => candidate,
                false => self.rng.random_range(0..nearest),
            };
            let Some(number) = sent
                .checked_sub(nearest + further)
                .filter(|&number| number >= self.forgotten)
            else {
                continue;
            };
            let number = self.open_from(number);
            let tokens = self.held(number).tokens;
            let fits_better = best.is_none_or(|(_, best)| match (tokens >= target, best >= target) {
                (true, true) => tokens < best,
                (reaches, false) => reaches || tokens > best,
                (false, true) => false,
            });
            if fits_better {
                best = Some((number, tokens));
            }
        }
        best.map(|(number, _)| number)
    }

    fn held(&mut self, number: u64) -> &mut Held {
        &mut self.recent[(number - self.forgotten) as usize]
    }

    /// The first request from `number` on that nobody continued. Halves the way there for whoever asks next.
    fn open_from(&mut self, mut number: u64) -> u64 {
        loop {
            let next = self.held(number).open;
            if next == number {
                return number;
            }
            let further = self.held(next).open;
            self.held(number).open = further;
            number = next;
        }
    }

    /// The beginning of request `number`'s prompt, up to `target` tokens, and how many they are. It is continued by nobody
    /// else.
    fn continued(&mut self, number: u64, target: u32) -> (Vec<Piece>, u32) {
        let held = self.held(number);
        held.open = number + 1;
        let known = target.min(held.tokens);
        let mut pieces = std::mem::take(&mut held.pieces);
        pieces.retain(|piece| piece.start < known);
        if let Some(last) = pieces.last_mut() {
            last.tokens = last.tokens.min(known - last.start);
        }
        (pieces, known)
    }

    fn remember(&mut self, pieces: Vec<Piece>, tokens: u32) {
        self.recent.push_back(Held {
            pieces,
            tokens,
            open: self.forgotten + self.recent.len() as u64,
        });
        if self.recent.len() >= 1 << self.up_to.len() {
            self.recent.pop_front();
            self.forgotten += 1;
        }
    }
}

/// A text's tokens from its place in the prompt on.
fn piece(segment: crate::ids::SegmentId, start: u32, end: u32) -> Piece {
    Piece {
        segment,
        start,
        tokens: end - start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(distances: &[f64]) -> ReuseLaw {
        ReuseLaw {
            system_len: 64,
            probability: 0.5,
            share: 0.9,
            distances: distances.into(),
        }
    }

    fn pieces(reuse: &mut Reuse, index: u64, tokens: u32) -> Vec<Piece> {
        match reuse.prompt(RequestId(index), tokens) {
            Prompt::Pieces(pieces) => pieces.into(),
            Prompt::Unique => panic!("a prompt has contents"),
        }
    }

    #[test]
    fn pieces_add_up_to_the_prompt_and_lie_where_they_begin() {
        let mut reuse = Reuse::new(law(&[1.0, 2.0, 0.0, 4.0, 3.0, 1.0]), 3);
        for index in 0..2000 {
            let tokens = 1 + (index * 37) % 900;
            let mut at = 0;
            for piece in pieces(&mut reuse, u64::from(index), tokens) {
                assert!(piece.start == at && piece.tokens > 0);
                at += piece.tokens;
            }
            assert_eq!(at, tokens);
        }
    }

    #[test]
    fn equal_lengths_are_reused_with_the_probability_to_the_share_and_after_the_distance() {
        let mut reuse = Reuse::new(law(&[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 3.0]), 3);
        let mut used: std::collections::HashMap<u64, u64> = std::collections::HashMap::new();
        let mut back = [0u32; OCTAVES_MAX];
        for index in 0..20_000u64 {
            let pieces = pieces(&mut reuse, index, 1000);
            let shared = &pieces[1..pieces.len() - 1];
            if let Some(piece) = shared.last() {
                assert!(piece.start + piece.tokens == 900);
                back[octave(index - used[&piece.segment.0])] += 1;
            }
            used.extend(pieces.iter().map(|piece| (piece.segment.0, index)));
        }
        let share = f64::from(back.iter().sum::<u32>()) / 20_000.0;
        // Standard deviation 0.0035; the first requests find nobody.
        assert!((share - 0.5).abs() < 0.015, "{share}");
        // What was continued itself stands for the next one that was not, which may lie an octave nearer.
        let of = |octave: usize| f64::from(back[octave]) / (20_000.0 * share);
        assert!(
            (of(4) - 0.25).abs() < 0.03 && (of(6) - 0.75).abs() < 0.03,
            "{back:?}"
        );
    }

    #[test]
    fn a_prompt_that_grows_is_continued_with_all_that_was_added() {
        let mut all = law(&[1.0]);
        (all.probability, all.share) = (1.0, 1.0);
        let mut reuse = Reuse::new(all, 0);
        let segments = |pieces: &[Piece]| pieces.iter().map(|piece| piece.segment).collect::<Vec<_>>();
        let grown: Vec<Vec<Piece>> = (0..4)
            .map(|turn| pieces(&mut reuse, turn, 100 * (turn as u32 + 1)))
            .collect();
        for pair in grown.windows(2) {
            let (before, after) = (segments(&pair[0]), segments(&pair[1]));
            assert_eq!(after[..before.len()], before);
            assert_eq!(after.len(), before.len() + 1);
        }
    }

    #[test]
    fn octaves_of_a_lognormal_law_are_its_probabilities() {
        let octaves = ReuseLaw::lognormal_distances(20.0, 1.0);
        assert!((octaves.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        // ln(16/20) = −0.22 and ln(32/20) = 0.47: 41 % and 68 % lie below.
        assert!((octaves[4] - 0.27).abs() < 0.02, "{octaves:?}");
        assert_eq!(ReuseLaw::lognormal_distances(1.0, 0.0)[..], [1.0]);
        assert_eq!(ReuseLaw::lognormal_distances(5.0, 0.0)[..], [0.0, 0.0, 1.0]);
        assert_eq!(ReuseLaw::lognormal_distances(1e5, 5.0).len(), OCTAVES_MAX);
    }
}
