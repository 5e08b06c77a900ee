//! The twin's blocks: a queue of free ones, and which prefix lies in each that is cached.
//!
//! Of when these engines register a block the rules say nothing; here it is when the step that fills it ends. A freed block
//! goes to the tail of the queue, the deepest of a sequence first, as 0.11 has it (V1-38).

use std::collections::BTreeMap;

use plimsoll::workload::Prompt;

use super::{Seq, State, World};

/// A token: what it is made of, and where in that it stands.
pub(super) type Token = (u64, u32);

/// One block.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    users: u32,
    /// All tokens up to its end.
    prefix: Option<Vec<Token>>,
}

/// Blocks in which a prefix is cached, the one registered first in front (V1-49).
pub(super) type Cached = BTreeMap<Vec<Token>, Vec<usize>>;

/// The tokens of a request, prompt and answer.
pub(super) fn spell(request: &plimsoll::workload::Request) -> Vec<Token> {
    let Prompt::Pieces(pieces) = &request.prompt else {
        panic!("pieces are what these tests send")
    };
    let spell = |segment: u64, start: u32, tokens: u32| (start..start + tokens).map(move |at| (segment, at));
    let prompt = pieces
        .iter()
        .flat_map(|piece| spell(piece.segment.0, piece.start, piece.tokens));
    let answer = spell(
        request.output_segment.0,
        request.prompt_tokens,
        request.output_tokens,
    );
    prompt.chain(answer).collect()
}

impl World<'_> {
    pub(super) fn size(&self) -> usize {
        self.config.block_size as usize
    }

    pub(super) fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.size())
    }

    /// The cached blocks with which a waiting sequence would start; its last token is never among them (V1-45, V1-46).
    fn hits(&self, at: usize) -> Vec<usize> {
        let seq = &self.seqs[at];
        if !self.config.enable_prefix_caching || seq.state != State::Waiting {
            return Vec::new();
        }
        let most = (seq.known() - 1) / self.size();
        let prefixes = (1..=most).map(|blocks| &seq.tokens[..blocks * self.size()]);
        let first = |prefix| self.cached.get(prefix).and_then(|blocks| blocks.first().copied());
        prefixes.map_while(first).collect()
    }

    /// Tokens whose KV is there, or would be found.
    pub(super) fn computed(&self, at: usize) -> usize {
        self.seqs[at].kv.max(self.hits(at).len() * self.size())
    }

    pub(super) fn missing(&self, at: usize) -> usize {
        self.seqs[at].known() - self.computed(at)
    }

    /// Gives blocks for `tokens` tokens, those that are found among them; whether there were enough.
    pub(super) fn hold(&mut self, at: usize, tokens: usize) -> bool {
        let hits = self.hits(at);
        let has = self.seqs[at].blocks.len() + hits.len();
        let lacks = self.blocks_for(tokens).saturating_sub(has);
        let unused = hits.iter().filter(|&&block| self.blocks[block].users == 0);
        if lacks + unused.count() > self.free.len() {
            return false;
        }
        for &block in &hits {
            self.free.retain(|&free| free != block);
            self.blocks[block].users += 1;
        }
        let seq = &mut self.seqs[at];
        if seq.state == State::Waiting {
            (seq.kv, seq.registered) = (hits.len() * self.config.block_size as usize, hits.len());
            seq.found.get_or_insert(seq.kv);
        }
        seq.blocks.extend(hits);
        self.take(at, lacks);
        true
    }

    /// Blocks from the head of the queue; what is cached in them is lost.
    pub(super) fn take(&mut self, at: usize, blocks: usize) {
        for _ in 0..blocks {
            let block = self.free.remove(0);
            if let Some(prefix) = self.blocks[block].prefix.take() {
                self.cached
                    .get_mut(&prefix)
                    .unwrap()
                    .retain(|&cached| cached != block);
            }
            self.blocks[block].users = 1;
            self.seqs[at].blocks.push(block);
        }
    }

    /// What a sequence has computed can be found.
    pub(super) fn register(&mut self, at: usize) {
        let Seq { kv, in_batch, .. } = self.seqs[at];
        if !self.config.enable_prefix_caching || in_batch {
            return;
        }
        while (self.seqs[at].registered + 1) * self.size() <= kv {
            let seq = &mut self.seqs[at];
            let block = seq.blocks[seq.registered];
            seq.registered += 1;
            let prefix = seq.tokens[..seq.registered * self.config.block_size as usize].to_vec();
            self.cached.entry(prefix.clone()).or_default().push(block);
            self.blocks[block].prefix = Some(prefix);
        }
    }

    pub(super) fn drop_blocks(&mut self, at: usize) {
        if !self.seqs[at].blocks.is_empty() {
            self.register(at);
        }
        self.seqs[at].registered = 0;
        for block in std::mem::take(&mut self.seqs[at].blocks).into_iter().rev() {
            self.blocks[block].users -= 1;
            if self.blocks[block].users == 0 {
                self.free.push(block);
            }
        }
    }
}
