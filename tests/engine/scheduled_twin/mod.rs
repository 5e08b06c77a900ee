//! Naive twins of vLLM V0 (both modes), static batching and Transformers' continuous batching, and random scenarios in
//! which the engine must equal them: equal steps, clocks, token times and endings.
//!
//! One flat world, every sequence visited in every step, blocks held as lists of their numbers. The twins share the
//! cost model with the engine under test and nothing else.

mod blocks;
mod hf;
mod random;
mod static_batch;
mod v0;

use std::collections::BTreeMap;

use plimsoll::cost::linear::LinearCost;
use plimsoll::cost::{Chunk, StepCost, StepLoad};
use plimsoll::engine::ScheduleRecord;
use plimsoll::engine::scheduled::{ScheduledConfig, SchedulerChoice};
use plimsoll::ids::RequestId;
use plimsoll::sim::Outcome;
use plimsoll::units::Picos;
use plimsoll::workload::Request;

use blocks::{Block, Cached, Token, spell};

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Not yet sent, or refused at the door.
    Outside,
    Waiting,
    Running,
    Swapped,
    Gone,
}

/// A sequence: its tokens are spelt out by what made them.
#[derive(Clone, Debug)]
struct Seq {
    id: RequestId,
    request: Request,
    target: usize,
    state: State,
    queued: Picos,
    pad: usize,
    /// When each of its outputs was sampled.
    sampled: Vec<Picos>,
    /// Computed behind its answer's end.
    filler: usize,
    tokens: Vec<Token>,
    kv: usize,
    /// Known tokens when it was admitted.
    fill: usize,
    blocks: Vec<usize>,
    /// Blocks of it that others find.
    registered: usize,
    /// What was cached of it when it was first admitted.
    found: Option<usize>,
    host_blocks: usize,
    given: usize,
    in_batch: bool,
    /// When its client had each token.
    had: Vec<Picos>,
    end: Option<(Outcome, Picos)>,
    preemptions: u32,
}

impl Seq {
    fn known(&self) -> usize {
        self.pad + self.request.prompt_tokens as usize + self.sampled.len() + self.filler
    }

    fn missing(&self) -> usize {
        self.known() - self.kv
    }

    fn prefills(&self) -> bool {
        self.kv < self.fill
    }

    fn is_done(&self) -> bool {
        self.sampled.len() == self.target
    }
}

/// The engine and everybody in it.
struct World<'a> {
    config: &'a ScheduledConfig,
    now: Picos,
    seqs: Vec<Seq>,
    waiting: Vec<usize>,
    running: Vec<usize>,
    swapped: Vec<usize>,
    blocks: Vec<Block>,
    /// Blocks that nobody uses, in the order in which they are taken.
    free: Vec<usize>,
    cached: Cached,
    host_free: usize,
    /// Of the present decision.
    shares: Vec<usize>,
    preempted: Vec<RequestId>,
    changed: bool,
    moved: usize,
    wake: Option<Picos>,
    died: bool,
    /// Output is processed while the next step runs: whoever has ended is still there when that one is decided.
    ends_late: bool,
    ended: Vec<usize>,
}

