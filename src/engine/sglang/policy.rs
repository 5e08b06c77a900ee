//! The order in which waiting requests are tried (`SchedulePolicy.calc_priority`, SG-26 to SG-31, SG-36).

use rand::RngExt;
use rustc_hash::FxHashMap;

use super::QueuePolicy;
use super::replica::SglangReplica;
use crate::kv::{Found, NodeId, ROOT, RadixTree};

/// Under `lpm` a longer queue is served first come, first served (SG-27).
const LPM_QUEUE_MAX: usize = 128;
/// A cached prefix of at most so many tokens is looked for among the waiting, too (SG-28).
const IN_BATCH_CHECK_MAX: u32 = 32;
/// A prefix of at least so many tokens that a waiting request shares with one before it defers it.
const IN_BATCH_DEFER_MIN: u32 = 32;
/// Waiting requests whose prefixes are kept recent, and in which passes (SG-36).
const RETOUCHED: usize = 128;
const RETOUCH_PERIOD: u64 = 32;

impl SglangReplica {
    /// Sorts the queue for this pass.
    pub(super) fn sort_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if self.follow_recorded_queue() {
            return self.retouch();
        }
        let policy = self.active_policy();
        match policy {
            QueuePolicy::Lpm => return self.sort_by_prefix(),
            QueuePolicy::DfsWeight => return self.sort_by_weight(),
            QueuePolicy::Fcfs => {}
            QueuePolicy::Lof => {
                let sequences = &self.sequences;
                self.waiting
                    .make_contiguous()
                    .sort_by_key(|&slot| std::cmp::Reverse(sequences[slot].max_new));
            }
            QueuePolicy::Random => {
                for at in (1..self.waiting.len()).rev() {
                    let other = self.rng.random_range(0..=at);
                    self.waiting.swap(at, other);
                }
            }
        }
        if let Some(rule) = self.config.priority {
            let sequences = &self.sequences;
            self.waiting.make_contiguous().sort_by_key(|&slot| {
                let sequence = &sequences[slot];
                // `lof` goes by priority, then by length, in whose order the queue is already.
                let joined = (policy != QueuePolicy::Lof).then_some(sequence.joined);
                (std::cmp::Reverse(rule.urgency(sequence.request.priority)), joined)
            });
        }
        self.retouch();
    }

    fn active_policy(&self) -> QueuePolicy {
        match self.config.policy {
            QueuePolicy::Lpm | QueuePolicy::DfsWeight if !self.config.radix_cache => QueuePolicy::Fcfs,
            QueuePolicy::Lpm if self.waiting.len() > LPM_QUEUE_MAX => QueuePolicy::Fcfs,
            policy => policy,
        }
    }

    /// The prefix of a sequence's first `limit` tokens.
    pub(super) fn look_up(&mut self, slot: usize, limit: u32) -> Found {
        if self.config.radix_cache {
            let named = self.named(limit);
            self.tree.find(&self.sequences[slot].pieces, named)
        } else {
            Found {
                node: ROOT,
                tokens: 0,
            }
        }
    }

    /// Keeps the prefixes of the queue's head recent.
    fn retouch(&mut self) {
        if !self.config.switches.retouches_waiting || !self.config.radix_cache {
            return;
        }
        if self.sorts.is_multiple_of(RETOUCH_PERIOD) {
            for at in (0..self.waiting.len().min(RETOUCHED)).rev() {
                let slot = self.waiting[at];
                // All of the text, unlike the look-up of a candidate, which leaves a token to compute.
                let known = self.sequences[slot].known();
                self.look_up(slot, known);
            }
        }
        self.sorts += 1;
    }

    /// Matches the whole queue in its present order and finds who should wait for a like one before it (SG-28).
    fn match_all(&mut self) -> Vec<(usize, Found, bool)> {
        let mut seen = RadixTree::new(1);
        let queue: Vec<usize> = self.waiting.iter().copied().collect();
        let matched = queue.into_iter().map(|slot| {
            let known = self.sequences[slot].known();
            let found = self.look_up(slot, known);
            let (pieces, named) = (&self.sequences[slot].pieces, self.named(known));
            let mut deferred = false;
            if found.tokens <= IN_BATCH_CHECK_MAX {
                // Here the server compares tokens, whatever its cache knows them by.
                deferred = seen.find(pieces, named).tokens + (known - named) >= IN_BATCH_DEFER_MIN;
                if !deferred {
                    seen.insert(pieces, named);
                }
            }
            (slot, found, deferred)
        });
        matched.collect()
    }

    fn sort_by_prefix(&mut self) {
        let mut order = self.match_all();
        let computes_a_token = u32::from(self.config.switches.ranks_by_usable_prefix);
        // The deferred come last, in the order in which they stand.
        order.sort_by_key(|&(slot, found, deferred)| {
            let usable = self.sequences[slot].known() - computes_a_token;
            let prefix = if deferred { 0 } else { found.tokens.min(usable) };
            (deferred, std::cmp::Reverse(prefix))
        });
        self.waiting = order.into_iter().map(|(slot, ..)| slot).collect();
    }

    /// Depth first, the heavier child first; children before the node's own requests (SG-29). Only nodes with waiting
    /// requests beneath them are visited.
    fn sort_by_weight(&mut self) {
        let matched = self.match_all();
        let mut own: FxHashMap<NodeId, Vec<usize>> = FxHashMap::default();
        let mut weights: FxHashMap<NodeId, u32> = FxHashMap::default();
        let mut children: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        for (slot, found, _) in matched {
            own.entry(found.node).or_default().push(slot);
            let mut at = found.node;
            loop {
                let weight = weights.entry(at).or_insert(0);
                *weight += 1;
                let is_new = *weight == 1;
                if at == ROOT {
                    break;
                }
                let parent = self.tree.parent(at);
                if is_new {
                    children.entry(parent).or_default().push(at);
                }
                at = parent;
            }
        }
        self.waiting.clear();
        let mut stack = vec![(ROOT, false)];
        while let Some((node, is_left)) = stack.pop() {
            if is_left {
                self.waiting.extend(own.remove(&node).unwrap_or_default());
                continue;
            }
            stack.push((node, true));
            let mut below = children.remove(&node).unwrap_or_default();
            below.sort_by_key(|&child| (std::cmp::Reverse(weights[&child]), self.tree.born(child)));
            stack.extend(below.into_iter().rev().map(|child| (child, false)));
        }
    }
}
