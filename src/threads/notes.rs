//! Facts written down, to be told again later.
//!
//! Facts borrow what they tell of. Here each kind has a column of its own, and a list says whose turn it is; columns keep
//! their memory from batch to batch, so that nothing is allocated for a fact but for the few that borrow lists.

use std::hint::cold_path;

use crate::cost::StepLoad;
use crate::facts::{Completion, Fact, LinkUse, Observer, Rejection, Relay, SeenGaps, Steps, TierAccount};
use crate::ids::ReplicaId;
use crate::units::Picos;
use crate::workload::Request;

/// Facts of a batch: a thousand requests, a megabyte. To wake whoever reads them takes as long as to tell some hundred.
const BATCH: usize = 8192;

/// A batch of facts.
#[derive(Debug, Default)]
pub(super) struct Notes {
    turns: Vec<Turn>,
    arrived: Vec<Request>,
    ended: Vec<Completion>,
    steps: Vec<Steps<'static>>,
    /// Of each of the steps, and of more from batches before.
    loads: Vec<StepLoad>,
    /// Of those of the steps that have them.
    seen: Vec<SeenGaps>,
    plain: Vec<Fact<'static>>,
    rare: Vec<Rare>,
}

/// The column of a fact.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Arrived,
    Ended,
    Steps,
    /// Steps whose gaps are seen apart.
    SeenSteps,
    Plain,
    Rare,
}

/// A fact that borrows, and of which there are few.
#[derive(Debug)]
enum Rare {
    Rejected {
        now: Picos,
        request: Request,
        why: Rejection,
    },
    Relayed(Relay),
    Links {
        now: Picos,
        uses: Vec<LinkUse>,
    },
    Returned(Completion),
    Tiers {
        replica: ReplicaId,
        account: TierAccount,
    },
}

/// What stands for the load of steps whose load is in its own column.
static ELSEWHERE: StepLoad = StepLoad {
    decode_seqs: 0,
    decode_kv_tokens: 0,
    decode_longest: 0,
    decode_beyond: 0,
    seqs_beyond: 0,
    chunks: Vec::new(),
    sampled_rows: 0,
    drafts: 0,
    draft_pairs_doubled: 0,
};

impl Notes {
    /// It is time to read them.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.turns.len() >= BATCH
    }

    /// Writes a fact down.
    #[inline(always)]
    pub(super) fn write(&mut self, fact: &Fact<'_>) {
        let turn = match *fact {
            Fact::Arrived { request } => {
                self.arrived.push(request.clone());
                Turn::Arrived
            }
            Fact::Ended(completion) => {
                self.ended.push(completion.clone());
                Turn::Ended
            }
            Fact::Steps(steps) => {
                self.write_steps(steps);
                match steps.seen {
                    None => Turn::Steps,
                    Some(seen) => {
                        cold_path();
                        self.seen.push(*seen);
                        Turn::SeenSteps
                    }
                }
            }
            _ => self.write_other(fact),
        };
        self.turns.push(turn);
    }

    #[inline(always)]
    fn write_steps(&mut self, steps: &Steps<'_>) {
        match self.loads.get_mut(self.steps.len()) {
            None => self.loads.push(steps.load.clone()),
            Some(kept) => {
                let mut chunks = std::mem::take(&mut kept.chunks);
                chunks.clone_from(&steps.load.chunks);
                *kept = StepLoad {
                    chunks,
                    ..*steps.load
                };
            }
        }
        self.steps.push(steps.at(&ELSEWHERE, None));
    }

    #[inline(always)]
    fn write_other(&mut self, fact: &Fact<'_>) -> Turn {
        self.rare.push(match *fact {
            Fact::Rejected { now, request, why } => Rare::Rejected {
                now,
                request: request.clone(),
                why,
            },
            Fact::Relayed(relay) => Rare::Relayed(*relay),
            Fact::Links { now, uses } => Rare::Links {
                now,
                uses: uses.to_vec(),
            },
            Fact::Returned(part) => Rare::Returned(part.clone()),
            Fact::Tiers { replica, account } => Rare::Tiers {
                replica,
                account: account.clone(),
            },
            _ => {
                self.plain.push(plain(fact));
                return Turn::Plain;
            }
        });
        Turn::Rare
    }

    /// Tells all in the order in which it was written, and forgets it.
    pub(super) fn read_to(&mut self, observer: &mut impl Observer) {
        let mut arrived = self.arrived.iter();
        let mut ended = self.ended.iter();
        let mut steps = self.steps.iter().zip(&self.loads);
        let mut seen = self.seen.iter();
        let (mut plain, mut rare) = (self.plain.iter(), self.rare.iter());
        for turn in self.turns.drain(..) {
            let told = match turn {
                Turn::Arrived => arrived
                    .next()
                    .map(|request| observer.observe(&Fact::Arrived { request })),
                Turn::Ended => ended
                    .next()
                    .map(|completion| observer.observe(&Fact::Ended(completion))),
                Turn::Steps => steps
                    .next()
                    .map(|(steps, load)| observer.observe(&Fact::Steps(&steps.at(load, None)))),
                Turn::SeenSteps => steps.next().zip(seen.next()).map(|((steps, load), seen)| {
                    observer.observe(&Fact::Steps(&steps.at(load, Some(seen))));
                }),
                Turn::Plain => plain.next().map(|fact| observer.observe(fact)),
                Turn::Rare => rare.next().map(|rare| observer.observe(&rare.fact())),
            };
            told.expect("every turn has a fact in its column");
        }
        self.arrived.clear();
        self.ended.clear();
        self.steps.clear();
        self.seen.clear();
        self.plain.clear();
        self.rare.clear();
    }
}

