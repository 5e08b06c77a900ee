//! Prompts that begin as an earlier one did, the common part taken out of their own length.
//!
//! Every prompt begins with the system prompt. With probability `p` it goes on with a document that an earlier request
//! held, up to a share of its length; else its rest is a new document. Of [`CANDIDATES`] earlier requests, drawn from a
//! lognormal law of distances, it continues the one whose document fits best: the turns of a conversation are alike in
//! length, so long prompts must not be continuing short ones. Lengths stay those of the length law, to the token.
//!
//! Left out: that conversations grow from turn to turn. Memory is proportional to the longest distance.

use std::collections::VecDeque;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::request::{Piece, Prompt};
use super::segments;
use crate::ids::RequestId;
use crate::rng::{Purpose, stream};

/// Earlier requests among which the best fit is continued.
const CANDIDATES: u32 = 16;
/// Longest distance that is remembered.
const DISTANCE_MAX: usize = 1 << 20;

/// How much, how often and how late prompts repeat earlier ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReuseLaw {
    /// Tokens with which every prompt begins.
    pub system_len: u32,
    /// Probability that a request continues an earlier document.
    pub probability: f64,
    /// Most of a prompt, system prompt included, that may be an earlier one's; in (0, 1].
    pub share: f64,
    /// Median number of requests back to the one that is continued.
    pub distance_median: f64,
    /// Standard deviation of that number's logarithm.
    pub distance_sigma: f64,
}

/// A document and how much of it a request held.
#[derive(Clone, Copy, Debug)]
struct Held {
    document: u64,
    tokens: u32,
}

/// Gives prompts their contents.
#[derive(Debug)]
pub(super) struct Reuse {
    law: ReuseLaw,
    /// The last requests, newest first.
    recent: VecDeque<Held>,
    rng: ChaCha8Rng,
}

impl Reuse {
    pub(super) fn new(law: ReuseLaw, seed: u64) -> Reuse {
        Reuse {
            law,
            recent: VecDeque::new(),
            rng: stream(seed, Purpose::Prefixes, 0),
        }
    }

    /// Contents of request `id`, whose prompt has `prompt_tokens`.
    pub(super) fn prompt(&mut self, id: RequestId, prompt_tokens: u32) -> Prompt {
        let system = self.law.system_len.min(prompt_tokens - 1);
        let continued = self.rng.random::<f64>() < self.law.probability;
        let target = ((self.law.share * f64::from(prompt_tokens)) as u32).min(prompt_tokens - 1);
        let found = if continued && target > system {
            self.best_fit(target).filter(|held| held.tokens > system)
        } else {
            None
        };
        let held = found.map_or(
            Held {
                document: id.0,
                tokens: prompt_tokens,
            },
            |found| Held {
                tokens: target.min(found.tokens),
                ..found
            },
        );
        self.remember(held);
        let piece = |segment, start: u32, end: u32| Piece {
            segment,
            start,
            tokens: end - start,
        };
        let pieces = [
            piece(segments::system(), 0, system),
            piece(segments::document(held.document), system, held.tokens),
            piece(segments::own(id), held.tokens, prompt_tokens),
        ];
        Prompt::Pieces(pieces.into_iter().filter(|piece| piece.tokens > 0).collect())
    }

    /// The shortest document that reaches `target`, or the longest, of some earlier requests.
    fn best_fit(&mut self, target: u32) -> Option<Held> {
        let ReuseLaw {
            distance_median,
            distance_sigma,
            ..
        } = self.law;
        let mut best: Option<Held> = None;
        for _ in 0..CANDIDATES {
            let normal: f64 = StandardNormal.sample(&mut self.rng);
            let distance = (distance_median * (distance_sigma * normal).exp())
                .round()
                .max(1.0);
            let Some(&held) = self.recent.get(distance as usize - 1) else {
                continue;
            };
            let fits_better = best.is_none_or(|best| match (held.tokens >= target, best.tokens >= target) {
                (true, true) => held.tokens < best.tokens,
                (reaches, false) => reaches || held.tokens > best.tokens,
                (false, true) => false,
            });
            if fits_better {
                best = Some(held);
            }
        }
        best
    }

    fn remember(&mut self, held: Held) {
        // Distances further out than four standard deviations practically do not occur.
        let farthest = self.law.distance_median * (4.0 * self.law.distance_sigma).exp();
        self.recent.push_front(held);
        self.recent.truncate((farthest as usize).clamp(1, DISTANCE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAW: ReuseLaw = ReuseLaw {
        system_len: 64,
        probability: 0.5,
        share: 0.9,
        distance_median: 20.0,
        distance_sigma: 1.0,
    };

    #[test]
    fn pieces_add_up_to_the_prompt_and_lie_where_they_begin() {
        let mut reuse = Reuse::new(LAW, 3);
        for index in 0..2000 {
            let tokens = 1 + (index * 37) % 900;
            let Prompt::Pieces(pieces) = reuse.prompt(RequestId(u64::from(index)), tokens) else {
                panic!("a prompt has contents");
            };
            let mut at = 0;
            for piece in &pieces {
                assert_eq!(piece.start, at);
                at += piece.tokens;
            }
            assert_eq!(at, tokens);
        }
    }

    #[test]
    fn equal_lengths_are_reused_with_the_probability_and_to_the_share() {
        let mut reuse = Reuse::new(LAW, 3);
        let shared = (0..20_000u64).filter(|&index| {
            let Prompt::Pieces(pieces) = reuse.prompt(RequestId(index), 1000) else {
                panic!("a prompt has contents");
            };
            let continues = pieces[1].segment != segments::document(index);
            if continues {
                assert!(pieces[1].tokens <= 900 - 64);
            }
            continues
        });
        let share = shared.count() as f64 / 20_000.0;
        // Standard deviation 0.0035; the first requests find nobody.
        assert!((share - 0.5).abs() < 0.015, "{share}");
    }
}
