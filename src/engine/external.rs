//! Tokens whose KV comes from outside the replica: from a slower tier, or from another replica.
//!
//! A [`Connector`] is asked at each admission, behind the replica's own prefix cache, how many further tokens it can
//! bring. Those cost KV blocks and no token budget (V1-20). They come in one of two ways.
//!
//! * *With the step* that admits the sequence: the connector says how long that step lasts, loads, computation and
//!   stores together, and the whole batch waits for it (LM-4, PD-20).
//! * *Aside*: their blocks are taken at once, the sequence waits outside `running` without a `max_num_seqs` slot and
//!   without budget (PD-9). That the load is complete is noticed by the first `schedule()` at or after its end, which in
//!   a loop with nothing to run is the next of its passes, 1 ms apart (PD-11, V1-9). The full blocks are registered
//!   then, and the sequence enters before anybody who waits; if all its tokens came, the last is computed again
//!   (PD-12). Its blocks outlive a client who gives up, until the load ends (C-32).
//!
//! A preempted sequence has lost what was loaded (PD-17). Blocks of a completed one can be kept until
//! [`Replica::release_held_back`] (PD-8). A replica without connector pays a branch where it decides a step, and none
//! for a step that it leaps over.
//!
//! Without `scheduler_reserve_full_isl` nothing is reserved for a sequence whose load is under way, so two that hold
//! blocks and lack more can wait for each other for ever; under the priority policy they also wait, in either version, for
//! somebody more urgent who lacks the blocks that they hold. The run then ends as livelocked.
//!
//! Of vLLM 0.33's second waiting queue (V1-3) only those who wait for KV are in one here. 0.11 has one queue for
//! all, so there a preempted sequence goes before one whose KV has come; here it goes after it in both versions.

use std::collections::BTreeMap;
use std::hint::cold_path;

use rustc_hash::FxHashMap;
use slab::Slab;

use super::Handle;
use super::held_back::HeldBack;
use super::replica::Replica;
use super::sequence::{Phase, Sequence};
use super::step::Step;
use super::waiting::Rank;
use super::{EngineConfig, Policy};
use crate::facts::{Fact, Observer, Outcome, TierAccount};
use crate::ids::RequestId;
use crate::kv::Held;
use crate::units::Picos;
use crate::workload::{Piece, Request};

/// Where KV can come from and go to. What it does must not depend on when within an instant it is asked.
pub(crate) trait Connector {
    /// What can be brought for a sequence that is about to be admitted, behind its local tokens. Asked again for the
    /// same sequence at later instants if it was not admitted (vLLM `get_num_new_matched_tokens`).
    fn look_up(&mut self, now: Picos, asked: &Asked<'_>) -> Offer;

    /// The admission went through, and `tokens` that were offered will be loaded (`update_state_after_alloc`). When a
    /// load aside is complete; `None` if that will be told by [`Replica::loaded`]. For a load with the step the answer
    /// is not looked at.
    fn load(&mut self, now: Picos, asked: &Asked<'_>, tokens: u32) -> Option<Picos>;

    /// How long a step lasts that begins at `begin`, computes for `compute`, waits for the loads begun with it and
    /// stores what it computed. Asked for every step in which a sequence outside the pack computes.
    fn step(&mut self, begin: Picos, compute: Picos, shares: &[Share<'_>]) -> Picos;

    /// A sequence leaves `running`, its load or the waiting queue. Whether its blocks are held back until they are
    /// released; looked at only for a completed one.
    fn leaves(&mut self, now: Picos, request: &Request, why: Leaving) -> bool;

    /// The replica starts anew: what lived in its process is lost.
    fn restart(&mut self, now: Picos);

    /// What was moved to and from tiers so far, where there are any.
    fn account(&mut self) -> Option<&TierAccount> {
        None
    }
}

/// A sequence for which KV is looked up.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    /// What its tokens are, the prompt and then the output.
    pub(crate) pieces: &'a [Piece],
    /// Prompt, and the outputs from before a preemption.
    pub(crate) known_tokens: u32,
    /// Whole blocks found in the replica's own prefix cache.
    pub(crate) local_tokens: u32,
    /// It was preempted before.
    pub(crate) resumed: bool,
}

/// What a connector brings, in tokens behind the local ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// Nothing.
    Nothing,
    /// So many, while the step that admits the sequence waits; at least one known token is left to be computed.
    WithStep(u32),
    /// So many, while the sequence waits aside; perhaps all that are known.
    Aside(u32),
}

/// Part of a step: tokens `from..to` of a sequence are computed in it.
pub(crate) struct Share<'a> {
    pub(crate) request: &'a Request,
    pub(crate) pieces: &'a [Piece],
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Why a sequence leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It has all its tokens.
    Completed,
    /// It lost its blocks and waits again.
    Preempted,
    /// Nobody waits for it any more.
    GivenUp,
}

impl Leaving {
    pub(super) fn of(outcome: Outcome) -> Leaving {
        match outcome {
            Outcome::Completed => Leaving::Completed,
            Outcome::TimedOut | Outcome::Rejected | Outcome::Failed => Leaving::GivenUp,
        }
    }
}

/// A sequence whose KV has come, or comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) handle: Handle,
    /// Tokens that it found in the prefix cache, and tokens that were loaded behind them.
    pub(super) local: u32,
    pub(super) loaded: u32,
    /// Blocks that it holds, and blocks that its known tokens still lack.
    pub(super) blocks: u32,
    lacking: u32,
}

