//! The order of the twin's queue.

use plimsoll::engine::sglang::QueuePolicy;
use rand::RngExt;

use super::Twin;
use super::tree::Tree;

impl Twin<'_> {
    pub(super) fn sort(&mut self) {
        let aware = self.config.radix_cache
            && match self.config.policy {
                QueuePolicy::Lpm => self.waiting.len() <= 128,
                QueuePolicy::DfsWeight => true,
                _ => false,
            };
        if aware {
            return self.sort_by_cache();
        }
        let reqs = &self.reqs;
        match self.config.policy {
            QueuePolicy::Lof => self
                .waiting
                .sort_by_key(|&at| std::cmp::Reverse(reqs[at].max_new)),
            QueuePolicy::Random => {
                // The same dice as the engine's: from the last place on, each with any that is not behind it.
                for last in (1..self.waiting.len()).rev() {
                    let other = self.dice.random_range(0..=last);
                    self.waiting.swap(last, other);
                }
            }
            _ => {}
        }
        if let Some(rule) = self.config.priority {
            let sign = if rule.low_values_first { 1 } else { -1 };
            let longest_first = self.config.policy == QueuePolicy::Lof;
            let then = |at: usize| match longest_first {
                true => (-i64::from(reqs[at].max_new), 0),
                false => (0, reqs[at].joined),
            };
            self.waiting
                .sort_by_key(|&at| (sign * reqs[at].priority, then(at)));
        }
        if self.config.radix_cache && self.versions.retouches_waiting {
            if self.touches.is_multiple_of(32) {
                for at in self.waiting.iter().copied().take(128).rev().collect::<Vec<_>>() {
                    self.find(at, self.reqs[at].known());
                }
            }
            self.touches += 1;
        }
    }

    fn sort_by_cache(&mut self) {
        let mut seen = Tree::new(1);
        let mut found = Vec::new();
        for at in self.waiting.clone() {
            let known = self.reqs[at].known();
            let (node, tokens) = self.find(at, known);
            let key = &self.reqs[at].tokens[..known as usize];
            let mut late = false;
            if tokens <= 32 {
                late = seen.walk(key).1 >= 32;
                if !late {
                    seen.insert(key);
                }
            }
            found.push((at, node, tokens, late));
        }
        if self.config.policy == QueuePolicy::Lpm {
            // 0.5.23 counts what can be used of a prefix, which is a token less than all.
            let usable = |at: usize| self.reqs[at].known() - u32::from(self.versions.ranks_by_usable_prefix);
            found.sort_by_key(|&(at, _, tokens, late)| match late {
                true => 1,
                false => -i64::from(tokens.min(usable(at))),
            });
            self.waiting = found.iter().map(|found| found.0).collect();
        } else {
            self.waiting.clear();
            let mut weights = vec![0i64; self.tree.nodes.len()];
            for &(_, mut node, ..) in &found {
                weights[node] += 1;
                while node != 0 {
                    node = self.tree.nodes[node].parent;
                    weights[node] += 1;
                }
            }
            let order = self.depth_first(0, &weights, &found);
            self.waiting = order;
        }
    }

    fn depth_first(&self, node: usize, weights: &[i64], found: &[(usize, usize, u32, bool)]) -> Vec<usize> {
        let mut children = self.tree.nodes[node].children.clone();
        children.sort_by_key(|&child| -weights[child]);
        let mut order: Vec<usize> = children
            .iter()
            .flat_map(|&child| self.depth_first(child, weights, found))
            .collect();
        order.extend(found.iter().filter(|found| found.1 == node).map(|found| found.0));
        order
    }
}
