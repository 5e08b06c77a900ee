//! Which of a number of shared prefixes a request begins with.
//!
//! Drawn ones follow Zipf's law: prefix k (from 1) has a share in proportion to `k^−s`. Exact ones are a shuffled deck
//! (vLLM `prefix_repetition`): dealing a card without replacement is drawing from the counts that remain, so the deck
//! itself is never laid out.

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::rng::{Purpose, stream};

/// Draws the number of a prefix, from 0.
#[derive(Debug)]
pub(super) struct GroupSampler {
    law: Law,
    rng: ChaCha8Rng,
}

#[derive(Debug)]
enum Law {
    Uniform(u32),
    /// Sums of the shares up to and with each prefix.
    Zipf(Vec<f64>),
    Deck(Deck),
}

impl GroupSampler {
    /// `exact_shares_of` is the number of requests to deal out evenly.
    pub(super) fn new(count: u32, zipf: f64, exact_shares_of: Option<u64>, seed: u64) -> GroupSampler {
        assert!(count > 0, "there is at least one prefix to share");
        assert!(zipf.is_finite() && zipf >= 0.0, "a Zipf exponent is not negative");
        let law = match exact_shares_of {
            Some(requests) => Law::Deck(Deck::new(count, requests)),
            None if zipf == 0.0 => Law::Uniform(count),
            None => Law::Zipf(cumulated(count, zipf)),
        };
        GroupSampler {
            law,
            rng: stream(seed, Purpose::Prefixes, 0),
        }
    }

    pub(super) fn draw(&mut self) -> u32 {
        match &mut self.law {
            Law::Uniform(count) => self.rng.random_range(0..*count),
            Law::Zipf(up_to) => {
                let sum = up_to[up_to.len() - 1];
                let place = self.rng.random::<f64>() * sum;
                up_to
                    .partition_point(|share| *share <= place)
                    .min(up_to.len() - 1) as u32
            }
            Law::Deck(deck) => deck.deal(&mut self.rng),
        }
    }
}

fn cumulated(count: u32, zipf: f64) -> Vec<f64> {
    let shares = (1..=count).map(|k| f64::from(k).powf(-zipf));
    shares
        .scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        })
        .collect()
}

/// A shuffled deck with `requests / count` cards of each kind; the first kinds have one more where it does not divide.
#[derive(Debug)]
struct Deck {
    /// Fenwick tree of the cards that remain of each kind, from 1.
    tree: Vec<u64>,
    remaining: u64,
}

impl Deck {
    fn new(count: u32, requests: u64) -> Deck {
        let kinds = u64::from(count);
        let mut tree = vec![0; count as usize + 1];
        for kind in 1..tree.len() {
            tree[kind] += requests / kinds + u64::from((kind as u64) <= requests % kinds);
            let parent = kind + (kind & kind.wrapping_neg());
            if parent < tree.len() {
                tree[parent] += tree[kind];
            }
        }
        Deck {
            tree,
            remaining: requests,
        }
    }

    fn deal(&mut self, rng: &mut ChaCha8Rng) -> u32 {
        assert!(
            self.remaining > 0,
            "a deck has a card for each of num_prompts requests"
        );
        let mut place = rng.random_range(0..self.remaining);
        self.remaining -= 1;
        // Descend to the last kind before which at most `place` cards lie; the nodes passed over are those whose
        // range holds the card.
        let kinds = self.tree.len() - 1;
        let mut kind = 0;
        let mut step = if kinds.is_power_of_two() {
            kinds
        } else {
            kinds.next_power_of_two() / 2
        };
        while step > 0 {
            let next = kind + step;
            if next <= kinds && self.tree[next] <= place {
                place -= self.tree[next];
                kind = next;
            } else if next <= kinds {
                self.tree[next] -= 1;
            }
            step /= 2;
        }
        kind as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_deals_each_card_once_and_no_two_decks_alike() {
        for count in 1..=17 {
            let dealt = |seed| {
                let mut sampler = GroupSampler::new(count, 0.0, Some(50), seed);
                (0..50).map(|_| sampler.draw()).collect::<Vec<u32>>()
            };
            for kind in 0..count {
                let expected = 50 / count + u32::from(kind < 50 % count);
                let cards = dealt(1).into_iter().filter(|card| *card == kind).count();
                assert_eq!(cards, expected as usize, "kind {kind} of {count}");
            }
            assert!(count == 1 || dealt(1) != dealt(2));
        }
    }

    #[test]
    fn a_shuffled_deck_puts_each_kind_anywhere_alike() {
        // First card of a deck of 30 cards in 3 kinds: each kind with probability 1/3, standard deviation 26 in 3,000.
        let mut first = [0_i32; 3];
        (0..3000).for_each(|seed| first[GroupSampler::new(3, 0.0, Some(30), seed).draw() as usize] += 1);
        assert!(first.iter().all(|count| (count - 1000).abs() < 104), "{first:?}");
    }
}
