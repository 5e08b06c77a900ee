//! Automatic prefix caching: which contents are cached, who uses them, and in which order they are evicted.
//!
//! vLLM keeps physical blocks, a hash → block table and one free list (V1-36 to V1-49). Physical numbers influence
//! nothing, so this keeps *contents*: a tree whose nodes are runs of blocks, and a free queue of runs. Admitting,
//! releasing or evicting a whole sequence costs O(runs that it touches), not O(its blocks).
//!
//! Three laws carry the structure:
//! * A cached block's parent is cached: whoever released the child released a copy of the parent right after it, so
//!   the child is evicted first. Eviction therefore only ever shortens a run from its deep end.
//! * The copy that look-ups return (the earliest registered one still cached, V1-49) does not change while it is
//!   referenced, because what is referenced is not evicted.
//! * A run of which two physical copies exist is one block long, so that copies never need splitting.
//!
//! A sequence whose first token is in no other one's text is *alone*: nobody else finds what it registers, so that it stands in no
//! tree. Its blocks are counted, and forgotten when it ends; if it is to come back, it is entered into the tree first.
//!
//! Whoever takes blocks need not know which: where nobody hears of evictions they are *owed*, and settled all at once before
//! the next question or change to which the order of the free queue or the children of a run matter.

use slab::Slab;

use self::children::Children;
use super::Journal;
use super::content::{self, Cursor};
use crate::workload::Piece;

mod alone;
mod children;
mod eviction;
mod queue;
mod telling;

/// The empty prefix, parent of every first block.
const ROOT: usize = 0;

/// A run of consecutive blocks of content below `parent`.
#[derive(Debug)]
struct Node {
    parent: usize,
    /// Blocks in the run.
    blocks: u32,
    /// Their tokens.
    pieces: Vec<Piece>,
    /// Key of the first block, under which the parent finds this node.
    key: u64,
    /// Physical copies in order of registration; look-ups return the first.
    first_copy: usize,
    children: u32,
}

/// Physical blocks that hold a node's content.
#[derive(Debug)]
struct Copy {
    node: usize,
    /// Sequences that use it.
    refs: u32,
    next_copy: Option<usize>,
    /// Its place in the free queue while nobody uses it.
    entry: Option<usize>,
}

/// An item of the free queue. Within a cached run the deepest block stands nearest the head (V1-37).
#[derive(Debug)]
struct Entry {
    what: Free,
    previous: Option<usize>,
    next: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Free {
    /// So many blocks without a hash.
    Blank(u32),
    /// The blocks of a copy, and its node.
    Cached(usize, usize),
    /// So many blocks with a hash that nobody will ask for.
    Unsought(u32),
}

/// What a sequence holds: a path of cached runs, then blocks that are not registered yet.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Deepest registered run; its ancestors are held too.
    tip: usize,
    /// Blocks of the path.
    registered: u32,
    /// Content position behind them.
    position: Cursor,
    /// Allocated blocks behind the path, without a hash.
    private: u32,
    /// Copies on the path that are not the ones look-ups returned when they were made, from the shallowest to the deepest:
    /// what is registered lies below what was.
    duplicates: Vec<usize>,
    /// Nobody else finds what it registers: its registered blocks are on no path.
    is_alone: bool,
}

impl Held {
    /// Gives the sequence its share of blocks that were taken by [`PrefixPool::evict`].
    pub(crate) fn assign(&mut self, blocks: u32) {
        self.private += blocks;
    }

    /// All blocks of the sequence.
    pub(crate) fn blocks(&self) -> u32 {
        self.registered + self.private
    }

    /// Those whose contents others may find.
    #[inline]
    pub(crate) fn registered(&self) -> u32 {
        self.registered
    }
}

/// The answer to a look-up. Valid until the pool changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    /// Cached blocks from the start of the sequence.
    pub(crate) blocks: u32,
    /// Of them, blocks that nobody uses: referencing them takes them out of the free queue.
    pub(crate) unreferenced: u32,
    /// Deepest run that was met, and how many of its blocks matched.
    tip: usize,
    within: u32,
    position: Cursor,
}

impl Match {
    /// Nothing found.
    pub(crate) const MISS: Match = Match {
        blocks: 0,
        unreferenced: 0,
        tip: ROOT,
        within: 0,
        position: Cursor::START,
    };
}

/// The pool with prefix caching on.
#[derive(Debug)]
pub(crate) struct PrefixPool {
    block_size: u32,
    free: u32,
    /// Blocks that were taken from the head of the free queue and still stand there.
    owed: u32,
    /// Evictions may be owed.
    puts_off: bool,
    /// Blocks of all nodes: contents that are cached now.
    cached: u32,
    /// Blocks whose contents were evicted since the beginning.
    evicted: u64,
    /// VS-2: freed blocks without a hash go to the head of the free queue.
    blank_to_head: bool,
    nodes: Slab<Node>,
    copies: Slab<Copy>,
    children: Children,
    entries: Slab<Entry>,
    head: Option<usize>,
    tail: Option<usize>,
    spare: Vec<Vec<Piece>>,
    /// What was stored and removed lately, if somebody hears of it with a delay.
    pub(super) journal: Option<Box<Journal>>,
}

