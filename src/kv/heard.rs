//! What several caches hold, as far as somebody has heard of it who listens to all of them: a router that follows KV events.
//!
//! Dynamo's router keeps one radix tree of blocks, each with the workers that have it (`KvIndexer`, `find_matches`), and
//! asks it once for a request, not every worker. So does this: a tree of texts, and for each run of tokens the caches that
//! hold its beginning and how much of it. It takes the changes that the caches write down (`journal.rs`) in once the
//! latency is over. A change costs O(runs on its text's way), a look-up in addition O(caches that hold something of it).
//!
//! What is cached of one text in one cache is a length, because a cached block's parent is cached: hence a length is all
//! that is kept, a stored run continues it and a removed one is its end.

use super::trie::{Place, TRUNK, Trie};
use super::{Journal, Whole};
use crate::units::Picos;
use crate::workload::Piece;

/// What a cache holds of a run.
#[derive(Clone, Copy, Debug)]
struct Holding {
    cache: u32,
    /// Tokens from the run's beginning on.
    tokens: u32,
    /// Runs right behind this one of which it holds something, too: texts may branch inside a block, which then is held
    /// more than once, and the tokens before the branch until the last of them goes.
    behind: u32,
}

/// Who holds something of a run, in order of the caches.
#[derive(Debug, Default)]
struct Holders(Vec<Holding>);

impl Holders {
    fn find(&self, cache: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&cache, |holding| holding.cache)
    }

    fn get_mut(&mut self, cache: u32) -> &mut Holding {
        let at = self.find(cache).expect("who holds a text holds its beginning");
        &mut self.0[at]
    }

    /// A cache holds at least so many tokens. Whether it held none before.
    fn hold(&mut self, cache: u32, tokens: u32) -> bool {
        match self.find(cache) {
            Ok(at) => {
                let held = &mut self.0[at].tokens;
                *held = tokens.max(*held);
                false
            }
            Err(at) => {
                let behind = 0;
                self.0.insert(
                    at,
                    Holding {
                        cache,
                        tokens,
                        behind,
                    },
                );
                true
            }
        }
    }

    fn leave(&mut self, cache: u32) {
        let at = self.find(cache).expect("only who holds something leaves it");
        self.0.remove(at);
    }

    /// Leaves what is held behind the first `tokens`, and returns what is held of these.
    fn part(&mut self, tokens: u32) -> Holders {
        let upper = self.0.iter().map(|holding| Holding {
            cache: holding.cache,
            tokens: holding.tokens.min(tokens),
            behind: u32::from(holding.tokens > tokens),
        });
        let upper = upper.collect();
        self.0.retain_mut(|holding| {
            holding.tokens = holding.tokens.saturating_sub(tokens);
            holding.tokens > 0
        });
        Holders(upper)
    }

    /// Adds what is held of the run above, of which this one is the only one behind.
    fn join(&mut self, upper: Holders) {
        let joined = upper.0.into_iter().map(|above| match self.find(above.cache) {
            Ok(at) => Holding {
                tokens: above.tokens + self.0[at].tokens,
                ..self.0[at]
            },
            Err(_) => above,
        });
        self.0 = joined.collect();
    }
}

/// The contents of several caches.
#[derive(Debug)]
pub(crate) struct Heard {
    trie: Trie<Holders>,
    /// Tokens of a block of each cache; 0 while it has not been listened to.
    blocks: Vec<u32>,
    /// Tokens that the last look-up found in each, in whole blocks.
    found: Vec<u32>,
}

impl Heard {
    /// So many caches of which nothing has been heard.
    pub(crate) fn new(caches: usize) -> Heard {
        Heard {
            trie: Trie::new(Holders::default()),
            blocks: vec![0; caches],
            found: vec![0; caches],
        }
    }

    /// Takes in what is heard of a cache by `now`.
    #[inline]
    pub(crate) fn listen(&mut self, cache: usize, journal: &Journal, now: Picos) {
        if journal.begins() {
            self.forget(cache as u32);
            self.blocks[cache] = journal.block();
        }
        journal.tell(now, |change| {
            let cache = cache as u32;
            if change.is_stored {
                self.stored(cache, &change.text, change.from, change.to);
            } else {
                self.removed(cache, &change.text, change.from, change.to);
            }
        });
    }

