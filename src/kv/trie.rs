//! A tree of texts: what several texts have in common is kept once, with something of the user's beside each run of tokens.
//!
//! Texts branch where a token differs, and a run is cut there only, so a walk along a text costs O(branches and pieces on
//! its way), not O(tokens). A run that was cut keeps its number for its deep part, and so does one that is joined to the
//! run above: whoever remembers where a text ends remembers that for good.

use std::collections::BTreeMap;

use slab::Slab;

use super::content::{self, Cursor};
use crate::ids::SegmentId;
use crate::workload::Piece;

/// The empty text, with which all begin.
pub(crate) const TRUNK: usize = 0;

/// A run of tokens behind its parent's.
#[derive(Debug)]
pub(crate) struct Branch<T> {
    pub(crate) parent: usize,
    /// Tokens before it.
    pub(crate) from: u32,
    /// Tokens in it; none only in the trunk.
    pub(crate) tokens: u32,
    pieces: Vec<Piece>,
    /// By their first token.
    children: BTreeMap<(SegmentId, u32), usize>,
    /// What the user keeps of it.
    pub(crate) note: T,
}

impl<T> Branch<T> {
    /// Tokens up to its end.
    pub(crate) fn end(&self) -> u32 {
        self.from + self.tokens
    }

    /// Whether no text goes on behind it.
    pub(crate) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }

    /// The one run behind it, if there is exactly one.
    pub(crate) fn only_child(&self) -> Option<usize> {
        let mut children = self.children.values();
        let first = children.next().copied();
        first.filter(|_| children.next().is_none())
    }
}

/// How far a walk along a text has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The run that it is in.
    pub(crate) branch: usize,
    /// Tokens of the text before it.
    pub(crate) tokens: u32,
    at: Cursor,
}

impl Place {
    /// The beginning of every text.
    pub(crate) const START: Place = Place {
        branch: TRUNK,
        tokens: 0,
        at: Cursor::START,
    };
}

/// The tree.
#[derive(Debug)]
pub(crate) struct Trie<T> {
    branches: Slab<Branch<T>>,
    spare: Vec<Vec<Piece>>,
}

impl<T> Trie<T> {
    /// An empty one; `note` is that of the trunk.
    pub(crate) fn new(note: T) -> Trie<T> {
        let mut branches = Slab::new();
        let trunk = branches.insert(Branch {
            parent: TRUNK,
            from: 0,
            tokens: 0,
            pieces: Vec::new(),
            children: BTreeMap::new(),
            note,
        });
        assert_eq!(trunk, TRUNK, "the trunk comes first");
        Trie {
            branches,
            spare: Vec::new(),
        }
    }

    /// A run.
    #[inline]
    pub(crate) fn get(&self, branch: usize) -> &Branch<T> {
        &self.branches[branch]
    }

    /// Whether there is a run of this number.
    pub(crate) fn contains(&self, branch: usize) -> bool {
        self.branches.contains(branch)
    }

    /// What is kept of a run.
    #[inline]
    pub(crate) fn note_mut(&mut self, branch: usize) -> &mut T {
        &mut self.branches[branch].note
    }

