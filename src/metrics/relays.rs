//! What happened between prefill and decode: the stages of TTFT, links, and blocks held for transfers.
//!
//! Law: for each request the stages add up to its time to first token. For each link the area under the number of its
//! transfers is the sum of their times, its bytes are those of the transfers that were told, and it is busy no longer
//! than the run.

use super::Distribution;
use super::by_replica::ReplicaSummary;
use super::summary::LittleCheck;
use crate::facts::{LinkTally, LinkUse, Relay};
use crate::ids::ReplicaId;
use crate::units::{PICOS_PER_SECOND, Picos};

/// A stage on the way to the first token, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting to be prefilled; in SGLang for the decode server's memory, too.
    PrefillQueue,
    /// Being prefilled.
    Prefill,
    /// From the prefill's end to the decode engine: answer, proxy, front end.
    Forward,
    /// Waiting at the decode engine until its scheduler looks, half a step as a rule, and for memory.
    DecodeMemory,
    /// Waiting for what is left of the transfer.
    Transfer,
    /// From the last byte to a place in the running batch: until the loop looks, and for a place.
    DecodePlace,
    /// The decode replica's own step, where it computes the first token.
    DecodeStep,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 7] = [
        Stage::PrefillQueue,
        Stage::Prefill,
        Stage::Forward,
        Stage::DecodeMemory,
        Stage::Transfer,
        Stage::DecodePlace,
        Stage::DecodeStep,
    ];

    /// As results spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::PrefillQueue => "prefill_queue",
            Stage::Prefill => "prefill",
            Stage::Forward => "forward",
            Stage::DecodeMemory => "decode_memory",
            Stage::Transfer => "transfer",
            Stage::DecodePlace => "decode_place",
            Stage::DecodeStep => "decode_step",
        }
    }
}

/// What happened between prefill and decode over a whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct RelaySummary {
    /// Requests that got their first token this way.
    pub requests: u64,
    /// Mean of each stage in seconds, in the order of [`Stage::ALL`]; they add up to the mean TTFT, the front end's way
    /// back to the client left out.
    pub stages_s: [f64; 7],
    /// Mean time between a request's arrival and the decode replica's memory, where that comes before the prefill.
    pub reservation_s: f64,
    /// Bytes of KV that crossed.
    pub bytes: u64,
    /// Messages that they crossed in.
    pub messages: u64,
    /// Mean, median and 99th percentile of a message's time, from when it could begin.
    pub message_s: [f64; 3],
    /// Mean number of blocks that prefill replicas held only for transfers, all together.
    pub held_blocks: f64,
    /// What each replica's link did.
    pub links: Vec<LinkSummary>,
}

impl RelaySummary {
    /// Mean TTFT as the stages add up, in seconds.
    #[must_use]
    pub fn ttft_s(&self) -> f64 {
        self.stages_s.iter().sum()
    }

    /// Mean TTFT as clients see it, who may wait for the token's way out of the engine besides; the stages' alone where nobody says.
    #[must_use]
    pub fn ttft_of_clients_s(&self, seen_s: Option<f64>) -> f64 {
        seen_s.map_or(self.ttft_s(), |seen_s| seen_s.max(self.ttft_s()))
    }

    /// All replicas of one role together, of `replicas` as the run tells of them.
    #[must_use]
    pub fn of_role(&self, prefills: bool, replicas: &[ReplicaSummary]) -> ReplicaSummary {
        let of_role = self.links.iter().filter(|link| link.prefills == prefills);
        let replicas: Vec<ReplicaSummary> = of_role
            .filter_map(|link| replicas.get(link.replica.0 as usize).cloned())
            .collect();
        ReplicaSummary::together(&replicas)
    }

    /// A stage's mean in seconds.
    #[must_use]
    pub fn stage_s(&self, stage: Stage) -> f64 {
        self.stages_s[stage as usize]
    }
}

/// What one replica's link did over a whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSummary {
    /// Whose.
    pub replica: ReplicaId,
    /// It prefills; the others decode.
    pub prefills: bool,
    /// Outwards.
    pub sent: WaySummary,
    /// Inwards.
    pub received: WaySummary,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct WaySummary {
    /// Bytes of finished transfers.
    pub bytes: u64,
    /// They, as a share of what the bandwidth could have carried.
    pub utilisation: f64,
    /// Share of the time in which something flowed.
    pub busy: f64,
    /// Little's law for the transfers that flowed.
    pub flowing: LittleCheck,
    /// The same for those that were asked for, latency and waits on the sender's part included: `L` from what the link
    /// counted, `W` from what was told of each.
    pub in_flight: LittleCheck,
}

/// Running sums.
#[derive(Clone, Debug)]
pub(super) struct Relays {
    requests: u64,
    stages: [u128; 7],
    reservation: u128,
    bytes: u64,
    messages: u64,
    message: Distribution,
    held: u128,
    /// Bytes and picoseconds told by (sender, receiver) way, twice as many as replicas.
    told: Vec<(u64, u128)>,
    links: Vec<LinkUse>,
}

impl Default for Relays {
    fn default() -> Relays {
        Relays {
            requests: 0,
            stages: [0; 7],
            reservation: 0,
            bytes: 0,
            messages: 0,
            message: Distribution::bucketed(),
            held: 0,
            told: Vec::new(),
            links: Vec::new(),
        }
    }
}

