//! The books: who is inside, in which queue, and who holds which blocks.
//!
//! Law: free blocks and the blocks that sequences hold add up to the pool; nothing else changes either.

use std::collections::VecDeque;
use std::ops::Range;

use super::ScheduledConfig;
use super::sequence::{Phase, Sequence};
use crate::engine::Handle;
use crate::engine::pack::Pack;
use crate::engine::roster::Roster;
use crate::engine::scheduler::Denied;
use crate::facts::{Completion, Fact, Outcome};
use crate::ids::{ReplicaId, RequestId};
use crate::kv::BlockPool;
use crate::units::Picos;

/// The state that a decision changes.
pub(super) struct Ledger {
    pub(super) replica: ReplicaId,
    pub(super) max_model_len: u32,
    pub(super) pool: BlockPool,
    pub(super) block_size: u32,
    pub(super) sequences: Roster<Sequence>,
    /// Sequences whose clients wait for them.
    pub(super) inside: usize,
    pub(super) waiting: VecDeque<usize>,
    /// In order of admission.
    pub(super) running: Vec<usize>,
    /// Those of them who decode together.
    pub(super) pack: Pack,
    /// The pack's clock when what its members had computed by then was last made known to the pool.
    pub(super) registered: u64,
    /// Requests that were admitted, since ever.
    pub(super) numbered: u64,
    /// Everybody who decodes was given a token: where among the shares are those who are not packed.
    pub(super) decoded: Option<Range<usize>>,
    /// End of the last step in which anybody decoded.
    pub(super) last_decode: Picos,
    pub(super) swapped: VecDeque<usize>,
    pub(super) swap_total: u32,
    pub(super) swap_free: u32,
    /// Who computes in the step that is composed, in the order of the scheduler's words.
    pub(super) shares: Vec<usize>,
    /// What observers have to hear of the decision.
    pub(super) told: Vec<Fact<'static>>,
    pub(super) preempted: Vec<RequestId>,
    /// Requests that the decision refused.
    pub(super) refused: Vec<Completion>,
    /// Blocks moved to and from the host's memory by the decision.
    pub(super) moved_blocks: u32,
    pub(super) wake: Option<Picos>,
    pub(super) repeat: Option<u32>,
    pub(super) is_halted: bool,
    /// Whoever has ended stays until the next step is launched.
    pub(super) ends_late: bool,
    /// Sequences that stay so: their clients have their answers.
    pub(super) ended: Vec<usize>,
    /// A batch was closed, ever.
    pub(super) binds: bool,
}

impl Ledger {
    /// Empty books.
    pub(super) fn new(replica: ReplicaId, config: &ScheduledConfig) -> Ledger {
        Ledger {
            replica,
            max_model_len: config.max_model_len,
            pool: pool(config),
            block_size: config.block_size,
            sequences: Roster::default(),
            inside: 0,
            waiting: VecDeque::new(),
            running: Vec::new(),
            pack: Pack::new(config.block_size, true),
            registered: 0,
            numbered: 0,
            decoded: None,
            last_decode: Picos::ZERO,
            swapped: VecDeque::new(),
            swap_total: config.swap_blocks,
            swap_free: config.swap_blocks,
            shares: Vec::new(),
            told: Vec::new(),
            preempted: Vec::new(),
            refused: Vec::new(),
            moved_blocks: 0,
            wake: None,
            repeat: None,
            is_halted: false,
            ends_late: config.ends_late(),
            ended: Vec::new(),
            binds: false,
        }
    }

    /// Empties the books after everybody has left, and the cache with them.
    pub(super) fn restart(&mut self, config: &ScheduledConfig, now: Picos) {
        self.pool = pool(config);
        self.pack = Pack::new(config.block_size, true);
        self.registered = 0;
        self.last_decode = now;
        self.sequences.clear();
        self.waiting.clear();
        self.running.clear();
        self.swapped.clear();
        self.ended.clear();
        self.swap_free = self.swap_total;
        self.inside = 0;
        self.begin_decision();
    }

    /// Forgets the decision before.
    pub(super) fn begin_decision(&mut self) {
        self.shares.clear();
        self.preempted.clear();
        self.moved_blocks = 0;
        (self.wake, self.repeat, self.decoded) = (None, None, None);
    }

    /// Somebody was given a token.
    pub(super) fn has_shares(&self) -> bool {
        !self.shares.is_empty() || (self.decoded.is_some() && self.pack.members > 0)
    }

    /// Takes in a request; it waits when it is drained.
    pub(super) fn insert(&mut self, request: crate::workload::Request, now: Picos) -> Handle {
        let (max_model_len, caches) = (self.max_model_len, self.pool.caches());
        self.inside += 1;
        self.sequences
            .insert(|handle| Sequence::new(request, now, handle, max_model_len, caches))
    }

