//! A naive twin of TensorRT-LLM's executor: one list of active requests, looked through from its head in every pass, blocks
//! counted one by one as the engine's own schedulers count them.
//!
//! Read from `capacityScheduler.cpp`, `microBatchScheduler.cpp`, `kvCacheManager.cpp` and `py_executor.py` of 1.2, whose
//! functions are named beside what they decide. It shares the cost model with the engine under test and nothing else.

mod blocks;
mod random;
mod ranks;

use std::collections::{BTreeSet, VecDeque};

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{Chunk, StepCost, StepLoad};
use plimsoll::engine::ScheduleRecord;
use plimsoll::engine::trtllm::{BlockReuse, CapacityPolicy, TrtllmConfig};
use plimsoll::ids::{RequestId, SegmentId};
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::{Piece, Prompt, Request};

use blocks::{Blocks, Token};

/// `LlmRequestState`, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Context,
    Generating,
    ToComplete,
    Gone,
}

#[derive(Clone, Debug)]
pub(crate) struct Seq {
    id: RequestId,
    request: Request,
    state: State,
    /// Outputs it will have.
    target: usize,
    /// Tokens of what it computes as its context: its prompt, and once it was paused its outputs, too.
    context: usize,
    /// Tokens whose KV is computed, steps in flight included.
    kv: usize,
    blocks: usize,
    /// Outputs sampled, those in flight included.
    launched: usize,
    /// When each was there.
    had: Vec<Picos>,
    /// When it started, in order of starts.
    order: usize,
    has_started: bool,
    pauses: u32,
    end: Option<(Outcome, Picos)>,
}

impl Seq {
    /// Tokens of its longest answer.
    fn most(&self, config: &TrtllmConfig) -> usize {
        let room = config.max_seq_len - self.request.prompt_tokens;
        self.request.max_tokens.min(room) as usize
    }

    fn whole(&self, config: &TrtllmConfig) -> usize {
        let tokens = self.request.prompt_tokens as usize + self.most(config);
        tokens.div_ceil(config.tokens_per_block as usize)
    }

    /// Its first tokens, prompt and outputs.
    fn tokens(&self, count: usize) -> Vec<Token> {
        let pieces = match &self.request.prompt {
            Prompt::Pieces(pieces) => pieces.to_vec(),
            Prompt::Unique => vec![Piece {
                segment: SegmentId(u64::MAX - self.id.0),
                start: 0,
                tokens: self.request.prompt_tokens,
            }],
        };
        let tokens = |piece: Piece| (0..piece.tokens).map(move |at| (piece.segment.0, piece.start + at));
        let outputs = (self.request.prompt_tokens..).map(|at| (self.request.output_segment.0, at));
        let all = pieces.into_iter().flat_map(tokens).chain(outputs);
        all.take(count).collect()
    }

    fn prompt(&self) -> Vec<Token> {
        self.tokens(self.request.prompt_tokens as usize)
    }

    /// Its length ends it, which the scheduler sees coming.
    fn ends_by_length(&self, config: &TrtllmConfig) -> bool {
        self.target == self.most(config) || !self.request.ends_by_eos()
    }
}

/// Who computes how many tokens behind which.
type Share = (usize, usize, usize);

struct Launched {
    shares: Vec<Share>,
    end: Picos,
}

struct World<'a> {
    config: &'a TrtllmConfig,
    now: Picos,
    seqs: Vec<Seq>,
    /// In order of arrival, whoever has not left.
    active: Vec<usize>,
    in_flight: VecDeque<Launched>,
    gpu_free: Picos,
    starts: usize,
    waited: u32,
    /// All ranks put their prompts off.
    are_put_off: bool,
    paused: Vec<usize>,
    reuse: Option<Blocks>,
}

