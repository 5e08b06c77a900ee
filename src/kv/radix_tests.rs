//! Laws of the radix tree, over random operations on a few texts that share beginnings.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::radix::{NodeId, ROOT, RadixTree};
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