    /// The slot of a sequence whose client still waits.
    pub(super) fn slot(&self, handle: Handle) -> Result<usize, Denied> {
        match self.sequences.get(handle) {
            Some(_) => Ok(handle.slot),
            None => Err(Denied::Gone),
        }
    }

    /// Blocks that hold `tokens` tokens.
    #[inline]
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        self.pool.blocks_for(tokens)
    }

    /// Takes a sequence out of the waiting queue.
    pub(super) fn unqueue(&mut self, slot: usize) {
        if self.waiting.front() == Some(&slot) {
            self.waiting.pop_front();
        } else {
            self.waiting.retain(|&other| other != slot);
        }
    }

    /// What has been computed may be found by others, once a block is full.
    pub(super) fn register(&mut self, slot: usize) {
        let sequence = &self.sequences[slot];
        self.register_up_to(slot, sequence.computed, sequence.blocks);
    }

    /// The same of a sequence that has computed so many tokens and has so many blocks for them.
    pub(super) fn register_up_to(&mut self, slot: usize, computed: u32, blocks: u32) {
        let sequence = &mut self.sequences[slot];
        let fills_a_block = computed / self.block_size > sequence.held.registered();
        if fills_a_block && self.pool.caches() && sequence.padding == 0 && sequence.filler == 0 {
            let allocated = blocks * self.block_size;
            let held = &mut sequence.held;
            self.pool.register(held, &sequence.pieces, computed, allocated);
        }
    }

    /// Frees the blocks that a running sequence holds; what it has computed stays cached.
    pub(super) fn release(&mut self, slot: usize) {
        let block_size = self.block_size;
        let sequence = &mut self.sequences[slot];
        let held = std::mem::take(&mut sequence.held);
        let allocated = std::mem::take(&mut sequence.blocks) * block_size;
        let computed = if sequence.padding == 0 {
            sequence.computed
        } else {
            0
        };
        let registered = computed.min(sequence.request.prompt_tokens + sequence.outputs);
        self.pool.release(held, &sequence.pieces, registered, allocated);
    }

    /// A sequence gives its share of the step back.
    pub(super) fn drop_share(&mut self, slot: usize) {
        if std::mem::take(&mut self.sequences[slot].share) == 0 {
            return;
        }
        let at = self.shares.iter().position(|&other| other == slot);
        let at = at.expect("whoever has a share is among them");
        self.shares.remove(at);
        if let Some(decoded) = &mut self.decoded {
            decoded.start -= usize::from(at < decoded.start);
            decoded.end -= usize::from(at < decoded.end);
        }
    }

    /// Takes a sequence out of every queue and frees what it holds.
    pub(super) fn take_out(&mut self, slot: usize) {
        match self.sequences[slot].phase {
            Phase::Waiting => self.unqueue(slot),
            Phase::Running => {
                self.running.retain(|&other| other != slot);
                self.release(slot);
            }
            Phase::Swapped => {
                self.swapped.retain(|&other| other != slot);
                self.swap_free += std::mem::take(&mut self.sequences[slot].blocks);
            }
        }
    }

    /// Those who have ended leave. Whether there were any.
    pub(super) fn dismiss_ended(&mut self) -> bool {
        let ended = std::mem::take(&mut self.ended);
        for &slot in &ended {
            self.take_out(slot);
            self.sequences.remove(slot);
        }
        !ended.is_empty()
    }

    /// The story of a request that leaves with `output_tokens` tokens; the sequence stays where it is.
    pub(super) fn answer(&mut self, slot: usize, now: Picos, outcome: Outcome) -> Completion {
        let sequence = &mut self.sequences[slot];
        sequence.is_answered = true;
        self.inside -= 1;
        let (story, request) = (&sequence.story, &sequence.request);
        // Who gets its answer whole has nothing of it before.
        let delivered = if story.has_token() { sequence.outputs } else { 0 };
        story.end(request, self.replica, now, outcome, delivered)
    }

    /// Everything adds up; O(sequences), for tests and debug builds.
    #[cfg(debug_assertions)]
    pub(super) fn check(&self) {
        if !self.pool.caches() {
            let held: u32 = self.running.iter().map(|&slot| self.view(slot).blocks).sum();
            assert_eq!(
                held + self.pool.free(),
                self.pool.total(),
                "blocks in = blocks out"
            );
        }
        let host: u32 = self.swapped.iter().map(|&slot| self.sequences[slot].blocks).sum();
        assert_eq!(host + self.swap_free, self.swap_total, "the host's blocks add up");
    }
}

fn pool(config: &ScheduledConfig) -> BlockPool {
    // The pool leaves out a null block, which these engines do not have. V0's freed blocks go to the tail.
    BlockPool::new(
        config.num_gpu_blocks + 1,
        config.block_size,
        config.enable_prefix_caching,
        false,
    )
}