impl World<'_> {
    fn give(&mut self, at: usize, tokens: usize) {
        assert!(tokens > 0 && tokens <= self.seqs[at].missing() && self.seqs[at].given == 0);
        self.seqs[at].given = tokens;
        self.shares.push(at);
    }

    fn start(&mut self, at: usize) {
        self.waiting.retain(|&other| other != at);
        self.swapped.retain(|&other| other != at);
        self.running.push(at);
        if self.seqs[at].state == State::Waiting {
            self.seqs[at].fill = self.seqs[at].known();
        }
        self.seqs[at].state = State::Running;
        self.changed = true;
    }

    fn stop(&mut self, at: usize, state: State) {
        self.running.retain(|&other| other != at);
        self.drop_blocks(at);
        self.seqs[at].state = state;
        self.seqs[at].queued = self.now;
        self.seqs[at].preemptions += 1;
        self.preempted.push(self.seqs[at].id);
        self.changed = true;
    }

    fn refuse(&mut self, at: usize) {
        self.leave(at, Outcome::Rejected, self.now);
        self.changed = true;
    }

    fn leave(&mut self, at: usize, outcome: Outcome, now: Picos) {
        for list in [&mut self.waiting, &mut self.running, &mut self.swapped] {
            list.retain(|&other| other != at);
        }
        self.drop_blocks(at);
        self.host_free += std::mem::take(&mut self.seqs[at].host_blocks);
        self.seqs[at].state = State::Gone;
        self.seqs[at].end.get_or_insert((outcome, now));
    }

    /// Whoever has ended leaves.
    fn dismiss(&mut self) {
        for at in std::mem::take(&mut self.ended) {
            self.leave(at, Outcome::Completed, self.now);
            self.changed = true;
        }
    }

    /// The client gives up.
    fn abort(&mut self, at: usize, now: Picos) {
        let seq = &mut self.seqs[at];
        if seq.end.is_some() || seq.state == State::Outside {
            return;
        }
        if seq.in_batch && seq.state == State::Running {
            seq.end = Some((Outcome::TimedOut, now));
        } else {
            self.leave(at, Outcome::TimedOut, now);
        }
    }

    fn load(&self) -> StepLoad {
        let mut load = StepLoad::default();
        for &at in &self.shares {
            let seq = &self.seqs[at];
            let after = (seq.kv + seq.given) as u32;
            if seq.given == 1 {
                load.decode_seqs += 1;
                load.decode_kv_tokens += u64::from(after);
                load.decode_longest = load.decode_longest.max(after);
            } else {
                load.chunks.push(Chunk {
                    computed: seq.kv as u32,
                    new: seq.given as u32,
                });
            }
            load.sampled_rows += u32::from(seq.given == seq.missing());
        }
        load
    }

    /// The step ended at `now`: who computed what, token by token.
    fn process(&mut self, early: bool) {
        let now = self.now;
        let shares = std::mem::take(&mut self.shares);
        for at in shares {
            let seq = &mut self.seqs[at];
            let given = std::mem::take(&mut seq.given);
            if seq.state != State::Running {
                continue;
            }
            let samples = given == seq.missing();
            seq.kv += given;
            self.register(at);
            let seq = &mut self.seqs[at];
            if !samples {
                continue;
            }
            if seq.is_done() {
                seq.filler += 1;
                continue;
            }
            seq.sampled.push(now);
            if !seq.in_batch {
                seq.had.push(now);
            }
            if seq.is_done() && seq.in_batch && early && seq.end.is_none() {
                seq.had = vec![now; seq.target];
                seq.end = Some((Outcome::Completed, now));
            } else if seq.is_done() && !seq.in_batch {
                seq.end = Some((Outcome::Completed, now));
                self.ended.push(at);
                if !self.ends_late {
                    self.dismiss();
                }
            }
        }
        let batch: Vec<usize> = self
            .running
            .iter()
            .copied()
            .filter(|&at| self.seqs[at].in_batch)
            .collect();
        if batch.iter().all(|&at| self.seqs[at].is_done()) {
            for at in batch {
                if self.seqs[at].end.is_none() {
                    self.seqs[at].had = vec![now; self.seqs[at].target];
                }
                self.leave(at, Outcome::Completed, now);
            }
        }
    }
}

/// What a twin saw.
struct Seen {
    log: Vec<ScheduleRecord>,
    seqs: Vec<Seq>,
    hung: bool,
}

impl Seen {
    /// Gaps between tokens of one client; tokens that came in one piece have none.
    fn gaps(&self) -> (BTreeMap<Picos, u64>, u64) {
        let (mut gaps, mut at_once) = (BTreeMap::new(), 0);
        for seq in &self.seqs {
            for pair in seq.had.windows(2) {
                if seq.in_batch {
                    at_once += 1;
                } else {
                    *gaps.entry(pair[1] - pair[0]).or_default() += 1;
                }
            }
        }
        (gaps, at_once)
    }
}

