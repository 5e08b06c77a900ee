//! Who gets how much of the links: max-min fair shares by progressive filling, among those whom a change can reach.

use std::hash::Hash;

use std::cmp::Reverse;

use super::Links;
use crate::units::Picos;

impl<T: Copy + Eq + Hash> Links<T> {
    /// Gives everybody who shares a link with these ports, directly or through others, a max-min fair rate: the tightest
    /// link is shared out equally, its transfers are fixed, and so on with what is left (progressive filling; Bertsekas
    /// and Gallager, Data Networks, 6.5.2). O(transfers that it reaches).
    pub(super) fn share_out(&mut self, now: Picos, from: [usize; 2]) {
        self.share_component(now, from[0]);
        // The two directions may share transfers no longer.
        if !self.ports[from[1]].is_met {
            self.share_component(now, from[1]);
        }
    }

    /// The same for everybody whom a change at one port reaches. The first of them to end is due then.
    fn share_component(&mut self, now: Picos, from: usize) {
        self.meet(from);
        let component = std::mem::take(&mut self.component);
        let mut first: Option<(Picos, u64, usize)> = None;
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
                    let end = (self.flows[slot].ends, self.flows[slot].order, slot);
                    first = Some(first.map_or(end, |first| first.min(end)));
                    for port in self.flows[slot].ports {
                        let port = &mut self.ports[port];
                        port.left = port.left.saturating_sub(rate);
                        port.open -= 1;
                    }
                }
            }
        }
        self.component = component;
        if let Some((end, order, slot)) = first {
            self.due.push(Reverse((end, false, order, slot)));
        }
    }

    /// Collects the ports that are connected to this one by transfers, with all their bandwidth to share out.
    fn meet(&mut self, from: usize) {
        for port in self.component.drain(..) {
            self.ports[port].is_met = false;
        }
        self.ports[from].is_met = true;
        self.component.push(from);
        let mut at = 0;
        while let Some(&index) = self.component.get(at) {
            let port = &mut self.ports[index];
            (port.left, port.open) = (port.bytes_per_s, port.flows.len() as u64);
            for nth in 0..port.flows.len() {
                let flow = &mut self.flows[self.ports[index].flows[nth]];
                flow.is_fixed = false;
                for port in flow.ports {
                    if !std::mem::replace(&mut self.ports[port].is_met, true) {
                        self.component.push(port);
                    }
                }
            }
            at += 1;
        }
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
        let rest = flow.left.div_ceil(u128::from(rate));
        flow.ends = now + Picos(u64::try_from(rest).expect("a transfer ends within the clock"));
    }
}