/// A load aside.
#[derive(Debug)]
struct Load {
    id: RequestId,
    due: Picos,
    nth: u64,
    rank: Rank,
    has_failed: bool,
    whose: Whose,
}

#[derive(Debug)]
enum Whose {
    Sequence(Arrived),
    /// Given up: its blocks, and the tokens of them that are registered, and that they are for.
    Nobody(Held, u32, u32),
}

/// The connector of a replica and everybody who waits for it.
pub(crate) struct External {
    pub(super) connector: Box<dyn Connector>,
    loads: Slab<Load>,
    by_request: FxHashMap<RequestId, usize>,
    /// Loads by the time of their end, as far as it is known.
    due: BTreeMap<(Picos, u64), usize>,
    /// Whose KV has come, in the order of their turns.
    ready: BTreeMap<Rank, Arrived>,
    /// Of those who were ready, whom the step that is composed passes over.
    aside: Vec<(Rank, Arrived)>,
    pub(super) held_back: FxHashMap<RequestId, HeldBack>,
    /// Loads that were begun.
    begun: u64,
    /// Loads under way whose sequence has left.
    abandoned: u32,
    /// Blocks that sequences outside `running` still lack (`_inflight_prefill_reserved_blocks`).
    lacking: u32,
    /// A load was begun whose end others must find out, and they do not know of it yet.
    waits_to_be_heard: bool,
}

impl External {
    fn new(connector: Box<dyn Connector>) -> External {
        External {
            connector,
            loads: Slab::new(),
            by_request: FxHashMap::default(),
            due: BTreeMap::new(),
            ready: BTreeMap::new(),
            aside: Vec::new(),
            held_back: FxHashMap::default(),
            begun: 0,
            abandoned: 0,
            lacking: 0,
            waits_to_be_heard: false,
        }
    }

    /// When the next load ends, as far as it is known.
    pub(super) fn next_due(&self) -> Option<Picos> {
        self.due.first_key_value().map(|(&(at, _), _)| at)
    }

    /// Who is next among those whose KV has come.
    pub(super) fn first_ready(&self) -> Option<(&Rank, &Arrived)> {
        self.ready.first_key_value()
    }

    pub(super) fn lacking(&self) -> u32 {
        self.lacking
    }

    /// Sequences that wait for KV, or have it and are not admitted.
    pub(super) fn outside(&self) -> u32 {
        (self.loads.len() + self.ready.len()) as u32 - self.abandoned
    }

    /// Somebody is [outside](External::outside), or a load goes on for somebody who has left.
    pub(super) fn has_business(&self) -> bool {
        self.loads.len() + self.ready.len() > 0
    }

    /// Forgets everybody.
    pub(super) fn restart(&mut self, now: Picos) {
        self.loads.clear();
        self.by_request.clear();
        self.due.clear();
        self.ready.clear();
        self.held_back.clear();
        (self.lacking, self.abandoned) = (0, 0);
        self.connector.restart(now);
    }

    fn take_load(&mut self, key: usize) -> Load {
        let load = self.loads.remove(key);
        self.due.remove(&(load.due, load.nth));
        self.by_request.remove(&load.id);
        load
    }
}

impl Replica {
    /// Whether it must be left before it goes on, because others have to hear of a load that it has begun; once.
    #[inline]
    pub(super) fn is_to_be_heard(&mut self) -> bool {
        let Some(external) = &mut self.external else {
            return false;
        };
        cold_path();
        std::mem::take(&mut external.waits_to_be_heard)
    }