impl PrefixPool {
    /// A pool of `blocks` empty blocks (the null block left out).
    pub(crate) fn new(blocks: u32, block_size: u32, blank_to_head: bool) -> PrefixPool {
        let mut nodes = Slab::new();
        let root = Node {
            parent: ROOT,
            blocks: 0,
            pieces: Vec::new(),
            key: 0,
            first_copy: usize::MAX,
            children: 0,
        };
        let at = nodes.insert(root);
        assert_eq!(at, ROOT, "the root is the first node");
        let mut pool = PrefixPool {
            block_size,
            free: blocks,
            owed: 0,
            puts_off: false,
            cached: 0,
            evicted: 0,
            blank_to_head,
            nodes,
            copies: Slab::new(),
            children: Children::default(),
            entries: Slab::new(),
            head: None,
            tail: None,
            spare: Vec::new(),
            journal: None,
        };
        pool.push_back(Free::Blank(blocks));
        pool
    }

    /// From now on evictions are owed until [`PrefixPool::settle`], which is called before each look-up.
    pub(crate) fn put_off_evictions(&mut self) {
        self.puts_off = true;
    }

    /// Blocks whose contents are cached.
    pub(crate) fn cached(&self) -> u32 {
        assert!(self.owed == 0, "who asks what is cached has settled");
        self.cached
    }

    /// Blocks that nobody uses, cached ones included.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Finds the longest cached prefix of `pieces`, `max_blocks` at most. Changes nothing (V1-40).
    pub(crate) fn look_up(&self, pieces: &[Piece], max_blocks: u32) -> Match {
        assert!(self.owed == 0, "who asks what is cached has settled");
        let mut found = Match::MISS;
        while found.blocks < max_blocks {
            let Some(key) = content::key(pieces, found.position, self.block_size) else {
                break;
            };
            let Some(child) = self.children.get(&self.nodes, found.tip, key) else {
                break;
            };
            let node = &self.nodes[child];
            let limit = node.blocks.min(max_blocks - found.blocks);
            let tokens = content::common_tokens(
                &node.pieces,
                Cursor::START,
                pieces,
                found.position,
                limit * self.block_size,
            );
            let blocks = tokens / self.block_size;
            if blocks == 0 {
                break;
            }
            if self.copies[node.first_copy].refs == 0 {
                found.unreferenced += blocks;
            }
            found.blocks += blocks;
            found.position = content::advance(pieces, found.position, blocks * self.block_size);
            (found.tip, found.within) = (child, blocks);
            if blocks < node.blocks {
                break;
            }
        }
        found
    }

    /// References the blocks of a match for a new sequence.
    pub(crate) fn adopt(&mut self, found: Match) -> Held {
        let mut tip = found.tip;
        if tip != ROOT && found.within < self.nodes[tip].blocks {
            tip = self.split(tip, found.within);
        }
        let mut node = tip;
        while node != ROOT {
            let copy = self.nodes[node].first_copy;
            if let Some(entry) = self.copies[copy].entry.take() {
                self.unlink(entry);
                self.free -= self.nodes[node].blocks;
            }
            self.copies[copy].refs += 1;
            node = self.nodes[node].parent;
        }
        Held {
            tip,
            registered: found.blocks,
            position: found.position,
            ..Held::default()
        }
    }

    /// Takes `blocks` from the head of the free queue, evicting what they cache (V1-36).
    pub(crate) fn take(&mut self, held: &mut Held, blocks: u32) {
        held.private += blocks;
        self.evict(blocks);
    }

    /// Registers the blocks of a sequence up to `full_blocks` under their content (V1-43).
    pub(crate) fn register(&mut self, held: &mut Held, pieces: &[Piece], full_blocks: u32) {
        if held.is_alone {
            return self.register_alone(held, full_blocks);
        }
        while held.registered < full_blocks {
            let blocks = full_blocks - held.registered;
            assert!(blocks <= held.private, "only allocated blocks are registered");
            let added = match self.known_child(held, pieces) {
                Some(child) => {
                    self.add_duplicate(held, child);
                    1
                }
                None => {
                    self.note_storing(held, pieces, blocks);
                    self.append(held, pieces, blocks);
                    blocks
                }
            };
            held.registered += added;
            held.private -= added;
            held.position = content::advance(pieces, held.position, added * self.block_size);
        }
    }

    /// The run that begins with the next block of a sequence, if it is cached.
    #[inline]
    fn known_child(&mut self, held: &Held, pieces: &[Piece]) -> Option<usize> {
        if self.nodes[held.tip].children == 0 {
            return None;
        }
        let key = self.key(held, pieces);
        let child = self.children.get(&self.nodes, held.tip, key);
        // What is evicted makes nothing known that was not. Below the root nothing else is asked; elsewhere, too, whether
        // any children are left.
        if self.owed == 0 || (child.is_none() && held.tip == ROOT) {
            return child;
        }
        self.settle();
        self.children.get(&self.nodes, held.tip, key)
    }

