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

use rustc_hash::FxHashMap;

use super::flight::Flight;
use super::{Disaggregation, Flow};
use crate::engine::sglang::DecodeOptions;
use crate::engine::{Engine, Told};
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
                let host = 1.0 / spec.host_bytes_per_s as f64;
                engine.only_decode(DecodeOptions {
                    num_reserved_decode_tokens: spec.num_reserved_decode_tokens,
                    host_copy_per_token: Picos::from_seconds(spec.kv_bytes_per_token as f64 * host),
                });
            }
            _ => unreachable!(),
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

    /// What a replica's link carried by pushes.
    pub(super) fn tally(&self, replica: usize) -> LinkTally {
        self.0.borrow().tallies[replica]
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

    /// Sends a prompt that a step computes from `begin` on for `compute`; when the last byte is there.
    fn push(&mut self, from: usize, id: RequestId, bytes: u64, begin: Picos, compute: Picos) -> Picos {
        let Some(&to) = self.decode_of.get(&id) else {
            return begin;
        };
        let rate = self.spec.prefill_link.send.min(self.spec.decode_link.receive);
        let layers = u64::from(self.spec.layers.max(1));
        let whole = at_rate(bytes, rate);
        // The first layer can go when it is computed, the last one not before all are.
        let start = (begin + Picos(compute.0 / layers))
            .max(self.free[from])
            .max(self.free[to]);
        let end = (start + whole).max(begin + compute + Picos(whole.0.div_ceil(layers)));
        (self.free[from], self.free[to]) = (end, end);
        let end = end + self.spec.latency;
        for replica in [from, to] {
            let tally = &mut self.tallies[replica];
            tally.bytes += bytes;
            tally.transfers += 1;
            tally.busy += whole;
            tally.flowed += u128::from(whole.0);
            tally.area += i128::from(whole.0);
        }
        let is_in_host = self.buffered[to] + bytes > self.spec.receive_buffer;
        if !is_in_host {
            self.buffered[to] += bytes;
        }
        self.stored.insert(id, Stored { bytes, is_in_host });
        self.pushes.push(Push {
            id,
            from,
            to,
            bytes,
            begin: start,
            end,
        });
        end
    }
}

/// How long bytes take.
fn at_rate(bytes: u64, bytes_per_s: u64) -> Picos {
    let picos = (u128::from(bytes) * u128::from(PICOS_PER_SECOND)).div_ceil(u128::from(bytes_per_s));
    Picos(u64::try_from(picos).expect("a transfer ends within the clock"))
}

