//! What a router has sent where, each part for some time: Dynamo's stand-in for KV events (RT-12, `ApproxKvIndexer`).
//!
//! It learns nothing of what replicas evict, nor of what they generate. Sending a text again begins its time anew.

use super::View;
use super::text_tree::TextTree;
use crate::units::Picos;
use crate::workload::Request;

/// Texts with the time at which each replica was last sent them.
#[derive(Debug)]
pub(super) struct ExpiringTree {
    tree: TextTree,
    ttl: Picos,
    /// When what has expired is next thrown away; it is not looked at before either.
    next_sweep: Picos,
    /// Tokens that the last look-up found on each replica, in whole blocks.
    found: Vec<u32>,
}

impl ExpiringTree {
    pub(super) fn new(replicas: usize, ttl: Picos) -> ExpiringTree {
        ExpiringTree {
            tree: TextTree::new(replicas),
            ttl,
            next_sweep: ttl,
            found: vec![0; replicas],
        }
    }

    /// Finds what each replica was sent of the request's prompt. One that is down loses all it had.
    pub(super) fn look_up(&mut self, request: &Request, now: Picos, view: &View<'_>, block_sizes: &[u32]) {
        for (replica, load) in view.loads.iter().enumerate() {
            if !load.is_up && self.tree.knows(replica) {
                self.tree.forget(replica);
            }
        }
        let since = now.0.checked_sub(self.ttl.0);
        if let Some(since) = since
            && now >= self.next_sweep
        {
            self.tree.forget_before(since);
            self.next_sweep = now + self.ttl;
        }
        self.tree.sent_after(request, since, &mut self.found);
        for (found, size) in self.found.iter_mut().zip(block_sizes) {
            *found -= *found % size;
        }
    }

    /// Tokens that the last look-up found on each replica, in whole blocks.
    pub(super) fn found(&self) -> &[u32] {
        &self.found
    }

    /// Tokens of everything that a replica was sent and that was not thrown away.
    pub(super) fn tokens(&self, replica: usize) -> u64 {
        self.tree.tokens(replica)
    }

    /// The request goes to `replica`.
    pub(super) fn send(&mut self, request: &Request, replica: usize, now: Picos) {
        self.tree.insert_at(request, replica, now.0);
    }
}
