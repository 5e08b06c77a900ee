//! Laws of the radix tree, over random operations on a few texts that share beginnings; and that chains of nodes evict as
//! the nodes themselves would.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{NodeId, ROOT, RadixTree};
use crate::ids::SegmentId;
use crate::workload::Piece;

/// A text: a shared beginning, then one of its own.
fn text(group: u64, shared: u32, own: u64, tokens: u32) -> Vec<Piece> {
    let piece = |segment, tokens| Piece {
        segment: SegmentId(segment),
        start: 0,
        tokens,
    };
    let pieces = [piece(group, shared), piece(100 + own, tokens)];
    pieces.into_iter().filter(|piece| piece.tokens > 0).collect()
}

/// The text token by token.
fn spelt(pieces: &[Piece], tokens: u32) -> Vec<(u64, u32)> {
    let all = pieces
        .iter()
        .flat_map(|piece| (0..piece.tokens).map(|at| (piece.segment.0, piece.start + at)));
    all.take(tokens as usize).collect()
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(usize, u32),
    Find(usize, u32),
    Lock(usize, u32),
    Unlock(usize),
    Evict(u64),
}

fn operations() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0usize..8, 0u32..40).prop_map(|(text, tokens)| Operation::Insert(text, tokens)),
        3 => (0usize..8, 0u32..40).prop_map(|(text, tokens)| Operation::Find(text, tokens)),
        2 => (0usize..8, 0u32..40).prop_map(|(text, tokens)| Operation::Lock(text, tokens)),
        2 => (0usize..8).prop_map(Operation::Unlock),
        2 => (0u64..60).prop_map(Operation::Evict),
    ]
}

proptest! {
    #[test]
    fn what_is_cached_is_found_and_what_is_protected_stays(
        page in prop_oneof![Just(1u32), Just(2), Just(5)],
        operations in prop::collection::vec(operations(), 1..80),
    ) {
        let texts: Vec<Vec<Piece>> = (0..8).map(|at| text(at % 3, 4 * (at % 4) as u32, at / 2, 40)).collect();
        let mut tree = RadixTree::new(page);
        let mut locks: Vec<(NodeId, usize, u32)> = Vec::new();
        for operation in operations {
            match operation {
                Operation::Insert(at, tokens) => {
                    let before = tree.find(&texts[at], tokens).tokens;
                    prop_assert_eq!(tree.insert(&texts[at], tokens), before);
                    prop_assert_eq!(tree.find(&texts[at], tokens).tokens, tokens - tokens % page);
                }
                Operation::Find(at, tokens) => {
                    let found = tree.find(&texts[at], tokens);
                    prop_assert_eq!(found.tokens % page, 0);
                    prop_assert!(found.tokens <= tokens && (found.node == ROOT) == (found.tokens == 0));
                }
                Operation::Lock(at, tokens) => {
                    let found = tree.find(&texts[at], tokens);
                    tree.lock(found.node);
                    locks.push((found.node, at, found.tokens));
                }
                Operation::Unlock(at) => {
                    if at < locks.len() {
                        tree.unlock(locks.swap_remove(at).0);
                    }
                }
                Operation::Evict(tokens) => {
                    let (evictable, protected) = (tree.evictable(), tree.protected());
                    let freed = tree.evict(tokens);
                    prop_assert!(freed >= tokens.min(evictable));
                    prop_assert_eq!((tree.evictable(), tree.protected()), (evictable - freed, protected));
                }
            }
            // What is protected is the set of pages of locked prefixes, each with all before it, and it is there.
            let mut protected = BTreeSet::new();
            for &(_, at, tokens) in &locks {
                prop_assert!(tree.find(&texts[at], tokens).tokens == tokens);
                let spelt = spelt(&texts[at], tokens);
                protected.extend(spelt.chunks(page as usize).scan(Vec::new(), |path, next| {
                    path.extend_from_slice(next);
                    Some(path.clone())
                }));
            }
            prop_assert_eq!(tree.protected(), protected.len() as u64 * u64::from(page));
        }
        locks.iter().for_each(|lock| tree.unlock(lock.0));
        tree.evict(u64::MAX);
        prop_assert_eq!((tree.evictable(), tree.protected()), (0, 0));
    }

    #[test]
    fn leaves_go_in_the_order_of_their_last_use(order in Just((0u64..6).collect::<Vec<_>>()).prop_shuffle()) {
        let texts: Vec<Vec<Piece>> = (0..6).map(|at| text(9, 7, at, 10)).collect();
        let mut tree = RadixTree::new(1);
        texts.iter().for_each(|text| { tree.insert(text, 17); });
        order.iter().for_each(|&at| { tree.find(&texts[at as usize], 17); });
        for &at in &order {
            prop_assert_eq!(tree.evict(1), 10);
            prop_assert_eq!(tree.find(&texts[at as usize], 17).tokens, 7);
        }
        // The shared beginning is a leaf now.
        prop_assert_eq!((tree.evict(1), tree.evictable()), (7, 0));
    }
}

/// The tree node by node, as the engine has it: pages of one token.
struct Naive {
    nodes: Vec<Option<NaiveNode>>,
    clock: u64,
}

#[derive(Clone)]
struct NaiveNode {
    parent: usize,
    tokens: Vec<(u64, u32)>,
    locks: u32,
    touched: u64,
}

impl Naive {
    fn new() -> Naive {
        let root = NaiveNode {
            parent: 0,
            tokens: Vec::new(),
            locks: 0,
            touched: 0,
        };
        Naive {
            nodes: vec![Some(root)],
            clock: 0,
        }
    }

