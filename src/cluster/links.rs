//! Links between replicas: how long their bytes take when several transfers share them (PD-1, PD-2).
//!
//! Every replica sends over one link and receives over another, full duplex. A transfer waits for the latency, during
//! which it takes no bandwidth, and then flows at its max-min fair share of the sender's and the receiver's link: no
//! transfer could go faster without slowing one that is no faster. Shares change only when a transfer begins or ends to
//! flow, and only among those that share a link with it, directly or through others; nobody else is visited.
//! Left out: switches and links that several replicas share, congestion control, and a cap on one transfer alone.
//!
//! Rates are whole bytes per second and amounts are whole byte·picoseconds per second, so nothing is rounded but the end
//! of a transfer, up to the next picosecond. Law: what a transfer has moved at its end is what it was given, to less than
//! what one picosecond moves.

mod sharing;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;

use rustc_hash::FxHashMap;
use slab::Slab;

use crate::facts::LinkTally;
use crate::units::{PICOS_PER_SECOND, Picos};

/// Bytes per second of a replica's link, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRate {
    /// Outwards.
    pub send: u64,
    /// Inwards.
    pub receive: u64,
}

/// A transfer that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved<T> {
    /// What the owner called it.
    pub(crate) tag: T,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: u64,
    /// When it was asked for, latency included in what follows.
    pub(crate) asked: Picos,
}

/// See [`Links::due`].
type Due = (Picos, bool, u64, usize);

/// All links, and what flows through them.
#[derive(Debug)]
pub(crate) struct Links<T> {
    latency: Picos,
    /// Replica `i` sends over port `2·i` and receives over port `2·i + 1`.
    ports: Vec<Port>,
    flows: Slab<Flow<T>>,
    /// Slots by the owner's name for them: one transfer at a time has a name.
    slots: FxHashMap<T, usize>,
    /// (when, begins to flow, order of asking, slot). Of those who share links the first end is there; an end at another
    /// time than its transfer's is void.
    due: BinaryHeap<Reverse<Due>>,
    asked: u64,
    /// Scratch of [`Links::share_out`]: ports whose shares change, and what is left of them.
    component: Vec<usize>,
}

#[derive(Debug)]
struct Port {
    bytes_per_s: u64,
    flows: Vec<usize>,
    busy_since: Picos,
    tally: LinkTally,
    /// Of the sharing that goes on: bandwidth and transfers without a rate yet; in the component.
    left: u64,
    open: u64,
    is_met: bool,
}

#[derive(Debug)]
struct Flow<T> {
    tag: T,
    ports: [usize; 2],
    bytes: u64,
    asked: Picos,
    order: u64,
    began: Picos,
    /// What is left to move, in bytes·picoseconds per second, at `since`.
    left: u128,
    since: Picos,
    rate: u64,
    /// When it will be over at this rate.
    ends: Picos,
    is_fixed: bool,
}

impl<T: Copy + Eq + Hash> Links<T> {
    /// Idle links.
    pub(crate) fn new(rates: &[LinkRate], latency: Picos) -> Links<T> {
        let port = |bytes_per_s: u64| {
            assert!(bytes_per_s > 0, "a link has a bandwidth");
            Port {
                bytes_per_s,
                flows: Vec::new(),
                busy_since: Picos::ZERO,
                tally: LinkTally::default(),
                left: 0,
                open: 0,
                is_met: false,
            }
        };
        Links {
            latency,
            ports: rates
                .iter()
                .flat_map(|rate| [port(rate.send), port(rate.receive)])
                .collect(),
            flows: Slab::new(),
            slots: FxHashMap::default(),
            due: BinaryHeap::new(),
            asked: 0,
            component: Vec::new(),
        }
    }

    /// Asks for a transfer at `now`.
    pub(crate) fn send(&mut self, now: Picos, from: usize, to: usize, bytes: u64, tag: T) {
        self.asked += 1;
        for port in [2 * from, 2 * to + 1] {
            let tally = &mut self.ports[port].tally;
            tally.asked += 1;
            tally.in_flight -= i128::from(now.0);
        }
        let slot = self.flows.insert(Flow {
            tag,
            ports: [2 * from, 2 * to + 1],
            bytes,
            asked: now,
            order: self.asked,
            began: Picos::ZERO,
            left: u128::from(bytes) * u128::from(PICOS_PER_SECOND),
            since: Picos::ZERO,
            rate: 0,
            ends: Picos::MAX,
            is_fixed: false,
        });
        let before = self.slots.insert(tag, slot);
        debug_assert!(before.is_none(), "a name is of one transfer at a time");
        self.due
            .push(Reverse((now + self.latency, true, self.asked, slot)));
    }

