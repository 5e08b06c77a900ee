//! The pool of physical blocks, its free queue, and the prefix cache (sections 1.6 to 1.8).

use std::collections::{BTreeMap, VecDeque};

use super::sequence::Sequence;
use super::{TwinConfig, TwinLastBlock};

/// Number of a physical block.
pub(super) type BlockId = usize;

/// The block that stands where a window has passed (V1-29).
const NULL: BlockId = 0;

/// A token's identity: segment and index in it. Equal pairs are equal tokens.
pub(super) type Token = (u64, u32);

/// Stands for all tokens from the start of a sequence to the end of one block (V1-42).
pub(super) type Prefix = usize;

/// Gives equal prefixes equal names. vLLM chains hashes; a table of what was seen cannot collide.
#[derive(Debug, Default)]
pub(super) struct PrefixNames {
    names: BTreeMap<(Option<Prefix>, Vec<Token>), Prefix>,
}

impl PrefixNames {
    /// Names the prefix that continues `parent` by one full block.
    pub(super) fn name(&mut self, parent: Option<Prefix>, block: &[Token]) -> Prefix {
        let next = self.names.len();
        *self.names.entry((parent, block.to_vec())).or_insert(next)
    }
}

/// One physical block.
#[derive(Debug, Clone, Default)]
struct Block {
    /// Sequences that hold it; in the free queue when 0.
    references: u32,
    /// The prefix it is registered under, if any.
    prefix: Option<Prefix>,
}

/// What an admission adds to an allocation (V1-30).
#[derive(Debug, Clone, Copy)]
pub(super) struct Admission<'a> {
    /// Blocks found by prefix lookup.
    pub(super) hits: &'a [BlockId],
    /// Tokens behind them whose KV comes from outside.
    pub(super) external: u32,
    /// The KV comes while the sequence waits aside: nothing is registered yet, and so many blocks are left alone.
    pub(super) aside: Option<usize>,
    /// Whether `running` holds any sequence, so that the watermark applies (V1-32).
    pub(super) others_run: bool,
}

/// All blocks of the engine.
#[derive(Debug)]
pub(super) struct BlockPool {
    config: TwinConfig,
    blocks: Vec<Block>,
    /// Free blocks; allocation takes the head (V1-36).
    free: VecDeque<BlockId>,
    /// Blocks registered under each prefix, earliest first (V1-49: duplicates stay apart).
    cached: BTreeMap<Prefix, Vec<BlockId>>,
}

impl BlockPool {
    /// Makes a pool with all blocks free in ascending order, except the null block 0 (V1-29, V1-36).
    pub(super) fn new(config: &TwinConfig) -> Self {
        Self {
            config: config.clone(),
            blocks: vec![Block::default(); config.num_gpu_blocks],
            free: (1..config.num_gpu_blocks).collect(),
            cached: BTreeMap::new(),
        }
    }

    /// Length of the free queue: cached blocks nobody holds are free (V1-29).
    pub(super) fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// Finds the cached blocks a sequence starts with; changes nothing (V1-40, V1-45).
    ///
    /// At least the last token must be computed anew, so a prompt that is cached to its end and fills its last
    /// block gives that block up (V1-46). Of duplicates the one registered first counts (V1-49).
    pub(super) fn lookup(&self, sequence: &Sequence) -> Vec<BlockId> {
        if !self.config.enable_prefix_caching {
            return Vec::new();
        }
        let most = ((sequence.known() - 1) / self.config.block_size) as usize;
        let mut hits = Vec::new();
        for prefix in sequence.prefixes.iter().take(most) {
            match self.cached.get(prefix).and_then(|blocks| blocks.first()) {
                Some(&block) => hits.push(block),
                None => break,
            }
        }
        if self.config.last_block() == TwinLastBlock::Dropped {
            hits.pop(); // D-11, D-21
        }
        hits
    }