impl Relays {
    /// A request has its first token.
    pub(super) fn relayed(&mut self, relay: &Relay) {
        let ends = [
            relay.arrival + relay.waited,
            relay.prefilled,
            relay.known,
            relay.reserved,
            relay.arrived,
            relay.joined,
            relay.first_token,
        ];
        let mut since = relay.arrival;
        for (stage, end) in self.stages.iter_mut().zip(ends) {
            // What was over before the stage before was takes no time of its own.
            let end = end.max(since);
            *stage += u128::from((end - since).0);
            since = end;
        }
        debug_assert_eq!(since, relay.first_token, "stages end with the first token");
        if relay.reserved < relay.prefilled {
            self.reservation += u128::from((relay.reserved - relay.arrival).0);
        }
        self.requests += 1;
    }

    /// A message has crossed.
    pub(super) fn transferred(&mut self, (from, to): (ReplicaId, ReplicaId), bytes: u64, took: Picos) {
        self.bytes += bytes;
        self.messages += 1;
        self.message.record(took, 1);
        for way in [2 * from.0 as usize, 2 * to.0 as usize + 1] {
            if self.told.len() <= way {
                self.told.resize(way + 1, (0, 0));
            }
            self.told[way].0 += bytes;
            self.told[way].1 += u128::from(took.0);
        }
    }

    /// Blocks were held for so long.
    pub(super) fn released(&mut self, blocks: u32, held: Picos) {
        self.held += u128::from(blocks) * u128::from(held.0);
    }

    /// What the links have done so far.
    pub(super) fn links(&mut self, uses: &[LinkUse]) {
        uses.clone_into(&mut self.links);
    }

    /// The summary of a run that ended at `end`, and in words the laws that are broken.
    pub(super) fn conclude(self, end: Picos) -> (RelaySummary, Vec<String>) {
        let requests = self.requests.max(1) as f64;
        let seconds = |picos: u128| picos as f64 / PICOS_PER_SECOND as f64;
        let mut broken = Vec::new();
        for link in &self.links {
            let ways = [(link.sent, "sent"), (link.received, "received")];
            for ((tally, way), (bytes, took)) in ways.into_iter().zip(self.told_of(link)) {
                let is_broken =
                    tally.area < 0 || tally.area.unsigned_abs() != tally.flowed || tally.bytes != bytes;
                if tally.in_flight < 0 || tally.in_flight.unsigned_abs() != took + tally.untold {
                    let replica = link.replica.0;
                    broken.push(format!(
                        "Little's law fails for what the link of replica {replica} has {way}"
                    ));
                }
                if is_broken || tally.busy > end {
                    let replica = link.replica.0;
                    broken.push(format!(
                        "the link of replica {replica} has {way} other than it was given"
                    ));
                }
            }
        }
        let quantiles = self.message.quantiles_s(&[0.5, 0.99]);
        let summary = RelaySummary {
            requests: self.requests,
            stages_s: self.stages.map(|stage| seconds(stage) / requests),
            reservation_s: seconds(self.reservation) / requests,
            bytes: self.bytes,
            messages: self.messages,
            message_s: [
                self.message.mean_s().unwrap_or(0.0),
                quantiles[0].unwrap_or(0.0),
                quantiles[1].unwrap_or(0.0),
            ],
            held_blocks: self.held as f64 / end.0.max(1) as f64,
            links: self
                .links
                .iter()
                .map(|link| summarise(link, self.told_of(link), end))
                .collect(),
        };
        (summary, broken)
    }

    /// Bytes and time of what was told of a link, outwards and inwards.
    fn told_of(&self, link: &LinkUse) -> [(u64, u128); 2] {
        let way = 2 * link.replica.0 as usize;
        [way, way + 1].map(|way| self.told.get(way).copied().unwrap_or_default())
    }
}

fn summarise(link: &LinkUse, [sent, received]: [(u64, u128); 2], end: Picos) -> LinkSummary {
    let seconds = end.seconds().max(f64::MIN_POSITIVE);
    let way = |tally: &LinkTally, bytes_per_s: u64, (_, took): (u64, u128)| WaySummary {
        bytes: tally.bytes,
        utilisation: tally.bytes as f64 / (bytes_per_s as f64 * seconds),
        busy: tally.busy.seconds() / seconds,
        flowing: LittleCheck {
            l: tally.area as f64 / end.0.max(1) as f64,
            lambda: tally.transfers as f64 / seconds,
            w: tally.flowed as f64 / PICOS_PER_SECOND as f64 / tally.transfers.max(1) as f64,
        },
        in_flight: LittleCheck {
            l: tally.in_flight as f64 / end.0.max(1) as f64,
            lambda: tally.asked as f64 / seconds,
            w: (took + tally.untold) as f64 / PICOS_PER_SECOND as f64 / tally.asked.max(1) as f64,
        },
    };
    LinkSummary {
        replica: link.replica,
        prefills: link.prefills,
        sent: way(&link.sent, link.send_bytes_per_s, sent),
        received: way(&link.received, link.receive_bytes_per_s, received),
    }
}
