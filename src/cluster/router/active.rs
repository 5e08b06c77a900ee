//! Which blocks of prompts are in use on which replica, as Dynamo's router counts them (RT-10).
//!
//! It names the complete blocks of a prompt by what they and all before them contain (`KvRouterConfig::
//! compute_seq_hashes_for_tracking` in `scheduling/config.rs`), and keeps for each worker the blocks of the requests that it
//! was sent and that have not left (`ActiveSequences` in `sequences/single.rs`: `add_request`, `free`). A block that several of
//! them have counts once (`active_blocks`), until the last of them leaves; a request that is to be placed adds what is not
//! among them (`new_blocks`, `potential_blocks_and_tokens`). The prompt's last block counts only if it is full, and blocks
//! of answers do not (`router_track_output_blocks` is off unless one asks for it).
//!
//! Here all replicas share a tree of texts: each run with those who have requests with it, and how many. What a prompt has
//! in common with those on a replica is a length, hence its blocks are two divisions.

use crate::kv::{Place, TRUNK, Trie, Whole};
use crate::workload::{Piece, Prompt, Request};

/// Who has requests whose prompts go through a run of tokens.
#[derive(Debug, Default)]
struct Users {
    requests: u32,
    /// Replicas and how many of the requests each has; in order.
    by_replica: Vec<(u32, u32)>,
}

impl Users {
    fn add(&mut self, replica: usize) {
        self.requests += 1;
        let replica = replica as u32;
        match self
            .by_replica
            .binary_search_by_key(&replica, |&(replica, _)| replica)
        {
            Ok(at) => self.by_replica[at].1 += 1,
            Err(at) => self.by_replica.insert(at, (replica, 1)),
        }
    }

    /// One fewer. Whether the replica has others.
    fn remove(&mut self, replica: usize) -> bool {
        self.requests -= 1;
        let users = &mut self.by_replica;
        let at = users.binary_search_by_key(&(replica as u32), |&(replica, _)| replica);
        let at = at.expect("whoever ends has begun");
        users[at].1 -= 1;
        if users[at].1 > 0 {
            return true;
        }
        users.remove(at);
        false
    }
}

/// A prompt in use.
#[derive(Debug)]
pub(super) struct ActivePrompt {
    replica: u32,
    tokens: u32,
    /// Where it ends in the tree; `None` if nobody can share it.
    tip: Option<u32>,
}

impl ActivePrompt {
    /// Where it is.
    pub(super) fn replica(&self) -> usize {
        self.replica as usize
    }
}

/// The prompts in use.
#[derive(Debug)]
pub(super) struct ActivePrompts {
    trie: Trie<Users>,
    block_sizes: Vec<u32>,
    /// Different blocks in use on each replica.
    blocks: Vec<u64>,
    /// Of the last look-up: its tokens, the blocks that it would add on each replica, and where the tree knows no more of it.
    tokens: u32,
    new_blocks: Vec<u32>,
    place: Place,
}

impl ActivePrompts {
    /// None yet, on replicas with blocks of these sizes.
    pub(super) fn new(block_sizes: &[u32]) -> ActivePrompts {
        let replicas = block_sizes.len();
        ActivePrompts {
            trie: Trie::new(Users::default()),
            block_sizes: block_sizes.to_vec(),
            blocks: vec![0; replicas],
            tokens: 0,
            new_blocks: vec![0; replicas],
            place: Place::START,
        }
    }

    /// Finds out what of a prompt each replica has in use.
    pub(super) fn look_up(&mut self, request: &Request) {
        let text = request.prompt.shared();
        self.tokens = request.prompt_tokens;
        self.place = Place::START;
        let (mut all, mut shared) = (Whole::NONE, Whole::NONE);
        for (new, &size) in self.new_blocks.iter_mut().zip(&self.block_sizes) {
            *new = all.blocks(self.tokens, size);
        }
        while self.trie.step(&mut self.place, text, self.tokens) {
            for &(replica, _) in &self.trie.get(self.place.branch).note.by_replica {
                let size = self.block_sizes[replica as usize];
                let known = shared.blocks(self.place.tokens, size);
                self.new_blocks[replica as usize] = all.blocks(self.tokens, size) - known;
            }
        }
    }

    /// Different blocks in use on each replica.
    pub(super) fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Those that the prompt that was looked up last would add to them.
    pub(super) fn new_blocks(&self) -> &[u32] {
        &self.new_blocks
    }

    /// The request that was looked up last goes to a replica.
    pub(super) fn begin(&mut self, request: &Request, replica: usize) -> ActivePrompt {
        self.blocks[replica] += u64::from(self.new_blocks[replica]);
        let tip = match &request.prompt {
            Prompt::Unique => None,
            Prompt::Pieces(text) => Some(self.insert(text, replica)),
        };
        ActivePrompt {
            replica: replica as u32,
            tokens: self.tokens,
            tip,
        }
    }

    /// The text that was looked up last is in use on a replica. Where it ends.
    fn insert(&mut self, text: &[Piece], replica: usize) -> u32 {
        let mut place = self.place;
        let run = self.trie.get(place.branch);
        if place.tokens < run.end() {
            let tokens = place.tokens - run.from;
            place.branch = self.trie.cut(place.branch, tokens, |users| Users {
                requests: users.requests,
                by_replica: users.by_replica.clone(),
            });
        }
        if place.tokens < self.tokens {
            place.branch = self.trie.grow(place, text, self.tokens, Users::default());
        }
        let mut run = place.branch;
        while run != TRUNK {
            self.trie.note_mut(run).add(replica);
            run = self.trie.get(run).parent;
        }
        place.branch as u32
    }

    /// The request has left.
    pub(super) fn end(&mut self, prompt: ActivePrompt) {
        let ActivePrompt { tokens, tip, .. } = prompt;
        let replica = prompt.replica();
        let shared = tip.map_or(0, |tip| self.remove(tip as usize, replica));
        let size = self.block_sizes[replica];
        self.blocks[replica] -= u64::from(tokens / size - shared / size);
    }

    /// A text is used by one request fewer. How many of its tokens others use there.
    fn remove(&mut self, tip: usize, replica: usize) -> u32 {
        let (mut run, mut shared) = (tip, 0);
        while run != TRUNK {
            if self.trie.note_mut(run).remove(replica) {
                shared = shared.max(self.trie.get(run).end());
            }
            run = self.trie.get(run).parent;
        }
        let mut last = tip;
        if last != TRUNK && self.trie.get(last).note.requests == 0 {
            last = self.trie.remove(last);
        }
        // Runs branch, or somebody's prompt ends there; so there are no more of them than the prompts in use need.
        if last != TRUNK
            && let run = self.trie.get(last)
            && let Some(child) = run.only_child()
            && self.trie.get(child).note.requests == run.note.requests
        {
            self.trie.join(last, |_, _| ());
        }
        shared
    }

    /// Blocks in use on a replica if it gets the prompt that was looked up last.
    #[cfg(test)]
    pub(super) fn blocks_with(&self, replica: usize) -> u64 {
        self.blocks[replica] + u64::from(self.new_blocks[replica])
    }

    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.trie.iter().count() - 1
    }
}

#[cfg(test)]
mod tests;