    /// Gives a sequence the blocks for its next `n` tokens, or changes nothing and returns `false` (V1-30).
    ///
    /// On success the blocks that will be full after the step are registered at once (V1-43): a request
    /// admitted later in the same step can hit them.
    pub(super) fn allocate(&mut self, sequence: &mut Sequence, n: u32, admission: Option<Admission>) -> bool {
        let hits = admission.map_or(&[][..], |admission| admission.hits);
        let external = admission.map_or(0, |admission| admission.external);
        let computed = sequence.computed + self.tokens_in(hits) + external;
        let held = hits.len() + sequence.blocks.len();
        let limit = self.config.max_model_len;
        // V1-35: even where the sequence then gets nothing.
        let settled = computed - u32::from(self.config.windows_settle) * sequence.in_flight;
        // 0.11 `allocate_slots` counts slots against the blocks there are: a preempted share left tokens and none (V1-26).
        let has_none = admission.is_some() && sequence.blocks.is_empty();
        let settled = settled - u32::from(has_none) * sequence.computed;
        self.pass_windows(sequence, settled);
        let lookahead = self.config.drafts.as_ref().map_or(0, |drafts| {
            drafts.lookahead(admission.is_some() && sequence.computed == 0)
        });
        let slots = self.blocks_for((computed + n + lookahead).min(limit));
        // States come with the first block and stay.
        let states = self.config.states - sequence.states.len();
        let mut new = slots.saturating_sub(held) + states;
        for (group, blocks) in sequence.further.iter().enumerate() {
            let passed = match admission {
                Some(_) => self.passed(self.config.groups[group + 1], settled),
                None => blocks.len(),
            };
            new += slots.saturating_sub(passed);
        }
        // A hit block that nobody holds sits in the free queue and would leave it.
        let leaving = hits
            .iter()
            .filter(|&&block| self.blocks[block].references == 0)
            .count();
        let watermark = match admission {
            Some(admission) if admission.others_run => self.config.watermark_blocks,
            _ => 0,
        };
        if admission.is_some() && self.config.reserve_full_isl {
            // V1-31: the whole known sequence must fit, though only the first chunk is allocated.
            let known = self.blocks_for(sequence.known().min(limit));
            let mut whole = self.capped(0, known).saturating_sub(held) + states;
            for group in 1..self.config.groups.len() {
                // vLLM takes a hit for blocks that are there, those before the window apart; the rest it takes from the queue.
                let passed = self.passed(self.config.groups[group], settled);
                whole += self.capped(group, known).saturating_sub(hits.len()) + hits.len() - passed;
            }
            if whole + leaving + watermark > self.free.len() {
                return false;
            }
        }
        let aside = admission.and_then(|admission| admission.aside);
        if new + leaving + watermark + aside.unwrap_or(0) > self.free.len() {
            return false;
        }
        for &block in hits {
            self.take_hit(block);
            sequence.blocks.push(block);
        }
        sequence.registered += hits.len();
        while sequence.blocks.len() < slots {
            let block = self.take_head();
            sequence.blocks.push(block);
        }
        for group in 0..sequence.further.len() {
            if admission.is_some() {
                let passed = self.passed(self.config.groups[group + 1], settled);
                sequence.further[group] = vec![NULL; passed];
            }
            while sequence.further[group].len() < slots {
                let block = self.take_head();
                sequence.further[group].push(block);
            }
        }
        for _ in 0..states {
            let block = self.take_head();
            sequence.states.push(block);
        }
        if aside.is_some() {
            return true;
        }
        // V1-43: tokens not known yet have no identity, hence the cap at `n_tok`.
        self.register(sequence, (computed + n).min(sequence.known()));
        true
    }

    /// Registers the blocks filled by a sequence's first `tokens` tokens, as far as not done yet.
    pub(super) fn register(&mut self, sequence: &mut Sequence, tokens: u32) {
        if !self.config.enable_prefix_caching {
            return;
        }
        let full = (tokens / self.config.block_size) as usize;
        let full = full.min(sequence.prefixes.len()); // D-11: a block may lack its name yet.
        while sequence.registered < full {
            let block = sequence.blocks[sequence.registered];
            let prefix = sequence.prefixes[sequence.registered];
            assert!(self.blocks[block].prefix.is_none(), "a block is registered once");
            self.blocks[block].prefix = Some(prefix);
            self.cached.entry(prefix).or_default().push(block);
            sequence.registered += 1;
        }
    }