    /// Looks a prompt of `tokens` tokens up in all caches.
    pub(crate) fn look_up(&mut self, prompt: &[Piece], tokens: u32) {
        self.found.fill(0);
        let (mut place, mut whole) = (Place::START, Whole::NONE);
        // At least one token stays to be computed (V1-46, SG-34).
        while self.trie.step(&mut place, prompt, tokens - 1) {
            let run = self.trie.get(place.branch);
            for holding in &run.note.0 {
                let cache = holding.cache as usize;
                let (tokens, size) = (place.tokens.min(run.from + holding.tokens), self.blocks[cache]);
                self.found[cache] = whole.blocks(tokens, size) * size;
            }
        }
    }

    /// Tokens that the last look-up found in each cache, in whole blocks.
    #[inline]
    pub(crate) fn found(&self) -> &[u32] {
        &self.found
    }

    /// Somebody else has found so many in a cache that tells nothing.
    pub(crate) fn see(&mut self, cache: usize, tokens: u32) {
        self.found[cache] = tokens;
    }

    /// Runs that somebody holds.
    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.trie.iter().count() - 1
    }

    /// The tokens of `text` from `from` on are cached now, and were not.
    fn stored(&mut self, cache: u32, text: &[Piece], from: u32, to: u32) {
        let mut place = Place::START;
        while self.trie.step(&mut place, text, to) {
            if place.tokens > from {
                let held = place.tokens - self.trie.get(place.branch).from;
                self.hold(place.branch, cache, held);
            }
        }
        if place.tokens == to {
            return;
        }
        let run = self.trie.get(place.branch);
        if place.tokens < run.end() {
            place.branch = self.cut(place.branch, place.tokens - run.from);
        }
        let run = self.trie.get(place.branch);
        if run.is_leaf() && place.branch != TRUNK {
            let held = to - run.from;
            self.trie.lengthen(place, text, to);
            self.hold(place.branch, cache, held);
        } else {
            let leaf = self.trie.grow(place, text, to, Holders::default());
            self.hold(leaf, cache, to - place.tokens);
        }
    }

    /// A cache holds at least so many tokens of a run.
    fn hold(&mut self, run: usize, cache: u32, tokens: u32) {
        let is_new = self.trie.note_mut(run).hold(cache, tokens);
        let above = self.trie.get(run).parent;
        if is_new && above != TRUNK {
            self.trie.note_mut(above).get_mut(cache).behind += 1;
        }
    }

    /// Cuts a run after its first `tokens`, and drops the rest if nobody holds it any more.
    fn cut(&mut self, run: usize, tokens: u32) -> usize {
        let upper = self.trie.cut(run, tokens, |holders| holders.part(tokens));
        if self.trie.get(run).note.0.is_empty() {
            self.trie.remove(run);
        }
        upper
    }

    /// The tokens of `text` from `from` on are not cached any more.
    fn removed(&mut self, cache: u32, text: &[Piece], from: u32, to: u32) {
        let mut place = Place::START;
        while self.trie.step(&mut place, text, to) {}
        debug_assert_eq!(place.tokens, to, "only what is cached is removed");
        let mut run = place.branch;
        while self.trie.get(run).end() > from {
            let (begin, above) = (self.trie.get(run).from, self.trie.get(run).parent);
            let holding = self.trie.note_mut(run).get_mut(cache);
            if holding.behind > 0 {
                break;
            }
            if from > begin {
                holding.tokens = from - begin;
                break;
            }
            self.trie.note_mut(run).leave(cache);
            if above != TRUNK {
                self.trie.note_mut(above).get_mut(cache).behind -= 1;
            }
            run = above;
        }
        self.prune(place.branch);
    }

    /// Drops a run and those above it that nobody holds any more, and joins what then does not branch any more.
    fn prune(&mut self, mut run: usize) {
        while run != TRUNK && self.trie.get(run).note.0.is_empty() && self.trie.get(run).is_leaf() {
            run = self.trie.remove(run);
        }
        if run != TRUNK && self.trie.get(run).only_child().is_some() {
            self.trie.join(run, |upper, deep| deep.join(upper));
        }
    }

    /// A cache holds nothing any more.
    fn forget(&mut self, cache: u32) {
        let held = self.trie.iter();
        let held = held.filter(|(_, run)| run.note.find(cache).is_ok());
        let held: Vec<usize> = held.map(|(run, _)| run).collect();
        for &run in &held {
            self.trie.note_mut(run).leave(cache);
        }
        for run in held {
            // It may have gone with one below it.
            if self.trie.contains(run) && self.trie.get(run).is_leaf() {
                self.prune(run);
            }
        }
    }
}

#[cfg(test)]
mod tests;