    fn node(&mut self, at: usize) -> &mut NaiveNode {
        self.nodes[at].as_mut().unwrap()
    }

    fn touch(&mut self, at: usize) {
        self.clock += 1;
        self.node(at).touched = self.clock;
    }

    fn child(&self, parent: usize, first: (u64, u32)) -> Option<usize> {
        let is_it = |node: &NaiveNode| node.parent == parent && node.tokens.first() == Some(&first);
        (1..self.nodes.len()).find(|&at| self.nodes[at].as_ref().is_some_and(is_it))
    }

    /// The deepest node of the longest known prefix, and its tokens.
    fn find(&mut self, text: &[(u64, u32)]) -> (usize, usize) {
        let (mut at, mut known, mut path) = (0, 0, Vec::new());
        while known < text.len() {
            let Some(child) = self.child(at, text[known]) else {
                break;
            };
            let own = self.node(child).tokens.clone();
            let run = own.iter().zip(&text[known..]).take_while(|(a, b)| a == b).count();
            known += run;
            if run < own.len() {
                self.touch(child);
                let NaiveNode {
                    parent,
                    locks,
                    touched,
                    ..
                } = self.node(child).clone();
                self.nodes.push(Some(NaiveNode {
                    parent,
                    tokens: own[..run].to_vec(),
                    locks,
                    touched,
                }));
                let upper = self.nodes.len() - 1;
                let deep = self.node(child);
                (deep.parent, deep.tokens) = (upper, own[run..].to_vec());
                path.push(upper);
                at = upper;
                break;
            }
            path.push(child);
            at = child;
        }
        path.into_iter().for_each(|met| self.touch(met));
        (at, known)
    }

    fn insert(&mut self, text: &[(u64, u32)]) -> usize {
        let (parent, known) = self.find(text);
        if known < text.len() {
            self.clock += 1;
            let touched = self.clock;
            self.nodes.push(Some(NaiveNode {
                parent,
                tokens: text[known..].to_vec(),
                locks: 0,
                touched,
            }));
        }
        known
    }

    fn lock(&mut self, mut at: usize, by: i32) {
        while at != 0 {
            let node = self.node(at);
            node.locks = node.locks.checked_add_signed(by).unwrap();
            at = node.parent;
        }
    }

    fn evict(&mut self, wanted: u64) -> u64 {
        let mut freed = 0;
        while freed < wanted {
            let is_leaf = |at: usize| {
                !self
                    .nodes
                    .iter()
                    .flatten()
                    .any(|node| node.parent == at && !node.tokens.is_empty())
            };
            let free = (1..self.nodes.len())
                .filter(|&at| self.nodes[at].as_ref().is_some_and(|node| node.locks == 0) && is_leaf(at));
            let Some(oldest) = free.min_by_key(|&at| self.nodes[at].as_ref().unwrap().touched) else {
                break;
            };
            freed += self.nodes[oldest].take().unwrap().tokens.len() as u64;
        }
        freed
    }
}

/// What sequences do to a tree: a prompt is computed in chunks, each of which is inserted and locked (`cache_unfinished`).
#[derive(Clone, Debug)]
enum Use {
    Chunk(usize, u32),
    Leave(usize),
    Look(usize, u32),
    Evict(u64),
}

fn uses() -> impl Strategy<Value = Use> {
    prop_oneof![
        8 => (0usize..6, 1u32..4).prop_map(|(text, tokens)| Use::Chunk(text, tokens)),
        2 => (0usize..6).prop_map(Use::Leave),
        2 => (0usize..6, 0u32..40).prop_map(|(text, tokens)| Use::Look(text, tokens)),
        2 => (0u64..12).prop_map(Use::Evict),
    ]
}

proptest! {
    #[test]
    fn chains_evict_as_their_nodes_would(uses in prop::collection::vec(uses(), 1..160)) {
        let texts: Vec<Vec<Piece>> = (0..6).map(|at| text(at % 2, 6 * (at % 3) as u32, at, 40)).collect();
        let (mut tree, mut naive) = (RadixTree::new(1), Naive::new());
        // Of each text: how far it is computed, and what it protects in both trees.
        let mut held: Vec<(u32, NodeId, usize)> = vec![(0, ROOT, 0); 6];
        for what in uses {
            match what {
                Use::Chunk(at, tokens) => {
                    let upto = (held[at].0 + tokens).min(40);
                    let spelt = spelt(&texts[at], upto);
                    prop_assert_eq!(tree.insert(&texts[at], upto) as usize, naive.insert(&spelt));
                    let (found, (node, known)) = (tree.find(&texts[at], upto), naive.find(&spelt));
                    prop_assert_eq!(found.tokens as usize, known);
                    tree.lock(found.node);
                    naive.lock(node, 1);
                    tree.unlock(held[at].1);
                    naive.lock(held[at].2, -1);
                    held[at] = (upto, found.node, node);
                }
                Use::Leave(at) => {
                    tree.unlock(held[at].1);
                    naive.lock(held[at].2, -1);
                    held[at] = (0, ROOT, 0);
                }
                Use::Look(at, tokens) => {
                    let (_, known) = naive.find(&spelt(&texts[at], tokens));
                    prop_assert_eq!(tree.peek(&texts[at], tokens) as usize, known);
                    prop_assert_eq!(tree.find(&texts[at], tokens).tokens as usize, known);
                }
                Use::Evict(tokens) => prop_assert_eq!(tree.evict(tokens), naive.evict(tokens)),
            }
            prop_assert_eq!(
                tree.evictable() + tree.protected(),
                naive.nodes.iter().flatten().map(|node| node.tokens.len() as u64).sum::<u64>()
            );
        }
    }
}