    /// Takes all blocks from a sequence, the deepest first (V1-37).
    ///
    /// Blocks nobody holds any more join the free queue and keep their identity (V1-27): those that have one
    /// at the tail, the others at the head or, in 0.11, all at the tail (V1-38).
    pub(super) fn release(&mut self, sequence: &mut Sequence) {
        let mut to_head = Vec::new();
        let mut to_tail = Vec::new();
        for blocks in &mut sequence.further {
            for (nth, block) in std::mem::take(blocks).into_iter().enumerate().rev() {
                if block == NULL {
                    continue;
                }
                self.blocks[block].references -= 1;
                // It would have a hash where the first group's has one.
                if self.config.unhashed_freed_blocks_to_head && nth >= sequence.registered {
                    to_head.push(block);
                } else {
                    to_tail.push(block);
                }
            }
        }
        for block in std::mem::take(&mut sequence.states) {
            self.blocks[block].references -= 1;
            to_tail.push(block);
        }
        sequence.blocks.retain(|&block| block != NULL);
        for block in std::mem::take(&mut sequence.blocks).into_iter().rev() {
            self.blocks[block].references -= 1;
            if self.blocks[block].references > 0 {
                continue;
            }
            if self.config.unhashed_freed_blocks_to_head && self.blocks[block].prefix.is_none() {
                to_head.push(block);
            } else {
                to_tail.push(block);
            }
        }
        for block in to_head.into_iter().rev() {
            self.free.push_front(block);
        }
        self.free.extend(to_tail);
        sequence.registered = 0;
    }

    /// Gives back the blocks that lie wholly before the window of the next token (V1-35).
    fn pass_windows(&mut self, sequence: &mut Sequence, settled: u32) {
        let groups = std::iter::once(&mut sequence.blocks).chain(&mut sequence.further);
        for (group, blocks) in groups.enumerate() {
            let passed = self.passed(self.config.groups[group], settled);
            for block in blocks.iter_mut().take(passed) {
                if *block != NULL {
                    self.blocks[*block].references -= 1;
                    self.free.push_back(*block);
                    *block = NULL;
                }
            }
        }
    }

    /// Blocks wholly before the window of the token behind the first `settled` ones.
    fn passed(&self, window: Option<u32>, settled: u32) -> usize {
        let Some(window) = window else { return 0 };
        // The next token sees itself and `window − 1` before it.
        let first_seen = i64::from(settled) - (i64::from(window) - 1);
        (first_seen.max(0) / i64::from(self.config.block_size)) as usize
    }

    /// Of so many blocks, those that a sequence ever has at once.
    fn capped(&self, group: usize, blocks: usize) -> usize {
        let Some(window) = self.config.groups[group] else {
            return blocks;
        };
        let steps = match self.config.windows_settle {
            true => self.config.queue_depth as u32,
            false => 1,
        };
        let tokens = window - 1 + steps * self.config.max_num_batched_tokens;
        blocks.min(self.blocks_for(tokens.min(self.config.max_model_len)) + 1)
    }

    /// Shares a block found by lookup; a free one leaves the middle of the queue (V1-39).
    fn take_hit(&mut self, block: BlockId) {
        if self.blocks[block].references == 0 {
            self.free.retain(|&free| free != block);
        }
        self.blocks[block].references += 1;
    }

    /// Takes the head of the free queue; if it was cached, it is evicted at this moment (V1-36).
    fn take_head(&mut self) -> BlockId {
        let block = self
            .free
            .pop_front()
            .expect("`allocate` has counted the free blocks");
        if let Some(prefix) = self.blocks[block].prefix.take() {
            let blocks = self
                .cached
                .get_mut(&prefix)
                .expect("a named block is in the cache");
            blocks.retain(|&cached| cached != block);
        }
        self.blocks[block].references = 1;
        block
    }

    /// Blocks that hold `tokens` tokens.
    pub(super) fn blocks_for(&self, tokens: u32) -> usize {
        tokens.div_ceil(self.config.block_size) as usize
    }

    /// Tokens held by full `blocks`.
    fn tokens_in(&self, blocks: &[BlockId]) -> u32 {
        let blocks = u32::try_from(blocks.len()).expect("a sequence is far shorter than 2^32 blocks");
        blocks * self.config.block_size
    }
}