    /// When something next happens here.
    pub(crate) fn next(&mut self) -> Option<Picos> {
        while let Some(&Reverse((at, begins, order, slot))) = self.due.peek() {
            let is_valid = self
                .flows
                .get(slot)
                .is_some_and(|flow| flow.order == order && (begins || flow.ends == at));
            if is_valid {
                return Some(at);
            }
            self.due.pop();
        }
        None
    }

    /// Takes what happens next, at `now`: the transfer that ends, if it is an end.
    pub(crate) fn step(&mut self, now: Picos) -> Option<Moved<T>> {
        debug_assert_eq!(self.next(), Some(now), "asked for when something happens");
        let Reverse((_, begins, _, slot)) = self.due.pop()?;
        if begins {
            self.begin(now, slot);
            None
        } else {
            Some(self.end(now, slot))
        }
    }

    fn begin(&mut self, now: Picos, slot: usize) {
        let flow = &mut self.flows[slot];
        (flow.began, flow.since) = (now, now);
        let ports = flow.ports;
        for port in ports {
            let port = &mut self.ports[port];
            if port.flows.is_empty() {
                port.busy_since = now;
            }
            port.flows.push(slot);
            port.tally.area -= i128::from(now.0);
        }
        self.share_out(now, ports);
    }

    fn end(&mut self, now: Picos, slot: usize) -> Moved<T> {
        let flow = self.flows.remove(slot);
        self.slots.remove(&flow.tag);
        let moved = u128::from(flow.rate) * u128::from((now - flow.since).0);
        assert!(
            moved >= flow.left && moved - flow.left < u128::from(flow.rate.max(1)),
            "a transfer ends when its last byte has moved"
        );
        for port in flow.ports {
            self.ports[port].tally.in_flight += i128::from(now.0);
        }
        self.leave_ports(now, slot, &flow, flow.bytes);
        self.share_out(now, flow.ports);
        Moved {
            tag: flow.tag,
            from: flow.ports[0] / 2,
            to: flow.ports[1] / 2,
            bytes: flow.bytes,
            asked: flow.asked,
        }
    }

    /// Ends the transfer of this name at `now` with what has moved by then; whether there is one. Its bytes count as not
    /// carried.
    pub(crate) fn cancel(&mut self, now: Picos, tag: T) -> bool {
        let Some(slot) = self.slots.remove(&tag) else {
            return false;
        };
        let flow = self.flows.remove(slot);
        for port in flow.ports {
            let tally = &mut self.ports[port].tally;
            tally.in_flight += i128::from(now.0);
            tally.untold += u128::from((now - flow.asked).0);
        }
        if !self.ports[flow.ports[0]].flows.contains(&slot) {
            // It waits for its latency yet.
            return true;
        }
        self.leave_ports(now, slot, &flow, 0);
        self.share_out(now, flow.ports);
        true
    }

    /// A transfer flows no longer on its ports, which have carried `bytes` of it to its end.
    fn leave_ports(&mut self, now: Picos, slot: usize, flow: &Flow<T>, bytes: u64) {
        for port in flow.ports {
            let port = &mut self.ports[port];
            port.flows.retain(|&other| other != slot);
            let tally = &mut port.tally;
            tally.bytes += bytes;
            tally.transfers += 1;
            tally.flowed += u128::from((now - flow.began).0);
            tally.area += i128::from(now.0);
            if port.flows.is_empty() {
                tally.busy += now - port.busy_since;
            }
        }
    }

    /// What the two directions of a replica's link did up to `now`: sending, receiving.
    pub(crate) fn tallies(&self, replica: usize, now: Picos) -> [LinkTally; 2] {
        [2 * replica, 2 * replica + 1].map(|index| {
            let port = &self.ports[index];
            let mut tally = port.tally;
            for (_, flow) in self.flows.iter().filter(|(_, flow)| flow.ports.contains(&index)) {
                tally.in_flight += i128::from(now.0);
                tally.untold += u128::from((now - flow.asked).0);
            }
            if !port.flows.is_empty() {
                tally.busy += now - port.busy_since;
            }
            for &slot in &port.flows {
                tally.flowed += u128::from((now - self.flows[slot].began).0);
                tally.area += i128::from(now.0);
            }
            tally
        })
    }

    /// Bytes that were asked for and have not all arrived.
    #[cfg(test)]
    fn under_way(&self) -> u64 {
        self.flows.iter().map(|(_, flow)| flow.bytes).sum()
    }
}

#[cfg(test)]
mod tests;