    /// Gives the replica a connector, before it has seen any request.
    pub(crate) fn connect(&mut self, connector: Box<dyn Connector>) {
        assert_eq!(self.inside(), 0, "a connector is there from the beginning");
        assert!(
            self.config.kv_groups.keeps_all(),
            "what comes from outside is of every layer"
        );
        self.external = Some(Box::new(External::new(connector)));
    }

    /// The load for request `id`, whose end the connector did not know, is complete at `now`.
    pub(crate) fn loaded(&mut self, id: RequestId, now: Picos) {
        let Some(external) = &mut self.external else {
            return;
        };
        let Some(&key) = external.by_request.get(&id) else {
            return;
        };
        let load = &mut external.loads[key];
        assert_eq!(load.due, Picos::MAX, "a load ends once");
        load.due = now;
        external.due.insert((now, load.nth), key);
        if self.in_flight.is_empty() {
            self.pass_from(now);
        }
    }

    /// The load for request `id` has failed at `now`. It is noticed like its end; the sequence then gives its blocks back and
    /// waits at the head of the queue, and the connector is asked again (`_handle_invalid_blocks`; vLLM keeps the blocks of a
    /// sequence that had found some in its own cache, which it would find there again).
    pub(crate) fn load_failed(&mut self, id: RequestId, now: Picos) {
        if let Some(external) = &mut self.external
            && let Some(&key) = external.by_request.get(&id)
        {
            external.loads[key].has_failed = true;
        }
        self.loaded(id, now);
    }

    /// A sequence leaves; whether its blocks are held back.
    #[inline]
    pub(super) fn tell_connector(&mut self, slot: usize, now: Picos, why: Leaving) -> bool {
        match &mut self.external {
            None => false,
            Some(external) => {
                cold_path();
                let request = &self.sequences[slot].request;
                external.connector.leaves(now, request, why) && why == Leaving::Completed
            }
        }
    }

    /// Begins to load `loaded` tokens aside; the sequence holds blocks for them and for its local ones.
    pub(super) fn begin_load(&mut self, now: Picos, slot: usize, held: Held, local: u32, loaded: u32) {
        let sequence = &mut self.sequences[slot];
        let known = sequence.known_tokens();
        sequence.held = held;
        sequence.computed = local + loaded;
        sequence.phase = Phase::Loading;
        let handle = sequence.handle;
        let due = self.ask_to_load(now, slot, local, loaded).unwrap_or(Picos::MAX);
        let external = self.external.as_mut().expect("only a connector offers tokens");
        let blocks = self.pool.blocks_for(local + loaded);
        let lacking = self.pool.blocks_for(known).saturating_sub(blocks);
        external.lacking += lacking;
        external.begun += 1;
        let request = &self.sequences[slot].request;
        let key = external.loads.insert(Load {
            id: request.id,
            due,
            nth: external.begun,
            rank: turn(&self.config, external.begun, request),
            has_failed: false,
            whose: Whose::Sequence(Arrived {
                handle,
                local,
                loaded,
                blocks,
                lacking,
            }),
        });
        external.by_request.insert(request.id, key);
        if due < Picos::MAX {
            external.due.insert((due, external.begun), key);
        } else {
            external.waits_to_be_heard = true;
        }
    }

    /// Tells the connector that tokens it offered are taken.
    pub(super) fn ask_to_load(&mut self, now: Picos, slot: usize, local: u32, loaded: u32) -> Option<Picos> {
        let external = self.external.as_mut().expect("only a connector offers tokens");
        let asked = asked(&self.sequences[slot], local);
        external.connector.load(now, &asked, loaded)
    }

    /// What the connector offers for a sequence at the head of the queue.
    #[inline]
    pub(super) fn offer_from_outside(&mut self, now: Picos, slot: usize, local: u32) -> Offer {
        match &mut self.external {
            None => Offer::Nothing,
            Some(external) => {
                cold_path();
                external
                    .connector
                    .look_up(now, &asked(&self.sequences[slot], local))
            }
        }
    }