impl World<'_> {
    fn free(&self) -> usize {
        if let Some(reuse) = &self.reuse {
            return reuse.free();
        }
        let used: usize = self.seqs.iter().map(|seq| seq.blocks).sum();
        self.config.num_blocks as usize - used
    }

    fn size(&self) -> usize {
        self.config.tokens_per_block as usize
    }

    /// `GuaranteedNoEvictScheduler::impl`: who fits, decodes first.
    fn whole_sequences_fit(&self, is_static: bool) -> Vec<usize> {
        let mut available = self.free() as i64;
        let lacks = |at: usize| (self.seqs[at].whole(self.config) - self.seqs[at].blocks) as i64;
        let mut fitting = Vec::new();
        let mut pending = Vec::new();
        for &at in &self.active {
            if fitting.len() >= self.config.max_batch_size as usize {
                break;
            }
            match self.seqs[at].state {
                State::Generating | State::ToComplete => {
                    fitting.push(at);
                    available -= lacks(at);
                }
                _ => pending.push(at),
            }
        }
        if is_static && !fitting.is_empty() {
            return fitting;
        }
        // By the server's rules in order of arrival, whoever has begun or not, by which nobody may go on (TR-8).
        pending.sort_by_key(|&at| !self.seqs[at].has_started);
        let mut contributed = BTreeSet::new();
        for at in pending {
            if let Some(reuse) = self.reuse.as_ref().filter(|_| !is_static) {
                // `beneficialToSkip`.
                let new = reuse.new_context_block(&self.seqs[at].prompt());
                let is_made = new.is_some_and(|block| !contributed.insert(block));
                if is_made && !self.seqs[at].has_started {
                    continue;
                }
            }
            if fitting.len() >= self.config.max_batch_size as usize || lacks(at) > available {
                break;
            }
            fitting.push(at);
            available -= lacks(at);
        }
        fitting
    }

    /// `getNeededBlocksOneStep`.
    fn one_step(&self, at: usize) -> usize {
        let seq = &self.seqs[at];
        match seq.state {
            State::Context if seq.has_started => 0,
            State::Context => seq.context.div_ceil(self.size()),
            _ => (seq.kv + 1).div_ceil(self.size()) - seq.kv.div_ceil(self.size()),
        }
    }

    /// `MaxUtilizationScheduler::operator()`: who fits, and who is paused for them.
    fn next_steps_fit(&mut self) -> Vec<usize> {
        let mut free = self.free();
        let mut scheduled = 0;
        let mut fitting = Vec::new();
        let (mut at, mut end) = (0, self.active.len());
        while at < end {
            let who = self.active[at];
            let has_seat = fitting.len() < self.config.max_batch_size as usize;
            if has_seat && scheduled + self.one_step(who) <= free {
                scheduled += self.one_step(who);
                fitting.push(who);
                at += 1;
                continue;
            }
            let started = |&place: &usize| self.seqs[self.active[place]].has_started;
            let Some(last) = (at..end).rev().find(started) else {
                break;
            };
            free += self.seqs[self.active[last]].blocks;
            self.paused.push(self.active[last]);
            end = last;
        }
        fitting
    }

    /// `MicroBatchScheduler::operator()`: contexts and how much of them, then decodes.
    fn micro_batch(&self, fitting: &[usize]) -> (Vec<(usize, usize)>, Vec<usize>) {
        let (mut contexts, mut decodes) = (Vec::new(), Vec::new());
        let mut to_chunk = Vec::new();
        let mut tokens = 0;
        let budget = self.config.max_num_tokens as usize;
        for &at in fitting {
            let seq = &self.seqs[at];
            match seq.state {
                State::ToComplete | State::Gone => continue,
                State::Generating => {
                    if tokens + 1 > budget {
                        break;
                    }
                    decodes.push(at);
                    tokens += 1;
                }
                State::Context if self.config.enable_chunked_prefill => to_chunk.push(at),
                State::Context => {
                    if tokens + seq.context > budget {
                        break;
                    }
                    contexts.push((at, seq.context));
                    tokens += seq.context;
                }
            }
            if contexts.len() + to_chunk.len() + decodes.len() >= self.config.max_batch_size as usize {
                break;
            }
        }
        let mut left = budget - tokens;
        for at in to_chunk {
            let missing = self.seqs[at].context - self.seqs[at].kv;
            let share = match missing <= left {
                true => missing,
                false => left / self.size() * self.size(),
            };
            left -= share;
            if share > 0 {
                contexts.push((at, share));
            }
        }
        (contexts, decodes)
    }

    /// `_schedule`, with `_waiting_requests`.
    fn schedule(&mut self) -> Vec<Share> {
        self.paused.clear();
        let fitting = match self.config.capacity_scheduler_policy {
            CapacityPolicy::GuaranteedNoEvict => self.whole_sequences_fit(false),
            CapacityPolicy::StaticBatch => self.whole_sequences_fit(true),
            CapacityPolicy::MaxUtilization => self.next_steps_fit(),
        };
        let (mut contexts, decodes) = self.micro_batch(&fitting);
        if self.are_put_off {
            contexts.clear();
        }
        if !contexts.is_empty() && !decodes.is_empty() {
            let prompts: usize = contexts.iter().map(|&(at, _)| self.seqs[at].context).sum();
            let few = prompts + decodes.len() < self.config.batch_wait_tokens as usize;
            if few && self.waited < self.config.batch_wait_iters {
                self.waited += 1;
                contexts.clear();
            } else {
                self.waited = 0;
            }
        }
        for at in self.paused.clone() {
            self.pause(at);
        }
        let mut shares = Vec::new();
        for (at, _) in &contexts {
            if !self.seqs[*at].has_started {
                self.starts += 1;
                self.seqs[*at].order = self.starts;
            }
        }
        // `sortRequests`: last parts first.
        contexts.sort_by_key(|&(at, tokens)| self.seqs[at].kv + tokens < self.seqs[at].context);
        for (at, mut tokens) in contexts {
            if !self.seqs[at].has_started {
                self.seqs[at].has_started = true;
                // `addSequence`: all of the context from its first chunk on.
                self.seqs[at].blocks = self.seqs[at].context.div_ceil(self.size());
                tokens = self.populate(at, tokens);
            }
            shares.push((at, self.seqs[at].kv, tokens));
        }
        for at in decodes {
            // `addToken`.
            let tokens = self.seqs[at].kv + 1;
            self.seqs[at].blocks = tokens.div_ceil(self.size());
            if let Some(reuse) = &mut self.reuse {
                reuse.add_token(at, tokens);
            }
            shares.push((at, self.seqs[at].kv, 1));
        }
        shares.sort_by_key(|&(at, ..)| self.seqs[at].order);
        shares
    }

    /// `addSequence` and `setPrepopulatedPromptLen`: what is left of a chunk behind what was there already.
    fn populate(&mut self, at: usize, chunk: usize) -> usize {
        let prompt = self.seqs[at].prompt();
        let Some(reuse) = &mut self.reuse else {
            return chunk;
        };
        let populated = reuse.add_sequence(at, &prompt);
        let size = self.size();
        self.seqs[at].kv = populated;
        match populated + chunk {
            end if populated > 0 && end < prompt.len() => end / size * size - populated,
            end => end.min(prompt.len()) - populated,
        }
    }

    fn pause(&mut self, at: usize) {
        let seq = &mut self.seqs[at];
        (seq.blocks, seq.kv, seq.has_started) = (0, 0, false);
        seq.context = seq.request.prompt_tokens as usize + seq.launched;
        seq.state = State::Context;
        seq.pauses += 1;
    }

    /// `_update_request_states_tp`; what is computed.
    fn compute(&mut self, shares: &[Share]) -> StepLoad {
        let mut load = StepLoad::default();
        for &(at, computed, tokens) in shares {
            let seq = &mut self.seqs[at];
            seq.kv += tokens;
            let samples = seq.state == State::Generating || seq.kv == seq.context;
            if samples {
                seq.launched += 1;
                load.sampled_rows += 1;
                let is_last = seq.launched == seq.target && seq.ends_by_length(self.config);
                seq.state = match is_last {
                    true => State::ToComplete,
                    false => State::Generating,
                };
            }
            if tokens == 1 {
                load.decode_seqs += 1;
                load.decode_kv_tokens += computed as u64 + 1;
                load.decode_longest = load.decode_longest.max(computed as u32 + 1);
            } else {
                load.chunks.push(Chunk {
                    computed: computed as u32,
                    new: tokens as u32,
                });
            }
        }
        load
    }

    fn launch(&mut self, shares: Vec<Share>, cost: &mut LinearCost, log: &mut Vec<ScheduleRecord>) {
        let load = self.compute(&shares);
        let duration = cost.step(&load);
        let begin = self.now.max(self.gpu_free);
        self.gpu_free = begin + duration;
        let running = self
            .active
            .iter()
            .filter(|&&at| self.seqs[at].has_started)
            .count();
        let named = |&(at, computed, tokens): &Share| (self.seqs[at].id, computed as u32, tokens as u32);
        log.push(ScheduleRecord {
            scheduled: self.now,
            begin,
            duration,
            shares: shares.iter().map(named).collect(),
            drafts: Vec::new(),
            preempted: self.paused.iter().map(|&at| self.seqs[at].id).collect(),
            free_blocks: self.free() as u32,
            running: running as u32,
            waiting: (self.active.len() - running) as u32,
        });
        self.in_flight.push_back(Launched {
            shares,
            end: self.gpu_free,
        });
    }

    /// The results of the oldest step: tokens reach their clients, and whoever has all of them leaves.
    fn process(&mut self, step: &Launched) {
        let mut leaving = Vec::new();
        for &(at, computed, tokens) in &step.shares {
            let seq = &mut self.seqs[at];
            // Whoever was paused meanwhile has its token all the same, for which it was counted as launched.
            let samples = computed + tokens >= seq.request.prompt_tokens as usize + seq.had.len();
            if seq.end.is_some() || !samples {
                continue;
            }
            seq.had.push(self.now);
            if seq.had.len() == seq.target {
                leaving.push(at);
            }
        }
        leaving.sort_unstable();
        for at in leaving {
            self.leave(at, Outcome::Completed, self.now);
        }
        // `update_resources`, of prompts of which nothing is left.
        for &(at, computed, tokens) in &step.shares {
            if computed + tokens == self.seqs[at].request.prompt_tokens as usize
                && let Some(reuse) = &mut self.reuse
            {
                reuse.store_context(at, &self.seqs[at].prompt());
            }
        }
    }

    fn leave(&mut self, at: usize, outcome: Outcome, when: Picos) {
        self.active.retain(|&other| other != at);
        if let Some(reuse) = &mut self.reuse {
            let seq = &self.seqs[at];
            let known = seq.request.prompt_tokens as usize + seq.had.len() - 1;
            reuse.release(at, &seq.tokens(known.min(seq.kv)));
        }
        let seq = &mut self.seqs[at];
        (seq.blocks, seq.state) = (0, State::Gone);
        seq.end = Some((outcome, when));
    }

    /// Clients that give up before `until`.
    fn abort(&mut self, until: Picos) {
        let mut given_up: Vec<(Picos, usize)> = (0..self.seqs.len())
            .filter(|at| self.active.contains(at))
            .filter_map(|at| Some((self.seqs[at].request.deadline.filter(|&when| when < until)?, at)))
            .collect();
        given_up.sort_unstable();
        for (when, at) in given_up {
            if self.seqs[at].end.is_none() {
                self.leave(at, Outcome::TimedOut, when);
            }
        }
    }
}

