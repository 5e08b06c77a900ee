//! What the naive twins have in common: links whose shares are worked out anew for everybody, random settings, and random
//! traffic.

use plimsoll::cluster::{Disaggregation, Flow, LinkRate};
use plimsoll::units::Picos;
use plimsoll::workload::Request;
use proptest::prelude::*;

use crate::common::request;
use crate::setup::{PlainCost, pools};

/// A message of request `req` on its way.
struct Message {
    req: usize,
    ways: [usize; 2],
    begins: u64,
    left: u128,
    rate: u64,
}

/// Every link, out of and into every replica, and what is on it.
pub(crate) struct Wire {
    rates: Vec<u64>,
    prefill: usize,
    messages: Vec<Message>,
}

impl Wire {
    pub(crate) fn new(spec: &Disaggregation) -> Wire {
        Wire {
            rates: spec
                .links
                .iter()
                .flat_map(|link| [link.send, link.receive])
                .collect(),
            prefill: spec.prefill as usize,
            messages: Vec::new(),
        }
    }

    /// From the `p`-th that prefills to the `d`-th that decodes.
    pub(crate) fn send(&mut self, req: usize, (p, d): (usize, usize), bytes: u64, begins: u64) {
        self.messages.push(Message {
            req,
            ways: [2 * p, 2 * (self.prefill + d) + 1],
            begins,
            left: u128::from(bytes) * 1_000_000_000_000,
            rate: 0,
        });
    }

    /// Time passes.
    pub(crate) fn flow(&mut self, before: u64, now: u64) {
        for message in self
            .messages
            .iter_mut()
            .filter(|message| message.begins <= before)
        {
            let moved = u128::from(message.rate) * u128::from(now - before);
            message.left = message.left.saturating_sub(moved);
        }
    }

    /// Whose message has all crossed.
    pub(crate) fn landed(&mut self, now: u64) -> Option<usize> {
        let is_over = |message: &Message| message.begins <= now && message.left == 0;
        let at = self.messages.iter().position(is_over)?;
        Some(self.messages.remove(at).req)
    }

    /// When a message next begins to flow or is over.
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        let ends = self.messages.iter().map(|message| match message.begins > now {
            true => message.begins,
            false => now + message.left.div_ceil(u128::from(message.rate)) as u64,
        });
        ends.min()
    }

    /// Everybody's share, from nothing.
    pub(crate) fn share(&mut self, now: u64) {
        let mut left = self.rates.clone();
        let mut open: Vec<usize> = (0..self.messages.len())
            .filter(|&at| self.messages[at].begins <= now)
            .collect();
        while !open.is_empty() {
            let uses = |at: usize, way: usize| self.messages[at].ways.contains(&way);
            let count = |way: usize| open.iter().filter(|&&at| uses(at, way)).count() as u64;
            let shares = (0..left.len())
                .filter(|&way| count(way) > 0)
                .map(|way| (left[way] / count(way), way));
            let (rate, way) = shares.min().unwrap();
            let (fixed, rest): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&at| uses(at, way));
            for at in fixed {
                self.messages[at].rate = rate.max(1);
                for way in self.messages[at].ways {
                    left[way] -= rate;
                }
            }
            open = rest;
        }
    }
}

/// Up to three replicas a role, and links of any speed, each its own.
pub(crate) fn specs(flow: Flow) -> impl Strategy<Value = Disaggregation> {
    (
        (1u32..4, 1u32..4),
        prop::collection::vec((1u64..40, 1u64..40), 6),
        (1u64..400_000_000, 1u64..3_000_000_000),
        (0u64..200_000_000, 1u64..40),
        0u32..64,
    )
        .prop_map(move |((x, y), rates, (latency, hop), (buffer, host), reserved)| {
            let link = |&(send, receive): &(u64, u64)| LinkRate {
                send: send * 1_000_000_000,
                receive: receive * 1_000_000_000,
            };
            let replicas = (x + y) as usize;
            Disaggregation {
                links: rates[..replicas].iter().map(link).collect(),
                latency: Picos(latency),
                hop: Picos(hop),
                receive_buffer: buffer,
                host_bytes_per_s: vec![host * 1_000_000_000; replicas],
                num_reserved_decode_tokens: reserved,
                ..pools(flow, x, y)
            }
        })
}

/// Costs whose sums do not meet by chance.
pub(crate) fn costs() -> impl Strategy<Value = PlainCost> {
    (1u64..60_000, 1u64..5_000, 0u64..400).prop_map(|cost| PlainCost {
        prompt_2048: Picos(cost.0 * 1_000_003),
        decode: Picos(cost.1 * 1_000_007),
        per_kv_token: Picos(cost.2 * 1_009),
    })
}

/// Requests of `outputs(prompt, draw)` output tokens, some of whose clients give up.
pub(crate) fn traffic(
    prompts: std::ops::Range<u32>,
    outputs: fn(u32, u32) -> u32,
) -> impl Strategy<Value = Vec<Request>> {
    let one = (
        1u64..6_000_000_000,
        prompts,
        0u32..60,
        prop::option::weighted(0.25, 1u64..60_000_000_000),
    );
    prop::collection::vec(one, 1..24).prop_map(move |wishes| {
        let mut now = 0;
        let list = wishes
            .into_iter()
            .enumerate()
            .map(|(id, (gap, prompt, draw, patience))| {
                now += gap;
                Request {
                    deadline: patience.map(|patience| Picos(now + patience)),
                    ..request(id as u64, Picos(now), prompt, outputs(prompt, draw))
                }
            });
        list.collect()
    })
}
