//! vLLM's connectors: what a prefill or decode replica asks and says while it schedules.
//!
//! NIXL: a prefill replica holds the blocks of what it has answered until they are read (PD-8); a decode replica asks for
//! all of a prompt that it does not have, aside, and says so (PD-9).
//!
//! P2P NCCL: a prefill replica sends the KV of prompts that a step completes, layer by layer behind the layer's
//! computation, and the step ends with its sends (PD-19). Sends follow each other on the sender's and on the receiver's
//! link, as one stream does; so the time is known when the step begins, and unlike the transfers of
//! [`Links`](crate::cluster::links::Links) they do not share. A decode replica finds what was pushed in its buffer and copies what
//! did not fit from host memory while its whole batch waits (PD-20, PD-21).

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::flight::Flight;
use super::{Disaggregation, Flow};
use crate::engine::external::{Asked, Connector, Leaving, Offer, Share};
use crate::engine::sglang::DecodeOptions;
use crate::engine::{Engine, Signal, Told};
use crate::facts::LinkTally;
use crate::ids::RequestId;
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::Request;

/// Makes the engines what they are, and connects vLLM's.
pub(super) fn assign_roles(engines: &mut [Engine], spec: &Disaggregation, block_sizes: &[u32]) -> Desk {
    let prefill = spec.prefill as usize;
    let desk = Desk(Rc::new(RefCell::new(Counter::new(spec, engines.len()))));
    for (replica, engine) in engines.iter_mut().enumerate() {
        let is_prefill = replica < prefill;
        let shared = || Rc::clone(&desk.0);
        match (spec.flow, is_prefill) {
            (Flow::Sglang, true) => engine.only_prefill(),
            (Flow::Sglang, false) => {
                let host = 1.0 / spec.host_bytes_per_s[replica] as f64;
                engine.only_decode(DecodeOptions {
                    num_reserved_decode_tokens: spec.num_reserved_decode_tokens,
                    host_copy_per_token: Picos::from_seconds(spec.kv_bytes_per_token as f64 * host),
                });
            }
            (Flow::Nixl, true) => engine.connect(Box::new(Keeper)),
            (Flow::Nixl, false) => engine.connect(Box::new(Reader(shared()))),
            (Flow::P2pNccl, true) => engine.connect(Box::new(Pusher {
                desk: shared(),
                replica,
                block_size: block_sizes[replica],
            })),
            (Flow::P2pNccl, false) => engine.connect(Box::new(Receiver {
                desk: shared(),
                replica,
                loading: Vec::new(),
            })),
        }
    }
    desk
}

/// Where connectors and the loop between the replicas meet.
pub(super) struct Desk(Rc<RefCell<Counter>>);

struct Counter {
    spec: Disaggregation,
    told: Vec<Told>,
    /// Where a request's KV is to go (P2P NCCL).
    decode_of: FxHashMap<RequestId, usize>,
    stored: FxHashMap<RequestId, Stored>,
    /// What cannot be read (NIXL).
    unreadable: FxHashSet<RequestId>,
    /// Decode replicas that have failed and are not up again.
    gone: Vec<bool>,
    /// Of each decode replica's buffer, in bytes.
    buffered: Vec<u64>,
    /// When each replica's link is free: of a prefill replica the way out, of a decode replica the way in.
    free: Vec<Picos>,
    tallies: Vec<LinkTally>,
    /// Sends that nobody was told of.
    pushes: Vec<Push>,
}

/// A prompt's KV at its decode replica, not taken over yet.
#[derive(Clone, Copy, Debug)]
struct Stored {
    bytes: u64,
    is_in_host: bool,
}

/// A prompt's KV on the way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Push {
    pub(super) id: RequestId,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
    pub(super) begin: Picos,
    pub(super) end: Picos,
    /// What its bytes take of the link's time.
    takes: Picos,
}

impl Desk {
    /// A request comes to a prefill replica.
    pub(super) fn announce(&self, flight: &Flight) {
        if let Some(decode) = flight.decode {
            let mut counter = self.0.borrow_mut();
            if counter.spec.flow == Flow::P2pNccl {
                counter.decode_of.insert(flight.request.id, decode);
            }
        }
    }

    /// What decode replicas asked for since.
    pub(super) fn take_signals(&self, into: &mut Vec<Told>) {
        into.append(&mut self.0.borrow_mut().told);
    }

    /// Sends that have ended by `now` and were not told.
    pub(super) fn take_pushes(&self, now: Picos) -> Vec<Push> {
        let pushes = &mut self.0.borrow_mut().pushes;
        let (mut over, rest): (Vec<Push>, Vec<Push>) = pushes.drain(..).partition(|push| push.end <= now);
        *pushes = rest;
        over.sort_by_key(|push| (push.end, push.id));
        over
    }