    /// Key of the next block of a sequence.
    #[inline]
    fn key(&self, held: &Held, pieces: &[Piece]) -> u64 {
        content::key(pieces, held.position, self.block_size)
            .expect("a sequence knows the tokens whose blocks it registers")
    }

    /// Frees everything that a sequence holds, the deepest block first (V1-37, V1-38).
    pub(crate) fn release(&mut self, mut held: Held) {
        self.free_blank(held.private);
        if held.is_alone {
            return self.free_unsought(held.registered);
        }
        let mut node = held.tip;
        while node != ROOT {
            let copy = self.pop_copy(&mut held.duplicates, node);
            self.copies[copy].refs -= 1;
            if self.copies[copy].refs == 0 {
                self.free += self.nodes[node].blocks;
                let entry = self.push_back(Free::Cached(copy, node));
                self.copies[copy].entry = Some(entry);
            }
            node = self.nodes[node].parent;
        }
        assert!(
            held.duplicates.is_empty(),
            "a sequence's own copies lie on its path, in order of depth"
        );
    }

    /// The copy of `node` that is held, on the way from the tip to the root.
    #[inline]
    fn pop_copy(&self, duplicates: &mut Vec<usize>, node: usize) -> usize {
        let own = duplicates.pop_if(|copy| self.copies[*copy].node == node);
        own.unwrap_or(self.nodes[node].first_copy)
    }

    /// New content behind the tip: the tip itself grows where nobody else could see the difference.
    fn append(&mut self, held: &mut Held, pieces: &[Piece], blocks: u32) {
        let tokens = blocks * self.block_size;
        self.cached += blocks;
        let tip = &mut self.nodes[held.tip];
        if held.tip != ROOT && tip.children == 0 {
            let copy = &self.copies[tip.first_copy];
            if copy.refs == 1 && copy.next_copy.is_none() {
                content::copy(pieces, held.position, tokens, &mut tip.pieces);
                tip.blocks += blocks;
                return;
            }
        }
        tip.children += 1;
        let key = self.key(held, pieces);
        let mut own = self.spare.pop().unwrap_or_default();
        content::copy(pieces, held.position, tokens, &mut own);
        let copy = self.copies.insert(Copy {
            node: 0,
            refs: 1,
            next_copy: None,
            entry: None,
        });
        let node = self.nodes.insert(Node {
            parent: held.tip,
            blocks,
            pieces: own,
            key,
            first_copy: copy,
            children: 0,
        });
        self.copies[copy].node = node;
        self.children.insert(&self.nodes, node);
        held.tip = node;
    }

    /// The next block's content is cached already: the sequence keeps its own copy under the same hash (V1-49).
    fn add_duplicate(&mut self, held: &mut Held, child: usize) {
        let node = if self.nodes[child].blocks > 1 {
            self.split(child, 1)
        } else {
            child
        };
        let copy = self.copies.insert(Copy {
            node,
            refs: 1,
            next_copy: None,
            entry: None,
        });
        let mut last = self.nodes[node].first_copy;
        while let Some(next) = self.copies[last].next_copy {
            last = next;
        }
        self.copies[last].next_copy = Some(copy);
        held.duplicates.push(copy);
        held.tip = node;
    }

    /// Cuts a run after `blocks` blocks. The deep part keeps the node's number (tips and children stay valid);
    /// the new upper part is returned.
    fn split(&mut self, deep: usize, blocks: u32) -> usize {
        let tokens = blocks * self.block_size;
        let mut upper_pieces = self.spare.pop().unwrap_or_default();
        let node = &mut self.nodes[deep];
        debug_assert!(
            blocks > 0 && blocks < node.blocks,
            "both parts of a split hold blocks"
        );
        content::copy(&node.pieces, Cursor::START, tokens, &mut upper_pieces);
        let cut = content::advance(&node.pieces, Cursor::START, tokens);
        content::remove_before(&mut node.pieces, cut);
        node.blocks -= blocks;
        let (parent, upper_key, copy) = (node.parent, node.key, node.first_copy);
        let deep_key = content::key(&node.pieces, Cursor::START, self.block_size)
            .expect("the deep part holds at least a block");
        let refs = self.copies[copy].refs;
        assert!(
            self.copies[copy].next_copy.is_none(),
            "a run with two copies is one block long"
        );
        let upper_copy = self.copies.insert(Copy {
            node: 0,
            refs,
            next_copy: None,
            entry: None,
        });
        let upper = self.nodes.insert(Node {
            parent,
            blocks,
            pieces: upper_pieces,
            key: upper_key,
            first_copy: upper_copy,
            children: 1,
        });
        self.copies[upper_copy].node = upper;
        self.children.remove(parent, upper_key, deep);
        (self.nodes[deep].parent, self.nodes[deep].key) = (upper, deep_key);
        self.children.insert(&self.nodes, upper);
        self.children.insert(&self.nodes, deep);
        if let Some(entry) = self.copies[copy].entry {
            let place = self.insert_after(entry, Free::Cached(upper_copy, upper));
            self.copies[upper_copy].entry = Some(place);
        }
        upper
    }
}

#[cfg(test)]
mod tests;