/// What the twin saw.
pub(crate) struct Seen {
    pub(crate) log: Vec<ScheduleRecord>,
    pub(crate) seqs: Vec<Seq>,
}

/// Whether the server takes a request at all.
fn refuses(config: &TrtllmConfig, request: &Request) -> bool {
    if request.prompt_tokens >= config.max_seq_len {
        return true;
    }
    let too_long = !config.enable_chunked_prefill && request.prompt_tokens > config.max_num_tokens;
    let room = config.max_seq_len - request.prompt_tokens;
    let answer = match config.capacity_scheduler_policy {
        CapacityPolicy::MaxUtilization => request.output_tokens.min(room) - 1,
        _ => request.max_tokens.min(room),
    };
    too_long || (request.prompt_tokens + answer).div_ceil(config.tokens_per_block) > config.num_blocks
}

/// Serves the requests, in the order of their arrivals.
pub(crate) fn serve(config: &TrtllmConfig, requests: &[Request], mut cost: LinearCost) -> Seen {
    let depth = if config.overlap_scheduler { 2 } else { 1 };
    let mut world = World::of(config, requests);
    let mut log = Vec::new();
    let mut arrived = 0;
    loop {
        while arrived < requests.len() && requests[arrived].arrival <= world.now {
            if world.seqs[arrived].end.is_none() {
                world.active.push(arrived);
            }
            arrived += 1;
        }
        world.abort(world.now + Picos(1));
        let shares = world.schedule();
        let has_paused = !world.paused.is_empty();
        if !shares.is_empty() {
            world.launch(shares, &mut cost, &mut log);
            if world.in_flight.len() < depth {
                continue;
            }
        } else if has_paused && world.in_flight.is_empty() {
            continue;
        }
        if let Some(step) = world.in_flight.pop_front() {
            world.now = world.now.max(step.end);
            world.abort(world.now);
            world.process(&step);
        } else if arrived < requests.len() {
            world.now = requests[arrived].arrival;
        } else {
            assert!(world.active.is_empty(), "somebody is never served");
            break;
        }
    }
    Seen {
        log,
        seqs: world.seqs,
    }
}