    /// Bytes of a request that were pushed.
    pub(super) fn pushed_bytes(&self, id: RequestId) -> u64 {
        self.0.borrow().stored.get(&id).map_or(0, |stored| stored.bytes)
    }

    /// What a replica's link carried by pushes that were told.
    pub(super) fn tally(&self, replica: usize) -> LinkTally {
        let counter = self.0.borrow();
        let mut tally = counter.tallies[replica];
        let untold = counter.pushes.iter();
        for push in untold.filter(|push| push.from == replica || push.to == replica) {
            tally.bytes -= push.bytes;
            tally.transfers -= 1;
            tally.busy -= push.takes;
            tally.flowed -= u128::from(push.takes.0);
            tally.area -= i128::from(push.takes.0);
            tally.asked -= 1;
            tally.in_flight -= i128::from((push.end - push.begin).0);
        }
        tally
    }

    /// A replica is up again.
    pub(super) fn returns(&self, replica: usize) {
        self.0.borrow_mut().gone[replica] = false;
    }

    /// A request's KV cannot be read, and is computed where it is asked for.
    pub(super) fn find_unreadable(&self, id: RequestId) {
        self.0.borrow_mut().unreadable.insert(id);
    }

    /// A request will not be asked for.
    pub(super) fn forget(&self, id: RequestId) {
        self.0.borrow_mut().forget(id);
    }
}

impl Counter {
    fn new(spec: &Disaggregation, replicas: usize) -> Counter {
        Counter {
            spec: spec.clone(),
            told: Vec::new(),
            decode_of: FxHashMap::default(),
            stored: FxHashMap::default(),
            unreadable: FxHashSet::default(),
            gone: vec![false; replicas],
            buffered: vec![0; replicas],
            free: vec![Picos::ZERO; replicas],
            tallies: vec![LinkTally::default(); replicas],
            pushes: Vec::new(),
        }
    }

    fn forget(&mut self, id: RequestId) -> Option<Stored> {
        let decode = self.decode_of.remove(&id);
        let stored = self.stored.remove(&id)?;
        if !stored.is_in_host
            && let Some(decode) = decode
        {
            self.buffered[decode] -= stored.bytes;
        }
        Some(stored)
    }

    /// A decode replica has failed with all that it has received.
    fn lose(&mut self, replica: usize) {
        let decode_of = &self.decode_of;
        self.stored.retain(|id, _| decode_of.get(id) != Some(&replica));
        self.buffered[replica] = 0;
        self.gone[replica] = true;
    }

    /// Sends a prompt that a step computes from `begin` on for `compute`; when the last byte is there.
    fn push(&mut self, from: usize, id: RequestId, bytes: u64, begin: Picos, compute: Picos) -> Picos {
        let Some(&to) = self.decode_of.get(&id) else {
            return begin;
        };
        let rate = self.spec.links[from].send.min(self.spec.links[to].receive);
        let layers = u64::from(self.spec.layers.max(1));
        let whole = at_rate(bytes, rate);
        // The first layer can go when it is computed, the last one not before all are. In units of a picosecond over the
        // number of layers, so that only the end is rounded.
        let fine = |at: Picos| u128::from(at.0) * u128::from(layers);
        let (all, link) = (u128::from(whole.0), self.free[from].max(self.free[to]));
        let first = (fine(begin) + u128::from(compute.0)).max(fine(link));
        let last = (first + fine(whole)).max(fine(begin + compute) + all);
        let picos = |fine: u128| {
            Picos(u64::try_from(fine.div_ceil(u128::from(layers))).expect("a transfer ends within the clock"))
        };
        let (start, end) = (picos(first), picos(last));
        (self.free[from], self.free[to]) = (end, end);
        let end = end + self.spec.latency;
        for replica in [from, to] {
            let tally = &mut self.tallies[replica];
            tally.bytes += bytes;
            tally.transfers += 1;
            tally.busy += whole;
            tally.flowed += u128::from(whole.0);
            tally.area += i128::from(whole.0);
            tally.asked += 1;
            tally.in_flight += i128::from(end.0) - i128::from(start.0);
        }
        let is_in_host = self.buffered[to] + bytes > self.spec.receive_buffer;
        if !self.gone[to] {
            if !is_in_host {
                self.buffered[to] += bytes;
            }
            self.stored.insert(id, Stored { bytes, is_in_host });
        }
        self.pushes.push(Push {
            id,
            from,
            to,
            bytes,
            begin: start,
            end,
            takes: whole,
        });
        end
    }
}

/// How long bytes take.
fn at_rate(bytes: u64, bytes_per_s: u64) -> Picos {
    let picos = (u128::from(bytes) * u128::from(PICOS_PER_SECOND)).div_ceil(u128::from(bytes_per_s));
    Picos(u64::try_from(picos).expect("a transfer ends within the clock"))
}

/// NIXL in a prefill replica.
struct Keeper;