impl Rare {
    fn fact(&self) -> Fact<'_> {
        match self {
            &Rare::Rejected {
                now,
                ref request,
                why,
            } => Fact::Rejected { now, request, why },
            Rare::Relayed(relay) => Fact::Relayed(relay),
            &Rare::Links { now, ref uses } => Fact::Links { now, uses },
            Rare::Returned(part) => Fact::Returned(part),
            &Rare::Tiers { replica, ref account } => Fact::Tiers { replica, account },
        }
    }
}

/// A fact that borrows nothing, for as long as one likes.
#[inline(always)]
fn plain(fact: &Fact<'_>) -> Fact<'static> {
    match *fact {
        Fact::Arrived { .. }
        | Fact::Ended(_)
        | Fact::Steps(_)
        | Fact::Rejected { .. }
        | Fact::Relayed(_)
        | Fact::Links { .. }
        | Fact::Returned(_)
        | Fact::Tiers { .. } => unreachable!("what borrows has a column of its own"),
        Fact::Sent {
            now,
            replica,
            id,
            entry,
        } => Fact::Sent {
            now,
            replica,
            id,
            entry,
        },
        Fact::Admitted {
            now,
            replica,
            id,
            waiting_since,
            queued_since,
            known_tokens,
            cached_tokens,
            resumed,
        } => Fact::Admitted {
            now,
            replica,
            id,
            waiting_since,
            queued_since,
            known_tokens,
            cached_tokens,
            resumed,
        },
        Fact::Loaded {
            now,
            replica,
            id,
            cached_tokens,
            tokens,
        } => Fact::Loaded {
            now,
            replica,
            id,
            cached_tokens,
            tokens,
        },
        Fact::Preempted {
            now,
            replica,
            id,
            running_since,
            lost_tokens,
        } => Fact::Preempted {
            now,
            replica,
            id,
            running_since,
            lost_tokens,
        },
        Fact::Verified {
            now,
            id,
            drafts,
            accepted,
        } => Fact::Verified {
            now,
            id,
            drafts,
            accepted,
        },
        Fact::HandedOver {
            now,
            from,
            to,
            id,
            running_since,
        } => Fact::HandedOver {
            now,
            from,
            to,
            id,
            running_since,
        },
        Fact::Crossing { now, to, id } => Fact::Crossing { now, to, id },
        Fact::Crossed { now, to, id, since } => Fact::Crossed { now, to, id, since },
        Fact::Transferred {
            now,
            from,
            to,
            id,
            bytes,
            asked,
        } => Fact::Transferred {
            now,
            from,
            to,
            id,
            bytes,
            asked,
        },
        Fact::Released {
            now,
            replica,
            id,
            since,
            blocks,
        } => Fact::Released {
            now,
            replica,
            id,
            since,
            blocks,
        },
        Fact::FirstToken {
            now,
            replica,
            id,
            arrival,
        } => Fact::FirstToken {
            now,
            replica,
            id,
            arrival,
        },
        Fact::Gap {
            now,
            replica,
            id,
            gap,
            seen,
        } => Fact::Gap {
            now,
            replica,
            id,
            gap,
            seen,
        },
        Fact::Burst { now, id, tokens } => Fact::Burst { now, id, tokens },
        Fact::Leaving { now, id } => Fact::Leaving { now, id },
    }
}