impl<'a> World<'a> {
    /// Nobody has come yet.
    fn of(config: &'a TrtllmConfig, requests: &[Request]) -> World<'a> {
        let seq = |request: &Request| Seq {
            id: request.id,
            target: request
                .output_tokens
                .min(config.max_seq_len.saturating_sub(request.prompt_tokens)) as usize,
            request: request.clone(),
            state: State::Context,
            context: request.prompt_tokens as usize,
            kv: 0,
            blocks: 0,
            launched: 0,
            had: Vec::new(),
            order: 0,
            has_started: false,
            pauses: 0,
            end: refuses(config, request).then_some((Outcome::Rejected, request.arrival)),
        };
        World {
            config,
            now: Picos::ZERO,
            seqs: requests.iter().map(seq).collect(),
            active: Vec::new(),
            in_flight: VecDeque::new(),
            gpu_free: Picos::ZERO,
            starts: 0,
            waited: 0,
            are_put_off: false,
            paused: Vec::new(),
            reuse: (config.block_reuse != BlockReuse::Off).then(|| {
                let is_partial = config.block_reuse == BlockReuse::Partial;
                Blocks::new(
                    config.num_blocks as usize,
                    config.tokens_per_block as usize,
                    is_partial,
                )
            }),
        }
    }
}