/// Serves the requests, in the order of their arrivals.
fn serve(
    config: &ScheduledConfig,
    requests: &[Request],
    mut cost: LinearCost,
    early: bool,
    refuses: impl Fn(&Request) -> bool,
    mut decide: impl FnMut(&mut World<'_>),
) -> Seen {
    let seq = |request: &Request| Seq {
        id: request.id,
        target: request
            .output_tokens
            .min(config.max_model_len.saturating_sub(request.prompt_tokens)) as usize,
        request: request.clone(),
        state: State::Outside,
        queued: request.arrival,
        pad: 0,
        sampled: Vec::new(),
        filler: 0,
        tokens: spell(request),
        kv: 0,
        fill: 0,
        blocks: Vec::new(),
        registered: 0,
        found: None,
        host_blocks: 0,
        given: 0,
        in_batch: false,
        had: Vec::new(),
        end: None,
        preemptions: 0,
    };
    let mut world = World {
        config,
        now: Picos::ZERO,
        seqs: requests.iter().map(seq).collect(),
        waiting: Vec::new(),
        running: Vec::new(),
        swapped: Vec::new(),
        blocks: vec![Block::default(); config.num_gpu_blocks as usize],
        free: (0..config.num_gpu_blocks as usize).collect(),
        cached: Cached::new(),
        host_free: config.swap_blocks as usize,
        shares: Vec::new(),
        preempted: Vec::new(),
        changed: false,
        moved: 0,
        wake: None,
        died: false,
        ends_late: matches!(&config.scheduler, SchedulerChoice::VllmV0(v0) if v0.async_output_proc),
        ended: Vec::new(),
    };
    let mut log = Vec::new();
    let mut arrived = 0;
    let deadline = |at: usize| requests[at].deadline;
    loop {
        while arrived < requests.len() && requests[arrived].arrival <= world.now {
            if refuses(&requests[arrived]) {
                world.seqs[arrived].end = Some((Outcome::Rejected, requests[arrived].arrival));
            } else {
                world.seqs[arrived].state = State::Waiting;
                world.waiting.push(arrived);
            }
            arrived += 1;
        }
        for at in 0..requests.len() {
            if let Some(given_up) = deadline(at).filter(|&given_up| given_up <= world.now) {
                world.abort(at, given_up);
            }
        }
        (world.changed, world.moved, world.wake) = (false, 0, None);
        world.preempted.clear();
        decide(&mut world);
        if world.died {
            break;
        }
        if world.shares.is_empty() {
            world.dismiss();
            if world.changed {
                continue;
            }
            let arrival = requests.get(arrived).map(|request| request.arrival);
            let given_up =
                (0..arrived).filter_map(|at| deadline(at).filter(|&given_up| given_up > world.now));
            let is_empty = world.waiting.is_empty() && world.running.is_empty() && world.swapped.is_empty();
            if !is_empty && world.wake.is_none() {
                world.died = true;
                break;
            }
            match arrival.into_iter().chain(world.wake).chain(given_up).min() {
                Some(next) => world.now = next,
                None => break,
            }
            continue;
        }
        let duration = cost.step(&world.load()) + config.swap_time_per_block * world.moved as u64;
        let share = |&at: &usize| {
            let seq = &world.seqs[at];
            (seq.id, seq.kv as u32, seq.given as u32)
        };
        log.push(ScheduleRecord {
            scheduled: world.now,
            begin: world.now,
            duration,
            shares: world.shares.iter().map(share).collect(),
            drafts: Vec::new(),
            preempted: world.preempted.clone(),
            free_blocks: world.free.len() as u32,
            running: world.running.len() as u32,
            waiting: (world.waiting.len() + world.swapped.len()) as u32,
        });
        world.dismiss();
        let end = world.now + duration;
        let mut given_up: Vec<(Picos, usize)> = (0..requests.len())
            .filter_map(|at| Some((deadline(at).filter(|&at| at < end)?, at)))
            .collect();
        given_up.sort_unstable();
        for (when, at) in given_up {
            // One who comes and goes during the step was never seen by the scheduler.
            if requests[at].arrival > world.now && !refuses(&requests[at]) {
                world.seqs[at].end.get_or_insert((Outcome::TimedOut, when));
            }
            world.abort(at, when);
        }
        world.now = end;
        world.process(early);
        while arrived < requests.len() && requests[arrived].arrival <= end {
            let is_gone = world.seqs[arrived].end.is_some();
            if refuses(&requests[arrived]) {
                world.seqs[arrived].end = Some((Outcome::Rejected, requests[arrived].arrival));
            } else if !is_gone {
                world.seqs[arrived].state = State::Waiting;
                world.waiting.push(arrived);
            }
            arrived += 1;
        }
    }
    Seen {
        log,
        hung: world.died,
        seqs: world.seqs,
    }
}