    /// All runs, the trunk among them, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Branch<T>)> {
        self.branches.iter()
    }

    /// Goes on along `text` into the next run, `upto` tokens from its beginning at most. `false` where the text or what is
    /// common to it and the tree is over.
    #[inline]
    pub(crate) fn step(&self, place: &mut Place, text: &[Piece], upto: u32) -> bool {
        if place.tokens >= upto || place.tokens < self.branches[place.branch].end() {
            return false;
        }
        let Some(first) = content::first(text, place.at) else {
            return false;
        };
        let Some(&child) = self.branches[place.branch].children.get(&first) else {
            return false;
        };
        let run = &self.branches[child];
        let limit = run.tokens.min(upto - place.tokens);
        let common = content::common_tokens(&run.pieces, Cursor::START, text, place.at, limit);
        place.at = content::advance(text, place.at, common);
        place.tokens += common;
        place.branch = child;
        true
    }

    /// Adds what of `text` comes behind a place at the end of a run, up to `upto` tokens from its beginning.
    pub(crate) fn grow(&mut self, place: Place, text: &[Piece], upto: u32, note: T) -> usize {
        debug_assert!(place.tokens == self.branches[place.branch].end() && place.tokens < upto);
        let mut pieces = self.spare.pop().unwrap_or_default();
        content::copy(text, place.at, upto - place.tokens, &mut pieces);
        let key = (pieces[0].segment, pieces[0].start);
        let leaf = self.branches.insert(Branch {
            parent: place.branch,
            from: place.tokens,
            tokens: upto - place.tokens,
            pieces,
            children: BTreeMap::new(),
            note,
        });
        self.branches[place.branch].children.insert(key, leaf);
        leaf
    }

    /// Makes the leaf at whose end a place is longer by what of `text` comes behind.
    pub(crate) fn lengthen(&mut self, place: Place, text: &[Piece], upto: u32) {
        let leaf = &mut self.branches[place.branch];
        debug_assert!(leaf.is_leaf() && place.branch != TRUNK && place.tokens == leaf.end());
        content::copy(text, place.at, upto - place.tokens, &mut leaf.pieces);
        leaf.tokens += upto - place.tokens;
    }

    /// Cuts a run after its first `tokens`. The deep part keeps the number; the upper one's is returned. `part` gets the
    /// note of the whole, leaves in it that of the deep part, and returns that of the upper.
    pub(crate) fn cut(&mut self, deep: usize, tokens: u32, part: impl FnOnce(&mut T) -> T) -> usize {
        let mut pieces = self.spare.pop().unwrap_or_default();
        let run = &mut self.branches[deep];
        debug_assert!(tokens > 0 && tokens < run.tokens, "both parts hold tokens");
        content::copy(&run.pieces, Cursor::START, tokens, &mut pieces);
        let at = content::advance(&run.pieces, Cursor::START, tokens);
        content::remove_before(&mut run.pieces, at);
        let (parent, from) = (run.parent, run.from);
        run.from += tokens;
        run.tokens -= tokens;
        let note = part(&mut run.note);
        let deep_key = (run.pieces[0].segment, run.pieces[0].start);
        let key = (pieces[0].segment, pieces[0].start);
        let upper = self.branches.insert(Branch {
            parent,
            from,
            tokens,
            pieces,
            children: BTreeMap::from([(deep_key, deep)]),
            note,
        });
        self.branches[deep].parent = upper;
        self.branches[parent].children.insert(key, upper);
        upper
    }

    /// Makes one run of one and its only child, which keeps its number. `join` gets the upper note and the deep one.
    pub(crate) fn join(&mut self, upper: usize, join: impl FnOnce(T, &mut T)) {
        let above = self.branches.remove(upper);
        let deep = above.only_child().expect("only what does not branch is joined");
        let run = &mut self.branches[deep];
        let mut pieces = above.pieces;
        let below = std::mem::take(&mut run.pieces);
        content::copy(&below, Cursor::START, run.tokens, &mut pieces);
        let key = (pieces[0].segment, pieces[0].start);
        (run.parent, run.from, run.pieces) = (above.parent, above.from, pieces);
        run.tokens += above.tokens;
        join(above.note, &mut run.note);
        self.branches[above.parent].children.insert(key, deep);
        self.recycle(below);
    }

    /// Drops a leaf. Returns the run above it.
    pub(crate) fn remove(&mut self, leaf: usize) -> usize {
        let run = self.branches.remove(leaf);
        debug_assert!(run.is_leaf(), "what goes on is not dropped");
        let key = (run.pieces[0].segment, run.pieces[0].start);
        self.branches[run.parent].children.remove(&key);
        self.recycle(run.pieces);
        run.parent
    }

    fn recycle(&mut self, mut pieces: Vec<Piece>) {
        pieces.clear();
        self.spare.push(pieces);
    }
}
