//! The twin's radix tree: every token spelt out, every search a scan.

pub(super) type Token = (u64, u32);

/// A node of the radix tree; node 0 is the root.
#[derive(Default)]
pub(super) struct Node {
    pub(super) parent: usize,
    tokens: Vec<Token>,
    pub(super) children: Vec<usize>,
    locks: u32,
    time: u64,
}

pub(super) struct Tree {
    page: usize,
    pub(super) nodes: Vec<Node>,
    time: u64,
}

impl Tree {
    pub(super) fn new(page: u32) -> Tree {
        let nodes = vec![Node::default()];
        Tree {
            page: page as usize,
            nodes,
            time: 0,
        }
    }

    pub(super) fn walk(&mut self, key: &[Token]) -> (usize, usize) {
        let key = &key[..key.len() / self.page * self.page];
        let (mut node, mut done, mut path) = (0, 0, Vec::new());
        loop {
            let common = |child: &usize| {
                let pairs = self.nodes[*child].tokens.iter().zip(&key[done..]);
                pairs.take_while(|(a, b)| a == b).count() / self.page * self.page
            };
            let mut next = self.nodes[node]
                .children
                .iter()
                .map(|child| (*child, common(child)));
            let Some((child, common)) = next.find(|next| next.1 > 0) else {
                break;
            };
            done += common;
            node = child;
            if common < self.nodes[child].tokens.len() {
                self.time += 1;
                self.nodes[child].time = self.time;
                node = self.split(child, common);
                path.push(node);
                break;
            }
            path.push(node);
        }
        for node in path {
            self.time += 1;
            self.nodes[node].time = self.time;
        }
        (node, done)
    }

    fn split(&mut self, child: usize, at: usize) -> usize {
        let rest = self.nodes[child].tokens.split_off(at);
        let head = std::mem::replace(&mut self.nodes[child].tokens, rest);
        let (parent, locks) = (self.nodes[child].parent, self.nodes[child].locks);
        let upper = self.nodes.len();
        self.nodes.push(Node {
            parent,
            tokens: head,
            children: vec![child],
            locks,
            time: 0,
        });
        let place = self.nodes[parent]
            .children
            .iter()
            .position(|&other| other == child);
        self.nodes[parent].children[place.unwrap()] = upper;
        self.nodes[child].parent = upper;
        upper
    }

    pub(super) fn insert(&mut self, key: &[Token]) -> usize {
        let key = &key[..key.len() / self.page * self.page];
        let (node, done) = self.walk(key);
        if done < key.len() {
            self.time += 1;
            let leaf = self.nodes.len();
            self.nodes.push(Node {
                parent: node,
                tokens: key[done..].to_vec(),
                time: self.time,
                ..Node::default()
            });
            self.nodes[node].children.push(leaf);
        }
        done
    }

    pub(super) fn lock(&mut self, mut node: usize, by: i32) {
        while node != 0 {
            self.nodes[node].locks = self.nodes[node].locks.checked_add_signed(by).unwrap();
            node = self.nodes[node].parent;
        }
    }

    /// (evictable, protected) tokens.
    pub(super) fn sizes(&self) -> (u64, u64) {
        let (mut evictable, mut protected) = (0, 0);
        for node in &self.nodes {
            let tokens = node.tokens.len() as u64;
            if node.locks > 0 {
                protected += tokens;
            } else {
                evictable += tokens;
            }
        }
        (evictable, protected)
    }

    pub(super) fn evict(&mut self, tokens: u64) -> u64 {
        let mut freed = 0;
        while freed < tokens {
            let is_leaf = |at: &usize| {
                let node = &self.nodes[*at];
                !node.tokens.is_empty() && node.children.is_empty() && node.locks == 0
            };
            let oldest = (1..self.nodes.len())
                .filter(is_leaf)
                .min_by_key(|&at| self.nodes[at].time);
            let Some(leaf) = oldest else { break };
            freed += std::mem::take(&mut self.nodes[leaf].tokens).len() as u64;
            let parent = self.nodes[leaf].parent;
            self.nodes[parent].children.retain(|&child| child != leaf);
        }
        freed
    }
}