impl Connector for Keeper {
    fn look_up(&mut self, _: Picos, _: &Asked<'_>) -> Offer {
        Offer::Nothing
    }

    fn load(&mut self, _: Picos, _: &Asked<'_>, _: u32) -> Option<Picos> {
        None
    }

    fn step(&mut self, _: Picos, compute: Picos, _: &[Share<'_>]) -> Picos {
        compute
    }

    fn leaves(&mut self, _: Picos, _: &Request, why: Leaving) -> bool {
        why == Leaving::Completed
    }

    fn restart(&mut self, _: Picos) {}
}

/// NIXL in a decode replica.
struct Reader(Rc<RefCell<Counter>>);

impl Connector for Reader {
    fn look_up(&mut self, _: Picos, asked: &Asked<'_>) -> Offer {
        // What was read before a preemption is lost, and so is the prefill replica's copy (PD-17). What could not be read is
        // computed (PD-16).
        if asked.resumed || self.0.borrow().unreadable.contains(&asked.request.id) {
            return Offer::Nothing;
        }
        match asked.request.prompt_tokens.saturating_sub(asked.local_tokens) {
            0 => Offer::Nothing,
            rest => Offer::Aside(rest),
        }
    }

    fn load(&mut self, now: Picos, asked: &Asked<'_>, tokens: u32) -> Option<Picos> {
        self.0.borrow_mut().told.push(Told {
            at: now,
            id: asked.request.id,
            what: Signal::Reads { tokens },
        });
        None
    }

    fn step(&mut self, _: Picos, compute: Picos, _: &[Share<'_>]) -> Picos {
        compute
    }

    fn leaves(&mut self, _: Picos, request: &Request, why: Leaving) -> bool {
        if why != Leaving::Preempted {
            self.0.borrow_mut().unreadable.remove(&request.id);
        }
        false
    }

    fn restart(&mut self, _: Picos) {}
}

/// P2P NCCL in a prefill replica.
struct Pusher {
    desk: Rc<RefCell<Counter>>,
    replica: usize,
    block_size: u32,
}

impl Connector for Pusher {
    fn look_up(&mut self, _: Picos, _: &Asked<'_>) -> Offer {
        Offer::Nothing
    }

    fn load(&mut self, _: Picos, _: &Asked<'_>, _: u32) -> Option<Picos> {
        None
    }

    fn step(&mut self, begin: Picos, compute: Picos, shares: &[Share<'_>]) -> Picos {
        let mut counter = self.desk.borrow_mut();
        let mut end = begin + compute;
        for share in shares
            .iter()
            .filter(|share| share.to == share.request.prompt_tokens)
        {
            let tokens = share.to.next_multiple_of(self.block_size);
            let bytes = u64::from(tokens) * counter.spec.kv_bytes_per_token;
            end = end.max(counter.push(self.replica, share.request.id, bytes, begin, compute));
        }
        end - begin
    }

    fn leaves(&mut self, _: Picos, request: &Request, why: Leaving) -> bool {
        if why == Leaving::GivenUp {
            self.desk.borrow_mut().forget(request.id);
        }
        false
    }

    fn restart(&mut self, _: Picos) {}
}

/// P2P NCCL in a decode replica.
struct Receiver {
    desk: Rc<RefCell<Counter>>,
    replica: usize,
    /// Requests that are admitted with the step that is being decided.
    loading: Vec<RequestId>,
}

impl Connector for Receiver {
    fn look_up(&mut self, _: Picos, asked: &Asked<'_>) -> Offer {
        // What is lost with the process that received it is computed.
        if asked.resumed || !self.desk.borrow().stored.contains_key(&asked.request.id) {
            return Offer::Nothing;
        }
        match (asked.request.prompt_tokens - 1).saturating_sub(asked.local_tokens) {
            0 => Offer::Nothing,
            rest => Offer::WithStep(rest),
        }
    }

    fn load(&mut self, _: Picos, asked: &Asked<'_>, _: u32) -> Option<Picos> {
        self.loading.push(asked.request.id);
        None
    }

    fn step(&mut self, _: Picos, compute: Picos, _: &[Share<'_>]) -> Picos {
        let mut counter = self.desk.borrow_mut();
        let mut copied = 0;
        for id in self.loading.drain(..) {
            debug_assert_eq!(
                counter.decode_of.get(&id).copied().unwrap_or(self.replica),
                self.replica
            );
            if let Some(stored) = counter.forget(id)
                && stored.is_in_host
            {
                copied += stored.bytes;
            }
        }
        compute + at_rate(copied, counter.spec.host_bytes_per_s[self.replica])
    }

    fn leaves(&mut self, _: Picos, request: &Request, _: Leaving) -> bool {
        self.desk.borrow_mut().forget(request.id);
        false
    }

    fn restart(&mut self, _: Picos) {
        self.loading.clear();
        self.desk.borrow_mut().lose(self.replica);
    }
}