    /// Loads that have ended: full blocks are registered, and whoever waited for them is ready.
    pub(super) fn notice_loads(&mut self, now: Picos) {
        let mut failed: Vec<Handle> = Vec::new();
        while let Some(external) = &mut self.external
            && let Some((&(due, _), &key)) = external.due.first_key_value()
            && due <= now
        {
            let load = external.take_load(key);
            match load.whose {
                Whose::Sequence(arrived) if load.has_failed => {
                    external.lacking -= arrived.lacking;
                    let sequence = &mut self.sequences[arrived.handle.slot];
                    let held = std::mem::take(&mut sequence.held);
                    let tokens = arrived.local + arrived.loaded;
                    self.pool.release(held, &sequence.pieces, arrived.local, tokens);
                    (sequence.computed, sequence.phase) = (0, Phase::Waiting);
                    failed.push(arrived.handle);
                }
                Whose::Nobody(held, registered, tokens) => {
                    external.abandoned -= 1;
                    self.pool.release(held, &[], registered, tokens);
                }
                Whose::Sequence(arrived) => {
                    external.ready.insert(load.rank, arrived);
                    let sequence = &mut self.sequences[arrived.handle.slot];
                    let loaded = sequence.computed;
                    self.pool
                        .register(&mut sequence.held, &sequence.pieces, loaded, loaded);
                    sequence.computed = loaded.min(sequence.known_tokens() - 1);
                }
            }
        }
        for handle in failed.into_iter().rev() {
            self.waiting
                .push_front(handle, &self.sequences[handle.slot].request);
        }
    }

    /// Takes out whoever is next of those whose KV has come; what it lacks stays reserved.
    pub(super) fn take_arrived(&mut self) -> Option<(Rank, Arrived)> {
        self.external.as_mut()?.ready.pop_first()
    }

    /// The first whose KV has come is passed over in this step.
    pub(super) fn set_arrived_aside(&mut self) {
        if let Some(external) = &mut self.external {
            external.aside.extend(external.ready.pop_first());
        }
    }

    /// Nothing is reserved any more for somebody who is admitted.
    pub(super) fn unreserve(&mut self, arrived: &Arrived) {
        if let Some(external) = &mut self.external {
            external.lacking -= arrived.lacking;
        }
    }

    /// Gives back a turn that was passed over.
    pub(super) fn put_back_arrived(&mut self) {
        if let Some(external) = &mut self.external {
            external.ready.extend(external.aside.drain(..));
        }
    }

    /// The client of a sequence that waits for KV, or has it and is not admitted, gave up (C-32).
    pub(super) fn abandon_load(&mut self, slot: usize) {
        let external = self.external.as_mut().expect("a load has a connector");
        let sequence = &mut self.sequences[slot];
        let held = std::mem::take(&mut sequence.held);
        if let Some(&key) = external.by_request.get(&sequence.request.id) {
            let load = &mut external.loads[key];
            if let Whose::Sequence(arrived) = load.whose {
                external.lacking -= arrived.lacking;
                external.abandoned += 1;
                load.whose = Whose::Nobody(held, arrived.local, arrived.local + arrived.loaded);
            }
            return;
        }
        let mut ready = external.ready.iter();
        let found = ready.find(|(_, arrived)| arrived.handle == sequence.handle);
        let (rank, arrived) = found.expect("it waits for its turn");
        let (rank, arrived) = (rank.clone(), *arrived);
        external.ready.remove(&rank);
        external.lacking -= arrived.lacking;
        let tokens = arrived.local + arrived.loaded;
        self.pool.release(held, &sequence.pieces, tokens, tokens);
    }

    /// Lets the connector say how long a step lasts that is about to run on the GPU.
    pub(super) fn move_kv(&mut self, step: &mut Step) {
        if step.shares.is_empty() {
            return;
        }
        let external = self.external.as_mut().expect("asked only with a connector");
        let sequences = &self.sequences;
        let shares = step.shares.iter().map(|&(slot, from, to)| Share {
            request: &sequences[slot].request,
            pieces: &sequences[slot].pieces,
            from,
            to,
        });
        let shares: Vec<Share<'_>> = shares.collect();
        step.duration = external.connector.step(step.begin, step.duration, &shares);
    }

    /// Tells what the connector has moved so far.
    pub(super) fn tell_tiers<O: Observer>(&mut self, observer: &mut O) {
        let replica = self.id;
        if let Some(external) = &mut self.external
            && let Some(account) = external.connector.account()
        {
            observer.observe(&Fact::Tiers { replica, account });
        }
    }
}

fn asked(sequence: &Sequence, local: u32) -> Asked<'_> {
    Asked {
        request: &sequence.request,
        pieces: &sequence.pieces,
        known_tokens: sequence.known_tokens(),
        local_tokens: local,
        resumed: sequence.story.has_run(),
    }
}

/// Whose turn comes first among those whose KV has come: who began to load first, or under the priority policy by rank.
fn turn(config: &EngineConfig, begun: u64, request: &Request) -> Rank {
    match config.policy {
        Policy::Fcfs => Rank::nth(begun),
        Policy::Priority => Rank::of(request),
    }
}

#[cfg(test)]
pub(super) mod tests;
