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

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
type Due = (Picos, bool, u64, usize, u32);

/// All links, and what flows through them.
#[derive(Debug)]
pub(crate) struct Links<T> {
    latency: Picos,
    /// Replica `i` sends over port `2·i` and receives over port `2·i + 1`.
    ports: Vec<Port>,
    flows: Slab<Flow<T>>,
    /// (when, begins to flow, order of asking, slot, epoch); what has another epoch by then is void.
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
    epoch: u32,
    is_fixed: bool,
}

impl<T: Copy> Links<T> {
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
            epoch: 0,
            is_fixed: false,
        });
        self.due
            .push(Reverse((now + self.latency, true, self.asked, slot, 0)));
    }

    /// When something next happens here.
    pub(crate) fn next(&mut self) -> Option<Picos> {
        while let Some(&Reverse((at, begins, order, slot, epoch))) = self.due.peek() {
            let is_valid = self
                .flows
                .get(slot)
                .is_some_and(|flow| flow.order == order && (begins || flow.epoch == epoch));
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
        let Reverse((_, begins, _, slot, _)) = self.due.pop()?;
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
    pub(crate) fn cancel(&mut self, now: Picos, tag: T) -> bool
    where
        T: PartialEq,
    {
        let Some((slot, _)) = self.flows.iter().find(|(_, flow)| flow.tag == tag) else {
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

    /// Gives everybody who shares a link with these ports, directly or through others, a max-min fair rate: the tightest
    /// link is shared out equally, its transfers are fixed, and so on with what is left (progressive filling; Bertsekas
    /// and Gallager, Data Networks, 6.5.2).
    fn share_out(&mut self, now: Picos, from: [usize; 2]) {
        self.meet(from);
        let component = std::mem::take(&mut self.component);
        while let Some(tightest) = component
            .iter()
            .copied()
            .filter(|&port| self.ports[port].open > 0)
            .min_by_key(|&port| (self.ports[port].left / self.ports[port].open, port))
        {
            let port = &self.ports[tightest];
            // Where a link has more transfers than bytes per second, each gets one: time goes on.
            let rate = (port.left / port.open).max(1);
            for at in 0..self.ports[tightest].flows.len() {
                let slot = self.ports[tightest].flows[at];
                if !std::mem::replace(&mut self.flows[slot].is_fixed, true) {
                    self.set_rate(now, slot, rate);
                    for port in self.flows[slot].ports {
                        let port = &mut self.ports[port];
                        port.left = port.left.saturating_sub(rate);
                        port.open -= 1;
                    }
                }
            }
        }
        self.component = component;
    }

    /// Collects the ports that are connected to these by transfers, with all their bandwidth to share out.
    fn meet(&mut self, from: [usize; 2]) {
        for port in self.component.drain(..) {
            self.ports[port].is_met = false;
        }
        let mut at = 0;
        let mut pending = from.to_vec();
        while let Some(index) = pending.pop() {
            let port = &mut self.ports[index];
            if std::mem::replace(&mut port.is_met, true) {
                continue;
            }
            (port.left, port.open) = (port.bytes_per_s, port.flows.len() as u64);
            self.component.push(index);
            for &slot in &self.ports[index].flows {
                self.flows[slot].is_fixed = false;
                pending.extend(self.flows[slot].ports);
            }
            at += 1;
        }
        debug_assert_eq!(at, self.component.len(), "a port is met once");
    }

    /// A transfer goes on at another rate, if it is another.
    fn set_rate(&mut self, now: Picos, slot: usize, rate: u64) {
        let flow = &mut self.flows[slot];
        if flow.rate == rate {
            return;
        }
        let moved = u128::from(flow.rate) * u128::from((now - flow.since).0);
        // A transfer whose last byte moves at this very instant ends now.
        flow.left = flow.left.saturating_sub(moved);
        (flow.rate, flow.since) = (rate, now);
        flow.epoch += 1;
        let rest = flow.left.div_ceil(u128::from(rate));
        let rest = Picos(u64::try_from(rest).expect("a transfer ends within the clock"));
        self.due
            .push(Reverse((now + rest, false, flow.order, slot, flow.epoch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// When, from, to, bytes.
    type Ask = (u64, usize, usize, u64);

    const GB: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000_000;

    fn alike(replicas: usize, bytes_per_s: u64) -> Vec<LinkRate> {
        let rate = LinkRate {
            send: bytes_per_s,
            receive: bytes_per_s,
        };
        vec![rate; replicas]
    }

    /// Ends of transfers asked for at given times (time, from, to, bytes), by tag.
    fn ends(rates: &[LinkRate], latency: u64, asked: &[Ask]) -> Vec<u64> {
        let mut links = Links::new(rates, Picos(latency));
        let mut ends = vec![0; asked.len()];
        let mut order: Vec<usize> = (0..asked.len()).collect();
        order.sort_by_key(|&at| asked[at].0);
        let mut order = order.into_iter().peekable();
        loop {
            let ask = order.peek().map(|&tag| Picos(asked[tag].0));
            match (links.next(), ask) {
                (Some(due), ask) if ask.is_none_or(|ask| due <= ask) => {
                    if let Some(moved) = links.step(due) {
                        ends[moved.tag] = due.0;
                    }
                }
                (_, Some(now)) => {
                    let tag = order.next().unwrap();
                    let (_, from, to, bytes) = asked[tag];
                    links.send(now, from, to, bytes, tag);
                }
                _ => break,
            }
            check_shares(&links);
        }
        check_tallies(&links, asked, *ends.iter().max().unwrap_or(&0));
        ends
    }

    /// Max-min: nobody exceeds a link, and each transfer has a full link on which none is faster.
    fn check_shares<T: Copy>(links: &Links<T>) {
        let rate_of = |slot: &usize| links.flows[*slot].rate;
        for (_, flow) in links.flows.iter().filter(|(_, flow)| flow.rate > 0) {
            let is_bound = flow.ports.iter().any(|&port| {
                let port = &links.ports[port];
                let used: u64 = port.flows.iter().map(rate_of).sum();
                assert!(used <= port.bytes_per_s.max(port.flows.len() as u64));
                let fastest = port.flows.iter().map(rate_of).max().unwrap();
                used + port.flows.len() as u64 > port.bytes_per_s && flow.rate + 1 >= fastest
            });
            assert!(is_bound, "a transfer is held up by a link");
        }
    }

    /// Bytes in = bytes out, and Little's law on every link.
    fn check_tallies<T: Copy>(links: &Links<T>, asked: &[Ask], end: u64) {
        assert_eq!(links.under_way(), 0);
        for replica in 0..links.ports.len() / 2 {
            let [sent, received] = links.tallies(replica, Picos(end));
            let sum = |pick: &dyn Fn(&Ask) -> bool| -> u64 {
                asked.iter().filter(|ask| pick(ask)).map(|ask| ask.3).sum()
            };
            assert_eq!(sent.bytes, sum(&|ask| ask.1 == replica));
            assert_eq!(received.bytes, sum(&|ask| ask.2 == replica));
            for tally in [sent, received] {
                assert_eq!(tally.area, tally.flowed as i128, "L = λW");
                let waited = i128::from(links.latency.0) * i128::from(tally.asked);
                assert_eq!(
                    tally.in_flight,
                    tally.area + waited,
                    "everybody waits for the latency first"
                );
                assert_eq!((tally.asked, tally.untold), (tally.transfers, 0));
                assert!(tally.busy.0 as u128 <= tally.flowed && tally.busy.0 <= end);
            }
        }
    }

    #[test]
    fn a_lone_transfer_takes_its_latency_and_its_bytes() {
        // PD-1: 2048 tokens of Llama-3.1-8B over 25 GB/s.
        let rates = alike(2, 25 * GB);
        assert_eq!(ends(&rates, 0, &[(0, 0, 1, 268_435_456)]), [10_737_418_240]);
        assert_eq!(
            ends(&rates, 30_000_000, &[(5, 0, 1, 268_435_456)]),
            [10_767_418_245]
        );
        assert_eq!(ends(&rates, 7, &[(3, 0, 1, 0)]), [10]);
    }

    #[test]
    fn two_overlapping_transfers_share_equally_while_both_last() {
        // 100 MB alone for 2 ms at 10 GB/s is 20 MB; then each has 5 GB/s; the second is 30 MB: 6 ms.
        let rates = alike(3, 10 * GB);
        let asked = [(0, 0, 1, 100_000_000), (2 * MS, 0, 2, 30_000_000)];
        // The first has 100 − 20 − 30 = 50 MB left at 8 ms: 5 ms more.
        assert_eq!(ends(&rates, 0, &asked), [13 * MS, 8 * MS]);
        // The same at one receiver.
        let asked = [(0, 1, 0, 100_000_000), (2 * MS, 2, 0, 30_000_000)];
        assert_eq!(ends(&rates, 0, &asked), [13 * MS, 8 * MS]);
        // And between links that share nothing, nothing is shared.
        let asked = [(0, 0, 1, 100_000_000), (2 * MS, 1, 2, 30_000_000)];
        assert_eq!(ends(&rates, 0, &asked), [10 * MS, 5 * MS]);
    }

    #[test]
    fn what_one_link_cannot_use_goes_to_the_others() {
        // Sender 0 has 12 GB/s; receiver 1 takes only 2 of them, so the other gets 10, not 6.
        let rates = [
            LinkRate {
                send: 12 * GB,
                receive: GB,
            },
            LinkRate {
                send: GB,
                receive: 2 * GB,
            },
            LinkRate {
                send: GB,
                receive: 50 * GB,
            },
        ];
        let asked = [(0, 0, 1, 20_000_000), (0, 0, 2, 100_000_000)];
        assert_eq!(ends(&rates, 0, &asked), [10 * MS, 10 * MS]);
    }

    /// The same in floating point, everybody visited at every event.
    fn naive(rates: &[LinkRate], latency: u64, asked: &[Ask]) -> Vec<f64> {
        let mut left: Vec<f64> = asked.iter().map(|ask| ask.3 as f64).collect();
        let mut ends = vec![f64::NAN; asked.len()];
        let begins = |at: usize| (asked[at].0 + latency) as f64;
        let mut now = 0.0;
        while ends.iter().any(|end| end.is_nan()) {
            let flowing: Vec<usize> = (0..asked.len())
                .filter(|&at| ends[at].is_nan() && begins(at) <= now)
                .collect();
            let mut speeds = vec![0.0; asked.len()];
            let mut open = flowing.clone();
            let mut capacity: Vec<f64> = rates
                .iter()
                .flat_map(|rate| [rate.send as f64, rate.receive as f64])
                .collect();
            while !open.is_empty() {
                let uses = |at: usize, port: usize| 2 * asked[at].1 == port || 2 * asked[at].2 + 1 == port;
                let (share, port) = (0..capacity.len())
                    .filter_map(|port| {
                        let count = open.iter().filter(|&&at| uses(at, port)).count();
                        (count > 0).then(|| (capacity[port] / count as f64, port))
                    })
                    .min_by(|a, b| a.0.total_cmp(&b.0))
                    .unwrap();
                let (fixed, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&at| uses(at, port));
                for at in fixed {
                    speeds[at] = share;
                    capacity[2 * asked[at].1] -= share;
                    capacity[2 * asked[at].2 + 1] -= share;
                }
                open = rest;
            }
            let next_begin = (0..asked.len()).map(begins).filter(|&at| at > now);
            let next_end = flowing.iter().map(|&at| now + left[at] / speeds[at] * 1e12);
            let next = next_begin.chain(next_end).fold(f64::INFINITY, f64::min);
            for &at in &flowing {
                left[at] -= speeds[at] * (next - now) / 1e12;
                if left[at] < 1e-3 {
                    ends[at] = next;
                }
            }
            now = next;
        }
        ends
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn shares_are_those_of_a_naive_progressive_filling(
            bandwidths in prop::collection::vec((1u64..40, 1u64..40), 4),
            latency in 0u64..50_000_000,
            asked in prop::collection::vec((0u64..20 * MS, 0usize..4, 0usize..4, 1u64..200_000_000), 1..14),
        ) {
            let rates: Vec<LinkRate> = bandwidths
                .iter()
                .map(|&(send, receive)| LinkRate { send: send * GB, receive: receive * GB })
                .collect();
            let exact = ends(&rates, latency, &asked);
            for (exact, naive) in exact.iter().zip(naive(&rates, latency, &asked)) {
                prop_assert!((*exact as f64 - naive).abs() < 1e5, "{exact} against {naive}");
            }
        }
    }
}
