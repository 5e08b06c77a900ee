//! The tree's shape: which chain is below which, how one is cut in two, and how two become one.

use super::{Chain, NodeId, RadixTree};
use crate::kv::content::{self, Cursor};

impl RadixTree {
    /// Ends a look-up inside a chain, after `tokens` tokens of it: the chain is cut there, and returned is what lies
    /// above. A node that is split is told from those behind it, because its deep half was touched.
    pub(super) fn part(&mut self, node: NodeId, tokens: u32) -> NodeId {
        let ends = &self.chains[node.place()].inner_ends;
        let at = ends.partition_point(|&end| end <= tokens);
        let is_split = at == 0 || ends[at - 1] != tokens;
        if !is_split {
            return self.cut(node, tokens);
        }
        let deep_half = match ends.get(at) {
            Some(&half) => self.cut(node, half),
            None => node,
        };
        let upper = self.cut(deep_half, tokens);
        self.touch(deep_half);
        upper
    }

    /// Cuts a chain after `tokens` tokens, in two halves of a node if no node ends there; the chain keeps the deep part.
    /// Returns the upper one.
    fn cut(&mut self, node: NodeId, tokens: u32) -> NodeId {
        let page = self.page;
        let mut head = self.spare.pop().unwrap_or_default();
        let deep = &mut self.chains[node.place()];
        content::copy(&deep.pieces, Cursor::START, tokens, &mut head);
        let at = content::advance(&deep.pieces, Cursor::START, tokens);
        content::remove_before(&mut deep.pieces, at);
        // Nodes that end before the cut, and, if one ends there, it.
        let before = deep.inner_ends.partition_point(|&end| end < tokens);
        let whole = deep.inner_ends.partition_point(|&end| end <= tokens);
        let below: Vec<u32> = deep.inner_ends[whole..].iter().map(|end| end - tokens).collect();
        let mut ends = std::mem::replace(&mut deep.inner_ends, below);
        ends.truncate(before);
        deep.tokens -= tokens;
        let (parent, key, born) = (deep.parent, deep.key, deep.born);
        let upper = Chain {
            parent,
            tokens,
            inner_ends: ends,
            pieces: head,
            key,
            locks: deep.locks,
            touched: deep.touched,
            born,
            children: 1,
            child: None,
            queued: 0,
        };
        deep.touched += whole as u64;
        deep.key = content::key(&deep.pieces, Cursor::START, page).expect("a chain has at least a page");
        let deep_key = deep.key;
        let upper = NodeId::new(self.chains.insert(upper));
        self.chains[node.place()].parent = upper;
        self.chains[upper.place()].child = Some((deep_key, node));
        self.replace_child(parent, key, upper);
        upper
    }

    /// Makes one of chains that were just touched one after the other and need not be told apart.
    pub(super) fn join_path(&mut self) {
        for at in 1..self.path.len() {
            let (upper, deep) = (self.path[at - 1], self.path[at]);
            let [above, below] = [upper, deep].map(|node| &self.chains[node.place()]);
            let is_one =
                above.children == 1 && above.locks == below.locks && above.end_touched() + 1 == below.touched;
            if is_one {
                self.join(upper, deep);
            }
        }
    }

    /// Puts a chain in front of its only child, which stays.
    fn join(&mut self, upper: NodeId, deep: NodeId) {
        let above = self.chains.remove(upper.place());
        let offset = above.tokens;
        let below = &mut self.chains[deep.place()];
        if above.child.is_none() {
            self.others.remove(&(upper, below.key));
        }
        let mut ends = above.inner_ends;
        ends.push(offset);
        ends.extend(below.inner_ends.iter().map(|end| offset + end));
        let (mut pieces, tokens) = (above.pieces, below.tokens);
        content::copy(&below.pieces, Cursor::START, tokens, &mut pieces);
        (below.tokens, below.inner_ends) = (offset + tokens, ends);
        let short = std::mem::replace(&mut below.pieces, pieces);
        (below.parent, below.key) = (above.parent, above.key);
        (below.touched, below.born) = (above.touched, above.born);
        self.recycle(short);
        self.replace_child(above.parent, above.key, deep);
    }

    /// The chain below a node's end that begins with a page of this key.
    #[inline]
    pub(super) fn child(&self, node: NodeId, key: u64) -> Option<NodeId> {
        let chain = &self.chains[node.place()];
        match chain.child {
            Some((own, child)) if own == key => Some(child),
            known if chain.children > u32::from(known.is_some()) => self.others.get(&(node, key)).copied(),
            _ => None,
        }
    }

    pub(super) fn add_child(&mut self, node: NodeId, key: u64, child: NodeId) {
        let chain = &mut self.chains[node.place()];
        chain.children += 1;
        if chain.child.is_none() {
            chain.child = Some((key, child));
        } else {
            let taken = self.others.insert((node, key), child);
            assert!(taken.is_none(), "different contents have different keys");
        }
    }

    /// Another chain begins where a child did.
    fn replace_child(&mut self, node: NodeId, key: u64, child: NodeId) {
        match &mut self.chains[node.place()].child {
            Some((own, place)) if *own == key => *place = child,
            _ => {
                self.others.insert((node, key), child);
            }
        }
    }

    pub(super) fn remove_child(&mut self, node: NodeId, key: u64) {
        let chain = &mut self.chains[node.place()];
        chain.children -= 1;
        if chain.child.is_some_and(|(own, _)| own == key) {
            chain.child = None;
        } else {
            self.others.remove(&(node, key));
        }
    }
}
